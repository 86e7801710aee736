/* An array as a file holds it: row-major, little endian, with its own shape. What readers of every
   format return. */
#pragma once
#include "runtime/abi.h"
#include "runtime/memory.h"

enum { RT_ARRAY_SPARE = 256 }; /* bytes behind a tensor's elements that kernels may read */
enum { RT_ARRAY_DIMS = 8, RT_U8 = RT_BF16 + 1 /* only in files */ };

typedef struct RtArray {
    int64_t dtype; /* RT_F32 ... RT_BF16, or RT_U8 */
    int64_t n_dims, shape[RT_ARRAY_DIMS];
    int64_t count; /* product of shape */
    RtBlock data;
    /* the block has RT_ARRAY_SPARE bytes behind the elements, as a tensor's has, so that a tensor may take it
       over */
    bool spare;
} RtArray;

void rt_array_free(RtArray *a);
int64_t rt_array_item_bytes(const RtArray *a);
/* "[2708, 1433] f32" */
const char *rt_array_text(const RtArray *a, char *out, size_t size);

/* ---- npy ---- */

/* Reads a whole .npy file, versions 1 and 2. *a is empty on failure. `name` is the place in errors. */
RtCode rt_npy_read(const char *path, RtArray *a, RtStatus *st);
/* The same from memory (a member of an archive); bytes must not be changed meanwhile. */
RtCode rt_npy_parse(const char *name, const void *bytes, size_t n_bytes, RtArray *a, RtStatus *st);
/* Writes data (row-major, dtype RT_F32 ... RT_BOOL) atomically: a reader sees the old file or the
   new one. */
RtCode rt_npy_write(const char *path, int64_t dtype, int64_t n_dims, const int64_t *shape, const void *data,
                    RtStatus *st);
