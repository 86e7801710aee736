/* Graphs of pairs: edges of a base that meet (line, siblings), nodes of one graph of a batch (complete, nearest).
   Counts first, so that what does not fit is refused before memory is asked for. Works in the user's order only;
   sorting is graph.c's. */
#include "runtime/graph_list.h"
#include <assert.h>

static RtCode fill_edge_pairs(const RtEdgeList *base, const int32_t *meet, const RtEdgeRows *t, RtEdgeList *l,
                              RtStatus *st)
{
    int64_t n = 0, k = 0;
    for (int64_t f = 0; f < base->n; f++) n += t->rows[meet[f] + 1] - t->rows[meet[f]];
    RT_TRY(rt_edge_list_alloc(l, n, -1, st));
    for (int64_t f = 0; f < base->n; f++)
        for (int64_t i = t->rows[meet[f]]; i < t->rows[meet[f] + 1]; i++, k++) {
            l->src[k] = t->list[i];
            l->dst[k] = (int32_t)f;
        }
    assert(k == n);
    return RT_OK;
}

RtCode rt_list_edge_pairs(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *base, RtEdgeList *l, RtStatus *st)
{
    RtEdgeRows t = {0};
    const int32_t *meet = def->kind == RT_GRAPH_LINE ? base->src : base->dst;
    int64_t n_dst = g->spaces[g->model->graphs[def->base].dst_space].count;
    RtCode code = rt_edge_rows(base->dst, base->n, n_dst, &t, st);
    if (!code) code = fill_edge_pairs(base, meet, &t, l, st);
    rt_block_free(&t.block);
    return code;
}

/* Nodes, and the graphs of the batch that they are of. */
typedef struct Nodes {
    const RtGraph *g;
    const RtTopology *t;
    int64_t space, n;
    bool one; /* all are of one */
} Nodes;

static int64_t graph_of(const Nodes *x, int64_t v) { return x->one ? 0 : rt_row_graph(x->g, x->t, x->space, v); }

/* The end of the run of nodes of v's graph. */
static int64_t graph_end(const Nodes *x, int64_t v)
{
    int64_t end = x->one ? x->n : v + 1;
    while (end < x->n && graph_of(x, end) == graph_of(x, v)) end++;
    return end;
}

/* Nodes of one graph stand side by side. */
static RtCode check_batch(const Nodes *x, RtStatus *st)
{
    char place[300];
    for (int64_t v = 1; v < x->n && !x->one; v++)
        if (graph_of(x, v) < graph_of(x, v - 1))
            return rt_fail(st, RT_E_GRAPH_BATCH, rt_batch_place(x->g, x->t, x->space, place, sizeof place),
                           "put the nodes of one graph side by side",
                           "row %lld is %lld after %lld, wanted ascending ids", (long long)v, (long long)graph_of(x, v),
                           (long long)graph_of(x, v - 1));
    return RT_OK;
}

RtCode rt_list_node_pairs(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, RtEdgeList *l, RtStatus *st)
{
    int64_t n_nodes = g->spaces[def->dst_space].count, n = 0, k = 0;
    const Nodes nodes = {g, t, def->dst_space, n_nodes, false};
    RT_TRY(check_batch(&nodes, st));
    for (int64_t v = 0, end; v < n_nodes; v = end) {
        end = graph_end(&nodes, v);
        n += (end - v) * (end - v);
    }
    RT_TRY(rt_edge_list_alloc(l, n, -1, st));
    for (int64_t first = 0, end; first < n_nodes; first = end) {
        end = graph_end(&nodes, first);
        for (int64_t v = first; v < end; v++)
            for (int64_t u = first; u < end; u++, k++) {
                l->src[k] = (int32_t)u;
                l->dst[k] = (int32_t)v;
            }
    }
    assert(k == n);
    return RT_OK;
}

RtCode rt_list_nearest(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, RtEdgeList *l, RtStatus *st)
{
    int64_t n_dst = g->spaces[def->dst_space].count, n = 0, k = 0;
    bool one = def->src_space == def->dst_space, others = one && def->policy == RT_LOOPS_REMOVE;
    const Nodes nodes = {g, t, def->dst_space, n_dst, def->batch < 0};
    RT_TRY(check_batch(&nodes, st));
    for (int fill = 0; fill < 2; fill++) {
        if (fill) RT_TRY(rt_edge_list_alloc(l, n, -1, st));
        for (int64_t first = 0, end; first < n_dst; first = end) {
            end = graph_end(&nodes, first);
            int64_t near = (one ? end - first : g->spaces[def->src_space].count) - others;
            near = (near + def->n_nodes - 1) / def->n_nodes;
            if (near > def->n_edges) near = def->n_edges;
            n += fill ? 0 : (end - first) * near;
            for (int64_t i = 0; fill && i < (end - first) * near; i++, k++) {
                l->src[k] = -1;
                l->dst[k] = (int32_t)(first + i / near);
            }
        }
    }
    return RT_OK;
}
