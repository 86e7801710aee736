/* memplan: lives of arena buffers over the steps. Each becomes a slot, and slots whose lives do not overlap may share
   memory: offsets are packed when a graph is loaded and sizes are known (runtime/pack.h).

     %4 [node][64] live 0-2, %9 [node][16] live 3-5   ->  both at offset 0
     %4 [node][64] live 0-2, result y [node][64] written in step 3   ->  %4 in the memory of y, which the caller gives
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
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        PlanBuffer *b = &p->buffers.data[i];
        if (b->kind != PLAN_ARENA || b->first == UINT32_MAX) continue;
        PlanSlot s = shape_of(b);
        if (!share) s.first = 0, s.last = p->steps.n;
        b->slot = p->slots.n;
        VEC_PUSH(a, &p->slots, s);
    }
}
