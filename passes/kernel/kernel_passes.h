/* Passes on kernel IR, in the order they run: share, weave. Each takes kernels as lower or the pass before left them and the schedule's
   numbers, and puts the next generation into the plan. No bit of a result depends on them. */
#pragma once
#include "ir/plan.h"
#include "passes/schedule/schedule.h"

/* share: steps whose kernels have the same code and numbers share one; with the pass off it numbers kernels only. False with E0504
   where a kernel is not sound. */
bool share_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan);

/* weave: chains of operations that do not wait for one another run side by side, in blocks where the longest takes many cycles. */
void weave_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan);
/* k with its instructions in such an order that the values that wait fill so many registers at most; k is unchanged. least_chain:
   cycles that the longest chain of a block takes at least. */
enum { WEAVE_LEAST_CHAIN = 40 };
KirKernel *weave_kernel(Arena *a, const KirKernel *k, int64_t registers, unsigned least_chain);
