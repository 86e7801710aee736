/* The order in which groups run. Values that are stored live from their kernel to the last one that reads them, so the
   order says how much memory a function takes:

     s1 = scores of relation 1                      s1 = scores of relation 1
     s2 = scores of relation 2                      y1 = sums of s1             s1 is gone
     y1 = sums of s1                          ->    s2 = scores of relation 2
     y2 = sums of s2                                y2 = sums of s2

   Early: by first values, as the function says. Late: each no earlier than the first that wants it. Lean: next is the one
   that grows memory least, then those that grow it move to right before their first reader, and those that shrink it to
   right behind what they wait for. Early, unless another takes less than LEAN_FACTOR of the memory, for expected numbers
   of rows: steps that follow one another in the function find their rows in a cache. A schedule's text says the order.
   Never runs a group before what it waits for. */
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/group/group.h"
#include "passes/group/schedule_text.h"

static const double LEAN_FACTOR = 0.9;

static bool is_ready(const Group *g, const bool *done)
{
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (!done[g->deps.data[i]]) return false;
    for (uint32_t i = 0; i < g->after.n; i++)
        if (!done[g->after.data[i]]) return false;
    return true;
}

/* Of groups that may run: copies back into tensors first, which a text does not tell; then by the text, or the one whose
   first value comes first in the function. */
static bool runs_before(const FusedFunc *f, uint32_t a, uint32_t b)
{
    ICE_UNLESS(f->groups.data[a].roots.n && f->groups.data[b].roots.n);
    IrId x = f->groups.data[a].roots.data[0], y = f->groups.data[b].roots.data[0];
    bool copy = group_is_copy_back(f, a), other = group_is_copy_back(f, b);
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

/* ---- memory of an order ------------------------------------------------------------------------------------------ */

typedef struct Step { /* a group; steps are numbered by the early order */
    uint32_t group;
    VEC(uint32_t) before; /* steps it waits for */
    VEC(uint32_t) behind; /* steps that wait for it */
    IrValues reads;       /* stored values of others, each once */
    double takes;         /* bytes of its stored values */
} Step;

typedef struct Stored {
    double bytes;     /* expected; 0 of a result, which lies in memory of the caller's, and where nothing is stored */
    uint32_t from;    /* step that computes it */
    VEC(uint32_t) by; /* steps that read it */
} Stored;

typedef struct Order {
    Step *steps;
    uint32_t n;
    Stored *of; /* by value */
    uint32_t n_values;
    uint32_t *at;  /* by step: its place */
    uint32_t *run; /* by place: the step */
} Order;

static void place(Order *o, uint32_t at, uint32_t step)
{
    ICE_UNLESS(at < o->n && step < o->n);
    o->run[at] = step;
    o->at[step] = at;
}

static void read_once(Order *o, Arena *a, uint32_t step, IrId v)
{
    Stored *s = &o->of[v];
    if (!(s->bytes > 0) || s->from == step || (s->by.n && s->by.data[s->by.n - 1] == step)) return;
    VEC_PUSH(a, &s->by, step);
    VEC_PUSH(a, &o->steps[step].reads, v);
}

static void wait_for(Order *o, Arena *a, uint32_t step, uint32_t other)
{
    ICE_UNLESS(other < step); /* the early order may run */
    VEC_PUSH(a, &o->steps[step].before, other);
    VEC_PUSH(a, &o->steps[other].behind, step);
}

/* Of f's order, which is the early one. */
static Order order_of(FusedFunc *f, Arena *a)
{
    uint32_t n = f->order.n, *step = ARENA_ARRAY(a, uint32_t, f->groups.n + 1);
    Order o = {.steps = ARENA_ARRAY(a, Step, n + 1),
               .n = n,
               .of = ARENA_ARRAY(a, Stored, f->f->ops.n + 1),
               .n_values = f->f->ops.n,
               .at = ARENA_ARRAY(a, uint32_t, n + 1),
               .run = ARENA_ARRAY(a, uint32_t, n + 1)};
    for (uint32_t i = 0; i < n; i++) step[f->order.data[i]] = i;
    for (IrId v = 0; v < f->f->ops.n; v++) {
        if (f->group_of.data[v] == GROUP_NONE || !f->stored.data[v] || f->groups.data[f->group_of.data[v]].dead)
            continue;
        o.of[v] = (Stored){.bytes = expected_bytes(f->m, &fused_op(f, v)->type), .from = step[f->group_of.data[v]]};
    }
    for (uint32_t i = 0; i < f->f->results.n; i++) o.of[f->f->results.data[i].value].bytes = 0;
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (o.of[v].bytes > 0) o.steps[o.of[v].from].takes += o.of[v].bytes;
    for (uint32_t i = 0; i < n; i++) {
        const Group *g = &f->groups.data[f->order.data[i]];
        GroupReads reads = {0};
        o.steps[i].group = f->order.data[i];
        place(&o, i, i);
        group_reads(f, f->order.data[i], a, &reads);
        for (uint32_t k = 0; k < reads.reads.n; k++) read_once(&o, a, i, reads.reads.data[k].v);
        for (uint32_t k = 0; k < g->deps.n; k++) wait_for(&o, a, i, step[g->deps.data[k]]);
        for (uint32_t k = 0; k < g->after.n; k++) wait_for(&o, a, i, step[g->after.data[k]]);
    }
    return o;
}

/* The place of the last step that wants v. */
static uint32_t last_place(const Order *o, IrId v)
{
    uint32_t last = o->at[o->of[v].from];
    for (uint32_t i = 0; i < o->of[v].by.n; i++)
        if (o->at[o->of[v].by.data[i]] > last) last = o->at[o->of[v].by.data[i]];
    return last;
}

/* The most bytes of stored values that are there at once. */
static double order_peak(const Order *o, Arena *scratch)
{
    double *grown = ARENA_ARRAY(scratch, double, o->n + 2), now = 0, peak = 0;
    for (IrId v = 0; v < o->n_values; v++) {
        if (!(o->of[v].bytes > 0)) continue;
        grown[o->at[o->of[v].from]] += o->of[v].bytes;
        grown[last_place(o, v) + 1] -= o->of[v].bytes;
    }
    for (uint32_t i = 0; i < o->n; i++) {
        now += grown[i];
        if (now > peak) peak = now;
    }
    return peak;
}

/* ---- late ---------------------------------------------------------------------------------------------------------- */

static void put_late(Order *o, bool *done, uint32_t *n, uint32_t step)
{
    const Step *s = &o->steps[step];
    done[step] = true;
    for (;;) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < s->before.n; i++)
            if (!done[s->before.data[i]] && s->before.data[i] < best) best = s->before.data[i];
        if (best == UINT32_MAX) break;
        put_late(o, done, n, best);
    }
    place(o, (*n)++, step);
}

static void order_late(Order *o, Arena *scratch)
{
    bool *done = ARENA_ARRAY(scratch, bool, o->n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++)
        if (!o->steps[i].behind.n && !done[i]) put_late(o, done, &n, i);
    ICE_UNLESS(n == o->n); /* what nobody waits for leads to every step */
}

/* ---- lean ---------------------------------------------------------------------------------------------------------- */

/* Next is the step that grows memory least, of those that may run; of equal ones the earliest. */
static void order_greedy(Order *o, Arena *scratch)
{
    uint32_t *left = ARENA_ARRAY(scratch, uint32_t, o->n_values + 1), *need = ARENA_ARRAY(scratch, uint32_t, o->n + 1);
    bool *done = ARENA_ARRAY(scratch, bool, o->n + 1);
    for (IrId v = 0; v < o->n_values; v++) left[v] = o->of[v].by.n;
    for (uint32_t i = 0; i < o->n; i++) need[i] = o->steps[i].before.n;
    for (uint32_t at = 0; at < o->n; at++) {
        uint32_t best = UINT32_MAX;
        double least = 0;
        for (uint32_t i = 0; i < o->n; i++) {
            if (done[i] || need[i]) continue;
            double grows = o->steps[i].takes;
            for (uint32_t k = 0; k < o->steps[i].reads.n; k++)
                if (left[o->steps[i].reads.data[k]] == 1) grows -= o->of[o->steps[i].reads.data[k]].bytes;
            if (best == UINT32_MAX || grows < least) best = i, least = grows;
        }
        ICE_UNLESS(best != UINT32_MAX); /* something may always run */
        done[best] = true;
        place(o, at, best);
        for (uint32_t k = 0; k < o->steps[best].reads.n; k++) left[o->steps[best].reads.data[k]]--;
        for (uint32_t k = 0; k < o->steps[best].behind.n; k++) need[o->steps[best].behind.data[k]]--;
    }
}

/* By how much memory is larger behind the step than before. */
static double growth(const Order *o, uint32_t step)
{
    double grows = o->steps[step].takes;
    for (uint32_t k = 0; k < o->steps[step].reads.n; k++)
        if (last_place(o, o->steps[step].reads.data[k]) == o->at[step])
            grows -= o->of[o->steps[step].reads.data[k]].bytes;
    return grows;
}

static void move(Order *o, uint32_t step, uint32_t to)
{
    uint32_t from = o->at[step];
    for (; from < to; from++) place(o, from, o->run[from + 1]);
    for (; from > to; from--) place(o, from, o->run[from - 1]);
    place(o, to, step);
}

/* What grows memory runs right before the first that waits for it. */
static void sink(Order *o, uint32_t step)
{
    const Step *s = &o->steps[step];
    uint32_t first = o->n;
    for (uint32_t i = 0; i < s->behind.n; i++)
        if (o->at[s->behind.data[i]] < first) first = o->at[s->behind.data[i]];
    if (first < o->n && growth(o, step) > 0) move(o, step, first - 1);
}

/* The first place where the step may run. */
static uint32_t first_place(const Order *o, uint32_t step)
{
    const Step *s = &o->steps[step];
    uint32_t behind = 0;
    for (uint32_t i = 0; i < s->before.n; i++)
        if (o->at[s->before.data[i]] + 1 > behind) behind = o->at[s->before.data[i]] + 1;
    return behind;
}

static void order_lean(Order *o, Arena *scratch)
{
    uint32_t *run = ARENA_ARRAY(scratch, uint32_t, o->n + 1);
    order_greedy(o, scratch);
    memcpy(run, o->run, o->n * sizeof *run);
    for (uint32_t i = o->n; i-- > 0;) sink(o, run[i]);
    memcpy(run, o->run, o->n * sizeof *run);
    for (uint32_t i = 0; i < o->n; i++) /* what shrinks it, right behind the last that it waits for */
        if (growth(o, run[i]) < 0) move(o, run[i], first_place(o, run[i]));
}

/* Copies back into tensors run as soon as they may, by their tensors: a text, which does not tell them, is read so. */
static void raise_copies(const FusedFunc *f, Order *o, Arena *scratch)
{
    uint32_t *step = ARENA_ARRAY(scratch, uint32_t, f->groups.n + 1); /* + 1; 0: no step */
    for (uint32_t i = 0; i < o->n; i++) step[o->steps[i].group] = i + 1;
    for (uint32_t g = f->groups.n; g-- > 0;)
        if (step[g] && group_is_copy_back(f, g)) move(o, step[g] - 1, first_place(o, step[g] - 1));
}

static void take_order(FusedFunc *f, const Order *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const Step *s = &o->steps[o->run[i]];
        for (uint32_t k = 0; k < s->before.n; k++) ICE_UNLESS(o->at[s->before.data[k]] < i);
        f->order.data[i] = s->group;
    }
}

bool group_order(FusedFunc *f, Arena *a)
{
    static void (*const others[])(Order *, Arena *) = {order_late, order_lean};
    if (!order_early(f, a)) return false;
    if (f->text) return true;
    Arena *scratch = arena_new();
    Order o = order_of(f, scratch);
    double least = LEAN_FACTOR * order_peak(&o, scratch);
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        others[i](&o, scratch);
        raise_copies(f, &o, scratch);
        double peak = order_peak(&o, scratch);
        if (!(peak < least)) continue;
        least = peak;
        take_order(f, &o);
    }
    arena_free(scratch);
    return true;
}
