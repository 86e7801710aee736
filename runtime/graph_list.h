/* Edge lists of graphs while they are built: the user's order, before sorting. Private to graph*.c.
 */
#pragma once
#include "runtime/graph.h"

typedef struct RtEdgeList {
    int64_t n;
    int32_t *src, *dst; /* [n] user order */
    int32_t *origin;    /* [n] edge of the base list, -1: a new edge; NULL for data and random */
    int32_t *image;     /* [base n] edge of this list, -1: removed; NULL likewise */
    int32_t *stored;    /* [n] position after sorting, filled by the builder */
    RtBlock block;
} RtEdgeList;

/* Fills *list for graph definition `def`; `lists` holds those of earlier graphs. Ids are checked
   against counts. */
RtCode rt_edge_list_make(const RtGraph *g, const RtGraphDef *def, const RtTopology *t,
                         const RtEdgeList *lists, RtEdgeList *list, RtStatus *st);
