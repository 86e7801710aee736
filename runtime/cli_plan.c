/* `plan`: what would run on a data set and how long it should take, as text or JSON, without running it. Times come
   from the cost model (cost.h) and the machine's figures (machine.h): of the last probe, else built in. */
#include "runtime/chain.h"
#include "runtime/cli.h"
#include "runtime/cone.h"
#include "runtime/cost.h"
#include "runtime/json.h"
#include "runtime/setup.h"
#include "runtime/split.h"
#include <stdio.h>

typedef struct Plan {
    const RtCli *c;
    const RtSession *s;
    RtMachine machine;
    RtCliMemory memory; /* of each of several processes */
    bool json;
} Plan;

typedef struct Totals {
    double bytes, flops, ns;
} Totals;

static void print_bytes(double bytes)
{
    if (bytes < 10240) printf("%9.0f B  ", bytes);
    else if (bytes < 10485760) printf("%9.1f KiB", bytes / 1024);
    else printf("%9.1f MiB", bytes / 1048576);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

typedef struct StepFacts {
    double bytes, flops;
    RtPrediction p;
    const RtStep *s;
    const RtExecStep *x;
    const RtChain *chain; /* whose first step it is, or NULL */
} StepFacts;

static void text_step(const Plan *plan, int64_t i, const StepFacts *f)
{
    const RtModel *m = plan->c->model;
    printf("  %3lld ", (long long)i);
    print_bytes(f->bytes);
    printf(" %10.3f Mflop %9.3f ms  %3lld x %-9lld %s:%lld  %s%s", f->flops * 1e-6, f->p.ns * 1e-6,
           (long long)f->x->n_chunks, (long long)f->x->extent, rt_string(m, f->s->file), (long long)f->s->line,
           rt_string(m, f->s->label), f->x->backend ? " (openblas)" : "");
    long long shared = f->x->split ? (long long)rt_split_count(f->x->split) : 0;
    if (shared) printf(", %lld row%s shared by threads", shared, shared > 1 ? "s" : "");
    if (f->chain)
        printf(", with the next %lld by strips of %lld rows", (long long)f->chain->def->n - 1,
               (long long)f->chain->strip);
    if (f->x->cone && f->x->cone->runs) printf(", %lld rows needed", (long long)f->x->cone->n_rows);
    if (f->x->cone && f->x->cone->rows) printf(", zeros skipped");
    putchar('\n');
}

static void json_step(const Plan *plan, int64_t i, const StepFacts *f)
{
    const RtModel *m = plan->c->model;
    printf("%s\n    {\"name\": ", i ? "," : "");
    rt_json_put_string(stdout, rt_string(m, f->s->label));
    printf(", \"file\": ");
    rt_json_put_string(stdout, rt_string(m, f->s->file));
    printf(", \"line\": %lld, \"bytes\": %.0f, \"flops\": %.0f, \"ms\": %.6f, \"memory_ms\": %.6f, "
           "\"arithmetic_ms\": %.6f, \"chunks\": %lld, \"extent\": %lld, \"by\": \"%s\"",
           (long long)f->s->line, f->bytes, f->flops, f->p.ns * 1e-6, f->p.memory_ns * 1e-6, f->p.arithmetic_ns * 1e-6,
           (long long)f->x->n_chunks, (long long)f->x->extent, f->x->backend ? "openblas" : "kernel");
    const RtConeStep *cone = f->x->cone;
    if (cone && cone->runs)
        printf(", \"rows_needed\": %lld, \"runs\": %lld", (long long)cone->n_rows, (long long)cone->n_runs);
    if (f->chain)
        printf(", \"with_next\": %lld, \"strip_rows\": %lld", (long long)f->chain->def->n - 1,
               (long long)f->chain->strip);
    if (f->x->split) printf(", \"shared_rows\": %lld", (long long)rt_split_count(f->x->split));
    putchar('}');
}

static RtCode print_steps(const Plan *plan, const RtExec *e, Totals *t)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtChain *chain = e->steps[i].chain;
        StepFacts f = {
            .s = e->steps[i].def, .x = &e->steps[i], .chain = chain && chain->steps == &e->steps[i] ? chain : NULL};
        rt_step_cost(e, i, &f.bytes, &f.flops);
        rt_cost_step(e, i, &plan->machine, &f.p);
        (plan->json ? json_step : text_step)(plan, i, &f);
        t->bytes += f.bytes;
        t->flops += f.flops;
        t->ns += f.p.ns;
    }
    return RT_OK;
}

/* ---- programs ------------------------------------------------------------------------------------------------- */

static RtCode text_program(const Plan *plan, const RtExec *e)
{
    Totals t = {0};
    printf("\n%s: %lld steps (bytes moved, work, predicted time, chunks x iterations)\n",
           rt_string(e->model, e->program->name), (long long)e->program->n_steps);
    RT_TRY(print_steps(plan, e, &t));
    printf("  sum %.2f MiB moved, %.3f Mflop, %.3f ms; peak memory ", t.bytes / 1048576, t.flops * 1e-6, t.ns * 1e-6);
    print_bytes((double)e->arena_bytes);
    putchar('\n');
    rt_cli_print_savings(e, false);
    RT_TRY(rt_cli_plan_ranks(plan->c, e, false));
    if (e->states_bytes) {
        printf("  sums of parts of shared rows take ");
        print_bytes((double)e->states_bytes);
        printf(" more\n");
    }
    return RT_OK;
}

static RtCode json_program(const Plan *plan, const RtExec *e)
{
    Totals t = {0};
    printf(",\n  ");
    rt_json_put_string(stdout, rt_string(e->model, e->program->name));
    printf(": {\"steps\": [");
    RT_TRY(print_steps(plan, e, &t));
    printf("],\n   \"bytes\": %.0f, \"flops\": %.0f, \"ms\": %.6f, "
           "\"peak_bytes\": %lld, \"cone_bytes\": %lld, \"shared_bytes\": %lld, \"held_bytes\": %lld, ",
           t.bytes, t.flops, t.ns * 1e-6, (long long)e->arena_bytes, (long long)(e->cone ? e->cone->bytes : 0),
           (long long)e->states_bytes,
           (long long)rt_held_bytes(e->model, plan->s->data.graph, e->program - e->model->programs));
    rt_cli_print_savings(e, true);
    RT_TRY(rt_cli_plan_ranks(plan->c, e, true));
    putchar('}');
    return RT_OK;
}

static RtCode plan_program(Plan *plan, int64_t program)
{
    RtExec *e;
    RtExecOptions o = plan->s->exec;
    o.plan_only = true;
    const RtGraph *g = rt_session_graph(plan->s, program);
    if (g != plan->s->data.graph) o.cone = RT_CONE_OFF;
    RT_TRY(rt_exec_create(plan->c->model, program, g, &o, &e, plan->c->st));
    for (int64_t i = 0; i < plan->c->model->n_tensors; i++) e->tensors[i] = plan->s->data.tensors.data[i];
    RtCode code = rt_exec_narrow(e, plan->c->st);
    if (!code) code = (plan->json ? json_program : text_program)(plan, e);
    rt_cli_memory_add(&plan->memory, e);
    rt_exec_free(e);
    return code;
}

static void text_head(const Plan *plan)
{
    const RtCli *c = plan->c;
    const RtSession *s = plan->s;
    if (s->on_device)
        printf("%s on %s, products by %s\n", rt_string(c->model, c->model->name), c->values[OPT_DATA],
               s->exec.gemm ? "cublas where marked" : "emitted kernels");
    else
        printf("%s on %s, %d threads, %s kernels, products by %s; times by %s figures of this machine\n",
               rt_string(c->model, c->model->name), c->values[OPT_DATA], s->threads, rt_cpu_name(s->exec.variant),
               s->exec.gemm ? "openblas where marked" : "emitted kernels",
               plan->machine.probed ? "measured" : "built-in");
    for (int64_t i = 1; i < c->model->n_spaces; i++)
        printf("  %-16s %lld\n", rt_string(c->model, c->model->spaces[i].name),
               (long long)s->data.graph->spaces[i].count);
    const RtOrder *order = &plan->s->data.order;
    if (c->values[OPT_REORDER])
        printf("  order of nodes   %s%s%s, predicted cost of gathers %.2f of that in the user's\n", order->name,
               order->why ? ": " : "", order->why ? order->why : "", order->cost);
    printf("  graph and its indices ");
    print_bytes((double)s->data.graph->bytes);
    putchar('\n');
}

static void json_head(const Plan *plan)
{
    const RtCli *c = plan->c;
    const RtSession *s = plan->s;
    printf("{\"model\": ");
    rt_json_put_string(stdout, rt_string(c->model, c->model->name));
    printf(", \"threads\": %d, \"cpu\": \"%s\", \"probed\": %s,\n  \"counts\": {", s->threads,
           rt_cpu_name(s->exec.variant), plan->machine.probed ? "true" : "false");
    for (int64_t i = 1; i < c->model->n_spaces; i++) {
        if (i > 1) printf(", ");
        rt_json_put_string(stdout, rt_string(c->model, c->model->spaces[i].name));
        printf(": %lld", (long long)s->data.graph->spaces[i].count);
    }
    printf("}, \"graph_bytes\": %lld", (long long)s->data.graph->bytes);
}

RtCode rt_cli_plan(RtCli *c)
{
    RtSession s;
    Plan plan = {.c = c, .s = &s, .json = c->values[OPT_JSON] != NULL};
    RT_TRY(rt_session_open(c, &(RtDataOptions){.draw = true}, &s));
    rt_machine_load(s.threads, &plan.machine);
    RtCode code = RT_OK;
    (plan.json ? json_head : text_head)(&plan);
    if (s.on_device) code = rt_cli_plan_device(c, &s, &plan.memory, plan.json);
    for (int64_t p = 0; p < c->model->n_programs && !s.on_device && !code; p++) code = plan_program(&plan, p);
    if (!code) code = rt_cli_plan_memory(c, &s, &plan.memory, plan.json);
    if (plan.json && !code) printf("\n}\n");
    rt_session_close(&s);
    return code;
}
