/* gnnc data info and verify on a partition; contracts in partition.h. Verify reads nothing of the folder that was
   split: what the parts say of the whole must agree among themselves. */
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
    else if (number(json, "format") != 2 && number(json, "format") != 3) wrong = "its format is not 2 or 3";
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
    const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(json, "kinds");
    cJSON_ArrayForEach(item, kinds)
    {
        bool first = item == kinds->child;
        const char *before = !*item->string ? "" : first ? " of " : " "; /* the kind without a name is the first */
        printf("%s%s%s %lld", first ? "  nodes" : ",", before, item->string, count(kinds, item->string));
    }
    if (kinds) putchar('\n');
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
    Folder f;             /* its kinds and relations, as partition.json says them */
    const int32_t *owner; /* [nodes] */
    int32_t *src, *dst;   /* [edges] ends as a part says them, -1: none has yet */
    int32_t *times;       /* [edges] in how many parts */
    FileSums sums;
    size_t n_files;
} Check;

/* What a part says of one kind, and its nodes. */
typedef struct Nodes {
    int64_t inner, owned, halo;
    int32_t *ids; /* [owned + halo] nodes of all kinds */
    bool *read;   /* [owned + halo] whether an edge joins the node to one of another part, or it is one */
} Nodes;

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

static int32_t kind_of(const Folder *f, const cJSON *name)
{
    for (int32_t k = 0; cJSON_IsString(name) && k < f->n_kinds; k++)
        if (!strcmp(f->kinds[k].name ? f->kinds[k].name : "", name->valuestring)) return k;
    return -1;
}

/* The kinds and relations that have names; those of a partition without are one each. */
static bool read_names(Check *c)
{
    Folder *f = &c->f;
    const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(c->json, "kinds"), *it;
    const cJSON *relations = cJSON_GetObjectItemCaseSensitive(c->json, "relations");
    bool named = number(c->json, "format") == 3, ok = !named || (cJSON_IsObject(kinds) && cJSON_IsObject(relations));
    f->kinds = ARENA_ARRAY(c->s->arena, Kind, named ? cJSON_GetArraySize(kinds) : 1);
    f->relations = ARENA_ARRAY(c->s->arena, Relation, named ? cJSON_GetArraySize(relations) : 1);
    if (!named) {
        f->n_kinds = f->n_relations = 1;
        f->kinds[0].n = f->nodes = c->nodes;
        f->relations[0] = (Relation){.array = "edge_index", .n = f->edges = c->edges};
        return true;
    }
    cJSON_ArrayForEach(it, kinds)
    {
        Kind k = {*it->string ? it->string : NULL, f->nodes, number(kinds, it->string)};
        ok = ok && k.n >= 0 && k.n <= c->nodes;
        f->kinds[f->n_kinds++] = k;
        f->nodes += k.n;
    }
    cJSON_ArrayForEach(it, relations)
    {
        const cJSON *joins = cJSON_GetObjectItemCaseSensitive(it, "joins");
        Relation x = {.name = *it->string ? it->string : NULL,
                      .column = *word(it, "column") != 0,
                      .from = kind_of(f, cJSON_GetArrayItem(joins, 0)),
                      .to = kind_of(f, cJSON_GetArrayItem(joins, 1)),
                      .first = f->edges,
                      .n = number(it, "edges")};
        x.array = x.column ? word(it, "column")
                  : x.name ? arena_printf(c->s->arena, "%s.edge_index", x.name)
                           : "edge_index";
        ok = ok && x.from >= 0 && x.to >= 0 && x.n >= 0 && x.n <= c->edges;
        if (ok && x.column) ok = x.n == f->kinds[x.from].n;
        f->relations[f->n_relations++] = x;
        f->edges += x.n;
    }
    return (ok && f->nodes == c->nodes && f->edges == c->edges) ||
           wrong(c, E0614, "partition.json", "kinds or relations are not as many nodes and edges as it says");
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

/* The file of part r that belongs to a kind or relation: "part-0/node_id.npy" where it has no name, else
   "part-0/node_id.author.npy". */
static const char *file_of(Arena *a, int r, const char *stem, const char *name)
{
    return arena_printf(a, "part-%d/%s%s%s.npy", r, stem, name ? "." : "", name ? name : "");
}

/* A kind's nodes: inner ones, others that the part owns, those of others, each ascending; with whom these are. */
static bool check_nodes(Check *c, Arena *a, int r, const Kind *k, const Nodes *x)
{
    Npy ids, owners;
    const char *file = file_of(a, r, "node_id", k->name), *of_halo = file_of(a, r, "halo_owner", k->name);
    const int32_t *owner = c->owner + k->first;
    if (!integers(c, a, file, 1, x->owned + x->halo, &ids) || !integers(c, a, of_halo, 1, x->halo, &owners))
        return false;
    for (int64_t i = 0; i < x->owned + x->halo; i++) {
        double id = npy_at(&ids, i);
        bool first = !i || i == x->inner || i == x->owned;
        if (!(id >= 0 && id < (double)k->n) || (!first && id <= npy_at(&ids, i - 1)))
            return wrong(c, E0615, file,
                         arena_printf(c->s->arena, "item %lld is %.17g, wanted ids that ascend, below %lld",
                                      (long long)i, id, (long long)k->n));
        int32_t v = (int32_t)id;
        x->ids[i] = (int32_t)(k->first + v);
        if ((i < x->owned) != (owner[v] == r))
            return wrong(c, E0615, file,
                         arena_printf(c->s->arena, "node %d is owned by part %d, says owner.npy", v, owner[v]));
        if (i >= x->owned && npy_at(&owners, i - x->owned) != owner[v])
            return wrong(c, E0615, of_halo,
                         arena_printf(c->s->arena, "node %d is owned by part %d, says owner.npy", v, owner[v]));
    }
    int64_t wanted = 0;
    for (int64_t v = 0; v < k->n; v++) wanted += owner[v] == r;
    return wanted == x->owned ||
           wrong(c, E0615, file,
                 arena_printf(c->s->arena, "it has %lld nodes of its own, owner.npy gives it %lld", (long long)x->owned,
                              (long long)wanted));
}

/* Edge e of all joins two rows of kinds, the source and the target: it has an end that the part owns, unless it is of a
   column, and joins the nodes that other parts say. */
static bool check_edge(Check *c, const char *file, const Relation *x, int64_t e, Nodes *const kinds[2],
                       const int64_t at[2])
{
    int32_t ends[] = {kinds[0]->ids[at[0]], kinds[1]->ids[at[1]]};
    bool own[] = {at[0] < kinds[0]->owned, at[1] < kinds[1]->owned};
    for (int k = 0; k < 2; k++) {
        if (own[k]) continue;
        kinds[k]->read[at[k]] |= own[1 - k] || (k == 1 && x->column);
        kinds[1 - k]->read[at[1 - k]] |= own[1 - k];
    }
    if (!own[0] && !own[1])
        return x->column ||
               wrong(c, E0615, file,
                     arena_printf(c->s->arena, "edge %lld has no end that the part owns", (long long)(e - x->first)));
    if (c->times[e]++ == 0) c->src[e] = ends[0], c->dst[e] = ends[1];
    else if (c->src[e] != ends[0] || c->dst[e] != ends[1]) {
        const Kind *from = &c->f.kinds[x->from], *to = &c->f.kinds[x->to];
        return wrong(c, E0615, file,
                     arena_printf(c->s->arena, "edge %lld joins %lld and %lld, in another part %lld and %lld",
                                  (long long)(e - x->first), (long long)(ends[0] - from->first),
                                  (long long)(ends[1] - to->first), (long long)(c->src[e] - from->first),
                                  (long long)(c->dst[e] - to->first)));
    }
    return true;
}

/* The row of a node of all kinds in the part: in the first that ascend, in the others that it owns, or in its halo; -1:
   in none. */
static double row_of(const Nodes *kind, double node)
{
    const int64_t from[] = {0, kind->inner, kind->owned, kind->owned + kind->halo};
    for (int k = 0; k < 3; k++) {
        int64_t lo = from[k], hi = from[k + 1];
        while (lo < hi) {
            int64_t mid = lo + (hi - lo) / 2;
            if (kind->ids[mid] < node) lo = mid + 1;
            else hi = mid;
        }
        if (lo < from[k + 1] && kind->ids[lo] == node) return (double)lo;
    }
    return -1;
}

/* An end of edge i, as a row of its kind; -1 with a diagnostic. first: where the array has ids of the whole, the kind's
   first node, else -1. */
static int64_t read_end(Check *c, const char *file, const Npy *npy, int64_t i, int64_t e, const Nodes *kind,
                        int64_t first)
{
    double at = first < 0 ? npy_at(npy, i) : row_of(kind, npy_at(npy, i) + (double)first);
    if (at >= 0 && at < (double)(kind->owned + kind->halo)) return (int64_t)at;
    wrong(c, E0615, file, arena_printf(c->s->arena, "edge %lld has an end that is no node of the part", (long long)e));
    return -1;
}

/* The part's edges of a relation. */
static bool check_edges(Check *c, Arena *a, int r, const Relation *x, Nodes *kinds)
{
    Npy ids, ends;
    Nodes *const joined[2] = {&kinds[x->from], &kinds[x->to]};
    const char *file = file_of(a, r, "edge_id", x->name), *array = file_of(a, r, x->array, NULL);
    int64_t n = joined[0]->owned + joined[0]->halo,
            first = partition_keeps_ids(&c->f, x) ? c->f.kinds[x->to].first : -1;
    if (!x->column) {
        const char *bad = npy_header(a, arena_printf(a, "%s/%s", c->path, file), &ids);
        if (bad) return wrong(c, E0614, file, bad);
        n = ids.n;
        if (!integers(c, a, file, 1, n, &ids)) return false;
    }
    if (!integers(c, a, array, 2 - x->column, n, &ends)) return false;
    for (int64_t i = 0; i < n; i++) {
        double id = x->column ? (double)(joined[0]->ids[i] - c->f.kinds[x->from].first) : npy_at(&ids, i);
        if (!x->column && (!(id >= 0 && id < (double)x->n) || (i && id <= npy_at(&ids, i - 1))))
            return wrong(c, E0615, file,
                         arena_printf(c->s->arena, "item %lld is %.17g, wanted ids that ascend, below %lld",
                                      (long long)i, id, (long long)x->n));
        int64_t e = (int64_t)id, at[2];
        at[0] = x->column ? i : read_end(c, array, &ends, i, e, joined[0], -1);
        at[1] = at[0] < 0 ? -1 : read_end(c, array, &ends, x->column ? i : n + i, e, joined[1], first);
        if (at[1] < 0 || !check_edge(c, array, x, x->first + e, joined, at)) return false;
    }
    return true;
}

/* Each halo node is an end of an edge; inner nodes are those that none joins to a halo node. */
static bool check_borders(Check *c, Arena *a, int r, const Kind *k, const Nodes *x)
{
    const char *file = k->name ? file_of(a, r, "node_id", k->name) : file_of(a, r, "edge_index", NULL);
    for (int64_t i = 0; i < x->owned + x->halo; i++) {
        if (x->read[i] == (i >= x->inner)) continue;
        const char *what = i >= x->owned   ? "no edge has halo node %d as an end"
                           : i >= x->inner ? "no edge joins node %d, which is no inner one, to a node of another part"
                                           : "an edge joins inner node %d to a node of another part";
        return wrong(c, E0615, file, arena_printf(c->s->arena, what, (int)(x->ids[i] - k->first)));
    }
    return true;
}

/* part.json against partition.json. */
static bool check_words(Check *c, Arena *a, int r, Nodes *kinds)
{
    const Folder *f = &c->f;
    const char *why = NULL, *file = arena_printf(a, "part-%d/part.json", r), *bad = NULL;
    size_t n = 0;
    char *text = file_read(a, arena_printf(a, "%s/%s", c->path, file), (size_t)1 << 24, &n, &why);
    cJSON *json = text ? cJSON_ParseWithLength(text, n) : NULL;
    const cJSON *rank = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(c->json, "ranks"), r);
    const cJSON *named = cJSON_GetObjectItemCaseSensitive(json, "kinds"),
                *relations = cJSON_GetObjectItemCaseSensitive(json, "relations");
    bool counts = number(json, "format") == number(c->json, "format") && number(json, "rank") == r &&
                  number(json, "parts") == c->parts;
    int64_t owned = 0, halo = 0;
    for (int32_t k = 0; k < f->n_kinds; k++) {
        const Kind *kind = &f->kinds[k];
        const char *name = kind->name ? kind->name : "";
        const cJSON *it = named ? cJSON_GetObjectItemCaseSensitive(named, name) : json;
        Nodes *x = &kinds[k];
        *x = (Nodes){.inner = number(it, "inner"), .owned = number(it, "owned"), .halo = number(it, "halo")};
        counts &= number(it, "nodes") == kind->n && x->inner >= 0 && x->inner <= x->owned && x->halo >= 0 &&
                  x->owned + x->halo <= kind->n;
        owned += x->owned;
        halo += x->halo;
    }
    for (int32_t k = 0; k < f->n_relations; k++) {
        const Relation *x = &f->relations[k];
        const char *name = x->name ? x->name : "";
        const cJSON *it = relations ? cJSON_GetObjectItemCaseSensitive(relations, name) : json;
        counts &= number(it, "edges") == x->n && !strcmp(word(it, "column"), x->column ? x->array : "");
    }
    DiagCode code = cJSON_IsObject(json) ? E0615 : E0614;
    if (code == E0614) bad = "it cannot be read as a JSON object";
    else if (!counts || owned != number(rank, "owned") || halo != number(rank, "halo"))
        bad = "its counts are not those of partition.json";
    else if (strcmp(word(json, "partition"), word(c->json, "digest")) != 0) bad = "it is a part of another partition";
    cJSON_Delete(json);
    return !bad || wrong(c, code, file, bad);
}

static bool check_rows(Check *c, Arena *a, int r, Nodes *kinds)
{
    const Folder *f = &c->f;
    bool ok = true;
    for (int32_t k = 0; ok && k < f->n_kinds; k++) {
        kinds[k].ids = ARENA_ARRAY(a, int32_t, kinds[k].owned + kinds[k].halo);
        kinds[k].read = ARENA_ARRAY(a, bool, kinds[k].owned + kinds[k].halo);
        ok = check_nodes(c, a, r, &f->kinds[k], &kinds[k]);
    }
    for (int32_t k = 0; ok && k < f->n_relations; k++) ok = check_edges(c, a, r, &f->relations[k], kinds);
    for (int32_t k = 0; ok && k < f->n_kinds; k++) ok = check_borders(c, a, r, &f->kinds[k], &kinds[k]);
    return ok;
}

static bool check_part(Check *c, int r)
{
    Arena *a = arena_new();
    const char *folder = arena_printf(c->s->arena, "%s/part-%d", c->path, r), *why = NULL;
    size_t n = 0;
    Nodes *kinds = ARENA_ARRAY(a, Nodes, c->f.n_kinds);
    bool ok = data_verify_folder(c->s, folder, &n) && check_words(c, a, r, kinds) && check_rows(c, a, r, kinds);
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
    if (!read_names(c) || !read_owner(c)) return false;
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
