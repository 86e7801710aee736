/* gnnc check, fmt, explain: the commands that stop at the front end. */
#include "base/file.h"
#include "driver/blocks.h"
#include "driver/commands.h"
#include "driver/fix.h"
#include "driver/store_error.h"
#include <stdio.h>
#include <string.h>

static void print_fixes(Session *s, const Fixes *f)
{
    StrBuf out = {.arena = s->arena};
    for (uint32_t i = 0; i < f->applied.n; i++) {
        const FixEdit *it = &f->applied.data[i];
        int n = (int)(it->span.end - it->span.begin);
        span_print_head(&out, it->span);
        strbuf_printf(&out, n ? "fixed[%s]: `%.*s` is now `%s`\n" : "fixed[%s]: %.*sinserted `%s`\n",
                      diag_codes[it->code].id, n, it->span.source->text + it->span.begin, it->text);
    }
    fputs(strbuf_cstr(&out), stderr);
}

/* --fix: what is left to say is said of the text as it is now. NULL with a diagnostic. */
static const Source *fix_source(Session *s, const Source *src, const FrontendOptions *fo)
{
    const char *why = NULL;
    if (strcmp(src->path, "-") == 0) {
        diag_error(&s->diags, E0612, (Span){0}, "`--fix` wants a file, found standard input");
        return NULL;
    }
    Fixes f = fixes_apply(s->arena, src, fo);
    if (f.result == src) return src;
    if (!file_write(s->arena, src->path, f.result->text, f.result->n, 0644, &why)) {
        diag_error(&s->diags, E0602, (Span){0}, "cannot write `%s`: %s", src->path, why);
        return NULL;
    }
    print_fixes(s, &f);
    return f.result;
}

int cmd_check(Session *s)
{
    FrontendOptions fo;
    const char *path = session_one_file(s, "model file");
    if (!path || !session_frontend_options(s, &fo)) return 1;
    if (!opt_has(&s->opt, OPT_STORE) && (opt_has(&s->opt, OPT_WEIGHTS) || opt_has(&s->opt, OPT_SEED)))
        return diag_error(&s->diags, E0612, (Span){0}, "`--weights` and `--seed` want `--store` beside them"), 1;
    fo.symbolic = true;
    const Source *src = session_source(s, path);
    if (src && opt_has(&s->opt, OPT_FIX)) src = fix_source(s, src, &fo);
    if (!src || !frontend_compile(s->arena, src, &fo, &s->diags)) return 1;
    if (opt_has(&s->opt, OPT_STORE)) return store_error_report(s, path);
    if (strcmp(opt_value(&s->opt, OPT_FORMAT, "text"), "json") != 0) printf("%s: ok\n", path);
    return 0;
}

static int format_one(Session *s, const char *path)
{
    const char *why = NULL;
    const Source *src = session_source(s, path);
    const char *text = src ? frontend_format(s->arena, src, &s->diags) : NULL;
    if (!text) return 1;
    if (opt_has(&s->opt, OPT_STDOUT) || strcmp(path, "-") == 0) {
        fputs(text, stdout);
        return 0;
    }
    if (strcmp(text, src->text) == 0) return 0;
    if (opt_has(&s->opt, OPT_CHECK)) {
        printf("%s: would change\n", path);
        return 1;
    }
    if (!file_write(s->arena, path, text, strlen(text), 0644, &why)) {
        diag_error(&s->diags, E0602, (Span){0}, "cannot write `%s`: %s", path, why);
        return 6;
    }
    return 0;
}

int cmd_fmt(Session *s)
{
    int code = 0;
    if (!s->opt.files.n) diag_error(&s->diags, E0613, (Span){0}, "at least one file is wanted");
    for (uint32_t i = 0; i < s->opt.files.n; i++) {
        int one = format_one(s, s->opt.files.data[i]);
        if (one > code) code = one;
    }
    return code;
}

/* --as-blocks: the layer in eval mode, as `check` sees it, with dims that may stay open. */
static int explain_blocks(Session *s, const char *layer)
{
    FrontendOptions fo;
    StrBuf out = {.arena = s->arena};
    const char *path = s->opt.files.n ? session_one_file(s, "model file") : "";
    const Source *src = path ? session_source(s, path) : NULL;
    if (!src || !session_frontend_options(s, &fo)) return 1;
    fo.symbolic = true;
    fo.export_layer = layer;
    const IrModule *m = frontend_compile(s->arena, src, &fo, &s->diags);
    const IrFunc *f = m ? ir_func_find(m, "forward") : NULL;
    if (!f) return 1;
    strbuf_printf(&out, "%s\n", layer);
    blocks_print(s->arena, m, f, &out);
    fputs(strbuf_cstr(&out), stdout);
    return 0;
}

int cmd_explain(Session *s)
{
    if (opt_has(&s->opt, OPT_AS_BLOCKS)) return explain_blocks(s, opt_value(&s->opt, OPT_AS_BLOCKS, ""));
    const char *id = session_one_file(s, "error code, such as E0203,");
    if (!id) return 1;
    const CodeInfo *info = diag_code_find(id);
    if (!info) {
        Diag *it = diag_error(&s->diags, E0612, (Span){0}, "there is no error code `%s`", id);
        diag_help(&s->diags, it, "codes look like E0203; a message shows its code in brackets");
        return 1;
    }
    printf("%s: %s (exit code %d)\n\n%s\n", info->id, info->title, info->exit_code, info->page);
    return 0;
}
