/* Finds sums of products with a one-hot, however they are written. */
#include "passes/rewrite/one_hot.h"

static bool is_number(const IrFunc *f, IrId v, double value)
{
    const IrOp *op = &f->ops.data[v];
    return op->op == IR_OP_const && op->attr.f == value;
}

bool one_hot_is(const IrFunc *f, const bool *pinned, IrId v, OneHot *hot)
{
    const IrOp *op = &f->ops.data[v];
    if (pinned && pinned[v]) return false;
    if (op->op == IR_OP_cast || op->op == IR_OP_detach) return one_hot_is(f, pinned, op->args[0], hot);
    if (op->op == IR_OP_select && is_number(f, op->args[1], 1) && is_number(f, op->args[2], 0))
        return one_hot_is(f, pinned, op->args[0], hot);
    if (op->op != IR_OP_eq) return false;
    for (int k = 0; k < 2; k++) {
        const IrOp *places = &f->ops.data[op->args[k]], *index = &f->ops.data[op->args[1 - k]];
        if (places->op != IR_OP_iota || places->type.dtype != IR_I64 || index->type.dtype != IR_I64) continue;
        *hot = (OneHot){op->args[1 - k], places->attr.dim};
        return index->type.space != IR_UNIT && !index->type.n_dims;
    }
    return false;
}

/* What op sums the product of with a one-hot; IR_NONE if it does nothing like that. */
static IrId summed(const IrFunc *f, const bool *pinned, const IrOp *op, OneHot *hot)
{
    for (int k = 0; op->op == IR_OP_contract && k < 2; k++)
        if (one_hot_is(f, pinned, op->args[k], hot)) return op->args[1 - k];
    if (op->op != IR_OP_sum_dims) return IR_NONE;
    const IrOp *chosen = &f->ops.data[op->args[0]];
    bool some = chosen->op == IR_OP_select && !(pinned && pinned[op->args[0]]) && is_number(f, chosen->args[2], 0);
    return some && one_hot_is(f, pinned, chosen->args[0], hot) ? chosen->args[1] : IR_NONE;
}

bool one_hot_place(const IrFunc *f, const bool *pinned, const IrOp *op, IrOp *at)
{
    OneHot hot;
    IrId x = summed(f, pinned, op, &hot);
    if (x == IR_NONE || ir_type_has_dim(&op->type, hot.dim) || !ir_type_has_dim(&f->ops.data[x].type, hot.dim))
        return false;
    at->args[0] = x;
    at->args[1] = hot.index;
    at->attr.dim = hot.dim;
    bool fits = ir_type_at(&f->ops.data[x].type, hot.dim, &f->ops.data[hot.index].type, &at->type);
    return fits && at->type.space == op->type.space && at->type.n_dims == op->type.n_dims;
}
