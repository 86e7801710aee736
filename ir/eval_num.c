/* Numbers of the interpreter: f64 values, each with a bound on how far the compiled program's value
   in the op's own dtype can lie from it. If c = fl(op(c1, c2)) in the dtype and v = fl64(op(v1,
   v2)) here, then |c - v| <= u |op(c1, c2)| + |op(c1, c2) - op(v1, v2)| + 2^-53 |v| (the standard
   model of rounding: Higham, Accuracy and Stability of Numerical Algorithms, section 2.2), and the
   middle term is bounded by each operation with its second-order part. Never rounds v to f32. */
#include "ir/eval_ops.h"
#include "base/ice.h"
#include <float.h>
#include <math.h>

static const double U64 = 0x1p-53;

static double unit_of(IrDtype t) { return t == IR_F32 ? 0x1p-24 : 0x1p-53; }
static double tiny_of(IrDtype t) { return t == IR_F32 ? 0x1p-149 : 0x1p-1074; }
static double normal_of(IrDtype t) { return t == IR_F32 ? 0x1p-126 : 0x1p-1022; }

/* ---- origins --------------------------------------------------------------------------------- */

/* splitmix64's finaliser (Steele, Lea, Flood 2014) over a running sum. */
uint64_t num_mix(uint64_t h, uint64_t x)
{
    uint64_t z = h + x + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) | 1;
}

uint64_t num_hash(double v)
{
    uint64_t bits;
    v += 0.0; /* one zero */
    memcpy(&bits, &v, sizeof bits);
    return num_mix(0x6e756d, bits);
}

static Num made(Num n, unsigned how, Num a, Num b)
{
    n.origin = num_mix(num_mix(num_mix(how, a.origin), b.origin * 3), 0);
    n.undecided |= a.undecided | b.undecided;
    return n;
}

/* ---- results --------------------------------------------------------------------------------- */

Num num_exact(double v) { return (Num){v, 0, num_hash(v), false}; }

int64_t num_to_int(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }

Num num_int(IrDtype t, int64_t v)
{
    if (t == IR_I32) v = (int32_t)(uint32_t)(uint64_t)v;
    Num n = num_exact((double)v);
    n.undecided = n.v >= 0x1p63 || (int64_t)n.v != v;
    return n;
}

/* What a dtype makes of a value near or beyond its largest: infinity, or nobody knows. */
static Num settle(IrDtype t, Num n)
{
    double most = t == IR_F32 ? (double)FLT_MAX : DBL_MAX;
    if (isnan(n.v) || isinf(n.v)) n.e = 0;
    else if (!(n.e <= DBL_MAX)) n.e = 0, n.undecided = true;
    else if (t == IR_F32 && fabs(n.v) - n.e > most * (1 + 0x1p-24)) n.v = copysign(INFINITY, n.v), n.e = 0;
    else if (t == IR_F32 && fabs(n.v) + n.e >= most * (1 - 0x1p-40)) n.undecided = true;
    return n;
}

Num num_round(IrDtype t, double v, double spread, double units)
{
    Num n = {.v = v, .origin = 1};
    ICE_UNLESS(!(spread < 0) && units >= 0);
    double size = fabs(v) + spread;
    n.e = spread + units * (unit_of(t) + U64) * size;
    /* Below the normal numbers roundings are absolute. An exact zero stays one if it was rounded
     * correctly. */
    if (size < 2 * normal_of(t) && (size > 0 || units > 1)) n.e += units * tiny_of(t);
    n.e *= 1 + 0x1p-40; /* the bound's own arithmetic */
    return settle(t, n);
}

/* To the nearest number of 16 bits, ties to even. */
static double nearest_16(IrDtype t, double v)
{
    int bits = t == IR_F16 ? 11 : 8, least = t == IR_F16 ? -24 : -133, exponent;
    double most = t == IR_F16 ? 65504 : 0x1.fep127;
    if (v == 0 || !isfinite(v)) return v;
    frexp(v, &exponent);
    double unit = ldexp(1, exponent - bits > least ? exponent - bits : least), r = nearbyint(v / unit) * unit;
    return fabs(r) > most ? copysign(INFINITY, v) : copysign(r, v);
}

double eval_round(IrDtype t, double v)
{
    if (ir_dtype_is_16_bits(t)) return nearest_16(t, (double)(float)v);
    return t == IR_F32 ? (double)(float)v : v;
}

Num num_narrow(IrDtype t, Num x)
{
    double r = nearest_16(t, x.v), low = nearest_16(t, x.v - x.e), high = nearest_16(t, x.v + x.e);
    if (x.e == 0 || isnan(x.v) || isinf(x.v) || (low == r && high == r)) return num_exact(r);
    Num n = {.v = r, .e = fmax(r - low, high - r), .origin = 1};
    if (!isfinite(n.e)) n.e = 0, n.undecided = true;
    return n;
}

static bool is_zero(Num a) { return a.v == 0 && a.e == 0 && !a.undecided; }
static double times(double size, double e) { return e == 0 ? 0 : size * e; } /* inf * 0 is 0 here */
static bool may_be_zero(Num a) { return a.e > 0 && fabs(a.v) <= a.e; }

static bool is_plain(Num a) { return isfinite(a.v) && !a.undecided; }
static bool same_bits(Num a, Num b) { return a.origin == b.origin && is_plain(a) && is_plain(b); }

/* Exact operands whose result needs no rounding give an exact result: counts and small integers
   stay so, and comparing them is decided. `rest`: what f64 arithmetic lost on the way to v. */
static bool is_exact(IrDtype t, Num a, Num b, double v, double rest)
{
    if (a.e != 0 || b.e != 0 || rest != 0 || !isfinite(v)) return false;
    return t != IR_F32 || (double)(float)v == v;
}

/* a + b = s + rest (Knuth's TwoSum). */
static double sum_rest(double a, double b, double s)
{
    double back = s - a;
    return (a - (s - back)) + (b - back);
}

/* a b = p + rest, where nothing underflows. */
static double product_rest(double a, double b, double p)
{
    if (p == 0) return a == 0 || b == 0 ? 0 : 1;
    return fabs(p) > 0x1p-900 ? fma(a, b, -p) : 1;
}

/* ---- operations ------------------------------------------------------------------------------ */

static int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

Num num_add(IrDtype t, Num a, Num b)
{
    if (is_zero(a)) return b.v += a.v, b; /* -0 + 0 is 0 */
    if (is_zero(b)) return a.v += b.v, a;
    if (!ir_dtype_is_float(t)) return made(num_int(t, wrap_add(num_to_int(a.v), num_to_int(b.v))), 1, a, b);
    double s = a.v + b.v;
    Num n = num_round(t, s, a.e + b.e, 1);
    if (is_exact(t, a, b, s, sum_rest(a.v, b.v, s))) n.e = 0;
    return made(n, 1, a, b);
}

Num num_neg(IrDtype t, Num a)
{
    Num n = ir_dtype_is_float(t) ? (Num){.v = -a.v, .e = a.e} : num_int(t, (int64_t)(0 - (uint64_t)num_to_int(a.v)));
    return made(n, 9, a, a);
}

Num num_sub(IrDtype t, Num a, Num b)
{
    if (is_zero(b)) return a;
    if (is_zero(a)) return num_neg(t, b);
    if (!ir_dtype_is_float(t))
        return made(num_int(t, (int64_t)((uint64_t)num_to_int(a.v) - (uint64_t)num_to_int(b.v))), 2, a, b);
    if (same_bits(a, b)) return num_exact(0);
    double d = a.v - b.v;
    Num n = num_round(t, d, a.e + b.e, 1);
    if (is_exact(t, a, b, d, sum_rest(a.v, -b.v, d))) n.e = 0;
    return made(n, 2, a, b);
}

/* Infinity times what may be zero is infinity or NaN. */
static bool mul_unclear(Num a, Num b) { return (isinf(a.v) && may_be_zero(b)) || (isinf(b.v) && may_be_zero(a)); }

static double mul_spread(Num a, Num b) { return times(fabs(a.v), b.e) + times(fabs(b.v), a.e) + times(a.e, b.e); }

static bool is_one(Num a) { return a.v == 1 && a.e == 0 && !a.undecided; }

Num num_mul(IrDtype t, Num a, Num b)
{
    if (is_one(a)) return b;
    if (is_one(b)) return a;
    if (!ir_dtype_is_float(t)) return made(num_int(t, wrap_mul(num_to_int(a.v), num_to_int(b.v))), 3, a, b);
    double p = a.v * b.v;
    Num n = num_round(t, p, mul_spread(a, b), 1);
    if (is_exact(t, a, b, p, product_rest(a.v, b.v, p))) n.e = 0;
    n.undecided |= mul_unclear(a, b);
    return made(n, 3, a, b);
}

/* Truncating; by zero gives 0; the least integer by -1 wraps to itself. */
static Num int_div(IrDtype t, Num a, Num b)
{
    int64_t x = num_to_int(a.v), y = num_to_int(b.v);
    int64_t q = y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
    return made(num_int(t, q), 4, a, b);
}

Num num_div(IrDtype t, Num a, Num b)
{
    if (!ir_dtype_is_float(t)) return int_div(t, a, b);
    if (is_one(b)) return a;
    if (same_bits(a, b) && fabs(b.v) > b.e) return num_exact(1);
    double q = a.v / b.v, least = fabs(b.v) - b.e;
    double spread = b.e > 0 && least <= 0 ? 0 : times(fabs(q), b.e / least) + times(1 / least, a.e);
    Num n = num_round(t, q, isfinite(q) ? spread : 0, 1);
    if (is_exact(t, a, b, q, product_rest(q, b.v, a.v))) n.e = 0;
    n.undecided |= may_be_zero(b) || (b.v == 0 && may_be_zero(a));
    return made(n, 4, a, b);
}

Num num_fma(IrDtype t, Num sum, Num a, Num b)
{
    if (!ir_dtype_is_float(t)) return num_add(t, sum, num_mul(t, a, b));
    if (is_zero(sum)) return num_mul(t, a, b);
    if ((is_zero(a) && is_plain(b)) || (is_zero(b) && is_plain(a))) return sum;
    double v = fma(a.v, b.v, sum.v), p = a.v * b.v;
    Num n = num_round(t, v, sum.e + mul_spread(a, b), 1);
    bool whole = product_rest(a.v, b.v, p) == 0 && sum.e == 0;
    if (whole && is_exact(t, a, b, v, sum_rest(p, sum.v, v))) n.e = 0;
    n.undecided |= mul_unclear(a, b);
    return made(made(n, 5, a, b), 6, sum, (Num){.origin = num_mix(a.origin, b.origin * 3)});
}

int num_compare(Num a, Num b)
{
    if (a.undecided || b.undecided) return 3;
    if (isnan(a.v) || isnan(b.v)) return 2;
    if (a.origin == b.origin) return 0;
    double lo = a.v - a.e, hi = a.v + a.e;
    if (hi < b.v - b.e) return -1;
    if (lo > b.v + b.e) return 1;
    return a.e == 0 && b.e == 0 ? (a.v > b.v) - (a.v < b.v) : 3;
}

/* sign 1: the greater of both, -1: the smaller. A value where the bounds do not say which: both
   candidates lie within the wider bound. */
static Num extremum(Num a, Num b, int sign)
{
    if (isnan(a.v) && !a.undecided) return a;
    if (isnan(b.v) && !b.undecided) return b;
    int order = num_compare(a, b);
    if (order < 2) return order * sign > 0 ? a : b;
    Num n = {.v = sign * a.v > sign * b.v ? a.v : b.v, .e = a.e > b.e ? a.e : b.e};
    return made(n, sign > 0 ? 7 : 8, a, b);
}

Num num_max(IrDtype t, Num a, Num b) { return (void)t, extremum(a, b, 1); }
Num num_min(IrDtype t, Num a, Num b) { return (void)t, extremum(a, b, -1); }
