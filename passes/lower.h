/* The kernel stage: fuse, schedule, lower, cone, connect, memplan. From a verified module without `grad` to kernels and the
   host plan, one program per function. */
#pragma once
#include "ir/plan.h"
#include "passes/passes.h"

/* NULL with a diagnostic in ctx->diags (E0616, or E0618 where ctx->budget is too small, or E0506 where ctx->schedule does not fit). m is unchanged; the plan lives in ctx->stage and refers to a
   clone of m. Honours ctx->disabled for fuse, schedule and memplan. */
HostPlan *lower_module(PassContext *ctx, const IrModule *m);

/* memplan: gives every arena buffer of a program a slot, shared by buffers whose lives do not overlap and whose rows are
   the same formula. share = false: a slot each. */
void memplan_program(Arena *a, PlanProgram *prog, bool share);
