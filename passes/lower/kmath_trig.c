/* Expansions of sin and cos (passes/lower/kmath.h). x = n pi/2 + r by Cody and Waite's method with fma
   and pi/2 in two or three f64 pieces; then the polynomial of sin or cos by n's parity. f32 is
   computed in f64 lanes, where the reduction is exact enough for every |x| < 2^48. Never a branch.
 */
#include "passes/lower/kmath_parts.h"

/* (sin(r)/r - 1) / r^2 and (cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4; the short ones serve
 * f32. */
static const double sin_f64[] = {-0x1.5555555555549p-3, 0x1.111111110f89cp-7,   -0x1.a01a019c14198p-13,
                                 0x1.71de3578ea6c1p-19, -0x1.ae5e66a0bf50ep-26, 0x1.5d92ffd42b456p-33};
static const double cos_f64[] = {0x1.555555555554cp-5,   -0x1.6c16c16c15217p-10, 0x1.a01a019cbe0adp-16,
                                 -0x1.27e4f8116d5d0p-22, 0x1.1ee9f045efe38p-29,  -0x1.8fb092153a913p-37};
static const double sin_f32[] = {-0x1.5555554cb2253p-3, 0x1.1111089088d0ep-7, -0x1.a00f98ef5a2e6p-13,
                                 0x1.6cd7349fb98ecp-19};
static const double cos_f32[] = {0x1.55554aabefa85p-5, -0x1.6c0c868ae73d0p-10, 0x1.9a00ce54d9b3ap-16};

typedef struct Quarter {
    KirId n;  /* i64, mod 4 in its low bits */
    KmPair r; /* lo is KIR_NONE for f32 */
} Quarter;

/* n * p taken from r.hi; what rounding loses goes to r.lo. */
static KmPair take(const Km *m, KirId from, KirId n, double p)
{
    KirId c = k_const(m, p), ph = k_mul(m, n, c), pl = k_fma(m, n, c, k_neg(m, ph));
    KirId hi = k_sub(m, from, ph), part = k_sub(m, hi, from);
    KirId lost = k_sub(m, k_sub(m, from, k_sub(m, hi, part)), k_add(m, ph, part));
    return (KmPair){hi, k_sub(m, lost, pl)};
}

static Quarter reduce(const Km *m, KirId x, bool single)
{
    KirId magic = k_const(m, 0x1.8p52);
    KirId t = k_fma(m, x, k_const(m, 0x1.45f306dc9c883p-1), magic), n = k_sub(m, t, magic);
    KirId r = k_fma(m, n, k_const(m, -0x1.921fb54442d18p+0), x); /* exact: the high bits cancel */
    Quarter q = {.n = as_int(m, t)};
    if (single) {
        q.r = (KmPair){k_fma(m, n, k_const(m, -0x1.1a62633145c07p-54), r), KIR_NONE};
    } else {
        q.r = take(m, r, n, 0x1.1a62633145c07p-54);
        q.r.lo = k_fma(m, n, k_const(m, 0x1.f1976b7ed8fbcp-110), q.r.lo);
    }
    KirId near = k_cmp(m, KIR_lt, k_abs(m, x), k_const(m, 0x1p48));
    q.r.hi = k_select(m, near, q.r.hi, k_const(m, NAN)); /* what is too large, or infinite */
    if (!single) q.r.lo = k_select(m, near, q.r.lo, k_const(m, 0));
    return q;
}

static KirId sine(const Km *m, KmPair r, KirId z)
{
    KirId cube = k_mul(m, z, r.hi);
    if (r.lo == KIR_NONE) return k_fma(m, cube, POLYNOMIAL(m, sin_f32, z), r.hi);
    KirId slope = k_fma(m, k_const(m, -0.5), z, k_const(m, 1)); /* cos(r) */
    return k_add(m, r.hi, k_fma(m, cube, POLYNOMIAL(m, sin_f64, z), k_mul(m, r.lo, slope)));
}

static KirId cosine(const Km *m, KmPair r, KirId z)
{
    KirId one = k_const(m, 1), half = k_mul(m, k_const(m, 0.5), z), w = k_sub(m, one, half), zz = k_mul(m, z, z);
    if (r.lo == KIR_NONE) return k_fma(m, zz, POLYNOMIAL(m, cos_f32, z), w);
    KirId rest = k_sub(m, k_sub(m, one, w), half);
    KirId tail = k_sub(m, k_mul(m, zz, POLYNOMIAL(m, cos_f64, z)), k_mul(m, r.hi, r.lo));
    return k_add(m, w, k_add(m, rest, tail));
}

/* sin(x + turn * pi/2). */
static KirId circular(KirBuilder *b, KirType t, KirId x, int turn)
{
    Km m = km_new(b, kir_type(KIR_F64, t.lanes));
    bool single = t.base == KIR_F32;
    if (single) x = kir_op(b, KIR_convert, m.f, x, KIR_NONE, KIR_NONE);
    Quarter q = reduce(&m, x, single);
    KirId n = k_i2(&m, KIR_add, q.n, k_int(&m, turn)), z = k_mul(&m, q.r.hi, q.r.hi);
    KirId odd = k_i2(&m, KIR_eq, k_i2(&m, KIR_and, n, k_int(&m, 1)), k_int(&m, 1));
    KirId y = k_select(&m, odd, cosine(&m, q.r, z), sine(&m, q.r, z));
    KirId flip = k_i2(&m, KIR_shl, k_i2(&m, KIR_and, n, k_int(&m, 2)), k_int(&m, 62)); /* bit 1 to the sign */
    y = as_float(&m, k_i2(&m, KIR_xor, as_int(&m, y), flip));
    if (!turn) /* the sum above turns -0 into +0 */
        y = k_select(&m, k_cmp(&m, KIR_eq, x, k_const(&m, 0)), x, y);
    return single ? kir_op(b, KIR_convert, t, y, KIR_NONE, KIR_NONE) : y;
}

KirId kmath_sin(KirBuilder *b, KirType t, KirId x) { return circular(b, t, x, 0); }

KirId kmath_cos(KirBuilder *b, KirType t, KirId x) { return circular(b, t, x, 1); }
