/* Sums over the rows of a map: the elements of a row in the user's order, in row-relative blocks of 256, each
   left to right, blocks merged left to right (docs/design.md, "One association per sum"). Several reductions of
   one map that do not need each other share the loop; a tile of points shares the row's index loads. */
#include "base/ice.h"
#include "passes/lower_kernel.h"
#include <math.h>

KirOpcode sum_op(IrOpcode op)
{
    switch (op) {
    case IR_OP_reduce_max: case IR_OP_max_dims: return KIR_max;
    case IR_OP_reduce_min: case IR_OP_min_dims: return KIR_min;
    case IR_OP_reduce_mul: return KIR_mul;
    default: return KIR_add;
    }
}

KirId sum_identity(Lower *l, KirOpcode op, KirType t)
{
    bool flt = t.base == KIR_F32 || t.base == KIR_F64;
    if (op == KIR_add || op == KIR_mul)
        return flt ? emit_float(&l->e, t, op == KIR_mul) : emit_int(&l->e, t, op == KIR_mul);
    if (flt) return emit_float(&l->e, t, op == KIR_max ? -(double)INFINITY : (double)INFINITY);
    if (t.base == KIR_I32) return emit_int(&l->e, t, op == KIR_max ? INT32_MIN : INT32_MAX);
    return emit_int(&l->e, t, op == KIR_max ? INT64_MIN : INT64_MAX);
}

typedef struct Sums { /* one accumulator per operation and point */
    const IrId *ops;
    unsigned n_ops, n;
    const Point *p;
    KirId *total, *part;
} Sums;

static KirType sum_type(const Lower *l, IrId v, const Env *env)
{
    const IrType *t = &fused_op(l->f, v)->type;
    return kir_type(kir_base_of(t->dtype), env_lanes(env, t));
}

static void open_sums(Lower *l, const Sums *s, KirId *vars, const char *name)
{
    for (unsigned i = 0; i < s->n_ops * s->n; i++) {
        IrId v = s->ops[i / s->n];
        KirType t = sum_type(l, v, &s->p[i % s->n].env);
        vars[i] = emit_var(&l->e, name, sum_identity(l, sum_op(fused_op(l->f, v)->op), t));
    }
}

static void merge_sums(Lower *l, const Sums *s)
{
    for (unsigned i = 0; i < s->n_ops * s->n; i++) {
        KirOpcode op = sum_op(fused_op(l->f, s->ops[i / s->n])->op);
        emit_freeze(&l->e, s->part[i]);
        emit_set(&l->e, s->total[i], emit_op2(&l->e, op, s->total[i], s->part[i]));
    }
}

static void take_element(Lower *l, const Sums *s, KirId element)
{
    for (unsigned i = 0; i < s->n_ops * s->n; i++) {
        const IrOp *op = fused_op(l->f, s->ops[i / s->n]);
        KirId x = point_eval(l, op->args[0], element, &s->p[i % s->n].env);
        emit_set(&l->e, s->part[i], emit_op2(&l->e, sum_op(op->op), s->part[i], x));
    }
}

KirId row_element(Lower *l, IrId map, KirId position)
{
    if (l->f->m->maps.data[map].sorted) return position;
    uint32_t list = lower_in(l, lower_map_buffer(l, PLAN_MAP_LIST, map));
    return emit_convert(&l->e, KIR_I64, emit_load(&l->e, list, kir_type(KIR_I32, 1), position, 1, 1));
}

/* An empty row's maximum and minimum are what the operation says. */
static KirId finish_sum(Lower *l, const IrOp *op, KirId total, KirId empty_row)
{
    emit_freeze(&l->e, total);
    if (op->op != IR_OP_reduce_max && op->op != IR_OP_reduce_min) return total;
    KirType t = emit_type(&l->e, total);
    KirId empty = ir_dtype_is_float(op->type.dtype) ? emit_float(&l->e, t, op->attr.f)
                                                    : emit_int(&l->e, t, (int64_t)op->attr.f);
    return emit_select(&l->e, empty_row, empty, total);
}

static void take_elements(Lower *l, const Sums *s, const StageSpan *x)
{
    KirId position = emit_for(&l->e, x->from, x->to, 1, KIR_SEQ, "elements");
    KirId element = row_element(l, x->map, position);
    const IrMap *m = &l->f->m->maps.data[x->map];
    stage_enter(l, x, element, position);
    walk_open(l, m->from, m->sorted ? IR_NONE : x->map, element, position);
    take_element(l, s, element);
    walk_close(l);
    stage_leave(l, 1);
    emit_end(&l->e);
}

/* The elements of a block: as many at a time as the private arrays hold. */
static void take_block(Lower *l, const Sums *s, const StageNeeds *needs, StageSpan x)
{
    Emit *e = &l->e;
    bool staged = needs->n_fresh + needs->n_again > 0, split = staged && l->stage_rows < l->s.edge_block;
    KirId end = x.to;
    if (split) {
        KirId width = emit_index(e, l->stage_rows);
        x.from = emit_for(e, x.from, x.to, l->stage_rows, KIR_SEQ, "staged blocks");
        x.to = emit_op2(e, KIR_min, emit_op2(e, KIR_add, x.from, width), end);
    }
    if (l->staged.n) x.base = emit_select(e, x.longer, x.from, x.lo);
    if (staged) stage_fill(l, needs, &x);
    if (s->n_ops) take_elements(l, s, &x);
    if (split) emit_end(e);
}

static void sum_row(Lower *l, const Sums *s, const StageNeeds *needs, StageSpan x)
{
    Emit *e = &l->e;
    x.from = emit_for(e, x.lo, x.hi, l->s.edge_block, KIR_SEQ, "blocks of the row");
    open_sums(l, s, s->part, "part");
    x.to = emit_op2(e, KIR_min, emit_op2(e, KIR_add, x.from, emit_index(e, l->s.edge_block)), x.hi);
    take_block(l, s, needs, x);
    merge_sums(l, s);
    emit_end(e);
    stage_done(l, needs);
}

static StageSpan row_span(Lower *l, IrId map, KirId row)
{
    Emit *e = &l->e;
    KirType i64 = kir_type(KIR_I64, 1);
    uint32_t rows = lower_in(l, lower_map_buffer(l, PLAN_MAP_ROWS, map));
    KirId lo = emit_load(e, rows, i64, row, 1, 1);
    KirId hi = emit_load(e, rows, i64, emit_op2(e, KIR_add, row, emit_index(e, 1)), 1, 1);
    StageSpan x = {.map = map, .row = row, .lo = lo, .hi = hi, .longer = KIR_NONE, .base = KIR_NONE};
    if (l->staged.n) x.longer = emit_op2(e, KIR_lt, emit_index(e, l->stage_rows), emit_op2(e, KIR_sub, hi, lo));
    return x;
}

void stage_sweep(Lower *l, const StageNeeds *needs, IrId map, KirId row)
{
    Sums none = {0};
    sum_row(l, &none, needs, row_span(l, map, row));
}

void heavy_rows(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n)
{
    Emit *e = &l->e;
    IrId map = fused_op(l->f, ops[0])->attr.map;
    Sums s = {.ops = ops, .n_ops = n_ops, .n = n, .p = p, .total = ARENA_ARRAY(l->arena, KirId, n_ops * n),
              .part = ARENA_ARRAY(l->arena, KirId, n_ops * n)};
    StageNeeds needs;
    stage_needs(l, ops, n_ops, &needs);
    StageSpan x = row_span(l, map, p[0].row);
    open_sums(l, &s, s.total, "sum");
    sum_row(l, &s, &needs, x);
    KirId empty = emit_op2(e, KIR_eq, x.lo, x.hi);
    for (unsigned i = 0; i < n_ops * n; i++) {
        const Point *at = &p[i % n];
        memo_put(l, ops[i / n], at->row, &at->env, finish_sum(l, fused_op(l->f, ops[i / n]), s.total[i], empty));
    }
}
