/* Kernels through the C emitter and the system's compiler into this process. */
#pragma once
#include "base/file.h"
#include "codegen/emit_c.h"
#include "runtime/abi.h"
#include <dlfcn.h>
#include <string.h>

typedef struct CModule {
    void *handle;
    const char *dir, *text; /* the emitted C, for a look at a failure */
} CModule;

static inline bool c_module_have(Arena *a, const char *cc)
{
    const char *argv[] = {cc, "--version", NULL}, *why;
    char *log;
    return file_spawn(a, argv, &log, &why) == 0;
}

/* Compiles with warnings as errors; false with *why set (the compiler's messages). `command`: the
   compiler and options of its own, up to a NULL. Comparing a value with itself or an unsigned with
   0 and constants that overflow are what random kernels do, not what the emitter does: nothing is
   said about them. */
static inline bool c_module_build_with(Arena *a, CModule *m, const KirKernel *const *ks, uint32_t n,
                                       const char *const *command, const char **why)
{
    /* clang-format off */
    static const char *const common[] = {
        "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-tautological-compare",
        "-Wno-type-limits", "-Wno-overflow", "-Wno-integer-overflow", "-ffp-contract=off", "-fwrapv",
        "-fPIC", "-shared"};
    /* clang-format on */
    enum { N_COMMON = sizeof common / sizeof *common, MAX_OPTIONS = 16 };
    StrBuf text = {.arena = a};
    emit_c_kernels(ks, n, &text);
    TempFolder own;
    if (!temp_folder_make(a, NULL, &own, why)) return false;
    *m = (CModule){.dir = own.path, .text = strbuf_cstr(&text)};
    const char *c = arena_printf(a, "%s/k.c", m->dir), *so = arena_printf(a, "%s/k.so", m->dir);
    if (!file_write(a, c, text.data, text.n, 0600, why)) return false;
    const char *argv[MAX_OPTIONS + N_COMMON + 5] = {NULL};
    unsigned at = 0;
    while (command[at] && at < MAX_OPTIONS) argv[at] = command[at], at++;
    for (unsigned i = 0; i < N_COMMON; i++) argv[at++] = common[i];
    argv[at++] = "-o", argv[at++] = so, argv[at++] = c, argv[at++] = "-lm";
    char *log = NULL;
    int status = file_spawn(a, argv, &log, why);
    if (status > 0) *why = arena_printf(a, "%s ended with %d: %.600s", argv[0], status, log);
    if (status == 0 && !(m->handle = dlopen(so, RTLD_NOW | RTLD_LOCAL))) *why = arena_printf(a, "%s", dlerror());
    temp_folder_remove(&own);
    return m->handle != NULL;
}

static inline bool c_module_build(Arena *a, CModule *m, const KirKernel *const *ks, uint32_t n, const char *cc,
                                  const char *opt, const char **why)
{
    return c_module_build_with(a, m, ks, n, (const char *const[]){cc, opt, NULL}, why);
}

static inline RtKernelFn c_module_kernel(const CModule *m, const char *name)
{
    RtKernelFn f;
    void *p = dlsym(m->handle, name);
    memcpy(&f, &p, sizeof f); /* ISO C knows no cast from void * to a function */
    return f;
}

static inline void c_module_free(CModule *m)
{
    if (m->handle) dlclose(m->handle);
    m->handle = NULL;
}
