/* Storage of a model's tensors for one graph: parameters, optimiser state, hypers, and inputs.
   Row-major in the stored order of their space, without padding. */
#pragma once
#include "runtime/array.h"
#include "runtime/graph.h"

struct RtRanks;
typedef struct RtRowIds {
    const int64_t *ids; /* [rows here] the user's numbers; NULL: all rows are here */
    int64_t total;
} RtRowIds;
/* Tensors of whose rows this process has some, and others the rest. */
typedef struct RtSharedRows {
    RtRowIds *of; /* [n_tensors] */
    /* Rows of all processes, in the user's order, from those that each has; empty but on the one that writes files.
       Called by all together. */
    RtCode (*collect)(struct RtRanks *r, int64_t tensor, const void *rows, RtBlock *all, RtStatus *st);
    struct RtRanks *ranks;
} RtSharedRows;

typedef struct RtTensors {
    const RtModel *model;
    const RtGraph *graph;       /* that the rows are of; NULL: none is there */
    const RtSharedRows *shared; /* NULL: all rows of all are here */
    void **data;                /* [n_tensors] NULL: not present */
    int64_t *counts;            /* [n_tensors] elements */
    RtBlock *blocks;            /* [n_tensors] what is owned */
} RtTensors;

/* Allocates parameters, state and hypers; inputs and what is held stay NULL. `g` gives the rows of tensors that have
   a space. */
RtCode rt_tensors_create(const RtModel *m, const RtGraph *g, RtTensors *t, RtStatus *st);
/* Counts elements again, where a space got its rows after t was created: none of those had memory. */
void rt_tensors_count(RtTensors *t, const RtGraph *g);
void rt_tensors_free(RtTensors *t);
/* Memory for one more tensor (an input). */
RtCode rt_tensors_alloc(RtTensors *t, int64_t tensor, RtStatus *st);
/* The same, of an array with spare bytes, whose elements it has: *a has none then. */
void rt_tensors_take(RtTensors *t, int64_t tensor, RtArray *a);
/* The user's numbers of a tensor's rows; NULL: it has all, in order. */
static inline const int64_t *rt_tensor_rows(const RtTensors *t, int64_t tensor)
{
    return t->shared ? t->shared->of[tensor].ids : NULL;
}
/* The user's number of each row of a tensor, whose rows may also stand in the order of its graph; NULL: they stand in
   the user's. */
static inline const int64_t *rt_tensor_ids(const RtTensors *t, int64_t tensor)
{
    const int64_t *some = rt_tensor_rows(t, tensor);
    return some || !t->graph ? some : t->graph->spaces[t->model->tensors[tensor].space].ids;
}
/* Initial values of parameters and state from the seed, defaults of hypers. */
void rt_tensors_init(RtTensors *t, int64_t seed);
/* A hyper that the training loop sets, not the user: run.epoch, run.epochs, run.METRIC. */
bool rt_hyper_is_run(const RtModel *m, int64_t tensor);
int64_t rt_tensor_find(const RtModel *m, int64_t kind, const char *name); /* -1 if absent */
void rt_tensors_set_hyper(RtTensors *t, int64_t tensor, double value);
double rt_tensors_hyper(const RtTensors *t, int64_t tensor);
/* Element i as a double; for messages and metrics. */
double rt_element(const void *data, int64_t dtype, int64_t i);

/* A copy of the tensors that a training step changes (parameters and state). */
RtCode rt_tensors_snapshot(const RtTensors *t, RtBlock *copy, RtStatus *st); /* allocates on first use */
void rt_tensors_restore(RtTensors *t, const RtBlock *copy);
