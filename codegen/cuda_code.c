/* A plan's kernels for GPUs: text, PTX, machine code, and what the manifest says of them. */
#include "base/ice.h"
#include "codegen/codegen.h"
#include "codegen/emit_cuda.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

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

typedef struct Job { /* machine code for one GPU */
    const char *arch;
    char key[65]; /* in the cache */
    NvrtcCode *code;
    const NvrtcCode *ptx; /* it is made of; NULL: of the text */
    Arena *arena;         /* of the thread */
    NvrtcOutcome outcome;
    const char *why;
    pthread_t thread;
    bool started;
} Job;

static void refuse(const char *tool, const char *arch, NvrtcOutcome outcome, const char *why, Diags *d)
{
    if (outcome == NVRTC_MISSING) diag_error(d, E0634, (Span){0}, "%s", why);
    else diag_error(d, E0635, (Span){0}, "%s for %s: %s", tool, arch, why);
}

static void *assemble(void *job)
{
    Job *j = job;
    j->outcome = nvrtc_assemble(j->arena, j->ptx, j->arch, j->code, &j->why);
    return NULL;
}

/* Each job that is not done yet, in a thread of its own. */
static void assemble_all(Job *jobs, uint32_t n, const NvrtcCode *ptx)
{
    for (uint32_t i = 0; i < n; i++) {
        Job *j = &jobs[i];
        if (j->code->bytes) continue;
        ICE_UNLESS(ptx->bytes && !ptx->bytes[ptx->n]); /* a text */
        j->ptx = ptx, j->arena = arena_new();
        j->started = pthread_create(&j->thread, NULL, assemble, j) == 0;
        if (!j->started) assemble(j);
    }
    for (uint32_t i = 0; i < n; i++)
        if (jobs[i].started) pthread_join(jobs[i].thread, NULL);
}

static NvrtcCode copied(Arena *a, const NvrtcCode *from)
{
    NvrtcCode c = {.bytes = arena_strndup(a, from->bytes, from->n), .n = from->n};
    for (uint32_t i = 0; i < from->usage.n; i++) {
        NvrtcUsage u = from->usage.data[i];
        u.kernel = arena_strndup(a, u.kernel, strlen(u.kernel));
        VEC_PUSH(a, &c.usage, u);
    }
    return c;
}

/* The GPU of the lowest number: PTX for it runs on all others and those to come. It has no letter behind the number,
   with which PTX would be for that kind alone. */
static const char *find_oldest(const CudaCode *cuda, Arena *a)
{
    long least = LONG_MAX;
    for (uint32_t i = 0; i < cuda->n; i++) {
        long number = strtol(cuda->archs[i].name + 3, NULL, 10);
        if (number < least) least = number;
    }
    return arena_printf(a, "sm_%ld", least);
}

bool cuda_compile(const HostPlan *plan, const CodegenOptions *o, CudaCode *cuda, bool cubin, bool ptx, CodeCache *cache,
                  Arena *a, Diags *d)
{
    StrBuf b = {.arena = a};
    emit_cuda(plan, o, &b);
    const char *text = strbuf_cstr(&b), *identity = nvrtc_identity(a), *why = NULL;
    uint32_t n = cubin ? cuda->n : 0, n_missing = 0;
    Job *jobs = ARENA_ARRAY(a, Job, n + 1);
    for (uint32_t i = 0; i < n && identity; i++) {
        jobs[i] = (Job){.arch = cuda->archs[i].name, .code = &cuda->archs[i].code};
        code_cache_key(jobs[i].arch, identity, text, jobs[i].key);
        n_missing += !code_cache_get(a, cache, jobs[i].key, jobs[i].code);
    }
    cuda->oldest = find_oldest(cuda, a);
    const char *virtual = arena_printf(a, "compute_%s", cuda->oldest + 3);
    bool assembles = identity && nvrtc_assembles(a);
    if (ptx || (n_missing && assembles) || !identity) {
        char key[65];
        if (identity) code_cache_key(virtual, identity, text, key);
        if (!identity || !code_cache_get(a, cache, key, &cuda->ptx)) {
            NvrtcOutcome outcome = nvrtc_compile(a, text, virtual, &cuda->ptx, &why);
            if (outcome != NVRTC_DONE) return refuse("NVRTC", cuda->oldest, outcome, why, d), false;
            code_cache_put(a, cache, key, &cuda->ptx);
        }
    }
    if (assembles) assemble_all(jobs, n, &cuda->ptx);
    for (uint32_t i = 0; i < n; i++) {
        Job *j = &jobs[i];
        bool kept = j->code->bytes && !j->arena;
        if (!assembles && !kept) j->outcome = nvrtc_compile(a, text, j->arch, j->code, &j->why);
        if (j->outcome != NVRTC_DONE) refuse(assembles ? "nvJitLink" : "NVRTC", j->arch, j->outcome, j->why, d);
        else if (j->arena) *j->code = copied(a, j->code);
        if (j->outcome == NVRTC_DONE && !kept) code_cache_put(a, cache, j->key, j->code);
        arena_free(j->arena);
    }
    return d->n_errors == 0;
}

const CodegenDevice *cuda_device(const HostPlan *plan, const CudaCode *code, bool shim, RtDeviceRates rates, Arena *a)
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
        kernels[i] = (RtDeviceKernel){.binding = bindings[k.binding],
                                      .lanes = k.lanes,
                                      .warps = k.warps,
                                      .parts = k.parts,
                                      .warp_bytes = k.warp_bytes,
                                      .block_bytes = k.block_bytes};
    }
    *out = (CodegenDevice){.plan = plan, .code = code, .kernels = kernels, .names = names, .rates = rates};
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
        strbuf_printf(out,
                      "%s{\"name\": \"%s\", \"binding\": \"%s\", \"lanes\": %u, \"warps\": %u, \"parts\": %u, "
                      "\"block_bytes\": %u, "
                      "\"warp_bytes\": %u",
                      i ? ",\n    " : "\n    ", k->name, bindings[how.binding], how.lanes, how.warps, how.parts,
                      how.block_bytes, how.warp_bytes);
        put_usage(cuda, k->name, out);
        strbuf_puts(out, ", \"params\": [");
        put_params(k, of_part[i], out);
        strbuf_puts(out, "]}");
    }
    strbuf_puts(out, "],\n");
}
