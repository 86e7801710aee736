/* Memory of the runtime: 64-byte aligned blocks, zeroed, on 2 MiB pages where a block is large
   (random reads of feature tables gain 1.5x from them), and small arrays of the heap. All of it is asked for here, with
   sizes that are computed here: nothing else of the runtime multiplies a count for an allocation or calls malloc
   (tests/test_house.py). */
#pragma once
#include "runtime/status.h"
#include <stdbool.h>
#include <stdint.h>

/* Sizes in bytes. -1 is a size that cannot be: of a count below 0, or of more bytes than 63 bits hold. What is computed
   with it is -1 again, and who asks for so much memory is told OVERFLOW. */
int64_t rt_size(int64_t n, int64_t each);                     /* n * each */
int64_t rt_size_plus(int64_t bytes, int64_t n, int64_t each); /* bytes + n * each */

typedef struct RtBlock {
    void *p;
    size_t bytes;  /* as asked for */
    size_t mapped; /* bytes of the mapping, 0: from the heap */
} RtBlock;

/* MEMORY where the machine does not have so many bytes left (available.h), OVERFLOW for -1: what is known to be needed
   later is refused before work begins. `what` names it in the error. */
RtCode rt_memory_check(int64_t bytes, const char *what, RtStatus *st);
/* Checks likewise: the kernel might grant what is not there. A block of 0 bytes has a pointer that must not be read. */
RtCode rt_block_alloc(RtBlock *b, int64_t bytes, const char *what, RtStatus *st);
void rt_block_free(RtBlock *b); /* leaves *b empty; freeing an empty block does nothing */

/* A zeroed array of n items in the pointer that `out` points to, NULL on failure; the caller frees it with free(). */
RtCode rt_alloc(void *out, int64_t n, int64_t each, const char *what, RtStatus *st);
/* Makes the array whose pointer `at` points to n items long. It is as it was on failure; what is new is not zeroed. */
RtCode rt_grow(void *at, int64_t n, int64_t each, const char *what, RtStatus *st);

/* *out = a * b, false on overflow or a negative factor. */
bool rt_mul(int64_t a, int64_t b, int64_t *out);
bool rt_add(int64_t a, int64_t b, int64_t *out);

int64_t rt_elem_bytes(int64_t elem); /* of a buffer: RT_K_F32 ... */
int64_t rt_dtype_bytes(int64_t dtype);
bool rt_is_16_bits(int64_t dtype);
int64_t rt_dtype_read(int64_t dtype);     /* what numbers are before they are rounded to it: f32 of 16 bits */
const char *rt_dtype_name(int64_t dtype); /* "f32" */
