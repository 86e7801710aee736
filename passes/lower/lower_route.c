/* A map that a function computes: its arrays, which other kernels read as they read those of any map, lie in the
   function's planned memory and are written here.

     to[e] = v[e] where that is a row, else -1, or 0 where the map is total   a step over the elements
     rows, list: the elements by image, in the user's order                   a step of one piece, if sums want them */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

static PlanCost streams(PlanCount count, int64_t bytes)
{
    return (PlanCost){.count = count, .bytes = bytes, .table = IR_NONE};
}

static void lower_images(LowerFunc *lf, uint32_t g, IrId v)
{
    Lower l;
    lower_begin(&l, lf, g);
    l.root = v;
    Emit *e = &l.e;
    const IrOp *op = fused_op(lf->f, v);
    const IrModule *m = lf->f->m;
    const IrMap *map = &m->maps.data[op->attr.map];
    KirType i64 = kir_type(KIR_I64, 1), i32 = kir_type(KIR_I32, 1);
    uint32_t to = lower_out(&l, lower_computed_map(lf, PLAN_MAP_TO, op->attr.map));
    uint32_t from = lower_in(&l, plan_value_buffer(lf, fused_storage(lf->f, op->args[0])));
    l.step->extent = plan_count(m, map->from);
    l.step->grain = l.s.grain;
    KirId n = lower_count(&l, plan_count(m, map->to));
    KirId at = emit_for(e, emit_index(e, 0), lower_count(&l, l.step->extent), 1, KIR_THREADS, "elements");
    KirId x = emit_load(e, from, i64, at, 1, 1), fits = emit_op2(e, KIR_ult, x, n);
    int64_t none = map->partial ? -1 : 0;
    emit_store(e, to, at, emit_select(e, fits, emit_convert(e, KIR_I32, x), emit_int(e, i32, none)), 1, 1);
    if (lf->f->stored.data[v])
        emit_store(e, lower_out(&l, plan_value_buffer(lf, v)), at, emit_select(e, fits, x, emit_int(e, i64, none)), 1,
                   1);
    emit_end(e);
    PlanCost cost = streams(l.step->extent, 12);
    VEC_PUSH(l.arena, &l.step->cost, cost);
    lower_finish(&l, "route");
}

/* A counting sort, stable. While it runs, rows[t + 1] is where row t's next element goes. */
static void sort_elements(Lower *l, IrId id)
{
    Emit *e = &l->e;
    const IrModule *m = l->f->m;
    const IrMap *map = &m->maps.data[id];
    KirType i64 = kir_type(KIR_I64, 1), i32 = kir_type(KIR_I32, 1);
    uint32_t rows = lower_out(l, lower_computed_map(l->lf, PLAN_MAP_ROWS, id));
    uint32_t list = lower_out(l, lower_computed_map(l->lf, PLAN_MAP_LIST, id));
    uint32_t to = lower_in(l, lower_computed_map(l->lf, PLAN_MAP_TO, id));
    lower_in(l, lower_computed_map(l->lf, PLAN_MAP_ROWS, id)); /* read as well */
    KirId zero = emit_index(e, 0), one = emit_index(e, 1);
    KirId n_to = lower_count(l, plan_count(m, map->to)), n_from = lower_count(l, plan_count(m, map->from));
    KirId t = emit_for(e, zero, n_to, 1, KIR_SEQ, "rows");
    emit_store(e, rows, t, zero, 1, 1);
    emit_store(e, rows, emit_op2(e, KIR_add, t, one), zero, 1, 1);
    emit_end(e);
    KirId k = emit_for(e, zero, n_from, 1, KIR_SEQ, "how many");
    emit_store(e, list, k, emit_int(e, i32, 0), 1, 1);
    KirId image = emit_convert(e, KIR_I64, emit_load(e, to, i32, k, 1, 1));
    emit_if(e, emit_op2(e, KIR_le, zero, image));
    KirId next = emit_op2(e, KIR_add, image, one);
    emit_store(e, rows, next, emit_op2(e, KIR_add, emit_load(e, rows, i64, next, 1, 1), one), 1, 1);
    emit_end(e);
    emit_end(e);
    KirId sum = emit_var(e, "sum", zero);
    t = emit_for(e, zero, n_to, 1, KIR_SEQ, "where rows begin");
    next = emit_op2(e, KIR_add, t, one);
    KirId count = emit_load(e, rows, i64, next, 1, 1);
    emit_store(e, rows, next, sum, 1, 1);
    emit_set(e, sum, emit_op2(e, KIR_add, sum, count));
    emit_end(e);
    k = emit_for(e, zero, n_from, 1, KIR_SEQ, "elements");
    image = emit_convert(e, KIR_I64, emit_load(e, to, i32, k, 1, 1));
    emit_if(e, emit_op2(e, KIR_le, zero, image));
    next = emit_op2(e, KIR_add, image, one);
    KirId place = emit_load(e, rows, i64, next, 1, 1);
    emit_store(e, list, place, emit_convert(e, KIR_I32, k), 1, 1);
    emit_store(e, rows, next, emit_op2(e, KIR_add, place, one), 1, 1);
    emit_end(e);
    emit_end(e);
}

static bool is_summed(const IrFunc *f, IrId map)
{
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        if (op->attr.map == map && ((ir_ops[op->op].traits & T_REDUCE) || op->op == IR_OP_rank || op->op == IR_OP_nth))
            return true;
    }
    return false;
}

void lower_route(LowerFunc *lf, uint32_t g)
{
    IrId v = lf->f->groups.data[g].roots.data[0], map = fused_op(lf->f, v)->attr.map;
    ICE_UNLESS(fused_op(lf->f, v)->op == IR_OP_route && lf->f->m->maps.data[map].computed);
    lower_images(lf, g, v);
    if (!is_summed(lf->f->f, map)) return;
    Lower l;
    lower_begin(&l, lf, g);
    l.root = v;
    l.step->extent = plan_const(1);
    sort_elements(&l, map);
    const IrModule *m = lf->f->m;
    PlanCost by_row = streams(plan_count(m, m->maps.data[map].to), 32),
             by_element = streams(plan_count(m, m->maps.data[map].from), 24);
    VEC_PUSH(l.arena, &l.step->cost, by_row);
    VEC_PUSH(l.arena, &l.step->cost, by_element);
    lower_finish(&l, "sort");
}
