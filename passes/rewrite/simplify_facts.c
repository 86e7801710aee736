/* What simplify knows of every element of a value: finite, never -0, sign bit clear. Sound for any
   input: what is not certain is not claimed. */
#include "passes/rewrite/simplify.h"
#include <math.h>

/* P: both facts about signs */
enum { F = FACT_FINITE, Z = FACT_NO_NEG_ZERO, P = FACT_POSITIVE | FACT_NO_NEG_ZERO };

static uint8_t of_number(double x)
{
    return (uint8_t)((isfinite(x) ? F : 0) | (x != 0 || !signbit(x) ? Z : 0) |
                     (!signbit(x) ? P : 0));
}

static uint8_t arg_facts(const Simplify *s, const IrOp *op, uint32_t i)
{
    return s->facts.data[op->args[i]];
}

/* Facts that all operands from `first` on share. */
static uint8_t shared(const Simplify *s, const IrOp *op, uint32_t first)
{
    uint8_t facts = F | P;
    for (uint32_t i = first; i < op->n_args; i++) facts &= arg_facts(s, op, i);
    return facts;
}

static uint8_t of_cast(const Simplify *s, const IrOp *op)
{
    uint8_t x = arg_facts(s, op, 0);
    IrDtype from = irb_type(&s->b, op->args[0]).dtype;
    if (from != IR_F64 || op->type.dtype == IR_F64) return x;
    return x & FACT_POSITIVE ? P : 0; /* f64 -> f32 may overflow, or underflow to -0 */
}

/* add: -0 only from two of them. max: (a > b || a != a) ? a : b gives b where both are zeros. */
static uint8_t of_binary(const Simplify *s, const IrOp *op)
{
    uint8_t x = arg_facts(s, op, 0), y = arg_facts(s, op, 1);
    uint8_t positive = x & y & FACT_POSITIVE ? P : 0;
    switch (op->op) {
    case IR_OP_add: return (uint8_t)(positive | ((x | y) & Z));
    case IR_OP_mul: return op->args[0] == op->args[1] ? P : positive;
    case IR_OP_div: return positive;
    case IR_OP_min: return x & y;
    case IR_OP_max: return (uint8_t)((x & y) | (x & y & Z && (x | y) & FACT_POSITIVE ? P : 0));
    default: return 0;
    }
}

/* -0 of -0, NaN below: positive where the operand is never -0. */
static uint8_t of_sqrt(uint8_t x)
{
    return (uint8_t)((x & Z ? P : 0) | (x & FACT_POSITIVE ? x & F : 0));
}

/* No graph has so many rows that their number overflows. */
static uint8_t of_sum(const Simplify *s, const IrOp *op)
{
    double c;
    bool counted = op->op == IR_OP_reduce_sum && irb_is_const(&s->b, op->args[0], &c) && fabs(c) <= 1;
    return (uint8_t)((shared(s, op, 0) & P) | (counted ? F : 0));
}

static uint8_t of_integer(const IrOp *op)
{
    bool index = op->op == IR_OP_iota || op->op == IR_OP_element || op->op == IR_OP_row;
    return (uint8_t)(F | Z | (index ? P : op->op == IR_OP_const ? of_number(op->attr.f) : 0));
}

uint8_t simplify_facts(const Simplify *s, const IrOp *op)
{
    if (op->type.dtype == IR_BOOL) return F | P;
    if (!ir_dtype_is_float(op->type.dtype)) return of_integer(op);
    switch (op->op) {
    case IR_OP_const: return of_number(op->attr.f);
    case IR_OP_random_uniform:
    case IR_OP_random_uniform_at: return F | P;
    case IR_OP_random_normal:
    case IR_OP_random_normal_at: return F;
    case IR_OP_neg:
    case IR_OP_sin:
    case IR_OP_cos: return shared(s, op, 0) & F;
    case IR_OP_abs:
    case IR_OP_sigmoid: return (uint8_t)(P | (shared(s, op, 0) & F));
    case IR_OP_exp: return P;
    case IR_OP_sqrt: return of_sqrt(arg_facts(s, op, 0));
    case IR_OP_cast: return of_cast(s, op);
    case IR_OP_select: return shared(s, op, 1);
    case IR_OP_sign:
    case IR_OP_floor:
    case IR_OP_tanh:
    case IR_OP_detach:
    case IR_OP_gather:
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_slice:
    case IR_OP_at:
    case IR_OP_concat: return shared(s, op, 0);
    case IR_OP_reduce_sum:
    case IR_OP_sum_dims: return of_sum(s, op);
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: return shared(s, op, 0) & of_number(op->attr.f);
    case IR_OP_contract: return shared(s, op, 0) & FACT_POSITIVE ? P : 0;
    case IR_OP_pow: return arg_facts(s, op, 0) & FACT_POSITIVE ? P : 0;
    default: return ir_ops[op->op].traits & T_MAP && op->n_args == 2 ? of_binary(s, op) : 0;
    }
}
