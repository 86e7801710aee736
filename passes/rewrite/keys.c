/* keys: a sum by a key is kept apart for each of the key's values only to be summed over them again. Where rows have
   more values between them than elements, the elements are summed at once, each with what its own value says:

     %3 = select (one-hot of %k), %x, 0 : edge[R,F]
     %4 = reduce_sum %3 via edge.dst : node[R,F]           %4 = contract %x, (at %W, %k dim R) : edge[O]
     %5 = contract %4, %W : node[O]                   ->   %5 = reduce_sum %4 via edge.dst : node[O]

   for what is linear on the way from %4 to %5: factors and divisors of the row, of the key's value or of both (the
   number of elements of a mean) are read at each element, products and sums over other dims are made there. So nothing
   of rows times values times features is made, forward or backward. An element whose key has no place is in no sum.
   With few values the sums by row are fewer than the elements, and stay: `reorder` finds their cheapest form. Knows
   nothing of what a key means. */
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/rewrite/facts.h"
#include "passes/rewrite/one_hot.h"

typedef struct Keys {
    PassContext *ctx;
    Rewrite r;
    Facts *facts;         /* [values] */
    const uint32_t *uses; /* as rewrite_uses */
    const bool *pinned;
    /* Of the sums that are looked at: */
    IrId dim, key, map; /* key: IR_NONE until one is found */
    bool read;          /* a factor is read at the key, which is 0 where the key has no place */
} Keys;

static const IrOp *op_of(const Keys *k, IrId v) { return &k->r.old->ops.data[v]; }
static const IrType *type_of(const Keys *k, IrId v) { return &op_of(k, v)->type; }
static bool has_key(const Keys *k, IrId v) { return ir_type_has_dim(type_of(k, v), k->dim); }

/* ---- what is linear in sums by one key ------------------------------------------------------------------- */

static bool spreads(Keys *k, IrId v);

/* Is v the sum by key of a select between an element and 0? */
static bool is_sum(Keys *k, const IrOp *op)
{
    const IrOp *chosen = op_of(k, op->args[0]);
    const IrMap *map = &k->r.b.m->maps.data[op->attr.map];
    OneHot hot;
    double zero;
    if (chosen->op != IR_OP_select || map->partial || map->to == IR_UNIT || (k->pinned && k->pinned[op->args[0]]))
        return false;
    const IrOp *other = op_of(k, chosen->args[2]);
    zero = other->op == IR_OP_const ? other->attr.f : 1;
    if (zero != 0 || !one_hot_is(k->r.old, k->pinned, chosen->args[0], &hot) || hot.dim != k->dim) return false;
    if (has_key(k, chosen->args[1]) || type_of(k, hot.index)->space != map->from) return false;
    if (k->key == IR_NONE) k->key = hot.index, k->map = op->attr.map;
    return k->key == hot.index && k->map == op->attr.map;
}

/* Something else in what is summed: is it the same for all elements of a row and value, and no pole where there is
   none? */
static bool is_factor(const Keys *k, IrId v, bool divides)
{
    IrId row = k->r.b.m->maps.data[k->map].to, space = type_of(k, v)->space;
    unsigned sound = FACT_NONZERO | FACT_IN_RANGE;
    return (space == IR_UNIT || space == row) && (!divides || (k->facts[v] & sound) == sound);
}

/* Is v, for each row and value of the key, a sum of something that each element says? */
static bool spreads(Keys *k, IrId v)
{
    const IrOp *op = op_of(k, v);
    if (!has_key(k, v) || k->uses[v] != 1 || (k->pinned && k->pinned[v])) return false;
    switch (op->op) {
    case IR_OP_reduce_sum: return is_sum(k, op);
    case IR_OP_neg:
    case IR_OP_transpose:
    case IR_OP_sum_dims: return spreads(k, op->args[0]);
    case IR_OP_reshape:
        return op->type.dims[0] == k->dim && type_of(k, op->args[0])->dims[0] == k->dim && spreads(k, op->args[0]);
    case IR_OP_div: return spreads(k, op->args[0]) && is_factor(k, op->args[1], true);
    case IR_OP_mul:
    case IR_OP_contract:
        for (int i = 0; i < 2; i++) {
            IrId key = k->key;
            if (spreads(k, op->args[i])) return is_factor(k, op->args[1 - i], false);
            k->key = key;
        }
        return false;
    default: return false;
    }
}

/* ---- the elements ------------------------------------------------------------------------------------------ */

/* The type of v at the elements, without the key's dim. */
static IrType element_type(const Keys *k, IrId v)
{
    ICE_UNLESS(k->map < k->r.b.m->maps.n);
    IrType t = *type_of(k, v), of = t;
    of.space = k->r.b.m->maps.data[k->map].from;
    of.n_dims = 0;
    for (uint8_t i = 0; i < t.n_dims; i++)
        if (t.dims[i] != k->dim) of.dims[of.n_dims++] = t.dims[i];
    return of;
}

/* Bool: has the element's key a place? */
static IrId has_place(Keys *k)
{
    Build *b = &k->r.b;
    ICE_UNLESS(k->key != IR_NONE && k->r.map[k->key] != IR_NONE);
    IrId key = k->r.map[k->key];
    IrId low = irb_compare(b, IR_OP_le, irb_scalar(b, IR_I64, 0), key);
    IrId high = irb_compare(b, IR_OP_lt, key, irb_scalar(b, IR_I64, (double)b->m->dims.data[k->dim].size));
    return irb_map2(b, IR_OP_and, low, high);
}

/* Factor or divisor v, a number for each row, value of the key, or both, as an element reads it by its own row and
   key. */
static IrId factor(Keys *k, IrId v, bool divides)
{
    Build *b = &k->r.b;
    IrId x = k->r.map[v], args[2];
    if (type_of(k, v)->space != IR_UNIT) x = irb_gather(b, k->map, x);
    if (!has_key(k, v)) return x;
    IrType t = irb_type(b, x), key = irb_type(b, k->r.map[k->key]), own;
    ICE_UNLESS(ir_type_at(&t, k->dim, &key, &own));
    args[0] = x, args[1] = k->r.map[k->key];
    x = ir_add(b->m, b->f, IR_OP_at, own, args, 2, (IrAttr){.dim = k->dim}, b->span);
    if (divides) return irb_select(b, has_place(k), x, irb_scalar(b, own.dtype, 1));
    k->read = true;
    return x;
}

static IrId element(Keys *k, IrId v);

/* contract(x, w) at the elements, x the operand that is a sum. */
static IrId product(Keys *k, IrId v, IrType type)
{
    const IrOp *op = op_of(k, v);
    Build *b = &k->r.b;
    int i = 0;
    while (!has_key(k, op->args[i]) || !spreads(k, op->args[i])) i++;
    IrId x = element(k, op->args[i]), w = factor(k, op->args[1 - i], false), args[2];
    x = irb_fit(b, x, element_type(k, op->args[i]));
    args[i] = x, args[1 - i] = w;
    IrType tx = irb_type(b, x), tw = irb_type(b, w), all = ir_type_join(&tx, &tw);
    if (all.n_dims == type.n_dims) return irb_map2(b, IR_OP_mul, args[0], args[1]);
    return ir_add(b->m, b->f, IR_OP_contract, type, args, 2, (IrAttr){0}, b->span);
}

/* What each element adds to v, of element_type(v) but for the order of dims and what is the same for all. */
static IrId element(Keys *k, IrId v)
{
    const IrOp *op = op_of(k, v);
    Build *b = &k->r.b;
    IrType type = element_type(k, v);
    switch (op->op) {
    case IR_OP_reduce_sum: return k->r.map[op_of(k, op->args[0])->args[1]];
    case IR_OP_neg: return irb_map1(b, IR_OP_neg, element(k, op->args[0]));
    case IR_OP_transpose: return element(k, op->args[0]);
    case IR_OP_sum_dims:
        return irb_unary(b, IR_OP_sum_dims, type, irb_fit(b, element(k, op->args[0]), element_type(k, op->args[0])),
                         (IrAttr){0});
    case IR_OP_reshape:
        return irb_unary(b, IR_OP_reshape, type, irb_fit(b, element(k, op->args[0]), element_type(k, op->args[0])),
                         (IrAttr){0});
    case IR_OP_div: return irb_map2(b, IR_OP_div, element(k, op->args[0]), factor(k, op->args[1], true));
    case IR_OP_mul: {
        int i = has_key(k, op->args[0]) && spreads(k, op->args[0]) ? 0 : 1;
        IrId x = element(k, op->args[i]);
        return irb_map2(b, IR_OP_mul, x, factor(k, op->args[1 - i], false));
    }
    default: return product(k, v, type);
    }
}

/* ---- one function ------------------------------------------------------------------------------------------ */

/* Is op a sum over a dim that operand i has as a key's? */
static bool sums_key(Keys *k, const IrOp *op, int i)
{
    const IrType *x = type_of(k, op->args[i]);
    for (uint8_t d = 0; d < x->n_dims; d++) {
        k->dim = x->dims[d];
        k->key = IR_NONE;
        if (ir_type_has_dim(&op->type, k->dim) || !spreads(k, op->args[i])) continue;
        if (op->op == IR_OP_sum_dims || is_factor(k, op->args[1 - i], false)) return op->type.space == x->space;
    }
    return false;
}

/* Are there more sums, one for each row and value of the key, than elements to sum? */
static bool pays(Keys *k, IrId v)
{
    const IrModule *m = k->r.b.m;
    const IrMap *map = &m->maps.data[k->map];
    double sums = expected_rows(m, map->to) * (double)m->dims.data[k->dim].size, elements = expected_rows(m, map->from);
    bool taken = sums > elements;
    pass_remark_at(
        k->ctx, PASS_keys, taken, k->r.old, v,
        taken ? "%lld sums for each row are more than its elements: each element is summed with what its key says"
              : "sums by %lld keys stay: they are no more than a row's elements",
        (long long)m->dims.data[k->dim].size);
    return taken;
}

static IrId summed(Keys *k, IrId v, int i)
{
    const IrOp *op = op_of(k, v);
    Build *b = &k->r.b;
    b->span = op->span;
    k->read = false;
    IrType type = op->type;
    type.space = b->m->maps.data[k->map].from;
    IrId x = op->op == IR_OP_contract ? product(k, v, type)
                                      : irb_fit(b, element(k, op->args[i]), element_type(k, op->args[i]));
    IrType t = irb_type(b, x);
    if (t.n_dims > type.n_dims) x = irb_unary(b, IR_OP_sum_dims, type, x, (IrAttr){0});
    x = irb_fit(b, x, type);
    if (!k->read) x = irb_select(b, has_place(k), x, irb_scalar(b, type.dtype, 0));
    return irb_reduce(b, IR_OP_reduce_sum, k->map, x, 0);
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Keys k = {.ctx = ctx, .r = rewrite_begin(m, old), .pinned = rewrite_pinned(ctx->stage, old)};
    k.facts = ARENA_ARRAY(ctx->stage, Facts, old->ops.n + 1);
    k.uses = rewrite_uses(ctx->stage, old);
    for (IrId v = 0; v < old->ops.n; v++) {
        const IrOp *op = op_of(&k, v);
        k.facts[v] = facts_of(m, old, op, k.facts);
        int i = op->op == IR_OP_sum_dims && sums_key(&k, op, 0) ? 0
                : op->op != IR_OP_contract                      ? -1
                : sums_key(&k, op, 0)                           ? 0
                : sums_key(&k, op, 1)                           ? 1
                                                                : -1;
        if (i >= 0 && pays(&k, v)) k.r.map[v] = summed(&k, v, i);
        else rewrite_copy(&k.r, v);
    }
    return rewrite_end(&k.r);
}

IrModule *pass_keys(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
