/* A plan's kernels for GPUs: text, PTX, machine code, and what the manifest says of them. */
#include "codegen/codegen.h"
#include "codegen/emit_cuda.h"

/* Which numbers of a part of a row the parameters of each kernel are (emit_cuda.h). */
static const uint8_t *const *parts_of(const HostPlan *plan, Arena *a)
{
    static const uint8_t numbers[] = {[PLAN_SPLIT_FROM] = CUDA_PART_FROM,
                                      [PLAN_SPLIT_TO] = CUDA_PART_TO,
                                      [PLAN_SPLIT_FIRST] = CUDA_PART_FIRST,
                                      [PLAN_SPLIT_PHASE] = 0};
    const uint8_t **of_part = ARENA_ARRAY(a, const uint8_t *, plan_n_kernels(plan) + 1);
    for (uint32_t p = 0; p < plan->programs.n; p++)
        for (uint32_t s = 0; s < plan->programs.data[p]->steps.n; s++) {
            const PlanSplit *split = plan_split(&plan->programs.data[p]->steps.data[s]);
            if (!split) continue;
            uint8_t *of = ARENA_ARRAY(a, uint8_t, split->args.n);
            for (uint32_t i = 0; i < split->args.n; i++) {
                const PlanArg *arg = &split->args.data[i];
                if (!arg->is_buffer && arg->count.kind == PLAN_SPLIT) of[i] = numbers[arg->count.value];
            }
            of_part[plan->kernels.n + split->kernel] = of;
        }
    return of_part;
}

void emit_cuda(const HostPlan *plan, const CodegenOptions *o, StrBuf *out)
{
    const KirKernel **kernels = ARENA_ARRAY(out->arena, const KirKernel *, plan_n_kernels(plan) + 1);
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++) kernels[i] = plan_kernel(plan, i, true);
    strbuf_printf(out, "/* Kernels of the model `%s`, written by gnnc %s. */\n", o->name, o->version);
    emit_cuda_kernels(kernels, parts_of(plan, out->arena), plan_n_kernels(plan), out);
}

static bool compile(const char *text, const char *arch, NvrtcCode *code, Arena *a, Diags *d)
{
    const char *why;
    NvrtcOutcome outcome = nvrtc_compile(a, text, arch, code, &why);
    if (outcome == NVRTC_DONE) return true;
    if (outcome == NVRTC_MISSING) diag_error(d, E0634, (Span){0}, "%s", why);
    else diag_error(d, E0635, (Span){0}, "NVRTC for %s: %s", arch, why);
    return false;
}

bool cuda_compile(const HostPlan *plan, const CodegenOptions *o, CudaCode *cuda, bool cubin, bool ptx, Arena *a,
                  Diags *d)
{
    StrBuf text = {.arena = a};
    emit_cuda(plan, o, &text);
    for (uint32_t i = 0; cubin && i < cuda->n; i++)
        if (!compile(strbuf_cstr(&text), cuda->archs[i].name, &cuda->archs[i].code, a, d)) return false;
    const char *last = cuda->archs[cuda->n - 1].name;
    return !ptx || compile(strbuf_cstr(&text), arena_printf(a, "compute_%s", last + 3), &cuda->ptx, a, d);
}

const CodegenDevice *cuda_device(const HostPlan *plan, const CudaCode *code, bool shim, Arena *a)
{
    static const int64_t bindings[] = {
        [CUDA_ONE] = RT_BIND_NONE, [CUDA_THREADS] = RT_BIND_THREADS, [CUDA_BLOCK] = RT_BIND_BLOCK};
    uint32_t n = plan_n_kernels(plan);
    CodegenDevice *out = ARENA_NEW(a, CodegenDevice);
    RtDeviceKernel *kernels = ARENA_ARRAY(a, RtDeviceKernel, n + 1);
    const char **names = ARENA_ARRAY(a, const char *, n + 1);
    const KirKernel **ks = ARENA_ARRAY(a, const KirKernel *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        ks[i] = plan_kernel(plan, i, true);
        names[i] = ks[i]->name;
        CudaKernel k = cuda_kernel(a, ks[i]);
        kernels[i] = (RtDeviceKernel){
            .binding = bindings[k.binding], .warps = k.warps, .half_bytes = k.warp_bytes, .block_bytes = k.block_bytes};
    }
    *out = (CodegenDevice){.plan = plan, .code = code, .kernels = kernels, .names = names};
    if (!shim) return out;
    StrBuf text = {.arena = a};
    emit_cuda_host(ks, parts_of(plan, a), n, &text);
    out->shim = strbuf_cstr(&text);
    return out;
}

static void put_params(const KirKernel *k, const uint8_t *of_part, StrBuf *out)
{
    static const char *const kinds[] = {
        [KIR_IN] = "in", [KIR_OUT] = "out", [KIR_INOUT] = "inout", [KIR_SCALAR] = "scalar"};
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KirParam *p = &k->params.data[i];
        strbuf_puts(out, i ? ", {\"name\": " : "{\"name\": ");
        strbuf_json(out, p->name);
        strbuf_printf(out, ", \"kind\": \"%s\", \"type\": \"%s\"}", of_part && of_part[i] ? "part" : kinds[p->kind],
                      kir_base_name(p->elem));
    }
}

static void put_usage(const CudaCode *cuda, const char *kernel, StrBuf *out)
{
    for (uint32_t i = 0; i < cuda->n; i++)
        for (uint32_t u = 0; u < cuda->archs[i].code.usage.n; u++) {
            const NvrtcUsage *usage = &cuda->archs[i].code.usage.data[u];
            if (strcmp(usage->kernel, kernel) == 0)
                strbuf_printf(out, ", \"%s\": {\"registers\": %u, \"spill_bytes\": %u}", cuda->archs[i].name,
                              usage->registers, usage->spill_bytes);
        }
}

void cuda_manifest(const HostPlan *plan, const CudaCode *cuda, StrBuf *out)
{
    static const char *const bindings[] = {[CUDA_ONE] = "none", [CUDA_THREADS] = "threads", [CUDA_BLOCK] = "block"};
    const uint8_t *const *of_part = parts_of(plan, out->arena);
    strbuf_puts(out, "  \"kernels\": [");
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++) {
        const KirKernel *k = plan_kernel(plan, i, true);
        CudaKernel how = cuda_kernel(out->arena, k);
        strbuf_printf(
            out, "%s{\"name\": \"%s\", \"binding\": \"%s\", \"warps\": %u, \"block_bytes\": %u, \"warp_bytes\": %u",
            i ? ",\n    " : "\n    ", k->name, bindings[how.binding], how.warps, how.block_bytes, how.warp_bytes);
        put_usage(cuda, k->name, out);
        strbuf_puts(out, ", \"params\": [");
        put_params(k, of_part[i], out);
        strbuf_puts(out, "]}");
    }
    strbuf_puts(out, "],\n");
}
