/* The order in which groups run. Values that are stored live from their kernel to the last one that reads them, so the
   order says how much memory a function takes:

     s1 = scores of relation 1                      s1 = scores of relation 1
     s2 = scores of relation 2                      y1 = sums of s1             s1 is gone
     y1 = sums of s1                          ->    s2 = scores of relation 2
     y2 = sums of s2                                y2 = sums of s2

   Early: by first values, as the function says. Late: each no earlier than the first that wants it. Lean: next is the
   one that grows memory least, of equal ones the first or the last, then those that grow it move to right before their
   first reader, and those that shrink it to right behind what they wait for. Early, unless another takes less than
   LEAN_FACTOR of the memory beside that of results, for expected numbers of rows: steps that follow one another in the
   function find their rows in a cache. A schedule's text says the order.
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

/* Of groups that may run: copies back into tensors first, which a text does not tell; then by the text, or the one
   whose first value comes first in the function. */
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
    IrValues over;        /* of these, what one of its own values may be written over */
    double takes;         /* bytes of its stored values */
} Step;

typedef struct Stored {
    double bytes; /* expected; 0 where nothing is stored, and of what a tensor is updated with */
    bool kept;    /* a result: it stays, and its memory is the caller's, who gives it from the start */
    IrId space;
    uint32_t from;    /* step that computes it */
    VEC(uint32_t) by; /* steps that read it */
} Stored;

typedef struct Order {
    Step *steps;
    uint32_t n;
    Stored *of; /* by value */
    uint32_t n_values;
    double *given; /* by space: bytes of results */
    uint32_t n_spaces;
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

/* Read at the elements that the step stores alone: of a value of the same size. */
static void note_over(Order *o, Arena *a, uint32_t step, const GroupReads *reads)
{
    for (uint32_t k = 0; k < o->steps[step].reads.n; k++) {
        IrId v = o->steps[step].reads.data[k];
        bool over = o->of[v].bytes <= o->steps[step].takes && !o->of[v].kept;
        for (uint32_t i = 0; i < reads->reads.n; i++)
            over &= reads->reads.data[i].v != v || reads->reads.data[i].identity;
        if (over) VEC_PUSH(a, &o->steps[step].over, v);
    }
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
               .given = ARENA_ARRAY(a, double, f->m->spaces.n + 1),
               .n_spaces = f->m->spaces.n,
               .at = ARENA_ARRAY(a, uint32_t, n + 1),
               .run = ARENA_ARRAY(a, uint32_t, n + 1)};
    for (uint32_t i = 0; i < n; i++) step[f->order.data[i]] = i;
    for (IrId v = 0; v < f->f->ops.n; v++) {
        if (f->group_of.data[v] == GROUP_NONE || !f->stored.data[v] || f->groups.data[f->group_of.data[v]].dead)
            continue;
        const IrType *t = &fused_op(f, v)->type;
        o.of[v] = (Stored){.bytes = expected_bytes(f->m, t), .space = t->space, .from = step[f->group_of.data[v]]};
    }
    for (uint32_t i = 0; i < f->f->results.n; i++) {
        Stored *s = &o.of[f->f->results.data[i].value];
        if (f->f->results.data[i].tensor != IR_NONE) s->bytes = 0;
        if (!s->kept) o.given[s->space] += s->bytes;
        s->kept = true;
    }
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (o.of[v].bytes > 0) o.steps[o.of[v].from].takes += o.of[v].bytes;
    for (uint32_t i = 0; i < n; i++) {
        const Group *g = &f->groups.data[f->order.data[i]];
        GroupReads reads = {0};
        o.steps[i].group = f->order.data[i];
        place(&o, i, i);
        group_reads(f, f->order.data[i], a, &reads);
        for (uint32_t k = 0; k < reads.reads.n; k++) read_once(&o, a, i, reads.reads.data[k].v);
        note_over(&o, a, i, &reads);
        for (uint32_t k = 0; k < g->deps.n; k++) wait_for(&o, a, i, step[g->deps.data[k]]);
        for (uint32_t k = 0; k < g->after.n; k++) wait_for(&o, a, i, step[g->after.data[k]]);
    }
    return o;
}

/* The place of the last step that wants v. */
static uint32_t last_place(const Order *o, IrId v)
{
    uint32_t last = o->of[v].kept ? o->n : o->at[o->of[v].from];
    for (uint32_t i = 0; i < o->of[v].by.n; i++)
        if (o->at[o->of[v].by.data[i]] > last) last = o->at[o->of[v].by.data[i]];
    return last;
}

typedef struct Change { /* of the memory that is held, at a place of the order */
    double by;
    IrId space;
    uint32_t next; /* of the same place: + 1 */
} Change;

static void add_change(Change *all, uint32_t *n, uint32_t *first, Change x)
{
    x.next = *first;
    all[(*n)++] = x;
    *first = *n;
}

static double beyond(double bytes, double given) { return bytes > given ? bytes - given : 0; }

/* The most bytes of stored values that are there at once, beyond the memory of results of the same space, where others
   lie until it is wanted. */
static double order_peak(const Order *o, Arena *scratch)
{
    Change *all = ARENA_ARRAY(scratch, Change, 2 * o->n_values + 1);
    uint32_t *first = ARENA_ARRAY(scratch, uint32_t, o->n + 2), n = 0;
    double *held = ARENA_ARRAY(scratch, double, o->n_spaces + 1), now = 0, peak = 0;
    for (IrId v = 0; v < o->n_values; v++) {
        const Stored *s = &o->of[v];
        if (!(s->bytes > 0)) continue;
        uint32_t last = last_place(o, v);
        bool over = last < o->n && values_have(&o->steps[o->run[last]].over, v);
        add_change(all, &n, &first[o->at[s->from]], (Change){s->bytes, s->space, 0});
        add_change(all, &n, &first[last + !over], (Change){-s->bytes, s->space, 0});
    }
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t k = first[i]; k; k = all[k - 1].next) {
            IrId space = all[k - 1].space;
            now -= beyond(held[space], o->given[space]);
            held[space] += all[k - 1].by;
            now += beyond(held[space], o->given[space]);
        }
        if (now > peak) peak = now;
    }
    return peak;
}

/* ---- late -------------------------------------------------------------------------------------------------------- */

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

/* ---- lean -------------------------------------------------------------------------------------------------------- */

/* Next is the step that grows memory least, of those that may run; of equal ones the earliest or the latest. */
static void order_greedy(Order *o, bool latest, Arena *scratch)
{
    uint32_t *left = ARENA_ARRAY(scratch, uint32_t, o->n_values + 1), *need = ARENA_ARRAY(scratch, uint32_t, o->n + 1);
    bool *done = ARENA_ARRAY(scratch, bool, o->n + 1);
    for (IrId v = 0; v < o->n_values; v++) left[v] = o->of[v].by.n + o->of[v].kept;
    for (uint32_t i = 0; i < o->n; i++) need[i] = o->steps[i].before.n;
    for (uint32_t at = 0; at < o->n; at++) {
        uint32_t best = UINT32_MAX;
        double least = 0;
        for (uint32_t i = 0; i < o->n; i++) {
            if (done[i] || need[i]) continue;
            double grows = o->steps[i].takes;
            for (uint32_t k = 0; k < o->steps[i].reads.n; k++)
                if (left[o->steps[i].reads.data[k]] == 1) grows -= o->of[o->steps[i].reads.data[k]].bytes;
            if (best == UINT32_MAX || grows < least || (latest && grows <= least)) best = i, least = grows;
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

/* What shrinks memory runs right behind the last that it waits for, and behind what shrinks it more there. */
static void rise(Order *o, uint32_t step)
{
    double grows = growth(o, step);
    uint32_t to = first_place(o, step);
    if (grows >= 0) return;
    while (to < o->at[step] && growth(o, o->run[to]) <= grows) to++;
    move(o, step, to);
}

static void order_lean(Order *o, bool latest, Arena *scratch)
{
    uint32_t *run = ARENA_ARRAY(scratch, uint32_t, o->n + 1);
    order_greedy(o, latest, scratch);
    memcpy(run, o->run, o->n * sizeof *run);
    for (uint32_t i = o->n; i-- > 0;) sink(o, run[i]);
    memcpy(run, o->run, o->n * sizeof *run);
    for (uint32_t i = 0; i < o->n; i++) rise(o, run[i]);
}

static void order_lean_first(Order *o, Arena *scratch) { order_lean(o, false, scratch); }
static void order_lean_last(Order *o, Arena *scratch) { order_lean(o, true, scratch); }

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
    static void (*const others[])(Order *, Arena *) = {order_late, order_lean_first, order_lean_last};
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
