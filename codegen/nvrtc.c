/* Calls NVRTC and nvJitLink, which are opened by dlopen, so that gnnc builds and runs without them. NVRTC's front end
   and optimizer take half of the time of a compilation and make the same PTX for each GPU that is new enough; so
   nvJitLink assembles one PTX for all GPUs. */
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
    int (*version)(int *major, int *minor);
    const char *(*error)(int code);
} Nvrtc;

typedef struct Link Link;
typedef struct JitLink { /* the functions of nvJitLink.h that are called; all return 0 or an error */
    int (*create)(Link **l, uint32_t n, const char *const *options);
    int (*add)(Link *l, int kind, const void *bytes, size_t n, const char *name);
    int (*complete)(Link *l);
    int (*destroy)(Link **l);
    int (*info_size)(Link *l, size_t *n);
    int (*info)(Link *l, char *text);
    int (*log_size)(Link *l, size_t *n);
    int (*log)(Link *l, char *text);
    int (*cubin_size)(Link *l, size_t *n);
    int (*cubin)(Link *l, void *bytes);
    int (*version)(unsigned *major, unsigned *minor);
} JitLink;

enum { INPUT_PTX = 2, LEAST_MAJOR = 13 /* of NVRTC and nvJitLink whose ptxas has the option -Ofc */ };

/* What ptxas calls its lightest fast compilation: kernels take the registers that they need, so that none of the
   library's spills, and it is done in three quarters of the time. */
static const char PTXAS[] = "-Ofc=min";
static const char *const FLOATS[] = {"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"};
enum { N_FLOATS = sizeof FLOATS / sizeof *FLOATS };

static void *open_library(Arena *a, const char *const *names, size_t n)
{
    const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; i < n; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        for (size_t h = 0; !library && h < sizeof homes / sizeof *homes; h++)
            if (homes[h] && homes[h][0])
                library = dlopen(arena_printf(a, "%s/lib64/%s", homes[h], names[i]), RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

typedef struct Symbol {
    const char *name;
    void *to; /* a pointer to a function */
} Symbol;

static bool find_symbols(void *library, const Symbol *s, size_t n)
{
    for (size_t i = 0; library && i < n; i++) {
        void *f = dlsym(library, s[i].name);
        if (!f) return false;
        memcpy(s[i].to, &f, sizeof f); /* ISO C knows no cast from void * to a function */
    }
    return library != NULL;
}

static const Nvrtc *nvrtc_open(Arena *a)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    static Nvrtc n;
    static bool tried, whole;
    if (tried) return whole ? &n : NULL;
    tried = true;
    const Symbol symbols[] = {{"nvrtcCreateProgram", &n.create},
                              {"nvrtcCompileProgram", &n.compile},
                              {"nvrtcDestroyProgram", &n.destroy},
                              {"nvrtcGetProgramLogSize", &n.log_size},
                              {"nvrtcGetProgramLog", &n.log},
                              {"nvrtcGetPTXSize", &n.ptx_size},
                              {"nvrtcGetPTX", &n.ptx},
                              {"nvrtcGetCUBINSize", &n.cubin_size},
                              {"nvrtcGetCUBIN", &n.cubin},
                              {"nvrtcVersion", &n.version},
                              {"nvrtcGetErrorString", &n.error}};
    whole = find_symbols(open_library(a, names, sizeof names / sizeof *names), symbols,
                         sizeof symbols / sizeof *symbols);
    return whole ? &n : NULL;
}

/* NULL where there is none that knows NVRTC's PTX. */
static const JitLink *jit_link_open(Arena *a)
{
    static const char *const names[] = {"libnvJitLink.so.13", "libnvJitLink.so"};
    static JitLink l;
    static bool tried, whole;
    const Nvrtc *n = nvrtc_open(a);
    if (tried || !n) return whole ? &l : NULL;
    tried = true;
    const Symbol symbols[] = {{"nvJitLinkCreate", &l.create},
                              {"nvJitLinkAddData", &l.add},
                              {"nvJitLinkComplete", &l.complete},
                              {"nvJitLinkDestroy", &l.destroy},
                              {"nvJitLinkGetInfoLogSize", &l.info_size},
                              {"nvJitLinkGetInfoLog", &l.info},
                              {"nvJitLinkGetErrorLogSize", &l.log_size},
                              {"nvJitLinkGetErrorLog", &l.log},
                              {"nvJitLinkGetLinkedCubinSize", &l.cubin_size},
                              {"nvJitLinkGetLinkedCubin", &l.cubin},
                              {"nvJitLinkVersion", &l.version}};
    unsigned major = 0, minor = 0;
    int of_ptx = 0, minor_of_ptx = 0;
    whole = find_symbols(open_library(a, names, sizeof names / sizeof *names), symbols,
                         sizeof symbols / sizeof *symbols) &&
            !l.version(&major, &minor) && !n->version(&of_ptx, &minor_of_ptx) && major >= LEAST_MAJOR &&
            (major > (unsigned)of_ptx || (major == (unsigned)of_ptx && minor >= (unsigned)minor_of_ptx));
    return whole ? &l : NULL;
}

const char *nvrtc_identity(Arena *a)
{
    const Nvrtc *n = nvrtc_open(a);
    int major = 0, minor = 0;
    unsigned link_major = 0, link_minor = 0;
    if (!n || n->version(&major, &minor)) return NULL;
    const JitLink *l = jit_link_open(a);
    if (l) l->version(&link_major, &link_minor);
    StrBuf b = {.arena = a};
    strbuf_printf(&b, "NVRTC %d.%d, nvJitLink %u.%u", major, minor, link_major, link_minor);
    for (size_t i = 0; i < N_FLOATS; i++) strbuf_printf(&b, " %s", FLOATS[i]);
    strbuf_printf(&b, " %s", PTXAS);
    return strbuf_cstr(&b);
}

bool nvrtc_assembles(Arena *a) { return jit_link_open(a) != NULL; }

/* The number before `what` in a line, or 0. */
static uint32_t number_before(const char *line, const char *end, const char *what)
{
    const char *at = strstr(line, what);
    if (!at || at >= end) return 0;
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return (uint32_t)strtoul(at, NULL, 10);
}

/* Reads what ptxas logs of each kernel: a line `Compiling entry function 'NAME'`, then lines with its registers and
   bytes. The linker logs some of these figures again, in lines that do not begin with `ptxas` and are left out. */
static void read_usage(Arena *a, const char *log, NvrtcCode *code)
{
    static const char entry[] = "Compiling entry function '";
    for (const char *line = log; *line;) {
        const char *end = line + strcspn(line, "\n"), *name = strstr(line, entry);
        if (name && name < end) {
            name += sizeof entry - 1;
            VEC_PUSH(a, &code->usage, ((NvrtcUsage){.kernel = arena_strndup(a, name, strcspn(name, "'\n"))}));
        } else if (code->usage.n && !strncmp(line, "ptxas", 5)) {
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
    int major = 0, minor = 0;
    const char *options[N_FLOATS + 3] = {arena_printf(a, "--gpu-architecture=%s", arch)};
    int n_options = N_FLOATS + 1;
    memcpy(options + 1, FLOATS, sizeof FLOATS);
    if (machine_code) options[n_options++] = "--ptxas-options=-v";
    if (machine_code && n && !n->version(&major, &minor) && major >= LEAST_MAJOR)
        options[n_options++] = arena_printf(a, "--ptxas-options=%s", PTXAS);
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

NvrtcOutcome nvrtc_assemble(Arena *a, const NvrtcCode *ptx, const char *arch, NvrtcCode *code, const char **why)
{
    const JitLink *l = jit_link_open(a);
    const char *options[] = {arena_printf(a, "-arch=%s", arch), arena_printf(a, "-Xptxas=%s", PTXAS), "-verbose",
                             "-no-cache"};
    Link *link = NULL;
    size_t size = 0, log_size = 0;
    *code = (NvrtcCode){0};
    *why = "nvJitLink is missing";
    if (!l) return NVRTC_MISSING;
    int wrong = l->create(&link, sizeof options / sizeof *options, options);
    if (!wrong) wrong = l->add(link, INPUT_PTX, ptx->bytes, ptx->n + 1, "gnnc.ptx"); /* with its NUL */
    if (!wrong) wrong = l->complete(link);
    *why = arena_printf(a, "error %d", wrong);
    if (link && !(wrong ? l->log_size : l->info_size)(link, &log_size)) {
        char *log = ARENA_ARRAY(a, char, log_size + 1);
        if (!(wrong ? l->log : l->info)(link, log)) {
            if (wrong) *why = arena_printf(a, "%s: %.2000s", *why, log);
            else read_usage(a, log, code);
        }
    }
    if (!wrong) wrong = l->cubin_size(link, &size);
    if (!wrong) {
        char *bytes = ARENA_ARRAY(a, char, size + 1);
        wrong = l->cubin(link, bytes);
        code->bytes = bytes, code->n = size;
    }
    if (link) l->destroy(&link);
    return wrong ? NVRTC_REFUSED : NVRTC_DONE;
}
