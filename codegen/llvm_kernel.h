/* Private to codegen/llvm_*.c, emit_llvm.c and jit.c: one kernel as LLVM functions in a module. */
#pragma once
#include "codegen/walk.h"
#include <llvm-c/Core.h>

typedef struct LlvmBlocks {       /* of one open `for`, `loop` or `if` */
    LLVMBasicBlockRef head, exit; /* if: head is the second block */
    LLVMValueRef next;            /* for: phi of the induction variable */
} LlvmBlocks;

/* What the hooks share while one kernel is emitted. */
typedef struct LlvmKernel {
    Arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef at;    /* appends here */
    LLVMBuilderRef entry; /* appends to the entry block: allocas */
    const KirKernel *kernel;
    LLVMValueRef function;
    LLVMValueRef lo, hi;
    LLVMValueRef *params; /* [params.n] pointers and scalars */
    LLVMValueRef *values; /* [ins.n]; var and alloc: the alloca */
    VEC(LlvmBlocks) open;
    const char *suffix;
    unsigned variant;
    LLVMValueRef result; /* the outer function, RtKernelFn */
} LlvmKernel;

/* f16 and bf16: an integer of 16 bits. */
LLVMTypeRef llvm_base_type(LLVMContextRef c, KirBase base);
LLVMTypeRef llvm_type(LLVMContextRef c, KirType t);
/* The current value of an operand. */
LLVMValueRef llvm_operand(LlvmKernel *e, const KirKernel *k, KirId id);
/* From memory's 16 bits, integers, to f32 and back, rounded to nearest. `exact`: x is a number of these 16 bits. */
LLVMValueRef llvm_widen_16(LlvmKernel *e, KirBase elem, LLVMValueRef bits, unsigned lanes);
LLVMValueRef llvm_round_16(LlvmKernel *e, KirBase elem, LLVMValueRef x, unsigned lanes, bool exact);
/* Every V row of kernel_ops.def without memory or state. */
LLVMValueRef llvm_value(LlvmKernel *e, const KirKernel *k, const KirIns *x);
/* Calls an overloaded intrinsic: `over` are the types its name is completed with. */
LLVMValueRef llvm_intrinsic(LlvmKernel *e, const char *name, const LLVMTypeRef *over, unsigned n_over,
                            LLVMValueRef *args, unsigned n_args);

/* Gives a function the features of e's variant and makes it internal; `alone`: never inlined. */
void llvm_describe(LlvmKernel *e, LLVMValueRef f, bool alone);
/* Emits kernel k for a CPU variant (RT_GENERIC ..) and returns its outer function, internal, named
 * <k>_<variant>. */
LLVMValueRef llvm_kernel(Arena *a, LLVMModuleRef m, const KirKernel *k, unsigned variant);
extern const char *const llvm_variant_names[];
