/* How many turns of a loop the emitter of CUDA writes one behind the other, so that the loads of all of them have begun
   before the first is waited for; and which loops a compiler is kept from unrolling. */
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
/* Whether a block has a loop in it, however deep. */
bool cuda_has_loop(const KirKernel *k, const KirBlock *b);
/* Of `loop`, a KIR_for that is not unrolled. */
CudaTurns cuda_turns(const KirWalk *w, const CudaWide *wide, const KirIns *loop);
