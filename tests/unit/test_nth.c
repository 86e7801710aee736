/* Elements of a given rank, found without sorting, against their definition: of all pairs of a row, in rows of none,
   one and hundreds of elements, with NaN, both zeros, infinities, numbers of every size and many that are equal, in all
   number types, by features that fill no vector, and for ranks that no element has. */
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/plan_run.h"
#include "tests/unit/plan_text.h"

static const char *const text =
    "module m\ndim F = 37\ndim K = 70\nspace node\nspace edge : edges\n"
    "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\nmap node.all : node -> unit\nmap edge.all : edge "
    "-> unit\n"
    "graph g : data edge(edge.src, edge.dst)\n"
    "tensor x : input edge[F] f32\ntensor y : input edge[K] f64\ntensor i : input edge[F] i64\ntensor j : input edge[] "
    "i32\n"
    "tensor k : input node[F] i64\ntensor h : input node[] i64\n"
    "func forward(x = @x, y = @y, i = @i, j = @j, k = @k, h = @h) {\n"
    "  %0 = arg 0 : edge[F] f32\n  %1 = arg 1 : edge[K] f64\n  %2 = arg 2 : edge[F] i64\n  %3 = arg 3 : edge[] i32\n"
    "  %4 = arg 4 : node[F] i64\n  %5 = arg 5 : node[] i64\n"
    "  %6 = nth %0, %4 via edge.dst : node[F] i64\n  %7 = nth %1, %5 via edge.src : node[K] i64\n"
    "  %8 = nth %2, %4 via edge.dst : node[F] i64\n  %9 = nth %3, %5 via edge.src : node[] i64\n"
    "  %10 = nth %0, %5 via edge.dst : node[F] i64\n  %11 = nth %0, %6 via edge.dst : node[F] i64\n"
    "  return a = %6\n  return b = %7\n  return c = %8\n  return d = %9\n  return e = %10\n  return f = %11\n}\n";

enum { N_NODES = 40, DST = 1, SRC = 0 };

/* Node 3 has most of the edges. */
static EvalWorld *world_of(Arena *a, const IrModule *m, int64_t e)
{
    int64_t *src = ARENA_ARRAY(a, int64_t, e + 1), *dst = ARENA_ARRAY(a, int64_t, e + 1);
    const char *why = "";
    for (int64_t i = 0; i < e; i++) src[i] = i % 7 ? i % 30 : 3, dst[i] = i % 3 ? 3 : i * 7 % 31;
    EvalGraph g = {N_NODES, N_NODES, e, src, dst};
    EvalWorld *w = eval_world(a, m, &g, NULL, 0, &why);
    check(w != NULL, "%s", why);
    return w;
}

static double special(IrDtype t, GirRng *r)
{
    static const double odd[] = {NAN, -NAN, 0.0, -0.0, INFINITY, -INFINITY, 1e-40, -1e-40, 3e38, -3e38, 1, -1};
    static const int64_t least[] = {0, -1, INT32_MIN, INT32_MAX};
    bool few = gir_below(r, 2);
    double x = few ? (int)gir_below(r, 5) - 2.0 : ((int)gir_below(r, 4001) - 2000) / 7.0;
    if (!ir_dtype_is_float(t)) return gir_below(r, 9) ? floor(x) : (double)least[gir_below(r, 4)];
    if (!gir_below(r, 4)) x = odd[gir_below(r, 12)];
    return t == IR_F32 ? (double)(float)x : x;
}

static void fill(EvalValue *v, bool ranks, GirRng *r)
{
    for (int64_t n = 0; n < v->rows * v->width; n++) {
        v->v[n] = ranks ? (double)((int)gir_below(r, 12) - 2) : special(v->type.dtype, r);
        if (ranks && !gir_below(r, 3)) v->v[n] = (double)gir_below(r, 700);
        if (ranks && !gir_below(r, 9)) v->v[n] = 0x1p32 + 1;
    }
}

static bool comes_before(const EvalWorld *w, IrId space, const EvalValue *x, int64_t a, int64_t b, int64_t f)
{
    double p = x->v[a * x->width + f], q = x->v[b * x->width + f];
    if (isnan(p) != isnan(q)) return isnan(q);
    if (!isnan(p) && p != q) return p < q;
    return w->element_ids[space][a] < w->element_ids[space][b];
}

/* By the definition. */
static int64_t nth_of(const EvalWorld *w, const IrModule *m, IrId map, const EvalValue *x, int64_t row, int64_t f,
                      double k)
{
    for (int64_t e = 0; e < x->rows; e++) {
        int64_t rank = 0;
        if (w->maps[map][e] != row) continue;
        for (int64_t other = 0; other < x->rows; other++)
            rank += w->maps[map][other] == row && comes_before(w, m->maps.data[map].from, x, other, e, f);
        if ((double)rank == k) return w->element_ids[m->maps.data[map].from][e];
    }
    return -1;
}

static void check_result(const PlanRun *r, const IrModule *m, uint32_t index, IrId map, const EvalValue *x,
                         const EvalValue *k)
{
    uint32_t b = plan_run_result(r, index);
    if (!check(b != UINT32_MAX, "result %u is never written", index)) return;
    const int64_t *got = r->data[b];
    for (int64_t v = 0; v < N_NODES && check_ok; v++)
        for (int64_t f = 0; f < x->width && check_ok; f += 1 + x->width / 8) {
            double rank = k->v[v * k->width + (k->width > 1 ? f : 0)];
            int64_t wanted = nth_of(r->w, m, map, x, v, f, rank);
            check(got[v * x->width + f] == wanted, "result %u, row %lld, feature %lld, rank %g: %lld, wanted %lld",
                  index, (long long)v, (long long)f, rank, (long long)got[v * x->width + f], (long long)wanted);
        }
}

static void test_nth(const char *name, const char *without)
{
    static const int64_t edges[] = {0, 1, 50, 1100};
    check_begin();
    for (unsigned i = 0; i < 4 && check_ok; i++) {
        Arena *a = arena_new();
        const IrModule *m;
        const HostPlan *plan = plan_of_text(a, text, without, &m);
        EvalWorld *w = plan ? world_of(a, m, edges[i]) : NULL;
        EvalValue *args[6];
        GirRng random = {17 + i};
        for (uint32_t k = 0; k < 6 && w; k++) {
            args[k] = eval_value_new(a, m, w, m->funcs.data[0]->args.data[k].type);
            fill(args[k], k >= 4, &random);
        }
        PlanRun r = {
            .arena = a, .plan = plan, .prog = plan ? plan->programs.data[0] : NULL, .w = w, .args = args, .ahead = 3};
        const char *why = w ? plan_run(&r) : "no plan";
        if (check(!why, "%s", why)) {
            check_result(&r, m, 0, DST, args[0], args[4]);
            check_result(&r, m, 1, SRC, args[1], args[5]);
            check_result(&r, m, 2, DST, args[2], args[4]);
            check_result(&r, m, 3, SRC, args[3], args[5]);
            check_result(&r, m, 4, DST, args[0], args[5]); /* in one walk with the first */
            EvalValue *found = eval_value_new(a, m, w, args[4]->type);
            for (int64_t n = 0; n < found->rows * found->width; n++)
                found->v[n] = (double)((const int64_t *)r.data[plan_run_result(&r, 0)])[n];
            check_result(&r, m, 5, DST, args[0], found); /* not in that walk, which it needs */
            unsigned walks = 0;
            for (uint32_t k = 0; k < r.prog->steps.n; k++) walks += strstr(r.prog->steps.data[k].label, "nth") != NULL;
            check(walks == (without && !strcmp(without, "fuse") ? 6 : 5), "%u searches", walks);
        }
        arena_free(a);
    }
    check_end(name);
}

int main(void)
{
    test_nth("nth: by its definition", NULL);
    test_nth("nth: without vectors", "schedule");
    test_nth("nth: without groups", "fuse");
    return check_done();
}
