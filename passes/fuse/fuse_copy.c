/* Values at the elements of a kernel that it puts into private arrays (fuse_stage.c) though another kernel computes
   them too, or none does: the moves are to make a value such a copy, and to take that back.

     by destination: %5 = exp(%3 - gather %4), and its sum    %5 stored, and read by list in the other sum
     by source:      sum of %5 * gather x                     or: a copy of %5, made again of %4 and what %3 is made of

     %5 = exp %4 : edge[F]                    rows of edge.dst: %6, and in a second walk %9, which needs %7:
     %6 = reduce_sum edge.dst %5                %5 computed in both loops
     %8 = %5 * gather edge.dst %7               or: a copy of %5 that both read
     %9 = reduce_sum edge.dst %8
   A move is made where the function then costs less (cost.c), until none is left; the last values first: a copy may be
   all that wants those that it is made of. No sum over a map and no product with rows of its own is a copy, no random
   number is drawn twice, and no bit changes. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/cost.h"

enum { MAX_CONE = 400, MOST_COPIES = 8 /* of a kernel: each is priced beside the others, again and again */ };

typedef struct Copies {
    PassContext *ctx;
    FusedFunc *f;
    Price price;
    uint32_t g;  /* the kernel in question: a group of rows */
    double rest; /* what the function costs beside it */
    bool all;    /* of what other kernels compute, whatever it costs */
    bool say;    /* what is refused */
} Copies;

/* ---- what could be copied -------------------------------------------------------------------------------------- */

static Group *group_at(const Copies *c) { return &c->f->groups.data[c->g]; }
static const IrMap *map_of(const Copies *c)
{
    ICE_UNLESS(group_at(c)->map < c->f->m->maps.n);
    return &c->f->m->maps.data[group_at(c)->map];
}

typedef struct Cone {
    const FusedFunc *f;
    uint32_t n;
} Cone;

/* What v is computed from, as far as it has no memory: cheap, and the same wherever it is computed. */
static bool cone_is_plain(Cone *c, IrId v, bool top)
{
    const IrOp *op = fused_op(c->f, v);
    if (op->op == IR_OP_arg || (!top && c->f->group_of.data[v] != GROUP_NONE)) return true;
    if (++c->n > MAX_CONE || (ir_ops[op->op].traits & T_RANDOM)) return false;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!cone_is_plain(c, op->args[k], false)) return false;
    return true;
}

/* Another kernel computes it, pointwise or as a sum inside the row, and this one reads it at its elements. */
static bool is_read_here(const Copies *c, IrId v)
{
    GroupKind kind = group_kind_of(c->f->f, c->f->m, v);
    Cone cone = {c->f, 0};
    return c->price.place[v] & PLACE_READ && c->f->group_of.data[v] != c->g &&
           (kind == GROUP_MAP || kind == GROUP_DIMS) && cone_is_plain(&cone, v, true);
}

/* Of no kernel, pointwise, and wanted by several loops. What waits for a maximum or minimum of the row stays where it
   is, for the kernel may rescale its sums instead of walking twice (lower_online.c). */
static bool is_in_loops(const Copies *c, IrId v)
{
    uint32_t place = c->price.place[v], loops = place / PLACE_LOOP;
    return (loops & (loops - 1)) && !(place & (PLACE_GATHERED | PLACE_EXTREME)) && value_may_be_kept(c->f, v);
}

static uint32_t n_copies(const Copies *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < group_at(c)->inner.n; i++) n += group_has_copy(c->f, c->g, group_at(c)->inner.data[i]);
    return n;
}

static bool can_copy(const Copies *c, IrId v)
{
    const IrType *t = &fused_op(c->f, v)->type;
    if (t->space != map_of(c)->from || !ir_dtype_is_float(t->dtype) || group_has_inner(group_at(c), v)) return false;
    if (c->f->text ? !fuse_given_copy(c->f, c->g, v) : n_copies(c) >= MOST_COPIES) return false;
    return c->f->group_of.data[v] == GROUP_NONE ? !c->all && is_in_loops(c, v) : is_read_here(c, v);
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

static void toggle(Copies *c, IrId v)
{
    IrValues *inner = &group_at(c)->inner;
    uint32_t n = 0, before = inner->n;
    for (uint32_t k = 0; k < before; k++)
        if (inner->data[k] != v) inner->data[n++] = inner->data[k];
    inner->n = n;
    if (n == before) values_insert(c->ctx->stage, inner, v);
}

/* Each copy is wanted at the elements, where it is what another kernel computes, and nowhere else. */
static bool copies_fit(Copies *c)
{
    bool fits = stage_elements(c->f, group_at(c), NULL);
    for (uint32_t i = 0; i < group_at(c)->inner.n && fits; i++) {
        IrId v = group_at(c)->inner.data[i];
        if (!group_has_copy(c->f, c->g, v)) continue;
        toggle(c, v);
        cost_kernel(&c->price, c->g);
        fits = (c->price.place[v] & PLACE_READ || c->f->group_of.data[v] == GROUP_NONE) &&
               !(c->price.place[v] & PLACE_GATHERED);
        toggle(c, v);
    }
    cost_kernel(&c->price, c->g);
    return fits;
}

static void remark(Copies *c, IrId v, bool copied, double copy, double other)
{
    const IrOp *op = fused_op(c->f, v);
    bool loops = c->f->group_of.data[v] == GROUP_NONE;
    pass_remark(
        c->ctx, PASS_fuse, copied, op->span,
        loops ? "%%%u = %s : %s, which several loops over the rows of %%%u want, is %s: %.4g ns per node so, %.4g else"
              : "%%%u = %s : %s, at elements of the rows of %%%u, is %s: %.4g ns per node so, %.4g else",
        v, ir_ops[op->op].name, ir_type_text(c->f->m, &op->type, c->ctx->stage), group_at(c)->roots.data[0],
        loops    ? copied ? "kept in an array" : "computed in each"
        : copied ? "computed again"
                 : "read",
        copied ? copy : other, copied ? other : copy);
}

static double cost_now(const Copies *c) { return c->rest + cost_around(&c->price, c->g); }

/* Makes v a copy, or no copy any more, where that costs less or a text says so. */
static bool try_move(Copies *c, IrId v)
{
    bool was = group_has_inner(group_at(c), v);
    double before = cost_now(c);
    toggle(c, v);
    cost_kernel(&c->price, c->g);
    double after = cost_now(c);
    bool moves = (c->all || c->f->text ? !was : after < before) && copies_fit(c);
    if (moves || (c->say && !was)) remark(c, v, moves != was, was ? before : after, was ? after : before);
    if (moves) return true;
    toggle(c, v);
    cost_kernel(&c->price, c->g);
    return false;
}

static bool round_of_moves(Copies *c)
{
    bool moved = false;
    for (IrId v = c->price.end; v-- > c->price.first;)
        if (c->price.place[v] && (group_has_copy(c->f, c->g, v) || can_copy(c, v))) moved |= try_move(c, v);
    return moved;
}

static void set_inner(Copies *c, const IrValues *values)
{
    group_at(c)->inner.n = 0;
    for (uint32_t i = 0; i < values->n; i++) VEC_PUSH(c->ctx->stage, &group_at(c)->inner, values->data[i]);
    cost_kernel(&c->price, c->g);
}

static IrValues inner_of(const Copies *c, Arena *a)
{
    IrValues values = {0};
    for (uint32_t i = 0; i < group_at(c)->inner.n; i++) VEC_PUSH(a, &values, group_at(c)->inner.data[i]);
    return values;
}

/* Moves from no copy, and from all of what other kernels compute: they may pay together where none pays alone. */
static void search(Copies *c, Arena *a)
{
    IrValues none = inner_of(c, a);
    cost_kernel(&c->price, c->g);
    c->rest = cost_function(&c->price) - cost_around(&c->price, c->g);
    c->say = false;
    c->all = true;
    bool any = round_of_moves(c);
    while (any && round_of_moves(c)) {}
    c->all = false;
    while (round_of_moves(c)) {}
    if (any) {
        double cost = cost_now(c);
        IrValues many = inner_of(c, a);
        set_inner(c, &none);
        while (round_of_moves(c)) {}
        if (cost < cost_now(c)) set_inner(c, &many);
    }
    group_find_deps(c->f, c->g, c->ctx->stage);
    c->say = c->ctx->keep_remarks;
    if (c->say) round_of_moves(c);
}

void fuse_copy(PassContext *ctx, FusedFunc *f)
{
    Arena *scratch = arena_new();
    Copies c = {.ctx = ctx, .f = f, .price = cost_groups(f, scratch)};
    for (c.g = 0; c.g < f->groups.n; c.g++) {
        const Group *g = group_at(&c);
        if (g->dead || g->kind != GROUP_ROWS || g->map == IR_NONE) continue;
        if (map_of(&c)->partial || map_of(&c)->from == map_of(&c)->to || map_of(&c)->to == IR_UNIT) continue;
        search(&c, scratch);
    }
    arena_free(scratch);
}
