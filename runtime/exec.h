/* The execution core: a program of the model bound to one graph and one arena. Binding computes
   every count, offset, argument array and chunk boundary; a run walks the steps. One thread at a
   time may use an RtExec; model, graph and tensors it only reads may be shared. */
#pragma once
#include "runtime/graph.h"
#include "runtime/pack.h"
#include "runtime/pool.h"

struct RtChain;
struct RtConeStep;
struct RtCuda;
struct RtAcross;
struct RtRanks;
struct RtSplit;

/* A library that runs products in place of their kernels (BLAS), by blocks of rows, in the same buffers. Its functions
   take an array of RT_GEMM_N_ARGS arguments, in this order. */
enum {
    RT_GEMM_USER,
    RT_GEMM_A,
    RT_GEMM_B,
    RT_GEMM_C,
    RT_GEMM_M,
    RT_GEMM_N,
    RT_GEMM_K,
    RT_GEMM_ROWS,
    RT_GEMM_BLOCK_ROWS,
    RT_GEMM_N_ARGS
};
typedef struct RtGemmBackend {
    const char *name;
    void *user;                                       /* args[RT_GEMM_USER].p */
    RtKernelFn nn_f32, nn_f64, tn_f32, tn_f64;        /* iterations are row blocks; NULL where on_device */
    bool (*wanted)(const RtGemm *gemm, int64_t rows); /* by shape and machine, so that a rerun decides the same */
    bool on_device;                                   /* computes whole steps there (cuda_blas.c), and none here */
} RtGemmBackend;

typedef struct RtExecOptions {
    int variant;               /* RT_GENERIC ... : kernels of this or a lesser variant */
    RtPool *pool;              /* NULL: inline */
    const RtGemmBackend *gemm; /* NULL: the emitted kernels */
    void *workspace;           /* NULL: the exec allocates its arena; else 64-byte aligned */
    size_t workspace_bytes;
    bool plan_only; /* no arena: for `plan`; must not be run */
    bool on_device; /* of a device, though plan_only opens none */
    int64_t split;  /* least elements of a row that threads share; 0: as split.h says; -1: none does */
    int cone;       /* RtConeMode (cone.h): whether rows that are not needed are left out */
    /* where steps run, with memory for this program (cuda.h); NULL: on this CPU. All rows of each then, one step
       after another: split and cone have to ask for nothing else, and gemm is NULL or a device's */
    struct RtCuda *device;
    /* other processes that each own rows (ranks.h); NULL: this process owns all. Split and cone have to ask for nothing
       then, gemm is NULL, and all processes create, bind and run the same programs in the same order */
    struct RtRanks *ranks;
} RtExecOptions;

typedef struct RtLaunch { /* of a kernel on a device */
    int64_t grid, block, shared_bytes;
} RtLaunch;

/* A step for one graph. Its iterations are computed by one function, rt_step_rows, whoever asks for them: the pool for
   chunks of all, or a chain for those of a strip. */
typedef struct RtExecStep {
    const RtStep *def;
    const RtCall *call;
    RtKernelFn fn;
    RtArg *args;
    int64_t extent, block; /* iterations; rows of one, where they are blocks of rows */
    bool backend;          /* runs on options.gemm */
    const RtGemm *there;   /* a product that options.gemm computes on a device; or NULL */
    const int64_t *rows;   /* [n_rows + 1] offsets of the map whose rows they are; or NULL */
    int64_t n_rows;
    struct RtConeStep *cone; /* what it leaves out (cone.h); or NULL: nothing */
    struct RtSplit *split;   /* rows that threads share (split.h); or NULL: none is long enough */
    struct RtChain *chain;   /* it and others, strip by strip (chain.h); or NULL: it runs alone */
    RtLaunch launch;         /* on a device, once bound */
    RtLaunch blocks, joins;  /* there, of the kernel for parts of long rows: each block, each row at the end */
    /* of a step that runs alone, and of the first of a chain: */
    RtArg self;
    int64_t *bounds; /* [n_chunks+1] of iterations, or of strips */
    int64_t *order;  /* [n_chunks] as they are taken, see pool.h */
    int64_t n_chunks;
} RtExecStep;

typedef struct RtExec {
    const RtModel *model;
    const RtProgram *program;
    const RtGraph *graph;
    RtExecOptions options;
    RtExecStep *steps; /* [program->n_steps] */
    void **tensors;    /* [model->n_tensors] set by the owner */
    void **results;    /* [program->n_results] */
    void **cotangents; /* [n_cotangents] by result of the function they belong to */
    int64_t n_cotangents;
    int64_t seed, step;
    /* private */
    struct RtAcross *across; /* what travels between processes, or NULL */
    struct RtCone *cone;     /* what steps leave out, once tensors are known; NULL: nothing */
    struct RtChain **chains; /* [program->n_chains] */
    void **buffers;          /* [program->n_buffers] */
    /* [program->n_slots] in the arena or in results; on a device, behind them, [program->n_buffers] strips */
    RtPack *places;
    RtArg *args;
    int64_t *bounds;
    RtBlock arena, own_results;
    RtBlock states; /* of split rows: one step's at a time, or one chain's */
    int64_t states_bytes;
    char *base;
    int64_t arena_bytes;
    bool bound;
    void *replay;   /* on a device: its steps as a graph of the driver's, or NULL */
    int64_t n_runs; /* there, since it was bound */
} RtExec;

/* Index of a program by name, -1 if absent. */
int64_t rt_program_find(const RtModel *m, const char *name);
/* Peak bytes of the arena for this graph. */
RtCode rt_arena_bytes(const RtModel *m, int64_t program, const RtGraph *g, int64_t *bytes, RtStatus *st);

RtCode rt_exec_create(const RtModel *m, int64_t program, const RtGraph *g, const RtExecOptions *o, RtExec **e,
                      RtStatus *st);
void rt_exec_free(RtExec *e);
/* Memory for every result that does not update a tensor, owned by the exec. */
RtCode rt_exec_own_results(RtExec *e, RtStatus *st);
/* Finds which rows are needed, once tensors are set. rt_exec_bind does it; `plan` calls it, which does not bind. */
RtCode rt_exec_narrow(RtExec *e, RtStatus *st);
/* After tensors, results or cotangents were set or changed. A needed one that is NULL is
   MODEL_ARGUMENT. */
RtCode rt_exec_bind(RtExec *e, RtStatus *st);

/* Cuts the steps again when counts of the graph have changed, none beyond those that the exec was made for. The caller
   binds anew. */
RtCode rt_exec_move(RtExec *e, RtStatus *st);

/* seed and step are read by random ops. Nothing can fail once bound, but a device. There a run is only begun:
   rt_exec_results waits for its end, and says whether it failed. */
void rt_exec_run(RtExec *e, int64_t seed, int64_t step);
/* Runs the i-th step alone, or the chain that begins with it, with the seed and step in e. Returns how many steps that
   are. */
int64_t rt_exec_run_step(RtExec *e, int64_t i);
/* Copies results that lie on a device to e->results, once its runs are over. DEVICE_FAILED if it did since it was
   opened. */
RtCode rt_exec_results(RtExec *e, RtStatus *st);
/* The same, adding each step's nanoseconds to ns[n_steps]. */
void rt_exec_run_timed(RtExec *e, int64_t seed, int64_t step, double *ns);
/* The same on a CPU, stopping after the first step that leaves a NaN in one of its buffers; returns its
   index, or -1. */
int64_t rt_exec_run_until_nan(RtExec *e, int64_t seed, int64_t step);

/* The chain that a step is in, or NULL. */
const RtChainDef *rt_step_chain(const RtExec *e, int64_t step);
/* Iterations [lo, hi) of a step, with its arguments or others like them: of rows that threads share what is left of
   them, and none that it leaves out. */
void rt_step_rows(const RtExecStep *x, const RtArg *args, int64_t lo, int64_t hi);
/* An RtWeight of a step: rows, and elements of them, that it has to do before iteration i. */
RtWeight rt_step_weight;
/* Bytes and lives of a program's slots for a graph; places has room for them. rows: [n_slots] that each
   holds; NULL, or -1: as its count says. */
RtCode rt_exec_slots(const RtModel *m, const RtProgram *p, const RtGraph *g, const int64_t *rows, RtPack *places,
                     RtStatus *st);
/* [n_results] the memory of results that update no tensor, where slots may lie; the caller frees it. */
RtCode rt_exec_rooms(const RtModel *m, const RtProgram *p, const RtGraph *g, RtPackRoom **rooms, RtStatus *st);
/* The kernel for this CPU, or for a lesser one; NULL: none. */
RtKernelFn rt_exec_kernel(const RtExec *e, int64_t kernel);
/* Bytes and flops of one step for this graph. */
void rt_step_cost(const RtExec *e, int64_t step, double *bytes, double *flops);
int64_t rt_result_bytes(const RtExec *e, int64_t result);
/* Elements (rows * width) of a tensor for this graph, -1 on overflow. */
int64_t rt_tensor_count(const RtModel *m, const RtGraph *g, int64_t tensor);
const char *rt_string(const RtModel *m, int64_t offset); /* "" for none */
