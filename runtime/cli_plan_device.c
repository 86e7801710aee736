/* `plan --device`: what would run on a device, how it would be started, and the memory that each command would take
   there. No device is needed to say it (see cli.h). */
#include "runtime/cli.h"
#include "runtime/cuda_cost.h"
#include "runtime/json.h"
#include "runtime/ranks.h"
#include "runtime/setup.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Command {
    const char *name, *needs, *programs;
} Command;

static RtCode print_step(const RtExec *e, int64_t i, bool json, RtStatus *st)
{
    const RtModel *m = e->model;
    const RtExecStep *x = &e->steps[i];
    RtLaunch l = {0};
    double bytes, flops;
    RtCudaWork work = rt_cuda_work_planned(e, i);
    RtCudaPrediction p = rt_cuda_predict(m->device_rates, &work);
    rt_step_cost(e, i, &bytes, &flops);
    if (x->call && !x->there) RT_TRY(rt_cuda_launch(m, x->call->kernel, x->extent, RT_CUDA_SHARED, &l, st));
    if (json) {
        printf("%s\n    {\"name\": ", i ? "," : "");
        rt_json_put_string(stdout, rt_string(m, x->def->label));
        printf(", \"line\": %lld, \"bytes\": %.0f, \"flops\": %.0f, \"extent\": %lld, \"grid\": %lld, \"block\": %lld, "
               "\"shared_bytes\": %lld, \"by\": \"%s\", \"predicted_ms\": %.6f, \"bound\": \"%s\"}",
               (long long)x->def->line, bytes, flops, (long long)x->extent, (long long)l.grid, (long long)l.block,
               (long long)l.shared_bytes, x->there ? e->options.gemm->name : "kernel", p.ns * 1e-6, p.bound);
        return RT_OK;
    }
    printf("  %3lld %12.0f B %10.3f Mflop %9.4f ms by %-7s ", (long long)i, bytes, flops * 1e-6, p.ns * 1e-6, p.bound);
    if (x->there) printf("%-41s", e->options.gemm->name);
    else if (x->call)
        printf("%5lld x %-4lld for %-9lld %6lld B shared  ", (long long)l.grid, (long long)l.block,
               (long long)x->extent, (long long)l.shared_bytes);
    else printf("%-41s", "copy");
    printf("%s:%lld  %s\n", rt_string(m, x->def->file), (long long)x->def->line, rt_string(m, x->def->label));
    return RT_OK;
}

/* Of a command: inputs that stay on the host, what of them is cached, and what each of its programs reads over the
   bus. */
static RtCode print_host(const RtCli *c, const RtGraph *g, const Command *x, const RtCudaLayout *l, bool json)
{
    const RtModel *m = c->model->device;
    const char *comma = "";
    double bytes;
    printf(json ? "\"%s\": {\"inputs\": [" : "  %s leaves on the host", x->name);
    for (int64_t i = 0; i < l->n; i++) {
        if (l->regions[i].host_at < 0) continue;
        printf(json ? "%s\"%s\"" : "%s %s", comma, rt_string(m, m->tensors[l->regions[i].ref].name));
        comma = json ? ", " : ",";
    }
    printf(json ? "], \"bytes\": %lld, \"cache_bytes\": %lld, \"bus_bytes\": {"
                : ": %lld bytes, and a cache of %lld on the device; it reads over the bus",
           (long long)l->host.bytes, (long long)l->host.hot_bytes);
    comma = "";
    for (int64_t p = 0; p < m->n_programs; p++) {
        if (!rt_cuda_has(m, x->programs, p)) continue;
        RT_TRY(rt_cuda_bus_bytes(m, g, l, p, &bytes, c->st));
        printf(json ? "%s\"%s\": %.0f" : "%s %s %.0f bytes", comma, rt_string(m, m->programs[p].name), bytes);
        comma = json ? ", " : ",";
    }
    printf(json ? "}}" : "\n");
    return RT_OK;
}

static RtCode make_exec(const RtCli *c, const RtSession *s, int64_t program, RtExec **e)
{
    RtExecOptions o = s->exec;
    o.plan_only = o.on_device = true;
    return rt_exec_create(c->model->device, program, s->data.graph, &o, e, c->st);
}

/* Memory of the device that programs take beside the layout, where processes share them: [n_programs]. */
static RtCode shared_bytes(const RtCli *c, const RtSession *s, int64_t *bytes)
{
    for (int64_t p = 0; s->ranks && p < c->model->n_programs; p++) {
        RtExec *e;
        RtAcrossBytes x = {0};
        if (!rt_cuda_has(c->model->device, RT_TRAIN_PROGRAMS " forward", p)) continue;
        RT_TRY(make_exec(c, s, p, &e));
        rt_across_bytes(e->across, &x);
        bytes[p] = x.device;
        rt_exec_free(e);
    }
    return RT_OK;
}

/* What a command takes: of several processes the one that takes least, and the one that takes most. */
static RtCode print_taken(const RtCli *c, const RtSession *s, const Command *x, int64_t bytes, bool json)
{
    int64_t least, sum, most;
    if (!s->ranks) {
        printf(json ? "\"%s\": %lld" : " %s %lld bytes", x->name, (long long)bytes);
        return RT_OK;
    }
    RT_TRY(rt_cli_ranks_gather(c, bytes, &least, &sum, &most));
    printf(json ? "\"%s\": {\"least\": %lld, \"most\": %lld}" : " %s %lld to %lld bytes", x->name, (long long)least,
           (long long)most);
    return RT_OK;
}

/* What each command that would run takes, then what each leaves on the host. shared: as shared_bytes says. */
static RtCode print_memory(const RtCli *c, const RtSession *s, const int64_t *shared, bool json)
{
    static const Command commands[] = {{"infer", "forward", "forward"},
                                       {"eval", "metrics", "metrics"},
                                       {"train", "train_step", RT_TRAIN_PROGRAMS},
                                       {"bench", "forward", RT_BENCH_PROGRAMS}};
    enum { N = sizeof commands / sizeof *commands };
    RtCudaLayout layouts[N] = {0};
    RtCode code = RT_OK;
    const char *before = "";
    for (int i = 0; i < N && !code; i++) {
        const Command *x = &commands[i];
        if (rt_program_find(c->model, x->needs) < 0 || (s->ranks && !strcmp(x->name, "bench"))) continue;
        if (s->batches.graph && rt_program_is_listed(c->model, x->programs, rt_program_find(c->model, "train_step")))
            continue; /* refused: see session.c */
        RtCudaLayout *l = &layouts[i];
        code = rt_cuda_layout(c->model->device, s->data.graph, x->programs, false, &s->room, l, c->st);
        int64_t bytes = l->bytes + l->host.hot_bytes;
        for (int64_t p = 0; p < c->model->n_programs; p++)
            if (rt_cuda_has(c->model->device, x->programs, p)) bytes += shared[p];
        if (!code) printf("%s", before);
        if (!code) code = print_taken(c, s, x, bytes, json);
        before = json ? ", " : ",";
    }
    printf(json ? "}, \"host\": {" : "\n");
    before = "";
    for (int i = 0; i < N && !code; i++) {
        if (!layouts[i].host.bytes) continue;
        printf("%s", before);
        code = print_host(c, s->data.graph, &commands[i], &layouts[i], json);
        before = json ? ", " : "";
    }
    for (int i = 0; i < N; i++) rt_cuda_layout_free(&layouts[i]);
    return code;
}

static RtCode print_program(const RtCli *c, const RtSession *s, int64_t program, RtCliMemory *memory, bool json)
{
    RtExec *e;
    RT_TRY(make_exec(c, s, program, &e));
    const char *name = rt_string(e->model, e->program->name);
    if (json) {
        printf(",\n  ");
        rt_json_put_string(stdout, name);
        printf(": {\"steps\": [");
    } else {
        printf("\n%s: %lld steps (bytes moved, work, predicted time and what it is bound by, blocks x threads for "
               "iterations, shared memory of a block)\n",
               name, (long long)e->program->n_steps);
    }
    RtCode code = RT_OK;
    for (int64_t i = 0; i < e->program->n_steps && !code; i++) code = print_step(e, i, json, c->st);
    if (json) printf("]");
    if (!code) code = rt_cli_plan_ranks(c, e, json);
    if (json) printf("}");
    rt_cli_memory_add(memory, e);
    rt_exec_free(e);
    return code;
}

/* What is computed once, on the CPU, and takes memory of a process before it trains. */
static RtCode add_setup(const RtCli *c, const RtSession *s, int64_t program, RtCliMemory *memory)
{
    RtExec *e;
    RtExecOptions o = s->exec;
    o.plan_only = true;
    if (!s->ranks) return RT_OK;
    RT_TRY(rt_exec_create(c->model, program, s->data.graph, &o, &e, c->st));
    rt_cli_memory_add(memory, e);
    rt_exec_free(e);
    return RT_OK;
}

RtCode rt_cli_plan_device(const RtCli *c, const RtSession *s, RtCliMemory *memory, bool json)
{
    int64_t *shared;
    printf(json ? ",\n  \"device\": {\"kind\": \"%s\", \"bytes\": {" : "  on %s each command takes",
           c->device == RT_ON_SHIM ? "shim" : "cuda");
    RT_TRY(rt_alloc(&shared, c->model->n_programs, sizeof *shared, "a plan", c->st));
    RtCode code = shared_bytes(c, s, shared);
    if (!code) code = print_memory(c, s, shared, json);
    free(shared);
    RT_TRY(code);
    if (json) printf("}}");
    for (int64_t p = 0; p < c->model->n_programs; p++) {
        const char *name = rt_string(c->model, c->model->programs[p].name);
        if (rt_cuda_has(c->model, RT_BENCH_PROGRAMS " " RT_TRAIN_PROGRAMS, p)) {
            RT_TRY(print_program(c, s, p, memory, json));
            continue;
        }
        if (!json) printf("\n%s: on the CPU, once\n", name);
        RT_TRY(add_setup(c, s, p, memory));
    }
    return RT_OK;
}
