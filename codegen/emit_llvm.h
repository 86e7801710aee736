/* Private to codegen: whole models as LLVM modules (emit_llvm.c). */
#pragma once
#include "codegen/codegen.h"

typedef enum { LLVM_WITH_MAIN, LLVM_WITH_TABLES } LlvmEntry; /* what the module exports: main, or <name>_tables */

typedef struct LlvmObject { /* the bytes of an ELF object */
    const char *bytes;
    size_t n;
} LlvmObject;

/* Everything in one object, in the arena. */
LlvmObject llvm_object(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a);
/* The same as objects that are linked together, compiled side by side: tables first, then the kernels
   of each variant in LLVM_PARTS objects. Returns how many. */
enum { LLVM_PARTS = 2, LLVM_MAX_OBJECTS = 1 + LLVM_PARTS * RT_N_VARIANTS };
unsigned llvm_objects(const HostPlan *plan, const CodegenOptions *o, LlvmEntry entry, Arena *a,
                      LlvmObject out[LLVM_MAX_OBJECTS]);
