/* Pointwise arithmetic: graph operations on values in registers, scalars or vectors alike. Operands of fewer
   lanes are splatted. It knows nothing of spaces, rows or memory. */
#include "base/ice.h"
#include "passes/lower/kmath.h"
#include "passes/lower/lower_kernel.h"
#include <math.h>

static bool is_float(KirType t) { return t.base == KIR_F32 || t.base == KIR_F64; }

static KirId number(Emit *e, KirType t, double v)
{
    return is_float(t) ? emit_float(e, t, v) : emit_int(e, t, (int64_t)v);
}

/* x > 0: 1; x < 0: -1; else x, so that NaN stays. */
static KirId sign(Emit *e, KirId x)
{
    KirType t = emit_type(e, x);
    KirId zero = number(e, t, 0);
    KirId below = emit_select(e, emit_op2(e, KIR_lt, x, zero), number(e, t, -1), x);
    return emit_select(e, emit_op2(e, KIR_lt, zero, x), number(e, t, 1), below);
}

/* Integer division and remainder are total: x / 0 = 0, x mod 0 = 0; the least integer by -1 wraps. A divisor of 0 or
   -1 is replaced by 1 and the result chosen. */
static KirId int_divide(Emit *e, KirOpcode op, KirId x, KirId y)
{
    unsigned lanes = emit_type(e, x).lanes > emit_type(e, y).lanes ? emit_type(e, x).lanes : emit_type(e, y).lanes;
    x = emit_splat(e, x, lanes);
    y = emit_splat(e, y, lanes);
    KirType t = emit_type(e, x);
    KirId zero = emit_int(e, t, 0), is_zero = emit_op2(e, KIR_eq, y, zero);
    KirId is_minus = emit_op2(e, KIR_eq, y, emit_int(e, t, -1));
    KirId safe = emit_select(e, emit_op2(e, KIR_or, is_zero, is_minus), emit_int(e, t, 1), y);
    KirId q = emit_op2(e, op, x, safe);
    if (op == KIR_div) q = emit_select(e, is_minus, emit_op2(e, KIR_sub, zero, x), q);
    else q = emit_select(e, is_minus, zero, q);
    return emit_select(e, is_zero, zero, q);
}

static KirId cast(Emit *e, IrDtype dtype, KirId x)
{
    KirType t = emit_type(e, x);
    KirBase to = kir_base_of(dtype);
    if (ir_dtype_is_16_bits(dtype)) return emit_op1(e, dtype == IR_F16 ? KIR_round_f16 : KIR_round_bf16, x);
    if (to != KIR_I1) return emit_convert(e, to, x);
    return t.base == KIR_I1 ? x : emit_op2(e, KIR_ne, x, number(e, t, 0));
}

static KirId unary(Emit *e, const IrOp *op, KirId x)
{
    KirType t = emit_type(e, x);
    switch (op->op) {
    case IR_OP_neg: return emit_op1(e, KIR_neg, x);
    case IR_OP_abs: return emit_op1(e, KIR_abs, x);
    case IR_OP_sign: return sign(e, x);
    case IR_OP_floor: return emit_op1(e, KIR_floor, x);
    case IR_OP_sqrt: return emit_op1(e, KIR_sqrt, x);
    case IR_OP_exp: return emit_expand(e, kmath_exp, x);
    case IR_OP_expm1: return emit_expand(e, kmath_expm1, x);
    case IR_OP_log: return emit_expand(e, kmath_log, x);
    case IR_OP_log1p: return emit_expand(e, kmath_log1p, x);
    case IR_OP_tanh: return emit_expand(e, kmath_tanh, x);
    case IR_OP_sigmoid: return emit_expand(e, kmath_sigmoid, x);
    case IR_OP_erf: return emit_expand(e, kmath_erf, x);
    case IR_OP_sin: return emit_expand(e, kmath_sin, x);
    case IR_OP_cos: return emit_expand(e, kmath_cos, x);
    case IR_OP_not: return emit_op2(e, KIR_xor, x, emit_int(e, t, 1));
    case IR_OP_cast: return cast(e, op->type.dtype, x);
    case IR_OP_detach:
    case IR_OP_transpose: return x;
    default: ICE(arena_printf(e->arena, "`%s` has no arithmetic in kernels", ir_ops[op->op].name));
    }
}

KirId point_map(Lower *l, const IrOp *op, const KirId *a)
{
    Emit *e = &l->e;
    bool integer = op->n_args && !is_float(emit_type(e, a[0]));
    switch (op->op) {
    case IR_OP_add: return emit_op2(e, KIR_add, a[0], a[1]);
    case IR_OP_sub: return emit_op2(e, KIR_sub, a[0], a[1]);
    case IR_OP_mul: return emit_op2(e, KIR_mul, a[0], a[1]);
    case IR_OP_div: return integer ? int_divide(e, KIR_div, a[0], a[1]) : emit_op2(e, KIR_div, a[0], a[1]);
    case IR_OP_mod: return int_divide(e, KIR_rem, a[0], a[1]);
    case IR_OP_pow: return emit_expand2(e, kmath_pow, a[0], a[1]);
    case IR_OP_min: return emit_op2(e, KIR_min, a[0], a[1]);
    case IR_OP_max: return emit_op2(e, KIR_max, a[0], a[1]);
    case IR_OP_eq: return emit_op2(e, KIR_eq, a[0], a[1]);
    case IR_OP_ne: return emit_op2(e, KIR_ne, a[0], a[1]);
    case IR_OP_lt: return emit_op2(e, KIR_lt, a[0], a[1]);
    case IR_OP_le: return emit_op2(e, KIR_le, a[0], a[1]);
    case IR_OP_and: return emit_op2(e, KIR_and, a[0], a[1]);
    case IR_OP_or: return emit_op2(e, KIR_or, a[0], a[1]);
    case IR_OP_select: return emit_select(e, a[0], a[1], a[2]);
    default: return unary(e, op, a[0]);
    }
}

/* ---- sums ---- */

KirOpcode sum_op(IrOpcode op)
{
    switch (op) {
    case IR_OP_reduce_max:
    case IR_OP_max_dims: return KIR_max;
    case IR_OP_reduce_min:
    case IR_OP_min_dims: return KIR_min;
    case IR_OP_reduce_mul: return KIR_mul;
    default: return KIR_add;
    }
}

KirId sum_identity(Lower *l, KirOpcode op, KirType t)
{
    bool flt = t.base == KIR_F32 || t.base == KIR_F64;
    if (op == KIR_add || op == KIR_mul)
        return flt ? emit_float(&l->e, t, op == KIR_mul) : emit_int(&l->e, t, op == KIR_mul);
    if (flt) return emit_float(&l->e, t, op == KIR_max ? -(double)INFINITY : (double)INFINITY);
    if (t.base == KIR_I32) return emit_int(&l->e, t, op == KIR_max ? INT32_MIN : INT32_MAX);
    return emit_int(&l->e, t, op == KIR_max ? INT64_MIN : INT64_MAX);
}
