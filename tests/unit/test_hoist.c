/* The pass `hoist`: which values of a training loop it holds, that setup functions compute them and that the loop then
   gives the same numbers, bit by bit, on graphs with and without edges. */
#include "tests/unit/check.h"
#include "tests/unit/plan_run.h"
#include "passes/rewrite/hoist.h"
#include "passes/pipeline/pipeline.h"

/* In the loop: sums of inputs over edges, degrees, a random mask, a parameter, a state, a hyper. */
static const char text[] =
    "module m dim F = 5 dim O = 3 space node space edge : edges map node.all : node -> unit sorted "
    "map es : edge -> node map ed : edge -> node sorted graph gr : data edge(es, ed) "
    "tensor x : input node[F] f32 tensor mask : input node[] bool tensor W : param [F,O] f32 stored [5,3] perm(0,1) "
    "init const(0.5) tensor held.0 : hyper [] f32 default 0.25 sites 1 "
    "func forward(x = @x, W = @W) { %0 = arg 0 : node[F] f32 %1 = arg 1 : [F,O] f32 %2 = gather %0 via es : edge[F] "
    "f32 "
    "%3 = reduce_sum %2 via ed : node[F] f32 %4 = contract %3, %1 : node[O] f32 %5 = const 1 : edge[] f32 "
    "%6 = reduce_sum %5 via ed : node[] f32 %7 = const 1 : [] f32 %8 = add %6, %7 : node[] f32 %9 = sqrt %8 : node[] "
    "f32 "
    "%10 = div %4, %9 : node[O] f32 return out = %10 } " /* of the graph alone: held */
    "func train_step(x = @x, W = @W, mask = @mask, seed = seed, step = step, lr = @held.0) train { "
    "%0 = arg 0 : node[F] f32 %1 = arg 1 : [F,O] f32 %2 = arg 2 : node[] bool %3 = arg 3 : [] i64 %4 = arg 4 : [] i64 "
    "%5 = arg 5 : [] f32 %6 = const 1 : edge[] f32 %7 = reduce_sum %6 via ed : node[] f32 %8 = const 1 : [] f32 "
    "%9 = max %7, %8 : node[] f32 %10 = gather %0 via es : edge[F] f32 %11 = reduce_sum %10 via ed : node[F] f32 "
    "%12 = div %11, %9 : node[F] f32 " /* the mean of a node's neighbours: held */
    "%13 = random_uniform %3, %4 site 0 : node[F] f32 %14 = gather %13 via es : edge[F] f32 "
    "%15 = reduce_sum %14 via ed : node[F] f32 %16 = add %12, %15 : node[F] f32 " /* random: not held */
    "%17 = contract %16, %1 : node[O] f32 %18 = cast %2 : node[] f32 %19 = mul %17, %18 : node[O] f32 " /* cheap: not held */
    "%20 = reduce_sum %19 via node.all : [O] f32 %21 = sum_dims %20 : [] f32 "
    "%22 = reduce_sum %18 via node.all : [] f32 %23 = div %21, %22 : [] f32 " /* held, for train_step alone */
    "%24 = contract %16, %19 : [F,O] f32 %25 = mul %5, %24 : [F,O] f32 %26 = sub %1, %25 : [F,O] f32 "
    "return loss = %23 return W = %26 -> @W } "
    "func metrics(x = @x, W = @W) { %0 = arg 0 : node[F] f32 %1 = arg 1 : [F,O] f32 %2 = const 1 : edge[] f32 "
    "%3 = reduce_sum %2 via ed : node[] f32 %4 = const 1 : [] f32 %5 = max %4, %3 : node[] f32 "
    "%6 = gather %0 via es : edge[F] f32 %7 = reduce_sum %6 via ed : node[F] f32 %8 = div %7, %5 : node[F] f32 "
    "%9 = contract %8, %1 : node[O] f32 %10 = reduce_sum %9 via node.all : [O] f32 %11 = sum_dims %10 : [] f32 "
    "return sum = %11 } "
    "train epochs 1 seed 0 { metric sum = 0 }";

static IrModule *parse(Arena *a, const char *t)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", t, (uint32_t)strlen(t)};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    check(m != NULL, "%s", d.list.n ? d.list.data[0]->text : "no module");
    return m;
}

static IrModule *hoisted(Arena *a, const IrModule *m)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    ctx.verify = PASS_VERIFY_ROUNDTRIP;
    return pass_run_one(&ctx, PASS_hoist, m);
}

static uint32_t count_held(const IrModule *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->tensors.n; i++) n += m->tensors.data[i].kind == IR_HELD;
    return n;
}

static uint32_t count_ops(const IrFunc *f, IrOpcode op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->ops.n; i++) n += f->ops.data[i].op == op;
    return n;
}

static void test_choice(void)
{
    Arena *a = arena_new();
    check_begin();
    const IrModule *m = parse(a, text), *h = m ? hoisted(a, m) : NULL;
    if (CHECK(h != NULL)) {
        const IrFunc *step = ir_func_find(h, "train_step"), *metrics = ir_func_find(h, "metrics");
        const IrFunc *both = ir_func_find(h, "setup.train_step.metrics"), *one = ir_func_find(h, "setup.train_step");
        const IrFunc *forward = ir_func_find(h, "forward"), *alone = ir_func_find(h, "setup.forward");
        CHECK(count_held(h) == 3);
        CHECK(both && both->results.n == 1 && both->args.n == 1); /* the mean reads x alone */
        CHECK(one && one->results.n == 1 && one->args.n == 1);    /* the mask's sum */
        CHECK(!ir_func_find(h, "setup.metrics"));
        CHECK(count_ops(metrics, IR_OP_gather) == 0 && count_ops(metrics, IR_OP_div) == 0);
        /* the random one; what is cheap */
        CHECK(count_ops(step, IR_OP_gather) == 1 && count_ops(step, IR_OP_cast) == 1);
        CHECK(alone && alone->results.n == 1 && alone->args.n == 0);
        CHECK(count_ops(forward, IR_OP_gather) == 1 && count_ops(forward, IR_OP_sqrt) == 0);
    }
    check_end("hoist: what is held");
    arena_free(a);
}

static void test_invariant(void)
{
    Arena *a = arena_new();
    check_begin();
    const IrModule *m = parse(a, text);
    if (m) {
        Diags d = {.arena = a};
        PassContext ctx = pass_context(a, &d);
        const IrFunc *step = ir_func_find(m, "train_step"), *forward = ir_func_find(m, "forward");
        const bool *in = hoist_invariant(&ctx, m, step), *never = hoist_invariant(&ctx, m, forward);
        CHECK(in[0] && !in[1] && in[2] && !in[3] && !in[5] && in[11] && in[12] && !in[13] && !in[15] && !in[16] &&
              in[22]);
        CHECK(!never[0] && !never[3] && never[8]);
        CHECK(pass_option_disable(&ctx, "hoist"));
        CHECK(!hoist_invariant(&ctx, m, step)[0]);
    }
    check_end("hoist: what does not change");
    arena_free(a);
}

/* ---- the same numbers ---------------------------------------------------------------------------------------- */

static double number(uint64_t seed, uint64_t i) { return eval_philox(seed, 0, 0, i, 0) * 0x1p-32; }

typedef struct World {
    Arena *a;
    const IrModule *m;
    EvalWorld *w;
    EvalValue **tensors; /* [tensors] */
} World;

static bool fill(World *w, const EvalGraph *g)
{
    const char *why = NULL;
    w->w = eval_world(w->a, w->m, g, NULL, 0, &why);
    if (!check(w->w != NULL, "%s", why)) return false;
    w->tensors = ARENA_ARRAY(w->a, EvalValue *, w->m->tensors.n + 1);
    for (uint32_t t = 0; t < w->m->tensors.n; t++) {
        if (w->m->tensors.data[t].kind == IR_HELD) continue;
        EvalValue *x = eval_value_new(w->a, w->m, w->w, w->m->tensors.data[t].type);
        for (int64_t i = 0; i < x->rows * x->width; i++) {
            double v = (double)(float)(number(t, (uint64_t)i) - 0.5);
            x->v[i] = x->type.dtype == IR_BOOL ? v > 0 : v;
        }
        w->tensors[t] = x;
    }
    return true;
}

static EvalValue *const *arguments(const World *w, const IrFunc *f)
{
    EvalValue **args = ARENA_ARRAY(w->a, EvalValue *, f->args.n + 1);
    for (uint32_t i = 0; i < f->args.n; i++) {
        const IrArg *arg = &f->args.data[i];
        args[i] = arg->kind == IR_ARG_TENSOR ? w->tensors[arg->ref] : eval_value_new(w->a, w->m, w->w, arg->type);
        if (arg->kind != IR_ARG_TENSOR) args[i]->v[0] = 7;
    }
    return args;
}

/* Runs kernels of one function; results[k] are the bytes of result k. */
static bool run(const World *w, const HostPlan *plan, const char *name, const void **results, size_t *bytes)
{
    uint32_t p = 0;
    while (p < plan->programs.n && strcmp(plan->programs.data[p]->name, name)) p++;
    if (!CHECK(p < plan->programs.n)) return false;
    const IrFunc *f = plan->module->funcs.data[plan->programs.data[p]->func];
    PlanRun r = {.arena = w->a, .plan = plan, .prog = plan->programs.data[p], .w = w->w, .args = arguments(w, f)};
    const char *why = plan_run(&r);
    if (!check(!why, "%s: %s", name, why)) return false;
    for (uint32_t i = 0; i < f->results.n; i++) {
        uint32_t b = plan_run_result(&r, i);
        results[i] = r.data[b];
        bytes[i] = (size_t)r.elems[b] * kir_base_bytes(r.prog->buffers.data[b].elem);
        IrId t = f->results.data[i].tensor;
        if (t == IR_NONE || w->m->tensors.data[t].kind != IR_HELD) continue;
        w->tensors[t] = eval_value_new(w->a, w->m, w->w, w->m->tensors.data[t].type);
        for (int64_t k = 0; k < r.elems[b]; k++)
            w->tensors[t]->v[k] = plan_get(r.prog->buffers.data[b].elem, r.data[b], k);
    }
    return true;
}

static const HostPlan *plan_of(Arena *a, const IrModule *m)
{
    Diags *d = ARENA_NEW(a, Diags);
    *d = (Diags){.arena = a};
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *ctx = pass_context(a, d);
    return lower_module(ctx, m);
}

static void compare(World *plain, World *held, const char *name)
{
    const void *x[8], *y[8];
    size_t n[8] = {0}, n_held[8] = {0};
    const IrFunc *f = ir_func_find(plain->m, name);
    if (!run(plain, plan_of(plain->a, plain->m), name, x, n) || !run(held, plan_of(held->a, held->m), name, y, n_held))
        return;
    for (uint32_t i = 0; i < f->results.n; i++)
        check(n[i] == n_held[i] && !memcmp(x[i], y[i], n[i]), "%s: result %u has other bits", name, i);
}

static void test_numbers(int64_t rows, int64_t n_edges)
{
    Arena *a = arena_new();
    check_begin();
    const IrModule *m = parse(a, text);
    World plain = {.a = a, .m = m}, held = {.a = a, .m = m ? hoisted(a, m) : NULL};
    int64_t *ends = ARENA_ARRAY(a, int64_t, 2 * n_edges + 1);
    for (int64_t i = 0; i < 2 * n_edges; i++) /* node 0 is a hub; the last has no edge */
        ends[i] = number(99, (uint64_t)i) < 0.6
                      ? 0
                      : (int64_t)(number(98, (uint64_t)i) * (double)(rows > 1 ? rows - 1 : 1));
    EvalGraph g = {rows, rows, n_edges, ends, ends + n_edges};
    if (held.m && fill(&plain, &g) && fill(&held, &g)) {
        const void *x[8];
        size_t n[8];
        const HostPlan *plan = plan_of(a, held.m);
        if (run(&held, plan, "setup.train_step", x, n) && run(&held, plan, "setup.train_step.metrics", x, n)) {
            compare(&plain, &held, "train_step");
            compare(&plain, &held, "metrics");
            if (run(&held, plan, "setup.forward", x, n)) compare(&plain, &held, "forward");
        }
    }
    check_end(arena_printf(a, "hoist: %d nodes, %d edges: the same bits", (int)rows, (int)n_edges));
    arena_free(a);
}

/* Without cse a function may hold one value under two numbers: it reads the tensor once. */
static const char twins[] =
    "module m dim F = 5 space node space edge : edges map es : edge -> node map ed : edge -> node sorted "
    "graph gr : data edge(es, ed) tensor x : input node[F] f32 func forward(x = @x) { %0 = arg 0 : node[F] f32 "
    "%1 = const 1 : edge[] f32 %2 = reduce_sum %1 via ed : node[] f32 %3 = sqrt %2 : node[] f32 %4 = const 1 : edge[] "
    "f32 "
    "%5 = reduce_sum %4 via ed : node[] f32 %6 = sqrt %5 : node[] f32 %7 = mul %0, %3 : node[F] f32 "
    "%8 = add %7, %6 : node[F] f32 return out = %8 }";

static void test_twins(void)
{
    Arena *a = arena_new();
    check_begin();
    const IrModule *m = parse(a, twins), *h = m ? hoisted(a, m) : NULL;
    if (CHECK(h != NULL)) {
        CHECK(count_held(h) == 1);
        CHECK(ir_func_find(h, "forward")->args.n == 2);
    }
    check_end("hoist: equal values share what is held");
    arena_free(a);
}

/* ---- the verifier ---------------------------------------------------------------------------------------------- */

static void test_refused(const char *what, const char *module, const char *wanted)
{
    Arena *a = arena_new();
    check_begin();
    Source src = {"t.gir", module, (uint32_t)strlen(module)};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, &src, &d);
    CHECK(!m && d.list.n);
    check(d.list.n && strstr(d.list.data[0]->text, wanted), "%s", d.list.n ? d.list.data[0]->text : "no message");
    check_end(what);
    arena_free(a);
}

int main(void)
{
    test_choice();
    test_invariant();
    test_twins();
    test_numbers(40, 900);
    test_numbers(3, 0);
    test_numbers(1, 4);
    test_refused("hoist: of a parameter",
                 "module m space node tensor p : param [] f32 stored [1] perm() init const(1) tensor h : held [] f32 "
                 "func setup.f(p = @p) { %0 = arg 0 : [] f32 %1 = neg %0 : [] f32 return h = %1 -> @h }",
                 "which is no input");
    test_refused("hoist: twice",
                 "module m space node tensor p : input [] f32 tensor h : held [] f32 "
                 "func setup.f(p = @p) { %0 = arg 0 : [] f32 %1 = neg %0 : [] f32 return h = %1 -> @h } "
                 "func setup.g(p = @p) { %0 = arg 0 : [] f32 %1 = neg %0 : [] f32 return h = %1 -> @h }",
                 "already");
    test_refused("hoist: never", "module m space node tensor h : held [] f32 ", "no function computes it");
    return check_done();
}
