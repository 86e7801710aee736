/* Rules of arithmetic: identity and absorbing elements, signs, powers, exact division, selects,
   casts. All keep every bit of every result but powers, which become the correctly rounded
   operations they stand for. */
#include "passes/rewrite/simplify.h"
#include <math.h>
#include <stdlib.h>

/* Is operand `side` of a binary op a const? */
static bool has_const(const Simplify *s, const IrOp *op, uint32_t side, double *c)
{
    return op->n_args == 2 && simplify_const(s, op->args[side], c);
}

static bool is_positive_zero(double c) { return c == 0 && !signbit(c); }

/* ---- identity and absorbing elements ---- */

enum { LEFT = 1, RIGHT = 2 };
static const struct {
    IrOpcode op;
    double element;
    uint8_t sides; /* on which side it is the identity */
} identities[] = {
    {IR_OP_add, 0, LEFT | RIGHT}, {IR_OP_sub, 0, RIGHT},        {IR_OP_mul, 1, LEFT | RIGHT}, {IR_OP_div, 1, RIGHT},
    {IR_OP_pow, 1, RIGHT},        {IR_OP_and, 1, LEFT | RIGHT}, {IR_OP_or, 0, LEFT | RIGHT},
};

/* x + 0 turns -0 into 0, x + -0 nothing; x - 0 likewise nothing, x - -0 the former. */
static bool keeps_zero_sign(const Simplify *s, const IrOp *op, IrId x, double c)
{
    if (op->op != IR_OP_add && op->op != IR_OP_sub) return true;
    bool adds_positive = (op->op == IR_OP_add) == !signbit(c);
    return !adds_positive || simplify_knows(s, x, FACT_NO_NEG_ZERO);
}

static bool is_smaller(const IrType *t, const IrType *than)
{
    return t->n_dims < than->n_dims || t->space != than->space;
}

/* A broadcast that has something to do stays. */
static bool widens(const Simplify *s, const IrOp *op)
{
    if (!simplify_is_broadcast(s, op)) return false;
    IrType x = irb_type(&s->b, op->args[1]);
    return is_smaller(&x, &op->type);
}

IrId rule_identity(Simplify *s, const IrOp *op)
{
    double c;
    if (op->n_args != 2 || widens(s, op)) return IR_NONE;
    for (uint32_t k = 0; k < sizeof identities / sizeof *identities; k++) {
        if (identities[k].op != op->op) continue;
        for (uint32_t side = 0; side < 2; side++) {
            IrId x = op->args[1 - side];
            if ((identities[k].sides & (side ? RIGHT : LEFT)) && has_const(s, op, side, &c) &&
                c == identities[k].element && keeps_zero_sign(s, op, x, c))
                return simplify_spread(s, x, op);
        }
    }
    return IR_NONE;
}

/* 0 * x where x is finite and has no sign; x^0; false and x; true or x; max(x, c) with c below all
 * x. */
IrId rule_absorb(Simplify *s, const IrOp *op)
{
    double c;
    for (uint32_t side = 0; side < 2; side++) {
        if (!has_const(s, op, side, &c)) continue;
        IrId x = op->args[1 - side];
        if (op->op == IR_OP_mul && is_positive_zero(c) && simplify_knows(s, x, FACT_FINITE | FACT_POSITIVE))
            return simplify_constant(s, op, 0);
        if (op->op == IR_OP_pow && side && c == 0) return simplify_constant(s, op, 1);
        if ((op->op == IR_OP_and && c == 0) || (op->op == IR_OP_or && c != 0)) return simplify_constant(s, op, c);
        if (op->op == IR_OP_max && (c < 0 || is_positive_zero(c)) && ir_dtype_is_float(op->type.dtype) &&
            simplify_knows(s, x, FACT_POSITIVE))
            return simplify_spread(s, x, op);
    }
    return IR_NONE;
}

/* ---- signs ---- */

/* The operand of v if v is a neg; else IR_NONE. */
static IrId negated(const Simplify *s, IrId v)
{
    const IrOp *op = simplify_def(s, v);
    return op->op == IR_OP_neg ? op->args[0] : IR_NONE;
}

static IrId emit2(Simplify *s, const IrOp *op, IrOpcode code, IrId x, IrId y)
{
    IrOp it = simplify_op2(s, op, code, x, y);
    return simplify_try(s, &it);
}

/* -(-x) -> x;  -(x c) -> x (-c);  |-x| -> |x|;  |x| -> x where x has no sign */
static IrId sign_unary(Simplify *s, const IrOp *op)
{
    IrId x = op->args[0], inner = negated(s, x);
    if (op->op == IR_OP_abs && simplify_knows(s, x, FACT_POSITIVE)) return simplify_spread(s, x, op);
    if (inner != IR_NONE) {
        if (op->op == IR_OP_neg) return simplify_spread(s, inner, op);
        IrOp it = simplify_op1(s, op, IR_OP_abs, inner);
        return simplify_try(s, &it);
    }
    const IrOp *product = simplify_def(s, x);
    double c;
    if (op->op != IR_OP_neg || product->op != IR_OP_mul) return IR_NONE;
    for (uint32_t side = 0; side < 2; side++)
        if (has_const(s, product, side, &c) && c != 1) {
            IrId other = product->args[1 - side];
            IrOp like = {.type = irb_type(&s->b, product->args[side])};
            return emit2(s, op, IR_OP_mul, simplify_constant(s, &like, -c), other);
        }
    return IR_NONE;
}

static IrId sign_binary(Simplify *s, const IrOp *op)
{
    IrId x = op->args[0], y = op->args[1], nx = negated(s, x), ny = negated(s, y);
    switch (op->op) {
    case IR_OP_add:
        if (ny != IR_NONE) return emit2(s, op, IR_OP_sub, x, ny);
        return nx != IR_NONE ? emit2(s, op, IR_OP_sub, y, nx) : IR_NONE;
    case IR_OP_sub: return ny != IR_NONE ? emit2(s, op, IR_OP_add, x, ny) : IR_NONE;
    case IR_OP_mul:
    case IR_OP_div: return nx != IR_NONE && ny != IR_NONE ? emit2(s, op, op->op, nx, ny) : IR_NONE;
    default: return IR_NONE;
    }
}

/* x * -1 -> -x */
static IrId minus_one(Simplify *s, const IrOp *op)
{
    double c;
    for (uint32_t side = 0; side < 2; side++)
        if (op->op == IR_OP_mul && has_const(s, op, side, &c) && c == -1) {
            IrOp it = simplify_op1(s, op, IR_OP_neg, op->args[1 - side]);
            return simplify_try(s, &it);
        }
    return IR_NONE;
}

IrId rule_sign(Simplify *s, const IrOp *op)
{
    if (!ir_dtype_is_float(op->type.dtype)) return IR_NONE;
    if (op->op == IR_OP_neg || op->op == IR_OP_abs) return sign_unary(s, op);
    if (op->n_args != 2 || !(ir_ops[op->op].traits & T_MAP)) return IR_NONE;
    IrId v = minus_one(s, op);
    return v != IR_NONE ? v : sign_binary(s, op);
}

/* ---- powers and quotients ---- */

/* x^2 -> x x;  x^-1 -> 1/x;  x^0.5 -> sqrt x and x^-0.5 -> 1 / sqrt x where x has no sign */
IrId rule_power(Simplify *s, const IrOp *op)
{
    double p;
    if (op->op != IR_OP_pow || !has_const(s, op, 1, &p)) return IR_NONE;
    IrId x = op->args[0];
    if (p == 2) return emit2(s, op, IR_OP_mul, x, x);
    if (fabs(p) == 0.5 && simplify_knows(s, x, FACT_POSITIVE)) {
        IrOp root = simplify_op1(s, op, IR_OP_sqrt, x);
        x = simplify_try(s, &root);
        if (p > 0 || x == IR_NONE) return x;
    } else if (p != -1) {
        return IR_NONE;
    }
    IrOp scalar = {.type = ir_scalar(op->type.dtype), .span = op->span};
    return emit2(s, op, IR_OP_div, simplify_constant(s, &scalar, 1), x);
}

/* x / 2^k -> x * 2^-k, where both are normal numbers of the dtype */
IrId rule_divide(Simplify *s, const IrOp *op)
{
    double c;
    int e;
    if (op->op != IR_OP_div || !ir_dtype_is_float(op->type.dtype) || !has_const(s, op, 1, &c)) return IR_NONE;
    if (!isfinite(c) || fabs(frexp(c, &e)) != 0.5) return IR_NONE;
    if (abs(e) > (op->type.dtype == IR_F32 ? 120 : 1000)) return IR_NONE;
    IrOp like = {.type = irb_type(&s->b, op->args[1]), .span = op->span};
    return emit2(s, op, IR_OP_mul, op->args[0], simplify_constant(s, &like, 1 / c));
}

/* ---- choices ---- */

/* select(const, a, b);  select(c, a, a);  select(not c, a, b) -> select(c, b, a) */
IrId rule_select(Simplify *s, const IrOp *op)
{
    if (op->op != IR_OP_select) return IR_NONE;
    double c;
    if (simplify_const(s, op->args[0], &c)) return simplify_spread(s, op->args[c != 0 ? 1 : 2], op);
    if (op->args[1] == op->args[2]) return simplify_spread(s, op->args[1], op);
    const IrOp *condition = simplify_def(s, op->args[0]);
    if (condition->op != IR_OP_not) return IR_NONE;
    IrOp it = *op;
    it.args = ARENA_ARRAY(s->b.m->arena, IrId, 3);
    it.args[0] = condition->args[0];
    it.args[1] = op->args[2];
    it.args[2] = op->args[1];
    return simplify_try(s, &it);
}

/* max(x, x), min, and, or -> x;  x == x of integers */
IrId rule_same(Simplify *s, const IrOp *op)
{
    if (op->n_args != 2 || op->args[0] != op->args[1]) return IR_NONE;
    bool exact = !ir_dtype_is_float(irb_type(&s->b, op->args[0]).dtype);
    switch (op->op) {
    case IR_OP_max:
    case IR_OP_min:
    case IR_OP_and:
    case IR_OP_or: return simplify_spread(s, op->args[0], op);
    case IR_OP_eq:
    case IR_OP_le: return exact ? simplify_constant(s, op, 1) : IR_NONE;
    case IR_OP_ne:
    case IR_OP_lt: return exact ? simplify_constant(s, op, 0) : IR_NONE;
    default: return IR_NONE;
    }
}

/* not not x;  not (a == b) -> a != b, and back (a NaN is unequal to all);  not (a < b) -> b <= a of
 * integers */
IrId rule_not(Simplify *s, const IrOp *op)
{
    if (op->op != IR_OP_not) return IR_NONE;
    const IrOp *x = simplify_def(s, op->args[0]);
    if (x->op == IR_OP_not) return simplify_spread(s, x->args[0], op);
    if (x->op == IR_OP_eq) return emit2(s, op, IR_OP_ne, x->args[0], x->args[1]);
    if (x->op == IR_OP_ne) return emit2(s, op, IR_OP_eq, x->args[0], x->args[1]);
    bool lt = x->op == IR_OP_lt, le = x->op == IR_OP_le;
    if ((!lt && !le) || ir_dtype_is_float(irb_type(&s->b, x->args[0]).dtype)) return IR_NONE;
    return emit2(s, op, lt ? IR_OP_le : IR_OP_lt, x->args[1], x->args[0]);
}

/* ---- dtypes ---- */

static int significand_bits(IrDtype t)
{
    static const int bits[] = {
        [IR_BOOL] = 1, [IR_BF16] = 8, [IR_F16] = 11, [IR_F32] = 24, [IR_I32] = 31, [IR_F64] = 53, [IR_I64] = 63};
    return bits[t];
}

/* Does `to` hold every value of `from`? */
static bool cast_is_exact(IrDtype from, IrDtype to)
{
    if (from == IR_BOOL || from == to) return true;
    return significand_bits(from) < significand_bits(to) && (ir_dtype_is_float(to) || !ir_dtype_is_float(from));
}

/* To the dtype it has;  through a dtype that holds every value. */
IrId rule_cast(Simplify *s, const IrOp *op)
{
    if (op->op != IR_OP_cast) return IR_NONE;
    if (irb_type(&s->b, op->args[0]).dtype == op->type.dtype) return simplify_spread(s, op->args[0], op);
    const IrOp *x = simplify_def(s, op->args[0]);
    if (x->op != IR_OP_cast) return IR_NONE;
    if (!cast_is_exact(irb_type(&s->b, x->args[0]).dtype, x->type.dtype)) return IR_NONE;
    IrOp it = simplify_op1(s, op, IR_OP_cast, x->args[0]);
    return simplify_try(s, &it);
}

/* Without a grad that could see the difference, detach does nothing. */
IrId rule_detach(Simplify *s, const IrOp *op) { return op->op == IR_OP_detach && !s->has_grad ? op->args[0] : IR_NONE; }
