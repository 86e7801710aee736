/* Batches of graphs: a data set of many graphs, and a few of them at a time as kernels read them. A graph's rows lie
   side by side in every space as it is stored, so a batch is made of slices: no edge is sorted again, sums keep their
   order, and each row keeps the user's id, to which random numbers are keyed. All memory is taken once, for the largest
   batch there can be. Never looks at features. */
#pragma once
#include "runtime/dataset.h"

/* Pairs of rows and keys (graphs `keyed`) stand by key, then by row, and so not by graph: which are of each graph, and
   where they stand in the batch at hand. */
typedef struct RtBatchPairs {
    int64_t space;
    int32_t *list;   /* [pairs] of the data, by graph, as they are stored */
    int32_t *at;     /* [pairs] of the data: which of the batch's it is, where its graph is there */
    int32_t *from;   /* [pairs that a batch can have] the data's pair */
    int64_t *starts; /* [keys+1] scratch */
} RtBatchPairs;

typedef struct RtBatches {
    RtGraph *graph; /* the batch at hand; at first, and for what is planned, as many rows as any batch can have */
    void **tensors; /* [n_tensors] inputs of the batch; what has no rows of a graph is the data's own */
    int64_t n_graphs, size; /* of the data; of a batch, at most */
    /* private */
    const RtData *data;
    /* [n_spaces] NULL: graphs have no rows of that space; else [n_graphs+1] the first row of each graph in the data, of
       pairs its first place in RtBatchPairs.list */
    int64_t **first;
    int64_t **place; /* [n_spaces] NULL: as `first`; else [size+1] the first row in the batch of each of its graphs */
    int64_t *most;   /* [n_spaces] rows that a batch can have */
    RtBatchPairs *pairs; /* [n_pairs] */
    int64_t n_pairs;
    int64_t *slot; /* [n_graphs] which graph of the batch at hand it is, -1: none */
    RtBlock *blocks;
    int64_t n_blocks;
} RtBatches;

/* BATCH if the data are no graphs side by side. *b is empty on failure. */
RtCode rt_batches_create(const RtModel *m, const RtData *d, int64_t size, RtBatches *b, RtStatus *st);
void rt_batches_free(RtBatches *b);
/* The graph has as many rows as any batch can have, so that what is made for it has room for all. */
void rt_batches_widest(RtBatches *b);
/* Makes graphs[n] the batch at hand; 1 <= n <= size, no graph twice. */
void rt_batches_fill(RtBatches *b, const int64_t *graphs, int64_t n);
/* Lists in out [n_graphs] the graphs with a row where the mask holds, all for tensor -1; returns how many. */
int64_t rt_batches_where(const RtBatches *b, int64_t mask, int64_t *out);
/* Shuffles by (seed, epoch). */
void rt_shuffle(int64_t *list, int64_t n, int64_t seed, int64_t epoch);
