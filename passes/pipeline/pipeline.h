/* The pipeline: passes on graph IR one after another, and then the kernel stage. A pass never changes its input: it
   builds the next generation in the stage arena. */
#pragma once
#include "ir/plan.h"
#include "passes/context/passes.h"

extern const PassId pass_pipeline[]; /* every stage, in order */
extern const uint32_t n_pass_pipeline;

/* Every graph pass of the pipeline (or of ctx->run) that is not disabled, in order, verified after
   each. m is unchanged. NULL with a diagnostic in ctx->diags. Kernel passes in the list are left to
   lower_module. */
IrModule *pass_run_pipeline(PassContext *ctx, const IrModule *m);
/* One graph pass with its checks, dumps and timing. */
IrModule *pass_run_one(PassContext *ctx, PassId pass, const IrModule *m);

/* The kernel stage (kernels.c has its passes in one column). From a verified module without `grad` to kernels and
   the host plan, one program per function. NULL with a diagnostic in ctx->diags (E0616, or E0618 where ctx->budget is
   too small, or E0506 where ctx->schedule does not fit). m is unchanged; the plan lives in ctx->stage and refers to a
   clone of m. Honours ctx->disabled. */
HostPlan *lower_module(PassContext *ctx, const IrModule *m);
/* The same for another machine (ctx->machine), with the bits of `first`, a plan of m: each sum has the form that it has
   there. NULL without a diagnostic where this machine's kernels cannot have these forms. */
HostPlan *lower_module_like(PassContext *ctx, const IrModule *m, const HostPlan *first);
