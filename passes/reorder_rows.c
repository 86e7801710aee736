/* Sums and extrema over a map's rows: what is the same in the whole row, or linear, is done once per row behind them.
     reduce_sum via M (x * gather(y via M))           =  reduce_sum(x) * y
     reduce_sum via M (x + gather(y via M))           =  reduce_sum(x) + degree * y
     reduce_sum via M (contract(x, gather(y via M)))  =  contract(reduce_sum(x), y)          likewise a weight y
     reduce_max via M (x + gather(y via M))           =  reduce_max(x) + y,    `empty` where nothing is summed
   A value that did not meet empty rows before must not make a NaN there: reorder_guard. */
#include "passes/reorder.h"

static IrId times_degree(Reorder *r, IrId y, IrId map)
{
    IrId count = ro_degree(r, map, ro_type(r, y).dtype);
    return ro_map2(r, IR_OP_mul, count, reorder_guard(r, y, map, 0, false));
}

/* What the rows of a product have in common, and the rest. */
static void split(Reorder *r, const RoTerms *all, IrId map, RoTerms *row, RoTerms *rest)
{
    *row = *rest = (RoTerms){.n = 0};
    row->negative = all->negative;
    for (uint32_t i = 0; i < all->n; i++) {
        IrId y = reorder_lift(r, all->of[i].v, map);
        RoTerm term = {y, all->of[i].inverse};
        if (y == IR_NONE) {
            rest->of[rest->n++] = all->of[i];
            continue;
        }
        term.v = reorder_guard(r, y, map, 1, term.inverse);
        row->of[row->n++] = term;
    }
}

static IrId sum_of_rest(Reorder *r, const RoTerms *rest, IrId map, IrDtype t, int depth)
{
    if (!rest->n) return ro_degree(r, map, t);
    IrId plain = reorder_rows_sum(r, reorder_product(r, rest, false), map, depth);
    return reorder_cheaper(r, plain, reorder_rows_sum(r, reorder_product(r, rest, true), map, depth));
}

/* sum of s (x W) = (sum of s x) W, where s has none of W's dims. */
static IrId pull_weight(Reorder *r, const RoTerms *all, uint32_t which, IrId x, IrId w, IrType product, IrId map, int depth)
{
    IrType tx = ro_type(r, x), tw = ro_type(r, w), made = ro_type(r, all->of[which].v);
    RoTerms t = *all;
    t.of[which].v = x;
    for (uint32_t i = 0; i < t.n; i++) {
        IrType s = ro_type(r, t.of[i].v);
        for (uint32_t k = 0; i != which && k < s.n_dims; k++)
            if (ir_type_has_dim(&tw, s.dims[k]) || !ir_type_has_dim(&tx, s.dims[k]) ||
                !ir_type_has_dim(&made, s.dims[k]))
                return IR_NONE;
    }
    product.space = ro_map(r, map)->to;
    return ro_contract(r, sum_of_rest(r, &t, map, tx.dtype, depth), w, product);
}

/* The product with a weight that v is, perhaps gathered: x in v's space and w. */
static bool as_matmul(Reorder *r, IrId v, IrId *x, IrId *w)
{
    const IrOp *op = ro_def(r, v);
    IrId map = IR_NONE;
    if (op && op->op == IR_OP_gather) {
        map = op->attr.map;
        op = ro_def(r, op->args[0]);
    }
    if (!op || op->op != IR_OP_contract || op->type.space == IR_UNIT) return false;
    uint32_t k = ro_type(r, op->args[1]).space == IR_UNIT ? 1 : 0;
    if (ro_type(r, op->args[k]).space != IR_UNIT || ro_type(r, op->args[1 - k]).space == IR_UNIT) return false;
    *w = op->args[k];
    *x = op->args[1 - k];
    if (map != IR_NONE) *x = ro_gather(r, map, *x);
    return *x != IR_NONE;
}

static IrId sum_of_product(Reorder *r, IrId v, IrId map, int depth)
{
    RoTerms all, row, rest;
    IrType type = ro_type(r, v);
    IrId best = IR_NONE, x, w;
    if (!reorder_factors(r, v, &all)) return IR_NONE;
    split(r, &all, map, &row, &rest);
    if (row.n) {
        RoTerms behind = row;
        behind.of[behind.n++] = (RoTerm){sum_of_rest(r, &rest, map, type.dtype, depth), false};
        for (uint32_t i = 0; i < behind.n; i++)
            if (behind.of[i].v == IR_NONE) return IR_NONE;
        return reorder_product(r, &behind, false);
    }
    IrId grouped = reorder_product(r, &rest, true);
    if (grouped != v) best = ro_reduce(r, IR_OP_reduce_sum, map, grouped, 0);
    for (uint32_t i = 0; i < rest.n; i++)
        if (!rest.of[i].inverse && as_matmul(r, rest.of[i].v, &x, &w))
            best = reorder_cheaper(r, best, pull_weight(r, &rest, i, x, w, type, map, depth));
    return all.negative && best != IR_NONE && !row.n ? ro_neg(r, best) : best;
}

/* x summed; a number that is the same in all rows as often as there are rows. */
static IrId sum_or_count(Reorder *r, IrId x, IrId map, int depth)
{
    return ro_type(r, x).space == IR_UNIT ? times_degree(r, x, map) : reorder_rows_sum(r, x, map, depth);
}

static IrId sum_of_select(Reorder *r, IrOp op, IrId map, int depth)
{
    IrId c = reorder_lift(r, op.args[0], map), x = op.args[1];
    double zero;
    if (c != IR_NONE)
        return ro_select(r, c, sum_or_count(r, x, map, depth), sum_or_count(r, op.args[2], map, depth));
    if (!ro_is_const(r, op.args[2], &zero) || zero != 0) return IR_NONE;
    IrId y = reorder_lift(r, x, map); /* x where c, else 0: y times how many */
    if (y == IR_NONE || !ro_knows(r, y, RO_FINITE)) return IR_NONE;
    IrId one = ro_const(r, ir_scalar(op.type.dtype), 1);
    if (y == one) return IR_NONE;
    return ro_map2(r, IR_OP_mul, reorder_rows_sum(r, ro_select(r, op.args[0], one, op.args[2]), map, depth), y);
}

static IrId sum_of_contract(Reorder *r, IrOp op, IrId map, int depth)
{
    IrType type = op.type;
    IrId best = IR_NONE;
    type.space = ro_map(r, map)->to;
    for (uint32_t k = 0; k < 2; k++) {
        IrId y = op.type.space == IR_UNIT ? IR_NONE : reorder_lift(r, op.args[k], map), x = op.args[1 - k];
        if (y == IR_NONE || ro_type(r, x).space != op.type.space) continue;
        IrId sum = reorder_rows_sum(r, x, map, depth), guarded = reorder_guard(r, y, map, 0, false);
        best = reorder_cheaper(r, best, ro_contract(r, sum, guarded, type));
    }
    return best;
}

static IrId sum_of_concat(Reorder *r, IrOp op, IrId map, int depth)
{
    IrId parts[RO_MAX_TERMS];
    if (op.n_args > RO_MAX_TERMS) return IR_NONE;
    for (uint32_t k = 0; k < op.n_args; k++) {
        if (ro_type(r, op.args[k]).space != op.type.space) return IR_NONE;
        parts[k] = reorder_rows_sum(r, op.args[k], map, depth);
    }
    op.type.space = ro_map(r, map)->to;
    return ro_add(r, IR_OP_concat, op.type, parts, op.n_args, op.attr);
}

/* The sum over everything as a sum of sums that are wanted anyway. */
static IrId sum_of_sums(Reorder *r, IrId x, IrId map)
{
    IrId best = IR_NONE;
    if (ro_map(r, map)->to != IR_UNIT || ro_map(r, map)->partial) return best;
    for (IrId m = 0; m < r->b.m->maps.n; m++) {
        const IrMap *it = ro_map(r, m);
        if (it->from != ro_map(r, map)->from || it->to == IR_UNIT || it->partial) continue;
        IrId rows = ro_reduce(r, IR_OP_reduce_sum, m, x, 0);
        if (!r->values.data[rows].uses) continue;
        best = reorder_cheaper(r, best, ro_reduce(r, IR_OP_reduce_sum, irb_all_map(&r->b, ro_map(r, m)->to), rows, 0));
    }
    return best;
}

static IrId sum_step(Reorder *r, IrId x, IrId map, int depth)
{
    IrOp op = *ro_op(r, x);
    IrId y = reorder_lift(r, x, map), to = ro_map(r, map)->to;
    if (y != IR_NONE) return times_degree(r, y, map);
    switch (op.op) {
    case IR_OP_neg: return ro_neg(r, sum_or_count(r, op.args[0], map, depth));
    case IR_OP_add:
    case IR_OP_sub:
        return ro_map2(r, op.op, sum_or_count(r, op.args[0], map, depth), sum_or_count(r, op.args[1], map, depth));
    case IR_OP_mul:
    case IR_OP_div: return sum_of_product(r, x, map, depth);
    case IR_OP_select: return sum_of_select(r, op, map, depth);
    case IR_OP_contract: return sum_of_contract(r, op, map, depth);
    case IR_OP_concat: return sum_of_concat(r, op, map, depth);
    case IR_OP_gather: {
        IrId a, w;
        op.type.space = to;
        return as_matmul(r, x, &a, &w) ? ro_contract(r, reorder_rows_sum(r, a, map, depth), w, op.type) : IR_NONE;
    }
    case IR_OP_sum_dims:
    case IR_OP_transpose:
        op.type.space = to;
        return ro_unary(r, op.op, op.type, reorder_rows_sum(r, op.args[0], map, depth), op.attr);
    case IR_OP_reshape:
        if (ro_type(r, op.args[0]).space != op.type.space) return IR_NONE;
        op.type.space = to;
        return ro_unary(r, op.op, op.type, reorder_rows_sum(r, op.args[0], map, depth), op.attr);
    default: return IR_NONE;
    }
}

IrId reorder_rows_sum(Reorder *r, IrId x, IrId map, int depth)
{
    if (x == IR_NONE) return x;
    if (ro_type(r, x).space != ro_map(r, map)->from) return IR_NONE;
    IrId stop = ro_reduce(r, IR_OP_reduce_sum, map, x, 0);
    if (!depth || !ro_def(r, x)) return stop;
    stop = reorder_cheaper(r, stop, sum_of_sums(r, x, map));
    return reorder_cheaper(r, stop, sum_step(r, x, map, depth - 1));
}

/* ---- extrema ---- */

static IrId extreme_of_terms(Reorder *r, IrOp op)
{
    IrId map = op.attr.map;
    RoTerms all, row = {.n = 0}, rest = {.n = 0};
    if (!reorder_terms(r, op.args[0], &all)) return IR_NONE;
    for (uint32_t i = 0; i < all.n; i++) {
        IrId y = reorder_lift(r, all.of[i].v, map);
        if (y == IR_NONE) rest.of[rest.n++] = all.of[i];
        else row.of[row.n++] = (RoTerm){y, all.of[i].inverse};
    }
    if (!row.n || !rest.n) return IR_NONE;
    IrId inner = reorder_sum(r, &rest), y = reorder_sum(r, &row);
    if (inner == IR_NONE || y == IR_NONE) return IR_NONE;
    IrType t = ir_scalar(op.type.dtype);
    IrId empty = ro_map2(r, IR_OP_eq, ro_degree(r, map, t.dtype), ro_const(r, t, 0));
    IrId best = ro_reduce(r, op.op, map, inner, op.attr.f);
    return ro_map2(r, IR_OP_add, best, ro_select(r, empty, ro_const(r, t, 0), y));
}

/* Rows are the same under another name. */
static IrId extreme_of_sum(Reorder *r, IrOp op)
{
    const IrOp *x = ro_def(r, op.args[0]);
    if (!x || !(ir_ops[x->op].traits & T_DIMS && ir_ops[x->op].traits & T_LINEAR) || x->n_args != 1)
        return extreme_of_terms(r, op);
    if (x->op != IR_OP_reshape && x->op != IR_OP_transpose) return IR_NONE;
    IrType inner = ro_type(r, x->args[0]), type = op.type;
    IrOpcode view = x->op;
    if (inner.space != x->type.space) return IR_NONE;
    op.args = (IrId[]){x->args[0]};
    inner.space = op.type.space;
    op.type = inner;
    return ro_unary(r, view, type, ro_as(r, extreme_of_sum(r, op), inner), (IrAttr){0});
}

/* ---- rule ---- */

IrId reorder_rule_reduce(Reorder *r, IrId v)
{
    const IrOp op = *ro_op(r, v);
    if (!(ir_ops[op.op].traits & T_REDUCE) || !ir_dtype_is_float(op.type.dtype)) return IR_NONE;
    if (op.op == IR_OP_reduce_sum) return reorder_rows_sum(r, op.args[0], op.attr.map, RO_MAX_DEPTH);
    return op.op == IR_OP_reduce_mul ? IR_NONE : extreme_of_sum(r, op);
}
