/* Rebuilding functions and adding typed ops: the tools of the graph passes. See rewrite.h.
   Never looks at what an op computes; types only. */
#include "passes/rewrite/rewrite.h"
#include "base/ice.h"

Rewrite rewrite_begin(IrModule *m, const IrFunc *old)
{
    IrFunc *f = ARENA_NEW(m->arena, IrFunc);
    f->name = old->name;
    f->train_mode = old->train_mode;
    for (uint32_t i = 0; i < old->args.n; i++) VEC_PUSH(m->arena, &f->args, old->args.data[i]);
    Rewrite r = {.b = {.m = m, .f = f}, .old = old};
    r.map = ARENA_ARRAY(m->arena, IrId, old->ops.n);
    for (uint32_t i = 0; i < old->ops.n; i++) r.map[i] = IR_NONE;
    return r;
}

IrOp rewrite_op(const Rewrite *r, IrId v)
{
    ICE_UNLESS(v < r->old->ops.n);
    IrOp op = r->old->ops.data[v];
    const IrId *from = op.args;
    op.args = ARENA_ARRAY(r->b.m->arena, IrId, op.n_args);
    for (uint32_t i = 0; i < op.n_args; i++) {
        op.args[i] = r->map[from[i]];
        ICE_UNLESS(op.args[i] != IR_NONE);
    }
    return op;
}

IrId rewrite_copy(Rewrite *r, IrId v)
{
    ICE_UNLESS(r->map[v] == IR_NONE); /* a value is copied once */
    IrOp op = rewrite_op(r, v);
    return r->map[v] = irb_add(&r->b, &op);
}

IrFunc *rewrite_end(Rewrite *r)
{
    for (uint32_t i = 0; i < r->old->results.n; i++) {
        IrResult result = r->old->results.data[i];
        result.value = r->map[result.value];
        ICE_UNLESS(result.value != IR_NONE);
        VEC_PUSH(r->b.m->arena, &r->b.f->results, result);
    }
    return r->b.f;
}

void rewrite_reach(const IrModule *m, const IrFunc *f, bool *wanted, const bool *given)
{
    for (IrId v = f->ops.n; v-- > 0;) {
        const IrOp *op = &f->ops.data[v];
        if (!wanted[v] || (given && given[v])) continue;
        for (uint32_t k = 0; k < op->n_args; k++) wanted[op->args[k]] = true;
        IrId route = ir_route_of(m, f, op);
        ICE_UNLESS(route == IR_NONE || route < v);
        if (route != IR_NONE) wanted[route] = true;
    }
}

const bool *rewrite_live(Arena *a, const IrModule *m, const IrFunc *f, const bool *given)
{
    bool *live = ARENA_ARRAY(a, bool, f->ops.n + 1);
    for (uint32_t i = 0; i < f->results.n; i++) live[f->results.data[i].value] = true;
    for (IrId v = 0; v < f->ops.n; v++) live[v] |= f->ops.data[v].op == IR_OP_arg;
    rewrite_reach(m, f, live, given);
    return live;
}

const uint32_t *rewrite_uses(Arena *a, const IrFunc *f)
{
    uint32_t *uses = ARENA_ARRAY(a, uint32_t, f->ops.n + 1);
    for (IrId v = 0; v < f->ops.n; v++)
        for (uint32_t k = 0; k < f->ops.data[v].n_args; k++) uses[f->ops.data[v].args[k]]++;
    for (uint32_t i = 0; i < f->results.n; i++) uses[f->results.data[i].value] += 2;
    return uses;
}

bool *rewrite_pinned(Arena *a, const IrFunc *f)
{
    bool *pinned = NULL;
    for (uint32_t v = 0; v < f->ops.n; v++) {
        if (f->ops.data[v].op != IR_OP_grad) continue;
        if (!pinned) pinned = ARENA_ARRAY(a, bool, f->ops.n);
        pinned[f->ops.data[v].args[1]] = true;
    }
    return pinned;
}

IrModule *rewrite_module(PassContext *ctx, const IrModule *m, RewriteFunc *one)
{
    IrModule *next = ir_module_clone(ctx->stage, m);
    for (uint32_t i = 0; i < next->funcs.n; i++) {
        ctx->function = m->funcs.data[i]->name;
        next->funcs.data[i] = one(ctx, next, m->funcs.data[i]);
        if (!next->funcs.data[i]) return NULL;
    }
    return next;
}

uint32_t module_n_ops(const IrModule *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->funcs.n; i++) n += m->funcs.data[i]->ops.n;
    return n;
}

IrId irb_rows_space(IrModule *m, IrId dim)
{
    ICE_UNLESS(dim < m->dims.n);
    for (IrId s = 1; s < m->spaces.n; s++)
        if (m->spaces.data[s].has_dim && m->dims.data[m->spaces.data[s].dim].size == m->dims.data[dim].size) return s;
    IrId s = ir_space_new(m, arena_printf(m->arena, "%s.rows", m->dims.data[dim].name), false);
    m->spaces.data[s].has_dim = true;
    m->spaces.data[s].dim = dim;
    return s;
}

IrId irb_said_map(IrModule *m, IrId tensor, IrId to)
{
    IrTensor *t = &m->tensors.data[tensor];
    ICE_UNLESS(t->kind == IR_INPUT && !t->type.n_dims);
    if (t->is_map) return m->maps.data[t->map].to == to ? t->map : IR_NONE;
    t->is_map = true;
    t->map = ir_map_new(m, arena_printf(m->arena, "%s.%s", m->spaces.data[to].name, t->name), t->type.space, to);
    m->maps.data[t->map].partial = true;
    return t->map;
}

bool irb_key_is_whole(const IrModule *m, const IrFunc *f, IrId key, int64_t size)
{
    const IrOp *op = &f->ops.data[key];
    const IrArg *arg = op->op == IR_OP_arg ? &f->args.data[op->attr.i] : NULL;
    if (!arg || arg->kind != IR_ARG_TENSOR) return false;
    const IrTensor *t = &m->tensors.data[arg->ref];
    return t->kind == IR_INPUT && t->bound && t->bound <= size && !t->allow_missing;
}

IrId irb_all_map(Build *b, IrId space)
{
    const char *name = arena_printf(b->m->arena, "%s.all", b->m->spaces.data[space].name);
    for (uint32_t i = 0; i < b->m->maps.n; i++) {
        const IrMap *map = &b->m->maps.data[i];
        if (map->from == space && map->to == IR_UNIT && !map->partial && !strcmp(map->name, name)) return i;
    }
    return ir_map_new(b->m, name, space, IR_UNIT);
}

/* ---- ops ---- */

IrId irb_add(Build *b, const IrOp *op)
{
    return ir_add(b->m, b->f, op->op, op->type, op->args, op->n_args, op->attr, op->span);
}

IrId irb_const(Build *b, IrType type, double value)
{
    return ir_add(b->m, b->f, IR_OP_const, type, NULL, 0, (IrAttr){.f = value}, b->span);
}

IrId irb_scalar(Build *b, IrDtype t, double value) { return irb_const(b, ir_scalar(t), value); }

IrId irb_unary(Build *b, IrOpcode op, IrType type, IrId x, IrAttr attr)
{
    return ir_add(b->m, b->f, op, type, &x, 1, attr, b->span);
}

IrId irb_map1(Build *b, IrOpcode op, IrId x) { return irb_unary(b, op, irb_type(b, x), x, (IrAttr){0}); }

static IrId map2(Build *b, IrOpcode op, IrDtype dtype, IrId x, IrId y)
{
    IrType tx = irb_type(b, x), ty = irb_type(b, y), type = ir_type_join(&tx, &ty);
    ICE_UNLESS(tx.dtype == ty.dtype);
    type.dtype = dtype;
    return ir_add(b->m, b->f, op, type, (IrId[]){x, y}, 2, (IrAttr){0}, b->span);
}

IrId irb_map2(Build *b, IrOpcode op, IrId x, IrId y) { return map2(b, op, irb_type(b, x).dtype, x, y); }

IrId irb_compare(Build *b, IrOpcode op, IrId x, IrId y) { return map2(b, op, IR_BOOL, x, y); }

IrId irb_select(Build *b, IrId c, IrId x, IrId y)
{
    IrType tc = irb_type(b, c), tx = irb_type(b, x), ty = irb_type(b, y);
    ICE_UNLESS(tc.dtype == IR_BOOL && tx.dtype == ty.dtype);
    IrType type = ir_type_join(&tc, &tx);
    type = ir_type_join(&type, &ty);
    type.dtype = tx.dtype;
    return ir_add(b->m, b->f, IR_OP_select, type, (IrId[]){c, x, y}, 3, (IrAttr){0}, b->span);
}

IrId irb_one_hot(Build *b, IrId index, IrId dim)
{
    ICE_UNLESS(irb_type(b, index).dtype == IR_I64 && dim < b->m->dims.n);
    IrType places = {.dtype = IR_I64, .n_dims = 1, .dims = {dim}};
    return irb_compare(b, IR_OP_eq, index,
                       ir_add(b->m, b->f, IR_OP_iota, places, NULL, 0, (IrAttr){.dim = dim}, b->span));
}

IrId irb_gather(Build *b, IrId map, IrId x)
{
    IrType type = irb_type(b, x);
    ICE_UNLESS(type.space == b->m->maps.data[map].to);
    type.space = b->m->maps.data[map].from;
    return irb_unary(b, IR_OP_gather, type, x, (IrAttr){.map = map});
}

IrId irb_reduce(Build *b, IrOpcode op, IrId map, IrId x, double empty)
{
    IrType type = irb_type(b, x);
    ICE_UNLESS(ir_ops[op].traits & T_REDUCE && type.space == b->m->maps.data[map].from);
    type.space = b->m->maps.data[map].to;
    return irb_unary(b, op, type, x, (IrAttr){.map = map, .f = empty});
}

/* ---- fitting ---- */

/* The dims of t that `wanted` has, in t's order or in wanted's. */
static IrType common_dims(const IrType *t, const IrType *wanted, bool wanted_order)
{
    const IrType *order = wanted_order ? wanted : t, *other = wanted_order ? t : wanted;
    IrType type = *t;
    type.n_dims = 0;
    for (uint32_t i = 0; i < order->n_dims; i++)
        if (ir_type_has_dim(other, order->dims[i])) type.dims[type.n_dims++] = order->dims[i];
    return type;
}

IrId irb_fit(Build *b, IrId x, IrType type)
{
    IrType t = irb_type(b, x), kept = common_dims(&t, &type, false);
    ICE_UNLESS(t.space == type.space || t.space == IR_UNIT || type.space == IR_UNIT);
    if (kept.n_dims < t.n_dims) x = irb_unary(b, IR_OP_sum_dims, kept, x, (IrAttr){0});
    if (t.space != type.space && type.space == IR_UNIT)
        x = irb_reduce(b, IR_OP_reduce_sum, irb_all_map(b, t.space), x, 0);
    t = irb_type(b, x);
    IrType ordered = common_dims(&t, &type, true);
    if (!ir_type_eq(&ordered, &t)) x = irb_unary(b, IR_OP_transpose, ordered, x, (IrAttr){0});
    type.dtype = t.dtype;
    return irb_broadcast(b, x, type);
}

IrOpcode irb_broadcast_op(IrDtype t) { return t == IR_BOOL ? IR_OP_and : IR_OP_mul; }

IrId irb_broadcast(Build *b, IrId x, IrType type)
{
    IrType t = irb_type(b, x);
    if (ir_type_eq(&t, &type)) return x;
    return irb_map2(b, irb_broadcast_op(t.dtype), irb_const(b, type, 1), x);
}

bool irb_is_const(const Build *b, IrId v, double *value)
{
    const IrOp *op = irb_op(b, v);
    if (op->op != IR_OP_const) return false;
    if (value) *value = op->attr.f;
    return true;
}
