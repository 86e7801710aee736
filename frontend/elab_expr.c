/* Expressions: each is run at compile time and gives a value; tensor arithmetic becomes ops. */
#include "frontend/sema.h"
#include <math.h>

static Value elab_items(Elab *e, const AstExpr *x, ValueKind kind)
{
    Value *items = ARENA_ARRAY(e->a, Value, x->as.list.n + 1);
    for (uint32_t i = 0; i < x->as.list.n; i++) items[i] = elab_expr(e, x->as.list.items[i]);
    return (Value){.kind = kind, .items = items, .n = x->as.list.n, .span = x->span, .dim = IR_NONE};
}

static Value elab_unary(Elab *e, const AstExpr *x)
{
    Value v = elab_expr(e, x->as.unary.value);
    bool neg = x->as.unary.op == AST_NEG;
    if (v.kind == V_NUMBER && neg) return value_number(-v.num, v.is_int, x->span);
    if (v.kind == V_BOOL && !neg) return value_bool(v.num == 0, x->span);
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    return op_unary(e, neg ? IR_OP_neg : IR_OP_not, v, x->span);
}

static Value elab_binary(Elab *e, const AstExpr *x)
{
    Value a = elab_expr(e, x->as.binary.left);
    AstBinaryOp op = x->as.binary.op;
    if (a.kind == V_BOOL && ((op == AST_AND && a.num == 0) || (op == AST_OR && a.num != 0))) return a;
    return binary_values(e, op, a, elab_expr(e, x->as.binary.right), x->span);
}

bool elab_truth(Elab *e, const AstExpr *x, bool *out)
{
    Value v = elab_expr(e, x);
    if (v.kind == V_BOOL) return *out = v.num != 0, true;
    if (v.kind == V_ERROR) return false;
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), false;
    Diag *d = diag_error(e->d, E0304, x->span, "the condition is %s, wanted a bool known at compile time",
                         value_text(e, &v));
    if (v.kind == V_TENSOR) diag_help(e->d, d, "choose element by element with `where(cond, a, b)`");
    return false;
}

static Value elab_select(Elab *e, const AstExpr *x)
{
    bool yes;
    if (!elab_truth(e, x->as.select.cond, &yes)) return value_error();
    return elab_expr(e, yes ? x->as.select.yes : x->as.select.no);
}

static bool whole_number(Elab *e, Value v, Span s, int64_t *out)
{
    int64_t n = 0;
    if (v.kind == V_DIM && size_value(&e->z, dim_size(e, v.dim), &n)) return *out = n, true;
    if (v.kind == V_NUMBER && v.num == floor(v.num) && fabs(v.num) < 1e9) return *out = (int64_t)v.num, true;
    if (v.kind == V_WORD) error_unknown_name(e, v.word, v.span);
    else if (v.kind != V_ERROR)
        diag_error(e->d, E0304, s, "found %s, wanted a whole number known at compile time", value_text(e, &v));
    return false;
}

static bool loop_number(Elab *e, const AstExpr *x, int64_t *out)
{
    return whole_number(e, elab_expr(e, x), x->span, out);
}

typedef VEC(Value) Values;

static void loop_turn(Elab *e, const AstExpr *x, Value var, Values *out)
{
    scope_set(e, x->as.loop.var.text, var);
    VEC_PUSH(e->a, out, elab_block(e, &x->as.loop.body));
}

/* What is wrong in one turn is wrong in the next. */
static bool loop_goes_on(const Elab *e, uint32_t errors) { return !e->frame->returned && e->d->n_errors == errors; }

static Value elab_for(Elab *e, const AstExpr *x)
{
    const AstExpr *in = x->as.loop.in;
    const uint32_t errors = e->d->n_errors;
    Values out = {0};
    if (in->kind == AST_EXPR_RANGE) {
        int64_t a, b;
        if (!loop_number(e, in->as.binary.left, &a) || !loop_number(e, in->as.binary.right, &b)) return value_error();
        Span outer = e->loop;
        e->loop = in->span;
        for (int64_t i = a; i < b && elab_spend(e, in->span) && loop_goes_on(e, errors); i++)
            loop_turn(e, x, value_number((double)i, true, in->span), &out);
        e->loop = outer;
    } else {
        Value list = elab_expr(e, in);
        if (list.kind == V_ERROR) return list;
        if (list.kind != V_LIST && list.kind != V_TUPLE && list.kind != V_RECORD) {
            diag_error(e->d, E0304, in->span, "found %s, wanted a range or a list", value_text(e, &list));
            return value_error();
        }
        for (uint32_t i = 0; i < list.n && loop_goes_on(e, errors); i++) loop_turn(e, x, list.items[i], &out);
    }
    if (e->d->n_errors != errors) return value_error();
    return (Value){.kind = V_LIST, .items = out.data, .n = out.n, .span = x->span, .dim = IR_NONE};
}

static Value data_or_state(Elab *e, const Value *v, const AstName *name)
{
    if (v->kind == V_DATA) return data_member(e, name->text, name->span);
    if (v->kind == V_INSTANCE) return instance_slot(e, v->instance, name);
    if (v->kind == V_DEF)
        diag_error(e->d, E0204, name->span, "%s owns nothing: an instance does, `first = %s(...)`", value_text(e, v),
                   v->word);
    else if (v->kind == V_WORD) error_unknown_name(e, v->word, v->span);
    else {
        static const char *const words[] = {"src", "dst", "graph"};
        Diag *d = diag_error(e->d, E0204, name->span, "%s has no member `%s`", value_text(e, v), name->text);
        diag_suggest(e->d, d, name->span, name->text, words, 3);
    }
    return value_error();
}

Value elab_member(Elab *e, const AstExpr *x)
{
    Value v = elab_expr(e, x->as.member.value);
    const char *name = x->as.member.name.text;
    if (v.kind == V_ERROR) return v;
    if (v.kind == V_DATA && !v.word && (schema_type(e, name) || schema_relation(e, name)))
        return (Value){.kind = V_DATA, .span = x->span, .word = name, .dim = IR_NONE};
    if (v.kind == V_DATA && v.word) return data_of_type(e, v.word, &x->as.member.name);
    if (v.kind == V_DATA) return data_or_state(e, &v, &x->as.member.name);
    if (v.kind == V_RECORD) return record_read(e, &v, name, x->as.member.name.span);
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    if (!strcmp(name, "src") || !strcmp(name, "dst") || !strcmp(name, "graph"))
        return graph_member(e, v, name, x->span);
    if (!strcmp(name, "rel")) {
        diag_error(e->d, E0901, x->as.member.name.span, "`.rel` is not built yet");
        return value_error();
    }
    return data_or_state(e, &v, &x->as.member.name);
}

/* ---- x[a..b], list[i], edge[3] ------------------------------------------------------------------ */

static Value index_list(Elab *e, const AstExpr *x, Value list)
{
    int64_t i;
    if (x->as.index.at.n != 1) {
        diag_error(e->d, E0302, x->span, "a list takes one index");
        return value_error();
    }
    if (!loop_number(e, x->as.index.at.items[0], &i)) return value_error();
    int64_t at = i < 0 ? i + list.n : i; /* from the end */
    if (at >= 0 && at < list.n) return list.items[at];
    diag_error(e->d, E0302, x->span, "index %lld of a list of %u", (long long)i, list.n);
    return value_error();
}

/* Elements a..b of one dim; a number alone takes the dim away. */
static Value slice_dim(Elab *e, Value v, IrId dim, const AstExpr *at, const Value *only)
{
    int64_t a, b, size = INT64_MAX;
    bool range = at->kind == AST_EXPR_RANGE;
    if (range ? !loop_number(e, at->as.binary.left, &a) : !whole_number(e, *only, at->span, &a)) return value_error();
    if (!range) b = a + 1;
    else if (!loop_number(e, at->as.binary.right, &b)) return value_error();
    bool known = size_value(&e->z, dim_size(e, dim), &size);
    if (a < 0 || b <= a || (known && b > size)) {
        diag_error(e->d, E0211, at->span, "elements %lld..%lld of a dim of size %s", (long long)a, (long long)b,
                   size_text(&e->z, dim_size(e, dim)));
        return value_error();
    }
    if (range && a == 0 && b == size) return v;
    IrId part = dim_new(e, NULL, size_const(&e->z, b - a), at->span), rest[IR_MAX_DIMS];
    IrType t = v.type;
    uint32_t n = 0;
    for (int i = 0; i < t.n_dims; i++) {
        if (t.dims[i] == dim) t.dims[i] = part;
        if (t.dims[i] != part || range) rest[n++] = t.dims[i];
    }
    Value r = value_tensor(op_add(e, IR_OP_slice, t, &v.id, 1, (IrAttr){.i = a, .dim = dim}, at->span), t, at->span);
    return op_reshape(e, r, rest, n);
}

/* Rows of a table: one value stands for the first dim. */
static bool is_table_index(AstExprs at, const Value *first) { return at.n == 1 && first->kind == V_TENSOR; }

/* One index per dim; `...` stands for as many whole dims as are left. */
static Value index_tensor(Elab *e, const AstExpr *x, Value v)
{
    AstExprs at = x->as.index.at;
    Value *places = ARENA_ARRAY(e->a, Value, at.n + 1);
    uint32_t rests = 0;
    for (uint32_t i = 0; i < at.n; i++) {
        AstExprKind kind = at.items[i]->kind;
        rests += kind == AST_EXPR_REST;
        if (kind != AST_EXPR_REST && kind != AST_EXPR_RANGE) places[i] = elab_expr(e, at.items[i]);
    }
    if (at.n == 1 && places[0].kind == V_GRAPH) return graph_restrict(e, v, places[0].graph, x->span);
    bool rows = is_table_index(at, &places[0]) && v.type.n_dims;
    if (!rows && (rests > 1 || at.n == 0 || (rests ? at.n - 1 > v.type.n_dims : at.n != v.type.n_dims))) {
        Diag *d = diag_error(e->d, E0202, x->span, "%s has %u dims, the index has %u", value_text(e, &v), v.type.n_dims,
                             at.n);
        diag_help(
            e->d, d,
            "an index takes elements of feature dims: `x[0..4]`, `x[i, ...]`; nodes and edges have no number here");
        return value_error();
    }
    IrId dims[IR_MAX_DIMS];
    const Size *classes = v.classes; /* some of the same integers */
    uint32_t skipped = v.type.n_dims - (at.n - rests);
    memcpy(dims, v.type.dims, sizeof dims);
    for (uint32_t i = 0, k = 0; i < at.n && v.kind == V_TENSOR; i++) {
        if (at.items[i]->kind == AST_EXPR_REST) k += skipped;
        else if (places[i].kind == V_TENSOR) v = table_rows(e, v, dims[k++], places[i], at.items[i]->span);
        else v = slice_dim(e, v, dims[k++], at.items[i], &places[i]);
    }
    if (v.kind == V_TENSOR) v.classes = classes;
    return v;
}

static bool is_space_word(const char *w)
{
    return !strcmp(w, "node") || !strcmp(w, "edge") || !strcmp(w, "src") || !strcmp(w, "dst") || !strcmp(w, "graph");
}

/* An expression that spells a type, such as `edge[3]` or `edge(g1)[3]`. */
static bool type_value(Elab *e, const AstExpr *x, Value *out)
{
    const AstExpr *head = x;
    if (head->kind == AST_EXPR_INDEX) head = head->as.index.value;
    if (head->kind == AST_EXPR_CALL) head = head->as.call.callee;
    bool space = head->kind == AST_EXPR_DOMAIN || (head->kind == AST_EXPR_NAME && is_space_word(head->as.name.text) &&
                                                   !scope_find(e->frame, head->as.name.text));
    if (!space) return false;
    const AstType *t = ast_type_of_expr(e->a, x);
    if (!t) return false;
    *out = (Value){.kind = V_TYPE, .span = x->span, .dim = IR_NONE};
    if (!type_resolve(e, t, &out->type)) *out = value_error();
    return true;
}

Value elab_index(Elab *e, const AstExpr *x)
{
    Value v = elab_expr(e, x->as.index.value);
    if (v.kind == V_RECORD) return record_index(e, x, &v);
    if (v.kind == V_LIST || v.kind == V_TUPLE) return index_list(e, x, v);
    if (v.kind == V_TENSOR) return index_tensor(e, x, v);
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    if (v.kind != V_ERROR) diag_error(e->d, E0212, x->span, "%s has no elements", value_text(e, &v));
    return value_error();
}

static Value misplaced(Elab *e, Span s, const char *what)
{
    diag_error(e->d, E0310, s, "%s", what);
    return value_error();
}

Value elab_expr(Elab *e, const AstExpr *x)
{
    Value v;
    if (!elab_spend(e, x->span)) return value_error();
    switch (x->kind) {
    case AST_EXPR_NAME: return type_value(e, x, &v) ? v : scope_lookup(e, x->as.name.text, x->span);
    case AST_EXPR_NUMBER: return value_number(x->as.number.value, x->as.number.is_int, x->span);
    case AST_EXPR_STRING: return value_word(x->as.string, x->span);
    case AST_EXPR_BOOL: return value_bool(x->as.boolean, x->span);
    case AST_EXPR_NONE: return value_none(x->span);
    case AST_EXPR_REST: return misplaced(e, x->span, "`...` stands in types and indices only");
    case AST_EXPR_LIST: return elab_items(e, x, V_LIST);
    case AST_EXPR_TUPLE: return elab_items(e, x, V_TUPLE);
    case AST_EXPR_UNARY: return elab_unary(e, x);
    case AST_EXPR_BINARY: return elab_binary(e, x);
    case AST_EXPR_RANGE: return misplaced(e, x->span, "a range stands behind `for k in` and in an index only");
    case AST_EXPR_SELECT: return elab_select(e, x);
    case AST_EXPR_CALL: return type_value(e, x, &v) ? v : elab_call(e, x);
    case AST_EXPR_MEMBER: return elab_member(e, x);
    case AST_EXPR_INDEX: return type_value(e, x, &v) ? v : elab_index(e, x);
    case AST_EXPR_DOMAIN: return type_value(e, x, &v) ? v : value_error();
    case AST_EXPR_OVER: return graph_over(e, x);
    case AST_EXPR_FOR: return elab_for(e, x);
    case AST_EXPR_FORALL: return elab_forall(e, x);
    }
    return value_error();
}
