/* Lanes: which dims of a value run along a vector, and how values that have only some of the vector's dims meet those
   that have all. A value of few dims is computed packed, as a vector of these alone, and its lanes are repeated.

     nest [H = 8, D = 8], 16 lanes = 2 of H, 8 of D:   a[H] * x[H, D]
       a: part 2 of the vector of 8 heads, each lane 8 times;   x: 16 neighbours in memory
   Knows addresses and lanes; never what is computed. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* ---- environments ------------------------------------------------------------------------------------------ */

Env env_empty(void) { return (Env){.active = 1}; }

void env_set(Env *e, IrId dim, Ix ix)
{
    uint8_t i = 0;
    while (i < e->n && e->dim[i] != dim) i++;
    if (i == e->n) {
        ICE_UNLESS(e->n < ENV_MAX);
        e->n++;
    }
    e->dim[i] = dim;
    e->ix[i] = ix;
}

const Ix *env_get(const Env *e, IrId dim)
{
    for (uint8_t i = 0; i < e->n; i++)
        if (e->dim[i] == dim) return &e->ix[i];
    ICE("a dim has no index");
}

Ix ix_const(int64_t v) { return (Ix){KIR_NONE, v, 0}; }

KirId ix_emit(Lower *l, Ix ix)
{
    Lin lin = {.konst = ix.off};
    lin_add(&lin, ix.var, 1);
    return lin_emit(&l->e, &lin);
}

unsigned env_width(const Env *e)
{
    unsigned lanes = 1;
    for (unsigned i = 0; i < e->n_vec; i++) lanes *= e->vec[i].count;
    return lanes;
}

Env env_only(const Env *e, const IrType *t)
{
    Env own = *e;
    own.n_vec = 0;
    for (unsigned i = 0; i < e->n_vec; i++)
        if (ir_type_has_dim(t, e->vec[i].dim)) own.vec[own.n_vec++] = e->vec[i];
    own.active = (uint8_t)env_width(&own);
    if (!own.n_vec) return own;
    const VecDim *last = &e->vec[e->n_vec - 1];
    unsigned per_element = env_width(e) / last->count;
    if (own.vec[own.n_vec - 1].dim == last->dim)
        own.active = (uint8_t)(own.active / last->count * (e->active / per_element));
    ICE_UNLESS(own.active >= 1 && own.active <= env_width(&own));
    return own;
}

unsigned env_lanes(const Env *e, const IrType *t)
{
    Env own = env_only(e, t);
    return env_width(&own);
}

unsigned env_active(const Env *e, const IrType *t) { return env_only(e, t).active; }

void env_vector(Env *e, const VecRun *run)
{
    ICE_UNLESS(run->n <= ENV_VECS && run_lanes(run) <= KIR_MAX_LANES);
    e->n_vec = run->n;
    memcpy(e->vec, run->vec, run->n * sizeof *run->vec);
    e->active = (uint8_t)env_width(e);
}

void env_rename(Env *inner, const Env *outer, IrId from, IrId to)
{
    for (unsigned i = 0; i < outer->n_vec; i++)
        if (outer->vec[i].dim == from) inner->vec[i].dim = to;
}

bool lanes_widen(const Lower *l, const IrType *t, unsigned most, Env *e, unsigned *first)
{
    if (!e->n_vec) return false;
    VecDim *last = &e->vec[e->n_vec - 1];
    int64_t size = l->f->m->dims.data[last->dim].size, inner = env_width(e) / last->count, count = 1;
    Ix ix = *env_get(e, last->dim);
    while (count * inner < most && count < size) count *= 2;
    if (ix.var != KIR_NONE)
        while (count > last->count && ix.align % count) count /= 2;
    int64_t off = ix.off % count, left = ix.var == KIR_NONE ? size - (ix.off - off) : count;
    if (count <= last->count || off + last->count > count) return false;
    ICE_UNLESS(ir_type_has_dim(t, last->dim));
    last->count = (uint8_t)count;
    e->active = (uint8_t)(inner * (left < count ? left : count));
    *first = (unsigned)(off * inner);
    ix.off -= off;
    env_set(e, last->dim, ix);
    return true;
}

/* ---- other lanes ---------------------------------------------------------------------------------------------- */

static KirId join_all(Emit *e, KirId *piece, unsigned n)
{
    ICE_UNLESS(n && !(n & (n - 1)) && n <= KIR_MAX_LANES);
    for (; n > 1; n /= 2)
        for (unsigned i = 0; i < n / 2; i++) piece[i] = emit_join(e, piece[2 * i], piece[2 * i + 1]);
    return piece[0];
}

/* x has the lanes of those dims in [0, n) that are in `has`: gives it all of them. */
static KirId spread(Emit *e, KirId x, const Env *env, const bool *has, unsigned n)
{
    unsigned low = 0, high, below = 1, lanes = 1;
    for (unsigned i = 0; i < n; i++) lanes *= env->vec[i].count;
    for (; low < n && !has[low]; low++) below *= env->vec[low].count;
    for (high = low; high < n && has[high]; high++) {}
    bool gap = false;
    for (unsigned i = high; i < n; i++) gap |= has[i];
    if (!gap) return emit_repeat(e, x, lanes, below);
    unsigned top = n - 1;
    if (!has[top]) return emit_repeat(e, spread(e, x, env, has, top), lanes, 1);
    KirId piece[KIR_MAX_LANES];
    unsigned count = env->vec[top].count, part = emit_type(e, x).lanes / count;
    for (unsigned i = 0; i < count; i++) piece[i] = spread(e, emit_part(e, x, i * part, part), env, has, top);
    return join_all(e, piece, count);
}

KirId lanes_spread(Lower *l, KirId x, const IrType *from, const Env *env)
{
    bool has[ENV_VECS];
    if (emit_type(&l->e, x).lanes == 1) return x;
    ICE_UNLESS(emit_type(&l->e, x).lanes == env_lanes(env, from));
    for (unsigned i = 0; i < env->n_vec; i++) has[i] = ir_type_has_dim(from, env->vec[i].dim);
    return spread(&l->e, x, env, has, env->n_vec);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static int64_t dim_stride(const Lower *l, const IrType *t, IrId dim)
{
    int64_t step = 1;
    uint32_t k = t->n_dims;
    ICE_UNLESS(ir_type_has_dim(t, dim));
    while (t->dims[--k] != dim) step *= l->f->m->dims.data[t->dims[k]].size;
    return step;
}

/* Of the lanes of own, as many inner dims as lie at one distance; *lanes: of these. */
static unsigned even_dims(const Lower *l, const IrType *t, const Env *own, int64_t *stride, unsigned *lanes)
{
    unsigned n = 0;
    *stride = own->n_vec ? dim_stride(l, t, own->vec[0].dim) : 1;
    *lanes = 1;
    for (; n < own->n_vec && dim_stride(l, t, own->vec[n].dim) == *stride * *lanes; n++) *lanes *= own->vec[n].count;
    return n;
}

bool lanes_stride(const Lower *l, const IrType *t, const Env *e, int64_t *stride)
{
    Env own = env_only(e, t);
    unsigned lanes;
    return even_dims(l, t, &own, stride, &lanes) == own.n_vec;
}

KirId lanes_offsets(Lower *l, const IrType *t, const Env *env)
{
    Emit *e = &l->e;
    Env own = env_only(env, t);
    unsigned each = 1, lanes = env_width(&own);
    KirId sum = emit_index(e, 0);
    for (unsigned i = 0; i < own.n_vec; each *= own.vec[i++].count) {
        KirId at = emit_lanes(e, KIR_I64, own.vec[i].count);
        at = emit_op2(e, KIR_mul, at, emit_index(e, dim_stride(l, t, own.vec[i].dim)));
        at = emit_repeat(e, at, lanes, each);
        sum = i ? emit_op2(e, KIR_add, sum, at) : at;
    }
    return sum;
}

/* Lanes of several distances, in pieces of one. */
static KirId load_pieces(Lower *l, uint32_t param, const IrType *t, KirId at, const Env *own, unsigned n_even)
{
    Emit *e = &l->e;
    int64_t stride;
    unsigned part, lanes = env_width(own);
    even_dims(l, t, own, &stride, &part);
    KirId piece[KIR_MAX_LANES];
    for (unsigned i = 0; i < lanes / part; i++) {
        int64_t off = 0;
        unsigned rest = i;
        for (unsigned k = n_even; k < own->n_vec; rest /= own->vec[k++].count)
            off += rest % own->vec[k].count * dim_stride(l, t, own->vec[k].dim);
        KirId from = emit_op2(e, KIR_add, at, emit_index(e, off));
        KirType type = kir_type(kir_base_of(t->dtype), part);
        piece[i] = i * part < own->active ? emit_load(e, param, type, from, part, stride) : piece[0];
    }
    return join_all(e, piece, lanes / part);
}

KirId lanes_load(Lower *l, uint32_t param, const IrType *t, KirId at, const Env *own)
{
    int64_t stride;
    unsigned part, n = even_dims(l, t, own, &stride, &part);
    KirType type = kir_type(kir_base_of(t->dtype), env_width(own));
    if (n == own->n_vec) return emit_load(&l->e, param, type, at, own->active, stride);
    if (part >= group_tile_of(l)->piece) return load_pieces(l, param, t, at, own, n);
    KirId index = emit_op2(&l->e, KIR_add, at, lanes_offsets(l, t, own));
    return emit_ins(&l->e, (KirIns){.op = KIR_gather,
                                    .type = type,
                                    .args = {index, KIR_NONE, KIR_NONE},
                                    .buf = param,
                                    .alloc = KIR_NONE,
                                    .active = own->active});
}

KirId lanes_any(Lower *l, KirId yes)
{
    Emit *e = &l->e;
    unsigned lanes = emit_type(e, yes).lanes;
    if (lanes == 1) return yes;
    KirType t = kir_type(KIR_I32, lanes), one = kir_type(KIR_I32, 1);
    KirId ones = emit_select(e, yes, emit_int(e, t, 1), emit_int(e, t, 0));
    KirId most = emit_ins(e, (KirIns){.op = KIR_hmax, .type = one, .args = {ones, KIR_NONE, KIR_NONE}});
    return emit_op2(e, KIR_lt, emit_int(e, one, 0), most);
}

/* ---- vectors of rows ---- */

unsigned rows_at_once(const Lower *l) { return (unsigned)group_tile_of(l)->along_rows; }

const char *rows_label(const Lower *l, const char *what)
{
    unsigned n = rows_at_once(l);
    return arena_printf(l->arena, "%s %s", n == 16 ? "sixteen" : n == 8 ? "eight" : n == 4 ? "four" : "two", what);
}
