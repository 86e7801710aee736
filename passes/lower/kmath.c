/* Expansions around the exponential: exp, expm1, sigmoid, tanh, erf (passes/lower/kmath.h). Every one
   reduces x = n ln 2 + r, |r| <= ln(2)/2, and takes exp(r) - 1 = r + r^2 q(r). The polynomials are
   minimax approximations found with Remez' exchange algorithm, then rounded. Never a branch:
   alternatives are computed both and selected. */
#include "passes/lower/kmath_parts.h"

/* (exp(r) - 1 - r) / r^2 on |r| <= 0.3483; error of exp below 2^-31 and 2^-59. */
static const double exp_f32[] = {0.5, 0x1.555556p-3, 0x1.5554b0p-5, 0x1.111090p-7, 0x1.6d7314p-10, 0x1.a1a264p-13};
static const double exp_f64[] = {0.5,
                                 0x1.5555555555555p-3,
                                 0x1.5555555555559p-5,
                                 0x1.1111111111114p-7,
                                 0x1.6c16c16c14e8dp-10,
                                 0x1.a01a01a017d52p-13,
                                 0x1.a01a01ad8d7cdp-16,
                                 0x1.71de3a6181ca9p-19,
                                 0x1.27e4cc55598b3p-22,
                                 0x1.ae6411cdad900p-26,
                                 0x1.1f8b27140f9acp-29,
                                 0x1.61e6321ef44adp-33};
/* erf(x) / x - 1 in x^2, |x| <= 0.92 (f32), 1 (f64) */
static const double erf_f32[] = {0x1.06eba8p-3, -0x1.812744p-2,  0x1.ce2e34p-4, -0x1.b8122ap-6,
                                 0x1.54ea6ap-8, -0x1.ab6ec6p-11, 0x1.60bcfap-14};
static const double erf_f64[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b34p-4,
                                 -0x1.b82ce31284f38p-6,  0x1.565bcd0dbd922p-8,   -0x1.c02db3db4989dp-11,
                                 0x1.f9a321e4bc150p-14,  -0x1.f4d1e4351d222p-17, 0x1.b9df306299835p-20,
                                 -0x1.5f1f4134f49bep-23, 0x1.f7b9a036e904bp-27,  -0x1.38ac2bcb75734p-30,
                                 0x1.062774aa4295dp-34};
/* -log(1 - erf(x)) on [0.9, 4] (f32), [0.99, 6] (f64), weighted by (1 - erf) / erf */
static const double erfc_f32[] = {-0x1.3bdff6p-13, 0x1.211f2cp+0,   0x1.446f7ap-1,  0x1.b9ca22p-4, -0x1.95ea4ep-6,
                                  0x1.05c7dcp-8,   -0x1.8d61b2p-12, 0x1.7c4974p-17, 0x1.8b1a40p-21};
static const double erfc_f64[] = {0x1.f890c0769a8e4p-22,  0x1.20dd24fb9d439p+0,   0x1.45f5faa9d5d6fp-1,
                                  0x1.a4b01717a3acep-4,   -0x1.373e173f43fd0p-6,  -0x1.a5482aad18730p-12,
                                  0x1.f3df3744c7480p-10,  -0x1.90420a8f7f72dp-11, 0x1.11ce24429dd70p-13,
                                  0x1.78ffb2348aaf5p-16,  -0x1.8d368dc399439p-16, 0x1.2b82964869697p-17,
                                  -0x1.26cff3ab830a3p-19, 0x1.9c780ccf44f03p-22,  -0x1.9ae94aeda74dfp-25,
                                  0x1.171956b3be0a2p-28,  -0x1.d130559c25760p-33, 0x1.67913dcf71283p-38};

#define PICK_POLYNOMIAL(m, name, x) ((m)->dbl ? POLYNOMIAL(m, name##_f64, x) : POLYNOMIAL(m, name##_f32, x))

typedef struct Reduced {
    KirId n;     /* round(x / ln 2), a float */
    KirId em1;   /* exp(r) - 1 */
    KirId scale; /* 2^(n + bias) */
} Reduced;

/* A number whose sum with y rounds y to an integer and leaves it in the low bits, exponent bias and the given one
   added: shifted up, they are the exponent of a power of two. For NaN too, without undefined conversions. */
static double magic_f32(int bias) { return 0x1.8p23 + 127 + bias; }
static double magic_f64(int bias) { return 0x1.8p52 + 1023 + bias; }

static Reduced reduce(const Km *m, KirId x, KirId lo, KirId magic)
{
    KirId t = k_fma(m, x, k_const(m, 0x1.71547652b82fep+0), magic);
    KirId n = k_sub(m, t, magic);
    KirId r = k_fma(m, n, k_pick(m, -0x1.62e430p-1, -0x1.62e42fefa39efp-1), x);
    r = k_fma(m, n, k_pick(m, 0x1.05c610p-29, -0x1.abc9e3b39803fp-56), r);
    if (lo != KIR_NONE) r = k_add(m, r, lo);
    KirId rr = k_mul(m, r, r);
    KirId q = m->dbl ? polynomial_pairs(m, exp_f64, sizeof exp_f64 / sizeof *exp_f64, r, rr)
                     : polynomial_pairs(m, exp_f32, sizeof exp_f32 / sizeof *exp_f32, r, rr);
    KirId em1 = k_fma(m, q, rr, r);
    return (Reduced){n, em1, as_float(m, k_i2(m, KIR_shl, as_int(m, t), k_ipick(m, 23, 52)))};
}

static KirId biased(const Km *m, int bias32, int bias64) { return k_pick(m, magic_f32(bias32), magic_f64(bias64)); }

/* 2^n (1 + em1) in two steps, of which the first is exact but for the sum: denormal results round at the end. With
   numbers below 0 the first power is too large by 2^32 (2^64), with others too small: both are normal. */
KirId kmath_exp_core(const Km *m, KirId x, KirId lo)
{
    KirId below = k_cmp(m, KIR_lt, x, k_const(m, 0));
    Reduced r = reduce(m, x, lo, k_select(m, below, biased(m, 32, 64), biased(m, -32, -64)));
    KirId rest = k_select(m, below, k_pick(m, 0x1p-32, 0x1p-64), k_pick(m, 0x1p32, 0x1p64));
    return k_mul(m, k_fma(m, r.em1, r.scale, r.scale), rest);
}

/* The same for x <= 0. */
static KirId exp_below(const Km *m, KirId x)
{
    Reduced r = reduce(m, x, KIR_NONE, biased(m, 32, 64));
    return k_mul(m, k_fma(m, r.em1, r.scale, r.scale), k_pick(m, 0x1p-32, 0x1p-64));
}

static KirId clamp(const Km *m, KirId x, KirId low, KirId high)
{
    return k_f2(m, KIR_min, k_f2(m, KIR_max, x, low), high);
}

static bool has_sign(const KirKernel *k, KirId v, int sign, int depth);

/* 1 + e, as under a sigmoid. */
static bool is_above(const KirKernel *k, KirId v)
{
    const KirIns *x = &k->ins.data[v], *one = &k->ins.data[x->args[0]];
    return x->op == KIR_add && one->op == KIR_const && one->f > 0 && has_sign(k, x->args[1], 1, 2);
}

/* Whether x sign >= 0, or NaN, follows from the instructions that make x. */
static bool has_sign(const KirKernel *k, KirId v, int sign, int depth)
{
    const KirIns *x = &k->ins.data[v];
    const KirId a = x->args[0], b = x->args[1];
    if (!depth) return false;
#define HAS(v, s) has_sign(k, v, s, depth - 1)
    switch (x->op) {
    case KIR_const: return x->f * sign >= 0;
    case KIR_abs:
    case KIR_sqrt: return sign > 0;
    case KIR_neg: return HAS(a, -sign);
    case KIR_splat: return HAS(a, sign);
    case KIR_add: return HAS(a, sign) && HAS(b, sign);
    case KIR_sub: return HAS(a, sign) && HAS(b, -sign);
    case KIR_mul: return (sign > 0 && a == b) || (HAS(a, 1) && HAS(b, sign)) || (HAS(a, -1) && HAS(b, -sign));
    case KIR_div: return is_above(k, b) && HAS(a, sign);
    /* an exponential: 2^n + em1 2^n */
    case KIR_fma: return sign > 0 && b == x->args[2] && k->ins.data[b].op == KIR_bitcast;
    case KIR_select: return HAS(b, sign) && HAS(x->args[2], sign);
    case KIR_max: return sign > 0 ? HAS(a, 1) || HAS(b, 1) : HAS(a, -1) && HAS(b, -1);
    case KIR_min: return sign < 0 ? HAS(a, -1) || HAS(b, -1) : HAS(a, 1) && HAS(b, 1);
    default: return false;
    }
#undef HAS
}

/* Decays, exp(-|x|) or exp(-x x), spare what others pay for numbers above 0; the bits are the same. */
KirId kmath_exp(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId low = k_pick(&m, -105, -746);
    if (has_sign(b->k, x, -1, 6)) return exp_below(&m, k_f2(&m, KIR_max, x, low));
    return kmath_exp_core(&m, clamp(&m, x, low, k_pick(&m, 89, 710)), KIR_NONE);
}

/* 2^n (em1 + 1) - 1 = 2 (s em1 + (s - 1/2)), s = 2^(n-1): the half keeps s finite where exp still
 * is. */
KirId kmath_expm1(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId near = clamp(&m, x, k_pick(&m, -25, -50), k_pick(&m, 89, 710));
    Reduced r = reduce(&m, near, KIR_NONE, biased(&m, -1, -1));
    KirId y = k_fma(&m, r.scale, r.em1, k_sub(&m, r.scale, k_const(&m, 0.5)));
    KirId tiny = k_cmp(&m, KIR_lt, k_abs(&m, x), k_pick(&m, 0x1p-30, 0x1p-60)); /* also keeps -0 */
    return k_select(&m, tiny, x, k_add(&m, y, y));
}

/* e / (1 + e) or 1 / (1 + e), e = exp(-|x|): the numerator is never above 1. */
KirId kmath_sigmoid(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId one = k_const(&m, 1);
    KirId e = exp_below(&m, k_f2(&m, KIR_max, k_neg(&m, k_abs(&m, x)), k_pick(&m, -105, -746)));
    KirId top = k_select(&m, k_cmp(&m, KIR_le, k_const(&m, 0), x), one, e);
    return k_div(&m, top, k_add(&m, one, e));
}

/* -m / (m + 2), m = exp(-2|x|) - 1 = s em1 + (s - 1) with s = 2^n <= 1: near 0 s is 1, and m as exact as em1. */
KirId kmath_tanh(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId a = k_abs(&m, x), far = k_f2(&m, KIR_min, a, k_const(&m, 30)); /* tanh rounds to 1 from 20 on */
    Reduced r = reduce(&m, k_mul(&m, far, k_const(&m, -2)), KIR_NONE, biased(&m, 0, 0));
    KirId em1 = k_fma(&m, r.scale, r.em1, k_sub(&m, r.scale, k_const(&m, 1)));
    return with_sign(&m, k_abs(&m, k_div(&m, em1, k_add(&m, em1, k_const(&m, 2)))), x);
}

KirId kmath_erf(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId a = k_abs(&m, x);
    KirId small = k_fma(&m, x, PICK_POLYNOMIAL(&m, erf, k_mul(&m, x, x)), x);
    KirId far = k_f2(&m, KIR_min, a, k_pick(&m, 4, 6)); /* erf rounds to 1 there */
    KirId tail = exp_below(&m, k_neg(&m, PICK_POLYNOMIAL(&m, erfc, far)));
    KirId large = k_sub(&m, k_const(&m, 1), tail);
    return k_select(&m, k_cmp(&m, KIR_le, a, k_pick(&m, 0.91, 0.995)), small, with_sign(&m, large, x));
}
