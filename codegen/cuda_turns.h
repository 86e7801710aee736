/* How many turns of a loop CUDA text writes one behind the other, so that their loads are on their way together. */
#pragma once
#include "codegen/cuda_wide.h"
#include "codegen/walk.h"

typedef struct CudaTurns {
    uint32_t n; /* 1: one after another */
    /* memory says how many there are, and there may be fewer than n: the last one runs again, and changes
       nothing */
    bool few;
} CudaTurns;
/* Of `loop`, a KIR_for that is not unrolled. */
CudaTurns cuda_turns(const KirWalk *w, const CudaWide *wide, const KirIns *loop);
