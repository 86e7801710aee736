/* gnnc test: runs each `test` block with the reference interpreter on the graphs it asks for. */
#include "driver/pipeline.h"
#include "ir/eval.h"
#include <math.h>
#include <string.h>

/* First element of an assertion that is false; -1 if it holds everywhere. */
static int64_t first_false(const EvalValue *v)
{
    for (int64_t i = 0; i < v->rows * v->width; i++)
        if (v->v[i] == 0 && !v->undecided[i]) return i;
    return -1;
}

static bool report(Session *s, const IrTest *test, const IrAssert *assertion, const EvalValue *v)
{
    int64_t at = first_false(v);
    if (at < 0) return true;
    Diag *it = diag_error(&s->diags, E0617, assertion->span, "in test \"%s\": %s is false", test->name,
                          assertion->text);
    diag_note(&s->diags, it, (Span){0}, "first false at row %lld, feature %lld of %lld x %lld",
              (long long)(at / v->width), (long long)(at % v->width), (long long)v->rows, (long long)v->width);
    return false;
}

/* Parameters of a test are drawn by their distribution, each element by the name's hash and its place. */
enum { INIT_SITE = -1 };

static uint32_t name_hash(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

static double initial(const IrTensor *t, int64_t i, int64_t width)
{
    uint64_t row = (uint64_t)(i / width), k = (uint64_t)(i % width);
    uint32_t hash = name_hash(t->name);
    double u = (double)(eval_philox(0, hash, (uint32_t)INIT_SITE, row, 2 * k) >> 8) * 0x1p-24;
    double v = (double)(eval_philox(0, hash, (uint32_t)INIT_SITE, row, 2 * k + 1) >> 8) * 0x1p-24;
    switch (t->init) {
    case IR_INIT_UNIFORM: return t->init_a + (t->init_b - t->init_a) * u;
    case IR_INIT_NORMAL: return t->init_a + t->init_b * sqrt(-2 * log(u + 0x1p-24)) * cos(6.283185307179586 * v);
    case IR_INIT_CONST: break;
    }
    return t->init_a;
}

static void fill_param(const IrTensor *t, EvalValue *v)
{
    for (int64_t i = 0; i < v->rows * v->width; i++) v->v[i] = initial(t, i, v->width);
}

/* Seeds and steps are 0, parameters have their initial values; a test has no other arguments. */
static EvalValue **test_args(Session *s, const IrModule *m, const EvalWorld *w, const IrFunc *f)
{
    EvalValue **args = ARENA_ARRAY(s->arena, EvalValue *, f->args.n + 1);
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(s->arena, m, w, f->args.data[i].type);
        if (f->args.data[i].kind == IR_ARG_TENSOR) fill_param(&m->tensors.data[f->args.data[i].ref], args[i]);
        if (f->args.data[i].kind == IR_ARG_SEED && opt_has(&s->opt, OPT_SEED))
            args[i]->v[0] = (double)opt_int(&s->opt, OPT_SEED, 0, 0, INT64_C(1) << 52, &s->diags);
    }
    return args;
}

static bool run_test(Session *s, const IrModule *m, const EvalWorld *w, const IrTest *test)
{
    const IrFunc *f = m->funcs.data[test->func];
    const char *why = NULL;
    EvalValue **results = eval_func(s->arena, m, w, f, test_args(s, m, w, f), &why);
    if (!results) {
        diag_error(&s->diags, E0617, test->span, "test \"%s\" cannot run: %s", test->name, why);
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; i < test->asserts.n; i++) ok &= report(s, test, &test->asserts.data[i], results[i]);
    return ok;
}

static void run_file(Session *s, const char *path, int *passed, int *failed)
{
    PassContext ctx;
    const char *why = NULL;
    const IrModule *m = pipeline_context(s, &ctx) ? pipeline_load(s, path) : NULL;
    if (m) m = pass_run_pipeline(&ctx, m);
    if (!m) return;
    static const int64_t no_edge[1];
    EvalGraph none = {.src = no_edge, .dst = no_edge};
    EvalList *lists = ARENA_ARRAY(s->arena, EvalList, (2 + IR_MAX_PATH) * m->graphs.n + 1);
    int64_t *counts = ARENA_ARRAY(s->arena, int64_t, m->spaces.n);
    EvalData data = {.graph = &none, .n_graphs = 1, .counts = counts, .lists = lists};
    for (uint32_t i = 0; i < m->spaces.n; i++) counts[i] = -1;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        for (uint32_t k = 0; k < g->n_keys; k++) lists[data.n_lists++] = (EvalList){g->keys[k], 0, no_edge, no_edge};
        if (!ir_graph_is_read(g->kind)) continue;
        counts[g->src_space] = counts[g->dst_space] = 0;
        lists[data.n_lists++] = (EvalList){ir_graph_file(g), 0, no_edge, no_edge};
        if (g->where) lists[data.n_lists++] = (EvalList){g->where, 0, no_edge, no_edge};
    }
    EvalWorld *w = eval_world_of(s->arena, m, &data, &why);
    if (!w) {
        diag_error(&s->diags, E0617, (Span){0}, "%s: the graphs of its tests cannot be made: %s", path, why);
        return;
    }
    for (uint32_t i = 0; i < m->tests.n; i++) {
        bool ok = run_test(s, m, w, &m->tests.data[i]);
        printf("%s %s\n", ok ? "ok  " : "FAIL", m->tests.data[i].name);
        *(ok ? passed : failed) += 1;
    }
}

int cmd_test(Session *s)
{
    int passed = 0, failed = 0;
    if (!s->opt.files.n) diag_error(&s->diags, E0613, (Span){0}, "at least one file is wanted");
    for (uint32_t i = 0; i < s->opt.files.n; i++) run_file(s, s->opt.files.data[i], &passed, &failed);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
