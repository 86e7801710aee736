/* Dead code: an op that no result depends on vanishes. Arguments stay: they are the function's
   contract. %3 = exp %1         ->   (gone, if no result reaches it) Maps, spaces, dims and tensors
   stay: they are the module's contract with its data. */
#include "passes/rewrite/rewrite.h"

static bool *find_live(PassContext *ctx, const IrModule *m, const IrFunc *f)
{
    bool *live = ARENA_ARRAY(ctx->stage, bool, f->ops.n);
    for (uint32_t i = 0; i < f->results.n; i++) live[f->results.data[i].value] = true;
    for (uint32_t v = f->ops.n; v-- > 0;) {
        const IrOp *op = &f->ops.data[v];
        if (op->op == IR_OP_arg) live[v] = true;
        for (uint32_t i = 0; live[v] && i < op->n_args; i++) live[op->args[i]] = true;
        IrId route = live[v] ? ir_route_of(m, f, op) : IR_NONE;
        if (route != IR_NONE) live[route] = true;
    }
    return live;
}

static IrFunc *dce_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    const bool *live = find_live(ctx, m, old);
    Rewrite r = rewrite_begin(m, old);
    uint32_t n_dead = 0;
    for (IrId v = 0; v < old->ops.n; v++)
        if (live[v])
            rewrite_copy(&r, v);
        else
            n_dead++;
    if (n_dead) pass_remark(ctx, PASS_dce, true, (Span){0}, "%u dead ops", n_dead);
    return rewrite_end(&r);
}

IrModule *pass_dce(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, dce_func); }
