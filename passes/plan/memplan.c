/* memplan: lives of arena buffers over the steps. Each becomes a slot, and slots whose lives do not overlap may share
   memory: offsets are packed when a graph is loaded and sizes are known (runtime/pack.h).

     %4 [node][64] live 0-2, %9 [node][16] live 3-5   ->  both at offset 0
   A result's memory, which the caller gives, holds nothing until the result is written: values as large as it lie there
   while they live, one after another.

     %4 [node][64] live 0-2, result y [node][64] written in step 3   ->  %4 lies in y
   All sizes stay formulas: no count is known here. */
#include "base/ice.h"
#include "passes/plan/planning.h"

static void find_lives(PlanProgram *p)
{
    for (uint32_t i = 0; i < p->buffers.n; i++) p->buffers.data[i].first = UINT32_MAX, p->buffers.data[i].last = 0;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const PlanChain *chain = plan_chain(p, s);
        uint32_t first = chain ? chain->first : s, last = chain ? chain->first + chain->n - 1 : s;
        for (uint32_t k = 0; k < p->steps.data[s].args.n; k++) {
            const PlanArg *arg = &p->steps.data[s].args.data[k];
            if (!arg->is_buffer) continue;
            PlanBuffer *b = &p->buffers.data[arg->buffer];
            ICE_UNLESS(b->first == UINT32_MAX || b->first <= first); /* steps come in their order */
            if (b->first == UINT32_MAX) b->first = first;
            b->last = last;
        }
    }
}

/* ---- guests of results ---------------------------------------------------------------------------------------------- */

static bool live_together(const PlanBuffer *a, const PlanBuffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The same bytes, whatever the counts. */
static bool is_as_large(const PlanBuffer *a, const PlanBuffer *b)
{
    ICE_UNLESS(a->width >= 0 && b->width >= 0);
    return a->rows.kind == PLAN_COUNT && plan_same_count(&a->rows, &b->rows) && a->width < INT32_MAX &&
           b->width < INT32_MAX &&
           a->width * (int64_t)kir_base_bytes(a->elem) == b->width * (int64_t)kir_base_bytes(b->elem);
}

/* A step that leaves rows out relies on these rows being 0 in every run: its value keeps memory of its own. */
static bool may_be_guest(const PlanBuffer *b)
{
    return b->kind == PLAN_ARENA && b->first != UINT32_MAX && b->writer == UINT32_MAX;
}

static bool has_room(const PlanProgram *p, const PlanBuffer *result, const PlanBuffer *b)
{
    if (result->kind != PLAN_RESULT || result->guest || result->first == UINT32_MAX || b->last >= result->first ||
        !is_as_large(b, result))
        return false;
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        const PlanBuffer *other = &p->buffers.data[i];
        if (other->guest && other->ref == result->ref && live_together(other, b)) return false;
    }
    return true;
}

/* Of the results with room the one that is written first: the others take in what lives longer. */
static void lodge(PlanProgram *p, PlanBuffer *b)
{
    const PlanBuffer *best = NULL;
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        const PlanBuffer *r = &p->buffers.data[i];
        if (has_room(p, r, b) && (!best || r->first < best->first)) best = r;
    }
    if (!best) return;
    b->kind = PLAN_RESULT;
    b->ref = best->ref;
    b->guest = true;
}

/* What lives longest first, for it is in the way at the most steps; of equal ones the last: what is behind it may not fit. */
static void lodge_all(Arena *a, PlanProgram *p)
{
    bool *asked = ARENA_ARRAY(a, bool, p->buffers.n + 1);
    for (;;) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < p->buffers.n; i++) {
            const PlanBuffer *b = &p->buffers.data[i], *most = best == UINT32_MAX ? NULL : &p->buffers.data[best];
            if (asked[i] || !may_be_guest(b)) continue;
            if (!most || b->last - b->first >= most->last - most->first) best = i;
        }
        if (best == UINT32_MAX) return;
        asked[best] = true;
        lodge(p, &p->buffers.data[best]);
    }
}

/* ---- slots ------------------------------------------------------------------------------------------------------------ */

/* Constant rows are part of the width: one row. */
static PlanSlot shape_of(const PlanBuffer *b)
{
    ICE_UNLESS(b->first <= b->last);
    PlanSlot s = {.rows = b->rows, .first = b->first, .last = b->last};
    int64_t width = b->width;
    if (s.rows.kind == PLAN_CONST) {
        if (__builtin_mul_overflow(width, s.rows.value, &width)) width = INT64_MAX / 64;
        s.rows.value = 1;
    }
    if (__builtin_mul_overflow(width, (int64_t)kir_base_bytes(b->elem), &s.row_bytes)) s.row_bytes = INT64_MAX / 8;
    return s;
}

void memplan_program(Arena *a, PlanProgram *p, bool share)
{
    ICE_UNLESS(!p->slots.n);
    find_lives(p);
    if (share) lodge_all(a, p);
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        PlanBuffer *b = &p->buffers.data[i];
        if (b->kind != PLAN_ARENA || b->first == UINT32_MAX) continue;
        PlanSlot s = shape_of(b);
        if (!share) s.first = 0, s.last = p->steps.n;
        b->slot = p->slots.n;
        VEC_PUSH(a, &p->slots, s);
    }
}
