/* What does not change between epochs. The pass hoist computes such values once; a pass that runs before it may count
   them as free. */
#pragma once
#include "passes/context/passes.h"

/* [f->ops.n] true: the value depends on the graph and constants alone or, in a function that runs in every epoch, also
   on inputs, so that hoist may compute it once: it costs nothing per run. All false where hoist is off. */
const bool *hoist_invariant(const PassContext *ctx, const IrModule *m, const IrFunc *f);
