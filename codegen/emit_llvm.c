/* A model as one LLVM module: every kernel once per CPU variant, the tables of runtime/abi.h as
   constants, and an entry: `main` for executables, <name>_tables for libraries. Everything else is
   internal. Never writes a path, a time or anything of this machine into the module. Variants, and
   two halves of each, may be compiled side by side: kernels share nothing, and which half a kernel
   is in depends on the plan alone, so the bytes do not depend on the machine or on which thread
   ends first. */
#include "codegen/emit_llvm.h"
#include "base/ice.h"
#include "codegen/llvm_kernel.h"
#include "codegen/llvm_module.h"
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

typedef struct Model {
    Arena *arena;
    const HostPlan *plan;
    const CodegenOptions *options;
    LLVMContextRef context;
    LLVMTargetMachineRef machine;
    LLVMModuleRef module;
    unsigned here;    /* variants whose kernels this module holds; the others are declared */
    const char *what; /* for the time report */
    double began, emitted, optimised, finished;
} Model;

/* An internal constant that nobody takes the address of for its identity. */
static LLVMValueRef make_constant(LLVMValueRef g, LLVMValueRef value, unsigned alignment)
{
    LLVMSetInitializer(g, value);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetGlobalConstant(g, true);
    LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
    LLVMSetAlignment(g, alignment);
    return g;
}

static LLVMValueRef constant_global(const Model *m, const char *name, LLVMValueRef value, unsigned alignment)
{
    return make_constant(LLVMAddGlobal(m->module, LLVMTypeOf(value), name), value, alignment);
}

static LLVMValueRef cell(const Model *m, int64_t v)
{
    return LLVMConstInt(LLVMInt64TypeInContext(m->context), (unsigned long long)v, true);
}

/* The rows as they lie in memory: all fields are 8-byte cells, doubles by their bits. */
static LLVMValueRef table(const Model *m, const Table *t)
{
    size_t n = t->n * t->type->bytes / sizeof(int64_t);
    ICE_UNLESS(t->type->bytes % sizeof(int64_t) == 0);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(m->context, 0);
    if (!n) return LLVMConstNull(ptr);
    LLVMValueRef *cells = ARENA_ARRAY(m->arena, LLVMValueRef, n);
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, (const char *)t->rows + i * sizeof v, sizeof v);
        cells[i] = cell(m, v);
    }
    LLVMValueRef all = LLVMConstArray2(LLVMInt64TypeInContext(m->context), cells, n);
    return constant_global(m, t->field, all, 8);
}

/* What another object of the same model defines. Hidden: no name leaves the linked file. */
static LLVMValueRef elsewhere(const Model *m, const char *name)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(m->context), args[] = {LLVMPointerTypeInContext(m->context, 0), i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), args, 3, false);
    LLVMValueRef f = LLVMAddFunction(m->module, name, type);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    return f;
}

/* One cell of the kernel table. */
static LLVMValueRef kernel(const Model *m, uint32_t i, unsigned variant)
{
    const KirKernel *k = plan_kernel(m->plan, i, variant == RT_AVX512);
    if (!(codegen_variants(m->options) >> variant & 1)) return LLVMConstNull(LLVMPointerTypeInContext(m->context, 0));
    if (m->here >> variant & 1) return llvm_kernel(m->arena, m->module, k, variant);
    return elsewhere(m, arena_printf(m->arena, "%s_%s", k->name, llvm_variant_names[variant]));
}

static LLVMValueRef kernel_table(const Model *m)
{
    uint32_t n = plan_n_kernels(m->plan);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(m->context, 0);
    LLVMValueRef *all = ARENA_ARRAY(m->arena, LLVMValueRef, n * RT_N_VARIANTS + 1);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        for (uint32_t i = 0; i < n; i++) all[v * n + i] = kernel(m, i, v);
    if (!n) return LLVMConstNull(ptr);
    return constant_global(m, "kernels", LLVMConstArray2(ptr, all, n * RT_N_VARIANTS), 8);
}

static LLVMValueRef device_code(const Model *m, const ModelTables *t)
{
    if (!t->n_device_code) return LLVMConstNull(LLVMPointerTypeInContext(m->context, 0));
    LLVMValueRef bytes = LLVMConstStringInContext2(m->context, t->device_code, t->n_device_code, true);
    return constant_global(m, "device_code", bytes, 64);
}

/* The function that another object, of the shim, defines. */
static LLVMValueRef shim(const Model *m)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(m->context), ptr = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef args[] = {ptr, ptr, i32, i32, LLVMInt64TypeInContext(m->context), ptr};
    if (!m->options->device || !m->options->device->shim) return LLVMConstNull(ptr);
    return LLVMAddFunction(m->module, "shim_launch", LLVMFunctionType(i32, args, 6, false));
}

/* The function of the runtime with which a library opens devices. */
static LLVMValueRef driver(const Model *m, LlvmEntry entry)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(m->context), ptr = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef args[] = {ptr, ptr};
    const CodegenDevice *device = m->options->device;
    if (!device || entry != LLVM_WITH_TABLES) return LLVMConstNull(ptr);
    return LLVMAddFunction(m->module, device->shim ? "rt_open_shim" : "rt_open_cuda",
                           LLVMFunctionType(i32, args, 2, false));
}

/* RtModel: its integers, the pointers, the manifest. */
static LLVMValueRef model_global(const Model *m, const ModelTables *t, LlvmEntry entry, bool host)
{
    enum { N_INTS = offsetof(RtModel, strings) / sizeof(int64_t), N_POINTERS = N_TABLES + 6 };
    _Static_assert(sizeof(RtModel) == (N_INTS + N_POINTERS + 1) * sizeof(int64_t), "RtModel has other fields");
    _Static_assert(offsetof(RtModel, kernels) == offsetof(RtModel, strings) + (N_TABLES + 1) * sizeof(void *), "order");
    LLVMValueRef parts[N_INTS + N_POINTERS + 1];
    for (unsigned i = 0; i < N_INTS; i++) {
        int64_t v;
        memcpy(&v, (const char *)&t->model + i * sizeof v, sizeof v);
        parts[i] = cell(m, v);
    }
    LLVMValueRef text = LLVMConstStringInContext2(m->context, t->strings, t->n_strings, true);
    parts[N_INTS] = constant_global(m, "strings", text, 1);
    for (unsigned i = 0; i < N_TABLES; i++) parts[N_INTS + 1 + i] = table(m, &t->tables[i]);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(m->context, 0), types[N_INTS + N_POINTERS + 1];
    LLVMValueRef none = LLVMConstNull(ptr);
    bool other = t->device && t->device != t;
    parts[N_INTS + N_TABLES + 1] = host ? kernel_table(m) : none;
    parts[N_INTS + N_TABLES + 2] = device_code(m, t);
    parts[N_INTS + N_TABLES + 3] = t->model.n_device_kernels ? shim(m) : none;
    parts[N_INTS + N_TABLES + 4] = host ? driver(m, entry) : none;
    parts[N_INTS + N_TABLES + 5] = other ? model_global(m, t->device, entry, false) : none;
    parts[N_INTS + N_POINTERS] = cell(m, t->model.manifest);
    for (unsigned i = 0; i < N_INTS + N_POINTERS + 1; i++) types[i] = LLVMTypeOf(parts[i]);
    LLVMTypeRef type = LLVMStructTypeInContext(m->context, types, N_INTS + N_POINTERS + 1, false);
    LLVMValueRef g = LLVMAddGlobal(m->module, type, "model");
    if (t->device == t) parts[N_INTS + N_TABLES + 5] = g;
    return make_constant(g, LLVMConstStructInContext(m->context, parts, N_INTS + N_POINTERS + 1, false), 8);
}

/* int main(int argc, char **argv) { return gnnrt_main(&model, argc, argv); } */
static void emit_main(const Model *m, LLVMValueRef model)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(m->context), ptr = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef own[] = {i32, ptr}, callee[] = {ptr, i32, ptr};
    LLVMTypeRef run_type = LLVMFunctionType(i32, callee, 3, false);
    LLVMValueRef run = LLVMAddFunction(m->module, "gnnrt_main", run_type);
    LLVMValueRef f = LLVMAddFunction(m->module, "main", LLVMFunctionType(i32, own, 2, false));
    LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m->context, f, ""));
    LLVMValueRef args[] = {model, LLVMGetParam(f, 0), LLVMGetParam(f, 1)};
    LLVMBuildRet(b, LLVMBuildCall2(b, run_type, run, args, 3, ""));
    LLVMDisposeBuilder(b);
}

/* const void *<name>_tables(void) */
static void emit_tables_function(const Model *m, LLVMValueRef model)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMPointerTypeInContext(m->context, 0), NULL, 0, false);
    LLVMValueRef f = LLVMAddFunction(m->module, arena_printf(m->arena, "%s_tables", m->options->name), type);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m->context, f, ""));
    LLVMBuildRet(b, model);
    LLVMDisposeBuilder(b);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Model open_model(const HostPlan *plan, const CodegenOptions *o, unsigned here, Arena *a)
{
    Model m = {
        .arena = a, .plan = plan, .options = o, .context = LLVMContextCreate(), .here = here, .began = seconds()};
    m.machine = llvm_machine_new(o->quick);
    m.module = llvm_module_new(m.context, m.machine);
    return m;
}

static void optimise(Model *m)
{
    m->emitted = seconds();
    if (!m->options->quick) llvm_optimise(m->module, m->machine);
    m->optimised = seconds();
}

/* Tables, entry, and the kernels of the variants in m->here, through the middle end. */
static void fill_model(Model *m, LlvmEntry entry)
{
    m->what = "model";
    LLVMValueRef model = model_global(m, tables_build(m->plan, m->options, m->arena), entry, true);
    if (entry == LLVM_WITH_MAIN) emit_main(m, model);
    else emit_tables_function(m, model);
    optimise(m);
}

/* Which of a variant's objects each kernel is in: the one with fewer instructions so far. */
static const unsigned char *divide(const HostPlan *plan, Arena *a)
{
    unsigned char *part = ARENA_ARRAY(a, unsigned char, plan_n_kernels(plan) + 1);
    uint64_t size[LLVM_PARTS] = {0};
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++) {
        for (unsigned p = 1; p < LLVM_PARTS; p++)
            if (size[p] < size[part[i]]) part[i] = (unsigned char)p;
        size[part[i]] += plan_kernel(plan, i, true)->ins.n;
    }
    return part;
}

/* The kernels of one part of a variant, for another object's table. */
static void fill_kernels(Model *m, unsigned variant, const unsigned char *parts, unsigned part)
{
    m->what = llvm_variant_names[variant];
    for (uint32_t i = 0; i < plan_n_kernels(m->plan); i++) {
        if (parts[i] != part) continue;
        LLVMValueRef f = llvm_kernel(m->arena, m->module, plan_kernel(m->plan, i, variant == RT_AVX512), variant);
        LLVMSetLinkage(f, LLVMExternalLinkage);
        LLVMSetVisibility(f, LLVMHiddenVisibility);
    }
    optimise(m);
}

static void report(const Model *m)
{
    if (!m->options->time) return;
    fprintf(stderr, "time llvm %-8s emit %7.1f  optimise %7.1f  object %7.1f ms\n", m->what,
            (m->emitted - m->began) * 1e3, (m->optimised - m->emitted) * 1e3, (m->finished - m->optimised) * 1e3);
}

static void close_model(Model *m)
{
    LLVMDisposeModule(m->module);
    LLVMDisposeTargetMachine(m->machine);
    LLVMContextDispose(m->context);
}

static LlvmObject object(Model *m)
{
    LLVMMemoryBufferRef buffer;
    char *why = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(m->machine, m->module, LLVMObjectFile, &why, &buffer)) ICE(why);
    LlvmObject o = {.n = LLVMGetBufferSize(buffer)};
    o.bytes = arena_strndup(m->arena, LLVMGetBufferStart(buffer), o.n);
    LLVMDisposeMemoryBuffer(buffer);
    m->finished = seconds();
    return o;
}

LlvmObject llvm_object(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a)
{
    llvm_start();
    Model m = open_model(plan, o, codegen_variants(o), a);
    fill_model(&m, entry);
    LlvmObject out = object(&m);
    report(&m);
    close_model(&m);
    return out;
}

typedef struct Side { /* the thread of a part of a variant */
    const HostPlan *plan;
    const CodegenOptions *options;
    const unsigned char *parts; /* [kernels] */
    unsigned variant, part;
    Model m;
    LlvmObject object;
    pthread_t thread;
    bool threaded;
} Side;

static void *side_run(void *arg)
{
    Side *s = arg;
    s->m = open_model(s->plan, s->options, 0, arena_new()); /* an arena belongs to one thread */
    fill_kernels(&s->m, s->variant, s->parts, s->part);
    s->object = object(&s->m);
    return NULL;
}

static void side_join(Side *s, Arena *a, LlvmObject *out)
{
    if (s->threaded) pthread_join(s->thread, NULL);
    *out = (LlvmObject){arena_strndup(a, s->object.bytes, s->object.n), s->object.n};
    report(&s->m);
    Arena *own = s->m.arena;
    close_model(&s->m);
    arena_free(own);
}

unsigned llvm_objects(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a,
                      LlvmObject out[LLVM_MAX_OBJECTS])
{
    llvm_start();
    Side sides[LLVM_MAX_OBJECTS];
    unsigned n = 0;
    const unsigned char *parts = divide(plan, a);
    for (unsigned i = 0; i < RT_N_VARIANTS * LLVM_PARTS; i++) {
        unsigned variant = i / LLVM_PARTS;
        if (!(codegen_variants(o) >> variant & 1)) continue;
        Side *s = &sides[n++];
        *s = (Side){.plan = plan, .options = o, .parts = parts, .variant = variant, .part = i % LLVM_PARTS};
        s->threaded = pthread_create(&s->thread, NULL, side_run, s) == 0;
        if (!s->threaded) side_run(s);
    }
    Model m = open_model(plan, o, 0, a);
    fill_model(&m, entry);
    out[0] = object(&m);
    report(&m);
    close_model(&m);
    for (unsigned i = 0; i < n; i++) side_join(&sides[i], a, &out[1 + i]);
    return 1 + n;
}

void emit_ll(const HostPlan *plan, const CodegenOptions *o, Arena *a, StrBuf *out)
{
    llvm_start();
    Model m = open_model(plan, o, codegen_variants(o), a);
    fill_model(&m, LLVM_WITH_MAIN);
    char *text = LLVMPrintModuleToString(m.module);
    strbuf_puts(out, text);
    LLVMDisposeMessage(text);
    close_model(&m);
}
