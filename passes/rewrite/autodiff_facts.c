/* What the reverse sweep must know of values (facts.h). FACT_NO_EXP stands for finite: arguments count as finite, and
   so does what is only infinite by an overflow, but for exp, which overflows soon. */
#include "passes/rewrite/autodiff.h"
#include "base/ice.h"

enum { FINITE = FACT_NO_EXP, NONZERO = FACT_NONZERO, NOT_NEGATIVE = FACT_NOT_NEGATIVE, ABOVE_0 = FACTS_ABOVE_0 };

static Facts known_of(Adjoint *a, IrId v)
{
    if (v >= a->n) return 0;
    for (; a->n_facts <= v; a->n_facts++) /* operands come first, so that no chain of them is a chain of calls */
        a->facts[a->n_facts] = facts_of(a->b.m, a->b.f, irb_op(&a->b, a->n_facts), a->facts);
    ICE_UNLESS(v < a->n_facts);
    return a->facts[v];
}

bool adjoint_not_zero(Adjoint *a, IrId v) { return known_of(a, v) & NONZERO; }

bool adjoint_spoils(Adjoint *a, const IrOp *op)
{
    Facts x = op->n_args ? known_of(a, op->args[0]) : 0, y = op->n_args > 1 ? known_of(a, op->args[1]) : 0;
    switch (op->op) {
    /* clang-format off */
    case IR_OP_neg: case IR_OP_add: case IR_OP_sub: case IR_OP_cast: case IR_OP_select: case IR_OP_min:
    case IR_OP_max: case IR_OP_sum_dims:
    case IR_OP_max_dims: case IR_OP_min_dims: case IR_OP_transpose: case IR_OP_reshape: case IR_OP_slice: case IR_OP_at:
    case IR_OP_concat: return false;
    case IR_OP_mul: case IR_OP_contract:
        /* clang-format on */
        return (adjoint_wants(a, op->args[0]) && !(y & FINITE)) || (adjoint_wants(a, op->args[1]) && !(x & FINITE));
    case IR_OP_div: return !(y & NONZERO) || !(y & FINITE) || (adjoint_wants(a, op->args[1]) && !(x & FINITE));
    case IR_OP_sqrt:
    case IR_OP_log: return (x & (ABOVE_0 | FINITE)) != (ABOVE_0 | FINITE);
    case IR_OP_log1p: return (x & (NOT_NEGATIVE | FINITE)) != (NOT_NEGATIVE | FINITE);
    case IR_OP_abs:
    case IR_OP_tanh:
    case IR_OP_sigmoid:
    case IR_OP_erf:
    case IR_OP_sin:
    case IR_OP_cos: return !(x & FINITE);
    default: return true;
    }
}

/* A number that is drawn knows nothing of what it multiplies: to select by it scales, and guards nothing. */
bool adjoint_is_drawn(const Adjoint *a, IrId cond)
{
    const IrOp *op = irb_op(&a->b, cond);
    for (uint32_t i = 0; i < op->n_args; i++)
        if (ir_ops[irb_op(&a->b, op->args[i])->op].traits & T_RANDOM) return true;
    return false;
}
