/* gnnc ir: prints graph IR as elaborated, or after the passes that were asked for, as text, as what a pass changed, or
   as a drawing; or what passes have to say (--remarks). Kernel IR is read, verified and printed. */
#include "base/file.h"
#include "driver/pipeline.h"
#include "driver/remarks.h"
#include "driver/text_diff.h"
#include "ir/kernel.h"
#include "passes/pipeline/pipeline.h"
#include <string.h>

typedef enum { FORM_TEXT, FORM_DOT, FORM_SVG } Form;

typedef struct Wanted { /* --after, --before, --diff, --format */
    Session *s;
    PassId after, before; /* N_PASSES: none */
    bool all, printed, diff;
    Form form;
    const char *old;       /* diff: the text before the pass that runs */
    const IrModule *drawn; /* dot, svg: the module to draw */
} Wanted;

static bool is_kernel_stage(PassId p) { return p != N_PASSES && pass_infos[p].stage == PASS_STAGE_KERNEL; }

static const char *text_of(const Wanted *w, PassPrint *print, const void *program)
{
    StrBuf text = {.arena = w->s->arena};
    print(program, &text);
    return strbuf_cstr(&text);
}

static void show_diff(Wanted *w, PassId pass, uint32_t index, bool after, const char *text)
{
    Arena *a = w->s->arena;
    StrBuf out = {.arena = a};
    if (!after) {
        w->old = text;
        return;
    }
    const char *name = pass_infos[pass].name;
    gir_diff(a, w->old, text, arena_printf(a, "before %s (run %u)", name, index),
             arena_printf(a, "after %s (run %u)", name, index), &out);
    fputs(strbuf_cstr(&out), stdout);
}

static void dump(void *user, PassId pass, uint32_t index, bool after, PassPrint *print, const void *program)
{
    Wanted *w = user;
    bool wanted = w->all || pass == w->after;
    if (w->diff && wanted && !is_kernel_stage(pass)) show_diff(w, pass, index, after, text_of(w, print, program));
    if (!after) wanted = pass == w->before;
    if (!wanted || w->diff) return;
    if (w->form != FORM_TEXT) {
        if (!is_kernel_stage(pass)) w->drawn = program;
        return;
    }
    printf("%s# %s %s (run %u)\n%s", w->printed ? "\n" : "", after ? "after" : "before", pass_infos[pass].name, index,
           text_of(w, print, program));
    w->printed = true;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static bool find_pass(Session *s, PassContext *ctx, OptId opt, PassId *out)
{
    *out = N_PASSES;
    const char *name = opt_value(&s->opt, opt, NULL);
    if (!name || strcmp(name, "all") == 0) return true;
    *out = pass_find_or_error(ctx, name);
    return *out != N_PASSES;
}

static bool read_form(Session *s, Form *form)
{
    static const char *const names[] = {[FORM_TEXT] = "text", [FORM_DOT] = "dot", [FORM_SVG] = "svg"};
    const char *name = opt_value(&s->opt, OPT_FORMAT, "text");
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return *form = (Form)i, true;
    diag_error(&s->diags, E0612, (Span){0}, "`gnnc ir --format` wants text, dot or svg, found `%s`", name);
    return false;
}

static bool refuse(Session *s, const char *what)
{
    diag_error(&s->diags, E0612, (Span){0}, "%s", what);
    return false;
}

static bool read_options(Session *s, PassContext *ctx, Wanted *w)
{
    if (!find_pass(s, ctx, OPT_AFTER, &w->after) || !find_pass(s, ctx, OPT_BEFORE, &w->before)) return false;
    if (!read_form(s, &w->form) || !remarks_read(s, ctx)) return false;
    w->all = strcmp(opt_value(&s->opt, OPT_AFTER, ""), "all") == 0;
    w->diff = opt_has(&s->opt, OPT_DIFF);
    bool graph_only = w->diff || w->form != FORM_TEXT;
    if (w->diff && !opt_has(&s->opt, OPT_AFTER)) return refuse(s, "`--diff` wants `--after=PASS` beside it");
    if (w->diff && w->form != FORM_TEXT) return refuse(s, "`--diff` is text: it does not go with `--format`");
    if (graph_only && (is_kernel_stage(w->after) || is_kernel_stage(w->before)))
        return refuse(s, "`--diff` and drawings show graph IR; this pass makes kernels");
    return true;
}

static bool wants_passes(const Session *s)
{
    return opt_has(&s->opt, OPT_RUN) || opt_has(&s->opt, OPT_AFTER) || opt_has(&s->opt, OPT_BEFORE) ||
           opt_has(&s->opt, OPT_REMARKS);
}

/* Whether something after the graph passes was asked for; those run in lower_module. */
static bool wants_kernel_stage(const Wanted *w)
{
    bool text = !w->diff && w->form == FORM_TEXT;
    return (w->all && text) || is_kernel_stage(w->after) || is_kernel_stage(w->before) ||
           (opt_has(&w->s->opt, OPT_REMARKS) && !opt_has(&w->s->opt, OPT_RUN));
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static int print_kernels(Session *s, const char *path)
{
    StrBuf text = {.arena = s->arena};
    if (wants_passes(s))
        return refuse(s, arena_printf(s->arena, "passes work on graph IR; `%s` is kernel IR", path)), 1;
    const Source *src = session_source(s, path);
    const KirModule *m = src ? kir_parse(s->arena, src, &s->diags) : NULL;
    if (!m) return 1;
    kir_print_module(m, &text);
    fputs(strbuf_cstr(&text), stdout);
    return 0;
}

/* graphviz lays the drawing out; NULL with a diagnostic where it cannot. */
static const char *svg_of(Session *s, const StrBuf *dot, const char *dir)
{
    const char *in = arena_printf(s->arena, "%s/graph.dot", dir), *out = arena_printf(s->arena, "%s/graph.svg", dir);
    const char *const argv[] = {"dot", "-Tsvg", "-o", out, in, NULL};
    const char *why = NULL;
    char *log = NULL;
    size_t n;
    if (!file_write(s->arena, in, strbuf_cstr(dot), dot->n, 0600, &why)) {
        diag_error(&s->diags, E0602, (Span){0}, "cannot write `%s`: %s", in, why);
        return NULL;
    }
    int status = file_spawn(s->arena, argv, &log, &why);
    char *svg = status == 0 ? file_read(s->arena, out, 0, &n, &why) : NULL;
    if (svg) return svg;
    Diag *it = diag_error(&s->diags, E0632, (Span){0}, "cannot run `dot`: %s",
                          why           ? why
                          : log && *log ? log
                                        : "not found");
    diag_help(&s->diags, it, "install graphviz, or take `--format=dot`");
    return NULL;
}

static int print_drawing(Session *s, const IrModule *m, Form form)
{
    StrBuf dot = {.arena = s->arena};
    const char *why = NULL, *text;
    ir_print_dot(m, &dot);
    text = strbuf_cstr(&dot);
    if (form == FORM_SVG) {
        TempFolder dir;
        if (!temp_folder_make(s->arena, NULL, &dir, &why))
            return diag_error(&s->diags, E0602, (Span){0}, "cannot make a folder: %s", why), 1;
        text = svg_of(s, &dot, dir.path);
        temp_folder_remove(&dir);
    }
    if (text) fputs(text, stdout);
    return text == NULL;
}

static int print_module(Session *s, const Wanted *w, const IrModule *m)
{
    bool dumped = opt_has(&s->opt, OPT_AFTER) || opt_has(&s->opt, OPT_BEFORE);
    StrBuf text = {.arena = s->arena};
    if (w->form != FORM_TEXT) return print_drawing(s, w->drawn ? w->drawn : m, w->form);
    if (dumped || opt_has(&s->opt, OPT_REMARKS)) return 0;
    ir_print(m, &text);
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
    if (!read_options(s, &ctx, &w)) return 1;
    ctx.dump = dump;
    ctx.dump_user = &w;
    const IrModule *m = pipeline_load(s, path);
    if (m && wants_passes(s)) pipeline_pairs(s, m, &ctx);
    if (m && wants_passes(s)) m = pass_run_pipeline(&ctx, m);
    if (!m || (wants_kernel_stage(&w) && !lower_module(&ctx, ir_without_tests(s->arena, m)))) return 1;
    remarks_print(s, &ctx, stdout);
    if (print_module(s, &w, m)) return 1;
    if (opt_has(&s->opt, OPT_TIME)) pipeline_print_times(&ctx, stderr);
    return 0;
}
