/* Kernel IR as text. Values are numbered in the order they stand, so printing is canonical: two
   kernels that differ only in ids print alike, and parse(print(k)) prints the same bytes. Works on
   any kernel, also one that the verifier refuses (its messages quote instructions). Grammar:
   docs/ir-kernel.md. */
#include "ir/kernel.h"
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

typedef struct Printer {
    const KirKernel *k;
    StrBuf *out;
    uint32_t *number; /* [ins.n] of values; KIR_NONE: not met */
    uint32_t next;
    unsigned depth;
    bool bare; /* no names, no comments */
} Printer;

const char *kir_base_name(KirBase base)
{
    static const char *const names[] = {"i1", "i8", "i32", "i64", "f32", "f64", "f16", "bf16"};
    return names[base];
}

const char *kir_binding_name(KirBinding bind)
{
    static const char *const names[] = {"seq", "unroll", "threads", "block", "warp"};
    return names[bind];
}

static bool has_number(const KirIns *x) { return kir_ops[x->op].kind == KIND_V || x->op == KIR_for; }

static void number_block(Printer *p, const KirBlock *b, unsigned depth)
{
    for (uint32_t i = 0; i < b->ins.n && depth <= KIR_MAX_DEPTH; i++) {
        KirId id = b->ins.data[i];
        if (id >= p->k->ins.n) continue;
        const KirIns *x = &p->k->ins.data[id];
        if (has_number(x) && p->number[id] == KIR_NONE) p->number[id] = p->next++;
        number_block(p, &x->body, depth + 1);
        number_block(p, &x->other, depth + 1);
    }
}

static Printer printer(const KirKernel *k, StrBuf *out)
{
    Printer p = {.k = k, .out = out, .number = ARENA_ARRAY(out->arena, uint32_t, k->ins.n)};
    for (uint32_t i = 0; i < k->ins.n; i++) p.number[i] = KIR_NONE;
    number_block(&p, &k->body, 0);
    return p;
}

/* A hint as a C identifier of at most KIR_MAX_NAME bytes. */
static void print_hint(StrBuf *out, const char *name)
{
    for (unsigned i = 0; name[i] && i < KIR_MAX_NAME; i++) {
        unsigned char c = (unsigned char)name[i];
        bool good = c == '_' || (c < 128 && isalpha(c)) || (i && c < 128 && isdigit(c));
        strbuf_add(out, good ? &name[i] : "_", 1);
    }
}

static void print_value(Printer *p, KirId id)
{
    if (id >= p->k->ins.n || p->number[id] == KIR_NONE) {
        strbuf_puts(p->out, "%?");
        return;
    }
    const char *name = p->k->ins.data[id].name;
    strbuf_puts(p->out, "%");
    if (name && name[0] && !p->bare) {
        print_hint(p->out, name);
        strbuf_puts(p->out, ".");
    }
    strbuf_printf(p->out, "%u", p->number[id]);
}

static void print_type(StrBuf *out, KirType t)
{
    strbuf_puts(out, t.base < KIR_N_BASES ? kir_base_name(t.base) : "?");
    if (t.lanes != 1) strbuf_printf(out, "x%u", t.lanes);
}

/* The fewest digits that read back to the same number of that type. */
static void print_float(StrBuf *out, KirBase base, double f)
{
    if (isnan(f)) {
        strbuf_puts(out, "nan");
        return;
    }
    if (isinf(f)) {
        strbuf_puts(out, f < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, f);
        if (base == KIR_F32 ? (double)strtof(text, NULL) == (double)(float)f : strtod(text, NULL) == f) break;
    }
    strbuf_puts(out, text);
}

static bool is_blank(char c) { return (unsigned char)c <= 32 || c == 127; }

static bool has_text(const char *s)
{
    while (s && s[0] && is_blank(s[0])) s++;
    return s && s[0];
}

static void print_comment_line(StrBuf *out, const char *p, size_t n)
{
    while (n && is_blank(p[0])) p++, n--;
    while (n && is_blank(p[n - 1])) n--;
    strbuf_puts(out, n ? "# " : "#");
    for (size_t i = 0; i < n; i++) strbuf_add(out, is_blank(p[i]) ? " " : &p[i], 1);
}

static void print_buffer(Printer *p, const KirIns *x)
{
    if (x->buf == KIR_NONE) print_value(p, x->alloc);
    else strbuf_puts(p->out, x->buf < p->k->params.n ? p->k->params.data[x->buf].name : "?");
    strbuf_puts(p->out, "[");
    print_value(p, x->args[0]);
    strbuf_puts(p->out, "]");
}

static void print_memory_tail(Printer *p, const KirIns *x)
{
    if (x->stride != 1) strbuf_printf(p->out, " stride %lld", (long long)x->stride);
    if (x->active != x->type.lanes) strbuf_printf(p->out, " active %u", x->active);
    bool padded = x->op != KIR_store && (x->f != 0 || signbit(x->f));
    if (!padded) return;
    strbuf_puts(p->out, " pad ");
    print_float(p->out, x->type.base, x->f);
}

static void print_memory(Printer *p, const KirIns *x)
{
    print_buffer(p, x);
    if (x->op == KIR_prefetch) {
        if (x->i) strbuf_puts(p->out, " far");
        return;
    }
    if (x->op == KIR_store) {
        strbuf_puts(p->out, " = ");
        print_value(p, x->args[1]);
    }
    print_memory_tail(p, x);
}

static void print_operands(Printer *p, const KirIns *x)
{
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) {
        if (i) strbuf_puts(p->out, ", ");
        print_value(p, x->args[i]);
    }
}

static void print_immediate(Printer *p, const KirIns *x)
{
    const KirKernel *k = p->k;
    if (x->op == KIR_const) print_float(p->out, x->type.base, x->f);
    else if (x->op == KIR_param) strbuf_puts(p->out, x->i >= 0 && x->i < k->params.n ? k->params.data[x->i].name : "?");
    else if (kir_ops[x->op].imm == K_INT)
        strbuf_printf(p->out, "%s%lld", kir_ops[x->op].n_args ? ", " : "", (long long)x->i);
    if (x->shared) strbuf_puts(p->out, " shared");
}

static void print_for(Printer *p, const KirIns *x, KirId id)
{
    strbuf_puts(p->out, "for ");
    print_value(p, id);
    strbuf_puts(p->out, " = ");
    print_value(p, x->args[0]);
    strbuf_puts(p->out, " .. ");
    print_value(p, x->args[1]);
    if (x->i != 1) strbuf_printf(p->out, " step %lld", (long long)x->i);
    if (x->bind != KIR_SEQ) strbuf_printf(p->out, " %s", x->bind <= KIR_WARP ? kir_binding_name(x->bind) : "?");
}

static void print_head(Printer *p, KirId id)
{
    const KirIns *x = &p->k->ins.data[id];
    if (x->op == KIR_for) {
        print_for(p, x, id);
        return;
    }
    if (has_number(x)) {
        print_value(p, id);
        strbuf_puts(p->out, " = ");
    }
    strbuf_puts(p->out, kir_ops[x->op].name);
    if (x->op == KIR_loop || x->op == KIR_barrier) return;
    strbuf_puts(p->out, " ");
    if (x->op == KIR_set) {
        print_value(p, x->args[0]);
        strbuf_puts(p->out, " = ");
        print_value(p, x->args[1]);
        return;
    }
    bool typed = kir_ops[x->op].kind == KIND_V || x->op == KIR_store;
    if (typed) {
        print_type(p->out, x->type);
        if (x->op == KIR_lanes) return;
        strbuf_puts(p->out, " ");
    }
    if (kir_ops[x->op].imm == K_BUF) {
        print_memory(p, x);
        return;
    }
    print_operands(p, x);
    print_immediate(p, x);
}

static void print_block(Printer *p, const KirBlock *b);

static void print_indent(Printer *p)
{
    for (unsigned i = 0; i < p->depth; i++) strbuf_puts(p->out, "  ");
}

static void print_body(Printer *p, const KirIns *x)
{
    strbuf_puts(p->out, " {");
    if (has_text(x->comment) && !p->bare) {
        strbuf_puts(p->out, "  ");
        print_comment_line(p->out, x->comment, strlen(x->comment));
    }
    strbuf_puts(p->out, "\n");
    print_block(p, &x->body);
    if (x->other.ins.n) {
        print_indent(p);
        strbuf_puts(p->out, "} else {\n");
        print_block(p, &x->other);
    }
    print_indent(p);
    strbuf_puts(p->out, "}");
}

static void print_block(Printer *p, const KirBlock *b)
{
    p->depth++;
    for (uint32_t i = 0; i < b->ins.n && p->depth <= KIR_MAX_DEPTH + 1; i++) {
        KirId id = b->ins.data[i];
        if (id >= p->k->ins.n) continue;
        const KirIns *x = &p->k->ins.data[id];
        print_indent(p);
        print_head(p, id);
        KirKind kind = kir_ops[x->op].kind;
        if (kind == KIND_B || kind == KIND_BB) print_body(p, x);
        strbuf_puts(p->out, "\n");
    }
    p->depth--;
}

static void print_param(StrBuf *out, const KirParam *q)
{
    static const char *const kinds[] = {"in ", "out ", "inout ", ""};
    strbuf_printf(out, "%s: %s%s%s%s", q->name, kinds[q->kind], q->restrict_ ? "restrict " : "", kir_base_name(q->elem),
                  q->kind == KIR_SCALAR ? "" : "*");
}

static void print_kernel_comment(const char *text, StrBuf *out)
{
    for (const char *p = text; has_text(text);) {
        size_t n = strcspn(p, "\n");
        print_comment_line(out, p, n);
        strbuf_puts(out, "\n");
        if (!p[n]) break;
        p += n + 1;
    }
}

static void print_kernel(Printer *p)
{
    strbuf_printf(p->out, "kernel @%s(", p->bare ? "" : p->k->name);
    for (uint32_t i = 0; i < p->k->params.n; i++) {
        if (i) strbuf_puts(p->out, ", ");
        print_param(p->out, &p->k->params.data[i]);
    }
    strbuf_puts(p->out, ") {\n");
    print_block(p, &p->k->body);
    strbuf_puts(p->out, "}\n");
}

void kir_print(const KirKernel *k, StrBuf *out)
{
    Printer p = printer(k, out);
    if (k->comment) print_kernel_comment(k->comment, out);
    print_kernel(&p);
}

void kir_print_code(const KirKernel *k, StrBuf *out)
{
    Printer p = printer(k, out);
    p.bare = true;
    print_kernel(&p);
}

void kir_print_ins(const KirKernel *k, KirId id, StrBuf *out)
{
    if (id >= k->ins.n || k->ins.data[id].op >= KIR_N_OPS) {
        strbuf_puts(out, "%?");
        return;
    }
    Printer p = printer(k, out);
    print_head(&p, id);
}

void kir_print_module(const KirModule *m, StrBuf *out)
{
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        if (i) strbuf_puts(out, "\n");
        kir_print(m->kernels.data[i], out);
    }
}
