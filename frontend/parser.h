/* Private to the parser: its state, the lists it grows, and the node constructors that the grammar
   calls. Three layers: lex.l cuts bytes into raw tokens; tokens.c decides which newlines and which
   soft words count; parse.y builds the tree through the functions below. Others include
   frontend/ast.h. */
#pragma once
#include "frontend/ast.h"

typedef VEC(AstName) NameVec;
typedef VEC(const AstExpr *) ExprVec;
typedef VEC(const AstStmt *) StmtVec;
typedef VEC(const AstDecl *) DeclVec;
typedef VEC(const AstType *) TypeVec;
typedef VEC(AstArg) ArgVec;
typedef VEC(AstParam) ParamVec;
typedef VEC(AstState) StateVec;
typedef VEC(AstSlot) SlotVec;
typedef VEC(AstTrainItem) TrainVec;
typedef VEC(AstSchemaItem) SchemaVec;

typedef struct Number {
    double value;
    int64_t int_value;
    bool is_int;
} Number;

typedef struct Brackets { /* `[...]` as written; NULL pointer: not written */
    Span span;
    ExprVec items;
} Brackets;

typedef struct Binding { /* `lr = 0.005` */
    AstName name;
    const AstExpr *value;
} Binding;
typedef VEC(Binding) BindingVec;

typedef struct Bracket {
    char open;
    Span span;
} Bracket;

/* While a fold (reduce, optimizer) is parsed. */
typedef struct FoldBuilder {
    AstFold fold;
    StateVec states;
    SlotVec params;
    Span seen[6]; /* per item word, for "given twice" */
} FoldBuilder;

typedef struct Token {
    int kind; /* TOK_... of parse.h */
    Span span;
    const char *text; /* names, strings */
    Number number;
} Token;

typedef struct Parser {
    Arena *arena;
    const Source *source;
    Diags *diags;
    /* lex.l */
    void *scanner;
    uint32_t at;        /* offset of the next byte */
    bool keep_comments; /* TOK_COMMENT is returned, not skipped */
    /* tokens.c */
    VEC(Bracket) open;
    Bracket unclosed; /* the outermost that the last closing bracket found open inside its own; open 0: none */
    Token last;       /* what the parser got last */
    Token before_last;
    VEC(Token) queue; /* comes before the scanner; read from n_taken */
    uint32_t n_taken;
    bool skip_to_decl;   /* recovery: a declaration's head was wrong */
    uint32_t skip_depth; /* recovery: the statement inside so many brackets was wrong; 0: none was */
    bool too_deep;       /* reported once */
    /* parse.y */
    DeclVec decls;
} Parser;

/* ---- lex.l ---- */
void scan_begin(Parser *p);
void scan_end(Parser *p);
/* The next raw token; kind 0 at the end. Words are TOK_IDENT, all of them. */
Token scan_next(Parser *p);

/* ---- tokens.c ---- */
/* Recovery: the parser met an error at its last token. */
void tokens_after_error(Parser *p);
bool tokens_first_on_line(const Parser *p, Span at);
/* Words of the language, for "did you mean". */
extern const char *const tokens_statement_words[];
extern const uint32_t tokens_n_statement_words;

/* ---- parse_build.c: expressions and types ---- */
AstName ast_build_name(const char *text, Span span);
AstExpr *ast_build_name_expr(Parser *p, AstName name);
AstExpr *ast_build_domain(Parser *p, AstName name, Span span);
AstExpr *ast_build_number(Parser *p, Number n, Span span);
AstExpr *ast_build_string(Parser *p, const char *text, Span span);
AstExpr *ast_build_bool(Parser *p, bool value, Span span);
AstExpr *ast_build_plain(Parser *p, AstExprKind kind, Span span);
AstExpr *ast_build_list(Parser *p, AstExprKind kind, const ExprVec *items, Span span);
AstExpr *ast_build_unary(Parser *p, AstUnaryOp op, AstExpr *value, Span span);
AstExpr *ast_build_binary(Parser *p, AstBinaryOp op, Span op_span, AstExpr *left, AstExpr *right);
AstExpr *ast_build_range(Parser *p, AstExpr *left, Span op_span, AstExpr *right);
AstExpr *ast_build_select(Parser *p, AstExpr *cond, AstExpr *yes, AstExpr *no, Span span);
AstExpr *ast_build_call(Parser *p, AstExpr *callee, const ArgVec *args, Span span);
AstExpr *ast_build_member(Parser *p, AstExpr *value, AstName name, Span span);
AstExpr *ast_build_index(Parser *p, AstExpr *value, const Brackets *at, Span span);
AstExpr *ast_build_over(Parser *p, AstExpr *graph, const AstBlock *body, Span span);
AstExpr *ast_build_for(Parser *p, AstName var, AstExpr *in, const AstBlock *body, Span span);
AstExpr *ast_build_forall(Parser *p, AstName var, AstName word, AstExpr *at, const AstBlock *body, Span span);
/* `a` as itself, `a, b` as a tuple. */
AstExpr *ast_build_group(Parser *p, const ExprVec *items, Span span);

AstType *ast_build_type(Parser *p, AstName space, const ExprVec *of, const Brackets *dims, Span span);
AstType *ast_build_domain_type(Parser *p, AstName var, const Brackets *dims, Span span);
AstType *ast_build_tuple_type(Parser *p, const TypeVec *items, Span span);
AstType *ast_build_dtype(Parser *p, AstType *type, AstName word, const Brackets *dims, Span span);

/* ---- parse_build_stmt.c: statements and declarations ---- */
AstBlock *ast_build_block(Parser *p, const StmtVec *items, Span span);
AstStmt *ast_build_assign(Parser *p, const ExprVec *targets, const AstType *type, AstAssignOp op, AstExpr *value,
                          Span span);
AstStmt *ast_build_slot_stmt(Parser *p, AstStmtKind kind, const AstSlot *slot, Span span);
AstStmt *ast_build_bind(Parser *p, AstStmtKind kind, AstName name, AstExpr *value, Span span);
AstStmt *ast_build_if(Parser *p, AstExpr *cond, const AstBlock *yes, const AstBlock *no, Span span);
AstStmt *ast_build_value_stmt(Parser *p, AstStmtKind kind, AstExpr *value, Span span);
AstStmt *ast_build_assert(Parser *p, AstExpr *cond, AstExpr *where, Span span);
AstStmt *ast_build_adjoint(Parser *p, const AstBlock *body, Span span);
AstSlot *ast_build_slot(Parser *p, const NameVec *names, const AstType *type, AstExpr *init, AstSlot *stored);
AstSlot *ast_build_stored(Parser *p, const char *text, const Brackets *dims, Span span);
AstParam ast_build_param(Parser *p, AstName name, const AstType *type, const AstExpr *init, const AstSlot *stored,
                         Span span);
AstSignature *ast_build_signature(Parser *p, const ParamVec *params, const AstType *result);

void ast_build_function(Parser *p, AstDeclKind kind, AstName name, const AstSignature *sig, const AstExpr *expr,
                        const AstBlock *body, Span span);
void ast_build_fold(Parser *p, AstDeclKind kind, AstName name, const AstSignature *sig, FoldBuilder *fold, Span span);
void ast_build_train(Parser *p, const AstExpr *target, const TrainVec *items, Span span);
void ast_build_test(Parser *p, AstName name, const AstBlock *body, Span span);
void ast_build_schema(Parser *p, AstName name, const SchemaVec *items, Span span);
void ast_build_const(Parser *p, const AstSlot *slot, Span span);

/* Items of fold, train and schema bodies begin with a word; an unknown word is an error here. */
void fold_add_block(Parser *p, FoldBuilder *f, AstName word, const AstBlock *body);
void fold_add_value(Parser *p, FoldBuilder *f, AstName word, const AstExpr *value);
void fold_add_slots(Parser *p, FoldBuilder *f, AstName word, const SlotVec *entries);
void train_add_let(Parser *p, TrainVec *v, Binding b, const AstExpr *on, Span span);
void train_add_bindings(Parser *p, TrainVec *v, AstName word, const BindingVec *list, const AstExpr *on, Span span);
void train_add_setting(Parser *p, TrainVec *v, AstName word, const AstExpr *value, Span span);
void train_add_call(Parser *p, TrainVec *v, AstName word, const ArgVec *args, Span span);
