/* Loop nests over the rows and dims of a group: loops and register tiles by the schedule, and inside a tile first the
   group's sums, then its pointwise values, then all stores, so that a tensor may be updated in place. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* ---- dims ------------------------------------------------------------------------------------------------ */

typedef struct Nest {
    Lower *l;
    const IrType *t;
    VecRun run;
    int64_t unroll[IR_MAX_DIMS]; /* vectors or scalars of each dim that are computed together */
    NestBody *body;
    void *user;
} Nest;

static int64_t units_of(const Nest *x, IrId dim, int64_t *unit)
{
    int64_t size = x->l->f->m->dims.data[dim].size;
    *unit = 1;
    for (unsigned i = 0; i < x->run.n; i++)
        if (x->run.vec[i].dim == dim) *unit = x->run.vec[i].count;
    return (size + *unit - 1) / *unit;
}

/* The points at `count` units of dim k from `base` on. */
static Point *points_of_units(const Nest *x, uint32_t k, const Point *p, unsigned n, Ix base, int64_t count)
{
    Lower *l = x->l;
    IrId dim = x->t->dims[k];
    int64_t unit, size = l->f->m->dims.data[dim].size;
    units_of(x, dim, &unit);
    bool last = x->run.n && x->run.vec[x->run.n - 1].dim == dim;
    Point *next = ARENA_ARRAY(l->arena, Point, n * (size_t)count);
    unsigned m = 0;
    for (unsigned i = 0; i < n; i++)
        for (int64_t u = 0; u < count; u++) {
            Point q = p[i];
            Ix ix = base;
            ix.off += u * unit;
            env_set(&q.env, dim, ix);
            int64_t left = base.var == KIR_NONE ? size - ix.off : unit;
            if (last && left < unit) q.env.active = (uint8_t)(q.env.active / unit * left);
            next[m++] = q;
        }
    return next;
}

static void nest_from(Nest *x, uint32_t k, const Point *p, unsigned n);

static void nest_units(Nest *x, uint32_t k, const Point *p, unsigned n, Ix base, int64_t count)
{
    nest_from(x, k + 1, points_of_units(x, k, p, n, base, count), n * (unsigned)count);
}

static void nest_from(Nest *x, uint32_t k, const Point *p, unsigned n)
{
    Lower *l = x->l;
    if (k == x->t->n_dims) {
        x->body(l, p, n, x->user);
        return;
    }
    int64_t unit, units = units_of(x, x->t->dims[k], &unit), u = x->unroll[k];
    int64_t size = l->f->m->dims.data[x->t->dims[k]].size;
    ICE_UNLESS(u >= 1 && unit >= 1);
    int64_t rounds = size / (u * unit), done = 0;
    if (rounds > 1) {
        KirId i = emit_for(&l->e, emit_index(&l->e, 0), emit_index(&l->e, rounds * u * unit), u * unit, KIR_SEQ,
                           l->f->m->dims.data[x->t->dims[k]].name);
        nest_units(x, k, p, n, (Ix){i, 0, u * unit}, u);
        emit_end(&l->e);
        done = rounds * u;
    }
    while (done < units) {
        int64_t now = units - done < u ? units - done : u;
        nest_units(x, k, p, n, ix_const(done * unit), now);
        done += now;
    }
}

/* Of dims [first, last). */
static void unroll_dims(Nest *x, uint32_t first, uint32_t last, int64_t budget)
{
    for (uint32_t k = last; k-- > first;) {
        int64_t unit, units = units_of(x, x->t->dims[k], &unit);
        x->unroll[k] = units < budget ? units : budget;
        budget = units < budget ? budget / units : 1;
    }
}

void nest_scalars(Lower *l, const IrType *t, int64_t tile, const Point *p, unsigned n, NestBody *body, void *user)
{
    Nest x = {.l = l, .t = t, .body = body, .user = user};
    unroll_dims(&x, 0, t->n_dims, tile);
    nest_from(&x, 0, p, n);
}

void nest_dims(Lower *l, const IrType *t, const Point *p, unsigned n, NestBody *body, void *user)
{
    Nest x = {.l = l, .t = t, .body = body, .user = user};
    x.run = vec_run(l->f->m, t, l->first_vec, l->s.lanes);
    unroll_dims(&x, 0, t->n_dims, l->s.vectors);
    Point *start = ARENA_ARRAY(l->arena, Point, n);
    for (unsigned i = 0; i < n; i++) {
        start[i] = p[i];
        env_vector(&start[i].env, &x.run);
    }
    nest_from(&x, 0, start, n);
}

/* ---- tiles that are given out to warps ------------------------------------------------------------------------- */

/* Of a dim: tiles of `count` units each, `rounds` of them in a loop, or one from unit `first` on. */
typedef struct Piece {
    int64_t first, rounds, count;
} Piece;

/* The tiles of these pieces: one loop over all of them, in which a warp takes every n_warps-th. */
static void deal_tiles(Nest *x, const Piece *piece)
{
    Lower *l = x->l;
    Emit *e = &l->e;
    Deal *d = &l->deal;
    int64_t n = 1, first = d->next % d->n_warps;
    for (uint32_t k = 0; k < x->t->n_dims; k++) n *= piece[k].rounds;
    d->next += n;
    KirId at = emit_index(e, 0);
    if (n == 1) {
        emit_if(e, emit_op2(e, KIR_eq, d->warp, emit_index(e, first)));
    } else {
        KirId behind = emit_op2(e, KIR_add, d->warp, emit_index(e, (d->n_warps - first) % d->n_warps));
        if (first) behind = emit_op2(e, KIR_rem, behind, emit_index(e, d->n_warps));
        at = emit_for(e, behind, emit_index(e, n), d->n_warps, KIR_SEQ, "tiles");
    }
    Point start = {KIR_NONE, env_empty()};
    env_vector(&start.env, &x->run);
    const Point *p = &start;
    unsigned n_points = 1;
    for (uint32_t k = 0, loops = 0; k < x->t->n_dims; k++) {
        int64_t unit;
        units_of(x, x->t->dims[k], &unit);
        Ix ix = ix_const(piece[k].first * unit);
        if (piece[k].rounds > 1) {
            n /= piece[k].rounds;
            KirId round = emit_op2(e, KIR_div, at, emit_index(e, n));
            if (loops++) round = emit_op2(e, KIR_rem, round, emit_index(e, piece[k].rounds));
            ix = (Ix){emit_op2(e, KIR_mul, round, emit_index(e, piece[k].count * unit)), 0, piece[k].count * unit};
        }
        p = points_of_units(x, k, p, n_points, ix, piece[k].count);
        n_points *= (unsigned)piece[k].count;
    }
    x->body(l, p, n_points, x->user);
    emit_end(e);
}

/* The same pieces as nest_from has. */
static void deal_from(Nest *x, uint32_t k, Piece *piece)
{
    if (k == x->t->n_dims) {
        deal_tiles(x, piece);
        return;
    }
    int64_t unit, units = units_of(x, x->t->dims[k], &unit), u = x->unroll[k], done = 0;
    int64_t rounds = x->l->f->m->dims.data[x->t->dims[k]].size / (u * unit);
    if (rounds > 1) {
        piece[k] = (Piece){0, rounds, u};
        deal_from(x, k + 1, piece);
        done = rounds * u;
    }
    for (; done < units; done += piece[k].count) {
        piece[k] = (Piece){done, 1, units - done < u ? units - done : u};
        deal_from(x, k + 1, piece);
    }
}

void nest_dealt(Lower *l, const IrType *t, int64_t rows, NestBody *body, void *user)
{
    Nest x = {.l = l, .t = t, .body = body, .user = user};
    ICE_UNLESS(l->deal.n_warps > 1 && l->first_vec <= t->n_dims);
    x.run = vec_run(l->f->m, t, l->first_vec, l->s.lanes);
    unroll_dims(&x, 0, l->first_vec, rows);
    unroll_dims(&x, l->first_vec, t->n_dims, l->s.vectors);
    Piece piece[IR_MAX_DIMS];
    deal_from(&x, 0, piece);
}

/* ---- a tile of a group ------------------------------------------------------------------------------------- */

static bool depends_on(Lower *l, IrId v, IrId on) { return group_depends(l->f, l->g, v, on); }

static bool same_dims(const IrType *a, const IrType *b)
{
    return a->n_dims == b->n_dims && !memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims);
}

const Point *points_of_root(Lower *l, IrId root, const Point *p, unsigned n)
{
    const IrType *t = &fused_op(l->f, root)->type, *nest = &l->f->groups.data[l->g].nest;
    if (!t->n_dims || same_dims(t, nest)) return p;
    ICE_UNLESS(t->n_dims == nest->n_dims); /* the same dims under other names */
    Point *out = ARENA_ARRAY(l->arena, Point, n);
    for (unsigned i = 0; i < n; i++) {
        const Env *env = &p[i].env;
        out[i] = p[i];
        out[i].env.n = 0;
        for (uint32_t k = 0; k < t->n_dims; k++) {
            env_set(&out[i].env, t->dims[k], *env_get(env, nest->dims[k]));
            env_rename(&out[i].env, env, nest->dims[k], t->dims[k]);
        }
    }
    return out;
}

/* Does v need `root`, whose value at the points is not computed yet? */
static bool waits_for(Lower *l, IrId v, IrId root, const Point *p, unsigned n)
{
    if (!op_is_heavy(l->f->m, l->f->f, root) || !depends_on(l, v, root)) return false;
    const Point *q = points_of_root(l, root, p, n);
    return memo_get(l, root, q[0].row, &q[0].env) == KIR_NONE;
}

/* The reductions from roots[first] on that can share a loop; returns the number taken. None needs another of them, or
   what is computed between them: a product of the row, a sum over a dim. */
static unsigned batch_rows(Lower *l, const Group *g, bool narrow, uint32_t first, const Point *p, unsigned n_points,
                           IrId *batch)
{
    const IrId *roots = g->roots.data;
    unsigned n = 0;
    for (uint32_t i = first; i < g->roots.n && n < l->s.together; i++) {
        if (group_kind_of(l->f->f, l->f->m, roots[i]) != GROUP_ROWS) continue;
        if (group_root_is_narrow(l->f, g, roots[i]) != narrow) continue;
        if (!same_dims(&fused_op(l->f, roots[first])->type, &fused_op(l->f, roots[i])->type)) continue;
        for (uint32_t k = first; k < i; k++)
            if (group_root_is_narrow(l->f, g, roots[k]) == narrow && waits_for(l, roots[i], roots[k], p, n_points))
                return n;
        batch[n++] = roots[i];
    }
    return n;
}

static void compute_sums(Lower *l, const Group *g, bool narrow, const Point *p, unsigned n)
{
    IrId *batch = ARENA_ARRAY(l->arena, IrId, g->roots.n);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        if (group_root_is_narrow(l->f, g, v) != narrow) continue;
        const Point *q = points_of_root(l, v, p, n);
        if (memo_get(l, v, q[0].row, &q[0].env) != KIR_NONE) continue;
        switch (group_kind_of(l->f->f, l->f->m, v)) {
        case GROUP_ROWS: heavy_rows(l, batch, batch_rows(l, g, narrow, i, p, n, batch), q, n); break;
        case GROUP_DIMS:
            for (unsigned k = 0; k < n; k++) heavy_dims(l, v, &q[k]);
            break;
        case GROUP_PRODUCT: heavy_product(l, v, q, n); break;
        case GROUP_NTH: heavy_nth(l, g->roots.data, g->roots.n, q, n); break;
        default: break;
        }
    }
}

/* One tile of the narrow roots, or of the others. */
void lower_roots(Lower *l, bool narrow, const Point *p, unsigned n)
{
    const Group *g = &l->f->groups.data[l->g];
    VEC(IrId) roots = {0};
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (l->f->stored.data[g->roots.data[i]] && group_root_is_narrow(l->f, g, g->roots.data[i]) == narrow)
            VEC_PUSH(l->arena, &roots, g->roots.data[i]);
    compute_sums(l, g, narrow, p, n);
    KirId *values = ARENA_ARRAY(l->arena, KirId, roots.n * n + 1);
    for (uint32_t i = 0; i < roots.n; i++) {
        const Point *q = points_of_root(l, roots.data[i], p, n);
        for (unsigned k = 0; k < n; k++) values[i * n + k] = point_eval(l, roots.data[i], q[k].row, &q[k].env);
    }
    split_stores_open(l);
    for (uint32_t i = 0; i < roots.n; i++) {
        const Point *q = points_of_root(l, roots.data[i], p, n);
        for (unsigned k = 0; k < n; k++)
            point_store(l, plan_value_buffer(l->lf, roots.data[i]), &fused_op(l->f, roots.data[i])->type, q[k].row,
                        &q[k].env, values[i * n + k]);
    }
    split_stores_close(l);
}

static void group_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    (void)user;
    lower_roots(l, false, p, n);
}

/* ---- a staged group: root by root, each over its own dims ------------------------------------------------------ */

typedef struct Level { /* roots of the same dims that are computed in one walk, or stored together */
    const IrId *roots;
    unsigned n;
} Level;

static void level_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Level *x = user;
    GroupKind kind = group_kind_of(l->f->f, l->f->m, x->roots[0]);
    if (kind == GROUP_ROWS) heavy_rows(l, x->roots, x->n, p, n);
    for (unsigned i = 0; i < n; i++) {
        if (kind == GROUP_DIMS) heavy_dims(l, x->roots[0], &p[i]);
        for (unsigned k = 0; k < x->n; k++) {
            l->filling = x->roots[k];
            point_eval(l, x->roots[k], p[i].row, &p[i].env);
            l->filling = IR_NONE;
            stage_keep(l, x->roots[k], &p[i]);
        }
    }
}

static void store_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Level *x = user;
    KirId *values = ARENA_ARRAY(l->arena, KirId, x->n * n + 1);
    for (unsigned i = 0; i < x->n * n; i++) values[i] = point_eval(l, x->roots[i / n], p[i % n].row, &p[i % n].env);
    split_stores_open(l);
    for (unsigned i = 0; i < x->n * n; i++) {
        IrId v = x->roots[i / n];
        point_store(l, plan_value_buffer(l->lf, v), &fused_op(l->f, v)->type, p[i % n].row, &p[i % n].env, values[i]);
    }
    split_stores_close(l);
}

static void level_nest(Lower *l, const Level *x, KirId row, NestBody *body)
{
    Schedule whole = l->s, own = *value_tile_of(l, x->roots[0]);
    l->s.lanes = own.lanes;
    l->s.vectors = x->n > 1 && own.vectors > whole.beside ? whole.beside : own.vectors;
    nest_dims(l, &fused_op(l->f, x->roots[0])->type, &(Point){row, env_empty()}, 1, body, (void *)(uintptr_t)x);
    l->s = whole;
}

/* The reductions from roots[i] on that do not need each other. */
static unsigned level_batch(Lower *l, const Group *g, uint32_t i, const bool *done, IrId *batch)
{
    unsigned n = 0;
    for (; i < g->roots.n && n < l->s.together; i++) {
        IrId v = g->roots.data[i];
        if (done[i] || group_kind_of(l->f->f, l->f->m, v) != GROUP_ROWS) continue;
        bool needs = false;
        for (uint32_t k = 0; k < g->roots.n; k++) needs |= k != i && !done[k] && depends_on(l, v, g->roots.data[k]);
        if (!needs) batch[n++] = v;
    }
    return n;
}

/* Vectors that a value has. */
static int64_t count_vectors(const Lower *l, IrId v)
{
    const IrType *t = &fused_op(l->f, v)->type;
    VecRun run = vec_run(l->f->m, t, 0, value_tile_of(l, v)->lanes);
    int64_t n = 1;
    for (uint32_t k = 0; k < t->n_dims; k++) {
        int64_t size = l->f->m->dims.data[t->dims[k]].size, unit = 1;
        for (unsigned i = 0; i < run.n; i++)
            if (run.vec[i].dim == t->dims[k]) unit = run.vec[i].count;
        if (__builtin_mul_overflow(n, (size + unit - 1) / unit, &n)) return INT64_MAX / 2;
        if (n > l->s.walk) return n;
    }
    return n;
}

typedef struct Collect {
    IrId v;
    VEC(Acc) accs;
} Collect;

static void collect_points(Lower *l, const Point *p, unsigned n, void *user)
{
    Collect *c = user;
    for (unsigned i = 0; i < n; i++) {
        Acc a = {.v = c->v, .p = p[i]};
        VEC_PUSH(l->arena, &c->accs, a);
    }
}

/* All points of these sums: no loops between, whatever their dims. */
static Accs level_accs(Lower *l, const IrId *roots, unsigned n, KirId row)
{
    Collect c = {0};
    Schedule whole = l->s;
    for (unsigned i = 0; i < n; i++) {
        c.v = roots[i];
        l->s.lanes = value_tile_of(l, roots[i])->lanes;
        l->s.vectors = INT64_MAX;
        nest_dims(l, &fused_op(l->f, roots[i])->type, &(Point){row, env_empty()}, 1, collect_points, &c);
    }
    l->s = whole;
    return (Accs){c.accs.data, c.accs.n};
}

static void keep_all(Lower *l, Accs s)
{
    for (unsigned i = 0; i < s.n; i++) stage_keep(l, s.data[i].v, &s.data[i].p);
}

static bool fits_registers(const Lower *l, const IrId *a, unsigned n_a, const IrId *b, unsigned n_b)
{
    int64_t n = 0;
    for (unsigned i = 0; i < n_a; i++) n += count_vectors(l, a[i]);
    for (unsigned i = 0; i < n_b; i++) n += count_vectors(l, b[i]);
    return n <= l->s.walk;
}

static void mark_done(const Group *g, const IrId *roots, unsigned n, bool *done)
{
    for (uint32_t k = 0; k < g->roots.n; k++)
        for (unsigned i = 0; i < n; i++) done[k] |= g->roots.data[k] == roots[i];
}

/* Those of `batch` that one walk takes in beside the sums that rescale; 0: registers do not suffice. In a form that is
   wanted what other sums rescale with waits for these, and the extreme walks alone rather than not at all. */
static unsigned walk_beside(Lower *l, const IrId *batch, unsigned n, const Online *o, IrId *beside)
{
    const PlanForm *form = l->f->form;
    unsigned n_beside = 0;
    for (unsigned i = 0; i < n; i++)
        if (batch[i] == o->extreme || !form || !plan_form_rescales(form, fused_origin(l->f, batch[i])))
            beside[n_beside++] = batch[i];
    if (fits_registers(l, beside, n_beside, o->sums, o->n)) return n_beside;
    beside[0] = o->extreme;
    return form ? 1 : 0;
}

/* A maximum or minimum among these, and the sums that rescale with it, in one walk. */
static bool compute_online(Lower *l, const Group *g, const IrId *batch, unsigned n, bool *done, KirId row)
{
    IrId *beside = ARENA_ARRAY(l->arena, IrId, n);
    for (unsigned i = 0; i < n; i++) {
        Online o;
        unsigned n_beside = online_find(l, batch[i], done, &o) ? walk_beside(l, batch, n, &o, beside) : 0;
        if (!n_beside) continue;
        Accs extremes = level_accs(l, beside, n_beside, row), sums = level_accs(l, o.sums, o.n, row);
        online_walk(l, &o, extremes, sums);
        online_note(l, &o);
        keep_all(l, sums);
        mark_done(g, beside, n_beside, done);
        mark_done(g, o.sums, o.n, done);
        return true;
    }
    return false;
}

/* Sums whose totals have private arrays. */
static bool are_kept(const Lower *l, const IrId *sums, unsigned n)
{
    bool all = true;
    for (unsigned i = 0; i < n; i++) all &= fused_op(l->f, sums[i])->op == IR_OP_reduce_sum && array_find(l, sums[i]);
    return all;
}

/* One walk for all, if registers suffice; else each set of dims walks by itself. */
static void compute_batch(Lower *l, const Group *g, const IrId *batch, unsigned n, bool *done, KirId row)
{
    if (compute_online(l, g, batch, n, done, row)) return;
    if (n > 1 && fits_registers(l, batch, n, NULL, 0)) {
        Accs all = level_accs(l, batch, n, row);
        rows_walk(l, all);
        keep_all(l, all);
        mark_done(g, batch, n, done);
        return;
    }
    IrId *same = ARENA_ARRAY(l->arena, IrId, n);
    Level x = {same, 0};
    for (unsigned i = 0; i < n; i++)
        if (same_dims(&fused_op(l->f, batch[i])->type, &fused_op(l->f, batch[0])->type)) same[x.n++] = batch[i];
    if (value_tile_of(l, same[0])->kept && are_kept(l, same, x.n)) rows_tiles(l, same, x.n, row);
    else level_nest(l, &x, row, level_tile);
    mark_done(g, same, x.n, done);
}

static void compute_levels(Lower *l, const Group *g, KirId row)
{
    bool *done = ARENA_ARRAY(l->arena, bool, g->roots.n + 1);
    IrId *batch = ARENA_ARRAY(l->arena, IrId, g->roots.n);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        while (!done[i]) {
            unsigned n = level_batch(l, g, i, done, batch);
            if (group_kind_of(l->f->f, l->f->m, g->roots.data[i]) == GROUP_ROWS && n) {
                compute_batch(l, g, batch, n, done, row);
                continue;
            }
            level_nest(l, &(Level){&g->roots.data[i], 1}, row, level_tile);
            done[i] = true;
        }
    }
}

static void store_levels(Lower *l, const Group *g, KirId row)
{
    bool *done = ARENA_ARRAY(l->arena, bool, g->roots.n + 1);
    IrId *same = ARENA_ARRAY(l->arena, IrId, g->roots.n + 1);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        Level x = {same, 0};
        const IrType *t = &fused_op(l->f, g->roots.data[i])->type;
        for (uint32_t k = i; k < g->roots.n; k++) {
            IrId v = g->roots.data[k];
            if (done[k] || !same_dims(&fused_op(l->f, v)->type, t)) continue;
            done[k] = true;
            if (l->f->stored.data[v]) same[x.n++] = v;
        }
        if (x.n) level_nest(l, &x, row, store_tile);
    }
}

static void staged_row(Lower *l, KirId row)
{
    const Group *g = &l->f->groups.data[l->g];
    stage_begin(l);
    compute_levels(l, g, row);
    store_levels(l, g, row);
    stage_end(l, row);
}

/* Parts of a concatenation: each over its own dims, stored at its offset. */
typedef struct Part {
    IrId root, value;
    uint32_t k; /* position of the dim */
    int64_t off;
} Part;

static void part_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Part *part = user;
    const IrType *t = &fused_op(l->f, part->root)->type;
    IrId inner = fused_op(l->f, part->value)->type.dims[part->k], outer = t->dims[part->k];
    for (unsigned i = 0; i < n; i++) {
        KirId value = point_eval(l, part->value, p[i].row, &p[i].env);
        Env env = p[i].env;
        Ix ix = *env_get(&env, inner);
        ix.off += part->off;
        for (unsigned d = 0; d < env.n_vec; d++)
            if (env.vec[d].dim == inner) env.vec[d].dim = outer;
        env_set(&env, outer, ix);
        point_store(l, plan_value_buffer(l->lf, part->root), t, p[i].row, &env, value);
    }
}

static void concat_tile(Lower *l, const Point *p)
{
    IrId root = l->f->groups.data[l->g].roots.data[0];
    const IrOp *op = fused_op(l->f, root);
    Part part = {.root = root};
    ICE_UNLESS(op->op == IR_OP_concat && ir_type_has_dim(&op->type, op->attr.dim));
    while (op->type.dims[part.k] != op->attr.dim) part.k++;
    for (uint32_t i = 0; i < op->n_args; i++) {
        const IrType *t = &fused_op(l->f, op->args[i])->type;
        part.value = op->args[i];
        l->first_vec = part.k; /* what lies before is not dense in the result */
        nest_dims(l, t, p, 1, part_tile, &part);
        part.off += l->f->m->dims.data[t->dims[part.k]].size;
    }
    l->first_vec = 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

static void rows_body(Lower *l, const Point *p, unsigned n)
{
    const Group *g = &l->f->groups.data[l->g];
    if (group_is_staged(l->f, g)) {
        staged_row(l, p[0].row);
        return;
    }
    if (group_has_narrow(l->f, g)) lower_roots(l, true, p, n);
    if (g->kind == GROUP_CONCAT) concat_tile(l, p);
    else nest_dims(l, &g->nest, p, n, group_tile, NULL);
}

static void unit_body_over(Lower *l, const IrType *nest)
{
    Emit *e = &l->e;
    IrId dim = nest->dims[0];
    l->step->extent = plan_const(l->f->m->dims.data[dim].size);
    KirId i = emit_for(e, emit_index(e, 0), lower_count(l, l->step->extent), 1, KIR_THREADS,
                       l->f->m->dims.data[dim].name);
    Point p = {KIR_NONE, env_empty()};
    env_set(&p.env, dim, (Ix){i, 0, 1});
    IrType rest = *nest;
    rest.n_dims--;
    memmove(rest.dims, rest.dims + 1, rest.n_dims * sizeof *rest.dims);
    nest_dims(l, &rest, &p, 1, group_tile, NULL);
    emit_end(e);
}

/* A group of the unit space. */
void lower_unit_row(Lower *l)
{
    l->step->extent = plan_const(1);
    if (l->s.parted) unit_body_over(l, &l->f->groups.data[l->g].nest);
    else rows_body(l, &(Point){KIR_NONE, env_empty()}, 1);
}

void lower_row(Lower *l, KirId row) { rows_body(l, &(Point){row, env_empty()}, 1); }
