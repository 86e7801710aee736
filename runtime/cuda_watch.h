/* Watches kernels that the shim runs on this CPU: holds each access against the arrays that the launch was given, and,
   where somebody asks, counts what a GPU's memory and warps would have to do. Nothing else depends on the counts. */
#pragma once
#include "runtime/abi.h"
#include "runtime/status.h"
#include <stdbool.h>

typedef struct RtCudaCounts {
#define CUDA_COUNT(name, what) int64_t name;
#include "runtime/cuda_counts.def"
#undef CUDA_COUNT
} RtCudaCounts;

typedef struct RtCudaWatch RtCudaWatch;

/* NULL: there is no memory. */
RtCudaWatch *rt_cuda_watch_create(void);
void rt_cuda_watch_free(RtCudaWatch *w);
/* Who is told, for RtShimFn; NULL for NULL. */
RtShimWatch *rt_cuda_watch_teller(RtCudaWatch *w);
/* A kernel that is given this address may touch so many bytes there. Of two numbers for one address the greater counts.
   Does nothing where w is NULL. MEMORY. */
RtCode rt_cuda_watch_array(RtCudaWatch *w, uint64_t at, int64_t bytes, RtStatus *st);
/* The same where the address that the kernel is given is another: that of a row 0 which is not there. */
RtCode rt_cuda_watch_rows(RtCudaWatch *w, uint64_t given, uint64_t at, int64_t bytes, RtStatus *st);
/* So many bytes from `at` on are memory of which pages may lie on the host: places [bytes / RT_CUDA_PAGE], 1 for each
   that does and that kernels read over the bus; the caller's, who may change them. One such piece at a time; 0 bytes:
   none. */
void rt_cuda_watch_host(RtCudaWatch *w, uint64_t at, int64_t bytes, const uint8_t *places);
enum { RT_CUDA_PAGE = 4096 };
/* Kernels from here on are run by teams of so many lanes (RtDeviceKernel); of 16 until it is said. */
void rt_cuda_watch_lanes(RtCudaWatch *w, int64_t lanes);
void rt_cuda_watch_forget(RtCudaWatch *w); /* all arrays */
/* Counts from here on, as one step, into *counts, which is zeroed; NULL: no more. */
void rt_cuda_watch_count(RtCudaWatch *w, RtCudaCounts *counts);
