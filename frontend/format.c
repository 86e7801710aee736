/* `gnnc fmt`: the canonical layout of a model file.

     layer f( x:node[F],H=8 )        layer f(x: node[F], H = 8) {
     { h=x@W # why                     h = x @ W  # why
       return h }                      return h
                                     }

   Works on tokens, so that the syntax tree cannot change: line breaks stay where the author put
   them (but for braces), indentation, blanks, blank lines and the columns of comments follow rules.
   It never breaks or joins a long line, never reorders, and leaves a file with errors alone. */
#include "base/ice.h"
#include "frontend/frontend.h"
#include "frontend/parse.h"
#include "frontend/parser.h"
#include <string.h>

typedef struct Item { /* one token to print */
    int kind;         /* as the parser sees it: keywords told from names */
    const char *text; /* n bytes of the source */
    uint32_t n;
    uint32_t breaks; /* newlines before it */
    bool continues;  /* first on a line, but inside the statement of the line before */
    bool item_word;  /* begins an item of a reduce, optimizer, train or schema body */
    bool in_body;    /* directly inside such a body */
    bool tight;      /* directly inside `[ ]`: `4*F` */
    bool unary;
} Item;
typedef VEC(Item) Items;

typedef struct Line {
    uint32_t indent;
    bool blank_before;
    const char *code, *comment; /* either may be NULL */
} Line;
typedef VEC(Line) Lines;

/* ---- the tokens, with what the parser thinks of them ---- */

typedef struct Filtered { /* the parser's view of the text */
    int kind;
    uint32_t begin;
} Filtered;
typedef VEC(Filtered) FilteredVec;

static FilteredVec filtered_tokens(Arena *a, const Source *src, uint32_t at, Diags *sink)
{
    Parser p = {.arena = a, .source = src, .diags = sink, .at = at};
    FilteredVec out = {0};
    scan_begin(&p);
    GNN_STYPE value;
    Span span;
    for (int kind; (kind = gnn_lex(&value, &span, &p)) != 0;) VEC_PUSH(a, &out, ((Filtered){kind, span.begin}));
    scan_end(&p);
    return out;
}

/* Raw tokens with comments, each with the parser's kind. Semicolons stay only between two
   statements on one line. */
static Items items_of(Arena *a, const Source *src, uint32_t at, Diags *sink)
{
    FilteredVec seen = filtered_tokens(a, src, at, sink);
    Parser p = {.arena = a, .source = src, .diags = sink, .at = at, .keep_comments = true};
    Items out = {0};
    uint32_t k = 0, breaks = 0;
    bool ended = true, semicolon = false;
    scan_begin(&p);
    for (Token t = scan_next(&p); t.kind; t = scan_next(&p)) {
        if (t.kind == TOK_NEWLINE) {
            breaks++;
            continue;
        }
        if (t.kind == ';') {
            semicolon = out.n && out.data[out.n - 1].kind != '{' && !breaks;
            ended = true;
            continue;
        }
        Item item = {
            .kind = t.kind, .text = src->text + t.span.begin, .n = t.span.end - t.span.begin, .breaks = breaks};
        if (t.kind != TOK_COMMENT) {
            for (; seen.data[k].kind == TOK_NL; k++) ended = true;
            ICE_UNLESS(seen.data[k].begin == t.span.begin);
            item.kind = seen.data[k++].kind;
            item.continues = !ended;
            ended = item.kind == '{';
            if (semicolon && !breaks && item.kind != '}') VEC_PUSH(a, &out, ((Item){.kind = ';', .text = ";", .n = 1}));
        }
        semicolon = false;
        breaks = 0;
        VEC_PUSH(a, &out, item);
    }
    scan_end(&p);
    return out;
}

/* ---- where lines break ---- */

static bool opens(int kind) { return kind == '(' || kind == '[' || kind == '{'; }

static bool closes(int kind) { return kind == ')' || kind == ']' || kind == '}'; }

/* A block on one line stays there; else its braces end and begin lines. `{` joins the line before,
   and `else` does behind a block of several lines. */
static void place_braces(Items *v)
{
    struct {
        uint32_t item, line;
    } open[AST_MAX_NESTING];
    uint32_t n = 0, line = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        line += v->data[i].breaks;
        int kind = v->data[i].kind;
        if (opens(kind)) {
            open[n].item = i;
            open[n++].line = line;
        }
        if (!closes(kind) || open[--n].line == line || kind != '}') continue;
        Item *first = &v->data[open[n].item + 1];
        if (!first->breaks && first->kind != TOK_COMMENT) first->breaks = 1;
        if (!v->data[i].breaks) v->data[i].breaks = 1;
    }
    for (uint32_t i = 1; i < v->n; i++) {
        Item *t = &v->data[i];
        const Item *before = &v->data[i - 1];
        bool joins = t->kind == '{' || (t->kind == TOK_ELSE && before->kind == '}' && before->breaks);
        if (joins && before->kind != TOK_COMMENT) t->breaks = 0;
    }
}

/* ---- what stands where ---- */

static bool ends_operand(int kind)
{
    switch (kind) {
    case TOK_IDENT:
    case TOK_NUMBER:
    case TOK_STRING:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_NONE:
    case TOK_REST:
    case TOK_ANY_MEMBER:
    case ')':
    case ']':
    case '}': return true;
    default: return false;
    }
}

static bool is_word(int kind)
{
    return kind == TOK_IDENT || kind == TOK_PARAM || kind == TOK_CONST || kind == TOK_BUFFER || kind == TOK_GRAPH ||
           kind == TOK_PAIRS || kind == TOK_ADJOINT;
}

static bool is_dtype(const Item *t)
{
    static const char *const words[] = {"float", "int", "bool", "index", "f32", "f64"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == t->n && !memcmp(words[i], t->text, t->n)) return true;
    return false;
}

static bool has_items(int decl)
{
    return decl == TOK_REDUCE || decl == TOK_OPTIMIZER || decl == TOK_SCHEDULE || decl == TOK_TRAIN ||
           decl == TOK_SCHEMA;
}

static bool is_decl(int kind)
{
    return has_items(kind) || kind == TOK_MESSAGE || kind == TOK_FN || kind == TOK_LAYER || kind == TOK_MODEL ||
           kind == TOK_TEST;
}

/* `batch 64 of graphs` stays together. */
static bool is_of(const Item *t) { return t->n == 2 && !memcmp(t->text, "of", 2); }

/* Does t, behind `before`, begin an item? Items may follow one another without a separator. */
static bool begins_item(const Item *before, const Item *t)
{
    if (!is_word(t->kind)) return false;
    if (t->breaks || before->kind == '{' || before->kind == ';' || before->kind == TOK_COMMENT) return !t->continues;
    if (is_of(before) || (is_of(t) && before->kind == TOK_NUMBER)) return false;
    return ends_operand(before->kind) && !before->item_word && !is_dtype(t);
}

static void mark_items(Items *v)
{
    char open[AST_MAX_NESTING];
    uint32_t n = 0;
    int decl = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        Item *t = &v->data[i];
        if (t->kind == TOK_COMMENT) continue;
        if (!n && is_decl(t->kind)) decl = t->kind;
        if (closes(t->kind)) n--;
        t->tight = n && open[n - 1] == '[';
        t->in_body = n == 1 && open[0] == '{' && has_items(decl);
        t->item_word = i && t->in_body && begins_item(&v->data[i - 1], t);
        t->unary = (t->kind == '-' || t->kind == '@') &&
                   (!i || !ends_operand(v->data[i - 1].kind) || (v->data[i - 1].item_word && t->kind == '-'));
        if (opens(t->kind)) open[n++] = (char)t->kind;
    }
}

/* ---- blanks between two tokens of a line ---- */

static uint32_t blanks_before_bracket(const Item *a, const Item *b)
{
    if (b->kind == '(' && a->kind == TOK_WHERE) return !a->unary;
    if (a->kind == TOK_IDENT) return b->kind == '[' && a->item_word && b->in_body;
    return a->kind != ')' && a->kind != ']' && a->kind != '}';
}

static uint32_t blanks(const Item *a, const Item *b)
{
    if (b->kind == ',' || b->kind == ';' || b->kind == ':' || b->kind == ')' || b->kind == ']') return 0;
    if (a->kind == '(' || a->kind == '[') return 0;
    if (a->kind == '.' || b->kind == '.' || b->kind == TOK_ANY_MEMBER) return 0;
    if (a->kind == TOK_RANGE || b->kind == TOK_RANGE) return 0;
    if (a->unary && (a->kind == '-' || a->kind == '@')) return 0;
    if (a->kind == '{' && b->kind == '}') return 0;
    if (b->item_word) return a->kind == '{' || a->kind == ';' ? 1 : 2;
    if (b->unary && b->kind == '-') return 1;
    bool product = a->kind == '*' || a->kind == '/' || b->kind == '*' || b->kind == '/';
    if (product && a->tight && b->tight) return 0;
    if (b->kind == '(' || b->kind == '[') return blanks_before_bracket(a, b);
    return 1;
}

/* `where` that begins a call is a function's name; marked as unary, it is no clause. */
static void mark_where(Items *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->data[i].kind == TOK_WHERE)
            v->data[i].unary = !i || !ends_operand(v->data[i - 1].kind) || !v->data[i].continues;
}

/* ---- lines ---- */

typedef struct OpenBracket {
    char kind;
    uint32_t base;  /* indentation of the statement that opened it: its closer goes there */
    uint32_t inner; /* indentation of lines inside */
} OpenBracket;

typedef struct Layout {
    Arena *arena;
    const Items *items;
    OpenBracket open[AST_MAX_NESTING];
    uint32_t n_open;
} Layout;

/* Indentation of the line that begins with item i. */
static uint32_t indent_of(const Layout *l, uint32_t i)
{
    const Items *v = l->items;
    uint32_t closers = 0;
    while (i + closers < v->n && closes(v->data[i + closers].kind) && (!closers || !v->data[i + closers].breaks))
        closers++;
    if (closers) return l->open[l->n_open - closers].base;
    const OpenBracket *in = l->n_open ? &l->open[l->n_open - 1] : NULL;
    const Item *t = &v->data[i];
    bool joins = t->kind == TOK_COMMENT || t->kind == '{' || t->kind == TOK_ELSE;
    bool goes_on = t->continues && !joins && (!in || in->kind == '{');
    return (in ? in->inner : 0) + (goes_on ? 4 : 0);
}

/* Columns that text takes, counting UTF-8 characters. */
static uint32_t columns_of(const char *text)
{
    uint32_t n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

/* Lines inside a bracket that ends its line are indented by two; inside a `(` or `[` with something
   behind it they begin below that. */
static void open_bracket(Layout *l, uint32_t i, uint32_t base, uint32_t column)
{
    const Items *v = l->items;
    bool last = i + 1 == v->n || v->data[i + 1].breaks || v->data[i + 1].kind == TOK_COMMENT;
    bool block = v->data[i].kind == '{';
    l->open[l->n_open++] = (OpenBracket){(char)v->data[i].kind, base, block || last ? base + 2 : column};
}

static const char *comment_text(Arena *a, const Item *t)
{
    uint32_t n = t->n;
    while (n && (t->text[n - 1] == ' ' || t->text[n - 1] == '\t')) n--;
    return arena_strndup(a, t->text, n);
}

/* The line that begins with item *i; moves *i to the next one's first item. */
static Line next_line(Layout *l, uint32_t *i)
{
    const Items *v = l->items;
    Line line = {.indent = indent_of(l, *i), .blank_before = v->data[*i].breaks > 1};
    if (*i && v->data[*i - 1].kind == '{') line.blank_before = false;
    if (v->data[*i].kind == '}' || *i == 0) line.blank_before = false;
    StrBuf code = {.arena = l->arena};
    uint32_t first = *i, base = line.indent, outermost = l->n_open;
    for (; *i < v->n && (*i == first || !v->data[*i].breaks); ++*i) {
        const Item *t = &v->data[*i];
        if (t->kind == TOK_COMMENT) {
            line.comment = comment_text(l->arena, t);
            continue;
        }
        if (*i > first) strbuf_printf(&code, "%*s", (int)blanks(&v->data[*i - 1], t), "");
        strbuf_add(&code, t->text, t->n);
        if (opens(t->kind)) open_bracket(l, *i, base, line.indent + columns_of(code.data));
        if (!closes(t->kind) || --l->n_open >= outermost) continue;
        outermost = l->n_open;
        base = l->open[l->n_open].base; /* what opens from here on belongs to that statement */
    }
    line.code = code.n ? strbuf_cstr(&code) : NULL;
    return line;
}

static uint32_t width_of(const Line *l) { return l->indent + columns_of(l->code); }

/* Comments behind the code of neighbouring lines share a column. */
static uint32_t comment_column(const Lines *v, uint32_t first)
{
    uint32_t column = 0;
    for (uint32_t i = first; i < v->n && v->data[i].code && v->data[i].comment; i++) {
        if (i > first && v->data[i].blank_before) break;
        uint32_t w = width_of(&v->data[i]) + 2;
        if (w > column) column = w;
    }
    return column;
}

static void print_lines(const Lines *v, StrBuf *out)
{
    uint32_t column = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        const Line *l = &v->data[i];
        bool both = l->code && l->comment;
        if (!both || l->blank_before) column = 0;
        if (both && !column) column = comment_column(v, i);
        if (l->blank_before) strbuf_puts(out, "\n");
        strbuf_printf(out, "%*s%s", (int)l->indent, "", l->code ? l->code : "");
        if (both) strbuf_printf(out, "%*s", (int)(column - width_of(l)), "");
        strbuf_printf(out, "%s\n", l->comment ? l->comment : "");
    }
}

const char *frontend_format(Arena *a, const Source *src, Diags *d)
{
    uint32_t errors = d->n_errors;
    ast_parse(a, src, d);
    if (d->n_errors != errors) return NULL;
    Diags sink = {.arena = a};
    uint32_t at = src->n >= 3 && !memcmp(src->text, "\xef\xbb\xbf", 3) ? 3 : 0;
    Items items = items_of(a, src, at, &sink);
    place_braces(&items);
    mark_items(&items);
    mark_where(&items);
    Layout layout = {.arena = a, .items = &items};
    Lines lines = {0};
    for (uint32_t i = 0; i < items.n;) {
        Line line = next_line(&layout, &i);
        VEC_PUSH(a, &lines, line);
    }
    StrBuf out = {.arena = a};
    print_lines(&lines, &out);
    return strbuf_cstr(&out);
}
