/* Pairs of a node and an edge that might lead to it: all nodes, which edges are ranked among (candidates), or those
   that edges from the same source, with the same key, are known to lead to (answers). Counts first, so that what does
   not fit is refused before memory is asked for. Works in the user's order only; sorting is graph.c's. */
#include "runtime/graph_list.h"
#include <assert.h>
#include <stdlib.h>

RtCode rt_list_candidates(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *lists, RtEdgeList *l, RtStatus *st)
{
    int64_t n_nodes = g->spaces[def->src_space].count, n;
    assert(n_nodes >= 0 && lists[def->base].n >= 0);
    if (!rt_mul(n_nodes, lists[def->base].n, &n)) n = INT64_MAX;
    RT_TRY(rt_edge_list_alloc(l, n, -1, st));
    for (int64_t i = 0; i < n; i++) {
        l->src[i] = (int32_t)(i % n_nodes);
        l->dst[i] = (int32_t)(i / n_nodes);
    }
    return RT_OK;
}

/* The edges of one graph that is looked through. */
typedef struct Known {
    const RtEdgeList *edges;
    const int64_t *key; /* [edges] NULL: any */
    RtEdgeRows from;    /* by source */
} Known;

typedef struct Answers {
    const RtEdgeList *asked; /* the edges whose answers are wanted */
    const int64_t *key;
    Known known[RT_MAX_PATH];
    int64_t n_known;
    RtBlock block;
    int32_t *seen;    /* [nodes] 1 + the last edge that the node is an answer of */
    int32_t *answers; /* [n] of the edge at hand */
    int64_t n;
} Answers;

static void find(Answers *a, int64_t edge)
{
    a->n = 0;
    for (int64_t k = 0; k < a->n_known; k++) {
        const Known *x = &a->known[k];
        int32_t src = a->asked->src[edge];
        for (int64_t i = x->from.rows[src]; i < x->from.rows[src + 1]; i++) {
            int64_t e = x->from.list[i];
            int32_t node = x->edges->dst[e];
            if ((a->key && x->key[e] != a->key[edge]) || a->seen[node] == edge + 1) continue;
            a->seen[node] = (int32_t)edge + 1;
            a->answers[a->n++] = node;
        }
    }
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static RtCode list_all(Answers *a, int64_t n_nodes, RtEdgeList *l, RtStatus *st)
{
    int64_t n = 0, at = 0;
    for (int64_t e = 0; e < a->asked->n; e++) {
        find(a, e);
        n += a->n;
    }
    RT_TRY(rt_edge_list_alloc(l, n, -1, st));
    for (int64_t v = 0; v < n_nodes; v++) a->seen[v] = 0;
    for (int64_t e = 0; e < a->asked->n; e++) {
        find(a, e);
        if (a->n) qsort(a->answers, (size_t)a->n, sizeof *a->answers, ascending);
        for (int64_t i = 0; i < a->n; i++, at++) {
            l->src[at] = a->answers[i];
            l->dst[at] = (int32_t)e;
        }
    }
    assert(at == n);
    return RT_OK;
}

/* The k-th array of keys, one of each of n edges. */
static RtCode keys_of(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, int64_t k, int64_t n,
                      const int64_t **out, RtStatus *st)
{
    *out = NULL;
    if (!def->n_keys) return RT_OK;
    const RtKeys *keys = t->keys ? &t->keys[def - g->model->graphs] : NULL;
    if (!keys)
        return rt_fail(st, RT_E_DATA_MISSING, g->model->strings + def->keys[k], NULL,
                       "the keys of its edges are not given");
    if (keys->n[k] != n)
        return rt_fail(st, RT_E_DATA_ROWS, keys->place[k], NULL, "found %lld integers, wanted %lld: one of each edge",
                       (long long)keys->n[k], (long long)n);
    *out = keys->of[k];
    return RT_OK;
}

static RtCode open_known(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, const RtEdgeList *lists,
                         int64_t k, Known *x, RtStatus *st)
{
    x->edges = &lists[def->path[k]];
    RT_TRY(keys_of(g, def, t, k + 1, x->edges->n, &x->key, st));
    return rt_edge_rows(x->edges->src, x->edges->n, g->spaces[g->model->graphs[def->path[k]].src_space].count, &x->from,
                        st);
}

RtCode rt_list_answers(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, const RtEdgeList *lists,
                       RtEdgeList *l, RtStatus *st)
{
    int64_t n_nodes = g->spaces[def->src_space].count;
    Answers a = {.asked = &lists[def->base], .n_known = def->n_path};
    assert(def->n_path > 0 && def->n_path <= RT_MAX_PATH);
    RtCode code = keys_of(g, def, t, 0, a.asked->n, &a.key, st);
    for (int64_t k = 0; k < a.n_known && !code; k++) code = open_known(g, def, t, lists, k, &a.known[k], st);
    if (!code) code = rt_block_alloc(&a.block, rt_size(n_nodes, 8), "answers", st);
    if (!code) {
        a.seen = a.block.p;
        a.answers = a.seen + n_nodes;
        code = list_all(&a, n_nodes, l, st);
    }
    for (int64_t k = 0; k < a.n_known; k++) rt_block_free(&a.known[k].from.block);
    rt_block_free(&a.block);
    return code;
}
