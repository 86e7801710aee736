/* Where in a chain of linear operations a product with a weight stands: it commutes with all that happens to rows.
     contract(gather x, W)       =  gather(contract(x, W))
     contract(reduce_sum x, W)   =  reduce_sum(contract(x, W))
     contract(s x, W)            =  s contract(x, W)
     contract(x - y, W)          =  contract(x, W) - contract(y, W)
     contract(concat(x, y), W)   =  contract(x, W') + contract(y, W'')
     contract(contract(x, V), W) =  contract(x, contract(V, W))
     contract(reshape x, W)      =  contract(x, reshape W)         so contract(s (x) x, W) = contract(s, contract(x, W))
     contract(z, contract(x, V)) =  contract(x, contract(z, V))      z per row as well, also through views of V
   and a weight's gradient, the sum of outer products over rows: sum_e x[src e] (x) d[e] = sum_v x[v] (x) sum of d.
   Each step takes the cheaper of stopping here and going on. */
#include "passes/rewrite/reorder.h"
#include "base/ice.h"

static bool has(const IrType *t, IrId dim) { return ir_type_has_dim(t, dim); }

/* Does t have a dim that is summed? */
static bool has_summed(const IrType *t, const IrType *result)
{
    for (uint32_t k = 0; k < t->n_dims; k++)
        if (!has(result, t->dims[k])) return true;
    return false;
}

/* Each summed dim of `whole` is in `part` or in w: then a sum of parts is summed part by part. */
static bool covers(const IrType *part, const IrType *whole, const IrType *w, const IrType *result)
{
    for (uint32_t k = 0; k < whole->n_dims; k++) {
        IrId dim = whole->dims[k];
        if (!has(result, dim) && !has(part, dim) && !has(w, dim)) return false;
    }
    return true;
}

/* ---- three factors ---- */

/* contract(contract(x, y) : inner, z) : result = contract(x, contract(y, z) : *out) : result. */
static bool reassociates(const IrType *x, const IrType *y, const IrType *inner, const IrType *z, const IrType *result,
                         IrType *out)
{
    for (uint32_t i = 0; i < 2; i++) {
        const IrType *t = i ? y : x;
        for (uint32_t k = 0; k < t->n_dims; k++)
            if (!has(inner, t->dims[k]) && (has(z, t->dims[k]) || has(result, t->dims[k]))) return false;
    }
    *out = ir_type_join(y, z);
    uint32_t n = 0;
    for (uint32_t k = 0; k < out->n_dims; k++)
        if (has(result, out->dims[k]) || has(x, out->dims[k])) out->dims[n++] = out->dims[k];
    out->n_dims = (uint8_t)n;
    return x->n_dims + y->n_dims + z->n_dims <= 2 * IR_MAX_DIMS && y->n_dims + z->n_dims <= IR_MAX_DIMS;
}

/* ---- products with a weight ---- */

/* The parts of a concat, each with its part of w. */
static IrId matmul_concat(Reorder *r, IrOp op, IrId w, IrType type, int depth)
{
    IrId sum = IR_NONE, dim = op.attr.dim;
    int64_t first = 0;
    uint32_t at = 0;
    ICE_UNLESS(has(&op.type, dim));
    while (op.type.dims[at] != dim) at++;
    if (has(&type, dim)) return IR_NONE;
    for (uint32_t i = 0; i < op.n_args; i++) {
        IrId own = ro_type(r, op.args[i]).dims[at];
        bool clash = has(&type, own) || ro_has_dim(r, w, own);
        IrId name = clash ? ro_alias(r, own) : own, part = ro_renamed(r, op.args[i], own, name);
        IrId weight = ro_has_dim(r, w, dim) ? ro_slice(r, w, dim, first, name) : w;
        IrId v = reorder_matmul(r, part, weight, type, depth);
        if (v == IR_NONE) return v;
        sum = sum == IR_NONE ? v : ro_map2(r, IR_OP_add, sum, v);
        first += r->b.m->dims.data[own].size;
    }
    return sum;
}

/* (s x) W = sum over k of s[k] (x W)[k], k the dims of s that are summed. */
static IrId matmul_weighted(Reorder *r, IrId s, IrId x, IrId w, IrType type, int depth)
{
    IrType ts = ro_type(r, s), tx = ro_type(r, x), tw = ro_type(r, w), inner = ir_type_join(&tx, &tw);
    if (tx.n_dims + tw.n_dims > IR_MAX_DIMS || ts.n_dims + tx.n_dims > IR_MAX_DIMS) return IR_NONE;
    uint32_t n = 0;
    for (uint32_t k = 0; k < inner.n_dims; k++)
        if (has(&type, inner.dims[k]) || has(&ts, inner.dims[k])) inner.dims[n++] = inner.dims[k];
    inner.n_dims = (uint8_t)n;
    if (n == tx.n_dims + tw.n_dims) return IR_NONE; /* nothing would be summed inside */
    return ro_contract(r, s, reorder_matmul(r, x, w, inner, depth), type);
}

/* A factor of its own. */
static IrId matmul_scaled(Reorder *r, IrOp op, uint32_t factor, IrId w, IrType type, int depth)
{
    IrType s = ro_type(r, op.args[factor]), x = ro_type(r, op.args[1 - factor]), tw = ro_type(r, w);
    if (has_summed(&s, &type) && op.op == IR_OP_mul && x.space != IR_UNIT && s.space != IR_UNIT)
        return matmul_weighted(r, op.args[factor], op.args[1 - factor], w, type, depth);
    if (has_summed(&s, &type) || !covers(&x, &op.type, &tw, &type)) return IR_NONE;
    IrId v = reorder_matmul(r, op.args[1 - factor], w, type, depth);
    return factor ? ro_map2(r, op.op, v, op.args[1]) : ro_map2(r, op.op, op.args[0], v);
}

static IrId matmul_sum(Reorder *r, IrOp op, IrId w, IrType type, int depth)
{
    IrType tw = ro_type(r, w);
    IrId v[2];
    for (uint32_t k = 0; k < 2; k++) {
        IrType x = ro_type(r, op.args[k]);
        if (!covers(&x, &op.type, &tw, &type)) return IR_NONE;
        v[k] = reorder_matmul(r, op.args[k], w, type, depth);
    }
    return ro_map2(r, op.op, v[0], v[1]);
}

static IrId matmul_of_product(Reorder *r, IrOp op, IrId w, IrType type, int depth)
{
    IrType tw = ro_type(r, w), out;
    for (uint32_t k = 0; k < 2; k++) {
        IrType x = ro_type(r, op.args[k]), y = ro_type(r, op.args[1 - k]);
        if (y.space != IR_UNIT || x.space == IR_UNIT || !reassociates(&x, &y, &op.type, &tw, &type, &out)) continue;
        out.space = IR_UNIT;
        return reorder_matmul(r, op.args[k], ro_contract(r, op.args[1 - k], w, out), type, depth);
    }
    return IR_NONE;
}

/* w[.., from, ..] as w[.., to, ..]; IR_NONE unless the dims of `from` stand side by side in w. */
static IrId weight_viewed(Reorder *r, IrId w, const IrType *from, const IrType *to)
{
    IrType t = ro_type(r, w);
    uint32_t at = 0, n = 0;
    while (at < t.n_dims && t.dims[at] != from->dims[0]) at++;
    if (!from->n_dims || at + from->n_dims > t.n_dims || memcmp(t.dims + at, from->dims, from->n_dims * sizeof *t.dims))
        return IR_NONE;
    if (t.n_dims - from->n_dims + to->n_dims > IR_MAX_DIMS) return IR_NONE;
    IrType out = t;
    for (uint32_t k = 0; k < at; k++) out.dims[n++] = t.dims[k];
    for (uint32_t k = 0; k < to->n_dims; k++) out.dims[n++] = to->dims[k];
    for (uint32_t k = at + from->n_dims; k < t.n_dims; k++) out.dims[n++] = t.dims[k];
    out.n_dims = (uint8_t)n;
    return ro_unary(r, IR_OP_reshape, out, w, (IrAttr){0});
}

/* A dim under another name, and nothing else. */
static bool renames(const IrType *from, const IrType *to, IrId *old, IrId *now)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < from->n_dims && from->n_dims == to->n_dims; k++)
        if (from->dims[k] != to->dims[k]) {
            *old = from->dims[k];
            *now = to->dims[k];
            n++;
        }
    return n == 1 && from->space == to->space && from->n_dims == to->n_dims;
}

/* What is summed as [F*K] is summed as [F, K], with that view of the weight. */
static IrId matmul_split(Reorder *r, IrOp op, IrId w, IrType type, int depth)
{
    IrType from = op.type, to = ro_type(r, op.args[0]);
    uint8_t same = 0;
    if (from.space != to.space) return IR_NONE; /* a dim may become rows */
    while (same < from.n_dims && same < to.n_dims && from.dims[same] == to.dims[same]) same++;
    from.n_dims -= same;
    to.n_dims -= same;
    memmove(from.dims, from.dims + same, from.n_dims * sizeof *from.dims);
    memmove(to.dims, to.dims + same, to.n_dims * sizeof *to.dims);
    for (uint32_t k = 0; k < from.n_dims; k++)
        if (has(&type, from.dims[k])) return IR_NONE;
    for (uint32_t k = 0; k < to.n_dims; k++)
        if (has(&type, to.dims[k]) || ro_has_dim(r, w, to.dims[k])) return IR_NONE;
    if (!to.n_dims) return IR_NONE;
    return reorder_matmul(r, op.args[0], weight_viewed(r, w, &from, &to), type, depth);
}

static IrId matmul_view(Reorder *r, IrOp op, IrId w, IrType type, int depth)
{
    IrType inner = ro_type(r, op.args[0]);
    IrId old, now;
    if (!renames(&inner, &op.type, &old, &now)) return matmul_split(r, op, w, type, depth);
    IrId x = ro_renamed(r, op.args[0], old, now);
    if (x == IR_NONE || ro_op(r, x)->op == IR_OP_reshape) return IR_NONE;
    return reorder_matmul(r, x, w, type, depth);
}

static IrId matmul_step(Reorder *r, IrId x, IrId w, IrType type, int depth)
{
    IrOp op = ro_linear(r, x);
    switch (op.op) {
    case IR_OP_neg: return ro_neg(r, reorder_matmul(r, op.args[0], w, type, depth));
    case IR_OP_transpose: return reorder_matmul(r, op.args[0], w, type, depth);
    case IR_OP_gather:
        if (ro_type(r, op.args[0]).space == IR_UNIT) return IR_NONE;
        if (r->has_grad && !ro_knows(r, op.args[0], FACT_IN_RANGE)) return IR_NONE;
        return ro_gather(r, op.attr.map, reorder_matmul(r, op.args[0], w, type, depth));
    case IR_OP_reduce_sum: return reorder_rows_sum(r, reorder_matmul(r, op.args[0], w, type, depth), op.attr.map, 0);
    case IR_OP_add:
    case IR_OP_sub: return matmul_sum(r, op, w, type, depth);
    case IR_OP_mul: {
        IrId v = matmul_scaled(r, op, 0, w, type, depth);
        return reorder_cheaper(r, v, matmul_scaled(r, op, 1, w, type, depth));
    }
    case IR_OP_div: return matmul_scaled(r, op, 1, w, type, depth);
    case IR_OP_concat: return matmul_concat(r, op, w, type, depth);
    case IR_OP_contract: return matmul_of_product(r, op, w, type, depth);
    case IR_OP_reshape: return matmul_view(r, op, w, type, depth);
    default: return IR_NONE;
    }
}

IrId reorder_matmul(Reorder *r, IrId x, IrId w, IrType type, int depth)
{
    if (x == IR_NONE || w == IR_NONE) return IR_NONE;
    IrType tx = ro_type(r, x), tw = ro_type(r, w);
    ICE_UNLESS(tw.space == IR_UNIT);
    type = ro_kept(&type, &tx, &tw, tx.space);
    IrId stop = ro_contract(r, x, w, type);
    if (!depth || tx.space == IR_UNIT || !ro_def(r, x)) return stop;
    return reorder_cheaper(r, stop, matmul_step(r, x, w, type, depth - 1));
}

/* ---- products of two values per row ---- */

/* x W as a value of type `to`, another view of it: x (view of W). */
static IrId product_viewed(Reorder *r, const IrOp *op, const IrType *to)
{
    for (uint32_t k = 0; k < 2; k++) {
        IrType x = ro_type(r, op->args[k]), w = ro_type(r, op->args[1 - k]);
        bool apart = w.space == IR_UNIT;
        for (uint32_t i = 0; i < op->type.n_dims; i++) apart &= !has(&x, op->type.dims[i]);
        for (uint32_t i = 0; i < to->n_dims; i++) apart &= !has(&x, to->dims[i]) && !has(&w, to->dims[i]);
        if (apart) return ro_contract(r, op->args[k], weight_viewed(r, op->args[1 - k], &op->type, to), *to);
    }
    return IR_NONE;
}

/* v as a value of type `to`, which a reshape of it has: said of the weights that v is made of. */
static IrId viewed(Reorder *r, IrId v, IrType to, int depth)
{
    const IrOp *def = ro_def(r, v);
    IrType t = ro_type(r, v);
    if (!t.n_dims) return v;
    to.space = t.space;
    if (ir_type_width(r->b.m, &t) != ir_type_width(r->b.m, &to)) return IR_NONE;
    if (t.space == IR_UNIT) return ro_unary(r, IR_OP_reshape, to, v, (IrAttr){0});
    if (!depth || !def) return IR_NONE;
    IrOp op = ro_linear(r, v);
    if (op.op == IR_OP_contract) return product_viewed(r, &op, &to);
    if (op.op == IR_OP_neg) return ro_neg(r, viewed(r, op.args[0], to, depth - 1));
    if (op.op != IR_OP_add && op.op != IR_OP_sub && op.op != IR_OP_mul && op.op != IR_OP_div) return IR_NONE;
    return ro_map2(r, op.op, viewed(r, op.args[0], to, depth - 1), viewed(r, op.args[1], to, depth - 1));
}

static IrId meet(Reorder *r, IrId z, IrId y, IrType type, int depth);

/* <z, x V> = <x, z V>: the weight goes to the side that has fewer rows. */
static IrId meet_product(Reorder *r, IrId z, const IrOp *op, IrType type)
{
    IrType tz = ro_type(r, z), out;
    for (uint32_t k = 0; k < 2; k++) {
        IrType x = ro_type(r, op->args[k]), v = ro_type(r, op->args[1 - k]);
        if (v.space != IR_UNIT || x.space == IR_UNIT || !reassociates(&x, &v, &op->type, &tz, &type, &out)) continue;
        return ro_contract(r, op->args[k], reorder_matmul(r, z, op->args[1 - k], out, RO_MAX_DEPTH), type);
    }
    return IR_NONE;
}

static IrId meet_step(Reorder *r, IrId z, IrId y, IrType type, int depth)
{
    const IrOp op = ro_linear(r, y);
    IrType tz = ro_type(r, z), parts[2];
    for (uint32_t k = 0; k < 2 && k < op.n_args; k++) parts[k] = ro_type(r, op.args[k]);
    switch (op.op) {
    case IR_OP_contract: return meet_product(r, z, &op, type);
    case IR_OP_neg: return ro_neg(r, meet(r, z, op.args[0], type, depth));
    case IR_OP_transpose: return meet(r, z, op.args[0], type, depth);
    case IR_OP_reshape: return meet(r, z, viewed(r, op.args[0], op.type, depth), type, depth);
    case IR_OP_add:
    case IR_OP_sub:
        if (!covers(&parts[0], &op.type, &tz, &type) || !covers(&parts[1], &op.type, &tz, &type)) return IR_NONE;
        return ro_map2(r, op.op, meet(r, z, op.args[0], type, depth), meet(r, z, op.args[1], type, depth));
    case IR_OP_mul:
        for (uint32_t k = 0; k < 2; k++)
            if (!has_summed(&parts[k], &type) && covers(&parts[1 - k], &op.type, &tz, &type))
                return ro_map2(r, IR_OP_mul, op.args[k], meet(r, z, op.args[1 - k], type, depth));
        return IR_NONE;
    default: return IR_NONE;
    }
}

/* contract z, y : type, z per row and y whatever is linear in a weight. */
static IrId meet(Reorder *r, IrId z, IrId y, IrType type, int depth)
{
    if (z == IR_NONE || y == IR_NONE) return IR_NONE;
    IrType tz = ro_type(r, z), ty = ro_type(r, y);
    type = ro_kept(&type, &tz, &ty, tz.space);
    if (ty.space == IR_UNIT) return reorder_matmul(r, z, y, type, RO_MAX_DEPTH);
    IrId stop = ro_contract(r, z, y, type);
    return depth && ro_def(r, y) ? reorder_cheaper(r, stop, meet_step(r, z, y, type, depth - 1)) : stop;
}

/* ---- outer products, summed over all rows ---- */

/* How far to go; whether it is the second operand's turn already. */
typedef struct Way {
    int depth;
    bool turned, whole; /* whole: to the end of the first, whatever it costs */
} Way;
static IrId outer(Reorder *r, IrId x, IrId y, IrType type, Way way);

static IrId outer_concat(Reorder *r, IrOp op, IrId y, IrType type, Way way)
{
    IrId dim = op.attr.dim, parts[RO_MAX_TERMS];
    uint32_t at = 0;
    while (op.type.dims[at] != dim) at++;
    if (!has(&type, dim) || ro_has_dim(r, y, dim) || op.n_args > RO_MAX_TERMS) return IR_NONE;
    for (uint32_t i = 0; i < op.n_args; i++) {
        IrId own = ro_type(r, op.args[i]).dims[at];
        bool clash = has(&type, own) || ro_has_dim(r, y, own);
        IrId name = clash ? ro_alias(r, own) : own;
        IrType t = type;
        for (uint32_t k = 0; k < t.n_dims; k++)
            if (t.dims[k] == dim) t.dims[k] = name;
        parts[i] = ro_as(r, outer(r, ro_renamed(r, op.args[i], own, name), y, t, way), t);
    }
    return ro_add(r, IR_OP_concat, type, parts, op.n_args, op.attr);
}

/* sum (x V) (x) y = (sum x (x) y) V */
static IrId outer_of_product(Reorder *r, IrOp op, IrId y, IrType type, Way way)
{
    IrType ty = ro_type(r, y), out;
    for (uint32_t k = 0; k < 2; k++) {
        IrType x = ro_type(r, op.args[k]), v = ro_type(r, op.args[1 - k]);
        if (v.space != IR_UNIT || x.space == IR_UNIT || !reassociates(&v, &x, &op.type, &ty, &type, &out)) continue;
        out.space = IR_UNIT;
        IrId inner = outer(r, op.args[k], y, out, way);
        return ro_contract(r, op.args[1 - k], inner, type);
    }
    return IR_NONE;
}

/* sum (s x) (x) y = sum x (x) (s y): the factor that is narrower goes to the other side. */
static IrId outer_of_scaled(Reorder *r, IrOp op, IrId y, IrType type, Way way)
{
    IrType a = ro_type(r, op.args[0]), b = ro_type(r, op.args[1]), ty = ro_type(r, y);
    uint32_t k = a.space != IR_UNIT && (b.space == IR_UNIT || b.n_dims < a.n_dims) ? 1 : 0;
    IrType ts = k ? b : a, tx = k ? a : b;
    if (tx.space != op.type.space || ts.n_dims + ty.n_dims > IR_MAX_DIMS) return IR_NONE;
    for (uint32_t i = 0; i < ts.n_dims; i++)
        if (has(&tx, ts.dims[i])) return IR_NONE; /* one of many */
    return outer(r, op.args[1 - k], ro_map2(r, IR_OP_mul, op.args[k], y), type, way);
}

/* One step on x's side. */
static IrId outer_step(Reorder *r, IrId x, IrId y, IrType type, Way way)
{
    if (!ro_def(r, x)) return IR_NONE;
    IrOp op = ro_linear(r, x);
    IrType ty = ro_type(r, y);
    switch (op.op) {
    case IR_OP_neg: return ro_neg(r, outer(r, op.args[0], y, type, way));
    case IR_OP_transpose: return outer(r, op.args[0], y, type, way);
    case IR_OP_gather: {
        IrId rows = reorder_guard(r, op.args[0], op.attr.map, 0, false);
        return outer(r, rows, reorder_rows_sum(r, y, op.attr.map, way.depth), type, way);
    }
    case IR_OP_reduce_sum:
        return ro_map(r, op.attr.map)->from == IR_UNIT ? IR_NONE
                                                       : outer(r, op.args[0], ro_gather(r, op.attr.map, y), type, way);
    case IR_OP_add:
    case IR_OP_sub: {
        IrType a = ro_type(r, op.args[0]), b = ro_type(r, op.args[1]);
        if (a.space != b.space || a.n_dims != op.type.n_dims || b.n_dims != op.type.n_dims) return IR_NONE;
        return ro_map2(r, op.op, outer(r, op.args[0], y, type, way), outer(r, op.args[1], y, type, way));
    }
    case IR_OP_mul: return outer_of_scaled(r, op, y, type, way);
    case IR_OP_div:
        if (ro_type(r, op.args[1]).n_dims || ro_type(r, op.args[0]).space != op.type.space) return IR_NONE;
        return outer(r, op.args[0], ro_map2(r, IR_OP_div, y, op.args[1]), type, way);
    case IR_OP_concat: return outer_concat(r, op, y, type, way);
    case IR_OP_contract: return ty.space == IR_UNIT ? IR_NONE : outer_of_product(r, op, y, type, way);
    default: return IR_NONE;
    }
}

/* To the end of what x is made of, then of y. */
static IrId outer(Reorder *r, IrId x, IrId y, IrType type, Way way)
{
    if (x == IR_NONE || y == IR_NONE) return IR_NONE;
    IrId stop = ro_contract(r, x, y, type);
    if (!way.depth || ro_type(r, x).space == IR_UNIT || ro_type(r, y).space == IR_UNIT) return stop;
    way.depth--;
    IrId on = outer_step(r, x, y, type, way);
    if (on == IR_NONE && !way.turned && !way.whole) on = outer(r, y, x, type, (Way){way.depth, true, way.whole});
    return way.whole && on != IR_NONE ? on : reorder_cheaper(r, stop, on);
}

/* ---- rule ---- */

/* Is the sum over dims of a product one of matrices: w a weight, each dim that is summed in both, and one that stays in
   w alone? */
static bool is_matmul(const IrType *x, const IrType *w, const IrType *type)
{
    bool own = false;
    for (uint32_t k = 0; k < w->n_dims; k++) {
        if (has(x, w->dims[k])) continue;
        if (!has(type, w->dims[k])) return false;
        own = true;
    }
    for (uint32_t k = 0; k < x->n_dims; k++)
        if (!has(type, x->dims[k]) && !has(w, x->dims[k])) return false;
    return own && w->space == IR_UNIT && x->space != IR_UNIT;
}

IrId reorder_rule_contract(Reorder *r, IrId v)
{
    IrOp op;
    if (!ir_dtype_is_float(ro_type(r, v).dtype) || !ro_product(r, v, &op)) return IR_NONE;
    if (ro_op(r, v)->op == IR_OP_sum_dims) {
        IrType x = ro_type(r, op.args[0]), y = ro_type(r, op.args[1]);
        if (!is_matmul(&x, &y, &op.type) && !is_matmul(&y, &x, &op.type)) return IR_NONE;
    }
    IrType x = ro_type(r, op.args[0]), y = ro_type(r, op.args[1]);
    if (x.space == IR_UNIT && y.space == IR_UNIT) return IR_NONE;
    if (op.type.space == IR_UNIT) {
        const Way way = {RO_MAX_DEPTH, false, false};
        if (x.space == IR_UNIT || y.space == IR_UNIT) return IR_NONE;
        IrId first = outer(r, op.args[0], op.args[1], op.type, way);
        return reorder_cheaper(r, first, outer(r, op.args[1], op.args[0], op.type, way));
    }
    if (y.space == IR_UNIT) return reorder_matmul(r, op.args[0], op.args[1], op.type, RO_MAX_DEPTH);
    if (x.space == IR_UNIT) return reorder_matmul(r, op.args[1], op.args[0], op.type, RO_MAX_DEPTH);
    IrId first = meet(r, op.args[0], op.args[1], op.type, RO_MAX_DEPTH);
    return reorder_cheaper(r, first, meet(r, op.args[1], op.args[0], op.type, RO_MAX_DEPTH));
}

IrId reorder_rule_outer(Reorder *r, IrId v)
{
    const IrOp op = *ro_op(r, v);
    const Way way = {RO_MAX_DEPTH, false, true};
    if (op.op != IR_OP_contract || op.type.space != IR_UNIT || !ir_dtype_is_float(op.type.dtype)) return IR_NONE;
    if (ro_type(r, op.args[0]).space == IR_UNIT || ro_type(r, op.args[1]).space == IR_UNIT) return IR_NONE;
    IrId first = outer(r, op.args[0], op.args[1], op.type, way);
    return reorder_cheaper(r, first, outer(r, op.args[1], op.args[0], op.type, way));
}
