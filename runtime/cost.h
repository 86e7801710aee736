/* Predicted time of a step on one graph and machine. Rows that are read in no order miss a cache of R rows as often as
   the expected number of distinct rows in a window says: U(x) = sum over rows of 1 - exp(-d x), d the times a row is read and x
   the window's share of all reads (Che's approximation, with each row's first read cold). So one degree histogram per map
   predicts the traffic of every level; bandwidths come from the machine's figures. Nothing but speed depends on it. */
#pragma once
#include "runtime/graph.h"
#include "runtime/machine.h"

typedef struct RtCostModel RtCostModel;

typedef struct RtPrediction {
    double ns;              /* of the whole step on the machine's threads */
    double memory_ns, arithmetic_ns;
    double bytes[RT_N_LEVELS]; /* that come from each level: hits of it */
} RtPrediction;

/* graph and machine must outlive the model. MEMORY. One thread at a time. */
RtCode rt_cost_create(const RtGraph *g, const RtMachine *machine, RtCostModel **c, RtStatus *st);
void rt_cost_free(RtCostModel *c);
/* ahead: index into rt_distances. The first call for a map counts how often each row is read: O(edges). */
RtCode rt_cost_step(RtCostModel *c, const RtStep *s, int ahead, RtPrediction *p, RtStatus *st);
/* Expected misses of n reads of rows of `bytes` through `map` in a cache of `capacity` bytes. */
RtCode rt_cost_misses(RtCostModel *c, int64_t map, double bytes, double capacity, double *misses, RtStatus *st);
