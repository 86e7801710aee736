/* One kernel as two LLVM functions: the body, whose pointers are real parameters so that `noalias`
   can be said, and the outer RtKernelFn that unpacks the argument array and calls it. Driven by
   codegen/walk.h; memory and control are spelled here, arithmetic in llvm_value.c. Never decides:
   no widths, no unrolling, no reordering of its own. */
#include "codegen/llvm_kernel.h"
#include "base/ice.h"
#include "codegen/serial.h"
#include "runtime/abi.h"
#include <llvm-c/DebugInfo.h>
#include <math.h>

const char *const llvm_variant_names[] = {[RT_GENERIC] = "generic", [RT_AVX2] = "avx2", [RT_AVX512] = "avx512"};

/* The features that the runtime's dispatch (runtime/abi.h) checks before it calls a variant, and
 * nothing more. */
static const struct {
    const char *features, *width;
} variants[] = {
    [RT_GENERIC] = {"+sse,+sse2,+cx8,+fxsr,+mmx,+x87", "128"},
    [RT_AVX2] = {"+avx,+avx2,+fma,+f16c,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+xsave", "256"},
    [RT_AVX512] = {"+avx,+avx2,+fma,+f16c,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+xsave,+evex512,+avx512f,+"
                   "avx512bw,+avx512dq,+avx512vl",
                   "512"},
};

LLVMValueRef llvm_operand(LlvmKernel *e, const KirKernel *k, KirId id)
{
    LLVMValueRef v = e->values[id];
    ICE_UNLESS(v);
    const KirIns *x = &k->ins.data[id];
    return x->op == KIR_var ? LLVMBuildLoad2(e->at, llvm_type(e->context, x->type), v, "") : v;
}

static LLVMValueRef int64(LlvmKernel *e, int64_t v)
{
    return LLVMConstInt(LLVMInt64TypeInContext(e->context), (unsigned long long)v, true);
}

static LLVMBasicBlockRef new_block(LlvmKernel *e) { return LLVMAppendBasicBlockInContext(e->context, e->function, ""); }

/* ---- memory ------------------------------------------------------------------------------------- */

/* Bools are bytes in memory, f16 and bf16 two of them: loads and stores handle them as integers and translate at the
   end. */
static KirType memory_type(const LlvmKernel *e, const KirIns *x, unsigned lanes)
{
    return kir_type(x->type.base == KIR_I1 ? KIR_I8 : kir_memory_base(e->kernel, x), lanes);
}

static bool has_16_bits(const LlvmKernel *e, const KirIns *x) { return kir_is_16_bits(kir_memory_base(e->kernel, x)); }

static LLVMValueRef to_memory(LlvmKernel *e, const KirIns *x, LLVMValueRef v)
{
    KirBase elem = kir_memory_base(e->kernel, x);
    if (kir_is_16_bits(elem)) return llvm_round_16(e, elem, v, x->type.lanes, kir_stores_rounded(e->kernel, x));
    if (x->type.base != KIR_I1) return v;
    return LLVMBuildZExt(e->at, v, llvm_type(e->context, memory_type(e, x, x->type.lanes)), "");
}

static LLVMValueRef base_pointer(LlvmKernel *e, const KirIns *x)
{
    ICE_UNLESS((x->alloc == KIR_NONE) != (x->buf == KIR_NONE));
    return x->alloc != KIR_NONE ? e->values[x->alloc] : e->params[x->buf];
}

static LLVMValueRef address(LlvmKernel *e, const KirIns *x, LLVMValueRef index)
{
    LLVMTypeRef elem = llvm_type(e->context, memory_type(e, x, 1));
    return LLVMBuildInBoundsGEP2(e->at, elem, base_pointer(e, x), &index, 1, "");
}

static unsigned element_bytes(const LlvmKernel *e, const KirIns *x)
{
    return (unsigned)kir_base_bytes(kir_memory_base(e->kernel, x));
}

/* <1, .., 1, 0, ..> with `active` ones. */
static LLVMValueRef lane_mask(LlvmKernel *e, const KirIns *x)
{
    LLVMValueRef bits[KIR_MAX_LANES];
    for (unsigned i = 0; i < x->type.lanes; i++)
        bits[i] = LLVMConstInt(LLVMInt1TypeInContext(e->context), i < x->active, false);
    return LLVMConstVector(bits, x->type.lanes);
}

static LLVMValueRef padding(LlvmKernel *e, const KirIns *x)
{
    LLVMTypeRef base = llvm_type(e->context, memory_type(e, x, 1));
    bool is_float = x->type.base == KIR_F32 || x->type.base == KIR_F64;
    LLVMValueRef one = has_16_bits(e, x) ? LLVMConstNull(base) /* from_memory has the padding */
                       : is_float        ? LLVMConstReal(base, x->f)
                                         : LLVMConstInt(base, (unsigned long long)(long long)x->f, true);
    LLVMValueRef all[KIR_MAX_LANES];
    for (unsigned i = 0; i < x->type.lanes; i++) all[i] = one;
    return LLVMConstVector(all, x->type.lanes);
}

/* Picks lane i of `v` for i < n_used, of `rest` beyond; both have `lanes` lanes or v has n_used. */
static LLVMValueRef merge_lanes(LlvmKernel *e, LLVMValueRef v, LLVMValueRef rest, unsigned n_used, unsigned lanes)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    ICE_UNLESS(n_used <= lanes && lanes <= KIR_MAX_LANES);
    LLVMValueRef pick[KIR_MAX_LANES];
    for (unsigned i = 0; i < lanes; i++) pick[i] = LLVMConstInt(i32, i < n_used ? i : i + lanes, false);
    return LLVMBuildShuffleVector(e->at, v, rest, LLVMConstVector(pick, lanes), "");
}

static LLVMValueRef widen(LlvmKernel *e, LLVMValueRef v, unsigned from, unsigned lanes)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    LLVMValueRef pick[KIR_MAX_LANES], none = LLVMGetPoison(LLVMTypeOf(v));
    for (unsigned i = 0; i < lanes; i++) pick[i] = i < from ? LLVMConstInt(i32, i, false) : LLVMGetPoison(i32);
    return LLVMBuildShuffleVector(e->at, v, none, LLVMConstVector(pick, lanes), "");
}

/* What was loaded, as a value. The padding of 16 bits is any f32: it comes behind. */
static LLVMValueRef from_memory(LlvmKernel *e, const KirIns *x, LLVMValueRef v)
{
    if (x->type.base == KIR_I1) return LLVMBuildICmp(e->at, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    if (!has_16_bits(e, x)) return v;
    v = llvm_widen_16(e, kir_memory_base(e->kernel, x), v, x->type.lanes);
    if (x->active == x->type.lanes || (x->f == 0 && !signbit(x->f))) return v;
    LLVMValueRef pads[KIR_MAX_LANES];
    for (unsigned i = 0; i < x->type.lanes; i++) pads[i] = LLVMConstReal(LLVMFloatTypeInContext(e->context), x->f);
    return merge_lanes(e, v, LLVMConstVector(pads, x->type.lanes), x->active, x->type.lanes);
}

static LLVMValueRef load_plain(LlvmKernel *e, KirType t, const KirIns *x, LLVMValueRef index)
{
    LLVMValueRef v = LLVMBuildLoad2(e->at, llvm_type(e->context, t), address(e, x, index), "");
    LLVMSetAlignment(v, element_bytes(e, x));
    return v;
}

/* A part of a vector: a narrower load where its lanes are a power of two, else a masked one. */
static LLVMValueRef load_part(LlvmKernel *e, const KirIns *x, LLVMValueRef index)
{
    unsigned n = x->active, lanes = x->type.lanes;
    ICE_UNLESS(n >= 1 && n < lanes);
    LLVMValueRef pad = padding(e, x);
    if (n == 1) {
        LLVMValueRef v = load_plain(e, memory_type(e, x, 1), x, index);
        return LLVMBuildInsertElement(e->at, pad, v, LLVMConstInt(LLVMInt32TypeInContext(e->context), 0, false), "");
    }
    if ((n & (n - 1)) == 0) {
        LLVMValueRef v = load_plain(e, memory_type(e, x, n), x, index);
        return merge_lanes(e, widen(e, v, n, lanes), pad, n, lanes);
    }
    LLVMTypeRef over[] = {llvm_type(e->context, memory_type(e, x, x->type.lanes)),
                          LLVMPointerTypeInContext(e->context, 0)};
    LLVMValueRef bytes = LLVMConstInt(LLVMInt32TypeInContext(e->context), element_bytes(e, x), false);
    LLVMValueRef args[] = {address(e, x, index), bytes, lane_mask(e, x), pad};
    return llvm_intrinsic(e, "llvm.masked.load", over, 2, args, 4);
}

/* The lanes that begin a strided load: its padding where some are not active. */
static LLVMValueRef no_lanes(LlvmKernel *e, const KirIns *x)
{
    if (x->active < x->type.lanes) return padding(e, x);
    return LLVMGetPoison(llvm_type(e->context, memory_type(e, x, x->type.lanes)));
}

/* A short stride: all that lies between the first element and the last is loaded, at most eight vectors, the last of
   which ends with the last element, and the lanes are picked from those. */
static bool is_near(const KirIns *x)
{
    int64_t reach = (x->active - 1) * x->stride + 1;
    return x->stride > 1 && x->stride <= 8 && x->type.lanes >= 4 && reach >= x->type.lanes;
}

static LLVMValueRef load_near(LlvmKernel *e, const KirIns *x, LLVMValueRef index)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    LLVMValueRef v = no_lanes(e, x), picked[KIR_MAX_LANES];
    int64_t lanes = x->type.lanes, reach = (x->active - 1) * x->stride + 1;
    ICE_UNLESS(reach >= lanes && reach <= 8 * lanes);
    for (int64_t from = 0, read = 0; read < reach; read = from + lanes) {
        from = read + lanes <= reach ? read : reach - lanes;
        LLVMValueRef part = load_plain(e, memory_type(e, x, x->type.lanes), x,
                                       LLVMBuildAdd(e->at, index, int64(e, from), ""));
        for (int64_t l = 0; l < lanes; l++) {
            bool here = l < x->active && l * x->stride >= read && l * x->stride < from + lanes;
            picked[l] = LLVMConstInt(i32, (unsigned long long)(here ? lanes + l * x->stride - from : l), false);
        }
        v = LLVMBuildShuffleVector(e->at, v, part, LLVMConstVector(picked, (unsigned)lanes), "");
    }
    return v;
}

static LLVMValueRef load_strided(LlvmKernel *e, const KirIns *x, LLVMValueRef index)
{
    if (is_near(x)) return load_near(e, x, index);
    LLVMValueRef v = no_lanes(e, x), one = NULL;
    for (unsigned i = 0; i < x->active; i++) {
        LLVMValueRef at = LLVMBuildAdd(e->at, index, int64(e, (int64_t)i * x->stride), "");
        if (i == 0 || x->stride != 0) one = load_plain(e, memory_type(e, x, 1), x, at);
        v = LLVMBuildInsertElement(e->at, v, one, int64(e, i), "");
    }
    return v;
}

static void on_load(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMValueRef index = llvm_operand(e, w->k, x->args[0]);
    LLVMValueRef v;
    if (x->type.lanes > 1 && x->stride != 1) v = load_strided(e, x, index);
    else if (x->active < x->type.lanes) v = load_part(e, x, index);
    else v = load_plain(e, memory_type(e, x, x->type.lanes), x, index);
    e->values[id] = from_memory(e, x, v);
}

static void on_gather(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMValueRef index = llvm_operand(e, w->k, x->args[0]);
    if (x->type.lanes == 1) {
        e->values[id] = from_memory(e, x, load_plain(e, memory_type(e, x, 1), x, index));
        return;
    }
    LLVMTypeRef over[] = {llvm_type(e->context, memory_type(e, x, x->type.lanes)),
                          LLVMVectorType(LLVMPointerTypeInContext(e->context, 0), x->type.lanes)};
    LLVMValueRef bytes = LLVMConstInt(LLVMInt32TypeInContext(e->context), element_bytes(e, x), false);
    LLVMValueRef pad = x->active < x->type.lanes ? padding(e, x) : LLVMGetPoison(over[0]);
    LLVMValueRef args[] = {address(e, x, index), bytes, lane_mask(e, x), pad};
    e->values[id] = from_memory(e, x, llvm_intrinsic(e, "llvm.masked.gather", over, 2, args, 4));
}

static void store_plain(LlvmKernel *e, const KirIns *x, LLVMValueRef index, LLVMValueRef v)
{
    LLVMSetAlignment(LLVMBuildStore(e->at, v, address(e, x, index)), element_bytes(e, x));
}

static void store_strided(LlvmKernel *e, const KirIns *x, LLVMValueRef index, LLVMValueRef v)
{
    for (unsigned i = 0; i < x->active; i++) {
        LLVMValueRef at = LLVMBuildAdd(e->at, index, int64(e, (int64_t)i * x->stride), "");
        store_plain(e, x, at, LLVMBuildExtractElement(e->at, v, int64(e, i), ""));
    }
}

/* Lane 0 of v, by way of the stack: LLVM 19 computes what only that lane needs with scalars, and has no instruction for
   some comparisons of AVX-512 then. */
static LLVMValueRef first_lane(LlvmKernel *e, const KirIns *x, LLVMValueRef v)
{
    if (x->type.base != KIR_F32 && x->type.base != KIR_F64) return LLVMBuildExtractElement(e->at, v, int64(e, 0), "");
    LLVMValueRef memory = LLVMBuildAlloca(e->entry, LLVMTypeOf(v), "");
    LLVMSetVolatile(LLVMBuildStore(e->at, v, memory), true);
    LLVMValueRef lane = LLVMBuildLoad2(e->at, llvm_type(e->context, memory_type(e, x, 1)), memory, "");
    LLVMSetVolatile(lane, true);
    return lane;
}

static void store_part(LlvmKernel *e, const KirIns *x, LLVMValueRef index, LLVMValueRef v)
{
    unsigned n = x->active;
    ICE_UNLESS(n >= 1 && n < x->type.lanes);
    if (n == 1) {
        store_plain(e, x, index, first_lane(e, x, v));
    } else if ((n & (n - 1)) == 0) {
        store_plain(e, x, index, widen(e, v, n, n));
    } else {
        LLVMTypeRef over[] = {llvm_type(e->context, memory_type(e, x, x->type.lanes)),
                              LLVMPointerTypeInContext(e->context, 0)};
        LLVMValueRef bytes = LLVMConstInt(LLVMInt32TypeInContext(e->context), element_bytes(e, x), false);
        LLVMValueRef args[] = {v, address(e, x, index), bytes, lane_mask(e, x)};
        llvm_intrinsic(e, "llvm.masked.store", over, 2, args, 4);
    }
}

/* No streaming stores: what a kernel writes the next one reads, as a rule partly from a cache. */
static void on_store(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMValueRef index = llvm_operand(e, w->k, x->args[0]), v = to_memory(e, x, llvm_operand(e, w->k, x->args[1]));
    if (x->type.lanes > 1 && x->stride != 1) store_strided(e, x, index, v);
    else if (x->active < x->type.lanes) store_part(e, x, index, v);
    else store_plain(e, x, index, v);
}

static void on_prefetch(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMValueRef index = llvm_operand(e, w->k, x->args[0]);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context), elem = llvm_base_type(e->context, x->type.base);
    if (x->alloc == KIR_NONE) elem = llvm_base_type(e->context, w->k->params.data[x->buf].elem);
    LLVMValueRef at = LLVMBuildGEP2(e->at, elem, base_pointer(e, x), &index, 1, ""); /* may lie outside */
    LLVMTypeRef over[] = {LLVMPointerTypeInContext(e->context, 0)};
    LLVMValueRef args[] = {at, LLVMConstInt(i32, 0, false), LLVMConstInt(i32, x->i ? 2 : 3, false),
                           LLVMConstInt(i32, 1, false)};
    llvm_intrinsic(e, "llvm.prefetch", over, 1, args, 4);
}

/* ---- values and variables ---------------------------------------------------------------------------------------- */

static void on_value(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    e->values[id] = llvm_value(e, w->k, &w->k->ins.data[id]);
}

static void on_alloc(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMTypeRef type = LLVMArrayType2(llvm_base_type(e->context, x->type.base), (uint64_t)x->i);
    e->values[id] = LLVMBuildAlloca(e->entry, type, "");
    LLVMSetAlignment(e->values[id], 64);
}

static void on_var(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    e->values[id] = LLVMBuildAlloca(e->entry, llvm_type(e->context, x->type), "");
    LLVMBuildStore(e->at, llvm_operand(e, w->k, x->args[0]), e->values[id]);
}

static void on_set(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMBuildStore(e->at, llvm_operand(e, w->k, x->args[1]), e->values[x->args[0]]);
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static LLVMValueRef extreme_index(LlvmKernel *e, bool max, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef first = LLVMBuildICmp(e->at, max ? LLVMIntSGT : LLVMIntSLT, a, b, "");
    return LLVMBuildSelect(e->at, first, a, b, "");
}

static void on_begin_for(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMValueRef from = llvm_operand(e, w->k, x->args[0]), to = llvm_operand(e, w->k, x->args[1]);
    if (x->bind == KIR_THREADS) {
        from = extreme_index(e, true, from, e->lo);
        to = extreme_index(e, false, to, e->hi);
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->at), head = new_block(e), body = new_block(e), exit = new_block(e);
    LLVMBuildBr(e->at, head);
    LLVMPositionBuilderAtEnd(e->at, head);
    LLVMValueRef i = LLVMBuildPhi(e->at, LLVMInt64TypeInContext(e->context), "");
    LLVMAddIncoming(i, &from, &before, 1);
    LLVMBuildCondBr(e->at, LLVMBuildICmp(e->at, LLVMIntSLT, i, to, ""), body, exit);
    LLVMPositionBuilderAtEnd(e->at, body);
    e->values[id] = i;
    VEC_PUSH(e->arena, &e->open, ((LlvmBlocks){head, exit, i}));
}

/* A loop id that says: unroll fully (bound to unroll) or leave alone. Loop ids must refer to
 * themselves. */
static void loop_metadata(LlvmKernel *e, LLVMValueRef branch, KirBinding bind)
{
    const char *text = bind == KIR_UNROLL ? "llvm.loop.unroll.full" : "llvm.loop.unroll.disable";
    LLVMMetadataRef word = LLVMMDStringInContext2(e->context, text, strlen(text));
    LLVMMetadataRef rule = LLVMMDNodeInContext2(e->context, &word, 1);
    LLVMMetadataRef self = LLVMTemporaryMDNode(e->context, NULL, 0);
    LLVMMetadataRef parts[] = {self, rule};
    LLVMMetadataRef loop = LLVMMDNodeInContext2(e->context, parts, 2);
    LLVMMetadataReplaceAllUsesWith(self, loop);
    unsigned kind = LLVMGetMDKindIDInContext(e->context, "llvm.loop", 9);
    LLVMSetMetadata(branch, kind, LLVMMetadataAsValue(e->context, loop));
}

static void on_end_for(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    ICE_UNLESS(e->open.n && e->open.data[e->open.n - 1].next);
    LlvmBlocks b = e->open.data[--e->open.n];
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->at);
    LLVMValueRef next = LLVMBuildNSWAdd(e->at, b.next, int64(e, x->i), "");
    loop_metadata(e, LLVMBuildBr(e->at, b.head), x->bind);
    LLVMAddIncoming(b.next, &next, &last, 1);
    LLVMPositionBuilderAtEnd(e->at, b.exit);
}

static void on_begin_loop(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    LlvmKernel *e = ctx;
    LlvmBlocks b = {new_block(e), new_block(e), NULL};
    LLVMBuildBr(e->at, b.head);
    LLVMPositionBuilderAtEnd(e->at, b.head);
    VEC_PUSH(e->arena, &e->open, b);
}

static void on_end_loop(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    LlvmKernel *e = ctx;
    LlvmBlocks b = e->open.data[--e->open.n];
    LLVMBuildBr(e->at, b.head);
    LLVMPositionBuilderAtEnd(e->at, b.exit);
}

static void on_break_if(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    ICE_UNLESS(e->open.n && !e->open.data[e->open.n - 1].next); /* of the `loop` it stands in */
    LLVMBasicBlockRef on = new_block(e);
    LLVMValueRef stop = llvm_operand(e, w->k, w->k->ins.data[id].args[0]);
    LLVMBuildCondBr(e->at, stop, e->open.data[e->open.n - 1].exit, on);
    LLVMPositionBuilderAtEnd(e->at, on);
}

static void on_begin_if(void *ctx, const KirWalk *w, KirId id)
{
    LlvmKernel *e = ctx;
    const KirIns *x = &w->k->ins.data[id];
    LLVMBasicBlockRef then = new_block(e), exit = new_block(e);
    LLVMBasicBlockRef other = x->other.ins.n ? new_block(e) : exit;
    LLVMBuildCondBr(e->at, llvm_operand(e, w->k, x->args[0]), then, other);
    LLVMPositionBuilderAtEnd(e->at, then);
    VEC_PUSH(e->arena, &e->open, ((LlvmBlocks){other, exit, NULL}));
}

static void on_begin_else(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    LlvmKernel *e = ctx;
    LlvmBlocks *b = &e->open.data[e->open.n - 1];
    LLVMBuildBr(e->at, b->exit);
    LLVMPositionBuilderAtEnd(e->at, b->head);
    b->head = b->exit;
}

/* A second block that holds dead instructions only is never begun: it is still somebody's branch
 * target. */
static void on_end_if(void *ctx, const KirWalk *w, KirId id)
{
    (void)w, (void)id;
    LlvmKernel *e = ctx;
    LlvmBlocks b = e->open.data[--e->open.n];
    LLVMBuildBr(e->at, b.exit);
    if (b.head != b.exit) {
        LLVMPositionBuilderAtEnd(e->at, b.head);
        LLVMBuildBr(e->at, b.exit);
    }
    LLVMPositionBuilderAtEnd(e->at, b.exit);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static void function_attribute(LlvmKernel *e, LLVMValueRef f, const char *key, const char *value)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(e->context, key, (unsigned)strlen(key), value,
                                                   (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void enum_attribute(LlvmKernel *e, LLVMValueRef f, LLVMAttributeIndex at, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, at, LLVMCreateEnumAttribute(e->context, kind, 0));
}

void llvm_describe(LlvmKernel *e, LLVMValueRef f, bool alone)
{
    LLVMSetLinkage(f, LLVMInternalLinkage);
    function_attribute(e, f, "target-cpu", "x86-64");
    function_attribute(e, f, "target-features", variants[e->variant].features);
    function_attribute(e, f, "prefer-vector-width", variants[e->variant].width);
    function_attribute(e, f, "min-legal-vector-width", variants[e->variant].width);
    enum_attribute(e, f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind");
    if (alone) enum_attribute(e, f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "noinline");
}

static bool is_scalar(const KirParam *p) { return p->kind == KIR_SCALAR; }

/* The body: parameters in order, then lo and hi. */
static LLVMTypeRef body_type(LlvmKernel *e, const KirKernel *k)
{
    LLVMTypeRef *types = ARENA_ARRAY(e->arena, LLVMTypeRef, k->params.n + 2);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KirParam *p = &k->params.data[i];
        types[i] = is_scalar(p) ? llvm_base_type(e->context, p->elem) : LLVMPointerTypeInContext(e->context, 0);
    }
    types[k->params.n] = types[k->params.n + 1] = LLVMInt64TypeInContext(e->context);
    return LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, k->params.n + 2, false);
}

/* The outer function: args[i] is the i-th 8-byte cell; an f32 scalar travels as a double. */
static void outer_function(LlvmKernel *e, const KirKernel *k, LLVMValueRef body, LLVMTypeRef type)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->context), ptr = LLVMPointerTypeInContext(e->context, 0);
    LLVMTypeRef own[] = {ptr, i64, i64};
    const char *name = arena_printf(e->arena, "%s_%s", k->name, e->suffix);
    e->result = LLVMAddFunction(e->module, name, LLVMFunctionType(LLVMVoidTypeInContext(e->context), own, 3, false));
    llvm_describe(e, e->result, false);
    LLVMPositionBuilderAtEnd(e->at, LLVMAppendBasicBlockInContext(e->context, e->result, ""));
    LLVMValueRef *args = ARENA_ARRAY(e->arena, LLVMValueRef, k->params.n + 2);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KirParam *p = &k->params.data[i];
        LLVMValueRef at = int64(e, i), cell = LLVMBuildInBoundsGEP2(e->at, i64, LLVMGetParam(e->result, 0), &at, 1, "");
        bool narrow = is_scalar(p) && p->elem == KIR_F32;
        LLVMTypeRef held = !is_scalar(p) ? ptr
                           : narrow      ? LLVMDoubleTypeInContext(e->context)
                                         : llvm_base_type(e->context, p->elem);
        args[i] = LLVMBuildLoad2(e->at, held, cell, "");
        LLVMSetAlignment(args[i], 8);
        if (narrow) args[i] = LLVMBuildFPTrunc(e->at, args[i], LLVMFloatTypeInContext(e->context), "");
    }
    args[k->params.n] = LLVMGetParam(e->result, 1);
    args[k->params.n + 1] = LLVMGetParam(e->result, 2);
    LLVMBuildCall2(e->at, type, body, args, k->params.n + 2, "");
    LLVMBuildRetVoid(e->at);
}

static void on_begin_kernel(void *ctx, const KirWalk *w)
{
    LlvmKernel *e = ctx;
    const KirKernel *k = w->k;
    LLVMTypeRef type = body_type(e, k);
    e->function = LLVMAddFunction(e->module, arena_printf(e->arena, "%s_%s_body", k->name, e->suffix), type);
    llvm_describe(e, e->function, true);
    outer_function(e, k, e->function, type);
    for (uint32_t i = 0; i < k->params.n; i++) {
        e->params[i] = LLVMGetParam(e->function, i);
        if (!is_scalar(&k->params.data[i]) && k->params.data[i].restrict_)
            enum_attribute(e, e->function, i + 1, "noalias");
    }
    e->lo = LLVMGetParam(e->function, k->params.n);
    e->hi = LLVMGetParam(e->function, k->params.n + 1);
    LLVMPositionBuilderAtEnd(e->entry, new_block(e));
    LLVMPositionBuilderAtEnd(e->at, new_block(e));
}

static void on_end_kernel(void *ctx, const KirWalk *w)
{
    (void)w;
    LlvmKernel *e = ctx;
    ICE_UNLESS(!e->open.n);
    LLVMBuildRetVoid(e->at);
    LLVMBuildBr(e->entry, LLVMGetNextBasicBlock(LLVMGetEntryBasicBlock(e->function)));
}

static const Emitter emitter = {
    .begin_kernel = on_begin_kernel,
    .end_kernel = on_end_kernel,
    .value = on_value,
    .load = on_load,
    .gather = on_gather,
    .store = on_store,
    .prefetch = on_prefetch,
    .alloc = on_alloc,
    .var = on_var,
    .set = on_set,
    .begin_for = on_begin_for,
    .end_for = on_end_for,
    .begin_loop = on_begin_loop,
    .end_loop = on_end_loop,
    .break_if = on_break_if,
    .begin_if = on_begin_if,
    .begin_else = on_begin_else,
    .end_if = on_end_if,
};

LLVMValueRef llvm_kernel(Arena *a, LLVMModuleRef m, const KirKernel *k, unsigned variant)
{
    ICE_UNLESS(variant < RT_N_VARIANTS);
    LLVMContextRef c = LLVMGetModuleContext(m);
    k = kir_serial(a, k);
    LlvmKernel e = {.arena = a,
                    .kernel = k,
                    .context = c,
                    .module = m,
                    .suffix = llvm_variant_names[variant],
                    .variant = variant,
                    .at = LLVMCreateBuilderInContext(c),
                    .entry = LLVMCreateBuilderInContext(c),
                    .params = ARENA_ARRAY(a, LLVMValueRef, k->params.n + 1),
                    .values = ARENA_ARRAY(a, LLVMValueRef, k->ins.n + 1)};
    kir_walk(a, k, &emitter, &e);
    LLVMDisposeBuilder(e.at);
    LLVMDisposeBuilder(e.entry);
    return e.result;
}
