/* A process's part of a data set (docs/data.md, "Parts"): which of its rows it owns, and whose the others are. */
#include "runtime/convert.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/ranks.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4400 };

bool rt_is_partition(const char *dir)
{
    char path[PATH];
    int n = snprintf(path, sizeof path, "%s/partition.json", dir);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

/* One array of numbers, as i64 or i32. missing: it may be absent. */
static RtCode read_numbers(const char *dir, const char *name, int64_t dtype, bool missing, RtBlock *out, int64_t *n,
                           RtStatus *st)
{
    char path[PATH];
    RtArray a = {0};
    snprintf(path, sizeof path, "%.4200s/%.100s", dir, name);
    *n = 0;
    if (missing && access(path, F_OK) != 0) return RT_OK;
    RT_TRY(rt_npy_read(path, &a, st));
    *n = a.count;
    if (a.dtype == dtype) return *out = a.data, RT_OK;
    RtCode code = rt_block_alloc(out, rt_size_plus(8, a.count, rt_dtype_bytes(dtype)), path, st);
    if (!code) code = rt_convert(&a, dtype, out->p, path, st);
    rt_array_free(&a);
    return code;
}

static RtCode bad_part(const char *path, const char *found, RtStatus *st)
{
    return rt_fail(st, RT_E_DATA_META, path, "make the parts again: gnnc data partition", "%s", found);
}

static RtCode read_json(const char *path, RtJsonDoc *doc, RtStatus *st)
{
    RtBlock text;
    RT_TRY(rt_file_read(path, &text, st));
    RtCode code = rt_json_parse(path, text.p, text.bytes, doc, st);
    rt_block_free(&text);
    return code;
}

/* "node_id.npy" of a kind without a name, else "node_id.author.npy". */
static const char *file_of(const char *stem, const char *name, char out[300])
{
    snprintf(out, 300, "%s%s%.200s.npy", stem, *name ? "." : "", name);
    return out;
}

static RtCode read_nodes(const char *dir, const RtJson *said, const char *name, RtPartNodes *k, RtStatus *st)
{
    char file[300];
    int64_t halo = 0, n_ids, n_owners;
    k->name = name;
    if (!rt_json_int(rt_json_get(said, "nodes"), &k->all) || !rt_json_int(rt_json_get(said, "owned"), &k->owned) ||
        !rt_json_int(rt_json_get(said, "inner"), &k->inner) || !rt_json_int(rt_json_get(said, "halo"), &halo))
        return bad_part(dir, "part.json lacks nodes, owned, inner or halo", st);
    RT_TRY(read_numbers(dir, file_of("node_id", name, file), RT_I64, false, &k->blocks[0], &n_ids, st));
    RT_TRY(read_numbers(dir, file_of("halo_owner", name, file), RT_I32, false, &k->blocks[1], &n_owners, st));
    if (halo != n_owners || k->owned > n_ids || n_ids - k->owned != halo)
        return bad_part(dir, "node_id.npy or halo_owner.npy has not as many rows as part.json says", st);
    k->n = n_ids;
    k->id = k->blocks[0].p;
    k->halo_owner = k->blocks[1].p;
    return RT_OK;
}

/* The edges of an array of the data, `name` in names of files. */
static RtCode read_edges(const char *dir, const RtJson *said, const char *array, const char *name, RtPartEdges *x,
                         RtStatus *st)
{
    char file[300];
    x->array = array;
    if (!x->name) x->name = array;
    if (!rt_json_int(rt_json_get(said, "edges"), &x->all)) return bad_part(dir, "part.json lacks edges", st);
    RT_TRY(read_numbers(dir, file_of("edge_id", name, file), RT_I64, false, &x->block, &x->n, st));
    x->id = x->block.p;
    return RT_OK;
}

/* A copy of the text that lives as long as the part; *at: what is left of its room. */
static const char *keep_name(char **at, const char *text, const char *tail)
{
    char *name = *at;
    *at += sprintf(name, "%s%s", text, tail) + 1;
    return name;
}

/* Several kinds of nodes, and relations: names, of which one kind and one relation may have "". */
static RtCode read_named(const char *dir, const RtJson *kinds, const RtJson *relations, RtPart *p, RtStatus *st)
{
    int64_t room = 1;
    for (const RtJson *k = kinds->first; k; k = k->next) room += (int64_t)strlen(k->key) + 1;
    for (const RtJson *r = relations->first; r; r = r->next) {
        const RtJson *column = rt_json_get(r, "column"), *path = rt_json_get(r, "path");
        bool good = !column || column->kind == RT_JSON_STRING;
        if (!good) return bad_part(dir, "a column of part.json is no name", st);
        if (path && path->kind != RT_JSON_STRING) return bad_part(dir, "a path of part.json is no text", st);
        room += 2 * (int64_t)strlen(r->key) + (int64_t)(column ? strlen(column->text) : 0) + 16;
        room += path ? (int64_t)strlen(path->text) + 1 : 0;
    }
    RT_TRY(rt_block_alloc(&p->names, room, "a part", st));
    char *at = p->names.p;
    RT_TRY(rt_alloc(&p->nodes, kinds->n_items, sizeof *p->nodes, "a part", st));
    RT_TRY(rt_alloc(&p->edges, relations->n_items, sizeof *p->edges, "a part", st));
    for (const RtJson *k = kinds->first; k; k = k->next)
        RT_TRY(read_nodes(dir, k, keep_name(&at, k->key, ""), &p->nodes[p->n_kinds++], st));
    for (const RtJson *r = relations->first; r; r = r->next) {
        const RtJson *column = rt_json_get(r, "column"), *path = rt_json_get(r, "path");
        RtPartEdges *x = &p->edges[p->n_arrays++];
        if (path) x->name = keep_name(&at, path->text, "");
        if (column) x->name = x->array = keep_name(&at, column->text, "");
        else RT_TRY(read_edges(dir, r, keep_name(&at, r->key, *r->key ? ".edge_index" : "edge_index"), r->key, x, st));
    }
    assert(at <= (char *)p->names.p + room);
    return RT_OK;
}

/* One kind of nodes, joined by edge_index. */
static RtCode read_unnamed(const char *dir, const RtJson *root, RtPart *p, RtStatus *st)
{
    RT_TRY(rt_alloc(&p->nodes, 1, sizeof *p->nodes, "a part", st));
    RT_TRY(rt_alloc(&p->edges, 1, sizeof *p->edges, "a part", st));
    p->n_kinds = p->n_arrays = 1;
    RT_TRY(read_nodes(dir, root, "", p->nodes, st));
    return read_edges(dir, root, "edge_index", "", p->edges, st);
}

static RtCode read_counts(const char *dir, RtPart *p, RtStatus *st)
{
    char path[PATH];
    RtJsonDoc doc = {0};
    snprintf(path, sizeof path, "%.4200s/part.json", dir);
    RT_TRY(read_json(path, &doc, st));
    const RtJson *kinds = rt_json_get(doc.root, "kinds"), *relations = rt_json_get(doc.root, "relations");
    const RtJson *digest = rt_json_get(doc.root, "partition");
    bool good = rt_json_int(rt_json_get(doc.root, "rank"), &p->rank) &&
                rt_json_int(rt_json_get(doc.root, "parts"), &p->n_parts) && digest && digest->kind == RT_JSON_STRING;
    if (good) snprintf(p->digest, sizeof p->digest, "%s", digest->text);
    if (good) rt_json_int(rt_json_get(doc.root, "graphs"), &p->graphs);
    RtCode code = RT_OK;
    if (!good || (kinds && (kinds->kind != RT_JSON_OBJECT || !relations || relations->kind != RT_JSON_OBJECT)))
        code = bad_part(path, "it lacks rank, parts, partition or relations", st);
    else code = kinds ? read_named(dir, kinds, relations, p, st) : read_unnamed(dir, doc.root, p, st);
    rt_json_free(&doc);
    return code;
}

RtCode rt_parts_count(const char *dir, int64_t *n, RtStatus *st)
{
    char path[PATH];
    RtJsonDoc doc = {0};
    snprintf(path, sizeof path, "%.4200s/partition.json", dir);
    RT_TRY(read_json(path, &doc, st));
    RtCode code = RT_OK;
    if (!rt_json_int(rt_json_get(doc.root, "parts"), n) || *n < 1 || *n > RT_PEERS_MOST)
        code = bad_part(path, "it says no number of parts", st);
    rt_json_free(&doc);
    return code;
}

/* Ids are of the graph and ascend in inner nodes, other owned ones and the rest; owners are processes. */
static RtCode check_nodes(const char *dir, const RtPart *p, const RtPartNodes *k, RtStatus *st)
{
    for (int64_t i = 0; i < k->n; i++) {
        bool first = !i || i == k->inner || i == k->owned;
        if (k->id[i] < 0 || k->id[i] >= k->all || (!first && k->id[i] <= k->id[i - 1]))
            return bad_part(dir, "node_id.npy does not ascend inside the graph", st);
        if (i >= k->owned && (k->halo_owner[i - k->owned] < 0 || k->halo_owner[i - k->owned] >= p->n_parts ||
                              k->halo_owner[i - k->owned] == p->rank))
            return bad_part(dir, "halo_owner.npy names no other part", st);
    }
    return RT_OK;
}

static RtCode check_edges(const char *dir, const RtPartEdges *x, RtStatus *st)
{
    for (int64_t i = 0; i < x->n; i++)
        if (x->id[i] < 0 || x->id[i] >= x->all || (i && x->id[i] <= x->id[i - 1]))
            return bad_part(dir, "edge_id.npy does not ascend inside the graph", st);
    return RT_OK;
}

static RtCode load(const char *dir, RtPart *p, RtStatus *st)
{
    RT_TRY(read_counts(dir, p, st));
    RT_TRY(read_numbers(dir, "graph_id.npy", RT_I64, true, &p->graph_ids, &p->n_graphs, st));
    p->graph_id = p->graph_ids.p;
    for (int64_t k = 0; k < p->n_kinds; k++) RT_TRY(check_nodes(dir, p, &p->nodes[k], st));
    for (int64_t x = 0; x < p->n_arrays; x++) RT_TRY(check_edges(dir, &p->edges[x], st));
    return RT_OK;
}

RtCode rt_part_load(const char *dir, int rank, int n, RtPart *p, RtStatus *st)
{
    char path[PATH];
    *p = (RtPart){0};
    snprintf(path, sizeof path, "%.4000s/part-%d", dir, rank);
    RtCode code = load(path, p, st);
    if (!code && p->n_parts != n)
        code = rt_fail(st, RT_E_RANKS_PARTS, dir,
                       "start as many processes as there are parts: mpirun -n P, or --ranks P",
                       "the data is in %lld parts, and there are %d processes", (long long)p->n_parts, n);
    if (!code && p->rank != rank) code = bad_part(path, "it is another part", st);
    if (code) rt_part_free(p);
    return code;
}

RtCode rt_part_open(const char *dir, RtPart *p, RtStatus *st)
{
    char path[PATH];
    *p = (RtPart){0};
    snprintf(path, sizeof path, "%.4200s/part.json", dir);
    if (access(path, F_OK) != 0) return RT_OK;
    RtCode code = load(dir, p, st);
    if (code) rt_part_free(p);
    return code;
}

void rt_part_free(RtPart *p)
{
    if (!p) return;
    for (int64_t k = 0; k < p->n_kinds; k++)
        for (int i = 0; i < 2; i++) rt_block_free(&p->nodes[k].blocks[i]);
    for (int64_t x = 0; x < p->n_arrays; x++) rt_block_free(&p->edges[x].block);
    rt_block_free(&p->graph_ids);
    rt_block_free(&p->names);
    free(p->nodes);
    free(p->edges);
    *p = (RtPart){0};
}

int64_t rt_part_bytes(const RtPart *p)
{
    size_t bytes = p->graph_ids.bytes + p->names.bytes;
    for (int64_t k = 0; k < p->n_kinds; k++) bytes += p->nodes[k].blocks[0].bytes + p->nodes[k].blocks[1].bytes;
    for (int64_t x = 0; x < p->n_arrays; x++) bytes += p->edges[x].block.bytes;
    return (int64_t)bytes;
}

const RtPartNodes *rt_part_nodes(const RtPart *p, const char *name)
{
    for (int64_t k = 0; k < p->n_kinds; k++)
        if (!strcmp(p->nodes[k].name, name)) return &p->nodes[k];
    return NULL;
}

const RtPartEdges *rt_part_edges(const RtPart *p, const char *name)
{
    for (int64_t x = 0; x < p->n_arrays; x++)
        if (!strcmp(p->edges[x].name, name)) return &p->edges[x];
    return NULL;
}

const RtPartEdges *rt_part_path(const RtPart *p, const RtModel *m, const RtGraphDef *d, char path[1024])
{
    char own[1024];
    int n = 0;
    assert(d->kind == RT_GRAPH_COMPOSE && d->n_path > 0);
    if (!path) path = own;
    path[0] = 0;
    for (int64_t k = 0; k < d->n_path; k++) {
        const RtGraphDef *step = &m->graphs[d->path[k]];
        bool reversed = step->kind == RT_GRAPH_REVERSE;
        if (reversed) step = &m->graphs[step->base];
        bool given = step->kind == RT_GRAPH_DATA || (rt_graph_is_read(step) && step->where < 0);
        if (!given || n > 700) return path[0] = 0, NULL;
        const char *array = step->kind == RT_GRAPH_DATA ? "edge_index" : rt_string(m, step->file);
        n += snprintf(path + n, (size_t)(1024 - n), reversed ? "%sreverse(%.300s)" : "%s%.300s", k ? "," : "", array);
    }
    assert(n < 1024);
    return rt_part_edges(p, path);
}
