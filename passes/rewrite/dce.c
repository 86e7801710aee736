/* Dead code: an op that no result depends on vanishes. Arguments stay: they are the function's
   contract. %3 = exp %1         ->   (gone, if no result reaches it) Maps, spaces, dims and tensors
   stay: they are the module's contract with its data. */
#include "passes/rewrite/rewrite.h"

static IrFunc *dce_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    const bool *live = rewrite_live(ctx->stage, m, old, NULL);
    Rewrite r = rewrite_begin(m, old);
    uint32_t n_dead = 0;
    for (IrId v = 0; v < old->ops.n; v++)
        if (live[v]) rewrite_copy(&r, v);
        else n_dead++;
    if (n_dead) pass_remark(ctx, PASS_dce, true, (Span){0}, "%u dead ops", n_dead);
    return rewrite_end(&r);
}

IrModule *pass_dce(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, dce_func); }
