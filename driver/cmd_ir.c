/* gnnc ir: prints graph IR as elaborated, or after the passes that were asked for. Kernel IR is read, verified and printed. */
#include "driver/pipeline.h"
#include "ir/kernel.h"
#include "passes/lower.h"
#include <string.h>

typedef struct Wanted { /* --after, --before */
    Session *s;
    PassId after, before; /* N_PASSES: none */
    bool all, printed;
} Wanted;

static void dump(void *user, PassId pass, uint32_t index, bool after, PassPrint *print, const void *program)
{
    Wanted *w = user;
    bool wanted = after ? w->all || pass == w->after : pass == w->before;
    if (!wanted) return;
    StrBuf text = {.arena = w->s->arena};
    print(program, &text);
    printf("%s# %s %s (run %u)\n%s", w->printed ? "\n" : "", after ? "after" : "before", pass_infos[pass].name, index,
           strbuf_cstr(&text));
    w->printed = true;
}

static bool find_pass(Session *s, OptId opt, PassId *out)
{
    *out = N_PASSES;
    const char *name = opt_value(&s->opt, opt, NULL);
    if (!name || strcmp(name, "all") == 0) return true;
    *out = pass_find(name);
    if (*out != N_PASSES) return true;
    const char *names[N_PASSES];
    for (int i = 0; i < N_PASSES; i++) names[i] = pass_infos[i].name;
    Diag *it = diag_error(&s->diags, E0612, (Span){0}, "there is no pass `%s`", name);
    const char *near = str_nearest(name, names, N_PASSES);
    if (near) diag_help(&s->diags, it, "did you mean `%s`?", near);
    return false;
}

static bool wants_passes(const Session *s)
{
    return opt_has(&s->opt, OPT_RUN) || opt_has(&s->opt, OPT_AFTER) || opt_has(&s->opt, OPT_BEFORE);
}

static bool is_kernel_stage(PassId p) { return p != N_PASSES && pass_infos[p].stage == PASS_STAGE_KERNEL; }

/* Whether something after the graph passes was asked for; those run in lower_module. */
static bool wants_kernel_stage(const Wanted *w)
{
    return w->all || is_kernel_stage(w->after) || is_kernel_stage(w->before);
}

static int print_kernels(Session *s, const char *path)
{
    StrBuf text = {.arena = s->arena};
    if (wants_passes(s)) {
        diag_error(&s->diags, E0612, (Span){0}, "passes work on graph IR; `%s` is kernel IR", path);
        return 1;
    }
    const Source *src = session_source(s, path);
    const KirModule *m = src ? kir_parse(s->arena, src, &s->diags) : NULL;
    if (!m) return 1;
    kir_print_module(m, &text);
    fputs(strbuf_cstr(&text), stdout);
    return 0;
}

int cmd_ir(Session *s)
{
    Wanted w = {.s = s};
    PassContext ctx;
    const char *path = session_one_file(s, "model, .gir or .kir file");
    if (!path || !pipeline_context(s, &ctx)) return 1;
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, ".kir") == 0) return print_kernels(s, path);
    if (!find_pass(s, OPT_AFTER, &w.after) || !find_pass(s, OPT_BEFORE, &w.before)) return 1;
    if (opt_has(&s->opt, OPT_FORMAT) && strcmp(opt_value(&s->opt, OPT_FORMAT, ""), "text") != 0) {
        diag_error(&s->diags, E0910, (Span){0}, "`gnnc ir --format=%s` is not built yet; text is", opt_value(&s->opt, OPT_FORMAT, ""));
        return 1;
    }
    w.all = strcmp(opt_value(&s->opt, OPT_AFTER, ""), "all") == 0;
    ctx.dump = dump;
    ctx.dump_user = &w;
    const IrModule *m = pipeline_load(s, path);
    if (m && wants_passes(s)) m = pass_run_pipeline(&ctx, m);
    if (!m || (wants_kernel_stage(&w) && !lower_module(&ctx, pipeline_without_tests(s->arena, m)))) return 1;
    if (!opt_has(&s->opt, OPT_AFTER) && !opt_has(&s->opt, OPT_BEFORE)) {
        StrBuf text = {.arena = s->arena};
        ir_print(m, &text);
        fputs(strbuf_cstr(&text), stdout);
    }
    if (opt_has(&s->opt, OPT_TIME)) pipeline_print_times(&ctx, stderr);
    return 0;
}
