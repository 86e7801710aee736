/* Where a kernel's arrays lie on a GPU, and which memory lanes of a warp hand to each other. */
#pragma once
#include "codegen/emit_cuda.h"

typedef enum { CUDA_REGISTERS /* of each lane */, CUDA_OF_WARP, CUDA_OF_BLOCK } CudaPlace;
typedef struct CudaMemory {
    const KirKernel *k;
    CudaPlace *place;  /* [ins.n] of allocs that somebody reads */
    uint32_t *offset;  /* [ins.n] of those in shared memory: bytes from where the warp's, or the block's, begin */
    bool *crossing;    /* [cuda_n_objects] a lane may touch what another one writes */
    bool *stored_over; /* [cuda_n_objects] a lane may even store where another one stored */
    CudaKernel launch;
} CudaMemory;
CudaMemory cuda_memory(Arena *a, const KirKernel *k);

/* Memory that accesses may have in common: a buffer, all buffers that may overlap, or an array. */
uint32_t cuda_n_objects(const KirKernel *k);
uint32_t cuda_object(const KirKernel *k, const KirIns *access);
bool cuda_is_access(const KirIns *x);
/* [ins.n] integers that reach more than places and counts, through sums and choices: these may wrap. */
bool *cuda_wraps(Arena *a, const KirKernel *k);
