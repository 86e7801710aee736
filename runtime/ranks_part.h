/* What the files ranks_*.c share. Private to them. */
#pragma once
#include "runtime/blocks.h"
#include "runtime/ranks.h"

enum { RT_NO_OTHER = -2 };

/* Rows of a buffer that travel to the step that reads them. */
typedef struct RtSent {
    int64_t buffer;
    int64_t image; /* it is read at the images of rows or elements under this map; -1: at them */
    int64_t other; /* and under this one, whose rows lie behind the others; RT_NO_OTHER: in one way */
    int64_t row_bytes;
    bool once;        /* it is the same in each run of a bound program */
    bool there;       /* and has been sent */
    int64_t n, first; /* rows that it has here, and what kernels call the first one */
    const RtShip *ship;
    const RtShip *joins; /* of a value that is read in two ways: the ship of the first, `ship` brings both */
    const int64_t *rows; /* [n_out] where the source's row is an image: of the value, not of the row; NULL: ship->out */
    struct RtSent *of;   /* the same rows of the same value, which an earlier step was sent; or NULL */
    int64_t last;        /* step that reads it */
    /* Of what is sent in each run: where it lies, in planned memory that no step between uses, or in
       RtRanks.operands */
    bool planned;
    bool waits; /* what comes waits in room until the step: its place has another value while it travels */
    bool late;  /* some rows may be those that peers own: it travels right before the step, once they have come */
    int64_t offset;
    RtBlock memory;   /* of what is sent once */
    char *at, *base;  /* of the first row, and of the row that kernels call 0, on a device there */
    int64_t there_at; /* on a device: where it lies for kernels (ranks_staging.c) */
} RtSent;

/* A step over all rows of a space whose work is shared by its iterations: blocks of a total, or rows of a column
   sum. */
typedef struct RtDivided {
    int64_t step;
    int64_t from, to;      /* iterations of this process */
    int64_t *bounds;       /* [ranks + 1] of all: blocks or rows; where merged, units whose sums each process has */
    int64_t first, n_rows; /* totals: rows of its blocks; column sums: elements of its rows */
    RtSent *sent;
    int64_t n_sent;
    RtShip rows;    /* of the elements of a column sum */
    RtShip *images; /* by map: distinct images of elements; empty where none is read */
    int64_t *n_images;
    int32_t **image_at;  /* by map: [n_rows] which of the distinct images an element has */
    int64_t *row_starts; /* column sums: [rows + 1] where the elements of each begin */
    /* 0, 1, 2, ... as the images and as the ids of rows; biased as base is. NULL where the kernel reads neither */
    int32_t *counting;
    int64_t *ids;
    /* Where a value is read in two ways, as h.src * h.dst: images under maps that are [n_maps] `aside` lie behind the
       others, and totals have `behind`, n_rows, n_rows + 1, ..., for such maps. NULL: no value is read so */
    bool *aside;
    int32_t *behind;
    int64_t *results, n_results; /* buffers whose rows its iterations make */
    /* column sums: values of elements that the step makes as well, for those that it received, and sends to their
       owners. Their `of` is the operand in whose place the kernel makes them, or NULL */
    RtSent *returned;
    int64_t n_returned;
    RtShip back; /* `rows` the other way; without memory of its own */
    /* ranks_merge.c: sums of units are merged by processes together. Kernels know the blocks of this process alone,
       from 0 on. NULL: all get the results of all iterations, and steps of the program merge them */
    int64_t *merges;   /* [n_results] RT_ADDS ... */
    int64_t n_units;   /* of all processes: blocks; or processes, where each sums its own rows */
    RtBlocks cut;      /* totals: of all rows */
    bool own;          /* ranks_partial.c: each process makes whole sums of its own rows, and nothing is sent before */
    int32_t *elements; /* column sums: those that are owned, by row */
    RtBlock *blocks;
    int64_t n_blocks, cap_blocks;
} RtDivided;

typedef struct RtExchange { /* rows of a buffer that peers own */
    int64_t after;          /* the step that makes them; -1: they are given */
    int64_t buffer, row_bytes;
    RtShip ship;
    int site;
} RtExchange;

typedef struct RtAcross {
    RtExec *e;
    RtRanks *r;
    RtRows *rows;          /* [n_steps] that each computes */
    int64_t *slots;        /* [n_slots] that each holds; -1: those that its count says */
    RtExchange *exchanges; /* from the last step to the first */
    int64_t n_exchanges;
    RtDivided *divided; /* by step */
    int64_t n_divided;
    RtBlock *strips; /* [n_buffers] */
    int64_t room_bytes, operand_bytes;
    int results_site, operands_site; /* of all that divided steps send */
    RtTravel *travels;
    int64_t n_travels;
    bool ran;                   /* since it was bound: what is sent once has been */
    struct RtPolicyRun *policy; /* NULL: rows travel as the exchanges say */
    struct RtOverlap *overlap;  /* NULL: nothing is computed while rows travel */
    int64_t room_free;          /* of the room, where nothing in flight lies */
    struct RtStaging *staging;  /* NULL: steps run on this CPU */
} RtAcross;

static inline const RtStep *across_def(const RtAcross *a, int64_t i)
{
    return &a->e->model->steps[a->e->program->first_step + i];
}
static inline const RtBuffer *across_buffer(const RtAcross *a, int64_t b)
{
    return &a->e->model->buffers[a->e->program->first_buffer + b];
}
static inline const RtTouch *across_touch(const RtAcross *a, int64_t step, int64_t i)
{
    return &a->e->model->touches[across_def(a, step)->first_touch + i];
}
/* Whose rows the buffer has; -1: of none. */
static inline int64_t across_space(const RtAcross *a, int64_t buffer)
{
    const RtBuffer *b = across_buffer(a, buffer);
    return b->rows.kind == RT_COUNT_SPACE ? b->rows.space : -1;
}
static inline bool across_writes(const RtAcross *a, int64_t step, int64_t buffer)
{
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++)
        if (across_touch(a, step, i)->buffer == buffer && across_touch(a, step, i)->writes) return true;
    return false;
}
/* For what is sent and waited for at once. */
static inline void *across_room(const RtAcross *a) { return (char *)a->r->room.p + a->room_free; }
static inline int64_t across_row_bytes(const RtAcross *a, int64_t b)
{
    return across_buffer(a, b)->width * rt_elem_bytes(across_buffer(a, b)->elem);
}

/* Whether steps run on a device, also where a plan opens none. */
static inline bool across_is_there(const RtAcross *a) { return a->e->options.device || a->e->options.on_device; }

/* Whether a step finds all rows that a touch names among those that this process owns: rows that it computes, elements
   of these, or images that are owned together with either. */
bool rt_across_reads_owned(const RtAcross *a, int64_t step, const RtTouch *t);

/* Sets of rows, as bits, which are kept until the end (ranks_reach.c): the elements that a map leads to owned rows. */
RtCode rt_reach_elements(RtRanks *r, int64_t under, const uint64_t **bits, RtStatus *st);
/* The rows of peers that `image` leads to from these; under < 0: from owned rows of where it begins. */
RtCode rt_reach_rows(RtRanks *r, int64_t under, int64_t image, const uint64_t **bits, RtStatus *st);
/* The rows that `under` leads to from elements from which `image` leads to rows of peers; image < 0: from elements of
   peers. */
RtCode rt_reach_readers(RtRanks *r, int64_t under, int64_t image, const uint64_t **bits, RtStatus *st);

RtCode rt_across_make(RtExec *e, RtAcross **a, RtStatus *st);
RtCode rt_across_place(RtAcross *a, RtStatus *st);
void rt_across_free(RtAcross *a);
/* Makes what a total or a column sum sends. */
RtCode rt_divided_make(RtAcross *a, int64_t step, RtDivided *d, RtStatus *st);
/* Once all were made: where their operands lie. */
RtCode rt_divided_place(RtAcross *a, RtStatus *st);
/* Before a run: memory of operands may have grown since the last. */
RtCode rt_divided_begin(RtAcross *a, RtDivided *d, RtStatus *st);
/* Once e is bound: what is sent once will be sent in the next run. */
void rt_divided_bind(RtAcross *a, RtDivided *d);
RtCode rt_divided_run(RtAcross *a, RtDivided *d, RtStatus *st);
void rt_divided_free(RtAcross *a, RtDivided *d);
static inline int64_t rt_sent_bytes(const RtSent *x)
{
    return rt_size_plus(512, x->n, x->row_bytes); /* kernels look ahead */
}
/* The step behind which an operand of each run begins to travel to `step`; -1: before all. */
int64_t rt_sent_begin(const RtAcross *a, int64_t step, const RtSent *x);
/* Zeroed memory that lives as long as d. */
RtCode rt_divided_take(RtDivided *d, int64_t n, int64_t each, void *out, RtStatus *st);
void rt_divided_iterate(const RtAcross *a, const RtDivided *d); /* this process's iterations */

/* Sums that each process makes of its own rows (ranks_partial.c). */
RtCode rt_partial_make(RtAcross *a, RtDivided *d, RtStatus *st);
void rt_partial_bind(RtAcross *a, RtDivided *d);
RtCode rt_partial_run(RtAcross *a, RtDivided *d, RtStatus *st);

/* Sums that processes merge together (ranks_merge.c). Whether all that a step sums can be, without other bits. */
bool rt_merge_can(const RtAcross *a, int64_t step);
/* At most so many blocks of a total, where one process makes `most`: as many more as processes have work by them. */
int64_t rt_merge_blocks_most(const RtAcross *a, int64_t most);
/* Once d says its units. */
RtCode rt_merge_make(RtAcross *a, RtDivided *d, RtStatus *st);
/* The i-th sum travels in so many rounds: first to those who merge it, then, where slices are merged, back. In a round
   this process sends so many elements of it to another. */
int rt_merge_rounds(const RtAcross *a, const RtDivided *d, int64_t i);
int64_t rt_merge_bytes(const RtAcross *a, const RtDivided *d, int64_t i); /* of the sum */
bool rt_merge_is_back(const RtAcross *a, const RtDivided *d, int64_t i, int round);
int64_t rt_merge_elements(const RtAcross *a, const RtDivided *d, int64_t i, int round, int to);
/* The first row of the i-th result, of all units; where processes make whole sums of their own rows, from those of
   their blocks. */
RtCode rt_merge_run(RtAcross *a, const RtDivided *d, int64_t i, RtStatus *st);

/* The policy of r->policy, where a is a step of training. Called by all processes together. */
typedef struct RtPolicyRun RtPolicyRun;
RtCode rt_policy_make(RtAcross *a, RtStatus *st);
void rt_policy_free(RtAcross *a);
RtCode rt_policy_bind(RtAcross *a, RtStatus *st);   /* all rows travel in the next run */
RtCode rt_policy_settle(RtAcross *a, RtStatus *st); /* waits for what is on its way to the next run */
void rt_policy_begin(RtAcross *a);                  /* a run begins */
/* In place of rt_ship_run, and says itself what it sends. */
RtCode rt_policy_run(RtAcross *a, int64_t exchange, RtStatus *st);
RtCode rt_policy_after(RtAcross *a, int64_t step, RtStatus *st); /* once a step has run, before exchanges behind it */
/* Whether what a step computes for rows of nodes is received by who reads it, also where it could be computed there. */
bool rt_policy_receives(const RtAcross *a, int64_t step);
bool rt_policy_draws(const RtAcross *a);      /* some rows, and adds to what a step has made */
bool rt_policy_has_rounds(const RtAcross *a); /* rows come while a step sums over others */
/* Rows that a buffer has room for, by the policy; -1: as without it. */
int64_t rt_policy_room(const RtAcross *a, int64_t buffer);
/* Whether the policy runs the step, which then says itself what it sends. */
bool rt_policy_steps(const RtAcross *a, int64_t step);
RtCode rt_policy_step(RtAcross *a, int64_t step, RtStatus *st);

/* Whether steps are computed while rows travel: not where drawn sums come to a value that is made already, and not
   where a policy does so itself. */
static inline bool across_overlaps(const RtAcross *a)
{
    return a->r->overlap && !rt_policy_draws(a) && !rt_policy_has_rounds(a);
}

/* The policy bns (ranks_sample.c): some rows, which are drawn. */
struct RtSample;
RtCode rt_sample_make(RtAcross *a, double share, struct RtSample **p, RtStatus *st);
void rt_sample_free(struct RtSample *p);
/* Whether values of a step may have gradients: all that is not of inputs and random numbers alone. */
bool rt_sample_trains(const RtAcross *a, int64_t step);
int64_t rt_sample_pushes(const struct RtSample *p); /* sums that are sent back, numbered behind the exchanges */
int64_t rt_sample_push_step(const RtAcross *a, const struct RtSample *p, int64_t exchange, int64_t *buffer);
bool rt_sample_travels(const struct RtSample *p, int64_t exchange);
double rt_sample_bytes(const RtAcross *a, const struct RtSample *p, int64_t exchange, int to); /* in the mean */
void rt_sample_begin(const RtAcross *a, struct RtSample *p);
RtCode rt_sample_run(RtAcross *a, const struct RtSample *p, int64_t exchange, RtStatus *st);
RtCode rt_sample_push(RtAcross *a, const struct RtSample *p, int64_t step, RtStatus *st);

/* The policy sar (ranks_rounds.c): rows of peers of which a step makes sums come in rounds, a process's at a time. */
struct RtRounds;
RtCode rt_rounds_make(RtAcross *a, int64_t depth, struct RtRounds **p, RtStatus *st);
void rt_rounds_free(struct RtRounds *p);
bool rt_rounds_moves(const struct RtRounds *p, int64_t exchange);   /* its rows come so; else all at once */
int64_t rt_rounds_rows(const struct RtRounds *p, int64_t exchange); /* that its buffer then has room for */
bool rt_rounds_runs(const struct RtRounds *p, int64_t step);        /* the step runs so */
RtCode rt_rounds_run(RtAcross *a, const struct RtRounds *p, int64_t step, RtStatus *st);
/* In how many rounds rows of an exchange travel, over all steps that read them; and how many rows this process sends to
   another in one of these rounds. */
int64_t rt_rounds_of(const RtAcross *a, const struct RtRounds *p, int64_t exchange);
int64_t rt_rounds_rows_to(const RtAcross *a, const struct RtRounds *p, int64_t exchange, int64_t round, int to);

/* ---- what is computed while rows travel (ranks_overlap.c) ---- */

typedef struct RtOverlap RtOverlap;
/* Where across_overlaps, once it is known what travels and what room the rest needs; then, whenever a is bound. */
RtCode rt_overlap_make(RtAcross *a, RtStatus *st);
RtCode rt_overlap_bind(RtAcross *a, RtStatus *st);
void rt_overlap_free(RtOverlap *o);
/* Runs a step that is not shared out, with what travels behind it and before it. */
RtCode rt_overlap_step(RtAcross *a, int64_t step, RtStatus *st);
/* Iterations [lo, hi) of a step, while whatever is in flight moves. */
void rt_overlap_iterate(const RtAcross *a, int64_t step, int64_t lo, int64_t hi);
RtCode rt_overlap_begin(RtAcross *a, int64_t step, RtStatus *st); /* -1: what is given */
/* Waits for the rows that peers own and the step, which is shared out, reads or sends. */
RtCode rt_overlap_rows(RtAcross *a, int64_t step, RtStatus *st);
/* x->at gets the operands of each run. */
RtCode rt_overlap_sent(RtAcross *a, const RtSent *x, RtStatus *st);
RtCode rt_overlap_end(RtAcross *a, RtStatus *st);
/* So many more things are on their way that this module did not begin: steps run in pieces. */
void rt_overlap_flies(RtAcross *a, int more);

/* ---- on a device: what travels is staged in memory of the host (ranks_staging.c) ---- */

typedef struct RtStaging RtStaging;
/* Once it is known what travels; does nothing where steps run on this CPU, as all of these. */
RtCode rt_staging_make(RtAcross *a, RtStatus *st);
void rt_staging_bytes(const RtAcross *a, int64_t *host, int64_t *device); /* that it takes beside the planned memory */
RtCode rt_staging_bind(RtAcross *a, RtStatus *st);                        /* takes them */
void rt_staging_free(RtAcross *a);
/* Of a buffer whose rows travel: where processes send them from and receive them. On this CPU the buffer itself. */
char *rt_staging_rows(const RtAcross *a, int64_t buffer);
/* Where kernels have row 0 of an operand, and a table of d's; on this CPU where the host has it. */
char *rt_staging_base(const RtAcross *a, const RtSent *x);
void *rt_staging_table(const RtAcross *a, const RtDivided *d, void *table);
/* Rows [first, first + n) of a buffer from the device, once steps that were begun are done; and to it. */
RtCode rt_staging_fetch(const RtAcross *a, int64_t buffer, int64_t first, int64_t n, RtStatus *st);
RtCode rt_staging_store(const RtAcross *a, int64_t buffer, int64_t first, int64_t n, RtStatus *st);
/* Those that a ship takes, with others between them; and those that it has brought: of an exchange, or of
   RtDivided.back. */
RtCode rt_staging_fetch_sent(const RtAcross *a, int64_t buffer, const RtShip *s, RtStatus *st);
RtCode rt_staging_store_got(const RtAcross *a, int64_t buffer, const RtShip *s, RtStatus *st);
RtCode rt_staging_store_operand(const RtAcross *a, const RtSent *x, RtStatus *st);
RtCode rt_staging_fetch_operand(const RtAcross *a, const RtSent *x, RtStatus *st); /* values that are sent back */
/* Whether what travels in each run goes from device to device; then this is begun in place of all of the above, behind
   the steps that were, and before those that will be: rows of a buffer to itself, or, where x is one, to that
   operand. */
static inline bool across_links(const RtAcross *a) { return a->staging && a->r->nccl; }
RtCode rt_staging_link(const RtAcross *a, int64_t buffer, const RtShip *s, const RtSent *x, int site, RtStatus *st);
RtCode rt_staging_settle(const RtAcross *a, RtStatus *st); /* until all of that is over */
