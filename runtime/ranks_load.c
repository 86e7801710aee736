/* A process's part of a data set (docs/data.md, "Parts"): which of its rows it owns, and whose the others are. */
#include "runtime/convert.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/ranks.h"
#include <stdio.h>
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
    RtCode code = rt_block_alloc(out, rt_size_plus(8, a.count, rt_dtype_bytes(dtype)), path, st);
    if (!code) code = rt_convert(&a, dtype, out->p, path, st);
    *n = a.count;
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

static RtCode read_counts(const char *dir, RtPart *p, RtStatus *st)
{
    char path[PATH];
    RtJsonDoc doc = {0};
    snprintf(path, sizeof path, "%.4200s/part.json", dir);
    RT_TRY(read_json(path, &doc, st));
    RtCode code = RT_OK;
    int64_t halo = 0;
    bool good = rt_json_int(rt_json_get(doc.root, "rank"), &p->rank) &&
                rt_json_int(rt_json_get(doc.root, "parts"), &p->n_parts) &&
                rt_json_int(rt_json_get(doc.root, "nodes"), &p->nodes) &&
                rt_json_int(rt_json_get(doc.root, "edges"), &p->edges) &&
                rt_json_int(rt_json_get(doc.root, "owned"), &p->owned) &&
                rt_json_int(rt_json_get(doc.root, "inner"), &p->inner) &&
                rt_json_int(rt_json_get(doc.root, "halo"), &halo);
    const RtJson *digest = good ? rt_json_get(doc.root, "partition") : NULL;
    if (digest && digest->kind == RT_JSON_STRING) snprintf(p->digest, sizeof p->digest, "%s", digest->text);
    if (good) rt_json_int(rt_json_get(doc.root, "graphs"), &p->graphs);
    if (!good || !p->digest[0])
        code = bad_part(path, "it lacks rank, parts, nodes, edges, owned, inner, halo or partition", st);
    p->n_nodes = p->owned + halo;
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
static RtCode check_ids(const char *dir, const RtPart *p, RtStatus *st)
{
    for (int64_t i = 0; i < p->n_nodes; i++) {
        bool first = !i || i == p->inner || i == p->owned;
        if (p->node_id[i] < 0 || p->node_id[i] >= p->nodes || (!first && p->node_id[i] <= p->node_id[i - 1]))
            return bad_part(dir, "node_id.npy does not ascend inside the graph", st);
        if (i >= p->owned && (p->halo_owner[i - p->owned] < 0 || p->halo_owner[i - p->owned] >= p->n_parts ||
                              p->halo_owner[i - p->owned] == p->rank))
            return bad_part(dir, "halo_owner.npy names no other part", st);
    }
    for (int64_t i = 0; i < p->n_edges; i++)
        if (p->edge_id[i] < 0 || p->edge_id[i] >= p->edges || (i && p->edge_id[i] <= p->edge_id[i - 1]))
            return bad_part(dir, "edge_id.npy does not ascend inside the graph", st);
    return RT_OK;
}

static RtCode load(const char *dir, RtPart *p, RtStatus *st)
{
    int64_t n_nodes, n_halo;
    RT_TRY(read_counts(dir, p, st));
    RT_TRY(read_numbers(dir, "node_id.npy", RT_I64, false, &p->blocks[0], &n_nodes, st));
    RT_TRY(read_numbers(dir, "edge_id.npy", RT_I64, false, &p->blocks[1], &p->n_edges, st));
    RT_TRY(read_numbers(dir, "halo_owner.npy", RT_I32, false, &p->blocks[2], &n_halo, st));
    RT_TRY(read_numbers(dir, "graph_id.npy", RT_I64, true, &p->blocks[3], &p->n_graphs, st));
    if (n_nodes != p->n_nodes || n_halo != p->n_nodes - p->owned)
        return bad_part(dir, "node_id.npy or halo_owner.npy has not as many rows as part.json says", st);
    p->node_id = p->blocks[0].p;
    p->edge_id = p->blocks[1].p;
    p->halo_owner = p->blocks[2].p;
    p->graph_id = p->blocks[3].p;
    return check_ids(dir, p, st);
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

void rt_part_free(RtPart *p)
{
    if (!p) return;
    for (int i = 0; i < 4; i++) rt_block_free(&p->blocks[i]);
    *p = (RtPart){0};
}
