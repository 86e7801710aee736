/* Predicted time of a step on a GPU: from what the shim counted of its kernels (cuda_watch.h), or, for `plan`, from the
   sizes of the graph alone. Both by the rates that the program was built with (RtModel.device_rates). Nothing else
   depends on it. */
#pragma once
#include "runtime/cuda.h"

/* What a step asks of a GPU. */
typedef struct RtCudaWork {
    double launches;
    double memory_bytes; /* of memory, each once */
    double cache_bytes;  /* that blocks ask the second cache for */
    double lines;        /* of the first cache and of shared memory that accesses of warps touch */
    double issued;       /* instructions of warps */
    double longest, longest_loads, longest_misses; /* of the team that takes longest: instructions, accesses to global
                                                     memory, those that its block's first cache has not */
} RtCudaWork;

typedef struct RtCudaPrediction {
    double ns;
    const char *bound; /* what takes longest: "memory", "cache", "lines", "issue", "path" of one team; or "launch" */
} RtCudaPrediction;

RtCudaWork rt_cuda_work_counted(const RtCudaCounts *c);
RtCudaWork rt_cuda_work_planned(const RtExec *e, int64_t step);
RtCudaPrediction rt_cuda_predict(const RtDeviceRates *r, const RtCudaWork *w);
