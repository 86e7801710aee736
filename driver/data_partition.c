/* gnnc data partition: splits a data folder over processes that train together. What a part is stands in docs/data.md,
   "Parts"; who owns which node is chosen here. */
#include "base/file.h"
#include "driver/data.h"
#include "driver/partition.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sums over all nodes are made of leaves of so many rows (docs/design.md): with parts this large or larger, whole
   leaves belong to one part. */
enum { LEAF_ROWS = 512, LEAST_ROWS_ALIGNED = 2048 };

typedef struct Request {
    const char *method, *objective;
    int32_t parts;
    int64_t seed;
    const char *out;
} Request;

static const char *const methods[] = {"metis", "contiguous", "random", "ldg"};
typedef enum { BY_METIS, BY_CONTIGUOUS, BY_RANDOM, BY_LDG, BY_FILE } Way;

static Way read_method(const char *name)
{
    for (int i = 0; i < BY_FILE; i++)
        if (strcmp(methods[i], name) == 0) return (Way)i;
    return BY_FILE;
}

/* ---- what is assigned ---- */

/* Nodes, or the graphs of a batch; the work is that of the nodes and of the edges in and out. */
static Units make_units(Arena *a, const Folder *f)
{
    Units u = {.n = f->batch ? f->graphs : f->nodes};
    int64_t *weight = ARENA_ARRAY(a, int64_t, u.n);
    for (int64_t v = 0; v < f->nodes; v++) weight[f->batch ? f->batch[v] : v]++;
    for (int64_t e = 0; e < f->edges; e++) {
        weight[f->batch ? f->batch[f->src[e]] : f->src[e]]++;
        weight[f->batch ? f->batch[f->dst[e]] : f->dst[e]]++;
    }
    for (int64_t i = 0; i < u.n; i++) u.total += weight[i] += weight[i] == 0; /* graphs may be empty */
    u.weight = weight;
    if (f->n_kinds < 2) return u;
    int64_t *first = ARENA_ARRAY(a, int64_t, f->n_kinds + 1);
    for (int32_t k = 0; k < f->n_kinds; k++) first[k + 1] = f->kinds[k].first + f->kinds[k].n;
    u.first = first;
    u.n_kinds = f->n_kinds;
    return u;
}

/* Neighbours of nodes in both directions. Written twice, the second time in the order of their own ids: so the lists
   ascend, and what is there twice stands side by side. */
static void add_neighbours(Arena *a, const Folder *f, Units *u)
{
    int64_t *offsets = ARENA_ARRAY(a, int64_t, u->n + 1), *at = ARENA_ARRAY(a, int64_t, u->n + 1);
    int32_t *first = ARENA_ARRAY(a, int32_t, 2 * f->edges), *sorted = ARENA_ARRAY(a, int32_t, 2 * f->edges);
    for (int64_t e = 0; e < f->edges; e++) {
        if (f->src[e] == f->dst[e]) continue;
        offsets[f->src[e] + 1]++;
        offsets[f->dst[e] + 1]++;
    }
    for (int64_t v = 0; v < u->n; v++) offsets[v + 1] += offsets[v];
    memcpy(at, offsets, ((size_t)u->n + 1) * sizeof *at);
    for (int64_t e = 0; e < f->edges; e++) {
        if (f->src[e] == f->dst[e]) continue;
        first[at[f->src[e]]++] = f->dst[e];
        first[at[f->dst[e]]++] = f->src[e];
    }
    memcpy(at, offsets, ((size_t)u->n + 1) * sizeof *at);
    for (int64_t v = 0; v < u->n; v++)
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++) sorted[at[first[i]]++] = (int32_t)v;
    int64_t kept = 0;
    for (int64_t v = 0; v < u->n; v++) {
        int64_t begin = offsets[v], end = offsets[v + 1];
        offsets[v] = kept;
        for (int64_t i = begin; i < end; i++)
            if (i == begin || sorted[i] != sorted[i - 1]) first[kept++] = sorted[i];
    }
    offsets[u->n] = kept;
    u->offsets = offsets;
    u->neighbours = first;
}

/* ---- a file of owners ---- */

static bool bad_owner(Session *s, const char *path, const char *what)
{
    diag_error(&s->diags, E0615, (Span){0}, "%s: %s", path, what);
    return false;
}

static bool take_owner(Session *s, const Request *q, int64_t i, int64_t n, double v, int32_t *owner)
{
    if (i >= n)
        return bad_owner(
            s, q->method,
            arena_printf(s->arena, "it has more than one number for each of the %lld nodes", (long long)n));
    if (!(v >= 0 && v < q->parts && v == (double)(int32_t)v))
        return bad_owner(
            s, q->method,
            arena_printf(s->arena, "number %lld is %.17g, wanted a part in [0, %d)", (long long)i, v, q->parts));
    owner[i] = (int32_t)v;
    return true;
}

/* One part number for each node, from an array or a text. */
static bool read_owners(Session *s, const Request *q, int64_t nodes, int32_t *owner)
{
    const char *why = NULL, *path = q->method;
    size_t n = 0, len = strlen(path);
    int64_t count = 0;
    if (access(path, R_OK) != 0) {
        if (errno == ENOENT && !strpbrk(path, "./")) {
            Diag *it = diag_error(&s->diags, E0612, (Span){0},
                                  "`--method` wants metis, contiguous, random, ldg or a file, found `%s`", path);
            const char *near = str_nearest(path, methods, 4);
            if (near) diag_help(&s->diags, it, "did you mean `%s`?", near);
        } else diag_error(&s->diags, E0601, (Span){0}, "cannot read `%s`: %s", path, strerror(errno));
        return false;
    }
    session_reads(s, path);
    if (len > 4 && strcmp(path + len - 4, ".npy") == 0) {
        Npy npy;
        const char *wrong = npy_read(s->arena, path, &npy);
        if (wrong) return diag_error(&s->diags, E0614, (Span){0}, "%s: %s", path, wrong), false;
        if (npy.n_dims != 1 || npy.dtype[1] != 'i') return bad_owner(s, path, "it is no vector of integers");
        for (; count < npy.n; count++)
            if (!take_owner(s, q, count, nodes, npy_at(&npy, count), owner)) return false;
    } else {
        char *text = file_read(s->arena, path, (size_t)1 << 36, &n, &why);
        if (!text) return diag_error(&s->diags, E0601, (Span){0}, "cannot read `%s`: %s", path, why), false;
        for (char *p = text + strspn(text, " \t\r\n"); *p; p += strspn(p, " \t\r\n"), count++) {
            char *end;
            double v = strtod(p, &end);
            if (end == p || (*end && !strchr(" \t\r\n", *end)))
                return bad_owner(s, path, arena_printf(s->arena, "item %lld is no number", (long long)count));
            if (!take_owner(s, q, count, nodes, v, owner)) return false;
            p = end;
        }
    }
    return count == nodes || bad_owner(s, path,
                                       arena_printf(s->arena, "it has %lld numbers, and there are %lld nodes",
                                                    (long long)count, (long long)nodes));
}

/* Owners of graphs from those of their nodes, which must agree. A graph without nodes goes where the one before it
   went. */
static bool owners_of_graphs(Session *s, const char *path, const Folder *f, const int32_t *owner, int32_t *graphs)
{
    for (int64_t g = 0; g < f->graphs; g++) graphs[g] = -1;
    for (int64_t v = 0; v < f->nodes; v++) {
        int32_t *of = &graphs[f->batch[v]];
        if (*of >= 0 && *of != owner[v])
            return bad_owner(s, path,
                             arena_printf(s->arena, "it cuts graph %d, and whole graphs go to one part", f->batch[v]));
        *of = owner[v];
    }
    for (int64_t g = 0; g < f->graphs; g++)
        if (graphs[g] < 0) graphs[g] = g ? graphs[g - 1] : 0;
    return true;
}

/* ---- the choice ---- */

typedef struct Chooser {
    Session *s;
    Arena *a;
    const Folder *f;
    const Request *q;
    Units units;
    Method *m;
} Chooser;

static bool metis_fails(Session *s, const char *why)
{
    Diag *it = diag_error(&s->diags, E0636, (Span){0}, "cannot split with METIS: %s", why);
    diag_help(&s->diags, it, "install libmetis5, or say `--method ldg`, which needs no library");
    return false;
}

static bool by_metis(Chooser *c, const Metis *metis, bool volume, int32_t *owner)
{
    Arena *a = arena_new();
    const char *wrong = partition_metis(a, metis, &c->units, c->q->parts, volume, (uint64_t)c->q->seed, owner);
    if (wrong) metis_fails(c->s, wrong);
    arena_free(a);
    return !wrong;
}

/* METIS for few cut edges and for few halo rows, and random owners: the one whose slowest part is predicted to take
   least. */
static bool cheapest(Chooser *c, const Metis *metis, int32_t *owner)
{
    static const Method ways[] = {{"metis", "cut", 0, NULL}, {"metis", "volume", 0, NULL}, {"random", "none", 0, NULL}};
    int32_t *tried = ARENA_ARRAY(c->a, int32_t, c->units.n);
    StrBuf text = {.arena = c->s->arena};
    double least = 0;
    for (int k = 0; k < 3; k++) {
        if (k == 2) partition_random(&c->units, c->q->parts, (uint64_t)c->q->seed, tried);
        else if (!by_metis(c, metis, k == 1, tried)) return false;
        Arena *a = arena_new();
        Split split = partition_split(a, c->f, c->q->parts, tried, NULL);
        strbuf_printf(&text,
                      "%s{\"method\": \"%s\", \"objective\": \"%s\", \"cut\": %lld, \"halo\": %lld, \"halo_most\": "
                      "%lld, \"cost\": %.17g}",
                      k ? ", " : "[", ways[k].name, ways[k].objective, (long long)split.cut, (long long)split.halo,
                      (long long)split.halo_most, split.cost);
        if (k == 0 || split.cost < least) {
            least = split.cost;
            c->m->name = ways[k].name, c->m->objective = ways[k].objective;
            memcpy(owner, tried, (size_t)c->units.n * sizeof *owner);
        }
        arena_free(a);
    }
    strbuf_puts(&text, "]");
    c->m->candidates = strbuf_cstr(&text);
    return true;
}

/* Each part has a range of each kind, or of graphs. */
static void by_ids(const Chooser *c, int32_t *owner)
{
    for (int32_t k = 0; k < c->f->n_kinds; k++) {
        const Kind *kind = &c->f->kinds[k];
        bool aligned = !c->f->batch && kind->n / c->q->parts >= LEAST_ROWS_ALIGNED;
        Units u = {.n = c->f->batch ? c->units.n : kind->n, .weight = c->units.weight + kind->first};
        for (int64_t i = 0; i < u.n; i++) u.total += u.weight[i];
        partition_contiguous(&u, c->q->parts, aligned ? LEAF_ROWS : 1, owner + kind->first);
    }
}

static bool assign(Chooser *c, int32_t *owner)
{
    const Request *q = c->q;
    const char *why = NULL;
    Way way = q->method ? read_method(q->method) : BY_METIS;
    const Metis *metis = way == BY_METIS ? metis_open(c->a, &why) : NULL;
    if (way == BY_METIS && !metis) {
        if (q->method) return metis_fails(c->s, why);
        way = BY_LDG;
    }
    c->m->name = methods[way];
    if (way == BY_RANDOM) partition_random(&c->units, q->parts, (uint64_t)q->seed, owner);
    if (way == BY_CONTIGUOUS) by_ids(c, owner);
    if (way == BY_RANDOM || way == BY_CONTIGUOUS) return true;
    if (!c->f->batch) add_neighbours(c->a, c->f, &c->units);
    if (c->f->batch || c->units.offsets[c->units.n] == 0 || c->units.n <= q->parts) {
        c->m->name = "balance"; /* nobody has neighbours, or there is a part for each */
        return partition_balance(c->a, &c->units, q->parts, owner), true;
    }
    if (way == BY_LDG) return partition_ldg(c->a, &c->units, q->parts, owner), true;
    if (strcmp(q->objective, "both") == 0) return cheapest(c, metis, owner);
    c->m->objective = q->objective;
    return by_metis(c, metis, strcmp(q->objective, "volume") == 0, owner);
}

/* Owners of nodes, and of graphs where there is a batch. */
static bool choose(Session *s, const Folder *f, const Request *q, Method *m, int32_t *owner, int32_t *graphs)
{
    *m = (Method){.name = "file", .objective = "none", .seed = q->seed};
    if (q->method && read_method(q->method) == BY_FILE)
        return read_owners(s, q, f->nodes, owner) && (!graphs || owners_of_graphs(s, q->method, f, owner, graphs));
    Chooser c = {.s = s, .a = arena_new(), .f = f, .q = q, .m = m};
    c.units = make_units(c.a, f);
    bool ok = true;
    if (q->parts > 1) ok = assign(&c, graphs ? graphs : owner);
    else m->name = q->method ? q->method : methods[BY_CONTIGUOUS]; /* all belongs to part 0 */
    for (int64_t v = 0; graphs && v < f->nodes; v++) owner[v] = graphs[f->batch[v]];
    arena_free(c.a);
    return ok;
}

/* ---- the command ---- */

static bool read_request(Session *s, Request *q)
{
    enum { MAX_PARTS = 65536 };
    uint32_t before = s->diags.n_errors;
    *q = (Request){.method = opt_value(&s->opt, OPT_METHOD, NULL),
                   .objective = opt_value(&s->opt, OPT_OBJECTIVE, "both"),
                   .out = opt_value(&s->opt, OPT_OUTPUT, NULL)};
    q->parts = (int32_t)opt_int(&s->opt, OPT_PARTS, 0, 1, MAX_PARTS, &s->diags);
    q->seed = opt_int(&s->opt, OPT_SEED, 0, 0, INT64_MAX, &s->diags);
    if (!opt_has(&s->opt, OPT_PARTS) || !q->out)
        diag_error(&s->diags, E0612, (Span){0}, "how many parts and where to: gnnc data partition DIR -k P -o PARTS");
    if (strcmp(q->objective, "cut") && strcmp(q->objective, "volume") && strcmp(q->objective, "both"))
        diag_error(&s->diags, E0612, (Span){0}, "`--objective` wants cut, volume or both, found `%s`", q->objective);
    if (opt_has(&s->opt, OPT_OBJECTIVE) && !q->method) q->method = "metis";
    if (opt_has(&s->opt, OPT_OBJECTIVE) && strcmp(q->method, "metis"))
        diag_error(&s->diags, E0612, (Span){0}, "`--objective` is for `--method metis`, found `--method %s`",
                   q->method);
    return s->diags.n_errors == before;
}

static bool is_apart(Session *s, const char *dir, const char *out)
{
    struct stat a, b;
    if (stat(dir, &a) != 0 || stat(out, &b) != 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino) return true;
    Diag *it = diag_error(&s->diags, E0620, (Span){0}, "the output `%s` is the folder that this command reads", out);
    diag_help(&s->diags, it, "give another folder with `-o`");
    return false;
}

int data_partition(Session *s, const char *dir)
{
    Request q;
    Folder f;
    Method m;
    if (!read_request(s, &q) || !is_apart(s, dir, q.out)) return 1;
    if (!opt_has(&s->opt, OPT_FORCE) && !partition_spares_others(s, q.out)) return 1;
    const char *paths = opt_value(&s->opt, OPT_PATHS, NULL);
    bool sound = partition_read(s, dir, &f);
    if (!sound || (paths && !partition_add_paths(s, &f, paths))) {
        cJSON_Delete(f.meta);
        return sound ? 1 : 6;
    }
    int32_t *owner = ARENA_ARRAY(s->arena, int32_t, f.nodes);
    int32_t *graphs = f.batch ? ARENA_ARRAY(s->arena, int32_t, f.graphs) : NULL;
    const char *json = NULL;
    bool ok = choose(s, &f, &q, &m, owner, graphs);
    if (ok && strcmp(m.name, "file") == 0 && !session_spares(s, arena_printf(s->arena, "%s/owner.npy", q.out)))
        ok = false;
    if (ok) {
        Split split = partition_split(s->arena, &f, q.parts, owner, graphs);
        ok = partition_write(s, &f, &split, &m, q.out, &json);
    }
    if (ok) partition_print(s, q.out, json);
    cJSON_Delete(f.meta);
    return ok ? 0 : 6;
}
