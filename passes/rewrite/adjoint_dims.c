/* Adjoints of ops that reduce or rearrange feature dims, of contract and of at. */
#include "passes/rewrite/autodiff.h"
#include "base/ice.h"

#define RULE(name) void adjoint_##name(Adjoint *a, IrId y, const IrOp *op, IrId g)
#define UNUSED(...)                                                                                                    \
    (void)(IrId[]) { __VA_ARGS__ }

/* The dims that were summed are missing in g: adjoint_give broadcasts. */
RULE(sum_dims)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], g);
}

RULE(transpose)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], g);
}

RULE(reshape)
{
    UNUSED(y);
    IrType type = irb_type(&a->b, op->args[0]);
    adjoint_give(a, op->args[0], irb_unary(&a->b, IR_OP_reshape, type, g, (IrAttr){0}));
}

/* max_dims, min_dims: g / (number of winners) to each winner (golden quirk 8). */
RULE(extreme_dims)
{
    IrId x = op->args[0], one = irb_scalar(&a->b, op->type.dtype, 1), zero = irb_scalar(&a->b, op->type.dtype, 0);
    IrId wins = irb_compare(&a->b, IR_OP_eq, x, y);
    IrId count = irb_select(&a->b, wins, one, zero);
    count = irb_unary(&a->b, IR_OP_sum_dims, op->type, count, (IrAttr){0});
    /* A NaN equals nothing: no winner, and no 0/0 either. */
    count = irb_map2(&a->b, IR_OP_max, count, one);
    IrId share = irb_map2(&a->b, IR_OP_div, g, count);
    adjoint_give(a, x, irb_select(&a->b, wins, share, zero));
}

/* ---- slice and concat ---- */

/* Zeros of `type` with its dim `dim` replaced by a new one of `size`. */
static IrId zeros(Adjoint *a, IrType type, IrId dim, int64_t size)
{
    const char *name = arena_printf(a->b.m->arena, "%s.pad", a->b.m->dims.data[dim].name);
    for (uint32_t i = 0; i < type.n_dims; i++)
        if (type.dims[i] == dim) type.dims[i] = ir_dim_new(a->b.m, name, size);
    return irb_const(&a->b, type, 0);
}

/* g between the zeros that were cut off. */
RULE(slice)
{
    IrType whole = irb_type(&a->b, op->args[0]);
    IrId dim = op->attr.dim, part = IR_NONE, parts[3];
    for (uint32_t i = 0; i < whole.n_dims; i++)
        if (whole.dims[i] == dim) part = op->type.dims[i];
    UNUSED(y);
    ICE_UNLESS(part != IR_NONE);
    int64_t before = op->attr.i;
    int64_t after = a->b.m->dims.data[dim].size - before - a->b.m->dims.data[part].size;
    ICE_UNLESS(before >= 0 && after >= 0);
    uint32_t n = 0;
    if (before > 0) parts[n++] = zeros(a, whole, dim, before);
    parts[n++] = g;
    if (after > 0) parts[n++] = zeros(a, whole, dim, after);
    adjoint_give(a, op->args[0], ir_add(a->b.m, a->b.f, IR_OP_concat, whole, parts, n, (IrAttr){.dim = dim}, op->span));
}

/* Each operand's part of g. */
RULE(concat)
{
    UNUSED(y);
    ICE_UNLESS(ir_type_has_dim(&op->type, op->attr.dim));
    uint32_t at = 0;
    while (op->type.dims[at] != op->attr.dim) at++;
    int64_t first = 0;
    for (uint32_t i = 0; i < op->n_args; i++) {
        IrType type = op->type;
        type.dims[at] = irb_type(&a->b, op->args[i]).dims[at];
        IrAttr attr = {.dim = op->attr.dim, .i = first};
        if (adjoint_wants(a, op->args[i])) adjoint_give(a, op->args[i], irb_unary(&a->b, IR_OP_slice, type, g, attr));
        first += a->b.m->dims.data[type.dims[at]].size;
    }
}

/* ---- contract ---- */

/* x without the dims that neither `other` nor `want` has. */
static IrId drop_own_dims(Build *b, IrId x, const IrType *other, const IrType *want)
{
    IrType t = irb_type(b, x), kept = t;
    kept.n_dims = 0;
    for (uint32_t i = 0; i < t.n_dims; i++)
        if (ir_type_has_dim(other, t.dims[i]) || ir_type_has_dim(want, t.dims[i])) kept.dims[kept.n_dims++] = t.dims[i];
    if (kept.n_dims == t.n_dims) return x;
    return irb_unary(b, IR_OP_sum_dims, kept, x, (IrAttr){0});
}

/* The rows of x summed, where the product is wanted once and the other operand has but one row. */
static IrId drop_own_rows(Build *b, IrId x, const IrType *other, const IrType *want)
{
    IrId space = irb_type(b, x).space;
    if (space == IR_UNIT || other->space != IR_UNIT || want->space != IR_UNIT) return x;
    return irb_reduce(b, IR_OP_reduce_sum, irb_all_map(b, space), x, 0);
}

/* `want`, less the dims and the space that x and y both lack. */
static IrType product_type(const IrType *x, const IrType *y, const IrType *want)
{
    IrType type = *want;
    if (x->space == IR_UNIT && y->space == IR_UNIT) type.space = IR_UNIT;
    type.dtype = x->dtype;
    type.n_dims = 0;
    for (uint32_t i = 0; i < want->n_dims; i++)
        if (ir_type_has_dim(x, want->dims[i]) || ir_type_has_dim(y, want->dims[i]))
            type.dims[type.n_dims++] = want->dims[i];
    return type;
}

/* Does the product of x and y have a dim or rows that `type` lacks? */
static bool sums_anything(const IrType *x, const IrType *y, const IrType *type)
{
    IrType all = ir_type_join(x, y);
    return all.n_dims > type->n_dims || all.space != type->space;
}

/* Unit operands stand second (matmul); of two that are summed over rows, the one with the result's
   first dim stands first (outer). */
static bool swap_wanted(const IrType *x, const IrType *y, const IrType *type)
{
    if ((x->space == IR_UNIT) != (y->space == IR_UNIT)) return x->space == IR_UNIT;
    return type->space == IR_UNIT && x->space != IR_UNIT && type->n_dims && !ir_type_has_dim(x, type->dims[0]);
}

/* The sum of x*y over everything that `want` lacks. */
static IrId contract_to(Build *b, IrId x, IrId y, IrType want)
{
    IrType tx = irb_type(b, x), ty = irb_type(b, y);
    x = drop_own_rows(b, drop_own_dims(b, x, &ty, &want), &ty, &want);
    y = drop_own_rows(b, drop_own_dims(b, y, &tx, &want), &tx, &want);
    tx = irb_type(b, x), ty = irb_type(b, y);
    IrType type = product_type(&tx, &ty, &want);
    if (!sums_anything(&tx, &ty, &type)) return irb_map2(b, IR_OP_mul, x, y);
    bool swap = swap_wanted(&tx, &ty, &type);
    return ir_add(b->m, b->f, IR_OP_contract, type, (IrId[]){swap ? y : x, swap ? x : y}, 2, (IrAttr){0}, b->span);
}

RULE(contract)
{
    UNUSED(y);
    for (uint32_t i = 0; i < 2; i++)
        if (adjoint_wants(a, op->args[i]))
            adjoint_give(a, op->args[i], contract_to(&a->b, g, op->args[1 - i], irb_type(&a->b, op->args[i])));
}

/* g at the place that the index says, 0 elsewhere: of one table for all rows a product, as `reorder` has them. */
RULE(at)
{
    UNUSED(y);
    Build *b = &a->b;
    IrType x = irb_type(b, op->args[0]);
    IrId hot = irb_one_hot(b, op->args[1], op->attr.dim), zero = irb_scalar(b, x.dtype, 0);
    IrType t = irb_type(b, hot), all = ir_type_join(&x, &t);
    if (x.space == IR_UNIT) {
        t.dtype = x.dtype;
        adjoint_give(a, op->args[0], contract_to(b, g, irb_unary(b, IR_OP_cast, t, hot, (IrAttr){0}), x));
    } else {
        adjoint_give(a, op->args[0],
                     ir_add(b->m, b->f, IR_OP_select, all, (IrId[]){hot, g, zero}, 3, (IrAttr){0}, b->span));
    }
}
