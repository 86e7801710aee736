/* Constructors of expressions and types, as the grammar calls them. They keep two promises of
   ast.h: every node has its bytes, and no tree is deeper than AST_MAX_DEPTH, so that later walks
   may recurse. */
#include "frontend/parser.h"
#include <string.h>

AstName ast_build_name(const char *text, Span span) { return (AstName){span, text}; }

static AstExpr *expr_new(Parser *p, AstExprKind kind, Span span)
{
    AstExpr *e = ARENA_NEW(p->arena, AstExpr);
    e->kind = kind;
    e->span = span;
    e->depth = 1;
    return e;
}

/* Puts `e` above something of that depth. */
static void over_depth(Parser *p, AstExpr *e, uint32_t depth)
{
    if (depth >= e->depth) e->depth = depth + 1;
    if (e->depth <= AST_MAX_DEPTH) return;
    if (!p->too_deep) diag_error(p->diags, E0106, e->span, "this is nested deeper than %d levels", AST_MAX_DEPTH);
    p->too_deep = true;
    e->depth = AST_MAX_DEPTH;
}

static void over_expr(Parser *p, AstExpr *e, const AstExpr *child)
{
    if (child) over_depth(p, e, child->depth);
}

static void over_list(Parser *p, AstExpr *e, const ExprVec *items)
{
    for (uint32_t i = 0; i < items->n; i++) over_expr(p, e, items->data[i]);
}

static AstExprs exprs_of(const ExprVec *v) { return v ? (AstExprs){v->data, v->n} : (AstExprs){0}; }

AstExpr *ast_build_name_expr(Parser *p, AstName name)
{
    AstExpr *e = expr_new(p, AST_EXPR_NAME, name.span);
    e->as.name = name;
    return e;
}

AstExpr *ast_build_domain(Parser *p, AstName name, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_DOMAIN, span);
    e->as.name = name;
    return e;
}

AstExpr *ast_build_number(Parser *p, Number n, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_NUMBER, span);
    e->as.number.value = n.value;
    e->as.number.is_int = n.is_int;
    e->as.number.int_value = n.int_value;
    return e;
}

AstExpr *ast_build_string(Parser *p, const char *text, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_STRING, span);
    e->as.string = text;
    return e;
}

AstExpr *ast_build_bool(Parser *p, bool value, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_BOOL, span);
    e->as.boolean = value;
    return e;
}

AstExpr *ast_build_plain(Parser *p, AstExprKind kind, Span span) { return expr_new(p, kind, span); }

AstExpr *ast_build_list(Parser *p, AstExprKind kind, const ExprVec *items, Span span)
{
    AstExpr *e = expr_new(p, kind, span);
    over_list(p, e, items);
    e->as.list = exprs_of(items);
    return e;
}

AstExpr *ast_build_group(Parser *p, const ExprVec *items, Span span)
{
    if (items->n != 1) return ast_build_list(p, AST_EXPR_TUPLE, items, span);
    AstExpr *e = ARENA_NEW(p->arena, AstExpr);
    *e = *items->data[0];
    e->span = span; /* with the parentheses, if any: the place a message points to */
    return e;
}

AstExpr *ast_build_unary(Parser *p, AstUnaryOp op, AstExpr *value, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_UNARY, span);
    over_expr(p, e, value);
    e->as.unary.op = op;
    e->as.unary.value = value;
    return e;
}

AstExpr *ast_build_binary(Parser *p, AstBinaryOp op, Span op_span, AstExpr *left, AstExpr *right)
{
    AstExpr *e = expr_new(p, AST_EXPR_BINARY, span_join(left->span, right->span));
    over_expr(p, e, left);
    over_expr(p, e, right);
    e->as.binary.op = op;
    e->as.binary.op_span = op_span;
    e->as.binary.left = left;
    e->as.binary.right = right;
    return e;
}

AstExpr *ast_build_range(Parser *p, AstExpr *left, Span op_span, AstExpr *right)
{
    AstExpr *e = ast_build_binary(p, AST_ADD, op_span, left, right);
    e->kind = AST_EXPR_RANGE;
    return e;
}

AstExpr *ast_build_select(Parser *p, AstExpr *cond, AstExpr *yes, AstExpr *no, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_SELECT, span);
    over_expr(p, e, cond);
    over_expr(p, e, yes);
    over_expr(p, e, no);
    e->as.select.cond = cond;
    e->as.select.yes = yes;
    e->as.select.no = no;
    return e;
}

AstExpr *ast_build_call(Parser *p, AstExpr *callee, const ArgVec *args, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_CALL, span);
    over_expr(p, e, callee);
    for (uint32_t i = 0; i < args->n; i++) {
        over_expr(p, e, args->data[i].value);
        over_expr(p, e, args->data[i].by);
        over_expr(p, e, args->data[i].on);
    }
    e->as.call.callee = callee;
    e->as.call.args = args->data;
    e->as.call.n_args = args->n;
    return e;
}

AstExpr *ast_build_member(Parser *p, AstExpr *value, AstName name, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_MEMBER, span);
    over_expr(p, e, value);
    e->as.member.value = value;
    e->as.member.name = name;
    return e;
}

AstExpr *ast_build_index(Parser *p, AstExpr *value, const Brackets *at, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_INDEX, span);
    over_expr(p, e, value);
    over_list(p, e, &at->items);
    e->as.index.value = value;
    e->as.index.at = exprs_of(&at->items);
    return e;
}

AstExpr *ast_build_over(Parser *p, AstExpr *graph, const AstBlock *body, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_OVER, span);
    over_expr(p, e, graph);
    over_depth(p, e, body->depth);
    e->as.over.graph = graph;
    e->as.over.body = *body;
    return e;
}

AstExpr *ast_build_for(Parser *p, AstName var, AstExpr *in, const AstBlock *body, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_FOR, span);
    over_expr(p, e, in);
    over_depth(p, e, body->depth);
    e->as.loop.var = var;
    e->as.loop.in = in;
    e->as.loop.body = *body;
    return e;
}

AstExpr *ast_build_forall(Parser *p, AstName var, AstName word, AstExpr *at, const AstBlock *body, Span span)
{
    AstExpr *e = expr_new(p, AST_EXPR_FORALL, span);
    over_expr(p, e, at);
    over_depth(p, e, body->depth);
    if (word.text && strcmp(word.text, "into") && strcmp(word.text, "from"))
        diag_error(p->diags, E0101, word.span, "found `%s`, wanted `into`, `from` or a block", word.text);
    e->as.forall.var = var;
    e->as.forall.word = word;
    e->as.forall.at = at;
    e->as.forall.body = *body;
    return e;
}

/* ---- types ---- */

static const char *const dtype_words[] = {"float", "int", "bool", "index", "f32", "f64"};

/* The dtype a word names, or -1. */
static int dtype_find(const char *word)
{
    static const AstDtype dtypes[] = {AST_FLOAT, AST_INT, AST_BOOL, AST_INDEX, AST_F32, AST_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtype_words[i], word)) return (int)dtypes[i];
    return -1;
}

static AstType *type_new(Arena *a, AstTypeKind kind, Span span)
{
    AstType *t = ARENA_NEW(a, AstType);
    t->kind = kind;
    t->span = span;
    return t;
}

static void set_dims(AstType *t, const Brackets *dims)
{
    if (!dims) return;
    t->has_dims = true;
    t->dims = exprs_of(&dims->items);
}

/* Puts the written dtype into t; reports brackets that do not belong. */
static void set_dtype(Parser *p, AstType *t, AstName word, const Brackets *dims)
{
    int dtype = dtype_find(word.text);
    if (dtype < 0) {
        Diag *e = diag_error(p->diags, E0114, word.span, "`%s` is no element type", word.text);
        if (!diag_suggest(p->diags, e, word.span, word.text, dtype_words, sizeof dtype_words / sizeof *dtype_words))
            diag_help(p->diags, e, "`int`, `bool`, `float` or `index[C]`");
        return;
    }
    t->dtype = (AstDtype)dtype;
    bool one = dims && dims->items.n == 1 && dims->items.data[0]->kind != AST_EXPR_REST;
    if (t->dtype == AST_INDEX && one) t->classes = dims->items.data[0];
    else if (t->dtype == AST_INDEX)
        diag_error(p->diags, E0114, word.span, "`index` wants the number of values in brackets: `index[C]`");
    else if (dims) diag_error(p->diags, E0114, dims->span, "dims stand before the element type: `[K] %s`", word.text);
}

AstType *ast_build_type(Parser *p, AstName space, const ExprVec *of, const Brackets *dims, Span span)
{
    AstType *t = type_new(p->arena, AST_TYPE_TENSOR, span);
    if (space.text && !of && dtype_find(space.text) >= 0) {
        set_dtype(p, t, space, dims);
        return t;
    }
    t->space = space;
    t->of = exprs_of(of);
    set_dims(t, dims);
    return t;
}

AstType *ast_build_domain_type(Parser *p, AstName var, const Brackets *dims, Span span)
{
    AstType *t = ast_build_type(p, (AstName){0}, NULL, dims, span);
    t->domain_var = true;
    t->space = var;
    return t;
}

AstType *ast_build_tuple_type(Parser *p, const TypeVec *items, Span span)
{
    AstType *t = type_new(p->arena, AST_TYPE_TUPLE, span);
    t->items = items->data;
    t->n_items = items->n;
    return t;
}

AstType *ast_build_dtype(Parser *p, AstType *type, AstName word, const Brackets *dims, Span span)
{
    if (type->dtype != AST_FLOAT) diag_error(p->diags, E0114, word.span, "a second element type");
    else set_dtype(p, type, word, dims);
    type->span = span;
    return type;
}
