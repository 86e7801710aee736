/* Sums and extrema over a map's rows: what is the same in the whole row, or linear, is done once per row behind them.
     reduce_sum via M (x * gather(y via M))           =  reduce_sum(x) * y
     reduce_sum via M (x + gather(y via M))           =  reduce_sum(x) + degree * y
     reduce_sum via M (contract(x, gather(y via M)))  =  contract(reduce_sum(x), y)          likewise a weight y
     reduce_max via M (x + gather(y via M))           =  reduce_max(x) + y,    `empty` where nothing is summed
     reduce_sum via M (sum over k of s[k] (x W)[k])   =  (reduce_sum(s x)) W, over k as well
   A value that did not meet empty rows before must not make a NaN there: reorder_guard. */
#include "passes/rewrite/reorder.h"
#include "base/ice.h"

enum { MAX_FACTORS = 6 }; /* steps from a sum to the product with a weight in it */

static IrId times_degree(Reorder *r, IrId y, IrId map)
{
    IrId count = ro_degree(r, map, ro_type(r, y).dtype);
    return ro_map2(r, IR_OP_mul, count, reorder_guard(r, y, map, 0, false));
}

/* What the rows of a product have in common, and the rest. */
static void split(Reorder *r, const RoTerms *all, IrId map, RoTerms *row, RoTerms *rest)
{
    *row = *rest = (RoTerms){.n = 0};
    ICE_UNLESS(all->n <= RO_MAX_TERMS);
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

static bool as_matmul(Reorder *r, IrId v, IrId *x, IrId *w, int depth);

/* Has s none of the dims that the product x w : made sums? Then s (x w) = (s x) w. */
static bool is_apart(const Reorder *r, IrId s, const IrType *x, const IrType *w, const IrType *made)
{
    IrType t = ro_type(r, s);
    for (uint32_t k = 0; k < t.n_dims; k++)
        if (!ir_type_has_dim(made, t.dims[k]) && (ir_type_has_dim(x, t.dims[k]) || ir_type_has_dim(w, t.dims[k])))
            return false;
    return true;
}

/* s (x W) = (s x) W */
static bool scaled_matmul(Reorder *r, IrOp op, uint32_t factor, IrId *x, IrId *w, int depth)
{
    IrId s = op.args[factor], z = op.args[1 - factor];
    if (!as_matmul(r, z, x, w, depth)) return false;
    IrType tx = ro_type(r, *x), tw = ro_type(r, *w), made = ro_type(r, z);
    if (!is_apart(r, s, &tx, &tw, &made)) return false;
    *x = factor ? ro_map2(r, op.op, *x, s) : ro_map2(r, op.op, s, *x);
    return *x != IR_NONE;
}

/* sum over k of s[k] (x W)[k] = (s x) W, over k as well. What only s and x have is summed at once. */
static bool weighted_matmul(Reorder *r, IrOp op, uint32_t factor, IrId *x, IrId *w, int depth)
{
    IrId s = op.args[factor], z = op.args[1 - factor];
    if (!as_matmul(r, z, x, w, depth)) return false;
    IrType ts = ro_type(r, s), tx = ro_type(r, *x), tw = ro_type(r, *w), made = ro_type(r, z), both;
    if (!is_apart(r, s, &tx, &tw, &made) || ts.n_dims + tx.n_dims > IR_MAX_DIMS) return false;
    both = ir_type_join(&ts, &tx);
    uint32_t n = 0;
    for (uint32_t k = 0; k < both.n_dims; k++)
        if (ir_type_has_dim(&op.type, both.dims[k]) || ir_type_has_dim(&tw, both.dims[k]))
            both.dims[n++] = both.dims[k];
    both.n_dims = (uint8_t)n;
    *x = ro_contract(r, s, *x, both);
    return *x != IR_NONE;
}

/* The product x w with a weight that v is, whatever happened to its rows. */
static bool as_matmul(Reorder *r, IrId v, IrId *x, IrId *w, int depth)
{
    const IrOp *def = ro_def(r, v);
    if (!def || !depth || def->type.space == IR_UNIT) return false;
    IrOp op = *def;
    if (op.op == IR_OP_gather) {
        if (!as_matmul(r, op.args[0], x, w, depth - 1)) return false;
        return (*x = ro_gather(r, op.attr.map, *x)) != IR_NONE;
    }
    if (op.op == IR_OP_neg) return as_matmul(r, op.args[0], x, w, depth - 1) && (*x = ro_neg(r, *x)) != IR_NONE;
    if (op.op == IR_OP_div) return scaled_matmul(r, op, 1, x, w, depth - 1);
    if (op.op == IR_OP_mul) return scaled_matmul(r, op, 0, x, w, depth - 1) || scaled_matmul(r, op, 1, x, w, depth - 1);
    if (!ro_product(r, v, &op)) return false;
    uint32_t k = ro_type(r, op.args[1]).space == IR_UNIT ? 1 : 0;
    if (ro_type(r, op.args[k]).space != IR_UNIT)
        return weighted_matmul(r, op, 0, x, w, depth - 1) || weighted_matmul(r, op, 1, x, w, depth - 1);
    if (ro_type(r, op.args[1 - k]).space == IR_UNIT) return false;
    *w = op.args[k];
    *x = op.args[1 - k];
    return true;
}

/* x, what is summed over all rows before w is multiplied: a product's dims in w's order, as w's gradient has them. */
static IrId ordered(Reorder *r, IrId x, IrId w)
{
    const IrOp *op = ro_def(r, x);
    IrType t = ro_type(r, w);
    if (!op || op->op != IR_OP_mul || !t.n_dims || ro_has_dim(r, op->args[0], t.dims[0])) return x;
    return ro_map2(r, IR_OP_mul, op->args[1], op->args[0]);
}

/* sum of x W = (sum of x) W */
static IrId pulled_weight(Reorder *r, IrId v, IrId map, int depth)
{
    IrId x, w;
    IrType type = ro_type(r, v);
    if (!as_matmul(r, v, &x, &w, MAX_FACTORS)) return IR_NONE;
    ICE_UNLESS(ro_type(r, w).space == IR_UNIT && type.space == ro_map(r, map)->from);
    type.space = ro_map(r, map)->to;
    if (type.space == IR_UNIT) x = ordered(r, x, w);
    return ro_contract(r, reorder_rows_sum(r, x, map, depth), w, type);
}

static IrId sum_of_product(Reorder *r, IrId v, IrId map, int depth)
{
    RoTerms all, row, rest;
    IrType type = ro_type(r, v);
    IrId best = pulled_weight(r, v, map, depth);
    if (!reorder_factors(r, v, &all)) return best;
    split(r, &all, map, &row, &rest);
    if (row.n) {
        RoTerms behind = row;
        behind.of[behind.n++] = (RoTerm){sum_of_rest(r, &rest, map, type.dtype, depth), false};
        for (uint32_t i = 0; i < behind.n; i++)
            if (behind.of[i].v == IR_NONE) return best;
        return reorder_cheaper(r, best, reorder_product(r, &behind, false));
    }
    IrId grouped = reorder_product(r, &rest, true);
    if (all.negative) grouped = ro_neg(r, grouped);
    if (grouped == v || grouped == IR_NONE) return best;
    return reorder_cheaper(r, best, ro_reduce(r, IR_OP_reduce_sum, map, grouped, 0));
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
    if (c != IR_NONE) return ro_select(r, c, sum_or_count(r, x, map, depth), sum_or_count(r, op.args[2], map, depth));
    if (!ro_is_const(r, op.args[2], &zero) || zero != 0) return IR_NONE;
    IrId y = reorder_lift(r, x, map); /* x where c, else 0: y times how many */
    if (y == IR_NONE || !ro_knows(r, y, FACT_IN_RANGE | FACT_CALM)) return IR_NONE;
    /* In a row none of whose elements has c the count is 0, and y's gradient would be 0 times a cotangent that may be
       infinite. */
    if (reorder_is_sharp(r, r->replaced)) return IR_NONE;
    IrId one = ro_const(r, ir_scalar(op.type.dtype), 1);
    if (y == one) return IR_NONE;
    return ro_map2(r, IR_OP_mul, reorder_rows_sum(r, ro_select(r, op.args[0], one, op.args[2]), map, depth), y);
}

static IrId sum_of_contract(Reorder *r, IrId v, IrId map, int depth)
{
    IrOp op = ro_linear(r, v);
    IrType type = op.type;
    IrId best = pulled_weight(r, v, map, depth);
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
    IrOp op = ro_linear(r, x);
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
    case IR_OP_contract: return sum_of_contract(r, x, map, depth);
    case IR_OP_concat: return sum_of_concat(r, op, map, depth);
    case IR_OP_gather: return pulled_weight(r, x, map, depth);
    case IR_OP_sum_dims:
        op.type.space = to;
        y = ro_unary(r, op.op, op.type, reorder_rows_sum(r, op.args[0], map, depth), op.attr);
        return reorder_cheaper(r, y, pulled_weight(r, x, map, depth));
    case IR_OP_transpose:
        op.type.space = to;
        return ro_unary(r, op.op, op.type, reorder_rows_sum(r, op.args[0], map, depth), op.attr);
    case IR_OP_reshape: { /* sees the order of dims, which sums need not keep */
        IrType inner = ro_type(r, op.args[0]);
        if (inner.space != op.type.space) return IR_NONE;
        inner.space = op.type.space = to;
        return ro_unary(r, op.op, op.type, ro_as(r, reorder_rows_sum(r, op.args[0], map, depth), inner), op.attr);
    }
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
