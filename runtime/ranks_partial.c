/* Sums that each process makes of its own rows (--sums=local, see ranks.h): what travels is one sum of each process,
   not the operands of all.

     total    leaves of 512 of the rows that a process owns, in its blocks, whose sums it merges as one process does;
              then all processes merge theirs, as the same tree would blocks (ranks_merge.c)
     column   the elements that a process owns, in its order; likewise */
#include "runtime/ranks_part.h"
#include <assert.h>

/* ---- making ------------------------------------------------------------------------------------------------------ */

static RtCode take(RtDivided *d, int64_t n, int64_t each, void *out, RtStatus *st)
{
    return rt_divided_take(d, n, each, out, st);
}

/* The owned elements of each row, and their images where the kernel has these in that order. */
static RtCode list_elements(const RtAcross *a, RtDivided *d, RtStatus *st)
{
    const RtStep *s = across_def(a, d->step);
    const RtMapData *under = &a->r->graph->maps[s->under];
    const RtCall *c = rt_step_call(a->e->model, s);
    int64_t owned = a->r->spaces[a->e->model->maps[s->under].from].owned, n = 0;
    RT_TRY(take(d, d->to + 64, 8, &d->row_starts, st));
    RT_TRY(take(d, owned + 64, 4, &d->elements, st));
    RT_TRY(take(d, a->e->model->n_maps, sizeof *d->image_at, &d->image_at, st));
    for (int64_t v = 0; v < d->to; v++) {
        for (int64_t k = under->rows[v]; k < under->rows[v + 1]; k++) {
            int64_t e = under->list ? under->list[k] : k;
            if (e < owned) d->elements[n++] = (int32_t)e;
        }
        d->row_starts[v + 1] = n;
    }
    d->n_rows = n;
    for (int64_t k = 0; k < c->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
        const RtBuffer *b = arg->is_buffer ? across_buffer(a, arg->buffer) : NULL;
        if (!b || b->kind != RT_BUF_MAP_ALONG || b->along != s->under || d->image_at[b->ref]) continue;
        RT_TRY(take(d, n + 64, 4, &d->image_at[b->ref], st));
        for (int64_t i = 0; i < n; i++) d->image_at[b->ref][i] = a->r->graph->maps[b->ref].to[d->elements[i]];
    }
    return RT_OK;
}

RtCode rt_partial_make(RtAcross *a, RtDivided *d, RtStatus *st)
{
    const RtStep *s = across_def(a, d->step);
    const RtCount *extent = &rt_step_call(a->e->model, s)->extent;
    d->own = true;
    d->to = a->r->graph->spaces[s->over].count;
    if (s->work == RT_TOTALS) {
        RtBlocks own = rt_blocks(a->r->spaces[s->over].owned, extent->block, extent->max);
        assert(own.slots <= rt_blocks(a->r->spaces[s->over].total, extent->block, extent->max).slots);
        d->to = own.n; /* which may be more than one process makes of all */
    }
    if (s->work == RT_SUMS) RT_TRY(list_elements(a, d, st));
    for (int q = 0; q <= a->r->n; q++) d->bounds[q] = q;
    d->n_units = a->r->n;
    return rt_merge_make(a, d, st);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The kernel's arguments: this process's blocks of its own rows, or its own elements. */
void rt_partial_bind(RtAcross *a, RtDivided *d)
{
    RtExecStep *x = &a->e->steps[d->step];
    const RtStep *s = across_def(a, d->step);
    for (int64_t k = 0; k < x->call->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[x->call->first_arg + k];
        const RtCount *c = &arg->count;
        const RtBuffer *b = arg->is_buffer ? across_buffer(a, arg->buffer) : NULL;
        bool along = b && b->kind == RT_BUF_MAP_ALONG && b->along == s->under;
        if (s->work == RT_TOTALS && !b && c->space == s->over && c->kind >= RT_COUNT_BLOCKS &&
            c->kind <= RT_COUNT_BLOCK_LEVELS) {
            RtBlocks blocks = rt_blocks(a->r->spaces[s->over].owned, c->block, c->max);
            x->args[k].i = c->kind == RT_COUNT_BLOCKS       ? blocks.n
                           : c->kind == RT_COUNT_BLOCK_ROWS ? blocks.rows
                                                            : blocks.levels;
        } else if (s->work == RT_TOTALS && !b && c->kind == RT_COUNT_SPACE && c->space == s->over) {
            x->args[k].i = a->r->spaces[s->over].owned;
        } else if (s->work == RT_SUMS && !b && c->kind == RT_COUNT_SPACE &&
                   c->space == a->e->model->maps[s->under].from) {
            x->args[k].i = d->n_rows;
        } else if (along) {
            x->args[k].p = rt_staging_table(a, d, d->image_at[b->ref]);
        } else if (s->work == RT_SUMS && b && b->ref == s->under && b->kind == RT_BUF_MAP_ROWS) {
            x->args[k].p = rt_staging_table(a, d, d->row_starts);
        } else if (s->work == RT_SUMS && b && b->ref == s->under && b->kind == RT_BUF_MAP_LIST) {
            x->args[k].p = rt_staging_table(a, d, d->elements);
        }
    }
}

RtCode rt_partial_run(RtAcross *a, RtDivided *d, RtStatus *st)
{
    rt_divided_iterate(a, d);
    for (int64_t i = 0; i < d->n_results; i++) RT_TRY(rt_merge_run(a, d, i, st));
    return RT_OK;
}
