/* The selector: how each step runs on this graph and machine, by the cost model, when a program is bound. It chooses
   how far ahead gathered rows are asked for, and how the iterations are cut into chunks. Never what is computed, nor in
   which order. */
#pragma once
#include "runtime/cost.h"
#include "runtime/exec.h"

typedef struct RtSelector {
    RtCostModel *cost;
} RtSelector;

enum { RT_MAX_WAYS = 64 };
/* All ways to run a step where `said` leaves it open, fields all said; out has room for RT_MAX_WAYS. step -1: of any
   step. */
int rt_select_ways(const RtExec *e, int64_t step, const RtChoice *said, RtChoice *out);
/* An RtChoose; user is an RtSelector. */
void rt_select(void *user, const RtExec *e, int64_t step, RtChoice *c);
/* Predicted ns of a step under a choice; *p: what they are made of, before threads share them out. */
double rt_select_predict(const RtSelector *s, const RtExec *e, int64_t step, const RtChoice *c, RtPrediction *p);
