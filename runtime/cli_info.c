/* `info`: the model's inputs, parameters and functions, or its manifest. `plan`: what would run on
   a data set, without running it. */
#include "runtime/cli.h"
#include "runtime/setup.h"
#include <stdio.h>

static void print_dims(const RtModel *m, int64_t space, int64_t n, const int64_t *dims,
                       const int64_t *names, int64_t dtype)
{
    printf("%s[", space ? rt_string(m, m->spaces[space].name) : "");
    for (int64_t i = 0; i < n; i++) {
        const char *name = rt_string(m, names[i]);
        printf("%s%s%s%lld", i ? ", " : "", name, name[0] ? "=" : "", (long long)dims[i]);
    }
    printf("] %s", rt_dtype_name(dtype));
}

static void print_tensors(const RtModel *m, int64_t kind, const char *title)
{
    bool any = false;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        const RtTensorDef *t = &m->tensors[i];
        if (t->kind != kind || t->nonzeros) continue;
        if (!any) printf("\n%s\n", title);
        any = true;
        printf("  %-28s ", rt_string(m, t->name));
        print_dims(m, t->space, t->n_dims, t->dims, t->dim_names, t->dtype);
        if (kind == RT_HYPER) printf(" = %g", t->hyper_default);
        if (kind == RT_INPUT && t->bound > 0) printf(", values below %lld", (long long)t->bound);
        putchar('\n');
    }
}

static void print_functions(const RtModel *m)
{
    printf("\nfunctions\n");
    for (int64_t p = 0; p < m->n_programs; p++) {
        const RtProgram *prog = &m->programs[p];
        printf("  %-12s %lld steps ->", rt_string(m, prog->name), (long long)prog->n_steps);
        int64_t shown = 0;
        for (int64_t i = 0; i < prog->n_results; i++) {
            const RtResultDef *r = &m->results[prog->first_result + i];
            if (r->tensor >= 0) continue;
            printf("%s %s ", shown++ ? "," : "", rt_string(m, r->name));
            print_dims(m, r->space, r->n_dims, r->dims, r->dim_names, r->dtype);
        }
        putchar('\n');
    }
}

RtCode rt_cli_info(RtCli *c)
{
    const RtModel *m = c->model;
    if (c->values[OPT_JSON]) {
        puts(rt_string(m, m->manifest));
        return RT_OK;
    }
    printf("model %s, %s, ABI %lld, best kernels here: %s\n", rt_string(m, m->name),
           rt_dtype_name(m->float_dtype), (long long)m->abi_version, rt_cpu_name(rt_cpu_best()));
    print_tensors(m, RT_INPUT, "inputs (NAME.npy in the data folder)");
    print_tensors(m, RT_PARAM, "parameters");
    print_tensors(m, RT_HYPER, "hypers (--set NAME=VALUE)");
    print_functions(m);
    if (m->train && m->train->present)
        printf("\ntraining: %lld epochs, seed %lld\n", (long long)m->train->epochs,
               (long long)m->train->seed);
    return RT_OK;
}

/* ---- plan ---- */

static void print_bytes(double bytes)
{
    if (bytes < 10240)
        printf("%9.0f B  ", bytes);
    else if (bytes < 10485760)
        printf("%9.1f KiB", bytes / 1024);
    else
        printf("%9.1f MiB", bytes / 1048576);
}

static void print_steps(const RtExec *e, double *bytes, double *flops)
{
    *bytes = *flops = 0;
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtStep *s = &e->model->steps[e->program->first_step + i];
        double step_bytes, step_flops;
        rt_step_cost(e, i, &step_bytes, &step_flops);
        printf("  %3lld ", (long long)i);
        print_bytes(step_bytes);
        printf(" %10.3f Mflop  %3lld x %-9lld %s:%lld  %s%s\n", step_flops * 1e-6,
               (long long)e->steps[i].n_chunks, (long long)e->steps[i].extent,
               rt_string(e->model, s->file), (long long)s->line, rt_string(e->model, s->label),
               e->steps[i].backend ? " (openblas)" : "");
        *bytes += step_bytes;
        *flops += step_flops;
    }
}

static RtCode plan_program(const RtCli *c, const RtSession *s, int64_t program)
{
    RtExec *e;
    RtExecOptions o = s->exec;
    double bytes, flops;
    o.plan_only = true;
    RT_TRY(rt_exec_create(c->model, program, s->data.graph, &o, &e, c->st));
    printf("\n%s: %lld steps (bytes moved, work, chunks x iterations)\n",
           rt_string(c->model, e->program->name), (long long)e->program->n_steps);
    print_steps(e, &bytes, &flops);
    printf("  sum %.2f MiB moved, %.3f Mflop; peak memory ", bytes / 1048576, flops * 1e-6);
    print_bytes((double)e->arena_bytes);
    putchar('\n');
    int64_t held = rt_held_bytes(c->model, s->data.graph, program);
    if (held) {
        printf("  reads what is computed once: ");
        print_bytes((double)held);
        putchar('\n');
    }
    rt_exec_free(e);
    return RT_OK;
}

RtCode rt_cli_plan(RtCli *c)
{
    RtSession s;
    RtCode code = RT_OK;
    RT_TRY(rt_session_open(c, &(RtDataOptions){.draw = true}, &s));
    printf("%s on %s, %d threads, %s kernels, products by %s\n",
           rt_string(c->model, c->model->name), c->values[OPT_DATA], s.threads,
           rt_cpu_name(s.exec.variant), s.exec.gemm ? "openblas where marked" : "emitted kernels");
    for (int64_t i = 1; i < c->model->n_spaces; i++)
        printf("  %-16s %lld\n", rt_string(c->model, c->model->spaces[i].name),
               (long long)s.data.graph->spaces[i].count);
    printf("  graph and its indices ");
    print_bytes((double)s.data.graph->bytes);
    putchar('\n');
    for (int64_t p = 0; p < c->model->n_programs && !code; p++) code = plan_program(c, &s, p);
    rt_session_close(&s);
    return code;
}
