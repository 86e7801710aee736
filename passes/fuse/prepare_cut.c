/* A condition that cut a value off is read from what came of it, where that lies in memory anyway: a backward of relu
   then needs the output and not the input of it, nor the terms that the input is a sum of.

     %2 = le %1, 0                        %2, %3, %4 as before
     %3 = select %2, 0, %1                %9 = le %3, 0
     %4 = contract %3, %W           ->
     %5 = select %2, 0, %d                %5 = select %9, 0, %d

   Both conditions are the same, for NaN and -0 too: where the condition holds at equality the constant is chosen, else
   what was compared. Only of rows that are not many, and only where a product or a gather reads %3: so it has
   memory. */
#include "passes/fuse/fuse.h"
#include "passes/rewrite/rewrite.h"
#include "passes/context/rows.h"

static bool is_const(const IrFunc *f, IrId v, double *value)
{
    if (f->ops.data[v].op != IR_OP_const) return false;
    *value = f->ops.data[v].attr.f;
    return true;
}

/* Is the select v the value compared in its condition, or the constant it was compared with: that one at equality? */
static bool is_cut(const IrModule *m, const IrFunc *f, IrId v)
{
    const IrOp *y = &f->ops.data[v];
    if (y->op != IR_OP_select || y->type.space == IR_UNIT || has_many_rows(m, y->type.space)) return false;
    const IrOp *p = &f->ops.data[y->args[0]];
    if ((p->op != IR_OP_le && p->op != IR_OP_lt) || !ir_dtype_is_float(y->type.dtype)) return false;
    IrId at_equality = y->args[p->op == IR_OP_le ? 1 : 2], x = y->args[p->op == IR_OP_le ? 2 : 1];
    unsigned k = p->args[0] == x ? 0 : 1;
    double limit, chosen;
    return p->args[k] == x && is_const(f, p->args[1 - k], &limit) && is_const(f, at_equality, &chosen) &&
           limit == chosen && ir_type_eq(&f->ops.data[x].type, &y->type);
}

static bool *find_read(const IrModule *m, const IrFunc *f)
{
    bool *read = ARENA_ARRAY(m->arena, bool, f->ops.n + 1);
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        if (op->op == IR_OP_contract || op->op == IR_OP_gather)
            for (uint32_t k = 0; k < op->n_args; k++) read[op->args[k]] = true;
    }
    return read;
}

IrFunc *prepare_cuts(IrModule *m, IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    bool *read = find_read(m, old), any = false;
    for (IrId v = 0; v < old->ops.n; v++) {
        rewrite_copy(&r, v);
        if (!read[v] || !is_cut(m, old, v)) continue;
        const IrOp *y = &old->ops.data[v];
        IrOp p = old->ops.data[y->args[0]];
        IrId args[2];
        for (unsigned k = 0; k < 2; k++) args[k] = r.map[is_const(old, p.args[k], &(double){0}) ? p.args[k] : v];
        p.args = args;
        r.map[y->args[0]] = irb_add(&r.b, &p);
        any = true;
    }
    return any ? rewrite_end(&r) : old;
}
