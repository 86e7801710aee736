/* Pointwise groups of values without dims, and values that are summed over all rows: a vector of rows at once, sixteen
   say, what is gathered by index vectors, then the rows that are left one by one. Lane by lane the same operations as a
   single row, so the same bits.

     %5 = div %1, gather(%4 via x.nnz.row)     16 values, 16 images, 16 gathered divisors, one division */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* Where values are computed: a vector of rows from `row` on, or those of an index vector. */
typedef struct At {
    KirId row, index; /* one of them is KIR_NONE */
} At;

typedef struct Known {
    IrId v;
    At at;
    KirId value;
} Known;

typedef struct Rows {
    Lower *l;
    VEC(Known) known;
} Rows;

/* ---- values --------------------------------------------------------------------------------------------- */

static KirId rows_eval(Rows *r, IrId v, At at);

static KirId read(Rows *r, uint32_t buffer, KirType t, At at)
{
    Lower *l = r->l;
    uint32_t p = lower_in(l, buffer);
    if (at.index == KIR_NONE) return emit_load(&l->e, p, t, at.row, rows_at_once(l), 1);
    return emit_ins(&l->e, (KirIns){.op = KIR_gather,
                                    .type = t,
                                    .args = {at.index, KIR_NONE, KIR_NONE},
                                    .buf = p,
                                    .alloc = KIR_NONE,
                                    .active = (uint8_t)rows_at_once(l)});
}

static KirId row_number(Rows *r, At at)
{
    Lower *l = r->l;
    if (at.index != KIR_NONE) return emit_convert(&l->e, KIR_I64, at.index);
    return emit_op2(&l->e, KIR_add, at.row, emit_lanes(&l->e, KIR_I64, rows_at_once(l)));
}

static KirId element(Rows *r, IrId space, At at)
{
    Lower *l = r->l;
    if (l->f->m->spaces.data[space].has_dim) return row_number(r, at);
    return read(r, lower_map_buffer(l, PLAN_IDS, space), kir_type(KIR_I64, rows_at_once(l)), at);
}

static KirId gathered(Rows *r, const IrOp *op, At at)
{
    Lower *l = r->l;
    if (l->f->m->maps.data[op->attr.map].to == IR_UNIT) return rows_eval(r, op->args[0], at);
    KirId image = read(r, lower_map_buffer(l, PLAN_MAP_TO, op->attr.map), kir_type(KIR_I32, rows_at_once(l)), at);
    return rows_eval(r, op->args[0], (At){KIR_NONE, image});
}

static KirId mapped(Rows *r, const IrOp *op, At at)
{
    Lower *l = r->l;
    if (!l->f->m->maps.data[op->attr.map].partial) return emit_int(&l->e, kir_type(KIR_I1, 1), 1);
    KirId image = read(r, lower_map_buffer(l, PLAN_MAP_TO, op->attr.map), kir_type(KIR_I32, rows_at_once(l)), at);
    return emit_op2(&l->e, KIR_le, emit_int(&l->e, kir_type(KIR_I32, 1), 0), image);
}

static KirId rows_op(Rows *r, const IrOp *op, At at)
{
    Lower *l = r->l;
    KirId args[3];
    switch (op->op) {
    case IR_OP_element: return element(r, op->type.space, at);
    case IR_OP_row: return row_number(r, at);
    case IR_OP_gather: return gathered(r, op, at);
    case IR_OP_mapped: return mapped(r, op, at);
    case IR_OP_random_uniform:
    case IR_OP_random_normal: return point_draw_at(l, op, element(r, op->type.space, at), emit_index(&l->e, 0));
    case IR_OP_reshape:
        return read(r, plan_value_buffer(l->lf, fused_storage(l->f, op->args[0])),
                    kir_type(kir_base_of(op->type.dtype), rows_at_once(l)), at);
    case IR_OP_random_uniform_at:
    case IR_OP_random_normal_at:
        args[0] = rows_eval(r, op->args[2], at);
        return point_draw_at(l, op, args[0], rows_eval(r, op->args[3], at));
    default: break;
    }
    for (uint32_t k = 0; k < op->n_args; k++) args[k] = rows_eval(r, op->args[k], at);
    return point_map(l, op, args);
}

/* A vector, or a scalar where all rows have the same. */
static KirId rows_eval(Rows *r, IrId v, At at)
{
    Lower *l = r->l;
    const IrOp *op = fused_op(l->f, v);
    Env none = env_empty();
    bool same = op->type.space == IR_UNIT || (op->op == IR_OP_const && !group_finds(l->f, l->g, v));
    if (same) return point_eval(l, v, KIR_NONE, &none);
    for (uint32_t i = 0; i < r->known.n; i++) {
        const Known *k = &r->known.data[i];
        if (k->v == v && k->at.row == at.row && k->at.index == at.index) return k->value;
    }
    KirType t = kir_type(kir_base_of(op->type.dtype), rows_at_once(l));
    Known k = {v, at, KIR_NONE};
    k.value = group_finds(l->f, l->g, v) ? read(r, plan_value_buffer(l->lf, v), t, at) : rows_op(r, op, at);
    VEC_PUSH(l->arena, &r->known, k);
    return k.value;
}

KirId rows_value(Lower *l, IrId v, KirId row)
{
    Rows r = {.l = l};
    return emit_splat(&l->e, rows_eval(&r, v, (At){row, KIR_NONE}), rows_at_once(l));
}

KirId rows_gathered(Lower *l, IrId v, KirId index)
{
    Rows r = {.l = l};
    return rows_eval(&r, v, (At){KIR_NONE, index});
}

/* All values, then all stores: a tensor may be updated in place. */
static void vector_of_rows(Lower *l, KirId row)
{
    const Group *g = &l->f->groups.data[l->g];
    Rows r = {.l = l};
    KirId *values = ARENA_ARRAY(l->arena, KirId, g->roots.n);
    for (uint32_t i = 0; i < g->roots.n; i++) values[i] = rows_eval(&r, g->roots.data[i], (At){row, KIR_NONE});
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (l->f->stored.data[g->roots.data[i]])
            emit_store(&l->e, lower_out(l, plan_value_buffer(l->lf, g->roots.data[i])), row,
                       emit_splat(&l->e, values[i], rows_at_once(l)), rows_at_once(l), 1);
}

void lower_rows(Lower *l, IrId space)
{
    Emit *e = &l->e;
    int64_t n = l->s.block;
    KirId rows = lower_count(l, plan_count(l->f->m, space));
    l->step->extent = (PlanCount){.kind = PLAN_BLOCKS, .space = space, .block = n, .max = INT64_MAX};
    KirId block = emit_for(e, emit_index(e, 0), lower_count(l, l->step->extent), 1, KIR_THREADS, "blocks of rows");
    KirId first = emit_op2(e, KIR_mul, block, emit_index(e, n));
    KirId last = emit_op2(e, KIR_min, emit_op2(e, KIR_add, first, emit_index(e, n)), rows);
    KirId full = emit_op2(e, KIR_div, emit_op2(e, KIR_sub, last, first), emit_index(e, rows_at_once(l)));
    KirId middle = emit_op2(e, KIR_add, first, emit_op2(e, KIR_mul, full, emit_index(e, rows_at_once(l))));
    KirId row = emit_for(e, first, middle, rows_at_once(l), KIR_SEQ, rows_label(l, "rows"));
    vector_of_rows(l, row);
    emit_end(e);
    row = emit_for(e, middle, last, 1, KIR_SEQ, "rows that are left");
    lower_row(l, row);
    emit_end(e);
    emit_end(e);
}
