/* The end of a kernel: its name, its costs, and its place in the plan; kernels for few registers stand beside those for
   many. */
#include "base/ice.h"
#include <ctype.h>
#include "passes/lower/lower_kernel.h"

/* Called with the same arguments, in the same order. */
static bool same_arguments(const Lower *l, const KirKernel *k, const PlanStep *step)
{
    if (k->params.n != l->kernel->params.n || step->args.n != l->step->args.n) return false;
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KirParam *p = &k->params.data[i], *q = &l->kernel->params.data[i];
        const PlanArg *a = &step->args.data[i], *b = &l->step->args.data[i];
        if (p->kind != q->kind || p->elem != q->elem || a->is_buffer != b->is_buffer) return false;
        if (a->is_buffer ? a->buffer != b->buffer : !plan_same_count(&a->count, &b->count)) return false;
    }
    return plan_same_count(&step->extent, &l->step->extent);
}

/* The waiting kernel, if it can stand for this one. */
static KirKernel *narrow_kernel(Lower *l)
{
    const KirKernel *k = l->lf->waiting;
    l->lf->waiting = NULL;
    if (!k || !same_arguments(l, k, l->lf->waiting_step)) return NULL;
    KirKernel *copy = ARENA_NEW(l->arena, KirKernel);
    *copy = *k;
    return copy;
}

/* "gat_forward_rows": for which layer, in which function, over what. The second such kernel has a 2 behind it. */
static const char *kernel_name(Lower *l, const char *kind)
{
    const char *layer = l->step->span.layer;
    char *name = arena_printf(l->arena, "%.20s%s%.24s_%s", layer ? layer : "", layer ? "_" : "", l->lf->prog->name,
                              kind);
    for (char *p = name; *p; p++) /* of a test the name is a text */
        if (!isalnum((unsigned char)*p)) *p = '_';
    if (isdigit((unsigned char)*name)) *name = '_';
    uintptr_t n = (uintptr_t)strmap_get(l->lf->names, name) + 1;
    strmap_put(l->lf->names, name, (void *)n); /* NOLINT: a count as a pointer */
    return n == 1 ? name : arena_printf(l->arena, "%s_%u", name, (unsigned)n);
}

static uint32_t join_plan(Lower *l, const char *kind)
{
    HostPlan *plan = l->lf->plan;
    KirKernel *narrow = narrow_kernel(l);
    l->kernel->name = kernel_name(l, kind);
    const Source *source = l->step->span.source;
    l->kernel->comment = l->step->label;
    if (source) {
        uint32_t line, col;
        const char *folder = strrchr(source->path, '/');
        source_line_col(source, l->step->span.begin, &line, &col);
        l->kernel->comment = arena_printf(l->arena, "%s, %s:%u", l->step->label, folder ? folder + 1 : source->path,
                                          line);
    }
    if (narrow) {
        narrow->name = arena_printf(l->arena, "%s_narrow", l->kernel->name);
        narrow->comment = arena_printf(l->arena, "%s; for 16 vector registers", l->kernel->comment);
    }
    VEC_PUSH(l->arena, &plan->kernels, ((PlanKernel){{[PLAN_WIDE] = l->kernel, [PLAN_NARROW] = narrow}}));
    return plan->kernels.n - 1;
}

void lower_finish(Lower *l, const char *kind)
{
    const Group *g = &l->f->groups.data[l->g];
    PlanStep *s = l->step;
    ICE_UNLESS(l->e.scopes.n == 1 && !l->images.n && !l->stage_at.n && l->filling == IR_NONE);
    s->span = fused_op(l->f, g->roots.data[0])->span;
    s->nan_value = l->root != IR_NONE ? l->root : g->roots.data[0];
    s->label = lower_label(l->lf, l->g, l->root, kind);
    if (!s->cost.n && !l->split) lower_costs(l);
    for (uint32_t i = 0; i < l->memos.n; i++) l->lf->first_memo[l->memos.data[i].v] = 0;
    if (l->split) {
        split_finish(l);
        return;
    }
    if (l->lf->for_narrow) {
        l->lf->waiting = l->kernel;
        l->lf->waiting_step = s;
        return;
    }
    s->kernel = join_plan(l, kind);
    VEC_PUSH(l->arena, &l->lf->prog->steps, *s);
}

void lower_kernels(LowerFunc *lf, uint32_t g, void (*make)(LowerFunc *lf, uint32_t g, void *user), void *user)
{
    lf->for_narrow = lf->f->tiles->narrow[g];
    if (lf->for_narrow) make(lf, g, user);
    lf->for_narrow = false;
    make(lf, g, user);
}
