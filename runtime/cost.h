/* Predicted time of a step on one graph and machine. How often rows miss a cache follows from how soon they are read
   again in the order of the walk (reuse.h), measured once per map and order; bandwidths and latencies come from the
   machine's figures. Nothing but speed depends on it. */
#pragma once
#include "runtime/graph.h"
#include "runtime/machine.h"

typedef struct RtCostModel RtCostModel;

typedef struct RtPrediction {
    double ns; /* of the whole step on the machine's threads */
    double memory_ns, arithmetic_ns, latency_ns;
    double row_share;          /* of the work, that follows the rows of the walk and not their elements: 0 to 1 */
    double bytes[RT_N_LEVELS]; /* that come from each level: hits of it */
} RtPrediction;

/* graph and machine must outlive the model. MEMORY. One thread at a time. */
RtCode rt_cost_create(const RtGraph *g, const RtMachine *machine, RtCostModel **c, RtStatus *st);
void rt_cost_free(RtCostModel *c);
/* ahead: elements before their turn that gathered rows are asked for, 0: never. The first call for a map measures it:
   O(edges). */
RtCode rt_cost_step(RtCostModel *c, const RtStep *s, int64_t ahead, RtPrediction *p, RtStatus *st);
/* Expected misses of the reads, as stored, of rows of `bytes` through `map` in a cache of `capacity` bytes. */
RtCode rt_cost_misses(RtCostModel *c, int64_t map, double bytes, double capacity, double *misses, RtStatus *st);
