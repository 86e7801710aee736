/* Shared steps of build, ir and test; contracts in pipeline.h. */
#include "passes/context/machine.h"
#include "driver/pipeline.h"
#include <string.h>
#include <unistd.h>

static bool set_verify(Session *s, PassContext *ctx)
{
    const char *how = opt_value(&s->opt, OPT_VERIFY, "on");
    static const char *const names[] = {
        [PASS_VERIFY_OFF] = "off", [PASS_VERIFY_ON] = "on", [PASS_VERIFY_ROUNDTRIP] = "roundtrip"};
    for (int i = 0; i < 3; i++)
        if (strcmp(how, names[i]) == 0) return ctx->verify = (PassVerify)i, true;
    diag_error(&s->diags, E0612, (Span){0}, "`--verify` wants on, off or roundtrip, found `%s`", how);
    return false;
}

/* A name of the table, else a file: one that is there, or whose name could be no machine's. */
bool pipeline_machine(Session *s, const char *what, PassContext *ctx)
{
    Machine *m = ARENA_NEW(s->arena, Machine);
    if (!what) return true;
    ctx->machine = m;
    if (machine_named(what, m)) return true;
    if (!strpbrk(what, "./") && access(what, F_OK) != 0) return machine_find(&s->diags, what, m);
    const Source *src = session_source(s, what);
    return src && machine_parse(src, &s->diags, m);
}

static bool set_store(Session *s, PassContext *ctx)
{
    const char *how = opt_value(&s->opt, OPT_STORE, NULL);
    ctx->store_inputs = true;
    if (!how) return true;
    Words w = opt_words(s->arena, how);
    ctx->store_weights = w.n == 2 && strcmp(w.data[1], "weights") == 0;
    for (IrDtype t = 0; t < IR_N_DTYPES && w.n == 1u + ctx->store_weights; t++)
        if (ir_dtype_is_16_bits(t) && strcmp(w.data[0], ir_dtype_names[t]) == 0) ctx->store = t;
    if (ctx->store == IR_F32)
        diag_error(&s->diags, E0612, (Span){0},
                   "`--store` wants f16 or bf16, alone or with `,weights` behind it, found `%s`", how);
    return ctx->store != IR_F32;
}

bool pipeline_context(Session *s, PassContext *ctx)
{
    *ctx = pass_context(s->arena, &s->diags);
    if (!set_verify(s, ctx) || !pipeline_machine(s, opt_value(&s->opt, OPT_MACHINE, NULL), ctx) || !set_store(s, ctx))
        return false;
    if (opt_has(&s->opt, OPT_RUN) && !pass_option_run(ctx, opt_value(&s->opt, OPT_RUN, ""))) return false;
    ctx->sums_apart = opt_has(&s->opt, OPT_APART);
    return !opt_has(&s->opt, OPT_DISABLE) || pass_option_disable(ctx, opt_value(&s->opt, OPT_DISABLE, ""));
}

static bool ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

static IrModule *load(Session *s, const char *path)
{
    const Source *src = session_source(s, path);
    if (!src) return NULL;
    if (ends_with(path, ".gir")) return ir_parse(s->arena, src, &s->diags);
    FrontendOptions fo;
    if (!session_frontend_options(s, &fo)) return NULL;
    fo.tests_only = s->opt.command == 't';
    fo.without_tests = s->opt.command == 'b';
    return frontend_compile(s->arena, src, &fo, &s->diags);
}

static const IrTensor *find_f64(const IrModule *m)
{
    for (uint32_t i = 0; i < m->tensors.n; i++)
        if (m->tensors.data[i].type.dtype == IR_F64) return &m->tensors.data[i];
    return NULL;
}

IrModule *pipeline_load(Session *s, const char *path)
{
    IrModule *m = load(s, path);
    const IrTensor *wide = m && opt_has(&s->opt, OPT_STORE) ? find_f64(m) : NULL;
    if (!wide) return m;
    Diag *it = diag_error(&s->diags, E0612, wide->span, "`--store` keeps f32 numbers in 16 bits, and `%s` is f64",
                          wide->name);
    diag_help(&s->diags, it, "leave out --store, or build with --dtype f32");
    return NULL;
}

void pipeline_print_times(const PassContext *ctx, FILE *out)
{
    for (uint32_t i = 0; i < ctx->timings.n; i++) {
        const PassTiming *t = &ctx->timings.data[i];
        fprintf(out, "time %-10s %8.3f ms", pass_infos[t->pass].name, t->seconds * 1e3);
        if (t->ops_before || t->ops_after) fprintf(out, "  ops %u -> %u", t->ops_before, t->ops_after);
        fputc('\n', out);
    }
}
