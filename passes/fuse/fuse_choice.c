/* Which values get memory of their own. Reductions, products and results must have it; any other value is computed
   inside the kernels that want it, unless memory is cheaper than computing it again in each of them.

     %11 = relu(gather %x) : edge[64]     wanted by 3 kernels: computed in each, no tensor of edges and features
     %28 = exp %27 : edge[8]              wanted by 2, in one of them one at a time: stored

   passes/fuse/cost.c knows what either costs. A mask of random numbers is never stored: the same site gives the same
   bits wherever it is drawn. It never clones a sum or a product, and orders nothing. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/cost.h"
#include "passes/context/rows.h"

enum { MAX_CHAIN = 100, MAX_USES = 8, MAX_ROUNDS = 5, MAX_LOOK = 24 };

typedef struct Uses { /* of a value: the groups that want it */
    CostUse use[MAX_USES];
    uint32_t n;
    bool too_many;
    bool product; /* read by a matmul or by a sum over rows, many times */
    bool table;   /* of the unit space and read in every row */
} Uses;

typedef struct Choice {
    PassContext *ctx;
    FusedFunc *f;
    Cost cost;
    Uses *uses;
    bool *forced;        /* by value: must have memory */
    const bool *again;   /* by value without clones: computed again whatever it costs; or NULL */
    const bool *between; /* by value: fuse_find_between */
    bool *mask;          /* by value: random numbers and scalars alone */
    uint32_t *depth;     /* of the tree below a value */
} Choice;

/* ---- values that must have memory ----------------------------------------------------------------------- */

static void make_root(Choice *c, IrId v)
{
    if (c->f->group_of.data[v] == GROUP_NONE && fused_op(c->f, v)->op != IR_OP_arg) group_new(c->f, c->ctx->stage, v);
}

/* The group of v, which still is of v alone, is given up. */
static void drop_root(Choice *c, IrId v)
{
    Group *g = &c->f->groups.data[c->f->group_of.data[v]];
    ICE_UNLESS(g->roots.n == 1 && g->roots.data[0] == v && !g->dead);
    g->dead = true;
    c->f->group_of.data[v] = GROUP_NONE;
}

static void force(Choice *c, IrId v)
{
    make_root(c, v);
    c->forced[v] = true;
}

/* What a reshape reads must lie in memory, unless it only renames dims. */
static void force_reshape_operand(Choice *c, const IrOp *op)
{
    if (reshape_is_rename(c->f->m, &fused_op(c->f, op->args[0])->type, &op->type)) return;
    force(c, fused_storage(c->f, op->args[0]));
}

/* Chains end somewhere: a kernel is walked recursively. */
static void cut_chain(Choice *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    uint32_t depth = 0;
    if (op->op == IR_OP_arg || op_is_heavy(c->f->m, c->f->f, v)) return;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (c->depth[op->args[k]] > depth) depth = c->depth[op->args[k]];
    c->depth[v] = depth + 1;
    if (op->op == IR_OP_reshape || c->depth[v] < MAX_CHAIN) return;
    force(c, v);
    c->depth[v] = 0;
}

static void force_roots(Choice *c)
{
    const IrFunc *f = c->f->f;
    for (uint32_t i = 0; i < f->results.n; i++) force(c, f->results.data[i].value);
    for (IrId v = 0; v < f->ops.n; v++)
        if (c->ctx->disabled[PASS_fuse] || op_is_heavy(c->f->m, f, v) || ir_op_narrows(f, &f->ops.data[v])) force(c, v);
    for (IrId v = 0; v < f->ops.n; v++) /* what these read lies in memory */
        for (uint32_t k = 0; f->ops.data[v].op == IR_OP_nearest || f->ops.data[v].op == IR_OP_route; k++) {
            if (k == f->ops.data[v].n_args) break;
            force(c, fused_storage(c->f, f->ops.data[v].args[k]));
        }
    for (IrId v = 0; v < f->ops.n; v++) cut_chain(c, v);
    for (IrId v = 0; v < f->ops.n; v++)
        if (f->ops.data[v].op == IR_OP_reshape) force_reshape_operand(c, &f->ops.data[v]);
}

/* Random numbers, and what is made of them and of scalars. */
static void find_mask(Choice *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    if (!(ir_ops[op->op].traits & T_MAP)) return;
    c->mask[v] = ir_ops[op->op].traits & T_RANDOM;
    for (uint32_t k = 0; k < op->n_args; k++) c->mask[v] |= c->mask[op->args[k]];
    for (uint32_t k = 0; k < op->n_args; k++) {
        const IrType *t = &fused_op(c->f, op->args[k])->type;
        c->mask[v] &= c->mask[op->args[k]] || (t->space == IR_UNIT && !t->n_dims);
    }
}

/* ---- uses ------------------------------------------------------------------------------------------------ */

static bool contract_repeats(const Choice *c, const IrOp *op, const IrType *t, double *times)
{
    *times = 1;
    for (uint32_t k = 0; k < op->type.n_dims; k++)
        if (!ir_type_has_dim(t, op->type.dims[k])) *times *= (double)c->f->m->dims.data[op->type.dims[k]].size;
    return *times > 1;
}

/* How often `op`, computed once per element in group g, evaluates an element of its operand. */
static double repeats(const Choice *c, const IrOp *op, const IrType *t, const Group *g)
{
    double times = 1;
    if (op->op == IR_OP_gather && t->space != IR_UNIT && !(g->kind == GROUP_ROWS && g->map == op->attr.map))
        times = cost_rows(c->f->m, op->type.space) / cost_rows(c->f->m, t->space) + 1e-3;
    if (op->op == IR_OP_contract) contract_repeats(c, op, t, &times);
    return times;
}

static bool is_table(const IrOp *op, const IrType *t, const Group *g)
{
    return t->space == IR_UNIT && t->n_dims && (g->space != IR_UNIT || op->type.space != IR_UNIT);
}

static void add_use(Uses *x, const CostUse *u)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->use[i].group == u->group) {
            if (u->times > x->use[i].times) x->use[i].times = u->times;
            return;
        }
    if (x->n < MAX_USES) x->use[x->n++] = *u;
    else x->too_many = true;
}

/* How the group of root v computes. */
static CostUse use_by_root(const Choice *c, IrId v)
{
    const FusedFunc *f = c->f;
    const IrOp *op = fused_op(f, v);
    CostUse u = {.group = f->group_of.data[v], .times = 1, .vec = IR_NONE};
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n = 0;
    if (group_kind_of(f->f, f->m, v) == GROUP_DIMS && !dims_vector_is_kept(f->m, f->f, op))
        n = reduced_dims(f->f, op, dims);
    if (n) u.vec = dims[n - 1];
    else if (op->type.n_dims) u.vec = op->type.dims[op->type.n_dims - 1];
    u.rows = !op->type.n_dims && group_kind_of(f->f, f->m, v) == GROUP_MAP;
    return u;
}

/* A matmul reads its operands many times, and so does a sum of products over all rows that each stand in several. */
static bool is_read_by_product(const Choice *c, const IrOp *op, const IrType *t)
{
    double times;
    if (op->op != IR_OP_contract || contract_is_dot(c->f->f, op)) return false;
    return contract_repeats(c, op, t, &times) || t->space == IR_UNIT;
}

static void note_use(Choice *c, IrId consumer, IrId v)
{
    const IrOp *op = fused_op(c->f, consumer);
    const IrType *t = &fused_op(c->f, v)->type;
    Uses *x = &c->uses[v], one = {.n = 1};
    const Uses *by = &c->uses[consumer];
    if (c->f->group_of.data[consumer] != GROUP_NONE) {
        one.use[0] = use_by_root(c, consumer);
        by = &one;
        x->product |= is_read_by_product(c, op, t);
    }
    if (op->op == IR_OP_reshape) x->product |= by->product;
    x->too_many |= by->too_many;
    for (uint32_t i = 0; i < by->n; i++) {
        ICE_UNLESS(by->use[i].group < c->f->groups.n && by->use[i].times > 0);
        const Group *g = &c->f->groups.data[by->use[i].group];
        CostUse u = by->use[i];
        u.times *= repeats(c, op, t, g);
        x->table |= is_table(op, t, g);
        add_use(x, &u);
    }
}

/* ---- the choice -------------------------------------------------------------------------------------------- */

/* A product may read it through the operation without losing its vectors. */
static bool is_plain_operand(const Choice *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    if (op->op != IR_OP_gather && op->op != IR_OP_detach && op->op != IR_OP_cast && op->op != IR_OP_const) return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId s = fused_storage(c->f, op->args[k]);
        if (fused_op(c->f, s)->op != IR_OP_arg && c->f->group_of.data[s] == GROUP_NONE) return false;
    }
    return true;
}

/* Does the tree of v read what `map`'s row has? */
static bool reads_row(const Choice *c, IrId v, IrId map, int depth)
{
    const IrOp *op = fused_op(c->f, v);
    if (op->op == IR_OP_gather) return op->attr.map == map;
    if (op->op == IR_OP_arg || op->type.space == IR_UNIT) return false;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!depth || reads_row(c, op->args[k], map, depth - 1)) return true;
    return false;
}

/* Wanted once, by sums of rows whose vectors run along a dim that v lacks: there it is computed one by one, and in a
   nest of its own a vector at a time. What the row has stays: sums that rescale with a maximum look through it. */
static bool is_alone(const Choice *c, IrId v)
{
    const Uses *x = &c->uses[v];
    const IrType *t = &fused_op(c->f, v)->type;
    if (x->n != 1 || x->use[0].vec == IR_NONE || t->space == IR_UNIT || ir_type_width(c->f->m, t) < 2) return false;
    const Group *g = &c->f->groups.data[x->use[0].group];
    bool apart = !ir_type_has_dim(t, x->use[0].vec) && c->f->m->dims.data[x->use[0].vec].size >= c->f->machine->lanes;
    return g->kind == GROUP_ROWS && g->map != IR_NONE && apart && !reads_row(c, v, g->map, MAX_LOOK);
}

static bool wants_memory(Choice *c, IrId v, double *stored, double *again)
{
    const Uses *x = &c->uses[v];
    *stored = *again = 0;
    if (ir_op_widens(c->f->f, fused_op(c->f, v))) return false; /* lies in memory already, in 16 bits */
    if (x->product && fused_op(c->f, v)->op != IR_OP_reshape && !is_plain_operand(c, v)) return true;
    if (x->n <= 1 && !x->table && (!x->n || x->use[0].times <= 1) && !is_alone(c, v)) return false;
    if (c->mask[v]) return false;
    CostUse own = use_by_root(c, v);
    own.group = GROUP_NONE;
    double once = cost_compute(&c->cost, v, &own);
    *stored = once + cost_write(c->f, v);
    for (uint32_t i = 0; i < x->n; i++) {
        double one = cost_compute(&c->cost, v, &x->use[i]) * x->use[i].times;
        *again += x->table ? one * MAX_USES : one;
        *stored += cost_read(c->f, v, &x->use[i]);
    }
    if (c->between[v] || (c->again && c->again[fused_origin(c->f, v)])) return false;
    if (c->f->origin.n && cost_patience(c->f, v) > 1) return false; /* a form with clones is for memory without them */
    bool grows = x->too_many && !is_plain_operand(c, v); /* a row that is read where it lies is as good as its copy */
    return grows || *again - once > (*stored - once) * cost_patience(c->f, v);
}

static bool decide(Choice *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    if (op->op == IR_OP_arg || c->forced[v]) return false;
    double stored, again;
    bool root = c->f->group_of.data[v] != GROUP_NONE, wanted = wants_memory(c, v, &stored, &again);
    if (op->op == IR_OP_reshape) { /* a view of what then lies in memory costs nothing */
        IrId s = fused_storage(c->f, v);
        if (!wanted || s == v) return false;
        v = s;
        root = c->f->group_of.data[v] != GROUP_NONE || fused_op(c->f, v)->op == IR_OP_arg;
        if (!root) make_root(c, v);
        return !root;
    }
    if (root == wanted) return false;
    if (wanted) make_root(c, v);
    else drop_root(c, v);
    return true;
}

/* From results down, so that all uses of a value are known when it is looked at. The trees below it are those of
   the round before. */
static bool choose_round(Choice *c)
{
    bool changed = false;
    uint32_t n = c->f->f->ops.n;
    memset(c->uses, 0, n * sizeof *c->uses);
    for (IrId v = n; v-- > 0;) {
        changed |= decide(c, v);
        const IrOp *op = fused_op(c->f, v);
        for (uint32_t k = 0; k < op->n_args; k++) note_use(c, v, op->args[k]);
    }
    return changed;
}

/* A kernel's registers are not endless, and compiling it takes more than twice as long as compiling two of half its
   size: large trees are cut. What several values read counts for the first of them. */
static bool cut_trees(Choice *c, Arena *scratch)
{
    uint32_t n = c->f->f->ops.n, *flops = ARENA_ARRAY(scratch, uint32_t, n + 1);
    bool changed = false, *counted = ARENA_ARRAY(scratch, bool, n + 1);
    for (IrId v = 0; v < n; v++) {
        const IrOp *op = fused_op(c->f, v);
        uint32_t sum = 0, most = 0;
        for (uint32_t k = 0; k < op->n_args; k++) {
            uint32_t x = flops[op->args[k]];
            if (!counted[op->args[k]]) sum += x;
            else if (x > most) most = x;
            counted[op->args[k]] = true;
        }
        flops[v] = ir_ops[op->op].flops + (sum > most ? sum : most);
        bool inlined = c->f->group_of.data[v] == GROUP_NONE && op->op != IR_OP_arg;
        if (inlined && (op->op == IR_OP_reshape || flops[v] < KERNEL_FLOPS)) continue;
        flops[v] = 0;
        if (inlined) force(c, v), changed = true;
    }
    return changed;
}

static void remark(Choice *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    const Uses *x = &c->uses[v];
    bool root = c->f->group_of.data[v] != GROUP_NONE;
    double stored, again;
    bool once = x->n == 1 && x->use[0].times <= 1 && !x->product && !is_alone(c, v);
    if (c->forced[v] || op->op == IR_OP_arg || !x->n || once) return;
    wants_memory(c, v, &stored, &again);
    if (again <= 0 && !root) return;
    Arena *scratch = arena_new();
    const char *name = ir_ops[op->op].name, *type = ir_type_text(c->f->m, &op->type, scratch);
    const char *what = root ? "is stored" : "is computed where it is used";
    if (x->product)
        pass_remark(c->ctx, PASS_fuse, !root, op->span, "%%%u = %s : %s %s: a product reads it often", v, name, type,
                    what);
    else
        pass_remark(c->ctx, PASS_fuse, !root, op->span,
                    "%%%u = %s : %s %s by %u kernel%s: %.3g ns per node stored, "
                    "%.3g again",
                    v, name, type, what, x->n, x->n > 1 ? "s" : "", stored, again);
    arena_free(scratch);
}

/* Clones of a value are one choice. */
static void add_choice(Choice *c, const FuseChoice *x)
{
    for (uint32_t i = 0; i < c->f->choices.n; i++) {
        FuseChoice *have = &c->f->choices.data[i];
        if (have->v != x->v) continue;
        have->extra += x->extra;
        have->bytes += x->bytes;
        return;
    }
    VEC_PUSH(c->ctx->stage, &c->f->choices, *x);
}

/* What is stored by choice, for who must do with less memory. */
static void list_choices(Choice *c)
{
    for (IrId v = 0; v < c->f->f->ops.n; v++) {
        if (c->f->group_of.data[v] == GROUP_NONE || c->forced[v] || c->uses[v].product) continue;
        FuseChoice choice = {.v = fused_origin(c->f, v), .bytes = expected_bytes(c->f->m, &fused_op(c->f, v)->type)};
        double stored, again;
        wants_memory(c, v, &stored, &again);
        choice.extra = again > stored ? again - stored : 0;
        add_choice(c, &choice);
    }
}

/* Instead of what was chosen, the roots and inner values of a text. */
static bool take_given(Choice *c)
{
    FusedFunc *f = c->f;
    for (IrId v = 0; v < f->f->ops.n; v++) {
        uint32_t g = f->group_of.data[v];
        if (f->target[v]) make_root(c, v);
        else if (g != GROUP_NONE && c->forced[v]) return fuse_given_must(c->ctx, f, v);
        else if (g != GROUP_NONE) drop_root(c, v);
    }
    return true;
}

bool fuse_choose(PassContext *ctx, FusedFunc *f, const bool *again)
{
    Arena *scratch = arena_new();
    uint32_t n = f->f->ops.n;
    Choice c = {.ctx = ctx,
                .f = f,
                .again = again,
                .cost = cost_begin(f, scratch),
                .uses = ARENA_ARRAY(scratch, Uses, n + 1),
                .forced = ARENA_ARRAY(scratch, bool, n + 1),
                .mask = ARENA_ARRAY(scratch, bool, n + 1),
                .depth = ARENA_ARRAY(scratch, uint32_t, n + 1)};
    ICE_UNLESS(f->group_of.n == n && !f->groups.n);
    c.between = fuse_find_between(f, scratch);
    force_roots(&c);
    for (IrId v = 0; v < n; v++) find_mask(&c, v);
    for (unsigned round = 0; round < MAX_ROUNDS && choose_round(&c); round++) {}
    if (!ctx->disabled[PASS_fuse] && cut_trees(&c, scratch))
        for (unsigned round = 0; round < MAX_ROUNDS && choose_round(&c); round++) {}
    list_choices(&c);
    for (IrId v = 0; v < n && ctx->keep_remarks && !f->text; v++) remark(&c, v);
    bool fits = !f->text || take_given(&c);
    arena_free(scratch);
    return fits;
}
