/* The library form (see gnnrt.h): a thin layer over graphs, tensors and the execution core. Reads
   no environment, keeps nothing global, never prints. Values of spaces that are stored in another
   order than the user's pass through scratch in the context's workspace. */
#include "runtime/gnnrt.h"
#include "runtime/cone.h"
#include "runtime/convert.h"
#include "runtime/cuda.h"
#include "runtime/cpu.h"
#include "runtime/exec.h"
#include "runtime/weights.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct GnnrtModel {
    const RtModel *m;
    int variant;
    int64_t forward, vjp;     /* programs, -1: absent */
    int64_t seed;             /* of initial values */
    RtTensors tensors;        /* parameters, state and hypers of the unit space */
    int64_t n_changes;        /* of them: devices have copies */
    int64_t *inputs, *params; /* tensors, in the order of forward's arguments */
    int32_t n_inputs, n_params;
};

struct GnnrtGraph {
    RtGraph *g;
};

/* A program of a context. Scratch: for each value in a reordered space, room for its stored order. On a device there is
   none, and a program stays bound while its caller gives the same memory. */
typedef struct Half {
    RtExec *exec;
    char *scratch;
    const void **lent; /* [n_tensors] on a device: the caller's memory; NULL: the model's */
    bool bound;        /* there, to what was given last */
} Half;

struct GnnrtContext {
    const GnnrtModel *model;
    const RtGraph *g;
    bool with_vjp;
    RtBlock own; /* the workspace, unless the caller gave one */
    char *workspace;
    Half forward, vjp;
    RtPool *pool;        /* NULL: inline */
    RtCuda *device;      /* NULL: the CPU */
    int64_t n_changes;   /* of the model's parameters that the device has */
    const void **params; /* [n_tensors] the caller's own; NULL: the model's */
    int64_t seed, step;
};

/* ---- status ---- */

static int32_t report(RtCode code, const RtStatus *st, GnnrtStatus *out)
{
    if (!out) return (int32_t)code;
    out->code = (int32_t)code;
    out->message[0] = 0;
    if (!code) return 0;
    size_t size = sizeof out->message;
    int n = snprintf(out->message, size, "%s%s%s%s%s", st->place, st->place[0] ? ": " : "", st->message,
                     st->note[0] ? "\n" : "", st->note);
    int room = (int)size - n - 2; /* less than a hint where all else is as long as it can be */
    if (st->hint[0]) snprintf(out->message + n, size - (size_t)n, "\n%.*s", room, st->hint);
    return (int32_t)code;
}

const char *gnnrt_code_name(int32_t code) { return rt_code_name((RtCode)code); }

static RtCode bad_argument(RtStatus *st, const char *what)
{
    return rt_fail(st, RT_E_MODEL_ARGUMENT, NULL, "see the comments of the header", "%s", what);
}

/* MODEL_ARGUMENT for a pointer that is NULL and that the caller must give. */
static RtCode need(const void *p, const char *what, RtStatus *st)
{
    return p ? RT_OK : rt_fail(st, RT_E_MODEL_ARGUMENT, what, "see the comments of the header", "%s is NULL", what);
}

/* ---- model ---- */

static const RtProgram *program(const GnnrtModel *model, int64_t index)
{
    assert(index < model->m->n_programs);
    return index < 0 ? NULL : &model->m->programs[index];
}

/* The programs of a model, or NULL where it has none, or is NULL itself. */
static const RtProgram *forward_of(const GnnrtModel *model) { return model ? program(model, model->forward) : NULL; }
static const RtProgram *vjp_of(const GnnrtModel *model) { return model ? program(model, model->vjp) : NULL; }

static void sort_arguments(GnnrtModel *model)
{
    const RtProgram *p = program(model, model->forward);
    for (int64_t i = 0; i < p->n_argdefs; i++) {
        const RtArgDef *a = &model->m->argdefs[p->first_argdef + i];
        if (a->kind != RT_ARG_TENSOR) continue;
        if (model->m->tensors[a->ref].kind == RT_INPUT) model->inputs[model->n_inputs++] = a->ref;
        if (model->m->tensors[a->ref].kind == RT_PARAM) model->params[model->n_params++] = a->ref;
    }
}

static RtCode model_setup(GnnrtModel *model, int64_t seed, int32_t cpu, RtStatus *st)
{
    const RtModel *m = model->m;
    int best = rt_cpu_best();
    if (m->abi_version != RT_ABI_VERSION)
        return rt_fail(st, RT_E_MODEL_ABI, NULL, "build the model and the library with one compiler",
                       "the tables have ABI version %lld, the library %d", (long long)m->abi_version, RT_ABI_VERSION);
    if (cpu != GNNRT_BEST_CPU && (cpu < 0 || cpu > best))
        return rt_fail(st, RT_E_MODEL_VARIANT, NULL, "use GNNRT_BEST_CPU", "this CPU runs at best %s kernels",
                       rt_cpu_name(best));
    model->variant = cpu == GNNRT_BEST_CPU ? best : cpu;
    model->seed = seed;
    model->forward = rt_program_find(m, "forward");
    model->vjp = rt_program_find(m, "vjp");
    if (model->forward < 0)
        return rt_fail(st, RT_E_MODEL_FUNCTION, rt_string(m, m->name), NULL, "the model has no function forward");
    int64_t n = m->programs[model->forward].n_argdefs;
    RT_TRY(rt_alloc(&model->inputs, n, sizeof *model->inputs, "a model", st));
    RT_TRY(rt_alloc(&model->params, n, sizeof *model->params, "a model", st));
    sort_arguments(model);
    RT_TRY(rt_tensors_create(m, NULL, &model->tensors, st));
    rt_tensors_init(&model->tensors, seed);
    return RT_OK;
}

int32_t gnnrt_model_create(const void *tables, int64_t seed, int32_t cpu, GnnrtModel **out, GnnrtStatus *status)
{
    RtStatus st = {0};
    GnnrtModel *model;
    RtCode code = need(out, "the output handle", &st);
    if (!code) *out = NULL, code = need(tables, "tables", &st);
    if (!code) code = rt_alloc(&model, 1, sizeof *model, "a model", &st);
    if (code) return report(code, &st, status);
    model->m = tables;
    code = model_setup(model, seed, cpu, &st);
    if (code) gnnrt_model_free(model);
    else *out = model;
    return report(code, &st, status);
}

void gnnrt_model_free(GnnrtModel *model)
{
    if (!model) return;
    if (model->tensors.model) rt_tensors_free(&model->tensors);
    free(model->inputs);
    free(model->params);
    free(model);
}

int32_t gnnrt_model_load(GnnrtModel *model, const char *path, GnnrtStatus *status)
{
    RtStatus st = {0};
    RtCode code = need(model, "model", &st);
    if (!code) code = need(path, "path", &st);
    if (!code) code = rt_weights_load(&model->tensors, path, &st), model->n_changes++;
    return report(code, &st, status);
}

int32_t gnnrt_model_load_memory(GnnrtModel *model, const void *bytes, size_t n_bytes, GnnrtStatus *status)
{
    RtStatus st = {0};
    RtCode code = need(model, "model", &st);
    if (!code && n_bytes) code = need(bytes, "bytes", &st);
    if (!code) code = rt_weights_load_memory(&model->tensors, bytes, n_bytes, &st), model->n_changes++;
    return report(code, &st, status);
}

int32_t gnnrt_model_save(const GnnrtModel *model, const char *path, GnnrtStatus *status)
{
    RtStatus st = {0};
    RtCode code = need(model, "model", &st);
    if (!code) code = need(path, "path", &st);
    return report(code ? code : rt_weights_save(&model->tensors, path, &st), &st, status);
}

int32_t gnnrt_n_inputs(const GnnrtModel *model) { return model ? model->n_inputs : 0; }
int32_t gnnrt_n_params(const GnnrtModel *model) { return model ? model->n_params : 0; }

static int32_t n_results(const RtProgram *p) { return p ? (int32_t)p->n_results : 0; }

int32_t gnnrt_n_results(const GnnrtModel *model) { return n_results(forward_of(model)); }
int32_t gnnrt_n_gradients(const GnnrtModel *model) { return n_results(vjp_of(model)); }
const char *gnnrt_manifest(const GnnrtModel *model) { return model ? rt_string(model->m, model->m->manifest) : NULL; }

static GnnrtTensorInfo tensor_info(const RtModel *m, int64_t tensor)
{
    const RtTensorDef *t = &m->tensors[tensor];
    GnnrtTensorInfo info = {.name = rt_string(m, t->name), .space = rt_string(m, m->spaces[t->space].name)};
    info.space_index = (int32_t)t->space;
    info.dtype = (int32_t)t->dtype;
    info.n_dims = (int32_t)t->n_dims;
    info.width = t->width;
    memcpy(info.dims, t->dims, sizeof info.dims);
    return info;
}

static GnnrtTensorInfo result_info(const GnnrtModel *model, const RtProgram *p, int32_t i)
{
    if (!p || i < 0 || i >= p->n_results) return (GnnrtTensorInfo){0};
    const RtResultDef *r = &model->m->results[p->first_result + i];
    GnnrtTensorInfo info = {.name = rt_string(model->m, r->name)};
    info.space = rt_string(model->m, model->m->spaces[r->space].name);
    info.space_index = (int32_t)r->space;
    info.dtype = (int32_t)r->dtype;
    info.n_dims = (int32_t)r->n_dims;
    info.width = r->width;
    memcpy(info.dims, r->dims, sizeof info.dims);
    return info;
}

GnnrtTensorInfo gnnrt_input(const GnnrtModel *model, int32_t i)
{
    if (i < 0 || i >= gnnrt_n_inputs(model)) return (GnnrtTensorInfo){0};
    return tensor_info(model->m, model->inputs[i]);
}

GnnrtTensorInfo gnnrt_param(const GnnrtModel *model, int32_t i)
{
    if (i < 0 || i >= gnnrt_n_params(model)) return (GnnrtTensorInfo){0};
    return tensor_info(model->m, model->params[i]);
}

GnnrtTensorInfo gnnrt_result(const GnnrtModel *model, int32_t i) { return result_info(model, forward_of(model), i); }

GnnrtTensorInfo gnnrt_gradient(const GnnrtModel *model, int32_t i) { return result_info(model, vjp_of(model), i); }

/* The model's own copy of parameter i, to or from data: its tensor, or why there is none. */
static RtCode own_param(const GnnrtModel *model, int32_t i, const void *data, int64_t *tensor, RtStatus *st)
{
    RT_TRY(need(model, "model", st));
    RT_TRY(need(data, "data", st));
    if (i < 0 || i >= model->n_params) return bad_argument(st, "there is no parameter of this number");
    *tensor = model->params[i];
    if (!model->tensors.data[*tensor])
        return bad_argument(st, "a parameter with one row per element belongs to a context: use context_bind_param");
    return RT_OK;
}

static size_t param_bytes(const GnnrtModel *model, int64_t tensor)
{
    return (size_t)(model->tensors.counts[tensor] * rt_dtype_bytes(model->m->tensors[tensor].dtype));
}

int32_t gnnrt_param_set(GnnrtModel *model, int32_t i, const void *data, GnnrtStatus *status)
{
    RtStatus st = {0};
    int64_t tensor = 0;
    RtCode code = own_param(model, i, data, &tensor, &st);
    if (!code) memcpy(model->tensors.data[tensor], data, param_bytes(model, tensor)), model->n_changes++;
    return report(code, &st, status);
}

int32_t gnnrt_param_get(const GnnrtModel *model, int32_t i, void *data, GnnrtStatus *status)
{
    RtStatus st = {0};
    int64_t tensor = 0;
    RtCode code = own_param(model, i, data, &tensor, &st);
    if (!code) memcpy(data, model->tensors.data[tensor], param_bytes(model, tensor));
    return report(code, &st, status);
}

/* ---- graph ---- */

static const GnnrtRowCount *count_named(const GnnrtGraphDesc *d, const char *space)
{
    for (int64_t i = 0; i < d->n_counts; i++)
        if (d->counts[i].space && !strcmp(d->counts[i].space, space)) return &d->counts[i];
    return NULL;
}

/* Whether lists of edges lead to or from the rows: how many there are, only `counts` says where they are no nodes of
   the data's graph. */
static bool is_listed(const RtModel *m, int64_t space)
{
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const RtGraphDef *g = &m->graphs[i];
        if (rt_graph_is_read(g) && (g->src_space == space || g->dst_space == space)) return true;
    }
    return false;
}

/* Counts that are given by name, of the data graph's node spaces, and of what batch ids lead to. */
static RtCode fill_counts(const RtModel *m, const GnnrtGraphDesc *d, int64_t *counts, const int64_t **graphs_of,
                          RtStatus *st)
{
    for (int64_t i = 0; i < m->n_spaces; i++) {
        const GnnrtRowCount *given = count_named(d, m->strings + m->spaces[i].name);
        counts[i] = given ? given->n : -1;
        graphs_of[i] = given ? given->graph_of : NULL;
    }
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const RtGraphDef *g = &m->graphs[i];
        if (g->kind != RT_GRAPH_DATA) continue;
        if (g->src_space == g->dst_space && d->n_src != d->n_dst)
            return bad_argument(st, "n_src and n_dst differ, but the model's graph has one space of nodes");
        counts[g->src_space] = d->n_src;
        counts[g->dst_space] = d->n_dst;
    }
    for (int64_t i = 0; i < m->n_maps; i++) {
        int64_t to = m->maps[i].to;
        if (counts[to] < 0 && !m->spaces[to].is_edge && !is_listed(m, to))
            counts[to] = d->n_graphs > 0 ? d->n_graphs : 1;
    }
    for (int64_t i = 1; i < m->n_spaces; i++)
        if (counts[i] < 0 && !m->spaces[i].is_edge && !is_listed(m, i)) counts[i] = d->n_dst;
    return RT_OK;
}

static const GnnrtEdgeList *list_named(const GnnrtGraphDesc *d, const char *name)
{
    for (int64_t i = 0; i < d->n_lists; i++)
        if (d->lists[i].name && !strcmp(d->lists[i].name, name)) return &d->lists[i];
    return NULL;
}

/* The edges of the graphs that are lists of their own. */
static RtCode find_lists(const RtModel *m, const GnnrtGraphDesc *d, RtEdgeIds *files, RtStatus *st)
{
    for (int64_t i = 0; i < m->n_graphs; i++) {
        const char *name = m->strings + m->graphs[i].name;
        if (!rt_graph_is_read(&m->graphs[i])) continue;
        const GnnrtEdgeList *list = list_named(d, name);
        bool rows = m->graphs[i].kind == RT_GRAPH_COLUMN;
        if (!list)
            return rt_declared_graph(
                rt_fail(st, RT_E_DATA_MISSING, name, "give it in `lists`", "the model reads this list of edges"), m,
                &m->graphs[i], st);
        if (list->n_edges < 0 || (list->n_edges && ((!list->src && !rows) || !list->dst)))
            return bad_argument(st, "a list of edges has a negative count or NULL for src or dst");
        files[i] = (RtEdgeIds){name, list->n_edges, list->src, list->dst, NULL};
    }
    return RT_OK;
}

/* Where the graph has one thing for each pair of a row and what an input says, it is made from the input. */
static RtCode say_map(RtGraph *g, const RtTensorDef *t, const GnnrtGraphDesc *d, RtStatus *st)
{
    const RtModel *m = g->model;
    const char *name = rt_string(m, t->name);
    const GnnrtGraphInput *given = NULL;
    int64_t count = g->spaces[t->space].count;
    RtBlock stored;
    for (int64_t i = 0; i < d->n_inputs && !given; i++)
        if (d->inputs[i].name && !strcmp(d->inputs[i].name, name)) given = &d->inputs[i];
    if (!given)
        return rt_fail(st, RT_E_DATA_MISSING, name, "give it in `inputs` of the graph, too",
                       "the library was built with --graph-inputs, and makes the graph with this input");
    if (count) RT_TRY(need(given->data, name, st));
    RT_TRY(rt_check_bound(given->data, t->dtype, count, t->bound, t->allow_missing != 0, name, st));
    RT_TRY(rt_block_alloc(&stored, rt_size_plus(1, count, rt_dtype_bytes(t->dtype)), name, st));
    rt_graph_to_stored(g, t->space, rt_dtype_bytes(t->dtype), given->data, stored.p);
    RtCode code = rt_graph_say_map(g, t->map, t->dtype, stored.p, st);
    rt_block_free(&stored);
    return code;
}

static RtCode graph_setup(const RtModel *m, const GnnrtGraphDesc *d, RtGraph **g, RtStatus *st)
{
    if (d->n_src < 0 || d->n_dst < 0 || d->n_edges < 0 || d->n_graphs < 0)
        return bad_argument(st, "a count of the graph is negative");
    if (d->n_edges && (!d->src || !d->dst)) return bad_argument(st, "src or dst is NULL");
    if (d->n_lists < 0 || (d->n_lists && !d->lists)) return bad_argument(st, "n_lists is negative, or lists is NULL");
    if (d->n_counts < 0 || (d->n_counts && !d->counts))
        return bad_argument(st, "n_counts is negative, or counts is NULL");
    if (d->n_inputs < 0 || (d->n_inputs && !d->inputs))
        return bad_argument(st, "n_inputs is negative, or inputs is NULL");
    int64_t *counts = NULL;
    const int64_t **graphs_of = NULL;
    RtEdgeIds *files = NULL;
    RtCode code = rt_alloc(&counts, m->n_spaces, sizeof *counts, "a graph", st);
    if (!code) code = rt_alloc(&graphs_of, m->n_spaces, sizeof *graphs_of, "a graph", st);
    if (!code) code = rt_alloc(&files, m->n_graphs, sizeof *files, "a graph", st);
    RtTopology t = {.place = "graph",
                    .n_edges = d->n_edges,
                    .src = d->src,
                    .dst = d->dst,
                    .graph_of = d->graph_of,
                    .graphs_of = graphs_of,
                    .files = files,
                    .counts = counts};
    if (!code) code = find_lists(m, d, files, st);
    if (!code) code = fill_counts(m, d, counts, graphs_of, st);
    if (!code) code = rt_graph_create(m, &t, g, st);
    for (int64_t i = 0; !code && i < m->n_tensors; i++)
        if (m->tensors[i].is_map) code = rt_declared_tensor(say_map(*g, &m->tensors[i], d, st), m, i, st);
    free(files);
    free(graphs_of);
    free(counts);
    return code;
}

int32_t gnnrt_graph_create(const GnnrtModel *model, const GnnrtGraphDesc *desc, GnnrtGraph **out, GnnrtStatus *status)
{
    RtStatus st = {0};
    GnnrtGraph *graph;
    RtCode code = need(out, "the output handle", &st);
    if (!code) *out = NULL, code = need(model, "model", &st);
    if (!code) code = need(desc, "desc", &st);
    if (!code) code = rt_alloc(&graph, 1, sizeof *graph, "a graph", &st);
    if (code) return report(code, &st, status);
    code = graph_setup(model->m, desc, &graph->g, &st);
    if (code) gnnrt_graph_free(graph);
    else *out = graph;
    return report(code, &st, status);
}

void gnnrt_graph_free(GnnrtGraph *graph)
{
    if (!graph) return;
    rt_graph_free(graph->g);
    free(graph);
}

int64_t gnnrt_graph_count(const GnnrtGraph *graph, int32_t space)
{
    return !graph || space < 0 || space >= graph->g->model->n_spaces ? -1 : graph->g->spaces[space].count;
}

/* The parameter alone, with the rows of the graph in the caller's order: where it is to be put. */
static RtCode put_param(const GnnrtModel *model, const RtGraph *g, int64_t tensor, const char *path, void *data,
                        RtStatus *st)
{
    RtTensors one = {.model = model->m};
    RtCode code = rt_alloc(&one.data, model->m->n_tensors, sizeof *one.data, "a parameter", st);
    if (!code) code = rt_alloc(&one.counts, model->m->n_tensors, sizeof *one.counts, "a parameter", st);
    if (!code) {
        rt_tensors_count(&one, g);
        one.data[tensor] = data;
        if (path) code = rt_weights_read(&one, tensor, path, data, st);
        else rt_tensors_init(&one, model->seed);
    }
    rt_tensors_free(&one);
    return code;
}

int32_t gnnrt_param_read(const GnnrtModel *model, const GnnrtGraph *graph, int32_t i, const char *path, void *data,
                         GnnrtStatus *status)
{
    RtStatus st = {0};
    RtCode code = need(model, "model", &st);
    if (!code) code = need(graph, "graph", &st);
    if (!code) code = need(data, "data", &st);
    if (!code && (i < 0 || i >= model->n_params)) code = bad_argument(&st, "there is no parameter of this number");
    if (!code && graph->g->model != model->m) code = bad_argument(&st, "the graph was made for another model");
    return report(code ? code : put_param(model, graph->g, model->params[i], path, data, &st), &st, status);
}

/* ---- workspace: [arena of forward][its scratch][arena of vjp][its scratch] ---- */

/* Room for a value in stored order, 0 if the user's order is the stored one; -1 on overflow. */
static int64_t scratch_bytes(const RtGraph *g, int64_t space, int64_t width, int64_t dtype)
{
    int64_t n;
    if (!g->spaces[space].ids) return 0;
    if (!rt_mul(g->spaces[space].count, width, &n) || !rt_mul(n, rt_dtype_bytes(dtype), &n) || !rt_add(n, 63, &n))
        return -1;
    return n & ~(int64_t)63;
}

static int64_t tensor_scratch(const RtModel *m, const RtGraph *g, int64_t tensor)
{
    const RtTensorDef *t = &m->tensors[tensor];
    return scratch_bytes(g, t->space, t->width, t->dtype);
}

static int64_t result_scratch(const RtModel *m, const RtGraph *g, const RtProgram *p, int64_t i)
{
    const RtResultDef *r = &m->results[p->first_result + i];
    return scratch_bytes(g, r->space, r->width, r->dtype);
}

static bool add_bytes(int64_t *total, int64_t bytes) { return bytes >= 0 && rt_add(*total, bytes, total); }

/* Inputs, parameters with rows, results, and for vjp cotangents. */
static bool half_scratch(const GnnrtModel *model, const RtGraph *g, int64_t index, int64_t *total)
{
    const RtProgram *p = program(model, index), *forward = program(model, model->forward);
    bool ok = true;
    for (int32_t i = 0; i < model->n_inputs; i++) ok &= add_bytes(total, tensor_scratch(model->m, g, model->inputs[i]));
    for (int32_t i = 0; i < model->n_params; i++) ok &= add_bytes(total, tensor_scratch(model->m, g, model->params[i]));
    for (int64_t i = 0; i < p->n_results; i++) ok &= add_bytes(total, result_scratch(model->m, g, p, i));
    for (int64_t i = 0; index == model->vjp && i < forward->n_results; i++)
        ok &= add_bytes(total, result_scratch(model->m, g, forward, i));
    return ok;
}

/* Bytes of the arena, and of arena and scratch together. */
static RtCode half_bytes(const GnnrtModel *model, const RtGraph *g, int64_t index, int64_t *arena, int64_t *total,
                         RtStatus *st)
{
    RT_TRY(rt_arena_bytes(model->m, index, g, arena, st));
    *total = *arena;
    if (half_scratch(model, g, index, total)) return RT_OK;
    return rt_fail(st, RT_E_OVERFLOW, NULL, "use a smaller graph or narrower layers",
                   "the workspace overflows 64 bits");
}

static RtCode context_bytes(const GnnrtModel *model, const RtGraph *g, bool with_vjp, int64_t *total, RtStatus *st)
{
    int64_t arena, bytes;
    RT_TRY(half_bytes(model, g, model->forward, &arena, total, st));
    if (!with_vjp) return RT_OK;
    RT_TRY(half_bytes(model, g, model->vjp, &arena, &bytes, st));
    return rt_add(*total, bytes, total) ? RT_OK : rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "the workspace overflows");
}

int64_t gnnrt_workspace_bytes(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp)
{
    int64_t total;
    if (!model || !graph || graph->g->model != model->m || (with_vjp && model->vjp < 0)) return -1;
    return context_bytes(model, graph->g, with_vjp != 0, &total, NULL) ? -1 : total;
}

/* ---- context ---- */

static RtCode make_half(GnnrtContext *c, int64_t index, char **at, Half *half, RtStatus *st)
{
    int64_t arena, total;
    RT_TRY(half_bytes(c->model, c->g, index, &arena, &total, st));
    RtExecOptions o = {
        .variant = c->model->variant, .pool = c->pool, .workspace = *at, .workspace_bytes = (size_t)arena};
    RT_TRY(rt_exec_create(c->model->m, index, c->g, &o, &half->exec, st));
    half->scratch = *at + arena;
    *at += total;
    return RT_OK;
}

static void free_halves(GnnrtContext *c)
{
    rt_exec_free(c->forward.exec);
    rt_exec_free(c->vjp.exec);
    free(c->forward.lent);
    free(c->vjp.lent);
    c->forward = c->vjp = (Half){0};
}

/* Binds the programs to the workspace; anew when the number of threads changes. */
static RtCode make_halves(GnnrtContext *c, RtStatus *st)
{
    char *at = c->workspace;
    free_halves(c);
    RT_TRY(make_half(c, c->model->forward, &at, &c->forward, st));
    return c->with_vjp ? make_half(c, c->model->vjp, &at, &c->vjp, st) : RT_OK;
}

/* A context of that model and graph, which runs nowhere yet; *c is NULL or to be freed, also on failure. */
static RtCode new_context(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp, GnnrtContext **c,
                          RtStatus *st)
{
    *c = NULL;
    RT_TRY(need(model, "model", st));
    RT_TRY(need(graph, "graph", st));
    RT_TRY(rt_alloc(c, 1, sizeof **c, "a context", st));
    (*c)->model = model;
    (*c)->g = graph->g;
    (*c)->with_vjp = with_vjp != 0;
    if (with_vjp && model->vjp < 0)
        return rt_fail(st, RT_E_MODEL_FUNCTION, rt_string(model->m, model->m->name), NULL, "the model has no vjp");
    if (graph->g->model != model->m) return bad_argument(st, "the graph was made for another model");
    return rt_alloc(&(*c)->params, model->m->n_tensors, sizeof *(*c)->params, "a context", st);
}

static RtCode setup_here(GnnrtContext *c, void *workspace, size_t have, RtStatus *st)
{
    int64_t want;
    RT_TRY(context_bytes(c->model, c->g, c->with_vjp, &want, st));
    c->workspace = workspace;
    if (!workspace) {
        RT_TRY(rt_block_alloc(&c->own, rt_size_plus(want, 1, 64), "a context", st));
        c->workspace = c->own.p;
    } else if (have < (size_t)want || (uintptr_t)workspace % 64) {
        return rt_fail(st, RT_E_MODEL_ARGUMENT, "workspace", "ask workspace_bytes first",
                       "found %zu bytes at %p, wanted %lld, aligned to 64", have, workspace, (long long)want);
    }
    return make_halves(c, st);
}

int32_t gnnrt_context_create(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp, void *workspace,
                             size_t workspace_bytes, GnnrtContext **out, GnnrtStatus *status)
{
    RtStatus st = {0};
    GnnrtContext *c = NULL;
    RtCode code = need(out, "the output handle", &st);
    if (!code) *out = NULL, code = new_context(model, graph, with_vjp, &c, &st);
    if (!code) code = setup_here(c, workspace, workspace_bytes, &st);
    if (code) gnnrt_context_free(c);
    else *out = c;
    return report(code, &st, status);
}

/* ---- a context on a device ---- */

/* Values of these stand in memory as the caller has them: there is no kernel that puts them into another order. */
static RtCode needs_order(const GnnrtContext *c, int64_t space, int64_t name, RtStatus *st)
{
    if (!c->g->spaces[space].ids) return RT_OK;
    return rt_fail(st, RT_E_DEVICE_REFUSED, rt_string(c->model->m, name),
                   "give the graph's edges sorted by dst, stably, and values of edges in that order",
                   "on a device, values of edges stand in the order of the edges' targets, and this graph has another");
}

static RtCode check_orders(const GnnrtContext *c, RtStatus *st)
{
    const RtModel *m = c->model->m;
    const RtProgram *const both[] = {forward_of(c->model), c->with_vjp ? vjp_of(c->model) : NULL};
    for (int32_t i = 0; i < c->model->n_inputs + c->model->n_params; i++) {
        int32_t param = i - c->model->n_inputs;
        const RtTensorDef *t = &m->tensors[param < 0 ? c->model->inputs[i] : c->model->params[param]];
        RT_TRY(needs_order(c, t->space, t->name, st));
    }
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; both[k] && i < both[k]->n_results; i++) {
            const RtResultDef *r = &m->results[both[k]->first_result + i];
            RT_TRY(needs_order(c, r->space, r->name, st));
        }
    return RT_OK;
}

static RtCode make_half_there(GnnrtContext *c, int64_t index, Half *half, RtStatus *st)
{
    RtExecOptions o = {.variant = c->model->variant, .split = -1, .cone = RT_CONE_OFF, .device = c->device};
    RT_TRY(rt_exec_create(c->model->m, index, c->g, &o, &half->exec, st));
    return rt_alloc(&half->lent, c->model->m->n_tensors, sizeof *half->lent, "a context", st);
}

/* The model's parameters to the device, if they have changed, once nothing that was begun reads them any more. */
static RtCode push_params(GnnrtContext *c, RtStatus *st)
{
    if (c->n_changes == c->model->n_changes) return RT_OK;
    rt_cuda_wait(c->device);
    RT_TRY(rt_cuda_push(c->device, c->model->tensors.data, st));
    c->n_changes = c->model->n_changes;
    return rt_cuda_settle(c->device, st);
}

static RtCode setup_there(GnnrtContext *c, int32_t device, void *stream, RtStatus *st)
{
    if (device < 0) return bad_argument(st, "the number of the device is negative");
    RT_TRY(check_orders(c, st));
    const char *programs = c->with_vjp ? "forward vjp" : "forward";
    RT_TRY(rt_cuda_lend(c->model->m, c->g, programs, device, stream, &c->device, st));
    RT_TRY(make_half_there(c, c->model->forward, &c->forward, st));
    if (c->with_vjp) RT_TRY(make_half_there(c, c->model->vjp, &c->vjp, st));
    c->n_changes = c->model->n_changes - 1;
    return RT_OK;
}

int32_t gnnrt_context_cuda(const GnnrtModel *model, const GnnrtGraph *graph, int32_t with_vjp, int32_t device,
                           void *stream, GnnrtContext **out, GnnrtStatus *status)
{
    RtStatus st = {0};
    GnnrtContext *c = NULL;
    RtCode code = need(out, "the output handle", &st);
    if (!code) *out = NULL, code = new_context(model, graph, with_vjp, &c, &st);
    if (!code) code = setup_there(c, device, stream, &st);
    if (code) gnnrt_context_free(c);
    else *out = c;
    return report(code, &st, status);
}

int32_t gnnrt_context_set_stream(GnnrtContext *c, void *stream, GnnrtStatus *status)
{
    RtStatus st = {0};
    void *before;
    RtCode code = need(c, "context", &st);
    if (!code && !c->device) code = bad_argument(&st, "the context is not on a device");
    if (!code) code = rt_cuda_enter(c->device, &before, &st);
    if (code) return report(code, &st, status);
    code = rt_cuda_turn_to(c->device, stream, &st);
    rt_cuda_leave(c->device, before);
    return report(code, &st, status);
}

/* ---- both ---- */

void gnnrt_context_free(GnnrtContext *c)
{
    void *before = NULL;
    if (!c) return;
    bool entered = c->device && !rt_cuda_enter(c->device, &before, NULL);
    if (entered) rt_cuda_wait(c->device);
    free_halves(c);
    RtCudaDriver driver = c->device ? c->device->driver : (RtCudaDriver){0};
    rt_cuda_free(c->device);
    if (entered) driver.context_set(before);
    rt_pool_free(c->pool);
    rt_block_free(&c->own);
    free(c->params);
    free(c);
}

int32_t gnnrt_context_bind_param(GnnrtContext *c, int32_t i, const void *data, GnnrtStatus *status)
{
    RtStatus st = {0};
    if (need(c, "context", &st)) return report(RT_E_MODEL_ARGUMENT, &st, status);
    if (i < 0 || i >= c->model->n_params)
        return report(bad_argument(&st, "there is no parameter of this number"), &st, status);
    c->params[c->model->params[i]] = data;
    return report(RT_OK, &st, status);
}

void gnnrt_context_set_random(GnnrtContext *c, int64_t seed, int64_t step)
{
    if (!c) return;
    c->seed = seed;
    c->step = step;
}

int32_t gnnrt_context_set_parallel(GnnrtContext *c, GnnrtParallelFor run, void *user, int32_t n_threads,
                                   GnnrtStatus *status)
{
    RtStatus st = {0};
    RtPool *pool = NULL;
    RtCode code = need(c, "context", &st);
    if (!code && c->device) code = bad_argument(&st, "a context on a device runs in no threads");
    if (!code && run) code = rt_pool_borrow(n_threads, run, user, &pool, &st);
    if (code == RT_E_CLI_VALUE) code = bad_argument(&st, "n_threads is below 1, or more than the library can count");
    if (code) return report(code, &st, status);
    rt_pool_free(c->pool);
    c->pool = pool;
    return report(make_halves(c, &st), &st, status);
}

/* ---- calls ---- */

typedef struct Call {
    GnnrtContext *c;
    Half *half;
    char *scratch; /* unused part */
    RtStatus *st;
} Call;

/* The stored form of a value the user gives; scratch where orders differ. */
static void *stored_in(Call *call, int64_t space, int64_t width, int64_t dtype, const void *user)
{
    int64_t bytes = scratch_bytes(call->c->g, space, width, dtype);
    if (!bytes) return (void *)(uintptr_t)user;
    void *out = call->scratch;
    call->scratch += bytes;
    rt_graph_to_stored(call->c->g, space, width * rt_dtype_bytes(dtype), user, out);
    return out;
}

/* An input that the graph was made with is what it was then. */
static RtCode same_map(const Call *call, const RtTensorDef *t, const void *stored)
{
    const RtSpaceData *s = &call->c->g->spaces[t->space];
    const int32_t *to = call->c->g->maps[t->map].to;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t id = t->dtype == RT_I32 ? ((const int32_t *)stored)[i] : ((const int64_t *)stored)[i];
        if (id == to[i]) continue;
        return rt_fail(call->st, RT_E_MODEL_ARGUMENT, rt_string(call->c->model->m, t->name),
                       "make another graph for other numbers", "row %lld is %lld, and was %d when the graph was made",
                       (long long)(s->ids ? s->ids[i] : i), (long long)id, to[i]);
    }
    return RT_OK;
}

static RtCode give_inputs(Call *call, const void *const *inputs)
{
    const RtModel *m = call->c->model->m;
    for (int32_t i = 0; i < call->c->model->n_inputs; i++) {
        int64_t tensor = call->c->model->inputs[i];
        const RtTensorDef *t = &m->tensors[tensor];
        int64_t count = rt_tensor_count(m, call->c->g, tensor);
        if (!inputs[i] && count)
            return rt_fail(call->st, RT_E_MODEL_ARGUMENT, rt_string(m, t->name), NULL, "the input is NULL");
        RtCode code = rt_check_bound(inputs[i], t->dtype, count, t->bound, t->allow_missing != 0, rt_string(m, t->name),
                                     call->st);
        RT_TRY(rt_declared_tensor(code, m, tensor, call->st));
        call->half->exec->tensors[tensor] = stored_in(call, t->space, t->width, t->dtype, inputs[i]);
        if (t->is_map) RT_TRY(same_map(call, t, call->half->exec->tensors[tensor]));
    }
    return RT_OK;
}

/* MODEL_ARGUMENT for a parameter with rows of the graph that nobody gave. */
static RtCode need_param(const GnnrtContext *c, int64_t tensor, RtStatus *st)
{
    const RtModel *m = c->model->m;
    if (c->params[tensor] || c->model->tensors.data[tensor] || !rt_tensor_count(m, c->g, tensor)) return RT_OK;
    return rt_fail(st, RT_E_MODEL_ARGUMENT, rt_string(m, m->tensors[tensor].name), "give it with context_bind_param",
                   "the parameter has a row for each of `%s`, and is NULL",
                   rt_string(m, m->spaces[m->tensors[tensor].space].name));
}

static RtCode give_params(Call *call)
{
    const GnnrtContext *c = call->c;
    for (int64_t i = 0; i < c->model->m->n_tensors; i++) {
        const RtTensorDef *t = &c->model->m->tensors[i];
        if (t->kind == RT_INPUT) continue;
        RT_TRY(need_param(c, i, call->st));
        const void *own = c->params[i];
        call->half->exec->tensors[i] = own ? stored_in(call, t->space, t->width, t->dtype, own)
                                           : c->model->tensors.data[i];
    }
    return RT_OK;
}

static RtCode give_results(Call *call, void *const *results)
{
    RtExec *e = call->half->exec;
    for (int64_t i = 0; i < e->program->n_results; i++) {
        int64_t bytes = result_scratch(e->model, e->graph, e->program, i);
        if (!results[i] && rt_result_bytes(e, i))
            return rt_fail(call->st, RT_E_MODEL_ARGUMENT,
                           rt_string(e->model, e->model->results[e->program->first_result + i].name), NULL,
                           "the result's buffer is NULL");
        e->results[i] = bytes ? call->scratch : results[i];
        call->scratch += bytes;
    }
    return RT_OK;
}

static RtCode give_cotangents(Call *call, const void *const *cotangents)
{
    RtExec *e = call->half->exec;
    const RtProgram *forward = program(call->c->model, call->c->model->forward);
    for (int64_t i = 0; i < e->n_cotangents; i++) {
        const RtResultDef *r = &e->model->results[forward->first_result + i];
        if (r->dtype != RT_F32 && r->dtype != RT_F64) continue;
        if (!cotangents[i] && e->graph->spaces[r->space].count)
            return rt_fail(call->st, RT_E_MODEL_ARGUMENT, rt_string(e->model, r->name), NULL, "the cotangent is NULL");
        e->cotangents[i] = stored_in(call, r->space, r->width, r->dtype, cotangents[i]);
    }
    return RT_OK;
}

static void take_results(Call *call, void *const *results)
{
    RtExec *e = call->half->exec;
    for (int64_t i = 0; i < e->program->n_results; i++) {
        const RtResultDef *r = &e->model->results[e->program->first_result + i];
        if (e->results[i] == results[i]) continue;
        rt_graph_to_user(e->graph, r->space, r->width * rt_dtype_bytes(r->dtype), e->results[i], results[i]);
    }
}

/* On a device: the caller's memory of one value. The program is bound anew if it is other memory than before. */
static RtCode lend(Call *call, const void **place, const void *given, int64_t name, RtStatus *st)
{
    if (call->half->bound && *place == given) return RT_OK;
    RT_TRY(rt_cuda_check(call->c->device, given, rt_string(call->c->model->m, name), st));
    *place = given;
    call->half->bound = false;
    return RT_OK;
}

static RtCode lend_all(Call *call, const void *const *inputs, const void *const *cotangents, void *const *results)
{
    const GnnrtModel *model = call->c->model;
    const RtModel *m = model->m;
    RtExec *e = call->half->exec;
    const RtProgram *forward = program(model, model->forward);
    for (int32_t i = 0; i < model->n_inputs; i++) {
        int64_t t = model->inputs[i];
        RT_TRY(lend(call, &call->half->lent[t], inputs[i], m->tensors[t].name, call->st));
        e->tensors[t] = (void *)(uintptr_t)inputs[i];
    }
    for (int32_t i = 0; i < model->n_params; i++) {
        int64_t t = model->params[i];
        RT_TRY(need_param(call->c, t, call->st));
        RT_TRY(lend(call, &call->half->lent[t], call->c->params[t], m->tensors[t].name, call->st));
    }
    for (int64_t i = 0; i < e->program->n_results; i++)
        RT_TRY(lend(call, (const void **)(void *)&e->results[i], results[i],
                    m->results[e->program->first_result + i].name, call->st));
    for (int64_t i = 0; i < e->n_cotangents; i++)
        RT_TRY(lend(call, (const void **)(void *)&e->cotangents[i], cotangents[i],
                    m->results[forward->first_result + i].name, call->st));
    return RT_OK;
}

static RtCode begin_there(Call *call, const void *const *inputs, const void *const *cotangents, void *const *results)
{
    GnnrtContext *c = call->c;
    RtExec *e = call->half->exec;
    RT_TRY(push_params(c, call->st));
    for (int64_t i = 0; i < c->model->m->n_tensors; i++)
        if (c->model->m->tensors[i].kind != RT_INPUT) e->tensors[i] = c->model->tensors.data[i];
    RT_TRY(lend_all(call, inputs, cotangents, results));
    if (!call->half->bound) {
        c->device->lent = call->half->lent;
        RT_TRY(rt_exec_bind(e, call->st));
        call->half->bound = true;
    }
    rt_exec_run(e, c->seed, c->step);
    if (c->device->failed.code) *call->st = c->device->failed;
    return c->device->failed.code;
}

static RtCode run_there(Call *call, const void *const *inputs, const void *const *cotangents, void *const *results)
{
    void *before;
    RT_TRY(rt_cuda_enter(call->c->device, &before, call->st));
    RtCode code = begin_there(call, inputs, cotangents, results);
    rt_cuda_leave(call->c->device, before);
    return code;
}

/* cotangents: of vjp. */
static RtCode run_call(Call *call, const void *const *inputs, const void *const *cotangents, void *const *results)
{
    const RtExec *e = call->half->exec;
    if (call->c->model->n_inputs) RT_TRY(need(inputs, "inputs", call->st));
    if (e->program->n_results) RT_TRY(need(results, e->n_cotangents ? "gradients" : "results", call->st));
    if (e->n_cotangents) RT_TRY(need(cotangents, "cotangents", call->st));
    if (call->c->device) return run_there(call, inputs, cotangents, results);
    RT_TRY(give_inputs(call, inputs));
    RT_TRY(give_params(call));
    RT_TRY(give_results(call, results));
    if (cotangents) RT_TRY(give_cotangents(call, cotangents));
    RT_TRY(rt_exec_bind(call->half->exec, call->st));
    rt_exec_run(call->half->exec, call->c->seed, call->c->step);
    take_results(call, results);
    return RT_OK;
}

int32_t gnnrt_forward(GnnrtContext *c, const void *const *inputs, void *const *results, GnnrtStatus *status)
{
    RtStatus st = {0};
    if (need(c, "context", &st)) return report(RT_E_MODEL_ARGUMENT, &st, status);
    if (!c->forward.exec) return report(bad_argument(&st, "the context lost its programs"), &st, status);
    Call call = {c, &c->forward, c->forward.scratch, &st};
    return report(run_call(&call, inputs, NULL, results), &st, status);
}

int32_t gnnrt_vjp(GnnrtContext *c, const void *const *inputs, const void *const *cotangents, void *const *gradients,
                  GnnrtStatus *status)
{
    RtStatus st = {0};
    if (need(c, "context", &st)) return report(RT_E_MODEL_ARGUMENT, &st, status);
    if (!c->vjp.exec)
        return report(
            bad_argument(&st, c->with_vjp ? "the context lost its programs" : "the context was made without vjp"), &st,
            status);
    Call call = {c, &c->vjp, c->vjp.scratch, &st};
    return report(run_call(&call, inputs, cotangents, gradients), &st, status);
}
