/* Elaboration seen from C: arithmetic and unification of sizes, what a module holds (parameters and
   their stored form, modes, results, inputs from data), options, and that a bad program always ends
   in a diagnostic. */
#include "frontend/dims.h"
#include "frontend/frontend.h"
#include "tests/unit/check.h"
#include <math.h>
#include <string.h>

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static Arena *arena;
static const Span nowhere = {0};

static bool is_number(Sizes *z, const Size *s, int64_t want)
{
    int64_t n;
    return size_value(z, s, &n) && n == want;
}

static void test_size_arithmetic(void)
{
    Sizes z = {.arena = arena};
    const Size *f = size_var(&z, "F", SIZE_RIGID, nowhere), *h = size_var(&z, "H", SIZE_RIGID, nowhere);
    const Size *four = size_const(&z, 4);
    CHECK(size_equal(&z, size_mul(&z, f, h), size_mul(&z, h, f)));
    CHECK(size_equal(&z, size_add(&z, f, f, 1), size_mul(&z, size_const(&z, 2), f)));
    CHECK(size_equal(&z, size_div(&z, size_mul(&z, four, f), f), four));
    CHECK(!size_equal(&z, f, h));
    CHECK(size_div(&z, size_const(&z, 8), size_const(&z, 3)) == NULL);
    CHECK(is_number(&z, size_div(&z, size_const(&z, 8), size_const(&z, 2)), 4));
    CHECK(!strcmp(size_text(&z, size_add(&z, size_mul(&z, four, f), size_const(&z, 1), -1)), "4*F - 1"));
    CHECK(!z.overflow);
    size_mul(&z, size_const(&z, INT64_MAX), size_const(&z, 3));
    CHECK(z.overflow);
}

static void test_size_unify(void)
{
    Sizes z = {.arena = arena};
    const Size *r = size_var(&z, "R", SIZE_RIGID, nowhere), *q = size_var(&z, "Q", SIZE_RIGID, nowhere);
    const Size *x = size_var(&z, "x", SIZE_HOLE, nowhere), *y = size_var(&z, "y", SIZE_HOLE, nowhere);
    CHECK(!size_unify(&z, r, q, nowhere));
    CHECK(!size_unify(&z, r, size_const(&z, 3), nowhere));
    CHECK(size_unify(&z, size_add(&z, x, size_const(&z, 2), 1), size_const(&z, 7), nowhere) && is_number(&z, x, 5));
    CHECK(!size_unify(&z, x, size_const(&z, 6), nowhere));
    CHECK(size_unify(&z, size_mul(&z, y, r), size_mul(&z, size_const(&z, 3), r), nowhere) && is_number(&z, y, 3));
    CHECK(!size_unify(&z, size_var(&z, "n", SIZE_HOLE, nowhere), size_const(&z, -1), nowhere));
}

/* A product of two unknowns waits until one is known. */
static void test_size_later(void)
{
    Sizes z = {.arena = arena};
    const Size *x = size_var(&z, "x", SIZE_HOLE, nowhere), *y = size_var(&z, "y", SIZE_HOLE, nowhere);
    CHECK(size_unify(&z, size_mul(&z, x, y), size_const(&z, 12), nowhere) && z.later.n == 1);
    CHECK(sizes_solve(&z) == NULL && z.later.n == 1);
    CHECK(size_unify(&z, x, size_const(&z, 4), nowhere));
    CHECK(sizes_solve(&z) == NULL && z.later.n == 0 && is_number(&z, y, 3));
    const Size *u = size_var(&z, "u", SIZE_HOLE, nowhere), *v = size_var(&z, "v", SIZE_HOLE, nowhere);
    CHECK(size_unify(&z, size_mul(&z, u, v), size_const(&z, 10), nowhere));
    CHECK(size_unify(&z, u, size_const(&z, 3), nowhere));
    CHECK(sizes_solve(&z) != NULL);
}

/* F/T stays a name until both are known, and must divide then. */
static void test_size_ratio(void)
{
    Sizes z = {.arena = arena};
    const Size *f = size_var(&z, "F", SIZE_FREE, nowhere), *t = size_var(&z, "T", SIZE_FREE, nowhere);
    const Size *q = size_div(&z, f, t);
    CHECK(q && size_equal(&z, q, size_div(&z, f, t)));
    CHECK(size_unify(&z, f, size_const(&z, 12), nowhere) && size_unify(&z, t, size_const(&z, 4), nowhere));
    CHECK(is_number(&z, q, 3));
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static Diags diags;

static IrModule *compile(const char *text, const FrontendOptions *opt)
{
    Source *src = ARENA_NEW(arena, Source);
    *src = (Source){"test.gnn", text, (uint32_t)strlen(text)};
    diags = (Diags){.arena = arena};
    IrModule *m = frontend_compile(arena, src, opt, &diags);
    CHECK((m == NULL) == (diags.n_errors > 0));
    for (uint32_t i = 0; m == NULL && check_ok && i < diags.list.n; i++)
        if (diags.list.data[i]->code >= N_CODES) check(false, "a diagnostic without a code");
    return m && ir_verify(m, &diags) ? m : NULL;
}

static const char *first_error(void) { return diags.list.n ? diags.list.data[0]->text : ""; }
static bool refused(DiagCode code)
{
    for (uint32_t i = 0; i < diags.list.n; i++)
        if (diags.list.data[i]->code == code) return true;
    return false;
}

static const IrTensor *tensor(const IrModule *m, const char *name)
{
    for (uint32_t i = 0; m && i < m->tensors.n; i++)
        if (!strcmp(m->tensors.data[i].name, name)) return &m->tensors.data[i];
    return NULL;
}

static uint32_t count_ops(const IrModule *m, const char *func, IrOpcode op)
{
    const IrFunc *f = m ? ir_func_find(m, func) : NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; f && i < f->ops.n; i++) n += f->ops.data[i].op == op;
    return n;
}

static const char *const set_names[] = {"F", "C"};
static const double set_values[] = {10, 3};
static const FrontendOptions only_f = {.set_names = set_names, .set_values = set_values, .n_set = 1};
static const FrontendOptions sized = {.set_names = set_names, .set_values = set_values, .n_set = 2};

static const char net[] = "model net(x: node[F]) -> node[C] {\n"
                          "  conv1 = gat(H = 4, D = 2, attn_dropout = 0.5)\n"
                          "  conv2 = gcn(O = C)\n"
                          "  return conv2(elu(conv1(dropout(x, 0.5))))\n"
                          "}\n"
                          "train net {\n"
                          "  loss = cross_entropy(net(data.x), data.y) on data.train\n"
                          "  metric val = accuracy(net(data.x), data.y) on data.val\n"
                          "  hyper lr = 0.01\n"
                          "  optimizer momentum(lr, weight_decay = 1e-3 on conv1.*)\n"
                          "  epochs 7 seed 5 stop_early(val, patience = 3)\n"
                          "}\n";

static void test_parameters(void)
{
    IrModule *m = compile(net, &sized);
    const IrTensor *w = tensor(m, "conv1.lin.weight"), *a = tensor(m, "conv1.att_src"), *b = tensor(m, "conv2.bias");
    if (!check(m && w && a && b, "no module: %s", first_error())) return;
    CHECK(w->kind == IR_PARAM && w->n_stored == 2 && w->stored_shape[0] == 8 && w->stored_shape[1] == 10);
    CHECK(w->type.n_dims == 3 && w->stored_perm[0] == 1 && w->stored_perm[1] == 2 && w->stored_perm[2] == 0);
    CHECK(w->init == IR_INIT_UNIFORM && fabs(w->init_b - sqrt(6.0 / 18)) < 1e-12 && w->init_a == -w->init_b);
    CHECK(a->n_stored == 3 && a->stored_shape[0] == 1 && a->stored_shape[1] == 4 && a->stored_shape[2] == 2);
    CHECK(b->init == IR_INIT_CONST && b->init_a == 0);
    CHECK(tensor(m, "y")->bound == 3 && tensor(m, "lr")->hyper_default == 0.01);
    CHECK(tensor(m, "momentum.v.conv2.bias") && tensor(m, "momentum.v.conv2.bias")->kind == IR_STATE);
}

/* Parameters of a reducer: fresh ones wherever it is used, named like a layer's. */
static void test_reducer_parameters(void)
{
    static const char text[] =
        "reduce scaled(m) {\n  param t: [] = 1\n  state s = 0\n  step { s += t * m }\n  done = s\n}\n"
        "layer pair(x: node[F]) -> node[F] = scaled_in(x.src) + scaled_out(x.dst)\n"
        "model net(x: node[F]) -> node[F] {\n  far = pair()\n  return far(x) + scaled_in(x.src)\n}\n";
    IrModule *m = compile(text, &only_f);
    if (!check(m != NULL, "no module: %s", first_error())) return;
    CHECK(tensor(m, "far.scaled1.t") && tensor(m, "far.scaled2.t") && tensor(m, "scaled1.t"));
    CHECK(!tensor(m, "t") && !tensor(m, "far.t"));
}

static void test_modes(void)
{
    IrModule *m = compile(net, &sized);
    if (!check(m != NULL, "no module: %s", first_error())) return;
    CHECK(count_ops(m, "forward", IR_OP_random_uniform) == 0 && count_ops(m, "metrics", IR_OP_random_uniform) == 0);
    CHECK(count_ops(m, "train_step", IR_OP_random_uniform) == 2 && m->n_sites == 2);
    CHECK(ir_func_find(m, "train_step")->train_mode && !ir_func_find(m, "forward")->train_mode);
    CHECK(m->train.present && m->train.epochs == 7 && m->train.seed == 5 && m->train.patience == 3 &&
          m->train.stop_metric == 0);
    const IrFunc *step = ir_func_find(m, "train_step");
    uint32_t updated = 0;
    for (uint32_t i = 0; i < step->results.n; i++) updated += step->results.data[i].tensor != IR_NONE;
    CHECK(!strcmp(step->results.data[0].name, "loss") && step->results.data[0].tensor == IR_NONE);
    CHECK(updated == 12); /* six parameters and their momenta */
}

/* Weight decay reaches the parameters that the pattern names and no others. */
static void test_decay_pattern(void)
{
    char all[sizeof net];
    memcpy(all, net, sizeof net);
    uint32_t some = count_ops(compile(net, &sized), "train_step", IR_OP_mul);
    memset(strstr(all, " on conv1.*"), ' ', strlen(" on conv1.*"));
    uint32_t more = count_ops(compile(all, &sized), "train_step", IR_OP_mul);
    CHECK(some > 0 && more == some + 2);
}

static void test_vjp(void)
{
    IrModule *m = compile(net, &sized);
    const IrFunc *f = m ? ir_func_find(m, "vjp") : NULL;
    if (!check(f != NULL, "no vjp: %s", first_error())) return;
    CHECK(f->results.n == 7 && !strcmp(f->results.data[0].name, "grad.x"));
    CHECK(count_ops(m, "vjp", IR_OP_grad) == 7);
    CHECK(!strcmp(f->args.data[f->args.n - 1].name, "cot.out") && f->args.data[f->args.n - 1].kind == IR_ARG_COTANGENT);
}

/* Writes the sites of the random ops of function func to sites, [8], in the order of the ops. Returns how many it
   wrote: at most 8. */
static uint32_t drawn_sites(const IrModule *m, const char *func, uint32_t *sites)
{
    const IrFunc *f = ir_func_find(m, func);
    uint32_t n = 0;
    for (uint32_t i = 0; f && i < f->ops.n && n < 8; i++)
        if (f->ops.data[i].op == IR_OP_random_uniform || f->ops.data[i].op == IR_OP_random_normal)
            sites[n++] = f->ops.data[i].attr.site;
    return n;
}

/* Gradients are those of what `forward` computed: `vjp` drops the same elements and draws the same pairs of nodes. */
static void test_vjp_draws_alike(void)
{
    static const char text[] = "model net(x: node[F]) -> node[F] {\n"
                               "  pairs p = negatives(g, k = 2)\n"
                               "  far = over p { sum_in(x.src) }\n"
                               "  return dropout(x * randn(node[F]), 0.5) * far\n"
                               "}\n";
    FrontendOptions opt = only_f;
    opt.train_mode = true;
    IrModule *m = compile(text, &opt);
    if (!check(m != NULL, "no module: %s", first_error())) return;
    uint32_t forward[8] = {0}, vjp[8] = {0}, n = drawn_sites(m, "forward", forward);
    CHECK(n == 2 && drawn_sites(m, "vjp", vjp) == n && forward[0] != forward[1]);
    CHECK(forward[0] == vjp[0] && forward[1] == vjp[1]);
    CHECK(m->n_sites == 3 && m->graphs.n == 2); /* one graph of negatives beside the data's */
}

/* The text of a module is read back to the same text. */
static void test_round_trip(void)
{
    IrModule *m = compile(net, &sized);
    if (!check(m != NULL, "no module: %s", first_error())) return;
    StrBuf one = {.arena = arena}, two = {.arena = arena};
    ir_print(m, &one);
    Source src = {"test.gir", strbuf_cstr(&one), (uint32_t)one.n};
    IrModule *again = ir_parse(arena, &src, &diags);
    if (!check(again != NULL, "not read back: %s", first_error())) return;
    ir_print(again, &two);
    CHECK(!strcmp(strbuf_cstr(&one), strbuf_cstr(&two)));
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static void test_facts(void)
{
    FrontendFact facts[] = {
        {.name = "x", .rows = "node", .dtype = IR_F32, .n_dims = 1, .dims = {10}},
        {.name = "y", .rows = "node", .dtype = IR_I64, .classes = 3},
        {.name = "train_mask", .rows = "node", .dtype = IR_BOOL},
        {.name = "val_mask", .rows = "node", .dtype = IR_BOOL},
    };
    FrontendOptions opt = {.facts = facts, .n_facts = 4};
    IrModule *m = compile(net, &opt);
    if (!check(m != NULL, "no module: %s", first_error())) return;
    const IrTensor *w = tensor(m, "conv2.lin.weight");
    CHECK(w && w->stored_shape[0] == 3 && w->stored_shape[1] == 8);
    CHECK(tensor(m, "y")->bound == 3 && !tensor(m, "y")->allow_missing);
    CHECK(!compile("model net(x: node[F, G]) -> node[F] = sum(x, G)", &opt) && refused(E0202));
    CHECK(!compile("model net(x: node[4]) -> node[4] = x", &opt) && refused(E0201));
    CHECK(!compile("model net(x: node int) -> node = float(x)", &opt) && refused(E0206));
    opt.set_names = set_names, opt.set_values = (const double[]){11}, opt.n_set = 1;
    CHECK(!compile(net, &opt) && refused(E0201));
}

/* What data say of inputs that are declared, or read as `data.NAME`: {declaration, what a file holds, code or
   N_CODES}. */
typedef struct Known {
    const char *text;
    FrontendFact fact;
    DiagCode code;
} Known;

#define TRAIN(reads)                                                                                                   \
    "model net(x: node[F]) -> node[C] { param w: [F, C] = glorot; return x @ w }\n"                                    \
    "train net { loss = cross_entropy(net(data.x), data.y) + " reads "; hyper lr = 0.1; optimizer sgd(lr) }"
static const Known knowns[] = {
    {"model net(k: node bool) -> node = where(k, 1, 0)", {.name = "k", .rows = "node", .dtype = IR_I64}, E0206},
    {"model net(k: node bool) -> node = where(k, 1, 0)", {.name = "k", .rows = "node", .dtype = IR_F32}, E0206},
    {"model net(k: node int) -> node = float(k)", {.name = "k", .rows = "node", .dtype = IR_BOOL}, E0206},
    {"model net(k: node) -> node = k",
     {.name = "k", .rows = "node", .n_dims = 1, .dims = {1}},
     N_CODES}, /* a column of ones */
    {"model net(k: node[3]) -> node[3] = k", {.name = "k", .rows = "node", .n_dims = 2, .dims = {1, 3}}, N_CODES},
    {"model net(k: node[4]) -> node[4] = k", {.name = "k", .rows = "node", .n_dims = 2, .dims = {1, 3}}, E0201},
    /* clang-format off */
    {"model net(k: node[1, 3]) -> node[3] = sum(k, 0)", {.name = "k", .rows = "node", .n_dims = 2, .dims = {1, 3}},
        E0207},
    {"model net(k: node index[4]) -> node = float(k)", {.name = "k", .rows = "node", .dtype = IR_I64, .classes = 3},
        E0201},
    {"model net(k: node index[4]) -> node = float(k)", {.name = "k", .rows = "node", .dtype = IR_I64, .classes = 4},
        N_CODES},
    /* clang-format on */
    {"model net(k: node index[4]) -> node = float(k)", {.name = "k", .rows = "node", .dtype = IR_I32}, N_CODES},
    /* clang-format off */
    {"model net(k: node int) -> node = float(k)", {.name = "k", .rows = "node", .dtype = IR_I64, .classes = 4},
        N_CODES},
    {"model net(k: node index[nothing + true]) -> node = float(k)", {.name = "k", .rows = "node", .dtype = IR_I64,
        .classes = 4}, E0211},
    {"model net(k: node[2, 3]) -> node[2] = sum(k, 1)", {.name = "k", .rows = "node", .n_dims = 2, .dims = {2, 3},
        .sparse = true}, E0207},
    /* clang-format on */
    {"model net(k: [3]) -> [3] = k", {.name = "k", .count = 3, .sparse = true}, N_CODES},
    /* clang-format off */
    {"model net(k: [3, 2]) -> [3] = sum(k, 1)", {.name = "k", .rows = "node", .count = 3, .n_dims = 1, .dims = {2}},
        E0207},
    {"model net(k: [3, 2]) -> [2] = sum(k)", {.name = "k", .rows = "node", .count = 4, .n_dims = 1, .dims = {2}},
        E0201},
    {"model net(k: node[2] int) -> node[2] = float(k)", {.name = "k", .rows = "node", .dtype = IR_I64, .n_dims = 1,
        .dims = {2}, .sparse = true}, N_CODES},
    {"model net(k: src[2], z: dst[2]) -> dst[2] = z + sum_in(k.src)", {.name = "z", .rows = "node", .n_dims = 1,
        .dims = {2}}, N_CODES},
    /* clang-format on */
    {TRAIN("mean_all(data.k)"), {.name = "k", .rows = "node", .dtype = IR_F32}, N_CODES},
    {TRAIN("data.k"), {.name = "k", .rows = "unit", .dtype = IR_F64}, N_CODES},
    {TRAIN("sum(data.k)"), {.name = "k", .rows = "unit", .n_dims = 1, .dims = {3}}, N_CODES},
    {TRAIN("float(mean_all(float(data.k)))"), {.name = "k", .dtype = IR_BOOL, .count = 5}, N_CODES},
    {TRAIN("data.lr"), {.name = "k", .rows = "node"}, E0307}, /* a hyper is no input */
    {TRAIN("data.kk"), {.name = "k", .rows = "node"}, E0307},
    /* clang-format off */
    {TRAIN("mean_all(data.k_index)"), {.name = "k_index", .rows = "node", .dtype = IR_F32, .count = 2, .n_dims = 0},
        N_CODES},
    {TRAIN("mean_all(sum(over data.k_index { sum_in(data.x.src) }))"), {.name = "k_index", .dtype = IR_I32,
        .count = 2, .n_dims = 1, .dims = {7}}, N_CODES},
    {TRAIN("mean_all(sum(over data.edge_index { sum_in(data.x.src) }))"), {.name = "edge_index", .dtype = IR_I64,
        .count = 2, .n_dims = 1, .dims = {9}}, N_CODES},
    /* clang-format on */
    {TRAIN("mean_all(data.k)"), {.name = "k", .rows = "nowhere"}, E0209},
};

static void test_known(void)
{
    for (size_t i = 0; i < sizeof knowns / sizeof *knowns; i++) {
        const Known *k = &knowns[i];
        FrontendFact facts[] = {k->fact,
                                {.name = "x", .rows = "node", .n_dims = 1, .dims = {10}},
                                {.name = "y", .rows = "node", .dtype = IR_I64, .classes = 3}};
        FrontendOptions opt = {.facts = facts, .n_facts = 3, .symbolic = true};
        IrModule *m = compile(k->text, &opt);
        if (k->code == N_CODES) check(m != NULL, "%zu: refused: %s", i, first_error());
        else
            check(!m && refused(k->code), "%zu: wanted %s: %s", i, diag_codes[k->code].id, m ? "taken" : first_error());
    }
}

/* Values with as many rows as a list of edges has belong to its edges; so says its graph first. */
static void test_lists(void)
{
    FrontendFact facts[] = {{.name = "x", .rows = "node", .n_dims = 1, .dims = {10}},
                            {.name = "y", .rows = "node", .dtype = IR_I64, .classes = 3},
                            {.name = "near_index", .dtype = IR_I64, .count = 2, .n_dims = 1, .dims = {7}},
                            {.name = "far_index", .dtype = IR_I64, .count = 2, .n_dims = 1, .dims = {7}},
                            {.name = "near_w", .count = 7},
                            {.name = "v", .rows = "edge", .count = 7}};
    FrontendOptions opt = {.facts = facts, .n_facts = 6};
    IrModule *m = compile(TRAIN("mean_all(over data.near_index { sum_in(data.near_w) }) + mean_all(over data.far_index "
                                "{ sum_in(data.v) })"),
                          &opt);
    if (!check(m != NULL, "refused: %s", first_error())) return;
    for (int i = 0; i < 2; i++) {
        IrId edge = tensor(m, i ? "v" : "near_w")->type.space;
        bool of = false;
        for (uint32_t k = 0; k < m->graphs.n; k++)
            of |= m->graphs.data[k].edge == edge && !strcmp(m->graphs.data[k].name, i ? "far_index" : "near_index");
        check(of, "%s lies elsewhere", i ? "v" : "near_w");
    }
}

static void test_symbolic(void)
{
    FrontendOptions opt = {.symbolic = true};
    CHECK(compile(net, &opt) != NULL);
    opt.symbolic = false;
    CHECK(!compile(net, &opt) && refused(E0208));
    opt.tests_only = true;
    IrModule *m = compile(net, &opt);
    CHECK(m && m->funcs.n == 0);
}

static void test_bipartite(void)
{
    IrModule *m = compile("model net(x: src[F], z: dst[C]) -> dst[O] = sage(x, to = z, O = 4)", &sized);
    if (!check(m && m->graphs.n == 1, "no module: %s", first_error())) return;
    const IrGraph *g = &m->graphs.data[0];
    CHECK(g->src_space != g->dst_space && tensor(m, "x")->type.space == g->src_space &&
          tensor(m, "z")->type.space == g->dst_space);
    CHECK(!compile("model net(x: src[F], z: node[C]) -> dst[F] = sum_in(x.src)", &sized) && refused(E0209));
}

/* Equal graphs of different layers and modes are one graph of the module. */
static void test_graphs_are_shared(void)
{
    IrModule *m = compile("model net(x: node[F]) -> node[C] = gcn(relu(gcn(x, O = 8)), O = C)", &sized);
    CHECK(m && m->graphs.n == 2);
    m = compile("model net(x: node[F]) -> node[C] = mean(gat(gcn(x, O = 8), H = 2, D = C, concat = "
                "false), H) ",
                &sized);
    CHECK(m == NULL && refused(E0207)); /* the heads are gone already */
    m = compile("model net(x: node[F]) -> node[C] = gat(gcn(x, O = 8), H = 2, D = C, concat = false)", &sized);
    CHECK(m && m->graphs.n == 3);
}

static void test_instances(void)
{
    IrModule *m = compile("model net(x: node[F]) -> node[F] { c = gcn(O = F); return c(c(x)) }", &only_f);
    CHECK(tensor(m, "c.lin.weight") && !tensor(m, "gcn1.lin.weight"));
    m = compile("model net(x: node[F]) -> node[F] = gcn(gcn(x, O = F), O = F)", &only_f);
    CHECK(tensor(m, "gcn1.lin.weight") && tensor(m, "gcn2.lin.weight"));
    m = compile("model net(x: node[F]) -> node[C] { l = for k in 0..3 { linear(O = F) }\n for c in "
                "l { x = relu(c(x)) }\n return linear(x) }",
                &sized);
    CHECK(tensor(m, "l.0.weight") && tensor(m, "l.2.weight") && tensor(m, "linear1.bias"));
    m = compile("model net(x: node[F]) -> node[C] = gin(x, nn = mlp(6))", &sized);
    CHECK(tensor(m, "gin1.nn.0.weight") && tensor(m, "gin1.nn.2.bias"));
}

/* Every layer of the library can be exported on its own where its arguments have defaults. */
static void test_exports(void)
{
    static const char *const layers[] = {"linear", "mlp",         "gcn",           "sage", "gin",   "graph_conv",
                                         "lgcn",   "sgc",         "ssgc",          "tag",  "appnp", "cheb",
                                         "arma",   "cluster_gcn", "antisymmetric", "agnn", "feast", "le"};
    static const char *const names[] = {"F", "O"};
    static const double values[] = {5, 4};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        FrontendOptions opt = {.set_names = names, .set_values = values, .n_set = 2, .export_layer = layers[i]};
        IrModule *m = compile("", &opt);
        if (!m && refused(E0309)) { /* a layer without the dim O */
            opt.n_set = 1;
            m = compile("", &opt);
        }
        check(m && ir_func_find(m, "forward") && ir_func_find(m, "vjp"), "%s: %s", layers[i], first_error());
    }
    FrontendOptions none = {.export_layer = "gnc"};
    CHECK(!compile("", &none) && refused(E0309));
}

/* A call gives static arguments; dims of the signature are sizes of the program. */
static void test_export_calls(void)
{
    static const char *const names[] = {"F", "O"};
    static const double values[] = {5, 4};
    FrontendOptions opt = {.set_names = names, .set_values = values, .n_set = 2};
    const char *text = "layer l(x: node[F], H = 8) -> node[H, O] { param W: [F, H, O] = glorot\n return x @ W }";
    opt.export_layer = "l(H = 3)";
    IrModule *m = compile(text, &opt);
    const IrTensor *w = m ? tensor(m, "W") : NULL;
    check(w && ir_func_find(m, "vjp"), "l(H = 3): %s", first_error());
    CHECK(w && m->dims.data[w->type.dims[1]].size == 3);
    opt.n_set = 1;
    opt.export_layer = "gat(H = 2, D = 3)";
    m = compile("", &opt);
    check(m && tensor(m, "att_src"), "gat: %s", first_error());
    opt.export_layer = "l(Q = 3)";
    CHECK(!compile(text, &opt) && refused(E0302));
    opt.export_layer = "l(H = ";
    CHECK(!compile(text, &opt) && refused(E0101));
    opt.export_layer = "1 + 2";
    CHECK(!compile(text, &opt) && refused(E0408));
    opt.export_layer = "l {} model m(x: node[F]) = x\ntrain m";
    CHECK(!compile(text, &opt) && refused(E0612));
}

/* The form of messages that docs promise: the other operand under ~~~, the found type behind the
 * caret. */
static void test_message(void)
{
    compile("layer l(x: node[H]) -> edge[H] = x.src + x", &only_f);
    StrBuf b = {.arena = arena};
    diags_print(&diags, &b, false);
    const char *want = "test.gnn:1:42: error[E0203]: cannot add edge[H] and node[H]\n"
                       "    1 | layer l(x: node[H]) -> edge[H] = x.src + x\n"
                       "      |                                  ~~~~~   ^ node[H]\n"
                       "    = help: take the value at one end of each edge: `.src` or `.dst`\n";
    check(!strncmp(strbuf_cstr(&b), want, strlen(want)), "%s", strbuf_cstr(&b));
}

static void test_endless(void)
{
    CHECK(!compile("model net(x: node[F]) -> node[F] { for k in 0..900000000 { x = x + 1 }\n return x }", &only_f) &&
          refused(E0305));
    CHECK(!compile("fn f(x) = f(x)\nmodel net(x: node[F]) -> node[F] = f(x)", &only_f) && refused(E0305));
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"sema size arithmetic", test_size_arithmetic},
        {"sema size unification", test_size_unify},
        {"sema sizes decided later", test_size_later},
        {"sema size ratios", test_size_ratio},
        {"sema parameters", test_parameters},
        {"sema parameters of reducers", test_reducer_parameters},
        {"sema modes", test_modes},
        {"sema weight decay by name", test_decay_pattern},
        {"sema vjp", test_vjp},
        {"sema vjp draws alike", test_vjp_draws_alike},
        {"sema round trip", test_round_trip},
        {"sema data", test_facts},
        {"sema inputs and data", test_known},
        {"sema lists of edges", test_lists},
        {"sema symbolic", test_symbolic},
        {"sema bipartite", test_bipartite},
        {"sema shared graphs", test_graphs_are_shared},
        {"sema instances", test_instances},
        {"sema exports", test_exports},
        {"sema export calls", test_export_calls},
        {"sema endless", test_endless},
        {"sema message", test_message},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        arena = arena_new();
        check_begin();
        tests[i].run();
        check_end(tests[i].name);
        arena_free(arena);
    }
    return check_done();
}
