/* A roofline (Williams, Waterman, Patterson, 2009; see cost.h). What streams past comes at the bandwidth of the level
   that holds all of it. Of rows that are read in no order, a cache that holds a share f of the table gives sqrt(f) of
   the
   reads: those of the most read rows, where the number of rows that are read k times falls as k^-3 (as in graphs that
   grow by preferential attachment: Barabasi, Albert, 1999). Nothing of the graph is looked at but its sizes. */
#include "runtime/cost.h"
#include "runtime/chain.h"
#include "runtime/cone.h"
#include <assert.h>
#include <math.h>

/* Estimates: the share of the multiply-add rate that a plain loop gets, a product, and one that is transposed or fused
   with others (where nothing is gathered and much is done with a byte); ns of a step's start, and of an element that a
   thread walks. */
static const double PLAIN = 0.25, PRODUCT = 0.8, PRODUCT_OTHER = 0.55, PRODUCT_FROM = 6, START_NS = 1500,
                    ELEMENT_NS = 0.4;

enum { LINE = 64 };

/* Bytes per ns of rows of so many bytes: between the probed 64 and 256. */
static double gather_rate(const RtMachine *m, double bytes, int level)
{
    double small = m->gather[RT_ROW_64][level], large = m->gather[RT_ROW_256][level];
    return small + (large - small) * fmin(fmax((bytes - 64) / (256 - 64), 0), 1);
}

/* ns of n rows of a table that are read in no order. */
static double gather_ns(const RtMachine *m, double n, double row, double table)
{
    double ns = 0, before = 0, lines = ceil(row / LINE) * LINE;
    for (int l = 0; l < RT_N_LEVELS; l++) {
        double held = l == RT_MEMORY ? 1 : sqrt(fmin(m->usable[l] / (table * lines), 1));
        if (held > before) ns += n * (held - before) * lines / gather_rate(m, lines, l), before = held;
    }
    return ns;
}

static double stream_ns(const RtMachine *m, double bytes)
{
    int level = RT_L1;
    while (level < RT_MEMORY && bytes > m->usable[level]) level++;
    return bytes / m->copy[level];
}

static double share_of_rate(const RtExec *e, const RtStep *s, double gathered, double streamed, double flops)
{
    if (s->kind == RT_STEP_PRODUCT) return e->model->products[s->part].transposed_a ? PRODUCT_OTHER : PRODUCT;
    return gathered == 0 && flops > PRODUCT_FROM * streamed ? PRODUCT_OTHER : PLAIN;
}

void rt_cost_step(const RtExec *e, int64_t step, const RtMachine *m, RtPrediction *p)
{
    assert(step >= 0 && step < e->program->n_steps);
    const RtExecStep *x = &e->steps[step];
    double share = e->cone ? e->cone->steps[step].share : 1, elements = 0, streamed = 0, flops = 0;
    *p = (RtPrediction){0};
    for (int64_t i = 0; i < x->def->n_cost; i++) {
        const RtCost *k = &e->model->costs[x->def->first_cost + i];
        double n = share * (double)rt_count_value(e->graph, &k->count, RT_OWNED);
        flops += n * (double)k->flops;
        if (k->table < 0) {
            streamed += n * (double)k->bytes;
            continue;
        }
        p->memory_ns += gather_ns(m, n, (double)k->bytes, (double)e->graph->spaces[k->table].count);
        elements = fmax(elements, n);
    }
    p->memory_ns += stream_ns(m, streamed);
    p->arithmetic_ns = flops / (m->flops * share_of_rate(e, x->def, elements, streamed, flops)) +
                       elements * ELEMENT_NS / (double)m->threads;
    int64_t n_chunks = x->chain ? x->chain->steps->n_chunks : x->n_chunks;
    double idle = n_chunks < m->threads ? (double)m->threads / (double)n_chunks : 1;
    p->ns = START_NS + idle * fmax(p->memory_ns, p->arithmetic_ns);
}
