/* gnnc data generate: a synthetic graph with features, labels and a split, the same for the same seed anywhere.
   R-MAT quadrants as in Chakrabarti, Zhan, Faloutsos (SDM 2004): a, b, c, d = 0.57, 0.19, 0.19, 0.05. */
#include "driver/data.h"
#include "driver/npy.h"
#include "driver/splitmix.h"
#include "base/sha256.h"
#include "base/file.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef enum { KIND_COMMUNITY, KIND_RMAT, KIND_UNIFORM } Kind;

typedef struct Spec {
    Kind kind;
    const char *kind_name;
    int64_t nodes, edges, features, classes, seed;
} Spec;

static double uniform(uint64_t *state) { return (double)(splitmix(state) >> 11) * 0x1p-53; }
static int64_t below(uint64_t *state, int64_t n) { return (int64_t)(uniform(state) * (double)n); }

static void rmat_edge(uint64_t *rng, int64_t n, int64_t *src, int64_t *dst)
{
    do {
        *src = *dst = 0;
        for (int64_t bit = 1; bit < n; bit *= 2) {
            double u = uniform(rng);
            *src = 2 * *src + (u >= 0.76);
            *dst = 2 * *dst + ((u >= 0.57 && u < 0.76) || u >= 0.95);
        }
    } while (*src >= n || *dst >= n);
}

/* Four edges of five stay inside a class. */
static void community_edge(uint64_t *rng, const Spec *spec, int64_t *src, int64_t *dst)
{
    *src = below(rng, spec->nodes);
    *dst = below(rng, spec->nodes);
    if (uniform(rng) >= 0.8) return;
    int64_t same = *dst - *dst % spec->classes + *src % spec->classes;
    if (same < spec->nodes) *dst = same;
}

static int64_t *make_edges(Session *s, const Spec *spec, uint64_t *rng)
{
    int64_t *ei = ARENA_ARRAY(s->arena, int64_t, 2 * spec->edges);
    for (int64_t e = 0; e < spec->edges; e++) {
        int64_t *src = ei + e, *dst = ei + spec->edges + e;
        if (spec->kind == KIND_RMAT) rmat_edge(rng, spec->nodes, src, dst);
        else if (spec->kind == KIND_COMMUNITY) community_edge(rng, spec, src, dst);
        else *src = below(rng, spec->nodes), *dst = below(rng, spec->nodes);
    }
    return ei;
}

/* Noise around a class-dependent pattern: what a model can learn. */
static float *make_features(Session *s, const Spec *spec, uint64_t *rng)
{
    float *x = ARENA_ARRAY(s->arena, float, spec->nodes * spec->features);
    for (int64_t v = 0; v < spec->nodes; v++)
        for (int64_t k = 0; k < spec->features; k++) {
            double signal = k % spec->classes == v % spec->classes ? 0.5 : 0.0;
            x[v * spec->features + k] = (float)(signal + uniform(rng) + uniform(rng) - 1.0);
        }
    return x;
}

/* ---- what is there already ---- */

static const char *const file_names[] = {"edge_index.npy", "x.npy",         "y.npy",    "train_mask.npy",
                                         "val_mask.npy",   "test_mask.npy", "meta.json"};

/* The folder's meta.json if this command made it; or NULL. */
static cJSON *own_meta(Arena *a, const char *dir)
{
    const char *why;
    size_t n = 0;
    char *text = file_read(a, arena_printf(a, "%s/meta.json", dir), (size_t)1 << 24, &n, &why);
    cJSON *meta = text ? cJSON_ParseWithLength(text, n) : NULL;
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(meta, "source");
    if (cJSON_IsString(source) && strncmp(source->valuestring, "gnnc data generate", 18) == 0) return meta;
    cJSON_Delete(meta);
    return NULL;
}

static bool is_own(Arena *a, const char *dir, const char *name, const cJSON *meta)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(meta, "files"), name);
    const cJSON *sum = cJSON_GetObjectItemCaseSensitive(entry, "sha256");
    const char *why, *file;
    size_t n;
    char hex[65];
    if (!meta || strcmp(name, "meta.json") == 0) return meta != NULL;
    if (!cJSON_IsString(sum) || !(file = file_read(a, arena_printf(a, "%s/%s", dir, name), (size_t)1 << 36, &n, &why)))
        return false;
    sha256_hex(file, n, hex);
    return strcmp(hex, sum->valuestring) == 0;
}

/* Whether all that would be written over was made by this command and not touched since. False with E0620. */
static bool spares_others(Session *s, const char *dir)
{
    struct stat info;
    const char *meta_path = arena_printf(s->arena, "%s/meta.json", dir), *lost = NULL;
    cJSON *meta = stat(meta_path, &info) == 0 && S_ISREG(info.st_mode) ? own_meta(s->arena, dir) : NULL;
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names && !lost; i++) {
        if (stat(arena_printf(s->arena, "%s/%s", dir, file_names[i]), &info) != 0) continue;
        if (!S_ISREG(info.st_mode) || !is_own(s->arena, dir, file_names[i], meta)) lost = file_names[i];
    }
    cJSON_Delete(meta);
    if (!lost) return true;
    Diag *it = diag_error(&s->diags, E0620, (Span){0}, "`%s/%s` is there already and was not made by this command", dir,
                          lost);
    diag_help(&s->diags, it, "name another folder, or write over it with `--force`");
    return false;
}

/* ---- what is written ---- */

typedef struct Out { /* the directory being written, and its meta.json so far */
    Session *s;
    const char *dir;
    StrBuf meta;
    bool failed;
} Out;

static void put(Out *o, const char *stem, const char *dtype, int64_t rows, int64_t cols, const void *data)
{
    const char *why = NULL, *path = arena_printf(o->s->arena, "%s/%s.npy", o->dir, stem);
    int64_t shape[2] = {rows, cols};
    size_t n = 0;
    char hex[65];
    if (o->failed) return;
    if (!npy_write(o->s->arena, path, dtype, shape, cols ? 2 : 1, data, &why)) {
        diag_error(&o->s->diags, E0602, (Span){0}, "cannot write `%s`: %s", path, why);
        o->failed = true;
        return;
    }
    const char *file = file_read(o->s->arena, path, (size_t)1 << 36, &n, &why);
    if (file) sha256_hex(file, n, hex);
    strbuf_printf(&o->meta, "%s\n  \"%s.npy\": {\"dtype\": \"%s\", \"shape\": [%lld%s", o->meta.n ? "," : "", stem,
                  dtype, (long long)rows, cols ? ", " : "");
    if (cols) strbuf_printf(&o->meta, "%lld", (long long)cols);
    strbuf_printf(&o->meta, "], \"sha256\": \"%s\"}", file ? hex : "");
}

static void put_masks(Out *o, const Spec *spec)
{
    static const char *const names[] = {"train_mask", "val_mask", "test_mask"};
    for (int part = 0; part < 3; part++) { /* 60 / 20 / 20, by node id */
        unsigned char *mask = ARENA_ARRAY(o->s->arena, unsigned char, spec->nodes);
        for (int64_t v = 0; v < spec->nodes; v++) {
            int64_t k = v / spec->classes % 5;
            mask[v] = part == 0 ? k < 3 : k == part + 2;
        }
        put(o, names[part], "|b1", spec->nodes, 0, mask);
    }
}

static void put_meta(Out *o, const Spec *spec)
{
    const char *why = NULL;
    StrBuf b = {.arena = o->s->arena};
    strbuf_printf(&b,
                  "{\n \"name\": \"%s-%lld\",\n \"task\": \"node classification\",\n \"num_nodes\": %lld,\n"
                  " \"num_edges\": %lld,\n \"feature_dim\": %lld,\n \"num_classes\": %lld,\n"
                  " \"source\": \"gnnc data generate, seed %lld\",\n \"files\": {%s\n }\n}\n",
                  spec->kind_name, (long long)spec->nodes, (long long)spec->nodes, (long long)spec->edges,
                  (long long)spec->features, (long long)spec->classes, (long long)spec->seed, strbuf_cstr(&o->meta));
    const char *path = arena_printf(o->s->arena, "%s/meta.json", o->dir);
    if (o->failed || file_write(o->s->arena, path, b.data, b.n, 0644, &why)) return;
    diag_error(&o->s->diags, E0602, (Span){0}, "cannot write `%s`: %s", path, why);
    o->failed = true;
}

static bool read_spec(Session *s, Spec *spec)
{
    static const char *const kinds[] = {"community", "rmat", "uniform"};
    const int64_t most = INT64_C(1) << 31;
    spec->nodes = opt_int(&s->opt, OPT_NODES, 1000, 1, most, &s->diags);
    spec->edges = opt_int(&s->opt, OPT_EDGES, spec->nodes < most / 10 ? 10 * spec->nodes : most, 0, most, &s->diags);
    spec->features = opt_int(&s->opt, OPT_FEATURES, 16, 1, 1 << 16, &s->diags);
    spec->classes = opt_int(&s->opt, OPT_CLASSES, 4, 1, 1 << 16, &s->diags);
    spec->seed = opt_int(&s->opt, OPT_SEED, 0, 0, INT64_MAX, &s->diags);
    spec->kind_name = opt_value(&s->opt, OPT_KIND, kinds[0]);
    for (int i = 0; i < 3; i++)
        if (strcmp(spec->kind_name, kinds[i]) == 0) return spec->kind = (Kind)i, s->diags.n_errors == 0;
    diag_error(&s->diags, E0612, (Span){0}, "`--kind` wants community, rmat or uniform, found `%s`", spec->kind_name);
    return false;
}

int data_generate(Session *s, const char *dir)
{
    Spec spec;
    Out o = {.s = s, .dir = dir, .meta = {.arena = s->arena}};
    if (!read_spec(s, &spec)) return 1;
    if (!opt_has(&s->opt, OPT_FORCE) && !spares_others(s, dir)) return 1;
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        diag_error(&s->diags, E0602, (Span){0}, "cannot make the directory `%s`: %s", dir, strerror(errno));
        return 6;
    }
    uint64_t rng = (uint64_t)spec.seed;
    int64_t *y = ARENA_ARRAY(s->arena, int64_t, spec.nodes);
    for (int64_t v = 0; v < spec.nodes; v++) y[v] = v % spec.classes;
    put(&o, "edge_index", "<i8", 2, spec.edges, make_edges(s, &spec, &rng));
    put(&o, "x", "<f4", spec.nodes, spec.features, make_features(s, &spec, &rng));
    put(&o, "y", "<i8", spec.nodes, 0, y);
    put_masks(&o, &spec);
    put_meta(&o, &spec);
    if (o.failed) return 6;
    printf("%s: %lld nodes, %lld edges, %lld features, %lld classes\n", dir, (long long)spec.nodes,
           (long long)spec.edges, (long long)spec.features, (long long)spec.classes);
    return 0;
}
