/* Values at elements inside the kernels that sum them: softmax over edges, perceptrons on edges, both by destination
   and by source, and gradients over all edges, on graphs with rows of none, one, some hundred and some thousand edges,
   and with scores that are -inf, inf or NaN. Each result must have the bits that it has without fusion, where every
   value lies in memory, and lie within the interpreter's bound; and what is one kernel must be one. */
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/plan_run.h"
#include "tests/unit/plan_text.h"
#include <math.h>

static const char *const head =
    "module m\ndim F = 37\ndim K = 16\ndim H = 4\ndim I = 4\ndim D = 5\ndim W = 70\ndim L = 1100\nspace node\nspace "
    "edge : edges\n"
    "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\nmap edge.all : edge -> unit\ngraph g : data "
    "edge(edge.src, edge.dst)\n"
    "tensor x : input node[F] f32\ntensor s : input edge[] f32\ntensor h : input node[H,D] f32\n"
    "tensor a : state [H,D] f32 init const(0)\ntensor w : state [F,W] f32 init const(0)\n"
    "tensor v : state [W,K] f32 init const(0)\ntensor t : input edge[H] f32\ntensor q : input edge[H,I] f32\ntensor u "
    ": state [H,W] f32 init const(0)\ntensor l : state [H,L] f32 init const(0)\n";

typedef struct Case {
    const char *name, *body;
    unsigned n_steps; /* with fusion, by destination */
    bool special;     /* edge inputs have infinities and NaN */
    bool online;      /* sums rescale: the bits of two walks only for rows of one block */
    bool no_edges;    /* nothing with a row per edge is in memory */
} Case;

/* MAP is the map that is summed over, END the one that leads to the other end. */
static const Case cases[] = {
    {"softmax of scalars, weighted sum",
     "(s = @s, x = @x) {\n  %0 = arg 0 : edge[] f32\n  %1 = arg 1 : node[F] f32\n"
     "  %2 = reduce_max %0 via MAP empty -inf : node[] f32\n  %3 = gather %2 via MAP : edge[] f32\n"
     "  %4 = sub %0, %3 : edge[] f32\n  %5 = exp %4 : edge[] f32\n  %6 = reduce_sum %5 via MAP : node[] f32\n"
     "  %7 = gather %6 via MAP : edge[] f32\n  %8 = div %5, %7 : edge[] f32\n  %9 = gather %1 via END : edge[F] f32\n"
     "  %10 = mul %8, %9 : edge[F] f32\n  %11 = reduce_sum %10 via MAP : node[F] f32\n  return y = %11\n}\n",
     1, true, false, false},
    {"softmax of heads: scores are dot products",
     "(h = @h, a = @a) {\n  %0 = arg 0 : node[H,D] f32\n  %1 = arg 1 : [H,D] f32\n  %2 = gather %0 via END : edge[H,D] "
     "f32\n"
     "  %3 = gather %0 via MAP : edge[H,D] f32\n  %4 = add %2, %3 : edge[H,D] f32\n  %5 = tanh %4 : edge[H,D] f32\n"
     "  %6 = contract %5, %1 : edge[H] f32\n  %7 = reduce_max %6 via MAP empty 0 : node[H] f32\n"
     "  %8 = gather %7 via MAP : edge[H] f32\n  %9 = sub %6, %8 : edge[H] f32\n  %10 = exp %9 : edge[H] f32\n"
     "  %11 = reduce_sum %10 via MAP : node[H] f32\n  %12 = gather %11 via MAP : edge[H] f32\n"
     "  %13 = div %10, %12 : edge[H] f32\n  %14 = mul %13, %2 : edge[H,D] f32\n"
     "  %15 = reduce_sum %14 via MAP : node[H,D] f32\n  return y = %15\n  return m = %7\n}\n",
     1, false, false, false},
    {"weights of a softmax are a result too",
     "(t = @t, h = @h) {\n  %0 = arg 0 : edge[H] f32\n  %1 = arg 1 : node[H,D] f32\n"
     "  %2 = reduce_max %0 via MAP empty 0 : node[H] f32\n  %3 = gather %2 via MAP : edge[H] f32\n"
     "  %4 = sub %0, %3 : edge[H] f32\n  %5 = exp %4 : edge[H] f32\n  %6 = reduce_sum %5 via MAP : node[H] f32\n"
     "  %7 = gather %6 via MAP : edge[H] f32\n  %8 = div %5, %7 : edge[H] f32\n  %9 = gather %1 via END : edge[H,D] "
     "f32\n"
     "  %10 = mul %8, %9 : edge[H,D] f32\n  %11 = reduce_sum %10 via MAP : node[H,D] f32\n  return y = %11\n"
     "  return p = %8\n}\n",
     1, true, false, false},
    {"a sum inside the row between two walks",
     "(t = @t, h = @h) {\n  %0 = arg 0 : edge[H] f32\n  %1 = arg 1 : node[H,D] f32\n"
     "  %2 = reduce_max %0 via MAP empty 0 : node[H] f32\n  %3 = gather %2 via MAP : edge[H] f32\n"
     "  %4 = sub %0, %3 : edge[H] f32\n  %5 = exp %4 : edge[H] f32\n  %6 = reduce_sum %5 via MAP : node[H] f32\n"
     "  %7 = gather %6 via MAP : edge[H] f32\n  %8 = div %5, %7 : edge[H] f32\n  %9 = gather %1 via END : edge[H,D] "
     "f32\n"
     "  %10 = mul %8, %9 : edge[H,D] f32\n  %11 = reduce_sum %10 via MAP : node[H,D] f32\n"
     "  %12 = contract %11, %1 : node[H] f32\n  %13 = gather %12 via MAP : edge[H] f32\n"
     "  %14 = sub %0, %13 : edge[H] f32\n  %15 = mul %8, %14 : edge[H] f32\n"
     "  %16 = reduce_sum %15 via MAP : node[H] f32\n  return y = %11\n  return g = %16\n}\n",
     1, true, false, false},
    {"softmax that divides behind its sums, unguarded",
     "(s = @s, x = @x) {\n  %0 = arg 0 : edge[] f32\n  %1 = arg 1 : node[F] f32\n"
     "  %2 = reduce_max %0 via MAP empty -inf : node[] f32\n  %3 = gather %2 via MAP : edge[] f32\n"
     "  %4 = sub %0, %3 : edge[] f32\n  %5 = exp %4 : edge[] f32\n  %6 = reduce_sum %5 via MAP : node[] f32\n"
     "  %7 = gather %1 via END : edge[F] f32\n  %8 = mul %5, %7 : edge[F] f32\n  %9 = reduce_sum %8 via MAP : node[F] "
     "f32\n"
     "  %10 = div %9, %6 : node[F] f32\n  return y = %10\n  return m = %2\n  return z = %6\n}\n",
     1, true, true, false},
    {"a sum of what is divided by the weights of a softmax",
     "(s = @s, x = @x) {\n  %0 = arg 0 : edge[] f32\n  %1 = arg 1 : node[F] f32\n"
     "  %2 = reduce_max %0 via MAP empty -inf : node[] f32\n  %3 = gather %2 via MAP : edge[] f32\n"
     "  %4 = sub %0, %3 : edge[] f32\n  %5 = exp %4 : edge[] f32\n  %6 = reduce_sum %5 via MAP : node[] f32\n"
     "  %7 = gather %1 via END : edge[F] f32\n  %8 = div %7, %5 : edge[F] f32\n  %9 = reduce_sum %8 via MAP : node[F] "
     "f32\n"
     "  return y = %9\n  return m = %2\n  return z = %6\n}\n",
     1, false, true, false},
    {"softmax of heads by the least score, guarded",
     "(t = @t, h = @h) {\n  %0 = arg 0 : edge[H] f32\n  %1 = arg 1 : node[H,D] f32\n"
     "  %2 = reduce_min %0 via MAP empty 0 : node[H] f32\n  %3 = abs %2 : node[H] f32\n  %4 = const inf : [] f32\n"
     "  %5 = lt %3, %4 : node[H] bool\n  %6 = const 0 : [] f32\n  %7 = select %5, %2, %6 : node[H] f32\n"
     "  %8 = gather %7 via MAP : edge[H] f32\n  %9 = sub %8, %0 : edge[H] f32\n  %10 = exp %9 : edge[H] f32\n"
     "  %11 = reduce_sum %10 via MAP : node[H] f32\n  %12 = gather %1 via END : edge[H,D] f32\n"
     "  %13 = mul %10, %12 : edge[H,D] f32\n  %14 = reduce_sum %13 via MAP : node[H,D] f32\n"
     "  %15 = div %14, %11 : node[H,D] f32\n  return y = %15\n  return z = %11\n}\n",
     1, true, true, false},
    {"softmax whose weights go by another dim, beside a maximum of the one dim",
     "(t = @t) {\n  %0 = arg 0 : edge[H] f32\n  %1 = reduce_max %0 via MAP empty 0 : node[H] f32\n"
     "  %2 = gather %1 via MAP : edge[H] f32\n  %3 = sub %0, %2 : edge[H] f32\n  %4 = exp %3 : edge[H] f32\n"
     "  %5 = reshape %4 : edge[I] f32\n  %6 = reduce_sum %5 via MAP : node[I] f32\n"
     "  %7 = sum_dims %4 : edge[] f32\n  %8 = reduce_sum %7 via MAP : node[] f32\n"
     "  return y = %6\n  return z = %8\n  return m = %1\n}\n",
     1, false, false, false},
    {"softmax whose weights change places of equal dims",
     "(q = @q) {\n  %0 = arg 0 : edge[H,I] f32\n  %1 = reduce_max %0 via MAP empty 0 : node[H,I] f32\n"
     "  %2 = gather %1 via MAP : edge[H,I] f32\n  %3 = sub %0, %2 : edge[H,I] f32\n  %4 = exp %3 : edge[H,I] f32\n"
     "  %5 = reshape %4 : edge[I,H] f32\n  %6 = reduce_sum %5 via MAP : node[I,H] f32\n  return y = %6\n}\n",
     2, false, false, false},
    {"perceptron on edges, sum and maximum",
     "(x = @x, w = @w, v = @v) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,W] f32\n  %2 = arg 2 : [W,K] f32\n"
     "  %3 = gather %0 via MAP : edge[F] f32\n  %4 = gather %0 via END : edge[F] f32\n  %5 = sub %3, %4 : edge[F] f32\n"
     "  %6 = contract %5, %1 : edge[W] f32\n  %7 = tanh %6 : edge[W] f32\n  %8 = contract %7, %2 : edge[K] f32\n"
     "  %9 = reduce_sum %8 via MAP : node[K] f32\n  %10 = reduce_max %8 via MAP empty 0 : node[K] f32\n  return y = "
     "%9\n"
     "  return z = %10\n}\n",
     1, false, false, false},
    {"two outer products of what is staged, of more numbers than registers, and a sum",
     "(x = @x, w = @w, t = @t) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,W] f32\n  %2 = arg 2 : edge[H] f32\n"
     "  %3 = gather %0 via END : edge[F] f32\n  %4 = contract %3, %1 : edge[W] f32\n  %5 = tanh %4 : edge[W] f32\n"
     "  %6 = mul %2, %5 : edge[H,W] f32\n  %7 = reduce_sum %6 via MAP : node[H,W] f32\n"
     "  %8 = reduce_sum %5 via MAP : node[W] f32\n  %9 = mul %6, %6 : edge[H,W] f32\n  %10 = reduce_sum %9 via MAP : "
     "node[H,W] f32\n  return y = %7\n  return z = %8\n  return s = %10\n}\n",
     1, false, false, true},
    {"gradients over all edges of a perceptron: a product, a sum and a maximum",
     "(x = @x, w = @w, t = @t) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,W] f32\n  %2 = arg 2 : edge[H] f32\n"
     "  %3 = gather %0 via MAP : edge[F] f32\n  %4 = gather %0 via END : edge[F] f32\n  %5 = mul %3, %4 : edge[F] f32\n"
     "  %6 = contract %5, %1 : edge[W] f32\n  %7 = tanh %6 : edge[W] f32\n  %8 = contract %2, %7 : [H,W] f32\n"
     "  %9 = reduce_sum %7 via edge.all : [W] f32\n  %10 = reduce_max %7 via edge.all empty 0 : [W] f32\n  return y = "
     "%8\n"
     "  return z = %9\n  return m = %10\n}\n",
     4, false, false, false},
    {"gradient over all edges of two computed operands, one of them a result",
     "(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,W] f32\n"
     "  %2 = gather %0 via END : edge[F] f32\n  %3 = tanh %2 : edge[F] f32\n  %4 = contract %3, %1 : edge[W] f32\n"
     "  %5 = gather %0 via MAP : edge[F] f32\n  %6 = mul %5, %3 : edge[F] f32\n  %7 = contract %6, %4 : [F,W] f32\n"
     "  return y = %7\n  return z = %4\n}\n",
     2, false, false, false},
    {"gradient over all edges, summed inside each",
     "(h = @h, a = @a, t = @t) {\n  %0 = arg 0 : node[H,D] f32\n  %1 = arg 1 : [H,D] f32\n  %2 = arg 2 : edge[H] f32\n"
     "  %3 = gather %0 via END : edge[H,D] f32\n  %4 = gather %0 via MAP : edge[H,D] f32\n  %5 = sub %3, %4 : "
     "edge[H,D] f32\n"
     "  %6 = contract %5, %1 : edge[H] f32\n  %7 = exp %6 : edge[H] f32\n  %8 = mul %7, %2 : edge[H] f32\n"
     "  %9 = contract %3, %8 : [D] f32\n  %10 = contract %8, %5 : [D] f32\n  return y = %9\n  return z = %10\n}\n",
     3, false, false, false},
    {"sum over all edges of a number that is stored for each of them",
     "(s = @s) {\n  %0 = arg 0 : edge[] f32\n  %1 = const 2 : edge[] f32\n  %2 = reduce_sum %1 via edge.all : [] f32\n"
     "  %3 = reduce_sum %0 via MAP : node[] f32\n  return y = %2\n  return c = %1\n  return z = %3\n}\n",
     3, false, false, false},
    {"weights of a softmax and their derivatives, over both maps",
     "(h = @h, a = @a) {\n  %0 = arg 0 : node[H,D] f32\n  %1 = arg 1 : [H,D] f32\n  %2 = contract %0, %1 : node[H] "
     "f32\n"
     "  %3 = gather %2 via MAP : edge[H] f32\n  %4 = gather %2 via END : edge[H] f32\n  %5 = add %3, %4 : edge[H] f32\n"
     "  %6 = reduce_max %5 via MAP empty 0 : node[H] f32\n  %7 = gather %6 via MAP : edge[H] f32\n"
     "  %8 = sub %5, %7 : edge[H] f32\n  %9 = exp %8 : edge[H] f32\n  %10 = reduce_sum %9 via MAP : node[H] f32\n"
     "  %11 = gather %0 via END : edge[H,D] f32\n  %12 = gather %0 via MAP : edge[H,D] f32\n"
     "  %13 = mul %11, %12 : edge[H,D] f32\n  %14 = sum_dims %13 : edge[H] f32\n  %15 = mul %14, %9 : edge[H] f32\n"
     "  %16 = reduce_sum %15 via MAP : node[H] f32\n  %17 = mul %9, %12 : edge[H,D] f32\n"
     "  %18 = reduce_sum %17 via END : node[H,D] f32\n  %19 = reduce_sum %15 via END : node[H] f32\n  return y = %10\n"
     "  return g = %16\n  return u = %18\n  return t = %19\n}\n",
     3, false, false, true},
    {"too wide for an array, summed over all edges",
     "(t = @t, l = @l) {\n  %0 = arg 0 : edge[H] f32\n  %1 = arg 1 : [H,L] f32\n  %2 = contract %0, %1 : edge[L] f32\n"
     "  %3 = tanh %2 : edge[L] f32\n  %4 = reduce_sum %3 via edge.all : [L] f32\n  return y = %4\n}\n",
     3, false, false, false},
    {"what three walks over the edges want is computed in each, and a result per edge in one",
     "(t = @t, u = @u, x = @x, v = @v) {\n  %0 = arg 0 : edge[H] f32\n  %1 = arg 1 : [H,W] f32\n  %2 = arg 2 : node[F] "
     "f32\n"
     "  %3 = arg 3 : [W,K] f32\n  %4 = contract %0, %1 : edge[W] f32\n  %5 = tanh %4 : edge[W] f32\n"
     "  %6 = reduce_sum %5 via MAP : node[W] f32\n  %7 = reduce_max %4 via END empty 0 : node[W] f32\n"
     "  %8 = gather %6 via MAP : edge[W] f32\n  %9 = gather %7 via END : edge[W] f32\n  %10 = mul %8, %9 : edge[W] "
     "f32\n"
     "  %11 = add %10, %4 : edge[W] f32\n  %12 = contract %0, %11 : [H,W] f32\n  %13 = reduce_sum %11 via edge.all : "
     "[W] f32\n"
     "  %14 = contract %11, %3 : edge[K] f32\n  return y = %12\n  return z = %13\n  return p = %14\n  return s = %6\n"
     "  return m = %7\n}\n",
     5, false, false, true},
    {"what is dear is kept between two walks of a row",
     "(x = @x, s = @s) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : edge[] f32\n  %2 = gather %0 via END : edge[F] "
     "f32\n"
     "  %3 = mul %1, %2 : edge[F] f32\n  %4 = tanh %3 : edge[F] f32\n  %5 = sigmoid %4 : edge[F] f32\n"
     "  %6 = mul %5, %2 : edge[F] f32\n  %7 = reduce_sum %6 via MAP : node[F] f32\n  %8 = reduce_sum %5 via MAP : "
     "node[F] f32\n"
     "  %9 = div %7, %8 : node[F] f32\n  %10 = gather %9 via MAP : edge[F] f32\n  %11 = sub %2, %10 : edge[F] f32\n"
     "  %12 = mul %11, %5 : edge[F] f32\n  %13 = mul %12, %4 : edge[F] f32\n  %14 = reduce_sum %13 via MAP : node[F] "
     "f32\n"
     "  %15 = sum_dims %13 : edge[] f32\n  %16 = mul %15, %4 : edge[F] f32\n  %17 = reduce_sum %16 via END : node[F] "
     "f32\n"
     "  return y = %14\n  return z = %17\n  return e = %15\n}\n",
     2, false, false, true},
    {"what puts sums of two walks together leaves the others in one kernel",
     "(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via END : edge[F] f32\n  %2 = tanh %1 : edge[F] f32\n"
     "  %3 = reduce_sum %2 via MAP : node[F] f32\n  %4 = gather %3 via MAP : edge[F] f32\n  %5 = mul %2, %4 : edge[F] "
     "f32\n"
     "  %6 = reduce_sum %5 via END : node[F] f32\n  %7 = sub %4, %1 : edge[F] f32\n  %8 = reduce_sum %7 via MAP : "
     "node[F] f32\n"
     "  %9 = add %6, %8 : node[F] f32\n  return y = %9\n}\n",
     2, false, false, true},
};

static const char *with_maps(Arena *a, const char *body, const char *map, const char *end)
{
    StrBuf out = {.arena = a};
    for (; *body; body++) {
        if (!strncmp(body, "MAP", 3)) strbuf_puts(&out, map), body += 2;
        else if (!strncmp(body, "END", 3)) strbuf_puts(&out, end), body += 2;
        else strbuf_printf(&out, "%c", *body);
    }
    return strbuf_cstr(&out);
}

/* Node 2 has most edges and node 3 none, at both ends. */
static EvalWorld *world(Arena *a, const IrModule *m, int64_t n_edges)
{
    enum { NODES = 9 };
    int64_t *src = ARENA_ARRAY(a, int64_t, n_edges + 1), *dst = ARENA_ARRAY(a, int64_t, n_edges + 1);
    const char *why = "";
    for (int64_t i = 0; i < n_edges; i++) {
        src[i] = i % 3 ? 2 : i % NODES;
        dst[i] = i % 7 ? 2 : i % NODES;
        if (src[i] == 3) src[i] = 4;
        if (dst[i] == 3) dst[i] = 5;
    }
    EvalGraph g = {NODES, NODES, n_edges, src, dst};
    EvalWorld *w = eval_world(a, m, &g, NULL, 0, &why);
    check(w != NULL, "%s", why);
    return w;
}

enum { N_SPECIAL = 5 };

/* Half of the scores are -inf, all are, one is inf, one is NaN. */
static void make_special(EvalValue *v, unsigned which)
{
    int64_t n = v->rows * v->width;
    for (int64_t k = 0; k < n; k++) {
        if (which == 2 || (which == 1 && k / v->width % 2)) v->v[k] = -INFINITY;
        if (which == 3 && k == n / 2) v->v[k] = INFINITY;
        if (which == 4 && k == n / 3) v->v[k] = NAN;
    }
}

static PlanRun run(Arena *a, const HostPlan *plan, const EvalWorld *w, EvalValue **args)
{
    PlanRun r = {.arena = a, .plan = plan, .prog = plan->programs.data[0], .w = w, .args = args, .ahead = 3};
    const char *why = plan_run(&r);
    check(!why, "%s", why);
    return r;
}

static void compare(const PlanRun *x, const PlanRun *y, EvalValue **want, uint32_t n_results, bool bits)
{
    for (uint32_t i = 0; i < n_results && check_ok; i++) {
        uint32_t b = plan_run_result(x, i), c = plan_run_result(y, i);
        if (!check(b != UINT32_MAX && c != UINT32_MAX, "result %u is never written", i)) return;
        for (int64_t k = 0; k < x->elems[b]; k++) {
            double p = plan_get(x->prog->buffers.data[b].elem, x->data[b], k);
            double q = plan_get(y->prog->buffers.data[c].elem, y->data[c], k);
            check(!bits || p == q || (p != p && q != q), "result %u element %lld: %.9g, and %.9g without fusion", i,
                  (long long)k, p, q);
            check(!want || plan_accepts(want[i], k, p), "result %u element %lld: %.9g, wanted %.9g", i, (long long)k, p,
                  want ? want[i]->v[k] : 0);
        }
    }
}

static bool keeps_edges(const HostPlan *plan)
{
    const PlanProgram *p = plan->programs.data[0];
    for (uint32_t i = 0; i < p->buffers.n; i++) {
        const PlanBuffer *b = &p->buffers.data[i];
        if (b->kind == PLAN_ARENA && b->rows.kind == PLAN_COUNT && plan->module->spaces.data[b->rows.space].is_edge)
            return true;
    }
    return false;
}

static void test_case(const Case *c, const char *type, bool by_source, int64_t n_edges, unsigned special)
{
    Arena *a = arena_new();
    const char *map = by_source ? "edge.src" : "edge.dst", *end = by_source ? "edge.dst" : "edge.src", *why = "";
    StrBuf text = {.arena = a};
    const char *all = arena_printf(a, "%sfunc forward%s", head, with_maps(a, c->body, map, end));
    for (const char *p = all; *p; p++) {
        bool f32 = !strncmp(p, "f32", 3);
        strbuf_printf(&text, f32 ? "%.3s" : "%.1s", f32 ? type : p);
        if (f32) p += 2;
    }
    const IrModule *m;
    HostPlan *plan = plan_of_text(a, strbuf_cstr(&text), NULL, &m), *plain = NULL;
    if (plan) plain = plan_of_text(a, strbuf_cstr(&text), "fuse", &m);
    EvalWorld *w = plain ? world(a, m, n_edges) : NULL;
    if (w) {
        const IrFunc *f = m->funcs.data[0];
        EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
        GirRng r = {17 + special};
        for (uint32_t i = 0; i < f->args.n; i++) {
            args[i] = eval_value_new(a, m, w, f->args.data[i].type);
            gir_fill(args[i], &r);
            if (i == 0 && special) make_special(args[i], special);
        }
        unsigned n = plan->programs.data[0]->steps.n;
        check(by_source || n == c->n_steps, "%u steps, wanted %u", n, c->n_steps);
        check(!c->no_edges || !keeps_edges(plan), "values of edges are in memory");
        EvalValue **want = eval_func(a, m, w, f, args, &why);
        PlanRun x = run(a, plan, w, args);
        PlanRun y = run(a, plain, w, args);
        if (check(want != NULL, "%s", why)) compare(&x, &y, want, f->results.n, !c->online || n_edges <= 256);
    }
    arena_free(a);
}

int main(void)
{
    static const int64_t sizes[] = {0, 1, 12, 700, 3000};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned source = 0; source < 2; source++) {
            check_begin();
            for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++)
                for (unsigned special = 0; special < (cases[i].special ? N_SPECIAL : 1); special++)
                    for (unsigned f64 = 0; f64 < 2; f64++) {
                        if (sizes[k] > 1000 && (check_long() ? special && f64 : special || f64)) continue; /* slow */
                        test_case(&cases[i], f64 ? "f64" : "f32", source, sizes[k], special);
                    }
            char name[96];
            snprintf(name, sizeof name, "stage: %s, by %s", cases[i].name, source ? "source" : "destination");
            check_end(name);
        }
    return check_done();
}
