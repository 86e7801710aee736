/* Sums of all rows of a space to unit: leaves of 512 rows, each left to right, merged as a binary tree of neighbours
   (docs/design.md, "One association per sum"). A block is an aligned power of two of leaves, so a subtree: the runtime
   says how large (runtime/blocks.h), and one iteration computes it. Sums of leaves and of subtrees lie in a buffer
   [slots][width].

     for leaves i of the block:               a binary counter: subtrees of 2^level leaves wait for their neighbours
       part = the slot of the block where i is its last leaf, else where subtrees of as many levels wait as i ends in
       ones
       for strips of the leaf's rows          if values are staged (lower_stage.c), sums share rows, or it is a product
         the values at these rows, into private arrays
         for the sums: part += these rows     a sum put away there and taken up again keeps its bits
       for ones that i ends in, of the last leaf for all its ones, lowest first: part = what waits at that level + part

   The warps of a block may share its leaves: each takes in and merges tiles of the sums' columns, the same ones in each
   leaf, so that none waits for another (nest_dealt). Where a strip is a leaf, a tile waits in registers until it is
   merged. What sums take in is computed by strips of rows: all warps compute one together into an array that they
   share, and each takes its tile's part in from there.

   Then the blocks' sums by the same rule (lower_tree.c). Never cuts a sum in another place than the leaves. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

typedef struct Sum { /* one of the group's */
    IrId v;
    Schedule s;
    Partial part;
} Sum;
typedef struct Blocks {
    Sum *sums;
    unsigned n;
    KirId first, last; /* rows of the leaf */
} Blocks;
typedef struct Block {
    KirId index, first, last; /* rows [first, last) */
    KirId leaf_rows, levels;
    KirId waiting; /* its slot of level 0 */
} Block;
typedef struct Tile { /* of a sum */
    const Sum *sum;
    const Block *block;
    const TreeLeaf *leaf;
    const Point *points;
} Tile;
typedef struct Taking { /* a sum takes rows in */
    const Sum *sum;
    const StageSpan *rows;
    bool whole;         /* all rows of the leaf: the partial is written once */
    const Tile *merged; /* NULL, or what its columns are merged with before */
    bool shared;        /* a strip whose operands warps share */
    KirId later, last;  /* of these, i1: not the leaf's first strip; its last one */
} Taking;

static KirId load_waiting(Lower *l, KirId level, unsigned i, const void *user)
{
    const Tile *x = user;
    const Partial *part = &x->sum->part;
    KirId slot = emit_op2(&l->e, KIR_add, x->block->waiting, level);
    return point_load(l, part->buffer, &part->type, slot, &x->points[i].env);
}

/* The sums of a leaf at these points. Warps count levels by a loop: places that follow from its variable are seen to
   lie side by side (codegen/cuda_wide.c). */
static void merge_points(Lower *l, const Tile *tile, const Point *p, unsigned n, KirId *acc)
{
    Emit *e = &l->e;
    Tile x = *tile;
    x.points = p;
    KirOpcode op = sum_op(fused_op(l->f, x.sum->v)->op);
    if (!l->deal.n_warps) {
        tree_merge(l, &(TreeMerging){x.leaf, op, acc, n, load_waiting, &x});
        return;
    }
    KirId one = emit_index(e, 1), level = emit_for(e, emit_index(e, 0), x.block->levels, 1, KIR_SEQ, "levels");
    emit_if(e, emit_op2(e, KIR_eq, emit_op2(e, KIR_and, emit_op2(e, KIR_lshr, x.leaf->merged, level), one), one));
    for (unsigned i = 0; i < n; i++) emit_set(e, acc[i], emit_op2(e, op, load_waiting(l, level, i, &x), acc[i]));
    emit_end(e);
    emit_end(e);
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

/* One element of the sum joins acc[i]. */
static void take_row(Lower *l, const IrOp *op, KirId row, const Env *env, KirId acc)
{
    KirId x = point_full(l, op->args[0], row, env), next;
    if (op->op == IR_OP_contract) next = emit_fma(&l->e, x, point_full(l, op->args[1], row, env), acc);
    else next = emit_op2(&l->e, sum_op(op->op), acc, x);
    emit_set(&l->e, acc, next);
}

static KirId identity_at(Lower *l, const IrOp *op, const Env *env)
{
    return sum_identity(l, sum_op(op->op), kir_type(kir_base_of(op->type.dtype), env_lanes(env, &op->type)));
}

/* Rows as long as sixteen are left: their values as a vector, which the sum takes in lane by lane. Where the others
   begin. */
static KirId sum_sixteens(Lower *l, const Taking *x, KirId acc)
{
    Emit *e = &l->e;
    const IrOp *op = fused_op(l->f, x->sum->v);
    KirId lanes = emit_index(e, rows_at_once(l)), n = emit_op2(e, KIR_sub, x->rows->to, x->rows->from);
    KirId rest = emit_op2(e, KIR_sub, x->rows->to, emit_op2(e, KIR_rem, n, lanes));
    KirId row = emit_for(e, x->rows->from, rest, rows_at_once(l), KIR_SEQ, rows_label(l, "rows"));
    KirId values = rows_value(l, op->args[0], row);
    for (unsigned i = 0; i < rows_at_once(l); i++)
        emit_set(e, acc, emit_op2(e, sum_op(op->op), acc, emit_part(e, values, i, 1)));
    emit_end(e);
    return rest;
}

static bool takes_sixteens(const Lower *l, const IrOp *op)
{
    bool staged = l->staged.n && !l->deal.n_warps;
    return rows_at_once(l) > 1 && !staged && op->op != IR_OP_contract && !op->type.n_dims &&
           rows_are_computed(l->f, l->g, op->args[0]);
}

static void sum_rows(Lower *l, const Taking *x, const Point *p, unsigned n, const KirId *acc)
{
    const IrOp *op = fused_op(l->f, x->sum->v);
    KirId from = takes_sixteens(l, op) ? sum_sixteens(l, x, acc[0]) : x->rows->from;
    KirId row = emit_for(&l->e, from, x->rows->to, 1, KIR_SEQ, "rows");
    stage_enter(l, x->rows, row, row);
    IrId dims[2 * IR_MAX_DIMS];
    DimLoop loops = dim_loops_open(l, dims, op->op == IR_OP_contract ? reduced_dims(l->f->f, op, dims) : 0);
    for (unsigned i = 0; i < n; i++) {
        Env env = p[i].env;
        dim_loops_env(&loops, &env);
        take_row(l, op, row, &env, acc[i]);
    }
    dim_loops_close(l, &loops);
    stage_leave(l, x->rows, 1);
    emit_end(&l->e);
}

/* A tile of the result over these rows. */
static void block_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    Emit *e = &l->e;
    const Taking *x = user;
    const Partial *part = &x->sum->part;
    const IrOp *op = fused_op(l->f, x->sum->v);
    KirId *acc = ARENA_ARRAY(l->arena, KirId, n);
    bool fresh = x->whole || x->shared;
    for (unsigned i = 0; i < n; i++) {
        KirId start = fresh ? identity_at(l, op, &p[i].env)
                            : point_load(l, part->buffer, &part->type, part->slot, &p[i].env);
        acc[i] = emit_var(e, "acc", emit_splat(e, start, env_lanes(&p[i].env, &op->type)));
    }
    if (x->shared) {
        emit_if(e, x->later);
        for (unsigned i = 0; i < n; i++)
            emit_set(e, acc[i], point_load(l, part->buffer, &part->type, part->slot, &p[i].env));
        emit_end(e);
    }
    sum_rows(l, x, p, n, acc);
    if (x->shared) emit_if(e, x->last);
    if (x->merged) merge_points(l, x->merged, p, n, acc);
    if (x->shared) emit_end(e);
    for (unsigned i = 0; i < n; i++) {
        emit_freeze(e, acc[i]);
        point_store(l, part->buffer, &part->type, part->slot, &p[i].env, acc[i]);
    }
}

static void clear_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Sum *x = user;
    for (unsigned i = 0; i < n; i++)
        point_store(l, x->part.buffer, &x->part.type, x->part.slot, &p[i].env,
                    identity_at(l, fused_op(l->f, x->v), &p[i].env));
}

/* Body for a sum, with the schedule that it has by itself. */
static void nest_sum(Lower *l, const Sum *x, NestBody *body, void *user)
{
    const IrType *t = &fused_op(l->f, x->v)->type;
    l->s = x->s;
    l->first_vec = !x->s.strip ? 0 : fused_op(l->f, fused_op(l->f, x->v)->args[0])->type.n_dims;
    if (l->deal.n_warps) nest_dealt(l, t, x->s.rows, body, user);
    else nest_dims(l, t, &(Point){KIR_NONE, env_empty()}, 1, body, user);
    l->first_vec = 0;
}

static void note_gemm(Lower *l, const Sum *x, const Group *g)
{
    const IrOp *op = fused_op(l->f, x->v);
    if (!g->gemm) return;
    l->step->kind = PLAN_STEP_PRODUCT;
    l->step->gemm = (PlanGemm){.transposed_a = true,
                               .a = plan_value_buffer(l->lf, fused_storage(l->f, op->args[0])),
                               .b = plan_value_buffer(l->lf, fused_storage(l->f, op->args[1])),
                               .c = x->part.buffer,
                               .rows = plan_count(l->f->m, g->space),
                               .blocks = blocks_count(l->f, l->g, PLAN_BLOCKS),
                               .block_rows = blocks_count(l->f, l->g, PLAN_BLOCK_ROWS),
                               .m = ir_type_width(l->f->m, &fused_op(l->f, op->args[0])->type),
                               .n = ir_type_width(l->f->m, &fused_op(l->f, op->args[1])->type),
                               .elem = kir_elem_of(op->type.dtype)};
}

static void take_strip(Lower *l, const Blocks *b, const StageSpan *strip)
{
    if (l->staged.n) stage_strip(l, strip);
    l->deal.next = 0;
    for (unsigned i = 0; i < b->n; i++) {
        Taking x = {.sum = &b->sums[i], .rows = strip};
        l->s = b->sums[i].s;
        if (l->s.strip && !l->deal.n_warps) lower_outer(l, x.sum->v, &x.sum->part, strip);
        else nest_sum(l, x.sum, block_tile, &x);
    }
}

static void take_strips(Lower *l, const Blocks *b, int64_t rows)
{
    Emit *e = &l->e;
    l->deal.next = 0;
    for (unsigned i = 0; i < b->n; i++) nest_sum(l, &b->sums[i], clear_tile, &b->sums[i]);
    StageSpan x = {.map = IR_NONE, .row = KIR_NONE, .lo = b->first, .hi = b->last, .longer = KIR_NONE};
    x.from = x.base = emit_for(e, b->first, b->last, rows, KIR_SEQ, "strips of rows");
    x.to = emit_op2(e, KIR_min, emit_op2(e, KIR_add, x.from, emit_index(e, rows)), b->last);
    take_strip(l, b, &x);
    emit_end(e);
}

static void take_whole(Lower *l, const Blocks *b)
{
    ICE_UNLESS(b->n == 1 && !l->staged.n); /* several share rows strip by strip */
    StageSpan rows = {.map = IR_NONE, .from = b->first, .to = b->last};
    Taking x = {.sum = b->sums, .rows = &rows, .whole = true};
    nest_sum(l, b->sums, block_tile, &x);
}

/* The same of all sums, by warps, and what follows from a leaf. */
static void take_merged(Lower *l, const Blocks *b, const Block *block, const TreeLeaf *leaf)
{
    StageSpan rows = {.map = IR_NONE, .from = b->first, .to = b->last};
    ICE_UNLESS(l->deal.n_warps && !l->staged.n);
    l->deal.next = 0;
    for (unsigned i = 0; i < b->n; i++) {
        Tile tile = {.sum = &b->sums[i], .block = block, .leaf = leaf};
        nest_sum(l, &b->sums[i], block_tile,
                 &(Taking){.sum = &b->sums[i], .rows = &rows, .whole = true, .merged = &tile});
    }
}

/* The same strip by strip: what the sums take in at these rows lies in memory that the warps share. The sums wait in
   their slot in between. A sum of nothing has a strip, too. */
static void take_shared(Lower *l, const Blocks *b, const Block *block, const TreeLeaf *leaf)
{
    Emit *e = &l->e;
    StageSpan rows = {.map = IR_NONE, .row = KIR_NONE, .lo = b->first, .hi = b->last, .longer = KIR_NONE};
    KirId behind = emit_op2(e, KIR_max, b->last, emit_op2(e, KIR_add, b->first, emit_index(e, 1)));
    rows.from = rows.base = emit_for(e, b->first, behind, l->stage_rows, KIR_SEQ, "strips of rows");
    rows.to = emit_op2(e, KIR_min, emit_op2(e, KIR_add, rows.from, emit_index(e, l->stage_rows)), b->last);
    Taking x = {.rows = &rows, .shared = true};
    x.later = emit_op2(e, KIR_ne, rows.from, b->first), x.last = emit_op2(e, KIR_eq, rows.to, b->last);
    emit_barrier(e); /* behind the last one that reads the strip before */
    stage_shared(l, &rows);
    emit_barrier(e);
    l->deal.next = 0;
    for (unsigned i = 0; i < b->n; i++) {
        Tile tile = {.sum = &b->sums[i], .block = block, .leaf = leaf};
        x.sum = &b->sums[i], x.merged = &tile;
        nest_sum(l, &b->sums[i], block_tile, &x);
    }
    emit_end(e);
}

static void merge_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Tile *x = user;
    const Partial *part = &x->sum->part;
    KirId *acc = ARENA_ARRAY(l->arena, KirId, n);
    for (unsigned i = 0; i < n; i++)
        acc[i] = emit_var(&l->e, "acc", point_load(l, part->buffer, &part->type, part->slot, &p[i].env));
    merge_points(l, x, p, n, acc);
    for (unsigned i = 0; i < n; i++) {
        emit_freeze(&l->e, acc[i]);
        point_store(l, part->buffer, &part->type, part->slot, &p[i].env, acc[i]);
    }
}

static void merge_leaf(Lower *l, const Blocks *b, const Block *block, const TreeLeaf *leaf)
{
    Emit *e = &l->e;
    l->deal.next = 0;
    emit_if(e, emit_op2(e, KIR_ne, leaf->merged, emit_index(e, 0)));
    for (unsigned i = 0; i < b->n; i++)
        nest_sum(l, &b->sums[i], merge_tile, &(Tile){.sum = &b->sums[i], .block = block, .leaf = leaf});
    emit_end(e);
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

/* How many ones i ends in. */
static KirId ones_at_end(Lower *l, KirId i)
{
    Emit *e = &l->e;
    KirId one = emit_index(e, 1), n = emit_var(e, "level", emit_index(e, 0));
    emit_loop(e);
    emit_break_if(e, emit_op2(e, KIR_ne, emit_op2(e, KIR_and, emit_op2(e, KIR_lshr, i, n), one), one));
    emit_set(e, n, emit_op2(e, KIR_add, n, one));
    emit_end(e);
    emit_freeze(e, n);
    return n;
}

static void sum_leaves(Lower *l, Blocks *b, const Block *x)
{
    Emit *e = &l->e;
    KirId zero = emit_index(e, 0), one = emit_index(e, 1), rows = emit_op2(e, KIR_sub, x->last, x->first);
    KirId n = emit_op2(e, KIR_div, emit_op2(e, KIR_sub, emit_op2(e, KIR_add, rows, x->leaf_rows), one), x->leaf_rows);
    n = emit_op2(e, KIR_max, n, one); /* a sum of nothing has a leaf, too */
    bool staged = l->f->groups.data[l->g].inner.n;
    int64_t strip = staged ? l->s.staged : l->s.strip;
    if (staged) stage_begin(l);
    TreeLeaf leaf = tree_leaf(l, emit_for(e, zero, n, 1, KIR_SEQ, "leaves"), n);
    b->first = emit_op2(e, KIR_add, x->first, emit_op2(e, KIR_mul, leaf.index, x->leaf_rows));
    b->last = emit_op2(e, KIR_min, emit_op2(e, KIR_add, b->first, x->leaf_rows), x->last);
    KirId slot = emit_select(e, leaf.is_last, x->index, emit_op2(e, KIR_add, x->waiting, ones_at_end(l, leaf.index)));
    for (unsigned i = 0; i < b->n; i++) b->sums[i].part.slot = slot;
    if (l->deal.n_warps && l->staged.n) {
        take_shared(l, b, x, &leaf);
    } else if (l->deal.n_warps) {
        take_merged(l, b, x, &leaf);
    } else {
        if (strip) take_strips(l, b, strip);
        else take_whole(l, b);
        merge_leaf(l, b, x, &leaf);
    }
    emit_end(e);
    l->staged.n = 0;
}

/* Strips of what the sums take in lie in memory that the warps of a block share. */
static void share_operands(Lower *l, const Blocks *b)
{
    l->stage_rows = l->s.strip;
    for (unsigned i = 0; i < b->n; i++) {
        for (unsigned k = 0; k < 2; k++)
            if (group_may_share(l->f, b->sums[i].v, k)) stage_share(l, fused_op(l->f, b->sums[i].v)->args[k]);
    }
}

static void sum_blocks(LowerFunc *lf, uint32_t g, void *user)
{
    Blocks *b = user;
    Lower l;
    const Group *group = &lf->f->groups.data[g];
    lower_begin(&l, lf, g);
    Emit *e = &l.e;
    for (unsigned i = 0; i < b->n; i++) {
        lower_out(&l, b->sums[i].part.buffer);
        b->sums[i].s = *value_tile(lf->f, lf->for_narrow, g, b->sums[i].v);
    }
    for (uint32_t i = 0; i < group->inner.n; i++)
        if (lf->f->stored.data[group->inner.data[i]]) lower_out(&l, plan_value_buffer(lf, group->inner.data[i]));
    KirId rows = lower_count(&l, plan_count(lf->f->m, group->space));
    KirId per_block = lower_count(&l, blocks_count(lf->f, g, PLAN_BLOCK_ROWS));
    KirId levels = lower_count(&l, blocks_count(lf->f, g, PLAN_BLOCK_LEVELS));
    l.step->extent = blocks_count(lf->f, g, PLAN_BLOCKS);
    l.step->grain = l.s.grain;
    KirId n = lower_count(&l, l.step->extent);
    Block x = {.leaf_rows = emit_op2(e, KIR_lshr, per_block, levels), .levels = levels};
    bool shared = l.s.warps > 1;
    x.index = emit_for(e, emit_index(e, 0), n, 1, shared ? KIR_BLOCK : KIR_THREADS, "blocks");
    if (shared) {
        if (l.s.strip && l.s.strip < ORDER_LEAF) share_operands(&l, b);
        KirId warps = emit_index(e, l.s.warps);
        l.deal = (Deal){emit_for(e, emit_index(e, 0), warps, 1, KIR_WARP, NULL), l.s.warps, 0};
    }
    x.first = emit_op2(e, KIR_mul, x.index, per_block);
    x.last = emit_op2(e, KIR_min, emit_op2(e, KIR_add, x.first, per_block), rows);
    x.waiting = emit_op2(e, KIR_add, n, emit_op2(e, KIR_mul, x.index, levels));
    sum_leaves(&l, b, &x);
    emit_end(e);
    if (shared) emit_end(e);
    note_gemm(&l, b->sums, group);
    lower_finish(&l, "blocks");
}

/* Where partials lie: as if each slot were a row of some space. */
static Sum sum_of(LowerFunc *lf, uint32_t g, IrId v)
{
    const IrOp *op = fused_op(lf->f, v);
    Sum x = {.v = v, .s = *value_tile(lf->f, 0, g, v)};
    PlanBuffer partials = {.kind = PLAN_ARENA,
                           .ref = IR_NONE,
                           .elem = kir_elem_of(op->type.dtype),
                           .rows = blocks_count(lf->f, g, PLAN_BLOCK_SLOTS),
                           .width = ir_type_width(lf->f->m, &op->type),
                           .name = arena_printf(lf->ctx->stage, "%%%u.blocks", v)};
    x.part = (Partial){.buffer = plan_buffer(lf, partials), .type = op->type};
    x.part.type.space = lf->f->groups.data[g].space;
    return x;
}

void lower_blocks(LowerFunc *lf, uint32_t g)
{
    const Group *group = &lf->f->groups.data[g];
    Blocks b = {.sums = ARENA_ARRAY(lf->ctx->stage, Sum, group->roots.n), .n = group->roots.n};
    for (unsigned i = 0; i < b.n; i++) b.sums[i] = sum_of(lf, g, group->roots.data[i]);
    lower_kernels(lf, g, sum_blocks, &b);
    for (unsigned i = 0; i < b.n; i++) lower_tree(lf, g, b.sums[i].v, b.sums[i].part.buffer);
}
