/* `gnnc doc` for a terminal; contract in doc.h. Lines are broken at 100 columns, formulas never inside a word. */
#include "driver/doc.h"

enum { WIDTH = 100 };

/* Bytes of the next piece that no line breaks: a word, or words around `=`. */
static size_t piece(const char *p)
{
    size_t n = strcspn(p, " ");
    while (strncmp(p + n, " = ", 3) == 0) n += 3 + strcspn(p + n + 3, " ");
    return n;
}

/* Pieces of text from column `at` on; further lines begin at column `indent`. */
static void wrap(StrBuf *out, const char *text, size_t at, size_t indent)
{
    bool first = true;
    for (const char *p = text; *p;) {
        size_t n = piece(p);
        if (!first && at + 1 + n > WIDTH) {
            strbuf_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            strbuf_puts(out, " ");
            at++;
        }
        strbuf_add(out, p, n);
        at += n;
        first = false;
        p += n + strspn(p + n, " ");
    }
    strbuf_puts(out, "\n");
}

static void print_lines(StrBuf *out, const char *word, const DocLines *lines)
{
    for (uint32_t i = 0; i < lines->n; i++) {
        strbuf_printf(out, "    %-10s", i ? "" : word);
        wrap(out, lines->data[i], 14, 18);
    }
}

static void print_comment(StrBuf *out, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        strbuf_printf(out, "    %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    if (*text) strbuf_puts(out, "\n");
}

static void print_entry(const DocSelection *s, const DocEntry *e, StrBuf *out)
{
    wrap(out, e->signature, 0, 6);
    strbuf_printf(out, "    %s:%u\n\n", s->lib->families.data[e->family].path, e->line);
    print_comment(out, e->text);
    print_lines(out, "inputs", &e->inputs);
    print_lines(out, "options", &e->options);
    print_lines(out, "stored", &e->stored);
    for (uint32_t i = 0; i < e->tests.n; i++) {
        const DocTest *t = &e->tests.data[i];
        strbuf_printf(out, "    %-10s\"%s\", %s:%u\n", i ? "" : "tests", t->name, t->path, t->line);
    }
}

static void print_family(const DocSelection *s, uint32_t family, StrBuf *out)
{
    const DocFamily *f = &s->lib->families.data[family];
    StrBuf names = {.arena = out->arena};
    for (uint32_t i = 0; i < s->lib->entries.n; i++)
        if (s->wanted[i] && s->lib->entries.data[i].family == family)
            strbuf_printf(&names, "%s%s", names.n ? " " : "", s->lib->entries.data[i].name);
    if (!names.n) return;
    strbuf_printf(out, "%s%s", out->n ? "\n" : "", f->name);
    if (*f->text) strbuf_puts(out, "  ");
    wrap(out, doc_first_sentence(out->arena, f->text), strlen(f->name) + 2, 2);
    strbuf_puts(out, "    ");
    wrap(out, strbuf_cstr(&names), 4, 4);
}

void doc_print_text(const DocSelection *s, StrBuf *out)
{
    if (s->overview) {
        for (uint32_t i = 0; i < s->lib->families.n; i++) print_family(s, i, out);
        strbuf_puts(
            out, "\n`gnnc doc NAME` shows one of them, or all of a family; `--format=html -o FILE` writes a page.\n");
        return;
    }
    for (uint32_t i = 0; i < s->lib->entries.n; i++) {
        if (!s->wanted[i]) continue;
        if (out->n) strbuf_puts(out, "\n");
        print_entry(s, &s->lib->entries.data[i], out);
    }
}
