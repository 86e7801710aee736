/* The pass `sparse` against what it replaces: random sparse matrices with empty rows and columns, a program that masks,
   scales, multiplies and sums them, run whole and by nonzeros. The interpreter's values must agree within their bounds,
   masks bit by bit, and the kernels of both with the interpreter. */
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/plan_run.h"
#include <math.h>

static const char text[] =
    "module m dim F = 70 dim H = 3 dim D = 5 dim K = 4 space node space edge : edges map node.all : node -> unit "
    "sorted "
    "map es : edge -> node map ed : edge -> node sorted graph gr : data edge(es, ed) "
    "tensor x : input node[F] %s sparse tensor w : input [F,H,D] %s tensor v : input [K,F] %s tensor g : input node[K] "
    "%s "
    "sites 2 func f(x = @x, w = @w, v = @v, g = @g, seed = seed, step = step) { "
    "%%0 = arg 0 : node[F] %s %%1 = arg 1 : [F,H,D] %s %%2 = arg 2 : [K,F] %s %%3 = arg 3 : node[K] %s "
    "%%4 = arg 4 : [] i64 %%5 = arg 5 : [] i64 "
    "%%6 = random_uniform %%4, %%5 site 0 : node[F] %s %%7 = random_normal %%4, %%5 site 1 : node[F] %s "
    "%%8 = const 0.5 : [] %s %%9 = lt %%6, %%8 : node[F] bool %%10 = const 0 : node[F] %s "
    "%%11 = select %%9, %%0, %%10 : node[F] %s " /* masked: whole numbers, so its sums are exact */
    "%%12 = sum_dims %%11 : node[] %s %%13 = reduce_sum %%11 via node.all : [F] %s "
    "%%14 = abs %%12 : node[] %s %%15 = const 1 : [] %s %%16 = max %%14, %%15 : node[] %s "
    "%%17 = div %%11, %%16 : node[F] %s %%18 = mul %%17, %%7 : node[F] %s %%19 = tanh %%18 : node[F] %s "
    "%%20 = contract %%19, %%1 : node[H,D] %s %%21 = contract %%2, %%19 : node[K] %s "
    "%%22 = contract %%3, %%19 : [K,F] %s %%23 = contract %%19, %%20 : [F,H,D] %s "
    "%%24 = gather %%19 via es : edge[F] %s %%25 = reduce_sum %%24 via ed : node[F] %s " /* rows that move */
    "%%26 = div %%25, %%16 : node[F] %s %%27 = mul %%15, %%26 : node[F] %s %%28 = sub %%27, %%19 : node[F] %s "
    "%%29 = contract %%28, %%1 : node[H,D] %s %%30 = contract %%3, %%28 : [K,F] %s %%31 = contract %%2, %%24 : edge[K] "
    "%s "
    "return i = %%29 return j = %%30 return k = %%31 "
    "return a = %%12 return b = %%13 return c = %%20 return d = %%21 return e = %%22 return h = %%23 }";
static bool is_exact(const char *result) { return !strcmp(result, "a") || !strcmp(result, "b"); }

static IrModule *parse(Arena *a, const char *t)
{
    StrBuf s = {.arena = a};
    for (const char *p = text; *p; p++)
        if (p[0] == '%' && p[1] == 's') strbuf_puts(&s, t), p++;
        else if (p[0] == '%' && p[1] == '%') strbuf_puts(&s, "%"), p++;
        else strbuf_add(&s, p, 1);
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", strbuf_cstr(&s), (uint32_t)s.n};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    check(m != NULL, "%s", d.list.n ? d.list.data[0]->text : "no module");
    return m;
}

static double number(uint64_t seed, uint64_t i) { return eval_philox(seed, 0, 0, i, 0) * 0x1p-32; }

/* One element in eight, whole numbers; row 1 and column 2 are empty. */
static EvalValue *matrix(Arena *a, const IrModule *m, const EvalWorld *w, IrType t, uint64_t seed)
{
    EvalValue *x = eval_value_new(a, m, w, t);
    for (int64_t i = 0; i < x->rows * x->width; i++)
        if (number(seed, (uint64_t)i) < 0.125 && i / x->width != 1 && i % x->width != 2)
            x->v[i] = 1 + floor(number(seed + 1, (uint64_t)i) * 7);
    return x;
}

static EvalValue *filled(Arena *a, const IrModule *m, const EvalWorld *w, IrType t, uint64_t seed)
{
    EvalValue *x = eval_value_new(a, m, w, t);
    for (int64_t i = 0; i < x->rows * x->width; i++) x->v[i] = (double)(float)(number(seed, (uint64_t)i) - 0.5);
    return x;
}

static IrId values_tensor(const IrModule *m)
{
    for (IrId i = 0; i < m->tensors.n; i++)
        if (m->tensors.data[i].nonzeros.present) return i;
    return IR_NONE;
}

typedef struct Sides { /* whole and by nonzeros */
    const IrModule *m[2];
    EvalWorld *w[2];
    EvalValue *args[2][6];
    EvalValue **results[2];
} Sides;

static bool evaluate(Arena *a, Sides *s, int64_t rows, uint64_t seed)
{
    EvalGraph g = {rows, rows, rows > 1 ? 2 * rows : 0, NULL, NULL};
    int64_t *ends = ARENA_ARRAY(a, int64_t, 2 * g.n_edges + 1);
    for (int64_t i = 0; i < 2 * g.n_edges; i++) ends[i] = (int64_t)(number(seed + 9, (uint64_t)i) * (double)(rows - 1));
    g.src = ends;
    g.dst = ends + g.n_edges;
    const char *why = NULL;
    for (int k = 0; k < 2; k++) {
        const IrModule *m = s->m[k];
        const IrFunc *f = m->funcs.data[0];
        s->w[k] = eval_world(a, m, &g, NULL, 1, &why);
        if (!check(s->w[k] != NULL, "%s", why)) return false;
        EvalValue *x = matrix(a, m, s->w[k], m->tensors.data[0].type, seed);
        s->args[k][0] = k ? eval_nonzeros(s->w[k], m, values_tensor(m), x) : x;
        for (uint32_t i = 1; i < 6; i++) s->args[k][i] = filled(a, m, s->w[k], f->args.data[i].type, seed + i + 2);
        s->args[k][4]->v[0] = (double)seed;
        s->args[k][5]->v[0] = 3;
        s->results[k] = eval_func(a, m, s->w[k], f, s->args[k], &why);
        if (!check(s->results[k] != NULL, "%s", why)) return false;
    }
    return true;
}

static void compare(const Sides *s)
{
    for (uint32_t r = 0; r < s->m[0]->funcs.data[0]->results.n; r++) {
        const EvalValue *x = s->results[0][r], *y = s->results[1][r];
        if (!CHECK(x->rows == y->rows && x->width == y->width)) return;
        for (int64_t i = 0; i < x->rows * x->width; i++) {
            double off = fabs(x->v[i] - y->v[i]);
            check(is_exact(s->m[0]->funcs.data[0]->results.data[r].name) ? off == 0 : off <= x->err[i] + y->err[i],
                  "result %u, element %lld: %.17g and %.17g", r, (long long)i, x->v[i], y->v[i]);
        }
    }
}

static void run_kernels(Arena *a, const Sides *s, const char *without)
{
    for (int k = 0; k < 2; k++) {
        Diags d = {.arena = a};
        PassContext ctx = pass_context(a, &d);
        if (without) pass_option_disable(&ctx, without);
        plan_run_check(a, lower_module(&ctx, s->m[k]), s->w[k], s->args[k], s->results[k], k ? "by nonzeros" : "whole");
    }
}

static void test_rows(const char *dtype, int64_t rows, const char *without)
{
    Arena *a = arena_new();
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    ctx.verify = PASS_VERIFY_ROUNDTRIP;
    check_begin();
    Sides s = {.m = {parse(a, dtype)}};
    if (s.m[0]) s.m[1] = pass_run_one(&ctx, PASS_sparse, s.m[0]);
    bool taken = s.m[1] && s.m[1]->funcs.data[0]->args.data[0].ref == values_tensor(s.m[1]);
    if (CHECK(taken) && evaluate(a, &s, rows, (uint64_t)rows + 11)) {
        compare(&s);
        run_kernels(a, &s, without);
    }
    check_end(arena_printf(a, "sparse: %s, %d rows%s%s", dtype, (int)rows, without ? ", without " : "",
                           without ? without : ""));
    arena_free(a);
}

int main(void)
{
    static const int64_t rows[] = {0, 1, 2, 33};
    for (int i = 0; i < 4; i++) {
        test_rows("f32", rows[i], NULL);
        test_rows("f64", rows[i], NULL);
    }
    test_rows("f32", 33, "fuse");
    test_rows("f32", 33, "schedule");
    return check_done();
}
