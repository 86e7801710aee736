/* Merging of groups that run over the same rows and dims: a pointwise value joins the reduction that feeds it,
   several results of one space share a kernel, reductions over one map share its row.

     group a: rows of edge.dst: %4 = reduce_max %3       group: rows of edge.dst: %4, then %7 = reduce_sum of
     group b: rows of edge.dst: %7 = reduce_sum %6   ->    %6 = exp(%3 - gather edge.dst %4): one kernel, two loops
   A group may read another's value in one kernel only at its own row and element, and nothing that
   runs in between may need the one or feed the other. So products take in what is added to them and what is
   computed from them, element by element, and products over the same rows run side by side. What only sums over all
   rows want is computed inside their kernel, last, so that no other kernel loses it. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/group/schedule_text.h"
#include "passes/context/price.h"
#include "passes/context/rows.h"
#include <stdlib.h>

enum { MAX_ROOTS = 12, MAX_INNER = 32, MAX_CHAIN = 8 };

/* The same rows and as many elements along each dim: names do not matter. */
static bool same_nest(const FusedFunc *f, const Group *a, const Group *b)
{
    if (a->nest.space != b->nest.space || a->nest.n_dims != b->nest.n_dims) return false;
    for (uint8_t k = 0; k < a->nest.n_dims; k++)
        if (f->m->dims.data[a->nest.dims[k]].size != f->m->dims.data[b->nest.dims[k]].size) return false;
    return true;
}

/* ---- kinds ------------------------------------------------------------------------------------------ */

/* Beside a sum that walks element by element it is computed so, too; in a kernel of its own a vector at a time, of what
   is written and read for that. */
static bool map_fits_dims(const FusedFunc *f, uint32_t map, const Group *dims)
{
    if (!dims->nest.n_dims || !group_is_scalar(f, dims)) return true;
    const Machine *m = f->machine;
    double flops = group_flops(f, map), bytes = (double)ir_dtype_bytes(dims->nest.dtype);
    return price_flops(m, PRICE_scalar, flops) - price_flops(m, PRICE_vector, flops) <
           price_write(m, bytes) + price_stream(m, bytes);
}

/* Products side by side walk their weights in turn, tile by tile: panels of them must stay in a near cache. The measure
   is the narrowest panels and the first cache, so that panels of twice the width have the second one. */
static bool products_fit(const FusedFunc *f, const Group *x, const Group *y)
{
    int64_t columns = ir_type_width(f->m, &x->nest), least = LEAST_PANEL * f->machine->lanes,
            kept = machine_panels_room(f->machine), reduced;
    unsigned n = group_products(f, x, &reduced);
    int64_t all = reduced;
    n += group_products(f, y, &reduced);
    if (columns > least) columns = least;
    if (f->text) return n <= PRODUCTS_BESIDE;
    return n <= PRODUCTS_BESIDE && all < kept && reduced < kept &&
           (all + reduced) * columns * (int64_t)ir_dtype_bytes(x->nest.dtype) <= kept;
}

/* Searches in the same rows for the same values share their walks. */
static bool searches_fit(const FusedFunc *f, const Group *x, const Group *y)
{
    return x->map == y->map && fused_op(f, x->roots.data[0])->args[0] == fused_op(f, y->roots.data[0])->args[0];
}

static bool kinds_fit(const FusedFunc *f, uint32_t a, uint32_t b, GroupKind *kind)
{
    const Group *x = &f->groups.data[a], *y = &f->groups.data[b];
    *kind = x->kind == GROUP_MAP ? y->kind : x->kind;
    if (x->kind == GROUP_MAP && y->kind == GROUP_MAP) return true;
    if (x->kind == GROUP_ROWS && y->kind == GROUP_ROWS) return x->map == y->map;
    if (x->kind == GROUP_NTH && y->kind == GROUP_NTH) return searches_fit(f, x, y);
    if (x->kind == GROUP_PRODUCT && y->kind == GROUP_PRODUCT) return products_fit(f, x, y);
    if (x->kind == GROUP_DIMS && y->kind == GROUP_DIMS) return group_is_scalar(f, x) == group_is_scalar(f, y);
    if (x->kind != GROUP_MAP && y->kind != GROUP_MAP) return false;
    if (*kind == GROUP_DIMS) return map_fits_dims(f, x->kind == GROUP_MAP ? a : b, x->kind == GROUP_MAP ? y : x);
    return *kind == GROUP_ROWS || *kind == GROUP_PRODUCT;
}

/* Values without dims join a group of the same rows that has dims: once per row, before the rest. */
static bool narrow_fits(const FusedFunc *f, uint32_t narrow, uint32_t wide, GroupKind *kind)
{
    const Group *n = &f->groups.data[narrow], *w = &f->groups.data[wide];
    bool kinds = (n->kind == GROUP_MAP || n->kind == GROUP_DIMS || n->kind == GROUP_ROWS) &&
                 (w->kind == GROUP_MAP || w->kind == GROUP_DIMS || w->kind == GROUP_ROWS);
    if (!kinds || n->nest.space != w->nest.space || n->nest.space == IR_UNIT || n->nest.n_dims) return false;
    if (n->kind == GROUP_ROWS && w->kind == GROUP_DIMS) return false; /* its tile would be of the wrong kind */
    *kind = n->kind == GROUP_ROWS ? GROUP_ROWS : w->kind;
    return n->map == IR_NONE || w->map == IR_NONE || n->map == w->map;
}

/* ---- reads ------------------------------------------------------------------------------------------ */

/* All reads of b's values by a are at the same element, and none by a value without dims of one with dims, which is
   computed later; *depends if there is a read. In a staged group: at the same row, or element of the row. */
static bool reads_fit(const FusedFunc *f, const GroupReads *of_a, uint32_t b, bool staged, bool *depends)
{
    const Group *rows = &f->groups.data[b];
    for (uint32_t i = 0; i < of_a->reads.n; i++) {
        const GroupRead *r = &of_a->reads.data[i];
        if (f->group_of.data[r->v] != b) continue;
        *depends = true;
        if (staged) {
            bool inner = group_has_inner(rows, r->v);
            bool image = !inner && rows->map != IR_NONE && r->image_of == rows->map;
            if (!r->element && !image) return false;
            continue;
        }
        if (!r->identity || (r->narrow && fused_op(f, r->v)->type.n_dims)) return false;
    }
    return true;
}

static bool reads_of(const FusedFunc *f, const GroupReads *reads, uint32_t g)
{
    for (uint32_t i = 0; i < reads->reads.n; i++)
        if (f->group_of.data[reads->reads.data[i].v] == g) return true;
    return false;
}

static bool is_number(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    return t->space == IR_UNIT && !t->n_dims;
}

static bool share_read(const FusedFunc *f, const GroupReads *a, const GroupReads *b)
{
    for (uint32_t i = 0; i < a->reads.n; i++) {
        if (is_number(f, a->reads.data[i].v)) continue;
        for (uint32_t k = 0; k < b->reads.n; k++)
            if (a->reads.data[i].v == b->reads.data[k].v) return true;
    }
    return false;
}

/* Does anything between run after one and before the other? */
static bool passes_through(const FusedFunc *f, uint32_t from, uint32_t to)
{
    const Group *g = &f->groups.data[from];
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (g->deps.data[i] != to && group_reaches(f, g->deps.data[i], to)) return true;
    return false;
}

/* ---- merging ---------------------------------------------------------------------------------------- */

typedef struct Merge {
    PassContext *ctx;
    FusedFunc *f;
    GroupReads *reads;    /* by group */
    IrValues *readers;    /* by value: groups that read it, and some that no longer do; some twice */
    bool *listed;         /* by group: scratch, false between walks */
    const IrId *rescaled; /* by value: fuse_find_rescaled, of a function with a form */
    bool early;           /* what sums over several maps are put together in waits for the end */
    bool given;           /* what a text puts together is tried, if it pays or not */
    IrValues *with;       /* by group of the text: values that it has there */
} Merge;

static void find_reads(Merge *m, uint32_t g)
{
    GroupReads *reads = &m->reads[g];
    reads->reads.n = 0;
    group_reads(m->f, g, m->ctx->stage, reads);
    for (uint32_t i = 0; i < reads->reads.n; i++) VEC_PUSH(m->ctx->stage, &m->readers[reads->reads.data[i].v], g);
}

/* ---- groups near a group ---- */

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void list_group(Merge *m, uint32_t g, IrValues *out)
{
    if (g == GROUP_NONE || m->f->groups.data[g].dead || m->listed[g]) return;
    m->listed[g] = true;
    VEC_PUSH(m->ctx->stage, out, g);
}

static void list_readers(Merge *m, IrId v, IrValues *out)
{
    for (uint32_t i = 0; i < m->readers[v].n; i++) list_group(m, m->readers[v].data[i], out);
}

/* Ascending, and without g. */
static void end_list(Merge *m, uint32_t g, IrValues *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < out->n; i++) {
        m->listed[out->data[i]] = false;
        if (out->data[i] != g) out->data[n++] = out->data[i];
    }
    out->n = n;
    if (n) qsort(out->data, n, sizeof *out->data, by_number);
}

/* Groups that may read values of g. */
static void find_readers(Merge *m, uint32_t g, IrValues *out)
{
    const Group *x = &m->f->groups.data[g];
    out->n = 0;
    for (uint32_t i = 0; i < x->roots.n; i++) list_readers(m, x->roots.data[i], out);
    for (uint32_t i = 0; i < x->inner.n; i++) list_readers(m, x->inner.data[i], out);
    end_list(m, g, out);
}

/* And those whose values g reads, or that read at rows of the same space what g reads: no others share a kernel with g,
   unless it is given. */
static void find_near(Merge *m, uint32_t g, IrValues *out)
{
    const GroupReads *reads = &m->reads[g];
    find_readers(m, g, out);
    for (uint32_t i = 0; i < out->n; i++) m->listed[out->data[i]] = true;
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        IrId v = reads->reads.data[i].v;
        list_group(m, m->f->group_of.data[v], out);
        for (uint32_t k = 0; k < m->readers[v].n && !is_number(m->f, v); k++) {
            uint32_t other = m->readers[v].data[k];
            if (m->f->groups.data[other].nest.space == m->f->groups.data[g].nest.space) list_group(m, other, out);
        }
    }
    end_list(m, g, out);
}

/* Groups with a root that the text has in one group with a root of g. */
static void find_given(Merge *m, uint32_t g, IrValues *out)
{
    const Group *groups = m->f->groups.data;
    out->n = 0;
    for (uint32_t i = 0; i < groups[g].roots.n; i++) {
        const IrValues *with = &m->with[m->f->target[groups[g].roots.data[i]]];
        for (uint32_t k = 0; k < with->n; k++) {
            IrId v = with->data[k];
            uint32_t other = m->f->group_of.data[v];
            if (other != GROUP_NONE && values_have(&groups[other].roots, v)) list_group(m, other, out);
        }
    }
    end_list(m, g, out);
}

/* Pairs of groups that are near: the second each one in turn, the first those near it. *try may put a and b
   together. */
static bool try_pairs(Merge *m, bool (*try)(Merge *m, uint32_t a, uint32_t b))
{
    void (*find)(Merge *, uint32_t, IrValues *) = m->given ? find_given : find_near;
    bool changed = false;
    IrValues near = {0};
    for (uint32_t b = 0; b < m->f->groups.n; b++) {
        if (!m->f->groups.data[b].dead) find(m, b, &near);
        for (uint32_t k = 0; k < near.n && !m->f->groups.data[b].dead; k++) {
            uint32_t a = near.data[k];
            if (m->f->groups.data[a].dead || !try(m, a, b)) continue;
            changed = true;
            find(m, b, &near);
            for (k = 0; k < near.n && near.data[k] <= a;) k++;
            k--;
        }
    }
    return changed;
}

/* A text, if there is one, has the values of both in one group: those of a as inner values and those of b as roots
   (inner), or alike. */
static bool text_allows(const FusedFunc *f, uint32_t a, uint32_t b, bool inner)
{
    IrId x = f->groups.data[a].roots.data[0], y = f->groups.data[b].roots.data[0];
    if (!f->text) return true;
    if (f->target[x] != f->target[y]) return false;
    return inner ? f->role[x] == ROLE_INNER && f->role[y] == ROLE_ROOT : f->role[x] == f->role[y];
}

static void add_dep(Arena *a, Group *g, uint32_t self, uint32_t d)
{
    for (uint32_t k = 0; k < g->deps.n; k++)
        if (g->deps.data[k] == d) return;
    if (d != self) VEC_PUSH(a, &g->deps, d);
}

/* Group b is now a: in every list of dependencies. */
static void rename_deps(Merge *m, uint32_t a, uint32_t b)
{
    Arena *arena = m->ctx->stage;
    for (uint32_t i = 0; i < m->f->groups.data[b].deps.n; i++)
        add_dep(arena, &m->f->groups.data[a], a, m->f->groups.data[b].deps.data[i]);
    for (uint32_t x = 0; x < m->f->groups.n; x++) {
        Group *g = &m->f->groups.data[x];
        bool had = false;
        uint32_t n = 0;
        for (uint32_t k = 0; k < g->deps.n; k++) {
            if (g->deps.data[k] == b || (x == a && g->deps.data[k] == a)) had = true;
            else g->deps.data[n++] = g->deps.data[k];
        }
        g->deps.n = n;
        if (had) add_dep(arena, g, x, a);
    }
}

static void add_value(Merge *m, IrValues *values, IrId v, uint32_t group)
{
    values_insert(m->ctx->stage, values, v);
    m->f->group_of.data[v] = group;
}

static void merge_into(Merge *m, uint32_t a, uint32_t b, GroupKind kind, bool inner)
{
    FusedFunc *f = m->f;
    Group *x = &f->groups.data[a], *y = &f->groups.data[b];
    ICE_UNLESS(a != b && !x->dead && !y->dead);
    ICE_UNLESS(x->map == IR_NONE || y->map == IR_NONE || x->map == y->map);
    for (uint32_t i = 0; i < y->roots.n; i++) add_value(m, inner ? &x->inner : &x->roots, y->roots.data[i], a);
    for (uint32_t i = 0; i < y->inner.n; i++) add_value(m, &x->inner, y->inner.data[i], a);
    if (y->map != IR_NONE) x->map = y->map;
    x->gemm = false; /* no longer a product alone: the emitted kernel does it */
    if (!inner && y->nest.n_dims > x->nest.n_dims) x->nest = y->nest;
    x->kind = kind;
    y->dead = true;
    f->n_merged++;
    rename_deps(m, a, b);
    find_reads(m, a);
}

static bool too_many(const Group *x, const Group *y)
{
    return x->roots.n + y->roots.n > MAX_ROOTS || x->inner.n + y->inner.n > MAX_INNER;
}

/* A kernel's size has a bound, which is higher where values of elements would need memory. */
static bool too_large(const FusedFunc *f, uint32_t a, uint32_t b)
{
    bool maps = f->groups.data[a].kind == GROUP_MAP && f->groups.data[b].kind == GROUP_MAP;
    return group_flops(f, a) + group_flops(f, b) > (maps ? 1u : 2u) * KERNEL_FLOPS;
}

static bool is_group_of_rows(const Group *g)
{
    return g->kind == GROUP_MAP || g->kind == GROUP_DIMS || g->kind == GROUP_PRODUCT;
}

/* In the end only sums over all rows want the values of e. *any: there are such sums. */
static bool feeds_blocks(Merge *m, uint32_t e, unsigned depth, bool *any)
{
    const FusedFunc *f = m->f;
    IrValues readers = {0};
    find_readers(m, e, &readers);
    for (uint32_t i = 0; i < readers.n; i++) {
        uint32_t g = readers.data[i];
        const Group *y = &f->groups.data[g];
        if (!reads_of(f, &m->reads[g], e)) continue;
        *any |= y->kind == GROUP_BLOCKS;
        if (y->kind != GROUP_BLOCKS && (!depth || !is_group_of_rows(y) || !feeds_blocks(m, g, depth - 1, any)))
            return false;
    }
    return true;
}

/* Values with dims; those of a cache line or less count only where what reads them is no wider: it would need that
   memory. */
static bool reads_inner(const FusedFunc *f, uint32_t e, const GroupReads *reads, const Group *rows)
{
    int64_t own = ir_type_width(f->m, &f->groups.data[e].nest);
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        const IrType *t = &fused_op(f, reads->reads.data[i].v)->type;
        int64_t width = ir_type_width(f->m, t);
        bool light = width < own && width * (int64_t)ir_dtype_bytes(t->dtype) <= f->machine->line_bytes;
        if (t->n_dims && !light && group_has_inner(rows, reads->reads.data[i].v)) return true;
    }
    return false;
}

/* It reads only the sums of the rows, and is of use elsewhere: there it needs no memory. */
static bool belongs_to_blocks(Merge *m, uint32_t e, uint32_t r)
{
    const FusedFunc *f = m->f;
    bool any = false;
    if (f->groups.data[r].kind != GROUP_ROWS || reads_of(f, &m->reads[r], e)) return false;
    return !reads_inner(f, e, &m->reads[e], &f->groups.data[r]) && feeds_blocks(m, e, MAX_CHAIN, &any) && any;
}

/* A product with matrices of rows that lie side by side where they read one, as pairs lie by key: walked in the order
   of other rows each element would read its matrix from a far cache. */
static bool walks_matrices(const FusedFunc *f, const Group *e, IrId map)
{
    for (uint32_t i = 0; i < e->roots.n; i++) {
        const IrOp *op = fused_op(f, e->roots.data[i]);
        for (uint32_t k = 0; op->op == IR_OP_contract && k < op->n_args; k++) {
            const IrOp *read = fused_op(f, op->args[k]);
            if (read->op != IR_OP_gather || read->type.n_dims < 2 || read->attr.map == map) continue;
            const IrMap *by = &f->m->maps.data[read->attr.map];
            if (by->sorted && f->m->spaces.data[by->to].has_dim) return true;
        }
    }
    return false;
}

/* Sums over edges that are to be apart (PassContext.sums_apart), in what processes train with. */
static bool is_apart(const Merge *m, const Group *g)
{
    const IrModule *module = m->f->m;
    const char *name = m->f->f->name;
    bool trains = strcmp(name, "train_step") == 0 || strcmp(name, "metrics") == 0;
    return m->ctx->sums_apart && trains && g->kind == GROUP_ROWS &&
           module->spaces.data[module->maps.data[g->map].from].is_edge;
}

/* No maximum, minimum or product of elements is among its values: what comes of some elements may be added to what
   comes of others. */
static bool only_adds(const FusedFunc *f, const Group *g)
{
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrOpcode op = fused_op(f, g->roots.data[i])->op;
        if (op != IR_OP_reduce_sum && op != IR_OP_contract) return false;
    }
    return true;
}

/* Values at elements join the sums over them. */
static bool try_stage(Merge *m, uint32_t e, uint32_t r)
{
    FusedFunc *f = m->f;
    const Group *x = &f->groups.data[e], *rows = &f->groups.data[r];
    if (x->dead || rows->dead || !text_allows(f, e, r, true)) return false;
    if (too_many(x, rows) || !fuse_can_stage(f, e, r, m->reads)) return false;
    if (!reads_of(f, &m->reads[r], e) && (m->early || !reads_of(f, &m->reads[e], r))) return false;
    if (!m->given && (belongs_to_blocks(m, e, r) || walks_matrices(f, x, rows->map))) return false;
    if (passes_through(f, e, r) || passes_through(f, r, e) || too_large(f, e, r)) return false;
    const IrOp *root = fused_op(f, x->roots.data[0]);
    pass_remark(m->ctx, PASS_fuse, true, root->span, "%%%u = %s is computed inside the rows of %%%u", x->roots.data[0],
                ir_ops[root->op].name, rows->roots.data[0]);
    merge_into(m, r, e, rows->kind, true);
    return true;
}

/* Other sums of the rows; in a staged group also values of the row itself and sums inside it. */
static bool joins_rows(const FusedFunc *f, const Group *g, const Group *rows)
{
    return g->kind == GROUP_ROWS || ((g->kind == GROUP_MAP || g->kind == GROUP_DIMS) && group_is_staged(f, rows));
}

/* Sums of different dims over the same rows, and what is computed from them. */
static bool shapes_fit(const FusedFunc *f, uint32_t a, uint32_t b, GroupKind *kind)
{
    const Group *x = &f->groups.data[a], *y = &f->groups.data[b];
    bool rows = (x->kind == GROUP_ROWS && joins_rows(f, y, x)) || (y->kind == GROUP_ROWS && joins_rows(f, x, y));
    *kind = GROUP_ROWS;
    return rows && x->nest.space == y->nest.space && (x->map == IR_NONE || y->map == IR_NONE || x->map == y->map) &&
           stage_elements(f, x, y);
}

static bool groups_fit(const FusedFunc *f, uint32_t a, uint32_t b, bool *staged, GroupKind *kind)
{
    const Group *x = &f->groups.data[a], *y = &f->groups.data[b];
    *staged = group_is_staged(f, x) || group_is_staged(f, y) || group_rescales(f, x, y);
    if (*staged) return shapes_fit(f, a, b, kind);
    if (same_nest(f, x, y)) return kinds_fit(f, a, b, kind);
    if (narrow_fits(f, a, b, kind) || narrow_fits(f, b, a, kind)) return true;
    *staged = true;
    return shapes_fit(f, a, b, kind);
}

/* What puts sums over several maps together would tie the kernel that takes it in to all the others; it joins the
   last. */
static bool puts_together(const Merge *m, uint32_t t, uint32_t rows)
{
    const FusedFunc *f = m->f;
    if (f->groups.data[t].kind == GROUP_ROWS) return false;
    const GroupReads *reads = &m->reads[t];
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        uint32_t g = f->group_of.data[reads->reads.data[i].v];
        if (g != GROUP_NONE && g != rows && f->groups.data[g].kind == GROUP_ROWS) return true;
    }
    return false;
}

static bool try_merge(Merge *m, uint32_t a, uint32_t b, bool rows_only)
{
    FusedFunc *f = m->f;
    const Group *x = &f->groups.data[a], *y = &f->groups.data[b];
    GroupKind kind;
    bool staged, depends = false;
    if (x->dead || y->dead || !text_allows(f, a, b, false)) return false;
    if (too_many(x, y) || !groups_fit(f, a, b, &staged, &kind)) return false;
    /* its rows run inside panels of columns */
    if (kind == GROUP_PRODUCT && (group_has_narrow(f, x) || group_has_narrow(f, y))) return false;
    if (rows_only && (kind != GROUP_ROWS || (m->early && (puts_together(m, a, b) || puts_together(m, b, a)))))
        return false;
    const GroupReads *of_a = &m->reads[a], *of_b = &m->reads[b];
    bool fits = reads_fit(f, of_b, a, staged, &depends) && reads_fit(f, of_a, b, staged, &depends);
    fits = fits && (depends || m->given || share_read(f, of_a, of_b));
    bool apart = is_apart(m, x) || is_apart(m, y);
    if (apart && (depends || x->kind != y->kind || only_adds(f, x) != only_adds(f, y))) return false;
    if (!fits || passes_through(f, a, b) || passes_through(f, b, a) || too_large(f, a, b)) return false;
    const IrOp *root = fused_op(f, y->roots.data[0]);
    pass_remark(m->ctx, PASS_fuse, true, root->span, "%%%u = %s joins the %s kernel of %%%u", y->roots.data[0],
                ir_ops[root->op].name, group_kind_names[x->kind], x->roots.data[0]);
    merge_into(m, a, b, kind, false);
    return true;
}

static bool comes_before(const FusedFunc *f, uint32_t a, uint32_t b)
{
    return a != b && f->groups.data[a].roots.data[0] < f->groups.data[b].roots.data[0];
}

/* Sums over rows first: what runs between them runs inside them. */
static bool try_rows(Merge *m, uint32_t a, uint32_t b)
{
    if (!comes_before(m->f, a, b)) return false;
    if (m->f->groups.data[b].kind == GROUP_ROWS && try_stage(m, a, b)) return true;
    if (m->f->groups.data[a].kind == GROUP_ROWS && try_stage(m, b, a)) return true;
    return try_merge(m, a, b, true);
}

/* ---- sums over all rows ------------------------------------------------------------------------------------ */

/* Who reads values of e: sums over all its rows, of which *first is one; and, of edges, what runs at the same rows and
   may be staged beside it. Of nodes a kernel of its own does that better. */
static bool is_for_blocks(Merge *m, uint32_t e, uint32_t *first)
{
    const FusedFunc *f = m->f;
    const Group *x = &f->groups.data[e];
    IrValues readers = {0};
    find_readers(m, e, &readers);
    *first = GROUP_NONE;
    for (uint32_t i = 0; i < readers.n; i++) {
        uint32_t g = readers.data[i];
        const Group *y = &f->groups.data[g];
        if (!reads_of(f, &m->reads[g], e)) continue;
        bool sums = y->kind == GROUP_BLOCKS && y->space == x->nest.space;
        bool beside = is_group_of_rows(y) && y->nest.space == x->nest.space && has_many_rows(f->m, y->space);
        if (!sums && !beside) return false;
        if (sums && *first == GROUP_NONE) *first = g;
    }
    return *first != GROUP_NONE;
}

/* Sums over the same rows take them in together. */
static bool try_sweep(Merge *m, uint32_t a, uint32_t b)
{
    FusedFunc *f = m->f;
    const Group *x = &f->groups.data[a], *y = &f->groups.data[b];
    if (x->dead || y->dead || !text_allows(f, a, b, false)) return false;
    if (x->kind != GROUP_BLOCKS || y->kind != GROUP_BLOCKS || x->space != y->space) return false;
    if (too_many(x, y) || reads_of(f, &m->reads[a], b) || reads_of(f, &m->reads[b], a)) return false;
    if (((x->inner.n || y->inner.n) && !stage_elements(f, x, y)) || passes_through(f, a, b) || passes_through(f, b, a))
        return false;
    const IrOp *root = fused_op(f, y->roots.data[0]);
    pass_remark(m->ctx, PASS_fuse, true, root->span, "%%%u = %s takes in rows together with %%%u", y->roots.data[0],
                ir_ops[root->op].name, x->roots.data[0]);
    merge_into(m, a, b, GROUP_BLOCKS, false);
    return true;
}

static bool has_product(const FusedFunc *f, uint32_t g)
{
    const IrValues *roots = &f->groups.data[g].roots;
    for (uint32_t i = 0; i < roots->n; i++)
        if (fused_op(f, roots->data[i])->op == IR_OP_contract) return true;
    return false;
}

/* Both read a wide value of their rows: together once. Products side by side would share the first cache: they stay. */
static bool shares_rows(const FusedFunc *f, const GroupReads *a, const GroupReads *b)
{
    for (uint32_t i = 0; i < a->reads.n; i++) {
        const IrType *t = &fused_op(f, a->reads.data[i].v)->type;
        for (uint32_t k = 0; t->space != IR_UNIT && t->n_dims && k < b->reads.n; k++)
            if (a->reads.data[i].v == b->reads.data[k].v) return true;
    }
    return false;
}

/* Values at rows that only sums over all rows want, staged in one kernel with all of these sums. */
static bool try_blocks(Merge *m, uint32_t e)
{
    FusedFunc *f = m->f;
    uint32_t r;
    const Group *x = &f->groups.data[e];
    if (x->dead || !is_group_of_rows(x) || x->nest.space == IR_UNIT || !is_for_blocks(m, e, &r)) return false;
    bool changed = false;
    IrValues readers = {0};
    find_readers(m, e, &readers);
    for (uint32_t i = 0; i < readers.n; i++) {
        uint32_t g = readers.data[i];
        if (g != r && f->groups.data[g].kind == GROUP_BLOCKS && reads_of(f, &m->reads[g], e))
            changed |= try_sweep(m, r, g);
    }
    return try_stage(m, e, r) || changed;
}

/* What reads staged values at the same rows: it would need them in memory. */
static bool try_beside(Merge *m, uint32_t e)
{
    FusedFunc *f = m->f;
    const Group *x = &f->groups.data[e];
    if (x->dead || !is_group_of_rows(x) || x->nest.space == IR_UNIT || !has_many_rows(f->m, x->nest.space))
        return false;
    IrValues near = {0};
    find_near(m, e, &near);
    for (uint32_t i = 0; i < near.n; i++) {
        uint32_t r = near.data[i];
        if (f->groups.data[r].kind == GROUP_BLOCKS && reads_of(f, &m->reads[e], r) && try_stage(m, e, r)) return true;
    }
    return false;
}

static bool try_given(Merge *m, uint32_t a, uint32_t b)
{
    return try_stage(m, a, b) || (comes_before(m->f, a, b) && (try_merge(m, a, b, false) || try_sweep(m, a, b)));
}

/* Merges the groups of values that a given schedule has in one group. Values that it does not mention have the number 0
   for their group. */
static void merge_given(Merge *m)
{
    m->with = ARENA_ARRAY(m->ctx->stage, IrValues, m->f->text->groups.n + 1);
    for (IrId v = 0; v < m->f->f->ops.n; v++) {
        ICE_UNLESS(m->f->target[v] <= m->f->text->groups.n);
        if (m->f->target[v]) VEC_PUSH(m->ctx->stage, &m->with[m->f->target[v]], v);
    }
    m->given = true;
    while (try_pairs(m, try_given)) {}
    m->given = false;
}

static bool try_alike(Merge *m, uint32_t a, uint32_t b)
{
    return comes_before(m->f, a, b) && try_merge(m, a, b, false);
}

/* Sums over the same rows that read one wide value of these. */
static bool try_sums(Merge *m, uint32_t a, uint32_t b)
{
    const FusedFunc *f = m->f;
    return comes_before(f, a, b) && f->groups.data[a].kind == GROUP_BLOCKS &&
           !(has_product(f, a) && has_product(f, b)) && shares_rows(f, &m->reads[a], &m->reads[b]) &&
           try_sweep(m, a, b);
}

/* A maximum or minimum and the sums that are to rescale with it: before others take their room in a kernel. */
static bool try_form(Merge *m, uint32_t a, uint32_t b)
{
    const Group *x = &m->f->groups.data[a], *y = &m->f->groups.data[b];
    bool one = false;
    if (!comes_before(m->f, a, b)) return false;
    for (uint32_t i = 0; i < x->roots.n; i++)
        for (uint32_t k = 0; k < y->roots.n; k++) {
            IrId with = m->rescaled[x->roots.data[i]];
            one |= with != IR_NONE && with == m->rescaled[y->roots.data[k]];
        }
    return one && try_merge(m, a, b, true);
}

void fuse_merge(PassContext *ctx, FusedFunc *f)
{
    Merge m = {.ctx = ctx,
               .f = f,
               .reads = ARENA_ARRAY(ctx->stage, GroupReads, f->groups.n + 1),
               .readers = ARENA_ARRAY(ctx->stage, IrValues, f->f->ops.n + 1),
               .listed = ARENA_ARRAY(ctx->stage, bool, f->groups.n + 1)};
    for (uint32_t g = 0; g < f->groups.n; g++)
        if (!f->groups.data[g].dead) find_reads(&m, g);
    if (f->form) {
        m.rescaled = fuse_find_rescaled(f, ctx->stage);
        while (try_pairs(&m, try_form)) {}
    }
    m.early = true;
    while (try_pairs(&m, try_rows)) {}
    m.early = false;
    while (try_pairs(&m, try_rows)) {}
    while (try_pairs(&m, try_alike)) {}
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t e = f->groups.n; e-- > 0;) changed |= try_blocks(&m, e) || try_beside(&m, e);
    }
    try_pairs(&m, try_sums);
    if (f->text) merge_given(&m);
}
