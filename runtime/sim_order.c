/* In which order a rank receives (see sim.h). One transfer after the other is taken: the best of those that are left,
   by a tournament of all against the best so far, since the comparison of TAC is not transitive. */
#include "runtime/sim.h"
#include <assert.h>
#include <math.h>

/* Of a transfer, by what is still to be received. */
typedef struct Rank {
    double time;  /* M: of the transfer */
    double frees; /* P: of the steps that wait for nothing else */
    double with;  /* M+: the least of all transfers for which a step waits that waits for this one and others */
} Rank;

static double sum_of(const RtSimDag *d, uint64_t receives, bool by_time)
{
    double sum = 0;
    for (int r = 0; r < d->n_receives; r++)
        if (receives >> r & 1) sum += by_time ? d->receive_s[r] : 1;
    return sum;
}

static Rank rank_of(const RtSimDag *d, uint64_t pending, int r, bool by_time)
{
    Rank x = {by_time ? d->receive_s[r] : 1, 0, INFINITY};
    uint64_t own = (uint64_t)1 << r;
    for (int c = 0; c < d->n_computes; c++) {
        uint64_t waits = d->receives[c] & pending;
        if (waits == own) x.frees += by_time ? d->compute_s[c] : 0;
        else if (waits & own) x.with = fmin(x.with, sum_of(d, waits, by_time));
    }
    return x;
}

/* Whether a is to be begun before b: b's steps would wait for a's transfer less long than the other way round. */
static bool before(const Rank *a, const Rank *b)
{
    double ab = fmin(b->frees, a->time), ba = fmin(a->frees, b->time);
    return ab != ba ? ab < ba : a->with < b->with;
}

static uint64_t all_of(const RtSimDag *d)
{
    assert(d->n_receives >= 0 && d->n_receives <= RT_SIM_RECEIVES);
    return d->n_receives == RT_SIM_RECEIVES ? ~(uint64_t)0 : ((uint64_t)1 << d->n_receives) - 1;
}

/* again: ranks are those of what is left each time; else those of the beginning. */
static void order(const RtSimDag *d, bool by_time, bool again, int *out)
{
    uint64_t all = all_of(d), left = all;
    for (int i = 0; i < d->n_receives; i++) {
        int best = -1;
        Rank of = {0};
        for (int r = 0; r < d->n_receives; r++) {
            if (!(left >> r & 1)) continue;
            Rank x = rank_of(d, again ? left : all, r, by_time);
            if (best < 0 || before(&x, &of)) best = r, of = x;
        }
        out[i] = best;
        left &= ~((uint64_t)1 << best);
    }
}

void rt_sim_order_tac(const RtSimDag *d, int *out) { order(d, true, true, out); }
void rt_sim_order_tic(const RtSimDag *d, int *out) { order(d, false, false, out); }
