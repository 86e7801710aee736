/* Folders and archives of arrays (see source.h). Finding an array and naming it in errors go
   through one function, so that the place in a message is where the array was read. */
#include "runtime/source.h"
#include "runtime/convert.h"
#include "runtime/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

typedef enum { FROM_NONE, FROM_NPY, FROM_GRAPH, FROM_SIDE, FROM_EDGES, FROM_WEIGHTS } Origin;

typedef struct Hit {
    Origin origin;
    char path[PATH_BYTES]; /* the file */
    char member[256];      /* of an archive */
} Hit;

static bool is_there(const char *path) { return !access(path, F_OK); }

/* ---- finding ---- */

/* "x_indptr" is the part "indptr" of x. */
static bool csr_part(const char *stem, char *base, size_t size, const char **part)
{
    static const char *const parts[] = {"indptr", "indices", "data"};
    size_t n = strlen(stem);
    for (int i = 0; i < 3; i++) {
        size_t m = strlen(parts[i]);
        if (n <= m + 1 || stem[n - m - 1] != '_' || strcmp(stem + n - m, parts[i])) continue;
        *part = parts[i];
        return snprintf(base, size, "%.*s", (int)(n - m - 1), stem) < (int)size;
    }
    return false;
}

/* Opens STEM.npz unless it is open. A malformed one stays closed; st may be NULL. */
static RtCode open_side(RtSource *s, const char *path, RtStatus *st)
{
    if (s->side && !strcmp(s->side->path, path)) return RT_OK;
    if (!s->side) RT_TRY(rt_alloc(&s->side, 1, sizeof *s->side, "an archive", st));
    rt_zip_close(s->side);
    return rt_zip_open(path, s->side, st);
}

/* The member of PATH.npz that is `stem`: of its own name, or the only one, whatever it is called. */
static bool find_member(RtSource *s, const char *path, const char *member, bool alone, Hit *h)
{
    if (!is_there(path)) return false;
    h->origin = FROM_SIDE;
    snprintf(h->path, sizeof h->path, "%s", path);
    snprintf(h->member, sizeof h->member, "%s", member);
    if (open_side(s, path, NULL) || rt_zip_has(s->side, member)) return true;
    snprintf(h->member, sizeof h->member, "arr_0"); /* numpy's name for what was given none */
    if (alone && s->side->n_members == 1 && rt_zip_has(s->side, "arr_0")) return true;
    h->origin = FROM_NONE;
    return false;
}

static bool find_side(RtSource *s, const char *stem, Hit *h)
{
    char path[PATH_BYTES], base[256];
    const char *part;
    snprintf(path, sizeof path, "%s/%s.npz", s->path, stem);
    if (find_member(s, path, stem, true, h)) return true;
    if (!csr_part(stem, base, sizeof base, &part)) return false;
    snprintf(path, sizeof path, "%s/%s.npz", s->path, base);
    return find_member(s, path, part, false, h);
}

static Hit find(RtSource *s, const char *stem)
{
    Hit h = {FROM_NONE, "", ""};
    if (!s->is_file) {
        snprintf(h.path, sizeof h.path, "%s/%s.npy", s->path, stem);
        if (is_there(h.path)) return h.origin = FROM_NPY, h;
    }
    if (s->graph.n_members && rt_zip_has(&s->graph, stem)) {
        h.origin = FROM_GRAPH;
        snprintf(h.path, sizeof h.path, "%s", s->graph.path);
        snprintf(h.member, sizeof h.member, "%s", stem);
        return h;
    }
    if (!s->is_file && find_side(s, stem, &h)) return h;
    bool edges = !strcmp(stem, "edge_index") && s->text.edges.n_dims;
    bool weights = !strcmp(stem, "edge_weight") && s->text.weights.n_dims;
    if (edges || weights) {
        h.origin = edges ? FROM_EDGES : FROM_WEIGHTS;
        snprintf(h.path, sizeof h.path, "%s", s->text_path);
    }
    return h;
}

/* Looks for the array NAME_triples in place of an array `stem` that the source lacks: NAME_index, whose two rows are
   heads and tails (*ends), or NAME_type. *h: where NAME_triples is; name: its name. False: `stem` is there itself, is
   called otherwise, or there are no such triples. */
static bool in_triples(RtSource *s, const char *stem, bool *ends, Hit *h, char *name, size_t size)
{
    size_t n = strlen(stem);
    *ends = n > 6 && !strcmp(stem + n - 6, "_index");
    bool type = n > 5 && !strcmp(stem + n - 5, "_type");
    if ((!*ends && !type) || snprintf(name, size, "%.*s_triples", (int)(n - (*ends ? 6 : 5)), stem) >= (int)size)
        return false;
    if (find(s, stem).origin != FROM_NONE) return false;
    *h = find(s, name);
    return h->origin != FROM_NONE;
}

/* Integers [n, 3]: head, relation and tail of each edge; their ends as [2, n], or the relations. */
static RtCode read_triples(RtSource *s, const char *name, bool ends, RtArray *a, RtStatus *st)
{
    RtArray t;
    char place[PATH_BYTES + 256], text[160];
    rt_source_place(s, name, place, sizeof place);
    RT_TRY(rt_source_read(s, name, &t, st));
    RtCode code = RT_OK;
    RtBlock wide = {0};
    if (t.n_dims != 2 || t.shape[1] != 3 || (t.dtype != RT_I64 && t.dtype != RT_I32))
        code = rt_fail(st, RT_E_DATA_EDGES, place, "a row is head, relation, tail", "found %s, wanted [n, 3] i64",
                       rt_array_text(&t, text, sizeof text));
    if (!code) code = rt_block_alloc(&wide, rt_size(t.count, 8), place, st);
    if (!code) code = rt_convert(&t, RT_I64, wide.p, place, st);
    int64_t n = code ? 0 : t.shape[0];
    rt_array_free(&t);
    *a = (RtArray){
        .dtype = RT_I64, .n_dims = ends ? 2 : 1, .shape = {ends ? 2 : n, ends ? n : 0}, .count = ends ? 2 * n : n};
    if (!code) code = rt_block_alloc(&a->data, rt_size(a->count, 8), place, st);
    const int64_t *from = wide.p;
    for (int64_t e = 0; e < n && !code; e++) {
        int64_t *to = a->data.p;
        to[e] = from[3 * e + (ends ? 0 : 1)];
        if (ends) to[n + e] = from[3 * e + 2];
    }
    rt_block_free(&wide);
    return code;
}

const char *rt_source_place(RtSource *s, const char *stem, char *out, size_t size)
{
    Hit h;
    char triples[300];
    bool ends;
    if (!in_triples(s, stem, &ends, &h, triples, sizeof triples)) h = find(s, stem);
    int n;
    if (h.origin == FROM_GRAPH || h.origin == FROM_SIDE) n = snprintf(out, size, "%s:%s", h.path, h.member);
    else if (h.origin != FROM_NONE) n = snprintf(out, size, "%s", h.path);
    else n = snprintf(out, size, s->is_file ? "%s:%s" : "%s/%s.npy", s->path, stem);
    (void)n; /* cut off where it is too long: it is only shown */
    return out;
}

bool rt_source_has(RtSource *s, const char *stem)
{
    Hit h;
    char triples[300];
    bool ends;
    return find(s, stem).origin != FROM_NONE || in_triples(s, stem, &ends, &h, triples, sizeof triples);
}

RtCode rt_source_read(RtSource *s, const char *stem, RtArray *a, RtStatus *st)
{
    char place[PATH_BYTES + 256], triples[300];
    Hit h;
    bool ends;
    if (in_triples(s, stem, &ends, &h, triples, sizeof triples)) return read_triples(s, triples, ends, a, st);
    h = find(s, stem);
    rt_source_place(s, stem, place, sizeof place);
    *a = (RtArray){0};
    if (h.origin == FROM_GRAPH) return rt_zip_read(&s->graph, h.member, place, a, st);
    if (h.origin == FROM_SIDE) {
        RT_TRY(open_side(s, h.path, st));
        return rt_zip_read(s->side, h.member, place, a, st);
    }
    if (h.origin == FROM_EDGES || h.origin == FROM_WEIGHTS) {
        RtArray *from = h.origin == FROM_EDGES ? &s->text.edges : &s->text.weights;
        *a = *from;
        from->data = (RtBlock){0};
        return RT_OK;
    }
    if (s->is_file) return rt_fail(st, RT_E_FILE_OPEN, place, NULL, "the archive has no member %s.npy", stem);
    return rt_npy_read(place, a, st);
}

/* ---- opening ---- */

static RtCode read_meta(RtSource *s, RtStatus *st)
{
    char path[PATH_BYTES];
    RtBlock text;
    snprintf(path, sizeof path, "%s/meta.json", s->path);
    if (!is_there(path)) return RT_OK;
    RT_TRY(rt_file_read(path, &text, st));
    RtCode code = rt_json_parse(path, text.p, text.bytes, &s->meta, st);
    rt_block_free(&text);
    if (!code && s->meta.root->kind != RT_JSON_OBJECT)
        code = rt_fail(st, RT_E_DATA_META, path, NULL, "wanted an object at the top");
    return code;
}

static RtCode open_graph(RtSource *s, RtStatus *st)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/graph.npz", s->path);
    return is_there(path) ? rt_zip_open(path, &s->graph, st) : RT_OK;
}

/* Text is read at once: only then is it known whether it has weights. */
static RtCode open_text(RtSource *s, RtStatus *st)
{
    static const char *const names[] = {"graph.mtx", "edges.tsv", "edges.csv"};
    s->text.n_nodes = -1;
    if (rt_source_has(s, "edge_index") || rt_source_has(s, "src")) return RT_OK;
    for (int i = 0; i < 3; i++) {
        snprintf(s->text_path, sizeof s->text_path, "%s/%s", s->path, names[i]);
        if (is_there(s->text_path)) return rt_edge_text_read(s->text_path, &s->text, st);
    }
    return RT_OK;
}

static RtCode open_folder(RtSource *s, RtStatus *st)
{
    RT_TRY(read_meta(s, st));
    RT_TRY(open_graph(s, st));
    return open_text(s, st);
}

static bool is_archive(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".npz");
}

RtCode rt_source_open(const char *path, RtSource *s, RtStatus *st)
{
    struct stat info;
    *s = (RtSource){.text.n_nodes = -1};
    if (stat(path, &info)) return rt_fail_errno(st, RT_E_FILE_OPEN, path);
    s->is_file = !S_ISDIR(info.st_mode);
    if (s->is_file && !is_archive(path))
        return rt_fail(st, RT_E_FILE_OPEN, path, "give the folder that holds edge_index.npy, or a .npz file",
                       "is not a directory");
    if (snprintf(s->path, sizeof s->path, "%s", path) >= (int)sizeof s->path)
        return rt_fail(st, RT_E_FILE_OPEN, "--data", NULL, "the path is too long");
    RtCode code = s->is_file ? rt_zip_open(path, &s->graph, st) : open_folder(s, st);
    if (code) rt_source_close(s);
    return code;
}

void rt_source_close(RtSource *s)
{
    if (!s) return;
    rt_json_free(&s->meta);
    rt_zip_close(&s->graph);
    if (s->side) rt_zip_close(s->side);
    free(s->side);
    rt_edge_text_free(&s->text);
    *s = (RtSource){.text.n_nodes = -1};
}

RtCode rt_source_meta_int(const RtSource *s, const char *key, int64_t *out, RtStatus *st)
{
    char place[PATH_BYTES];
    const RtJson *v = rt_json_get(s->meta.root, key);
    if (!v) return RT_OK;
    if (rt_json_int(v, out)) return RT_OK;
    snprintf(place, sizeof place, "%s/meta.json", s->path);
    return rt_fail(st, RT_E_DATA_META, place, NULL, "%s: wanted a whole number, not negative", key);
}
