/* Inner values of a group: what is computed at the elements of a row for the sums over them, or at a strip of rows for
   the sums over all rows (lower_blocks.c), and kept in private arrays in between, some elements at a time.

     for the elements of a block of the row, 64 at a time:
       for these elements: z = a dot product, into an array [64][H]        each value in its own loops and tiles
       for these elements: sum += f(z)                                     reads the array
   A sum that needs another sum of the row walks the row again; what was staged for all of a short row then still
   lies in the array. What other kernels read is stored in the same loop. No sum is touched: their association is
   that of lower_reduce.c. A value without dims that is made of staged ones and of what the row has is computed for
   sixteen elements at once. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

void stage_keep(Lower *l, IrId v, const Point *p) { stage_put(l, v, p, memo_get(l, v, p->row, &p->env)); }

/* ---- filling ----------------------------------------------------------------------------------------------- */

typedef struct Fill {
    IrId v;
    bool store; /* also to memory */
    KirId array;
} Fill;

/* By this kernel. */
static bool is_stored(const Lower *l, const Staged *s)
{
    return l->f->stored.data[s->v] && !group_has_copy(l->f, l->g, s->v);
}

static void fill_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Fill *x = user;
    const IrType *t = &fused_op(l->f, x->v)->type;
    GroupKind kind = group_kind_of(l->f->f, l->f->m, x->v);
    l->filling = x->v;
    if (kind == GROUP_PRODUCT) heavy_product(l, x->v, p, n);
    for (unsigned i = 0; i < n; i++) {
        if (kind == GROUP_DIMS) heavy_dims(l, x->v, &p[i]);
        KirId value = point_eval(l, x->v, p[i].row, &p[i].env);
        KirIns store = array_access(l, KIR_store, x->array, t, stage_place(l, p[i].row), &p[i].env);
        store.args[1] = emit_splat(&l->e, value, store.type.lanes);
        emit_ins(&l->e, store);
        if (x->store) point_store(l, plan_value_buffer(l->lf, x->v), t, p[i].row, &p[i].env, value);
    }
    l->filling = IR_NONE;
}

/* Values [first, last) of the list at some elements of the row. */
static void fill_points(Lower *l, const uint32_t *list, unsigned first, unsigned last, bool store, const Point *p,
                        unsigned n)
{
    Schedule whole = l->s;
    for (unsigned i = first; i < last; i++) {
        const Staged *s = &l->staged.data[list[i]];
        Fill x = {s->v, store && is_stored(l, s), s->array};
        Schedule own = *value_tile_of(l, s->v);
        l->s.lanes = own.lanes;
        l->s.vectors = own.vectors;
        nest_dims(l, &fused_op(l->f, s->v)->type, p, n, fill_tile, &x);
        l->s = whole;
    }
}

void stage_enter(Lower *l, const StageSpan *x, KirId element, KirId position)
{
    if (x->map != IR_NONE) {
        KirId in_list = l->f->m->maps.data[x->map].sorted ? KIR_NONE : position;
        VEC_PUSH(l->arena, &l->images, ((Image){x->map, element, x->row, in_list}));
    }
    if (l->staged.n)
        VEC_PUSH(l->arena, &l->stage_at, ((StageAt){element, emit_op2(&l->e, KIR_sub, position, x->base)}));
}

void stage_leave(Lower *l, const StageSpan *x, unsigned n)
{
    ICE_UNLESS((x->map == IR_NONE || l->images.n >= n) && (!l->staged.n || l->stage_at.n >= n));
    if (x->map != IR_NONE) l->images.n -= n;
    if (l->staged.n) l->stage_at.n -= n;
}

/* A run of values in one loop over elements; a product takes several elements at once, the last one again where
   there are not enough. */
static void fill_run(Lower *l, const uint32_t *list, unsigned first, unsigned last, bool store, const StageSpan *x,
                     unsigned rows)
{
    Emit *e = &l->e;
    Point *p = ARENA_ARRAY(l->arena, Point, rows);
    KirId position = emit_for(e, x->from, x->to, rows, KIR_SEQ, "staged elements");
    for (unsigned i = 0; i < rows; i++) {
        KirId at = emit_op2(e, KIR_add, position, emit_index(e, i));
        if (i) at = emit_op2(e, KIR_min, at, emit_op2(e, KIR_sub, x->to, emit_index(e, 1)));
        p[i] = (Point){row_element(l, x->map, at), env_empty()};
        stage_enter(l, x, p[i].row, at);
    }
    fill_points(l, list, first, last, store, p, rows);
    stage_leave(l, x, rows);
    emit_end(e);
}

/* ---- sixteen elements at once ---------------------------------------------------------------------------------- */

typedef struct Sixteen {
    Lower *l;
    const StageSpan *x;
    IrId v;
    KirId local;    /* of the first lane */
    KirId elements; /* of all lanes, behind the span its last one again; or KIR_NONE: nothing is gathered */
    KirId *known;   /* by value: + 1 */
} Sixteen;

/* Whether a value is read, or made of what is read, at elements in no order. */
static bool is_gathered(const Lower *l, const StageSpan *x, const IrOp *op, IrId v)
{
    bool other = op->op == IR_OP_gather && op->attr.map != x->map;
    return group_tile_of(l)->gathers && x->map != IR_NONE && (other || group_finds(l->f, l->g, v)) &&
           rows_are_gathered(l->f, l->g, v);
}

/* Whether a value can be computed in lanes from staged values, from what does not change along the row and, where the
   schedule gathers, from what is read at elements: reading beyond the row's end is harmless only in the private
   arrays. */
static bool lanes_fit(const Sixteen *s, IrId v)
{
    const Lower *l = s->l;
    const IrOp *op = fused_op(l->f, v);
    if (op->type.n_dims) return false;
    if (op->type.space == IR_UNIT || op->op == IR_OP_const) return true;
    uint32_t group = l->f->group_of.data[v];
    if (v != s->v && array_find(l, v)) return !array_find(l, v)->of_row;
    if (is_gathered(l, s->x, op, v)) return true;
    if (v != s->v && group != GROUP_NONE) return false;
    if (op->op == IR_OP_gather) return op->attr.map == s->x->map && !fused_op(l->f, op->args[0])->type.n_dims;
    bool map = (ir_ops[op->op].traits & T_MAP) && !(ir_ops[op->op].traits & T_RANDOM) && op->n_args && op->n_args <= 3;
    for (uint32_t k = 0; k < op->n_args && map; k++) map = lanes_fit(s, op->args[k]);
    return map;
}

static KirId lanes_eval(Sixteen *s, IrId v)
{
    Lower *l = s->l;
    const IrOp *op = fused_op(l->f, v);
    Env none = env_empty();
    KirId args[3], value;
    if (s->known[v]) return s->known[v] - 1;
    if (op->type.space == IR_UNIT || op->op == IR_OP_const) {
        value = point_eval(l, v, KIR_NONE, &none);
    } else if (v != s->v && array_find(l, v)) {
        KirIns load = array_access(l, KIR_load, array_find(l, v)->array, &op->type, s->local, &none);
        load.type.lanes = load.active = (uint8_t)rows_at_once(l);
        value = emit_ins(&l->e, load);
    } else if (is_gathered(l, s->x, op, v)) {
        value = rows_gathered(l, v, s->elements);
    } else if (op->op == IR_OP_gather) {
        value = point_eval(l, op->args[0], s->x->row, &none);
    } else {
        for (uint32_t k = 0; k < op->n_args; k++) args[k] = lanes_eval(s, op->args[k]);
        value = point_map(l, op, args);
    }
    s->known[v] = value + 1;
    return value;
}

static void store_sixteen(Lower *l, const Staged *to, KirId local, KirId value)
{
    Env none = env_empty();
    ICE_UNLESS(!fused_op(l->f, to->v)->type.n_dims && !to->of_row);
    KirIns store = array_access(l, KIR_store, to->array, &fused_op(l->f, to->v)->type, local, &none);
    store.type.lanes = store.active = (uint8_t)rows_at_once(l);
    store.args[1] = emit_splat(&l->e, value, rows_at_once(l));
    emit_ins(&l->e, store);
}

/* What lies behind the last element of a staged value may be loaded, so it must be something. */
static void pad(Lower *l, const Staged *s, const StageSpan *x)
{
    const IrType *t = &fused_op(l->f, s->v)->type;
    if (t->n_dims || rows_at_once(l) == 1) return;
    KirType type = kir_type(kir_base_of(t->dtype), rows_at_once(l));
    KirId zero = ir_dtype_is_float(t->dtype) ? emit_float(&l->e, type, 0) : emit_int(&l->e, type, 0);
    store_sixteen(l, s, emit_op2(&l->e, KIR_sub, x->to, x->base), zero);
}

static bool takes_lanes(Lower *l, const Staged *to, const StageSpan *x)
{
    Sixteen s = {.l = l, .x = x, .v = to->v};
    return rows_at_once(l) > 1 && group_kind_of(l->f->f, l->f->m, to->v) == GROUP_MAP && lanes_fit(&s, to->v);
}

/* The elements at these positions of the span, as many as a vector has. */
static KirId elements_from(Lower *l, const StageSpan *x, KirId position)
{
    Emit *e = &l->e;
    KirId at = emit_op2(e, KIR_add, position, emit_lanes(e, KIR_I64, rows_at_once(l)));
    at = emit_op2(e, KIR_min, at, emit_op2(e, KIR_sub, x->to, emit_index(e, 1)));
    return row_element(l, x->map, at);
}

static void fill_lanes(Lower *l, const Staged *to, const StageSpan *x)
{
    Emit *e = &l->e;
    Arena *scratch = arena_new();
    Sixteen s = {.l = l, .x = x, .v = to->v, .known = ARENA_ARRAY(scratch, KirId, to->v + 1)};
    KirId position = emit_for(e, x->from, x->to, rows_at_once(l), KIR_SEQ, rows_label(l, "staged elements"));
    s.local = emit_op2(e, KIR_sub, position, x->base);
    s.elements = group_tile_of(l)->gathers && x->map != IR_NONE ? elements_from(l, x, position) : KIR_NONE;
    l->filling = to->v; /* a constant is evaluated as if it were anywhere */
    KirId value = lanes_eval(&s, to->v);
    l->filling = IR_NONE;
    store_sixteen(l, to, s.local, value);
    emit_end(e);
    arena_free(scratch);
}

/* From the array to memory. */
static void copy_out(Lower *l, const Staged *s, const StageSpan *x)
{
    Env none = env_empty();
    KirId position = emit_for(&l->e, x->from, x->to, 1, KIR_SEQ, "stored elements"), value;
    KirId element = row_element(l, x->map, position);
    const IrType *t = &fused_op(l->f, s->v)->type;
    stage_enter(l, x, element, position);
    ICE_UNLESS(stage_load(l, s->v, t, element, &none, &value));
    point_store(l, plan_value_buffer(l->lf, s->v), t, element, &none, value);
    stage_leave(l, x, 1);
    emit_end(&l->e);
}

/* Elements that are computed together: of products several. */
static unsigned elements_of(const Lower *l, const Staged *s) { return (unsigned)value_tile_of(l, s->v)->rows; }

/* Value by value; those that are computed one element at a time share a loop with their neighbours. */
static void fill_all(Lower *l, const uint32_t *list, unsigned n, bool store, const StageSpan *x)
{
    const Staged *all = l->staged.data;
    for (unsigned i = 0; i < n; i++) pad(l, &all[list[i]], x);
    for (unsigned i = 0, end; i < n; i = end) {
        const Staged *s = &all[list[i]];
        end = i + 1;
        if (takes_lanes(l, s, x)) {
            fill_lanes(l, s, x);
            if (store && is_stored(l, s)) copy_out(l, s, x);
            continue;
        }
        unsigned rows = elements_of(l, s);
        while (rows == 1 && end < n && elements_of(l, &all[list[end]]) == 1 && !takes_lanes(l, &all[list[end]], x))
            end++;
        fill_run(l, list, i, end, store, x, rows);
    }
}

/* ---- what a sum needs ------------------------------------------------------------------------------------- */

typedef struct Needs {
    Lower *l;
    bool *seen;
} Needs;

static void mark_needs(Needs *x, IrId v)
{
    Lower *l = x->l;
    if (x->seen[v]) return;
    x->seen[v] = true;
    uint32_t group = l->f->group_of.data[v];
    const Staged *s = array_find(l, v);
    if (group != GROUP_NONE && (!s || s->of_row)) return;
    const IrOp *op = fused_op(l->f, v);
    for (uint32_t k = 0; k < op->n_args; k++) mark_needs(x, op->args[k]);
}

static bool is_filled(const Lower *l, const Staged *s)
{
    return s->serial && s->depth < l->e.scopes.n && l->e.scopes.data[s->depth].serial == s->serial;
}

static void sort_needs(Lower *l, const bool *needed, StageNeeds *out)
{
    for (uint32_t i = 0; i < l->staged.n; i++) {
        const Staged *s = &l->staged.data[i];
        if (!needed[s->v] || s->of_row) continue;
        uint32_t *list = is_filled(l, s) ? out->again : out->fresh;
        list[is_filled(l, s) ? out->n_again++ : out->n_fresh++] = i;
    }
}

/* Whether v can be filled in the walk that fills what is seen: it wants no sum of this kernel, which may be there for a
   part of the dims only, and of other arrays those that the walk fills. What other walks fill is left to them. */
static bool is_ready(const Needs *x, const bool *summed, bool *tried, IrId v)
{
    const Lower *l = x->l;
    if (tried[v]) return true;
    tried[v] = true;
    const Staged *s = array_find(l, v);
    uint32_t group = l->f->group_of.data[v];
    if (s && (s->of_row || (!x->seen[v] && (summed[v] || is_filled(l, s))))) return false;
    if (!s && group != GROUP_NONE) return group != l->g;
    const IrOp *op = fused_op(l->f, v);
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!is_ready(x, summed, tried, op->args[k])) return false;
    return true;
}

static void mark_summed(Needs *x)
{
    const Group *g = &x->l->f->groups.data[x->l->g];
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const IrOp *op = fused_op(x->l->f, g->roots.data[i]);
        if (group_kind_of(x->l->f->f, x->l->f->m, g->roots.data[i]) == GROUP_ROWS) mark_needs(x, op->args[0]);
    }
}

void stage_join(Lower *l, StageNeeds *needs)
{
    if (!l->staged.n || l->e.scopes.n != l->stage_scopes) return;
    Arena *scratch = arena_new();
    uint32_t n = l->f->f->ops.n + 1;
    Needs x = {l, ARENA_ARRAY(scratch, bool, n)}, all = {l, ARENA_ARRAY(scratch, bool, n)};
    mark_summed(&all);
    for (unsigned i = 0; i < needs->n_fresh; i++) x.seen[l->staged.data[needs->fresh[i]].v] = true;
    for (unsigned i = 0; i < needs->n_again; i++) x.seen[l->staged.data[needs->again[i]].v] = true;
    for (uint32_t i = 0; i < l->staged.n; i++) {
        const Staged *s = &l->staged.data[i];
        if (s->of_row || all.seen[s->v] || is_filled(l, s) || !is_stored(l, s)) continue;
        if (is_ready(&x, all.seen, ARENA_ARRAY(scratch, bool, n), s->v)) mark_needs(&x, s->v);
    }
    needs->n_again = needs->n_fresh = 0;
    sort_needs(l, x.seen, needs);
    arena_free(scratch);
}

void stage_needs(Lower *l, const IrId *ops, unsigned n, StageNeeds *out)
{
    *out = (StageNeeds){.again = ARENA_ARRAY(l->arena, uint32_t, l->staged.n + 1),
                        .fresh = ARENA_ARRAY(l->arena, uint32_t, l->staged.n + 1)};
    if (!l->staged.n) return;
    Arena *scratch = arena_new();
    Needs x = {l, ARENA_ARRAY(scratch, bool, l->f->f->ops.n + 1)};
    for (unsigned i = 0; i < n; i++) mark_needs(&x, fused_op(l->f, ops[i])->args[0]);
    sort_needs(l, x.seen, out);
    arena_free(scratch);
}

void stage_fill(Lower *l, const StageNeeds *needs, const StageSpan *x)
{
    Emit *e = &l->e;
    if (needs->n_again) {
        ICE_UNLESS(x->longer != KIR_NONE); /* row_span says it where there are arrays */
        emit_if(e, x->longer);
        fill_all(l, needs->again, needs->n_again, false, x);
        emit_end(e);
    }
    fill_all(l, needs->fresh, needs->n_fresh, !needs->fleeting, x);
}

void stage_strip(Lower *l, const StageSpan *x)
{
    uint32_t *all = ARENA_ARRAY(l->arena, uint32_t, l->staged.n + 1);
    for (uint32_t i = 0; i < l->staged.n; i++) all[i] = i;
    fill_all(l, all, l->staged.n, true, x);
}

enum {
    SHARED_ROWS = 4,
    SHARED_PIECES = 4
}; /* whose loads are on their way together: rows, and vectors of what lies in memory */

static void share_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Staged *s = user;
    const IrType *t = &fused_op(l->f, s->v)->type;
    KirId *value = ARENA_ARRAY(l->arena, KirId, n);
    for (unsigned i = 0; i < n; i++) value[i] = point_full(l, s->v, p[i].row, &p[i].env);
    for (unsigned i = 0; i < n; i++) {
        KirIns store = array_access(l, KIR_store, s->array, t, stage_place(l, p[i].row), &p[i].env);
        store.args[1] = emit_splat(&l->e, value[i], store.type.lanes);
        emit_ins(&l->e, store);
    }
}

void stage_shared(Lower *l, const StageSpan *x)
{
    Emit *e = &l->e;
    Schedule whole = l->s;
    Point p[SHARED_ROWS];
    ICE_UNLESS(l->deal.n_warps && l->staged.n && x->map == IR_NONE);
    KirId from = emit_op2(e, KIR_add, x->from, emit_op2(e, KIR_mul, l->deal.warp, emit_index(e, SHARED_ROWS)));
    KirId row = emit_for(e, from, x->to, l->deal.n_warps * SHARED_ROWS, KIR_SEQ, "shared rows");
    KirId last = emit_op2(e, KIR_sub, x->to, emit_index(e, 1));
    for (unsigned i = 0; i < SHARED_ROWS; i++) { /* the last row again where there are not enough */
        KirId at = emit_op2(e, KIR_add, row, emit_index(e, i));
        p[i] = (Point){i ? emit_op2(e, KIR_min, at, last) : row, env_empty()};
        stage_enter(l, x, p[i].row, p[i].row);
    }
    for (uint32_t i = 0; i < l->staged.n; i++) {
        Staged *s = &l->staged.data[i];
        IrId v = fused_storage(l->f, s->v);
        bool stored = l->f->group_of.data[v] != GROUP_NONE || fused_op(l->f, v)->op == IR_OP_arg;
        l->s.vectors = stored ? SHARED_PIECES : 1;
        l->filling = s->v;
        nest_dims(l, &fused_op(l->f, s->v)->type, p, SHARED_ROWS, share_tile, s);
        l->filling = IR_NONE;
    }
    stage_leave(l, x, SHARED_ROWS);
    emit_end(e);
    l->s = whole;
}

void stage_done(Lower *l, const StageNeeds *needs)
{
    uint32_t depth = l->e.scopes.n - 1;
    for (unsigned i = 0; i < needs->n_fresh; i++) {
        Staged *s = &l->staged.data[needs->fresh[i]];
        s->depth = depth;
        s->serial = l->e.scopes.data[depth].serial;
    }
}

/* ---- what no sum needs --------------------------------------------------------------------------------------- */

void stage_end(Lower *l, KirId row)
{
    StageNeeds rest = {.again = ARENA_ARRAY(l->arena, uint32_t, l->staged.n + 1),
                       .fresh = ARENA_ARRAY(l->arena, uint32_t, l->staged.n + 1)};
    if (!l->staged.n) return;
    Arena *scratch = arena_new();
    Needs x = {l, ARENA_ARRAY(scratch, bool, l->f->f->ops.n + 1)};
    bool any = false;
    for (uint32_t i = 0; i < l->staged.n; i++) {
        const Staged *s = &l->staged.data[i];
        if (s->of_row || is_filled(l, s) || !is_stored(l, s)) continue;
        mark_needs(&x, s->v);
        any = true;
    }
    if (any) {
        sort_needs(l, x.seen, &rest);
        stage_sweep(l, &rest, l->f->groups.data[l->g].map, row);
    }
    arena_free(scratch);
    l->staged.n = 0;
}
