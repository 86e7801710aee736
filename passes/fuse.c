/* fuse: which values get memory of their own, and which are computed inside the kernel that wants them.

     %3 = exp %2 : edge[H]                 group 0: rows of edge.dst: %4, with %3 computed at each edge
     %4 = reduce_sum edge.dst %3 : node[H]            and %5 behind the sum
     %5 = log %4 : node[H]

   Reductions, contractions and concatenations are roots of groups; so are results, what several groups need
   unless it is cheaper to compute again, and what a product reads many times. Everything else is computed
   where it is used. Groups of the same rows and dims then merge (fuse_merge.c).
   It reorders no sum and clones only what costs next to nothing; random operations are never cloned. */
#include "passes/fuse.h"
#include "base/ice.h"

/* ---- costs ---------------------------------------------------------------------------------------- */

typedef struct Uses { /* how a value that is not a root is used */
    uint32_t group;
    bool any, many; /* many: by several groups */
    bool again;     /* computed more than once per element */
    bool product;   /* read by a matmul or by a sum over rows, many times */
} Uses;

typedef struct Fuse {
    PassContext *ctx;
    FusedFunc *f;
    Arena *arena;
    Uses *uses;
    uint32_t *flops, *loads; /* of the tree below a value, were it computed in place */
    uint32_t *depth;         /* of that tree */
    bool *random;
    uint32_t n_forced;       /* groups there were before the choice */
} Fuse;
enum { MAX_CHAIN = 100 };

/* Roots are read from memory: so are views of them. */
static void cost_of(Fuse *u, IrId v)
{
    const IrOp *op = fused_op(u->f, v);
    bool leaf = op->op == IR_OP_arg || op_is_heavy(u->f->m, u->f->f, v);
    uint32_t flops = leaf ? 0 : ir_ops[op->op].flops, loads = leaf || op->op == IR_OP_gather;
    u->random[v] = ir_ops[op->op].traits & T_RANDOM;
    for (uint32_t k = 0; k < op->n_args && !leaf; k++) {
        IrId s = fused_storage(u->f, op->args[k]);
        bool stored = u->f->group_of.data[s] != GROUP_NONE;
        flops += stored ? 0 : u->flops[op->args[k]];
        loads += stored ? 1 : u->loads[op->args[k]];
        u->random[v] |= !stored && u->random[op->args[k]];
    }
    u->flops[v] = flops > 1000 ? 1000 : flops;
    u->loads[v] = loads > 1000 ? 1000 : loads;
}

static bool is_cheap(const Fuse *u, IrId v)
{
    return !u->random[v] && u->flops[v] <= 2 && u->loads[v] <= 2;
}

/* A product may read it through the operation without losing its vectors. */
static bool is_plain_operand(const Fuse *u, IrId v)
{
    IrOpcode op = fused_op(u->f, v)->op;
    return u->flops[v] <= 1 && (op == IR_OP_gather || op == IR_OP_detach || op == IR_OP_cast || op == IR_OP_const);
}

/* ---- roots ---------------------------------------------------------------------------------------- */

uint32_t fuse_new_group(FusedFunc *f, Arena *a, IrId v)
{
    const IrOp *op = fused_op(f, v);
    Group g = {.kind = group_kind_of(f->f, f->m, v), .nest = op->type, .space = op->type.space, .map = IR_NONE};
    if (g.kind == GROUP_ROWS) g.map = op->attr.map;
    if (g.kind == GROUP_BLOCKS)
        for (uint32_t k = 0; k < op->n_args; k++)
            if (fused_op(f, op->args[k])->type.space != IR_UNIT) g.space = fused_op(f, op->args[k])->type.space;
    VEC_PUSH(a, &g.roots, v);
    VEC_PUSH(a, &f->groups, g);
    while (f->group_of.n < f->f->ops.n) {
        VEC_PUSH(a, &f->group_of, GROUP_NONE);
        VEC_PUSH(a, &f->stored, false);
    }
    f->group_of.data[v] = f->groups.n - 1;
    return f->groups.n - 1;
}

static void make_root(Fuse *u, IrId v)
{
    if (u->f->group_of.data[v] == GROUP_NONE && fused_op(u->f, v)->op != IR_OP_arg)
        fuse_new_group(u->f, u->arena, v);
}

/* What a reshape reads must lie in memory, unless it only renames dims. */
static void force_reshape_operand(Fuse *u, const IrOp *op)
{
    if (reshape_is_rename(u->f->m, &fused_op(u->f, op->args[0])->type, &op->type)) return;
    make_root(u, fused_storage(u->f, op->args[0]));
}

/* Chains end somewhere: a kernel is walked recursively, and its registers are not endless. */
static void cut_chain(Fuse *u, IrId v)
{
    const IrOp *op = fused_op(u->f, v);
    uint32_t depth = 0;
    if (op->op == IR_OP_arg || op_is_heavy(u->f->m, u->f->f, v)) return;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (u->depth[op->args[k]] > depth) depth = u->depth[op->args[k]];
    u->depth[v] = depth + 1;
    if (op->op == IR_OP_reshape || u->depth[v] < MAX_CHAIN) return;
    make_root(u, v);
    u->depth[v] = 0;
}

static void force_roots(Fuse *u)
{
    const IrFunc *f = u->f->f;
    for (uint32_t i = 0; i < f->results.n; i++) make_root(u, f->results.data[i].value);
    for (IrId v = 0; v < f->ops.n; v++)
        if (u->ctx->disabled[PASS_fuse] || op_is_heavy(u->f->m, f, v)) make_root(u, v);
    for (IrId v = 0; v < f->ops.n; v++) cut_chain(u, v);
    for (IrId v = 0; v < f->ops.n; v++)
        if (f->ops.data[v].op == IR_OP_reshape) force_reshape_operand(u, &f->ops.data[v]);
    for (IrId v = 0; v < f->ops.n; v++) cost_of(u, v);
    u->n_forced = u->f->groups.n;
}

/* ---- in place or in memory -------------------------------------------------------------------------- */

/* Does `op` compute operand k more than once for each of its elements? */
static bool reads_again(const Fuse *u, const IrOp *op, const IrType *t, const Group *g)
{
    if (op->op == IR_OP_gather) return t->space != IR_UNIT || t->n_dims;
    if (t->space == IR_UNIT && g->space != IR_UNIT && t->n_dims) return true;
    if (op->op != IR_OP_contract) return false;
    for (uint32_t k = 0; k < op->type.n_dims; k++)
        if (!ir_type_has_dim(t, op->type.dims[k]) && u->f->m->dims.data[op->type.dims[k]].size > 1) return true;
    return false;
}

static void note_use(Fuse *u, IrId consumer, IrId v)
{
    const IrOp *op = fused_op(u->f, consumer);
    const Uses *c = &u->uses[consumer];
    uint32_t root_group = u->f->group_of.data[consumer];
    bool root = root_group != GROUP_NONE;
    if (!root && !c->any) return; /* nobody computes it */
    uint32_t group = root ? root_group : c->group;
    Uses *x = &u->uses[v];
    x->many |= (x->any && x->group != group) || (!root && c->many);
    x->any = true;
    x->group = group;
    x->again |= reads_again(u, op, &fused_op(u->f, v)->type, &u->f->groups.data[group]) || (!root && c->again);
    if (root && op->op == IR_OP_contract && !contract_is_dot(u->f->f, op)) x->product = true;
    if (!root && op->op == IR_OP_reshape) x->product |= c->product;
}

static bool is_costly(const Fuse *u, IrId v)
{
    const Uses *x = &u->uses[v];
    if (x->product && fused_op(u->f, v)->op != IR_OP_reshape && !is_plain_operand(u, v)) return true;
    return (x->many || x->again) && !is_cheap(u, v);
}

static void decide(Fuse *u, IrId v)
{
    const IrOp *op = fused_op(u->f, v);
    if (u->f->group_of.data[v] != GROUP_NONE || op->op == IR_OP_arg || !u->uses[v].any || !is_costly(u, v)) return;
    /* a view of what then lies in memory costs nothing */
    make_root(u, op->op == IR_OP_reshape ? fused_storage(u->f, v) : v);
}

/* What was given memory because what it is made of was dear, and is cheap now that this has memory itself. */
static void reconsider(Fuse *u, IrId v)
{
    cost_of(u, v);
    uint32_t g = u->f->group_of.data[v];
    if (g == GROUP_NONE || g < u->n_forced || is_costly(u, v)) return;
    u->f->group_of.data[v] = GROUP_NONE;
    u->f->groups.data[g].dead = true;
}

static void decide_all(Fuse *u)
{
    for (IrId v = u->f->f->ops.n; v-- > 0;) {
        decide(u, v);
        const IrOp *op = fused_op(u->f, v);
        for (uint32_t k = 0; k < op->n_args; k++) note_use(u, v, op->args[k]);
    }
    for (IrId v = 0; v < u->f->f->ops.n; v++) reconsider(u, v);
}

/* ---- plain products --------------------------------------------------------------------------------- */

static bool dims_are(const IrType *t, const IrId *a, unsigned n_a, const IrId *b, unsigned n_b)
{
    if (t->n_dims != n_a + n_b) return false;
    for (unsigned k = 0; k < t->n_dims; k++)
        if (t->dims[k] != (k < n_a ? a[k] : b[k - n_a])) return false;
    return true;
}

static bool in_memory(const FusedFunc *f, IrId v)
{
    IrId s = fused_storage(f, v);
    return f->group_of.data[s] != GROUP_NONE || fused_op(f, s)->op == IR_OP_arg;
}

static bool is_gemm(const FusedFunc *f, const Group *g)
{
    const IrOp *op = fused_op(f, g->roots.data[0]);
    if (op->op != IR_OP_contract || !ir_dtype_is_float(op->type.dtype)) return false;
    if (!in_memory(f, op->args[0]) || !in_memory(f, op->args[1])) return false;
    const IrType *a = &fused_op(f, op->args[0])->type, *b = &fused_op(f, op->args[1])->type, *r = &op->type;
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n = reduced_dims(f->f, op, dims);
    if (g->kind == GROUP_PRODUCT)
        return r->space != IR_UNIT && a->space == r->space && b->space == IR_UNIT && n &&
               dims_are(a, dims, n, NULL, 0) && dims_are(b, dims, n, r->dims, r->n_dims);
    return g->kind == GROUP_BLOCKS && n == 0 && a->space != IR_UNIT && b->space == a->space &&
           dims_are(r, a->dims, a->n_dims, b->dims, b->n_dims);
}

/* ---- order ---------------------------------------------------------------------------------------- */

void fuse_deps(FusedFunc *f, uint32_t g, Arena *a)
{
    Arena *scratch = arena_new();
    GroupReads reads = {0};
    group_reads(f, g, scratch, &reads);
    f->groups.data[g].deps.n = 0;
    for (uint32_t i = 0; i < reads.reads.n; i++) {
        uint32_t d = f->group_of.data[reads.reads.data[i].v];
        bool seen = d == GROUP_NONE || d == g;
        for (uint32_t k = 0; k < f->groups.data[g].deps.n; k++) seen |= f->groups.data[g].deps.data[k] == d;
        if (!seen) VEC_PUSH(a, &f->groups.data[g].deps, d);
    }
    arena_free(scratch);
}

static bool reaches(const FusedFunc *f, uint32_t from, uint32_t to, bool *seen)
{
    if (from == to) return true;
    if (seen[from]) return false;
    seen[from] = true;
    const Group *g = &f->groups.data[from];
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (reaches(f, g->deps.data[i], to, seen)) return true;
    for (uint32_t i = 0; i < g->after.n; i++)
        if (reaches(f, g->after.data[i], to, seen)) return true;
    return false;
}

bool fuse_reaches(const FusedFunc *f, uint32_t from, uint32_t to)
{
    Arena *scratch = arena_new();
    bool yes = reaches(f, from, to, ARENA_ARRAY(scratch, bool, f->groups.n + 1));
    arena_free(scratch);
    return yes;
}

static bool is_ready(const Group *g, const bool *done)
{
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (!done[g->deps.data[i]]) return false;
    for (uint32_t i = 0; i < g->after.n; i++)
        if (!done[g->after.data[i]]) return false;
    return true;
}

/* Of the groups that may run, the one whose first value comes first in the function. */
bool fuse_order(FusedFunc *f, Arena *a)
{
    bool *done = ARENA_ARRAY(a, bool, f->groups.n + 1);
    f->order.n = 0;
    for (;;) {
        uint32_t best = GROUP_NONE, left = 0;
        for (uint32_t g = 0; g < f->groups.n; g++) {
            const Group *x = &f->groups.data[g];
            if (x->dead || done[g]) continue;
            left++;
            if (!is_ready(x, done)) continue;
            if (best == GROUP_NONE || x->roots.data[0] < f->groups.data[best].roots.data[0]) best = g;
        }
        if (!left) return true;
        if (best == GROUP_NONE) return false;
        done[best] = true;
        VEC_PUSH(a, &f->order, best);
    }
}

/* ---- the pass --------------------------------------------------------------------------------------- */

static void mark_stored(FusedFunc *f)
{
    for (uint32_t i = 0; i < f->f->results.n; i++) f->stored.data[f->f->results.data[i].value] = true;
    for (uint32_t g = 0; g < f->groups.n; g++) {
        if (f->groups.data[g].dead) continue;
        Arena *scratch = arena_new();
        GroupReads reads = {0};
        group_reads(f, g, scratch, &reads);
        for (uint32_t i = 0; i < reads.reads.n; i++) {
            IrId v = reads.reads.data[i].v;
            if (f->group_of.data[v] != GROUP_NONE && f->group_of.data[v] != g) f->stored.data[v] = true;
        }
        arena_free(scratch);
    }
}

static FusedFunc *fuse_func(PassContext *ctx, FusedModule *fm, uint32_t index)
{
    FusedFunc *f = ARENA_NEW(ctx->stage, FusedFunc);
    f->m = fm->m;
    f->index = index;
    f->f = prepare_func(fm->m, fm->m->funcs.data[index]);
    uint32_t n = f->f->ops.n;
    f->seen = ARENA_ARRAY(ctx->stage, uint16_t, n + f->f->results.n + 1); /* updates may add a copy per result */
    for (IrId v = 0; v < n; v++) {
        VEC_PUSH(ctx->stage, &f->group_of, GROUP_NONE);
        VEC_PUSH(ctx->stage, &f->stored, false);
    }
    Arena *scratch = arena_new();
    Fuse u = {.ctx = ctx, .f = f, .arena = ctx->stage};
    u.uses = ARENA_ARRAY(scratch, Uses, n + 1);
    u.flops = ARENA_ARRAY(scratch, uint32_t, n + 1);
    u.loads = ARENA_ARRAY(scratch, uint32_t, n + 1);
    u.depth = ARENA_ARRAY(scratch, uint32_t, n + 1);
    u.random = ARENA_ARRAY(scratch, bool, n + 1);
    force_roots(&u);
    decide_all(&u);
    arena_free(scratch);
    for (uint32_t g = 0; g < f->groups.n; g++) {
        if (f->groups.data[g].dead) continue;
        f->groups.data[g].gemm = is_gemm(f, &f->groups.data[g]);
        fuse_deps(f, g, ctx->stage);
    }
    if (!ctx->disabled[PASS_fuse]) fuse_merge(ctx, f);
    fuse_place_updates(ctx, fm, f);
    mark_stored(f);
    ICE_UNLESS(fuse_order(f, ctx->stage));
    return f;
}

FusedModule *fuse_module(PassContext *ctx, const IrModule *m)
{
    FusedModule *fm = ARENA_NEW(ctx->stage, FusedModule);
    fm->m = ir_module_clone(ctx->stage, m);
    for (uint32_t i = 0; i < m->funcs.n; i++) VEC_PUSH(ctx->stage, &fm->funcs, fuse_func(ctx, fm, i));
    return fm;
}

/* ---- text ------------------------------------------------------------------------------------------- */

static void print_op(const FusedFunc *f, IrId v, bool root, StrBuf *out)
{
    const IrOp *op = fused_op(f, v);
    strbuf_printf(out, "    %s%%%u = %s", root ? "" : "  ", v, ir_ops[op->op].name);
    for (uint32_t k = 0; k < op->n_args; k++) strbuf_printf(out, "%s %%%u", k ? "," : "", op->args[k]);
    strbuf_printf(out, " : %s%s\n", ir_type_text(f->m, &op->type, out->arena),
                  root && f->stored.data[v] ? "  stored" : "");
}

typedef struct PrintOps {
    const FusedFunc *f;
    StrBuf *out;
    bool *seen;
} PrintOps;

static void note_op(void *user, IrId v, IrId space)
{
    (void)space;
    ((PrintOps *)user)->seen[v] = true;
}

static void print_group(const FusedFunc *f, uint32_t g, StrBuf *out)
{
    const Group *x = &f->groups.data[g];
    strbuf_printf(out, "  group %u %s", g, group_kind_names[x->kind]);
    if (x->map != IR_NONE) strbuf_printf(out, " of %s", f->m->maps.data[x->map].name);
    else strbuf_printf(out, " over %s", f->m->spaces.data[x->space].name);
    strbuf_puts(out, x->gemm ? ", plain product\n" : "\n");
    PrintOps p = {f, out, ARENA_ARRAY(out->arena, bool, f->f->ops.n + 1)};
    group_ops(f, g, out->arena, note_op, &p);
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (p.seen[v]) print_op(f, v, f->group_of.data[v] == g, out);
}

void fuse_print(const void *fused_module, StrBuf *out)
{
    const FusedModule *fm = fused_module;
    for (uint32_t i = 0; i < fm->funcs.n; i++) {
        const FusedFunc *f = fm->funcs.data[i];
        strbuf_printf(out, "%sfunc %s\n", i ? "\n" : "", f->f->name);
        for (uint32_t k = 0; k < f->order.n; k++) print_group(f, f->order.data[k], out);
    }
}
