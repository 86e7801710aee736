/* `bench --ways`: every way to run each step of a program, measured in turn and beside its prediction: what the
   selector is judged by. Never chooses anything itself. */
#include "runtime/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Sweep {
    const RtSelector *selector;
    RtExec *e;
    RtChoice ways[RT_MAX_WAYS]; /* of steps that gather; the others know fewer */
    int n_ways;
    int64_t iters;
    double *times; /* [n_ways][n_steps][iters] ns */
} Sweep;

static void measure(Sweep *s, int64_t seed, double *once)
{
    int64_t n = s->e->program->n_steps;
    for (int64_t run = -1; run < s->iters; run++) /* the first warms up */
        for (int w = 0; w < s->n_ways; w++) {
            rt_exec_choose(s->e, &s->ways[w]);
            memset(once, 0, (size_t)n * sizeof *once);
            rt_exec_run_timed(s->e, seed, 0, once);
            for (int64_t i = 0; i < n && run >= 0; i++) s->times[(w * n + i) * s->iters + run] = once[i];
        }
}

static const double *measured(const Sweep *s, int64_t step, const RtChoice *x)
{
    for (int w = 0; w < s->n_ways; w++) {
        const RtChoice *y = &s->ways[w];
        if (x->ahead == y->ahead && x->chunks == y->chunks && x->cut == y->cut)
            return s->times + (w * s->e->program->n_steps + step) * s->iters;
    }
    return NULL;
}

static void print_way(const Sweep *s, int64_t step, const RtChoice *x, const char *before)
{
    const double *found = measured(s, step, x);
    RtPrediction p;
    double predicted = rt_select_predict(s->selector, s->e, step, x, &p);
    printf("%s{\"ahead\": %lld, \"chunks\": %lld, \"cut\": \"%s\", \"predicted_ms\": %.6f, \"memory_ms\": %.6f, "
           "\"arithmetic_ms\": %.6f, \"latency_ms\": %.6f, \"runs_ms\": [",
           before, (long long)x->ahead, (long long)x->chunks, x->cut == RT_CUT_ROWS ? "rows" : "elements",
           predicted * 1e-6, p.memory_ns * 1e-6, p.arithmetic_ns * 1e-6, p.latency_ns * 1e-6);
    for (int64_t run = 0; found && run < s->iters; run++) printf("%s%.6f", run ? ", " : "", found[run] * 1e-6);
    printf("]}");
}

static void print_step(const Sweep *s, int64_t i)
{
    const RtModel *m = s->e->model;
    RtChoice ways[RT_MAX_WAYS], pick = {0};
    int n = rt_select_ways(s->e, i, &(RtChoice){0}, ways);
    printf("%s\n    {\"name\": ", i ? "," : "");
    rt_cli_print_string(rt_string(m, m->steps[s->e->program->first_step + i].label));
    rt_select((void *)(uintptr_t)s->selector, s->e, i, &pick);
    print_way(s, i, &pick, ", \"pick\": ");
    print_way(s, i, &(RtChoice){0, RT_CHUNKS, RT_CUT_ELEMENTS}, ", \"plan\": ");
    for (int w = 0; w < n; w++) print_way(s, i, &ways[w], w ? ",\n     " : ", \"ways\": [\n     ");
    printf("]}");
}

RtCode rt_cli_ways(const RtSelector *selector, RtExec *e, int64_t iters, int64_t seed, RtStatus *st)
{
    int64_t n = e->program->n_steps;
    Sweep s = {.selector = selector, .e = e, .iters = iters};
    s.n_ways = rt_select_ways(e, -1, &(RtChoice){0}, s.ways);
    RT_TRY(rt_alloc(&s.times, rt_size(iters, n * s.n_ways), sizeof *s.times, "timings", st));
    double *once;
    RtCode code = rt_alloc(&once, n, sizeof *once, "timings", st);
    if (code) {
        free(s.times);
        return code;
    }
    measure(&s, seed, once);
    free(once);
    printf("{\"steps\": [");
    for (int64_t i = 0; i < e->program->n_steps; i++) print_step(&s, i);
    printf("]}");
    free(s.times);
    return RT_OK;
}
