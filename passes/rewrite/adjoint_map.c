/* Adjoints of pointwise ops. Operands broadcast, so what a rule gives is summed back by
   adjoint_give; g always comes first in a product, which keeps y's order of dims. */
#include "passes/rewrite/autodiff.h"

#define RULE(name) void adjoint_##name(Adjoint *a, IrId y, const IrOp *op, IrId g)
#define UNUSED(...)                                                                                                    \
    (void)(IrId[]) { __VA_ARGS__ }

static IrId scalar(Adjoint *a, const IrOp *op, double value) { return irb_scalar(&a->b, op->type.dtype, value); }
static IrId un(Adjoint *a, IrOpcode op, IrId x) { return irb_map1(&a->b, op, x); }
static IrId bin(Adjoint *a, IrOpcode op, IrId x, IrId y) { return irb_map2(&a->b, op, x, y); }

/* ---- one operand: g * f'(x) ---- */

RULE(neg)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], un(a, IR_OP_neg, g));
}

RULE(abs) /* 0 at 0 */
{
    UNUSED(y);
    adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, un(a, IR_OP_sign, op->args[0])));
}

RULE(exp) { adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, y)); }

RULE(expm1) { adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, bin(a, IR_OP_add, y, scalar(a, op, 1)))); }

RULE(log)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], bin(a, IR_OP_div, g, op->args[0]));
}

RULE(log1p)
{
    UNUSED(y);
    IrId d = bin(a, IR_OP_add, op->args[0], scalar(a, op, 1));
    adjoint_give(a, op->args[0], bin(a, IR_OP_div, g, d));
}

RULE(sqrt) /* g / 2y: infinite at 0, as torch has it */
{
    adjoint_give(a, op->args[0], bin(a, IR_OP_div, g, bin(a, IR_OP_mul, y, scalar(a, op, 2))));
}

RULE(tanh)
{
    IrId d = bin(a, IR_OP_sub, scalar(a, op, 1), bin(a, IR_OP_mul, y, y));
    adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, d));
}

RULE(sigmoid)
{
    IrId d = bin(a, IR_OP_mul, y, bin(a, IR_OP_sub, scalar(a, op, 1), y));
    adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, d));
}

RULE(erf) /* 2/sqrt(pi) exp(-x^2) */
{
    UNUSED(y);
    IrId x = op->args[0];
    IrId bell = un(a, IR_OP_exp, un(a, IR_OP_neg, bin(a, IR_OP_mul, x, x)));
    IrId d = bin(a, IR_OP_mul, bell, scalar(a, op, 1.1283791670955125739));
    adjoint_give(a, x, bin(a, IR_OP_mul, g, d));
}

RULE(sin)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, un(a, IR_OP_cos, op->args[0])));
}

RULE(cos)
{
    UNUSED(y);
    IrId d = un(a, IR_OP_neg, un(a, IR_OP_sin, op->args[0]));
    adjoint_give(a, op->args[0], bin(a, IR_OP_mul, g, d));
}

/* Between floats; an integer operand is never active. Rounding to 16 bits has the derivative 1, and the cotangent goes
   around it: it is an f32 all the way. */
RULE(cast)
{
    UNUSED(y);
    IrType type = op->type;
    IrId x = op->args[0];
    if (ir_op_widens(a->b.f, op) && ir_op_narrows(a->b.f, irb_op(&a->b, x))) x = irb_op(&a->b, x)->args[0];
    type.dtype = irb_type(&a->b, x).dtype;
    adjoint_give(a, x, type.dtype == op->type.dtype ? g : irb_unary(&a->b, IR_OP_cast, type, g, (IrAttr){0}));
}

/* ---- two operands ---- */

RULE(add)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], g);
    adjoint_give(a, op->args[1], g);
}

RULE(sub)
{
    UNUSED(y);
    adjoint_give(a, op->args[0], g);
    if (adjoint_wants(a, op->args[1])) adjoint_give(a, op->args[1], un(a, IR_OP_neg, g));
}

RULE(mul)
{
    UNUSED(y);
    for (uint32_t i = 0; i < 2; i++)
        if (adjoint_wants(a, op->args[i])) adjoint_give(a, op->args[i], bin(a, IR_OP_mul, g, op->args[1 - i]));
}

RULE(div) /* g / b;  -g (y / b) */
{
    IrId d = op->args[1];
    if (adjoint_wants(a, op->args[0])) adjoint_give(a, op->args[0], bin(a, IR_OP_div, g, d));
    if (!adjoint_wants(a, d)) return;
    adjoint_give(a, d, un(a, IR_OP_neg, bin(a, IR_OP_mul, g, bin(a, IR_OP_div, y, d))));
}

/* g p x^(p-1), and 0 where p is 0 (x^-1 may be infinite there). */
static IrId pow_base(Adjoint *a, const IrOp *op, IrId g)
{
    IrId x = op->args[0], p = op->args[1];
    IrId power = bin(a, IR_OP_pow, x, bin(a, IR_OP_sub, p, scalar(a, op, 1)));
    IrId dx = bin(a, IR_OP_mul, g, bin(a, IR_OP_mul, p, power));
    double value;
    if (irb_is_const(&a->b, p, &value) && value != 0) return dx;
    IrId flat = irb_compare(&a->b, IR_OP_eq, p, scalar(a, op, 0));
    return irb_select(&a->b, flat, scalar(a, op, 0), dx);
}

/* g y log x where x > 0, else 0. The log's operand is made positive too: a further derivative then
 * meets no 0/0. */
static IrId pow_exponent(Adjoint *a, const IrOp *op, IrId y, IrId g)
{
    IrId x = op->args[0];
    IrId positive = irb_compare(&a->b, IR_OP_lt, scalar(a, op, 0), x);
    IrId log = un(a, IR_OP_log, irb_select(&a->b, positive, x, scalar(a, op, 1)));
    IrId dp = bin(a, IR_OP_mul, g, bin(a, IR_OP_mul, y, log));
    return irb_select(&a->b, positive, dp, scalar(a, op, 0));
}

RULE(pow)
{
    if (adjoint_wants(a, op->args[0])) adjoint_give(a, op->args[0], pow_base(a, op, g));
    if (adjoint_wants(a, op->args[1])) adjoint_give(a, op->args[1], pow_exponent(a, op, y, g));
}

/* min, max: to the operand that won, halves on a tie (golden quirk 8). */
RULE(extremum)
{
    UNUSED(y);
    IrId tie = irb_compare(&a->b, IR_OP_eq, op->args[0], op->args[1]);
    for (uint32_t i = 0; i < 2; i++) {
        IrId self = op->args[i], other = op->args[1 - i];
        if (!adjoint_wants(a, self)) continue;
        bool max = op->op == IR_OP_max;
        IrId won = irb_compare(&a->b, IR_OP_lt, max ? other : self, max ? self : other);
        IrId whole = irb_select(&a->b, won, g, scalar(a, op, 0));
        IrId half = bin(a, IR_OP_mul, g, scalar(a, op, 0.5));
        adjoint_give(a, self, irb_select(&a->b, tie, half, whole));
    }
}

RULE(select)
{
    UNUSED(y);
    IrId c = op->args[0], zero = scalar(a, op, 0);
    Counts whole = a->given;
    for (uint32_t i = 1; i < 3; i++) {
        if (!adjoint_wants(a, op->args[i])) continue;
        adjoint_choose(a, whole, c, i == 1);
        adjoint_give(a, op->args[i], irb_select(&a->b, c, i == 1 ? g : zero, i == 1 ? zero : g));
    }
}
