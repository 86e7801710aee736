/* gnnrt: the library form of a compiled graph neural network. C99 and C++.

   A GnnrtModel (tables and parameters) and a GnnrtGraph (topology) do not change while contexts use
   them and may be shared by any number of threads. A GnnrtContext belongs to one thread at a time;
   a call runs inline in that thread, or on the parallel-for it was given. All buffers are the
   caller's, dense and row-major, nodes and edges in the caller's own order. Nothing here reads the
   environment, prints, exits or keeps global state.

   A header written by `gnnc build --emit=header` declares PREFIX_tables(), which is the first
   argument of gnnrt_model_create, and names and sizes as constants.

   Every function that can fail returns GNNRT_OK (0) or a code and fills *status (which may be
   NULL); on failure nothing was created and output handles are NULL. NULL for any other argument, where its
   comment does not allow it, is GNNRT_BAD_ARGUMENT; counts of NULL are 0, of a graph and of bytes -1. */
#ifndef GNNRT_H
#define GNNRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* the runtime itself is compiled with hidden symbols */
#endif

#define GNNRT_ABI_VERSION 2

/* The codes a library call can return; the full list is runtime/codes.def. */
enum {
    GNNRT_OK = 0,
    GNNRT_ID_OUT_OF_RANGE = 111,    /* an edge's end, or a graph id */
    GNNRT_VALUE_OUT_OF_RANGE = 115, /* an integer input outside [0, bound) */
    GNNRT_WEIGHTS_HEADER = 201,
    GNNRT_WEIGHTS_TRUNCATED = 202,
    GNNRT_WEIGHTS_TILING = 203,
    GNNRT_WEIGHTS_DUPLICATE = 204,
    GNNRT_WEIGHTS_NAME = 205,
    GNNRT_WEIGHTS_SHAPE = 206,
    GNNRT_WEIGHTS_DTYPE = 207,
    GNNRT_WEIGHTS_NAN = 208,
    GNNRT_GRAPH_TOO_LARGE = 301,
    GNNRT_COUNT_UNKNOWN = 302,
    GNNRT_BATCH_NOT_SORTED = 304,
    GNNRT_NO_FUNCTION = 406, /* the model has no vjp */
    GNNRT_ABI_MISMATCH = 407,
    GNNRT_BAD_ARGUMENT = 408,
    GNNRT_NO_KERNEL_FOR_CPU = 409,
    GNNRT_CANNOT_OPEN = 601,
    GNNRT_CANNOT_READ = 602,
    GNNRT_CANNOT_WRITE = 603,
    GNNRT_OUT_OF_MEMORY = 611,
    GNNRT_OVERFLOW = 612,
    GNNRT_DEVICE_DRIVER = 801, /* there is none */
    GNNRT_DEVICE_OLD = 802,    /* the driver, or the device */
    GNNRT_DEVICE_NONE = 803,   /* of this number */
    GNNRT_DEVICE_MEMORY = 804,
    GNNRT_DEVICE_FAILED = 805, /* while it ran; its memory may hold anything */
    GNNRT_DEVICE_REFUSED = 806 /* not built, or not for this graph */
};

typedef struct GnnrtStatus {
    int32_t code;
    char message[1056]; /* "place: found and wanted\nwhere the model declares it\nhint" */
} GnnrtStatus;

const char *gnnrt_code_name(int32_t code); /* "WEIGHTS_SHAPE" */

typedef struct GnnrtModel GnnrtModel;
typedef struct GnnrtGraph GnnrtGraph;
typedef struct GnnrtContext GnnrtContext;

enum { GNNRT_F32, GNNRT_F64, GNNRT_I32, GNNRT_I64, GNNRT_BOOL /* one byte, 0 or 1 */ };
enum { GNNRT_MAX_DIMS = 6 };
enum { GNNRT_GENERIC, GNNRT_AVX2, GNNRT_AVX512, GNNRT_BEST_CPU = -1 };

/* One input, parameter, result or gradient. */
typedef struct GnnrtTensorInfo {
    const char *name;  /* "x", "conv1.lin.weight" */
    const char *space; /* rows: "node", "edge", ...; "unit" is one row */
    int32_t space_index;
    int32_t dtype;  /* GNNRT_F32 ... */
    int32_t n_dims; /* feature dims, without the rows */
    int64_t dims[GNNRT_MAX_DIMS];
    int64_t width; /* elements per row */
} GnnrtTensorInfo;

/* ---- model ---- */

/* `tables` is what PREFIX_tables() returns. Parameters are initialised from `seed` as `train
   --seed` does. cpu: GNNRT_BEST_CPU, or one variant (for tests). */
int32_t gnnrt_model_create(const void *tables, int64_t seed, int32_t cpu, GnnrtModel **model, GnnrtStatus *status);
void gnnrt_model_free(GnnrtModel *model);
/* Parameters from a safetensors file, or from its bytes in memory. On failure the parameters are
   unchanged. Not while a context of this model runs. Parameters with rows of a graph are no part of
   the model: both pass them over, and so does saving (gnnrt_param_read). */
int32_t gnnrt_model_load(GnnrtModel *model, const char *path, GnnrtStatus *status);
int32_t gnnrt_model_load_memory(GnnrtModel *model, const void *bytes, size_t n_bytes, GnnrtStatus *status);
int32_t gnnrt_model_save(const GnnrtModel *model, const char *path, GnnrtStatus *status);

/* Counts and descriptions; names and pointers live as long as the tables. An index out of range
   gives an info whose name is NULL. Inputs and parameters are those of the forward function, in the
   order gnnrt_forward takes them. */
int32_t gnnrt_n_inputs(const GnnrtModel *model);
int32_t gnnrt_n_params(const GnnrtModel *model);
int32_t gnnrt_n_results(const GnnrtModel *model);
int32_t gnnrt_n_gradients(const GnnrtModel *model); /* 0: the model has no vjp */
GnnrtTensorInfo gnnrt_input(const GnnrtModel *model, int32_t i);
GnnrtTensorInfo gnnrt_param(const GnnrtModel *model, int32_t i);
GnnrtTensorInfo gnnrt_result(const GnnrtModel *model, int32_t i);
GnnrtTensorInfo gnnrt_gradient(const GnnrtModel *model, int32_t i); /* "grad.x" */
const char *gnnrt_manifest(const GnnrtModel *model);                /* JSON */

/* Copies a parameter in or out: `width` elements of its dtype, row-major in the order of its dims.
   Setting: not while a context of this model runs. Parameters with a row for each node or edge
   (their space is not "unit") are the caller's: see gnnrt_context_bind_param. */
int32_t gnnrt_param_set(GnnrtModel *model, int32_t i, const void *data, GnnrtStatus *status);
int32_t gnnrt_param_get(const GnnrtModel *model, int32_t i, void *data, GnnrtStatus *status);

/* ---- graph ---- */

typedef struct GnnrtEdgeList {
    /* of `data.val_index`: "val_index"; of a relation that file writes.edge_index says: "writes.edge_index" */
    const char *name;
    int64_t n_edges;
    const int64_t *src, *dst; /* [n_edges]; src may be NULL where a column says the edges: edge i begins at row i */
} GnnrtEdgeList;

typedef struct GnnrtRowCount {
    const char *space; /* GnnrtTensorInfo.space: "author" */
    int64_t n;
    const int64_t *graph_of; /* [n] each one's graph, ascending; NULL: all in graph 0 */
} GnnrtRowCount;

typedef struct GnnrtGraphInput {
    const char *name; /* GnnrtTensorInfo.name: "edge_type" */
    const void *data; /* as gnnrt_forward takes it; not NULL but where it has no rows */
} GnnrtGraphInput;

typedef struct GnnrtGraphDesc {
    int64_t n_src, n_dst; /* nodes at both ends; the same number unless the model is bipartite */
    int64_t n_edges;
    const int64_t *src, *dst; /* [n_edges] */
    int64_t n_graphs;         /* 0 means 1 */
    const int64_t *graph_of;  /* [nodes] each node's graph, ascending; NULL: all in graph 0 */
    int64_t n_lists;
    const GnnrtEdgeList *lists; /* [n_lists] further lists of edges that the model reads; others are left alone */
    int64_t n_counts;
    const GnnrtRowCount *counts; /* [n_counts] of types of nodes, instead of n_src and n_dst; others are left alone */
    int64_t n_inputs;
    const GnnrtGraphInput *inputs; /* [n_inputs] what --graph-inputs named; others are left alone */
} GnnrtGraphDesc;

/* Checks every id, sorts and indexes. The arrays may be freed afterwards. */
int32_t gnnrt_graph_create(const GnnrtModel *model, const GnnrtGraphDesc *desc, GnnrtGraph **graph,
                           GnnrtStatus *status);
void gnnrt_graph_free(GnnrtGraph *graph);
/* Rows of a space (GnnrtTensorInfo.space_index) in this graph. */
int64_t gnnrt_graph_count(const GnnrtGraph *graph, int32_t space_index);

/* What parameter i is for this graph: `width` elements for each row of its space, in the caller's
   order. From a safetensors file; path NULL: its initial value, of the model's seed. On failure data
   may hold anything. */
int32_t gnnrt_param_read(const GnnrtModel *model, const GnnrtGraph *graph, int32_t i, const char *path, void *data,
                         GnnrtStatus *status);

/* ---- context ---- */

/* Bytes a context needs, forward only or with vjp. -1 on overflow. */
int64_t gnnrt_workspace_bytes(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp);
/* workspace: 64-byte aligned memory of gnnrt_workspace_bytes that outlives the context; NULL: the
   context allocates. */
int32_t gnnrt_context_create(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp, void *workspace,
                             size_t workspace_bytes, GnnrtContext **context, GnnrtStatus *status);
void gnnrt_context_free(GnnrtContext *context);
/* This context reads parameter i from data (value layout) instead of the model's copy; NULL: the
   model's again. For a training loop of the caller's own. A parameter with a row for each node or
   edge has no copy in the model: data, in the caller's order, must be given before the first call. */
int32_t gnnrt_context_bind_param(GnnrtContext *context, int32_t i, const void *data, GnnrtStatus *status);
/* Random ops (dropout in train mode) read these; both are 0 at first. */
void gnnrt_context_set_random(GnnrtContext *context, int64_t seed, int64_t step);
/* A context whose runs an NVIDIA GPU computes, number `device` of the driver, in that device's primary context, as the
   CUDA runtime has it. For libraries that were built with --target cuda or all; GNNRT_DEVICE_REFUSED from others. It
   copies topology and parameters to the device and takes its memory there. The calling thread has the driver's context
   that it had, behind this and every other call.
   gnnrt_forward and gnnrt_vjp then take addresses of that device's memory; gnnrt_context_bind_param, too. They put
   their work into `stream` (a CUstream or cudaStream_t; NULL: the default one), behind what is there, and return before
   it is
   done: buffers must live until then, and the stream as long as the context. A failure of the device is told by the
   call that notices it, and by every later one. Integer inputs are not checked against their bounds. A call with the
   memory of the one before costs least. Values of edges stand in the order of dst: a graph whose edges are not sorted
   by it is GNNRT_DEVICE_REFUSED for a model that takes or gives such. */
int32_t gnnrt_context_cuda(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp, int32_t device,
                           void *stream, GnnrtContext **context, GnnrtStatus *status);
/* What the context on a device begins from now on goes into this stream, behind what it began before. */
int32_t gnnrt_context_set_stream(GnnrtContext *context, void *stream, GnnrtStatus *status);
/* Must run task(arg, i) for all 0 <= i < n_tasks, in any order, on any threads, and return when all
   are done. */
typedef void (*GnnrtParallelFor)(void *user, int64_t n_tasks, void (*task)(void *arg, int64_t i), void *arg);
/* Results do not depend on n_threads in a single bit. NULL: inline again. */
int32_t gnnrt_context_set_parallel(GnnrtContext *context, GnnrtParallelFor run, void *user, int32_t n_threads,
                                   GnnrtStatus *status);

/* inputs[gnnrt_n_inputs], results[gnnrt_n_results]: the caller's buffers, 16-byte aligned or
   better, not overlapping; NULL for what has no rows in the context's graph. */
int32_t gnnrt_forward(GnnrtContext *context, const void *const *inputs, void *const *results, GnnrtStatus *status);
/* Vector-Jacobian product: gradients of sum(results * cotangents) by every float input and
   parameter. cotangents[gnnrt_n_results] have the types of the results (NULL for results that are
   not float). gradients [gnnrt_n_gradients] are written, not added to. A library built with
   --vjp=joint also gives the results of gnnrt_forward: they count as gradients here, in the order
   of the results and before those by inputs and parameters. */
int32_t gnnrt_vjp(GnnrtContext *context, const void *const *inputs, const void *const *cotangents,
                  void *const *gradients, GnnrtStatus *status);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
