/* Batches of graphs (see batch.h). Which graph a row is of follows from the maps of nodes to graphs through the other
   maps; rows that do not stand by graph, or lead from one graph to another, are refused once, when the data are cut. */
#include "runtime/batch.h"
#include "runtime/random.h"
#include "runtime/setup.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 256, SITE_SHUFFLE = 65002 };

static const char *text(const RtBatches *b, int64_t string) { return b->data->graph->model->strings + string; }

static RtCode take(RtBatches *b, int64_t count, int64_t elem, void *out, RtStatus *st)
{
    int64_t bytes;
    if (!rt_mul(count, elem, &bytes)) return rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "the size of a batch overflows");
    RT_TRY(rt_block_alloc(&b->blocks[b->n_blocks], rt_size_plus(bytes, 1, PAD), "a batch of graphs", st));
    *(void **)out = b->blocks[b->n_blocks++].p;
    return RT_OK;
}

/* What says where rows of the space are, if they are pairs; else NULL. */
static const RtBatchPairs *pairs_of(const RtBatches *b, int64_t space)
{
    for (int64_t i = 0; i < b->n_pairs; i++)
        if (b->pairs[i].space == space) return &b->pairs[i];
    return NULL;
}

static const RtGraphDef *keyed_of(const RtModel *m, int64_t space)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].kind == RT_GRAPH_KEYED && m->graphs[i].edge == space) return &m->graphs[i];
    return NULL;
}

/* ---- which graph each row is of ---- */

static int64_t graph_of(const RtBatches *b, int64_t space, int64_t row)
{
    const int64_t *first = b->first[space];
    int64_t lo = 0, hi = b->n_graphs; /* first[lo] <= row < first[hi] */
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (first[mid] <= row) lo = mid;
        else hi = mid;
    }
    assert(first[lo] <= row && row < first[lo + 1]);
    return lo;
}

/* Finds where each graph's rows begin in the space that the map leads from: a row is of the graph of its image. BATCH
   where the rows do not stand by graph. */
static RtCode cut_space(RtBatches *b, int64_t map, RtStatus *st)
{
    const RtGraph *g = b->data->graph;
    const RtMapDef *d = &g->model->maps[map];
    int64_t *first, n = g->spaces[d->from].count, at = 0;
    RT_TRY(take(b, b->n_graphs + 1, 8, &first, st));
    for (int64_t i = 0; i < n; i++) {
        int64_t k = graph_of(b, d->to, g->maps[map].to[i]);
        if (k < at)
            return rt_fail(st, RT_E_BATCH, text(b, d->name), NULL,
                           "row %lld is of graph %lld, the one before of graph %lld", (long long)i, (long long)k,
                           (long long)at);
        while (at < k) first[++at] = i;
    }
    while (at < b->n_graphs) first[++at] = n;
    assert(first[0] == 0 && first[b->n_graphs] == n);
    b->first[d->from] = first;
    return RT_OK;
}

static bool is_shared(const RtModel *m, int64_t space) { return space == 0 || m->spaces[space].fixed; }

/* The first map that leads from an uncut space to a cut one, in stored order: sorted ones first. */
static int64_t next_map(const RtBatches *b, bool sorted)
{
    const RtModel *m = b->data->graph->model;
    for (int64_t i = 0; i < m->n_maps; i++) {
        const RtMapDef *d = &m->maps[i];
        bool fits = b->data->graph->maps[i].to && d->sorted == sorted && !d->partial && !is_shared(m, d->from) &&
                    !keyed_of(m, d->from);
        if (fits && !b->first[d->from] && b->first[d->to]) return i;
    }
    return -1;
}

static RtCode check_map(const RtBatches *b, int64_t map, RtStatus *st)
{
    const RtGraph *g = b->data->graph;
    const RtMapDef *d = &g->model->maps[map];
    /* what a run computes stays in a graph */
    if (!b->first[d->to] || !b->first[d->from] || !g->maps[map].to || keyed_of(g->model, d->to)) return RT_OK;
    if (keyed_of(g->model, d->from)) return RT_OK; /* which are of their rows' graphs */
    for (int64_t k = 0; k < b->n_graphs; k++)
        for (int64_t i = b->first[d->from][k]; i < b->first[d->from][k + 1]; i++) {
            int64_t to = g->maps[map].to[i];
            if (to < 0 || (to >= b->first[d->to][k] && to < b->first[d->to][k + 1])) continue;
            const RtSpaceData *s = &g->spaces[d->from];
            return rt_fail(st, RT_E_BATCH, text(b, d->name), NULL, "row %lld is of graph %lld, but leads to graph %lld",
                           (long long)(s->ids ? s->ids[i] : i), (long long)k, (long long)graph_of(b, d->to, to));
        }
    return RT_OK;
}

/* Lists pairs by the graph of their row. */
static RtCode cut_pairs(RtBatches *b, const RtGraphDef *d, RtStatus *st)
{
    const RtGraph *g = b->data->graph;
    RtBatchPairs *p = &b->pairs[b->n_pairs];
    const int32_t *row = g->maps[d->src].to;
    int64_t n = g->spaces[d->edge].count, *first, *at;
    p->space = d->edge;
    RT_TRY(take(b, b->n_graphs + 1, 8, &first, st));
    RT_TRY(take(b, n, 4, &p->list, st));
    RT_TRY(take(b, n, 4, &p->at, st));
    RT_TRY(take(b, g->spaces[d->dst_space].count + 1, 8, &p->starts, st));
    RT_TRY(rt_alloc(&at, b->n_graphs + 1, sizeof *at, "pairs of graphs", st));
    for (int64_t i = 0; i < n; i++) first[graph_of(b, d->src_space, row[i]) + 1]++;
    for (int64_t k = 0; k < b->n_graphs; k++) at[k + 1] = first[k + 1] += first[k];
    for (int64_t i = 0; i < n; i++) p->list[at[graph_of(b, d->src_space, row[i])]++] = (int32_t)i;
    free(at);
    b->first[d->edge] = first;
    b->n_pairs++;
    return RT_OK;
}

static RtCode cut_graphs(RtBatches *b, RtStatus *st)
{
    const RtModel *m = b->data->graph->model;
    int64_t graphs = 0, map, *own;
    for (int64_t s = 1; s < m->n_spaces; s++)
        if (!strcmp(text(b, m->spaces[s].name), "graph")) graphs = s;
    if (!graphs)
        return rt_fail(st, RT_E_BATCH, NULL, "train on all rows at once", "no map leads from its nodes to graphs");
    b->n_graphs = b->data->graph->spaces[graphs].count;
    if (b->n_graphs < 1) return rt_fail(st, RT_E_BATCH, NULL, NULL, "there is no graph");
    if (b->size > b->n_graphs) b->size = b->n_graphs;
    RT_TRY(take(b, b->n_graphs + 1, 8, &own, st));
    for (int64_t k = 0; k <= b->n_graphs; k++) own[k] = k;
    b->first[graphs] = own;
    for (int sorted = 1; sorted >= 0; sorted--)
        while ((map = next_map(b, sorted)) >= 0) RT_TRY(cut_space(b, map, st));
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].kind == RT_GRAPH_KEYED && b->first[m->graphs[i].src_space])
            RT_TRY(cut_pairs(b, &m->graphs[i], st));
    for (int64_t s = 0; s < m->n_spaces; s++)
        if (!b->first[s] && !is_shared(m, s))
            return rt_fail(st, RT_E_BATCH, text(b, m->spaces[s].name), NULL, "its rows are of no graph");
    for (int64_t i = 0; i < m->n_maps; i++) RT_TRY(check_map(b, i, st));
    return RT_OK;
}

/* ---- memory for the largest batch ---- */

static int larger(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Rows of the `size` graphs with the most in this space. */
static RtCode most_rows(const RtBatches *b, int64_t space, int64_t *most, RtStatus *st)
{
    int64_t *rows;
    RT_TRY(rt_alloc(&rows, b->n_graphs, sizeof *rows, "sizes of graphs", st));
    for (int64_t k = 0; k < b->n_graphs; k++) rows[k] = b->first[space][k + 1] - b->first[space][k];
    qsort(rows, (size_t)b->n_graphs, sizeof *rows, larger);
    *most = 0;
    for (int64_t k = 0; k < b->size; k++) *most += rows[k];
    free(rows);
    return RT_OK;
}

static RtCode take_space(RtBatches *b, int64_t s, RtStatus *st)
{
    const RtSpaceData *of = &b->data->graph->spaces[s];
    RtSpaceData *to = &b->graph->spaces[s];
    *to = *of;
    to->ids = NULL;
    if (!b->first[s]) return RT_OK;
    RT_TRY(most_rows(b, s, &b->most[s], st));
    to->count = b->most[s];
    RT_TRY(take(b, b->size + 1, 8, &b->place[s], st));
    for (int64_t i = 0; i < b->n_pairs; i++)
        if (b->pairs[i].space == s) RT_TRY(take(b, to->count, 4, &b->pairs[i].from, st));
    return of->ids_all ? take(b, to->count, 8, &to->ids_all, st) : RT_OK;
}

static RtCode take_map(RtBatches *b, int64_t map, RtStatus *st)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    const RtMapData *of = &b->data->graph->maps[map];
    RtMapData *to = &b->graph->maps[map];
    *to = *of;
    if (!b->first[d->from]) {
        if (b->first[d->to])
            return rt_fail(st, RT_E_BATCH, text(b, d->name), NULL,
                           "it leads from what all graphs share to rows of one");
        return RT_OK;
    }
    int64_t n = b->graph->spaces[d->from].count;
    if (of->to) RT_TRY(take(b, n, 4, &to->to, st));
    if (of->rows) RT_TRY(take(b, b->graph->spaces[d->to].count + 1, 8, &to->rows, st));
    return of->list ? take(b, n, 4, &to->list, st) : RT_OK;
}

static RtCode take_graph(RtBatches *b, RtStatus *st)
{
    const RtGraph *of = b->data->graph;
    const RtModel *m = of->model;
    RT_TRY(rt_alloc(&b->graph, 1, sizeof *b->graph, "a batch of graphs", st));
    RtGraph *g = b->graph;
    g->model = m;
    RT_TRY(rt_alloc(&g->spaces, m->n_spaces, sizeof *g->spaces, "a batch of graphs", st));
    RT_TRY(rt_alloc(&g->maps, m->n_maps, sizeof *g->maps, "a batch of graphs", st));
    RT_TRY(rt_alloc(&g->alongs, of->n_alongs, sizeof *g->alongs, "a batch of graphs", st));
    for (int64_t s = 0; s < m->n_spaces; s++) RT_TRY(take_space(b, s, st));
    for (int64_t i = 0; i < m->n_maps; i++) RT_TRY(take_map(b, i, st));
    for (; g->n_alongs < of->n_alongs; g->n_alongs++) {
        RtAlong *a = &g->alongs[g->n_alongs];
        *a = of->alongs[g->n_alongs];
        RT_TRY(take(b, g->spaces[m->maps[a->along].from].count, 4, &a->to, st));
    }
    return RT_OK;
}

/* Inputs with rows of graphs; parameters and what has no rows are the data's. */
static RtCode take_tensors(RtBatches *b, RtStatus *st)
{
    const RtModel *m = b->graph->model;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        const RtTensorDef *t = &m->tensors[i];
        b->tensors[i] = b->data->tensors.data[i];
        bool mine = b->tensors[i] && b->first[t->space] && rt_programs_take(m, "train_step", i);
        if (!mine) continue;
        RT_TRY(take(b, b->graph->spaces[t->space].count, t->width * rt_dtype_bytes(t->dtype), &b->tensors[i], st));
    }
    return RT_OK;
}

static RtCode create(const RtModel *m, RtBatches *b, RtStatus *st)
{
    int64_t n = 4 * m->n_spaces + 5 * m->n_graphs + 4 * m->n_maps + b->data->graph->n_alongs + m->n_tensors + 8;
    RT_TRY(rt_alloc(&b->first, m->n_spaces, sizeof *b->first, "batches", st));
    RT_TRY(rt_alloc(&b->place, m->n_spaces, sizeof *b->place, "batches", st));
    RT_TRY(rt_alloc(&b->tensors, m->n_tensors, sizeof *b->tensors, "batches", st));
    RT_TRY(rt_alloc(&b->blocks, n, sizeof *b->blocks, "batches", st));
    RT_TRY(rt_alloc(&b->pairs, m->n_graphs, sizeof *b->pairs, "batches", st));
    RT_TRY(cut_graphs(b, st));
    RT_TRY(take(b, m->n_spaces, 8, &b->most, st));
    RT_TRY(take(b, b->n_graphs, 8, &b->slot, st));
    memset(b->slot, -1, (size_t)b->n_graphs * 8);
    RT_TRY(take_graph(b, st));
    return take_tensors(b, st);
}

RtCode rt_batches_create(const RtModel *m, const RtData *d, int64_t size, RtBatches *b, RtStatus *st)
{
    *b = (RtBatches){.data = d, .size = size};
    RtCode code = create(m, b, st);
    if (code) rt_batches_free(b);
    return code;
}

void rt_batches_free(RtBatches *b)
{
    if (!b) return;
    for (int64_t i = 0; i < b->n_blocks; i++) rt_block_free(&b->blocks[i]);
    if (b->graph) {
        free(b->graph->spaces);
        free(b->graph->maps);
        free(b->graph->alongs);
    }
    free(b->graph);
    free(b->first);
    free(b->place);
    free(b->tensors);
    free(b->pairs);
    free(b->blocks);
    *b = (RtBatches){0};
}

void rt_batches_widest(RtBatches *b)
{
    for (int64_t s = 0; s < b->graph->model->n_spaces; s++)
        if (b->first[s]) b->graph->spaces[s].count = b->most[s];
}

/* ---- a batch ---- */

static void fill_space(RtBatches *b, int64_t s, const int64_t *graphs, int64_t n)
{
    const RtSpaceData *of = &b->data->graph->spaces[s];
    RtSpaceData *to = &b->graph->spaces[s];
    int64_t at = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t from = b->first[s][graphs[k]], rows = b->first[s][graphs[k] + 1] - from;
        b->place[s][k] = at;
        if (to->ids_all && rows && !pairs_of(b, s)) memcpy(to->ids_all + at, of->ids_all + from, (size_t)rows * 8);
        at += rows;
    }
    assert(at <= b->most[s]); /* for which memory was taken */
    b->place[s][n] = to->count = at;
}

/* Numbers the pairs of the batch's graphs by key, then by graph of the batch, then by row: as they would be of a data
   set of these graphs. */
static void fill_pairs(RtBatches *b, const RtBatchPairs *p, const int64_t *graphs, int64_t n)
{
    const RtGraphDef *d = keyed_of(b->graph->model, p->space);
    const int32_t *key = b->data->graph->maps[d->dst].to;
    const int64_t *first = b->first[p->space];
    int64_t *ids = b->graph->spaces[p->space].ids_all, n_keys = b->graph->spaces[d->dst_space].count;
    memset(p->starts, 0, (size_t)(n_keys + 1) * 8);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = first[graphs[k]]; i < first[graphs[k] + 1]; i++) p->starts[key[p->list[i]] + 1]++;
    for (int64_t r = 0; r < n_keys; r++) p->starts[r + 1] += p->starts[r];
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = first[graphs[k]]; i < first[graphs[k] + 1]; i++) {
            int64_t at = p->starts[key[p->list[i]]]++;
            p->at[p->list[i]] = (int32_t)at;
            p->from[at] = p->list[i];
            if (ids) ids[at] = p->list[i];
        }
}

/* Where row i of graph graphs[k] lies in the batch. */
static int32_t moved(const RtBatches *b, int64_t space, int64_t graph, int64_t k, int32_t i)
{
    const RtBatchPairs *p = pairs_of(b, space);
    if (p) return i < 0 ? i : p->at[i];
    assert(i < 0 || (i >= b->first[space][graph] && i < b->first[space][graph + 1])); /* check_map saw to it */
    return i < 0 ? i : (int32_t)(i - b->first[space][graph] + b->place[space][k]);
}

static void fill_images(RtBatches *b, int64_t map, const int64_t *graphs, int64_t n)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    const int32_t *of = b->data->graph->maps[map].to;
    const RtBatchPairs *p = pairs_of(b, d->from);
    int32_t *to = b->graph->maps[map].to;
    for (int64_t k = 0; k < n; k++) {
        const int64_t *first = &b->first[d->from][graphs[k]];
        for (int64_t i = first[0]; i < first[1]; i++) {
            int64_t row = p ? p->list[i] : i;
            int32_t image = b->first[d->to] ? moved(b, d->to, graphs[k], k, of[row]) : of[row];
            if (p) to[p->at[row]] = image;
            else *to++ = image;
        }
    }
}

/* Fills the rows and the list of a map from elements (edges) to pairs: the elements of each pair, all of one graph. */
static void fill_rows_of_pairs(RtBatches *b, int64_t map, const RtBatchPairs *p)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    const RtMapData *of = &b->data->graph->maps[map];
    RtMapData *to = &b->graph->maps[map];
    int64_t n = b->graph->spaces[p->space].count, at = 0;
    for (int64_t i = 0; i < n; i++) {
        to->rows[i] = at;
        for (int64_t e = of->rows[p->from[i]]; e < of->rows[p->from[i] + 1]; e++) {
            int64_t graph = graph_of(b, d->from, of->list[e]);
            to->list[at++] = moved(b, d->from, graph, b->slot[graph], of->list[e]);
        }
    }
    to->rows[n] = at;
}

/* Fills the rows and the list of a map from pairs to their keys, or to one row for all: pairs are sorted by key, so
   that those of a key are a range. */
static void list_pairs(RtBatches *b, int64_t map)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    RtMapData *to = &b->graph->maps[map];
    int64_t n = b->graph->spaces[d->from].count, n_rows = b->graph->spaces[d->to].count, at = 0;
    for (int64_t r = 0; r < n_rows; r++) {
        to->rows[r] = at;
        while (at < n && to->to[at] == r) at++;
    }
    assert(at == n);
    to->rows[n_rows] = n;
    for (int64_t i = 0; i < n; i++) to->list[i] = (int32_t)i;
}

/* Rows and list of a map between spaces of graphs: a graph's rows list elements of that graph alone. */
static void fill_rows(RtBatches *b, int64_t map, const int64_t *graphs, int64_t n)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    const RtMapData *of = &b->data->graph->maps[map];
    RtMapData *to = &b->graph->maps[map];
    int64_t row = 0, at = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t *first = &b->first[d->to][graphs[k]];
        for (int64_t r = first[0]; r < first[1]; r++) {
            to->rows[row++] = at;
            for (int64_t e = of->rows[r]; e < of->rows[r + 1]; e++)
                to->list[at++] = moved(b, d->from, graphs[k], k, of->list[e]);
        }
    }
    assert(row == b->graph->spaces[d->to].count && at <= b->graph->spaces[d->from].count);
    to->rows[row] = at;
}

/* Rows and list of a map to what all graphs share: as in the data, without the elements of graphs that are not in the
   batch. */
static void filter_rows(RtBatches *b, int64_t map)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    const RtMapData *of = &b->data->graph->maps[map];
    RtMapData *to = &b->graph->maps[map];
    int64_t n_rows = b->graph->spaces[d->to].count, at = 0;
    for (int64_t r = 0; r < n_rows; r++) {
        to->rows[r] = at;
        for (int64_t e = of->rows[r]; e < of->rows[r + 1]; e++) {
            int64_t graph = graph_of(b, d->from, of->list[e]), k = b->slot[graph];
            if (k >= 0) to->list[at++] = moved(b, d->from, graph, k, of->list[e]);
        }
    }
    to->rows[n_rows] = at;
}

static void fill_map(RtBatches *b, int64_t map, const int64_t *graphs, int64_t n)
{
    const RtMapDef *d = &b->graph->model->maps[map];
    if (!b->first[d->from]) return;
    if (b->graph->maps[map].to) fill_images(b, map, graphs, n);
    if (!b->graph->maps[map].rows) return;
    if (pairs_of(b, d->to)) fill_rows_of_pairs(b, map, pairs_of(b, d->to));
    else if (b->first[d->to]) fill_rows(b, map, graphs, n);
    else if (pairs_of(b, d->from)) list_pairs(b, map);
    else filter_rows(b, map);
}

static void fill_along(RtBatches *b, int64_t i)
{
    const RtAlong *a = &b->graph->alongs[i];
    const RtMapData *images = &b->graph->maps[a->map], *list = &b->graph->maps[a->along];
    int64_t n = list->rows[b->graph->spaces[b->graph->model->maps[a->along].to].count];
    for (int64_t k = 0; k < n; k++) a->to[k] = images->to[list->list[k]];
}

static void fill_tensor(RtBatches *b, int64_t tensor, const int64_t *graphs, int64_t n)
{
    const RtTensorDef *t = &b->graph->model->tensors[tensor];
    size_t row = (size_t)(t->width * rt_dtype_bytes(t->dtype));
    char *to = b->tensors[tensor];
    const char *of = b->data->tensors.data[tensor];
    const RtBatchPairs *p = pairs_of(b, t->space);
    if (!of || !to || to == of || !b->first[t->space]) return;
    for (int64_t i = 0; p && i < b->graph->spaces[t->space].count; i++)
        memcpy(to + row * (size_t)i, of + row * (size_t)p->from[i], row);
    if (p) return;
    for (int64_t k = 0; k < n; k++) {
        const int64_t *first = &b->first[t->space][graphs[k]];
        size_t bytes = row * (size_t)(first[1] - first[0]);
        memcpy(to, of + row * (size_t)first[0], bytes);
        to += bytes;
    }
}

void rt_batches_fill(RtBatches *b, const int64_t *graphs, int64_t n)
{
    const RtModel *m = b->graph->model;
    assert(n >= 1 && n <= b->size);
    for (int64_t k = 0; k < n; k++) {
        assert(b->slot[graphs[k]] < 0); /* no graph comes twice */
        b->slot[graphs[k]] = k;
    }
    for (int64_t s = 0; s < m->n_spaces; s++)
        if (b->first[s]) fill_space(b, s, graphs, n);
    for (int64_t i = 0; i < b->n_pairs; i++) fill_pairs(b, &b->pairs[i], graphs, n);
    for (int64_t i = 0; i < m->n_maps; i++) fill_map(b, i, graphs, n);
    for (int64_t i = 0; i < b->graph->n_alongs; i++) fill_along(b, i);
    for (int64_t i = 0; i < m->n_tensors; i++) fill_tensor(b, i, graphs, n);
    for (int64_t k = 0; k < n; k++) b->slot[graphs[k]] = -1;
}

/* ---- which graphs, in which order ---- */

int64_t rt_batches_where(const RtBatches *b, int64_t mask, int64_t *out)
{
    const bool *holds = mask < 0 ? NULL : b->data->tensors.data[mask];
    const int64_t *first = mask < 0 ? NULL : b->first[b->graph->model->tensors[mask].space];
    int64_t n = 0;
    for (int64_t k = 0; k < b->n_graphs; k++) {
        bool any = !first;
        for (int64_t i = first ? first[k] : 0; first && i < first[k + 1]; i++) any |= holds[i];
        if (any) out[n++] = k;
    }
    return n;
}

void rt_shuffle(int64_t *list, int64_t n, int64_t seed, int64_t epoch)
{
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t word = rt_philox((uint64_t)seed, (uint64_t)epoch, SITE_SHUFFLE, (uint64_t)i, 0);
        int64_t k = (int64_t)(word * (uint64_t)(i + 1) >> 32), swap = list[i];
        assert(k <= i);
        list[i] = list[k];
        list[k] = swap;
    }
}
