/* The host plan: what the runtime does to run one function of the model. A list of steps over buffers whose
   sizes are formulas of counts; no sizes of a graph are compiled in. */
#pragma once
#include "ir/graph.h"
#include "ir/kernel.h"
#include "ir/order.h"

/* A number known at graph load. Of a space a process may have more rows than it owns: a count of them means those that
   it owns where it says what a step computes, all where it says what a buffer has. */
/* clang-format off */
typedef enum {
    PLAN_CONST,      /* value */
    PLAN_COUNT,      /* elements of a space */
    /* blocks of `block` rows, or of a power of two times so many, so that there are at most max: runtime/blocks.h */
    PLAN_BLOCKS,
    /* of these blocks: rows of each, levels of the tree in each, sums in memory for all */
    PLAN_BLOCK_ROWS, PLAN_BLOCK_LEVELS, PLAN_BLOCK_SLOTS,
    /* value: how many elements before their turn gathered rows are asked for; any number will do, 0: none */
    PLAN_AHEAD,
    /* value: PlanSplitArg, of the part of a row at hand; as the rows of a PLAN_STATE: blocks of split rows */
    PLAN_SPLIT,
} PlanCountKind;
/* clang-format on */
typedef struct PlanCount {
    PlanCountKind kind;
    IrId space;
    int64_t value, block, max;
} PlanCount;

static inline bool plan_same_count(const PlanCount *a, const PlanCount *b)
{
    return a->kind == b->kind && a->space == b->space && a->value == b->value && a->block == b->block &&
           a->max == b->max;
}

/* clang-format off */
typedef enum {
    PLAN_ARENA,   /* planned memory: slot */
    PLAN_TENSOR,  /* module tensor `ref` */
    PLAN_RESULT,  /* result `ref` of the function: the caller's buffer */
    PLAN_COTANGENT, /* cotangent `ref` */
    PLAN_SEED, PLAN_STEP, /* one i64 */
    PLAN_MAP_TO,  /* i32 [count(from)]: image of each element of map `ref`, -1 without one */
    PLAN_MAP_ROWS, /* i64 [count(to)+1]: row offsets of map `ref` */
    PLAN_MAP_LIST, /* i32 [count(from)]: elements grouped by image, in the user's order; identity if sorted */
    PLAN_IDS,     /* i64 [count]: the user's id of each element of space `ref` */
    /* i32 [count(from)]: image under map `ref` of each element in the order of the list of map `along` */
    PLAN_MAP_ALONG,
    PLAN_STRIP,   /* rows of the strip at hand: what passes between the steps of a chain */
    PLAN_STATE,   /* [blocks][width] what each block of a split row sums up to */
} PlanBufferKind;
/* clang-format on */
typedef struct PlanBuffer {
    PlanBufferKind kind;
    IrId ref, along;
    KirBase elem;
    PlanCount rows;
    int64_t width;        /* elements per row */
    uint32_t slot;        /* arena */
    uint32_t first, last; /* live steps, inclusive; set by memplan */
    uint32_t writer;      /* step that alone writes it and may leave rows out; or UINT32_MAX */
    const char *name;     /* for `plan` and dumps */
} PlanBuffer;

/* bytes = roundup(rows * row_bytes, 64); where they lie is packed at load (runtime/pack.h): in the program's block, or
   in a result's memory until anybody touches the result, unless the buffer has a writer */
typedef struct PlanSlot {
    PlanCount rows;
    int64_t row_bytes;
    uint32_t first, last; /* steps, inclusive: slots that live at the same step do not overlap */
} PlanSlot;

typedef struct PlanArg { /* one kernel parameter */
    bool is_buffer;
    uint32_t buffer; /* index into buffers */
    PlanCount count; /* scalar i64 */
} PlanArg;

/* What a step moves and computes per element of count: one entry for all that streams past, and one for every table
   whose rows are read in no order: through a map, or as the list of a map names them. */
typedef struct PlanCost {
    PlanCount count;
    int64_t bytes, flops;
    IrId table; /* the space whose rows are read in no order; IR_NONE: streams */
} PlanCost;

/* C[m][n] = sum over k of A * B, row-major f32 or f64. The emitted kernel does it; an executable may use BLAS
   instead, single-threaded, over the same row blocks (NN: 256 rows each; TN: the given blocks, one partial each, in the
   first rows of C). */
typedef struct PlanGemm {
    /* NN: A [rows][k], C [rows][n], B [k][n]. TN: A [rows][m], B [rows][n], C [blocks][m][n], one product per block of
       rows */
    bool transposed_a;
    uint32_t a, b, c; /* buffers */
    PlanCount rows, blocks, block_rows;
    int64_t m, n, k;
    KirBase elem;
} PlanGemm;

/* Rows of a space that are known when a graph is loaded: what a loss over few nodes needs (passes/plan/cone.c). */
typedef enum {
    PLAN_SET_EMPTY,
    PLAN_SET_MASK,   /* rows of tensor `ref` that are not 0 */
    PLAN_SET_IMAGE,  /* where map `ref` leads from the rows of a */
    PLAN_SET_ORIGIN, /* rows that map `ref` leads into a */
    PLAN_SET_EITHER, /* of a or b */
    PLAN_SET_BOTH,   /* of a and b */
    PLAN_SET_WALK,   /* of a, and elements of rows of map `ref` that have more than 256 (design.md: blocks of a sum) */
} PlanSetKind;
#define PLAN_SET_ALL UINT32_MAX
typedef struct PlanSet {
    PlanSetKind kind;
    IrId space, ref;
    uint32_t a, b; /* sets of the program, above this one */
} PlanSet;

/* What of a step matters; PLAN_SET_ALL: everything. What is not computed stays 0. */
typedef struct PlanCone {
    /* of the iterations' space that are computed; where iterations are blocks of rows, those that hold one */
    uint32_t rows;
    uint32_t right; /* rows whose operands are right: the same, or what is read of a block */
    uint32_t walk;  /* elements that sums over the rows of map `cut` take in; the others are 0 */
} PlanCone;

/* A row with very many elements is computed by several threads, walk by walk over its elements
   (passes/lower/lower_split.c). */
/* clang-format off */
typedef enum {
    PLAN_SPLIT_PHASE, /* the walk whose turn it is; PLAN_SPLIT_LAST: all had it, and the row's values are stored */
    PLAN_SPLIT_FROM, PLAN_SPLIT_TO, /* positions in the map's list: whole blocks of the row, but for its end */
    PLAN_SPLIT_FIRST, /* where the row's first block is among those of all split rows */
} PlanSplitArg;
/* clang-format on */
enum { PLAN_SPLIT_LAST = 1000, PLAN_SPLIT_WALKS = 16, PLAN_SPLIT_ARGS = 256 };
typedef struct PlanSplit {
    uint32_t walks;  /* at least one */
    uint32_t kernel; /* index into splits; its iterations are rows, as the step's */
    VEC(PlanArg) args;
    VEC(uint32_t) reads; /* buffers whose elements walks want, beside the maps */
} PlanSplit;

/* How processes that own rows of each space may share a step's work. */
typedef enum {
    PLAN_SAME,   /* it reads and writes nothing that they share out: each does all of it */
    PLAN_EACH,   /* rows of `over`, each by itself */
    PLAN_SUMS,   /* rows of `over`, each with all elements that map `under` leads there */
    PLAN_TOTALS, /* blocks of sums over all rows of `over`; the next step merges them */
    PLAN_APART,  /* not at all */
} PlanWork;

/* Rows of a buffer that a step reads or writes. Buffers of one row, and arrays of maps, are not listed. What
   PLAN_TOTALS write are sums of blocks, one buffer for each total. */
typedef enum {
    PLAN_AT_ROW,     /* at the row that is computed */
    PLAN_AT_ELEMENT, /* at the elements that map `under` leads there */
    PLAN_AT_ALL,     /* anywhere */
} PlanAt;
typedef enum {
    PLAN_READS,
    PLAN_WRITES,
    /* writes sums, or multiples of sums by numbers of the row, and what comes of some elements and of all others makes
       what comes of all: where processes sum their own, or elements by parts */
    PLAN_ADDS,
    PLAN_MULTIPLIES,
    PLAN_RAISES,
    PLAN_LOWERS, /* sum, product, maximum, minimum */
} PlanAccess;
/* What a step that sums over a map makes of the rows at images of its elements. */
typedef enum {
    PLAN_ANYHOW, /* anything; so is all of other steps */
    PLAN_LINEAR, /* read at images: each sum is homogeneous and linear in all that it reads so; written: the value is */
    PLAN_WITHOUT, /* written: the value does not depend on them; read at the row: by such values alone */
    PLAN_ALONE,   /* written: nor on elements, but its own where it is one */
} PlanHow;
typedef struct PlanTouch {
    uint32_t buffer;
    PlanAccess writes;
    PlanAt at;
    IrId image; /* at the image of that row or element under this map, or IR_NONE */
    PlanHow how;
} PlanTouch;

typedef enum {
    PLAN_STEP_KERNEL,  /* a kernel over its iterations */
    PLAN_STEP_PRODUCT, /* a kernel that is one product: a library may do it instead */
} PlanStepKind;

typedef struct PlanStep {
    PlanStepKind kind;
    VEC(PlanCost) cost;
    const char *label; /* "reduce_sum edge.dst [16] + 3 ops" */
    Span span;
    PlanWork work;
    IrId over, under; /* of that work: a space and a map; or IR_NONE */
    VEC(PlanTouch) touches;
    uint32_t kernel;   /* index into kernels */
    uint32_t group;    /* of the fused function, which it computes or helps to compute */
    VEC(PlanArg) args; /* one per kernel parameter */
    PlanCount extent;  /* of the parallel loop; const 1 without one */
    int64_t grain;     /* least iterations worth a thread */
    IrId cut;          /* map whose row lengths weigh the iterations, or IR_NONE */
    IrId nan_value;    /* graph IR value whose NaN this step would make first (for messages) */
    PlanCone cone;
    union {
        PlanSplit *split; /* of a kernel; NULL: rows are not split */
        PlanGemm gemm;    /* of a product */
    };
} PlanStep;

static inline PlanSplit *plan_split(const PlanStep *s) { return s->kind == PLAN_STEP_KERNEL ? s->split : NULL; }

/* Steps that run together, strip by strip (passes/plan/connect.c). */
enum { PLAN_CHAIN_STEPS = 8, PLAN_CHAIN_ARGS = 256 }; /* at most; args of all its steps */
typedef struct PlanChain {
    uint32_t first, n; /* steps; two at least */
    int64_t strip;     /* rows of a strip: a multiple of `block`, as is any shorter one */
    int64_t block;     /* rows: whole iterations of every step */
} PlanChain;

typedef struct PlanRescaled { /* a sum over rows, and the maximum or minimum of these that it rescales with */
    IrId sum, extreme;        /* of the function without clones */
} PlanRescaled;
typedef struct PlanForm {     /* which algebraic form its sums have, as far as fuse and lower choose it */
    IrId sums;                /* sums over all edges are sums over the rows of this map, and over these; or IR_NONE */
    int64_t filled;           /* bytes of a vector register that products were turned and cut to fill */
    VEC(PlanRescaled) online; /* by their sums, ascending */
} PlanForm;

/* What that sum rescales with in the form; IR_NONE: with nothing. */
static inline IrId plan_form_extreme(const PlanForm *form, IrId sum)
{
    for (uint32_t i = 0; i < form->online.n; i++)
        if (form->online.data[i].sum == sum) return form->online.data[i].extreme;
    return IR_NONE;
}
/* Some sum rescales with it in the form. */
static inline bool plan_form_rescales(const PlanForm *form, IrId extreme)
{
    for (uint32_t i = 0; i < form->online.n; i++)
        if (form->online.data[i].extreme == extreme) return true;
    return false;
}
typedef struct PlanProgram { /* one function */
    const char *name;        /* of the function */
    IrId func;
    PlanForm form;
    VEC(PlanBuffer) buffers;
    VEC(PlanSlot) slots;
    VEC(PlanStep) steps;
    VEC(PlanChain) chains; /* by their first steps; a step that is in none runs alone */
    VEC(PlanSet) sets;
} PlanProgram;

/* The chain that a step is in, or NULL. */
static inline const PlanChain *plan_chain(const PlanProgram *p, uint32_t step)
{
    for (uint32_t i = 0; i < p->chains.n; i++)
        if (step - p->chains.data[i].first < p->chains.data[i].n) return &p->chains.data[i];
    return NULL;
}

/* Kernels with the same parameters and bits, for one kind of CPU each. */
typedef enum {
    PLAN_WIDE,   /* 32 vector registers */
    PLAN_NARROW, /* 16 */
    PLAN_N_VARIANTS
} PlanVariant;
typedef struct PlanKernel {
    KirKernel *variants[PLAN_N_VARIANTS]; /* wide: always; NULL: the wide one */
} PlanKernel;

typedef struct HostPlan {
    const IrModule *module;
    VEC(PlanKernel) kernels;
    VEC(KirKernel *) splits; /* for parts of rows, on all CPUs; in tables behind the others */
    VEC(PlanProgram *) programs;
    const char *schedule; /* what fuse and schedule chose, as text: legal input of `gnnc build --schedule` */
} HostPlan;

static inline uint32_t plan_n_kernels(const HostPlan *p) { return p->kernels.n + p->splits.n; }

/* The kernel for a CPU with 32 vector registers of 64 bytes, or for another. */
static inline KirKernel *plan_kernel(const HostPlan *p, uint32_t i, bool wide)
{
    if (i >= p->kernels.n) return p->splits.data[i - p->kernels.n];
    const PlanKernel *k = &p->kernels.data[i];
    return wide || !k->variants[PLAN_NARROW] ? k->variants[PLAN_WIDE] : k->variants[PLAN_NARROW];
}
/* All kernels as text, with those in place of others. */
void plan_print_kernels(const HostPlan *p, StrBuf *out);

/* Bytes of the slots that live at the same step, as text: "64*node + 4*edge + 1024", or the max of several such sums
   where counts decide. Packing needs seldom more; `plan` of an executable says the exact number. */
const char *plan_peak_text(const HostPlan *p, const PlanProgram *prog, Arena *a);
/* The .plan dump: buffers with their lifetimes, steps with arguments, peak. */
void plan_print(const HostPlan *p, StrBuf *out);
