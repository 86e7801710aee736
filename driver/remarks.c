/* Prints remarks of passes (see remarks.h):

     m.gnn:8:9: remark[hoist]: `mul` is the same in every run: computed once
         8 |   h = row_normalize(x, F)
           |       ^~~~~~~~~~~~~~~~~~~
         = train_step %17, taken; saves 14.2 MB and 2.1 Mflop per run
   Savings are for expected numbers of rows: what a compiler can know without a graph. */
#include "driver/remarks.h"
#include <string.h>

static bool has_json(const Session *s) { return strcmp(opt_value(&s->opt, OPT_REMARKS_FORMAT, "text"), "json") == 0; }

bool remarks_read(Session *s, PassContext *ctx)
{
    const char *format = opt_value(&s->opt, OPT_REMARKS_FORMAT, "text");
    ctx->keep_remarks = opt_has(&s->opt, OPT_REMARKS);
    if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0) {
        diag_error(&s->diags, E0612, (Span){0}, "`--remarks-format` wants text or json, found `%s`", format);
        return false;
    }
    if (opt_has(&s->opt, OPT_REMARKS_FORMAT) && !ctx->keep_remarks) {
        diag_error(&s->diags, E0612, (Span){0}, "`--remarks-format` wants `--remarks` beside it");
        return false;
    }
    Words names = opt_words(s->arena, opt_value(&s->opt, OPT_REMARKS, ""));
    for (uint32_t i = 0; i < names.n; i++)
        if (strcmp(names.data[i], "all") != 0 && pass_find_or_error(ctx, names.data[i]) == N_PASSES) return false;
    return true;
}

static bool is_wanted(const Words *names, const PassRemark *r)
{
    return !names->n || words_have(names, "all") || words_have(names, pass_infos[r->pass].name);
}

/* 12345678 -> "12.3 M" */
static void put_amount(StrBuf *out, double x, const char *unit)
{
    static const char *const scale[] = {"", "k", "M", "G", "T"};
    int k = 0;
    for (; x >= 1000 && k < 4; k++) x /= 1000;
    strbuf_printf(out, "%.3g %s%s", x, scale[k], unit);
}

static void print_text(const PassRemark *r, StrBuf *out)
{
    span_print_head(out, r->span);
    strbuf_printf(out, "remark[%s]: %s\n", pass_infos[r->pass].name, r->text);
    if (r->span.source) span_print_excerpt(out, r->span);
    strbuf_puts(out, "    = ");
    if (r->function) strbuf_puts(out, r->function);
    if (r->value != IR_NONE) strbuf_printf(out, " %%%u", r->value);
    strbuf_printf(out, "%s%s", r->function ? ", " : "", r->taken ? "taken" : "refused");
    if (r->bytes_saved > 0 || r->flops_saved > 0) {
        strbuf_puts(out, "; saves ");
        if (r->bytes_saved > 0) put_amount(out, r->bytes_saved, "B");
        if (r->bytes_saved > 0 && r->flops_saved > 0) strbuf_puts(out, " and ");
        if (r->flops_saved > 0) put_amount(out, r->flops_saved, "flop");
        strbuf_puts(out, " per run");
    }
    strbuf_puts(out, "\n");
}

static void put_string(StrBuf *out, const char *key, const char *text)
{
    strbuf_printf(out, "\"%s\":", key);
    if (text) strbuf_json(out, text);
    else strbuf_puts(out, "null");
    strbuf_puts(out, ",");
}

static void put_saving(StrBuf *out, const char *key, double x)
{
    strbuf_printf(out, x > 0 ? ",\"%s\":%.0f" : ",\"%s\":null", key, x);
}

static void print_json(const PassRemark *r, StrBuf *out)
{
    strbuf_puts(out, "{");
    put_string(out, "pass", pass_infos[r->pass].name);
    strbuf_printf(out, "\"taken\":%s,", r->taken ? "true" : "false");
    put_string(out, "function", r->function);
    strbuf_puts(out, "\"value\":");
    if (r->value == IR_NONE) strbuf_puts(out, "null,");
    else strbuf_printf(out, "%u,", r->value);
    put_string(out, "op", r->op);
    span_print_json(out, r->span);
    strbuf_puts(out, ",");
    put_string(out, "why", r->text);
    out->n--; /* the last comma */
    put_saving(out, "bytes_saved", r->bytes_saved);
    put_saving(out, "flops_saved", r->flops_saved);
    strbuf_puts(out, "}");
}

void remarks_print(Session *s, const PassContext *ctx, FILE *out)
{
    StrBuf text = {.arena = s->arena};
    Words names = opt_words(s->arena, opt_value(&s->opt, OPT_REMARKS, ""));
    bool json = has_json(s), any = false;
    if (!opt_has(&s->opt, OPT_REMARKS)) return;
    for (uint32_t i = 0; i < ctx->remarks.n; i++) {
        const PassRemark *r = &ctx->remarks.data[i];
        if (!is_wanted(&names, r)) continue;
        if (json) strbuf_puts(&text, any ? ",\n " : "[");
        (json ? print_json : print_text)(r, &text);
        any = true;
    }
    if (json) strbuf_puts(&text, any ? "]\n" : "[]\n");
    fputs(strbuf_cstr(&text), out);
}
