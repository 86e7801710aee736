/* gnnc data info and verify: what lies in a data directory, and whether it is sound. */
#include "driver/data.h"
#include "driver/npy.h"
#include "driver/partition.h"
#include "base/sha256.h"
#include "base/file.h"
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Dir {
    Session *s;
    const char *path;
    cJSON *meta; /* or NULL */
    int64_t nodes, edges, graphs;
    uint32_t n_wrong;
} Dir;

static void wrong(Dir *d, DiagCode code, const char *file, const char *what)
{
    diag_error(&d->s->diags, code, (Span){0}, "%s/%s: %s", d->path, file, what);
    d->n_wrong++;
}

static int64_t meta_int(const Dir *d, const char *key)
{
    const cJSON *it = d->meta ? cJSON_GetObjectItemCaseSensitive(d->meta, key) : NULL;
    return cJSON_IsNumber(it) && it->valuedouble >= 0 && it->valuedouble < 9e15 ? (int64_t)it->valuedouble : -1;
}

bool data_meta(Session *s, const char *dir, cJSON **meta)
{
    const char *why = NULL, *file = arena_printf(s->arena, "%s/meta.json", dir);
    *meta = NULL;
    if (access(dir, R_OK | X_OK) != 0) {
        diag_error(&s->diags, E0601, (Span){0}, "cannot read the directory `%s`: %s", dir, strerror(errno));
        return false;
    }
    if (access(file, F_OK) != 0) return true;
    size_t n = 0;
    char *text = file_read(s->arena, file, (size_t)1 << 24, &n, &why);
    if (!text) {
        diag_error(&s->diags, E0601, (Span){0}, "cannot read `%s`: %s", file, why);
        return false;
    }
    *meta = cJSON_ParseWithLength(text, n);
    if (cJSON_IsObject(*meta)) return true;
    cJSON_Delete(*meta);
    diag_error(&s->diags, E0614, (Span){0}, "%s: it is not a JSON object", file);
    return false;
}

static bool open_dir(Session *s, const char *path, Dir *d)
{
    *d = (Dir){.s = s, .path = path, .nodes = -1, .edges = -1, .graphs = -1};
    if (!data_meta(s, path, &d->meta)) return false;
    d->nodes = meta_int(d, "num_nodes");
    d->edges = meta_int(d, "num_edges");
    d->graphs = meta_int(d, "num_graphs");
    return true;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

char **data_list(Arena *a, const char *path, const char *suffix, size_t *n)
{
    DIR *dir = opendir(path);
    VEC(char *) names = {0};
    size_t m = strlen(suffix);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t len = strlen(e->d_name);
        bool own = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        if (!own && len > m && strcmp(e->d_name + len - m, suffix) == 0)
            VEC_PUSH(a, &names, arena_strndup(a, e->d_name, len));
    }
    if (dir) closedir(dir);
    if (names.n) qsort(names.data, names.n, sizeof *names.data, by_name);
    *n = names.n;
    return names.data;
}

static const char *shape_text(Arena *a, const Npy *npy)
{
    StrBuf b = {.arena = a};
    for (int i = 0; i < npy->n_dims; i++) strbuf_printf(&b, "%s%lld", i ? " x " : "", (long long)npy->shape[i]);
    return b.n ? strbuf_cstr(&b) : "scalar";
}

int data_info(Session *s, const char *path)
{
    Dir d;
    if (opt_has(&s->opt, OPT_SCHEMA)) return data_schema(s, path);
    if (partition_is(s, path)) return partition_info(s, path);
    if (!open_dir(s, path, &d)) return 6;
    const cJSON *name = d.meta ? cJSON_GetObjectItemCaseSensitive(d.meta, "name") : NULL;
    printf("%s", cJSON_IsString(name) ? name->valuestring : path);
    if (d.nodes >= 0) printf(": %lld nodes", (long long)d.nodes);
    if (d.edges >= 0) printf(", %lld edges", (long long)d.edges);
    if (meta_int(&d, "feature_dim") >= 0) printf(", %lld features", (long long)meta_int(&d, "feature_dim"));
    if (meta_int(&d, "num_classes") >= 0) printf(", %lld classes", (long long)meta_int(&d, "num_classes"));
    printf("\n");
    size_t n;
    char **names = data_list(s->arena, path, ".npy", &n);
    for (size_t i = 0; i < n; i++) {
        Npy npy;
        const char *bad = npy_header(s->arena, arena_printf(s->arena, "%s/%s", path, names[i]), &npy);
        if (bad) wrong(&d, E0614, names[i], bad);
        else printf("  %-20s %-4s %s\n", names[i], npy.dtype, shape_text(s->arena, &npy));
    }
    cJSON_Delete(d.meta);
    return 0;
}

static void verify_checksum(Dir *d, const char *file, const Npy *npy)
{
    const cJSON *files = d->meta ? cJSON_GetObjectItemCaseSensitive(d->meta, "files") : NULL;
    const cJSON *entry = files ? cJSON_GetObjectItemCaseSensitive(files, file) : NULL;
    const cJSON *sum = entry ? cJSON_GetObjectItemCaseSensitive(entry, "sha256") : NULL;
    char hex[65];
    if (!cJSON_IsString(sum)) return;
    sha256_hex(npy->file, npy->bytes_file, hex);
    if (strcmp(hex, sum->valuestring) != 0) wrong(d, E0615, file, "its sha256 is not the one in meta.json");
}

/* Every value in [lo, hi); says where the first is not. */
static void verify_range(Dir *d, const char *file, const Npy *npy, double lo, double hi, const char *what)
{
    for (int64_t i = 0; i < npy->n; i++) {
        double v = npy_at(npy, i);
        if (v >= lo && v < hi) continue;
        wrong(d, E0615, file,
              arena_printf(d->s->arena, "item %lld is %.17g, wanted %s in [%.17g, %.17g)", (long long)i, v, what, lo,
                           hi));
        return;
    }
}

static void verify_finite(Dir *d, const char *file, const Npy *npy)
{
    for (int64_t i = 0; i < npy->n; i++) {
        double v = npy_at(npy, i);
        if (v - v == 0) continue;
        wrong(d, E0615, file, arena_printf(d->s->arena, "item %lld is not finite", (long long)i));
        return;
    }
}

static void verify_rows(Dir *d, const char *file, const Npy *npy, int64_t rows)
{
    if (rows >= 0 && (npy->n_dims == 0 || npy->shape[0] != rows))
        wrong(d, E0615, file,
              arena_printf(d->s->arena, "its shape is %s, wanted %lld rows", shape_text(d->s->arena, npy),
                           (long long)rows));
}

static void verify_edges(Dir *d, const char *file, const Npy *npy)
{
    if (npy->n_dims != 2 || npy->shape[0] != 2 || npy->dtype[1] != 'i') {
        wrong(d, E0614, file,
              arena_printf(d->s->arena, "its shape is %s of %s, wanted 2 x edges of <i8", shape_text(d->s->arena, npy),
                           npy->dtype));
        return;
    }
    if (d->edges >= 0 && npy->shape[1] != d->edges)
        wrong(d, E0615, file,
              arena_printf(d->s->arena, "it has %lld edges, meta.json says %lld", (long long)npy->shape[1],
                           (long long)d->edges));
    if (d->nodes >= 0) verify_range(d, file, npy, 0, (double)d->nodes, "a node id");
}

static bool ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

/* ---- several kinds of nodes ---- */

/* How many nodes of a kind there are: as meta.json says, else the rows of KIND.x.npy; -1: unknown. */
static int64_t count_of(const Dir *d, const char *kind)
{
    Arena *a = d->s->arena;
    Npy x;
    int64_t n = meta_int(d, arena_printf(a, "num_%s", kind));
    if (n < 0) n = meta_int(d, arena_printf(a, "num_%ss", kind));
    if (n < 0 && !npy_header(a, arena_printf(a, "%s/%s.x.npy", d->path, kind), &x) && x.n_dims) n = x.shape[0];
    return n;
}

/* The first item in [from, to) that is no id of the kind. */
static void verify_ids(Dir *d, const char *file, const Npy *npy, int64_t from, int64_t to, const char *kind)
{
    int64_t n = count_of(d, kind);
    for (int64_t i = from; i < to; i++) {
        double v = npy_at(npy, i);
        if (v >= 0 && (n < 0 || v < (double)n)) continue;
        wrong(d, E0615, file,
              arena_printf(d->s->arena, "item %lld is %.17g, wanted an id of %s in [0, %lld)", (long long)i, v, kind,
                           (long long)n));
        return;
    }
}

/* Every array NAME.*.npy but `but` has so many rows. */
static void verify_arrays(Dir *d, const char *name, int64_t rows, const char *but)
{
    size_t n, length = strlen(name);
    char **files = data_list(d->s->arena, d->path, ".npy", &n);
    for (size_t i = 0; i < n; i++) {
        Npy npy;
        if (strncmp(files[i], name, length) || files[i][length] != '.' || !strcmp(files[i] + length, ".npy") ||
            !strcmp(files[i], but))
            continue;
        if (!npy_header(d->s->arena, arena_printf(d->s->arena, "%s/%s", d->path, files[i]), &npy))
            verify_rows(d, files[i], &npy, rows);
    }
}

/* The edges of a relation, in an array of their own or a column, and the values of its edges. */
static void verify_relation(Dir *d, const char *name, const char *from, const char *to)
{
    Arena *a = d->s->arena;
    const char *list = arena_printf(a, "%s.edge_index.npy", name), *column = arena_printf(a, "%s.%s.npy", from, name);
    bool is_list = access(arena_printf(a, "%s/%s", d->path, list), F_OK) == 0;
    const char *file = is_list ? list : column, *bad;
    Npy npy;
    if ((bad = npy_read(a, arena_printf(a, "%s/%s", d->path, file), &npy))) {
        wrong(d, E0614, file, bad);
        return;
    }
    if (npy.dtype[1] != 'i' || npy.n_dims != 1 + is_list || (is_list && npy.shape[0] != 2)) {
        wrong(d, E0614, file,
              arena_printf(a, "its shape is %s of %s, wanted integers, %s", shape_text(a, &npy), npy.dtype,
                           is_list ? "2 x edges" : "one of each row"));
        return;
    }
    int64_t half = is_list ? npy.shape[1] : 0;
    if (is_list) verify_ids(d, file, &npy, 0, half, from);
    verify_ids(d, file, &npy, half, npy.n, to);
    verify_arrays(d, name, is_list ? half : npy.n, list);
}

static void verify_relations(Dir *d)
{
    const cJSON *relations = d->meta ? cJSON_GetObjectItemCaseSensitive(d->meta, "relations") : NULL;
    for (const cJSON *it = cJSON_IsObject(relations) ? relations->child : NULL; it; it = it->next) {
        const cJSON *ends[] = {cJSON_GetArrayItem(it, 0), cJSON_GetArrayItem(it, 1)};
        if (!cJSON_IsString(ends[0]) || !cJSON_IsString(ends[1])) {
            wrong(d, E0614, "meta.json",
                  arena_printf(d->s->arena, "it names no two kinds of nodes that `%s` joins", it->string));
            continue;
        }
        verify_relation(d, it->string, ends[0]->valuestring, ends[1]->valuestring);
        for (int i = 0; i < 2; i++) verify_arrays(d, ends[i]->valuestring, count_of(d, ends[i]->valuestring), "");
    }
}

/* An integer of each edge, below the number of relations. */
static void verify_types(Dir *d, const char *file, const Npy *npy)
{
    Npy edges;
    int64_t n = meta_int(d, "num_relations");
    if (!npy_header(d->s->arena, arena_printf(d->s->arena, "%s/edge_index.npy", d->path), &edges) && edges.n_dims == 2)
        verify_rows(d, file, npy, edges.shape[1]);
    if (n > 0 && npy->dtype[1] == 'i') verify_range(d, file, npy, 0, (double)n, "a relation");
}

static void verify_csr(Dir *d, const char *file, const Npy *ptr)
{
    verify_rows(d, file, ptr, d->nodes < 0 ? -1 : d->nodes + 1);
    for (int64_t i = 1; i < ptr->n; i++)
        if (npy_at(ptr, i) < npy_at(ptr, i - 1)) {
            wrong(d, E0615, file, arena_printf(d->s->arena, "item %lld is smaller than the one before", (long long)i));
            return;
        }
}

static void verify_file(Dir *d, const char *file)
{
    Npy npy;
    const char *bad = npy_read(d->s->arena, arena_printf(d->s->arena, "%s/%s", d->path, file), &npy);
    if (bad) {
        wrong(d, E0614, file, bad);
        return;
    }
    verify_checksum(d, file, &npy);
    int64_t classes = meta_int(d, "num_classes"), features = meta_int(d, "feature_dim");
    if (npy.dtype[1] == 'f') verify_finite(d, file, &npy);
    if (strcmp(file, "edge_index.npy") == 0) verify_edges(d, file, &npy);
    else if (ends_with(file, "_mask.npy") && strchr(file, '.')[1] == 'n') {
        bool of_graphs = d->graphs >= 0 && npy.n_dims == 1 && npy.n == d->graphs;
        if (!of_graphs) verify_rows(d, file, &npy, d->nodes);
    } else if (strcmp(file, "edge_type.npy") == 0) verify_types(d, file, &npy);
    else if (strcmp(file, "x.npy") == 0) verify_rows(d, file, &npy, d->nodes);
    else if (strcmp(file, "x_indptr.npy") == 0) verify_csr(d, file, &npy);
    else if (strcmp(file, "x_indices.npy") == 0 && features > 0)
        verify_range(d, file, &npy, 0, (double)features, "a column");
    else if (strcmp(file, "y.npy") == 0 && npy.dtype[1] == 'i') {
        verify_rows(d, file, &npy, d->nodes);
        if (classes > 0) verify_range(d, file, &npy, -1, (double)classes, "a class");
    }
}

bool data_verify_folder(Session *s, const char *path, size_t *n_files)
{
    Dir d;
    size_t n;
    if (!open_dir(s, path, &d)) return false;
    char **names = data_list(s->arena, path, ".npy", &n);
    for (size_t i = 0; i < n; i++) verify_file(&d, names[i]);
    verify_relations(&d);
    const cJSON *files = d.meta ? cJSON_GetObjectItemCaseSensitive(d.meta, "files") : NULL;
    for (const cJSON *f = files ? files->child : NULL; f; f = f->next)
        if (access(arena_printf(s->arena, "%s/%s", path, f->string), F_OK) != 0)
            wrong(&d, E0614, f->string, "meta.json names it, but it is missing");
    if (n == 0) wrong(&d, E0614, "", "there is no .npy file");
    cJSON_Delete(d.meta);
    *n_files = n;
    return d.n_wrong == 0;
}

int data_verify(Session *s, const char *path)
{
    size_t n;
    if (partition_is(s, path)) return partition_verify(s, path);
    if (!data_verify_folder(s, path, &n)) return 6;
    printf("%s: %zu files, all sound\n", path, n);
    return 0;
}
