/* What depends on one end of an edge only is computed per node:
     %3 = gather %1 via edge.src : edge[F]          %3 = exp %1 : node[F]
     %4 = exp %3 : edge[F]                    ->    %4 = gather %3 via edge.src : edge[F]
   A value is lifted through a map if all that it is made of in its space was gathered through that map, or is a
   constant. Random numbers are drawn where they were. Where an element may have no image, it reads 0, and only what is
   0 of zeros is lifted: cos, say, only where the range of an input that says the map is declared.
   A row that nobody reads holds what it likes, unless adjoints will be made: 0 times an infinite derivative is a NaN,
   so what an operation takes there is a number that does no harm:
     exp gather(x via M)     ->     gather(exp(M sums nothing ? 0 : x) via M) */
#include "passes/rewrite/reorder.h"
#include "base/ice.h"

static IrId lift(Reorder *r, IrId v, IrId map, int depth);

static bool may_lift(const Reorder *r, const IrOp *op, IrId map)
{
    uint16_t traits = ir_ops[op->op].traits;
    if (op->op == IR_OP_const) return !ro_is_partial(r, map) || op->attr.f == 0;
    if (!(traits & (T_MAP | T_DIMS)) || traits & T_RANDOM || !op->n_args) return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId space = ro_type(r, op->args[k]).space;
        bool unit = space == IR_UNIT;
        if (unit ? op->op == IR_OP_reshape : space != op->type.space) return false; /* rows of a dim */
        if (unit && ro_is_partial(r, map) && op->op != IR_OP_mul && op->op != IR_OP_contract) return false;
    }
    return !ro_is_partial(r, map) || traits & (T_ZERO | T_LINEAR) || op->op == IR_OP_contract;
}

/* ---- winners ----
   Which elements have the maximum of their row is known by equality. What is compared may have been moved to the rows,
   away from what the maximum is taken of: then neither may change its bits. */

static bool is_gathered(const Reorder *r, IrId v, IrId map)
{
    for (IrId u = 0; u < r->b.f->ops.n; u++) {
        const IrOp *op = ro_op(r, u);
        if (r->values.data[u].uses && op->op == IR_OP_gather && op->attr.map == map && op->args[0] == v) return true;
    }
    return false;
}

/* Pins v and what it is made of, down to what the elements and their rows share: what is gathered. */
static void keep_bits(Reorder *r, IrId v, IrId map)
{
    const IrOp *op = ro_op(r, v);
    bool moves = ir_ops[op->op].traits & (T_MAP | T_DIMS) && op->n_args;
    if (!moves || op->type.space == IR_UNIT || ro_knows(r, v, RO_PINNED) || is_gathered(r, v, map)) return;
    r->facts.data[v] |= RO_PINNED;
    for (uint32_t k = 0; k < op->n_args; k++) keep_bits(r, op->args[k], map);
}

void reorder_keep_winners(Reorder *r, IrId v)
{
    IrOp op = *ro_op(r, v);
    for (uint32_t k = 0; op.op == IR_OP_eq && k < 2; k++) {
        const IrOp *best = ro_op(r, op.args[1 - k]);
        if (best->op == IR_OP_gather) best = ro_op(r, best->args[0]);
        if ((best->op != IR_OP_reduce_max && best->op != IR_OP_reduce_min) || best->args[0] == op.args[k]) continue;
        IrId map = best->attr.map, among = best->args[0];
        keep_bits(r, op.args[k], map);
        keep_bits(r, among, map);
    }
}

/* ---- lifting ---- */

static IrId lift_op(Reorder *r, IrId v, IrId map, int depth)
{
    IrOp op = *ro_op(r, v);
    IrId *args = ARENA_ARRAY(r->ctx->stage, IrId, op.n_args + 1);
    for (uint32_t k = 0; k < op.n_args; k++)
        if ((args[k] = lift(r, op.args[k], map, depth - 1)) == IR_NONE) return IR_NONE;
    ICE_UNLESS(op.type.space == ro_map(r, map)->from);
    op.type.space = ro_map(r, map)->to;
    if (!r->has_grad) {
        IrId made = ro_add(r, op.op, op.type, args, op.n_args, op.attr);
        if (made != IR_NONE) reorder_keep_winners(r, made);
        return made;
    }
    for (uint32_t k = 0; k < op.n_args; k++)
        args[k] = reorder_harmless(r, op.op, k, args[k], map, ro_op(r, op.args[k])->op == IR_OP_gather);
    IrId made = ro_add(r, op.op, op.type, args, op.n_args, op.attr);
    if (made != IR_NONE) reorder_keep_winners(r, made);
    if (made != IR_NONE && ro_knows(r, made, FACT_IN_RANGE)) r->facts.data[made] |= FACT_SMALL | FACT_CALM;
    return made;
}

static IrId lift(Reorder *r, IrId v, IrId map, int depth)
{
    IrOp op = *ro_op(r, v);
    if (op.type.space == IR_UNIT) return v;
    if (!depth || ro_knows(r, v, RO_PINNED)) return IR_NONE;
    if (op.op == IR_OP_gather && op.attr.map == map) return op.args[0];
    if (r->values.data[v].lift_epoch == r->epoch) return r->values.data[v].lift;
    IrId found = may_lift(r, &op, map) ? lift_op(r, v, map, depth) : IR_NONE;
    r->values.data[v].lift_epoch = r->epoch;
    r->values.data[v].lift = found;
    return found;
}

IrId reorder_lift(Reorder *r, IrId v, IrId map)
{
    IrId space = ro_type(r, v).space;
    if (space != IR_UNIT && space != ro_map(r, map)->from) return IR_NONE;
    r->epoch++;
    return lift(r, v, map, 2 * RO_MAX_DEPTH);
}

static IrId lift_map(const Reorder *r, IrId v, int depth)
{
    const IrOp *op = ro_def(r, v);
    if (!op || !depth) return IR_NONE;
    if (op->op == IR_OP_gather) return op->attr.map;
    if (!(ir_ops[op->op].traits & (T_MAP | T_DIMS))) return IR_NONE;
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId map = IR_NONE;
        if (ro_type(r, op->args[k]).space == op->type.space) map = lift_map(r, op->args[k], depth - 1);
        if (map != IR_NONE) return map;
    }
    return IR_NONE;
}

IrId reorder_lift_map(const Reorder *r, IrId v)
{
    return ro_type(r, v).space == IR_UNIT ? IR_NONE : lift_map(r, v, RO_MAX_DEPTH);
}

IrId reorder_rule_lift(Reorder *r, IrId v)
{
    IrId map = ro_op(r, v)->op == IR_OP_gather ? IR_NONE : reorder_lift_map(r, v);
    return map == IR_NONE ? IR_NONE : ro_gather(r, map, reorder_lift(r, v, map));
}
