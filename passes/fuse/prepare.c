/* What a function looks like before groups form: conditions read from what they cut (prepare_cut.c), products cut where
   they are read in pieces (prepare_parts.c), no unused operations, each result a value of its own that some kernel
   writes, sums over a map that is one-to-one read through its inverse, weights of products with the result's last dim
   innermost, products over several dims as products over one, outer products with the dims of one operand before those
   of the other, and dims of size one gone.

     %5 = contract %x, %w : node[K]      with %w : [K, F], summed over F
     -> %4 = transpose %w : [F, K]       %5 = contract %x, %4 : node[K]

   Never changes what is computed, nor the order of any sum. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/rewrite/rewrite.h"

static const double FULLER = 1.05;

/* ---- dims of size one ------------------------------------------------------------------------------------- */

static IrType squeeze(const IrModule *m, IrType t)
{
    uint8_t n = 0;
    for (uint8_t k = 0; k < t.n_dims; k++)
        if (m->dims.data[t.dims[k]].size != 1) t.dims[n++] = t.dims[k];
    t.n_dims = n;
    return t;
}

/* A view of another type with as many elements. */
static IrId view(Build *b, IrId x, IrType t)
{
    IrType old = irb_type(b, x);
    return ir_type_eq(&old, &t) ? x : irb_unary(b, IR_OP_reshape, t, x, (IrAttr){0});
}

/* Slices and concatenations name the dim they cut: they keep it, between views. */
static IrId squeeze_cut(Rewrite *r, IrOp *op, const IrOp *old)
{
    Build *b = &r->b;
    IrType wanted = squeeze(b->m, op->type);
    IrId cut = op->attr.dim;
    bool concat = op->op == IR_OP_concat;
    ICE_UNLESS(ir_type_has_dim(concat ? &op->type : &r->old->ops.data[old->args[0]].type, cut));
    if (b->m->dims.data[cut].size == 1) return view(b, op->args[0], wanted); /* of one element: all there is */
    for (uint32_t i = 0; i < op->n_args; i++) {
        IrType t = r->old->ops.data[old->args[i]].type, kept = t;
        uint8_t at = 0, n = 0;
        while ((concat ? op->type.dims[at] : t.dims[at]) != cut) at++;
        for (uint8_t k = 0; k < t.n_dims; k++)
            if (k == at || b->m->dims.data[t.dims[k]].size != 1) kept.dims[n++] = t.dims[k];
        kept.n_dims = n;
        op->args[i] = view(b, op->args[i], kept);
    }
    uint8_t at = 0, n = 0;
    const IrType *in = &r->old->ops.data[old->args[0]].type;
    while ((concat ? op->type.dims[at] : in->dims[at]) != cut) at++;
    IrType kept = op->type;
    for (uint8_t k = 0; k < op->type.n_dims; k++)
        if (k == at || b->m->dims.data[op->type.dims[k]].size != 1) kept.dims[n++] = op->type.dims[k];
    kept.n_dims = n;
    op->type = kept;
    return view(b, irb_add(b, op), wanted);
}

/* ---- weights ------------------------------------------------------------------------------------------------ */

/* A weight of a product whose last dim is not the result's: laid out anew, summed dims first. */
static IrId lay_out_weight(Build *b, const IrOp *op, IrId x)
{
    IrType t = irb_type(b, x), wanted = t;
    const IrType *r = &op->type;
    if (t.space != IR_UNIT || !r->n_dims || t.n_dims < 2) return x;
    IrId last = r->dims[r->n_dims - 1];
    if (!ir_type_has_dim(&t, last) || t.dims[t.n_dims - 1] == last) return x;
    IrId summed[2 * IR_MAX_DIMS];
    unsigned n_summed = reduced_dims(b->f, op, summed);
    wanted.n_dims = 0;
    for (unsigned k = 0; k < n_summed; k++)
        if (ir_type_has_dim(&t, summed[k])) wanted.dims[wanted.n_dims++] = summed[k];
    for (uint32_t k = 0; k < r->n_dims; k++)
        if (ir_type_has_dim(&t, r->dims[k])) wanted.dims[wanted.n_dims++] = r->dims[k];
    return irb_unary(b, IR_OP_transpose, wanted, x, (IrAttr){0});
}

/* ---- plain products over several dims -------------------------------------------------------------------- */

static bool same_dims(const IrType *t, const IrId *dims, unsigned n)
{
    return t->n_dims == n && !memcmp(t->dims, dims, n * sizeof *dims);
}

/* The types [K] and [N] whose join, in this order, are the operands of a row-major product; false if it is none. */
static bool product_dims(const IrFunc *f, const IrOp *op, IrType *k, IrType *n)
{
    const IrType *a = &f->ops.data[op->args[0]].type, *b = &f->ops.data[op->args[1]].type, *r = &op->type;
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n_dims = reduced_dims(f, op, dims);
    *k = *n = *r;
    if (r->space == IR_UNIT) { /* [M, N] = sum over rows of [M] and [N] */
        *k = *a;
        *n = *b;
        k->n_dims = a->n_dims;
        return a->space != IR_UNIT && a->space == b->space && !n_dims && a->n_dims && b->n_dims &&
               a->n_dims + b->n_dims == r->n_dims && same_dims(a, r->dims, a->n_dims) &&
               same_dims(b, r->dims + a->n_dims, b->n_dims);
    }
    if (a->space == IR_UNIT || b->space != IR_UNIT || !n_dims || !same_dims(a, dims, n_dims)) return false;
    *k = *a;
    return b->n_dims == n_dims + r->n_dims && !memcmp(b->dims, dims, n_dims * sizeof *dims) &&
           !memcmp(b->dims + n_dims, r->dims, r->n_dims * sizeof *r->dims);
}

/* One dim of the same number of elements. */
static IrId flat_dim(IrModule *m, const IrType *t)
{
    return t->n_dims == 1 ? t->dims[0] : ir_dim_new(m, "flat", ir_type_width(m, t));
}

static IrId reshape_to(Build *b, IrId x, const IrId *dims, uint8_t n)
{
    IrType t = irb_type(b, x);
    t.n_dims = n;
    memcpy(t.dims, dims, n * sizeof *dims);
    IrType old = irb_type(b, x);
    return ir_type_eq(&t, &old) ? x : irb_unary(b, IR_OP_reshape, t, x, (IrAttr){0});
}

/* contract %x[K1,K2], %w[K1,K2,N1,N2] : [N1,N2] becomes a product of [K] and [K,N]: the same sums in the same order,
   with vectors along all of N. The reshapes are views of what lies in memory. */
static IrId flatten_product(Build *b, IrOp *op, const IrType *k, const IrType *n)
{
    IrType wanted = op->type;
    bool outer = wanted.space == IR_UNIT;
    IrId dk = flat_dim(b->m, k), dn = flat_dim(b->m, n);
    op->args[0] = reshape_to(b, op->args[0], &dk, 1);
    op->args[1] = outer ? reshape_to(b, op->args[1], &dn, 1) : reshape_to(b, op->args[1], (IrId[]){dk, dn}, 2);
    op->type.n_dims = outer ? 2 : 1;
    op->type.dims[0] = outer ? dk : dn;
    op->type.dims[1] = outer ? dn : 0;
    return view(b, irb_add(b, op), wanted);
}

/* The share of a product's vectors, of n elements in all, that holds something. */
static double share_filled(int64_t filled, const IrType *t, int64_t n)
{
    int64_t lanes = filled / (int64_t)ir_dtype_bytes(t->dtype);
    return (double)n / (double)((n + lanes - 1) / lanes * lanes);
}

/* contract %x[M], %y[N] : [M,N] over all rows becomes contract %y, %x : [N,M], to be transposed, where vectors are
   fuller along M: the same sums in the same order. */
static bool turn_outer(int64_t filled, const Build *b, IrOp *op, IrType *m, IrType *n)
{
    if (op->type.space != IR_UNIT) return false;
    if (share_filled(filled, m, ir_type_width(b->m, m)) <= FULLER * share_filled(filled, n, ir_type_width(b->m, n)))
        return false;
    IrId first = op->args[0];
    IrType of_first = *m;
    op->args[0] = op->args[1];
    op->args[1] = first;
    *m = *n;
    *n = of_first;
    memcpy(op->type.dims, m->dims, m->n_dims * sizeof *m->dims);
    memcpy(op->type.dims + m->n_dims, n->dims, n->n_dims * sizeof *n->dims);
    return true;
}

/* What a product reads in place, without memory of its own, would need memory to be reshaped. */
static bool is_read_in_place(const IrFunc *f, const IrOp *op)
{
    for (uint32_t i = 0; i < 2; i++) {
        IrOpcode x = f->ops.data[op->args[i]].op;
        if (x == IR_OP_gather || x == IR_OP_cast || x == IR_OP_const) return true;
    }
    return false;
}

/* The dims of a sum of outer products over rows in the order in which it is one product: the first operand's, then the
   second's. Its own where a dim is in both or is summed. */
static IrType outer_type(const IrFunc *f, const IrOp *op)
{
    const IrType *a = &f->ops.data[op->args[0]].type, *b = &f->ops.data[op->args[1]].type;
    IrType t = op->type;
    if (t.space != IR_UNIT || a->space == IR_UNIT || b->space == IR_UNIT || a->n_dims + b->n_dims != t.n_dims) return t;
    for (uint32_t k = 0; k < a->n_dims; k++)
        if (ir_type_has_dim(b, a->dims[k])) return t;
    memcpy(t.dims, a->dims, a->n_dims * sizeof *t.dims);
    memcpy(t.dims + a->n_dims, b->dims, b->n_dims * sizeof *t.dims);
    return t;
}

static bool is_result(const IrFunc *f, IrId v)
{
    for (uint32_t i = 0; i < f->results.n; i++)
        if (f->results.data[i].value == v) return true;
    return false;
}

static IrId prepare_contract(int64_t filled, Rewrite *r, IrOp *op, bool is_result)
{
    Build *b = &r->b;
    IrType wanted = op->type, k, n;
    if (contract_is_dot(b->f, op)) return irb_add(b, op);
    for (uint32_t i = 0; i < 2; i++) op->args[i] = lay_out_weight(b, op, op->args[i]);
    op->type = outer_type(b->f, op);
    bool product = product_dims(b->f, op, &k, &n), turned = product && turn_outer(filled, b, op, &k, &n);
    bool moved = turned || !ir_type_eq(&op->type, &wanted);
    bool flat = product && (k.n_dims > 1 || n.n_dims > 1) && !is_read_in_place(b->f, op);
    IrId v = flat && (moved || !is_result) ? flatten_product(b, op, &k, &n) : irb_add(b, op);
    return moved ? irb_unary(b, IR_OP_transpose, wanted, v, (IrAttr){0}) : v;
}

static void prepare_op(int64_t filled, Rewrite *r, IrId v)
{
    IrOp op = rewrite_op(r, v);
    Build *b = &r->b;
    b->span = op.span;
    if (op.op == IR_OP_slice || op.op == IR_OP_concat) {
        r->map[v] = squeeze_cut(r, &op, &r->old->ops.data[v]);
        return;
    }
    op.type = squeeze(b->m, op.type);
    if (op.op == IR_OP_at && b->m->dims.data[op.attr.dim].size == 1) { /* of one place: that one, or none */
        IrId first = irb_compare(b, IR_OP_eq, op.args[1], irb_scalar(b, IR_I64, 0));
        r->map[v] = irb_broadcast(b, irb_select(b, first, op.args[0], irb_scalar(b, op.type.dtype, 0)), op.type);
        return;
    }
    if (op.op == IR_OP_iota && !op.type.n_dims) {
        r->map[v] = irb_const(b, op.type, 0);
        return;
    }
    if (op.op == IR_OP_sum_dims || op.op == IR_OP_max_dims || op.op == IR_OP_min_dims)
        if (irb_type(b, op.args[0]).n_dims == op.type.n_dims) op.op = IR_OP_transpose; /* nothing is summed */
    if (op.op == IR_OP_contract) {
        r->map[v] = prepare_contract(filled, r, &op, is_result(r->old, v));
        return;
    }
    if (op.op == IR_OP_reduce_sum && b->m->maps.data[op.attr.map].inverse != IR_NONE) {
        op.op = IR_OP_gather;
        op.attr = (IrAttr){.map = b->m->maps.data[op.attr.map].inverse};
    }
    r->map[v] = irb_add(b, &op);
}

/* A result that no kernel would write by itself: an argument, a view, or one that was returned before. */
static bool needs_copy(const IrFunc *f, uint32_t index)
{
    IrId v = f->results.data[index].value;
    IrOpcode op = f->ops.data[v].op;
    if (op == IR_OP_arg || op == IR_OP_reshape) return true;
    for (uint32_t i = 0; i < index; i++)
        if (f->results.data[i].value == v) return true;
    return false;
}

void fuse_verify(PassContext *ctx, const char *step, IrModule *m, const IrFunc *f)
{
    if (ctx->verify == PASS_VERIFY_OFF) return;
    Rewrite r = rewrite_begin(m, f);
    for (IrId v = 0; v < f->ops.n; v++) {
        IrOp op = rewrite_op(&r, v);
        IrType squeezed = op.type;
        if (op.op == IR_OP_arg) op.type = f->args.data[op.attr.i].type;
        r.map[v] = view(&r.b, irb_add(&r.b, &op), squeezed);
    }
    IrFunc *whole = rewrite_end(&r);
    const IrFunc *given = ir_func_find(m, f->name);
    for (uint32_t i = 0; i < whole->results.n; i++)
        whole->results.data[i].value = view(&r.b, whole->results.data[i].value,
                                            given->ops.data[given->results.data[i].value].type);
    pass_verify_step(ctx, PASS_fuse, step, m, whole);
}

IrFunc *prepare_func(PassContext *ctx, IrModule *m, IrFunc *given, int64_t filled)
{
    IrFunc *cut = prepare_cuts(m, given), *old = prepare_parts(filled, m, cut);
    if (cut != given) fuse_verify(ctx, "prepare_cuts", m, cut);
    if (old != cut) fuse_verify(ctx, "prepare_parts", m, old);
    Rewrite r = rewrite_begin(m, old);
    const bool *used = rewrite_live(ctx->stage, m, old, NULL);
    for (IrId v = 0; v < old->ops.n; v++)
        if (used[v]) prepare_op(filled, &r, v);
    IrFunc *f = rewrite_end(&r);
    for (uint32_t i = 0; i < f->results.n; i++) {
        if (!needs_copy(f, i)) continue;
        IrResult *result = &f->results.data[i];
        const IrOp *op = &f->ops.data[result->value];
        r.b.span = op->span;
        result->value = irb_unary(&r.b, IR_OP_detach, op->type, result->value, (IrAttr){0});
    }
    fuse_verify(ctx, "prepare", m, f);
    return f;
}
