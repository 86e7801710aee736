/* How far a program that keeps numbers in 16 bits (pass narrow) lies from the same program in full precision. The
   interpreter runs each function of the model twice in f64, without and with the casts, on the inputs of --data or on a
   random graph, from the weights of --weights or those with which training begins. What is reported of a result:

     difference   the largest |with - without|: what the casts alone do
     bound        the largest |with - without| + e, where e bounds how far compiled code, which rounds to f32 too, may
                  lie from `with`: no run of the executable on these numbers lies further from the exact result
     undecided    elements that hang on a comparison whose operands lie within their bounds (a relu at 0), which the
                  bound leaves out

   Never reads archives and texts of edges: these the runtime reads. */
#include "driver/store_error.h"
#include "base/file.h"
#include "driver/npy.h"
#include "driver/pipeline.h"
#include "ir/eval.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { RANDOM_NODES = 100, RANDOM_EDGES = 1000, RANDOM_GRAPHS = 4, VALUES_SITE = 2, INIT_SITE = 60000 };

typedef struct Report {
    Session *s;
    const char *dir; /* of --data, or NULL: everything is random */
    uint64_t seed;
    cJSON *weights; /* the header of --weights, or NULL: initial weights */
    const char *weights_path, *weights_data;
    size_t n_weights_data;
    EvalGraph graph;
    bool has_graph;    /* whose nodes are of one type */
    int64_t *graph_of; /* [n_dst] graph of each node, or NULL */
    int64_t n_graphs;
    VEC(EvalList) lists; /* that say edges between types of nodes, and their types */
} Report;

/* ---- what is read --------------------------------------------------------------------------------------------- */

static bool misfit(Report *r, const char *file, const char *what)
{
    diag_error(&r->s->diags, E0615, (Span){0}, "%s/%s: %s", r->dir, file, what);
    return false;
}

/* NAME.npy of the folder. False without the file, or, with a diagnostic, where it cannot be read. */
static bool read_array(Report *r, const char *name, Npy *out)
{
    const char *path = arena_printf(r->s->arena, "%s/%s.npy", r->dir, name);
    if (access(path, F_OK) != 0) return false;
    const char *wrong = npy_read(r->s->arena, path, out);
    if (wrong) diag_error(&r->s->diags, E0614, (Span){0}, "%s: %s", path, wrong);
    return !wrong;
}

/* The CSR triplet of NAME; entries of one place are added up. */
static bool read_csr(Report *r, const char *name, EvalValue *x)
{
    Npy at, column, value;
    Arena *a = r->s->arena;
    if (!read_array(r, arena_printf(a, "%s_indptr", name), &at) ||
        !read_array(r, arena_printf(a, "%s_indices", name), &column) ||
        !read_array(r, arena_printf(a, "%s_data", name), &value))
        return false;
    const char *wrong = "no CSR matrix of the model's rows and columns";
    if (at.n != x->rows + 1 || column.n != value.n) return misfit(r, name, wrong);
    for (int64_t row = 0; row < x->rows; row++) {
        double begin = npy_at(&at, row), end = npy_at(&at, row + 1);
        if (!(begin >= 0 && begin <= end && end <= (double)value.n)) return misfit(r, name, wrong);
        for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
            double k = npy_at(&column, i);
            if (!(k >= 0 && k < (double)x->width)) return misfit(r, name, wrong);
            x->v[row * x->width + (int64_t)k] += npy_at(&value, i);
        }
    }
    return true;
}

/* Rows of the file are in the user's order; ids: of each stored row, or NULL. */
static bool read_input(Report *r, const int64_t *ids, const char *name, EvalValue *x)
{
    Npy npy;
    if (read_array(r, name, &npy)) {
        if (npy.n != x->rows * x->width)
            return misfit(r, name,
                          arena_printf(r->s->arena, "%lld numbers found, wanted %lld rows of %lld", (long long)npy.n,
                                       (long long)x->rows, (long long)x->width));
        for (int64_t i = 0; i < npy.n; i++) {
            int64_t row = i / x->width;
            x->v[i] = npy_at(&npy, (ids ? ids[row] : row) * x->width + i % x->width);
        }
        return true;
    }
    if (!r->s->diags.n_errors && read_csr(r, name, x)) return true;
    if (r->s->diags.n_errors) return false;
    diag_error(&r->s->diags, E0910, (Span){0},
               "`gnnc check --store` reads `%s` from %s.npy or a CSR triplet, and finds neither in %s", name, name,
               r->dir);
    return false;
}

static uint64_t name_hash(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

/* In [-1, 1) with 24 bits, 0 to bound - 1, or one of two. */
static void draw_input(const Report *r, const char *name, int64_t bound, EvalValue *x)
{
    for (int64_t i = 0; i < x->rows * x->width; i++) {
        uint32_t word = eval_philox(r->seed, name_hash(name), VALUES_SITE, (uint64_t)i, 0);
        if (ir_dtype_is_float(x->type.dtype)) x->v[i] = (double)(word >> 8) * 0x1p-23 - 1;
        else if (x->type.dtype == IR_BOOL) x->v[i] = word & 1;
        else x->v[i] = bound > 0 ? (double)(word % (uint64_t)bound) : 0;
    }
}

/* The executable's: runtime/tensors.c. */
static void fill_initial(const Report *r, const IrTensor *t, EvalValue *x)
{
    for (int64_t i = 0; i < x->rows * x->width; i++) {
        uint64_t row = (uint64_t)(i / x->width), k = (uint64_t)(i % x->width);
        double v = t->init_a;
        if (t->init == IR_INIT_UNIFORM)
            v += (t->init_b - t->init_a) *
                 ((double)(eval_philox(r->seed, name_hash(t->name), INIT_SITE, row, k) >> 8) * 0x1p-24);
        if (t->init == IR_INIT_NORMAL) v += t->init_b * eval_normal(r->seed, name_hash(t->name), INIT_SITE, row, k);
        x->v[i] = v;
    }
}

/* ---- weights ---- */

static bool misfit_weights(Report *r, const char *name, const char *what)
{
    diag_error(&r->s->diags, E0615, (Span){0}, "%s: `%s` %s", r->weights_path, name, what);
    return false;
}

/* The file's header and data (safetensors). The header is freed by store_error_report. */
static bool open_weights(Report *r, const char *path)
{
    size_t n = 0;
    uint64_t n_head = 0;
    const char *why = NULL, *file = file_read(r->s->arena, path, (size_t)1 << 36, &n, &why);
    r->weights_path = path;
    if (!file) return diag_error(&r->s->diags, E0601, (Span){0}, "cannot read `%s`: %s", path, why), false;
    if (n >= 8) memcpy(&n_head, file, 8);
    if (n_head <= n - 8 && n >= 8) r->weights = cJSON_ParseWithLength(file + 8, n_head);
    if (!cJSON_IsObject(r->weights)) {
        diag_error(&r->s->diags, E0614, (Span){0}, "%s: no weights as `train --save` writes them (safetensors)", path);
        return false;
    }
    r->weights_data = file + 8 + n_head;
    r->n_weights_data = n - 8 - n_head;
    return true;
}

/* Where element i of a value of type t lies in the stored tensor (IrTensor.stored_perm). */
static int64_t stored_at(const IrModule *m, const IrTensor *t, int64_t i)
{
    int64_t at[IR_MAX_DIMS], place = 0;
    for (uint32_t k = t->type.n_dims; k-- > 0;) {
        int64_t size = m->dims.data[t->type.dims[k]].size;
        at[k] = i % size;
        i /= size;
    }
    for (uint32_t k = 0; k < t->type.n_dims; k++)
        place = place * m->dims.data[t->type.dims[t->stored_perm[k]]].size + at[t->stored_perm[k]];
    return place;
}

static bool read_weights(Report *r, const IrModule *m, const IrTensor *t, EvalValue *x)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(r->weights, t->name),
                *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype"),
                *ends = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    double from = cJSON_GetNumberValue(cJSON_GetArrayItem(ends, 0)),
           to = cJSON_GetNumberValue(cJSON_GetArrayItem(ends, 1));
    int64_t n = x->rows * x->width;
    if (!entry) return misfit_weights(r, t->name, "is not in it");
    if (!cJSON_IsString(dtype) || strcmp(dtype->valuestring, "F32") != 0)
        return misfit_weights(r, t->name, "is not of dtype F32");
    if (!(from >= 0 && to <= (double)r->n_weights_data && to - from == 4 * (double)n))
        return misfit_weights(r, t->name, arena_printf(r->s->arena, "has not the model's %lld numbers", (long long)n));
    for (int64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, r->weights_data + (size_t)from + 4 * (size_t)stored_at(m, t, i), sizeof v);
        x->v[i] = (double)v;
    }
    return true;
}

/* ---- arguments ---- */

/* One of the two programs. */
typedef struct Side {
    const IrModule *m;
    Arena *arena;
    EvalWorld *w;
    EvalValue **tensors; /* [m->tensors.n] what functions read of each; NULL: not asked for yet */
} Side;

static const char *const no_memory = "an argument needs more than the interpreter's 2 GiB";

/* A tensor's value. NULL with *why or a diagnostic. */
static EvalValue *tensor_value(Report *r, Side *s, IrId id, const char **why)
{
    const IrTensor *t = &s->m->tensors.data[id];
    EvalValue *x = s->tensors[id] ? s->tensors[id] : eval_value_new(s->arena, s->m, s->w, t->type);
    bool known = s->tensors[id] != NULL;
    if (!x) *why = no_memory;
    if (!x || known) return x;
    if (t->kind == IR_HYPER) x->v[0] = t->hyper_default;
    else if (t->kind == IR_PARAM && r->weights && !read_weights(r, s->m, t, x)) return NULL;
    else if (t->kind != IR_INPUT && !(t->kind == IR_PARAM && r->weights)) fill_initial(r, t, x);
    else if (t->kind == IR_INPUT && !r->dir) draw_input(r, t->name, t->bound, x);
    else if (t->kind == IR_INPUT && !read_input(r, s->w->element_ids[t->type.space], t->name, x)) return NULL;
    for (int64_t i = 0; i < x->rows * x->width; i++) x->v[i] = eval_round(t->type.dtype, x->v[i]);
    return s->tensors[id] = x;
}

/* The results of a function, in memory of `a`; NULL with a diagnostic. */
static EvalValue **run(Report *r, Side *s, Arena *a, const IrFunc *f)
{
    const char *why = NULL;
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1), **results = NULL;
    for (uint32_t i = 0; i < f->args.n && !why; i++) {
        const IrArg *arg = &f->args.data[i];
        bool tensor = arg->kind == IR_ARG_TENSOR;
        args[i] = tensor ? tensor_value(r, s, arg->ref, &why) : eval_value_new(a, s->m, s->w, arg->type);
        if (!args[i] && !why && r->s->diags.n_errors) return NULL;
        if (!args[i]) why = no_memory;
        else if (arg->kind == IR_ARG_COTANGENT) draw_input(r, arg->name, 0, args[i]);
        else if (arg->kind == IR_ARG_SEED) args[i]->v[0] = (double)r->seed;
    }
    if (!why) results = eval_func(a, s->m, s->w, f, args, &why);
    if (results) return results;
    Diag *it = diag_error(&r->s->diags, E0910, (Span){0}, "`%s` cannot be interpreted: %s", f->name, why);
    diag_help(&r->s->diags, it, "take a smaller graph: leave out --data, or see `gnnc data generate`");
    return NULL;
}

static bool is_setup(const IrFunc *f) { return strncmp(f->name, "setup.", 6) == 0; }

/* Rows of each space that lists of edges join, by the module's spaces; -1: of others, and where nothing says them. */
static int64_t *count_types(Report *r, const IrModule *m)
{
    int64_t *counts = ARENA_ARRAY(r->s->arena, int64_t, m->spaces.n),
            *rows = r->dir ? facts_rows(r->s, m, r->dir) : NULL;
    for (uint32_t i = 0; i < m->spaces.n; i++) counts[i] = -1;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        if (!ir_graph_is_read(g->kind)) continue;
        counts[g->src_space] = rows ? rows[g->src_space] : RANDOM_NODES;
        counts[g->dst_space] = rows ? rows[g->dst_space] : RANDOM_NODES;
    }
    return counts;
}

/* The graphs, the nonzeros of sparse inputs, maps that inputs say, and what the functions `setup.*` compute once. */
static bool open_side(Report *r, Side *s, const IrModule *m)
{
    const char *why = NULL;
    *s = (Side){.m = m, .arena = arena_new(), .tensors = ARENA_ARRAY(r->s->arena, EvalValue *, m->tensors.n + 1)};
    const EvalData data = {.graph = r->has_graph ? &r->graph : NULL,
                           .graph_of = r->graph_of,
                           .n_graphs = r->n_graphs,
                           .counts = count_types(r, m),
                           .lists = r->lists.data,
                           .n_lists = r->lists.n};
    Npy npy;
    for (IrId i = 1; r->dir && i < m->spaces.n; i++)
        if (read_array(r, arena_printf(r->s->arena, "%s.batch", m->spaces.data[i].name), &npy))
            diag_error(&r->s->diags, E0910, (Span){0},
                       "`gnnc check --store` takes all nodes of several kinds as one graph, and %s has %s.batch.npy",
                       r->dir, m->spaces.data[i].name);
    if (r->s->diags.n_errors) return false;
    s->w = eval_world_of(s->arena, m, &data, &why);
    for (IrId t = 0; s->w && t < m->tensors.n; t++) {
        const IrNonzeros *of = &m->tensors.data[t].nonzeros;
        const EvalValue *whole = of->present ? tensor_value(r, s, of->of, &why) : NULL;
        if (of->present && !whole) break;
        if (whole && !(s->tensors[t] = eval_nonzeros(s->w, m, t, whole))) why = no_memory;
        const EvalValue *images = m->tensors.data[t].is_map ? tensor_value(r, s, t, &why) : NULL;
        if (images) eval_said_map(s->w, m, t, images);
    }
    if (why) diag_error(&r->s->diags, E0910, (Span){0}, "the model cannot be interpreted on this graph: %s", why);
    for (uint32_t i = 0; i < m->funcs.n && !r->s->diags.n_errors; i++) {
        const IrFunc *f = m->funcs.data[i];
        EvalValue **held = is_setup(f) ? run(r, s, s->arena, f) : NULL;
        for (uint32_t k = 0; held && k < f->results.n; k++) s->tensors[f->results.data[k].tensor] = held[k];
    }
    return !r->s->diags.n_errors;
}

static int64_t *integers(Report *r, const Npy *npy)
{
    int64_t *v = ARENA_ARRAY(r->s->arena, int64_t, npy->n + 1);
    for (int64_t i = 0; i < npy->n; i++) v[i] = (int64_t)npy_at(npy, i);
    return v;
}

static bool read_graph(Report *r)
{
    Npy npy;
    int64_t *ends, n = r->s->n_nodes;
    if (!read_array(r, "edge_index", &npy)) {
        if (!r->s->diags.n_errors)
            diag_error(&r->s->diags, E0910, (Span){0}, "`gnnc check --store` reads edge_index.npy, and %s has none",
                       r->dir);
        return false;
    }
    if (npy.n_dims != 2 || npy.shape[0] != 2 || npy.dtype[1] != 'i')
        return misfit(r, "edge_index.npy", "no integers [2, E]");
    ends = integers(r, &npy);
    for (int64_t i = 0; !r->s->n_nodes && i < npy.n; i++) n = ends[i] >= n ? ends[i] + 1 : n;
    r->graph = (EvalGraph){n, n, npy.shape[1], ends, ends + npy.shape[1]};
    if (!read_array(r, "batch", &npy)) return !r->s->diags.n_errors;
    if (npy.n != n) return misfit(r, "batch.npy", "other rows than there are nodes");
    r->graph_of = integers(r, &npy);
    for (int64_t i = 0; i < n; i++) r->n_graphs = r->graph_of[i] >= r->n_graphs ? r->graph_of[i] + 1 : r->n_graphs;
    return true;
}

static void draw_graph(Report *r)
{
    int64_t *ends = ARENA_ARRAY(r->s->arena, int64_t, 2 * RANDOM_EDGES);
    eval_random_edges(RANDOM_NODES, RANDOM_NODES, RANDOM_EDGES, (int64_t)r->seed, ends, ends + RANDOM_EDGES);
    r->graph = (EvalGraph){RANDOM_NODES, RANDOM_NODES, RANDOM_EDGES, ends, ends + RANDOM_EDGES};
    r->graph_of = ARENA_ARRAY(r->s->arena, int64_t, RANDOM_NODES);
    for (int64_t i = 0; i < RANDOM_NODES; i++) r->graph_of[i] = i * RANDOM_GRAPHS / RANDOM_NODES;
    r->n_graphs = RANDOM_GRAPHS;
}

/* ---- graphs between types of nodes ---- */

static bool has_list(const Report *r, const char *name)
{
    for (uint32_t i = 0; i < r->lists.n; i++)
        if (!strcmp(r->lists.data[i].name, name)) return true;
    return false;
}

/* An array of integers of the folder: [2, n] of both ends of edges, else [n]. */
static bool read_list(Report *r, const char *name, bool ends)
{
    Npy npy;
    if (has_list(r, name)) return true;
    const char *file = arena_printf(r->s->arena, "%s.npy", name);
    if (!read_array(r, name, &npy)) {
        if (!r->s->diags.n_errors)
            diag_error(&r->s->diags, E0910, (Span){0}, "`gnnc check --store` reads %s, and %s has none", file, r->dir);
        return false;
    }
    bool shaped = ends ? npy.n_dims == 2 && npy.shape[0] == 2 : npy.n_dims == 1;
    if (!shaped || npy.dtype[1] != 'i') return misfit(r, file, ends ? "no integers [2, E]" : "no integer for each row");
    const int64_t *v = integers(r, &npy);
    int64_t n = ends ? npy.shape[1] : npy.n;
    VEC_PUSH(r->s->arena, &r->lists, ((EvalList){name, n, v, ends ? v + n : NULL}));
    return true;
}

/* Draws the integers of the list `name`. They are edges' ends, each one of RANDOM_NODES nodes of its type, or, if
   is_type, a type for each edge, one of those that the module's relations ask for. */
static void draw_list(Report *r, const IrModule *m, const IrGraph *g, const char *name, bool is_type)
{
    if (has_list(r, name)) return;
    bool column = g->kind == IR_GRAPH_COLUMN;
    int64_t n = column ? RANDOM_NODES : RANDOM_EDGES, *v = ARENA_ARRAY(r->s->arena, int64_t, 2 * n), n_types = 0;
    int64_t *types = ARENA_ARRAY(r->s->arena, int64_t, m->graphs.n);
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *x = &m->graphs.data[i];
        if (x->where && !strcmp(x->where, name)) types[n_types++] = x->equals;
    }
    for (int64_t i = 0; i < 2 * n; i++) {
        uint32_t word = eval_philox(r->seed, name_hash(name), VALUES_SITE, (uint64_t)i, 0);
        v[i] = is_type ? types[word % n_types] : word % RANDOM_NODES;
    }
    VEC_PUSH(r->s->arena, &r->lists, ((EvalList){name, n, v, column || is_type ? NULL : v + n}));
}

/* What says the module's graphs: of the folder, or drawn. */
static bool make_graphs(Report *r, const IrModule *m)
{
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        r->has_graph |= g->kind == IR_GRAPH_DATA;
        if (!ir_graph_is_read(g->kind)) continue;
        const char *file = ir_graph_file(g);
        if (r->dir && (!read_list(r, file, g->kind == IR_GRAPH_FILE) || (g->where && !read_list(r, g->where, false))))
            return false;
        if (!r->dir) draw_list(r, m, g, file, false);
        if (!r->dir && g->where) draw_list(r, m, g, g->where, true);
    }
    r->has_graph |= !r->lists.n;
    if (r->has_graph && r->dir) return read_graph(r);
    if (r->has_graph) draw_graph(r);
    return true;
}

/* ---- what is compared ----------------------------------------------------------------------------------------- */

/* Of one result; see the head of the file. */
typedef struct Error {
    int64_t n, n_undecided;
    double largest, difference, bound;
} Error;

/* A NaN beside a number is infinitely far. */
static double apart(double x, double y)
{
    if (x == y || (isnan(x) && isnan(y))) return 0;
    return isnan(x - y) ? INFINITY : fabs(x - y);
}

static Error compare(const EvalValue *exact, const EvalValue *kept)
{
    Error e = {.n = exact->rows * exact->width};
    for (int64_t i = 0; i < e.n; i++) {
        double d = apart(exact->v[i], kept->v[i]);
        e.largest = fmax(e.largest, fabs(exact->v[i]));
        e.difference = fmax(e.difference, d);
        if (kept->undecided[i]) e.n_undecided++;
        else e.bound = fmax(e.bound, d + kept->err[i]);
    }
    return e;
}

static void put_number(StrBuf *out, const char *key, double v)
{
    if (isfinite(v)) strbuf_printf(out, ", \"%s\": %.9g", key, v);
    else strbuf_printf(out, ", \"%s\": null", key);
}

static void put_row(StrBuf *out, bool json, bool first, const char *function, const char *result, const Error *e)
{
    double relative = e->difference == 0 ? 0 : e->difference / e->largest;
    bool bounded = e->n_undecided < e->n;
    if (!json) {
        strbuf_printf(out, "%-12s %-36s %10.3g %10.3g %10.3g", function, result, e->largest, e->difference, relative);
        strbuf_printf(out, bounded ? " %10.3g" : "       none", e->bound);
        strbuf_printf(out, " %9lld of %lld\n", (long long)e->n_undecided, (long long)e->n);
        return;
    }
    strbuf_puts(out, first ? "\n  {\"program\": " : ",\n  {\"program\": ");
    strbuf_json(out, function);
    strbuf_puts(out, ", \"result\": ");
    strbuf_json(out, result);
    put_number(out, "largest", e->largest);
    put_number(out, "difference", e->difference);
    put_number(out, "relative", relative);
    put_number(out, "bound", bounded ? e->bound : INFINITY);
    strbuf_printf(out, ", \"elements\": %lld, \"undecided\": %lld}", (long long)e->n, (long long)e->n_undecided);
}

static bool report_function(Report *r, Side *exact, Side *kept, const IrFunc *f, StrBuf *out, bool json)
{
    Arena *a = arena_new();
    EvalValue **x = run(r, exact, a, ir_func_find(exact->m, f->name)), **y = x ? run(r, kept, a, f) : NULL;
    for (uint32_t i = 0; y && i < f->results.n; i++) {
        Error e = compare(x[i], y[i]);
        put_row(out, json, out->data[out->n - 1] == '[', f->name, f->results.data[i].name, &e);
    }
    arena_free(a);
    return y != NULL;
}

/* The graph IR of the executable that `build` makes, without the casts or with them. */
static const IrModule *after_passes(Session *s, const IrModule *m, bool narrow)
{
    PassContext ctx;
    if (!pipeline_context(s, &ctx)) return NULL;
    if (!narrow) ctx.store = IR_F32;
    return pass_run_pipeline(&ctx, m);
}

static void put_head(const Report *r, bool json, const char *store, StrBuf *out)
{
    if (json) {
        strbuf_printf(out, "{\"store\": \"%s\", \"data\": ", store);
        if (r->dir) strbuf_json(out, r->dir);
        else strbuf_puts(out, "null");
        strbuf_printf(out, ", \"seed\": %llu, \"results\": [", (unsigned long long)r->seed);
        return;
    }
    strbuf_printf(
        out, "errors of --store %s on %s, ", store,
        r->dir ? r->dir
               : arena_printf(r->s->arena, "a random graph of %d nodes and %d edges", RANDOM_NODES, RANDOM_EDGES));
    if (r->weights) strbuf_printf(out, "weights of %s\n", r->weights_path);
    else strbuf_printf(out, "initial weights of seed %llu\n", (unsigned long long)r->seed);
    strbuf_printf(out, "%-12s %-36s %10s %10s %10s %10s %s\n", "program", "result", "largest", "difference", "relative",
                  "bound", "undecided");
}

int store_error_report(Session *s, const char *path)
{
    Report r = {.s = s, .dir = opt_value(&s->opt, OPT_DATA, NULL)};
    bool json = strcmp(opt_value(&s->opt, OPT_FORMAT, "text"), "json") == 0;
    StrBuf out = {.arena = s->arena};
    Side sides[2] = {0};
    s->opt.values[OPT_VJP] = "joint"; /* as executables have it */
    const IrModule *m = pipeline_load(s, path), *exact, *kept;
    if (m) m = ir_without_tests(s->arena, m);
    if (!m || !(kept = after_passes(s, m, true)) || !(exact = after_passes(s, m, false))) return 1;
    r.seed = (uint64_t)opt_int(&s->opt, OPT_SEED, m->train.present ? m->train.seed : 0, 0, INT64_C(1) << 52, &s->diags);
    bool ok = make_graphs(&r, kept) &&
              (!opt_has(&s->opt, OPT_WEIGHTS) || open_weights(&r, opt_value(&s->opt, OPT_WEIGHTS, ""))) &&
              !s->diags.n_errors && open_side(&r, &sides[0], exact) && open_side(&r, &sides[1], kept);
    put_head(&r, json, opt_value(&s->opt, OPT_STORE, ""), &out);
    for (uint32_t i = 0; i < kept->funcs.n && ok; i++)
        if (!is_setup(kept->funcs.data[i]))
            ok = report_function(&r, &sides[0], &sides[1], kept->funcs.data[i], &out, json);
    for (int i = 0; i < 2; i++)
        if (sides[i].arena) arena_free(sides[i].arena);
    cJSON_Delete(r.weights);
    if (!ok) return 1;
    if (json) strbuf_puts(&out, "\n]}\n");
    fputs(strbuf_cstr(&out), stdout);
    s->printed_json = json;
    return 0;
}
