/* `info`: the model's inputs, parameters and functions, or its manifest. */
#include "runtime/cli.h"
#include <stdio.h>

static void print_dims(const RtModel *m, int64_t space, int64_t n, const int64_t *dims, const int64_t *names,
                       int64_t dtype)
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
        if (t->kind != kind || t->nonzeros || rt_hyper_is_run(m, i)) continue;
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

/* Devices that --device may name. */
static void print_devices(const RtModel *m)
{
    printf("devices: cpu%s", m->n_images ? ", cuda (" : "");
    for (int64_t i = 0; i < m->n_images; i++)
        printf("%s%s%lld", i ? ", " : "", m->images[i].kind == RT_IMAGE_PTX ? "PTX for " : "sm_",
               (long long)m->images[i].capability);
    printf("%s%s\n", m->n_images ? ")" : "", m->shim ? ", shim" : "");
}

RtCode rt_cli_info(RtCli *c)
{
    const RtModel *m = c->model;
    int best;
    RT_TRY(rt_cpu_allowed(&best, c->st));
    if (c->values[OPT_JSON]) {
        puts(rt_string(m, m->manifest));
        return RT_OK;
    }
    printf("model %s, %s, ABI %lld, best kernels here: %s\n", rt_string(m, m->name), rt_dtype_name(m->float_dtype),
           (long long)m->abi_version, rt_cpu_name(best));
    if (m->device) print_devices(m->device);
    print_tensors(m, RT_INPUT, "inputs (NAME.npy in the data folder)");
    print_tensors(m, RT_PARAM, "parameters");
    print_tensors(m, RT_HYPER, "hypers (--set NAME=VALUE)");
    print_functions(m);
    if (m->train->present)
        printf("\ntraining: %lld epochs, seed %lld\n", (long long)m->train->epochs, (long long)m->train->seed);
    return RT_OK;
}
