/* Sums that each process makes of its own rows (--sums=local, see ranks.h): what travels is one sum of each process, not
   the operands of all.

     total    leaves of 512 of the rows that a process owns, in its blocks, whose sums it merges as one process does;
              then all processes merge theirs, from the first to the last
     column   the elements that a process owns, in its order; likewise

   Longer sums are merged by slices: each process gets a slice of all sums, merges it and sends it to all. An element has
   the same bits either way, and in all processes. */
#include "runtime/blocks.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <string.h>

static const char what[] = "sums of several processes";

enum { SLICED_FROM = 4096 }; /* bytes of a sum */

/* ---- merging ----------------------------------------------------------------------------------------------------- */

#define MERGE(T)                                                                                                       \
    {                                                                                                                  \
        T *x = to;                                                                                                     \
        const T *y = from;                                                                                             \
        if (how == RT_ADDS)                                                                                            \
            for (int64_t i = 0; i < n; i++) x[i] += y[i];                                                              \
        else if (how == RT_MULTIPLIES)                                                                                 \
            for (int64_t i = 0; i < n; i++) x[i] *= y[i];                                                              \
        else if (how == RT_RAISES)                                                                                     \
            for (int64_t i = 0; i < n; i++) x[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i]; /* NaN stays */          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) x[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i];                          \
    }

/* to[i] = to[i] and from[i] together, of n elements. */
static void merge(int64_t how, int64_t elem, void *to, const void *from, int64_t n)
{
    switch (elem) {
    case RT_K_F32: MERGE(float) break;
    case RT_K_F64: MERGE(double) break;
    case RT_K_I32: MERGE(int32_t) break;
    default: MERGE(int64_t) break;
    }
}

static bool can_merge(const RtStep *s, int64_t how, int64_t elem)
{
    /* a maximum of no elements of a row has a number of its own, which is no maximum of others */
    bool known = s->work == RT_TOTALS ? how >= RT_ADDS : how == RT_ADDS;
    return known && (elem == RT_K_F32 || elem == RT_K_F64 || elem == RT_K_I32 || elem == RT_K_I64);
}

bool rt_partial_can(const RtAcross *a, int64_t step)
{
    const RtStep *s = across_def(a, step);
    if (!a->r->local_sums) return false;
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = &a->e->model->touches[s->first_touch + i];
        if (t->writes && !can_merge(s, t->writes, across_buffer(a, t->buffer)->elem)) return false;
    }
    return true;
}

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

static int64_t sum_count(const RtAcross *a, const RtDivided *d, int64_t i)
{
    const RtBuffer *b = across_buffer(a, d->results[i]);
    return across_def(a, d->step)->work == RT_TOTALS ? b->width : d->to * b->width;
}

static int64_t elem_bytes(const RtAcross *a, const RtDivided *d, int64_t i)
{
    return rt_elem_bytes(across_buffer(a, d->results[i])->elem);
}

bool rt_partial_is_sliced(const RtAcross *a, const RtDivided *d, int64_t i)
{
    return a->r->n > 2 && sum_count(a, d, i) * elem_bytes(a, d, i) >= SLICED_FROM;
}

/* Elements from slice[rank] of the i-th sum on are this process's to merge. */
static int64_t slice(const RtAcross *a, const RtDivided *d, int64_t i, int rank)
{
    return sum_count(a, d, i) * rank / a->r->n;
}

/* Elements that this process sends of the i-th sum: those that others merge, and what it has merged. */
void rt_partial_counts(const RtAcross *a, const RtDivided *d, int64_t i, int64_t *sent, int64_t *merged)
{
    int64_t n = sum_count(a, d, i), own = slice(a, d, i, a->r->rank + 1) - slice(a, d, i, a->r->rank);
    bool sliced = rt_partial_is_sliced(a, d, i);
    *sent = sliced ? n - own : n * (a->r->n - 1);
    *merged = sliced ? own * (a->r->n - 1) : 0;
}

RtCode rt_partial_make(RtAcross *a, RtDivided *d, RtStatus *st)
{
    const RtStep *s = across_def(a, d->step);
    const RtCount *extent = &rt_step_call(a->e->model, s)->extent;
    RT_TRY(take(d, s->n_touches, 8, &d->merges, st));
    for (int64_t i = 0, n = 0; i < s->n_touches; i++) {
        const RtTouch *t = &a->e->model->touches[s->first_touch + i];
        if (t->writes) d->merges[n++] = t->writes;
    }
    d->to = a->r->graph->spaces[s->over].count;
    if (s->work == RT_TOTALS) {
        RtBlocks own = rt_blocks(a->r->spaces[s->over].owned, extent->block, extent->max);
        assert(own.slots <= rt_blocks(a->r->spaces[s->over].total, extent->block, extent->max).slots);
        d->to = own.n; /* which may be more than one process makes of all */
    }
    if (s->work == RT_SUMS) RT_TRY(list_elements(a, d, st));
    for (int64_t i = 0; i < d->n_results; i++) {
        int64_t own = slice(a, d, i, a->r->rank + 1) - slice(a, d, i, a->r->rank);
        int64_t n = rt_partial_is_sliced(a, d, i) ? own : sum_count(a, d, i);
        int64_t bytes = rt_size(rt_size(n, a->r->n), elem_bytes(a, d, i));
        if (bytes < 0) return rt_memory_check(bytes, what, st);
        if (bytes > a->room_bytes) a->room_bytes = bytes;
    }
    return RT_OK;
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
            x->args[k].p = d->image_at[b->ref];
        } else if (s->work == RT_SUMS && b && b->ref == s->under && b->kind == RT_BUF_MAP_ROWS) {
            x->args[k].p = d->row_starts;
        } else if (s->work == RT_SUMS && b && b->ref == s->under && b->kind == RT_BUF_MAP_LIST) {
            x->args[k].p = d->elements;
        }
    }
}

/* Sums of blocks, as a tree of neighbours. */
static void merge_blocks(const RtAcross *a, const RtDivided *d, int64_t i)
{
    const RtBuffer *b = across_buffer(a, d->results[i]);
    char *sums = a->e->buffers[d->results[i]];
    int64_t w = across_row_bytes(a, d->results[i]);
    for (int64_t near = 1; near < d->to; near *= 2)
        for (int64_t k = 0; k + near < d->to; k += 2 * near)
            merge(d->merges[i], b->elem, sums + k * w, sums + (k + near) * w, b->width);
}

/* All processes get the i-th sum of all of them. */
static RtCode merge_all(RtAcross *a, const RtDivided *d, int64_t i, RtStatus *st)
{
    RtRanks *r = a->r;
    const RtBuffer *b = across_buffer(a, d->results[i]);
    int64_t each = elem_bytes(a, d, i), out[RT_PEERS_MOST], in[RT_PEERS_MOST], first = 0, n = sum_count(a, d, i);
    char *sums = a->e->buffers[d->results[i]], *got = across_room(a);
    bool sliced = rt_partial_is_sliced(a, d, i);
    if (sliced) {
        first = slice(a, d, i, r->rank);
        n = slice(a, d, i, r->rank + 1) - first;
    }
    for (int q = 0; q < r->n; q++) {
        out[q] = (slice(a, d, i, q + 1) - slice(a, d, i, q)) * each;
        in[q] = n * each;
    }
    if (sliced) RT_TRY(rt_peers_exchange(r->peers, a->operands_site, sums, out, got, in, st));
    else RT_TRY(rt_peers_gather(r->peers, a->operands_site, sums, in, got, st));
    for (int q = 1; q < r->n; q++) merge(d->merges[i], b->elem, got, got + q * n * each, n);
    memcpy(sums + first * each, got, (size_t)(n * each));
    return sliced ? rt_peers_gather(r->peers, a->results_site, NULL, out, sums, st) : RT_OK;
}

RtCode rt_partial_run(RtAcross *a, RtDivided *d, RtStatus *st)
{
    rt_divided_iterate(a, d);
    for (int64_t i = 0; i < d->n_results; i++) {
        if (across_def(a, d->step)->work == RT_TOTALS) merge_blocks(a, d, i);
        RT_TRY(merge_all(a, d, i, st));
    }
    return RT_OK;
}
