/* Metapaths: which pairs of nodes a path joins, one edge of each of several graphs. From each target the paths are
   walked back, edge set by edge set, and each node is taken once in each: so the work is that of the edges near a path,
   and memory is that of the nodes. Counts first, so that what does not fit is refused before memory is asked for. Works
   in the user's order only; sorting is graph.c's. `gnnc data partition` finds the pairs of the parts so as well. */
#include "runtime/graph_path.h"
#include "runtime/graph_list.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_OF_PAIR = 28 }; /* ends in the list and in the maps, where it is stored, its number */

/* A step of the path, and the sources that the walk from the target at hand has reached by it. */
typedef struct Step {
    RtPathStep edges;
    RtEdgeRows into; /* by target */
    RtBlock block;
    int32_t *seen;    /* [sources] 1 + the last target whose walk reached it */
    int32_t *reached; /* [n] */
    int64_t n;
} Step;

struct RtPathWalk {
    Step steps[RT_MAX_PATH];
    int64_t n_steps;
};

static RtCode open_step(const RtPathStep *edges, Step *s, RtStatus *st)
{
    s->edges = *edges;
    RT_TRY(rt_edge_rows(edges->dst, edges->n, edges->n_dst, &s->into, st));
    RT_TRY(rt_block_alloc(&s->block, rt_size(edges->n_src, 8), "a metapath", st));
    s->seen = s->block.p;
    s->reached = s->seen + edges->n_src;
    return RT_OK;
}

static void reach(Step *s, int32_t node, int32_t target)
{
    for (int64_t i = s->into.rows[node]; i < s->into.rows[node + 1]; i++) {
        int32_t src = s->edges.src[s->into.list[i]];
        if (s->seen[src] == target + 1) continue;
        s->seen[src] = target + 1;
        s->reached[s->n++] = src;
    }
}

/* Walks back from the target; steps[0] then holds the sources that paths to it begin at. */
static void walk(RtPathWalk *w, int32_t target)
{
    assert(w->n_steps > 0 && target < INT32_MAX); /* seen holds one more */
    for (int64_t k = 0; k < w->n_steps; k++) w->steps[k].n = 0;
    reach(&w->steps[w->n_steps - 1], target, target);
    for (int64_t k = w->n_steps - 1; k > 0; k--)
        for (int64_t i = 0; i < w->steps[k].n; i++) reach(&w->steps[k - 1], w->steps[k].reached[i], target);
}

static int64_t n_targets(const RtPathWalk *w) { return w->steps[w->n_steps - 1].edges.n_dst; }

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static RtCode check_pairs(const char *name, int64_t n, RtStatus *st)
{
    char what[300];
    if (n > INT32_MAX)
        return rt_fail(st, RT_E_GRAPH_SIZE, name, "leave the metapath out, or take one of fewer paths",
                       "its paths join %lld pairs of nodes, which take %lld bytes, wanted at most 2147483647 pairs",
                       (long long)n, (long long)rt_size(n, BYTES_OF_PAIR));
    snprintf(what, sizeof what, "the %lld pairs that paths of %s join", (long long)n, name);
    return rt_memory_check(rt_size(n, BYTES_OF_PAIR), what, st);
}

static RtCode open_walk(const char *name, const RtPathStep *steps, RtPathWalk *w, int64_t *n_pairs, RtStatus *st)
{
    *n_pairs = 0;
    for (int64_t i = 0; i < w->n_steps; i++) RT_TRY(open_step(&steps[i], &w->steps[i], st));
    for (int64_t v = 0; v < n_targets(w); v++) {
        walk(w, (int32_t)v);
        *n_pairs += w->steps[0].n;
    }
    return check_pairs(name, *n_pairs, st);
}

RtCode rt_path_open(const char *name, const RtPathStep *steps, int64_t n_steps, RtPathWalk **w, int64_t *n_pairs,
                    RtStatus *st)
{
    assert(n_steps > 0 && n_steps <= RT_MAX_PATH);
    RT_TRY(rt_alloc(w, 1, sizeof **w, "a metapath", st));
    (*w)->n_steps = n_steps;
    RtCode code = open_walk(name, steps, *w, n_pairs, st);
    if (!code) return RT_OK;
    rt_path_free(*w);
    *w = NULL;
    return code;
}

void rt_path_pairs(RtPathWalk *w, int32_t *src, int32_t *dst)
{
    Step *first = &w->steps[0];
    for (int64_t k = 0; k < w->n_steps; k++)
        memset(w->steps[k].seen, 0, (size_t)((char *)w->steps[k].reached - (char *)w->steps[k].seen));
    for (int64_t v = 0; v < n_targets(w); v++) {
        walk(w, (int32_t)v);
        if (first->n) qsort(first->reached, (size_t)first->n, sizeof *first->reached, ascending);
        for (int64_t i = 0; i < first->n; i++) *src++ = first->reached[i], *dst++ = (int32_t)v;
    }
}

void rt_path_free(RtPathWalk *w)
{
    if (!w) return;
    for (int64_t i = 0; i < w->n_steps; i++) {
        rt_block_free(&w->steps[i].into.block);
        rt_block_free(&w->steps[i].block);
    }
    free(w);
}

RtCode rt_list_path(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *lists, RtEdgeList *l, RtStatus *st)
{
    RtPathStep steps[RT_MAX_PATH];
    RtPathWalk *w;
    int64_t n;
    assert(def->n_path > 0 && def->n_path <= RT_MAX_PATH);
    for (int64_t i = 0; i < def->n_path; i++) {
        const RtGraphDef *d = &g->model->graphs[def->path[i]];
        const RtEdgeList *x = &lists[def->path[i]];
        steps[i] = (RtPathStep){x->src, x->dst, x->n, g->spaces[d->src_space].count, g->spaces[d->dst_space].count};
    }
    RT_TRY(rt_path_open(g->model->strings + def->name, steps, def->n_path, &w, &n, st));
    RtCode code = rt_edge_list_alloc(l, n, -1, st);
    if (!code) rt_path_pairs(w, l->src, l->dst);
    rt_path_free(w);
    return code;
}
