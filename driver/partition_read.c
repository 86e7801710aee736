/* Reads the data folder that is split: its counts, its edges, what belongs to what; contracts in partition.h. */
#include "driver/data.h"
#include "driver/partition.h"
#include <unistd.h>

static bool has(Session *s, const Folder *f, const char *name)
{
    return access(arena_printf(s->arena, "%s/%s", f->path, name), F_OK) == 0;
}

bool partition_unfit(Session *s, const Folder *f, const char *file, const char *what, const char *help)
{
    Diag *it = diag_error(&s->diags, E0615, (Span){0}, "%s/%s: %s", f->path, file, what);
    if (help) diag_help(&s->diags, it, "%s", help);
    return false;
}

static bool not_built(Session *s, const Folder *f, const char *what, const char *help)
{
    Diag *it = diag_error(&s->diags, E0910, (Span){0}, "`gnnc data partition` does not split %s yet: %s", what,
                          f->path);
    diag_help(&s->diags, it, "%s", help);
    return false;
}

static int64_t meta_count(const Folder *f, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(f->meta, key);
    return cJSON_IsNumber(it) && it->valuedouble >= 0 && it->valuedouble < 9e15 ? (int64_t)it->valuedouble : -1;
}

bool partition_array(Session *s, Arena *a, const Folder *f, const char *name, Npy *npy)
{
    const char *wrong = npy_read(a, arena_printf(a, "%s/%s", f->path, name), npy);
    if (!wrong) return true;
    diag_error(&s->diags, E0614, (Span){0}, "%s/%s: %s", f->path, name, wrong);
    return false;
}

/* meta.json's, where kinds have names; else NULL. */
static const cJSON *relations_of(const Folder *f)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(f->meta, "relations");
    return cJSON_IsObject(it) ? it : NULL;
}

/* Whether the file is NAME.edge_index.npy of a relation that meta.json names. */
static bool is_named(Session *s, const cJSON *relations, const char *file)
{
    const char *dot = strchr(file, '.');
    const char *head = arena_strndup(s->arena, file, (size_t)(dot - file));
    return !strcmp(dot, ".edge_index.npy") && cJSON_GetObjectItemCaseSensitive(relations, head);
}

/* What this command cannot split is refused, so that no part lacks what the folder has. */
static bool refuse_forms(Session *s, const Folder *f)
{
    static const char *const other[] = {"graph.mtx", "edges.tsv", "edges.csv"};
    static const char *const own[] = {"part.json", "node_id.npy", "edge_id.npy", "halo_owner.npy", "graph_id.npy"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (has(s, f, other[i]))
            return not_built(s, f, arena_printf(s->arena, "`%s`", other[i]),
                             "save its edges as edge_index.npy (docs/data.md)");
    size_t n;
    char **archives = data_list(s->arena, f->path, ".npz", &n);
    if (n)
        return not_built(s, f, arena_printf(s->arena, "the archive `%s`", archives[0]),
                         "save each of its arrays as NAME.npy (docs/data.md)");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (has(s, f, own[i]))
            return partition_unfit(s, f, own[i], "the folder is a part already, or has a file of that name",
                                   "split the folder that the part was made of");
    if (meta_count(f, "num_src") >= 0 || meta_count(f, "num_dst") >= 0)
        return not_built(s, f, "graphs between two kinds of nodes",
                         "num_src and num_dst of meta.json say that it is one");
    const cJSON *relations = relations_of(f);
    if (relations && (has(s, f, "edge_index.npy") || has(s, f, "src.npy") || has(s, f, "batch.npy")))
        return not_built(s, f, "edge_index.npy, src.npy or batch.npy beside named relations",
                         "save the edges as NAME.edge_index.npy, and say in \"relations\" of meta.json what they join");
    for (size_t i = 0; i < f->n_names && relations; i++) {
        size_t len = strlen(f->names[i]);
        if (len > 10 && !strcmp(f->names[i] + len - 10, ".batch.npy"))
            return not_built(s, f, arena_printf(s->arena, "graphs of several kinds of nodes (`%s`)", f->names[i]),
                             "graphs of one kind, in batch.npy, can be split");
    }
    for (size_t i = 0; i < f->n_names; i++) {
        Npy npy;
        size_t len = strlen(f->names[i]);
        if (len < 10 || strcmp(f->names[i] + len - 10, "_index.npy") || !strcmp(f->names[i], "edge_index.npy") ||
            is_named(s, relations, f->names[i]))
            continue;
        if (npy_header(s->arena, arena_printf(s->arena, "%s/%s", f->path, f->names[i]), &npy)) continue;
        if (npy.n_dims == 2 && npy.shape[0] == 2 && npy.dtype[1] == 'i')
            return not_built(s, f, arena_printf(s->arena, "the further edges `%s`", f->names[i]),
                             "a copy of the folder without this file can be split");
    }
    return true;
}

static bool count_nodes(Session *s, Folder *f)
{
    static const struct {
        const char *name;
        int64_t more;
    } tell[] = {{"x.npy", 0}, {"x_indptr.npy", 1}, {"y.npy", 0}, {"batch.npy", 0}};
    f->nodes = meta_count(f, "num_nodes");
    for (size_t i = 0; i < sizeof tell / sizeof *tell && f->nodes < 0; i++) {
        Npy npy;
        if (!has(s, f, tell[i].name)) continue;
        const char *wrong = npy_header(s->arena, arena_printf(s->arena, "%s/%s", f->path, tell[i].name), &npy);
        if (!wrong && npy.n_dims && npy.shape[0] >= tell[i].more) f->nodes = npy.shape[0] - tell[i].more;
    }
    if (f->nodes < 0)
        return partition_unfit(s, f, "meta.json", "nothing says how many nodes there are", "say it: \"num_nodes\": N");
    return f->nodes < INT32_MAX || partition_unfit(s, f, "meta.json", "it has 2^31 nodes or more", NULL);
}

int32_t *partition_ids(Session *s, const Folder *f, const char *name, const Npy *npy, int64_t first, int64_t n,
                       int64_t below)
{
    int32_t *ids = ARENA_ARRAY(s->arena, int32_t, n);
    for (int64_t i = 0; i < n; i++) {
        double v = npy_at(npy, first + i);
        if (!(v >= 0 && v < (double)below)) {
            partition_unfit(s, f, name,
                            arena_printf(s->arena, "item %lld is %.17g, wanted an id in [0, %lld)",
                                         (long long)(first + i), v, (long long)below),
                            NULL);
            return NULL;
        }
        ids[i] = (int32_t)v;
    }
    return ids;
}

static bool read_edges(Session *s, Arena *a, Folder *f)
{
    Npy ends[2];
    const char *names[] = {"edge_index.npy", "edge_index.npy"};
    int64_t second = 0;
    if (has(s, f, names[0])) {
        if (!partition_array(s, a, f, names[0], &ends[0])) return false;
        ends[1] = ends[0];
        if (ends[0].n_dims != 2 || ends[0].shape[0] != 2 || ends[0].dtype[1] != 'i')
            return partition_unfit(s, f, names[0], "it is no array of integers of 2 rows", NULL);
        f->edges = second = ends[0].shape[1];
    } else {
        names[0] = "src.npy", names[1] = "dst.npy";
        for (int k = 0; k < 2; k++) {
            if (!partition_array(s, a, f, names[k], &ends[k])) return false;
            if (ends[k].n_dims != 1 || ends[k].dtype[1] != 'i' || ends[k].n != ends[0].n)
                return partition_unfit(s, f, names[k], "it is no vector of integers, as long as the other", NULL);
        }
        f->edges = ends[0].n;
    }
    if (f->edges >= INT32_MAX) return partition_unfit(s, f, names[0], "it has 2^31 edges or more", NULL);
    if (meta_count(f, "num_edges") >= 0 && meta_count(f, "num_edges") != f->edges)
        return partition_unfit(s, f, names[0],
                               arena_printf(s->arena, "it has %lld edges, meta.json says %lld", (long long)f->edges,
                                            (long long)meta_count(f, "num_edges")),
                               NULL);
    f->kinds = ARENA_ARRAY(s->arena, Kind, 1);
    f->relations = ARENA_ARRAY(s->arena, Relation, 1);
    f->n_kinds = f->n_relations = 1;
    f->kinds[0].n = f->nodes;
    f->relations[0] = (Relation){.array = "edge_index", .n = f->edges};
    memcpy(f->relations[0].dtype, ends[0].dtype, sizeof ends[0].dtype);
    f->src = partition_ids(s, f, names[0], &ends[0], 0, f->edges, f->nodes);
    f->dst = f->src ? partition_ids(s, f, names[1], &ends[1], second, f->edges, f->nodes) : NULL;
    return f->dst != NULL;
}

static bool begins(const char *text, const char *head) { return strncmp(text, head, strlen(head)) == 0; }

static bool is_mask(const char *stem)
{
    size_t n = strlen(stem);
    return strcmp(stem, "fold") == 0 || (n > 5 && strcmp(stem + n - 5, "_mask") == 0);
}

/* What a name says by itself. */
static RowsOf rows_by_name(Session *s, const Folder *f, const char *stem)
{
    if (strcmp(stem, "x") == 0 || strcmp(stem, "y") == 0 || strcmp(stem, "batch") == 0) return ROWS_NODE;
    if (is_mask(stem)) return has(s, f, "graph_y.npy") && !has(s, f, "y.npy") ? ROWS_GRAPH : ROWS_NODE;
    return begins(stem, "edge_") ? ROWS_EDGE : begins(stem, "graph_") ? ROWS_GRAPH : ROWS_NONE;
}

/* An integer for each node below num_NAMEs of meta.json, in NAME.npy, where nothing says that it is something else. */
static bool is_column(Session *s, const Folder *f, const char *file, Npy *npy)
{
    const char *stem = arena_strndup(s->arena, file, strlen(file) - 4);
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(f->meta, "rows"), stem);
    bool other = rows_by_name(s, f, stem) != ROWS_NONE || (cJSON_IsString(said) && strcmp(said->valuestring, "node"));
    return !other && meta_count(f, arena_printf(s->arena, "num_%ss", stem)) >= 0 &&
           !npy_header(s->arena, arena_printf(s->arena, "%s/%s", f->path, file), npy) && npy->dtype[1] == 'i' &&
           npy->n_dims == 1 && npy->shape[0] == f->kinds[0].n;
}

/* Columns of the nodes of a folder that names no relations: each leads to a kind of its own, which has its name. */
static bool read_columns(Session *s, Arena *a, Folder *f)
{
    Npy npy;
    Kind *kinds = ARENA_ARRAY(s->arena, Kind, f->n_names + 1);
    Relation *relations = ARENA_ARRAY(s->arena, Relation, f->n_names + 1);
    kinds[0] = f->kinds[0], relations[0] = f->relations[0];
    f->kinds = kinds, f->relations = relations;
    for (size_t i = 0; i < f->n_names && !f->batch; i++) {
        const char *file = f->names[i], *stem = arena_strndup(s->arena, file, strlen(file) - 4);
        if (!is_column(s, f, file, &npy)) continue;
        int64_t n = npy.shape[0], targets = meta_count(f, arena_printf(s->arena, "num_%ss", stem));
        if (targets >= INT32_MAX - f->nodes || n >= INT32_MAX - f->edges)
            return partition_unfit(s, f, file, "with it there are 2^31 nodes or edges, or more", NULL);
        if (!partition_array(s, a, f, file, &npy)) return false;
        const int32_t *ids = partition_ids(s, f, file, &npy, 0, n, targets);
        if (!ids) return false;
        int32_t *src = ARENA_ARRAY(s->arena, int32_t, f->edges + n),
                *dst = ARENA_ARRAY(s->arena, int32_t, f->edges + n);
        for (int64_t e = 0; e < f->edges; e++) src[e] = f->src[e], dst[e] = f->dst[e];
        for (int64_t v = 0; v < n; v++) src[f->edges + v] = (int32_t)v, dst[f->edges + v] = (int32_t)f->nodes + ids[v];
        relations[f->n_relations++] = (Relation){
            .name = stem, .array = stem, .column = true, .to = f->n_kinds, .first = f->edges, .n = n};
        kinds[f->n_kinds++] = (Kind){stem, f->nodes, targets};
        f->nodes += targets, f->edges += n;
        f->src = src, f->dst = dst;
    }
    return true;
}

static bool read_batch(Session *s, Arena *a, Folder *f)
{
    Npy npy;
    const char *name = "batch.npy";
    if (!has(s, f, name)) return true;
    if (!partition_array(s, a, f, name, &npy)) return false;
    if (npy.n_dims != 1 || npy.n != f->nodes || npy.dtype[1] != 'i')
        return partition_unfit(s, f, name, "it is no vector of integers, one for each node", NULL);
    /* Graphs may be empty, but not without somebody having said how many there are: an id alone asks for no memory. */
    int64_t said = meta_count(f, "num_graphs");
    if (said < 0 && has(s, f, "graph_y.npy")) {
        Npy labels;
        if (!partition_array(s, a, f, "graph_y.npy", &labels)) return false;
        said = labels.n_dims ? labels.shape[0] : 0;
    }
    if (said >= INT32_MAX) return partition_unfit(s, f, name, "it has 2^31 graphs or more", NULL);
    int32_t *batch = partition_ids(s, f, name, &npy, 0, f->nodes, said >= 0 ? said : f->nodes);
    if (!batch) return false;
    for (int64_t v = 1; v < f->nodes; v++)
        if (batch[v] < batch[v - 1])
            return partition_unfit(
                s, f, name, arena_printf(s->arena, "item %lld is smaller than the one before", (long long)v), NULL);
    f->graphs = said >= 0 ? said : f->nodes ? (int64_t)batch[f->nodes - 1] + 1 : 0;
    f->batch = batch;
    for (int64_t e = 0; e < f->edges; e++)
        if (batch[f->src[e]] != batch[f->dst[e]])
            return partition_unfit(
                s, f, name,
                arena_printf(s->arena, "edge %lld joins two graphs, so that these cannot be given to parts as wholes",
                             (long long)e),
                NULL);
    return true;
}

const char *partition_csr(Session *s, const Folder *f, const char *stem, const char *part)
{
    size_t n = strlen(stem), m = strlen(part);
    if (n <= m || strcmp(stem + n - m, part) != 0) return NULL;
    const char *base = arena_strndup(s->arena, stem, n - m);
    static const char *const all[] = {"_indptr", "_indices", "_data"};
    for (int k = 0; k < 3; k++)
        if (!has(s, f, arena_printf(s->arena, "%s%s.npy", base, all[k]))) return NULL;
    return base;
}

/* Whether the rows of all arrays fit the counts, before anything is made of these sizes. */
static bool check_rows(Session *s, const Folder *f)
{
    bool has_index = has(s, f, "edge_index.npy");
    for (size_t i = 0; i < f->n_names; i++) {
        Npy npy;
        Rows rows;
        const char *stem = arena_strndup(s->arena, f->names[i], strlen(f->names[i]) - 4);
        bool ends = !relations_of(f) && !has_index && (!strcmp(stem, "src") || !strcmp(stem, "dst"));
        if (ends || partition_relation(f, stem)) continue;
        if (partition_csr(s, f, stem, "_indices") || partition_csr(s, f, stem, "_data")) continue;
        const char *wrong = npy_header(s->arena, arena_printf(s->arena, "%s/%s", f->path, f->names[i]), &npy);
        if (wrong) {
            diag_error(&s->diags, E0614, (Span){0}, "%s/%s: %s", f->path, f->names[i], wrong);
            return false;
        }
        const char *base = partition_csr(s, f, stem, "_indptr");
        int64_t n = npy.n_dims ? npy.shape[0] - (base != NULL) : -1;
        if (!partition_rows(s, f, base ? base : stem, n, &rows)) return false;
    }
    return true;
}

bool partition_read(Session *s, const char *path, Folder *f)
{
    size_t n = strlen(path);
    *f = (Folder){.path = path};
    if (n > 4 && strcmp(path + n - 4, ".npz") == 0)
        return not_built(s, f, "an archive", "save each of its arrays as NAME.npy in a folder (docs/data.md)");
    if (!data_meta(s, path, &f->meta)) return false;
    f->names = data_list(s->arena, path, ".npy", &f->n_names);
    if (partition_is(s, path))
        return partition_unfit(s, f, "partition.json", "the folder is a partition already",
                               "split the folder that it was made of");
    if (!refuse_forms(s, f)) return false;
    Arena *a = arena_new();
    bool ok = relations_of(f)
                  ? partition_read_relations(s, a, f)
                  : count_nodes(s, f) && read_edges(s, a, f) && read_batch(s, a, f) && read_columns(s, a, f);
    ok = ok && check_rows(s, f);
    arena_free(a);
    return ok;
}

const Relation *partition_relation(const Folder *f, const char *stem)
{
    for (int32_t k = 0; k < f->n_relations; k++)
        if (!strcmp(f->relations[k].array, stem)) return &f->relations[k];
    return NULL;
}

static bool unnamed_rows(Session *s, const Folder *f, const char *stem, int64_t rows, RowsOf *out)
{
    static const char *const words[] = {"none", "node", "edge", "graph"};
    const bool fits[] = {true, rows == f->kinds[0].n, rows == f->relations[0].n, f->batch && rows == f->graphs};
    const char *file = arena_printf(s->arena, "%s.npy", stem);
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(f->meta, "rows"), stem);
    RowsOf named = rows_by_name(s, f, stem);
    int n_fits = fits[ROWS_NODE] + fits[ROWS_EDGE] + fits[ROWS_GRAPH];
    *out = ROWS_NONE;
    if (cJSON_IsString(said)) {
        for (int k = 0; k < 4; k++)
            if (strcmp(said->valuestring, words[k]) == 0 && fits[k]) return *out = (RowsOf)k, true;
        return partition_unfit(s, f, file,
                               arena_printf(s->arena, "it has %lld rows, and meta.json says they are of `%s`",
                                            (long long)rows, said->valuestring),
                               "\"rows\" in meta.json knows node, edge, graph and none");
    }
    if (n_fits && fits[named] && named != ROWS_NONE) return *out = named, true;
    if (named == ROWS_NODE && !is_mask(stem))
        return partition_unfit(s, f, file,
                               arena_printf(s->arena, "it has %lld rows, and there are %lld nodes", (long long)rows,
                                            (long long)f->kinds[0].n),
                               NULL);
    if (n_fits > 1)
        return partition_unfit(
            s, f, file, arena_printf(s->arena, "its %lld rows may be of nodes, edges or graphs", (long long)rows),
            arena_printf(s->arena, "say it in meta.json: \"rows\": {\"%s\": \"node\"}, or edge, graph, none", stem));
    for (int k = ROWS_NODE; k <= ROWS_GRAPH; k++)
        if (fits[k]) *out = (RowsOf)k;
    return true;
}

/* What a name says: of a kind or a relation. */
static bool rows_of_name(const Folder *f, const char *name, Rows *out, int64_t *wanted)
{
    for (int32_t k = 0; k < f->n_kinds; k++)
        if (!strcmp(f->kinds[k].name, name)) return *out = (Rows){ROWS_NODE, k}, *wanted = f->kinds[k].n, true;
    for (int32_t k = 0; k < f->n_relations; k++)
        if (!strcmp(f->relations[k].name, name)) return *out = (Rows){ROWS_EDGE, k}, *wanted = f->relations[k].n, true;
    return false;
}

bool partition_rows(Session *s, const Folder *f, const char *stem, int64_t rows, Rows *out)
{
    Arena *a = s->arena;
    int64_t wanted;
    const char *dot = strchr(stem, '.'), *file = arena_printf(a, "%s.npy", stem);
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(f->meta, "rows"), stem);
    *out = (Rows){ROWS_NONE, 0};
    if (!relations_of(f)) return unnamed_rows(s, f, stem, rows, &out->of);
    const char *name = cJSON_IsString(said) ? said->valuestring
                       : dot                ? arena_strndup(a, stem, (size_t)(dot - stem))
                                            : "";
    if (!strcmp(name, "none") || rows < 0) return true;
    if (!rows_of_name(f, name, out, &wanted))
        return partition_unfit(
            s, f, file, "nothing says which kind of nodes or which relation its rows are of",
            arena_printf(a, "call it KIND.%s.npy, or say it in meta.json: \"rows\": {\"%s\": \"KIND\"}, or none", stem,
                         stem));
    if (rows == wanted) return true;
    return partition_unfit(
        s, f, file, arena_printf(a, "it has %lld rows, and `%s` has %lld", (long long)rows, name, (long long)wanted),
        NULL);
}
