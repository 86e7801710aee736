/* OpenBLAS, opened at run time where the machine has it: another way to run an executable's
   products. Executables only: it sets environment variables before it opens the library. */
#pragma once
#include "runtime/exec.h"

typedef enum { RT_BLAS_OFF, RT_BLAS_AUTO, RT_BLAS_ON } RtBlasMode;

typedef struct RtBlas {
    void *library, *sgemm, *dgemm;
    RtGemmBackend backend;
    char path[256];
} RtBlas;

/* Opens the library if mode, model and the best kernels here (rt_cpu_allowed) call for it; *b stays closed otherwise,
   which is no error unless mode is RT_BLAS_ON. */
RtCode rt_blas_open(RtBlasMode mode, int best, const RtModel *m, RtBlas *b, RtStatus *st);
void rt_blas_close(RtBlas *b);
/* What RtExecOptions.gemm takes: NULL when closed. */
const RtGemmBackend *rt_blas_backend(const RtBlas *b);
