/* The host plan and what the runtime needs of the module as the flat tables of runtime/abi.h.
   Everything becomes an integer, a double or an offset into one string blob, in the order of the
   plan: the same plan gives the same bytes. Never looks into a kernel's body. */
#include "codegen/tables.h"
#include "base/ice.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct Builder {
    Arena *arena;
    const HostPlan *plan;
    const IrModule *m;
    StrBuf blob;
    StrMap known; /* text -> its entry in `offsets` */
    VEC(RtSpace) spaces;
    VEC(RtMapDef) maps;
    VEC(RtGraphDef) graphs;
    VEC(RtTensorDef) tensors;
    VEC(RtProgram) programs;
    VEC(RtBuffer) buffers;
    VEC(RtSlot) slots;
    VEC(RtStep) steps;
    VEC(RtCall) calls;
    VEC(RtGemm) products;
    VEC(RtSplitDef) splits;
    VEC(RtChainDef) chains;
    VEC(RtTouch) touches;
    VEC(RtStepArg) step_args;
    VEC(RtCost) costs;
    VEC(RtSet) sets;
    VEC(RtArgDef) argdefs;
    VEC(RtResultDef) results;
    VEC(RtMetric) metrics;
    VEC(RtTrain) train;
    VEC(RtImage) images;
    VEC(RtDeviceKernel) device_kernels;
    VEC(RtDeviceRates) device_rates;
    StrBuf device_code;
} Builder;

unsigned codegen_variants(const CodegenOptions *o)
{
    unsigned all = (1u << RT_N_VARIANTS) - 1;
    return o->variants & all ? o->variants & all : all;
}

static int64_t string(Builder *b, const char *s)
{
    if (!s) return -1;
    int64_t *at = strmap_get(&b->known, s);
    if (at) return *at;
    at = ARENA_NEW(b->arena, int64_t);
    *at = (int64_t)b->blob.n;
    strbuf_add(&b->blob, s, strlen(s) + 1);
    strmap_put(&b->known, s, at);
    return *at;
}

static int64_t index_of(IrId id) { return id == IR_NONE ? -1 : (int64_t)id; }

/* The last part of a path: what is built must not depend on where. */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static RtPlace place(Builder *b, Span span)
{
    uint32_t line, col;
    if (!span.source) return (RtPlace){-1, 0};
    source_line_col(span.source, span.begin, &line, &col);
    return (RtPlace){string(b, file_name(span.source->path)), line};
}

static RtCount count(PlanCount c)
{
    bool plain = c.kind == PLAN_CONST || c.kind == PLAN_AHEAD || c.kind == PLAN_SPLIT;
    bool blocks = !plain && c.kind != PLAN_COUNT;
    return (RtCount){.kind = c.kind,
                     .space = plain ? -1 : index_of(c.space),
                     .value = plain ? c.value : 0,
                     .block = blocks ? c.block : 0,
                     .max = blocks ? c.max : 0};
}

/* Fills n_dims sizes and names; returns elements per row. */
static int64_t dims(Builder *b, const IrType *t, int64_t *sizes, int64_t *names)
{
    ICE_UNLESS(t->n_dims <= RT_MAX_DIMS);
    for (unsigned i = 0; i < RT_MAX_DIMS; i++) sizes[i] = 0, names[i] = -1;
    for (unsigned i = 0; i < t->n_dims; i++) {
        const IrDim *d = &b->m->dims.data[t->dims[i]];
        sizes[i] = d->size;
        names[i] = string(b, d->name);
    }
    int64_t width = ir_type_width(b->m, t);
    ICE_UNLESS(width >= 0);
    return width;
}

static void add_spaces(Builder *b)
{
    for (uint32_t i = 0; i < b->m->spaces.n; i++) {
        const IrSpace *s = &b->m->spaces.data[i];
        int64_t fixed = s->has_dim ? b->m->dims.data[s->dim].size : 0;
        VEC_PUSH(b->arena, &b->spaces, ((RtSpace){string(b, s->name), s->is_edge, fixed, place(b, s->span)}));
    }
}

/* Some step reads the rows of this map, or is cut by them. */
static bool needs_rows(const Builder *b, IrId map)
{
    for (uint32_t p = 0; p < b->plan->programs.n; p++) {
        const PlanProgram *prog = b->plan->programs.data[p];
        for (uint32_t i = 0; i < prog->buffers.n; i++) {
            const PlanBuffer *x = &prog->buffers.data[i];
            if ((x->kind == PLAN_MAP_ROWS || x->kind == PLAN_MAP_LIST) && x->ref == map) return true;
            if (x->kind == PLAN_MAP_ALONG && x->along == map) return true;
        }
        for (uint32_t i = 0; i < prog->steps.n; i++)
            if (prog->steps.data[i].cut == map) return true;
    }
    return false;
}

/* An end of candidates whose images no step reads, and no rows are made of. */
static bool is_implied(const Builder *b, IrId map)
{
    const IrGraph *g = ir_graph_of_all(b->m, map);
    if (!g || (g->src == map && needs_rows(b, map))) return false;
    for (uint32_t p = 0; p < b->plan->programs.n; p++) {
        const PlanProgram *prog = b->plan->programs.data[p];
        for (uint32_t i = 0; i < prog->buffers.n; i++) {
            const PlanBuffer *x = &prog->buffers.data[i];
            bool images = x->kind == PLAN_MAP_TO || x->kind == PLAN_MAP_ALONG || x->kind == PLAN_MAP_LIST;
            if ((images && x->ref == map) || (x->kind == PLAN_MAP_ALONG && x->along == map)) return false;
        }
    }
    return true;
}

static void add_maps(Builder *b)
{
    for (uint32_t i = 0; i < b->m->maps.n; i++) {
        const IrMap *x = &b->m->maps.data[i];
        VEC_PUSH(b->arena, &b->maps,
                 ((RtMapDef){string(b, x->name), x->from, x->to, x->partial, x->sorted, index_of(x->inverse),
                             needs_rows(b, i), x->computed, is_implied(b, i)}));
    }
}

static void add_graphs(Builder *b)
{
    for (uint32_t i = 0; i < b->m->graphs.n; i++) {
        const IrGraph *g = &b->m->graphs.data[i];
        RtGraphDef x = {.name = string(b, g->name),
                        .kind = g->kind,
                        .edge = index_of(g->edge),
                        .src_space = index_of(g->src_space),
                        .dst_space = index_of(g->dst_space),
                        .src = index_of(g->src),
                        .dst = index_of(g->dst),
                        .base = index_of(g->base),
                        .orig = index_of(g->orig),
                        .image = index_of(g->image),
                        .policy = g->policy,
                        .n_nodes = g->kind == IR_GRAPH_NEAREST ? g->step : g->n_nodes,
                        .n_edges = g->n_edges,
                        .seed = g->seed,
                        .batch = ir_graph_has_by(g->kind) ? index_of(g->batch) : -1,
                        .of = ir_graph_has_of(g->kind) ? index_of(g->of) : -1,
                        .ratio = g->ratio,
                        .redrawn = g->redrawn,
                        .file = ir_graph_is_read(g->kind) ? string(b, ir_graph_file(g)) : -1,
                        .where = string(b, g->where),
                        .equals = g->equals,
                        .n_path = g->n_path,
                        .n_keys = g->n_keys,
                        .declared = place(b, g->span)};
        for (uint32_t k = 0; k < g->n_path; k++) x.path[k] = g->path[k];
        for (uint32_t k = 0; k < g->n_keys; k++) x.keys[k] = string(b, g->keys[k]);
        VEC_PUSH(b->arena, &b->graphs, x);
    }
}

static void add_tensors(Builder *b)
{
    for (uint32_t i = 0; i < b->m->tensors.n; i++) {
        const IrTensor *t = &b->m->tensors.data[i];
        RtTensorDef x = {.name = string(b, t->name),
                         .kind = t->kind,
                         .space = index_of(t->type.space),
                         .dtype = t->type.dtype,
                         .n_dims = t->type.n_dims,
                         .n_stored = t->n_stored,
                         .init = t->init,
                         .init_a = t->init_a,
                         .init_b = t->init_b,
                         .hyper_default = t->hyper_default,
                         .bound = t->bound,
                         .allow_missing = t->allow_missing,
                         .sparse = t->sparse,
                         .nonzeros = t->nonzeros.present,
                         .of = -1,
                         .row = -1,
                         .col = -1,
                         .is_map = t->is_map,
                         .map = -1,
                         .declared = place(b, t->span)};
        if (t->is_map) x.map = t->map;
        if (t->nonzeros.present) x.of = t->nonzeros.of, x.row = t->nonzeros.row, x.col = t->nonzeros.col;
        x.width = dims(b, &t->type, x.dims, x.dim_names);
        for (unsigned k = 0; k < t->n_stored; k++) x.stored_shape[k] = t->stored_shape[k];
        for (unsigned k = 0; k < t->type.n_dims; k++) x.stored_perm[k] = t->stored_perm[k];
        VEC_PUSH(b->arena, &b->tensors, x);
    }
}

static void add_buffers(Builder *b, const PlanProgram *p)
{
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        const PlanBuffer *x = &p->buffers.data[i];
        ICE_UNLESS(x->kind != PLAN_ARENA || x->slot < p->slots.n);
        bool arena = x->kind == PLAN_ARENA;
        bool refers = !arena && x->kind != PLAN_SEED && x->kind != PLAN_STEP;
        RtBuffer y = {.kind = x->kind,
                      .ref = refers ? index_of(x->ref) : -1,
                      .elem = x->elem,
                      .width = x->width,
                      .slot = arena ? (int64_t)x->slot : -1,
                      .name = string(b, x->name),
                      .rows = count(x->rows),
                      .along = x->kind == PLAN_MAP_ALONG ? index_of(x->along) : -1,
                      .writer = index_of(x->writer)};
        VEC_PUSH(b->arena, &b->buffers, y);
    }
    for (uint32_t i = 0; i < p->slots.n; i++) {
        const PlanSlot *s = &p->slots.data[i];
        ICE_UNLESS(s->first <= s->last && s->row_bytes >= 0);
        VEC_PUSH(b->arena, &b->slots, ((RtSlot){s->row_bytes, s->first, s->last, count(s->rows)}));
    }
}

_Static_assert((int)PLAN_CHAIN_STEPS == (int)RT_CHAIN_STEPS && (int)PLAN_CHAIN_ARGS == (int)RT_CHAIN_ARGS,
               "chains that the compiler makes fit");

_Static_assert((int)IR_MAX_PATH == (int)RT_MAX_PATH, "paths that the compiler makes fit");

_Static_assert((int)PLAN_SPLIT_LAST == (int)RT_SPLIT_LAST && (int)ORDER_ROW_BLOCK == (int)RT_SPLIT_BLOCK &&
                   (int)PLAN_SPLIT_ARGS == (int)RT_SPLIT_ARGS,
               "parts of rows as the compiler makes them");

/* Adds a step's arguments to the table. k: the step's kernel, whose parameters say which buffers it writes to. */
static void add_args(Builder *b, const KirKernel *k, const PlanArg *args, uint32_t n)
{
    ICE_UNLESS(k->params.n == n);
    for (uint32_t i = 0; i < n; i++) {
        const PlanArg *arg = &args[i];
        RtStepArg y = {.is_buffer = arg->is_buffer,
                       .buffer = arg->is_buffer ? (int64_t)arg->buffer : -1,
                       .written = arg->is_buffer && k->params.data[i].kind != KIR_IN,
                       .count = arg->is_buffer ? (RtCount){.space = -1} : count(arg->count)};
        VEC_PUSH(b->arena, &b->step_args, y);
    }
}

static int64_t add_split(Builder *b, const PlanSplit *s)
{
    if (!s) return -1;
    ICE_UNLESS(s->kernel < b->plan->splits.n && s->args.n <= RT_SPLIT_ARGS);
    VEC_PUSH(b->arena, &b->splits,
             ((RtSplitDef){s->walks, (int64_t)b->plan->kernels.n + s->kernel, b->step_args.n, s->args.n}));
    add_args(b, b->plan->splits.data[s->kernel], s->args.data, s->args.n);
    return b->splits.n - 1;
}

static int64_t add_call(Builder *b, const PlanStep *s)
{
    ICE_UNLESS(s->kernel < b->plan->kernels.n && s->grain > 0);
    RtCall x = {.kernel = s->kernel,
                .first_arg = b->step_args.n,
                .n_args = s->args.n,
                .grain = s->grain,
                .cut = index_of(s->cut),
                .rows = index_of(s->cone.rows),
                .walk = index_of(s->cone.walk),
                .extent = count(s->extent)};
    add_args(b, plan_kernel(b->plan, s->kernel, true), s->args.data, s->args.n);
    x.split = add_split(b, plan_split(s));
    VEC_PUSH(b->arena, &b->calls, x);
    return b->calls.n - 1;
}

static int64_t add_product(Builder *b, const PlanStep *s)
{
    const PlanGemm *g = &s->gemm;
    RtGemm x = {.call = add_call(b, s),
                .transposed_a = g->transposed_a,
                .a = g->a,
                .b = g->b,
                .c = g->c,
                .m = g->m,
                .n = g->n,
                .k = g->k,
                .elem = g->elem,
                .rows = count(g->rows),
                .blocks = count(g->blocks),
                .block_rows = count(g->block_rows)};
    VEC_PUSH(b->arena, &b->products, x);
    return b->products.n - 1;
}

static void add_step(Builder *b, const PlanStep *s)
{
    RtStep x = {.kind = s->kind,
                .first_cost = b->costs.n,
                .n_cost = s->cost.n,
                .label = string(b, s->label),
                .work = s->work,
                .over = index_of(s->over),
                .under = index_of(s->under),
                .first_touch = b->touches.n,
                .n_touches = s->touches.n};
    for (uint32_t i = 0; i < s->touches.n; i++) {
        const PlanTouch *t = &s->touches.data[i];
        VEC_PUSH(b->arena, &b->touches, ((RtTouch){t->buffer, t->writes, t->at, index_of(t->image), t->how}));
    }
    switch (s->kind) {
    case PLAN_STEP_KERNEL: x.part = add_call(b, s); break;
    case PLAN_STEP_PRODUCT: x.part = add_product(b, s); break;
    }
    RtPlace at = place(b, s->span);
    x.file = at.file, x.line = at.line;
    VEC_PUSH(b->arena, &b->steps, x);
    for (uint32_t i = 0; i < s->cost.n; i++) {
        const PlanCost *c = &s->cost.data[i];
        VEC_PUSH(b->arena, &b->costs, ((RtCost){c->bytes, c->flops, count(c->count), index_of(c->table)}));
    }
}

static void add_signature(Builder *b, const IrFunc *f)
{
    for (uint32_t i = 0; i < f->args.n; i++) {
        const IrArg *arg = &f->args.data[i];
        VEC_PUSH(b->arena, &b->argdefs, ((RtArgDef){string(b, arg->name), arg->kind, index_of(arg->ref)}));
    }
    for (uint32_t i = 0; i < f->results.n; i++) {
        const IrResult *r = &f->results.data[i];
        ICE_UNLESS(r->value < f->ops.n);
        const IrType *t = &f->ops.data[r->value].type;
        RtResultDef x = {.name = string(b, r->name),
                         .space = index_of(t->space),
                         .dtype = t->dtype,
                         .n_dims = t->n_dims,
                         .tensor = index_of(r->tensor)};
        x.width = dims(b, t, x.dims, x.dim_names);
        VEC_PUSH(b->arena, &b->results, x);
    }
}

static void add_program(Builder *b, const PlanProgram *p)
{
    const IrFunc *f = b->m->funcs.data[p->func];
    RtProgram x = {.name = string(b, p->name),
                   .first_buffer = b->buffers.n,
                   .n_buffers = p->buffers.n,
                   .first_slot = b->slots.n,
                   .n_slots = p->slots.n,
                   .first_step = b->steps.n,
                   .n_steps = p->steps.n,
                   .first_argdef = b->argdefs.n,
                   .n_argdefs = f->args.n,
                   .first_result = b->results.n,
                   .n_results = f->results.n,
                   .first_set = b->sets.n,
                   .n_sets = p->sets.n,
                   .first_chain = b->chains.n,
                   .n_chains = p->chains.n};
    VEC_PUSH(b->arena, &b->programs, x);
    for (uint32_t i = 0; i < p->sets.n; i++) {
        const PlanSet *s = &p->sets.data[i];
        VEC_PUSH(b->arena, &b->sets, ((RtSet){s->kind, s->space, index_of(s->ref), index_of(s->a), index_of(s->b)}));
    }
    add_buffers(b, p);
    for (uint32_t i = 0; i < p->steps.n; i++) add_step(b, &p->steps.data[i]);
    for (uint32_t i = 0; i < p->chains.n; i++) {
        const PlanChain *c = &p->chains.data[i];
        ICE_UNLESS(c->n >= 2 && c->n <= RT_CHAIN_STEPS && c->first + c->n <= p->steps.n && c->block > 0 &&
                   c->strip % c->block == 0);
        VEC_PUSH(b->arena, &b->chains, ((RtChainDef){c->first, c->n, c->strip, c->block}));
    }
    add_signature(b, f);
}

static void add_train(Builder *b)
{
    const IrTrain *t = &b->m->train;
    RtTrain x = {t->present,   t->epochs, t->seed, index_of(t->stop_metric), t->stop_minimise, t->patience,
                 t->metrics.n, t->steps,  t->batch};
    if (!t->present) x = (RtTrain){.stop_metric = -1};
    VEC_PUSH(b->arena, &b->train, x);
    for (uint32_t i = 0; t->present && i < t->metrics.n; i++) {
        const IrMetric *metric = &t->metrics.data[i];
        VEC_PUSH(b->arena, &b->metrics, ((RtMetric){string(b, metric->name), metric->result}));
    }
}

/* Images begin at multiples of 64 bytes, and a zero follows each: PTX is a text. */
static void add_image(Builder *b, int64_t kind, const char *arch, const NvrtcCode *code)
{
    static const char zeros[64];
    ICE_UNLESS(code->bytes && code->n);
    RtImage x = {kind, strtol(arch + strcspn(arch, "0123456789"), NULL, 10), (int64_t)b->device_code.n,
                 (int64_t)code->n};
    VEC_PUSH(b->arena, &b->images, x);
    strbuf_add(&b->device_code, code->bytes, code->n);
    strbuf_add(&b->device_code, zeros, sizeof zeros - b->device_code.n % sizeof zeros);
}

static void add_device(Builder *b, const CodegenDevice *d)
{
    const CudaCode *code = d ? d->code : NULL;
    for (uint32_t i = 0; code && i < code->n; i++)
        add_image(b, RT_IMAGE_CUBIN, code->archs[i].name, &code->archs[i].code);
    if (code) add_image(b, RT_IMAGE_PTX, code->oldest, &code->ptx);
    if (d) VEC_PUSH(b->arena, &b->device_rates, d->rates);
    for (uint32_t i = 0; d && i < plan_n_kernels(b->plan); i++) {
        RtDeviceKernel k = d->kernels[i];
        k.name = string(b, d->names[i]);
        VEC_PUSH(b->arena, &b->device_kernels, k);
    }
}

/* The model's floats are all of one width: that of the first float tensor. */
static int64_t float_dtype(const IrModule *m)
{
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        IrDtype t = m->tensors.data[i].type.dtype;
        if (ir_dtype_is_float(t)) return ir_dtype_is_16_bits(t) ? RT_F32 : t;
    }
    return RT_F32;
}

static void finish(Builder *b, ModelTables *t, int64_t name, int64_t manifest)
{
    const Table tables[N_TABLES] = {
        {"spaces", &table_RtSpace, b->spaces.data, b->spaces.n},
        {"maps", &table_RtMapDef, b->maps.data, b->maps.n},
        {"graphs", &table_RtGraphDef, b->graphs.data, b->graphs.n},
        {"tensors", &table_RtTensorDef, b->tensors.data, b->tensors.n},
        {"programs", &table_RtProgram, b->programs.data, b->programs.n},
        {"buffers", &table_RtBuffer, b->buffers.data, b->buffers.n},
        {"slots", &table_RtSlot, b->slots.data, b->slots.n},
        {"steps", &table_RtStep, b->steps.data, b->steps.n},
        {"calls", &table_RtCall, b->calls.data, b->calls.n},
        {"products", &table_RtGemm, b->products.data, b->products.n},
        {"splits", &table_RtSplitDef, b->splits.data, b->splits.n},
        {"chains", &table_RtChainDef, b->chains.data, b->chains.n},
        {"touches", &table_RtTouch, b->touches.data, b->touches.n},
        {"step_args", &table_RtStepArg, b->step_args.data, b->step_args.n},
        {"costs", &table_RtCost, b->costs.data, b->costs.n},
        {"sets", &table_RtSet, b->sets.data, b->sets.n},
        {"argdefs", &table_RtArgDef, b->argdefs.data, b->argdefs.n},
        {"results", &table_RtResultDef, b->results.data, b->results.n},
        {"metrics", &table_RtMetric, b->metrics.data, b->metrics.n},
        {"train", &table_RtTrain, b->train.data, b->train.n},
        {"images", &table_RtImage, b->images.data, b->images.n},
        {"device_kernels", &table_RtDeviceKernel, b->device_kernels.data, b->device_kernels.n},
        {"device_rates", &table_RtDeviceRates, b->device_rates.data, b->device_rates.n},
    };
    memcpy(t->tables, tables, sizeof tables);
    t->strings = b->blob.data, t->n_strings = b->blob.n;
    t->device_code = b->device_code.data, t->n_device_code = b->device_code.n;
    t->model = (RtModel){.abi_version = RT_ABI_VERSION,
                         .name = name,
                         .float_dtype = float_dtype(b->m),
                         .n_spaces = b->spaces.n,
                         .n_maps = b->maps.n,
                         .n_graphs = b->graphs.n,
                         .n_tensors = b->tensors.n,
                         .n_programs = b->programs.n,
                         .n_kernels = plan_n_kernels(b->plan),
                         .n_strings = (int64_t)b->blob.n,
                         .n_images = b->images.n,
                         .n_device_kernels = b->device_kernels.n,
                         .strings = b->blob.data,
                         .spaces = b->spaces.data,
                         .maps = b->maps.data,
                         .graphs = b->graphs.data,
                         .tensors = b->tensors.data,
                         .programs = b->programs.data,
                         .buffers = b->buffers.data,
                         .slots = b->slots.data,
                         .steps = b->steps.data,
                         .calls = b->calls.data,
                         .products = b->products.data,
                         .splits = b->splits.data,
                         .chains = b->chains.data,
                         .touches = b->touches.data,
                         .step_args = b->step_args.data,
                         .costs = b->costs.data,
                         .sets = b->sets.data,
                         .argdefs = b->argdefs.data,
                         .results = b->results.data,
                         .metrics = b->metrics.data,
                         .train = b->train.data,
                         .images = b->images.data,
                         .device_kernels = b->device_kernels.data,
                         .device_rates = b->device_rates.data,
                         .device_code = (const unsigned char *)b->device_code.data,
                         .manifest = manifest};
}

/* The tables of one plan. device: how its kernels run on GPUs, NULL for a plan of CPUs alone; manifest: the JSON text
   that `info` prints, or "". */
static ModelTables *build(const HostPlan *plan, const char *model, const CodegenDevice *device, const char *manifest,
                          Arena *a)
{
    Builder b = {.arena = a,
                 .plan = plan,
                 .m = plan->module,
                 .blob = {.arena = a},
                 .known = {.arena = a},
                 .device_code = {.arena = a}};
    int64_t name = string(&b, model);
    add_spaces(&b);
    add_maps(&b);
    add_graphs(&b);
    add_tensors(&b);
    for (uint32_t i = 0; i < plan->programs.n; i++) add_program(&b, plan->programs.data[i]);
    add_train(&b);
    add_device(&b, device);
    int64_t text = string(&b, manifest);
    ModelTables *t = ARENA_NEW(a, ModelTables);
    finish(&b, t, name, text);
    return t;
}

const ModelTables *tables_build(const HostPlan *plan, const CodegenOptions *o, Arena *a)
{
    const CodegenDevice *d = o->device;
    bool one = d && d->plan == plan;
    ICE_UNLESS(!d || d->plan->programs.n == plan->programs.n); /* the same functions, in the same order */
    StrBuf manifest = {.arena = a};
    emit_manifest(plan, o, &manifest);
    ModelTables *t = build(plan, o->name, one ? d : NULL, strbuf_cstr(&manifest), a);
    if (one) t->device = t;
    else if (d) t->device = build(d->plan, o->name, d, "", a);
    return t;
}
