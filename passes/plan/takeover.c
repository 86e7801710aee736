/* Values that take over memory: where a kernel reads a value for the last time, and only at the element that it writes,
   the result lies where the value did.

     %28 = exp(%20 - gather %25) : edge[8]     nothing else reads %20 later: %28 is written over it
   The same for values at the elements that a kernel sums, if it visits each element once: sums in one tile, taken in
   one walk. The kernel has one parameter for both, and computes all of a tile before it stores any of it. A result of
   the function lies in the caller's memory, and so does what it is written over, from the start. Nobody writes over a
   result, nor over what a tensor is updated with. Changes no number and no order. */
#include "passes/plan/planning.h"
#include "base/ice.h"

typedef struct Takeover {
    PassContext *ctx;
    FusedFunc *f;
    GroupReads *reads; /* by position in the order */
    uint32_t *at;      /* by group: its position */
    uint32_t *last;    /* by value: position of the last group that reads it */
    bool *fixed;       /* by value: a result, or taken over already */
    bool *updates;     /* by value: it is what a tensor is updated with, and lies in the tensor's memory */
} Takeover;

static bool same_elements(const FusedFunc *f, const IrType *a, const IrType *b)
{
    if (a->space != b->space || a->dtype != b->dtype || a->n_dims != b->n_dims) return false;
    for (uint8_t k = 0; k < a->n_dims; k++)
        if (f->m->dims.data[a->dims[k]].size != f->m->dims.data[b->dims[k]].size) return false;
    return true;
}

/* Sums over all rows and parts of a concatenation are not computed element by element; products may be somebody
   else's kernel; values of a row that are stored before others of it are computed would be read too late. */
static bool may_write_over(const FusedFunc *f, const Group *g)
{
    if (g->kind != GROUP_MAP && g->kind != GROUP_DIMS && g->kind != GROUP_ROWS) return false;
    if (group_is_staged(f, g)) return false; /* stores values of some dims before it computes those of others */
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrType t = fused_op(f, g->roots.data[i])->type, nest = g->nest;
        nest.dtype = t.dtype;
        if (!same_elements(f, &t, &nest)) return false;
    }
    return true;
}

/* element: read at elements of rows that are summed, else at the rows. */
static bool can_be_taken(const Takeover *t, const GroupReads *reads, uint32_t position, IrId u, const IrType *type,
                         bool element)
{
    uint32_t group = t->f->group_of.data[u];
    if (group == GROUP_NONE || group == t->f->order.data[position] || t->fixed[u] || t->last[u] != position)
        return false;
    for (uint32_t i = 0; i < reads->reads.n; i++)
        if (reads->reads.data[i].v == u && !(element ? reads->reads.data[i].element : reads->reads.data[i].identity))
            return false;
    return same_elements(t->f, &fused_op(t->f, u)->type, type);
}

static void take(Takeover *t, IrId v, IrId u)
{
    ICE_UNLESS(!t->fixed[u] && t->f->home.data[v] == v); /* nobody has the memory yet, and v has its own */
    const IrOp *op = fused_op(t->f, v);
    IrId home = t->f->home.data[u], at = t->fixed[v] ? v : home; /* a result stays where the caller wants it */
    t->fixed[u] = true;
    t->f->home.data[v] = home;
    for (IrId w = 0; w < t->f->f->ops.n; w++)
        if (t->f->home.data[w] == home) t->f->home.data[w] = at;
    pass_remark(t->ctx, PASS_fuse, true, op->span, "%%%u = %s is written over %%%u", v, ir_ops[op->op].name, u);
}

static bool goes_by_rows(const Group *g) { return g->kind != GROUP_BLOCKS && g->kind <= GROUP_CONCAT; }

/* Whether `connect` may run all from what makes u to what reads it last strip by strip, so that u needs no memory. Any
   step between that reads what these make is one of them, or none of them comes behind it. */
static bool may_lie_in_strips(const Takeover *t, IrId u)
{
    const FusedFunc *f = t->f;
    uint32_t maker = f->group_of.data[u];
    bool joins = goes_by_rows(&f->groups.data[maker]);
    for (IrId v = 0; v < f->f->ops.n; v++) joins &= v == u || f->home.data[v] != f->home.data[u];
    Arena *scratch = arena_new();
    bool *in = ARENA_ARRAY(scratch, bool, f->groups.n + 1);
    in[maker] = true;
    for (uint32_t i = t->at[maker] + 1; i <= t->last[u] && joins; i++) {
        uint32_t id = f->order.data[i];
        const Group *g = &f->groups.data[id];
        bool own = goes_by_rows(g) && g->space == f->groups.data[maker].space;
        for (uint32_t k = 0; k < t->reads[i].reads.n; k++) {
            const GroupRead *r = &t->reads[i].reads.data[k];
            uint32_t from = f->group_of.data[fused_storage(f, r->v)];
            if (from == GROUP_NONE || from == id || !in[from]) continue;
            in[id] = true;
            joins &= own && group_reads_own_row(f, g, r);
        }
    }
    arena_free(scratch);
    return joins;
}

/* Of what a result may be written over the one that is there first: it is in the way longest. */
static void place_root(Takeover *t, uint32_t position, IrId v)
{
    const FusedFunc *f = t->f;
    const GroupReads *reads = &t->reads[position];
    IrId best = IR_NONE;
    if (t->updates[v] || !f->stored.data[v]) return;
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        IrId u = reads->reads.data[i].v;
        if (!can_be_taken(t, reads, position, u, &fused_op(f, v)->type, false)) continue;
        if (best != IR_NONE && t->at[f->group_of.data[u]] >= t->at[f->group_of.data[best]]) continue;
        if (t->fixed[v] && may_lie_in_strips(t, u)) continue;
        best = u;
        if (!t->fixed[v]) break;
    }
    if (best != IR_NONE) take(t, v, best);
}

/* ---- inner values ------------------------------------------------------------------------------------------ */

/* Whether v's expression loads u, as group g computes it: not where it reads an array, or a value that another kernel
   stored. */
static bool loads(const FusedFunc *f, const Group *g, IrId v, IrId u, bool *seen)
{
    const IrOp *op = fused_op(f, v);
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId x = op->args[k];
        if (fused_storage(f, x) == u) return true;
        if (seen[x] || f->group_of.data[x] != GROUP_NONE || group_has_inner(g, x)) continue;
        seen[x] = true;
        if (loads(f, g, x, u, seen)) return true;
    }
    return false;
}

/* v and the inner values that it is made of. */
static void mark_tree(const FusedFunc *f, const Group *g, bool *tree, IrId v, bool top)
{
    if (tree[v] || (!top && f->group_of.data[v] != GROUP_NONE && !group_has_inner(g, v))) return;
    tree[v] = true;
    const IrOp *op = fused_op(f, v);
    for (uint32_t k = 0; k < op->n_args; k++) mark_tree(f, g, tree, op->args[k], false);
}

/* Nothing loads u behind the store of v: what has no array is computed again, from u, wherever it is used. */
static bool is_read_by_tree_alone(const FusedFunc *f, const Group *g, IrId v, IrId u)
{
    Arena *scratch = arena_new();
    uint32_t n = f->f->ops.n + 1;
    bool *tree = ARENA_ARRAY(scratch, bool, n), alone = true;
    mark_tree(f, g, tree, v, true);
    for (uint32_t i = 0; i < g->inner.n && alone; i++)
        alone = tree[g->inner.data[i]] || !loads(f, g, g->inner.data[i], u, ARENA_ARRAY(scratch, bool, n));
    for (uint32_t i = 0; i < g->roots.n && alone; i++)
        alone = !loads(f, g, g->roots.data[i], u, ARENA_ARRAY(scratch, bool, n));
    arena_free(scratch);
    return alone;
}

static void mark_inner(const FusedFunc *f, const Group *g, bool *seen, IrId v)
{
    if (seen[v] || (f->group_of.data[v] != GROUP_NONE && !group_has_inner(g, v))) return;
    seen[v] = true;
    const IrOp *op = fused_op(f, v);
    for (uint32_t k = 0; k < op->n_args; k++) mark_inner(f, g, seen, op->args[k]);
}

/* What no sum takes in may be stored by a walk of its own. */
static bool sums_take_all_in(const FusedFunc *f, uint32_t index)
{
    const Group *g = &f->groups.data[index];
    Arena *scratch = arena_new();
    bool *seen = ARENA_ARRAY(scratch, bool, f->f->ops.n + 1), all = true;
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (group_kind_of(f->f, f->m, g->roots.data[i]) == GROUP_ROWS)
            mark_inner(f, g, seen, fused_op(f, g->roots.data[i])->args[0]);
    for (uint32_t i = 0; i < g->inner.n; i++)
        all &= seen[g->inner.data[i]] || !f->stored.data[g->inner.data[i]] ||
               group_has_copy(f, index, g->inner.data[i]);
    arena_free(scratch);
    return all;
}

/* One tile of a walk takes in the whole row of v, on every CPU. */
static bool fits_a_tile(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    bool fits = t->n_dims <= 1;
    for (unsigned narrow = 0; narrow < 2; narrow++) {
        const Schedule *s = value_tile(f, narrow, f->group_of.data[v], v);
        int64_t most = f->tiles->group[narrow][f->group_of.data[v]].beside,
                vectors = s->vectors < most ? s->vectors : most;
        fits &= ir_type_width(f->m, t) <= vectors * s->lanes;
    }
    return fits;
}

/* Every element is visited once: nothing in the group wants a sum of it, and nothing has a walk of its own behind the
   sums, for which a long row computes its elements again. */
static bool walks_once(const PassContext *ctx, const FusedFunc *f, uint32_t index, const GroupReads *reads)
{
    const Group *g = &f->groups.data[index];
    if (ctx->disabled[PASS_schedule]) return false;
    for (uint32_t i = 0; i < g->roots.n; i++) /* a walk for each tile of a wide sum */
        if (!fits_a_tile(f, g->roots.data[i])) return false;
    for (uint32_t i = 0; i < g->inner.n; i++)
        if (group_kind_of(f->f, f->m, g->inner.data[i]) != GROUP_MAP) return false;
    if (!sums_take_all_in(f, index)) return false;
    for (uint32_t i = 0; i < reads->reads.n; i++)
        if (f->group_of.data[reads->reads.data[i].v] == index && !group_has_inner(g, reads->reads.data[i].v))
            return false;
    return true;
}

/* An inner value that is stored lies where another one of its elements did that nothing else there reads. */
static void place_inner(Takeover *t, const GroupReads *reads, uint32_t position, IrId v)
{
    FusedFunc *f = t->f;
    const IrOp *op = fused_op(f, v);
    uint32_t g = t->f->order.data[position];
    if (t->updates[v] || !f->stored.data[v]) return;
    if (group_has_copy(f, g, v)) return;
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        IrId u = reads->reads.data[i].v;
        const IrType *have = &fused_op(f, u)->type;
        if (!can_be_taken(t, reads, position, u, &op->type, true)) continue;
        if (memcmp(have->dims, op->type.dims, have->n_dims * sizeof *have->dims)) continue; /* another order, maybe */
        if (!is_read_by_tree_alone(f, &f->groups.data[g], v, u)) continue;
        take(t, v, u);
        return;
    }
}

static void place_group(Takeover *t, uint32_t position)
{
    const GroupReads *reads = &t->reads[position];
    const Group *g = &t->f->groups.data[t->f->order.data[position]];
    bool once = g->kind == GROUP_ROWS && g->inner.n && walks_once(t->ctx, t->f, t->f->order.data[position], reads);
    for (uint32_t k = 0; k < g->inner.n && once; k++) place_inner(t, reads, position, g->inner.data[k]);
    if (!may_write_over(t->f, g)) return;
    for (uint32_t k = 0; k < g->roots.n; k++) place_root(t, position, g->roots.data[k]);
}

void takeover_func(PassContext *ctx, FusedFunc *f)
{
    Arena *scratch = arena_new();
    uint32_t n = f->f->ops.n;
    Takeover t = {.ctx = ctx,
                  .f = f,
                  .reads = ARENA_ARRAY(scratch, GroupReads, f->order.n + 1),
                  .at = ARENA_ARRAY(scratch, uint32_t, f->groups.n + 1),
                  .last = ARENA_ARRAY(scratch, uint32_t, n + 1),
                  .fixed = ARENA_ARRAY(scratch, bool, n + 1),
                  .updates = ARENA_ARRAY(scratch, bool, n + 1)};
    for (IrId v = 0; v < n; v++) VEC_PUSH(ctx->stage, &f->home, v);
    for (uint32_t i = 0; i < f->f->results.n; i++) {
        t.fixed[f->f->results.data[i].value] = true;
        t.updates[f->f->results.data[i].value] |= f->f->results.data[i].tensor != IR_NONE;
    }
    for (uint32_t i = 0; i < f->order.n; i++) {
        t.at[f->order.data[i]] = i;
        group_reads(f, f->order.data[i], scratch, &t.reads[i]);
        for (uint32_t k = 0; k < t.reads[i].reads.n; k++) t.last[t.reads[i].reads.data[k].v] = i;
    }
    for (uint32_t i = 0; i < f->order.n && !ctx->disabled[PASS_memplan]; i++) place_group(&t, i);
    arena_free(scratch);
}
