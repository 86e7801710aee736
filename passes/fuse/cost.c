/* Cost model of fuse: a value that is stored is written once, with the read that a write allocates, and read by each
   consumer; one that is computed again costs its operations and its loads once per consumer.

     %5 = relu(gather %x) : edge[64]    stored: 2 x 256 bytes to memory, 256 per consumer and edge
                                        again: 64 operations and a gathered row per consumer and edge
   Operations that lack the dim of the vectors run one at a time. It decides nothing and knows no graph. */
#include "passes/fuse/cost.h"
#include "passes/context/price.h"
#include "passes/context/rows.h"

enum { MAX_CONE = 4096 };
static const double TOO_DEAR = 1e12;
/* a wide value of edges is stored only where computing it again costs more than so many times what storing it does */
static const double WIDE_FACTOR = 2;

double cost_rows(const IrModule *m, IrId space) { return expected_rows(m, space) / EXPECTED_NODES; }

static double width_of(const FusedFunc *f, const IrType *t) { return (double)ir_type_width(f->m, t); }

static double row_bytes(const FusedFunc *f, const IrType *t)
{
    return width_of(f, t) * (double)ir_dtype_bytes(t->dtype);
}

double cost_patience(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    return has_many_rows(f->m, t->space) && width_of(f, t) > (double)machine_line_of(f->machine, sizeof(float))
               ? WIDE_FACTOR
               : 1;
}

/* ---- a value's tree ---------------------------------------------------------------------------------- */

typedef struct Cone {
    Cost *c;
    const CostUse *use;
    IrId top;      /* the value in question */
    bool skip_top; /* it is read, not computed: the walk finds what its kernel does without it */
    uint32_t n;
    double ns;   /* per row of the value at the top */
    double part; /* of what is read now, one of so many places is */
} Cone;

static void add_load(Cone *c, IrId v, bool gathered)
{
    const IrType *t = &fused_op(c->c->f, v)->type;
    if (t->space == IR_UNIT) return; /* stays in the nearest cache */
    double bytes = row_bytes(c->c->f, t) / c->part;
    c->ns += gathered ? price_gather(c->c->f->machine, bytes) : price_stream(c->c->f->machine, bytes);
}

static void add_flops(Cone *c, const IrOp *op)
{
    const IrType *t = &op->type;
    bool vector = t->n_dims ? c->use->vec != IR_NONE && ir_type_has_dim(t, c->use->vec) : c->use->rows;
    if (t->space == IR_UNIT && !t->n_dims) return; /* once per kernel */
    c->ns += price_flops(c->c->f->machine, vector ? PRICE_vector : PRICE_scalar,
                         width_of(c->c->f, t) * ir_ops[op->op].flops);
}

/* root: v is computed here though it has a group. */
static void walk(Cone *c, IrId v, bool gathered, bool root)
{
    const FusedFunc *f = c->c->f;
    IrId s = root ? v : fused_storage(f, v);
    const IrOp *op = fused_op(f, s);
    if (c->c->mark[s] == c->c->epoch || (c->skip_top && s == c->top)) return;
    c->c->mark[s] = c->c->epoch;
    if (++c->n > MAX_CONE) {
        c->ns = TOO_DEAR;
        return;
    }
    if (!root && (op->op == IR_OP_arg || op_is_heavy(f->m, f->f, s) || f->group_of.data[s] != GROUP_NONE)) {
        add_load(c, s, gathered);
        return;
    }
    add_flops(c, op);
    gathered |= op->op == IR_OP_gather && f->m->maps.data[op->attr.map].to != IR_UNIT;
    double part = c->part;
    if (op->op == IR_OP_at) c->part *= (double)f->m->dims.data[op->attr.dim].size;
    for (uint32_t k = 0; k < op->n_args; k++) walk(c, op->args[k], gathered, false);
    c->part = part;
}

Cost cost_begin(const FusedFunc *f, Arena *a)
{
    return (Cost){.f = f, .mark = ARENA_ARRAY(a, uint32_t, f->f->ops.n + 1)};
}

double cost_compute(Cost *c, IrId v, const CostUse *u)
{
    Cone without = {.c = c, .use = u, .top = v, .skip_top = true, .part = 1},
         cone = {.c = c, .use = u, .top = v, .part = 1};
    c->epoch++;
    if (u->group != GROUP_NONE) {
        const Group *g = &c->f->groups.data[u->group];
        for (uint32_t i = 0; i < g->roots.n; i++) walk(&without, g->roots.data[i], false, true);
    }
    walk(&cone, v, false, true);
    return cone.ns * cost_rows(c->f->m, fused_op(c->f, v)->type.space);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

double cost_write(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    return price_write(f->machine, row_bytes(f, t)) * cost_rows(f->m, t->space);
}

double cost_read(const FusedFunc *f, IrId v, const CostUse *u)
{
    const IrType *t = &fused_op(f, v)->type;
    double bytes = row_bytes(f, t),
           row = u->times > 1 ? price_gather(f->machine, bytes) : price_stream(f->machine, bytes);
    return row * u->times * cost_rows(f->m, t->space);
}
