/* connect: steps over the same rows run together, strip by strip. See connect.c. */
#pragma once
#include "ir/plan.h"
#include "passes/fuse.h"

/* Puts steps of p into chains. buffer_of: by stored value. */
void connect_program(PassContext *ctx, const HostPlan *plan, const FusedFunc *f, PlanProgram *p, const uint32_t *buffer_of);
