/* What every pass is given: the table of passes, options that name them, the brackets of a run and its remarks. */
#include "passes/context/passes.h"
#include "passes/context/machine.h"
#include "base/ice.h"
#include <time.h>

enum { GRAPH = PASS_STAGE_GRAPH, KERNEL = PASS_STAGE_KERNEL, ON = true, NEEDED = false, ANY = false, NO_GRAD = true };
const PassInfo pass_infos[N_PASSES] = {
#define PASS(name, stage, switchable, given, doc) [PASS_##name] = {#name, (PassStage)stage, switchable, given, doc},
#include "passes/context/passes.def"
#undef PASS
};

PassContext pass_context(Arena *stage, Diags *diags)
{
    Machine *machine = ARENA_NEW(stage, Machine);
    *machine = machine_default();
    return (PassContext){.stage = stage, .diags = diags, .verify = PASS_VERIFY_ON, .machine = machine};
}

/* ---- options ---- */

PassId pass_find(const char *name)
{
    for (PassId p = 0; p < N_PASSES; p++)
        if (!strcmp(pass_infos[p].name, name)) return p;
    return N_PASSES;
}

PassId pass_find_or_error(PassContext *ctx, const char *name)
{
    PassId p = pass_find(name);
    if (p < N_PASSES) return p;
    const char *names[N_PASSES];
    for (PassId k = 0; k < N_PASSES; k++) names[k] = pass_infos[k].name;
    Diag *d = diag_error(ctx->diags, E0612, (Span){0}, "there is no pass '%s'", name);
    const char *near = str_nearest(name, names, N_PASSES);
    if (near) diag_help(ctx->diags, d, "did you mean '%s'?", near);
    else diag_help(ctx->diags, d, "`gnnc ir --help` lists the passes");
    return N_PASSES;
}

/* The names between commas; false with a diagnostic on the first that is no pass. */
static bool parse_list(PassContext *ctx, const char *list, PassId **out, uint32_t *n)
{
    VEC(PassId) passes = {0};
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        if (len) {
            PassId pass = pass_find_or_error(ctx, arena_strndup(ctx->stage, p, len));
            if (pass == N_PASSES) return false;
            VEC_PUSH(ctx->stage, &passes, pass);
        }
        p += len + (p[len] == ',');
    }
    *out = passes.data ? passes.data : ARENA_ARRAY(ctx->stage, PassId, 1);
    *n = passes.n;
    return true;
}

bool pass_option_run(PassContext *ctx, const char *list)
{
    PassId *run;
    if (!parse_list(ctx, list, &run, &ctx->n_run)) return false;
    ctx->run = run;
    return true;
}

bool pass_option_disable(PassContext *ctx, const char *list)
{
    PassId *passes;
    uint32_t n;
    if (!parse_list(ctx, list, &passes, &n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        const PassInfo *info = &pass_infos[passes[i]];
        if (!info->switchable) {
            Diag *d = diag_error(ctx->diags, E0616, (Span){0}, "pass '%s' cannot be switched off", info->name);
            diag_help(ctx->diags, d, "%s", info->doc);
            return false;
        }
        ctx->disabled[passes[i]] = true;
    }
    return true;
}

/* ---- what a pass may be given ---- */

/* The first `grad` of m, or what else autodiff takes away, or NULL. */
static const IrOp *find_grad(const IrModule *m)
{
    for (uint32_t i = 0; i < m->funcs.n; i++)
        for (uint32_t v = 0; v < m->funcs.data[i]->ops.n; v++)
            if (ir_op_is_of_autodiff(m->funcs.data[i]->ops.data[v].op)) return &m->funcs.data[i]->ops.data[v];
    return NULL;
}

static bool has_16_bits(const IrModule *m)
{
    for (uint32_t i = 0; i < m->funcs.n; i++)
        for (uint32_t v = 0; v < m->funcs.data[i]->ops.n; v++)
            if (ir_dtype_is_16_bits(m->funcs.data[i]->ops.data[v].type.dtype)) return true;
    return false;
}

/* 16 bits are only rounded to and cast back while a `grad` is left, since no cotangent has them: a pass that moved such
   a cast behind a gather would leave autodiff a sum of 16 bits. */
bool pass_ready(PassContext *ctx, PassId pass, const IrModule *m)
{
    ICE_UNLESS(pass < N_PASSES);
    const PassInfo *info = &pass_infos[pass];
    const IrOp *grad = find_grad(m);
    bool narrow = grad && !info->refuses_grad && pass != PASS_autodiff && has_16_bits(m);
    if (!grad || (!info->refuses_grad && !narrow)) return true;
    Diag *d = diag_error(ctx->diags, E0616, grad->span, "pass '%s' was given a `grad`%s, which only autodiff removes",
                         info->name, narrow ? " beside values of 16 bits" : "");
    diag_help(ctx->diags, d,
              narrow ? "put it before narrow, or behind autodiff: --run=...,narrow,autodiff"
                     : "put autodiff before it: --run=autodiff,...");
    return false;
}

/* ---- brackets ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void pass_begin(PassContext *ctx, PassId pass, PassPrint *print, const void *program)
{
    if (ctx->dump) ctx->dump(ctx->dump_user, pass, ctx->n_begun, false, print, program);
    ctx->began = now();
    ctx->function = NULL;
}

void pass_end(PassContext *ctx, PassId pass, PassPrint *print, const void *program)
{
    PassTiming row = {.pass = pass, .seconds = now() - ctx->began};
    VEC_PUSH(ctx->stage, &ctx->timings, row);
    if (ctx->dump) ctx->dump(ctx->dump_user, pass, ctx->n_begun, true, print, program);
    ctx->n_begun++;
}

static PassRemark *keep_remark(PassContext *ctx, PassRemark remark, const char *fmt, va_list ap)
{
    if (!ctx->keep_remarks) return &ctx->unkept;
    remark.text = arena_vprintf(ctx->stage, fmt, ap);
    VEC_PUSH(ctx->stage, &ctx->remarks, remark);
    return &ctx->remarks.data[ctx->remarks.n - 1];
}

PassRemark *pass_remark(PassContext *ctx, PassId pass, bool taken, Span span, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    PassRemark remark = {.pass = pass, .taken = taken, .function = ctx->function, .value = IR_NONE, .span = span};
    PassRemark *kept = keep_remark(ctx, remark, fmt, ap);
    va_end(ap);
    return kept;
}

PassRemark *pass_remark_at(PassContext *ctx, PassId pass, bool taken, const IrFunc *f, IrId v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ICE_UNLESS(v < f->ops.n);
    const IrOp *op = &f->ops.data[v];
    PassRemark remark = {
        .pass = pass, .taken = taken, .function = f->name, .value = v, .op = ir_ops[op->op].name, .span = op->span};
    PassRemark *kept = keep_remark(ctx, remark, fmt, ap);
    va_end(ap);
    return kept;
}

/* ---- what a pass made ---- */

/* A pass that breaks a module is a bug of the compiler: says which pass, and how to see it again. */
static void blame(PassContext *ctx, PassId pass, const char *step, const char *what)
{
    StrBuf why = {.arena = ctx->stage};
    diags_print(ctx->diags, &why, false);
    const char *name = pass_infos[pass].name, *where = step ? arena_printf(ctx->stage, ", its step `%s`,", step) : "";
    ICE(arena_printf(ctx->stage, "pass '%s' (run %u)%s %s; replay: gnnc ir MODEL --before=%s --time\n%s", name,
                     ctx->n_begun, where, what, name, strbuf_cstr(&why)));
}

/* print(parse(print(m))) == print(m), and the text passes the verifier. */
static void verify_roundtrip(PassContext *ctx, PassId pass, const char *step, const IrModule *m)
{
    StrBuf first = {.arena = ctx->stage}, second = {.arena = ctx->stage};
    ir_print(m, &first);
    Source text = {.path = "<roundtrip>", .text = strbuf_cstr(&first), .n = (uint32_t)first.n};
    const IrModule *again = ir_parse(ctx->stage, &text, ctx->diags);
    if (!again) blame(ctx, pass, step, "made a module whose text cannot be read");
    ir_print(again, &second);
    if (strcmp(strbuf_cstr(&first), strbuf_cstr(&second)))
        blame(ctx, pass, step, "made a module whose text reads back differently");
}

void pass_verify(PassContext *ctx, PassId pass, const char *step, const IrModule *m)
{
    if (ctx->verify == PASS_VERIFY_OFF) return;
    if (!ir_verify(m, ctx->diags)) blame(ctx, pass, step, "broke the module");
    if (ctx->verify == PASS_VERIFY_ROUNDTRIP) verify_roundtrip(ctx, pass, step, m);
}

void pass_verify_step(PassContext *ctx, PassId pass, const char *step, const IrModule *m, IrFunc *f)
{
    if (ctx->verify == PASS_VERIFY_OFF) return;
    IrModule *whole = ir_module_clone(ctx->stage, m);
    for (uint32_t i = 0; i < m->funcs.n; i++)
        if (!strcmp(m->funcs.data[i]->name, f->name)) whole->funcs.data[i] = f;
    pass_verify(ctx, pass, step, whole);
}
