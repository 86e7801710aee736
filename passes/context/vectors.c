/* Dims along vectors: see passes/context/vectors.h. */
#include "passes/context/vectors.h"
#include "base/ice.h"
#include "ir/order.h"

static VecRun run_of(const IrModule *m, const IrId *dims, uint32_t n, uint32_t first, int64_t most)
{
    VecRun run = {0};
    int64_t lanes = 1;
    for (uint32_t k = n; k-- > first && lanes < most;) {
        int64_t size = m->dims.data[dims[k]].size;
        if (size <= 1) continue;
        uint8_t count = 1;
        while (count * lanes < most && count < size) count = (uint8_t)(count * 2);
        ICE_UNLESS(run.n < sizeof run.vec / sizeof *run.vec);
        run.vec[run.n++] = (VecDim){dims[k], count};
        lanes *= count;
        if (count != size) break;
    }
    ICE_UNLESS(lanes <= most);
    return run;
}

VecRun vec_run(const IrModule *m, const IrType *t, uint32_t first, int64_t lanes)
{
    return run_of(m, t->dims, t->n_dims, first, lanes);
}

/* Lane l takes elements l, l + lanes, ...: so the last vector of one run of the outermost dim must be full, if another
   run follows it. */
bool vec_sum_run(const IrModule *m, const IrFunc *f, const IrOp *op, VecRun *run)
{
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n = reduced_dims(f, op, dims);
    bool ordered = op->op == IR_OP_sum_dims || op->op == IR_OP_contract, outer = false;
    *run = run_of(m, dims, n, 0, ORDER_PARTIALS);
    if (!run->n) return false;
    const VecDim *last = &run->vec[run->n - 1];
    for (unsigned k = 0; k < n && dims[k] != last->dim; k++) outer |= m->dims.data[dims[k]].size != 1;
    return !ordered || !outer || m->dims.data[last->dim].size % last->count == 0;
}

unsigned run_lanes(const VecRun *run)
{
    unsigned lanes = 1;
    for (unsigned i = 0; i < run->n; i++) lanes *= run->vec[i].count;
    return lanes;
}
