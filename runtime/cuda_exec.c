/* Runs a program's steps on a device, one after another (see cuda.h). */
#include "runtime/clock.h"
#include "runtime/cuda.h"
#include <assert.h>
#include <string.h>

enum { MAX_PARAMS = 512 /* 4 KiB, all that every driver takes */ };
enum { ATTRIBUTE_DYNAMIC_SHARED = 8 /* of a function */, SHARED_UNASKED = 48 << 10 };

/* Notes the first call that failed: nothing is right after it. */
static void note(RtCuda *c, int error, const char *what)
{
    const char *why = NULL;
    if (!error || c->failed.code) return;
    if (c->driver.error_text(error, &why) || !why) why = "no reason is known";
    rt_fail(&c->failed, RT_E_DEVICE_FAILED, c->name, NULL, "cannot run %.100s: %.200s (%d)", what, why, error);
}

RtCode rt_cuda_bind(RtExec *e, RtStatus *st)
{
    RtCuda *c = e->options.device;
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        RtExecStep *x = &e->steps[i];
        if (!x->call) continue;
        assert(!x->backend && !x->cone && !x->split);
        if (x->call->n_args + 2 > MAX_PARAMS)
            return rt_fail(st, RT_E_DEVICE_REFUSED, rt_string(e->model, x->def->label), NULL,
                           "the kernel has %lld parameters, at most %d are possible", (long long)x->call->n_args,
                           MAX_PARAMS - 2);
        RT_TRY(rt_cuda_launch(e->model, x->call->kernel, x->extent, c->most_shared, &x->launch, st));
        if (x->launch.shared_bytes > SHARED_UNASKED)
            note(c,
                 c->driver.function_attribute(c->functions[x->call->kernel], ATTRIBUTE_DYNAMIC_SHARED,
                                              (int)x->launch.shared_bytes),
                 "a kernel with much shared memory");
    }
    for (int64_t i = 0; i < c->layout.n; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        if (r->kind != RT_BUF_COTANGENT || r->program != e->program - e->model->programs || !r->bytes) continue;
        note(c, c->driver.to_device(c->memory + (RtCudaPtr)r->at, e->cotangents[r->ref], (size_t)r->bytes),
             "copies to the device");
    }
    return RT_OK;
}

/* Iterations [0, extent) of a step, whose arguments are the device's addresses. */
static int start_step(const RtExec *e, const RtExecStep *x)
{
    const RtCuda *c = e->options.device;
    int64_t lo = 0, hi = x->extent;
    void *params[MAX_PARAMS];
    if (!x->extent) return 0;
    if (!x->call) { /* a copy: see exec.c */
        const RtMove *m = &e->model->moves[x->def->part];
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + m->from];
        return c->driver.move((RtCudaPtr)(uintptr_t)e->buffers[m->to], (RtCudaPtr)(uintptr_t)e->buffers[m->from],
                              (size_t)(x->extent * b->width * rt_elem_bytes(b->elem)), c->stream);
    }
    for (int64_t k = 0; k < x->call->n_args; k++) params[k] = &x->args[k];
    params[x->call->n_args] = &lo;
    params[x->call->n_args + 1] = &hi;
    return c->driver.launch(c->functions[x->call->kernel], (unsigned)x->launch.grid, 1, 1, (unsigned)x->launch.block, 1,
                            1, (unsigned)x->launch.shared_bytes, c->stream, params, NULL);
}

/* What the host says anew for each run, where it has changed: seed, step, and the hypers, which are few and small. */
static void push_run(RtExec *e)
{
    RtCuda *c = e->options.device;
    for (int64_t i = 0; i < c->layout.n; i++) {
        RtCudaRegion *r = &c->layout.regions[i];
        bool hyper = r->kind == RT_BUF_TENSOR && e->model->tensors[r->ref].kind == RT_HYPER;
        int64_t value = 0;
        if (!hyper && r->kind != RT_BUF_SEED && r->kind != RT_BUF_STEP) continue;
        assert(r->bytes <= (int64_t)sizeof value);
        const void *from = hyper ? e->tensors[r->ref] : r->kind == RT_BUF_SEED ? (void *)&e->seed : (void *)&e->step;
        memcpy(&value, from, (size_t)r->bytes);
        if (r->said && r->value == value) continue;
        note(c, c->driver.to_device(c->memory + (RtCudaPtr)r->at, from, (size_t)r->bytes), "copies to the device");
        r->said = true;
        r->value = value;
    }
}

void rt_cuda_run(RtExec *e, double *ns)
{
    RtCuda *c = e->options.device;
    assert(e->bound);
    push_run(e);
    double before = rt_now_ns();
    for (int64_t i = 0; i < e->program->n_steps && !c->failed.code; i++) {
        note(c, start_step(e, &e->steps[i]), rt_string(e->model, e->steps[i].def->label));
        if (!ns) continue;
        note(c, c->driver.stream_wait(c->stream), rt_string(e->model, e->steps[i].def->label));
        double after = rt_now_ns();
        ns[i] += after - before;
        before = after;
    }
    if (!ns) note(c, c->driver.stream_wait(c->stream), rt_string(e->model, e->program->name));
}

int64_t rt_cuda_run_step(RtExec *e, int64_t i)
{
    RtCuda *c = e->options.device;
    const char *name = rt_string(e->model, e->steps[i].def->label);
    push_run(e);
    if (!c->failed.code) note(c, start_step(e, &e->steps[i]), name);
    if (!c->failed.code) note(c, c->driver.stream_wait(c->stream), name);
    return 1;
}

RtCode rt_cuda_fetch(RtExec *e, int64_t buffer, void *to, int64_t bytes, RtStatus *st)
{
    RtCuda *c = e->options.device;
    if (bytes && !c->failed.code)
        note(c, c->driver.to_host(to, (RtCudaPtr)(uintptr_t)e->buffers[buffer], (size_t)bytes),
             "copies from the device");
    if (c->failed.code && st) *st = c->failed;
    return c->failed.code;
}

RtCode rt_cuda_store(RtExec *e, int64_t buffer, const void *from, int64_t bytes, RtStatus *st)
{
    RtCuda *c = e->options.device;
    if (bytes && !c->failed.code)
        note(c, c->driver.to_device((RtCudaPtr)(uintptr_t)e->buffers[buffer], from, (size_t)bytes),
             "copies to the device");
    if (c->failed.code && st) *st = c->failed;
    return c->failed.code;
}

RtCode rt_cuda_results(RtExec *e, RtStatus *st)
{
    RtCuda *c = e->options.device;
    for (int64_t i = 0; i < c->layout.n && !c->failed.code; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        if (r->kind != RT_BUF_RESULT || r->program != e->program - e->model->programs || !r->bytes) continue;
        note(c, c->driver.to_host(e->results[r->ref], c->memory + (RtCudaPtr)r->at, (size_t)r->bytes),
             "copies from the device");
    }
    if (c->failed.code && st) *st = c->failed;
    return c->failed.code;
}
