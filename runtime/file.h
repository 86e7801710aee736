/* Files as a whole: read into memory; replaced atomically (replace.h says how). */
#pragma once
#include "runtime/memory.h"

/* Reads a whole file. FILE_OPEN or FILE_READ on failure, *b then empty. */
RtCode rt_file_read(const char *path, RtBlock *b, RtStatus *st);

/* A file to be read in parts, and how long it is; the caller closes it. FILE_OPEN or FILE_READ on failure. */
RtCode rt_file_open(const char *path, int *fd, int64_t *bytes, RtStatus *st);
/* `bytes` of it from `from` on, and `spare` zeros behind them. b->bytes is less where the file has become short. */
RtCode rt_file_read_part(int fd, const char *path, int64_t from, int64_t bytes, int64_t spare, RtBlock *b,
                         RtStatus *st);

typedef struct RtFilePart {
    const void *p;
    size_t bytes;
} RtFilePart;
/* Replaces path by the parts, in order; it keeps its permissions. On failure the old file is untouched and nothing is
   left beside it. */
RtCode rt_file_replace(const char *path, const RtFilePart *parts, size_t n_parts, RtStatus *st);
/* Whether rt_file_replace has a chance: the folder and the file are there to be written. Asked before long work. */
RtCode rt_file_writable(const char *path, RtStatus *st);
