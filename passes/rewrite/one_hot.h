/* One-hot values: 1 where an integer is the number of a place of a dim, 0 elsewhere. */
#pragma once
#include "passes/rewrite/rewrite.h"

typedef struct OneHot { /* bool or number [.., dim] */
    IrId index, dim;
} OneHot;

/* Is v one-hot? Variables of a `grad` (pinned, [values] or NULL) are not looked through. */
bool one_hot_is(const IrFunc *f, const bool *pinned, IrId v, OneHot *hot);
/* Is op the element at a place, as a sum of products with a one-hot over its dim alone? Then *at is that op, but for
   the order of its dims; at->args [2] is the caller's. */
bool one_hot_place(const IrFunc *f, const bool *pinned, const IrOp *op, IrOp *at);
