/* Binds programs and runs them (see exec.h). Never reads a file, never allocates while running. */
#include "runtime/exec.h"
#include "runtime/chain.h"
#include "runtime/clock.h"
#include "runtime/cone.h"
#include "runtime/split.h"
#include <stdlib.h>
#include <string.h>

enum { GEMM_NN_ROWS = 256 }; /* rows of one block of a product that is cut by rows only */

const char *rt_string(const RtModel *m, int64_t offset)
{
    return offset < 0 ? "" : m->strings + offset;
}

int64_t rt_program_find(const RtModel *m, const char *name)
{
    for (int64_t i = 0; i < m->n_programs; i++)
        if (!strcmp(rt_string(m, m->programs[i].name), name)) return i;
    return -1;
}

int64_t rt_tensor_count(const RtModel *m, const RtGraph *g, int64_t tensor)
{
    int64_t n;
    const RtTensorDef *d = &m->tensors[tensor];
    return rt_mul(g->spaces[d->space].count, d->width, &n) ? n : -1;
}

int64_t rt_result_bytes(const RtExec *e, int64_t result)
{
    const RtResultDef *r = &e->model->results[e->program->first_result + result];
    int64_t n;
    if (!rt_mul(e->graph->spaces[r->space].count, r->width, &n)) return -1;
    return rt_mul(n, rt_dtype_bytes(r->dtype), &n) ? n : -1;
}

/* ---- the arena ---- */

static RtCode overflows(const RtModel *m, const RtProgram *p, RtStatus *st)
{
    return rt_fail(st, RT_E_OVERFLOW, rt_string(m, p->name), "use a smaller graph or narrower layers",
                   "the planned memory overflows 64 bits");
}

/* Packs the program's slots; places has room for them. */
static RtCode place_slots(const RtModel *m, const RtProgram *p, const RtGraph *g, RtPack *places,
                          int64_t *total, RtStatus *st)
{
    for (int64_t i = 0; i < p->n_slots; i++) {
        const RtSlot *s = &m->slots[p->first_slot + i];
        int64_t bytes;
        if (!rt_mul(rt_count_value(g, &s->rows), s->row_bytes, &bytes) ||
            !rt_add(bytes, RT_PACK_ALIGN - 1, &bytes))
            return overflows(m, p, st);
        places[i] = (RtPack){.bytes = bytes & ~(int64_t)(RT_PACK_ALIGN - 1), .first = s->first, .last = s->last};
    }
    *total = rt_pack(places, p->n_slots);
    return *total < 0 ? overflows(m, p, st) : RT_OK;
}

RtCode rt_arena_bytes(const RtModel *m, int64_t program, const RtGraph *g, int64_t *bytes,
                      RtStatus *st)
{
    const RtProgram *p = &m->programs[program];
    RtPack *places;
    RT_TRY(rt_alloc(&places, p->n_slots, sizeof *places, "a plan", st));
    RtCode code = place_slots(m, p, g, places, bytes, st);
    free(places);
    return code;
}

static RtCode take_arena(RtExec *e, RtStatus *st)
{
    if (e->options.plan_only) return RT_OK;
    if (!e->options.workspace) {
        RT_TRY(rt_block_alloc(&e->arena, rt_size_plus(e->arena_bytes, 1, 64), rt_string(e->model, e->program->name), st));
        e->base = e->arena.p;
        return RT_OK;
    }
    if (e->options.workspace_bytes < (size_t)e->arena_bytes || (uintptr_t)e->options.workspace % 64)
        return rt_fail(st, RT_E_MODEL_ARGUMENT, "workspace", "ask for the size first",
                       "found %zu bytes at %p, wanted %lld, aligned to 64",
                       e->options.workspace_bytes, e->options.workspace, (long long)e->arena_bytes);
    e->base = e->options.workspace;
    return RT_OK;
}

/* ---- steps ---- */

RtKernelFn rt_exec_kernel(const RtExec *e, int64_t kernel)
{
    const RtModel *m = e->model;
    for (int v = e->options.variant; v >= 0; v--)
        if (m->kernels[v * m->n_kernels + kernel]) return m->kernels[v * m->n_kernels + kernel];
    return NULL;
}

static RtKernelFn pick_gemm(const RtExec *e, const RtGemm *g)
{
    const RtGemmBackend *b = e->options.gemm;
    if (!b || !g->present || !b->wanted(g, rt_count_value(e->graph, &g->rows))) return NULL;
    if (g->elem == RT_K_F32) return g->transposed_a ? b->tn_f32 : b->nn_f32;
    return g->transposed_a ? b->tn_f64 : b->nn_f64;
}

static int64_t step_args(const RtStep *s)
{
    return s->n_args > RT_GEMM_N_ARGS ? s->n_args : RT_GEMM_N_ARGS;
}

const int64_t *rt_exec_rows(const RtExec *e, const RtStep *s, const RtExecStep *x)
{
    if (x->backend || s->cut < 0) return NULL;
    bool fits = e->graph->spaces[e->model->maps[s->cut].to].count == x->extent;
    return fits ? e->graph->maps[s->cut].rows : NULL;
}

/* Its runs of rows that are needed, or NULL. */
static RtConeStep *runs_of(const RtExec *e, const RtExecStep *x)
{
    RtConeStep *y = e->cone ? &e->cone->steps[x - e->steps] : NULL;
    return y && y->runs ? y : NULL;
}

/* Chunks of one step; bounds has room for the most that a step can have, and for their order. */
static void cut_step(RtExec *e, const RtStep *s, RtExecStep *x)
{
    int threads = rt_pool_threads(e->options.pool);
    int64_t chunks = x->choice.chunks ? x->choice.chunks : RT_CHUNKS;
    if (x->chain) {
        x->n_chunks = rt_chain_cut(x->chain, threads, chunks, x->choice.cut == RT_CUT_ROWS, x->bounds);
        x->order = x->bounds + x->n_chunks + 1;
        return;
    }
    const int64_t *rows = rt_exec_rows(e, s, x);
    RtConeStep *runs = runs_of(e, x);
    int64_t extent = runs ? (int64_t)(runs->share * (double)x->extent) : x->extent;
    x->n_chunks = rt_cut_count(extent, x->backend ? 1 : s->grain, threads, chunks);
    if (runs) {
        x->n_chunks = rt_cone_cut(runs, x->n_chunks, x->bounds);
        return;
    }
    if (x->split) {
        x->order = NULL;
        rt_split_cut(x->split, x->choice.cut == RT_CUT_ROWS, x->n_chunks, x->bounds);
        return;
    }
    rt_cut(x->extent, x->choice.cut == RT_CUT_ROWS ? NULL : rows, x->n_chunks, x->bounds);
    x->order = x->bounds + x->n_chunks + 1;
    rt_cut_order(rows, x->bounds, x->n_chunks, x->order);
}

static RtCode setup_step(RtExec *e, int64_t i, RtStatus *st)
{
    const RtStep *s = &e->model->steps[e->program->first_step + i];
    RtExecStep *x = &e->steps[i];
    const RtGemm *g = &s->gemm;
    x->fn = s->chain == 1 ? pick_gemm(e, g) : NULL;
    x->backend = x->fn != NULL;
    x->extent = rt_count_value(e->graph, &s->extent);
    if (x->backend)
        x->extent = g->transposed_a
                        ? rt_count_value(e->graph, &g->blocks)
                        : (rt_count_value(e->graph, &g->rows) + GEMM_NN_ROWS - 1) / GEMM_NN_ROWS;
    else
        x->fn = rt_exec_kernel(e, s->kernel);
    if (!x->fn)
        return rt_fail(st, RT_E_MODEL_VARIANT, rt_string(e->model, s->label),
                       "build with --cpu generic",
                       "the program holds no kernel that this CPU can run");
    RT_TRY(rt_split_make(e, i, &x->split, st));
    x->choice = e->options.choice;
    if (e->options.choose) e->options.choose(e->options.choose_user, e, i, &x->choice);
    cut_step(e, s, x);
    return RT_OK;
}

/* Steps that run together, once all of them know what they call. */
static RtCode cut_chains(RtExec *e, RtStatus *st)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtStep *s = &e->model->steps[e->program->first_step + i];
        if (s->chain <= 1) continue;
        RT_TRY(rt_chain_make(e, i, &e->steps[i].chain, st));
        cut_step(e, s, &e->steps[i]);
    }
    return RT_OK;
}

static RtCode setup_steps(RtExec *e, RtStatus *st)
{
    int64_t n_args = 0, most = 2 * rt_cut_count(INT32_MAX, 1, rt_pool_threads(e->options.pool), RT_MAX_CHUNKS) + 1;
    for (int64_t i = 0; i < e->program->n_steps; i++)
        n_args += step_args(&e->model->steps[e->program->first_step + i]);
    RT_TRY(rt_alloc(&e->args, n_args, sizeof *e->args, "arguments", st));
    RT_TRY(rt_alloc(&e->bounds, e->program->n_steps, rt_size(most, sizeof *e->bounds), "arguments", st));
    RtArg *args = e->args;
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        e->steps[i].args = args;
        e->steps[i].bounds = e->bounds + i * most;
        args += step_args(&e->model->steps[e->program->first_step + i]);
        RT_TRY(setup_step(e, i, st));
    }
    RT_TRY(cut_chains(e, st));
    if (!e->states_bytes || e->options.plan_only) return RT_OK;
    return rt_block_alloc(&e->states, e->states_bytes, "rows that threads share", st);
}

/* ---- binding ---- */

static void *buffer_pointer(RtExec *e, const RtBuffer *b)
{
    const RtMapData *maps = e->graph->maps;
    int64_t tensor;
    switch (b->kind) {
    case RT_BUF_ARENA: return e->base + e->places[b->slot].at;
    case RT_BUF_TENSOR: return e->tensors[b->ref];
    case RT_BUF_RESULT:
        tensor = e->model->results[e->program->first_result + b->ref].tensor;
        return tensor >= 0 ? e->tensors[tensor] : e->results[b->ref];
    case RT_BUF_COTANGENT: return e->cotangents[b->ref];
    case RT_BUF_SEED: return &e->seed;
    case RT_BUF_STEP: return &e->step;
    case RT_BUF_MAP_TO: return maps[b->ref].to;
    case RT_BUF_MAP_ROWS: return maps[b->ref].rows;
    case RT_BUF_MAP_LIST: return maps[b->ref].list;
    case RT_BUF_MAP_ALONG: return rt_graph_along(e->graph, b->ref, b->along);
    case RT_BUF_IDS: return e->graph->spaces[b->ref].ids_all;
    case RT_BUF_STRIP: return e; /* rt_chain_run says where it is */
    case RT_BUF_STATE: return NULL; /* rt_split_bind does */
    default: return NULL;
    }
}

static void fill_gemm_args(RtExec *e, const RtGemm *g, RtArg *args)
{
    args[RT_GEMM_USER].p = e->options.gemm->user;
    args[RT_GEMM_A].p = e->buffers[g->a];
    args[RT_GEMM_B].p = e->buffers[g->b];
    args[RT_GEMM_C].p = e->buffers[g->c];
    args[RT_GEMM_M].i = g->m;
    args[RT_GEMM_N].i = g->n;
    args[RT_GEMM_K].i = g->k;
    args[RT_GEMM_ROWS].i = rt_count_value(e->graph, &g->rows);
    args[RT_GEMM_BLOCK_ROWS].i =
        g->transposed_a ? rt_count_value(e->graph, &g->block_rows) : GEMM_NN_ROWS;
}

static int64_t scalar_arg(const RtExec *e, int64_t ahead, const RtCount *c)
{
    if (c->kind != RT_COUNT_AHEAD || !ahead) return rt_count_value(e->graph, c);
    return ahead < 0 ? 0 : ahead;
}

static void *arg_buffer(const RtExec *e, int64_t step, int64_t buffer)
{
    void *own = e->cone ? rt_cone_buffer(e, e->cone, step, buffer) : NULL;
    return own ? own : e->buffers[buffer];
}

static void fill_args(RtExec *e)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtStep *s = &e->model->steps[e->program->first_step + i];
        RtArg *args = e->steps[i].args;
        if (e->steps[i].backend) {
            fill_gemm_args(e, &s->gemm, args);
            continue;
        }
        for (int64_t k = 0; k < s->n_args; k++) {
            const RtStepArg *a = &e->model->step_args[s->first_arg + k];
            if (a->is_buffer)
                args[k].p = arg_buffer(e, i, a->buffer);
            else
                args[k].i = scalar_arg(e, e->steps[i].choice.ahead, &a->count);
        }
        if (e->steps[i].split) rt_split_bind(e->steps[i].split);
    }
}

RtCode rt_exec_narrow(RtExec *e, RtStatus *st)
{
    RtCone *cone;
    bool had = e->cone != NULL;
    rt_cone_free(e->cone);
    e->cone = NULL;
    RT_TRY(rt_cone_make(e, (RtConeMode)e->options.cone, &cone, st));
    e->cone = cone;
    for (int64_t i = 0; cone && i < e->program->n_steps; i++) { /* which would walk other elements */
        rt_split_free(e->steps[i].split);
        e->steps[i].split = NULL;
    }
    for (int64_t i = 0; i < e->program->n_steps && (had || cone); i++)
        cut_step(e, &e->model->steps[e->program->first_step + i], &e->steps[i]);
    return RT_OK;
}

RtCode rt_exec_bind(RtExec *e, RtStatus *st)
{
    RT_TRY(rt_exec_narrow(e, st));
    for (int64_t i = 0; i < e->program->n_buffers; i++) {
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + i];
        e->buffers[i] = e->cone && e->cone->buffers[i] ? e->cone->buffers[i] : buffer_pointer(e, b);
        if (!e->buffers[i] && rt_count_value(e->graph, &b->rows))
            return rt_fail(st, RT_E_MODEL_ARGUMENT, rt_string(e->model, e->program->name), NULL,
                           "no memory was given for %s", rt_string(e->model, b->name));
    }
    fill_args(e);
    e->bound = true;
    return RT_OK;
}

RtCode rt_exec_move(RtExec *e, RtStatus *st)
{
    const RtProgram *p = e->program;
    for (int64_t i = 0; i < p->n_slots; i++) {
        const RtSlot *s = &e->model->slots[p->first_slot + i];
        if (rt_count_value(e->graph, &s->rows) * s->row_bytes > e->places[i].bytes)
            return rt_fail(st, RT_E_INTERNAL, rt_string(e->model, p->name), NULL, "a batch needs more memory than was planned");
    }
    e->options.split = -1; /* each batch has other rows */
    for (int64_t i = 0; i < p->n_steps; i++) RT_TRY(setup_step(e, i, st));
    return cut_chains(e, st);
}

void rt_exec_choose(RtExec *e, const RtChoice *c)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        e->steps[i].choice = *c;
        cut_step(e, &e->model->steps[e->program->first_step + i], &e->steps[i]);
    }
    if (e->bound) fill_args(e);
}

static int64_t count_cotangents(const RtModel *m, const RtProgram *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_buffers; i++) {
        const RtBuffer *b = &m->buffers[p->first_buffer + i];
        if (b->kind == RT_BUF_COTANGENT && b->ref >= n) n = b->ref + 1;
    }
    for (int64_t i = 0; i < p->n_argdefs; i++) {
        const RtArgDef *a = &m->argdefs[p->first_argdef + i];
        if (a->kind == RT_ARG_COTANGENT && a->ref >= n) n = a->ref + 1;
    }
    return n;
}

static RtCode exec_setup(RtExec *e, RtStatus *st)
{
    const RtProgram *p = e->program;
    e->n_cotangents = count_cotangents(e->model, p);
    RT_TRY(rt_alloc(&e->steps, p->n_steps, sizeof *e->steps, "a context", st));
    RT_TRY(rt_alloc(&e->tensors, e->model->n_tensors, sizeof *e->tensors, "a context", st));
    RT_TRY(rt_alloc(&e->results, p->n_results, sizeof *e->results, "a context", st));
    RT_TRY(rt_alloc(&e->cotangents, e->n_cotangents, sizeof *e->cotangents, "a context", st));
    RT_TRY(rt_alloc(&e->buffers, p->n_buffers, sizeof *e->buffers, "a context", st));
    RT_TRY(rt_alloc(&e->places, p->n_slots, sizeof *e->places, "a context", st));
    RT_TRY(place_slots(e->model, p, e->graph, e->places, &e->arena_bytes, st));
    RT_TRY(take_arena(e, st));
    return setup_steps(e, st);
}

RtCode rt_exec_create(const RtModel *m, int64_t program, const RtGraph *g, const RtExecOptions *o,
                      RtExec **out, RtStatus *st)
{
    *out = NULL;
    RtExec *e;
    RT_TRY(rt_alloc(&e, 1, sizeof *e, "a context", st));
    e->model = m;
    e->program = &m->programs[program];
    e->graph = g;
    e->options = *o;
    RtCode code = exec_setup(e, st);
    if (code)
        rt_exec_free(e);
    else
        *out = e;
    return code;
}

void rt_exec_free(RtExec *e)
{
    if (!e) return;
    rt_block_free(&e->arena);
    rt_block_free(&e->own_results);
    rt_block_free(&e->states);
    for (int64_t i = 0; e->steps && i < e->program->n_steps; i++) rt_split_free(e->steps[i].split);
    rt_cone_free(e->cone);
    for (int64_t i = 0; e->steps && i < e->program->n_steps; i++) rt_chain_free(e->steps[i].chain);
    free(e->steps);
    free(e->tensors);
    free(e->results);
    free(e->cotangents);
    free(e->buffers);
    free(e->places);
    free(e->args);
    free(e->bounds);
    free(e);
}

RtCode rt_exec_own_results(RtExec *e, RtStatus *st)
{
    int64_t total = 0, n = e->program->n_results;
    const RtResultDef *defs = e->model->results + e->program->first_result;
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = defs[i].tensor >= 0 ? 0 : rt_result_bytes(e, i);
        if (bytes < 0 || !rt_add(total, bytes + 127, &total))
            return rt_fail(st, RT_E_OVERFLOW, rt_string(e->model, defs[i].name), NULL,
                           "a result's size overflows");
    }
    rt_block_free(&e->own_results);
    RT_TRY(rt_block_alloc(&e->own_results, rt_size_plus(total, 1, 64), "results", st));
    char *at = e->own_results.p;
    for (int64_t i = 0; i < n; i++) {
        if (defs[i].tensor >= 0) continue;
        e->results[i] = at;
        at += (rt_result_bytes(e, i) + 63) / 64 * 64 + 64;
    }
    return RT_OK;
}

/* ---- running ---- */

static void run_step(RtExec *e, const RtExecStep *x)
{
    const RtConeStep *runs = runs_of(e, x);
    if (e->model->steps[e->program->first_step + (x - e->steps)].chain == 0) return;
    for (int64_t k = 0; k < e->model->steps[e->program->first_step + (x - e->steps)].chain; k++)
        if (x[k].split) rt_split_walks(x[k].split);
    if (x->chain) {
        rt_pool_run(e->options.pool, rt_chain_run, rt_chain_args(x->chain), x->bounds, x->order, x->n_chunks);
        return;
    }
    if (x->split) rt_pool_run(e->options.pool, rt_split_run, rt_split_args(x->split), x->bounds, NULL, x->n_chunks);
    else if (runs) rt_pool_run(e->options.pool, rt_cone_run, &runs->self, x->bounds, NULL, x->n_chunks);
    else if (x->extent > 0) rt_pool_run(e->options.pool, x->fn, x->args, x->bounds, x->order, x->n_chunks);
}

void rt_exec_run(RtExec *e, int64_t seed, int64_t step)
{
    e->seed = seed;
    e->step = step;
    for (int64_t i = 0; i < e->program->n_steps; i++) run_step(e, &e->steps[i]);
}

void rt_exec_run_timed(RtExec *e, int64_t seed, int64_t step, double *ns)
{
    e->seed = seed;
    e->step = step;
    double before = rt_now_ns();
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        run_step(e, &e->steps[i]);
        double after = rt_now_ns();
        ns[i] += after - before;
        before = after;
    }
}

static bool has_nan(const void *p, int64_t elem, int64_t n)
{
    const float *f = p;
    const double *d = p;
    for (int64_t i = 0; i < n; i++)
        if (elem == RT_K_F32 ? f[i] != f[i] : d[i] != d[i]) return true;
    return false;
}

/* Whether a float buffer of this step that steps write holds a NaN. Its operands were found clean
   before. */
static bool step_has_nan(const RtExec *e, const RtStep *s)
{
    for (int64_t k = 0; k < s->n_args; k++) {
        const RtStepArg *a = &e->model->step_args[s->first_arg + k];
        if (!a->is_buffer) continue;
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + a->buffer];
        if ((b->elem != RT_K_F32 && b->elem != RT_K_F64) || b->kind == RT_BUF_STRIP) continue;
        RtCount rows = b->rows;
        if (rows.kind == RT_COUNT_BLOCK_SLOTS) rows.kind = RT_COUNT_BLOCKS; /* the others may hold anything */
        if (has_nan(e->buffers[a->buffer], b->elem, rt_count_value(e->graph, &rows) * b->width))
            return true;
    }
    return false;
}

int64_t rt_exec_run_until_nan(RtExec *e, int64_t seed, int64_t step)
{
    e->seed = seed;
    e->step = step;
    memset(e->base, 0, (size_t)e->arena_bytes); /* what an earlier run left is not this one's */
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        run_step(e, &e->steps[i]);
        if (step_has_nan(e, &e->model->steps[e->program->first_step + i])) return i;
    }
    return -1;
}

void rt_step_cost(const RtExec *e, int64_t step, double *bytes, double *flops)
{
    const RtStep *s = &e->model->steps[e->program->first_step + step];
    double share = e->cone ? e->cone->steps[step].share : 1;
    *bytes = *flops = 0;
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *c = &e->model->costs[s->first_cost + i];
        double n = share * (double)rt_count_value(e->graph, &c->count);
        *bytes += n * (double)c->bytes;
        *flops += n * (double)c->flops;
    }
}
