/* gnnc data info and verify on a partition; contracts in partition.h. Verify reads nothing of the folder that was split:
   what the parts say of the whole must agree among themselves. */
#include "base/file.h"
#include "driver/data.h"
#include "driver/partition.h"
#include <dirent.h>
#include <unistd.h>

bool partition_is(Session *s, const char *path)
{
    return access(arena_printf(s->arena, "%s/partition.json", path), F_OK) == 0;
}

static char *read_json(Session *s, const char *path)
{
    const char *why = NULL, *file = arena_printf(s->arena, "%s/partition.json", path);
    size_t n = 0;
    char *text = file_read(s->arena, file, (size_t)1 << 30, &n, &why);
    if (!text) diag_error(&s->diags, E0601, (Span){0}, "cannot read `%s`: %s", file, why);
    return text;
}

static int64_t number(const cJSON *o, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(it) && it->valuedouble >= 0 && it->valuedouble < 9e15 ? (int64_t)it->valuedouble : -1;
}

static const char *word(const cJSON *o, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(it) ? it->valuestring : "";
}

static double real(const cJSON *o, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(it) ? it->valuedouble : 0;
}

/* partition.json; NULL with E0601 or E0614. */
static cJSON *parse(Session *s, const char *path, const char *text)
{
    cJSON *json = cJSON_Parse(text);
    const char *wrong = NULL;
    if (!cJSON_IsObject(json)) wrong = "it is not a JSON object";
    else if (number(json, "format") != 2) wrong = "its format is not 2";
    else if (number(json, "parts") < 1 || number(json, "parts") > INT32_MAX || number(json, "nodes") < 0 ||
             number(json, "nodes") >= INT32_MAX || number(json, "edges") < 0 || number(json, "edges") >= INT32_MAX)
        wrong = "parts, nodes or edges is no count";
    else if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "ranks")) != number(json, "parts"))
        wrong = "ranks has not one item for each part";
    if (!wrong) return json;
    diag_error(&s->diags, E0614, (Span){0}, "%s/partition.json: %s", path, wrong);
    cJSON_Delete(json);
    return NULL;
}

/* ", objective cut", or nothing for a method that has none. */
static const char *objective(Session *s, const cJSON *o)
{
    const char *name = word(o, "objective");
    return strcmp(name, "none") ? arena_printf(s->arena, ", objective %s", name) : "";
}

static long long count(const cJSON *o, const char *key) { return (long long)number(o, key); }

void partition_print(Session *s, const char *path, const char *text)
{
    cJSON *json = parse(s, path, text);
    const cJSON *item, *data = cJSON_GetObjectItemCaseSensitive(json, "data");
    if (json && opt_has(&s->opt, OPT_JSON)) {
        fputs(text, stdout);
        cJSON_Delete(json);
        return;
    }
    if (!json) return;
    printf("%s: %lld parts of %s, %lld nodes, %lld edges, by %s%s\n", path, count(json, "parts"),
           *word(data, "name") ? word(data, "name") : "a folder without a name", count(json, "nodes"),
           count(json, "edges"), word(json, "method"), objective(s, json));
    printf("  %6s %12s %12s %12s %12s %14s\n", "part", "nodes", "halo", "edges in", "edges out", "bytes");
    int r = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "ranks"))
        printf("  %6d %12lld %12lld %12lld %12lld %14lld\n", r++, count(item, "owned"), count(item, "halo"),
               count(item, "edges_in"), count(item, "edges_out"), count(item, "bytes"));
    printf("  cut edges %lld, halo rows %lld in total and %lld in the largest, balance %.3f (nodes and edges of the "
           "largest part over the mean)\n",
           count(json, "cut"), count(json, "halo"), count(json, "halo_most"), real(json, "balance"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "candidates"))
        printf("  tried %s%s: cut edges %lld, halo rows %lld and %lld, predicted cost of the slowest part %.0f edges\n",
               word(item, "method"), objective(s, item), count(item, "cut"), count(item, "halo"),
               count(item, "halo_most"), real(item, "cost"));
    cJSON_Delete(json);
}

int partition_info(Session *s, const char *path)
{
    const char *text = read_json(s, path);
    if (text) partition_print(s, path, text);
    return 0;
}

/* ---- verify ---- */

typedef struct Check {
    Session *s;
    const char *path;
    const cJSON *json;
    int64_t parts, nodes, edges;
    const int32_t *owner; /* [nodes] */
    int32_t *src, *dst;   /* [edges] ends as a part says them, -1: none has yet */
    int32_t *times;       /* [edges] in how many parts */
    FileSums sums;
    size_t n_files;
} Check;

static bool wrong(Check *c, DiagCode code, const char *file, const char *what)
{
    diag_error(&c->s->diags, code, (Span){0}, "%s/%s: %s", c->path, file, what);
    return false;
}

/* A vector (or, with two rows, an array) of integers of that many columns. */
static bool integers(Check *c, Arena *a, const char *file, int rows, int64_t n, Npy *npy)
{
    const char *bad = npy_read(a, arena_printf(a, "%s/%s", c->path, file), npy);
    if (bad) return wrong(c, E0614, file, bad);
    if (npy->dtype[1] == 'i' && npy->n_dims == rows && npy->n == rows * n && npy->shape[rows - 1] == n) return true;
    return wrong(c, E0615, file,
                 arena_printf(c->s->arena, "wanted %s%lld integers", rows == 2 ? "2 x " : "", (long long)n));
}

static bool read_owner(Check *c)
{
    Npy npy;
    if (!integers(c, c->s->arena, "owner.npy", 1, c->nodes, &npy)) return false;
    int32_t *owner = ARENA_ARRAY(c->s->arena, int32_t, c->nodes);
    for (int64_t v = 0; v < c->nodes; v++) {
        double r = npy_at(&npy, v);
        if (!(r >= 0 && r < (double)c->parts))
            return wrong(c, E0615, "owner.npy",
                         arena_printf(c->s->arena, "node %lld is owned by part %.17g of %lld", (long long)v, r,
                                      (long long)c->parts));
        owner[v] = (int32_t)r;
    }
    c->owner = owner;
    return true;
}

/* The part's nodes: inner ones, others that it owns, those of others, each ascending; with whom these are. */
static bool check_nodes(Check *c, Arena *a, int r, int64_t inner, int64_t owned, int64_t halo, int32_t *nodes)
{
    Npy ids, owners;
    const char *file = arena_printf(a, "part-%d/node_id.npy", r),
               *of_halo = arena_printf(a, "part-%d/halo_owner.npy", r);
    if (!integers(c, a, file, 1, owned + halo, &ids) || !integers(c, a, of_halo, 1, halo, &owners)) return false;
    int64_t v = 0;
    for (int64_t i = 0; i < owned + halo; i++) {
        double id = npy_at(&ids, i);
        bool first = !i || i == inner || i == owned;
        if (!(id >= 0 && id < (double)c->nodes) || (!first && id <= npy_at(&ids, i - 1)))
            return wrong(c, E0615, file,
                         arena_printf(c->s->arena, "item %lld is %.17g, wanted ids that ascend, below %lld",
                                      (long long)i, id, (long long)c->nodes));
        nodes[i] = (int32_t)id;
        if ((i < owned) != (c->owner[nodes[i]] == r))
            return wrong(
                c, E0615, file,
                arena_printf(c->s->arena, "node %d is owned by part %d, says owner.npy", nodes[i], c->owner[nodes[i]]));
        if (i >= owned && npy_at(&owners, i - owned) != c->owner[nodes[i]])
            return wrong(
                c, E0615, of_halo,
                arena_printf(c->s->arena, "node %d is owned by part %d, says owner.npy", nodes[i], c->owner[nodes[i]]));
    }
    int64_t wanted = 0;
    for (v = 0; v < c->nodes; v++) wanted += c->owner[v] == r;
    return wanted == owned || wrong(c, E0615, file,
                                    arena_printf(c->s->arena, "it has %lld nodes of its own, owner.npy gives it %lld",
                                                 (long long)owned, (long long)wanted));
}

/* The part's edges: each has an end that the part owns, and joins the nodes that other parts say; each halo node is an
   end of one; inner nodes are those that none joins to a halo node. */
static bool check_edges(Check *c, Arena *a, int r, int64_t inner, int64_t owned, int64_t halo, const int32_t *nodes)
{
    Npy ids, ends;
    const char *file = arena_printf(a, "part-%d/edge_id.npy", r), *index = arena_printf(a, "part-%d/edge_index.npy", r);
    const char *bad = npy_header(a, arena_printf(a, "%s/%s", c->path, file), &ids);
    if (bad) return wrong(c, E0614, file, bad);
    int64_t n = ids.n;
    if (!integers(c, a, file, 1, n, &ids) || !integers(c, a, index, 2, n, &ends)) return false;
    bool *read = ARENA_ARRAY(a, bool, owned + halo);
    for (int64_t i = 0; i < n; i++) {
        double id = npy_at(&ids, i), ends_at[2] = {npy_at(&ends, i), npy_at(&ends, n + i)};
        if (!(id >= 0 && id < (double)c->edges) || (i && id <= npy_at(&ids, i - 1)))
            return wrong(c, E0615, file,
                         arena_printf(c->s->arena, "item %lld is %.17g, wanted ids that ascend, below %lld",
                                      (long long)i, id, (long long)c->edges));
        int64_t e = (int64_t)id, at[2];
        for (int k = 0; k < 2; k++) {
            if (!(ends_at[k] >= 0 && ends_at[k] < (double)(owned + halo)))
                return wrong(
                    c, E0615, index,
                    arena_printf(c->s->arena, "edge %lld has an end that is no node of the part", (long long)e));
            at[k] = (int64_t)ends_at[k];
        }
        for (int k = 0; k < 2; k++)
            if (at[k] >= owned) read[at[k]] = read[at[1 - k]] = true;
        if (at[0] >= owned && at[1] >= owned)
            return wrong(c, E0615, index,
                         arena_printf(c->s->arena, "edge %lld has no end that the part owns", (long long)e));
        if (c->times[e]++ == 0) c->src[e] = nodes[at[0]], c->dst[e] = nodes[at[1]];
        else if (c->src[e] != nodes[at[0]] || c->dst[e] != nodes[at[1]])
            return wrong(c, E0615, index,
                         arena_printf(c->s->arena, "edge %lld joins %d and %d, in another part %d and %d", (long long)e,
                                      nodes[at[0]], nodes[at[1]], c->src[e], c->dst[e]));
    }
    for (int64_t i = 0; i < owned + halo; i++) {
        if (read[i] == (i >= inner)) continue;
        const char *what = i >= owned   ? "no edge has halo node %d as an end"
                           : i >= inner ? "no edge joins node %d, which is no inner one, to a node of another part"
                                        : "an edge joins inner node %d to a node of another part";
        return wrong(c, E0615, index, arena_printf(c->s->arena, what, nodes[i]));
    }
    return true;
}

/* part.json against partition.json. */
static bool check_words(Check *c, Arena *a, int r, int64_t *inner, int64_t *owned, int64_t *halo)
{
    const char *why = NULL, *file = arena_printf(a, "part-%d/part.json", r);
    size_t n = 0;
    char *text = file_read(a, arena_printf(a, "%s/%s", c->path, file), (size_t)1 << 24, &n, &why);
    cJSON *json = text ? cJSON_ParseWithLength(text, n) : NULL;
    const cJSON *rank = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(c->json, "ranks"), r);
    const char *bad = NULL;
    *inner = number(json, "inner");
    *owned = number(json, "owned");
    *halo = number(json, "halo");
    DiagCode code = cJSON_IsObject(json) ? E0615 : E0614;
    if (code == E0614) bad = "it cannot be read as a JSON object";
    else if (number(json, "format") != 2 || number(json, "rank") != r || number(json, "parts") != c->parts ||
             number(json, "nodes") != c->nodes || number(json, "edges") != c->edges ||
             *owned != number(rank, "owned") || *halo != number(rank, "halo") || *owned < 0 || *halo < 0 ||
             *inner < 0 || *inner > *owned || *owned + *halo > c->nodes)
        bad = "its counts are not those of partition.json";
    else if (strcmp(word(json, "partition"), word(c->json, "digest")) != 0) bad = "it is a part of another partition";
    cJSON_Delete(json);
    return !bad || wrong(c, code, file, bad);
}

static bool check_part(Check *c, int r)
{
    Arena *a = arena_new();
    const char *folder = arena_printf(c->s->arena, "%s/part-%d", c->path, r), *why = NULL;
    size_t n = 0;
    int64_t inner, owned, halo;
    bool ok = data_verify_folder(c->s, folder, &n) && check_words(c, a, r, &inner, &owned, &halo);
    if (ok) {
        int32_t *nodes = ARENA_ARRAY(a, int32_t, owned + halo);
        ok = check_nodes(c, a, r, inner, owned, halo, nodes) && check_edges(c, a, r, inner, owned, halo, nodes);
    }
    c->n_files += n;
    char **files = data_list(a, folder, "", &n);
    for (size_t i = 0; ok && i < n; i++) {
        const char *file = arena_printf(a, "part-%d/%s", r, files[i]);
        if (strcmp(files[i], "part.json") == 0) continue;
        ok = partition_sum(c->s->arena, c->path, file, &c->sums, &why) || wrong(c, E0614, file, why);
    }
    arena_free(a);
    return ok;
}

/* Each edge lies in the part of each of its ends, and in no other. */
static bool check_presence(Check *c)
{
    for (int64_t e = 0; e < c->edges; e++) {
        if (c->times[e] == 0)
            return wrong(c, E0615, "partition.json",
                         arena_printf(c->s->arena, "edge %lld is in no part", (long long)e));
        int wanted = c->owner[c->src[e]] == c->owner[c->dst[e]] ? 1 : 2;
        if (c->times[e] != wanted)
            return wrong(c, E0615, "partition.json",
                         arena_printf(c->s->arena, "edge %lld is in %d parts, and its ends belong to %d", (long long)e,
                                      c->times[e], wanted));
    }
    return true;
}

static bool check_all(Check *c)
{
    char digest[65];
    const char *why = NULL;
    if (!read_owner(c)) return false;
    c->src = ARENA_ARRAY(c->s->arena, int32_t, c->edges);
    c->dst = ARENA_ARRAY(c->s->arena, int32_t, c->edges);
    c->times = ARENA_ARRAY(c->s->arena, int32_t, c->edges);
    bool ok = true;
    for (int r = 0; r < c->parts; r++) ok = check_part(c, r) && ok;
    if (!ok || !check_presence(c)) return false;
    if (!partition_sum(c->s->arena, c->path, "owner.npy", &c->sums, &why)) return wrong(c, E0614, "owner.npy", why);
    partition_digest(c->s->arena, &c->sums, digest);
    return strcmp(digest, word(c->json, "digest")) == 0 ||
           wrong(c, E0615, "partition.json",
                 "its digest is not that of the files, one of which was changed, added or removed");
}

int partition_verify(Session *s, const char *path)
{
    char *text = read_json(s, path);
    cJSON *json = text ? parse(s, path, text) : NULL;
    if (!json) return 6;
    Check c = {.s = s,
               .path = path,
               .json = json,
               .parts = number(json, "parts"),
               .nodes = number(json, "nodes"),
               .edges = number(json, "edges")};
    if (check_all(&c)) printf("%s: %lld parts, %zu files, all sound\n", path, (long long)c.parts, c.n_files);
    cJSON_Delete(json);
    return 0;
}
