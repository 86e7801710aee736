/* Objects to files that run: executables through `cc`, libraries through `cc`, `objcopy` and `ar`.
   Tools run from argument arrays, never through a shell, in a private folder; results are read back
   and written beside their target and renamed. The library form renames the runtime's gnnrt_*
   functions to <name>_* and makes every other symbol local, so that two models, or a model and
   another runtime, link into one program. */
#include "base/file.h"
#include "base/ice.h"
#include "codegen/emit_llvm.h"
#include "codegen/gnnrt_text.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1 /* so is the runtime library that was built with this compiler */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

typedef struct Link {
    Arena *arena;
    Diags *diags;
    const CodegenOptions *options;
    TempFolder dir;      /* removed at the end */
    const char *runtime; /* libgnnrt.a */
} Link;

typedef VEC(const char *) Args;

static const Span nowhere = {0};

static const char *in_dir(const Link *l, const char *name)
{
    return arena_printf(l->arena, "%s/%s", l->dir.path, name);
}

static void add(Link *l, Args *args, const char *text) { VEC_PUSH(l->arena, args, text); }

static void add_all(Link *l, Args *args, const char *const *texts)
{
    for (; *texts; texts++) add(l, args, *texts);
}

/* Runs a tool; its output is the diagnostic. */
static bool run(Link *l, Args *args)
{
    ICE_UNLESS(args->n);
    const char *tool = args->data[0], *why = NULL;
    char *log = NULL;
    add(l, args, NULL);
    int status = file_spawn(l->arena, args->data, &log, &why);
    if (status == 0) return true;
    if (status < 0 || status == 127) {
        Diag *d = diag_error(l->diags, E0632, nowhere, "cannot run `%s`: %s", tool, why ? why : "not found");
        diag_help(l->diags, d, "install the C tool chain: apt-get install gcc binutils");
        return false;
    }
    diag_error(l->diags, E0633, nowhere, "`%s` ended with status %d: %s", tool, status,
               log && *log ? log : "no output");
    return false;
}

/* Beside the compiler in its build folder, or under the prefix it is installed in. */
static bool find_runtime(Link *l)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) {
        diag_error(l->diags, E0631, nowhere, "cannot find out where the compiler lies: %s", strerror(errno));
        return false;
    }
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    const char *built = arena_printf(l->arena, "%s/libgnnrt.a", self);
    const char *installed = arena_printf(l->arena, "%s/../lib/gnnc/libgnnrt.a", self);
    l->runtime = access(built, R_OK) == 0 ? built : installed;
    if (access(l->runtime, R_OK) == 0) return true;
    Diag *d = diag_error(l->diags, E0631, nowhere, "the runtime library is missing: looked at %s and %s", built,
                         installed);
    diag_help(l->diags, d, "build the target `runtime`, or install the compiler with `cmake --install`");
    return false;
}

static bool open_link(Link *l)
{
    const char *why;
    if (!temp_folder_make(l->arena, NULL, &l->dir, &why)) {
        diag_error(l->diags, E0602, nowhere, "cannot make a temporary folder: %s", why);
        return false;
    }
    if (find_runtime(l)) return true;
    temp_folder_remove(&l->dir);
    return false;
}

static bool put(Link *l, const char *path, const char *bytes, size_t n, unsigned mode)
{
    const char *why;
    if (file_write(l->arena, path, bytes, n, mode, &why)) return true;
    diag_error(l->diags, E0602, nowhere, "cannot write %s: %s", path, why);
    return false;
}

/* From the private folder to where the user wants it. */
static bool deliver(Link *l, const char *name, const char *out, unsigned mode)
{
    const char *why;
    size_t n;
    char *bytes = file_read(l->arena, in_dir(l, name), 0, &n, &why);
    if (bytes) return put(l, out, bytes, n, mode);
    diag_error(l->diags, E0601, nowhere, "cannot read what the linker wrote: %s", why);
    return false;
}

/* Compiles into the private folder and appends the objects' paths to a command. */
static bool write_objects(Link *l, const HostPlan *plan, LlvmEntry entry, Args *args)
{
    LlvmObject objects[LLVM_MAX_OBJECTS];
    unsigned n = llvm_objects(plan, l->options, entry, l->arena, objects);
    for (unsigned i = 0; i < n; i++) {
        const char *path = in_dir(l, arena_printf(l->arena, "model%u.o", i));
        if (!put(l, path, objects[i].bytes, objects[i].n, 0600)) return false;
        add(l, args, path);
    }
    return true;
}

static const char *const hardening[] = {
    "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,relro", "-Wl,-z,now", "-s", NULL};
static const char *const libraries[] = {"-lz", "-lm", "-lpthread", "-ldl", NULL};

static void add_sanitizers(Link *l, Args *args)
{
    if (SANITIZED) add(l, args, "-fsanitize=address,undefined");
}

bool build_object(const HostPlan *plan, const CodegenOptions *o, const char *out, Arena *a, Diags *d)
{
    Link l = {.arena = a, .diags = d, .options = o};
    LlvmObject object = llvm_object(plan, o, LLVM_WITH_TABLES, a);
    return put(&l, out, object.bytes, object.n, 0644);
}

/* The kernels' CUDA text compiled for this CPU, with the bits that it has on a GPU. What accesses are left to be
   counted depends on the level. */
static bool compile_shim(Link *l, const char *text, Args *args)
{
    Args cc = {0};
    const char *source = in_dir(l, "shim.cc"), *object = in_dir(l, "shim.o");
    if (!put(l, source, text, strlen(text), 0600)) return false;
    const char *level = l->options->quick ? "-Og" : "-O1";
    add_all(l, &cc, (const char *const[]){"c++", "-std=c++17", level, "-w", "-fPIC", "-fno-exceptions", NULL});
    add_all(l, &cc, (const char *const[]){"-fno-rtti", "-ffp-contract=off", "-fwrapv", "-fsanitize=thread", NULL});
    add_all(l, &cc, (const char *const[]){"-c", source, "-o", object, NULL});
    add(l, args, object);
    return run(l, &cc);
}

static bool link_exe(Link *l, const HostPlan *plan, const char *out)
{
    Args args = {0};
    const char *shim = l->options->device ? l->options->device->shim : NULL;
    add_all(l, &args, (const char *const[]){"cc", "-pie", "-o", in_dir(l, "exe"), NULL});
    if (!write_objects(l, plan, LLVM_WITH_MAIN, &args) || (shim && !compile_shim(l, shim, &args))) return false;
    add(l, &args, l->runtime);
    add_all(l, &args, hardening);
    add_sanitizers(l, &args);
    add_all(l, &args, libraries);
    return run(l, &args) && deliver(l, "exe", out, 0755);
}

bool build_exe(const HostPlan *plan, const CodegenOptions *o, const char *out, Arena *a, Diags *d)
{
    Link l = {.arena = a, .diags = d, .options = o};
    if (!open_link(&l)) return false;
    bool good = link_exe(&l, plan, out);
    temp_folder_remove(&l.dir);
    return good;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

/* The model and what it needs of the runtime as one object. */
static bool merge(Link *l, const HostPlan *plan, const StrMap *api)
{
    Args args = {0};
    add_all(l, &args, (const char *const[]){"cc", "-nostdlib", "-r", "-o", in_dir(l, "merged.o"), NULL});
    const char *shim = l->options->device ? l->options->device->shim : NULL;
    if (!write_objects(l, plan, LLVM_WITH_TABLES, &args) || (shim && !compile_shim(l, shim, &args))) return false;
    for (uint32_t i = 0; i < api->n; i++) add(l, &args, arena_printf(l->arena, "-Wl,-u,%s", api->entries[i].key));
    add(l, &args, l->runtime);
    return run(l, &args);
}

static bool localise(Link *l, const StrMap *api)
{
    Args args = {0};
    add_all(l, &args, (const char *const[]){"objcopy", "--strip-debug", "--strip-unneeded", NULL});
    const char *name = l->options->name;
    add(l, &args, arena_printf(l->arena, "--keep-global-symbol=%s_tables", name));
    for (uint32_t i = 0; i < api->n; i++) {
        const char *from = api->entries[i].key, *to = gnnrt_renamed(l->arena, from, name);
        add(l, &args, arena_printf(l->arena, "--redefine-sym=%s=%s", from, to));
        add(l, &args, arena_printf(l->arena, "--keep-global-symbol=%s", to));
    }
    add(l, &args, in_dir(l, "merged.o"));
    add(l, &args, in_dir(l, arena_printf(l->arena, "%s.o", name)));
    return run(l, &args);
}

static bool archive(Link *l)
{
    Args args = {0};
    const char *object = in_dir(l, arena_printf(l->arena, "%s.o", l->options->name));
    add_all(l, &args, (const char *const[]){"ar", "rcsD", in_dir(l, "lib.a"), object, NULL});
    return run(l, &args);
}

/* The shared form names itself, so that a program linked by a path to it is not bound to that path. */
static bool share(Link *l, const char *out)
{
    Args args = {0};
    const char *object = in_dir(l, arena_printf(l->arena, "%s.o", l->options->name));
    add_all(l, &args,
            (const char *const[]){"cc", "-shared", "-o", in_dir(l, "lib.so"), object, "-Xlinker", "-soname", NULL});
    const char *slash = strrchr(out, '/');
    add_all(l, &args,
            (const char *const[]){"-Xlinker", arena_printf(l->arena, "%s.so", slash ? slash + 1 : out), NULL});
    add_all(l, &args, hardening);
    add_sanitizers(l, &args);
    if (!SANITIZED) add(l, &args, "-Wl,--no-undefined");
    add_all(l, &args, libraries);
    return run(l, &args);
}

static bool link_lib(Link *l, const HostPlan *plan, const char *out)
{
    StrMap api = {.arena = l->arena};
    gnnrt_functions(&api);
    if (!merge(l, plan, &api) || !localise(l, &api) || !archive(l) || !share(l, out)) return false;
    return deliver(l, "lib.a", arena_printf(l->arena, "%s.a", out), 0644) &&
           deliver(l, "lib.so", arena_printf(l->arena, "%s.so", out), 0755);
}

bool build_lib(const HostPlan *plan, const CodegenOptions *o, const char *out, Arena *a, Diags *d)
{
    Link l = {.arena = a, .diags = d, .options = o};
    if (!open_link(&l)) return false;
    bool good = link_lib(&l, plan, out);
    temp_folder_remove(&l.dir);
    return good;
}
