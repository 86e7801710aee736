/* The pass `keys` against what it replaces: means by a key of 30 values times a matrix for each, blocks of it, sums with
   factors of the key and of the row, and gradients by all that takes part, as sums by key that are summed again and as sums
   over elements. Keys may lie outside. Both must agree within the interpreter's bounds, and the kernels of both with the
   interpreter: without rows, with rows of one key (a hub of more than 256), with keys that no element has. */
#include "tests/unit/sides.h"

static const char text[] =
    "module m dim R = 30 dim F = 6 dim O = 5 dim K = 2 dim B = 3 dim P = 4 space node space edge : edges "
    "map node.all : node -> unit sorted map es : edge -> node map ed : edge -> node sorted graph gr : data edge(es, "
    "ed) "
    "tensor x : input node[F] $ tensor k : input edge[] i64 tensor W : param [R,F,O] $ stored [30,6,5] perm(0,1,2) "
    "init "
    "const(0) tensor V : param [R,K,B,P] $ stored [30,2,3,4] perm(0,1,2,3) init const(0) tensor c : param [R] $ stored "
    "[30] perm(0) init const(0) tensor n : input node[] $ "
    "func f(x = @x, k = @k, W = @W, V = @V, c = @c, n = @n) { "
    "%0 = arg 0 : node[F] $ %1 = arg 1 : edge[] i64 %2 = arg 2 : [R,F,O] $ %3 = arg 3 : [R,K,B,P] $ %4 = arg 4 : [R] $ "
    "%5 = arg 5 : node[] $ %6 = iota dim R : [R] i64 %7 = eq %1, %6 : edge[R] bool %8 = const 0 : [] $ %9 = const 1 : "
    "[] $ "
    "%10 = gather %0 via es : edge[F] $ "
    /* a mean, times a matrix; its product keeps the key */
    "%11 = select %7, %10, %8 : edge[R,F] $ %12 = reduce_sum %11 via ed : node[R,F] $ %13 = select %7, %9, %8 : "
    "edge[R] $ "
    "%14 = reduce_sum %13 via ed : node[R] $ %15 = max %14, %9 : node[R] $ %16 = div %12, %15 : node[R,F] $ "
    "%17 = contract %16, %2 : node[R,O] $ %18 = sum_dims %17 : node[O] $ "
    /* blocks */
    "%19 = eq %6, %1 : edge[R] bool %20 = select %19, %10, %8 : edge[R,F] $ %21 = reduce_sum %20 via ed : node[R,F] $ "
    "%22 = reshape %21 : node[R,K,B] $ %23 = contract %3, %22 : node[K,P] $ "
    /* factors of key and row, a number for each element, no matrix */
    "%24 = tanh %10 : edge[F] $ %25 = select %7, %24, %8 : edge[R,F] $ %26 = reduce_sum %25 via ed : node[R,F] $ "
    "%27 = neg %26 : node[R,F] $ %28 = mul %4, %27 : node[R,F] $ %29 = mul %28, %5 : node[R,F] $ %30 = sum_dims %29 : "
    "node[] "
    "$ %31 = select %7, %24, %8 : edge[R,F] $ %32 = reduce_sum %31 via ed : node[R,F] $ %33 = sum_dims %32 : node[F] $ "
    /* numbers of elements only: counts by key, of matrices' rows */
    "%34 = select %7, %9, %8 : edge[R] $ %35 = reduce_sum %34 via ed : node[R] $ %36 = contract %35, %2 : node[F,O] $ "
    "%37 = mul %18, %18 : node[O] $ %38 = sum_dims %37 : node[] $ %39 = sin %23 : node[K,P] $ %40 = sum_dims %39 : "
    "node[] $ "
    "%41 = sin %33 : node[F] $ %42 = sum_dims %41 : node[] $ %43 = sin %36 : node[F,O] $ %44 = sum_dims %43 : node[] $ "
    "%45 = add %38, %40 : node[] $ %46 = add %45, %30 : node[] $ %47 = add %46, %42 : node[] $ %48 = add %47, %44 : "
    "node[] $ "
    "%49 = reduce_sum %48 via node.all : [] $ %50 = grad %49, %0 : node[F] $ %51 = grad %49, %2 : [R,F,O] $ "
    "%52 = grad %49, %3 : [R,K,B,P] $ %53 = grad %49, %4 : [R] $ %54 = grad %49, %5 : node[] $ "
    "return a = %18 return b = %23 return s = %30 return d = %33 return e = %36 return dx = %50 return dW = %51 return "
    "dV "
    "= %52 return dc = %53 return dn = %54 }";

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
    const IrModule *m = sides_make(a, &d, &ctx, text, dtype, PASS_keys, PASS_keys, &s), *clean = m;
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
