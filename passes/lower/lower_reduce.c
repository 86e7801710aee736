/* Sums over the rows of a map: the elements of a row in the user's order, in row-relative blocks of 256, each
   left to right, blocks merged left to right (docs/design.md, "One association per sum"). Several reductions of
   one map that do not need each other share the loop; a tile of points shares the row's index loads. Rows of all
   degrees run the same loop: rows listed by degree have ends that a CPU foresees, but write out of order and no longer
   share what neighbours read. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

static KirType sum_type(const Lower *l, const Acc *a)
{
    const IrType *t = &fused_op(l->f, a->v)->type;
    return kir_type(kir_base_of(t->dtype), env_lanes(&a->p.env, t));
}

static KirOpcode acc_op(const Lower *l, const Acc *a) { return sum_op(fused_op(l->f, a->v)->op); }

static KirId open_sum(Lower *l, const Acc *a, const char *name)
{
    return emit_var(&l->e, name, sum_identity(l, acc_op(l, a), sum_type(l, a)));
}

static void open_totals(Lower *l, Accs s)
{
    for (unsigned i = 0; i < s.n; i++) s.data[i].total = open_sum(l, &s.data[i], "sum");
}

static void open_parts(Lower *l, Accs s)
{
    for (unsigned i = 0; i < s.n; i++) s.data[i].part = open_sum(l, &s.data[i], "part");
}

static void merge_sums(Lower *l, Accs s)
{
    for (unsigned i = 0; i < s.n; i++) {
        const Acc *a = &s.data[i];
        emit_freeze(&l->e, a->part);
        emit_set(&l->e, a->total, emit_op2(&l->e, acc_op(l, a), a->total, a->part));
    }
}

static void take_element(Lower *l, Accs s, KirId element)
{
    for (unsigned i = 0; i < s.n; i++) {
        const Acc *a = &s.data[i];
        KirId x = point_eval(l, fused_op(l->f, a->v)->args[0], element, &a->p.env);
        emit_set(&l->e, a->part, emit_op2(&l->e, acc_op(l, a), a->part, x));
    }
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

/* ---- walks over a row ------------------------------------------------------------------------------------ */

static void take_elements(Lower *l, Accs s, const StageSpan *x)
{
    KirId position = emit_for(&l->e, x->from, x->to, 1, KIR_SEQ, "elements");
    KirId element = row_element(l, x->map, position);
    stage_enter(l, x, element, position);
    take_element(l, s, element);
    stage_leave(l, x, 1);
    emit_end(&l->e);
}

static bool is_split(const Lower *l, const StageNeeds *needs)
{
    return needs->n_fresh + needs->n_again > 0 && l->stage_rows < ORDER_ROW_BLOCK;
}

/* What is staged of a block: as many elements at a time as the private arrays hold, which x then says. Returns whether
   a loop is open. */
static bool open_staged(Lower *l, const StageNeeds *needs, StageSpan *x)
{
    Emit *e = &l->e;
    bool split = is_split(l, needs);
    KirId end = x->to;
    ICE_UNLESS(!l->staged.n || x->longer != KIR_NONE);
    if (split) {
        KirId width = emit_index(e, l->stage_rows);
        x->from = emit_for(e, x->from, x->to, l->stage_rows, KIR_SEQ, "staged blocks");
        x->to = emit_op2(e, KIR_min, emit_op2(e, KIR_add, x->from, width), end);
    }
    if (l->staged.n) x->base = emit_select(e, x->longer, x->from, x->lo);
    stage_fill(l, needs, x);
    return split;
}

static void take_block(Lower *l, Accs s, const StageNeeds *needs, StageSpan x)
{
    bool split = open_staged(l, needs, &x);
    if (s.n) take_elements(l, s, &x);
    if (split) emit_end(&l->e);
}

static void open_block(Lower *l, StageSpan *x)
{
    Emit *e = &l->e;
    x->from = emit_for(e, x->lo, x->hi, ORDER_ROW_BLOCK, KIR_SEQ, "blocks of the row");
    x->to = emit_op2(e, KIR_min, emit_op2(e, KIR_add, x->from, emit_index(e, ORDER_ROW_BLOCK)), x->hi);
}

/* In a kernel for parts of rows: where it is the walk's turn; else the block's parts are those in memory. */
static void take_or_join(Lower *l, Accs s, const StageNeeds *needs, StageSpan x, KirId turn)
{
    if (l->split) emit_if(&l->e, turn);
    take_block(l, s, needs, x);
    if (!l->split) return;
    split_keep(l, s, x.from);
    if (s.n) {
        emit_else(&l->e);
        split_take(l, s, x.from);
    }
    emit_end(&l->e);
}

static void sum_row(Lower *l, Accs s, const StageNeeds *needs, StageSpan x)
{
    KirId turn = l->split ? split_walk(l, &x, s.n > 0, false) : KIR_NONE;
    open_block(l, &x);
    open_parts(l, s);
    take_or_join(l, s, needs, x, turn);
    merge_sums(l, s);
    emit_end(&l->e);
    stage_done(l, needs);
}

StageSpan row_span(Lower *l, IrId map, KirId row)
{
    Emit *e = &l->e;
    KirType i64 = kir_type(KIR_I64, 1);
    uint32_t rows = lower_in(l, lower_map_buffer(l, PLAN_MAP_ROWS, map));
    KirId lo = emit_load(e, rows, i64, row, 1, 1);
    KirId hi = emit_load(e, rows, i64, emit_op2(e, KIR_add, row, emit_index(e, 1)), 1, 1);
    StageSpan x = {.map = map, .row = row, .lo = lo, .hi = hi, .longer = KIR_NONE, .base = KIR_NONE};
    if (l->split) l->split_lo = lo;
    /* another part may have filled the arrays */
    if (l->staged.n && l->split) x.longer = emit_int(e, kir_type(KIR_I1, 1), 1);
    else if (l->staged.n) x.longer = emit_op2(e, KIR_lt, emit_index(e, l->stage_rows), emit_op2(e, KIR_sub, hi, lo));
    return x;
}

void stage_sweep(Lower *l, const StageNeeds *needs, IrId map, KirId row)
{
    sum_row(l, (Accs){0}, needs, row_span(l, map, row));
}

static void needs_of(Lower *l, Accs s, StageNeeds *needs)
{
    IrId *ops = ARENA_ARRAY(l->arena, IrId, s.n + 1);
    for (unsigned i = 0; i < s.n; i++) ops[i] = s.data[i].v;
    stage_needs(l, ops, s.n, needs);
}

static StageSpan span_of(Lower *l, Accs s)
{
    return row_span(l, fused_op(l->f, s.data[0].v)->attr.map, s.data[0].p.row);
}

static void finish(Lower *l, const Acc *a, KirId empty)
{
    memo_put(l, a->v, a->p.row, &a->p.env, finish_sum(l, fused_op(l->f, a->v), a->total, empty));
}

void rows_walk(Lower *l, Accs s)
{
    StageNeeds needs;
    for (unsigned i = 0; i < s.n; i++) /* one row of one map */
        ICE_UNLESS(s.data[i].p.row == s.data[0].p.row &&
                   fused_op(l->f, s.data[i].v)->attr.map == l->f->groups.data[l->g].map);
    needs_of(l, s, &needs);
    stage_join(l, &needs);
    StageSpan x = span_of(l, s);
    open_totals(l, s);
    sum_row(l, s, &needs, x);
    KirId empty = emit_op2(&l->e, KIR_eq, x.lo, x.hi);
    for (unsigned i = 0; i < s.n; i++) finish(l, &s.data[i], empty);
}

static Accs sums_at(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n)
{
    Accs s = {ARENA_ARRAY(l->arena, Acc, n_ops * n), n_ops * n};
    for (unsigned i = 0; i < s.n; i++) s.data[i] = (Acc){.v = ops[i / n], .p = p[i % n]};
    return s;
}

void heavy_rows(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n)
{
    rows_walk(l, sums_at(l, ops, n_ops, p, n));
}

/* ---- sums that wait in private arrays ------------------------------------------------------------------------- */

typedef struct RowTiles {
    const IrId *ops;
    unsigned n;
    KirId *parts;       /* [n] private arrays for the sums of a block; of a kernel for parts of rows in the state */
    const StageSpan *x; /* what is taken in */
    KirId block;        /* where the block begins */
} RowTiles;

static void put(Lower *l, const Acc *a, KirId array, KirId value)
{
    KirIns store = array_access(l, KIR_store, array, &fused_op(l->f, a->v)->type, KIR_NONE, &a->p.env);
    store.args[1] = emit_splat(&l->e, value, store.type.lanes);
    emit_ins(&l->e, store);
}

static KirId get(Lower *l, const Acc *a, KirId array)
{
    return emit_ins(&l->e, array_access(l, KIR_load, array, &fused_op(l->f, a->v)->type, KIR_NONE, &a->p.env));
}

static void keep_parts(Lower *l, const RowTiles *t, Accs s)
{
    if (l->split) split_keep(l, s, t->block);
    else
        for (unsigned i = 0; i < s.n; i++) put(l, &s.data[i], t->parts[i / (s.n / t->n)], s.data[i].part);
}

static void recall_parts(Lower *l, const RowTiles *t, Accs s)
{
    open_parts(l, s);
    if (l->split) split_take(l, s, t->block);
    else
        for (unsigned i = 0; i < s.n; i++)
            emit_set(&l->e, s.data[i].part, get(l, &s.data[i], t->parts[i / (s.n / t->n)]));
}

static void clear_totals(Lower *l, const Point *p, unsigned n, void *user)
{
    const RowTiles *t = user;
    Accs s = sums_at(l, t->ops, t->n, p, n);
    for (unsigned i = 0; i < s.n; i++)
        put(l, &s.data[i], array_find(l, s.data[i].v)->array,
            sum_identity(l, acc_op(l, &s.data[i]), sum_type(l, &s.data[i])));
}

static void clear_parts(Lower *l, const Point *p, unsigned n, void *user)
{
    const RowTiles *t = user;
    Accs s = sums_at(l, t->ops, t->n, p, n);
    for (unsigned i = 0; i < s.n; i++) s.data[i].part = sum_identity(l, acc_op(l, &s.data[i]), sum_type(l, &s.data[i]));
    keep_parts(l, t, s);
}

static void take_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const RowTiles *t = user;
    Accs s = sums_at(l, t->ops, t->n, p, n);
    recall_parts(l, t, s);
    take_elements(l, s, t->x);
    for (unsigned i = 0; i < s.n; i++) emit_freeze(&l->e, s.data[i].part);
    keep_parts(l, t, s);
}

static void merge_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const RowTiles *t = user;
    Accs s = sums_at(l, t->ops, t->n, p, n);
    recall_parts(l, t, s);
    for (unsigned i = 0; i < s.n; i++) {
        const Acc *a = &s.data[i];
        KirId total = array_find(l, a->v)->array;
        put(l, a, total, emit_op2(&l->e, acc_op(l, a), get(l, a, total), a->part));
    }
}

static void for_tiles(Lower *l, RowTiles *t, KirId row, NestBody *body)
{
    Schedule whole = l->s, own = *value_tile_of(l, t->ops[0]);
    l->s.lanes = own.lanes;
    l->s.vectors = t->n > 1 && own.vectors > whole.beside ? whole.beside : own.vectors;
    nest_dims(l, &fused_op(l->f, t->ops[0])->type, &(Point){row, env_empty()}, 1, body, t);
    l->s = whole;
}

void rows_tiles(Lower *l, const IrId *ops, unsigned n, KirId row)
{
    Emit *e = &l->e;
    StageNeeds needs;
    RowTiles t = {.ops = ops, .n = n, .parts = ARENA_ARRAY(l->arena, KirId, n)};
    for (unsigned i = 0; i < n && !l->split; i++) {
        const IrType *type = &fused_op(l->f, ops[i])->type;
        t.parts[i] = emit_ins(e, (KirIns){.op = KIR_alloc,
                                          .type = kir_type(kir_base_of(type->dtype), 1),
                                          .i = ir_type_width(l->f->m, type)});
    }
    stage_needs(l, ops, n, &needs);
    stage_join(l, &needs);
    StageSpan x = row_span(l, l->f->groups.data[l->g].map, row);
    for_tiles(l, &t, row, clear_totals);
    KirId turn = l->split ? split_walk(l, &x, true, false) : KIR_NONE;
    open_block(l, &x);
    t.block = x.from;
    StageSpan some = x;
    t.x = &some;
    if (l->split) emit_if(e, turn);
    for_tiles(l, &t, row, clear_parts);
    bool split = open_staged(l, &needs, &some);
    for_tiles(l, &t, row, take_tile);
    if (split) emit_end(e);
    if (l->split) emit_end(e);
    for_tiles(l, &t, row, merge_tile);
    emit_end(e);
    stage_done(l, &needs);
    for (unsigned i = 0; i < n; i++) array_find(l, ops[i])->kept = true;
}

/* What the later sums need beyond what lies there for the earlier ones; in a block that comes in parts, all. */
static StageNeeds needs_behind(Lower *l, Accs sums, const StageNeeds *before)
{
    StageNeeds needs;
    needs_of(l, sums, &needs);
    unsigned n = 0;
    for (unsigned i = 0; i < needs.n_fresh; i++) {
        bool there = false;
        for (unsigned k = 0; k < before->n_fresh; k++) there |= before->fresh[k] == needs.fresh[i];
        if (!there || l->split || is_split(l, before)) needs.fresh[n++] = needs.fresh[i];
    }
    needs.n_fresh = n;
    needs.fleeting = true;
    return needs;
}

/* A walk of its own: the sums of a block want the extreme of all blocks before it. */
static void extremes_of_part(Lower *l, Accs extremes, const StageNeeds *needs, StageSpan x)
{
    split_walk(l, &x, false, false);
    open_block(l, &x);
    open_parts(l, extremes);
    take_block(l, extremes, needs, x);
    split_keep(l, extremes, x.from);
    emit_end(&l->e);
}

void online_walk(Lower *l, const Online *o, Accs extremes, Accs sums)
{
    Emit *e = &l->e;
    StageNeeds needs;
    needs_of(l, extremes, &needs);
    StageNeeds behind = needs_behind(l, sums, &needs);
    StageSpan all = span_of(l, sums), x = all;
    if (l->split) extremes_of_part(l, extremes, &needs, x);
    open_totals(l, extremes);
    open_totals(l, sums);
    online_begin(l, o, extremes);
    KirId turn = l->split ? split_walk(l, &x, true, true) : KIR_NONE;
    open_block(l, &x);
    open_parts(l, extremes);
    if (l->split) split_take(l, extremes, x.from);
    else take_block(l, extremes, &needs, x);
    merge_sums(l, extremes);
    online_rescale(l, o, extremes, sums, emit_op2(e, KIR_lt, all.lo, x.from));
    open_parts(l, sums);
    take_or_join(l, sums, &behind, x, l->split ? split_reached(l, turn, x.from) : KIR_NONE);
    merge_sums(l, sums);
    emit_end(e);
    stage_done(l, &needs);
    KirId empty = emit_op2(e, KIR_eq, all.lo, all.hi);
    for (unsigned i = 0; i < extremes.n; i++) {
        finish(l, &extremes.data[i], empty);
        stage_keep(l, extremes.data[i].v, &extremes.data[i].p);
    }
    for (unsigned i = 0; i < sums.n; i++) {
        const Acc *a = &sums.data[i];
        emit_freeze(e, a->total);
        memo_put(l, a->v, a->p.row, &a->p.env, online_finish(l, o, a, empty));
    }
}
