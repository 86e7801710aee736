/* Random well-typed kernels: straight lines, nested loops, branches, vars and private arrays over
   every type and opcode, and the data they run on. Indices stay inside the buffers, integers are
   not divided by zero and bits of a NaN are not looked at, so every runner of kernel IR has to give
   the same bits (NaNs count as equal). */
#pragma once
#include "base/ice.h"
#include "ir/kernel.h"
#include "runtime/abi.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RK_ELEMS = 96, RK_ROWS = 8, RK_KINDS = 7, RK_N_BUFFERS = 2 * RK_KINDS, RK_N_PARAMS = RK_N_BUFFERS + 3 };

/* Buffers first: RK_KINDS read, as many read and written, in the order of the base types from i8 on. */
static const KirParam rk_params[RK_N_PARAMS] = {
    {"in_b", KIR_IN, KIR_I8, false},     {"in_i", KIR_IN, KIR_I32, false},     {"in_l", KIR_IN, KIR_I64, false},
    {"in_f", KIR_IN, KIR_F32, false},    {"in_d", KIR_IN, KIR_F64, false},     {"in_h", KIR_IN, KIR_F16, false},
    {"in_g", KIR_IN, KIR_BF16, false},   {"out_b", KIR_INOUT, KIR_I8, true},   {"out_i", KIR_INOUT, KIR_I32, true},
    {"out_l", KIR_INOUT, KIR_I64, true}, {"out_f", KIR_INOUT, KIR_F32, true},  {"out_d", KIR_INOUT, KIR_F64, true},
    {"out_h", KIR_INOUT, KIR_F16, true}, {"out_g", KIR_INOUT, KIR_BF16, true}, {"n", KIR_SCALAR, KIR_I64, false},
    {"s", KIR_SCALAR, KIR_F32, false},   {"t", KIR_SCALAR, KIR_F64, false},
};

typedef struct RkPool { /* values in scope */
    KirId id[512];
    uint32_t n;
} RkPool;

typedef struct Rk {
    KirBuilder b;
    uint64_t state;
    RkPool pool;
    KirId arrays[4]; /* private arrays, filled, RK_ELEMS long */
    uint32_t n_arrays;
    bool may_store;
    bool in_warps; /* nobody reads a buffer that is written */
    int budget;
} Rk;

static inline uint32_t rk_below(Rk *r, uint32_t n)
{
    r->state ^= r->state << 13, r->state ^= r->state >> 7, r->state ^= r->state << 17;
    return (uint32_t)((r->state >> 20) % n);
}

static inline KirType rk_type(Rk *r)
{
    static const KirBase bases[] = {KIR_F32, KIR_F32, KIR_F64, KIR_I32, KIR_I64, KIR_I1};
    return kir_type(bases[rk_below(r, 6)], 1u << (rk_below(r, 2) ? 0 : rk_below(r, 5)));
}

static inline bool rk_is_float(KirType t) { return t.base == KIR_F32 || t.base == KIR_F64; }
static inline bool rk_same(KirType a, KirType b) { return a.base == b.base && a.lanes == b.lanes; }

static inline KirId rk_keep(Rk *r, KirId id)
{
    if (r->pool.n < 512) r->pool.id[r->pool.n++] = id;
    return id;
}

static inline KirId rk_constant(Rk *r, KirType t)
{
    static const double floats[] = {0,    -0.0, 1,     -1,    0.5,      3.25,      -7.5,
                                    1e-3, 1e10, -2e38, 1e-40, INFINITY, -INFINITY, NAN};
    static const int64_t ints[] = {0, 1, -1, 2, 7, 31, 255, -128, INT32_MAX, INT32_MIN};
    if (rk_is_float(t)) return rk_keep(r, kir_const(&r->b, t, floats[rk_below(r, 14)]));
    if (t.base != KIR_I1 && !rk_below(r, 6))
        return rk_keep(r, kir_op(&r->b, KIR_lanes, t, KIR_NONE, KIR_NONE, KIR_NONE));
    if (t.base == KIR_I64 && !rk_below(r, 10))
        return rk_keep(r, kir_int(&r->b, t, rk_below(r, 2) ? INT64_MIN : INT64_MAX));
    return rk_keep(r, kir_int(&r->b, t, ints[rk_below(r, 10)]));
}

/* A value of type t: one in scope, or a constant. */
static inline KirId rk_value(Rk *r, KirType t)
{
    for (unsigned attempt = 0; attempt < 24 && r->pool.n; attempt++) {
        KirId id = r->pool.id[rk_below(r, r->pool.n)];
        if (rk_same(kir_result_type(r->b.k, id), t)) return id;
    }
    return rk_constant(r, t);
}

static inline KirId rk_op(Rk *r, KirOpcode op, KirType t, KirId x, KirId y, KirId z)
{
    return rk_keep(r, kir_op(&r->b, op, t, x, y, z));
}

/* An index vector in [0, 32): with 16 lanes of stride 4 still inside. */
static inline KirId rk_index(Rk *r, KirType t)
{
    return kir_op(&r->b, KIR_and, t, rk_value(r, t), kir_int(&r->b, t, 31), KIR_NONE);
}

static inline void rk_arith(Rk *r, KirType t)
{
    static const KirOpcode floats[] = {KIR_add, KIR_sub, KIR_mul,  KIR_div,  KIR_min,   KIR_max,
                                       KIR_neg, KIR_abs, KIR_sqrt, KIR_rint, KIR_floor, KIR_fma};
    static const KirOpcode ints[] = {KIR_add, KIR_sub, KIR_mul, KIR_min, KIR_max,  KIR_neg,
                                     KIR_and, KIR_or,  KIR_xor, KIR_shl, KIR_lshr, KIR_ashr};
    static const KirOpcode bits[] = {KIR_and, KIR_or, KIR_xor};
    KirOpcode op = rk_is_float(t)     ? floats[rk_below(r, 12)]
                   : t.base == KIR_I1 ? bits[rk_below(r, 3)]
                                      : ints[rk_below(r, 12)];
    if (t.base == KIR_F32 && !rk_below(r, 10)) op = rk_below(r, 2) ? KIR_round_f16 : KIR_round_bf16;
    unsigned n = kir_ops[op].n_args;
    KirId x = rk_value(r, t), y = n > 1 ? rk_value(r, t) : KIR_NONE, z = n > 2 ? rk_value(r, t) : KIR_NONE;
    rk_op(r, op, t, x, y, z);
}

/* Integer division by something in [1, 16), and the product's high half. */
static inline void rk_divide(Rk *r, KirType t)
{
    if (rk_is_float(t) || t.base == KIR_I1) t.base = KIR_I32;
    KirId low = kir_op(&r->b, KIR_and, t, rk_value(r, t), kir_int(&r->b, t, 15), KIR_NONE);
    KirId divisor = kir_op(&r->b, KIR_or, t, low, kir_int(&r->b, t, 1), KIR_NONE);
    rk_op(r, rk_below(r, 2) ? KIR_div : KIR_rem, t, rk_value(r, t), divisor, KIR_NONE);
    if (t.base == KIR_I32) rk_op(r, KIR_mulhu, t, rk_value(r, t), rk_value(r, t), KIR_NONE);
}

static inline void rk_choose(Rk *r, KirType t)
{
    static const KirOpcode ops[] = {KIR_eq, KIR_ne, KIR_lt, KIR_le, KIR_ult};
    bool ints = t.base == KIR_I32 || t.base == KIR_I64;
    KirOpcode op = ops[rk_below(r, ints ? 5 : t.base == KIR_I1 ? 2 : 4)];
    KirId m = rk_op(r, op, kir_type(KIR_I1, t.lanes), rk_value(r, t), rk_value(r, t), KIR_NONE);
    if (rk_below(r, 3) == 0) m = rk_value(r, kir_type(KIR_I1, 1));
    KirType u = rk_type(r);
    u.lanes = t.lanes;
    rk_op(r, KIR_select, u, m, rk_value(r, u), rk_value(r, u));
}

static inline void rk_convert(Rk *r, KirType t)
{
    KirType to = rk_type(r);
    to.lanes = t.lanes;
    if (to.base == KIR_I1) to.base = KIR_I32;
    rk_op(r, KIR_convert, to, rk_value(r, t), KIR_NONE, KIR_NONE);
    KirType narrow = kir_type(KIR_I32, t.lanes), wide = kir_type(KIR_I64, t.lanes);
    if (!rk_below(r, 3)) rk_op(r, KIR_zext, wide, rk_value(r, narrow), KIR_NONE, KIR_NONE);
}

/* Bits of a float that is no NaN, and any bits as a float. */
static inline void rk_bits(Rk *r, KirType t)
{
    if (!rk_is_float(t)) t.base = KIR_F32;
    KirType bits = kir_type(t.base == KIR_F32 ? KIR_I32 : KIR_I64, t.lanes);
    KirId x = rk_value(r, t);
    KirId number = kir_op(&r->b, KIR_eq, t, x, x, KIR_NONE);
    KirId clean = kir_op(&r->b, KIR_select, t, number, x, kir_const(&r->b, t, 2));
    rk_op(r, KIR_bitcast, bits, clean, KIR_NONE, KIR_NONE);
    rk_op(r, KIR_bitcast, t, rk_value(r, bits), KIR_NONE, KIR_NONE);
}

static inline void rk_vector(Rk *r, KirType t)
{
    t.lanes = (uint8_t)(2u << rk_below(r, 4));
    KirType one = kir_type(t.base, 1);
    KirId v = rk_op(r, KIR_splat, t, rk_value(r, one), KIR_NONE, KIR_NONE);
    if (rk_below(r, 2)) v = rk_value(r, t);
    KirIns put = {.op = KIR_insert, .type = t, .args = {v, rk_value(r, one)}, .i = rk_below(r, t.lanes)};
    v = rk_keep(r, kir_ins(&r->b, put));
    KirIns take = {.op = KIR_extract, .type = one, .args = {v}, .i = rk_below(r, t.lanes)};
    rk_keep(r, kir_ins(&r->b, take));
    static const KirOpcode folds[] = {KIR_hadd, KIR_hmax, KIR_hmin, KIR_hmul};
    if (t.base != KIR_I1) rk_op(r, folds[rk_below(r, 4)], one, rk_value(r, t), KIR_NONE, KIR_NONE);
}

/* Lanes in another order and number. */
static inline void rk_shuffle(Rk *r, KirType t)
{
    t.lanes = (uint8_t)(2u << rk_below(r, 4));
    KirType u = kir_type(t.base, 2u << rk_below(r, 4));
    KirType small = t.lanes < u.lanes ? t : u, big = t.lanes < u.lanes ? u : t;
    KirIns repeat = {.op = KIR_repeat, .type = t, .args = {rk_value(r, u)}, .i = 1 + rk_below(r, 16)};
    rk_keep(r, kir_ins(&r->b, repeat));
    KirIns part = {
        .op = KIR_part, .type = small, .args = {rk_value(r, big)}, .i = rk_below(r, 1u + big.lanes - small.lanes)};
    rk_keep(r, kir_ins(&r->b, part));
    rk_op(r, KIR_shuffle, t, rk_value(r, u), rk_value(r, kir_type(KIR_I32, t.lanes)), KIR_NONE);
    rk_op(r, KIR_shuffle, kir_type(t.base, 1), rk_value(r, u), rk_value(r, kir_type(KIR_I32, 1)), KIR_NONE);
    unsigned group = 2u * t.lanes;
    while (group > 2 && rk_below(r, 2)) group /= 2;
    KirIns half = {
        .op = rk_below(r, 2) ? KIR_lower : KIR_upper, .type = t, .args = {rk_value(r, t), rk_value(r, t)}, .i = group};
    rk_keep(r, kir_ins(&r->b, half));
}

/* Where a load or store goes: a buffer of that type, or a private array of f32. */
static inline KirIns rk_place(Rk *r, KirOpcode op, KirType t, bool write)
{
    KirIns x = {.op = op, .type = t, .buf = KIR_NONE, .alloc = KIR_NONE, .stride = 1};
    static const uint8_t slot[] = {
        [KIR_I1] = 0, [KIR_I8] = 0, [KIR_I32] = 1, [KIR_I64] = 2, [KIR_F32] = 3, [KIR_F64] = 4};
    if (t.base == KIR_F32 && r->n_arrays && (!rk_below(r, 3) || (write && !r->may_store)))
        x.alloc = r->arrays[rk_below(r, r->n_arrays)];
    else {
        x.buf = slot[t.base] +
                (t.base == KIR_F32 && rk_below(r, 2) ? 2 + rk_below(r, 2) : 0u); /* f16 and bf16 lie behind f64 */
        if (write || (rk_below(r, 4) == 0 && !r->in_warps)) x.buf += RK_KINDS;
    }
    x.active = (uint8_t)(rk_below(r, 2) ? t.lanes : 1 + rk_below(r, t.lanes));
    if (op != KIR_gather && t.lanes > 1 && !rk_below(r, 3)) x.stride = rk_below(r, 5);
    return x;
}

static inline void rk_load(Rk *r, KirType t)
{
    bool gather = rk_below(r, 3) == 0;
    KirIns x = rk_place(r, gather ? KIR_gather : KIR_load, t, false);
    x.args[0] = rk_index(r, kir_type(gather && rk_below(r, 2) ? KIR_I32 : KIR_I64, gather ? t.lanes : 1));
    if (rk_below(r, 2)) x.f = t.base == KIR_I1 ? 1 : rk_is_float(t) && rk_below(r, 3) == 0 ? -INFINITY : -3;
    rk_keep(r, kir_ins(&r->b, x));
}

static inline void rk_store(Rk *r, KirType t)
{
    if (!r->may_store && !r->n_arrays) return;
    if (!r->may_store) t.base = KIR_F32;
    KirIns x = rk_place(r, KIR_store, t, true);
    if (!x.stride && t.lanes > 1) x.stride = 1;
    x.args[0] = rk_index(r, kir_type(KIR_I64, 1));
    x.args[1] = rk_value(r, t);
    if (x.buf != KIR_NONE && !rk_below(r, 6))
        kir_ins(&r->b, (KirIns){.op = KIR_prefetch, .args = {x.args[0]}, .buf = x.buf});
    kir_ins(&r->b, x);
}

static inline void rk_array(Rk *r)
{
    if (r->n_arrays == 4) return;
    KirType f = kir_type(KIR_F32, 1), l = kir_type(KIR_I64, 1);
    KirId array = kir_ins(&r->b, (KirIns){.op = KIR_alloc, .type = f, .i = RK_ELEMS});
    KirId value = rk_value(r, f), zero = kir_int(&r->b, l, 0), n = kir_int(&r->b, l, RK_ELEMS);
    KirId i = kir_for(&r->b, zero, n, 1, KIR_SEQ, "fill");
    kir_ins(&r->b, (KirIns){.op = KIR_store, .type = f, .args = {i, value}, .buf = KIR_NONE, .alloc = array});
    kir_end(&r->b);
    r->arrays[r->n_arrays++] = array;
}

static inline void rk_set(Rk *r)
{
    for (unsigned attempt = 0; attempt < 24 && r->pool.n; attempt++) {
        KirId id = r->pool.id[rk_below(r, r->pool.n)];
        KirType t = kir_result_type(r->b.k, id);
        if (r->b.k->ins.data[id].op != KIR_var) continue;
        rk_arith(r, t);
        kir_set(&r->b, id, rk_value(r, t));
        return;
    }
    KirType t = rk_type(r);
    rk_keep(r, kir_var(&r->b, rk_below(r, 2) ? "acc" : NULL, t, rk_value(r, t)));
}

static inline void rk_block(Rk *r, unsigned depth);

/* Runs the body of a block; what it defined goes out of scope. */
static inline void rk_scope(Rk *r, unsigned depth)
{
    uint32_t n = r->pool.n, n_arrays = r->n_arrays;
    rk_block(r, depth + 1);
    r->pool.n = n, r->n_arrays = n_arrays;
}

static inline void rk_for(Rk *r, unsigned depth)
{
    KirType l = kir_type(KIR_I64, 1);
    KirId from = kir_int(&r->b, l, rk_below(r, 3)), to = kir_int(&r->b, l, rk_below(r, 7));
    if (!rk_below(r, 3)) to = kir_var(&r->b, NULL, l, to);
    uint32_t n = r->pool.n;
    rk_keep(r, kir_for(&r->b, from, to, 1 + rk_below(r, 2), rk_below(r, 4) ? KIR_SEQ : KIR_UNROLL, NULL));
    rk_scope(r, depth);
    if (r->b.k->ins.data[to].op == KIR_var) kir_set(&r->b, to, from); /* the bound was read before */
    r->pool.n = n;
    kir_end(&r->b);
}

static inline void rk_loop(Rk *r, unsigned depth)
{
    KirType l = kir_type(KIR_I64, 1), b = kir_type(KIR_I1, 1);
    KirId count = kir_var(&r->b, "count", l, kir_int(&r->b, l, 0)), most = kir_int(&r->b, l, 1 + rk_below(r, 5)),
          one = kir_int(&r->b, l, 1);
    uint32_t n = r->pool.n;
    kir_loop(&r->b);
    KirId done = kir_op(&r->b, KIR_le, b, most, count, KIR_NONE);
    kir_ins(&r->b, (KirIns){.op = KIR_break_if, .args = {done}});
    rk_scope(r, depth);
    kir_set(&r->b, count, kir_op(&r->b, KIR_add, l, count, one, KIR_NONE));
    if (rk_below(r, 2)) kir_ins(&r->b, (KirIns){.op = KIR_break_if, .args = {rk_value(r, b)}});
    r->pool.n = n;
    kir_end(&r->b);
}

static inline void rk_if(Rk *r, unsigned depth)
{
    kir_if(&r->b, rk_value(r, kir_type(KIR_I1, 1)));
    rk_scope(r, depth);
    if (rk_below(r, 2)) {
        kir_else(&r->b);
        rk_scope(r, depth);
    }
    kir_end(&r->b);
}

static inline void rk_step(Rk *r, unsigned depth)
{
    KirType t = rk_type(r);
    switch (rk_below(r, depth < 3 ? 20 : 17)) {
    case 0:
    case 1:
    case 2:
    case 3: rk_arith(r, t); break;
    case 4: rk_divide(r, t); break;
    case 5:
    case 6: rk_choose(r, t); break;
    case 7: rk_convert(r, t); break;
    case 8: rk_bits(r, t); break;
    case 9: rk_below(r, 2) ? rk_shuffle(r, t) : rk_vector(r, t); break;
    case 10:
    case 11: rk_load(r, t); break;
    case 12:
    case 13: rk_store(r, t); break;
    case 14: rk_array(r); break;
    case 15:
    case 16: rk_set(r); break;
    case 17: rk_for(r, depth); break;
    case 18: rk_loop(r, depth); break;
    default: rk_if(r, depth); break;
    }
}

static inline void rk_block(Rk *r, unsigned depth)
{
    for (unsigned n = 2 + rk_below(r, 10); n && r->budget > 0; n--, r->budget--) rk_step(r, depth);
}

/* What is in scope at the end, into the buffers. */
static inline void rk_publish(Rk *r)
{
    for (unsigned i = 0; i < 12; i++) rk_store(r, kir_result_type(r->b.k, r->pool.id[rk_below(r, r->pool.n)]));
}

static inline KirKernel *kir_random(Arena *a, uint64_t seed, const char *name)
{
    KirKernel *k = kir_kernel_new(a, name);
    for (unsigned i = 0; i < RK_N_PARAMS; i++) kir_param(a, k, rk_params[i]);
    Rk r = {.b = kir_builder(a, k), .state = seed * 0x9e3779b97f4a7c15u + 1, .budget = 70};
    static const KirBase scalars[] = {KIR_I64, KIR_F32, KIR_F64};
    for (unsigned i = 0; i < 3; i++)
        rk_keep(&r, kir_ins(&r.b, (KirIns){.op = KIR_param, .type = kir_type(scalars[i], 1), .i = RK_N_BUFFERS + i}));
    bool threads = rk_below(&r, 2);
    r.may_store = !threads;
    rk_block(&r, 0);
    if (threads) {
        KirId zero = kir_int(&r.b, kir_type(KIR_I64, 1), 0);
        r.may_store = true;
        rk_keep(&r, kir_for(&r.b, zero, r.pool.id[0], 1, KIR_THREADS, "rows"));
    }
    while (r.budget > 20) rk_block(&r, 0);
    rk_publish(&r);
    if (threads) kir_end(&r.b);
    return k;
}

/* ---- data --------------------------------------------------------------------------------------- */

typedef struct RkData { /* one buffer per parameter, wide enough for every type */
    int64_t words[RK_N_BUFFERS][RK_ELEMS];
    RtArg args[RK_N_PARAMS];
    int64_t n_elems[RK_N_PARAMS];
} RkData;

static inline double rk_float(Rk *r)
{
    if (!rk_below(r, 40)) return rk_below(r, 2) ? NAN : -INFINITY;
    return ((double)rk_below(r, 1u << 20) * 0x1p-19 - 1) * (rk_below(r, 4) ? 4 : 1e6);
}

static inline void rk_fill(Rk *r, KirBase base, void *p, unsigned i)
{
    switch (base) {
    case KIR_I8: ((int8_t *)p)[i] = (int8_t)rk_below(r, 2); break;
    case KIR_I32: ((int32_t *)p)[i] = (int32_t)rk_below(r, UINT32_MAX) >> rk_below(r, 31); break;
    case KIR_I64:
        ((int64_t *)p)[i] = (int64_t)((uint64_t)rk_below(r, UINT32_MAX) << 32 | rk_below(r, UINT32_MAX)) >>
                            rk_below(r, 63);
        break;
    case KIR_F32: ((float *)p)[i] = (float)rk_float(r); break;
    case KIR_F16:
    case KIR_BF16: ((uint16_t *)p)[i] = (uint16_t)rk_below(r, 1 << 16); break;
    default: ((double *)p)[i] = rk_float(r); break;
    }
}

static inline void rk_data(RkData *d, uint64_t seed)
{
    Rk r = {.state = seed * 0x9e3779b97f4a7c15u + 7};
    memset(d, 0, sizeof *d);
    for (unsigned p = 0; p < RK_N_BUFFERS; p++) {
        for (unsigned i = 0; i < RK_ELEMS; i++) rk_fill(&r, rk_params[p].elem, d->words[p], i);
        d->args[p].p = d->words[p];
        d->n_elems[p] = RK_ELEMS;
    }
    d->args[RK_N_BUFFERS].i = RK_ROWS;
    d->args[RK_N_BUFFERS + 1].f = (double)(float)rk_float(&r);
    d->args[RK_N_BUFFERS + 2].f = rk_float(&r);
}

static inline bool rk_equal(KirBase base, const void *a, const void *b, unsigned i)
{
    size_t n = kir_base_bytes(base);
    if (!memcmp((const char *)a + i * n, (const char *)b + i * n, n)) return true;
    if (kir_is_16_bits(base)) {
        unsigned most = base == KIR_F16 ? 0x7c00 : 0x7f80;
        return (((const uint16_t *)a)[i] & 0x7fff) > most && (((const uint16_t *)b)[i] & 0x7fff) > most;
    }
    if (base == KIR_F32) return isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]);
    return base == KIR_F64 && isnan(((const double *)a)[i]) && isnan(((const double *)b)[i]);
}

/* The first difference of two runs' buffers, or NULL. */
static inline const char *rk_compare(Arena *a, const RkData *x, const RkData *y)
{
    for (unsigned p = 0; p < RK_N_BUFFERS; p++)
        for (unsigned i = 0; i < RK_ELEMS; i++)
            if (!rk_equal(rk_params[p].elem, x->words[p], y->words[p], i))
                return arena_printf(a, "%s[%u] differs", rk_params[p].name, i);
    return NULL;
}
