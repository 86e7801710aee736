/* Diagnostics: collection, text and JSON rendering; contracts in diag.h. */
#include "base/diag.h"
#include "base/ice.h"
#include <stdlib.h>
#include <string.h>

const CodeInfo diag_codes[N_CODES] = {
#define CODE(id, exit, title, page) [id] = {#id, exit, title, page},
#include "base/codes.def"
#undef CODE
};

enum { DEFAULT_MAX_ERRORS = 20 };

/* It lies in its text, or is nowhere. */
static bool is_place(Span s) { return !s.source || (s.begin <= s.end && s.end <= s.source->n); }

Diag *diag_error(Diags *d, DiagCode code, Span span, const char *fmt, ...)
{
    ICE_UNLESS(code < N_CODES && is_place(span));
    for (uint32_t i = 0; i < d->list.n; i++) {
        Diag *old = d->list.data[i];
        if (old->code == code && old->span.source == span.source && old->span.begin == span.begin) return old;
    }
    Diag *it = ARENA_NEW(d->arena, Diag);
    it->code = code;
    it->span = span;
    va_list ap;
    va_start(ap, fmt);
    it->text = arena_vprintf(d->arena, fmt, ap);
    va_end(ap);
    uint32_t limit = d->max_errors ? d->max_errors : DEFAULT_MAX_ERRORS;
    if (++d->n_errors > limit) d->n_dropped++;
    else VEC_PUSH(d->arena, &d->list, it);
    return it;
}

void diag_note(Diags *d, Diag *at, Span span, const char *fmt, ...)
{
    ICE_UNLESS(is_place(span));
    va_list ap;
    va_start(ap, fmt);
    DiagNote note = {.span = span, .text = arena_vprintf(d->arena, fmt, ap)};
    va_end(ap);
    for (uint32_t i = 0; i < at->notes.n; i++) {
        const DiagNote *old = &at->notes.data[i];
        if (old->span.source == span.source && old->span.begin == span.begin && !strcmp(old->text, note.text)) return;
    }
    VEC_PUSH(d->arena, &at->notes, note);
}

static uint32_t line_of(const Source *s, uint32_t at)
{
    uint32_t line, col;
    source_line_col(s, at, &line, &col);
    return line;
}

void diag_beside(Diags *d, Diag *at, Span span, const char *label, const char *text)
{
    diag_note(d, at, span, "%s", text);
    DiagNote *n = &at->notes.data[at->notes.n - 1];
    n->beside = span.source == at->span.source && (span.end <= at->span.begin || span.begin >= at->span.end) &&
                line_of(span.source, span.begin) == line_of(span.source, at->span.begin) &&
                line_of(span.source, span.end) == line_of(span.source, at->span.begin);
    if (n->beside) at->label = arena_strndup(d->arena, label, strlen(label));
}

void diag_help(Diags *d, Diag *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    at->help = arena_vprintf(d->arena, fmt, ap);
    va_end(ap);
}

void diag_fix(Diags *d, Diag *at, Span span, const char *fmt, ...)
{
    ICE_UNLESS(span.source && is_place(span));
    va_list ap;
    va_start(ap, fmt);
    at->fix_span = span;
    at->fix = arena_vprintf(d->arena, fmt, ap);
    va_end(ap);
}

const char *diag_suggest(Diags *d, Diag *at, Span span, const char *name, const char *const *candidates, size_t n)
{
    const char *near = str_nearest(name, candidates, n);
    if (!near) return NULL;
    bool sure = span.source && strlen(name) > 1;
    for (size_t i = 0; i < n && sure; i++)
        sure = !strcmp(candidates[i], near) || str_distance(name, candidates[i]) > str_distance(name, near);
    diag_help(d, at, "did you mean `%s`?", near);
    if (sure) diag_fix(d, at, span, "%s", near);
    return near;
}

Span span_join(Span a, Span b)
{
    if (b.end > a.end) a.end = b.end;
    return a;
}

void source_line_col(const Source *s, uint32_t at, uint32_t *line, uint32_t *col)
{
    uint32_t l = 1, start = 0;
    ICE_UNLESS(at <= s->n);
    for (uint32_t i = 0; i < at; i++)
        if (s->text[i] == '\n') l++, start = i + 1;
    *line = l;
    *col = at - start + 1;
}

/* What stands below byte i of the source line: ^ where the span begins, ~ in it and in a note beside it. */
static char mark(const Diag *it, Span span, uint32_t i)
{
    uint32_t end = span.end > span.begin ? span.end : span.begin + 1;
    if (i >= span.begin && i < end) return i == span.begin ? '^' : '~';
    for (uint32_t k = 0; it && k < it->notes.n; k++) {
        const DiagNote *n = &it->notes.data[k];
        if (n->beside && i >= n->span.begin && i < n->span.end) return '~';
    }
    return ' ';
}

/* The source line of a span with a caret below it; of a diagnostic's main span, with notes beside it and its label. */
static void print_excerpt(StrBuf *out, Span span, const Diag *it)
{
    const Source *s = span.source;
    uint32_t line, col;
    source_line_col(s, span.begin, &line, &col);
    uint32_t start = span.begin - (col - 1), stop = start;
    while (stop < s->n && s->text[stop] != '\n') stop++;
    enum { MAX_SHOWN = 160 };
    uint32_t from = col > 100 ? start + col - 60 : start;
    uint32_t shown = stop - from > MAX_SHOWN ? MAX_SHOWN : stop - from;
    strbuf_printf(out, "%5u | %.*s\n      | ", line, (int)shown, s->text + from);
    uint32_t last = span.begin;
    for (uint32_t i = from; i < from + shown; i++)
        if (mark(it, span, i) != ' ') last = i;
    for (uint32_t i = from; i <= last; i++) {
        char c = mark(it, span, i);
        strbuf_printf(out, "%c", c == ' ' && s->text[i] == '\t' ? '\t' : c);
    }
    if (it && it->label) strbuf_printf(out, " %s", it->label);
    strbuf_puts(out, "\n");
}

void span_print_head(StrBuf *out, Span span)
{
    if (!span.source) {
        strbuf_puts(out, "gnnc: ");
        return;
    }
    uint32_t line, col;
    source_line_col(span.source, span.begin, &line, &col);
    strbuf_printf(out, "%s:%u:%u: ", span.source->path, line, col);
}

void span_print_excerpt(StrBuf *out, Span span) { print_excerpt(out, span, NULL); }

static void print_one(const Diag *it, StrBuf *out, bool colour)
{
    const char *on = colour ? "\033[1;31m" : "", *off = colour ? "\033[0m" : "";
    span_print_head(out, it->span);
    strbuf_printf(out, "%serror[%s]%s: %s\n", on, diag_codes[it->code].id, off, it->text);
    if (it->span.source) print_excerpt(out, it->span, it);
    for (uint32_t i = 0; i < it->notes.n; i++) {
        const DiagNote *n = &it->notes.data[i];
        if (n->beside) continue;
        if (n->span.source) {
            span_print_head(out, n->span);
            strbuf_printf(out, "note: %s\n", n->text);
            print_excerpt(out, n->span, NULL);
        } else {
            strbuf_printf(out, "    = note: %s\n", n->text);
        }
    }
    if (it->help) strbuf_printf(out, "    = help: %s\n", it->help);
    bool inserts = it->fix && it->fix_span.end == it->fix_span.begin;
    if (it->fix) strbuf_printf(out, inserts ? "    = fix: insert `%s`\n" : "    = fix: replace with `%s`\n", it->fix);
}

void diags_print(const Diags *d, StrBuf *out, bool colour)
{
    for (uint32_t i = 0; i < d->list.n; i++) print_one(d->list.data[i], out, colour);
    if (d->n_dropped) strbuf_printf(out, "gnnc: %u more errors not shown\n", d->n_dropped);
}

void span_print_json(StrBuf *out, Span span)
{
    if (!span.source) {
        strbuf_puts(out, "\"path\":null");
        return;
    }
    uint32_t l0, c0, l1, c1;
    source_line_col(span.source, span.begin, &l0, &c0);
    source_line_col(span.source, span.end, &l1, &c1);
    strbuf_puts(out, "\"path\":");
    strbuf_json(out, span.source->path);
    strbuf_printf(out, ",\"line\":%u,\"col\":%u,\"end_line\":%u,\"end_col\":%u", l0, c0, l1, c1);
}

static void json_one(const Diag *it, StrBuf *out)
{
    strbuf_printf(out, "{\"level\":\"error\",\"code\":\"%s\",", diag_codes[it->code].id);
    span_print_json(out, it->span);
    strbuf_puts(out, ",\"text\":");
    strbuf_json(out, it->text);
    strbuf_puts(out, ",\"notes\":[");
    for (uint32_t i = 0; i < it->notes.n; i++) {
        strbuf_puts(out, i ? ",{" : "{");
        span_print_json(out, it->notes.data[i].span);
        strbuf_puts(out, ",\"text\":");
        strbuf_json(out, it->notes.data[i].text);
        strbuf_puts(out, "}");
    }
    strbuf_puts(out, "],\"help\":");
    if (it->help) strbuf_json(out, it->help);
    else strbuf_puts(out, "null");
    strbuf_puts(out, ",\"fix\":");
    if (it->fix) {
        strbuf_puts(out, "{");
        span_print_json(out, it->fix_span);
        strbuf_puts(out, ",\"text\":");
        strbuf_json(out, it->fix);
        strbuf_puts(out, "}");
    } else {
        strbuf_puts(out, "null");
    }
    strbuf_puts(out, "}");
}

void diags_print_json(const Diags *d, StrBuf *out)
{
    strbuf_puts(out, "[");
    for (uint32_t i = 0; i < d->list.n; i++) {
        if (i) strbuf_puts(out, ",\n ");
        json_one(d->list.data[i], out);
    }
    strbuf_puts(out, "]\n");
}

int diags_exit_code(const Diags *d) { return d->list.n ? diag_codes[d->list.data[0]->code].exit_code : 0; }

const CodeInfo *diag_code_find(const char *id)
{
    for (int i = 0; i < N_CODES; i++)
        if (strcmp(diag_codes[i].id, id) == 0) return &diag_codes[i];
    return NULL;
}
