/* Private to codegen: what building an object and compiling in process share. */
#pragma once
#include "base/arena.h"
#include <stdbool.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

/* Once before anything else here, from one thread. */
void llvm_start(void);
/* A module for x86-64 Linux, with triple and data layout set. */
LLVMModuleRef llvm_module_new(LLVMContextRef c, LLVMTargetMachineRef machine);
/* Position-independent x86-64; features are attributes of each function. quick: code in less than half of the time,
   which runs more slowly and computes the same bits. */
LLVMTargetMachineRef llvm_machine_new(bool quick);
/* Runs the middle end. The module is verified first: a fault is an internal error. */
void llvm_optimise(LLVMModuleRef m, LLVMTargetMachineRef machine);
