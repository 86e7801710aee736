/* The pass `table` against what it replaces: rows of tables by the value of an integer that may lie outside, and the
   gradients by the tables, as sums with hits and as rows that are read. Both must agree within the interpreter's bounds
   (bit by bit where rows are only read), and the kernels of both with the interpreter: without rows, with rows that all
   read one place (a hub of more than 256), with places that nobody reads. */
#include "tests/unit/sides.h"

/* %3, %4: two indices; rows of T by both, of its transpose, of integers I; a sum over edges of T's rows; gradients of
   all. A product with matrices by edge. */
static const char text[] =
    "module m dim N = 40 dim F = 9 dim P = 40 dim H = 120 space node space edge : edges map node.all : node -> unit "
    "sorted "
    "map edge.all : edge -> unit sorted map es : edge -> node map ed : edge -> node sorted graph gr : data edge(es, "
    "ed) "
    "tensor T : param [N,F] $ stored [40,9] perm(0,1) init const(0) tensor U : param [F,P] $ stored [9,40] perm(0,1) "
    "init const(0) "
    "tensor V : param [N,F,H] $ stored [40,9,120] perm(0,1,2) init const(0) tensor I : input [N] i64 tensor i : input "
    "node[] i64 tensor j : input edge[] i64 tensor g : input node[F] $ "
    "func f(T = @T, U = @U, I = @I, i = @i, j = @j, g = @g, V = @V) { "
    "%0 = arg 0 : [N,F] $ %1 = arg 1 : [F,P] $ %2 = arg 2 : [N] i64 %3 = arg 3 : node[] i64 %4 = arg 4 : edge[] i64 %5 "
    "= arg 5 : node[F] $ "
    "%6 = iota dim N : [N] i64 %7 = iota dim P : [P] i64 %8 = eq %3, %6 : node[N] bool %9 = eq %7, %4 : edge[P] bool "
    "%10 = eq %4, %6 : edge[N] bool %11 = cast %8 : node[N] $ %12 = cast %10 : edge[N] $ %13 = const 1 : [] $ %14 = "
    "const 0 : [] $ "
    "%15 = select %9, %13, %14 : edge[P] $ %16 = const 0 : [] i64 %17 = select %8, %2, %16 : node[N] i64 "
    "%18 = contract %11, %0 : node[F] $ %19 = contract %0, %12 : edge[F] $ %20 = contract %15, %1 : edge[F] $ %21 = "
    "sum_dims %17 : node[] i64 "
    "%22 = mul %19, %20 : edge[F] $ %23 = reduce_sum %22 via ed : node[F] $ %24 = add %23, %18 : node[F] $ %25 = tanh "
    "%24 : node[F] $ "
    "%26 = mul %25, %5 : node[F] $ %27 = reduce_sum %26 via node.all : [F] $ %28 = sum_dims %27 : [] $ "
    "%29 = grad %28, %0 : [N,F] $ %30 = grad %28, %1 : [F,P] $ "
    "%31 = arg 6 : [N,F,H] $ %32 = contract %12, %31 : edge[F,H] $ %33 = gather %5 via es : edge[F] $ %34 = contract "
    "%33, %32 : edge[H] $ "
    "%35 = reduce_sum %34 via ed : node[H] $ %36 = sin %35 : node[H] $ %37 = reduce_sum %36 via node.all : [H] $ %38 = "
    "sum_dims %37 : [] $ "
    "%39 = grad %38, %5 : node[F] $ %40 = grad %38, %31 : [N,F,H] $ return h = %35 return dg = %39 return dV = %40 "
    "return a = %18 return b = %19 return c = %20 return d = %21 return e = %25 return dT = %29 return dU = %30 }";

enum { FIRST_READ = 3, N_READ = 4 /* results: rows as they are */, N_PLACES = 40 };

typedef struct Case {
    int64_t nodes, edges;
    int64_t place;       /* all indices are this; -2: any, some outside the table */
    const char *without; /* passes, or NULL */
} Case;

static double filled(IrType t, uint32_t arg, uint64_t i, const void *user)
{
    const Case *c = user;
    double u = sides_number(arg + 7, i);
    if (arg != 3 && arg != 4) return t.dtype == IR_I64 ? floor(u * 1000) : (double)(float)(u - 0.5);
    return c->place > -2 ? (double)c->place : floor(u * (N_PLACES + 4)) - 2;
}

static uint32_t count_ops(const IrModule *m, IrOpcode op)
{
    uint32_t n = 0;
    for (IrId v = 0; v < m->funcs.data[0]->ops.n; v++) n += m->funcs.data[0]->ops.data[v].op == op;
    return n;
}

static void test_case(const char *dtype, const Case *c)
{
    Arena *a = arena_new();
    Diags d;
    PassContext ctx;
    Sides s;
    check_begin();
    const IrModule *read = sides_make(a, &d, &ctx, text, dtype, PASS_simplify, PASS_table, &s);
    if (read) s.m[1] = pass_run_one(&ctx, PASS_table, s.m[1]);
    if (read && CHECK(s.m[1]) && CHECK(count_ops(s.m[1], IR_OP_transpose) > count_ops(read, IR_OP_transpose)) &&
        CHECK(count_ops(read, IR_OP_route) == 2 && count_ops(read, IR_OP_contract) == 1 &&
              count_ops(read, IR_OP_gather) == 6) &&
        sides_evaluate(a, &s, c->nodes, c->edges, filled, c)) {
        sides_compare(&s, FIRST_READ, FIRST_READ + N_READ);
        sides_run(a, &s, c->without);
    }
    check_end(arena_printf(a, "table: %s, %lld nodes, %lld edges, place %lld%s%s", dtype, (long long)c->nodes,
                           (long long)c->edges, (long long)c->place, c->without ? ", without " : "",
                           c->without ? c->without : ""));
    arena_free(a);
}

int main(void)
{
    static const Case cases[] = {{1, 0, -2, NULL},     {1, 3, 0, NULL},         {5, 0, -2, NULL},
                                 {60, 120, -2, NULL},  {300, 290, 39, NULL},    {600, 5, -1, NULL},
                                 {30, 60, -2, "fuse"}, {30, 60, -2, "schedule"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case("f32", &cases[i]);
        if (cases[i].edges < 290) test_case("f64", &cases[i]);
    }
    return check_done();
}
