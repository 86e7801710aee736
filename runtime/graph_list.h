/* Edge lists of graphs while they are built: the user's order, before sorting. Private to graph*.c. */
#pragma once
#include "runtime/graph.h"
#include "runtime/random.h"

typedef struct RtEdgeList {
    int64_t n;
    int32_t *src, *dst; /* [n] user order */
    int32_t *origin;    /* [n] edge of the base list, -1: a new edge; NULL for data and random */
    int32_t *image;     /* [base n] edge of this list, -1: removed; NULL likewise */
    int32_t *stored;    /* [n] position after sorting, filled by the builder */
    RtBlock block;
} RtEdgeList;

/* Room for n edges, and the two maps to a base of n_base edges unless n_base < 0. */
RtCode rt_edge_list_alloc(RtEdgeList *l, int64_t n, int64_t n_base, RtStatus *st);

/* Edges by one end, each row in the user's order. */
typedef struct RtEdgeRows {
    RtBlock block;
    int64_t *rows; /* [n_ends+1] */
    int32_t *list; /* [n] edges */
} RtEdgeRows;

/* ends[e] in [0, n_ends) for each of n edges. The caller frees r->block; on failure there is none. */
RtCode rt_edge_rows(const int32_t *ends, int64_t n, int64_t n_ends, RtEdgeRows *r, RtStatus *st);

/* Graphs of pairs (graph_pairs.c). Of the base's edges: from e to f where e ends where f begins (line) or ends
   (siblings). Of
   nodes: from each to each of the same graph of the batch. By target, then by source, in the user's order. */
RtCode rt_list_edge_pairs(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *base, RtEdgeList *l, RtStatus *st);
RtCode rt_list_node_pairs(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, RtEdgeList *l, RtStatus *st);

/* The pairs that paths join (graph_path.c), each once: by target, then by source. GRAPH_SIZE or MEMORY, with how many
   there are and what they take, before memory is asked for. */
RtCode rt_list_path(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *lists, RtEdgeList *l, RtStatus *st);

/* Pairs of a node and an edge of the base (graph_targets.c): all, or those that edges of `path` answer; by edge, then
   by node. DATA_MISSING without the keys that it asks for, DATA_ROWS where they are not one of each edge. */
RtCode rt_list_candidates(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *lists, RtEdgeList *l,
                          RtStatus *st);
RtCode rt_list_answers(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, const RtEdgeList *lists,
                       RtEdgeList *l, RtStatus *st);

/* A number of the graph's draws: by its seed, or by the run's seed, the step and its site. */
static inline uint32_t rt_graph_draw(const RtGraph *g, const RtGraphDef *def, int64_t element, uint64_t feature)
{
    return def->redrawn ? rt_philox((uint64_t)g->draw_seed, (uint64_t)g->draw_step, (uint32_t)def->seed,
                                    (uint64_t)element, feature)
                        : rt_philox((uint64_t)def->seed, 0, 0, (uint64_t)element, feature);
}

/* One edge into each node, from the node whose draw is the i-th smallest. */
RtCode rt_list_permutation(const RtGraph *g, const RtGraphDef *def, RtEdgeList *l, RtStatus *st);

/* def->n_edges drawn pairs for each edge of the base (graph_negatives.c). */
RtCode rt_list_negatives(const RtGraph *g, const RtGraphDef *def, const RtEdgeList *base, RtEdgeList *l, RtStatus *st);

/* To each target as many edges as it has neighbours (graph_pairs.c); their sources, -1 here, a program says. */
RtCode rt_list_nearest(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, RtEdgeList *l, RtStatus *st);

/* The graph that a row is of (graph_found.c): nodes of the data by the user's graph_of, which may hold any number,
   chosen nodes by their graph's map, edges by their source, or by what else of them is known before a run; 0 where all
   are of one. It reads maps of that row's graph and of graphs before it only. */
int64_t rt_row_graph(const RtGraph *g, const RtTopology *t, int64_t space, int64_t row);
/* The file that says so of the nodes, for errors: "batch.npy", "paper.batch.npy". Returns out. */
const char *rt_batch_place(const RtGraph *g, const RtTopology *t, int64_t space, char *out, size_t size);

/* The count, the map to the base's edges and the map to graphs of batches of a graph whose ends a program says; *n: its
   edges. */
RtCode rt_graph_build_found(RtGraph *g, const RtGraphDef *d, const RtTopology *t, int64_t n_base, int64_t *n,
                            RtStatus *st);
/* The pairs of rows and keys of a graph `keyed`, whose keys are said: their count, the maps from them and the map to
   them (graph_keyed.c). Those of the first n_owned rows come first. */
RtCode rt_graph_build_keyed(RtGraph *g, const RtGraphDef *d, int64_t n_owned, RtStatus *st);
RtCode rt_graph_alloc(RtGraph *g, int64_t count, int64_t elem, void *out, RtStatus *st); /* unless *out is there */
RtCode rt_graph_set_count(RtGraph *g, int64_t space, int64_t count, RtStatus *st);

/* Fills *list for graph definition `def`; `lists` holds those of earlier graphs. Ids are checked
   against counts. */
RtCode rt_edge_list_make(const RtGraph *g, const RtGraphDef *def, const RtTopology *t, const RtEdgeList *lists,
                         RtEdgeList *list, RtStatus *st);
