/* `bench`: times the forward function (infer), forward with its vector-Jacobian product (grad) and
   a training step, whole and step by step. Inputs the data set lacks, or has in another width, are
   drawn, and it says so. */
#include "runtime/cli.h"
#include "runtime/clock.h"
#include "runtime/cone.h"
#include "runtime/cuda_cost.h"
#include "runtime/json.h"
#include "runtime/random.h"
#include "runtime/setup.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Bench {
    RtCli *c;
    RtSession *s;
    int64_t iters, seed;
    bool json, first; /* first: nothing was printed yet */
    int64_t n_differ; /* steps, of --compare */
    RtBlock cotangents;
} Bench;

typedef struct Times {
    double *runs;  /* [iters] ns */
    double *steps; /* [n_steps] ns of all timed runs together */
    double *least; /* [n_steps] ns of the quickest run of each */
    double *once;  /* [n_steps] ns of one run */
    double min_ms, median_ms;
    int64_t grown, peak;  /* bytes: of a run alone; and with cotangents, parameters and optimiser state */
    RtCudaCounts *counts; /* [n_steps] with --count; else NULL */
} Times;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* A cotangent for every float result of `forward`: numbers in [-1, 1). */
static RtCode draw_cotangents(Bench *b, RtExec *e)
{
    const RtModel *m = b->c->model;
    int64_t forward = rt_program_find(m, "forward"), total = 0;
    for (int64_t i = 0; i < e->n_cotangents; i++) {
        const RtResultDef *r = &m->results[m->programs[forward].first_result + i];
        total = rt_size_plus(total, rt_size(e->graph->spaces[r->space].count, r->width), rt_dtype_bytes(r->dtype));
        total = rt_size_plus(total, 2, 64);
    }
    rt_block_free(&b->cotangents);
    RT_TRY(rt_block_alloc(&b->cotangents, total, "cotangents", b->c->st));
    char *at = b->cotangents.p;
    for (int64_t i = 0; i < e->n_cotangents; i++) {
        const RtResultDef *r = &m->results[m->programs[forward].first_result + i];
        int64_t n = e->graph->spaces[r->space].count * r->width;
        for (int64_t k = 0; k < n; k++) {
            double v = 2 * rt_random_uniform((uint64_t)b->seed, (uint64_t)i, RT_SITE_DRAW, (uint64_t)k, 0) - 1;
            if (r->dtype == RT_F64) ((double *)(void *)at)[k] = v;
            else if (r->dtype == RT_F32) ((float *)(void *)at)[k] = (float)v;
        }
        e->cotangents[i] = at;
        at += (n * rt_dtype_bytes(r->dtype) + 127) / 64 * 64;
    }
    return RT_OK;
}

static RtCode bind_program(Bench *b, int64_t program, RtExec **e)
{
    RtTensors *t = &b->s->data.tensors;
    RT_TRY(rt_exec_create(b->c->model, program, b->s->data.graph, &b->s->exec, e, b->c->st));
    for (int64_t i = 0; i < b->c->model->n_tensors; i++) (*e)->tensors[i] = t->data[i];
    RT_TRY(rt_exec_own_results(*e, b->c->st));
    if ((*e)->n_cotangents) RT_TRY(draw_cotangents(b, *e));
    RT_TRY(rt_exec_bind(*e, b->c->st));
    return rt_cuda_push(b->s->device, t->data, b->c->st);
}

static void time_steps(Bench *b, RtExec *e, Times *t, int64_t run)
{
    int64_t n = e->program->n_steps;
    memset(t->once, 0, (size_t)n * sizeof *t->once);
    rt_exec_run_timed(e, b->seed, run, t->once);
    for (int64_t i = 0; i < n; i++) {
        t->steps[i] += t->once[i];
        if (!run || t->once[i] < t->least[i]) t->least[i] = t->once[i];
    }
}

/* Whole runs are timed without step timers; the steps in runs of their own. */
static void take_times(Bench *b, RtExec *e, Times *t)
{
    int64_t n_warm = b->iters >= 3 ? 3 : e->options.device ? 2 : 1; /* a device captures the second */
    for (int64_t i = 0; i < n_warm; i++) rt_exec_run(e, b->seed, i);
    rt_cuda_wait(e->options.device);
    for (int64_t i = 0; i < b->iters; i++) {
        double before = rt_now_ns();
        rt_exec_run(e, b->seed, i);
        rt_cuda_wait(e->options.device);
        t->runs[i] = rt_now_ns() - before;
    }
    for (int64_t i = 0; i < b->iters; i++) time_steps(b, e, t, i);
    qsort(t->runs, (size_t)b->iters, sizeof *t->runs, by_value);
    t->min_ms = t->runs[0] * 1e-6;
    t->median_ms = t->runs[b->iters / 2] * 1e-6;
}

/* Runs the program once, step by step, and counts; the times are those of the shim and say nothing of a GPU. */
static void take_counts(const Bench *b, RtExec *e, Times *t)
{
    e->seed = b->seed, e->step = 0;
    double begun = rt_now_ns();
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        double before = rt_now_ns();
        rt_cuda_count_step(e, i, &t->counts[i]);
        t->steps[i] = t->least[i] = rt_now_ns() - before;
    }
    t->runs[0] = rt_now_ns() - begun;
    t->min_ms = t->median_ms = t->runs[0] * 1e-6;
}

/* Parameters, state and hypers. */
static int64_t trained_bytes(const RtTensors *t)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < t->model->n_tensors; i++)
        if (t->model->tensors[i].kind != RT_INPUT && t->model->tensors[i].kind != RT_HELD)
            bytes += t->counts[i] * rt_dtype_bytes(t->model->tensors[i].dtype);
    return bytes;
}

/* Of n steps from the i-th on: those of a chain are timed together, with the first. */
static void add_costs(const RtExec *e, int64_t i, int64_t n, double *bytes, double *flops)
{
    for (; n > 0; n--, i++) {
        double more[2];
        rt_step_cost(e, i, &more[0], &more[1]);
        *bytes += more[0];
        *flops += more[1];
    }
}

/* The chain that a step runs in, or NULL: on a device each runs alone. */
static const RtChainDef *chain_of(const RtExec *e, int64_t step)
{
    return e->options.device ? NULL : rt_step_chain(e, step);
}

/* Of a step on a device: the time that a GPU should take, from counts where there are some, and these. */
static void print_device(const Bench *b, const RtExec *e, int64_t step, const RtCudaCounts *c)
{
    RtCudaWork w = c ? rt_cuda_work_counted(c) : rt_cuda_work_planned(e, step);
    RtCudaPrediction p = rt_cuda_predict(e->model->device_rates, &w);
    double idle = c && c->lanes ? (double)c->idle / (double)c->lanes : 0;
    if (b->json) printf(", \"predicted_ms\": %.6f, \"bound\": \"%s\"", p.ns * 1e-6, p.bound);
    if (c && b->json) {
        printf(", \"idle_lanes\": %.6f", idle);
#define CUDA_COUNT(name, what) printf(", \"" #name "\": %lld", (long long)c->name);
#include "runtime/cuda_counts.def"
#undef CUDA_COUNT
    } else if (c) {
        printf("      predicted %.4f ms by %s; %lld sectors, %.3f of the least; %.1f %% of lanes idle; %lld conflicts, "
               "at most "
               "%lld ways\n",
               p.ns * 1e-6, p.bound, (long long)c->sectors,
               c->least_sectors ? (double)c->sectors / (double)c->least_sectors : 1, 100 * idle,
               (long long)c->conflicts, (long long)c->most_ways);
        if (c->bus_sectors) printf("      %lld sectors over the bus\n", (long long)c->bus_sectors);
    }
}

static void print_json(Bench *b, const char *name, const RtExec *e, const Times *t)
{
    printf("%s\n  \"%s\": {\"min_ms\": %.6f, \"median_ms\": %.6f, \"peak_bytes\": %lld, "
           "\"grown_bytes\": %lld, \"arena_bytes\": %lld, ",
           b->first ? "" : ",", name, t->min_ms, t->median_ms, (long long)t->peak, (long long)t->grown,
           (long long)e->arena_bytes);
    rt_cli_print_savings(e, true);
    printf(", \"kernels\": [");
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtStep *s = e->steps[i].def;
        const RtChainDef *chain = chain_of(e, i);
        bool follows = chain && chain->first < i;
        double bytes = 0, flops = 0, ms = t->steps[i] / (double)b->iters * 1e-6;
        add_costs(e, i, follows ? 0 : chain ? chain->n : 1, &bytes, &flops);
        printf("%s\n    {\"name\": ", i ? "," : "");
        rt_json_put_string(stdout, rt_string(e->model, s->label));
        printf(", \"file\": ");
        rt_json_put_string(stdout, rt_string(e->model, s->file));
        printf(", \"line\": %lld, \"ms\": %.6f, \"least_ms\": %.6f, \"bytes\": %.0f, "
               "\"flops\": %.0f, \"chunks\": %lld, \"by\": \"%s\"",
               (long long)s->line, ms, t->least[i] * 1e-6, bytes, flops, (long long)e->steps[i].n_chunks,
               follows                                    ? "the kernel before it"
               : e->steps[i].backend || e->steps[i].there ? e->options.gemm->name
                                                          : "kernel");
        if (e->options.device) print_device(b, e, i, t->counts ? &t->counts[i] : NULL);
        putchar('}');
    }
    printf("]}");
}

static void print_text(Bench *b, const char *name, const RtExec *e, const Times *t)
{
    double total = 0;
    for (int64_t i = 0; i < e->program->n_steps; i++) total += t->steps[i];
    printf("%s%s: min %.3f ms, median %.3f ms, peak %.2f MiB\n", b->first ? "" : "\n", name, t->min_ms, t->median_ms,
           (double)t->peak / 1048576.0);
    rt_cli_print_savings(e, false);
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtStep *s = e->steps[i].def;
        const RtChainDef *chain = chain_of(e, i);
        double bytes = 0, flops = 0, ns = t->steps[i] / (double)b->iters;
        if (chain && chain->first < i) {
            printf("   and, strip by strip:                            %s\n", rt_string(e->model, s->label));
            continue;
        }
        add_costs(e, i, chain ? chain->n : 1, &bytes, &flops);
        printf("  %8.4f ms %5.1f%%  %7.2f GB/s %8.2f GFLOP/s  %s", ns * 1e-6,
               total > 0 ? 100 * t->steps[i] / total : 0.0, bytes / ns, flops / ns, rt_string(e->model, s->label));
        if (e->steps[i].backend || e->steps[i].there) printf(" (%s)", e->options.gemm->name);
        putchar('\n');
        if (t->counts) print_device(b, e, i, &t->counts[i]);
    }
}

static RtCode time_program(Bench *b, const char *name, RtExec *e)
{
    Times t = {0};
    int64_t n = e->program->n_steps;
    RtCode code = rt_alloc(&t.runs, b->iters, sizeof *t.runs, "timings", b->c->st);
    if (!code) code = rt_alloc(&t.steps, n, 3 * sizeof *t.steps, "timings", b->c->st);
    if (!code && b->c->values[OPT_COUNT]) code = rt_alloc(&t.counts, n, sizeof *t.counts, "counts", b->c->st);
    if (!code) {
        t.least = t.steps + n;
        t.once = t.steps + 2 * n;
        if (t.counts) take_counts(b, e, &t);
        else take_times(b, e, &t);
        code = rt_exec_results(e, b->c->st);
    }
    if (!code) {
        t.grown = e->arena_bytes + e->states_bytes + (e->cone ? e->cone->bytes : 0) + (int64_t)e->own_results.bytes +
                  rt_held_bytes(e->model, e->graph, e->program - e->model->programs);
        t.peak = t.grown + (int64_t)b->cotangents.bytes + trained_bytes(&b->s->data.tensors);
        (b->json ? print_json : print_text)(b, name, e, &t);
        b->first = false;
    }
    free(t.runs);
    free(t.steps);
    free(t.counts);
    return code;
}

static RtCode compare_program(Bench *b, const char *name, RtExec *e)
{
    int64_t n = 0;
    RtCode code = rt_cli_compare(b->s, e, b->seed, &n, b->c->st);
    bool one_plan = b->c->model->device == b->c->model;
    if (!code && one_plan)
        printf("%s: %lld of %lld steps differ\n", name, (long long)n, (long long)e->program->n_steps);
    else if (!code) printf("%s: %lld results differ\n", name, (long long)n);
    b->n_differ += n;
    return code;
}

static RtCode bench_function(Bench *b, const char *name, const char *function)
{
    RtExec *e = NULL;
    int64_t program = rt_program_find(b->c->model, function);
    if (program < 0) return RT_OK;
    rt_tensors_init(&b->s->data.tensors, b->seed);
    RtCode code = bind_program(b, program, &e);
    if (!code) code = (b->c->values[OPT_COMPARE] ? compare_program : time_program)(b, name, e);
    rt_exec_free(e);
    rt_block_free(&b->cotangents);
    return code;
}

static void print_drawn(const Bench *b, const int64_t *drawn)
{
    for (int64_t i = 0; i < b->c->model->n_tensors; i++)
        if (drawn[i])
            fprintf(stderr, "note: input %s was drawn at random: the data set lacks it or has another width\n",
                    rt_string(b->c->model, b->c->model->tensors[i].name));
}

static RtCode bench_all(Bench *b, const int64_t *drawn)
{
    print_drawn(b, drawn);
    if (b->json) {
        printf("{\"model\": ");
        rt_json_put_string(stdout, rt_string(b->c->model, b->c->model->name));
        printf(", \"threads\": %d, \"cpu\": \"%s\", \"iters\": %lld", b->s->threads, rt_cpu_name(b->s->exec.variant),
               (long long)b->iters);
        if (b->s->device) {
            printf(", \"device\": ");
            rt_json_put_string(stdout, b->s->device->name);
            printf(", \"device_bytes\": %lld", (long long)b->s->device->taken);
        }
        b->first = false;
    }
    RT_TRY(bench_function(b, "infer", "forward"));
    RT_TRY(bench_function(b, "grad", "vjp"));
    RT_TRY(bench_function(b, "train_step", "train_step"));
    if (b->n_differ)
        return rt_fail(b->c->st, RT_E_DEVICE_FAILED, "--compare", "please report it with the command and the device",
                       "%lld steps have other bytes than on the CPU", (long long)b->n_differ);
    if (b->json) printf("\n}\n");
    return RT_OK;
}

RtCode rt_cli_bench(RtCli *c)
{
    RtSession s;
    Bench b = {.c = c, .s = &s, .iters = 20, .json = c->values[OPT_JSON] != NULL, .first = true};
    RT_TRY(rt_cli_int(c, OPT_ITERS, 1, 10000000, &b.iters));
    if (c->values[OPT_COUNT]) b.iters = 1;
    RT_TRY(rt_cli_int(c, OPT_SEED, 0, INT64_MAX, &b.seed));
    if (c->values[OPT_COMPARE] && (c->device == RT_ON_CPU || c->device == RT_ON_AUTO || b.json))
        return rt_fail(c->st, RT_E_CLI_VALUE, "--compare", NULL, "wanted with --device cuda, without --json");
    if (c->values[OPT_COUNT] && (c->device != RT_ON_SHIM || c->values[OPT_COMPARE]))
        return rt_fail(c->st, RT_E_CLI_VALUE, "--count", NULL, "wanted with --device shim, without --compare");
    int64_t *drawn;
    RT_TRY(rt_alloc(&drawn, c->model->n_tensors, sizeof *drawn, "bench", c->st));
    RtCode code = rt_session_open(c, &(RtDataOptions){.draw = true, .seed = b.seed, .drawn = drawn}, &s);
    if (!code) {
        code = bench_all(&b, drawn);
        rt_session_close(&s);
    }
    free(drawn);
    return code;
}
