/* Values at the elements of a kernel that several of its loops want: the dear ones are staged like inner values of
   another kernel (fuse_stage.c), instead of being computed in each loop.

     %5 = exp %4 : edge[F]                    rows of edge.dst: %6, and in a second walk %9, which needs %7:
     %6 = reduce_sum edge.dst %5                %5 of the row into an array, and its sum
     %8 = %5 * gather edge.dst %7               %8 of the array, and its sum
     %9 = reduce_sum edge.dst %8
   Such a value belongs to no group: other kernels that want it compute it themselves. What depends on a maximum or
   minimum of the row stays where it is, for the kernel may rescale its sums instead of walking twice (lower_online.c).
   It changes no bit. */
#include "passes/fuse/fuse.h"
#include "passes/context/price.h"

enum { LEAST_AGAIN = 64 /* elements: rows of usual length are not computed twice */, MOST_KEPT = 4, MOST_LEVEL = 14 };

typedef struct Keep {
    const FusedFunc *f;
    Group *g;
    uint32_t index;
    /* by value: + 1: twice the number of walks of the row that it waits for, and 1 if for an extreme */
    uint8_t *level;
    uint32_t *wanted; /* by value: bits, of loops */
    bool *refused;    /* by value */
} Keep;

static bool is_elsewhere(const Keep *k, IrId v)
{
    uint32_t own = k->f->group_of.data[v];
    return fused_op(k->f, v)->op == IR_OP_arg || (own != GROUP_NONE && own != k->index && !group_has_inner(k->g, v));
}

static unsigned level_of(Keep *k, IrId v)
{
    const IrOp *op = fused_op(k->f, v);
    if (is_elsewhere(k, v) || (op->op == IR_OP_gather && op->attr.map != k->g->map)) return 0;
    if (k->level[v]) return k->level[v] - 1u;
    unsigned level = 0, extreme = 0;
    for (uint32_t i = 0; i < op->n_args; i++) {
        unsigned x = level_of(k, op->args[i]);
        if (x / 2 > level) level = x / 2;
        extreme |= x & 1;
    }
    if (group_kind_of(k->f->f, k->f->m, v) == GROUP_ROWS) {
        if (level < MOST_LEVEL) level++;
        extreme |= op->op == IR_OP_reduce_max || op->op == IR_OP_reduce_min;
    }
    k->level[v] = (uint8_t)(2 * level + extreme + 1);
    return 2 * level + extreme;
}

/* Computed at a row that is gathered, v is made of elements that no loop comes by. */
static void refuse_gathered(Keep *k, IrId v)
{
    const IrOp *op = fused_op(k->f, v);
    if (op->op == IR_OP_arg || k->f->group_of.data[v] != GROUP_NONE || k->refused[v]) return;
    k->refused[v] = true;
    for (uint32_t i = 0; i < op->n_args; i++) refuse_gathered(k, op->args[i]);
}

static void want(Keep *k, IrId v, uint32_t loop)
{
    const IrOp *op = fused_op(k->f, v);
    if (op->op == IR_OP_arg || k->f->group_of.data[v] != GROUP_NONE || k->wanted[v] & loop) return;
    if (op->op == IR_OP_gather) {
        refuse_gathered(k, op->args[0]);
        return;
    }
    k->wanted[v] |= loop;
    if (group_has_inner(k->g, v)) return;
    for (uint32_t i = 0; i < op->n_args; i++) want(k, op->args[i], loop);
}

/* A loop that fills arrays and one that sums, per walk of the row. */
static void find_wanted(Keep *k)
{
    memset(k->wanted, 0, k->f->f->ops.n * sizeof *k->wanted);
    memset(k->level, 0, k->f->f->ops.n);
    for (uint32_t i = 0; i < k->g->roots.n; i++) {
        IrId v = k->g->roots.data[i];
        if (group_kind_of(k->f->f, k->f->m, v) != GROUP_ROWS) continue;
        IrId x = fused_op(k->f, v)->args[0];
        want(k, x, 1u << (level_of(k, x) & ~1u));
    }
    for (uint32_t i = 0; i < k->g->inner.n; i++) {
        const IrOp *op = fused_op(k->f, k->g->inner.data[i]);
        for (uint32_t a = 0; a < op->n_args; a++) want(k, op->args[a], 1u << (level_of(k, k->g->inner.data[i]) | 1u));
    }
}

static bool is_candidate(Keep *k, IrId v)
{
    if (k->refused[v] || !(k->wanted[v] & (k->wanted[v] - 1)) || k->f->group_of.data[v] != GROUP_NONE) return false;
    bool wanted = k->f->text ? fuse_given_copy(k->f, k->index, v) && value_may_be_kept(k->f, v)
                             : value_is_dear(k->f, v);
    return wanted && !group_has_inner(k->g, v) && !(level_of(k, v) & 1) &&
           fused_op(k->f, v)->type.space == k->f->m->maps.data[k->g->map].from;
}

static void drop(IrValues *values, IrId v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < values->n; i++)
        if (values->data[i] != v) values->data[n++] = values->data[i];
    values->n = n;
}

static bool take(Keep *k, PassContext *ctx, IrId v)
{
    const IrOp *op = fused_op(k->f, v);
    values_insert(ctx->stage, &k->g->inner, v);
    uint32_t walk = 3;
    while (!(k->wanted[v] & walk)) walk <<= 2;
    bool fits = stage_elements(k->f, k->g, NULL) >= (k->wanted[v] & ~walk ? LEAST_AGAIN : 1);
    if (!fits) drop(&k->g->inner, v);
    k->refused[v] = !fits;
    pass_remark(ctx, PASS_fuse, fits, op->span, "%%%u = %s : %s, which several loops over the rows of %%%u want, is %s",
                v, ir_ops[op->op].name, ir_type_text(k->f->m, &op->type, ctx->stage), k->g->roots.data[0],
                fits ? "kept in an array" : "too wide to be kept: computed in each");
    return fits;
}

/* The last one first: it may be all that wants those that it is made of. */
static void keep_in(Keep *k, PassContext *ctx)
{
    for (unsigned n = 0; n < MOST_KEPT;) {
        find_wanted(k);
        IrId v = k->f->f->ops.n;
        while (v-- > 0 && !is_candidate(k, v)) {}
        if (v == UINT32_MAX) return;
        n += take(k, ctx, v);
    }
}

void fuse_keep(PassContext *ctx, FusedFunc *f)
{
    Arena *scratch = arena_new();
    uint32_t n = f->f->ops.n + 1;
    Keep k = {.f = f, .level = ARENA_ARRAY(scratch, uint8_t, n), .wanted = ARENA_ARRAY(scratch, uint32_t, n)};
    for (k.index = 0; k.index < f->groups.n; k.index++) {
        k.g = &f->groups.data[k.index];
        if (k.g->dead || k.g->kind != GROUP_ROWS || k.g->map == IR_NONE) continue;
        const IrMap *map = &f->m->maps.data[k.g->map];
        k.refused = ARENA_ARRAY(scratch, bool, n);
        if (!map->partial && map->from != map->to) keep_in(&k, ctx);
    }
    arena_free(scratch);
}
