/* The verifier of kernel IR. Each row of kernel_ops.def names its rule; kcheck_<rule> below says
   what is wrong with an instruction or NULL. Around that: every instruction stands in one block,
   operands are visible where they are used, loops and bindings are where they may be. Messages
   quote the instruction. It never changes a kernel. */
#include "base/ice.h"
#include "ir/kernel.h"
#include <ctype.h>
#include <math.h>

typedef struct Check {
    const KirKernel *k;
    const KirIns *x;
} Check;

static KirType type_of(const Check *c, unsigned arg)
{
    ICE_UNLESS(arg < kir_ops[c->x->op].n_args);
    return kir_result_type(c->k, c->x->args[arg]);
}
static bool same_type(KirType a, KirType b) { return a.base == b.base && a.lanes == b.lanes; }
static bool is_float(KirType t) { return t.base == KIR_F32 || t.base == KIR_F64; }
static bool is_int(KirType t) { return t.base == KIR_I32 || t.base == KIR_I64; }
static bool is_number(KirType t) { return is_int(t) || is_float(t); }
static bool is_scalar(KirType t, KirBase base) { return t.base == base && t.lanes == 1; }

static const char *operands_match(const Check *c)
{
    for (unsigned i = 0; i < kir_ops[c->x->op].n_args; i++)
        if (!same_type(type_of(c, i), c->x->type)) return "operands and result need the same type";
    return NULL;
}

/* ---- one rule per column entry of kernel_ops.def ----------------------------------------------------------------- */

static const char *kcheck_konst(const Check *c)
{
    const KirIns *x = c->x;
    if (x->op == KIR_const) {
        if (!is_float(x->type)) return "`const` is for floats, `iconst` for integers";
        bool exact = x->type.base == KIR_F64 || isnan(x->f) || (double)(float)x->f == x->f;
        return exact ? NULL : "the number is not an f32";
    }
    if (is_float(x->type)) return "`iconst` is for integers, `const` for floats";
    if (x->type.base == KIR_I1 && x->i != 0 && x->i != 1) return "an i1 is 0 or 1";
    if (x->type.base == KIR_I32 && (x->i < INT32_MIN || x->i > INT32_MAX)) return "the number does not fit i32";
    return NULL;
}

static const char *kcheck_lanes(const Check *c) { return is_int(c->x->type) ? NULL : "wants an integer type"; }

static const char *kcheck_param(const Check *c)
{
    const KirIns *x = c->x;
    if (x->i < 0 || x->i >= c->k->params.n) return "there is no such parameter";
    const KirParam *p = &c->k->params.data[x->i];
    if (p->kind != KIR_SCALAR) return "the parameter is a buffer, not a scalar";
    return is_scalar(x->type, p->elem) ? NULL : "the parameter has another type";
}

static const char *kcheck_same(const Check *c) { return is_number(c->x->type) ? operands_match(c) : "wants numbers"; }

static const char *kcheck_same_int(const Check *c)
{
    if (!is_int(c->x->type)) return "wants integers";
    if (c->x->op == KIR_mulhu && c->x->type.base != KIR_I32) return "wants i32";
    return operands_match(c);
}

static const char *kcheck_same_float(const Check *c)
{
    return is_float(c->x->type) ? operands_match(c) : "wants floats";
}

static const char *kcheck_same_f32(const Check *c)
{
    return c->x->type.base == KIR_F32 ? operands_match(c) : "wants f32";
}

static const char *kcheck_same_bits(const Check *c)
{
    bool bits = is_int(c->x->type) || c->x->type.base == KIR_I1;
    return bits ? operands_match(c) : "wants integers or i1";
}

static const char *kcheck_compare(const Check *c)
{
    KirType a = type_of(c, 0), b = type_of(c, 1);
    if (!same_type(a, b)) return "operands need the same type";
    if (c->x->type.base != KIR_I1 || c->x->type.lanes != a.lanes)
        return "the result is i1 of as many lanes as the operands";
    bool equality = c->x->op == KIR_eq || c->x->op == KIR_ne;
    if (a.base == KIR_I1 && !equality) return "i1 has no order";
    return c->x->op == KIR_ult && !is_int(a) ? "`ult` wants integers" : NULL;
}

static const char *kcheck_select(const Check *c)
{
    KirType m = type_of(c, 0);
    if (m.base != KIR_I1 || (m.lanes != 1 && m.lanes != c->x->type.lanes))
        return "the condition is i1, of one lane or of the result's";
    bool same = same_type(type_of(c, 1), c->x->type) && same_type(type_of(c, 2), c->x->type);
    return same ? NULL : "both values need the result's type";
}

static const char *kcheck_convert(const Check *c)
{
    KirType from = type_of(c, 0), to = c->x->type;
    if (from.lanes != to.lanes) return "the number of lanes changes";
    if (c->x->op == KIR_zext) return from.base == KIR_I32 && to.base == KIR_I64 ? NULL : "`zext` goes from i32 to i64";
    return is_number(to) ? NULL : "nothing converts to i1: compare with 0";
}

static const char *kcheck_bitcast(const Check *c)
{
    KirType from = type_of(c, 0), to = c->x->type;
    if (from.lanes != to.lanes) return "the number of lanes changes";
    bool narrow = (from.base == KIR_F32 && to.base == KIR_I32) || (from.base == KIR_I32 && to.base == KIR_F32);
    bool wide = (from.base == KIR_F64 && to.base == KIR_I64) || (from.base == KIR_I64 && to.base == KIR_F64);
    return narrow || wide ? NULL : "goes between f32 and i32, or f64 and i64";
}

static const char *kcheck_splat(const Check *c)
{
    return is_scalar(type_of(c, 0), c->x->type.base) ? NULL : "wants a scalar of the result's base type";
}

static const char *kcheck_extract(const Check *c)
{
    KirType from = type_of(c, 0);
    if (!is_scalar(c->x->type, from.base)) return "the result is one lane of the operand";
    return c->x->i >= 0 && c->x->i < from.lanes ? NULL : "there is no such lane";
}

static const char *kcheck_insert(const Check *c)
{
    if (!same_type(type_of(c, 0), c->x->type)) return "the vector needs the result's type";
    if (!is_scalar(type_of(c, 1), c->x->type.base)) return "the scalar needs the vector's base type";
    return c->x->i >= 0 && c->x->i < c->x->type.lanes ? NULL : "there is no such lane";
}

static const char *kcheck_repeat(const Check *c)
{
    KirType from = type_of(c, 0);
    if (from.base != c->x->type.base) return "the base type changes";
    if (from.lanes == 1 || c->x->type.lanes == 1) return "wants vectors";
    return c->x->i >= 1 && c->x->i <= KIR_MAX_LANES ? NULL : "a lane is repeated 1 to 16 times";
}

static const char *kcheck_part(const Check *c)
{
    KirType from = type_of(c, 0), to = c->x->type;
    if (from.base != to.base) return "the base type changes";
    if (to.lanes == 1) return "wants a vector: `extract` gives one lane";
    return c->x->i >= 0 && c->x->i <= from.lanes - to.lanes ? NULL : "there are no such lanes";
}

static const char *kcheck_halves(const Check *c)
{
    int64_t g = c->x->i;
    if (c->x->type.lanes == 1) return "wants vectors";
    if (g < 2 || g > 2 * c->x->type.lanes || (g & (g - 1)))
        return "a group is 2 to twice as many lanes as the vectors have, a power of two";
    return operands_match(c);
}

static const char *kcheck_fold(const Check *c)
{
    KirType from = type_of(c, 0);
    return is_number(from) && is_scalar(c->x->type, from.base) ? NULL : "folds a vector of numbers to its scalar";
}

static const char *kcheck_shuffle(const Check *c)
{
    KirType from = type_of(c, 0), lanes = type_of(c, 1);
    if (from.base != c->x->type.base) return "the base type changes";
    if (from.lanes == 1) return "wants a vector";
    return lanes.base == KIR_I32 && lanes.lanes == c->x->type.lanes
               ? NULL
               : "the lane numbers are i32, one per lane of the result";
}

/* The type of what a memory instruction loads or stores. */
static const char *element_type(const Check *c, KirBase *elem)
{
    const KirIns *x = c->x;
    if (x->buf == KIR_NONE) {
        *elem = c->k->ins.data[x->alloc].type.base;
        return NULL;
    }
    if (x->buf >= c->k->params.n) return "there is no such parameter";
    const KirParam *p = &c->k->params.data[x->buf];
    if (p->kind == KIR_SCALAR) return "the parameter is a scalar, not a buffer";
    *elem = kir_value_base(p->elem);
    return NULL;
}

static bool good_pad(const KirIns *x)
{
    if (is_float(x->type)) return true;
    double most = x->type.base == KIR_I1 ? 1 : INT32_MAX, least = x->type.base == KIR_I1 ? 0 : INT32_MIN;
    return x->f >= least && x->f <= most && x->f == (double)(int64_t)x->f;
}

static const char *check_access(const Check *c)
{
    KirBase elem;
    const char *why = element_type(c, &elem);
    if (why) return why;
    if (elem != c->x->type.base) return "the buffer has other elements";
    if (!good_pad(c->x)) return "`pad` is a number of the loaded type (integers: 32 bits)";
    if (c->x->active < 1 || c->x->active > c->x->type.lanes) return "`active` is 1 to the number of lanes";
    return c->x->stride < 0 ? "a stride is not negative" : NULL;
}

static const char *kcheck_load(const Check *c)
{
    if (!is_scalar(type_of(c, 0), KIR_I64)) return "an index is an i64";
    return check_access(c);
}

static const char *kcheck_gather(const Check *c)
{
    KirType index = type_of(c, 0);
    if (!is_int(index) || index.lanes != c->x->type.lanes) return "the indices are i32 or i64, one per lane";
    return check_access(c);
}

static const char *kcheck_store(const Check *c)
{
    if (!is_scalar(type_of(c, 0), KIR_I64)) return "an index is an i64";
    if (!same_type(type_of(c, 1), c->x->type)) return "the value has another type";
    bool read_only = c->x->buf < c->k->params.n && c->k->params.data[c->x->buf].kind == KIR_IN;
    return read_only ? "the buffer is `in`, it is never written" : check_access(c);
}

static const char *kcheck_prefetch(const Check *c)
{
    KirBase elem;
    if (!is_scalar(type_of(c, 0), KIR_I64)) return "an index is an i64";
    return element_type(c, &elem);
}

static const char *kcheck_alloc(const Check *c)
{
    if (c->x->type.lanes != 1 || !is_number(c->x->type)) return "the elements are scalar numbers";
    int64_t most = KIR_MAX_ALLOC_BYTES / (int64_t)kir_base_bytes(c->x->type.base);
    return c->x->i >= 1 && c->x->i <= most ? NULL : "an array has 1 element to 64 KiB";
}

static const char *kcheck_barrier(const Check *c)
{
    (void)c;
    return NULL;
}

static const char *kcheck_var(const Check *c) { return operands_match(c); }

static const char *kcheck_set(const Check *c)
{
    const KirIns *var = &c->k->ins.data[c->x->args[0]];
    if (var->op != KIR_var) return "only a `var` can be set";
    return same_type(type_of(c, 1), var->type) ? NULL : "the value has another type than the var";
}

/* How many warps a block has: what a loop bound to warp runs to. 0: it does not run from 0 to a constant. */
static int64_t count_warps(const KirKernel *k, const KirIns *loop)
{
    ICE_UNLESS(loop->op == KIR_for);
    const KirIns *from = &k->ins.data[loop->args[0]], *to = &k->ins.data[loop->args[1]];
    return from->op == KIR_iconst && from->i == 0 && to->op == KIR_iconst && loop->i == 1 ? to->i : 0;
}

static const char *kcheck_for(const Check *c)
{
    bool ends = is_scalar(type_of(c, 0), KIR_I64) && is_scalar(type_of(c, 1), KIR_I64);
    if (!ends) return "a loop runs between two i64";
    if (c->x->i < 1) return "a step is at least 1";
    switch (c->x->bind) {
    case KIR_THREADS: return c->x->i != 1 ? "a loop bound to threads has step 1" : NULL;
    case KIR_BLOCK: {
        const KirBlock *b = &c->x->body;
        const KirIns *last = b->ins.n && b->ins.data[b->ins.n - 1] < c->k->ins.n
                                 ? &c->k->ins.data[b->ins.data[b->ins.n - 1]]
                                 : NULL;
        if (c->x->i != 1) return "a loop bound to block has step 1";
        return last && last->op == KIR_for && last->bind == KIR_WARP
                   ? NULL
                   : "a loop bound to block ends with a loop bound to warp";
    }
    case KIR_WARP: {
        int64_t n = count_warps(c->k, c->x);
        return n >= 1 && n <= KIR_MAX_WARPS ? NULL
                                            : "a loop bound to warp runs from 0 to a constant of 1 to 64, with step 1";
    }
    default: return NULL;
    }
}

static const char *kcheck_block(const Check *c)
{
    const KirBlock *b = &c->x->body;
    for (uint32_t i = 0; i < b->ins.n; i++)
        if (c->k->ins.data[b->ins.data[i]].op == KIR_break_if) return NULL;
    return "a loop without a `break_if` directly in it never ends";
}

static const char *kcheck_break_if(const Check *c)
{
    return is_scalar(type_of(c, 0), KIR_I1) ? NULL : "wants a scalar i1";
}

static const char *kcheck_if(const Check *c) { return kcheck_break_if(c); }

typedef const char *(*Rule)(const Check *c);
static const Rule rules[KIR_N_OPS] = {
#define KOP(name, args, imm, kind, rule) kcheck_##rule,
#include "ir/kernel_ops.def"
#undef KOP
};

/* ---- structure ---------------------------------------------------------------------------------- */

typedef struct Verifier {
    const KirKernel *k;
    const Span *places; /* or NULL */
    Span head;
    Diags *diags;
    bool *listed;  /* [ins.n] stands in a block */
    bool *visible; /* [ins.n] defined, and its block is open */
    /* [ins.n] the innermost of the loops around it that are bound to block or warp; KIR_SEQ: neither */
    KirBinding *level;
    KirBinding here; /* of the instruction that is looked at */
    bool good;
} Verifier;

static void complain(Verifier *v, KirId id, const char *why)
{
    StrBuf text = {.arena = v->diags->arena};
    kir_print_ins(v->k, id, &text);
    Span span = v->places && id < v->k->ins.n ? v->places[id] : v->head;
    diag_error(v->diags, E0504, span, "kernel @%s: `%s`: %s", v->k->name, strbuf_cstr(&text), why);
    v->good = false;
}

static void complain_kernel(Verifier *v, const char *why, const char *name)
{
    diag_error(v->diags, E0504, v->head, "kernel @%s: %s%s%s", v->k->name, why, name[0] ? " " : "", name);
    v->good = false;
}

static bool good_type(KirType t)
{
    bool lanes = t.lanes == 1 || t.lanes == 2 || t.lanes == 4 || t.lanes == 8 || t.lanes == 16;
    return lanes && t.base <= KIR_F64 && t.base != KIR_I8;
}

static const char *check_operand(const Verifier *v, KirId id, bool wants_alloc)
{
    if (id >= v->k->ins.n || !v->visible[id]) return "an operand is not defined above in this block or one around it";
    const KirIns *x = &v->k->ins.data[id];
    bool value = kir_ops[x->op].kind == KIND_V || x->op == KIR_for;
    if (!value) return "an operand has no value";
    if ((x->op == KIR_alloc) != wants_alloc) return wants_alloc ? "wants an array" : "an array is not a value";
    return NULL;
}

static const char *check_operands(const Verifier *v, const KirIns *x)
{
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) {
        const char *why = check_operand(v, x->args[i], false);
        if (why) return why;
    }
    return kir_ops[x->op].imm == K_BUF && x->buf == KIR_NONE ? check_operand(v, x->alloc, true) : NULL;
}

/* What hangs on where an instruction stands. */
static const char *check_position(const Verifier *v, const KirIns *x, KirId owner, bool last)
{
    const KirIns *around = owner == KIR_NONE ? NULL : &v->k->ins.data[owner];
    if (x->op == KIR_break_if && !(around && around->op == KIR_loop)) return "stands directly in a `loop` only";
    if (x->op == KIR_barrier && v->here != KIR_WARP) return "stands in a loop bound to warp only";
    if (x->op == KIR_alloc && x->shared != (v->here == KIR_BLOCK))
        return x->shared ? "a shared array stands directly in a loop bound to block"
                         : "an array outside the warps of a block is shared";
    if (x->op == KIR_alloc && x->shared && around->bind != KIR_BLOCK)
        return "a shared array stands directly in a loop bound to block";
    if (x->op != KIR_for) return NULL;
    if (x->bind == KIR_THREADS && !(owner == KIR_NONE && last))
        return "a loop bound to threads is the kernel's last instruction";
    if (x->bind == KIR_BLOCK && !(owner == KIR_NONE && last))
        return "a loop bound to block is the kernel's last instruction";
    if (x->bind == KIR_WARP && !(around && around->op == KIR_for && around->bind == KIR_BLOCK && last))
        return "a loop bound to warp is the last instruction of a loop bound to block";
    return NULL;
}

/* What all warps of a block see, or all blocks, changes by its own rules: a register and a private array by the
   instructions beside them, a buffer and a shared array by warps. */
static const char *check_change(const Verifier *v, const KirIns *x)
{
    bool shared = x->op == KIR_store && (x->buf != KIR_NONE || v->k->ins.data[x->alloc].shared);
    if (x->op != KIR_set && x->op != KIR_store) return NULL;
    if (shared) return v->here == KIR_BLOCK ? "what stands before a loop bound to warp may not write to memory" : NULL;
    if (v->level[x->op == KIR_set ? x->args[0] : x->alloc] == v->here) return NULL;
    return x->op == KIR_set ? "a warp sets its own registers, a block those of the block"
                            : "a warp writes to its own private arrays";
}

static const char *check_ins(const Verifier *v, const KirIns *x, KirId owner, bool last)
{
    const char *why = check_position(v, x, owner, last);
    if (why) return why;
    bool typed = kir_ops[x->op].kind == KIND_V || x->op == KIR_store || x->op == KIR_set;
    if (typed && !good_type(x->type)) return "no value has such a type";
    if (x->bind > KIR_WARP) return "there is no such binding";
    why = check_operands(v, x);
    if (!why) why = rules[x->op](&(Check){v->k, x});
    return why ? why : check_change(v, x);
}

static void verify_block(Verifier *v, const KirBlock *b, KirId owner, unsigned depth);

static void verify_blocks_of(Verifier *v, KirId id, unsigned depth)
{
    const KirIns *x = &v->k->ins.data[id];
    if (depth >= KIR_MAX_DEPTH) {
        complain(v, id, "more than 64 blocks in each other");
        return;
    }
    KirBinding around = v->here;
    v->visible[id] = x->op == KIR_for;
    if (x->op == KIR_for && x->bind >= KIR_BLOCK) v->here = x->bind;
    verify_block(v, &x->body, id, depth + 1);
    verify_block(v, &x->other, id, depth + 1);
    v->here = around;
    v->visible[id] = false;
}

static void verify_block(Verifier *v, const KirBlock *b, KirId owner, unsigned depth)
{
    for (uint32_t i = 0; i < b->ins.n && v->good; i++) {
        KirId id = b->ins.data[i];
        if (id >= v->k->ins.n || v->k->ins.data[id].op >= KIR_N_OPS || v->listed[id]) {
            complain(v, id, "a block lists what does not exist, or twice");
            return;
        }
        v->listed[id] = true;
        v->level[id] = v->here;
        const KirIns *x = &v->k->ins.data[id];
        const char *why = check_ins(v, x, owner, i + 1 == b->ins.n);
        if (why) {
            complain(v, id, why);
            return;
        }
        KirKind kind = kir_ops[x->op].kind;
        if (kind == KIND_B || kind == KIND_BB) verify_blocks_of(v, id, depth);
        else v->visible[id] = kind == KIND_V;
    }
    for (uint32_t i = 0; i < b->ins.n && owner != KIR_NONE; i++)
        if (b->ins.data[i] < v->k->ins.n) v->visible[b->ins.data[i]] = false;
}

static bool stores_to_param(const KirKernel *k, const KirIns *x)
{
    if (x->op == KIR_store && x->buf != KIR_NONE) return true;
    for (unsigned which = 0; which < 2; which++) {
        const KirBlock *b = which ? &x->other : &x->body;
        for (uint32_t i = 0; i < b->ins.n; i++)
            if (stores_to_param(k, &k->ins.data[b->ins.data[i]])) return true;
    }
    return false;
}

/* What stands before a loop bound to threads or block runs once per chunk: it may not write to memory others
 * see. */
static void verify_prelude(Verifier *v)
{
    const KirBlock *b = &v->k->body;
    if (!b->ins.n) return;
    const KirIns *last = &v->k->ins.data[b->ins.data[b->ins.n - 1]];
    if (last->op != KIR_for || (last->bind != KIR_THREADS && last->bind != KIR_BLOCK)) return;
    for (uint32_t i = 0; i + 1 < b->ins.n && v->good; i++)
        if (stores_to_param(v->k, &v->k->ins.data[b->ins.data[i]]))
            complain(v, b->ins.data[i],
                     last->bind == KIR_BLOCK ? "what stands before a loop bound to block may not write to a buffer"
                                             : "what stands before a loop bound to threads may not write to a buffer");
}

/* Private arrays of a loop bound to warp count once for each warp, and so does what a warp keeps at a meeting. */
static void verify_frame(Verifier *v)
{
    int64_t arrays = 0, registers = 0, n_warps = 1;
    const bool *kept = kir_has_block(v->k) ? kir_pieces(v->diags->arena, v->k).kept : NULL;
    for (uint32_t i = 0; i < v->k->ins.n; i++)
        if (v->listed[i] && v->k->ins.data[i].op == KIR_for && v->k->ins.data[i].bind == KIR_WARP)
            n_warps = count_warps(v->k, &v->k->ins.data[i]);
    for (uint32_t i = 0; i < v->k->ins.n && v->good; i++) {
        const KirIns *x = &v->k->ins.data[i];
        bool array = v->listed[i] && x->op == KIR_alloc;
        KirType t = kir_kept_type(x->type);
        int64_t of_warps = (int64_t)kir_base_bytes(t.base) * (v->level[i] == KIR_WARP ? n_warps : 1);
        if (array) arrays += x->i * of_warps;
        else if (kept && kept[i]) registers += t.lanes * of_warps;
        if (array && x->i * of_warps > KIR_MAX_ALLOC_BYTES)
            complain(v, i, "an array of each warp has at most 64 KiB in all warps together");
        else if (arrays + registers > KIR_MAX_FRAME_BYTES)
            complain(v, i,
                     registers ? "the arrays, and what warps keep in registers at barriers, exceed 256 KiB together"
                               : "the arrays together exceed 256 KiB");
    }
}

static bool is_identifier(const char *s)
{
    if (!s || !(isalpha((unsigned char)s[0]) || s[0] == '_') || strlen(s) > KIR_MAX_NAME) return false;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return !*s;
}

static void verify_params(Verifier *v)
{
    const KirKernel *k = v->k;
    for (uint32_t i = 0; i < k->params.n && v->good; i++) {
        const KirParam *p = &k->params.data[i];
        if (!is_identifier(p->name)) {
            complain_kernel(v, "a parameter's name is not an identifier of at most 64 bytes:", p->name ? p->name : "");
            return;
        }
        bool scalar = p->elem == KIR_I64 || p->elem == KIR_F32 || p->elem == KIR_F64;
        if (p->kind == KIR_SCALAR && !scalar) complain_kernel(v, "a scalar parameter is i64, f32 or f64:", p->name);
        if (p->kind != KIR_SCALAR && p->elem == KIR_I1)
            complain_kernel(v, "a buffer of bools has elements i8:", p->name);
        for (uint32_t j = 0; j < i && v->good; j++)
            if (!strcmp(p->name, k->params.data[j].name)) complain_kernel(v, "two parameters have the name", p->name);
    }
}

static void verify_barriers(Verifier *v)
{
    if (!kir_has_block(v->k)) return;
    KirId id = kir_parted_barrier(v->diags->arena, v->k);
    if (id != KIR_NONE)
        complain(v, id,
                 "stands where the warps of a block part: an `if`, `for` or `loop` around it depends on the warp");
}

bool kir_verify_at(const KirKernel *k, const Span *places, Span head, Diags *d)
{
    Verifier v = {.k = k, .places = places, .head = head, .diags = d, .good = true};
    v.listed = ARENA_ARRAY(d->arena, bool, k->ins.n);
    v.visible = ARENA_ARRAY(d->arena, bool, k->ins.n);
    v.level = ARENA_ARRAY(d->arena, KirBinding, k->ins.n);
    if (!is_identifier(k->name)) complain_kernel(&v, "its name is not an identifier of at most 64 bytes", "");
    verify_params(&v);
    if (v.good) verify_block(&v, &k->body, KIR_NONE, 0);
    if (v.good) verify_prelude(&v);
    if (v.good) verify_frame(&v);
    if (v.good) verify_barriers(&v);
    return v.good;
}

bool kir_verify(const KirKernel *k, Diags *d) { return kir_verify_at(k, NULL, (Span){0}, d); }
