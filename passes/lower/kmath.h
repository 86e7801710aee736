/* Expansions of exp, log, tanh and friends into kernel IR. Built from plain instructions only (fma,
   bit tricks, select), without branches, calls or tables, so that every target computes the same
   bits. Scalars and vectors of any lane count; f32 and f64. Correct at +-0, denormals, +-inf and
   NaN. The stated errors are the greatest found, in units in the last place of the rounded result:
   f32 over all 2^32 arguments, f64 over dense samples (tests/unit/test_kmath.c asserts them). */
#pragma once
#include "ir/kernel.h"

KirId kmath_exp(KirBuilder *b, KirType t, KirId x);
KirId kmath_expm1(KirBuilder *b, KirType t, KirId x);
KirId kmath_log(KirBuilder *b, KirType t, KirId x);   /* log(-0) = -inf, log(x < 0) = NaN */
KirId kmath_log1p(KirBuilder *b, KirType t, KirId x); /* log1p(-1) = -inf */
KirId kmath_tanh(KirBuilder *b, KirType t, KirId x);
KirId kmath_sigmoid(KirBuilder *b, KirType t, KirId x); /* 1 / (1 + exp(-x)) */
KirId kmath_erf(KirBuilder *b, KirType t, KirId x);
/* Reduced by multiples of pi/2 with explicit fma where |x| < 2^48; NaN beyond, and of infinities. */
KirId kmath_sin(KirBuilder *b, KirType t, KirId x);
KirId kmath_cos(KirBuilder *b, KirType t, KirId x);
/* As C's pow: pow(x, 0) = pow(1, y) = 1 even for NaN; a negative x wants an integer y. */
KirId kmath_pow(KirBuilder *b, KirType t, KirId x, KirId y);
