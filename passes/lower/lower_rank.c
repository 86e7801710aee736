/* Ranks: how many elements of a row come before each, by a merge sort of the row that is stable in the user's order.
   Keys and elements lie in two halves of a buffer, and runs of 1, 2, 4, ... elements are merged from one half into the
   other:

     for each row of the map on threads (to unit: all elements are one row), for each feature
       half 0 = the row's elements, in the user's order
       for runs of width 1, 2, 4, ...: half 1 = runs of half 0 merged in pairs; swap the halves
       rank[element at place k] = k
   NaN stands behind all numbers. Never looks at a value but to compare it. */
#include "passes/lower/lower_kernel.h"

typedef struct Rank {
    const IrOp *op;
    KirType key;             /* of one element */
    uint32_t keys, elements; /* buffers [2][width][count]: what is compared, and whose it is */
    KirId count, total;      /* elements of the space; of a half */
    KirId base;              /* of the feature in a half */
    KirId lo, hi;            /* the row's places */
} Rank;

static const KirType I32 = {KIR_I32, 1}, I64 = {KIR_I64, 1};

static KirId plus(Lower *l, KirId x, KirId y) { return emit_op2(&l->e, KIR_add, x, y); }
static KirId least(Lower *l, KirId x, KirId y) { return emit_op2(&l->e, KIR_min, x, y); }

static KirId key_at(Lower *l, const Rank *r, KirId place)
{
    return emit_load(&l->e, lower_out(l, r->keys), r->key, place, 1, 1);
}

static KirId element_at(Lower *l, const Rank *r, KirId place)
{
    return emit_load(&l->e, lower_out(l, r->elements), I32, place, 1, 1);
}

static void put_at(Lower *l, const Rank *r, KirId place, KirId key, KirId element)
{
    emit_store(&l->e, lower_out(l, r->keys), place, key, 1, 1);
    emit_store(&l->e, lower_out(l, r->elements), place, element, 1, 1);
}

/* Whether x comes before y: it is less, or a number before NaN. */
static KirId before(Lower *l, const Rank *r, KirId x, KirId y)
{
    Emit *e = &l->e;
    KirId less = emit_op2(e, KIR_lt, x, y);
    if (!ir_dtype_is_float(fused_op(l->f, r->op->args[0])->type.dtype)) return less;
    KirId nan = emit_op2(e, KIR_and, emit_op2(e, KIR_ne, y, y), emit_op2(e, KIR_eq, x, x));
    return emit_op2(e, KIR_or, less, nan);
}

/* The row's elements, in the user's order. */
static void fill(Lower *l, const Rank *r, const Env *env)
{
    Emit *e = &l->e;
    const IrMap *map = &l->f->m->maps.data[r->op->attr.map];
    KirId at = emit_for(e, r->lo, r->hi, 1, KIR_SEQ, "elements"), row = at, place = at;
    if (map->to != IR_UNIT) row = row_element(l, r->op->attr.map, at);
    else if (!l->f->m->spaces.data[map->from].has_dim)
        place = emit_load(e, lower_in(l, lower_map_buffer(l, PLAN_IDS, map->from)), I64, at, 1, 1);
    put_at(l, r, plus(l, r->base, place), point_full(l, r->op->args[0], row, env), emit_convert(e, KIR_I32, row));
    emit_end(e);
}

/* Two runs [from, middle) and [middle, to) of the half `in`, one after another into the half `out`. */
static void merge(Lower *l, const Rank *r, KirId in, KirId out, const KirId run[3])
{
    Emit *e = &l->e;
    KirId one = emit_index(e, 1), a = emit_var(e, "a", run[0]), b = emit_var(e, "b", run[1]);
    KirId k = emit_for(e, run[0], run[2], 1, KIR_SEQ, "merged");
    KirId left = plus(l, in, least(l, a, emit_op2(e, KIR_sub, run[1], one)));
    KirId right = plus(l, in, least(l, b, emit_op2(e, KIR_sub, run[2], one)));
    KirId x = key_at(l, r, left), y = key_at(l, r, right);
    KirId take = emit_op2(e, KIR_or, emit_op2(e, KIR_le, run[1], a), before(l, r, y, x));
    take = emit_op2(e, KIR_and, take, emit_op2(e, KIR_lt, b, run[2])); /* the right one */
    KirId element = emit_select(e, take, element_at(l, r, right), element_at(l, r, left));
    put_at(l, r, plus(l, out, k), emit_select(e, take, y, x), element);
    KirId step = emit_convert(e, KIR_I64, take);
    emit_set(e, a, plus(l, a, emit_op2(e, KIR_sub, one, step)));
    emit_set(e, b, plus(l, b, step));
    emit_end(e);
}

/* Returns the half that is in order at the end, as a place. */
static KirId sort(Lower *l, const Rank *r)
{
    Emit *e = &l->e;
    KirId width = emit_var(e, "width", emit_index(e, 1)), in = emit_var(e, "half", emit_index(e, 0));
    emit_loop(e);
    emit_break_if(e, emit_op2(e, KIR_le, emit_op2(e, KIR_sub, r->hi, r->lo), width));
    KirId out = emit_op2(e, KIR_sub, r->total, in), at = emit_var(e, "run", r->lo);
    emit_loop(e);
    emit_break_if(e, emit_op2(e, KIR_le, r->hi, at));
    KirId middle = least(l, plus(l, at, width), r->hi), end = least(l, plus(l, middle, width), r->hi);
    KirId from = emit_op2(e, KIR_add, at, emit_index(e, 0));
    merge(l, r, plus(l, in, r->base), plus(l, out, r->base), (KirId[]){from, middle, end});
    emit_set(e, at, end);
    emit_end(e);
    emit_set(e, width, plus(l, width, width));
    emit_set(e, in, out);
    emit_end(e);
    emit_freeze(e, in);
    return in;
}

/* One row for one feature. */
static void rank_row(Lower *l, Rank *r, const Env *env)
{
    Emit *e = &l->e;
    KirId zero = emit_index(e, 0);
    KirId feature = point_address(l, &r->op->type, zero, env);
    r->base = emit_op2(e, KIR_mul, feature, r->count);
    fill(l, r, env);
    KirId sorted = plus(l, sort(l, r), r->base);
    KirId k = emit_for(e, r->lo, r->hi, 1, KIR_SEQ, "ranks");
    KirId row = emit_convert(e, KIR_I64, element_at(l, r, plus(l, sorted, k)));
    KirId place = emit_op2(e, KIR_sub, k, r->lo);
    point_store(l, plan_value_buffer(l->lf, l->f->groups.data[l->g].roots.data[0]), &r->op->type, row, env, place);
    emit_end(e);
}

static uint32_t halves(LowerFunc *lf, const IrOp *op, KirBase elem, const char *name)
{
    return plan_buffer(lf, (PlanBuffer){.kind = PLAN_ARENA,
                                        .ref = IR_NONE,
                                        .elem = elem,
                                        .name = name,
                                        .rows = plan_count(lf->f->m, op->type.space),
                                        .width = 2 * ir_type_width(lf->f->m, &op->type)});
}

static void open_rows(Lower *l, Rank *r)
{
    Emit *e = &l->e;
    IrId map = r->op->attr.map, to = l->f->m->maps.data[map].to;
    KirId zero = emit_index(e, 0), one = emit_index(e, 1);
    l->step->extent = plan_count(l->f->m, to);
    KirId row = emit_for(e, zero, lower_count(l, l->step->extent), 1, KIR_THREADS, l->f->m->spaces.data[to].name);
    r->lo = zero;
    r->hi = r->count;
    if (to == IR_UNIT) return;
    uint32_t rows = lower_in(l, lower_map_buffer(l, PLAN_MAP_ROWS, map));
    r->lo = emit_load(e, rows, I64, row, 1, 1);
    r->hi = emit_load(e, rows, I64, plus(l, row, one), 1, 1);
    if (!lower_is_computed(l, map)) l->step->cut = map;
}

static void note_cost(Lower *l, const Rank *r)
{
    enum { PASSES = 8, MOVED = 32, WORK = 12 }; /* over a row of some hundreds; bytes and instructions of each */
    int64_t width = ir_type_width(l->f->m, &r->op->type);
    PlanCost c = {.count = plan_count(l->f->m, r->op->type.space),
                  .bytes = width * MOVED,
                  .flops = width * PASSES * WORK,
                  .table = IR_NONE};
    VEC_PUSH(l->arena, &l->step->cost, c);
}

/* Elements that are of no row: all are 0 before the ranks of the others are put. */
static void lower_zeros(LowerFunc *lf, uint32_t g, IrId v, const IrOp *op)
{
    Lower l;
    lower_begin(&l, lf, g);
    l.root = v;
    Env env = env_empty();
    l.step->extent = plan_count(lf->f->m, op->type.space);
    l.step->grain = l.s.second;
    KirId row = emit_for(&l.e, emit_index(&l.e, 0), lower_count(&l, l.step->extent), 1, KIR_THREADS, "elements");
    DimLoop loops = dim_loops_open(&l, op->type.dims, op->type.n_dims);
    dim_loops_env(&loops, &env);
    point_store(&l, plan_value_buffer(lf, v), &op->type, row, &env, emit_index(&l.e, 0));
    dim_loops_close(&l, &loops);
    emit_end(&l.e);
    PlanCost cost = {.count = l.step->extent, .bytes = 8 * ir_type_width(lf->f->m, &op->type), .table = IR_NONE};
    VEC_PUSH(l.arena, &l.step->cost, cost);
    lower_finish(&l, "zeros");
}

void lower_rank(LowerFunc *lf, uint32_t g)
{
    Lower l;
    IrId v = lf->f->groups.data[g].roots.data[0];
    const IrOp *op = fused_op(lf->f, v);
    if (lf->f->m->maps.data[op->attr.map].partial) lower_zeros(lf, g, v, op);
    KirBase key = kir_elem_of(fused_op(lf->f, op->args[0])->type.dtype);
    lower_begin(&l, lf, g);
    Rank r = {.op = op, .key = kir_type(key, 1)};
    r.keys = halves(lf, op, key, arena_printf(lf->ctx->stage, "%%%u.keys", v));
    r.elements = halves(lf, op, KIR_I32, arena_printf(lf->ctx->stage, "%%%u.elements", v));
    lower_out(&l, r.keys);
    lower_out(&l, r.elements);
    r.count = lower_count(&l, plan_count(lf->f->m, op->type.space));
    r.total = emit_op2(&l.e, KIR_mul, r.count, emit_index(&l.e, ir_type_width(lf->f->m, &op->type)));
    open_rows(&l, &r);
    Env env = env_empty();
    DimLoop loops = dim_loops_open(&l, op->type.dims, op->type.n_dims);
    dim_loops_env(&loops, &env);
    rank_row(&l, &r, &env);
    dim_loops_close(&l, &loops);
    emit_end(&l.e);
    l.step->grain = l.s.grain;
    note_cost(&l, &r);
    lower_finish(&l, group_kind_names[GROUP_RANK]);
}
