/* How many turns of a loop CUDA text writes one behind the other, so that their loads are on their way together, and
   which loops gain nothing by it. */
#pragma once
#include "codegen/cuda_wide.h"
#include "codegen/walk.h"

typedef struct CudaTurns {
    uint32_t n; /* 1: one, and compilers are kept from writing more; 0: as compilers choose */
    bool rest;  /* there may be turns that do not fill n any more: they run one by one */
    /* memory says how many there are, and there may be fewer than n: the last one runs again, and changes
       nothing */
    bool few;
} CudaTurns;
/* Of `loop`, a KIR_for that is not unrolled. */
CudaTurns cuda_turns(const KirWalk *w, const CudaWide *wide, const KirIns *loop);
