/* Hits: 1 where an integer is the number of a place of a dim, 0 elsewhere. */
#pragma once
#include "passes/rewrite/rewrite.h"

typedef struct Hit { /* bool or number [.., dim]: 1 where the index is this place of dim */
    IrId index, dim;
} Hit;

/* Is v 1 where an index is the place, else 0? Variables of a `grad` (pinned, [values] or NULL) are not looked
   through. */
bool hit_is(const IrFunc *f, const bool *pinned, IrId v, Hit *hit);
/* What op sums the product of with hits, over their dim and perhaps others; IR_NONE if it does nothing like that. */
IrId hit_picks(const IrFunc *f, const bool *pinned, const IrOp *op, Hit *hit);
