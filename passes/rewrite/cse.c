/* Common subexpressions: the second of two equal ops is replaced by the first.
     %3 = add %1, %2          %3 = add %1, %2
     %4 = add %2, %1    ->    %5 = mul %3, %3
     %5 = mul %3, %4
   Equal: the same op, attributes and type on the same values, in any order where the op commutes.
   Random ops are functions of seed, step, site and element, so equal ones (same site) may be shared
   too. Never merges the variable of a `grad` that is still there (rewrite_pinned), nor two `incoming`: what a
   stated adjoint makes of two cotangents, clipped ones say, is not what it makes of their sum. Never
   reassociates: a + (b + c) and (a + b) + c stay two values. */
#include "passes/rewrite/cse.h"
#include "base/ice.h"
#include "passes/rewrite/rewrite.h"

OpTable op_table_new(Arena *a, uint32_t n_ops)
{
    uint32_t size = 16;
    while (size < 2 * n_ops) size *= 2;
    ICE_UNLESS(!(size & (size - 1)) && size > n_ops); /* a search ends at an empty slot */
    return (OpTable){ARENA_ARRAY(a, IrId, size), size - 1};
}

/* Bits, not values: -0 and 0 are two constants, a NaN is equal to itself. */
static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Operands in canonical order: ascending where the op commutes. */
static void operands(const IrOp *op, uint32_t k[2])
{
    bool swap = ir_ops[op->op].traits & T_COMM && op->n_args == 2 && op->args[0] > op->args[1];
    k[0] = swap ? 1 : 0;
    k[1] = swap ? 0 : 1;
}

static IrId operand(const IrOp *op, uint32_t i)
{
    uint32_t k[2];
    operands(op, k);
    return op->args[i < 2 && op->n_args == 2 ? k[i] : i];
}

static uint64_t op_hash(const IrOp *op)
{
    uint64_t h = mix(op->op, op->type.space);
    h = mix(h, (uint64_t)op->type.dtype << 8 | op->type.n_dims);
    for (uint32_t i = 0; i < op->type.n_dims; i++) h = mix(h, op->type.dims[i]);
    for (uint32_t i = 0; i < op->n_args; i++) h = mix(h, operand(op, i));
    h = mix(h, bits_of(op->attr.f));
    h = mix(h, (uint64_t)op->attr.i);
    h = mix(h, (uint64_t)op->attr.map << 32 | op->attr.dim);
    return mix(h, op->attr.site);
}

static bool attr_eq(const IrAttr *a, const IrAttr *b)
{
    return bits_of(a->f) == bits_of(b->f) && a->i == b->i && a->map == b->map && a->dim == b->dim && a->site == b->site;
}

static bool op_eq(const IrOp *a, const IrOp *b)
{
    if (a->op == IR_OP_incoming || a->op != b->op || a->n_args != b->n_args || !ir_type_eq(&a->type, &b->type) ||
        !attr_eq(&a->attr, &b->attr))
        return false;
    for (uint32_t i = 0; i < a->n_args; i++)
        if (operand(a, i) != operand(b, i)) return false;
    return true;
}

IrId *op_table_find(const OpTable *t, const IrFunc *f, const IrOp *op)
{
    uint32_t at = (uint32_t)op_hash(op) & t->mask;
    while (t->slots[at] && !op_eq(&f->ops.data[t->slots[at] - 1], op)) at = (at + 1) & t->mask;
    return &t->slots[at];
}

static IrFunc *cse_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    OpTable table = op_table_new(ctx->stage, old->ops.n);
    const bool *pinned = rewrite_pinned(ctx->stage, old);
    uint32_t n_shared = 0;
    for (IrId v = 0; v < old->ops.n; v++) {
        if (pinned && pinned[v]) {
            rewrite_copy(&r, v);
            continue;
        }
        IrOp op = rewrite_op(&r, v);
        IrId *slot = op_table_find(&table, r.b.f, &op);
        if (!*slot) *slot = irb_add(&r.b, &op) + 1;
        else n_shared++;
        r.map[v] = *slot - 1;
    }
    if (n_shared) pass_remark(ctx, PASS_cse, true, (Span){0}, "%u ops shared", n_shared);
    return rewrite_end(&r);
}

IrModule *pass_cse(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, cse_func); }
