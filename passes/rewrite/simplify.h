/* Between the walk of simplify (passes/rewrite/simplify.c) and its rules (passes/simplify_*.c). */
#pragma once
#include "passes/rewrite/facts.h"
#include "passes/rewrite/rewrite.h"

typedef struct Simplify {
    Build b;
    bool has_grad;        /* `grad` ops are left: detach has a meaning, variables are pinned */
    VEC(Facts) facts;     /* [values of b.f] */
    VEC(bool) shared;     /* [values of b.f] results, and what the old function reads at two places */
    VEC(bool) pinned;     /* [values of b.f] a grad's variable: rules may not look through it */
    uint32_t n_fired[20]; /* per row of the rule table */
} Simplify;

/* Adds an op, or what the rules make of it: a value of exactly op->type. */
IrId simplify_add(Simplify *s, IrOp op);
/* The op that defines v; an `arg` in its place where v is pinned. */
const IrOp *simplify_def(const Simplify *s, IrId v);
/* Is v a const? *value: as its dtype holds it; may be NULL. */
bool simplify_const(const Simplify *s, IrId v, double *value);
static inline bool simplify_knows(const Simplify *s, IrId v, Facts facts)
{
    return (s->facts.data[v] & facts) == facts;
}

/* op if its operands fit its type, simplified; else IR_NONE. */
IrId simplify_try(Simplify *s, const IrOp *op);
IrOp simplify_op1(const Simplify *s, const IrOp *like, IrOpcode op, IrId x);
IrOp simplify_op2(const Simplify *s, const IrOp *like, IrOpcode op, IrId x, IrId y);
IrId simplify_constant(Simplify *s, const IrOp *like, double value); /* of like's type */
/* x as a value of `type`, which has all its dims: x, a transpose of it, or a broadcast. */
IrId simplify_spread(Simplify *s, IrId x, const IrOp *like);
/* Is op a broadcast: mul(const 1 : its type, x)? x may still be of the same type. */
bool simplify_is_broadcast(const Simplify *s, const IrOp *op);
/* The x of a broadcast; else IR_NONE. */
IrId simplify_broadcast_of(const Simplify *s, IrId v);

/* A rule returns a value equal to the op's, or IR_NONE. It never returns something that costs more. */
typedef IrId SimplifyRule(Simplify *s, const IrOp *op);
SimplifyRule rule_fold, rule_fold_rows, rule_identity, rule_absorb, rule_sign, rule_power, rule_divide, rule_select,
    rule_cast, rule_view, rule_pieces, rule_at, rule_same, rule_not, rule_detach, rule_names, rule_move, rule_narrow;
