/* lower: groups with tiles become kernels and steps of the host plan. It spells what the schedule chose: it is told the
   functions, their groups and the numbers of their tiles, never the machine. What it adds by itself are rules that hold
   for all targets (docs/passes.md, "Schedules as text"). */
#pragma once
#include "ir/plan.h"
#include "passes/schedule/schedule.h"

/* Every function of fm, in ctx->stage, a kernel for each step. buffer_of[i]: plan buffers of function i by stored
   value, UINT32_MAX: none. */
HostPlan *lower_funcs(PassContext *ctx, const FusedModule *fm, uint32_t **buffer_of);
/* The same of one function of fm. */
HostPlan *lower_only(PassContext *ctx, const FusedModule *fm, const FusedFunc *f, uint32_t **buffer_of);
