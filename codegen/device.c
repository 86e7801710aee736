/* A plan for GPUs: how each kernel is started, and what an executable holds to start it (see codegen.h). */
#include "codegen/codegen.h"
#include "codegen/emit_cuda.h"

const CodegenDevice *device_build(const HostPlan *plan, CodegenTarget target, Arena *a, Diags *d)
{
    static const int64_t bindings[] = {
        [CUDA_ONE] = RT_BIND_NONE, [CUDA_THREADS] = RT_BIND_THREADS, [CUDA_BLOCK] = RT_BIND_BLOCK};
    uint32_t n = plan->kernels.n; /* parts of long rows are of CPUs: a device runs whole rows */
    CodegenDevice *out = ARENA_NEW(a, CodegenDevice);
    RtDeviceKernel *kernels = ARENA_ARRAY(a, RtDeviceKernel, plan_n_kernels(plan) + 1);
    const char **names = ARENA_ARRAY(a, const char *, plan_n_kernels(plan) + 1);
    const KirKernel **ks = ARENA_ARRAY(a, const KirKernel *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        ks[i] = plan_kernel(plan, i, true);
        names[i] = ks[i]->name;
        CudaKernel k = cuda_kernel(a, ks[i]);
        kernels[i] = (RtDeviceKernel){
            .binding = bindings[k.binding], .warps = k.warps, .half_bytes = k.warp_bytes, .block_bytes = k.block_bytes};
    }
    *out = (CodegenDevice){.kernels = kernels, .names = names};
    if (target == CODEGEN_SHIM) {
        StrBuf text = {.arena = a};
        emit_cuda_host(ks, n, &text);
        out->shim = strbuf_cstr(&text);
    }
    return out;
}
