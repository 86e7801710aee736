/* Sums inside a row whose results lie side by side in a vector, as passes/lower/lower_lanes.c folds them: halves of
   groups of lanes of two vectors are added until each result has one lane. Here those of 64 features, heads of 8 each:

     %u = upper %a, %b, 8; %l = lower %a, %b, 8; %s = add %l, %u      and %t of %c and %d
     %u = upper %s, %t, 4; %l = lower %s, %t, 4; %v = add %l, %u
     %h = part %v, 8; %g = part %v, 0; %u = upper %g, %h, 2; %l = lower %g, %h, 2; %r = add %l, %u

   Feature i of a head is added to feature i + 4, these sums to those two places on, these to their neighbours: which is
   halving, wherever the features lie. Found so that %a to %d may lie otherwise (cuda_wide.c). Changes nothing. */
#include "codegen/cuda_sums.h"
#include "base/ice.h"
#include "codegen/emit_cuda.h"

typedef struct Finder {
    const KirKernel *k;
    uint32_t lanes; /* of a warp */
    const uint32_t *block;
    uint32_t *uses;   /* [ins.n] */
    KirId *user;      /* [ins.n] one of them */
    VEC(KirId) moves; /* lower, upper and part */
} Finder;

static const KirIns *at(const Finder *f, KirId id) { return &f->k->ins.data[id]; }

/* The upper halves of groups of g lanes of a and b, added to the lower ones; KIR_NONE: that is not computed. */
static KirId halved(const Finder *f, KirId a, KirId b, int64_t g)
{
    KirId half[2] = {KIR_NONE, KIR_NONE};
    for (uint32_t i = 0; i < f->moves.n && a != KIR_NONE && b != KIR_NONE; i++) {
        const KirIns *x = at(f, f->moves.data[i]);
        if (x->op != KIR_part && x->args[0] == a && x->args[1] == b && x->i == g)
            half[x->op == KIR_upper] = f->moves.data[i];
    }
    if (half[0] == KIR_NONE || half[1] == KIR_NONE || !f->uses[half[0]]) return KIR_NONE;
    KirId sum = f->user[half[0]];
    const KirIns *x = at(f, sum);
    bool floats = x->type.base == KIR_F32 || x->type.base == KIR_F64;
    bool is_sum = x->op == KIR_add && floats && x->args[0] == half[0] && x->args[1] == half[1];
    return is_sum && f->block[sum] == f->block[half[0]] && f->block[sum] == f->block[half[1]] ? sum : KIR_NONE;
}

/* Half of the lanes of v. */
static KirId half_of(const Finder *f, KirId v, bool upper)
{
    unsigned lanes = at(f, v)->type.lanes / 2;
    for (uint32_t i = 0; i < f->moves.n; i++) {
        const KirIns *x = at(f, f->moves.data[i]);
        if (x->op == KIR_part && x->args[0] == v && x->type.lanes == lanes && x->i == (upper ? lanes : 0))
            return f->moves.data[i];
    }
    return KIR_NONE;
}

/* What `sum` is added to next, lane groups of g; KIR_NONE: to itself. */
static KirId neighbour(const Finder *f, KirId sum, int64_t g)
{
    for (uint32_t i = 0; i < f->moves.n; i++) {
        const KirIns *x = at(f, f->moves.data[i]);
        if (x->op == KIR_lower && x->args[0] == sum && x->i == g) return x->args[1];
    }
    return KIR_NONE;
}

/* The n vectors, in order, that v is the sum of, halved in groups of g lanes at last and of 2 g before. */
static bool find_summed(const Finder *f, KirId v, int64_t g, unsigned n, KirId *in)
{
    if (n == 1) {
        *in = v;
        return true;
    }
    const KirIns *lower = at(f, at(f, v)->args[0]);
    if (at(f, v)->op != KIR_add || lower->op != KIR_lower || halved(f, lower->args[0], lower->args[1], g) != v)
        return false;
    return find_summed(f, lower->args[0], 2 * g, n / 2, in) && find_summed(f, lower->args[1], 2 * g, n / 2, in + n / 2);
}

/* The sum that begins with this `lower`. */
static bool find_sum(const Finder *f, const KirIns *first, CudaSum *x)
{
    int64_t g = first->i;
    if (first->type.lanes != f->lanes || g > f->lanes) return false;
    *x = (CudaSum){.in = {first->args[0], first->args[1]}, .n = 2, .each = (uint8_t)g};
    KirId sum = halved(f, x->in[0], x->in[1], g);
    while (sum != KIR_NONE && g > 2 && x->n < CUDA_MOST_SUMMED) {
        KirId other = neighbour(f, sum, g / 2);
        if (other == KIR_NONE) break;
        if (!find_summed(f, other, g, x->n, x->in + x->n)) return false;
        g /= 2, x->n *= 2;
        sum = halved(f, sum, other, g);
    }
    for (g /= 2; g > 1 && sum != KIR_NONE; g /= 2) sum = halved(f, half_of(f, sum, false), half_of(f, sum, true), g);
    x->result = sum;
    return sum != KIR_NONE && x->each >= x->n;
}

/* Marks what lies between v and the vectors. */
static void mark(const Finder *f, const CudaSum *x, KirId v, uint32_t by, uint32_t *inner)
{
    for (unsigned i = 0; i < x->n; i++)
        if (v == x->in[i]) return;
    ICE_UNLESS(at(f, v)->op == KIR_add || at(f, v)->op == KIR_part || at(f, v)->op == KIR_lower ||
               at(f, v)->op == KIR_upper);
    if (v != x->result) inner[v] = by;
    for (unsigned i = 0; i < kir_ops[at(f, v)->op].n_args; i++) mark(f, x, at(f, v)->args[i], by, inner);
}

/* Whether nothing but sum `by` reads what is marked. */
static bool is_alone(const Finder *f, const CudaSum *x, uint32_t by, const uint32_t *inner)
{
    for (KirId id = 0; id < f->k->ins.n; id++)
        for (unsigned i = 0; i < kir_ops[at(f, id)->op].n_args; i++)
            if (inner[at(f, id)->args[i]] == by && inner[id] != by && id != x->result) return false;
    return true;
}

CudaSums cuda_sums(Arena *a, const KirKernel *k, uint32_t lanes, const uint32_t *block)
{
    uint32_t n = k->ins.n;
    CudaSums s = {.inner = ARENA_ARRAY(a, uint32_t, n), .of = ARENA_ARRAY(a, uint32_t, n)};
    Finder f = {
        .k = k, .lanes = lanes, .block = block, .uses = ARENA_ARRAY(a, uint32_t, n), .user = ARENA_ARRAY(a, KirId, n)};
    for (KirId id = 0; id < n; id++) {
        const KirIns *x = at(&f, id);
        for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) f.uses[x->args[i]]++, f.user[x->args[i]] = id;
        if (x->op == KIR_lower || x->op == KIR_upper || x->op == KIR_part) VEC_PUSH(a, &f.moves, id);
    }
    for (uint32_t i = 0; i < f.moves.n; i++) {
        CudaSum x;
        KirId first = f.moves.data[i];
        if (at(&f, first)->op != KIR_lower || s.inner[first] || !find_sum(&f, at(&f, first), &x)) continue;
        uint32_t by = s.all.n + 1;
        mark(&f, &x, x.result, by, s.inner);
        if (is_alone(&f, &x, by, s.inner)) {
            s.of[x.result] = by;
            VEC_PUSH(a, &s.all, x);
            continue;
        }
        for (KirId id = 0; id < n; id++)
            if (s.inner[id] == by) s.inner[id] = 0;
    }
    return s;
}
