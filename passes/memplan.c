/* memplan: lives of arena buffers over the steps, and slots for them. Buffers share a slot when their lives do not
   overlap and the same formula gives their rows; a slot is as wide as the widest of them.

     %4 [node][64] live 0-2, %9 [node][16] live 3-5   ->  slot 0: node rows of 256 bytes, for both
   All sizes stay formulas: no count is known here. */
#include "base/ice.h"
#include "passes/lower.h"

static bool same_rows(const PlanCount *a, const PlanCount *b)
{
    return a->kind == b->kind && a->space == b->space && a->value == b->value && a->block == b->block &&
           a->max == b->max;
}

static void find_lives(PlanProgram *p)
{
    for (uint32_t i = 0; i < p->buffers.n; i++) p->buffers.data[i].first = UINT32_MAX, p->buffers.data[i].last = 0;
    for (uint32_t s = 0; s < p->steps.n; s++)
        for (uint32_t k = 0; k < p->steps.data[s].args.n; k++) {
            const PlanArg *arg = &p->steps.data[s].args.data[k];
            if (!arg->is_buffer) continue;
            PlanBuffer *b = &p->buffers.data[arg->buffer];
            if (b->first == UINT32_MAX) b->first = s;
            b->last = s;
        }
}

/* Constant rows are part of the width: one row. */
static PlanSlot shape_of(const PlanBuffer *b)
{
    PlanSlot s = {.rows = b->rows};
    int64_t width = b->width;
    if (s.rows.kind == PLAN_CONST) {
        if (__builtin_mul_overflow(width, s.rows.value, &width)) width = INT64_MAX / 64;
        s.rows.value = 1;
    }
    if (__builtin_mul_overflow(width, (int64_t)kir_base_bytes(b->elem), &s.row_bytes)) s.row_bytes = INT64_MAX / 8;
    return s;
}

/* The free slot of the same rows that is widest but no wider than needed, or the narrowest wider one. */
static uint32_t find_slot(const PlanProgram *p, const uint32_t *free_from, const PlanSlot *want, uint32_t step)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < p->slots.n; i++) {
        const PlanSlot *s = &p->slots.data[i];
        if (free_from[i] > step || !same_rows(&s->rows, &want->rows)) continue;
        if (best == UINT32_MAX) {
            best = i;
            continue;
        }
        int64_t b = p->slots.data[best].row_bytes;
        bool fits = s->row_bytes >= want->row_bytes, best_fits = b >= want->row_bytes;
        if (fits ? !best_fits || s->row_bytes < b : !best_fits && s->row_bytes > b) best = i;
    }
    return best;
}

void memplan_program(Arena *a, PlanProgram *p, bool share)
{
    find_lives(p);
    uint32_t *free_from = ARENA_ARRAY(a, uint32_t, p->buffers.n + 1); /* by slot: first step it is free at */
    for (uint32_t step = 0; step < p->steps.n; step++)
        for (uint32_t i = 0; i < p->buffers.n; i++) {
            PlanBuffer *b = &p->buffers.data[i];
            if (b->kind != PLAN_ARENA || b->first != step) continue;
            PlanSlot want = shape_of(b);
            b->slot = share ? find_slot(p, free_from, &want, step) : UINT32_MAX;
            if (b->slot == UINT32_MAX) {
                b->slot = p->slots.n;
                VEC_PUSH(a, &p->slots, want);
            }
            PlanSlot *s = &p->slots.data[b->slot];
            if (s->row_bytes < want.row_bytes) s->row_bytes = want.row_bytes;
            free_from[b->slot] = b->last + 1;
        }
}
