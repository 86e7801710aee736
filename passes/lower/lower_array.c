/* Private arrays of a kernel: which values have one, and how elements of it are read and written at a point.
   lower_stage.c fills them. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

static void add_array(Lower *l, IrId v, bool of_row)
{
    const IrType *t = &fused_op(l->f, v)->type;
    Staged s = {.v = v, .of_row = of_row};
    ICE_UNLESS(!array_find(l, v) && l->stage_rows > 0);
    int64_t size = (of_row ? 1 : l->stage_rows) * ir_type_width(l->f->m, t);
    if (!of_row && !t->n_dims) size += rows_at_once(l); /* the last vector may reach beyond the row */
    s.array = emit_ins(&l->e, (KirIns){.op = KIR_alloc, .type = kir_type(kir_base_of(t->dtype), 1), .i = size});
    VEC_PUSH(l->arena, &l->staged, s);
}

void stage_share(Lower *l, IrId v)
{
    const IrType *t = &fused_op(l->f, v)->type;
    ICE_UNLESS(l->stage_rows > 0);
    if (array_find(l, v)) return;
    int64_t size = l->stage_rows * ir_type_width(l->f->m, t);
    KirIns alloc = {.op = KIR_alloc, .type = kir_type(kir_base_of(t->dtype), 1), .i = size, .shared = true};
    Staged s = {.v = v, .array = emit_ins(&l->e, alloc)};
    VEC_PUSH(l->arena, &l->staged, s);
    uint32_t at = l->staged.n - 1; /* ascending: what one is made of is there before it */
    for (; at > 0 && l->staged.data[at - 1].v > v; at--) l->staged.data[at] = l->staged.data[at - 1];
    l->staged.data[at] = s;
}

static bool is_kept(const Lower *l, IrId v)
{
    const IrOp *op = fused_op(l->f, v);
    return op->type.dtype != IR_BOOL;
}

void stage_begin(Lower *l)
{
    const Group *g = &l->f->groups.data[l->g];
    l->staged.n = 0;
    l->stage_rows = l->s.staged;
    l->stage_scopes = l->e.scopes.n;
    for (uint32_t i = 0; i < g->inner.n; i++) add_array(l, g->inner.data[i], false);
    for (uint32_t i = 0; i < g->roots.n && g->kind == GROUP_ROWS; i++)
        if (is_kept(l, g->roots.data[i])) add_array(l, g->roots.data[i], true);
}

Staged *array_find(const Lower *l, IrId v)
{
    for (uint32_t i = 0; i < l->staged.n; i++)
        if (l->staged.data[i].v == v) return &l->staged.data[i];
    return NULL;
}

KirIns array_access(Lower *l, KirOpcode op, KirId array, const IrType *t, KirId local, const Env *env)
{
    Env own = env_only(env, t);
    KirIns x = {.op = op,
                .type = kir_type(kir_base_of(t->dtype), env_width(&own)),
                .buf = KIR_NONE,
                .alloc = array,
                .active = own.active,
                .args = {point_address(l, t, local, env), KIR_NONE, KIR_NONE}};
    if (!lanes_stride(l, t, &own, &x.stride)) {
        ICE_UNLESS(op == KIR_load);
        x.op = KIR_gather;
        x.stride = 1;
        x.args[0] = emit_op2(&l->e, KIR_add, x.args[0], lanes_offsets(l, t, &own));
    }
    return x;
}

KirId stage_place(const Lower *l, KirId row)
{
    for (uint32_t i = l->stage_at.n; i-- > 0;)
        if (l->stage_at.data[i].row == row) return l->stage_at.data[i].local;
    ICE("an element has no place in the arrays");
}

bool stage_has(const Lower *l, IrId v)
{
    const Staged *s = array_find(l, v);
    return s && !s->of_row;
}

bool stage_load(Lower *l, IrId v, const IrType *t, KirId row, const Env *env, KirId *value)
{
    const Staged *s = array_find(l, v);
    if (!s || s->v == l->filling) return false;
    if (s->of_row && !s->kept) return false;
    if (s->of_row) {
        *value = emit_ins(&l->e, array_access(l, KIR_load, s->array, t, KIR_NONE, env));
        return true;
    }
    *value = emit_ins(&l->e, array_access(l, KIR_load, s->array, t, stage_place(l, row), env));
    return true;
}

void stage_put(Lower *l, IrId v, const Point *p, KirId value)
{
    Staged *s = array_find(l, v);
    if (!s) return;
    KirIns store = array_access(l, KIR_store, s->array, &fused_op(l->f, v)->type, KIR_NONE, &p->env);
    store.args[1] = emit_splat(&l->e, value, store.type.lanes);
    emit_ins(&l->e, store);
    s->kept = true;
}
