/* Rows with very many elements, computed by several threads: a second kernel for the groups that sum over the rows of a
   map. Its walks over a row take turns. In its turn a walk computes the blocks of a part of the row and leaves what
   they sum up to in memory; later, and at the end, it joins the blocks of the whole row in order, as the first kernel
   would:

     for blocks of the row:                  for blocks of the part in my turn, of the row behind it, none before:
       part = sum over the block               if my turn: part = sum over the block; state[block] = part
       total += part                           else: part = state[block]
                                               total += part
     y[row] = f(total)                       if all had their turn: y[row] = f(total)

   The association is that of lower_reduce.c, so no bit depends on who computes what. Sums that rescale take two turns:
   the extremes of blocks, then the sums, for which the blocks before the part are joined first. The runtime decides
   which rows are computed so (runtime/split.h); a graph without such rows never calls this kernel. Never touches the
   first kernel. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

static KirId split_arg(Lower *l, PlanSplitArg which)
{
    return lower_count(l, (PlanCount){.kind = PLAN_SPLIT, .value = which});
}

/* ---- walks -------------------------------------------------------------------------------------------------- */

KirId split_walk(Lower *l, StageSpan *x, bool joins, bool upto)
{
    Emit *e = &l->e;
    ICE_UNLESS(l->split);
    KirId phase = split_arg(l, PLAN_SPLIT_PHASE), walk = emit_index(e, l->walks++);
    KirId turn = emit_op2(e, KIR_eq, phase, walk), none = x->lo;
    KirId behind = joins ? emit_select(e, emit_op2(e, KIR_lt, walk, phase), x->hi, none) : none;
    if (!upto) x->lo = emit_select(e, turn, split_arg(l, PLAN_SPLIT_FROM), x->lo);
    x->hi = emit_select(e, turn, split_arg(l, PLAN_SPLIT_TO), behind);
    return turn;
}

KirId split_reached(Lower *l, KirId turn, KirId position)
{
    return emit_op2(&l->e, KIR_and, turn, emit_op2(&l->e, KIR_le, split_arg(l, PLAN_SPLIT_FROM), position));
}

/* ---- states ------------------------------------------------------------------------------------------------- */

static uint32_t state_buffer(Lower *l, IrId v)
{
    const IrType *t = &fused_op(l->f, v)->type;
    uint32_t buffer = plan_buffer(l->lf, (PlanBuffer){.kind = PLAN_STATE,
                                                      .ref = v,
                                                      .elem = kir_elem_of(t->dtype),
                                                      .rows = {.kind = PLAN_SPLIT},
                                                      .width = ir_type_width(l->f->m, t),
                                                      .name = arena_printf(l->arena, "%%%u", v)});
    lower_out(l, buffer);
    return buffer;
}

static KirId block_at(Lower *l, KirId position)
{
    Emit *e = &l->e;
    KirId in_row = emit_op2(e, KIR_div, emit_op2(e, KIR_sub, position, l->split_lo), emit_index(e, ORDER_ROW_BLOCK));
    return emit_op2(e, KIR_add, split_arg(l, PLAN_SPLIT_FIRST), in_row);
}

void split_keep(Lower *l, Accs s, KirId position)
{
    for (unsigned i = 0; i < s.n; i++) {
        const Acc *a = &s.data[i];
        point_store(l, state_buffer(l, a->v), &fused_op(l->f, a->v)->type, block_at(l, position), &a->p.env, a->part);
    }
}

void split_take(Lower *l, Accs s, KirId position)
{
    for (unsigned i = 0; i < s.n; i++) {
        const Acc *a = &s.data[i];
        KirId part = point_load(l, state_buffer(l, a->v), &fused_op(l->f, a->v)->type, block_at(l, position),
                                &a->p.env);
        emit_set(&l->e, a->part, part);
    }
}

void split_stores_open(Lower *l)
{
    if (l->split)
        emit_if(&l->e, emit_op2(&l->e, KIR_eq, split_arg(l, PLAN_SPLIT_PHASE), emit_index(&l->e, PLAN_SPLIT_LAST)));
}

void split_stores_close(Lower *l)
{
    if (l->split) emit_end(&l->e);
}

/* ---- the kernel --------------------------------------------------------------------------------------------- */

void lower_split(LowerFunc *lf, uint32_t g, void (*make)(LowerFunc *lf, uint32_t g, void *user))
{
    const Group *group = &lf->f->groups.data[g];
    const PlanStep *step = &lf->prog->steps.data[lf->prog->steps.n - 1];
    if (!lf->f->tiles->group[0][g].split || step->cut == IR_NONE) return;
    /* an iteration is a row of the map */
    ICE_UNLESS(step->extent.kind == PLAN_COUNT && step->extent.space == group->space);
    lf->for_split = true;
    make(lf, g, NULL);
    lf->for_split = false;
}

/* But for states: memory lives as long as the step needs it. */
static bool reads_more(const Lower *l, const PlanStep *step)
{
    for (uint32_t i = 0; i < l->step->args.n; i++) {
        const PlanArg *a = &l->step->args.data[i];
        bool known = !a->is_buffer || l->lf->prog->buffers.data[a->buffer].kind == PLAN_STATE;
        for (uint32_t k = 0; k < step->args.n && !known; k++)
            known = step->args.data[k].is_buffer && step->args.data[k].buffer == a->buffer;
        if (!known) return true;
    }
    return false;
}

/* What sums and inner values are made of. */
static void mark_reads(Lower *l, bool *seen, IrId v, PlanSplit *out)
{
    if (seen[v]) return;
    seen[v] = true;
    const IrOp *op = fused_op(l->f, v);
    uint32_t group = l->f->group_of.data[v];
    if (op->op == IR_OP_arg || (group != GROUP_NONE && group != l->g && !group_has_copy(l->f, l->g, v))) {
        VEC_PUSH(l->arena, &out->reads, plan_value_buffer(l->lf, v));
        return;
    }
    for (uint32_t k = 0; k < op->n_args; k++) mark_reads(l, seen, op->args[k], out);
}

static void find_reads(Lower *l, PlanSplit *out)
{
    const Group *g = &l->f->groups.data[l->g];
    bool *seen = ARENA_ARRAY(l->arena, bool, l->f->f->ops.n + 1);
    for (uint32_t i = 0; i < g->inner.n; i++) mark_reads(l, seen, g->inner.data[i], out);
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (group_kind_of(l->f->f, l->f->m, g->roots.data[i]) == GROUP_ROWS)
            mark_reads(l, seen, fused_op(l->f, g->roots.data[i])->args[0], out);
}

void split_finish(Lower *l)
{
    HostPlan *plan = l->lf->plan;
    PlanStep *step = &l->lf->prog->steps.data[l->lf->prog->steps.n - 1];
    const char *why = l->walks > PLAN_SPLIT_WALKS || l->step->args.n > PLAN_SPLIT_ARGS ? "too many walks or arguments"
                      : reads_more(l, step) ? "parts of a row would read what a row does not"
                                            : NULL;
    pass_remark(l->lf->ctx, PASS_schedule, !why, step->span, "%s: threads %s rows with very many elements of `%s`%s%s",
                l->lf->prog->name, why ? "do not share" : "may share", step->label, why ? ": " : "", why ? why : "");
    if (why) return;
    PlanSplit *split = ARENA_NEW(l->arena, PlanSplit);
    split->walks = l->walks;
    split->kernel = plan->splits.n;
    const KirKernel *whole = plan->kernels.data[step->kernel].variants[PLAN_WIDE];
    l->kernel->name = arena_printf(l->arena, "%s_parts", whole->name);
    l->kernel->comment = arena_printf(l->arena, "%s; parts of very long rows", whole->comment);
    VEC_PUSH(l->arena, &plan->splits, l->kernel);
    find_reads(l, split);
    for (uint32_t i = 0; i < l->step->args.n; i++) VEC_PUSH(l->arena, &split->args, l->step->args.data[i]);
    ICE_UNLESS(step->kind == PLAN_STEP_KERNEL && split->walks);
    step->split = split;
}
