/* Modules, the target machine and the middle end (codegen/llvm_module.h). The machine is fixed,
   x86-64 Linux with position-independent code: nothing of the computer that compiles reaches the
   output. Kernel IR has explicit vectors, so LLVM's own vectorisers are no part of the middle end.
 */
#include "codegen/llvm_module.h"
#include "base/arena.h"
#include "base/ice.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>

static const char triple[] = "x86_64-pc-linux-gnu";

/* What kernels need of O2 and no more: registers for variables, invariants out of loops, the
   unrolling that kernel IR asks for, then sharing across the unrolled copies. */
static const char pipeline[] = "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-"
                               "fixpoint>,loop-mssa(loop-rotate,licm),"
                               "simplifycfg,loop(indvars,loop-unroll-full),sroa,early-cse<memssa>,"
                               "instcombine<no-verify-fixpoint>,gvn,"
                               "loop-mssa(licm),adce,simplifycfg),globaldce";

static void on_fatal(const char *why) { ICE(why); }

/* LLVM has no C interface for memory that ends, and aborts where nobody asked for a call: these are its C++ functions,
   by the names that their object code has. */
void llvm_install_bad_alloc_handler(void (*handler)(void *user, const char *why, bool gen),
                                    void *user) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");
void llvm_remove_bad_alloc_handler(void) __asm__("_ZN4llvm30remove_bad_alloc_error_handlerEv");
void llvm_install_new_handler(void) __asm__("_ZN4llvm33install_out_of_memory_new_handlerEv");

static void on_bad_alloc(void *user, const char *why, bool gen)
{
    (void)user, (void)why, (void)gen;
    memory_exhausted(0);
}

void llvm_start(void)
{
    LLVMResetFatalErrorHandler();
    LLVMInstallFatalErrorHandler(on_fatal);
    llvm_remove_bad_alloc_handler();
    llvm_install_bad_alloc_handler(on_bad_alloc, NULL);
    llvm_install_new_handler();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

LLVMTargetMachineRef llvm_machine_new(bool quick)
{
    LLVMTargetRef target;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &why)) ICE("LLVM without x86");
    return LLVMCreateTargetMachine(target, triple, "x86-64", "", quick ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault,
                                   LLVMRelocPIC, LLVMCodeModelDefault);
}

LLVMModuleRef llvm_module_new(LLVMContextRef c, LLVMTargetMachineRef machine)
{
    LLVMModuleRef m = LLVMModuleCreateWithNameInContext("gnnc", c);
    LLVMSetTarget(m, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(m, layout);
    LLVMDisposeTargetData(layout);
    return m;
}

void llvm_optimise(LLVMModuleRef m, LLVMTargetMachineRef machine)
{
    char *why = NULL;
    if (LLVMVerifyModule(m, LLVMReturnStatusAction, &why)) ICE(why);
    LLVMDisposeMessage(why);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(m, pipeline, machine, options);
    if (error) ICE(LLVMGetErrorMessage(error));
    LLVMDisposePassBuilderOptions(options);
}
