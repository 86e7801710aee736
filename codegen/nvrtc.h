/* NVIDIA's run-time compiler and its linker, opened when they are wanted: CUDA text to PTX and machine code. */
#pragma once
#include "base/str.h"
#include "base/vec.h"

typedef struct NvrtcUsage { /* of a kernel, as ptxas says */
    const char *kernel;
    uint32_t registers;    /* of a thread */
    uint32_t spill_bytes;  /* stored and loaded, of a thread */
    uint32_t static_bytes; /* of shared memory that the launch does not choose */
} NvrtcUsage;
typedef struct NvrtcCode {
    const char *bytes;
    size_t n;
    VEC(NvrtcUsage) usage; /* sm_NN only */
} NvrtcCode;
typedef enum { NVRTC_DONE, NVRTC_MISSING, NVRTC_REFUSED } NvrtcOutcome;

/* Compiles for `arch`: "sm_90" gives machine code (a cubin), "compute_90" PTX for that architecture and those to come.
   Bytes and usage are from the arena. MISSING: no library; why is what to install. REFUSED: why is its log. Keeps the
   library open; not for several threads at once. */
NvrtcOutcome nvrtc_compile(Arena *a, const char *text, const char *arch, NvrtcCode *code, const char **why);
/* Which compilers there are and with what options they are called, as one line from the arena: the same line and the
   same text give the same code. NULL: NVRTC is missing. */
const char *nvrtc_identity(Arena *a);
/* Whether nvrtc_assemble is there: nvJitLink of CUDA 13 or later, no older than NVRTC. */
bool nvrtc_assembles(Arena *a);
/* Makes machine code for `arch` ("sm_90") from PTX for that GPU or an older one; results and failures are those of
   nvrtc_compile. After nvrtc_assembles was called once, several threads may call this at a time, each with its own
   arena. */
NvrtcOutcome nvrtc_assemble(Arena *a, const NvrtcCode *ptx, const char *arch, NvrtcCode *code, const char **why);
