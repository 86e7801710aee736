/* Vectors along several dims: programs whose operands have some of a nest's dims, in every mix and order, and one
   kernel whose values lie in every order of the dims, over sizes that fill a vector, do not, or are one. Each result is
   the interpreter's within its bound, and to the bit that of scalar code (without the pass schedule). */
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/plan_run.h"

/* Dims: B, H, D are of the case, W = D + 3. */
static const char *const mixed =
    "space node\nspace edge : edges\nmap edge.src : edge -> node\nmap edge.dst : edge -> node sorted\n"
    "map node.all : node -> unit\ngraph g : data edge(edge.src, edge.dst)\n"
    "tensor x : input node[H,D] f32\ntensor s : input edge[H] f32\ntensor u : input edge[D] f32\n"
    "tensor w : state [D,H] f32 init const(0)\ntensor z : input node[H,W] f32\ntensor y : input node[B,H,D] f32\n"
    "tensor t : input node[B,D] f32\ntensor c : input edge[] f32\n"
    "tensor q : state [W] f32 init const(0)\n"
    "func forward(x = @x, s = @s, u = @u, w = @w, z = @z, y = @y, t = @t, c = @c, q = @q) {\n"
    "  %0 = arg 0 : node[H,D] f32\n  %1 = arg 1 : edge[H] f32\n  %2 = arg 2 : edge[D] f32\n  %3 = arg 3 : [D,H] f32\n"
    "  %4 = arg 4 : node[H,W] f32\n  %5 = arg 5 : node[B,H,D] f32\n  %6 = arg 6 : node[B,D] f32\n"
    "  %7 = arg 7 : edge[] f32\n"
    /* a weighted sum: rows, heads, features */
    "  %8 = gather %0 via edge.src : edge[H,D] f32\n  %9 = neg %1 : edge[H] f32\n  %10 = exp %9 : edge[H] f32\n"
    "  %11 = mul %10, %8 : edge[H,D] f32\n  %12 = add %11, %2 : edge[H,D] f32\n  %13 = mul %12, %7 : edge[H,D] f32\n"
    "  %14 = reduce_sum %13 via edge.dst : node[H,D] f32\n"
    /* another order of the dims in memory, and a piece of wider rows */
    "  %15 = transpose %3 : [H,D] f32\n  %16 = mul %0, %15 : node[H,D] f32\n"
    "  %17 = slice %4 dim W at 2 : node[H,D] f32\n  %18 = mul %16, %17 : node[H,D] f32\n"
    /* three dims; the middle one is absent */
    "  %19 = mul %5, %6 : node[B,H,D] f32\n  %20 = add %19, %0 : node[B,H,D] f32\n"
    "  %21 = reduce_max %10 via edge.dst empty 0 : node[H] f32\n  %22 = mul %20, %21 : node[B,H,D] f32\n"
    /* sums over rows of products, over one dim and over two */
    "  %23 = reduce_sum %22 via node.all : [B,H,D] f32\n  %24 = sum_dims %5 : node[H,D] f32\n"
    "  %25 = sum_dims %8 : edge[H] f32\n  %26 = mul %25, %1 : edge[H] f32\n  %27 = neg %26 : edge[H] f32\n"
    "  %28 = contract %8, %2 : edge[H] f32\n  %29 = max_dims %0 : node[H] f32\n  %30 = sum_dims %0 : node[] f32\n"
    "  %31 = iota dim H : [H] i64\n  %32 = cast %31 : [H] f32\n  %33 = mul %0, %32 : node[H,D] f32\n"
    "  %34 = iota dim D : [D] i64\n  %35 = cast %34 : [D] f32\n  %36 = add %33, %35 : node[H,D] f32\n"
    "  %37 = concat %17, %4, %36 dim V : node[H,V] f32\n  %38 = concat %36, %17 dim G : node[G,D] f32\n"
    "  %39 = min_dims %5 : node[B,H] f32\n  %40 = contract %0, %3 : node[H] f32\n"
    "  %41 = mul %8, %10 : edge[H,D] f32\n  %42 = sum_dims %41 : edge[H] f32\n  %43 = exp %42 : edge[H] f32\n"
    "  %44 = sum_dims %5 : node[B] f32\n  %45 = max_dims %5 : node[B] f32\n  %46 = sum_dims %5 : node[] f32\n"
    "  %47 = contract %5, %15 : node[B] f32\n"
    "  %48 = contract %2, %8 : edge[H] f32\n  %49 = contract %6, %5 : node[H] f32\n"
    "  %50 = contract %0, %6 : node[H,B] f32\n  %51 = contract %6, %0 : node[B,H] f32\n"
    "  %52 = contract %5, %17 : node[B] f32\n"
    "  %53 = sum_dims %0 : node[H] f32\n  %54 = mul %53, %0 : node[H,D] f32\n  %55 = sum_dims %54 : node[H] f32\n"
    "  %56 = exp %53 : node[H] f32\n  %57 = sub %17, %56 : node[H,D] f32\n  %58 = max_dims %57 : node[H] f32\n"
    /* lanes behind the last element of a piece are nobody's */
    "  %59 = arg 8 : [W] f32\n  %60 = neg %59 : [W] f32\n  %61 = slice %60 dim W at 1 : [D] f32\n"
    "  %62 = const 0 : [] f32\n  %63 = lt %60, %62 : [W] bool\n  %64 = lt %62, %60 : [W] bool\n"
    "  %65 = or %63, %64 : [W] bool\n  %66 = select %65, %61, %62 : [W,D] f32\n  %67 = sum_dims %66 : [D] f32\n"
    "  return ab = %67\n"
    "  return v = %50\n  return w = %51\n  return x = %52\n"
    "  return y = %53\n  return z = %55\n  return aa = %58\n"
    "  return t = %48\n  return u = %49\n"
    "  return o = %43\n  return p = %44\n  return q = %45\n  return r = %46\n  return s = %47\n"
    "  return a = %14\n  return b = %18\n  return c = %22\n  return d = %23\n  return e = %24\n  return f = %26\n"
    "  return g = %28\n  return h = %29\n  return i = %30\n  return j = %36\n  return k = %37\n  return l = %38\n"
    "  return m = %39\n  return n = %40\n}\n";

/* What is staged for the sums of a row lets all that reads these sums join their kernel, whatever the order of its
   dims. */
static const char *const ordered =
    "space node\nspace edge : edges\nmap edge.src : edge -> node\nmap edge.dst : edge -> node sorted\n"
    "graph g : data edge(edge.src, edge.dst)\ntensor y : input node[B,H,D] f32\ntensor s : input edge[B] f32\n"
    "func forward(y = @y, s = @s) {\n  %0 = arg 0 : node[B,H,D] f32\n  %1 = arg 1 : edge[B] f32\n"
    "  %2 = sum_dims %1 : edge[] f32\n  %3 = mul %1, %2 : edge[B] f32\n  %4 = gather %0 via edge.src : edge[B,H,D] "
    "f32\n"
    "  %5 = mul %4, %3 : edge[B,H,D] f32\n  %6 = reduce_max %5 via edge.dst empty 0 : node[B,H,D] f32\n"
    "  %7 = transpose %6 : node[B,D,H] f32\n  %8 = transpose %6 : node[H,B,D] f32\n  %9 = transpose %6 : node[H,D,B] "
    "f32\n"
    "  %10 = transpose %6 : node[D,B,H] f32\n  %11 = transpose %6 : node[D,H,B] f32\n"
    "  return a = %7\n  return b = %8\n  return c = %9\n  return d = %10\n  return e = %11\n}\n";

static IrModule *module_of(Arena *a, const char *program, int64_t b, int64_t h, int64_t d, Diags *diags)
{
    Source *src = ARENA_NEW(a, Source);
    const char *text = arena_printf(
        a, "module m\ndim B = %lld\ndim H = %lld\ndim D = %lld\ndim W = %lld\ndim V = %lld\ndim G = %lld\n%s",
        (long long)b, (long long)h, (long long)d, (long long)d + 3, (long long)(3 * d + 3), (long long)(2 * h),
        program);
    *src = (Source){"lanes.gir", text, (uint32_t)strlen(text)};
    IrModule *m = ir_parse(a, src, diags);
    return m && ir_verify(m, diags) ? m : NULL;
}

static PlanRun run_plan(Arena *a, const IrModule *m, const EvalWorld *w, EvalValue **args, Diags *d,
                        const char *without)
{
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *ctx = pass_context(a, d);
    if (without) pass_option_disable(ctx, without);
    HostPlan *plan = lower_module(ctx, m);
    PlanRun run = {.arena = a, .plan = plan, .w = w, .args = args};
    if (!check(plan != NULL, "not lowered")) return run;
    run.prog = plan->programs.data[0];
    const char *why = plan_run(&run);
    check(!why, "%s", why);
    return run;
}

static void compare(const PlanRun *x, const PlanRun *y, EvalValue **want, const IrFunc *f)
{
    for (uint32_t i = 0; i < f->results.n && check_ok; i++) {
        uint32_t b = plan_run_result(x, i), c = plan_run_result(y, i);
        for (int64_t k = 0; k < want[i]->rows * want[i]->width && check_ok; k++) {
            double p = plan_get(x->prog->buffers.data[b].elem, x->data[b], k);
            double q = plan_get(y->prog->buffers.data[c].elem, y->data[c], k);
            check(p == q || (p != p && q != q), "result %s element %lld: %.9g, scalar %.9g", f->results.data[i].name,
                  (long long)k, p, q);
            check(plan_accepts(want[i], k, p), "result %s element %lld: %.9g, wanted %.9g", f->results.data[i].name,
                  (long long)k, p, want[i]->v[k]);
        }
    }
}

static void test_program(const char *name, const char *program, int64_t b, int64_t h, int64_t d)
{
    Arena *a = arena_new();
    Diags diags = {.arena = a};
    const char *why = "";
    int64_t src[] = {0, 1, 2, 3, 4, 0, 3, 3, 1}, dst[] = {0, 0, 0, 1, 1, 3, 3, 3, 4};
    EvalGraph g = {5, 5, 9, src, dst};
    check_begin();
    IrModule *m = module_of(a, program, b, h, d, &diags);
    StrBuf say = {.arena = a};
    diags_print(&diags, &say, false);
    check(m != NULL, "%s", strbuf_cstr(&say));
    EvalWorld *w = m ? eval_world(a, m, &g, NULL, 0, &why) : NULL;
    if (m && check(w != NULL, "no world: %s", why)) {
        const IrFunc *f = m->funcs.data[0];
        EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n);
        GirRng r = {(uint64_t)(b * 10000 + h * 100 + d)};
        for (uint32_t i = 0; i < f->args.n; i++) {
            args[i] = eval_value_new(a, m, w, f->args.data[i].type);
            gir_fill(args[i], &r);
        }
        EvalValue **want = eval_func(a, m, w, f, args, &why);
        PlanRun x = run_plan(a, m, w, args, &diags, NULL), y = run_plan(a, m, w, args, &diags, "schedule");
        if (check(want != NULL, "interpreter: %s", why) && check_ok) compare(&x, &y, want, f);
    }
    check_end(arena_printf(a, "%s: [%lld,%lld,%lld]", name, (long long)b, (long long)h, (long long)d));
    arena_free(a);
}

static void test_sizes(int64_t b, int64_t h, int64_t d)
{
    test_program("lanes", mixed, b, h, d);
    test_program("lanes of one kernel in every order", ordered, b, h, d);
}

int main(void)
{
    static const int64_t inner[] = {1, 2, 3, 4, 5, 8, 16, 20, 37}, heads[] = {1, 2, 3, 4, 7, 8, 16, 33};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) test_sizes((int64_t)k % 3 + 1, heads[k], inner[i]);
    for (int64_t d = 6; d <= 70; d += d < 20 ? 1 : 7) test_sizes(2, 2, d);
    test_sizes(4, 2, 2);
    test_sizes(5, 2, 4);
    test_sizes(8, 4, 2);
    test_sizes(9, 1, 4);
    for (int64_t k = 0; k < 27; k++)
        test_program("small lanes of one kernel in every order", ordered, 2 + k / 9, 2 + k / 3 % 3, 2 + k % 3);
    return check_done();
}
