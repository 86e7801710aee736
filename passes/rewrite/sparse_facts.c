/* What the pass `sparse` must know of values: where they are surely 0, and what can be computed at single places.
   Claims nothing that is not certain, as long as nothing overflowed. */
#include "passes/rewrite/facts.h"
#include "passes/rewrite/sparse.h"

/* ---- places ---------------------------------------------------------------------------------------- */

/* S[], unit[F] or a number: gathered. */
static bool is_leaf(const Sparse *s, const IrType *t)
{
    if (t->space == IR_UNIT) return !t->n_dims || (t->n_dims == 1 && t->dims[0] == s->form.dims[0]);
    return t->space == s->form.space && !t->n_dims;
}

static bool can_store(const Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    if (is_leaf(s, &op->type) || v == s->arg) return true;
    if (!sparse_has_form(s, &op->type) || !(ir_ops[op->op].traits & T_MAP)) return false;
    if (op->op == IR_OP_const || op->op == IR_OP_random_uniform || op->op == IR_OP_random_normal) return true;
    bool all = op->n_args > 0;
    for (uint32_t k = 0; k < op->n_args; k++) all &= sparse_has(s, op->args[k], SPARSE_OK);
    return all;
}

static bool knows(const Sparse *s, IrId v, Facts facts) { return (s->facts[v] & facts) == facts; }

static bool is_zero(const Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    return sparse_has(s, v, SPARSE_ZERO) || (op->op == IR_OP_const && op->attr.f == 0);
}

static bool keeps_zero(const Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    const IrId *x = op->args;
    if (!sparse_has_form(s, &op->type)) return false;
    if (v == s->arg) return true;
    switch (op->op) {
    case IR_OP_mul:
        return (is_zero(s, x[0]) && knows(s, x[1], FACT_IN_RANGE)) ||
               (is_zero(s, x[1]) && knows(s, x[0], FACT_IN_RANGE));
    case IR_OP_div: return is_zero(s, x[0]) && knows(s, x[1], FACT_IN_RANGE | FACT_NONZERO);
    case IR_OP_select: return is_zero(s, x[1]) && is_zero(s, x[2]);
    default: break;
    }
    bool zeros = ir_ops[op->op].traits & T_ZERO;
    for (uint32_t k = 0; k < op->n_args; k++) zeros &= is_zero(s, x[k]);
    return zeros && op->n_args;
}

/* ---- linear in the rows --------------------------------------------------------------------------------- */

static unsigned paths_of(const Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    const IrType *t = &op->type;
    bool rows = t->space != IR_UNIT && t->n_dims == 1 && t->dims[0] == s->form.dims[0];
    if (!rows || sparse_has(s, v, SPARSE_ZERO)) return rows;
    const IrId *x = op->args;
    switch (op->op) {
    case IR_OP_gather:
    case IR_OP_reduce_sum:
    case IR_OP_neg:
    case IR_OP_detach: return s->paths[x[0]];
    case IR_OP_add:
    case IR_OP_sub: return s->paths[x[0]] && s->paths[x[1]] ? s->paths[x[0]] + s->paths[x[1]] : 0u;
    case IR_OP_mul:
        if (!sparse_op(s, x[0])->type.n_dims) return s->paths[x[1]];
        return sparse_op(s, x[1])->type.n_dims ? 0 : s->paths[x[0]];
    case IR_OP_div: return sparse_op(s, x[1])->type.n_dims ? 0 : s->paths[x[0]];
    default: return 0;
    }
}

void sparse_facts(Sparse *s)
{
    for (IrId v = 0; v < s->old->ops.n; v++) {
        s->facts[v] = facts_of(s->r.b.m, s->old, sparse_op(s, v), s->facts);
        if (can_store(s, v)) s->flags[v] |= SPARSE_OK;
        if (sparse_has(s, v, SPARSE_OK) && keeps_zero(s, v)) s->flags[v] |= SPARSE_ZERO;
        unsigned paths = paths_of(s, v);
        s->paths[v] = (uint8_t)(paths <= SPARSE_MAX_PATHS ? paths : 0);
        if (s->paths[v]) s->flags[v] |= SPARSE_LINEAR;
    }
}
