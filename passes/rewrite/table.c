/* table: how a kernel computes `at`, the element at a place that an index says. A row of a table is read:

     %5 = at %T, %i dim N : node[F]    ->    route %i via N.at
                                             %5 = gather (reshape %T : N.rows[F]) via N.at : node[F]

   so that a row costs its own bytes, not the table's, and the gradient is a sum over the rows that read it. Tables of
   few rows and values of rows are read in the kernel that wants the element, and no list is made. What has no dims,
   integers and indices with dims are sums of products with a one-hot, which stays in registers. An index outside reads
   0 in each form. A row that is a mixture of few matrices is mixed where the index says:

     %5 = at (contract %C, %V), %i dim N  with %C : [N,B]      ->      %5 = contract (at %C, %i), %V

   Knows nothing of what a table means.

   Behind autodiff, products that sum the last dim of such a row read it from a table that is laid out for them:

     %7 = contract %6, %5 : node[K]             ->    %5' = gather (reshape (transpose %T)) : node[F,K]
        with %5 : node[K,F] summed over F                                                                     */
#include "passes/rewrite/rewrite.h"
#include "base/ice.h"
#include "passes/context/machine.h"

enum { FEW_MATRICES = 16 }; /* they may multiply by node, for as many kinds of edges as a node has edges */

typedef struct Route { /* of a function: where its value `index` leads */
    IrId index, map;   /* index: in the new function */
} Route;

typedef struct Table {
    PassContext *ctx;
    Rewrite r;
    VEC(Route) routes;
} Table;

static const IrOp *op_of(const Table *t, IrId v) { return &t->r.old->ops.data[v]; }

/* Does op read rows of a table that is the same for all that read it, each where one integer says? */
static bool is_table(const Table *t, const IrOp *op)
{
    return op->op == IR_OP_at && op_of(t, op->args[0])->type.space == IR_UNIT && op->type.space != IR_UNIT &&
           !op_of(t, op->args[1])->type.n_dims;
}

/* ---- places ---------------------------------------------------------------------------------------------- */

/* Where the index leads in this function; one list serves all tables of as many rows. */
static IrId route_to(Table *t, IrId index, IrId space, Span span)
{
    Build *b = &t->r.b;
    for (uint32_t i = 0; i < t->routes.n; i++)
        if (t->routes.data[i].index == index && b->m->maps.data[t->routes.data[i].map].to == space)
            return t->routes.data[i].map;
    IrType type = irb_type(b, index);
    const char *name = arena_printf(b->m->arena, "%s.at%u", b->m->spaces.data[space].name, b->m->maps.n);
    IrId map = ir_map_new(b->m, name, type.space, space);
    b->m->maps.data[map].computed = b->m->maps.data[map].partial = true;
    ir_add(b->m, b->f, IR_OP_route, type, &index, 1, (IrAttr){.map = map}, span);
    VEC_PUSH(t->ctx->stage, &t->routes, ((Route){index, map}));
    return map;
}

/* ---- one function ------------------------------------------------------------------------------------------ */

/* The table with the dim of its rows first. */
static IrId rows_first(Build *b, IrId x, IrId dim)
{
    IrType t = irb_type(b, x), wanted = t;
    if (t.dims[0] == dim) return x;
    wanted.dims[0] = dim;
    for (uint8_t k = 0, n = 1; k < t.n_dims; k++)
        if (t.dims[k] != dim) wanted.dims[n++] = t.dims[k];
    return irb_unary(b, IR_OP_transpose, wanted, x, (IrAttr){0});
}

/* What is read of table x, whose rows have their own dims first: the row's dims in the order of `row`. */
static IrId read_at(Build *b, IrId map, IrId x, IrType row)
{
    row.space = b->m->maps.data[map].to;
    return irb_gather(b, map, irb_unary(b, IR_OP_reshape, row, x, (IrAttr){0}));
}

static IrId read_row(Table *t, const IrOp *op)
{
    Build *b = &t->r.b;
    b->span = op->span;
    IrId map = route_to(t, t->r.map[op->args[1]], irb_rows_space(b->m, op->attr.dim), op->span);
    IrId rows = rows_first(b, t->r.map[op->args[0]], op->attr.dim);
    IrType type = irb_type(b, rows);
    ICE_UNLESS(type.n_dims && type.dims[0] == op->attr.dim);
    type.n_dims--;
    memmove(type.dims, type.dims + 1, type.n_dims * sizeof *type.dims);
    IrId row = read_at(b, map, rows, type);
    type = irb_type(b, row);
    return ir_type_eq(&type, &op->type) ? row : irb_unary(b, IR_OP_transpose, op->type, row, (IrAttr){0});
}

/* Is a row of the table read where the index says? One-hots of fewer rows are half a vector. */
static bool reads(const Table *t, const IrOp *op)
{
    int64_t few = op->type.n_dims > 1 ? FEW_MATRICES : t->ctx->machine->lanes / 2;
    return t->r.b.m->dims.data[op->attr.dim].size > few;
}

/* Which operand of the product says how much of each matrix a place has, where the table is a product that mixes at
   most FEW_MATRICES of them; -1: it is none. What reads a row of it mixes, so that the few matrices may multiply by
   node. */
static int mixes(const Table *t, const IrOp *op)
{
    const IrOp *mix = op_of(t, op->args[0]);
    if (mix->op != IR_OP_contract || op->type.n_dims < 2) return -1;
    int i = ir_type_has_dim(&op_of(t, mix->args[0])->type, op->attr.dim) ? 0 : 1;
    const IrType *shares = &op_of(t, mix->args[i])->type, *things = &op_of(t, mix->args[1 - i])->type;
    if (shares->space != IR_UNIT || things->space != IR_UNIT || ir_type_has_dim(things, op->attr.dim)) return -1;
    double n = 1;
    for (uint8_t k = 0; k < shares->n_dims; k++) {
        if (shares->dims[k] == op->attr.dim) continue;
        if (ir_type_has_dim(&mix->type, shares->dims[k])) return -1;
        n *= (double)t->r.b.m->dims.data[shares->dims[k]].size;
    }
    return n <= FEW_MATRICES ? i : -1;
}

static IrId read_mixed(Table *t, const IrOp *op, int places)
{
    Build *b = &t->r.b;
    const IrOp *mix = op_of(t, op->args[0]);
    IrId of[] = {mix->args[places], op->args[1]}, row[] = {t->r.map[of[0]], t->r.map[of[1]]}, args[2];
    IrOp weights = *op;
    weights.args = of;
    ICE_UNLESS(ir_type_at(&op_of(t, of[0])->type, op->attr.dim, &op_of(t, of[1])->type, &weights.type));
    b->span = op->span;
    args[places] = reads(t, &weights) ? read_row(t, &weights)
                                      : ir_add(b->m, b->f, IR_OP_at, weights.type, row, 2, op->attr, op->span);
    args[1 - places] = t->r.map[mix->args[1 - places]];
    return ir_add(b->m, b->f, IR_OP_contract, op->type, args, 2, (IrAttr){0}, op->span);
}

/* Can a kernel compute op where it is used? There, one-hots of what has no dims are its vectors. */
static bool is_inline(const Table *t, const IrOp *op)
{
    const IrType *i = &op_of(t, op->args[1])->type;
    return op->type.n_dims && ir_dtype_is_float(op->type.dtype) && !i->n_dims && i->space == op->type.space;
}

/* The sum of products with a one-hot; of values of rows that is a choice, so that an infinity beside is left alone. */
static IrId summed(Table *t, const IrOp *op)
{
    Build *b = &t->r.b;
    b->span = op->span;
    IrId args[] = {irb_one_hot(b, t->r.map[op->args[1]], op->attr.dim), t->r.map[op->args[0]], 0};
    IrType hot = irb_type(b, args[0]), x = irb_type(b, args[1]), all = ir_type_join(&x, &hot);
    if (x.space == IR_UNIT && ir_dtype_is_float(x.dtype)) {
        hot.dtype = x.dtype;
        args[0] = irb_unary(b, IR_OP_cast, hot, args[0], (IrAttr){0});
        return ir_add(b->m, b->f, IR_OP_contract, op->type, args, 2, (IrAttr){0}, op->span);
    }
    args[2] = irb_scalar(b, x.dtype, 0);
    return irb_fit(b, ir_add(b->m, b->f, IR_OP_select, all, args, 3, (IrAttr){0}, op->span), op->type);
}

/* Operand k of a product with matrices that are read, whose last dim is summed: the table with dims in another order,
   so that vectors run along what the product makes, as `prepare` lays out a weight. IR_NONE: it stays. */
static IrId laid_out(Table *t, const IrOp *op, uint32_t k)
{
    const IrOp *read = op_of(t, op->args[k]);
    if (read->op != IR_OP_gather) return IR_NONE;
    const IrOp *rows = op_of(t, read->args[0]);
    if (rows->op != IR_OP_reshape || op->type.space == IR_UNIT || !op->type.n_dims) return IR_NONE;
    const IrType *x = &read->type, *whole = &op_of(t, rows->args[0])->type;
    IrId last = op->type.dims[op->type.n_dims - 1];
    bool table = whole->space == IR_UNIT && whole->n_dims == x->n_dims + 1 &&
                 !memcmp(whole->dims + 1, x->dims, x->n_dims * sizeof *x->dims);
    if (!table || x->n_dims < 2 || !ir_type_has_dim(x, last) || x->dims[x->n_dims - 1] == last) return IR_NONE;
    IrType wanted = *whole, row = *x;
    uint8_t n = 0;
    for (int own = 0; own < 2; own++) /* summed dims first */
        for (uint8_t i = 0; i < x->n_dims; i++)
            if (ir_type_has_dim(&op->type, x->dims[i]) == own) row.dims[n++] = x->dims[i];
    if (row.dims[n - 1] != last) return IR_NONE;
    memcpy(wanted.dims + 1, row.dims, n * sizeof *row.dims);
    Build *b = &t->r.b;
    b->span = op->span;
    return read_at(b, read->attr.map, irb_unary(b, IR_OP_transpose, wanted, t->r.map[rows->args[0]], (IrAttr){0}), row);
}

static IrId copy_product(Table *t, IrId v)
{
    IrOp op = rewrite_op(&t->r, v);
    for (uint32_t k = 0; k < op.n_args && op.op == IR_OP_contract; k++) {
        IrId x = laid_out(t, op_of(t, v), k);
        if (x == IR_NONE) continue;
        op.args[k] = x;
        pass_remark_at(t->ctx, PASS_table, true, t->r.old, v,
                       "a product with matrices that are read has them laid out for it");
    }
    return t->r.map[v] = irb_add(&t->r.b, &op);
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Table t = {.ctx = ctx, .r = rewrite_begin(m, old)};
    for (IrId v = 0; v < old->ops.n; v++) {
        const IrOp *op = op_of(&t, v);
        bool table = is_table(&t, op), read = table && reads(&t, op);
        int mixed = read ? mixes(&t, op) : -1;
        if (mixed >= 0) t.r.map[v] = read_mixed(&t, op, mixed);
        else if (read) t.r.map[v] = read_row(&t, op);
        else if (op->op == IR_OP_at && !is_inline(&t, op)) t.r.map[v] = summed(&t, op);
        else copy_product(&t, v);
        if (!table) continue;
        const char *how = mixed >= 0 ? "is a mixture of few: it is mixed where the index says"
                          : read     ? "is read where the index says"
                                     : "is one of few: no list of who reads it is made";
        pass_remark_at(ctx, PASS_table, read, old, v, "a row of %lld %s", (long long)m->dims.data[op->attr.dim].size,
                       how);
    }
    return rewrite_end(&t.r);
}

IrModule *pass_table(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
