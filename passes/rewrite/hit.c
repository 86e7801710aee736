/* Finds sums of products with hits, however they are written. */
#include "passes/rewrite/hit.h"

static bool is_number(const IrFunc *f, IrId v, double value)
{
    const IrOp *op = &f->ops.data[v];
    return op->op == IR_OP_const && op->attr.f == value;
}

bool hit_is(const IrFunc *f, const bool *pinned, IrId v, Hit *hit)
{
    const IrOp *op = &f->ops.data[v];
    if (pinned && pinned[v]) return false;
    if (op->op == IR_OP_cast || op->op == IR_OP_detach) return hit_is(f, pinned, op->args[0], hit);
    if (op->op == IR_OP_select && is_number(f, op->args[1], 1) && is_number(f, op->args[2], 0))
        return hit_is(f, pinned, op->args[0], hit);
    if (op->op != IR_OP_eq) return false;
    for (int k = 0; k < 2; k++) {
        const IrOp *places = &f->ops.data[op->args[k]], *index = &f->ops.data[op->args[1 - k]];
        if (places->op != IR_OP_iota || places->type.dtype != IR_I64 || index->type.dtype != IR_I64) continue;
        *hit = (Hit){op->args[1 - k], places->attr.dim};
        return index->type.space != IR_UNIT && !index->type.n_dims;
    }
    return false;
}

IrId hit_picks(const IrFunc *f, const bool *pinned, const IrOp *op, Hit *hit)
{
    for (int k = 0; op->op == IR_OP_contract && k < 2; k++)
        if (hit_is(f, pinned, op->args[k], hit)) return op->args[1 - k];
    if (op->op != IR_OP_sum_dims) return IR_NONE;
    const IrOp *chosen = &f->ops.data[op->args[0]];
    bool some = chosen->op == IR_OP_select && !(pinned && pinned[op->args[0]]) && is_number(f, chosen->args[2], 0);
    return some && hit_is(f, pinned, chosen->args[0], hit) ? chosen->args[1] : IR_NONE;
}
