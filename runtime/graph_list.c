/* Where a graph's edges come from (IrGraphKind): lists of the user's data, random numbers, or another graph with loops
   kept, replaced, added or removed, or turned around; and graphs of pairs (graph_pairs.c, graph_path.c,
   graph_negatives.c, graph_targets.c). Works in
   the user's order only; sorting is graph.c's. */
#include "runtime/graph_list.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static RtCode check_edges(int64_t n, RtStatus *st)
{
    if (n <= INT32_MAX) return RT_OK;
    return rt_fail(st, RT_E_GRAPH_SIZE, NULL, "split the graph", "found %lld edges, wanted at most 2147483647",
                   (long long)n);
}

/* Room for n edges, and the two maps to a base of n_base edges unless n_base < 0. */
RtCode rt_edge_list_alloc(RtEdgeList *l, int64_t n, int64_t n_base, RtStatus *st)
{
    *l = (RtEdgeList){.n = n};
    RT_TRY(check_edges(n, st));
    int64_t bytes = rt_size_plus(rt_size(n, 12), n_base >= 0 ? n + n_base : 0, 4);
    RT_TRY(rt_block_alloc(&l->block, bytes, "an edge list", st));
    l->src = l->block.p;
    l->dst = l->src + n;
    l->stored = l->dst + n;
    l->origin = n_base >= 0 ? l->stored + n : NULL;
    l->image = n_base >= 0 ? l->origin + n : NULL;
    return RT_OK;
}

RtCode rt_edge_rows(const int32_t *ends, int64_t n, int64_t n_ends, RtEdgeRows *r, RtStatus *st)
{
    int64_t rows = n_ends + 1;
    RT_TRY(rt_block_alloc(&r->block, rt_size_plus(rt_size(rows, 16), n, 4), "edges by one end", st));
    int64_t *at = r->block.p;
    r->rows = at + rows;
    r->list = (int32_t *)(r->rows + rows);
    for (int64_t e = 0; e < n; e++) r->rows[ends[e] + 1]++;
    for (int64_t v = 0; v < n_ends; v++) r->rows[v + 1] += r->rows[v];
    assert(r->rows[n_ends] == n); /* every edge has the end */
    memcpy(at, r->rows, (size_t)rows * 8);
    for (int64_t e = 0; e < n; e++) r->list[at[ends[e]]++] = (int32_t)e;
    return RT_OK;
}

static RtCode id_error(RtStatus *st, const RtEdgeIds *t, const char *end, int64_t e, int64_t id, int64_t count,
                       const char *space)
{
    char hint[300];
    snprintf(hint, sizeof hint, "ids are numbers from 0; is num_%ss or a feature file short?", space);
    return rt_fail(st, RT_E_DATA_ID, t->place, id < 0 ? "ids are numbers from 0" : hint,
                   "%s of edge %lld is %lld, wanted 0 <= id < %lld: a row of %s", end,
                   (long long)(t->rows ? t->rows[e] : e), (long long)id, (long long)count, space);
}

RtCode rt_edge_ids_check(const RtModel *m, const RtGraphDef *def, const RtEdgeIds *t, const int64_t ends[2],
                         RtStatus *st)
{
    int64_t n_src = ends[0], n_dst = ends[1];
    const char *from = m->strings + m->spaces[def->src_space].name, *to = m->strings + m->spaces[def->dst_space].name;
    if (def->kind == RT_GRAPH_COLUMN && t->n != n_src)
        return rt_fail(st, RT_E_DATA_ROWS, t->place, "save one integer for each row",
                       "found %lld integers, wanted %lld: one per row of %s", (long long)t->n, (long long)n_src, from);
    for (int64_t e = 0; e < t->n; e++) {
        int64_t src = t->src ? t->src[e] : e, dst = t->dst[e];
        if (src < 0 || src >= n_src) return id_error(st, t, "the source", e, src, n_src, from);
        if (dst < 0 || dst >= n_dst) return id_error(st, t, "the target", e, dst, n_dst, to);
    }
    return RT_OK;
}

static RtCode list_ids(const RtGraph *g, const RtGraphDef *def, const RtEdgeIds *t, RtEdgeList *l, RtStatus *st)
{
    const int64_t ends[] = {g->spaces[def->src_space].count, g->spaces[def->dst_space].count};
    RT_TRY(check_edges(t->n, st)); /* before so many are looked at */
    RT_TRY(rt_edge_ids_check(g->model, def, t, ends, st));
    RT_TRY(rt_edge_list_alloc(l, t->n, -1, st));
    for (int64_t e = 0; e < t->n; e++) {
        l->src[e] = (int32_t)(t->src ? t->src[e] : e);
        l->dst[e] = (int32_t)t->dst[e];
    }
    return RT_OK;
}

static RtCode list_data(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, RtEdgeList *l, RtStatus *st)
{
    RtEdgeIds ids = {t->place, t->n_edges, t->src, t->dst, NULL};
    if (def->kind == RT_GRAPH_DATA) return list_ids(g, def, &ids, l, st);
    if (t->files) return list_ids(g, def, &t->files[def - g->model->graphs], l, st);
    return rt_fail(st, RT_E_DATA_MISSING, g->model->strings + def->name, NULL, "its edges are not given");
}

/* One end of edge e, as ir/eval draws it. */
static int32_t random_id(const RtGraphDef *def, int64_t e, uint64_t feature)
{
    assert(def->n_nodes > 0);
    uint32_t word = rt_philox((uint64_t)def->seed, 0, 0, (uint64_t)e, feature);
    return (int32_t)(word % (uint64_t)def->n_nodes);
}

static RtCode list_random(const RtGraphDef *def, RtEdgeList *l, RtStatus *st)
{
    RT_TRY(rt_edge_list_alloc(l, def->n_nodes > 0 ? def->n_edges : 0, -1, st));
    for (int64_t e = 0; e < l->n; e++) {
        l->src[e] = random_id(def, e, 0);
        l->dst[e] = random_id(def, e, 16);
    }
    return RT_OK;
}

static RtCode list_reverse(const RtEdgeList *base, RtEdgeList *l, RtStatus *st)
{
    RT_TRY(rt_edge_list_alloc(l, base->n, base->n, st));
    for (int64_t e = 0; e < base->n; e++) {
        l->src[e] = base->dst[e];
        l->dst[e] = base->src[e];
        l->origin[e] = l->image[e] = (int32_t)e;
    }
    return RT_OK;
}

/* last[v] = the base's last loop at node v, -1 without one. */
static void find_last_loops(const RtEdgeList *base, int64_t n_nodes, int32_t *last)
{
    for (int64_t v = 0; v < n_nodes; v++) last[v] = -1;
    for (int64_t e = 0; e < base->n; e++)
        if (base->src[e] == base->dst[e]) last[base->src[e]] = (int32_t)e;
}

static bool edge_stays(const RtEdgeList *base, int64_t e, int64_t policy, const int32_t *last)
{
    if (base->src[e] != base->dst[e] || policy == RT_LOOPS_ADD) return true;
    return policy == RT_LOOPS_KEEP && last[base->src[e]] == e;
}

/* Whether node v gets a new loop. */
static bool loop_is_new(int64_t policy, const int32_t *last, int64_t v)
{
    if (policy == RT_LOOPS_KEEP) return last[v] < 0;
    return policy != RT_LOOPS_REMOVE;
}

static void push_edge(RtEdgeList *l, int64_t *n, int32_t src, int32_t dst, int32_t origin)
{
    assert(*n < l->n); /* the list was made for as many as are pushed */
    l->src[*n] = src;
    l->dst[*n] = dst;
    l->origin[*n] = origin;
    if (origin >= 0) l->image[origin] = (int32_t)*n;
    ++*n;
}

static void fill_loops(const RtEdgeList *base, int64_t policy, const int32_t *last, int64_t n_nodes, RtEdgeList *l)
{
    int64_t n = 0;
    for (int64_t e = 0; e < base->n; e++) {
        l->image[e] = -1;
        if (edge_stays(base, e, policy, last)) push_edge(l, &n, base->src[e], base->dst[e], (int32_t)e);
    }
    for (int64_t v = 0; v < n_nodes; v++)
        if (loop_is_new(policy, last, v)) push_edge(l, &n, (int32_t)v, (int32_t)v, -1);
    assert(n == l->n);
}

static RtCode list_self_loops(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *base, RtEdgeList *l,
                              RtStatus *st)
{
    int64_t n_src = g->spaces[def->src_space].count, n_dst = g->spaces[def->dst_space].count;
    int64_t n_nodes = n_src < n_dst ? n_src : n_dst, n = 0; /* that can have a loop: ids of both ends */
    RtBlock last;
    RT_TRY(rt_block_alloc(&last, rt_size(n_nodes, 4), "self loops", st));
    find_last_loops(base, n_nodes, last.p);
    for (int64_t e = 0; e < base->n; e++) n += edge_stays(base, e, def->policy, last.p);
    for (int64_t v = 0; v < n_nodes; v++) n += loop_is_new(def->policy, last.p, v);
    RtCode code = rt_edge_list_alloc(l, n, base->n, st);
    if (!code) fill_loops(base, def->policy, last.p, n_nodes, l);
    rt_block_free(&last);
    return code;
}

/* Of a metapath: whether its pairs are given, as those of several processes are. */
static bool is_listed(const RtGraph *g, const RtGraphDef *def, const RtTopology *t)
{
    return t->files && t->files[def - g->model->graphs].place;
}

RtCode rt_edge_list_make(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, const RtEdgeList *lists,
                         RtEdgeList *list, RtStatus *st)
{
    switch (def->kind) {
    case RT_GRAPH_DATA:
    case RT_GRAPH_FILE:
    case RT_GRAPH_COLUMN: return list_data(g, def, t, list, st);
    case RT_GRAPH_COMPOSE:
        return is_listed(g, def, t) ? list_data(g, def, t, list, st) : rt_list_path(g, def, lists, list, st);
    case RT_GRAPH_RANDOM: return list_random(def, list, st);
    case RT_GRAPH_REVERSE: return list_reverse(&lists[def->base], list, st);
    case RT_GRAPH_SELF_LOOPS: return list_self_loops(g, def, &lists[def->base], list, st);
    case RT_GRAPH_LINE:
    case RT_GRAPH_SIBLINGS: return rt_list_edge_pairs(g, def, &lists[def->base], list, st);
    case RT_GRAPH_COMPLETE: return rt_list_node_pairs(g, def, t, list, st);
    case RT_GRAPH_CANDIDATES: return rt_list_candidates(g, def, lists, list, st);
    case RT_GRAPH_ANSWERS: return rt_list_answers(g, def, t, lists, list, st);
    case RT_GRAPH_NEGATIVES: return rt_list_negatives(g, def, &lists[def->base], list, st);
    case RT_GRAPH_NEAREST: return rt_list_nearest(g, def, t, list, st);
    case RT_GRAPH_PERMUTATION: return rt_list_permutation(g, def, list, st);
    default: return rt_fail(st, RT_E_INTERNAL, NULL, NULL, "graph kind %lld", (long long)def->kind);
    }
}
