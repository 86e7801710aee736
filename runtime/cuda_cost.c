/* A roofline with five roofs (see cuda_cost.h; Williams, Waterman, Patterson, 2009, has two): bytes of memory, bytes of
   the second cache, lines of the first ones, instructions of warps, and the team that takes longest, whose
   instructions wait for one another. */
#include "runtime/cuda_cost.h"
#include <assert.h>
#include <math.h>

enum { SECTOR = 32, LINE = 128, WARP = 32, WORD = 4, LOADED = 16 /* bytes that a lane loads at once */ };
/* Estimates: the share of the last cache that tables fill, and instructions in the time of a load from the first cache;
   of a plan, instructions for each operation of the model's formula and for each load, loads for each instruction, and
   what is issued once more because the halves of a warp part. */
static const double USABLE = 0.6, NEAR = 10, OVERHEAD = 1.5, PER_LOAD = 4, REREAD = 0.1, PARTED = 1.3;

/* ---- what a step asks for ---- */

RtCudaWork rt_cuda_work_counted(const RtCudaCounts *c)
{
    return (RtCudaWork){.launches = (double)c->launches,
                        .memory_bytes = (double)c->distinct_sectors * SECTOR,
                        .cache_bytes = (double)c->block_sectors * SECTOR,
                        .lines = (double)(c->lines + c->wavefronts),
                        .issued = (double)c->issued,
                        .longest = (double)c->longest,
                        .longest_loads = (double)c->longest_requests,
                        .longest_misses = (double)c->longest_misses};
}

static double ceil_to(double bytes, double unit) { return ceil(bytes / unit) * unit; }

/* The longest row that one team computes over the mean of all, and whether any is longer (*split). 1: no rows. */
static double longest_row(const RtExec *e, const RtCall *call, bool *split)
{
    const RtMapDef *map = call->cut >= 0 ? &e->model->maps[call->cut] : NULL;
    const int64_t *rows = map ? e->graph->maps[call->cut].rows : NULL;
    int64_t n = rows ? e->graph->spaces[map->to].count : 0, most = 0;
    for (int64_t v = 0; v < n; v++)
        if (rows[v + 1] - rows[v] > most) most = rows[v + 1] - rows[v];
    *split = call->split >= 0 && most > RT_CUDA_LONG;
    if (*split) most = RT_CUDA_LONG;
    return n && rows[n] > rows[0] ? fmax((double)most * (double)n / (double)(rows[n] - rows[0]), 1) : 1;
}

RtCudaWork rt_cuda_work_planned(const RtExec *e, int64_t step)
{
    assert(step >= 0 && step < e->program->n_steps);
    const RtExecStep *x = &e->steps[step];
    RtCudaWork w = {.launches = x->extent > 0};
    const RtDeviceKernel *k = &e->model->device_kernels[x->call->kernel];
    double flops = 0, streamed = 0, loads = 0, lanes = (double)k->lanes, widest = LOADED * lanes;
    for (int64_t i = 0; i < x->def->n_cost; i++) {
        const RtCost *cost = &e->model->costs[x->def->first_cost + i];
        double n = (double)rt_count_value(e->graph, &cost->count, RT_OWNED), bytes = (double)cost->bytes;
        flops += n * (double)cost->flops;
        if (cost->table < 0) {
            streamed += n * bytes;
            continue;
        }
        w.memory_bytes += fmin(n, (double)e->graph->spaces[cost->table].count) * bytes;
        w.cache_bytes += n * ceil_to(bytes, SECTOR);
        w.lines += n * ceil(bytes / LINE);
        loads += n * (1 + ceil(bytes / widest)); /* with its index */
        lanes = fmin(lanes, fmax(bytes / WORD, 1));
    }
    w.memory_bytes += streamed, w.cache_bytes += streamed, w.lines += streamed / LINE;
    loads += streamed / widest;
    bool split;
    double skew = longest_row(e, x->call, &split), instructions = flops / lanes * OVERHEAD + loads * PER_LOAD;
    double teams = k->binding == RT_BIND_NONE
                       ? 1
                       : (double)x->extent * (k->binding == RT_BIND_BLOCK ? (double)(k->warps * k->parts) : 1);
    w.issued = instructions * (double)k->lanes / WARP * PARTED;
    w.longest = instructions / fmax(teams, 1) * skew;
    w.longest_misses = loads / fmax(teams, 1) * skew;
    w.longest_loads = w.longest_misses + w.longest * REREAD;
    if (split) w.launches += 1 + (double)e->model->splits[x->call->split].walks;
    return w;
}

/* ---- how long that takes ---- */

RtCudaPrediction rt_cuda_predict(const RtDeviceRates *r, const RtCudaWork *w)
{
    double held = w->memory_bytes > 0 ? fmin(USABLE * r->last_bytes / w->memory_bytes, 1) : 1;
    double again = (1 - held) * fmax(w->cache_bytes - w->memory_bytes, 0);
    const struct {
        const char *name;
        double ns;
    } roofs[] = {{"memory", (w->memory_bytes + again) / r->dram_bytes},
                 {"cache", w->cache_bytes / r->cache_bytes},
                 {"lines", w->lines / r->line_loads},
                 {"issue", w->issued / r->issues},
                 {"path", (w->longest + NEAR * w->longest_loads) * r->step_ns + w->longest_misses * r->load_ns}};
    RtCudaPrediction p = {.bound = "launch"};
    double launch = w->launches * r->kernel_ns;
    for (size_t i = 0; i < sizeof roofs / sizeof *roofs; i++) {
        if (roofs[i].ns <= p.ns) continue;
        p.ns = roofs[i].ns;
        if (p.ns > launch) p.bound = roofs[i].name;
    }
    p.ns += launch;
    return p;
}
