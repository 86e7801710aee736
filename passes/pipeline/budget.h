/* Planned memory where the counts of a graph are known, and the choice that makes it fit. */
#pragma once
#include "ir/plan.h"
#include "passes/group/group.h"

/* Rows of a space, at most; INT64_MAX where 64 bits do not count them. */
int64_t budget_rows(const IrModule *m, const PassBudget *b, IrId space);
/* Bytes of a program's arena, as a load packs it; INT64_MAX where they overflow. */
int64_t budget_peak(const IrModule *m, const PassBudget *b, const PlanProgram *p, Arena *a);
/* The groups of all functions, within ctx->budget where there is one. NULL with E0618 where nothing fits, or with E0506
   where ctx->schedule does not. */
FusedModule *fuse_module(PassContext *ctx, const IrModule *m);
/* kernels.c: the plan of one function alone, for its memory; NULL with errors. */
PlanProgram *lower_trial(PassContext *ctx, const FusedModule *fm, FusedFunc *f);
