/* Reverse-mode differentiation: every `grad %y, %x` becomes the operations that compute dy/dx.
     %3 = mul %1, %2          %3 = mul %1, %2
     %4 = grad %3, %1   ->    %5 = const 1
     %9 = exp %4              %6 = mul %5, %2
                              %9 = exp %6
   Grads are expanded in order of appearance, each over a function that has none left before it, so
   a gradient of a gradient needs nothing special. One sweep serves all later grads of the same y
   whose variables already exist. The ops made, and their order, are a function of the input alone.
   What y does not depend on differentiably has gradient 0. Never touches ops that were there.

   A branch that `select` does not take gets exactly 0, also where its own derivative is infinite or NaN, and so does an
   element that a map sums nowhere: 0 times infinity would be NaN.
     %5 = sqrt %4                       %9 = select %3, %8, 0
     %6 = select %3, %5, 0        ->    %10 = div %9, 2 * %5            NaN where %4 is 0 and %3 false
                                        %11 = select %3, %10, 0         behind pointwise ops, where it leaves the row */
#include "passes/rewrite/autodiff.h"
#include "base/ice.h"

static AdjointRule *const rules[IR_N_OPS] = {
#define OP(name, args, attrs, traits, shape, adjoint, ...) [IR_OP_##name] = adjoint_##adjoint,
#include "ir/ops.def"
#undef OP
};

/* `none`: nothing to differentiate, or by intent (detach). `zero`: 0 almost everywhere. Both end a
 * path. */
void adjoint_none(Adjoint *a, IrId y, const IrOp *op, IrId g) { (void)a, (void)y, (void)op, (void)g; }
void adjoint_zero(Adjoint *a, IrId y, const IrOp *op, IrId g) { (void)a, (void)y, (void)op, (void)g; }

static bool passes_on(const IrOp *op)
{
    return rules[op->op] != adjoint_none && rules[op->op] != adjoint_zero && ir_dtype_is_float(op->type.dtype);
}

/* ---- where cotangents count ---- */

static const Counts everywhere = {.cond = IR_NONE};

static bool same_place(const Counts *x, const Counts *y)
{
    return x->cond == y->cond && (x->cond == IR_NONE || x->when == y->when);
}

/* g, and 0 where it does not count. */
static IrId cleaned(Adjoint *a, IrId g, const Counts *c)
{
    if (c->cond == IR_NONE || !c->spoiled) return g;
    IrType t = irb_type(&a->b, g);
    IrId zero = irb_scalar(&a->b, t.dtype, 0);
    return irb_fit(&a->b, irb_select(&a->b, c->cond, c->when ? g : zero, c->when ? zero : g), t);
}

static IrId condition(Adjoint *a, const Counts *c) { return c->when ? c->cond : irb_map1(&a->b, IR_OP_not, c->cond); }

/* Where the sum of two cotangents counts: where either does, for both are 0 where they do not. Both branches of one
   choice are everywhere. */
static Counts either(Adjoint *a, const Counts *x, const Counts *y)
{
    if (x->cond == IR_NONE || y->cond == IR_NONE || x->cond == y->cond) return everywhere;
    return (Counts){irb_map2(&a->b, IR_OP_or, condition(a, x), condition(a, y)), true, false};
}

void adjoint_choose(Adjoint *a, Counts of, IrId cond, bool when)
{
    Counts chosen = {cond, when, of.spoiled};
    if (adjoint_is_drawn(a, cond)) chosen = of;
    else if (of.cond != IR_NONE && !same_place(&of, &chosen))
        chosen = (Counts){irb_map2(&a->b, IR_OP_and, condition(a, &of), condition(a, &chosen)), true, of.spoiled};
    a->given = chosen;
}

/* Has v all that the condition tells apart? */
static bool can_tell(const Adjoint *a, IrId v, const Counts *c)
{
    IrType t = irb_type(&a->b, v), of = irb_type(&a->b, c->cond);
    bool has = of.space == IR_UNIT || of.space == t.space;
    for (uint8_t k = 0; k < of.n_dims; k++) has &= ir_type_has_dim(&t, of.dims[k]);
    return has;
}

/* What the rule of op, whose own cotangent counts as in `own`, gives. Ops inside a row keep a condition of whole rows.
   Elements that a partial map leads nowhere are summed nowhere. */
static Counts given_by(Adjoint *a, const IrOp *op, Counts own)
{
    switch (op->op) {
    /* clang-format off */
    case IR_OP_contract: case IR_OP_sum_dims: case IR_OP_max_dims: case IR_OP_min_dims: case IR_OP_transpose:
    case IR_OP_reshape:
    case IR_OP_slice: case IR_OP_at: case IR_OP_concat:
        /* clang-format on */
        if (own.cond == IR_NONE || irb_type(&a->b, own.cond).n_dims) return everywhere;
        break;
    default:
        if (ir_ops[op->op].traits & T_MAP) break;
        if (!(ir_ops[op->op].traits & T_REDUCE) || !a->b.m->maps.data[op->attr.map].partial) return everywhere;
        IrType t = {.space = a->b.m->maps.data[op->attr.map].from, .dtype = IR_BOOL};
        IrOp mapped = {.op = IR_OP_mapped, .type = t, .attr = {.map = op->attr.map}, .span = op->span};
        return (Counts){irb_add(&a->b, &mapped), true, op->op == IR_OP_reduce_mul};
    }
    own.spoiled |= own.cond != IR_NONE && adjoint_spoils(a, op);
    return own;
}

void adjoint_give(Adjoint *a, IrId v, IrId g)
{
    if (!adjoint_wants(a, v)) return;
    Counts c = a->given;
    if (c.cond != IR_NONE && !can_tell(a, v, &c)) {
        if (can_tell(a, g, &c)) g = cleaned(a, g, &c); /* else the rule has summed what was clean */
        c = everywhere;
    }
    g = irb_fit(&a->b, g, irb_type(&a->b, v));
    ICE_UNLESS(irb_type(&a->b, g).dtype == irb_type(&a->b, v).dtype);
    IrId *sum = &a->cotangent[v];
    if (*sum == IR_NONE) {
        *sum = g;
        a->counts[v] = c;
        return;
    }
    if (!same_place(&a->counts[v], &c)) {
        *sum = cleaned(a, *sum, &a->counts[v]);
        g = cleaned(a, g, &c);
        a->counts[v] = c = either(a, &a->counts[v], &c);
    }
    a->counts[v].spoiled |= c.spoiled;
    *sum = irb_map2(&a->b, IR_OP_add, *sum, g);
}

static bool has_active_operand(const Adjoint *a, const IrOp *op)
{
    for (uint32_t i = 0; i < op->n_args; i++)
        if (a->active[op->args[i]]) return true;
    return false;
}

/* Marks what depends on the variables `xs`. */
static void mark_active(Adjoint *a, const IrId *xs, uint32_t n_xs)
{
    for (uint32_t i = 0; i < n_xs; i++) a->active[xs[i]] = true;
    for (IrId v = 0; v < a->n; v++) {
        const IrOp *op = irb_op(&a->b, v);
        if (passes_on(op) && has_active_operand(a, op)) a->active[v] = true;
    }
}

static Adjoint sweep_begin(PassContext *ctx, Build b)
{
    Adjoint a = {.b = b, .n = b.f->ops.n};
    a.active = ARENA_ARRAY(ctx->stage, bool, a.n);
    a.cotangent = ARENA_ARRAY(ctx->stage, IrId, a.n);
    a.facts = ARENA_ARRAY(ctx->stage, Facts, a.n);
    a.counts = ARENA_ARRAY(ctx->stage, Counts, a.n);
    for (IrId v = 0; v < a.n; v++) a.cotangent[v] = IR_NONE, a.counts[v] = everywhere;
    return a;
}

/* The cotangents of everything between y and the variables, from y down. */
static void sweep(Adjoint *a, IrId y)
{
    if (!a->active[y]) return;
    ICE_UNLESS(y < a->n && a->cotangent[y] == IR_NONE);
    a->cotangent[y] = irb_const(&a->b, irb_type(&a->b, y), 1);
    for (IrId v = y + 1; v-- > 0;) {
        const IrOp op = *irb_op(&a->b, v);
        if (a->cotangent[v] == IR_NONE || !passes_on(&op) || !has_active_operand(a, &op)) continue;
        a->b.span = op.span;
        if (!(ir_ops[op.op].traits & T_MAP)) {
            a->cotangent[v] = cleaned(a, a->cotangent[v], &a->counts[v]);
            a->counts[v].spoiled = false;
        }
        a->given = given_by(a, &op, a->counts[v]);
        ICE_UNLESS(rules[op.op]);
        rules[op.op](a, v, &op, a->cotangent[v]);
    }
}

typedef struct Grads { /* the grad ops that one sweep answers */
    VEC(IrId) ops;     /* in the old function */
    VEC(IrId) xs;      /* their variables, in the new one */
} Grads;

/* Grads of the same y from `first` on, whose variables stand before `first`. */
static Grads grads_of(PassContext *ctx, const Rewrite *r, IrId first)
{
    Grads g = {0};
    IrId y = r->map[r->old->ops.data[first].args[0]];
    for (IrId v = first; v < r->old->ops.n; v++) {
        const IrOp *op = &r->old->ops.data[v];
        if (op->op != IR_OP_grad || r->map[v] != IR_NONE || r->map[op->args[0]] != y) continue;
        IrId x = r->map[op->args[1]];
        if (x == IR_NONE) continue;
        VEC_PUSH(ctx->stage, &g.ops, v);
        VEC_PUSH(ctx->stage, &g.xs, x);
    }
    return g;
}

/* The longest chain of sweeps that each go through what the one before has made, behind this one. */
static uint32_t count_again(PassContext *ctx, const IrFunc *old, const Grads *g)
{
    /* [n] sweeps that a value goes through, this one counted */
    uint32_t *behind = ARENA_ARRAY(ctx->stage, uint32_t, old->ops.n), most = 1;
    for (uint32_t i = 0; i < g->ops.n; i++) behind[g->ops.data[i]] = 1;
    for (IrId v = g->ops.data[0] + 1; v < old->ops.n; v++) {
        const IrOp *op = &old->ops.data[v];
        for (uint32_t k = 0; k < op->n_args; k++) {
            uint32_t n = behind[op->args[k]];
            if (n) n += op->op == IR_OP_grad;
            if (n > behind[v]) behind[v] = n;
        }
        if (behind[v] > most) most = behind[v];
    }
    return most - 1;
}

static void expand(PassContext *ctx, Rewrite *r, IrId first)
{
    const IrOp *op = &r->old->ops.data[first];
    Grads g = grads_of(ctx, r, first);
    r->b.span = op->span;
    Adjoint a = sweep_begin(ctx, r->b);
    a.n_again = count_again(ctx, r->old, &g);
    mark_active(&a, g.xs.data, g.xs.n);
    sweep(&a, r->map[op->args[0]]);
    ICE_UNLESS(g.ops.n == g.xs.n && g.ops.n && g.ops.data[0] == first);
    uint32_t n_made = r->b.f->ops.n - a.n;
    for (uint32_t i = 0; i < g.ops.n; i++) {
        IrId x = g.xs.data[i], dx = a.cotangent[x];
        if (dx != IR_NONE) {
            dx = cleaned(&a, dx, &a.counts[x]);
        } else {
            dx = irb_const(&r->b, irb_type(&r->b, x), 0);
            pass_remark_at(ctx, PASS_autodiff, false, r->old, g.ops.data[i],
                           "nothing differentiable leads from the variable: gradient 0");
        }
        r->map[g.ops.data[i]] = dx;
    }
    pass_remark_at(ctx, PASS_autodiff, true, r->old, first, "%u gradients in one sweep, %u ops", g.ops.n, n_made);
}

/* Behind the last gradient: a value whose adjoint was stated is that value, and nothing comes in any more. */
static void drop_adjoints(IrFunc *f)
{
    for (uint32_t v = 0; v < f->ops.n; v++) {
        IrOp *op = &f->ops.data[v];
        if (op->op == IR_OP_with_adjoint) op->op = IR_OP_detach, op->n_args = 1;
        if (op->op == IR_OP_incoming) op->op = IR_OP_const, op->attr = (IrAttr){.f = 0};
    }
}

static IrFunc *autodiff_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    for (IrId v = 0; v < old->ops.n; v++) {
        if (old->ops.data[v].op != IR_OP_grad) rewrite_copy(&r, v);
        else if (r.map[v] == IR_NONE) expand(ctx, &r, v);
    }
    drop_adjoints(r.b.f);
    return rewrite_end(&r);
}

IrModule *pass_autodiff(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, autodiff_func); }
