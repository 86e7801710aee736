/* pick: where a rank only says which element of each row is meant, the row says which that is. For each number k that a
   rank is compared with, where k is one for all elements of a row:

     %3 = rank %1 via edge.dst : edge[F]                 %3 = nth %1, %k via edge.dst : node[F]
     %4 = gather %k via edge.dst : edge[]                %4 = gather %3 via edge.dst : edge[F]
     %5 = eq %3, %4 : edge[F]                     ->     %5 = eq (element), %4 : edge[F]

   so that nothing of the rank's width is kept for each edge, neither for the sums over the picked elements nor for
   their gradients, and no row is sorted. A rank that is read in another way, or compared with so many numbers that
   sorting once costs less, stays. Knows nothing of what is picked, nor
   why. */
#include "passes/rewrite/rewrite.h"
#include "base/ice.h"

/* clang-format off */
enum { FEW = 4, FEW_WIDE = 8 /* numbers: searching for each still costs less than sorting,
    with a feature and with vectors of them */ };
/* clang-format on */

typedef struct Pick {
    PassContext *ctx;
    Rewrite r;
} Pick;

static const IrOp *op_of(const Pick *p, IrId v) { return &p->r.old->ops.data[v]; }

/* The rank that op compares, and with what: a value of the row, at the row. */
static bool is_pick(const Pick *p, const IrOp *op, IrId *rank, IrId *k)
{
    for (unsigned i = 0; op->op == IR_OP_eq && i < 2; i++) {
        const IrOp *x = op_of(p, op->args[i]), *y = op_of(p, op->args[1 - i]);
        if (x->op != IR_OP_rank) continue;
        *rank = op->args[i];
        *k = y->op == IR_OP_gather && y->attr.map == x->attr.map ? y->args[0] : op->args[1 - i];
        if (y->type.space != IR_UNIT && *k == op->args[1 - i]) return false;
        for (uint32_t d = 0; d < y->type.n_dims; d++)
            if (!ir_type_has_dim(&x->type, y->type.dims[d])) return false;
        return true;
    }
    return false;
}

/* Numbers that the rank is compared with; 0 where it is read otherwise, too. */
static unsigned count_picks(const Pick *p, IrId rank)
{
    unsigned n = 0;
    IrId of, k, *seen = ARENA_ARRAY(p->ctx->stage, IrId, p->r.old->ops.n);
    for (uint32_t i = 0; i < p->r.old->results.n; i++)
        if (p->r.old->results.data[i].value == rank) return 0;
    for (IrId v = rank + 1; v < p->r.old->ops.n; v++) {
        const IrOp *op = op_of(p, v);
        bool reads = false, known = false;
        for (uint32_t a = 0; a < op->n_args; a++) reads |= op->args[a] == rank;
        if (!reads) continue;
        if (!is_pick(p, op, &of, &k) || of != rank) return 0;
        for (unsigned i = 0; i < n; i++) known |= seen[i] == k;
        if (!known) seen[n++] = k;
    }
    return n;
}

static bool is_picked(const Pick *p, IrId rank)
{
    const IrModule *m = p->r.b.m;
    const IrOp *op = op_of(p, rank);
    const IrMap *map = &m->maps.data[op->attr.map];
    unsigned n = count_picks(p, rank);
    if (!n) return false;
    bool fits = map->to != IR_UNIT && !map->partial, few = n <= (ir_type_width(m, &op->type) > 1 ? FEW_WIDE : FEW);
    const char *why = !fits ? "its ranks are kept: they go over all rows, or some elements have none"
                      : few ? "the elements that have a rank are found row by row, and no rank is kept"
                            : "its ranks are kept: they are compared with many numbers";
    pass_remark_at(p->ctx, PASS_pick, fits && few, p->r.old, rank, "%s", why);
    return fits && few;
}

static IrId write_pick(Pick *p, const IrOp *op, const IrOp *rank, IrId k)
{
    Build *b = &p->r.b;
    b->span = op->span;
    IrType row = rank->type, id = rank->type;
    row.space = b->m->maps.data[rank->attr.map].to;
    id.n_dims = 0;
    ICE_UNLESS(rank->op == IR_OP_rank && k < p->r.old->ops.n);
    IrId args[] = {p->r.map[rank->args[0]], p->r.map[k]};
    IrId found = ir_add(b->m, b->f, IR_OP_nth, row, args, 2, (IrAttr){.map = rank->attr.map}, rank->span);
    IrId own = ir_add(b->m, b->f, IR_OP_element, id, NULL, 0, (IrAttr){0}, op->span);
    IrOp eq = *op;
    IrId *pair = ARENA_ARRAY(b->m->arena, IrId, 2);
    pair[0] = own;
    pair[1] = irb_gather(b, rank->attr.map, found);
    eq.args = pair;
    return irb_add(b, &eq);
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Pick p = {.ctx = ctx, .r = rewrite_begin(m, old)};
    bool *picked = ARENA_ARRAY(ctx->stage, bool, old->ops.n + 1);
    for (IrId v = 0; v < old->ops.n; v++) {
        IrId rank, k;
        const IrOp *op = op_of(&p, v);
        if (op->op == IR_OP_rank) picked[v] = is_picked(&p, v);
        if (is_pick(&p, op, &rank, &k) && picked[rank]) p.r.map[v] = write_pick(&p, op, op_of(&p, rank), k);
        else rewrite_copy(&p.r, v);
    }
    return rewrite_end(&p.r);
}

IrModule *pass_pick(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
