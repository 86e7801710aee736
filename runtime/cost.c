/* The traffic model (see cost.h). Times of levels add up, as hits of different levels hide behind each other only in
   part. Three things take a step's time: bytes, instructions, and waiting. A wait is the latency of what an element
   gathers over the elements that are under way at once: those asked for ahead, or those that the core's window of
   instructions holds. What is asked for so far ahead that the first cache cannot hold it until its turn comes is
   fetched again from the second. Waiting adds to instructions, as a core that waits runs out of them; bytes overlap
   with both. */
#include "runtime/cost.h"
#include "runtime/reuse.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Estimates, fitted on graphs of ten kinds (bench/scheduler.py --tuned). Rates: the share of the multiply-add rate that
   a plain loop gets, a dense product, a transposed or fused one, and the operations per byte that tell it. Times, ns: a
   step's start, an element of a walk, a row (its end is not foreseen), asking ahead for an element and for each of its
   lines. */
static const double PLAIN = 0.25, PRODUCT = 0.8, PRODUCT_OTHER = 0.55, PRODUCT_FROM = 6, START_NS = 1500;
static const double ELEMENT_NS = 0.2, ROW_NS = 1, ASK_NS = 0.2, ASK_LINE_NS = 0.02;
/* Instructions: what the window holds where rows end unforeseen; of an element, for each of its lines, for each 16
   operations; of asking ahead. What the second cache gives is never waited for. */
static const double WINDOW = 150, OF_ELEMENT = 6, OF_LINE = 2, OF_VECTOR = 1.2, OF_ASKING = 7;
/* Reads that have to be in order for the hardware to see a stream, and what it then fetches too late (a stream ends
   with its page). The share of the first cache that what is asked for may take, and of the second's latency, what a
   line fetched twice costs. How waits and instructions, and both and bytes overlap (1: not, more: better). */
static const double IN_A_ROW = 8, MISSED = 0.03, ROOM = 0.7, TWICE = 0.04, OVERLAP_WAIT = 1.2, OVERLAP = 2.5;
/* bytes and operations that a core gets done in a ns, to tell rows' work from elements' */
static const double WORK_BYTES = 25, WORK_FLOPS = 60;

enum { LINE = 64 };

struct RtCostModel {
    const RtGraph *g;
    const RtMachine *machine;
    RtReuse **reuse; /* [n_maps][n_maps + 2] by map and order: as stored, by the list of each map, or the list itself */
};

RtCode rt_cost_create(const RtGraph *g, const RtMachine *machine, RtCostModel **out, RtStatus *st)
{
    *out = NULL;
    RtCostModel *c;
    RT_TRY(rt_alloc(&c, 1, sizeof *c, "the cost model", st));
    *c = (RtCostModel){g, machine, NULL};
    RtCode code = rt_alloc(&c->reuse, g->model->n_maps * (g->model->n_maps + 2), sizeof *c->reuse, "the cost model",
                           st);
    if (code) free(c);
    else *out = c;
    return code;
}

void rt_cost_free(RtCostModel *c)
{
    if (!c) return;
    int64_t n = c->g->model->n_maps;
    for (int64_t i = 0; i < n * (n + 2); i++) free(c->reuse[i]);
    free(c->reuse);
    free(c);
}

/* ---- reuse ------------------------------------------------------------------------------------------------------ */

enum { AS_STORED = 0, LISTED = -1 };

/* The reads of a map's images in an order: AS_STORED, or 1 + the map whose list is walked. LISTED: the reads of the elements that the map's own list names. */
static RtTrace trace_of(const RtGraph *g, int64_t map, int64_t order)
{
    const RtMapDef *def = &g->model->maps[map];
    const RtMapData *m = &g->maps[map];
    int64_t n = g->spaces[def->from].count;
    if (order == LISTED) return (RtTrace){.list = m->list, .n = n, .n_rows = n};
    return (RtTrace){m->to, order == AS_STORED ? NULL : g->maps[order - 1].list, n, g->spaces[def->to].count};
}

static RtCode reuse_of(RtCostModel *c, int64_t map, int64_t order, const RtReuse **out, RtStatus *st)
{
    int64_t n = c->g->model->n_maps;
    assert(map >= 0 && map < n && order >= LISTED && order <= n);
    RtReuse **at = &c->reuse[map * (n + 2) + (order == LISTED ? n + 1 : order)];
    if (!*at) {
        RtReuse *r;
        RT_TRY(rt_alloc(&r, 1, sizeof *r, "the cost model", st));
        RtTrace t = trace_of(c->g, map, order);
        RtCode code = t.to || t.list ? rt_reuse_measure(&t, r, st) : RT_OK;
        if (code) {
            free(r);
            return code;
        }
        *at = r;
    }
    *out = *at;
    return RT_OK;
}

RtCode rt_cost_misses(RtCostModel *c, int64_t map, double bytes, double capacity, double *misses, RtStatus *st)
{
    const RtReuse *r;
    double in_line;
    RT_TRY(reuse_of(c, map, AS_STORED, &r, st));
    *misses = rt_reuse_misses(r, capacity / bytes, &in_line);
    return RT_OK;
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

typedef struct Load {             /* what a step asks of the machine */
    double elements, rows, lines; /* elements that gather, the rows they are reduced to, lines asked for at each */
    double latency;               /* ns until what an element gathers is there, as a rule, beyond the second cache's */
    double foreseen[RT_N_LEVELS]; /* bytes gathered nearly in order */
    double streamed;              /* bytes */
} Load;

static int distance_index(int64_t ahead)
{
    int i = 0;
    assert(ahead >= 0);
    while (i + 1 < RT_N_DISTANCES && rt_distances[i + 1] <= ahead) i++;
    return i;
}

/* Bytes per ns of gathers from a level, by what an element gathers in all: between the probed 64 and 256 bytes. What is
   near is read at the rate of long rows: of short ones the probe counts instructions. */
static double gather_rate(const RtMachine *m, double bytes, int level, int64_t ahead)
{
    int d = distance_index(ahead);
    double small = m->gather[RT_ROW_64][level][d], large = m->gather[RT_ROW_256][level][d];
    double at = level <= RT_L2 ? 1 : (bytes - 64) / (256 - 64);
    return at <= 0 ? small : at >= 1 ? large : small + (large - small) * at;
}

/* The map whose rows the step walks, or -1. */
static int64_t cut_of(const RtGraph *g, const RtStep *s)
{
    const RtCall *c = rt_step_call(g->model, s);
    return c ? c->cut : -1;
}

/* The order in which a step reads the images of a map. */
static int64_t order_of(const RtGraph *g, const RtStep *s, const RtCost *k)
{
    const RtMapDef *maps = g->model->maps;
    if (k->table != maps[k->map].to) return LISTED;
    int64_t cut = cut_of(g, s);
    if (cut < 0 || maps[cut].sorted || !g->maps[cut].list || maps[cut].from != maps[k->map].from) return AS_STORED;
    return 1 + cut;
}

/* Reads of whole lines that come from each level, and those that the hardware foresees. */
static RtCode gather(RtCostModel *c, const RtStep *s, const RtCost *k, double n, Load *load, RtPrediction *p,
                     RtStatus *st)
{
    const RtMachine *m = c->machine;
    const RtReuse *r;
    assert(n > 0 && k->table >= 0);
    double row = ceil((double)k->bytes / LINE) * LINE, table = row * (double)c->g->spaces[k->table].count;
    double miss[RT_N_LEVELS] = {0}, in_line[RT_N_LEVELS] = {0}, latency = 0;
    RT_TRY(reuse_of(c, k->map, order_of(c->g, s, k), &r, st));
    for (int l = RT_L1; l <= RT_L3; l++) {
        if (table <= m->usable[l]) continue; /* an earlier step left it there */
        miss[l] = rt_reuse_misses(r, m->usable[l] / row, &in_line[l]);
    }
    for (int l = 0; l < RT_N_LEVELS; l++) {
        double hits = fmax((l ? miss[l - 1] : n) - miss[l], 0), near = l ? fmax(in_line[l - 1] - in_line[l], 0) : 0;
        double foreseen = hits > 0 ? (1 - MISSED) * pow(fmin(near / hits, 1), IN_A_ROW) * hits : 0;
        p->bytes[l] += (hits - foreseen) * row;
        load->foreseen[l] += foreseen * row;
        latency += (hits - foreseen) * fmax(m->latency[l] - m->latency[RT_L2], 0) / n;
    }
    if (n > load->elements) load->elements = n;
    if (latency > load->latency) load->latency = latency;
    load->lines += row / LINE;
    return RT_OK;
}

static double together(double a, double b, double overlap)
{
    return pow(pow(a, overlap) + pow(b, overlap), 1 / overlap);
}

/* The share of the multiply-add rate. Where nothing is gathered and much is done with a byte, products are fused. */
static double rate_of(const RtModel *model, const RtStep *s, const Load *load, double flops)
{
    bool alone = s->kind == RT_STEP_PRODUCT,
         product = alone || (load->elements == 0 && flops > PRODUCT_FROM * load->streamed);
    return !product ? PLAIN : alone && !model->products[s->part].transposed_a ? PRODUCT : PRODUCT_OTHER;
}

/* ns that lines asked for too far ahead cost each thread. */
static double fetched_twice(const RtMachine *m, int64_t ahead, const Load *load, double elements)
{
    double asked = (double)ahead * load->lines * LINE, room = ROOM * m->usable[RT_L1];
    return asked > room ? TWICE * m->latency[RT_L2] * (1 - room / asked) * elements * load->lines : 0;
}

/* Instructions, and what waits for memory where neither prefetches nor the window of the core reach far enough
   ahead. */
static void finish(const RtCostModel *c, const RtStep *s, int64_t ahead, const Load *load, double flops,
                   RtPrediction *p)
{
    const RtMachine *m = c->machine;
    double elements = load->elements / (double)m->threads, rows = load->rows / (double)m->threads;
    double asked = ahead ? ASK_NS + ASK_LINE_NS * load->lines : 0;
    p->arithmetic_ns = flops / (m->flops * rate_of(c->g->model, s, load, flops)) + elements * (ELEMENT_NS + asked) +
                       rows * ROW_NS + fetched_twice(m, ahead, load, elements);
    if (load->elements > 0) {
        double instructions = OF_ELEMENT + OF_LINE * load->lines + OF_VECTOR * flops / load->elements / 16;
        if (ahead) instructions += OF_ASKING + load->lines;
        p->latency_ns = elements * load->latency / fmax(fmax((double)ahead, WINDOW / instructions), 1);
    }
    p->ns = START_NS + together(p->memory_ns, together(p->arithmetic_ns, p->latency_ns, OVERLAP_WAIT), OVERLAP);
}

/* Bytes that stream, and the share of a step's work that follows its rows, not its elements. */
static double stream(const RtCostModel *c, const RtStep *s, const Load *load, RtPrediction *p)
{
    double bytes = 0, of_rows = load->rows * ROW_NS, all = of_rows;
    int64_t cut = cut_of(c->g, s), elements = cut < 0 ? -1 : c->g->model->maps[cut].from;
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *k = &c->g->model->costs[s->first_cost + i];
        double n = (double)rt_count_value(c->g, &k->count, RT_OWNED);
        double ns = n * ((double)k->bytes / WORK_BYTES + (double)k->flops / WORK_FLOPS);
        bool by_element = k->count.kind == RT_COUNT_SPACE && k->count.space == elements;
        if (k->map < 0) bytes += n * (double)k->bytes;
        of_rows += by_element ? 0 : ns;
        all += ns + (by_element && k->map < 0 ? n * ELEMENT_NS : 0);
    }
    p->row_share = all > 0 ? of_rows / all : 1;
    return bytes;
}

RtCode rt_cost_step(RtCostModel *c, const RtStep *s, int64_t ahead, RtPrediction *p, RtStatus *st)
{
    const RtMachine *m = c->machine;
    double flops = 0;
    Load load = {0};
    *p = (RtPrediction){0};
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *k = &c->g->model->costs[s->first_cost + i];
        double n = (double)rt_count_value(c->g, &k->count, RT_OWNED);
        flops += n * (double)k->flops;
        if (k->map >= 0 && n > 0) RT_TRY(gather(c, s, k, n, &load, p, st));
    }
    for (int l = 0; l < RT_N_LEVELS; l++) {
        p->memory_ns += p->bytes[l] / gather_rate(m, load.lines * LINE, l, ahead) + load.foreseen[l] / m->copy[l];
        p->bytes[l] += load.foreseen[l];
    }
    int64_t cut = cut_of(c->g, s);
    if (cut >= 0) load.rows = (double)rt_rows(c->g, c->g->model->maps[cut].to, RT_OWNED);
    load.streamed = stream(c, s, &load, p);
    int level = RT_L1;
    while (level < RT_MEMORY && load.streamed > m->usable[level]) level++;
    p->bytes[level] += load.streamed;
    p->memory_ns += load.streamed / m->copy[level];
    finish(c, s, ahead, &load, flops, p);
    return RT_OK;
}
