/* What a syntax error says: what was found, what is wanted, and a hint where the mistake is a known
   one. The parser's list of possible tokens is long in the middle of an expression; it is folded
   into "an expression", "an operator", "a statement" or "a declaration". */
#include "frontend/parse_error.h"
#include "frontend/parse.h"
#include <string.h>

static bool one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, list[i])) return true;
    return false;
}
#define ONE_OF(name, list) one_of((name), (list), sizeof(list) / sizeof *(list))

static const char *const expression_starts[] = {
    "a name", "a number", "a string", "`true`", "`false`", "`none`",   "`-`",     "`not`", "`(`",
    "`[`",    "`@`",      "`if`",     "`over`", "`for`",   "`forall`", "`where`", "`...`", "`fill`",
};
static const char *const operators[] = {
    "`+`",  "`-`", "`*`",  "`/`",   "`@`",  "`**`", "`==`", "`!=`", "`<`",
    "`<=`", "`>`", "`>=`", "`and`", "`or`", "`(`",  "`[`",  "`.`",  "`.*`",
};
static const char *const statement_starts[] = {
    "`param`",  "`buffer`", "`const`",   "`graph`", "`pairs`", "`if`",
    "`return`", "`assert`", "`adjoint`", "`over`",  "`for`",   "`forall`",
};
static const char *const decl_starts[] = {
    "`message`",  "`fn`",    "`layer`", "`model`",  "`reduce`", "`optimizer`",
    "`schedule`", "`train`", "`test`",  "`schema`", "`const`",
};
static const char *const assignments[] = {"`+=`", "`-=`", "`*=`", "`/=`"};
static const char *const words[] = {"`param`", "`buffer`", "`const`", "`graph`", "`pairs`", "`adjoint`", "a name"};
static const char *const comparisons[] = {"`==`", "`!=`", "`<`", "`<=`", "`>`", "`>=`"};

static bool wants(const ParseExpected *want, const char *name) { return one_of(name, want->names, want->n); }

/* "`,`, `)` or an operator" */
static void join(StrBuf *out, const char *const *parts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i) strbuf_puts(out, i + 1 == n ? " or " : ", ");
        strbuf_puts(out, parts[i]);
    }
}

/* What can begin where the error is. */
typedef struct Place {
    bool decl, statement, item, expression, operator_;
} Place;

static Place place_of(const ParseExpected *want)
{
    Place at = {.decl = wants(want, "`fn`"), .statement = wants(want, "`return`")};
    at.expression = want->expression && !at.statement;
    at.item = wants(want, "`pairs`") && !at.statement;
    at.operator_ = wants(want, "`+`") && wants(want, "`*`");
    return at;
}

/* Is token w said by the name of the place already? */
static bool is_folded(const char *w, Place at)
{
    if (at.decl && ONE_OF(w, decl_starts)) return true;
    if (at.statement && (ONE_OF(w, statement_starts) || ONE_OF(w, expression_starts))) return true;
    if (at.item && ONE_OF(w, words)) return true;
    if (at.expression && ONE_OF(w, expression_starts)) return true;
    if (at.operator_ && (ONE_OF(w, operators) || ONE_OF(w, assignments))) return true;
    if (!strcmp(w, "`by`") || !strcmp(w, "`on`")) return !at.decl; /* rare: they would hide what is meant */
    return (at.statement || at.decl || at.item) && !strcmp(w, "the end of the line");
}

static const char *wanted_text(Parser *p, const ParseExpected *want)
{
    Place at = place_of(want);
    VEC(const char *) parts = {0};
    if (at.decl) VEC_PUSH(p->arena, &parts, "a declaration (`layer`, `model`, `message`, `reduce`, `train`, ...)");
    if (at.statement) VEC_PUSH(p->arena, &parts, "a statement");
    if (at.item) VEC_PUSH(p->arena, &parts, "an item");
    if (at.expression) VEC_PUSH(p->arena, &parts, "an expression");
    for (uint32_t i = 0; i < want->n; i++)
        if (!is_folded(want->names[i], at)) VEC_PUSH(p->arena, &parts, want->names[i]);
    if (at.operator_ && parts.n < 5) VEC_PUSH(p->arena, &parts, "an operator");
    if (!parts.n || parts.n > 6) return NULL;
    StrBuf out = {.arena = p->arena};
    join(&out, parts.data, parts.n);
    return strbuf_cstr(&out);
}

static const char *found_text(Parser *p, Span span, bool at_end)
{
    if (at_end) return "the end of the file";
    if (p->last.kind == TOK_NL && p->source->text[span.begin] != ';') return "the end of the line";
    if (p->last.kind == TOK_STRING) return "a string";
    int n = (int)(span.end - span.begin);
    return arena_printf(p->arena, "`%.*s%s`", n > 40 ? 40 : n, p->source->text + span.begin, n > 40 ? "..." : "");
}

/* The word of the language nearest to t's text among candidates, as a fix. */
static bool suggest(Parser *p, Diag *e, const Token *t, const char *const *candidates, uint32_t n)
{
    if (t->kind != TOK_IDENT) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(t->text, candidates[i])) return false;
    return diag_suggest(p->diags, e, t->span, t->text, candidates, n);
}

/* A misspelt keyword: the unexpected word itself, or the word before it, which was taken for a
 * name. */
static bool suggest_keyword(Parser *p, Diag *e, const ParseExpected *want)
{
    VEC(const char *) list = {0};
    for (uint32_t i = 0; i < want->n; i++) {
        const char *w = want->names[i];
        size_t n = strlen(w);
        bool is_word = n > 3 && w[0] == '`' && w[1] >= 'a' && w[1] <= 'z';
        if (is_word) VEC_PUSH(p->arena, &list, arena_strndup(p->arena, w + 1, n - 2));
    }
    if (list.n && suggest(p, e, &p->last, list.data, list.n)) return true;
    if (!tokens_first_on_line(p, p->before_last.span)) return false;
    return suggest(p, e, &p->before_last, tokens_statement_words, tokens_n_statement_words);
}

static bool innermost_is_list(const Parser *p) { return p->open.n && p->open.data[p->open.n - 1].open != '{'; }

static Span end_of(const Parser *p, Span token) { return span_at(p->source, token.end, token.end); }

static bool is_operator(const char *found)
{
    return ONE_OF(found, operators) && strcmp(found, "`(`") && strcmp(found, "`[`");
}

/* Does a word of the language stand where the name of a value is meant: `on = ...`, `f(on)`? */
static bool is_used_as_name(const Parser *p, Span span, const ParseExpected *want)
{
    Place at = place_of(want);
    const char *text = p->source->text, *next = text + span.end;
    if (p->last.kind == TOK_IDENT || text[span.begin] < 'a' || text[span.begin] > 'z') return false;
    while (*next == ' ') next++;
    bool names = next[0] == '=' && next[1] != '=', reads = *next && strchr(",)]+-*/", *next);
    return (at.statement && names) || (at.expression && reads);
}

static void hint(Parser *p, Diag *e, const char *found, Span span, const ParseExpected *want)
{
    if (p->last.kind == TOK_IDENT && (!strcmp(p->last.text, "elif") || !strcmp(p->last.text, "elseif"))) {
        diag_help(p->diags, e, "write `else if`");
        diag_fix(p->diags, e, span, "else if");
    } else if (is_used_as_name(p, span, want)) {
        diag_help(p->diags, e, "%s is a word of the language: give the value another name", found);
    } else if (suggest_keyword(p, e, want)) {
        return;
    } else if (!strcmp(found, "`=`") && wants(want, "`==`")) {
        diag_help(p->diags, e, "`==` compares");
        diag_fix(p->diags, e, span, "==");
    } else if (ONE_OF(found, comparisons) && wants(want, "`and`")) {
        diag_help(p->diags, e, "comparisons do not chain: write `a < b and b < c`");
    } else if (is_operator(found) && tokens_first_on_line(p, span)) {
        diag_help(p->diags, e, "an operator stands at the end of the line it continues, not at the start of the next");
    } else if (!strcmp(found, "`:`") && wants(want, "`{`")) {
        diag_help(p->diags, e, "a block stands in braces: `{ ... }`");
    } else if (p->last.kind == TOK_IDENT && wants(want, "`fn`") && tokens_first_on_line(p, span)) {
        diag_help(
            p->diags, e,
            "at the left margin stand declarations: `layer f(x: node[F]) -> node[O] { ... }`, `const width = 64`");
    } else if (innermost_is_list(p) && wants(want, "`,`") &&
               (p->last.kind == TOK_IDENT || p->last.kind == TOK_NUMBER)) {
        diag_fix(p->diags, e, end_of(p, p->before_last.span), ",");
    } else if (p->last.kind == TOK_IDENT && wants(want, "the end of the line")) {
        diag_help(p->diags, e, "`;` separates two statements on one line");
    }
}

/* The bracket that ought to be closed before span, if that is what is wrong there. */
static const Bracket *bracket_at_fault(const Parser *p, Span span, const ParseExpected *want)
{
    if (!wants(want, "`)`") && !wants(want, "`]`")) return NULL;
    bool closes = p->last.kind == ')' || p->last.kind == ']' || p->last.kind == '}';
    if (closes && p->unclosed.open) return &p->unclosed;
    return p->open.n && tokens_first_on_line(p, span) ? &p->open.data[p->open.n - 1] : NULL;
}

void parse_error_report(Parser *p, Span span, bool at_end, bool junk, const ParseExpected *want)
{
    if (junk || p->too_deep) {
        tokens_after_error(p);
        return;
    }
    for (uint32_t i = 0; i < p->diags->list.n; i++) /* said already, by the lexer */
        if (p->diags->list.data[i]->span.begin == span.begin && p->diags->list.data[i]->span.end == span.end) {
            tokens_after_error(p);
            return;
        }
    const char *found = found_text(p, span, at_end), *wanted = wanted_text(p, want);
    Diag *e = wanted ? diag_error(p->diags, E0101, span, "found %s, wanted %s", found, wanted)
                     : diag_error(p->diags, E0101, span, "%s cannot stand here", found);
    hint(p, e, found, span, want);
    const Bracket *open = bracket_at_fault(p, span, want);
    if (open) {
        diag_note(p->diags, e, span, "%s", e->text); /* the mistake is where the bracket is */
        e->span = open->span;
        e->code = E0108;
        e->text = arena_printf(p->arena, "this `%c` is never closed", open->open);
        if (open->open != '{') diag_fix(p->diags, e, end_of(p, p->before_last.span), open->open == '(' ? ")" : "]");
    }
    tokens_after_error(p);
}

void parse_error_depth(Parser *p, Span span)
{
    if (p->too_deep) return;
    p->too_deep = true;
    diag_error(p->diags, E0106, span, "this is nested too deep");
}
