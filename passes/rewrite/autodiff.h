/* Between the reverse sweep (passes/rewrite/autodiff.c) and its rules (passes/adjoint_*.c): one rule per
   name in the column `adjoint` of ir/ops.def. A rule is given an op y and the cotangent g of its
   value, of exactly the value's type, and adds to the cotangents of the operands. It may use only
   ops that have adjoints themselves, so that a gradient can be differentiated again. */
#pragma once
#include "passes/rewrite/facts.h"
#include "passes/rewrite/rewrite.h"

/* Where a cotangent counts: where `cond` is `when`, or everywhere (cond IR_NONE). Elsewhere a `select` took the other
   branch, or a map sums no such row, and the cotangent is 0; spoiled: it has been multiplied since, and may be NaN
   there. */
typedef struct Counts {
    IrId cond;
    bool when, spoiled;
} Counts;

typedef struct Adjoint {
    Build b;
    bool *active;    /* [n] the value depends differentiably on a variable of the sweep */
    IrId *cotangent; /* [n] exactly of the value's type; IR_NONE: zero so far */
    Counts *counts;  /* [n] of each cotangent */
    Counts given;    /* of what the rule at work gives */
    Facts *facts;    /* [n] the first n_facts are known */
    uint32_t n_facts;
    uint32_t n;       /* values that existed when the sweep began */
    uint32_t n_again; /* how many sweeps may follow, each through what the one before has made */
} Adjoint;

/* autodiff_facts.c: may the rule of an op inside a row multiply by something infinite or NaN? */
bool adjoint_spoils(Adjoint *a, const IrOp *op);
/* Surely not 0? */
bool adjoint_not_zero(Adjoint *a, IrId v);
/* Is a condition made of random numbers? */
bool adjoint_is_drawn(const Adjoint *a, IrId cond);

/* Does anything want the cotangent of v? Rules may skip work for operands that do not. */
static inline bool adjoint_wants(const Adjoint *a, IrId v) { return v < a->n && a->active[v]; }
/* Adds g - summed, transposed and broadcast to v's type - to v's cotangent, if it is wanted. */
void adjoint_give(Adjoint *a, IrId v, IrId g);
/* What is given from now on by the rule at work, whose op's own cotangent counts as in `of`, counts only where cond is
   `when`. */
void adjoint_choose(Adjoint *a, Counts of, IrId cond, bool when);

/* One prototype per row of the table: an op that names a rule nobody wrote does not link. */
typedef void AdjointRule(Adjoint *a, IrId y, const IrOp *op, IrId g);
#define OP(name, args, attrs, traits, shape, adjoint, ...) AdjointRule adjoint_##adjoint;
#include "ir/ops.def"
#undef OP
