/* Emits kernel IR as readable C11 with the vector extensions of gcc and clang: the functions an
   `Emitter` wants, each a line or two of C. Expressions are in emit_c_expr.c, vector helpers in
   emit_c_help.c. It spells what the walker visits and never reorders, contracts or chooses. */
#include "codegen/emit_c.h"
#include "base/ice.h"
#include "codegen/emit_c_parts.h"
#include "codegen/serial.h"
#include <ctype.h>

static const KirIns *ins(const KirWalk *w, KirId id) { return &w->k->ins.data[id]; }

/* ---- names -------------------------------------------------------------------------------------- */

/* A word that means something in the emitted file, or could: helpers carry a type's name. */
static bool is_reserved(const char *name)
{
    static const char *const words[] = {
        "alignas", "alignof",   "args",     "asm",           "auto",     "bool",     "break",        "case",  "char",
        "const",   "constexpr", "continue", "default",       "do",       "double",   "else",         "enum",  "extern",
        "false",   "float",     "for",      "goto",          "hi",       "if",       "inline",       "int",   "lo",
        "long",    "main",      "memcpy",   "nullptr",       "register", "restrict", "return",       "RtArg", "short",
        "signed",  "sizeof",    "static",   "static_assert", "struct",   "switch",   "thread_local", "true",  "typedef",
        "typeof",  "union",     "unix",     "linux",         "unsigned", "void",     "volatile",     "while", "fma",
        "fmaf",    "fabs",      "fabsf",    "sqrt",          "sqrtf",    "rint",     "rintf",        "floor", "floorf",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], name)) return true;
    for (KirBase base = KIR_I1; base <= KIR_F64; base++)
        if (strstr(name, kir_base_name(base))) return true;
    return name[0] == '_' || !strncmp(name, "int", 3) || !strncmp(name, "uint", 4) || !strncmp(name, "INT", 3);
}

static bool is_taken(const CKernel *c, const char *name)
{
    for (uint32_t i = 0; i < c->taken.n; i++)
        if (!strcmp(c->taken.data[i], name)) return true;
    return false;
}

/* A C name like the hint that nothing in an open scope has. */
static const char *fresh_name(CKernel *c, const char *hint)
{
    Arena *a = c->file->arena;
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

static const char *name_value(CKernel *c, KirId id)
{
    const char *hint = ins(c->w, id)->name;
    c->names[id] = hint && hint[0] ? fresh_name(c, hint) : arena_printf(c->file->arena, "v%u", c->next++);
    return c->names[id];
}

static void open_scope(CKernel *c) { VEC_PUSH(c->file->arena, &c->scopes, c->taken.n); }
static void close_scope(CKernel *c) { c->taken.n = c->scopes.data[--c->scopes.n]; }

/* ---- lines -------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void line(CKernel *c, const char *fmt, ...)
{
    StrBuf *out = &c->file->body;
    va_list ap;
    for (uint32_t i = 0; i <= c->w->depth; i++) strbuf_puts(out, "    ");
    va_start(ap, fmt);
    strbuf_puts(out, arena_vprintf(c->file->arena, fmt, ap));
    va_end(ap);
    strbuf_puts(out, "\n");
}

/* Text that can stand in a C comment. */
static const char *comment_text(Arena *a, const char *s)
{
    char *t = arena_strndup(a, s, strlen(s));
    for (char *p = t; *p; p++)
        if ((unsigned char)*p < 32 ? *p != '\n'
                                   : (p > t && ((p[-1] == '*' && *p == '/') || (p[-1] == '/' && *p == '*'))))
            *p = ' ';
    return t;
}

/* ---- kernels ------------------------------------------------------------------------------------ */

static void declare_param(CKernel *c, uint32_t i)
{
    const KirParam *p = &c->w->k->params.data[i];
    c->params[i] = fresh_name(c, p->name);
    if (!c->w->param_live[i]) return;
    const char *name = c->params[i], *elem = c_elem(p->elem), *konst = p->kind == KIR_IN ? "const " : "";
    if (p->kind != KIR_SCALAR)
        line(c, "%s%s *%s%s = args[%u].p;", konst, elem, p->restrict_ ? "restrict " : "", name, i);
    else if (p->elem == KIR_I64) line(c, "const int64_t %s = args[%u].i;", name, i);
    else line(c, "const %s %s = %sargs[%u].f;", elem, name, p->elem == KIR_F32 ? "(float)" : "", i);
}

static void c_begin_kernel(void *ctx, const KirWalk *w)
{
    CKernel *c = ctx;
    StrBuf *out = &c->file->body;
    bool any = false;
    c->w = w;
    if (w->k->comment) strbuf_printf(out, "\n/* %s */", comment_text(c->file->arena, w->k->comment));
    strbuf_printf(out, "\nvoid %s(const RtArg *args, int64_t lo, int64_t hi)\n{\n", w->k->name);
    for (uint32_t i = 0; i < w->k->params.n; i++) {
        declare_param(c, i);
        any = any || w->param_live[i];
    }
    if (!any) line(c, "(void)args;");
    if (!w->has_threads) line(c, "(void)lo, (void)hi;");
}

static void c_end_kernel(void *ctx, const KirWalk *w)
{
    (void)w;
    ICE_UNLESS(!((CKernel *)ctx)->scopes.n); /* every scope is closed */
    strbuf_puts(&((CKernel *)ctx)->file->body, "}\n");
}

/* ---- values and memory -------------------------------------------------------------------------- */

static void c_value(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    if (w->facts[id].fold) return;
    const char *expr = c_expr(c, id).text, *type = c_type(c->file, ins(w, id)->type);
    line(c, "const %s %s = %s;", type, name_value(c, id), expr);
}

static void c_statement(void *ctx, const KirWalk *w, KirId id) { line(ctx, "%s;", c_store(ctx, ins(w, id))); }

static void c_prefetch(void *ctx, const KirWalk *w, KirId id)
{
    line(ctx, ins(w, id)->i ? "__builtin_prefetch(&%s, 0, 2);" : "__builtin_prefetch(&%s);", c_place(ctx, ins(w, id)));
}

static void c_alloc(void *ctx, const KirWalk *w, KirId id)
{
    const KirIns *x = ins(w, id);
    ((CKernel *)ctx)->file->arrays = true;
    line(ctx, "%s %s[%lld];", c_elem(x->type.base), name_value(ctx, id), (long long)x->i);
}

static void c_var(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    const KirIns *x = ins(w, id);
    const char *init = c_operand(c, x->args[0]).text, *type = c_type(c->file, x->type);
    line(c, "%s %s = %s;", type, name_value(c, id), init);
}

static void c_set(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    const KirIns *x = ins(w, id);
    if (x->args[0] == x->args[1]) return; /* a compiler would wonder */
    ICE_UNLESS(c->names[x->args[0]]);
    line(c, "%s = %s;", c->names[x->args[0]], c_operand(c, x->args[1]).text);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static const char *loop_name(CKernel *c, KirId id)
{
    static const char *const letters[] = {"i", "j", "k", "l", "m", "n"};
    const KirIns *x = ins(c->w, id);
    if (x->name && x->name[0]) return name_value(c, id);
    uint32_t depth = c->w->depth < 6 ? c->w->depth : 5;
    return c->names[id] = fresh_name(c, letters[depth]);
}

static void c_begin_for(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    const KirIns *x = ins(w, id);
    Arena *a = c->file->arena;
    if (x->comment && x->comment[0]) line(c, "/* %s */", comment_text(a, x->comment));
    open_scope(c);
    const char *from = c_operand(c, x->args[0]).text, *to = c_operand(c, x->args[1]).text;
    bool threads = x->bind == KIR_THREADS;
    if (threads) {
        KirType t = kir_type(KIR_I64, 1);
        from = arena_printf(a, "%s(%s, lo)", c_helper(c->file, "imax", t, t), from);
        to = arena_printf(a, "%s(%s, hi)", c_helper(c->file, "imin", t, t), to);
    }
    const char *i = loop_name(c, id), *end = to;
    /* The bounds are worked out once: what is more than a name or number gets one. */
    bool copied = threads || ins(w, x->args[1])->op == KIR_var;
    if (copied) end = fresh_name(c, "end");
    const char *set_end = copied ? arena_printf(a, ", %s = %s", end, to) : "";
    const char *next = x->i == 1 ? arena_printf(a, "%s++", i) : arena_printf(a, "%s += %lld", i, (long long)x->i);
    if (x->bind == KIR_UNROLL) line(c, "#pragma GCC unroll 16");
    line(c, "for (int64_t %s = %s%s; %s < %s; %s) {", i, from, set_end, i, end, next);
}

static void c_begin_loop(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    line(ctx, "for (;;) {");
    open_scope(ctx);
}

static void c_break_if(void *ctx, const KirWalk *w, KirId id)
{
    line(ctx, "if (%s) break;", c_operand(ctx, ins(w, id)->args[0]).text);
}

static void c_begin_if(void *ctx, const KirWalk *w, KirId id)
{
    line(ctx, "if (%s) {", c_operand(ctx, ins(w, id)->args[0]).text);
    open_scope(ctx);
}

static void c_begin_else(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    close_scope(ctx);
    line(ctx, "} else {");
    open_scope(ctx);
}

static void c_close(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    close_scope(ctx);
    line(ctx, "}");
}

static const Emitter emitter = {
    .begin_kernel = c_begin_kernel,
    .end_kernel = c_end_kernel,
    .value = c_value,
    .load = c_value,
    .gather = c_value,
    .store = c_statement,
    .prefetch = c_prefetch,
    .alloc = c_alloc,
    .var = c_var,
    .set = c_set,
    .begin_for = c_begin_for,
    .end_for = c_close,
    .begin_loop = c_begin_loop,
    .end_loop = c_close,
    .break_if = c_break_if,
    .begin_if = c_begin_if,
    .begin_else = c_begin_else,
    .end_if = c_close,
};

static const char head[] = "/* Kernels generated by gnnc. Each runs iterations [lo, hi) of its "
                           "parallel loop; lo and hi do not matter where it\n"
                           "   has none. Bit for bit what the compiler means with  cc -O3 "
                           "-ffp-contract=off -fwrapv  and -lm. */\n"
                           "#include <math.h>\n"
                           "#include <stdbool.h>\n"
                           "#include <stdint.h>\n"
                           "#include <string.h>\n"
                           "\n"
                           "typedef union RtArg {\n"
                           "    void *p;\n"
                           "    int64_t i;\n"
                           "    double f;\n"
                           "} RtArg;\n";

static const char array_note[] = "\n/* Every element of a private array is stored before it is "
                                 "read; gcc cannot always see that. */\n"
                                 "#if defined(__GNUC__) && !defined(__clang__)\n"
                                 "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
                                 "#endif\n";

void emit_c_kernels(const KirKernel *const *ks, uint32_t n, StrBuf *out)
{
    Arena *a = out->arena;
    CFile f = {.arena = a, .helpers = {.arena = a}, .helper_text = {.arena = a}, .body = {.arena = a}};
    for (uint32_t i = 0; i < n; i++) {
        CKernel c = {.file = &f};
        const KirKernel *k = kir_serial(a, ks[i]);
        c.names = ARENA_ARRAY(a, const char *, k->ins.n);
        c.params = ARENA_ARRAY(a, const char *, k->params.n);
        kir_walk(a, k, &emitter, &c);
    }
    strbuf_puts(out, head);
    if (f.arrays) strbuf_puts(out, array_note);
    strbuf_puts(out, "\n");
    c_print_typedefs(&f, out);
    if (f.helper_text.n) strbuf_printf(out, "\n%.*s", (int)f.helper_text.n - 1, f.helper_text.data);
    strbuf_puts(out, strbuf_cstr(&f.body));
}
