/* What does not change between epochs. The pass hoist computes such values once; a pass that runs before it may count
   them as free. */
#pragma once
#include "passes/passes.h"

/* [f->ops.n] true: the value depends on inputs, the graph and constants alone and f runs in every epoch, so that hoist
   may take it out of the loop. All false where hoist is off or f does not run in every epoch. */
const bool *hoist_invariant(const PassContext *ctx, const IrModule *m, const IrFunc *f);
/* True for the functions that run in every epoch. */
bool hoist_in_loop(const IrFunc *f);
