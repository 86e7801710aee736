/* parts: what is put together of pieces only to be summed is computed piece by piece, so that the whole, which may have
   a row for each edge, needs no memory.

     %3 = concat %1, %2 dim d : edge[d]            %4 = relu %1 : edge[F]      %5 = relu %2 : edge[K]
     %4 = relu %3 : edge[d]                  ->    %6 = reduce_sum %4 via dst  %7 = reduce_sum %5 via dst
     %5 = reduce_sum %4 via dst : node[d]          %8 = concat %6, %7 dim d : node[d]

   Pointwise operations, views and sums that keep the dim are done to each piece; a sum over the dim is the sum of the
   pieces' sums. Done in spaces that a map leads on from, where all that becomes of the whole ends in sums and slices,
   and in any space where two wholes become one, as gradients of several slices of one value do:

     %3 = concat %1, 0 dim d : node[d]
     %4 = concat 0, %2 dim d : node[d]       ->    %5 = concat %1, %2 dim d : node[d]
     %5 = add %3, %4 : node[d]

   What wants the whole has it put together as late as that. A sum over rows keeps its order; one over the dim agrees
   within the error bound. Never draws random numbers anew, never looks through the variable of a `grad`. */
#include "passes/rewrite/rewrite.h"
#include "base/ice.h"

typedef struct Whole {       /* a value that is pieces side by side along a dim */
    IrId piece[MOST_PIECES]; /* of the new function */
    uint32_t n;              /* 0: a value like others */
    uint32_t at;             /* the place of the dim in its type */
} Whole;

typedef struct Parts {
    Rewrite r;
    const bool *pinned; /* [old values] or NULL */
    const bool *ends;   /* [old values] all that becomes of it ends in sums and slices */
    const bool *on;     /* [spaces] */
    Whole *of;          /* [old values] */
} Parts;

static const IrOp *op_of(const Parts *p, IrId v) { return &p->r.old->ops.data[v]; }

static int64_t size_of(const Parts *p, IrId dim) { return p->r.b.m->dims.data[dim].size; }

/* ---- where pieces pay ---- */

static bool is_pointwise(const IrOp *op)
{
    uint16_t traits = ir_ops[op->op].traits;
    return op->n_args && !(traits & T_RANDOM) &&
           (traits & T_MAP || op->op == IR_OP_reshape || op->op == IR_OP_transpose);
}

static bool is_sum(const IrOp *op)
{
    return ir_ops[op->op].traits & T_REDUCE || op->op == IR_OP_sum_dims || op->op == IR_OP_contract;
}

/* Per space: is it one where pieces pay? */
static const bool *find_spaces(const IrModule *m)
{
    bool *on = ARENA_ARRAY(m->arena, bool, m->spaces.n + 1);
    for (IrId k = 0; k < m->maps.n; k++) on[m->maps.data[k].from] |= m->maps.data[k].to != IR_UNIT;
    return on;
}

static const bool *find_ends(const IrModule *m, const IrFunc *f)
{
    bool *ends = ARENA_ARRAY(m->arena, bool, f->ops.n + 1);
    for (IrId v = 0; v < f->ops.n; v++) ends[v] = true;
    for (uint32_t i = 0; i < f->results.n; i++) ends[f->results.data[i].value] = false;
    for (IrId v = f->ops.n; v-- > 0;) {
        const IrOp *op = &f->ops.data[v];
        bool goes_on = is_pointwise(op) || op->op == IR_OP_concat, end = is_sum(op) || op->op == IR_OP_slice;
        for (uint32_t k = 0; k < op->n_args; k++) ends[op->args[k]] &= end || (goes_on && ends[v]);
    }
    return ends;
}

/* ---- the whole ---- */

/* The value of old v, put together now if it is pieces. */
static IrId value_of(Parts *p, IrId v)
{
    if (p->r.map[v] != IR_NONE) return p->r.map[v];
    ICE_UNLESS(p->of[v].n > 1 && p->of[v].at < op_of(p, v)->type.n_dims);
    const Whole *w = &p->of[v];
    IrType t = op_of(p, v)->type;
    return p->r.map[v] = ir_add(p->r.b.m, p->r.b.f, IR_OP_concat, t, w->piece, w->n, (IrAttr){.dim = t.dims[w->at]},
                                op_of(p, v)->span);
}

static void keep(Parts *p, IrId v)
{
    const IrOp *op = op_of(p, v);
    for (uint32_t k = 0; k < op->n_args; k++) value_of(p, op->args[k]);
    rewrite_copy(&p->r, v);
}

static IrId dim_of_piece(const Parts *p, const Whole *w, uint32_t i)
{
    ICE_UNLESS(i < w->n);
    return irb_type(&p->r.b, w->piece[i]).dims[w->at];
}

/* An operand of a concat; where pieces pay, the pieces of one that is put together itself. */
static bool take_in(Parts *p, IrId v, IrId arg, Whole *w)
{
    const Whole *inner = &p->of[arg];
    bool same = inner->n && inner->at == w->at && p->on[op_of(p, arg)->type.space];
    if (w->n + (same ? inner->n : 1) > MOST_PIECES) return false;
    if (op_of(p, arg)->type.space != op_of(p, v)->type.space) return false;
    if (!same) w->piece[w->n++] = value_of(p, arg);
    for (uint32_t i = 0; i < inner->n && same; i++) w->piece[w->n++] = inner->piece[i];
    return true;
}

static bool concat(Parts *p, IrId v)
{
    const IrOp *op = op_of(p, v);
    Whole w = {.n = 0};
    while (op->type.dims[w.at] != op->attr.dim) w.at++;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!take_in(p, v, op->args[k], &w)) return false;
    p->of[v] = w;
    return w.n > 1;
}

/* A view keeps the elements in their order: pieces of [.., 192] are pieces of [.., 3, 64] if each is some times 64. */
static bool reshape(Parts *p, IrId v, const Whole *w)
{
    const IrType *t = &op_of(p, v)->type, *from = &op_of(p, op_of(p, v)->args[0])->type;
    int64_t before = 1, inner = 1, outer = 1, wide = ir_type_width(p->r.b.m, t);
    for (uint32_t k = 0; k < w->at; k++) before *= size_of(p, from->dims[k]);
    for (uint32_t k = w->at + 1; k < from->n_dims; k++) inner *= size_of(p, from->dims[k]);
    for (uint32_t at = 0; at < t->n_dims; outer *= size_of(p, t->dims[at++])) {
        int64_t step = wide / (outer * size_of(p, t->dims[at])); /* elements behind one of the dim */
        bool fits = outer == before;
        for (uint32_t i = 0; i < w->n; i++) fits &= size_of(p, dim_of_piece(p, w, i)) * inner % step == 0;
        if (!fits) continue;
        Whole made = {.n = w->n, .at = at};
        for (uint32_t i = 0; i < w->n; i++) {
            IrType piece = *t;
            piece.dims[at] = ir_dim_new(p->r.b.m, "part", size_of(p, dim_of_piece(p, w, i)) * inner / step);
            made.piece[i] = irb_unary(&p->r.b, IR_OP_reshape, piece, w->piece[i], (IrAttr){0});
        }
        p->of[v] = made;
        return true;
    }
    return false;
}

/* ---- operations on pieces ---- */

typedef struct Cut { /* of a dim of an operation's operands: where any of them is cut */
    IrId dim;
    int64_t at[MOST_PIECES + 1]; /* ascending; from 0 to the dim's size */
    uint32_t n;                  /* pieces */
} Cut;

static bool add_cut(Cut *c, int64_t at)
{
    uint32_t i = 0;
    while (i <= c->n && c->at[i] < at) i++;
    if (i <= c->n && c->at[i] == at) return true;
    if (c->n == MOST_PIECES) return false;
    memmove(c->at + i + 1, c->at + i, (c->n + 1 - i) * sizeof *c->at);
    ICE_UNLESS(at > 0 && i <= c->n); /* inside the dim: its ends are there from the start */
    c->at[i] = at;
    c->n++;
    return true;
}

/* Adds where old value a is cut. False if it is cut along another dim, or may not be read in pieces at no cost. */
static bool cut_operand(const Parts *p, IrId a, Cut *c)
{
    const IrOp *op = op_of(p, a);
    const Whole *w = &p->of[a];
    if (!ir_type_has_dim(&op->type, c->dim)) return true;
    bool view = op->op == IR_OP_gather || op->op == IR_OP_arg || op->op == IR_OP_slice || is_pointwise(op);
    if (!w->n) return view || (ir_ops[op->op].traits & T_MAP && !op->n_args);
    bool ok = op->type.dims[w->at] == c->dim;
    int64_t at = 0;
    for (uint32_t i = 0; i < w->n && ok; i++) ok = add_cut(c, at += size_of(p, dim_of_piece(p, w, i)));
    return ok;
}

/* Elements [first, first + size) of x's dim, under the name and the type that t has. */
static IrId cut_out(Parts *p, IrId x, IrId dim, int64_t first, IrType t)
{
    double value;
    IrType is = irb_type(&p->r.b, x);
    if (irb_is_const(&p->r.b, x, &value)) return irb_const(&p->r.b, t, value);
    if (ir_type_width(p->r.b.m, &is) != ir_type_width(p->r.b.m, &t))
        return irb_unary(&p->r.b, IR_OP_slice, t, x, (IrAttr){.dim = dim, .i = first});
    return ir_type_eq(&is, &t) ? x : irb_unary(&p->r.b, IR_OP_reshape, t, x, (IrAttr){0});
}

/* What a slice has of the pieces; one alone is a value like others. */
static bool slice(Parts *p, IrId v, const Whole *w)
{
    const IrOp *op = op_of(p, v);
    Whole made = {.at = w->at};
    int64_t first = op->attr.i, end = first + size_of(p, op->type.dims[w->at]), at = 0;
    if (op_of(p, op->args[0])->type.dims[w->at] != op->attr.dim) return false;
    for (uint32_t i = 0; i < w->n; i++) {
        IrId dim = dim_of_piece(p, w, i);
        int64_t next = at + size_of(p, dim), from = first > at ? first : at, to = end < next ? end : next;
        IrType t = op->type;
        if (from < to && to - from < end - first) t.dims[w->at] = ir_dim_new(p->r.b.m, "part", to - from);
        if (from < to) made.piece[made.n++] = cut_out(p, w->piece[i], dim, from - at, t);
        at = next;
    }
    ICE_UNLESS(at >= end && made.n);
    if (made.n > 1) p->of[v] = made;
    else p->r.map[v] = made.piece[0];
    return true;
}

/* Piece i of old value a; the dim is called `name` there. */
static IrId piece_of(Parts *p, IrId a, const Cut *c, uint32_t i, IrId name)
{
    IrType t = op_of(p, a)->type;
    const Whole *w = &p->of[a];
    ICE_UNLESS(i < c->n);
    int64_t first = c->at[i];
    uint32_t at = 0, k = 0;
    while (at < t.n_dims && t.dims[at] != c->dim) at++;
    if (at == t.n_dims) return value_of(p, a);
    t.dims[at] = name;
    if (!w->n) return cut_out(p, value_of(p, a), c->dim, first, t);
    for (int64_t size; first >= (size = size_of(p, dim_of_piece(p, w, k))); k++) first -= size;
    return cut_out(p, w->piece[k], dim_of_piece(p, w, k), first, t);
}

/* x of x + 0, as gradients of slices have it. */
static IrId without_zero(Parts *p, const IrOp *sum)
{
    double value;
    for (uint32_t k = 0; k < 2 && sum->op == IR_OP_add; k++) {
        IrType t = irb_type(&p->r.b, sum->args[k]);
        if (irb_is_const(&p->r.b, sum->args[1 - k], &value) && value == 0 && ir_type_eq(&t, &sum->type))
            return sum->args[k];
    }
    return irb_add(&p->r.b, sum);
}

static bool any_has_dim(const Parts *p, const IrOp *op, IrId dim)
{
    bool has = ir_type_has_dim(&op->type, dim);
    for (uint32_t k = 0; k < op->n_args; k++) has |= ir_type_has_dim(&op_of(p, op->args[k])->type, dim);
    return has;
}

/* The dim of op's pieces i: that of an operand's piece where it may be, so that this piece is read as it is, or a new
   one. What guards a value is found by that value: a condition and what it guards must read the same piece, not two
   views of it. */
static IrId name_pieces(const Parts *p, const IrOp *op, const Cut *c, uint32_t i)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        const Whole *w = &p->of[op->args[k]];
        int64_t at = 0;
        for (uint32_t j = 0; j < w->n && at <= c->at[i]; j++) {
            IrId dim = dim_of_piece(p, w, j);
            bool whole = at == c->at[i] && at + size_of(p, dim) == c->at[i + 1];
            if (whole && !any_has_dim(p, op, dim)) return dim;
            at += size_of(p, dim);
        }
    }
    return ir_dim_new(p->r.b.m, "part", c->at[i + 1] - c->at[i]);
}

/* op on the pieces i of its operands. */
static IrId op_on_pieces(Parts *p, const IrOp *op, const Cut *c, uint32_t i)
{
    IrOp it = *op;
    IrId name = name_pieces(p, op, c, i);
    it.args = ARENA_ARRAY(p->r.b.m->arena, IrId, op->n_args);
    for (uint32_t k = 0; k < op->n_args; k++) it.args[k] = piece_of(p, op->args[k], c, i, name);
    for (uint32_t k = 0; k < it.type.n_dims; k++)
        if (it.type.dims[k] == c->dim) it.type.dims[k] = name;
    return without_zero(p, &it);
}

/* Old v by pieces, where all its operands can be cut. */
static bool by_pieces(Parts *p, IrId v, IrId dim)
{
    const IrOp *op = op_of(p, v);
    Cut c = {.dim = dim, .at = {0, size_of(p, dim)}, .n = 1};
    Whole made = {.n = 0};
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!cut_operand(p, op->args[k], &c)) return false;
    for (; made.n < c.n; made.n++) made.piece[made.n] = op_on_pieces(p, op, &c, made.n);
    while (made.at < op->type.n_dims && op->type.dims[made.at] != dim) made.at++;
    if (made.at < op->type.n_dims) return p->of[v] = made, true;
    IrId sum = made.piece[0]; /* the dim is summed */
    for (uint32_t i = 1; i < made.n; i++) sum = irb_map2(&p->r.b, IR_OP_add, sum, made.piece[i]);
    p->r.map[v] = sum;
    return true;
}

/* A product with a weight is reorder's to take apart, by cost; one over all rows that of the kernels. */
static bool is_open(const Parts *p, const IrOp *op)
{
    if (op->op != IR_OP_contract) return is_pointwise(op) || is_sum(op);
    return op->type.space != IR_UNIT && op_of(p, op->args[0])->type.space == op_of(p, op->args[1])->type.space;
}

/* Should v, one of whose operands is pieces, be? Two wholes become one in any space. */
static bool pays(const Parts *p, IrId v)
{
    const IrOp *op = op_of(p, v);
    uint32_t n = 0;
    bool end = true, on = false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (!p->of[op->args[k]].n) continue;
        n += !k || op->args[k] != op->args[0];
        on |= p->on[op_of(p, op->args[k])->type.space];
        end &= p->ends[op->args[k]];
    }
    if (!on) return is_pointwise(op) && n > 1;
    return is_pointwise(op) ? p->ends[v] || n > 1 : end;
}

static bool try_op(Parts *p, IrId v)
{
    const IrOp *op = op_of(p, v);
    if (p->pinned && p->pinned[v]) return false;
    if (op->op == IR_OP_concat) return concat(p, v);
    for (uint32_t k = 0; k < op->n_args; k++) {
        const Whole *w = &p->of[op->args[k]];
        if (!w->n) continue;
        if (op->op == IR_OP_slice) return p->on[op->type.space] && slice(p, v, w);
        if (!is_open(p, op) || !pays(p, v)) return false;
        if (op->op == IR_OP_reshape) return reshape(p, v, w);
        return by_pieces(p, v, op_of(p, op->args[k])->type.dims[w->at]);
    }
    return false;
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Parts p = {.r = rewrite_begin(m, old),
               .pinned = rewrite_pinned(ctx->stage, old),
               .ends = find_ends(m, old),
               .on = find_spaces(m)};
    p.of = ARENA_ARRAY(m->arena, Whole, old->ops.n + 1);
    for (IrId v = 0; v < old->ops.n; v++) {
        p.r.b.span = op_of(&p, v)->span;
        if (!try_op(&p, v)) {
            p.of[v] = (Whole){.n = 0};
            keep(&p, v);
        } else if (ir_ops[op_of(&p, v)->op].traits & T_REDUCE) {
            value_of(&p, v);
            p.of[v].n = 0;
            pass_remark_at(ctx, PASS_parts, true, old, v, "the pieces of what is put together are reduced one by one");
        }
    }
    for (uint32_t i = 0; i < old->results.n; i++) value_of(&p, old->results.data[i].value);
    return rewrite_end(&p.r);
}

IrModule *pass_parts(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
