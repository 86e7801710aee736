/* A model as one LLVM module: every kernel once per CPU variant, the tables of runtime/abi.h as constants, and an entry:
   `main` for executables, <name>_tables for libraries. Everything else is internal. Never writes a path, a time or anything of
   this machine into the module. */
#include "codegen/emit_llvm.h"
#include "base/ice.h"
#include "codegen/llvm_kernel.h"
#include "codegen/llvm_module.h"
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
} Model;

/* An internal constant that nobody takes the address of for its identity. */
static LLVMValueRef constant_global(const Model *m, const char *name, LLVMValueRef value, unsigned alignment)
{
    LLVMValueRef g = LLVMAddGlobal(m->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetGlobalConstant(g, true);
    LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
    LLVMSetAlignment(g, alignment);
    return g;
}

static LLVMValueRef cell(const Model *m, int64_t v)
{
    return LLVMConstInt(LLVMInt64TypeInContext(m->context), (unsigned long long)v, true);
}

/* The rows as they lie in memory: all fields are 8-byte cells, doubles by their bits. */
static LLVMValueRef table(const Model *m, const Table *t)
{
    size_t n = t->n * t->type->bytes / sizeof(int64_t);
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

static LLVMValueRef kernel_table(const Model *m)
{
    uint32_t n = m->plan->kernels.n;
    LLVMTypeRef ptr = LLVMPointerTypeInContext(m->context, 0);
    LLVMValueRef *all = ARENA_ARRAY(m->arena, LLVMValueRef, n * RT_N_VARIANTS + 1);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        for (uint32_t i = 0; i < n; i++) {
            bool built = codegen_variants(m->options) >> v & 1;
            all[v * n + i] = built ? llvm_kernel(m->arena, m->module, m->plan->kernels.data[i], v) : LLVMConstNull(ptr);
        }
    if (!n) return LLVMConstNull(ptr);
    return constant_global(m, "kernels", LLVMConstArray2(ptr, all, n * RT_N_VARIANTS), 8);
}

/* RtModel: ten integers, the pointers, the manifest. */
static LLVMValueRef model_global(const Model *m, const ModelTables *t)
{
    enum { N_INTS = offsetof(RtModel, strings) / sizeof(int64_t), N_POINTERS = N_TABLES + 2 };
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
    parts[N_INTS + N_TABLES + 1] = kernel_table(m);
    parts[N_INTS + N_POINTERS] = cell(m, t->model.manifest);
    LLVMValueRef all = LLVMConstStructInContext(m->context, parts, N_INTS + N_POINTERS + 1, false);
    return constant_global(m, "model", all, 8);
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

static double lap(const Model *m, const char *what, double since)
{
    double now = seconds();
    if (m->options->time) fprintf(stderr, "  llvm %-10s %8.1f ms\n", what, (now - since) * 1e3);
    return now;
}

/* The whole module, through the middle end. */
static Model open_model(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a)
{
    Model m = {.arena = a, .plan = plan, .options = o, .context = LLVMContextCreate()};
    double at = seconds();
    m.machine = llvm_machine_new();
    m.module = llvm_module_new(m.context, m.machine);
    LLVMValueRef model = model_global(&m, tables_build(plan, o, a));
    if (entry == LLVM_WITH_MAIN) emit_main(&m, model);
    else emit_tables_function(&m, model);
    at = lap(&m, "emit", at);
    llvm_optimise(m.module, m.machine);
    lap(&m, "optimise", at);
    return m;
}

static void close_model(Model *m)
{
    LLVMDisposeModule(m->module);
    LLVMDisposeTargetMachine(m->machine);
    LLVMContextDispose(m->context);
}

const char *llvm_object(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a, size_t *n)
{
    Model m = open_model(plan, o, entry, a);
    double at = seconds();
    LLVMMemoryBufferRef buffer;
    char *why = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(m.machine, m.module, LLVMObjectFile, &why, &buffer)) ICE(why);
    *n = LLVMGetBufferSize(buffer);
    const char *bytes = arena_strndup(a, LLVMGetBufferStart(buffer), *n);
    LLVMDisposeMemoryBuffer(buffer);
    lap(&m, "object", at);
    close_model(&m);
    return bytes;
}

void emit_ll(const HostPlan *plan, const CodegenOptions *o, Arena *a, StrBuf *out)
{
    Model m = open_model(plan, o, LLVM_WITH_MAIN, a);
    char *text = LLVMPrintModuleToString(m.module);
    strbuf_puts(out, text);
    LLVMDisposeMessage(text);
    close_model(&m);
}
