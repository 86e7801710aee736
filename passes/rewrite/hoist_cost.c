/* What it costs, per epoch, to compute a value again or to read it back, for the expected numbers of rows (rows.h).

     compute   bytes of the inputs that are read, of indices and gathered rows, and of what a reduction or product
               writes and its reader reads; arithmetic as ops.def says
     hold      the value's bytes, counted twice: they are read each time, and they fill memory all the time
   A tree's cost: what two values share counts in both. */
#include "passes/rewrite/hoist_parts.h"
#include "base/ice.h"
#include "passes/context/price.h"
#include "passes/context/rows.h"

/* In bytes that stream meanwhile. */
static double time_of(const Hoist *h, double bytes, double flops)
{
    return bytes + price_flops_as_bytes(h->ctx->machine, PRICE_dot, flops);
}

static bool is_reduction(IrOpcode op)
{
    return ir_ops[op].traits & T_REDUCE || op == IR_OP_sum_dims || op == IR_OP_max_dims || op == IR_OP_min_dims ||
           op == IR_OP_contract;
}

/* Elements that an op's arithmetic runs over: results, or what is reduced. */
static double work_elements(const Hoist *h, const IrOp *op)
{
    if (!is_reduction(op->op)) return expected_elements(h->m, &op->type);
    IrType t = h->f->ops.data[op->args[0]].type;
    if (op->op == IR_OP_contract) t = ir_type_join(&t, &h->f->ops.data[op->args[1]].type);
    return expected_elements(h->m, &t);
}

/* What computing v moves and does, given its operands. */
static void compute_cost(const Hoist *h, IrId v, double *bytes, double *flops)
{
    const IrOp *op = &h->f->ops.data[v];
    double own = expected_bytes(h->m, &op->type);
    *bytes = op->op == IR_OP_arg ? own : 0;
    *flops = ir_ops[op->op].flops * work_elements(h, op);
    for (uint32_t k = 0; k < op->n_args; k++) {
        *bytes += h->bytes[op->args[k]];
        *flops += h->flops[op->args[k]];
    }
    if (op->op == IR_OP_gather || op->op == IR_OP_mapped) *bytes += 4 * expected_rows(h->m, op->type.space);
    if (op->op == IR_OP_gather) *bytes += own;
    if (is_reduction(op->op) || op->op == IR_OP_concat) *bytes += 2 * own + price_kernel_as_bytes(h->ctx->machine);
}

/* A row for each node and edge of `candidates(g)`: kernels walk through them, and memory has no room for as many. */
static bool is_of_candidates(const IrModule *m, IrId space)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].kind == IR_GRAPH_CANDIDATES && m->graphs.data[i].edge == space) return true;
    return false;
}

/* Arguments are in memory already, and what has no operands is not worth a tensor. */
static bool may_hold(const Hoist *h, IrId v)
{
    const IrOp *op = &h->f->ops.data[v];
    bool few = !has_many_rows(h->m, op->type.space);
    if (op->op == IR_OP_arg || !op->n_args || ir_op_widens(h->f, op)) return false; /* what is in 16 bits stays so */
    if (is_of_candidates(h->m, op->type.space)) return false;
    return few || ir_type_width(h->m, &op->type) * (int64_t)ir_dtype_bytes(op->type.dtype) <= WIDEST_HELD;
}

static bool is_cheaper_held(const Hoist *h, IrId v)
{
    double bytes, flops;
    compute_cost(h, v, &bytes, &flops);
    return may_hold(h, v) && 2 * expected_bytes(h->m, &h->f->ops.data[v].type) < time_of(h, bytes, flops);
}

void hoist_cost(Hoist *h, IrId v)
{
    ICE_UNLESS(h->invariant[v]);
    compute_cost(h, v, &h->bytes[v], &h->flops[v]);
    if (!is_cheaper_held(h, v)) return;
    h->bytes[v] = 2 * expected_bytes(h->m, &h->f->ops.data[v].type);
    h->flops[v] = 0;
}

bool hoist_pays(const Hoist *h, IrId v)
{
    const IrOp *op = &h->f->ops.data[v];
    double bytes, flops;
    bool held = is_cheaper_held(h, v);
    if (op->op == IR_OP_arg || !op->n_args || ir_op_widens(h->f, op)) return false;
    compute_cost(h, v, &bytes, &flops);
    PassRemark *remark = pass_remark_at(h->ctx, PASS_hoist, held, h->f, v, "`%s` is the same in every run: %s",
                                        ir_ops[op->op].name,
                                        held             ? "computed once"
                                        : may_hold(h, v) ? "cheaper to compute again"
                                                         : "too wide to be held for every edge");
    if (held) {
        remark->bytes_saved = bytes - expected_bytes(h->m, &op->type);
        remark->flops_saved = flops;
    }
    return held;
}
