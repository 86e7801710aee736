/* The algebra of the pass `sparse`: sums and products with a value v that is 0 where its tensor is, said over the
   stored elements e with their row r(e) and column c(e).

     sum_dims v : S[]                ->  reduce_sum v(e) via row
     reduce_sum v via S.all : [F]    ->  reduce_sum v(e) via col, its rows as dim F
     contract v, W[F,O] : S[O]       ->  reduce_sum v(e) * W[c(e)] via row, W's dim F as rows
     contract v, G : S[O] -> [F,O]   ->  reduce_sum v(e) * G[r(e)] via col, its rows as dim F
   In the two contracts v may also be LINEAR in such values: see sparse_linear.c.
   A product with an element that is not stored counts as 0, whatever the other factor is. */
#include "passes/rewrite/sparse.h"
#include "base/ice.h"

/* ---- which uses there are --------------------------------------------------------------------------- */

/* Every dim of b but the tensor's is in r, and r has no other. */
static bool same_but_form(const Sparse *s, const IrType *b, const IrType *r)
{
    IrId dim = s->form.dims[0];
    unsigned n_b = 0, n_r = 0;
    for (uint32_t k = 0; k < b->n_dims; k++) {
        if (b->dims[k] == dim) continue;
        n_b++;
        if (!ir_type_has_dim(r, b->dims[k])) return false;
    }
    for (uint32_t k = 0; k < r->n_dims; k++) n_r += r->dims[k] != dim;
    return n_b == n_r;
}

/* x: a LINEAR operand in `space`. Work on its rows moves to rows of the result's width: it must not grow. */
static SparseUseKind contract_kind(const Sparse *s, IrId x, const IrType *b, const IrType *r)
{
    const IrModule *m = s->r.b.m;
    IrId dim = s->form.dims[0], space = sparse_op(s, x)->type.space;
    int64_t others = ir_type_width(m, b->space == IR_UNIT ? r : b), features = m->dims.data[dim].size;
    if (!sparse_has(s, x, SPARSE_ZERO) && others > features) return SPARSE_NO_USE;
    bool b_has = ir_type_has_dim(b, dim), r_has = ir_type_has_dim(r, dim);
    if (!same_but_form(s, b, r)) return SPARSE_NO_USE;
    if (b->space == IR_UNIT && r->space == space && b_has && !r_has) return SPARSE_PRODUCT;
    if (b->space == space && r->space == IR_UNIT && !b_has && r_has) return SPARSE_OUTER;
    return SPARSE_NO_USE;
}

SparseUse sparse_use(const Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    SparseUse use = {.kind = SPARSE_NO_USE, .x = op->n_args ? op->args[0] : IR_NONE, .other = IR_NONE};
    if (op->op == IR_OP_sum_dims && sparse_has(s, use.x, SPARSE_ZERO) && !op->type.n_dims) use.kind = SPARSE_SUM_DIMS;
    if (op->op == IR_OP_reduce_sum && sparse_has(s, use.x, SPARSE_ZERO) && op->type.space == IR_UNIT &&
        !s->r.b.m->maps.data[op->attr.map].partial)
        use.kind = SPARSE_SUM_ROWS;
    for (uint32_t k = 0; op->op == IR_OP_contract && k < 2 && !use.kind; k++) {
        use.x = op->args[k];
        use.other = op->args[1 - k];
        if (sparse_has(s, use.x, SPARSE_LINEAR))
            use.kind = contract_kind(s, use.x, &sparse_op(s, use.other)->type, &op->type);
    }
    return use;
}

void sparse_want(Sparse *s, const SparseUse *u)
{
    if (u->other == IR_NONE) {
        s->flags[u->x] |= SPARSE_STORED;
        return;
    }
    s->flags[u->other] |= SPARSE_DENSE;
    sparse_linear_want(s, u->x);
}

/* ---- what they become --------------------------------------------------------------------------------- */

/* unit[F, ...] as rows of the columns' space. */
static IrId as_rows(Sparse *s, IrId x)
{
    IrType t = irb_type(&s->r.b, x);
    ICE_UNLESS(t.space == IR_UNIT && t.n_dims && t.dims[0] == s->form.dims[0]);
    t.space = s->p->cols;
    t.n_dims--;
    memmove(t.dims, t.dims + 1, t.n_dims * sizeof *t.dims);
    return irb_unary(&s->r.b, IR_OP_reshape, t, x, (IrAttr){0});
}

/* Rows of the columns' space as unit[F, ...]. */
static IrId as_dim(Sparse *s, IrId x)
{
    IrType t = irb_type(&s->r.b, x);
    ICE_UNLESS(t.space == s->p->cols && t.n_dims < IR_MAX_DIMS);
    t.space = IR_UNIT;
    memmove(t.dims + 1, t.dims, t.n_dims * sizeof *t.dims);
    t.n_dims++;
    t.dims[0] = s->form.dims[0];
    return irb_unary(&s->r.b, IR_OP_reshape, t, x, (IrAttr){0});
}

static IrId in_order(Sparse *s, IrId x, const IrType *wanted)
{
    IrType t = irb_type(&s->r.b, x);
    return ir_type_eq(&t, wanted) ? x : irb_unary(&s->r.b, IR_OP_transpose, *wanted, x, (IrAttr){0});
}

/* Several dims as one, so that vectors run along all of them. */
static IrId flat(Sparse *s, IrId x)
{
    IrType t = irb_type(&s->r.b, x);
    if (t.n_dims < 2) return x;
    t.dims[0] = ir_dim_new(s->r.b.m, "flat", ir_type_width(s->r.b.m, &t));
    t.n_dims = 1;
    return irb_unary(&s->r.b, IR_OP_reshape, t, x, (IrAttr){0});
}

static IrId reshaped(Sparse *s, IrId x, const IrType *wanted)
{
    IrType t = irb_type(&s->r.b, x);
    return ir_type_eq(&t, wanted) ? x : irb_unary(&s->r.b, IR_OP_reshape, *wanted, x, (IrAttr){0});
}

static IrId product(Sparse *s, const SparseUse *u, const IrType *r)
{
    IrId w = s->r.map[u->other];
    IrType wanted = *r;
    wanted.space = IR_UNIT;
    wanted.dims[0] = s->form.dims[0];
    memcpy(wanted.dims + 1, r->dims, r->n_dims * sizeof *r->dims);
    wanted.n_dims = (uint8_t)(r->n_dims + 1);
    IrId rows = flat(s, as_rows(s, in_order(s, w, &wanted)));
    return reshaped(s, sparse_linear_product(s, u->x, rows), r);
}

static IrId outer(Sparse *s, const SparseUse *u, const IrType *r)
{
    Build *b = &s->r.b;
    IrType rows = irb_type(b, s->r.map[u->other]);
    IrId sum = sparse_linear_outer(s, u->x, flat(s, s->r.map[u->other]));
    rows.space = s->p->cols;
    return in_order(s, as_dim(s, reshaped(s, sum, &rows)), r);
}

IrId sparse_rewrite(Sparse *s, IrId v, const SparseUse *u)
{
    const IrOp *op = sparse_op(s, v);
    s->r.b.span = op->span;
    switch (u->kind) {
    case SPARSE_SUM_DIMS: return irb_reduce(&s->r.b, IR_OP_reduce_sum, s->p->row, s->at[u->x], 0);
    case SPARSE_SUM_ROWS: return as_dim(s, irb_reduce(&s->r.b, IR_OP_reduce_sum, s->p->col, s->at[u->x], 0));
    case SPARSE_PRODUCT: return product(s, u, &op->type);
    case SPARSE_OUTER: return outer(s, u, &op->type);
    case SPARSE_NO_USE: break;
    }
    return IR_NONE;
}

/* ---- values at the stored places ------------------------------------------------------------------------ */

static IrId element_of(Sparse *s, IrId space)
{
    IrType t = ir_scalar(IR_I64);
    t.space = space;
    return ir_add(s->r.b.m, s->r.b.f, IR_OP_element, t, NULL, 0, (IrAttr){0}, s->r.b.span);
}

/* A number stays; rows and features are looked up. */
static IrId gather_leaf(Sparse *s, IrId v)
{
    Build *b = &s->r.b;
    const IrOp *op = sparse_op(s, v);
    if (op->type.space != IR_UNIT) return irb_gather(b, s->p->row, s->r.map[v]);
    if (!op->type.n_dims) return s->r.map[v];
    if (op->op == IR_OP_iota) return irb_gather(b, s->p->col, element_of(s, s->p->cols));
    return irb_gather(b, s->p->col, as_rows(s, s->r.map[v]));
}

static IrId random_at(Sparse *s, const IrOp *op, IrType type)
{
    Build *b = &s->r.b;
    IrOpcode at = op->op == IR_OP_random_uniform ? IR_OP_random_uniform_at : IR_OP_random_normal_at;
    IrId args[4] = {s->r.map[op->args[0]], s->r.map[op->args[1]],
                    irb_gather(b, s->p->row, element_of(s, s->form.space)),
                    irb_gather(b, s->p->col, element_of(s, s->p->cols))};
    return ir_add(b->m, b->f, at, type, args, 4, op->attr, b->span);
}

IrId sparse_stored(Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    IrId args[3];
    s->r.b.span = op->span;
    if (!sparse_has_form(s, &op->type)) return gather_leaf(s, v);
    IrType type = {.space = s->p->nnz, .dtype = op->type.dtype};
    if (op->op == IR_OP_random_uniform || op->op == IR_OP_random_normal) return random_at(s, op, type);
    ICE_UNLESS(op->n_args <= sizeof args / sizeof *args);
    for (uint32_t k = 0; k < op->n_args && k < 3; k++) args[k] = s->at[op->args[k]];
    return ir_add(s->r.b.m, s->r.b.f, op->op, type, args, op->n_args, op->attr, s->r.b.span);
}
