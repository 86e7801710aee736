/* What `reorder` must know of values: finite as long as nothing overflowed, never 0, never below 0; and what a value is
   in rows into which a map sums nothing, where an operation that was not reached before must not make a NaN:
     gather(x via M) / gather(sum via M + 1e-16), then exp     exp of 1e16 x is infinite where M sums nothing
   Who works there takes what is calm, or a number instead. */
#include "passes/rewrite/reorder.h"
#include <math.h>

static uint8_t shared(const Reorder *r, const IrOp *op, uint32_t first)
{
    uint8_t facts = RO_FINITE | RO_NONZERO | RO_NOT_NEGATIVE | RO_SMALL | RO_CALM | RO_AWAY;
    for (uint32_t k = first; k < op->n_args; k++) facts &= r->values.data[op->args[k]].facts;
    return facts;
}

static const double LARGEST_SMALL = 1e6, LEAST_AWAY = 1e-3, LARGEST_EXP = 80;

static uint8_t of_number(double x)
{
    return (uint8_t)((isfinite(x) ? RO_FINITE : 0) | ((float)x != 0 ? RO_NONZERO : 0) | (x >= 0 ? RO_NOT_NEGATIVE : 0) |
                     (isfinite((float)x) ? RO_CALM : 0) | (fabs(x) <= LARGEST_SMALL ? RO_SMALL : 0) |
                     (fabs(x) >= LEAST_AWAY ? RO_AWAY : 0));
}

/* What is seen only where somebody looked before. */
static uint8_t looked_at(uint8_t facts) { return facts & RO_FINITE ? facts | RO_USUAL : facts; }

static uint8_t of_sum(const Reorder *r, const IrOp *op)
{
    uint8_t both = shared(r, op, 0), x = r->values.data[op->args[0]].facts, y = r->values.data[op->args[1]].facts;
    return (uint8_t)((both & (RO_USUAL | RO_NOT_NEGATIVE)) |
                     (both & RO_NOT_NEGATIVE ? (x | y) & (RO_NONZERO | RO_AWAY) : 0));
}

static uint8_t of_product(const Reorder *r, const IrOp *op)
{
    uint8_t both = shared(r, op, 0), some = r->values.data[op->args[0]].facts | r->values.data[op->args[1]].facts;
    return (uint8_t)((both & (RO_FINITE | RO_NOT_NEGATIVE | RO_SMALL)) | (some & RO_SMALL ? both & RO_CALM : 0));
}

/* x / (y + 1e-16) is large, and no overflow unless x is large as well. */
static uint8_t of_quotient(const Reorder *r, const IrOp *op)
{
    uint8_t both = shared(r, op, 0), x = r->values.data[op->args[0]].facts, y = r->values.data[op->args[1]].facts;
    uint8_t facts = (uint8_t)((y & RO_NONZERO ? both & RO_FINITE : 0) | (both & RO_NOT_NEGATIVE));
    if (y & RO_AWAY) return facts | (both & (RO_SMALL | RO_CALM));
    return y & RO_NONZERO && x & RO_SMALL ? facts | (both & RO_CALM) : facts;
}

static uint8_t of_max(const Reorder *r, const IrOp *op)
{
    uint8_t both = shared(r, op, 0), facts = both & RO_USUAL;
    for (uint32_t k = 0; k < 2; k++) {
        uint8_t x = r->values.data[op->args[k]].facts;
        if (x & RO_NOT_NEGATIVE) facts |= RO_NOT_NEGATIVE | (x & (RO_NONZERO | RO_AWAY));
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

/* select(n == 0, c, n) of a count n: not nearly 0 where c is not. */
static uint8_t of_select(const Reorder *r, const IrOp *op)
{
    const IrOp *n = ro_op(r, op->args[2]);
    uint8_t facts = shared(r, op, 1);
    if (!replaces_zero(r, op)) return facts;
    bool counts = n->op == IR_OP_reduce_sum && ro_op(r, n->args[0])->op == IR_OP_const &&
                  ro_knows(r, n->args[0], RO_AWAY | RO_NOT_NEGATIVE);
    return facts | RO_NONZERO | (counts ? r->values.data[op->args[1]].facts & RO_AWAY : 0);
}

/* Does exp of v never overflow? */
static bool is_low(const Reorder *r, IrId v, int depth)
{
    const IrOp *op = ro_def(r, v);
    double c;
    if (!op || !depth) return false;
    switch (op->op) {
    case IR_OP_const: return ro_is_const(r, v, &c) && c <= LARGEST_EXP;
    case IR_OP_tanh:
    case IR_OP_sigmoid:
    case IR_OP_sin:
    case IR_OP_cos:
    case IR_OP_erf:
    case IR_OP_random_uniform: return true;
    case IR_OP_neg: return ro_knows(r, op->args[0], RO_NOT_NEGATIVE);
    case IR_OP_min: return is_low(r, op->args[0], depth - 1) || is_low(r, op->args[1], depth - 1);
    case IR_OP_sub: return is_low(r, op->args[0], depth - 1) && ro_knows(r, op->args[1], RO_NOT_NEGATIVE);
    case IR_OP_select: return is_low(r, op->args[1], depth - 1) && is_low(r, op->args[2], depth - 1);
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_slice: return is_low(r, op->args[0], depth - 1);
    default: return false;
    }
}

static uint8_t numeric_facts(const Reorder *r, const IrOp *op)
{
    if (!ir_dtype_is_float(op->type.dtype)) return RO_USUAL;
    uint8_t all = op->n_args ? shared(r, op, 0) : 0, finite = all & RO_USUAL;
    switch (op->op) {
    case IR_OP_arg: return RO_USUAL;
    case IR_OP_const: return of_number(op->attr.f);
    case IR_OP_random_uniform:
    case IR_OP_random_uniform_at: return RO_USUAL | RO_NOT_NEGATIVE;
    case IR_OP_random_normal:
    case IR_OP_random_normal_at: return RO_USUAL;
    case IR_OP_exp:
    case IR_OP_expm1:
        return (is_low(r, op->args[0], 4) ? finite : all & RO_FINITE) | (op->op == IR_OP_exp ? RO_NOT_NEGATIVE : 0);
    case IR_OP_sigmoid: return finite | RO_NOT_NEGATIVE;
    case IR_OP_abs: return all | RO_NOT_NEGATIVE;
    case IR_OP_neg: return all & (RO_USUAL | RO_NONZERO | RO_AWAY);
    case IR_OP_sqrt: return all & RO_NOT_NEGATIVE ? all : 0;
    case IR_OP_add: return of_sum(r, op);
    case IR_OP_mul: return of_product(r, op) | (op->args[0] == op->args[1] ? RO_NOT_NEGATIVE : 0);
    case IR_OP_div: return of_quotient(r, op);
    case IR_OP_max: return of_max(r, op);
    case IR_OP_min: return all;
    case IR_OP_select: return of_select(r, op);
    case IR_OP_log: return (all & (RO_NOT_NEGATIVE | RO_NONZERO)) == (RO_NOT_NEGATIVE | RO_NONZERO) ? finite : 0;
    case IR_OP_log1p: return all & RO_NOT_NEGATIVE ? all : 0;
    case IR_OP_pow:
    case IR_OP_mod:
    case IR_OP_incoming:
    case IR_OP_with_adjoint:
    case IR_OP_grad: return 0;
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: return looked_at(all & of_number(op->attr.f));
    case IR_OP_detach:
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_slice:
    case IR_OP_concat:
    case IR_OP_max_dims:
    case IR_OP_min_dims: return all;
    case IR_OP_gather: return looked_at(ro_map(r, op->attr.map)->partial ? all & (RO_FINITE | RO_NOT_NEGATIVE) : all);
    case IR_OP_reduce_sum: return looked_at(all & (RO_FINITE | RO_NOT_NEGATIVE));
    case IR_OP_sum_dims: return all & (RO_USUAL | RO_NOT_NEGATIVE);
    case IR_OP_contract: return of_product(r, op);
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
        return at_empty(r, op->args[0], map, depth - 1, x) && at_empty(r, op->args[x[0] != 0 ? 1 : 2], map, depth - 1, out);
    if (op->op == IR_OP_gather && map == GATHERED) return at_empty(r, op->args[0], map, depth - 1, out);
    bool product = op->op == IR_OP_mul || op->op == IR_OP_contract, all = true;
    for (uint32_t k = 0; k < op->n_args; k++) {
        bool known = at_empty(r, op->args[k], map, depth - 1, &x[k]);
        uint8_t calm = any ? RO_FINITE : RO_FINITE | RO_CALM;
        if (known && x[k] == 0 && product && ro_knows(r, op->args[1 - k], calm)) return *out = 0, true;
        all &= known;
    }
    return all && apply(op, x, out);
}

static bool knows_at_empty(const Reorder *r, IrId v, uint8_t fact)
{
    double x;
    return ro_knows(r, v, fact) || (at_empty(r, v, IR_NONE, 8, &x) && of_number(x) & fact);
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
    case IR_OP_contract: return !knows_at_empty(r, other, RO_FINITE);
    case IR_OP_div: return op->args[1] == v ? (float)x == 0 || !knows_at_empty(r, other, RO_FINITE) : !knows_at_empty(r, other, RO_NONZERO);
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

/* Before autodiff: may the cotangent of v be infinite or NaN in rows into which nothing is summed, because of what is made of v there? An
   infinite v counts as one: products with it multiply the cotangents of their other operands by it. Nobody gathers these rows through
   `map`, which sums nothing into them. */
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
    if (y == IR_NONE || ro_knows(r, y, divisor ? RO_FINITE | RO_NONZERO : RO_FINITE | RO_CALM)) return y;
    if (at_empty(r, y, map, 8, &c) && isfinite((float)c) && !(divisor && (float)c == 0)) return y;
    return at_rows(r, map, y, neutral);
}

/* What is asked of operand k of op, and a number that fulfils it. */
static uint8_t wanted_facts(IrOpcode op, uint32_t k, double *neutral)
{
    *neutral = 1;
    switch (op) {
    case IR_OP_exp:
    case IR_OP_expm1: return *neutral = 0, RO_FINITE; /* and low */
    case IR_OP_sqrt:
    case IR_OP_log:
    case IR_OP_log1p: return RO_FINITE | RO_NONZERO | RO_CALM;
    case IR_OP_pow: return k ? RO_FINITE | RO_SMALL : RO_FINITE | RO_SMALL | RO_AWAY | RO_NOT_NEGATIVE;
    case IR_OP_div: return k ? RO_FINITE | RO_AWAY : RO_FINITE | RO_SMALL;
    case IR_OP_mul:
    case IR_OP_contract: return *neutral = 0, RO_FINITE | RO_SMALL;
    default: return 0;
    }
}

IrId reorder_harmless(Reorder *r, IrOpcode op, uint32_t k, IrId y, IrId map, bool given)
{
    double neutral, c;
    uint8_t wanted = wanted_facts(op, k, &neutral);
    bool low = op == IR_OP_exp || op == IR_OP_expm1;
    if (!wanted || y == IR_NONE || ro_type(r, y).space == IR_UNIT) return y;
    if (given) wanted &= RO_FINITE | RO_NONZERO | RO_AWAY | RO_NOT_NEGATIVE;
    if (ro_knows(r, y, wanted) && (!low || is_low(r, y, 4))) return y;
    if (at_empty(r, y, map, 8, &c) && (of_number(c) & wanted) == wanted && (!low || c <= LARGEST_EXP)) return y;
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
