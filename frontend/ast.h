/* The syntax tree of a .gnn file, as written: nothing is resolved here. Names are text, types may name
   dims, domains and graphs that do not exist, and what the language has room for but the compiler does
   not build yet is present, so that elaboration can refuse it by name.
   Nodes live in one arena and never change after parsing. Lists are arrays (pointer + n; NULL when n is 0).
   Optional children are NULL. Every node carries the bytes it was written in.
   docs/language.md has the grammar with examples. */
#pragma once
#include "base/diag.h"
#include <stdbool.h>

typedef struct AstExpr AstExpr;
typedef struct AstStmt AstStmt;
typedef struct AstType AstType;

typedef struct AstName { /* "conv1", "D'" (primes belong to the name); member and pattern names may be "*" */
    Span span;
    const char *text;
} AstName;
typedef struct AstNames {
    const AstName *items;
    uint32_t n;
} AstNames;
typedef struct AstExprs {
    const AstExpr *const *items;
    uint32_t n;
} AstExprs;
typedef struct AstBlock { /* `{ ... }`; as an expression its value is its last expression statement */
    Span span;
    uint32_t depth; /* of its deepest statement */
    const AstStmt *const *items;
    uint32_t n;
} AstBlock;

/* ---- types ---- */
/* clang-format off */
typedef enum AstTypeKind {
    AST_TYPE_TENSOR, /* `node[F]`, `edge(g1)[H, D]`, `@d[F]`, `[F, H]`, `node index[C]`, `int` */
    AST_TYPE_TUPLE,  /* `(src[F], dst[G])` */
} AstTypeKind;
typedef enum AstDtype {
    AST_FLOAT, /* nothing written, or `float`: the program's float type */
    AST_INT,   /* `int` */
    AST_BOOL,  /* `bool` */
    AST_INDEX, /* `index[C]`: an integer in [0, C) */
    AST_F32,
    AST_F64,
} AstDtype;
/* clang-format on */

struct AstType {
    AstTypeKind kind;
    Span span;
    /* AST_TYPE_TENSOR: a space, dims in brackets, a dtype; each optional, at least one written */
    bool domain_var; /* `@d`: any domain, the same one wherever `@d` stands in a signature */
    AstName space;   /* "node", "edge", "src", "dst", "graph", "etype", ...; "d" for `@d`; text NULL: unit */
    AstExprs of;     /* of `node(paper)`, `edge(g1)`, `etype(r)`: usually one name */
    bool has_dims;   /* brackets were written; `node[]` and `node` mean the same */
    AstExprs dims;   /* expressions over dim names and numbers (`4*F`, `F/T`, `H*D`), AST_EXPR_REST for `...` */
    AstDtype dtype;
    const AstExpr *classes; /* C of `index[C]` */
    /* AST_TYPE_TUPLE */
    const AstType *const *items;
    uint32_t n_items;
};

/* ---- expressions ---- */
typedef enum AstExprKind {
    AST_EXPR_NAME,   /* name (variables, dims, layers, enum words, graphs) */
    AST_EXPR_NUMBER, /* number */
    AST_EXPR_STRING, /* string */
    AST_EXPR_BOOL,   /* boolean */
    AST_EXPR_NONE,
    AST_EXPR_REST,   /* `...` as a dim or an index */
    AST_EXPR_LIST,   /* list: `[a, b]`; also a unit type where a type is wanted */
    AST_EXPR_TUPLE,  /* list: `(a, b)`, and `return a, b`; n is never 1 */
    AST_EXPR_UNARY,  /* unary */
    AST_EXPR_BINARY, /* binary */
    AST_EXPR_RANGE,  /* binary.left .. binary.right (op unused), right excluded; in `for` and in an index */
    AST_EXPR_SELECT, /* select: `if c then a else b` */
    AST_EXPR_CALL,   /* call: `f(x, H = 8)` */
    AST_EXPR_MEMBER, /* member: `x.src`, `data.x`, `conv1.*` */
    AST_EXPR_INDEX,  /* index: `T[i]`, `x[s]`, and types where values stand: `edge[3]`, `node[]` */
    AST_EXPR_DOMAIN, /* name: `@d` where a value stands, as in `randn(@d[F])` */
    AST_EXPR_OVER,   /* over: `over g { ... }` */
    AST_EXPR_FOR,    /* loop: `for i in 0..K { ... }`; its value is the list of the values of its turns */
    AST_EXPR_FORALL, /* forall: `forall r into t { ... }` */
} AstExprKind;

typedef enum AstUnaryOp { AST_NEG, AST_NOT } AstUnaryOp;

/* clang-format off */
typedef enum AstBinaryOp {
    AST_ADD, AST_SUB, AST_MUL, AST_DIV, AST_MATMUL /* @ */, AST_POW /* ** */,
    AST_EQ, AST_NE, AST_LT, AST_LE, AST_GT, AST_GE,
    AST_AND, AST_OR,
} AstBinaryOp;
/* clang-format on */

typedef struct AstArg { /* `x`, `H = 8`, `fill e = mean`, `topk(p, 0.5) by graph`, `weight_decay = 5e-4 on conv1.*` */
    Span span;
    AstName word; /* "fill" of `fill e = mean`; else text NULL */
    AstName name; /* text NULL: positional */
    const AstExpr *value;
    const AstExpr *by; /* or NULL */
    const AstExpr *on; /* or NULL */
} AstArg;

struct AstExpr {
    AstExprKind kind;
    uint32_t depth; /* 1 for a leaf; at most AST_MAX_DEPTH, so that a recursive walk is safe */
    Span span;
    union {
        AstName name;
        struct {
            double value;
            bool is_int; /* written without point and exponent; fits int64 */
            int64_t int_value;
        } number;
        const char *string; /* escapes already replaced; contains no NUL */
        bool boolean;
        AstExprs list;
        struct {
            AstUnaryOp op;
            const AstExpr *value;
        } unary;
        struct {
            AstBinaryOp op;
            Span op_span;
            const AstExpr *left, *right;
        } binary;
        struct {
            const AstExpr *cond, *yes, *no;
        } select;
        struct {
            const AstExpr *callee;
            const AstArg *args;
            uint32_t n_args;
        } call;
        struct {
            const AstExpr *value;
            AstName name;
        } member;
        struct {
            const AstExpr *value;
            AstExprs at; /* n 0: `node[]` */
        } index;
        struct {
            const AstExpr *graph;
            AstBlock body;
        } over;
        struct {
            AstName var;
            const AstExpr *in; /* AST_EXPR_RANGE, a list, or a name of one */
            AstBlock body;
        } loop;
        struct {
            AstName var;       /* the node type, or the relation */
            AstName word;      /* "into", "from"; text NULL: node types */
            const AstExpr *at; /* the node type at that end, `all` for any; NULL: node types */
            AstBlock body;
        } forall;
    } as;
};

/* ---- statements ---- */
typedef enum AstStmtKind {
    AST_STMT_ASSIGN,  /* assign: `h = e`, `s += e`, `a, b = f(x)`, `h: node[F] = e` */
    AST_STMT_PARAM,   /* slot: trainable */
    AST_STMT_BUFFER,  /* slot: kept with the weights, not trained */
    AST_STMT_CONST,   /* slot: computed once from training data, kept with the weights */
    AST_STMT_GRAPH,   /* bind: `graph g1 = self_loops(g)` */
    AST_STMT_PAIRS,   /* bind: `pairs p = negatives(g, k)` */
    AST_STMT_IF,      /* branch */
    AST_STMT_RETURN,  /* value: a tuple for `return a, b`; NULL for a bare return */
    AST_STMT_ASSERT,  /* check */
    AST_STMT_ADJOINT, /* adjoint: of a message, fn or layer */
    AST_STMT_EXPR,    /* value; `over`, `for` and `forall` blocks are here too */
} AstStmtKind;

typedef enum AstAssignOp { AST_SET, AST_SET_ADD, AST_SET_SUB, AST_SET_MUL, AST_SET_DIV } AstAssignOp;

/* `param a, b: [H] = zeros`, `param W: [F, H, D] = glorot as "lin.weight" [H*D, F]`, `const d = fit(...)` */
typedef struct AstSlot {
    AstNames names;        /* at least one */
    const AstType *type;   /* NULL: as the initial value's */
    const AstExpr *init;   /* or NULL */
    const char *stored_as; /* or NULL */
    Span stored_as_span;
    bool has_stored_dims;
    AstExprs stored_dims; /* layout and fans in the file */
} AstSlot;

struct AstStmt {
    AstStmtKind kind;
    uint32_t depth; /* as of expressions */
    Span span;
    union {
        struct {
            AstExprs targets;    /* names, members or indexed names; at least one */
            AstAssignOp op;      /* with several targets or a type: AST_SET */
            const AstType *type; /* or NULL */
            const AstExpr *value;
            const char *stored_as; /* the name of a layer, `lin = linear() as "lins.{t}"`; or NULL */
            Span stored_as_span;
        } assign;
        AstSlot slot;
        struct {
            AstName name;
            const AstExpr *value;
        } bind;
        struct {
            const AstExpr *cond;
            AstBlock yes;
            bool has_no;
            AstBlock no; /* of `else if`: one AST_STMT_IF */
        } branch;
        const AstExpr *value;
        struct {
            const AstExpr *cond;
            const AstExpr *where; /* or NULL */
        } check;
        AstBlock adjoint;
    } as;
};

/* ---- declarations ---- */
typedef enum AstDeclKind {
    AST_DECL_MESSAGE,   /* function */
    AST_DECL_FN,        /* function */
    AST_DECL_LAYER,     /* function */
    AST_DECL_MODEL,     /* function */
    AST_DECL_REDUCE,    /* fold */
    AST_DECL_OPTIMIZER, /* fold: `param`, `grad` and `t` (the step, from 1) are given; done is the new `param` */
    AST_DECL_SCHEDULE,  /* fold: `epoch`, `epochs` and `step` are given; done is a number */
    AST_DECL_TRAIN,     /* train */
    AST_DECL_TEST,      /* test */
    AST_DECL_SCHEMA,    /* schema */
    AST_DECL_CONST,     /* constant: `const d = fit(...)` at top level */
} AstDeclKind;

typedef struct AstParam { /* `x: node[F]`, `H = 8`, `nn = mlp(64)`, `e: edge[K] = none`, `nn` */
    Span span;
    AstName name;
    const AstType *type;   /* NULL: a static argument */
    const AstExpr *init;   /* default, or NULL: must be given */
    const char *stored_as; /* the name of an instance that is passed; NULL: the argument's */
} AstParam;

typedef struct AstSignature {
    const AstParam *params;
    uint32_t n_params;
    const AstType *result; /* or NULL: inferred */
} AstSignature;

typedef struct AstFunction {
    AstSignature sig;
    const AstExpr *expr; /* of `= expr`; NULL with a block */
    AstBlock body;       /* of `{ ... }` */
} AstFunction;

typedef struct AstState { /* `s: [F] = 0`, `m = 0` */
    Span span;
    AstName name;
    const AstType *type; /* or NULL */
    const AstExpr *init;
} AstState;

typedef struct AstFold {
    AstSignature sig;
    const AstState *states;
    uint32_t n_states;
    const AstSlot *params; /* trainable parameters of a reducer */
    uint32_t n_params;
    bool has_step, has_merge, has_adjoint, has_done_block;
    AstBlock step, merge, adjoint; /* merge sees the other partial as `other` */
    const AstExpr *done;           /* `done = e`; NULL if absent or a block */
    AstBlock done_block;           /* `done { ...; return e }` */
    const AstExpr *empty;          /* value of a row without elements, or NULL */
} AstFold;

typedef enum AstTrainKind {
    AST_TRAIN_LET,       /* `h = net(data.x)`: name, value */
    AST_TRAIN_LOSS,      /* value, on */
    AST_TRAIN_METRIC,    /* name, value, on */
    AST_TRAIN_HYPER,     /* name, value */
    AST_TRAIN_OPTIMIZER, /* value: a name or a call */
    AST_TRAIN_SETTING,   /* `epochs 200`, `seed 0`: name, value */
    AST_TRAIN_CALL,      /* `stop_early(val_acc, patience = 100)`: value, a call */
} AstTrainKind;

typedef struct AstTrainItem {
    AstTrainKind kind;
    Span span;
    AstName name;
    const AstExpr *value;
    const AstExpr *on; /* the mask, or NULL */
} AstTrainItem;

typedef struct AstSchemaItem { /* one per name: `node paper[128]`, `edge writes: author -> paper`, `reverse all` */
    Span span;
    AstName word; /* "node", "edge", "reverse", ... */
    AstName name;
    AstExprs dims;
    AstName from, to;     /* text NULL but for edges */
    const AstExpr *edges; /* where they come from, `column`, `data.edge_index`, `compose(a, b)`; or NULL */
    const AstExpr *where; /* `data.edge_type == 1`, or NULL */
} AstSchemaItem;

typedef struct AstDecl {
    AstDeclKind kind;
    Span span;
    AstName name;    /* the test's text; of train: text NULL */
    const char *doc; /* comment lines directly above, `#` and one space removed, joined by \n; or NULL */
    union {
        AstFunction function;
        AstFold fold;
        struct {
            const AstExpr *target; /* `net` or `net(H = 8)` */
            const AstTrainItem *items;
            uint32_t n_items;
        } train;
        AstBlock test;
        struct {
            const AstSchemaItem *items;
            uint32_t n_items;
        } schema;
        AstSlot constant;
    } as;
} AstDecl;

typedef struct AstFile {
    const Source *source;
    const AstDecl *const *decls;
    uint32_t n_decls;
} AstFile;

enum { AST_MAX_DEPTH = 1000 /* of the whole tree under a declaration */, AST_MAX_NESTING = 200 /* of brackets */ };

/* Parses src. Errors go to d (codes E01xx); the file then holds what could be parsed and must not be
   elaborated. NULL only if nothing could be. */
AstFile *ast_parse(Arena *a, const Source *src, Diags *d);

/* The type an expression spells, where a value may also stand (`randn(edge[3])`, `randn([4])`): made from
   names, calls, indices, `@d` and lists. NULL if it spells none. */
const AstType *ast_type_of_expr(Arena *a, const AstExpr *e);

/* "+", "<=", "@": as written. */
const char *ast_binary_text(AstBinaryOp op);
/* "layer", "train", ... */
const char *ast_decl_text(AstDeclKind kind);
