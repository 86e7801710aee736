/* Graph IR (.gir): the message-passing dataflow graph. Single assignment, typed with space, dims and
   dtype. A module is immutable once a pass returned it; a pass builds the next generation in the
   stage arena. Text form, rules and every op: docs/ir.md. */
#pragma once
#include "base/arena.h"
#include "base/diag.h"
#include "base/vec.h"
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t IrId; /* value, space, map, dim, graph, tensor or function: an index */
#define IR_NONE UINT32_MAX
typedef VEC(IrId) IrValues;
enum { IR_MAX_DIMS = 6, IR_UNIT = 0 /* space 0 is always the unit space: one row */ };

/* f16 and bf16 are how numbers lie in memory: values of these are cast from f32 and to it, and moved, never computed
   with. */
typedef enum { IR_F32, IR_F64, IR_I32, IR_I64, IR_BOOL, IR_F16, IR_BF16, IR_N_DTYPES } IrDtype;
extern const char *const ir_dtype_names[IR_N_DTYPES];
bool ir_dtype_is_float(IrDtype t);
static inline bool ir_dtype_is_16_bits(IrDtype t) { return t == IR_F16 || t == IR_BF16; }
size_t ir_dtype_bytes(IrDtype t); /* BOOL is one byte */

/* A feature dim: a name for people, a size for machines. Values broadcast by dim identity (index),
   never by size. size < 0: not known (only `gnnc check` leaves such dims; passes never see them). */
typedef struct IrDim {
    const char *name; /* unique in the module */
    int64_t size;
} IrDim;

/* An index set whose count is known when a graph is loaded. Space 0 is the unit space. */
typedef struct IrSpace {
    const char *name; /* "node", "edge", "graph", "edge.loops"; unique */
    bool is_edge;     /* stored sorted by destination, in the user's order inside each row */
    bool has_dim;     /* one element per index of `dim`: "x.col". Reshape leads from unit to it and back */
    IrId dim;
    Span span; /* where a schema declares the type or the relation; none for others */
} IrSpace;

/* A function between spaces, from -> to. `edge.src`, `edge.dst`, `node.graph`, `edge.loops.orig`. */
typedef struct IrMap {
    const char *name;
    IrId from, to;
    bool partial;  /* some elements of `from` have no image: gather gives 0 there */
    bool sorted;   /* `from` is stored sorted by this map (edge.dst, node.graph): rows are ranges */
    IrId inverse;  /* the inverse map where this one is injective, else IR_NONE */
    bool computed; /* what it is, a function says by one op `route`, which stands above all that goes through it */
} IrMap;

/* Where an edge space comes from. Built by the runtime at load, in this order. */
typedef enum {
    IR_GRAPH_DATA,
    IR_GRAPH_RANDOM,
    IR_GRAPH_SELF_LOOPS,
    IR_GRAPH_REVERSE,
    IR_GRAPH_LINE,     /* its nodes are the base's edges: from e to f where e ends at the node that f begins at */
    IR_GRAPH_SIBLINGS, /* likewise, where e and f end at one node, e = f too */
    IR_GRAPH_COMPLETE, /* the base's nodes: from each to each of the same graph of the batch, itself too */
    /* n_edges drawn pairs for each edge of the base: its source, and a node that it leads no edge to */
    IR_GRAPH_NEGATIVES,
    IR_GRAPH_NEAREST, /* to each node n_edges others, or as many as its graph of the batch has; which, a `route` says */
    /* some nodes of each graph of the base's batch, a space of its own, and the edges between them; which, three
       `route`s say. It has as many edges as its base: those that lose an end lead nowhere */
    IR_GRAPH_SELECT,
    IR_GRAPH_FILE, /* edges of their own in the data, between rows of any two spaces of nodes */
    /* n_edges for each edge of the base, one after another, and where `of` leads to graphs of a batch one for each
       target behind those of its graph; between any spaces, where two `route`s say */
    IR_GRAPH_ROUTED,
    IR_GRAPH_PERMUTATION, /* into each of the base's nodes one edge, from another: all in an order that is drawn */
    IR_GRAPH_COLUMN,  /* from each row of a space of nodes one edge, to the row of another that an integer of it says */
    IR_GRAPH_COMPOSE, /* a metapath: from each node to each that a path leads to, one edge of every graph of `path` */
    /* its edges are the pairs of a row and a key that the base's edges have, by key, then by row: from the row to the
       key. `batch` says each edge's row, `of` its key, a map that an input says, `image` its pair */
    IR_GRAPH_KEYED,
    /* to each edge of the base an edge from every node of those that the base's edges lead to: a pair's ends follow
       from its number, so that no array says them where rows are walked (ir_graph_of_all) */
    IR_GRAPH_CANDIDATES,
    /* to each edge of the base an edge from every node that some edge of `path` leads to from the same source, and with
       the same key where there are `keys`; each once */
    IR_GRAPH_ANSWERS,
} IrGraphKind;
/* Graphs of pairs keep no edge of their base. Their edges stand by target, then by source, in the user's order of
   each. */
static inline bool ir_graph_is_pairs(IrGraphKind k) { return k >= IR_GRAPH_LINE && k <= IR_GRAPH_COMPLETE; }
/* Functions say their ends. */
static inline bool ir_graph_is_found(IrGraphKind k) { return k == IR_GRAPH_SELECT || k == IR_GRAPH_ROUTED; }
static inline bool ir_graph_has_of(IrGraphKind k) { return ir_graph_is_found(k) || k == IR_GRAPH_KEYED; }
/* The batch whose graphs its rows stay in, or rows by key (`batch`). */
static inline bool ir_graph_has_by(IrGraphKind k) { return k == IR_GRAPH_NEAREST || ir_graph_has_of(k); }
/* Whether an array of the data says its edges: ir_graph_file. */
static inline bool ir_graph_is_read(IrGraphKind k) { return k == IR_GRAPH_FILE || k == IR_GRAPH_COLUMN; }
static inline bool ir_graph_is_drawn(IrGraphKind k) { return k == IR_GRAPH_NEGATIVES || k == IR_GRAPH_PERMUTATION; }
typedef enum { IR_LOOPS_KEEP, IR_LOOPS_REPLACE, IR_LOOPS_ADD, IR_LOOPS_REMOVE } IrLoopPolicy;
enum { IR_MAX_PATH = 8 };
typedef struct IrGraph {
    const char *name;
    IrGraphKind kind;
    IrId edge, src_space, dst_space; /* spaces; src_space == dst_space unless bipartite */
    IrId src, dst;                   /* maps edge -> src_space, edge -> dst_space */
    IrId base;                       /* graph it derives from, or IR_NONE */
    /* self_loops, reverse: partial maps edge -> base edge and back; negatives, routed: orig, to the edge that a pair
       was drawn for, that it was made for, and image, from the others to the targets that they were made for */
    IrId orig, image;
    /* self_loops. keep: a node's last loop stays, others vanish, missing ones are added (golden quirk 1); replace: all
       removed, one each added (quirk 19); add: one beside whatever is there (27); remove: none left. New loops stand
       behind the kept edges, by node. nearest: keep or remove, whether a node is its own neighbour */
    IrLoopPolicy policy;
    /* nearest, select, routed: map of each source, of each node of the base, of each target to its graph, sorted but
       for routed; IR_NONE: all are of one (nearest), no edge of targets (routed). keyed: of each of the base's edges to
       its row */
    IrId batch;
    /* select: map of each chosen node to its graph, or to unit, where `batch` leads; `image` leads from the base's
       nodes to the chosen ones. routed: the same of each edge, with `batch`. keyed: of each of the base's edges to its
       key */
    IrId of;
    /* select: n_edges of each graph's nodes, or, where that is 0, this share, rounded up. keyed: pairs for each edge of
       the base, as passes expect */
    double ratio;
    int64_t n_nodes, n_edges, seed; /* random; negatives, routed: n_edges for each of the base's */
    int64_t n_targets;              /* random, between two spaces: rows of dst_space, n_nodes those of src_space */
    int64_t step;                   /* nearest: of n_edges * step neighbours every step-th, the first included */
    /* negatives, permutation: drawn again for each step of training, from the run's seed, the step and the site `seed`;
       else once, from the seed */
    bool redrawn;
    /* file, column: the array that is read, NULL: that of the graph's name; file: the array of integers of each edge of
       which one says which edges are the graph's, those that have `equals` there; NULL: all are */
    const char *file, *where;
    int64_t equals;
    /* compose: the graphs of a path's edges, from its source on; answers: those whose edges are looked through */
    IrId path[IR_MAX_PATH];
    uint32_t n_path;
    /* answers: arrays of an integer for each edge of the base, then of each graph of the path; n_keys 0: none are asked
       for */
    const char *keys[IR_MAX_PATH + 1];
    uint32_t n_keys;
    Span span; /* where the program says it; none for the data's graph, loops, reverses and made-up ones */
} IrGraph;
/* Whether its targets are the base's edges, its sources the nodes that these lead to. */
static inline bool ir_graph_is_of_targets(IrGraphKind k) { return k == IR_GRAPH_CANDIDATES || k == IR_GRAPH_ANSWERS; }
static inline const char *ir_graph_file(const IrGraph *g) { return g->file ? g->file : g->name; }

typedef struct IrType {
    IrId space;
    IrDtype dtype;
    uint8_t n_dims;
    IrId dims[IR_MAX_DIMS]; /* row-major order; no dim twice */
} IrType;

typedef enum {
#define OP(name, ...) IR_OP_##name,
#include "ir/ops.def"
#undef OP
    IR_N_OPS
} IrOpcode;

/* clang-format off */
enum { T_MAP = 1, T_REDUCE = 2, T_MOVE = 4, T_DIMS = 8, T_RANDOM = 16, T_COMM = 32, T_LINEAR = 64, T_CMP = 128,
       T_VIEW = 256, T_ZERO = 512, T_POLE = 1024 };
/* clang-format on */
enum { A_NONE = 0, A_F = 1, A_I = 2, A_MAP = 4, A_DIM = 8, A_SITE = 16 };
enum { VARIADIC = 255 };

typedef struct IrOpInfo {
    const char *name;
    uint8_t n_args;
    uint8_t attrs;
    uint16_t traits;
    uint16_t flops;
} IrOpInfo;
extern const IrOpInfo ir_ops[IR_N_OPS];

/* Ops that pass autodiff takes away: they have no value of their own before. */
static inline bool ir_op_is_of_autodiff(IrOpcode op)
{
    return op == IR_OP_grad || op == IR_OP_incoming || op == IR_OP_with_adjoint;
}

typedef struct IrAttr {
    double f;      /* const: the value; reduce_max/min: what an empty row gives */
    int64_t i;     /* arg: index into the function's args; slice: first index */
    IrId map;      /* gather, mapped, reduce_* */
    IrId dim;      /* iota, slice, at (operand's dim), concat (result's dim) */
    uint32_t site; /* random: numbered by sema, never renumbered */
} IrAttr;

/* One op, one value: `%12 = add %3, %7 : node[F] f32`. */
typedef struct IrOp {
    IrOpcode op;
    IrType type;
    uint32_t n_args;
    IrId *args; /* values of the same function, all smaller than this one's index */
    IrAttr attr;
    Span span; /* where in the .gnn file; none for made-up ops */
} IrOp;

/* What a function's argument is bound to. */
typedef enum {
    IR_ARG_TENSOR,    /* a module tensor: input, parameter, state, hyper */
    IR_ARG_SEED,      /* i64, unit: the run's seed */
    IR_ARG_STEP,      /* i64, unit: 0-based training step */
    IR_ARG_COTANGENT, /* of result `ref` of the function named in docs/ir.md, section vjp */
} IrArgKind;
typedef struct IrArg {
    const char *name;
    IrArgKind kind;
    IrId ref; /* tensor index, or result index for a cotangent */
    IrType type;
} IrArg;

/* What a result is written to. */
typedef struct IrResult {
    const char *name;
    IrId value;
    IrId tensor; /* updates this tensor in place (train_step), else IR_NONE */
} IrResult;

/* Conventional names: "forward", "vjp", "train_step", "metrics", "test.N", "export.NAME" and "setup.*". */
typedef struct IrFunc {
    const char *name;
    VEC(IrArg) args;
    VEC(IrOp) ops; /* topological order */
    VEC(IrResult) results;
    bool train_mode;
} IrFunc;

typedef enum {
    IR_INPUT,
    IR_PARAM,
    IR_STATE,
    IR_HYPER,
    IR_HELD, /* computed once from inputs by a function `setup.*`, before any other runs (pass hoist) */
} IrTensorKind;
typedef enum { IR_INIT_CONST, IR_INIT_UNIFORM, IR_INIT_NORMAL } IrInitKind;
/* The nonzero elements of another tensor, row by row, columns ascending; an input that is bound where that one is. */
typedef struct IrNonzeros {
    bool present;
    IrId of;       /* tensor S[F] */
    IrId row, col; /* maps of each element: to S, sorted; to the space of dim F */
} IrNonzeros;
/* A named tensor that outlives a call. */
typedef struct IrTensor {
    const char *name; /* input: file stem ("x"); param: "conv1.lin.weight"; state: "adam.m.<param>" */
    IrTensorKind kind;
    IrType type;
    /* params: the stored form. Element (i0..ik) of the stored tensor is the value's element with its
       dims in the order stored_perm; consecutive dims are merged into stored_shape. */
    uint8_t n_stored;
    int64_t stored_shape[IR_MAX_DIMS];
    uint8_t stored_perm[IR_MAX_DIMS];
    IrInitKind init;
    double init_a, init_b; /* const: a; uniform: [a, b); normal: mean a, deviation b */
    double hyper_default;  /* hyper */
    /* integer inputs: values lie in [0, bound); 0: not checked; -1 allowed when allow_missing (an unlabelled row) */
    int64_t bound;
    bool allow_missing;
    bool sparse; /* inputs: most elements are 0 (a promise about speed, not about values) */
    IrNonzeros nonzeros;
    bool is_map; /* integer inputs: each row's value is its image under `map`; of -1 and what is no row, none */
    IrId map;
    Span span;
} IrTensor;

enum { IR_MAX_METRICS = 32 /* as many as the runtime keeps */, IR_MAX_STEPS = 1000000 /* of an epoch */ };
typedef struct IrMetric {
    const char *name;
    uint32_t result; /* index into results of "metrics" */
} IrMetric;

/* The `train` block. */
typedef struct IrTrain {
    bool present;
    int64_t epochs, seed;
    VEC(IrMetric) metrics;
    IrId stop_metric; /* index into metrics, or IR_NONE */
    bool stop_minimise;
    int64_t patience;
    int64_t batch; /* graphs of a step; 0: all at once */
    int64_t steps; /* of an epoch, each on all data; 0: one, or as many as there are batches */
} IrTrain;

typedef struct IrAssert { /* result k of a test function: bool; false anywhere fails */
    const char *text;
    Span span;
} IrAssert;
typedef struct IrTest {
    const char *name;
    IrId func;
    VEC(IrAssert) asserts; /* one per result, in order */
    Span span;
} IrTest;

typedef struct IrModule {
    Arena *arena;
    const char *name;
    VEC(IrDim) dims;
    VEC(IrSpace) spaces;
    VEC(IrMap) maps;
    VEC(IrGraph) graphs;
    VEC(IrTensor) tensors;
    VEC(IrFunc *) funcs;
    IrTrain train;
    VEC(IrTest) tests;
    uint32_t n_sites;
} IrModule;

/* ---- building ------------------------------------------------------------------------------- */

/* An empty module with the unit space. */
IrModule *ir_module_new(Arena *a, const char *name);
/* A module that shares all tables and functions with m; a pass replaces funcs one by one. */
IrModule *ir_module_clone(Arena *a, const IrModule *m);
IrFunc *ir_func_new(IrModule *m, const char *name);
IrFunc *ir_func_find(const IrModule *m, const char *name);    /* NULL if absent */
IrId ir_dim_new(IrModule *m, const char *name, int64_t size); /* the name is made unique */
IrId ir_space_new(IrModule *m, const char *name, bool is_edge);
IrId ir_map_new(IrModule *m, const char *name, IrId from, IrId to);
/* Whether rows lie in the order in which the user gives them; those of edges lie by destination. */
bool ir_space_keeps_order(const IrModule *m, IrId space);
/* Whether a map is known when the graph is loaded: neither computed nor of a graph that is drawn for each step. */
bool ir_map_stays(const IrModule *m, IrId map);
/* The graph `candidates` of which the map is an end: row r of its targets has the elements from r * n to (r + 1) * n,
   n being the number of its sources, one of each in order. NULL: of none. */
const IrGraph *ir_graph_of_all(const IrModule *m, IrId map);

/* Adds an argument and its `arg` op; returns the value. */
IrId ir_arg(IrModule *m, IrFunc *f, IrArg arg);
/* Adds an op; operands are copied. Types are not checked here: the verifier does. */
/* Attributes that the op does not carry are ignored. */
IrId ir_add(IrModule *m, IrFunc *f, IrOpcode op, IrType type, const IrId *args, uint32_t n_args, IrAttr attr,
            Span span);
void ir_result(IrModule *m, IrFunc *f, const char *name, IrId value, IrId tensor);
/* m without its tests, and without what only they reach: an artefact carries neither. m itself where it has none. */
const IrModule *ir_without_tests(Arena *a, const IrModule *m);

IrType ir_scalar(IrDtype t); /* unit space, no dims */
/* A cast to f16 or bf16, where a number is rounded, and one from there, which changes none. */
bool ir_op_narrows(const IrFunc *f, const IrOp *op);
bool ir_op_widens(const IrFunc *f, const IrOp *op);
/* The op `route` that says what the map of this op is where it is computed; IR_NONE: not computed, or `op` is that
   route. An op depends on it as on an operand. */
IrId ir_route_of(const IrModule *m, const IrFunc *f, const IrOp *op);
bool ir_type_eq(const IrType *a, const IrType *b);
bool ir_type_has_dim(const IrType *t, IrId dim);
int64_t ir_type_width(const IrModule *m, const IrType *t); /* product of dim sizes; < 0 on overflow */
/* the bytes of a row can be counted; true where a size is not known */
bool ir_row_fits(const IrModule *m, const IrType *t);
/* Result type of a pointwise op: dtype of a, the space that is not unit, dims of a then those of b that are new.
   Dims beyond IR_MAX_DIMS are left out: callers that may have so many look with ir_type_has_dim. */
IrType ir_type_join(const IrType *a, const IrType *b);
/* Result type of `at`: x with the dims of the index in the place of `dim`; dims that both have are the index's. False:
   so many that a one-hot with all of them may be no value. */
bool ir_type_at(const IrType *x, IrId dim, const IrType *index, IrType *out);

/* ---- text, checks, reference ------------------------------------------------------------------ */

void ir_print(const IrModule *m, StrBuf *out);
void ir_print_dot(const IrModule *m, StrBuf *out);                      /* a drawing for graphviz; not read back */
const char *ir_type_text(const IrModule *m, const IrType *t, Arena *a); /* "node[H,D] f32" */
/* NULL with E0501/E0502 in d. parse(print(m)) prints to the same text. */
IrModule *ir_parse(Arena *a, const Source *src, Diags *d);
/* All rules of docs/ir.md. Adds E0502 and returns false on the first breach of each function. */
bool ir_verify(const IrModule *m, Diags *d);
/* The rule of column `shape` for one op: NULL, or what is wrong. */
const char *ir_shape_check(const IrModule *m, const IrFunc *f, const IrOp *op, Arena *a);
