/* Kernel IR: the builder. Instructions are appended to the innermost open block; every instruction
   is brought to one canonical form on the way in (fields an opcode does not use have one fixed
   value), so that printing and reading back gives the same kernel. It checks invariants only; rules
   are in kverify.c. */
#include "base/ice.h"
#include "ir/kernel.h"

#define KIND_TEXT(kind) KIND_##kind
const KirOpInfo kir_ops[KIR_N_OPS] = {
#define KOP(name, args, imm, kind, rule) {#name, args, imm, KIND_TEXT(kind)},
#include "ir/kernel_ops.def"
#undef KOP
};

KirType kir_type(KirBase base, unsigned lanes) { return (KirType){base, (uint8_t)lanes}; }

size_t kir_base_bytes(KirBase base)
{
    static const uint8_t bytes[] = {[KIR_I1] = 1,  [KIR_I8] = 1,  [KIR_I32] = 4, [KIR_I64] = 8,
                                    [KIR_F32] = 4, [KIR_F64] = 8, [KIR_F16] = 2, [KIR_BF16] = 2};
    ICE_UNLESS(base < KIR_N_BASES);
    return bytes[base];
}

KirBase kir_value_base(KirBase elem) { return elem == KIR_I8 ? KIR_I1 : kir_is_16_bits(elem) ? KIR_F32 : elem; }

KirBase kir_memory_base(const KirKernel *k, const KirIns *x)
{
    return x->buf == KIR_NONE ? k->ins.data[x->alloc].type.base : k->params.data[x->buf].elem;
}

bool kir_stores_rounded(const KirKernel *k, const KirIns *store)
{
    KirOpcode op = k->ins.data[store->args[1]].op;
    return op == (kir_memory_base(k, store) == KIR_F16 ? KIR_round_f16 : KIR_round_bf16);
}

KirType kir_result_type(const KirKernel *k, KirId id)
{
    ICE_UNLESS(id < k->ins.n);
    return k->ins.data[id].op == KIR_for ? kir_type(KIR_I64, 1) : k->ins.data[id].type;
}

KirKernel *kir_kernel_new(Arena *a, const char *name)
{
    KirKernel *k = ARENA_NEW(a, KirKernel);
    k->name = arena_strndup(a, name, strlen(name));
    return k;
}

uint32_t kir_param(Arena *a, KirKernel *k, KirParam p)
{
    VEC_PUSH(a, &k->params, p);
    return k->params.n - 1;
}

KirBuilder kir_builder(Arena *a, KirKernel *k) { return (KirBuilder){.arena = a, .k = k}; }

static KirBlock *open_block(KirBuilder *b)
{
    if (!b->owners.n) return &b->k->body;
    KirIns *owner = &b->k->ins.data[b->owners.data[b->owners.n - 1]];
    return b->in_other.data[b->in_other.n - 1] ? &owner->other : &owner->body;
}

static bool is_memory(KirOpcode op)
{
    return op == KIR_load || op == KIR_gather || op == KIR_store || op == KIR_prefetch;
}

static void canonicalise(KirIns *x)
{
    const KirOpInfo *info = &kir_ops[x->op];
    for (unsigned i = info->n_args; i < 3; i++) x->args[i] = KIR_NONE;
    if (!x->type.lanes) x->type.lanes = 1;
    ICE_UNLESS(x->type.lanes <= KIR_MAX_LANES && x->active <= x->type.lanes);
    bool memory = is_memory(x->op), vector = memory && x->op != KIR_prefetch;
    if (!memory) x->buf = KIR_NONE;
    if (!memory || x->buf != KIR_NONE) x->alloc = KIR_NONE;
    if (!vector || !x->active) x->active = x->type.lanes;
    if (!vector || x->op == KIR_gather || x->type.lanes == 1) x->stride = 1;
    if (info->imm != K_INT && x->op != KIR_prefetch) x->i = 0;
    if (x->op == KIR_iconst && x->type.base == KIR_I32) x->i = (int32_t)(uint32_t)x->i;
    if (x->op == KIR_iconst && x->type.base == KIR_I1) x->i &= 1;
    if (x->op == KIR_const || x->op == KIR_load || x->op == KIR_gather) {
        if (x->type.base == KIR_F32) x->f = (double)(float)x->f;
    } else {
        x->f = 0;
    }
    if (x->op == KIR_load || x->op == KIR_gather)
        if (x->active == x->type.lanes) x->f = 0;
    if (x->op != KIR_for) x->bind = KIR_SEQ, x->comment = NULL;
    if (x->op != KIR_alloc) x->shared = false;
}

static KirId append(KirBuilder *b, KirIns ins)
{
    canonicalise(&ins);
    for (unsigned i = 0; i < kir_ops[ins.op].n_args; i++)
        ICE_UNLESS(ins.args[i] < b->k->ins.n); /* made before it is used */
    KirId id = b->k->ins.n;
    VEC_PUSH(b->arena, &b->k->ins, ins);
    KirBlock *block = open_block(b);
    VEC_PUSH(b->arena, &block->ins, id);
    return id;
}

KirId kir_ins(KirBuilder *b, KirIns ins)
{
    ICE_UNLESS(ins.op < KIR_N_OPS);
    KirKind kind = kir_ops[ins.op].kind;
    ICE_UNLESS(kind == KIND_V || kind == KIND_S);
    return append(b, ins);
}

KirId kir_const(KirBuilder *b, KirType t, double v) { return append(b, (KirIns){.op = KIR_const, .type = t, .f = v}); }

KirId kir_int(KirBuilder *b, KirType t, int64_t v) { return append(b, (KirIns){.op = KIR_iconst, .type = t, .i = v}); }

KirId kir_op(KirBuilder *b, KirOpcode op, KirType t, KirId x, KirId y, KirId z)
{
    switch (op) {
    case KIR_eq:
    case KIR_ne:
    case KIR_lt:
    case KIR_le:
    case KIR_ult: t.base = KIR_I1; break;
    case KIR_hadd:
    case KIR_hmax:
    case KIR_hmin:
    case KIR_hmul: t.lanes = 1; break;
    default: break;
    }
    return kir_ins(b, (KirIns){.op = op, .type = t, .args = {x, y, z}});
}

KirId kir_load(KirBuilder *b, uint32_t buf, KirType t, KirId index, unsigned active)
{
    return append(
        b, (KirIns){.op = KIR_load, .type = t, .args = {index}, .buf = buf, .active = (uint8_t)active, .stride = 1});
}

void kir_store(KirBuilder *b, uint32_t buf, KirType t, KirId index, KirId value, unsigned active)
{
    append(b,
           (KirIns){
               .op = KIR_store, .type = t, .args = {index, value}, .buf = buf, .active = (uint8_t)active, .stride = 1});
}

KirId kir_var(KirBuilder *b, const char *name, KirType t, KirId init)
{
    return append(b, (KirIns){.op = KIR_var, .type = t, .args = {init}, .name = name});
}

void kir_set(KirBuilder *b, KirId var, KirId value)
{
    ICE_UNLESS(var < b->k->ins.n);
    append(b, (KirIns){.op = KIR_set, .type = b->k->ins.data[var].type, .args = {var, value}});
}

static KirId open_ins(KirBuilder *b, KirIns ins)
{
    KirId id = append(b, ins);
    VEC_PUSH(b->arena, &b->owners, id);
    VEC_PUSH(b->arena, &b->in_other, false);
    return id;
}

KirId kir_for(KirBuilder *b, KirId from, KirId to, int64_t step, KirBinding bind, const char *comment)
{
    return open_ins(b, (KirIns){.op = KIR_for,
                                .type = kir_type(KIR_I64, 1),
                                .args = {from, to},
                                .i = step,
                                .bind = bind,
                                .comment = comment});
}

void kir_loop(KirBuilder *b) { open_ins(b, (KirIns){.op = KIR_loop}); }

void kir_if(KirBuilder *b, KirId cond) { open_ins(b, (KirIns){.op = KIR_if, .args = {cond}}); }

void kir_else(KirBuilder *b)
{
    ICE_UNLESS(b->owners.n && b->k->ins.data[b->owners.data[b->owners.n - 1]].op == KIR_if);
    ICE_UNLESS(!b->in_other.data[b->in_other.n - 1]);
    b->in_other.data[b->in_other.n - 1] = true;
}

void kir_end(KirBuilder *b)
{
    ICE_UNLESS(b->owners.n);
    b->owners.n--;
    b->in_other.n--;
}
