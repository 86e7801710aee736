/* Elaboration: the program is run at compile time. Values of the run are tensors (ops of the
   function being written), statics (numbers, words, lists, definitions, instances, graphs) and
   dims. This header is shared by sema.c and the elab_*.c files only; the public face is frontend.h.

   Types during elaboration are IrTypes whose dims index Elab.dims: a dim is an object with a label
   and a size that may be unknown yet. Objects are never merged here; where two must be one, sizes
   are unified and a reshape renames one. elab_finish.c puts numbers in, merges what can be merged
   and drops those reshapes.

   Who may call whom: a file calls files of its own layer and of those before it.
     values   dims elab_value elab_scope elab_space elab_dim elab_type elab_tensor elab_ops
     graphs   elab_graph elab_near elab_select elab_found elab_schema elab_record
     places   elab_key elab_static
     calls    elab_builtin elab_reduce elab_call elab_slot elab_adjoint elab_update elab_assert
     walk     elab_expr elab_stmt elab_lookup
     modes    elab_names elab_entry elab_train elab_test elab_finish sema doc
   Every layer may go back to the walk for a part of the program's text, and to the schema for what a name is there, by:
   elab_expr, elab_block, scope_lookup, constant_value, error_unknown_name, call_reduce, space_find, schema_name,
   schema_type, schema_relation, type_space, relation_value, error_no_type, error_no_relation, type_is_by_type,
   coerce_record, value_record. */
#pragma once
#include "frontend/ast.h"
#include "frontend/dims.h"
#include "frontend/frontend.h"

typedef struct Elab Elab;
typedef struct Frame Frame;
typedef struct Value Value;
typedef struct Def Def;

typedef enum {
    V_ERROR, /* a diagnostic was made; poisons silently */
    V_NONE,
    V_TENSOR,
    V_NUMBER,
    V_BOOL,
    /* a name without meaning of its own, or a string: an enum word until used as something else */
    V_WORD,
    V_LIST,
    V_TUPLE,
    V_RECORD,   /* a value for each type, or each relation */
    V_DIM,      /* a dim's name where a value stands */
    V_DEF,      /* a definition with some arguments bound */
    V_INSTANCE, /* a layer that owns parameters */
    V_GRAPH,
    V_DATA, /* `data` */
    V_TYPE  /* `edge[3]` where a value stands */
} ValueKind;

/* A graph: its entry in the module, and what was carried to its edges. */
typedef struct GraphValue {
    const char *name;
    IrId id; /* IR graph */
    const char **carried_names;
    const Value *carried;
    uint32_t n_carried;
} GraphValue;

typedef struct NearGraph { /* of one call of knn, in one function */
    const IrFunc *f;
    IrId points, to; /* values */
    int64_t k, step;
    bool itself;
    const GraphValue *graph;
} NearGraph;

typedef struct SelectGraph { /* of one call of select, in one function */
    const IrFunc *f;
    IrId score, base; /* value, graph */
    int64_t k;
    double ratio;
    bool some; /* by a bool: fewer rows than there are may be in use */
    const GraphValue *graph;
} SelectGraph;

typedef struct RoutedGraph { /* whose routes a function has */
    const IrFunc *f;
    IrId graph;
} RoutedGraph;

typedef struct BoundArg {
    const char *name;
    const Value *value;
} BoundArg;

typedef struct Instance {
    const Def *def;
    const char *path; /* "conv1." or NULL until named */
    const BoundArg *args;
    uint32_t n_args;
    Span span;
} Instance;

struct Value {
    ValueKind kind;
    Span span;
    Span from;           /* of a value read by its name: where that got it; no place otherwise */
    IrId id;             /* V_TENSOR: op of the current function */
    IrType type;         /* V_TENSOR, V_TYPE */
    const Size *classes; /* V_TENSOR of class numbers: how many there are; or NULL */
    double num;          /* V_NUMBER, V_BOOL */
    bool is_int;         /* V_NUMBER: written without point */
    const char *word; /* V_WORD, V_DEF; V_GRAPH: its relation; V_DATA: the type or relation of `data.paper`; V_NUMBER,
                            V_DIM: the name it was read from; or NULL */
    IrId dim;         /* V_DIM; V_NUMBER: the dim of that name; else IR_NONE */
    const Value *items;
    uint32_t n;
    const char *const *keys; /* V_RECORD: [n] names */
    const Def *def;          /* V_DEF */
    const BoundArg *args;
    uint32_t n_args;
    Instance *instance;
    const GraphValue *graph;
};

typedef struct Dim {
    const char *label; /* or NULL */
    const Size *size;
    IrId origin; /* the caller's dim that was passed for it, or IR_NONE */
    Span span;
} Dim;

struct Def {
    const char *name;
    const AstDecl *decl;
    bool is_std;
    bool used;
};

typedef struct DefTable { /* name -> Def; std text sees the library's own definitions only */
    StrMap all, std;
} DefTable;

typedef struct Binding {
    const char *name;
    Value value;
    struct Binding *next;
} Binding;

typedef struct Symbol { /* a dim or domain variable of a signature */
    const char *name;
    IrId id; /* dim, or space for domains */
    struct Symbol *next;
    bool own; /* a dim that the frame made, not one of the caller's under another name */
} Symbol;

typedef struct FrameBuffer { /* a buffer of the layer at hand: assigning to its name sets its after-value */
    const char *name;
    IrId tensor;
    IrType type; /* with the frame's dims */
} FrameBuffer;

/* One instantiation of a definition. */
struct Frame {
    Frame *caller;
    const Def *def;
    Span call;
    uint32_t depth;
    Binding *vars;
    uint32_t n_vars;
    StrMap var_names; /* name -> Binding, of a frame that has many */
    Symbol *dims, *domains;
    StrMap declared;        /* dim names of the signature */
    IrId rest[IR_MAX_DIMS]; /* what `...` stands for in the types of the frame */
    uint8_t n_rest;
    bool has_rest;
    const char *path; /* prefix of parameter names */
    const char *turn; /* behind it, in a turn of `forall`: "paper."; else "" */
    StrMap children;  /* names given to instances -> Instance */
    StrMap fresh;     /* layer name -> counter */
    StrMap slots;     /* parameter names of this call -> AstSlot */
    VEC(FrameBuffer) buffers;
    const GraphValue *graph; /* ambient */
    enum { DIMS_HOLE, DIMS_FREE, DIMS_RIGID } new_dims;
    IrId reduce_from, reduce_to; /* in a reducer: what `edge` and `node` stand for; else IR_NONE */
    bool in_step;                /* its step runs */
    bool returned;
    Value result;
    const AstDecl *train;    /* of a train block: its names stand for the numbers of the run, too */
    const AstBlock *adjoint; /* of a function that states its own, or NULL */
    bool in_adjoint;
};

typedef struct TensorInfo { /* beside m->tensors */
    const void *owner;      /* the slot or signature entry that declared it */
    const char *local;      /* of a slot: its stored name without the instance's path */
    const Size *stored[IR_MAX_DIMS];
    const char *init; /* word: "glorot", ...; or NULL: init_a given */
    double init_a, init_b;
    const Size *fan; /* kaiming(F) */
    const Size *classes;
    bool buffer;          /* not trained */
    const IrFunc *reader; /* the last function that took it as an argument, and as which value */
    IrId value;
} TensorInfo;

typedef struct Patch { /* a constant whose number is a size */
    IrFunc *f;
    IrId op;
    const Size *size;
} Patch;

typedef struct FuncArg {
    IrId tensor;
    IrId value;
} FuncArg;

typedef struct AfterValue { /* what a buffer holds when the function being written has run */
    IrId tensor;
    Value value;
} AfterValue;

typedef struct NodeType {
    const char *name;
    Span span;
    const AstExpr *width; /* of its features, or NULL */
} NodeType;

typedef enum {
    RELATION_LIST,   /* a file of edges */
    RELATION_COLUMN, /* one edge for each source: a file of targets */
    RELATION_PATH,   /* an edge for each pair that a path of other relations joins */
    RELATION_REVERSE
} RelationKind;

typedef struct PathStep {
    uint32_t relation;
    bool back; /* against its edges */
} PathStep;

typedef struct Relation {
    const char *name;
    Span span;
    uint32_t from, to; /* types */
    RelationKind kind;
    const char *file, *where;   /* list, column; where: the file of integers that says which edges are its, or NULL */
    int64_t equals;             /* what they have there */
    PathStep path[IR_MAX_PATH]; /* path; reverse: one */
    uint32_t n_path;
} Relation;

typedef struct Schema {
    VEC(NodeType) types;
    VEC(Relation) relations;
} Schema;

typedef struct DrawnSchema { /* in a test; edges 0: not drawn yet, or no test */
    int64_t nodes, edges, seed;
} DrawnSchema;

struct Elab {
    Arena *a;
    Diags *d;
    IrModule *m;
    const FrontendOptions *opt;
    Sizes z;
    VEC(Dim) dims;
    VEC(TensorInfo) tensors;
    VEC(Patch) patches;
    DefTable functions, folds, optimizers;
    StrMap tensor_names; /* name -> index of a tensor, plus 1; may be forgotten since */
    StrMap constants;    /* name -> AstSlot of a `const` at top level; the library has none */
    VEC(Def *) defs;
    StrMap free_dims;  /* name -> Size of a symbol of the program */
    StrMap used_sets;  /* --set names that meant something */
    Span entry_span;   /* of the model's name */
    Schema *schema;    /* of the program, or NULL */
    DrawnSchema drawn; /* in the test at hand */
    bool alone; /* a definition that nobody calls is checked: it has the graph that a program without schema has */
    const GraphValue *data_graph;
    VEC(NearGraph) near;
    VEC(SelectGraph) selected;
    VEC(RoutedGraph) routed;
    bool bipartite;
    IrId graph_space;
    IrId label_space; /* of labels and masks when no data is known; or IR_NONE */
    Frame *frame;
    /* of the function being written */
    IrFunc *f;
    bool training;
    VEC(FuncArg) func_args;
    VEC(AfterValue) after;
    IrId seed, step; /* values, or IR_NONE */
    IrDtype real;
    IrId reduce_from, reduce_to; /* for the frame that is entered next */
    VEC(IrType) outputs;         /* of "forward" */
    const Def *top_def;          /* the exported layer: its dims are symbols of the program */
    IrTest *test;                /* the test being written, or NULL */
    Span loop;                   /* the range of the innermost loop at hand, if any */
    uint32_t budget;             /* expressions, ops and turns left before the program counts as endless */
    size_t memory;               /* what the arena may hold until then */
};

/* ---- values (elab_value.c) ---- */
Value value_error(void);
Value value_none(Span s);
Value value_number(double x, bool is_int, Span s);
Value value_bool(bool b, Span s);
Value value_word(const char *w, Span s);
Value value_tensor(IrId id, IrType t, Span s);
bool value_is_static(const Value *v);
bool value_is_word(const Value *v, const char *word); /* a word or a definition of that name */
const char *value_text(Elab *e, const Value *v);      /* "node[H]", "number 3", "layer linear" */
const char *dim_text(Elab *e, IrId dim);              /* as the reader of the current definition knows it */
const char *type_text(Elab *e, const IrType *t);      /* in the words of the current frame */
const char *space_text(Elab *e, IrId space);
/* Where it comes from, or what is wanted is declared, if that is another place, and the user's. */
void note_value(Elab *e, Diag *d, const Value *v);
void note_wanted(Elab *e, Diag *d, Span declared);
Span name_span(Span s, const char *name);           /* the name that begins s; no place if another text does */
void note_name(Elab *e, Diag *d, const char *name); /* where the user defines it, if at all */

/* ---- names and frames (elab_scope.c) ---- */
Frame *frame_push(Elab *e, const Def *def, Span call);
void frame_pop(Elab *e);
/* One of the budget; false when it is used up: the first time with an error at s. */
bool elab_spend(Elab *e, Span s);
void scope_set(Elab *e, const char *name, Value v); /* binds or rebinds */
Binding *scope_find(const Frame *f, const char *name);
Def *def_find(const Elab *e, const DefTable *table, const char *name);

/* ---- finding or making graphs, spaces and maps of the module (elab_space.c) ---- */
/* The graph that is at hand where no other is. With a schema there is none: an entry that is in no module. */
const GraphValue *graph_data(Elab *e);
bool graph_is_none(const GraphValue *g);
void error_no_graph(Elab *e, const char *what, Span s);
Value graph_of_file(Elab *e, const char *name, Span s); /* edges of their own in the data: NAME.npy */
const IrGraph *graph_ir(Elab *e, const GraphValue *g);
const GraphValue *graph_add(Elab *e, IrGraph g);
void graph_maps(Elab *e, IrGraph *g); /* of g's edges to its ends, made */
Value value_graph(const GraphValue *g, Span s);
const IrGraph *graph_of_edges(Elab *e, IrId space); /* NULL: not an edge space */
IrId map_all(Elab *e, IrId space);                  /* space -> unit */
IrId map_graph(Elab *e, IrId space);                /* space -> graph, or IR_NONE */
IrId graph_space(Elab *e);                          /* that of the graphs of a batch */

/* ---- dims and types (elab_type.c) ---- */
IrId dim_new(Elab *e, const char *label, const Size *size, Span s);
IrId dim_symbol(Elab *e, const char *name, Span s); /* the frame's dim of that name, made if new */
/* The frame knows dim by this name; own: the frame made it. */
void dim_bind(Elab *e, const char *name, IrId dim, bool own);
const Size *size_of_expr(Elab *e, const AstExpr *x); /* NULL with a diagnostic */
const Size *dim_size(const Elab *e, IrId dim);
bool dim_is_one(Elab *e, IrId dim);
IrId dim_in(Elab *e, const IrType *t, const Value *which); /* the dim of t that `which` names, or IR_NONE */
bool type_resolve(Elab *e, const AstType *t, IrType *out); /* all names known or made */
/* v as a value of the declared type; unbound names in it (dims, @d) are bound by v. `what` says who
   wants it, for messages: "argument `x` of linear". */
Value coerce_declared(Elab *e, Value v, const AstType *t, const char *what, Span at);
Value coerce(Elab *e, Value v, const IrType *want, const char *what, Span at);
void domain_bind(Elab *e, const char *name, IrId space); /* `@name` of the frame */
/* out: the type as far as it is known; dims[i] is IR_NONE where names[i] is not bound yet. n_rest: how many dims `...`
   takes where it is not bound, with names[i] NULL; negative: it must be bound. */
bool pattern_of_type(Elab *e, const AstType *t, int n_rest, IrType *out, const char **names);
bool type_has_rest(const AstType *t);

/* ---- building ops (elab_ops.c) ---- */
IrId op_add(Elab *e, IrOpcode op, IrType t, const IrId *args, uint32_t n, IrAttr attr, Span s);
Value op_const(Elab *e, IrType t, double x, Span s);
Value op_size(Elab *e, const Size *size, Span s); /* a size as a float scalar */
Value to_tensor(Elab *e, Value v, IrDtype like,
                Span s); /* numbers become constants; anything else that is no tensor: error */
/* Has one signature on the way here a name for each? Such dims never meet by position. */
bool dims_named_apart(const Elab *e, IrId x, IrId y);
bool match_dims(Elab *e, Value *a, Value *b, const char *verb,
                Span s); /* renames so that broadcasting by identity is right */
Value op_unary(Elab *e, IrOpcode op, Value a, Span s);
Value op_binary(Elab *e, IrOpcode op, const char *verb, Value a, Value b, Span s);
Value op_select(Elab *e, Value c, Value a, Value b, Span s);
Value op_reshape(Elab *e, Value v, const IrId *dims, uint32_t n); /* sizes must agree */
Value op_transpose(Elab *e, Value v, const IrId *dims, uint32_t n);
Value op_spread(Elab *e, Value v, IrId space); /* a unit value as one per element of space */
Value op_contract(Elab *e, Value a, Value b, IrId dim, Span s);
Value op_matmul(Elab *e, Value a, Value b, Span s);
Value op_reduce_dims(Elab *e, IrOpcode op, Value v, IrId dim, Span s);
Value op_gather(Elab *e, Value v, IrId map, IrId to, Span s);
Value op_reduce(Elab *e, IrOpcode op, Value v, IrId map, double empty, Span s);
Value op_cast(Elab *e, Value v, IrDtype t, Span s);
Value op_grad(Elab *e, Value of, Value x, Span s);
Value sum_everything(Elab *e, Value v, Span s); /* to one number */

/* ---- what a name means (elab_lookup.c) ---- */
Value scope_lookup(Elab *e, const char *name, Span s); /* anything a name can mean; V_WORD if nothing */
void error_unknown_name(Elab *e, const char *name, Span s);

/* ---- expressions and statements (elab_expr.c, elab_stmt.c) ---- */
Value elab_expr(Elab *e, const AstExpr *x);
Value elab_block(Elab *e, const AstBlock *b);          /* the value of its last expression statement, or none */
bool elab_truth(Elab *e, const AstExpr *x, bool *out); /* a static condition */
bool static_binary(Elab *e, AstBinaryOp op, const Value *a, const Value *b, Span s, Value *out); /* elab_static.c */
Value binary_values(Elab *e, AstBinaryOp op, Value a, Value b, Span s);                          /* elab_static.c */
/* The text of `as`, `{k}` in it replaced by the value of k; NULL with a diagnostic (elab_slot.c). */
const char *stored_text(Elab *e, const char *as, Span s);
Value elab_member(Elab *e, const AstExpr *x);
Value elab_index(Elab *e, const AstExpr *x);
void elab_assert(Elab *e, const AstStmt *s);

/* ---- parameters and buffers (elab_slot.c) ---- */
void elab_slot(Elab *e, const AstStmt *s);
Value instance_slot(Elab *e, const Instance *it, const AstName *name); /* a layer's parameter, read from outside */
void elab_const(Elab *e, const AstStmt *s);
void elab_fold_params(Elab *e, const AstFold *fold);                /* of a reducer, in its frame */
Value const_value(Elab *e, const AstSlot *slot);                    /* of a `const` without fit: static */
bool constant_value(Elab *e, const char *name, Span s, Value *out); /* of a `const` at top level (elab_scope.c) */
/* An assignment to a name of the frame: is it a buffer's, *v becomes its after-value. */
void buffer_assign(Elab *e, const char *name, Value *v, Span s);
void buffer_results(Elab *e, const char *prefix); /* the function's after-values as results; prefix NULL: they update */

/* ---- calls (elab_call.c) ---- */
typedef struct CallArg {
    const char *name; /* or NULL */
    const char *word; /* `fill` */
    Value value;
    const AstArg *ast;
} CallArg;
typedef struct Call {
    const AstExpr *ast;
    Span span;
    const CallArg *args;
    uint32_t n;
} Call;
Value elab_call(Elab *e, const AstExpr *x);
Value call_value(Elab *e, Value callee, const Call *c);
/* Runs def's body in a new frame; path: of its parameters. */
Value call_def(Elab *e, const Def *def, const BoundArg *bound, uint32_t n_bound, const Call *c, const char *path);
void instance_name(Elab *e, Value *v, const char *name);    /* names instances (also in lists) that have none */
void instance_name_as(Elab *e, Value *v, const char *name); /* the same without the name of a turn */
Value builtin_fresh(Elab *e, const Call *c);
const char *def_kind(const Def *def);
void declare_signature(Elab *e, const AstSignature *sig);
const Value *arguments_of(Elab *e, const AstSignature *sig); /* [n_params] what the frame's names for them have */
/* Pushes a frame for a fold and binds its arguments; false: a diagnostic was made and no frame is
 * left. */
bool frame_enter(Elab *e, const Def *def, const AstSignature *sig, const BoundArg *bound, uint32_t n_bound,
                 const Call *c);
bool diag_std_span(const Elab *e, Span s); /* is this a place in the standard library, which a user cannot change? */
void note_expansion(Elab *e, const Def *def, Span call, uint32_t from); /* to diagnostics `from` on */

/* ---- adjoints of the program's own (elab_adjoint.c) ---- */
void elab_adjoint(Elab *e, const AstStmt *s);                 /* the statement: keeps the block for later */
bool adjoint_assign(Elab *e, const AstExpr *target, Value v); /* `x.grad = v`; false: it is no such target */
/* The result of the frame's function under the adjoint that it states. given: [n_params] arguments as they came. */
typedef struct AdjointRows { /* of a reducer's; NULL: of a function's */
    const AstFold *fold;
    IrId map;
    Value there; /* bool: elements that belong to a row; or none, all do */
} AdjointRows;
Value adjoint_attach(Elab *e, const AstSignature *sig, const Value *given, Value result, const AdjointRows *rows);

/* ---- intrinsics (elab_builtin.c): NULL if there is none of that name ---- */
typedef Value (*Builtin)(Elab *e, const Call *c);
Builtin builtin_find(const char *name);
const char *builtin_name(uint32_t i); /* NULL behind the last */

/* ---- reducers (elab_reduce.c) ---- */
typedef enum { REDUCE_IN, REDUCE_OUT, REDUCE_ALL, REDUCE_READOUT } ReduceWhere;
/* Splits "mean_in" and "readout_mean". False: no such form. */
bool reduce_name_split(Elab *e, const char *name, const char **reducer, ReduceWhere *where);
Value call_reduce(Elab *e, const Value *reducer, ReduceWhere where, const Call *c);

/* ---- integer values as places (elab_key.c) ---- */
/* T[i]: dim of the table is read at the index, whose dims take its place. */
Value table_rows(Elab *e, Value table, IrId dim, Value index, Span s);
typedef struct Key { /* of a reduction; n is 0 without one */
    Value hit;       /* bool [dims] at each element: it belongs to this group */
    IrId dims[IR_MAX_DIMS];
    uint32_t n;
    Span span;
} Key;
/* What `by = ...` says about elements of `value`, which is reduced. False: a diagnostic was made. */
bool key_read(Elab *e, const Value *by, ReduceWhere where, const IrType *value, Span s, Key *key);
/* Adds that edges which lead nowhere belong to no row. */
bool key_there(Elab *e, Key *key, ReduceWhere where, IrId from, Span s);
bool key_masks(const Key *key); /* some elements may belong to no group */
/* v [dims of the key, dims of v]: v in its own group, `other` elsewhere. Without a key: v. */
Value key_spread(Elab *e, const Key *key, Value v, double other, Span s);

/* ---- domains, and graphs derived from graphs (elab_graph.c) ---- */
bool space_find(Elab *e, const char *word, Span s, const GraphValue *g, IrId *out); /* "node", "edge", ... */
Value graph_member(Elab *e, Value v, const char *name, Span s);                     /* .src .dst .graph */
Value builtin_close(Elab *e, const Call *c);                                        /* elab_assert.c */
Value builtin_self_loops(Elab *e, const Call *c);
Value builtin_random_graph(Elab *e, const Call *c);
Value builtin_reverse(Elab *e, const Call *c);
/* The reverse of the graph at hand; v, a value of the one's edges, becomes one of the other's. */
const GraphValue *graph_turned(Elab *e, Value *v, Span s);
Value builtin_line(Elab *e, const Call *c);
Value builtin_siblings(Elab *e, const Call *c);
Value builtin_select(Elab *e, const Call *c);
/* Whether all rows of the space are in use, and `what` may be done to them; else an error. */
bool rows_all_used(Elab *e, IrId space, const char *what, Span s);
/* bool: which rows are in use; none: all. */
Value rows_used(Elab *e, IrId space, Span s);

const GraphValue *graph_back(Elab *e, const GraphValue *base, Span s); /* the reverse of a graph */

/* ---- the schema (elab_schema.c) ---- */
void schema_read(Elab *e, const AstDecl *decl);
const NodeType *schema_type(const Elab *e, const char *name);     /* or NULL */
const Relation *schema_relation(const Elab *e, const char *name); /* or NULL */
void note_relation(Elab *e, Diag *d, const GraphValue *g);        /* where its relation is declared, if it is one's */
const char *relation_end(const Elab *e, const Relation *r, bool target);
Value relation_value(Elab *e, const Relation *r, Span s); /* its graph */
bool type_space(Elab *e, const NodeType *t, Span s, IrId *out);
bool schema_name(Elab *e, const char *name, Span s, Value *out); /* a type or a relation of that name */
void error_no_type(Elab *e, const char *name, Span s);
void error_no_relation(Elab *e, const char *name, Span s);
Value builtin_random_schema(Elab *e, const Call *c);
Value builtin_source(Elab *e, const Call *c);
Value builtin_target(Elab *e, const Call *c);
Value builtin_ordinal(Elab *e, const Call *c);

/* ---- a value for each type or relation (elab_record.c) ---- */
Value value_record(const char *const *keys, const Value *items, uint32_t n, Span s);
const Value *record_find(const Value *record, const char *key); /* or NULL */
Value record_read(Elab *e, const Value *record, const char *key, Span s);
Value record_index(Elab *e, const AstExpr *x, const Value *record);
Value elab_forall(Elab *e, const AstExpr *x);
bool type_is_by_type(const AstType *t); /* `node(all)[F]`, `edge(all)[K]` */
/* The type of one part; a dim that is each part's own goes by a name of its own, F.paper. */
AstType *type_of_part(Elab *e, const AstType *t, const char *key);
uint32_t by_type_keys(const Elab *e, const AstType *t, const char **keys); /* keys may be NULL: their number */
Value coerce_record(Elab *e, Value v, const AstType *t, const char *what, Span at);
Value builtin_has(Elab *e, const Call *c);

/* ---- graphs that a run finds (elab_found.c; made by elab_near.c, elab_select.c) ---- */
const GraphValue *graph_found_loops(Elab *e, const GraphValue *base, IrLoopPolicy policy, Span s);
const GraphValue *graph_found_reverse(Elab *e, const GraphValue *base, Span s);
/* NULL: a diagnostic was made, how many pairs of edges meet is not known before. */
const GraphValue *graph_found_pairs(Elab *e, IrGraphKind kind, const GraphValue *base, Span s);
/* of any graph (elab_graph.c) */
const GraphValue *graph_pairs(Elab *e, IrGraphKind kind, const GraphValue *base, Span s);
IrType found_ints(IrId space);                 /* i64, one for each row */
Value found_none(Span s);                      /* -1: what leads nowhere */
Value found_rows(Elab *e, IrId space, Span s); /* each row's number */
Value found_at(Elab *e, IrId map, Span s);     /* the row that the map leads to, -1 for none */
/* bool: which rows of a space are edges that lead somewhere; none: all of them, or no edges. */
Value found_there(Elab *e, IrId space, Span s);
void found_route(Elab *e, Value to, IrId map, Span s);
/* The edges of g lead to the slots, [nodes of base] or -1, of the ends of the edges of base that they were made for;
   nowhere unless both ends have one. */
void found_between(Elab *e, Value slot, const IrGraph *base, const IrGraph *g, Span s);
/* x[s]: a value of s's base at the nodes, or edges, of s; y[g]: one of nodes selected from g's, 0 where none was. */
Value graph_restrict(Elab *e, Value v, const GraphValue *g, Span s);
Value builtin_knn(Elab *e, const Call *c);
Value builtin_complete(Elab *e, const Call *c);
Value builtin_negatives(Elab *e, const Call *c);
Value builtin_permutation(Elab *e, const Call *c);
Value builtin_candidates(Elab *e, const Call *c);
Value builtin_answers(Elab *e, const Call *c);
Value builtin_compose(Elab *e, const Call *c);
Value graph_over(Elab *e, const AstExpr *x);

/* ---- tensors of the module (elab_tensor.c) ---- */
Value tensor_value(Elab *e, IrId tensor, Span s); /* as an argument of the current function */
IrId tensor_new(Elab *e, const char *name, IrTensorKind kind, IrType t, Span s);
IrId tensor_find(const Elab *e, const char *name);
/* The range of v where index[classes] is wanted: its own, or classes if v is an input without one, whose values are
   then held against it when data is loaded; NULL: not known. */
const Size *input_range(Elab *e, const Value *v, const Size *classes);
Value data_member(Elab *e, const char *name, Span s);
IrId input_declare(Elab *e, const AstParam *p); /* a model's argument as an input */
/* `data.paper.y`: a file that has a row for each of a type's nodes, or a relation's edges. */
Value data_of_type(Elab *e, const char *type, const AstName *name);
Value seed_value(Elab *e, Span s);
Value step_value(Elab *e, Span s);
const FrontendFact *fact_find(const Elab *e, const char *name);
bool set_find(Elab *e, const char *name, double *out);

/* ---- functions of the module (elab_entry.c, elab_train.c, elab_test.c, elab_finish.c) ---- */
void func_begin(Elab *e, const char *name, bool training);
void elab_forward(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound);
void elab_vjp(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound);
bool entry_inputs(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound); /* declares them */
void elab_train(Elab *e, const AstDecl *decl, const Value *target, const char *name);
typedef struct TrainUpdate {
    const AstTrainItem *optimizer;
    const AstExpr *clip_norm, *clip_value; /* or NULL */
} TrainUpdate;
void train_update(Elab *e, const TrainUpdate *u, Value loss); /* elab_update.c: results of the step */
Value update_in_test(Elab *e, const Def *def, const Call *c); /* an optimizer's or schedule's steps, as a list */
bool schedule_set(Elab *e, const AstTrainItem *it);           /* `name = plateau(...)`; false: it names no schedule */
/* `epoch`, `epochs`, `step` and metrics by their last value, in a train block. */
bool train_number(Elab *e, const AstDecl *train, const char *name, Span s, Value *out);
void elab_test(Elab *e, const AstDecl *test, uint32_t number);
Value call_entry(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound);
bool elab_finish(Elab *e);
void elab_names(Elab *e, const Def *def); /* what a definition that cannot be run calls must exist */
