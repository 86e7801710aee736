/* A group to its kernels and its step, by its kind. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

static void plain_rows(Lower *l, IrId space)
{
    l->step->extent = plan_count(l->f->m, space);
    KirId row = emit_for(&l->e, emit_index(&l->e, 0), lower_count(l, l->step->extent), 1, KIR_THREADS,
                         l->f->m->spaces.data[space].name);
    lower_row(l, row);
    emit_end(&l->e);
}

/* A product that a BLAS could do instead. */
static void note_gemm(Lower *l)
{
    const Group *g = &l->f->groups.data[l->g];
    if (!g->gemm) return;
    const IrOp *op = fused_op(l->f, g->roots.data[0]);
    ICE_UNLESS(op->op == IR_OP_contract);
    const IrType *a = &fused_op(l->f, op->args[0])->type;
    l->step->kind = PLAN_STEP_PRODUCT;
    l->step->gemm = (PlanGemm){.a = plan_value_buffer(l->lf, fused_storage(l->f, op->args[0])),
                               .b = plan_value_buffer(l->lf, fused_storage(l->f, op->args[1])),
                               .c = plan_value_buffer(l->lf, g->roots.data[0]),
                               .rows = plan_count(l->f->m, g->nest.space),
                               .blocks = plan_const(1),
                               .block_rows = plan_count(l->f->m, g->nest.space),
                               .m = 0,
                               .n = ir_type_width(l->f->m, &op->type),
                               .k = ir_type_width(l->f->m, a),
                               .elem = kir_elem_of(op->type.dtype)};
}

static void lower_one(LowerFunc *lf, uint32_t g, void *user)
{
    (void)user;
    const Group *group = &lf->f->groups.data[g];
    Lower l;
    lower_begin(&l, lf, g);
    if (group->nest.space == IR_UNIT) lower_unit_row(&l);
    else if (l.s.rows > 1) lower_product_rows(&l, group->nest.space);
    else if (group->kind == GROUP_MAP && l.s.along_rows > 1) lower_rows(&l, group->nest.space);
    else plain_rows(&l, group->nest.space);
    l.step->grain = l.s.grain;
    bool by_rows = group->kind == GROUP_ROWS || group->kind == GROUP_NTH;
    if (by_rows && !lower_is_computed(&l, group->map)) l.step->cut = group->map;
    note_gemm(&l);
    lower_finish(&l, group_kind_names[group->kind]);
}

void lower_group(LowerFunc *lf, uint32_t g)
{
    GroupKind kind = lf->f->groups.data[g].kind;
    if (kind == GROUP_BLOCKS) lower_blocks(lf, g);
    else if (kind == GROUP_RANK) lower_rank(lf, g);
    else if (kind == GROUP_NEAREST) lower_nearest(lf, g);
    else if (kind == GROUP_ROUTE) lower_route(lf, g);
    else {
        lower_kernels(lf, g, lower_one, NULL);
        if (kind == GROUP_ROWS) lower_split(lf, g, lower_one);
    }
}
