/* An order in which the nodes of a graph are stored, so that rows that are gathered one after another lie, or were
   read, close to each other. Ids stay the user's: the order is a list of them. */
#pragma once
#include "runtime/memory.h"

typedef enum { RT_ORDER_NONE, RT_ORDER_AUTO, RT_ORDER_DEGREE, RT_ORDER_BFS } RtOrderMode;
RtCode rt_order_parse(const char *text, RtOrderMode *mode, RtStatus *st);

typedef struct RtOrder {
    const char *name; /* of the order that was chosen: "none", "degree", "bfs" */
    const char *why;  /* the graph keeps its order although another was asked for; else NULL */
    double cost;      /* predicted cost of its gathers, as a share of that of the user's order; 1 for none */
    RtBlock block;
    int64_t *ids; /* [n_nodes] the user's id of each stored node; NULL: the user's order */
} RtOrder;

/* Orders a graph whose ids are known to lie in [0, n_nodes). auto: the cheapest order, where its predicted cost is
   below
   0.85 of the user's. *order is empty on failure. */
RtCode rt_order_make(RtOrderMode mode, int64_t n_nodes, int64_t n_edges, const int64_t *src, const int64_t *dst,
                     RtOrder *order, RtStatus *st);
void rt_order_free(RtOrder *order);
