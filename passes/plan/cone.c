/* cone: of a loss over few rows, which rows of each kernel it needs. Walks the groups of a function backwards from its
   results: a kernel computes the rows that later ones read and that are not surely 0.

     %9 = select train_mask, %8, 0       the kernel of %8: rows of train_mask
     %8 = reduce_sum(gather %7 via src) via dst        that of %7: rows from which an edge leads there
     d7 = reduce_sum(gather d8 via dst) via src        its gradient: the same rows, and their edges that lead there

   Sets are formulas of masks and maps (PlanSet): what they hold is known when a graph is loaded, and the runtime
   computes rows of them where that pays (runtime/cone.c). Rows that are left out hold 0 for good: right where the
   support says so, and read by nobody elsewhere, or as an operand whose value does not matter as long as it is finite.
   Changes no kernel, and no bit of a result where what is multiplied by 0 is finite and what divides 0 is not 0. */
#include "passes/plan/cone.h"
#include "base/ice.h"

static const IrMap *map_at(const Cone *c, IrId map) { return &c->f->m->maps.data[map]; }

/* ---- signs of zeros ---------------------------------------------------------------------------------------------- */

/* Is something summed, so that a zero has no sign behind op? */
static bool is_sum(const Cone *c, const IrOp *op)
{
    bool summed = false;
    if (op->op == IR_OP_reduce_sum || op->op == IR_OP_sum_dims) return true;
    for (unsigned k = 0; op->op == IR_OP_contract && k < 2; k++) {
        IrType t = fused_op(c->f, op->args[k])->type;
        summed |= t.space != op->type.space && t.space != IR_UNIT;
        for (unsigned i = 0; i < t.n_dims; i++) summed |= !ir_type_has_dim(&op->type, t.dims[i]);
    }
    return summed;
}

static void find_bare(Cone *c)
{
    for (uint32_t i = 0; i < c->f->f->results.n; i++) c->bare[c->f->f->results.data[i].value] = true;
    for (IrId v = c->f->f->ops.n; v-- > 0;) {
        const IrOp *op = fused_op(c->f, v);
        for (uint32_t k = 0; k < op->n_args && c->bare[v] && !is_sum(c, op); k++) c->bare[op->args[k]] = true;
    }
}

/* ---- operands that do not matter --------------------------------------------------------------------------------- */

typedef struct Leaves { /* of an operand: values of rows that other kernels store, and that the caller gives */
    unsigned n, n_given, n_seen;
    bool finite;
} Leaves;
enum { MOST_SEEN = 300 };

static bool is_own(const Cone *c, IrId v) { return c->f->group_of.data[v] == c->g || group_has_copy(c->f, c->g, v); }

/* Whether v is finite, where some of the values it is made of are 0 instead of what they should be. exp of a difference
   is not, unless both sides come from one row. */
static void find_leaves(const Cone *c, IrId v, Leaves *l)
{
    const IrOp *op = fused_op(c->f, v);
    if (++l->n_seen > MOST_SEEN) l->finite = false;
    if (!l->finite || op->type.space == IR_UNIT) return;
    if (op->op == IR_OP_arg) {
        l->n_given++;
        return;
    }
    if (c->f->group_of.data[v] != GROUP_NONE && !is_own(c, v)) {
        l->n++;
        l->finite = !c->loose[v];
        return;
    }
    if (ir_ops[op->op].traits & T_POLE) {
        l->finite = false;
        return;
    }
    for (uint32_t k = 0; k < op->n_args; k++) find_leaves(c, op->args[k], l);
    if ((op->op == IR_OP_exp || op->op == IR_OP_expm1) && l->n && l->n + l->n_given > 1) l->finite = false;
}

static bool is_finite(const Cone *c, IrId v)
{
    Leaves l = {.finite = true};
    find_leaves(c, v, &l);
    return l.finite;
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static void want(Cone *c, IrId v, uint32_t rows);

static void want_arg(Cone *c, IrId v, IrId space, uint32_t rows)
{
    want(c, v, fused_op(c->f, v)->type.space == space ? rows : PLAN_SET_ALL);
}

/* Of a product: where one factor is 0 the other only has to be finite. */
static void want_product(Cone *c, const IrOp *op, IrId space, uint32_t rows)
{
    for (unsigned k = 0; k < 2; k++) {
        IrId x = op->args[k], y = op->args[1 - k];
        if (fused_op(c->f, x)->type.space != space || c->support[x] == PLAN_SET_ALL || !is_finite(c, y)) continue;
        want(c, x, rows);
        want_arg(c, y, space, cone_both(c, rows, c->support[x]));
        return;
    }
    for (unsigned k = 0; k < 2; k++) want_arg(c, op->args[k], space, rows);
}

/* Of a choice between 0 and 0 the condition does not matter. */
static void want_select(Cone *c, const IrOp *op, uint32_t rows)
{
    const IrId *x = op->args;
    IrId space = op->type.space;
    const IrOp *cond = fused_op(c->f, x[0]);
    uint32_t some[3], choice = cone_empty(c);
    for (unsigned k = 1; k < 3; k++) {
        const IrOp *y = fused_op(c->f, x[k]);
        bool zero = y->op == IR_OP_const && y->attr.f == 0;
        some[k] = zero ? cone_empty(c) : y->type.space == space ? c->support[x[k]] : PLAN_SET_ALL;
        choice = cone_either(c, choice, some[k]);
    }
    uint32_t yes = cond->type.space == space ? c->support[x[0]] : PLAN_SET_ALL, no = PLAN_SET_ALL;
    if (cond->op == IR_OP_not && fused_op(c->f, cond->args[0])->type.space == space) no = c->support[cond->args[0]];
    want_arg(c, x[0], space, cone_both(c, rows, choice));
    want_arg(c, x[1], space, cone_both(c, rows, yes));
    want_arg(c, x[2], space, cone_both(c, rows, no));
}

static void want_operands(Cone *c, IrId v, uint32_t rows)
{
    const IrOp *op = fused_op(c->f, v);
    bool product = op->op == IR_OP_mul || op->op == IR_OP_contract, sign = c->bare[v] && !is_sum(c, op);
    if (product && !sign) {
        want_product(c, op, op->type.space, rows);
    } else if (op->op == IR_OP_select && !sign) {
        want_select(c, op, rows);
    } else if (op->op == IR_OP_gather) {
        want(c, op->args[0], cone_image(c, op->attr.map, rows));
    } else {
        if (ir_ops[op->op].attrs & A_MAP) rows = PLAN_SET_ALL; /* ranks: of all elements of a row */
        for (uint32_t k = 0; k < op->n_args; k++) want_arg(c, op->args[k], op->type.space, rows);
    }
}

static bool was_wanted(Cone *c, IrId v, uint32_t rows)
{
    for (uint32_t i = 0; i < c->visits.n; i++)
        if (c->visits.data[i].v == v && c->visits.data[i].rows == rows) return true;
    VEC_PUSH(c->ctx->stage, &c->visits, ((struct ConeVisit){v, rows}));
    return false;
}

/* These rows of v must be right, as the group c->g computes or reads them. */
static void want(Cone *c, IrId v, uint32_t rows)
{
    const IrOp *op = fused_op(c->f, v);
    uint32_t own = c->f->group_of.data[v];
    if (op->op == IR_OP_arg || (op->type.space == IR_UNIT && own != GROUP_NONE)) return; /* always whole */
    if (is_own(c, v)) c->here[v] = cone_either(c, c->here[v], rows);                     /* followed by itself, later */
    else if (own != GROUP_NONE) c->wanted[v] = cone_either(c, c->wanted[v], rows);
    else if (!was_wanted(c, v, rows)) want_operands(c, v, rows);
}

/* ---- one group --------------------------------------------------------------------------------------------------- */

/* The group's one step, if its rows can be left out: nothing but arena buffers is written, each of them by it alone. */
static PlanStep *step_of(const Cone *c, const Group *g)
{
    PlanStep *found = NULL;
    for (uint32_t i = 0; i < c->p->steps.n; i++) {
        if (c->p->steps.data[i].group != c->g) continue;
        if (found) return NULL;
        found = &c->p->steps.data[i];
    }
    if (!found || g->kind == GROUP_BLOCKS || g->kind > GROUP_CONCAT || found->extent.space != g->space) return NULL;
    /* only sums of all rows bound their number */
    ICE_UNLESS(found->extent.kind != PLAN_BLOCKS || found->extent.max == INT64_MAX);
    return found->extent.kind == PLAN_COUNT || found->extent.kind == PLAN_BLOCKS ? found : NULL;
}

static bool shares_memory(const FusedFunc *f, IrId v)
{
    for (IrId u = 0; u < f->f->ops.n; u++)
        if (u != v && f->group_of.data[u] != GROUP_NONE && f->stored.data[u] && f->home.data[u] == f->home.data[v])
            return true;
    return false;
}

/* Rows of the iterations at which one stored value of the group is wanted, or is wanted and may not be 0. */
static void add_output(Cone *c, const Group *g, IrId v, PlanCone *cone)
{
    ICE_UNLESS(c->f->stored.data[v]);
    uint32_t right = c->wanted[v], rows = cone_both(c, right, c->support[v]);
    if (c->bare[v] || shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;
    IrId space = fused_op(c->f, v)->type.space;
    if (space != g->space) { /* at elements of the rows */
        bool element = g->map != IR_NONE && map_at(c, g->map)->from == space && space != IR_UNIT;
        right = element ? cone_image(c, g->map, right) : PLAN_SET_ALL;
        rows = element ? cone_image(c, g->map, rows) : PLAN_SET_ALL;
    }
    cone->right = cone_either(c, cone->right, right);
    cone->rows = cone_either(c, cone->rows, rows);
}

static bool is_output(const Cone *c, IrId v) { return c->f->stored.data[v] && !group_has_copy(c->f, c->g, v); }

/* Elements at which some sum of the group takes in anything but 0, or a stored value is wanted. */
static uint32_t walk_of(Cone *c, const Group *g)
{
    uint32_t walk = cone_empty(c);
    if (g->kind != GROUP_ROWS || map_at(c, g->map)->sorted) return PLAN_SET_ALL;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const IrOp *op = fused_op(c->f, g->roots.data[i]);
        if (!(ir_ops[op->op].traits & T_REDUCE)) continue;
        walk = cone_either(c, walk, op->op == IR_OP_reduce_sum ? c->support[op->args[0]] : PLAN_SET_ALL);
    }
    for (uint32_t i = 0; i < g->inner.n; i++) {
        IrId v = g->inner.data[i];
        if (is_output(c, v)) walk = cone_either(c, walk, cone_both(c, c->wanted[v], c->support[v]));
    }
    return cone_walk(c, g->map, walk);
}

static void place_cone(Cone *c, const Group *g, PlanStep *step)
{
    PlanCone cone = {cone_empty(c), cone_empty(c), PLAN_SET_ALL};
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (is_output(c, g->roots.data[i])) add_output(c, g, g->roots.data[i], &cone);
    for (uint32_t i = 0; i < g->inner.n; i++)
        if (is_output(c, g->inner.data[i])) add_output(c, g, g->inner.data[i], &cone);
    if (step->extent.kind == PLAN_COUNT) cone.right = cone.rows;
    if (cone.rows == PLAN_SET_ALL) return;
    if (step->cut == g->map) cone.walk = walk_of(c, g);
    step->cone = cone;
}

/* rows and elements at which a group's values may have to be right; whole: it computes others too */
typedef struct Reach {
    uint32_t rows, elements;
    bool whole;
} Reach;

/* What the group reads for v. */
static void want_of(Cone *c, const Group *g, IrId v, const Reach *reach)
{
    const IrOp *op = fused_op(c->f, v);
    bool inner = group_has_inner(g, v);
    uint32_t all = inner ? reach->elements : reach->rows, right = c->here[v];
    if (is_output(c, v)) right = cone_either(c, right, c->wanted[v]);
    if (is_output(c, v) && (c->bare[v] || op->type.space == IR_UNIT)) right = PLAN_SET_ALL;
    right = cone_both(c, right, all);
    if (!c->loose[v] && right != (reach->whole ? PLAN_SET_ALL : all) && !is_finite(c, v))
        c->loose[v] = c->loosened = true;
    if (g->kind == GROUP_BLOCKS && !inner) {
        if (ir_ops[op->op].traits & T_REDUCE) want(c, op->args[0], PLAN_SET_ALL);
        else want_product(c, op, g->space, PLAN_SET_ALL);
    } else if (!inner && ir_ops[op->op].traits & T_REDUCE) {
        want(c, op->args[0], cone_both(c, cone_origin(c, g->map, right), reach->elements));
    } else {
        want_operands(c, v, right);
    }
}

/* From the last value to the first: what later ones of the group read of a value is known when it is its turn. */
static void want_all(Cone *c, const Group *g, const Reach *reach)
{
    uint32_t i = g->roots.n, k = g->inner.n;
    while (i || k) {
        bool root = i && (!k || g->roots.data[i - 1] > g->inner.data[k - 1]);
        want_of(c, g, root ? g->roots.data[--i] : g->inner.data[--k], reach);
    }
}

static void one_group(Cone *c, uint32_t id)
{
    ICE_UNLESS(!c->f->groups.data[id].dead);
    const Group *g = &c->f->groups.data[id];
    c->g = id;
    c->visits.n = 0;
    for (IrId v = 0; v < c->f->f->ops.n; v++) c->here[v] = cone_empty(c);
    PlanStep *step = step_of(c, g);
    if (step) place_cone(c, g, step);
    Reach reach = {step ? step->cone.right : PLAN_SET_ALL, PLAN_SET_ALL, step && step->extent.kind == PLAN_BLOCKS};
    if (g->kind == GROUP_ROWS) {
        reach.elements = cone_origin(c, g->map, reach.rows);
        if (step) reach.elements = cone_both(c, reach.elements, step->cone.walk);
    }
    want_all(c, g, &reach);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void forget(Cone *c)
{
    for (uint32_t i = 0; i < c->p->steps.n; i++)
        c->p->steps.data[i].cone = (PlanCone){PLAN_SET_ALL, PLAN_SET_ALL, PLAN_SET_ALL};
    c->p->sets.n = 0;
}

enum { TEXT_DEPTH = 4 };

/* A set for people: src(dst in train_mask). */
static const char *text_of(const Cone *c, uint32_t s, unsigned depth)
{
    Arena *a = c->ctx->stage;
    const PlanSet *x = &c->p->sets.data[s];
    if (depth == TEXT_DEPTH) return "...";
    switch (x->kind) {
    case PLAN_SET_MASK: return c->f->m->tensors.data[x->ref].name;
    case PLAN_SET_IMAGE: return arena_printf(a, "%s(%s)", map_at(c, x->ref)->name, text_of(c, x->a, depth + 1));
    case PLAN_SET_ORIGIN: return arena_printf(a, "%s in %s", map_at(c, x->ref)->name, text_of(c, x->a, depth + 1));
    case PLAN_SET_EITHER: return arena_printf(a, "%s or %s", text_of(c, x->a, depth + 1), text_of(c, x->b, depth + 1));
    case PLAN_SET_BOTH: return arena_printf(a, "%s and %s", text_of(c, x->a, depth + 1), text_of(c, x->b, depth + 1));
    case PLAN_SET_WALK: return text_of(c, x->a, depth);
    default: return "none";
    }
}

/* Buffers of values whose steps may leave rows out. */
static void name_writers(Cone *c, const uint32_t *buffer_of)
{
    for (uint32_t i = 0; i < c->p->steps.n; i++) {
        const PlanStep *s = &c->p->steps.data[i];
        if (s->cone.rows == PLAN_SET_ALL) continue;
        ICE_UNLESS(s->cone.rows < c->p->sets.n);
        for (IrId v = 0; v < c->f->f->ops.n; v++)
            if (c->f->group_of.data[v] == s->group && c->f->stored.data[v]) c->p->buffers.data[buffer_of[v]].writer = i;
        pass_remark(c->ctx, PASS_cone, true, s->span, "`%s` needs the rows %s: others are left out where that pays",
                    s->label, text_of(c, s->cone.rows, 0));
    }
}

/* All groups, the last first, as if what is not yet known to be loose never were. */
static void all_groups(Cone *c)
{
    forget(c);
    cone_supports(c);
    c->loosened = false;
    for (IrId v = 0; v < c->f->f->ops.n; v++) {
        bool route = fused_op(c->f, v)->op == IR_OP_route;
        c->wanted[v] = route ? PLAN_SET_ALL : cone_empty(c); /* a map's arrays may be read at any row */
    }
    for (uint32_t i = c->f->order.n; i-- > 0;) one_group(c, c->f->order.data[i]);
}

void cone_program(PassContext *ctx, const FusedFunc *f, PlanProgram *p, const uint32_t *buffer_of)
{
    uint32_t n = f->f->ops.n;
    Cone c = {.ctx = ctx,
              .f = f,
              .p = p,
              .support = ARENA_ARRAY(ctx->stage, uint32_t, n + 1),
              .wanted = ARENA_ARRAY(ctx->stage, uint32_t, n + 1),
              .here = ARENA_ARRAY(ctx->stage, uint32_t, n + 1),
              .loose = ARENA_ARRAY(ctx->stage, bool, n + 1),
              .bare = ARENA_ARRAY(ctx->stage, bool, n + 1)};
    cone_supports(&c);
    find_bare(&c);
    bool some = false, computed = false;
    for (IrId v = 0; v < n; v++) {
        bool route = fused_op(f, v)->op == IR_OP_route;
        computed |= route && !f->m->spaces.data[map_at(&c, fused_op(f, v)->attr.map)->to].has_dim;
        some |= c.support[v] != PLAN_SET_ALL && p->sets.data[c.support[v]].kind != PLAN_SET_EMPTY;
    }
    if (some && computed)
        pass_remark(ctx, PASS_cone, false, (Span){0},
                    "all rows are computed: what edges there are is known in each run only");
    some &= !computed;
    /* A group asks what its operands may be before their own groups are looked at: where one turns out loose, all ask
       again. */
    do {
        if (some) all_groups(&c);
    } while (some && c.loosened && !c.failed);
    if (c.failed) pass_remark(ctx, PASS_cone, false, (Span){0}, "too many sets of rows: all are computed");
    if (!some || c.failed) forget(&c);
    else name_writers(&c, buffer_of);
}
