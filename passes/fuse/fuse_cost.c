/* What the kernels of a function cost together, by the rates of the machine (passes/context/price.h): bytes that stream
   or are gathered, bytes that are stored, operations. fuse.c compares forms of one function by it; nothing else depends
   on it. */
#include "passes/fuse/cost.h"
#include "passes/context/price.h"
#include "passes/context/rows.h"

/* A function stores wide values of edges when computing them in each walk costs so many times more in all; its sums
   over all edges are sums over rows of nodes where it then costs at most so many times as much. */
static const double AGAIN_FACTOR = 1.5, ROWS_FACTOR = 0.95;

typedef struct Total {
    const FusedFunc *f;
    double ns; /* per node */
} Total;

static double bytes_of(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    return (double)ir_type_width(f->m, t) * (double)ir_dtype_bytes(t->dtype);
}

static void add_op(void *user, IrId v, IrId space)
{
    Total *x = user;
    const IrFunc *f = x->f->f;
    const IrOp *op = fused_op(x->f, v);
    GroupKind kind = group_kind_of(f, x->f->m, v);
    double n = (double)ir_type_width(x->f->m, &op->type);
    PriceKind price = op->type.n_dims ? PRICE_vector : PRICE_scalar;
    if (kind == GROUP_DIMS || kind == GROUP_PRODUCT || op->op == IR_OP_contract) {
        IrId dims[2 * IR_MAX_DIMS];
        unsigned k = reduced_dims(f, op, dims);
        while (k-- > 0) n *= (double)x->f->m->dims.data[dims[k]].size;
        price = kind == GROUP_DIMS ? PRICE_vector : PRICE_product;
    }
    if (op->type.space == IR_UNIT && !op_is_heavy(x->f->m, f, v)) space = IR_UNIT;
    x->ns += price_flops(x->f->machine, price, n * ir_ops[op->op].flops) * cost_rows(x->f->m, space);
}

/* In no order: through another map than the one that the group sums over, or what a list leads to. */
static bool is_gathered(const FusedFunc *f, const Group *g, const GroupRead *r)
{
    bool by_list = g->map != IR_NONE && !f->m->maps.data[g->map].sorted;
    if (r->map == IR_NONE) return by_list && fused_op(f, r->v)->type.space == f->m->maps.data[g->map].from;
    return r->map != g->map && (by_list || !f->m->maps.data[r->map].sorted);
}

static void add_read(Total *x, const Group *g, const GroupRead *r)
{
    const FusedFunc *f = x->f;
    IrId own = fused_op(f, r->v)->type.space;
    double bytes = bytes_of(f, r->v) / (double)r->part;
    if (own == IR_UNIT) return;
    if (r->space != IR_UNIT && is_gathered(f, g, r))
        x->ns += price_gather(f->machine, bytes) * cost_rows(f->m, r->space);
    else x->ns += price_stream(f->machine, bytes) * cost_rows(f->m, own);
}

double fuse_cost(const FusedFunc *f)
{
    Total x = {.f = f};
    Arena *scratch = arena_new();
    for (uint32_t i = 0; i < f->order.n; i++) {
        uint32_t g = f->order.data[i];
        GroupReads reads = {0};
        group_reads(f, g, scratch, &reads);
        group_ops(f, g, scratch, add_op, &x);
        for (uint32_t k = 0; k < reads.reads.n; k++) {
            const GroupRead *r = &reads.reads.data[k];
            if (f->group_of.data[r->v] != g && !group_has_copy(f, g, r->v)) add_read(&x, &f->groups.data[g], r);
        }
    }
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (f->group_of.data[v] != GROUP_NONE && f->stored.data[v]) x.ns += cost_write(f, v);
    arena_free(scratch);
    return x.ns;
}

double fuse_edge_bytes(const FusedFunc *f)
{
    double bytes = 0;
    for (IrId v = 0; v < f->f->ops.n; v++) {
        const IrType *t = &fused_op(f, v)->type;
        if (f->group_of.data[v] == GROUP_NONE || !f->stored.data[v] || !has_many_rows(f->m, t->space)) continue;
        bytes += bytes_of(f, v) * cost_rows(f->m, t->space);
    }
    return bytes;
}

bool fuse_again_pays(double again, double stored) { return again < AGAIN_FACTOR * stored; }

bool fuse_rows_pay(double rows, double all) { return rows < ROWS_FACTOR * all; }
