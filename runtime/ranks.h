/* Full-graph training by several processes (ranks), each of which owns some nodes: with the bits of one process. A rank
   has the rows that it owns first, behind them those that it only reads (halo), as its part of the data says
   (docs/data.md, "Parts"). It owns the edges into its nodes, and has the edges out of them too, so that sums over
   either end of the edges of an owned node have all their elements, in the user's order.

   What a step touches (RtTouch) says which rows have to come from where (ranks_plan.c):
     exchange   rows of a value that peers own are received once it is computed
     total      sums over all nodes: each rank computes some of the blocks of leaves of 512 rows that one process has,
                of operands whose rows are sent to whom the block belongs; all get all sums, and merge them as one does
     column     sums for rows that every process has (columns of a sparse input): likewise, some rows each
   With local_sums each process makes totals and column sums of what it owns (ranks_partial.c), and they are merged.
   docs/distributed.md has the reasons. */
#pragma once
#include "runtime/dataset.h"
#include "runtime/exec.h"
#include "runtime/peers.h"

/* What a part of the data says of one kind of nodes. */
typedef struct RtPartNodes {
    const char *name;          /* "": the data have one kind without a name */
    int64_t owned, n, all;     /* that are owned, here, of the whole graph */
    int64_t inner;             /* of those owned, the first: no edge joins them to others' */
    const int64_t *id;         /* [n] the user's ids: they ascend in inner ones, other owned ones and the rest */
    const int32_t *halo_owner; /* [n - owned] */
    RtBlock blocks[2];
} RtPartNodes;
/* Of the edges that one array of the data says. */
typedef struct RtPartEdges {
    /* of the array: "edge_index", "writes.edge_index", "paper.subject"; of a metapath those of its steps,
       "subject,reverse(subject)" */
    const char *name;
    const char *array; /* that says them */
    int64_t n, all;    /* here, of the whole graph */
    const int64_t *id; /* [n] ascending; NULL: a column, whose edges are numbered as their sources */
    RtBlock block;
} RtPartEdges;
/* A process's part of the data. */
typedef struct RtPart {
    int64_t rank, n_parts;
    RtPartNodes *nodes;
    RtPartEdges *edges;
    int64_t n_kinds, n_arrays;
    const int64_t *graph_id;  /* [n_graphs] the user's numbers of the graphs here; NULL: there is one graph */
    int64_t n_graphs, graphs; /* here, and in all */
    char digest[65];          /* of the whole partition */
    RtBlock graph_ids, names;
} RtPart;
/* Reads DIR/part-RANK; n: processes that there are. DATA_META, DATA_MISSING, RANKS_PARTS. */
RtCode rt_part_load(const char *dir, int rank, int n, RtPart *part, RtStatus *st);
/* Reads what part.json says, where a program is given a single part as if it were a whole data set; *part is empty
   where the folder is no part. */
RtCode rt_part_open(const char *dir, RtPart *part, RtStatus *st);
void rt_part_free(RtPart *part);
int64_t rt_part_bytes(const RtPart *part);
/* NULL: the part knows none of that name. */
const RtPartNodes *rt_part_nodes(const RtPart *part, const char *name);
const RtPartEdges *rt_part_edges(const RtPart *part, const char *name);
/* The pairs of a graph `compose`; NULL: the part has none of its path. path, where given, gets the path's name, "" for
   one that no part can have. */
const RtPartEdges *rt_part_path(const RtPart *part, const RtModel *m, const RtGraphDef *compose, char path[1024]);
/* How many parts DIR/partition.json says that there are. */
RtCode rt_parts_count(const char *dir, int64_t *n, RtStatus *st);
/* Whether the folder holds the parts of a data set. */
bool rt_is_partition(const char *dir);

typedef struct RtRankSpace {
    bool shared; /* its rows are owned by processes; else every process has all of them */
    bool known;  /* rows can be told apart across processes; else no step may touch them */
    bool whole;  /* graphs: each is owned by who owns its nodes and edges, and no process reads those of others */
    int64_t owned, total;
    /* [count] a number for each row that no other row of the space has, ascending in the user's order. Of edges and
       stored elements NULL until rt_space_keys was called */
    const int64_t *keys;
    const int32_t *owner; /* [count - owned] of the rows behind the owned ones */
    int32_t *by_key;      /* [owned] rows of owned ones, by key; NULL: not asked for yet, or their own order */
    int64_t *at;          /* [owned] where one process stores the row; NULL: by key */
    RtBlock blocks[4];
} RtRankSpace;

/* Which rows travel in a run of training (ranks_policy.c). is NULL: those that steps read. */
typedef struct RtPolicyRow RtPolicyRow;
typedef struct RtPolicy {
    const RtPolicyRow *is;
    double a, b; /* its numbers */
} RtPolicy;
/* text as --policy has it, or NULL: exact training. CLI_VALUE with the list of those that there are. */
RtCode rt_policy_parse(const char *text, RtPolicy *p, RtStatus *st);

struct RtTotalShip;
struct RtReach;
struct RtShards;
typedef struct RtRanks {
    RtPeers *peers;
    int rank, n;
    const RtModel *model;
    const RtData *data;
    RtGraph *graph; /* the data's */
    const RtPart *part;
    RtRankSpace *spaces; /* [n_spaces] */
    RtBlock *ids;        /* [n_spaces] of spaces whose ids programs read */
    /* while a step or an exchange runs: what is packed to be sent or received, and operands that were received */
    RtBlock room, operands;
    RtSharedRows weights;       /* of tensors with a row for each node or graph */
    struct RtTotalShip *totals; /* by space and size of blocks, as they were asked for; freed at the end */
    struct RtReach *reached;    /* likewise, by maps (ranks_reach.c) */
    struct RtShards *shards;    /* likewise (ranks_rounds.c) */
    int next_site;              /* of peers */
    bool local_sums;            /* --sums=local; else sums have the bits of one process */
    RtPolicy policy;            /* of the program train_step */
    bool overlap;               /* programs compute while rows travel */
    bool by_nccl;               /* rows go from device to device, where programs run on some */
    struct RtNccl *nccl;        /* which has to be open when a program is run so */
    const struct RtAcrossOps *across;
    RtCode failed; /* of an exchange while a program ran */
    RtStatus status;
} RtRanks;

/* Of what processes send: what says which rows travel, and each epoch whether a signal came; then one for each thing
   that travels while programs run. */
enum { RT_SITE_SETUP, RT_SITE_SIGNAL, RT_SITE_FIRST };

/* RANKS_REFUSED: some graph of the model is none that processes can share, whatever its edges are. */
RtCode rt_ranks_check(const RtModel *m, const RtPart *part, RtStatus *st);
/* Tells d's graph what is owned. It must not be shared yet; d and part outlive *r. */
RtCode rt_ranks_create(const RtModel *m, const RtData *d, const RtPart *part, RtPeers *peers, RtRanks **r,
                       RtStatus *st);
void rt_ranks_free(RtRanks *r);
/* Sees to it that the space, of which the process owns rows, has keys. */
RtCode rt_space_keys(RtRanks *r, int64_t space, RtStatus *st);
int64_t rt_reach_bytes(const RtRanks *r);
void rt_reach_free(RtRanks *r);
int64_t rt_shards_bytes(const RtRanks *r);
void rt_shards_free(RtRanks *r);

/* Rows that travel between processes each time, from one array to another. */
typedef struct RtShip {
    int64_t *out_n, *in_n;      /* [ranks] rows to and from each */
    int64_t n_out, n_in, n_own; /* in all; that stay in the process, of both */
    int64_t *out;               /* [n_out] rows of the source, by receiver */
    int64_t *in;                /* [n_in] rows of the target, by sender */
    RtBlock block;
} RtShip;
/* Owned rows to whom the blocks belong that one process has them in. */
typedef struct RtTotalShip {
    int64_t space, block_rows;
    RtShip ship;
    struct RtTotalShip *next;
} RtTotalShip;
/* A ship that brings n rows of other processes here: owners[i] owns the row keys[i] of the space, which goes to row
   to[i] of the target. Called by all processes together. */
RtCode rt_ship_ask(RtRanks *r, int64_t space, int64_t n, const int64_t *keys, const int32_t *owners, const int64_t *to,
                   RtShip *s, RtStatus *st);
/* A ship that takes n rows of this process elsewhere: receivers[i] gets row rows[i] and finds to[i] in its s->in, as
   the row of the target. Called by all processes together. */
RtCode rt_ship_push(RtRanks *r, int64_t n, const int64_t *rows, const int32_t *receivers, const int64_t *to, RtShip *s,
                    RtStatus *st);
/* Rows of row_bytes bytes from one array to another, which may be the same where nothing stays. In halves, as
   rt_peers_rows_begin: rows of other processes are taken from where they lie and put where they go while they travel,
   those that stay are moved at the end. room: what comes waits there until the end, n_in - n_own rows side by side;
   NULL: it does not wait. */
RtCode rt_ship_begin(RtRanks *r, const RtShip *s, int site, const void *from, void *to, int64_t row_bytes, void *room,
                     int *flight, RtStatus *st);
RtCode rt_ship_finish(RtRanks *r, const RtShip *s, int flight, const void *from, void *to, int64_t row_bytes,
                      const void *room, RtStatus *st);
RtCode rt_ship_run(RtRanks *r, const RtShip *s, int site, const void *from, void *to, int64_t row_bytes, RtStatus *st);
int64_t rt_ship_rows_out(const RtRanks *r, const RtShip *s); /* to other processes */
int64_t rt_ship_bytes(const RtShip *s, int64_t row_bytes);   /* of rows to and from other processes */
void rt_ship_free(RtShip *s);

/* Owned rows of all processes, in the user's order, on rank 0; elsewhere *all is empty. */
RtCode rt_ranks_collect(RtRanks *r, int64_t space, int64_t row_bytes, const void *rows, RtBlock *all, RtStatus *st);

/* ---- a program: what travels (ranks_plan.c, ranks_divide.c), and its run (ranks_run.c) ---- */

struct RtAcross;
typedef struct RtTravel { /* what travels each time that a program runs */
    int64_t step;         /* before it, or behind it */
    /* "rows" of peers, "operands" of a step whose work is shared out, "results" of one; "partials": sums of own rows */
    const char *kind;
    const char *name; /* of the buffer */
    bool once;        /* in the first run only */
    int64_t row_bytes;
    int64_t rows_out, bytes_out; /* from this process to others */
    int site;
    int64_t buffer;
    const int64_t *rows_to; /* [ranks] also to itself; NULL: what rt_travel_rows says */
    int64_t rounds;
    int64_t exchange;     /* of rows: its number, from 0 on; else -1 */
    int64_t divided, sum; /* a sum that processes merge together, and */
    int round;            /* which of its rounds it is; -1: of none */
    int64_t sum_bytes;
} RtTravel;
/* Lists what travels in a run, in the order of steps, and returns how many entries that are. out NULL: only counts. */
int64_t rt_across_travels(const struct RtAcross *a, RtTravel *out);
/* Rows from this process to another. */
int64_t rt_travel_rows(const struct RtAcross *a, const RtTravel *t, int to);

/* Rows of peers that this process sends in a run of a program that a policy changes: bytes in the mean of many runs,
   where values decide at least and at most; and those that tell the others which. */
typedef struct RtPolicyBytes {
    double least, most;
    int64_t votes, rounds;
} RtPolicyBytes;
bool rt_policy_bytes(const struct RtAcross *a, RtPolicyBytes *out); /* false: all travel, as rt_across_travels says */

/* For who simulates a program under its policy. What takes the place of an exchange travels in rounds, one behind the
   other; numbers behind those of exchanges are sums that are sent back (bns). */
typedef struct RtPolicyFacts {
    double least, most; /* share of runs in which rows travel; where values decide, at least and at most */
    bool votes;         /* the first round of each exchange says whether rows travel */
    bool packed;        /* rows are packed for each process; else those lie side by side that are sent */
    bool late;          /* rows are read in the next run, and travel until then */
    bool overlaps;      /* steps are computed while other things travel */
    bool exact;         /* the bits of training without a policy */
    int64_t n_exchanges, n_pushes;
} RtPolicyFacts;
void rt_policy_facts(const struct RtAcross *a, RtPolicyFacts *out);
int64_t rt_policy_rounds(const struct RtAcross *a, int64_t exchange);
/* From this process to another, in the mean of runs in which rows travel. */
double rt_policy_round_bytes(const struct RtAcross *a, int64_t exchange, int64_t round, int to);
/* What this process stores, row by row, of what comes in a round of rows that are not packed. */
double rt_policy_round_stored(const struct RtAcross *a, int64_t exchange, int64_t round);
/* The step that makes a sum that is sent back, and its buffer. */
int64_t rt_policy_push_step(const struct RtAcross *a, int64_t exchange, int64_t *buffer);

/* Bytes that a step moves by its cost formula, or operations where it says no bytes: of this process's share of it, of
   one process that has the whole graph, and of a program that no processes share. */
double rt_across_work(const struct RtAcross *a, int64_t step);
double rt_ranks_work(const RtRanks *r, const RtExec *e, int64_t step);
double rt_exec_work(const RtExec *e, int64_t step);

/* Bytes that a process takes for a program beside its planned memory: which rows travel, operands that were sent once,
   room in which rows travel, and operands of a step. Programs share the last two. Where it runs on a device,
   page-locked memory in which rows are staged, and memory of the device beside the planned one. */
typedef struct RtAcrossBytes {
    int64_t tables, once, room, operands, staged, device;
} RtAcrossBytes;
void rt_across_bytes(const struct RtAcross *a, RtAcrossBytes *out);
/* What it takes for all programs together, its part's ids with it. */
int64_t rt_ranks_bytes(const RtRanks *r);

/* How exec.c runs such a program: a table, so that libraries, which have no ranks, hold none of these functions. */
typedef struct RtAcrossOps {
    /* Which rows travel when e's program runs. RANKS_REFUSED where a step cannot be shared. Called by all together. */
    RtCode (*make)(RtExec *e, struct RtAcross **a, RtStatus *st);
    /* [n_slots] rows that each has to hold, those of the halo only where some step touches them; -1: what its count
       says */
    const int64_t *(*slots)(const struct RtAcross *a);
    /* Once e has its places: where lies what travels. */
    RtCode (*place)(struct RtAcross *a, RtStatus *st);
    void (*free)(struct RtAcross *a);
    /* Which rows the i-th step computes: the owned ones (RT_OWNED), or those of the halo as well (RT_READ). */
    RtRows (*rows)(const struct RtAcross *a, int64_t step);
    void *(*strip)(const struct RtAcross *a, int64_t buffer); /* memory for all rows of a buffer of kind RT_BUF_STRIP */
    /* Called whenever e was bound: what is sent once will be sent in the next run. */
    RtCode (*bind)(struct RtAcross *a, RtStatus *st);
    /* Once e is bound: all its steps and what travels between them. The first failure is kept in ranks->failed. */
    void (*run)(struct RtAcross *a);
    /* Waits for what is on its way from one run to the next. Called by all together, once no run follows. */
    RtCode (*settle)(struct RtAcross *a, RtStatus *st);
} RtAcrossOps;
extern const RtAcrossOps rt_across;
