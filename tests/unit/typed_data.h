/* Data of a program with a schema: how many nodes each type has, and the edges of each relation that the data say.
   Types without nodes, relations without edges, nodes that all edges lead to, and edges that stand twice are among
   them. */
#pragma once
#include "ir/eval.h"
#include "runtime/graph.h"
#include "tests/unit/gir_random.h"

enum { TYPED_LARGE = 520 }; /* nodes: more than a leaf of sums has */

typedef struct TypedData {
    const IrModule *m;
    int64_t *counts; /* [spaces of m] -1: no space of nodes */
    EvalList *lists; /* of m's graphs, and of the integers that say which edges are theirs */
    uint32_t n_lists;
    RtEdgeIds *files; /* [graphs of m] the edges that are theirs */
} TypedData;

static inline bool typed_is_nodes(const IrModule *m, IrId s)
{
    const IrSpace *x = &m->spaces.data[s];
    return s && !x->is_edge && !x->has_dim;
}

/* Are there as many edges as pairs, or is each row long? */
static inline bool typed_is_heavy(const IrModule *m)
{
    int64_t width = 0;
    const IrFunc *f = m->funcs.data[0];
    for (IrId v = 0; v < f->ops.n; v++)
        if (f->ops.data[v].type.space != IR_UNIT) width += ir_type_width(m, &f->ops.data[v].type);
    for (uint32_t g = 0; g < m->graphs.n; g++)
        if (ir_graph_is_pairs(m->graphs.data[g].kind) || m->graphs.data[g].kind == IR_GRAPH_COMPOSE) return true;
    return width > 2500;
}

static inline void typed_counts(Arena *a, TypedData *t, GirRng *r)
{
    const IrModule *m = t->m;
    uint32_t size = gir_below(r, 24);
    bool large = size == 0 && !typed_is_heavy(m);
    t->counts = ARENA_ARRAY(a, int64_t, m->spaces.n + 1);
    for (IrId s = 0; s < m->spaces.n; s++) {
        int64_t n = size == 1 ? 1 : large ? TYPED_LARGE + gir_below(r, 200) : gir_below(r, 14);
        t->counts[s] = typed_is_nodes(m, s) ? n : -1;
    }
    for (uint32_t g = 0; g < m->graphs.n; g++) { /* what a column says is a row */
        const IrGraph *graph = &m->graphs.data[g];
        if (graph->kind == IR_GRAPH_COLUMN && !t->counts[graph->dst_space]) t->counts[graph->dst_space] = 1;
    }
}

static inline void typed_edges(Arena *a, TypedData *t, uint32_t index, GirRng *r)
{
    const IrGraph *g = &t->m->graphs.data[index];
    bool column = g->kind == IR_GRAPH_COLUMN;
    int64_t n = t->counts[g->src_space], m = t->counts[g->dst_space], k = 0;
    int64_t n_edges = column ? n : !n || !m || !gir_below(r, 8) ? 0 : 1 + gir_below(r, (uint32_t)(4 * n));
    bool hub = gir_below(r, 4) == 0;
    int64_t *src = ARENA_ARRAY(a, int64_t, n_edges + 1), *dst = ARENA_ARRAY(a, int64_t, n_edges + 1),
            *type = ARENA_ARRAY(a, int64_t, n_edges + 1),
            *mine[2] = {ARENA_ARRAY(a, int64_t, n_edges + 1), ARENA_ARRAY(a, int64_t, n_edges + 1)};
    for (int64_t e = 0; e < n_edges; e++) {
        bool again = e && !column && gir_below(r, 8) == 0;
        src[e] = column ? e : again ? src[e - 1] : gir_below(r, (uint32_t)n);
        dst[e] = again ? dst[e - 1] : hub && gir_below(r, 8) ? m / 2 : gir_below(r, (uint32_t)m);
        type[e] = g->equals + (gir_below(r, 3) == 0);
        if (!g->where || type[e] == g->equals) mine[0][k] = src[e], mine[1][k++] = dst[e];
    }
    t->lists[t->n_lists++] = (EvalList){ir_graph_file(g), n_edges, column ? dst : src, column ? NULL : dst};
    if (g->where) t->lists[t->n_lists++] = (EvalList){g->where, n_edges, type, NULL};
    t->files[index] = (RtEdgeIds){.place = g->name, .n = k, .src = column ? NULL : mine[0], .dst = mine[1]};
}

static inline TypedData *typed_data(Arena *a, const IrModule *m, uint64_t seed)
{
    TypedData *t = ARENA_NEW(a, TypedData);
    GirRng r = {seed};
    *t = (TypedData){.m = m,
                     .lists = ARENA_ARRAY(a, EvalList, 2 * m->graphs.n + 1),
                     .files = ARENA_ARRAY(a, RtEdgeIds, m->graphs.n + 1)};
    typed_counts(a, t, &r);
    for (uint32_t g = 0; g < m->graphs.n; g++)
        if (ir_graph_is_read(m->graphs.data[g].kind)) typed_edges(a, t, g, &r);
    return t;
}

/* Rows of n spaces, of a module that passes made of m. */
static inline int64_t *typed_rows(Arena *a, const TypedData *t, int64_t n)
{
    int64_t *rows = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t s = 0; s < n; s++) rows[s] = s < t->m->spaces.n ? t->counts[s] : -1;
    return rows;
}

static inline const RtEdgeIds *typed_files(Arena *a, const TypedData *t, int64_t n)
{
    RtEdgeIds *files = ARENA_ARRAY(a, RtEdgeIds, n + 1);
    for (int64_t g = 0; g < n; g++) files[g] = g < t->m->graphs.n ? t->files[g] : (RtEdgeIds){0};
    return files;
}

static inline EvalWorld *typed_world(Arena *a, const TypedData *t, const IrModule *m, const char **why)
{
    EvalData data = {.counts = typed_rows(a, t, m->spaces.n), .lists = t->lists, .n_lists = t->n_lists};
    return eval_world_of(a, m, &data, why);
}
