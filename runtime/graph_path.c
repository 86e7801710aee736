/* Metapaths: which pairs of nodes a path joins, one edge of each of several graphs. From each target the paths are
   walked back, edge set by edge set, and each node is taken once in each: so the work is that of the edges near a path, and
   memory is that of the nodes. Counts first, so that what does not fit is refused before memory is asked for. Works in the
   user's order only; sorting is graph.c's. */
#include "runtime/graph_list.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_OF_PAIR = 28 }; /* ends in the list and in the maps, where it is stored, its number */

/* The edges that one step of a path may be, and the sources that the walk from the target at hand has reached by them. */
typedef struct Step {
    const RtEdgeList *edges;
    RtEdgeRows into; /* by target */
    RtBlock block;
    int32_t *seen;    /* [sources] 1 + the last target whose walk reached it */
    int32_t *reached; /* [n] */
    int64_t n;
} Step;

static RtCode open_step(const RtGraph *g, const RtEdgeList *lists, int64_t graph, Step *s, RtStatus *st)
{
    const RtGraphDef *d = &g->model->graphs[graph];
    s->edges = &lists[graph];
    RT_TRY(rt_edge_rows(s->edges->dst, s->edges->n, g->spaces[d->dst_space].count, &s->into, st));
    RT_TRY(rt_block_alloc(&s->block, rt_size(g->spaces[d->src_space].count, 8), "a metapath", st));
    s->seen = s->block.p;
    s->reached = s->seen + g->spaces[d->src_space].count;
    return RT_OK;
}

static void reach(Step *s, int32_t node, int32_t target)
{
    for (int64_t i = s->into.rows[node]; i < s->into.rows[node + 1]; i++) {
        int32_t src = s->edges->src[s->into.list[i]];
        if (s->seen[src] == target + 1) continue;
        s->seen[src] = target + 1;
        s->reached[s->n++] = src;
    }
}

/* Walks back from the target; steps[0] then holds the sources that paths to it begin at. */
static void walk(Step *steps, int64_t n_steps, int32_t target)
{
    assert(n_steps > 0 && target < INT32_MAX); /* seen holds one more */
    for (int64_t k = 0; k < n_steps; k++) steps[k].n = 0;
    reach(&steps[n_steps - 1], target, target);
    for (int64_t k = n_steps - 1; k > 0; k--)
        for (int64_t i = 0; i < steps[k].n; i++) reach(&steps[k - 1], steps[k].reached[i], target);
}

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

static RtCode list_pairs(const char *name, Step *steps, int64_t n_steps, int64_t n_targets, RtEdgeList *l, RtStatus *st)
{
    int64_t n = 0, k = 0;
    for (int64_t v = 0; v < n_targets; v++) {
        walk(steps, n_steps, (int32_t)v);
        n += steps[0].n;
    }
    RT_TRY(check_pairs(name, n, st));
    RT_TRY(rt_edge_list_alloc(l, n, -1, st));
    for (int64_t s = 0; s < n_steps; s++)
        memset(steps[s].seen, 0, (size_t)((char *)steps[s].reached - (char *)steps[s].seen));
    for (int64_t v = 0; v < n_targets; v++) {
        walk(steps, n_steps, (int32_t)v);
        if (steps[0].n) qsort(steps[0].reached, (size_t)steps[0].n, sizeof *steps[0].reached, ascending);
        for (int64_t i = 0; i < steps[0].n; i++, k++) {
            l->src[k] = steps[0].reached[i];
            l->dst[k] = (int32_t)v;
        }
    }
    assert(k == n);
    return RT_OK;
}

RtCode rt_list_path(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *lists, RtEdgeList *l, RtStatus *st)
{
    Step steps[RT_MAX_PATH] = {0};
    RtCode code = RT_OK;
    assert(def->n_path > 0 && def->n_path <= RT_MAX_PATH);
    for (int64_t i = 0; i < def->n_path && !code; i++) code = open_step(g, lists, def->path[i], &steps[i], st);
    if (!code)
        code = list_pairs(g->model->strings + def->name, steps, def->n_path, g->spaces[def->dst_space].count, l, st);
    for (int64_t i = 0; i < def->n_path; i++) {
        rt_block_free(&steps[i].into.block);
        rt_block_free(&steps[i].block);
    }
    return code;
}
