/* Readings of a program (programs.h) that go step by step from buffers of known sizes: the reference run of kernel IR,
   and the plan for GPUs, whose kernels the shim runs as CUDA text. A kernel that touches what it was not given ends the
   process with its name. */
#pragma once
#include "runtime/cuda_watch.h"
#include "tests/unit/cuda_module.h"
#include "tests/unit/programs.h"

/* The plan for GPUs, as `gnnc build --target cuda` makes it: p->plan where there is none with its bits. */
static inline HostPlan *program_device_plan(Arena *a, const Program *p, Diags *d)
{
    PassContext *ctx = ARENA_NEW(a, PassContext);
    Machine *gpu = ARENA_NEW(a, Machine);
    ICE_UNLESS(machine_named("h200", gpu));
    *ctx = *p->context;
    ctx->diags = d, ctx->machine = gpu;
    ctx->disabled[PASS_cone] = ctx->disabled[PASS_connect] = true;
    HostPlan *plan = lower_module_like(ctx, p->passed, p->plan);
    return plan || d->n_errors ? plan : p->plan;
}

typedef struct Device { /* of a run by the shim: a PlanRun's user */
    const CudaModule *cuda;
    const KirKernel *const *kernels; /* [of the plan] the one with the same code that was compiled */
    uint64_t seed;
} Device;

static inline const char *device_call(PlanRun *r, uint32_t k, const KirArg *args, const int64_t *n_elems, int64_t lo,
                                      int64_t hi)
{
    const Device *d = r->user;
    const KirKernel *kernel = d->kernels[k];
    RtArg *copy = ARENA_ARRAY(r->arena, RtArg, kernel->params.n + 1);
    RtCudaWatch *watch = rt_cuda_watch_create();
    if (!watch) return "no memory";
    CudaModule cuda = *d->cuda;
    cuda.watch = rt_cuda_watch_teller(watch);
    memcpy(copy, args, kernel->params.n * sizeof *copy);
    for (uint32_t i = 0; i < kernel->params.n; i++) {
        const KirParam *param = &kernel->params.data[i];
        int64_t bytes = param->kind == KIR_SCALAR ? 0 : n_elems[i] * (int64_t)kir_base_bytes(param->elem);
        if (bytes && rt_cuda_watch_array(watch, (uintptr_t)copy[i].p, bytes, NULL)) return "no memory";
    }
    const char *why = cuda_module_run(r->arena, &cuda, kernel, copy, lo, hi, 1 + (unsigned)(d->seed % 3),
                                      1 + (unsigned)(d->seed / 3 + k) % 5);
    rt_cuda_watch_free(watch);
    return why;
}
