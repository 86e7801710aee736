/* What the parts of loading a data set share. Private to dataset*.c. */
#pragma once
#include "runtime/dataset.h"
#include "runtime/nonzeros.h"

enum { PLACE_BYTES = 4096 };

/* One input as files hold it: a dense array, or the parts of a CSR matrix. */
typedef struct Input {
    bool present, csr;
    RtArray dense, indptr, indices, values;
    char stem[256];
} Input;

typedef struct Loader {
    const RtModel *m;
    const RtDataOptions *o;
    RtSource source;
    Input *inputs;        /* [n_tensors] */
    RtNonzeros *nonzeros; /* [n_tensors] of tensors that hold another's */
    RtPattern *patterns;  /* [n_patterns] */
    int64_t n_patterns;
    int64_t *
        *orders; /* [n_spaces] of nodes that are ordered, until the graph is built: the user's id of each stored one */
    RtBlock ids; /* what these point into */
    int64_t *counts;  /* [n_spaces] */
    const char **why; /* [n_spaces] where the count comes from */
    RtArray src, dst, batch;
    RtArray *batches;          /* [n_spaces] of kinds of nodes that have files of their own: the graph of each */
    const int64_t **graphs_of; /* [n_spaces] the same as numbers; NULL: all of one graph, or as `batch` says */
    RtArray *lists;   /* [n_graphs] of those that the data say: the array, unless an earlier graph reads the same */
    RtEdgeIds *files; /* [n_graphs] their edges */
    RtBlock *kept;    /* [n_graphs] the same, where not all edges of an array are the graph's */
    char (*list_places)[PLACE_BYTES];
    RtKeys *keys;        /* [n_graphs] */
    RtArray *key_arrays; /* [n_key_arrays] what they point into */
    int64_t n_key_arrays;
    int64_t n_edges;
    const int64_t *src_ids, *dst_ids;
    char place[PLACE_BYTES];
    char edge_place[PLACE_BYTES];
    RtData *d;
    RtStatus *st;
} Loader;

/* Where an array is read, for errors; in l->place until it is called again. */
const char *rt_load_place(Loader *l, const char *stem);
const char *rt_load_space(const Loader *l, int64_t s); /* its name */
bool rt_load_wants(const Loader *l, int64_t tensor);   /* whether some program that was asked for reads the input */
int64_t rt_load_count(const Loader *l, int64_t s);     /* -1: not known yet */
int64_t rt_ids_count(const int64_t *ids, int64_t n);   /* one more than the largest; 0 of none */
RtCode rt_load_rows_error(Loader *l, int64_t tensor, int64_t found);

/* Counts every space of nodes and of graphs: as meta.json says, else the rows of the arrays, else the largest id. What
   files say of one count has to agree, ids have to lie below it, and memory for so many nodes has to be there, before
   anything of that size is made. */
RtCode rt_load_counts(Loader *l);

/* Finds the order of each kind of nodes that has one, l->orders, once all are counted. */
RtCode rt_load_order(Loader *l);
