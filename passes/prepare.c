/* What a function looks like before groups form: no unused operations, each result a value of its own that some
   kernel writes, sums over a map that is one-to-one read through its inverse, and weights of products with the
   result's last dim innermost.

     %5 = contract %x, %w : node[K]      with %w : [K, F], summed over F
     -> %4 = transpose %w : [F, K]       %5 = contract %x, %4 : node[K]

   Never changes what is computed, nor the order of any sum. */
#include "passes/fuse.h"
#include "passes/rewrite.h"

static void mark_used(const IrFunc *f, bool *used)
{
    for (uint32_t i = 0; i < f->results.n; i++) used[f->results.data[i].value] = true;
    for (uint32_t v = f->ops.n; v-- > 0;) {
        const IrOp *op = &f->ops.data[v];
        if (op->op == IR_OP_arg) used[v] = true;
        if (used[v])
            for (uint32_t k = 0; k < op->n_args; k++) used[op->args[k]] = true;
    }
}

/* A weight of a product whose last dim is not the result's: laid out anew, summed dims first. */
static IrId lay_out_weight(Build *b, const IrOp *op, IrId x)
{
    IrType t = irb_type(b, x), wanted = t;
    const IrType *r = &op->type;
    if (t.space != IR_UNIT || !r->n_dims || t.n_dims < 2) return x;
    IrId last = r->dims[r->n_dims - 1];
    if (!ir_type_has_dim(&t, last) || t.dims[t.n_dims - 1] == last) return x;
    wanted.n_dims = 0;
    for (uint32_t k = 0; k < t.n_dims; k++)
        if (!ir_type_has_dim(r, t.dims[k])) wanted.dims[wanted.n_dims++] = t.dims[k];
    for (uint32_t k = 0; k < r->n_dims; k++)
        if (ir_type_has_dim(&t, r->dims[k])) wanted.dims[wanted.n_dims++] = r->dims[k];
    return irb_unary(b, IR_OP_transpose, wanted, x, (IrAttr){0});
}

static void prepare_op(Rewrite *r, IrId v)
{
    IrOp op = rewrite_op(r, v);
    Build *b = &r->b;
    b->span = op.span;
    if (op.op == IR_OP_contract) {
        bool product = !contract_is_dot(b->f, &op);
        for (uint32_t k = 0; k < 2 && product; k++) op.args[k] = lay_out_weight(b, &op, op.args[k]);
    }
    if (op.op == IR_OP_reduce_sum && b->m->maps.data[op.attr.map].inverse != IR_NONE) {
        op.op = IR_OP_gather;
        op.attr = (IrAttr){.map = b->m->maps.data[op.attr.map].inverse};
    }
    r->map[v] = irb_add(b, &op);
}

/* A result that no kernel would write by itself: an argument, a view, or one that was returned before. */
static bool needs_copy(const IrFunc *f, uint32_t index)
{
    IrId v = f->results.data[index].value;
    IrOpcode op = f->ops.data[v].op;
    if (op == IR_OP_arg || op == IR_OP_reshape) return true;
    for (uint32_t i = 0; i < index; i++)
        if (f->results.data[i].value == v) return true;
    return false;
}

IrFunc *prepare_func(IrModule *m, const IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    bool *used = ARENA_ARRAY(m->arena, bool, old->ops.n + 1);
    mark_used(old, used);
    for (IrId v = 0; v < old->ops.n; v++)
        if (used[v]) prepare_op(&r, v);
    IrFunc *f = rewrite_end(&r);
    for (uint32_t i = 0; i < f->results.n; i++) {
        if (!needs_copy(f, i)) continue;
        IrResult *result = &f->results.data[i];
        const IrOp *op = &f->ops.data[result->value];
        r.b.span = op->span;
        result->value = irb_unary(&r.b, IR_OP_detach, op->type, result->value, (IrAttr){0});
    }
    return f;
}
