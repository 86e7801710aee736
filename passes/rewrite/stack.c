/* stack: of values of a row that differ in their parameters alone, one for each value of a key, an element reads the
   one that its key says. It is computed of the parameters that the key says instead:

     %3 = contract %x, %V : node[O]                               %3 = reshape (concat %V, %W) : [R,F,O]
     %4 = contract %x, %W : node[O]                         ->    %4 = at %3, %k dim R : edge[F,O]
     %5 = reshape (concat %3, %4) : node[R,O]                     %5 = contract (gather %x via edge.src), %4 : edge[O]
     %6 = at (gather %5 via edge.src), %k dim R : edge[O]

   so that nothing has a number for each row and each value of the key. This is done where elements, or the pairs of a
   row and a key that they have, are expected to be clearly fewer than rows times values. With few values `reorder` may
   turn it back, by cost. An element whose key has no place reads 0, so what is computed must be 0 where the parameters
   are. Knows nothing of what a key means. */
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/rewrite/pairs.h"

/* Values that stand for one another, one of each piece. */
typedef struct Alike {
    const IrId *values; /* [pieces], of the old function */
    bool gone;          /* is 0 where all parameters that differ are 0 */
    IrId made;          /* at the elements, in the new function; IR_NONE: not yet */
} Alike;

/* One choice between pieces by a key. */
typedef struct Choice {
    PassContext *ctx;
    Rewrite *r;
    const bool *pinned;
    IrId key, dim, map; /* map: from elements to the rows of the pieces; IR_NONE: elements are these rows */
    IrId space;         /* of the elements */
    uint32_t n;         /* pieces */
    uint32_t *place; /* by value of the first piece: 1 + its index in `alike`, or 0 where it is not in the list yet */
    VEC(Alike) alike;
    IrId *dims; /* [pieces * dims] the first piece's dim that a piece's stands for; IR_NONE: not met */
} Choice;

static const IrOp *op_of(const Choice *c, IrId v) { return &c->r->old->ops.data[v]; }

/* Takes dim `other` of piece k for dim `dim` of the first; false where one of them stands for another already. */
static bool dims_alike(Choice *c, uint32_t k, IrId dim, IrId other)
{
    const IrModule *m = c->r->b.m;
    uint32_t n = m->dims.n;
    IrId *of = c->dims + (size_t)k * n;
    if (dim == c->dim || other == c->dim || m->dims.data[dim].size != m->dims.data[other].size) return false;
    if (of[other] != IR_NONE) return of[other] == dim;
    for (uint32_t i = 0; i < n; i++)
        if (of[i] == dim) return false;
    of[other] = dim;
    return true;
}

static bool types_alike(Choice *c, uint32_t k, const IrType *t, const IrType *other)
{
    if (t->space != other->space || t->dtype != other->dtype || t->n_dims != other->n_dims) return false;
    for (uint8_t i = 0; i < t->n_dims; i++)
        if (!dims_alike(c, k, t->dims[i], other->dims[i])) return false;
    return true;
}

static bool attrs_alike(Choice *c, uint32_t k, const IrOp *op, const IrOp *other)
{
    uint8_t attrs = ir_ops[op->op].attrs;
    if (attrs & (A_MAP | A_SITE)) return false;
    return (!(attrs & A_F) || op->attr.f == other->attr.f) && (!(attrs & A_I) || op->attr.i == other->attr.i) &&
           (!(attrs & A_DIM) || dims_alike(c, k, op->attr.dim, other->attr.dim));
}

/* Is each row's value made of that row's operands alone, the same way for each of them? */
static bool is_local(const IrOp *op)
{
    unsigned traits = ir_ops[op->op].traits;
    return op->n_args && op->op != IR_OP_at && traits & (T_MAP | T_DIMS) && !(traits & T_RANDOM);
}

static bool is_gone(const Choice *c, IrId v) { return c->alike.data[c->place[v] - 1].gone; }

/* Is op 0 where its operands that are gone are? */
static bool stays_gone(const Choice *c, const IrOp *op)
{
    if (op->op == IR_OP_mul || op->op == IR_OP_contract) return is_gone(c, op->args[0]) || is_gone(c, op->args[1]);
    if (op->op == IR_OP_select) return is_gone(c, op->args[1]) && is_gone(c, op->args[2]);
    bool gone = ir_ops[op->op].traits & (T_ZERO | T_DIMS);
    for (uint32_t i = 0; i < op->n_args; i++) gone &= is_gone(c, op->args[i]);
    return gone;
}

/* Whether `values`, one of each piece, are the same computation on the same rows, except for the parameters that they
   read. Such are added to c->alike. */
static bool is_alike(Choice *c, const IrId *values)
{
    const IrOp *op = op_of(c, values[0]);
    bool equal = true, unit = op->type.space == IR_UNIT;
    if (c->place[values[0]])
        return !memcmp(c->alike.data[c->place[values[0]] - 1].values, values, c->n * sizeof *values);
    for (uint32_t k = 0; k < c->n; k++) {
        equal &= values[k] == values[0];
        if (!types_alike(c, k, &op->type, &op_of(c, values[k])->type)) return false;
    }
    Alike x = {values, !equal && unit, IR_NONE};
    if (equal) x.gone = op->op == IR_OP_const && op->attr.f == 0;
    if (unit && !equal && op->type.n_dims == IR_MAX_DIMS) return false;
    if (!unit && !equal) {
        if (!is_local(op)) return false;
        for (uint32_t k = 0; k < c->n; k++) {
            const IrOp *other = op_of(c, values[k]);
            if (other->op != op->op || other->n_args != op->n_args || (c->pinned && c->pinned[values[k]])) return false;
        }
        for (uint32_t i = 0; i < op->n_args; i++) {
            IrId *args = ARENA_ARRAY(c->ctx->stage, IrId, c->n);
            for (uint32_t k = 0; k < c->n; k++) args[k] = op_of(c, values[k])->args[i];
            if (!is_alike(c, args)) return false;
        }
        for (uint32_t k = 0; k < c->n; k++)
            if (!attrs_alike(c, k, op, op_of(c, values[k]))) return false;
        x.gone = stays_gone(c, op);
    }
    VEC_PUSH(c->ctx->stage, &c->alike, x);
    c->place[values[0]] = c->alike.n;
    return true;
}

/* Whether clearly fewer elements, or pairs of a row and a key, are expected (*n) than rows times values of the key
   (*all). */
static bool pays(const Choice *c, IrId rows, double *n, double *all)
{
    IrModule *m = c->r->b.m;
    PairsExpected p;
    *n = expected_rows(m, c->space);
    *all = expected_rows(m, rows) * c->n;
    if (c->map != IR_NONE && pairs_expect(c->ctx, m, c->r->old, c->key, c->dim, c->map, &p)) {
        *all = p.sums;
        *n = pairs_pay(&p) ? p.n : p.elements;
    }
    return *n <= PAIRS_CLEARLY * *all;
}

/* Whether op is the value at an element's key of what is put together of alike pieces; fills `c`. */
static bool finds(Choice *c, const IrOp *op)
{
    if (op->op != IR_OP_at) return false;
    const IrModule *m = c->r->b.m;
    IrId v = op->args[0];
    bool seen = c->pinned && c->pinned[v];
    const IrType *key = &op_of(c, op->args[1])->type;
    if (key->n_dims || key->space != op->type.space) return false;
    c->key = op->args[1], c->dim = op->attr.dim, c->map = IR_NONE, c->space = op->type.space;
    if (op_of(c, v)->op == IR_OP_gather) {
        c->map = op_of(c, v)->attr.map;
        v = op_of(c, v)->args[0];
        seen |= c->pinned && c->pinned[v];
    }
    const IrType *whole = &op_of(c, v)->type;
    if (whole->space == IR_UNIT || !whole->n_dims || whole->dims[0] != c->dim) return false;
    if (c->map != IR_NONE ? m->maps.data[c->map].partial : whole->space != c->space) return false;
    if (op_of(c, v)->op == IR_OP_reshape) v = op_of(c, v)->args[0];
    const IrOp *pieces = op_of(c, v);
    if (seen || (c->pinned && c->pinned[v]) || pieces->op != IR_OP_concat || pieces->type.space != whole->space)
        return false;
    if (pieces->attr.dim != pieces->type.dims[0] || (int64_t)pieces->n_args != m->dims.data[c->dim].size) return false;
    c->n = pieces->n_args;
    c->place = ARENA_ARRAY(c->ctx->stage, uint32_t, c->r->old->ops.n);
    c->dims = ARENA_ARRAY(c->ctx->stage, IrId, (size_t)c->n * m->dims.n);
    c->alike.n = 0;
    for (size_t i = 0; i < (size_t)c->n * m->dims.n; i++) c->dims[i] = IR_NONE;
    return c->n > 1 && op_of(c, pieces->args[0])->type.space == whole->space && is_alike(c, pieces->args);
}

/* The parameters of all pieces, of which each element reads those that its key says. */
static IrId chosen(Choice *c, const Alike *x)
{
    Build *b = &c->r->b;
    IrType t = op_of(c, x->values[0])->type, row = t, at;
    IrId *args = ARENA_ARRAY(c->ctx->stage, IrId, c->n), both[2];
    if (!row.n_dims) row.dims[row.n_dims++] = ir_dim_new(b->m, "one", 1);
    for (uint32_t k = 0; k < c->n; k++) {
        IrType own = irb_type(b, args[k] = c->r->map[x->values[k]]);
        bool fits = own.n_dims == row.n_dims && !memcmp(own.dims, row.dims, row.n_dims * sizeof *row.dims);
        if (!fits) args[k] = irb_unary(b, IR_OP_reshape, row, args[k], (IrAttr){0});
    }
    IrType all = row, stack = t;
    all.dims[0] = ir_dim_new(b->m, "stack", b->m->dims.data[row.dims[0]].size * c->n);
    IrId whole = ir_add(b->m, b->f, IR_OP_concat, all, args, c->n, (IrAttr){.dim = all.dims[0]}, b->span);
    stack.dims[0] = c->dim, stack.n_dims++;
    memcpy(stack.dims + 1, t.dims, t.n_dims * sizeof *t.dims);
    both[0] = irb_unary(b, IR_OP_reshape, stack, whole, (IrAttr){0}), both[1] = c->r->map[c->key];
    IrType key = irb_type(b, both[1]);
    bool fits = ir_type_at(&stack, c->dim, &key, &at);
    ICE_UNLESS(fits);
    return ir_add(b->m, b->f, IR_OP_at, at, both, 2, (IrAttr){.dim = c->dim}, b->span);
}

/* The value at the elements of what v, of the first piece, stands for. */
static IrId made(Choice *c, IrId v)
{
    Build *b = &c->r->b;
    const IrOp *op = op_of(c, v);
    ICE_UNLESS(c->place[v]);
    Alike x = c->alike.data[c->place[v] - 1];
    if (x.made != IR_NONE) return x.made;
    bool equal = true;
    for (uint32_t k = 0; k < c->n; k++) equal &= x.values[k] == v;
    if (equal) {
        x.made = c->r->map[v];
        if (op->type.space != IR_UNIT && c->map != IR_NONE) x.made = irb_gather(b, c->map, x.made);
    } else if (op->type.space == IR_UNIT) x.made = chosen(c, &x);
    else {
        IrId *args = ARENA_ARRAY(b->m->arena, IrId, op->n_args);
        IrType t = op->type;
        t.space = c->space;
        for (uint32_t i = 0; i < op->n_args; i++) args[i] = made(c, op->args[i]);
        x.made = ir_add(b->m, b->f, op->op, t, args, op->n_args, op->attr, op->span);
    }
    return c->alike.data[c->place[v] - 1].made = x.made;
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    const bool *pinned = rewrite_pinned(ctx->stage, old);
    for (IrId v = 0; v < old->ops.n; v++) {
        const IrOp *op = &old->ops.data[v];
        Choice c = {.ctx = ctx, .r = &r, .pinned = pinned};
        double n, all;
        if (!finds(&c, op)) {
            rewrite_copy(&r, v);
            continue;
        }
        const Alike *last = &c.alike.data[c.alike.n - 1]; /* the pieces themselves */
        IrId rows = old->ops.data[last->values[0]].type.space;
        bool takes = pays(&c, rows, &n, &all) && (last->gone || irb_key_is_whole(m, old, c.key, c.n));
        pass_remark_at(ctx, PASS_stack, takes, old, v,
                       "%u values that differ in their parameters alone: %.0f elements or pairs, %.0f rows times keys",
                       c.n, n, all);
        if (takes) {
            r.b.span = op->span;
            IrId x = made(&c, last->values[0]);
            IrType t = irb_type(&r.b, x);
            r.map[v] = ir_type_eq(&t, &op->type) ? x : irb_unary(&r.b, IR_OP_reshape, op->type, x, (IrAttr){0});
        } else rewrite_copy(&r, v);
    }
    return rewrite_end(&r);
}

IrModule *pass_stack(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
