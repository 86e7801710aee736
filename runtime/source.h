/* Where a data set's arrays come from: a directory of .npy files with an optional meta.json. Arrays
   are asked for by stem ("x" is x.npy), so that other containers can stand behind the same three
   questions. */
#pragma once
#include "runtime/array.h"
#include "runtime/json.h"

typedef struct RtSource {
    char path[3072];
    RtJsonDoc meta; /* root NULL without meta.json */
} RtSource;

RtCode rt_source_open(const char *path, RtSource *s, RtStatus *st);
void rt_source_close(RtSource *s);
bool rt_source_has(const RtSource *s, const char *stem);
/* FILE_OPEN if absent. */
RtCode rt_source_read(const RtSource *s, const char *stem, RtArray *a, RtStatus *st);
/* What errors call the array: "DIR/x.npy". */
const char *rt_source_place(const RtSource *s, const char *stem, char *out, size_t size);
/* A whole number in meta.json; *out is unchanged if absent. DATA_META if it is something else. */
RtCode rt_source_meta_int(const RtSource *s, const char *key, int64_t *out, RtStatus *st);
