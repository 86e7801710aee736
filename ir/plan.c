/* The host plan as text: `.plan` dumps and the formula of the peak. It never changes a plan. */
#include "ir/plan.h"
#include "base/str.h"
#include <inttypes.h>

static const char *const kind_names[] = {
    [PLAN_ARENA] = "arena", [PLAN_TENSOR] = "tensor", [PLAN_RESULT] = "result", [PLAN_COTANGENT] = "cotangent",
    [PLAN_SEED] = "seed", [PLAN_STEP] = "step", [PLAN_MAP_TO] = "to", [PLAN_MAP_ROWS] = "rows",
    [PLAN_MAP_LIST] = "list", [PLAN_IDS] = "ids", [PLAN_MAP_ALONG] = "to"};
static const char *const base_names[] = {"i1", "i8", "i32", "i64", "f32", "f64"};

static void put_count(const HostPlan *p, const PlanCount *c, StrBuf *out)
{
    const char *space = c->kind == PLAN_CONST ? "" : p->module->spaces.data[c->space].name;
    switch (c->kind) {
    case PLAN_CONST: strbuf_printf(out, "%" PRId64, c->value); break;
    case PLAN_COUNT: strbuf_puts(out, space); break;
    case PLAN_BLOCKS: case PLAN_BLOCK_ROWS:
        strbuf_printf(out, "%s(%s, %" PRId64, c->kind == PLAN_BLOCKS ? "blocks" : "block_rows", space, c->block);
        if (c->max != INT64_MAX) strbuf_printf(out, ", %" PRId64, c->max);
        strbuf_puts(out, ")");
        break;
    }
}

const char *plan_peak_text(const HostPlan *p, const PlanProgram *prog, Arena *a)
{
    StrBuf out = {.arena = a};
    int64_t konst = 0;
    VEC(PlanSlot) sums = {0};
    for (uint32_t i = 0; i < prog->slots.n; i++) {
        const PlanSlot *s = &prog->slots.data[i];
        if (s->rows.kind == PLAN_CONST) {
            konst += (s->rows.value * s->row_bytes + 63) / 64 * 64;
            continue;
        }
        uint32_t k = 0;
        for (; k < sums.n; k++) {
            const PlanCount *x = &sums.data[k].rows, *y = &s->rows;
            if (x->kind == y->kind && x->space == y->space && x->block == y->block && x->max == y->max) break;
        }
        if (k < sums.n) sums.data[k].row_bytes += s->row_bytes;
        else VEC_PUSH(a, &sums, *s);
    }
    for (uint32_t i = 0; i < sums.n; i++) {
        strbuf_printf(&out, "%s%" PRId64 "*", i ? " + " : "", sums.data[i].row_bytes);
        put_count(p, &sums.data[i].rows, &out);
    }
    if (konst || !sums.n) strbuf_printf(&out, "%s%" PRId64, sums.n ? " + " : "", konst);
    if (sums.n) strbuf_printf(&out, " bytes, each of %u slots rounded up to 64", prog->slots.n);
    else strbuf_puts(&out, " bytes");
    return strbuf_cstr(&out);
}

static void print_buffer(const HostPlan *p, const PlanProgram *prog, uint32_t i, StrBuf *out)
{
    const PlanBuffer *b = &prog->buffers.data[i];
    strbuf_printf(out, "  buffer %u %s %s: [", i, kind_names[b->kind], b->name ? b->name : "");
    put_count(p, &b->rows, out);
    if (b->kind == PLAN_MAP_ROWS) strbuf_puts(out, "+1");
    strbuf_printf(out, "][%" PRId64 "] %s", b->width, base_names[b->elem]);
    if (b->kind == PLAN_MAP_ALONG) strbuf_printf(out, ", along %s", p->module->maps.data[b->along].name);
    if (b->kind == PLAN_ARENA && b->slot != UINT32_MAX)
        strbuf_printf(out, ", slot %u, steps %u-%u", b->slot, b->first, b->last);
    strbuf_puts(out, "\n");
}

static void print_gemm(const HostPlan *p, const PlanGemm *g, StrBuf *out)
{
    if (!g->present) return;
    strbuf_printf(out, "    product %s: b%u, b%u -> b%u, rows ", g->transposed_a ? "TN" : "NN", g->a, g->b, g->c);
    put_count(p, &g->rows, out);
    if (g->transposed_a) {
        strbuf_printf(out, ", m %" PRId64 ", n %" PRId64 ", blocks ", g->m, g->n);
        put_count(p, &g->blocks, out);
    } else {
        strbuf_printf(out, ", n %" PRId64 ", k %" PRId64, g->n, g->k);
    }
    strbuf_printf(out, ", %s\n", base_names[g->elem]);
}

static void print_step(const HostPlan *p, const PlanProgram *prog, uint32_t i, StrBuf *out)
{
    const PlanStep *s = &prog->steps.data[i];
    strbuf_printf(out, "  step %u %s(", i, p->kernels.data[s->kernel]->name);
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
    strbuf_printf(out, ": %s\n", s->label ? s->label : "");
    for (uint32_t k = 0; k < s->cost.n; k++) {
        strbuf_puts(out, "    per ");
        put_count(p, &s->cost.data[k].count, out);
        strbuf_printf(out, ": %" PRId64 " bytes, %" PRId64 " flops", s->cost.data[k].bytes, s->cost.data[k].flops);
        if (s->cost.data[k].map != IR_NONE)
            strbuf_printf(out, ", rows of %s by %s", p->module->spaces.data[s->cost.data[k].table].name,
                          p->module->maps.data[s->cost.data[k].map].name);
        strbuf_puts(out, "\n");
    }
    print_gemm(p, &s->gemm, out);
}

void plan_print(const HostPlan *p, StrBuf *out)
{
    for (uint32_t i = 0; i < p->programs.n; i++) {
        const PlanProgram *prog = p->programs.data[i];
        strbuf_printf(out, "%sprogram %s\n", i ? "\n" : "", prog->name);
        for (uint32_t k = 0; k < prog->buffers.n; k++) print_buffer(p, prog, k, out);
        for (uint32_t k = 0; k < prog->steps.n; k++) print_step(p, prog, k, out);
        strbuf_printf(out, "  peak %s\n", plan_peak_text(p, prog, out->arena));
    }
}
