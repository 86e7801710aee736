/* The passes `keys` and `table` against what they replace: means by a key of 30 values times a matrix for each, a
   mixture of two (%20), blocks of it (%26), sums with factors of the key and of the row (%33), or without (%36), of as
   many elements as a row has (%39), and gradients by all that takes part, as sums by key that are summed again and as
   sums over elements. Keys may lie outside. Both must agree within the interpreter's bounds, and the kernels of both
   with the
   interpreter: without rows, with rows of one key (a hub of more than 256), with keys that no element has. */
#include "tests/unit/sides.h"

static const char text[] =
    "module m dim R = 30 dim F = 6 dim O = 5 dim K = 2 dim B = 3 dim P = 4 space node space edge : edges map node.all"
    " : node -> unit sorted map es : edge -> node map ed : edge -> node sorted graph gr : data edge(es, ed) tensor x "
    ": input node[F] $ tensor k : input edge[] i64 tensor W : param [R,F,O] $ stored [30,6,5] perm(0,1,2) init "
    "const(0) tensor V : param [R,K,B,P] $ stored [30,2,3,4] perm(0,1,2,3) init const(0) tensor c : param [R] $ "
    "stored [30] perm(0) init const(0) tensor n : input node[] $ tensor C : param [R,K] $ stored [30,2] perm(0,1) "
    "init const(0) tensor M : param [K,F,O] $ stored [2,6,5] perm(0,1,2) init const(0) func f(x = @x, k = @k, W = @W,"
    " V = @V, c = @c, n = @n, C = @C, M = @M) { %0 = arg 0 : node[F] $ %1 = arg 1 : edge[] i64 %2 = arg 2 : [R,F,O] $"
    " %3 = arg 3 : [R,K,B,P] $ %4 = arg 4 : [R] $ %5 = arg 5 : node[] $ %6 = arg 6 : [R,K] $ %7 = arg 7 : [K,F,O] $ "
    "%8 = contract %6, %7 : [R,F,O] $ %9 = iota dim R : [R] i64 %10 = eq %1, %9 : edge[R] bool %11 = const 0 : [] $ "
    "%12 = const 1 : [] $ %13 = gather %0 via es : edge[F] $ %14 = select %10, %13, %11 : edge[R,F] $ %15 = "
    "reduce_sum %14 via ed : node[R,F] $ %16 = select %10, %12, %11 : edge[R] $ %17 = reduce_sum %16 via ed : node[R]"
    " $ %18 = max %17, %12 : node[R] $ %19 = div %15, %18 : node[R,F] $ %20 = contract %19, %8 : node[R,O] $ %21 = "
    "sum_dims %20 : node[O] $ %22 = eq %9, %1 : edge[R] bool %23 = select %22, %13, %11 : edge[R,F] $ %24 = "
    "reduce_sum %23 via ed : node[R,F] $ %25 = reshape %24 : node[R,K,B] $ %26 = contract %3, %25 : node[K,P] $ %27 ="
    " tanh %13 : edge[F] $ %28 = select %10, %27, %11 : edge[R,F] $ %29 = reduce_sum %28 via ed : node[R,F] $ %30 = "
    "neg %29 : node[R,F] $ %31 = mul %4, %30 : node[R,F] $ %32 = mul %31, %5 : node[R,F] $ %33 = sum_dims %32 : "
    "node[] $ %34 = select %10, %27, %11 : edge[R,F] $ %35 = reduce_sum %34 via ed : node[R,F] $ %36 = sum_dims %35 :"
    " node[F] $ %37 = select %10, %12, %11 : edge[R] $ %38 = reduce_sum %37 via ed : node[R] $ %39 = contract %38, %2"
    " : node[F,O] $ %40 = mul %21, %21 : node[O] $ %41 = sum_dims %40 : node[] $ %42 = sin %26 : node[K,P] $ %43 = "
    "sum_dims %42 : node[] $ %44 = sin %36 : node[F] $ %45 = sum_dims %44 : node[] $ %46 = sin %39 : node[F,O] $ %47 "
    "= sum_dims %46 : node[] $ %48 = add %41, %43 : node[] $ %49 = add %48, %33 : node[] $ %50 = add %49, %45 : "
    "node[] $ %51 = add %50, %47 : node[] $ %52 = reduce_sum %51 via node.all : [] $ %53 = grad %52, %0 : node[F] $ "
    "%54 = grad %52, %2 : [R,F,O] $ %55 = grad %52, %3 : [R,K,B,P] $ %56 = grad %52, %4 : [R] $ %57 = grad %52, %5 : "
    "node[] $ %58 = grad %52, %6 : [R,K] $ %59 = grad %52, %7 : [K,F,O] $ return a = %21 return b = %26 return s = "
    "%33 return d = %36 return e = %39 return dx = %53 return dW = %54 return dV = %55 return dc = %56 return dn = "
    "%57 return dC = %58 return dM = %59 }";

enum { N_KEYS = 30 };

typedef struct Case {
    int64_t nodes, edges;
    int64_t key;         /* all keys are this; -2: any, some outside */
    const char *without; /* passes, or NULL */
} Case;

static double filled(IrType t, uint32_t arg, uint64_t i, const void *user)
{
    const Case *c = user;
    double u = sides_number(arg + 7, i);
    if (t.dtype != IR_I64) return (double)(float)(u - 0.5);
    return c->key > -2 ? (double)c->key : floor(u * (N_KEYS + 4)) - 2;
}

/* The most elements that a value of the space has in a row, in the forward part. */
static int64_t widest(const IrModule *m, const IrFunc *f, IrId space)
{
    int64_t most = 0;
    for (IrId v = 0; v < f->ops.n; v++) {
        int64_t w = f->ops.data[v].type.space == space ? ir_type_width(m, &f->ops.data[v].type) : 0;
        most = w > most ? w : most;
    }
    return most;
}

static void test_case(const char *dtype, const Case *c)
{
    Arena *a = arena_new();
    Diags d;
    PassContext ctx;
    Sides s;
    check_begin();
    const IrModule *m = sides_make(a, &d, &ctx, text, dtype, PASS_keys, PASS_table, &s), *clean = m;
    if (m) clean = pass_run_one(&ctx, PASS_dce, m);
    if (clean && CHECK(widest(clean, clean->funcs.data[0], clean->maps.data[2].to) == N_KEYS) &&
        sides_evaluate(a, &s, c->nodes, c->edges, filled, c)) {
        sides_compare(&s, 0, 0);
        sides_run(a, &s, c->without);
    }
    check_end(arena_printf(a, "keys: %s, %lld nodes, %lld edges, key %lld%s%s", dtype, (long long)c->nodes,
                           (long long)c->edges, (long long)c->key, c->without ? ", without " : "",
                           c->without ? c->without : ""));
    arena_free(a);
}

int main(void)
{
    static const Case cases[] = {{1, 0, -2, NULL},   {1, 3, 0, NULL},      {60, 120, -2, NULL},     {3, 290, 29, NULL},
                                 {20, 15, -1, NULL}, {30, 60, -2, "fuse"}, {30, 60, -2, "schedule"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case("f32", &cases[i]);
        if (cases[i].edges < 290) test_case("f64", &cases[i]);
    }
    return check_done();
}
