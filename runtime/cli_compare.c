/* `bench --compare`: whether each step has the CPU's bytes on a device, or, where a device has a plan of its own, what
   a whole run leaves (see cli.h). */
#include "runtime/cli.h"
#include <stdio.h>
#include <string.h>

typedef struct Compare {
    RtExec *here, *there;
    RtBlock copy;
    RtStatus *st;
} Compare;

/* Bytes of a buffer that steps write; 0: they write no such. */
static int64_t buffer_bytes(const Compare *c, int64_t i)
{
    const RtBuffer *b = &c->here->model->buffers[c->here->program->first_buffer + i];
    if (b->kind != RT_BUF_ARENA && b->kind != RT_BUF_RESULT && b->kind != RT_BUF_TENSOR) return 0;
    return rt_count_value(c->here->graph, &b->rows, RT_READ) * b->width * rt_elem_bytes(b->elem);
}

/* The first byte in which a buffer differs, the i-th here and the k-th there; -1: none. */
static RtCode compare_buffer(Compare *c, int64_t i, int64_t k, int64_t *first)
{
    int64_t bytes = buffer_bytes(c, i);
    *first = -1;
    if (bytes > (int64_t)c->copy.bytes) {
        rt_block_free(&c->copy);
        RT_TRY(rt_block_alloc(&c->copy, bytes, "a buffer of the device", c->st));
    }
    RT_TRY(rt_cuda_fetch(c->there, k, c->copy.p, bytes, c->st));
    const char *x = c->here->buffers[i], *y = c->copy.p;
    for (int64_t at = 0; at < bytes && *first < 0; at++)
        if (x[at] != y[at]) *first = at;
    return RT_OK;
}

/* The device has what the CPU has before a step: so only what the step itself does differs, and nothing that it
   leaves. */
static RtCode store_step(Compare *c, int64_t i)
{
    const RtExecStep *x = &c->here->steps[i];
    for (int64_t k = 0; x->call && k < x->call->n_args; k++) {
        const RtStepArg *a = &c->here->model->step_args[x->call->first_arg + k];
        if (a->is_buffer)
            RT_TRY(rt_cuda_store(c->there, a->buffer, c->here->buffers[a->buffer], buffer_bytes(c, a->buffer), c->st));
    }
    return RT_OK;
}

/* Of one step, after it ran on both. */
static RtCode compare_step(Compare *c, int64_t i, int64_t *n_differ)
{
    const RtModel *m = c->here->model;
    const RtExecStep *x = &c->here->steps[i];
    bool differs = false;
    for (int64_t k = 0; x->call && k < x->call->n_args; k++) {
        const RtStepArg *a = &m->step_args[x->call->first_arg + k];
        int64_t first = -1;
        if (a->is_buffer) RT_TRY(compare_buffer(c, a->buffer, a->buffer, &first));
        if (first < 0) continue;
        const RtBuffer *b = &m->buffers[c->here->program->first_buffer + a->buffer];
        printf("  step %lld, %s, kernel %s: argument %lld, %s, differs from byte %lld, in element %lld of width %lld\n",
               (long long)i, rt_string(m, x->def->label), rt_string(m, m->device_kernels[x->call->kernel].name),
               (long long)k, rt_string(m, b->name), (long long)first, (long long)(first / rt_elem_bytes(b->elem)),
               (long long)b->width);
        differs = true;
    }
    *n_differ += differs;
    return RT_OK;
}

/* The buffer of a result or tensor in the other program, which is of another plan. */
static int64_t same_buffer(const RtExec *e, const RtBuffer *b)
{
    for (int64_t i = 0; i < e->program->n_buffers; i++) {
        const RtBuffer *x = &e->model->buffers[e->program->first_buffer + i];
        if (x->kind == b->kind && x->ref == b->ref) return i;
    }
    return -1;
}

static RtCode run_whole(Compare *c, int64_t seed, int64_t *n_differ)
{
    rt_exec_run(c->here, seed, 1);
    rt_exec_run(c->there, seed, 1);
    for (int64_t i = 0; i < c->here->program->n_buffers; i++) {
        const RtBuffer *b = &c->here->model->buffers[c->here->program->first_buffer + i];
        int64_t k = b->kind == RT_BUF_RESULT || b->kind == RT_BUF_TENSOR ? same_buffer(c->there, b) : -1, first = -1;
        if (k >= 0) RT_TRY(compare_buffer(c, i, k, &first));
        if (first < 0) continue;
        printf("  %s differs from byte %lld, in element %lld of width %lld\n", rt_string(c->here->model, b->name),
               (long long)first, (long long)(first / rt_elem_bytes(b->elem)), (long long)b->width);
        ++*n_differ;
    }
    return RT_OK;
}

static RtCode run_both(Compare *c, int64_t *n_differ)
{
    for (int64_t i = 0; i < c->here->program->n_steps;) {
        const RtChainDef *chain = rt_step_chain(c->here, i);
        int64_t end = i + (chain ? chain->n : 1);
        for (int64_t k = i; k < end; k++) RT_TRY(store_step(c, k));
        rt_exec_run_step(c->here, i);
        for (int64_t k = i; k < end; k++) rt_exec_run_step(c->there, k);
        for (int64_t k = i; k < end; k++) RT_TRY(compare_step(c, k, n_differ));
        i = end;
    }
    return RT_OK;
}

RtCode rt_cli_compare(const RtSession *s, RtExec *e, int64_t seed, int64_t *n_differ, RtStatus *st)
{
    Compare c = {.there = e, .st = st};
    RtExecOptions o = s->exec;
    o.device = NULL;
    RT_TRY(rt_exec_create(e->graph->model, e->program - e->model->programs, e->graph, &o, &c.here, st));
    memcpy(c.here->tensors, e->tensors, (size_t)e->model->n_tensors * sizeof *e->tensors);
    memcpy(c.here->cotangents, e->cotangents, (size_t)e->n_cotangents * sizeof *e->cotangents);
    RtCode code = rt_exec_own_results(c.here, st);
    if (!code) code = rt_exec_bind(c.here, st);
    c.here->seed = e->seed = seed;
    c.here->step = e->step = 1;
    bool one = c.here->model == e->model; /* one plan, so one step after another */
    if (!code) code = one ? run_both(&c, n_differ) : run_whole(&c, seed, n_differ);
    rt_block_free(&c.copy);
    rt_exec_free(c.here);
    return code;
}
