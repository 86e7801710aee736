/* Steps whose iterations processes share (RtDivided, see ranks.h).

     total    one process: leaves of 512 rows in 12 blocks, whose sums are merged as a tree
              3 processes: rows of blocks 0 to 3, 4 to 7, 8 to 11 are sent to one each, in the order of one process;
              then they merge the sums together (ranks_merge.c). Many processes cut the tree into more
              blocks than one does

   The kernels are those of one process: what they address as row i of all rows is a row of what was received. */
#include "runtime/blocks.h"
#include "runtime/cuda.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "rows of other processes", ways[] = "it reads rows of one value in more than two ways";

RtCode rt_divided_take(RtDivided *d, int64_t n, int64_t each, void *out, RtStatus *st)
{
    if (d->n_blocks == d->cap_blocks) {
        int64_t cap = d->cap_blocks ? 2 * d->cap_blocks : 16;
        RT_TRY(rt_grow(&d->blocks, cap, sizeof *d->blocks, what, st));
        d->cap_blocks = cap;
    }
    RT_TRY(rt_block_alloc(&d->blocks[d->n_blocks], rt_size_plus(64, n, each), what, st));
    memcpy(out, &d->blocks[d->n_blocks++].p, sizeof(void *));
    return RT_OK;
}

static RtCode take(RtDivided *d, int64_t n, int64_t each, void *out, RtStatus *st)
{
    return rt_divided_take(d, n, each, out, st);
}

static RtCode refuse(const RtAcross *a, int64_t step, const char *why, RtStatus *st)
{
    const RtModel *m = a->e->model;
    return rt_fail(st, RT_E_RANKS_REFUSED, rt_string(m, a->e->program->name), NULL,
                   "`%s` cannot be shared by processes: %s", rt_string(m, across_def(a, step)->label), why);
}

static bool is_written(const RtAcross *a, int64_t from, int64_t to, int64_t buffer)
{
    for (int64_t s = from; s < to; s++)
        if (across_writes(a, s, buffer)) return true;
    return false;
}

/* What the step itself makes before it reads it is no operand. */
static bool touch_is_sent(const RtAcross *a, int64_t step, const RtTouch *t)
{
    const RtBuffer *b = across_buffer(a, t->buffer);
    if (across_writes(a, step, t->buffer) && !is_written(a, 0, step, t->buffer)) return false;
    return !t->writes && b->rows.kind == RT_COUNT_SPACE && a->r->spaces[b->rows.space].shared;
}

/* ---- where one process stores a row ------------------------------------------------------------------------------ */

/* Of edges: those of targets before its own, and those before it in its row. */
static RtCode place_edges(RtAcross *a, const RtGraphDef *d, RtStatus *st)
{
    RtRanks *r = a->r;
    const RtRankSpace *nodes = &r->spaces[d->dst_space];
    RtRankSpace *s = &r->spaces[d->edge];
    const int32_t *dst = r->graph->maps[d->dst].to;
    RtBlock scratch, all = {0};
    int64_t bytes[2][RT_PEERS_MOST], n = nodes->owned;
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size(n, 16), nodes->total + 1, 8), what, st));
    int64_t *mine = scratch.p, *starts = mine + 2 * n, owned = 16 * n;
    for (int64_t v = 0; v < n; v++) mine[2 * v] = nodes->keys[v];
    for (int64_t e = 0; e < s->owned; e++) mine[2 * dst[e] + 1]++;
    for (int q = 0; q < r->n; q++) bytes[0][q] = 8;
    RtCode code = rt_peers_gather(r->peers, RT_SITE_SETUP, &owned, bytes[0], bytes[1], st);
    if (!code) code = rt_block_alloc(&all, rt_size(nodes->total, 16), what, st);
    if (!code) code = rt_peers_gather(r->peers, RT_SITE_SETUP, mine, bytes[1], all.p, st);
    const int64_t *pairs = all.p;
    for (int64_t i = 0; !code && i < nodes->total; i++) starts[pairs[2 * i] + 1] = pairs[2 * i + 1];
    for (int64_t v = 0; v < nodes->total; v++) starts[v + 1] += starts[v];
    if (!code) code = rt_block_alloc(&s->blocks[3], rt_size_plus(8, s->owned, 8), what, st);
    s->at = s->blocks[3].p;
    for (int64_t e = 0; !code && e < s->owned; e++) s->at[e] = starts[nodes->keys[dst[e]]]++;
    rt_block_free(&scratch);
    rt_block_free(&all);
    return code;
}

static int compare_keys(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Of pairs of rows and keys: those of all processes that come before its own, which stand as their keys do. */
static RtCode place_pairs(RtAcross *a, int64_t space, RtStatus *st)
{
    RtRanks *r = a->r;
    RtRankSpace *s = &r->spaces[space];
    RtBlock all = {0};
    int64_t bytes[2][RT_PEERS_MOST], owned = 8 * s->owned;
    RT_TRY(rt_space_keys(r, space, st));
    for (int q = 0; q < r->n; q++) bytes[0][q] = 8;
    RT_TRY(rt_peers_gather(r->peers, RT_SITE_SETUP, &owned, bytes[0], bytes[1], st));
    RtCode code = rt_block_alloc(&all, rt_size_plus(8, s->total, 8), what, st);
    if (!code) code = rt_peers_gather(r->peers, RT_SITE_SETUP, s->keys, bytes[1], all.p, st);
    if (!code) code = rt_block_alloc(&s->blocks[3], rt_size_plus(8, s->owned, 8), what, st);
    if (!code) qsort(all.p, (size_t)s->total, 8, compare_keys);
    s->at = s->blocks[3].p;
    for (int64_t i = 0; !code && i < s->owned; i++)
        s->at[i] = (int64_t *)bsearch(&s->keys[i], all.p, (size_t)s->total, 8, compare_keys) - (int64_t *)all.p;
    rt_block_free(&all);
    return code;
}

static RtCode find_places(RtAcross *a, int64_t step, int64_t space, RtStatus *st)
{
    const RtModel *m = a->e->model;
    if (a->r->spaces[space].at || !m->spaces[space].is_edge) return RT_OK; /* nodes and graphs: their ids */
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].edge == space)
            return m->graphs[i].kind == RT_GRAPH_KEYED ? place_pairs(a, space, st) : place_edges(a, &m->graphs[i], st);
    return refuse(a, step, "it sums all stored elements of a matrix", st);
}

/* ---- what is sent ------------------------------------------------------------------------------------------------ */

static RtSent *sent_find(const RtDivided *d, int64_t buffer)
{
    for (int64_t i = 0; i < d->n_sent; i++)
        if (d->sent[i].buffer == buffer) return &d->sent[i];
    return NULL;
}

static RtCode add_sent(RtAcross *a, RtDivided *d, const RtTouch *t, RtStatus *st)
{
    RtSent *x = &d->sent[d->n_sent];
    for (int64_t i = 0; i < d->n_sent; i++) {
        RtSent *y = &d->sent[i];
        if (y->buffer != t->buffer) continue;
        if (y->image == t->image || y->other == t->image) return RT_OK;
        if (y->other != RT_NO_OTHER) return refuse(a, d->step, ways, st);
        y->other = t->image;
        return RT_OK;
    }
    d->n_sent++;
    const RtBuffer *b = across_buffer(a, t->buffer);
    int64_t kind = b->kind == RT_BUF_TENSOR ? a->e->model->tensors[b->ref].kind : RT_PARAM;
    *x = (RtSent){.buffer = t->buffer,
                  .image = t->image,
                  .other = RT_NO_OTHER,
                  .row_bytes = across_row_bytes(a, t->buffer),
                  .once = kind == RT_INPUT || kind == RT_HELD};
    return RT_OK;
}

static void sent_rows(RtSent *x, const RtShip *ship, int64_t n, int64_t first)
{
    x->ship = ship;
    x->n = n;
    x->first = first;
}

/* Finds what an earlier step was sent that x is, too. */
static void share_sent(RtAcross *a, const RtDivided *d, RtSent *x)
{
    x->last = d->step;
    for (RtDivided *e = a->divided; e < d && !x->of; e++)
        for (int64_t k = 0; k < e->n_sent && !x->of; k++) {
            RtSent *y = &e->sent[k];
            bool same = y->buffer == x->buffer && y->image == x->image && y->other == x->other && y->ship == x->ship &&
                        !y->of;
            if (same && !is_written(a, e->step, d->step, x->buffer)) x->of = y;
        }
    if (x->of) x->of->last = d->step;
}

static int32_t part_of(const int64_t *bounds, int64_t i)
{
    int32_t q = 0;
    assert(i >= bounds[0]);
    while (bounds[q + 1] <= i) q++;
    return q;
}

/* 0, 1, 2, ... where the step's kernel asks for maps of its rows, and from `first` on where it asks for ids. */
static RtCode make_counting(RtAcross *a, RtDivided *d, int64_t first, RtStatus *st)
{
    const RtCall *c = rt_step_call(a->e->model, across_def(a, d->step));
    bool maps = false, ids = false;
    int32_t *count;
    for (int64_t k = 0; k < c->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
        int64_t kind = arg->is_buffer ? across_buffer(a, arg->buffer)->kind : RT_BUF_ARENA;
        maps |= kind == RT_BUF_MAP_TO || kind == RT_BUF_MAP_LIST;
        ids |= kind == RT_BUF_IDS;
    }
    if (maps) RT_TRY(take(d, d->n_rows + 64, 4, &count, st));
    for (int64_t i = 0; maps && i < d->n_rows + 64; i++) count[i] = (int32_t)(d->first + i);
    if (maps) d->counting = (int32_t *)((uintptr_t)count - (uintptr_t)(4 * d->first));
    bool behind = d->aside && !d->images;
    if (behind) RT_TRY(take(d, d->n_rows + 64, 4, &d->behind, st));
    for (int64_t i = 0; behind && i < d->n_rows + 64; i++) d->behind[i] = (int32_t)(d->first + d->n_rows + i);
    if (behind) d->behind = (int32_t *)((uintptr_t)d->behind - (uintptr_t)(4 * d->first));
    if (ids) RT_TRY(take(d, d->n_rows + 64, 8, &d->ids, st));
    for (int64_t i = 0; ids && i < d->n_rows + 64; i++) d->ids[i] = first + i;
    if (ids) d->ids = (int64_t *)((uintptr_t)d->ids - (uintptr_t)(8 * d->first));
    return RT_OK;
}

/* Finds the maps that are aside: under one of the two ways of each value, and under no way that is the first. */
static RtCode choose_ways(const RtAcross *a, RtDivided *d, RtStatus *st)
{
    for (int64_t i = 0; i < d->n_sent; i++) {
        RtSent *x = &d->sent[i];
        if (x->other == RT_NO_OTHER) continue;
        if (!d->aside) RT_TRY(take(d, a->e->model->n_maps, sizeof *d->aside, &d->aside, st));
        if (x->other < 0 || (x->image >= 0 && d->aside[x->image])) {
            int64_t first = x->other;
            x->other = x->image;
            x->image = first;
        }
        d->aside[x->other] = true;
    }
    for (int64_t i = 0; d->aside && i < d->n_sent; i++) {
        const RtSent *x = &d->sent[i];
        if (x->other != RT_NO_OTHER && x->image >= 0 && d->aside[x->image]) return refuse(a, d->step, ways, st);
    }
    return RT_OK;
}

/* Rows of all processes before those of block i. */
static int64_t rows_before(const RtBlocks *b, int64_t total, int64_t i)
{
    return i * b->rows < total ? i * b->rows : total;
}

/* Owned rows to whose block one process has them in: equal ones are made once. */
static RtCode total_ship(RtAcross *a, int64_t space, const int64_t *bounds, int64_t block_rows, const RtShip **ship,
                         RtStatus *st)
{
    RtRanks *r = a->r;
    const RtRankSpace *s = &r->spaces[space];
    RtTotalShip *t = r->totals;
    RtBlock scratch;
    while (t && (t->space != space || t->block_rows != block_rows)) t = t->next;
    if (t) {
        *ship = &t->ship;
        return RT_OK;
    }
    RT_TRY(rt_block_alloc(&scratch, rt_size(s->owned, 20), what, st));
    int64_t *rows = scratch.p, *to = rows + s->owned;
    int32_t *receivers = (int32_t *)(to + s->owned);
    for (int64_t i = 0; i < s->owned; i++) {
        int64_t at = s->at ? s->at[i] : s->keys[i];
        rows[i] = i;
        receivers[i] = part_of(bounds, at / block_rows);
        to[i] = at - bounds[receivers[i]] * block_rows;
    }
    RtCode code = rt_alloc(&t, 1, sizeof *t, what, st);
    if (!code) {
        *t = (RtTotalShip){.space = space, .block_rows = block_rows, .next = r->totals};
        r->totals = t;
        code = rt_ship_push(r, s->owned, rows, receivers, to, &t->ship, st);
        *ship = &t->ship;
    }
    rt_block_free(&scratch);
    return code;
}

/* One ship for a value that is read in two ways: to each process go the rows of `image`, then those of `other`, whose
   places are `behind` rows farther. */
static RtCode join_ways(RtAcross *a, RtDivided *d, RtSent *x, const RtShip *one, const RtShip *two, int64_t behind,
                        RtStatus *st)
{
    const RtShip *of[] = {one, two};
    const int64_t maps[] = {x->image, x->other};
    int64_t n_out = one->n_out + two->n_out, n_in = one->n_in + two->n_in, at[2] = {0}, from[2] = {0}, out = 0, in = 0;
    RtShip *s;
    x->joins = one;
    for (RtDivided *e = a->divided; e < d; e++)
        for (int64_t k = 0; k < e->n_sent; k++) {
            const RtSent *y = &e->sent[k];
            if (y->joins != one || y->image != x->image || y->other != x->other) continue;
            x->ship = y->ship;
            return RT_OK;
        }
    RT_TRY(take(d, 1, sizeof *s, &s, st));
    RT_TRY(take(d, a->r->n, 8, &s->out_n, st));
    RT_TRY(take(d, a->r->n, 8, &s->in_n, st));
    RT_TRY(take(d, n_out, 8, &s->out, st));
    RT_TRY(take(d, n_in, 8, &s->in, st));
    for (int q = 0; q < a->r->n; q++)
        for (int i = 0; i < 2; i++) {
            const int32_t *image = d->images || maps[i] < 0 ? NULL : a->r->graph->maps[maps[i]].to;
            for (int64_t k = 0; k < of[i]->out_n[q]; k++, from[i]++)
                s->out[out++] = image ? image[of[i]->out[from[i]]] : of[i]->out[from[i]];
            for (int64_t k = 0; k < of[i]->in_n[q]; k++) s->in[in++] = of[i]->in[at[i]++] + (i ? behind : 0);
            s->out_n[q] += of[i]->out_n[q];
            s->in_n[q] += of[i]->in_n[q];
        }
    s->n_out = n_out;
    s->n_in = n_in;
    s->n_own = one->n_own + two->n_own;
    assert(out == n_out && in == n_in && s->n_own == s->out_n[a->r->rank]);
    x->ship = s;
    return RT_OK;
}

/* Which rows of an operand's value travel, and how the kernel calls them. */
static RtCode send_total(RtAcross *a, RtDivided *d, RtSent *x, const RtShip *ship, RtStatus *st)
{
    const RtMapDef *maps = a->e->model->maps;
    const int64_t ways_of[] = {x->image, x->other};
    bool behind = d->aside && x->image >= 0 && d->aside[x->image];
    sent_rows(x, ship, d->n_rows, d->first + (behind ? d->n_rows : 0));
    for (int i = 0; i < 2; i++) {
        if (ways_of[i] < 0) continue;
        x->late |= !maps[ways_of[i]].sorted;
        if (maps[ways_of[i]].partial) return refuse(a, d->step, "not every row has an image", st);
    }
    if (x->other != RT_NO_OTHER) {
        x->n = 2 * d->n_rows;
        return join_ways(a, d, x, ship, ship, d->n_rows, st);
    }
    if (x->image < 0) return RT_OK;
    int64_t *images;
    RT_TRY(take(d, ship->n_out, 8, &images, st));
    for (int64_t k = 0; k < ship->n_out; k++) images[k] = a->r->graph->maps[x->image].to[ship->out[k]];
    x->rows = images;
    return RT_OK;
}

/* Blocks of rows are shared out, and owned rows go where one process has them. */
static RtCode make_total(RtAcross *a, RtDivided *d, RtStatus *st)
{
    RtRanks *r = a->r;
    int64_t space = across_def(a, d->step)->over;
    const RtRankSpace *s = &r->spaces[space];
    const RtCount *extent = &rt_step_call(a->e->model, across_def(a, d->step))->extent;
    bool merges = rt_merge_can(a, d->step);
    RtBlocks b = rt_blocks(s->total, extent->block, merges ? rt_merge_blocks_most(a, extent->max) : extent->max);
    RT_TRY(find_places(a, d->step, space, st));
    for (int q = 0; q <= r->n; q++) d->bounds[q] = b.n * q / r->n;
    d->cut = b;
    d->n_units = b.n;
    d->from = d->bounds[r->rank];
    d->to = d->bounds[r->rank + 1];
    d->first = rows_before(&b, s->total, d->from);
    d->n_rows = rows_before(&b, s->total, d->to) - d->first;
    if (d->aside && s->total > INT32_MAX / 2 - 64) return refuse(a, d->step, ways, st);
    const RtShip *ship;
    RT_TRY(total_ship(a, space, d->bounds, b.rows, &ship, st));
    if (ship->n_in != d->n_rows)
        return rt_fail(st, RT_E_RANKS_PARTS, NULL, "make the parts again: gnnc data partition",
                       "%lld rows of a block of %lld have owners", (long long)ship->n_in, (long long)d->n_rows);
    int64_t first = d->first;
    if (merges) { /* in memory that is planned for the blocks of one process */
        RT_TRY(rt_merge_make(a, d, st));
        d->to -= d->from;
        d->from = d->first = 0;
        assert(d->to * (1 + b.levels) <= rt_blocks(s->total, extent->block, extent->max).slots);
    }
    for (int64_t i = 0; i < d->n_sent; i++) RT_TRY(send_total(a, d, &d->sent[i], ship, st));
    return make_counting(a, d, first, st);
}

/* ---- sums for rows that every process has ------------------------------------------------------------------------ */

typedef struct Element {
    int64_t row, key, arrived;
} Element;

static int compare_elements(const void *a, const void *b)
{
    const Element *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Numbers of owned elements, one each, to where the elements go. */
static RtCode send_numbers(RtAcross *a, const RtDivided *d, const int64_t *from, int64_t *to, RtStatus *st)
{
    return rt_ship_run(a->r, &d->rows, RT_SITE_SETUP, from, to, 8, st);
}

/* The elements that arrive, in the order of one process: by row, each in the user's order. */
static RtCode order_elements(RtAcross *a, RtDivided *d, const int64_t *row_of, RtStatus *st)
{
    const RtStep *s = across_def(a, d->step);
    int64_t n = d->n_rows = d->rows.n_in, n_rows = a->r->graph->spaces[s->over].count;
    RtBlock scratch;
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size(n, 8), n, sizeof(Element)), what, st));
    int64_t *rows = scratch.p;
    Element *list = (Element *)(rows + n);
    RtShip arrival = d->rows;
    RtCode code = take(d, n, 8, &arrival.in, st);
    for (int64_t i = 0; !code && i < n; i++) arrival.in[i] = i;
    RtShip keys = d->rows;
    d->rows = arrival;
    if (!code) code = send_numbers(a, d, row_of, rows, st);
    d->rows = keys;
    for (int64_t i = 0; !code && i < n; i++) list[i] = (Element){rows[i], keys.in[i], i};
    if (!code) qsort(list, (size_t)n, sizeof *list, compare_elements);
    for (int64_t i = 0; !code && i < n; i++) d->rows.in[list[i].arrived] = i;
    if (!code) code = take(d, n_rows + 1, 8, &d->row_starts, st);
    for (int64_t i = 0; !code && i < n; i++) d->row_starts[list[i].row + 1]++;
    for (int64_t i = 0; !code && i < n_rows; i++) d->row_starts[i + 1] += d->row_starts[i];
    rt_block_free(&scratch);
    return code;
}

typedef struct Image {
    int64_t key, owner, element;
} Image;

static int compare_images(const void *a, const void *b)
{
    const Image *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Distinct images of this process's elements, which are asked for from who owns them. */
static RtCode ask_images(RtAcross *a, RtDivided *d, int64_t map, const int64_t *keys, const int64_t *owners,
                         RtStatus *st)
{
    int64_t n = d->n_rows, n_images = 0, space = a->e->model->maps[map].to;
    RtBlock scratch;
    RT_TRY(rt_block_alloc(&scratch, rt_size(n, sizeof(Image) + 20), what, st));
    Image *list = scratch.p;
    int64_t *asked = (int64_t *)(list + n), *to = asked + n;
    int32_t *of = (int32_t *)(to + n);
    RtCode code = take(d, n + 64, 4, &d->image_at[map], st);
    for (int64_t i = 0; i < n; i++) list[i] = (Image){keys[i], owners[i], i};
    qsort(list, (size_t)n, sizeof *list, compare_images);
    for (int64_t i = 0; !code && i < n; i++) {
        if (!i || list[i].key != list[i - 1].key) {
            asked[n_images] = list[i].key;
            of[n_images] = (int32_t)list[i].owner;
            to[n_images] = n_images;
            n_images++;
        }
        d->image_at[map][list[i].element] = (int32_t)(n_images - 1);
    }
    assert(n_images <= n && (n_images || !n));
    d->n_images[map] = n_images;
    if (!code) code = rt_ship_ask(a->r, space, n_images, asked, of, to, &d->images[map], st);
    rt_block_free(&scratch);
    return code;
}

static RtCode make_images(RtAcross *a, RtDivided *d, int64_t map, int64_t owned, RtStatus *st)
{
    const RtModel *m = a->e->model;
    const RtRankSpace *s = &a->r->spaces[m->maps[map].to];
    const int32_t *to = a->r->graph->maps[map].to;
    RtBlock scratch;
    RT_TRY(rt_space_keys(a->r, m->maps[map].to, st));
    if (m->maps[map].partial) return refuse(a, d->step, "not every element has an image", st);
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size(owned, 16), d->n_rows, 16), what, st));
    int64_t *keys = scratch.p, *owners = keys + owned, *got = owners + owned, *got_owners = got + d->n_rows;
    for (int64_t e = 0; e < owned; e++) {
        keys[e] = s->keys[to[e]];
        owners[e] = to[e] < s->owned ? a->r->rank : s->owner[to[e] - s->owned];
    }
    RtCode code = send_numbers(a, d, keys, got, st);
    if (!code) code = send_numbers(a, d, owners, got_owners, st);
    if (!code) code = ask_images(a, d, map, got, got_owners, st);
    rt_block_free(&scratch);
    return code;
}

/* As send_total, of distinct images. Those under maps that are aside are counted from `behind` on, the most rows that
   any other operand has. */
static RtCode send_column(RtAcross *a, RtDivided *d, RtStatus *st)
{
    int64_t behind = d->n_rows;
    for (int64_t m = 0; m < a->e->model->n_maps; m++)
        if (d->aside && d->image_at[m] && !d->aside[m] && d->n_images[m] > behind) behind = d->n_images[m];
    for (int64_t m = 0; m < a->e->model->n_maps; m++)
        for (int64_t i = 0; d->aside && d->image_at[m] && d->aside[m] && i < d->n_rows; i++)
            d->image_at[m][i] += (int32_t)behind;
    for (int64_t i = 0; i < d->n_sent; i++) {
        RtSent *x = &d->sent[i];
        const RtShip *ship = x->image < 0 ? &d->rows : &d->images[x->image];
        sent_rows(x, ship, ship->n_in, d->aside && x->image >= 0 && d->aside[x->image] ? behind : 0);
        if (x->other == RT_NO_OTHER) continue;
        x->n = behind + d->images[x->other].n_in;
        RT_TRY(join_ways(a, d, x, ship, &d->images[x->other], behind, st));
    }
    return RT_OK;
}

/* Rows are shared out, and owned elements go to whose row they are summed for. */
static RtCode make_column(RtAcross *a, RtDivided *d, RtStatus *st)
{
    RtRanks *r = a->r;
    const RtModel *m = a->e->model;
    const RtStep *step = across_def(a, d->step);
    const RtRankSpace *s = &r->spaces[m->maps[step->under].from];
    const int32_t *to = r->graph->maps[step->under].to;
    int64_t n_rows = r->graph->spaces[step->over].count, n = 0;
    RtBlock scratch;
    if (d->aside && s->total > INT32_MAX / 2) return refuse(a, d->step, ways, st);
    RT_TRY(rt_space_keys(r, m->maps[step->under].from, st));
    for (int q = 0; q <= r->n; q++) d->bounds[q] = n_rows * q / r->n;
    d->from = d->bounds[r->rank];
    d->to = d->bounds[r->rank + 1];
    RT_TRY(rt_alloc(&d->images, m->n_maps, sizeof *d->images, what, st));
    RT_TRY(take(d, m->n_maps, 8, &d->n_images, st));
    RT_TRY(take(d, m->n_maps, sizeof *d->image_at, &d->image_at, st));
    RT_TRY(rt_block_alloc(&scratch, rt_size(s->owned, 28), what, st));
    int64_t *rows = scratch.p, *keys = rows + s->owned, *row_of = keys + s->owned;
    int32_t *receivers = (int32_t *)(row_of + s->owned);
    for (int64_t e = 0; e < s->owned; e++) {
        row_of[e] = to[e];
        if (to[e] < 0) continue;
        rows[n] = e;
        keys[n] = s->keys[e];
        receivers[n++] = part_of(d->bounds, to[e]);
    }
    RtCode code = rt_ship_push(r, n, rows, receivers, keys, &d->rows, st);
    if (!code) code = order_elements(a, d, row_of, st);
    rt_block_free(&scratch);
    for (int64_t i = 0; i < d->n_sent && !code; i++) {
        const int64_t ways_of[] = {d->sent[i].image, d->sent[i].other};
        for (int k = 0; k < 2 && !code; k++)
            if (ways_of[k] >= 0 && !d->image_at[ways_of[k]]) code = make_images(a, d, ways_of[k], s->owned, st);
    }
    if (!code) code = send_column(a, d, st);
    d->back = (RtShip){.out_n = d->rows.in_n,
                       .in_n = d->rows.out_n,
                       .n_out = d->rows.n_in,
                       .n_in = d->rows.n_out,
                       .n_own = d->rows.n_own,
                       .out = d->rows.in,
                       .in = d->rows.out};
    for (int64_t i = 0; i < d->n_returned; i++) {
        sent_rows(&d->returned[i], &d->back, d->n_rows, 0);
        d->returned[i].of = sent_find(d, d->returned[i].buffer);
    }
    return code ? code : make_counting(a, d, 0, st);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static bool reads_image(const RtDivided *d, int64_t map)
{
    for (int64_t i = 0; i < d->n_sent; i++)
        if (d->sent[i].image == map || d->sent[i].other == map) return true;
    return false;
}

/* What stands for a buffer in the step's call; NULL: the buffer itself. *known: it is one of those that may be
   given. */
static void *stand_in(const RtAcross *a, const RtDivided *d, int64_t buffer, bool *known)
{
    const RtBuffer *b = across_buffer(a, buffer);
    const RtStep *s = across_def(a, d->step);
    const RtSent *x = sent_find(d, buffer);
    bool column = s->work == RT_SUMS;
    *known = true;
    if (x) return x->base;
    for (int64_t i = 0; i < d->n_returned; i++)
        if (d->returned[i].buffer == buffer) return d->returned[i].base;
    switch (b->kind) {
    case RT_BUF_MAP_TO:
        *known = reads_image(d, b->ref);
        return column && *known ? (void *)d->image_at[b->ref] : d->aside && d->aside[b->ref] ? d->behind : d->counting;
    case RT_BUF_MAP_ALONG:
        *known = column && b->along == s->under && reads_image(d, b->ref);
        return *known ? d->image_at[b->ref] : NULL;
    case RT_BUF_MAP_ROWS: *known = column && b->ref == s->under; return d->row_starts;
    case RT_BUF_MAP_LIST: *known = column && b->ref == s->under; return d->counting;
    case RT_BUF_IDS: *known = !column && b->ref == s->over && !a->e->model->spaces[b->ref].is_edge; return d->ids;
    default: return NULL;
    }
}

/* Buffers whose rows the step's iterations make: sums of blocks, which are no value of the function, or rows; and those
   of elements. */
static RtCode list_results(const RtAcross *a, RtDivided *d, RtStatus *st)
{
    const RtStep *s = across_def(a, d->step);
    RT_TRY(take(d, s->n_touches, 8, &d->results, st));
    RT_TRY(rt_alloc(&d->returned, s->n_touches, sizeof *d->returned, what, st));
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, d->step, i);
        if (t->writes && t->at == RT_AT_ELEMENT)
            d->returned[d->n_returned++] = (RtSent){.buffer = t->buffer, .row_bytes = across_row_bytes(a, t->buffer)};
        else if (t->writes) d->results[d->n_results++] = t->buffer;
    }
    return RT_OK;
}

static RtCode check_args(const RtAcross *a, const RtDivided *d, RtStatus *st)
{
    const RtCall *c = rt_step_call(a->e->model, across_def(a, d->step));
    for (int64_t k = 0; k < c->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
        bool known = true;
        if (arg->is_buffer) stand_in(a, d, arg->buffer, &known);
        if (!known) return refuse(a, d->step, "it reads the graph in a way that is not known", st);
    }
    return RT_OK;
}

static int64_t count_arg(const RtAcross *a, const RtDivided *d, const RtCount *c)
{
    const RtStep *s = across_def(a, d->step);
    if (d->merges && c->space == s->over) {
        if (c->kind == RT_COUNT_SPACE) return d->n_rows;
        if (c->kind == RT_COUNT_BLOCKS) return d->to;
        if (c->kind == RT_COUNT_BLOCK_ROWS) return d->cut.rows;
        if (c->kind == RT_COUNT_BLOCK_LEVELS) return d->cut.levels;
    }
    if (c->kind != RT_COUNT_SPACE) return rt_count_value(a->e->graph, c, RT_OWNED);
    if (s->work == RT_TOTALS && c->space == s->over) return a->r->spaces[c->space].total;
    if (s->work == RT_SUMS && c->space == a->e->model->maps[s->under].from) return d->n_rows;
    return rt_count_value(a->e->graph, c, RT_READ);
}

RtCode rt_divided_begin(RtAcross *a, RtDivided *d, RtStatus *st)
{
    for (int64_t i = 0; i < d->n_sent; i++) {
        RtSent *x = &d->sent[i];
        if (x->once && !x->of && !x->memory.p) RT_TRY(rt_block_alloc(&x->memory, rt_sent_bytes(x), what, st));
        x->at = x->of     ? x->of->at
                : x->once ? x->memory.p
                          : (x->planned ? a->e->base : (char *)a->r->operands.p) + x->offset;
        x->base = rt_staging_base(a, x);
    }
    for (int64_t i = 0; i < d->n_returned; i++) {
        RtSent *x = &d->returned[i];
        if (!x->of && !x->memory.p) RT_TRY(rt_block_alloc(&x->memory, rt_sent_bytes(x), what, st));
        x->at = x->of ? x->of->at : x->memory.p;
        x->base = rt_staging_base(a, x);
    }
    return RT_OK;
}

/* From a list by places. */
static void link_out(RtPack *p, int64_t *head, int64_t i)
{
    int64_t *link = head;
    while (*link != i) link = &p[*link].next;
    *link = p[i].next;
}

/* Operands of each run: those for which there is planned memory of the host that no value has meanwhile lie there, the
   largest first; the others lie in memory of their own. Where planned memory is free from when an operand begins to
   travel on, it comes to its place at once. */
static void place_operands(RtAcross *a, RtSent **x, RtPack *p, int64_t n)
{
    const RtExec *e = a->e;
    int64_t head = -1, n_slots = e->program->n_slots, n_own = 0;
    for (int64_t i = 0; i < n_slots; i++) {
        p[i] = e->places[i];
        if (!p[i].room) rt_pack_link(p, &head, i);
    }
    RtPack *own = p + n_slots + n;
    for (int64_t i = n_slots; i < n_slots + n; i++) {
        p[i].at = rt_pack_gap(p, head, &p[i]);
        x[i - n_slots]->planned = !across_is_there(a) && p[i].at + p[i].bytes <= e->arena_bytes;
        x[i - n_slots]->offset = p[i].at;
        if (x[i - n_slots]->planned) rt_pack_link(p, &head, i);
        else own[n_own++] = p[i];
    }
    for (int64_t i = n_slots; i < n_slots + n; i++) {
        RtSent *y = x[i - n_slots];
        RtPack early = p[i];
        int64_t begin = rt_sent_begin(a, early.first, y);
        y->waits = across_overlaps(a) && !y->late;
        if (!y->planned || !y->waits) continue;
        link_out(p, &head, i);
        early.first = begin < 0 ? 0 : begin;
        early.at = rt_pack_gap(p, head, &early);
        y->waits = early.at + early.bytes > e->arena_bytes;
        if (!y->waits) p[i] = early;
        y->offset = p[i].at;
        rt_pack_link(p, &head, i);
    }
    a->operand_bytes = rt_pack(own, n_own, NULL, 0);
    for (int64_t i = 0, k = 0; i < n; i++)
        if (!x[i]->planned) x[i]->offset = own[k++].at;
}

RtCode rt_divided_place(RtAcross *a, RtStatus *st)
{
    int64_t n = 0, n_sent = 0, n_slots = a->e->program->n_slots;
    RtSent **sent;
    RtPack *p;
    for (int64_t i = 0; i < a->n_divided; i++) n_sent += a->divided[i].n_sent;
    RT_TRY(rt_alloc(&sent, n_sent, sizeof *sent, what, st));
    RtCode code = rt_alloc(&p, rt_size_plus(n_slots, n_sent, 2), sizeof *p, what, st);
    for (int64_t i = 0; i < a->n_divided && !code; i++)
        for (int64_t k = 0; k < a->divided[i].n_sent; k++) {
            RtSent *x = &a->divided[i].sent[k];
            int64_t at = n;
            if (x->once || x->of) continue;
            for (; at > 0 && rt_sent_bytes(sent[at - 1]) < rt_sent_bytes(x); at--) {
                sent[at] = sent[at - 1];
                p[n_slots + at] = p[n_slots + at - 1];
            }
            sent[at] = x;
            p[n_slots + at] = (RtPack){
                .bytes = (rt_sent_bytes(x) + 63) / 64 * 64, .first = a->divided[i].step, .last = x->last};
            n++;
        }
    if (!code) place_operands(a, sent, p, n);
    free(sent);
    free(p);
    if (!code && a->operand_bytes < 0) code = rt_memory_check(-1, what, st);
    return code;
}

/* Arguments of the kernel: what was sent, and maps of it, in place of what the process has. */
static void fill_args(const RtAcross *a, const RtDivided *d)
{
    RtExecStep *x = &a->e->steps[d->step];
    for (int64_t k = 0; k < x->call->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[x->call->first_arg + k];
        bool known;
        void *p = arg->is_buffer ? stand_in(a, d, arg->buffer, &known) : NULL;
        if (p) x->args[k].p = rt_staging_table(a, d, p);
        else if (!arg->is_buffer) x->args[k].i = count_arg(a, d, &arg->count);
    }
}

RtCode rt_divided_make(RtAcross *a, int64_t step, RtDivided *d, RtStatus *st)
{
    const RtStep *s = across_def(a, step);
    *d = (RtDivided){.step = step};
    RT_TRY(list_results(a, d, st));
    RT_TRY(take(d, a->r->n + 1, 8, &d->bounds, st));
    if (a->r->local_sums && !d->n_returned && rt_merge_can(a, step)) return rt_partial_make(a, d, st);
    RT_TRY(rt_alloc(&d->sent, s->n_touches, sizeof *d->sent, what, st));
    for (int64_t i = 0; i < s->n_touches; i++)
        if (touch_is_sent(a, step, across_touch(a, step, i))) RT_TRY(add_sent(a, d, across_touch(a, step, i), st));
    RT_TRY(choose_ways(a, d, st));
    RT_TRY(s->work == RT_TOTALS ? make_total(a, d, st) : make_column(a, d, st));
    for (int64_t i = 0; i < d->n_sent; i++) share_sent(a, d, &d->sent[i]);
    return check_args(a, d, st);
}

void rt_divided_free(RtAcross *a, RtDivided *d)
{
    for (int64_t i = 0; i < d->n_sent; i++) rt_block_free(&d->sent[i].memory);
    for (int64_t i = 0; i < d->n_returned; i++) rt_block_free(&d->returned[i].memory);
    for (int64_t i = 0; d->images && i < a->e->model->n_maps; i++) rt_ship_free(&d->images[i]);
    for (int64_t i = 0; i < d->n_blocks; i++) rt_block_free(&d->blocks[i]);
    rt_ship_free(&d->rows);
    free(d->images);
    free(d->sent);
    free(d->returned);
    free(d->blocks);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* All processes get the rows that each has computed. */
static RtCode gather_results(RtAcross *a, const RtDivided *d, RtStatus *st)
{
    int64_t bytes[RT_PEERS_MOST];
    for (int64_t i = 0; i < d->n_results; i++) {
        int64_t w = across_row_bytes(a, d->results[i]);
        for (int q = 0; q < a->r->n; q++) bytes[q] = (d->bounds[q + 1] - d->bounds[q]) * w;
        RT_TRY(rt_staging_fetch(a, d->results[i], d->from, d->to - d->from, st));
        RT_TRY(rt_peers_gather(a->r->peers, a->results_site, NULL, bytes, rt_staging_rows(a, d->results[i]), st));
        RT_TRY(rt_staging_store(a, d->results[i], 0, d->bounds[a->r->n], st));
    }
    return RT_OK;
}

static void run_iterations(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtExecStep *x = args[0].p;
    if (lo < hi) x->fn(x->args, lo, hi);
}

void rt_divided_bind(RtAcross *a, RtDivided *d)
{
    const RtStep *s = across_def(a, d->step);
    for (int64_t k = 0; k < d->n_sent; k++) d->sent[k].there = false;
    if (d->own) rt_partial_bind(a, d);
    /* steps that merge blocks of a total ask whether there are rows */
    for (int64_t i = d->step + 1; i < a->e->program->n_steps && s->work == RT_TOTALS; i++) {
        const RtCall *c = rt_step_call(a->e->model, across_def(a, i));
        bool tree = false;
        for (int64_t k = 0; k < c->n_args; k++) {
            const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
            for (int64_t n = 0; n < d->n_results; n++) tree |= arg->is_buffer && arg->buffer == d->results[n];
        }
        for (int64_t k = 0; tree && k < c->n_args; k++) {
            const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
            if (arg->is_buffer || arg->count.space != s->over) continue;
            if (arg->count.kind == RT_COUNT_SPACE) a->e->steps[i].args[k].i = a->r->spaces[s->over].total;
            if (arg->count.kind == RT_COUNT_BLOCKS && d->merges) a->e->steps[i].args[k].i = 1;
        }
    }
}

void rt_divided_iterate(const RtAcross *a, const RtDivided *d)
{
    enum { MOST = 64 };
    const RtExecStep *x = &a->e->steps[d->step];
    int64_t bounds[MOST + 1], order[MOST], n = d->to - d->from, n_chunks = n < 1 ? 1 : n < MOST ? n : MOST;
    assert(d->own || x->extent >= d->to || across_def(a, d->step)->work == RT_SUMS);
    for (int64_t i = 0; i <= n_chunks; i++) bounds[i] = d->from + n * i / n_chunks;
    for (int64_t i = 0; i < n_chunks; i++) order[i] = i;
    if (a->staging) rt_cuda_begin_iterations(a->e, d->step, d->from, d->to);
    else if (a->overlap) rt_overlap_iterate(a, d->step, d->from, d->to);
    else rt_pool_run(a->e->options.pool, run_iterations, &x->self, bounds, order, n_chunks);
}

RtCode rt_divided_run(RtAcross *a, RtDivided *d, RtStatus *st)
{
    if (a->overlap) RT_TRY(rt_overlap_rows(a, d->step, st));
    if (d->own) return rt_partial_run(a, d, st);
    fill_args(a, d);
    for (int64_t i = 0; i < d->n_sent; i++) {
        RtSent *x = &d->sent[i];
        RtShip ship = *x->ship;
        if (x->there || x->of) continue;
        if (a->overlap && !x->once && !x->late) {
            RT_TRY(rt_overlap_sent(a, x, st));
            continue;
        }
        if (x->rows) ship.out = (int64_t *)x->rows;
        if (across_links(a) && !x->once) {
            RT_TRY(rt_staging_link(a, x->buffer, &ship, x, a->operands_site, st));
            continue;
        }
        RT_TRY(rt_staging_fetch_sent(a, x->buffer, &ship, st));
        RT_TRY(rt_ship_run(a->r, &ship, a->operands_site, rt_staging_rows(a, x->buffer), x->at, x->row_bytes, st));
        RT_TRY(rt_staging_store_operand(a, x, st));
        x->there = x->once;
    }
    rt_divided_iterate(a, d);
    for (int64_t i = 0; i < d->n_returned; i++) {
        const RtSent *x = &d->returned[i];
        RT_TRY(rt_staging_fetch_operand(a, x, st));
        RT_TRY(rt_ship_run(a->r, x->ship, a->results_site, x->at, rt_staging_rows(a, x->buffer), x->row_bytes, st));
        RT_TRY(rt_staging_store_got(a, x->buffer, x->ship, st));
    }
    if (!d->merges) return gather_results(a, d, st);
    for (int64_t i = 0; i < d->n_results; i++) RT_TRY(rt_merge_run(a, d, i, st));
    return RT_OK;
}
