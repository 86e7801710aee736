/* What the reverse sweep must know of values: finite, never 0, never below 0. Arguments count as finite, and so does what is only infinite
   by an overflow, but for exp, which overflows soon: a model that selects around its overflow means that. */
#include "passes/rewrite/autodiff.h"
#include <math.h>

enum { FINITE = 1, AWAY = 2, NOT_BELOW = 4 };

static uint8_t facts_of(Adjoint *a, IrId v);

static uint8_t all_of(Adjoint *a, const IrOp *op, uint32_t first)
{
    uint8_t all = FINITE | AWAY | NOT_BELOW;
    for (uint32_t i = first; i < op->n_args; i++) all &= facts_of(a, op->args[i]);
    return all;
}

static uint8_t of_number(double x)
{
    return (uint8_t)((isfinite(x) ? FINITE : 0) | ((float)x != 0 && !isnan(x) ? AWAY : 0) | (x >= 0 ? NOT_BELOW : 0));
}

/* select(x == 0, c, x) is not 0 where c is not. */
static bool replaces_zero(Adjoint *a, const IrOp *op)
{
    const IrOp *c = irb_op(&a->b, op->args[0]);
    double zero;
    if (c->op != IR_OP_eq || !(facts_of(a, op->args[1]) & AWAY)) return false;
    for (uint32_t k = 0; k < 2; k++)
        if (c->args[k] == op->args[2] && irb_is_const(&a->b, c->args[1 - k], &zero) && zero == 0) return true;
    return false;
}

static uint8_t derive(Adjoint *a, const IrOp *op)
{
    uint8_t all = all_of(a, op, op->op == IR_OP_select), x = op->n_args ? facts_of(a, op->args[0]) : 0;
    uint8_t y = op->n_args > 1 ? facts_of(a, op->args[1]) : 0, some = x | y, positive = AWAY | NOT_BELOW;
    switch (op->op) {
    case IR_OP_const: return of_number(op->attr.f);
    case IR_OP_arg: return FINITE;
    case IR_OP_add: return (uint8_t)((all & (FINITE | NOT_BELOW)) | (all & NOT_BELOW ? some & AWAY : 0));
    case IR_OP_mul: return (uint8_t)((all & (FINITE | NOT_BELOW)) | (op->args[0] == op->args[1] ? NOT_BELOW : 0));
    case IR_OP_div: return (uint8_t)((y & AWAY ? all & FINITE : 0) | (all & NOT_BELOW));
    case IR_OP_max: return (uint8_t)((all & FINITE) | (some & NOT_BELOW) | ((x & positive) == positive || (y & positive) == positive ? AWAY : 0));
    case IR_OP_abs: return all | NOT_BELOW;
    case IR_OP_sqrt: return all & NOT_BELOW ? all : 0;
    case IR_OP_log: return (all & positive) == positive ? all & FINITE : 0;
    case IR_OP_log1p: return all & NOT_BELOW ? all : 0;
    case IR_OP_sigmoid: return (uint8_t)((all & FINITE) | NOT_BELOW);
    case IR_OP_exp: return NOT_BELOW;
    case IR_OP_select: return (uint8_t)(all | (replaces_zero(a, op) ? AWAY : 0));
    case IR_OP_gather: return a->b.m->maps.data[op->attr.map].partial ? all & (FINITE | NOT_BELOW) : all;
    case IR_OP_reduce_max: case IR_OP_reduce_min: return all & of_number(op->attr.f);
    case IR_OP_min: case IR_OP_max_dims: case IR_OP_min_dims: case IR_OP_detach: case IR_OP_reshape: case IR_OP_transpose: case IR_OP_slice:
    case IR_OP_concat: return all;
    case IR_OP_reduce_sum: case IR_OP_sum_dims: case IR_OP_contract: return all & (FINITE | NOT_BELOW);
    case IR_OP_neg: return all & (FINITE | AWAY);
    case IR_OP_sub: case IR_OP_cast: case IR_OP_tanh: case IR_OP_erf: case IR_OP_sin: case IR_OP_cos: case IR_OP_sign: return all & FINITE;
    default: return ir_ops[op->op].traits & T_RANDOM || !ir_dtype_is_float(op->type.dtype) ? FINITE : 0;
    }
}

static uint8_t facts_of(Adjoint *a, IrId v)
{
    if (v >= a->n) return 0;
    for (; a->n_facts <= v; a->n_facts++) { /* operands come first, so that no chain of them is a chain of calls */
        const IrOp op = *irb_op(&a->b, a->n_facts);
        a->facts[a->n_facts] = derive(a, &op);
    }
    return a->facts[v];
}

bool adjoint_not_zero(Adjoint *a, IrId v) { return facts_of(a, v) & AWAY; }

bool adjoint_spoils(Adjoint *a, const IrOp *op)
{
    uint8_t x = op->n_args ? facts_of(a, op->args[0]) : 0, y = op->n_args > 1 ? facts_of(a, op->args[1]) : 0, positive = AWAY | NOT_BELOW;
    switch (op->op) {
    case IR_OP_neg: case IR_OP_add: case IR_OP_sub: case IR_OP_cast: case IR_OP_select: case IR_OP_min: case IR_OP_max: case IR_OP_sum_dims:
    case IR_OP_max_dims: case IR_OP_min_dims: case IR_OP_transpose: case IR_OP_reshape: case IR_OP_slice: case IR_OP_concat: return false;
    case IR_OP_mul: case IR_OP_contract:
        return (adjoint_wants(a, op->args[0]) && !(y & FINITE)) || (adjoint_wants(a, op->args[1]) && !(x & FINITE));
    case IR_OP_div: return !(y & AWAY) || !(y & FINITE) || (adjoint_wants(a, op->args[1]) && !(x & FINITE));
    case IR_OP_sqrt: case IR_OP_log: return (x & (positive | FINITE)) != (positive | FINITE);
    case IR_OP_log1p: return (x & (NOT_BELOW | FINITE)) != (NOT_BELOW | FINITE);
    case IR_OP_abs: case IR_OP_tanh: case IR_OP_sigmoid: case IR_OP_erf: case IR_OP_sin: case IR_OP_cos: return !(x & FINITE);
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
