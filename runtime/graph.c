/* Builds the graphs of a model (see graph.h): counts, edges sorted by destination (a counting sort,
   stable), maps, row offsets of the maps that some step reads by rows. Never looks at features. */
#include "runtime/graph.h"
#include "runtime/blocks.h"
#include "runtime/cpu.h"
#include "runtime/graph_list.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 256 }; /* bytes behind every array: kernels look ahead when they prefetch */

/* *out gets memory for `count` elements. An array that is there stays, and is filled again. */
RtCode rt_graph_alloc(RtGraph *g, int64_t count, int64_t elem, void *out, RtStatus *st)
{
    int64_t bytes;
    if (*(void **)out) return RT_OK;
    if (!rt_mul(count, elem, &bytes)) return rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "a map's size overflows");
    if (g->n_blocks == g->cap_blocks) {
        int64_t cap = g->cap_blocks * 2 + 16;
        RT_TRY(rt_grow(&g->blocks, cap, sizeof *g->blocks, "a graph", st));
        g->cap_blocks = cap;
    }
    RtBlock *b = &g->blocks[g->n_blocks];
    RT_TRY(rt_block_alloc(b, rt_size_plus(bytes, 1, PAD), "a graph's maps", st));
    g->n_blocks++;
    g->bytes += bytes;
    *(void **)out = b->p;
    return RT_OK;
}

/* ---- what it takes ---- */

bool rt_space_needs_ids(const RtModel *m, int64_t space)
{
    for (int64_t p = 0; p < m->n_programs; p++)
        for (int64_t i = 0; i < m->programs[p].n_buffers; i++) {
            const RtBuffer *b = &m->buffers[m->programs[p].first_buffer + i];
            if (b->kind == RT_BUF_IDS && b->ref == space) return true;
        }
    return false;
}

int64_t rt_graph_least_bytes(const RtModel *m, const int64_t *counts)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < m->n_maps; i++) {
        const RtMapDef *d = &m->maps[i];
        if (d->computed || d->implied) continue;
        if (counts[d->from] > 0) bytes = rt_size_plus(bytes, counts[d->from], 4);
        if (counts[d->to] > 0 && m->maps[i].needs_rows) bytes = rt_size_plus(bytes, counts[d->to], 8);
    }
    for (int64_t s = 0; s < m->n_spaces; s++)
        if (counts[s] > 0 && rt_space_needs_ids(m, s)) bytes = rt_size_plus(bytes, counts[s], 8);
    return bytes;
}

/* ---- counts ---- */

RtCode rt_graph_set_count(RtGraph *g, int64_t space, int64_t count, RtStatus *st)
{
    const char *name = g->model->strings + g->model->spaces[space].name;
    RtCode code = RT_OK;
    if (count < 0)
        code = rt_fail(st, RT_E_GRAPH_COUNT, "meta.json", "add num_nodes (or num_<space>s) to meta.json",
                       "the number of elements of %s is unknown", name);
    else if (count > INT32_MAX)
        code = rt_fail(st, RT_E_GRAPH_SIZE, NULL, "split the graph",
                       "found %lld elements of %s, wanted at most 2147483647", (long long)count, name);
    else g->spaces[space].count = count;
    return rt_declared_space(code, g->model, space, st);
}

/* Whether the space holds nodes that are chosen from others: they are counted when their graph is built. */
static bool is_chosen(const RtModel *m, int64_t space)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].kind == RT_GRAPH_SELECT && m->graphs[i].src_space == space) return true;
    return false;
}

static RtCode count_nodes(RtGraph *g, const RtTopology *t, RtStatus *st)
{
    const RtModel *m = g->model;
    for (int64_t s = 0; s < m->n_spaces; s++) g->spaces[s].count = -1;
    g->spaces[0].count = 1;
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const RtGraphDef *d = &m->graphs[i];
        if (d->kind != RT_GRAPH_RANDOM) continue;
        RT_TRY(rt_graph_set_count(g, d->src_space, d->n_nodes, st));
        RT_TRY(rt_graph_set_count(g, d->dst_space, d->n_nodes, st));
    }
    for (int64_t s = 1; s < m->n_spaces; s++)
        if (!m->spaces[s].is_edge && g->spaces[s].count < 0 && !is_chosen(m, s))
            RT_TRY(rt_graph_set_count(g, s, m->spaces[s].fixed ? m->spaces[s].fixed : t->counts[s], st));
    return RT_OK;
}

/* ---- edges ---- */

/* offsets[k+1] = elements of `to` that are <= k; at the end offsets[k] is where row k starts. */
static void count_rows(const int32_t *to, int64_t n, int64_t n_rows, int64_t *offsets)
{
    memset(offsets, 0, (size_t)(n_rows + 1) * sizeof *offsets);
    for (int64_t i = 0; i < n; i++)
        if (to[i] >= 0) offsets[to[i] + 1]++;
    for (int64_t k = 0; k < n_rows; k++) offsets[k + 1] += offsets[k];
    assert(offsets[0] == 0 && offsets[n_rows] <= n); /* elements without an image are in no row */
}

/* Where the node of the user's id v is stored; places: [count] of its space, NULL: as they are. */
static int32_t place_of(const int32_t *places, int32_t v) { return places ? places[v] : v; }

static RtCode sort_edges(RtGraph *g, const RtGraphDef *d, RtEdgeList *l, const int32_t *from, const int32_t *to,
                         RtStatus *st)
{
    int64_t n_dst = g->spaces[d->dst_space].count;
    RtSpaceData *s = &g->spaces[d->edge];
    RtBlock next;
    RT_TRY(rt_graph_set_count(g, d->edge, l->n, st));
    RT_TRY(rt_graph_alloc(g, l->n, 8, &s->ids, st));
    RT_TRY(rt_graph_alloc(g, l->n, 4, &g->maps[d->src].to, st));
    RT_TRY(rt_graph_alloc(g, l->n, 4, &g->maps[d->dst].to, st));
    RT_TRY(rt_block_alloc(&next, rt_size_plus(8, n_dst, 8), "a sort", st));
    int64_t *at = next.p;
    bool same = true;
    for (int64_t e = 0; e < l->n; e++) at[place_of(to, l->dst[e]) + 1]++;
    for (int64_t k = 0; k < n_dst; k++) at[k + 1] += at[k];
    assert(at[n_dst] == l->n);
    int32_t *order = g->maps[d->dst].to; /* until targets take its place: what alone is written in no order */
    for (int64_t e = 0; e < l->n; e++) {
        int64_t pos = at[place_of(to, l->dst[e])]++;
        assert(pos < l->n);
        same &= pos == e;
        l->stored[e] = (int32_t)pos;
        order[pos] = (int32_t)e;
    }
    for (int64_t pos = 0; pos < l->n; pos++) {
        s->ids[pos] = order[pos];
        g->maps[d->src].to[pos] = place_of(from, l->src[order[pos]]);
    }
    assert(!n_dst || at[n_dst - 1] == l->n); /* each row ends where the next one began */
    for (int64_t k = 0, pos = 0; k < n_dst; k++)
        while (pos < at[k]) g->maps[d->dst].to[pos++] = (int32_t)k;
    if (same && !d->redrawn) s->ids = NULL;
    rt_block_free(&next);
    return RT_OK;
}

/* Numbers 0 to n - 1, of which some are left out: the others move up. */
typedef struct Gaps {
    uint64_t *out;   /* [n / 64 + 1] bits of those that are left out */
    int32_t *before; /* [n / 64 + 1] how many are, before the first of each word */
} Gaps;

static bool is_out(const Gaps *g, int64_t i) { return g->out[i >> 6] >> (i & 63) & 1; }

static int32_t moved_up(const Gaps *g, int64_t i)
{
    uint64_t some = g->out[i >> 6] & (((uint64_t)1 << (i & 63)) - 1); /* few: to count them may be a call */
    return (int32_t)i - g->before[i >> 6] - (some ? __builtin_popcountll(some) : 0);
}

static void leave_out(Gaps *g, int64_t i)
{
    g->out[i >> 6] |= (uint64_t)1 << (i & 63);
    g->before[(i >> 6) + 1]++;
}

/* The edges of a base that a graph with loops lacks, by the user's numbers and by where they are stored. */
static void find_gaps(const RtEdgeList *l, const RtEdgeList *base, Gaps *by_user, Gaps *by_place)
{
    int64_t words = base->n / 64 + 1;
    for (int64_t e = 0; e < base->n; e++)
        if (l->image[e] < 0) leave_out(by_user, e), leave_out(by_place, base->stored[e]);
    for (int64_t w = 0; w < words; w++) {
        by_user->before[w + 1] += by_user->before[w];
        by_place->before[w + 1] += by_place->before[w];
    }
    assert(by_user->before[words] == by_place->before[words]);
}

/* The same of a graph with loops, and the maps between it and its base (link_base), whose edges are sorted: row by row,
   those that stay come in their order, then the new loop. No list is read or written in another order than its own:
   those of edges are larger than caches. */
static RtCode sort_loops(RtGraph *g, const RtGraphDef *d, RtEdgeList *l, const RtEdgeList *base, RtStatus *st)
{
    const RtGraphDef *from = &g->model->graphs[d->base];
    const int32_t *src = g->maps[from->src].to, *dst = g->maps[from->dst].to;
    const int64_t *user = g->spaces[from->edge].ids;
    int64_t n_dst = g->spaces[d->dst_space].count, n = 0, filled = 0, pos = 0, loop = 0, words = base->n / 64 + 1;
    RtSpaceData *s = &g->spaces[d->edge];
    RtBlock scratch;
    int32_t **made[] = {&g->maps[d->src].to, &g->maps[d->dst].to, d->orig < 0 ? NULL : &g->maps[d->orig].to};
    RT_TRY(rt_graph_set_count(g, d->edge, l->n, st));
    RT_TRY(rt_graph_alloc(g, l->n, 8, &s->ids, st));
    for (int i = 0; i < 3; i++)
        if (made[i]) RT_TRY(rt_graph_alloc(g, l->n, 4, made[i], st));
    if (d->image >= 0) RT_TRY(rt_graph_alloc(g, base->n, 4, &g->maps[d->image].to, st));
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size(words + 1, 24), n_dst, 4), "self loops", st));
    Gaps by_user = {.out = scratch.p}, by_place = {.out = by_user.out + words + 1};
    by_user.before = (int32_t *)(by_place.out + words + 1);
    by_place.before = by_user.before + words + 1;
    int32_t *loops = by_place.before + words + 1; /* [n_dst] new ones before each row */
    find_gaps(l, base, &by_user, &by_place);
    while (loop < l->n && l->origin[loop] >= 0) loop++; /* the first new one: they ascend by their nodes */
    int64_t n_kept = loop;
    bool same = true;
    for (int64_t v = 0; v < n_dst; v++) {
        bool has_new = loop < l->n && l->dst[loop] == v;
        loops[v] = (int32_t)(loop - n_kept);
        for (; pos < base->n && dst[pos] == v; pos++) {
            bool stays = !is_out(&by_place, pos);
            if (d->image >= 0) g->maps[d->image].to[pos] = stays ? (int32_t)n : -1;
            if (!stays) continue;
            if (made[2]) (*made[2])[n] = (int32_t)pos;
            (*made[0])[n] = src[pos];
            s->ids[n++] = moved_up(&by_user, user ? user[pos] : pos);
        }
        if (has_new) {
            if (made[2]) (*made[2])[n] = -1;
            (*made[0])[n] = l->src[loop];
            s->ids[n] = loop;
            l->stored[loop++] = (int32_t)n++;
        }
        for (; filled < n; filled++) (*made[1])[filled] = (int32_t)v;
    }
    assert(n == l->n && pos == base->n);
    for (int64_t u = 0; u < n_kept; u++)
        l->stored[u] = moved_up(&by_place, base->stored[l->origin[u]]) + loops[l->dst[u]];
    for (int64_t k = 0; k < n; k++) same &= s->ids[k] == k;
    if (same) s->ids = NULL;
    rt_block_free(&scratch);
    return RT_OK;
}

/* The maps between a derived graph and its base, in stored positions. */
static RtCode link_base(RtGraph *g, const RtGraphDef *d, const RtEdgeList *l, const RtEdgeList *base, RtStatus *st)
{
    assert((d->orig < 0 || l->origin) && (d->image < 0 || l->image));
    if (d->orig >= 0) {
        RT_TRY(rt_graph_alloc(g, l->n, 4, &g->maps[d->orig].to, st));
        for (int64_t e = 0; e < l->n; e++)
            g->maps[d->orig].to[l->stored[e]] = l->origin[e] < 0 ? -1 : base->stored[l->origin[e]];
    }
    if (d->image >= 0) {
        RT_TRY(rt_graph_alloc(g, base->n, 4, &g->maps[d->image].to, st));
        for (int64_t e = 0; e < base->n; e++)
            g->maps[d->image].to[base->stored[e]] = l->image[e] < 0 ? -1 : l->stored[l->image[e]];
    }
    return RT_OK;
}

/* The ids of a space that has an order, and where each of the user's nodes is stored. */
static RtCode order_space(RtGraph *g, int64_t space, const int64_t *order, RtStatus *st)
{
    RtSpaceData *s = &g->spaces[space];
    RT_TRY(rt_graph_alloc(g, s->count, 8, &s->ids, st));
    RT_TRY(rt_block_alloc(&g->places[space], rt_size(s->count, 4), "an order of nodes", st));
    int32_t *places = g->places[space].p;
    for (int64_t i = 0; i < s->count; i++) {
        s->ids[i] = order[i];
        places[order[i]] = (int32_t)i;
    }
    for (int64_t i = 0; i < s->count; i++) assert(places[s->ids[i]] == i); /* a permutation */
    return RT_OK;
}

static RtCode order_nodes(RtGraph *g, const RtTopology *t, RtStatus *st)
{
    RT_TRY(rt_alloc(&g->places, g->model->n_spaces, sizeof *g->places, "a graph", st));
    for (int64_t s = 1; s < g->model->n_spaces && t->orders; s++)
        if (t->orders[s]) RT_TRY(order_space(g, s, t->orders[s], st));
    return RT_OK;
}

/* Where each row of the space is stored, by the user's number; NULL: as they are. The space may be the edges of an
   earlier graph. */
static const int32_t *places_of(const RtGraph *g, int64_t space)
{
    for (int64_t i = 0; i < g->model->n_graphs; i++)
        if (g->model->graphs[i].edge == space) return g->lists[i].stored;
    return g->places[space].p;
}

/* Candidates of which no program reads an array of pairs: they are counted. */
static RtCode count_candidates(RtGraph *g, const RtGraphDef *d, int64_t n_base, int64_t *n, RtStatus *st)
{
    if (!rt_mul(g->spaces[d->src_space].count, n_base, n)) *n = INT64_MAX;
    return rt_graph_set_count(g, d->edge, *n, st);
}

static RtCode build_edges_of(RtGraph *g, int64_t i, const RtTopology *t, RtStatus *st)
{
    const RtModel *m = g->model;
    const RtGraphDef *d = &m->graphs[i];
    RtEdgeList *lists = g->lists;
    assert(d->base < i); /* a graph is derived from one before it */
    if (d->kind == RT_GRAPH_KEYED) return rt_graph_set_count(g, d->edge, 0, st); /* none until the keys are said */
    if (d->kind == RT_GRAPH_SELECT || d->kind == RT_GRAPH_ROUTED)
        return rt_graph_build_found(g, d, t, lists[d->base].n, &lists[i].n, st);
    if (d->kind == RT_GRAPH_CANDIDATES && m->maps[d->src].implied && m->maps[d->dst].implied)
        return count_candidates(g, d, lists[d->base].n, &lists[i].n, st);
    RT_TRY(rt_edge_list_make(g, d, t, lists, &lists[i], st));
    const int32_t *from = d->kind == RT_GRAPH_NEAREST ? NULL : places_of(g, d->src_space);
    if (d->kind == RT_GRAPH_SELF_LOOPS && !d->redrawn && !from && !places_of(g, d->dst_space))
        return sort_loops(g, d, &lists[i], &lists[d->base], st);
    RT_TRY(sort_edges(g, d, &lists[i], from, places_of(g, d->dst_space), st));
    assert(rt_rows(g, d->edge, RT_READ) == lists[i].n);
    return d->base >= 0 ? link_base(g, d, &lists[i], &lists[d->base], st) : RT_OK;
}

static RtCode build_edges(RtGraph *g, const RtTopology *t, RtStatus *st)
{
    const RtModel *m = g->model;
    for (int64_t i = 0; i < m->n_graphs; i++)
        RT_TRY(rt_declared_graph(build_edges_of(g, i, t, st), m, &m->graphs[i], st));
    for (int64_t s = 1; s < m->n_spaces; s++)
        if (g->spaces[s].count < 0) RT_TRY(rt_graph_set_count(g, s, t->counts[s], st));
    return RT_OK;
}

/* ---- the other maps ---- */

static RtCode check_batch(int64_t id, int64_t before, int64_t v, int64_t n_graphs, const char *place, RtStatus *st)
{
    if (id < 0 || id >= n_graphs)
        return rt_fail(st, RT_E_DATA_ID, place, "graph ids are numbers from 0",
                       "row %lld is %lld, wanted 0 <= id < %lld", (long long)v, (long long)id, (long long)n_graphs);
    if (id < before)
        return rt_fail(st, RT_E_GRAPH_BATCH, place, "put the nodes of one graph side by side",
                       "row %lld is %lld after %lld, wanted ascending ids", (long long)v, (long long)id,
                       (long long)before);
    return RT_OK;
}

/* node.graph, edge.graph from the user's graphs of nodes; zeros without such and for maps to unit. */
static RtCode build_batch(RtGraph *g, int64_t map, const RtTopology *t, RtStatus *st)
{
    const RtMapDef *d = &g->model->maps[map];
    int64_t n = g->spaces[d->from].count, n_to = g->spaces[d->to].count;
    const char *name = g->model->strings + d->name;
    char place[300];
    rt_batch_place(g, t, d->from, place, sizeof place);
    if (n > 0 && n_to < 1)
        return rt_fail(st, RT_E_GRAPH_COUNT, name, "set num_graphs in meta.json", "there are nodes but no graphs");
    RT_TRY(rt_graph_alloc(g, n, 4, &g->maps[map].to, st));
    for (int64_t i = 0, before = 0; i < n && d->to; i++) {
        int64_t id = rt_row_graph(g, t, d->from, i);
        RT_TRY(check_batch(id, g->model->spaces[d->from].is_edge ? 0 : before, i, n_to, place, st));
        g->maps[map].to[i] = (int32_t)id;
        before = id;
    }
    return RT_OK;
}

static RtCode copy_pattern(RtGraph *g, const RtPattern *p, RtStatus *st)
{
    const int32_t *from[] = {p->rows, p->cols};
    const int64_t maps[] = {p->row_map, p->col_map};
    for (int i = 0; i < 2; i++) {
        RT_TRY(rt_graph_alloc(g, p->count, 4, &g->maps[maps[i]].to, st));
        if (p->count) memcpy(g->maps[maps[i]].to, from[i], (size_t)p->count * 4);
    }
    return RT_OK;
}

/* Without images until data say them. */
static RtCode open_said_maps(RtGraph *g, RtStatus *st)
{
    const RtModel *m = g->model;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        if (!m->tensors[i].is_map) continue;
        RtMapData *map = &g->maps[m->tensors[i].map];
        int64_t n = g->spaces[m->tensors[i].space].count;
        RT_TRY(rt_graph_alloc(g, n, 4, &map->to, st));
        for (int64_t k = 0; k < n; k++) map->to[k] = -1;
    }
    return RT_OK;
}

/* The images of a graph's edges in the user's order, where the map is that to their sources and these are stored in
   that order, too; NULL: of another map. */
static const int32_t *sources_of(const RtGraph *g, int64_t map)
{
    for (int64_t i = 0; i < g->model->n_graphs; i++) {
        const RtGraphDef *d = &g->model->graphs[i];
        if (d->src == map && g->lists[i].stored && d->kind != RT_GRAPH_NEAREST && !places_of(g, d->src_space))
            return g->lists[i].src;
    }
    return NULL;
}

/* Elements by image; ids[pos] is the user's number of element pos, NULL: the same. */
static RtCode fill_list(RtGraph *g, int64_t m, RtStatus *st)
{
    RtMapData *map = &g->maps[m];
    const RtMapDef *d = &g->model->maps[m];
    const RtSpaceData *from = &g->spaces[d->from];
    const int32_t *by_user = g->lists ? places_of(g, d->from) : NULL;
    int64_t n = from->count, n_rows = g->spaces[d->to].count;
    const int32_t *images = g->lists ? sources_of(g, m) : NULL;
    bool fill = !by_user && from->ids;
    RtBlock scratch;
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size_plus(8, n_rows, 8), fill ? n : 0, 4), "a sort", st));
    int64_t *at = scratch.p;
    int32_t *filled = (int32_t *)(at + n_rows + 1);
    memcpy(at, map->rows, (size_t)(n_rows + 1) * 8);
    for (int64_t pos = 0; pos < n && fill; pos++) filled[from->ids[pos]] = (int32_t)pos;
    if (fill) by_user = filled;
    for (int64_t u = 0; u < n; u++) {
        int32_t pos = place_of(by_user, (int32_t)u), row = images ? images[u] : map->to[pos];
        if (row >= 0) map->list[at[row]++] = pos;
    }
    assert(!n_rows || at[n_rows - 1] == map->rows[n_rows]); /* each row is full */
    rt_block_free(&scratch);
    return RT_OK;
}

static bool is_map_of(const RtModel *m, const RtGraphDef *pairs, int64_t map)
{
    return pairs->image == map || m->maps[map].from == pairs->edge;
}

/* Whether a map leads from or to pairs of rows and keys, which are known when the keys are said. */
static bool is_keyed(const RtModel *m, int64_t map)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].kind == RT_GRAPH_KEYED && is_map_of(m, &m->graphs[i], map)) return true;
    return false;
}

static RtCode build_rows(RtGraph *g, int64_t map, RtStatus *st)
{
    const RtMapDef *d = &g->model->maps[map];
    RtMapData *data = &g->maps[map];
    int64_t n = g->spaces[d->from].count, n_rows = g->spaces[d->to].count;
    RT_TRY(rt_graph_alloc(g, n_rows + 1, 8, &data->rows, st));
    if (d->implied) { /* the targets of candidates: as many to each */
        for (int64_t k = 0; k <= n_rows; k++) data->rows[k] = n_rows ? k * (n / n_rows) : 0;
        return RT_OK;
    }
    RT_TRY(rt_graph_alloc(g, n, 4, &data->list, st));
    count_rows(data->to, n, n_rows, data->rows);
    assert(!d->sorted || data->rows[n_rows] == n); /* an element's place is its place in the list */
    if (!d->sorted || is_keyed(g->model, map)) return fill_list(g, map, st);
    for (int64_t i = 0; i < n; i++) data->list[i] = (int32_t)i;
    return RT_OK;
}

static RtCode build_maps(RtGraph *g, const RtTopology *t, RtStatus *st)
{
    const RtModel *m = g->model;
    for (int64_t i = 0; i < t->n_patterns; i++) RT_TRY(copy_pattern(g, &t->patterns[i], st));
    RT_TRY(open_said_maps(g, st));
    for (int64_t i = 0; i < m->n_maps; i++) {
        if (m->maps[i].computed || is_keyed(m, i)) continue; /* in a program's memory; not known yet */
        if (!g->maps[i].to && !m->maps[i].implied) RT_TRY(build_batch(g, i, t, st));
        if (m->maps[i].needs_rows) RT_TRY(build_rows(g, i, st));
    }
    return RT_OK;
}

int32_t *rt_graph_along(const RtGraph *g, int64_t map, int64_t along)
{
    for (int64_t i = 0; i < g->n_alongs; i++)
        if (g->alongs[i].map == map && g->alongs[i].along == along) return g->alongs[i].to;
    return NULL;
}

static void fill_along(RtGraph *g, const RtAlong *a)
{
    const RtMapData *images = &g->maps[a->map], *list = &g->maps[a->along];
    int64_t n = list->rows[g->spaces[g->model->maps[a->along].to].count];
    assert(images->to && n <= g->spaces[g->model->maps[a->along].from].count);
    for (int64_t k = 0; k < n; k++) a->to[k] = images->to[list->list[k]];
}

static RtCode build_along(RtGraph *g, int64_t map, int64_t along, RtStatus *st)
{
    const RtMapDef *d = &g->model->maps[along];
    RtAlong *a = &g->alongs[g->n_alongs];
    *a = (RtAlong){.map = map, .along = along};
    if (is_keyed(g->model, map) || is_keyed(g->model, along)) return g->n_alongs++, RT_OK;
    RT_TRY(rt_graph_alloc(g, g->spaces[d->from].count, 4, &a->to, st));
    g->n_alongs++;
    fill_along(g, a);
    return RT_OK;
}

RtCode rt_graph_pair_up(RtGraph *g, const RtGraphDef *d, int64_t n_owned, RtStatus *st)
{
    const RtModel *m = g->model;
    RT_TRY(rt_graph_build_keyed(g, d, n_owned, st));
    for (int64_t i = 0; i < m->n_maps; i++) {
        if (!is_map_of(m, d, i)) continue;
        RT_TRY(rt_graph_alloc(g, g->spaces[m->maps[i].from].count, 4, &g->maps[i].to, st)); /* to unit: row 0 */
        if (m->maps[i].needs_rows) RT_TRY(build_rows(g, i, st));
    }
    RtSpaceData *s = &g->spaces[d->edge];
    s->ids_all = NULL; /* of no pair, until now */
    if (rt_space_needs_ids(m, d->edge)) RT_TRY(rt_graph_alloc(g, s->count, 8, &s->ids_all, st));
    for (int64_t i = 0; i < s->count && s->ids_all; i++) s->ids_all[i] = i;
    for (int64_t i = 0; i < g->n_alongs; i++) {
        RtAlong *a = &g->alongs[i];
        if (!g->maps[a->map].to || !g->maps[a->along].list) continue; /* pairs of another graph */
        if (!is_map_of(m, d, a->map) && !is_map_of(m, d, a->along)) continue;
        RT_TRY(rt_graph_alloc(g, g->spaces[m->maps[a->along].from].count, 4, &a->to, st));
        fill_along(g, a);
    }
    return RT_OK;
}

RtCode rt_graph_say_map(RtGraph *g, int64_t map, int64_t dtype, const void *ids, RtStatus *st)
{
    const RtMapDef *d = &g->model->maps[map];
    int64_t n_rows = g->spaces[d->to].count;
    assert(d->partial && (dtype == RT_I32 || dtype == RT_I64));
    for (int64_t i = 0; i < g->spaces[d->from].count; i++) {
        int64_t id = dtype == RT_I32 ? ((const int32_t *)ids)[i] : ((const int64_t *)ids)[i];
        g->maps[map].to[i] = id >= 0 && id < n_rows ? (int32_t)id : -1;
    }
    if (d->needs_rows) RT_TRY(build_rows(g, map, st));
    for (int64_t i = 0; i < g->n_alongs; i++)
        if ((g->alongs[i].map == map || g->alongs[i].along == map) && g->alongs[i].to) fill_along(g, &g->alongs[i]);
    for (int64_t i = 0; i < g->model->n_graphs; i++) {
        const RtGraphDef *pairs = &g->model->graphs[i];
        if (pairs->kind != RT_GRAPH_KEYED || pairs->of != map) continue;
        RT_TRY(rt_graph_pair_up(g, pairs, g->spaces[pairs->src_space].count, st));
    }
    return RT_OK;
}

static RtCode build_alongs(RtGraph *g, RtStatus *st)
{
    const RtModel *m = g->model;
    int64_t n = 0;
    for (int64_t p = 0; p < m->n_programs; p++) n += m->programs[p].n_buffers;
    RT_TRY(rt_alloc(&g->alongs, n, sizeof *g->alongs, "a graph", st));
    for (int64_t p = 0; p < m->n_programs; p++)
        for (int64_t i = 0; i < m->programs[p].n_buffers; i++) {
            const RtBuffer *b = &m->buffers[m->programs[p].first_buffer + i];
            if (b->kind == RT_BUF_MAP_ALONG && !rt_graph_along(g, b->ref, b->along))
                RT_TRY(build_along(g, b->ref, b->along, st));
        }
    return RT_OK;
}

static RtCode build_ids(RtGraph *g, RtStatus *st)
{
    for (int64_t s = 0; s < g->model->n_spaces; s++) {
        RtSpaceData *d = &g->spaces[s];
        if (d->ids || !rt_space_needs_ids(g->model, s)) {
            d->ids_all = d->ids;
            continue;
        }
        RT_TRY(rt_graph_alloc(g, d->count, 8, &d->ids_all, st));
        for (int64_t i = 0; i < d->count; i++) d->ids_all[i] = i;
    }
    return RT_OK;
}

/* ---- whole ---- */

static bool any_redrawn(const RtModel *m)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].redrawn) return true;
    return false;
}

/* Frees the edge lists and the places of nodes, which only drawing again reads. */
static void drop_lists(RtGraph *g)
{
    for (int64_t i = 0; g->lists && i < g->model->n_graphs; i++) rt_block_free(&g->lists[i].block);
    free(g->lists);
    g->lists = NULL;
    for (int64_t s = 0; g->places && s < g->model->n_spaces; s++) rt_block_free(&g->places[s]);
    free(g->places);
    g->places = NULL;
}

static RtCode graph_build(RtGraph *g, const RtTopology *t, RtStatus *st)
{
    RT_TRY(rt_alloc(&g->lists, g->model->n_graphs, sizeof *g->lists, "a graph", st));
    RtCode code = rt_memory_check(rt_graph_least_bytes(g->model, t->counts), "a graph of so many nodes", st);
    if (!code) code = count_nodes(g, t, st);
    if (!code) code = order_nodes(g, t, st);
    if (!code) code = build_edges(g, t, st);
    if (!code) code = build_maps(g, t, st);
    if (!code) code = build_alongs(g, st);
    if (!code) code = build_ids(g, st);
    if (!any_redrawn(g->model)) drop_lists(g);
    return code;
}

/* ---- drawing again ---- */

/* Draws the graph's edges again and fills its maps, in the arrays that are there. */
static RtCode redraw(RtGraph *g, const RtGraphDef *d, RtEdgeList *l, RtStatus *st)
{
    const RtModel *m = g->model;
    rt_block_free(&l->block);
    RT_TRY(rt_edge_list_make(g, d, NULL, g->lists, l, st));
    assert(l->n == g->spaces[d->edge].count); /* arrays stay where they are */
    RT_TRY(sort_edges(g, d, l, places_of(g, d->src_space), places_of(g, d->dst_space), st));
    RT_TRY(link_base(g, d, l, &g->lists[d->base], st));
    for (int64_t i = 0; i < m->n_maps; i++)
        if (m->maps[i].from == d->edge && g->maps[i].rows) RT_TRY(build_rows(g, i, st));
    for (int64_t i = 0; i < g->n_alongs; i++)
        if (m->maps[g->alongs[i].map].from == d->edge) fill_along(g, &g->alongs[i]);
    return RT_OK;
}

RtCode rt_graph_redraw(RtGraph *g, int64_t seed, int64_t step, RtStatus *st)
{
    g->draw_seed = seed;
    g->draw_step = step;
    for (int64_t i = 0; i < g->model->n_graphs; i++)
        if (g->model->graphs[i].redrawn) RT_TRY(redraw(g, &g->model->graphs[i], &g->lists[i], st));
    return RT_OK;
}

RtCode rt_graph_create(const RtModel *m, const RtTopology *t, RtGraph **out, RtStatus *st)
{
    *out = NULL;
    RtGraph *g;
    RT_TRY(rt_alloc(&g, 1, sizeof *g, "a graph", st));
    g->model = m;
    RtCode code = rt_alloc(&g->spaces, m->n_spaces, sizeof *g->spaces, "a graph", st);
    if (!code) code = rt_alloc(&g->maps, m->n_maps, sizeof *g->maps, "a graph", st);
    if (!code) code = graph_build(g, t, st);
    if (code) rt_graph_free(g);
    else *out = g;
    return code;
}

void rt_graph_free(RtGraph *g)
{
    if (!g) return;
    drop_lists(g);
    for (int64_t i = 0; i < g->n_blocks; i++) rt_block_free(&g->blocks[i]);
    free(g->blocks);
    free(g->spaces);
    free(g->maps);
    free(g->alongs);
    free(g);
}

void rt_graph_to_stored(const RtGraph *g, int64_t space, int64_t row_bytes, const void *in, void *out)
{
    const RtSpaceData *s = &g->spaces[space];
    size_t n = (size_t)row_bytes;
    if (!s->count || !n) return;
    if (!s->ids) memcpy(out, in, n * (size_t)s->count);
    else
        for (int64_t i = 0; i < s->count; i++)
            memcpy((char *)out + (size_t)i * n, (const char *)in + (size_t)s->ids[i] * n, n);
}

void rt_graph_to_user(const RtGraph *g, int64_t space, int64_t row_bytes, const void *in, void *out)
{
    const RtSpaceData *s = &g->spaces[space];
    size_t n = (size_t)row_bytes;
    if (!s->count || !n) return;
    if (!s->ids) memcpy(out, in, n * (size_t)s->count);
    else
        for (int64_t i = 0; i < s->count; i++)
            memcpy((char *)out + (size_t)s->ids[i] * n, (const char *)in + (size_t)i * n, n);
}

int64_t rt_rows(const RtGraph *g, int64_t space, RtRows which)
{
    const RtSpaceData *s = &g->spaces[space];
    assert(s->only_read >= 0 && s->only_read <= s->count);
    return which == RT_OWNED ? s->count - s->only_read : s->count;
}

int64_t rt_count_value(const RtGraph *g, const RtCount *c, RtRows which)
{
    if (c->kind == RT_COUNT_CONST) return c->value;
    if (c->kind == RT_COUNT_AHEAD) return rt_cpu_ahead(c->value);
    if (c->kind == RT_COUNT_SPLIT) return 0; /* split.c says it */
    int64_t n = rt_rows(g, c->space, which);
    if (c->kind == RT_COUNT_SPACE) return n;
    assert(c->block > 0 && c->max > 0);
    if (c->max != INT64_MAX) n = rt_rows(g, c->space, RT_OWNED) + g->spaces[c->space].elsewhere;
    RtBlocks b = rt_blocks(n, c->block, c->max);
    switch (c->kind) {
    case RT_COUNT_BLOCKS: return b.n;
    case RT_COUNT_BLOCK_ROWS: return b.rows;
    case RT_COUNT_BLOCK_LEVELS: return b.levels;
    default: return b.slots;
    }
}
