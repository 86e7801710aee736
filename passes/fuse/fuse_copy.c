/* Values at elements that several kernels want, computed in each: where a kernel reads a value of its elements from
   memory, it may become an inner value there too (fuse_stage.c), made again of what is known per row.

     by destination: %5 = exp(%3 - gather %4), and its sum    %5 stored, and read through a list by the sum over the other map
     by source:      sum of %5 * gather x                     or: %5 computed again of %4 and what %3 is made of

   Which of them costs less: for each kernel the sets of values that could be made there are tried, and the function is
   priced with each (cost.c). It copies no sum over a map and no product with rows of its own, draws no random number twice, and changes no
   bit. */
#include "passes/fuse/fuse.h"
#include "passes/fuse/cost.h"

enum { MAX_CANDIDATES = 5, MAX_CONE = 400 };

typedef struct Copies {
    PassContext *ctx;
    FusedFunc *f;
    Price price;
    uint32_t g; /* the kernel in question: a group of rows */
    IrId candidates[MAX_CANDIDATES];
    uint32_t n;
} Copies;

/* ---- what could be copied -------------------------------------------------------------------------------------- */

static const IrMap *map_of(const Copies *c) { return &c->f->m->maps.data[c->f->groups.data[c->g].map]; }

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

/* A value at the kernel's elements that another kernel computes, pointwise or as a sum inside the row. */
static bool can_copy(const Copies *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    uint32_t own = c->f->group_of.data[v];
    if (own == GROUP_NONE || own == c->g || group_has_inner(&c->f->groups.data[c->g], v)) return false;
    if (op->type.space != map_of(c)->from || op->type.dtype == IR_BOOL || !ir_dtype_is_float(op->type.dtype))
        return false;
    GroupKind kind = group_kind_of(c->f->f, c->f->m, v);
    Cone cone = {c->f, 0};
    return (kind == GROUP_MAP || kind == GROUP_DIMS) && cone_is_plain(&cone, v, true);
}

static void add_candidate(Copies *c, IrId v)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->candidates[i] == v) return;
    if (c->n < MAX_CANDIDATES && can_copy(c, v)) c->candidates[c->n++] = v;
}

/* Those that v is computed from at the same element. */
static void add_below(Copies *c, IrId v, bool top)
{
    const IrOp *op = fused_op(c->f, v);
    if (!top && c->f->group_of.data[v] != GROUP_NONE) {
        add_candidate(c, v);
        return;
    }
    if (op->op == IR_OP_gather) return;
    for (uint32_t k = 0; k < op->n_args; k++) add_below(c, op->args[k], false);
}

static void find_candidates(Copies *c)
{
    const GroupReads *r = &c->price.reads[c->g];
    c->n = 0;
    for (uint32_t i = 0; i < r->reads.n; i++)
        if (r->reads.data[i].element) add_candidate(c, r->reads.data[i].v);
    for (uint32_t i = 0; i < c->n; i++) add_below(c, c->candidates[i], true);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static void take_set(Copies *c, uint32_t set)
{
    Group *g = &c->f->groups.data[c->g];
    for (uint32_t i = 0; i < c->n; i++)
        if (set >> i & 1) values_insert(c->ctx->stage, &g->inner, c->candidates[i]);
}

static void drop_set(Copies *c, uint32_t set)
{
    IrValues *inner = &c->f->groups.data[c->g].inner;
    uint32_t n = 0;
    for (uint32_t k = 0; k < inner->n; k++) {
        bool drop = false;
        for (uint32_t i = 0; i < c->n; i++) drop |= (set >> i & 1) && c->candidates[i] == inner->data[k];
        if (!drop) inner->data[n++] = inner->data[k];
    }
    inner->n = n;
}

/* Beside the others of the set each copy is wanted, at the elements and nowhere else. */
static bool set_fits(Copies *c, uint32_t set)
{
    bool fits = true;
    for (uint32_t i = 0; i < c->n && fits; i++) {
        if (!(set >> i & 1)) continue;
        Arena *scratch = arena_new();
        GroupReads reads = {0};
        bool wanted = false;
        take_set(c, set & ~(1u << i));
        group_reads(c->f, c->g, scratch, &reads);
        drop_set(c, set);
        for (uint32_t k = 0; k < reads.reads.n; k++) {
            if (reads.reads.data[k].v != c->candidates[i]) continue;
            wanted = true;
            fits &= reads.reads.data[k].element;
        }
        fits &= wanted;
        arena_free(scratch);
    }
    return fits;
}

/* The function with the copies of that set, in ns per node. */
static double price_of(Copies *c, uint32_t set)
{
    take_set(c, set);
    cost_kernel(&c->price, c->g);
    drop_set(c, set);
    return cost_function(&c->price);
}

static void remark(Copies *c, IrId v, bool taken, double stored, double again)
{
    const IrOp *op = fused_op(c->f, v);
    pass_remark(c->ctx, PASS_fuse, taken, op->span,
                "%%%u = %s : %s %s the rows of %%%u: %.4g ns per node read, %.4g again", v, ir_ops[op->op].name,
                ir_type_text(c->f->m, &op->type, c->ctx->stage), taken ? "is computed again inside" : "is read by",
                c->f->groups.data[c->g].roots.data[0], stored, again);
}

/* The copies that a text wants, if the kernel can have them. */
static uint32_t given_set(Copies *c)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < c->n; i++) set |= (uint32_t)fuse_given_copy(c->f, c->g, c->candidates[i]) << i;
    if (!set || !set_fits(c, set)) return 0;
    take_set(c, set);
    bool fits = stage_elements(c->f, &c->f->groups.data[c->g], NULL);
    drop_set(c, set);
    return fits ? set : 0;
}

static uint32_t best_set(Copies *c)
{
    double stored = price_of(c, 0), best = stored, other = 0;
    uint32_t choice = 0;
    for (uint32_t set = 1; set < 1u << c->n; set++) {
        double ns = price_of(c, set);
        if ((other != 0 && ns >= other && ns >= best) || !set_fits(c, set)) continue;
        if (other == 0 || ns < other) other = ns;
        if (ns >= best) continue;
        take_set(c, set);
        if (stage_elements(c->f, &c->f->groups.data[c->g], NULL)) best = ns, choice = set;
        drop_set(c, set);
    }
    for (uint32_t i = 0; i < c->n && other != 0; i++)
        remark(c, c->candidates[i], choice >> i & 1, stored, choice ? best : other);
    return choice;
}

static void choose(Copies *c)
{
    uint32_t choice = c->f->text ? given_set(c) : best_set(c);
    take_set(c, choice);
    group_find_deps(c->f, c->g, c->ctx->stage);
    cost_kernel(&c->price, c->g);
}

void fuse_copy(PassContext *ctx, FusedFunc *f)
{
    Arena *scratch = arena_new();
    Copies c = {.ctx = ctx, .f = f, .price = cost_groups(f, scratch)};
    for (c.g = 0; c.g < f->groups.n; c.g++) {
        const Group *g = &f->groups.data[c.g];
        if (g->dead || g->kind != GROUP_ROWS || g->map == IR_NONE) continue;
        if (map_of(&c)->partial || map_of(&c)->from == map_of(&c)->to || map_of(&c)->to == IR_UNIT) continue;
        find_candidates(&c);
        if (c.n) choose(&c);
    }
    arena_free(scratch);
}
