/* Loads a data set (see dataset.h) in five steps: read the arrays that the model's inputs name,
   settle the count of every space, list the nonzeros of inputs that are read by them, build the
   graph, convert and permute the inputs. Counts come
   from meta.json, else from the rows of the arrays, else from the largest id. */
#include "runtime/dataset_load.h"
#include "runtime/half.h"
#include "runtime/convert.h"
#include "runtime/folds.h"
#include "runtime/random.h"
#include "runtime/ranks.h"
#include "runtime/setup.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rt_load_place(Loader *l, const char *stem)
{
    return rt_source_place(&l->source, stem, l->place, sizeof l->place);
}

const char *rt_load_space(const Loader *l, int64_t s) { return l->m->strings + l->m->spaces[s].name; }

bool rt_load_wants(const Loader *l, int64_t tensor)
{
    if (l->m->tensors[tensor].kind != RT_INPUT) return false;
    return rt_programs_take(l->m, l->o->programs, tensor);
}

/* Node spaces are counted before the graph is built. */
int64_t rt_load_count(const Loader *l, int64_t s) { return l->d->graph ? l->d->graph->spaces[s].count : l->counts[s]; }

int64_t rt_ids_count(const int64_t *ids, int64_t n)
{
    int64_t most = -1;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] > most) most = ids[i];
    return most < INT64_MAX ? most + 1 : most; /* too many, either way */
}

RtCode rt_load_rows_error(Loader *l, int64_t tensor, int64_t found)
{
    int64_t s = l->m->tensors[tensor].space;
    char hint[200];
    snprintf(hint, sizeof hint, "the number of elements of %s comes from %s", rt_load_space(l, s),
             l->why[s] ? l->why[s] : "edge_index");
    return rt_fail(l->st, RT_E_DATA_ROWS, rt_load_place(l, l->inputs[tensor].stem), hint,
                   "found %lld rows, wanted %lld: one per element of %s", (long long)found,
                   (long long)rt_load_count(l, s), rt_load_space(l, s));
}

/* ---- reading ---- */

static RtCode read_csr(Loader *l, Input *in, const char *stem)
{
    static const char *const parts[] = {"indptr", "indices", "data"};
    RtArray *arrays[] = {&in->indptr, &in->indices, &in->values};
    for (int i = 0; i < 3; i++) {
        char name[300];
        snprintf(name, sizeof name, "%s_%s", stem, parts[i]);
        RT_TRY(rt_source_read(&l->source, name, arrays[i], l->st));
        bool floats = arrays[i]->dtype == RT_F32 || arrays[i]->dtype == RT_F64;
        if (arrays[i]->n_dims != 1 || (i < 2 && floats) || (i == 2 && !floats))
            return rt_fail(l->st, RT_E_DATA_CSR, rt_load_place(l, name), NULL, "wanted one dimension of %s",
                           i == 2 ? "floats" : "integers");
    }
    in->present = in->csr = true;
    snprintf(in->stem, sizeof in->stem, "%s", stem);
    return RT_OK;
}

/* Reads STEM.npy or STEM_indptr.npy ...; leaves the input absent if neither is there. */
static RtCode read_stem(Loader *l, Input *in, const char *stem)
{
    char csr[300];
    snprintf(csr, sizeof csr, "%s_indptr", stem);
    if (!rt_source_has(&l->source, stem)) return rt_source_has(&l->source, csr) ? read_csr(l, in, stem) : RT_OK;
    RT_TRY(rt_source_read(&l->source, stem, &in->dense, l->st));
    in->present = true;
    snprintf(in->stem, sizeof in->stem, "%s", stem);
    return RT_OK;
}

static bool is_fold_mask(const Loader *l, int64_t tensor) { return l->o->folds > 0 && rt_mask_role(l->m, tensor) >= 0; }

/* The bool input `train` may lie in train_mask.npy. */
static RtCode read_inputs(Loader *l)
{
    for (int64_t i = 0; i < l->m->n_tensors; i++) {
        const RtTensorDef *t = &l->m->tensors[i];
        const char *name = l->m->strings + t->name;
        if (!rt_load_wants(l, i) || is_fold_mask(l, i)) continue;
        if (t->nonzeros) {
            if (!l->inputs[t->of].present)
                RT_TRY(read_stem(l, &l->inputs[t->of], l->m->strings + l->m->tensors[t->of].name));
            continue;
        }
        if (l->inputs[i].present) continue;
        RT_TRY(read_stem(l, &l->inputs[i], name));
        char mask[256];
        snprintf(mask, sizeof mask, "%s_mask", name);
        if (!l->inputs[i].present && t->dtype == RT_BOOL) RT_TRY(read_stem(l, &l->inputs[i], mask));
    }
    return RT_OK;
}

static RtCode to_i64(Loader *l, RtArray *a, const char *place)
{
    RtArray wide = *a;
    if (a->dtype == RT_I64) return RT_OK;
    wide.dtype = RT_I64;
    RT_TRY(rt_block_alloc(&wide.data, rt_size(a->count, 8), place, l->st));
    RtCode code = rt_convert(a, RT_I64, wide.data.p, place, l->st);
    rt_block_free(&a->data);
    *a = wide;
    return code;
}

static bool needs_data_graph(const RtModel *m)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].kind == RT_GRAPH_DATA) return true;
    return false;
}

static bool reads_lists(const RtModel *m)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (rt_graph_is_read(&m->graphs[i])) return true;
    return false;
}

/* [2, E] integers: row 0 holds sources, row 1 targets. */
static RtCode read_edge_array(Loader *l, const char *stem, const char *place, RtArray *a, RtEdgeIds *ids)
{
    char text[160];
    RT_TRY(rt_source_read(&l->source, stem, a, l->st));
    if (a->n_dims != 2 || a->shape[0] != 2)
        return rt_fail(l->st, RT_E_DATA_EDGES, place, "row 0 holds sources, row 1 targets",
                       "found %s, wanted [2, E] i64", rt_array_text(a, text, sizeof text));
    RT_TRY(to_i64(l, a, place));
    *ids = (RtEdgeIds){place, a->shape[1], a->data.p, (const int64_t *)a->data.p + a->shape[1], NULL};
    return RT_OK;
}

/* [n] integers, one of each row or edge. */
static RtCode read_integers(Loader *l, const char *stem, const char *place, RtArray *a)
{
    char text[160];
    RT_TRY(rt_source_read(&l->source, stem, a, l->st));
    if (a->n_dims != 1)
        return rt_fail(l->st, RT_E_DATA_ROWS, place, NULL, "found %s, wanted one integer of each row",
                       rt_array_text(a, text, sizeof text));
    return to_i64(l, a, place);
}

/* Leaves of a graph's edges those whose type is the one that it has, in the order of the file. */
static RtCode keep_edges(Loader *l, const RtGraphDef *d, const RtArray *types, RtEdgeIds *ids, RtBlock *kept)
{
    const int64_t *type = types->data.p;
    int64_t n = 0, k = 0;
    if (types->count != ids->n)
        return rt_fail(l->st, RT_E_DATA_ROWS, rt_load_place(l, l->m->strings + d->where), NULL,
                       "found %lld integers, wanted %lld: one of each edge in %s", (long long)types->count,
                       (long long)ids->n, ids->place);
    for (int64_t e = 0; e < ids->n; e++) n += type[e] == d->equals;
    RT_TRY(rt_block_alloc(kept, rt_size(n, 24), ids->place, l->st));
    int64_t *src = kept->p, *dst = src + n, *rows = dst + n;
    for (int64_t e = 0; e < ids->n; e++) {
        if (type[e] != d->equals) continue;
        src[k] = ids->src[e];
        dst[k] = ids->dst[e];
        rows[k++] = e;
    }
    assert(k == n);
    *ids = (RtEdgeIds){ids->place, n, src, dst, rows};
    return RT_OK;
}

/* The first graph that reads the array that graph i reads. */
static int64_t first_reader(const RtModel *m, int64_t i)
{
    int64_t k = 0;
    while (m->graphs[k].kind != m->graphs[i].kind || m->graphs[k].file != m->graphs[i].file) k++;
    return k;
}

typedef struct Numbered {
    int64_t id, row;
} Numbered;

static int by_number(const void *a, const void *b)
{
    const Numbered *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The rows of a kind of nodes in a part by the user's numbers, which they do not ascend by. */
static RtCode list_numbered(Loader *l, const RtPartNodes *nodes, const char *place, RtBlock *list)
{
    RT_TRY(rt_block_alloc(list, rt_size(nodes->n, sizeof(Numbered)), place, l->st));
    Numbered *rows = list->p;
    for (int64_t i = 0; i < nodes->n; i++) rows[i] = (Numbered){nodes->id[i], i};
    if (nodes->n) qsort(rows, (size_t)nodes->n, sizeof *rows, by_number);
    return RT_OK;
}

/* Where parts hold the user's numbers of a column's targets: their rows, or -1. */
static RtCode find_targets(Loader *l, const RtPartNodes *nodes, const char *place, int64_t n, int64_t *dst)
{
    RtBlock list;
    assert(nodes->id || !nodes->n);
    RT_TRY(list_numbered(l, nodes, place, &list));
    for (int64_t e = 0; e < n; e++) {
        const Numbered key = {dst[e], 0}, *found = bsearch(&key, list.p, (size_t)nodes->n, sizeof key, by_number);
        dst[e] = found ? found->row : -1;
    }
    rt_block_free(&list);
    return RT_OK;
}

/* The edges of a column of a part stand in the order of their sources' numbers. */
static RtCode order_column(Loader *l, const RtGraphDef *d, RtEdgeIds *ids, RtBlock *kept)
{
    const RtPart *part = l->o->part;
    const RtPartNodes *unnamed = part ? rt_part_nodes(part, "") : NULL;
    const RtPartNodes *nodes = part && !unnamed ? rt_part_nodes(part, rt_load_space(l, d->src_space)) : unnamed;
    const RtPartNodes *targets = unnamed ? rt_part_nodes(part, l->m->strings + d->file) : NULL;
    RtBlock list;
    if (!nodes || nodes->n != ids->n) return RT_OK;
    RT_TRY(list_numbered(l, nodes, ids->place, &list));
    RtCode code = rt_block_alloc(kept, rt_size(ids->n, 16), ids->place, l->st);
    const Numbered *rows = list.p;
    int64_t *src = kept->p, *dst = src + ids->n;
    for (int64_t e = 0; !code && e < ids->n; e++) {
        src[e] = rows[e].row;
        dst[e] = ids->dst[rows[e].row];
    }
    if (!code && targets) code = find_targets(l, targets, ids->place, ids->n, dst);
    if (!code) *ids = (RtEdgeIds){ids->place, ids->n, src, dst, src};
    rt_block_free(&list);
    return code;
}

/* meta.json may say which kinds a relation joins whose file or column has its name. */
static RtCode check_ends(Loader *l, const RtGraphDef *d)
{
    const char *name = l->m->strings + d->name, *file = l->m->strings + d->file;
    const char *src = rt_load_space(l, d->src_space), *dst = rt_load_space(l, d->dst_space);
    const RtJson *said = rt_json_get(rt_json_get(l->source.meta.root, "relations"), name);
    const RtJson *from = said ? said->first : NULL, *to = from ? from->next : NULL;
    bool list = d->kind == RT_GRAPH_FILE;
    char own[600];
    snprintf(own, sizeof own, "%s.%s", list ? name : src, list ? "edge_index" : name);
    if (!to || from->kind != RT_JSON_STRING || to->kind != RT_JSON_STRING || strcmp(own, file)) return RT_OK;
    if (!strcmp(from->text, src) && !strcmp(to->text, dst)) return RT_OK;
    return rt_fail(l->st, RT_E_DATA_RELATION, "meta.json", NULL,
                   "found that relation %s leads from %s to %s, wanted from %s to %s", name, from->text, to->text, src,
                   dst);
}

static RtCode read_list(Loader *l, int64_t i, RtEdgeIds *whole)
{
    const RtGraphDef *d = &l->m->graphs[i];
    const char *stem = l->m->strings + d->file, *place = l->list_places[i];
    RT_TRY(check_ends(l, d));
    rt_source_place(&l->source, stem, l->list_places[i], PLACE_BYTES);
    if (first_reader(l->m, i) < i) {
        whole[i] = whole[first_reader(l->m, i)];
        return RT_OK;
    }
    if (!rt_source_has(&l->source, stem))
        return rt_fail(l->st, RT_E_DATA_MISSING, place,
                       d->kind == RT_GRAPH_FILE ? "save the edges as an int64 array of shape [2, E]"
                                                : "save the row that each row's edge leads to as int64",
                       "the edges of %s are missing", rt_load_space(l, d->edge));
    if (d->kind == RT_GRAPH_FILE) return read_edge_array(l, stem, place, &l->lists[i], &whole[i]);
    RT_TRY(read_integers(l, stem, place, &l->lists[i]));
    whole[i] = (RtEdgeIds){place, l->lists[i].count, NULL, l->lists[i].data.p, NULL};
    return order_column(l, d, &whole[i], &l->kept[i]);
}

/* The pairs that a metapath joins, where the part has them. */
static RtCode read_pairs(Loader *l, int64_t i)
{
    const RtPartEdges *x = rt_part_path(l->o->part, l->m, &l->m->graphs[i], NULL);
    if (!x) return RT_OK;
    rt_source_place(&l->source, x->array, l->list_places[i], PLACE_BYTES);
    return read_edge_array(l, x->array, l->list_places[i], &l->lists[i], &l->files[i]);
}

static RtCode read_types(Loader *l, const RtGraphDef *d, RtArray *types)
{
    const char *stem = l->m->strings + d->where, *place = rt_load_place(l, stem);
    if (rt_source_has(&l->source, stem)) return read_integers(l, stem, place, types);
    return rt_fail(l->st, RT_E_DATA_MISSING, place, "save an int64 of each edge",
                   "the types of edges, of which %s has one, are missing", rt_load_space(l, d->edge));
}

/* The edges of graphs that arrays of their own say. Relations of one array of types mostly stand one after another: it
   is kept from each to the next. */
static RtCode read_lists(Loader *l)
{
    RtArray types = {0};
    RtEdgeIds *whole;
    const RtGraphDef *d = NULL;
    int64_t where = -1;
    RT_TRY(rt_alloc(&whole, l->m->n_graphs, sizeof *whole, "a data set", l->st));
    RtCode code = RT_OK;
    for (int64_t i = 0; i < l->m->n_graphs && !code; i++) {
        d = &l->m->graphs[i];
        if (d->kind == RT_GRAPH_COMPOSE && l->o->part) code = read_pairs(l, i);
        if (!rt_graph_is_read(d)) continue;
        code = read_list(l, i, whole);
        l->files[i] = whole[i];
        l->why[d->edge] = l->m->strings + d->file;
        if (code || d->where < 0) continue;
        if (where != d->where) {
            rt_array_free(&types);
            code = read_types(l, d, &types);
        }
        where = d->where;
        if (!code) code = keep_edges(l, d, &types, &l->files[i], &l->kept[i]);
    }
    rt_array_free(&types);
    free(whole);
    return code ? rt_declared_graph(code, l->m, d, l->st) : RT_OK;
}

static RtCode read_key(Loader *l, const RtGraphDef *d, const char *stem, RtArray *a)
{
    if (rt_source_has(&l->source, stem)) return read_integers(l, stem, rt_load_place(l, stem), a);
    return rt_fail(l->st, RT_E_DATA_MISSING, rt_load_place(l, stem), "save an int64 of each edge",
                   "the keys of edges, by which %s finds answers, are missing", l->m->strings + d->name);
}

/* The integers of edges that graphs ask for: each array is read once for each graph that asks. */
static RtCode read_keys(Loader *l)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->m->n_graphs; i++) n += l->m->graphs[i].n_keys;
    RT_TRY(rt_alloc(&l->keys, l->m->n_graphs, sizeof *l->keys, "a data set", l->st));
    RT_TRY(rt_alloc(&l->key_arrays, n, sizeof *l->key_arrays, "a data set", l->st));
    for (int64_t i = 0; i < l->m->n_graphs; i++)
        for (int64_t k = 0; k < l->m->graphs[i].n_keys; k++) {
            const char *stem = l->m->strings + l->m->graphs[i].keys[k];
            RtArray *a = &l->key_arrays[l->n_key_arrays++];
            RT_TRY(rt_declared_graph(read_key(l, &l->m->graphs[i], stem, a), l->m, &l->m->graphs[i], l->st));
            l->keys[i].place[k] = stem;
            l->keys[i].of[k] = a->data.p;
            l->keys[i].n[k] = a->count;
        }
    return RT_OK;
}

/* src.npy and dst.npy, as temporal sets hold them. */
static RtCode read_edge_pair(Loader *l)
{
    RT_TRY(rt_source_read(&l->source, "src", &l->src, l->st));
    RT_TRY(rt_source_read(&l->source, "dst", &l->dst, l->st));
    if (l->src.n_dims != 1 || l->dst.n_dims != 1 || l->src.count != l->dst.count)
        return rt_fail(l->st, RT_E_DATA_EDGES, rt_load_place(l, "src"), NULL,
                       "src.npy and dst.npy: found %lld and %lld elements, wanted two vectors of one length",
                       (long long)l->src.count, (long long)l->dst.count);
    RT_TRY(to_i64(l, &l->src, "src.npy"));
    RT_TRY(to_i64(l, &l->dst, "dst.npy"));
    l->n_edges = l->src.count;
    l->src_ids = l->src.data.p;
    l->dst_ids = l->dst.data.p;
    return RT_OK;
}

static RtCode read_edges(Loader *l)
{
    RtEdgeIds ids;
    if (!needs_data_graph(l->m)) return RT_OK;
    rt_source_place(&l->source, "edge_index", l->edge_place, sizeof l->edge_place);
    if (!rt_source_has(&l->source, "edge_index")) {
        if (rt_source_has(&l->source, "src") && rt_source_has(&l->source, "dst")) return read_edge_pair(l);
        return rt_fail(l->st, RT_E_DATA_MISSING, l->edge_place, "save the edges as an int64 array of shape [2, E]",
                       "the file is missing, and so are graph.npz, graph.mtx, edges.tsv and src.npy");
    }
    RT_TRY(read_edge_array(l, "edge_index", l->edge_place, &l->src, &ids));
    l->n_edges = ids.n;
    l->src_ids = ids.src;
    l->dst_ids = ids.dst;
    return RT_OK;
}

static RtCode read_graphs_of(Loader *l, const char *stem, RtArray *a)
{
    RT_TRY(rt_source_read(&l->source, stem, a, l->st));
    rt_load_place(l, stem);
    if (a->n_dims != 1)
        return rt_fail(l->st, RT_E_DATA_ROWS, l->place, NULL, "wanted one dimension: the graph of each node");
    return to_i64(l, a, l->place);
}

/* Whether nodes of the space are of graphs that files say; chosen nodes are of those of the nodes that they were. */
static bool is_of_graphs(const RtModel *m, int64_t space)
{
    bool is = false;
    for (int64_t i = 0; i < m->n_maps && !m->spaces[space].is_edge; i++)
        is |= m->maps[i].from == space && !strcmp(m->strings + m->spaces[m->maps[i].to].name, "graph");
    for (int64_t i = 0; i < m->n_graphs; i++)
        is &= m->graphs[i].kind != RT_GRAPH_SELECT || m->graphs[i].src_space != space;
    return is;
}

/* The graph of each node: batch.npy, with several kinds of nodes KIND.batch.npy of each kind of which the model asks
   it. */
static RtCode read_batch(Loader *l)
{
    const RtModel *m = l->m;
    int64_t missing = -1;
    bool some = rt_source_has(&l->source, "batch"), kinds = !needs_data_graph(m) && reads_lists(m);
    RT_TRY(rt_alloc(&l->batches, m->n_spaces, sizeof *l->batches, "a data set", l->st));
    RT_TRY(rt_alloc(&l->graphs_of, m->n_spaces, sizeof *l->graphs_of, "a data set", l->st));
    if (some && !kinds) return read_graphs_of(l, "batch", &l->batch);
    for (int64_t s = 1; s < m->n_spaces && kinds; s++) {
        char stem[300];
        if (!is_of_graphs(m, s)) continue;
        snprintf(stem, sizeof stem, "%s.batch", rt_load_space(l, s));
        if (!rt_source_has(&l->source, stem)) {
            missing = s;
            continue;
        }
        some = true;
        RT_TRY(rt_declared_space(read_graphs_of(l, stem, &l->batches[s]), m, s, l->st));
        l->graphs_of[s] = l->batches[s].data.p;
    }
    if (!some || missing < 0) return RT_OK;
    return rt_declared_space(rt_fail(l->st, RT_E_DATA_MISSING, rt_load_space(l, missing),
                                     "save it as KIND.batch.npy, int64, ascending", "the graph of each %s is missing",
                                     rt_load_space(l, missing)),
                             m, missing, l->st);
}

static RtCode build_graph(Loader *l)
{
    RtTopology t = {.place = l->edge_place,
                    .n_edges = l->n_edges,
                    .src = l->src_ids,
                    .dst = l->dst_ids,
                    .files = l->files,
                    .keys = l->keys,
                    .graph_of = l->batch.data.p,
                    .graphs_of = l->graphs_of,
                    .counts = l->counts,
                    .patterns = l->patterns,
                    .n_patterns = l->n_patterns,
                    .orders = l->orders};
    RtCode code = rt_graph_create(l->m, &t, &l->d->graph, l->st);
    rt_block_free(&l->ids);
    free(l->orders);
    l->orders = NULL;
    return code;
}

/* ---- inputs ---- */

static RtCode width_error(Loader *l, int64_t tensor, int64_t found)
{
    return rt_fail(l->st, RT_E_DATA_WIDTH, rt_load_place(l, l->inputs[tensor].stem),
                   "build the model for this data: gnnc build MODEL.gnn --data DIR", "found %lld columns, wanted %lld",
                   (long long)found, (long long)l->m->tensors[tensor].width);
}

/* Columns of a dense array whose rows are those of a space; unit inputs have no row dimension. */
static int64_t dense_width(const RtArray *a, bool unit)
{
    int64_t width = 1;
    for (int64_t i = unit ? 0 : 1; i < a->n_dims; i++) width *= a->shape[i];
    return width;
}

/* Whether the feature dims are the model's one by one; a vector may stand for width 1. */
static bool same_dims(const RtArray *a, const RtTensorDef *t, bool unit)
{
    int64_t skip = unit ? 0 : 1, n = a->n_dims - skip;
    if (n == 1 && t->n_dims == 0) return a->shape[skip] == 1;
    if (n == 0 && t->width == 1) return true;
    if (n != t->n_dims) return n <= 1 || t->n_dims <= 1; /* a flat array may stand for one with dims */
    for (int64_t i = 0; i < n; i++)
        if (a->shape[skip + i] != t->dims[i]) return false;
    return true;
}

static RtCode check_dense(Loader *l, int64_t tensor)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    const RtArray *a = &l->inputs[tensor].dense;
    char text[160];
    bool unit = t->space == 0;
    if (!unit && a->n_dims == 0)
        return rt_fail(l->st, RT_E_DATA_ROWS, rt_load_place(l, l->inputs[tensor].stem), NULL,
                       "found a single number, wanted one row per element of %s", rt_load_space(l, t->space));
    if (!unit && a->shape[0] != rt_load_count(l, t->space)) return rt_load_rows_error(l, tensor, a->shape[0]);
    if (dense_width(a, unit) != t->width) return width_error(l, tensor, dense_width(a, unit));
    if (!same_dims(a, t, unit))
        return rt_fail(l->st, RT_E_DATA_WIDTH, rt_load_place(l, l->inputs[tensor].stem),
                       "transpose or reshape the array", "found %s, whose dims are not those of the model",
                       rt_array_text(a, text, sizeof text));
    return RT_OK;
}

/* Elements of the tensor at `out`, in the user's order. */
static RtCode check_elements(const RtTensorDef *t, int64_t count, const void *out, const char *place, RtStatus *st)
{
    RT_TRY(rt_check_finite(out, t->dtype, count, t->width, place, st));
    return rt_check_bound(out, t->dtype, count, t->bound, t->allow_missing != 0, place, st);
}

/* Converts in[0..count) into the tensor, through a scratch when the space is stored in another
   order. */
static RtCode convert_dense(Loader *l, int64_t tensor, const char *place)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    const RtGraph *g = l->d->graph;
    const RtArray *a = &l->inputs[tensor].dense;
    RtBlock scratch = {0};
    bool permuted = g->spaces[t->space].ids != NULL;
    RT_TRY(rt_tensors_alloc(&l->d->tensors, tensor, l->st));
    void *data = l->d->tensors.data[tensor];
    if (permuted) RT_TRY(rt_block_alloc(&scratch, rt_size(a->count, rt_dtype_bytes(t->dtype)), place, l->st));
    void *out = permuted ? scratch.p : data;
    RtCode code = rt_convert(a, t->dtype, out, place, l->st);
    if (!code) code = check_elements(t, a->count, out, place, l->st);
    if (!code && permuted) rt_graph_to_stored(g, t->space, t->width * rt_dtype_bytes(t->dtype), out, data);
    rt_block_free(&scratch);
    return code;
}

/* An array that is as the tensor wants it becomes the tensor's memory. */
static RtCode place_dense(Loader *l, int64_t tensor)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    const char *place = rt_load_place(l, l->inputs[tensor].stem);
    RtArray *a = &l->inputs[tensor].dense;
    assert(a->count == l->d->tensors.counts[tensor]); /* check_dense */
    if (!a->spare || a->dtype != t->dtype || l->d->graph->spaces[t->space].ids) return convert_dense(l, tensor, place);
    RT_TRY(check_elements(t, a->count, a->data.p, place, l->st));
    rt_tensors_take(&l->d->tensors, tensor, a);
    return RT_OK;
}

static RtCode csr_error(Loader *l, int64_t tensor, const char *part, const char *what)
{
    char stem[300];
    snprintf(stem, sizeof stem, "%s_%s", l->inputs[tensor].stem, part);
    return rt_fail(l->st, RT_E_DATA_CSR, rt_load_place(l, stem), "write the triplet again from a scipy CSR matrix",
                   "%s", what);
}

static RtCode check_csr(Loader *l, int64_t tensor)
{
    Input *in = &l->inputs[tensor];
    const RtTensorDef *t = &l->m->tensors[tensor];
    if (t->dtype != RT_F32 && t->dtype != RT_F64 && !rt_is_16_bits(t->dtype))
        return rt_fail(l->st, RT_E_DATA_DTYPE, rt_load_place(l, in->stem), NULL,
                       "found a CSR triplet of floats, wanted %s", rt_dtype_name(t->dtype));
    RT_TRY(to_i64(l, &in->indptr, rt_load_place(l, in->stem)));
    RT_TRY(to_i64(l, &in->indices, rt_load_place(l, in->stem)));
    int64_t n = rt_load_count(l, t->space);
    if (in->indptr.count != n + 1) return rt_load_rows_error(l, tensor, in->indptr.count - 1);
    const int64_t *ptr = in->indptr.data.p, *idx = in->indices.data.p;
    if (in->indices.count != in->values.count)
        return csr_error(l, tensor, "data", "indices and data have different lengths");
    if (ptr[0] != 0 || ptr[n] != in->values.count)
        return csr_error(l, tensor, "indptr", "wanted offsets from 0 to the length of data");
    for (int64_t v = 0; v < n; v++)
        if (ptr[v + 1] < ptr[v]) return csr_error(l, tensor, "indptr", "offsets go down");
    for (int64_t k = 0; k < in->indices.count; k++)
        if (idx[k] < 0) return csr_error(l, tensor, "indices", "a column is negative");
        else if (idx[k] >= t->width) return width_error(l, tensor, rt_ids_count(idx, in->indices.count));
    return RT_OK;
}

/* Adds the values of one row: entries given twice add up, as in scipy. */
static void add_row(void *out, int64_t dtype, const int64_t *idx, const void *values, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (dtype == RT_F32) ((float *)out)[idx[k]] += ((const float *)values)[k];
        else ((double *)out)[idx[k]] += ((const double *)values)[k];
}

static RtCode place_csr(Loader *l, int64_t tensor)
{
    Input *in = &l->inputs[tensor];
    const RtTensorDef *t = &l->m->tensors[tensor];
    const RtSpaceData *s = &l->d->graph->spaces[t->space];
    const int64_t *ptr = in->indptr.data.p, *idx = in->indices.data.p;
    int64_t dtype = rt_dtype_read(t->dtype), size = rt_dtype_bytes(dtype), row = t->width * rt_dtype_bytes(t->dtype);
    assert(ptr[s->count] == in->values.count); /* check_csr */
    char place[PLACE_BYTES];
    RtBlock values, scratch = {0};
    snprintf(place, sizeof place, "%s", rt_load_place(l, in->stem));
    RT_TRY(rt_block_alloc(&values, rt_size(in->values.count, size), place, l->st));
    RtCode code = rt_convert(&in->values, dtype, values.p, place, l->st);
    if (!code) code = rt_check_finite(values.p, dtype, in->values.count, 1, place, l->st);
    if (!code) code = rt_block_alloc(&scratch, rt_size(t->width, size), place, l->st);
    char *out = l->d->tensors.data[tensor];
    for (int64_t i = 0; !code && i < s->count; i++) {
        int64_t v = s->ids ? s->ids[i] : i;
        memset(scratch.p, 0, (size_t)(t->width * size));
        add_row(scratch.p, dtype, idx + ptr[v], (char *)values.p + ptr[v] * size, ptr[v + 1] - ptr[v]);
        RtArray sums = {.dtype = dtype, .data = scratch, .count = t->width};
        code = rt_convert(&sums, t->dtype, out + i * row, place, l->st);
        if (!code && rt_is_16_bits(t->dtype))
            code = rt_check_finite(out + i * row, t->dtype, t->width, t->width, place, l->st);
    }
    rt_block_free(&scratch);
    rt_block_free(&values);
    return code;
}

/* Random elements that fit the input's type: floats in [-1, 1), one in 64 of a sparse matrix, integers in range,
   half of the bools. Writes elements first.. of the tensor, n of them, as `dtype`. */
enum { DRAWN_ONE_IN = 64 };
static void draw_elements(const Loader *l, int64_t tensor, int64_t first, int64_t n, int64_t dtype, void *out)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    assert(t->width > 0);
    uint64_t seed = (uint64_t)l->o->seed;
    uint32_t hash = rt_name_hash(l->m->strings + t->name);
    int64_t bound = t->dtype == RT_BOOL ? 2 : t->bound > 0 ? t->bound : 1;
    for (int64_t i = 0; i < n; i++) {
        uint64_t row = (uint64_t)((first + i) / t->width), k = (uint64_t)((first + i) % t->width);
        uint32_t word = rt_philox(seed, hash, RT_SITE_DRAW, row, k);
        int64_t id = (int64_t)((uint64_t)word * (uint64_t)bound >> 32);
        double u = (double)(word >> 8) * 0x1p-23 - 1;
        if (t->sparse && word % DRAWN_ONE_IN) u = 0;
        if (dtype == RT_F32) ((float *)out)[i] = (float)u;
        else if (dtype == RT_F16) ((uint16_t *)out)[i] = f16_of_float((float)u);
        else if (dtype == RT_BF16) ((uint16_t *)out)[i] = bf16_of_float((float)u);
        else if (dtype == RT_F64) ((double *)out)[i] = u;
        else if (dtype == RT_I32) ((int32_t *)out)[i] = (int32_t)id;
        else if (dtype == RT_I64) ((int64_t *)out)[i] = id;
        else ((uint8_t *)out)[i] = id != 0;
    }
    if (l->o->drawn) l->o->drawn[tensor] = 1;
}

/* Edges draw by place, as ever; nodes by the user's id, so that an order changes no number. */
static void draw_input(Loader *l, int64_t tensor)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    const RtSpaceData *s = &l->d->graph->spaces[t->space];
    char *out = l->d->tensors.data[tensor];
    for (int64_t i = 0; i < s->count; i++)
        draw_elements(l, tensor, (s->ids && !l->m->spaces[t->space].is_edge ? s->ids[i] : i) * t->width, t->width,
                      t->dtype, out + i * t->width * rt_dtype_bytes(t->dtype));
}

static RtCode missing_error(Loader *l, int64_t tensor)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    const char *name = l->m->strings + t->name;
    char hint[200];
    if (rt_mask_role(l->m, tensor) >= 0 && rt_source_has(&l->source, "fold"))
        return rt_fail(l->st, RT_E_DATA_MISSING, rt_load_place(l, name),
                       "the data has fold.npy: --folds K makes masks of it", "the model's input %s is missing", name);
    snprintf(hint, sizeof hint, "save it as %s with %lld column%s and one row per element of %s",
             rt_dtype_name(rt_dtype_read(t->dtype)), (long long)t->width, t->width == 1 ? "" : "s",
             rt_load_space(l, t->space));
    return rt_fail(l->st, RT_E_DATA_MISSING, rt_load_place(l, name), hint, "the model's input %s is missing", name);
}

static RtCode place_input(Loader *l, int64_t tensor)
{
    const Input *in = &l->inputs[tensor];
    RtCode code = !in->present ? missing_error(l, tensor) : in->csr ? check_csr(l, tensor) : check_dense(l, tensor);
    bool drawn = l->o->draw && (!in->present || code == RT_E_DATA_WIDTH);
    if (!drawn) RT_TRY(code);
    if (!drawn && !in->csr) return place_dense(l, tensor);
    RT_TRY(rt_tensors_alloc(&l->d->tensors, tensor, l->st));
    if (!drawn) return place_csr(l, tensor);
    draw_input(l, tensor);
    return RT_OK;
}

/* ---- inputs by their nonzeros ---- */

/* Rows of a matrix, drawn or read, one after another. */
static RtCode nonzeros_of_rows(Loader *l, int64_t tensor, const RtArray *a, RtNonzeros *z)
{
    const RtTensorDef *t = &l->m->tensors[tensor];
    int64_t n = rt_load_count(l, t->space), dtype = rt_dtype_read(t->dtype), size = rt_dtype_bytes(dtype),
            rows = a ? n : 1, bytes;
    const char *place = rt_load_place(l, l->m->strings + t->name);
    RtBlock block;
    if (!rt_mul(rows * size, t->width, &bytes))
        return rt_fail(l->st, RT_E_OVERFLOW, place, NULL, "the matrix's size overflows 64 bits");
    RT_TRY(rt_block_alloc(&block, bytes, place, l->st));
    RtCode code = a ? rt_convert(a, dtype, block.p, place, l->st) : RT_OK;
    if (a && !code) code = rt_check_finite(block.p, dtype, a->count, t->width, place, l->st);
    const int64_t *order = l->orders[t->space];
    for (int64_t i = 0; i < n && !code; i++) {
        int64_t u = order ? order[i] : i;
        if (!a) draw_elements(l, tensor, u * t->width, t->width, dtype, block.p);
        code = rt_nonzeros_row(z, i, (char *)block.p + (a ? u * t->width * size : 0), t->width, l->st);
    }
    rt_block_free(&block);
    return code;
}

static RtCode nonzeros_of_csr(Loader *l, int64_t tensor, RtNonzeros *z)
{
    const Input *in = &l->inputs[tensor];
    const RtTensorDef *t = &l->m->tensors[tensor];
    const char *place = rt_load_place(l, in->stem);
    int64_t dtype = rt_dtype_read(t->dtype);
    RtBlock values;
    RT_TRY(rt_block_alloc(&values, rt_size(in->values.count, rt_dtype_bytes(dtype)), place, l->st));
    RtCode code = rt_convert(&in->values, dtype, values.p, place, l->st);
    if (!code) code = rt_check_finite(values.p, dtype, in->values.count, 1, place, l->st);
    if (!code)
        code = rt_nonzeros_csr(z, in->indptr.data.p, in->indices.data.p, values.p, rt_load_count(l, t->space), t->width,
                               l->orders[t->space], l->st);
    rt_block_free(&values);
    return code;
}

static RtCode find_nonzeros_of(Loader *l, int64_t tensor, RtNonzeros *z)
{
    const Input *in = &l->inputs[tensor];
    z->dtype = rt_dtype_read(l->m->tensors[tensor].dtype);
    if (rt_load_count(l, l->m->tensors[tensor].space) < 0) return RT_OK; /* what is unknown is said by build_graph */
    RtCode code = !in->present ? missing_error(l, tensor) : in->csr ? check_csr(l, tensor) : check_dense(l, tensor);
    if (l->o->draw && (!in->present || code == RT_E_DATA_WIDTH)) return nonzeros_of_rows(l, tensor, NULL, z);
    RT_TRY(code);
    return in->csr ? nonzeros_of_csr(l, tensor, z) : nonzeros_of_rows(l, tensor, &in->dense, z);
}

/* Before the graph is built: a pattern is a space with two maps. */
static RtCode find_nonzeros(Loader *l)
{
    for (int64_t i = 0; i < l->m->n_tensors; i++) {
        const RtTensorDef *t = &l->m->tensors[i];
        RtNonzeros *z = &l->nonzeros[i];
        if (!t->nonzeros || !rt_load_wants(l, i)) continue;
        RT_TRY(rt_declared_tensor(find_nonzeros_of(l, t->of, z), l->m, t->of, l->st));
        l->counts[t->space] = z->count;
        l->patterns[l->n_patterns++] = (RtPattern){t->row, t->col, z->count, z->rows, z->cols};
    }
    return RT_OK;
}

static RtCode place_nonzeros(Loader *l, int64_t tensor)
{
    const RtNonzeros *z = &l->nonzeros[tensor];
    RT_TRY(rt_tensors_alloc(&l->d->tensors, tensor, l->st));
    assert(l->d->tensors.counts[tensor] == z->count);
    const RtTensorDef *t = &l->m->tensors[tensor];
    const char *place = rt_load_place(l, l->m->strings + l->m->tensors[t->of].name);
    RtArray values = {.dtype = z->dtype, .data = {.p = z->values}, .count = z->count};
    RT_TRY(rt_convert(&values, t->dtype, l->d->tensors.data[tensor], place, l->st));
    return rt_check_finite(l->d->tensors.data[tensor], t->dtype, z->count, 1, place, l->st);
}

/* A mask: allocated now, filled by rt_data_fold. All masks are of one space. */
static RtCode place_folds(Loader *l, int64_t tensor)
{
    RtData *d = l->d;
    int64_t space = l->m->tensors[tensor].space;
    RT_TRY(rt_tensors_alloc(&d->tensors, tensor, l->st));
    if (d->fold_of && d->fold_space == space) return RT_OK;
    if (d->fold_of)
        return rt_fail(l->st, RT_E_DATA_FOLDS, rt_load_place(l, "fold"), "use masks of one kind of rows",
                       "masks are of %s and of %s", rt_load_space(l, d->fold_space), rt_load_space(l, space));
    RtBlock user = {0};
    RtCode code = rt_folds_read(&l->source, rt_load_count(l, space), l->o->folds, &user, l->st);
    if (!code) code = rt_block_alloc(&d->folds, (int64_t)user.bytes, "folds", l->st);
    if (!code) {
        d->fold_of = d->folds.p;
        d->fold_space = space;
        d->n_folds = l->o->folds;
        rt_graph_to_stored(d->graph, space, 8, user.p, d->fold_of);
    }
    rt_block_free(&user);
    return code;
}

static RtCode place_inputs(Loader *l)
{
    RT_TRY(rt_tensors_create(l->m, l->d->graph, &l->d->tensors, l->st));
    for (int64_t i = 0; i < l->m->n_tensors; i++) {
        if (!rt_load_wants(l, i)) continue;
        RtCode code = is_fold_mask(l, i)          ? place_folds(l, i)
                      : l->m->tensors[i].nonzeros ? place_nonzeros(l, i)
                                                  : place_input(l, i);
        RT_TRY(rt_declared_tensor(code, l->m, i, l->st));
    }
    for (int64_t i = 0; i < l->m->n_tensors; i++) {
        const RtTensorDef *t = &l->m->tensors[i];
        if (t->is_map && rt_load_wants(l, i))
            RT_TRY(rt_graph_say_map(l->d->graph, t->map, t->dtype, l->d->tensors.data[i], l->st));
    }
    rt_tensors_count(&l->d->tensors, l->d->graph); /* pairs of rows and keys are known now */
    return RT_OK;
}

/* ---- whole ---- */

/* What tells a part's edges from those of other processes, where they are some of an array's. */
static RtCode keep_edge_rows(Loader *l)
{
    if (!l->o->part) return RT_OK;
    RT_TRY(rt_alloc(&l->d->edge_rows, l->m->n_graphs, sizeof *l->d->edge_rows, "a data set", l->st));
    l->d->n_edge_rows = l->m->n_graphs;
    for (int64_t i = 0; i < l->m->n_graphs; i++) {
        const RtEdgeIds *ids = &l->files[i];
        if (!rt_graph_is_read(&l->m->graphs[i]) || l->m->graphs[i].where < 0) continue;
        RT_TRY(rt_block_alloc(&l->d->edge_rows[i], rt_size_plus(8, ids->n, 8), "a data set", l->st));
        if (ids->n) memcpy(l->d->edge_rows[i].p, ids->rows, (size_t)ids->n * 8);
    }
    return RT_OK;
}

static RtCode load(Loader *l, const char *path)
{
    const RtModel *m = l->m;
    const char *what = "a data set";
    RT_TRY(rt_alloc(&l->inputs, m->n_tensors, sizeof *l->inputs, what, l->st));
    RT_TRY(rt_alloc(&l->counts, m->n_spaces, sizeof *l->counts, what, l->st));
    RT_TRY(rt_alloc(&l->why, m->n_spaces, sizeof *l->why, what, l->st));
    RT_TRY(rt_alloc(&l->nonzeros, m->n_tensors, sizeof *l->nonzeros, what, l->st));
    RT_TRY(rt_alloc(&l->patterns, m->n_tensors, sizeof *l->patterns, what, l->st));
    RT_TRY(rt_alloc(&l->lists, m->n_graphs, sizeof *l->lists, what, l->st));
    RT_TRY(rt_alloc(&l->files, m->n_graphs, sizeof *l->files, what, l->st));
    RT_TRY(rt_alloc(&l->kept, m->n_graphs, sizeof *l->kept, what, l->st));
    RT_TRY(rt_alloc(&l->list_places, m->n_graphs, sizeof *l->list_places, what, l->st));
    RT_TRY(rt_source_open(path, &l->source, l->st));
    RT_TRY(read_inputs(l));
    RT_TRY(read_edges(l));
    RT_TRY(read_lists(l));
    RT_TRY(read_keys(l));
    RT_TRY(read_batch(l));
    RT_TRY(rt_load_counts(l));
    RT_TRY(rt_load_order(l));
    RT_TRY(find_nonzeros(l));
    RT_TRY(keep_edge_rows(l));
    RT_TRY(build_graph(l));
    return place_inputs(l);
}

static void loader_free(Loader *l)
{
    for (int64_t i = 0; l->inputs && i < l->m->n_tensors; i++) {
        rt_array_free(&l->inputs[i].dense);
        rt_array_free(&l->inputs[i].indptr);
        rt_array_free(&l->inputs[i].indices);
        rt_array_free(&l->inputs[i].values);
    }
    for (int64_t i = 0; l->nonzeros && i < l->m->n_tensors; i++) rt_nonzeros_free(&l->nonzeros[i]);
    free(l->nonzeros);
    free(l->patterns);
    for (int64_t i = 0; l->lists && i < l->m->n_graphs; i++) rt_array_free(&l->lists[i]);
    free(l->lists);
    for (int64_t i = 0; i < l->n_key_arrays; i++) rt_array_free(&l->key_arrays[i]);
    free(l->key_arrays);
    free(l->keys);
    free(l->files);
    for (int64_t i = 0; l->kept && i < l->m->n_graphs; i++) rt_block_free(&l->kept[i]);
    free(l->kept);
    free(l->list_places);
    rt_array_free(&l->src);
    rt_array_free(&l->dst);
    rt_array_free(&l->batch);
    for (int64_t s = 0; l->batches && s < l->m->n_spaces; s++) rt_array_free(&l->batches[s]);
    free(l->batches);
    free(l->graphs_of);
    rt_source_close(&l->source);
    rt_block_free(&l->ids);
    free(l->orders);
    free(l->inputs);
    free(l->counts);
    free(l->why);
}

RtCode rt_data_load(const RtModel *m, const char *path, const RtDataOptions *o, RtData *d, RtStatus *st)
{
    *d = (RtData){0};
    Loader *l; /* holds path buffers: too large for a stack */
    RT_TRY(rt_alloc(&l, 1, sizeof *l, "a data set", st));
    l->m = m;
    l->o = o;
    l->d = d;
    l->st = st;
    RtCode code = load(l, path);
    loader_free(l);
    free(l);
    if (code) rt_data_free(d);
    return code;
}

void rt_data_free(RtData *d)
{
    if (!d) return;
    for (int64_t i = 0; i < d->n_edge_rows; i++) rt_block_free(&d->edge_rows[i]);
    free(d->edge_rows);
    rt_tensors_free(&d->tensors);
    rt_graph_free(d->graph);
    rt_order_free(&d->order);
    rt_block_free(&d->folds);
    *d = (RtData){0};
}
