/* lower: the groups of each function become kernels and steps of the plan. */
#include "passes/lower/lower_kernel.h"

/* *buffer_of: plan buffers by stored value. */
static bool lower_func(PassContext *ctx, HostPlan *plan, const FusedFunc *f, StrMap *kernels, StrMap *split_kernels,
                       uint32_t **buffer_of)
{
    PlanProgram *prog = ARENA_NEW(ctx->stage, PlanProgram);
    prog->name = f->f->name;
    prog->func = f->index;
    VEC_PUSH(ctx->stage, &plan->programs, prog);
    LowerFunc lf = {.ctx = ctx, .f = f, .plan = plan, .prog = prog, .vectors = !ctx->disabled[PASS_schedule],
                    .kernels = kernels, .split_kernels = split_kernels, .buffer_of = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1),
                    .first_memo = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1)};
    for (uint32_t v = 0; v < f->f->ops.n; v++) lf.buffer_of[v] = UINT32_MAX;
    for (uint32_t i = 0; i < f->order.n && !lf.failed; i++) lower_group(&lf, f->order.data[i]);
    *buffer_of = lf.buffer_of;
    return !lf.failed;
}

HostPlan *lower_funcs(PassContext *ctx, const FusedModule *fm, uint32_t **buffer_of)
{
    HostPlan *plan = ARENA_NEW(ctx->stage, HostPlan);
    plan->module = fm->m;
    StrMap kernels = {.arena = ctx->stage}, split_kernels = {.arena = ctx->stage};
    for (uint32_t i = 0; i < fm->funcs.n; i++)
        if (!lower_func(ctx, plan, fm->funcs.data[i], &kernels, &split_kernels, &buffer_of[i])) return NULL;
    return plan;
}

HostPlan *lower_only(PassContext *ctx, const FusedModule *fm, const FusedFunc *f, uint32_t **buffer_of)
{
    HostPlan *plan = ARENA_NEW(ctx->stage, HostPlan);
    plan->module = fm->m;
    StrMap kernels = {.arena = ctx->stage}, split_kernels = {.arena = ctx->stage};
    return lower_func(ctx, plan, f, &kernels, &split_kernels, buffer_of) ? plan : NULL;
}
