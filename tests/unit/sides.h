/* A function before a pass and behind it: the interpreter's results of both on one random graph, and the kernels of
   both against them. For tests of one pass (test_table.c, test_parts.c). */
#pragma once
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/plan_run.h"
#include <math.h>

enum { SIDES_ARGS = 8 };

typedef struct Sides {
    const IrModule *m[2]; /* before, behind */
    EvalWorld *w[2];
    EvalValue *args[2][SIDES_ARGS];
    EvalValue **results[2];
} Sides;

/* The value of element i of argument `arg`. */
typedef double SidesFill(IrType t, uint32_t arg, uint64_t i, const void *user);

/* The module of a text in which $ stands for dtype; NULL fails. */
static inline IrModule *sides_parse(Arena *a, const char *text, const char *dtype)
{
    StrBuf s = {.arena = a};
    for (const char *p = text; *p; p++)
        if (*p == '$') strbuf_puts(&s, dtype);
        else strbuf_add(&s, p, 1);
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", strbuf_cstr(&s), (uint32_t)s.n};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    check(m && ir_verify(m, &d), "%s", d.list.n ? d.list.data[0]->text : "no module");
    return d.n_errors ? NULL : m;
}

/* Both sides of a pass, differentiated: the module of the text as it is, and as `pass` leaves it, behind `first` if
   that is another. Returns the latter before it is differentiated; NULL fails. `d` and `ctx` are set up for the passes
   that a test runs itself. */
static inline const IrModule *sides_make(Arena *a, Diags *d, PassContext *ctx, const char *text, const char *dtype,
                                         PassId first, PassId pass, Sides *s)
{
    *d = (Diags){.arena = a};
    *ctx = pass_context(a, d);
    ctx->verify = PASS_VERIFY_ROUNDTRIP;
    const IrModule *m = sides_parse(a, text, dtype), *behind = m;
    if (behind && first != pass) behind = pass_run_one(ctx, first, behind);
    if (behind) behind = pass_run_one(ctx, pass, behind);
    *s = (Sides){.m = {behind ? pass_run_one(ctx, PASS_autodiff, m) : NULL,
                       behind ? pass_run_one(ctx, PASS_autodiff, behind) : NULL}};
    return CHECK(s->m[0] && s->m[1]) ? behind : NULL;
}

/* In [0, 1). */
static inline double sides_number(uint64_t seed, uint64_t i) { return eval_philox(seed, 0, 0, i, 0) * 0x1p-32; }

static inline bool sides_evaluate(Arena *a, Sides *s, int64_t nodes, int64_t edges, SidesFill *fill, const void *user)
{
    int64_t *ends = ARENA_ARRAY(a, int64_t, 2 * edges + 1);
    for (int64_t i = 0; i < 2 * edges; i++) ends[i] = (int64_t)(sides_number(3, (uint64_t)i) * (double)nodes);
    EvalGraph g = {nodes, nodes, edges, ends, ends + edges};
    const char *why = NULL;
    for (int k = 0; k < 2; k++) {
        const IrFunc *f = s->m[k]->funcs.data[0];
        s->w[k] = eval_world(a, s->m[k], &g, NULL, 1, &why);
        if (!check(s->w[k] != NULL, "%s", why) || !CHECK(f->args.n <= SIDES_ARGS)) return false;
        for (uint32_t n = 0; n < f->args.n; n++) {
            EvalValue *x = s->args[k][n] = eval_value_new(a, s->m[k], s->w[k], f->args.data[n].type);
            for (int64_t i = 0; i < x->rows * x->width; i++) x->v[i] = fill(f->args.data[n].type, n, (uint64_t)i, user);
            IrId tensor = f->args.data[n].ref;
            if (s->m[k]->tensors.data[tensor].is_map) eval_said_map(s->w[k], s->m[k], tensor, x);
        }
        s->results[k] = eval_func(a, s->m[k], s->w[k], f, s->args[k], &why);
        if (!check(s->results[k] != NULL, "%s", why)) return false;
    }
    return true;
}

/* Results [first, end) have the same bits on both sides, the others agree within their bounds. */
static inline void sides_compare(const Sides *s, uint32_t first, uint32_t end)
{
    for (uint32_t r = 0; r < s->m[0]->funcs.data[0]->results.n; r++) {
        const EvalValue *x = s->results[0][r], *y = s->results[1][r];
        if (!CHECK(x->rows == y->rows && x->width == y->width)) return;
        for (int64_t i = 0; i < x->rows * x->width; i++) {
            double bound = r >= first && r < end ? 0 : x->err[i] + y->err[i];
            check(x->v[i] == y->v[i] || fabs(x->v[i] - y->v[i]) <= bound, "result %u, element %lld: %.17g and %.17g", r,
                  (long long)i, x->v[i], y->v[i]);
        }
    }
}

/* The kernels of both sides, without some passes or (NULL) with all. */
static inline void sides_run(Arena *a, const Sides *s, const char *without)
{
    for (int k = 0; k < 2; k++) {
        Diags d = {.arena = a};
        PassContext ctx = pass_context(a, &d);
        if (without) pass_option_disable(&ctx, without);
        plan_run_check(a, lower_module(&ctx, s->m[k]), s->w[k], s->args[k], s->results[k], k ? "behind" : "before");
    }
}
