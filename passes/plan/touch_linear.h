/* What a step that sums over a map makes of rows at images of its elements (touch_linear.c). Private to touch.c. */
#pragma once
#include "passes/plan/planning.h"

typedef struct TouchLinear TouchLinear;
TouchLinear *touch_linear_new(const FusedFunc *f, Arena *a);
/* What follows is about this group; ANYHOW where it sums over no map. */
void touch_linear_ask(TouchLinear *t, uint32_t group);
PlanHow touch_linear_sums(const TouchLinear *t); /* LINEAR: every sum is, in all such rows together; else ANYHOW */
PlanHow touch_linear_read(const TouchLinear *t,
                          IrId v); /* at the row: WITHOUT, unless a value that depends on images reads it */
PlanHow touch_linear_written(TouchLinear *t, IrId root);
PlanHow touch_linear_inner(TouchLinear *t, IrId inner); /* ALONE: no sum of its row is in it; else ANYHOW */
bool touch_linear_adds(TouchLinear *t, IrId root);      /* PLAN_ADDS */
