/* The contract between generated code and the runtime. A generated object holds one constant
   RtModel: flat tables of plain integers (so that the same bytes can be written by every emitter),
   one string blob, and kernel functions per CPU variant. The runtime reads it and never writes it.
   Strings are offsets into `strings` (NUL-terminated); -1 is "none". Indices are -1 for "none". */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define RT_ABI_VERSION 24

typedef union RtArg {
    void *p;
    int64_t i;
    double f;
} RtArg;
/* Runs iterations [lo, hi) of a kernel's parallel loop. Thread-safe for disjoint ranges. */
typedef void (*RtKernelFn)(const RtArg *args, int64_t lo, int64_t hi);

enum { RT_GENERIC, RT_AVX2, RT_AVX512, RT_N_VARIANTS };            /* avx2: +fma, f16c; avx512: f, bw, dq, vl */
enum { RT_F32, RT_F64, RT_I32, RT_I64, RT_BOOL, RT_F16, RT_BF16 }; /* = IrDtype */
/* clang-format off */
enum { RT_GRAPH_DATA, RT_GRAPH_RANDOM, RT_GRAPH_SELF_LOOPS, RT_GRAPH_REVERSE, RT_GRAPH_LINE, RT_GRAPH_SIBLINGS,
       RT_GRAPH_COMPLETE, RT_GRAPH_NEGATIVES, RT_GRAPH_NEAREST, RT_GRAPH_SELECT, RT_GRAPH_FILE, RT_GRAPH_ROUTED,
       RT_GRAPH_PERMUTATION, RT_GRAPH_COLUMN, RT_GRAPH_COMPOSE, RT_GRAPH_KEYED, RT_GRAPH_CANDIDATES,
       RT_GRAPH_ANSWERS }; /* = IrGraphKind */
/* clang-format on */
enum { RT_INPUT, RT_PARAM, RT_STATE, RT_HYPER, RT_HELD };                /* = IrTensorKind */
enum { RT_LOOPS_KEEP, RT_LOOPS_REPLACE, RT_LOOPS_ADD, RT_LOOPS_REMOVE }; /* = IrLoopPolicy */
enum { RT_INIT_CONST, RT_INIT_UNIFORM, RT_INIT_NORMAL };                 /* = IrInitKind */
enum { RT_ARG_TENSOR, RT_ARG_SEED, RT_ARG_STEP, RT_ARG_COTANGENT };      /* = IrArgKind */
/* clang-format off */
enum { RT_COUNT_CONST, RT_COUNT_SPACE, RT_COUNT_BLOCKS, RT_COUNT_BLOCK_ROWS, RT_COUNT_BLOCK_LEVELS,
       RT_COUNT_BLOCK_SLOTS, RT_COUNT_AHEAD, RT_COUNT_SPLIT }; /* = PlanCountKind */
enum { RT_BUF_ARENA, RT_BUF_TENSOR, RT_BUF_RESULT, RT_BUF_COTANGENT, RT_BUF_SEED, RT_BUF_STEP,
       RT_BUF_MAP_TO, RT_BUF_MAP_ROWS, RT_BUF_MAP_LIST, RT_BUF_IDS, RT_BUF_MAP_ALONG, RT_BUF_STRIP,
       RT_BUF_STATE }; /* = PlanBufferKind */
/* clang-format on */
enum { RT_STEP_KERNEL, RT_STEP_PRODUCT };                                   /* = PlanStepKind */
enum { RT_SAME, RT_EACH, RT_SUMS, RT_TOTALS, RT_APART };                    /* = PlanWork */
enum { RT_AT_ROW, RT_AT_ELEMENT, RT_AT_ALL };                               /* = PlanAt */
enum { RT_READS, RT_WRITES, RT_ADDS, RT_MULTIPLIES, RT_RAISES, RT_LOWERS }; /* = PlanAccess */
enum { RT_ANYHOW, RT_LINEAR, RT_WITHOUT, RT_ALONE };                        /* = PlanHow */
/* = PlanSetKind */
enum { RT_SET_EMPTY, RT_SET_MASK, RT_SET_IMAGE, RT_SET_ORIGIN, RT_SET_EITHER, RT_SET_BOTH, RT_SET_WALK };
enum { RT_K_I1, RT_K_I8, RT_K_I32, RT_K_I64, RT_K_F32, RT_K_F64, RT_K_F16, RT_K_BF16 }; /* = KirBase */
enum { RT_SPLIT_PHASE, RT_SPLIT_FROM, RT_SPLIT_TO, RT_SPLIT_FIRST };                    /* = PlanSplitArg */
enum { RT_SPLIT_LAST = 1000, RT_SPLIT_BLOCK = 256, RT_SPLIT_ARGS = 256 }; /* as PLAN_SPLIT_*, ORDER_ROW_BLOCK */
enum { RT_BIND_NONE, RT_BIND_THREADS, RT_BIND_BLOCK };                    /* what a GPU kernel's iterations are */
enum { RT_IMAGE_CUBIN, RT_IMAGE_PTX };
enum { RT_PART_ROW, RT_PART_FROM, RT_PART_TO, RT_PART_FIRST, RT_PART_NUMBERS }; /* = CUDA_PART_* */
enum { RT_MAX_PATH = 8 };                                                       /* = IR_MAX_PATH */
enum { RT_MAX_DIMS = 6, RT_CHAIN_STEPS = 8, RT_CHAIN_ARGS = 256 };              /* chains: as PLAN_CHAIN_* */

/* Tables. Every struct is made of int64_t and double only. Meanings as in ir/graph.h and ir/plan.h.
   All `first_*` fields index the model's flat tables; a step's buffer indices and a buffer's slot
   are relative to the program's first_buffer and first_slot. A buffer of kind RT_BUF_RESULT whose
   result has tensor >= 0 means the tensor's own storage. */
typedef struct RtPlace { /* where the .gnn source says something, for errors about data that do not fit */
    int64_t file, line;  /* line 0: it says it nowhere */
} RtPlace;
typedef struct RtSpace {
    int64_t name, is_edge;
    int64_t fixed;    /* elements, where the model says how many; else 0 */
    RtPlace declared; /* of a type or a relation of a schema */
} RtSpace;
typedef struct RtMapDef {
    int64_t name, from, to, partial, sorted, inverse;
    int64_t needs_rows; /* some step reads its rows or its list, or is cut by them */
    int64_t computed;   /* programs have it in memory of their own */
    int64_t implied;    /* of `candidates`: kernels compute the image from the pair's number, and no array holds it */
} RtMapDef;
typedef struct RtGraphDef {
    int64_t name, kind, edge, src_space, dst_space, src, dst, base, orig, image, policy;
    int64_t n_nodes, n_edges, seed;
    /* nearest (n_nodes: of n_edges * n_nodes neighbours every n_nodes-th): map from nodes to their graphs, or -1;
       keyed: from the base's edges to rows */
    int64_t batch;
    int64_t of;   /* select: map of chosen nodes to graphs; keyed: of the base's edges to keys */
    double ratio; /* select: where n_edges is 0 */
    int64_t redrawn;
    int64_t file, where, equals; /* file, column: arrays that are read; where -1: all edges */
    int64_t n_path, path[RT_MAX_PATH];
    /* answers: names of arrays with an integer for each edge of the base, then of each graph of path */
    int64_t n_keys, keys[RT_MAX_PATH + 1];
    RtPlace declared;
} RtGraphDef;
typedef struct RtTensorDef {
    int64_t name, kind, space, dtype, n_dims, width; /* width: elements per row */
    int64_t dims[RT_MAX_DIMS];                       /* sizes, row-major */
    int64_t dim_names[RT_MAX_DIMS];
    int64_t n_stored, stored_shape[RT_MAX_DIMS], stored_perm[RT_MAX_DIMS];
    int64_t init; /* IrInitKind */
    double init_a, init_b, hyper_default;
    int64_t bound, allow_missing, sparse;
    int64_t nonzeros, of, row, col; /* nonzeros 1: holds those of tensor `of`; maps of each */
    int64_t is_map, map;            /* is_map 1: an input whose integers are its rows' images under the map */
    RtPlace declared;
} RtTensorDef;
typedef struct RtCount { /* PlanCount */
    int64_t kind, space, value, block, max;
} RtCount;
typedef struct RtBuffer { /* PlanBuffer */
    int64_t kind, ref, elem, width, slot, name;
    RtCount rows;
    int64_t along;  /* of RT_BUF_MAP_ALONG: the map whose list orders the images */
    int64_t writer; /* step of the program that alone writes it and may leave rows out; or -1 */
} RtBuffer;
typedef struct RtSet { /* PlanSet; a and b count from the program's first_set */
    int64_t kind, space, ref, a, b;
} RtSet;
typedef struct RtSlot { /* PlanSlot */
    int64_t row_bytes, first, last;
    RtCount rows;
} RtSlot;
typedef struct RtStepArg {
    int64_t is_buffer, buffer;
    int64_t written; /* whether the kernel writes to the buffer */
    RtCount count;
} RtStepArg;
typedef struct RtCost {
    int64_t bytes, flops;
    RtCount count;
    int64_t table; /* of rows of this space, read in no order; -1: streams */
} RtCost;
typedef struct RtStep { /* PlanStep: what all kinds have; the rest is a row of the table of its kind */
    int64_t kind, part; /* part: index into calls or products */
    int64_t first_cost, n_cost;
    int64_t label, file, line; /* file and line of the .gnn source; -1 and 0 if none */
    /* how processes share it: RT_SAME ..., a space and a map or -1, and what it reads and writes then */
    int64_t work, over, under, first_touch, n_touches;
} RtStep;
typedef struct RtTouch { /* PlanTouch */
    int64_t buffer, writes, at, image, how;
} RtTouch;
/* a kernel over iterations: a step of kind RT_STEP_KERNEL, or what a product is without a library */
typedef struct RtCall {
    int64_t kernel, first_arg, n_args, grain, cut;
    int64_t rows, walk; /* PlanCone: sets of the program, -1: all */
    int64_t split;      /* index into splits; -1: rows are not split */
    RtCount extent;
} RtCall;
typedef struct RtGemm { /* PlanGemm: a step of kind RT_STEP_PRODUCT */
    int64_t call;       /* index into calls */
    int64_t transposed_a, a, b, c, m, n, k, elem;
    RtCount rows, blocks, block_rows;
} RtGemm;
typedef struct RtSplitDef { /* PlanSplit */
    int64_t walks, kernel, first_arg, n_args;
} RtSplitDef;
typedef struct RtChainDef { /* PlanChain; first counts from the program's first_step */
    int64_t first, n, strip, block;
} RtChainDef;
typedef struct RtResultDef {
    int64_t name, space, dtype, n_dims, width, tensor; /* tensor: updated in place, else -1 */
    int64_t dims[RT_MAX_DIMS], dim_names[RT_MAX_DIMS];
} RtResultDef;
typedef struct RtArgDef {    /* a function's argument */
    int64_t name, kind, ref; /* IrArgKind */
} RtArgDef;
typedef struct RtProgram {
    int64_t name; /* "forward", "vjp", "train_step", "metrics" */
    int64_t first_buffer, n_buffers, first_slot, n_slots, first_step, n_steps;
    int64_t first_argdef, n_argdefs, first_result, n_results, first_set, n_sets, first_chain, n_chains;
} RtProgram;
typedef struct RtMetric {
    int64_t name, result;
} RtMetric;
typedef struct RtTrain {
    int64_t present, epochs, seed, stop_metric, stop_minimise, patience, n_metrics;
    int64_t steps; /* of an epoch on all data; 0: one */
    int64_t batch; /* graphs of a step; 0: all at once */
} RtTrain;
typedef struct RtImage {      /* all kernels for a kind of GPU */
    int64_t kind, capability; /* 90: compute capability 9.0 */
    int64_t at, bytes;        /* in device_code; a zero follows */
} RtImage;
/* A kernel as a GPU runs it, by teams of 16 lanes, of 8 or of 4 (docs/ir-kernel.md, where they are called warps):
     void NAME(parameters, int64_t lo, int64_t hi, const int32_t *order)
   It computes the iterations order[lo] to order[hi - 1], or lo to hi - 1 where order is NULL. A kernel of RtSplitDef
   has `const int64_t *parts` there, RT_PART_NUMBERS for each part of a row, and computes the parts lo to hi - 1. */
typedef struct RtDeviceKernel {
    int64_t name, binding;
    int64_t lanes;                   /* threads of a team */
    int64_t warps;                   /* teams of a block: just so many where iterations are blocks, else at most */
    int64_t parts;                   /* where iterations are blocks: so many blocks compute one */
    int64_t warp_bytes, block_bytes; /* of dynamic shared memory, for each team and for each block */
} RtDeviceKernel;
/* What a GPU does per ns, and how long it takes: rows of passes/context/machine.def of the same names. */
typedef struct RtDeviceRates {
    double last_bytes, dram_bytes, cache_bytes, line_loads, issues, step_ns, load_ns, kernel_ns;
} RtDeviceRates;
/* What happens while the shim runs a kernel, told by each thread for itself; the text has the same
   (codegen/cuda/shim.cc). */
/* clang-format off */
enum { RT_SHIM_LAUNCH, RT_SHIM_LOAD, RT_SHIM_STORE, RT_SHIM_LOAD_SHARED, RT_SHIM_STORE_SHARED, RT_SHIM_TURN,
       RT_SHIM_BARRIER, RT_SHIM_BLOCK };
/* clang-format on */
typedef struct RtShimEvent {
    int kind;        /* LAUNCH: a kernel begins; TURN: a turn of a loop; BLOCK: all threads of a block have ended */
    unsigned thread; /* of the block */
    unsigned size;   /* bytes touched; of a turn its own instructions; of a launch the number of parameters */
    unsigned inner;  /* 1: in a loop without a loop */
    uint64_t at;     /* address, or offset in the block's shared memory; of a launch, its params */
    uint64_t place;  /* in the text, of the access or of the loop */
    uint64_t turn;   /* of all loops around, the same for threads that are in the same turns */
} RtShimEvent;
typedef struct RtShimWatch {
    const char *(*tell)(struct RtShimWatch *, const RtShimEvent *); /* NULL; else the shim ends with this message */
} RtShimWatch;
/* Runs a kernel that was compiled for this CPU from its CUDA text, as cuLaunchKernel would. watch: NULL, or who is
   told. 0, or 1: there is none of that name. */
typedef int (*RtShimFn)(const char *name, void **params, unsigned grid, unsigned block, size_t shared_bytes,
                        RtShimWatch *watch);
/* Fills an RtCudaDriver (runtime/cuda.h), or fails with an RtCode and an RtStatus. */
typedef int (*RtDriverFn)(void *driver, void *status);

typedef struct RtModel {
    int64_t abi_version; /* RT_ABI_VERSION of the compiler; the runtime refuses another */
    int64_t name;
    int64_t float_dtype; /* RT_F32 or RT_F64 */
    int64_t n_spaces, n_maps, n_graphs, n_tensors, n_programs, n_kernels, n_strings, n_images, n_device_kernels;
    const char *strings;
    const RtSpace *spaces;
    const RtMapDef *maps;
    const RtGraphDef *graphs;
    const RtTensorDef *tensors;
    const RtProgram *programs;
    const RtBuffer *buffers; /* a step's indices are relative to the program's first_buffer */
    const RtSlot *slots;
    const RtStep *steps;
    const RtCall *calls;
    const RtGemm *products;
    const RtSplitDef *splits;
    const RtChainDef *chains; /* of a program, by their first steps */
    const RtTouch *touches;
    const RtStepArg *step_args;
    const RtCost *costs;
    const RtSet *sets;
    const RtArgDef *argdefs;
    const RtResultDef *results;
    const RtMetric *metrics;
    const RtTrain *train;                 /* one, also where nothing is trained */
    const RtImage *images;                /* of GPUs that it was built for; none: for CPUs alone */
    const RtDeviceKernel *device_kernels; /* [n_device_kernels]: n_kernels, or 0 where it was built for CPUs alone */
    const RtDeviceRates *device_rates;    /* one, or none where it was built for CPUs alone */
    const RtKernelFn *kernels;        /* [RT_N_VARIANTS][n_kernels]; NULL: not built for that variant, or for no CPU */
    const unsigned char *device_code; /* of all images */
    RtShimFn shim;                    /* NULL: not built */
    RtDriverFn driver;                /* of a library, so that one for CPUs alone has nothing of it; else NULL */
    /* what runs on a device: the same programs and tensors with steps, buffers and kernels for one; itself where one
       plan serves both, NULL: none */
    const struct RtModel *device;
    int64_t manifest; /* JSON text for `info` */
} RtModel;

/* The kernel that a step calls, also where it is a product. */
static inline const RtCall *rt_step_call(const RtModel *m, const RtStep *s)
{
    return &m->calls[s->kind == RT_STEP_PRODUCT ? m->products[s->part].call : s->part];
}

/* What an executable's main calls; a generated executable is
   int main(argc, argv) { return gnnrt_main(&<model>, argc, argv); } */
int gnnrt_main(const RtModel *model, int argc, char **argv);
