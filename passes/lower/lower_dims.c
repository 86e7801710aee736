/* Sums inside a row, and the loops over dims that products share.
     sums, and contract as a dot product: element i of the reduced dims goes to partial i mod 16, each partial left
       to right, then halving. Either the vector's lanes are the partials (it runs along the last reduced dims), and
       those of several results are folded together; or there are 16 registers (it runs along the result, if at all).
   Matrix products are in lower_product.c. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* ---- loops over dims ---------------------------------------------------------------------------------- */

DimLoop dim_loops_open(Lower *l, const IrId *dims, unsigned n)
{
    DimLoop d = {.n = n};
    for (unsigned i = 0; i < n; i++) {
        int64_t size = l->f->m->dims.data[dims[i]].size;
        d.dim[i] = dims[i];
        d.var[i] = KIR_NONE;
        if (size != 1) d.var[i] = emit_for(&l->e, emit_index(&l->e, 0), emit_index(&l->e, size), 1, KIR_SEQ, NULL);
    }
    return d;
}

void dim_loops_close(Lower *l, const DimLoop *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->var[i] != KIR_NONE) emit_end(&l->e);
}

void dim_loops_env(const DimLoop *d, Env *env)
{
    for (unsigned i = 0; i < d->n; i++) env_set(env, d->dim[i], (Ix){d->var[i], 0, 1});
}

/* ---- what is summed ------------------------------------------------------------------------------------ */

typedef struct Dot {
    const IrOp *op;
    KirOpcode fold;
    KirType type; /* of a partial */
    unsigned n_dims;
    IrId dims[2 * IR_MAX_DIMS];
    int64_t size[2 * IR_MAX_DIMS], total;
    VecRun run; /* reduced dims along the vector, if it runs there */
    const Point *p;
} Dot;

static Dot dot_of(Lower *l, IrId v, const Point *p)
{
    const IrOp *op = fused_op(l->f, v);
    Dot d = {.op = op, .fold = sum_op(op->op), .total = 1, .p = p};
    IrId all[2 * IR_MAX_DIMS];
    unsigned n = reduced_dims(l->f->f, op, all);
    for (unsigned i = 0; i < n; i++) {
        int64_t size = l->f->m->dims.data[all[i]].size;
        d.dims[d.n_dims] = all[i];
        d.size[d.n_dims++] = size;
        ICE_UNLESS(!__builtin_mul_overflow(d.total, size, &d.total));
    }
    d.type = kir_type(kir_base_of(op->type.dtype), env_lanes(&p->env, &op->type));
    return d;
}

/* acc joined by the element at env. */
static KirId take(Lower *l, const Dot *d, const Env *env, KirId acc)
{
    KirId x = point_full(l, d->op->args[0], d->p->row, env);
    if (d->op->op == IR_OP_contract) return emit_fma(&l->e, x, point_full(l, d->op->args[1], d->p->row, env), acc);
    return emit_op2(&l->e, d->fold, acc, x);
}

/* ---- lanes as partials ---------------------------------------------------------------------------------- */

/* One vector of elements joins acc; `at`: where it begins in the outermost dim of the run, of which `count` elements
   are left. */
static KirId take_chunk(Lower *l, const Dot *d, const Env *leaf, KirId acc, Ix at, int64_t count)
{
    Emit *e = &l->e;
    const VecDim *last = &d->run.vec[d->run.n - 1];
    Env env = *leaf;
    env_set(&env, last->dim, at);
    KirId next = take(l, d, &env, acc);
    if (count >= last->count) return next;
    unsigned lanes = emit_type(e, acc).lanes, active = run_lanes(&d->run) / last->count * (unsigned)count;
    KirId lane = emit_repeat(e, emit_lanes(e, KIR_I32, run_lanes(&d->run)), lanes, 1);
    KirId inside = emit_op2(e, KIR_lt, lane, emit_int(e, kir_type(KIR_I32, lanes), active));
    return emit_select(e, inside, next, acc);
}

/* The elements of the reduced dims, as many partials as the run has lanes; and that side by side for what else runs
   along the vector of `leaf`. */
static KirId sum_chunks(Lower *l, const Dot *d, Env leaf)
{
    Emit *e = &l->e;
    ICE_UNLESS(d->run.n && d->n_dims);
    const VecDim *last = &d->run.vec[d->run.n - 1];
    KirId none = sum_identity(l, d->fold, kir_type(d->type.base, env_width(&leaf)));
    unsigned n_outer = 0;
    while (d->dims[n_outer] != last->dim) n_outer++;
    for (unsigned k = n_outer + 1; k < d->n_dims; k++) env_set(&leaf, d->dims[k], ix_const(0));
    int64_t n = d->size[n_outer], full = n / last->count, left = n % last->count;
    int64_t unrolled = full <= group_tile_of(l)->unroll ? full : 0;
    bool outer = false;
    for (unsigned k = 0; k < n_outer; k++) outer |= d->size[k] != 1;
    if (!outer && full + (left != 0) == 1) {
        for (unsigned k = 0; k < n_outer; k++) env_set(&leaf, d->dims[k], ix_const(0));
        if (left) leaf.active = (uint8_t)(leaf.active / last->count * left);
        return take_chunk(l, d, &leaf, none, ix_const(0), n);
    }
    KirId acc = emit_var(e, "partials", none);
    DimLoop loops = dim_loops_open(l, d->dims, n_outer);
    dim_loops_env(&loops, &leaf);
    if (!unrolled && full) {
        KirId i = emit_for(e, emit_index(e, 0), emit_index(e, full * last->count), last->count, KIR_SEQ, NULL);
        emit_set(e, acc, take_chunk(l, d, &leaf, acc, (Ix){i, 0, last->count}, last->count));
        emit_end(e);
    }
    for (int64_t i = 0; i < unrolled; i++)
        emit_set(e, acc, take_chunk(l, d, &leaf, acc, ix_const(i * last->count), last->count));
    if (left) {
        leaf.active = (uint8_t)(leaf.active / last->count * left);
        emit_set(e, acc, take_chunk(l, d, &leaf, acc, ix_const(full * last->count), left));
    }
    dim_loops_close(l, &loops);
    emit_freeze(e, acc);
    return acc;
}

/* ---- folding: partials of many results, results along the vector ----------------------------------------------

     results of 8 heads, 8 partials each:   4 vectors of 2 heads x 8   -> 2 of 4 x 4   -> 1 of 8 x 2   -> 8 results
   Each step adds the upper half of every head's partials onto the lower half. */

typedef struct Fold {
    Lower *l;
    const Dot *d;
    Env own;         /* of the results */
    unsigned group;  /* partials of one result */
    unsigned beside; /* results in one leaf */
    KirId first;     /* leaf */
} Fold;

/* Results i * beside.. and all their partials. */
static KirId fold_leaf(Fold *x, unsigned i)
{
    const Env *own = &x->own;
    if (i * x->beside >= own->active) return x->first; /* nobody looks at these */
    unsigned take = x->beside, left = own->active - i * x->beside;
    Env env = *own;
    VecRun run = x->d->run;
    for (unsigned k = 0; k < own->n_vec; k++) {
        unsigned count = own->vec[k].count, now = take < count ? take : count, of = count / now;
        Ix ix = *env_get(own, own->vec[k].dim);
        ix.off += i % of * now;
        env_set(&env, own->vec[k].dim, ix);
        if (now > 1) run.vec[run.n++] = (VecDim){own->vec[k].dim, (uint8_t)now};
        take /= now;
        i /= of;
    }
    env_vector(&env, &run);
    if (left < x->beside) env.active = (uint8_t)(left * x->group);
    KirId sum = sum_chunks(x->l, x->d, env);
    if (x->first == KIR_NONE) x->first = sum;
    return sum;
}

static KirId fold_halves(const Fold *x, KirId a, KirId b, unsigned group)
{
    Emit *e = &x->l->e;
    return emit_op2(e, x->d->fold, emit_halves(e, KIR_lower, a, b, group), emit_halves(e, KIR_upper, a, b, group));
}

static KirId fold_leaves(Fold *x, unsigned first, unsigned n)
{
    if (n == 1) return fold_leaf(x, first);
    KirId a = fold_leaves(x, first, n / 2), b = fold_leaves(x, first + n / 2, n / 2);
    return n > x->group ? emit_join(&x->l->e, a, b) : fold_halves(x, a, b, x->group * 2 / n);
}

static KirId dot_folded(Lower *l, const Dot *d)
{
    Emit *e = &l->e;
    Fold x = {.l = l,
              .d = d,
              .own = env_only(&d->p->env, &d->op->type),
              .group = run_lanes(&d->run),
              .beside = 1,
              .first = KIR_NONE};
    unsigned results = env_width(&x.own);
    bool whole = x.group == d->total;
    while (whole && x.beside < results && 2 * x.group * x.beside <= group_tile_of(l)->folded) x.beside *= 2;
    if (results == 1) {
        KirId sum = fold_leaf(&x, 0);
        return emit_op1(e, d->fold == KIR_add ? KIR_hadd : d->fold == KIR_max ? KIR_hmax : KIR_hmin, sum);
    }
    ICE_UNLESS(results % x.beside == 0 && (x.beside == 1 || whole));
    KirId sum = fold_leaves(&x, 0, results / x.beside);
    for (unsigned group = x.group * x.beside / results; group > 1; group /= 2) {
        unsigned half = emit_type(e, sum).lanes / 2u;
        sum = fold_halves(&x, emit_part(e, sum, 0, half), emit_part(e, sum, half, half), group);
    }
    return sum;
}

/* The vector may run along the reduced dims, so that lanes are partials: unless one along the result is at hand whose
   elements lie side by side. */
static bool can_fold(const Lower *l, Dot *d)
{
    if (!group_tile_of(l)->folded || d->total < 2 || !vec_sum_run(l->f->m, l->f->f, d->op, &d->run)) return false;
    return d->type.lanes == 1 || !dims_vector_is_kept(l->f->m, l->f->f, d->op);
}

/* ---- registers as partials ------------------------------------------------------------------------------- */

/* Indices of element base + off of the reduced dims, row-major. base: KIR_NONE or what the loop steps over. */
static void decompose(Lower *l, const Dot *d, KirId base, int64_t off, Env *env)
{
    ICE_UNLESS(off >= 0 && off < d->total);
    if (base == KIR_NONE) {
        for (unsigned k = d->n_dims; k-- > 0; off /= d->size[k]) env_set(env, d->dims[k], ix_const(off % d->size[k]));
        return;
    }
    if (d->n_dims == 1) {
        env_set(env, d->dims[0], (Ix){base, off, d->fold == KIR_add ? ORDER_PARTIALS : 1});
        return;
    }
    KirId i = ix_emit(l, (Ix){base, off, 1});
    for (unsigned k = d->n_dims; k-- > 0;) {
        KirId size = emit_index(&l->e, d->size[k]);
        env_set(env, d->dims[k], (Ix){k ? emit_op2(&l->e, KIR_rem, i, size) : i, 0, 1});
        if (k) i = emit_op2(&l->e, KIR_div, i, size);
    }
}

static void take_into(Lower *l, const Dot *d, KirId *partial, KirId base, int64_t off, unsigned slot)
{
    Env env = env_only(&d->p->env, &d->op->type);
    decompose(l, d, base, off, &env);
    emit_set(&l->e, partial[slot], emit_splat(&l->e, take(l, d, &env, partial[slot]), d->type.lanes));
}

static KirId dot_registers(Lower *l, const Dot *d)
{
    Emit *e = &l->e;
    unsigned width = d->fold == KIR_add ? ORDER_PARTIALS : 1; /* a maximum needs no order */
    unsigned n = d->total < width ? (unsigned)d->total : width;
    if (!n) n = 1;
    KirId partial[ORDER_PARTIALS];
    for (unsigned i = 0; i < n; i++) partial[i] = emit_var(e, "partial", sum_identity(l, d->fold, d->type));
    int64_t full = d->total / width, rolled = full > 1 ? full : 0;
    if (rolled) {
        KirId base = emit_for(e, emit_index(e, 0), emit_index(e, full * width), width, KIR_SEQ, NULL);
        for (unsigned j = 0; j < width; j++) take_into(l, d, partial, base, j, j);
        emit_end(e);
    }
    for (int64_t i = rolled * width; i < d->total; i++) take_into(l, d, partial, KIR_NONE, i, (unsigned)(i % width));
    KirId sum[ORDER_PARTIALS];
    for (unsigned i = 0; i < n; i++) emit_freeze(e, partial[i]), sum[i] = partial[i];
    for (unsigned half = ORDER_PARTIALS / 2; half; half /= 2)
        for (unsigned i = 0; i + half < n && i < half; i++) sum[i] = emit_op2(e, d->fold, sum[i], sum[i + half]);
    return sum[0];
}

void heavy_dims(Lower *l, IrId v, const Point *p)
{
    Dot d = dot_of(l, v, p);
    KirId sum = can_fold(l, &d) ? dot_folded(l, &d) : dot_registers(l, &d);
    memo_put(l, v, p->row, &p->env, sum);
}
