/* Private to codegen: whole models as LLVM modules (emit_llvm.c). */
#pragma once
#include "codegen/codegen.h"

typedef enum { LLVM_WITH_MAIN, LLVM_WITH_TABLES } LlvmEntry; /* what the module exports: main, or <name>_tables */

/* The bytes of an ELF object, in the arena. */
const char *llvm_object(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a, size_t *n);
