/* What a group computes and reads: one walk over the trees of its roots, down to arguments and to values of
   other groups. Changes nothing. */
#include "passes/group/group.h"
#include "base/ice.h"

typedef struct Place { /* how the walk got to a value */
    bool own;          /* at the root's row */
    bool plain;        /* dims are the root's, by the names of root_type or, if renamed, of from_type */
    bool renamed;
    bool inner; /* inside a reduce over `via`, at an element of its from-space */
    IrId via, space, map;
    IrId image;   /* at the image of the element under this map */
    int64_t part; /* one of so many places */
} Place;

typedef struct Visit {
    IrId v;
    Place at;
    uint32_t next; /* of the same value: + 1 */
} Visit;

typedef struct Walk {
    const FusedFunc *f;
    uint32_t g;
    Arena *arena;
    VEC(Visit) visits; /* `seen` of a value is its last one + 1 */
    bool rows;         /* from a sum over a map, or from a value at its elements */
    GroupReads *out;
    IrId root;
    bool narrow;                         /* the root has no dims */
    bool pointwise;                      /* the root is no sum */
    const IrType *root_type, *from_type; /* from_type: of what a reshape inside renames, or NULL */
    void (*visit)(void *user, const GroupOp *op);
    void *user;
} Walk;

static void walk_value(Walk *w, IrId v, Place p);

static void walk_args(Walk *w, const IrOp *op, Place p)
{
    for (uint32_t k = 0; k < op->n_args; k++) walk_value(w, op->args[k], p);
}

/* The elements' values, and the row's rank. */
static void walk_nth(Walk *w, const IrOp *op, Place p)
{
    walk_value(w, op->args[0], p);
    p.inner = false;
    p.space = op->type.space;
    walk_value(w, op->args[1], p);
}

static bool same_dims(const IrType *a, const IrType *b)
{
    return a->n_dims == b->n_dims && !memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims);
}

/* The dims of t are among those of `all`, in the same order. */
static bool dims_among(const IrType *t, const IrType *all)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < all->n_dims && k < t->n_dims; i++) k += all->dims[i] == t->dims[k];
    return k == t->n_dims;
}
static bool at_element(const Walk *w, const Place *p) { return w->rows ? p->inner : p->own; }

static void note_op(const Walk *w, IrId v, const Place *p)
{
    if (w->visit) w->visit(w->user, &(GroupOp){v, w->root, p->space, at_element(w, p)});
}

static void add_read(Walk *w, IrId v, Place p)
{
    if (!w->out) return;
    const IrType *t = &fused_op(w->f, v)->type;
    bool plain = !t->n_dims || (p.plain && dims_among(t, p.renamed ? w->from_type : w->root_type));
    GroupRead read = {.v = v,
                      .identity = p.own && plain,
                      .narrow = w->narrow,
                      .element = at_element(w, &p),
                      .space = p.space,
                      .map = p.map,
                      .image_of = p.image,
                      .part = p.part};
    for (uint32_t i = 0; i < w->out->reads.n; i++) {
        const GroupRead *r = &w->out->reads.data[i];
        if (r->v == v && r->identity == read.identity && r->narrow == read.narrow && r->space == read.space &&
            r->map == read.map && r->element == read.element && r->image_of == read.image_of && r->part == read.part)
            return;
    }
    VEC_PUSH(w->arena, &w->out->reads, read);
}

static void walk_gather(Walk *w, const IrOp *op, Place p)
{
    ICE_UNLESS(op->attr.map < w->f->m->maps.n);
    p.image = at_element(w, &p) ? op->attr.map : IR_NONE;
    p.own = p.inner && op->attr.map == p.via;
    p.inner = false;
    p.map = op->attr.map;
    walk_args(w, op, p);
}

/* One place of a dim; and the index. */
static void walk_at(Walk *w, const IrOp *op, Place p)
{
    walk_value(w, op->args[1], p);
    p.plain = false;
    p.part *= w->f->m->dims.data[op->attr.dim].size;
    walk_value(w, op->args[0], p);
}

/* A pointwise value that only has other names for all of the root's dims is at the root's element. */
static bool renames_root(Walk *w, const IrOp *op, Place *p)
{
    const IrType *from = &fused_op(w->f, op->args[0])->type;
    if (!w->pointwise || !p->plain || p->renamed || !same_dims(&op->type, w->root_type)) return false;
    if (from->n_dims != op->type.n_dims || !reshape_is_rename(w->f->m, from, &op->type)) return false;
    if (w->from_type && !same_dims(w->from_type, from)) return false;
    w->from_type = from;
    p->renamed = true;
    return true;
}

static void walk_inline(Walk *w, IrId v, Place p, bool count)
{
    const FusedFunc *f = w->f;
    const IrOp *op = fused_op(f, v);
    if (count) note_op(w, v, &p);
    switch (op->op) {
    case IR_OP_gather: walk_gather(w, op, p); return;
    case IR_OP_slice: p.plain = false; break;
    case IR_OP_at: walk_at(w, op, p); return;
    case IR_OP_reshape: {
        IrId s = fused_storage(f, op->args[0]);
        p.plain = renames_root(w, op, &p);
        p.own &= fused_op(f, s)->type.space == op->type.space;
        p.inner &= fused_op(f, s)->type.space == op->type.space;
        if (f->group_of.data[s] != GROUP_NONE || fused_op(f, s)->op == IR_OP_arg) {
            if (!group_has_copy(f, w->g, s)) add_read(w, s, p);
            return;
        }
        break;
    }
    default: break;
    }
    walk_args(w, op, p);
}

/* *again: in the same way but for the maps, so that it is no operation more. */
static bool was_at(const Walk *w, IrId v, const Place *p, bool *again)
{
    for (uint32_t i = w->f->seen[v]; i; i = w->visits.data[i - 1].next) {
        const Place *q = &w->visits.data[i - 1].at;
        if (q->own != p->own || q->plain != p->plain || q->inner != p->inner || q->renamed != p->renamed) continue;
        *again = true;
        if (q->space == p->space && q->map == p->map && q->image == p->image && q->part == p->part) return true;
    }
    return false;
}

static void walk_value(Walk *w, IrId v, Place p)
{
    bool root = w->f->group_of.data[v] != GROUP_NONE;
    if (group_has_copy(w->f, w->g, v)) return; /* walked by itself */
    if (root || fused_op(w->f, v)->op == IR_OP_arg) {
        add_read(w, v, p);
        return;
    }
    bool again = false;
    if (was_at(w, v, &p, &again)) return;
    Visit visit = {v, p, w->f->seen[v]};
    VEC_PUSH(w->arena, &w->visits, visit);
    w->f->seen[v] = w->visits.n;
    walk_inline(w, v, p, !again);
}

static void walk_from_root(Walk *w, IrId v)
{
    const FusedFunc *f = w->f;
    const IrOp *op = fused_op(f, v);
    const Group *g = &f->groups.data[w->g];
    Place p = {
        .own = true, .plain = true, .via = IR_NONE, .space = g->space, .map = IR_NONE, .image = IR_NONE, .part = 1};
    GroupKind kind = group_kind_of(f->f, f->m, v);
    bool inner = group_has_inner(g, v);
    bool rows = kind == GROUP_ROWS || kind == GROUP_NTH;
    w->rows = inner || rows || kind == GROUP_BLOCKS || kind == GROUP_RANK;
    if (w->rows) {
        p.own = false;
        p.inner = true;
        p.via = inner ? g->map : rows ? op->attr.map : IR_NONE;
        if (p.via != IR_NONE) p.space = f->m->maps.data[p.via].from;
    }
    switch (kind) {
    case GROUP_CONCAT:
    case GROUP_NEAREST:
    case GROUP_ROUTE: p.own = false; break;
    case GROUP_MAP: walk_inline(w, v, p, true); return;
    default: break;
    }
    note_op(w, v, &p);
    if (kind == GROUP_NTH) walk_nth(w, op, p);
    else walk_args(w, op, p);
}

static void walk_root(Walk *w, IrId v)
{
    ICE_UNLESS(!w->visits.n); /* f->seen is 0 between walks */
    bool inner = group_has_inner(&w->f->groups.data[w->g], v);
    w->root = v;
    w->narrow = !fused_op(w->f, v)->type.n_dims && !inner;
    w->pointwise = !inner && group_kind_of(w->f->f, w->f->m, v) == GROUP_MAP;
    w->root_type = &fused_op(w->f, v)->type;
    w->from_type = NULL;
    walk_from_root(w, v);
    for (uint32_t i = 0; i < w->visits.n; i++) w->f->seen[w->visits.data[i].v] = 0;
    w->visits.n = 0;
}

static void walk_group(Walk *w)
{
    const Group *g = &w->f->groups.data[w->g];
    for (uint32_t i = 0; i < g->roots.n; i++) walk_root(w, g->roots.data[i]);
    for (uint32_t i = 0; i < g->inner.n; i++) walk_root(w, g->inner.data[i]);
}

void group_reads(const FusedFunc *f, uint32_t g, Arena *a, GroupReads *out)
{
    Walk w = {.f = f, .g = g, .arena = a, .out = out};
    walk_group(&w);
}

void group_ops(const FusedFunc *f, uint32_t g, Arena *a, void (*visit)(void *user, const GroupOp *op), void *user)
{
    Walk w = {.f = f, .g = g, .arena = a, .visit = visit, .user = user};
    walk_group(&w);
}

bool group_reads_own_row(const FusedFunc *f, const Group *g, const GroupRead *r)
{
    bool sums = g->kind == GROUP_ROWS, apart = sums && f->m->maps.data[g->map].from != g->space;
    if (fused_op(f, r->v)->type.space != g->space || (sums && !apart)) return false;
    return (r->element && r->space == g->space) || (sums && r->image_of == g->map);
}

typedef struct Flops {
    const FusedFunc *f;
    unsigned sum;
} Flops;

static void add_flops(void *user, const GroupOp *op)
{
    Flops *x = user;
    x->sum += ir_ops[fused_op(x->f, op->v)->op].flops;
}

unsigned group_flops(const FusedFunc *f, uint32_t g)
{
    Arena *scratch = arena_new();
    Flops flops = {f, 0};
    group_ops(f, g, scratch, add_flops, &flops);
    arena_free(scratch);
    return flops.sum;
}
