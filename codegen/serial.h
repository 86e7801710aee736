/* A block of warps as one thread's work: how CPU targets run kernels with loops bound to block and warp. */
#pragma once
#include "ir/kernel.h"

/* A kernel that computes the same and has no loop bound to block or warp, no shared array and no barrier; `k` itself if
   it has none of them. k is verified. From the arena. */
const KirKernel *kir_serial(Arena *a, const KirKernel *k);
