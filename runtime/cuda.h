/* Programs on an NVIDIA GPU, through the driver's own interface, which is opened while the program runs: what is built
   needs no header and no library of CUDA, and runs where there is none. Everything that programs read lies in one block
   of the device's memory, whose size is known before any of it is taken. Steps run one after another, all their rows
   each; results have the bits that they have on a CPU with its own products (docs/design.md). One thread at a time. */
#pragma once
#include "runtime/cuda_watch.h"
#include "runtime/exec.h"
#include "runtime/tensors.h"

typedef unsigned long long RtCudaPtr; /* an address of the device's memory */

typedef struct RtCudaDriver {
    bool shim; /* it runs the model's own kernels */
#define CUDA_CALL(field, symbol, parameters) int(*field) parameters;
#include "runtime/cuda_calls.def"
#undef CUDA_CALL
} RtCudaDriver;

/* The driver of this machine. DEVICE_DRIVER where there is none, DEVICE_OLD where it lacks a call. */
RtCode rt_cuda_driver(RtCudaDriver *d, RtStatus *st);
/* A driver whose device is this CPU: memory is the machine's, kernels are those that `gnnc build --target shim` has
   compiled from their CUDA text. */
extern const RtCudaDriver rt_cuda_shim;
int rt_open_cuda(void *driver, void *status); /* both as an RtDriverFn */
int rt_open_shim(void *driver, void *status);
/* What watches its kernels, while it has some; the driver frees it with them. */
RtCudaWatch *rt_cuda_shim_watch(void);

/* ---- where things lie in the device's memory ---- */

typedef struct RtCudaRegion {
    int64_t kind;    /* RtBuffer's: of a tensor, a result, a cotangent, an array of the graph */
    int64_t ref;     /* as in RtBuffer, but RT_BUF_TENSOR for a result that is a tensor's */
    int64_t along;   /* as in RtBuffer */
    int64_t program; /* of results and cotangents; else -1 */
    int64_t at, bytes;
    int64_t host_at; /* of an input that stays on the host, where in that memory, and at is -1; else -1 */
} RtCudaRegion;

/* Memory that a run may take, and what it may read over the bus instead. */
typedef struct RtCudaRoom {
    int64_t bytes; /* of the device */
    int64_t spare; /* of these, what a cache leaves alone; all: there is no cache */
    /* of inputs that stay on the host, between commas; "": none; NULL: as many as the device has no room for */
    const char *names;
} RtCudaRoom;

/* Inputs that stay on the host, in one piece of memory that the device reads over the bus. Pieces of it, granules, of
   which most is read lie on the device, at the same addresses: no kernel knows. */
typedef struct RtCudaHost {
    bool *stays;   /* [n_tensors] */
    int64_t bytes; /* of all; 0: none does */
    int64_t granule;
    bool *hot; /* [bytes / granule] what lies on the device */
    int64_t hot_bytes;
} RtCudaHost;

/* In which order a device computes the rows of a map: those of over RT_CUDA_LONG elements first, which warps share
   where the step has a kernel for that, then the others, long ones before short ones, so that warps side by side end
   together. */
typedef struct RtCudaRows {
    int64_t map, n, n_long, n_blocks; /* rows, long ones, and blocks of RT_SPLIT_BLOCK elements of these */
    int64_t at; /* int64 [n_blocks + n_long][RT_PART_NUMBERS]: blocks, whole rows; int32 [n] rows */
} RtCudaRows;
enum { RT_CUDA_LONG = 256 };

/* Copies of parameters and states on the device: as they were before a training step, and those of the best epoch, of
   models that stop early. */
enum { RT_CUDA_BEFORE, RT_CUDA_BEST, RT_CUDA_N_KEPT };

typedef struct RtCudaLayout {
    bool
        lent; /* inputs, parameters with rows, results and cotangents are the caller's, who has them on the device: they
                  have no regions */
    RtCudaRegion *regions; /* [n] parameters and states first */
    int64_t n;
    int64_t trained_bytes;           /* of the parameters and states, from 0 on */
    int64_t kept_at[RT_CUDA_N_KEPT]; /* copies of them */
    /* What passes between host and device at each run: what the host says (seed, step, hypers), and results that are
       numbers, RT_CUDA_NUMBER bytes apart */
    int64_t said_at, said_bytes, numbers_at, numbers_bytes;
    RtCudaRows *rows; /* [n_rows] of maps by whose rows steps go, those that this process owns */
    int64_t n_rows;
    int64_t states_at, states_bytes; /* what blocks of long rows sum up to, for one step at a time */
    int64_t arena_at;                /* for one program at a time */
    int64_t bytes;                   /* of all but host.hot_bytes */
    RtCudaHost host;
} RtCudaLayout;

/* Whether a listed program runs on a device: what programs compute once does not. */
bool rt_cuda_has(const RtModel *m, const char *programs, int64_t program);
/* For the listed programs (names, separated by blanks) on one graph. lent: as in RtCudaLayout. Where room has not the
   bytes, inputs stay on the host, the largest first, until it has, or there are no more. room: NULL, without end.
   OVERFLOW, MEMORY; CLI_VALUE for a name that cannot stay there. */
RtCode rt_cuda_layout(const RtModel *m, const RtGraph *g, const char *programs, bool lent, const RtCudaRoom *room,
                      RtCudaLayout *l, RtStatus *st);
void rt_cuda_layout_free(RtCudaLayout *l);

/* Parts of it (cuda_host.c). Chooses inputs that stay on the host until the device has `excess` bytes less; or those
   that are named. */
RtCode rt_cuda_host_choose(const RtModel *m, const RtGraph *g, const char *programs, int64_t excess,
                           const RtCudaLayout *l, bool *stays, RtStatus *st);
RtCode rt_cuda_host_named(const RtModel *m, const char *programs, const char *names, bool *stays, RtStatus *st);
void rt_cuda_host_place(RtCudaLayout *l); /* says where in the host's memory they lie */
/* Chooses what of them lies on the device: what one run of each program reads most, as far as `room` bytes reach. */
RtCode rt_cuda_host_cache(const RtModel *m, const RtGraph *g, const char *programs, int64_t room, RtCudaLayout *l,
                          RtStatus *st);
/* Bytes that a run of the program reads over the bus: those of the rows that it wants, as often as it wants them, less
   what lies on the device. MEMORY. */
RtCode rt_cuda_bus_bytes(const RtModel *m, const RtGraph *g, const RtCudaLayout *l, int64_t program, double *bytes,
                         RtStatus *st);

enum { RT_CUDA_NUMBER = 64 };
bool rt_cuda_is_number(const RtCudaRegion *r); /* a result of at most 8 bytes */

/* The order of a step's rows; NULL: as they stand. */
const RtCudaRows *rt_cuda_rows(const RtCudaLayout *l, const RtModel *m, const RtGraph *g, const RtCall *call);
/* A kernel for parts of the step's long rows; NULL: it has none, or there are no such rows. */
const RtSplitDef *rt_cuda_split(const RtCudaRows *rows, const RtModel *m, const RtCall *call);
int64_t rt_cuda_state_bytes(const RtBuffer *b, const RtCudaRows *rows); /* of one argument; 0: it is none */
/* Fills rows and states_bytes of a layout. Bytes of one's arrays, and these, which the caller frees. OVERFLOW,
   MEMORY. */
RtCode rt_cuda_find_rows(const RtModel *m, const RtGraph *g, const char *programs, RtCudaLayout *l, RtStatus *st);
int64_t rt_cuda_rows_bytes(const RtCudaRows *x);
RtCode rt_cuda_fill_rows(const RtCudaRows *x, const int64_t *rows, void **out, RtStatus *st);

/* How a kernel over so many iterations is started, where a block may have most_shared bytes. DEVICE_REFUSED where not
   even one team fits. */
RtCode rt_cuda_launch(const RtModel *m, int64_t kernel, int64_t extent, int64_t most_shared, RtLaunch *l, RtStatus *st);
enum { RT_CUDA_SHARED = 227 << 10 }; /* bytes of shared memory of a block on the devices that programs are built for */

/* ---- a device ---- */

typedef struct RtCudaBlas { /* cuBLAS (cuda_blas.c); all return 0, or its status */
    void *handle;           /* NULL: products are computed by the emitted kernels */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*gemm)(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, RtCudaPtr a, int type_a,
                int ld_a, long long step_a, RtCudaPtr b, int type_b, int ld_b, long long step_b, const void *beta,
                RtCudaPtr c, int type_c, int ld_c, long long step_c, int count, int compute, int algorithm);
} RtCudaBlas;

enum { RT_CUDA_LANES = 4 };
typedef struct RtCudaTurn { /* of a step among those that run side by side */
    int lane;
    unsigned behind; /* bit l: it waits for what lane l has before it */
} RtCudaTurn;
/* Which steps may run side by side (cuda_lanes.c). turns: [n_steps] of the program, bound to its device. MEMORY. */
RtCode rt_cuda_lanes(const RtExec *e, RtCudaTurn *turns, RtStatus *st);

typedef struct RtCuda {
    const RtModel *model;
    RtCudaDriver driver;
    char name[64];
    int device, capability, most_shared;
    void *context, *module, *own_stream;
    void *stream;          /* its own, or the caller's */
    void *beside;          /* a second stream, for what two kernels of one step do side by side */
    void *forked, *joined; /* events: where it leaves the first, and where that goes on */
    /* of steps side by side: a stream of each lane but the first, which is `stream`; events: how far each lane is */
    void *lanes[RT_CUDA_LANES], *reached[RT_CUDA_LANES];
    int64_t most_threads; /* that the device runs at a time */
    void **functions;     /* [n_device_kernels] */
    RtCudaWatch *watch;   /* of the shim; else NULL */
    RtCudaLayout layout;
    const void *const *lent; /* [n_tensors] of a library: the caller's memory on the device; NULL: it has its own */
    RtCudaPtr memory;
    RtCudaPtr host; /* inputs that stay on the host: where the CPU and the device have them; 0: there are none */
    bool managed;   /* and parts of them may lie on the device */
    int64_t taken;  /* bytes of the device */
    int64_t most;   /* that it may take */
    char *numbers;  /* [numbers_bytes] as the device had them at the last wait; page-locked */
    bool unread;    /* a run was begun since then */
    uint64_t *said; /* [said_bytes / RT_CUDA_NUMBER] what the device has, or gets before its next run */
    RtCudaBlas blas;
    RtStatus failed; /* of the first call that did, since nothing is right after it */
} RtCuda;

/* Opens a device and loads the kernels. DEVICE_NONE, DEVICE_OLD, DEVICE_FAILED. *c is NULL on failure. */
RtCode rt_cuda_create(const RtModel *m, const RtCudaDriver *d, int64_t ordinal, RtCuda **c, RtStatus *st);
/* Takes memory for the listed programs and copies the graph there; most: NULL, or what it may take at most.
   DEVICE_MEMORY with the bytes that are wanted and free, before any are taken; DEVICE_HOST where inputs have to stay on
   the host and it has no memory for them. */
RtCode rt_cuda_load(RtCuda *c, const RtGraph *g, const char *programs, bool lent, const RtCudaRoom *most, RtStatus *st);
void rt_cuda_free(RtCuda *c);

/* For rt_cuda_load and rt_cuda_push: whether what stays on the host can lie on the device in part; memory for
   it, DEVICE_HOST, MEMORY; its rows, once nothing reads them, 0 or an error of the driver. */
bool rt_cuda_host_caches(const RtCuda *c);
RtCode rt_cuda_host_take(RtCuda *c, RtStatus *st);
int rt_cuda_host_push(RtCuda *c, void *const *tensors);

/* The functions below do nothing where c is NULL. Tensors, by their numbers in the model, are the host's. */

/* The graph's arrays, again: they were drawn anew. */
RtCode rt_cuda_push_graph(RtCuda *c, const RtGraph *g, RtStatus *st);
/* All tensors but hypers to the device: their owner has changed them. */
RtCode rt_cuda_push(RtCuda *c, void *const *tensors, RtStatus *st);
/* Parameters and states from the device. */
RtCode rt_cuda_pull(RtCuda *c, void *const *tensors, RtStatus *st);
/* Copies parameters and states aside, on the device; and those to the host. */
RtCode rt_cuda_keep(RtCuda *c, int kept, RtStatus *st);
RtCode rt_cuda_pull_kept(RtCuda *c, int kept, void *const *tensors, RtStatus *st);
/* Until all that was begun is done: rt_exec_run only begins a run, and rt_exec_results waits for it. */
void rt_cuda_wait(RtCuda *c);

/* Memory beside that of the layout, all bits set; DEVICE_MEMORY. And back, where it is not 0. */
RtCode rt_cuda_take(RtCuda *c, int64_t bytes, RtCudaPtr *at, RtStatus *st);
void rt_cuda_give(RtCuda *c, RtCudaPtr at, int64_t bytes);
/* Copies from the device, once all that was begun is done, and to it, before all that is begun later. DEVICE_FAILED. */
RtCode rt_cuda_read(RtCuda *c, void *to, RtCudaPtr from, int64_t bytes, RtStatus *st);
RtCode rt_cuda_write(RtCuda *c, RtCudaPtr to, const void *from, int64_t bytes, RtStatus *st);

/* ---- for library.c: the caller's thread, stream and memory ---- */

/* Opens a device for a library's context, with memory for the listed programs. The caller's thread has the driver's
   context that it had. As rt_cuda_create and rt_cuda_load; DEVICE_REFUSED where the library was built for CPUs
   alone. */
RtCode rt_cuda_lend(const RtModel *m, const RtGraph *g, const char *programs, int64_t ordinal, void *stream, RtCuda **c,
                    RtStatus *st);
/* Makes the device's context that of this thread; *before is what rt_cuda_leave needs to put the old one back. */
RtCode rt_cuda_enter(RtCuda *c, void **before, RtStatus *st);
void rt_cuda_leave(RtCuda *c, void *before);
/* MODEL_ARGUMENT, with `what`, for what is not aligned memory of this device; NULL is passed over. */
RtCode rt_cuda_check(RtCuda *c, const void *p, const char *what, RtStatus *st);
/* Until copies to the device, which do not belong to a stream, are there. */
RtCode rt_cuda_settle(RtCuda *c, RtStatus *st);
/* What is begun from now on goes into another stream, behind what was begun before. */
RtCode rt_cuda_turn_to(RtCuda *c, void *stream, RtStatus *st);

/* ---- products by cuBLAS ---- */

extern const RtGemmBackend rt_cuda_blas; /* which products; RtExecOptions.gemm of runs and plans on a device */
/* Opens cuBLAS for a device. CLI_VALUE where it is not installed, DEVICE_FAILED. */
RtCode rt_cuda_blas_open(RtCuda *c, RtStatus *st);
void rt_cuda_blas_close(RtCuda *c);
/* Starts the product that is x->there. A failure is noted in c->failed. */
void rt_cuda_product(RtCuda *c, const RtExec *e, const RtExecStep *x);

/* ---- for exec.c: an RtExec whose options name a device ---- */

/* Where the program's slots and strips lie in the arena: places [n_slots + n_buffers]. */
RtCode rt_cuda_places(const RtModel *m, const RtProgram *p, const RtGraph *g, RtPack *places, int64_t *bytes,
                      RtStatus *st);
void *rt_cuda_buffer(const RtExec *e, int64_t buffer);    /* an address on the device; NULL: not there */
int64_t rt_cuda_buffer_bytes(const RtExec *e, int64_t i); /* of it */
RtCode rt_cuda_bind(RtExec *e, RtStatus *st);             /* how its kernels are started */
void rt_cuda_unbind(RtExec *e);                           /* frees its replay */
/* Begins a run. The second one after binding is captured as a graph of the driver's, which is replayed from then on:
   one call for all steps. Where the driver makes none, steps are started one by one as before. */
void rt_cuda_run(RtExec *e);
void rt_cuda_run_timed(RtExec *e, double *ns);                       /* step by step, and waits; as rt_exec_run_timed */
int64_t rt_cuda_run_step(RtExec *e, int64_t i);                      /* waits for the end; returns 1 */
void rt_cuda_count_step(RtExec *e, int64_t i, RtCudaCounts *counts); /* runs a step on the shim, and counts */
RtCode rt_cuda_results(RtExec *e, RtStatus *st);
/* A run by parts, of a program that processes share (ranks_run.c): what the host says anew; then a step, or iterations
   [lo, hi) of one as they stand, with the arguments that it has now. They are begun, and nobody waits for them. */
void rt_cuda_begin(RtExec *e);
void rt_cuda_begin_step(RtExec *e, int64_t i);
void rt_cuda_begin_iterations(RtExec *e, int64_t i, int64_t lo, int64_t hi);
/* The bytes of a buffer, from the device and to it. */
RtCode rt_cuda_fetch(RtExec *e, int64_t buffer, void *to, int64_t bytes, RtStatus *st);
RtCode rt_cuda_store(RtExec *e, int64_t buffer, const void *from, int64_t bytes, RtStatus *st);
