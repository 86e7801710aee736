/* Which values at elements can be computed inside the kernel that sums them: they become inner values of a ROWS or
   BLOCKS group, staged for some elements at a time in private arrays (lower_stage.c).

     %3 = contract %1, %2 : edge[H]             rows of edge.dst: %4, %6, and inside each row %3 and %5:
     %4 = reduce_max edge.dst %3 : node[H]        nothing of edge[H] is in memory, unless another kernel reads it
     %5 = exp(%3 - gather edge.dst %4)
     %6 = reduce_sum edge.dst %5
   It decides nothing by cost and changes nothing: fuse_merge.c asks. */
#include "ir/kernel.h"
#include "ir/order.h"
#include "passes/fuse.h"
#include "passes/rows.h"

enum { LEAST_ELEMENTS = 16 };

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* Bytes in the first cache; in the second, of all and of one value: long rows come round several times, or hold there what was staged.
   A kernel's private arrays hold no more, whatever the machine has. */
static int64_t all_bytes(const FusedFunc *f) { return at_most(machine_staged_room(f->machine), KIR_MAX_FRAME_BYTES / 4 * 3); }
static int64_t stage_bytes(const FusedFunc *f) { return at_most(machine_stage_room(f->machine), all_bytes(f)); }
static int64_t value_bytes(const FusedFunc *f) { return at_most(machine_staged_value_room(f->machine), KIR_MAX_ALLOC_BYTES); }

bool group_has_inner(const Group *g, IrId v)
{
    for (uint32_t i = 0; i < g->inner.n; i++)
        if (g->inner.data[i] == v) return true;
    return false;
}

void values_insert(Arena *a, IrValues *values, IrId v)
{
    VEC_PUSH(a, values, v);
    for (uint32_t i = values->n - 1; i && values->data[i] < values->data[i - 1]; i--) {
        values->data[i] = values->data[i - 1];
        values->data[i - 1] = v;
    }
}

/* ---- room ---------------------------------------------------------------------------------------------- */

static bool add_bytes(const FusedFunc *f, IrId v, int64_t *bytes, int64_t *widest)
{
    const IrType *t = &fused_op(f, v)->type;
    int64_t width = ir_type_width(f->m, t), add;
    if (__builtin_mul_overflow(width, (int64_t)ir_dtype_bytes(t->dtype), &add)) return false;
    if (add > *widest) *widest = add;
    return !__builtin_add_overflow(*bytes, add, bytes);
}

static bool add_values(const FusedFunc *f, const IrValues *values, int64_t *bytes, int64_t *widest)
{
    for (uint32_t i = 0; i < values->n; i++)
        if (!add_bytes(f, values->data[i], bytes, widest)) return false;
    return true;
}

static bool same_sizes(const FusedFunc *f, const IrType *a, const IrType *b)
{
    if (a->n_dims != b->n_dims) return false;
    for (uint8_t k = 0; k < a->n_dims; k++)
        if (f->m->dims.data[a->dims[k]].size != f->m->dims.data[b->dims[k]].size) return false;
    return true;
}

bool group_is_staged(const FusedFunc *f, const Group *g)
{
    if (g->kind != GROUP_ROWS) return false;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const IrType *t = &fused_op(f, g->roots.data[i])->type;
        if (t->n_dims && !same_sizes(f, t, &g->nest)) return true;
    }
    return g->inner.n > 0;
}

/* Of a strip of rows; the sums are not in arrays. */
static int64_t strip_elements(const FusedFunc *f, const Group *g, const Group *more)
{
    int64_t bytes = 0, n = machine_strip_rows(f->machine), widest = 0;
    if (!add_values(f, &g->inner, &bytes, &widest)) return 0;
    if (more && !add_values(f, &more->inner, &bytes, &widest)) return 0;
    if (more && more->kind != GROUP_BLOCKS && !add_values(f, &more->roots, &bytes, &widest)) return 0;
    while (n > LEAST_ELEMENTS && bytes > stage_bytes(f) / n) n /= 2;
    /* few rows in the second cache are still better than all in memory */
    return bytes > all_bytes(f) / n || widest >= value_bytes(f) / n ? 0 : n;
}

int64_t stage_most(const FusedFunc *f, const Group *g)
{
    int64_t bytes = 0, widest = 0, n = LEAST_ELEMENTS;
    if (!add_values(f, &g->inner, &bytes, &widest)) return 0;
    int64_t most = g->kind == GROUP_BLOCKS ? machine_strip_rows(f->machine) : all_bytes(f);
    while (2 * n <= most && 2 * n * widest < value_bytes(f) && 2 * n * bytes <= all_bytes(f)) n *= 2;
    return n;
}

/* A product of the elements, or what is dear, is wanted again when sums of the row are known: computing it twice costs more
   than the second cache, which holds rows that the first does not. */
static bool walks_again(const FusedFunc *f, const Group *g)
{
    bool dear = false, again = false;
    uint32_t index = (uint32_t)(g - f->groups.data);
    for (uint32_t i = 0; i < g->inner.n; i++)
        dear |= group_kind_of(f->f, f->m, g->inner.data[i]) == GROUP_PRODUCT || fuse_is_dear(f, g->inner.data[i]);
    for (IrId v = 0; v < f->f->ops.n && dear && !again; v++) {
        const IrOp *op = fused_op(f, v);
        again = op->op == IR_OP_gather && op->attr.map == g->map && f->group_of.data[op->args[0]] == index;
    }
    return again;
}

int64_t stage_elements(const FusedFunc *f, const Group *g, const Group *more)
{
    if (g->kind == GROUP_BLOCKS) return strip_elements(f, g, more);
    int64_t bytes = 0, row = 0, n = ORDER_ROW_BLOCK, widest = 0, ignored = 0;
    bool inner = more && more->nest.space != g->nest.space;
    if (!add_values(f, &g->inner, &bytes, &widest) || !add_values(f, &g->roots, &row, &ignored)) return 0;
    if (more && !add_values(f, &more->inner, &bytes, &widest)) return 0;
    if (more && !add_values(f, &more->roots, inner ? &bytes : &row, inner ? &widest : &ignored)) return 0;
    if (row > stage_bytes(f)) return 0;
    while (n > LEAST_ELEMENTS && bytes > stage_bytes(f) / n) n /= 2;
    if (bytes > all_bytes(f) / n || widest >= value_bytes(f) / n) return 0;
    if (!more && n < ORDER_ROW_BLOCK && walks_again(f, g))
        while (n < ORDER_ROW_BLOCK && 2 * n * bytes <= all_bytes(f) && 2 * n * widest < value_bytes(f)) n *= 2;
    if (n == ORDER_ROW_BLOCK && bytes)
        while (2 * n * widest < value_bytes(f) && 2 * n * bytes <= all_bytes(f)) n *= 2;
    return f->most_staged && f->most_staged < n ? f->most_staged : n;
}

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

static void note_random(void *user, IrId v, IrId space)
{
    const FusedFunc **f = user;
    if (*f && ir_ops[fused_op(*f, v)->op].traits & T_RANDOM && space != IR_UNIT) *f = NULL;
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
