/* Sums inside a row, and the loops over dims that products share.
     sums, and contract as a dot product: element i of the reduced dims goes to partial i mod 16, each partial left
       to right, then halving. Either the vector's lanes are the partials (the vector runs along the last reduced
       dim), or there are 16 registers (the vector, if any, runs along the result).
   Matrix products are in lower_product.c. */
#include "base/ice.h"
#include "passes/lower_kernel.h"

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

static void take_chunk(Lower *l, const Dot *d, const Env *outer, KirId acc, Ix at, unsigned lanes, unsigned active)
{
    Emit *e = &l->e;
    Env env = *outer;
    IrId dim = d->dims[d->n_dims - 1];
    env_vector(&env, &(VecRun){.n = 1, .vec = {{dim, (uint8_t)lanes}}});
    env.active = (uint8_t)active;
    env_set(&env, dim, at);
    KirId next = take(l, d, &env, acc);
    if (active < lanes) {
        KirId lane = emit_lanes(e, KIR_I32, lanes);
        KirId inside = emit_op2(e, KIR_lt, lane, emit_int(e, kir_type(KIR_I32, lanes), active));
        next = emit_select(e, inside, next, acc);
    }
    emit_set(e, acc, next);
}

static KirId dot_lanes(Lower *l, const Dot *d, unsigned lanes)
{
    Emit *e = &l->e;
    KirId acc = emit_var(e, "partials", sum_identity(l, d->fold, kir_type(d->type.base, lanes)));
    DimLoop outer = dim_loops_open(l, d->dims, d->n_dims - 1);
    Env env = d->p->env;
    dim_loops_env(&outer, &env);
    int64_t n = d->size[d->n_dims - 1], full = n / lanes, unrolled = full <= 4 ? full : 0;
    if (!unrolled && full) {
        KirId i = emit_for(e, emit_index(e, 0), emit_index(e, full * lanes), lanes, KIR_SEQ, NULL);
        take_chunk(l, d, &env, acc, (Ix){i, 0, lanes}, lanes, lanes);
        emit_end(e);
    }
    for (int64_t i = 0; i < unrolled; i++) take_chunk(l, d, &env, acc, ix_const(i * lanes), lanes, lanes);
    if (n % lanes) take_chunk(l, d, &env, acc, ix_const(full * lanes), lanes, (unsigned)(n % lanes));
    dim_loops_close(l, &outer);
    emit_freeze(e, acc);
    return emit_op1(e, d->fold == KIR_add ? KIR_hadd : d->fold == KIR_max ? KIR_hmax : KIR_hmin, acc);
}

static unsigned power_of_two(int64_t n)
{
    unsigned lanes = 1;
    while (lanes < 16 && lanes < n) lanes *= 2;
    return lanes;
}

/* The vector may run along the last reduced dim: nothing else runs along it, and lanes are partials. */
static bool can_use_lanes(const Lower *l, const Dot *d)
{
    if (!l->lf->vectors || d->type.lanes > 1 || !d->n_dims || d->total < 2) return false;
    int64_t last = d->size[d->n_dims - 1];
    return last == d->total || last % l->s.partials == 0 || (d->fold != KIR_add && last > 1);
}

/* ---- registers as partials ------------------------------------------------------------------------------- */

/* Indices of element base + off of the reduced dims, row-major. base: KIR_NONE or what the loop steps over. */
static void decompose(Lower *l, const Dot *d, KirId base, int64_t off, Env *env)
{
    if (base == KIR_NONE) {
        for (unsigned k = d->n_dims; k-- > 0; off /= d->size[k]) env_set(env, d->dims[k], ix_const(off % d->size[k]));
        return;
    }
    if (d->n_dims == 1) {
        env_set(env, d->dims[0], (Ix){base, off, d->fold == KIR_add ? l->s.partials : 1});
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
    unsigned width = d->fold == KIR_add ? l->s.partials : 1; /* a maximum needs no order */
    unsigned n = d->total < width ? (unsigned)d->total : width;
    if (!n) n = 1;
    KirId partial[16];
    for (unsigned i = 0; i < n; i++) partial[i] = emit_var(e, "partial", sum_identity(l, d->fold, d->type));
    int64_t full = d->total / width, rolled = full > 1 ? full : 0;
    if (rolled) {
        KirId base = emit_for(e, emit_index(e, 0), emit_index(e, full * width), width, KIR_SEQ, NULL);
        for (unsigned j = 0; j < width; j++) take_into(l, d, partial, base, j, j);
        emit_end(e);
    }
    for (int64_t i = rolled * width; i < d->total; i++) take_into(l, d, partial, KIR_NONE, i, (unsigned)(i % width));
    KirId sum[16];
    for (unsigned i = 0; i < n; i++) emit_freeze(e, partial[i]), sum[i] = partial[i];
    for (unsigned half = 8; half; half /= 2)
        for (unsigned i = 0; i + half < n && i < half; i++) sum[i] = emit_op2(e, d->fold, sum[i], sum[i + half]);
    return sum[0];
}

void heavy_dims(Lower *l, IrId v, const Point *p)
{
    Dot d = dot_of(l, v, p);
    KirId sum = can_use_lanes(l, &d) ? dot_lanes(l, &d, power_of_two(d.size[d.n_dims - 1])) : dot_registers(l, &d);
    memo_put(l, v, p->row, &p->env, sum);
}
