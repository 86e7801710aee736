/* The graph of groups: new ones, which must run before which, and the order in which they run. */
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/group/group.h"
#include "passes/group/schedule_text.h"

/* Groups run as late as they may where that takes less than this share of the memory. */
static const double LATE_FACTOR = 0.9;

uint32_t group_new(FusedFunc *f, Arena *a, IrId v)
{
    const IrOp *op = fused_op(f, v);
    Group g = {.kind = group_kind_of(f->f, f->m, v), .nest = op->type, .space = op->type.space, .map = IR_NONE};
    if (g.kind == GROUP_ROWS || g.kind == GROUP_NTH) g.map = op->attr.map;
    if (g.kind == GROUP_BLOCKS)
        for (uint32_t k = 0; k < op->n_args; k++)
            if (fused_op(f, op->args[k])->type.space != IR_UNIT) g.space = fused_op(f, op->args[k])->type.space;
    VEC_PUSH(a, &g.roots, v);
    VEC_PUSH(a, &f->groups, g);
    while (f->group_of.n < f->f->ops.n) {
        VEC_PUSH(a, &f->group_of, GROUP_NONE);
        VEC_PUSH(a, &f->stored, false);
    }
    ICE_UNLESS(f->group_of.data[v] == GROUP_NONE); /* a value is computed by one group */
    f->group_of.data[v] = f->groups.n - 1;
    return f->groups.n - 1;
}

typedef struct Deps {
    FusedFunc *f;
    uint32_t g;
    Arena *arena;
} Deps;

static void add_dep(Deps *x, IrId v)
{
    ICE_UNLESS(v < x->f->group_of.n);
    Group *g = &x->f->groups.data[x->g];
    uint32_t d = x->f->group_of.data[v];
    bool seen = d == GROUP_NONE || d == x->g;
    for (uint32_t k = 0; k < g->deps.n; k++) seen |= g->deps.data[k] == d;
    if (!seen) VEC_PUSH(x->arena, &g->deps, d);
}

/* What goes through a computed map runs after the step that says what the map is. */
static void add_route(void *user, const GroupOp *op)
{
    Deps *x = user;
    IrId route = ir_route_of(x->f->m, x->f->f, fused_op(x->f, op->v));
    if (route != IR_NONE) add_dep(x, route);
}

void group_find_deps(FusedFunc *f, uint32_t g, Arena *a)
{
    Arena *scratch = arena_new();
    GroupReads reads = {0};
    group_reads(f, g, scratch, &reads);
    f->groups.data[g].deps.n = 0;
    Deps deps = {f, g, a};
    for (uint32_t i = 0; i < reads.reads.n; i++) add_dep(&deps, reads.reads.data[i].v);
    group_ops(f, g, scratch, add_route, &deps);
    arena_free(scratch);
}

static bool reaches(const FusedFunc *f, uint32_t from, uint32_t to, bool *seen)
{
    if (from == to) return true;
    if (seen[from]) return false;
    seen[from] = true;
    const Group *g = &f->groups.data[from];
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (reaches(f, g->deps.data[i], to, seen)) return true;
    for (uint32_t i = 0; i < g->after.n; i++)
        if (reaches(f, g->after.data[i], to, seen)) return true;
    return false;
}

bool group_reaches(const FusedFunc *f, uint32_t from, uint32_t to)
{
    Arena *scratch = arena_new();
    bool yes = reaches(f, from, to, ARENA_ARRAY(scratch, bool, f->groups.n + 1));
    arena_free(scratch);
    return yes;
}

static bool is_ready(const Group *g, const bool *done)
{
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (!done[g->deps.data[i]]) return false;
    for (uint32_t i = 0; i < g->after.n; i++)
        if (!done[g->after.data[i]]) return false;
    return true;
}

static bool is_copy_back(const FusedFunc *f, uint32_t g) { return f->groups.data[g].roots.data[0] >= f->n_values; }

/* Of groups that may run: copies back into tensors first, which a text does not tell; then by the text, or the one whose
   first value comes first in the function. */
static bool runs_before(const FusedFunc *f, uint32_t a, uint32_t b)
{
    ICE_UNLESS(f->groups.data[a].roots.n && f->groups.data[b].roots.n);
    IrId x = f->groups.data[a].roots.data[0], y = f->groups.data[b].roots.data[0];
    bool copy = is_copy_back(f, a), other = is_copy_back(f, b);
    if (copy || other) return copy && (!other || x < y);
    return f->text && f->target[x] != f->target[y] ? f->target[x] < f->target[y] : x < y;
}

/* Groups by first value, each as soon as it may run. False: some wait for one another. */
static bool order_early(FusedFunc *f, Arena *a)
{
    bool *done = ARENA_ARRAY(a, bool, f->groups.n + 1);
    f->order.n = 0;
    for (;;) {
        uint32_t best = GROUP_NONE, left = 0;
        for (uint32_t g = 0; g < f->groups.n; g++) {
            const Group *x = &f->groups.data[g];
            if (x->dead || done[g]) continue;
            left++;
            if (!is_ready(x, done)) continue;
            if (best == GROUP_NONE || runs_before(f, g, best)) best = g;
        }
        if (!left) return true;
        if (best == GROUP_NONE) return false;
        done[best] = true;
        VEC_PUSH(a, &f->order, best);
    }
}

/* The same groups, each behind what it waits for and no earlier than the first that wants it; by `early`, an order that
   may run, where that leaves a choice. */
typedef struct Late {
    FusedFunc *f;
    Arena *arena;
    const uint32_t *place; /* by group: in the early order */
    bool *done;
} Late;

static void put_late(Late *x, uint32_t g)
{
    const Group *of = &x->f->groups.data[g];
    x->done[g] = true;
    for (;;) {
        uint32_t best = GROUP_NONE;
        for (uint32_t i = 0; i < of->deps.n + of->after.n; i++) {
            uint32_t d = i < of->deps.n ? of->deps.data[i] : of->after.data[i - of->deps.n];
            if (!x->done[d] && (best == GROUP_NONE || x->place[d] < x->place[best])) best = d;
        }
        if (best == GROUP_NONE) break;
        put_late(x, best);
    }
    VEC_PUSH(x->arena, &x->f->order, g);
}

static void order_late(FusedFunc *f, Arena *a, const uint32_t *early, uint32_t n)
{
    Late x = {f, a, NULL, ARENA_ARRAY(a, bool, f->groups.n + 1)};
    uint32_t *place = ARENA_ARRAY(a, uint32_t, f->groups.n + 1);
    bool *wanted = ARENA_ARRAY(a, bool, f->groups.n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Group *g = &f->groups.data[early[i]];
        place[early[i]] = i;
        for (uint32_t k = 0; k < g->deps.n; k++) wanted[g->deps.data[k]] = true;
    }
    x.place = place;
    f->order.n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!wanted[early[i]] && !x.done[early[i]]) put_late(&x, early[i]);
    ICE_UNLESS(f->order.n == n); /* what nobody wants leads to every group */
}

/* The most bytes of stored values that are there at once, for expected numbers of rows. Results lie in memory of the
   caller's. */
static double order_peak(FusedFunc *f, Arena *scratch)
{
    double *grown = ARENA_ARRAY(scratch, double, f->order.n + 2), now = 0, peak = 0;
    uint32_t *last = ARENA_ARRAY(scratch, uint32_t, f->f->ops.n + 1),
             *first = ARENA_ARRAY(scratch, uint32_t, f->groups.n + 1);
    for (uint32_t i = 0; i < f->order.n; i++) {
        GroupReads reads = {0};
        first[f->order.data[i]] = i;
        group_reads(f, f->order.data[i], scratch, &reads);
        for (uint32_t k = 0; k < reads.reads.n; k++) last[reads.reads.data[k].v] = i;
    }
    for (uint32_t i = 0; i < f->f->results.n; i++) last[f->f->results.data[i].value] = UINT32_MAX;
    for (IrId v = 0; v < f->f->ops.n; v++) {
        if (f->group_of.data[v] == GROUP_NONE || !f->stored.data[v] || last[v] == UINT32_MAX) continue;
        double bytes = expected_bytes(f->m, &fused_op(f, v)->type);
        uint32_t from = first[f->group_of.data[v]];
        grown[from] += bytes;
        grown[(last[v] < from ? from : last[v]) + 1] -= bytes;
    }
    for (uint32_t i = 0; i < f->order.n; i++) {
        now += grown[i];
        if (now > peak) peak = now;
    }
    return peak;
}

bool group_order(FusedFunc *f, Arena *a)
{
    if (!order_early(f, a)) return false;
    if (f->text) return true;
    Arena *scratch = arena_new();
    uint32_t n = f->order.n, *early = ARENA_ARRAY(scratch, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) early[i] = f->order.data[i];
    double before = order_peak(f, scratch);
    order_late(f, a, early, n);
    if (!(order_peak(f, scratch) < LATE_FACTOR * before))
        for (uint32_t i = 0; i < n; i++) f->order.data[i] = early[i];
    arena_free(scratch);
    return true;
}
