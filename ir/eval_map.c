/* Pointwise ops of the interpreter: each result element from one element of each operand. Error
   spreads are the greatest change of the function over the operand's interval, taken at the
   interval's worse end; where the interval holds a jump or a pole the result is undecided. */
#include "ir/eval_ops.h"
#include "base/ice.h"
#include <math.h>

/* The expansions of exp and friends (passes/lower/kmath.h) and libm's stay within 4 units in the last
 * place. */
enum { LIBM_UNITS = 8 };

static double times(double size, double e) { return e == 0 ? 0 : size * e; }

/* ---- smooth functions of one operand --------------------------------------------------------- */

typedef struct Smooth {
    double v, spread;
    double units;
    bool unclear;
} Smooth;

/* log with v inside (0, inf): |log(v - e) - log(v)| is the greater side. */
static Smooth smooth_log(double at, double result, double e)
{
    if (e > 0 && at <= e) return (Smooth){.v = result, .unclear = at >= -e};
    return (Smooth){result, e > 0 ? -log1p(-e / at) : 0, LIBM_UNITS, false};
}

static Smooth smooth_sqrt(double x, double e)
{
    double root = sqrt(x);
    if (e > 0 && x < e) return (Smooth){.v = root, .unclear = x >= -e, .units = 1};
    bool exact = e == 0 && fma(root, root, -x) == 0 && (double)(float)root == root && x > 0x1p-900;
    return (Smooth){root, e > 0 ? e / (root + sqrt(x - e)) : 0, exact ? 0 : 1, false};
}

/* sin and cos; `slope`: of the function at x. Reduced arguments lose their meaning beyond 2^30
 * (kmath.h). */
static Smooth smooth_wave(double x, double e, double result, double slope)
{
    double steep = fmin(1, fabs(slope) + e);
    return (Smooth){result, times(steep, e), LIBM_UNITS, isfinite(x) && fabs(x) + e > 0x1p30};
}

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }

/* The function at x, where x may be off by e. */
static Smooth smooth(IrOpcode op, double x, double e)
{
    double near = fmax(fabs(x) - e, 0); /* the interval's point nearest to 0: where these are steepest */
    switch (op) {
    case IR_OP_exp: return (Smooth){exp(x), times(exp(x), expm1(e)), LIBM_UNITS, false};
    case IR_OP_expm1: return (Smooth){expm1(x), times(exp(x), expm1(e)), LIBM_UNITS, false};
    case IR_OP_log: return smooth_log(x, log(x), e);
    case IR_OP_log1p: return smooth_log(1 + x, log1p(x), e);
    case IR_OP_sqrt: return smooth_sqrt(x, e);
    case IR_OP_tanh: {
        double t = tanh(near);
        return (Smooth){tanh(x), times((1 - t) * (1 + t), e) + times(0x1p-52, e), LIBM_UNITS, false};
    }
    case IR_OP_sigmoid: return (Smooth){sigmoid(x), times(sigmoid(near) * sigmoid(-near), e), LIBM_UNITS, false};
    case IR_OP_erf: return (Smooth){erf(x), times(1.1283791670955126 * exp(-near * near), e), LIBM_UNITS, false};
    case IR_OP_sin: return smooth_wave(x, e, sin(x), cos(x));
    case IR_OP_cos: return smooth_wave(x, e, cos(x), sin(x));
    default: ICE("no smooth function");
    }
}

static Num num_smooth(IrOpcode op, IrDtype t, Num x)
{
    Smooth s = smooth(op, x.v, x.e);
    bool exact_zero = s.v == 0 && x.e == 0 && op != IR_OP_exp && op != IR_OP_sigmoid;
    if (exact_zero) return num_exact(0);
    Num n = num_round(t, s.v, isfinite(s.v) ? s.spread : 0, s.units);
    n.undecided |= s.unclear;
    return n;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static Num num_sign(Num x)
{
    Num n = num_exact(x.v > 0 ? 1 : x.v < 0 ? -1 : x.v);
    n.undecided = x.e > 0 && fabs(x.v) <= x.e;
    return n;
}

static Num num_floor(Num x)
{
    Num n = num_exact(floor(x.v));
    n.undecided = floor(x.v - x.e) != floor(x.v + x.e) && x.e > 0;
    return n;
}

static Num num_abs(Num x) { return (Num){.v = fabs(x.v), .e = x.e, .origin = num_mix(x.origin, 77)}; }

/* ---- pow ------------------------------------------------------------------------------------- */

/* x^y for an exact integer y: of any sign of x, as long as the interval does not hold a pole. */
static Num pow_integer(IrDtype t, Num x, double y)
{
    if (y == 0) return num_exact(1);
    double low = fabs(x.v) - x.e, high = fabs(x.v) + x.e, v = pow(x.v, y);
    double steep = y >= 1 ? pow(high, y - 1) : low > 0 ? pow(low, y - 1) : 0;
    double units = LIBM_UNITS;
    Num n = num_round(t, v, isfinite(v) ? times(fabs(y) * steep, x.e) : 0, units);
    n.undecided |= y < 0 && x.e > 0 && low <= 0;
    return n;
}

static Num num_pow(IrDtype t, Num x, Num y)
{
    if (y.e == 0 && y.v == floor(y.v) && isfinite(y.v)) return pow_integer(t, x, y.v);
    double v = pow(x.v, y.v), low = x.v - x.e;
    if (x.e == 0 && y.e == 0) return num_round(t, v, 0, LIBM_UNITS);
    if (low <= 0) {
        Num n = num_round(t, v, 0, LIBM_UNITS);
        n.undecided = x.e > 0 || y.e > 0;
        return n;
    }
    /* log of the result moves by |y| |log(x')/x| + e_y |log x'| */
    double far = fmax(fabs(log(low)), fabs(log(x.v + x.e)));
    double move = times(fabs(y.v), -log1p(-x.e / x.v)) + times(far, y.e);
    return num_round(t, v, isfinite(v) ? times(v, expm1(move)) : 0, LIBM_UNITS);
}

/* ---- logic ----------------------------------------------------------------------------------- */

static Num num_bool(bool v, bool undecided)
{
    Num n = num_exact(v);
    n.undecided = undecided;
    return n;
}

static Num num_relation(IrOpcode op, Num a, Num b)
{
    int order = num_compare(a, b);
    bool unordered = order == 2;
    bool less = order == 3 ? a.v < b.v : order == -1, equal = order == 3 ? a.v == b.v : order == 0;
    switch (op) {
    case IR_OP_eq: return num_bool(equal, order == 3);
    case IR_OP_ne: return num_bool(!equal || unordered, order == 3);
    case IR_OP_lt: return num_bool(less, order == 3);
    default: return num_bool(less || equal, order == 3);
    }
}

/* One decided false makes `and` false, one decided true makes `or` true. */
static Num num_logic(IrOpcode op, Num a, Num b)
{
    double wins = op == IR_OP_or;
    if (!a.undecided && a.v == wins) return a;
    if (!b.undecided && b.v == wins) return b;
    return num_bool(op == IR_OP_or ? a.v + b.v > 0 : a.v * b.v > 0, a.undecided || b.undecided);
}

/* Where the condition is undecided but both branches agree within their bounds, a wider bound says
 * it all. */
static Num num_select(Num c, Num a, Num b)
{
    Num n = c.v != 0 ? a : b;
    if (!c.undecided || a.origin == b.origin) return n;
    double apart = a.v == b.v ? 0 : fabs(a.v - b.v);
    n.origin = num_mix(num_mix(c.origin, a.origin), b.origin);
    n.undecided = a.undecided || b.undecided || !(apart <= a.e + b.e);
    if (!n.undecided && apart + fmax(a.e, b.e) > n.e) n.e = apart + fmax(a.e, b.e);
    return n;
}

/* ---- cast ------------------------------------------------------------------------------------ */

static Num float_to_int(IrDtype to, Num x)
{
    double least = to == IR_I32 ? -0x1p31 : -0x1p63;
    double v = trunc(x.v) + 0.0; /* integers have no -0 */
    Num n = num_exact(v >= least && v < -least ? v : least);
    n.undecided = x.e > 0 && (trunc(x.v - x.e) != trunc(x.v + x.e) || v < least || v >= -least);
    return n;
}

static Num num_cast(IrDtype to, IrDtype from, Num x)
{
    bool from_float = ir_dtype_is_float(from);
    if (to == from || ir_dtype_is_16_bits(from)) return x;
    if (ir_dtype_is_16_bits(to)) return num_narrow(to, x);
    if (to == IR_BOOL) return num_bool(x.v != 0, x.e > 0 && fabs(x.v) <= x.e);
    if (!ir_dtype_is_float(to)) return from_float ? float_to_int(to, x) : num_int(to, num_to_int(x.v));
    if (to == IR_F64) return x; /* every f32, and every integer that we hold */
    bool fits = x.e == 0 && (double)(float)x.v == x.v;
    return from_float && !fits ? num_round(IR_F32, x.v, x.e, 1) : num_exact((double)(float)x.v);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static Num number_op(IrOpcode op, IrDtype t, Num a, Num b)
{
    switch (op) {
    case IR_OP_add: return num_add(t, a, b);
    case IR_OP_sub: return num_sub(t, a, b);
    case IR_OP_mul: return num_mul(t, a, b);
    case IR_OP_div: return num_div(t, a, b);
    case IR_OP_min: return num_min(t, a, b);
    default: return num_max(t, a, b);
    }
}

/* Remainder with the sign of the dividend; by zero gives 0. */
static Num num_mod(IrDtype t, Num a, Num b)
{
    int64_t x = num_to_int(a.v), y = num_to_int(b.v);
    return num_int(t, y == 0 || y == -1 ? 0 : x % y);
}

/* x[0..n_args): the operands' elements. Ops that keep an operand's bits return it, origin and all. */
static Num point(const IrOp *op, const IrType *from, const Num *x)
{
    Num n;
    switch (op->op) {
    case IR_OP_add:
    case IR_OP_sub:
    case IR_OP_mul:
    case IR_OP_div:
    case IR_OP_min:
    case IR_OP_max: return number_op(op->op, op->type.dtype, x[0], x[1]);
    case IR_OP_neg: return num_neg(op->type.dtype, x[0]);
    case IR_OP_detach:
    case IR_OP_transpose: return x[0];
    case IR_OP_and:
    case IR_OP_or: return num_logic(op->op, x[0], x[1]);
    case IR_OP_select: return num_select(x[0], x[1], x[2]);
    case IR_OP_eq:
    case IR_OP_ne:
    case IR_OP_lt:
    case IR_OP_le: return num_relation(op->op, x[0], x[1]);
    case IR_OP_cast: n = num_cast(op->type.dtype, from->dtype, x[0]); break;
    case IR_OP_abs: n = num_abs(x[0]); break;
    case IR_OP_sign: n = num_sign(x[0]); break;
    case IR_OP_floor: n = num_floor(x[0]); break;
    case IR_OP_not: n = num_bool(x[0].v == 0, false); break;
    case IR_OP_mod: n = num_mod(op->type.dtype, x[0], x[1]); break;
    case IR_OP_pow: n = num_pow(op->type.dtype, x[0], x[1]); break;
    default: n = num_smooth(op->op, op->type.dtype, x[0]); break;
    }
    for (uint32_t i = 0; i < op->n_args; i++) n.undecided |= x[i].undecided;
    if (n.origin == 1) { /* rounded: named by what made it */
        n.origin = num_mix(op->op, op->type.dtype);
        for (uint32_t i = 0; i < op->n_args; i++) n.origin = num_mix(n.origin, x[i].origin);
    }
    return n;
}

void eval_rule_map(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    enum { MAX_OPERANDS = 3 };
    const EvalValue *x[MAX_OPERANDS];
    int64_t *at[MAX_OPERANDS], n;
    ICE_UNLESS(op->n_args >= 1 && op->n_args <= MAX_OPERANDS);
    for (uint32_t i = 0; i < op->n_args; i++) {
        x[i] = eval_operand(r, op, i);
        at[i] = eval_index(r, op->type.dims, op->type.n_dims, &x[i]->type, &n);
    }
    ICE_UNLESS(n == out->width);
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t k = 0; k < out->width; k++) {
            Num in[MAX_OPERANDS];
            for (uint32_t i = 0; i < op->n_args; i++) in[i] = num_get(x[i], eval_row(x[i], row) + at[i][k]);
            num_put(out, row * out->width + k, point(op, &x[0]->type, in));
        }
}
