/* Inside the interpreter: numbers with error bounds, and one function per kind of op. Contract:
 * ir/eval.h. */
#pragma once
#include "base/ice.h"
#include "ir/eval.h"
#include "base/ice.h"

/* One element. The compiled program's value lies in [v - e, v + e], unless undecided. */
typedef struct Num {
    double v, e;
    uint64_t origin;
    bool undecided;
} Num;

/* ---- eval_num.c: arithmetic in a dtype ------------------------------------------------------- */
Num num_exact(double v);
Num num_int(IrDtype t, int64_t v); /* wrapped to the dtype; undecided where no double holds it */
int64_t num_to_int(double v);      /* truncated; what does not fit gives the least integer */
/* v was rounded in dtype t; `spread`: how far the exact result can be off because operands are;
   `units`: error of the operation itself in units of half a last place (1: correctly rounded). */
Num num_round(IrDtype t, double v, double spread, double units);
Num num_narrow(IrDtype t, Num x); /* to f16 or bf16 */
Num num_neg(IrDtype t, Num a);
Num num_add(IrDtype t, Num a, Num b);
Num num_sub(IrDtype t, Num a, Num b);
Num num_mul(IrDtype t, Num a, Num b);
Num num_div(IrDtype t, Num a, Num b);
Num num_max(IrDtype t, Num a, Num b);
Num num_min(IrDtype t, Num a, Num b);
Num num_fma(IrDtype t, Num sum, Num a, Num b);
/* -1, 0, 1: a < b, a == b, a > b; 2: unordered (NaN); 3: not decided by the bounds. */
int num_compare(Num a, Num b);
uint64_t num_mix(uint64_t h, uint64_t x);
uint64_t num_hash(double v);

/* ---- elements of values ---------------------------------------------------------------------- */
static inline Num num_get(const EvalValue *x, int64_t i)
{
    Num n = {x->v[i], x->err[i], x->origin[i], x->undecided[i] != 0};
    if (!n.origin) n.origin = n.e > 0 ? (uint64_t)(uintptr_t)&x->v[i] : num_hash(n.v);
    return n;
}
static inline void num_put(EvalValue *x, int64_t i, Num n)
{
    ICE_UNLESS(!(n.e < 0)); /* a bound */
    x->v[i] = n.v;
    x->err[i] = n.e;
    x->origin[i] = n.origin;
    x->undecided[i] = n.undecided;
}

typedef struct EvalRun {
    Arena *arena;
    const IrModule *m;
    const EvalWorld *w;
    const IrFunc *f;
    EvalValue *const *args; /* [n args] */
    EvalValue **values;     /* [n ops] */
} EvalRun;

static inline const EvalValue *eval_operand(const EvalRun *r, const IrOp *op, uint32_t i)
{
    return r->values[op->args[i]];
}
/* Where a row of a value begins that is read at `row` of some space: the unit space has one row. */
static inline int64_t eval_row(const EvalValue *x, int64_t row)
{
    ICE_UNLESS(x->type.space == IR_UNIT || (row >= 0 && row < x->rows));
    return x->type.space == IR_UNIT ? 0 : row * x->width;
}

static inline int64_t eval_element_id(const EvalRun *r, IrId space, int64_t row)
{
    const int64_t *ids = r->w->element_ids[space];
    return ids ? ids[row] : row;
}

/* For each row-major index over dims[0..n): the row-major index of x's element there, dims that x
   lacks left out; dims that only x has count as 0. [product of sizes, in *n_out] */
int64_t *eval_index(const EvalRun *r, const IrId *dims, uint32_t n, const IrType *x, int64_t *n_out);

/* One per rule of the column `eval` in ops.def. Fill `out`, which comes as zeros. */
void eval_rule_arg(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_const(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_iota(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_element(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_row(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_random(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_random_at(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_mapped(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_map(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_rank(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_nth(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_reshape(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_slice(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_at(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_concat(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_gather(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_dims(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_contract(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_nearest(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_route(const EvalRun *r, const IrOp *op, EvalValue *out);
void eval_rule_reduce(const EvalRun *r, const IrOp *op, EvalValue *out);
