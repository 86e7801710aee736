/* Whether values without dims can be computed for a vector of rows at once: lower_rows.c computes them. */
#include "passes/group/group.h"
#include "base/ice.h"

typedef struct Fit {
    const FusedFunc *f;
    uint32_t g;
    uint8_t *seen; /* by value: 1 in order, 2 gathered */
} Fit;

static bool fits(const Fit *x, IrId v, bool gathered);

static bool args_fit(const Fit *x, const IrOp *op, uint32_t first, bool gathered)
{
    for (uint32_t k = first; k < op->n_args; k++)
        if (!fits(x, op->args[k], gathered)) return false;
    return true;
}

static bool op_fits(const Fit *x, const IrOp *op, bool gathered)
{
    const IrModule *m = x->f->m;
    switch (op->op) {
    case IR_OP_const:
    case IR_OP_element:
    case IR_OP_row:
    case IR_OP_mapped: return true;
    case IR_OP_random_uniform:
    case IR_OP_random_normal: return true;
    case IR_OP_gather: return !m->maps.data[op->attr.map].partial && args_fit(x, op, 0, true);
    case IR_OP_reshape: {
        IrId s = fused_storage(x->f, op->args[0]);
        return op->type.dtype != IR_BOOL && group_finds(x->f, x->g, s);
    }
    case IR_OP_random_uniform_at:
    case IR_OP_random_normal_at: return args_fit(x, op, 2, gathered);
    default: break;
    }
    bool map = (ir_ops[op->op].traits & T_MAP) && !(ir_ops[op->op].traits & T_RANDOM) && op->n_args && op->n_args <= 3;
    return map && args_fit(x, op, 0, gathered);
}

static bool fits(const Fit *x, IrId v, bool gathered)
{
    const IrOp *op = fused_op(x->f, v);
    if (op->type.space == IR_UNIT) return !op->type.n_dims;
    if (op->type.n_dims) return false;
    if (group_finds(x->f, x->g, v)) return !gathered || op->type.dtype != IR_BOOL;
    if (x->seen[v] & (1 << gathered)) return true;
    x->seen[v] |= (uint8_t)(1 << gathered);
    return op_fits(x, op, gathered);
}

static bool values_fit(const FusedFunc *f, uint32_t g, const IrId *v, uint32_t n, bool gathered)
{
    Arena *scratch = arena_new();
    Fit x = {f, g, ARENA_ARRAY(scratch, uint8_t, f->f->ops.n + 1)};
    bool yes = true;
    for (uint32_t i = 0; i < n && yes; i++) yes = fits(&x, v[i], gathered);
    arena_free(scratch);
    return yes;
}

bool rows_fit(const FusedFunc *f, uint32_t index)
{
    ICE_UNLESS(index < f->groups.n);
    const Group *g = &f->groups.data[index];
    return g->kind == GROUP_MAP && g->nest.space != IR_UNIT && !g->nest.n_dims &&
           values_fit(f, index, g->roots.data, g->roots.n, false);
}

bool rows_are_computed(const FusedFunc *f, uint32_t g, IrId v)
{
    return !group_finds(f, g, v) && fused_op(f, v)->op != IR_OP_const && values_fit(f, g, &v, 1, false);
}

bool rows_are_gathered(const FusedFunc *f, uint32_t g, IrId v) { return values_fit(f, g, &v, 1, true); }
