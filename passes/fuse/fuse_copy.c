/* Values at elements that several kernels want, computed in each: where a kernel reads a value of its elements from
   memory, it may become an inner value there too (fuse_stage.c), made again of what is known per row.

     by destination: %5 = exp(%3 - gather %4), and its sum    %5 stored, and read through a list by the sum over the other map
     by source:      sum of %5 * gather x                     or: %5 computed again of %4 and what %3 is made of

   Which of them costs less: for each kernel the sets of values that could be made there are priced, with what has to be
   stored then. A list leads to elements in no order, a cache line each; what has a row per node mostly stays in a
   cache. It copies no sum over a map and no product with rows of its own, draws no random number twice, and changes no
   bit. */
#include "ir/order.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/cost.h"
#include "passes/context/price.h"
#include "passes/context/rows.h"

enum { MAX_CANDIDATES = 5, MAX_CONE = 400 };
/* a value of edges that is stored for one kernel's sake costs so many times its write */
static const double KEEP_FACTOR = 2;

typedef enum { AT_ELEMENT, AT_ROW, ELSEWHERE } At; /* of the kernel: its elements, its row, a row that is gathered */

typedef struct Copies {
    PassContext *ctx;
    FusedFunc *f;
    Arena *scratch;
    GroupReads *reads; /* by group */
    uint32_t g;        /* the kernel in question: a group of rows */
    IrId candidates[MAX_CANDIDATES];
    uint32_t n;
    uint32_t set;  /* of candidates, that are copied */
    uint8_t *seen; /* by value: bits of At */
    /* seen: all that inner values are made of. Prices leave it out where roots read those values, which the rates and
       factors are fitted to */
    bool whole;
    double ns, part; /* part: of what is read now, one of so many places is */
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
    const GroupReads *r = &c->reads[c->g];
    c->n = 0;
    for (uint32_t i = 0; i < r->reads.n; i++)
        if (r->reads.data[i].element) add_candidate(c, r->reads.data[i].v);
    for (uint32_t i = 0; i < c->n; i++) add_below(c, c->candidates[i], true);
}

/* ---- price ------------------------------------------------------------------------------------------------------- */

static bool is_copied(const Copies *c, IrId v)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->candidates[i] == v) return c->set >> i & 1;
    return false;
}

static double rows_at(const Copies *c, At at)
{
    return cost_rows(c->f->m, at == AT_ROW ? map_of(c)->to : map_of(c)->from);
}

static double bytes_of(const Copies *c, IrId v)
{
    const IrType *t = &fused_op(c->f, v)->type;
    return (double)ir_type_width(c->f->m, t) * (double)ir_dtype_bytes(t->dtype);
}

/* Some other kernel reads it from memory, or it is a result. */
static bool is_stored_anyway(const Copies *c, IrId v)
{
    const FusedFunc *f = c->f;
    for (uint32_t i = 0; i < f->f->results.n; i++)
        if (f->f->results.data[i].value == v) return true;
    for (uint32_t g = 0; g < f->groups.n; g++) {
        if (f->groups.data[g].dead || g == c->g || g == f->group_of.data[v]) continue;
        for (uint32_t i = 0; i < c->reads[g].reads.n; i++)
            if (c->reads[g].reads.data[i].v == v) return true;
    }
    return false;
}

static void add_load(Copies *c, IrId v, At at)
{
    const IrOp *op = fused_op(c->f, v);
    if (op->type.space == IR_UNIT) return;
    double bytes = bytes_of(c, v) / c->part;
    bool many = has_many_rows(c->f->m, op->type.space);
    double ns = price_stream(c->f->machine, bytes), patience = op->op == IR_OP_arg ? 1 : cost_patience(c->f, v);
    if (op->op != IR_OP_arg && !is_stored_anyway(c, v))
        c->ns += cost_write(c->f, v) * (many ? KEEP_FACTOR : 1) * patience;
    if (at == ELSEWHERE) ns = price_gather(c->f->machine, bytes);
    else if (at == AT_ELEMENT && !map_of(c)->sorted) ns = price_listed(c->f->machine, bytes);
    c->ns += ns * rows_at(c, at) * patience;
}

/* By vectors of its own, which may not be full; a value without dims may have to be computed one by one. */
static void add_flops(Copies *c, IrId v, At at)
{
    const IrOp *op = fused_op(c->f, v);
    const IrType *t = &op->type;
    if (t->space == IR_UNIT) return;
    bool inside = group_kind_of(c->f->f, c->f->m, v) == GROUP_DIMS;
    double width = (double)ir_type_width(c->f->m, t), sums = 1;
    IrId dims[2 * IR_MAX_DIMS];
    for (unsigned n = inside ? reduced_dims(c->f->f, op, dims) : 0; n-- > 0;)
        sums *= (double)c->f->m->dims.data[dims[n]].size;
    double all = width * sums + (inside ? width * ORDER_PARTIALS : 0);
    c->ns += price_inner(c->f->machine, width * sums, all * ir_ops[op->op].flops) * rows_at(c, at);
}

static void price(Copies *c, IrId v, At at, bool top)
{
    const IrOp *op = fused_op(c->f, v);
    if (c->seen[v] & 1 << at && !(top && c->whole)) return;
    c->seen[v] |= (uint8_t)(1 << at);
    uint32_t own = c->f->group_of.data[v];
    if (!top && (own == c->g || group_has_inner(&c->f->groups.data[c->g], v))) return;
    if (!top && (op->op == IR_OP_arg || (own != GROUP_NONE && !is_copied(c, v)))) {
        add_load(c, v, at);
        return;
    }
    GroupKind kind = group_kind_of(c->f->f, c->f->m, v);
    if (kind != GROUP_ROWS) add_flops(c, v, at);
    else at = AT_ELEMENT;
    if (op->op == IR_OP_gather)
        at = at == AT_ELEMENT && op->attr.map == c->f->groups.data[c->g].map ? AT_ROW : ELSEWHERE;
    double part = c->part;
    if (op->op == IR_OP_at) c->part *= (double)c->f->m->dims.data[op->attr.dim].size;
    for (uint32_t k = 0; k < op->n_args; k++) price(c, op->args[k], at, false);
    c->part = part;
}

/* The kernel with that set: ns per node. */
static double price_of(Copies *c, uint32_t set)
{
    const Group *g = &c->f->groups.data[c->g];
    memset(c->seen, 0, c->f->f->ops.n);
    c->set = set;
    c->part = 1;
    c->ns = 0;
    for (uint32_t i = 0; i < g->roots.n; i++) price(c, g->roots.data[i], AT_ROW, true);
    for (uint32_t i = 0; i < g->inner.n; i++) price(c, g->inner.data[i], AT_ELEMENT, true);
    return c->ns;
}

/* ---- the choice
   --------------------------------------------------------------------------------------------------- */

/* Every copy of the set is wanted, at the elements and nowhere else. */
static bool set_fits(Copies *c, uint32_t set)
{
    c->whole = true;
    price_of(c, set);
    c->whole = false;
    for (uint32_t i = 0; i < c->n; i++)
        if (set >> i & 1 && c->seen[c->candidates[i]] != 1 << AT_ELEMENT) return false;
    return true;
}

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

static void remark(Copies *c, IrId v, bool taken, double stored, double again)
{
    const IrOp *op = fused_op(c->f, v);
    pass_remark(c->ctx, PASS_fuse, taken, op->span,
                "%%%u = %s : %s %s the rows of %%%u: %.3g ns per node read, %.3g again", v, ir_ops[op->op].name,
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
        if (!set_fits(c, set)) continue;
        double ns = price_of(c, set);
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
    if (!choice) return;
    take_set(c, choice);
    group_find_deps(c->f, c->g, c->ctx->stage);
    c->reads[c->g].reads.n = 0;
    group_reads(c->f, c->g, c->scratch, &c->reads[c->g]);
}

void fuse_copy(PassContext *ctx, FusedFunc *f)
{
    Arena *scratch = arena_new();
    Copies c = {.ctx = ctx,
                .f = f,
                .scratch = scratch,
                .reads = ARENA_ARRAY(scratch, GroupReads, f->groups.n + 1),
                .seen = ARENA_ARRAY(scratch, uint8_t, f->f->ops.n + 1)};
    for (uint32_t g = 0; g < f->groups.n; g++)
        if (!f->groups.data[g].dead) group_reads(f, g, scratch, &c.reads[g]);
    for (c.g = 0; c.g < f->groups.n; c.g++) {
        const Group *g = &f->groups.data[c.g];
        if (g->dead || g->kind != GROUP_ROWS || g->map == IR_NONE) continue;
        if (map_of(&c)->partial || map_of(&c)->from == map_of(&c)->to || map_of(&c)->to == IR_UNIT) continue;
        find_candidates(&c);
        if (c.n) choose(&c);
    }
    arena_free(scratch);
}
