/* The interpreter against numbers worked out by hand, its bounds against f32 arithmetic done
   here. Worlds have their own tests (test_world.c). */
#include "ir/eval.h"
#include "tests/unit/check.h"
#include <float.h>
#include <math.h>

/* ---- one module, one graph ------------------------------------------------------------------- */

static const char HEAD[] =
    "module m\n"
    "dim A = 2\ndim B = 3\ndim C = 6\ndim D = 1\ndim G = 2\n"
    "space node\nspace edge : edges\nspace loops : edges\nspace graph\n"
    "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\n"
    "map loops.src : loops -> node\nmap loops.dst : loops -> node sorted\n"
    "map loops.orig : loops -> edge partial inverse loops.image\n"
    "map loops.image : edge -> loops partial inverse loops.orig\n"
    "map node.all : node -> unit\nmap edge.all : edge -> unit\nmap node.graph : node -> graph "
    "sorted\n"
    "graph g : data edge(edge.src, edge.dst)\n"
    "graph gl : self_loops(g, keep) loops(loops.src, loops.dst) orig loops.orig image loops.image\n"
    "tensor x : input node[A] f32\ntensor e : input edge[A] f32\ntensor w : input [A,B] f32\n"
    "tensor i : input node[] i64\ntensor j : input [] i32\ntensor z : input node[A] f64\n"
    "sites 2\n"
    "func f(x = @x, e = @e, w = @w, i = @i, j = @j, seed = seed, step = step, z = @z) {\n"
    "  %0 = arg 0 : node[A] f32\n  %1 = arg 1 : edge[A] f32\n  %2 = arg 2 : [A,B] f32\n"
    "  %3 = arg 3 : node[] i64\n  %4 = arg 4 : [] i32\n  %5 = arg 5 : [] i64\n  %6 = arg 6 : [] "
    "i64\n"
    "  %7 = arg 7 : node[A] f64\n";

/* The user's edges. Node 0 is a hub with a loop and a pair of parallel edges, nodes 1 and 3 have
   empty rows. Stored: 1, 3, 4, 6 (into 0), 2 (into 2), 0, 5 (into 4). */
static const int64_t SRC[] = {0, 1, 3, 2, 0, 4, 1}, DST[] = {4, 0, 2, 0, 0, 4, 0};
static const int64_t GRAPH_OF[] = {0, 0, 1, 1, 1};
static const EvalGraph GRAPH = {5, 5, 7, SRC, DST};

static const double X[] = {1, -0.5, 2, -1, 3, -1.5, 4, -2, 5, -2.5};         /* [node][A] */
static const double E[] = {2, -2, 4, -4, 5, -5, 7, -7, 3, -3, 1, -1, 6, -6}; /* [stored edge][A]: id + 1 */
static const double W[] = {1, 2, 3, 4, 5, 6}, I[] = {7, -7, 0, 3, -2}, J[] = {3}, SEED[] = {42}, STEP[] = {1};
static const double *const INPUTS[] = {X, E, W, I, J, SEED, STEP, X};

static IrModule *parse(Arena *a, const char *text)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", text, (uint32_t)strlen(text)};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    check(m != NULL, "%s", d.list.n ? d.list.data[0]->text : "no module");
    return m;
}

/* Runs the first function with the inputs above; NULL after a failed check. */
static EvalValue **run(Arena *a, const char *body)
{
    const char *why = NULL;
    IrModule *m = parse(a, arena_printf(a, "%s%s\n", HEAD, body));
    EvalWorld *w = m ? eval_world(a, m, &GRAPH, GRAPH_OF, 2, &why) : NULL;
    if (!check(w != NULL, "world: %s", why ? why : "-")) return NULL;
    const IrFunc *f = m->funcs.data[0];
    EvalValue *args[8];
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        memcpy(args[i]->v, INPUTS[i], (size_t)(args[i]->rows * args[i]->width) * sizeof(double));
    }
    EvalValue **r = eval_func(a, m, w, f, args, &why);
    check(r != NULL, "run: %s", why ? why : "-");
    return r;
}

/* ---- every op by hand ------------------------------------------------------------------------ */

typedef struct Case {
    const char *body;
    int n;
    double want[18];
} Case;

static const Case cases[] = {
    {"%8 = const 0.1 : [] f32 return r = %8 }", 1, {0.1f}},
    {"%8 = const 0.1 : [] f64 return r = %8 }", 1, {0.1}},
    {"%8 = const 1e300 : [] f32 return r = %8 }", 1, {INFINITY}},
    {"%8 = iota dim B : [B] i64 return r = %8 }", 3, {0, 1, 2}},
    {"%8 = element : edge[] i64 return r = %8 }", 7, {1, 3, 4, 6, 2, 0, 5}},
    {"%8 = element : node[] i64 return r = %8 }", 5, {0, 1, 2, 3, 4}},
    {"%8 = neg %0 : node[A] f32 return r = %8 }", 10, {-1, 0.5, -2, 1, -3, 1.5, -4, 2, -5, 2.5}},
    {"%8 = abs %2 : [A,B] f32 %9 = neg %8 : [A,B] f32 %10 = abs %9 : [A,B] f32 return r = %10 }",
     6,
     {1, 2, 3, 4, 5, 6}},
    {"%8 = sign %0 : node[A] f32 return r = %8 }", 10, {1, -1, 1, -1, 1, -1, 1, -1, 1, -1}},
    {"%8 = floor %0 : node[A] f32 return r = %8 }", 10, {1, -1, 2, -1, 3, -2, 4, -2, 5, -3}},
    {"%8 = exp %2 : [A,B] f32 return r = %8 }",
     6,
     {2.718281828459045, 7.38905609893065, 20.085536923187668, 54.598150033144236, 148.4131591025766,
      403.4287934927351}},
    {"%8 = expm1 %2 : [A,B] f32 return r = %8 }", 3, {1.718281828459045, 6.38905609893065, 19.085536923187668}},
    {"%8 = log %2 : [A,B] f32 return r = %8 }", 4, {0, 0.6931471805599453, 1.0986122886681098, 1.3862943611198906}},
    {"%8 = log1p %2 : [A,B] f32 return r = %8 }", 3, {0.6931471805599453, 1.0986122886681098, 1.3862943611198906}},
    {"%8 = sqrt %2 : [A,B] f32 return r = %8 }", 4, {1, 1.4142135623730951, 1.7320508075688772, 2}},
    {"%8 = tanh %2 : [A,B] f32 return r = %8 }", 2, {0.7615941559557649, 0.9640275800758169}},
    {"%8 = sigmoid %0 : node[A] f32 return r = %8 }",
     4,
     {0.7310585786300049, 0.3775406687981454, 0.8807970779778823, 0.2689414213699951}},
    {"%8 = erf %0 : node[A] f32 return r = %8 }", 2, {0.8427007929497149, -0.5204998778130465}},
    {"%8 = sin %2 : [A,B] f32 return r = %8 }", 2, {0.8414709848078965, 0.9092974268256817}},
    {"%8 = cos %2 : [A,B] f32 return r = %8 }", 2, {0.5403023058681398, -0.4161468365471424}},
    {"%8 = add %0, %2 : node[B,A] f32 return r = %8 }", 6, {2, 3.5, 3, 4.5, 4, 5.5}},
    {"%8 = sub %0, %2 : node[A,B] f32 return r = %8 }", 6, {0, -1, -2, -4.5, -5.5, -6.5}},
    {"%8 = mul %0, %0 : node[A] f32 return r = %8 }", 4, {1, 0.25, 4, 1}},
    {"%8 = div %0, %0 : node[A] f32 return r = %8 }", 4, {1, 1, 1, 1}},
    {"%8 = cast %4 : [] i64 %9 = div %3, %8 : node[] i64 return r = %9 }", 5, {2, -2, 0, 1, 0}},
    {"%8 = cast %4 : [] i64 %9 = mod %3, %8 : node[] i64 return r = %9 }", 5, {1, -1, 0, 0, -2}},
    {"%8 = div %3, %3 : node[] i64 return r = %8 }", 5, {1, 1, 0, 1, 1}},
    {"%8 = mod %3, %3 : node[] i64 return r = %8 }", 5, {0, 0, 0, 0, 0}},
    {"%8 = const -2147483648 : [] i32 %9 = const -1 : [] i32 %10 = div %8, %9 : [] i32 return r = "
     "%10 }",
     1,
     {-2147483648.0}},
    {"%8 = const 2147483647 : [] i32 %9 = add %8, %4 : [] i32 return r = %9 }", 1, {-2147483646.0}},
    {"%8 = const 65536 : [] i32 %9 = mul %8, %8 : [] i32 return r = %9 }", 1, {0}},
    {"%8 = const 2 : [] f32 %9 = pow %0, %8 : node[A] f32 return r = %9 }", 4, {1, 0.25, 4, 1}},
    {"%8 = const 0.5 : [] f32 %9 = pow %2, %8 : [A,B] f32 return r = %9 }",
     4,
     {1, 1.4142135623730951, 1.7320508075688772, 2}},
    {"%8 = const 0 : [] f32 %9 = pow %0, %8 : node[A] f32 return r = %9 }", 2, {1, 1}},
    {"%8 = const 2 : [] f32 %9 = min %0, %8 : node[A] f32 return r = %9 }", 6, {1, -0.5, 2, -1, 2, -1.5}},
    {"%8 = const 2 : [] f32 %9 = max %0, %8 : node[A] f32 return r = %9 }", 6, {2, 2, 2, 2, 3, 2}},
    {"%8 = const nan : [] f32 %9 = max %0, %8 : node[A] f32 return r = %9 }", 2, {NAN, NAN}},
    {"%8 = const 2 : [] f32 %9 = eq %0, %8 : node[A] bool return r = %9 }", 4, {0, 0, 1, 0}},
    {"%8 = const 2 : [] f32 %9 = ne %0, %8 : node[A] bool return r = %9 }", 4, {1, 1, 0, 1}},
    {"%8 = const 2 : [] f32 %9 = lt %0, %8 : node[A] bool return r = %9 }", 5, {1, 1, 0, 1, 0}},
    {"%8 = const 2 : [] f32 %9 = le %0, %8 : node[A] bool return r = %9 }", 5, {1, 1, 1, 1, 0}},
    {"%8 = const nan : [] f32 %9 = ne %0, %8 : node[A] bool %10 = le %0, %8 : node[A] bool %11 = "
     "and %9, %10 : node[A] "
     "bool return r = %9 return s = %10 return t = %11 }",
     2,
     {1, 1}},
    {"%8 = const 0 : [] f32 %9 = lt %8, %0 : node[A] bool %10 = not %9 : node[A] bool %11 = and "
     "%9, %10 : node[A] bool "
     "%12 = or %9, %11 : node[A] bool return r = %12 }",
     4,
     {1, 0, 1, 0}},
    {"%8 = const 0 : [] f32 %9 = lt %8, %0 : node[A] bool %10 = select %9, %0, %8 : node[A] f32 "
     "return r = %10 }",
     4,
     {1, 0, 2, 0}},
    {"%8 = cast %0 : node[A] i32 return r = %8 }", 10, {1, 0, 2, -1, 3, -1, 4, -2, 5, -2}},
    {"%8 = const nan : [] f32 %9 = cast %8 : [] i32 return r = %9 }", 1, {-2147483648.0}},
    {"%8 = const 4294967297 : [] i64 %9 = cast %8 : [] i32 return r = %9 }", 1, {1}},
    {"%8 = cast %3 : node[] bool return r = %8 }", 5, {1, 1, 0, 1, 1}},
    {"%8 = const 16777217 : [] i64 %9 = cast %8 : [] f32 return r = %9 }", 1, {16777216}},
    {"%8 = detach %0 : node[A] f32 return r = %8 }", 3, {1, -0.5, 2}},
    {"%8 = reshape %2 : [C] f32 return r = %8 }", 6, {1, 2, 3, 4, 5, 6}},
    {"%8 = transpose %2 : [B,A] f32 return r = %8 }", 6, {1, 4, 2, 5, 3, 6}},
    {"%8 = at %0, %3 dim A : node[] f32 return r = %8 }", 5, {0, 0, 3, 0, 0}},
    {"%8 = at %2, %3 dim A : node[B] f32 return r = %8 }", 15, {0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0}},
    {"%8 = cast %0 : node[A] i64 %9 = sum_dims %8 : node[] i64 %10 = at %2, %9 dim B : node[A] f32 return r = %10 }",
     10,
     {2, 5, 2, 5, 3, 6, 3, 6, 0, 0}},
    {"%8 = slice %2 dim B at 1 : [A,D] f32 return r = %8 }", 2, {2, 5}},
    {"%8 = slice %2 dim A at 1 : [D,B] f32 return r = %8 }", 3, {4, 5, 6}},
    {"%8 = slice %2 dim B at 1 : [A,G] f32 return r = %8 }", 4, {2, 3, 5, 6}},
    {"%8 = slice %2 dim B at 2 : [A,D] f32 %9 = concat %8, %8, %8 dim B : [A,B] f32 return r = %9 "
     "}",
     6,
     {3, 3, 3, 6, 6, 6}},
    {"%8 = slice %2 dim A at 0 : [D,B] f32 %9 = concat %8, %8 dim A : [A,B] f32 return r = %9 }",
     6,
     {1, 2, 3, 1, 2, 3}},
    {"%8 = sum_dims %2 : [A] f32 return r = %8 }", 2, {6, 15}},
    {"%8 = sum_dims %2 : [B] f32 return r = %8 }", 3, {5, 7, 9}},
    {"%8 = sum_dims %2 : [] f32 return r = %8 }", 1, {21}},
    {"%8 = max_dims %2 : [B] f32 return r = %8 }", 3, {4, 5, 6}},
    {"%8 = min_dims %0 : node[] f32 return r = %8 }", 5, {-0.5, -1, -1.5, -2, -2.5}},
    {"%8 = contract %0, %2 : node[B] f32 return r = %8 }", 6, {-1, -0.5, 0, -2, -1, 0}},
    {"%8 = contract %0, %0 : node[] f32 return r = %8 }", 3, {1.25, 5, 11.25}},
    {"%8 = contract %0, %2 : node[B,A] f32 return r = %8 }", 6, {1, -2, 2, -2.5, 3, -3}},
    {"%8 = contract %0, %2 : node[B] f32 %9 = contract %0, %8 : [A,B] f32 return r = %9 }",
     6,
     {-55, -27.5, 0, 27.5, 13.75, 0}},
    {"%8 = contract %0, %0 : [] f32 return r = %8 }", 1, {68.75}},
    {"%8 = contract %2, %2 : [A] f32 return r = %8 }", 2, {14, 77}},
    {"%8 = gather %0 via edge.src : edge[A] f32 return r = %8 }",
     14,
     {2, -1, 3, -1.5, 1, -0.5, 2, -1, 4, -2, 1, -0.5, 5, -2.5}},
    {"%8 = gather %0 via edge.dst : edge[A] f32 return r = %8 }",
     14,
     {1, -0.5, 1, -0.5, 1, -0.5, 1, -0.5, 3, -1.5, 5, -2.5, 5, -2.5}},
    {"%8 = sum_dims %2 : [A] f32 %9 = gather %8 via node.all : node[A] f32 return r = %9 }", 4, {6, 15, 6, 15}},
    /* loops (keep): nodes 1, 2, 3 get one behind the seven edges; stored 1 3 4 6 | 7 | 2 8 | 9 | 0
       5 */
    {"%8 = mapped via loops.orig : loops[] bool return r = %8 }", 10, {1, 1, 1, 1, 0, 1, 0, 0, 1, 1}},
    {"%8 = gather %1 via loops.orig : loops[A] f32 %9 = sum_dims %8 : loops[] f32 %10 = slice %8 "
     "dim A at 0 : loops[D] f32 "
     "return r = %10 }",
     10,
     {2, 4, 5, 7, 0, 3, 0, 0, 1, 6}},
    {"%8 = mapped via loops.image : edge[] bool return r = %8 }", 7, {1, 1, 1, 1, 1, 1, 1}},
    {"%8 = reduce_sum %1 via edge.dst : node[A] f32 return r = %8 }", 10, {18, -18, 0, 0, 3, -3, 0, 0, 7, -7}},
    {"%8 = reduce_sum %1 via edge.src : node[A] f32 return r = %8 }", 10, {6, -6, 9, -9, 4, -4, 3, -3, 6, -6}},
    {"%8 = reduce_max %1 via edge.dst empty -9 : node[A] f32 return r = %8 }",
     10,
     {7, -2, -9, -9, 3, -3, -9, -9, 6, -1}},
    {"%8 = reduce_min %1 via edge.dst empty inf : node[A] f32 return r = %8 }",
     10,
     {2, -7, INFINITY, INFINITY, 3, -3, INFINITY, INFINITY, 1, -6}},
    {"%8 = reduce_mul %1 via edge.dst : node[A] f32 return r = %8 }", 10, {280, 280, 1, 1, 3, -3, 1, 1, 6, 6}},
    {"%8 = reduce_sum %0 via node.all : [A] f32 return r = %8 }", 2, {15, -7.5}},
    {"%8 = reduce_max %1 via edge.all empty 0 : [A] f32 return r = %8 }", 2, {7, -1}},
    {"%8 = reduce_sum %3 via node.all : [] i64 return r = %8 }", 1, {1}},
    {"%8 = rank %1 via edge.dst : edge[A] i64 return r = %8 }", 14, {0, 3, 1, 2, 2, 1, 3, 0, 0, 0, 0, 1, 1, 0}},
    {"%8 = const 1 : [] i64 %9 = nth %1, %8 via edge.dst : node[A] i64 return r = %9 }",
     10,
     {3, 4, -1, -1, -1, -1, -1, -1, 5, 0}},
    {"%8 = rank %1 via edge.all : edge[A] i64 return r = %8 }", 14, {1, 5, 3, 3, 4, 2, 6, 0, 2, 4, 0, 6, 5, 1}},
    {"%8 = reduce_sum %0 via node.graph : graph[A] f32 return r = %8 }", 4, {3, -1.5, 12, -6}},
    {"%8 = reduce_sum %1 via loops.image : loops[A] f32 %9 = slice %8 dim A at 0 : loops[D] f32 "
     "return r = %9 }",
     10,
     {2, 4, 5, 7, 0, 3, 0, 0, 1, 6}},
    {"%8 = log %7 : node[A] f64 return r = %8 }", 3, {0, NAN, 0.6931471805599453}},
};

static bool near(double got, double want)
{
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 1e-14 * fabs(want) + 1e-15;
}

static void test_ops(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Arena *a = arena_new();
        check_begin();
        EvalValue **r = run(a, cases[c].body);
        for (int i = 0; r && i < cases[c].n; i++) {
            check(i < r[0]->rows * r[0]->width && near(r[0]->v[i], cases[c].want[i]),
                  "element %d is %.17g, wanted %.17g", i, r[0]->v[i], cases[c].want[i]);
            check(!r[0]->undecided[i] && r[0]->err[i] >= 0 && r[0]->err[i] <= 1e-5 * fmax(fabs(cases[c].want[i]), 1),
                  "element %d: bound %g", i, r[0]->err[i]);
        }
        check_end(arena_printf(a, "eval %zu: %.60s", c, cases[c].body));
        arena_free(a);
    }
}

/* ---- decided or not -------------------------------------------------------------------------- */

/* %8 is 0.1 + 0.2 and %9 is 0.3, which f32 need not tell apart; %10 is one of them for sure: %8
 * again. */
#define CLOSE                                                                                                          \
    "%8 = const 0.1 : [] f32 %9 = const 0.2 : [] f32 %10 = add %8, %9 : [] f32 %11 = const 0.3 : "                     \
    "[] f32 "                                                                                                          \
    "%12 = add %8, %9 : [] f32 "

typedef struct Decision {
    const char *name, *body;
    double v;
    bool undecided;
} Decision;

static const Decision decisions[] = {
    {"close numbers", CLOSE "%13 = lt %10, %11 : [] bool return r = %13 }", 0, true},
    {"the same computation", CLOSE "%13 = eq %10, %12 : [] bool return r = %13 }", 1, false},
    {"its difference",
     CLOSE "%13 = sub %10, %12 : [] f32 %14 = const 0 : [] f32 %15 = le %13, %14 : [] bool return "
           "r = %15 }",
     1, false},
    {"the greatest is itself",
     CLOSE "%13 = const 1 : [] f32 %14 = add %10, %13 : [] f32 %15 = max %14, %10 : [] f32 %16 = eq "
           "%15, %14 : [] bool return r = %16 }",
     1, false},
    {"one of two close ones", CLOSE "%13 = max %10, %11 : [] f32 %14 = eq %13, %11 : [] bool return r = %14 }", 0,
     true},
    {"but its value is known",
     CLOSE "%13 = max %10, %11 : [] f32 %14 = const 0.4 : [] f32 %15 = lt %13, %14 : [] bool "
           "return r = %15 }",
     1, false},
    {"a branch that does not matter",
     CLOSE "%13 = lt %10, %11 : [] bool %14 = select %13, %10, %11 : [] f32 %15 = const 0.4 : [] f32 "
           "%16 = lt %14, %15 : [] bool return r = %16 }",
     1, false},
    {"a branch that does",
     CLOSE "%13 = lt %10, %11 : [] bool %14 = const 1 : [] f32 %15 = select %13, %10, %14 : [] f32 "
           "return r = %15 }",
     1, true},
    {"what hangs on it",
     CLOSE "%13 = lt %10, %11 : [] bool %14 = cast %13 : [] f32 %15 = exp %14 : [] f32 %16 = "
           "sum_dims %15 : [] f32 "
           "return r = %16 }",
     1, true},
    {"a sum with it",
     CLOSE "%13 = lt %10, %11 : [] bool %14 = cast %13 : [] f32 %15 = add %0, %14 : node[A] f32 "
           "%16 = reduce_sum %15 via "
           "node.all : [A] f32 return r = %16 }",
     15, true},
    {"false and it",
     CLOSE "%13 = lt %10, %11 : [] bool %14 = const 0 : [] bool %15 = and %13, %14 : [] bool "
           "return r = %15 }",
     0, false},
    {"true or it",
     CLOSE "%13 = lt %10, %11 : [] bool %14 = const 1 : [] bool %15 = or %13, %14 : [] bool return "
           "r = %15 }",
     1, false},
    {"counts are exact",
     "%8 = const 1 : edge[] f32 %9 = reduce_sum %8 via edge.dst : node[] f32 %10 = const 4 : [] "
     "f32 "
     "%11 = eq %9, %10 : node[] bool return r = %11 }",
     1, false},
    {"so are products of small integers",
     "%8 = contract %2, %2 : [] f32 %9 = const 91 : [] f32 %10 = le %9, %8 : [] bool return r = "
     "%10 }",
     1, false},
    {"a quotient of one computation",
     CLOSE "%13 = div %10, %12 : [] f32 %14 = const 1 : [] f32 %15 = eq %13, %14 : [] bool "
           "return r = %15 }",
     1, false},
    {"log at a pole", CLOSE "%13 = sub %10, %11 : [] f32 %14 = log %13 : [] f32 return r = %14 }", NAN, true},
    {"log at an exact pole", "%8 = const 0 : [] f32 %9 = log %8 : [] f32 return r = %9 }", -INFINITY, false},
    {"division by nearly nothing", CLOSE "%13 = sub %10, %11 : [] f32 %14 = div %10, %13 : [] f32 return r = %14 }",
     NAN, true},
    {"root of nearly nothing", CLOSE "%13 = sub %10, %11 : [] f32 %14 = sqrt %13 : [] f32 return r = %14 }", NAN, true},
    {"floor at a step",
     CLOSE "%13 = const 10 : [] f32 %14 = mul %10, %13 : [] f32 %15 = floor %14 : [] f32 return r "
           "= %15 }",
     NAN, true},
    {"cast at a step",
     CLOSE "%13 = const 10 : [] f32 %14 = mul %10, %13 : [] f32 %15 = cast %14 : [] i64 return r = %15 }", NAN, true},
    {"sign of nearly nothing", CLOSE "%13 = sub %10, %11 : [] f32 %14 = sign %13 : [] f32 return r = %14 }", NAN, true},
    {"f32 overflow", "%8 = const 3e38 : [] f32 %9 = add %8, %8 : [] f32 return r = %9 }", INFINITY, false},
    {"f32 near overflow",
     "%8 = const 3.4028234e38 : [] f32 %9 = const 1e31 : [] f32 %10 = add %8, %9 : [] f32 return r "
     "= %10 }",
     NAN, true},
    {"f64 has room", "%8 = const 3e38 : [] f64 %9 = add %8, %8 : [] f64 return r = %9 }", 6e38, false},
    {"an integer without a double",
     "%8 = const 9007199254740992 : [] i64 %9 = const 1 : [] i64 %10 = add %8, %9 : [] i64 return "
     "r = %10 }",
     NAN, true},
};

static void test_decisions(void)
{
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++) {
        const Decision *d = &decisions[i];
        Arena *a = arena_new();
        check_begin();
        EvalValue **r = run(a, d->body);
        if (r) {
            check(r[0]->undecided[0] == d->undecided, "undecided is %d", r[0]->undecided[0]);
            check(d->undecided || near(r[0]->v[0], d->v), "found %g", r[0]->v[0]);
        }
        check_end(arena_printf(a, "decided: %s", d->name));
        arena_free(a);
    }
}

/* The adjoint of a greatest element asks which it was: decided where no other comes near, and for
 * exact ties. */
static void test_winners(void)
{
    Arena *a = arena_new();
    check_begin();
    EvalValue **r = run(a, "%8 = exp %1 : edge[A] f32 %9 = reduce_max %8 via edge.dst empty 0 : node[A] f32 "
                           "%10 = gather %9 via "
                           "edge.dst : edge[A] f32 %11 = eq %8, %10 : edge[A] bool return r = %11 }");
    static const double want[] = {0, 1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 1, 0};
    for (int i = 0; r && i < 14; i++) CHECK(r[0]->v[i] == want[i] && !r[0]->undecided[i]);
    check_end("decided: the winners of reduce_max");
    arena_free(a);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static uint64_t step(uint64_t *s) { return *s = *s * 6364136223846793005u + 1442695040888963407u, *s >> 33; }

enum { N_ROWS = 64, N_STEPS = 14 };
static const char *const BINARY[] = {"add", "sub", "mul", "div", "max", "min"};
static const char *const UNARY[] = {"exp", "tanh", "sigmoid", "sqrt", "log", "abs", "sin", "erf", "expm1", "log1p"};

static float binary(unsigned op, float x, float y)
{
    switch (op) {
    case 0: return x + y;
    case 1: return x - y;
    case 2: return x * y;
    case 3: return x / y;
    case 4: return x > y || isnan(x) ? x : y;
    default: return x < y || isnan(x) ? x : y;
    }
}

static float unary(unsigned op, float x)
{
    switch (op) {
    case 0: return (float)exp((double)x);
    case 1: return (float)tanh((double)x);
    case 2: return (float)(1 / (1 + exp(-(double)x)));
    case 3: return sqrtf(x);
    case 4: return (float)log((double)x);
    case 5: return fabsf(x);
    case 6: return (float)sin((double)x);
    case 7: return (float)erf((double)x);
    case 8: return (float)expm1((double)x);
    default: return (float)log1p((double)x);
    }
}

typedef struct Tally {
    int64_t n, broken, undecided;
    VEC(double) ratios; /* bound / error where there is an error */
} Tally;

static void tally(Arena *a, Tally *t, double v, double err, bool undecided, double got)
{
    t->n++;
    t->undecided += undecided;
    if (undecided || (isnan(v) && isnan(got)) || v == got) return;
    double off = fabs(got - v);
    if (!(off <= err)) t->broken++;
    if (off > 0) VEC_PUSH(a, &t->ratios, err / off);
}

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* One program of N_STEPS random pointwise ops on N_ROWS rows, here and in float. */
static void random_program(Arena *a, uint64_t *s, Tally *t)
{
    float c[N_STEPS + 2][N_ROWS];
    StrBuf b = {.arena = a};
    strbuf_printf(&b,
                  "module m dim N = %d tensor x : input [N] f32 tensor y : input [N] f32 func f(x "
                  "= @x, y = @y) { "
                  "%%0 = arg 0 : [N] f32 %%1 = arg 1 : [N] f32 ",
                  N_ROWS);
    for (int r = 0; r < 2 * N_ROWS; r++)
        c[r / N_ROWS][r % N_ROWS] = (float)(((double)(step(s) % 20001) - 10000) / 4096);
    for (unsigned k = 2; k < N_STEPS + 2; k++) {
        unsigned x = (unsigned)(step(s) % k), y = (unsigned)(step(s) % k), op = (unsigned)(step(s) % 16);
        if (op < 6) strbuf_printf(&b, "%%%u = %s %%%u, %%%u : [N] f32 ", k, BINARY[op], x, y);
        else strbuf_printf(&b, "%%%u = %s %%%u : [N] f32 ", k, UNARY[op - 6], x);
        for (int r = 0; r < N_ROWS; r++) c[k][r] = op < 6 ? binary(op, c[x][r], c[y][r]) : unary(op - 6, c[x][r]);
    }
    for (unsigned k = 2; k < N_STEPS + 2; k++) strbuf_printf(&b, "return r%u = %%%u ", k, k);
    strbuf_puts(&b, "}");
    const char *why;
    IrModule *m = parse(a, strbuf_cstr(&b));
    EvalWorld *w = m ? eval_world(a, m, NULL, NULL, 1, &why) : NULL;
    if (!check(w != NULL, "no world")) return;
    EvalValue *args[2] = {eval_value_new(a, m, w, m->tensors.data[0].type),
                          eval_value_new(a, m, w, m->tensors.data[1].type)};
    for (int r = 0; r < 2 * N_ROWS; r++) args[r / N_ROWS]->v[r % N_ROWS] = (double)c[r / N_ROWS][r % N_ROWS];
    EvalValue **out = eval_func(a, m, w, m->funcs.data[0], args, &why);
    for (int k = 0; out && k < N_STEPS; k++)
        for (int r = 0; r < N_ROWS; r++)
            tally(a, t, out[k]->v[r], out[k]->err[r], out[k]->undecided[r], (double)c[k + 2][r]);
}

static void test_bounds(void)
{
    enum { PROGRAMS = 150 };
    Arena *a = arena_new();
    uint64_t s = 7;
    Tally t = {0};
    check_begin();
    for (int i = 0; i < PROGRAMS; i++) random_program(a, &s, &t);
    CHECK(t.n == PROGRAMS * N_STEPS * N_ROWS);
    check(t.broken == 0, "%lld of %lld elements outside their bound", (long long)t.broken, (long long)t.n);
    check_end("bounds hold for random f32 programs");
    check_begin();
    qsort(t.ratios.data, t.ratios.n, sizeof(double), by_size);
    CHECK(t.ratios.n > 10000);
    double median = t.ratios.n ? t.ratios.data[t.ratios.n / 2] : 0;
    if (getenv("GNNC_TEST_VERBOSE")) printf("# median %g, %lld undecided\n", median, (long long)t.undecided);
    check(median < 50, "median bound/error is %g", median);
    check(t.undecided * 50 < t.n, "%lld of %lld undecided", (long long)t.undecided, (long long)t.n);
    check_end("bounds are sharp and decide");
    arena_free(a);
}

/* Sums in the association of docs/design.md, written out here once more in float. */
static float sum_rows(const float *x, int n)
{
    int nb = (n + 511) / 512 < 1 ? 1 : (n + 511) / 512 > 32 ? 32 : (n + 511) / 512, rows = (n + nb - 1) / nb;
    float part[32] = {0};
    for (int b = 0; b < nb; b++)
        for (int i = b * rows; i < n && i < (b + 1) * rows; i++) part[b] += x[i];
    for (int m = nb; m > 1; m = (m + 1) / 2)
        for (int i = 0; i + (m + 1) / 2 < m; i++) part[i] += part[i + (m + 1) / 2];
    return part[0];
}

static float sum_lanes(const float *x, const float *y, int n)
{
    float part[16] = {0};
    for (int i = 0; i < n; i++) part[i % 16] = y ? fmaf(x[i], y[i], part[i % 16]) : part[i % 16] + x[i];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

static void test_sums(void)
{
    enum { N = 20000, F = 500 };
    Arena *a = arena_new();
    uint64_t s = 3;
    float *x = ARENA_ARRAY(a, float, N);
    for (int i = 0; i < N; i++) x[i] = (float)(((double)(step(&s) % 2000001) - 900000) / 999983);
    const char *why;
    IrModule *m = parse(a, "module m dim F = 500 space node map node.all : node -> unit tensor x : input node[] "
                           "f32 tensor y : "
                           "input [F] f32 func f(x = @x, y = @y) { %0 = arg 0 : node[] f32 %1 = arg 1 : [F] f32 "
                           "%2 = reduce_sum %0 via node.all : [] f32 %3 = sum_dims %1 : [] f32 %4 = contract %1, "
                           "%1 : [] f32 "
                           "return a = %2 return b = %3 return c = %4 }");
    EvalGraph g = {N, N, 0, NULL, NULL};
    check_begin();
    EvalWorld *w = m ? eval_world(a, m, &g, NULL, 1, &why) : NULL;
    if (check(w != NULL, "no world")) {
        EvalValue *args[2] = {eval_value_new(a, m, w, m->tensors.data[0].type),
                              eval_value_new(a, m, w, m->tensors.data[1].type)};
        for (int i = 0; i < N; i++) args[0]->v[i] = (double)x[i];
        for (int i = 0; i < F; i++) args[1]->v[i] = (double)x[i];
        EvalValue **r = eval_func(a, m, w, m->funcs.data[0], args, &why);
        float got[] = {sum_rows(x, N), sum_lanes(x, NULL, F), sum_lanes(x, x, F)};
        for (int i = 0; r && i < 3; i++) {
            double off = fabs((double)got[i] - r[i]->v[0]);
            check(off <= r[i]->err[0], "sum %d is off by %g, bound %g", i, off, r[i]->err[0]);
            check(r[i]->err[0] < 1e-4 * fabs(r[i]->v[0]), "sum %d: bound %g of %g", i, r[i]->err[0], r[i]->v[0]);
            /* One element less is outside. */
            CHECK(fabs((double)got[i] - (double)x[i] - r[i]->v[0]) > r[i]->err[0]);
        }
    }
    check_end("bounds of long sums hold and notice a missing element");
    arena_free(a);
}

/* ---- random numbers and refusals ------------------------------------------------------------- */

/* The reference vectors of Random123's kat_vectors, through our keying. */
static void test_philox(void)
{
    check_begin();
    CHECK(eval_philox(0, 0, 0, 0, 0) == 0x6627e8d5u && eval_philox(0, 0, 0, 0, 16) == 0xe169c58du);
    CHECK(eval_philox(0, 0, 0, 0, 32) == 0xbc57ac4cu && eval_philox(0, 0, 0, 0, 48) == 0x9b00dbd8u);
    /* counter ffffffff x 3, site and element fill word 1; block 2^32 - 1 is feature 64 * (2^28 - 1)
     * + 15 */
    uint64_t feature = 64 * (((uint64_t)1 << 28) - 1) + 15;
    CHECK(eval_philox(UINT64_MAX, UINT32_MAX, 0xffff, UINT64_MAX, feature) == 0x408f276du);
    CHECK(eval_philox(UINT64_MAX, UINT32_MAX, 0xffff, UINT64_MAX, feature + 16) == 0x41c83b0eu);
    CHECK(eval_philox(UINT64_MAX, UINT32_MAX, 0xffff, UINT64_MAX, feature + 32) == 0xa20bc7c6u);
    CHECK(eval_philox(UINT64_MAX, UINT32_MAX, 0xffff, UINT64_MAX, feature + 48) == 0x6d5451fdu);
    check_end("philox known answers");
}

static void test_random(void)
{
    Arena *a = arena_new();
    check_begin();
    EvalValue **r = run(a, "%8 = random_uniform %5, %6 site 1 : edge[A] f32 %9 = random_normal %5, "
                           "%6 site 0 : node[A] f32 "
                           "return r = %8 return n = %9 }");
    static const int64_t ids[] = {1, 3, 4, 6, 2, 0, 5};
    for (uint64_t k = 0; r && k < 14; k++) {
        double want = (double)(eval_philox(42, 1, 1, (uint64_t)ids[k / 2], k % 2) >> 8) * 0x1p-24;
        CHECK(r[0]->v[k] == want && r[0]->err[k] == 0);
    }
    for (uint64_t k = 0; r && k < 10; k++) {
        double u1 = (double)((eval_philox(42, 1, 0, k / 2, k % 2) >> 8) + 1) * 0x1p-24;
        double u2 = (double)(eval_philox(42, 1, 0, k / 2, k % 2 + 16) >> 8) * 0x1p-24;
        CHECK(near(r[1]->v[k], sqrt(-2 * log(u1)) * cos(6.283185307179586 * u2)) && r[1]->err[k] > 0 &&
              r[1]->err[k] < 1e-5);
    }
    check_end("random numbers use the user's ids");
    arena_free(a);
}

static void test_refusals(void)
{
    Arena *a = arena_new();
    const char *why = "";
    check_begin();
    IrModule *m = parse(a, "module m dim F = 1000000000 func big() { %0 = const 1 : [F] f32 } func "
                           "g() { %0 = const 1 : [] f32 %1 = grad %0, "
                           "%0 : [] f32 } dim Q = ? func q() { %0 = const 1 : [Q] f32 }");
    EvalWorld *w = m ? eval_world(a, m, NULL, NULL, 1, &why) : NULL;
    CHECK(w && !eval_func(a, m, w, m->funcs.data[0], NULL, &why) && strstr(why, "2 GiB"));
    CHECK(w && !eval_func(a, m, w, m->funcs.data[1], NULL, &why) && strstr(why, "autodiff"));
    CHECK(w && !eval_func(a, m, w, m->funcs.data[2], NULL, &why) && strstr(why, "no size"));
    check_end("functions the interpreter refuses");
    arena_free(a);
}

int main(void)
{
    test_ops();
    test_decisions();
    test_winners();
    test_bounds();
    test_sums();
    test_philox();
    test_random();
    test_refusals();
    return check_done();
}
