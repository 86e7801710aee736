/* table: what picks a row of a table by the value of an integer, with a 1 where the row's number is that value and 0
   elsewhere, reads the row instead.

     %3 = eq %i, iota N : node[N]                    route %i via N.at
     %5 = contract (cast %3), %T : node[F]    ->     %5 = gather (reshape %T : N.rows[F]) via N.at : node[F]

   so that a row costs its own bytes, not the table's, and the gradient is a sum over the rows that read it. Tables of
   few rows stay as they are: their hits stay in registers, and no list is made. A value outside the table reads 0 in
   either form. Knows nothing of what a table means, nor whether a user or the front end wrote it.

   Behind autodiff, products that sum the last dim of such a row read it from a table that is laid out for them:

     %7 = contract %6, %5 : node[K]   with %5 : node[K,F] summed over F      ->      %5' = gather (reshape (transpose %T)) : node[F,K] */
#include "passes/rewrite/hit.h"
#include "passes/context/machine.h"

enum { FEW_MATRICES = 16 }; /* with hits, matrices multiply by node, for as many kinds of edges as a node has edges */

typedef struct Route { /* of a function: where its value `index` leads */
    IrId index, map;   /* index: in the new function */
} Route;

typedef struct Table {
    PassContext *ctx;
    Rewrite r;
    const bool *pinned; /* [old values] or NULL */
    VEC(Route) routes;
} Table;

static const IrOp *op_of(const Table *t, IrId v) { return &t->r.old->ops.data[v]; }

/* The table that op picks rows of, with no other sum: all dims but the one of its rows are the result's. IR_NONE:
   none. */
static IrId picked_table(const Table *t, const IrOp *op, Hit *hit)
{
    IrId table = hit_picks(t->r.old, t->pinned, op, hit);
    if (table == IR_NONE) return IR_NONE;
    const IrType *x = &op_of(t, table)->type;
    bool rows = x->space == IR_UNIT && ir_type_has_dim(x, hit->dim) && !ir_type_has_dim(&op->type, hit->dim);
    return rows && op->type.space != IR_UNIT && x->n_dims == op->type.n_dims + 1 ? table : IR_NONE;
}

/* ---- places ---------------------------------------------------------------------------------------------- */

/* The space with a row for each of n places. */
static IrId rows_space(IrModule *m, IrId dim)
{
    for (IrId s = 1; s < m->spaces.n; s++)
        if (m->spaces.data[s].has_dim && m->dims.data[m->spaces.data[s].dim].size == m->dims.data[dim].size) return s;
    IrId s = ir_space_new(m, arena_printf(m->arena, "%s.rows", m->dims.data[dim].name), false);
    m->spaces.data[s].has_dim = true;
    m->spaces.data[s].dim = dim;
    return s;
}

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

static IrId read_row(Table *t, const IrOp *op, IrId table, const Hit *hit)
{
    Build *b = &t->r.b;
    b->span = op->span;
    IrId map = route_to(t, t->r.map[hit->index], rows_space(b->m, hit->dim), op->span);
    IrId rows = rows_first(b, t->r.map[table], hit->dim);
    IrType type = irb_type(b, rows);
    type.n_dims--;
    memmove(type.dims, type.dims + 1, type.n_dims * sizeof *type.dims);
    IrId row = read_at(b, map, rows, type);
    type = irb_type(b, row);
    return ir_type_eq(&type, &op->type) ? row : irb_unary(b, IR_OP_transpose, op->type, row, (IrAttr){0});
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
    Table t = {.ctx = ctx, .r = rewrite_begin(m, old), .pinned = rewrite_pinned(ctx->stage, old)};
    for (IrId v = 0; v < old->ops.n; v++) {
        Hit hit;
        const IrOp *op = op_of(&t, v);
        IrId table = picked_table(&t, op, &hit);
        int64_t n = table == IR_NONE ? 0 : m->dims.data[hit.dim].size;
        /* hits of fewer rows are half a vector */
        bool read = n > (op->type.n_dims > 1 ? FEW_MATRICES : ctx->machine->lanes / 2);
        if (read) t.r.map[v] = read_row(&t, op, table, &hit);
        else copy_product(&t, v);
        if (table == IR_NONE) continue;
        const char *how = read ? "is read where the index says" : "is summed with hits of all: it has few";
        pass_remark_at(ctx, PASS_table, read, old, v, "a row of %lld %s", (long long)n, how);
    }
    return rewrite_end(&t.r);
}

IrModule *pass_table(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
