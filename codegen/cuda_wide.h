/* Vectors that lie side by side in memory, moved by one access of each lane (see cuda_wide.c). */
#pragma once
#include "codegen/cuda_memory.h"
#include "codegen/cuda_sums.h"

typedef struct CudaWide {
    uint8_t *n;       /* [ins.n] of an access that is one of n moved together: 2 or 4, of scalars as many as a warp has
                         lanes, too; of repeated lanes that n vectors share, and of numbers that each of them meets in
                         all lanes; of sums of lanes of n vectors; else 0 */
    uint8_t *place;   /* [ins.n] which of them it is */
    KirId (*all)[16]; /* [ins.n] all of them, by place; of sums the vectors */
    KirId *at; /* [ins.n] the one in whose stead all are moved: of loads the first to be reached, of stores the last; of
                  repeated lanes and of numbers the first */
    uint8_t *each;    /* [ins.n] of sums of lanes: features of each sum; else 0 */
    uint8_t *vectors; /* [ins.n] of such a number: vectors that meet one number, 1 or 2, or 1 where it is computed from
                         others; else 0 */
    bool *idle;       /* [ins.n] nobody wants it any more */
} CudaWide;
CudaWide cuda_wide(Arena *a, const CudaMemory *m);
/* Whether a scalar is one of as many as a warp has lanes, of which one access brings each lane one. */
static inline bool cuda_is_dealt(const CudaWide *w, KirId id) { return w->n[id] > CUDA_MOST_WIDE && !w->each[id]; }
