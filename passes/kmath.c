/* Expansions around the exponential: exp, expm1, sigmoid, tanh, erf (passes/kmath.h). Every one
   reduces x = n ln 2 + r, |r| <= ln(2)/2, and takes exp(r) - 1 = r + r^2 q(r). The polynomials are
   minimax approximations found with Remez' exchange algorithm, then rounded. Never a branch:
   alternatives are computed both and selected. */
#include "passes/kmath_parts.h"

/* (exp(r) - 1 - r) / r^2 on |r| <= 0.3483; error of exp below 2^-31 and 2^-59. */
static const double exp_f32[] = {0.5,           0x1.555556p-3,  0x1.5554b0p-5,
                                 0x1.111090p-7, 0x1.6d7314p-10, 0x1.a1a264p-13};
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
/* (tanh(x) - x) / x^3 in x^2, |x| <= 0.56 */
static const double tanh_f32[] = {-0x1.55554ap-2, 0x1.110cd8p-3, -0x1.b91882p-5, 0x1.58a54ap-6,
                                  -0x1.9777f8p-8};
static const double tanh_f64[] = {
    -0x1.555555555554dp-2,  0x1.11111111104aap-3,  -0x1.ba1ba1b9502c9p-5,  0x1.664f484ee30a5p-6,
    -0x1.226e2dafd3bf3p-7,  0x1.d6d261da99847p-9,  -0x1.7d8cdbca4a9fcp-10, 0x1.346ac5941af76p-11,
    -0x1.e86d7dc461a0bp-13, 0x1.5a826e9bea7edp-14, -0x1.3fa9b9c04ae08p-16};
/* erf(x) / x - 1 in x^2, |x| <= 0.92 (f32), 1 (f64) */
static const double erf_f32[] = {0x1.06eba8p-3, -0x1.812744p-2,  0x1.ce2e34p-4, -0x1.b8122ap-6,
                                 0x1.54ea6ap-8, -0x1.ab6ec6p-11, 0x1.60bcfap-14};
static const double erf_f64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e6p-2,  0x1.ce2f21a042b34p-4,  -0x1.b82ce31284f38p-6,
    0x1.565bcd0dbd922p-8,  -0x1.c02db3db4989dp-11, 0x1.f9a321e4bc150p-14, -0x1.f4d1e4351d222p-17,
    0x1.b9df306299835p-20, -0x1.5f1f4134f49bep-23, 0x1.f7b9a036e904bp-27, -0x1.38ac2bcb75734p-30,
    0x1.062774aa4295dp-34};
/* -log(1 - erf(x)) on [0.9, 4] (f32), [0.99, 6] (f64), weighted by (1 - erf) / erf */
static const double erfc_f32[] = {-0x1.3bdff6p-13, 0x1.211f2cp+0,  0x1.446f7ap-1,
                                  0x1.b9ca22p-4,   -0x1.95ea4ep-6, 0x1.05c7dcp-8,
                                  -0x1.8d61b2p-12, 0x1.7c4974p-17, 0x1.8b1a40p-21};
static const double erfc_f64[] = {
    0x1.f890c0769a8e4p-22,  0x1.20dd24fb9d439p+0,   0x1.45f5faa9d5d6fp-1,   0x1.a4b01717a3acep-4,
    -0x1.373e173f43fd0p-6,  -0x1.a5482aad18730p-12, 0x1.f3df3744c7480p-10,  -0x1.90420a8f7f72dp-11,
    0x1.11ce24429dd70p-13,  0x1.78ffb2348aaf5p-16,  -0x1.8d368dc399439p-16, 0x1.2b82964869697p-17,
    -0x1.26cff3ab830a3p-19, 0x1.9c780ccf44f03p-22,  -0x1.9ae94aeda74dfp-25, 0x1.171956b3be0a2p-28,
    -0x1.d130559c25760p-33, 0x1.67913dcf71283p-38};

#define PICK_POLYNOMIAL(m, name, x)                                                                \
    ((m)->dbl ? POLYNOMIAL(m, name##_f64, x) : POLYNOMIAL(m, name##_f32, x))

typedef struct Reduced {
    KirId n;   /* integer vector: round(x / ln 2) */
    KirId em1; /* exp(r) - 1 */
} Reduced;

/* Adding 1.5 * 2^23 (2^52) rounds to an integer and leaves it in the low bits, for NaN too without
   undefined conversions. */
static Reduced reduce(const Km *m, KirId x, KirId lo)
{
    KirId magic = k_pick(m, 0x1.8p23, 0x1.8p52);
    KirId t = k_fma(m, x, k_const(m, 0x1.71547652b82fep+0), magic);
    KirId n = k_sub(m, t, magic);
    KirId r = k_fma(m, n, k_pick(m, -0x1.62e430p-1, -0x1.62e42fefa39efp-1), x);
    r = k_fma(m, n, k_pick(m, 0x1.05c610p-29, -0x1.abc9e3b39803fp-56), r);
    if (lo != KIR_NONE) r = k_add(m, r, lo);
    KirId q = PICK_POLYNOMIAL(m, exp, r);
    KirId em1 = k_fma(m, q, k_mul(m, r, r), r);
    return (Reduced){k_i2(m, KIR_sub, as_int(m, t), k_ipick(m, 0x4b400000, 0x4338000000000000)),
                     em1};
}

/* 2^n for n inside the normal exponents. */
static KirId power_of_two(const Km *m, KirId n)
{
    KirId bits = k_i2(m, KIR_shl, n, k_ipick(m, 23, 52));
    return as_float(m, k_i2(m, KIR_add, bits, k_ipick(m, 0x3f800000, 0x3ff0000000000000)));
}

KirId kmath_exp_core(const Km *m, KirId x, KirId lo)
{
    Reduced r = reduce(m, x, lo);
    KirId half = k_i2(m, KIR_ashr, r.n,
                      k_int(m, 1)); /* two factors: denormal results round once, at the end */
    KirId y = k_mul(m, k_add(m, r.em1, k_const(m, 1)), power_of_two(m, half));
    return k_mul(m, y, power_of_two(m, k_i2(m, KIR_sub, r.n, half)));
}

static KirId clamp(const Km *m, KirId x, KirId low, KirId high)
{
    return k_f2(m, KIR_min, k_f2(m, KIR_max, x, low), high);
}

KirId kmath_exp(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    return kmath_exp_core(&m, clamp(&m, x, k_pick(&m, -105, -746), k_pick(&m, 89, 710)), KIR_NONE);
}

/* 2^n (em1 + 1) - 1 = 2 (s em1 + (s - 1/2)), s = 2^(n-1): the half keeps s finite where exp still
 * is. */
KirId kmath_expm1(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    Reduced r = reduce(&m, clamp(&m, x, k_pick(&m, -25, -50), k_pick(&m, 89, 710)), KIR_NONE);
    KirId s = power_of_two(&m, k_i2(&m, KIR_sub, r.n, k_int(&m, 1)));
    KirId y = k_fma(&m, s, r.em1, k_sub(&m, s, k_const(&m, 0.5)));
    KirId tiny = k_cmp(&m, KIR_lt, k_abs(&m, x), k_pick(&m, 0x1p-30, 0x1p-60)); /* also keeps -0 */
    return k_select(&m, tiny, x, k_add(&m, y, y));
}

KirId kmath_sigmoid(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId one = k_const(&m, 1);
    KirId a = k_f2(&m, KIR_max, k_neg(&m, k_abs(&m, x)), k_pick(&m, -105, -746));
    KirId e = kmath_exp_core(&m, a, KIR_NONE); /* never above 1 */
    KirId top = k_select(&m, k_cmp(&m, KIR_le, k_const(&m, 0), x), one, e);
    KirId sum = k_add(&m, one, e), lost = k_sub(&m, e, k_sub(&m, sum, one)),
          inverse = k_div(&m, one, sum);
    KirId y = k_mul(&m, top, inverse);
    KirId rest =
        k_sub(&m, k_fma(&m, k_neg(&m, y), sum, top), k_mul(&m, y, lost)); /* one step of division */
    return k_fma(&m, rest, inverse, y);
}

KirId kmath_tanh(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId a = k_abs(&m, x), z = k_mul(&m, x, x), one = k_const(&m, 1);
    KirId small = k_fma(&m, k_mul(&m, a, z), PICK_POLYNOMIAL(&m, tanh, z), a);
    KirId far = k_f2(&m, KIR_min, a, k_const(&m, 30)); /* tanh rounds to 1 from 20 on */
    KirId e = kmath_exp_core(&m, k_add(&m, far, far), KIR_NONE);
    KirId large = k_sub(&m, one, k_div(&m, k_const(&m, 2), k_add(&m, e, one)));
    return with_sign(&m, k_select(&m, k_cmp(&m, KIR_le, a, k_const(&m, 0.55)), small, large), x);
}

KirId kmath_erf(KirBuilder *b, KirType t, KirId x)
{
    Km m = km_new(b, t);
    KirId a = k_abs(&m, x);
    KirId small = k_fma(&m, x, PICK_POLYNOMIAL(&m, erf, k_mul(&m, x, x)), x);
    KirId far = k_f2(&m, KIR_min, a, k_pick(&m, 4, 6)); /* erf rounds to 1 there */
    KirId tail = kmath_exp_core(&m, k_neg(&m, PICK_POLYNOMIAL(&m, erfc, far)), KIR_NONE);
    KirId large = k_sub(&m, k_const(&m, 1), tail);
    return k_select(&m, k_cmp(&m, KIR_le, a, k_pick(&m, 0.91, 0.995)), small,
                    with_sign(&m, large, x));
}
