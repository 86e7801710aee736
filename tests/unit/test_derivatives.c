/* The derivative of every layer of the library, of each function by element and of each reducer under each of its names
   against central differences of the interpreter, in f64, to 1e-6: of a number that hangs on all results, along a
   random direction of each argument and parameter in turn. Where differences of two widths disagree, a kink lies
   between (or a layer is cut to a constant): such a point is left out and counted, and another is drawn. Ops have such
   a test of their own (test_autodiff). What is differenced here is never compiled. */
#include "tests/unit/check.h"
#include "tests/unit/programs.h"

enum { N_POINTS = 12, N_WANTED = 1 }; /* points that are tried, and that have to be sound */

typedef struct Case {
    Program p;
    Oracle o;
    int64_t skipped, compared;
} Case;

static const FrontendStd *std_parsed; /* once, for all programs */

/* ---- programs ---- */

/* The text with all dims that it has of size 3; a dim that it lacks is left out when the front end says so. */
static IrModule *compile(Arena *a, const char *text, const char *layer, bool train, Diags *d)
{
    const char *names[] = {"F", "H", "D", "O", "K", "G", "P", "C", "E", "A",
                           "R", "T", "Q", "M", "L", "B", "S", "V", "N"};
    double sizes[sizeof names / sizeof *names];
    uint32_t n = sizeof names / sizeof *names;
    for (uint32_t k = 0; k < n; k++) sizes[k] = 3;
    for (;;) {
        *d = (Diags){.arena = a};
        Source *src = ARENA_NEW(a, Source);
        *src = (Source){"derivatives.gnn", text, (uint32_t)strlen(text)};
        FrontendOptions o = {.std = std_parsed,
                             .float_dtype = IR_F64,
                             .set_names = names,
                             .set_values = sizes,
                             .n_set = n,
                             .train_mode = train,
                             .export_layer = layer};
        IrModule *m = frontend_compile(a, src, &o, d);
        uint32_t was = n;
        const char *why = m ? "" : program_diags(a, d);
        for (uint32_t k = 0; k < n; k++)
            if (strstr(why, arena_printf(a, "`--set %s`", names[k]))) names[k--] = names[--n];
        if (m || n == was) return m;
    }
}

static const char *make(Arena *a, Case *c, const char *text, const char *layer, uint64_t seed, bool train)
{
    static const int64_t src[] = {0, 1, 2, 3, 4, 1, 0, 5, 5, 2, 4, 3, 0},
                         dst[] = {1, 2, 0, 4, 3, 0, 2, 3, 4, 1, 5, 5, 1};
    static int64_t graph_of[] = {0, 0, 0, 1, 1, 1, 1};
    Diags *d = ARENA_NEW(a, Diags);
    IrModule *m = compile(a, text, layer, train, d);
    if (!m) return program_diags(a, d);
    m->funcs.n = 1;
    uint32_t n = m->funcs.data[0]->results.n;
    program_gradients(m, seed, IR_F64);
    if (m->funcs.data[0]->results.n <= n + 1) return "nothing to derive";
    PassContext ctx = pass_context(a, d);
    *c = (Case){.p = {.arena = a, .seed = seed, .m = m, .plain = pass_run_one(&ctx, PASS_autodiff, m)}};
    c->p.graph = (ProgramGraph){.g = {7, 7, 13, src, dst}, .graph_of = graph_of, .n_graphs = 2};
    return c->p.plain ? NULL : program_diags(a, d);
}

/* ---- differences ---- */

static uint32_t loss_of(const IrFunc *f)
{
    uint32_t i = 0;
    while (strcmp(f->results.data[i].name, "loss")) i++;
    return i;
}

/* Values of a size that keeps exponents small; parameters that begin as a constant lie near it (variances, scales). */
static void fill(Case *c, uint64_t point)
{
    const IrFunc *f = c->p.plain->funcs.data[0];
    c->p.seed = point;
    for (uint32_t i = 0; i < f->args.n; i++) {
        EvalValue *v = c->o.args[i] = eval_value_new(c->p.arena, c->p.plain, c->o.w, f->args.data[i].type);
        program_fill(&c->p, c->o.w, &c->p.graph, i, v);
        const IrTensor *t = f->args.data[i].kind == IR_ARG_TENSOR ? &c->p.plain->tensors.data[f->args.data[i].ref]
                                                                  : NULL;
        double at = t && t->kind == IR_PARAM && t->init == IR_INIT_CONST ? t->init_a : 0;
        for (int64_t k = 0; k < v->rows * v->width && ir_dtype_is_float(v->type.dtype); k++)
            v->v[k] = at + 0.37 * v->v[k];
        if (!t) v->v[0] = 17;
    }
}

static double loss_at(Case *c, uint32_t arg, const double *direction, double step)
{
    Arena *a = arena_new();
    const IrFunc *f = c->p.plain->funcs.data[0];
    EvalValue *v = c->o.args[arg], **r;
    double *was = v->v, loss = NAN;
    const char *why;
    v->v = ARENA_ARRAY(a, double, v->rows * v->width + 1);
    for (int64_t k = 0; k < v->rows * v->width; k++) v->v[k] = was[k] + step * direction[k];
    r = eval_func(a, c->p.plain, c->o.w, f, c->o.args, &why);
    if (r) loss = r[loss_of(f)]->v[0];
    v->v = was;
    arena_free(a);
    return loss;
}

/* Of the fourth order, from steps h and 2 h. */
static double difference(Case *c, uint32_t arg, const double *direction, double h)
{
    double one = loss_at(c, arg, direction, h) - loss_at(c, arg, direction, -h),
           two = loss_at(c, arg, direction, 2 * h) - loss_at(c, arg, direction, -2 * h);
    return (8 * one - two) / (12 * h);
}

static const char *check_arg(Case *c, uint32_t arg, const EvalValue *grad, const char *name)
{
    Arena *a = c->p.arena;
    int64_t n = grad->rows * grad->width;
    double *direction = ARENA_ARRAY(a, double, n + 1), got = 0;
    GirRng r = {c->p.seed * 977 + arg};
    for (int64_t k = 0; k < n; k++) {
        direction[k] = ((int)gir_below(&r, 2001) - 1000) / 1000.0;
        got += direction[k] * grad->v[k];
    }
    double d = difference(c, arg, direction, 1e-4), wide = difference(c, arg, direction, 3.1e-4),
           size = fmax(1, fabs(d));
    if (!(fabs(d - wide) <= 1e-7 * size)) {
        c->skipped++;
        return NULL;
    }
    c->compared++;
    if (fabs(d - got) <= 1e-6 * size) return NULL;
    return arena_printf(a, "by `%s`: %.10g, differences %.10g and %.10g", name, got, d, wide);
}

/* The gradients follow the loss in the order of the float arguments. */
static const char *check_point(Case *c, uint64_t point)
{
    const IrFunc *f = c->p.plain->funcs.data[0];
    const char *why = NULL;
    fill(c, point);
    EvalValue **r = eval_func(c->p.arena, c->p.plain, c->o.w, f, c->o.args, &why);
    if (!r) return why;
    uint32_t at = loss_of(f);
    for (IrId v = 0; v < c->p.m->funcs.data[0]->ops.n && !why; v++) {
        const IrOp *op = &c->p.m->funcs.data[0]->ops.data[v];
        if (op->op != IR_OP_arg || op->type.dtype != IR_F64 || program_is_weight(&f->args.data[op->attr.i])) continue;
        why = check_arg(c, (uint32_t)op->attr.i, r[++at], f->args.data[op->attr.i].name);
    }
    return why;
}

static void check_text(const char *name, const char *text, const char *layer, bool train, int64_t *skipped)
{
    Arena *a = arena_new();
    Case c;
    const char *why = make(a, &c, text, layer, 5, train);
    if (!why) {
        c.o.w = eval_world(a, c.p.plain, &c.p.graph.g, c.p.graph.graph_of, 2, &why);
        c.o.args = ARENA_ARRAY(a, EvalValue *, c.p.plain->funcs.data[0]->args.n + 1);
    }
    int64_t sound = 0;
    for (uint64_t point = 1; point <= N_POINTS && sound < N_WANTED && !why; point++) {
        int64_t before = c.skipped;
        why = check_point(&c, point);
        sound += c.skipped == before;
    }
    if (check(!why, "%s%s: %s", name, train ? " (training)" : "", why)) {
        check(c.compared > 0, "%s: every point has a kink", name);
        *skipped += c.skipped;
    } else {
        printf("%s%s: %s\n", name, train ? " (training)" : "", why);
    }
    arena_free(a);
}

/* ---- what is checked ---- */

/* Layers that want arguments, and such as have options that are worth a call of their own. */
static const char *const calls[][2] = {
    {"deep_sets_aggr", "deep_sets_aggr(local_nn = [linear(O = 4), relu], global_nn = linear(O = 3))"},
    {"transformer", "transformer(H = 2, D = 2)"},
    {"general", "general(D = 3)"},
    {"mixhop", "mixhop(O = 3)"},
    {"signed", "signed(O = 3)"},
    {"signed_graphs", NULL}, /* reads a second graph */
    {"degree_scaler",
     "degree_scaler(deg = [0, 1, 2], aggr = [mean, max], scalers = [identity, amplification, attenuation])"},
    {"pna", "pna(O = 4, deg = [0, 1, 2], aggregators = [mean, sum, std])"},
    {"dgn", "dgn(O = 3, delta = 1.2)"},
    {"dgn_tower", NULL}, /* dgn has it */
    {"atomic", "atomic(K = 1, types = [1, 6, 7])"},
    {"hgt_kinds", "hgt_kinds(H = 2, D = 2)"},
    {"simple_hgn", NULL},    /* gives a constant as well */
    {"group_rev_res", NULL}, /* of widths that 2 divides */
    {"lstm_mean_aggr", NULL},
    {"attention_block", NULL}, /* set_transformer_aggr has both */
    {"seeded_block", NULL},
    {"comp_gcn", "comp_gcn(O = 3)"},
    {"twirls", "twirls(hidden = 4, K = 2, O = 3, attention = true, use_eta = true)"},
    {"performer_attention", "performer_attention(D = 4)"},
    {"point_gnn", "point_gnn(mlp_h = mlp(4), mlp_f = [linear(O = 4), relu, linear(O = 4)], mlp_g = mlp(4))"},
    {"egnn", "egnn(hidden = 4)"},
    {"stack", "stack(convs = [gcn(O = 4), gcn(O = 3)])"},
    /* their arguments are lists of values, which no model takes: stack has them */
    {"jumping_knowledge", NULL},
    {"jumping_lstm", NULL},
    {"linears", NULL},
    {"grouped", NULL}, /* sizes that divide one another */
    {"x_conv", "x_conv(hidden_channels = 2, kernel_size = 2)"},
    {"pan", "pan(filter_size = 2, N = 16)"},
    {"top_k_pooling", NULL}, /* give a graph */
    {"sag_pooling", NULL},
    {"asa_pooling", NULL},
    {"dmon_pool", "dmon_pool(K = 3)"},
    {"knn_interpolate", NULL}, /* by `pos` its weights are constants */
    /* of the types of a schema: tests/test_golden.py has their gradients, and those above */
    {"hetero", NULL},
    {"han", NULL},
    {"hgt", NULL},
    {"nars", NULL},
    {"het_gnn", NULL}};

static const char *call_of(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i][0], name)) return calls[i][1];
    return name;
}

static void test_layers(const char *only)
{
    Arena *a = arena_new();
    int64_t skipped = 0, n_layers = 0;
    check_begin();
    for (const struct GnnStdFile *f = gnn_std_files; f->name; f++) {
        const char *names[N_WORDS];
        uint32_t n = gnn_std_names(a, f->text, "layer ", "", "", names, 0, N_WORDS);
        for (uint32_t i = 0; i < n; i++) {
            bool wanted = call_of(names[i]) && (!only || !strcmp(names[i], only));
            int modes = strcmp(names[i], "hetero_batch_norm") ? 2
                                                              : 1; /* quirk 58: statistics are constants in training */
            for (int train = 0; train < modes && wanted; train++, n_layers++)
                check_text(names[i], "", call_of(names[i]), train, &skipped);
        }
    }
    printf("%lld layers and modes; %lld directions left out beside a kink\n", (long long)n_layers, (long long)skipped);
    check_end("derivatives of the library's layers");
    arena_free(a);
}

static void test_functions(void)
{
    Arena *a = arena_new();
    GnnText g = {.arena = a};
    int64_t skipped = 0;
    check_begin();
    for (size_t i = 0; i < sizeof gnn_unaries / sizeof *gnn_unaries; i++) {
        const char *form = gnn_unaries[i].form;
        static const char *const stated[] = {"soft_step", "detach", "sign(", "floor",
                                             "int("}; /* not what differences see */
        bool skip = false;
        for (int k = 0; k < 5; k++) skip |= strstr(form, stated[k]) != NULL;
        const char *x = gnn_printf(&g, form, "x", "");
        if (!skip) check_text(x, arena_printf(a, "model net(x: node[F]) -> node[F] = %s\n", x), NULL, true, &skipped);
    }
    for (size_t i = 0; i < sizeof gnn_binaries / sizeof *gnn_binaries; i++) {
        const char *x = gnn_printf(&g, gnn_binaries[i], "x", "y");
        if (!strstr(x, "bent"))
            check_text(x, arena_printf(a, "model net(x: node[F], y: node) -> node[F] = %s\n", x), NULL, false,
                       &skipped);
    }
    printf("%lld directions left out beside a kink\n", (long long)skipped);
    check_end("derivatives of functions by element");
    arena_free(a);
}

static void test_reducers(void)
{
    static const char *const ways[][3] = {{"", "_in(sigmoid(e) + 0.1)", "node"},
                                          {"", "_out(sigmoid(e) + 0.1)", "node"},
                                          {"", "_all(sigmoid(e) + 0.1)", ""},
                                          {"readout_", "(sigmoid(e) + 0.1)", "graph"},
                                          {"", "_in(sigmoid(e) + 0.1, by = r)", "node"}};
    Arena *a = arena_new();
    int64_t skipped = 0;
    check_begin();
    for (const struct GnnStdFile *f = gnn_std_files; f->name; f++) {
        const char *names[N_WORDS];
        uint32_t n = gnn_std_names(a, f->text, "reduce ", "", "", names, 0, N_WORDS);
        for (uint32_t i = 0; i < n; i++)
            for (int k = 0; k < 5 && strcmp(names[i], "count"); k++) {
                const char *x = arena_printf(a, "%s%s%s", ways[k][0], names[i], ways[k][1]),
                           *by = k == 4 ? "[3, F]" : "[F]";
                check_text(x,
                           arena_printf(a, "model net(e: edge[F], r: edge index[3]) -> %s%s = max(%s, -5)\n",
                                        ways[k][2], by, x),
                           NULL, false, &skipped);
            }
    }
    printf("%lld directions left out beside a kink\n", (long long)skipped);
    check_end("derivatives of reducers under each of their names");
    arena_free(a);
}

int main(int argc, char **argv)
{
    Arena *a = arena_new();
    std_parsed = frontend_std_new(a);
    if (argc == 1) test_functions();
    if (argc == 1) test_reducers();
    test_layers(argc > 1 ? argv[1] : NULL);
    arena_free(a);
    return check_done();
}
