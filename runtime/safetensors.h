/* The safetensors format, read and written: an 8-byte length, a JSON header of names, dtypes,
   shapes and byte ranges, then the bytes. Reading is strict: ranges tile the data without gaps or
   overlaps, names are given once. */
#pragma once
#include "runtime/array.h"
#include "runtime/json.h"

typedef struct RtStEntry {
    const char *name;
    int64_t dtype, n_dims, shape[RT_ARRAY_DIMS];
    const void *data; /* in the file's block when read; the caller's when written */
    int64_t bytes;
} RtStEntry;

typedef struct RtStFile {
    RtBlock file;
    RtJsonDoc header;
    RtStEntry *entries;
    int64_t n_entries;
} RtStFile;

/* *f is empty on failure. `name` is the place in errors. rt_st_parse copies the bytes. */
RtCode rt_st_read(const char *path, RtStFile *f, RtStatus *st);
RtCode rt_st_parse(const char *name, const void *bytes, size_t n_bytes, RtStFile *f, RtStatus *st);
void rt_st_free(RtStFile *f);
const RtStEntry *rt_st_find(const RtStFile *f, const char *name);
const char *rt_st_meta(const RtStFile *f, const char *key); /* text of __metadata__, NULL if absent */

typedef struct RtStPair {
    const char *key, *value;
} RtStPair;
/* Replaces path atomically. Keys, values and names are escaped. */
RtCode rt_st_write(const char *path, const RtStEntry *entries, int64_t n_entries, const RtStPair *meta, int64_t n_meta,
                   RtStatus *st);
