/* Clones: wide values of edges, one for each walk over the edges that wants it, so that each walk computes its own and
   none needs memory for edges times features. A walk is the kernel of the sums over one map, or that of the sums over
   all edges;
   CLONE_BY_KERNEL: those of them that do not wait for one another. Layers in a row, and a gradient behind a value, have
   a walk each then, and nothing of edges times features stays from the one to the other.

     %4 = contract %1, %2 : edge[F]            %4, %5 = contract %1, %2 : edge[F]
     %6 = reduce_sum %4 via edge.dst      ->   %6 = reduce_sum %4 via edge.dst
     %7 = reduce_sum %4 via edge.src           %7 = reduce_sum %5 via edge.src
   Results, and values of edges no wider than a cache line that are sums, keep one copy: one walk stores them, the
   others read them. The bits of a clone are those of its origin. It makes the function only: fuse.c decides which form
   is cheaper. */
#include "base/ice.h"
#include "passes/rewrite/rewrite.h"
#include "passes/fuse/fuse.h"
#include "passes/context/rows.h"

enum { MAX_WALKS = 64 };

typedef struct EdgeWalk { /* sums over the rows of a map; map IR_NONE: over all of the space */
    IrId map, space;
    uint32_t level;
} EdgeWalk;

/* The kernels that can read a value which needs no memory: those of a level and later. A value of the rows of a map: of
   its level those of that map alone. */
typedef struct Reach {
    uint32_t level;
    bool of_rows;
    IrId map;
} Reach;

typedef struct Clones {
    const Machine *machine;
    IrModule *m;
    const IrFunc *f;
    EdgeWalk walks[MAX_WALKS];
    unsigned n_walks;
    bool too_many;
    Reach *reach;     /* by value; NULL: all levels are one */
    uint64_t *want;   /* by value: walks that compute it, a bit each */
    bool *wide, *one; /* by value: cloned; computed by one walk alone, and stored */
    uint8_t *home;    /* by value: walk + 1 that computes a result which no walk wants */
    IrId *copy;       /* [value][MAX_WALKS]; the copy of what has one is at 0 */
} Clones;

static const IrOp *op_of(const Clones *c, IrId v) { return &c->f->ops.data[v]; }

static bool is_of_edges(const Clones *c, IrId v)
{
    const IrOp *op = op_of(c, v);
    return op->op != IR_OP_arg && has_many_rows(c->m, op->type.space);
}

static unsigned walk_index(Clones *c, IrId map, IrId space, uint32_t level)
{
    for (unsigned i = 0; i < c->n_walks; i++)
        if (c->walks[i].map == map && c->walks[i].space == space && c->walks[i].level == level) return i;
    c->too_many |= c->n_walks == MAX_WALKS;
    if (c->too_many) return 0;
    c->walks[c->n_walks] = (EdgeWalk){map, space, level};
    return c->n_walks++;
}

/* ---- levels of kernels ------------------------------------------------------------------------------------- */

static Reach stored(Reach x) { return (Reach){x.level + x.of_rows, false, IR_NONE}; }

/* What is made of both. */
static Reach joined(Reach x, Reach y)
{
    if (x.level != y.level) return x.level > y.level ? x : y;
    if (x.of_rows && y.of_rows && x.map != y.map) return stored(x);
    return x.of_rows ? x : y;
}

static Reach reach_of(const Clones *c, IrId v)
{
    const IrOp *op = op_of(c, v);
    Reach x = {0, false, IR_NONE};
    ICE_UNLESS(c->reach);
    for (uint32_t k = 0; k < op->n_args; k++) {
        Reach arg = c->reach[op->args[k]];
        bool elsewhere = op->op == IR_OP_gather && arg.map != op->attr.map;
        x = joined(x, elsewhere ? stored(arg) : arg);
    }
    GroupKind kind = group_kind_of(c->f, c->m, v);
    bool sums = kind == GROUP_ROWS || kind == GROUP_BLOCKS;
    if (!sums) return kind == GROUP_MAP || kind == GROUP_DIMS || has_many_rows(c->m, op->type.space) ? x : stored(x);
    IrId map = kind == GROUP_ROWS ? op->attr.map : IR_NONE;
    if (x.of_rows && x.map != map) x = stored(x);
    return (Reach){x.level, true, map};
}

/* ---- which walks want a value ------------------------------------------------------------------------------ */

static void find_wide(Clones *c, IrId v)
{
    const IrOp *op = op_of(c, v);
    if (!is_of_edges(c, v)) return;
    c->wide[v] = ir_type_width(c->m, &op->type) > machine_line_of(c->machine, (uint32_t)ir_dtype_bytes(op->type.dtype));
    for (uint32_t k = 0; k < op->n_args && !op_is_heavy(c->m, c->f, v); k++) c->wide[v] |= c->wide[op->args[k]];
    c->one[v] = !c->wide[v] && op_is_heavy(c->m, c->f, v);
}

/* Where what one walk computes is best computed: in the order of the edges, in a kernel that stores what others
   read. */
static unsigned rank_of_walk(const Clones *c, unsigned i)
{
    IrId map = c->walks[i].map;
    return map == IR_NONE ? 1 : c->m->maps.data[map].sorted ? 0 : 2;
}

/* Of those that come first. */
static unsigned best_walk(const Clones *c, uint64_t walks)
{
    unsigned best = MAX_WALKS;
    ICE_UNLESS(walks);
    for (unsigned i = 0; i < c->n_walks; i++) {
        if (!(walks >> i & 1)) continue;
        bool sooner = best == MAX_WALKS || c->walks[i].level < c->walks[best].level;
        bool same = !sooner && c->walks[i].level == c->walks[best].level;
        if (sooner || (same && rank_of_walk(c, i) < rank_of_walk(c, best))) best = i;
    }
    return best;
}

/* The walks in which v is computed. */
static uint64_t walks_of(const Clones *c, IrId v)
{
    uint64_t want = c->home[v] ? c->want[v] | (uint64_t)1 << (c->home[v] - 1) : c->want[v];
    return c->one[v] && want ? (uint64_t)1 << best_walk(c, want) : want;
}

/* The walk of a sum that takes in values of edges; false: it is none. */
static bool takes_edges(Clones *c, IrId v, unsigned *walk)
{
    const IrOp *op = op_of(c, v);
    GroupKind kind = group_kind_of(c->f, c->m, v);
    if (kind != GROUP_ROWS && kind != GROUP_BLOCKS) return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId space = op_of(c, op->args[k])->type.space;
        if (!has_many_rows(c->m, space) || space == op->type.space) continue;
        *walk = walk_index(c, kind == GROUP_ROWS ? op->attr.map : IR_NONE, space, c->reach ? c->reach[v].level : 0);
        return true;
    }
    return false;
}

static void want_args(Clones *c, IrId v)
{
    const IrOp *op = op_of(c, v);
    unsigned walk;
    bool takes = takes_edges(c, v, &walk);
    uint64_t walks = takes ? (uint64_t)1 << walk : is_of_edges(c, v) ? walks_of(c, v) : 0;
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId x = op->args[k];
        if (takes || op_of(c, x)->type.space == op->type.space) c->want[x] |= walks;
        else c->one[x] |= is_of_edges(c, x); /* read at other rows */
    }
}

/* A result that no walk wants joins one that has what it is made of. */
static void find_home(Clones *c, IrId v)
{
    const IrOp *op = op_of(c, v);
    uint64_t walks = 0;
    if (!c->one[v] || c->want[v] || !is_of_edges(c, v)) return;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (is_of_edges(c, op->args[k])) walks |= walks_of(c, op->args[k]);
    for (unsigned i = 0; i < c->n_walks; i++)
        if (walks >> i & 1 && c->walks[i].map == IR_NONE) walks = (uint64_t)1 << i; /* beside sums over all edges */
    if (walks) c->home[v] = (uint8_t)(best_walk(c, walks) + 1);
}

static bool find_walks(Clones *c)
{
    uint32_t n = c->f->ops.n;
    bool any = false;
    for (IrId v = 0; v < n; v++) find_wide(c, v);
    for (IrId v = 0; v < n && c->reach; v++) c->reach[v] = reach_of(c, v);
    for (uint32_t i = 0; i < c->f->results.n; i++) c->one[c->f->results.data[i].value] = true;
    for (IrId v = n; v-- > 0;) want_args(c, v);
    for (IrId v = 0; v < n; v++) find_home(c, v);
    memset(c->want, 0, n * sizeof *c->want);
    for (IrId v = n; v-- > 0;) want_args(c, v);
    for (IrId v = 0; v < n; v++) any |= c->wide[v] && !c->one[v] && (c->want[v] & (c->want[v] - 1)) != 0;
    return any && !c->too_many;
}

/* ---- the copies ------------------------------------------------------------------------------------------------ */

static bool is_cloned(const Clones *c, IrId v)
{
    return c->wide[v] && !c->one[v] && (c->want[v] & (c->want[v] - 1)) != 0;
}

/* The clone for a walk; what no walk wants takes any. */
static IrId copy_of(const Clones *c, IrId v, unsigned walk)
{
    unsigned slot = is_cloned(c, v) ? walk : 0;
    while (is_cloned(c, v) && !(c->want[v] >> slot & 1)) slot = (slot + 1) % MAX_WALKS;
    return c->copy[(size_t)v * MAX_WALKS + slot];
}

static void copy_op(Clones *c, Rewrite *r, IrId v, unsigned walk, unsigned slot)
{
    IrOp op = *op_of(c, v);
    for (uint32_t k = 0; k < op.n_args; k++) {
        IrId x = op_of(c, v)->args[k];
        r->map[x] = copy_of(c, x, walk);
    }
    op = rewrite_op(r, v);
    c->copy[(size_t)v * MAX_WALKS + slot] = irb_add(&r->b, &op);
}

static void copy_value(Clones *c, Rewrite *r, IrId v)
{
    unsigned walk = 0;
    if (is_cloned(c, v)) {
        for (unsigned i = 0; i < c->n_walks; i++)
            if (c->want[v] >> i & 1) copy_op(c, r, v, i, i);
        return;
    }
    if (!takes_edges(c, v, &walk) && is_of_edges(c, v) && walks_of(c, v)) walk = best_walk(c, walks_of(c, v));
    copy_op(c, r, v, walk, 0);
}

IrFunc *fuse_clone(const Machine *machine, Arena *a, IrModule *m, const IrFunc *f, CloneBy by, IrValues *origin)
{
    ICE_UNLESS(by < N_CLONE_BY && !origin->n);
    Arena *scratch = arena_new();
    uint32_t n = f->ops.n + 1;
    Clones c = {.machine = machine,
                .m = m,
                .f = f,
                .want = ARENA_ARRAY(scratch, uint64_t, n),
                .wide = ARENA_ARRAY(scratch, bool, n),
                .one = ARENA_ARRAY(scratch, bool, n),
                .home = ARENA_ARRAY(scratch, uint8_t, n)};
    if (by == CLONE_BY_KERNEL) c.reach = ARENA_ARRAY(scratch, Reach, n);
    IrFunc *out = NULL;
    if (find_walks(&c)) {
        Rewrite r = rewrite_begin(m, f);
        c.copy = ARENA_ARRAY(scratch, IrId, (size_t)n * MAX_WALKS);
        for (IrId v = 0; v < f->ops.n; v++) {
            copy_value(&c, &r, v);
            while (origin->n < r.b.f->ops.n) VEC_PUSH(a, origin, v);
        }
        for (uint32_t i = 0; i < f->results.n; i++) {
            IrId v = f->results.data[i].value;
            r.map[v] = c.copy[(size_t)v * MAX_WALKS];
        }
        out = rewrite_end(&r);
    }
    arena_free(scratch);
    return out;
}
