/* Which values at elements can be computed inside the kernel that sums them: they become inner values of a ROWS or
   BLOCKS group, staged for some elements at a time in private arrays (lower_stage.c).

     %3 = contract %1, %2 : edge[H]             rows of edge.dst: %4, %6, and inside each row %3 and %5:
     %4 = reduce_max edge.dst %3 : node[H]        nothing of edge[H] is in memory, unless another kernel reads it
     %5 = exp(%3 - gather edge.dst %4)
     %6 = reduce_sum edge.dst %5
   It decides nothing by cost and changes nothing: fuse_merge.c asks. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/context/rows.h"

/* ---- reads --------------------------------------------------------------------------------------------- */

/* Every read of e's values by r is at the element that r's sums take. */
static bool reads_elements(const FusedFunc *f, const GroupReads *of_r, uint32_t e)
{
    for (uint32_t i = 0; i < of_r->reads.n; i++) {
        const GroupRead *x = &of_r->reads.data[i];
        if (f->group_of.data[x->v] == e && !x->element) return false;
    }
    return true;
}

/* Every read of r's values by e is of the element's own row, or of a value at the element. */
static bool reads_own_row(const FusedFunc *f, const GroupReads *of_e, uint32_t r)
{
    const Group *rows = &f->groups.data[r];
    for (uint32_t i = 0; i < of_e->reads.n; i++) {
        const GroupRead *x = &of_e->reads.data[i];
        if (f->group_of.data[x->v] != r) continue;
        bool image = rows->map != IR_NONE && x->image_of == rows->map; /* a sum over all rows has none */
        if (group_has_inner(rows, x->v) ? !x->element : !image) return false;
    }
    return true;
}

/* Somebody but r reads a value of e, or it is a result. */
static bool is_read_elsewhere(const FusedFunc *f, uint32_t e, uint32_t r, const GroupReads *reads)
{
    for (uint32_t i = 0; i < f->f->results.n; i++)
        if (f->group_of.data[f->f->results.data[i].value] == e) return true;
    for (uint32_t g = 0; g < f->groups.n; g++) {
        if (f->groups.data[g].dead || g == e || g == r) continue;
        for (uint32_t i = 0; i < reads[g].reads.n; i++)
            if (f->group_of.data[reads[g].reads.data[i].v] == e) return true;
    }
    return false;
}

static bool updates_tensor(const FusedFunc *f, uint32_t e)
{
    for (uint32_t i = 0; i < f->f->results.n; i++) {
        const IrResult *x = &f->f->results.data[i];
        if (x->tensor != IR_NONE && f->group_of.data[x->value] == e) return true;
    }
    return false;
}

static bool holds_bool(const FusedFunc *f, const Group *g)
{
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (fused_op(f, g->roots.data[i])->type.dtype == IR_BOOL) return true;
    return false;
}

static void note_random(void *user, const GroupOp *op)
{
    const FusedFunc **f = user;
    if (*f && ir_ops[fused_op(*f, op->v)->op].traits & T_RANDOM && op->space != IR_UNIT) *f = NULL;
}

/* Random numbers of values without dims: in a row they come one by one, in a kernel of their own a vector at a time. */
static bool draws_numbers(const FusedFunc *f, uint32_t e)
{
    if (f->groups.data[e].nest.n_dims) return false;
    Arena *scratch = arena_new();
    const FusedFunc *none = f;
    group_ops(f, e, scratch, note_random, &none);
    arena_free(scratch);
    return !none;
}

bool fuse_can_stage(const FusedFunc *f, uint32_t e, uint32_t r, const GroupReads *reads)
{
    const Group *x = &f->groups.data[e], *rows = &f->groups.data[r];
    ICE_UNLESS(e != r && !x->dead && !rows->dead);
    bool kind = x->kind == GROUP_MAP || x->kind == GROUP_DIMS || x->kind == GROUP_PRODUCT;
    if ((rows->kind != GROUP_ROWS && rows->kind != GROUP_BLOCKS) || !kind) return false;
    const IrMap *map = rows->map == IR_NONE ? NULL : &f->m->maps.data[rows->map];
    if (map && (map->from != x->nest.space || map->partial || map->from == map->to)) return false;
    if (!map && (rows->space != x->nest.space || rows->space == IR_UNIT)) return false;
    /* A node tensor is cheaper than a product without the tile that it has in a kernel of its own. */
    if (!map && x->kind == GROUP_PRODUCT && !has_many_rows(f->m, rows->space)) return false;
    if (draws_numbers(f, e) || holds_bool(f, x) || updates_tensor(f, e) || !stage_elements(f, rows, x)) return false;
    if (!reads_elements(f, &reads[r], e) || !reads_own_row(f, &reads[e], r)) return false;
    return !map || map->sorted || !is_read_elsewhere(f, e, r, reads);
}
