/* The `shape` column of ops.def: for each rule one function that judges an op's operands and
   attributes against its result type. Says what is wrong and never infers or repairs. Ids are in
   range here: ir/verify.c looks at them first. Sizes that are not known (below 0) fit anything. */
#include "base/ice.h"
#include "ir/graph.h"
#include <inttypes.h>
#include <math.h>

typedef struct Shape {
    const IrModule *m;
    const IrFunc *f;
    const IrOp *op;
    Arena *arena;
} Shape;

/* ---- what the rules are made of -------------------------------------------------------------- */

static const IrType *operand(const Shape *s, uint32_t i)
{
    ICE_UNLESS(i < s->op->n_args);
    return &s->f->ops.data[s->op->args[i]].type;
}

static const char *text(const Shape *s, const IrType *t) { return ir_type_text(s->m, t, s->arena); }
static const char *dim_name(const Shape *s, IrId dim) { return s->m->dims.data[dim].name; }
static int64_t dim_size(const Shape *s, IrId dim) { return s->m->dims.data[dim].size; }
static const IrMap *op_map(const Shape *s) { return &s->m->maps.data[s->op->attr.map]; }

static bool is_number(IrDtype t) { return t != IR_BOOL && !ir_dtype_is_16_bits(t); }
static bool is_float(IrDtype t) { return ir_dtype_is_float(t) && is_number(t); }
static bool is_int(IrDtype t) { return t == IR_I32 || t == IR_I64; }
static bool is_bool(IrDtype t) { return t == IR_BOOL; }

static bool same_dims(const IrType *a, const IrType *b)
{
    return a->n_dims == b->n_dims && !memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims);
}

static const char *want_space(const Shape *s, const char *what, IrId found, IrId wanted)
{
    if (found == wanted) return NULL;
    return arena_printf(s->arena, "%s lives in space `%s`, wanted `%s`", what, s->m->spaces.data[found].name,
                        s->m->spaces.data[wanted].name);
}

static const char *want_dtypes(const Shape *s, uint32_t from)
{
    for (uint32_t i = from; i < s->op->n_args; i++)
        if (operand(s, i)->dtype != s->op->type.dtype)
            return arena_printf(s->arena, "operand %u is %s, but the result is %s", i, text(s, operand(s, i)),
                                text(s, &s->op->type));
    return NULL;
}

static const char *want_kind(const Shape *s, const IrType *t, bool (*is)(IrDtype), const char *kind)
{
    if (is(t->dtype)) return NULL;
    return arena_printf(s->arena, "found %s, wanted %s", text(s, t), kind);
}

/* Each dim of t is one of `of`. */
static const char *want_subset(const Shape *s, const char *what, const IrType *t, const IrType *of)
{
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!ir_type_has_dim(of, t->dims[i]))
            return arena_printf(s->arena, "%s has dim `%s`, which %s has not", what, dim_name(s, t->dims[i]),
                                text(s, of));
    return NULL;
}

/* Each dim of the result and its space come from an operand. */
static const char *want_no_more(const Shape *s)
{
    const IrType *r = &s->op->type;
    for (uint32_t k = 0; k < r->n_dims; k++) {
        bool there = false;
        for (uint32_t i = 0; i < s->op->n_args; i++) there |= ir_type_has_dim(operand(s, i), r->dims[k]);
        if (!there)
            return arena_printf(s->arena, "the result has dim `%s`, which no operand has", dim_name(s, r->dims[k]));
    }
    bool there = r->space == IR_UNIT;
    for (uint32_t i = 0; i < s->op->n_args; i++) there |= operand(s, i)->space == r->space;
    return there ? NULL
                 : arena_printf(s->arena, "the result lives in space `%s`, where no operand lives",
                                s->m->spaces.data[r->space].name);
}

/* Operands broadcast by space and dim; together they have all of the result's. */
static const char *broadcast(const Shape *s)
{
    const IrType *r = &s->op->type;
    for (uint32_t i = 0; i < s->op->n_args; i++) {
        const IrType *t = operand(s, i);
        const char *who = arena_printf(s->arena, "operand %u", i);
        const char *why = t->space == IR_UNIT ? NULL : want_space(s, who, t->space, r->space);
        if (!why) why = want_subset(s, who, t, r);
        if (why) return why;
    }
    return want_no_more(s);
}

static const char *broadcast_of(const Shape *s, bool (*is)(IrDtype), const char *kind)
{
    const char *why = want_kind(s, &s->op->type, is, kind);
    if (!why) why = want_dtypes(s, 0);
    return why ? why : broadcast(s);
}

static const char *want_scalar(const Shape *s, const char *what, const IrType *t, IrDtype dtype)
{
    IrType wanted = ir_scalar(dtype);
    if (ir_type_eq(t, &wanted)) return NULL;
    return arena_printf(s->arena, "%s is %s, wanted %s", what, text(s, t), text(s, &wanted));
}

/* A double that stands for a value of the dtype. */
static const char *want_literal(const Shape *s, double v, IrDtype t)
{
    static const double limit[] = {[IR_I32] = 2147483648.0, [IR_I64] = 9223372036854775808.0};
    if (ir_dtype_is_16_bits(t))
        return arena_printf(s->arena, "found %s, wanted a number or a bool", text(s, &s->op->type));
    if (ir_dtype_is_float(t)) return NULL;
    bool fits = t == IR_BOOL ? v == 0 || v == 1 : v == floor(v) && v >= -limit[t] && v < limit[t];
    return fits ? NULL : arena_printf(s->arena, "%g is no value of %s", v, text(s, &s->op->type));
}

/* ---- rules: leaves --------------------------------------------------------------------------- */

static const char *shape_arg(const Shape *s)
{
    if (s->op->attr.i < 0 || s->op->attr.i >= s->f->args.n)
        return arena_printf(s->arena, "argument %" PRId64 " of %u", s->op->attr.i, s->f->args.n);
    const IrArg *arg = &s->f->args.data[s->op->attr.i];
    if (ir_type_eq(&arg->type, &s->op->type)) return NULL;
    return arena_printf(s->arena, "the value is %s, but the argument is %s", text(s, &s->op->type),
                        text(s, &arg->type));
}

static const char *shape_any(const Shape *s) { return want_literal(s, s->op->attr.f, s->op->type.dtype); }

static const char *shape_iota(const Shape *s)
{
    IrType wanted = ir_scalar(IR_I64);
    wanted.n_dims = 1;
    wanted.dims[0] = s->op->attr.dim;
    if (ir_type_eq(&s->op->type, &wanted)) return NULL;
    return arena_printf(s->arena, "the result is %s, wanted %s", text(s, &s->op->type), text(s, &wanted));
}

static const char *shape_element(const Shape *s)
{
    IrType wanted = ir_scalar(IR_I64);
    wanted.space = s->op->type.space;
    if (ir_type_eq(&s->op->type, &wanted)) return NULL;
    return arena_printf(s->arena, "the result is %s, wanted %s", text(s, &s->op->type), text(s, &wanted));
}

static const char *shape_random(const Shape *s)
{
    if (s->op->attr.site >= s->m->n_sites)
        return arena_printf(s->arena, "site %u of %u", s->op->attr.site, s->m->n_sites);
    const char *why = want_kind(s, &s->op->type, is_float, "a float result");
    if (!why) why = want_scalar(s, "the seed", operand(s, 0), IR_I64);
    return why ? why : want_scalar(s, "the step", operand(s, 1), IR_I64);
}

/* The number that random_* would draw for a row of that id and a feature of that index. */
static const char *shape_random_at(const Shape *s)
{
    const char *why = shape_random(s);
    for (uint32_t i = 2; i < 4 && !why; i++)
        if (operand(s, i)->dtype != IR_I64)
            why = arena_printf(s->arena, "operand %u is %s, wanted i64", i, text(s, operand(s, i)));
    return why ? why : broadcast(s);
}

/* ---- rules: pointwise ------------------------------------------------------------------------ */

static const char *shape_map_float(const Shape *s) { return broadcast_of(s, is_float, "a float"); }
static const char *shape_map_number(const Shape *s) { return broadcast_of(s, is_number, "a number"); }
static const char *shape_map_int(const Shape *s) { return broadcast_of(s, is_int, "an integer"); }
static const char *shape_map_bool(const Shape *s) { return broadcast_of(s, is_bool, "a bool"); }

static const char *shape_compare(const Shape *s)
{
    const IrType *a = operand(s, 0), *b = operand(s, 1);
    const char *why = want_kind(s, &s->op->type, is_bool, "a bool result");
    if (!why) why = want_kind(s, a, is_number, "numbers to compare");
    if (!why && a->dtype != b->dtype) why = arena_printf(s->arena, "compares %s with %s", text(s, a), text(s, b));
    return why ? why : broadcast(s);
}

static const char *shape_select(const Shape *s)
{
    const char *why = want_kind(s, operand(s, 0), is_bool, "a bool condition");
    if (!why && ir_dtype_is_16_bits(s->op->type.dtype))
        why = want_kind(s, &s->op->type, is_number, "a number or a bool");
    if (!why) why = want_dtypes(s, 1);
    return why ? why : broadcast(s);
}

/* f16 and bf16 are neighbours of f32 alone: rounding happens once. */
static const char *shape_cast(const Shape *s)
{
    const IrType *x = operand(s, 0), *r = &s->op->type;
    bool narrow = ir_dtype_is_16_bits(x->dtype) || ir_dtype_is_16_bits(r->dtype);
    if (narrow && x->dtype != r->dtype && x->dtype != IR_F32 && r->dtype != IR_F32)
        return arena_printf(s->arena, "casts %s to %s, wanted f32 on one side", text(s, x), text(s, r));
    return broadcast(s);
}

static const char *shape_same(const Shape *s)
{
    if (ir_type_eq(operand(s, 0), &s->op->type)) return NULL;
    return arena_printf(s->arena, "the operand is %s, but the result is %s", text(s, operand(s, 0)),
                        text(s, &s->op->type));
}

/* ---- rules: feature dims --------------------------------------------------------------------- */

/* Same dtype and space as the result, for every operand. */
static const char *want_rows(const Shape *s)
{
    const char *why = want_dtypes(s, 0);
    for (uint32_t i = 0; i < s->op->n_args && !why; i++)
        why = want_space(s, arena_printf(s->arena, "operand %u", i), operand(s, i)->space, s->op->type.space);
    return why;
}

/* Elements of a reshape's side: a row's, or all where the space indexes a dim and the other side has another space. */
static int64_t reshaped_elements(const Shape *s, const IrType *t, const IrType *other, bool *known)
{
    const IrSpace *space = &s->m->spaces.data[t->space];
    int64_t n = ir_type_width(s->m, t), rows = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) *known &= dim_size(s, t->dims[i]) >= 0;
    if (t->space != other->space && space->has_dim) rows = dim_size(s, space->dim);
    *known &= rows >= 0;
    return n < 0 || __builtin_mul_overflow(n, rows, &n) ? -1 : n;
}

static const char *shape_reshape(const Shape *s)
{
    const IrType *x = operand(s, 0), *r = &s->op->type;
    bool from_dim = s->m->spaces.data[x->space].has_dim && r->space == IR_UNIT;
    bool to_dim = s->m->spaces.data[r->space].has_dim && x->space == IR_UNIT;
    const char *why = from_dim || to_dim ? want_dtypes(s, 0) : want_rows(s);
    if (why) return why;
    bool known = true;
    int64_t from = reshaped_elements(s, x, r, &known), to = reshaped_elements(s, r, x, &known);
    if (!known || from == to) return NULL;
    return arena_printf(s->arena, "%s has %" PRId64 " elements a row, %s has %" PRId64, text(s, x), from, text(s, r),
                        to);
}

static const char *shape_transpose(const Shape *s)
{
    const char *why = want_rows(s);
    if (!why) why = want_subset(s, "the operand", operand(s, 0), &s->op->type);
    return why ? why : want_subset(s, "the result", &s->op->type, operand(s, 0));
}

/* Same dims in the same order but for position k. */
static const char *want_but_one(const Shape *s, const IrType *x, uint32_t k)
{
    const IrType *r = &s->op->type;
    bool fits = x->n_dims == r->n_dims && k < r->n_dims;
    for (uint32_t i = 0; i < r->n_dims && fits; i++) fits = i == k || x->dims[i] == r->dims[i];
    return fits ? NULL : arena_printf(s->arena, "%s and %s differ in more than one dim", text(s, x), text(s, r));
}

static uint32_t dim_position(const IrType *t, IrId dim)
{
    uint32_t k = 0;
    while (k < t->n_dims && t->dims[k] != dim) k++;
    return k;
}

static const char *shape_slice(const Shape *s)
{
    const IrType *x = operand(s, 0), *r = &s->op->type;
    uint32_t k = dim_position(x, s->op->attr.dim);
    if (k == x->n_dims) return arena_printf(s->arena, "%s has no dim `%s`", text(s, x), dim_name(s, s->op->attr.dim));
    const char *why = want_rows(s);
    if (!why) why = want_but_one(s, x, k);
    if (why) return why;
    int64_t size = dim_size(s, r->dims[k]), of = dim_size(s, x->dims[k]), at = s->op->attr.i;
    if (at >= 0 && (size < 0 || of < 0 || (size <= of && at <= of - size))) return NULL;
    return arena_printf(s->arena, "elements %" PRId64 " to %" PRId64 "+%" PRId64 " of %" PRId64, at, at, size, of);
}

static const char *shape_at(const Shape *s)
{
    const IrType *x = operand(s, 0), *i = operand(s, 1), *r = &s->op->type;
    IrType wanted;
    if (!ir_type_has_dim(x, s->op->attr.dim))
        return arena_printf(s->arena, "%s has no dim `%s`", text(s, x), dim_name(s, s->op->attr.dim));
    const char *why = want_kind(s, r, is_number, "a number");
    if (!why && i->space != IR_UNIT) why = want_space(s, "the index", i->space, r->space);
    if (why) return why;
    bool fits = i->dtype == IR_I64 && !ir_type_has_dim(i, s->op->attr.dim) &&
                ir_type_at(x, s->op->attr.dim, i, &wanted);
    IrType all = ir_type_join(x, i);
    if (fits && !ir_row_fits(s->m, &all)) return "a one-hot of the index for one row is larger than memory";
    if (fits && ir_type_eq(&wanted, r)) return NULL;
    return arena_printf(
        s->arena,
        "the operands are %s and %s, but the result is %s, wanted an i64, and the first one's type with "
        "the dims of the second in the place of `%s`",
        text(s, x), text(s, i), text(s, r), dim_name(s, s->op->attr.dim));
}

static const char *shape_concat(const Shape *s)
{
    const IrType *r = &s->op->type;
    uint32_t k = dim_position(r, s->op->attr.dim);
    if (k == r->n_dims) return arena_printf(s->arena, "%s has no dim `%s`", text(s, r), dim_name(s, s->op->attr.dim));
    if (!s->op->n_args) return "concat of nothing";
    const char *why = want_rows(s);
    int64_t total = 0;
    bool known = dim_size(s, s->op->attr.dim) >= 0;
    for (uint32_t i = 0; i < s->op->n_args && !why; i++) {
        why = want_but_one(s, operand(s, i), k);
        if (why) break;
        int64_t size = dim_size(s, operand(s, i)->dims[k]);
        known &= size >= 0;
        if (known && __builtin_add_overflow(total, size, &total)) why = "too many elements";
    }
    if (why || !known || total == dim_size(s, s->op->attr.dim)) return why;
    return arena_printf(s->arena, "the parts have %" PRId64 " elements, dim `%s` has %" PRId64, total,
                        dim_name(s, s->op->attr.dim), dim_size(s, s->op->attr.dim));
}

static const char *shape_dims_reduce(const Shape *s)
{
    const char *why = want_kind(s, &s->op->type, is_number, "a number");
    if (!why) why = want_rows(s);
    return why ? why : want_subset(s, "the result", &s->op->type, operand(s, 0));
}

static const char *shape_contract(const Shape *s)
{
    const IrType *a = operand(s, 0), *b = operand(s, 1), *r = &s->op->type;
    const char *why = want_kind(s, r, is_number, "numbers");
    if (!why) why = want_dtypes(s, 0);
    if (!why && a->space != IR_UNIT && b->space != IR_UNIT) why = want_space(s, "operand 1", b->space, a->space);
    return why ? why : want_no_more(s);
}

/* ---- rules: between spaces ------------------------------------------------------------------- */

static const char *want_moved(const Shape *s, IrId from, IrId to)
{
    const IrType *x = operand(s, 0), *r = &s->op->type;
    const char *why = want_dtypes(s, 0);
    if (!why) why = want_space(s, "the operand", x->space, from);
    if (!why) why = want_space(s, "the result", r->space, to);
    if (why || same_dims(x, r)) return why;
    return arena_printf(s->arena, "the operand is %s, but the result is %s", text(s, x), text(s, r));
}

static const char *shape_gather(const Shape *s) { return want_moved(s, op_map(s)->to, op_map(s)->from); }

static const char *shape_mapped(const Shape *s)
{
    IrType wanted = ir_scalar(IR_BOOL);
    wanted.space = op_map(s)->from;
    if (ir_type_eq(&s->op->type, &wanted)) return NULL;
    return arena_printf(s->arena, "the result is %s, wanted %s", text(s, &s->op->type), text(s, &wanted));
}

static const char *shape_reduce(const Shape *s)
{
    const char *why = want_kind(s, &s->op->type, is_number, "a number");
    if (!why) why = want_literal(s, s->op->attr.f, s->op->type.dtype);
    return why ? why : want_moved(s, op_map(s)->from, op_map(s)->to);
}

static const char *shape_rank(const Shape *s)
{
    const IrType *x = operand(s, 0), *r = &s->op->type;
    const char *why = want_kind(s, x, is_number, "numbers to order");
    if (!why) why = want_space(s, "the operand", x->space, op_map(s)->from);
    if (!why) why = want_space(s, "the result", r->space, op_map(s)->from);
    if (why || (r->dtype == IR_I64 && same_dims(x, r))) return why;
    return arena_printf(s->arena, "the operand is %s, but the result is %s, wanted i64 of the same dims", text(s, x),
                        text(s, r));
}

static const char *shape_nth(const Shape *s)
{
    const IrType *x = operand(s, 0), *k = operand(s, 1), *r = &s->op->type;
    if (op_map(s)->to == IR_UNIT) return "the map leads to the unit space";
    const char *why = want_kind(s, x, is_number, "numbers to order");
    if (!why) why = want_space(s, "the first operand", x->space, op_map(s)->from);
    if (!why) why = want_space(s, "the result", r->space, op_map(s)->to);
    if (!why && k->space != IR_UNIT) why = want_space(s, "the second operand", k->space, op_map(s)->to);
    bool fits = k->dtype == IR_I64 && r->dtype == IR_I64 && same_dims(x, r);
    for (uint32_t i = 0; i < k->n_dims; i++) fits &= ir_type_has_dim(x, k->dims[i]);
    if (why || fits) return why;
    return arena_printf(
        s->arena,
        "the operands are %s and %s, but the result is %s, wanted i64 of the first one's dims, and of some of them",
        text(s, x), text(s, k), text(s, r));
}

/* Points of the two ends of the graph whose sources the map says: of targets, then of sources. */
static const char *shape_nearest(const Shape *s)
{
    const IrMap *map = op_map(s);
    const IrGraph *g = NULL;
    for (uint32_t i = 0; i < s->m->graphs.n; i++)
        if (s->m->graphs.data[i].kind == IR_GRAPH_NEAREST && s->m->graphs.data[i].src == s->op->attr.map)
            g = &s->m->graphs.data[i];
    if (!g) return "the map is of the sources of no graph `nearest`";
    const IrType *y = operand(s, 0), *x = operand(s, 1);
    const char *why = want_kind(s, y, is_float, "a float");
    if (!why) why = want_space(s, "the points of targets", y->space, g->dst_space);
    if (!why) why = want_space(s, "the points of sources", x->space, g->src_space);
    if (!why && (!same_dims(x, y) || x->dtype != y->dtype)) why = "the points of both ends have other dims or dtypes";
    IrType wanted = ir_scalar(IR_I64);
    wanted.space = map->from;
    if (why || ir_type_eq(&s->op->type, &wanted)) return why;
    return arena_printf(s->arena, "the result is %s, wanted %s", text(s, &s->op->type), text(s, &wanted));
}

static const char *shape_route(const Shape *s)
{
    IrType wanted = ir_scalar(IR_I64);
    wanted.space = op_map(s)->from;
    if (!op_map(s)->computed) return arena_printf(s->arena, "map `%s` is not computed", op_map(s)->name);
    if (ir_type_eq(&s->op->type, &wanted) && ir_type_eq(operand(s, 0), &wanted)) return NULL;
    return arena_printf(s->arena, "operand and result are %s and %s, wanted %s", text(s, operand(s, 0)),
                        text(s, &s->op->type), text(s, &wanted));
}

static const char *shape_grad(const Shape *s)
{
    const IrType *y = operand(s, 0), *x = operand(s, 1);
    const char *why = want_kind(s, y, is_float, "a float to differentiate");
    if (!why) why = want_scalar(s, "what is differentiated", y, y->dtype);
    if (!why) why = want_kind(s, x, is_float, "a float to differentiate by");
    if (why || ir_type_eq(x, &s->op->type)) return why;
    return arena_printf(s->arena, "the result is %s, wanted %s", text(s, &s->op->type), text(s, x));
}

static const char *shape_incoming(const Shape *s) { return want_kind(s, &s->op->type, is_float, "a float"); }

/* The value, what stands for its cotangent, then pairs: an operand and the cotangent it gets. */
static const char *shape_with_adjoint(const Shape *s)
{
    if (s->op->n_args < 4 || s->op->n_args % 2) return "wanted a value, an incoming cotangent, and pairs";
    if (s->f->ops.data[s->op->args[1]].op != IR_OP_incoming) return "the second operand is no incoming cotangent";
    for (uint32_t i = 0; i < s->op->n_args; i++) {
        const IrType *wanted = i < 2 ? &s->op->type : operand(s, i & ~1u);
        if (!ir_type_eq(operand(s, i), wanted))
            return arena_printf(s->arena, "operand %u is %s, wanted %s", i, text(s, operand(s, i)), text(s, wanted));
    }
    return want_kind(s, &s->op->type, is_float, "a float");
}

/* ---- dispatch -------------------------------------------------------------------------------- */

const char *ir_shape_check(const IrModule *m, const IrFunc *f, const IrOp *op, Arena *a)
{
    static const char *(*const rules[IR_N_OPS])(const Shape *) = {
#define OP(name, args, attrs, traits, shape, adjoint, eval, flops) [IR_OP_##name] = shape_##shape,
#include "ir/ops.def"
#undef OP
    };
    Shape s = {m, f, op, a};
    return rules[op->op](&s);
}
