/* Sums over all edges said as sums over the rows of a map and a sum over these, so that a kernel which walks the edges
   by that map anyway takes them in: it has the operands at hand.

     %4 = reduce_sum %3 via edge.dst : node[F]       %4 = reduce_sum %3 via edge.dst : node[F]   one walk over the edges
     %7 = reduce_sum %6 via edge.all : [F]      ->   %8 = reduce_sum %6 via edge.dst : node[F]
                                                     %7 = reduce_sum %8 via node.all : [F]       a small kernel
   Contracts over edges stay: an outer product has a matrix per node. It makes the function only: fuse.c
   decides which form is cheaper. */
#include "base/ice.h"
#include "passes/rewrite/rewrite.h"
#include "passes/fuse/fuse.h"
#include "passes/context/rows.h"

static const IrOp *op_of(const IrFunc *f, IrId v) { return &f->ops.data[v]; }

/* Sums all rows of `space`, and could sum them in parts. */
static bool sums_all(const IrModule *m, const IrFunc *f, IrId v, IrId space)
{
    const IrOp *op = op_of(f, v);
    if (group_kind_of(f, m, v) != GROUP_BLOCKS || op_of(f, op->args[0])->type.space != space) return false;
    return op->op == IR_OP_reduce_sum && ir_dtype_is_float(op->type.dtype) && op->attr.f == 0 &&
           !m->maps.data[op->attr.map].partial;
}

/* Some sum runs over the rows of this map, all of which edges lead to. */
static bool is_walked(const IrModule *m, const IrFunc *f, IrId map)
{
    const IrMap *x = &m->maps.data[map];
    if (!has_many_rows(m, x->from) || x->to == IR_UNIT || x->to == x->from || x->partial) return false;
    for (IrId v = 0; v < f->ops.n; v++)
        if (group_kind_of(f, m, v) == GROUP_ROWS && op_of(f, v)->attr.map == map) return true;
    return false;
}

static bool has_sums(const IrModule *m, const IrFunc *f, IrId space)
{
    for (IrId v = 0; v < f->ops.n; v++)
        if (sums_all(m, f, v, space)) return true;
    return false;
}

static void sum_by_rows(Rewrite *r, IrId v, IrId map)
{
    const IrOp *op = op_of(r->old, v);
    ICE_UNLESS(op->op == IR_OP_reduce_sum && op->attr.f == 0); /* rows without elements add nothing */
    r->b.span = op->span;
    IrId rows = irb_reduce(&r->b, IR_OP_reduce_sum, map, r->map[op->args[0]], 0);
    r->map[v] = irb_reduce(&r->b, IR_OP_reduce_sum, irb_all_map(&r->b, irb_type(&r->b, rows).space), rows, 0);
}

IrFunc *fuse_sums_by_rows(IrModule *m, const IrFunc *f, IrId map)
{
    ICE_UNLESS(map < m->maps.n);
    IrId space = m->maps.data[map].from;
    if (!is_walked(m, f, map) || !has_sums(m, f, space)) return NULL;
    Rewrite r = rewrite_begin(m, f);
    for (IrId v = 0; v < f->ops.n; v++) {
        if (sums_all(m, f, v, space)) sum_by_rows(&r, v, map);
        else rewrite_copy(&r, v);
    }
    return rewrite_end(&r);
}
