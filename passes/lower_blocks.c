/* Sums of all rows of a space to unit: the rows in min(ceil(n/512), 32) blocks, each left to right, into a partial
   buffer [blocks][width]; then the partials merged as a tree: repeatedly, partial i of the first half (rounded up) takes
   in partial i + half. Two kernels, both on threads: over blocks, then over columns. */
#include "passes/lower_kernel.h"

typedef struct Blocks {
    IrId v;
    uint32_t partials; /* plan buffer */
    IrType stored;     /* of one partial: the result's dims */
    KirId block, first, last; /* rows of the block */
} Blocks;

static PlanCount blocks_count(const Lower *l, IrId space, PlanCountKind kind)
{
    return (PlanCount){.kind = kind, .space = space, .block = l->s.block_rows, .max = l->s.max_blocks};
}

/* One element of the sum joins acc[i]. */
static void take_row(Lower *l, const IrOp *op, KirId row, const Env *env, KirId acc)
{
    KirId x = point_full(l, op->args[0], row, env), next;
    if (op->op == IR_OP_contract) next = emit_fma(&l->e, x, point_full(l, op->args[1], row, env), acc);
    else next = emit_op2(&l->e, sum_op(op->op), acc, x);
    emit_set(&l->e, acc, next);
}

/* Where a block's partial lies: as if each block were a row of some space. */
static IrType partial_type(const Lower *l, const Blocks *b)
{
    IrType t = b->stored;
    t.space = l->f->groups.data[l->g].space;
    return t;
}

static KirId identity_at(Lower *l, const IrOp *op, const Env *env)
{
    return sum_identity(l, sum_op(op->op), kir_type(kir_base_of(op->type.dtype), env_lanes(env, &op->type)));
}

static void sum_rows(Lower *l, const Blocks *b, const Point *p, unsigned n, const KirId *acc)
{
    const IrOp *op = fused_op(l->f, b->v);
    KirId row = emit_for(&l->e, b->first, b->last, 1, KIR_SEQ, "rows");
    walk_open(l, l->f->groups.data[l->g].space, IR_NONE, row, row);
    IrId dims[2 * IR_MAX_DIMS];
    DimLoop loops = dim_loops_open(l, dims, op->op == IR_OP_contract ? reduced_dims(l->f->f, op, dims) : 0);
    for (unsigned i = 0; i < n; i++) {
        Env env = p[i].env;
        dim_loops_env(&loops, &env);
        take_row(l, op, row, &env, acc[i]);
    }
    dim_loops_close(l, &loops);
    walk_close(l);
    emit_end(&l->e);
}

/* A tile of the result over all rows of the block. */
static void block_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    Emit *e = &l->e;
    const Blocks *b = user;
    IrType t = partial_type(l, b);
    KirId *acc = ARENA_ARRAY(l->arena, KirId, n);
    for (unsigned i = 0; i < n; i++) acc[i] = emit_var(e, "acc", identity_at(l, fused_op(l->f, b->v), &p[i].env));
    sum_rows(l, b, p, n, acc);
    for (unsigned i = 0; i < n; i++) {
        emit_freeze(e, acc[i]);
        point_store(l, b->partials, &t, b->block, &p[i].env, acc[i]);
    }
}

static void note_gemm(Lower *l, const Blocks *b, const Group *g)
{
    const IrOp *op = fused_op(l->f, b->v);
    if (!g->gemm) return;
    l->step->gemm = (PlanGemm){
        .present = true, .transposed_a = true,
        .a = plan_value_buffer(l->lf, fused_storage(l->f, op->args[0])),
        .b = plan_value_buffer(l->lf, fused_storage(l->f, op->args[1])), .c = b->partials,
        .rows = plan_count(l->f->m, g->space), .blocks = blocks_count(l, g->space, PLAN_BLOCKS),
        .block_rows = blocks_count(l, g->space, PLAN_BLOCK_ROWS),
        .m = ir_type_width(l->f->m, &fused_op(l->f, op->args[0])->type),
        .n = ir_type_width(l->f->m, &fused_op(l->f, op->args[1])->type), .elem = kir_elem_of(op->type.dtype)};
}

static void sum_blocks(LowerFunc *lf, uint32_t g, Blocks *b)
{
    Lower l;
    const Group *group = &lf->f->groups.data[g];
    lower_begin(&l, lf, g);
    Emit *e = &l.e;
    lower_out(&l, b->partials);
    KirId rows = lower_count(&l, plan_count(lf->f->m, group->space));
    KirId per_block = lower_count(&l, blocks_count(&l, group->space, PLAN_BLOCK_ROWS));
    l.step->extent = blocks_count(&l, group->space, PLAN_BLOCKS);
    b->block = emit_for(e, emit_index(e, 0), lower_count(&l, l.step->extent), 1, KIR_THREADS, "blocks");
    b->first = emit_op2(e, KIR_mul, b->block, per_block);
    b->last = emit_op2(e, KIR_min, emit_op2(e, KIR_add, b->first, per_block), rows);
    Partial part = {b->partials, partial_type(&l, b), b->block};
    if (l.s.row_strip) lower_outer(&l, b->v, &part, b->first, b->last);
    else nest_dims(&l, &group->nest, &(Point){KIR_NONE, env_empty()}, 1, block_tile, b);
    emit_end(e);
    l.step->grain = l.s.grain;
    note_gemm(&l, b, group);
    lower_finish(&l, "blocks");
}

/* ---- the tree ------------------------------------------------------------------------------------------------ */

typedef struct Tree {
    const IrOp *op;
    uint32_t partials, out;
    int64_t width;
    KirId n_blocks, n_rows;
    unsigned lanes;
} Tree;

/* Columns at.. (active of them): all partials into a private array, the tree, the result. */
static void tree_columns(Lower *l, const Tree *t, KirId at, unsigned active)
{
    Emit *e = &l->e;
    KirOpcode op = sum_op(t->op->op);
    KirType type = kir_type(kir_base_of(t->op->type.dtype), t->lanes);
    KirId array = emit_ins(e, (KirIns){.op = KIR_alloc, .type = kir_type(type.base, 1),
                                       .i = l->s.max_blocks * t->lanes});
    KirId zero = emit_index(e, 0), lanes = emit_index(e, t->lanes);
    KirIns load = {.op = KIR_load, .type = type, .args = {KIR_NONE, KIR_NONE, KIR_NONE}, .buf = KIR_NONE,
                   .alloc = array, .stride = 1};
    KirIns store = load;
    store.op = KIR_store;
    KirId p = emit_for(e, zero, t->n_blocks, 1, KIR_SEQ, "partials");
    KirId from = emit_op2(e, KIR_add, emit_op2(e, KIR_mul, p, emit_index(e, t->width)), at);
    store.args[0] = emit_op2(e, KIR_mul, p, lanes);
    store.args[1] = emit_load(e, lower_in(l, t->partials), type, from, active, 1);
    emit_ins(e, store);
    emit_end(e);
    KirId n = emit_var(e, "n", t->n_blocks);
    emit_loop(e);
    emit_break_if(e, emit_op2(e, KIR_le, n, emit_index(e, 1)));
    KirId half = emit_op2(e, KIR_div, emit_op2(e, KIR_add, n, emit_index(e, 1)), emit_index(e, 2));
    KirId i = emit_for(e, zero, emit_op2(e, KIR_sub, n, half), 1, KIR_SEQ, NULL);
    load.args[0] = store.args[0] = emit_op2(e, KIR_mul, i, lanes);
    KirId left = emit_ins(e, load);
    load.args[0] = emit_op2(e, KIR_mul, emit_op2(e, KIR_add, i, half), lanes);
    store.args[1] = emit_op2(e, op, left, emit_ins(e, load));
    emit_ins(e, store);
    emit_end(e);
    emit_set(e, n, half);
    emit_end(e);
    load.args[0] = zero;
    KirId sum = emit_ins(e, load);
    if (t->op->op == IR_OP_reduce_max || t->op->op == IR_OP_reduce_min) {
        KirId empty = ir_dtype_is_float(t->op->type.dtype) ? emit_float(e, type, t->op->attr.f)
                                                           : emit_int(e, type, (int64_t)t->op->attr.f);
        sum = emit_select(e, emit_op2(e, KIR_eq, t->n_rows, zero), empty, sum);
    }
    emit_store(e, lower_out(l, t->out), at, sum, active, 1);
}

static void merge_blocks(LowerFunc *lf, uint32_t g, const Blocks *b)
{
    Lower l;
    const Group *group = &lf->f->groups.data[g];
    lower_begin(&l, lf, g);
    Emit *e = &l.e;
    Tree t = {.op = fused_op(lf->f, b->v), .partials = b->partials, .out = plan_value_buffer(lf, b->v),
              .width = ir_type_width(lf->f->m, &group->nest), .lanes = 1};
    while (lf->vectors && t.lanes < 16 && t.lanes < t.width) t.lanes *= 2;
    lower_in(&l, t.partials);
    lower_out(&l, t.out);
    t.n_blocks = lower_count(&l, blocks_count(&l, group->space, PLAN_BLOCKS));
    if (t.op->op == IR_OP_reduce_max || t.op->op == IR_OP_reduce_min)
        t.n_rows = lower_count(&l, plan_count(lf->f->m, group->space));
    int64_t full = t.width / t.lanes, tail = t.width % t.lanes;
    l.step->extent = plan_const(full + (tail != 0));
    KirId i = emit_for(e, emit_index(e, 0), lower_count(&l, l.step->extent), 1, KIR_THREADS, "columns");
    KirId at = emit_op2(e, KIR_mul, i, emit_index(e, t.lanes));
    if (tail && full) emit_if(e, emit_op2(e, KIR_lt, i, emit_index(e, full)));
    if (full) tree_columns(&l, &t, at, t.lanes);
    if (tail && full) emit_else(e);
    if (tail) tree_columns(&l, &t, at, (unsigned)tail);
    if (tail && full) emit_end(e);
    emit_end(e);
    l.step->grain = 64;
    int64_t bytes = (int64_t)kir_base_bytes(kir_elem_of(t.op->type.dtype)) * t.width;
    PlanCost per_block = {.count = blocks_count(&l, group->space, PLAN_BLOCKS), .bytes = bytes, .flops = t.width,
                          .map = IR_NONE, .table = IR_NONE};
    PlanCost result = {.count = plan_const(1), .bytes = bytes, .map = IR_NONE, .table = IR_NONE};
    VEC_PUSH(l.arena, &l.step->cost, per_block);
    VEC_PUSH(l.arena, &l.step->cost, result);
    lower_finish(&l, "tree");
}

void lower_blocks(LowerFunc *lf, uint32_t g)
{
    const Group *group = &lf->f->groups.data[g];
    IrId v = group->roots.data[0];
    const IrOp *op = fused_op(lf->f, v);
    Schedule s = schedule_group(lf->f, g, lf->vectors);
    PlanBuffer partials = {
        .kind = PLAN_ARENA, .ref = IR_NONE, .elem = kir_elem_of(op->type.dtype),
        .rows = {.kind = PLAN_BLOCKS, .space = group->space, .block = s.block_rows, .max = s.max_blocks},
        .width = ir_type_width(lf->f->m, &op->type), .name = arena_printf(lf->ctx->stage, "%%%u.blocks", v)};
    Blocks b = {.v = v, .partials = plan_buffer(lf, partials), .stored = op->type};
    sum_blocks(lf, g, &b);
    merge_blocks(lf, g, &b);
}
