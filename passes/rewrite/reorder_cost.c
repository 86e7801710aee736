/* What an op costs: bytes that kernels move and arithmetic, per row of a node space. Pointwise ops are fused: they move
   nothing, but what a gather reads must lie in memory. At the rates of the machine that the build assumes: the order of
   operations is fixed when the program is built, whatever the graph. */
#include "passes/rewrite/one_hot.h"
#include "base/ice.h"
#include "passes/context/price.h"
#include "passes/rewrite/reorder.h"
#include "passes/context/rows.h"

static const double PER_OP = 1e-3; /* bytes' worth */
/* places' worth of bytes: one of many, in a table that is as many times larger, is seldom in a cache */
static const double PICKED = 2;
/* of a read: what it is worth in each run not to have a value lie in memory */
static const double MEMORY = 0.125;

const double *reorder_rows(Arena *a, const IrModule *m)
{
    double *rows = ARENA_ARRAY(a, double, m->spaces.n);
    for (IrId s = 0; s < m->spaces.n; s++) rows[s] = expected_rows(m, s) / (double)EXPECTED_NODES;
    return rows;
}

static double width_of(const Reorder *r, const IrType *t) { return (double)ir_type_width(r->b.m, t); }

static double bytes_of(const Reorder *r, const IrType *t)
{
    return r->rows[t->space] * width_of(r, t) * (double)ir_dtype_bytes(t->dtype);
}

/* Written once, read once. */
static double stored(const Reorder *r, const IrType *t) { return 2 * bytes_of(r, t); }

/* Time: in bytes that stream meanwhile. */
static RoCost cost_of(const Reorder *r, double bytes, double flops, PriceKind kind)
{
    return (RoCost){bytes, flops, bytes + price_flops_as_bytes(r->ctx->machine, kind, flops) + PER_OP};
}

static RoCost moved(const Reorder *r, double bytes) { return cost_of(r, bytes, 0, PRICE_inner); }

/* Is op computed where a product or a sum of its size is written? Then it is written in its place. */
static bool follows_stored(const Reorder *r, const IrOp *op, int depth)
{
    for (uint32_t k = 0; depth && k < op->n_args; k++) {
        const IrOp *x = ro_op(r, op->args[k]);
        if (x->type.space != op->type.space || x->type.n_dims != op->type.n_dims) continue;
        if (x->op == IR_OP_contract || ir_ops[x->op].traits & T_REDUCE) return true;
        if (ir_ops[x->op].traits & (T_MAP | T_VIEW) && follows_stored(r, x, depth - 1)) return true;
    }
    return false;
}

/* A table whose size is known, half of the second cache at most. */
static bool is_near(const Reorder *r, const IrType *t)
{
    double bytes = (double)EXPECTED_NODES * bytes_of(r, t);
    return r->b.m->spaces.data[t->space].has_dim && bytes <= (double)r->ctx->machine->l2_bytes / 2;
}

/* Rows that follow each other in memory are read once. What is gathered lies in memory: what is computed for it is
   written. */
static RoCost gather_cost(const Reorder *r, const IrOp *op)
{
    const IrOp *x = ro_op(r, op->args[0]);
    double least = price_least_read(r->ctx->machine) * r->rows[op->type.space], bytes = bytes_of(r, &op->type);
    if (ro_map(r, op->attr.map)->sorted) bytes = bytes_of(r, &x->type);
    else if (is_near(r, &x->type)) bytes = price_near_as_bytes(r->ctx->machine, bytes);
    else if (bytes < least) bytes = least;
    bool computed = ir_ops[x->op].traits & T_MAP && x->op != IR_OP_const && !follows_stored(r, x, 4);
    return moved(r, bytes + (computed ? bytes_of(r, &x->type) : 0));
}

/* Bytes of rows that are gathered for v, with that dim. */
static double gathered_along(const Reorder *r, IrId v, IrId dim, int depth)
{
    const IrOp *op = ro_op(r, v);
    double bytes = 0;
    if (!ir_type_has_dim(&op->type, dim) || !depth) return 0;
    if (op->op == IR_OP_gather) return ro_map(r, op->attr.map)->sorted ? 0 : bytes_of(r, &op->type);
    for (uint32_t k = 0; k < op->n_args && ir_ops[op->op].traits & T_MAP; k++)
        bytes += gathered_along(r, op->args[k], dim, depth - 1);
    return bytes;
}

/* One element of many is read; where it has no dims, all are summed with a one-hot (table.c). */
static RoCost at_cost(const Reorder *r, const IrOp *op)
{
    double size = (double)r->b.m->dims.data[op->attr.dim].size,
           elements = r->rows[op->type.space] * width_of(r, &op->type);
    if (!op->type.n_dims || !ir_dtype_is_float(op->type.dtype))
        return cost_of(r, stored(r, &op->type), 2 * elements * size, PRICE_dot);
    double unread = 1 - PICKED / size;
    return cost_of(r, -unread * gathered_along(r, op->args[0], op->attr.dim, RO_MAX_DEPTH), elements, PRICE_inner);
}

static RoCost contract_cost(const Reorder *r, const IrOp *op)
{
    IrType x = ro_type(r, op->args[0]), y = ro_type(r, op->args[1]), all = ir_type_join(&x, &y);
    bool own = false;
    for (uint32_t k = 0; k < y.n_dims; k++)
        own |= !ir_type_has_dim(&x, y.dims[k]) && ir_type_has_dim(&op->type, y.dims[k]);
    PriceKind kind = op->type.space == IR_UNIT ? PRICE_outer : y.space == IR_UNIT && own ? PRICE_matmul : PRICE_dot;
    return cost_of(r, stored(r, &op->type), 2 * r->rows[all.space] * width_of(r, &all), kind);
}

enum { MAX_FETCHED = 16 };
typedef struct Fetched { /* rows that a walk in another order reads, each once */
    IrId of[MAX_FETCHED];
    uint32_t n;
    double bytes;
} Fetched;

/* What is read for v where rows do not follow each other: narrow values from memory, wide ones are computed again from
   what they are made of. What such a map gathers is counted there. */
static void add_fetched(const Reorder *r, IrId v, Fetched *f, int depth)
{
    const IrOp *op = ro_op(r, v);
    double bytes = bytes_of(r, &op->type);
    bool gathered = op->op == IR_OP_gather, counted = gathered && !ro_map(r, op->attr.map)->sorted;
    if (!op->type.space || op->op == IR_OP_const || (gathered && counted)) return;
    for (uint32_t i = 0; i < f->n; i++)
        if (f->of[i] == v) return;
    if (f->n < MAX_FETCHED) f->of[f->n++] = v;
    bool again = ir_ops[op->op].traits & (T_MAP | T_VIEW | T_DIMS) || op->op == IR_OP_contract;
    if (gathered || !again || !depth || !op->n_args ||
        bytes <= (double)r->ctx->machine->line_bytes * r->rows[op->type.space])
        f->bytes += bytes;
    else
        for (uint32_t k = 0; k < op->n_args; k++) add_fetched(r, op->args[k], f, depth - 1);
}

static RoCost reduce_cost(const Reorder *r, const IrOp *op, const IrType *x)
{
    const IrMap *map = ro_map(r, op->attr.map);
    Fetched f = {.n = 0};
    if (!map->sorted && map->to != IR_UNIT) add_fetched(r, op->args[0], &f, RO_MAX_DEPTH);
    double fetched = f.bytes;
    double flops = r->rows[x->space] * width_of(r, x) * ir_ops[op->op].flops;
    return cost_of(r, stored(r, &op->type) + fetched, flops, PRICE_inner);
}

bool reorder_is_input(const Reorder *r, IrId v)
{
    const IrOp *op = ro_op(r, v);
    return op->op == IR_OP_arg && op->type.space != IR_UNIT && ro_knows(r, v, RO_FIXED);
}

/* Read once: of a matrix that is mostly zeros the elements that are none, with their places. */
static RoCost input_cost(const Reorder *r, const IrOp *op)
{
    const IrArg *arg = &r->b.f->args.data[op->attr.i];
    bool sparse = r->b.m->tensors.data[arg->ref].sparse && !r->ctx->disabled[PASS_sparse];
    return moved(r, bytes_of(r, &op->type) * (sparse ? 3.0 / EXPECTED_ELEMENTS_PER_NONZERO : 1));
}

RoCost reorder_op_cost(const Reorder *r, IrId v)
{
    const IrOp *op = ro_op(r, v);
    uint16_t traits = ir_ops[op->op].traits;
    double flops = ir_ops[op->op].flops;
    if (reorder_is_input(r, v)) return input_cost(r, op);
    if (!op->n_args) return (RoCost){0};
    IrType x = ro_type(r, op->args[0]);
    OneHot hot;
    for (uint32_t k = 0; op->op == IR_OP_mul && k < 2; k++)
        if (one_hot_is(r->b.f, NULL, op->args[k], &hot)) flops = 0; /* one instruction with the sum that wants it */
    if (traits & T_MAP) return cost_of(r, 0, r->rows[op->type.space] * width_of(r, &op->type) * flops, PRICE_inner);
    if (traits & T_MOVE) return gather_cost(r, op);
    if (traits & T_REDUCE) return reduce_cost(r, op, &x);
    if (op->op == IR_OP_contract) return contract_cost(r, op);
    if (op->op == IR_OP_at) return at_cost(r, op);
    if (op->op == IR_OP_concat) return moved(r, stored(r, &op->type));
    if (flops > 0) return cost_of(r, stored(r, &op->type), r->rows[x.space] * width_of(r, &x) * flops, PRICE_inner);
    return moved(r, 0);
}

static void add_cost(RoCost *to, RoCost c)
{
    to->bytes += c.bytes;
    to->flops += c.flops;
    to->time += c.time;
}

/* Is v there before the run, but for reading it? Wide values of many rows are computed where they are used. */
static bool is_held(const Reorder *r, IrId v)
{
    const IrOp *op = ro_op(r, v);
    if (!ro_knows(r, v, RO_FIXED) || !op->n_args) return false;
    double bytes = width_of(r, &op->type) * (double)ir_dtype_bytes(op->type.dtype);
    return bytes <= WIDEST_HELD || !has_many_rows(r->b.m, op->type.space);
}

static bool is_wide(const Reorder *r, const IrType *t)
{
    return t->space != IR_UNIT && width_of(r, t) * (double)ir_dtype_bytes(t->dtype) > WIDEST_HELD;
}

/* Time to make v, which is fixed, in a run; of what it is made of `hoist` holds what costs more than twice its
   bytes. */
static double time_to_make(Reorder *r, IrId v)
{
    if (r->values.data[v].to_make > 0) return r->values.data[v].to_make;
    double time = reorder_op_cost(r, v).time;
    for (uint32_t k = 0; k < ro_op(r, v)->n_args; k++) {
        IrId x = ro_op(r, v)->args[k];
        double made = time_to_make(r, x), kept = 2 * bytes_of(r, &ro_op(r, x)->type);
        time += is_held(r, x) && kept < made ? kept : made;
    }
    return r->values.data[v].to_make = time;
}

/* Of wide rows that are held as far as prices go: whether `hoist` makes them again in each run, and so reads inputs. */
static bool is_made_again(Reorder *r, IrId v)
{
    const IrType *t = &ro_op(r, v)->type;
    return is_wide(r, t) && 2 * bytes_of(r, t) >= time_to_make(r, v);
}

/* What is held is read in each run; wide rows fill memory meanwhile, and take time to be made once. */
static RoCost held_cost(Reorder *r, IrId v)
{
    const IrType *t = &ro_op(r, v)->type;
    RoCost cost = moved(r, bytes_of(r, t));
    if (is_wide(r, t) && !is_made_again(r, v))
        cost.time += MEMORY * bytes_of(r, t) + time_to_make(r, v) / EXPECTED_RUNS;
    return cost;
}

static bool is_wide_input(const Reorder *r, IrId v) { return reorder_is_input(r, v) && is_wide(r, &ro_op(r, v)->type); }

void reorder_acquire(Reorder *r, IrId v, RoCost *cost)
{
    if (r->values.data[v].uses++) return;
    bool held = is_held(r, v), again = held && is_made_again(r, v);
    add_cost(cost, held ? held_cost(r, v) : reorder_op_cost(r, v));
    r->values.data[v].reads = 0;
    for (uint32_t k = 0; k < ro_op(r, v)->n_args; k++) {
        IrId x = ro_op(r, v)->args[k];
        bool reads = again && k < 32 && is_wide_input(r, x);
        if (reads) r->values.data[v].reads |= 1u << k;
        if (reads || !held) reorder_acquire(r, x, cost);
    }
}

void reorder_release(Reorder *r, IrId v, RoCost *cost)
{
    ICE_UNLESS(r->values.data[v].uses);
    if (--r->values.data[v].uses) return;
    bool held = is_held(r, v);
    add_cost(cost, held ? held_cost(r, v) : reorder_op_cost(r, v));
    for (uint32_t k = 0; k < ro_op(r, v)->n_args; k++)
        if (!held || (k < 32 && r->values.data[v].reads >> k & 1)) reorder_release(r, ro_op(r, v)->args[k], cost);
}

double reorder_price(Reorder *r, IrId v)
{
    RoCost cost = {0}, back = {0};
    reorder_acquire(r, v, &cost);
    reorder_release(r, v, &back);
    return cost.time;
}

IrId reorder_cheaper(Reorder *r, IrId a, IrId b)
{
    if (a == IR_NONE || b == IR_NONE || a == b) return a == IR_NONE ? b : a;
    if (a == r->replaced || b == r->replaced) return a == r->replaced ? b : a;
    return reorder_price(r, b) < reorder_price(r, a) ? b : a;
}
