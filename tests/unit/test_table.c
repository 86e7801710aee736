/* The pass `table` against what it replaces: rows of tables by the value of an integer that may lie outside, and the
   gradients by the tables, as sums with hits and as rows that are read. Both must agree within the interpreter's bounds
   (bit by bit where rows are only read), and the kernels of both with the interpreter: without rows, with rows that all read one
   place (a hub of more than 256), with places that nobody reads. */
#include "passes/lower.h"
#include "tests/unit/check.h"
#include "tests/unit/plan_run.h"
#include <math.h>

/* %3, %4: two indices; rows of T by both, of its transpose, of integers I; a sum over edges of T's rows; gradients of all. A product with matrices by edge. */
static const char text[] =
    "module m dim N = 40 dim F = 9 dim P = 40 dim H = 120 space node space edge : edges map node.all : node -> unit sorted "
    "map edge.all : edge -> unit sorted map es : edge -> node map ed : edge -> node sorted graph gr : data edge(es, ed) "
    "tensor T : param [N,F] $ stored [40,9] perm(0,1) init const(0) tensor U : param [F,P] $ stored [9,40] perm(0,1) init const(0) "
    "tensor V : param [N,F,H] $ stored [40,9,120] perm(0,1,2) init const(0) tensor I : input [N] i64 tensor i : input node[] i64 tensor j : input edge[] i64 tensor g : input node[F] $ "
    "func f(T = @T, U = @U, I = @I, i = @i, j = @j, g = @g, V = @V) { "
    "%0 = arg 0 : [N,F] $ %1 = arg 1 : [F,P] $ %2 = arg 2 : [N] i64 %3 = arg 3 : node[] i64 %4 = arg 4 : edge[] i64 %5 = arg 5 : node[F] $ "
    "%6 = iota dim N : [N] i64 %7 = iota dim P : [P] i64 %8 = eq %3, %6 : node[N] bool %9 = eq %7, %4 : edge[P] bool "
    "%10 = eq %4, %6 : edge[N] bool %11 = cast %8 : node[N] $ %12 = cast %10 : edge[N] $ %13 = const 1 : [] $ %14 = const 0 : [] $ "
    "%15 = select %9, %13, %14 : edge[P] $ %16 = const 0 : [] i64 %17 = select %8, %2, %16 : node[N] i64 "
    "%18 = contract %11, %0 : node[F] $ %19 = contract %0, %12 : edge[F] $ %20 = contract %15, %1 : edge[F] $ %21 = sum_dims %17 : node[] i64 "
    "%22 = mul %19, %20 : edge[F] $ %23 = reduce_sum %22 via ed : node[F] $ %24 = add %23, %18 : node[F] $ %25 = tanh %24 : node[F] $ "
    "%26 = mul %25, %5 : node[F] $ %27 = reduce_sum %26 via node.all : [F] $ %28 = sum_dims %27 : [] $ "
    "%29 = grad %28, %0 : [N,F] $ %30 = grad %28, %1 : [F,P] $ "
    "%31 = arg 6 : [N,F,H] $ %32 = contract %12, %31 : edge[F,H] $ %33 = gather %5 via es : edge[F] $ %34 = contract %33, %32 : edge[H] $ "
    "%35 = reduce_sum %34 via ed : node[H] $ %36 = sin %35 : node[H] $ %37 = reduce_sum %36 via node.all : [H] $ %38 = sum_dims %37 : [] $ "
    "%39 = grad %38, %5 : node[F] $ %40 = grad %38, %31 : [N,F,H] $ return h = %35 return dg = %39 return dV = %40 "
    "return a = %18 return b = %19 return c = %20 return d = %21 return e = %25 return dT = %29 return dU = %30 }";

enum { N_ARGS = 7, FIRST_READ = 3, N_READ = 4 /* results: rows as they are */, N_PLACES = 40 };

typedef struct Case {
    int64_t nodes, edges;
    int64_t place;       /* all indices are this; -2: any, some outside the table */
    const char *without; /* passes, or NULL */
} Case;

typedef struct Sides { /* with hits, and read */
    const IrModule *m[2];
    EvalWorld *w[2];
    EvalValue *args[2][N_ARGS];
    EvalValue **results[2];
} Sides;

static IrModule *parse(Arena *a, const char *dtype)
{
    StrBuf s = {.arena = a};
    for (const char *p = text; *p; p++)
        if (*p == '$') strbuf_puts(&s, dtype);
        else strbuf_add(&s, p, 1);
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", strbuf_cstr(&s), (uint32_t)s.n};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    check(m && ir_verify(m, &d), "%s", d.list.n ? d.list.data[0]->text : "no module");
    return d.n_errors ? NULL : m;
}

static double number(uint64_t seed, uint64_t i) { return eval_philox(seed, 0, 0, i, 0) * 0x1p-32; }

static EvalValue *filled(Arena *a, const IrModule *m, const EvalWorld *w, IrType t, uint32_t arg, const Case *c)
{
    EvalValue *x = eval_value_new(a, m, w, t);
    for (int64_t i = 0; i < x->rows * x->width; i++) {
        double u = number(arg + 7, (uint64_t)i);
        bool index = arg == 3 || arg == 4;
        x->v[i] = !index ? (t.dtype == IR_I64 ? floor(u * 1000) : (double)(float)(u - 0.5)) : c->place > -2 ? (double)c->place : floor(u * (N_PLACES + 4)) - 2;
    }
    return x;
}

static bool evaluate(Arena *a, Sides *s, const Case *c)
{
    int64_t *ends = ARENA_ARRAY(a, int64_t, 2 * c->edges + 1);
    for (int64_t i = 0; i < 2 * c->edges; i++) ends[i] = (int64_t)(number(3, (uint64_t)i) * (double)c->nodes);
    EvalGraph g = {c->nodes, c->nodes, c->edges, ends, ends + c->edges};
    const char *why = NULL;
    for (int k = 0; k < 2; k++) {
        const IrFunc *f = s->m[k]->funcs.data[0];
        s->w[k] = eval_world(a, s->m[k], &g, NULL, 1, &why);
        if (!check(s->w[k] != NULL, "%s", why)) return false;
        for (uint32_t i = 0; i < N_ARGS; i++) s->args[k][i] = filled(a, s->m[k], s->w[k], f->args.data[i].type, i, c);
        s->results[k] = eval_func(a, s->m[k], s->w[k], f, s->args[k], &why);
        if (!check(s->results[k] != NULL, "%s", why)) return false;
    }
    return true;
}

static void compare(const Sides *s)
{
    for (uint32_t r = 0; r < s->m[0]->funcs.data[0]->results.n; r++) {
        const EvalValue *x = s->results[0][r], *y = s->results[1][r];
        if (!CHECK(x->rows == y->rows && x->width == y->width)) return;
        for (int64_t i = 0; i < x->rows * x->width; i++)
            check(r >= FIRST_READ && r < FIRST_READ + N_READ ? x->v[i] == y->v[i] : fabs(x->v[i] - y->v[i]) <= x->err[i] + y->err[i], "result %u, element %lld: %.17g and %.17g",
                  r, (long long)i, x->v[i], y->v[i]);
    }
}

static void run_kernels(Arena *a, const Sides *s, int k, const char *without)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    if (without) pass_option_disable(&ctx, without);
    plan_run_check(a, lower_module(&ctx, s->m[k]), s->w[k], s->args[k], s->results[k], k ? "read" : "with hits");
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
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    ctx.verify = PASS_VERIFY_ROUNDTRIP;
    check_begin();
    IrModule *m = parse(a, dtype);
    Sides s = {0};
    const IrModule *read = m ? pass_run_one(&ctx, PASS_table, m) : NULL;
    if (read) s.m[0] = pass_run_one(&ctx, PASS_autodiff, m), s.m[1] = pass_run_one(&ctx, PASS_autodiff, read);
    if (s.m[1]) s.m[1] = pass_run_one(&ctx, PASS_table, s.m[1]);
    if (CHECK(s.m[0] && s.m[1]) && CHECK(count_ops(s.m[1], IR_OP_transpose) > count_ops(read, IR_OP_transpose)) &&
        CHECK(count_ops(read, IR_OP_route) == 2 && count_ops(read, IR_OP_contract) == 1 && count_ops(read, IR_OP_gather) == 6) &&
        evaluate(a, &s, c)) {
        compare(&s);
        for (int k = 0; k < 2; k++) run_kernels(a, &s, k, c->without);
    }
    check_end(arena_printf(a, "table: %s, %lld nodes, %lld edges, place %lld%s%s", dtype, (long long)c->nodes, (long long)c->edges,
                           (long long)c->place, c->without ? ", without " : "", c->without ? c->without : ""));
    arena_free(a);
}

int main(void)
{
    static const Case cases[] = {{1, 0, -2, NULL}, {1, 3, 0, NULL}, {5, 0, -2, NULL}, {60, 120, -2, NULL}, {300, 290, 39, NULL}, {600, 5, -1, NULL},
                                 {30, 60, -2, "fuse"}, {30, 60, -2, "schedule"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case("f32", &cases[i]);
        if (cases[i].edges < 290) test_case("f64", &cases[i]);
    }
    return check_done();
}
