/* What a data directory says before anything is loaded: feature dims, dtypes, class counts. Reads meta.json and
   the headers of .npy and .npz only (docs/data.md); the runtime validates the contents when the executable loads
   them. */
#include "base/file.h"
#include "driver/data.h"
#include "driver/npz.h"
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Diag *broken(Session *s, const char *path, const char *what)
{
    Diag *it = diag_error(&s->diags, E0614, (Span){0}, "%s: %s", path, what);
    diag_help(&s->diags, it, "`gnnc data verify DIR` checks the whole directory");
    return it;
}

typedef struct Meta {
    int64_t nodes, edges, features, classes, graphs, relations;
    VEC(FrontendEnds) ends;
} Meta;

static int64_t number(const cJSON *root, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(root, key);
    return cJSON_IsNumber(it) && it->valuedouble >= 0 && it->valuedouble < 9e15 ? (int64_t)it->valuedouble : 0;
}

/* "relations": {"writes": ["author", "paper"]} */
static void read_ends(Session *s, const cJSON *root, Meta *m)
{
    const cJSON *it;
    cJSON_ArrayForEach(it, cJSON_GetObjectItemCaseSensitive(root, "relations"))
    {
        const cJSON *from = cJSON_GetArrayItem(it, 0), *to = cJSON_GetArrayItem(it, 1);
        if (!it->string || !cJSON_IsString(from) || !cJSON_IsString(to)) continue;
        const char *names[] = {it->string, from->valuestring, to->valuestring};
        for (int i = 0; i < 3; i++) names[i] = arena_strndup(s->arena, names[i], strlen(names[i]));
        VEC_PUSH(s->arena, &m->ends, ((FrontendEnds){names[0], names[1], names[2]}));
    }
}

static bool read_meta(Session *s, const char *dir, Meta *m)
{
    *m = (Meta){0};
    const char *path = arena_printf(s->arena, "%s/meta.json", dir), *why = NULL;
    if (access(path, F_OK) != 0) return true;
    size_t n = 0;
    char *text = file_read(s->arena, path, (size_t)1 << 24, &n, &why);
    if (!text) return broken(s, path, why), false;
    session_reads(s, path);
    cJSON *root = cJSON_ParseWithLength(text, n);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return broken(s, path, "it is not a JSON object"), false;
    }
    *m = (Meta){.nodes = number(root, "num_nodes"),
                .edges = number(root, "num_edges"),
                .features = number(root, "feature_dim"),
                .classes = number(root, "num_classes"),
                .graphs = number(root, "num_graphs"),
                .relations = number(root, "num_relations")};
    read_ends(s, root, m);
    cJSON_Delete(root);
    return true;
}

/* Which space a tensor with this many rows belongs to; NULL when the counts cannot tell. */
static const char *rows_of(const Meta *m, int64_t rows)
{
    bool node = m->nodes && rows == m->nodes, edge = m->edges && rows == m->edges;
    bool graph = m->graphs && rows == m->graphs;
    if (node + edge + graph != 1) return NULL;
    return node ? "node" : edge ? "edge" : "graph";
}

/* What was found so far. Arrays come first in .npy files, then in graph.npz, then in archives of their own. */
typedef struct Found {
    Session *s;
    const char *dir;
    Meta meta;
    VEC(FrontendFact) facts;
    StrMap names; /* of facts */
} Found;

static bool is_known(const Found *f, const char *stem) { return strmap_has(&f->names, stem); }

/* The new fact, NULL for an array that says nothing. */
static FrontendFact *add_fact(Found *f, const char *stem, const Npy *npy)
{
    IrDtype t;
    if (npy->n_dims == 0 || !npy_dtype(npy, &t)) return NULL;
    FrontendFact it = {.name = stem, .rows = rows_of(&f->meta, npy->shape[0]), .count = npy->shape[0], .dtype = t};
    it.n_dims = (uint8_t)(npy->n_dims - 1);
    memcpy(it.dims, npy->shape + 1, it.n_dims * sizeof it.dims[0]);
    bool label = strcmp(stem, "y") == 0 || strcmp(stem, "graph_y") == 0;
    if (label && (t == IR_I64 || t == IR_I32)) it.classes = f->meta.classes, it.allow_missing = true;
    strmap_put(&f->names, stem, f);
    VEC_PUSH(f->s->arena, &f->facts, it);
    return &f->facts.data[f->facts.n - 1];
}

/* A CSR triplet x_indptr, x_indices, x_data is the tensor x. */
static bool is_csr_part(const char *stem)
{
    size_t n = strlen(stem);
    return (n > 7 && strcmp(stem + n - 7, "_indptr") == 0) || (n > 8 && strcmp(stem + n - 8, "_indices") == 0) ||
           (n > 5 && strcmp(stem + n - 5, "_data") == 0);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

typedef VEC(char *) Stems;

/* Stems of the directory's files with a suffix, sorted. False with a diagnostic if it cannot be read. */
static bool list_stems(Session *s, const char *dir, const char *suffix, Stems *out)
{
    DIR *d = opendir(dir);
    size_t m = strlen(suffix);
    *out = (Stems){0};
    if (!d) {
        diag_error(&s->diags, E0601, (Span){0}, "cannot read the data directory `%s`: %s", dir, strerror(errno));
        return false;
    }
    for (struct dirent *e; (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len > m && strcmp(e->d_name + len - m, suffix) == 0)
            VEC_PUSH(s->arena, out, arena_strndup(s->arena, e->d_name, len - m));
    }
    closedir(d);
    if (out->n) qsort(out->data, out->n, sizeof *out->data, by_name);
    return true;
}

static void add_csr(Found *f, const char *stem, const Npy *matrix)
{
    FrontendFact *it = add_fact(f, stem, matrix);
    if (it) it->sparse = true;
}

/* NAME_triples, [n, 3], stands for NAME_index and NAME_type, which hold its columns. */
static void add_triples(Found *f, const char *stem, const Npy *npy)
{
    size_t n = strlen(stem);
    if (n <= 8 || strcmp(stem + n - 8, "_triples") || npy->n_dims != 2 || npy->shape[1] != 3) return;
    Npy ends = *npy, kinds = *npy;
    ends.shape[0] = 2;
    ends.shape[1] = npy->shape[0];
    kinds.n_dims = 1;
    const char *index = arena_printf(f->s->arena, "%.*s_index", (int)(n - 8), stem);
    const char *type = arena_printf(f->s->arena, "%.*s_type", (int)(n - 8), stem);
    if (!is_known(f, index)) add_fact(f, index, &ends);
    if (!is_known(f, type)) add_fact(f, type, &kinds);
}

static void add_array(Found *f, const char *stem, const Npy *npy)
{
    if (strcmp(stem, "x") == 0 && npy->n_dims) f->s->n_nodes = npy->shape[0];
    if (strcmp(stem, "edge_index") == 0 && npy->n_dims == 2) f->s->n_edges = npy->shape[1];
    if (strcmp(stem, "x_indptr") == 0 && f->meta.features && npy->n_dims) {
        Npy x = {.dtype = "<f4", .n_dims = 2, .shape = {npy->shape[0] - 1, f->meta.features}};
        add_csr(f, "x", &x);
    }
    if (!is_known(f, stem) && !is_csr_part(stem)) add_fact(f, stem, npy);
    add_triples(f, stem, npy);
}

static bool add_npy_files(Found *f)
{
    Stems stems;
    if (!list_stems(f->s, f->dir, ".npy", &stems)) return false;
    for (uint32_t i = 0; i < stems.n; i++) {
        const char *path = arena_printf(f->s->arena, "%s/%s.npy", f->dir, stems.data[i]);
        Npy npy;
        const char *wrong = npy_header(f->s->arena, path, &npy);
        session_reads(f->s, path);
        if (wrong) broken(f->s, path, wrong);
        else add_array(f, stems.data[i], &npy);
    }
    return true;
}

static bool read_archive(Found *f, const char *path, Npz *z)
{
    const char *wrong = npz_headers(f->s->arena, path, z);
    session_reads(f->s, path);
    if (wrong) broken(f->s, path, wrong);
    return !wrong;
}

/* An archive of many arrays, each under its name. */
static void add_archive(Found *f, const char *path)
{
    Npz z;
    if (!read_archive(f, path, &z)) return;
    for (uint32_t i = 0; i < z.n; i++) add_array(f, z.members[i].name, &z.members[i].npy);
}

/* STEM.npz: its member STEM, its only member, or a scipy CSR matrix, whose member `shape` holds rows and columns. */
static void add_side_archive(Found *f, const char *stem)
{
    Npz z;
    if (!read_archive(f, arena_printf(f->s->arena, "%s/%s.npz", f->dir, stem), &z)) return;
    for (uint32_t i = 0; i < z.n; i++) {
        const NpzMember *m = &z.members[i];
        Npy matrix = {.dtype = "<f4", .n_dims = 2, .shape = {m->first[0], m->first[1]}};
        if (strcmp(m->name, stem) == 0 || z.n == 1) add_array(f, stem, &m->npy);
        else if (strcmp(m->name, "shape") == 0 && !is_known(f, stem)) add_csr(f, stem, &matrix);
    }
}

static void add_npz_files(Found *f)
{
    Stems stems;
    if (!list_stems(f->s, f->dir, ".npz", &stems)) return;
    for (uint32_t i = 0; i < stems.n; i++)
        if (strcmp(stems.data[i], "graph") == 0) add_archive(f, arena_printf(f->s->arena, "%s/graph.npz", f->dir));
    for (uint32_t i = 0; i < stems.n; i++)
        if (strcmp(stems.data[i], "graph") != 0) add_side_archive(f, stems.data[i]);
}

static bool is_archive(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".npz") == 0;
}

/* NAME_type beside edges NAME_index: relations, of which there are num_relations. */
static void bound_types(Found *f)
{
    for (uint32_t i = 0; i < f->facts.n; i++) {
        FrontendFact *x = &f->facts.data[i];
        size_t n = strlen(x->name);
        if (n <= 5 || strcmp(x->name + n - 5, "_type") || (x->dtype != IR_I64 && x->dtype != IR_I32)) continue;
        bool edges = is_known(f, arena_printf(f->s->arena, "%.*s_index", (int)(n - 5), x->name));
        if (edges || !strcmp(x->name, "edge_type")) x->classes = f->meta.relations;
    }
}

bool facts_read(Session *s, const char *dir, FrontendOptions *fo)
{
    Found f = {.s = s, .dir = dir, .names = {.arena = s->arena}};
    if (is_archive(dir)) add_archive(&f, dir);
    else if (!read_meta(s, dir, &f.meta) || !add_npy_files(&f)) return false;
    else add_npz_files(&f);
    bound_types(&f);
    if (f.meta.nodes) s->n_nodes = f.meta.nodes;
    if (f.meta.edges && s->n_edges < 0) s->n_edges = f.meta.edges;
    s->n_graphs = f.meta.graphs ? f.meta.graphs : 1;
    fo->facts = f.facts.data;
    fo->n_facts = f.facts.n;
    fo->ends = f.meta.ends.data;
    fo->n_ends = f.meta.ends.n;
    return s->diags.n_errors == 0;
}

static const FrontendFact *fact_of(const FrontendOptions *fo, const char *name)
{
    for (uint32_t i = 0; i < fo->n_facts; i++)
        if (!strcmp(fo->facts[i].name, name)) return &fo->facts[i];
    return NULL;
}

/* Rows of a kind of nodes: of meta.json, else of an input, else of a column; -1: unknown. */
static int64_t rows_of_kind(Session *s, const IrModule *m, IrId space, const FrontendOptions *fo, const cJSON *meta)
{
    const char *name = m->spaces.data[space].name;
    for (int i = 0; i < 2 && meta; i++) {
        const char *key = arena_printf(s->arena, i ? "num_%ss" : "num_%s", name);
        if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(meta, key))) return number(meta, key);
    }
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        const FrontendFact *f = t->kind == IR_INPUT && t->type.space == space ? fact_of(fo, t->name) : NULL;
        if (f) return f->count;
    }
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        const FrontendFact *f = g->kind == IR_GRAPH_COLUMN && g->src_space == space ? fact_of(fo, ir_graph_file(g))
                                                                                    : NULL;
        if (f) return f->count;
    }
    return -1;
}

int64_t *facts_rows(Session *s, const IrModule *m, const char *dir)
{
    FrontendOptions fo = {0};
    cJSON *meta = NULL;
    int64_t *rows = ARENA_ARRAY(s->arena, int64_t, m->spaces.n);
    if (!facts_read(s, dir, &fo) || (!is_archive(dir) && !data_meta(s, dir, &meta))) return NULL;
    for (uint32_t i = 0; i < m->spaces.n; i++) rows[i] = -1;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        const FrontendFact *f = g->kind == IR_GRAPH_FILE ? fact_of(&fo, ir_graph_file(g)) : NULL;
        if (f && f->n_dims == 1) rows[g->edge] = f->dims[0];
        for (int k = 0; k < 2 && ir_graph_is_read(g->kind); k++) {
            IrId end = k ? g->dst_space : g->src_space;
            if (rows[end] < 0) rows[end] = rows_of_kind(s, m, end, &fo, meta);
        }
    }
    cJSON_Delete(meta);
    return rows;
}

static bool read_sets(Session *s, FrontendOptions *fo)
{
    uint32_t n = s->opt.sets.n;
    const char **names = ARENA_ARRAY(s->arena, const char *, n + 1);
    double *values = ARENA_ARRAY(s->arena, double, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const char *text = s->opt.sets.data[i], *eq = strchr(text, '=');
        char *end = NULL;
        if (eq) values[i] = strtod(eq + 1, &end);
        if (!eq || eq == text || end == eq + 1 || *end) {
            diag_error(&s->diags, E0612, (Span){0}, "`--set` wants NAME=NUMBER, found `%s`", text);
            return false;
        }
        names[i] = arena_strndup(s->arena, text, (size_t)(eq - text));
    }
    fo->set_names = names;
    fo->set_values = values;
    fo->n_set = n;
    return true;
}

bool session_frontend_options(Session *s, FrontendOptions *fo)
{
    *fo = (FrontendOptions){.export_layer = opt_value(&s->opt, OPT_EXPORT, NULL)};
    const char *mode = opt_value(&s->opt, OPT_MODE, "eval"), *dtype = opt_value(&s->opt, OPT_DTYPE, "f32");
    const char *vjp = opt_value(&s->opt, OPT_VJP, "gradients");
    fo->joint = strcmp(vjp, "joint") == 0;
    if (!fo->joint && strcmp(vjp, "gradients"))
        diag_error(&s->diags, E0612, (Span){0}, "`--vjp` wants gradients or joint, found `%s`", vjp);
    fo->train_mode = strcmp(mode, "train") == 0;
    if (!fo->train_mode && strcmp(mode, "eval"))
        diag_error(&s->diags, E0612, (Span){0}, "`--mode` wants eval or train, found `%s`", mode);
    if (strcmp(dtype, "f64") == 0) fo->float_dtype = IR_F64;
    else if (strcmp(dtype, "f32") != 0)
        diag_error(&s->diags, E0612, (Span){0}, "`--dtype` wants f32 or f64, found `%s`", dtype);
    if (opt_has(&s->opt, OPT_DATA) && !facts_read(s, opt_value(&s->opt, OPT_DATA, ""), fo)) return false;
    return read_sets(s, fo) && s->diags.n_errors == 0;
}
