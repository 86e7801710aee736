/* fuse, schedule, lower and memplan against the interpreter: random programs over every op and kind of graph, in f32
   and f64, with each pass of the kernel stage switched off in turn; every result must lie within the interpreter's
   bound. And small cases whose groups, products, updates and peak are known. */
#include "passes/pipeline/budget.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/plan_run.h"

typedef struct Tally {
    long elements, undecided;
} Tally;

static void say_diags(const Diags *d, Arena *a)
{
    StrBuf text = {.arena = a};
    diags_print(d, &text, false);
    check(false, "%s", strbuf_cstr(&text));
}

static HostPlan *plan_of(Arena *a, const IrModule *m, const char *without)
{
    Diags *d = ARENA_NEW(a, Diags);
    d->arena = a;
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *ctx = pass_context(a, d);
    HostPlan *plan = NULL;
    if (ir_verify(m, d) && (!without || pass_option_disable(ctx, without))) plan = lower_module(ctx, m);
    if (!plan || d->n_errors) say_diags(d, a);
    return plan;
}

/* The same within three quarters of its memory, again and again, as long as that can be done. */
static HostPlan *plan_within(Arena *a, const IrModule *m)
{
    PassBudget b = {.bytes = INT64_MAX, .nodes = 13, .edges = 40, .graphs = 3};
    HostPlan *plan = plan_of(a, m, NULL);
    for (unsigned i = 0; i < 4 && plan; i++) {
        Diags *d = ARENA_NEW(a, Diags);
        d->arena = a;
        PassContext *ctx = ARENA_NEW(a, PassContext);
        *ctx = pass_context(a, d);
        int64_t peak = budget_peak(plan->module, &b, plan->programs.data[0], a);
        b.bytes = peak - peak / 4;
        ctx->budget = &b;
        HostPlan *less = lower_module(ctx, m);
        check(less || (peak && d->n_errors == 1), "no plan and no reason");
        if (!less) break;
        int64_t now = budget_peak(less->module, &b, less->programs.data[0], a);
        if (!check(now <= b.bytes, "%lld bytes do not fit into %lld", (long long)now, (long long)b.bytes)) return NULL;
        plan = less;
    }
    return plan;
}

static EvalValue **random_args(Arena *a, const IrModule *m, const EvalWorld *w, const IrFunc *f, uint64_t seed)
{
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    GirRng r = {seed};
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        gir_fill(args[i], &r);
        if (f->args.data[i].kind == IR_ARG_SEED) args[i]->v[0] = 123456789123.0;
        if (f->args.data[i].kind == IR_ARG_STEP) args[i]->v[0] = 17;
    }
    return args;
}

static bool compare(PlanRun *r, const IrFunc *f, EvalValue **want, Tally *tally)
{
    for (uint32_t i = 0; i < f->results.n; i++) {
        uint32_t b = plan_run_result(r, i);
        if (!check(b != UINT32_MAX, "result %u is never written", i)) return false;
        for (int64_t k = 0; k < want[i]->rows * want[i]->width; k++) {
            double got = plan_get(r->prog->buffers.data[b].elem, r->data[b], k);
            tally->elements++;
            tally->undecided += want[i]->undecided[k];
            if (!check(plan_accepts(want[i], k, got), "result %u (%%%u) element %lld: %.17g, wanted %.17g +- %.3g", i,
                       f->results.data[i].value, (long long)k, got, want[i]->v[k], want[i]->err[k]))
                return false;
        }
    }
    return true;
}

static bool check_func(Arena *a, const IrModule *m, const HostPlan *plan, uint32_t func, const EvalWorld *w,
                       uint64_t seed, Tally *tally)
{
    const char *why;
    const IrFunc *f = m->funcs.data[func];
    EvalValue **args = random_args(a, m, w, f, seed);
    EvalValue **want = eval_func(a, m, w, f, args, &why);
    if (!check(want != NULL, "interpreter: %s", why)) return false;
    PlanRun r = {.arena = a,
                 .plan = plan,
                 .prog = plan->programs.data[func],
                 .w = w,
                 .args = args,
                 .ahead = (int64_t)(seed % 5 * seed)};
    why = plan_run(&r);
    return check(!why, "%s", why) && compare(&r, f, want, tally);
}

static void dump(Arena *a, const IrModule *m, const HostPlan *plan)
{
    StrBuf text = {.arena = a};
    ir_print(m, &text);
    if (plan) plan_print(plan, &text);
    for (uint32_t i = 0; plan && i < plan->kernels.n; i++) kir_print(plan_kernel(plan, i, true), &text);
    fputs(strbuf_cstr(&text), stdout);
}

static bool random_program(uint64_t seed, const char *without, uint32_t n_ops, Tally *tally, bool verbose)
{
    Arena *a = arena_new();
    IrModule *m = gir_random(a, seed, n_ops ? n_ops : 18 + (uint32_t)(seed % 23), seed % 3 ? IR_F32 : IR_F64, false);
    bool budget = without && !strcmp(without, "more memory");
    HostPlan *plan = budget ? plan_within(a, m) : plan_of(a, m, without);
    uint32_t which = (uint32_t)(seed * 5 % GIR_N_GRAPHS);
    if (which == 6 && seed % 10) which = 0;
    int64_t *graph_of, n_graphs;
    EvalGraph g = gir_graph(a, which, &graph_of, &n_graphs);
    const char *why = "";
    EvalWorld *w = eval_world(a, m, &g, graph_of, n_graphs, &why);
    bool good = plan && check(w != NULL, "world: %s", why) && check_func(a, m, plan, 0, w, seed, tally);
    if (!good && verbose) dump(a, m, plan);
    if (!good) printf("seed %llu graph %u\n", (unsigned long long)seed, which);
    arena_free(a);
    return good;
}

static void test_random(const char *name, const char *without, uint64_t first, uint64_t n, uint32_t n_ops, bool verbose)
{
    Tally tally = {0};
    check_begin();
    for (uint64_t seed = first; seed < first + n; seed++)
        if (!random_program(seed, without, n_ops, &tally, verbose)) break;
    check(n_ops || tally.undecided * 50 <= tally.elements, "%ld of %ld elements are undecided", tally.undecided,
          tally.elements);
    check_end(name);
}

/* A function of one op, whose operands and result have these dtypes; NULL where its shape rule refuses them. */
static IrModule *module_of_op(Arena *a, IrOpcode op, const char *const *args, const char *result)
{
    StrBuf text = {.arena = a};
    Diags d = {.arena = a};
    uint32_t n = ir_ops[op].n_args;
    strbuf_puts(&text, "module m\ndim F = 19\nspace node\nspace edge : edges\nmap edge.src : edge -> node\n"
                       "map edge.dst : edge -> node sorted\ngraph g : data edge(edge.src, edge.dst)\n");
    for (uint32_t k = 0; k < n; k++) strbuf_printf(&text, "tensor x%u : input node[F] %s\n", k, args[k]);
    strbuf_puts(&text, "func forward(");
    for (uint32_t k = 0; k < n; k++) strbuf_printf(&text, "%sx%u = @x%u", k ? ", " : "", k, k);
    strbuf_puts(&text, ") {\n");
    for (uint32_t k = 0; k < n; k++) strbuf_printf(&text, "  %%%u = arg %u : node[F] %s\n", k, k, args[k]);
    strbuf_printf(&text, "  %%%u = %s", n, ir_ops[op].name);
    for (uint32_t k = 0; k < n; k++) strbuf_printf(&text, "%s%%%u", k ? ", " : " ", k);
    strbuf_printf(&text, " : node[F] %s\n  return y = %%%u\n}\n", result, n);
    Source src = {"op.gir", strbuf_cstr(&text), (uint32_t)text.n};
    IrModule *m = ir_parse(a, &src, &d);
    return m && ir_verify(m, &d) ? m : NULL;
}

/* Every row of ops.def that is arithmetic on elements has a kernel, which computes what the interpreter does. */
static void test_pointwise(void)
{
    static const char *const dtypes[] = {"f32", "i64", "bool"};
    Arena *a = arena_new();
    Tally tally = {0};
    unsigned n_ops = 0;
    check_begin();
    for (IrOpcode op = 0; op < IR_N_OPS; op++) {
        bool pointwise = ir_ops[op].traits & T_MAP && !(ir_ops[op].traits & T_RANDOM) && ir_ops[op].n_args,
             found = false;
        for (unsigned i = 0; i < 27 && pointwise; i++) {
            const char *first = dtypes[i % 3], *rest = dtypes[i / 3 % 3], *why = "";
            IrModule *m = module_of_op(a, op, (const char *const[]){first, rest, rest}, dtypes[i / 9]);
            if (!m) continue;
            HostPlan *plan = plan_of(a, m, NULL);
            int64_t *graph_of, n_graphs;
            EvalGraph g = gir_graph(a, 0, &graph_of, &n_graphs);
            EvalWorld *w = eval_world(a, m, &g, NULL, 0, &why);
            found = plan && w && check_func(a, m, plan, 0, w, i, &tally);
            if (!check(found, "%s of %s, %s: %s", ir_ops[op].name, first, rest, why)) break;
        }
        n_ops += pointwise;
        check(found == pointwise, "no operands fit `%s`", ir_ops[op].name);
    }
    check(n_ops > 30, "%u operations", n_ops);
    arena_free(a);
    check_end("lower: every pointwise operation of the table has a kernel");
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* test_lower SEED [N [WITHOUT [OPS]]] */
        test_random("lower random", argc > 3 && *argv[3] ? argv[3] : NULL, strtoull(argv[1], NULL, 10),
                    argc > 2 ? strtoull(argv[2], NULL, 10) : 1, argc > 4 ? (uint32_t)atoi(argv[4]) : 0, true);
        return check_done();
    }
    test_pointwise();
    test_random("lower random: all passes", NULL, 0, 250, 0, false);
    test_random("lower random: without fuse", "fuse", 1000, 60, 0, false);
    test_random("lower random: without schedule", "schedule", 2000, 60, 0, false);
    test_random("lower random: long programs", NULL, 4000, 6, 300, false);
    test_random("lower random: without memplan", "memplan", 3000, 30, 0, false);
    test_random("lower random: without more memory than needed", "more memory", 5000, 40, 0, false);
    return check_done();
}
