/* Rules about where values live: views of views, pieces of concatenations, and broadcasts. A
   broadcast is written mul(const 1 : type, x); pointwise ops read x directly, and what needs only x
   is computed at x's size and broadcast later, so that broadcasts sink to where something must be
   stored in full. */
#include "ir/order.h"
#include "passes/rewrite/one_hot.h"
#include "base/ice.h"
#include "passes/rewrite/simplify.h"

/* ---- views ---- */

static IrId view(Simplify *s, const IrOp *op, IrOpcode code, IrId x)
{
    IrType t = irb_type(&s->b, x);
    if (ir_type_eq(&t, &op->type)) return x;
    return simplify_add(s, simplify_op1(s, op, code, x));
}

/* A view of a view;  a view that changes nothing;  a slice of everything, a concat of one. */
IrId rule_view(Simplify *s, const IrOp *op)
{
    if (!op->n_args) return IR_NONE;
    IrId x = op->args[0];
    IrType t = irb_type(&s->b, x);
    if (op->op == IR_OP_reshape || op->op == IR_OP_transpose) {
        if (ir_type_eq(&t, &op->type)) return x;
        const IrOp *inner = simplify_def(s, x);
        return inner->op == op->op ? view(s, op, op->op, inner->args[0]) : IR_NONE;
    }
    if ((op->op == IR_OP_sum_dims || op->op == IR_OP_max_dims || op->op == IR_OP_min_dims) &&
        ir_type_eq(&t, &op->type) && (op->op != IR_OP_sum_dims || simplify_knows(s, x, FACT_NO_NEG_ZERO)))
        return x;
    if (op->op == IR_OP_concat && op->n_args == 1) return view(s, op, IR_OP_reshape, x);
    if (op->op == IR_OP_slice && ir_type_width(s->b.m, &t) == ir_type_width(s->b.m, &op->type))
        return view(s, op, IR_OP_reshape, x);
    return IR_NONE;
}

static uint32_t position(const IrType *t, IrId dim)
{
    uint32_t k = 0;
    while (k < t->n_dims && t->dims[k] != dim) k++;
    return k;
}

static int64_t size_at(const Simplify *s, const IrType *t, uint32_t k) { return s->b.m->dims.data[t->dims[k]].size; }

static IrId slice_of(Simplify *s, const IrOp *op, IrId x, IrId dim, int64_t first)
{
    IrOp it = simplify_op1(s, op, IR_OP_slice, x);
    it.attr.dim = dim;
    it.attr.i = first;
    return simplify_try(s, &it);
}

/* The operand of a concat that holds elements [first, first + n) whole, sliced. */
static IrId slice_of_concat(Simplify *s, const IrOp *op, const IrOp *concat, uint32_t k)
{
    int64_t first = op->attr.i, n = size_at(s, &op->type, k);
    ICE_UNLESS(k < op->type.n_dims && op->attr.i >= 0);
    for (uint32_t i = 0; i < concat->n_args; i++) {
        IrType part = irb_type(&s->b, concat->args[i]);
        int64_t size = size_at(s, &part, k);
        if (first < size) return first + n <= size ? slice_of(s, op, concat->args[i], part.dims[k], first) : IR_NONE;
        first -= size;
    }
    return IR_NONE;
}

/* Of a concat's operand: the concat along the same dim that nothing else wants, whose operands can stand in its
   place. */
static const IrOp *joined(const Simplify *s, const IrOp *op, uint32_t i)
{
    const IrOp *inner = simplify_def(s, op->args[i]);
    if (inner->op != IR_OP_concat || s->shared.data[op->args[i]]) return NULL;
    return position(&inner->type, inner->attr.dim) == position(&op->type, op->attr.dim) ? inner : NULL;
}

/* A concat of concats is one of all their pieces, as far as they are not too many to be told apart later. */
static IrId join(Simplify *s, const IrOp *op)
{
    IrOp it = *op;
    for (uint32_t i = 0; i < op->n_args; i++) it.n_args += joined(s, op, i) ? joined(s, op, i)->n_args - 1 : 0;
    if (it.n_args == op->n_args || it.n_args > MOST_PIECES) return IR_NONE;
    ICE_UNLESS(it.n_args > op->n_args);
    it.args = ARENA_ARRAY(s->b.m->arena, IrId, it.n_args);
    for (uint32_t i = 0, n = 0; i < op->n_args; i++) {
        const IrOp *inner = joined(s, op, i);
        memcpy(it.args + n, inner ? inner->args : op->args + i, (inner ? inner->n_args : 1) * sizeof *it.args);
        n += inner ? inner->n_args : 1;
    }
    return simplify_try(s, &it);
}

/* A slice of a slice, and of a concat that has it in one piece; a concat of concats. */
IrId rule_pieces(Simplify *s, const IrOp *op)
{
    if (op->op == IR_OP_concat) return join(s, op);
    if (op->op != IR_OP_slice) return IR_NONE;
    const IrOp *inner = simplify_def(s, op->args[0]);
    IrType t = irb_type(&s->b, op->args[0]);
    uint32_t k = position(&t, op->attr.dim);
    if (inner->op == IR_OP_concat && inner->attr.dim == op->attr.dim) return slice_of_concat(s, op, inner, k);
    if (inner->op != IR_OP_slice) return IR_NONE;
    IrType whole = irb_type(&s->b, inner->args[0]);
    if (position(&whole, inner->attr.dim) != k) return IR_NONE;
    return slice_of(s, op, inner->args[0], inner->attr.dim, inner->attr.i + op->attr.i);
}

/* A sum of products with a one-hot, over its dim alone, is the element at the place that the index says. */
IrId rule_at(Simplify *s, const IrOp *op)
{
    IrOp it = simplify_op2(s, op, IR_OP_at, IR_NONE, IR_NONE);
    return one_hot_place(s->b.f, s->pinned.data, op, &it) ? simplify_spread(s, simplify_add(s, it), op) : IR_NONE;
}

/* ---- transposes ---- */

static IrId transposed(const Simplify *s, IrId v)
{
    const IrOp *op = simplify_def(s, v);
    return op->op == IR_OP_transpose ? op->args[0] : v;
}

/* How many dims of t the result lacks and `other` (or nobody, if NULL) has not either. */
static uint32_t n_summed(const IrType *t, const IrType *result, const IrType *other)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n += !ir_type_has_dim(result, t->dims[i]) && !(other && ir_type_has_dim(other, t->dims[i]));
    return n;
}

/* Does the order of an operand's dims fix the order of a sum? A contract walks the summed dims as
   they stand in its first operand, then those that only the second has. */
static bool order_matters(const Simplify *s, const IrOp *op, uint32_t i)
{
    IrType x = irb_type(&s->b, op->args[0]);
    if (op->op == IR_OP_max_dims || op->op == IR_OP_min_dims) return false;
    if (i == 0) return n_summed(&x, &op->type, NULL) > 1;
    IrType y = irb_type(&s->b, op->args[1]);
    return n_summed(&y, &op->type, &x) > 1;
}

/* Would another order of an operand's dims make a sum of products one of 16 partials, or no longer? */
static bool form_changes(const Simplify *s, const IrOp *op, const IrOp *it)
{
    if (op->op != IR_OP_contract) return false;
    IrType a = irb_type(&s->b, op->args[0]), b = irb_type(&s->b, op->args[1]);
    IrType x = irb_type(&s->b, it->args[0]), y = irb_type(&s->b, it->args[1]);
    return contract_types_dot(&a, &b, &op->type) != contract_types_dot(&x, &y, &op->type);
}

/* Reductions over dims name the dims of their result: they read the operand of a transpose. */
IrId rule_names(Simplify *s, const IrOp *op)
{
    bool reduces = op->op == IR_OP_sum_dims || op->op == IR_OP_max_dims || op->op == IR_OP_min_dims ||
                   op->op == IR_OP_contract;
    if (!reduces) return IR_NONE;
    IrOp it = simplify_op2(s, op, op->op, op->args[0], op->args[op->n_args - 1]);
    it.n_args = op->n_args;
    bool changed = false;
    for (uint32_t i = 0; i < op->n_args; i++) {
        if (!order_matters(s, op, i)) it.args[i] = transposed(s, op->args[i]);
        changed |= it.args[i] != op->args[i];
    }
    return changed && !form_changes(s, op, &it) ? simplify_try(s, &it) : IR_NONE;
}

/* ---- broadcasts ---- */

static bool is_total(const Simplify *s, IrId map) { return !s->b.m->maps.data[map].partial; }

/* What is broadcast to x: of a const, one element a row; x itself if nothing. */
static IrId row_value(Simplify *s, IrId x)
{
    IrId inner = simplify_broadcast_of(s, x);
    if (inner != IR_NONE) return inner;
    double c;
    IrOp like = {.type = irb_type(&s->b, x), .span = irb_op(&s->b, x)->span};
    if (!like.type.n_dims || !simplify_const(s, x, &c)) return x;
    like.type.n_dims = 0;
    return simplify_constant(s, &like, c);
}

/* gather and reduce_* of a broadcast over feature dims move the small value; a gather of what has
   one row is a broadcast. */
IrId rule_move(Simplify *s, const IrOp *op)
{
    if (!(ir_ops[op->op].traits & (T_MOVE | T_REDUCE))) return IR_NONE;
    bool moves = ir_ops[op->op].traits & T_MOVE;
    IrId x = op->args[0], inner = row_value(s, x);
    IrType t = irb_type(&s->b, inner);
    if (t.space == IR_UNIT && (inner != x || moves))
        return moves && is_total(s, op->attr.map) ? simplify_spread(s, inner, op) : IR_NONE;
    if (inner == x) return IR_NONE;
    IrOp it = simplify_op1(s, op, op->op, inner);
    it.attr = op->attr;
    it.type = t;
    it.type.space = op->type.space;
    return simplify_spread(s, simplify_add(s, it), op);
}

/* What a pointwise op may read instead of v: the small value of a broadcast or a const, the operand
   of a transpose (dims go by name). */
static IrId peel(Simplify *s, IrId v)
{
    for (;;) {
        const IrOp *op = simplify_def(s, v);
        IrId inner = simplify_broadcast_of(s, v);
        double c;
        if (inner == IR_NONE && op->op == IR_OP_transpose) inner = op->args[0];
        if (inner == IR_NONE && simplify_const(s, v, &c) && (op->type.space != IR_UNIT || op->type.n_dims)) {
            IrOp like = {.type = ir_scalar(op->type.dtype), .span = op->span};
            inner = simplify_constant(s, &like, c);
        }
        if (inner == IR_NONE) return v;
        v = inner;
    }
}

/* The dims of `type` that an operand has, in type's order, and the space if one lives there. */
static IrType covered(const Simplify *s, const IrOp *op, IrType type)
{
    IrType t = type;
    t.n_dims = 0;
    t.space = IR_UNIT;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (irb_type(&s->b, op->args[i]).space != IR_UNIT) t.space = type.space;
    for (uint32_t k = 0; k < type.n_dims; k++) {
        bool has = false;
        for (uint32_t i = 0; i < op->n_args; i++) {
            IrType x = irb_type(&s->b, op->args[i]);
            has |= ir_type_has_dim(&x, type.dims[k]);
        }
        if (has) t.dims[t.n_dims++] = type.dims[k];
    }
    return t;
}

IrId rule_narrow(Simplify *s, const IrOp *op)
{
    uint16_t traits = ir_ops[op->op].traits;
    if (!(traits & T_MAP) || traits & (T_RANDOM | T_VIEW) || !op->n_args) return IR_NONE;
    if (ir_dtype_is_16_bits(op->type.dtype)) return IR_NONE; /* a broadcast is a product */
    IrOp it = *op;
    it.args = ARENA_ARRAY(s->b.m->arena, IrId, op->n_args);
    bool changed = false, broadcasts = simplify_is_broadcast(s, op);
    for (uint32_t i = 0; i < op->n_args; i++) {
        bool keep = i == 0 && broadcasts; /* the const stands for the type */
        it.args[i] = keep ? op->args[i] : peel(s, op->args[i]);
        changed |= it.args[i] != op->args[i];
    }
    if (!changed) return IR_NONE;
    it.type = covered(s, &it, op->type);
    return simplify_spread(s, simplify_add(s, it), op);
}
