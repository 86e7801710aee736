/* Sums that another plan rescales with a maximum or minimum of their row (PlanForm), and that this plan is to rescale
   too, whatever its own machine would choose: what stands between is computed in the kernel that they share with it.

     %4 = reduce_max edge.dst %3             %4 and %6 are one kernel's, and %5 has no memory: a kernel that
     %5 = exp(%3 - gather edge.dst %4)       found %5 there could not rescale %6 (lower_online.c)
     %6 = reduce_sum edge.dst %5
   It decides nothing: fuse_choice.c keeps such values out of memory, and fuse_merge.c puts the maximum and its sums
   together first. */
#include "base/ice.h"
#include "ir/plan.h"
#include "passes/fuse/fuse.h"

typedef struct Search {
    const FusedFunc *f;
    uint8_t *seen; /* by value: 1 and whether it waits for the extreme */
    IrId map, extreme;
} Search;

/* The maximum or minimum that v is, or is where that is finite; IR_NONE: neither. */
static IrId extreme_of(const FusedFunc *f, IrId v)
{
    const IrOp *op = fused_op(f, v);
    if (op->op == IR_OP_reduce_max || op->op == IR_OP_reduce_min) return v;
    if (op->op == IR_OP_detach) return extreme_of(f, op->args[0]);
    return op->op == IR_OP_select ? extreme_of(f, op->args[1]) : IR_NONE;
}

/* Whether v, at an element, waits for the row's extreme. */
static bool waits(Search *t, IrId v)
{
    const IrOp *op = fused_op(t->f, v);
    if (t->seen[v]) return t->seen[v] > 1;
    bool found = false;
    if (op->op == IR_OP_gather && op->attr.map == t->map) {
        IrId extreme = extreme_of(t->f, op->args[0]);
        found = extreme != IR_NONE && (t->extreme == IR_NONE || t->extreme == extreme);
        if (found) t->extreme = extreme;
    } else if (op->op != IR_OP_arg && op->op != IR_OP_gather && op->type.space == t->f->m->maps.data[t->map].from) {
        for (uint32_t k = 0; k < op->n_args; k++) found |= waits(t, op->args[k]);
    }
    t->seen[v] = found ? 2 : 1;
    return found;
}

const IrId *fuse_find_rescaled(const FusedFunc *f, Arena *a)
{
    uint32_t n = f->f->ops.n;
    ICE_UNLESS(f->form);
    IrId *with = ARENA_ARRAY(a, IrId, n + 1);
    for (IrId v = 0; v < n; v++) {
        IrId extreme = extreme_of(f, v), of = extreme == IR_NONE ? IR_NONE : fused_origin(f, extreme);
        with[v] = plan_form_rescales(f->form, of) ? of : plan_form_extreme(f->form, fused_origin(f, v));
    }
    return with;
}

const bool *fuse_find_between(const FusedFunc *f, Arena *a)
{
    uint32_t n = f->f->ops.n;
    bool *between = ARENA_ARRAY(a, bool, n + 1);
    for (IrId v = 0; f->form && v < n; v++) {
        const IrOp *op = fused_op(f, v);
        if (plan_form_extreme(f->form, fused_origin(f, v)) == IR_NONE) continue;
        ICE_UNLESS(op->op == IR_OP_reduce_sum);
        Search t = {f, ARENA_ARRAY(a, uint8_t, n + 1), op->attr.map, IR_NONE};
        if (!waits(&t, op->args[0])) continue;
        ICE_UNLESS(t.extreme < n); /* it waits for one */
        for (IrId u = 0; u < n; u++) between[u] |= t.seen[u] > 1;
    }
    return between;
}
