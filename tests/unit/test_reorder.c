/* The pass `reorder` changes the order of work and no result: random programs over every op, and random message
   functions that its rules are about, with their gradients, give the same numbers by the interpreter before and behind
   it, within both bounds, on graphs with empty rows, loops, parallel edges, a hub, one node and no edges. What was
   finite stays so. The pass finds nothing more to do in what it made. The same programs go through `layout`, of which
   the same is wanted. usage: test_reorder [FIRST_SEED] */
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"

enum { N_RANDOM = 300, N_MESSAGES = 400 };

typedef struct Tally {
    uint64_t elements, undecided, changed, turned;
} Tally;

/* ---- running ---- */

static const IrModule *run_passes(Arena *a, const IrModule *m, const char *list)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    bool ok = ir_verify(m, &d) && pass_option_run(&ctx, list);
    const IrModule *done = ok ? pass_run_pipeline(&ctx, m) : NULL;
    StrBuf text = {.arena = a};
    diags_print(&d, &text, false);
    check(done != NULL, "%s", strbuf_cstr(&text));
    return done;
}

static EvalValue **evaluate(Arena *a, const IrModule *m, uint32_t which, uint64_t seed)
{
    int64_t *graph_of, n_graphs;
    const char *why = "";
    EvalGraph g = gir_graph(a, which, &graph_of, &n_graphs);
    EvalWorld *w = eval_world(a, m, &g, graph_of, n_graphs, &why);
    if (!check(w != NULL, "%s", why)) return NULL;
    const IrFunc *f = m->funcs.data[0];
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    for (uint32_t i = 0; i < f->args.n; i++) {
        GirRng r = {seed * 64 + i};
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        gir_fill(args[i], &r);
    }
    EvalValue **results = eval_func(a, m, w, f, args, &why);
    check(results != NULL, "%s", why);
    return results;
}

static bool agrees(const EvalValue *x, const EvalValue *y, int64_t k)
{
    if (x->undecided[k] || y->undecided[k]) return true;
    double p = x->v[k], q = y->v[k];
    if (isnan(p) || isinf(p)) return true; /* what was not finite may become anything */
    return fabs(p - q) <= x->err[k] + y->err[k] + 1e-300;
}

static void compare(Arena *a, const IrModule *before, const IrModule *after, uint32_t graph, uint64_t seed, Tally *t)
{
    EvalValue **x = evaluate(a, before, graph, seed), **y = evaluate(a, after, graph, seed);
    const IrFunc *f = before->funcs.data[0];
    for (uint32_t i = 0; x && y && i < f->results.n && check_ok; i++)
        for (int64_t k = 0; k < x[i]->rows * x[i]->width; k++) {
            t->elements++;
            t->undecided += x[i]->undecided[k] || y[i]->undecided[k];
            if (agrees(x[i], y[i], k)) continue;
            StrBuf text = {.arena = a};
            ir_print(before, &text);
            strbuf_puts(&text, "------ becomes\n");
            ir_print(after, &text);
            fputs(strbuf_cstr(&text), stdout);
            check(false, "seed %llu, graph %u, result %s, element %d: %.17g +- %.3g, wanted %.17g +- %.3g",
                  (unsigned long long)seed, graph, f->results.data[i].name, (int)k, y[i]->v[k], y[i]->err[k],
                  x[i]->v[k], x[i]->err[k]);
            break;
        }
}

static const char *text_of(Arena *a, const IrModule *m)
{
    StrBuf text = {.arena = a};
    ir_print(m, &text);
    return strbuf_cstr(&text);
}

/* Before autodiff and behind it; then nothing is left to do. */
static void check_module(Arena *a, const IrModule *m, uint64_t seed, Tally *t)
{
    const IrModule *plain = run_passes(a, m, "autodiff");
    const IrModule *once = run_passes(a, m, "simplify,cse,dce,reorder,autodiff,simplify,cse,dce,reorder");
    const IrModule *twice = once ? run_passes(a, once, "reorder") : NULL;
    const IrModule *without = run_passes(a, m, "simplify,cse,dce,autodiff,simplify,cse,dce");
    const IrModule *turned = without ? run_passes(a, without, "layout") : NULL;
    if (!plain || !once || !twice || !without || !turned) return;
    t->turned += strcmp(text_of(a, turned), text_of(a, without)) != 0;
    compare(a, plain, turned, (uint32_t)(seed % GIR_N_GRAPHS), seed + 2, t);
    check(!strcmp(text_of(a, once), text_of(a, twice)), "seed %llu: not done:\n%s", (unsigned long long)seed,
          text_of(a, once));
    t->changed += strcmp(text_of(a, once), text_of(a, without)) != 0;
    compare(a, plain, once, (uint32_t)(seed % GIR_N_GRAPHS), seed, t);
    compare(a, plain, once, (uint32_t)((seed / 7) % 4), seed + 1, t);
}

/* ---- message functions ---- */

enum { NODE = 1, EDGE };
enum { SRC, DST, NODE_ALL, EDGE_ALL };
enum { F, K, D, O, FO };

typedef struct Message {
    Build b;
    GirRng r;
    IrId x, s, e, w, far; /* node[F], node[], edge[K], edge[], node[O] */
} Message;

static IrId arg(Message *g, const char *name, IrType type)
{
    IrTensor t = {.name = name, .kind = IR_INPUT, .type = type};
    for (uint8_t k = 0; k < type.n_dims; k++) t.stored_perm[k] = k;
    VEC_PUSH(g->b.m->arena, &g->b.m->tensors, t);
    return ir_arg(g->b.m, g->b.f, (IrArg){.name = name, .ref = g->b.m->tensors.n - 1, .type = type});
}

static IrType type_of(IrId space, uint8_t n, IrId first, IrId second)
{
    return (IrType){.space = space, .dtype = IR_F64, .n_dims = n, .dims = {first, second}};
}

static IrId weight(Message *g, IrId from, IrId to)
{
    const char *name = arena_printf(g->b.m->arena, "W%u", g->b.m->tensors.n);
    return arg(g, name, type_of(IR_UNIT, 2, from, to));
}

static IrId product(Message *g, IrId x, IrId from)
{
    IrType t = type_of(irb_type(&g->b, x).space, 1, O, 0);
    return ir_add(g->b.m, g->b.f, IR_OP_contract, t, (IrId[]){x, weight(g, from, O)}, 2, (IrAttr){0}, g->b.span);
}

static IrId end(Message *g) { return gir_below(&g->r, 2) ? SRC : DST; }

/* Per edge of a row: infinite, were it asked of a row without. */
static IrId share(Message *g)
{
    Build *b = &g->b;
    IrId count = irb_reduce(b, IR_OP_reduce_sum, DST, irb_const(b, type_of(EDGE, 0, 0, 0), 1), 0);
    return irb_gather(b, DST, irb_map2(b, IR_OP_div, irb_scalar(b, IR_F64, 1), count));
}

static IrId number(Message *g)
{
    if (gir_below(&g->r, 4) == 0) return share(g);
    if (gir_below(&g->r, 3) == 0) return g->w;
    return irb_gather(&g->b, end(g), g->s);
}

/* Per edge a mixture of K linear maps of an end: the coefficients times gathered products. */
static IrId mixture(Message *g)
{
    Build *b = &g->b;
    IrType three = type_of(IR_UNIT, 2, F, K), both = type_of(NODE, 2, K, O);
    three.dims[three.n_dims++] = O;
    IrId w = arg(g, arena_printf(b->m->arena, "W%u", b->m->tensors.n), three), c = g->e;
    if (gir_below(&g->r, 2)) c = irb_map1(b, IR_OP_sin, c);
    if (gir_below(&g->r, 3) == 0) c = irb_map2(b, IR_OP_mul, number(g), c);
    IrId y = ir_add(b->m, b->f, IR_OP_contract, both, (IrId[]){g->x, w}, 2, (IrAttr){0}, b->span);
    y = irb_gather(b, end(g), y);
    if (gir_below(&g->r, 3))
        return ir_add(b->m, b->f, IR_OP_contract, type_of(EDGE, 1, O, 0), (IrId[]){c, y}, 2, (IrAttr){0}, b->span);
    return irb_unary(b, IR_OP_sum_dims, type_of(EDGE, 1, O, 0), irb_map2(b, IR_OP_mul, c, y), (IrAttr){0});
}

/* A matrix of each edge's own, linear in what the edge has, in one of the forms that a program may give it. */
static IrId matrix(Message *g)
{
    Build *b = &g->b;
    IrType flat = type_of(EDGE, 1, FO, 0), square = type_of(EDGE, 2, F, O), w = type_of(IR_UNIT, 2, K, FO);
    bool direct = gir_below(&g->r, 3) == 0, bias = gir_below(&g->r, 2);
    if (!direct && gir_below(&g->r, 2)) w = type_of(IR_UNIT, 2, FO, K);
    if (direct) w.n_dims = 3, w.dims[1] = F, w.dims[2] = O;
    IrType made = direct ? square : flat, b_type = made;
    b_type.space = IR_UNIT;
    IrId v = arg(g, arena_printf(b->m->arena, "W%u", b->m->tensors.n), w);
    v = ir_add(b->m, b->f, IR_OP_contract, made, (IrId[]){g->e, v}, 2, (IrAttr){0}, b->span);
    if (gir_below(&g->r, 3) == 0) v = irb_map2(b, IR_OP_mul, number(g), v);
    if (bias) v = irb_map2(b, IR_OP_add, v, arg(g, arena_printf(b->m->arena, "b%u", b->m->tensors.n), b_type));
    return direct ? v : irb_unary(b, IR_OP_reshape, square, v, (IrAttr){0});
}

/* An end times the edge's matrix. */
static IrId turned(Message *g)
{
    IrId x = irb_gather(&g->b, end(g), g->x), m = matrix(g);
    return ir_add(g->b.m, g->b.f, IR_OP_contract, type_of(EDGE, 1, O, 0), (IrId[]){x, m}, 2, (IrAttr){0}, g->b.span);
}

/* Both ends and the edge side by side. */
static IrId ends(Message *g)
{
    Build *b = &g->b;
    IrId p = irb_gather(b, DST, g->x), q = irb_gather(b, SRC, g->x);
    if (gir_below(&g->r, 2)) q = irb_map2(b, IR_OP_sub, q, p);
    IrId all = ir_add(b->m, b->f, IR_OP_concat, type_of(EDGE, 1, D, 0), (IrId[]){p, q, g->e}, 3, (IrAttr){.dim = D},
                      b->span);
    return product(g, all, D);
}

static IrId positive(Message *g, IrId x)
{
    return irb_map2(&g->b, IR_OP_add, irb_map1(&g->b, IR_OP_abs, x), irb_scalar(&g->b, IR_F64, 0.5));
}

static IrId message(Message *g, uint32_t depth);

static IrId combined(Message *g, uint32_t depth)
{
    static const IrOpcode maps[] = {IR_OP_tanh, IR_OP_sigmoid, IR_OP_neg, IR_OP_abs};
    Build *b = &g->b;
    IrId x = message(g, depth - 1);
    switch (gir_below(&g->r, 8)) {
    case 0: return irb_map2(b, IR_OP_add, x, message(g, depth - 1));
    case 1: return irb_map2(b, IR_OP_sub, x, message(g, depth - 1));
    case 2: return irb_map2(b, IR_OP_mul, x, message(g, depth - 1));
    case 3: return irb_map2(b, IR_OP_mul, number(g), x);
    case 4: return irb_map2(b, IR_OP_div, x, positive(g, number(g)));
    case 5: {
        IrId zero = irb_scalar(b, IR_F64, 0);
        return irb_select(b, irb_compare(b, IR_OP_lt, irb_gather(b, DST, g->s), number(g)), x, zero);
    }
    case 6: { /* an attention: exp of a number less its maximum in the row */
        IrId t = irb_map2(b, IR_OP_add, irb_gather(b, SRC, g->s), irb_gather(b, DST, g->s));
        IrId top = irb_reduce(b, IR_OP_reduce_max, DST, t, 0);
        t = irb_map1(b, IR_OP_exp, irb_map2(b, IR_OP_sub, t, irb_gather(b, DST, top)));
        IrId sum = irb_map2(b, IR_OP_add, irb_reduce(b, IR_OP_reduce_sum, DST, t, 0), irb_scalar(b, IR_F64, 1e-16));
        return irb_map2(b, IR_OP_mul, irb_map2(b, IR_OP_div, t, irb_gather(b, DST, sum)), x);
    }
    default: return irb_map1(b, maps[gir_below(&g->r, 4)], x);
    }
}

static IrId message(Message *g, uint32_t depth)
{
    if (depth && gir_below(&g->r, 4)) return combined(g, depth);
    switch (gir_below(&g->r, 8)) {
    case 0: return ends(g);
    case 4: return mixture(g);
    case 5: return turned(g);
    case 1: return product(g, g->e, K);
    case 2: return product(g, irb_gather(&g->b, end(g), g->x), F);
    case 3: return irb_gather(&g->b, end(g), product(g, g->x, F));
    default: return irb_gather(&g->b, end(g), g->far);
    }
}

static IrId reduced(Message *g, IrId m)
{
    static const IrOpcode ops[] = {IR_OP_reduce_sum, IR_OP_reduce_sum, IR_OP_reduce_max, IR_OP_reduce_min};
    return irb_reduce(&g->b, ops[gir_below(&g->r, 4)], end(g), m, gir_below(&g->r, 2) ? 0 : -1.5);
}

/* A logarithm with a floor: in rows without any its cotangent is 0 / 0, which no edge reads. */
static IrId floored(Message *g, IrId out)
{
    Build *b = &g->b;
    out = irb_map1(b, IR_OP_log, irb_map1(b, IR_OP_abs, out));
    return irb_map2(b, IR_OP_max, out, irb_scalar(b, IR_F64, -3));
}

/* A graph, the arguments and no result yet. */
static Message message_begin(Arena *a, uint64_t seed, const int64_t *size)
{
    Message g = {.r = {seed * 0x9E3779B97F4A7C15u + 99}};
    gir_below(&g.r, 2);
    IrModule *m = g.b.m = ir_module_new(a, "message");
    ir_dim_new(m, "F", size[0]);
    ir_dim_new(m, "K", size[1]);
    ir_dim_new(m, "D", 2 * size[0] + size[1]);
    ir_dim_new(m, "O", size[2]);
    ir_dim_new(m, "FO", size[0] * size[2]);
    ir_space_new(m, "node", false);
    ir_space_new(m, "edge", true);
    gir_map(m, "edge.src", EDGE, NODE, false, false);
    gir_map(m, "edge.dst", EDGE, NODE, true, false);
    gir_map(m, "node.all", NODE, IR_UNIT, false, false);
    gir_map(m, "edge.all", EDGE, IR_UNIT, false, false);
    /* clang-format off */
    IrGraph graph = {.name = "g", .edge = EDGE, .src_space = NODE, .dst_space = NODE, .src = SRC, .dst = DST,
                     .base = IR_NONE, .orig = IR_NONE, .image = IR_NONE};
    /* clang-format on */
    VEC_PUSH(a, &m->graphs, graph);
    g.b.f = ir_func_new(m, "f");
    g.x = arg(&g, "x", type_of(NODE, 1, F, 0));
    g.s = arg(&g, "s", type_of(NODE, 0, 0, 0));
    g.e = arg(&g, "e", type_of(EDGE, 1, K, 0));
    g.w = arg(&g, "w", type_of(EDGE, 0, 0, 0));
    g.far = arg(&g, "far", type_of(NODE, 1, O, 0));
    return g;
}

static void message_end(Message *g, IrId out)
{
    Build *b = &g->b;
    ir_result(b->m, b->f, "out", out, IR_NONE);
    IrId loss = irb_fit(b, irb_map1(b, IR_OP_sin, out), ir_scalar(IR_F64));
    uint32_t n = b->f->ops.n;
    for (IrId v = 0; v < n; v++)
        if (irb_op(b, v)->op == IR_OP_arg) {
            IrId d = ir_add(b->m, b->f, IR_OP_grad, irb_type(b, v), (IrId[]){loss, v}, 2, (IrAttr){0}, b->span);
            ir_result(b->m, b->f, arena_printf(b->m->arena, "d%u", v), d, IR_NONE);
        }
}

static IrModule *message_module(Arena *a, uint64_t seed)
{
    static const int64_t sizes[][3] = {{3, 2, 4}, {8, 1, 3}, {2, 5, 9}, {4, 4, 4}, {16, 3, 1}};
    Message g = message_begin(a, seed, sizes[seed * 0x9E3779B9u / 7 % 5]);
    IrId out = reduced(&g, message(&g, 3));
    if (gir_below(&g.r, 2)) out = irb_map2(&g.b, IR_OP_add, out, reduced(&g, message(&g, 2)));
    if (gir_below(&g.r, 4) == 0) out = floored(&g, out);
    if (gir_below(&g.r, 3) == 0) g.far = irb_map1(&g.b, IR_OP_tanh, out), out = reduced(&g, message(&g, 2));
    message_end(&g, out);
    return g.b.m;
}

/* ---- tests ---- */

static void check_many(const char *name, uint64_t first, uint64_t n, bool messages, double least)
{
    Tally t = {0};
    check_begin();
    for (uint64_t seed = first; seed < first + n && check_ok; seed++) {
        Arena *a = arena_new();
        GirOptions o = {.n_ops = 10 + (uint32_t)(seed % 12), .real = IR_F64, .grads = true};
        check_module(a, messages ? message_module(a, seed) : gir_make(a, seed, o), seed, &t);
        arena_free(a);
        if (!check_ok) printf("seed %llu\n", (unsigned long long)seed);
    }
    printf("%llu elements, %.2f %% undecided, %llu of %llu modules changed, %llu turned\n",
           (unsigned long long)t.elements, 100.0 * (double)t.undecided / (double)(t.elements + 1),
           (unsigned long long)t.changed, (unsigned long long)n, (unsigned long long)t.turned);
    if (check_ok) {
        CHECK(t.undecided <= t.elements / 10);
        CHECK((double)t.changed >= least * (double)n);
        CHECK(messages || t.turned >= n / 50);
    }
    check_end(name);
}

/* How many gathers there are of rows that wide. */
static uint32_t wide_gathers(const IrModule *m, int64_t least)
{
    uint32_t n = 0;
    const IrFunc *f = m->funcs.data[0];
    for (IrId v = 0; v < f->ops.n; v++)
        n += f->ops.data[v].op == IR_OP_gather && ir_type_width(m, &f->ops.data[v].type) >= least &&
             !m->maps.data[f->ops.data[v].attr.map].sorted;
    return n;
}

/* The sum of a mixture gathers rows of x and no products, forward and backward; where x is wider than the products,
   these. */
static void check_mixture(void)
{
    static const int64_t narrow[3] = {8, 3, 8}, wide[3] = {32, 2, 1};
    check_begin();
    for (uint64_t seed = 0; seed < 12 && check_ok; seed++)
        for (uint32_t k = 0; k < 2 && check_ok; k++) {
            Arena *a = arena_new();
            Tally t = {0};
            Message g = message_begin(a, seed, k ? wide : narrow);
            message_end(&g, irb_reduce(&g.b, IR_OP_reduce_sum, DST, mixture(&g), 0));
            const IrModule *m = run_passes(a, g.b.m, "simplify,cse,dce,reorder,autodiff,simplify,cse,dce,reorder");
            if (m) CHECK(!wide_gathers(m, k ? 32 : 24));
            check_module(a, g.b.m, seed, &t);
            arena_free(a);
        }
    check_end("reorder: a sum of mixtures of linear maps gathers what is narrower");
}

/* The widest value of edges that is not a product of two others. */
static int64_t widest_held(const IrModule *m)
{
    int64_t widest = 0;
    const IrFunc *f = m->funcs.data[0];
    for (IrId v = 0; v < f->ops.n; v++) {
        IrOpcode op = f->ops.data[v].op;
        int64_t width = ir_type_width(m, &f->ops.data[v].type);
        bool held = op == IR_OP_contract || op == IR_OP_reshape || op == IR_OP_add;
        if (held && f->ops.data[v].type.space == EDGE && width > widest) widest = width;
    }
    return widest;
}

/* No edge keeps a matrix of its own, forward and backward. */
static void check_matrices(void)
{
    static const int64_t sizes[3] = {16, 3, 16};
    check_begin();
    for (uint64_t seed = 0; seed < check_amount(8, 24) && check_ok; seed++) {
        Arena *a = arena_new();
        Tally t = {0};
        Message g = message_begin(a, seed, sizes);
        message_end(&g, irb_reduce(&g.b, IR_OP_reduce_sum, DST, turned(&g), 0));
        const IrModule *m = run_passes(a, g.b.m, "simplify,cse,dce,reorder,autodiff,simplify,cse,dce,reorder");
        if (m) CHECK(widest_held(m) <= 3 * 16);
        check_module(a, g.b.m, seed, &t);
        arena_free(a);
    }
    check_end("reorder: a matrix per edge that is linear in the edge's values is never made");
}

/* Functions of an end that overflow where nothing is summed, in rows that no edge reads: of a number over nearly 0, of
   the square of that, of what is large three times. */
static IrId unread(Message *g, uint32_t kind, IrId map)
{
    Build *b = &g->b;
    IrId size = irb_reduce(b, IR_OP_reduce_sum, map, irb_map1(b, IR_OP_abs, g->w), 0);
    IrId small = irb_map2(b, IR_OP_add, size, irb_scalar(b, IR_F64, 1e-16));
    IrId x = irb_gather(b, map, irb_map1(b, IR_OP_abs, g->x)), y = irb_gather(b, map, small),
         z = irb_gather(b, map, g->s);
    IrId ratio = irb_map2(b, IR_OP_div, x, y), one = irb_scalar(b, IR_F64, 1);
    switch (kind) {
    case 0: return irb_map1(b, IR_OP_exp, irb_map2(b, IR_OP_min, ratio, irb_map2(b, IR_OP_add, ratio, one)));
    case 1: return irb_map2(b, IR_OP_mul, irb_map1(b, IR_OP_exp, ratio), irb_map1(b, IR_OP_exp, z));
    case 2: return irb_map1(b, IR_OP_expm1, irb_map2(b, IR_OP_mul, ratio, ratio));
    case 3: return irb_map1(b, IR_OP_sqrt, irb_map1(b, IR_OP_exp, ratio));
    default: { /* 1e304, three times */
        IrId far = irb_map2(b, IR_OP_div, x, irb_map2(b, IR_OP_mul, y, irb_scalar(b, IR_F64, 1e-280)));
        far = irb_map2(b, IR_OP_mul, irb_map2(b, IR_OP_mul, far, irb_scalar(b, IR_F64, 1e-270)), z);
        return irb_map2(b, IR_OP_mul, irb_map2(b, IR_OP_mul, far, far), irb_map1(b, IR_OP_tanh, far));
    }
    }
}

static void check_unread(void)
{
    static const int64_t size[3] = {4, 3, 4};
    Tally t = {0};
    check_begin();
    for (uint32_t seed = 0; seed < 80 && check_ok; seed++) {
        Arena *a = arena_new();
        Message g = message_begin(a, seed, size);
        IrId map = seed & 1 ? SRC : DST, m = unread(&g, seed / 2 % 5, map);
        m = irb_map2(&g.b, IR_OP_mul, m, irb_gather(&g.b, map == SRC ? DST : SRC, g.x));
        if (seed % 3) m = irb_map1(&g.b, IR_OP_tanh, m);
        message_end(&g, irb_reduce(&g.b, IR_OP_reduce_sum, seed / 10 & 1 ? SRC : DST, m, 0));
        check_module(a, g.b.m, seed, &t);
        arena_free(a);
    }
    CHECK(t.changed >= 60);
    check_end("reorder: no row that nobody read makes a NaN");
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    check_mixture();
    check_matrices();
    check_unread();
    check_many("reorder: message functions and their gradients", first, check_amount(N_MESSAGES / 4, N_MESSAGES), true,
               0.8);
    check_many("reorder: random programs and their gradients", first, check_amount(N_RANDOM / 3, N_RANDOM), false, 0.1);
    return check_done();
}
