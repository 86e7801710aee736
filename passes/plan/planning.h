/* Passes on the plan of a function: which values share memory, which rows are left out, which steps run together, and
   whether all that still computes what the function says. */
#pragma once
#include "ir/plan.h"
#include "passes/schedule/schedule.h"

/* takeover.c: which value lies in whose memory, into f->home. f has tiles. */
void takeover_func(PassContext *ctx, FusedFunc *f);
/* cone.c: fills sets, the cones of steps and the writers of buffers. buffer_of: by stored value. */
void cone_program(PassContext *ctx, const FusedFunc *f, PlanProgram *p, const uint32_t *buffer_of);
/* connect.c: puts steps of p into chains. buffer_of: by stored value. */
void connect_program(PassContext *ctx, const HostPlan *plan, const FusedFunc *f, PlanProgram *p,
                     const uint32_t *buffer_of);
/* touch.c: fills the work and the touches of steps. buffer_of: by stored value. */
void touch_program(PassContext *ctx, const FusedFunc *f, PlanProgram *p, const uint32_t *buffer_of);
/* memplan.c: gives every arena buffer of a program a slot. share = false: a slot each, which shares memory with no
   other. */
void memplan_program(Arena *a, PlanProgram *prog, bool share);
/* audit.c: checks every program of a finished plan, and changes nothing. Returns NULL where all are right; else a
   sentence that names the first step, buffer and values that are wrong, which lives in a. buffer_of:
   [functions][values] the buffer of each stored value. */
const char *audit_plan(Arena *a, const HostPlan *plan, const FusedModule *fm, uint32_t *const *buffer_of);
