/* Loads of a loop's turn that come before its lanes hand anything to each other (see cuda_ahead.c). */
#pragma once
#include "codegen/cuda_wide.h"
#include "codegen/walk.h"

typedef struct CudaAhead {
    bool any;     /* the loop has such loads, and lanes that wait for them */
    bool *wanted; /* [ins.n] these loads, and what their places are made of */
    bool *later;  /* [ins.n] of what is wanted: the rest of the turn reads it, too */
} CudaAhead;
/* shuffled: [ins.n] what takes numbers of other lanes. */
CudaAhead cuda_ahead(Arena *a, const KirWalk *w, const CudaWide *wide, const bool *shuffled, const KirIns *loop);
