/* What the emitters of C and of CUDA share (codegen/c_text.h). A folded value is spelled inside its one use, with the
   parentheses a careful person would write; every other operand is a name. */
#include "codegen/c_text.h"
#include "base/ice.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

static const KirIns *ins(const CKernel *c, KirId id) { return &c->w->k->ins.data[id]; }

/* ---- names ---- */

/* A word that means something in the emitted file, or could: helpers carry a type's name. */
static bool is_reserved(const char *name)
{
    static const char *const words[] = {
        "alignas",       "alignof",  "and",      "args",      "asm",       "auto",     "bool",
        "break",         "case",     "catch",    "char",      "class",     "compl",    "const",
        "constexpr",     "continue", "decltype", "default",   "delete",    "do",       "double",
        "else",          "enum",     "explicit", "export",    "extern",    "false",    "float",
        "for",           "friend",   "gnn",      "goto",      "team",      "hi",       "if",
        "inline",        "int",      "l",        "linux",     "lo",        "long",     "main",
        "memcpy",        "memory",   "mutable",  "namespace", "new",       "noexcept", "not",
        "nullptr",       "operator", "or",       "private",   "protected", "public",   "register",
        "restrict",      "return",   "RtArg",    "short",     "signed",    "sizeof",   "static",
        "static_assert", "struct",   "switch",   "template",  "this",      "throw",    "thread_local",
        "true",          "try",      "typedef",  "typeid",    "typename",  "typeof",   "union",
        "unix",          "unsigned", "using",    "virtual",   "void",      "volatile", "warps",
        "wchar_t",       "while",    "xor",      "fma",       "fmaf",      "fabs",     "fabsf",
        "sqrt",          "sqrtf",    "rint",     "rintf",     "floor",     "floorf",   "threadIdx",
        "blockIdx",      "blockDim", "gridDim",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], name)) return true;
    for (KirBase base = KIR_I1; base < KIR_N_BASES; base++)
        if (strstr(name, kir_base_name(base))) return true;
    return name[0] == '_' || !strncmp(name, "int", 3) || !strncmp(name, "uint", 4) || !strncmp(name, "INT", 3);
}

static bool is_taken(const CKernel *c, const char *name)
{
    for (uint32_t i = 0; i < c->taken.n; i++)
        if (!strcmp(c->taken.data[i], name)) return true;
    return false;
}

const char *c_fresh_name(CKernel *c, const char *hint)
{
    Arena *a = c->arena;
    char *base = arena_strndup(a, hint, strlen(hint));
    for (char *p = base; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    bool numbered = base[0] == 'v' && base[1] && strspn(base + 1, "0123456789") == strlen(base + 1);
    if (is_reserved(base) || numbered || isdigit((unsigned char)base[0])) base = arena_printf(a, "k_%s", base);
    const char *name = base;
    for (unsigned i = 2; is_taken(c, name); i++) name = arena_printf(a, "%s_%u", base, i);
    VEC_PUSH(a, &c->taken, name);
    return name;
}

const char *c_name_value(CKernel *c, KirId id)
{
    const char *hint = ins(c, id)->name;
    c->names[id] = hint && hint[0] ? c_fresh_name(c, hint) : arena_printf(c->arena, "v%u", c->next++);
    return c->names[id];
}

const char *c_name_loop(CKernel *c, KirId id)
{
    static const char *const letters[] = {"i", "j", "k", "m", "n", "p"};
    const KirIns *x = ins(c, id);
    if (x->name && x->name[0]) return c_name_value(c, id);
    uint32_t depth = c->w->depth < 6 ? c->w->depth : 5;
    return c->names[id] = c_fresh_name(c, letters[depth]);
}

void c_open_scope(CKernel *c) { VEC_PUSH(c->arena, &c->scopes, c->taken.n); }
void c_close_scope(CKernel *c) { c->taken.n = c->scopes.data[--c->scopes.n]; }

/* ---- lines ---- */

void c_line(CKernel *c, const char *fmt, ...)
{
    va_list ap;
    for (uint32_t i = 0; i <= c->w->depth + c->indent; i++) strbuf_puts(c->out, "    ");
    va_start(ap, fmt);
    strbuf_puts(c->out, arena_vprintf(c->arena, fmt, ap));
    va_end(ap);
    strbuf_puts(c->out, "\n");
}

const char *c_comment(Arena *a, const char *s)
{
    char *t = arena_strndup(a, s, strlen(s));
    for (char *p = t; *p; p++)
        if ((unsigned char)*p < 32 ? *p != '\n'
                                   : (p > t && ((p[-1] == '*' && *p == '/') || (p[-1] == '/' && *p == '*'))))
            *p = ' ';
    return t;
}

/* ---- expressions ---- */

CText c_printf(CKernel *c, CBind bind, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CText t = {arena_vprintf(c->arena, fmt, ap), bind};
    va_end(ap);
    return t;
}

const char *c_tight(CKernel *c, CText t, CBind bind)
{
    return t.bind <= bind ? t.text : arena_printf(c->arena, "(%s)", t.text);
}

CText c_operand(CKernel *c, KirId id)
{
    if (c->w->facts[id].fold) return c->expr(c, id);
    ICE_UNLESS(c->names[id]);
    return (CText){c->names[id], BIND_CALL};
}

const char *c_arg(CKernel *c, const KirIns *x, unsigned i) { return c_operand(c, x->args[i]).text; }

CText c_float(CKernel *c, KirBase base, double f)
{
    char digits[40];
    ICE_UNLESS(isfinite(f));
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, f);
        if (base == KIR_F32 ? (double)strtof(digits, NULL) == f : strtod(digits, NULL) == f) break;
    }
    const char *point = strpbrk(digits, ".e") ? "" : ".0", *suffix = base == KIR_F32 ? "f" : "";
    return c_printf(c, signbit(f) ? BIND_ADD : BIND_CALL, "%s%s%s", digits, point, suffix);
}

CText c_int(CKernel *c, KirBase base, int64_t v)
{
    if (base == KIR_I1) return c_printf(c, BIND_CALL, v ? "true" : "false");
    return c_printf(c, v < 0 ? BIND_ADD : BIND_CALL, "%lld", (long long)v);
}

bool c_is_literal(const CKernel *c, KirId id)
{
    const KirIns *x = ins(c, id);
    if (x->op == KIR_iconst) return x->type.lanes == 1;
    unsigned n = kir_ops[x->op].n_args;
    if (!c->w->facts[id].fold || !n || kir_ops[x->op].imm != K_NONE) return false;
    for (unsigned i = 0; i < n; i++)
        if (!c_is_literal(c, x->args[i])) return false;
    return true;
}

CText c_infix(CKernel *c, const KirIns *x, const char *sign, CBind bind)
{
    CBind left = bind == BIND_BITS ? BIND_UNARY : bind == BIND_COMPARE ? BIND_ADD : bind;
    CBind right = bind == BIND_MUL || bind == BIND_BITS ? BIND_UNARY : bind == BIND_ADD ? BIND_MUL : BIND_ADD;
    const char *a = c_tight(c, c_operand(c, x->args[0]), left);
    const char *b = c_tight(c, c_operand(c, x->args[1]), right);
    return c_printf(c, bind, "%s %s %s", a, sign, b);
}

CText c_call(CKernel *c, const KirIns *x, const char *name)
{
    StrBuf b = {.arena = c->arena};
    strbuf_printf(&b, "%s(", name);
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) strbuf_printf(&b, "%s%s", i ? ", " : "", c_arg(c, x, i));
    strbuf_puts(&b, ")");
    return (CText){strbuf_cstr(&b), BIND_CALL};
}

const char *c_compare_sign(KirOpcode op)
{
    static const char *const signs[] = {[KIR_eq] = "==", [KIR_ne] = "!=", [KIR_lt] = "<", [KIR_le] = "<="};
    return signs[op];
}

CText c_select(CKernel *c, const KirIns *x)
{
    const char *cond = c_tight(c, c_operand(c, x->args[0]), BIND_COMPARE);
    const char *a = c_tight(c, c_operand(c, x->args[1]), BIND_ADD), *b = c_tight(c, c_operand(c, x->args[2]), BIND_ADD);
    return c_printf(c, BIND_COND, "%s ? %s : %s", cond, a, b);
}

CText c_cast(CKernel *c, const KirIns *x, const char *type)
{
    return c_printf(c, BIND_UNARY, "(%s)%s", type, c_tight(c, c_operand(c, x->args[0]), BIND_CALL));
}

const char *c_buffer(CKernel *c, const KirIns *x)
{
    return x->buf == KIR_NONE ? c->names[x->alloc] : c->params[x->buf];
}

/* Widening an i32 goes without saying in C. */
const char *c_index(CKernel *c, const KirIns *x)
{
    KirId id = x->args[0];
    const KirIns *index = ins(c, id);
    bool widens = index->op == KIR_convert && c->w->facts[id].fold &&
                  kir_result_type(c->w->k, index->args[0]).base == KIR_I32;
    return c_operand(c, widens ? index->args[0] : id).text;
}

/* ---- hooks ---- */

void c_value(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    if (w->facts[id].fold) return;
    const char *expr = c->expr(c, id).text, *type = c->type(c, ins(c, id)->type);
    c_line(c, "const %s %s = %s;", type, c_name_value(c, id), expr);
}

void c_var(void *ctx, const KirWalk *w, KirId id)
{
    (void)w;
    CKernel *c = ctx;
    const KirIns *x = ins(c, id);
    const char *init = c_arg(c, x, 0), *type = c->type(c, x->type);
    c_line(c, "%s %s = %s;", type, c_name_value(c, id), init);
}

void c_set(void *ctx, const KirWalk *w, KirId id)
{
    (void)w;
    CKernel *c = ctx;
    const KirIns *x = ins(c, id);
    if (x->args[0] == x->args[1]) return; /* a compiler would wonder */
    ICE_UNLESS(c->names[x->args[0]]);
    c_line(c, "%s = %s;", c->names[x->args[0]], c_arg(c, x, 1));
}

void c_begin_loop(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    c_line(ctx, "for (;;) {");
    c_open_scope(ctx);
}

void c_break_if(void *ctx, const KirWalk *w, KirId id)
{
    (void)w;
    c_line(ctx, "if (%s) break;", c_arg(ctx, ins(ctx, id), 0));
}

void c_begin_if(void *ctx, const KirWalk *w, KirId id)
{
    (void)w;
    c_line(ctx, "if (%s) {", c_arg(ctx, ins(ctx, id), 0));
    c_open_scope(ctx);
}

void c_begin_else(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    c_close_scope(ctx);
    c_line(ctx, "} else {");
    c_open_scope(ctx);
}

void c_close(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    c_close_scope(ctx);
    c_line(ctx, "}");
}
