/* How much of a step's work is a process's, by the step's own cost formula: what is simulated is scaled by it. */
#include "runtime/ranks_part.h"
#include <assert.h>

static const RtCost *cost_at(const RtExec *e, const RtStep *s, int64_t i)
{
    return &e->model->costs[s->first_cost + i];
}

static double bytes_of(const RtCost *c, int64_t n) { return (double)(c->bytes ? c->bytes : c->flops) * (double)n; }

double rt_exec_work(const RtExec *e, int64_t step)
{
    const RtStep *s = &e->model->steps[e->program->first_step + step];
    double work = 0;
    for (int64_t i = 0; i < s->n_cost; i++)
        work += bytes_of(cost_at(e, s, i), rt_count_value(e->graph, &cost_at(e, s, i)->count, RT_OWNED));
    return work;
}

double rt_ranks_work(const RtRanks *r, const RtExec *e, int64_t step)
{
    const RtStep *s = &e->model->steps[e->program->first_step + step];
    double work = 0;
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *c = cost_at(e, s, i);
        bool rows = c->count.kind == RT_COUNT_SPACE && r->spaces[c->count.space].shared;
        work += bytes_of(c, rows ? r->spaces[c->count.space].total : rt_count_value(e->graph, &c->count, RT_OWNED));
    }
    return work;
}

/* Rows of a space that the step walks: elements of the rows that it computes, where it sums these. */
static int64_t walked(const RtAcross *a, int64_t step, const RtCount *c)
{
    const RtStep *s = across_def(a, step);
    const RtModel *m = a->e->model;
    if (c->kind == RT_COUNT_SPACE && s->under >= 0 && m->maps[s->under].from == c->space && c->space != s->over) {
        const int64_t *rows = a->e->graph->maps[s->under].rows;
        if (rows) return rows[rt_rows(a->e->graph, m->maps[s->under].to, a->rows[step])];
    }
    return rt_count_value(a->e->graph, c, a->rows[step]);
}

static double share_of(const RtAcross *a, const RtDivided *d)
{
    const RtStep *s = across_def(a, d->step);
    int64_t space = s->work == RT_TOTALS ? s->over : a->e->model->maps[s->under].from;
    int64_t total = a->r->spaces[space].total;
    int64_t rows = d->own && s->work == RT_TOTALS ? a->r->spaces[space].owned : d->n_rows;
    assert(rows >= 0 && rows <= total);
    return total ? (double)rows / (double)total : 0;
}

double rt_across_work(const RtAcross *a, int64_t step)
{
    double work = 0;
    for (int64_t i = 0; i < a->n_divided; i++)
        if (a->divided[i].step == step) return share_of(a, &a->divided[i]) * rt_ranks_work(a->r, a->e, step);
    const RtStep *s = across_def(a, step);
    for (int64_t i = 0; i < s->n_cost; i++) {
        const RtCost *c = cost_at(a->e, s, i);
        work += bytes_of(c, walked(a, step, &c->count));
    }
    return work;
}
