/* Vectors that lie side by side in memory, moved by one access of each lane (see cuda_wide.c). */
#pragma once
#include "ir/kernel.h"

typedef struct CudaWide {
    uint8_t *n;       /* [ins.n] of an access that is one of n moved together: 2 or 4, of scalars 16, too; else 0 */
    uint8_t *place;   /* [ins.n] which of them it is */
    KirId (*all)[16]; /* [ins.n] all of them, by place */
    KirId *at; /* [ins.n] the one in whose stead all are moved: of loads the first to be reached, of stores the last */
} CudaWide;
CudaWide cuda_wide(Arena *a, const KirKernel *k);
