/* What one run of a program leaves out that plain code does at each run, so that a time can be read with it: inputs
   read by their nonzero elements, values computed once before the first run, rows that nothing needs. Never measures
   anything. */
#include "runtime/cli.h"
#include "runtime/cone.h"
#include "runtime/json.h"
#include "runtime/setup.h"
#include <stdio.h>

static bool takes(const RtExec *e, int64_t tensor)
{
    for (int64_t i = 0; i < e->program->n_argdefs; i++) {
        const RtArgDef *a = &e->model->argdefs[e->program->first_argdef + i];
        if (a->kind == RT_ARG_TENSOR && a->ref == tensor) return true;
    }
    return false;
}

static void print_once(const RtExec *e, const RtTensorDef *t, bool json)
{
    const RtModel *m = e->model;
    printf(json ? "{\"space\": " : "%s [", rt_string(m, m->spaces[t->space].name));
    if (json) {
        rt_json_put_string(stdout, rt_string(m, m->spaces[t->space].name));
        printf(", \"dims\": [");
    }
    for (int64_t d = 0; d < t->n_dims; d++) printf("%s%lld", d ? ", " : "", (long long)t->dims[d]);
    printf(json ? "], \"bytes\": %lld}" : "], %lld bytes",
           (long long)rt_tensor_count(m, e->graph, t - m->tensors) * rt_dtype_bytes(t->dtype));
}

/* The tensors of one kind that the program takes; returns how many. */
static int print_list(const RtExec *e, bool nonzeros, bool json, const char *before)
{
    const RtModel *m = e->model;
    int n = 0;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        const RtTensorDef *t = &m->tensors[i];
        if (!(nonzeros ? t->nonzeros != 0 : t->kind == RT_HELD) || !takes(e, i)) continue;
        printf("%s", n++ ? json ? ", " : "; " : before);
        if (!nonzeros) print_once(e, t, json);
        else if (json) rt_json_put_string(stdout, rt_string(m, m->tensors[t->of].name));
        else printf("%s", rt_string(m, m->tensors[t->of].name));
    }
    return n;
}

void rt_cli_print_savings(const RtExec *e, bool json)
{
    if (json) {
        printf("\"reads_sparse\": [");
        print_list(e, true, true, "");
        printf("], \"computed_once\": [");
        print_list(e, false, true, "");
        printf("], \"left_out\": %.4f", e->cone ? e->cone->saved : 0.0);
        return;
    }
    if (print_list(e, true, false, "  reads by nonzero elements: ")) putchar('\n');
    if (print_list(e, false, false, "  reads what is computed once: ")) putchar('\n');
    if (e->cone)
        printf("  leaves out rows that nothing needs: %.0f %% of the work; their zeros take %lld bytes more\n",
               e->cone->saved * 100, (long long)e->cone->bytes);
}
