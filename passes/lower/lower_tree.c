/* Sums that are merged as a binary tree of neighbours (docs/design.md, "One association per sum"): leaves of a block,
   by its kernel (lower_blocks.c), and here the blocks' sums, by a kernel for each sum.

     for blocks i:                          a binary counter: subtrees of 2^level blocks wait for their right neighbours
       sum = the sum of block i
       for ones that i ends in, of the last block for all its ones, lowest first: sum = what waits at that level + sum
       the sum waits at the level that comes next

   On threads each vector of columns is a turn of the loop. Or a block of warps for each: every warp takes an aligned
   subtree of the blocks, and the first one merges what the warps have. Never cuts a sum in another place than the
   leaves. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

PlanCount blocks_count(const FusedFunc *f, uint32_t g, PlanCountKind kind)
{
    return (PlanCount){
        .kind = kind, .space = f->groups.data[g].space, .block = ORDER_LEAF, .max = f->tiles->group[0][g].blocks};
}

TreeLeaf tree_leaf(Lower *l, KirId index, KirId n)
{
    Emit *e = &l->e;
    KirId one = emit_index(e, 1), next = emit_op2(e, KIR_add, index, one);
    TreeLeaf x = {.index = index, .is_last = emit_op2(e, KIR_eq, next, n)};
    x.merged = emit_select(e, x.is_last, index, emit_op2(e, KIR_lshr, emit_op2(e, KIR_xor, index, next), one));
    return x;
}

KirId tree_merge(Lower *l, const TreeMerging *x)
{
    Emit *e = &l->e;
    KirId zero = emit_index(e, 0), one = emit_index(e, 1);
    KirId level = emit_var(e, "level", zero), left = emit_var(e, "left", x->leaf->merged);
    emit_loop(e);
    emit_break_if(e, emit_op2(e, KIR_eq, left, zero));
    emit_if(e, emit_op2(e, KIR_eq, emit_op2(e, KIR_and, left, one), one));
    for (unsigned i = 0; i < x->n; i++)
        emit_set(e, x->acc[i], emit_op2(e, x->op, x->waiting(l, level, i, x->user), x->acc[i]));
    emit_end(e);
    emit_set(e, level, emit_op2(e, KIR_add, level, one));
    emit_set(e, left, emit_op2(e, KIR_lshr, left, one));
    emit_end(e);
    emit_freeze(e, level);
    return level;
}

enum { MOST_LEVELS = 63 };

typedef struct Tree {
    const IrOp *op;
    uint32_t partials, out;
    int64_t width;
    KirId n_blocks, n_rows;
    unsigned lanes, neighbours, mergers;
    int64_t first_level; /* of those that tree_merge counts from 0 */
    KirId array;         /* private, [levels][lanes] */
    KirId subtrees;      /* KIR_NONE, or shared by warps, [mergers][lanes]: sums of a subtree of each */
} Tree;
typedef struct Branch { /* n sums from `first` on: of blocks, or of warps' subtrees */
    KirId first, n;
    bool of_subtrees;
} Branch;

/* Element `at` of an array, or as many as the tree has lanes. */
static KirIns tree_access(const Tree *t, KirOpcode op, KirId array, KirId at)
{
    return (KirIns){.op = op,
                    .type = kir_type(kir_base_of(t->op->type.dtype), t->lanes),
                    .args = {at, KIR_NONE, KIR_NONE},
                    .buf = KIR_NONE,
                    .alloc = array,
                    .stride = 1};
}

/* Where the sums of place `i` of an array lie. */
static KirId tree_place(Lower *l, const Tree *t, KirId i)
{
    return emit_op2(&l->e, KIR_mul, i, emit_index(&l->e, t->lanes));
}

/* What waits at a level. */
static KirIns tree_waits(Lower *l, const Tree *t, KirOpcode op, KirId level)
{
    KirId at = tree_place(l, t, emit_op2(&l->e, KIR_add, level, emit_index(&l->e, t->first_level)));
    return tree_access(t, op, t->array, at);
}

static KirId tree_waiting(Lower *l, KirId level, unsigned i, const void *user)
{
    (void)i;
    return emit_ins(&l->e, tree_waits(l, user, KIR_load, level));
}

/* The sum of a leaf, or of a subtree, takes in what waits, and waits itself. */
static void tree_take(Lower *l, const Tree *t, const TreeLeaf *leaf, KirId sum)
{
    KirId level = tree_merge(l, &(TreeMerging){leaf, sum_op(t->op->op), &sum, 1, tree_waiting, t});
    KirIns store = tree_waits(l, t, KIR_store, level);
    store.args[1] = sum;
    emit_ins(&l->e, store);
}

/* Columns at.. (active) of a block's sum, or of a subtree's. */
static KirId tree_load(Lower *l, const Tree *t, const Branch *b, KirId i, KirId at, unsigned active)
{
    Emit *e = &l->e;
    if (b->of_subtrees) return emit_ins(e, tree_access(t, KIR_load, t->subtrees, tree_place(l, t, i)));
    KirId from = emit_op2(e, KIR_add, emit_op2(e, KIR_mul, i, emit_index(e, t->width)), at);
    KirType type = kir_type(kir_base_of(t->op->type.dtype), t->lanes);
    return emit_load(e, lower_in(l, t->partials), type, from, active, 1);
}

/* Whole sets of neighbours, each a subtree: their loads do not wait for one another. Returns how many blocks they
   are. */
static KirId tree_neighbours(Lower *l, Tree *t, const Branch *b, KirId at, unsigned active, KirId sum)
{
    Emit *e = &l->e;
    KirId zero = emit_index(e, 0), one = emit_index(e, 1), each = emit_index(e, t->neighbours), x[32];
    KirId n = emit_op2(e, KIR_div, b->n, each), rest = emit_op2(e, KIR_mul, n, each);
    ICE_UNLESS(t->neighbours <= sizeof x / sizeof *x);
    TreeLeaf set = {.index = emit_for(e, zero, n, 1, KIR_SEQ, "sets of neighbours")};
    KirId next = emit_op2(e, KIR_add, set.index, one);
    KirId first = emit_op2(e, KIR_add, b->first, emit_op2(e, KIR_mul, set.index, each));
    set.is_last = emit_op2(e, KIR_eq, emit_op2(e, KIR_mul, next, each), b->n);
    set.merged = emit_select(e, set.is_last, set.index,
                             emit_op2(e, KIR_lshr, emit_op2(e, KIR_xor, set.index, next), one));
    for (unsigned i = 0; i < t->neighbours; i++)
        x[i] = tree_load(l, t, b, emit_op2(e, KIR_add, first, emit_index(e, i)), at, active);
    t->first_level = 0;
    for (unsigned left = t->neighbours; left > 1; left /= 2, t->first_level++)
        for (unsigned i = 0; i < left / 2; i++) x[i] = emit_op2(e, sum_op(t->op->op), x[2 * i], x[2 * i + 1]);
    emit_set(e, sum, x[0]);
    tree_take(l, t, &set, sum);
    emit_end(e);
    t->first_level = 0;
    return rest;
}

/* Columns at.. (active) of the sum of a branch: nothing's identity where it has no blocks. */
static KirId tree_branch(Lower *l, Tree *t, const Branch *b, KirId at, unsigned active)
{
    Emit *e = &l->e;
    KirType type = kir_type(kir_base_of(t->op->type.dtype), t->lanes);
    ICE_UNLESS(active >= 1 && active <= t->lanes);
    KirId identity = sum_identity(l, sum_op(t->op->op), type);
    KirId sum = emit_var(e, "sum", emit_splat(e, identity, t->lanes));
    bool sets = t->neighbours > 1 && !b->of_subtrees;
    KirId first = sets ? tree_neighbours(l, t, b, at, active, sum) : emit_index(e, 0);
    TreeLeaf leaf = tree_leaf(l, emit_for(e, first, b->n, 1, KIR_SEQ, b->of_subtrees ? "subtrees" : "blocks"), b->n);
    emit_set(e, sum, tree_load(l, t, b, emit_op2(e, KIR_add, b->first, leaf.index), at, active));
    tree_take(l, t, &leaf, sum);
    emit_end(e);
    emit_freeze(e, sum);
    return sum;
}

static void tree_store(Lower *l, const Tree *t, KirId at, KirId sum, unsigned active)
{
    Emit *e = &l->e;
    KirType type = kir_type(kir_base_of(t->op->type.dtype), t->lanes);
    if (t->op->op == IR_OP_reduce_max || t->op->op == IR_OP_reduce_min) {
        KirId empty = ir_dtype_is_float(t->op->type.dtype) ? emit_float(e, type, t->op->attr.f)
                                                           : emit_int(e, type, (int64_t)t->op->attr.f);
        sum = emit_select(e, emit_op2(e, KIR_eq, t->n_rows, emit_index(e, 0)), empty, sum);
    }
    emit_store(e, lower_out(l, t->out), at, sum, active, 1);
}

/* Where sums wait. */
static void tree_array(Lower *l, Tree *t, unsigned levels)
{
    KirType elem = kir_type(kir_base_of(t->op->type.dtype), 1);
    t->array = emit_ins(&l->e, (KirIns){.op = KIR_alloc, .type = elem, .i = levels * t->lanes});
}

/* Columns at.. of the sum of branch b: kept for the other warps as the subtree `warp`, or stored as the tree's (warp
   KIR_NONE). The last columns may be fewer than the tree has lanes. */
static void tree_columns(Lower *l, Tree *t, const Branch *b, KirId i, KirId warp)
{
    Emit *e = &l->e;
    int64_t full = t->width / t->lanes, tail = t->width % t->lanes;
    KirId at = tree_place(l, t, i);
    if (tail && full) emit_if(e, emit_op2(e, KIR_lt, i, emit_index(e, full)));
    for (int last = 0; last < 2; last++) {
        unsigned active = last ? (unsigned)tail : t->lanes;
        if (last && tail && full) emit_else(e);
        if (last ? !tail : !full) continue;
        KirId sum = tree_branch(l, t, b, at, active);
        if (warp == KIR_NONE) {
            tree_store(l, t, at, sum, active);
            continue;
        }
        KirIns store = tree_access(t, KIR_store, t->subtrees, tree_place(l, t, warp));
        store.args[1] = sum;
        emit_ins(e, store);
    }
    if (tail && full) emit_end(e);
}

/* Each warp of a block sums up an aligned power of two of the tree's leaves, so many that there are warps enough; the
   first one merges what they have. */
static void tree_by_warps(Lower *l, Tree *t, KirId i)
{
    Emit *e = &l->e;
    KirId zero = emit_index(e, 0), one = emit_index(e, 1), n_warps = emit_index(e, t->mergers);
    KirType elem = kir_type(kir_base_of(t->op->type.dtype), 1);
    t->subtrees = emit_ins(e, (KirIns){.op = KIR_alloc, .type = elem, .i = t->mergers * t->lanes, .shared = true});
    KirId warp = emit_for(e, zero, n_warps, 1, KIR_WARP, NULL);
    tree_array(l, t, SCHEDULE_MERGER_LEVELS + 1);
    KirId log2 = emit_var(e, "log2", zero), reached = emit_var(e, "reached", n_warps);
    emit_loop(e);
    emit_break_if(e, emit_op2(e, KIR_le, t->n_blocks, reached));
    emit_set(e, log2, emit_op2(e, KIR_add, log2, one));
    emit_set(e, reached, emit_op2(e, KIR_add, reached, reached));
    emit_end(e);
    emit_freeze(e, log2);
    KirId size = emit_op2(e, KIR_shl, one, log2), first = emit_op2(e, KIR_shl, warp, log2);
    KirId left = emit_op2(e, KIR_max, emit_op2(e, KIR_sub, t->n_blocks, first), zero);
    tree_columns(l, t, &(Branch){first, emit_op2(e, KIR_min, size, left), false}, i, warp);
    emit_barrier(e);
    emit_if(e, emit_op2(e, KIR_eq, warp, zero));
    KirId last = emit_op2(e, KIR_sub, emit_op2(e, KIR_add, t->n_blocks, size), one);
    tree_columns(l, t, &(Branch){zero, emit_op2(e, KIR_ashr, last, log2), true}, i, KIR_NONE);
    emit_end(e);
    emit_end(e);
}

void lower_tree(LowerFunc *lf, uint32_t g, IrId v, uint32_t partials)
{
    Lower l;
    const Group *group = &lf->f->groups.data[g];
    lower_begin(&l, lf, g);
    l.root = v;
    Emit *e = &l.e;
    const Schedule *s = value_tile(lf->f, 0, g, v);
    Tree t = {.op = fused_op(lf->f, v),
              .partials = partials,
              .out = plan_value_buffer(lf, v),
              .lanes = (unsigned)s->merged,
              .neighbours = (unsigned)s->neighbours,
              .mergers = (unsigned)group_tile_of(&l)->mergers,
              .subtrees = KIR_NONE};
    t.width = ir_type_width(lf->f->m, &t.op->type);
    lower_in(&l, t.partials);
    lower_out(&l, t.out);
    PlanCount n_blocks = blocks_count(lf->f, g, PLAN_BLOCKS);
    bool by_warps = t.mergers > 1;
    ICE_UNLESS(!by_warps || n_blocks.max <= 1 << SCHEDULE_MERGER_LEVELS);
    t.n_blocks = lower_count(&l, n_blocks);
    if (t.op->op == IR_OP_reduce_max || t.op->op == IR_OP_reduce_min)
        t.n_rows = lower_count(&l, plan_count(lf->f->m, group->space));
    l.step->extent = plan_const((t.width + t.lanes - 1) / t.lanes);
    KirId i = emit_for(e, emit_index(e, 0), lower_count(&l, l.step->extent), 1, by_warps ? KIR_BLOCK : KIR_THREADS,
                       "columns");
    if (by_warps) {
        tree_by_warps(&l, &t, i);
    } else {
        tree_array(&l, &t, MOST_LEVELS);
        tree_columns(&l, &t, &(Branch){emit_index(e, 0), t.n_blocks, false}, i, KIR_NONE);
    }
    emit_end(e);
    l.step->grain = group_tile_of(&l)->second;
    int64_t bytes = (int64_t)kir_base_bytes(kir_elem_of(t.op->type.dtype)) * t.width;
    PlanCost per_block = {.count = n_blocks, .bytes = bytes, .flops = t.width, .table = IR_NONE};
    PlanCost result = {.count = plan_const(1), .bytes = bytes, .table = IR_NONE};
    VEC_PUSH(l.arena, &l.step->cost, per_block);
    VEC_PUSH(l.arena, &l.step->cost, result);
    lower_finish(&l, "tree");
}
