/* Constants: pointwise ops on constants, and rearrangements or reductions of them whose result is
   exact. Folded in f64 and rounded once to the dtype, which for + - * / sqrt is what the machine
   would do. Never folds to something infinite or NaN: the place where a run first made it stays
   findable. */
#include "passes/rewrite/simplify.h"
#include <math.h>

/* [1] what a fold may not represent is left to run time */
static bool representable(IrDtype t, double *v)
{
    if (!isfinite(*v)) return false;
    switch (t) {
    case IR_F32: *v = (double)(float)*v; return isfinite(*v);
    case IR_F64: return true;
    case IR_I32: *v += 0.0; return fabs(*v) < 2147483648.0;       /* integers have no -0 */
    case IR_I64: *v += 0.0; return fabs(*v) < 9007199254740992.0; /* 2^53: exact in a const */
    case IR_BOOL: return *v == 0 || *v == 1;
    default: return false; /* 16 bits have no constants */
    }
    return false;
}

static double fold_float1(IrOpcode op, double x)
{
    switch (op) {
    case IR_OP_neg: return -x;
    case IR_OP_abs: return fabs(x);
    case IR_OP_sign: return (x > 0) - (x < 0);
    case IR_OP_floor: return floor(x);
    case IR_OP_exp: return exp(x);
    case IR_OP_expm1: return expm1(x);
    case IR_OP_log: return log(x);
    case IR_OP_log1p: return log1p(x);
    case IR_OP_sqrt: return sqrt(x);
    case IR_OP_tanh: return tanh(x);
    case IR_OP_sigmoid: return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case IR_OP_erf: return erf(x);
    case IR_OP_sin: return sin(x);
    case IR_OP_cos: return cos(x);
    case IR_OP_not: return x == 0;
    default: return NAN;
    }
}

static double fold2(IrOpcode op, double x, double y)
{
    switch (op) {
    case IR_OP_add: return x + y;
    case IR_OP_sub: return x - y;
    case IR_OP_mul: return x * y;
    case IR_OP_div: return x / y;
    case IR_OP_pow: return pow(x, y);
    case IR_OP_min: return x < y ? x : y;
    case IR_OP_max: return x > y ? x : y;
    case IR_OP_eq: return x == y;
    case IR_OP_ne: return x != y;
    case IR_OP_lt: return x < y;
    case IR_OP_le: return x <= y;
    case IR_OP_and: return x != 0 && y != 0;
    case IR_OP_or: return x != 0 || y != 0;
    default: return NAN;
    }
}

/* Integer division and remainder are folded where every convention agrees. */
static double fold_int2(IrOpcode op, double x, double y)
{
    if (op != IR_OP_div && op != IR_OP_mod) return fold2(op, x, y);
    if (x < 0 || y <= 0) return NAN;
    return op == IR_OP_div ? trunc(x / y) : fmod(x, y);
}

static double fold_cast(IrDtype from, IrDtype to, double x)
{
    if (to == IR_BOOL) return from == IR_BOOL ? x : NAN;
    return ir_dtype_is_float(to) ? x : trunc(x);
}

IrId rule_fold(Simplify *s, const IrOp *op)
{
    uint16_t traits = ir_ops[op->op].traits;
    double x[3], v;
    if (!(traits & T_MAP) || traits & T_RANDOM || !op->n_args || op->n_args > 3) return IR_NONE;
    if (op->op == IR_OP_detach && s->has_grad) return IR_NONE;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (!simplify_const(s, op->args[i], &x[i]) || isnan(x[i])) return IR_NONE;
    IrDtype from = irb_type(&s->b, op->args[0]).dtype;
    if (op->op == IR_OP_select) v = x[0] != 0 ? x[1] : x[2];
    else if (op->op == IR_OP_cast) v = fold_cast(from, op->type.dtype, x[0]);
    else if (op->op == IR_OP_detach) v = x[0];
    else if (op->n_args == 1) v = fold_float1(op->op, x[0]);
    else v = ir_dtype_is_float(from) ? fold2(op->op, x[0], x[1]) : fold_int2(op->op, x[0], x[1]);
    return representable(op->type.dtype, &v) ? simplify_constant(s, op, v) : IR_NONE;
}

/* n*c, if every partial sum of n copies of c is exact: c = k 2^e with |k| n within the significand. */
static bool exact_multiple(IrDtype t, double c, int64_t n, double *product)
{
    if (c == 0) return *product = 0, !signbit(c);
    int e;
    double k = frexp(c, &e);
    int bits = t == IR_F32 ? 24 : 53;
    while (k != rint(k)) k *= 2;
    *product = c * (double)n;
    return fabs(k) * (double)n <= ldexp(1, bits) && representable(t, product);
}

static IrId sum_of_const(Simplify *s, const IrOp *op, double c)
{
    IrType whole = irb_type(&s->b, op->args[0]);
    int64_t all = ir_type_width(s->b.m, &whole), kept = ir_type_width(s->b.m, &op->type);
    double sum;
    if (all < 0 || kept <= 0 || !exact_multiple(op->type.dtype, c, all / kept, &sum)) return IR_NONE;
    return simplify_constant(s, op, sum);
}

/* All operands are the same constant: moving and selecting rows or features changes nothing. */
IrId rule_fold_rows(Simplify *s, const IrOp *op)
{
    double c, other;
    if (!op->n_args || !simplify_const(s, op->args[0], &c)) return IR_NONE;
    for (uint32_t i = 1; i < op->n_args; i++)
        if (!simplify_const(s, op->args[i], &other) || memcmp(&other, &c, sizeof c)) return IR_NONE;
    bool zero = c == 0 && !signbit(c), same = false;
    switch (op->op) {
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_slice:
    case IR_OP_concat: same = true; break;
    case IR_OP_max_dims:
    case IR_OP_min_dims: {
        IrType t = irb_type(&s->b, op->args[0]);
        same = ir_type_width(s->b.m, &t) > 0;
        break;
    }
    case IR_OP_gather: same = zero || !s->b.m->maps.data[op->attr.map].partial; break;
    case IR_OP_reduce_sum: same = zero; break;
    case IR_OP_reduce_mul: same = c == 1; break;
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: same = !memcmp(&c, &op->attr.f, sizeof c); break;
    case IR_OP_sum_dims: return sum_of_const(s, op, c);
    default: break;
    }
    return same ? simplify_constant(s, op, c) : IR_NONE;
}
