/* Adjoints of what crosses spaces: gather and reduce_sum are each other's; the other reductions
   read their rows back through the map. */
#include "passes/rewrite/autodiff.h"

#define RULE(name) void adjoint_##name(Adjoint *a, IrId y, const IrOp *op, IrId g)
#define UNUSED(...)                                                                                                    \
    (void)(IrId[]) { __VA_ARGS__ }

/* v of a map's target at each element of its source. A unit value broadcasts by itself. */
static IrId spread(Adjoint *a, IrId map, IrId v)
{
    const IrMap *it = &a->b.m->maps.data[map];
    return it->to == IR_UNIT && !it->partial ? v : irb_gather(&a->b, map, v);
}

/* Through an injective map at most one element is summed: read it through the inverse instead. */
RULE(gather)
{
    UNUSED(y);
    IrId map = op->attr.map, inverse = a->b.m->maps.data[map].inverse;
    adjoint_give(a, op->args[0],
                 inverse != IR_NONE ? irb_gather(&a->b, inverse, g) : irb_reduce(&a->b, IR_OP_reduce_sum, map, g, 0));
}

RULE(reduce_sum)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], spread(a, op->attr.map, g));
}

static IrId constant(Adjoint *a, const IrOp *op, double v) { return irb_scalar(&a->b, op->type.dtype, v); }

/* How many elements of each row have `mask`. */
static IrId count(Adjoint *a, const IrOp *op, IrId mask)
{
    IrId ones = irb_select(&a->b, mask, constant(a, op, 1), constant(a, op, 0));
    return irb_reduce(&a->b, IR_OP_reduce_sum, op->attr.map, ones, 0);
}

/* reduce_max, reduce_min: g / (number of winners) to each winner of the row (golden quirk 8). Rows
   without a winner (empty, NaN) divide by 1: a further derivative must not meet 0/0. */
RULE(reduce_extreme)
{
    IrId x = op->args[0];
    IrId wins = irb_compare(&a->b, IR_OP_eq, x, spread(a, op->attr.map, y));
    IrId n = irb_map2(&a->b, IR_OP_max, count(a, op, wins), constant(a, op, 1));
    IrId share = spread(a, op->attr.map, irb_map2(&a->b, IR_OP_div, g, n));
    adjoint_give(a, x, irb_select(&a->b, wins, share, constant(a, op, 0)));
}

/* What the product of a row's other zeros is at most: [n + 1] the elementary symmetric polynomial e_k of them, the
   product of k where there are k, by Newton's identities from the sums of their powers. All but e_0 = 1 are 0; their
   derivatives are what they are for. */
static IrId *products_of_zeros(Adjoint *a, const IrOp *op, IrId is_zero, uint32_t n)
{
    IrId zero = irb_select(&a->b, is_zero, op->args[0], constant(a, op, 0)), power = zero;
    IrId *e = ARENA_ARRAY(a->b.m->arena, IrId, n + 1), *sums = ARENA_ARRAY(a->b.m->arena, IrId, n + 1);
    e[0] = constant(a, op, 1);
    for (uint32_t k = 1; k <= n; k++) {
        if (k > 1) power = irb_map2(&a->b, IR_OP_mul, power, zero);
        IrId all = spread(a, op->attr.map, irb_reduce(&a->b, IR_OP_reduce_sum, op->attr.map, power, 0));
        sums[k] = irb_map2(&a->b, IR_OP_sub, all, power);
        for (uint32_t i = 1; i <= k; i++) {
            IrId term = irb_map2(&a->b, IR_OP_mul, sums[i], e[k - i]);
            e[k] = i == 1 ? term : irb_map2(&a->b, i % 2 ? IR_OP_add : IR_OP_sub, e[k], term);
        }
        if (k > 1) e[k] = irb_map2(&a->b, IR_OP_div, e[k], constant(a, op, k));
    }
    return e;
}

/* The product of the row's other elements: with P the product of those that are not 0 and z the number of other zeros,
   P / x for x != 0 and P for x = 0, if z = 0; else 0. Where it is derived n times more, this 0 is P or P / x times the
   product of the zeros, for z up to n: with more, these derivatives are 0 as well. Exact for any zeros. */
RULE(reduce_mul)
{
    IrId x = op->args[0], map = op->attr.map, zero = constant(a, op, 0), one = constant(a, op, 1);
    if (adjoint_not_zero(a, x)) {
        adjoint_give(a, x,
                     irb_map2(&a->b, IR_OP_mul, spread(a, map, g), irb_map2(&a->b, IR_OP_div, spread(a, map, y), x)));
        return;
    }
    IrId is_zero = irb_compare(&a->b, IR_OP_eq, x, zero);
    IrId safe = irb_select(&a->b, is_zero, one, x);
    IrId product = irb_reduce(&a->b, IR_OP_reduce_mul, map, safe, 0);
    IrId self = irb_select(&a->b, is_zero, one, zero);
    IrId others = irb_map2(&a->b, IR_OP_sub, spread(a, map, count(a, op, is_zero)), self);
    IrId rest = irb_map2(&a->b, IR_OP_div, spread(a, map, product), safe), factor = zero;
    const IrId *e = products_of_zeros(a, op, is_zero, a->n_again);
    for (uint32_t z = a->n_again + 1; z-- > 0;) {
        IrId there = irb_compare(&a->b, IR_OP_eq, others, constant(a, op, z));
        factor = irb_select(&a->b, there, z ? irb_map2(&a->b, IR_OP_mul, rest, e[z]) : rest, factor);
    }
    adjoint_give(a, x, irb_map2(&a->b, IR_OP_mul, spread(a, map, g), factor));
}
