/* The reference interpreter of graph IR: plain f64, one op at a time, independent of every pass.
   It is the oracle of all tests. Each value carries a running bound of the error that arithmetic in
   the value's own dtype makes (f32: u = 2^-24, f64: u = 2^-53), with sums associated as docs/ir.md
   says. Where the operands of a comparison overlap within their bounds, the result and all that
   hangs on it is undecided: either outcome is right. */
#pragma once
#include "ir/graph.h"

/* A graph's topology, in the user's edge order. src/dst index their node spaces. */
typedef struct EvalGraph {
    int64_t n_src, n_dst, n_edges;
    const int64_t *src, *dst; /* [n_edges] */
} EvalGraph;

/* Counts and maps of every space of a module, derived graphs included. */
typedef struct EvalWorld {
    Arena *arena;
    int64_t *counts; /* [n spaces] */
    /* [n maps][count of from]; -1: no image. Edge spaces in stored order; computed: as the function that runs has it */
    int64_t **maps;
    uint8_t **open;        /* [n maps] computed ones: [count of from] the image is undecided; else NULL */
    int64_t **element_ids; /* [n spaces][count]: the user's id of each stored element; NULL: identity */
} EvalWorld;

/* An array of integers of the data: [2, n], where `second` is there, else [n]. */
typedef struct EvalList {
    const char *name; /* of the file, without its ending */
    int64_t n;
    const int64_t *first, *second;
} EvalList;

/* What a module's graphs are made of. */
typedef struct EvalData {
    const EvalGraph *graph;  /* for graphs of kind data, which all share it; NULL: none */
    const int64_t *graph_of; /* [n nodes] id of each node's graph; NULL: all 0 */
    int64_t n_graphs;
    const int64_t *counts; /* [n spaces] rows of those of nodes, -1: not given; NULL: none is */
    const EvalList *lists; /* [n_lists] that graphs `file` and `column` read */
    int64_t n_lists;
} EvalData;

/* Builds all spaces of m. NULL with *why on ids out of range, and where something is not given. */
EvalWorld *eval_world_of(Arena *a, const IrModule *m, const EvalData *data, const char **why);
/* The same without lists. data_graph: for graphs of kind data (all such graphs share it; NULL if
   none); graph_of: [n nodes] id of each node's graph, or NULL (all 0), n_graphs their number. NULL
   with *why on ids out of range. */
EvalWorld *eval_world(Arena *a, const IrModule *m, const EvalGraph *data_graph, const int64_t *graph_of,
                      int64_t n_graphs, const char **why);

/* A tensor: rows of a space x width, row-major, stored order of the space. */
typedef struct EvalValue {
    IrType type;
    int64_t rows, width;
    double *v;          /* [rows*width]; bools are 0 or 1 */
    double *err;        /* [rows*width] absolute bound, never negative */
    uint8_t *undecided; /* [rows*width] */
    /* [rows*width] which computation made it: elements of one origin have the same bits in compiled code, so that `x ==
       max(x)` is decided. 0: none (callers leave it so) */
    uint64_t *origin;
} EvalValue;

/* Lists the nonzero elements of `dense`, the value of the tensor that tensor `values` holds the nonzeros of: sets the
   count of their space and the maps of row and column, which eval_world leaves empty. Returns the list's value. */
EvalValue *eval_nonzeros(EvalWorld *w, const IrModule *m, IrId values, const EvalValue *dense);

/* Sets the map that input `tensor` says, whose value x is, and makes the pairs of rows with its keys (graphs `keyed`);
   eval_world leaves it without images, and them empty. */
void eval_said_map(EvalWorld *w, const IrModule *m, IrId tensor, const EvalValue *x);

/* Makes the pairs alone, of a map whose images are set. */
void eval_say_pairs(EvalWorld *w, const IrModule *m, IrId map);

/* Zeros. NULL if it would take more than the memory budget (2 GiB). */
EvalValue *eval_value_new(Arena *a, const IrModule *m, const EvalWorld *w, IrType type);

/* Runs f. args[i] belongs to f->args[i] (err and undecided zero for exact inputs). Returns one
   value per result, or NULL with *why (out of memory budget, an op that only autodiff can remove).
   Integers are held as doubles: one that has no double is undecided. Results may share memory with
   args. */
EvalValue **eval_func(Arena *a, const IrModule *m, const EvalWorld *w, const IrFunc *f, EvalValue *const *args,
                      const char **why);

/* v as a number of the dtype: f32, f16 and bf16 to nearest, ties to even; of others v itself. */
double eval_round(IrDtype t, double v);

/* Philox4x32-10 as docs/ir.md keys it: word for (seed, step, site, element, feature). Uniform in
   [0,1) is (word >> 8) * 2^-24. Shared definition; runtime and kernels implement the same function.
 */
uint32_t eval_philox(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature);

/* A standard normal number of the word's place, as docs/design.md draws them. */
double eval_normal(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature);

/* The edges of `random_graph`, in the user's order: edge e leads from word(e, feature 0) % n_src
   to word(e, feature 16) % n_dst of eval_philox at step 0, site 0. src, dst: [n_edges]. */
void eval_random_edges(int64_t n_src, int64_t n_dst, int64_t n_edges, int64_t seed, int64_t *src, int64_t *dst);
