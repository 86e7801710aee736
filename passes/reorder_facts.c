/* What `reorder` must know of values: finite as long as nothing overflowed, never 0, never below 0; and what a value is
   in rows into which a map sums nothing, where an operation that was not reached before must not make a NaN. */
#include "passes/reorder.h"
#include <math.h>

static uint8_t shared(const Reorder *r, const IrOp *op, uint32_t first)
{
    uint8_t facts = RO_FINITE | RO_NONZERO | RO_NOT_NEGATIVE;
    for (uint32_t k = first; k < op->n_args; k++) facts &= r->values.data[op->args[k]].facts;
    return facts;
}

static uint8_t of_number(double x)
{
    return (uint8_t)((isfinite(x) ? RO_FINITE : 0) | ((float)x != 0 ? RO_NONZERO : 0) | (x >= 0 ? RO_NOT_NEGATIVE : 0));
}

static uint8_t of_sum(const Reorder *r, const IrOp *op)
{
    uint8_t both = shared(r, op, 0), x = r->values.data[op->args[0]].facts, y = r->values.data[op->args[1]].facts;
    return (uint8_t)((both & (RO_FINITE | RO_NOT_NEGATIVE)) | (both & RO_NOT_NEGATIVE ? (x | y) & RO_NONZERO : 0));
}

static uint8_t of_max(const Reorder *r, const IrOp *op)
{
    uint8_t both = shared(r, op, 0), facts = both & RO_FINITE;
    for (uint32_t k = 0; k < 2; k++) {
        uint8_t x = r->values.data[op->args[k]].facts;
        if (x & RO_NOT_NEGATIVE) facts |= RO_NOT_NEGATIVE | (x & RO_NONZERO);
    }
    return facts;
}

/* select(x == 0, c, x) is not 0 where c is not. */
static bool replaces_zero(const Reorder *r, const IrOp *op)
{
    const IrOp *c = ro_op(r, op->args[0]);
    double zero;
    if (c->op != IR_OP_eq || !ro_knows(r, op->args[1], RO_NONZERO)) return false;
    for (uint32_t k = 0; k < 2; k++)
        if (c->args[k] == op->args[2] && ro_is_const(r, c->args[1 - k], &zero) && zero == 0) return true;
    return false;
}

static uint8_t numeric_facts(const Reorder *r, const IrOp *op)
{
    if (!ir_dtype_is_float(op->type.dtype)) return RO_FINITE;
    uint8_t all = op->n_args ? shared(r, op, 0) : 0, finite = all & RO_FINITE;
    switch (op->op) {
    case IR_OP_arg: return RO_FINITE;
    case IR_OP_const: return of_number(op->attr.f);
    case IR_OP_random_uniform:
    case IR_OP_random_uniform_at: return RO_FINITE | RO_NOT_NEGATIVE;
    case IR_OP_random_normal:
    case IR_OP_random_normal_at: return RO_FINITE;
    case IR_OP_exp:
    case IR_OP_sigmoid: return finite | RO_NOT_NEGATIVE;
    case IR_OP_abs: return finite | (all & RO_NONZERO) | RO_NOT_NEGATIVE;
    case IR_OP_neg: return all & (RO_FINITE | RO_NONZERO);
    case IR_OP_sqrt: return all & RO_NOT_NEGATIVE ? all : 0;
    case IR_OP_add: return of_sum(r, op);
    case IR_OP_mul: return finite | (op->args[0] == op->args[1] ? RO_NOT_NEGATIVE : all & RO_NOT_NEGATIVE);
    case IR_OP_div:
        return (ro_knows(r, op->args[1], RO_NONZERO) ? finite : 0) | (all & RO_NOT_NEGATIVE);
    case IR_OP_max: return of_max(r, op);
    case IR_OP_min: return all;
    case IR_OP_select: return shared(r, op, 1) | (replaces_zero(r, op) ? RO_NONZERO : 0);
    case IR_OP_log: return (all & (RO_NOT_NEGATIVE | RO_NONZERO)) == (RO_NOT_NEGATIVE | RO_NONZERO) ? finite : 0;
    case IR_OP_log1p: return all & RO_NOT_NEGATIVE ? all : 0;
    case IR_OP_pow:
    case IR_OP_mod:
    case IR_OP_incoming:
    case IR_OP_with_adjoint:
    case IR_OP_grad: return 0;
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: return all & of_number(op->attr.f);
    case IR_OP_detach:
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_slice:
    case IR_OP_concat:
    case IR_OP_max_dims:
    case IR_OP_min_dims: return all;
    case IR_OP_gather: return ro_map(r, op->attr.map)->partial ? all & (RO_FINITE | RO_NOT_NEGATIVE) : all;
    case IR_OP_reduce_sum:
    case IR_OP_sum_dims:
    case IR_OP_contract: return all & (RO_FINITE | RO_NOT_NEGATIVE);
    default: return finite;
    }
}

static bool is_fixed(const Reorder *r, const IrOp *op)
{
    if (!r->holds || op->op == IR_OP_arg || ir_op_is_of_autodiff(op->op) || ir_ops[op->op].traits & T_RANDOM) return false;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!ro_knows(r, op->args[k], RO_FIXED)) return false;
    return true;
}

uint8_t reorder_facts(const Reorder *r, const IrOp *op)
{
    return (uint8_t)(numeric_facts(r, op) | (is_fixed(r, op) ? RO_FIXED : 0));
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

/* The one number that v is in every row into which `map`, or no map at all (IR_NONE), sums anything. */
static bool at_empty(const Reorder *r, IrId v, IrId map, int depth, double *out)
{
    const IrOp *op = ro_op(r, v);
    double x[3];
    if (ro_is_const(r, v, out)) return true;
    if (ir_ops[op->op].traits & T_REDUCE && (map == IR_NONE || op->attr.map == map)) {
        *out = op->op == IR_OP_reduce_mul ? 1 : op->op == IR_OP_reduce_sum ? 0 : op->attr.f;
        return true;
    }
    if (!depth || !op->n_args || op->n_args > 3 || ro_knows(r, v, RO_PINNED)) return false;
    if (op->op == IR_OP_select)
        return at_empty(r, op->args[0], map, depth - 1, x) && at_empty(r, op->args[x[0] != 0 ? 1 : 2], map, depth - 1, out);
    bool product = op->op == IR_OP_mul || op->op == IR_OP_contract, all = true;
    for (uint32_t k = 0; k < op->n_args; k++) {
        bool known = at_empty(r, op->args[k], map, depth - 1, &x[k]);
        if (known && x[k] == 0 && product && ro_knows(r, op->args[1 - k], RO_FINITE)) return *out = 0, true;
        all &= known;
    }
    return all && apply(op, x, out);
}

/* Is op's derivative by its operand v infinite in those rows, where v is x? */
static bool is_pole(const Reorder *r, const IrOp *op, double x)
{
    switch (op->op) {
    case IR_OP_log:
    case IR_OP_sqrt:
    case IR_OP_pow: return (float)x == 0;
    case IR_OP_div: return at_empty(r, op->args[1], IR_NONE, 8, &x) && (float)x == 0;
    case IR_OP_log1p: return x == -1;
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

/* Before autodiff: may the cotangent of v be infinite or NaN in rows without any, because of what is made of v there? */
static bool is_sharp(const Reorder *r, IrId v, int depth)
{
    double x;
    if (!depth || !at_empty(r, v, IR_NONE, 8, &x)) return false;
    for (IrId u = 0; u < r->b.f->ops.n; u++) {
        const IrOp *op = ro_op(r, u);
        bool reads = false;
        for (uint32_t k = 0; k < op->n_args && r->values.data[u].uses; k++) reads |= op->args[k] == v;
        if (!reads || ir_op_is_of_autodiff(op->op) || leaves_out(r, op, v)) continue;
        if (is_pole(r, op, x) || is_sharp(r, u, depth - 1)) return true;
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
    if (y == IR_NONE || ro_knows(r, y, divisor ? RO_FINITE | RO_NONZERO : RO_FINITE)) return y;
    if (at_empty(r, y, map, 8, &c) && isfinite(c) && !(divisor && (float)c == 0)) return y;
    return at_rows(r, map, y, neutral);
}

IrId reorder_guard_sum(Reorder *r, IrId v, IrId sum)
{
    const IrOp *op = ro_op(r, v);
    if (sum == IR_NONE || sum == v || !r->has_grad || op->op != IR_OP_reduce_sum) return sum;
    IrId map = op->attr.map;
    bool same = ro_op(r, sum)->op == IR_OP_reduce_sum && ro_op(r, sum)->attr.map == map;
    return same || !is_sharp(r, v, 8) ? sum : at_rows(r, map, sum, 0);
}
