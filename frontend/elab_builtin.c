/* Intrinsics: what the language cannot say in itself. Everything else is in frontend/std. */
#include "frontend/sema.h"
#include <math.h>

/* ---- arguments ---------------------------------------------------------------------------------- */

static bool want_args(Elab *e, const Call *c, uint32_t lo, uint32_t hi, const char *form)
{
    bool ok = c->n >= lo && c->n <= hi;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->args[i].value.kind == V_ERROR) return false;
        if (c->args[i].name || c->args[i].word) ok = false;
    }
    if (ok) return true;
    diag_error(e->d, E0302, c->span, "wanted `%s`", form);
    return false;
}

static const Value *arg(const Call *c, uint32_t i) { return &c->args[i].value; }

static Value error_dim(Elab *e, const Value *v, const Value *which, Span s)
{
    Diag *d = diag_error(e->d, E0207, span_or(which->span, s), "%s has no dim %s", value_text(e, v),
                         which->word ? arena_printf(e->a, "`%s`", which->word) : value_text(e, which));
    note_value(e, d, v);
    if (v->kind == V_TENSOR && v->type.n_dims == 0) diag_help(e->d, d, "it has no dims at all");
    else if (v->kind == V_TENSOR && which->kind == V_NUMBER)
        diag_help(e->d, d,
                  "a dim is meant by its name: give it one where the value is declared, as in `y: node[P] = ...`");
    return value_error();
}

/* ---- one operand ------------------------------------------------------------------------------------------------- */

static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }

static Value unary(Elab *e, const Call *c, IrOpcode op, double (*on_number)(double), const char *form)
{
    if (!want_args(e, c, 1, 1, form)) return value_error();
    Value v = *arg(c, 0);
    if (v.kind == V_NUMBER) return value_number(on_number(v.num), false, c->span);
    int64_t n;
    if (v.kind == V_DIM && size_value(&e->z, dim_size(e, v.dim), &n))
        return value_number(on_number((double)n), false, c->span);
    return op_unary(e, op, v, c->span);
}
#define UNARY(name, on_number)                                                                                         \
    static Value builtin_##name(Elab *e, const Call *c) { return unary(e, c, IR_OP_##name, on_number, #name "(x)"); }
UNARY(exp, exp)
UNARY(expm1, expm1)
UNARY(log, log)
UNARY(log1p, log1p)
UNARY(sqrt, sqrt)
UNARY(tanh, tanh)
UNARY(sigmoid, sigmoid_of)
UNARY(erf, erf)
UNARY(sin, sin)
UNARY(cos, cos)
UNARY(abs, fabs)
UNARY(sign, sign_of)
UNARY(floor, floor)

static Value builtin_detach(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 1, "detach(x)")) return value_error();
    return arg(c, 0)->kind == V_NUMBER ? *arg(c, 0) : op_unary(e, IR_OP_detach, *arg(c, 0), c->span);
}

static Value builtin_float(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 1, "float(x)")) return value_error();
    if (arg(c, 0)->kind == V_NUMBER) return value_number(arg(c, 0)->num, false, c->span);
    return op_cast(e, *arg(c, 0), e->real, c->span);
}

static Value builtin_int(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 1, "int(x)")) return value_error();
    if (arg(c, 0)->kind == V_NUMBER) return value_number(trunc(arg(c, 0)->num), true, c->span);
    return op_cast(e, *arg(c, 0), IR_I64, c->span);
}

/* ---- two and three ----------------------------------------------------------------------------------------------- */

static Value builtin_pow(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "pow(x, p)")) return value_error();
    return binary_values(e, AST_POW, *arg(c, 0), *arg(c, 1), c->span);
}

static Value builtin_mod(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "mod(a, b)")) return value_error();
    const Value *a = arg(c, 0), *b = arg(c, 1);
    if (a->kind == V_NUMBER && b->kind == V_NUMBER)
        return value_number(fmod(a->num, b->num), a->is_int && b->is_int, c->span);
    Value x = to_tensor(e, *a, IR_I64, c->span);
    if (x.kind == V_TENSOR && x.type.dtype != IR_I64) {
        Diag *d = diag_error(e->d, E0206, c->span, "mod takes integers, found %s", value_text(e, &x));
        diag_help(e->d, d, "nothing is converted by itself: `int(...)` makes integers");
        return value_error();
    }
    return op_binary(e, IR_OP_mod, "divide", x, *b, c->span);
}

/* Of two tuples, each pair of values. */
static Value where_tuples(Elab *e, const Value *cond, const Value *a, const Value *b, Span s)
{
    Value *items = ARENA_ARRAY(e->a, Value, a->n + 1);
    for (uint32_t i = 0; i < a->n; i++) items[i] = op_select(e, *cond, a->items[i], b->items[i], s);
    return (Value){.kind = V_TUPLE, .items = items, .n = a->n, .span = s, .dim = IR_NONE};
}

static Value builtin_where(Elab *e, const Call *c)
{
    if (!want_args(e, c, 3, 3, "where(cond, a, b)")) return value_error();
    if (arg(c, 0)->kind == V_BOOL) return *arg(c, arg(c, 0)->num != 0 ? 1 : 2);
    if (arg(c, 1)->kind == V_TUPLE && arg(c, 2)->kind == V_TUPLE && arg(c, 1)->n == arg(c, 2)->n)
        return where_tuples(e, arg(c, 0), arg(c, 1), arg(c, 2), c->span);
    return op_select(e, *arg(c, 0), *arg(c, 1), *arg(c, 2), c->span);
}

static Value builtin_grad(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "grad(e, x)")) return value_error();
    return op_grad(e, *arg(c, 0), *arg(c, 1), c->span);
}

/* ---- dims -------------------------------------------------------------------------------------------------------- */

static bool may_be_dim(const Value *v)
{
    return v->kind == V_DIM || v->kind == V_WORD || (v->kind == V_NUMBER && v->word);
}

/* sum(x, H, D): dims away; sum(x): all of them. */
static Value reduce_dims(Elab *e, const Call *c, IrOpcode op, const char *form)
{
    if (!want_args(e, c, 1, 1 + IR_MAX_DIMS, form)) return value_error();
    Value v = *arg(c, 0);
    if (v.kind != V_TENSOR) v = to_tensor(e, v, e->real, c->span);
    if (v.kind == V_ERROR) return v;
    IrType t = v.type;
    for (int i = 0; i < t.n_dims && c->n == 1; i++) v = op_reduce_dims(e, op, v, t.dims[i], c->span);
    for (uint32_t i = 1; i < c->n && v.kind == V_TENSOR; i++) {
        IrId dim = may_be_dim(arg(c, i)) ? dim_in(e, &v.type, arg(c, i)) : IR_NONE;
        if (dim == IR_NONE) return error_dim(e, &v, arg(c, i), c->span);
        v = op_reduce_dims(e, op, v, dim, c->span);
    }
    return v;
}

static Value builtin_sum(Elab *e, const Call *c) { return reduce_dims(e, c, IR_OP_sum_dims, "sum(x, D)"); }

/* max(a, b) element by element, max(x, D) over a dim. */
static Value extreme(Elab *e, const Call *c, bool max)
{
    IrOpcode dims = max ? IR_OP_max_dims : IR_OP_min_dims, map = max ? IR_OP_max : IR_OP_min;
    const char *form = max ? "max(a, b)` or `max(x, D)" : "min(a, b)` or `min(x, D)";
    if (c->n == 2 && arg(c, 0)->kind == V_NUMBER && arg(c, 1)->kind == V_NUMBER) {
        double a = arg(c, 0)->num, b = arg(c, 1)->num;
        return value_number(max == (a > b) ? a : b, arg(c, 0)->is_int && arg(c, 1)->is_int, c->span);
    }
    bool over = c->n != 2 || arg(c, 1)->kind == V_WORD;
    if (c->n == 2 && arg(c, 0)->kind == V_TENSOR && may_be_dim(arg(c, 1)))
        over |= dim_in(e, &arg(c, 0)->type, arg(c, 1)) != IR_NONE;
    if (over) return reduce_dims(e, c, dims, form);
    if (!want_args(e, c, 2, 2, form)) return value_error();
    return op_binary(e, map, "compare", *arg(c, 0), *arg(c, 1), c->span);
}

static Value builtin_max(Elab *e, const Call *c) { return extreme(e, c, true); }
static Value builtin_min(Elab *e, const Call *c) { return extreme(e, c, false); }

/* dot(a, b, D): products summed over D. */
static Value builtin_dot(Elab *e, const Call *c)
{
    if (!want_args(e, c, 3, 3, "dot(a, b, D)")) return value_error();
    Value a = to_tensor(e, *arg(c, 0), e->real, c->span), b = to_tensor(e, *arg(c, 1), e->real, c->span);
    if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    IrId x = dim_in(e, &a.type, arg(c, 2)), y = dim_in(e, &b.type, arg(c, 2));
    if (x == IR_NONE) return error_dim(e, &a, arg(c, 2), c->span);
    if (y == IR_NONE) return error_dim(e, &b, arg(c, 2), c->span);
    if (x != y && !size_unify(&e->z, dim_size(e, x), dim_size(e, y), c->span)) {
        diag_error(e->d, E0201, c->span, "dim %s of %s and of %s have sizes %s and %s", value_text(e, arg(c, 2)),
                   value_text(e, &a), value_text(e, &b), size_text(&e->z, dim_size(e, x)),
                   size_text(&e->z, dim_size(e, y)));
        return value_error();
    }
    IrId dims[IR_MAX_DIMS];
    for (int i = 0; i < b.type.n_dims; i++) dims[i] = b.type.dims[i] == y ? x : b.type.dims[i];
    return op_contract(e, a, op_reshape(e, b, dims, b.type.n_dims), x, c->span);
}

static Value builtin_flatten(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 1, "flatten(x)")) return value_error();
    Value v = to_tensor(e, *arg(c, 0), e->real, c->span);
    if (v.kind == V_ERROR || v.type.n_dims == 1) return v;
    const Size *size = size_const(&e->z, 1);
    for (int i = 0; i < v.type.n_dims; i++) size = size_mul(&e->z, size, dim_size(e, v.type.dims[i]));
    IrId dim = dim_new(e, NULL, size, c->span);
    return op_reshape(e, v, &dim, 1);
}

/* The dims that a list of names and numbers spells. */
static bool dims_of_list(Elab *e, const Value *list, IrId *dims, uint32_t *n)
{
    *n = 0;
    if (list->kind != V_LIST || list->n > IR_MAX_DIMS) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        const Value *v = &list->items[i];
        bool number = v->kind == V_NUMBER && v->dim == IR_NONE && v->num >= 1 && v->num < 1e15 &&
                      v->num == floor(v->num);
        if (v->kind != V_DIM && !number && !(v->kind == V_NUMBER && v->dim != IR_NONE)) return false;
        IrId dim = number ? dim_new(e, v->word, size_const(&e->z, (int64_t)v->num), v->span) : v->dim;
        for (uint32_t k = 0; k < *n; k++)
            if (dims[k] == dim) return false;
        dims[(*n)++] = dim;
    }
    return true;
}

/* reshape(x, [H, D]): the same elements under other dims. */
static Value builtin_reshape(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "reshape(x, [H, D])")) return value_error();
    Value v = to_tensor(e, *arg(c, 0), e->real, c->span);
    IrId dims[IR_MAX_DIMS];
    uint32_t n;
    if (v.kind == V_ERROR) return v;
    if (!dims_of_list(e, arg(c, 1), dims, &n)) {
        diag_error(e->d, E0302, c->span, "reshape wants a list of different dims or sizes");
        return value_error();
    }
    const Size *from = size_const(&e->z, 1), *to = from;
    for (int i = 0; i < v.type.n_dims; i++) from = size_mul(&e->z, from, dim_size(e, v.type.dims[i]));
    for (uint32_t i = 0; i < n; i++) to = size_mul(&e->z, to, dim_size(e, dims[i]));
    if (size_unify(&e->z, from, to, c->span)) return op_reshape(e, v, dims, n);
    diag_error(e->d, E0201, c->span, "%s has %s elements, the new dims have %s", value_text(e, &v),
               size_text(&e->z, from), size_text(&e->z, to));
    return value_error();
}

/* transpose(x, [D, H]): the same dims in another order. */
static Value builtin_transpose(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "transpose(x, [D, H])")) return value_error();
    Value v = to_tensor(e, *arg(c, 0), e->real, c->span);
    if (v.kind == V_ERROR) return v;
    IrId dims[IR_MAX_DIMS];
    const Value *list = arg(c, 1);
    bool ok = list->kind == V_LIST && list->n == v.type.n_dims;
    for (uint32_t i = 0; ok && i < list->n; i++) {
        dims[i] = dim_in(e, &v.type, &list->items[i]);
        ok = dims[i] != IR_NONE;
        for (uint32_t k = 0; k < i; k++) ok &= dims[k] != dims[i];
    }
    if (ok) return op_transpose(e, v, dims, list->n);
    diag_error(e->d, E0207, c->span, "transpose wants a list of the dims of %s", value_text(e, &v));
    return value_error();
}

static Value builtin_iota(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 1, "iota(C)")) return value_error();
    const Value *v = arg(c, 0);
    IrId dim = v->dim;
    if (v->kind == V_NUMBER && dim == IR_NONE && v->num >= 1 && v->num < 1e15 && v->num == floor(v->num))
        dim = dim_new(e, v->word, size_const(&e->z, (int64_t)v->num), c->span);
    if ((v->kind != V_DIM && v->kind != V_NUMBER) || dim == IR_NONE) {
        diag_error(e->d, E0207, c->span, "iota wants a dim, found %s", value_text(e, v));
        return value_error();
    }
    IrType t = {.dtype = IR_I64, .n_dims = 1, .dims = {dim}};
    return value_tensor(op_add(e, IR_OP_iota, t, NULL, 0, (IrAttr){.dim = dim}, c->span), t, c->span);
}

/* size(x, D), size(D), size(x) of a value with one dim, size of a list: a number. */
static Value builtin_size(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 2, "size(x, D)")) return value_error();
    const Value *last = arg(c, c->n - 1);
    IrId dim = last->dim;
    if (c->n == 2) {
        Value v = to_tensor(e, *arg(c, 0), e->real, c->span);
        if (v.kind == V_ERROR) return v;
        dim = dim_in(e, &v.type, last);
        if (dim == IR_NONE) return error_dim(e, &v, last, c->span);
    }
    if (c->n == 1 && last->kind == V_TENSOR && last->type.n_dims == 1) dim = last->type.dims[0];
    if (c->n == 1 && (last->kind == V_LIST || last->kind == V_RECORD)) return value_number(last->n, true, c->span);
    if (dim == IR_NONE && last->kind == V_NUMBER) return *last;
    if (dim == IR_NONE) return error_dim(e, last, last, c->span);
    int64_t n;
    if (size_value(&e->z, dim_size(e, dim), &n)) return value_number((double)n, true, c->span);
    return (Value){.kind = V_DIM, .dim = dim, .span = c->span};
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* v with every dim of `dims` and in the space: a copy per missing index. */
static Value widen(Elab *e, Value v, IrId space, const IrId *dims, uint32_t n, Span s)
{
    if (v.type.space != space) v = op_spread(e, v, space);
    IrType t = v.type;
    for (uint32_t i = 0; i < n; i++)
        if (!ir_type_has_dim(&v.type, dims[i])) t.dims[t.n_dims++] = dims[i];
    if (t.n_dims != v.type.n_dims) {
        IrType rest = {.dtype = t.dtype, .n_dims = (uint8_t)(t.n_dims - v.type.n_dims)};
        memcpy(rest.dims, t.dims + v.type.n_dims, rest.n_dims * sizeof(IrId));
        Value zero = op_const(e, rest, -0.0, s);
        v = value_tensor(op_add(e, IR_OP_add, t, (IrId[]){v.id, zero.id}, 2, (IrAttr){0}, s), t, s);
    }
    return v;
}

static IrId last_dim(const Value *v) { return v->type.n_dims ? v->type.dims[v->type.n_dims - 1] : IR_NONE; }

/* The other dims of all parts agree; each part's joined dim stays its own. */
static bool cat_align(Elab *e, Value *parts, uint32_t n, const IrId *joined, Span s)
{
    for (uint32_t i = 1; i < n; i++) {
        IrId a[IR_MAX_DIMS], all[IR_MAX_DIMS];
        Value x = parts[0], y = parts[i];
        x.type.n_dims = y.type.n_dims = 0;
        for (int k = 0; k < parts[0].type.n_dims; k++)
            if (parts[0].type.dims[k] != joined[0]) x.type.dims[x.type.n_dims++] = parts[0].type.dims[k];
        for (int k = 0; k < parts[i].type.n_dims; k++)
            if (parts[i].type.dims[k] != joined[i]) y.type.dims[y.type.n_dims++] = parts[i].type.dims[k];
        if (x.type.n_dims != y.type.n_dims) continue; /* broadcast later */
        for (int k = 0; k < y.type.n_dims; k++)
            if (dims_named_apart(e, x.type.dims[k], y.type.dims[k]) ||
                !size_unify(&e->z, dim_size(e, x.type.dims[k]), dim_size(e, y.type.dims[k]), s)) {
                diag_error(e->d, E0201, s, "cannot join %s and %s", value_text(e, &parts[0]), value_text(e, &parts[i]));
                return false;
            }
        memcpy(a, x.type.dims, sizeof a);
        for (int k = 0, j = 0; k < parts[i].type.n_dims; k++)
            all[k] = parts[i].type.dims[k] == joined[i] ? joined[i] : a[j++];
        parts[i] = op_reshape(e, parts[i], all, parts[i].type.n_dims);
    }
    return true;
}

static Value cat_values(Elab *e, Value *parts, uint32_t n, Span s)
{
    IrId *joined = ARENA_ARRAY(e->a, IrId, n), *ids = ARENA_ARRAY(e->a, IrId, n), rest[IR_MAX_DIMS], order[IR_MAX_DIMS];
    IrId space = IR_UNIT;
    const Size *total = size_const(&e->z, 0);
    uint32_t n_rest = 0;
    for (uint32_t i = 0; i < n; i++) {
        parts[i] = to_tensor(e, parts[i], e->real, s);
        if (parts[i].kind == V_ERROR) return value_error();
        if (parts[i].type.dtype != parts[0].type.dtype) {
            diag_error(e->d, E0206, s, "cannot join %s and %s", value_text(e, &parts[0]), value_text(e, &parts[i]));
            return value_error();
        }
        if (last_dim(&parts[i]) == IR_NONE) { /* one number: a dim of size 1 */
            IrId one = dim_new(e, NULL, size_const(&e->z, 1), s);
            parts[i] = op_reshape(e, parts[i], &one, 1);
        }
        joined[i] = last_dim(&parts[i]);
        if (parts[i].type.space == IR_UNIT) continue;
        if (space == IR_UNIT) space = parts[i].type.space;
        if (space == parts[i].type.space) continue;
        Diag *d = diag_error(e->d, E0203, parts[i].span, "cannot join %s and %s", value_text(e, &parts[0]),
                             value_text(e, &parts[i]));
        diag_help(e->d, d, "take the value at one end of each edge: `.src` or `.dst`");
        return value_error();
    }
    if (!cat_align(e, parts, n, joined, s)) return value_error();
    for (uint32_t i = 0; i < n; i++) {
        total = size_add(&e->z, total, dim_size(e, joined[i]), 1);
        for (int k = 0; k < parts[i].type.n_dims; k++) {
            bool known = parts[i].type.dims[k] == joined[i];
            for (uint32_t j = 0; j < n_rest; j++) known |= rest[j] == parts[i].type.dims[k];
            if (!known && n_rest < IR_MAX_DIMS - 1) rest[n_rest++] = parts[i].type.dims[k];
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            if (joined[j] == joined[i] || !ir_type_has_dim(&parts[j].type, joined[i])) continue;
            diag_error(e->d, E0201, s, "cannot join %s and %s: the second has the last dim of the first beside its own",
                       value_text(e, &parts[i]), value_text(e, &parts[j]));
            return value_error();
        }
    for (uint32_t i = 0; i < n; i++) {
        Value v = widen(e, parts[i], space, rest, n_rest, s);
        memcpy(order, rest, n_rest * sizeof *rest);
        order[n_rest] = joined[i];
        ids[i] = op_transpose(e, v, order, n_rest + 1).id;
    }
    IrType t = {.space = space, .dtype = parts[0].type.dtype, .n_dims = (uint8_t)(n_rest + 1)};
    memcpy(t.dims, rest, n_rest * sizeof *rest);
    IrId dim = t.dims[n_rest] = dim_new(e, NULL, total, s);
    return value_tensor(op_add(e, IR_OP_concat, t, ids, n, (IrAttr){.dim = dim}, s), t, s);
}

/* Values that one `cat` joins at most: the kernel has a parameter for each of them. */
enum { MOST_JOINED = 4096 };

/* cat(a, b, ...) or cat([a, b]): joined along the last dim. */
static Value builtin_cat(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, MOST_JOINED, "cat(a, b, ...)")) return value_error();
    ValueKind first = arg(c, 0)->kind;
    bool list = c->n == 1 && (first == V_LIST || first == V_TUPLE || first == V_RECORD);
    uint32_t n = list ? arg(c, 0)->n : c->n;
    if (n == 0 || n > MOST_JOINED) {
        diag_error(e->d, E0302, c->span, "cat joins 1 to %d values, found %u", MOST_JOINED, n);
        return value_error();
    }
    Value *parts = ARENA_ARRAY(e->a, Value, n);
    for (uint32_t i = 0; i < n; i++) parts[i] = list ? arg(c, 0)->items[i] : *arg(c, i);
    if (n == 1) return parts[0];
    return cat_values(e, parts, n, c->span);
}

/* ---- random numbers, constants of a type ------------------------------------------------------------------------- */

static bool type_of_value(Elab *e, const Value *v, IrType *t)
{
    *t = ir_scalar(e->real);
    if (v->kind == V_TYPE) return *t = v->type, true;
    if (v->kind == V_TENSOR && ir_dtype_is_float(v->type.dtype)) return *t = v->type, true;
    uint32_t n;
    if (v->kind != V_LIST || !dims_of_list(e, v, t->dims, &n)) return false;
    t->n_dims = (uint8_t)n;
    return true;
}

/* randn(edge[3], seed = 2); without a seed the run's own and the step. */
static Value random_value(Elab *e, const Call *c, IrOpcode op, const char *form)
{
    IrType t;
    const Value *seed = NULL;
    bool ok = c->n >= 1 && c->n <= 2 && !c->args[0].name;
    if (ok && arg(c, 0)->kind == V_ERROR) return value_error();
    if (ok && c->n == 2) {
        seed = arg(c, 1);
        ok = c->args[1].name && !strcmp(c->args[1].name, "seed") && seed->kind == V_NUMBER &&
             seed->num == floor(seed->num);
    }
    if (!ok || !type_of_value(e, arg(c, 0), &t) || !ir_dtype_is_float(t.dtype)) {
        diag_error(e->d, E0302, c->span, "wanted `%s`", form);
        return value_error();
    }
    IrType number = ir_scalar(IR_I64);
    Value key = seed ? op_const(e, number, seed->num, c->span) : seed_value(e, c->span);
    Value step = seed ? op_const(e, number, 0, c->span) : step_value(e, c->span);
    IrAttr attr = {.site = e->m->n_sites++};
    return value_tensor(op_add(e, op, t, (IrId[]){key.id, step.id}, 2, attr, c->span), t, c->span);
}

static Value builtin_randn(Elab *e, const Call *c)
{
    return random_value(e, c, IR_OP_random_normal, "randn(edge[3], seed = 1)");
}
static Value builtin_rand(Elab *e, const Call *c)
{
    return random_value(e, c, IR_OP_random_uniform, "rand(edge[3], seed = 1)");
}

static Value constant(Elab *e, const Call *c, double x, const char *form)
{
    IrType t;
    if (!want_args(e, c, 1, 1, form)) return value_error();
    if (!type_of_value(e, arg(c, 0), &t)) {
        diag_error(e->d, E0302, c->span, "wanted `%s`", form);
        return value_error();
    }
    return op_const(e, t, x, c->span);
}

static Value builtin_ones(Elab *e, const Call *c) { return constant(e, c, 1, "ones(node[F])"); }
static Value builtin_zeros(Elab *e, const Call *c) { return constant(e, c, 0, "zeros(node[F])"); }

/* id(node), id(edge): the number of each row in the user's order. */
static Value builtin_id(Elab *e, const Call *c)
{
    if (!want_args(e, c, 1, 1, "id(node)")) return value_error();
    const Value *v = arg(c, 0);
    if ((v->kind != V_TYPE && v->kind != V_TENSOR) || v->type.space == IR_UNIT) {
        diag_error(e->d, E0302, c->span, "wanted `id(node)` or another domain, found %s", value_text(e, v));
        return value_error();
    }
    IrType t = {.space = v->type.space, .dtype = IR_I64};
    return value_tensor(op_add(e, IR_OP_element, t, NULL, 0, (IrAttr){0}, c->span), t, c->span);
}

/* The place of each element's value among those with the same image under a map; IR_NONE: the value is in no such
   domain. */
static Value rank_via(Elab *e, const Call *c, IrId map, const char *form)
{
    if (!want_args(e, c, 1, 1, form)) return value_error();
    Value v = *arg(c, 0);
    IrType t = v.type;
    if (v.kind == V_TENSOR && map != IR_NONE && t.space == e->m->maps.data[map].from && t.dtype != IR_BOOL) {
        t.dtype = IR_I64;
        return value_tensor(op_add(e, IR_OP_rank, t, &v.id, 1, (IrAttr){.map = map}, c->span), t, c->span);
    }
    diag_error(e->d, E0204, span_or(v.span, c->span), "found %s, wanted numbers as in `%s`", value_text(e, &v), form);
    return value_error();
}

static Value builtin_rank_in(Elab *e, const Call *c)
{
    return rank_via(e, c, graph_ir(e, e->frame->graph)->dst, "rank_in(x), x: edge[F]");
}

static Value builtin_rank_out(Elab *e, const Call *c)
{
    return rank_via(e, c, graph_ir(e, e->frame->graph)->src, "rank_out(x), x: edge[F]");
}

static IrId space_of_call(const Call *c)
{
    return c->n && c->args[0].value.kind == V_TENSOR ? c->args[0].value.type.space : IR_UNIT;
}

/* Ranks of edges that may lead nowhere, again among those that lead somewhere: the others come last, whatever their
   values. */
static Value rank_there(Elab *e, const Call *c, IrId map, const char *form)
{
    Value rank = rank_via(e, c, map, form), there = found_there(e, space_of_call(c), c->span);
    if (rank.kind != V_TENSOR || there.kind != V_TENSOR) return rank;
    CallArg arg = {.value = op_select(e, there, rank, value_number(0x1p62, true, c->span), c->span)};
    return rank_via(e, &(Call){.span = c->span, .args = &arg, .n = 1}, map, form);
}

static Value builtin_rank_all(Elab *e, const Call *c)
{
    IrId space = space_of_call(c);
    if (!rows_all_used(e, space, "rank_all", c->span)) return value_error();
    return rank_there(e, c, space == IR_UNIT ? IR_NONE : map_all(e, space), "rank_all(x), x: node[F]");
}

static Value builtin_rank_readout(Elab *e, const Call *c)
{
    IrId space = space_of_call(c);
    if (!rows_all_used(e, space, "rank_readout", c->span)) return value_error();
    return rank_there(e, c, space == IR_UNIT ? IR_NONE : map_graph(e, space), "rank_readout(x), x: node[F]");
}

/* eye(D, D'): 1 where both indices agree. */
static Value builtin_eye(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "eye(D, D')")) return value_error();
    Value a = builtin_iota(e, &(Call){.span = c->span, .args = &c->args[0], .n = 1});
    Value b = builtin_iota(e, &(Call){.span = c->span, .args = &c->args[1], .n = 1});
    return op_cast(e, op_binary(e, IR_OP_eq, "compare", a, b, c->span), e->real, c->span);
}

/* require(cond, "why"): arguments of a definition that make no sense. What is not known when compiled passes. */
static Value builtin_require(Elab *e, const Call *c)
{
    if (!want_args(e, c, 2, 2, "require(n > 0, \"n is above 0\")")) return value_error();
    const Value *cond = arg(c, 0), *why = arg(c, 1);
    if ((cond->kind != V_BOOL && cond->kind != V_TENSOR) || why->kind != V_WORD) {
        diag_error(e->d, E0302, c->span, "wanted `require(condition, \"why\")`");
        return value_error();
    }
    if (cond->kind == V_BOOL && cond->num == 0)
        diag_error(e->d, E0411, e->frame->def ? e->frame->call : c->span, "%s", why->word);
    return value_none(c->span);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    Builtin run;
} builtins[] = {
#define ROW(name) {#name, builtin_##name},
    /* clang-format off */
    ROW(exp) ROW(expm1) ROW(log) ROW(log1p) ROW(sqrt) ROW(tanh) ROW(sigmoid) ROW(erf) ROW(sin) ROW(cos) ROW(abs)
    ROW(sign) ROW(floor) ROW(detach) ROW(float) ROW(int) ROW(pow) ROW(mod) ROW(where) ROW(grad) ROW(sum)
    ROW(max) ROW(min) ROW(dot) ROW(flatten) ROW(reshape) ROW(transpose) ROW(iota) ROW(size) ROW(cat) ROW(randn)
    ROW(rand) ROW(ones) ROW(zeros) ROW(eye) ROW(id) ROW(rank_in) ROW(rank_out) ROW(rank_all) ROW(rank_readout)
    ROW(self_loops) ROW(reverse) ROW(line) ROW(siblings) ROW(complete) ROW(knn) ROW(select) ROW(negatives)
    ROW(permutation) ROW(random_graph) ROW(close) ROW(require) ROW(random_schema) ROW(source) ROW(target) ROW(ordinal)
    ROW(has) ROW(fresh) ROW(candidates) ROW(answers) ROW(compose)
/* clang-format on */
#undef ROW
};
enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

Builtin builtin_find(const char *name)
{
    for (int i = 0; i < N_BUILTINS; i++)
        if (!strcmp(builtins[i].name, name)) return builtins[i].run;
    return NULL;
}

const char *builtin_name(uint32_t i) { return i < N_BUILTINS ? builtins[i].name : NULL; }
