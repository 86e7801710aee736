/* Sums of the features of heads that vectors have side by side (see cuda_sums.c). */
#pragma once
#include "ir/kernel.h"

enum { CUDA_MOST_WIDE = 4 /* vectors that are moved together */, CUDA_MOST_SUMMED = 8 };

typedef struct CudaSum {
    KirId result; /* lane i has the sum of features i * each .. of the n vectors, one behind the other */
    KirId in[CUDA_MOST_SUMMED];
    uint8_t n, each; /* powers of two; each >= n */
} CudaSum;
typedef struct CudaSums {
    VEC(CudaSum) all;
    uint32_t
        *inner;   /* [ins.n] + 1: the sum that alone wants this value, which lies between its vectors and its result */
    uint32_t *of; /* [ins.n] + 1: the sum of which this is the result */
} CudaSums;
/* lanes: of a warp. block: [ins.n] where an instruction stands. */
CudaSums cuda_sums(Arena *a, const KirKernel *k, uint32_t lanes, const uint32_t *block);
