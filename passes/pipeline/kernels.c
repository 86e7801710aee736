/* The kernel stage in one column, from a module to the host plan:

     fuse       which values have memory, which groups compute them
     schedule   lanes, tiles and blocks of each group
     lower      each group to a kernel and its steps
     prefetch   what a walk gathers is asked for before its turn
     share      equal kernels are one
     weave      the order of operations inside a kernel
     cone       which rows of a kernel later ones need
     connect    which steps run together, strip by strip
     memplan    arena buffers to slots
     touch      which rows of which buffers each step reads and writes, for those who share its work
     audit      what the finished plan computes is what the functions say
   It decides nothing itself. */
#include "passes/pipeline/pipeline.h"
#include "base/ice.h"
#include "passes/pipeline/budget.h"
#include "passes/fuse/fuse.h"
#include "passes/kernel/kernel_passes.h"
#include "passes/lower/lower.h"
#include "passes/plan/planning.h"

static void print_kernels(const void *plan, StrBuf *out) { plan_print_kernels(plan, out); }

static void print_plan(const void *plan, StrBuf *out) { plan_print(plan, out); }

/* Tiles, and then which values take over memory, which depends on tiles. */
static bool schedule_one(PassContext *ctx, FusedFunc *f)
{
    ctx->function = f->f->name;
    if (!schedule_func(f, ctx->stage, !ctx->disabled[PASS_schedule], ctx->diags)) return false;
    takeover_func(ctx, f);
    return true;
}

PlanProgram *lower_trial(PassContext *ctx, const FusedModule *fm, FusedFunc *f)
{
    if (!schedule_one(ctx, f)) return NULL;
    uint32_t *buffer_of;
    HostPlan *plan = lower_only(ctx, fm, f, &buffer_of);
    ICE_UNLESS(plan->programs.n == 1);
    PassContext quiet = *ctx;
    quiet.keep_remarks = false;
    if (!ctx->disabled[PASS_cone]) cone_program(&quiet, f, plan->programs.data[0], buffer_of);
    if (!ctx->disabled[PASS_connect]) connect_program(&quiet, plan, f, plan->programs.data[0], buffer_of);
    memplan_program(ctx->stage, plan->programs.data[0], !ctx->disabled[PASS_memplan]);
    return plan->programs.data[0];
}

static void print_graph(const void *module, StrBuf *out) { ir_print(module, out); }

HostPlan *lower_module(PassContext *ctx, const IrModule *m)
{
    if (!pass_ready(ctx, PASS_fuse, m)) return NULL;
    pass_begin(ctx, PASS_fuse, print_graph, m);
    FusedModule *fm = fuse_module(ctx, m);
    if (!fm) return NULL;
    pass_end(ctx, PASS_fuse, fuse_print, fm);
    pass_begin(ctx, PASS_schedule, fuse_print, fm);
    for (uint32_t i = 0; i < fm->funcs.n; i++)
        if (!schedule_one(ctx, fm->funcs.data[i])) return NULL;
    pass_end(ctx, PASS_schedule, schedule_print, fm);
    StrBuf schedule = {.arena = ctx->stage};
    schedule_print(fm, &schedule);
    pass_begin(ctx, PASS_lower, schedule_print, fm);
    uint32_t **buffer_of = ARENA_ARRAY(ctx->stage, uint32_t *, fm->funcs.n + 1);
    HostPlan *plan = lower_funcs(ctx, fm, buffer_of);
    plan->schedule = strbuf_cstr(&schedule);
    pass_end(ctx, PASS_lower, print_kernels, plan);
    pass_begin(ctx, PASS_prefetch, print_kernels, plan);
    if (!ctx->disabled[PASS_prefetch]) prefetch_plan(ctx, fm, plan);
    pass_end(ctx, PASS_prefetch, print_kernels, plan);
    pass_begin(ctx, PASS_share, print_kernels, plan);
    if (!share_plan(ctx, fm, plan)) return NULL;
    pass_end(ctx, PASS_share, print_kernels, plan);
    pass_begin(ctx, PASS_weave, print_kernels, plan);
    if (!ctx->disabled[PASS_weave]) weave_plan(ctx, fm, plan);
    pass_end(ctx, PASS_weave, print_kernels, plan);
    pass_begin(ctx, PASS_cone, print_plan, plan);
    for (uint32_t i = 0; i < fm->funcs.n && !ctx->disabled[PASS_cone]; i++)
        cone_program(ctx, fm->funcs.data[i], plan->programs.data[i], buffer_of[i]);
    pass_end(ctx, PASS_cone, print_plan, plan);
    pass_begin(ctx, PASS_connect, print_plan, plan);
    for (uint32_t i = 0; i < fm->funcs.n && !ctx->disabled[PASS_connect]; i++)
        connect_program(ctx, plan, fm->funcs.data[i], plan->programs.data[i], buffer_of[i]);
    pass_end(ctx, PASS_connect, print_plan, plan);
    pass_begin(ctx, PASS_memplan, print_plan, plan);
    for (uint32_t i = 0; i < plan->programs.n; i++)
        memplan_program(ctx->stage, plan->programs.data[i], !ctx->disabled[PASS_memplan]);
    pass_end(ctx, PASS_memplan, print_plan, plan);
    for (uint32_t i = 0; i < fm->funcs.n; i++)
        touch_program(ctx, fm->funcs.data[i], plan->programs.data[i], buffer_of[i]);
    const char *wrong = audit_plan(ctx->stage, plan, fm, buffer_of);
    if (wrong) ICE(wrong);
    return plan;
}

static bool same_form(const PlanForm *a, const PlanForm *b)
{
    bool same = a->sums == b->sums && a->filled == b->filled && a->online.n == b->online.n;
    for (uint32_t i = 0; same && i < a->online.n; i++)
        same = a->online.data[i].sum == b->online.data[i].sum && a->online.data[i].extreme == b->online.data[i].extreme;
    return same;
}

HostPlan *lower_module_like(PassContext *ctx, const IrModule *m, const HostPlan *first)
{
    ctx->forms = first;
    HostPlan *plan = lower_module(ctx, m);
    ctx->forms = NULL;
    for (uint32_t i = 0; plan && i < plan->programs.n; i++)
        if (!same_form(&plan->programs.data[i]->form, &first->programs.data[i]->form)) return NULL;
    return plan;
}
