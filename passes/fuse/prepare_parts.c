/* A product with a weight of which only pieces are read is as many products with pieces of the weight: each piece has
   memory of its own or none, what is computed from it element by element joins its product, and it may give its memory
   away.

     %2 = contract %0, %1 : node[d]            %2 = slice %1 : [F1,K]     %4 = slice %1 : [F2,K]
     %3 = slice %2 : node[F1]            ->    %3 = contract %0, %2       %5 = contract %0, %4
     %4 = slice %2 : node[F2]

   So the gradient of what was concatenated before a product. And what is concatenated only for products over all rows
   is
   not: the weight's gradient is put together instead.

     %3 = concat %1, %2 dim d : node[d]        %3 = contract %1, %0 : [F1,K]    %4 = contract %2, %0 : [F2,K]
     %4 = contract %3, %0 : [d,K]        ->    %5 = concat %3, %4 dim d : [d,K]

   No sum changes. Not where vectors of the pieces would be much emptier, nor where any element would be computed
   twice. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/rewrite/rewrite.h"

static const double EMPTIER = 1.25;

typedef struct Parts {      /* of a product or a concat, by value */
    int64_t width, vectors; /* of all slices together; of all operands */
    bool other;             /* something else reads it, or a slice along another dim */
} Parts;

static int64_t vectors_of(int64_t filled, const IrType *t, int64_t n)
{
    int64_t lanes = filled / (int64_t)ir_dtype_bytes(t->dtype);
    ICE_UNLESS(lanes > 0);
    return (n + lanes - 1) / lanes;
}

static bool is_matmul(const IrFunc *f, const IrOp *op)
{
    if (op->op != IR_OP_contract || !ir_dtype_is_float(op->type.dtype) || contract_is_dot(f, op)) return false;
    return f->ops.data[op->args[0]].type.space != IR_UNIT && f->ops.data[op->args[1]].type.space == IR_UNIT;
}

/* The operand of a product over all rows that is put together along a dim that is the other's not; 2: neither. */
static uint32_t put_together(const IrFunc *f, const IrOp *op)
{
    if (op->op != IR_OP_contract || op->type.space != IR_UNIT || !ir_dtype_is_float(op->type.dtype)) return 2;
    for (uint32_t k = 0; k < 2; k++) {
        const IrOp *x = &f->ops.data[op->args[k]], *y = &f->ops.data[op->args[1 - k]];
        bool fits = x->op == IR_OP_concat && x->type.space != IR_UNIT && y->type.space != IR_UNIT &&
                    ir_type_has_dim(&op->type, x->attr.dim) && !ir_type_has_dim(&y->type, x->attr.dim);
        for (uint32_t i = 0; i < x->n_args && fits; i++) fits = f->ops.data[x->args[i]].type.space == x->type.space;
        if (fits) return k;
    }
    return 2;
}

/* The slice op of the product x. */
static void add_slice(int64_t filled, const IrModule *m, const IrFunc *f, const IrOp *op, const IrOp *x, Parts *p)
{
    int64_t n = ir_type_width(m, &op->type);
    p->other |= !is_matmul(f, x) || ir_type_has_dim(&f->ops.data[x->args[0]].type, op->attr.dim);
    p->width += n;
    p->vectors += vectors_of(filled, &op->type, n);
}

static void add_operands(int64_t filled, const IrModule *m, const IrFunc *f, const IrOp *concat, Parts *p)
{
    p->width = p->vectors = 0;
    for (uint32_t i = 0; i < concat->n_args; i++) {
        const IrType *t = &f->ops.data[concat->args[i]].type;
        p->width += ir_type_width(m, t);
        p->vectors += vectors_of(filled, t, ir_type_width(m, t));
    }
}

static Parts *find_parts(int64_t filled, IrModule *m, const IrFunc *f)
{
    Parts *p = ARENA_ARRAY(m->arena, Parts, f->ops.n + 1);
    for (uint32_t i = 0; i < f->results.n; i++) p[f->results.data[i].value].other = true;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        for (uint32_t k = 0; k < op->n_args; k++) {
            const IrOp *x = &f->ops.data[op->args[k]];
            if (op->op == IR_OP_slice) add_slice(filled, m, f, op, x, &p[op->args[k]]);
            else if (put_together(f, op) == k) add_operands(filled, m, f, x, &p[op->args[k]]);
            else p[op->args[k]].other = true;
        }
    }
    return p;
}

static bool is_in_parts(int64_t filled, const IrModule *m, const IrFunc *f, IrId v, const Parts *p)
{
    const IrType *t = &f->ops.data[v].type;
    int64_t width = ir_type_width(m, t);
    return p->width && !p->other && p->width <= width &&
           (double)p->vectors <= EMPTIER * (double)vectors_of(filled, t, width);
}

/* The slice v of the product c; the dim has another name meanwhile, since c's operand may have that of the slice. */
static IrId product_of_part(Rewrite *r, const IrOp *c, IrId v)
{
    Build *b = &r->b;
    IrOp slice = r->old->ops.data[v], product = *c;
    IrType cut = r->old->ops.data[c->args[1]].type;
    ICE_UNLESS(slice.op == IR_OP_slice && c->op == IR_OP_contract);
    b->span = slice.span;
    for (uint32_t k = 0; k < slice.type.n_dims; k++) {
        if (c->type.dims[k] != slice.attr.dim) continue;
        product.type.dims[k] = ir_dim_new(b->m, "part", b->m->dims.data[slice.type.dims[k]].size);
        for (uint32_t i = 0; i < cut.n_dims; i++)
            if (cut.dims[i] == slice.attr.dim) cut.dims[i] = product.type.dims[k];
    }
    IrId weight = irb_unary(b, IR_OP_slice, cut, r->map[c->args[1]], slice.attr);
    product.args = (IrId[]){r->map[c->args[0]], weight};
    return irb_unary(b, IR_OP_reshape, slice.type, irb_add(b, &product), (IrAttr){0});
}

/* The product v over all rows, of the concat that is its k-th operand. */
static IrId parts_of_product(Rewrite *r, IrId v, uint32_t k)
{
    Build *b = &r->b;
    const IrOp *op = &r->old->ops.data[v], *concat = &r->old->ops.data[op->args[k]];
    IrId *parts = ARENA_ARRAY(b->m->arena, IrId, concat->n_args);
    uint32_t at = 0;
    ICE_UNLESS(k < 2 && ir_type_has_dim(&concat->type, concat->attr.dim));
    while (concat->type.dims[at] != concat->attr.dim) at++;
    b->span = op->span;
    for (uint32_t i = 0; i < concat->n_args; i++) {
        IrOp part = *op;
        IrType t = r->old->ops.data[concat->args[i]].type;
        t.dims[at] = ir_dim_new(b->m, "part", b->m->dims.data[t.dims[at]].size);
        for (uint32_t n = 0; n < part.type.n_dims; n++)
            if (part.type.dims[n] == concat->attr.dim) part.type.dims[n] = t.dims[at];
        IrId x = irb_unary(b, IR_OP_reshape, t, r->map[concat->args[i]], (IrAttr){0}), y = r->map[op->args[1 - k]];
        part.args = (IrId[]){k ? y : x, k ? x : y};
        parts[i] = irb_add(b, &part);
    }
    IrOp whole = *concat;
    whole.type = op->type;
    whole.args = parts;
    return irb_add(b, &whole);
}

IrFunc *prepare_parts(int64_t filled, IrModule *m, IrFunc *old)
{
    Rewrite r = rewrite_begin(m, old);
    const Parts *parts = find_parts(filled, m, old);
    bool any = false;
    for (IrId v = 0; v < old->ops.n; v++) {
        const IrOp *op = &old->ops.data[v];
        uint32_t k = op->op == IR_OP_slice ? 0 : put_together(old, op);
        bool cut = k < 2 && is_in_parts(filled, m, old, op->args[k], &parts[op->args[k]]);
        any |= cut;
        if (!cut) rewrite_copy(&r, v);
        else
            r.map[v] = op->op == IR_OP_slice ? product_of_part(&r, &old->ops.data[op->args[0]], v)
                                             : parts_of_product(&r, v, k);
    }
    return any ? rewrite_end(&r) : old;
}
