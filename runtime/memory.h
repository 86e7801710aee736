/* Memory of the runtime: 64-byte aligned blocks, zeroed, on 2 MiB pages where a block is large
   (random reads of feature tables gain 1.5x from them). Sizes are checked for overflow where they
   are multiplied. */
#pragma once
#include "runtime/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct RtBlock {
    void *p;
    size_t bytes;  /* as asked for */
    size_t mapped; /* bytes of the mapping, 0: from the heap */
} RtBlock;

/* `what` names the block in the error. A block of 0 bytes has a pointer that must not be read. */
RtCode rt_block_alloc(RtBlock *b, size_t bytes, const char *what, RtStatus *st);
void rt_block_free(RtBlock *b); /* leaves *b empty; freeing an empty block does nothing */

/* *out = a * b, false on overflow or a negative factor. */
bool rt_mul(int64_t a, int64_t b, int64_t *out);
bool rt_add(int64_t a, int64_t b, int64_t *out);

int64_t rt_dtype_bytes(int64_t dtype);
const char *rt_dtype_name(int64_t dtype); /* "f32" */
