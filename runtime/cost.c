/* The traffic model (see cost.h). Times of levels add up, as hits of different levels hide behind each other only in
   part; memory and arithmetic overlap but for a part of the smaller. What the
   figures of the machine do not say (below) is estimated. */
#include "runtime/cost.h"
#include <math.h>
#include <stdlib.h>

/* Estimates: of a cache, what is left for rows beside streams and conflicts; share of the smaller of memory and arithmetic that
   shows; what a plain loop gets of the multiply-add rate, a dense product does; a step's start, ns */
static const double KEPT = 0.6, OVERLAP = 0.3, PLAIN = 0.3, PRODUCT = 0.8, START_NS = 1500;

enum { EXACT = 16, PER_OCTAVE = 8, N_BUCKETS = EXACT + PER_OCTAVE * 60, LINE = 64 };

typedef struct Degrees { /* of the rows that a map's elements read */
    bool known;
    double reads, rows; /* rows: read at least once */
    int n;
    double d[N_BUCKETS], count[N_BUCKETS]; /* mean reads of a bucket's rows; how many rows */
} Degrees;

struct RtCostModel {
    const RtGraph *g;
    const RtMachine *machine;
    Degrees *maps; /* [n_maps] */
};

RtCode rt_cost_create(const RtGraph *g, const RtMachine *machine, RtCostModel **out, RtStatus *st)
{
    *out = NULL;
    RtCostModel *c = calloc(1, sizeof *c);
    if (!c) return rt_fail_memory(st, sizeof *c, "the cost model");
    *c = (RtCostModel){g, machine, calloc((size_t)g->model->n_maps + 1, sizeof(Degrees))};
    if (!c->maps) {
        free(c);
        return rt_fail_memory(st, sizeof(Degrees) * (size_t)g->model->n_maps, "the cost model");
    }
    *out = c;
    return RT_OK;
}

void rt_cost_free(RtCostModel *c)
{
    if (!c) return;
    free(c->maps);
    free(c);
}

/* ---- degrees --------------------------------------------------------------------------------------------------- */

static int bucket_of(int64_t d)
{
    if (d < EXACT) return (int)d;
    return EXACT + (int)((log2((double)d) - 4) * PER_OCTAVE);
}

static void add_row(Degrees *h, int64_t d)
{
    if (!d) return;
    int b = bucket_of(d);
    h->count[b]++;
    h->d[b] += (double)d;
    h->rows++;
    h->reads += (double)d;
    if (b >= h->n) h->n = b + 1;
}

static RtCode count_reads(const RtCostModel *c, int64_t map, Degrees *h, RtStatus *st)
{
    const RtMapDef *def = &c->g->model->maps[map];
    const RtMapData *m = &c->g->maps[map];
    int64_t from = c->g->spaces[def->from].count, to = c->g->spaces[def->to].count;
    *h = (Degrees){.known = true};
    if (m->rows) {
        for (int64_t v = 0; v < to; v++) add_row(h, m->rows[v + 1] - m->rows[v]);
    } else if (m->to) {
        uint32_t *n = calloc((size_t)to + 1, sizeof *n);
        if (!n) return rt_fail_memory(st, (size_t)to * sizeof *n, "a histogram");
        for (int64_t e = 0; e < from; e++)
            if (m->to[e] >= 0) n[m->to[e]]++;
        for (int64_t v = 0; v < to; v++) add_row(h, n[v]);
        free(n);
    }
    for (int b = 0; b < h->n; b++)
        if (h->count[b] > 0) h->d[b] /= h->count[b];
    return RT_OK;
}

/* Expected distinct rows among a share x of all reads. */
static double distinct(const Degrees *h, double x)
{
    double u = 0;
    for (int b = 1; b < h->n; b++) u += h->count[b] * (1 - exp(-h->d[b] * x));
    return u;
}

static double misses_of(const Degrees *h, double rows)
{
    if (rows >= h->rows) return h->rows;
    double lo = 0, hi = 1;
    while (distinct(h, hi) < rows && hi < 64) hi *= 2;
    for (int i = 0; i < 40; i++) {
        double mid = (lo + hi) / 2;
        if (distinct(h, mid) < rows) lo = mid;
        else hi = mid;
    }
    double misses = 0, stay = lo < 1 ? 1 - lo : 0;
    for (int b = 1; b < h->n; b++) misses += h->count[b] * (1 + (h->d[b] - 1) * pow(stay, h->d[b]));
    return misses < h->reads ? misses : h->reads;
}

static RtCode degrees(RtCostModel *c, int64_t map, const Degrees **h, RtStatus *st)
{
    if (!c->maps[map].known) RT_TRY(count_reads(c, map, &c->maps[map], st));
    *h = &c->maps[map];
    return RT_OK;
}

RtCode rt_cost_misses(RtCostModel *c, int64_t map, double bytes, double capacity, double *misses, RtStatus *st)
{
    const Degrees *h;
    RT_TRY(degrees(c, map, &h, st));
    *misses = misses_of(h, KEPT * capacity / bytes);
    return RT_OK;
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

/* Bytes per ns of rows of `bytes` gathered from a level: between the probed 64 and 256, by size. */
static double gather_rate(const RtMachine *m, double bytes, int level, int ahead)
{
    double small = m->gather[RT_ROW_64][level][ahead], large = m->gather[RT_ROW_256][level][ahead];
    double at = (bytes - 64) / (256 - 64);
    return at <= 0 ? small : at >= 1 ? large : small + (large - small) * at;
}

/* n reads of whole lines from each level. A list names each of its rows once: what is beyond a cache always misses it. */
static RtCode gather(RtCostModel *c, const RtCost *k, double n, int ahead, RtPrediction *p, RtStatus *st)
{
    const RtMachine *m = c->machine;
    double row = ceil((double)k->bytes / LINE) * LINE, table = row * (double)c->g->spaces[k->table].count;
    double miss[RT_N_LEVELS] = {n, n, n, 0};
    bool listed = k->table != c->g->model->maps[k->map].to;
    for (int l = RT_L1; l <= RT_L3; l++) {
        if (listed) miss[l] = table <= KEPT * m->bytes[l] ? 0 : n * (1 - KEPT * m->bytes[l] / table);
        else RT_TRY(rt_cost_misses(c, k->map, row, m->bytes[l], &miss[l], st));
        if (!listed && table <= KEPT * m->bytes[l]) miss[l] = 0; /* an earlier step left it there */
        if (miss[l] > n) miss[l] = n;
    }
    for (int l = 0; l < RT_N_LEVELS; l++) {
        double hits = (l ? miss[l - 1] : n) - miss[l];
        if (hits <= 0) continue;
        p->bytes[l] += hits * row;
        p->memory_ns += hits * row / gather_rate(m, row, l, ahead);
    }
    return RT_OK;
}

RtCode rt_cost_step(RtCostModel *c, const RtStep *s, int ahead, RtPrediction *p, RtStatus *st)
{
    const RtMachine *m = c->machine;
    double streamed = 0, flops = 0;
    *p = (RtPrediction){0};
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *k = &c->g->model->costs[s->first_cost + i];
        double n = (double)rt_count_value(c->g, &k->count);
        flops += n * (double)k->flops;
        if (k->map < 0) streamed += n * (double)k->bytes;
        else if (n > 0) RT_TRY(gather(c, k, n, ahead, p, st));
    }
    int level = RT_L1;
    while (level < RT_MEMORY && streamed > KEPT * m->bytes[level]) level++;
    p->bytes[level] += streamed;
    p->memory_ns += streamed / m->copy[level];
    p->arithmetic_ns = flops / (m->flops * (s->gemm.present ? PRODUCT : PLAIN));
    double more = fmax(p->memory_ns, p->arithmetic_ns), less = fmin(p->memory_ns, p->arithmetic_ns);
    p->ns = START_NS + more + OVERLAP * less;
    return RT_OK;
}
