/* Planned memory where the counts of a graph are known, and the choice that makes it fit. */
#pragma once
#include "ir/plan.h"
#include "passes/fuse.h"

/* Rows of a space, at most. */
int64_t budget_rows(const IrModule *m, const PassBudget *b, IrId space);
/* Bytes of a program's arena, as a load packs it; INT64_MAX where they overflow. */
int64_t budget_peak(const IrModule *m, const PassBudget *b, const PlanProgram *p, Arena *a);
/* *again, by value of the prepared function: what is computed again so that its planned memory fits ctx->budget. Returns
   the least budget that would do where none fits, else 0. */
int64_t budget_fit(PassContext *ctx, FusedModule *fm, uint32_t index, bool **again);
