/* What the pass `sparse` must know of values: where they are surely 0, what can be computed at single places, what
   never is 0 and what is finite as long as nothing overflowed. Claims nothing that is not certain but for that. */
#include "passes/rewrite/sparse.h"
#include <math.h>

static bool all_have(const Sparse *s, const IrOp *op, uint32_t first, uint8_t flags)
{
    for (uint32_t k = first; k < op->n_args; k++)
        if (!sparse_has(s, op->args[k], flags)) return false;
    return true;
}

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
    return op->n_args > 0 && all_have(s, op, 0, SPARSE_OK);
}

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
        return (is_zero(s, x[0]) && sparse_has(s, x[1], SPARSE_FINITE)) ||
               (is_zero(s, x[1]) && sparse_has(s, x[0], SPARSE_FINITE));
    case IR_OP_div: return is_zero(s, x[0]) && sparse_has(s, x[1], SPARSE_FINITE | SPARSE_NONZERO);
    case IR_OP_select: return is_zero(s, x[1]) && is_zero(s, x[2]);
    default: break;
    }
    bool zeros = ir_ops[op->op].traits & T_ZERO;
    for (uint32_t k = 0; k < op->n_args; k++) zeros &= is_zero(s, x[k]);
    return zeros && op->n_args;
}

/* ---- sizes ----------------------------------------------------------------------------------------- */

static bool is_positive(const Simplify *known, IrId v) { return known->facts.data[v] & FACT_POSITIVE; }

static bool is_nonzero(const Sparse *s, const Simplify *known, const IrOp *op)
{
    const IrId *x = op->args;
    switch (op->op) {
    case IR_OP_const: return op->attr.f != 0 && (float)op->attr.f != 0;
    case IR_OP_neg:
    case IR_OP_abs:
    case IR_OP_sign:
    case IR_OP_sqrt:
    case IR_OP_detach:
    case IR_OP_reshape:
    case IR_OP_transpose: return sparse_has(s, x[0], SPARSE_NONZERO);
    case IR_OP_select: return all_have(s, op, 1, SPARSE_NONZERO);
    case IR_OP_add: /* nothing below 0, and one of them above */
        return is_positive(known, x[0]) && is_positive(known, x[1]) &&
               (sparse_has(s, x[0], SPARSE_NONZERO) || sparse_has(s, x[1], SPARSE_NONZERO));
    case IR_OP_max:
        return (is_positive(known, x[0]) && sparse_has(s, x[0], SPARSE_NONZERO)) ||
               (is_positive(known, x[1]) && sparse_has(s, x[1], SPARSE_NONZERO));
    default: return false;
    }
}

/* Inputs are checked at load; sums, products and the rest leave the finite numbers only by overflow. */
static bool is_finite(const Sparse *s, const Simplify *known, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    if (known->facts.data[v] & FACT_FINITE) return true;
    switch (op->op) {
    case IR_OP_arg: return true;
    case IR_OP_div: return all_have(s, op, 0, SPARSE_FINITE) && sparse_has(s, op->args[1], SPARSE_NONZERO);
    case IR_OP_sqrt: return sparse_has(s, op->args[0], SPARSE_FINITE) && is_positive(known, op->args[0]);
    case IR_OP_const:
    case IR_OP_log:
    case IR_OP_log1p:
    case IR_OP_pow:
    case IR_OP_mod:
    case IR_OP_incoming:
    case IR_OP_with_adjoint:
    case IR_OP_grad: return false;
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: return isfinite(op->attr.f) && all_have(s, op, 0, SPARSE_FINITE);
    case IR_OP_select: return all_have(s, op, 1, SPARSE_FINITE);
    default: return op->n_args && all_have(s, op, 0, SPARSE_FINITE);
    }
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
    Simplify known = {.b = {.m = s->r.b.m, .f = (IrFunc *)(uintptr_t)s->old}}; /* only read */
    for (IrId v = 0; v < s->old->ops.n; v++) {
        const IrOp *op = sparse_op(s, v);
        uint8_t fact = simplify_facts(&known, op);
        VEC_PUSH(s->ctx->stage, &known.facts, fact);
        if (is_finite(s, &known, v)) s->flags[v] |= SPARSE_FINITE;
        if (is_nonzero(s, &known, op)) s->flags[v] |= SPARSE_NONZERO;
        if (can_store(s, v)) s->flags[v] |= SPARSE_OK;
        if (sparse_has(s, v, SPARSE_OK) && keeps_zero(s, v)) s->flags[v] |= SPARSE_ZERO;
        unsigned paths = paths_of(s, v);
        s->paths[v] = (uint8_t)(paths <= SPARSE_MAX_PATHS ? paths : 0);
        if (s->paths[v]) s->flags[v] |= SPARSE_LINEAR;
    }
}
