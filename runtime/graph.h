/* The graphs of a model as kernels read them: counts of spaces, maps between them, the user's ids.
   Built once from the user's edges, immutable afterwards, shared by any number of contexts. Edge
   spaces are stored sorted by destination, stable in the user's order; node spaces in the user's
   order, but for those that are given an order. */
#pragma once
#include "runtime/abi.h"
#include "runtime/declared.h"
#include "runtime/memory.h"

/* Where a matrix has elements: row and column of each, as two maps of one space. */
typedef struct RtPattern {
    int64_t row_map, col_map, count;
    const int32_t *rows, *cols; /* [count] rows ascend */
} RtPattern;

/* Edges by the user's ids. */
typedef struct RtEdgeIds {
    const char *place; /* names the source in errors: "val_index.npy" */
    int64_t n;
    const int64_t *src, *dst; /* [n]; src NULL: edge e begins at row e */
    const int64_t *rows;      /* [n] which element of the array each edge is; NULL: element e */
} RtEdgeIds;

/* Arrays of an integer for each edge, by the user's ids, that a graph asks for. */
typedef struct RtKeys {
    const char *place[RT_MAX_PATH + 1]; /* names the array in errors */
    const int64_t *of[RT_MAX_PATH + 1];
    int64_t n[RT_MAX_PATH + 1];
} RtKeys;

/* What the user gives of the graphs: edges, the graph of each node, counts. Graphs of kind RT_GRAPH_DATA share the
   edges. */
typedef struct RtTopology {
    const char *place; /* names the source in errors: "edge_index.npy" */
    int64_t n_edges;
    const int64_t *src, *dst; /* [n_edges] user order */
    /* [n_graphs] of the model: edges of those that the data say (rt_graph_is_read); NULL: they are not given */
    const RtEdgeIds *files;
    const RtKeys *keys;      /* [n_graphs] of the model: of those that have n_keys; NULL: they are not given */
    const int64_t *graph_of; /* [nodes] of the data's graph: each node's graph, ascending; NULL: all in graph 0 */
    const int64_t *const *graphs_of; /* [n_spaces] the same of each kind of nodes; NULL: graph_of alone says it */
    /* [n_spaces] of the model; -1: unknown. Node spaces and the graph space are read; edge spaces are ignored */
    int64_t *counts;
    const RtPattern *patterns; /* of inputs that are held by their nonzeros; their rows as they are stored */
    int64_t n_patterns;
    /* [n_spaces] of nodes: [count] the user's id of each stored one, NULL where they stay as they are; NULL: all do.
       Only without graph_of and graphs_of */
    int64_t *const *orders;
} RtTopology;

/* Rows of a space. A process computes those that it owns, which come first; behind them lie rows that it only reads,
   which a peer or another sample computes. */
typedef struct RtSpaceData {
    int64_t count;     /* all that buffers have */
    int64_t only_read; /* of these */
    int64_t elsewhere; /* rows that other processes own and this one may not have */
    int64_t *ids;      /* [count] the user's id of each stored element; NULL: identity */
    int64_t *ids_all;  /* [count] as ids but never NULL; present only where a program reads ids */
} RtSpaceData;

typedef struct RtMapData {
    int32_t *to;   /* [count(from)] image, -1: none */
    int64_t *rows; /* [count(to)+1] row offsets; NULL unless some step needs rows */
    /* [count(from)] elements by image, in the user's order inside each row; NULL likewise */
    int32_t *list;
} RtMapData;

/* Images under map `map` in the order of map `along`'s list, so that a walk of the list reads them one after
   another. */
typedef struct RtAlong {
    int64_t map, along;
    int32_t *to; /* [count(from)] to[k] = maps[map].to[maps[along].list[k]]; 0 behind the list's last element */
} RtAlong;

typedef struct RtGraph {
    const RtModel *model;
    RtSpaceData *spaces; /* [n_spaces] */
    RtMapData *maps;     /* [n_maps] */
    RtAlong *alongs;     /* [n_alongs] those that some program reads */
    int64_t n_alongs;
    struct RtEdgeList *lists; /* [n_graphs] kept where some graph is drawn for each step; else NULL */
    RtBlock *places;          /* [n_spaces] likewise: where each of the user's nodes is stored; empty: as they are */
    int64_t draw_seed, draw_step;
    RtBlock *blocks; /* everything above */
    int64_t n_blocks, cap_blocks;
    int64_t bytes;
} RtGraph;

/* Whether an array of the data says the graph's edges, which are not those of all graphs of kind RT_GRAPH_DATA. */
static inline bool rt_graph_is_read(const RtGraphDef *d)
{
    return d->kind == RT_GRAPH_FILE || d->kind == RT_GRAPH_COLUMN;
}
/* Whether both ends of every edge of graph `def` are rows that there are, ends[0] of sources and ends[1] of targets;
   DATA_ID with the first edge that is not so. */
RtCode rt_edge_ids_check(const RtModel *m, const RtGraphDef *def, const RtEdgeIds *ids, const int64_t ends[2],
                         RtStatus *st);
/* Bytes that the maps of a graph take at least, by the counts [n_spaces] that are known before its edges are; -1:
   unknown. */
int64_t rt_graph_least_bytes(const RtModel *m, const int64_t *counts);
/* Checks ids and builds every space and map the model has. *g is NULL on failure. */
RtCode rt_graph_create(const RtModel *m, const RtTopology *t, RtGraph **g, RtStatus *st);
void rt_graph_free(RtGraph *g);
/* Fills the map that an input says, which has no images before, and makes the pairs of rows with its keys: ids [rows]
   of the input, i32 or i64 as `dtype` says, as they are stored. Before anybody else reads g. */
RtCode rt_graph_say_map(RtGraph *g, int64_t map, int64_t dtype, const void *ids, RtStatus *st);
/* Makes the pairs of a graph `keyed`, whose keys are said, again, those of the first n_owned rows before the others. */
RtCode rt_graph_pair_up(RtGraph *g, const RtGraphDef *pairs, int64_t n_owned, RtStatus *st);
/* Draws the graphs that are drawn for each step of training; nobody else may read g meanwhile. Counts and the places of
   arrays stay. */
RtCode rt_graph_redraw(RtGraph *g, int64_t seed, int64_t step, RtStatus *st);

/* Whether some program reads the user's ids of a space's elements. */
bool rt_space_needs_ids(const RtModel *m, int64_t space);

/* Copy rows of row_bytes bytes from the user's order to the stored one, and back. in != out. */
void rt_graph_to_stored(const RtGraph *g, int64_t space, int64_t row_bytes, const void *in, void *out);
void rt_graph_to_user(const RtGraph *g, int64_t space, int64_t row_bytes, const void *in, void *out);

/* The images of `map` along `along`; NULL if no program reads them. */
int32_t *rt_graph_along(const RtGraph *g, int64_t map, int64_t along);

/* Which rows a count means: those that steps compute, or those that buffers have. Blocks of sums over all rows of a
   space are those of all processes, whichever of the two is asked for. */
typedef enum { RT_OWNED, RT_READ } RtRows;
int64_t rt_rows(const RtGraph *g, int64_t space, RtRows which);
/* The value of a count for this graph. -1 on overflow. */
int64_t rt_count_value(const RtGraph *g, const RtCount *c, RtRows which);
