/* Passes on kernel IR, in the order they run: prefetch, share, weave. Each takes kernels as lower or the pass before
   left them and the schedule's numbers, and puts the next generation into the plan. No bit of a result depends on
   them. */
#pragma once
#include "ir/plan.h"
#include "passes/context/machine.h"
#include "passes/schedule/schedule.h"

/* prefetch: rows that a walk gathers are asked for some elements before their turn. */
void prefetch_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan);

/* share: steps whose kernels have the same code and numbers share one; with the pass off it numbers kernels only. False
   with E0504 where a kernel is not sound. */
bool share_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan);

/* weave: chains of operations that do not wait for one another run side by side, in blocks where the longest takes many
   cycles. */
void weave_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan);
/* k with its instructions in such an order that the values that wait fill so many registers at most, in blocks whose
   longest chain is longer than the machine's chain_cycles; k is unchanged. */
KirKernel *weave_kernel(Arena *a, const Machine *machine, const KirKernel *k, int64_t registers);
