/* Metapaths: the pairs of nodes that paths join which take an edge of each of several graphs (graph_path.c). */
#pragma once
#include "runtime/status.h"
#include <stdint.h>

typedef struct RtPathStep {   /* the edges that one step of a path may be */
    const int32_t *src, *dst; /* [n] */
    int64_t n, n_src, n_dst;  /* edges; nodes that src and dst are numbers of */
} RtPathStep;

typedef struct RtPathWalk RtPathWalk;

/* Counts the pairs. Sources of a step are targets of the one before it. name: the path's, for messages. The steps'
   arrays are read until the walk is freed. GRAPH_SIZE or MEMORY, with how many pairs there are and what they take,
   before memory is asked for. *w is NULL on failure. */
RtCode rt_path_open(const char *name, const RtPathStep *steps, int64_t n_steps, RtPathWalk **w, int64_t *n_pairs,
                    RtStatus *st);
/* src, dst: [n_pairs] each pair once, by target, then by source. */
void rt_path_pairs(RtPathWalk *w, int32_t *src, int32_t *dst);
void rt_path_free(RtPathWalk *w);
