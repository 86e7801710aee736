/* Gradients of every op against central differences in the interpreter, in f64, on a small graph
   with an empty row, parallel edges and loops; then second derivatives the same way; the same again
   behind the whole pipeline; ties, blocked paths, and gradients by values that other ops alias. */
#include "ir/eval.h"
#include "passes/rewrite/rewrite.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <math.h>

static const char preamble[] =
    "module m\n"
    "dim F = 3\ndim O = 2\ndim FO = 6\ndim P = 2\ndim Q = 1\ndim R = 5\n"
    "space node\nspace edge : edges\nspace edge.loops : edges\n"
    "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\n"
    "map loops.src : edge.loops -> node\nmap loops.dst : edge.loops -> node sorted\n"
    "map loops.orig : edge.loops -> edge partial inverse loops.image\n"
    "map loops.image : edge -> edge.loops partial inverse loops.orig\n"
    "map node.all : node -> unit\nmap edge.all : edge -> unit\n"
    "graph data : data edge(edge.src, edge.dst)\n"
    "graph loops : self_loops(data, keep) edge.loops(loops.src, loops.dst) orig loops.orig image "
    "loops.image\n"
    "tensor x : input node[F] f64\ntensor z : input node[F] f64\ntensor e : input edge[F] f64\n"
    "tensor w : input [F,O] f64\ntensor s : input [] f64\ntensor v : input [F] f64\n"
    "tensor q : input node[F] f64\ntensor h : input node[O,F] f64\n"
    "func f(x = @x, z = @z, e = @e, w = @w, s = @s, v = @v, q = @q, h = @h) {\n"
    "  %0 = arg 0 : node[F] f64\n  %1 = arg 1 : node[F] f64\n  %2 = arg 2 : edge[F] f64\n"
    "  %3 = arg 3 : [F,O] f64\n  %4 = arg 4 : [] f64\n  %5 = arg 5 : [F] f64\n"
    "  %6 = arg 6 : node[F] f64\n  %7 = arg 7 : node[O,F] f64\n";
enum { N_ARGS = 8, ARG_POSITIVE = 6 }; /* q > 0 everywhere; the others have both signs */

/* 5 nodes; node 4 has no in-edge, node 3 no out-edge; 0->1 twice; loops at 2. Sorted by
 * destination. */
static const int64_t edge_src[] = {1, 0, 0, 4, 2, 1, 2};
static const int64_t edge_dst[] = {0, 1, 1, 2, 2, 3, 3};
static const EvalGraph graph = {5, 5, 7, edge_src, edge_dst};

typedef struct Case {
    const char *name, *body; /* the last op is what is differentiated */
} Case;

static const Case cases[] = {
    {"neg", "%8 = neg %0 : node[F] f64\n"},
    {"abs", "%8 = abs %0 : node[F] f64\n"},
    {"sign", "%8 = sign %0 : node[F] f64\n%9 = mul %8, %0 : node[F] f64\n"},
    {"floor", "%8 = floor %0 : node[F] f64\n%9 = mul %8, %0 : node[F] f64\n"},
    {"exp", "%8 = exp %0 : node[F] f64\n"},
    {"expm1", "%8 = expm1 %0 : node[F] f64\n"},
    {"log", "%8 = log %6 : node[F] f64\n"},
    {"log1p", "%8 = log1p %6 : node[F] f64\n"},
    {"sqrt", "%8 = sqrt %6 : node[F] f64\n"},
    {"tanh", "%8 = tanh %0 : node[F] f64\n"},
    {"sigmoid", "%8 = sigmoid %0 : node[F] f64\n"},
    {"erf", "%8 = erf %0 : node[F] f64\n"},
    {"sin", "%8 = sin %0 : node[F] f64\n"},
    {"cos", "%8 = cos %0 : node[F] f64\n"},
    {"add", "%8 = add %0, %1 : node[F] f64\n%9 = add %8, %4 : node[F] f64\n%10 = mul %9, %9 : "
            "node[F] f64\n"},
    {"sub", "%8 = sub %5, %0 : node[F] f64\n%9 = sub %8, %4 : node[F] f64\n%10 = mul %9, %9 : "
            "node[F] f64\n"},
    {"mul", "%8 = mul %0, %1 : node[F] f64\n"},
    {"mul scalar", "%8 = mul %4, %0 : node[F] f64\n"},
    {"mul by dims", "%8 = mul %3, %5 : [F,O] f64\n"},
    {"mul across orders", "%8 = mul %3, %7 : node[F,O] f64\n"},
    {"unary that permutes", "%8 = sin %7 : node[F,O] f64\n%9 = mul %8, %3 : node[O,F] f64\n"},
    {"mul of itself", "%8 = mul %0, %0 : node[F] f64\n%9 = mul %8, %0 : node[F] f64\n"},
    {"div", "%8 = div %0, %6 : node[F] f64\n"},
    {"div broadcast", "%8 = div %3, %6 : node[F,O] f64\n"},
    {"pow", "%8 = pow %6, %0 : node[F] f64\n"},
    {"pow const", "%8 = const 3 : [] f64\n%9 = pow %0, %8 : node[F] f64\n"},
    {"pow of a sum", "%8 = const 2 : [] f64\n%9 = reduce_sum %2 via edge.dst : node[F] f64\n"
                     "%10 = pow %9, %8 : node[F] f64\n"},
    {"min", "%8 = min %0, %1 : node[F] f64\n"},
    {"max", "%8 = max %0, %5 : node[F] f64\n"},
    {"select", "%8 = lt %0, %1 : node[F] bool\n%9 = select %8, %6, %3 : node[F,O] f64\n"
               "%10 = mul %9, %9 : node[F,O] f64\n"},
    {"select by row", "%8 = mapped via loops.orig : edge.loops[] bool\n%9 = gather %0 via loops.src : edge.loops[F] "
                      "f64\n"
                      "%10 = select %8, %9, %5 : edge.loops[F] f64\n%11 = exp %10 : edge.loops[F] f64\n"},
    {"cast", "%8 = sin %0 : node[F] f64\n%9 = cast %8 : node[F] f32\n%10 = cast %9 : node[F] f64\n"},
    {"reshape", "%8 = reshape %3 : [FO] f64\n%9 = exp %8 : [FO] f64\n"},
    {"transpose", "%8 = transpose %3 : [O,F] f64\n%9 = mul %7, %8 : node[O,F] f64\n"},
    {"slice", "%8 = slice %0 dim F at 1 : node[P] f64\n%9 = exp %8 : node[P] f64\n"},
    {"slice in front", "%8 = slice %0 dim F at 0 : node[Q] f64\n%9 = exp %8 : node[Q] f64\n"},
    {"slice of rows", "%8 = slice %3 dim F at 1 : [P,O] f64\n%9 = exp %8 : [P,O] f64\n"},
    {"concat", "%8 = slice %1 dim F at 1 : node[P] f64\n%9 = concat %0, %8 dim R : node[R] f64\n"
               "%10 = mul %9, %9 : node[R] f64\n"},
    {"at of a table", "%8 = row : node[] i64\n%9 = at %3, %8 dim F : node[O] f64\n%10 = exp %9 : node[O] f64\n"},
    {"at outside", "%8 = element : edge[] i64\n%9 = gather %7 via edge.dst : edge[O,F] f64\n"
                   "%10 = at %9, %8 dim O : edge[F] f64\n%11 = mul %10, %2 : edge[F] f64\n"},
    {"at of each row", "%8 = row : node[] i64\n%9 = at %7, %8 dim F : node[O] f64\n%10 = mul %9, %9 : node[O] f64\n"},
    {"at by dims", "%8 = iota dim P : [P] i64\n%9 = row : node[] i64\n%10 = add %9, %8 : node[P] i64\n"
                   "%11 = at %3, %10 dim F : node[P,O] f64\n%12 = mul %11, %11 : node[P,O] f64\n"},
    {"at by shared dims",
     "%8 = iota dim O : [O] i64\n%9 = at %7, %8 dim F : node[O] f64\n%10 = exp %9 : node[O] f64\n"},
    {"sum_dims", "%8 = sum_dims %0 : node[] f64\n%9 = exp %8 : node[] f64\n"},
    {"sum_dims keeps one", "%8 = sum_dims %7 : node[O] f64\n%9 = exp %8 : node[O] f64\n"},
    {"max_dims", "%8 = max_dims %0 : node[] f64\n%9 = mul %8, %8 : node[] f64\n"},
    {"min_dims", "%8 = min_dims %7 : node[F] f64\n%9 = exp %8 : node[F] f64\n"},
    {"matmul", "%8 = contract %0, %3 : node[O] f64\n%9 = mul %8, %8 : node[O] f64\n"},
    {"dot", "%8 = contract %0, %1 : node[] f64\n%9 = mul %8, %8 : node[] f64\n"},
    {"dot keeps one", "%8 = contract %7, %0 : node[O] f64\n%9 = mul %8, %8 : node[O] f64\n"},
    {"outer", "%8 = contract %0, %7 : [O] f64\n%9 = mul %8, %8 : [O] f64\n"},
    {"outer keeps two", "%8 = contract %7, %0 : [F,O] f64\n%9 = mul %8, %8 : [F,O] f64\n"},
    {"contract of parameters", "%8 = contract %5, %3 : [O] f64\n%9 = exp %8 : [O] f64\n"},
    {"contract with a batch", "%8 = contract %7, %3 : node[O] f64\n%9 = exp %8 : node[O] f64\n"},
    {"contract without a sum", "%8 = contract %0, %3 : node[O,F] f64\n%9 = exp %8 : node[O,F] f64\n"},
    {"contract over own dims", "%8 = contract %0, %3 : node[F] f64\n%9 = mul %8, %8 : node[F] f64\n"},
    {"contract over one's rows", "%8 = contract %0, %3 : [O] f64\n%9 = mul %8, %8 : [O] f64\n"},
    {"gather src", "%8 = gather %0 via edge.src : edge[F] f64\n%9 = mul %8, %2 : edge[F] f64\n"},
    {"gather dst", "%8 = gather %0 via edge.dst : edge[F] f64\n%9 = mul %8, %8 : edge[F] f64\n"},
    {"gather unit", "%8 = gather %5 via node.all : node[F] f64\n%9 = mul %8, %0 : node[F] f64\n"},
    {"gather partial", "%8 = gather %2 via loops.orig : edge.loops[F] f64\n%9 = exp %8 : edge.loops[F] f64\n"},
    {"gather image", "%8 = gather %0 via loops.dst : edge.loops[F] f64\n%9 = exp %8 : edge.loops[F] f64\n"
                     "%10 = gather %9 via loops.image : edge[F] f64\n%11 = mul %10, %2 : edge[F] f64\n"},
    {"reduce_sum dst", "%8 = reduce_sum %2 via edge.dst : node[F] f64\n%9 = mul %8, %8 : node[F] f64\n"},
    {"reduce_sum src", "%8 = reduce_sum %2 via edge.src : node[F] f64\n%9 = exp %8 : node[F] f64\n"},
    {"reduce_sum all", "%8 = reduce_sum %2 via edge.all : [F] f64\n%9 = exp %8 : [F] f64\n"},
    {"reduce_sum partial", "%8 = gather %0 via loops.src : edge.loops[F] f64\n"
                           "%9 = reduce_sum %8 via loops.orig : edge[F] f64\n%10 = exp %9 : edge[F] f64\n"},
    {"reduce_max", "%8 = reduce_max %2 via edge.dst empty 0 : node[F] f64\n%9 = exp %8 : node[F] f64\n"},
    {"reduce_min", "%8 = reduce_min %2 via edge.src empty 3 : node[F] f64\n%9 = exp %8 : node[F] f64\n"},
    {"reduce_max all", "%8 = reduce_max %2 via edge.all empty 0 : [F] f64\n%9 = exp %8 : [F] f64\n"},
    {"reduce_mul", "%8 = reduce_mul %2 via edge.dst : node[F] f64\n%9 = mul %8, %0 : node[F] f64\n"},
    {"reduce_mul all", "%8 = reduce_mul %2 via edge.all : [F] f64\n%9 = mul %8, %5 : [F] f64\n"},
    {"softmax of a row", "%8 = reduce_max %2 via edge.dst empty -inf : node[F] f64\n"
                         "%9 = gather %8 via edge.dst : edge[F] f64\n%10 = sub %2, %9 : edge[F] f64\n"
                         "%11 = exp %10 : edge[F] f64\n%12 = reduce_sum %11 via edge.dst : node[F] f64\n"
                         "%13 = gather %12 via edge.dst : edge[F] f64\n%14 = div %11, %13 : edge[F] f64\n"
                         "%15 = gather %0 via edge.src : edge[F] f64\n%16 = mul %14, %15 : edge[F] f64\n"
                         "%17 = reduce_sum %16 via edge.dst : node[F] f64\n"},
    {"norm of a row", "%8 = sum_dims %0 : node[] f64\n%9 = const 0.3333333333333333 : [] f64\n"
                      "%10 = mul %8, %9 : node[] f64\n%11 = sub %0, %10 : node[F] f64\n"
                      "%12 = contract %11, %11 : node[] f64\n%13 = const 0.01 : [] f64\n"
                      "%14 = add %12, %13 : node[] f64\n%15 = sqrt %14 : node[] f64\n"
                      "%16 = div %11, %15 : node[F] f64\n%17 = mul %16, %5 : node[F] f64\n"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* ---- building the functions --------------------------------------------------------------------- */

static IrModule *parse_case(Arena *a, const char *body, Diags *d)
{
    StrBuf text = {.arena = a};
    strbuf_puts(&text, preamble);
    strbuf_puts(&text, body);
    strbuf_printf(&text, "  return y = %%0\n}\n");
    Source *source = ARENA_NEW(a, Source);
    *source = (Source){.path = "case.gir", .text = strbuf_cstr(&text), .n = (uint32_t)text.n};
    return ir_parse(a, source, d);
}

/* The sum over everything of v times an argument of v's type, which is added. */
static IrId weighted_sum(Build *b, IrId v)
{
    IrArg arg = {.name = arena_printf(b->m->arena, "c%u", b->f->args.n), .ref = b->m->tensors.n};
    arg.type = irb_type(b, v);
    IrTensor tensor = {.name = arg.name, .kind = IR_INPUT, .type = arg.type};
    for (uint8_t i = 0; i < arg.type.n_dims; i++) tensor.stored_perm[i] = i;
    VEC_PUSH(b->m->arena, &b->m->tensors, tensor);
    IrId c = ir_arg(b->m, b->f, arg);
    return irb_fit(b, irb_map2(b, IR_OP_mul, v, c), ir_scalar(IR_F64));
}

static IrId add_grad(Build *b, IrId y, IrId x)
{
    return ir_add(b->m, b->f, IR_OP_grad, irb_type(b, x), (IrId[]){y, x}, 2, (IrAttr){0}, b->span);
}

/* Results: loss, then its gradient by each of the N_ARGS arguments. order 2: the loss is the
   weighted sum of all gradients of the first loss. */
static const IrModule *with_grads(Arena *a, const char *body, int order, Diags *d)
{
    IrModule *m = parse_case(a, body, d);
    if (!m) return NULL;
    IrFunc *f = m->funcs.data[0];
    Build b = {.m = m, .f = f};
    IrId loss = weighted_sum(&b, f->ops.n - 1);
    if (order == 2) {
        IrId sum = IR_NONE, grads[N_ARGS];
        for (IrId x = 0; x < N_ARGS; x++) grads[x] = add_grad(&b, loss, x);
        for (IrId x = 0; x < N_ARGS; x++) {
            IrId part = weighted_sum(&b, grads[x]);
            sum = x ? irb_map2(&b, IR_OP_add, sum, part) : part;
        }
        loss = sum;
    }
    f->results.n = 0;
    ir_result(m, f, "loss", loss, IR_NONE);
    for (IrId x = 0; x < N_ARGS; x++) ir_result(m, f, arena_printf(a, "g%u", x), add_grad(&b, loss, x), IR_NONE);
    return m;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double noise(uint32_t *state) /* in (-1, 1), away from 0 */
{
    *state = *state * 1664525u + 1013904223u;
    double u = (double)(*state >> 8) / 16777216.0;
    return u < 0.5 ? -0.15 - 1.6 * u : 0.15 + 1.6 * (u - 0.5);
}

static EvalValue **draw_args(Arena *a, const IrModule *m, const EvalWorld *w, const IrFunc *f)
{
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n);
    uint32_t state = 12345;
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        for (int64_t k = 0; k < args[i]->rows * args[i]->width; k++) {
            double x = noise(&state);
            args[i]->v[k] = i == ARG_POSITIVE ? fabs(x) + 0.3 : x;
        }
    }
    return args;
}

static const IrModule *run_passes(Arena *a, const IrModule *m, const char *list, Diags *d)
{
    PassContext ctx = pass_context(a, d);
    ctx.verify = PASS_VERIFY_ROUNDTRIP;
    if (!ir_verify(m, d)) return NULL;
    if (list && !pass_option_run(&ctx, list)) return NULL;
    return pass_run_pipeline(&ctx, m);
}

typedef struct Bench { /* one case, ready to be evaluated */
    Arena *a;
    const IrModule *m;
    const EvalWorld *world;
    EvalValue **args;
} Bench;

static bool bench_new(Bench *b, Arena *a, const char *body, int order, const char *list)
{
    Diags d = {.arena = a};
    const char *why = "no module";
    const IrModule *m = with_grads(a, body, order, &d);
    *b = (Bench){.a = a, .m = m ? run_passes(a, m, list, &d) : NULL};
    if (b->m) b->world = eval_world(a, b->m, &graph, NULL, 0, &why);
    if (b->world) b->args = draw_args(a, b->m, b->world, b->m->funcs.data[0]);
    StrBuf text = {.arena = a};
    diags_print(&d, &text, false);
    return check(b->args != NULL, "%s %s", strbuf_cstr(&text), why);
}

static EvalValue **bench_run(const Bench *b, Arena *a)
{
    const char *why = "";
    EvalValue **r = eval_func(a, b->m, b->world, b->m->funcs.data[0], b->args, &why);
    check(r != NULL, "eval: %s", why);
    return r;
}

/* (loss(x + h) - loss(x - h)) / 2h at element k of argument i. */
static double difference(const Bench *b, uint32_t i, int64_t k)
{
    const double h = 1e-5;
    double at[2], x = b->args[i]->v[k];
    for (int side = 0; side < 2; side++) {
        Arena *a = arena_new();
        b->args[i]->v[k] = side ? x + h : x - h;
        EvalValue **r = bench_run(b, a);
        at[side] = r ? r[0]->v[0] : NAN;
        arena_free(a);
    }
    b->args[i]->v[k] = x;
    return (at[1] - at[0]) / (2 * h);
}

static void check_case(const Case *c, int order)
{
    Arena *a = arena_new();
    Bench b;
    check_begin();
    /* The function that is differenced holds the gradients too; only its loss is read. */
    EvalValue **r = bench_new(&b, a, c->body, order, "autodiff") ? bench_run(&b, a) : NULL;
    for (uint32_t i = 0; r && i < N_ARGS; i++)
        for (int64_t k = 0; k < b.args[i]->rows * b.args[i]->width; k++) {
            double g = r[1 + i]->v[k], wanted = difference(&b, i, k);
            check(fabs(g - wanted) <= 1e-6 * fmax(1, fabs(wanted)),
                  "by argument %u element %d: %.10g, difference %.10g", i, (int)k, g, wanted);
        }
    check_end(arena_printf(a, "autodiff order %d: %s", order, c->name));
    arena_free(a);
}

/* Every subset of passes that keeps autodiff computes the same. */
static void check_passes(const Case *c, const char *list)
{
    Arena *a = arena_new();
    Bench plain, b;
    check_begin();
    bool ready = bench_new(&plain, a, c->body, 2, "autodiff") && bench_new(&b, a, c->body, 2, list);
    EvalValue **wanted = ready ? bench_run(&plain, a) : NULL, **found = wanted ? bench_run(&b, a) : NULL;
    for (uint32_t i = 0; found && i <= N_ARGS; i++)
        for (int64_t k = 0; k < wanted[i]->rows * wanted[i]->width; k++) {
            double x = found[i]->v[k], y = wanted[i]->v[k];
            check(fabs(x - y) <= 1e-12 * fmax(1, fabs(y)), "result %u element %d: %.17g, wanted %.17g", i, (int)k, x,
                  y);
        }
    check_end(arena_printf(a, "passes keep numbers: %s: %s", list ? list : "pipeline", c->name));
    arena_free(a);
}

/* ---- single values ----------------------------------------------------------------------------------------------- */

/* Results of `body` (numbered from %8, returns included) behind `list` and the rest of autodiff. */
static EvalValue **run_body(Arena *a, const char *body, const char *list, void (*set)(EvalValue **args))
{
    Diags d = {.arena = a};
    const char *why = "";
    StrBuf text = {.arena = a};
    strbuf_puts(&text, preamble);
    strbuf_puts(&text, body);
    strbuf_puts(&text, "}\n");
    Source source = {.path = "case.gir", .text = strbuf_cstr(&text), .n = (uint32_t)text.n};
    const IrModule *m = ir_parse(a, &source, &d);
    if (m) m = run_passes(a, m, list, &d);
    StrBuf bad = {.arena = a};
    diags_print(&d, &bad, false);
    if (!check(m != NULL, "%s", strbuf_cstr(&bad))) return NULL;
    const EvalWorld *w = eval_world(a, m, &graph, NULL, 0, &why);
    if (!check(w != NULL, "%s", why)) return NULL;
    EvalValue **args = draw_args(a, m, w, m->funcs.data[0]);
    if (set) set(args);
    EvalValue **r = eval_func(a, m, w, m->funcs.data[0], args, &why);
    check(r != NULL, "%s", why);
    return r;
}

static void set_ties(EvalValue **args)
{
    for (int k = 0; k < 7 * 3; k++) args[2]->v[k] = 1;                 /* e: all tie */
    for (int k = 0; k < 5 * 3; k++) args[0]->v[k] = args[1]->v[k] = 2; /* x = z */
}

static void test_ties(Arena *a)
{
    check_begin();
    EvalValue **r = run_body(a,
                             "%8 = reduce_max %2 via edge.dst empty 0 : node[F] f64\n"
                             "%9 = max %0, %1 : node[F] f64\n%10 = max_dims %0 : node[] f64\n"
                             "%11 = sum_dims %8 : node[] f64\n%12 = sum_dims %9 : node[] f64\n"
                             "%13 = add %11, %12 : node[] f64\n%14 = add %13, %10 : node[] f64\n"
                             "%15 = reduce_sum %14 via node.all : [] f64\n"
                             "%16 = grad %15, %2 : edge[F] f64\n%17 = grad %15, %0 : node[F] f64\n"
                             "return e = %16\nreturn x = %17\n",
                             NULL, set_ties);
    static const double row_share[] = {1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    for (int k = 0; r && k < 21; k++) CHECK(r[0]->v[k] == row_share[k / 3]);
    for (int k = 0; r && k < 15; k++) CHECK(fabs(r[1]->v[k] - (0.5 + 1.0 / 3)) < 1e-15);
    check_end("autodiff: ties share evenly");
}

static void set_zeros(EvalValue **args)
{
    /* rows by destination: {0}, {1,2}, {3,4}, {5,6}; feature 0: no zero in {1,2}; 1: one; 2: two */
    for (int e = 0; e < 7; e++)
        for (int k = 0; k < 3; k++) args[2]->v[e * 3 + k] = 2 + e;
    args[2]->v[1 * 3 + 1] = 0;
    args[2]->v[1 * 3 + 2] = args[2]->v[2 * 3 + 2] = 0;
}

static void test_zeros(Arena *a)
{
    check_begin();
    EvalValue **r = run_body(a,
                             "%8 = reduce_mul %2 via edge.dst : node[F] f64\n%9 = sum_dims %8 : node[] f64\n"
                             "%10 = reduce_sum %9 via node.all : [] f64\n%11 = grad %10, %2 : edge[F] f64\n"
                             "return e = %11\n",
                             NULL, set_zeros);
    static const double wanted[7][3] = {{1, 1, 1}, {4, 4, 0}, {3, 0, 0}, {6, 6, 6}, {5, 5, 5}, {8, 8, 8}, {7, 7, 7}};
    for (int k = 0; r && k < 21; k++) CHECK(r[0]->v[k] == wanted[k / 3][k % 3]);
    check_end("autodiff: products with zeros");
}

static void test_blocked(Arena *a)
{
    check_begin();
    EvalValue **r = run_body(a,
                             "%8 = detach %4 : [] f64\n%9 = mul %8, %4 : [] f64\n%10 = grad %9, %4 : [] f64\n"
                             "%11 = grad %9, %5 : [F] f64\n%12 = grad %4, %4 : [] f64\n"
                             "return s = %10\nreturn v = %11\nreturn one = %12\nreturn x = %8\n",
                             NULL, NULL);
    if (r) {
        CHECK(r[0]->v[0] == r[3]->v[0]);
        CHECK(r[1]->v[0] == 0 && r[1]->v[2] == 0);
        CHECK(r[2]->v[0] == 1);
    }
    check_end("autodiff: detach, no path, itself");
}

/* d(s t)/dt where t = s * 1 is s, however t is computed; simplify and cse must not merge t and s. */
static void test_aliases(Arena *a)
{
    static const char body[] = "%8 = const 1 : [] f64\n%9 = mul %4, %8 : [] f64\n%10 = mul %4, %9 : [] f64\n"
                               "%11 = grad %10, %9 : [] f64\n%12 = neg %4 : [] f64\n%13 = neg %12 : [] f64\n"
                               "%14 = grad %13, %12 : [] f64\n%15 = exp %4 : [] f64\n%16 = exp %4 : [] f64\n"
                               "%17 = mul %15, %16 : [] f64\n%18 = grad %17, %16 : [] f64\n"
                               "return t = %11\nreturn m = %14\nreturn e = %18\nreturn s = %4\n";
    check_begin();
    static const char *const lists[] = {"autodiff", "simplify,cse,dce,autodiff", NULL};
    for (int i = 0; i < 3; i++) {
        EvalValue **r = run_body(a, body, lists[i], NULL);
        if (!r) continue;
        CHECK(r[0]->v[0] == r[3]->v[0]);
        CHECK(r[1]->v[0] == -1);
        check(fabs(r[2]->v[0] - exp(r[3]->v[0])) < 1e-15, "list %d: %.17g, wanted %.17g", i, r[2]->v[0],
              exp(r[3]->v[0]));
    }
    check_end("autodiff: a variable is no alias of its definition");
}

/* grad by an intermediate and of a gradient: y = s^3, d2y/ds2 = 6 s. */
static void test_nested(Arena *a)
{
    check_begin();
    EvalValue **r = run_body(a,
                             "%8 = mul %4, %4 : [] f64\n%9 = mul %8, %4 : [] f64\n%10 = grad %9, %4 : [] f64\n"
                             "%11 = grad %10, %4 : [] f64\n%12 = grad %11, %4 : [] f64\n%13 = grad %9, %8 : [] f64\n"
                             "return a = %10\nreturn b = %11\nreturn c = %12\nreturn d = %13\nreturn s = %4\n",
                             NULL, NULL);
    if (r) {
        double s = r[4]->v[0];
        CHECK(fabs(r[0]->v[0] - 3 * s * s) < 1e-15);
        CHECK(fabs(r[1]->v[0] - 6 * s) < 1e-14);
        CHECK(r[2]->v[0] == 6);
        CHECK(r[3]->v[0] == s);
    }
    check_end("autodiff: gradients of gradients, by intermediates");
}

static void set_bases(EvalValue **args)
{
    args[0]->v[0] = 0, args[0]->v[1] = 0, args[0]->v[2] = -2;
    args[1]->v[0] = 0, args[1]->v[1] = 2, args[1]->v[2] = 3;
}

/* pow at 0 and of a negative base: p x^(p-1), and nothing by p. */
static void test_pow_edges(Arena *a)
{
    check_begin();
    EvalValue **r = run_body(a,
                             "%8 = pow %0, %1 : node[F] f64\n%9 = slice %8 dim F at 0 : node[Q] f64\n"
                             "%10 = sum_dims %8 : node[] f64\n%11 = reduce_sum %10 via node.all : [] f64\n"
                             "%12 = grad %11, %0 : node[F] f64\n%13 = grad %11, %1 : node[F] f64\n"
                             "return x = %12\nreturn p = %13\n",
                             NULL, set_bases);
    if (r) {
        CHECK(r[0]->v[0] == 0 && r[0]->v[1] == 0 && fabs(r[0]->v[2] - 12) < 1e-12);
        CHECK(r[1]->v[0] == 0 && r[1]->v[1] == 0 && r[1]->v[2] == 0);
    }
    check_end("autodiff: pow at zero and below");
}

int main(void)
{
    Arena *a = arena_new();
    for (int i = 0; i < N_CASES; i++) {
        check_case(&cases[i], 1);
        check_case(&cases[i], 2);
        check_passes(&cases[i], NULL);
        check_passes(&cases[i], "simplify,autodiff");
        check_passes(&cases[i], "cse,autodiff,dce,simplify,simplify,cse");
    }
    test_ties(a);
    test_zeros(a);
    test_blocked(a);
    test_aliases(a);
    test_nested(a);
    test_pow_edges(a);
    arena_free(a);
    return check_done();
}
