/* Algebra: an op that equals something cheaper becomes that.
     %2 = const 1 : node[F] f32
     %3 = mul %1, %2            ->   (uses of %3 read %1)
     %4 = pow %1, 2                  %4 = mul %1, %1
   Every rule keeps the bits of every result, signs of zeros and NaNs included, but for three: a power becomes the
   correctly rounded operations it stands for, constants are folded in f64 and rounded once, and a sum of products with
   a one-hot is the element that it leaves, whatever stands beside it. Rules fire on algebraic properties (an identity
   element, a sign, a view, a broadcast); they are tried as each op is added, so one walk reaches the end. Never
   reassociates a sum, never divides by reciprocal unless exact, and never looks through the variable of a `grad` that
   is still there: merging it with its definition would change what depends on it. */
#include "passes/rewrite/simplify.h"
#include "base/ice.h"

static const struct {
    const char *name;
    SimplifyRule *rule;
} rules[] = {
    {"fold", rule_fold},          {"constant rows", rule_fold_rows},
    {"identity", rule_identity},  {"absorb", rule_absorb},
    {"sign", rule_sign},          {"power", rule_power},
    {"divide", rule_divide},      {"select", rule_select},
    {"cast", rule_cast},          {"view", rule_view},
    {"pieces", rule_pieces},      {"place", rule_at},
    {"same operands", rule_same}, {"not", rule_not},
    {"detach", rule_detach},      {"names", rule_names},
    {"move", rule_move},          {"narrow", rule_narrow},
};
enum { N_RULES = sizeof rules / sizeof *rules };
_Static_assert(N_RULES <= sizeof((Simplify *)0)->n_fired / sizeof(uint32_t), "a count per rule");

/* ---- looking ---- */

const IrOp *simplify_def(const Simplify *s, IrId v)
{
    static const IrOp opaque = {.op = IR_OP_arg};
    ICE_UNLESS(v < s->pinned.n);
    return s->pinned.data[v] ? &opaque : irb_op(&s->b, v);
}

bool simplify_const(const Simplify *s, IrId v, double *value)
{
    if (s->pinned.data[v] || !irb_is_const(&s->b, v, value)) return false;
    if (value && irb_type(&s->b, v).dtype == IR_F32) *value = (double)(float)*value;
    return true;
}

bool simplify_is_broadcast(const Simplify *s, const IrOp *op)
{
    double one;
    if (op->op != irb_broadcast_op(op->type.dtype)) return false;
    if (!simplify_const(s, op->args[0], &one) || one != 1) return false;
    IrType type = irb_type(&s->b, op->args[0]);
    return ir_type_eq(&type, &op->type);
}

IrId simplify_broadcast_of(const Simplify *s, IrId v)
{
    const IrOp *op = simplify_def(s, v);
    return simplify_is_broadcast(s, op) ? op->args[1] : IR_NONE;
}

/* ---- adding ---- */

static IrId add_as_is(Simplify *s, const IrOp *op)
{
    Facts facts = facts_of(s->b.m, s->b.f, op, s->facts.data);
    IrId v = irb_add(&s->b, op);
    VEC_PUSH(s->b.m->arena, &s->facts, facts);
    VEC_PUSH(s->b.m->arena, &s->pinned, false);
    VEC_PUSH(s->b.m->arena, &s->shared, false);
    return v;
}

IrId simplify_add(Simplify *s, IrOp op)
{
    for (uint32_t k = 0; k < N_RULES; k++) {
        IrId v = rules[k].rule(s, &op);
        if (v == IR_NONE) continue;
        IrType made = irb_type(&s->b, v);
        ICE_UNLESS(ir_type_eq(&made, &op.type));
        s->n_fired[k]++;
        return v;
    }
    return add_as_is(s, &op);
}

IrId simplify_try(Simplify *s, const IrOp *op)
{
    return ir_shape_check(s->b.m, s->b.f, op, s->b.m->arena) ? IR_NONE : simplify_add(s, *op);
}

static IrOp new_op(const Simplify *s, const IrOp *like, IrOpcode op, uint32_t n, IrId x, IrId y)
{
    IrOp it = {.op = op, .type = like->type, .n_args = n, .span = like->span};
    it.attr = (IrAttr){.map = IR_NONE, .dim = IR_NONE};
    it.args = ARENA_ARRAY(s->b.m->arena, IrId, 2);
    it.args[0] = x;
    it.args[1] = y;
    return it;
}

IrOp simplify_op1(const Simplify *s, const IrOp *like, IrOpcode op, IrId x) { return new_op(s, like, op, 1, x, 0); }

IrOp simplify_op2(const Simplify *s, const IrOp *like, IrOpcode op, IrId x, IrId y)
{
    return new_op(s, like, op, 2, x, y);
}

IrId simplify_constant(Simplify *s, const IrOp *like, double value)
{
    ICE_UNLESS(!ir_dtype_is_16_bits(like->type.dtype)); /* they have no constants */
    IrOp op = new_op(s, like, IR_OP_const, 0, 0, 0);
    op.attr.f = value;
    return add_as_is(s, &op);
}

IrId simplify_spread(Simplify *s, IrId x, const IrOp *like)
{
    IrType t = irb_type(&s->b, x);
    if (ir_type_eq(&t, &like->type)) return x;
    ICE_UNLESS(t.dtype == like->type.dtype && t.n_dims <= like->type.n_dims);
    double value;
    if (simplify_const(s, x, &value)) return simplify_constant(s, like, value);
    if (t.space == like->type.space && t.n_dims == like->type.n_dims)
        return simplify_add(s, simplify_op1(s, like, IR_OP_transpose, x));
    IrId one = simplify_constant(s, like, 1);
    return simplify_add(s, simplify_op2(s, like, irb_broadcast_op(t.dtype), one, x));
}

/* ---- walking ---- */

static void remark_fired(PassContext *ctx, const Simplify *s)
{
    for (uint32_t k = 0; k < N_RULES; k++)
        if (s->n_fired[k])
            pass_remark(ctx, PASS_simplify, true, (Span){0}, "%s: %u times", rules[k].name, s->n_fired[k]);
}

static IrFunc *simplify_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    const bool *pinned = rewrite_pinned(ctx->stage, old);
    const uint32_t *uses = rewrite_uses(ctx->stage, old);
    Simplify s = {.b = r.b, .has_grad = pinned != NULL};
    for (IrId v = 0; v < old->ops.n; v++) {
        IrOp op = rewrite_op(&r, v);
        if (pinned && pinned[v]) {
            r.map[v] = add_as_is(&s, &op);
            s.pinned.data[r.map[v]] = true;
        } else {
            r.map[v] = simplify_add(&s, op);
        }
        s.shared.data[r.map[v]] |= uses[v] > 1;
    }
    remark_fired(ctx, &s);
    return rewrite_end(&r);
}

IrModule *pass_simplify(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, simplify_func); }
