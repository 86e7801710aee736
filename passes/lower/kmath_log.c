/* Expansions around the logarithm: log, log1p, pow (passes/lower/kmath.h). x = 2^k m with m in
   [sqrt(1/2), sqrt(2)) by arithmetic on the bits; log(m) by a minimax polynomial. f32 evaluates in
   f = m - 1; f64 in s = f / (2 + f), after fdlibm's e_log.c; pow in f64 keeps log as an unevaluated
   pair. Never a branch. */
#include "passes/lower/kmath_parts.h"

/* (log(1+f) - f + f^2/2) / f^3, f in [sqrt(1/2) - 1, sqrt(2) - 1] */
static const double log_f32[] = {0x1.555548p-2,  -0x1.ffffeep-3, 0x1.99a474p-3,  -0x1.556286p-3, 0x1.2340b0p-3,
                                 -0x1.fb5c08p-4, 0x1.e5b082p-4,  -0x1.e22eacp-4, 0x1.1bb580p-4};
/* (log((1+s)/(1-s)) - 2s) / s^3 in s^2, |s| <= 0.1716 */
static const double log_f64[] = {0x1.5555555555592p-1, 0x1.999999997feedp-2, 0x1.24924941e55e3p-2, 0x1.c71c52100893ep-3,
                                 0x1.74663df9f896ap-3, 0x1.39a1ca05757c3p-3, 0x1.2f050fd50d6aep-3};
/* (log((1+s)/(1-s))/2 - s - s^3/3) / s^5 in s^2 */
static const double pow_f64[] = {0x1.999999999999ap-3, 0x1.2492492492523p-3, 0x1.c71c71c6ea329p-4,
                                 0x1.745d177aeebd4p-4, 0x1.3b1395b02d862p-4, 0x1.1118ce8c99bc4p-4,
                                 0x1.df7b7d5f1def8p-5, 0x1.e03b1b2eda107p-5};

/* ln 2 in two pieces; the first of f64 has 21 trailing zero bits, so that k times it is exact. */
static KirId ln2_hi(const Km *m) { return k_pick(m, 0x1.62e430p-1, 0x1.62e42fee00000p-1); }
static KirId ln2_lo(const Km *m) { return k_pick(m, -0x1.05c610p-29, 0x1.a39ef35793c76p-33); }

typedef struct Split {
    KirId k; /* as a float */
    KirId f; /* m - 1, exact */
} Split;

/* Of a positive finite x. Denormals are scaled into the normal range first. */
static Split split(const Km *m, KirId x)
{
    KirId denormal = k_cmp(m, KIR_lt, x, k_pick(m, 0x1p-126, 0x1p-1022));
    KirId scaled = k_select(m, denormal, k_mul(m, x, k_pick(m, 0x1p23, 0x1p54)), x);
    KirId bits = as_int(m, scaled), shift = k_ipick(m, 23, 52);
    KirId k = k_i2(m, KIR_ashr, k_i2(m, KIR_sub, bits, k_ipick(m, 0x3f3504f3, 0x3fe6a09e667f3bcd)), shift);
    KirId mantissa = as_float(m, k_i2(m, KIR_sub, bits, k_i2(m, KIR_shl, k, shift)));
    KirId kf = kir_op(m->b, KIR_convert, m->f, k, KIR_NONE, KIR_NONE);
    KirId adjust = k_select(m, denormal, k_pick(m, -23, -54), k_const(m, 0));
    return (Split){k_add(m, kf, adjust), k_sub(m, mantissa, k_const(m, 1))};
}

/* k ln 2 + log(1 + f) + c, c small or KIR_NONE. */
static KirId log_core(const Km *m, Split x, KirId c)
{
    KirId f = x.f, low, sum;
    if (m->dbl) {
        KirId half = k_mul(m, k_mul(m, k_const(m, 0.5), f), f);
        KirId s = k_div(m, f, k_add(m, k_const(m, 2), f)), z = k_mul(m, s, s);
        KirId r = k_mul(m, z, POLYNOMIAL(m, log_f64, z));
        low = k_fma(m, x.k, ln2_lo(m), c == KIR_NONE ? k_const(m, 0) : c);
        low = k_fma(m, s, k_add(m, half, r), low);
        sum = k_sub(m, f, k_sub(m, half, low));
    } else {
        KirId cube = k_mul(m, f, k_mul(m, f, f));
        low = k_mul(m, cube, POLYNOMIAL(m, log_f32, f));
        low = k_fma(m, x.k, ln2_lo(m), low);
        if (c != KIR_NONE) low = k_add(m, low, c);
        low = k_fma(m, k_mul(m, k_const(m, -0.5), f), f, low);
        sum = k_add(m, f, low);
    }
    return k_fma(m, x.k, ln2_hi(m), sum);
}

/* y for 0 < x < inf; -inf at 0, inf at inf, NaN below and for NaN. */
static KirId log_edges(const Km *m, KirId x, KirId y)
{
    KirId zero = k_const(m, 0), inf = k_const(m, INFINITY);
    KirId outside = k_select(m, k_cmp(m, KIR_eq, x, zero), k_const(m, -INFINITY), k_const(m, NAN));
    y = k_select(m, k_cmp(m, KIR_lt, zero, x), y, outside);
    return k_select(m, k_cmp(m, KIR_eq, x, inf), inf, y);
}

KirId kmath_log(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    return log_edges(&m, x, log_core(&m, split(&m, x), KIR_NONE));
}

/* log(u) + c/u with u = round(1 + x), c = 1 + x - u; where u is near 1, log(1 + f) with f = x
 * itself. */
KirId kmath_log1p(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId one = k_const(&m, 1), zero = k_const(&m, 0);
    KirId u = k_add(&m, one, x), part = k_sub(&m, u, one);
    KirId c = k_add(&m, k_sub(&m, one, k_sub(&m, u, part)), k_sub(&m, x, part));
    Split s = split(&m, u);
    KirId near = k_cmp(&m, KIR_eq, s.k, zero);
    s.f = k_select(&m, near, x, s.f);
    KirId y = log_core(&m, s, k_select(&m, near, zero, k_div(&m, c, u)));
    KirId tiny = k_cmp(&m, KIR_lt, k_abs(&m, x), k_pick(&m, 0x1p-30, 0x1p-60));
    return k_select(&m, tiny, x, log_edges(&m, u, y));
}

/* a + b as a pair; exact when |a| >= |b| or a = 0. */
static KmPair fast_sum(const Km *m, KirId a, KirId b)
{
    KirId hi = k_add(m, a, b);
    return (KmPair){hi, k_sub(m, b, k_sub(m, hi, a))};
}

static KmPair product(const Km *m, KirId a, KirId b)
{
    KirId hi = k_mul(m, a, b);
    return (KmPair){hi, k_fma(m, a, b, k_neg(m, hi))};
}

static KmPair pair_product(const Km *m, KmPair a, KmPair b)
{
    KmPair p = product(m, a.hi, b.hi);
    p.lo = k_fma(m, a.lo, b.hi, k_fma(m, a.hi, b.lo, p.lo));
    return p;
}

/* log of a positive finite f64 to about 2^-64 of its size. log(m) = 2 s (1 + z (1/3 + z P(z))), z =
 * s^2. */
static KmPair log_pair(const Km *m, KirId x)
{
    Split p = split(m, x);
    KirId two = k_const(m, 2), d = k_add(m, two, p.f), d_lo = k_sub(m, p.f, k_sub(m, d, two));
    KmPair s = {.hi = k_div(m, p.f, d)};
    KirId rest = k_fma(m, k_neg(m, s.hi), d_lo, k_fma(m, k_neg(m, s.hi), d, p.f));
    s.lo = k_div(m, rest, d);
    KmPair z = pair_product(m, s, s);
    KmPair w = fast_sum(m, k_const(m, 0x1.5555555555555p-2), k_mul(m, z.hi, POLYNOMIAL(m, pow_f64, z.hi)));
    w.lo = k_add(m, w.lo, k_const(m, 0x1.5555555555555p-56));
    KmPair rise = pair_product(m, s, pair_product(m, z, w));
    KmPair y = fast_sum(m, s.hi, rise.hi);
    y.lo = k_add(m, y.lo, k_add(m, s.lo, rise.lo));
    KmPair sum = fast_sum(m, k_mul(m, p.k, ln2_hi(m)), k_add(m, y.hi, y.hi));
    KirId low = k_fma(m, p.k, ln2_lo(m), k_add(m, y.lo, y.lo));
    return fast_sum(m, sum.hi, k_add(m, sum.lo, low));
}

/* |x|^y for x > 0 or 0 or inf, as an f64, before the rules for special operands. `rounded`: to f32 behind it. Where
   that is finite |y log x| is below 104, so that an error of 2^-52 of log x is one of 2^-45 of the power. */
static KirId pow_core(const Km *m, KirId x, KirId y, bool rounded)
{
    KirId zero = k_const(m, 0), inf = k_const(m, INFINITY);
    KirId is_zero = k_cmp(m, KIR_eq, x, zero), is_inf = k_cmp(m, KIR_eq, x, inf);
    KmPair l = rounded ? (KmPair){log_core(m, split(m, x), KIR_NONE), zero} : log_pair(m, x);
    l.hi = k_select(m, is_zero, k_const(m, -INFINITY), k_select(m, is_inf, inf, l.hi));
    l.hi = k_select(m, k_cmp(m, KIR_le, zero, x), l.hi, k_const(m, NAN)); /* only a NaN is not >= 0 */
    KmPair z = {k_mul(m, y, l.hi), zero};
    if (!rounded) {
        z = product(m, y, l.hi);
        z.lo = k_fma(m, y, l.lo, z.lo);
        KirId sane = k_cmp(m, KIR_lt, k_abs(m, z.hi), k_const(m, 2000));
        z.lo = k_select(m, sane, z.lo, zero);
    }
    z.hi = k_f2(m, KIR_min, k_f2(m, KIR_max, z.hi, k_const(m, -746)), k_const(m, 710));
    return kmath_exp_core(m, z.hi, z.lo);
}

static KirId is_integer(const Km *m, KirId y)
{
    return k_cmp(m, KIR_eq, kir_op(m->b, KIR_floor, m->f, y, KIR_NONE, KIR_NONE), y);
}

/* C's rules (C11 F.10.4.4) around r = |x|^y. */
static KirId pow_edges(const Km *m, KirId x, KirId y, KirId r)
{
    KirId zero = k_const(m, 0), one = k_const(m, 1), inf = k_const(m, INFINITY), a = k_abs(m, x);
    KirType i1 = kir_type(KIR_I1, m->f.lanes);
    KirId endless = k_both(m, k_cmp(m, KIR_eq, a, one), k_cmp(m, KIR_eq, k_abs(m, y), inf));
    r = k_select(m, endless, one, r);
    KirId whole = is_integer(m, y);
    KirId even = is_integer(m, k_mul(m, y, k_const(m, 0.5)));
    KirId odd = k_both(m, whole, kir_op(m->b, KIR_xor, i1, even, kir_int(m->b, i1, 1), KIR_NONE));
    r = k_select(m, odd, with_sign(m, r, x), r);
    KirId below = k_both(m, k_cmp(m, KIR_lt, x, zero), k_cmp(m, KIR_lt, k_const(m, -INFINITY), x));
    KirId broken = k_both(m, below, k_cmp(m, KIR_ne, kir_op(m->b, KIR_floor, m->f, y, KIR_NONE, KIR_NONE), y));
    r = k_select(m, broken, k_const(m, NAN), r);
    KirId sure = kir_op(m->b, KIR_or, i1, k_cmp(m, KIR_eq, x, one), k_cmp(m, KIR_eq, y, zero), KIR_NONE);
    return k_select(m, sure, one, r);
}

KirId kmath_pow(KirBuilder *b, KirType t, KirId x, KirId y)
{
    Km m = km_new(b, kir_type(KIR_F64, t.lanes)); /* f32 is computed in f64: y log(x) needs the bits */
    if (t.base == KIR_F32) {
        x = kir_op(b, KIR_convert, m.f, x, KIR_NONE, KIR_NONE);
        y = kir_op(b, KIR_convert, m.f, y, KIR_NONE, KIR_NONE);
    }
    KirId r = pow_edges(&m, x, y, pow_core(&m, k_abs(&m, x), y, t.base == KIR_F32));
    return t.base == KIR_F32 ? kir_op(b, KIR_convert, t, r, KIR_NONE, KIR_NONE) : r;
}
