/* Values that take over memory: where a kernel reads a value for the last time, and only at the element that it writes, the
   result lies where the value did.

     %28 = exp(%20 - gather %25) : edge[8]     nothing else reads %20 later: %28 is written over it
   The kernel has one parameter for both, and computes all of a tile before it stores any of it. Results of the function
   lie in the caller's memory and neither take over nor are taken. Changes no number and no order. */
#include "passes/fuse.h"

typedef struct Takeover {
    PassContext *ctx;
    FusedFunc *f;
    uint32_t *last; /* by value: position in the order of the last group that reads it */
    bool *fixed;    /* by value: a result, or taken over already */
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
    if (group_is_staged(f, g)) return false; /* stores one value before it computes the next */
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrType t = fused_op(f, g->roots.data[i])->type, nest = g->nest;
        nest.dtype = t.dtype;
        if (!same_elements(f, &t, &nest)) return false;
    }
    return true;
}

static bool can_be_taken(const Takeover *t, const GroupReads *reads, uint32_t position, IrId u, const IrType *type)
{
    uint32_t group = t->f->group_of.data[u];
    if (group == GROUP_NONE || group == t->f->order.data[position] || t->fixed[u] || t->last[u] != position) return false;
    for (uint32_t i = 0; i < reads->reads.n; i++)
        if (reads->reads.data[i].v == u && !reads->reads.data[i].identity) return false;
    return same_elements(t->f, &fused_op(t->f, u)->type, type);
}

static void place_root(Takeover *t, const GroupReads *reads, uint32_t position, IrId v)
{
    FusedFunc *f = t->f;
    const IrOp *op = fused_op(f, v);
    if (t->fixed[v] || !f->stored.data[v]) return;
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        IrId u = reads->reads.data[i].v;
        if (!can_be_taken(t, reads, position, u, &op->type)) continue;
        t->fixed[u] = true;
        f->home.data[v] = f->home.data[u];
        pass_remark(t->ctx, PASS_fuse, true, op->span, "%%%u = %s is written over %%%u", v, ir_ops[op->op].name, u);
        return;
    }
}

void fuse_take_over(PassContext *ctx, FusedFunc *f)
{
    Arena *scratch = arena_new();
    uint32_t n = f->f->ops.n;
    Takeover t = {ctx, f, ARENA_ARRAY(scratch, uint32_t, n + 1), ARENA_ARRAY(scratch, bool, n + 1)};
    GroupReads *reads = ARENA_ARRAY(scratch, GroupReads, f->order.n + 1);
    for (IrId v = 0; v < n; v++) VEC_PUSH(ctx->stage, &f->home, v);
    for (uint32_t i = 0; i < f->f->results.n; i++) t.fixed[f->f->results.data[i].value] = true;
    for (uint32_t i = 0; i < f->order.n; i++) {
        group_reads(f, f->order.data[i], scratch, &reads[i]);
        for (uint32_t k = 0; k < reads[i].reads.n; k++) t.last[reads[i].reads.data[k].v] = i;
    }
    for (uint32_t i = 0; i < f->order.n && !ctx->disabled[PASS_memplan]; i++) {
        const Group *g = &f->groups.data[f->order.data[i]];
        if (!may_write_over(f, g)) continue;
        for (uint32_t k = 0; k < g->roots.n; k++) place_root(&t, &reads[i], i, g->roots.data[k]);
    }
    arena_free(scratch);
}
