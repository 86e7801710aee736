/* gnnc doc: what the standard library and the user's files hold, as text or as one HTML page. Arguments that end in
   .gnn or hold a slash are files, all others names of definitions or of families (the files of the library). */
#include "base/file.h"
#include "driver/commands.h"
#include "driver/doc.h"
#include <string.h>

typedef struct Asked {
    DocLines names;
    VEC(const Source *) files;
} Asked;

static bool ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

static bool is_file(const char *word) { return ends_with(word, ".gnn") || strchr(word, '/') || strcmp(word, "-") == 0; }

static bool read_asked(Session *s, Asked *out)
{
    for (uint32_t i = 0; i < s->opt.files.n; i++) {
        const char *word = s->opt.files.data[i];
        if (!is_file(word)) {
            VEC_PUSH(s->arena, &out->names, word);
            continue;
        }
        const Source *src = session_source(s, word);
        if (src) VEC_PUSH(s->arena, &out->files, src);
    }
    return s->diags.n_errors == 0;
}

static bool read_form(Session *s, bool *html)
{
    const char *to = opt_value(&s->opt, OPT_OUTPUT, "");
    const char *form = opt_value(&s->opt, OPT_FORMAT, ends_with(to, ".html") ? "html" : "text");
    *html = strcmp(form, "html") == 0;
    if (*html || strcmp(form, "text") == 0) return true;
    diag_error(&s->diags, E0612, (Span){0}, "`gnnc doc --format` wants text or html, found `%s`", form);
    return false;
}

/* Definitions of that name, the user's before the library's; else those of the family. */
static bool select_name(DocSelection *sel, const char *name)
{
    const DocLibrary *lib = sel->lib;
    bool found = false;
    for (uint32_t i = 0; i < lib->entries.n; i++)
        if (strcmp(lib->entries.data[i].name, name) == 0) sel->wanted[i] = found = true;
    for (uint32_t i = 0; i < lib->entries.n && !found; i++)
        if (doc_names(&lib->entries.data[i], name)) sel->wanted[i] = found = true;
    if (found) return true;
    for (uint32_t i = 0; i < lib->entries.n; i++)
        if (strcmp(lib->families.data[lib->entries.data[i].family].name, name) == 0) sel->wanted[i] = found = true;
    return found;
}

static void unknown_name(Session *s, const DocSelection *sel, const char *name)
{
    if (doc_is_builtin(name)) {
        Diag *it = diag_error(&s->diags, E0301, (Span){0}, "`%s` is part of the language, not of its library", name);
        diag_help(&s->diags, it, "docs/language.md says what it does, under Built-in functions");
        return;
    }
    Diag *it = diag_error(&s->diags, E0301, (Span){0}, "there is no definition or family `%s`", name);
    const char *near = doc_nearest(s->arena, sel->lib, name);
    if (near) diag_help(&s->diags, it, "did you mean `gnnc doc %s`?", near);
    else diag_help(&s->diags, it, "`gnnc doc` lists all of them");
}

static bool select_asked(Session *s, const Asked *asked, DocSelection *sel)
{
    sel->wanted = ARENA_ARRAY(s->arena, bool, sel->lib->entries.n + 1);
    sel->overview = asked->names.n == 0;
    sel->library = asked->files.n == 0;
    for (uint32_t i = 0; i < asked->names.n; i++)
        if (!select_name(sel, asked->names.data[i])) unknown_name(s, sel, asked->names.data[i]);
    for (uint32_t i = 0; i < sel->lib->entries.n && sel->overview; i++)
        sel->wanted[i] = sel->lib->families.data[sel->lib->entries.data[i].family].is_std == sel->library;
    return s->diags.n_errors == 0;
}

int cmd_doc(Session *s)
{
    Asked asked = {0};
    DocSelection sel = {0};
    StrBuf out = {.arena = s->arena};
    const char *to = opt_value(&s->opt, OPT_OUTPUT, NULL), *why = NULL;
    bool html;
    if (!read_form(s, &html) || !read_asked(s, &asked)) return 1;
    sel.lib = doc_read(s->arena, asked.files.data, asked.files.n, &s->diags);
    if (!sel.lib || !select_asked(s, &asked, &sel)) return 1;
    if (html) doc_print_html(s->arena, &sel, &out);
    else doc_print_text(&sel, &out);
    if (!to) fputs(strbuf_cstr(&out), stdout);
    else if (session_spares(s, to) && !file_write(s->arena, to, strbuf_cstr(&out), out.n, 0644, &why))
        diag_error(&s->diags, E0602, (Span){0}, "cannot write `%s`: %s", to, why);
    return s->diags.n_errors ? 1 : 0;
}
