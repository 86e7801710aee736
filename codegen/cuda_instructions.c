/* Instructions of a GPU, by which the shim says how long kernels would take: a fold of 16 lanes halves 4 times and
   hands out its result; what has no unit of its own is a short program. Estimates. */
#include "codegen/cuda_instructions.h"

/* Of sums of the lanes of n vectors: each halving of lanes is two for each vector, one within a lane one. */
static unsigned of_sums(unsigned n, unsigned each)
{
    unsigned one = n < CUDA_MOST_WIDE ? n : CUDA_MOST_WIDE, count = n - n / one + (each > one);
    for (; each > one; each /= 2) count += 2 * n;
    return count + (n > one ? 2 : 0);
}

unsigned cuda_instructions(const KirKernel *k, const CudaWide *w, KirId id)
{
    const KirIns *x = &k->ins.data[id];
    if (w->each[id]) return of_sums(w->n[id], w->each[id]);
    if (w->idle[id] || (x->op == KIR_repeat && w->n[id] && w->at[id] != id)) return 0;
    if (w->vectors[id] && w->at[id] != id) return 0;
    switch (x->op) {
    case KIR_param:
    case KIR_const:
    case KIR_iconst:
    case KIR_lanes:
    case KIR_splat:
    case KIR_alloc:
    case KIR_bitcast: return 0;
    case KIR_for:
    case KIR_loop: return 1; /* its turns count for themselves */
    case KIR_hadd:
    case KIR_hmul:
    case KIR_hmax:
    case KIR_hmin: return 9;
    case KIR_lower:
    case KIR_upper: return 3;
    case KIR_div:
    case KIR_rem:
    case KIR_sqrt: return 8;
    default: return 1;
    }
}
