/* Private to passes/kmath*.c: short spellings of kernel IR instructions over one float type, and
   the cores that several expansions share. Never included elsewhere. */
#pragma once
#include "passes/lower/kmath.h"
#include <math.h>

typedef struct Km {
    KirBuilder *b;
    KirType f, i; /* the float type and the integer type of the same width and lanes */
    bool dbl;     /* f64 */
} Km;

typedef struct KmPair { /* an unevaluated sum hi + lo, |lo| <= ulp(hi) */
    KirId hi, lo;
} KmPair;

static inline Km km_new(KirBuilder *b, KirType t)
{
    bool dbl = t.base == KIR_F64;
    return (Km){b, t, kir_type(dbl ? KIR_I64 : KIR_I32, t.lanes), dbl};
}

static inline KirId k_const(const Km *m, double v) { return kir_const(m->b, m->f, v); }
static inline KirId k_int(const Km *m, int64_t v) { return kir_int(m->b, m->i, v); }
/* The f32 or the f64 one of two constants. */
static inline KirId k_pick(const Km *m, double single, double dbl) { return k_const(m, m->dbl ? dbl : single); }
static inline KirId k_ipick(const Km *m, int64_t single, int64_t dbl) { return k_int(m, m->dbl ? dbl : single); }

static inline KirId k_f2(const Km *m, KirOpcode op, KirId x, KirId y) { return kir_op(m->b, op, m->f, x, y, KIR_NONE); }
static inline KirId k_i2(const Km *m, KirOpcode op, KirId x, KirId y) { return kir_op(m->b, op, m->i, x, y, KIR_NONE); }
static inline KirId k_add(const Km *m, KirId x, KirId y) { return k_f2(m, KIR_add, x, y); }
static inline KirId k_sub(const Km *m, KirId x, KirId y) { return k_f2(m, KIR_sub, x, y); }
static inline KirId k_mul(const Km *m, KirId x, KirId y) { return k_f2(m, KIR_mul, x, y); }
static inline KirId k_div(const Km *m, KirId x, KirId y) { return k_f2(m, KIR_div, x, y); }
static inline KirId k_fma(const Km *m, KirId x, KirId y, KirId z) { return kir_op(m->b, KIR_fma, m->f, x, y, z); }
static inline KirId k_neg(const Km *m, KirId x) { return kir_op(m->b, KIR_neg, m->f, x, KIR_NONE, KIR_NONE); }
static inline KirId k_abs(const Km *m, KirId x) { return kir_op(m->b, KIR_abs, m->f, x, KIR_NONE, KIR_NONE); }
static inline KirId as_int(const Km *m, KirId x) { return kir_op(m->b, KIR_bitcast, m->i, x, KIR_NONE, KIR_NONE); }
static inline KirId as_float(const Km *m, KirId x) { return kir_op(m->b, KIR_bitcast, m->f, x, KIR_NONE, KIR_NONE); }
/* Comparisons of floats; i1 of the same lanes. */
static inline KirId k_cmp(const Km *m, KirOpcode op, KirId x, KirId y) { return k_f2(m, op, x, y); }
static inline KirId k_select(const Km *m, KirId c, KirId x, KirId y) { return kir_op(m->b, KIR_select, m->f, c, x, y); }
static inline KirId k_both(const Km *m, KirId x, KirId y)
{
    return kir_op(m->b, KIR_and, kir_type(KIR_I1, m->f.lanes), x, y, KIR_NONE);
}

/* The magnitude of x with the sign of y; x must not be negative. */
static inline KirId with_sign(const Km *m, KirId x, KirId y)
{
    KirId sign = k_i2(m, KIR_and, as_int(m, y), k_ipick(m, INT32_MIN, INT64_MIN));
    return as_float(m, k_i2(m, KIR_or, as_int(m, x), sign));
}

/* c[0] + c[1] x + ... + c[n-1] x^(n-1), by Horner's rule with fma. */
static inline KirId polynomial(const Km *m, const double *c, unsigned n, KirId x)
{
    KirId y = k_const(m, c[n - 1]);
    for (unsigned k = n - 1; k-- > 0;) y = k_fma(m, y, x, k_const(m, c[k]));
    return y;
}
#define POLYNOMIAL(m, c, x) polynomial(m, c, sizeof(c) / sizeof *(c), x)

/* The same for an even n: pairs of terms, which wait for x alone, by Horner's rule in xx = x x (Estrin): half the steps
 * that wait for one another. */
static inline KirId polynomial_pairs(const Km *m, const double *c, unsigned n, KirId x, KirId xx)
{
    KirId y = KIR_NONE;
    for (unsigned k = n; k; k -= 2) {
        KirId pair = k_fma(m, k_const(m, c[k - 1]), x, k_const(m, c[k - 2]));
        y = y == KIR_NONE ? pair : k_fma(m, y, xx, pair);
    }
    return y;
}

/* exp(x + lo) for x that is neither above nor below what the exponent can say (or NaN); lo may be
 * KIR_NONE. */
KirId kmath_exp_core(const Km *m, KirId x, KirId lo);
