/* What a kernel and its step are made of: plan buffers, parameters made on first use, and the kernel's entry in the
   plan. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

PlanCount plan_const(int64_t v) { return (PlanCount){.kind = PLAN_CONST, .value = v}; }

PlanCount plan_count(const IrModule *m, IrId space)
{
    (void)m;
    return space == IR_UNIT ? plan_const(1) : (PlanCount){.kind = PLAN_COUNT, .space = space};
}

KirBase kir_base_of(IrDtype t)
{
    static const KirBase base[] = {[IR_F32] = KIR_F32, [IR_F64] = KIR_F64, [IR_I32] = KIR_I32, [IR_I64] = KIR_I64,
                                   [IR_BOOL] = KIR_I1, [IR_F16] = KIR_F32, [IR_BF16] = KIR_F32};
    ICE_UNLESS(t < sizeof base / sizeof *base);
    return base[t];
}

KirBase kir_elem_of(IrDtype t)
{
    return t == IR_BOOL ? KIR_I8 : t == IR_F16 ? KIR_F16 : t == IR_BF16 ? KIR_BF16 : kir_base_of(t);
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

uint32_t plan_buffer(LowerFunc *lf, PlanBuffer b)
{
    for (uint32_t i = 0; i < lf->prog->buffers.n && b.kind != PLAN_ARENA; i++) {
        const PlanBuffer *have = &lf->prog->buffers.data[i];
        if (have->kind == b.kind && have->ref == b.ref && have->along == b.along) return i;
    }
    b.slot = UINT32_MAX;
    b.first = b.writer = UINT32_MAX;
    VEC_PUSH(lf->ctx->stage, &lf->prog->buffers, b);
    return lf->prog->buffers.n - 1;
}

static PlanBuffer buffer_for(const LowerFunc *lf, PlanBufferKind kind, IrId ref, const IrType *t, const char *name)
{
    return (PlanBuffer){.kind = kind,
                        .ref = ref,
                        .elem = kir_elem_of(t->dtype),
                        .name = name,
                        .rows = plan_count(lf->f->m, t->space),
                        .width = ir_type_width(lf->f->m, t)};
}

static uint32_t argument_buffer(LowerFunc *lf, const IrOp *op)
{
    static const PlanBufferKind kind[] = {[IR_ARG_TENSOR] = PLAN_TENSOR,
                                          [IR_ARG_SEED] = PLAN_SEED,
                                          [IR_ARG_STEP] = PLAN_STEP,
                                          [IR_ARG_COTANGENT] = PLAN_COTANGENT};
    const IrArg *arg = &lf->f->f->args.data[op->attr.i];
    bool has_ref = arg->kind == IR_ARG_TENSOR || arg->kind == IR_ARG_COTANGENT;
    return plan_buffer(lf, buffer_for(lf, kind[arg->kind], has_ref ? arg->ref : IR_NONE, &op->type, arg->name));
}

static uint32_t result_buffer(LowerFunc *lf, uint32_t index, const IrType *t)
{
    const IrResult *r = &lf->f->f->results.data[index];
    if (r->tensor == IR_NONE) return plan_buffer(lf, buffer_for(lf, PLAN_RESULT, index, t, r->name));
    ICE_UNLESS(lf->f->in_place.data[index]);
    return plan_buffer(lf, buffer_for(lf, PLAN_TENSOR, r->tensor, t, lf->f->m->tensors.data[r->tensor].name));
}

uint32_t plan_value_buffer(LowerFunc *lf, IrId v)
{
    const IrOp *op = fused_op(lf->f, v);
    if (op->op == IR_OP_arg) return argument_buffer(lf, op);
    ICE_UNLESS(lf->f->group_of.data[v] != GROUP_NONE && lf->f->stored.data[v]);
    if (lf->buffer_of[v] != UINT32_MAX) return lf->buffer_of[v];
    if (lf->f->home.data[v] != v) return lf->buffer_of[v] = plan_value_buffer(lf, lf->f->home.data[v]);
    uint32_t buffer = UINT32_MAX;
    for (uint32_t i = 0; i < lf->f->f->results.n && buffer == UINT32_MAX; i++)
        if (lf->f->f->results.data[i].value == v) buffer = result_buffer(lf, i, &op->type);
    if (buffer == UINT32_MAX) {
        const char *name = arena_printf(lf->ctx->stage, "%%%u", v);
        buffer = plan_buffer(lf, buffer_for(lf, PLAN_ARENA, IR_NONE, &op->type, name));
    }
    return lf->buffer_of[v] = buffer;
}

uint32_t lower_computed_map(LowerFunc *lf, PlanBufferKind kind, IrId map)
{
    for (uint32_t i = 0; i < lf->routes.n; i++)
        if (lf->routes.data[i].map == map && lf->routes.data[i].kind == kind) return lf->routes.data[i].buffer;
    const IrModule *m = lf->f->m;
    const IrMap *x = &m->maps.data[map];
    ICE_UNLESS(x->computed);           /* the runtime has the arrays of all others */
    bool rows = kind == PLAN_MAP_ROWS; /* one more than there are: two to each */
    PlanBuffer b = {.kind = PLAN_ARENA,
                    .ref = IR_NONE,
                    .elem = rows ? KIR_I64 : KIR_I32,
                    .width = rows ? 2 : 1,
                    .rows = plan_count(m, rows ? x->to : x->from),
                    .name = x->name};
    RouteBuffer r = {map, kind, plan_buffer(lf, b)};
    VEC_PUSH(lf->ctx->stage, &lf->routes, r);
    return r.buffer;
}

uint32_t lower_map_buffer(Lower *l, PlanBufferKind kind, IrId ref)
{
    const IrModule *m = l->f->m;
    const IrMap *map = kind == PLAN_IDS ? NULL : &m->maps.data[ref];
    if (map && map->computed) return lower_computed_map(l->lf, kind, ref);
    IrId space = kind == PLAN_IDS ? ref : kind == PLAN_MAP_ROWS ? map->to : map->from;
    bool wide = kind == PLAN_IDS || kind == PLAN_MAP_ROWS;
    return plan_buffer(l->lf, (PlanBuffer){.kind = kind,
                                           .ref = ref,
                                           .elem = wide ? KIR_I64 : KIR_I32,
                                           .width = 1,
                                           .rows = plan_count(m, space),
                                           .name = kind == PLAN_IDS ? m->spaces.data[ref].name : map->name});
}

uint32_t lower_along_buffer(Lower *l, IrId map, IrId along)
{
    const IrMap *m = &l->f->m->maps.data[map];
    ICE_UNLESS(!m->computed && !lower_is_computed(l, along) && m->from == l->f->m->maps.data[along].from);
    return plan_buffer(l->lf, (PlanBuffer){.kind = PLAN_MAP_ALONG,
                                           .ref = map,
                                           .along = along,
                                           .elem = KIR_I32,
                                           .width = 1,
                                           .rows = plan_count(l->f->m, m->from),
                                           .name = m->name});
}

/* ---- parameters ------------------------------------------------------------------------------------------ */

static const char *param_name(Lower *l, const PlanBuffer *b, bool out)
{
    static const char *const prefix[] = {
        [PLAN_SEED] = "seed",     [PLAN_STEP] = "step", [PLAN_MAP_TO] = "to",    [PLAN_MAP_ROWS] = "rows",
        [PLAN_MAP_LIST] = "list", [PLAN_IDS] = "ids",   [PLAN_MAP_ALONG] = "to", [PLAN_STATE] = "state"};
    const char *p = b->kind >= PLAN_SEED ? prefix[b->kind] : out ? "y" : "x";
    return arena_printf(l->arena, "%s%u", p, l->kernel->params.n);
}

static uint32_t param_for(Lower *l, uint32_t buffer, bool out)
{
    ICE_UNLESS(l->step->args.n == l->kernel->params.n); /* side by side */
    for (uint32_t p = 0; p < l->step->args.n; p++) {
        if (!l->step->args.data[p].is_buffer || l->step->args.data[p].buffer != buffer) continue;
        KirParam *have = &l->kernel->params.data[p];
        if (!out && have->kind == KIR_OUT) have->kind = KIR_INOUT;
        ICE_UNLESS(!out || have->kind != KIR_IN); /* lower_begin names what is written first */
        return p;
    }
    const PlanBuffer *b = &l->lf->prog->buffers.data[buffer];
    PlanArg arg = {.is_buffer = true, .buffer = buffer};
    VEC_PUSH(l->arena, &l->step->args, arg);
    return emit_param(
        &l->e,
        (KirParam){.name = param_name(l, b, out), .kind = out ? KIR_OUT : KIR_IN, .elem = b->elem, .restrict_ = true});
}

uint32_t lower_in(Lower *l, uint32_t buffer) { return param_for(l, buffer, false); }
uint32_t lower_out(Lower *l, uint32_t buffer) { return param_for(l, buffer, true); }

KirId lower_count(Lower *l, PlanCount c)
{
    if (c.kind == PLAN_CONST) return emit_index(&l->e, c.value);
    uint32_t p = 0;
    for (; p < l->step->args.n; p++)
        if (!l->step->args.data[p].is_buffer && plan_same_count(&l->step->args.data[p].count, &c)) break;
    if (p == l->step->args.n) {
        PlanArg arg = {.count = c};
        VEC_PUSH(l->arena, &l->step->args, arg);
        emit_param(&l->e, (KirParam){.name = arena_printf(l->arena, "n%u", p), .kind = KIR_SCALAR, .elem = KIR_I64});
    }
    return emit_ins(&l->e, (KirIns){.op = KIR_param, .type = kir_type(KIR_I64, 1), .i = p});
}

/* ---- kernels --------------------------------------------------------------------------------------------- */

void lower_begin(Lower *l, LowerFunc *lf, uint32_t g)
{
    Arena *a = lf->ctx->stage;
    ICE_UNLESS(lf->f->tiles && !lf->f->groups.data[g].dead);
    *l = (Lower){.lf = lf,
                 .f = lf->f,
                 .arena = a,
                 .g = g,
                 .root = IR_NONE,
                 .filling = IR_NONE,
                 .s = lf->f->tiles->group[lf->for_narrow][g]};
    l->split = lf->for_split;
    l->kernel = kir_kernel_new(a, "k");
    l->e = emit_begin(a, l->kernel);
    l->step = ARENA_NEW(a, PlanStep);
    l->step->cut = IR_NONE;
    l->step->grain = 1;
    l->step->group = g;
    l->step->cone = (PlanCone){PLAN_SET_ALL, PLAN_SET_ALL, PLAN_SET_ALL};
    const Group *group = &lf->f->groups.data[g];
    if (group->kind == GROUP_BLOCKS) return; /* its kernels write other buffers */
    for (uint32_t i = 0; i < group->roots.n; i++)
        if (lf->f->stored.data[group->roots.data[i]]) lower_out(l, plan_value_buffer(lf, group->roots.data[i]));
    for (uint32_t i = 0; i < group->inner.n; i++)
        if (lf->f->stored.data[group->inner.data[i]] && !group_has_copy(lf->f, g, group->inner.data[i]))
            lower_out(l, plan_value_buffer(lf, group->inner.data[i]));
}

KirId row_element(Lower *l, IrId map, KirId position)
{
    if (map == IR_NONE || l->f->m->maps.data[map].sorted) return position;
    uint32_t list = lower_in(l, lower_map_buffer(l, PLAN_MAP_LIST, map));
    KirType t = kir_type(KIR_I32, emit_type(&l->e, position).lanes);
    KirId element = t.lanes == 1 ? emit_load(&l->e, list, t, position, 1, 1)
                                 : emit_ins(&l->e, (KirIns){.op = KIR_gather,
                                                            .type = t,
                                                            .args = {position, KIR_NONE, KIR_NONE},
                                                            .buf = list,
                                                            .alloc = KIR_NONE,
                                                            .active = t.lanes});
    return emit_convert(&l->e, KIR_I64, element);
}
