/* Writes the parts of a data folder; contracts in partition.h. All files are written into a folder of their own beside
   it, or inside it where it is there, and moved when the last is whole; partition.json is the last that gets its
   place. */
#include "base/file.h"
#include "base/sha256.h"
#include "driver/data.h"
#include "driver/partition.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Writer {
    Session *s;
    const Folder *f;
    const Split *split;
    TempFolder folder; /* holds file i of sums as "i" */
    FileSums sums;
    cJSON **files;   /* [n_parts] the key "files" of each part's meta.json */
    int32_t *local;  /* [nodes] the row that a node has among those of its kind in the part that is written */
    char origin[65]; /* of the folder that is split */
} Writer;

static bool cannot_write(Session *s, const char *path, const char *why)
{
    diag_error(&s->diags, E0602, (Span){0}, "cannot write `%s`: %s", path, why);
    return false;
}

static bool put(Writer *w, Arena *a, const char *path, const char *bytes, size_t n)
{
    FileSum sum = {.path = arena_printf(w->s->arena, "%s", path)};
    FILE *f = fopen(arena_printf(a, "%s/%u", w->folder.path, w->sums.n), "wbxe");
    sha256_hex(bytes, n, sum.sha256);
    VEC_PUSH(w->s->arena, &w->sums, sum);
    bool ok = f && fwrite(bytes, 1, n, f) == n;
    if (f && fclose(f) != 0) ok = false;
    return ok || cannot_write(w->s, path, strerror(errno));
}

static bool put_array(Writer *w, Arena *a, int32_t r, const char *stem, const char *dtype, const int64_t *shape,
                      int n_dims, const void *data)
{
    size_t n = 0;
    const char *image = npy_image(a, dtype, shape, n_dims, data, &n);
    cJSON *entry = cJSON_CreateObject(), *sizes = cJSON_AddArrayToObject(entry, "shape");
    if (!put(w, a, arena_printf(a, "part-%d/%s.npy", r, stem), image, n)) return cJSON_Delete(entry), false;
    for (int i = 0; i < n_dims; i++) cJSON_AddItemToArray(sizes, cJSON_CreateNumber((double)shape[i]));
    cJSON_AddStringToObject(entry, "dtype", dtype);
    cJSON_AddStringToObject(entry, "sha256", w->sums.data[w->sums.n - 1].sha256);
    cJSON_AddItemToObject(w->files[r], arena_printf(a, "%s.npy", stem), entry);
    w->split->parts[r].bytes += (int64_t)n;
    return true;
}

/* Ids of the part's rows. */
static const int32_t *rows_of(const Part *p, Rows rows, int64_t *n)
{
    const PartNodes *nodes = &p->kinds[rows.of == ROWS_NODE ? rows.which : 0];
    const PartEdges *edges = &p->relations[rows.of == ROWS_EDGE ? rows.which : 0];
    *n = rows.of == ROWS_NODE ? nodes->owned + nodes->halo : rows.of == ROWS_EDGE ? edges->n : p->graphs;
    return rows.of == ROWS_NODE ? nodes->ids : rows.of == ROWS_EDGE ? edges->ids : p->graph_ids;
}

static bool put_rows(Writer *w, int32_t r, const char *stem, const Npy *npy, Rows rows)
{
    int64_t shape[NPY_MAX_DIMS] = {0}, n = 0;
    memcpy(shape, npy->shape, sizeof shape);
    Arena *a = arena_new();
    const char *from = npy->data;
    char *data = NULL;
    if (rows.of != ROWS_NONE) {
        const int32_t *ids = rows_of(&w->split->parts[r], rows, &n);
        size_t bytes = shape[0] ? (size_t)(npy->n / shape[0]) * npy_item_bytes(npy) : 0;
        data = arena_array(a, (size_t)n, bytes);
        for (int64_t i = 0; i < n && bytes; i++) memcpy(data + (size_t)i * bytes, from + (size_t)ids[i] * bytes, bytes);
        shape[0] = n;
        from = data;
    }
    bool ok = put_array(w, a, r, stem, npy->dtype, shape, npy->n_dims, from);
    arena_free(a);
    return ok;
}

/* A vector of n ids, or an array of 2 rows of n, in the wanted type. */
static bool put_ids(Writer *w, int32_t r, const char *stem, const char *dtype, int rows, int64_t n, const int32_t *ids)
{
    Arena *a = arena_new();
    const int64_t shape[2] = {2, n};
    const void *data = ids;
    if (strcmp(dtype, "<i8") == 0) {
        int64_t *wide = ARENA_ARRAY(a, int64_t, rows * n);
        for (int64_t i = 0; i < rows * n; i++) wide[i] = ids[i];
        data = wide;
    }
    bool ok = put_array(w, a, r, stem, dtype, shape + (rows == 1), rows, data);
    arena_free(a);
    return ok;
}

static void number_nodes(Writer *w, int32_t r)
{
    for (int32_t k = 0; k < w->f->n_kinds; k++) {
        const PartNodes *p = &w->split->parts[r].kinds[k];
        for (int64_t i = 0; i < p->owned + p->halo; i++) w->local[w->f->kinds[k].first + p->ids[i]] = (int32_t)i;
    }
}

/* The edges of a relation. */
static bool put_edges(Writer *w, int32_t r, const Relation *x)
{
    const PartEdges *edges = &w->split->parts[r].relations[x - w->f->relations];
    Arena *a = arena_new();
    int32_t *ends = ARENA_ARRAY(a, int32_t, 2 * edges->n);
    number_nodes(w, r);
    for (int64_t i = 0; i < edges->n; i++) {
        int32_t src = w->local[w->f->src[x->first + edges->ids[i]]],
                dst = w->local[w->f->dst[x->first + edges->ids[i]]];
        ends[x->column ? src : i] = x->column ? dst : src;
        if (!x->column) ends[edges->n + i] = dst;
    }
    bool ok = put_ids(w, r, x->array, x->dtype, 2 - x->column, edges->n, ends);
    arena_free(a);
    return ok;
}

/* batch.npy counts the part's graphs from 0. */
static bool put_batch(Writer *w, int32_t r, const char *dtype)
{
    const Part *p = &w->split->parts[r];
    int64_t n = p->owned + p->halo;
    Arena *a = arena_new();
    int32_t *batch = ARENA_ARRAY(a, int32_t, n), g = 0;
    for (int64_t i = 0; i < n; i++) {
        while (p->graph_ids[g] != w->f->batch[p->nodes[i]]) g++;
        batch[i] = g;
    }
    bool ok = put_ids(w, r, "batch", dtype, 1, n, batch);
    arena_free(a);
    return ok;
}

/* The rows of a CSR matrix. */
static bool put_csr(Writer *w, int32_t r, const char *stem, const Npy *ptr, const Npy *indices, const Npy *data,
                    Rows rows)
{
    Arena *a = arena_new();
    int64_t n = 0, nnz = 0, to = 0;
    const int32_t *ids = rows_of(&w->split->parts[r], rows, &n);
    for (int64_t i = 0; i < n; i++) nnz += (int64_t)npy_at(ptr, ids[i] + 1) - (int64_t)npy_at(ptr, ids[i]);
    size_t index_bytes = npy_item_bytes(indices), data_bytes = npy_item_bytes(data);
    char *columns = arena_array(a, (size_t)nnz, index_bytes), *values = arena_array(a, (size_t)nnz, data_bytes);
    int64_t *begin = ARENA_ARRAY(a, int64_t, n + 1);
    int32_t *narrow = ARENA_ARRAY(a, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)npy_at(ptr, ids[i]), len = (size_t)npy_at(ptr, ids[i] + 1) - at;
        if (len) {
            memcpy(columns + (size_t)to * index_bytes, (const char *)indices->data + at * index_bytes,
                   len * index_bytes);
            memcpy(values + (size_t)to * data_bytes, (const char *)data->data + at * data_bytes, len * data_bytes);
        }
        begin[i + 1] = to += (int64_t)len;
        narrow[i + 1] = (int32_t)to;
    }
    const void *starts = strcmp(ptr->dtype, "<i8") == 0 ? (const void *)begin : narrow;
    bool ok = put_array(w, a, r, arena_printf(a, "%s_indptr", stem), ptr->dtype, (const int64_t[]){n + 1}, 1, starts) &&
              put_array(w, a, r, arena_printf(a, "%s_indices", stem), indices->dtype, &nnz, 1, columns) &&
              put_array(w, a, r, arena_printf(a, "%s_data", stem), data->dtype, &nnz, 1, values);
    arena_free(a);
    return ok;
}

static bool is_csr(Session *s, const char *path, const Npy *ptr, const Npy *indices, const Npy *data)
{
    const char *wrong = NULL;
    if (ptr->n_dims != 1 || ptr->n < 1 || ptr->dtype[1] != 'i') wrong = "it is no vector of offsets";
    else if (indices->n_dims != 1 || data->n_dims != 1 || indices->n != data->n)
        wrong = "its indices and data are no vectors of one length";
    else if (npy_at(ptr, 0) != 0 || npy_at(ptr, ptr->n - 1) != (double)data->n)
        wrong = "its offsets do not go from 0 to the end";
    for (int64_t i = 1; !wrong && i < ptr->n; i++)
        if (npy_at(ptr, i) < npy_at(ptr, i - 1)) wrong = "its offsets do not ascend";
    if (wrong) diag_error(&s->diags, E0615, (Span){0}, "%s: %s", path, wrong);
    return !wrong;
}

/* One array of the folder into every part; a matrix of which it is the first of three files, too. */
static bool split_array(Writer *w, Arena *a, const char *stem, const Npy *npy)
{
    const Folder *f = w->f;
    const char *base;
    Rows rows;
    const Relation *ends = partition_relation(f, stem);
    bool ok = true;
    if (partition_csr(w->s, f, stem, "_indices") || partition_csr(w->s, f, stem, "_data")) return true;
    if ((base = partition_csr(w->s, f, stem, "_indptr"))) {
        Npy indices, data;
        if (!partition_array(w->s, a, f, arena_printf(a, "%s_indices.npy", base), &indices) ||
            !partition_array(w->s, a, f, arena_printf(a, "%s_data.npy", base), &data) ||
            !is_csr(w->s, arena_printf(a, "%s/%s.npy", f->path, stem), npy, &indices, &data) ||
            !partition_rows(w->s, f, base, npy->n - 1, &rows))
            return false;
        if (rows.of != ROWS_NONE) {
            for (int32_t r = 0; ok && r < w->split->n_parts; r++) ok = put_csr(w, r, base, npy, &indices, &data, rows);
            return ok;
        }
        for (int32_t r = 0; ok && r < w->split->n_parts; r++)
            ok = put_rows(w, r, stem, npy, rows) &&
                 put_rows(w, r, arena_printf(a, "%s_indices", base), &indices, rows) &&
                 put_rows(w, r, arena_printf(a, "%s_data", base), &data, rows);
        return ok;
    }
    if (ends && partition_keeps_ids(f, ends)) ends = NULL, rows = (Rows){ROWS_NODE, 0};
    else if (!ends && !partition_rows(w->s, f, stem, npy->n_dims ? npy->shape[0] : -1, &rows)) return false;
    for (int32_t r = 0; ok && r < w->split->n_parts; r++)
        ok = ends                         ? put_edges(w, r, ends)
             : strcmp(stem, "batch") == 0 ? put_batch(w, r, npy->dtype)
                                          : put_rows(w, r, stem, npy, rows);
    return ok;
}

/* All arrays of the folder; src.npy and dst.npy become edge_index.npy. w->origin: over lines "NAME SHA256". */
static bool split_arrays(Writer *w)
{
    const Folder *f = w->f;
    bool ok = true, pair = f->n_relations && !f->relations->name &&
                           access(arena_printf(w->s->arena, "%s/edge_index.npy", f->path), F_OK) != 0;
    StrBuf text = {.arena = w->s->arena};
    for (size_t i = 0; ok && i < f->n_names; i++) {
        Arena *a = arena_new();
        Npy npy;
        char hex[65];
        const char *stem = arena_strndup(a, f->names[i], strlen(f->names[i]) - 4);
        bool end = pair && (strcmp(stem, "src") == 0 || strcmp(stem, "dst") == 0);
        ok = partition_array(w->s, a, f, f->names[i], &npy);
        if (ok) {
            sha256_hex(npy.file, npy.bytes_file, hex);
            strbuf_printf(&text, "%s %s\n", f->names[i], hex);
            ok = end || split_array(w, a, stem, &npy);
        }
        arena_free(a);
    }
    for (int32_t k = 0; k < f->n_relations; k++)
        for (int32_t r = 0; ok && (f->relations[k].path || (pair && !k)) && r < w->split->n_parts; r++)
            ok = put_edges(w, r, &f->relations[k]);
    if (ok) sha256_hex(strbuf_cstr(&text), text.n, w->origin);
    return ok;
}

static void set_number(cJSON *o, const char *key, int64_t v)
{
    if (cJSON_GetObjectItemCaseSensitive(o, key))
        cJSON_ReplaceItemInObjectCaseSensitive(o, key, cJSON_CreateNumber((double)v));
    else cJSON_AddNumberToObject(o, key, (double)v);
}

/* "node_id", or "node_id.author" of a kind or relation that has a name. */
static const char *name_of(Arena *a, const char *stem, const char *name)
{
    return name ? arena_printf(a, "%s.%s", stem, name) : stem;
}

/* What says how the part's nodes and edges lie in the whole. */
static bool put_numbers(Writer *w, Arena *a, int32_t r)
{
    const Folder *f = w->f;
    const Part *p = &w->split->parts[r];
    bool ok = true;
    for (int32_t k = 0; ok && k < f->n_kinds; k++) {
        const PartNodes *x = &p->kinds[k];
        int32_t *owners = ARENA_ARRAY(a, int32_t, x->halo);
        for (int64_t i = 0; i < x->halo; i++) owners[i] = w->split->owner[f->kinds[k].first + x->ids[x->owned + i]];
        ok = put_ids(w, r, name_of(a, "node_id", f->kinds[k].name), "<i8", 1, x->owned + x->halo, x->ids) &&
             put_ids(w, r, name_of(a, "halo_owner", f->kinds[k].name), "<i4", 1, x->halo, owners);
    }
    for (int32_t k = 0; ok && k < f->n_relations; k++)
        ok = f->relations[k].column || put_ids(w, r, name_of(a, "edge_id", f->relations[k].name), "<i8", 1,
                                               p->relations[k].n, p->relations[k].ids);
    return ok && (!f->batch || put_ids(w, r, "graph_id", "<i8", 1, p->graphs, p->graph_ids));
}

/* The relations that metapaths are, beside those that meta.json names. */
static void set_paths(const Folder *f, cJSON *meta)
{
    cJSON *said = cJSON_GetObjectItemCaseSensitive(meta, "relations");
    for (int32_t k = 0; k < f->n_relations && cJSON_IsObject(said); k++) {
        const Relation *x = &f->relations[k];
        if (!x->path) continue;
        cJSON *joins = cJSON_AddArrayToObject(said, x->name);
        cJSON_AddItemToArray(joins, cJSON_CreateString(f->kinds[x->from].name));
        cJSON_AddItemToArray(joins, cJSON_CreateString(f->kinds[x->to].name));
    }
}

/* meta.json with the part's counts. */
static void set_counts(const Writer *w, Arena *a, const Part *p, cJSON *meta)
{
    const Folder *f = w->f;
    for (int32_t k = 0; k < f->n_kinds; k++) {
        const char *name = f->kinds[k].name, *several = arena_printf(a, "num_%ss", name ? name : "node");
        int64_t n = p->kinds[k].owned + p->kinds[k].halo;
        bool plural = !name || cJSON_GetObjectItemCaseSensitive(meta, several) != NULL;
        set_number(meta, plural ? several : arena_printf(a, "num_%s", name), n);
    }
    if (f->n_relations && !f->relations->name) set_number(meta, "num_edges", p->relations[0].n);
    if (f->batch) set_number(meta, "num_graphs", p->graphs);
}

static bool put_ids_and_meta(Writer *w, int32_t r)
{
    Arena *a = arena_new();
    bool ok = put_numbers(w, a, r);
    cJSON *meta = w->f->meta ? cJSON_Duplicate(w->f->meta, true) : cJSON_CreateObject();
    set_counts(w, a, &w->split->parts[r], meta);
    set_paths(w->f, meta);
    cJSON_DeleteItemFromObjectCaseSensitive(meta, "files");
    cJSON_AddItemToObject(meta, "files", w->files[r]);
    w->files[r] = NULL;
    char *text = cJSON_Print(meta);
    ok = ok && put(w, a, arena_printf(a, "part-%d/meta.json", r), text, strlen(text));
    cJSON_free(text);
    cJSON_Delete(meta);
    arena_free(a);
    return ok;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const FileSum *)a)->path, ((const FileSum *)b)->path);
}

void partition_digest(Arena *a, FileSums *sums, char out[65])
{
    StrBuf text = {.arena = a};
    if (sums->n) qsort(sums->data, sums->n, sizeof *sums->data, by_path);
    for (uint32_t i = 0; i < sums->n; i++) strbuf_printf(&text, "%s %s\n", sums->data[i].path, sums->data[i].sha256);
    sha256_hex(strbuf_cstr(&text), text.n, out);
}

static bool has_names(const Folder *f) { return f->n_relations != 1 || f->relations->name; }

/* The kind and the relation without a name have the name "". */
static const char *written(const char *name) { return name ? name : ""; }

/* The kinds and relations of the whole, in the order in which owner.npy and counts have them. */
static void write_names(const Folder *f, StrBuf *b)
{
    strbuf_puts(b, " \"kinds\": {");
    for (int32_t k = 0; k < f->n_kinds; k++)
        strbuf_printf(b, "%s\"%s\": %lld", k ? ", " : "", written(f->kinds[k].name), (long long)f->kinds[k].n);
    strbuf_puts(b, "},\n \"relations\": {");
    for (int32_t k = 0; k < f->n_relations; k++) {
        const Relation *x = &f->relations[k];
        strbuf_printf(b, "%s\"%s\": {\"joins\": [\"%s\", \"%s\"], \"edges\": %lld", k ? ", " : "", written(x->name),
                      written(f->kinds[x->from].name), written(f->kinds[x->to].name), (long long)x->n);
        if (x->column) strbuf_printf(b, ", \"column\": \"%s\"", x->array);
        if (x->path) strbuf_printf(b, ", \"path\": \"%s\"", x->path);
        strbuf_puts(b, "}");
    }
    strbuf_puts(b, "},\n");
}

/* part.json: what a process reads of its part. */
static const char *part_json(const Writer *w, Arena *a, int32_t r, const char *digest)
{
    const Folder *f = w->f;
    const Part *p = &w->split->parts[r];
    StrBuf b = {.arena = a};
    strbuf_printf(&b, "{\"format\": %d, \"rank\": %d, \"parts\": %d, ", has_names(f) ? 3 : 2, r, w->split->n_parts);
    if (!has_names(f))
        strbuf_printf(&b, "\"nodes\": %lld, \"edges\": %lld, \"owned\": %lld, \"inner\": %lld, \"halo\": %lld, ",
                      (long long)f->nodes, (long long)f->edges, (long long)p->owned, (long long)p->inner,
                      (long long)p->halo);
    for (int32_t k = 0; has_names(f) && k < f->n_kinds; k++)
        strbuf_printf(&b, "%s\"%s\": {\"nodes\": %lld, \"owned\": %lld, \"inner\": %lld, \"halo\": %lld}",
                      k ? ", " : "\"kinds\": {", written(f->kinds[k].name), (long long)f->kinds[k].n,
                      (long long)p->kinds[k].owned, (long long)p->kinds[k].inner, (long long)p->kinds[k].halo);
    if (has_names(f)) strbuf_puts(&b, f->n_kinds ? "}, \"relations\": {" : "\"kinds\": {}, \"relations\": {");
    for (int32_t k = 0; has_names(f) && k < f->n_relations; k++) {
        const Relation *x = &f->relations[k];
        strbuf_printf(&b, "%s\"%s\": {\"edges\": %lld", k ? ", " : "", written(x->name), (long long)x->n);
        if (x->column) strbuf_printf(&b, ", \"column\": \"%s\"", x->array);
        if (x->path) strbuf_printf(&b, ", \"path\": \"%s\"", x->path);
        strbuf_puts(&b, "}");
    }
    if (has_names(f)) strbuf_puts(&b, "}, ");
    strbuf_printf(&b, "\"partition\": \"%s\"}\n", digest);
    return strbuf_cstr(&b);
}

static const char *partition_json(const Writer *w, const Method *m, const char *digest)
{
    const Split *split = w->split;
    StrBuf b = {.arena = w->s->arena};
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(w->f->meta, "name");
    strbuf_printf(
        &b,
        "{\n \"format\": %d,\n \"parts\": %d,\n \"method\": \"%s\",\n \"objective\": \"%s\",\n \"seed\": %lld,\n"
        " \"nodes\": %lld,\n \"edges\": %lld,\n",
        has_names(w->f) ? 3 : 2, split->n_parts, m->name, m->objective, (long long)m->seed, (long long)w->f->nodes,
        (long long)w->f->edges);
    if (has_names(w->f)) write_names(w->f, &b);
    if (w->f->batch) strbuf_printf(&b, " \"graphs\": %lld,\n", (long long)w->f->graphs);
    strbuf_printf(&b, " \"cut\": %lld,\n \"halo\": %lld,\n \"halo_most\": %lld,\n \"balance\": %.6g,\n",
                  (long long)split->cut, (long long)split->halo, (long long)split->halo_most, split->balance);
    if (m->candidates) strbuf_printf(&b, " \"candidates\": %s,\n", m->candidates);
    strbuf_printf(&b, " \"digest\": \"%s\",\n \"data\": {\"name\": ", digest);
    strbuf_json(&b, cJSON_IsString(name) ? name->valuestring : "");
    strbuf_printf(&b, ", \"digest\": \"%s\"},\n \"ranks\": [", w->origin);
    for (int32_t r = 0; r < split->n_parts; r++) {
        const Part *p = &split->parts[r];
        strbuf_printf(
            &b, "%s\n  {\"owned\": %lld, \"halo\": %lld, \"edges_in\": %lld, \"edges_out\": %lld, \"bytes\": %lld}",
            r ? "," : "", (long long)p->owned, (long long)p->halo, (long long)p->edges_in, (long long)p->edges_out,
            (long long)p->bytes);
    }
    strbuf_puts(&b, "\n ]\n}\n");
    return strbuf_cstr(&b);
}

static bool put_all(Writer *w, const Method *m, const char **json)
{
    Arena *a = w->s->arena;
    const Split *split = w->split;
    size_t n = 0;
    char digest[65];
    if (!split_arrays(w)) return false;
    for (int32_t r = 0; r < split->n_parts; r++)
        if (!put_ids_and_meta(w, r)) return false;
    const char *image = npy_image(a, "<i4", &w->f->nodes, 1, split->owner, &n);
    if (!put(w, a, "owner.npy", image, n)) return false;
    FileSums sorted = {ARENA_ARRAY(a, FileSum, w->sums.n), w->sums.n, w->sums.n};
    memcpy(sorted.data, w->sums.data, w->sums.n * sizeof *sorted.data);
    partition_digest(a, &sorted, digest);
    for (int32_t r = 0; r < split->n_parts; r++) {
        const char *text = part_json(w, a, r, digest);
        if (!put(w, a, arena_printf(a, "part-%d/part.json", r), text, strlen(text))) return false;
    }
    *json = partition_json(w, m, digest);
    return put(w, a, "partition.json", *json, strlen(*json));
}

/* ---- what is there already ---- */

bool partition_sum(Arena *a, const char *dir, const char *path, FileSums *sums, const char **why)
{
    Arena *own = arena_new();
    size_t n = 0;
    FileSum sum = {.path = arena_printf(a, "%s", path)};
    const char *file = file_read(own, arena_printf(own, "%s/%s", dir, path), (size_t)1 << 36, &n, why);
    if (file) sha256_hex(file, n, sum.sha256);
    else *why = arena_printf(a, "%s", *why);
    arena_free(own);
    if (file) VEC_PUSH(a, sums, sum);
    return file != NULL;
}

static bool is_part(const char *name)
{
    return strncmp(name, "part-", 5) == 0 && name[5] && strspn(name + 5, "0123456789") == strlen(name + 5);
}

/* Whether all files that bear a name of a partition's are those of partition.json's digest. */
static bool is_untouched(Session *s, const char *out)
{
    Arena *a = s->arena;
    FileSums sums = {0};
    const char *why;
    size_t n = 0;
    char digest[65];
    char *text = file_read(a, arena_printf(a, "%s/partition.json", out), (size_t)1 << 30, &n, &why);
    cJSON *json = text ? cJSON_ParseWithLength(text, n) : NULL;
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(json, "digest");
    DIR *dir = opendir(out);
    bool ok = cJSON_IsString(said) && dir;
    for (struct dirent *e; ok && (e = readdir(dir));) {
        if (!is_part(e->d_name)) continue;
        size_t n_files;
        char **files = data_list(a, arena_printf(a, "%s/%s", out, e->d_name), "", &n_files);
        for (size_t i = 0; ok && i < n_files; i++) {
            if (strcmp(files[i], "part.json") == 0) continue;
            ok = partition_sum(a, out, arena_printf(a, "%s/%s", e->d_name, files[i]), &sums, &why);
        }
    }
    if (dir) closedir(dir);
    ok = ok && partition_sum(a, out, "owner.npy", &sums, &why);
    if (ok) partition_digest(a, &sums, digest);
    ok = ok && strcmp(digest, said->valuestring) == 0;
    cJSON_Delete(json);
    return ok;
}

/* The first name in the folder that a partition would take; or NULL. */
static const char *taken(Session *s, const char *out)
{
    size_t n;
    char **names = data_list(s->arena, out, "", &n);
    for (size_t i = 0; i < n; i++)
        if (is_part(names[i]) || strcmp(names[i], "owner.npy") == 0 || strcmp(names[i], "partition.json") == 0)
            return names[i];
    return NULL;
}

bool partition_spares_others(Session *s, const char *out)
{
    const char *lost = taken(s, out);
    if (!lost || is_untouched(s, out)) return true;
    Diag *it = diag_error(&s->diags, E0620, (Span){0},
                          "`%s/%s` is there already and was not made by this command, or was changed since", out, lost);
    diag_help(&s->diags, it, "name another folder, or write over it with `--force`");
    return false;
}

/* Removes an old partition: partition.json first, so that what is left of it is none. */
static bool remove_old(Session *s, const char *out)
{
    Arena *a = s->arena;
    if (unlink(arena_printf(a, "%s/partition.json", out)) != 0 && errno != ENOENT)
        return cannot_write(s, arena_printf(a, "%s/partition.json", out), strerror(errno));
    for (const char *name; (name = taken(s, out));) {
        const char *path = arena_printf(a, "%s/%s", out, name);
        size_t n = 0;
        struct stat info;
        if (is_part(name) && lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            char **files = data_list(a, path, "", &n);
            for (size_t i = 0; i < n; i++) unlink(arena_printf(a, "%s/%s", path, files[i]));
            if (rmdir(path) != 0) return cannot_write(s, path, strerror(errno));
        } else if (unlink(path) != 0) return cannot_write(s, path, strerror(errno));
    }
    return true;
}

static bool move_all(Writer *w, const char *out)
{
    Arena *a = w->s->arena;
    int folder = open(w->folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = folder >= 0 && syncfs(folder) == 0; /* once for all files */
    if (folder >= 0) close(folder);
    if (!synced) return cannot_write(w->s, out, strerror(errno));
    if (!remove_old(w->s, out)) return false;
    for (int32_t r = 0; r < w->split->n_parts; r++) {
        const char *path = arena_printf(a, "%s/part-%d", out, r);
        if (mkdir(path, 0755) != 0) return cannot_write(w->s, path, strerror(errno));
    }
    for (uint32_t i = 0; i < w->sums.n; i++) {
        const char *path = arena_printf(a, "%s/%s", out, w->sums.data[i].path);
        if (rename(arena_printf(a, "%s/%u", w->folder.path, i), path) != 0)
            return cannot_write(w->s, path, strerror(errno));
    }
    return true;
}

/* The folder in which `path` lies. */
static const char *parent(Arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    return n ? arena_strndup(a, path, n) : ".";
}

bool partition_write(Session *s, const Folder *f, const Split *split, const Method *m, const char *out,
                     const char **json)
{
    Writer w = {.s = s, .f = f, .split = split};
    const char *why = NULL;
    struct stat info;
    bool is_new = stat(out, &info) != 0; /* then nothing has its name before all is written, whatever happens */
    if (!is_new && !S_ISDIR(info.st_mode)) return cannot_write(s, out, strerror(ENOTDIR));
    if (!temp_folder_make(s->arena, is_new ? parent(s->arena, out) : out, &w.folder, &why))
        return cannot_write(s, out, why);
    w.local = ARENA_ARRAY(s->arena, int32_t, f->nodes);
    w.files = ARENA_ARRAY(s->arena, cJSON *, split->n_parts);
    for (int32_t r = 0; r < split->n_parts; r++) w.files[r] = cJSON_CreateObject();
    bool ok = put_all(&w, m, json);
    if (ok && is_new && mkdir(out, 0755) != 0) ok = cannot_write(s, out, strerror(errno));
    ok = ok && move_all(&w, out);
    for (int32_t r = 0; r < split->n_parts; r++) cJSON_Delete(w.files[r]);
    temp_folder_remove(&w.folder);
    return ok;
}
