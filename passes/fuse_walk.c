/* What a group computes and reads: one walk over the trees of its roots, down to arguments and to values of
   other groups. Also the small facts about operations that fuse and lower must agree on. Changes nothing. */
#include "base/ice.h"
#include "passes/schedule.h"

const char *const group_kind_names[N_GROUP_KINDS] = {"map", "rows", "dims", "product", "blocks", "concat", "rank", "nth", "nearest", "route"};

/* ---- facts about operations ------------------------------------------------------------------------ */

static bool has_own_dim(const IrType *a, const IrType *b, const IrType *r)
{
    for (uint32_t k = 0; k < r->n_dims; k++)
        if (ir_type_has_dim(b, r->dims[k]) && !ir_type_has_dim(a, r->dims[k])) return true;
    return false;
}

/* Two values of rows whose elements lie side by side along the same summed dim. */
static bool both_along_sum(const IrType *a, const IrType *b, const IrType *r)
{
    if (a->space == IR_UNIT || b->space == IR_UNIT || !a->n_dims || !b->n_dims) return false;
    IrId last = a->dims[a->n_dims - 1];
    return b->dims[b->n_dims - 1] == last && !ir_type_has_dim(r, last);
}

static const IrType *arg_type(const IrFunc *f, const IrOp *op, uint32_t k) { return &f->ops.data[op->args[k]].type; }

bool contract_types_dot(const IrType *a, const IrType *b, const IrType *r)
{
    bool outer = r->space == IR_UNIT && (a->space != IR_UNIT || b->space != IR_UNIT);
    return !outer && (!has_own_dim(a, b, r) || both_along_sum(a, b, r));
}

bool contract_is_dot(const IrFunc *f, const IrOp *op)
{
    return contract_types_dot(arg_type(f, op, 0), arg_type(f, op, 1), &op->type);
}

GroupKind group_kind_of(const IrFunc *f, const IrModule *m, IrId v)
{
    const IrOp *op = &f->ops.data[v];
    switch (op->op) {
    case IR_OP_reduce_sum: case IR_OP_reduce_max: case IR_OP_reduce_min: case IR_OP_reduce_mul:
        return m->maps.data[op->attr.map].to == IR_UNIT ? GROUP_BLOCKS : GROUP_ROWS;
    case IR_OP_sum_dims: case IR_OP_max_dims: case IR_OP_min_dims: return GROUP_DIMS;
    case IR_OP_contract:
        if (contract_is_dot(f, op)) return GROUP_DIMS;
        if (op->type.space == IR_UNIT && (arg_type(f, op, 0)->space != IR_UNIT || arg_type(f, op, 1)->space != IR_UNIT))
            return GROUP_BLOCKS;
        return GROUP_PRODUCT;
    case IR_OP_concat: return GROUP_CONCAT;
    case IR_OP_rank: return GROUP_RANK;
    case IR_OP_nth: return GROUP_NTH;
    case IR_OP_nearest: return GROUP_NEAREST;
    case IR_OP_route: return GROUP_ROUTE;
    default: return GROUP_MAP;
    }
}

unsigned group_products(const FusedFunc *f, const Group *g, int64_t *reduced)
{
    unsigned n = 0;
    *reduced = 0;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        if (group_kind_of(f->f, f->m, g->roots.data[i]) != GROUP_PRODUCT) continue;
        IrId dims[2 * IR_MAX_DIMS];
        unsigned n_dims = reduced_dims(f->f, fused_op(f, g->roots.data[i]), dims);
        int64_t each = 1;
        for (unsigned k = 0; k < n_dims && each < INT32_MAX; k++) each *= f->m->dims.data[dims[k]].size;
        *reduced += each;
        n++;
    }
    return n;
}

bool op_is_heavy(const IrModule *m, const IrFunc *f, IrId v) { return group_kind_of(f, m, v) != GROUP_MAP; }

unsigned reduced_dims(const IrFunc *f, const IrOp *op, IrId *dims)
{
    unsigned n = 0;
    for (uint32_t a = 0; a < op->n_args; a++) {
        const IrType *t = arg_type(f, op, a);
        for (uint32_t k = 0; k < t->n_dims; k++) {
            bool seen = ir_type_has_dim(&op->type, t->dims[k]);
            for (unsigned i = 0; i < n; i++) seen |= dims[i] == t->dims[k];
            if (!seen) dims[n++] = t->dims[k];
        }
    }
    return n;
}

bool dims_vector_is_kept(const IrModule *m, const IrFunc *f, const IrOp *op)
{
    const IrType *a = arg_type(f, op, 0);
    if (!op->type.n_dims || !a->n_dims) return false;
    IrId last = op->type.dims[op->type.n_dims - 1];
    return a->dims[a->n_dims - 1] == last && m->dims.data[last].size > 1;
}

bool group_is_scalar(const FusedFunc *f, const Group *g)
{
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        const IrOp *op = fused_op(f, v);
        VecRun run;
        bool sum = group_kind_of(f->f, f->m, v) == GROUP_DIMS && !group_root_is_narrow(f, g, v);
        if (sum && !dims_vector_is_kept(f->m, f->f, op) && !schedule_sum_run(f->m, f->f, op, &run)) return true;
    }
    return false;
}

bool group_is_outer(const FusedFunc *f, const Group *g)
{
    const IrOp *op = fused_op(f, g->roots.data[0]);
    IrId dims[2 * IR_MAX_DIMS];
    if (g->kind != GROUP_BLOCKS || op->op != IR_OP_contract || reduced_dims(f->f, op, dims)) return false;
    const IrType *a = arg_type(f->f, op, 0), *b = arg_type(f->f, op, 1), *r = &op->type;
    if (a->space == IR_UNIT || a->space != b->space || !b->n_dims || r->n_dims != a->n_dims + b->n_dims) return false;
    return !memcmp(r->dims, a->dims, a->n_dims * sizeof *r->dims) &&
           !memcmp(r->dims + a->n_dims, b->dims, b->n_dims * sizeof *r->dims);
}

bool reshape_is_rename(const IrModule *m, const IrType *from, const IrType *to)
{
    uint32_t i = 0, j = 0;
    if (from->space != to->space) return false; /* a dim becomes rows, or rows a dim */
    for (;;) {
        while (i < from->n_dims && m->dims.data[from->dims[i]].size == 1) i++;
        while (j < to->n_dims && m->dims.data[to->dims[j]].size == 1) j++;
        if (i == from->n_dims || j == to->n_dims) return i == from->n_dims && j == to->n_dims;
        if (m->dims.data[from->dims[i++]].size != m->dims.data[to->dims[j++]].size) return false;
    }
}

IrId fused_storage(const FusedFunc *f, IrId v)
{
    for (;;) {
        const IrOp *op = fused_op(f, v);
        if (f->group_of.data[v] != GROUP_NONE || (op->op != IR_OP_reshape && op->op != IR_OP_detach)) return v;
        v = op->args[0];
    }
}

/* ---- the walk -------------------------------------------------------------------------------------- */

typedef struct Place { /* how the walk got to a value */
    bool own;    /* at the root's row */
    bool plain;  /* dims are the root's, by the names of root_type or, if renamed, of from_type */
    bool renamed;
    bool inner;  /* inside a reduce over `via`, at an element of its from-space */
    IrId via, space, map;
    IrId image; /* at the image of the element under this map */
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
    bool narrow;                          /* the root has no dims */
    bool pointwise;                       /* the root is no sum */
    const IrType *root_type, *from_type;  /* from_type: of what a reshape inside renames, or NULL */
    void (*visit)(void *user, IrId v, IrId space);
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

static void add_read(Walk *w, IrId v, Place p)
{
    if (!w->out) return;
    const IrType *t = &fused_op(w->f, v)->type;
    bool plain = !t->n_dims || (p.plain && dims_among(t, p.renamed ? w->from_type : w->root_type));
    GroupRead read = {.v = v, .identity = p.own && plain, .narrow = w->narrow, .element = at_element(w, &p),
                      .space = p.space, .map = p.map, .image_of = p.image, .part = p.part};
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
    if (w->visit && count) w->visit(w->user, v, p.space);
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
        if (q->own != p->own || q->plain != p->plain || q->inner != p->inner || q->renamed != p->renamed)
            continue;
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
    Place p = {.own = true, .plain = true, .via = IR_NONE, .space = g->space, .map = IR_NONE, .image = IR_NONE, .part = 1};
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
    case GROUP_CONCAT: case GROUP_NEAREST: case GROUP_ROUTE: p.own = false; break;
    case GROUP_MAP:
        walk_inline(w, v, p, true);
        return;
    default: break;
    }
    if (w->visit) w->visit(w->user, v, p.space);
    if (kind == GROUP_NTH) walk_nth(w, op, p);
    else walk_args(w, op, p);
}

static void walk_root(Walk *w, IrId v)
{
    bool inner = group_has_inner(&w->f->groups.data[w->g], v);
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

void group_ops(const FusedFunc *f, uint32_t g, Arena *a, void (*visit)(void *user, IrId v, IrId space), void *user)
{
    Walk w = {.f = f, .g = g, .arena = a, .visit = visit, .user = user};
    walk_group(&w);
}

typedef struct Flops {
    const FusedFunc *f;
    unsigned sum;
} Flops;

static void add_flops(void *user, IrId v, IrId space)
{
    (void)space;
    Flops *x = user;
    x->sum += ir_ops[fused_op(x->f, v)->op].flops;
}

unsigned group_flops(const FusedFunc *f, uint32_t g)
{
    Arena *scratch = arena_new();
    Flops flops = {f, 0};
    group_ops(f, g, scratch, add_flops, &flops);
    arena_free(scratch);
    return flops.sum;
}
