/* In-process compilation of kernels for tests (codegen/jit.h), over LLVM's MCJIT. What kernels call, libm's fma, rint
   and floor and the memory moves that LLVM invents, MCJIT finds in the process: LLVM itself is linked to both
   libraries. */
#include "codegen/jit.h"
#include "base/ice.h"
#include "codegen/llvm_kernel.h"
#include "codegen/llvm_module.h"
#include "runtime/cpu.h"
#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/Support.h>
#include <stdlib.h>

struct JitModule {
    Arena *arena;
    LLVMContextRef context;
    LLVMExecutionEngineRef engine;
    RtKernelFn *kernels;
};

static void create_engine(JitModule *j, LLVMModuleRef m, bool quick)
{
    LLVMLinkInMCJIT();
    struct LLVMMCJITCompilerOptions options;
    LLVMInitializeMCJITCompilerOptions(&options, sizeof options);
    options.OptLevel = quick ? 0 : 2;
    options.EnableFastISel = quick;
    char *why = NULL;
    if (LLVMCreateMCJITCompilerForModule(&j->engine, m, &options, sizeof options, &why)) ICE(why);
}

static JitModule *compile(const KirKernel *const *ks, uint32_t n, unsigned variant, bool quick, const char **why)
{
    int best;
    ICE_UNLESS(rt_cpu_allowed(&best, &(RtStatus){0}) == RT_OK);
    if ((int)variant > best) {
        *why = best < rt_cpu_best() ? "GNNC_CPU forbids the variant" : "this machine's CPU lacks the variant";
        return NULL;
    }
    Arena *a = arena_new();
    JitModule *j = ARENA_NEW(a, JitModule);
    *j = (JitModule){.arena = a, .context = LLVMContextCreate(), .kernels = ARENA_ARRAY(a, RtKernelFn, n)};
    llvm_start();
    LLVMTargetMachineRef machine = llvm_machine_new(quick);
    LLVMModuleRef m = llvm_module_new(j->context, machine);
    const char **names = ARENA_ARRAY(a, const char *, n);
    for (uint32_t i = 0; i < n; i++) {
        LLVMValueRef f = llvm_kernel(a, m, ks[i], variant);
        LLVMSetLinkage(f, LLVMExternalLinkage);
        names[i] = arena_printf(a, "%s", LLVMGetValueName(f));
    }
    if (!quick) llvm_optimise(m, machine);
    LLVMDisposeTargetMachine(machine);
    create_engine(j, m, quick);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = LLVMGetFunctionAddress(j->engine, names[i]);
        ICE_UNLESS(at);
        memcpy(&j->kernels[i], &at, sizeof at);
    }
    return j;
}

JitModule *jit_compile(const KirKernel *const *ks, uint32_t n, unsigned variant, const char **why)
{
    return compile(ks, n, variant, false, why);
}

JitModule *jit_compile_quickly(const KirKernel *const *ks, uint32_t n, unsigned variant, const char **why)
{
    return compile(ks, n, variant, true, why);
}

RtKernelFn jit_kernel(const JitModule *m, uint32_t index) { return m->kernels[index]; }

void jit_free(JitModule *m)
{
    if (!m) return;
    LLVMDisposeExecutionEngine(m->engine);
    LLVMContextDispose(m->context);
    arena_free(m->arena);
}
