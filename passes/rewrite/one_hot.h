/* One-hot values: 1 where an integer is the number of a place of a dim, 0 elsewhere. */
#pragma once
#include "passes/rewrite/rewrite.h"

typedef struct OneHot { /* bool or number [.., dim] */
    IrId index, dim;
} OneHot;

/* Is v one-hot? Variables of a `grad` (pinned, [values] or NULL) are not looked through. */
bool one_hot_is(const IrFunc *f, const bool *pinned, IrId v, OneHot *hot);
/* What op sums the product of with a one-hot, over its dim and perhaps others; IR_NONE if it does nothing like that. */
IrId one_hot_reads(const IrFunc *f, const bool *pinned, const IrOp *op, OneHot *hot);
