/* lower: the groups of each function become kernels and steps of the plan. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* Returns plan buffers by stored value. */
static uint32_t *lower_func(PassContext *ctx, HostPlan *plan, StrMap *names, const FusedFunc *f)
{
    PlanProgram *prog = ARENA_NEW(ctx->stage, PlanProgram);
    prog->name = f->f->name;
    prog->func = f->index;
    prog->form = (PlanForm){.sums = f->sums, .filled = f->filled};
    VEC_PUSH(ctx->stage, &plan->programs, prog);
    LowerFunc lf = {.ctx = ctx,
                    .f = f,
                    .plan = plan,
                    .prog = prog,
                    .names = names,
                    .buffer_of = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1),
                    .first_memo = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1)};
    for (uint32_t v = 0; v < f->f->ops.n; v++) lf.buffer_of[v] = UINT32_MAX;
    for (uint32_t i = 0; i < f->order.n; i++) lower_group(&lf, f->order.data[i]);
    for (uint32_t v = 0; v < f->f->ops.n; v++) /* some step writes all that later ones or the caller read */
        ICE_UNLESS(!f->stored.data[v] || f->group_of.data[v] == GROUP_NONE || lf.buffer_of[v] != UINT32_MAX);
    return lf.buffer_of;
}

HostPlan *lower_funcs(PassContext *ctx, const FusedModule *fm, uint32_t **buffer_of)
{
    HostPlan *plan = ARENA_NEW(ctx->stage, HostPlan);
    StrMap names = {.arena = ctx->stage};
    plan->module = fm->m;
    for (uint32_t i = 0; i < fm->funcs.n; i++) buffer_of[i] = lower_func(ctx, plan, &names, fm->funcs.data[i]);
    return plan;
}

HostPlan *lower_only(PassContext *ctx, const FusedModule *fm, const FusedFunc *f, uint32_t **buffer_of)
{
    HostPlan *plan = ARENA_NEW(ctx->stage, HostPlan);
    StrMap names = {.arena = ctx->stage};
    plan->module = fm->m;
    *buffer_of = lower_func(ctx, plan, &names, f);
    return plan;
}
