/* Binds programs and runs them (see exec.h). Never reads a file, never allocates while running. */
#include "runtime/exec.h"
#include "runtime/chain.h"
#include "runtime/clock.h"
#include "runtime/cone.h"
#include "runtime/cuda.h"
#include "runtime/ranks.h"
#include "runtime/split.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GEMM_NN_ROWS = 256 }; /* rows of one block of a product that is cut by rows only */

const char *rt_string(const RtModel *m, int64_t offset) { return offset < 0 ? "" : m->strings + offset; }

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
    assert(result >= 0 && result < e->program->n_results);
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

RtCode rt_exec_slots(const RtModel *m, const RtProgram *p, const RtGraph *g, const int64_t *rows, RtPack *places,
                     RtStatus *st)
{
    for (int64_t i = 0; i < p->n_slots; i++) {
        const RtSlot *s = &m->slots[p->first_slot + i];
        int64_t bytes, n = rows && rows[i] >= 0 ? rows[i] : rt_count_value(g, &s->rows, RT_READ);
        assert(s->first <= s->last);
        if (!rt_mul(n, s->row_bytes, &bytes) || !rt_add(bytes, RT_PACK_ALIGN - 1, &bytes)) return overflows(m, p, st);
        int64_t used = bytes - (RT_PACK_ALIGN - 1);
        places[i] = (RtPack){
            .bytes = bytes & ~(int64_t)(RT_PACK_ALIGN - 1), .first = s->first, .last = s->last, .used = used};
    }
    for (int64_t i = 0; i < p->n_buffers; i++) { /* rows that a step leaves out stay 0 from run to run */
        const RtBuffer *b = &m->buffers[p->first_buffer + i];
        if (b->kind == RT_BUF_ARENA && b->writer >= 0) places[b->slot].used = 0;
    }
    return RT_OK;
}

/* Of a buffer that is a result in the caller's memory; NULL: it is not. */
static RtPackRoom *room_of(const RtModel *m, const RtProgram *p, int64_t buffer, RtPackRoom *rooms)
{
    const RtBuffer *b = &m->buffers[p->first_buffer + buffer];
    bool given = b->kind == RT_BUF_RESULT && m->results[p->first_result + b->ref].tensor < 0;
    return given ? &rooms[b->ref] : NULL;
}

RtCode rt_exec_rooms(const RtModel *m, const RtProgram *p, const RtGraph *g, RtPackRoom **out, RtStatus *st)
{
    RtPackRoom *rooms;
    RT_TRY(rt_alloc(&rooms, p->n_results, sizeof *rooms, "a plan", st));
    for (int64_t i = 0; i < p->n_buffers; i++) {
        const RtBuffer *b = &m->buffers[p->first_buffer + i];
        RtPackRoom *room = room_of(m, p, i, rooms);
        if (room)
            room->bytes = rt_size(rt_count_value(g, &b->rows, RT_READ), rt_size(b->width, rt_elem_bytes(b->elem)));
    }
    for (int64_t i = p->n_steps; i-- > 0;) { /* the first that touches it has the last word */
        const RtCall *call = rt_step_call(m, &m->steps[p->first_step + i]);
        int64_t first = i;
        for (int64_t k = 0; k < p->n_chains; k++) {
            const RtChainDef *c = &m->chains[p->first_chain + k];
            if (c->first <= i && i < c->first + c->n) first = c->first;
        }
        for (int64_t k = 0; k < call->n_args; k++) {
            const RtStepArg *a = &m->step_args[call->first_arg + k];
            RtPackRoom *room = a->is_buffer ? room_of(m, p, a->buffer, rooms) : NULL;
            if (room) room->until = first;
        }
    }
    *out = rooms;
    return RT_OK;
}

/* Packs the program's slots; places has room for them. */
static RtCode place_slots(const RtModel *m, const RtProgram *p, const RtGraph *g, const int64_t *rows, RtPack *places,
                          int64_t *total, RtStatus *st)
{
    RtPackRoom *rooms;
    RT_TRY(rt_exec_slots(m, p, g, rows, places, st));
    RT_TRY(rt_exec_rooms(m, p, g, &rooms, st));
    *total = rt_pack(places, p->n_slots, rooms, p->n_results);
    free(rooms);
    return *total < 0 ? overflows(m, p, st) : RT_OK;
}

RtCode rt_arena_bytes(const RtModel *m, int64_t program, const RtGraph *g, int64_t *bytes, RtStatus *st)
{
    const RtProgram *p = &m->programs[program];
    RtPack *places;
    RT_TRY(rt_alloc(&places, p->n_slots, sizeof *places, "a plan", st));
    RtCode code = place_slots(m, p, g, NULL, places, bytes, st);
    free(places);
    return code;
}

static RtCode take_arena(RtExec *e, RtStatus *st)
{
    if (e->options.plan_only || e->options.device) return RT_OK;
    if (!e->options.workspace) {
        RT_TRY(
            rt_block_alloc(&e->arena, rt_size_plus(e->arena_bytes, 1, 64), rt_string(e->model, e->program->name), st));
        e->base = e->arena.p;
        return RT_OK;
    }
    if (e->options.workspace_bytes < (size_t)e->arena_bytes || (uintptr_t)e->options.workspace % 64)
        return rt_fail(st, RT_E_MODEL_ARGUMENT, "workspace", "ask for the size first",
                       "found %zu bytes at %p, wanted %lld, aligned to 64", e->options.workspace_bytes,
                       e->options.workspace, (long long)e->arena_bytes);
    e->base = e->options.workspace;
    return RT_OK;
}

/* ---- steps ---- */

RtKernelFn rt_exec_kernel(const RtExec *e, int64_t kernel)
{
    const RtModel *m = e->model;
    assert(kernel >= 0 && kernel < m->n_kernels);
    for (int v = e->options.variant; m->kernels && v >= 0; v--) /* a plan for devices alone has none */
        if (m->kernels[v * m->n_kernels + kernel]) return m->kernels[v * m->n_kernels + kernel];
    return NULL;
}

const RtChainDef *rt_step_chain(const RtExec *e, int64_t step)
{
    for (int64_t i = 0; i < e->program->n_chains; i++) {
        const RtChainDef *c = &e->model->chains[e->program->first_chain + i];
        if (step >= c->first && step < c->first + c->n) return c;
    }
    return NULL;
}

static const RtStep *step_def(const RtExec *e, int64_t i) { return &e->model->steps[e->program->first_step + i]; }

/* The product that the options' library does instead of the step's kernel, or NULL. In a chain, which a device does not
   have, the kernels are called; a device's library computes nothing here. */
static const RtGemm *backend_gemm(const RtExec *e, int64_t i)
{
    const RtStep *s = step_def(e, i);
    const RtGemm *g = s->kind == RT_STEP_PRODUCT ? &e->model->products[s->part] : NULL;
    const RtGemmBackend *b = g ? e->options.gemm : NULL;
    bool there = e->options.device || e->options.plan_only;
    if (!b || (b->on_device ? !there : rt_step_chain(e, i) != NULL)) return NULL;
    return b->wanted(g, rt_count_value(e->graph, &g->rows, RT_OWNED)) ? g : NULL;
}

static void use_backend(const RtExec *e, const RtGemm *g, RtExecStep *x)
{
    const RtGemmBackend *b = e->options.gemm;
    int64_t rows = rt_count_value(e->graph, &g->rows, RT_OWNED);
    bool f32 = g->elem == RT_K_F32;
    x->backend = true;
    x->fn = g->transposed_a ? f32 ? b->tn_f32 : b->tn_f64 : f32 ? b->nn_f32 : b->nn_f64;
    x->extent = g->transposed_a ? rt_count_value(e->graph, &g->blocks, RT_OWNED)
                                : (rows + GEMM_NN_ROWS - 1) / GEMM_NN_ROWS;
}

/* How many arguments the step takes at most, whether its kernel or a library computes it. Those of a chain lie side by
   side. */
static int64_t step_args(const RtExec *e, int64_t i)
{
    int64_t n = rt_step_call(e->model, step_def(e, i))->n_args;
    return n > RT_GEMM_N_ARGS || rt_step_chain(e, i) ? n : RT_GEMM_N_ARGS;
}

/* Rows that the step computes: those that this process owns, or others too. */
static RtRows step_rows(const RtExec *e, int64_t i)
{
    return e->across ? e->options.ranks->across->rows(e->across, i) : RT_OWNED;
}

/* Finds the rows that the step's iterations compute. */
static void find_rows(const RtExec *e, RtExecStep *x)
{
    int64_t cut = x->backend ? -1 : x->call->cut, to = cut < 0 ? -1 : e->model->maps[cut].to;
    x->block = !x->backend && x->call->extent.kind == RT_COUNT_BLOCKS ? x->call->extent.block : 1;
    x->n_rows = to < 0 ? 0 : rt_rows(e->graph, to, RT_OWNED);
    x->rows = cut >= 0 && x->call->extent.space == to ? e->graph->maps[cut].rows : NULL;
    x->cone = NULL;
    assert(x->block > 0);
}

/* Rows and elements before iteration i, left out or not. */
static int64_t weight_of_all(const RtExecStep *x, int64_t i)
{
    assert(i >= 0 && i <= x->extent);
    int64_t row = i < x->extent ? i * x->block : x->n_rows;
    return !x->rows ? i : x->split ? rt_split_weight(x->split, row) : x->rows[row] + row;
}

int64_t rt_step_weight(const void *of, int64_t i)
{
    const RtExecStep *x = of;
    const RtConeStep *c = x->cone;
    if (!c || !c->runs) return weight_of_all(x, i);
    int64_t k = rt_cone_run_at(c, i), first = k < c->n_runs ? c->runs[2 * k] : i;
    return c->weight[k] + (first < i ? weight_of_all(x, i) - weight_of_all(x, first) : 0);
}

static void weigh_runs(RtExecStep *x)
{
    RtConeStep *c = x->cone;
    for (int64_t k = 0; c && k < c->n_runs; k++)
        c->weight[k + 1] = c->weight[k] + weight_of_all(x, c->runs[2 * k + 1]) - weight_of_all(x, c->runs[2 * k]);
}

/* Room for the bounds of a step's chunks, as many as there can be, and for their order. */
static int64_t most_bounds(const RtExec *e)
{
    return 2 * rt_cut_count(INT32_MAX, 1, rt_pool_threads(e->options.pool), RT_CHUNKS) + 1;
}

/* Cuts a step, or the chain that begins with it, into chunks. */
static void cut_step(RtExec *e, RtExecStep *x)
{
    int64_t n = x->extent, worth = n;
    int64_t grain = x->backend ? 1 : x->call->grain;
    RtWeight *weight = rt_step_weight;
    const void *of = x;
    if (x->chain) {
        if (x != e->steps + x->chain->def->first) return;
        n = worth = x->chain->n_strips;
        grain = x->chain->grain;
        weight = rt_chain_weight;
        of = x->chain;
    } else if (x->cone) {
        worth = (int64_t)(x->cone->share * (double)n);
    }
    x->n_chunks = rt_cut_count(worth, grain, rt_pool_threads(e->options.pool), RT_CHUNKS);
    x->order = x->bounds + x->n_chunks + 1;
    assert(x->n_chunks >= 1 && 2 * x->n_chunks + 1 <= most_bounds(e)); /* room for their bounds and their order */
    rt_cut(n, weight, of, x->n_chunks, x->bounds);
    rt_cut_order(weight, of, x->bounds, x->n_chunks, x->order);
    assert(x->bounds[0] == 0 && x->bounds[x->n_chunks] == n);
}

static void cut_steps(RtExec *e)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) cut_step(e, &e->steps[i]);
}

static RtCode setup_step(RtExec *e, int64_t i, RtStatus *st)
{
    RtExecStep *x = &e->steps[i];
    const RtGemm *g = backend_gemm(e, i);
    x->def = step_def(e, i);
    x->call = rt_step_call(e->model, x->def);
    x->self.p = x;
    x->backend = false;
    x->there = g && e->options.gemm->on_device ? g : NULL;
    x->extent = rt_count_value(e->graph, &x->call->extent, step_rows(e, i));
    x->fn = rt_exec_kernel(e, x->call->kernel);
    if (g && !x->there) use_backend(e, g, x);
    if (!x->fn && e->model->kernels)
        return rt_fail(st, RT_E_MODEL_VARIANT, rt_string(e->model, x->def->label), "build with --cpu generic",
                       "the program holds no kernel that this CPU can run");
    find_rows(e, x);
    if (step_rows(e, i) == RT_READ) x->rows = NULL; /* of those behind the owned ones not all elements are here */
    assert(x->extent >= 0);
    return RT_OK;
}

/* Finds the rows that threads share, among those that are computed. The memory for their sums grows when they need
   more. */
static RtCode split_steps(RtExec *e, RtStatus *st)
{
    e->states_bytes = 0;
    for (int64_t i = 0; i < e->program->n_steps; i++) RT_TRY(rt_split_make(e, i, &e->steps[i].split, st));
    if (e->options.plan_only || e->states_bytes <= (int64_t)e->states.bytes) return RT_OK;
    rt_block_free(&e->states);
    return rt_block_alloc(&e->states, e->states_bytes, "rows that threads share", st);
}

/* All steps for the counts at hand, and the chains once all steps know what they call. */
static RtCode setup_steps(RtExec *e, RtStatus *st)
{
    const RtChainDef *chains = e->model->chains + e->program->first_chain;
    for (int64_t i = 0; i < e->program->n_steps; i++) RT_TRY(setup_step(e, i, st));
    RT_TRY(split_steps(e, st));
    for (int64_t i = 0; i < e->program->n_chains && !e->across; i++)
        RT_TRY(rt_chain_make(e, &chains[i], &e->chains[i], st));
    cut_steps(e);
    return RT_OK;
}

static RtCode make_steps(RtExec *e, RtStatus *st)
{
    int64_t n_args = 0, most = most_bounds(e);
    for (int64_t i = 0; i < e->program->n_steps; i++) n_args += step_args(e, i);
    RT_TRY(rt_alloc(&e->args, n_args, sizeof *e->args, "arguments", st));
    RT_TRY(rt_alloc(&e->bounds, e->program->n_steps, rt_size(most, sizeof *e->bounds), "arguments", st));
    RT_TRY(rt_alloc(&e->chains, e->program->n_chains, sizeof *e->chains, "arguments", st));
    RtArg *args = e->args;
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        e->steps[i].args = args;
        e->steps[i].bounds = e->bounds + i * most;
        args += step_args(e, i);
    }
    assert(args == e->args + n_args);
    return setup_steps(e, st);
}

/* ---- binding ---- */

static void *slot_pointer(const RtExec *e, const RtPack *place)
{
    char *base = place->room ? e->results[place->room - 1] : e->base;
    return base ? base + place->at : NULL;
}

static void *buffer_pointer(RtExec *e, const RtBuffer *b)
{
    assert(!e->options.device);
    const RtMapData *maps = e->graph->maps;
    int64_t tensor;
    switch (b->kind) {
    case RT_BUF_ARENA: return slot_pointer(e, &e->places[b->slot]);
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
    case RT_BUF_STRIP: /* rt_chain_run says where it is */
        return e->across ? e->options.ranks->across->strip(e->across, b - e->model->buffers - e->program->first_buffer)
                         : e;
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
    args[RT_GEMM_ROWS].i = rt_count_value(e->graph, &g->rows, RT_OWNED);
    args[RT_GEMM_BLOCK_ROWS].i = g->transposed_a ? rt_count_value(e->graph, &g->block_rows, RT_OWNED) : GEMM_NN_ROWS;
}

static void *arg_buffer(const RtExec *e, const RtExecStep *x, int64_t buffer)
{
    void *own = x->cone ? rt_cone_buffer(e, x, buffer) : NULL;
    return own ? own : e->buffers[buffer];
}

/* What a count means that a kernel is given: rows that it computes; elements that it reads may be more than are
   owned. */
static RtRows count_rows_of(const RtExec *e, int64_t i, const RtCount *c)
{
    const RtStep *s = step_def(e, i);
    return e->across && c->space != s->over ? RT_READ : step_rows(e, i);
}

static void fill_args(RtExec *e)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtExecStep *x = &e->steps[i];
        if (x->backend) fill_gemm_args(e, &e->model->products[x->def->part], x->args);
        for (int64_t k = 0; !x->backend && k < x->call->n_args; k++) {
            const RtStepArg *a = &e->model->step_args[x->call->first_arg + k];
            if (a->is_buffer) x->args[k].p = arg_buffer(e, x, a->buffer);
            else x->args[k].i = rt_count_value(e->graph, &a->count, count_rows_of(e, i, &a->count));
        }
        if (x->split) rt_split_bind(x->split);
    }
}

RtCode rt_exec_narrow(RtExec *e, RtStatus *st)
{
    RtCone *cone;
    bool had = e->cone != NULL;
    rt_cone_free(e->cone);
    e->cone = NULL;
    for (int64_t i = 0; had && i < e->program->n_steps; i++) find_rows(e, &e->steps[i]);
    RT_TRY(rt_cone_make(e, (RtConeMode)e->options.cone, &cone, st));
    e->cone = cone;
    for (int64_t i = 0; cone && i < e->program->n_steps; i++) {
        RtConeStep *c = &cone->steps[i];
        if (c->runs || c->rows) e->steps[i].cone = c;
        if (c->rows) e->steps[i].rows = c->rows;
    }
    if (!had && !cone) return RT_OK;
    RT_TRY(split_steps(e, st));
    for (int64_t i = 0; i < e->program->n_steps; i++) weigh_runs(&e->steps[i]);
    cut_steps(e);
    return RT_OK;
}

RtCode rt_exec_bind(RtExec *e, RtStatus *st)
{
    assert(!e->options.plan_only);
    RT_TRY(rt_exec_narrow(e, st));
    for (int64_t i = 0; i < e->program->n_buffers; i++) {
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + i];
        e->buffers[i] = e->options.device                ? rt_cuda_buffer(e, i)
                        : e->cone && e->cone->buffers[i] ? e->cone->buffers[i]
                                                         : buffer_pointer(e, b);
        if (!e->buffers[i] && rt_count_value(e->graph, &b->rows, RT_READ))
            return rt_fail(st, RT_E_MODEL_ARGUMENT, rt_string(e->model, e->program->name), NULL,
                           "no memory was given for %s", rt_string(e->model, b->name));
    }
    fill_args(e);
    if (e->across) RT_TRY(e->options.ranks->across->bind(e->across, st));
    e->bound = true;
    return e->options.device ? rt_cuda_bind(e, st) : RT_OK;
}

RtCode rt_exec_move(RtExec *e, RtStatus *st)
{
    const RtProgram *p = e->program;
    for (int64_t i = 0; i < p->n_slots; i++) {
        const RtSlot *s = &e->model->slots[p->first_slot + i];
        if (rt_count_value(e->graph, &s->rows, RT_READ) * s->row_bytes > e->places[i].bytes)
            return rt_fail(st, RT_E_INTERNAL, rt_string(e->model, p->name), NULL,
                           "a batch needs more memory than was planned");
    }
    return setup_steps(e, st);
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
    RT_TRY(rt_alloc(&e->places, p->n_slots + p->n_buffers, sizeof *e->places, "a context", st));
    const RtAcrossOps *across = e->options.ranks ? e->options.ranks->across : NULL;
    if (across) RT_TRY(across->make(e, &e->across, st));
    if (e->options.device || e->options.on_device)
        RT_TRY(rt_cuda_places(e->model, p, e->graph, e->places, &e->arena_bytes, st));
    else
        RT_TRY(place_slots(e->model, p, e->graph, across ? across->slots(e->across) : NULL, e->places, &e->arena_bytes,
                           st));
    RT_TRY(take_arena(e, st));
    if (across) RT_TRY(across->place(e->across, st));
    return make_steps(e, st);
}

RtCode rt_exec_create(const RtModel *m, int64_t program, const RtGraph *g, const RtExecOptions *o, RtExec **out,
                      RtStatus *st)
{
    assert(program >= 0 && program < m->n_programs && o->variant >= 0 && o->variant < RT_N_VARIANTS);
    *out = NULL;
    RtExec *e;
    RT_TRY(rt_alloc(&e, 1, sizeof *e, "a context", st));
    e->model = o->device ? o->device->model : m;
    e->program = &e->model->programs[program];
    e->graph = g;
    e->options = *o;
    RtCode code = exec_setup(e, st);
    if (code) rt_exec_free(e);
    else *out = e;
    return code;
}

void rt_exec_free(RtExec *e)
{
    if (!e) return;
    rt_cuda_unbind(e);
    if (e->across) e->options.ranks->across->free(e->across);
    rt_block_free(&e->arena);
    rt_block_free(&e->own_results);
    rt_block_free(&e->states);
    for (int64_t i = 0; e->steps && i < e->program->n_steps; i++) rt_split_free(e->steps[i].split);
    rt_cone_free(e->cone);
    for (int64_t i = 0; e->chains && i < e->program->n_chains; i++) rt_chain_free(e->chains[i]);
    free(e->chains);
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
            return rt_fail(st, RT_E_OVERFLOW, rt_string(e->model, defs[i].name), NULL, "a result's size overflows");
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

static void run_rows(const RtExecStep *x, const RtArg *args, int64_t lo, int64_t hi)
{
    if (x->split) rt_split_rows(x->split, args, lo, hi);
    else if (lo < hi) x->fn(args, lo, hi);
}

void rt_step_rows(const RtExecStep *x, const RtArg *args, int64_t lo, int64_t hi)
{
    const RtConeStep *c = x->cone;
    assert(lo >= 0 && lo <= hi && hi <= x->extent);
    if (!c || !c->runs) {
        run_rows(x, args, lo, hi);
        return;
    }
    for (int64_t i = rt_cone_run_at(c, lo); i < c->n_runs && c->runs[2 * i] < hi; i++)
        run_rows(x, args, c->runs[2 * i] > lo ? c->runs[2 * i] : lo, c->runs[2 * i + 1] < hi ? c->runs[2 * i + 1] : hi);
}

static void run_chunk(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtExecStep *x = args[0].p;
    rt_step_rows(x, x->args, lo, hi);
}

/* The i-th step, or the chain that begins with it. Returns how many steps that are. */
static int64_t run_step(RtExec *e, int64_t i)
{
    const RtExecStep *x = &e->steps[i];
    assert(e->bound && (!x->chain || x == x->chain->steps)); /* a chain runs as its first step's turn comes */
    int64_t n = x->chain ? x->chain->def->n : 1;
    for (int64_t k = 0; k < n; k++)
        if (x[k].split) rt_split_walks(x[k].split);
    rt_pool_run(e->options.pool, x->chain ? rt_chain_run : run_chunk, &x->self, x->bounds, x->order, x->n_chunks);
    return n;
}

void rt_exec_run(RtExec *e, int64_t seed, int64_t step)
{
    e->seed = seed;
    e->step = step;
    if (e->across) e->options.ranks->across->run(e->across);
    else if (e->options.device) rt_cuda_run(e);
    else
        for (int64_t i = 0; i < e->program->n_steps;) i += run_step(e, i);
}

int64_t rt_exec_run_step(RtExec *e, int64_t i) { return e->options.device ? rt_cuda_run_step(e, i) : run_step(e, i); }

RtCode rt_exec_results(RtExec *e, RtStatus *st)
{
    const RtRanks *r = e->options.ranks;
    if (r && r->failed && st) *st = r->status;
    return r && r->failed ? r->failed : e->options.device ? rt_cuda_results(e, st) : RT_OK;
}

void rt_exec_run_timed(RtExec *e, int64_t seed, int64_t step, double *ns)
{
    e->seed = seed;
    e->step = step;
    if (e->options.device) {
        rt_cuda_run_timed(e, ns);
        return;
    }
    double before = rt_now_ns();
    for (int64_t i = 0; i < e->program->n_steps;) {
        int64_t at = i;
        i += run_step(e, i);
        double after = rt_now_ns();
        ns[at] += after - before;
        before = after;
    }
}

static bool has_nan(const void *p, int64_t elem, int64_t n)
{
    const float *f = p;
    const double *d = p;
    const uint16_t *h = p;
    int most = elem == RT_K_F16 ? 0x7c00 : 0x7f80; /* infinity */
    for (int64_t i = 0; i < n; i++)
        if (elem >= RT_K_F16 ? (h[i] & 0x7fff) > most : elem == RT_K_F32 ? f[i] != f[i] : d[i] != d[i]) return true;
    return false;
}

/* Whether a float buffer of this step that steps write holds a NaN. Its operands were found clean
   before. */
static bool step_has_nan(const RtExec *e, const RtExecStep *x)
{
    for (int64_t k = 0; x->call && k < x->call->n_args; k++) {
        const RtStepArg *a = &e->model->step_args[x->call->first_arg + k];
        if (!a->is_buffer) continue;
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + a->buffer];
        if (b->elem < RT_K_F32 || b->kind == RT_BUF_STRIP) continue;
        RtCount rows = b->rows;
        if (rows.kind == RT_COUNT_BLOCK_SLOTS) rows.kind = RT_COUNT_BLOCKS; /* the others may hold anything */
        if (has_nan(e->buffers[a->buffer], b->elem, rt_count_value(e->graph, &rows, RT_READ) * b->width)) return true;
    }
    return false;
}

int64_t rt_exec_run_until_nan(RtExec *e, int64_t seed, int64_t step)
{
    assert(!e->options.device);
    e->seed = seed;
    e->step = step;
    memset(e->base, 0, (size_t)e->arena_bytes); /* what an earlier run left is not this one's */
    for (int64_t i = 0; i < e->program->n_steps;) {
        int64_t at = i;
        for (i += run_step(e, i); at < i; at++)
            if (step_has_nan(e, &e->steps[at])) return at;
    }
    return -1;
}

void rt_step_cost(const RtExec *e, int64_t step, double *bytes, double *flops)
{
    const RtStep *s = step_def(e, step);
    double share = e->cone ? e->cone->steps[step].share : 1;
    *bytes = *flops = 0;
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *c = &e->model->costs[s->first_cost + i];
        double n = share * (double)rt_count_value(e->graph, &c->count, RT_OWNED);
        *bytes += n * (double)c->bytes;
        *flops += n * (double)c->flops;
    }
}
