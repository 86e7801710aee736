/* Readable C11 (with the vector extensions of gcc and clang) from kernel IR. */
#pragma once
#include "ir/kernel.h"

/* Appends one self-contained C file with a function per kernel (runtime/abi.h: RtKernelFn). The
   kernels passed kir_verify and their names differ. To compile exactly what kernel IR says:
   -ffp-contract=off -fwrapv. */
void emit_c_kernels(const KirKernel *const *ks, uint32_t n, StrBuf *out);
