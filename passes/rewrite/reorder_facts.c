/* What a value is in rows into which a map sums nothing, where an operation that was not reached before must not make a
   NaN:
     gather(x via M) / gather(sum via M + 1e-16), then exp     exp of 1e16 x is infinite where M sums nothing
   An operation that moves to such rows reads an operand as it is only if that is calm (facts.h), else a number in its
   place. */
#include "passes/rewrite/reorder.h"
#include "base/ice.h"
#include <math.h>

static bool is_fixed(const Reorder *r, const IrOp *op)
{
    if (!r->holds || op->op == IR_OP_arg || ir_op_is_of_autodiff(op->op) || ir_ops[op->op].traits & T_RANDOM)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!ro_knows(r, op->args[k], RO_FIXED)) return false;
    return true;
}

Facts reorder_facts(const Reorder *r, const IrOp *op)
{
    return (Facts)(facts_of(r->b.m, r->b.f, op, r->facts.data) | (is_fixed(r, op) ? RO_FIXED : 0));
}

/* ---- rows without any ---- */

static bool apply(const IrOp *op, const double *x, double *out)
{
    switch (op->op) {
    case IR_OP_neg: *out = -x[0]; return true;
    case IR_OP_abs: *out = fabs(x[0]); return true;
    case IR_OP_sqrt: *out = sqrt(x[0]); return true;
    case IR_OP_exp: *out = exp(x[0]); return true;
    case IR_OP_log: *out = log(x[0]); return true;
    case IR_OP_add: *out = x[0] + x[1]; return true;
    case IR_OP_sub: *out = x[0] - x[1]; return true;
    case IR_OP_mul: *out = x[0] * x[1]; return true;
    case IR_OP_div: *out = x[0] / x[1]; return true;
    case IR_OP_min: *out = x[0] < x[1] ? x[0] : x[1]; return true;
    case IR_OP_max: *out = x[0] > x[1] ? x[0] : x[1]; return true;
    case IR_OP_eq: *out = x[0] == x[1]; return true;
    case IR_OP_ne: *out = x[0] != x[1]; return true;
    case IR_OP_lt: *out = x[0] < x[1]; return true;
    case IR_OP_le: *out = x[0] <= x[1]; return true;
    case IR_OP_not: *out = x[0] == 0; return true;
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_max_dims:
    case IR_OP_min_dims:
    case IR_OP_slice: *out = x[0]; return true;
    case IR_OP_contract:
    case IR_OP_sum_dims: *out = 0; return x[0] == 0 || (op->n_args > 1 && x[1] == 0);
    default: *out = 0; return ir_ops[op->op].traits & T_ZERO && op->n_args == 1 && x[0] == 0;
    }
}

/* For at_empty: no map sums anything, and what gathers such a row is meant, too. */
static const IrId GATHERED = IR_NONE - 1;

/* The one number that v is in every row into which `map`, or no map at all (IR_NONE, GATHERED), sums anything. */
static bool at_empty(const Reorder *r, IrId v, IrId map, int depth, double *out)
{
    const IrOp *op = ro_op(r, v);
    double x[3];
    if (ro_is_const(r, v, out)) return true;
    bool any = map == IR_NONE || map == GATHERED;
    if (ir_ops[op->op].traits & T_REDUCE && (any || op->attr.map == map)) {
        *out = op->op == IR_OP_reduce_mul ? 1 : op->op == IR_OP_reduce_sum ? 0 : op->attr.f;
        return true;
    }
    if (!depth || !op->n_args || op->n_args > 3 || ro_knows(r, v, RO_PINNED)) return false;
    if (op->op == IR_OP_select)
        return at_empty(r, op->args[0], map, depth - 1, x) &&
               at_empty(r, op->args[x[0] != 0 ? 1 : 2], map, depth - 1, out);
    if (op->op == IR_OP_gather && map == GATHERED) return at_empty(r, op->args[0], map, depth - 1, out);
    ICE_UNLESS(op->n_args <= sizeof x / sizeof *x);
    bool product = op->op == IR_OP_mul || op->op == IR_OP_contract, all = true;
    for (uint32_t k = 0; k < op->n_args; k++) {
        bool known = at_empty(r, op->args[k], map, depth - 1, &x[k]);
        Facts calm = any ? FACT_IN_RANGE : FACT_IN_RANGE | FACT_CALM;
        if (known && x[k] == 0 && product && ro_knows(r, op->args[1 - k], calm)) return *out = 0, true;
        if (known && x[k] == 0 && op->op == IR_OP_at && !k) return *out = 0, true;
        all &= known;
    }
    return all && apply(op, x, out);
}

static bool knows_at_empty(const Reorder *r, IrId v, Facts fact)
{
    double x;
    return ro_knows(r, v, fact) || (at_empty(r, v, IR_NONE, 8, &x) && facts_of_number(x) & fact);
}

/* May op's derivative by its operand v be infinite in those rows, where v is x? */
static bool is_pole(const Reorder *r, const IrOp *op, IrId v, double x)
{
    IrId other = op->args[op->n_args > 1 && op->args[0] == v];
    switch (op->op) {
    case IR_OP_log:
    case IR_OP_sqrt:
    case IR_OP_pow: return (float)x == 0;
    case IR_OP_log1p: return x == -1;
    case IR_OP_mul:
    case IR_OP_contract: return !knows_at_empty(r, other, FACT_IN_RANGE);
    case IR_OP_div:
        return op->args[1] == v ? (float)x == 0 || !knows_at_empty(r, other, FACT_IN_RANGE)
                                : !knows_at_empty(r, other, FACT_NONZERO);
    default: return false;
    }
}

/* Does op, which chooses, not take v in those rows? */
static bool leaves_out(const Reorder *r, const IrOp *op, IrId v)
{
    double c;
    if (op->op != IR_OP_select || op->args[0] == v || !at_empty(r, op->args[0], IR_NONE, 8, &c)) return false;
    return op->args[c != 0 ? 1 : 2] != v;
}

/* Before autodiff: may the cotangent of v be infinite or NaN in rows into which nothing is summed, because of what is
   made of v there? An infinite v counts as one: products with it multiply the cotangents of their other operands by it.
   Nobody gathers these rows through `map`, which sums nothing into them. */
static bool is_sharp(const Reorder *r, IrId v, IrId map, int depth)
{
    double x;
    if (!depth || !at_empty(r, v, GATHERED, 8, &x)) return false;
    if (!isfinite((float)x)) return true;
    for (IrId u = 0; u < r->b.f->ops.n; u++) {
        const IrOp *op = ro_op(r, u);
        bool reads = false;
        for (uint32_t k = 0; k < op->n_args && r->values.data[u].uses; k++) reads |= op->args[k] == v;
        if (!reads || ir_op_is_of_autodiff(op->op) || leaves_out(r, op, v)) continue;
        if (op->op == IR_OP_gather && op->attr.map == map) continue;
        if (is_pole(r, op, v, x) || is_sharp(r, u, map, depth - 1)) return true;
    }
    return false;
}

/* y where there are rows, else that number. */
static IrId at_rows(Reorder *r, IrId map, IrId y, double neutral)
{
    IrType t = ir_scalar(ro_type(r, y).dtype);
    IrId empty = ro_map2(r, IR_OP_eq, ro_degree(r, map, t.dtype), ro_const(r, t, 0));
    return ro_select(r, empty, ro_const(r, t, neutral), y);
}

IrId reorder_guard(Reorder *r, IrId y, IrId map, double neutral, bool divisor)
{
    double c;
    if (y == IR_NONE || ro_knows(r, y, divisor ? FACT_IN_RANGE | FACT_NONZERO : FACT_IN_RANGE | FACT_CALM)) return y;
    if (at_empty(r, y, map, 8, &c) && isfinite((float)c) && !(divisor && (float)c == 0)) return y;
    return at_rows(r, map, y, neutral);
}

/* What is asked of operand k of op, and a number that fulfils it. */
static Facts wanted_facts(IrOpcode op, uint32_t k, double *neutral)
{
    *neutral = 1;
    switch (op) {
    case IR_OP_exp:
    case IR_OP_expm1: return *neutral = 0, FACT_IN_RANGE | FACT_LOW;
    case IR_OP_sqrt:
    case IR_OP_log:
    case IR_OP_log1p: return FACT_IN_RANGE | FACT_NONZERO | FACT_CALM;
    case IR_OP_pow: return k ? FACT_IN_RANGE | FACT_SMALL : FACT_IN_RANGE | FACT_SMALL | FACT_AWAY | FACT_NOT_NEGATIVE;
    case IR_OP_div: return k ? FACT_IN_RANGE | FACT_AWAY : FACT_IN_RANGE | FACT_SMALL;
    case IR_OP_mul:
    case IR_OP_contract: return *neutral = 0, FACT_IN_RANGE | FACT_SMALL;
    default: return 0;
    }
}

IrId reorder_harmless(Reorder *r, IrOpcode op, uint32_t k, IrId y, IrId map, bool given)
{
    double neutral, c;
    Facts wanted = wanted_facts(op, k, &neutral);
    if (!wanted || y == IR_NONE || ro_type(r, y).space == IR_UNIT) return y;
    if (given) wanted &= FACT_IN_RANGE | FACT_NONZERO | FACT_AWAY | FACT_NOT_NEGATIVE | FACT_LOW;
    if (ro_knows(r, y, wanted)) return y;
    if (at_empty(r, y, map, 8, &c) && (facts_of_number(c) & wanted) == wanted) return y;
    return at_rows(r, map, y, neutral);
}

bool reorder_is_sharp(const Reorder *r, IrId v)
{
    const IrOp *op = ro_op(r, v);
    return r->has_grad && is_sharp(r, v, ir_ops[op->op].traits & T_REDUCE ? op->attr.map : IR_NONE, 8);
}

IrId reorder_guard_sum(Reorder *r, IrId v, IrId sum)
{
    const IrOp *op = ro_op(r, v);
    if (sum == IR_NONE || sum == v || op->op != IR_OP_reduce_sum) return sum;
    IrId map = op->attr.map;
    bool same = ro_op(r, sum)->op == IR_OP_reduce_sum && ro_op(r, sum)->attr.map == map;
    return same || !reorder_is_sharp(r, v) ? sum : at_rows(r, map, sum, 0);
}
