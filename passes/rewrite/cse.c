/* Common subexpressions: the second of two equal ops is replaced by the first.
     %3 = add %1, %2          %3 = add %1, %2
     %4 = add %2, %1    ->    %5 = mul %3, %3
     %5 = mul %3, %4
   Equal: the same op, attributes and type on the same values, in any order where the op commutes. Of slices that differ
   in what they call the dim that is cut, as two uses of x[0, ...] do, the second is a view of the first.
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
    return (OpTable){ARENA_ARRAY(a, IrId, size), size - 1, NULL};
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
    for (uint32_t i = 0; i < op->type.n_dims && op->op != IR_OP_slice; i++) h = mix(h, op->type.dims[i]);
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

/* Slices of one value along one dim: the other dims are the value's. */
static bool same_sizes(const IrModule *m, const IrType *a, const IrType *b)
{
    bool same = a->n_dims == b->n_dims;
    for (uint32_t i = 0; i < a->n_dims && same; i++)
        same = m->dims.data[a->dims[i]].size == m->dims.data[b->dims[i]].size;
    return same;
}

static bool op_eq(const IrModule *names, const IrOp *a, const IrOp *b)
{
    if (a->op == IR_OP_incoming || a->op != b->op || a->n_args != b->n_args || !attr_eq(&a->attr, &b->attr))
        return false;
    if (!ir_type_eq(&a->type, &b->type) && !(names && a->op == IR_OP_slice && same_sizes(names, &a->type, &b->type)))
        return false;
    for (uint32_t i = 0; i < a->n_args; i++)
        if (operand(a, i) != operand(b, i)) return false;
    return true;
}

IrId *op_table_find(const OpTable *t, const IrFunc *f, const IrOp *op)
{
    uint32_t at = (uint32_t)op_hash(op) & t->mask;
    while (t->slots[at] && !op_eq(t->names, &f->ops.data[t->slots[at] - 1], op)) at = (at + 1) & t->mask;
    return &t->slots[at];
}

typedef struct Cse {
    Rewrite r;
    OpTable table;
    IrId *under; /* by new value: 1 + what it is a view of, where this pass made the view; else 0 */
} Cse;

/* The value of the new function that is equal to op; *shared: there was one. */
static IrId value_of(Cse *c, IrOp *op, bool *shared)
{
    IrId under = op->op == IR_OP_reshape ? c->under[op->args[0]] : 0;
    if (under) op->args[0] = under - 1; /* a view of a view */
    IrId *slot = op_table_find(&c->table, c->r.b.f, op);
    *shared = *slot;
    if (!*slot) *slot = irb_add(&c->r.b, op) + 1;
    return *slot - 1;
}

/* x under the names that its dims have in t. */
static IrId renamed(Cse *c, IrId x, const IrOp *op)
{
    IrType t = irb_type(&c->r.b, x);
    bool shared;
    if (ir_type_eq(&t, &op->type)) return x;
    IrOp view = {.op = IR_OP_reshape, .type = op->type, .args = &x, .n_args = 1, .span = op->span};
    IrId v = value_of(c, &view, &shared);
    c->under[v] = x + 1;
    return v;
}

static IrFunc *cse_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    uint32_t n = 2 * old->ops.n, n_shared = 0; /* a view for each op, at most */
    Cse c = {rewrite_begin(m, old), op_table_new(ctx->stage, n), ARENA_ARRAY(ctx->stage, IrId, n + 1)};
    c.table.names = m;
    const bool *pinned = rewrite_pinned(ctx->stage, old);
    for (IrId v = 0; v < old->ops.n; v++) {
        if (pinned && pinned[v]) {
            rewrite_copy(&c.r, v);
            continue;
        }
        bool shared;
        IrOp op = rewrite_op(&c.r, v);
        c.r.map[v] = renamed(&c, value_of(&c, &op, &shared), &op);
        n_shared += shared;
    }
    if (n_shared) pass_remark(ctx, PASS_cse, true, (Span){0}, "%u ops shared", n_shared);
    return rewrite_end(&c.r);
}

IrModule *pass_cse(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, cse_func); }
