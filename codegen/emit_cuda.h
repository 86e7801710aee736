/* CUDA C++ from kernel IR (docs/ir-kernel.md, "How a GPU spells it"). */
#pragma once
#include "ir/kernel.h"

/* Appends one self-contained text, which nvcc and NVRTC take as it is, with a function per kernel:
     extern "C" __global__ void NAME(the kernel's parameters, long long lo, long long hi, const int *order)
   order: where a warp computes an iteration, those that [lo, hi) stand for; NULL: themselves. A kernel for parts of
   rows (passes/lower/lower_split.c) has `const long long *parts` there, CUDA_PART_NUMBERS for each: the row and what
   some parameters are, whose arguments do not count; it computes the parts [lo, hi), by a warp each.
   of_part[i][p] says which of these parameter p of kernel i is, or 0; of_part[i] NULL: of whole rows.
   The kernels passed kir_verify and their names differ. They mean what kir_run means when compiled with
   --fmad=false --ftz=false --prec-div=true --prec-sqrt=true. */
enum { CUDA_PART_ROW, CUDA_PART_FROM, CUDA_PART_TO, CUDA_PART_FIRST, CUDA_PART_NUMBERS };
void emit_cuda_kernels(const KirKernel *const *ks, const uint8_t *const *of_part, uint32_t n, StrBuf *out);
/* The same for a host without a GPU: the shim (codegen/cuda/shim.cc), the text above, and a table of its kernels.
   C++17, for c++ -ffp-contract=off -fwrapv; shim_launch runs a kernel. */
void emit_cuda_host(const KirKernel *const *ks, const uint8_t *const *of_part, uint32_t n, StrBuf *out);
extern const char cuda_head_text[], cuda_shim_text[]; /* codegen/cuda, embedded by the build */

/* How a kernel is launched: with one-dimensional blocks of `lanes` threads for each warp of kernel IR. */
typedef enum {
    CUDA_ONE,     /* no parallel loop: one block of one warp */
    CUDA_THREADS, /* a warp for each iteration: any number of blocks, of 1 to `warps` warps */
    CUDA_BLOCK /* `parts` blocks of exactly `warps` warps compute an iteration; a launch has any multiple of `parts` */
} CudaBinding;
typedef struct CudaKernel {
    CudaBinding binding;
    uint32_t lanes; /* threads of a warp of kernel IR: as many as the widest vector has (CUDA_THREADS); else 16 */
    uint32_t warps; /* of a block */
    uint32_t parts; /* blocks that the warps of an iteration fill: 1 where they wait for one another */
    uint32_t block_bytes, warp_bytes; /* of dynamic shared memory: block_bytes + warp_bytes x warps of the launch */
} CudaKernel;
CudaKernel cuda_kernel(Arena *a, const KirKernel *k);
enum {
    CUDA_LANES = 16,
    CUDA_LEAST_LANES = 4 /* with 2, sixteen rows of a warp of the hardware would wait for the longest */,
    CUDA_MOST_THREADS = 256 /* of a block of independent warps */,
    CUDA_PART_WARPS = 8 /* of a block, where several blocks compute one iteration: many small ones fill a GPU evenly */
};
