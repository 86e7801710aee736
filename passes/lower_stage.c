/* Inner values of a group: what is computed at the elements of a row for the sums over them, and kept in private
   arrays in between, some elements at a time.

     for the elements of a block of the row, 64 at a time:
       for these elements: z = a dot product, into an array [64][H]        each value in its own loops and tiles
       for these elements: sum += f(z)                                     reads the array
   A sum that needs another sum of the row walks the row again; what was staged for all of a short row then still
   lies in the array. What other kernels read is stored in the same loop. No sum is touched: their association is
   that of lower_reduce.c. */
#include "base/ice.h"
#include "passes/lower_kernel.h"

enum { PRODUCT_ROWS = 4 };

/* ---- arrays ---------------------------------------------------------------------------------------------- */

static void add_array(Lower *l, IrId v, bool of_row)
{
    const IrType *t = &fused_op(l->f, v)->type;
    Staged s = {.v = v, .of_row = of_row};
    s.array = emit_ins(&l->e, (KirIns){.op = KIR_alloc, .type = kir_type(kir_base_of(t->dtype), 1),
                                       .i = (of_row ? 1 : l->stage_rows) * ir_type_width(l->f->m, t)});
    VEC_PUSH(l->arena, &l->staged, s);
}

/* A value of the row without dims is one register, seen everywhere. */
static bool is_kept(const Lower *l, IrId v)
{
    const IrOp *op = fused_op(l->f, v);
    return op->type.n_dims && op->type.dtype != IR_BOOL;
}

void stage_begin(Lower *l)
{
    const Group *g = &l->f->groups.data[l->g];
    l->staged.n = 0;
    l->stage_rows = stage_elements(l->f, g, NULL);
    for (uint32_t i = 0; i < g->inner.n; i++) add_array(l, g->inner.data[i], false);
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (is_kept(l, g->roots.data[i])) add_array(l, g->roots.data[i], true);
}

static Staged *find(const Lower *l, IrId v)
{
    for (uint32_t i = 0; i < l->staged.n; i++)
        if (l->staged.data[i].v == v) return &l->staged.data[i];
    return NULL;
}

static KirIns array_access(Lower *l, KirOpcode op, KirId array, const IrType *t, KirId local, const Env *env)
{
    Env own = env_only(env, t);
    KirIns x = {.op = op, .type = kir_type(kir_base_of(t->dtype), env_width(&own)), .buf = KIR_NONE, .alloc = array,
                .active = own.active, .args = {point_address(l, t, local, env), KIR_NONE, KIR_NONE}};
    if (!lanes_stride(l, t, &own, &x.stride)) {
        ICE_UNLESS(op == KIR_load);
        x.op = KIR_gather;
        x.stride = 1;
        x.args[0] = emit_op2(&l->e, KIR_add, x.args[0], lanes_offsets(l, t, &own));
    }
    return x;
}

bool stage_load(Lower *l, IrId v, const IrType *t, KirId row, const Env *env, KirId *value)
{
    const Staged *s = find(l, v);
    if (!s || s->v == l->filling) return false;
    if (s->of_row) {
        *value = emit_ins(&l->e, array_access(l, KIR_load, s->array, t, KIR_NONE, env));
        return true;
    }
    for (uint32_t i = l->stage_at.n; i-- > 0;)
        if (l->stage_at.data[i].row == row) {
            *value = emit_ins(&l->e, array_access(l, KIR_load, s->array, t, l->stage_at.data[i].local, env));
            return true;
        }
    ICE("an element has no place in the private arrays");
}

void stage_keep(Lower *l, IrId v, const Point *p)
{
    const Staged *s = find(l, v);
    if (!s) return;
    KirId value = memo_get(l, v, p->row, &p->env);
    KirIns store = array_access(l, KIR_store, s->array, &fused_op(l->f, v)->type, KIR_NONE, &p->env);
    store.args[1] = emit_splat(&l->e, value, store.type.lanes);
    emit_ins(&l->e, store);
}

/* ---- filling ----------------------------------------------------------------------------------------------- */

typedef struct Fill {
    IrId v;
    bool store; /* also to memory */
    KirId array;
} Fill;

static void fill_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Fill *x = user;
    const IrType *t = &fused_op(l->f, x->v)->type;
    GroupKind kind = group_kind_of(l->f->f, l->f->m, x->v);
    l->filling = x->v;
    if (kind == GROUP_PRODUCT) heavy_product(l, x->v, p, n);
    for (unsigned i = 0; i < n; i++) {
        if (kind == GROUP_DIMS) heavy_dims(l, x->v, &p[i]);
        KirId value = point_eval(l, x->v, p[i].row, &p[i].env), local = KIR_NONE;
        for (uint32_t k = 0; k < l->stage_at.n; k++)
            if (l->stage_at.data[k].row == p[i].row) local = l->stage_at.data[k].local;
        KirIns store = array_access(l, KIR_store, x->array, t, local, &p[i].env);
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
        Fill x = {s->v, store && l->f->stored.data[s->v], s->array};
        Schedule own = schedule_value(l->f, s->v, l->lf->vectors);
        l->s.vec = own.vec;
        l->s.lanes = own.lanes;
        l->s.first_vec = 0;
        l->s.tile = own.tile;
        l->s.tile_last = own.tile_last;
        nest_dims(l, &fused_op(l->f, s->v)->type, p, n, fill_tile, &x);
        l->s = whole;
    }
}

void stage_enter(Lower *l, const StageSpan *x, KirId element, KirId position)
{
    KirId in_list = l->f->m->maps.data[x->map].sorted ? KIR_NONE : position;
    VEC_PUSH(l->arena, &l->images, ((Image){x->map, element, x->row, in_list}));
    if (l->staged.n)
        VEC_PUSH(l->arena, &l->stage_at, ((StageAt){element, emit_op2(&l->e, KIR_sub, position, x->base)}));
}

void stage_leave(Lower *l, unsigned n)
{
    l->images.n -= n;
    if (l->staged.n) l->stage_at.n -= n;
}

/* A run of values in one loop over elements; a product takes several elements at once, the last one again where
   there are not enough. */
static void fill_run(Lower *l, const uint32_t *list, unsigned first, unsigned last, bool store, const StageSpan *x,
                     unsigned rows)
{
    Emit *e = &l->e;
    Point p[PRODUCT_ROWS];
    KirId position = emit_for(e, x->from, x->to, rows, KIR_SEQ, "staged elements");
    for (unsigned i = 0; i < rows; i++) {
        KirId at = emit_op2(e, KIR_add, position, emit_index(e, i));
        if (i) at = emit_op2(e, KIR_min, at, emit_op2(e, KIR_sub, x->to, emit_index(e, 1)));
        p[i] = (Point){row_element(l, x->map, at), env_empty()};
        stage_enter(l, x, p[i].row, at);
    }
    const IrMap *m = &l->f->m->maps.data[x->map];
    if (rows == 1) walk_open(l, m->from, m->sorted ? IR_NONE : x->map, p[0].row, position);
    fill_points(l, list, first, last, store, p, rows);
    if (rows == 1) walk_close(l);
    stage_leave(l, rows);
    emit_end(e);
}

static void fill_all(Lower *l, const uint32_t *list, unsigned n, bool store, const StageSpan *x)
{
    for (unsigned i = 0, end; i < n; i = end) {
        bool product = group_kind_of(l->f->f, l->f->m, l->staged.data[list[i]].v) == GROUP_PRODUCT;
        for (end = i + 1; end < n && !product; end++)
            if (group_kind_of(l->f->f, l->f->m, l->staged.data[list[end]].v) == GROUP_PRODUCT) break;
        fill_run(l, list, i, end, store, x, product && l->lf->vectors ? PRODUCT_ROWS : 1);
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
    const Staged *s = group == l->g ? find(l, v) : NULL;
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
        emit_if(e, x->longer);
        fill_all(l, needs->again, needs->n_again, false, x);
        emit_end(e);
    }
    fill_all(l, needs->fresh, needs->n_fresh, true, x);
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
        if (s->of_row || is_filled(l, s) || !l->f->stored.data[s->v]) continue;
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
