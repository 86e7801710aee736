/* Graphs that a function computes, in the interpreter: the nearest points, and maps that values say. A choice that the
   bounds leave open is undecided, and so is all that goes through it. */
#include "ir/eval_ops.h"
#include "base/ice.h"
#include <float.h>
#include <math.h>

typedef struct Candidate {
    double d, e; /* distance squared, no NaN; how far compiled code's may lie from it */
    int64_t row;
    uint64_t origin; /* of its point: equal ones have the same bits */
} Candidate;

static bool is_before(const Candidate *a, const Candidate *b)
{
    return a->d < b->d || (a->d == b->d && a->row < b->row);
}

/* Bounds, or the origin, say which of the two is nearer. */
static bool is_settled(const Candidate *a, const Candidate *b)
{
    return a->origin == b->origin || (a->e == 0 && b->e == 0) || a->d + a->e < b->d - b->e || b->d + b->e < a->d - a->e;
}

/* In f64 from first to last, as the kernel does; infinite and NaN are farthest. */
static Candidate measure(const EvalValue *y, int64_t to, const EvalValue *x, int64_t from)
{
    Candidate c = {.row = from, .origin = 1};
    bool unknown = false;
    for (int64_t k = 0; k < x->width; k++) {
        Num a = num_get(y, to * y->width + k), b = num_get(x, from * x->width + k);
        double diff = a.v - b.v, e = a.e + b.e;
        if (e > 0) e += DBL_EPSILON * (fabs(a.v) + fabs(b.v));
        c.d += diff * diff;
        c.e += 2 * fabs(diff) * e + e * e;
        c.origin = num_mix(c.origin, b.origin);
        unknown |= a.undecided || b.undecided;
    }
    if (c.e > 0) c.e += (double)(x->width + 2) * DBL_EPSILON * c.d;
    if (!(c.d < DBL_MAX)) c.d = DBL_MAX;
    if (unknown || !(c.e < DBL_MAX)) c.e = INFINITY, c.origin = num_mix((uint64_t)from, c.origin);
    return c;
}

/* The n best of the candidates to the front, in order. */
static void bring_forward(Candidate *c, int64_t n_all, int64_t n)
{
    ICE_UNLESS(n <= n_all);
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < n_all; i++)
            if (is_before(&c[i], &c[best])) best = i;
        Candidate first = c[best];
        c[best] = c[j];
        c[j] = first;
    }
}

static const IrGraph *graph_of(const EvalRun *r, IrId src)
{
    const IrGraph *g = r->m->graphs.data;
    while (g->src != src || g->kind != IR_GRAPH_NEAREST) {
        g++;
        ICE_UNLESS(g < r->m->graphs.data + r->m->graphs.n); /* the op's graph is there */
    }
    return g;
}

void eval_rule_nearest(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *y = eval_operand(r, op, 0), *x = eval_operand(r, op, 1);
    const IrGraph *g = graph_of(r, op->attr.map);
    const int64_t *dst = r->w->maps[g->dst], *of = g->batch == IR_NONE ? NULL : r->w->maps[g->batch];
    bool others = g->src_space == g->dst_space && g->policy == IR_LOOPS_REMOVE;
    Candidate *c = ARENA_ARRAY(r->arena, Candidate, x->rows + 1);
    for (int64_t first = 0, end; first < out->rows; first = end) {
        int64_t v = dst[first], n = 0;
        for (end = first; end < out->rows && dst[end] == v;) end++;
        for (int64_t u = 0; u < x->rows; u++)
            if ((!of || of[u] == of[v]) && !(others && u == v)) c[n++] = measure(y, v, x, u);
        ICE_UNLESS(first < end && n >= end - first); /* a target has as many edges as it has neighbours, at most */
        bring_forward(c, n, (end - first - 1) * g->step + 1);
        for (int64_t at = first; at < end; at++) {
            int64_t j = (at - first) * g->step;
            Num row = num_exact((double)c[j].row);
            for (int64_t i = 0; i < n; i++) row.undecided |= i != j && !is_settled(&c[i], &c[j]);
            num_put(out, at, row);
        }
    }
}

void eval_rule_route(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    const IrMap *map = &r->m->maps.data[op->attr.map];
    int64_t n = r->w->counts[map->to];
    for (int64_t i = 0; i < out->rows; i++) {
        Num image = num_get(x, i);
        if (!(image.v >= 0 && image.v < (double)n)) image.v = map->partial ? -1 : 0;
        image.origin = 0;
        num_put(out, i, image);
        r->w->maps[op->attr.map][i] = (int64_t)image.v;
        r->w->open[op->attr.map][i] = image.undecided;
    }
}
