/* Collects what definitions say of themselves; contracts in doc.h. Works on the tree for what has a place there and on
   the text for the rest (signatures as written, headings, which test names what). Never elaborates, never prints. */
#include "frontend/doc.h"
#include "frontend/sema.h"
#include "frontend/std_text.h"
#include <ctype.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '\''; }

/* Behind the comment or the string that begins at p, else p. In text that parses strings end on their line. */
static const char *past(const char *p)
{
    if (*p == '#') return p + strcspn(p, "\n");
    if (*p != '"') return p;
    for (p++; *p != '"'; p++) p += *p == '\\';
    return p + 1;
}

/* Bytes [p, end) on one line, without comments, blanks run together. */
static const char *one_line(Arena *a, const char *p, const char *end)
{
    StrBuf out = {.arena = a};
    bool blank = false;
    while (p < end) {
        const char *from = p, *next = past(p);
        p = next == p ? p + 1 : next;
        if (*from == '#' || isspace((unsigned char)*from)) {
            blank = out.n > 0;
            continue;
        }
        if (blank) strbuf_puts(&out, " ");
        strbuf_add(&out, from, (size_t)(p - from));
        blank = false;
    }
    return strbuf_cstr(&out);
}

static const char *span_line(Arena *a, Span s) { return one_line(a, s.source->text + s.begin, s.source->text + s.end); }

/* Where the head of a definition ends: its `=` or `{` outside brackets. */
static const char *head_end(const char *p, const char *end)
{
    int depth = 0;
    while (p < end && (depth || (*p != '{' && *p != '='))) {
        const char *next = past(p);
        depth += strchr("([{", *p) != NULL;
        depth -= strchr(")]}", *p) != NULL;
        p = next == p ? p + 1 : next;
    }
    return p;
}

/* Whether the word stands in [p, end) by itself, outside comments and strings. */
static bool text_has(const char *p, const char *end, const DocEntry *entry)
{
    char word[128];
    while (p < end) {
        const char *next = past(p);
        if (is_name_char(*p)) {
            while (is_name_char(*next)) next++;
            snprintf(word, sizeof word, "%.*s", (int)(next - p), p);
            if (doc_names(entry, word)) return true;
        }
        p = next == p ? p + 1 : next;
    }
    return false;
}

/* `---- title ----` as the text of a comment: a heading, which belongs to no definition. */
static bool is_heading(const char *line) { return strncmp(line, "----", 4) == 0; }

static const char *heading_text(Arena *a, const char *line, size_t n)
{
    while (n && (*line == '-' || *line == ' ')) line++, n--;
    while (n && (line[n - 1] == '-' || line[n - 1] == ' ')) n--;
    return arena_strndup(a, line, n);
}

static const char *without_headings(Arena *a, const char *doc)
{
    StrBuf out = {.arena = a};
    for (const char *p = doc ? doc : ""; *p;) {
        size_t n = strcspn(p, "\n");
        if (!is_heading(p)) {
            if (out.n) strbuf_puts(&out, "\n");
            strbuf_add(&out, p, n);
        }
        p += n + (p[n] == '\n');
    }
    return strbuf_cstr(&out);
}

/* The last heading above byte `at`. */
static const char *section_of(Arena *a, const Source *src, uint32_t at)
{
    const char *found = "";
    for (const char *p = src->text, *end = src->text + at; p < end;) {
        size_t n = strcspn(p, "\n");
        if (strncmp(p, "# ----", 6) == 0) found = heading_text(a, p + 2, n - 2);
        p += n + (p[n] == '\n');
    }
    return found;
}

/* The comment at the head of a file, if a blank line sets it off from the first definition. */
static const char *head_comment(Arena *a, const Source *src)
{
    StrBuf out = {.arena = a};
    const char *p = src->text;
    while (*p == '#') {
        size_t n = strcspn(p, "\n"), skip = p[1] == ' ' ? 2 : 1;
        if (out.n) strbuf_puts(&out, "\n");
        strbuf_add(&out, p + skip, n - skip);
        p += n + (p[n] == '\n');
    }
    return *p == '\n' || !*p ? strbuf_cstr(&out) : "";
}

static const char *base_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    return arena_strndup(a, name, n > 4 && strcmp(name + n - 4, ".gnn") == 0 ? n - 4 : n);
}

/* ---- one definition ---------------------------------------------------------------------------------------------- */

static void collect_slots(Arena *a, const AstBlock *b, DocLines *out);

static void slots_of_value(Arena *a, const AstExpr *x, DocLines *out)
{
    if (x && x->kind == AST_EXPR_OVER) collect_slots(a, &x->as.over.body, out);
    if (x && x->kind == AST_EXPR_FOR) collect_slots(a, &x->as.loop.body, out);
}

/* The depth of blocks is bounded by the parser (AST_MAX_DEPTH). */
static void collect_slots(Arena *a, const AstBlock *b, DocLines *out)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const AstStmt *s = b->items[i];
        switch (s->kind) {
        case AST_STMT_PARAM:
        case AST_STMT_BUFFER:
        case AST_STMT_CONST: VEC_PUSH(a, out, span_line(a, s->span)); break;
        case AST_STMT_IF:
            collect_slots(a, &s->as.branch.yes, out);
            if (s->as.branch.has_no) collect_slots(a, &s->as.branch.no, out);
            break;
        case AST_STMT_ASSIGN: slots_of_value(a, s->as.assign.value, out); break;
        case AST_STMT_RETURN:
        case AST_STMT_EXPR: slots_of_value(a, s->as.value, out); break;
        default: break;
        }
    }
}

static bool is_documented(AstDeclKind k)
{
    return k == AST_DECL_MESSAGE || k == AST_DECL_FN || k == AST_DECL_LAYER || k == AST_DECL_MODEL ||
           k == AST_DECL_REDUCE || k == AST_DECL_OPTIMIZER || k == AST_DECL_SCHEDULE;
}

static DocEntry entry_of(Arena *a, const AstDecl *d, uint32_t family)
{
    bool fold = d->kind == AST_DECL_REDUCE || d->kind == AST_DECL_OPTIMIZER || d->kind == AST_DECL_SCHEDULE;
    const AstSignature *sig = fold ? &d->as.fold.sig : &d->as.function.sig;
    const Source *src = d->span.source;
    const char *from = src->text + d->span.begin, *to = src->text + d->span.end;
    uint32_t col;
    DocEntry e = {.name = d->name.text, .kind = d->kind, .family = family};
    source_line_col(src, d->span.begin, &e.line, &col);
    e.section = section_of(a, src, d->span.begin);
    e.signature = one_line(a, from, head_end(from, to));
    e.text = without_headings(a, d->doc);
    e.source = arena_strndup(a, from, (size_t)(to - from));
    for (uint32_t i = 0; i < sig->n_params; i++)
        VEC_PUSH(a, sig->params[i].type || !sig->params[i].init ? &e.inputs : &e.options,
                 span_line(a, sig->params[i].span));
    if (!fold && !d->as.function.expr) collect_slots(a, &d->as.function.body, &e.stored);
    return e;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef VEC(const AstDecl *) Decls;

static void add_file(Arena *a, DocLibrary *lib, Decls *tests, const Source *src, bool is_std, Diags *d)
{
    const AstFile *file = ast_parse(a, src, d);
    if (d->n_errors) return;
    uint32_t family = lib->families.n;
    VEC_PUSH(a, &lib->families, ((DocFamily){base_name(a, src->path), src->path, head_comment(a, src), is_std}));
    for (uint32_t i = 0; i < file->n_decls; i++) {
        const AstDecl *decl = file->decls[i];
        if (decl->kind == AST_DECL_TEST) VEC_PUSH(a, tests, decl);
        if (is_documented(decl->kind)) VEC_PUSH(a, &lib->entries, entry_of(a, decl, family));
    }
}

/* Library text sees library definitions: its tests are not about the user's, nor the user's about it. */
static void attach_test(Arena *a, DocLibrary *lib, uint32_t first, const AstDecl *test)
{
    const Source *src = test->span.source;
    DocTest t = {.name = test->name.text, .path = src->path};
    uint32_t col;
    source_line_col(src, test->span.begin, &t.line, &col);
    for (uint32_t i = first; i < lib->entries.n; i++)
        if (text_has(src->text + test->span.begin, src->text + test->span.end, &lib->entries.data[i]))
            VEC_PUSH(a, &lib->entries.data[i].tests, t);
}

const DocLibrary *doc_read(Arena *a, const Source *const *files, uint32_t n, Diags *d)
{
    DocLibrary *lib = ARENA_NEW(a, DocLibrary);
    Decls own = {0}, tests = {0};
    for (uint32_t i = 0; i < n; i++) add_file(a, lib, &own, files[i], false, d);
    for (uint32_t i = 0; i < own.n; i++) attach_test(a, lib, 0, own.data[i]);
    uint32_t first = lib->entries.n;
    for (const struct GnnStdFile *f = gnn_std_files; f->name; f++) {
        Source *s = ARENA_NEW(a, Source);
        *s = (Source){f->name, f->text, (uint32_t)strlen(f->text)};
        add_file(a, lib, &tests, s, true, d);
    }
    for (uint32_t i = 0; i < tests.n; i++) attach_test(a, lib, first, tests.data[i]);
    return d->n_errors ? NULL : lib;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

bool doc_names(const DocEntry *entry, const char *name)
{
    if (strcmp(entry->name, name) == 0) return true;
    if (entry->kind != AST_DECL_REDUCE) return false;
    if (strncmp(name, "readout_", 8) == 0) return strcmp(entry->name, name + 8) == 0;
    size_t n = strlen(entry->name);
    if (strncmp(entry->name, name, n) != 0) return false;
    return strcmp(name + n, "_in") == 0 || strcmp(name + n, "_out") == 0 || strcmp(name + n, "_all") == 0;
}

const char *doc_first_sentence(Arena *a, const char *text)
{
    StrBuf out = {.arena = a};
    int depth = 0;
    for (const char *p = text; *p; p++) {
        depth += *p == '(' || *p == '[';
        depth -= *p == ')' || *p == ']';
        bool ends = (*p == '.' || *p == ':') && depth <= 0 && (!p[1] || isspace((unsigned char)p[1]));
        if (*p == '\n' && p[1] == '\n') break;
        strbuf_add(&out, *p == '\n' ? " " : p, 1);
        if (ends) break;
    }
    if (out.n && out.data[out.n - 1] == ':') out.data[out.n - 1] = '.';
    return strbuf_cstr(&out);
}

bool doc_is_builtin(const char *name) { return builtin_find(name) != NULL; }

const char *doc_nearest(Arena *a, const DocLibrary *lib, const char *name)
{
    DocLines names = {0};
    for (uint32_t i = 0; i < lib->entries.n; i++) VEC_PUSH(a, &names, lib->entries.data[i].name);
    for (uint32_t i = 0; i < lib->families.n; i++) VEC_PUSH(a, &names, lib->families.data[i].name);
    for (uint32_t i = 0; builtin_name(i); i++) VEC_PUSH(a, &names, builtin_name(i));
    return str_nearest(name, names.data, names.n);
}
