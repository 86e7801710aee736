/* Arithmetic and comparisons between values known at compile time: numbers, dims, words, lists. */
#include "frontend/sema.h"
#include <math.h>

/* A number by now: a literal, or a dim whose size is known. */
static bool number_of(Elab *e, const Value *v, double *out)
{
    int64_t n;
    if (v->kind == V_NUMBER) return *out = v->num, true;
    if (v->kind != V_DIM || !size_value(&e->z, dim_size(e, v->dim), &n)) return false;
    return *out = (double)n, true;
}

static bool is_whole(const Value *v) { return v->kind == V_DIM || v->is_int; }

static Value arith(AstBinaryOp op, double a, double b, bool whole, Span s)
{
    switch (op) {
    case AST_ADD: return value_number(a + b, whole, s);
    case AST_SUB: return value_number(a - b, whole, s);
    case AST_MUL: return value_number(a * b, whole, s);
    case AST_DIV: return value_number(a / b, whole && b != 0 && fmod(a, b) == 0, s);
    case AST_POW: return value_number(pow(a, b), whole && b >= 0, s);
    case AST_EQ: return value_bool(a == b, s);
    case AST_NE: return value_bool(a != b, s);
    case AST_LT: return value_bool(a < b, s);
    case AST_LE: return value_bool(a <= b, s);
    case AST_GT: return value_bool(a > b, s);
    case AST_GE: return value_bool(a >= b, s);
    default: return value_error();
    }
}

static const Size *whole_size(Elab *e, const Value *v)
{
    if (v->kind == V_DIM) return dim_size(e, v->dim);
    return v->is_int && fabs(v->num) < 1e15 ? size_const(&e->z, (int64_t)v->num) : NULL;
}

/* Dims of unknown size: a dim again where it stays whole. */
static bool dim_arith(Elab *e, AstBinaryOp op, const Value *a, const Value *b, Span s, Value *out)
{
    const Size *x = whole_size(e, a), *y = whole_size(e, b), *r = NULL;
    if (!x || !y) return false;
    if (op == AST_EQ || op == AST_NE) return *out = value_bool(size_equal(&e->z, x, y) == (op == AST_EQ), s), true;
    if (op == AST_ADD) r = size_add(&e->z, x, y, 1);
    if (op == AST_SUB) r = size_add(&e->z, x, y, -1);
    if (op == AST_MUL) r = size_mul(&e->z, x, y);
    if (op == AST_DIV && a->kind == V_DIM) r = size_div(&e->z, x, y);
    if (!r) return false;
    *out = (Value){.kind = V_DIM, .span = s, .dim = dim_new(e, NULL, r, s)};
    return true;
}

static bool same_static(const Value *a, const Value *b)
{
    if (a->kind == V_NONE || b->kind == V_NONE) return a->kind == b->kind;
    if (a->word && b->word && a->kind != V_NUMBER && b->kind != V_NUMBER) return !strcmp(a->word, b->word);
    if (a->kind == V_BOOL && b->kind == V_BOOL) return a->num == b->num;
    if (a->kind == V_INSTANCE && b->kind == V_INSTANCE) return a->instance == b->instance;
    return false;
}

static Value list_join(Elab *e, const Value *a, const Value *b, Span s)
{
    Value *items = ARENA_ARRAY(e->a, Value, a->n + b->n + 1);
    for (uint32_t i = 0; i < a->n; i++) items[i] = a->items[i];
    for (uint32_t i = 0; i < b->n; i++) items[a->n + i] = b->items[i];
    return (Value){.kind = V_LIST, .items = items, .n = a->n + b->n, .span = s, .dim = IR_NONE};
}

bool static_binary(Elab *e, AstBinaryOp op, const Value *a, const Value *b, Span s, Value *out)
{
    bool numeric = (a->kind == V_NUMBER || a->kind == V_DIM) && (b->kind == V_NUMBER || b->kind == V_DIM);
    double x, y;
    if (numeric && op != AST_AND && op != AST_OR && op != AST_MATMUL) {
        if (number_of(e, a, &x) && number_of(e, b, &y))
            return *out = arith(op, x, y, is_whole(a) && is_whole(b), s), true;
        return dim_arith(e, op, a, b, s, out);
    }
    if (a->kind == V_LIST && b->kind == V_LIST && op == AST_ADD) return *out = list_join(e, a, b, s), true;
    bool none = a->kind == V_NONE || b->kind == V_NONE; /* `w == none` of a tensor, too */
    if ((op == AST_EQ || op == AST_NE) && (none || (value_is_static(a) && value_is_static(b))))
        return *out = value_bool(same_static(a, b) == (op == AST_EQ), s), true;
    bool bools = a->kind == V_BOOL && b->kind == V_BOOL;
    if (bools && op == AST_AND) return *out = value_bool(a->num != 0 && b->num != 0, s), true;
    if (bools && op == AST_OR) return *out = value_bool(a->num != 0 || b->num != 0, s), true;
    return false;
}

/* ---- binary operators of any values ---- */

typedef struct BinaryRow {
    IrOpcode op;
    const char *verb;
    bool swapped;
} BinaryRow;
static const BinaryRow binary_rows[] = {
    [AST_ADD] = {IR_OP_add, "add", false},      [AST_SUB] = {IR_OP_sub, "subtract", false},
    [AST_MUL] = {IR_OP_mul, "multiply", false}, [AST_DIV] = {IR_OP_div, "divide", false},
    [AST_POW] = {IR_OP_pow, "raise", false},    [AST_EQ] = {IR_OP_eq, "compare", false},
    [AST_NE] = {IR_OP_ne, "compare", false},    [AST_LT] = {IR_OP_lt, "compare", false},
    [AST_LE] = {IR_OP_le, "compare", false},    [AST_GT] = {IR_OP_lt, "compare", true},
    [AST_GE] = {IR_OP_le, "compare", true},     [AST_AND] = {IR_OP_and, "combine", false},
    [AST_OR] = {IR_OP_or, "combine", false},
};

Value binary_values(Elab *e, AstBinaryOp op, Value a, Value b, Span s)
{
    Value r;
    if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    if (op != AST_EQ && op != AST_NE && a.kind == V_WORD) return error_unknown_name(e, a.word, a.span), value_error();
    if (op != AST_EQ && op != AST_NE && b.kind == V_WORD) return error_unknown_name(e, b.word, b.span), value_error();
    if (static_binary(e, op, &a, &b, s, &r)) return r;
    if (op == AST_MATMUL) return op_matmul(e, a, b, s);
    const BinaryRow *row = &binary_rows[op];
    return row->swapped ? op_binary(e, row->op, row->verb, b, a, s) : op_binary(e, row->op, row->verb, a, b, s);
}
