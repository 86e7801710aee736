/* Graphs that a run finds, as far as they are known when the data are loaded: how many nodes are chosen of each graph
   of a batch, how many edges there may be, which edge of the base each was made for. Which nodes, and where edges lead,
   a program says. */
#include "runtime/graph_list.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

/* ---- graphs of a batch ---- */

/* Whether the data's graph_of speaks of the space: nodes of the data's graph. */
static bool space_is_batched(const RtModel *m, int64_t space)
{
    bool random = false, data = m->n_graphs == 0;
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const RtGraphDef *d = &m->graphs[i];
        bool here = d->src_space == space || d->dst_space == space;
        random |= here && d->kind == RT_GRAPH_RANDOM;
        data |= here && d->kind == RT_GRAPH_DATA;
    }
    return data && !random;
}

int64_t rt_row_graph(const RtGraph *g, const RtTopology *t, int64_t space, int64_t row)
{
    const RtModel *m = g->model;
    assert(row >= 0 && row < g->spaces[space].count);
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const RtGraphDef *d = &m->graphs[i];
        if (d->kind == RT_GRAPH_SELECT && d->src_space == space) return g->maps[d->of].to[row];
        if (d->edge != space) continue;
        if (d->kind == RT_GRAPH_ROUTED && d->of >= 0) return g->maps[d->of].to[row];
        bool found = d->kind == RT_GRAPH_SELECT || d->kind == RT_GRAPH_ROUTED;
        /* what is near is of one graph */
        int64_t via = found ? d->orig : d->kind == RT_GRAPH_NEAREST ? d->dst : d->src;
        return rt_row_graph(g, t, m->maps[via].to, g->maps[via].to[row]);
    }
    if (t->graphs_of && t->graphs_of[space]) return t->graphs_of[space][row];
    return t->graph_of && space_is_batched(m, space) ? t->graph_of[row] : 0;
}

const char *rt_batch_place(const RtGraph *g, const RtTopology *t, int64_t space, char *out, size_t size)
{
    bool kind = t->graphs_of && t->graphs_of[space];
    snprintf(out, size, "%s%sbatch.npy", kind ? g->model->strings + g->model->spaces[space].name : "", kind ? "." : "");
    return out;
}

/* ---- chosen nodes ---- */

/* How many rows of a space each graph has. Ids that are none count nowhere: build_batch of graph.c says what is
   wrong. */
static void count_by_graph(const RtGraph *g, const RtTopology *t, int64_t space, int64_t n_graphs, int64_t *sizes)
{
    for (int64_t v = 0; v < g->spaces[space].count; v++) {
        int64_t graph = n_graphs > 1 ? rt_row_graph(g, t, space, v) : 0;
        if (graph >= 0 && graph < n_graphs) sizes[graph]++;
    }
}

/* `orig` of a graph of chosen nodes. Its edges are those of the base, stored graph after graph in the user's order:
   programs take a row's edges in that order, and number random draws by it. */
static RtCode number_edges(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_graphs, RtStatus *st)
{
    int64_t base = g->model->graphs[d->base].edge, n = g->spaces[base].count, sum = 0;
    const int64_t *ids = g->spaces[base].ids;
    int32_t *orig = g->maps[d->orig].to;
    RtBlock scratch;
    for (int64_t e = 0; e < n; e++) orig[e] = (int32_t)e;
    if (!ids && n_graphs == 1) return RT_OK;
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size(n_graphs, 8), n, 4), "edges in order", st));
    int64_t *at = scratch.p; /* [n_graphs] where each graph's next edge goes */
    int32_t *by_user = (int32_t *)(at + n_graphs);
    count_by_graph(g, t, base, n_graphs, at);
    for (int64_t i = 0; i < n_graphs; i++) {
        int64_t size = at[i];
        at[i] = sum;
        sum += size;
    }
    assert(sum <= n);
    for (int64_t pos = 0; pos < n; pos++) by_user[ids ? ids[pos] : pos] = (int32_t)pos;
    for (int64_t u = 0; u < n; u++) {
        int64_t graph = n_graphs > 1 ? rt_row_graph(g, t, base, by_user[u]) : 0;
        if (graph >= 0 && graph < n_graphs) orig[at[graph]++] = by_user[u];
    }
    rt_block_free(&scratch);
    return RT_OK;
}

static RtCode build_select(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_edges, RtStatus *st)
{
    const RtGraphDef *base = &g->model->graphs[d->base];
    int64_t n_graphs = g->spaces[g->model->maps[d->batch].to].count, k = 0;
    RtBlock sizes;
    RT_TRY(rt_block_alloc(&sizes, rt_size(n_graphs, 8), "chosen nodes", st));
    int64_t *size = sizes.p;
    count_by_graph(g, t, base->src_space, n_graphs, size);
    for (int64_t i = 0; i < n_graphs; i++) {
        int64_t some = d->n_edges ? d->n_edges : (int64_t)ceil(d->ratio * (double)size[i]);
        size[i] = some < size[i] ? some : size[i];
        k += size[i];
    }
    RtCode code = rt_graph_set_count(g, d->src_space, k, st);
    if (!code) code = rt_graph_alloc(g, k, 4, &g->maps[d->of].to, st);
    for (int64_t i = 0, v = 0; !code && i < n_graphs; i++)
        for (int64_t end = v + size[i]; v < end; v++) g->maps[d->of].to[v] = (int32_t)i;
    rt_block_free(&sizes);
    if (!code) code = rt_graph_set_count(g, d->edge, n_edges, st);
    if (!code) code = rt_graph_alloc(g, n_edges, 4, &g->maps[d->orig].to, st);
    return code ? code : number_edges(g, d, t, n_graphs, st);
}

/* ---- routed edges ---- */

/* Stable, by graph: at[graph] is where its next edge goes. */
static void place_edges(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_base, int64_t n_graphs,
                        int64_t *at)
{
    const RtModel *m = g->model;
    int64_t base = m->graphs[d->base].edge, n_dst = g->spaces[d->dst_space].count;
    for (int64_t i = 0; i < n_base + n_dst; i++) {
        bool node = i >= n_base;
        int64_t graph = n_graphs > 1 ? rt_row_graph(g, t, node ? d->dst_space : base, node ? i - n_base : i) : 0;
        for (int64_t k = node ? 1 : d->n_edges; k > 0 && graph >= 0 && graph < n_graphs; k--) {
            int64_t e = at[graph]++;
            assert(e < g->spaces[d->edge].count);
            g->maps[d->orig].to[e] = node ? -1 : (int32_t)i;
            g->maps[d->image].to[e] = node ? (int32_t)(i - n_base) : -1;
            g->maps[d->of].to[e] = (int32_t)graph;
        }
    }
}

/* An edge for each target stands behind the others of its graph. */
static RtCode place_with_targets(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_base, RtStatus *st)
{
    int64_t n_graphs = g->spaces[g->model->maps[d->batch].to].count, sum = 0;
    RtBlock sizes;
    RT_TRY(rt_block_alloc(&sizes, rt_size(n_graphs, 16), "edges by graph", st));
    int64_t *at = sizes.p, *nodes = at + n_graphs;
    count_by_graph(g, t, g->model->graphs[d->base].edge, n_graphs, at);
    count_by_graph(g, t, d->dst_space, n_graphs, nodes);
    for (int64_t i = 0; i < n_graphs; i++) {
        int64_t size = at[i] * d->n_edges + nodes[i];
        at[i] = sum;
        sum += size;
    }
    place_edges(g, d, t, n_base, n_graphs, at);
    rt_block_free(&sizes);
    return RT_OK;
}

static RtCode build_routed(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_base, int64_t n,
                           RtStatus *st)
{
    RT_TRY(rt_graph_set_count(g, d->edge, n, st));
    RT_TRY(rt_graph_alloc(g, n, 4, &g->maps[d->orig].to, st));
    if (d->of >= 0) {
        RT_TRY(rt_graph_alloc(g, n, 4, &g->maps[d->of].to, st));
        RT_TRY(rt_graph_alloc(g, n, 4, &g->maps[d->image].to, st));
        return place_with_targets(g, d, t, n_base, st);
    }
    for (int64_t e = 0; e < n; e++) g->maps[d->orig].to[e] = (int32_t)(e / d->n_edges);
    return RT_OK;
}

RtCode rt_graph_build_found(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_base, int64_t *n,
                            RtStatus *st)
{
    assert(d->kind == RT_GRAPH_SELECT || d->kind == RT_GRAPH_ROUTED);
    *n = n_base;
    if (d->kind == RT_GRAPH_SELECT) return build_select(g, d, t, n_base, st);
    bool fits = rt_mul(n_base, d->n_edges, n);
    if (!fits || *n > INT32_MAX)
        return rt_fail(st, RT_E_GRAPH_SIZE, NULL, "split the graph", "too many edges made for others");
    if (d->of >= 0) *n += g->spaces[d->dst_space].count;
    return build_routed(g, d, t, n_base, *n, st);
}
