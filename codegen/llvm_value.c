/* Arithmetic of kernel IR as LLVM instructions (codegen/llvm_kernel.h). One instruction or a fixed
   few each, no fast-math flags, no wrap flags: the bits are those of ir/kernel_ops.def. Never
   decides anything. */
#include "base/ice.h"
#include "codegen/llvm_kernel.h"
#include "runtime/abi.h"

static bool is_float(KirType t) { return t.base == KIR_F32 || t.base == KIR_F64; }

LLVMTypeRef llvm_base_type(LLVMContextRef c, KirBase base)
{
    switch (base) {
    case KIR_I1: return LLVMInt1TypeInContext(c);
    case KIR_I8: return LLVMInt8TypeInContext(c);
    case KIR_F16:
    case KIR_BF16: return LLVMInt16TypeInContext(c);
    case KIR_I32: return LLVMInt32TypeInContext(c);
    case KIR_I64: return LLVMInt64TypeInContext(c);
    case KIR_F32: return LLVMFloatTypeInContext(c);
    case KIR_F64: return LLVMDoubleTypeInContext(c);
    case KIR_N_BASES: break;
    }
    ICE("kernel IR base type");
}

LLVMTypeRef llvm_type(LLVMContextRef c, KirType t)
{
    LLVMTypeRef base = llvm_base_type(c, t.base);
    return t.lanes == 1 ? base : LLVMVectorType(base, t.lanes);
}

LLVMValueRef llvm_intrinsic(LlvmKernel *e, const char *name, const LLVMTypeRef *over, unsigned n_over,
                            LLVMValueRef *args, unsigned n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    ICE_UNLESS(id);
    LLVMTypeRef types[4];
    ICE_UNLESS(n_over <= 4);
    for (unsigned i = 0; i < n_over; i++) types[i] = over[i];
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, types, n_over);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, types, n_over);
    return LLVMBuildCall2(e->at, type, f, args, n_args, "");
}

static LLVMValueRef call_float(LlvmKernel *e, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef over[] = {LLVMTypeOf(args[0])};
    return llvm_intrinsic(e, name, over, 1, args, n);
}

static LLVMValueRef splat_constant(LLVMValueRef scalar, unsigned lanes)
{
    if (lanes == 1) return scalar;
    ICE_UNLESS(lanes <= KIR_MAX_LANES);
    LLVMValueRef all[KIR_MAX_LANES];
    for (unsigned i = 0; i < lanes; i++) all[i] = scalar;
    return LLVMConstVector(all, lanes);
}

static LLVMValueRef int32(LlvmKernel *e, uint32_t bits)
{
    return LLVMConstInt(LLVMInt32TypeInContext(e->context), bits, false);
}

/* Round-to-odd: where s + lost is not s, the neighbour of s with an odd last bit. A later rounding
   to a narrower type is then as if there had been one (S. Boldo, G. Melquiond: Emulation of FMA and
   correctly rounded sums, 2008). */
static LLVMValueRef round_to_odd(LlvmKernel *e, LLVMValueRef s, LLVMValueRef lost, unsigned lanes)
{
    LLVMTypeRef bits = llvm_type(e->context, kir_type(KIR_I64, lanes)),
                f64 = llvm_type(e->context, kir_type(KIR_F64, lanes));
    LLVMValueRef zero = LLVMConstNull(f64),
                 one = splat_constant(LLVMConstInt(LLVMInt64TypeInContext(e->context), 1, false), lanes);
    LLVMValueRef raw = LLVMBuildBitCast(e->at, s, bits, "");
    LLVMValueRef even = LLVMBuildICmp(e->at, LLVMIntEQ, LLVMBuildAnd(e->at, raw, one, ""), LLVMConstNull(bits), "");
    LLVMValueRef inexact = LLVMBuildFCmp(e->at, LLVMRealONE, lost, zero, "");
    LLVMValueRef up = LLVMBuildFCmp(e->at, LLVMRealOGT, lost, zero, ""),
                 positive = LLVMBuildFCmp(e->at, LLVMRealOGT, s, zero, "");
    LLVMValueRef apart = LLVMBuildXor(e->at, up, positive, "");
    LLVMValueRef step = LLVMBuildSelect(e->at, apart, LLVMConstAllOnes(bits), one, "");
    step = LLVMBuildSelect(e->at, LLVMBuildAnd(e->at, even, inexact, ""), step, LLVMConstNull(bits), "");
    return LLVMBuildBitCast(e->at, LLVMBuildAdd(e->at, raw, step, ""), f64, "");
}

/* a * b + c of f32 in f64: the product is exact, the sum is rounded to odd. */
static LLVMValueRef fma_in_double(LlvmKernel *e, KirType t, const LLVMValueRef *args)
{
    ICE_UNLESS(t.base == KIR_F32);
    LLVMTypeRef f64 = llvm_type(e->context, kir_type(KIR_F64, t.lanes));
    LLVMValueRef wide[3];
    for (unsigned i = 0; i < 3; i++) wide[i] = LLVMBuildFPExt(e->at, args[i], f64, "");
    LLVMValueRef p = LLVMBuildFMul(e->at, wide[0], wide[1], ""), c = wide[2];
    LLVMValueRef s = LLVMBuildFAdd(e->at, p, c, ""), part = LLVMBuildFSub(e->at, s, p, "");
    LLVMValueRef of_p = LLVMBuildFSub(e->at, p, LLVMBuildFSub(e->at, s, part, ""), "");
    LLVMValueRef lost = LLVMBuildFAdd(e->at, of_p, LLVMBuildFSub(e->at, c, part, ""), "");
    return LLVMBuildFPTrunc(e->at, round_to_odd(e, s, lost, t.lanes), llvm_type(e->context, t), "");
}

/* A function of three vectors, which the caller fills and goes back from; or the one of this name that is there (*made
   false). */
static LLVMValueRef fma_function(LlvmKernel *e, KirType t, const char *kind, bool *made)
{
    LLVMTypeRef type = llvm_type(e->context, t), params[] = {type, type, type};
    const char *name = arena_printf(e->arena, "%s_f%ux%u", kind, t.base == KIR_F32 ? 32 : 64, t.lanes);
    LLVMValueRef f = LLVMGetNamedFunction(e->module, name);
    *made = !f;
    if (f) return f;
    f = LLVMAddFunction(e->module, name, LLVMFunctionType(type, params, 3, false));
    llvm_describe(e, f, true);
    LLVMPositionBuilderAtEnd(e->at, LLVMAppendBasicBlockInContext(e->context, f, ""));
    return f;
}

static LLVMValueRef call_fma(LlvmKernel *e, LLVMValueRef f, LLVMValueRef *args)
{
    return LLVMBuildCall2(e->at, LLVMGlobalGetValueType(f), f, args, 3, "");
}

static LLVMValueRef exact_fma(LlvmKernel *e, KirType t)
{
    bool made;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->at);
    LLVMValueRef f = fma_function(e, t, "fma_exact", &made);
    if (!made) return f;
    LLVMValueRef args[] = {LLVMGetParam(f, 0), LLVMGetParam(f, 1), LLVMGetParam(f, 2)};
    LLVMBuildRet(e->at, fma_in_double(e, t, args));
    LLVMPositionBuilderAtEnd(e->at, back);
    return f;
}

/* Lanes of f32 sums that are in s rounded to f64 and in r to f32 where rounding twice may differ from rounding once: s
   lies in the middle between two f32, so that its last 29 bits are 1 and zeros; or r is a denormal, whose middles are
   elsewhere, or the least number above those. An r of 0 is right: what rounds to 0 next to a middle is the exact
   difference of two numbers of one size. */
static LLVMValueRef rounded_twice(LlvmKernel *e, LLVMValueRef s, LLVMValueRef r, unsigned lanes)
{
    LLVMTypeRef i32 = llvm_type(e->context, kir_type(KIR_I32, lanes)),
                i64 = llvm_type(e->context, kir_type(KIR_I64, lanes));
    LLVMValueRef n[] = {int32(e, 0x1fffffff), int32(e, 0x10000000), int32(e, 0x7fffffff), int32(e, 0x80800000)};
    for (unsigned i = 0; i < 4; i++) n[i] = splat_constant(n[i], lanes);
    LLVMValueRef low = LLVMBuildTrunc(e->at, LLVMBuildBitCast(e->at, s, i64, ""), i32, "");
    LLVMValueRef middle = LLVMBuildICmp(e->at, LLVMIntEQ, LLVMBuildAnd(e->at, low, n[0], ""), n[1], "");
    /* 1 <= bits <= 0x800000, by one comparison of signed numbers */
    LLVMValueRef size = LLVMBuildAnd(e->at, LLVMBuildBitCast(e->at, r, i32, ""), n[2], "");
    LLVMValueRef tiny = LLVMBuildICmp(e->at, LLVMIntSLT, LLVMBuildAdd(e->at, size, n[2], ""), n[3], "");
    return LLVMBuildOr(e->at, middle, tiny, "");
}

/* CPUs without fma: one function per vector type, so that its length is paid once. An f32 is rounded twice, and where
   that may differ the whole vector is computed exactly. f64 goes to libm lane by lane. */
static LLVMValueRef generic_fma(LlvmKernel *e, KirType t)
{
    bool made;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->at);
    LLVMValueRef f = fma_function(e, t, "fma", &made);
    if (!made) return f;
    LLVMValueRef args[] = {LLVMGetParam(f, 0), LLVMGetParam(f, 1), LLVMGetParam(f, 2)};
    if (t.base != KIR_F32) {
        LLVMBuildRet(e->at, call_float(e, "llvm.fma", args, 3));
    } else {
        LLVMTypeRef f64 = llvm_type(e->context, kir_type(KIR_F64, t.lanes));
        LLVMValueRef wide[3];
        for (unsigned i = 0; i < 3; i++) wide[i] = LLVMBuildFPExt(e->at, args[i], f64, "");
        LLVMValueRef s = LLVMBuildFAdd(e->at, LLVMBuildFMul(e->at, wide[0], wide[1], ""), wide[2], "");
        LLVMValueRef r = LLVMBuildFPTrunc(e->at, s, llvm_type(e->context, t), "");
        LLVMValueRef doubtful = rounded_twice(e, s, r, t.lanes);
        LLVMTypeRef mask = LLVMIntTypeInContext(e->context, t.lanes);
        LLVMValueRef any = LLVMBuildICmp(e->at, LLVMIntNE, LLVMBuildBitCast(e->at, doubtful, mask, ""),
                                         LLVMConstNull(mask), "");
        LLVMBasicBlockRef again = LLVMAppendBasicBlockInContext(e->context, f, ""),
                          done = LLVMAppendBasicBlockInContext(e->context, f, "");
        LLVMBuildCondBr(e->at, any, again, done);
        LLVMPositionBuilderAtEnd(e->at, done);
        LLVMBuildRet(e->at, r);
        LLVMPositionBuilderAtEnd(e->at, again);
        LLVMBuildRet(e->at, call_fma(e, exact_fma(e, t), args));
    }
    LLVMPositionBuilderAtEnd(e->at, back);
    return f;
}

static LLVMValueRef fused(LlvmKernel *e, KirType t, LLVMValueRef *args)
{
    if (e->variant != RT_GENERIC || t.lanes == 1) return call_float(e, "llvm.fma", args, 3);
    return call_fma(e, generic_fma(e, t), args);
}

static LLVMValueRef constant(LlvmKernel *e, const KirIns *x)
{
    LLVMTypeRef base = llvm_base_type(e->context, x->type.base);
    LLVMValueRef one = x->op == KIR_const ? LLVMConstReal(base, x->f)
                                          : LLVMConstInt(base, (unsigned long long)x->i, true);
    return splat_constant(one, x->type.lanes);
}

static LLVMValueRef lane_numbers(LlvmKernel *e, KirType t)
{
    LLVMValueRef all[KIR_MAX_LANES];
    for (unsigned i = 0; i < t.lanes; i++) all[i] = LLVMConstInt(llvm_base_type(e->context, t.base), i, false);
    return t.lanes == 1 ? all[0] : LLVMConstVector(all, t.lanes);
}

static LLVMValueRef splat(LlvmKernel *e, LLVMValueRef scalar, unsigned lanes)
{
    if (lanes == 1) return scalar;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    LLVMValueRef none = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(scalar), lanes));
    LLVMValueRef first = LLVMBuildInsertElement(e->at, none, scalar, LLVMConstInt(i32, 0, false), "");
    return LLVMBuildShuffleVector(e->at, first, none, LLVMConstNull(LLVMVectorType(i32, lanes)), "");
}

static bool is_number_constant(LLVMValueRef v)
{
    if (!LLVMIsConstant(v)) return false;
    if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind) v = LLVMGetAggregateElement(v, 0); /* a splat */
    if (!v || !LLVMIsAConstantFP(v)) return false;
    LLVMBool lost;
    double d = LLVMConstRealGetDouble(v, &lost);
    return d == d;
}

/* (a > b || a != a) ? a : b, and with < for min. Where b is a number (constants are splats) one
 * comparison says both. */
static LLVMValueRef extreme(LlvmKernel *e, bool max, KirType t, LLVMValueRef a, LLVMValueRef b)
{
    if (!is_float(t)) {
        LLVMValueRef first = LLVMBuildICmp(e->at, max ? LLVMIntSGT : LLVMIntSLT, a, b, "");
        return LLVMBuildSelect(e->at, first, a, b, "");
    }
    if (is_number_constant(b)) {
        LLVMValueRef first = LLVMBuildFCmp(e->at, max ? LLVMRealUGT : LLVMRealULT, a, b, "");
        return LLVMBuildSelect(e->at, first, a, b, "");
    }
    LLVMValueRef wins = LLVMBuildFCmp(e->at, max ? LLVMRealOGT : LLVMRealOLT, a, b, "");
    LLVMValueRef nan = LLVMBuildFCmp(e->at, LLVMRealUNO, a, a, "");
    /* Frozen, or LLVM joins the two choices: four instructions; alone, the inner one is one instruction of the CPU. */
    LLVMValueRef pick = LLVMBuildFreeze(e->at, LLVMBuildSelect(e->at, wins, a, b, ""), "");
    return LLVMBuildSelect(e->at, nan, a, pick, "");
}

static LLVMValueRef multiply_high(LlvmKernel *e, KirType t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef wide = llvm_type(e->context, kir_type(KIR_I64, t.lanes)), narrow = llvm_type(e->context, t);
    LLVMValueRef product = LLVMBuildMul(e->at, LLVMBuildZExt(e->at, a, wide, ""), LLVMBuildZExt(e->at, b, wide, ""),
                                        "");
    LLVMValueRef shift = splat_constant(LLVMConstInt(LLVMInt64TypeInContext(e->context), 32, false), t.lanes);
    return LLVMBuildTrunc(e->at, LLVMBuildLShr(e->at, product, shift, ""), narrow, "");
}

static LLVMValueRef compare(LlvmKernel *e, KirOpcode op, KirType t, LLVMValueRef a, LLVMValueRef b)
{
    if (is_float(t)) {
        LLVMRealPredicate p = op == KIR_eq   ? LLVMRealOEQ
                              : op == KIR_ne ? LLVMRealUNE
                              : op == KIR_lt ? LLVMRealOLT
                                             : LLVMRealOLE;
        return LLVMBuildFCmp(e->at, p, a, b, "");
    }
    LLVMIntPredicate p = op == KIR_eq   ? LLVMIntEQ
                         : op == KIR_ne ? LLVMIntNE
                         : op == KIR_lt ? LLVMIntSLT
                         : op == KIR_le ? LLVMIntSLE
                                        : LLVMIntULT;
    return LLVMBuildICmp(e->at, p, a, b, "");
}

/* Between integers; i1 and i8 hold no sign. To i1: not zero. */
static LLVMValueRef convert_integer(LlvmKernel *e, KirType from, KirType to, LLVMValueRef v)
{
    LLVMTypeRef type = llvm_type(e->context, to);
    if (from.base == to.base) return v;
    if (to.base == KIR_I1) return LLVMBuildICmp(e->at, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    if (from.base == KIR_I1 || from.base == KIR_I8) return LLVMBuildZExt(e->at, v, type, "");
    if (kir_base_bytes(to.base) < kir_base_bytes(from.base)) return LLVMBuildTrunc(e->at, v, type, "");
    return LLVMBuildSExt(e->at, v, type, "");
}

/* Truncates; what does not fit, and NaN, gives the least integer (LLVM alone would give poison). */
static LLVMValueRef float_to_int(LlvmKernel *e, KirType from, KirType to, LLVMValueRef v)
{
    bool wide = to.base == KIR_I64,
         below = !wide && from.base == KIR_F64; /* f64 holds numbers that truncate to -2^31 */
    LLVMTypeRef scalar = llvm_type(e->context, kir_type(from.base, 1)), type = llvm_type(e->context, to);
    double least = wide ? -0x1p63 : below ? -0x1p31 - 1 : -0x1p31;
    LLVMValueRef low = splat_constant(LLVMConstReal(scalar, least), from.lanes);
    LLVMValueRef high = splat_constant(LLVMConstReal(scalar, wide ? 0x1p63 : 0x1p31), from.lanes);
    LLVMValueRef above = LLVMBuildFCmp(e->at, below ? LLVMRealOGT : LLVMRealOGE, v, low, "");
    LLVMValueRef fits = LLVMBuildAnd(e->at, above, LLVMBuildFCmp(e->at, LLVMRealOLT, v, high, ""), "");
    uint64_t bits = wide ? (uint64_t)INT64_MIN : (uint64_t)(uint32_t)INT32_MIN;
    LLVMValueRef no = splat_constant(LLVMConstInt(llvm_type(e->context, kir_type(to.base, 1)), bits, false), to.lanes);
    return LLVMBuildSelect(e->at, fits, LLVMBuildFPToSI(e->at, v, type, ""), no, "");
}

/* A shift's count modulo the width. */
static LLVMValueRef shift_count(LlvmKernel *e, KirType t, LLVMValueRef n)
{
    LLVMTypeRef scalar = llvm_type(e->context, kir_type(t.base, 1));
    LLVMValueRef mask = splat_constant(LLVMConstInt(scalar, t.base == KIR_I64 ? 63 : 31, false), t.lanes);
    return LLVMBuildAnd(e->at, n, mask, "");
}

static LLVMValueRef convert(LlvmKernel *e, KirType from, KirType to, LLVMValueRef v)
{
    LLVMTypeRef type = llvm_type(e->context, to);
    if (!is_float(from) && !is_float(to)) return convert_integer(e, from, to, v);
    if (is_float(from) && is_float(to)) {
        if (from.base == to.base) return v;
        return to.base == KIR_F64 ? LLVMBuildFPExt(e->at, v, type, "") : LLVMBuildFPTrunc(e->at, v, type, "");
    }
    if (is_float(to)) {
        bool plain = from.base == KIR_I1 || from.base == KIR_I8;
        return plain ? LLVMBuildUIToFP(e->at, v, type, "") : LLVMBuildSIToFP(e->at, v, type, "");
    }
    if (to.base == KIR_I1) return LLVMBuildFCmp(e->at, LLVMRealUNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    return float_to_int(e, from, to, v);
}

static LLVMValueRef fold_step(LlvmKernel *e, KirOpcode op, KirType t, LLVMValueRef low, LLVMValueRef high)
{
    bool f = is_float(t);
    switch (op) {
    case KIR_hadd: return f ? LLVMBuildFAdd(e->at, low, high, "") : LLVMBuildAdd(e->at, low, high, "");
    case KIR_hmul: return f ? LLVMBuildFMul(e->at, low, high, "") : LLVMBuildMul(e->at, low, high, "");
    default: return extreme(e, op == KIR_hmax, t, low, high);
    }
}

static LLVMValueRef fold(LlvmKernel *e, KirOpcode op, KirType t, LLVMValueRef v)
{
    ICE_UNLESS(t.lanes <= KIR_MAX_LANES && !(t.lanes & (t.lanes - 1)));
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    for (unsigned half = t.lanes / 2; half > 0; half /= 2) {
        LLVMValueRef low[KIR_MAX_LANES], high[KIR_MAX_LANES];
        for (unsigned i = 0; i < half; i++) {
            low[i] = LLVMConstInt(i32, i, false);
            high[i] = LLVMConstInt(i32, i + half, false);
        }
        if (half == 1) {
            v = fold_step(e, op, t, LLVMBuildExtractElement(e->at, v, low[0], ""),
                          LLVMBuildExtractElement(e->at, v, high[0], ""));
            break;
        }
        LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(v));
        LLVMValueRef a = LLVMBuildShuffleVector(e->at, v, none, LLVMConstVector(low, half), "");
        LLVMValueRef b = LLVMBuildShuffleVector(e->at, v, none, LLVMConstVector(high, half), "");
        v = fold_step(e, op, kir_type(t.base, half), a, b);
    }
    return v;
}

/* Lane l of the result is lane n[l] of v, modulo its lanes. */
static LLVMValueRef shuffle_by(LlvmKernel *e, KirType t, KirType from, LLVMValueRef v, LLVMValueRef n)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    LLVMValueRef mask = splat_constant(LLVMConstInt(i32, from.lanes - 1u, false), t.lanes),
                 r = LLVMGetPoison(llvm_type(e->context, t));
    n = LLVMBuildAnd(e->at, n, mask, "");
    if (t.lanes == 1) return LLVMBuildExtractElement(e->at, v, n, "");
    if (LLVMIsConstant(n)) return LLVMBuildShuffleVector(e->at, v, LLVMGetPoison(LLVMTypeOf(v)), n, "");
    for (unsigned l = 0; l < t.lanes; l++) {
        LLVMValueRef at = LLVMConstInt(i32, l, false), lane = LLVMBuildExtractElement(e->at, n, at, "");
        r = LLVMBuildInsertElement(e->at, r, LLVMBuildExtractElement(e->at, v, lane, ""), at, "");
    }
    return r;
}

static LLVMValueRef shuffle(LlvmKernel *e, LLVMValueRef a, LLVMValueRef b, const unsigned *from, unsigned lanes)
{
    LLVMValueRef mask[KIR_MAX_LANES];
    for (unsigned l = 0; l < lanes; l++) mask[l] = LLVMConstInt(LLVMInt32TypeInContext(e->context), from[l], false);
    return LLVMBuildShuffleVector(e->at, a, b, LLVMConstVector(mask, lanes), "");
}

/* repeat and part: lanes of one vector. */
static LLVMValueRef pick_lanes(LlvmKernel *e, const KirIns *x, unsigned n_from, LLVMValueRef a)
{
    unsigned from[KIR_MAX_LANES], i = (unsigned)x->i;
    for (unsigned l = 0; l < x->type.lanes; l++) from[l] = x->op == KIR_part ? l + i : l / i % n_from;
    return shuffle(e, a, LLVMGetPoison(LLVMTypeOf(a)), from, x->type.lanes);
}

static LLVMValueRef halves(LlvmKernel *e, const KirIns *x, LLVMValueRef a, LLVMValueRef b)
{
    unsigned from[KIR_MAX_LANES], half = (unsigned)x->i / 2;
    for (unsigned l = 0; l < x->type.lanes; l++)
        from[l] = l / half * 2 * half + l % half + (x->op == KIR_upper ? half : 0);
    return shuffle(e, a, b, from, x->type.lanes);
}

static LLVMValueRef binary(LlvmKernel *e, const KirIns *x, KirType t, LLVMValueRef a, LLVMValueRef b)
{
    bool f = is_float(t);
    switch (x->op) {
    case KIR_add: return f ? LLVMBuildFAdd(e->at, a, b, "") : LLVMBuildAdd(e->at, a, b, "");
    case KIR_sub: return f ? LLVMBuildFSub(e->at, a, b, "") : LLVMBuildSub(e->at, a, b, "");
    case KIR_mul: return f ? LLVMBuildFMul(e->at, a, b, "") : LLVMBuildMul(e->at, a, b, "");
    case KIR_div: return f ? LLVMBuildFDiv(e->at, a, b, "") : LLVMBuildSDiv(e->at, a, b, "");
    case KIR_rem: return LLVMBuildSRem(e->at, a, b, "");
    case KIR_min: return extreme(e, false, t, a, b);
    case KIR_max: return extreme(e, true, t, a, b);
    case KIR_and: return LLVMBuildAnd(e->at, a, b, "");
    case KIR_or: return LLVMBuildOr(e->at, a, b, "");
    case KIR_xor: return LLVMBuildXor(e->at, a, b, "");
    case KIR_shl: return LLVMBuildShl(e->at, a, shift_count(e, t, b), "");
    case KIR_lshr: return LLVMBuildLShr(e->at, a, shift_count(e, t, b), "");
    case KIR_ashr: return LLVMBuildAShr(e->at, a, shift_count(e, t, b), "");
    case KIR_mulhu: return multiply_high(e, t, a, b);
    case KIR_eq:
    case KIR_ne:
    case KIR_lt:
    case KIR_le:
    case KIR_ult: return compare(e, x->op, t, a, b);
    case KIR_lower:
    case KIR_upper: return halves(e, x, a, b);
    case KIR_shuffle: return shuffle_by(e, x->type, t, a, b);
    case KIR_insert:
        return LLVMBuildInsertElement(
            e->at, a, b, LLVMConstInt(LLVMInt32TypeInContext(e->context), (unsigned long long)x->i, false), "");
    default: ICE("kernel IR instruction with two operands");
    }
}

/* ---- numbers of 16 bits (runtime/half.h says the same of one in C) ---- */

static LLVMTypeRef half_type(LlvmKernel *e, unsigned lanes)
{
    LLVMTypeRef half = LLVMHalfTypeInContext(e->context);
    return lanes == 1 ? half : LLVMVectorType(half, lanes);
}

/* Integers of the f16 for f32 whose bits without their sign are `size`. */
static LLVMValueRef f16_of_size(LlvmKernel *e, LLVMValueRef size, unsigned lanes)
{
    LLVMTypeRef f32 = llvm_type(e->context, kir_type(KIR_F32, lanes)),
                i32 = llvm_type(e->context, kir_type(KIR_I32, lanes));
#define N(bits)         splat_constant(int32(e, bits), lanes)
#define AND(x, y)       LLVMBuildAnd(e->at, x, y, "")
#define ADD(x, y)       LLVMBuildAdd(e->at, x, y, "")
#define RIGHT(x, n)     LLVMBuildLShr(e->at, x, N(n), "")
#define LESS(x, y)      LLVMBuildICmp(e->at, LLVMIntULT, x, y, "")
#define CHOOSE(c, x, y) LLVMBuildSelect(e->at, c, x, y, "")
    LLVMValueRef odd = AND(RIGHT(size, 13), N(1)),
                 unit = splat_constant(LLVMConstReal(llvm_base_type(e->context, KIR_F32), 0.5), lanes);
    LLVMValueRef normal = RIGHT(ADD(ADD(size, odd), N(0xfffu - 0x38000000u)), 13);
    LLVMValueRef sum = LLVMBuildFAdd(e->at, LLVMBuildBitCast(e->at, size, f32, ""), unit, "");
    LLVMValueRef tiny = ADD(LLVMBuildBitCast(e->at, sum, i32, ""), N(0u - 0x3f000000u));
    LLVMValueRef nan = LLVMBuildOr(e->at, AND(RIGHT(size, 13), N(0x1ff)), N(0x7e00), "");
    LLVMValueRef large = CHOOSE(LESS(N(0x7f800000), size), nan, N(0x7c00));
    LLVMValueRef r = CHOOSE(LESS(size, N(0x38800000)), tiny, normal);
    return CHOOSE(LESS(size, N(0x477ff000)), r, large);
}

LLVMValueRef llvm_round_16(LlvmKernel *e, KirBase elem, LLVMValueRef x, unsigned lanes, bool exact)
{
    LLVMTypeRef i16 = llvm_type(e->context, kir_type(elem, lanes)),
                i32 = llvm_type(e->context, kir_type(KIR_I32, lanes));
    if (elem == KIR_F16 && e->variant != RT_GENERIC)
        return LLVMBuildBitCast(e->at, LLVMBuildFPTrunc(e->at, x, half_type(e, lanes), ""), i16, "");
    LLVMValueRef bits = LLVMBuildBitCast(e->at, x, i32, ""), r;
    if (elem == KIR_F16) {
        LLVMValueRef sign = AND(RIGHT(bits, 16), N(0x8000));
        r = LLVMBuildOr(e->at, f16_of_size(e, AND(bits, N(0x7fffffff)), lanes), sign, "");
    } else if (exact) {
        r = RIGHT(bits, 16);
    } else {
        LLVMValueRef odd = AND(RIGHT(bits, 16), N(1)), nan = LLVMBuildFCmp(e->at, LLVMRealUNO, x, x, "");
        r = RIGHT(ADD(ADD(bits, odd), N(0x7fff)), 16);
        r = CHOOSE(nan, LLVMBuildOr(e->at, RIGHT(bits, 16), N(0x40), ""), r);
    }
    return LLVMBuildTrunc(e->at, r, i16, "");
}

LLVMValueRef llvm_widen_16(LlvmKernel *e, KirBase elem, LLVMValueRef v, unsigned lanes)
{
    LLVMTypeRef f32 = llvm_type(e->context, kir_type(KIR_F32, lanes)),
                i32 = llvm_type(e->context, kir_type(KIR_I32, lanes));
    if (elem == KIR_F16 && e->variant != RT_GENERIC)
        return LLVMBuildFPExt(e->at, LLVMBuildBitCast(e->at, v, half_type(e, lanes), ""), f32, "");
    LLVMValueRef bits = LLVMBuildZExt(e->at, v, i32, "");
    if (elem == KIR_BF16) return LLVMBuildBitCast(e->at, LLVMBuildShl(e->at, bits, N(16), ""), f32, "");
    LLVMValueRef sign = LLVMBuildShl(e->at, AND(bits, N(0x8000)), N(16), "");
    LLVMValueRef size = LLVMBuildShl(e->at, AND(bits, N(0x7fff)), N(13), "");
    LLVMValueRef bias = splat_constant(LLVMConstReal(llvm_base_type(e->context, KIR_F32), 0x1p112), lanes);
    LLVMValueRef scaled = LLVMBuildFMul(e->at, LLVMBuildBitCast(e->at, size, f32, ""), bias, "");
    LLVMValueRef endless = LLVMBuildOr(e->at, size, N(0x7f800000), "");
    LLVMValueRef r = CHOOSE(LESS(size, N(0x0f800000)), LLVMBuildBitCast(e->at, scaled, i32, ""), endless);
    return LLVMBuildBitCast(e->at, LLVMBuildOr(e->at, r, sign, ""), f32, "");
#undef N
#undef AND
#undef ADD
#undef RIGHT
#undef LESS
#undef CHOOSE
}

static LLVMValueRef unary(LlvmKernel *e, const KirIns *x, KirType from, LLVMValueRef a)
{
    LLVMTypeRef type = llvm_type(e->context, x->type);
    switch (x->op) {
    case KIR_neg: return is_float(from) ? LLVMBuildFNeg(e->at, a, "") : LLVMBuildNeg(e->at, a, "");
    case KIR_abs: return call_float(e, "llvm.fabs", &a, 1);
    case KIR_sqrt: return call_float(e, "llvm.sqrt", &a, 1);
    case KIR_rint: return call_float(e, "llvm.rint", &a, 1);
    case KIR_floor: return call_float(e, "llvm.floor", &a, 1);
    case KIR_round_f16:
    case KIR_round_bf16: {
        KirBase elem = x->op == KIR_round_f16 ? KIR_F16 : KIR_BF16;
        return llvm_widen_16(e, elem, llvm_round_16(e, elem, a, x->type.lanes, false), x->type.lanes);
    }
    case KIR_convert: return convert(e, from, x->type, a);
    case KIR_zext: return LLVMBuildZExt(e->at, a, type, "");
    case KIR_bitcast: return LLVMBuildBitCast(e->at, a, type, "");
    case KIR_splat: return splat(e, a, x->type.lanes);
    case KIR_extract:
        return LLVMBuildExtractElement(
            e->at, a, LLVMConstInt(LLVMInt32TypeInContext(e->context), (unsigned long long)x->i, false), "");
    case KIR_repeat:
    case KIR_part: return pick_lanes(e, x, from.lanes, a);
    case KIR_hadd:
    case KIR_hmax:
    case KIR_hmin:
    case KIR_hmul: return fold(e, x->op, from, a);
    default: ICE("kernel IR instruction with one operand");
    }
}

LLVMValueRef llvm_value(LlvmKernel *e, const KirKernel *k, const KirIns *x)
{
    LLVMValueRef args[3] = {0};
    unsigned n = kir_ops[x->op].n_args;
    for (unsigned i = 0; i < n; i++) args[i] = llvm_operand(e, k, x->args[i]);
    KirType from = n ? kir_result_type(k, x->args[0]) : x->type;
    switch (x->op) {
    case KIR_const:
    case KIR_iconst: return constant(e, x);
    case KIR_lanes: return lane_numbers(e, x->type);
    case KIR_param: return e->params[x->i];
    case KIR_fma: return fused(e, x->type, args);
    case KIR_select: return LLVMBuildSelect(e->at, args[0], args[1], args[2], "");
    default: return n == 2 ? binary(e, x, from, args[0], args[1]) : unary(e, x, from, args[0]);
    }
}
