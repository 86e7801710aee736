/* Products with values that are linear in sparse ones, row by row: rows that were gathered, summed over a map, scaled
   by a factor without features, or added. What happens to rows commutes with what happens to features:

     v = reduce_sum gather(x via src) via dst   contract v, W  ->  reduce_sum gather(contract(x, W) via src) via dst
                                                contract v, G  ->  contract x, reduce_sum gather(G via dst) via src
   So the rows that move have the product's width, and the sparse value meets the product directly. */
#include "passes/rewrite/sparse.h"
#include "base/ice.h"

/* mul: which operand is the factor without features. */
static uint32_t factor_of(const Sparse *s, const IrOp *op)
{
    return op->op == IR_OP_mul && !sparse_op(s, op->args[0])->type.n_dims ? 0 : 1;
}

void sparse_linear_want(Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    if (sparse_has(s, v, SPARSE_ZERO)) {
        s->flags[v] |= SPARSE_STORED;
        return;
    }
    bool scaled = op->op == IR_OP_mul || op->op == IR_OP_div;
    ICE_UNLESS(sparse_has(s, v, SPARSE_LINEAR));
    uint32_t factor = scaled ? factor_of(s, op) : op->n_args;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (k == factor) s->flags[op->args[k]] |= SPARSE_DENSE;
        else sparse_linear_want(s, op->args[k]);
}

IrId sparse_linear_product(Sparse *s, IrId v, IrId w)
{
    Build *b = &s->r.b;
    const IrOp *op = sparse_op(s, v);
    if (sparse_has(s, v, SPARSE_ZERO)) {
        IrId row = irb_gather(b, s->p->col, w);
        return irb_reduce(b, IR_OP_reduce_sum, s->p->row, irb_map2(b, IR_OP_mul, s->at[v], row), 0);
    }
    uint32_t factor = factor_of(s, op);
    bool scaled = op->op == IR_OP_mul || op->op == IR_OP_div;
    IrId x = sparse_linear_product(s, op->args[scaled ? 1 - factor : 0], w);
    switch (op->op) {
    case IR_OP_gather: return irb_gather(b, op->attr.map, x);
    case IR_OP_reduce_sum: return irb_reduce(b, IR_OP_reduce_sum, op->attr.map, x, 0);
    case IR_OP_neg: return irb_map1(b, IR_OP_neg, x);
    case IR_OP_mul:
    case IR_OP_div: return irb_map2(b, op->op, x, s->r.map[op->args[factor]]);
    case IR_OP_add:
    case IR_OP_sub: return irb_map2(b, op->op, x, sparse_linear_product(s, op->args[1], w));
    default: return x; /* detach */
    }
}

IrId sparse_linear_outer(Sparse *s, IrId v, IrId g)
{
    Build *b = &s->r.b;
    const IrOp *op = sparse_op(s, v);
    const IrId *x = op->args;
    if (sparse_has(s, v, SPARSE_ZERO)) {
        IrId row = irb_gather(b, s->p->row, g);
        return irb_reduce(b, IR_OP_reduce_sum, s->p->col, irb_map2(b, IR_OP_mul, s->at[v], row), 0);
    }
    uint32_t factor = factor_of(s, op);
    switch (op->op) {
    case IR_OP_gather: return sparse_linear_outer(s, x[0], irb_reduce(b, IR_OP_reduce_sum, op->attr.map, g, 0));
    case IR_OP_reduce_sum: return sparse_linear_outer(s, x[0], irb_gather(b, op->attr.map, g));
    case IR_OP_neg: return sparse_linear_outer(s, x[0], irb_map1(b, IR_OP_neg, g));
    case IR_OP_mul:
    case IR_OP_div: return sparse_linear_outer(s, x[1 - factor], irb_map2(b, op->op, g, s->r.map[x[factor]]));
    case IR_OP_add:
    case IR_OP_sub: {
        IrId first = sparse_linear_outer(s, x[0], g);
        return irb_map2(b, op->op, first, sparse_linear_outer(s, x[1], g));
    }
    default: return sparse_linear_outer(s, x[0], g); /* detach */
    }
}
