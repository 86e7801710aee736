/* Edges as text: MatrixMarket coordinate files, and lists of two or three columns. */
#pragma once
#include "runtime/array.h"

typedef struct RtEdgeText {
    RtArray edges;   /* [2, E] i64: sources, then targets, counted from 0 */
    RtArray weights; /* [E] f64; empty where the file has none */
    int64_t n_nodes; /* as the file says, -1 if it does not */
} RtEdgeText;

/* Reads PATH.mtx as MatrixMarket, anything else as a list. *t is empty on failure. */
RtCode rt_edge_text_read(const char *path, RtEdgeText *t, RtStatus *st);
void rt_edge_text_free(RtEdgeText *t);
