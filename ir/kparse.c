/* Reads the text form of kernel IR (docs/ir-kernel.md). One line is one instruction; the first
   mistake ends the reading with E0503 at the token that does not fit. Takes any bytes: nesting is
   limited, nothing else recurses. A kernel that reads well is verified before it is returned
   (E0504). */
#include "ir/kernel.h"
#include "base/ice.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

typedef struct Token {
    uint32_t at, n;
} Token;

typedef struct Parser {
    Arena *arena;
    const Source *src;
    Diags *diags;
    uint32_t at; /* next byte */
    KirBuilder b;
    StrMap labels; /* "%x" without the percent sign -> id + 1 */
    VEC(Span) places;
    const char *comment; /* lines right before a kernel, or the rest of a line; NULL */
} Parser;

static int peek(const Parser *p) { return p->at < p->src->n ? (unsigned char)p->src->text[p->at] : -1; }

static void skip_spaces(Parser *p)
{
    while (peek(p) == ' ' || peek(p) == '\t' || peek(p) == '\r') p->at++;
}

static bool is_word(int c) { return c >= 0 && c < 128 && (isalnum(c) || c == '_' || c == '.' || c == '-' || c == '+'); }

/* The token at the cursor: a word, or one byte. Empty at the end of the text. */
static Token next_token(Parser *p)
{
    skip_spaces(p);
    Token t = {p->at, 0};
    while (t.at + t.n < p->src->n && is_word((unsigned char)p->src->text[t.at + t.n])) t.n++;
    ICE_UNLESS(p->at <= p->src->n);
    bool dots = t.n >= 2 && !memcmp(p->src->text + t.at, "..", 2);
    if (dots) t.n = 2;
    if (!t.n && t.at < p->src->n) t.n = 1;
    return t;
}

static bool fail(Parser *p, Token t, const char *wanted)
{
    Span span = span_at(p->src, t.at, t.at + t.n);
    const char *text = p->src->text + t.at;
    int shown = t.n > 40 ? 40 : (int)t.n;
    if (!t.n) diag_error(p->diags, E0503, span, "wanted %s, found the end of the text", wanted);
    else if (text[0] == '\n') diag_error(p->diags, E0503, span, "wanted %s, found the end of the line", wanted);
    else if ((unsigned char)text[0] < 32 || (unsigned char)text[0] > 126)
        diag_error(p->diags, E0503, span, "wanted %s, found byte 0x%02x", wanted, (unsigned)(unsigned char)text[0]);
    else diag_error(p->diags, E0503, span, "wanted %s, found '%.*s'", wanted, shown, text);
    return false;
}

static bool token_is(const Parser *p, Token t, const char *text)
{
    return t.n == strlen(text) && !memcmp(p->src->text + t.at, text, t.n);
}

/* Takes the token if it is `text`. */
static bool accept(Parser *p, const char *text)
{
    Token t = next_token(p);
    if (!token_is(p, t, text)) return false;
    p->at = t.at + t.n;
    return true;
}

static bool expect(Parser *p, const char *text)
{
    if (accept(p, text)) return true;
    return fail(p, next_token(p), arena_printf(p->arena, "'%s'", text));
}

static bool is_identifier(const char *s)
{
    if (!(isalpha((unsigned char)s[0]) || s[0] == '_') || strlen(s) > KIR_MAX_NAME) return false;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return !*s;
}

static char *token_text(Parser *p, Token t) { return arena_strndup(p->arena, p->src->text + t.at, t.n); }

static bool parse_identifier(Parser *p, const char *what, const char **name)
{
    Token t = next_token(p);
    *name = token_text(p, t);
    if (!t.n || strlen(*name) != t.n || !is_identifier(*name)) return fail(p, t, what);
    p->at = t.at + t.n;
    return true;
}

static bool parse_int(Parser *p, int64_t least, int64_t most, const char *what, int64_t *out)
{
    Token t = next_token(p);
    char *text = token_text(p, t), *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!t.n || end == text || *end || errno || v < least || v > most) return fail(p, t, what);
    *out = v;
    p->at = t.at + t.n;
    return true;
}

static bool parse_float(Parser *p, KirBase base, double *out)
{
    Token t = next_token(p);
    char *text = token_text(p, t), *end;
    *out = base == KIR_F32 ? (double)strtof(text, &end) : strtod(text, &end);
    if (!t.n || end == text || *end) return fail(p, t, "a number");
    p->at = t.at + t.n;
    return true;
}

/* ---- comments and ends of lines ---------------------------------------------------------------------------------- */

/* The comment from '#' to the end of the line, trimmed. */
static const char *take_comment(Parser *p)
{
    ICE_UNLESS(peek(p) == '#');
    const char *s = p->src->text + p->at + 1;
    uint32_t begin = p->at + 1;
    while (peek(p) >= 0 && peek(p) != '\n') p->at++;
    uint32_t n = p->at - begin;
    while (n && ((unsigned char)s[0] <= 32 || s[0] == 127)) s++, n--;
    while (n && ((unsigned char)s[n - 1] <= 32 || s[n - 1] == 127)) n--;
    return arena_strndup(p->arena, s, n);
}

static bool end_line(Parser *p)
{
    p->comment = NULL;
    skip_spaces(p);
    if (peek(p) == '#') p->comment = take_comment(p);
    if (peek(p) >= 0 && peek(p) != '\n') return fail(p, next_token(p), "the end of the line");
    if (peek(p) == '\n') p->at++;
    return true;
}

/* Skips blank lines and whole-line comments; p->comment becomes the last run of comment lines not
 * followed by a blank line. */
static void skip_lines(Parser *p)
{
    p->comment = NULL;
    for (;;) {
        skip_spaces(p);
        if (peek(p) == '#') {
            const char *line = take_comment(p);
            p->comment = p->comment ? arena_printf(p->arena, "%s\n%s", p->comment, line) : line;
            if (peek(p) == '\n') p->at++;
        } else if (peek(p) == '\n') {
            p->comment = NULL;
            p->at++;
        } else {
            return;
        }
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool parse_label(Parser *p, Token *whole, char **label)
{
    Token t = next_token(p);
    if (!token_is(p, t, "%")) return fail(p, t, "a value such as %3");
    *whole = t;
    p->at++;
    if (!is_word(peek(p))) return fail(p, next_token(p), "a value's name after '%'");
    t = next_token(p);
    *label = token_text(p, t);
    for (uint32_t i = 0; i < t.n; i++)
        if ((*label)[i] == '-' || (*label)[i] == '+')
            return fail(p, t, "a value's name of letters, digits, '_' and '.'");
    whole->n = t.at + t.n - whole->at;
    p->at = t.at + t.n;
    return true;
}

static bool parse_operand(Parser *p, KirId *id)
{
    Token t;
    char *label;
    if (!parse_label(p, &t, &label)) return false;
    uintptr_t found = (uintptr_t)strmap_get(&p->labels, label);
    if (!found) return fail(p, t, "a value defined above");
    *id = (KirId)(found - 1);
    return true;
}

/* What a label says beside its number: "acc.7" and "acc" give "acc", "7" gives NULL. */
static const char *label_hint(Arena *a, const char *label)
{
    size_t n = strlen(label), end = n;
    while (end && isdigit((unsigned char)label[end - 1])) end--;
    if (!end) return NULL;
    if (end < n && label[end - 1] == '.') n = end - 1;
    char *hint = arena_strndup(a, label, n);
    for (char *c = hint; *c; c++)
        if (*c == '.') *c = '_';
    return hint[0] ? hint : NULL;
}

static bool parse_type(Parser *p, KirType *type)
{
    Token t = next_token(p);
    const char *text = token_text(p, t);
    for (KirBase base = KIR_I1; base < KIR_N_BASES; base++) {
        size_t n = strlen(kir_base_name(base));
        if (strncmp(text, kir_base_name(base), n)) continue;
        unsigned lanes = 1;
        static const char *const suffix[] = {"", "x2", "x4", "x8", "x16"};
        for (unsigned i = 0; i < 5; i++, lanes *= 2) {
            if (strcmp(text + n, suffix[i])) continue;
            *type = kir_type(base, lanes);
            p->at = t.at + t.n;
            return true;
        }
    }
    return fail(p, t, "a type such as i64 or f32x16");
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static bool find_param(Parser *p, Token t, uint32_t *index)
{
    for (uint32_t i = 0; i < p->b.k->params.n; i++)
        if (token_is(p, t, p->b.k->params.data[i].name)) {
            *index = i;
            p->at = t.at + t.n;
            return true;
        }
    return false;
}

/* BUFFER[%index], BUFFER a parameter or the value of an alloc. */
static bool parse_place(Parser *p, KirIns *x)
{
    Token t = next_token(p);
    x->buf = KIR_NONE;
    if (token_is(p, t, "%")) {
        if (!parse_operand(p, &x->alloc)) return false;
    } else if (!find_param(p, t, &x->buf)) {
        return fail(p, t, "a parameter or an array");
    }
    return expect(p, "[") && parse_operand(p, &x->args[0]) && expect(p, "]");
}

static bool parse_memory(Parser *p, KirIns *x)
{
    int64_t active = x->type.lanes;
    x->stride = 1;
    if (!parse_place(p, x)) return false;
    if (x->op == KIR_prefetch) {
        x->i = accept(p, "far");
        return true;
    }
    if (x->op == KIR_store && !(expect(p, "=") && parse_operand(p, &x->args[1]))) return false;
    if (x->op != KIR_gather && accept(p, "stride"))
        if (!parse_int(p, 0, INT64_MAX, "a stride of 0 or more", &x->stride)) return false;
    if (accept(p, "active"))
        if (!parse_int(p, 1, x->type.lanes, "a number of lanes, at most the type's", &active)) return false;
    x->active = (uint8_t)active;
    if (x->op != KIR_store && accept(p, "pad")) return parse_float(p, x->type.base, &x->f);
    return true;
}

static bool parse_immediate(Parser *p, KirIns *x)
{
    const KirOpInfo *info = &kir_ops[x->op];
    if (x->op == KIR_param) {
        uint32_t index = 0;
        Token t = next_token(p);
        if (!find_param(p, t, &index)) return fail(p, t, "a scalar parameter");
        x->i = index;
        return true;
    }
    if (info->imm == K_FLT) return parse_float(p, x->type.base, &x->f);
    if (info->imm != K_INT) return true;
    if (info->n_args && !expect(p, ",")) return false;
    bool bit = x->op == KIR_iconst && x->type.base == KIR_I1, word = x->op == KIR_iconst && x->type.base == KIR_I32;
    if (!parse_int(p,
                   bit    ? 0
                   : word ? INT32_MIN
                          : INT64_MIN,
                   bit    ? 1
                   : word ? INT32_MAX
                          : INT64_MAX,
                   bit    ? "0 or 1"
                   : word ? "an integer of 32 bits"
                          : "an integer",
                   &x->i))
        return false;
    x->shared = x->op == KIR_alloc && accept(p, "shared");
    return true;
}

static bool parse_operands(Parser *p, KirIns *x)
{
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++)
        if ((i && !expect(p, ",")) || !parse_operand(p, &x->args[i])) return false;
    return true;
}

static KirId add(Parser *p, KirIns x, Token t)
{
    ICE_UNLESS(p->places.n == p->b.k->ins.n); /* one for each instruction */
    Span place = span_at(p->src, t.at, t.at + t.n);
    VEC_PUSH(p->arena, &p->places, place);
    return kir_ins(&p->b, x);
}

static bool find_value_op(Parser *p, KirOpcode *op)
{
    Token t = next_token(p);
    for (unsigned i = 0; i < KIR_N_OPS; i++)
        if (kir_ops[i].kind == KIND_V && token_is(p, t, kir_ops[i].name)) {
            *op = (KirOpcode)i;
            p->at = t.at + t.n;
            return true;
        }
    return fail(p, t, "an instruction with a value");
}

static bool define(Parser *p, Token t, const char *label, KirId id)
{
    if (strmap_has(&p->labels, label)) return fail(p, t, "a new name, each value is defined once");
    strmap_put(&p->labels, label, (void *)((uintptr_t)id + 1));
    p->b.k->ins.data[id].name = label_hint(p->arena, label);
    return true;
}

static bool parse_value(Parser *p)
{
    Token t;
    char *label;
    KirIns x = {.buf = KIR_NONE, .alloc = KIR_NONE};
    if (!parse_label(p, &t, &label) || !expect(p, "=")) return false;
    if (!find_value_op(p, &x.op) || !parse_type(p, &x.type)) return false;
    bool memory = kir_ops[x.op].imm == K_BUF;
    if (memory ? !parse_memory(p, &x) : !(parse_operands(p, &x) && parse_immediate(p, &x))) return false;
    return define(p, t, label, add(p, x, t)) && end_line(p);
}

static bool parse_statement(Parser *p, Token t)
{
    KirIns x = {.buf = KIR_NONE, .alloc = KIR_NONE};
    bool good;
    if (accept(p, "store")) {
        x.op = KIR_store;
        good = parse_type(p, &x.type) && parse_memory(p, &x);
    } else if (accept(p, "prefetch")) {
        x.op = KIR_prefetch;
        good = parse_memory(p, &x);
    } else if (accept(p, "break_if")) {
        x.op = KIR_break_if;
        good = parse_operand(p, &x.args[0]);
    } else if (accept(p, "barrier")) {
        x.op = KIR_barrier;
        good = true;
    } else if (accept(p, "set")) {
        x.op = KIR_set;
        good = parse_operand(p, &x.args[0]) && expect(p, "=") && parse_operand(p, &x.args[1]);
        if (good) x.type = kir_result_type(p->b.k, x.args[0]);
    } else {
        return fail(p, t, "an instruction");
    }
    if (!good) return false;
    add(p, x, t);
    return end_line(p);
}

static bool parse_binding(Parser *p, KirBinding *bind)
{
    for (KirBinding i = KIR_SEQ; i <= KIR_WARP; i++)
        if (accept(p, kir_binding_name(i))) {
            *bind = i;
            return true;
        }
    *bind = KIR_SEQ;
    return true;
}

static bool parse_block(Parser *p);

static bool parse_for(Parser *p, Token t)
{
    Token name;
    char *label;
    KirId from = KIR_NONE, to = KIR_NONE;
    int64_t step = 1;
    KirBinding bind;
    if (!parse_label(p, &name, &label) || !expect(p, "=") || !parse_operand(p, &from)) return false;
    if (!expect(p, "..") || !parse_operand(p, &to)) return false;
    if (accept(p, "step") && !parse_int(p, 1, INT64_MAX, "a step of 1 or more", &step)) return false;
    if (!parse_binding(p, &bind) || !expect(p, "{") || !end_line(p)) return false;
    Span place = span_at(p->src, t.at, t.at + t.n);
    VEC_PUSH(p->arena, &p->places, place);
    KirId id = kir_for(&p->b, from, to, step, bind, p->comment);
    if (!define(p, name, label, id) || !parse_block(p)) return false;
    kir_end(&p->b);
    return end_line(p);
}

static bool parse_if(Parser *p, Token t)
{
    KirId cond = KIR_NONE;
    if (!parse_operand(p, &cond) || !expect(p, "{") || !end_line(p)) return false;
    Span place = span_at(p->src, t.at, t.at + t.n);
    VEC_PUSH(p->arena, &p->places, place);
    kir_if(&p->b, cond);
    if (!parse_block(p)) return false;
    if (accept(p, "else")) {
        kir_else(&p->b);
        if (!expect(p, "{") || !end_line(p) || !parse_block(p)) return false;
    }
    kir_end(&p->b);
    return end_line(p);
}

static bool parse_loop(Parser *p, Token t)
{
    if (!expect(p, "{") || !end_line(p)) return false;
    Span place = span_at(p->src, t.at, t.at + t.n);
    VEC_PUSH(p->arena, &p->places, place);
    kir_loop(&p->b);
    if (!parse_block(p)) return false;
    kir_end(&p->b);
    return end_line(p);
}

/* Lines up to and with the closing brace, into the block the builder has open. */
static bool parse_block(Parser *p)
{
    for (;;) {
        skip_lines(p);
        Token t = next_token(p);
        if (accept(p, "}")) return true;
        bool deep = p->b.owners.n >= KIR_MAX_DEPTH;
        bool opens = token_is(p, t, "for") || token_is(p, t, "loop") || token_is(p, t, "if");
        if (deep && opens) return fail(p, t, "at most 64 blocks in each other");
        bool good = token_is(p, t, "%") ? parse_value(p)
                    : accept(p, "for")  ? parse_for(p, t)
                    : accept(p, "loop") ? parse_loop(p, t)
                    : accept(p, "if")   ? parse_if(p, t)
                                        : parse_statement(p, t);
        if (!good) return false;
    }
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static bool parse_param(Parser *p)
{
    KirParam q = {.kind = KIR_SCALAR};
    KirType type;
    Token name = next_token(p), t;
    uint32_t same;
    if (!parse_identifier(p, "a parameter's name", &q.name)) return false;
    uint32_t after = p->at;
    if (find_param(p, name, &same)) return fail(p, name, "a new name, parameters differ in theirs");
    p->at = after;
    if (!expect(p, ":")) return false;
    if (accept(p, "inout")) q.kind = KIR_INOUT;
    else if (accept(p, "in")) q.kind = KIR_IN;
    else if (accept(p, "out")) q.kind = KIR_OUT;
    q.restrict_ = q.kind != KIR_SCALAR && accept(p, "restrict");
    t = next_token(p);
    if (!parse_type(p, &type)) return false;
    if (type.lanes != 1) return fail(p, t, "a type of one lane");
    q.elem = type.base;
    if (q.kind != KIR_SCALAR && !expect(p, "*")) return false;
    kir_param(p->arena, p->b.k, q);
    return true;
}

static bool parse_params(Parser *p)
{
    if (!expect(p, "(")) return false;
    if (accept(p, ")")) return true;
    do
        if (!parse_param(p)) return false;
    while (accept(p, ","));
    return expect(p, ")");
}

static KirKernel *parse_kernel(Parser *p)
{
    const char *name, *comment = p->comment;
    Token head = next_token(p);
    if (!expect(p, "kernel") || !expect(p, "@")) return NULL;
    if (!parse_identifier(p, "the kernel's name", &name)) return NULL;
    KirKernel *k = kir_kernel_new(p->arena, name);
    k->comment = comment;
    p->b = kir_builder(p->arena, k);
    p->labels = (StrMap){.arena = p->arena};
    p->places.n = 0;
    Span span = span_at(p->src, head.at, p->at);
    if (!parse_params(p) || !expect(p, "{") || !end_line(p) || !parse_block(p) || !end_line(p)) return NULL;
    return kir_verify_at(k, p->places.data, span, p->diags) ? k : NULL;
}

KirModule *kir_parse(Arena *a, const Source *src, Diags *d)
{
    Parser p = {.arena = a, .src = src, .diags = d};
    KirModule *m = ARENA_NEW(a, KirModule);
    StrMap names = {.arena = a};
    skip_lines(&p);
    do {
        Token head = next_token(&p);
        KirKernel *k = parse_kernel(&p);
        if (!k) return NULL;
        if (strmap_has(&names, k->name)) {
            fail(&p, head, arena_printf(a, "a new name, kernel '%s' stands above", k->name));
            return NULL;
        }
        strmap_put(&names, k->name, k);
        VEC_PUSH(a, &m->kernels, k);
        skip_lines(&p);
    } while (p.at < src->n);
    return m;
}
