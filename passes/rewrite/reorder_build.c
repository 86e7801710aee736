/* Ops of the pool of `reorder`: an op that is there already is not made again, so that what an alternative shares with
   the rest of the function costs nothing. Folds what its rules would else leave behind: x + 0, x * 1, -(-x). */
#include "passes/rewrite/one_hot.h"
#include "base/ice.h"
#include "passes/rewrite/reorder.h"

static void grow_table(Reorder *r)
{
    r->table = op_table_new(r->ctx->stage, 2 * r->b.f->ops.n + 64);
    r->n_table = 2 * r->b.f->ops.n + 64;
    for (IrId v = 0; v < r->b.f->ops.n; v++)
        if (!ro_knows(r, v, RO_PINNED)) *op_table_find(&r->table, r->b.f, ro_op(r, v)) = v + 1;
}

IrId ro_add(Reorder *r, IrOpcode op, IrType type, const IrId *args, uint32_t n, IrAttr attr)
{
    for (uint32_t k = 0; k < n; k++)
        if (args[k] == IR_NONE) return IR_NONE;
    if (r->b.f->ops.n >= r->n_table) grow_table(r);
    for (uint32_t k = 0; k < n; k++) ICE_UNLESS(args[k] < r->b.f->ops.n);
    IrId v = ir_add(r->b.m, r->b.f, op, type, args, n, attr, r->b.span);
    IrId *slot = op_table_find(&r->table, r->b.f, ro_op(r, v));
    if (*slot) {
        r->b.f->ops.n--;
        return *slot - 1;
    }
    *slot = v + 1;
    ICE_UNLESS(r->facts.n == v && r->values.n == v); /* one beside each op */
    Facts facts = reorder_facts(r, ro_op(r, v));
    VEC_PUSH(r->ctx->stage, &r->facts, facts);
    VEC_PUSH(r->ctx->stage, &r->values, (RoValue){.lift = IR_NONE});
    return v;
}

IrId ro_const(Reorder *r, IrType type, double value)
{
    return ro_add(r, IR_OP_const, type, NULL, 0, (IrAttr){.f = value});
}

IrId ro_unary(Reorder *r, IrOpcode op, IrType type, IrId x, IrAttr attr) { return ro_add(r, op, type, &x, 1, attr); }

IrId ro_neg(Reorder *r, IrId x)
{
    if (x == IR_NONE) return x;
    if (ro_op(r, x)->op == IR_OP_neg && !ro_knows(r, x, RO_PINNED)) return ro_op(r, x)->args[0];
    return ro_unary(r, IR_OP_neg, ro_type(r, x), x, (IrAttr){0});
}

/* Is x the number c, and does it not widen y? */
static bool is_neutral(const Reorder *r, IrId x, IrId y, double c)
{
    double value;
    IrType tx = ro_type(r, x), ty = ro_type(r, y), join = ir_type_join(&ty, &tx);
    return ro_is_const(r, x, &value) && value == c && ir_type_eq(&join, &ty);
}

IrId ro_map2(Reorder *r, IrOpcode op, IrId x, IrId y)
{
    if (x == IR_NONE || y == IR_NONE) return IR_NONE;
    bool sum = op == IR_OP_add || op == IR_OP_sub, product = op == IR_OP_mul || op == IR_OP_div;
    if ((sum || product) && is_neutral(r, y, x, sum ? 0 : 1)) return x;
    if ((op == IR_OP_add || op == IR_OP_mul) && is_neutral(r, x, y, sum ? 0 : 1)) return y;
    IrType tx = ro_type(r, x), ty = ro_type(r, y), type = ir_type_join(&tx, &ty), swapped = ir_type_join(&ty, &tx);
    /* What has all of the dims says their order: [F] * [P, F] is [P, F], as it lies in memory. */
    if ((op == IR_OP_add || op == IR_OP_mul) && ir_type_eq(&swapped, &ty) && !ir_type_eq(&type, &ty)) {
        IrId z = x;
        x = y, y = z;
        type = swapped;
    }
    if (op == IR_OP_eq) type.dtype = IR_BOOL;
    return ro_add(r, op, type, (IrId[]){x, y}, 2, (IrAttr){0});
}

IrId ro_select(Reorder *r, IrId c, IrId x, IrId y)
{
    if (c == IR_NONE || x == IR_NONE || y == IR_NONE) return IR_NONE;
    IrType tc = ro_type(r, c), tx = ro_type(r, x), ty = ro_type(r, y), type = ir_type_join(&tc, &tx);
    type = ir_type_join(&type, &ty);
    type.dtype = tx.dtype;
    return ro_add(r, IR_OP_select, type, (IrId[]){c, x, y}, 3, (IrAttr){0});
}

IrId ro_gather(Reorder *r, IrId map, IrId x)
{
    if (x == IR_NONE) return x;
    IrType type = ro_type(r, x);
    if (type.space == IR_UNIT && ro_map(r, map)->to == IR_UNIT && !ro_map(r, map)->partial) return x;
    if (type.space != ro_map(r, map)->to) return IR_NONE;
    type.space = ro_map(r, map)->from;
    return ro_unary(r, IR_OP_gather, type, x, (IrAttr){.map = map});
}

static bool has_own(const IrType *x, const IrType *y)
{
    for (uint32_t k = 0; k < x->n_dims; k++)
        if (!ir_type_has_dim(y, x->dims[k])) return true;
    return false;
}

/* Is v a product of rows, each with dims that the other lacks? Summed over all rows it is one of matrices. */
static bool is_outer(const Reorder *r, IrId v)
{
    const IrOp *op = ro_def(r, v);
    if (!op || op->op != IR_OP_mul) return false;
    IrType x = ro_type(r, op->args[0]), y = ro_type(r, op->args[1]);
    return x.space != IR_UNIT && y.space != IR_UNIT && has_own(&x, &y) && has_own(&y, &x);
}

IrId ro_reduce(Reorder *r, IrOpcode op, IrId map, IrId x, double empty)
{
    if (x == IR_NONE) return x;
    IrType type = ro_type(r, x);
    if (type.space != ro_map(r, map)->from) return IR_NONE;
    type.space = ro_map(r, map)->to;
    if (op == IR_OP_reduce_sum && type.space == IR_UNIT && !ro_map(r, map)->partial && is_outer(r, x))
        return ro_contract(r, ro_op(r, x)->args[0], ro_op(r, x)->args[1], type);
    return ro_unary(r, op, type, x, (IrAttr){.map = map, .f = empty});
}

IrType ro_kept(const IrType *type, const IrType *x, const IrType *y, IrId space)
{
    IrType t = *type;
    t.n_dims = 0;
    t.space = space;
    for (uint32_t k = 0; k < type->n_dims; k++)
        if (ir_type_has_dim(x, type->dims[k]) || ir_type_has_dim(y, type->dims[k])) t.dims[t.n_dims++] = type->dims[k];
    return t;
}

static bool is_pinned_one_hot(const Reorder *r, IrId v)
{
    while (!ro_knows(r, v, RO_PINNED) && ro_op(r, v)->op != IR_OP_eq) v = ro_op(r, v)->args[0];
    return ro_knows(r, v, RO_PINNED);
}

IrId ro_contract(Reorder *r, IrId x, IrId y, IrType type)
{
    if (x == IR_NONE || y == IR_NONE) return IR_NONE;
    IrType tx = ro_type(r, x), ty = ro_type(r, y);
    IrId space = tx.space != IR_UNIT ? tx.space : ty.space;
    if (tx.space != IR_UNIT && ty.space != IR_UNIT && tx.space != ty.space) return IR_NONE;
    if (type.space == IR_UNIT && space != IR_UNIT && (tx.space == IR_UNIT || ty.space == IR_UNIT)) return IR_NONE;
    IrType kept = ro_kept(&type, &tx, &ty, type.space == IR_UNIT ? IR_UNIT : space), all = ir_type_join(&tx, &ty);
    if (tx.n_dims + ty.n_dims > IR_MAX_DIMS && all.n_dims == IR_MAX_DIMS) return IR_NONE; /* some may be cut off */
    if (all.n_dims == kept.n_dims && kept.space == space) return ro_map2(r, IR_OP_mul, x, y);
    IrOp product = {.op = IR_OP_contract, .type = kept, .args = (IrId[]){x, y}, .n_args = 2},
         at = {.args = (IrId[2]){0}};
    bool place = one_hot_place(r->b.f, NULL, &product, &at) && ir_type_eq(&at.type, &kept);
    if (place && !is_pinned_one_hot(r, at.args[0] == x ? y : x)) return ro_add(r, IR_OP_at, kept, at.args, 2, at.attr);
    bool outer = kept.space == IR_UNIT && space != IR_UNIT;
    bool swap = outer ? kept.n_dims && !ir_type_has_dim(&tx, kept.dims[0]) : tx.space == IR_UNIT && ty.space != IR_UNIT;
    return ro_add(r, IR_OP_contract, kept, (IrId[]){swap ? y : x, swap ? x : y}, 2, (IrAttr){0});
}

IrOp ro_linear(Reorder *r, IrId v)
{
    IrOp op = *ro_op(r, v);
    if (op.op != IR_OP_at || !ir_dtype_is_float(op.type.dtype)) return op;
    if (ro_type(r, op.args[0]).space != IR_UNIT && !ro_knows(r, op.args[0], FACT_IN_RANGE)) return op;
    IrType places = {.dtype = IR_I64, .n_dims = 1, .dims = {op.attr.dim}};
    IrId iota = ro_add(r, IR_OP_iota, places, NULL, 0, (IrAttr){.dim = op.attr.dim});
    IrId hot = ro_map2(r, IR_OP_eq, op.args[1], iota), *args = ARENA_ARRAY(r->ctx->stage, IrId, 2);
    IrType t = ro_type(r, hot);
    t.dtype = op.type.dtype;
    args[0] = ro_unary(r, IR_OP_cast, t, hot, (IrAttr){0});
    args[1] = op.args[0];
    op.op = IR_OP_contract;
    op.args = args;
    return op;
}

bool ro_product(Reorder *r, IrId v, IrOp *out)
{
    if (!ro_def(r, v)) return false;
    *out = ro_linear(r, v);
    if (out->op == IR_OP_sum_dims && ro_def(r, out->args[0])) {
        IrOp x = ro_linear(r, out->args[0]);
        if ((x.op != IR_OP_mul && x.op != IR_OP_contract) || x.type.space != out->type.space) return false;
        *out = (IrOp){.op = IR_OP_contract, .type = out->type, .args = x.args, .n_args = 2, .span = out->span};
    }
    return out->op == IR_OP_contract;
}

IrId ro_slice(Reorder *r, IrId x, IrId dim, int64_t first, IrId to)
{
    IrType type = ro_type(r, x);
    if (!ir_type_has_dim(&type, dim) || ir_type_has_dim(&type, to)) return IR_NONE;
    ICE_UNLESS(first >= 0 && first + r->b.m->dims.data[to].size <= r->b.m->dims.data[dim].size);
    for (uint32_t k = 0; k < type.n_dims; k++)
        if (type.dims[k] == dim) type.dims[k] = to;
    return ro_unary(r, IR_OP_slice, type, x, (IrAttr){.dim = dim, .i = first});
}

IrId ro_as(Reorder *r, IrId x, IrType type)
{
    if (x == IR_NONE) return x;
    IrType t = ro_type(r, x);
    if (ir_type_eq(&t, &type)) return x;
    if (t.space == type.space && t.n_dims == type.n_dims) return ro_unary(r, IR_OP_transpose, type, x, (IrAttr){0});
    return ro_add(r, IR_OP_mul, type, (IrId[]){ro_const(r, type, 1), x}, 2, (IrAttr){0});
}

IrId ro_alias(Reorder *r, IrId dim)
{
    for (uint32_t i = 0; i < r->aliases->n; i++)
        if (r->aliases->data[i].dim == dim) return r->aliases->data[i].alias;
    IrModule *m = r->b.m;
    const char *name = arena_printf(m->arena, "%s.in", m->dims.data[dim].name);
    RoAlias made = {dim, IR_NONE};
    for (IrId d = 0; d < m->dims.n; d++) /* of the pass before */
        if (m->dims.data[d].size == m->dims.data[dim].size && !strcmp(m->dims.data[d].name, name)) made.alias = d;
    if (made.alias == IR_NONE) made.alias = ir_dim_new(m, name, m->dims.data[dim].size);
    ICE_UNLESS(made.alias != dim && m->dims.data[made.alias].size == m->dims.data[dim].size);
    VEC_PUSH(r->ctx->stage, r->aliases, made);
    return made.alias;
}

IrId ro_degree(Reorder *r, IrId map, IrDtype t)
{
    IrType type = {.space = ro_map(r, map)->from, .dtype = t};
    return ro_reduce(r, IR_OP_reduce_sum, map, ro_const(r, type, 1), 0);
}

/* ---- names ---- */

static IrType with_dim(IrType t, IrId from, IrId to)
{
    for (uint32_t k = 0; k < t.n_dims; k++)
        if (t.dims[k] == from) t.dims[k] = to;
    return t;
}

/* Rows, sums and products name no dim; the rest is viewed from outside. */
static bool passes_names(IrOpcode op)
{
    switch (op) {
    case IR_OP_neg:
    case IR_OP_add:
    case IR_OP_sub:
    case IR_OP_mul:
    case IR_OP_div:
    case IR_OP_gather:
    case IR_OP_reduce_sum:
    case IR_OP_transpose:
    case IR_OP_const: return true;
    default: return false;
    }
}

IrId ro_renamed(Reorder *r, IrId x, IrId from, IrId to)
{
    if (x == IR_NONE || from == to || !ro_has_dim(r, x, from)) return x;
    if (ro_has_dim(r, x, to)) return IR_NONE;
    IrOp op = *ro_op(r, x);
    IrType type = with_dim(op.type, from, to);
    if (ro_knows(r, x, RO_PINNED) || !passes_names(op.op) || op.n_args > 2) {
        if (op.op == IR_OP_reshape && !ro_knows(r, x, RO_PINNED)) {
            IrType inner = ro_type(r, op.args[0]);
            if (ir_type_eq(&inner, &type)) return op.args[0];
        }
        return ro_unary(r, IR_OP_reshape, type, x, (IrAttr){0});
    }
    IrId args[2];
    for (uint32_t k = 0; k < op.n_args; k++) args[k] = ro_renamed(r, op.args[k], from, to);
    return ro_add(r, op.op, type, args, op.n_args, op.attr);
}
