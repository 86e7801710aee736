/* What a run by many processes would take, computed and not run: the links between ranks (sim_links.c), gathers and
   sums of all ranks as tables of stages (sim_stages.c), the order in which transfers are begun (sim_order.c), and a
   program whose ranks compute, send and wait (sim_replay.c). Nothing here knows a model; cli_sim.c does. Times are in
   seconds. */
#pragma once
#include "runtime/memory.h"
#include "runtime/status.h"

/* ---- links ---- */

enum { RT_SIM_LEVELS = 8 };

/* Ranks that are neighbours in number are near: two are joined by the lowest level whose groups hold both. */
typedef struct RtSimLevel {
    char name[32];
    int64_t ranks;  /* of a group; the last level's holds all */
    double alpha_s; /* until the first byte of a message arrives */
    double bytes_per_s;
    int64_t shared_by; /* ranks that share a link of this level, in and out */
    double message_s;  /* that each message takes of its link beside its bytes */
} RtSimLevel;
typedef struct RtSimTopology {
    RtSimLevel levels[RT_SIM_LEVELS]; /* innermost first */
    int n_levels;
} RtSimTopology;

/* One level: 100 Gb/s, alpha 5 us, a link for each rank. */
void rt_sim_topology_default(RtSimTopology *t);
/* Reads a file as docs/distributed.md says. FILE_OPEN, JSON_SYNTAX, SIM_TOPOLOGY. */
RtCode rt_sim_topology_load(const char *path, RtSimTopology *t, RtStatus *st);
/* The level that joins two ranks that differ. */
int rt_sim_level(const RtSimTopology *t, int a, int b);

typedef struct RtSimMessage {
    int from, to; /* which differ */
    double bytes;
} RtSimMessage;

/* Links with work, at a moment of a simulated run. */
typedef struct RtSimLinks {
    const RtSimTopology *topology;
    int n;
    double *out_free, *in_free; /* [n_levels][n] when a link has sent, or received, all that it was given */
    double *out_done, *in_done; /* scratch of one exchange, likewise */
    struct RtSimBegin *begins;  /* scratch: [n] */
    double *bytes;              /* [n_levels] that have travelled */
    int64_t messages;
    RtBlock block;
} RtSimLinks;
RtCode rt_sim_links_create(const RtSimTopology *t, int n, RtSimLinks *l, RtStatus *st);
void rt_sim_links_free(RtSimLinks *l);
/* Messages, by sender from rank 0 on, that ranks begin at start[n]; finish[n]: when each rank has all that it receives.
   A link carries what it is given in the order of its beginnings, at full rate, and shares its rate among the messages
   of one sender, which arrive together, alpha behind the last byte. waits: a rank waits, as in rt_peers_exchange, until
   it has sent all as well. */
void rt_sim_exchange(RtSimLinks *l, const RtSimMessage *m, int64_t n_messages, bool waits, const double *start,
                     double *finish);

/* ---- gathers and sums of all ranks ---- */

typedef enum { RT_SIM_FLAT, RT_SIM_RING, RT_SIM_STAGED, RT_SIM_N_SHAPES } RtSimShape;
extern const char *const rt_sim_shapes[RT_SIM_N_SHAPES];

/* A vector has a piece for each rank. What is sent: pieces first, first + step, ..., count of them. */
typedef struct RtSimSend {
    int from, to;
    int first, step, count;
    bool adds; /* the receiver adds what comes to what it has, else it takes it */
} RtSimSend;
typedef struct RtSimStages {
    int n_stages;
    int64_t *bounds;  /* [n_stages + 1] of sends */
    RtSimSend *sends; /* of one stage: all read what was there before it */
    RtBlock block;
} RtSimStages;
/* A table for n ranks. gather: each has its piece and gets all; else each has a vector, and gets the sum of all.
     flat     each to each, in one stage; for sums in two: each sums a piece of all, and sends it to all
     ring     around all ranks, a piece a stage
     staged   BlueConnect (Cho, Finkler, Serrano, Kung, Hunter, MLSys 2019): for sums, rings inside the groups of each
              level from the innermost out, each on the pieces that are left to it; then back inwards, gathering
   SIM_TOPOLOGY: staged, and the groups of a level do not divide n. */
RtCode rt_sim_stages_make(const RtSimTopology *t, int n, RtSimShape shape, bool gather, RtSimStages *s, RtStatus *st);
void rt_sim_stages_free(RtSimStages *s);
/* All stages, one behind the other for each rank. piece_bytes[n]. at[n]: when each begins, and then when it is
   through. */
RtCode rt_sim_stages_run(RtSimLinks *l, const RtSimStages *s, const double *piece_bytes, double *at, RtStatus *st);

/* ---- the order of transfers ---- */

enum { RT_SIM_RECEIVES = 64 };

/* What a rank receives over one link, one after the other, and what it computes meanwhile. */
typedef struct RtSimDag {
    int n_receives, n_computes;
    const double *receive_s, *compute_s;
    const uint64_t *receives; /* [n_computes] that a step waits for, itself or by the steps that it waits for */
} RtSimDag;
/* TicTac (Hashemi, Jyothi, Campbell, MLSys 2019). TAC: by times; TIC: by what waits for what alone.
   order[n_receives] */
void rt_sim_order_tac(const RtSimDag *d, int *order);
void rt_sim_order_tic(const RtSimDag *d, int *order);

/* ---- a program ---- */

typedef enum { RT_SIM_BLOCKING, RT_SIM_AS_MADE, RT_SIM_TIC, RT_SIM_TAC, RT_SIM_N_ORDERS } RtSimOrder;

/* Rows from rank to rank, which are packed; a round of a sum, from rank to rank; each rank's piece to all; or sums of
   all ranks' vectors, in all. */
typedef enum { RT_SIM_ROWS, RT_SIM_ROUND, RT_SIM_GATHER, RT_SIM_SUM } RtSimKind;

/* What travels in a run. In blocking order all ranks stop for it, before or behind a step, as with --overlap off. With
   overlap it is begun behind the step that makes it, and waited for before the first that reads it. */
typedef struct RtSimTravel {
    int64_t step;   /* -1: before all */
    bool before;    /* the step, else behind it */
    int64_t made;   /* the step that makes it; -1: it is there */
    int64_t reader; /* the first step that reads it; n_steps: none does in this run */
    RtSimKind kind;
    bool follows; /* a rank begins it when it has what the one before it in the list brings */
} RtSimTravel;
typedef struct RtSimProgram {
    int n;
    int64_t n_steps, n_travels;
    const RtSimTravel *travels; /* in the order of steps */
    double copy_s;              /* to pack or unpack a byte of rows */
    double (*step_s)(const void *user, int rank, int64_t step);
    /* from one rank to another; of gathers and sums: of the first's piece */
    double (*bytes)(const void *user, int64_t travel, int from, int to);
    /* bytes that a rank unpacks of a round; NULL: none */
    double (*unpacked)(const void *user, int64_t travel, int rank);
    const void *user;
} RtSimProgram;
typedef struct RtSimResult {
    double run_s;                              /* until the last rank is through */
    double compute_s[2], copy_s[2], wait_s[2]; /* of a rank: mean, most */
    double gathers_s;                          /* gathers and sums, each begun by all ranks at once */
    double bytes[RT_SIM_LEVELS];
    int64_t messages;
} RtSimResult;
/* One run that all ranks begin at once. In overlap, what is made by one step is begun in the order as it is made, or by
   TIC or TAC, which is the same for all ranks. SIM_TOPOLOGY as rt_sim_stages_make. */
RtCode rt_sim_replay(const RtSimProgram *p, const RtSimTopology *t, RtSimOrder order, RtSimShape gathers,
                     RtSimResult *out, RtStatus *st);
