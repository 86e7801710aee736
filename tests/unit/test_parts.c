/* The pass `parts` against what it replaces: concatenations on edges with pointwise operations, views, other cuts, sums
   over rows and over the dim behind them, and gradients of slices. Both must agree within the interpreter's bounds (bit
   by bit where only rows are summed), nothing may be put together on edges but what a result shows, and the kernels of
   both agree with the interpreter. */
#include "tests/unit/sides.h"

/* %6: a concat of 6 and 6; %13: as [4,3]; %16: of 4 and 8, of which 4 are 0; %22: slices that leave some out; %28:
   shown whole. */
static const char text[] =
    "module m dim A = 6 dim B = 6 dim D = 12 dim H = 4 dim K = 3 dim C = 4 dim E = 8 dim L = 5 space node space edge : "
    "edges "
    "map node.all : node -> unit sorted map edge.all : edge -> unit sorted map es : edge -> node map ed : edge -> node "
    "sorted graph gr : data edge(es, ed) "
    "tensor x : input node[A] $ tensor y : input edge[B] $ tensor z : input node[D] $ tensor s : input edge[] $ "
    "func f(x = @x, y = @y, z = @z, s = @s) { "
    "%0 = arg 0 : node[A] $ %1 = arg 1 : edge[B] $ %2 = arg 2 : node[D] $ %3 = arg 3 : edge[] $ "
    "%4 = gather %0 via es : edge[A] $ %5 = gather %2 via ed : edge[D] $ %6 = concat %4, %1 dim D : edge[D] $ "
    "%7 = mul %6, %5 : edge[D] $ %8 = tanh %7 : edge[D] $ %9 = reduce_sum %8 via ed : node[D] $ "
    "%10 = reduce_max %8 via ed empty 0 : node[D] $ %11 = reshape %8 : edge[H,K] $ %12 = mul %3, %11 : edge[H,K] $ "
    "%13 = reduce_sum %12 via es : node[H,K] $ %14 = const 0 : edge[C] $ %15 = slice %6 dim D at 2 : edge[E] $ "
    "%16 = concat %14, %15 dim D : edge[D] $ %17 = add %16, %6 : edge[D] $ %18 = mul %17, %17 : edge[D] $ %19 = "
    "sum_dims %18 : edge[] $ "
    "%20 = contract %6, %17 : edge[] $ %21 = mul %19, %20 : edge[] $ %22 = slice %5 dim D at 7 : edge[L] $ %23 = "
    "sum_dims %22 : edge[] $ "
    "%24 = add %21, %23 : edge[] $ %25 = reduce_sum %24 via ed : node[] $ %26 = sin %25 : node[] $ "
    "%27 = gather %2 via es : edge[D] $ %28 = concat %1, %4 dim D : edge[D] $ %29 = mul %28, %27 : edge[D] $ "
    "%30 = mul %9, %10 : node[D] $ %31 = sum_dims %30 : node[] $ %32 = sum_dims %13 : node[] $ %33 = mul %31, %32 : "
    "node[] $ "
    "%34 = add %33, %26 : node[] $ %35 = reduce_sum %34 via node.all : [] $ "
    "%36 = grad %35, %0 : node[A] $ %37 = grad %35, %1 : edge[B] $ %38 = grad %35, %2 : node[D] $ %39 = grad %35, %3 : "
    "edge[] $ "
    "return a = %9 return b = %10 return c = %13 return w = %29 return d = %26 return dx = %36 return dy = %37 return "
    "dz = %38 return ds = %39 }";

enum { N_EXACT = 4 /* results that no sum over the dim reaches */ };

typedef struct Case {
    int64_t nodes, edges;
    const char *without; /* passes, or NULL */
} Case;

static double filled(IrType t, uint32_t arg, uint64_t i, const void *user)
{
    (void)t, (void)user;
    return (double)(float)(sides_number(arg + 7, i) - 0.5);
}

/* Concats of rows that have a map on. */
static uint32_t n_wholes(const IrModule *m)
{
    uint32_t n = 0;
    const IrFunc *f = m->funcs.data[0];
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        n += op->op == IR_OP_concat && !strcmp(m->spaces.data[op->type.space].name, "edge");
    }
    return n;
}

static void test_case(const char *dtype, const Case *c)
{
    static const PassId behind[] = {PASS_simplify, PASS_cse, PASS_dce, PASS_parts, PASS_dce};
    Arena *a = arena_new();
    Diags d;
    PassContext ctx;
    Sides s;
    check_begin();
    const IrModule *cut = sides_make(a, &d, &ctx, text, dtype, PASS_parts, PASS_parts, &s);
    for (size_t k = 0; k < sizeof behind / sizeof *behind && cut && s.m[1]; k++)
        s.m[1] = pass_run_one(&ctx, behind[k], s.m[1]);
    if (cut && CHECK(s.m[1]) && check(n_wholes(s.m[1]) <= 2, "%u concatenations on edges are left", n_wholes(s.m[1])) &&
        sides_evaluate(a, &s, c->nodes, c->edges, filled, NULL)) {
        sides_compare(&s, 0, N_EXACT);
        sides_run(a, &s, c->without);
    }
    check_end(arena_printf(a, "parts: %s, %lld nodes, %lld edges%s%s", dtype, (long long)c->nodes, (long long)c->edges,
                           c->without ? ", without " : "", c->without ? c->without : ""));
    arena_free(a);
}

int main(void)
{
    static const Case cases[] = {{1, 0, NULL},   {1, 3, NULL},     {5, 0, NULL},        {60, 120, NULL},
                                 {2, 600, NULL}, {30, 60, "fuse"}, {30, 60, "schedule"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case("f32", &cases[i]);
        test_case("f64", &cases[i]);
    }
    return check_done();
}
