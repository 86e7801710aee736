/* A data set bound to a model: its graph, and every input tensor in the dtype and order that
   kernels read. Everything is checked here, once; what comes later trusts it. */
#pragma once
#include "runtime/order.h"
#include "runtime/source.h"
#include "runtime/tensors.h"

typedef struct RtDataOptions {
    /* names, separated by blanks: only inputs that one of them takes are loaded; NULL: all */
    const char *programs;
    bool draw;         /* `bench`: inputs that are absent or have another width are drawn */
    int64_t seed;      /* of drawn inputs */
    RtOrderMode order; /* in which nodes are stored */
    int64_t folds;     /* K > 0: train_mask, val_mask and test_mask are made of fold.npy by rt_data_fold */
    int64_t *drawn;    /* [n_tensors] set to 1 where an input was drawn; NULL: not wanted */
    /* the part of a data set that is loaded (ranks.h); NULL: it is whole */
    const struct RtPart *part;
} RtDataOptions;

typedef struct RtData {
    int64_t n_folds, *fold_of, fold_space; /* [count of fold_space] the fold of each row, in stored order; NULL: none */
    RtBlock folds;
    RtGraph *graph;
    RtTensors tensors; /* parameters initialised with seed 0 */
    /* of the nodes of the data's graph; empty once the graph is built, but for its name, cost and why */
    RtOrder order;
    /* [n_graphs] of a part: of graphs that have some of an array's edges, which of them those are; else empty */
    RtBlock *edge_rows;
    int64_t n_edge_rows;
} RtData;

/* Loads the data set at `path` (see source.h) for model m. *d is empty on failure. */
RtCode rt_data_load(const RtModel *m, const char *path, const RtDataOptions *o, RtData *d, RtStatus *st);
/* Fills the masks for one of the folds: its rows are the test set, those of the next fold the validation set where some
   program reads one, all others are trained on. */
void rt_data_fold(const RtModel *m, RtData *d, int64_t fold);
void rt_data_free(RtData *d);
