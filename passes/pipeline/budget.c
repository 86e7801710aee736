/* The choice under a memory budget: which of the values that fuse stores because that is faster are computed again
   instead, so that each function's planned memory fits. Where counts are known, every trial is lowered and packed as a
   load would do it, so that the peak is exact; sets of values are tried in the order of what they cost, the fastest
   first.

     arena 430 MB, budget 300 MB   ->   %28 = exp ... : edge[8] computed again by 2 kernels, 3.1 ns per node: 286 MB
   What must have memory (sums, products, what a product reads) is never touched. */
#include "passes/pipeline/budget.h"
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "runtime/blocks.h"
#include "runtime/pack.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_CHOICES = 12, MAX_TRIALS = 400, MAX_ROUNDS = 8 };

/* ---- counts ---------------------------------------------------------------------------------------------- */

/* What 64 bits do not count is INT64_MAX, and so is all that is made of it: it fits nowhere. */
static int64_t times(int64_t n, int64_t k)
{
    int64_t all;
    return __builtin_mul_overflow(n, k, &all) ? INT64_MAX : all;
}

static int64_t plus(int64_t n, int64_t k)
{
    int64_t all;
    return __builtin_add_overflow(n, k, &all) ? INT64_MAX : all;
}

static const IrGraph *graph_of(const IrModule *m, IrId space)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].edge == space) return &m->graphs.data[i];
    return NULL;
}

static bool is_end(const IrModule *m, IrId space)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].src_space == space || m->graphs.data[i].dst_space == space) return true;
    return false;
}

static int64_t elements_of(const IrModule *m, const PassBudget *b, IrId space)
{
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        if (!t->nonzeros.present || t->type.space != space) continue;
        const IrType *whole = &m->tensors.data[t->nonzeros.of].type;
        return times(budget_rows(m, b, whole->space), ir_type_width(m, whole));
    }
    return b->graphs;
}

/* Pairs of a row and a key of so many edges: as many as were counted, else no more than there can be. */
static int64_t pairs_of(const IrModule *m, const PassBudget *b, const IrGraph *g, int64_t edges)
{
    const IrGraph *base = &m->graphs.data[g->base];
    int64_t n = times(budget_rows(m, b, g->src_space), budget_rows(m, b, g->dst_space));
    for (uint32_t i = 0; i < m->tensors.n && base->kind == IR_GRAPH_DATA; i++)
        for (uint32_t k = 0; k < b->n_pairs && m->tensors.data[i].is_map && m->tensors.data[i].map == g->of; k++)
            if (!strcmp(b->pairs[k].input, m->tensors.data[i].name))
                n = (int64_t)(g->batch == base->dst ? b->pairs[k].dst_pairs : b->pairs[k].src_pairs);
    return n < edges ? n : edges;
}

/* At most so many: loops may be there already, elements of a matrix may be zero. */
int64_t budget_rows(const IrModule *m, const PassBudget *b, IrId space)
{
    ICE_UNLESS(space < m->spaces.n);
    const IrSpace *s = &m->spaces.data[space];
    const IrGraph *g = graph_of(m, space);
    if (space == IR_UNIT) return 1;
    if (s->has_dim) return m->dims.data[s->dim].size;
    if (b->rows && space < b->n_rows && b->rows[space] >= 0) return b->rows[space];
    if (!g) return is_end(m, space) ? b->nodes : elements_of(m, b, space);
    if (g->kind == IR_GRAPH_DATA || g->kind == IR_GRAPH_FILE) return b->edges;
    if (g->kind == IR_GRAPH_COLUMN) return budget_rows(m, b, g->src_space);
    if (g->kind == IR_GRAPH_COMPOSE) return times(budget_rows(m, b, g->src_space), budget_rows(m, b, g->dst_space));
    if (g->kind == IR_GRAPH_RANDOM) return g->n_edges;
    if (g->kind == IR_GRAPH_NEAREST) return times(budget_rows(m, b, g->dst_space), g->n_edges);
    int64_t base = budget_rows(m, b, m->graphs.data[g->base].edge);
    if (ir_graph_is_of_targets(g->kind)) return times(base, budget_rows(m, b, g->src_space));
    if (ir_graph_is_pairs(g->kind)) /* no more than all pairs */
        return times(budget_rows(m, b, g->dst_space), budget_rows(m, b, g->dst_space));
    if (g->kind == IR_GRAPH_SELECT) return base;
    if (g->kind == IR_GRAPH_KEYED) return pairs_of(m, b, g, base);
    if (g->kind == IR_GRAPH_NEGATIVES) return times(base, g->n_edges);
    if (g->kind == IR_GRAPH_ROUTED)
        return plus(times(base, g->n_edges), g->batch != IR_NONE ? budget_rows(m, b, g->dst_space) : 0);
    if (g->kind == IR_GRAPH_PERMUTATION) return budget_rows(m, b, g->dst_space);
    bool more = g->kind == IR_GRAPH_SELF_LOOPS && g->policy != IR_LOOPS_REMOVE;
    return plus(base, more ? budget_rows(m, b, g->dst_space) : 0);
}

static int64_t count_of(const IrModule *m, const PassBudget *b, const PlanCount *c)
{
    if (c->kind == PLAN_CONST) return c->value;
    int64_t n = budget_rows(m, b, c->space);
    if (c->kind == PLAN_COUNT) return n;
    RtBlocks blocks = rt_blocks(n, c->block, c->max);
    return c->kind == PLAN_BLOCKS ? blocks.n : blocks.slots; /* nothing else is in memory */
}

int64_t budget_peak(const IrModule *m, const PassBudget *b, const PlanProgram *p, Arena *a)
{
    RtPack *places = ARENA_ARRAY(a, RtPack, p->slots.n + 1);
    RtPackRoom *rooms = ARENA_ARRAY(a, RtPackRoom, p->buffers.n + 1);
    for (uint32_t i = 0; i < p->slots.n; i++) {
        const PlanSlot *s = &p->slots.data[i];
        int64_t bytes;
        if (__builtin_mul_overflow(count_of(m, b, &s->rows), s->row_bytes, &bytes) ||
            __builtin_add_overflow(bytes, RT_PACK_ALIGN - 1, &bytes))
            return INT64_MAX;
        int64_t used = bytes - (RT_PACK_ALIGN - 1);
        places[i] = (RtPack){
            .bytes = bytes & ~(int64_t)(RT_PACK_ALIGN - 1), .first = s->first, .last = s->last, .used = used};
    }
    uint32_t n_rooms = 0;
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        const PlanBuffer *x = &p->buffers.data[i];
        if (x->kind == PLAN_ARENA && x->writer != UINT32_MAX && x->slot < p->slots.n) places[x->slot].used = 0;
        if (x->kind != PLAN_RESULT || x->first == UINT32_MAX) continue;
        int64_t bytes = times(count_of(m, b, &x->rows), times(x->width, (int64_t)kir_base_bytes(x->elem)));
        rooms[n_rooms++] = (RtPackRoom){.bytes = bytes, .until = x->first};
    }
    int64_t peak = rt_pack(places, p->slots.n, rooms, n_rooms);
    return peak < 0 ? INT64_MAX : peak;
}

/* Of all held tensors: they stay while any function runs. */
static int64_t held_bytes(const IrModule *m, const PassBudget *b)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        int64_t width = times(ir_type_width(m, &t->type), (int64_t)ir_dtype_bytes(t->type.dtype));
        if (t->kind == IR_HELD) bytes = plus(bytes, times(budget_rows(m, b, t->type.space), width));
    }
    return bytes;
}

/* ---- trials ------------------------------------------------------------------------------------------------ */

typedef struct Budget {
    PassContext *ctx;
    FusedModule *fm;
    uint32_t index; /* of the function */
    bool *again;    /* by value: computed again */
    VEC(FuseChoice) choices;
    int64_t held;
    unsigned n_trials;
} Budget;

static bool fits(int64_t peak, int64_t budget) { return peak <= budget && peak < INT64_MAX; }

/* Planned memory with the present choice; the choices that it leaves stored are added if `grow`. */
static int64_t try_choice(Budget *b, bool grow, bool *grown)
{
    PassContext quiet = *b->ctx;
    quiet.keep_remarks = false;
    quiet.stage = arena_new();
    FusedFunc *f = fuse_func(&quiet, b->fm, b->index, b->again);
    const PlanProgram *p = lower_trial(&quiet, b->fm, f);
    int64_t peak = p ? plus(b->held, budget_peak(b->fm->m, b->ctx->budget, p, quiet.stage)) : INT64_MAX;
    for (uint32_t i = 0; i < f->choices.n && grow; i++) {
        VEC_PUSH(b->ctx->stage, &b->choices, f->choices.data[i]);
        *grown = true;
    }
    arena_free(quiet.stage);
    b->n_trials++;
    return peak;
}

/* Everything computed again: what that leaves stored anew is computed again too. */
static int64_t find_choices(Budget *b)
{
    for (unsigned round = 0;; round++) {
        bool grown = false;
        int64_t peak = try_choice(b, round < MAX_ROUNDS, &grown);
        for (uint32_t i = 0; i < b->choices.n; i++) b->again[b->choices.data[i].v] = true;
        if (!grown) return peak;
    }
}

/* Computing again may also cost memory, where what it is made of must live longer: stores one after another while
   that lowers the peak. */
static int64_t lowest(Budget *b, int64_t peak)
{
    for (bool better = true; better && b->n_trials < MAX_TRIALS;) {
        better = false;
        for (uint32_t i = 0; i < b->choices.n; i++) {
            bool *again = &b->again[b->choices.data[i].v];
            if (!*again) continue;
            *again = false;
            int64_t now = try_choice(b, false, NULL);
            if (now < peak) peak = now, better = true;
            else *again = true;
        }
    }
    return peak;
}

static void set_choices(Budget *b, uint32_t set, uint32_t n)
{
    ICE_UNLESS(n <= MAX_CHOICES && set >> n == 0);
    for (uint32_t i = 0; i < b->choices.n; i++) b->again[b->choices.data[i].v] = i < n && (set >> i & 1);
}

typedef struct Set {
    uint32_t set;
    double extra;
} Set;

static int by_extra(const void *x, const void *y)
{
    const Set *a = x, *b = y;
    if (a->extra < b->extra) return -1;
    if (a->extra > b->extra) return 1;
    return a->set < b->set ? -1 : 1;
}

/* The cheapest set of values whose peak fits; false where the trials are used up. */
static bool cheapest(Budget *b, int64_t budget)
{
    uint32_t n = b->choices.n < MAX_CHOICES ? b->choices.n : MAX_CHOICES;
    Arena *scratch = arena_new();
    Set *sets = ARENA_ARRAY(scratch, Set, (size_t)1 << n);
    bool found = false;
    for (uint32_t s = 0; s < 1u << n; s++) {
        sets[s].set = s;
        for (uint32_t i = 0; i < n; i++) sets[s].extra += s >> i & 1 ? b->choices.data[i].extra : 0;
    }
    qsort(sets, (size_t)1 << n, sizeof *sets, by_extra);
    for (uint32_t k = 0; k < 1u << n && !found && b->n_trials < MAX_TRIALS; k++) {
        set_choices(b, sets[k].set, n);
        found = fits(try_choice(b, false, NULL), budget);
    }
    arena_free(scratch);
    return found;
}

static int by_bytes(const void *x, const void *y)
{
    const FuseChoice *a = x, *b = y;
    if (a->bytes > b->bytes) return -1;
    if (a->bytes < b->bytes) return 1;
    return a->v < b->v ? -1 : 1;
}

static int64_t fit(PassContext *ctx, FusedModule *fm, uint32_t index, bool **again)
{
    const PassBudget *want = ctx->budget;
    Budget b = {.ctx = ctx, .fm = fm, .index = index, .held = held_bytes(fm->m, want)};
    uint32_t n = fm->prepared.data[index]->ops.n + N_CLONE_BY;
    b.again = ARENA_ARRAY(ctx->stage, bool, n);
    *again = b.again;
    if (fits(try_choice(&b, false, NULL), want->bytes)) return 0;
    int64_t least = find_choices(&b);
    if (b.choices.n) qsort(b.choices.data, b.choices.n, sizeof *b.choices.data, by_bytes);
    least = lowest(&b, least);
    bool *smallest = ARENA_ARRAY(ctx->stage, bool, n);
    for (uint32_t i = 0; i < b.choices.n; i++) smallest[b.choices.data[i].v] = b.again[b.choices.data[i].v];
    if (!fits(least, want->bytes)) return least;
    if (!cheapest(&b, want->bytes)) *again = smallest;
    return 0;
}

/* *again, by value of the prepared function: what is computed again so that its planned memory fits ctx->budget.
   Returns the least budget that would do where none fits, else 0. */
static int64_t budget_fit(PassContext *ctx, FusedModule *fm, uint32_t index, bool **again)
{
    int64_t least = fit(ctx, fm, index, again);
    if (!least || fm->sums.data[index] == IR_NONE) return least;
    fm->prepared.data[index] = fm->plain.data[index]; /* sums by rows need memory */
    fm->sums.data[index] = IR_NONE;
    return fit(ctx, fm, index, again);
}

/* One message for all functions: a build has one budget. */
static bool all_fit(PassContext *ctx, const char *name, int64_t least)
{
    if (!least) return true;
    Diag *it = diag_error(ctx->diags, E0618, (Span){0}, "`%s` does not fit into %lld bytes", name,
                          (long long)ctx->budget->bytes);
    if (least < INT64_MAX) diag_help(ctx->diags, it, "it needs at least --memory-budget=%lld", (long long)least);
    else diag_help(ctx->diags, it, "it needs more bytes than 64 bits count");
    return false;
}

FusedModule *fuse_module(PassContext *ctx, const IrModule *m)
{
    FusedModule *fm = fuse_begin(ctx, m);
    const char *worst = NULL;
    int64_t most = 0;
    for (uint32_t i = 0; fm && i < m->funcs.n; i++) {
        bool *again = NULL;
        if (!fuse_prepare(ctx, fm, i)) return NULL;
        int64_t least = ctx->budget && !ctx->schedule ? budget_fit(ctx, fm, i, &again) : 0;
        if (least > most) most = least, worst = ctx->function;
        FusedFunc *f = fuse_func(ctx, fm, i, again);
        if (!f) return NULL;
        VEC_PUSH(ctx->stage, &fm->funcs, f);
    }
    return fm && all_fit(ctx, worst, most) ? fm : NULL;
}
