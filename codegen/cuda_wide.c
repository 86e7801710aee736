/* Vectors that lie side by side in memory, moved by one access of each lane. A half-warp that reads 64 features as four
   vectors asks for 64 bytes four times; each of its lanes may as well read 4 features in a row, 16 bytes, and the
   half-warp 256 bytes at once:

     feature 16 q + l in lane l of vector q      becomes      feature 4 l + q in lane l of vector q

   Of 16-bit numbers, which the access moves as they lie in memory and each lane converts, four are 8 bytes.
   Scalars that lie side by side in a buffer that is only read, or in an array that warps share and where they stand no
   warp writes, are one access as well, of which each lane gets all; where they begin anywhere in a buffer, as many
   as a warp has lanes are an access of which each lane has one, and hands it to the others.

   Where values only meet in the same lane, and every vector is computed by the same operations with the same scalars,
   no result depends on which lane of which vector has which feature. So this pass puts values that meet into one set
   (`of`), and renumbers sets 0 to 3 together if each access of set 0 has one in each of the others, to the same row, q
   times 16 elements further on, all else in them is alike, and nothing looks across lanes, but in three ways, of heads
   of D features: a score of each head, repeated for its features (Spread), which lane l has from lane 4 l / D for all
   its four; where a head fills one vector or two, the same of scores that are scalars, and of what is computed from
   scores (Picks), which lie side by side in lanes of one vector or in a buffer that is only read; and sums of the
   features of each head (cuda_sums.c). Of a buffer that the kernel writes, and of an array that warps share, it moves
   all accesses so or none: then each lane still reads what it wrote itself. No bit changes. Warps of 8 lanes, or of 4,
   have so many in the place of 16. */
#include "codegen/cuda_wide.h"
#include "base/ice.h"
#include "codegen/cuda_sums.h"

enum { MOST = CUDA_MOST_WIDE, MOST_DEALT = CUDA_LANES };

typedef struct Access { /* whole vectors of a buffer, or of an array that the warps of a block share */
    KirId id, base;     /* base: KIR_NONE where the index is a constant */
    int64_t offset;
} Access;

typedef struct Spread { /* lanes of a vector, each `times` times: as many as a warp has in all */
    KirId from;
    int64_t first, times;
} Spread;

typedef struct Picks { /* what n vectors meet in all their lanes, which is one value that differs between lanes */
    KirId all[MOST];
    unsigned vectors; /* that meet one number: 1 or 2; what is computed from others: 1 */
} Picks;

typedef struct Finder {
    const KirKernel *k;
    uint32_t lanes;   /* of a warp */
    VEC(Picks) picks; /* of the sets that are looked at */
    uint8_t *summed;  /* [sums.all.n] which fours of a sum's vectors are moved together */
    CudaSums sums;
    Arena *a;
    KirId *of;                     /* [ins.n] forest of values that meet */
    bool *fixed;                   /* [ins.n] by root: something looks across lanes, or no access of it can move */
    bool *barred;                  /* [cuda_n_objects] written, and not by whole vectors alone */
    VEC(Access) accesses, scalars; /* scalars: loads of them from what nothing writes in between */
    uint32_t *block, *order;       /* [ins.n] where it stands */
    KirId *sequence;               /* [n_ordered] by order, from 1 on */
    KirId (*twin)[MOST];           /* [ins.n] of set 0: what does the same in set q */
    bool *own;                     /* [ins.n] arrays in registers, of whole vectors alone */
    uint32_t n_blocks, n_ordered;
    uint32_t *behind, *behind_set; /* [ins.n] order of the last block or barrier before it; of the last one or `set` */
    uint32_t last_bar, last_set;   /* the same, of all so far */
} Finder;

static KirId root(Finder *f, KirId id)
{
    while (f->of[id] != id) id = f->of[id] = f->of[f->of[id]];
    return id;
}

static void meet(Finder *f, KirId x, KirId y)
{
    KirId a = root(f, x), b = root(f, y);
    if (a == b) return;
    f->of[b] = a;
    f->fixed[a] |= f->fixed[b];
}

static bool is_whole(const Finder *f, KirType t) { return t.lanes == f->lanes; }

/* The same in all lanes. */
static bool is_uniform(const KirKernel *k, KirId id)
{
    const KirIns *x = &k->ins.data[id];
    return x->op == KIR_const || x->op == KIR_iconst || x->op == KIR_splat || (x->op == KIR_load && !x->stride) ||
           kir_result_type(k, id).lanes == 1;
}

static bool is_lanewise(KirOpcode op)
{
    return (op >= KIR_add && op <= KIR_ult) || op == KIR_select || op == KIR_convert || op == KIR_zext ||
           op == KIR_bitcast || op == KIR_var || op == KIR_set;
}

/* Whether an index is a multiple of n for all values of what it is computed from. */
static bool is_multiple(const KirKernel *k, KirId id, int64_t n)
{
    const KirIns *x = &k->ins.data[id];
    if (x->op == KIR_iconst) return x->i % n == 0;
    if (x->op == KIR_mul) return is_multiple(k, x->args[0], n) || is_multiple(k, x->args[1], n);
    if (x->op == KIR_for) return x->bind <= KIR_UNROLL && x->i % n == 0 && is_multiple(k, x->args[0], n);
    return (x->op == KIR_add || x->op == KIR_sub) && is_multiple(k, x->args[0], n) && is_multiple(k, x->args[1], n);
}

static Access access_of(const Finder *f, KirId id)
{
    const KirIns *ins = f->k->ins.data;
    Access x = {.id = id, .base = ins[id].args[0]};
    while (x.base != KIR_NONE) {
        const KirIns *i = &ins[x.base];
        if (i->op == KIR_add && ins[i->args[1]].op == KIR_iconst) x.offset += ins[i->args[1]].i, x.base = i->args[0];
        else if (i->op == KIR_iconst) x.offset += i->i, x.base = KIR_NONE;
        else break;
    }
    return x;
}

static bool is_shared(const Finder *f, const KirIns *x)
{
    return x->buf == KIR_NONE && f->k->ins.data[x->alloc].shared;
}

static bool is_only_read(const Finder *f, const KirIns *x)
{
    return x->buf != KIR_NONE && f->k->params.data[x->buf].kind == KIR_IN;
}

static bool is_same_memory(const KirIns *x, const KirIns *y)
{
    return x->buf == y->buf && (x->buf != KIR_NONE || x->alloc == y->alloc);
}

/* Whether an access loads or stores all lanes of a warp, at neighbouring places. */
static bool is_whole_access(const Finder *f, const KirIns *x)
{
    return x->op != KIR_gather && is_whole(f, x->type) && x->active == f->lanes && x->stride == 1;
}

static bool may_move(const Finder *f, const KirIns *x)
{
    bool own = x->buf == KIR_NONE ? is_shared(f, x) : f->k->params.data[x->buf].restrict_;
    bool floats = x->type.base == KIR_F32 || x->type.base == KIR_F64;
    return own && floats && is_whole_access(f, x);
}

/* A float of a buffer that is only read, or of a shared array. */
static bool is_scalar_load(const Finder *f, const KirIns *x)
{
    return x->op == KIR_load && x->type.lanes == 1 && (is_only_read(f, x) || is_shared(f, x)) &&
           (x->type.base == KIR_F32 || x->type.base == KIR_F64);
}

/* Accesses to a place in registers meet there. */
static void visit_own(Finder *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    if (x->op == KIR_store && !is_uniform(f->k, x->args[1])) meet(f, id, x->args[1]);
    for (uint32_t at = 1; at < f->order[id]; at++) {
        KirId other = f->sequence[at];
        const KirIns *y = &f->k->ins.data[other];
        if (!cuda_is_access(y) || y->buf != KIR_NONE || y->alloc != x->alloc) continue;
        if (access_of(f, other).offset == access_of(f, id).offset) meet(f, other, id);
    }
}

static void visit_access(Finder *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    if (x->buf == KIR_NONE && f->own[x->alloc]) {
        visit_own(f, id);
        return;
    }
    if (is_scalar_load(f, x)) VEC_PUSH(f->a, &f->scalars, access_of(f, id));
    if (may_move(f, x)) {
        VEC_PUSH(f->a, &f->accesses, access_of(f, id));
        if (x->op == KIR_store && !is_uniform(f->k, x->args[1])) meet(f, id, x->args[1]);
        return;
    }
    if (!is_only_read(f, x)) f->barred[cuda_object(f->k, x)] = true;
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) f->fixed[root(f, x->args[i])] = true;
    if (!is_uniform(f->k, id)) f->fixed[root(f, id)] = true;
}

static bool is_spread(const Finder *f, KirId id, Spread *s)
{
    const KirIns *x = &f->k->ins.data[id], *part = &f->k->ins.data[x->args[0]];
    if (x->op != KIR_repeat || !is_whole(f, x->type) || part->op != KIR_part) return false;
    *s = (Spread){part->args[0], part->i, x->i};
    return part->type.lanes * x->i == f->lanes;
}

static void visit(Finder *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    Spread spread;
    if (f->sums.inner[id] || is_spread(f, id, &spread)) return;
    if (f->sums.of[id]) {
        f->fixed[root(f, id)] = true;
        return;
    }
    if (cuda_is_access(x)) {
        visit_access(f, id);
        return;
    }
    KirId to = x->op == KIR_set ? x->args[0] : id;
    bool wise = is_lanewise(x->op) && is_whole(f, kir_result_type(f->k, to));
    if (!wise) f->fixed[root(f, id)] = true;
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) {
        if (is_uniform(f->k, x->args[i])) continue;
        if (wise) meet(f, to, x->args[i]);
        else f->fixed[root(f, x->args[i])] = true;
    }
}

static void number_block(Finder *f, const KirBlock *b)
{
    uint32_t block = f->n_blocks++;
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        const KirIns *x = &f->k->ins.data[id];
        f->order[id] = ++f->n_ordered;
        f->sequence[f->n_ordered] = id;
        f->block[id] = block;
        number_block(f, &x->body);
        number_block(f, &x->other);
        if (x->body.ins.n || x->op == KIR_barrier) f->last_bar = f->n_ordered;
        if (x->op == KIR_set) f->last_set = f->n_ordered;
        f->behind[id] = f->last_bar;
        f->behind_set[id] = f->last_bar > f->last_set ? f->last_bar : f->last_set;
        if (x->op == KIR_break_if) block = f->n_blocks++; /* what stands behind it may never run */
    }
}

/* ---- sets that are renumbered together ---- */

static const KirIns *ins_of(const Finder *f, const Access *x) { return &f->k->ins.data[x->id]; }

/* The access by set r to what lies `by` elements behind that of x; NULL: there is none. r KIR_NONE: by any set. */
static const Access *beside(Finder *f, const Access *x, int64_t by, KirId r)
{
    for (uint32_t i = 0; i < f->accesses.n; i++) {
        const Access *y = &f->accesses.data[i];
        if (ins_of(f, y)->op == ins_of(f, x)->op && is_same_memory(ins_of(f, y), ins_of(f, x)) && y->base == x->base &&
            f->block[y->id] == f->block[x->id] && y->offset == x->offset + by && (r == KIR_NONE || root(f, y->id) == r))
            return y;
    }
    return NULL;
}

static uint32_t count(Finder *f, KirId r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->accesses.n; i++) n += root(f, f->accesses.data[i].id) == r;
    return n;
}

/* All n accesses beside x, by sets r[], in all[]; false where they cannot be one. */
static bool one_access(Finder *f, const Access *x, const KirId *r, unsigned n, KirId *all)
{
    uint32_t first = UINT32_MAX, last = 0, behind = 0;
    const KirIns *ins = ins_of(f, x);
    bool read_only = is_only_read(f, ins);
    /* what is stored, or the index, may be a register, which a `set` changes; what is loaded comes into one behind
       it */
    bool by_register = ins->op == KIR_store || (x->base != KIR_NONE && f->k->ins.data[x->base].op == KIR_var);
    /* a lane has the same elements of a written buffer in all accesses if each begins at a multiple of what one
       moves */
    int64_t unit = read_only ? n : n * f->lanes;
    if (x->offset % unit || (x->base != KIR_NONE && !is_multiple(f->k, x->base, unit))) return false;
    for (unsigned q = 0; q < n; q++) {
        const Access *y = beside(f, x, (int64_t)q * f->lanes, r[q]);
        if (!y || (f->barred[cuda_object(f->k, ins)] && !read_only)) return false;
        all[q] = y->id;
        if (q == 0 && y->id != x->id) return false; /* the set touches the place twice */
        if (f->order[y->id] < first) first = f->order[y->id];
        if (f->order[y->id] <= last) continue;
        last = f->order[y->id];
        behind = by_register ? f->behind_set[y->id] : f->behind[y->id];
    }
    if (ins->op == KIR_load && first != f->order[x->id]) return false; /* it says where they lie */
    if ((!read_only || by_register) && behind > first) return false;
    for (uint32_t i = 0; i < f->accesses.n && !read_only; i++) {
        const Access *y = &f->accesses.data[i];
        bool member = false;
        for (unsigned q = 0; q < n; q++) member |= all[q] == y->id;
        if (!member && is_same_memory(ins_of(f, y), ins) && f->order[y->id] > first && f->order[y->id] < last)
            return false;
    }
    return true;
}

/* Whether two values that are the same in all lanes are the same number. */
static bool is_same_scalar(const Finder *f, KirId x, KirId y)
{
    const KirIns *a = &f->k->ins.data[x], *b = &f->k->ins.data[y];
    if (x == y) return true;
    if (a->op != b->op || a->type.base != b->type.base || a->type.lanes != b->type.lanes) return false;
    if (a->op == KIR_splat) return is_same_scalar(f, a->args[0], b->args[0]);
    return (a->op == KIR_const && !memcmp(&a->f, &b->f, sizeof a->f)) || (a->op == KIR_iconst && a->i == b->i);
}

/* The set that an instruction belongs to; KIR_NONE: none. */
static KirId set_of(Finder *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    if (x->op == KIR_set) id = x->args[0];
    ICE_UNLESS(id < f->k->ins.n);
    return is_uniform(f->k, id) && x->op != KIR_store && x->op != KIR_var ? KIR_NONE : root(f, id);
}

/* Whether the next instruction of set r behind place *at is there; *at is its place then. */
static bool next_of(Finder *f, KirId r, uint32_t *at)
{
    while (++*at <= f->n_ordered)
        if (set_of(f, f->sequence[*at]) == r) return true;
    return false;
}

/* Whether a register has one value where the lanes u and v are taken from it and where they are repeated. */
static bool is_steady(const Finder *f, KirId u, KirId v)
{
    KirId all[] = {f->k->ins.data[u].args[0], f->k->ins.data[v].args[0], u, v};
    for (unsigned i = 1; i < 4; i++)
        if (f->block[all[i]] != f->block[all[0]] || f->behind_set[all[i]] != f->behind_set[all[0]]) return false;
    return true;
}

/* Whether v repeats lanes that lie `by` features behind those of u, and the n features of a lane have one of them. */
static bool spreads_on(const Finder *f, KirId u, KirId v, int64_t by, unsigned n)
{
    Spread s, t;
    bool both = is_spread(f, u, &s) && is_spread(f, v, &t);
    if (!both || s.from != t.from || t.first != s.first + by / s.times || s.times % n) return false;
    return f->k->ins.data[s.from].op != KIR_var || is_steady(f, u, v);
}

/* Whether set b, the q-th of n, does what set a does, instruction by instruction, with the same scalars, to what lies q
   vectors further on. */
static bool is_alike(Finder *f, KirId a, KirId b, unsigned q, unsigned n)
{
    const KirIns *ins = f->k->ins.data;
    int64_t by = (int64_t)q * f->lanes;
    uint32_t i = 0, j = 0;
    ICE_UNLESS(a != b && q < n); /* two sets, one behind the other */
    for (;;) {
        bool more = next_of(f, a, &i);
        if (next_of(f, b, &j) != more) return false;
        if (!more) return true;
        KirId u = f->sequence[i], v = f->sequence[j];
        const KirIns *x = &ins[u], *y = &ins[v];
        bool same = x->op == y->op && x->type.base == y->type.base && x->type.lanes == y->type.lanes && x->i == y->i &&
                    x->f == y->f && x->buf == y->buf && (!cuda_is_access(x) || is_same_memory(x, y)) &&
                    f->block[u] == f->block[v];
        if (!same) return false;
        f->twin[u][q] = v;
        if (x->op == KIR_repeat) {
            if (!spreads_on(f, u, v, by, n)) return false;
            continue;
        }
        if (cuda_is_access(x)) {
            Access p = access_of(f, u), q = access_of(f, v);
            if (p.base != q.base || q.offset != p.offset + by) return false;
        }
        for (unsigned k = cuda_is_access(x) ? 1 : 0; k < kir_ops[x->op].n_args; k++) {
            bool one = is_uniform(f->k, x->args[k]);
            if (one != is_uniform(f->k, y->args[k])) return false;
            /* numbers that all lanes have: find_picks */
            if (!one && f->twin[x->args[k]][q] != y->args[k]) return false;
        }
    }
}

/* Whether each sum of these sets takes all of them in, in their order, alone or beside four others; takes these. */
static bool sums_go_along(Finder *f, const KirId *r, unsigned n, bool take, CudaWide *out)
{
    for (uint32_t i = 0; i < f->sums.all.n; i++) {
        const CudaSum *x = &f->sums.all.data[i];
        unsigned in_order = 0, any = 0, part = 0;
        for (unsigned p = 0; p < x->n; p++)
            for (unsigned q = 0; q < n; q++) {
                bool here = root(f, x->in[p]) == r[q];
                if (here && !any) part = p / n;
                any += here, in_order += here && p == part * n + q;
            }
        if (!any) continue;
        if ((x->n != n && n != MOST) || in_order != n || any != n) return false;
        if (!take) continue;
        f->summed[i] |= (uint8_t)(1u << part);
        if (f->summed[i] != (1u << x->n / n) - 1) continue;
        out->n[x->result] = x->n, out->each[x->result] = x->each, out->at[x->result] = x->result;
        memcpy(out->all[x->result], x->in, sizeof x->in);
        for (KirId id = 0; id < f->k->ins.n; id++) out->idle[id] |= f->sums.inner[id] == i + 1;
    }
    return true;
}

/* Bars the vectors of sums of which some are moved together and some are not. Returns whether there were any. */
static bool bar_halves(Finder *f, const CudaWide *w)
{
    bool dropped = false;
    for (uint32_t i = 0; i < f->sums.all.n; i++) {
        const CudaSum *x = &f->sums.all.data[i];
        if (!f->summed[i] || w->each[x->result]) continue;
        for (unsigned p = 0; p < x->n; p++) f->fixed[root(f, x->in[p])] = true;
        dropped = true;
    }
    return dropped;
}

/* Whether n numbers are side by side in lanes of one vector, or in memory that nothing writes, one for each vector or
   for two (*vectors). */
static bool lie_along(const Finder *f, const KirId *all, unsigned n, unsigned *vectors)
{
    const KirIns *first = &f->k->ins.data[all[0]];
    int64_t at[MOST];
    for (unsigned q = 0; q < n; q++) {
        const KirIns *x = &f->k->ins.data[all[q]];
        if (x->type.base != KIR_F32 && x->type.base != KIR_F64) return false;
        if (x->op == KIR_extract) {
            bool changes = f->k->ins.data[x->args[0]].op == KIR_var && f->behind_set[all[q]] != f->behind_set[all[0]];
            if (x->args[0] != first->args[0] || changes) return false;
            at[q] = x->i;
            continue;
        }
        Access a = access_of(f, all[q]);
        if (!is_only_read(f, x) || !f->k->params.data[x->buf].restrict_ || x->buf != first->buf) return false;
        if (a.base != access_of(f, all[0]).base || (a.base != KIR_NONE && f->k->ins.data[a.base].op == KIR_var))
            return false;
        at[q] = a.offset;
    }
    *vectors = at[1] == at[0] ? 2 : 1;
    for (unsigned q = 0; q < n; q++)
        if (at[q] != at[0] + q / *vectors) return false;
    return n > *vectors;
}

/* Notes n numbers that n vectors meet, and those that they are computed from. False where they cannot be one value. */
static bool add_picks(Finder *f, const KirId *all, unsigned n)
{
    Picks p = {.vectors = 1};
    const KirIns *ins = f->k->ins.data, *x = &ins[all[0]];
    bool leaf = x->op == KIR_extract || x->op == KIR_load;
    memcpy(p.all, all, n * sizeof *all);
    for (uint32_t i = 0; i < f->picks.n; i++)
        if (!memcmp(f->picks.data[i].all, all, n * sizeof *all)) return true;
    for (unsigned q = 0; q < n; q++) {
        const KirIns *y = &ins[all[q]];
        if (y->op != x->op || y->type.base != x->type.base || y->type.lanes != x->type.lanes) return false;
        if (f->block[all[q]] != f->block[all[0]] || f->order[all[q]] < f->order[all[0]]) return false;
    }
    if (leaf ? !lie_along(f, all, n, &p.vectors) : x->op != KIR_splat && (!is_lanewise(x->op) || x->op == KIR_var))
        return false;
    for (unsigned k = 0; k < kir_ops[x->op].n_args && !leaf; k++) {
        KirId args[MOST];
        bool same = true;
        for (unsigned q = 0; q < n; q++) args[q] = ins[all[q]].args[k], same &= is_same_scalar(f, args[0], args[q]);
        if (!same && !add_picks(f, args, n)) return false;
    }
    VEC_PUSH(f->a, &f->picks, p);
    return true;
}

/* Finds what n sets, whose first is r, meet of numbers that all lanes have, but that differ from set to set. */
static bool find_picks(Finder *f, KirId r, unsigned n)
{
    f->picks.n = 0;
    for (uint32_t at = 1; at <= f->n_ordered; at++) {
        KirId id = f->sequence[at];
        const KirIns *x = &f->k->ins.data[id];
        if (set_of(f, id) != r || x->op == KIR_repeat) continue;
        for (unsigned k = cuda_is_access(x) ? 1 : 0; k < kir_ops[x->op].n_args; k++) {
            KirId args[MOST] = {x->args[k]};
            bool same = true;
            if (!is_uniform(f->k, x->args[k])) continue;
            for (unsigned q = 1; q < n; q++) {
                args[q] = f->k->ins.data[f->twin[id][q]].args[k];
                same &= is_same_scalar(f, args[0], args[q]);
            }
            if (!same && !add_picks(f, args, n)) return false;
        }
    }
    return true;
}

/* Whether an instruction is in set r, or what its numbers are computed from at place q. */
static bool is_at(Finder *f, KirId id, unsigned q, KirId r)
{
    bool at = set_of(f, id) == r;
    for (uint32_t i = 0; i < f->picks.n; i++) at |= f->picks.data[i].all[q] == id;
    return at;
}

/* Whether nothing else meets these numbers, and each is one of n in one way. */
static bool picks_are_alone(Finder *f, const KirId *r, unsigned n, const CudaWide *out)
{
    for (uint32_t i = 0; i < f->picks.n; i++)
        for (unsigned q = 0; q < n; q++) {
            const KirId *all = f->picks.data[i].all;
            if (out->n[all[q]]) return false;
            for (uint32_t j = 0; j < i; j++)
                for (unsigned p = 0; p < n; p++)
                    if (f->picks.data[j].all[p] == all[q]) return false;
            for (KirId id = 0; id < f->k->ins.n; id++) {
                bool reads = false, ours = false;
                for (unsigned k = 0; k < kir_ops[f->k->ins.data[id].op].n_args; k++)
                    reads |= f->k->ins.data[id].args[k] == all[q];
                for (unsigned p = 0; p < n && reads; p++) ours |= all[p] == all[q] && is_at(f, id, p, r[p]);
                if (reads && !ours) return false;
            }
        }
    return true;
}

/* As one value, computed where the first of them stood. */
static void take_picks(Finder *f, unsigned n, CudaWide *out)
{
    for (uint32_t i = 0; i < f->picks.n; i++) {
        const Picks *p = &f->picks.data[i];
        for (unsigned q = 0; q < n; q++) {
            KirId one = p->all[q];
            out->n[one] = (uint8_t)n, out->place[one] = (uint8_t)q, out->at[one] = p->all[0];
            out->vectors[one] = (uint8_t)p->vectors;
            memcpy(out->all[one], p->all, n * sizeof *p->all);
        }
    }
}

/* The repeated lanes of set 0 and of its twins: one value, computed where the first of them stood. */
static void take_spreads(Finder *f, KirId r, unsigned n, CudaWide *out)
{
    Spread s;
    for (KirId id = 0; id < f->k->ins.n; id++) {
        if (root(f, id) != r || !is_spread(f, id, &s)) continue;
        f->twin[id][0] = id;
        KirId at = id;
        for (unsigned q = 1; q < n; q++)
            if (f->order[f->twin[id][q]] < f->order[at]) at = f->twin[id][q];
        for (unsigned q = 0; q < n; q++) {
            KirId one = f->twin[id][q];
            ICE_UNLESS(!out->n[one] && f->block[one] == f->block[at]);
            out->n[one] = (uint8_t)n, out->place[one] = (uint8_t)q, out->at[one] = at;
            memcpy(out->all[one], f->twin[id], n * sizeof *f->twin[id]);
            out->idle[f->k->ins.data[one].args[0]] = true;
        }
    }
}

/* Sets r[0], to which x belongs, to r[n - 1]: all their accesses or none. */
static bool renumber(Finder *f, const Access *x, unsigned n, CudaWide *out)
{
    KirId r[MOST], all[MOST_DEALT] = {0};
    for (unsigned q = 0; q < n; q++) {
        const Access *y = q ? beside(f, x, (int64_t)q * f->lanes, KIR_NONE) : x;
        if (!y) return false;
        r[q] = root(f, y->id);
        if (f->fixed[r[q]] || out->n[y->id] || count(f, r[q]) != count(f, r[0])) return false;
        for (unsigned p = 0; p < q; p++)
            if (r[p] == r[q]) return false;
        if (q && !is_alike(f, r[0], r[q], q, n)) return false;
    }
    if (!find_picks(f, r[0], n) || !picks_are_alone(f, r, n, out)) return false;
    for (unsigned turn = 0; turn < 2; turn++) { /* looks, then takes */
        if (!sums_go_along(f, r, n, turn, out)) return false;
        for (uint32_t i = 0; i < f->accesses.n; i++) {
            const Access *y = &f->accesses.data[i];
            if (root(f, y->id) != r[0]) continue;
            if (!one_access(f, y, r, n, all)) return false;
            KirId at = all[0];
            for (unsigned q = 0; q < n; q++)
                if (ins_of(f, y)->op == KIR_store && f->order[all[q]] > f->order[at]) at = all[q];
            for (unsigned q = 0; q < n && turn; q++) {
                ICE_UNLESS(!out->n[all[q]]); /* an access belongs to one set */
                out->n[all[q]] = (uint8_t)n, out->place[all[q]] = (uint8_t)q, out->at[all[q]] = at;
                memcpy(out->all[all[q]], all, sizeof all);
            }
        }
    }
    take_spreads(f, r[0], n, out);
    take_picks(f, n, out);
    return true;
}

/* Bars all memory that the kernel writes and whose accesses would not all be moved by as many: a lane would read there
   what another one wrote. Returns whether it barred one. */
static bool bar_mixed(Finder *f, const CudaWide *w)
{
    bool dropped = false;
    for (uint32_t i = 0; i < f->accesses.n; i++)
        for (uint32_t j = 0; j < f->accesses.n; j++) {
            const Access *x = &f->accesses.data[i], *y = &f->accesses.data[j];
            uint32_t object = cuda_object(f->k, ins_of(f, x));
            bool written = !is_only_read(f, ins_of(f, x));
            if (!written || cuda_object(f->k, ins_of(f, y)) != object || w->n[x->id] == w->n[y->id]) continue;
            if (!f->barred[object]) dropped = f->barred[object] = true;
        }
    return dropped;
}

/* Whether two loads from one place in the text to another find the same: nothing is written there, and no warp is
   waited for, in the block that holds both. */
static bool is_unwritten(const Finder *f, const KirIns *x, uint32_t first, uint32_t last)
{
    for (uint32_t at = first; at <= last; at++) {
        const KirIns *y = &f->k->ins.data[f->sequence[at]];
        if (y->op == KIR_barrier || (y->op == KIR_store && is_same_memory(x, y))) return false;
    }
    return true;
}

/* The n scalars from x on as one load, at the place of x, which comes first. A register, which may change meanwhile, is
   no known multiple, and no known place. */
static void join_scalars(const Finder *f, const Access *x, unsigned n, CudaWide *out)
{
    KirId all[MOST_DEALT] = {x->id};
    bool dealt = n > MOST; /* begins anywhere */
    bool read_only = is_only_read(f, ins_of(f, x));
    if (dealt && !read_only) return; /* an array's words come as quickly one by one */
    ICE_UNLESS(n > 1 && n <= MOST_DEALT);
    if (!dealt && (x->offset % n || (x->base != KIR_NONE && !is_multiple(f->k, x->base, n)))) return;
    if (dealt && x->base != KIR_NONE && f->k->ins.data[x->base].op == KIR_var) return;
    for (unsigned q = 0; q < n; q++) {
        const Access *y = NULL;
        for (uint32_t i = 0; i < f->scalars.n && !y; i++) {
            const Access *z = &f->scalars.data[i];
            bool same = is_same_memory(ins_of(f, z), ins_of(f, x)) && z->base == x->base &&
                        f->block[z->id] == f->block[x->id];
            if (same && z->offset == x->offset + q && !out->n[z->id] && f->order[z->id] >= f->order[x->id]) y = z;
        }
        if (!y || (q == 0 && y->id != x->id)) return;
        if (!read_only && !is_unwritten(f, ins_of(f, x), f->order[x->id], f->order[y->id])) return;
        all[q] = y->id;
    }
    for (unsigned q = 0; q < n; q++) {
        out->n[all[q]] = (uint8_t)n, out->place[all[q]] = (uint8_t)q, out->at[all[q]] = x->id;
        memcpy(out->all[all[q]], all, sizeof all);
    }
}

static void join_dealt(const Finder *f, CudaWide *out)
{
    for (uint32_t i = 0; i < f->scalars.n; i++)
        if (f->lanes > MOST && !out->n[f->scalars.data[i].id]) join_scalars(f, &f->scalars.data[i], f->lanes, out);
}

/* Parts of vectors that something else reads as well are computed. Users have the greater ids. */
static void wake(const KirKernel *k, CudaWide *w)
{
    for (KirId id = k->ins.n; id-- > 0;)
        for (unsigned i = 0; i < kir_ops[k->ins.data[id].op].n_args && !w->idle[id]; i++) {
            KirId arg = k->ins.data[id].args[i];
            if (k->ins.data[arg].op == KIR_part && !w->n[id]) w->idle[arg] = false;
        }
}

CudaWide cuda_wide(Arena *a, const CudaMemory *m)
{
    const KirKernel *k = m->k;
    uint32_t n = k->ins.n;
    Finder f = {.k = k,
                .lanes = m->launch.lanes,
                .a = a,
                .of = ARENA_ARRAY(a, KirId, n),
                .fixed = ARENA_ARRAY(a, bool, n),
                .barred = ARENA_ARRAY(a, bool, cuda_n_objects(k)),
                .order = ARENA_ARRAY(a, uint32_t, n),
                .sequence = ARENA_ARRAY(a, KirId, n + 1),
                .twin = (KirId(*)[MOST])ARENA_ARRAY(a, KirId, n * MOST),
                .own = ARENA_ARRAY(a, bool, n),
                .block = ARENA_ARRAY(a, uint32_t, n),
                .behind = ARENA_ARRAY(a, uint32_t, n),
                .behind_set = ARENA_ARRAY(a, uint32_t, n)};
    for (KirId i = 0; i < n; i++) f.of[i] = i;
    number_block(&f, &k->body);
    f.sums = cuda_sums(a, k, f.lanes, f.block);
    for (KirId i = 0; i < n; i++) f.own[i] = k->ins.data[i].op == KIR_alloc && m->place[i] == CUDA_REGISTERS;
    for (KirId i = 0; i < n; i++) {
        const KirIns *x = &k->ins.data[i];
        if (cuda_is_access(x) && x->buf == KIR_NONE && !is_whole_access(&f, x)) f.own[x->alloc] = false;
    }
    for (uint32_t at = 1; at <= f.n_ordered; at++) visit(&f, f.sequence[at]);
    CudaWide w;
    do {
        w = (CudaWide){.n = ARENA_ARRAY(a, uint8_t, n),
                       .place = ARENA_ARRAY(a, uint8_t, n),
                       .all = (KirId(*)[MOST_DEALT])ARENA_ARRAY(a, KirId, n * MOST_DEALT),
                       .at = ARENA_ARRAY(a, KirId, n),
                       .each = ARENA_ARRAY(a, uint8_t, n),
                       .vectors = ARENA_ARRAY(a, uint8_t, n),
                       .idle = ARENA_ARRAY(a, bool, n)};
        f.summed = ARENA_ARRAY(a, uint8_t, f.sums.all.n + 1);
        for (unsigned wide = MOST; wide > 1; wide /= 2)
            for (uint32_t i = 0; i < f.accesses.n; i++) {
                const Access *x = &f.accesses.data[i];
                if (ins_of(&f, x)->type.base == KIR_F64 && wide > 2) continue;
                renumber(&f, x, wide, &w);
            }
    } while (bar_mixed(&f, &w) || bar_halves(&f, &w));
    wake(k, &w);
    for (unsigned wide = MOST; wide > 1; wide /= 2) {
        if (wide < MOST) join_dealt(&f, &w);
        for (uint32_t i = 0; i < f.scalars.n; i++) {
            bool fits = ins_of(&f, &f.scalars.data[i])->type.base == KIR_F32 || wide <= 2;
            if (fits && !w.n[f.scalars.data[i].id]) join_scalars(&f, &f.scalars.data[i], wide, &w);
        }
    }
    return w;
}
