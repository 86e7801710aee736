/* A plan for GPUs: how each kernel is started, and what an executable holds to start it (see codegen.h). */
#include "codegen/codegen.h"
#include "base/ice.h"

/* TEMPORARY until the emitter is there: the shim calls the kernels of the CPU. */
static const char *shim_text(const HostPlan *plan, Arena *a)
{
    StrBuf t = {.arena = a};
    strbuf_puts(&t, "#include <cstdint>\nunion RtArg { void *p; int64_t i; double f; };\n");
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++)
        strbuf_printf(
            &t,
            "extern \"C\" __attribute__((visibility(\"hidden\"))) void %s_generic(const RtArg *, int64_t, int64_t);\n",
            plan_kernel(plan, i, false)->name);
    strbuf_puts(&t, "extern \"C\" void shim_launch(int64_t kernel, int64_t grid, int64_t block, int64_t shared, void "
                    "**params) {\n  RtArg args[512];\n  switch (kernel) {\n");
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++) {
        const KirKernel *k = plan_kernel(plan, i, false);
        strbuf_printf(&t,
                      "  case %u: for (int i = 0; i < %u; i++) args[i] = *(RtArg *)params[i]; %s_generic(args, "
                      "*(int64_t *)params[%u], *(int64_t *)params[%u]); break;\n",
                      i, k->params.n, k->name, k->params.n, k->params.n + 1);
    }
    strbuf_puts(&t, "  }\n}\n");
    return strbuf_cstr(&t);
}

static KirBinding binding(const KirKernel *k, int64_t *warps)
{
    const KirIns *last = k->body.ins.n ? &k->ins.data[k->body.ins.data[k->body.ins.n - 1]] : NULL;
    *warps = 0;
    if (!last || last->op != KIR_for) return KIR_SEQ;
    if (last->bind == KIR_BLOCK) {
        const KirIns *loop = &k->ins.data[last->body.ins.data[last->body.ins.n - 1]];
        *warps = k->ins.data[loop->args[1]].i;
    }
    return last->bind;
}

const CodegenDevice *device_build(const HostPlan *plan, CodegenTarget target, Arena *a, Diags *d)
{
    uint32_t n = plan_n_kernels(plan);
    CodegenDevice *out = ARENA_NEW(a, CodegenDevice);
    RtDeviceKernel *kernels = ARENA_ARRAY(a, RtDeviceKernel, n + 1);
    const char **names = ARENA_ARRAY(a, const char *, n + 1);
    (void)d;
    for (uint32_t i = 0; i < n; i++) {
        const KirKernel *k = plan_kernel(plan, i, true);
        int64_t warps;
        KirBinding b = binding(k, &warps);
        names[i] = k->name;
        kernels[i] = (RtDeviceKernel){.binding = b == KIR_THREADS ? RT_BIND_THREADS
                                                 : b == KIR_BLOCK ? RT_BIND_BLOCK
                                                                  : RT_BIND_NONE,
                                      .warps = warps};
    }
    *out = (CodegenDevice){.kernels = kernels, .names = names};
    if (target == CODEGEN_SHIM) out->shim = shim_text(plan, a);
    return out;
}
