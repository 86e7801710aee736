/* Evaluation at a point: what the value of an operation is at one row and one index per dim, computed on demand.
   Values of other groups are loaded, this group's sums must have been computed before (lower_nest.c), the rest
   is inlined. What was computed at a point is remembered while its block is open. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* ---- memory of points -------------------------------------------------------------------------------- */

static Memo memo_key(const Lower *l, IrId v, KirId row, const Env *env)
{
    const IrType *t = &fused_op(l->f, v)->type;
    Env own = env_only(env, t);
    Memo m = {.v = v,
              .row = t->space == IR_UNIT ? KIR_NONE : row,
              .n_dims = t->n_dims,
              .n_vec = own.n_vec,
              .active = own.active};
    memcpy(m.vec, own.vec, own.n_vec * sizeof *own.vec);
    for (uint8_t k = 0; k < t->n_dims; k++) m.ix[k] = *env_get(env, t->dims[k]);
    return m;
}

static bool same_point(const Memo *a, const Memo *b)
{
    if (a->row != b->row || a->n_vec != b->n_vec || a->active != b->active) return false;
    for (uint8_t k = 0; k < a->n_vec; k++)
        if (a->vec[k].dim != b->vec[k].dim || a->vec[k].count != b->vec[k].count) return false;
    for (uint8_t k = 0; k < a->n_dims; k++)
        if (a->ix[k].var != b->ix[k].var || a->ix[k].off != b->ix[k].off) return false;
    return true;
}

KirId memo_get(const Lower *l, IrId v, KirId row, const Env *env)
{
    Memo key = memo_key(l, v, row, env);
    for (uint32_t i = l->lf->first_memo[v]; i; i = l->memos.data[i - 1].next) {
        const Memo *m = &l->memos.data[i - 1];
        if (same_point(m, &key) && emit_visible(&l->e, m->value)) return m->value;
    }
    return KIR_NONE;
}

void memo_put(Lower *l, IrId v, KirId row, const Env *env, KirId value)
{
    Memo key = memo_key(l, v, row, env);
    unsigned lanes = emit_type(&l->e, value).lanes;
    ICE_UNLESS(lanes == 1 || lanes == env_lanes(env, &fused_op(l->f, v)->type));
    key.value = value;
    key.next = l->lf->first_memo[v];
    VEC_PUSH(l->arena, &l->memos, key);
    l->lf->first_memo[v] = l->memos.n;
}

/* Are the lanes that own wants consecutive ones of m? They are if own runs along the inner dims of m's vector and along
   no other.
   *first: the number of the first. */
static bool is_part(const Memo *m, const Memo *own, const IrType *t, unsigned *first)
{
    unsigned each = 1;
    bool cut = false;
    *first = 0;
    if (m->row != own->row || m->n_vec <= own->n_vec) return false;
    for (unsigned i = 0; i < m->n_vec; each *= m->vec[i++].count) {
        bool wide = i < own->n_vec;
        if (wide && own->vec[i].dim != m->vec[i].dim) return false;
        uint32_t k = 0;
        while (t->dims[k] != m->vec[i].dim) k++;
        int64_t count = m->vec[i].count, wanted = wide ? own->vec[i].count : 1, off = own->ix[k].off - m->ix[k].off;
        if (off < 0 || off + wanted > count || (cut && wanted != 1)) return false;
        cut |= wanted != count;
        *first += each * (unsigned)off;
    }
    for (uint8_t k = 0; k < t->n_dims; k++) {
        bool along = false;
        for (unsigned i = 0; i < m->n_vec; i++) along |= m->vec[i].dim == t->dims[k];
        if (m->ix[k].var != own->ix[k].var || (!along && m->ix[k].off != own->ix[k].off)) return false;
    }
    return *first + own->active <= m->active; /* lanes behind those are padding */
}

/* v at one point of a vector of points where it is known. */
static KirId memo_part(Lower *l, IrId v, KirId row, const Env *env)
{
    Memo own = memo_key(l, v, row, env);
    unsigned first;
    for (uint32_t i = l->lf->first_memo[v]; i; i = l->memos.data[i - 1].next) {
        const Memo *m = &l->memos.data[i - 1];
        if (!emit_visible(&l->e, m->value) || !is_part(m, &own, &fused_op(l->f, v)->type, &first)) continue;
        return emit_part(&l->e, m->value, first, env_lanes(env, &fused_op(l->f, v)->type));
    }
    return KIR_NONE;
}

/* ---- memory ------------------------------------------------------------------------------------------ */

Lin point_offset(const Lower *l, const IrType *t, const Env *env)
{
    Lin lin = {0};
    int64_t step = 1;
    for (uint32_t k = t->n_dims; k-- > 0;) {
        const Ix *ix = env_get(env, t->dims[k]);
        lin_add(&lin, ix->var, step);
        lin.konst += ix->off * step;
        step *= l->f->m->dims.data[t->dims[k]].size;
    }
    return lin;
}

KirId point_address(Lower *l, const IrType *t, KirId row, const Env *env)
{
    Lin lin = point_offset(l, t, env);
    if (t->space != IR_UNIT) lin_add(&lin, row, ir_type_width(l->f->m, t));
    return lin_emit(&l->e, &lin);
}

KirId point_load(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env)
{
    Env own = env_only(env, t);
    ICE_UNLESS(t->space == IR_UNIT || row != KIR_NONE);
    if (l->rows_ahead && t->space == l->f->groups.data[l->g].space && own.n_vec) {
        KirId ahead = emit_op2(&l->e, KIR_add, row, emit_index(&l->e, l->rows_ahead));
        emit_prefetch(&l->e, lower_in(l, buffer), point_address(l, t, ahead, env));
    }
    return lanes_load(l, lower_in(l, buffer), t, point_address(l, t, row, env), &own);
}

void point_store(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env, KirId value)
{
    int64_t stride;
    ICE_UNLESS(t->space == IR_UNIT || row != KIR_NONE);
    ICE_UNLESS(lanes_stride(l, t, env, &stride));
    value = emit_splat(&l->e, value, env_lanes(env, t));
    emit_store(&l->e, lower_out(l, buffer), point_address(l, t, row, env), value, env_active(env, t), stride);
}

/* ---- operations --------------------------------------------------------------------------------------- */

static KirId eval_const(Lower *l, const IrOp *op)
{
    KirType t = kir_type(kir_base_of(op->type.dtype), 1);
    if (ir_dtype_is_float(op->type.dtype)) return emit_float(&l->e, t, op->attr.f);
    return emit_int(&l->e, t, (int64_t)op->attr.f);
}

static KirId eval_iota(Lower *l, const IrOp *op, const Env *env)
{
    KirId x = ix_emit(l, *env_get(env, op->attr.dim));
    unsigned lanes = env_lanes(env, &op->type);
    if (lanes > 1) x = emit_op2(&l->e, KIR_add, x, emit_lanes(&l->e, KIR_I64, lanes));
    return x;
}

/* Ends of candidates follow from the pair's number. `row`: the pair. */
static KirId implied_image(Lower *l, const IrGraph *g, IrId map, KirId row)
{
    Emit *e = &l->e;
    KirId n = lower_count(l, plan_count(l->f->m, g->src_space));
    for (uint32_t i = 0; map == g->src && i < l->images.n; i++) {
        const Image *x = &l->images.data[i];
        if (x->map == g->dst && x->row == row) return emit_op2(e, KIR_sub, row, emit_op2(e, KIR_mul, x->image, n));
    }
    return emit_op2(e, map == g->src ? KIR_rem : KIR_div, row, n);
}

/* An element that a list gave has its image in an array of the list's order, which is read one after another. */
KirId point_image(Lower *l, IrId map, KirId element)
{
    uint32_t to = UINT32_MAX;
    KirId row = element;
    const IrGraph *all = ir_graph_of_all(l->f->m, map);
    if (all) return implied_image(l, all, map, element);
    for (uint32_t i = l->images.n; i-- > 0 && to == UINT32_MAX;) {
        const Image *x = &l->images.data[i];
        if (x->row != element || x->position == KIR_NONE || lower_is_computed(l, map) || lower_is_computed(l, x->map))
            continue;
        to = lower_along_buffer(l, map, x->map);
        row = x->position;
    }
    if (to == UINT32_MAX) to = lower_map_buffer(l, PLAN_MAP_TO, map);
    KirId image = emit_convert(&l->e, KIR_I64, emit_load(&l->e, lower_in(l, to), kir_type(KIR_I32, 1), row, 1, 1));
    return image;
}

static KirId eval_mapped(Lower *l, const IrOp *op, KirId row)
{
    const IrMap *map = &l->f->m->maps.data[op->attr.map];
    if (!map->partial) return emit_int(&l->e, kir_type(KIR_I1, 1), 1);
    return emit_op2(&l->e, KIR_le, emit_index(&l->e, 0), point_image(l, op->attr.map, row));
}

/* Through a partial map: 0 where there is no image; the operand is computed only where there is one. */
static KirId eval_partial(Lower *l, const IrOp *op, KirId image, const Env *env)
{
    Emit *e = &l->e;
    KirType t = kir_type(kir_base_of(op->type.dtype), env_lanes(env, &op->type));
    KirId zero = ir_dtype_is_float(op->type.dtype) ? emit_float(e, t, 0) : emit_int(e, t, 0);
    KirId var = emit_var(e, "found", zero);
    emit_if(e, emit_op2(e, KIR_le, emit_index(e, 0), image));
    emit_set(e, var, emit_splat(e, point_eval(l, op->args[0], image, env), t.lanes));
    emit_end(e);
    emit_freeze(e, var);
    return var;
}

static KirId eval_gather(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    const IrMap *map = &l->f->m->maps.data[op->attr.map];
    for (uint32_t i = 0; i < l->images.n; i++)
        if (l->images.data[i].map == op->attr.map && l->images.data[i].row == row)
            return point_eval(l, op->args[0], l->images.data[i].image, env);
    if (map->to == IR_UNIT && !map->partial) return point_eval(l, op->args[0], KIR_NONE, env);
    KirId image = point_image(l, op->attr.map, row);
    if (map->partial) return eval_partial(l, op, image, env);
    return point_eval(l, op->args[0], image, env);
}

/* The operand's own environment: no other dim stays in it, so that chains of slices do not grow it. */
static KirId eval_slice(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    const IrType *x = &fused_op(l->f, op->args[0])->type;
    Env inner = *env;
    inner.n = 0;
    for (uint32_t k = 0; k < x->n_dims; k++) {
        Ix ix = *env_get(env, op->type.dims[k]);
        if (x->dims[k] == op->attr.dim) ix.off += op->attr.i;
        env_set(&inner, x->dims[k], ix);
        env_rename(&inner, env, op->type.dims[k], x->dims[k]);
    }
    return point_eval(l, op->args[0], row, &inner);
}

/* The operand's element at an index that is a value: the nearest one there is, and 0 in its place. */
static KirId eval_at(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    Emit *e = &l->e;
    int64_t last = l->f->m->dims.data[op->attr.dim].size - 1;
    KirId i = point_eval(l, op->args[1], row, env);
    KirId near = emit_op2(e, KIR_min, emit_op2(e, KIR_max, i, emit_index(e, 0)), emit_index(e, last));
    Env inner = *env;
    env_set(&inner, op->attr.dim, (Ix){near, 0, 1});
    KirId x = point_full(l, op->args[0], row, &inner);
    KirType t = emit_type(e, x);
    return emit_select(e, emit_splat(e, emit_op2(e, KIR_eq, i, near), t.lanes), x, emit_float(e, t, 0));
}

static bool is_memory(const Lower *l, IrId v)
{
    uint32_t group = l->f->group_of.data[v];
    return fused_op(l->f, v)->op == IR_OP_arg ||
           (group != GROUP_NONE && group != l->g && !group_has_copy(l->f, l->g, v));
}

/* A reshape of what lies in memory reads it with strides of its own, also where it turns a dim into rows or back;
   another one only renames dims. */
static KirId eval_reshape(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    const IrModule *m = l->f->m;
    IrId s = fused_storage(l->f, op->args[0]);
    if (is_memory(l, s)) return point_load(l, plan_value_buffer(l->lf, s), &op->type, row, env);
    KirId value;
    if (stage_load(l, s, &op->type, row, env, &value)) return value;
    const IrType *from = &fused_op(l->f, op->args[0])->type, *to = &op->type;
    ICE_UNLESS(reshape_is_rename(m, from, to));
    Env inner = *env;
    inner.n = 0;
    uint32_t j = 0;
    for (uint32_t i = 0; i < from->n_dims; i++) {
        if (m->dims.data[from->dims[i]].size == 1) {
            env_set(&inner, from->dims[i], ix_const(0));
            continue;
        }
        while (m->dims.data[to->dims[j]].size == 1) j++;
        env_set(&inner, from->dims[i], *env_get(env, to->dims[j]));
        env_rename(&inner, env, to->dims[j], from->dims[i]);
        j++;
    }
    return point_eval(l, op->args[0], row, &inner);
}

static KirId eval_pointwise(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    KirId args[3];
    ICE_UNLESS(op->n_args >= 1 && op->n_args <= 3);
    for (uint32_t k = 0; k < op->n_args; k++) args[k] = point_full(l, op->args[k], row, env);
    return point_map(l, op, args);
}

static KirId eval_op(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    switch (op->op) {
    case IR_OP_const: return eval_const(l, op);
    case IR_OP_iota: return eval_iota(l, op, env);
    case IR_OP_element:
        if (op->type.space == IR_UNIT) return emit_index(&l->e, 0);
        if (l->f->m->spaces.data[op->type.space].has_dim) return row;
        return emit_load(&l->e, lower_in(l, lower_map_buffer(l, PLAN_IDS, op->type.space)), kir_type(KIR_I64, 1), row,
                         1, 1);
    case IR_OP_row: return op->type.space == IR_UNIT ? emit_index(&l->e, 0) : row;
    case IR_OP_random_uniform:
    case IR_OP_random_normal: return point_random(l, op, row, env);
    case IR_OP_random_uniform_at:
    case IR_OP_random_normal_at: return point_random_at(l, op, row, env);
    case IR_OP_mapped: return eval_mapped(l, op, row);
    case IR_OP_gather: return eval_gather(l, op, row, env);
    case IR_OP_slice: return eval_slice(l, op, row, env);
    case IR_OP_at: return eval_at(l, op, row, env);
    case IR_OP_reshape: return eval_reshape(l, op, row, env);
    default:
        ICE_UNLESS(!op_is_heavy(l->f->m, l->f->f, (IrId)(op - l->f->f->ops.data)));
        return eval_pointwise(l, op, row, env);
    }
}

static bool is_read(const Lower *l, IrId v)
{
    for (;; v = fused_op(l->f, v)->args[0]) {
        IrOpcode op = fused_op(l->f, v)->op;
        if (is_memory(l, v) || op == IR_OP_reshape) return true;
        if (l->f->group_of.data[v] != GROUP_NONE || (op != IR_OP_gather && op != IR_OP_detach)) return false;
    }
}

/* Not worth it for what lies in memory with gaps: each part is read by itself. */
static bool widen(const Lower *l, IrId v, unsigned most, Env *env, unsigned *first)
{
    const IrType *t = &fused_op(l->f, v)->type;
    int64_t stride;
    return lanes_widen(l, t, most, env, first) && (!is_read(l, v) || (lanes_stride(l, t, env, &stride) && stride == 1));
}

static KirId eval_own(Lower *l, IrId v, KirId row, const Env *env)
{
    const IrOp *op = fused_op(l->f, v);
    KirId value;
    if (stage_load(l, v, &op->type, row, env, &value)) return value;
    if (is_memory(l, v)) return point_load(l, plan_value_buffer(l->lf, v), &op->type, row, env);
    return eval_op(l, op, row, env);
}

/* A value that has only some of the vector's dims is computed for as much of them as one vector holds, for all the
   vectors of the tile at once; each takes its part. */
KirId point_eval(Lower *l, IrId v, KirId row, const Env *env)
{
    const IrOp *op = fused_op(l->f, v);
    if (op->type.space == IR_UNIT) row = KIR_NONE;
    KirId known = memo_get(l, v, row, env);
    if (known != KIR_NONE) return known;
    Env own = env_only(env, &op->type), wide = own;
    unsigned first;
    KirId value;
    if (own.n_vec < env->n_vec && widen(l, v, env_width(env), &wide, &first))
        value = emit_part(&l->e, point_eval(l, v, row, &wide), first, env_width(&own));
    else if (is_read(l, v) || (value = memo_part(l, v, row, &own)) == KIR_NONE) value = eval_own(l, v, row, &own);
    memo_put(l, v, row, env, value);
    return value;
}

KirId point_full(Lower *l, IrId v, KirId row, const Env *env)
{
    return lanes_spread(l, point_eval(l, v, row, env), &fused_op(l->f, v)->type, env);
}
