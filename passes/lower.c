/* lower: groups become kernels and steps. The column of the kernel stage, from a module to the host plan:

     fuse       which values have memory, which groups compute them
     schedule   lanes, tiles and blocks of each group
     lower      each group to a kernel and its steps
     share      equal kernels are one
     weave      the order of operations inside a kernel
     cone       which rows of a kernel later ones need
     connect    which steps run together, strip by strip
     memplan    arena buffers to slots
   It decides nothing itself. */
#include "passes/lower.h"
#include "base/ice.h"
#include "passes/audit.h"
#include "passes/cone.h"
#include "passes/connect.h"
#include "passes/kernel_passes.h"
#include "passes/lower_kernel.h"
#include "passes/schedule_text.h"

static void print_kernels(const void *plan, StrBuf *out) { plan_print_kernels(plan, out); }

static void print_plan(const void *plan, StrBuf *out) { plan_print(plan, out); }

typedef struct Lowering { /* behind schedule */
    PassContext *ctx;
    FusedModule *fm;
    HostPlan *plan;
    uint32_t **buffer_of; /* by function: plan buffers by stored value */
} Lowering;

/* Returns the plan's buffers by stored value. */
static uint32_t *lower_func(PassContext *ctx, HostPlan *plan, const FusedFunc *f)
{
    PlanProgram *prog = ARENA_NEW(ctx->stage, PlanProgram);
    prog->name = f->f->name;
    prog->func = f->index;
    VEC_PUSH(ctx->stage, &plan->programs, prog);
    LowerFunc lf = {.ctx = ctx, .f = f, .plan = plan, .prog = prog, .vectors = !ctx->disabled[PASS_schedule],
                    .buffer_of = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1),
                    .first_memo = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1)};
    for (uint32_t v = 0; v < f->f->ops.n; v++) lf.buffer_of[v] = UINT32_MAX;
    for (uint32_t i = 0; i < f->order.n; i++) lower_group(&lf, f->order.data[i]);
    return lf.buffer_of;
}

/* Tiles, and then which values take over memory, which depends on tiles. */
static bool schedule_one(PassContext *ctx, FusedFunc *f)
{
    ctx->function = f->f->name;
    if (!schedule_func(f, ctx->stage, !ctx->disabled[PASS_schedule], ctx->diags)) return false;
    fuse_take_over(ctx, f);
    return true;
}

PlanProgram *lower_trial(PassContext *ctx, const FusedModule *fm, FusedFunc *f)
{
    if (!schedule_one(ctx, f)) return NULL;
    HostPlan *plan = ARENA_NEW(ctx->stage, HostPlan);
    plan->module = fm->m;
    uint32_t *buffer_of = lower_func(ctx, plan, f);
    PassContext quiet = *ctx;
    quiet.keep_remarks = false;
    if (!ctx->disabled[PASS_cone]) cone_program(&quiet, f, plan->programs.data[0], buffer_of);
    if (!ctx->disabled[PASS_connect]) connect_program(&quiet, plan, f, plan->programs.data[0], buffer_of);
    memplan_program(ctx->stage, plan->programs.data[0], !ctx->disabled[PASS_memplan]);
    return plan->programs.data[0];
}

static void print_graph(const void *module, StrBuf *out) { ir_print(module, out); }

/* ---- the column behind schedule ------------------------------------------------------------------------------- */

static bool run_lower(Lowering *x)
{
    for (uint32_t i = 0; i < x->fm->funcs.n; i++) x->buffer_of[i] = lower_func(x->ctx, x->plan, x->fm->funcs.data[i]);
    return true;
}

static bool run_share(Lowering *x) { return share_plan(x->ctx, x->fm, x->plan); }

static bool run_weave(Lowering *x)
{
    if (!x->ctx->disabled[PASS_weave]) weave_plan(x->ctx, x->fm, x->plan);
    return true;
}

static bool run_cone(Lowering *x)
{
    for (uint32_t i = 0; i < x->fm->funcs.n && !x->ctx->disabled[PASS_cone]; i++)
        cone_program(x->ctx, x->fm->funcs.data[i], x->plan->programs.data[i], x->buffer_of[i]);
    return true;
}

static bool run_connect(Lowering *x)
{
    for (uint32_t i = 0; i < x->fm->funcs.n && !x->ctx->disabled[PASS_connect]; i++)
        connect_program(x->ctx, x->plan, x->fm->funcs.data[i], x->plan->programs.data[i], x->buffer_of[i]);
    return true;
}

static bool run_memplan(Lowering *x)
{
    for (uint32_t i = 0; i < x->plan->programs.n; i++)
        memplan_program(x->ctx->stage, x->plan->programs.data[i], !x->ctx->disabled[PASS_memplan]);
    return true;
}

static const struct {
    PassId pass;
    bool (*run)(Lowering *x);
    PassPrint *print; /* of what it makes */
} column[] = {
    {PASS_lower, run_lower, print_kernels},
    {PASS_share, run_share, print_kernels},
    {PASS_weave, run_weave, print_kernels},
    {PASS_cone, run_cone, print_plan},
    {PASS_connect, run_connect, print_plan},
    {PASS_memplan, run_memplan, print_plan},
};

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
    HostPlan *plan = ARENA_NEW(ctx->stage, HostPlan);
    StrBuf schedule = {.arena = ctx->stage};
    schedule_print(fm, &schedule);
    plan->module = fm->m;
    plan->schedule = strbuf_cstr(&schedule);
    Lowering x = {ctx, fm, plan, ARENA_ARRAY(ctx->stage, uint32_t *, fm->funcs.n + 1)};
    for (unsigned i = 0; i < sizeof column / sizeof *column; i++) {
        pass_begin(ctx, column[i].pass, i ? column[i].print : schedule_print, i ? (void *)plan : (void *)fm);
        if (!column[i].run(&x)) return NULL;
        pass_end(ctx, column[i].pass, column[i].print, plan);
    }
    const char *wrong = audit_plan(ctx->stage, plan, fm, x.buffer_of);
    if (wrong) ICE(wrong);
    return plan;
}
