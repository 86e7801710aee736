/* From raw tokens to the parser's: which newlines end a statement, which words are keywords where
   they stand, which brackets are open. The language keeps few words for itself: `layer`, `train`,
   `param` and their like are keywords only where a declaration or a statement begins, so
   `data.train` and `optimizer(train = true)` need no escape. After an error this file skips to
   where parsing can go on. It never looks at the tree. */
#include "frontend/parse.h"
#include "frontend/parser.h"
#include <string.h>

typedef enum {
    HARD,       /* everywhere, but after `.` and as the name of an argument */
    DECL,       /* where a declaration begins */
    LEAD,       /* where a statement begins and a name follows */
    LEAD_BLOCK, /* where a statement begins and `{` follows */
    LEAD_ARG,   /* where an argument begins and a name follows */
} WordClass;

/* clang-format off */
static const struct Word {
    const char *text;
    int token;
    WordClass class;
} words[] = {
    {"message", TOK_MESSAGE, DECL}, {"fn", TOK_FN, DECL},         {"layer", TOK_LAYER, DECL},
    {"model", TOK_MODEL, DECL},     {"reduce", TOK_REDUCE, DECL}, {"optimizer", TOK_OPTIMIZER, DECL},
    {"schedule", TOK_SCHEDULE, DECL},
    {"train", TOK_TRAIN, DECL},     {"test", TOK_TEST, DECL},     {"schema", TOK_SCHEMA, DECL},
    {"const", TOK_CONST, LEAD},     {"param", TOK_PARAM, LEAD},   {"buffer", TOK_BUFFER, LEAD},
    {"graph", TOK_GRAPH, LEAD},     {"pairs", TOK_PAIRS, LEAD},   {"adjoint", TOK_ADJOINT, LEAD_BLOCK},
    {"fill", TOK_FILL, LEAD_ARG},   {"where", TOK_WHERE, HARD},
    {"over", TOK_OVER, HARD},       {"for", TOK_FOR, HARD},       {"forall", TOK_FORALL, HARD},
    {"in", TOK_IN, HARD},           {"into", TOK_INTO, HARD},     {"if", TOK_IF, HARD},
    {"then", TOK_THEN, HARD},       {"else", TOK_ELSE, HARD},     {"return", TOK_RETURN, HARD},
    {"assert", TOK_ASSERT, HARD},   {"on", TOK_ON, HARD},         {"by", TOK_BY, HARD},
    {"as", TOK_AS, HARD},           {"and", TOK_AND, HARD},       {"or", TOK_OR, HARD},
    {"not", TOK_NOT, HARD},         {"true", TOK_TRUE, HARD},     {"false", TOK_FALSE, HARD},
    {"none", TOK_NONE, HARD},
};
/* clang-format on */

const char *const tokens_statement_words[] = {
    "return", "param", "buffer", "const", "graph", "pairs", "assert", "over", "for", "forall", "if",
};
const uint32_t tokens_n_statement_words = sizeof tokens_statement_words / sizeof *tokens_statement_words;

static const struct Word *word_find(const char *text)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].text[0] == text[0] && !strcmp(words[i].text, text)) return &words[i];
    return NULL;
}

/* ---- the stream of raw tokens, with room to put some back ---- */

static Token take(Parser *p)
{
    if (p->n_taken == p->queue.n) return scan_next(p);
    Token t = p->queue.data[p->n_taken++];
    if (p->n_taken == p->queue.n) p->n_taken = p->queue.n = 0;
    return t;
}

/* t is the next token again. The queue is never longer than the open brackets and two. */
static void put_back(Parser *p, Token t)
{
    if (p->n_taken) {
        p->queue.data[--p->n_taken] = t;
        return;
    }
    VEC_PUSH(p->arena, &p->queue, t);
    for (uint32_t i = p->queue.n - 1; i > 0; i--) p->queue.data[i] = p->queue.data[i - 1];
    p->queue.data[0] = t;
}

/* The first byte behind `at` that is no blank; NUL at the end of the text. */
static char char_behind(const Parser *p, uint32_t at)
{
    while (p->source->text[at] == ' ' || p->source->text[at] == '\t') at++;
    return p->source->text[at];
}

bool tokens_first_on_line(const Parser *p, Span at)
{
    uint32_t i = at.begin;
    while (i && (p->source->text[i - 1] == ' ' || p->source->text[i - 1] == '\t')) i--;
    return !i || p->source->text[i - 1] == '\n';
}

static bool begins_name(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* ---- words ---- */

static char innermost(const Parser *p) { return p->open.n ? p->open.data[p->open.n - 1].open : 0; }

static bool at_statement_start(const Parser *p)
{
    int k = p->last.kind;
    return k == 0 || k == TOK_NL || k == '{' || k == '}';
}

/* `by = x` in an argument list, but not `by == x`. */
static bool names_argument(const Parser *p, Span word)
{
    if (innermost(p) != '(') return false;
    uint32_t i = word.end;
    while (p->source->text[i] == ' ' || p->source->text[i] == '\t') i++;
    return p->source->text[i] == '=' && p->source->text[i + 1] != '=';
}

/* A declaration's first word in the first column, with what follows one. `inside` brackets only
   such words count that no body has at the start of a line (`optimizer` and `const` do). */
static bool begins_decl(const Parser *p, const Token *t, bool inside)
{
    if (t->kind != TOK_IDENT) return false;
    if (t->span.begin && p->source->text[t->span.begin - 1] != '\n') return false;
    const struct Word *w = word_find(t->text);
    if (!w || (w->class != DECL && w->token != TOK_CONST)) return false;
    if (inside && (w->token == TOK_OPTIMIZER || w->token == TOK_CONST)) return false;
    char next = char_behind(p, t->span.end);
    return begins_name(next) || next == '"';
}

static int word_token(const Parser *p, const Token *t)
{
    const struct Word *w = word_find(t->text);
    if (!w || p->last.kind == '.') return TOK_IDENT;
    char next = char_behind(p, t->span.end);
    switch (w->class) {
    case HARD: return names_argument(p, t->span) ? TOK_IDENT : w->token;
    case DECL: return !p->open.n && (at_statement_start(p) || begins_decl(p, t, false)) ? w->token : TOK_IDENT;
    case LEAD: return at_statement_start(p) && begins_name(next) ? w->token : TOK_IDENT;
    case LEAD_ARG: return (p->last.kind == '(' || p->last.kind == ',') && begins_name(next) ? w->token : TOK_IDENT;
    case LEAD_BLOCK: return at_statement_start(p) && next == '{' ? w->token : TOK_IDENT;
    }
    return TOK_IDENT;
}

/* ---- newlines ---- */

/* A line that ends with one of these goes on. */
static bool continues(int kind)
{
    /* clang-format off */
    switch (kind) {
    case ',': case ':': case '=': case '+': case '-': case '*': case '/': case '@': case '<': case '>':
    case TOK_POW: case TOK_EQ: case TOK_NE: case TOK_LE: case TOK_GE: case TOK_SET_ADD:
    case TOK_SET_SUB: case TOK_SET_MUL: case TOK_SET_DIV: case TOK_ARROW: case TOK_RANGE: case TOK_AND:
    case TOK_OR: case TOK_NOT: case TOK_IF: case TOK_THEN: case TOK_ELSE: case TOK_IN: case TOK_INTO:
    case TOK_ON: case TOK_BY: case TOK_AS: case TOK_WHERE: case TOK_OVER: case TOK_ASSERT:
        return true;
    default: return false;
    }
    /* clang-format on */
}

/* A line that begins with one of these goes on with the one before: none can begin a statement. */
static bool continued_by(const Parser *p, const Token *t)
{
    if (t->kind == '{' || t->kind == '=' || t->kind == TOK_ARROW) return true;
    if (t->kind != TOK_IDENT) return false;
    if (!strcmp(t->text, "else") || !strcmp(t->text, "then")) return true;
    char next = char_behind(p, t->span.end);
    return (!strcmp(t->text, "where") || !strcmp(t->text, "on")) && next != '(' && next != '=';
}

static bool newline_ends_statement(Parser *p)
{
    int last = p->last.kind;
    if (innermost(p) == '(' || innermost(p) == '[' || last == 0 || last == TOK_NL || last == '{') return false;
    Token t;
    while ((t = take(p)).kind == TOK_NEWLINE) {}
    put_back(p, t);
    if (continues(last)) return !p->open.n && begins_decl(p, &t, false);
    return !continued_by(p, &t);
}

/* ---- brackets ---- */

static char opener_of(int close) { return close == ')' ? '(' : close == ']' ? '[' : '{'; }

/* Closes the innermost bracket of its kind and what stands open inside it; a stray one changes
 * nothing. */
static void close_bracket(Parser *p, int close)
{
    p->unclosed = (Bracket){0};
    for (uint32_t i = p->open.n; i > 0; i--) {
        if (p->open.data[i - 1].open != opener_of(close)) continue;
        p->unclosed = i < p->open.n ? p->open.data[i] : (Bracket){0};
        p->open.n = i - 1;
        return;
    }
}

/* False: too deep, reported. */
static bool open_bracket(Parser *p, const Token *t)
{
    if (p->open.n < AST_MAX_NESTING) {
        VEC_PUSH(p->arena, &p->open, ((Bracket){(char)t->kind, t->span}));
        return true;
    }
    p->too_deep = true;
    diag_error(p->diags, E0106, t->span, "brackets nested deeper than %d", AST_MAX_NESTING);
    return false;
}

/* The text ends, or a new declaration begins, inside brackets: says which bracket is open and
   closes all, so that the parser can go on with `next`. */
static void close_all(Parser *p, Token next)
{
    const Bracket *b = &p->open.data[p->open.n - 1];
    Diag *e = diag_error(p->diags, E0108, b->span, "this `%c` is never closed", b->open);
    if (next.kind) diag_note(p->diags, e, next.span, "a new declaration begins here");
    Token made = {.span = {p->source, next.span.begin, next.span.begin}};
    VEC(Token) tokens = {0};
    if (b->open != '{') {
        made.kind = TOK_JUNK;
        VEC_PUSH(p->arena, &tokens, made);
    }
    made.kind = TOK_NEWLINE;
    VEC_PUSH(p->arena, &tokens, made);
    uint32_t braces = 0;
    for (uint32_t i = 0; i < p->open.n; i++) {
        if (p->open.data[i].open != '{') continue;
        p->open.data[braces++] = p->open.data[i];
        made.kind = '}';
        VEC_PUSH(p->arena, &tokens, made);
    }
    p->open.n = braces;
    VEC_PUSH(p->arena, &tokens, next);
    for (uint32_t i = tokens.n; i > 0; i--) put_back(p, tokens.data[i - 1]);
}

/* ---- recovery ---- */

/* Brackets open up to and with the innermost `{` around the unexpected token; 0 outside all braces. */
static uint32_t depth_of_block(const Parser *p)
{
    uint32_t n = p->open.n;
    if (n && p->last.kind == '{') n--; /* the unexpected token itself */
    while (n && p->open.data[n - 1].open != '{') n--;
    return n;
}

static bool rest_of_line_is_blank(const Parser *p, uint32_t at)
{
    char c = char_behind(p, at);
    return c == 0 || c == '\r' || c == '\n';
}

static bool is_decl_token(int kind)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].token == kind) return words[i].class == DECL || kind == TOK_CONST;
    return false;
}

void tokens_after_error(Parser *p)
{
    const Token *t = &p->last;
    uint32_t depth = depth_of_block(p);
    if (!depth && is_decl_token(t->kind)) return;
    if (!depth) {
        p->skip_to_decl = true;
        p->open.n = 0;
        return;
    }
    /* An error at the start of a line, or one that swallowed the rest of its line, hints at a
       bracket that was not closed on the line before: newlines shall count again. */
    bool at_edge = t->kind == TOK_JUNK ? rest_of_line_is_blank(p, t->span.end) : tokens_first_on_line(p, t->span);
    while (at_edge && (innermost(p) == '(' || innermost(p) == '[')) p->open.n--;
    if (t->kind != TOK_NL && t->kind != '}') p->skip_depth = depth;
}

static void skip_to_decl(Parser *p)
{
    Token t;
    do t = take(p);
    while (t.kind && !begins_decl(p, &t, false));
    put_back(p, t);
    p->skip_to_decl = false;
    p->last = (Token){.kind = TOK_NL, .span = t.span};
}

/* ---- the parser's next token ---- */

static Token end_token(const Parser *p) { return (Token){.span = {p->source, p->source->n, p->source->n}}; }

static Token filtered(Parser *p)
{
    for (;;) {
        Token t = take(p);
        if (p->open.n && (t.kind == 0 || begins_decl(p, &t, true))) {
            close_all(p, t);
            continue;
        }
        switch (t.kind) {
        case TOK_NEWLINE:
            if (!newline_ends_statement(p)) continue;
            t.kind = TOK_NL;
            return t;
        case ';':
            if (innermost(p) != '(' && innermost(p) != '[') t.kind = TOK_NL;
            return t;
        case '(':
        case '[':
        case '{': return open_bracket(p, &t) ? t : end_token(p);
        case ')':
        case ']':
        case '}': close_bracket(p, t.kind); return t;
        case TOK_IDENT: t.kind = word_token(p, &t); return t;
        default: return t;
        }
    }
}

/* Recovery: to the end of the statement, over blocks inside it. */
static Token rest_of_statement(Parser *p)
{
    uint32_t depth = p->skip_depth;
    p->skip_depth = 0;
    for (;;) {
        Token t = filtered(p);
        if (p->too_deep || t.kind == 0 || p->open.n < depth) return t;
        if (t.kind == TOK_NL && p->open.n == depth) return t;
        p->last = t;
    }
}

static Token next_token(Parser *p)
{
    if (p->too_deep) return end_token(p);
    if (p->skip_to_decl) skip_to_decl(p);
    return p->skip_depth ? rest_of_statement(p) : filtered(p);
}

int gnn_lex(GNN_STYPE *value, Span *span, Parser *p)
{
    p->before_last = p->last;
    p->last = next_token(p);
    *span = p->last.span;
    if (p->last.kind == TOK_NUMBER) value->number = p->last.number;
    else value->text = p->last.text;
    return p->last.kind;
}
