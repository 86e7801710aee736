/* In which order the operations of graph IR sum inside a row: see ir/order.h. */
#include "ir/order.h"
#include "base/ice.h"

static bool has_own_dim(const IrType *a, const IrType *b, const IrType *r)
{
    for (uint32_t k = 0; k < r->n_dims; k++)
        if (ir_type_has_dim(b, r->dims[k]) && !ir_type_has_dim(a, r->dims[k])) return true;
    return false;
}

/* Two values of rows whose elements lie side by side along the same summed dim. */
static bool both_along_sum(const IrType *a, const IrType *b, const IrType *r)
{
    if (a->space == IR_UNIT || b->space == IR_UNIT || !a->n_dims || !b->n_dims) return false;
    IrId last = a->dims[a->n_dims - 1];
    return b->dims[b->n_dims - 1] == last && !ir_type_has_dim(r, last);
}

bool contract_types_dot(const IrType *a, const IrType *b, const IrType *r)
{
    bool outer = r->space == IR_UNIT && (a->space != IR_UNIT || b->space != IR_UNIT);
    return !outer && (!has_own_dim(a, b, r) || both_along_sum(a, b, r));
}

bool contract_is_dot(const IrFunc *f, const IrOp *op)
{
    ICE_UNLESS(op->op == IR_OP_contract && op->n_args == 2);
    return contract_types_dot(&f->ops.data[op->args[0]].type, &f->ops.data[op->args[1]].type, &op->type);
}

unsigned reduced_dims(const IrFunc *f, const IrOp *op, IrId *dims)
{
    unsigned n = 0;
    if (op->op == IR_OP_concat) return 0; /* each operand has a dim of its own that the result has not */
    for (uint32_t a = 0; a < op->n_args; a++) {
        const IrType *t = &f->ops.data[op->args[a]].type;
        for (uint32_t k = 0; k < t->n_dims; k++) {
            bool seen = ir_type_has_dim(&op->type, t->dims[k]);
            for (unsigned i = 0; i < n; i++) seen |= dims[i] == t->dims[k];
            if (!seen) dims[n++] = t->dims[k];
        }
    }
    ICE_UNLESS(n <= 2 * IR_MAX_DIMS); /* room that callers give */
    return n;
}
