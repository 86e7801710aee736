/* Graphs that are drawn, when they are loaded or for each step of training.

   Pairs of nodes that no edge joins: for each edge of the base, in the user's order, as many
   with its source. A node is drawn up to 16 times, until the source leads no edge to it and is not it; the last stays.
   Numbers depend on the seed (or the run's, the step and the graph's site) and the pair's place alone.
   A permutation: nodes in the order of one number each. Works in the user's order only; sorting is graph.c's. */
#include "runtime/graph_list.h"
#include <assert.h>
#include <stdlib.h>

enum { TRIES = 16 };

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int ascending_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Targets of each source, ascending: in the rows' list. */
static RtCode by_source(const RtEdgeList *base, int64_t n_src, RtEdgeRows *s, RtStatus *st)
{
    RT_TRY(rt_edge_rows(base->src, base->n, n_src, s, st));
    for (int64_t i = 0; i < base->n; i++) s->list[i] = base->dst[s->list[i]];
    for (int64_t v = 0; v < n_src; v++)
        qsort(s->list + s->rows[v], (size_t)(s->rows[v + 1] - s->rows[v]), sizeof *s->list, ascending);
    return RT_OK;
}

static bool leads(const RtEdgeRows *s, int32_t src, int32_t dst)
{
    size_t n = (size_t)(s->rows[src + 1] - s->rows[src]);
    return n && bsearch(&dst, s->list + s->rows[src], n, sizeof dst, ascending);
}

static int32_t draw(const RtGraph *g, const RtGraphDef *def, const RtEdgeRows *s, int64_t n_dst, int32_t src,
                    int64_t pair)
{
    int32_t dst = 0;
    assert(n_dst > 0); /* an edge of the base has a target */
    for (uint64_t t = 0; t < TRIES; t++) {
        dst = (int32_t)(rt_graph_draw(g, def, pair, 16 * t) % (uint64_t)n_dst);
        if (!(def->src_space == def->dst_space && dst == src) && !leads(s, src, dst)) break;
    }
    return dst;
}

RtCode rt_list_negatives(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *base, RtEdgeList *l, RtStatus *st)
{
    int64_t n, n_dst = g->spaces[def->dst_space].count;
    RtEdgeRows s = {0};
    if (!rt_mul(base->n, def->n_edges, &n)) n = INT64_MAX / 8;
    RT_TRY(rt_edge_list_alloc(l, n, base->n, st));
    RT_TRY(by_source(base, g->spaces[def->src_space].count, &s, st));
    for (int64_t i = 0; i < n; i++) {
        int64_t e = i / def->n_edges;
        l->src[i] = base->src[e];
        l->dst[i] = draw(g, def, &s, n_dst, base->src[e], i);
        l->origin[i] = (int32_t)e;
    }
    rt_block_free(&s.block);
    return RT_OK;
}

RtCode rt_list_permutation(const RtGraph *g, const RtGraphDef *def, RtEdgeList *l, RtStatus *st)
{
    int64_t n = g->spaces[def->dst_space].count;
    RtBlock keys;
    RT_TRY(rt_edge_list_alloc(l, n, -1, st));
    RT_TRY(rt_block_alloc(&keys, rt_size(n, 8), "a permutation", st));
    uint64_t *key = keys.p; /* a number, and the node behind it */
    for (int64_t v = 0; v < n; v++) key[v] = (uint64_t)rt_graph_draw(g, def, v, 0) << 32 | (uint64_t)v;
    qsort(key, (size_t)n, sizeof *key, ascending_keys);
    for (int64_t v = 0; v < n; v++) {
        l->src[v] = (int32_t)(key[v] & UINT32_MAX);
        l->dst[v] = (int32_t)v;
    }
    rt_block_free(&keys);
    return RT_OK;
}
