/* share: steps whose kernels have the same code share one, whatever their values are called: the steps of an unrolled
   cell, layers of one width. Kernels are numbered anew.

     step 0: f_map   step 1: f_rows   step 2: f_map_2, the code of f_map   ->   0: f_map   1: f_rows   2: f_map
   What later passes are to do with a kernel counts as its code. Never looks at what a kernel does. */
#include "base/str.h"
#include "passes/kernel/kernel_passes.h"

typedef struct Share {
    PassContext *ctx;
    StrMap known; /* code -> index + 1 */
    uint32_t n;   /* kernels so far */
    bool failed;
} Share;

/* The number of the kernel with this code, x->n where it is new. narrow: its form for few registers, or NULL. */
static uint32_t number_of(Share *x, const KirKernel *k, const KirKernel *narrow, int64_t woven)
{
    StrBuf code = {.arena = x->ctx->stage};
    strbuf_printf(&code, "woven %lld ", (long long)woven);
    kir_print_code(k, &code);
    if (narrow) kir_print_code(narrow, &code);
    uintptr_t known = x->ctx->disabled[PASS_share] ? 0 : (uintptr_t)strmap_get(&x->known, strbuf_cstr(&code));
    if (known) return (uint32_t)known - 1;
    x->failed |= !kir_verify(k, x->ctx->diags) || (narrow && !kir_verify(narrow, x->ctx->diags));
    strmap_put(&x->known, strbuf_cstr(&code), (void *)(uintptr_t)(x->n + 1)); /* NOLINT: an index as a pointer */
    return x->n;
}

static void share_step(Share *rows, Share *parts, HostPlan *plan, PlanStep *step, int64_t woven)
{
    PlanKernel forms = plan->kernels.data[step->kernel];
    KirKernel *k = forms.variants[PLAN_WIDE], *narrow = forms.variants[PLAN_NARROW];
    step->kernel = number_of(rows, k, narrow, woven);
    if (step->kernel == rows->n) plan->kernels.data[rows->n++] = forms;
    PlanSplit *split = plan_split(step);
    if (!split) return;
    k = plan->splits.data[split->kernel];
    split->kernel = number_of(parts, k, NULL, woven);
    if (split->kernel < parts->n) return;
    plan->splits.data[parts->n++] = k;
}

bool share_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan)
{
    Share rows = {.ctx = ctx, .known.arena = ctx->stage}, parts = rows;
    for (uint32_t i = 0; i < plan->programs.n; i++)
        for (uint32_t s = 0; s < plan->programs.data[i]->steps.n; s++) {
            PlanStep *step = &plan->programs.data[i]->steps.data[s];
            share_step(&rows, &parts, plan, step, fm->funcs.data[i]->tiles->group[0][step->group].woven);
        }
    plan->kernels.n = rows.n;
    plan->splits.n = parts.n;
    return !rows.failed && !parts.failed;
}
