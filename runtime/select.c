/* The choice by exhaustion (see select.h): distances x chunks per thread x ways to cut, some thirty of a step, each
   predicted as the cost model's time stretched by the fullest thread's share. */
#include "runtime/select.h"
#include <assert.h>
#include <stdlib.h>

static const int64_t chunk_counts[] = {1, RT_CHUNKS, 16};
enum { N_CHUNK_COUNTS = sizeof chunk_counts / sizeof *chunk_counts, MAX_THREADS = 256 };
/* taking a chunk; of a prediction, beside another of the same step */
static const double CHUNK_NS = 200, UNSURE = 1.15;

static bool is_ahead_arg(const RtExec *e, int64_t step, int64_t *planned)
{
    const RtCall *s = e->steps[step].call;
    for (int64_t k = 0; s && k < s->n_args; k++) {
        const RtStepArg *a = &e->model->step_args[s->first_arg + k];
        if (a->is_buffer || a->count.kind != RT_COUNT_AHEAD) continue;
        *planned = rt_count_value(e->graph, &a->count, RT_OWNED);
        return true;
    }
    return false;
}

/* The fullest thread's share of the work, times the number of threads: 1 is even. Threads take chunks as pool.c gives
   them, each when it is free. */
static double imbalance(const RtExec *e, const RtExecStep *x, const RtChoice *c, double row_share, int64_t *n_chunks)
{
    int threads = rt_pool_threads(e->options.pool);
    *n_chunks = rt_cut_count(x->extent, x->backend || !x->call ? 1 : x->call->grain, threads,
                             c->chunks ? c->chunks : RT_CHUNKS);
    if (threads > MAX_THREADS || *n_chunks < 2 || !x->extent) return *n_chunks < 2 ? threads : 1;
    int64_t *bounds;
    if (rt_alloc(&bounds, 2 * *n_chunks + 1, sizeof *bounds, "", NULL)) return 1;
    assert(*n_chunks >= 2 && x->extent > 0);
    int64_t *order = bounds + *n_chunks + 1;
    /* elements */
    double busy[MAX_THREADS] = {0}, most = 0, all = 0, n = (double)(rt_step_weight(x, x->extent) - x->extent);
    double of_row = (n > 0 ? row_share : 1) / (double)x->extent, of_element = n > 0 ? (1 - row_share) / n : 0;
    rt_cut(x->extent, c->cut == RT_CUT_ROWS ? NULL : rt_step_weight, x, *n_chunks, bounds);
    rt_cut_order(rt_step_weight, x, bounds, *n_chunks, order);
    for (int64_t i = *n_chunks; i-- > 0;) {
        int next = 0;
        for (int t = 1; t < threads; t++)
            if (busy[t] < busy[next]) next = t;
        int64_t from = bounds[order[i]], to = bounds[order[i] + 1];
        double elements = (double)(rt_step_weight(x, to) - rt_step_weight(x, from) - (to - from));
        double work = of_row * (double)(to - from) + of_element * elements;
        busy[next] += work;
        all += work;
    }
    for (int t = 0; t < threads; t++)
        if (busy[t] > most) most = busy[t];
    free(bounds);
    return all > 0 ? most * threads / all : 1;
}

double rt_select_predict(const RtSelector *s, const RtExec *e, int64_t step, const RtChoice *c, RtPrediction *p)
{
    const RtExecStep *x = &e->steps[step];
    int64_t planned = 0, n_chunks;
    if (!is_ahead_arg(e, step, &planned)) planned = 0;
    int64_t ahead = c->ahead > 0 ? c->ahead : c->ahead < 0 ? 0 : planned;
    if (rt_cost_step(s->cost, x->def, ahead, p, NULL)) return 0;
    double stretch = imbalance(e, x, c, p->row_share, &n_chunks);
    return p->ns * stretch + CHUNK_NS * (double)n_chunks / rt_pool_threads(e->options.pool);
}

/* Those that are probed, and what the plan says (0) where that is another. */
static int list_distances(int64_t planned, int64_t *out)
{
    int n = 0;
    bool known = false;
    for (int d = 0; d < RT_N_DISTANCES; d++) {
        known |= rt_distances[d] == planned;
        out[n++] = rt_distances[d] ? rt_distances[d] : -1;
    }
    if (!known || !planned) out[n++] = 0;
    return n;
}

int rt_select_ways(const RtExec *e, int64_t step, const RtChoice *said, RtChoice *out)
{
    int64_t planned = 0, n = 0;
    bool gathers = !said->ahead && (step < 0 || is_ahead_arg(e, step, &planned));
    int64_t distances[RT_N_DISTANCES + 1] = {said->ahead};
    int n_distances = gathers ? list_distances(planned, distances) : 1;
    for (int d = 0; d < n_distances; d++)
        for (int k = 0; k < (said->chunks ? 1 : N_CHUNK_COUNTS); k++)
            for (int64_t cut = RT_CUT_ROWS; cut <= RT_CUT_ELEMENTS; cut++) {
                if (said->cut && cut != said->cut) continue;
                out[n++] = (RtChoice){distances[d], said->chunks ? said->chunks : chunk_counts[k], cut};
            }
    assert(n <= RT_MAX_WAYS);
    return (int)n;
}

/* The plan's choice stands unless another one is predicted to be clearly faster, since predictions are not exact. */
void rt_select(void *user, const RtExec *e, int64_t step, RtChoice *c)
{
    const RtSelector *s = user;
    RtChoice ways[RT_MAX_WAYS];
    RtPrediction p;
    RtChoice base = {c->ahead, c->chunks ? c->chunks : RT_CHUNKS, c->cut ? c->cut : RT_CUT_ELEMENTS};
    double least = rt_select_predict(s, e, step, &base, &p) / UNSURE;
    int n = rt_select_ways(e, step, e->steps[step].split ? &(RtChoice){c->ahead, base.chunks, base.cut} : c, ways);
    *c = base;
    for (int i = 0; i < n; i++) {
        double ns = rt_select_predict(s, e, step, &ways[i], &p);
        if (ns >= least) continue;
        least = ns;
        *c = ways[i];
    }
}
