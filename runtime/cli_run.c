/* `infer` and `eval`: trained weights on a data set. */
#include "runtime/cli.h"
#include "runtime/train.h"
#include "runtime/weights.h"
#include <stdio.h>
#include <string.h>

/* Weights, and of the data what the program takes. */
static RtCode open_trained(const RtCli *c, const char *program, RtSession *s)
{
    RT_TRY(rt_session_open(c, &(RtDataOptions){.programs = program}, s));
    rt_tensors_init(&s->data.tensors, c->model->train->seed);
    const char *weights = c->values[OPT_WEIGHTS]; /* NULL: the model has no parameters */
    RtCode code = weights ? rt_weights_load(&s->data.tensors, weights, c->st) : RT_OK;
    if (code) rt_session_close(s);
    return code;
}

/* Result i in the user's order to a .npy file. */
static RtCode write_result(const RtCli *c, const RtExec *e, int64_t i, const char *path)
{
    const RtResultDef *r = &c->model->results[e->program->first_result + i];
    int64_t shape[RT_MAX_DIMS + 1], n = 0, rows = e->graph->spaces[r->space].count;
    RtBlock user = {0};
    const void *rows_of_user = e->results[i];
    if (r->space != 0) shape[n++] = rows;
    for (int64_t k = 0; k < r->n_dims; k++) shape[n++] = r->dims[k];
    RtRanks *ranks = e->options.ranks;
    if (ranks && ranks->spaces[r->space].shared) {
        RT_TRY(rt_ranks_collect(ranks, r->space, r->width * rt_dtype_bytes(r->dtype), e->results[i], &user, c->st));
        shape[0] = rows = ranks->spaces[r->space].total;
        rows_of_user = user.p;
    } else if (e->graph->spaces[r->space].ids) { /* else they lie as the user has them */
        RT_TRY(rt_block_alloc(&user, rt_result_bytes(e, i), path, c->st));
        rt_graph_to_user(e->graph, r->space, r->width * rt_dtype_bytes(r->dtype), e->results[i], user.p);
        rows_of_user = user.p;
    }
    RtCode code = !rt_cli_writes(c) ? RT_OK : rt_npy_write(path, r->dtype, n, shape, rows_of_user, c->st);
    rt_block_free(&user);
    if (!code)
        printf("%s: %s, %lld rows of %lld\n", path, rt_string(c->model, r->name), (long long)rows, (long long)r->width);
    return code;
}

void rt_cli_out_path(const RtCli *c, const RtProgram *forward, int64_t i, char *path, size_t size)
{
    const char *out = c->values[OPT_OUT];
    size_t n = strlen(out);
    int stem = n > 4 && !strcmp(out + n - 4, ".npy") ? (int)n - 4 : (int)n;
    if (i == 0) snprintf(path, size, "%s", out);
    else
        snprintf(path, size, "%.*s.%s.npy", stem, out,
                 rt_string(c->model, c->model->results[forward->first_result + i].name));
}

static RtCode write_results(const RtCli *c, const RtExec *e)
{
    for (int64_t i = 0; i < e->program->n_results; i++) {
        char path[4096];
        rt_cli_out_path(c, e->program, i, path, sizeof path);
        RT_TRY(write_result(c, e, i, path));
    }
    return RT_OK;
}

static RtCode run_forward(const RtCli *c, RtSession *s, RtExec **e)
{
    int64_t p = rt_program_find(c->model, "forward");
    if (p < 0) return rt_fail(c->st, RT_E_MODEL_FUNCTION, "infer", NULL, "the model has no function forward");
    RT_TRY(rt_exec_create(c->model, p, s->data.graph, &s->exec, e, c->st));
    for (int64_t i = 0; i < c->model->n_tensors; i++) (*e)->tensors[i] = s->data.tensors.data[i];
    RT_TRY(rt_exec_own_results(*e, c->st));
    RT_TRY(rt_exec_bind(*e, c->st));
    RT_TRY(rt_cuda_push(s->device, s->data.tensors.data, c->st));
    rt_exec_run(*e, 0, 0);
    RT_TRY(rt_exec_results(*e, c->st));
    return write_results(c, *e);
}

RtCode rt_cli_infer(RtCli *c)
{
    RtSession s;
    RtExec *e = NULL;
    RT_TRY(open_trained(c, "forward", &s));
    RtCode code = run_forward(c, &s, &e);
    rt_exec_free(e);
    rt_session_close(&s);
    return code;
}

RtCode rt_cli_eval(RtCli *c)
{
    RtSession s;
    double values[RT_MAX_METRICS];
    RT_TRY(open_trained(c, "metrics", &s));
    RtCode code = rt_evaluate(c->model, &s.data, &s.exec, values, c->st);
    for (int64_t i = 0; !code && i < c->model->train->n_metrics; i++)
        printf("%s %.6f\n", rt_string(c->model, c->model->metrics[i].name), values[i]);
    rt_session_close(&s);
    return code;
}
