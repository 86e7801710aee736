/* Walks one program of a host plan in a test: lays out buffers of the exact size, poisoned before they are written, and
   calls a kernel runner for every step, the later half of its iterations first. The default runner is the reference
   run of kernel IR; tests of emitters give their own. */
#pragma once
#include "base/str.h"
#include "ir/eval.h"
#include "ir/plan.h"
#include "runtime/blocks.h"
#include "runtime/half.h"
#include "runtime/pack.h"
#include "tests/unit/check.h"
#include <stdlib.h>

typedef struct PlanRun PlanRun;
/* Runs iterations [lo, hi) of kernel `k` of the plan. NULL, or what went wrong. */
typedef const char *PlanCall(PlanRun *r, uint32_t k, const KirArg *args, const int64_t *n_elems, int64_t lo,
                             int64_t hi);

struct PlanRun {
    Arena *arena;
    const HostPlan *plan;
    const PlanProgram *prog;
    const EvalWorld *w;
    EvalValue *const *args;               /* of the function */
    PlanCall *call;                       /* NULL: kir_run */
    void *(*alloc)(void *user, size_t n); /* NULL: from the arena; else a buffer of just this size */
    void *user;
    int64_t ahead;       /* distance at which kernels ask for rows */
    bool narrow;         /* with the kernels for fewer registers */
    int64_t most_blocks; /* of a sum over all rows; 0: as the plan says */
    void **data;         /* [buffers] */
    int64_t *elems;      /* [buffers] */
    char **slots;        /* [slots] */
};

static inline int64_t plan_run_count(const PlanRun *r, const PlanCount *c)
{
    if (c->kind == PLAN_AHEAD) return r->ahead;
    if (c->kind == PLAN_SPLIT) return 0; /* no row is split here */
    const IrModule *m = r->plan->module;
    /* a pass may have made it: the world has it not */
    bool fixed = c->kind != PLAN_CONST && m->spaces.data[c->space].has_dim;
    int64_t n = c->kind == PLAN_CONST ? c->value
                : fixed               ? m->dims.data[m->spaces.data[c->space].dim].size
                                      : r->w->counts[c->space];
    if (c->kind == PLAN_CONST || c->kind == PLAN_COUNT) return n;
    RtBlocks b = rt_blocks(n, c->block, c->max != INT64_MAX && r->most_blocks ? r->most_blocks : c->max);
    switch (c->kind) {
    case PLAN_BLOCKS: return b.n;
    case PLAN_BLOCK_ROWS: return b.rows;
    case PLAN_BLOCK_LEVELS: return b.levels;
    default: return b.slots;
    }
}

static inline void plan_put(KirBase t, void *p, int64_t i, double v)
{
    switch (t) {
    case KIR_F32: ((float *)p)[i] = (float)v; break;
    case KIR_F64: ((double *)p)[i] = v; break;
    case KIR_F16: ((uint16_t *)p)[i] = f16_of_float((float)v); break;
    case KIR_BF16: ((uint16_t *)p)[i] = bf16_of_float((float)v); break;
    case KIR_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case KIR_I64: ((int64_t *)p)[i] = (int64_t)v; break;
    default: ((int8_t *)p)[i] = v != 0; break;
    }
}

static inline double plan_get(KirBase t, const void *p, int64_t i)
{
    switch (t) {
    case KIR_F32: return (double)((const float *)p)[i];
    case KIR_F64: return ((const double *)p)[i];
    case KIR_F16: return (double)f16_to_float(((const uint16_t *)p)[i]);
    case KIR_BF16: return (double)bf16_to_float(((const uint16_t *)p)[i]);
    case KIR_I32: return ((const int32_t *)p)[i];
    case KIR_I64: return (double)((const int64_t *)p)[i];
    default: return ((const int8_t *)p)[i];
    }
}

static inline void *plan_poison(PlanRun *r, size_t n)
{
    void *p = r->alloc ? r->alloc(r->user, n) : arena_alloc(r->arena, n + 64);
    memset(p, 0xff, r->alloc ? n : n + 64);
    return p;
}

/* Row offsets and element lists of a map, elements in the user's order. */
static inline void plan_run_rows(const PlanRun *r, IrId map, int64_t *offsets, int32_t *list)
{
    const IrMap *m = &r->plan->module->maps.data[map];
    int64_t n_from = r->w->counts[m->from], n_to = r->w->counts[m->to], at = 0;
    const int64_t *ids = r->w->element_ids[m->from];
    int64_t *stored = ARENA_ARRAY(r->arena, int64_t, n_from + 1);
    for (int64_t i = 0; i < n_from; i++) stored[ids ? ids[i] : i] = i;
    for (int64_t t = 0; t < n_to; t++) {
        if (offsets) offsets[t] = at;
        for (int64_t id = 0; id < n_from; id++)
            if (r->w->maps[map][stored[id]] == t) {
                if (list) list[at] = (int32_t)stored[id];
                at++;
            }
    }
    if (offsets) offsets[n_to] = at;
}

static inline const EvalValue *plan_run_arg(const PlanRun *r, IrArgKind kind, IrId ref)
{
    const IrFunc *f = r->plan->module->funcs.data[r->prog->func];
    for (uint32_t i = 0; i < f->args.n; i++)
        if (f->args.data[i].kind == kind && (f->args.data[i].ref == ref || kind == IR_ARG_SEED || kind == IR_ARG_STEP))
            return r->args[i];
    return NULL;
}

static inline void plan_run_index_buffer(const PlanRun *r, const PlanBuffer *b, void *p, int64_t n)
{
    switch (b->kind) {
    case PLAN_MAP_TO:
        for (int64_t i = 0; i < n; i++) ((int32_t *)p)[i] = (int32_t)r->w->maps[b->ref][i];
        break;
    case PLAN_MAP_ROWS: plan_run_rows(r, b->ref, p, NULL); break;
    case PLAN_MAP_LIST: plan_run_rows(r, b->ref, NULL, p); break;
    case PLAN_MAP_ALONG:
        plan_run_rows(r, b->along, NULL, p);
        for (int64_t i = 0; i < n; i++)
            if (((int32_t *)p)[i] >= 0) ((int32_t *)p)[i] = (int32_t)r->w->maps[b->ref][((int32_t *)p)[i]];
        break;
    case PLAN_IDS:
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)p)[i] = r->w->element_ids[b->ref] ? r->w->element_ids[b->ref][i] : i;
        break;
    default: break;
    }
}

static inline void plan_run_buffer(PlanRun *r, uint32_t i)
{
    static const IrArgKind kinds[] = {[PLAN_TENSOR] = IR_ARG_TENSOR,
                                      [PLAN_COTANGENT] = IR_ARG_COTANGENT,
                                      [PLAN_SEED] = IR_ARG_SEED,
                                      [PLAN_STEP] = IR_ARG_STEP};
    const PlanBuffer *b = &r->prog->buffers.data[i];
    int64_t n = plan_run_count(r, &b->rows) * b->width + (b->kind == PLAN_MAP_ROWS);
    r->elems[i] = n;
    if (b->kind == PLAN_ARENA) {
        r->data[i] = r->slots[b->slot];
        return;
    }
    r->data[i] = plan_poison(r, (size_t)n * kir_base_bytes(b->elem));
    plan_run_index_buffer(r, b, r->data[i], n);
    if (b->kind != PLAN_TENSOR && b->kind != PLAN_COTANGENT && b->kind != PLAN_SEED && b->kind != PLAN_STEP) return;
    const EvalValue *v = plan_run_arg(r, kinds[b->kind], b->ref);
    for (int64_t k = 0; v && k < n; k++) plan_put(b->elem, r->data[i], k, v->v[k]);
}

static inline const char *plan_run_step(PlanRun *r, const PlanStep *s)
{
    KirArg *args = ARENA_ARRAY(r->arena, KirArg, s->args.n + 1);
    int64_t *elems = ARENA_ARRAY(r->arena, int64_t, s->args.n + 1), extent = plan_run_count(r, &s->extent);
    for (uint32_t k = 0; k < s->args.n; k++) {
        const PlanArg *a = &s->args.data[k];
        if (a->is_buffer) args[k].p = r->data[a->buffer], elems[k] = r->elems[a->buffer];
        else args[k].i = plan_run_count(r, &a->count);
    }
    const KirKernel *kernel = plan_kernel(r->plan, s->kernel, !r->narrow);
    const KirIns *last = kernel->body.ins.n ? &kernel->ins.data[kernel->body.ins.data[kernel->body.ins.n - 1]] : NULL;
    bool parallel = last && last->op == KIR_for && last->bind >= KIR_THREADS;
    int64_t cuts[3] = {0, parallel ? extent / 2 : 0, parallel ? extent : 1};
    for (int part = 1; part >= 0; part--) {
        if (cuts[part] == cuts[part + 1]) continue;
        const char *why = r->call ? r->call(r, s->kernel, args, elems, cuts[part], cuts[part + 1])
                                  : kir_run(r->arena, kernel, args, elems, cuts[part], cuts[part + 1]);
        if (why) return why;
    }
    return NULL;
}

/* Slots where the runtime would put them, so that a life that ends too early is seen; with an allocator of the caller's
   each alone, so that it sees what is written beyond its end. */
static inline void plan_run_slots(PlanRun *r)
{
    uint32_t n = r->prog->slots.n;
    RtPack *places = ARENA_ARRAY(r->arena, RtPack, n + 1);
    RtPackRoom *rooms = ARENA_ARRAY(r->arena, RtPackRoom, r->prog->buffers.n + 1);
    r->slots = ARENA_ARRAY(r->arena, char *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const PlanSlot *s = &r->prog->slots.data[i];
        int64_t bytes = plan_run_count(r, &s->rows) * s->row_bytes;
        if (r->alloc) r->slots[i] = plan_poison(r, (size_t)bytes);
        places[i] = (RtPack){.bytes = (bytes + 63) & ~(int64_t)63, .first = s->first, .last = s->last, .used = bytes};
    }
    for (uint32_t i = 0; i < r->prog->buffers.n; i++) {
        const PlanBuffer *b = &r->prog->buffers.data[i];
        if (b->kind == PLAN_ARENA && b->writer != UINT32_MAX && b->slot < n) places[b->slot].used = 0;
        if (b->kind != PLAN_RESULT || r->alloc) continue;
        plan_run_buffer(r, i);
        rooms[i] = (RtPackRoom){.bytes = r->elems[i] * (int64_t)kir_base_bytes(b->elem), .until = b->first};
    }
    int64_t total = rt_pack(places, n, rooms, r->prog->buffers.n);
    char *base = r->alloc ? NULL : plan_poison(r, (size_t)total);
    for (uint32_t i = 0; i < n && !r->alloc; i++)
        r->slots[i] = (places[i].room ? (char *)r->data[places[i].room - 1] : base) + places[i].at;
}

/* Buffer of result `index`: the caller's, or the tensor it updates. UINT32_MAX if no step touches it. */
static inline uint32_t plan_run_result(const PlanRun *r, uint32_t index)
{
    const IrResult *result = &r->plan->module->funcs.data[r->prog->func]->results.data[index];
    for (uint32_t i = 0; i < r->prog->buffers.n; i++) {
        const PlanBuffer *b = &r->prog->buffers.data[i];
        if (result->tensor == IR_NONE ? b->kind == PLAN_RESULT && b->ref == index
                                      : b->kind == PLAN_TENSOR && b->ref == result->tensor)
            return i;
    }
    return UINT32_MAX;
}

/* NULL, or what went wrong. Results are then read with plan_run_result. */
static inline const char *plan_run(PlanRun *r)
{
    r->data = ARENA_ARRAY(r->arena, void *, r->prog->buffers.n + 1);
    r->elems = ARENA_ARRAY(r->arena, int64_t, r->prog->buffers.n + 1);
    plan_run_slots(r);
    for (uint32_t i = 0; i < r->prog->buffers.n; i++)
        if (!r->data[i]) plan_run_buffer(r, i);
    for (uint32_t i = 0; i < r->prog->steps.n; i++) {
        const char *why = plan_run_step(r, &r->prog->steps.data[i]);
        if (why) return arena_printf(r->arena, "step %u: %s", i, why);
    }
    return NULL;
}

/* Does a compiled value agree with the interpreter's? Beyond the range of f32 anything may overflow. */
static inline bool plan_accepts(const EvalValue *want, int64_t i, double got)
{
    double v = want->v[i], e = want->err[i];
    double huge = want->type.dtype == IR_F32 ? 1e37 : 1e306;
    if (want->undecided[i]) return true;
    if (v != v) return got != got;
    if (v > huge || v < -huge) return got == v || e > 0 || v == v;
    double d = got - v;
    return d <= e && -d <= e;
}

/* Runs the plan's first function: every result within the bounds of the interpreter's. plan NULL fails. */
static inline void plan_run_check(Arena *a, const HostPlan *plan, const EvalWorld *w, EvalValue *const *args,
                                  EvalValue *const *want, const char *what)
{
    if (!check(plan != NULL, "%s: no plan", what)) return;
    PlanRun r = {.arena = a, .plan = plan, .prog = plan->programs.data[0], .w = w, .args = args};
    const char *why = plan_run(&r);
    if (!check(!why, "%s: %s", what, why)) return;
    for (uint32_t i = 0; i < plan->module->funcs.data[0]->results.n; i++) {
        uint32_t b = plan_run_result(&r, i);
        for (int64_t e = 0; e < want[i]->rows * want[i]->width; e++) {
            double got = plan_get(r.prog->buffers.data[b].elem, r.data[b], e);
            check(plan_accepts(want[i], e, got), "%s: result %u, element %lld: %.9g, wanted %.9g within %.3g", what, i,
                  (long long)e, got, want[i]->v[e], want[i]->err[e]);
        }
    }
}
