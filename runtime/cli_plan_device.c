/* `plan --device`: what would run on a device, how it would be started, and the memory that each command would take
   there. No device is needed to say it (see cli.h). */
#include "runtime/cli.h"
#include "runtime/cuda_cost.h"
#include "runtime/json.h"
#include "runtime/setup.h"
#include <stdio.h>

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

/* Of a command: inputs that stay on the host, what of them is cached, and what each of its programs reads over the bus. */
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

/* What each command that would run takes, then what each leaves on the host. */
static RtCode print_memory(const RtCli *c, const RtSession *s, bool json)
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
        if (rt_program_find(c->model, x->needs) < 0) continue;
        if (s->batches.graph && rt_program_is_listed(c->model, x->programs, rt_program_find(c->model, "train_step")))
            continue; /* refused: see session.c */
        RtCudaLayout *l = &layouts[i];
        code = rt_cuda_layout(c->model->device, s->data.graph, x->programs, false, &s->room, l, c->st);
        if (!code)
            printf(json ? "%s\"%s\": %lld" : "%s %s %lld bytes", before, x->name,
                   (long long)(l->bytes + l->host.hot_bytes));
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

static RtCode print_program(const RtCli *c, const RtSession *s, int64_t program, bool json)
{
    RtExec *e;
    RtExecOptions o = s->exec;
    o.plan_only = true;
    RT_TRY(rt_exec_create(c->model->device, program, s->data.graph, &o, &e, c->st));
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
    if (json) printf("]}");
    rt_exec_free(e);
    return code;
}

RtCode rt_cli_plan_device(const RtCli *c, const RtSession *s, bool json)
{
    printf(json ? ",\n  \"device\": {\"kind\": \"%s\", \"bytes\": {" : "  on %s each command takes",
           c->device == RT_ON_SHIM ? "shim" : "cuda");
    RT_TRY(print_memory(c, s, json));
    if (json) printf("}}");
    for (int64_t p = 0; p < c->model->n_programs; p++) {
        const char *name = rt_string(c->model, c->model->programs[p].name);
        if (rt_cuda_has(c->model, RT_BENCH_PROGRAMS " " RT_TRAIN_PROGRAMS, p)) RT_TRY(print_program(c, s, p, json));
        else if (!json) printf("\n%s: on the CPU, once\n", name);
    }
    return RT_OK;
}
