/* Reverse-mode differentiation: every `grad %y, %x` becomes the operations that compute dy/dx.
     %3 = mul %1, %2          %3 = mul %1, %2
     %4 = grad %3, %1   ->    %5 = const 1
     %9 = exp %4              %6 = mul %5, %2
                              %9 = exp %6
   Grads are expanded in order of appearance, each over a function that has none left before it, so
   a gradient of a gradient needs nothing special. One sweep serves all later grads of the same y
   whose variables already exist. The ops made, and their order, are a function of the input alone.
   What y does not depend on differentiably has gradient 0. Never touches ops that were there. */
#include "passes/autodiff.h"

static AdjointRule *const rules[IR_N_OPS] = {
#define OP(name, args, attrs, traits, shape, adjoint, ...) [IR_OP_##name] = adjoint_##adjoint,
#include "ir/ops.def"
#undef OP
};

/* `none`: nothing to differentiate, or by intent (detach). `zero`: 0 almost everywhere. Both end a
 * path. */
void adjoint_none(Adjoint *a, IrId y, const IrOp *op, IrId g)
{
    (void)a, (void)y, (void)op, (void)g;
}
void adjoint_zero(Adjoint *a, IrId y, const IrOp *op, IrId g)
{
    (void)a, (void)y, (void)op, (void)g;
}

static bool passes_on(const IrOp *op)
{
    return rules[op->op] != adjoint_none && rules[op->op] != adjoint_zero &&
           ir_dtype_is_float(op->type.dtype);
}

void adjoint_give(Adjoint *a, IrId v, IrId g)
{
    if (!adjoint_wants(a, v)) return;
    g = irb_fit(&a->b, g, irb_type(&a->b, v));
    IrId *sum = &a->cotangent[v];
    *sum = *sum == IR_NONE ? g : irb_map2(&a->b, IR_OP_add, *sum, g);
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
    for (IrId v = 0; v < a.n; v++) a.cotangent[v] = IR_NONE;
    return a;
}

/* The cotangents of everything between y and the variables, from y down. */
static void sweep(Adjoint *a, IrId y)
{
    if (!a->active[y]) return;
    a->cotangent[y] = irb_const(&a->b, irb_type(&a->b, y), 1);
    for (IrId v = y + 1; v-- > 0;) {
        const IrOp op = *irb_op(&a->b, v);
        if (a->cotangent[v] == IR_NONE || !passes_on(&op) || !has_active_operand(a, &op)) continue;
        a->b.span = op.span;
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

static void expand(PassContext *ctx, Rewrite *r, IrId first)
{
    const IrOp *op = &r->old->ops.data[first];
    Grads g = grads_of(ctx, r, first);
    r->b.span = op->span;
    Adjoint a = sweep_begin(ctx, r->b);
    mark_active(&a, g.xs.data, g.xs.n);
    sweep(&a, r->map[op->args[0]]);
    uint32_t n_made = r->b.f->ops.n - a.n;
    for (uint32_t i = 0; i < g.ops.n; i++) {
        IrId x = g.xs.data[i], dx = a.cotangent[x];
        if (dx == IR_NONE) {
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
        if (old->ops.data[v].op != IR_OP_grad)
            rewrite_copy(&r, v);
        else if (r.map[v] == IR_NONE)
            expand(ctx, &r, v);
    }
    drop_adjoints(r.b.f);
    return rewrite_end(&r);
}

IrModule *pass_autodiff(PassContext *ctx, const IrModule *m)
{
    return rewrite_module(ctx, m, autodiff_func);
}
