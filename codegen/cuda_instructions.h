/* What an instruction of kernel IR costs a GPU (see cuda_instructions.c). */
#pragma once
#include "codegen/cuda_wide.h"

/* 0: nothing, or it comes with another. Of a loop its own, none of its turns'. */
unsigned cuda_instructions(const KirKernel *k, const CudaWide *w, KirId id);
