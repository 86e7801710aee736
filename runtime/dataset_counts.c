/* How many rows each space of a data set has (see dataset_load.h). */
#include "runtime/dataset_load.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static RtCode count_from_meta(Loader *l, int64_t s)
{
    char key[300];
    snprintf(key, sizeof key, "num_%s", rt_load_space(l, s));
    RT_TRY(rt_source_meta_int(&l->source, key, &l->counts[s], l->st));
    snprintf(key, sizeof key, "num_%ss", rt_load_space(l, s));
    RT_TRY(rt_source_meta_int(&l->source, key, &l->counts[s], l->st));
    if (l->counts[s] >= 0) l->why[s] = "meta.json";
    if (l->counts[s] >= 0 || l->source.text.n_nodes < 0 || strcmp(rt_load_space(l, s), "node")) return RT_OK;
    l->counts[s] = l->source.text.n_nodes;
    l->why[s] = "graph.mtx";
    return RT_OK;
}

static int64_t input_rows(const Input *in)
{
    assert(in->present);
    if (in->csr) return in->indptr.count - 1;
    return in->dense.n_dims ? in->dense.shape[0] : 1;
}

static void count_from_inputs(Loader *l, int64_t s)
{
    for (int64_t i = 0; i < l->m->n_tensors && l->counts[s] < 0; i++) {
        if (l->m->tensors[i].space != s || !l->inputs[i].present) continue;
        l->counts[s] = input_rows(&l->inputs[i]);
        l->why[s] = l->inputs[i].stem;
    }
}

/* A column has an integer of each row that its edges begin at. */
static void count_from_columns(Loader *l)
{
    for (int64_t i = 0; i < l->m->n_graphs; i++) {
        const RtGraphDef *g = &l->m->graphs[i];
        if (g->kind != RT_GRAPH_COLUMN || l->counts[g->src_space] >= 0) continue;
        l->counts[g->src_space] = l->files[i].n;
        l->why[g->src_space] = l->m->strings + g->file;
    }
}

/* Whether counts of the space were taken from ids, so that ids of other edges may raise it. */
static bool is_open(const Loader *l, const bool *open, int64_t space) { return l->counts[space] < 0 || open[space]; }

/* Spaces that nothing else counts and that edges of the data's graph do not join: as many as the ids of lists say. */
static RtCode count_from_lists(Loader *l)
{
    bool *open;
    RT_TRY(rt_alloc(&open, l->m->n_spaces, sizeof *open, "a data set", l->st));
    for (int64_t i = 0; i < l->m->n_graphs; i++) {
        const RtGraphDef *g = &l->m->graphs[i];
        const RtEdgeIds *ids = &l->files[i];
        const int64_t spaces[] = {g->src_space, g->dst_space}, *ends[] = {ids->src, ids->dst};
        for (int k = 0; k < 2 && rt_graph_is_read(g); k++) {
            if (!ends[k] || !is_open(l, open, spaces[k])) continue;
            int64_t n = rt_ids_count(ends[k], ids->n);
            open[spaces[k]] = true;
            l->why[spaces[k]] = l->m->strings + g->file;
            if (n > l->counts[spaces[k]]) l->counts[spaces[k]] = n;
        }
    }
    free(open);
    return RT_OK;
}

static void count_from_edges(Loader *l)
{
    for (int64_t i = 0; i < l->m->n_graphs; i++) {
        const RtGraphDef *g = &l->m->graphs[i];
        if (g->kind != RT_GRAPH_DATA) continue;
        int64_t n_src = rt_ids_count(l->src_ids, l->n_edges), n_dst = rt_ids_count(l->dst_ids, l->n_edges);
        int64_t *src = &l->counts[g->src_space], *dst = &l->counts[g->dst_space];
        bool src_open = *src < 0, dst_open = *dst < 0;
        if (src_open && n_src > *src) *src = n_src;
        if (dst_open && n_dst > *dst) *dst = n_dst;
        if (src_open) l->why[g->src_space] = "edge_index";
        if (dst_open) l->why[g->dst_space] = "edge_index";
    }
}

static bool holds_nonzeros(const RtModel *m, int64_t space)
{
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].nonzeros && m->tensors[i].space == space) return true;
    return false;
}

/* Spaces that nothing else counts: the targets of maps read from batch.npy. */
static void count_from_batch(Loader *l)
{
    for (int64_t i = 0; i < l->m->n_maps; i++) {
        const RtMapDef *d = &l->m->maps[i];
        if (l->counts[d->to] >= 0 || l->m->spaces[d->to].is_edge || holds_nonzeros(l->m, d->from)) continue;
        for (int64_t s = 0; s < l->m->n_spaces; s++) {
            if (!l->graphs_of[s]) continue;
            int64_t n = rt_ids_count(l->graphs_of[s], l->batches[s].count);
            if (n > l->counts[d->to]) l->counts[d->to] = n;
            l->why[d->to] = "batch.npy of the kinds of nodes";
        }
        if (l->counts[d->to] >= 0) continue;
        if (l->batch.data.p) {
            l->counts[d->to] = rt_ids_count(l->batch.data.p, l->batch.count);
            l->why[d->to] = "batch";
        } else {
            l->counts[d->to] = 1;
            l->why[d->to] = "there is no batch.npy";
        }
    }
}

static RtCode check_batch_rows(Loader *l)
{
    for (int64_t s = 0; s < l->m->n_spaces; s++) {
        char stem[300];
        if (!l->graphs_of[s] || l->batches[s].count == l->counts[s]) continue;
        snprintf(stem, sizeof stem, "%s.batch", rt_load_space(l, s));
        rt_fail(l->st, RT_E_DATA_ROWS, rt_load_place(l, stem), NULL, "found %lld rows, wanted %lld: one per %s",
                (long long)l->batches[s].count, (long long)l->counts[s], rt_load_space(l, s));
        return rt_declared_space(RT_E_DATA_ROWS, l->m, s, l->st);
    }
    for (int64_t i = 0; i < l->m->n_graphs && l->batch.data.p; i++) {
        const RtGraphDef *g = &l->m->graphs[i];
        int64_t want = l->counts[g->dst_space];
        if (g->kind == RT_GRAPH_DATA && l->batch.count != want)
            return rt_fail(l->st, RT_E_DATA_ROWS, rt_load_place(l, "batch"), NULL,
                           "found %lld rows, wanted %lld: one per node", (long long)l->batch.count, (long long)want);
    }
    return RT_OK;
}

/* What a graph of so many nodes takes, at least: its maps, and the tensors with a row for each. */
static int64_t bytes_of_nodes(const Loader *l)
{
    int64_t bytes = rt_graph_least_bytes(l->m, l->counts);
    for (int64_t i = 0; i < l->m->n_tensors; i++) {
        const RtTensorDef *t = &l->m->tensors[i];
        bool held = t->kind == RT_PARAM || t->kind == RT_STATE || (!t->nonzeros && rt_load_wants(l, i));
        if (held && l->counts[t->space] > 0)
            bytes = rt_size_plus(bytes, l->counts[t->space], rt_size(t->width, rt_dtype_bytes(t->dtype)));
    }
    return bytes;
}

/* Every count beside the files that it can be held against, before anything is made of that size. */
static RtCode check_counts(Loader *l)
{
    const RtModel *m = l->m;
    for (int64_t s = 0; s < m->n_spaces; s++)
        if (l->counts[s] > INT32_MAX) {
            rt_fail(l->st, RT_E_GRAPH_SIZE, l->why[s], NULL, "found %lld elements of %s, wanted at most 2147483647",
                    (long long)l->counts[s], rt_load_space(l, s));
            return rt_declared_space(RT_E_GRAPH_SIZE, m, s, l->st);
        }
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const RtGraphDef *g = &m->graphs[i];
        RtEdgeIds ids = rt_graph_is_read(g) ? l->files[i]
                                            : (RtEdgeIds){l->edge_place, l->n_edges, l->src_ids, l->dst_ids, NULL};
        const int64_t ends[] = {l->counts[g->src_space], l->counts[g->dst_space]};
        if ((g->kind == RT_GRAPH_DATA || rt_graph_is_read(g)) && ends[0] >= 0 && ends[1] >= 0)
            RT_TRY(rt_declared_graph(rt_edge_ids_check(m, g, &ids, ends, l->st), m, g, l->st));
    }
    for (int64_t i = 0; i < m->n_tensors; i++) {
        const Input *in = &l->inputs[i];
        int64_t want = m->tensors[i].space ? l->counts[m->tensors[i].space] : -1;
        if (in->present && want >= 0 && (in->csr || in->dense.n_dims) && input_rows(in) != want)
            return rt_declared_tensor(rt_load_rows_error(l, i, input_rows(in)), m, i, l->st);
    }
    return rt_memory_check(bytes_of_nodes(l), "a graph of so many nodes", l->st);
}

RtCode rt_load_counts(Loader *l)
{
    for (int64_t s = 0; s < l->m->n_spaces; s++) l->counts[s] = -1;
    l->counts[0] = 1;
    for (int64_t s = 1; s < l->m->n_spaces; s++) {
        if (l->m->spaces[s].is_edge) continue;
        if (l->m->spaces[s].fixed || holds_nonzeros(l->m, s)) { /* the latter: until they are found */
            l->counts[s] = l->m->spaces[s].fixed;
            continue;
        }
        RT_TRY(count_from_meta(l, s));
        count_from_inputs(l, s);
    }
    count_from_columns(l);
    count_from_edges(l);
    RT_TRY(count_from_lists(l));
    count_from_batch(l);
    RT_TRY(check_batch_rows(l));
    return check_counts(l);
}
