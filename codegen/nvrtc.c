/* NVRTC by dlopen: gnnc builds and runs without it. */
#include "codegen/nvrtc.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct Program Program;
typedef struct Nvrtc { /* the functions of nvrtc.h that are called; all return 0 or an error */
    int (*create)(Program **p, const char *text, const char *name, int n_headers, const char *const *headers,
                  const char *const *names);
    int (*compile)(Program *p, int n, const char *const *options);
    int (*destroy)(Program **p);
    int (*log_size)(Program *p, size_t *n);
    int (*log)(Program *p, char *text);
    int (*ptx_size)(Program *p, size_t *n);
    int (*ptx)(Program *p, char *bytes);
    int (*cubin_size)(Program *p, size_t *n);
    int (*cubin)(Program *p, char *bytes);
    const char *(*error)(int code);
} Nvrtc;

static void *open_library(Arena *a)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        for (size_t h = 0; !library && h < sizeof homes / sizeof *homes; h++)
            if (homes[h] && homes[h][0])
                library = dlopen(arena_printf(a, "%s/lib64/%s", homes[h], names[i]), RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

static const Nvrtc *nvrtc_open(Arena *a)
{
    static Nvrtc n;
    static bool tried, whole;
    if (tried) return whole ? &n : NULL;
    tried = true;
    const struct {
        const char *name;
        void *to;
    } functions[] = {{"nvrtcCreateProgram", &n.create},
                     {"nvrtcCompileProgram", &n.compile},
                     {"nvrtcDestroyProgram", &n.destroy},
                     {"nvrtcGetProgramLogSize", &n.log_size},
                     {"nvrtcGetProgramLog", &n.log},
                     {"nvrtcGetPTXSize", &n.ptx_size},
                     {"nvrtcGetPTX", &n.ptx},
                     {"nvrtcGetCUBINSize", &n.cubin_size},
                     {"nvrtcGetCUBIN", &n.cubin},
                     {"nvrtcGetErrorString", &n.error}};
    void *library = open_library(a);
    whole = library != NULL;
    for (size_t i = 0; whole && i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].name);
        memcpy(functions[i].to, &f, sizeof f); /* ISO C knows no cast from void * to a function */
        whole = f != NULL;
    }
    return whole ? &n : NULL;
}

/* The number before `what` in a line, or 0. */
static uint32_t number_before(const char *line, const char *end, const char *what)
{
    const char *at = strstr(line, what);
    if (!at || at >= end) return 0;
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return (uint32_t)strtoul(at, NULL, 10);
}

/* `Compiling entry function 'NAME'`, then lines of its figures. */
static void read_usage(Arena *a, const char *log, NvrtcCode *code)
{
    static const char entry[] = "Compiling entry function '";
    for (const char *line = log; *line;) {
        const char *end = line + strcspn(line, "\n"), *name = strstr(line, entry);
        if (name && name < end) {
            name += sizeof entry - 1;
            VEC_PUSH(a, &code->usage, ((NvrtcUsage){.kernel = arena_strndup(a, name, strcspn(name, "'\n"))}));
        } else if (code->usage.n) {
            NvrtcUsage *u = &code->usage.data[code->usage.n - 1];
            u->registers += number_before(line, end, "registers");
            u->spill_bytes += number_before(line, end, "bytes spill stores") +
                              number_before(line, end, "bytes spill loads");
            u->static_bytes += number_before(line, end, "bytes smem");
        }
        line = *end ? end + 1 : end;
    }
}

NvrtcOutcome nvrtc_compile(Arena *a, const char *text, const char *arch, NvrtcCode *code, const char **why)
{
    const Nvrtc *n = nvrtc_open(a);
    bool machine_code = !strncmp(arch, "sm_", 3);
    const char *options[] = {arena_printf(a, "--gpu-architecture=%s", arch),
                             "--fmad=false",
                             "--ftz=false",
                             "--prec-div=true",
                             "--prec-sqrt=true",
                             "--ptxas-options=-v"};
    int n_options = machine_code ? 6 : 5;
    Program *p = NULL;
    size_t size = 0, log_size = 0;
    *code = (NvrtcCode){0};
    *why = "NVRTC is missing: install the CUDA toolkit 12 or 13, or its package with libnvrtc, or set CUDA_HOME";
    if (!n) return NVRTC_MISSING;
    int wrong = n->create(&p, text, "gnnc.cu", 0, NULL, NULL);
    if (!wrong) wrong = n->compile(p, n_options, options);
    *why = n->error(wrong);
    if (p && !n->log_size(p, &log_size)) {
        char *log = ARENA_ARRAY(a, char, log_size + 1);
        if (!n->log(p, log)) {
            if (wrong) *why = arena_printf(a, "%s: %.2000s", *why, log);
            else read_usage(a, log, code);
        }
    }
    if (!wrong) wrong = (machine_code ? n->cubin_size : n->ptx_size)(p, &size);
    if (!wrong) {
        char *bytes = ARENA_ARRAY(a, char, size + 1);
        wrong = (machine_code ? n->cubin : n->ptx)(p, bytes);
        code->bytes = bytes, code->n = machine_code || !size ? size : size - 1; /* PTX ends with a NUL */
    }
    if (p) n->destroy(&p);
    return wrong ? NVRTC_REFUSED : NVRTC_DONE;
}
