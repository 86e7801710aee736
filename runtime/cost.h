/* Predicted time of a step on one graph and machine, for `plan`: what it moves or what it computes, at the machine's
   rates. Nothing else depends on it. */
#pragma once
#include "runtime/exec.h"
#include "runtime/machine.h"

typedef struct RtPrediction {
    double ns; /* of the whole step, on the threads for which the machine's figures hold */
    double memory_ns, arithmetic_ns;
} RtPrediction;

/* Of the rows that are needed, where the exec was narrowed. */
void rt_cost_step(const RtExec *e, int64_t step, const RtMachine *machine, RtPrediction *p);
