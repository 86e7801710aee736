/* In which order the nodes of a data set are stored (see order.h). All kinds of nodes that edges of the data join are
   ordered together, as one graph: so nodes that are near each other lie alike in their kinds, whichever relation joins
   them. Each kind then has its own nodes in the order of all. */
#include "runtime/dataset_load.h"
#include <assert.h>
#include <stdlib.h>

/* -1: there is none. */
static int64_t first_data_graph(const RtModel *m)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].kind == RT_GRAPH_DATA) return i;
    return -1;
}

/* Nodes that are ordered together, those of one kind after those of another, and the edges between them. */
typedef struct Joined {
    int64_t *first; /* [n_spaces] the number of each kind's first node; -1: it takes no part */
    int64_t n, n_edges;
    const int64_t *src, *dst; /* [n_edges] */
    RtBlock block;            /* of these, where they are not those of the data */
} Joined;

/* Whether the nodes are ordered by the graph's edges: the data's graph, else every relation. */
static bool orders_nodes(const Loader *l, int64_t i)
{
    int64_t data = first_data_graph(l->m);
    return data < 0 ? rt_graph_is_read(&l->m->graphs[i]) : i == data;
}

static RtEdgeIds edges_of(const Loader *l, int64_t i)
{
    if (rt_graph_is_read(&l->m->graphs[i])) return l->files[i];
    return (RtEdgeIds){l->edge_place, l->n_edges, l->src_ids, l->dst_ids, NULL};
}

/* Why all nodes stay as they are; NULL if some may be ordered. */
static const char *keeps_order(const Loader *l)
{
    bool batched = l->batch.data.p;
    for (int64_t s = 0; s < l->m->n_spaces; s++) batched |= l->graphs_of[s] != NULL;
    if (batched) return "batch.npy puts the nodes of a graph side by side";
    for (int64_t i = 0; i < l->m->n_graphs; i++)
        if (l->m->graphs[i].kind == RT_GRAPH_NEAREST || l->m->graphs[i].kind == RT_GRAPH_SELECT)
            return "the program finds graphs of its own, in the user's order";
    for (int64_t i = 0; i < l->m->n_graphs; i++)
        if (l->m->graphs[i].kind == RT_GRAPH_CANDIDATES)
            return "the program walks through all nodes, in the user's order";
    return NULL;
}

/* Numbers the nodes of all kinds that the edges join. */
static void join_nodes(const Loader *l, Joined *j)
{
    for (int64_t s = 0; s < l->m->n_spaces; s++) j->first[s] = -1;
    for (int64_t i = 0; i < l->m->n_graphs; i++) {
        const int64_t ends[] = {l->m->graphs[i].src_space, l->m->graphs[i].dst_space};
        for (int k = 0; k < 2 && orders_nodes(l, i); k++) {
            assert(l->counts[ends[k]] >= 0); /* of edges all ends are counted */
            if (j->first[ends[k]] >= 0) continue;
            j->first[ends[k]] = j->n;
            j->n += l->counts[ends[k]];
        }
    }
}

static RtCode join_edges(Loader *l, Joined *j)
{
    int64_t at = 0, data = first_data_graph(l->m);
    j->n_edges = l->n_edges;
    j->src = l->src_ids;
    j->dst = l->dst_ids;
    if (data >= 0 && l->m->graphs[data].src_space == l->m->graphs[data].dst_space) return RT_OK;
    j->n_edges = 0;
    for (int64_t i = 0; i < l->m->n_graphs; i++)
        if (orders_nodes(l, i)) j->n_edges += edges_of(l, i).n;
    RT_TRY(rt_block_alloc(&j->block, rt_size(j->n_edges, 16), "an order of nodes", l->st));
    int64_t *src = j->block.p, *dst = src + j->n_edges;
    for (int64_t i = 0; i < l->m->n_graphs; i++) {
        if (!orders_nodes(l, i)) continue;
        const RtEdgeIds ids = edges_of(l, i);
        const RtGraphDef *d = &l->m->graphs[i];
        for (int64_t e = 0; e < ids.n; e++, at++) {
            src[at] = j->first[d->src_space] + (ids.src ? ids.src[e] : e);
            dst[at] = j->first[d->dst_space] + ids.dst[e];
        }
    }
    assert(at == j->n_edges);
    j->src = src;
    j->dst = dst;
    return RT_OK;
}

/* The order of all nodes is one of each kind's: those of the kind as they follow one another in it. */
static RtCode split_order(Loader *l, const Joined *j, RtOrder *order)
{
    const RtModel *m = l->m;
    RT_TRY(rt_block_alloc(&l->ids, rt_size(j->n, 8), "an order of nodes", l->st));
    for (int64_t s = 0; s < m->n_spaces; s++) {
        if (j->first[s] < 0) continue;
        int64_t *ids = l->orders[s] = (int64_t *)l->ids.p + j->first[s], n = l->counts[s];
        for (int64_t i = 0; i < j->n; i++) {
            int64_t id = order->ids[i] - j->first[s];
            if (id >= 0 && id < n) *ids++ = id;
        }
        assert(ids == l->orders[s] + n);
    }
    return RT_OK;
}

static RtCode order_joined(Loader *l, Joined *j)
{
    RtOrder *order = &l->d->order;
    join_nodes(l, j);
    if (!j->n) order->why = "no edges of the data join its nodes";
    if (j->n > INT32_MAX) order->why = "there are more than 2147483647 nodes";
    if (order->why) return RT_OK;
    RT_TRY(join_edges(l, j));
    RT_TRY(rt_order_make(l->o->order, j->n, j->n_edges, j->src, j->dst, order, l->st));
    RtCode code = order->ids ? split_order(l, j, order) : RT_OK;
    rt_block_free(&order->block);
    order->ids = NULL;
    return code;
}

RtCode rt_load_order(Loader *l)
{
    Joined j = {0};
    l->d->order = (RtOrder){.name = "none", .cost = 1};
    RT_TRY(rt_alloc(&l->orders, l->m->n_spaces, sizeof *l->orders, "a data set", l->st));
    if (l->o->order == RT_ORDER_NONE) return RT_OK;
    l->d->order.why = keeps_order(l);
    if (l->d->order.why) return RT_OK;
    RT_TRY(rt_alloc(&j.first, l->m->n_spaces, sizeof *j.first, "an order of nodes", l->st));
    RtCode code = order_joined(l, &j);
    rt_block_free(&j.block);
    free(j.first);
    return code;
}
