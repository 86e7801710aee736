/* Runs kernel IR one lane at a time: the meaning of every instruction, for tests of emitters. Slow
   and exact: f32 is worked out in f32, nothing is contracted, every index is checked, reading an
   array's element before it was stored is an error. The warps of a block run one after another from each
   barrier to the next; that no other order could matter is checked at each access to memory that they share. It is
   independent of the walker and of every emitter. */
#include "ir/kernel.h"
#include "base/ice.h"
#include "runtime/half.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

_Static_assert(FLT_EVAL_METHOD == 0, "f32 arithmetic has to be rounded to f32");

/* One value: integers sign-extended in i (i1: 0 or 1), f32 in f, f64 in d. */
typedef union Lane {
    int64_t i;
    float f;
    double d;
} Lane;
typedef struct Value {
    Lane lane[KIR_MAX_LANES];
} Value;

/* Who touched an element last, in one stretch of time in which nobody waits for another: a number above 0, SEVERAL, or
   0 for none. */
typedef struct Touch {
    int64_t when;
    int32_t writer, reader;
} Touch;
enum { SEVERAL = -1 };
typedef struct Touches { /* of an element */
    Touch warps;         /* between two barriers of a block */
    Touch blocks;        /* in a run; of elements of buffers */
} Touches;

typedef struct Array { /* of an alloc */
    Lane *data;
    bool *stored;
    Touches *touches; /* shared */
} Array;

typedef struct Warp { /* what is its own */
    Value *values;    /* [ins.n] */
    Array *arrays;    /* [ins.n] of allocs */
    bool *taint;      /* [ins.n], or NULL */
} Warp;

typedef struct Run {
    Arena *arena;
    const KirKernel *k;
    const KirArg *args;
    const int64_t *n_elems;
    int64_t lo, hi;
    KirWatch *watch;      /* or NULL */
    Warp own;             /* of the warp that runs, or of the instructions around all warps */
    Warp *warps;          /* [n_warps], of the loop bound to warp */
    int32_t n_warps, who; /* who: the warp that runs + 1, SEVERAL for what each of a block does, 0 outside of blocks */
    int32_t block;        /* blocks begun */
    int64_t interval;     /* barriers met, and blocks begun */
    const bool *meets;    /* [ins.n] of kir_meetings */
    Touches **touches;    /* [params.n] of buffers that a block touched */
    KirId at;
    const char *why;
} Run;

typedef enum { DONE, BROKE, FAILED } Outcome;

static Outcome fail(Run *r, const char *why)
{
    StrBuf text = {.arena = r->arena};
    kir_print_ins(r->k, r->at, &text);
    r->why = arena_printf(r->arena, "kernel @%s: `%s`: %s", r->k->name, strbuf_cstr(&text), why);
    return FAILED;
}

/* ---- arithmetic on one lane -------------------------------------------------------------------------------------- */

static uint32_t low(int64_t v) { return (uint32_t)(uint64_t)v; }
static int64_t wrap(KirBase base, uint64_t v) { return base == KIR_I32 ? (int32_t)(uint32_t)v : (int64_t)v; }

static bool int_divides(int64_t a, int64_t b, KirBase base)
{
    return b != 0 && !(b == -1 && a == (base == KIR_I32 ? INT32_MIN : INT64_MIN));
}

static int64_t int_op(KirOpcode op, KirBase base, int64_t a, int64_t b)
{
    ICE_UNLESS(base == KIR_I1 || base == KIR_I32 || base == KIR_I64);
    uint64_t x = (uint64_t)a, y = (uint64_t)b, shift = y & (base == KIR_I32 ? 31 : 63);
    switch (op) {
    case KIR_add: return wrap(base, x + y);
    case KIR_sub: return wrap(base, x - y);
    case KIR_mul: return wrap(base, x * y);
    case KIR_div: return a / b;
    case KIR_rem: return a % b;
    case KIR_min: return a < b ? a : b;
    case KIR_max: return a > b ? a : b;
    case KIR_neg: return wrap(base, 0 - x);
    case KIR_and: return a & b;
    case KIR_or: return a | b;
    case KIR_xor: return a ^ b;
    case KIR_shl: return wrap(base, x << shift);
    case KIR_lshr: return wrap(base, base == KIR_I32 ? low(a) >> shift : x >> shift);
    case KIR_ashr: return a >> shift;
    default: return (int64_t)(int32_t)(uint32_t)(((uint64_t)low(a) * low(b)) >> 32); /* mulhu */
    }
}

#define FLOAT_OPS(T, name, suffix)                                                                                     \
    static T name(KirOpcode op, T a, T b, T c)                                                                         \
    {                                                                                                                  \
        switch (op) {                                                                                                  \
        case KIR_add: return a + b;                                                                                    \
        case KIR_sub: return a - b;                                                                                    \
        case KIR_mul: return a * b;                                                                                    \
        case KIR_div: return a / b;                                                                                    \
        case KIR_fma: return fma##suffix(a, b, c);                                                                     \
        case KIR_min: return a < b || a != a ? a : b;                                                                  \
        case KIR_max: return a > b || a != a ? a : b;                                                                  \
        case KIR_neg: return -a;                                                                                       \
        case KIR_abs: return fabs##suffix(a);                                                                          \
        case KIR_sqrt: return sqrt##suffix(a);                                                                         \
        case KIR_rint: return nearbyint##suffix(a);                                                                    \
        default: return floor##suffix(a);                                                                              \
        }                                                                                                              \
    }
FLOAT_OPS(float, f32_op, f)
FLOAT_OPS(double, f64_op, )

static Lane arith(KirOpcode op, KirBase base, Lane a, Lane b, Lane c)
{
    if (base == KIR_F32) return (Lane){.f = f32_op(op, a.f, b.f, c.f)};
    if (base == KIR_F64) return (Lane){.d = f64_op(op, a.d, b.d, c.d)};
    return (Lane){.i = int_op(op, base, a.i, b.i)};
}

static double as_double(KirBase base, Lane a) { return base == KIR_F32 ? (double)a.f : a.d; }

static bool compare(KirOpcode op, KirBase base, Lane a, Lane b)
{
    if (base == KIR_F32 || base == KIR_F64) {
        double x = as_double(base, a), y = as_double(base, b);
        return op == KIR_eq ? x == y : op == KIR_ne ? x != y : op == KIR_lt ? x < y : x <= y;
    }
    switch (op) {
    case KIR_eq: return a.i == b.i;
    case KIR_ne: return a.i != b.i;
    case KIR_lt: return a.i < b.i;
    case KIR_le: return a.i <= b.i;
    default: return base == KIR_I32 ? low(a.i) < low(b.i) : (uint64_t)a.i < (uint64_t)b.i;
    }
}

static int64_t float_to_int(KirBase to, double v)
{
    if (to == KIR_I32) return trunc(v) >= -0x1p31 && trunc(v) < 0x1p31 ? (int64_t)v : INT32_MIN;
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

static Lane convert(KirBase from, KirBase to, Lane a)
{
    bool is_float = from == KIR_F32 || from == KIR_F64;
    if (to == KIR_F32) return (Lane){.f = from == KIR_F32 ? a.f : is_float ? (float)a.d : (float)a.i};
    if (to == KIR_F64) return (Lane){.d = is_float ? as_double(from, a) : (double)a.i};
    if (is_float) return (Lane){.i = float_to_int(to, as_double(from, a))};
    return (Lane){.i = wrap(to, (uint64_t)a.i)};
}

static Lane bitcast(KirBase to, Lane a)
{
    Lane r = {0};
    int32_t bits;
    switch (to) {
    case KIR_F32:
        bits = (int32_t)a.i;
        memcpy(&r.f, &bits, 4);
        return r;
    case KIR_I32: memcpy(&bits, &a.f, 4); return (Lane){.i = bits};
    default: return a; /* f64 and i64 share their bytes */
    }
}

static Lane constant(KirBase base, const KirIns *x)
{
    if (base == KIR_F32) return (Lane){.f = (float)x->f};
    if (base == KIR_F64) return (Lane){.d = x->f};
    return (Lane){.i = x->i};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int64_t buffer_size(const Run *r, const KirIns *x)
{
    return x->buf == KIR_NONE ? r->k->ins.data[x->alloc].i : r->n_elems[x->buf];
}

static Lane read_element(const void *p, KirBase elem, int64_t index)
{
    switch (elem) {
    case KIR_I1:
    case KIR_I8: return (Lane){.i = ((const int8_t *)p)[index] != 0};
    case KIR_I32: return (Lane){.i = ((const int32_t *)p)[index]};
    case KIR_I64: return (Lane){.i = ((const int64_t *)p)[index]};
    case KIR_F32: return (Lane){.f = ((const float *)p)[index]};
    case KIR_F16: return (Lane){.f = f16_to_float(((const uint16_t *)p)[index])};
    case KIR_BF16: return (Lane){.f = bf16_to_float(((const uint16_t *)p)[index])};
    default: return (Lane){.d = ((const double *)p)[index]};
    }
}

static void write_element(void *p, KirBase elem, int64_t index, Lane v)
{
    switch (elem) {
    case KIR_I1:
    case KIR_I8: ((int8_t *)p)[index] = (int8_t)v.i; break;
    case KIR_I32: ((int32_t *)p)[index] = (int32_t)v.i; break;
    case KIR_I64: ((int64_t *)p)[index] = v.i; break;
    case KIR_F32: ((float *)p)[index] = v.f; break;
    case KIR_F16: ((uint16_t *)p)[index] = f16_of_float(v.f); break;
    case KIR_BF16: ((uint16_t *)p)[index] = bf16_of_float(v.f); break;
    default: ((double *)p)[index] = v.d; break;
    }
}

static Outcome out_of_bounds(Run *r, int64_t index, int64_t n)
{
    return fail(r, arena_printf(r->arena, "element %lld of %lld", (long long)index, (long long)n));
}

/* The element a lane meets, checked. */
static Outcome lane_index(Run *r, const KirIns *x, unsigned lane, int64_t *index)
{
    const Value *v = &r->own.values[x->args[0]];
    int64_t n = buffer_size(r, x), offset;
    if (x->op == KIR_gather) *index = v->lane[lane].i;
    else if (__builtin_mul_overflow((int64_t)lane, x->stride, &offset) ||
             __builtin_add_overflow(v->lane[0].i, offset, index))
        return fail(r, "the index overflows");
    return *index >= 0 && *index < n ? DONE : out_of_bounds(r, *index, n);
}

/* Tells of an access. Lanes of a gather lie anywhere. */
static Outcome tell(Run *r, const KirIns *x)
{
    bool far = x->op == KIR_gather;
    for (unsigned lane = 0, n = far ? 1 : x->active; lane < x->active; lane += n) {
        int64_t first, last;
        if (lane_index(r, x, lane, &first) != DONE || lane_index(r, x, lane + n - 1, &last) != DONE) return FAILED;
        const char *why = r->watch->touch(r->watch->user, x->buf, first, n > 1 ? x->stride : 1, n, x->op == KIR_store);
        if (why) return fail(r, why);
    }
    return DONE;
}

static bool is_access(const KirIns *x)
{
    return (x->op == KIR_load || x->op == KIR_gather || x->op == KIR_store) && x->buf != KIR_NONE;
}

/* Whether an access meets one of another that nothing keeps in order with it. */
static bool races(Touch *t, int64_t when, int32_t who, bool write)
{
    if (t->when != when) *t = (Touch){.when = when};
    bool other_wrote = t->writer && t->writer != who, other_read = t->reader && t->reader != who;
    if (write) t->writer = who;
    else t->reader = other_read ? SEVERAL : who;
    return other_wrote || (write && other_read);
}

/* Buffers and shared arrays are seen by the other warps of the block, buffers by the other blocks. */
static Outcome check_race(Run *r, const KirIns *x, int64_t index)
{
    bool buffer = x->buf != KIR_NONE, write = x->op == KIR_store;
    if (!r->who || (!buffer && !r->own.arrays[x->alloc].touches)) return DONE;
    if (buffer && !r->touches[x->buf]) r->touches[x->buf] = ARENA_ARRAY(r->arena, Touches, r->n_elems[x->buf] + 1);
    ICE_UNLESS(index >= 0 && index < buffer_size(r, x)); /* lane_index saw to it */
    Touches *t = buffer ? &r->touches[x->buf][index] : &r->own.arrays[x->alloc].touches[index];
    const char *what = write ? "writes" : "reads", *who = NULL;
    if (races(&t->warps, r->interval, r->who, write)) who = "another warp, with no barrier between";
    else if (buffer && races(&t->blocks, 1, r->block, write)) who = "another block";
    if (!who) return DONE;
    return fail(r, arena_printf(r->arena, "races: warp %d %s element %lld, and so does %s", r->who - 1, what,
                                (long long)index, who));
}

static Outcome run_load(Run *r, KirId id, const KirIns *x)
{
    KirBase base = x->type.base;
    bool is_float = base == KIR_F32 || base == KIR_F64;
    for (unsigned lane = 0; lane < x->type.lanes; lane++) {
        Lane *to = &r->own.values[id].lane[lane];
        *to = is_float ? constant(base, x) : (Lane){.i = (int64_t)x->f};
        if (lane >= x->active) continue;
        int64_t index;
        if (lane_index(r, x, lane, &index) != DONE || check_race(r, x, index) != DONE) return FAILED;
        if (x->buf != KIR_NONE) {
            *to = read_element(r->args[x->buf].p, kir_memory_base(r->k, x), index);
            continue;
        }
        const Array *array = &r->own.arrays[x->alloc];
        if (!array->stored[index])
            return fail(r, array->touches ? "races, or reads what nobody writes: no warp has stored the element yet"
                                          : "reads a private element that was not stored");
        *to = array->data[index];
    }
    return DONE;
}

static Outcome run_store(Run *r, const KirIns *x)
{
    for (unsigned lane = 0; lane < x->active; lane++) {
        int64_t index;
        if (lane_index(r, x, lane, &index) != DONE || check_race(r, x, index) != DONE) return FAILED;
        Lane v = r->own.values[x->args[1]].lane[lane];
        if (x->buf != KIR_NONE) {
            write_element(r->args[x->buf].p, kir_memory_base(r->k, x), index, v);
        } else {
            r->own.arrays[x->alloc].data[index] = v;
            r->own.arrays[x->alloc].stored[index] = true;
        }
    }
    return DONE;
}

static Outcome run_alloc(Run *r, KirId id, const KirIns *x)
{
    ICE_UNLESS(x->i > 0);
    Array *array = &r->own.arrays[id];
    if (!array->data) {
        array->data = ARENA_ARRAY(r->arena, Lane, x->i);
        array->stored = ARENA_ARRAY(r->arena, bool, x->i);
    }
    memset(array->stored, 0, (size_t)x->i * sizeof(bool));
    if (x->shared && !array->touches) array->touches = ARENA_ARRAY(r->arena, Touches, x->i);
    return DONE;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static Lane param_value(const Run *r, const KirIns *x)
{
    KirArg arg = r->args[x->i];
    switch (x->type.base) {
    case KIR_I64: return (Lane){.i = arg.i};
    case KIR_F32: return (Lane){.f = (float)arg.f};
    default: return (Lane){.d = arg.f};
    }
}

static void run_fold(Run *r, KirId id, const KirIns *x)
{
    ICE_UNLESS(x->op >= KIR_hadd && x->op <= KIR_hmul);
    KirOpcode op = x->op == KIR_hadd ? KIR_add : x->op == KIR_hmax ? KIR_max : x->op == KIR_hmin ? KIR_min : KIR_mul;
    Value v = r->own.values[x->args[0]];
    for (unsigned n = kir_result_type(r->k, x->args[0]).lanes / 2; n; n /= 2)
        for (unsigned i = 0; i < n; i++) v.lane[i] = arith(op, x->type.base, v.lane[i], v.lane[i + n], (Lane){0});
    r->own.values[id].lane[0] = v.lane[0];
}

/* Lane l of the lower or upper halves of the groups of two vectors. */
static Lane half_lane(const Run *r, const KirIns *x, unsigned l)
{
    unsigned half = (unsigned)x->i / 2, at = l / half * 2 * half + l % half;
    ICE_UNLESS(half >= 1 && half <= x->type.lanes);
    if (x->op == KIR_upper) at += half;
    bool second = at >= x->type.lanes;
    return r->own.values[x->args[second]].lane[second ? at - x->type.lanes : at];
}

/* Lane l of a vector's lanes in another order. */
static Lane shuffled_lane(const Run *r, const KirIns *x, unsigned l)
{
    unsigned lanes = kir_result_type(r->k, x->args[0]).lanes;
    ICE_UNLESS(lanes > 1 && !(lanes & (lanes - 1)));
    return r->own.values[x->args[0]].lane[(uint64_t)r->own.values[x->args[1]].lane[l].i % lanes];
}

/* Lane l of a lane-wise instruction, whose operands are of base `from`. */
static Lane run_lane(const Run *r, const KirIns *x, KirBase from, unsigned l)
{
    KirBase base = x->type.base;
    Lane arg[3] = {{0}, {0}, {0}};
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) arg[i] = r->own.values[x->args[i]].lane[l];
    switch (x->op) {
    case KIR_const:
    case KIR_iconst: return constant(base, x);
    case KIR_lanes: return (Lane){.i = l};
    case KIR_param: return param_value(r, x);
    case KIR_eq:
    case KIR_ne:
    case KIR_lt:
    case KIR_le:
    case KIR_ult: return (Lane){.i = compare(x->op, from, arg[0], arg[1])};
    case KIR_select: {
        unsigned m = kir_result_type(r->k, x->args[0]).lanes == 1 ? 0 : l;
        return r->own.values[x->args[0]].lane[m].i ? arg[1] : arg[2];
    }
    case KIR_convert: return convert(from, base, arg[0]);
    case KIR_zext: return (Lane){.i = low(arg[0].i)};
    case KIR_bitcast: return bitcast(base, arg[0]);
    case KIR_splat: return r->own.values[x->args[0]].lane[0];
    case KIR_extract: return r->own.values[x->args[0]].lane[x->i];
    case KIR_insert: return x->i == l ? r->own.values[x->args[1]].lane[0] : arg[0];
    case KIR_repeat: {
        unsigned lanes = kir_result_type(r->k, x->args[0]).lanes;
        return r->own.values[x->args[0]].lane[l / x->i % lanes];
    }
    case KIR_part: return r->own.values[x->args[0]].lane[l + x->i];
    case KIR_lower:
    case KIR_upper: return half_lane(r, x, l);
    case KIR_shuffle: return shuffled_lane(r, x, l);
    case KIR_var: return arg[0];
    case KIR_round_f16: return (Lane){.f = f16_to_float(f16_of_float(arg[0].f))};
    case KIR_round_bf16: return (Lane){.f = bf16_to_float(bf16_of_float(arg[0].f))};
    default: return arith(x->op, base, arg[0], arg[1], arg[2]);
    }
}

/* A vector has the lanes of its type: those behind them stay what they are, zero. No operand is the result. */
static Outcome run_value(Run *r, KirId id, const KirIns *x)
{
    bool divides = (x->op == KIR_div && x->type.base <= KIR_I64) || x->op == KIR_rem;
    KirBase from = kir_ops[x->op].n_args ? kir_result_type(r->k, x->args[0]).base : x->type.base;
    for (unsigned l = 0; l < x->type.lanes; l++) {
        if (divides &&
            !int_divides(r->own.values[x->args[0]].lane[l].i, r->own.values[x->args[1]].lane[l].i, x->type.base))
            return fail(r, "divides by zero, or the quotient does not fit");
        r->own.values[id].lane[l] = run_lane(r, x, from, l);
    }
    return DONE;
}

static Outcome run_set(Run *r, const KirIns *x)
{
    unsigned lanes = kir_result_type(r->k, x->args[0]).lanes;
    memcpy(r->own.values[x->args[0]].lane, r->own.values[x->args[1]].lane, lanes * sizeof(Lane));
    return DONE;
}

static Outcome run_block(Run *r, const KirBlock *b);
static Outcome run_warps(Run *r, KirId id, const KirIns *x);

enum { FIRST_TURNS = 4, LAST_TURNS = 2 };

/* What stands before the warps of a block, each of them does. */
static void begin_block(Run *r, const KirIns *x)
{
    const KirIns *warps = &r->k->ins.data[x->body.ins.data[x->body.ins.n - 1]];
    r->block++, r->interval++;
    r->who = r->k->ins.data[warps->args[1]].i == 1 ? 1 : SEVERAL;
}

static Outcome run_for(Run *r, KirId id, const KirIns *x)
{
    int64_t from = r->own.values[x->args[0]].lane[0].i, to = r->own.values[x->args[1]].lane[0].i;
    if (x->bind == KIR_WARP) return run_warps(r, id, x);
    if (x->bind == KIR_THREADS || x->bind == KIR_BLOCK) {
        from = from > r->lo ? from : r->lo;
        to = to < r->hi ? to : r->hi;
    }
    ICE_UNLESS(x->i > 0);
    bool some = r->watch && r->watch->how[id] == KIR_WATCH_SOME && to > from &&
                (to - from) / x->i > FIRST_TURNS + LAST_TURNS;
    int64_t skip_at = some ? from + FIRST_TURNS * x->i : to,
            last = some ? from + ((to - from - 1) / x->i - LAST_TURNS + 1) * x->i : to;
    for (int64_t i = from; i < to;) {
        if (some && i == skip_at) i = last;
        r->own.values[id].lane[0].i = i;
        if (r->watch && (x->bind == KIR_THREADS || x->bind == KIR_BLOCK)) r->watch->at = i;
        if (x->bind == KIR_BLOCK) begin_block(r, x);
        if (run_block(r, &x->body) == FAILED) return FAILED;
        if (__builtin_add_overflow(i, x->i, &i)) break;
    }
    return DONE;
}

/* ---- the warps of a block ---- */

static Outcome run_ins(Run *r, KirId id);
static Outcome taint(Run *r, KirId id, const KirIns *x);
static Outcome run_together(Run *r, const KirBlock *b);

static void enter_warp(Run *r, int32_t warp)
{
    ICE_UNLESS(warp >= 0 && warp < r->n_warps);
    r->own = r->warps[warp];
    r->who = warp + 1;
}

/* The value that all warps have. */
static Outcome agreed(Run *r, KirId v, int64_t *value)
{
    *value = r->warps[0].values[v].lane[0].i;
    for (int32_t w = 1; w < r->n_warps; w++)
        if (r->warps[w].values[v].lane[0].i != *value)
            return fail(r, "the warps of a block differ in how they pass a barrier");
    return DONE;
}

static Outcome together_for(Run *r, KirId id, const KirIns *x)
{
    int64_t from, to;
    if (agreed(r, x->args[0], &from) != DONE || agreed(r, x->args[1], &to) != DONE) return FAILED;
    for (int64_t i = from; i < to;) {
        for (int32_t w = 0; w < r->n_warps; w++) r->warps[w].values[id].lane[0].i = i;
        if (run_together(r, &x->body) == FAILED) return FAILED;
        if (__builtin_add_overflow(i, x->i, &i)) break;
    }
    return DONE;
}

static Outcome together_loop(Run *r, const KirIns *x)
{
    for (;;) {
        Outcome outcome = run_together(r, &x->body);
        if (outcome != DONE) return outcome == BROKE ? DONE : FAILED;
    }
}

/* One of kir_meetings, which all warps pass together: a barrier, or a loop or branch that every warp must take
   alike. */
static Outcome run_meeting(Run *r, KirId id)
{
    const KirIns *x = &r->k->ins.data[id];
    int64_t met;
    ICE_UNLESS(r->meets[id]);
    r->at = id;
    if (r->watch && r->watch->fuel-- <= 0) return FAILED;
    for (int32_t w = 0; w < r->n_warps; w++) {
        enter_warp(r, w);
        if (r->own.taint && taint(r, id, x) != DONE) return FAILED;
    }
    switch (x->op) {
    case KIR_barrier: r->interval++; return DONE;
    case KIR_for: return together_for(r, id, x);
    case KIR_loop: return together_loop(r, x);
    case KIR_break_if: return agreed(r, x->args[0], &met) != DONE ? FAILED : met ? BROKE : DONE;
    default: return agreed(r, x->args[0], &met) != DONE ? FAILED : run_together(r, met ? &x->body : &x->other);
    }
}

/* A block that holds a barrier: each warp from one meeting to the next. */
static Outcome run_together(Run *r, const KirBlock *b)
{
    for (uint32_t i = 0, end; i < b->ins.n; i = end) {
        for (end = i; end < b->ins.n && !r->meets[b->ins.data[end]];) end++;
        for (int32_t w = 0; w < r->n_warps; w++) {
            enter_warp(r, w);
            for (uint32_t at = i; at < end; at++)
                if (run_ins(r, b->ins.data[at]) != DONE) return FAILED;
        }
        if (end == b->ins.n) break;
        Outcome outcome = run_meeting(r, b->ins.data[end++]);
        if (outcome != DONE) return outcome;
    }
    return DONE;
}

/* The loop bound to warp. Each warp sees what stands around it, and has registers and private arrays of its own. */
static Outcome run_warps(Run *r, KirId id, const KirIns *x)
{
    Warp around = r->own;
    uint32_t n = r->k->ins.n;
    r->n_warps = (int32_t)around.values[x->args[1]].lane[0].i;
    ICE_UNLESS(r->n_warps >= 1 && r->n_warps <= KIR_MAX_WARPS);
    if (!r->warps) {
        r->warps = ARENA_ARRAY(r->arena, Warp, r->n_warps);
        r->meets = kir_meetings(r->arena, r->k);
        for (int32_t w = 0; w < r->n_warps; w++)
            r->warps[w] = (Warp){ARENA_ARRAY(r->arena, Value, n), ARENA_ARRAY(r->arena, Array, n),
                                 around.taint ? ARENA_ARRAY(r->arena, bool, n) : NULL};
    }
    for (int32_t w = 0; w < r->n_warps; w++) {
        memcpy(r->warps[w].values, around.values, n * sizeof(Value));
        for (uint32_t i = 0; i < n; i++)
            if (around.arrays[i].data) r->warps[w].arrays[i] = around.arrays[i];
        if (around.taint) memcpy(r->warps[w].taint, around.taint, n * sizeof(bool));
        r->warps[w].values[id].lane[0].i = w;
    }
    Outcome outcome = run_together(r, &x->body);
    r->own = around;
    r->who = 0;
    return outcome;
}

static Outcome run_loop(Run *r, const KirIns *x)
{
    for (;;) {
        Outcome outcome = run_block(r, &x->body);
        if (outcome != DONE) return outcome == BROKE ? DONE : FAILED;
    }
}

/* Whether the value depends on a read that was in vain; and that nothing that is written does. */
static Outcome taint(Run *r, KirId id, const KirIns *x)
{
    bool *t = r->own.taint, own = false, private = x->alloc != KIR_NONE;
    bool known = x->op == KIR_select && r->watch->how[x->args[0]] && kir_result_type(r->k, x->args[0]).lanes == 1;
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++)
        if (!known || i != (r->own.values[x->args[0]].lane[0].i ? 2 : 1)) own |= t[x->args[i]];
    switch (x->op) {
    case KIR_set: t[x->args[0]] = t[x->args[1]]; break;
    case KIR_store:
        if (private) t[x->alloc] |= own;
        else if (own) return fail(r, "writes what depends on memory that nobody wrote");
        break;
    case KIR_load:
    case KIR_gather: t[id] = own || (private ? t[x->alloc] : r->watch->vain); break;
    case KIR_for:
    case KIR_if:
    case KIR_break_if:
        if (own) return fail(r, "depends on memory that nobody wrote");
        t[id] = false;
        break;
    default: t[id] = own; break;
    }
    return DONE;
}

static Outcome run_ins(Run *r, KirId id)
{
    const KirIns *x = &r->k->ins.data[id];
    r->at = id;
    if (r->watch) {
        if (r->watch->fuel-- <= 0) return FAILED;
        r->watch->vain = false;
        if (is_access(x) && tell(r, x) != DONE) return FAILED;
        if (r->own.taint && taint(r, id, x) != DONE) return FAILED;
        if (r->watch->how[id] == KIR_WATCH_SKIP) return DONE;
    }
    switch (x->op) {
    case KIR_load:
    case KIR_gather: return run_load(r, id, x);
    case KIR_store: return run_store(r, x);
    case KIR_prefetch: return DONE;
    case KIR_alloc: return run_alloc(r, id, x);
    case KIR_set: return run_set(r, x);
    case KIR_for: return run_for(r, id, x);
    case KIR_loop: return run_loop(r, x);
    case KIR_break_if: return r->own.values[x->args[0]].lane[0].i ? BROKE : DONE;
    case KIR_if: return run_block(r, r->own.values[x->args[0]].lane[0].i ? &x->body : &x->other);
    case KIR_hadd:
    case KIR_hmax:
    case KIR_hmin:
    case KIR_hmul: run_fold(r, id, x); return DONE;
    default: return run_value(r, id, x);
    }
}

static Outcome run_block(Run *r, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        Outcome outcome = run_ins(r, b->ins.data[i]);
        if (outcome != DONE) return outcome;
    }
    return DONE;
}

const char *kir_run(Arena *a, const KirKernel *k, const KirArg *args, const int64_t *n_elems, int64_t lo, int64_t hi)
{
    return kir_watch(a, k, args, n_elems, lo, hi, NULL);
}

/* ---- what a kernel touches --------------------------------------------------------------------------------------- */

static bool is_control(KirOpcode op) { return op == KIR_for || op == KIR_loop || op == KIR_if || op == KIR_break_if; }

typedef struct Slice {
    const KirKernel *k;
    uint8_t *how;
    bool *wants; /* by parameter */
    bool more;
} Slice;

static void need(Slice *s, KirId id)
{
    const KirIns *x = &s->k->ins.data[id];
    if (s->how[id]) return;
    s->how[id] = KIR_WATCH_RUN;
    s->more = true;
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) need(s, x->args[i]);
    if ((x->op == KIR_load || x->op == KIR_gather) && x->buf != KIR_NONE) s->wants[x->buf] = true;
    if (x->alloc != KIR_NONE) need(s, x->alloc);
}

/* Changes of what is needed. */
static bool changes(const Slice *s, const KirIns *x)
{
    if (x->op == KIR_set) return s->how[x->args[0]] != KIR_WATCH_SKIP;
    if (x->op != KIR_store) return false;
    return x->buf != KIR_NONE ? s->wants[x->buf] : s->how[x->alloc] != KIR_WATCH_SKIP;
}

/* Nothing in the block is written, and nothing that is needed changes. */
static bool only_reads(const Slice *s, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        const KirIns *x = &s->k->ins.data[b->ins.data[i]];
        if ((x->op == KIR_store && x->buf != KIR_NONE) || changes(s, x) || x->op == KIR_loop) return false;
        if (!only_reads(s, &x->body) || !only_reads(s, &x->other)) return false;
    }
    return true;
}

void kir_watch_plan(const KirKernel *k, bool *wants, uint8_t *how)
{
    Slice s = {k, how, wants, true};
    memset(how, KIR_WATCH_SKIP, k->ins.n);
    while (s.more) {
        s.more = false;
        for (KirId id = 0; id < k->ins.n; id++) {
            const KirIns *x = &k->ins.data[id];
            if (is_control(x->op)) need(&s, id);
            if (is_access(x)) need(&s, x->args[0]);
            if (changes(&s, x)) need(&s, id);
        }
    }
    for (KirId id = 0; id < k->ins.n; id++)
        if (k->ins.data[id].op == KIR_for && k->ins.data[id].bind != KIR_THREADS &&
            only_reads(&s, &k->ins.data[id].body))
            how[id] = KIR_WATCH_SOME;
}

const char *kir_watch(Arena *a, const KirKernel *k, const KirArg *args, const int64_t *n_elems, int64_t lo, int64_t hi,
                      KirWatch *w)
{
    ICE_UNLESS(!w || w->how);
    Run r = {.arena = a, .k = k, .args = args, .n_elems = n_elems, .lo = lo, .hi = hi, .watch = w};
    r.own = (Warp){ARENA_ARRAY(a, Value, k->ins.n), ARENA_ARRAY(a, Array, k->ins.n), w ? w->taint : NULL};
    r.touches = ARENA_ARRAY(a, Touches *, k->params.n + 1);
    run_block(&r, &k->body);
    return r.why;
}
