/* Emits kernel IR as CUDA C++: the functions an `Emitter` wants. A vector is a variable in each lane of a warp, so the
   operators of C do for vectors what they do for scalars; what differs is here: which lanes touch memory, what they
   hand to each other, where they wait, how loops are dealt to warps and blocks. */
#include "codegen/emit_cuda.h"
#include "base/ice.h"
#include "codegen/c_text.h"
#include "codegen/cuda_memory.h"
#include "codegen/cuda_ahead.h"
#include "codegen/cuda_instructions.h"
#include "codegen/cuda_turns.h"
#include "codegen/cuda_wide.h"
#include <math.h>

typedef struct Cuda {
    CKernel c; /* first: shared hooks are given this */
    CudaMemory m;
    bool *wraps;              /* [ins.n] an i64 that is more than a place or a count */
    uint8_t *loaded, *stored; /* [objects] by whom since the lanes last met; one array */
    VEC(uint8_t *) saved;     /* the same of open blocks */
    CudaWide wide;
    const char **moved;     /* [ins.n] of a load that was moved with others: its element as text, `all.x` */
    const uint8_t *of_part; /* [params.n] of a kernel for parts of rows; or NULL */
    const char *order;      /* the last parameter: order, or parts */
    KirId few;              /* the open loop whose last turn may run again, where `on` is false; or KIR_NONE */
    const char *on;
    struct {        /* the open loop whose body is being written as a C++ function of the turn's number */
        KirId loop; /* or KIR_NONE: there is none */
        const char *turn, *from, *end; /* the function's name; the loop's bounds as text */
        uint32_t n;                    /* turns that are written one behind the other */
    } rest;
    bool *shuffled;      /* [ins.n] what takes numbers of other lanes */
    CudaAhead ahead;     /* of the open loop: these loads are there */
    const char **arrays; /* [ins.n] of such a load, an element for each turn */
    bool told;           /* for the shim: turns of loops say that they begin */
} Cuda;

static const KirIns *ins(const CKernel *c, KirId id) { return &c->w->k->ins.data[id]; }
static KirType type_of(const CKernel *c, KirId id) { return kir_result_type(c->w->k, id); }
static uint32_t lanes_of(const CKernel *c) { return ((const Cuda *)c)->m.launch.lanes; }
/* The last parameter of a template of head.cu: the lanes of a warp that has other than 16. */
static const char *of_lanes(const CKernel *c, const char *before, const char *behind)
{
    return lanes_of(c) == CUDA_LANES ? "" : arena_printf(c->arena, "%s%u%s", before, lanes_of(c), behind);
}
static bool is_float(KirType t) { return t.base == KIR_F32 || t.base == KIR_F64; }

static const char *elem(KirBase base)
{
    static const char *const names[] = {"bool",   "signed char",    "int",           "i64", "float",
                                        "double", "unsigned short", "unsigned short"};
    return names[base];
}

/* ---- what the shim is told ---- */

/* id: of the loop or branch, of which a turn begins here; KIR_NONE: the kernel. */
static void tell_turn(Cuda *k, KirId id, const KirBlock *b)
{
    bool loop = id != KIR_NONE && ins(&k->c, id)->op != KIR_if;
    bool other = id != KIR_NONE && b == &ins(&k->c, id)->other;
    ICE_UNLESS(id == KIR_NONE || other || b == &ins(&k->c, id)->body);
    unsigned n = loop ? 2 : 0; /* the next turn's number is compared */
    for (uint32_t i = 0; i < b->ins.n; i++)
        if (k->c.w->facts[b->ins.data[i]].live) n += cuda_instructions(k->m.k, &k->wide, b->ins.data[i]);
    const char *again = id != KIR_NONE && k->few == id ? arena_printf(k->c.arena, ", !%s", k->on) : "";
    if (k->told)
        c_line(&k->c, "    ShimTurn shim_turn(%uu, %u, %d%s);", other ? ~id : id, n, loop && !cuda_has_loop(k->m.k, b),
               again);
}

static const char *lane_type(CKernel *c, KirType t) { return (void)c, elem(t.base); }

/* ---- values ---- */

static CText number(CKernel *c, KirType t, double f, int64_t i)
{
    if (!is_float(t)) return i == INT64_MIN ? c_printf(c, BIND_ADD, "-9223372036854775807 - 1") : c_int(c, t.base, i);
    const char *suffix = t.base == KIR_F32 ? "f" : "d";
    if (isnan(f)) return c_printf(c, BIND_CALL, "gnn::nan_%s()", suffix);
    if (isinf(f)) return c_printf(c, f < 0 ? BIND_ADD : BIND_CALL, "%sgnn::inf_%s()", f < 0 ? "-" : "", suffix);
    return c_float(c, t.base, f);
}

/* A call of a function of head.cu. Of integers it says the type, since operands may be literals, whose type C takes for
   int. */
static CText call(CKernel *c, const KirIns *x, const char *name)
{
    return c_call(c, x, is_float(x->type) ? name : arena_printf(c->arena, "%s<%s>", name, elem(x->type.base)));
}

static CText math(CKernel *c, const KirIns *x, const char *name)
{
    return c_call(c, x, arena_printf(c->arena, "%s%s", name, x->type.base == KIR_F32 ? "f" : ""));
}

/* Sums and products of integers wrap, which those of C do not. Places and counts do not get so large. */
static CText arith(CKernel *c, const KirIns *x, const char *sign, CBind bind, const char *name)
{
    KirId id = (KirId)(x - c->w->k->ins.data);
    bool place = x->type.base == KIR_I64 && !((Cuda *)c)->wraps[id];
    bool literal = c_is_literal(c, x->args[0]) && c_is_literal(c, x->args[1]);
    return is_float(x->type) || (place && !literal) ? c_infix(c, x, sign, bind) : call(c, x, name);
}

static CText divide(CKernel *c, const KirIns *x, const char *sign, const char *name)
{
    bool idle = x->type.lanes > 1 && x->type.lanes < lanes_of(c) && !is_float(x->type);
    return idle ? call(c, x, name) : c_infix(c, x, sign, BIND_MUL);
}

static CText negate(CKernel *c, const KirIns *x)
{
    if (!is_float(x->type)) return c_printf(c, BIND_CALL, "gnn::sub<%s>(0, %s)", elem(x->type.base), c_arg(c, x, 0));
    return c_printf(c, BIND_UNARY, "-%s", c_tight(c, c_operand(c, x->args[0]), BIND_CALL));
}

static CText unsigned_less(CKernel *c, const KirIns *x)
{
    const char *u = type_of(c, x->args[0]).base == KIR_I32 ? "unsigned" : "unsigned long long";
    const char *a = c_tight(c, c_operand(c, x->args[0]), BIND_CALL),
               *b = c_tight(c, c_operand(c, x->args[1]), BIND_CALL);
    return c_printf(c, BIND_COMPARE, "(%s)%s < (%s)%s", u, a, u, b);
}

static CText convert(CKernel *c, const KirIns *x)
{
    if (!is_float(type_of(c, x->args[0])) || is_float(x->type)) return c_cast(c, x, elem(x->type.base));
    return c_call(c, x, arena_printf(c->arena, "gnn::to_%s", elem(x->type.base)));
}

static CText bitcast(CKernel *c, const KirIns *x)
{
    static const char *const names[] = {[KIR_I32] = "__float_as_int",
                                        [KIR_I64] = "__double_as_longlong",
                                        [KIR_F32] = "__int_as_float",
                                        [KIR_F64] = "__longlong_as_double"};
    return c_call(c, x, names[x->type.base]);
}

static CText insert(CKernel *c, const KirIns *x)
{
    if (x->type.lanes == 1) return c_operand(c, x->args[1]);
    const char *v = c_tight(c, c_operand(c, x->args[0]), BIND_ADD), *y = c_tight(c, c_operand(c, x->args[1]), BIND_ADD);
    return c_printf(c, BIND_COND, "l == %lld ? %s : %s", (long long)x->i, y, v);
}

/* ---- lanes ---- */

/* Vectors in, from other lanes: all have to run it, so it is a statement of its own. */
static bool shuffles(const KirKernel *k, const KirIns *x)
{
    switch (x->op) {
    case KIR_extract:
    case KIR_repeat:
    case KIR_part:
    case KIR_lower:
    case KIR_upper:
    case KIR_shuffle:
    case KIR_hadd:
    case KIR_hmul:
    case KIR_hmax:
    case KIR_hmin: return kir_result_type(k, x->args[0]).lanes > 1;
    default: return false;
    }
}

/* Lanes of a vector repeated for n vectors at once, whose lane l has features n l to n l + n - 1. */
static CText repeated_for_all(CKernel *c, KirId id)
{
    const CudaWide *w = &((Cuda *)c)->wide;
    const KirIns *part = ins(c, ins(c, w->all[id][0])->args[0]);
    int64_t lanes = ins(c, id)->i / w->n[id];
    const char *from = c_operand(c, part->args[0]).text;
    const char *first = part->i ? arena_printf(c->arena, "%lld + ", (long long)part->i) : "";
    const char *by = lanes > 1 ? arena_printf(c->arena, " / %lld", (long long)lanes) : "";
    ICE_UNLESS(lanes >= 1); /* a lane's features have one number */
    return c_printf(c, BIND_CALL, "gnn::lane%s(%s, %sl%s)", of_lanes(c, "<", ">"), from, first, by);
}

/* Sums of `each` features of n vectors, of which lane l has n in a row. */
static CText sums_of_all(CKernel *c, KirId id)
{
    const CudaWide *w = &((Cuda *)c)->wide;
    StrBuf b = {.arena = c->arena};
    for (unsigned q = 0; q < w->n[id]; q++) strbuf_printf(&b, "%s%s", q ? ", " : "", c_operand(c, w->all[id][q]).text);
    return c_printf(c, BIND_CALL, "gnn::sums<%u%s>(%s)", w->each[id], of_lanes(c, ", ", ""), strbuf_cstr(&b));
}

static CText shuffled(CKernel *c, const KirIns *x)
{
    unsigned n = type_of(c, x->args[0]).lanes;
    KirId id = (KirId)(x - c->w->k->ins.data);
    const Cuda *k = (const Cuda *)c;
    if (k->moved[id]) return (CText){k->moved[id], BIND_CALL};
    if (k->wide.n[id]) return repeated_for_all(c, id);
    const char *v = c_arg(c, x, 0), *name = kir_ops[x->op].name, *of = of_lanes(c, "<", ">");
    if (n == 1) return c_operand(c, x->args[0]);
    switch (x->op) {
    case KIR_extract: return c_printf(c, BIND_CALL, "gnn::lane%s(%s, %lld)", of, v, (long long)x->i);
    case KIR_repeat: return c_printf(c, BIND_CALL, "gnn::lane%s(%s, l / %lld %% %u)", of, v, (long long)x->i, n);
    case KIR_part: return c_printf(c, BIND_CALL, "gnn::down%s(%s, %lld)", of, v, (long long)x->i);
    case KIR_lower:
    case KIR_upper:
        return c_printf(c, BIND_CALL, "gnn::halves<%u, %lld, %d, %s%s>(%s, %s)", n, (long long)x->i / 2,
                        x->op == KIR_upper, elem(x->type.base), of_lanes(c, ", ", ""), v, c_arg(c, x, 1));
    case KIR_shuffle: {
        bool whole = n == lanes_of(c);
        const char *at = c_tight(c, c_operand(c, x->args[1]), whole ? BIND_COND : BIND_UNARY);
        return c_printf(c, BIND_CALL, whole ? "gnn::lane%s(%s, %s)" : "gnn::lane%s(%s, %s & %u)", of, v, at, n - 1);
    }
    default:
        return c_printf(c, BIND_CALL, "gnn::%s<%u, %s%s>(%s)", name, n, elem(x->type.base), of_lanes(c, ", ", ""), v);
    }
}

/* ---- memory ---- */

/* The element that a lane, or for a scalar all, touch. */
static const char *place(CKernel *c, const KirIns *x)
{
    const Cuda *k = (const Cuda *)c;
    const char *buffer = c_buffer(c, x), *index = c_index(c, x);
    bool vector = x->type.lanes > 1 && x->op != KIR_gather && x->stride;
    if (x->buf == KIR_NONE && k->m.place[x->alloc] == CUDA_REGISTERS)
        return arena_printf(c->arena, "%s[%lld]", buffer,
                            (long long)ins(c, x->args[0])->i / (vector ? lanes_of(c) : 1));
    if (!vector) return arena_printf(c->arena, "%s[%s]", buffer, index);
    bool zero = ins(c, x->args[0])->op == KIR_iconst && ins(c, x->args[0])->i == 0;
    index = zero ? "" : arena_printf(c->arena, "%s + ", c_tight(c, c_operand(c, x->args[0]), BIND_ADD));
    if (x->stride == 1) return arena_printf(c->arena, "%s[%sl]", buffer, index);
    const char *wide = x->stride > INT32_MAX / CUDA_LANES ? "(i64)" : "";
    return arena_printf(c->arena, "%s[%s%sl * %lld]", buffer, index, wide, (long long)x->stride);
}

/* Of vectors that lie side by side: lane l has n elements of them in a row; of scalars each lane has all. */
static const char *wide_place(CKernel *c, KirId id)
{
    const CudaWide *w = &((Cuda *)c)->wide;
    const KirIns *first = ins(c, w->all[id][0]);
    bool zero = ins(c, first->args[0])->op == KIR_iconst && ins(c, first->args[0])->i == 0;
    if (first->type.lanes == 1) return arena_printf(c->arena, "&%s[%s]", c_buffer(c, first), c_index(c, first));
    const char *index = zero ? "" : arena_printf(c->arena, "%s + ", c_tight(c, c_operand(c, first->args[0]), BIND_ADD));
    return arena_printf(c->arena, "&%s[%sl * %u]", c_buffer(c, first), index, w->n[id]);
}

/* Of as many scalars as there are lanes, which lie side by side: lane l has the one at l. */
static const char *dealt_place(CKernel *c, KirId id)
{
    const KirIns *first = ins(c, id);
    return arena_printf(c->arena, "%s[%s + l]", c_buffer(c, first), c_tight(c, c_operand(c, first->args[0]), BIND_ADD));
}

/* As the numbers lie in memory: of 16 bits they are `ushort`s. */
static const char *wide_type(CKernel *c, KirId id)
{
    KirBase memory = kir_memory_base(c->w->k, ins(c, id));
    return arena_printf(c->arena, "%s%u", kir_is_16_bits(memory) ? "ushort" : elem(memory), ((Cuda *)c)->wide.n[id]);
}

/* A number as an access finds it in memory, and as it leaves it there. */
static const char *from_memory(CKernel *c, const KirIns *x, const char *element)
{
    KirBase memory = kir_memory_base(c->w->k, x);
    return kir_is_16_bits(memory) ? arena_printf(c->arena, "gnn::%s_value(%s)", kir_base_name(memory), element)
                                  : element;
}

static const char *to_memory(CKernel *c, const KirIns *x)
{
    KirBase memory = kir_memory_base(c->w->k, x);
    const char *v = c_arg(c, x, 1);
    return kir_is_16_bits(memory) ? arena_printf(c->arena, "gnn::%s_bits(%s)", kir_base_name(memory), v) : v;
}

static CText load(CKernel *c, const KirIns *x)
{
    const char *moved = ((Cuda *)c)->moved[x - c->w->k->ins.data];
    if (moved) return (CText){moved, BIND_CALL};
    bool some = x->type.lanes > 1 && x->active < lanes_of(c), bit = x->type.base == KIR_I1 && x->buf != KIR_NONE;
    const char *element = from_memory(c, x, arena_printf(c->arena, bit ? "%s != 0" : "%s", place(c, x)));
    if (!some) return (CText){element, bit ? BIND_COMPARE : BIND_CALL};
    const char *pad = number(c, x->type, x->f, (int64_t)x->f).text;
    return c_printf(c, BIND_COND, "l < %u ? %s : %s", x->active, element, pad);
}

static const char *who_stores(CKernel *c, const KirIns *x)
{
    const Cuda *k = (const Cuda *)c;
    bool own = x->buf == KIR_NONE && k->m.place[x->alloc] == CUDA_REGISTERS;
    if (x->type.lanes == 1) return own ? "" : "if (l == 0) ";
    if (x->stride == 0) return arena_printf(c->arena, "if (l == %u) ", x->active - 1u);
    return x->active < lanes_of(c) ? arena_printf(c->arena, "if (l < %u) ", x->active) : "";
}

/* Numbers that n vectors meet, one for each vector or for two, where lane l has features n l to n l + n - 1. */
static CText picked_for_all(CKernel *c, KirId id)
{
    const CudaWide *w = &((Cuda *)c)->wide;
    const KirIns *first = ins(c, w->all[id][0]);
    bool load = first->op == KIR_load;
    uint32_t lanes = lanes_of(c) * w->vectors[id] / w->n[id]; /* of one number */
    ICE_UNLESS(lanes >= 1);
    const char *by = lanes > 1 ? arena_printf(c->arena, " / %u", lanes) : "";
    if (load) {
        const char *at = c_tight(c, c_operand(c, first->args[0]), BIND_ADD);
        return c_printf(c, BIND_CALL, "%s",
                        from_memory(c, first, arena_printf(c->arena, "%s[%s + l%s]", c_buffer(c, first), at, by)));
    }
    const char *behind = first->i ? arena_printf(c->arena, "%lld + ", (long long)first->i) : "";
    return c_printf(c, BIND_CALL, "gnn::lane%s(%s, %sl%s)", of_lanes(c, "<", ">"), c_operand(c, first->args[0]).text,
                    behind, by);
}

/* ---- where lanes meet ---- */

enum { BY_FIRST = 1 /* lane 0 */, BY_EACH = 2 };

static uint32_t n_objects(const Cuda *k) { return cuda_n_objects(k->m.k); }
static void all_met(Cuda *k) { memset(k->loaded, 0, 2 * n_objects(k)); }

/* Whether an access meets what another lane wrote, or a store what another lane touched, since the lanes last met. What
   lane 0 alone stores is in order. */
static bool must_wait(const Cuda *k, const KirIns *x)
{
    uint32_t at = cuda_object(k->m.k, x);
    bool store = x->op == KIR_store, first = store && x->type.lanes == 1;
    bool over = !store || k->m.stored_over[at];
    return k->m.crossing[at] &&
           ((over && (k->stored[at] & (first ? BY_EACH : BY_FIRST | BY_EACH))) || (store && k->loaded[at]));
}

static void touch(Cuda *k, const KirIns *x)
{
    uint32_t at = cuda_object(k->m.k, x);
    uint8_t who = x->op == KIR_store && x->type.lanes == 1 ? BY_FIRST : BY_EACH;
    if (k->m.crossing[at]) (x->op == KIR_store ? k->stored : k->loaded)[at] |= who;
}

static void meet(Cuda *k)
{
    c_line(&k->c, "gnn::meet%s();", of_lanes(&k->c, "<", ">"));
    all_met(k);
}

static void meet_for(Cuda *k, const KirIns *x)
{
    if (must_wait(k, x)) meet(k);
    touch(k, x);
}

static bool any_waits(const Cuda *k, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        const KirIns *x = &k->m.k->ins.data[b->ins.data[i]];
        if ((cuda_is_access(x) && must_wait(k, x)) || any_waits(k, &x->body) || any_waits(k, &x->other)) return true;
    }
    return false;
}

static void touch_all(Cuda *k, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        const KirIns *x = &k->m.k->ins.data[b->ins.data[i]];
        if (cuda_is_access(x)) touch(k, x);
        touch_all(k, &x->body), touch_all(k, &x->other);
    }
}

/* What a loop's turn touches, the next one may meet; what stands before the loop is met once, before it. */
static void begin_turns(Cuda *k, const KirBlock *b)
{
    if (any_waits(k, b)) meet(k);
    touch_all(k, b);
}

static void save(Cuda *k)
{
    uint8_t *copy = ARENA_ARRAY(k->c.arena, uint8_t, 2 * n_objects(k));
    memcpy(copy, k->loaded, 2 * n_objects(k));
    VEC_PUSH(k->c.arena, &k->saved, copy);
}

/* What was open in any of two ways here is open. */
static void restore(Cuda *k)
{
    const uint8_t *other = k->saved.data[--k->saved.n];
    for (uint32_t i = 0; i < 2 * n_objects(k); i++) k->loaded[i] |= other[i];
}

/* ---- hooks ---- */

static const char *warp_of_grid(CKernel *c)
{
    return arena_printf(c->arena, "blockIdx.x * (blockDim.x / %u) + team", lanes_of(c));
}

static CText expr(CKernel *c, KirId id)
{
    const KirIns *x = ins(c, id);
    const Cuda *k = (const Cuda *)c;
    if (k->wide.each[id]) return sums_of_all(c, id);
    if (k->wide.vectors[id] && k->moved[id]) return (CText){k->moved[id], BIND_CALL};
    if (k->wide.vectors[id] && (x->op == KIR_extract || x->op == KIR_load)) return picked_for_all(c, id);
    switch (x->op) {
    case KIR_const:
    case KIR_iconst: return number(c, x->type, x->f, x->i);
    case KIR_lanes:
        return x->type.lanes == 1 ? c_printf(c, BIND_CALL, "0")
                                  : c_printf(c, BIND_UNARY, x->type.base == KIR_I64 ? "(i64)l" : "l");
    case KIR_param: return (CText){c->params[x->i], BIND_CALL};
    case KIR_add: return arith(c, x, "+", BIND_ADD, "gnn::add");
    case KIR_sub: return arith(c, x, "-", BIND_ADD, "gnn::sub");
    case KIR_mul: return arith(c, x, "*", BIND_MUL, "gnn::mul");
    case KIR_div: return divide(c, x, "/", "gnn::div");
    case KIR_rem: return divide(c, x, "%", "gnn::rem");
    case KIR_and: return c_infix(c, x, "&", BIND_BITS);
    case KIR_or: return c_infix(c, x, "|", BIND_BITS);
    case KIR_xor: return c_infix(c, x, "^", BIND_BITS);
    case KIR_neg: return negate(c, x);
    case KIR_fma: return math(c, x, "fma");
    case KIR_abs: return math(c, x, "fabs");
    case KIR_sqrt: return math(c, x, "sqrt");
    case KIR_rint: return math(c, x, "rint");
    case KIR_floor: return math(c, x, "floor");
    case KIR_round_f16:
    case KIR_round_bf16: return c_call(c, x, arena_printf(c->arena, "gnn::%s", kir_ops[x->op].name));
    case KIR_min: return call(c, x, "gnn::min");
    case KIR_max: return call(c, x, "gnn::max");
    case KIR_shl: return call(c, x, "gnn::shl");
    case KIR_lshr: return call(c, x, "gnn::lshr");
    case KIR_ashr: return call(c, x, "gnn::ashr");
    case KIR_mulhu: return c_call(c, x, "gnn::mulhu");
    case KIR_eq:
    case KIR_ne:
    case KIR_lt:
    case KIR_le: return c_infix(c, x, c_compare_sign(x->op), BIND_COMPARE);
    case KIR_ult: return unsigned_less(c, x);
    case KIR_select: return c_select(c, x);
    case KIR_convert: return convert(c, x);
    case KIR_zext: return c_cast(c, x, "i64)(unsigned");
    case KIR_bitcast: return bitcast(c, x);
    case KIR_splat: return c_operand(c, x->args[0]);
    case KIR_insert: return insert(c, x);
    case KIR_load:
    case KIR_gather: return load(c, x);
    default: return shuffled(c, x);
    }
}

static bool alone(void *ctx, const KirKernel *k, KirId id)
{
    const KirIns *x = &k->ins.data[id];
    const CudaWide *w = &((Cuda *)ctx)->wide;
    if (x->op == KIR_load && w->n[id] && (w->at[id] == id || cuda_is_dealt(w, id))) return true;
    if (w->each[id]) return true;
    if ((x->op == KIR_repeat && w->n[id]) || w->vectors[id]) return w->at[id] == id;
    return shuffles(k, x) || (cuda_is_access(x) && ((Cuda *)ctx)->m.crossing[cuda_object(k, x)]);
}

/* Whether what stands before the turn's other instructions is all that wants it. */
static bool is_done(const Cuda *k, KirId id) { return k->ahead.any && k->ahead.wanted[id] && !k->ahead.later[id]; }

/* Gives all instructions that `id` computes the value of, itself among them, the name `value`. */
static void share_value(Cuda *k, KirId id, const char *value)
{
    for (unsigned q = 0; q < k->wide.n[id]; q++) {
        KirId one = k->wide.all[id][q];
        k->moved[one] = k->c.names[one] = value;
    }
}

static void cuda_value(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    Cuda *k = ctx;
    const CudaWide *wide = &k->wide;
    if (wide->idle[id] || is_done(k, id) || (wide->vectors[id] && wide->at[id] != id)) return;
    c_value(c, w, id);
    bool shared = ins(c, id)->op == KIR_repeat || wide->vectors[id];
    if (shared && wide->n[id] && wide->at[id] == id) share_value(k, id, c->names[id]);
}

static void cuda_load(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    Cuda *k = ctx;
    const CudaWide *wide = &k->wide;
    if (is_done(k, id)) return;
    if (wide->vectors[id]) {
        cuda_value(ctx, w, id);
        return;
    }
    meet_for(k, ins(c, id));
    if (wide->n[id] && wide->at[id] == id && !(k->ahead.any && k->ahead.wanted[id])) {
        bool dealt = cuda_is_dealt(wide, id);
        const char *type = dealt ? elem(kir_memory_base(w->k, ins(c, id))) : wide_type(c, id);
        const char *all = c_fresh_name(c, "all");
        if (dealt)
            c_line(c, "const %s %s = %s;", elem(ins(c, id)->type.base), all,
                   from_memory(c, ins(c, id), dealt_place(c, id)));
        else c_line(c, "const %s %s = *(const %s *)%s;", type, all, type, wide_place(c, id));
        ICE_UNLESS(wide->place[id] == 0 && !k->moved[id]); /* it comes first, once */
        for (unsigned q = 0; q < wide->n[id]; q++)
            k->moved[wide->all[id][q]] = dealt ? arena_printf(c->arena, "gnn::lane%s(%s, %u)", of_lanes(c, "<", ">"),
                                                              all, q)
                                               : from_memory(c, ins(c, id),
                                                             arena_printf(c->arena, "%s.%c", all, "xyzw"[q]));
    }
    c_value(c, w, id);
}

static void store_wide(CKernel *c, KirId id)
{
    const CudaWide *wide = &((Cuda *)c)->wide;
    const char *type = wide_type(c, id);
    ICE_UNLESS(wide->n[id] == 2 || wide->n[id] == 4);
    StrBuf b = {.arena = c->arena};
    for (unsigned q = 0; q < wide->n[id]; q++)
        strbuf_printf(&b, "%s%s", q ? ", " : "", to_memory(c, ins(c, wide->all[id][q])));
    c_line(c, "*(%s *)%s = make_%s(%s);", type, wide_place(c, id), type, strbuf_cstr(&b));
}

static void cuda_store(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    const CudaWide *wide = &((Cuda *)ctx)->wide;
    (void)w;
    if (wide->n[id] && wide->at[id] != id) return; /* with the last of them */
    meet_for(ctx, ins(c, id));
    if (wide->n[id]) {
        store_wide(c, id);
        return;
    }
    c_line(c, "%s%s = %s;", who_stores(c, ins(c, id)), place(c, ins(c, id)), to_memory(c, ins(c, id)));
}

static void cuda_alloc(void *ctx, const KirWalk *w, KirId id)
{
    Cuda *k = ctx;
    CKernel *c = ctx;
    (void)w;
    const KirIns *x = ins(c, id);
    const CudaKernel *launch = &k->m.launch;
    const char *type = elem(x->type.base), *name = c_name_value(c, id);
    if (k->m.place[id] == CUDA_REGISTERS) {
        const KirIns *use = NULL;
        for (KirId i = 0; i < k->m.k->ins.n && !use; i++)
            if (cuda_is_access(ins(c, i)) && ins(c, i)->alloc == id) use = ins(c, i);
        int64_t n = use->type.lanes > 1 ? (x->i + lanes_of(c) - 1) / lanes_of(c) : x->i;
        c_line(c, "%s %s[%lld]; /* of each lane */", type, name, (long long)n);
    } else if (k->m.place[id] == CUDA_OF_BLOCK) {
        c_line(c, "%s *const %s = (%s *)(memory + %u); /* %lld of the block */", type, name, type, k->m.offset[id],
               (long long)x->i);
    } else {
        c_line(c, "%s *const %s = (%s *)(memory + %u + team * %u); /* %lld */", type, name, type,
               launch->block_bytes + k->m.offset[id], launch->warp_bytes, (long long)x->i);
    }
}

static void cuda_barrier(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    c_line(ctx, "__syncthreads();");
    all_met(ctx);
}

/* Of blocks of the grid as many as are one each of the kernel's parallel loop. */
static const char *blocks_of(Cuda *k, const char *n)
{
    uint32_t parts = k->m.launch.parts;
    return parts == 1 ? n : arena_printf(k->c.arena, "%s / %u", n, parts);
}

static void begin_parallel(Cuda *k, const KirIns *x, const char *from, const char *to, KirId id)
{
    CKernel *c = &k->c;
    const char *i = c_name_loop(c, id);
    if (k->of_part) {
        c_line(c, "if (const i64 %s = row; %s <= %s && %s < %s) {", i, from, i, i, to);
        return;
    }
    const char *end = c_fresh_name(c, "end"), *at = x->bind == KIR_BLOCK ? i : c_fresh_name(c, "at");
    const char *first = warp_of_grid(c), *step = arena_printf(c->arena, "gridDim.x * (blockDim.x / %u)", lanes_of(c));
    if (x->bind == KIR_BLOCK) first = blocks_of(k, "blockIdx.x"), step = blocks_of(k, "gridDim.x");
    c_line(c, "const i64 %s = gnn::min<i64>(%s, hi);", end, to);
    c_line(c, "#pragma unroll 1");
    c_line(c, "for (i64 %s = gnn::max<i64>(%s, lo) + %s; %s < %s; %s += %s) {", at, from, first, at, end, at, step);
    if (at == i) return;
    const char *now = c_fresh_name(c, k->order);
    c_line(c, "    const int *const %s = gnn::unknown(%s);", now, k->order);
    c_line(c, "    const i64 %s = %s ? %s[%s] : %s;", i, now, now, at, at);
}

/* ---- loads ahead ---- */

enum { LOADS_AHEAD = 1 << 30 /* beside a loop's number: the loop of its loads, for the shim */ };

/* A load that stands ahead for what stands behind: alone, or the first of those that come with it. */
static bool is_kept(const Cuda *k, const KirWalk *w, KirId id)
{
    const CudaWide *wide = &k->wide;
    bool kept = k->ahead.later[id] || wide->n[id];
    bool loads = ins(&k->c, id)->op == KIR_load || ins(&k->c, id)->op == KIR_gather;
    return w->facts[id].live && k->ahead.wanted[id] && loads && kept && (!wide->n[id] || wide->at[id] == id);
}

static const char *ahead_type(Cuda *k, KirId id)
{
    return k->wide.n[id] && !k->wide.vectors[id] ? wide_type(&k->c, id) : elem(ins(&k->c, id)->type.base);
}

/* A load into a variable of its own, or into the array that is there, at `turn`. */
static void load_ahead(Cuda *k, KirId id, const char *turn)
{
    CKernel *c = &k->c;
    const CudaWide *wide = &k->wide;
    bool shared = wide->vectors[id];
    unsigned n = shared ? 0 : wide->n[id];
    const char *type = ahead_type(k, id);
    const char *value = shared ? picked_for_all(c, id).text
                        : n    ? arena_printf(c->arena, "*(const %s *)%s", type, wide_place(c, id))
                               : load(c, ins(c, id)).text;
    const char *to = turn ? arena_printf(c->arena, "%s[%s]", k->arrays[id], turn)
                          : c_fresh_name(c, n ? "all" : "ahead");
    if (turn) c_line(c, "%s = %s;", to, value);
    else c_line(c, "const %s %s = %s;", type, to, value);
    for (unsigned q = 0; q < n; q++) {
        KirId one = wide->all[id][q];
        k->moved[one] = from_memory(c, ins(c, one), arena_printf(c->arena, "%s.%c", to, "xyzw"[q]));
        c->names[one] = k->moved[one];
    }
    if (shared) share_value(k, id, to);
    else if (!n) c->names[id] = k->moved[id] = to;
}

/* The loads of a turn that come first, and what they are made of. */
static void write_ahead(Cuda *k, const KirWalk *w, const KirBlock *b, const char *turn)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        if (is_kept(k, w, id)) load_ahead(k, id, turn);
        else if (k->ahead.wanted[id] && !k->wide.n[id] && !w->facts[id].fold) c_value(&k->c, w, id);
    }
}

/* Those of n turns: a loop before that of the turns. */
static void write_turns_ahead(Cuda *k, const KirWalk *w, KirId id, const char *next, const char *turn, uint32_t n)
{
    CKernel *c = &k->c;
    const KirBlock *b = &ins(c, id)->body;
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId load = b->ins.data[i];
        if (!is_kept(k, w, load)) continue;
        k->arrays[load] = c_fresh_name(c, k->wide.n[load] ? "all" : "ahead");
        c_line(c, "    %s %s[%u];", ahead_type(k, load), k->arrays[load], n);
    }
    c_line(c, "    #pragma unroll");
    c_line(c, "    for (int %s = 0; %s < %u; %s++) {", turn, turn, n, turn);
    c->indent += 2;
    c_line(c, "%s", next);
    if (k->told) c_line(c, "ShimTurn shim_turn(%uu, 0, 1, !%s);", id | LOADS_AHEAD, k->on); /* counted with the turn */
    write_ahead(k, w, b, turn);
    c->indent -= 2;
    c_line(c, "    }");
}

/* A loop over as many elements as memory says, which are few in most rows: n turns at once, whose loads are on their
   way together. Where fewer are left the last one comes again: what it loads is there, what it stores in private arrays
   is what they hold, and registers keep what they have. */
static void begin_few(Cuda *k, const KirWalk *w, const char *i, const char *from, const char *end, uint32_t n)
{
    CKernel *c = &k->c;
    ICE_UNLESS(n > 1 && k->few != KIR_NONE); /* and no other such loop is open: it would have a loop in it */
    const char *first = c_fresh_name(c, "first"), *left = c_fresh_name(c, "left"), *turn = c_fresh_name(c, "turn");
    k->on = c_fresh_name(c, "on");
    const char *stop = c_fresh_name(c, "stop");
    c_line(c, "for (i64 %s = %s, %s = gnn::unknown<i64>(%s); %s < %s; %s += %u) {", first, from, stop, end, first, stop,
           first, n);
    c_line(c, "    const int %s = gnn::unknown((int)gnn::min<i64>(%s - %s, %u));", left, stop, first, n);
    const char *on = arena_printf(c->arena, "const bool %s = %s < %s;", k->on, turn, left);
    const char *next = arena_printf(c->arena, "const i64 %s = %s + (%s ? %s : %s - 1);", i, first, k->on, turn, left);
    if (k->ahead.any) write_turns_ahead(k, w, k->few, arena_printf(c->arena, "%s %s", on, next), turn, n);
    c_line(c, "    #pragma unroll");
    c_line(c, "    for (int %s = 0; %s < %u; %s++) {", turn, turn, n, turn);
    c->indent++;
    c_line(c, "    %s", on);
    c_line(c, "    %s", next);
}

/* A loop of n turns at a time and then one by one, whose body is written once: as a function of the turn's number.
   Compilers that are told to unroll a loop write n - 1 turns more for those that are left, each behind a branch. */
static void begin_rest(Cuda *k, const char *i, const char *set_end)
{
    CKernel *c = &k->c;
    ICE_UNLESS(k->rest.n > 1 && k->few == KIR_NONE);
    k->rest.turn = c_fresh_name(c, "turn");
    c_line(c, "{");
    c->indent++;
    if (set_end) c_line(c, "const i64 %s = %s;", k->rest.end, set_end);
    c_line(c, "const auto %s = [&](const i64 %s) {", k->rest.turn, i);
}

static void end_rest(Cuda *k)
{
    CKernel *c = &k->c;
    const char *i = c_fresh_name(c, "next"), *last = c_fresh_name(c, "last"), *n_th = c_fresh_name(c, "n");
    const char *turn = k->rest.turn, *end = k->rest.end;
    long long step = ins(c, k->rest.loop)->i;
    uint32_t n = k->rest.n;
    c_line(c, "};");
    c_line(c, "i64 %s = %s;", i, k->rest.from);
    c_line(c, "const i64 %s = gnn::unknown<i64>(%s - %lld);", last, end, (n - 1) * step);
    c_line(c, "#pragma unroll 1");
    c_line(c, "for (; %s < %s; %s += %lld) {", i, last, i, n * step);
    c_line(c, "    #pragma unroll");
    c_line(c, "    for (int %s = 0; %s < %u; %s++) %s(%s + %s * %lld);", n_th, n_th, n, n_th, turn, i, n_th, step);
    c_line(c, "}");
    c_line(c, "#pragma unroll 1");
    c_line(c, "for (; %s < %s; %s += %lld) %s(%s);", i, end, i, step, turn, i);
    c->indent--, k->rest.loop = KIR_NONE;
}

static void cuda_begin_for(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    Cuda *k = ctx;
    (void)w;
    const KirIns *x = ins(c, id);
    if (x->comment && x->comment[0]) c_line(c, "/* %s */", c_comment(c->arena, x->comment));
    c_open_scope(c);
    const char *from = c_arg(c, x, 0), *to = c_arg(c, x, 1);
    if (x->bind == KIR_WARP) {
        const CudaKernel *launch = &k->m.launch;
        save(k);
        const char *i = c_name_loop(c, id);
        if (launch->parts == 1) c_line(c, "if (const i64 %s = team; true) {", i);
        else
            c_line(c, "if (const i64 %s = blockIdx.x %% %u * %u + team; %s < %s) {", i, launch->parts, launch->warps, i,
                   to);
        tell_turn(k, id, &x->body);
        return;
    }
    begin_turns(k, &x->body);
    save(k);
    if (x->bind != KIR_SEQ && x->bind != KIR_UNROLL) {
        begin_parallel(k, x, from, to, id);
        tell_turn(k, id, &x->body);
        k->ahead = cuda_ahead(c->arena, w, &k->wide, k->shuffled, x);
        c->indent++;
        if (k->ahead.any) write_ahead(k, w, &x->body, NULL);
        c->indent--;
        return;
    }
    const char *i = c_name_loop(c, id), *end = to;
    bool copied = ins(c, x->args[1])->op == KIR_var; /* the bounds are worked out once */
    if (copied) end = c_fresh_name(c, "end");
    const char *set_end = copied ? arena_printf(c->arena, ", %s = %s", end, to) : "";
    const char *next = x->i == 1 ? arena_printf(c->arena, "%s++", i)
                                 : arena_printf(c->arena, "%s += %lld", i, (long long)x->i);
    CudaTurns turns = x->bind == KIR_UNROLL ? (CudaTurns){.n = 16} : cuda_turns(w, &k->wide, x);
    if (turns.few) {
        k->few = id;
        k->ahead = cuda_ahead(c->arena, w, &k->wide, k->shuffled, x);
        begin_few(k, w, i, from, to, turns.n);
    } else if (turns.rest) {
        if (!copied) end = c_tight(c, c_operand(c, x->args[1]), BIND_CALL);
        k->rest.loop = id, k->rest.n = turns.n, k->rest.from = from, k->rest.end = end;
        begin_rest(k, i, copied ? to : NULL);
    } else {
        if (turns.n) c_line(c, "#pragma unroll %u", turns.n);
        c_line(c, "for (i64 %s = %s%s; %s < %s; %s) {", i, from, set_end, i, end, next);
    }
    tell_turn(k, id, &x->body);
}

/* A turn that runs again changes no register of those around it. */
static void cuda_set(void *ctx, const KirWalk *w, KirId id)
{
    CKernel *c = ctx;
    const Cuda *k = ctx;
    const KirIns *x = ins(c, id);
    bool own = k->few == KIR_NONE;
    for (uint32_t i = 0; !own && i < ins(c, k->few)->body.ins.n; i++)
        own = ins(c, k->few)->body.ins.data[i] == x->args[0];
    if (own || x->args[0] == x->args[1]) {
        c_set(ctx, w, id);
        return;
    }
    const char *next = c_fresh_name(c, "next"); /* computed in any case: no load waits for a branch */
    c_line(c, "const %s %s = %s;", elem(x->type.base), next, c_arg(c, x, 1));
    c_line(c, "if (%s) %s = %s;", k->on, c->names[x->args[0]], next);
}

/* A block's arrays are another's in the next turn. */
static void cuda_end_for(void *ctx, const KirWalk *w, KirId id)
{
    Cuda *k = ctx;
    const KirIns *x = ins(&k->c, id);
    if (x->bind == KIR_BLOCK) c_line(&k->c, "    __syncthreads();");
    if (k->few == id) {
        c_line(&k->c, "}");
        k->c.indent--, k->few = KIR_NONE;
    }
    if (k->rest.loop == id) end_rest(k);
    k->ahead.any = false;
    restore(k);
    c_close(ctx, w, id);
}

static void cuda_begin_loop(void *ctx, const KirWalk *w, KirId id)
{
    begin_turns(ctx, &ins(ctx, id)->body);
    save(ctx);
    c_begin_loop(ctx, w, id);
    tell_turn(ctx, id, &ins(ctx, id)->body);
}

static void cuda_end_loop(void *ctx, const KirWalk *w, KirId id)
{
    restore(ctx);
    c_close(ctx, w, id);
}

static void cuda_begin_if(void *ctx, const KirWalk *w, KirId id)
{
    save(ctx);
    c_begin_if(ctx, w, id);
    tell_turn(ctx, id, &ins(ctx, id)->body);
}

/* The first block's end waits while the second begins as the first did. */
static void cuda_begin_else(void *ctx, const KirWalk *w, KirId id)
{
    Cuda *k = ctx;
    uint8_t *before = k->saved.data[--k->saved.n];
    save(k);
    memcpy(k->loaded, before, 2 * n_objects(k));
    c_begin_else(ctx, w, id);
    tell_turn(ctx, id, &ins(ctx, id)->other);
}

static void cuda_end_if(void *ctx, const KirWalk *w, KirId id)
{
    restore(ctx);
    c_close(ctx, w, id);
}

/* A warp computes a part: of its row, these elements. */
static void begin_part(Cuda *k)
{
    CKernel *c = &k->c;
    const char *part = c_fresh_name(c, "part");
    c_line(c, "const i64 %s = lo + %s;", part, warp_of_grid(c));
    c_line(c, "if (%s >= hi) return;", part);
    c_line(c, "const i64 row = %s[%s * %d];", k->order, part, CUDA_PART_NUMBERS);
    for (uint32_t i = 0; i < k->m.k->params.n; i++)
        if (k->of_part[i])
            c_line(c, "const i64 %s = %s[%s * %d + %u];", c->params[i], k->order, part, CUDA_PART_NUMBERS,
                   k->of_part[i]);
}

static void cuda_begin_kernel(void *ctx, const KirWalk *w)
{
    CKernel *c = ctx;
    Cuda *own = ctx;
    const KirKernel *k = w->k;
    const CudaKernel *launch = &own->m.launch;
    c->w = w;
    for (uint32_t i = 0; i < k->params.n; i++) c->params[i] = c_fresh_name(c, k->params.data[i].name);
    own->order = c_fresh_name(c, own->of_part ? "parts" : "order");
    if (k->comment) strbuf_printf(c->out, "\n/* %s */", c_comment(c->arena, k->comment));
    strbuf_printf(c->out, "\nextern \"C\" __global__ void __launch_bounds__(%u)\n%s(", launch->lanes * launch->warps,
                  k->name);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KirParam *p = &k->params.data[i];
        const char *konst = p->kind == KIR_IN ? "const " : "", *star = p->kind == KIR_SCALAR ? "" : "*";
        bool of_part = own->of_part && own->of_part[i];
        strbuf_printf(c->out, "%s%s %s%s%s, ", konst, elem(p->elem), star, p->restrict_ ? "__restrict__ " : "",
                      of_part ? "" : c->params[i]);
    }
    strbuf_printf(c->out, "i64 lo, i64 hi, const %s *__restrict__ %s)\n{\n", own->of_part ? "i64" : "int", own->order);
    c_line(c, "const int l = threadIdx.x %% %u, team = threadIdx.x / %u;", launch->lanes, launch->lanes);
    if (launch->block_bytes || launch->warp_bytes) c_line(c, "extern __shared__ __align__(16) char memory[];");
    tell_turn(own, KIR_NONE, &k->body);
    if (own->of_part) begin_part(own);
}

static void cuda_end_kernel(void *ctx, const KirWalk *w)
{
    (void)w;
    ICE_UNLESS(!((CKernel *)ctx)->scopes.n && !((Cuda *)ctx)->saved.n); /* every scope is closed */
    strbuf_puts(((CKernel *)ctx)->out, "}\n");
}

static const Emitter emitter = {
    .begin_kernel = cuda_begin_kernel,
    .end_kernel = cuda_end_kernel,
    .value = cuda_value,
    .load = cuda_load,
    .gather = cuda_load,
    .store = cuda_store,
    .alloc = cuda_alloc,
    .var = c_var,
    .set = cuda_set,
    .barrier = cuda_barrier,
    .alone = alone,
    .begin_for = cuda_begin_for,
    .end_for = cuda_end_for,
    .begin_loop = cuda_begin_loop,
    .end_loop = cuda_end_loop,
    .break_if = c_break_if,
    .begin_if = cuda_begin_if,
    .begin_else = cuda_begin_else,
    .end_if = cuda_end_if,
};

/* ---- kernels ---- */

static void emit_kernel(Arena *a, const KirKernel *k, const uint8_t *of_part, bool told, StrBuf *out)
{
    CudaMemory m = cuda_memory(a, k);
    uint8_t *touched = ARENA_ARRAY(a, uint8_t, 2 * cuda_n_objects(k));
    Cuda ctx = {.c = {.arena = a,
                      .out = out,
                      .expr = expr,
                      .type = lane_type,
                      .names = ARENA_ARRAY(a, const char *, k->ins.n),
                      .params = ARENA_ARRAY(a, const char *, k->params.n)},
                .m = m,
                .wraps = cuda_wraps(a, k),
                .loaded = touched,
                .stored = touched + cuda_n_objects(k),
                .wide = cuda_wide(a, &m),
                .moved = ARENA_ARRAY(a, const char *, k->ins.n),
                .of_part = of_part,
                .few = KIR_NONE,
                .rest.loop = KIR_NONE,
                .told = told};
    ICE_UNLESS(!of_part || m.launch.binding == CUDA_THREADS);
    ctx.shuffled = ARENA_ARRAY(a, bool, k->ins.n);
    ctx.arrays = ARENA_ARRAY(a, const char *, k->ins.n);
    for (KirId id = 0; id < k->ins.n; id++) ctx.shuffled[id] = shuffles(k, &k->ins.data[id]) || ctx.wide.each[id];
    kir_walk(a, k, &emitter, &ctx);
}

CudaKernel cuda_kernel(Arena *a, const KirKernel *k) { return cuda_memory(a, k).launch; }

static void emit_text(const KirKernel *const *ks, const uint8_t *const *of_part, uint32_t n, bool told, StrBuf *out)
{
    strbuf_puts(out, cuda_head_text);
    for (uint32_t i = 0; i < n; i++) emit_kernel(out->arena, ks[i], of_part ? of_part[i] : NULL, told, out);
}

void emit_cuda_kernels(const KirKernel *const *ks, const uint8_t *const *of_part, uint32_t n, StrBuf *out)
{
    emit_text(ks, of_part, n, false, out);
}

void emit_cuda_host(const KirKernel *const *ks, const uint8_t *const *of_part, uint32_t n, StrBuf *out)
{
    strbuf_puts(out, cuda_shim_text);
    emit_text(ks, of_part, n, true, out);
    strbuf_puts(out, "\nSHIM_KERNELS_BEGIN\n");
    for (uint32_t i = 0; i < n; i++) strbuf_printf(out, "SHIM_KERNEL(%s)\n", ks[i]->name);
    strbuf_puts(out,
                "SHIM_KERNELS_END\n\nint shim_launch(const char *name, void **params, unsigned grid, unsigned block, "
                "size_t shared, ShimWatch *watch)\n{\n"
                "    return shim_launch_of(shim_kernels, name, params, grid, block, shared, watch);\n}\n");
}
