/* How a data folder is split over processes that train together (docs/data.md, "Parts"): what is assigned, by which
   methods, and what each part then holds. Used by `gnnc data` alone. */
#pragma once
#include "driver/commands.h"
#include "driver/npy.h"
#include <cjson/cJSON.h>

/* ---- the folder that is split (partition_read.c) ---- */

/* Nodes of all kinds are numbered one kind after another, and so are the edges of all relations. */
typedef struct Kind {
    const char *name; /* NULL: the nodes of a folder that names none, the first of its kinds */
    int64_t first, n; /* nodes [first, first + n) */
} Kind;
typedef struct Relation {
    const char *name; /* NULL: edge_index.npy, of the kind without a name */
    /* the stem of the array that says the edges: "writes.edge_index" holds both ends of each; a column,
       "author.writes", holds one target for each source, by the sources' ids. Where the sources have no name, "subject"
       for example, parts hold the targets' ids of the whole, since a program may read them as numbers as well */
    const char *array;
    /* of a metapath: the arrays of its steps, "subject,reverse(subject)", as compose has them; else NULL */
    const char *path;
    bool column;
    int32_t from, to; /* kinds */
    int64_t first, n; /* edges */
    char dtype[8];
} Relation;

typedef struct Folder {
    const char *path;
    char **names; /* [n_names] its .npy files, sorted */
    size_t n_names;
    cJSON *meta; /* or NULL */
    Kind *kinds;
    Relation *relations;
    int32_t n_kinds, n_relations;
    int64_t nodes, edges, graphs; /* of all kinds and relations; graphs: 0 without batch.npy; all below 2^31 */
    const int32_t *src, *dst;     /* [edges] */
    const int32_t *batch;         /* [nodes] each node's graph, ascending; or NULL */
} Folder;

/* Of a folder with meta.json's "relations": its kinds, their counts, and the edges of all relations. */
bool partition_read_relations(Session *s, Arena *a, Folder *f);
/* Adds the pairs that metapaths join, "same=about,reverse(about); ..", as relations. False with E0612. */
bool partition_add_paths(Session *s, Folder *f, const char *text);
/* E0615 about one file; help may be NULL. False. */
bool partition_unfit(Session *s, const Folder *f, const char *file, const char *what, const char *help);
/* n ids of an array from `first` on, of the kind; or NULL with a diagnostic. */
int32_t *partition_ids(Session *s, const Folder *f, const char *file, const Npy *npy, int64_t first, int64_t n,
                       int64_t below);

/* Reads what decides about parts, and refuses what cannot be split. False with diagnostics. */
bool partition_read(Session *s, const char *path, Folder *f);

/* One of its arrays. False with E0614. */
bool partition_array(Session *s, Arena *a, const Folder *f, const char *name, Npy *npy);

/* What the rows of an array belong to. */
typedef enum { ROWS_NONE, ROWS_NODE, ROWS_EDGE, ROWS_GRAPH } RowsOf;
typedef struct Rows {
    RowsOf of;
    int32_t which; /* kind or relation */
} Rows;
/* Of an array with this many rows: from the key "rows" of meta.json, else from the count, else from its name; where
   kinds have names, from what stands before the name's dot. False with E0615: they contradict each other, or cannot
   tell. */
bool partition_rows(Session *s, const Folder *f, const char *stem, int64_t rows, Rows *out);

/* Whether parts hold the ids of a column's targets as the folder has them. */
static inline bool partition_keeps_ids(const Folder *f, const Relation *x)
{
    return x->column && !f->kinds[x->from].name;
}

/* The relation whose edges are in the array; NULL: of none. */
const Relation *partition_relation(const Folder *f, const char *stem);

/* NAME where stem is NAME followed by `part` ("_indptr", "_indices" or "_data") and all three files of that CSR matrix
   are there; else NULL. */
const char *partition_csr(Session *s, const Folder *f, const char *stem, const char *part);

/* ---- methods (partition_methods.c, partition_metis.c) ---- */

/* What is assigned as a whole: a node, or a graph of a batch. */
typedef struct Units {
    int64_t n, total;
    const int64_t *weight; /* [n] at least 1: the work that comes with it; total: of all */
    const int64_t *first;  /* [n_kinds + 1] units of kind k are [first[k], first[k + 1]); NULL: they are of one kind */
    int32_t n_kinds;
    const int64_t *offsets;    /* [n + 1] into neighbours; NULL: nobody has neighbours */
    const int32_t *neighbours; /* ascending, each once, in both directions, without the unit itself */
} Units;

/* owner [n]: the part of each unit. All are functions of their arguments alone. A program computes one kind of nodes
   after another, and parts wait for one another in between: so each is to have its share of each kind's work. */

/* Ascending ids; a part begins at a multiple of `align`, and its work is as near as that allows to its share. */
void partition_contiguous(const Units *u, int32_t parts, int64_t align, int32_t *owner);
void partition_random(const Units *u, int32_t parts, uint64_t seed, int32_t *owner);
/* Gives units to parts, kind by kind, the heaviest unit first, each to the part whose units of the kind weigh least so
   far. */
void partition_balance(Arena *a, const Units *u, int32_t parts, int32_t *owner);
/* Each where most of its neighbours are, as far as there is room. */
void partition_ldg(Arena *a, const Units *u, int32_t parts, int32_t *owner);

typedef struct Metis Metis;
/* METIS, opened at run time; NULL with *why. */
Metis *metis_open(Arena *a, const char **why);
/* NULL, or what is wrong. volume: it tries for few halo rows rather than few cut edges. */
const char *partition_metis(Arena *a, const Metis *m, const Units *u, int32_t parts, bool volume, uint64_t seed,
                            int32_t *owner);

/* ---- parts (partition_parts.c) ---- */

typedef struct PartNodes {
    int64_t owned, inner, halo;
    const int32_t *ids; /* [owned + halo] numbers in the kind: inner, others that it owns, halo; each ascending */
} PartNodes;
typedef struct PartEdges {
    int64_t n;
    const int32_t *ids; /* [n] numbers in the relation, ascending; of a column those of all its sources */
} PartEdges;

typedef struct Part {
    int64_t owned, halo, edges;  /* nodes that it owns; that it reads of others; edges with an end that it owns */
    int64_t inner;               /* nodes that it owns, none of whose edges leads to another part's */
    int64_t edges_in, edges_out; /* of these: with an owned target, with an owned source */
    int64_t sent;                /* rows that it sends: a node that it owns and k other parts read counts k times */
    int64_t graphs;              /* of a batch */
    int64_t bytes;               /* of its arrays, once they are written */
    const int32_t *nodes;        /* [owned + halo] ids: inner, others that it owns, halo; each ascending */
    const int32_t *edge_ids;     /* [edges] ascending */
    const PartNodes *kinds;      /* [n_kinds] the same by kind */
    const PartEdges *relations;  /* [n_relations] and by relation */
    const int32_t *graph_ids;    /* [graphs] ascending */
} Part;

typedef struct Split {
    int32_t n_parts;
    const int32_t *owner; /* [nodes] */
    Part *parts;          /* [n_parts] */
    int64_t cut, halo, halo_most;
    /* work: owned nodes, and edges in and out. Of each kind that of the part with most, added up, over the mean */
    double balance;
    double cost; /* of the slowest part, in edges */
} Split;

/* graph_owner [graphs]: for batches, else NULL. */
Split partition_split(Arena *a, const Folder *f, int32_t n_parts, const int32_t *owner, const int32_t *graph_owner);

/* ---- what is written and read again (partition_write.c, partition_verify.c) ---- */

typedef struct FileSum {
    const char *path; /* inside the partition: "part-0/x.npy" */
    char sha256[65];
} FileSum;
typedef struct FileSums {
    FileSum *data;
    uint32_t n, cap;
} FileSums;
/* Adds to sums the path and the checksum of file `path` of the partition in `dir`. False where it cannot be read: *why
   says why. */
bool partition_sum(Arena *a, const char *dir, const char *path, FileSums *sums, const char **why);
/* Over the paths and checksums of owner.npy and of all files of parts but part.json; sorts them. */
void partition_digest(Arena *a, FileSums *sums, char out[65]);

typedef struct Method {
    const char *name, *objective;
    int64_t seed;
    const char *candidates; /* JSON, or NULL */
} Method;
/* Writes the parts beside what is there and then puts them in its place. False with diagnostics. *json: the text of
   partition.json. */
bool partition_write(Session *s, const Folder *f, const Split *split, const Method *m, const char *out,
                     const char **json);
/* Whether all that would be written over is a partition that nobody has touched. False with E0620. */
bool partition_spares_others(Session *s, const char *out);

/* Whether a folder is a partition. */
bool partition_is(Session *s, const char *path);
int partition_info(Session *s, const char *path);
int partition_verify(Session *s, const char *path);
/* The text of partition.json as a table. */
void partition_print(Session *s, const char *path, const char *json);
