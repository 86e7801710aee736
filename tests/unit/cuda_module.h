/* Kernels through the CUDA emitter, the shim that runs them on a host, and the system's C++ compiler into this
   process. */
#pragma once
#include "base/file.h"
#include "codegen/emit_cuda.h"
#include "runtime/abi.h"
#include <dlfcn.h>
#include <string.h>

typedef struct CudaModule {
    void *handle;
    const char *text; /* the emitted C++, for a look at a failure */
    int (*launch)(const char *name, void **params, unsigned grid, unsigned block, size_t shared, RtShimWatch *watch);
    RtShimWatch *watch; /* NULL, or who is told what kernels do */
    void (*seed)(unsigned long long seed);
} CudaModule;

/* Where nothing is optimised, clang takes half of gcc's time. */
static inline const char *cuda_module_compiler(Arena *a, bool optimised)
{
    const char *argv[] = {"clang++-19", "--version", NULL}, *why;
    char *log;
    return !optimised && file_spawn(a, argv, &log, &why) == 0 ? argv[0] : "c++";
}

/* optimised: for kernels that run long, or whose accesses are counted, which then are those of the text; bits are the
   same. */
static inline bool cuda_module_build_text(Arena *a, CudaModule *m, const char *text, bool optimised, const char **why)
{
    const char *cxx = cuda_module_compiler(a, optimised);
    bool clang = strcmp(cxx, "c++") != 0; /* it warns of constants that nobody but a random kernel would write */
    TempFolder own;
    *m = (CudaModule){.text = text};
    if (!temp_folder_make(a, NULL, &own, why)) return false;
    const char *source = arena_printf(a, "%s/k.cc", own.path), *object = arena_printf(a, "%s/k.o", own.path);
    const char *so = arena_printf(a, "%s/k.so", own.path);
    const char *argv[] = {cxx,
                          "-std=c++17",
                          optimised ? "-O1" : "-O0",
                          "-Wall",
                          clang ? "-w" : "-Werror",
                          "-Wno-tautological-compare",
                          "-Wno-unknown-pragmas",
                          "-Wno-overflow",
                          "-Wno-type-limits",
                          "-Wno-unknown-warning-option",
                          "-fwrapv",
                          "-ffp-contract=off",
                          "-fno-exceptions",
                          "-fno-rtti",
                          "-fPIC",
                          "-fsanitize=thread", /* the text has what this calls: no library is linked with */
                          "-c",
                          "-o",
                          object,
                          source,
                          NULL};
    const char *link[] = {cxx, "-shared", "-o", so, object, NULL};
    char *log = NULL;
    if (!file_write(a, source, text, strlen(text), 0600, why)) return false;
    int status = file_spawn(a, argv, &log, why);
    if (status == 0) status = file_spawn(a, link, &log, why);
    if (status > 0) *why = arena_printf(a, "%s ended with %d: %.1200s", cxx, status, log);
    if (status == 0 && !(m->handle = dlopen(so, RTLD_NOW | RTLD_LOCAL))) *why = arena_printf(a, "%s", dlerror());
    temp_folder_remove(&own);
    if (!m->handle) return false;
    void *launch = dlsym(m->handle, "shim_launch"), *seed = dlsym(m->handle, "shim_seed");
    memcpy(&m->launch, &launch, sizeof launch), memcpy(&m->seed, &seed, sizeof seed);
    return launch && seed;
}

static inline bool cuda_module_build(Arena *a, CudaModule *m, const KirKernel *const *ks, uint32_t n, bool optimised,
                                     const char **why)
{
    StrBuf text = {.arena = a};
    emit_cuda_host(ks, NULL, n, &text);
    return cuda_module_build_text(a, m, strbuf_cstr(&text), optimised, why);
}

static inline void cuda_module_free(CudaModule *m)
{
    if (m->handle) dlclose(m->handle);
    m->handle = NULL;
}

/* Runs iterations [lo, hi) with `grid` blocks, of `warps` warps where the kernel leaves that open. */
static inline const char *cuda_module_run(Arena *a, const CudaModule *m, const KirKernel *k, const RtArg *args,
                                          int64_t lo, int64_t hi, unsigned grid, unsigned warps)
{
    CudaKernel how = cuda_kernel(a, k);
    void **params = ARENA_ARRAY(a, void *, k->params.n + 3), *order = NULL;
    float *narrow = ARENA_ARRAY(a, float, k->params.n + 1);
    RtArg *copy = ARENA_ARRAY(a, RtArg, k->params.n + 1);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KirParam *p = &k->params.data[i];
        copy[i] = args[i], narrow[i] = p->kind == KIR_SCALAR && p->elem == KIR_F32 ? (float)args[i].f : 0;
        params[i] = p->kind == KIR_SCALAR && p->elem == KIR_F32 ? (void *)&narrow[i] : (void *)&copy[i];
    }
    params[k->params.n] = &lo, params[k->params.n + 1] = &hi, params[k->params.n + 2] = &order;
    if (how.binding != CUDA_THREADS) warps = how.warps;
    grid *= how.parts;
    if (how.binding == CUDA_ONE) grid = 1;
    size_t shared = how.block_bytes + (size_t)how.warp_bytes * warps;
    while (how.binding == CUDA_THREADS && warps > 1 && shared > 200 << 10)
        warps--, shared = how.block_bytes + (size_t)how.warp_bytes * warps;
    if (shared > 256 << 10) return "needs more shared memory than there is";
    return m->launch(k->name, params, grid, how.lanes * warps, shared, m->watch) ? "no such kernel" : NULL;
}
