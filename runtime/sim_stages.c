/* Gathers and sums of all ranks as tables of stages (see sim.h). A ring inside groups is the one form of all but
   `flat`: over all ranks it is `ring`, over the groups of one level after the other `staged`.

     4 ranks in 2 groups of 2, a vector of 4 pieces        0      1      2      3
     sums: inside groups, each takes in its half         0 2    1 3    0 2    1 3
           between groups, its piece of the half           0      1      2      3
     gathers: between groups                             0 2    1 3    0 2    1 3
           inside groups                               0 1 2 3  ...

   A rank's pieces are those that have its digit in every dimension that was done, and any digit in the others, where
   digits are those of the rank's number. */
#include "runtime/sim.h"
#include <assert.h>
#include <stdlib.h>

const char *const rt_sim_shapes[RT_SIM_N_SHAPES] = {"flat", "ring", "staged"};
static const char what[] = "a table of stages";

/* Rings of ranks: `size` ranks whose numbers are `stride` apart. */
typedef struct Dim {
    int size, stride;
} Dim;
typedef struct Dims {
    Dim d[RT_SIM_LEVELS];
    int n, ranks;
} Dims;

static RtCode find_dims(const RtSimTopology *t, int n, RtSimShape shape, Dims *x, RtStatus *st)
{
    *x = (Dims){.ranks = n};
    if (shape == RT_SIM_RING) x->d[x->n++] = (Dim){n, 1};
    if (shape != RT_SIM_STAGED) return RT_OK;
    int64_t inner = 1;
    for (int j = 0; j < t->n_levels && inner < n; j++) {
        int64_t group = t->levels[j].ranks < n && j < t->n_levels - 1 ? t->levels[j].ranks : n;
        if (n % group)
            return rt_fail(st, RT_E_SIM_TOPOLOGY, t->levels[j].name, "take a number of parts that groups divide",
                           "%d ranks are not groups of %lld", n, (long long)group);
        x->d[x->n++] = (Dim){(int)(group / inner), (int)inner};
        inner = group;
    }
    return RT_OK;
}

static void add_stage(RtSimStages *s) { s->bounds[s->n_stages + 1] = s->bounds[s->n_stages], s->n_stages++; }

static void add_send(RtSimStages *s, RtSimSend send)
{
    assert(send.count >= 0 && send.from != send.to);
    s->sends[s->bounds[s->n_stages]++] = send;
}

/* One turn around the rings of a dimension: each rank sends the next one the pieces that have the digit which it got in
   the turn before, `ahead` behind its own. */
static void add_turn(RtSimStages *s, const Dims *x, Dim d, int ahead, bool adds)
{
    add_stage(s);
    for (int r = 0; r < x->ranks; r++) {
        int digit = r / d.stride % d.size, step = d.stride * d.size;
        int sent = (digit + 2 * d.size - ahead) % d.size, next = (digit + 1) % d.size;
        add_send(s, (RtSimSend){.from = r,
                                .to = r + (next - digit) * d.stride,
                                .first = r % d.stride + sent * d.stride,
                                .step = step,
                                .count = x->ranks / step,
                                .adds = adds});
    }
}

/* One stage in which each rank sends every other one its own piece; where the receiver adds, the piece that the
   receiver sums. */
static void fill_flat(RtSimStages *s, int n, bool adds)
{
    add_stage(s);
    for (int r = 0; r < n; r++)
        for (int i = 1; i < n; i++) {
            int to = (r + i) % n;
            add_send(s, (RtSimSend){r, to, adds ? to : r, 1, 1, adds});
        }
}

RtCode rt_sim_stages_make(const RtSimTopology *t, int n, RtSimShape shape, bool gather, RtSimStages *s, RtStatus *st)
{
    Dims x;
    int64_t stages = 0, sends = 0;
    *s = (RtSimStages){0};
    RT_TRY(find_dims(t, n, shape, &x, st));
    for (int j = 0; j < x.n; j++) stages += x.d[j].size - 1;
    if (shape == RT_SIM_FLAT) stages = 1;
    if (!gather) stages *= 2;
    sends = rt_size(n, shape == RT_SIM_FLAT ? stages * (n - 1) : stages);
    RT_TRY(rt_block_alloc(&s->block, rt_size_plus(rt_size(stages + 1, 8), sends, sizeof *s->sends), what, st));
    s->bounds = s->block.p;
    s->sends = (RtSimSend *)(void *)(s->bounds + stages + 1);
    if (shape == RT_SIM_FLAT) {
        if (!gather) fill_flat(s, n, true);
        fill_flat(s, n, false);
        return RT_OK;
    }
    for (int j = 0; j < x.n && !gather; j++)
        for (int i = 1; i < x.d[j].size; i++) add_turn(s, &x, x.d[j], i, true);
    for (int j = x.n; j-- > 0;)
        for (int i = 0; i < x.d[j].size - 1; i++) add_turn(s, &x, x.d[j], i, false);
    assert(s->n_stages == stages);
    return RT_OK;
}

void rt_sim_stages_free(RtSimStages *s)
{
    if (!s) return;
    rt_block_free(&s->block);
    *s = (RtSimStages){0};
}

RtCode rt_sim_stages_run(RtSimLinks *l, const RtSimStages *s, const double *piece_bytes, double *at, RtStatus *st)
{
    RtBlock block;
    int64_t most = 0;
    for (int i = 0; i < s->n_stages; i++)
        if (s->bounds[i + 1] - s->bounds[i] > most) most = s->bounds[i + 1] - s->bounds[i];
    RT_TRY(rt_block_alloc(&block, rt_size_plus(rt_size(l->n, sizeof(double)), most, sizeof(RtSimMessage)), what, st));
    double *finish = block.p;
    RtSimMessage *m = (RtSimMessage *)(void *)(finish + l->n);
    for (int i = 0; i < s->n_stages; i++) {
        int64_t n = 0;
        for (int64_t k = s->bounds[i]; k < s->bounds[i + 1]; k++) {
            const RtSimSend *x = &s->sends[k];
            m[n] = (RtSimMessage){x->from, x->to, 0};
            for (int c = 0; c < x->count; c++) m[n].bytes += piece_bytes[x->first + c * x->step];
            n++;
        }
        rt_sim_exchange(l, m, n, false, at, finish);
        for (int q = 0; q < l->n; q++) at[q] = finish[q];
    }
    rt_block_free(&block);
    return RT_OK;
}
