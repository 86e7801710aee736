/* Facts about values, op by op. Each fact that is claimed holds under what facts.h says of its kind: always, as long as
   arguments are finite and nothing overflowed, or for operands of usual size.

     %3 = exp %2            positive; in range if %2 is; small only if %2 is low
     %4 = add %3, 1e-16     positive, not 0, but nearly 0 perhaps: what is divided by it may be large */
#include "passes/rewrite/facts.h"
#include <math.h>

/* clang-format off */
enum {
    F = FACT_FINITE, Z = FACT_NO_NEG_ZERO, P = FACT_POSITIVE | FACT_NO_NEG_ZERO,
    CERTAIN = F | P,
    IN_RANGE = FACT_IN_RANGE | FACT_NO_EXP,
    SIZE = FACT_SMALL | FACT_CALM,
    USUAL = FACTS_USUAL,
    NONZERO = FACT_NONZERO, NOT_NEGATIVE = FACT_NOT_NEGATIVE, AWAY = FACT_AWAY, LOW = FACT_LOW
};
/* clang-format on */
static const double LARGEST_SMALL = 1e6, LEAST_AWAY = 1e-3, LARGEST_LOW = 13 /* exp of it is small */;

typedef struct Operands {
    const IrModule *m;
    const IrFunc *f;
    const IrOp *op;
    const Facts *known;
    unsigned x, y; /* of the first and the second */
    unsigned all;  /* what all share; of select, both branches */
} Operands;

static const IrOp *op_of(const Operands *o, uint32_t k) { return &o->f->ops.data[o->op->args[k]]; }

Facts facts_of_number(double x)
{
    return (Facts)((isfinite(x) ? F | IN_RANGE : 0) | (x != 0 || !signbit(x) ? Z : 0) | (!signbit(x) ? P : 0) |
                   ((float)x != 0 ? NONZERO : 0) | (x >= 0 ? NOT_NEGATIVE : 0) | (isfinite((float)x) ? FACT_CALM : 0) |
                   (fabs(x) <= LARGEST_SMALL ? FACT_SMALL : 0) | (fabs(x) >= LEAST_AWAY ? AWAY : 0) |
                   (x <= LARGEST_LOW ? LOW : 0));
}

static unsigned if_all(unsigned facts, unsigned wanted, unsigned then) { return (facts & wanted) == wanted ? then : 0; }

/* What is read only where somebody looks. */
static unsigned looked_at(unsigned facts) { return facts | if_all(facts, FACT_IN_RANGE, SIZE); }

/* A sum is -0 only where both terms are; nothing below 0, and one of them above. */
static unsigned of_add(const Operands *o)
{
    unsigned some = o->x | o->y;
    return (o->all & (P | USUAL | NOT_NEGATIVE)) | (some & Z) | if_all(o->all, NOT_NEGATIVE, some & (NONZERO | AWAY));
}

static unsigned of_product(const Operands *o)
{
    unsigned size = (o->x | o->y) & FACT_SMALL ? SIZE : FACT_SMALL;
    return (o->all & (IN_RANGE | NOT_NEGATIVE | size)) | if_all(o->all, FACT_POSITIVE, P);
}

/* x / (y + 1e-16) is large, and no overflow unless x is large as well. */
static unsigned of_quotient(const Operands *o)
{
    unsigned size = o->y & AWAY ? SIZE : (o->y & NONZERO) && (o->x & FACT_SMALL) ? FACT_CALM : 0;
    return (o->all & (NOT_NEGATIVE | size)) | if_all(o->y, NONZERO, o->all & IN_RANGE) |
           if_all(o->all, FACT_POSITIVE, P);
}

/* (a > b || a != a) ? a : b gives b where both are zeros. */
static unsigned of_max(const Operands *o)
{
    unsigned facts = o->all & (F | Z | USUAL | LOW);
    if (o->all & Z && (o->x | o->y) & FACT_POSITIVE) facts |= P;
    facts |= if_all(o->x, NOT_NEGATIVE, o->x & (NOT_NEGATIVE | NONZERO | AWAY));
    return facts | if_all(o->y, NOT_NEGATIVE, o->y & (NOT_NEGATIVE | NONZERO | AWAY)) | (o->all & FACT_POSITIVE);
}

/* -0 of -0, NaN below: positive where the operand is never -0. */
static unsigned of_sqrt(const Operands *o)
{
    return (o->x & Z ? P : 0) | (o->x & FACT_POSITIVE ? o->x & F : 0) |
           (o->x & NOT_NEGATIVE ? o->x & ~(unsigned)CERTAIN : 0);
}

/* f64 to f32, or to 16 bits, may overflow, or underflow to -0. */
static unsigned of_cast(const Operands *o)
{
    bool narrows = (op_of(o, 0)->type.dtype == IR_F64 && o->op->type.dtype != IR_F64) || ir_op_narrows(o->f, o->op);
    return (o->x & USUAL) | (narrows ? if_all(o->x, FACT_POSITIVE, P) : o->x & CERTAIN);
}

static bool is_zero(const IrOp *op) { return op->op == IR_OP_const && op->attr.f == 0; }

/* select(x == 0, c, x) is not 0 where c is not; nor nearly 0, where x is a count. */
static unsigned of_select(const Operands *o)
{
    const IrOp *c = op_of(o, 0), *n = op_of(o, 2);
    Facts chosen = o->known[o->op->args[1]];
    bool replaces = false;
    for (uint32_t k = 0; c->op == IR_OP_eq && chosen & NONZERO && k < 2; k++)
        replaces |= c->args[k] == o->op->args[2] && is_zero(&o->f->ops.data[c->args[1 - k]]);
    if (!replaces) return o->all;
    bool ones = n->op == IR_OP_reduce_sum && o->f->ops.data[n->args[0]].op == IR_OP_const;
    return o->all | NONZERO | (ones ? if_all(o->known[n->args[0]], AWAY | NOT_NEGATIVE, chosen & AWAY) : 0);
}

/* No graph has so many rows that their number overflows. */
static unsigned of_reduce_sum(const Operands *o)
{
    const IrOp *x = op_of(o, 0);
    bool counts = x->op == IR_OP_const && fabs(x->attr.f) <= 1;
    return (o->x & (P | IN_RANGE | NOT_NEGATIVE)) | (counts ? F : 0);
}

static unsigned of_integer(const IrOp *op)
{
    bool index = op->op == IR_OP_iota || op->op == IR_OP_element || op->op == IR_OP_row;
    return F | Z | USUAL | (index ? P : op->op == IR_OP_const ? facts_of_number(op->attr.f) & (P | NONZERO) : 0);
}

static unsigned of_float(const Operands *o)
{
    const IrOp *op = o->op;
    unsigned x = o->x, y = o->y, all = o->all;
    switch (op->op) {
    case IR_OP_arg: return USUAL;
    case IR_OP_const: return facts_of_number(op->attr.f);
    case IR_OP_random_uniform:
    case IR_OP_random_uniform_at: return F | P | USUAL | LOW;
    case IR_OP_random_normal:
    case IR_OP_random_normal_at: return F | USUAL;
    case IR_OP_neg: return (x & (F | USUAL | NONZERO | AWAY)) | (x & NOT_NEGATIVE ? LOW : 0);
    case IR_OP_abs: return (x & ~(unsigned)LOW) | P;
    case IR_OP_sign: return (x & (CERTAIN | USUAL | NONZERO)) | LOW;
    case IR_OP_floor: return x & (CERTAIN | USUAL);
    case IR_OP_exp: return P | (x & (x & LOW ? FACT_IN_RANGE | SIZE : FACT_IN_RANGE));
    case IR_OP_expm1: return x & (x & LOW ? FACT_IN_RANGE | SIZE : FACT_IN_RANGE);
    case IR_OP_log: return if_all(x, FACTS_ABOVE_0, x & USUAL);
    case IR_OP_log1p: return x & NOT_NEGATIVE ? x & ~(unsigned)CERTAIN : 0;
    case IR_OP_sqrt: return of_sqrt(o);
    case IR_OP_tanh: return (x & (CERTAIN | USUAL)) | LOW;
    case IR_OP_sigmoid: return (x & (F | USUAL)) | P | LOW;
    case IR_OP_erf: return (x & USUAL) | LOW;
    case IR_OP_sin:
    case IR_OP_cos: return (x & (F | USUAL)) | LOW;
    case IR_OP_add: return of_add(o);
    case IR_OP_sub: return (all & USUAL) | (y & NOT_NEGATIVE ? x & LOW : 0);
    case IR_OP_mul: return of_product(o) | (op->args[0] == op->args[1] ? P : 0);
    case IR_OP_div: return of_quotient(o);
    case IR_OP_pow: return x & FACT_POSITIVE ? P : 0;
    case IR_OP_min: return all | ((x | y) & LOW);
    case IR_OP_max: return of_max(o);
    case IR_OP_select: return of_select(o);
    case IR_OP_cast: return of_cast(o);
    case IR_OP_detach:
    case IR_OP_reshape:
    case IR_OP_transpose:
    case IR_OP_slice:
    case IR_OP_concat:
    case IR_OP_max_dims:
    case IR_OP_min_dims: return all;
    case IR_OP_at: return x & (CERTAIN | USUAL | NOT_NEGATIVE | LOW);
    case IR_OP_sum_dims: return all & (P | USUAL | NOT_NEGATIVE);
    case IR_OP_contract: return of_product(o);
    case IR_OP_gather:
        return looked_at(o->m->maps.data[op->attr.map].partial ? x & ~(unsigned)(NONZERO | AWAY | SIZE) : x);
    case IR_OP_reduce_sum: return looked_at(of_reduce_sum(o));
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: return looked_at(x & facts_of_number(op->attr.f));
    case IR_OP_reduce_mul: return all & (FACT_IN_RANGE | SIZE);
    default: return 0;
    }
}

Facts facts_of(const IrModule *m, const IrFunc *f, const IrOp *op, const Facts *known)
{
    Operands o = {m,
                  f,
                  op,
                  known,
                  .x = op->n_args ? known[op->args[0]] : 0,
                  .y = op->n_args > 1 ? known[op->args[1]] : 0,
                  .all = FACT_FREE - 1};
    for (uint32_t k = op->op == IR_OP_select; k < op->n_args; k++) o.all &= known[op->args[k]];
    unsigned facts = op->type.dtype == IR_BOOL           ? F | P | USUAL | LOW
                     : ir_dtype_is_float(op->type.dtype) ? of_float(&o)
                                                         : of_integer(op);
    if (facts & F) facts |= IN_RANGE;
    if (facts & FACT_POSITIVE) facts |= NOT_NEGATIVE;
    return (Facts)(facts & (FACT_FREE - 1));
}
