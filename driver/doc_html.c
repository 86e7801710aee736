/* `gnnc doc --format=html`; contract in doc.h. The page reads without style sheets and without a mouse: headings in
   order, landmarks with names, a link past the navigation, definitions folded by <details>; colours keep a contrast of
   4.5 to 1 in the light and in the dark scheme. It holds no script, and no address but its own anchors. */
#include "driver/doc.h"
#include <ctype.h>

/* clang-format off */
static const char style[] =
    ":root{color-scheme:light dark;--bg:#fbfbf9;--fg:#1d2327;--soft:#59636b;--line:#dcdfdb;--code:#f1f2ee;--link:#0b5a8a;--key:#8a3b12}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#15191c;--fg:#e3e6e4;--soft:#a3adb3;--line:#343b40;--code:#1e2428;--link:#7cc0ee;"
    "--key:#f0a878}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--fg);font:1rem/1.6 system-ui,-apple-system,\"Segoe UI\",sans-serif;display:grid;"
    "grid-template-columns:17rem minmax(0,1fr)}\n"
    "a{color:var(--link);text-underline-offset:.15em}\n"
    "a:focus-visible,summary:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:2px}\n"
    "code,pre{font-family:ui-monospace,\"SF Mono\",Menlo,Consolas,\"Liberation Mono\",monospace;font-size:.875em}\n"
    "pre{margin:.6rem 0;padding:.75rem 1rem;background:var(--code);border-radius:6px;overflow-x:auto;line-height:1.5}\n"
    "p code,li code,td code{background:var(--code);border-radius:3px;padding:.1em .3em}\n"
    ".skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;background:var(--bg);padding:.5rem 1rem;z-index:1}\n"
    "nav{position:sticky;top:0;height:100vh;overflow-y:auto;padding:1.5rem 1.25rem;border-right:1px solid var(--line);font-size:.9rem}\n"
    "nav p{font-weight:600;margin:1.1rem 0 .2rem}nav ul{list-style:none;margin:0;padding:0}nav li{margin:.1rem 0}\n"
    "nav a{text-decoration:none}nav a:hover{text-decoration:underline}nav p a{color:var(--fg)}\n"
    "main{max-width:56rem;padding:1.5rem 2.5rem 6rem}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.45rem;margin:3.5rem 0 .5rem;padding-bottom:.3rem;"
    "border-bottom:1px solid var(--line)}\n"
    "article{margin:2.25rem 0;scroll-margin-top:1rem}article h3{font-size:1.15rem;margin:0;display:flex;gap:.6rem;align-items:baseline}\n"
    "h3 small{font-weight:400;color:var(--soft);margin-left:auto}h3 a{color:inherit;text-decoration:none}h3 a:hover{text-decoration:underline}\n"
    "pre.head{white-space:pre-wrap;border-left:3px solid var(--key);padding-left:2rem;text-indent:-1rem}.key{color:var(--key)}\n"
    ".section{color:var(--soft)}\n"
    "dl{display:grid;grid-template-columns:6rem minmax(0,1fr);gap:.15rem .75rem;margin:.75rem 0;font-size:.95rem}\n"
    "dt{color:var(--soft)}dd{margin:0}details{margin:.5rem 0}summary{cursor:pointer;color:var(--soft)}\n"
    "@media(max-width:48rem){body{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}"
    "nav li{display:inline-block;margin-right:.6rem}main{padding:1rem 1.25rem 4rem}}\n"
    "@media print{nav,.skip{display:none}body{display:block}article{break-inside:avoid}}\n";
/* clang-format on */

static void escape(StrBuf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (p[i]) {
        case '&': strbuf_puts(out, "&amp;"); break;
        case '<': strbuf_puts(out, "&lt;"); break;
        case '>': strbuf_puts(out, "&gt;"); break;
        case '"': strbuf_puts(out, "&quot;"); break;
        default: strbuf_add(out, p + i, 1);
        }
    }
}

static void escape_text(StrBuf *out, const char *s) { escape(out, s, strlen(s)); }

/* Anchors: a name may stand in several families and, as reducer and function, twice in one; primes are no part of an
   address. */
static void add_anchor(StrBuf *out, const DocSelection *s, const DocEntry *e)
{
    escape_text(out, s->lib->families.data[e->family].name);
    strbuf_printf(out, "-%u-", e->line);
    for (const char *p = e->name; *p; p++) strbuf_add(out, *p == '\'' ? "_" : p, 1);
}

/* A comment as paragraphs: `code` between backquotes, an indented line as it stands. */
static void add_comment(StrBuf *out, const char *text)
{
    bool open = false, code = false;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        bool block = n && isspace((unsigned char)*p);
        if (open && (!n || block)) strbuf_puts(out, "</p>\n"), open = false;
        if (block) {
            strbuf_puts(out, "<pre>");
            escape(out, p, n);
            strbuf_puts(out, "</pre>\n");
        } else if (n) {
            strbuf_puts(out, open ? "\n" : "<p>");
            open = true;
            for (size_t i = 0; i < n; i++) {
                if (p[i] != '`') escape(out, p + i, 1);
                else if (code) strbuf_puts(out, "</code>"), code = false;
                else if (memchr(p + i + 1, '`', n - i - 1)) strbuf_puts(out, "<code>"), code = true;
                else strbuf_puts(out, "`");
            }
        }
        p += n + (p[n] == '\n');
    }
    if (open) strbuf_puts(out, "</p>\n");
}

static void add_lines(StrBuf *out, const char *word, const DocLines *lines)
{
    if (lines->n) strbuf_printf(out, "<dt>%s</dt>", word);
    for (uint32_t i = 0; i < lines->n; i++) {
        strbuf_puts(out, i ? "<dt></dt><dd><code>" : "<dd><code>");
        escape_text(out, lines->data[i]);
        strbuf_puts(out, "</code></dd>\n");
    }
}

static void add_tests(StrBuf *out, const DocEntry *e)
{
    if (e->tests.n) strbuf_puts(out, "<dt>tests</dt>");
    for (uint32_t i = 0; i < e->tests.n; i++) {
        const DocTest *t = &e->tests.data[i];
        strbuf_puts(out, i ? "<dt></dt><dd>" : "<dd>");
        escape_text(out, t->name);
        strbuf_puts(out, " <span class=\"section\">");
        escape_text(out, t->path);
        strbuf_printf(out, ":%u</span></dd>\n", t->line);
    }
}

static void add_entry(StrBuf *out, const DocSelection *s, const DocEntry *e)
{
    size_t key = strcspn(e->signature, " ");
    strbuf_puts(out, "<article id=\"");
    add_anchor(out, s, e);
    strbuf_puts(out, "\">\n<h3><a href=\"#");
    add_anchor(out, s, e);
    strbuf_puts(out, "\">");
    escape_text(out, e->name);
    strbuf_puts(out, "</a><small>");
    escape_text(out, s->lib->families.data[e->family].path);
    strbuf_printf(out, ":%u</small></h3>\n<pre class=\"head\"><code><span class=\"key\">", e->line);
    escape(out, e->signature, key);
    strbuf_puts(out, "</span>");
    escape_text(out, e->signature + key);
    strbuf_puts(out, "</code></pre>\n");
    add_comment(out, e->text);
    if (e->inputs.n + e->options.n + e->stored.n + e->tests.n) {
        strbuf_puts(out, "<dl>\n");
        add_lines(out, "inputs", &e->inputs);
        add_lines(out, "options", &e->options);
        add_lines(out, "stored", &e->stored);
        add_tests(out, e);
        strbuf_puts(out, "</dl>\n");
    }
    strbuf_puts(out, "<details><summary>Definition of ");
    escape_text(out, e->name);
    strbuf_puts(out, "</summary><pre><code>");
    escape_text(out, e->source);
    strbuf_puts(out, "</code></pre></details>\n</article>\n");
}

static bool has_any(const DocSelection *s, uint32_t family)
{
    for (uint32_t i = 0; i < s->lib->entries.n; i++)
        if (s->wanted[i] && s->lib->entries.data[i].family == family) return true;
    return false;
}

static void add_navigation(StrBuf *out, const DocSelection *s)
{
    strbuf_puts(out, "<nav aria-label=\"Definitions\">\n");
    for (uint32_t f = 0; f < s->lib->families.n; f++) {
        if (!has_any(s, f)) continue;
        strbuf_printf(out, "<p><a href=\"#family-%u\">", f);
        escape_text(out, s->lib->families.data[f].name);
        strbuf_puts(out, "</a></p>\n<ul>\n");
        for (uint32_t i = 0; i < s->lib->entries.n; i++) {
            const DocEntry *e = &s->lib->entries.data[i];
            if (!s->wanted[i] || e->family != f) continue;
            strbuf_puts(out, "<li><a href=\"#");
            add_anchor(out, s, e);
            strbuf_puts(out, "\">");
            escape_text(out, e->name);
            strbuf_puts(out, "</a></li>\n");
        }
        strbuf_puts(out, "</ul>\n");
    }
    strbuf_puts(out, "</nav>\n");
}

static void add_family(StrBuf *out, const DocSelection *s, uint32_t f)
{
    const char *section = "";
    strbuf_printf(out, "<section aria-labelledby=\"family-%u\">\n<h2 id=\"family-%u\">", f, f);
    escape_text(out, s->lib->families.data[f].name);
    strbuf_puts(out, "</h2>\n");
    add_comment(out, s->lib->families.data[f].text);
    for (uint32_t i = 0; i < s->lib->entries.n; i++) {
        const DocEntry *e = &s->lib->entries.data[i];
        if (!s->wanted[i] || e->family != f) continue;
        if (strcmp(section, e->section) != 0) {
            strbuf_puts(out, "<p class=\"section\">");
            escape_text(out, e->section);
            strbuf_puts(out, "</p>\n");
        }
        section = e->section;
        add_entry(out, s, e);
    }
    strbuf_puts(out, "</section>\n");
}

void doc_print_html(Arena *a, const DocSelection *s, StrBuf *out)
{
    const char *title = "The standard library of gnnc";
    if (!s->library) title = arena_printf(a, "What %s defines", s->lib->families.data[0].path);
    strbuf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    escape_text(out, title);
    strbuf_printf(out,
                  "</title>\n<style>\n%s</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
                  "definitions</a>\n",
                  style);
    add_navigation(out, s);
    strbuf_puts(out, "<main id=\"main\">\n<h1>");
    escape_text(out, title);
    strbuf_puts(out, "</h1>\n<p>Inputs have a domain and dims: <code>node[F]</code> is F numbers for each node. "
                     "Options are known when "
                     "a program is compiled; what is stored keeps its name in weight files.</p>\n");
    for (uint32_t f = 0; f < s->lib->families.n; f++)
        if (has_any(s, f)) add_family(out, s, f);
    strbuf_puts(out, "</main>\n</body>\n</html>\n");
}
