/* What stays when the values of a program get more elements: a feature dim of more columns, or a node more in the
   graph. A walk over the ops says of each value whether its old elements are what they were, and what stands in the new
   ones
   (pads): zeros, which sums and products do not feel; copies of old elements, which maxima do not feel; or anything,
   which no op that works element by element or along edges feels. It knows ops by their traits and by how they join
   elements, and nothing of models: a value that reads pads which it feels is exempt, and so is all that follows from
   it; the op is the reason. Dims that are made of a widened one (flattened, joined, renamed) widen with it. */
#pragma once
#include "passes/pipeline/pipeline.h"
#include "tests/unit/gir_random.h"

typedef enum { PADS_ANY, PADS_ZERO, PADS_COPY, N_PADS } Pads; /* what inputs have there */
enum { GROWN_SAME = 1, GROWN_ZERO = 2, GROWN_COPY = 4, GROWN_TOUCHED = 8, GROWN_NOUGHT = 16 /* 0 everywhere */ };
/* clang-format off */
enum { SPACE_STAYS, SPACE_APART /* new rows belong to new rows */, SPACE_TOGETHER /* some to old ones */,
    SPACE_OTHER /* drawn or found anew */ };
/* clang-format on */

typedef struct GrownDim { /* from NULL: as it was */
    int64_t n, *from;     /* [n] the old element that is here, or that a pad copies */
    bool *pad;            /* [n] */
} GrownDim;

typedef struct Growth {
    Arena *arena;
    const IrModule *m[2]; /* before and after */
    GrownDim *dims;       /* [dims of m[0]] */
    uint8_t *spaces;      /* [spaces of m[0]] SPACE_.. */
    Pads pads;
    uint8_t *facts; /* [ops] GROWN_.. */
    IrId *cause;    /* [ops] the op that made a value another one, where it is not GROWN_SAME */
} Growth;

static inline GrownDim growth_dim_new(Arena *a, int64_t n)
{
    return (GrownDim){n, ARENA_ARRAY(a, int64_t, n + 1), ARENA_ARRAY(a, bool, n + 1)};
}

static inline int64_t growth_old_size(const Growth *g, IrId d) { return g->m[0]->dims.data[d].size; }
static inline int64_t growth_size(const Growth *g, IrId d)
{
    return g->dims[d].from ? g->dims[d].n : growth_old_size(g, d);
}

/* The old place in a row of these dims of the element at `at` of a new row. */
static inline int64_t growth_place(const Growth *g, const IrId *dims, uint32_t n, int64_t at, bool *pad)
{
    int64_t place = 0, step = 1;
    *pad = false;
    for (uint32_t k = n; k-- > 0; step *= growth_old_size(g, dims[k])) {
        const GrownDim *d = &g->dims[dims[k]];
        int64_t i = at % growth_size(g, dims[k]);
        at /= growth_size(g, dims[k]);
        if (d->from) *pad |= d->pad[i], i = d->from[i];
        place += i * step;
    }
    return place;
}

static inline int64_t growth_width(const Growth *g, const IrId *dims, uint32_t n)
{
    int64_t width = 1;
    for (uint32_t k = 0; k < n; k++) width *= growth_size(g, dims[k]);
    return width;
}

static inline bool growth_has(const Growth *g, const IrId *dims, uint32_t n)
{
    bool has = false;
    for (uint32_t k = 0; k < n; k++) has |= g->dims[dims[k]].from != NULL;
    return has;
}

/* ---- dims that widen with others ---- */

static inline bool growth_set(Growth *g, IrId d, GrownDim to)
{
    if (g->dims[d].from) return false;
    g->dims[d] = to;
    return true;
}

static inline GrownDim growth_flat(const Growth *g, const IrId *dims, uint32_t n)
{
    GrownDim to = growth_dim_new(g->arena, growth_width(g, dims, n));
    for (int64_t i = 0; i < to.n; i++) to.from[i] = growth_place(g, dims, n, i, &to.pad[i]);
    return to;
}

static inline bool growth_alike(Growth *g, const IrId *x, uint32_t nx, const IrId *y, uint32_t ny)
{
    if (ny == 1 && growth_has(g, x, nx)) return growth_set(g, y[0], nx == 1 ? g->dims[x[0]] : growth_flat(g, x, nx));
    return nx == 1 && ny == 1 && growth_has(g, y, ny) && growth_set(g, x[0], g->dims[y[0]]);
}

/* Dims of a reshape in groups of as many elements. */
static inline bool growth_reshaped(Growth *g, const IrType *x, const IrType *y)
{
    uint32_t i = x->space == IR_UNIT && y->space != IR_UNIT, j = y->space == IR_UNIT && x->space != IR_UNIT;
    bool more = false;
    while (i < x->n_dims && j < y->n_dims) {
        uint32_t i0 = i, j0 = j;
        int64_t nx = growth_old_size(g, x->dims[i++]), ny = growth_old_size(g, y->dims[j++]);
        while (nx != ny && (nx < ny ? i < x->n_dims : j < y->n_dims))
            if (nx < ny) nx *= growth_old_size(g, x->dims[i++]);
            else ny *= growth_old_size(g, y->dims[j++]);
        while (j == y->n_dims && i < x->n_dims) i++;
        while (i == x->n_dims && j < y->n_dims) j++;
        more |= growth_alike(g, x->dims + i0, i - i0, y->dims + j0, j - j0);
        more |= growth_alike(g, y->dims + j0, j - j0, x->dims + i0, i - i0);
    }
    return more;
}

static inline uint32_t growth_position(const IrType *t, IrId dim)
{
    uint32_t k = 0;
    while (k < t->n_dims && t->dims[k] != dim) k++;
    return k;
}

/* A dim of parts side by side; where it alone is known, and the sizes behind, its parts are cut from it. */
static inline bool growth_joined(Growth *g, const IrFunc *f, const IrOp *op)
{
    uint32_t k = growth_position(&op->type, op->attr.dim), n = op->n_args;
    IrId *parts = ARENA_ARRAY(g->arena, IrId, n + 1);
    for (uint32_t i = 0; i < n; i++) parts[i] = f->ops.data[op->args[i]].type.dims[k];
    GrownDim *whole = &g->dims[op->attr.dim], to = {0};
    int64_t at = 0, old = 0;
    bool more = false;
    if (!whole->from && growth_has(g, parts, n)) {
        for (uint32_t i = 0; i < n; i++) at += growth_size(g, parts[i]);
        to = growth_dim_new(g->arena, at), at = 0;
        for (uint32_t i = 0; i < n; old += growth_old_size(g, parts[i++]))
            for (int64_t e = 0; e < growth_size(g, parts[i]); e++, at++)
                to.from[at] = old + growth_place(g, &parts[i], 1, e, &to.pad[at]);
        return growth_set(g, op->attr.dim, to);
    }
    for (uint32_t i = 0; i < n && whole->from && g->m[1]; i++) {
        int64_t size = g->m[1]->dims.data[parts[i]].size, was = growth_old_size(g, parts[i]);
        if (at + size > whole->n) return more;
        if (size != was && !g->dims[parts[i]].from) {
            to = growth_dim_new(g->arena, size);
            for (int64_t e = 0; e < size; e++) to.from[e] = whole->from[at + e] - old, to.pad[e] = whole->pad[at + e];
            for (int64_t e = 0; e < size; e++)
                if (to.from[e] < 0 || to.from[e] >= was) to.from[e] = 0, to.pad[e] = true;
            more |= growth_set(g, parts[i], to);
        }
        at += size, old += was;
    }
    return more;
}

static inline void growth_spread(Growth *g, const IrFunc *f)
{
    for (bool more = true; more;) {
        more = false;
        for (IrId v = 0; v < f->ops.n; v++) {
            const IrOp *op = &f->ops.data[v];
            if (op->op == IR_OP_reshape) more |= growth_reshaped(g, &f->ops.data[op->args[0]].type, &op->type);
            if (op->op == IR_OP_concat) more |= growth_joined(g, f, op);
        }
    }
}

static inline bool growth_slices(const Growth *g, IrId of, int64_t at, IrId part, int64_t at_new)
{
    int64_t n = growth_size(g, part);
    if (at_new + n > growth_size(g, of)) return false;
    for (int64_t i = 0; i < n; i++) {
        bool pad, pad_of;
        int64_t x = growth_place(g, &part, 1, i, &pad), y = growth_place(g, &of, 1, at_new + i, &pad_of);
        if (pad != pad_of || x + at != y) return false;
    }
    return true;
}

/* Where the slice of a widened dim begins: where it has its old elements, if there is such a place. */
static inline int64_t growth_slice_at(const Growth *g, IrId of, int64_t at, IrId part)
{
    int64_t last = growth_size(g, of) - growth_size(g, part);
    for (int64_t i = 0; i <= last; i++)
        if (growth_slices(g, of, at, part, i)) return i;
    return at < last ? at : last;
}

/* The module with the dims as they are now: sizes, stored forms, places of slices. */
static inline IrModule *growth_apply(Growth *g, const IrModule *m)
{
    IrModule *to = ir_module_clone(g->arena, m);
    for (IrId d = 0; d < m->dims.n; d++) to->dims.data[d].size = growth_size(g, d);
    for (IrId t = 0; t < m->tensors.n; t++) {
        IrTensor *x = &to->tensors.data[t];
        if (!growth_has(g, x->type.dims, x->type.n_dims) || !x->n_stored) continue;
        x->n_stored = x->type.n_dims;
        for (uint32_t k = 0; k < x->n_stored; k++) x->stored_shape[k] = growth_size(g, x->type.dims[x->stored_perm[k]]);
    }
    IrFunc *f = ARENA_NEW(g->arena, IrFunc);
    *f = *m->funcs.data[0];
    f->ops.data = ARENA_ARRAY(g->arena, IrOp, f->ops.n + 1);
    memcpy(f->ops.data, m->funcs.data[0]->ops.data, f->ops.n * sizeof *f->ops.data);
    for (IrId v = 0; v < f->ops.n; v++) {
        IrOp *op = &f->ops.data[v];
        const IrType *x = op->op == IR_OP_slice ? &f->ops.data[op->args[0]].type : NULL;
        if (x)
            op->attr.i = growth_slice_at(g, op->attr.dim, op->attr.i, op->type.dims[growth_position(x, op->attr.dim)]);
    }
    to->funcs.data[0] = f;
    return to;
}

/* ---- facts ---- */

static inline bool growth_has_axis(const IrType *t, bool row, IrId axis)
{
    return row ? t->space == axis : ir_type_has_dim(t, axis);
}

/* Are the pads of operand k along this axis 0? */
static inline bool growth_is_zero(const Growth *g, const IrFunc *f, const IrOp *op, uint32_t k, bool row, IrId axis)
{
    IrId v = op->args[k];
    return (g->facts[v] & GROWN_NOUGHT) ||
           ((g->facts[v] & GROWN_ZERO) && growth_has_axis(&f->ops.data[v].type, row, axis));
}

/* Which of the operands [from, n_args) have to be 0 for the result to be 0: all, or any. */
typedef struct ZeroRule {
    uint32_t from, to;
    bool any;
} ZeroRule;

static inline bool growth_zero_rule(const IrOp *op, ZeroRule *r)
{
    uint16_t traits = ir_ops[op->op].traits;
    *r = (ZeroRule){0, op->n_args, false};
    switch (op->op) {
    case IR_OP_mul:
    case IR_OP_contract:
    case IR_OP_and: r->any = true; return true;
    case IR_OP_div: r->to = 1; return true;
    case IR_OP_select: r->from = 1; return true;
    case IR_OP_reduce_max:
    case IR_OP_reduce_min: return op->attr.f == 0;
    case IR_OP_max_dims:
    case IR_OP_min_dims: return true;
    default: return op->n_args && (traits & (T_ZERO | T_LINEAR));
    }
}

static inline bool growth_zero_axis(const Growth *g, const IrFunc *f, const IrOp *op, const ZeroRule *r, bool row,
                                    IrId axis)
{
    bool all = true, any = false;
    for (uint32_t k = r->from; k < r->to; k++) {
        bool zero = growth_is_zero(g, f, op, k, row, axis);
        all &= zero, any |= zero;
    }
    return r->any ? any : all;
}

/* Axes that the op keeps lie in operand and result alike; a reshape's do not, and a map's rows have other names. */
static inline bool growth_zero(const Growth *g, const IrFunc *f, const IrOp *op)
{
    ZeroRule r;
    uint16_t traits = ir_ops[op->op].traits;
    if (!growth_zero_rule(op, &r)) return false;
    bool renames = op->op == IR_OP_reshape || op->op == IR_OP_concat || op->op == IR_OP_slice;
    for (uint32_t k = 0; k < op->n_args && renames; k++)
        if (!(g->facts[op->args[k]] & GROWN_ZERO)) return false;
    for (uint32_t k = 0; k < op->type.n_dims && !renames; k++)
        if (g->dims[op->type.dims[k]].from && !growth_zero_axis(g, f, op, &r, false, op->type.dims[k])) return false;
    if (g->spaces[op->type.space] == SPACE_STAYS) return true;
    const IrMap *map = traits & (T_REDUCE | T_MOVE) ? &g->m[0]->maps.data[op->attr.map] : NULL;
    if (traits & T_REDUCE) return g->spaces[map->from] == SPACE_STAYS || growth_is_zero(g, f, op, 0, true, map->from);
    if (map)
        return g->spaces[op->type.space] == SPACE_APART && g->spaces[map->to] == SPACE_APART &&
               growth_is_zero(g, f, op, 0, true, map->to);
    return growth_zero_axis(g, f, op, &r, true, op->type.space);
}

static inline bool growth_nought(const Growth *g, const IrOp *op)
{
    ZeroRule r;
    if (op->op == IR_OP_const) return op->attr.f == 0;
    if (!growth_zero_rule(op, &r)) return false;
    bool all = true, any = false;
    for (uint32_t k = r.from; k < r.to; k++) {
        bool zero = g->facts[op->args[k]] & GROWN_NOUGHT;
        all &= zero, any |= zero;
    }
    return r.any ? any : all;
}

static inline bool growth_reshapes(const Growth *g, const IrType *x, const IrType *y)
{
    uint32_t i = x->space == IR_UNIT && y->space != IR_UNIT, j = y->space == IR_UNIT && x->space != IR_UNIT;
    if (growth_has(g, x->dims, i) || growth_has(g, y->dims, j)) return false; /* they are rows there */
    int64_t n = growth_width(g, x->dims + i, x->n_dims - i);
    if (n != growth_width(g, y->dims + j, y->n_dims - j)) return false;
    for (int64_t e = 0; e < n; e++) {
        bool p, q;
        int64_t px = growth_place(g, x->dims + i, x->n_dims - i, e, &p),
                py = growth_place(g, y->dims + j, y->n_dims - j, e, &q);
        if (p != q || px != py) return false;
    }
    return true;
}

/* Old elements of a joined dim stand in the places that its parts say. */
static inline bool growth_joins(const Growth *g, const IrFunc *f, const IrOp *op)
{
    uint32_t k = growth_position(&op->type, op->attr.dim);
    int64_t at = 0, old = 0;
    for (uint32_t i = 0; i < op->n_args; i++) {
        IrId part = f->ops.data[op->args[i]].type.dims[k];
        for (int64_t e = 0; e < growth_size(g, part); e++, at++) {
            bool p, q;
            if (at >= growth_size(g, op->attr.dim)) return false;
            int64_t x = growth_place(g, &part, 1, e, &p), y = growth_place(g, &op->attr.dim, 1, at, &q);
            if (p != q || x + old != y) return false;
        }
        old += growth_old_size(g, part);
    }
    return at == growth_size(g, op->attr.dim);
}

/* Each number of a row keeps its index, by which it is drawn. */
static inline bool growth_keeps_places(const Growth *g, const IrType *t)
{
    for (int64_t e = 0, n = growth_width(g, t->dims, t->n_dims); e < n; e++) {
        bool pad;
        if (growth_place(g, t->dims, t->n_dims, e, &pad) != e && !pad) return false;
    }
    return true;
}

/* Sums, products and extrema over dims that the result lacks, and over rows: are pads neutral there? */
static inline bool growth_neutral(const Growth *g, const IrFunc *f, const IrOp *op)
{
    bool extreme = op->op == IR_OP_max_dims || op->op == IR_OP_min_dims;
    ZeroRule r = {0, op->n_args, op->op == IR_OP_contract};
    for (uint32_t k = 0; k < op->n_args; k++) {
        const IrType *x = &f->ops.data[op->args[k]].type;
        for (uint32_t i = 0; i < x->n_dims; i++) {
            if (!g->dims[x->dims[i]].from || ir_type_has_dim(&op->type, x->dims[i])) continue;
            if (extreme ? !(g->facts[op->args[k]] & GROWN_COPY) : !growth_zero_axis(g, f, op, &r, false, x->dims[i]))
                return false;
        }
        if (g->spaces[x->space] != SPACE_STAYS && x->space != op->type.space &&
            !growth_zero_axis(g, f, op, &r, true, x->space))
            return false;
    }
    return true;
}

/* Through a map: new rows that lead to old ones have to be zeros of a sum. */
static inline bool growth_walks(const Growth *g, const IrFunc *f, const IrOp *op)
{
    const IrMap *map = &g->m[0]->maps.data[op->attr.map];
    unsigned from = g->spaces[map->from], to = g->spaces[map->to];
    if (from == SPACE_OTHER || to == SPACE_OTHER) return false;
    if (op->op == IR_OP_gather || op->op == IR_OP_mapped || from == SPACE_STAYS) return true;
    if (from == SPACE_APART && to != SPACE_STAYS) return true;
    return op->op == IR_OP_reduce_sum && growth_is_zero(g, f, op, 0, true, map->from);
}

static inline bool growth_nearest(const Growth *g, const IrFunc *f, const IrOp *op)
{
    for (uint32_t k = 0; k < 2; k++) {
        const IrType *x = &f->ops.data[op->args[k]].type;
        if (growth_has(g, x->dims, x->n_dims) && !(g->facts[op->args[k]] & GROWN_ZERO)) return false;
    }
    return true;
}

/* Are the old elements of v what they were, if those of its operands are? `now`: the op behind. */
static inline bool growth_same(const Growth *g, const IrFunc *f, const IrOp *op, const IrOp *now)
{
    const IrType *x = op->n_args ? &f->ops.data[op->args[0]].type : NULL;
    if (g->spaces[op->type.space] == SPACE_OTHER) return false;
    if ((ir_ops[op->op].attrs & A_MAP) && !growth_walks(g, f, op)) return false;
    switch (op->op) {
    case IR_OP_element:
    case IR_OP_row: return g->spaces[op->type.space] == SPACE_STAYS || !g->m[0]->spaces.data[op->type.space].is_edge;
    case IR_OP_random_uniform:
    case IR_OP_random_normal: return growth_keeps_places(g, &op->type);
    case IR_OP_reshape: return growth_reshapes(g, x, &op->type);
    case IR_OP_concat: return growth_joins(g, f, op);
    case IR_OP_slice:
        return growth_slices(g, op->attr.dim, op->attr.i, op->type.dims[growth_position(x, op->attr.dim)], now->attr.i);
    case IR_OP_sum_dims:
    case IR_OP_max_dims:
    case IR_OP_min_dims:
    case IR_OP_contract: return growth_neutral(g, f, op);
    case IR_OP_nearest: return growth_nearest(g, f, op);
    default: return true;
    }
}

static inline uint8_t growth_argument(const Growth *g, const IrFunc *f, const IrOp *op)
{
    static const uint8_t with[N_PADS] = {0, GROWN_ZERO, GROWN_COPY};
    bool weight = !strncmp(f->args.data[op->attr.i].name, "weight.", 7);
    return (uint8_t)(GROWN_SAME | (weight ? GROWN_ZERO : with[g->pads]));
}

static inline void growth_op(Growth *g, const IrFunc *f, const IrOp *now, IrId v)
{
    const IrOp *op = &f->ops.data[v];
    const IrType *t = &op->type;
    bool grown = g->spaces[t->space] != SPACE_STAYS || growth_has(g, t->dims, t->n_dims), copy = op->op != IR_OP_iota;
    uint8_t touched = grown ? GROWN_TOUCHED : 0;
    IrId route = ir_route_of(g->m[0], f, op), cause = IR_NONE;
    for (uint32_t k = 0; k < op->n_args + (route != IR_NONE); k++) {
        IrId x = k < op->n_args ? op->args[k] : route;
        touched |= g->facts[x] & GROWN_TOUCHED;
        copy &= (g->facts[x] & GROWN_COPY) != 0 || k >= op->n_args;
        if (!(g->facts[x] & GROWN_SAME) && cause == IR_NONE) cause = g->cause[x];
    }
    if (cause == IR_NONE && !growth_same(g, f, op, now)) cause = v;
    g->cause[v] = cause, g->facts[v] = touched;
    if (cause != IR_NONE) return;
    uint8_t facts = op->op == IR_OP_arg ? growth_argument(g, f, op) : GROWN_SAME;
    if (op->op != IR_OP_arg && copy && !(ir_ops[op->op].traits & T_RANDOM)) facts |= GROWN_COPY;
    if (op->op != IR_OP_arg && growth_zero(g, f, op)) facts |= GROWN_ZERO;
    if (growth_nought(g, op)) facts |= GROWN_ZERO | GROWN_NOUGHT;
    g->facts[v] = (uint8_t)(facts | touched | (grown ? 0 : GROWN_ZERO | GROWN_COPY));
}

/* How many results have their old elements, and something grown behind them. */
static inline uint32_t growth_judge(Growth *g, Pads pads)
{
    const IrFunc *f = g->m[0]->funcs.data[0], *now = g->m[1]->funcs.data[0];
    uint32_t n = 0;
    g->pads = pads, g->facts = ARENA_ARRAY(g->arena, uint8_t, f->ops.n + 1),
    g->cause = ARENA_ARRAY(g->arena, IrId, f->ops.n + 1);
    for (IrId v = 0; v < f->ops.n; v++) growth_op(g, f, &now->ops.data[v], v);
    for (uint32_t i = 0; i < f->results.n; i++) {
        uint8_t facts = g->facts[f->results.data[i].value];
        n += (facts & GROWN_SAME) && (facts & GROWN_TOUCHED);
    }
    return n;
}

static inline Growth growth_new(Arena *a, const IrModule *m)
{
    return (Growth){.arena = a,
                    .m = {m, NULL},
                    .dims = ARENA_ARRAY(a, GrownDim, m->dims.n + 1),
                    .spaces = ARENA_ARRAY(a, uint8_t, m->spaces.n + 1)};
}

/* ---- a node more ---- */

static inline uint8_t growth_graph(const Growth *g, const IrGraph *d)
{
    uint8_t base = d->base == IR_NONE ? SPACE_STAYS : g->spaces[g->m[0]->graphs.data[d->base].edge],
            nodes = g->spaces[d->dst_space];
    switch (d->kind) {
    case IR_GRAPH_DATA:
    case IR_GRAPH_RANDOM:
    case IR_GRAPH_FILE: return SPACE_STAYS;
    case IR_GRAPH_SELF_LOOPS:
        return d->policy == IR_LOOPS_REMOVE || nodes == SPACE_STAYS ? base : base > SPACE_APART ? base : SPACE_APART;
    case IR_GRAPH_REVERSE:
    case IR_GRAPH_LINE:
    case IR_GRAPH_SIBLINGS: return base;
    case IR_GRAPH_COMPLETE: return nodes == SPACE_STAYS ? base : nodes == SPACE_OTHER ? SPACE_OTHER : SPACE_TOGETHER;
    /* how many nodes there are says which edges */
    default: return base == SPACE_STAYS && nodes == SPACE_STAYS ? SPACE_STAYS : SPACE_OTHER;
    }
}

static inline Growth growth_of_nodes(Arena *a, const IrModule *m)
{
    Growth g = growth_new(a, m);
    g.m[1] = m;
    g.spaces[m->graphs.data[0].dst_space] = SPACE_APART;
    for (uint32_t i = 1; i < m->graphs.n; i++) {
        const IrGraph *d = &m->graphs.data[i];
        bool drawn = d->kind == IR_GRAPH_SELECT && g.spaces[m->graphs.data[d->base].dst_space] != SPACE_STAYS;
        if (drawn) g.spaces[d->dst_space] = SPACE_OTHER;
        g.spaces[d->edge] = growth_graph(&g, d);
    }
    return g;
}

/* ---- a wider dim ---- */

/* The module m with `more` elements behind those of a dim, *plain: autodiff alone; before: m with autodiff alone. NULL:
   it has no such form. */
static inline IrModule *growth_of_dim(Arena *a, const IrModule *m, const IrModule *before, IrId dim, int64_t more,
                                      Growth *g)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    *g = growth_new(a, before);
    int64_t n = growth_old_size(g, dim);
    g->dims[dim] = growth_dim_new(a, n + more);
    for (int64_t i = 0; i < n + more; i++) g->dims[dim].from[i] = i % n, g->dims[dim].pad[i] = i >= n;
    growth_spread(g, m->funcs.data[0]);
    IrModule *to = growth_apply(g, m);
    if (!ir_verify(to, &d)) return NULL;
    const IrModule *behind = pass_run_one(&ctx, PASS_autodiff, to);
    if (!behind || behind->dims.n != before->dims.n || behind->funcs.data[0]->ops.n != before->funcs.data[0]->ops.n)
        return NULL;
    for (IrId v = 0; v < before->funcs.data[0]->ops.n; v++)
        if (behind->funcs.data[0]->ops.data[v].op != before->funcs.data[0]->ops.data[v].op) return NULL;
    g->m[1] = behind;
    growth_spread(g, before->funcs.data[0]);
    for (IrId k = 0; k < before->dims.n; k++)
        if (growth_size(g, k) != behind->dims.data[k].size) return NULL;
    return to;
}

/* Whether a space has a row for each element of the dim. */
static inline bool growth_is_rows(const IrModule *m, IrId dim)
{
    for (IrId s = 0; s < m->spaces.n; s++)
        if (m->spaces.data[s].has_dim && m->spaces.data[s].dim == dim) return true;
    return false;
}

/* A dim and pads that leave a result, chosen by r among those that leave half as many as the best; IR_NONE: there are
   none.
   first: how many dims the inputs have. */
static inline IrModule *growth_choose(Arena *a, const IrModule *m, const IrModule *before, IrId first, uint64_t r,
                                      Growth *g)
{
    enum { MAX_FIRST = 3 };
    Growth of[MAX_FIRST];
    IrModule *to[MAX_FIRST] = {NULL};
    uint32_t score[MAX_FIRST][N_PADS] = {{0}}, best = 0;
    for (IrId d = 0; d < first && d < MAX_FIRST; d++) {
        if (!growth_is_rows(before, d)) to[d] = growth_of_dim(a, m, before, d, 1 + (int64_t)(r >> 8) % 9, &of[d]);
        for (int pads = 0; pads < N_PADS && to[d]; pads++) {
            score[d][pads] = growth_judge(&of[d], (Pads)pads);
            if (score[d][pads] > best) best = score[d][pads];
        }
    }
    for (uint32_t k = 0; k < MAX_FIRST * N_PADS && best; k++) {
        uint32_t at = (uint32_t)((r + k) % (MAX_FIRST * N_PADS)), d = at / N_PADS, pads = at % N_PADS;
        if (2 * score[d][pads] < best) continue;
        *g = of[d];
        growth_judge(g, (Pads)pads);
        return to[d];
    }
    return NULL;
}
