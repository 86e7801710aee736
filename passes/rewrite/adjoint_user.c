/* The adjoint that a program states for a value of its own: the operations that lead from what stands for the cotangent
   to what each operand gets are copied with the cotangent in its place. The value's own operations are not looked at.
     %3 = incoming : [F]                                   with g as the cotangent of %5:
     %4 = mul %3, %2                                       %9 = mul g, %2
     %5 = with_adjoint %1, %3, %0, %4            ->        %0 gets %9 */
#include "passes/rewrite/autodiff.h"
#include "base/ice.h"

void adjoint_with_adjoint(Adjoint *a, IrId y, const IrOp *op, IrId g)
{
    ICE_UNLESS(op->n_args >= 2 && op->args[1] < y);
    IrId p = op->args[1];
    IrId *copy = ARENA_ARRAY(a->b.m->arena, IrId, y + 1); /* of what depends on p; 0: none, as value 0 never is one */
    bool *needed = ARENA_ARRAY(a->b.m->arena, bool, y + 1);
    for (uint32_t k = 2; k < op->n_args; k += 2)
        needed[op->args[k + 1]] = adjoint_wants(a, op->args[k]) || needed[op->args[k + 1]];
    for (IrId v = y; v-- > p;)
        for (uint32_t k = 0; needed[v] && k < irb_op(&a->b, v)->n_args; k++) needed[irb_op(&a->b, v)->args[k]] = true;
    copy[p] = g;
    for (IrId v = p + 1; v < y; v++) {
        IrOp one = *irb_op(&a->b, v);
        bool depends = false;
        for (uint32_t k = 0; needed[v] && k < one.n_args; k++) depends |= copy[one.args[k]] != 0;
        if (!depends) continue;
        const IrId *from = one.args;
        one.args = ARENA_ARRAY(a->b.m->arena, IrId, one.n_args);
        for (uint32_t k = 0; k < one.n_args; k++) one.args[k] = copy[from[k]] ? copy[from[k]] : from[k];
        copy[v] = irb_add(&a->b, &one);
    }
    for (uint32_t k = 2; k < op->n_args; k += 2) {
        IrId dx = op->args[k + 1];
        adjoint_give(a, op->args[k], copy[dx] ? copy[dx] : dx);
    }
}
