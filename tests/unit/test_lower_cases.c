/* The kernel stage on small programs whose outcome is known: which groups form, which steps a BLAS may take over, what
   is updated in place, the peak; the association of every sum to the bit; and that no pass of the stage changes
   a number. */
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/plan_run.h"
#include "tests/unit/plan_text.h"
#include <assert.h>

static const char *const head =
    "module m\ndim F = 37\ndim G = 37\ndim K = 16\ndim J = 16\ndim L = 3\ndim H = 2\ndim d = 53\nspace node\nspace "
    "edge : edges\n"
    "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\nmap node.all : node -> unit\nmap edge.all : edge "
    "-> unit\n"
    "graph g : data edge(edge.src, edge.dst)\n"
    "tensor x : input node[F] f32\ntensor s : input edge[K] f32\ntensor w : state [F,K] f32 init const(0)\ntensor z : "
    "state [F,d] f32 init const(0)\n"
    "tensor p : state [F] f32 init const(0)\ntensor q : state [F] f32 init const(0)\ntensor v : input node[L,H] "
    "f32\ntensor u : state [L,H,K] f32 init const(0)\n";

static HostPlan *plan_text(Arena *a, const char *body, const char *without, const IrModule **module)
{
    return plan_of_text(a, arena_printf(a, "%s%s", head, body), without, module);
}

/* ---- running -------------------------------------------------------------------------------------------- */

static EvalWorld *hub_world(Arena *a, const IrModule *m, int64_t n, int64_t e)
{
    int64_t *src = ARENA_ARRAY(a, int64_t, e + 1), *dst = ARENA_ARRAY(a, int64_t, e + 1);
    const char *why = "";
    for (int64_t i = 0; i < e; i++) src[i] = i % n, dst[i] = i % 5 ? 2 : i % n;
    EvalGraph g = {n, n, e, src, dst};
    EvalWorld *w = eval_world(a, m, &g, NULL, 0, &why);
    check(w != NULL, "%s", why);
    return w;
}

static PlanRun run_ahead(Arena *a, const HostPlan *plan, const IrModule *m, const EvalWorld *w, uint32_t func,
                         EvalValue **args, int64_t ahead)
{
    GirRng r = {91};
    const IrFunc *f = m->funcs.data[func];
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        gir_fill(args[i], &r);
    }
    PlanRun run = {.arena = a, .plan = plan, .prog = plan->programs.data[func], .w = w, .args = args, .ahead = ahead};
    const char *why = plan_run(&run);
    check(!why, "%s", why);
    return run;
}

static PlanRun run_func(Arena *a, const HostPlan *plan, const IrModule *m, const EvalWorld *w, uint32_t func,
                        EvalValue **args)
{
    return run_ahead(a, plan, m, w, func, args, 3);
}

static float result_at(const PlanRun *r, uint32_t index, int64_t i)
{
    uint32_t b = plan_run_result(r, index);
    return check(b != UINT32_MAX, "result %u is never written", index) ? ((const float *)r->data[b])[i] : 0;
}

/* ---- shapes of plans -------------------------------------------------------------------------------------- */

static unsigned times_in(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) n++;
    return n;
}

static void test_products(void)
{
    Arena *a = arena_new();
    StrBuf text = {.arena = a};
    const IrModule *m;
    check_begin();
    HostPlan *plan = plan_text(a,
                               "func forward(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n"
                               "  %2 = contract %0, %1 : node[K] f32\n  %3 = contract %2, %1 : node[F] f32\n"
                               "  %4 = contract %0, %2 : [F,K] f32\n  return y = %3\n  return dw = %4\n}\n",
                               NULL, &m);
    unsigned nn = 0, tn = 0;
    for (uint32_t i = 0; plan && i < plan->programs.data[0]->steps.n; i++) {
        const PlanGemm *g = &plan->programs.data[0]->steps.data[i].gemm;
        if (plan->programs.data[0]->steps.data[i].kind != PLAN_STEP_PRODUCT) continue;
        nn += !g->transposed_a && ((g->k == 37 && g->n == 16) || (g->k == 16 && g->n == 37));
        tn += g->transposed_a && g->m == 37 && g->n == 16;
    }
    check(nn == 2 && tn == 1, "%u and %u plain products, wanted 2 and 1", nn, tn);
    check_end("lower: plain products, the transposed one through a copy of the weight");

    check_begin();
    if (plan) plan_print(plan, &text);
    nn = times_in(strbuf_cstr(&text), "    product NN: "), tn = times_in(strbuf_cstr(&text), "    product TN: ");
    check(nn == 2 && tn == 1, "%u and %u products, wanted 2 and 1, in:\n%s", nn, tn, strbuf_cstr(&text));
    check(strstr(strbuf_cstr(&text), "(b5, b6, blocks(node, 512, 32)) over 37, ") != NULL,
          "the last step has other arguments in:\n%s", strbuf_cstr(&text));
    check_end("lower: a plan's text names the steps that are plain products, and no others");

    check_begin();
    plan = plan_text(a,
                     "func forward(v = @v, u = @u) {\n  %0 = arg 0 : node[L,H] f32\n  %1 = arg 1 : [L,H,K] f32\n"
                     "  %2 = contract %0, %1 : node[K] f32\n  %3 = max_dims %2 : node[] f32\n  return y = %3\n}\n",
                     NULL, &m);
    if (plan)
        CHECK(plan->programs.data[0]->steps.data[0].kind == PLAN_STEP_PRODUCT &&
              plan->programs.data[0]->steps.data[0].gemm.k == 6);
    check_end("lower: a product over two dims is one over their product");
    arena_free(a);
}

/* How many sources there will be is not known: a search is priced as one of many. */
static void test_nearest(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    check_begin();
    HostPlan *plan = plan_text(
        a,
        "space near : edges\nmap near.src : near -> node computed\nmap near.dst : near -> node sorted\n"
        "graph near : nearest(4, 1, remove) near(near.src, near.dst)\n"
        "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = nearest %0, %0 via near.src : near[] i64\n  return "
        "y = %1\n}\n",
        NULL, &m);
    const PlanStep *s = plan ? &plan->programs.data[0]->steps.data[0] : NULL;
    if (s)
        CHECK(s->cost.n == 1 && s->cost.data[0].bytes == 37 * 4 * 2 + 4 * 8 && s->cost.data[0].flops > 1000 * 3 * 37);
    check_end("lower: a search among nodes is priced by how wide they are");
    arena_free(a);
}

static bool same_numbers(const PlanRun *x, const PlanRun *y, uint32_t n_results);

/* Products, their sum under another name for its dim, and what is computed from it. */
static void test_epilogue(void)
{
    static const char text[] =
        "func forward(x = @x, w = @w, v = @v, u = @u) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n"
        "  %2 = arg 2 : node[L,H] f32\n  %3 = arg 3 : [L,H,K] f32\n  %4 = contract %0, %1 : node[K] f32\n"
        "  %5 = contract %2, %3 : node[K] f32\n  %6 = add %4, %5 : node[K] f32\n  %7 = reshape %6 : node[J] f32\n"
        "  %8 = tanh %7 : node[J] f32\n  return y = %8\n}\n";
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[4];
    check_begin();
    HostPlan *one = plan_text(a, text, NULL, &m), *many = plan_text(a, text, "fuse", &m);
    if (one && many) {
        check(one->programs.data[0]->steps.n == 1, "%u steps", one->programs.data[0]->steps.n);
        check(many->programs.data[0]->steps.n > 3, "%u steps", many->programs.data[0]->steps.n);
        EvalWorld *w = hub_world(a, m, 203, 50);
        PlanRun x = run_func(a, one, m, w, 0, args), y = run_func(a, many, m, w, 0, args);
        same_numbers(&x, &y, 1);
    }
    check_end("lower: products, their sum and what follows are one kernel with the same numbers");
    arena_free(a);
}

/* Much that follows from the sums of a tile is written for one row, in a loop over private arrays. */
static void test_long_epilogue(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[4];
    StrBuf text = {.arena = a};
    check_begin();
    strbuf_puts(&text,
                "func forward(x = @x, w = @w, v = @v, u = @u) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n"
                "  %2 = arg 2 : node[L,H] f32\n  %3 = arg 3 : [L,H,K] f32\n  %4 = contract %0, %1 : node[K] f32\n"
                "  %5 = contract %2, %3 : node[K] f32\n  %6 = add %4, %5 : node[K] f32\n");
    for (int i = 7; i < 15; i++)
        strbuf_printf(&text, "  %%%d = %s %%%d : node[K] f32\n", i, i % 2 ? "tanh" : "sigmoid", i - 1);
    strbuf_puts(&text, "  %15 = mul %14, %4 : node[K] f32\n  return y = %15\n  return z = %5\n}\n");
    HostPlan *one = plan_text(a, strbuf_cstr(&text), NULL, &m), *many = plan_text(a, strbuf_cstr(&text), "fuse", &m);
    if (one && many) {
        StrBuf kernels = {.arena = a};
        for (uint32_t k = 0; k < one->kernels.n; k++) kir_print(plan_kernel(one, k, true), &kernels);
        CHECK(one->programs.data[0]->steps.n == 1 && strstr(strbuf_cstr(&kernels), "# rows of the tile"));
        EvalWorld *w = hub_world(a, m, 203, 50);
        PlanRun x = run_func(a, one, m, w, 0, args), y = run_func(a, many, m, w, 0, args);
        same_numbers(&x, &y, 2);
    }
    check_end("lower: what follows from products is written once where it is much, with the same numbers");
    arena_free(a);
}

/* Every product has a kernel for CPUs with fewer registers: other tiles, the same arguments and bits. */
static void test_narrow(void)
{
    static const char text[] =
        "func forward(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n"
        "  %2 = contract %0, %1 : node[K] f32\n  %3 = tanh %2 : node[K] f32\n  %4 = contract %3, %1 : node[F] f32\n"
        "  %5 = contract %0, %3 : [F,K] f32\n  %6 = contract %3, %4 : [K,F] f32\n"
        "  return y = %4\n  return a = %5\n  return b = %6\n}\n";
    static const int64_t rows[] = {1, 95, 203, 1500};
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[2];
    check_begin();
    HostPlan *plan = plan_text(a, text, NULL, &m);
    unsigned narrow = 0;
    for (uint32_t i = 0; plan && i < plan->kernels.n; i++)
        narrow += plan_kernel(plan, i, false) != plan_kernel(plan, i, true);
    check(narrow == 3, "%u kernels, wanted 3", narrow);
    for (unsigned i = 0; plan && i < 4; i++) {
        EvalWorld *w = hub_world(a, m, rows[i], 1);
        PlanRun x = run_func(a, plan, m, w, 0, args), y = x;
        y.narrow = true;
        const char *why = plan_run(&y);
        check(!why, "%s", why);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t b = plan_run_result(&x, k);
            check(!memcmp(x.data[b], y.data[b], (size_t)x.elems[b] * sizeof(float)), "result %u of %ld rows", k,
                  (long)rows[i]);
        }
    }
    check_end("lower: products for fewer registers have the same bits");
    arena_free(a);
}

/* Products side by side. The sums of two that are wanted together wait in arrays, of those that are not none does; what
   is there is stored before the next product, but a tensor is updated when all that reads its old value is there. */
static void test_beside(const char *name, const char *body, unsigned arrays)
{
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[4];
    StrBuf kernels = {.arena = a};
    const char *text = arena_printf(
        a,
        "tensor r : input node[F] f32\ntensor t : state node[K] f32 init const(0)\n"
        "func forward(x = @x, w = @w, r = @r, t = @t) {\n  %%0 = arg 0 : node[F] f32\n  %%1 = arg 1 : [F,K] f32\n"
        "  %%2 = arg 2 : node[F] f32\n  %%3 = arg 3 : node[K] f32\n  %%4 = contract %%0, %%1 : node[K] f32\n"
        "  %%5 = contract %%2, %%1 : node[K] f32\n%s}\n",
        body);
    check_begin();
    HostPlan *one = plan_text(a, text, NULL, &m), *many = plan_text(a, text, "fuse", &m);
    for (uint32_t k = 0; one && k < one->kernels.n; k++) kir_print(plan_kernel(one, k, false), &kernels);
    if (one && many) {
        unsigned n = times_in(strbuf_cstr(&kernels), "alloc f32 96");
        check(n == arrays, "%u arrays of six rows, wanted %u, in:\n%s", n, arrays, strbuf_cstr(&kernels));
        EvalWorld *w = hub_world(a, m, 203, 50);
        PlanRun x = run_func(a, one, m, w, 0, args), y = run_func(a, many, m, w, 0, args), z = x;
        z.narrow = true;
        const char *why = plan_run(&z);
        check(!why, "%s", why);
        if (same_numbers(&x, &y, 3)) same_numbers(&x, &z, 3);
    }
    check_end(name);
    arena_free(a);
}

/* A product plus a number per row, which a sum over dims gives: two kernels, whose rows are walked in other orders. */
static void test_epilogue_of_rows(void)
{
    static const char text[] =
        "func forward(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n"
        "  %2 = tanh %0 : node[F] f32\n  %3 = sum_dims %2 : node[] f32\n  %4 = contract %0, %1 : node[K] f32\n"
        "  %5 = const 0.5 : [] f32\n  %6 = mul %3, %5 : node[] f32\n  %7 = add %4, %6 : node[K] f32\n  return y = "
        "%7\n}\n";
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[2];
    check_begin();
    HostPlan *one = plan_text(a, text, NULL, &m), *many = plan_text(a, text, "fuse", &m);
    if (one && many) {
        check(one->programs.data[0]->steps.n < many->programs.data[0]->steps.n, "%u steps",
              one->programs.data[0]->steps.n);
        EvalWorld *w = hub_world(a, m, 203, 50);
        PlanRun x = run_func(a, one, m, w, 0, args), y = run_func(a, many, m, w, 0, args);
        same_numbers(&x, &y, 1);
    }
    check_end("lower: a product and a number per row that is added to it");
    arena_free(a);
}

/* A weight's gradient over several dims, on either side: one product of flattened dims, the interpreter's numbers. */
static void test_flat_gradients(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    const char *why = "";
    EvalValue *args[2];
    check_begin();
    HostPlan *plan = plan_text(
        a,
        "func forward(x = @x, v = @v) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : node[L,H] f32\n"
        "  %2 = contract %0, %1 : [F,L,H] f32\n  %3 = contract %1, %0 : [L,H,F] f32\n"
        "  %4 = neg %2 : [F,L,H] f32\n  %5 = neg %3 : [L,H,F] f32\n  return y = %4\n  return z = %5\n}\n",
        NULL, &m);
    if (plan) {
        EvalWorld *w = hub_world(a, m, 700, 50);
        PlanRun run = run_func(a, plan, m, w, 0, args);
        EvalValue **want = eval_func(a, m, w, m->funcs.data[0], args, &why);
        check(want != NULL, "%s", why);
        for (uint32_t r = 0; r < 2 && want; r++)
            for (int64_t i = 0; i < want[r]->width; i++)
                check(plan_accepts(want[r], i, (double)result_at(&run, r, i)), "result %u element %ld: %g, wanted %g",
                      r, (long)i, (double)result_at(&run, r, i), want[r]->v[i]);
    }
    check_end("lower: a gradient over several dims has the interpreter's numbers");
    arena_free(a);
}

/* Rows that are gathered in no order are asked for ahead, whatever the distance: also beyond the last
   element, and of maps without an image. No index is read outside of its array (the reference run would refuse). */
static void test_ahead(void)
{
    static const int64_t distance[] = {0, 1, 5, 1000};
    static const struct {
        const char *body;
        int n_asked; /* lines per element in the whole program */
    } cases[] = {
        {"  %1 = gather %0 via edge.src : edge[F] f32\n  %2 = reduce_sum %1 via edge.dst : node[F] f32\n  return y = "
         "%2\n",
         3},
        {"  %1 = gather %0 via edge.dst : edge[F] f32\n  %2 = reduce_sum %1 via edge.src : node[F] f32\n  return y = "
         "%2\n",
         3},
        {"  %1 = gather %0 via edge.dst : edge[F] f32\n  %2 = reduce_sum %1 via edge.dst : node[F] f32\n  return y = "
         "%2\n",
         0},
        {"  %1 = slice %0 dim F at 1 : node[L] f32\n  %2 = exp %1 : node[L] f32\n  %3 = gather %2 via edge.src : "
         "edge[L] f32\n"
         "  %4 = reduce_sum %3 via edge.dst : node[L] f32\n  return y = %2\n  return z = %4\n",
         0}, /* short rows */
        {"  %1 = gather %0 via edge.src : edge[F] f32\n  %2 = sum_dims %1 : edge[] f32\n  return y = %2\n", 3},
        {"  %1 = arg 1 : edge[K] f32\n  %2 = reduce_sum %1 via edge.src : node[K] f32\n  return y = %2\n", 1},
        {"  %1 = arg 1 : edge[K] f32\n  %2 = slice %1 dim K at 1 : edge[H] f32\n  %3 = exp %2 : edge[H] f32\n"
         "  %4 = reduce_sum %3 via edge.src : node[H] f32\n  return y = %4\n",
         1}, /* some of a row in the list's order */
        {"  %1 = gather %0 via edge.src : edge[F] f32\n  %2 = tanh %1 : edge[F] f32\n  %3 = reduce_sum %2 via edge.all "
         ": [F] f32\n"
         "  return y = %3\n",
         3},
        {"  %1 = arg 1 : edge[K] f32\n  %2 = reduce_sum %1 via edge.dst : node[K] f32\n  return y = %2\n", 0},
        {"  %1 = reshape %0 : node[G] f32\n  %2 = contract %0, %1 : [F,G] f32\n  return y = %2\n",
         4}, /* both operands, tiles of 6 and of 1 */
        {"  %1 = exp %0 : node[F] f32\n  %2 = reshape %1 : node[G] f32\n  %3 = contract %0, %2 : [F,G] f32\n  return y "
         "= %3\n",
         2},
    };
    Arena *a = arena_new();
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        const IrModule *m;
        EvalValue *args[2];
        check_begin();
        HostPlan *plan = plan_text(
            a, arena_printf(a, "func forward(x = @x, s = @s) {\n  %%0 = arg 0 : node[F] f32\n%s}\n", cases[c].body),
            NULL, &m);
        StrBuf text = {.arena = a};
        for (uint32_t k = 0; plan && k < plan->kernels.n; k++) kir_print(plan_kernel(plan, k, true), &text);
        int asked = 0;
        asked += (int)times_in(strbuf_cstr(&text), "  prefetch ");
        check(asked == cases[c].n_asked, "case %u: %d lines asked for, wanted %d", c, asked, cases[c].n_asked);
        EvalWorld *w = plan ? hub_world(a, m, 7, 600) : NULL;
        const float *first = NULL;
        for (unsigned i = 0; plan && i < 4; i++) {
            PlanRun r = run_ahead(a, plan, m, w, 0, args, distance[i]);
            uint32_t b = plan_run_result(&r, 0);
            if (!check(b != UINT32_MAX, "no result")) break;
            if (!first) first = r.data[b];
            check(!memcmp(first, r.data[b], (size_t)r.elems[b] * sizeof *first), "case %u at %ld", c,
                  (long)distance[i]);
        }
        check_end(arena_printf(a, "lower: rows asked for ahead, case %u", c));
    }
    arena_free(a);
}

/* Values of a sum over all rows, sixteen rows at once: whatever is left over, the same bits. */
static void test_rows_at_once(void)
{
    static const int64_t rows[] = {1, 2, 15, 16, 17, 33, 600, 1201};
    static const char *const body =
        "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = max_dims %0 : node[] f32\n  %2 = sub %0, %1 : "
        "node[F] f32\n"
        "  %3 = exp %2 : node[F] f32\n  %4 = sum_dims %3 : node[] f32\n  %5 = div %3, %4 : node[F] f32\n  %6 = log %4 "
        ": node[] f32\n"
        "  %7 = const 0 : [] f32\n  %8 = lt %1, %7 : node[] bool\n  %9 = select %8, %6, %7 : node[] f32\n  %10 = add "
        "%9, %1 : node[] f32\n"
        "  %11 = reduce_sum %10 via node.all : [] f32\n  %12 = gather %5 via edge.src : edge[F] f32\n"
        "  %13 = reduce_sum %12 via edge.dst : node[F] f32\n  return y = %5\n  return z = %11\n  return b = %13\n}\n";
    Arena *a = arena_new();
    const IrModule *m, *alone_m;
    check_begin();
    HostPlan *plan = plan_text(a, body, NULL, &m), *alone = plan_text(a, body, "schedule", &alone_m);
    StrBuf text = {.arena = a};
    for (uint32_t k = 0; plan && k < plan->kernels.n; k++) kir_print(plan_kernel(plan, k, true), &text);
    const char *code = strbuf_cstr(&text);
    check(strstr(code, "sixteen rows") != NULL, "one row after another:\n%s", code);
    for (unsigned i = 0; plan && alone && i < sizeof rows / sizeof *rows; i++) {
        EvalValue *args[1], *other[1];
        PlanRun x = run_func(a, plan, m, hub_world(a, m, rows[i], 0), 0, args);
        PlanRun y = run_func(a, alone, alone_m, hub_world(a, alone_m, rows[i], 0), 0, other);
        check(same_numbers(&x, &y, 3), "%ld rows", (long)rows[i]);
    }
    check_end("lower: several rows at once have the bits of one after another");
    arena_free(a);
}

/* So are values that are made of no other: numbers of rows, drawn numbers, constants. */
static void test_rows_of_nothing(void)
{
    static const char *const made[] = {"const 0.25 : node[] f32",
                                       "cast %2 : node[] f32",
                                       "cast %3 : node[] f32",
                                       "random_uniform %0, %1 site 0 : node[] f32",
                                       "random_normal %0, %1 site 1 : node[] f32",
                                       "random_uniform_at %0, %1, %2, %3 site 2 : node[] f32"};
    for (unsigned i = 0; i < sizeof made / sizeof *made; i++) {
        Arena *a = arena_new();
        const IrModule *m[2];
        HostPlan *plan[2];
        StrBuf text = {.arena = a};
        const char *body = arena_printf(
            a,
            "sites 3\nfunc forward(seed = seed, step = step) {\n  %%0 = arg 0 : [] i64\n  %%1 = arg 1 : [] i64\n  %%2 "
            "= element : node[] i64\n"
            "  %%3 = row : node[] i64\n  %%4 = %s\n  %%5 = exp %%4 : node[] f32\n  return y = %%5\n}\n",
            made[i]);
        check_begin();
        for (int k = 0; k < 2; k++) plan[k] = plan_text(a, body, k ? "schedule" : NULL, &m[k]);
        for (uint32_t k = 0; plan[0] && k < plan[0]->kernels.n; k++) kir_print(plan_kernel(plan[0], k, true), &text);
        check(strstr(strbuf_cstr(&text), "sixteen rows") != NULL, "one row after another:\n%s", strbuf_cstr(&text));
        if (plan[0] && plan[1]) {
            EvalValue *args[2][2];
            PlanRun x = run_func(a, plan[0], m[0], hub_world(a, m[0], 37, 0), 0, args[0]),
                    y = run_func(a, plan[1], m[1], hub_world(a, m[1], 37, 0), 0, args[1]);
            check(same_numbers(&x, &y, 1), "other numbers");
        }
        check_end(arena_printf(a, "lower: several rows at once of %s", made[i]));
        arena_free(a);
    }
}

static void test_softmax(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    check_begin();
    HostPlan *plan = plan_text(a,
                               "func forward(s = @s) {\n  %0 = arg 0 : edge[K] f32\n"
                               "  %1 = reduce_max %0 via edge.dst empty 0 : node[K] f32\n"
                               "  %2 = gather %1 via edge.dst : edge[K] f32\n  %3 = sub %0, %2 : edge[K] f32\n"
                               "  %4 = exp %3 : edge[K] f32\n  %5 = reduce_sum %4 via edge.dst : node[K] f32\n"
                               "  %6 = log %5 : node[K] f32\n  %7 = add %6, %1 : node[K] f32\n  return y = %7\n}\n",
                               NULL, &m);
    if (plan) {
        CHECK(plan->programs.data[0]->steps.n == 1 && plan->kernels.n == 1);
        CHECK(plan->programs.data[0]->slots.n == 0);
        CHECK(plan->programs.data[0]->steps.data[0].cut == 1);
        CHECK(!strcmp(plan_peak_text(plan, plan->programs.data[0], a), "0 bytes"));
    }
    check_end("lower: a softmax's sums and what follows are one kernel without memory");
    arena_free(a);
}

static void test_row_values(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    check_begin();
    HostPlan *plan = plan_text(a,
                               "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = sum_dims %0 : node[] f32\n"
                               "  %2 = div %0, %1 : node[F] f32\n  return y = %2\n}\n"
                               "func again(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = sum_dims %0 : node[] f32\n"
                               "  %2 = div %0, %1 : node[F] f32\n  return y = %2\n}\n",
                               NULL, &m);
    if (plan) CHECK(plan->programs.data[0]->steps.n == 1 && plan->kernels.n == 1 && plan->programs.n == 2);
    check_end("lower: rows are normalised in one kernel, which two functions share");
    arena_free(a);
}

/* A sum by target and a sum by source, each multiplied by a matrix; both sums at once would not find room: the kernel
   of the second sum runs behind the first product, which frees the first sum. */
static void test_late(void)
{
    static const char text[] =
        "func forward(s = @s, r = @r, t = @t) {\n  %0 = arg 0 : edge[K] f32\n  %1 = arg 1 : [K,L] f32\n"
        "  %2 = arg 2 : [K,L] f32\n  %3 = reduce_sum %0 via edge.dst : node[K] f32\n  %4 = reduce_sum %0 via edge.src "
        ": node[K] f32\n"
        "  %5 = contract %3, %1 : node[L] f32\n  %6 = contract %4, %2 : node[L] f32\n"
        "  return y = %5\n  return z = %6\n}\n";
    Arena *a = arena_new();
    const IrModule *m;
    check_begin();
    HostPlan *plan = plan_text(
        a,
        arena_printf(a, "tensor r : state [K,L] f32 init const(0)\ntensor t : state [K,L] f32 init const(0)\n%s", text),
        "connect", &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, "64*node bytes"), "peak is %s", peak);
    }
    check_end("lower: a value is computed no earlier than what wants it, where that takes less memory");
    arena_free(a);
}

/* The same, and what wants both sums comes first: all that one of them is wanted for runs before the other is there. */
static void test_lean(void)
{
    static const char text[] =
        "func forward(s = @s, r = @r, t = @t, x = @x) {\n  %0 = arg 0 : edge[K] f32\n  %1 = arg 1 : [K,L] f32\n"
        "  %2 = arg 2 : [K,L] f32\n  %3 = arg 3 : node[F] f32\n  %4 = reduce_sum %0 via edge.dst : node[K] f32\n"
        "  %5 = reduce_sum %0 via edge.src : node[K] f32\n  %6 = contract %3, %4 : [F,K] f32\n"
        "  %7 = contract %3, %5 : [F,K] f32\n  %8 = add %6, %7 : [F,K] f32\n  %9 = contract %4, %1 : node[L] f32\n"
        "  %10 = contract %5, %2 : node[L] f32\n  return w = %8\n  return y = %9\n  return z = %10\n}\n";
    Arena *a = arena_new();
    const IrModule *m;
    check_begin();
    HostPlan *plan = plan_text(
        a,
        arena_printf(a, "tensor r : state [K,L] f32 init const(0)\ntensor t : state [K,L] f32 init const(0)\n%s", text),
        "connect", &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strncmp(peak, "64*node + ", 10), "peak is %s", peak); /* and sums of blocks */
    }
    check_end("lower: what one value is wanted for runs before another one is there, where that takes less memory");
    arena_free(a);
}

static void test_peak(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    const char *body = "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n"
                       "  %1 = exp %0 : node[F] f32\n  %2 = gather %1 via edge.src : edge[F] f32\n"
                       "  %3 = reduce_sum %2 via edge.dst : node[F] f32\n  %4 = tanh %3 : node[F] f32\n"
                       "  %5 = gather %4 via edge.src : edge[F] f32\n  %6 = reduce_sum %5 via edge.dst : node[F] f32\n"
                       "  %7 = sin %6 : node[F] f32\n  %8 = gather %7 via edge.src : edge[F] f32\n"
                       "  %9 = reduce_max %8 via edge.dst empty 0 : node[F] f32\n  return y = %9\n}\n";
    check_begin();
    HostPlan *plan = plan_text(a, body, NULL, &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, "296*node bytes"), "peak is %s", peak);
    }
    plan = plan_text(a, body, "memplan", &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, "444*node bytes"), "without memplan the peak is %s", peak);
    }
    check_end("memplan: room for two of three values of a chain");
    arena_free(a);
}

/* The first n results have the same bits without a pass. */
static void same_without(Arena *a, const char *body, const char *pass, uint32_t n)
{
    const char *const none[] = {NULL, pass};
    const IrModule *m;
    PlanRun runs[2];
    for (int i = 0; i < 2; i++) {
        HostPlan *plan = plan_text(a, body, none[i], &m);
        if (!plan) return;
        EvalWorld *w = hub_world(a, m, 70, 900);
        runs[i] = run_func(a, plan, m, w, 0, ARENA_ARRAY(a, EvalValue *, 2));
    }
    check(same_numbers(&runs[0], &runs[1], n), "%s changes a number", pass);
}

/* Two reductions over a map share a walk, unless one needs what is computed between them: here a
   product of the row. */
static void test_between_sums(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    const char *body = "func forward(s = @s, x = @x) {\n  %0 = arg 0 : edge[K] f32\n  %1 = arg 1 : node[F] f32\n"
                       "  %2 = const 2 : edge[] f32\n  %3 = reduce_sum %2 via edge.dst : node[] f32\n"
                       "  %4 = contract %1, %1 : node[] f32\n  %5 = gather %4 via edge.dst : edge[] f32\n"
                       "  %6 = mul %2, %5 : edge[] f32\n  %7 = reduce_max %6 via edge.dst empty 0 : node[] f32\n"
                       "  %8 = add %3, %7 : node[] f32\n  %9 = mul %1, %8 : node[F] f32\n  return y = %9\n}\n";
    check_begin();
    HostPlan *plan = plan_text(a, body, NULL, &m);
    if (plan) {
        CHECK(plan->programs.data[0]->steps.n <= 2);
        same_without(a, body, "fuse", 1);
    }
    check_end("lower: a reduction waits for a product of the row that it reads");
    arena_free(a);
}

/* A result is written over what its kernel alone still reads, at the row that it computes; %s: what else it sums. */
static void test_takeover_by_result(void)
{
    const char *const form =
        "func forward(x = @x) {\n  %%0 = arg 0 : node[F] f32\n"
        "  %%1 = gather %%0 via edge.src : edge[F] f32\n  %%2 = reduce_sum %%1 via edge.dst : node[F] f32\n"
        "  %%3 = gather %%2 via edge.src : edge[F] f32\n  %%4 = reduce_max %%3 via edge.dst empty 0 : node[F] f32\n"
        "  %%5 = gather %%4 via edge.src : edge[F] f32\n  %%6 = gather %%2 via edge.src : edge[F] f32\n"
        "  %%7 = sub %%5, %s : edge[F] f32\n  %%8 = reduce_sum %%7 via edge.dst : node[F] f32\n"
        "  %%9 = mul %%8, %%2 : node[F] f32\n  return y = %%9\n}\n";
    const char *const wants[][2] = {{"%5", "148*node bytes"}, {"%6", "296*node bytes"}};
    Arena *a = arena_new();
    const IrModule *m;
    check_begin();
    for (int i = 0; i < 2; i++) {
        const char *body = arena_printf(a, form, wants[i][0]);
        HostPlan *plan = plan_text(a, body, NULL, &m);
        if (!plan) break;
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, wants[i][1]), "%%9 is made of a sum of %s: peak is %s", wants[i][0], peak);
        same_without(a, body, "memplan", 1);
    }
    check_end("memplan: a result is written over a value that its kernel reads at its own row alone");
    arena_free(a);
}

/* The last reader of a value writes over it where it reads it element by element alone. */
static void test_takeover(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    const char *body = "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n"
                       "  %1 = gather %0 via edge.src : edge[F] f32\n  %2 = reduce_sum %1 via edge.dst : node[F] f32\n"
                       "  %3 = gather %2 via edge.src : edge[F] f32\n  %4 = reduce_sum %3 via edge.dst : node[F] f32\n"
                       "  %5 = add %4, %2 : node[F] f32\n  %6 = gather %5 via edge.src : edge[F] f32\n"
                       "  %7 = mul %6, %6 : edge[F] f32\n  %8 = reduce_sum %7 via edge.src : node[F] f32\n"
                       "  %9 = mul %8, %5 : node[F] f32\n  %10 = gather %9 via edge.src : edge[F] f32\n"
                       "  %11 = reduce_max %10 via edge.dst empty 0 : node[F] f32\n"
                       "  %12 = sum_dims %11 : node[] f32\n  return y = %12\n}\n";
    check_begin();
    HostPlan *plan = plan_text(a, body, NULL, &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, "296*node bytes"), "%%5 is gathered where %%9 is made, %%2 where %%5 is: peak is %s", peak);
    }
    body = "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n"
           "  %1 = gather %0 via edge.src : edge[F] f32\n  %2 = reduce_sum %1 via edge.dst : node[F] f32\n"
           "  %3 = gather %2 via edge.src : edge[F] f32\n  %4 = reduce_max %3 via edge.dst empty 0 : node[F] f32\n"
           "  %5 = gather %4 via edge.src : edge[F] f32\n  %6 = reduce_max %5 via edge.dst empty 0 : node[F] f32\n"
           "  %7 = mul %6, %2 : node[F] f32\n  %8 = gather %7 via edge.src : edge[F] f32\n"
           "  %9 = reduce_max %8 via edge.dst empty 0 : node[F] f32\n"
           "  %10 = sum_dims %9 : node[] f32\n  return y = %10\n}\n";
    plan = plan_text(a, body, NULL, &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, "296*node bytes"), "%%7 lies where %%2 did: peak is %s", peak);
    }
    plan = plan_text(a, body, "memplan", &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(!strcmp(peak, "444*node bytes"), "without memplan the peak is %s", peak);
    }
    check_end("memplan: a value is written over one that dies");
    check_begin();
    body = "func forward(s = @s, x = @x) {\n  %0 = arg 0 : edge[K] f32\n  %1 = arg 1 : node[F] f32\n"
           "  %2 = sum_dims %1 : node[] f32\n  %3 = gather %2 via edge.src : edge[] f32\n"
           "  %4 = exp %3 : edge[] f32\n  %5 = mul %0, %4 : edge[K] f32\n  %6 = exp %5 : edge[K] f32\n"
           "  %7 = contract %6, %6 : edge[] f32\n  %8 = reduce_max %7 via edge.src empty 0 : node[] f32\n"
           "  %9 = gather %8 via edge.src : edge[] f32\n  %10 = sub %7, %9 : edge[] f32\n  %11 = exp %10 : edge[] f32\n"
           "  %12 = reduce_sum %11 via edge.dst : node[] f32\n  %13 = reduce_sum %11 via edge.src : node[] f32\n"
           "  return a = %12\n  return b = %13\n}\n";
    plan = plan_text(a, body, NULL, &m);
    if (plan) {
        const char *peak = plan_peak_text(plan, plan->programs.data[0], a);
        check(strstr(peak, "4*edge") && !strstr(peak, "8*edge"), "%%11 lies where %%7 did: peak is %s", peak);
    }
    if (plan) same_without(a, body, "memplan", 2);
    check_end("memplan: a value at elements is written over one that dies");
    check_begin();
    body = "func forward(s = @s, u = @u) {\n  %0 = arg 0 : edge[K] f32\n  %1 = arg 1 : [L,H,K] f32\n"
           "  %2 = mul %0, %1 : edge[L,H,K] f32\n  %3 = sum_dims %2 : edge[K] f32\n  %4 = const 0 : [] f32\n"
           "  %5 = lt %3, %4 : edge[K] bool\n  %6 = const 1 : [] f32\n  %7 = select %5, %6, %3 : edge[K] f32\n"
           "  %8 = cos %7 : edge[K] f32\n  %9 = reduce_mul %8 via edge.dst : node[K] f32\n"
           "  %10 = eq %8, %4 : edge[K] bool\n  %11 = select %10, %6, %8 : edge[K] f32\n"
           "  %12 = reduce_mul %11 via edge.dst : node[K] f32\n"
           "  return a = %5\n  return b = %9\n  return c = %10\n  return d = %12\n}\n";
    same_without(a, body, "schedule", 4);
    check_end("memplan: a value is written over another where one walk reads both alone");
    check_begin();
    body = "func forward(s = @s) {\n  %0 = arg 0 : edge[K] f32\n  %1 = contract %0, %0 : edge[] f32\n"
           "  %2 = reduce_sum %1 via edge.src : node[] f32\n  %3 = gather %2 via edge.src : edge[] f32\n"
           "  %4 = abs %1 : edge[] f32\n  %5 = sub %4, %3 : edge[] f32\n  %6 = sin %5 : edge[] f32\n  %7 = tanh %6 : "
           "edge[] f32\n"
           "  %8 = reduce_sum %7 via edge.src : node[] f32\n  %9 = mul %7, %4 : edge[] f32\n"
           "  %10 = reduce_sum %9 via edge.dst : node[] f32\n  return a = %8\n  return b = %10\n}\n";
    same_without(a, body, "memplan", 2);
    check_end(
        "memplan: a value is not written over one that is read where a sum of the walk is computed again from it");
    arena_free(a);
}

/* ---- updates ------------------------------------------------------------------------------------------------ */

static void test_updates(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[4];
    check_begin();
    HostPlan *plan = plan_text(
        a,
        "func train_step(p = @p, q = @q) train {\n  %0 = arg 0 : [F] f32\n  %1 = arg 1 : [F] f32\n"
        "  %2 = sub %0, %1 : [F] f32\n  return p = %2 -> @p\n}\n",
        NULL, &m);
    if (plan) CHECK(plan->programs.data[0]->steps.n == 1 && plan->programs.data[0]->buffers.n == 2);
    check_end("lower: a tensor is updated in place");

    check_begin();
    plan = plan_text(
        a,
        "func train_step(p = @p, q = @q) train {\n  %0 = arg 0 : [F] f32\n  %1 = arg 1 : [F] f32\n"
        "  %2 = neg %0 : [F] f32\n  %3 = neg %1 : [F] f32\n"
        "  %4 = slice %0 dim F at 1 : [L] f32\n  return p = %3 -> @p\n  return q = %2 -> @q\n  return o = %4\n}\n",
        NULL, &m);
    if (plan) {
        EvalWorld *w = hub_world(a, m, 4, 3);
        PlanRun r = run_func(a, plan, m, w, 0, args);
        for (int i = 0; i < 37 && check_ok; i++)
            CHECK(result_at(&r, 0, i) == -(float)args[1]->v[i] && result_at(&r, 1, i) == -(float)args[0]->v[i]);
        CHECK(result_at(&r, 2, 0) == (float)args[0]->v[1]);
    }
    check_end("lower: two tensors change places, a reader sees the old values");
    arena_free(a);
}

/* ---- association ---------------------------------------------------------------------------------------------- */

static float blocks_of_256(const float *x, int64_t n)
{
    float total = 0;
    for (int64_t b = 0; b < n; b += 256) {
        float part = 0;
        for (int64_t i = b; i < n && i < b + 256; i++) part += x[i];
        total += part;
    }
    return total;
}

static float sixteen_partials(const double *x, int64_t n)
{
    float p[16] = {0};
    for (int64_t i = 0; i < n; i++) p[i % 16] += (float)x[i];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) p[i] += p[i + half];
    return p[0];
}

/* The sum over rows of column `column` of x, times a column of b if there is one. */
static float tree_of_leaves(const EvalValue *x, int64_t column, const float *b, int64_t b_width, int64_t b_column)
{
    float leaf[1024] = {0};
    int64_t n = (x->rows + 511) / 512;
    assert(n <= 1024);
    for (int64_t r = 0; r < x->rows; r++) {
        float v = (float)x->v[r * x->width + column], *to = &leaf[r / 512];
        *to = b ? fmaf(v, b[r * b_width + b_column], *to) : *to + v;
    }
    for (; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; i < (n + 1) / 2; i++) leaf[i] = 2 * i + 1 < n ? leaf[2 * i] + leaf[2 * i + 1] : leaf[2 * i];
    return leaf[0];
}

static const char *const sums =
    "func forward(x = @x, s = @s, w = @w, z = @z) {\n  %0 = arg 0 : node[F] f32\n"
    "  %1 = arg 1 : edge[K] f32\n  %2 = arg 2 : [F,K] f32\n"
    "  %3 = reduce_sum %1 via edge.dst : node[K] f32\n  %4 = sum_dims %0 : node[] f32\n"
    "  %5 = reduce_sum %0 via node.all : [F] f32\n  %6 = contract %0, %2 : node[K] f32\n"
    "  %7 = sum_dims %2 : [K] f32\n  %8 = contract %0, %6 : [F,K] f32\n"
    "  %9 = contract %6, %0 : [K,F] f32\n"
    "  %10 = concat %0, %6 dim d : node[d] f32\n  %11 = contract %10, %0 : [d,F] f32\n"
    "  %12 = arg 3 : [F,d] f32\n  %13 = contract %0, %12 : node[d] f32\n"
    "  %14 = slice %13 dim d at 16 : node[F] f32\n  %15 = slice %13 dim d at 0 : node[K] f32\n"
    "  return a = %3\n  return b = %4\n  return c = %5\n  return d = %6\n  return e = %7\n"
    "  return f = %8\n  return g = %9\n  return h = %11\n"
    "  return i = %14\n  return j = %15\n}\n";

static void check_rows(const PlanRun *r, EvalValue **args, const EvalWorld *w)
{
    float *column = ARENA_ARRAY(r->arena, float, args[1]->rows + 1);
    for (int64_t v = 0; v < args[0]->rows && check_ok; v++) {
        int64_t n = 0;
        for (int64_t e = 0; e < args[1]->rows; e++)
            if (w->maps[1][e] == v) column[n++] = (float)args[1]->v[e * 16 + 3];
        check(result_at(r, 0, v * 16 + 3) == blocks_of_256(column, n), "row %lld of %lld edges", (long long)v,
              (long long)n);
        check(result_at(r, 1, v) == sixteen_partials(args[0]->v + v * 37, 37), "dims of row %lld", (long long)v);
    }
}

static void check_products(const PlanRun *r, EvalValue **args)
{
    for (int64_t v = 0; v < args[0]->rows && check_ok; v += 7) {
        float acc = 0;
        for (int k = 0; k < 37; k++) acc = fmaf((float)args[0]->v[v * 37 + k], (float)args[2]->v[k * 16 + 5], acc);
        check(result_at(r, 3, v * 16 + 5) == acc, "product of row %lld", (long long)v);
        float part[2] = {0, 0}; /* columns 16 + 30 and 7 of z */
        for (int k = 0; k < 37; k++)
            for (int i = 0; i < 2; i++)
                part[i] = fmaf((float)args[0]->v[v * 37 + k], (float)args[3]->v[k * 53 + (i ? 7 : 46)], part[i]);
        check(result_at(r, 8, v * 37 + 30) == part[0] && result_at(r, 9, v * 16 + 7) == part[1], "pieces of row %lld",
              (long long)v);
    }
    double column[37];
    for (int k = 0; k < 37; k++) column[k] = args[2]->v[k * 16 + 9];
    CHECK(result_at(r, 4, 9) == sixteen_partials(column, 37));
    const float *product = r->data[plan_run_result(r, 3)];
    for (int64_t f = 0; f < 37 && check_ok; f++)
        check(result_at(r, 5, f * 16 + 11) == tree_of_leaves(args[0], f, product, 16, 11) &&
                  result_at(r, 6, 11 * 37 + f) == result_at(r, 5, f * 16 + 11) &&
                  result_at(r, 7, (37 + 11) * 37 + f) == result_at(r, 5, f * 16 + 11),
              "outer product, row %lld", (long long)f);
    for (int64_t f = 0; f < 37 && check_ok; f++)
        check(result_at(r, 2, f) == tree_of_leaves(args[0], f, NULL, 0, 0), "sum over rows, column %lld", (long long)f);
}

static void test_association(const char *name, const char *without)
{
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[4];
    check_begin();
    HostPlan *plan = plan_text(a, sums, without, &m);
    if (plan) {
        EvalWorld *w = hub_world(a, m, 1300, 1700);
        PlanRun r = run_func(a, plan, m, w, 0, args);
        check_rows(&r, args, w);
        check_products(&r, args);
    }
    check_end(name);
    arena_free(a);
}

/* Sums over all rows, by however many threads or however large a part of a GPU: so many blocks at most. */
static void test_blocks(const char *name, const char *without)
{
    /* the last ones have two sets of eight neighbours, and some blocks more */
    static const int64_t rows[] = {0, 1, 512, 513, 1536, 3000, 8192, 9800}, most[] = {1, 2, 3, 100};
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[2];
    check_begin();
    HostPlan *plan = plan_text(
        a,
        "func forward(v = @v, x = @x) {\n  %0 = arg 0 : node[L,H] f32\n  %1 = sum_dims %0 : node[H] f32\n"
        "  %2 = reduce_sum %1 via node.all : [H] f32\n  %3 = reduce_max %0 via node.all empty 7 : [L,H] f32\n"
        "  %4 = contract %1, %1 : [] f32\n  %5 = reduce_mul %1 via node.all : [H] f32\n"
        "  %6 = reduce_sum %0 via node.all : [L,H] f32\n  %7 = arg 1 : node[F] f32\n  %8 = contract %7, %0 : [F,L,H] "
        "f32\n"
        "  return a = %2\n  return b = %3\n  return c = %4\n  return d = %5\n  return e = %6\n  return f = %8\n}\n",
        without, &m);
    for (size_t i = 0; plan && i < sizeof rows / sizeof *rows; i++) {
        EvalWorld *w = hub_world(a, m, rows[i], 0);
        PlanRun first = run_func(a, plan, m, w, 0, args);
        for (int64_t k = 0; k < 6; k++)
            check(!rows[i] || result_at(&first, 4, k) == tree_of_leaves(args[0], k, NULL, 0, 0),
                  "column %lld of %lld rows", (long long)k, (long long)rows[i]);
        for (size_t k = 0; k < sizeof most / sizeof *most; k++) {
            PlanRun other = {
                .arena = a, .plan = plan, .prog = first.prog, .w = w, .args = args, .most_blocks = most[k]};
            const char *why = plan_run(&other);
            check(!why, "%s", why ? why : "");
            for (uint32_t n = 0; n < 6 && !why; n++) {
                uint32_t b = plan_run_result(&first, n);
                check(!memcmp(first.data[b], other.data[b], (size_t)first.elems[b] * 4),
                      "%lld rows in %lld blocks, result %u", (long long)rows[i], (long long)most[k], n);
            }
        }
    }
    check_end(name);
    arena_free(a);
}

/* So many blocks that each warp of those that merge them has four sets of neighbours, and the last one three and some
   blocks more. */
static void test_tall_tree(void)
{
    Arena *a = arena_new();
    const IrModule *m;
    EvalValue *args[1];
    check_begin();
    HostPlan *plan = plan_text(a,
                               "func forward(v = @v) {\n  %0 = arg 0 : node[L,H] f32\n"
                               "  %1 = reduce_sum %0 via node.all : [L,H] f32\n  return a = %1\n}\n",
                               "machine h200", &m);
    if (plan) {
        EvalWorld *w = hub_world(a, m, 602 * 512 + 5, 0);
        PlanRun r = run_func(a, plan, m, w, 0, args);
        for (int64_t k = 0; k < args[0]->width; k++)
            check(result_at(&r, 0, k) == tree_of_leaves(args[0], k, NULL, 0, 0), "column %lld", (long long)k);
    }
    check_end("lower: warps merge many blocks in the tree's order");
    arena_free(a);
}

/* What one sum takes in is made of what another one does: warps that share both compute them in that order. */
static void test_shared_strips(void)
{
    static const char *const machines[] = {"machine h200", NULL};
    Arena *a = arena_new();
    EvalWorld *w = NULL;
    PlanRun runs[2];
    check_begin();
    for (int i = 0; i < 2 && check_ok; i++) {
        const IrModule *m;
        EvalValue **args = ARENA_ARRAY(a, EvalValue *, 1);
        HostPlan *plan = plan_text(
            a,
            "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = mul %0, %0 : node[F] f32\n"
            "  %2 = mul %1, %0 : node[F] f32\n  %3 = reduce_sum %2 via node.all : [F] f32\n"
            "  %4 = reduce_sum %1 via node.all : [F] f32\n  return a = %3\n  return b = %4\n}\n",
            machines[i], &m);
        if (plan && !w) w = hub_world(a, m, 700, 0);
        if (plan) runs[i] = run_func(a, plan, m, w, 0, args);
    }
    for (uint32_t n = 0; n < 2 && check_ok; n++) {
        uint32_t x = plan_run_result(&runs[0], n), y = plan_run_result(&runs[1], n);
        check(!memcmp(runs[0].data[x], runs[1].data[y], (size_t)runs[0].elems[x] * 4), "result %u", n);
    }
    check_end("lower: what warps share is there before what is made of it");
    arena_free(a);
}

/* ---- passes change no number ------------------------------------------------------------------------------------ */

static PlanRun run_random(Arena *a, const IrModule *m, const EvalWorld *w, const char *without)
{
    Diags *d = ARENA_NEW(a, Diags);
    *d = (Diags){.arena = a};
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *ctx = pass_context(a, d);
    HostPlan *plan = plan_without(a, ctx, without) ? lower_module(ctx, m) : NULL;
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, m->funcs.data[0]->args.n + 1);
    if (!check(plan != NULL, "not lowered")) return (PlanRun){0};
    return run_func(a, plan, m, w, 0, args);
}

static bool same_numbers(const PlanRun *x, const PlanRun *y, uint32_t n_results)
{
    for (uint32_t i = 0; i < n_results; i++) {
        uint32_t b = plan_run_result(x, i), c = plan_run_result(y, i);
        for (int64_t k = 0; k < x->elems[b]; k++) {
            double p = plan_get(x->prog->buffers.data[b].elem, x->data[b], k);
            double q = plan_get(y->prog->buffers.data[c].elem, y->data[c], k);
            if (!check(p == q || (p != p && q != q), "result %u element %lld: %.17g and %.17g", i, (long long)k, p, q))
                return false;
        }
    }
    return true;
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

static IrModule *product_module(Arena *a, unsigned k, unsigned n)
{
    Diags *d = ARENA_NEW(a, Diags);
    *d = (Diags){.arena = a};
    Source *src = ARENA_NEW(a, Source);
    const char *text = arena_printf(
        a,
        "module m\ndim K = %u\ndim N = %u\nspace node\nspace edge : edges\nmap edge.src : edge -> node\n"
        "map edge.dst : edge -> node sorted\nmap node.all : node -> unit\n"
        "graph g : data edge(edge.src, edge.dst)\ntensor x : input node[K] f32\ntensor y : input node[N] f32\n"
        "tensor w : state [K,N] f32 init const(0)\nfunc forward(x = @x, y = @y, w = @w) {\n"
        "  %%0 = arg 0 : node[K] f32\n  %%1 = arg 1 : node[N] f32\n  %%2 = arg 2 : [K,N] f32\n"
        "  %%3 = contract %%0, %%2 : node[N] f32\n  %%4 = contract %%0, %%1 : [K,N] f32\n"
        "  %%5 = contract %%1, %%2 : node[K] f32\n  return y = %%3\n  return dw = %%4\n  return dx = %%5\n}\n",
        k, n);
    *src = (Source){"tiles.gir", text, (uint32_t)strlen(text)};
    IrModule *m = ir_parse(a, src, d);
    return check(m && ir_verify(m, d), "not parsed") ? m : NULL;
}

/* One, some and no whole tile, panel, strip and block of each product: the numbers of scalar code. */
static void test_tiles(void)
{
    static const unsigned shapes[][2] = {{1, 7},  {5, 1},   {3, 16}, {17, 15}, {6, 33},  {4, 47},   {9, 49},
                                         {7, 64}, {13, 65}, {3, 80}, {2, 100}, {5, 129}, {130, 20}, {35, 144}};
    static const int64_t counts[] = {1, 5, 63, 97, 131, 700};
    check_begin();
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes && check_ok; i++) {
        Arena *a = arena_new();
        IrModule *m = product_module(a, shapes[i][0], shapes[i][1]);
        EvalWorld *w = m ? hub_world(a, m, counts[i % 6], counts[i % 6] < 3 ? 0 : 3) : NULL;
        if (w) {
            PlanRun x = run_random(a, m, w, NULL), y = run_random(a, m, w, "schedule"),
                    z = run_random(a, m, w, "machine h200");
            if (!check_ok || !same_numbers(&x, &y, 3) || !same_numbers(&x, &z, 3))
                printf("K %u N %u\n", shapes[i][0], shapes[i][1]);
        }
        arena_free(a);
    }
    check_end("lower: tiles of products change no number");
}

static void test_same_numbers(const char *name, const char *without)
{
    check_begin();
    for (uint64_t seed = 0; seed < 120 && check_ok; seed++) {
        Arena *a = arena_new();
        IrModule *m = gir_random(a, seed, 24, seed % 2 ? IR_F32 : IR_F64, false);
        int64_t *graph_of, n_graphs;
        const char *why = "";
        /* a hub's sums that rescale in one walk have other bits than two walks have (docs/design.md) */
        bool hub = strcmp(without, "fuse") != 0;
        EvalGraph g = gir_graph(a, (uint32_t)(seed % 6 == 4 && !hub ? 5 : seed % 6), &graph_of, &n_graphs);
        EvalWorld *w = eval_world(a, m, &g, graph_of, n_graphs, &why);
        if (check(w != NULL, "%s", why)) {
            PlanRun x = run_random(a, m, w, NULL), y = run_random(a, m, w, without);
            if (!check_ok || !same_numbers(&x, &y, m->funcs.data[0]->results.n))
                printf("seed %llu\n", (unsigned long long)seed);
        }
        arena_free(a);
    }
    check_end(name);
}

int main(void)
{
    test_products();
    test_nearest();
    test_epilogue();
    test_long_epilogue();
    test_beside(
        "lower: products that are wanted together wait in arrays, and one that is not is stored at once",
        "  %6 = add %2, %0 : node[F] f32\n  %7 = contract %6, %1 : node[K] f32\n  %8 = add %4, %7 : node[K] f32\n"
        "  %9 = mul %8, %3 : node[K] f32\n  %10 = add %8, %3 : node[K] f32\n"
        "  return y = %9\n  return z = %5\n  return u = %10 -> @t\n",
        2);
    test_beside("lower: products that are not wanted together need no arrays, and a tensor is updated last",
                "  %6 = add %4, %3 : node[K] f32\n  %7 = mul %5, %3 : node[K] f32\n  %8 = tanh %5 : node[K] f32\n"
                "  return y = %7\n  return z = %8\n  return u = %6 -> @t\n",
                0);
    test_narrow();
    test_epilogue_of_rows();
    test_flat_gradients();
    test_softmax();
    test_rows_at_once();
    test_rows_of_nothing();
    test_ahead();
    test_row_values();
    test_between_sums();
    test_peak();
    test_late();
    test_lean();
    test_takeover();
    test_takeover_by_result();
    test_updates();
    test_association("lower: every sum has its association", NULL);
    test_association("lower: every sum has its association without vectors", "schedule");
    test_association("lower: every sum has its association without groups", "fuse");
    test_association("lower: every sum has its association by warps", "machine h200");
    test_blocks("lower: sums over all rows are the same in any number of blocks", NULL);
    test_blocks("lower: sums over all rows are the same in any number of blocks without vectors", "schedule");
    test_blocks("lower: sums over all rows are the same in any number of blocks of warps", "machine h200");
    test_tall_tree();
    test_shared_strips();
    test_tiles();
    test_same_numbers("lower: schedule changes no number", "schedule");
    test_same_numbers("lower: fuse changes no number", "fuse");
    test_same_numbers("lower: memplan changes no number", "memplan");
    return check_done();
}
