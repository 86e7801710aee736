/* The host plan as text: `.plan` dumps and the formula of the peak. It never changes a plan. */
#include "ir/plan.h"
#include "base/ice.h"
#include "base/str.h"
#include <inttypes.h>

static const char *const kind_names[] = {
    [PLAN_ARENA] = "arena",   [PLAN_TENSOR] = "tensor", [PLAN_RESULT] = "result", [PLAN_COTANGENT] = "cotangent",
    [PLAN_SEED] = "seed",     [PLAN_STEP] = "step",     [PLAN_MAP_TO] = "to",     [PLAN_MAP_ROWS] = "rows",
    [PLAN_MAP_LIST] = "list", [PLAN_IDS] = "ids",       [PLAN_MAP_ALONG] = "to",  [PLAN_STRIP] = "strip",
    [PLAN_STATE] = "state"};
static const char *const block_names[] = {"blocks", "block_rows", "block_levels", "block_slots"};

static void put_count(const HostPlan *p, const PlanCount *c, StrBuf *out)
{
    bool of_space = c->kind != PLAN_CONST && c->kind != PLAN_AHEAD && c->kind != PLAN_SPLIT;
    const char *space = of_space ? p->module->spaces.data[c->space].name : "";
    switch (c->kind) {
    case PLAN_CONST: strbuf_printf(out, "%" PRId64, c->value); break;
    case PLAN_AHEAD: strbuf_printf(out, "ahead(%" PRId64 ")", c->value); break;
    case PLAN_SPLIT: strbuf_puts(out, "blocks of split rows"); break;
    case PLAN_COUNT: strbuf_puts(out, space); break;
    case PLAN_BLOCKS:
    case PLAN_BLOCK_ROWS:
    case PLAN_BLOCK_LEVELS:
    case PLAN_BLOCK_SLOTS:
        strbuf_printf(out, "%s(%s, %" PRId64, block_names[c->kind - PLAN_BLOCKS], space, c->block);
        if (c->max != INT64_MAX) strbuf_printf(out, ", %" PRId64, c->max);
        strbuf_puts(out, ")");
        break;
    }
}

/* ---- the peak ---- */

typedef struct Live { /* bytes of the slots that live at a step: konst + row_bytes of each kind of rows */
    int64_t konst;
    VEC(PlanSlot) sums;
} Live;

static bool same_rows(const PlanCount *x, const PlanCount *y)
{
    return x->kind == y->kind && x->space == y->space && x->block == y->block && x->max == y->max;
}

static Live live_at(const PlanProgram *prog, uint32_t step, Arena *a)
{
    Live l = {0};
    for (uint32_t i = 0; i < prog->slots.n; i++) {
        const PlanSlot *s = &prog->slots.data[i];
        ICE_UNLESS(s->first <= s->last);
        if (s->first > step || s->last < step) continue;
        if (s->rows.kind == PLAN_CONST) {
            l.konst += (s->rows.value * s->row_bytes + 63) / 64 * 64;
            continue;
        }
        uint32_t k = 0;
        while (k < l.sums.n && !same_rows(&l.sums.data[k].rows, &s->rows)) k++;
        if (k < l.sums.n) l.sums.data[k].row_bytes += s->row_bytes;
        else VEC_PUSH(a, &l.sums, *s);
    }
    return l;
}

/* Whatever the counts, y needs as much as x: every sum of x is in y and no larger. */
static bool is_within(const Live *x, const Live *y)
{
    if (x->konst > y->konst) return false;
    for (uint32_t i = 0; i < x->sums.n; i++) {
        uint32_t k = 0;
        while (k < y->sums.n && !same_rows(&x->sums.data[i].rows, &y->sums.data[k].rows)) k++;
        if (k == y->sums.n || x->sums.data[i].row_bytes > y->sums.data[k].row_bytes) return false;
    }
    return true;
}

static void put_live(const HostPlan *p, const Live *l, StrBuf *out)
{
    for (uint32_t i = 0; i < l->sums.n; i++) {
        strbuf_printf(out, "%s%" PRId64 "*", i ? " + " : "", l->sums.data[i].row_bytes);
        put_count(p, &l->sums.data[i].rows, out);
    }
    if (l->konst || !l->sums.n) strbuf_printf(out, "%s%" PRId64, l->sums.n ? " + " : "", l->konst);
}

const char *plan_peak_text(const HostPlan *p, const PlanProgram *prog, Arena *a)
{
    StrBuf out = {.arena = a};
    VEC(Live) peaks = {0};
    for (uint32_t step = 0; step < prog->steps.n; step++) {
        Live l = live_at(prog, step, a);
        bool within = false;
        uint32_t n = 0;
        for (uint32_t i = 0; i < peaks.n && !within; i++) within = is_within(&l, &peaks.data[i]);
        if (within) continue;
        for (uint32_t i = 0; i < peaks.n; i++)
            if (!is_within(&peaks.data[i], &l)) peaks.data[n++] = peaks.data[i];
        peaks.n = n;
        VEC_PUSH(a, &peaks, l);
    }
    if (peaks.n > 1) strbuf_puts(&out, "max(");
    for (uint32_t i = 0; i < peaks.n; i++) {
        if (i) strbuf_puts(&out, ", ");
        put_live(p, &peaks.data[i], &out);
    }
    strbuf_puts(&out, peaks.n > 1 ? ") bytes" : peaks.n ? " bytes" : "0 bytes");
    return strbuf_cstr(&out);
}

static void print_buffer(const HostPlan *p, const PlanProgram *prog, uint32_t i, StrBuf *out)
{
    const PlanBuffer *b = &prog->buffers.data[i];
    ICE_UNLESS((size_t)b->kind < sizeof kind_names / sizeof *kind_names && kind_names[b->kind]);
    strbuf_printf(out, "  buffer %u %s %s: [", i, kind_names[b->kind], b->name ? b->name : "");
    put_count(p, &b->rows, out);
    if (b->kind == PLAN_MAP_ROWS) strbuf_puts(out, "+1");
    strbuf_printf(out, "][%" PRId64 "] %s", b->width, kir_base_name(b->elem));
    if (b->kind == PLAN_MAP_ALONG) strbuf_printf(out, ", along %s", p->module->maps.data[b->along].name);
    if (b->kind == PLAN_ARENA && b->slot != UINT32_MAX)
        strbuf_printf(out, ", slot %u, steps %u-%u", b->slot, b->first, b->last);
    strbuf_puts(out, "\n");
}

static void print_gemm(const HostPlan *p, const PlanGemm *g, StrBuf *out)
{
    strbuf_printf(out, "    product %s: b%u, b%u -> b%u, rows ", g->transposed_a ? "TN" : "NN", g->a, g->b, g->c);
    put_count(p, &g->rows, out);
    if (g->transposed_a) {
        strbuf_printf(out, ", m %" PRId64 ", n %" PRId64 ", blocks ", g->m, g->n);
        put_count(p, &g->blocks, out);
    } else {
        strbuf_printf(out, ", n %" PRId64 ", k %" PRId64, g->n, g->k);
    }
    strbuf_printf(out, ", %s\n", kir_base_name(g->elem));
}

static void print_set(const HostPlan *p, const PlanProgram *prog, uint32_t i, StrBuf *out)
{
    const PlanSet *s = &prog->sets.data[i];
    const IrModule *m = p->module;
    strbuf_printf(out, "  set %u rows of %s: ", i, m->spaces.data[s->space].name);
    switch (s->kind) {
    case PLAN_SET_EMPTY: strbuf_puts(out, "none"); break;
    case PLAN_SET_MASK: strbuf_printf(out, "where tensor %s", m->tensors.data[s->ref].name); break;
    case PLAN_SET_IMAGE: strbuf_printf(out, "%s of s%u", m->maps.data[s->ref].name, s->a); break;
    case PLAN_SET_ORIGIN: strbuf_printf(out, "with %s in s%u", m->maps.data[s->ref].name, s->a); break;
    case PLAN_SET_EITHER: strbuf_printf(out, "s%u or s%u", s->a, s->b); break;
    case PLAN_SET_BOTH: strbuf_printf(out, "s%u and s%u", s->a, s->b); break;
    case PLAN_SET_WALK: strbuf_printf(out, "s%u and long rows of %s", s->a, m->maps.data[s->ref].name); break;
    }
    strbuf_puts(out, "\n");
}

static void print_cone(const PlanCone *c, StrBuf *out)
{
    if (c->rows == PLAN_SET_ALL) return;
    strbuf_printf(out, "    needs rows s%u", c->rows);
    if (c->walk != PLAN_SET_ALL) strbuf_printf(out, ", elements s%u", c->walk);
    strbuf_puts(out, "\n");
}

static void print_call(const HostPlan *p, const PlanStep *s, StrBuf *out)
{
    ICE_UNLESS(s->kernel < p->kernels.n);
    strbuf_printf(out, "%s(", p->kernels.data[s->kernel].variants[PLAN_WIDE]->name);
    for (uint32_t k = 0; k < s->args.n; k++) {
        const PlanArg *a = &s->args.data[k];
        if (k) strbuf_puts(out, ", ");
        if (a->is_buffer) strbuf_printf(out, "b%u", a->buffer);
        else put_count(p, &a->count, out);
    }
    strbuf_puts(out, ") over ");
    put_count(p, &s->extent, out);
    strbuf_printf(out, ", grain %" PRId64, s->grain);
    if (s->cut != IR_NONE) strbuf_printf(out, ", cut %s", p->module->maps.data[s->cut].name);
}

/* shared: sums for rows of node under edge.dst; reads b4 at edge.src of elements linearly, writes b7 at rows */
static void print_work(const HostPlan *p, const PlanStep *s, StrBuf *out)
{
    static const char *const works[] = {"the same everywhere", "rows of", "sums for rows of", "totals over", "apart"};
    static const char *const places[] = {"rows", "elements", "all rows"};
    static const char *const accesses[] = {"reads", "writes", "adds to", "multiplies", "raises", "lowers"};
    const IrModule *m = p->module;
    strbuf_printf(out, "    shared: %s", works[s->work]);
    if (s->over != IR_NONE) strbuf_printf(out, " %s", m->spaces.data[s->over].name);
    if (s->under != IR_NONE) strbuf_printf(out, " under %s", m->maps.data[s->under].name);
    for (uint32_t i = 0; i < s->touches.n; i++) {
        const PlanTouch *x = &s->touches.data[i];
        strbuf_printf(out, "%s %s b%u at ", i ? "," : ";", accesses[x->writes], x->buffer);
        if (x->image != IR_NONE) strbuf_printf(out, "%s of ", m->maps.data[x->image].name);
        strbuf_puts(out, places[x->at]);
        if (x->how == PLAN_LINEAR) strbuf_puts(out, " linearly");
        if (x->how == PLAN_ALONE) strbuf_puts(out, " alone");
    }
    strbuf_puts(out, "\n");
}

static void print_step(const HostPlan *p, const PlanProgram *prog, uint32_t i, StrBuf *out)
{
    const PlanStep *s = &prog->steps.data[i];
    const PlanChain *chain = plan_chain(prog, i);
    strbuf_printf(out, "  step %u ", i);
    print_call(p, s, out);
    strbuf_printf(out, ": %s\n", s->label ? s->label : "");
    for (uint32_t k = 0; k < s->cost.n; k++) {
        strbuf_puts(out, "    per ");
        put_count(p, &s->cost.data[k].count, out);
        strbuf_printf(out, ": %" PRId64 " bytes, %" PRId64 " flops", s->cost.data[k].bytes, s->cost.data[k].flops);
        if (s->cost.data[k].table != IR_NONE)
            strbuf_printf(out, ", rows of %s", p->module->spaces.data[s->cost.data[k].table].name);
        strbuf_puts(out, "\n");
    }
    print_work(p, s, out);
    if (s->kind == PLAN_STEP_PRODUCT) print_gemm(p, &s->gemm, out);
    print_cone(&s->cone, out);
    const PlanSplit *split = plan_split(s);
    if (split)
        strbuf_printf(out, "    very long rows in parts by %s, %u walk%s\n", p->splits.data[split->kernel]->name,
                      split->walks, split->walks > 1 ? "s" : "");
    if (chain && chain->first == i)
        strbuf_printf(out, "    with the next %u by strips of %" PRId64 " rows\n", chain->n - 1, chain->strip);
}

void plan_print(const HostPlan *p, StrBuf *out)
{
    for (uint32_t i = 0; i < p->programs.n; i++) {
        const PlanProgram *prog = p->programs.data[i];
        strbuf_printf(out, "%sprogram %s\n", i ? "\n" : "", prog->name);
        for (uint32_t k = 0; k < prog->buffers.n; k++) print_buffer(p, prog, k, out);
        for (uint32_t k = 0; k < prog->sets.n; k++) print_set(p, prog, k, out);
        for (uint32_t k = 0; k < prog->steps.n; k++) print_step(p, prog, k, out);
        strbuf_printf(out, "  peak %s\n", plan_peak_text(p, prog, out->arena));
    }
}

void plan_print_kernels(const HostPlan *p, StrBuf *out)
{
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        if (i) strbuf_puts(out, "\n");
        kir_print(p->kernels.data[i].variants[PLAN_WIDE], out);
        if (!p->kernels.data[i].variants[PLAN_NARROW]) continue;
        strbuf_puts(out, "\n");
        kir_print(p->kernels.data[i].variants[PLAN_NARROW], out);
    }
    for (uint32_t i = 0; i < p->splits.n; i++) {
        strbuf_puts(out, "\n");
        kir_print(p->splits.data[i], out);
    }
}
