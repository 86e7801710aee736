/* Kernels compiled in process, for the differential tests of the LLVM emitter. The compiler itself
 * never runs what it emits. */
#pragma once
#include "ir/kernel.h"
#include "runtime/abi.h"

typedef struct JitModule JitModule;

/* Compiles n verified kernels for one CPU variant (RT_GENERIC ..) with the pipeline that `build`
   uses. NULL with *why set if this machine's CPU lacks the variant or GNNC_CPU forbids it. Free with jit_free. */
JitModule *jit_compile(const KirKernel *const *ks, uint32_t n, unsigned variant, const char **why);
/* The same without the optimiser, in about a third of the time. */
JitModule *jit_compile_quickly(const KirKernel *const *ks, uint32_t n, unsigned variant, const char **why);
RtKernelFn jit_kernel(const JitModule *m, uint32_t index);
void jit_free(JitModule *m);
