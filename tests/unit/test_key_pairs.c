/* The pass `pairs` against what it replaces, in its four forms: means by a key of 20 values times a matrix for each
   (%17), a sum of elements' products with the matrix and the factor that their keys say (%23), such a product under a
   tanh (%25), and quotients with extrema and sums by key and row (%32, %38); and gradients by all that takes part. Keys
   may lie outside. An exp of the product, which is not 0 where its operand is, is one of each pair as well if all keys
   are known to lie inside. Both must agree within the interpreter's bounds, and the kernels of both with the
   interpreter: without rows, with pairs of more than 256 elements, with keys that no element has. */
#include "tests/unit/sides.h"

static const char text[] =
    "module m dim R = 20 dim F = 6 dim O = 5 space node space edge : edges map node.all : node -> unit map es : edge "
    "-> node map ed : edge -> node sorted graph gr : data edge(es, ed) tensor x : input node[F] $ tensor k : input "
    "edge[] i64 tensor W : param [R,F,O] $ stored [20,6,5] perm(0,1,2) init const(0) tensor c : param [R] $ stored "
    "[20] perm(0) init const(0) tensor w : input edge[] $ func f(x = @x, k = @k, W = @W, c = @c, w = @w) { %0 = arg 0 "
    ": node[F] $ %1 = arg 1 : edge[] i64 %2 = arg 2 : [R,F,O] $ %3 = arg 3 : [R] $ %4 = arg 4 : edge[] $ %5 = iota "
    "dim R : [R] i64 %6 = eq %1, %5 : edge[R] bool %7 = const 0 : [] $ %8 = const 1 : [] $ %9 = gather %0 via es : "
    "edge[F] $ %10 = select %6, %9, %7 : edge[R,F] $ %11 = reduce_sum %10 via ed : node[R,F] $ %12 = select %6, %8, "
    "%7 : edge[R] $ %13 = reduce_sum %12 via ed : node[R] $ %14 = max %13, %8 : node[R] $ %15 = div %11, %14 : "
    "node[R,F] $ %16 = contract %15, %2 : node[R,O] $ %17 = sum_dims %16 : node[O] $ %18 = at %2, %1 dim R : "
    "edge[F,O] $ %19 = mul %9, %4 : edge[F] $ %20 = contract %19, %18 : edge[O] $ %21 = at %3, %1 dim R : edge[] $ "
    "%22 = mul %20, %21 : edge[O] $ %23 = reduce_sum %22 via ed : node[O] $ %24 = contract %9, %18 : edge[O] $ %25 = "
    "tanh %24 : edge[O] $ %26 = mul %25, %4 : edge[O] $ %27 = reduce_sum %26 via ed : node[O] $ %28 = const -inf : [] "
    "$ %29 = select %6, %4, %28 : edge[R] $ %30 = reduce_max %29 via ed empty 0 : node[R] $ %31 = gather %30 via ed : "
    "edge[R] $ %32 = at %31, %1 dim R : edge[] $ %33 = sub %4, %32 : edge[] $ %34 = exp %33 : edge[] $ %35 = select "
    "%6, %34, %7 : edge[R] $ %36 = reduce_sum %35 via ed : node[R] $ %37 = gather %36 via ed : edge[R] $ %38 = at "
    "%37, %1 dim R : edge[] $ %39 = add %38, %8 : edge[] $ %40 = div %34, %39 : edge[] $ %41 = mul %40, %9 : edge[F] "
    "$ %42 = reduce_sum %41 via ed : node[F] $ %43 = mul %17, %23 : node[O] $ %44 = sin %27 : node[O] $ %45 = add "
    "%43, %44 : node[O] $ %46 = sum_dims %45 : node[] $ %47 = sin %42 : node[F] $ %48 = sum_dims %47 : node[] $ %49 = "
    "add %46, %48 : node[] $ %50 = reduce_sum %49 via node.all : [] $ %51 = grad %50, %0 : node[F] $ %52 = grad %50, "
    "%2 : [R,F,O] $ %53 = grad %50, %3 : [R] $ %54 = grad %50, %4 : edge[] $ return a = %17 return b = %23 return c = "
    "%27 return d = %42 return dx = %51 return dW = %52 return dc = %53 return dw = %54 }";

enum { N_KEYS = 20 };

typedef struct Case {
    int64_t nodes, edges;
    int64_t key;         /* all keys are this; -2: any, some outside */
    const char *without; /* passes, or NULL */
    enum { TANH, EXP, EXP_BOUND } of;
} Case;

static double filled(IrType t, uint32_t arg, uint64_t i, const void *user)
{
    const Case *c = user;
    double u = sides_number(arg + 7, i);
    if (t.dtype != IR_I64) return (double)(float)(u - 0.5);
    if (c->of == EXP_BOUND) return floor(u * N_KEYS);
    return c->key > -2 ? (double)c->key : floor(u * (N_KEYS + 4)) - 2;
}

static const char *text_of(Arena *a, const Case *c)
{
    static const char tanh_of[] = "= tanh", keys[] = "edge[] i64 ";
    if (c->of == TANH) return text;
    const char *at = strstr(text, keys) + strlen(keys), *op = strstr(at, tanh_of);
    return arena_printf(a, "%.*s%s%.*s= exp%s", (int)(at - text), text, c->of == EXP_BOUND ? "bound 20 " : "",
                        (int)(op - at), at, op + strlen(tanh_of));
}

/* Where the exp of products is: at pairs or at edges. */
static bool is_exp_at(const IrModule *m, bool pairs)
{
    const IrFunc *f = m->funcs.data[0];
    uint32_t n = 0, right = 0;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        if (op->op != IR_OP_exp || !op->type.n_dims) continue;
        bool at_pairs = false;
        for (uint32_t i = 0; i < m->graphs.n; i++)
            at_pairs |= m->graphs.data[i].kind == IR_GRAPH_KEYED && m->graphs.data[i].edge == op->type.space;
        n++, right += at_pairs == pairs;
    }
    return n && n == right;
}

/* Nothing has a number for each row and value of the key, and pairs are those of both ends. */
static bool is_by_pair(const IrModule *m)
{
    const IrFunc *f = m->funcs.data[0];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->graphs.n; i++) n += m->graphs.data[i].kind == IR_GRAPH_KEYED;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrType *t = &f->ops.data[v].type;
        if (t->space != IR_UNIT && ir_type_width(m, t) >= N_KEYS && t->n_dims < 2) return false;
    }
    return n == 2;
}

static void test_case(const char *dtype, const Case *c)
{
    Arena *a = arena_new();
    Diags d;
    PassContext ctx;
    Sides s;
    check_begin();
    const IrModule *m = sides_make(a, &d, &ctx, text_of(a, c), dtype, PASS_pairs, PASS_table, &s), *clean = m;
    if (m) clean = pass_run_one(&ctx, PASS_dce, m);
    if (clean && c->of != TANH) CHECK(is_exp_at(clean, c->of == EXP_BOUND));
    if (clean && CHECK(is_by_pair(clean)) && sides_evaluate(a, &s, c->nodes, c->edges, filled, c)) {
        sides_compare(&s, 0, 0);
        sides_run(a, &s, c->without);
    }
    check_end(arena_printf(a, "pairs: %s, %lld nodes, %lld edges, key %lld, form %d%s%s", dtype, (long long)c->nodes,
                           (long long)c->edges, (long long)c->key, (int)c->of, c->without ? ", without " : "",
                           c->without ? c->without : ""));
    arena_free(a);
}

int main(void)
{
    static const Case cases[] = {{.nodes = 1, .edges = 0, .key = -2},
                                 {.nodes = 1, .edges = 3, .key = 0},
                                 {.nodes = 60, .edges = 120, .key = -2},
                                 {.nodes = 2, .edges = 600, .key = 19},
                                 {.nodes = 20, .edges = 15, .key = -1},
                                 {.nodes = 30, .edges = 60, .key = -2, .without = "fuse"},
                                 {.nodes = 30, .edges = 60, .key = -2, .without = "schedule"},
                                 {.nodes = 20, .edges = 90, .key = -2, .of = EXP},
                                 {.nodes = 20, .edges = 90, .key = -2, .of = EXP_BOUND}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case("f32", &cases[i]);
        if (cases[i].edges < 290) test_case("f64", &cases[i]);
    }
    return check_done();
}
