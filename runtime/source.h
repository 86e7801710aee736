/* Where a data set's arrays come from, asked for by stem ("x"). In a folder, the first of these
   that is there: x.npy; member x of graph.npz; x.npz (its member x, or its only one; a scipy CSR
   matrix answers as x_indptr, x_indices, x_data); and for edge_index and edge_weight graph.mtx,
   edges.tsv, edges.csv. A single .npz file stands for a folder that holds just graph.npz.
   docs/data.md is the reference. */
#pragma once
#include "runtime/edge_text.h"
#include "runtime/json.h"
#include "runtime/zip.h"

typedef struct RtSource {
    char path[3072];
    RtJsonDoc meta;  /* root NULL without meta.json */
    bool is_file;    /* path is an archive, not a folder */
    RtZip graph;     /* path itself, or graph.npz; no members if absent */
    RtZip *side;     /* the STEM.npz that was opened last */
    RtEdgeText text; /* empty if edge_index comes from elsewhere */
    char text_path[4096];
} RtSource;

RtCode rt_source_open(const char *path, RtSource *s, RtStatus *st);
void rt_source_close(RtSource *s);
/* True also for what turns out to be malformed: reading it says how. */
bool rt_source_has(RtSource *s, const char *stem);
/* FILE_OPEN if absent. Arrays of text files are handed over: they can be read once. */
RtCode rt_source_read(RtSource *s, const char *stem, RtArray *a, RtStatus *st);
/* What errors call the array: "DIR/x.npy", "DIR/graph.npz:x". */
const char *rt_source_place(RtSource *s, const char *stem, char *out, size_t size);
/* A whole number in meta.json; *out is unchanged if absent. DATA_META if it is something else. */
RtCode rt_source_meta_int(const RtSource *s, const char *key, int64_t *out, RtStatus *st);
