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

static RtCode set_launch(RtCuda *c, int64_t kernel, int64_t extent, RtLaunch *l, RtStatus *st)
{
    RT_TRY(rt_cuda_launch(c->model, kernel, extent, c->most_shared, l, st));
    if (l->shared_bytes > SHARED_UNASKED)
        note(c, c->driver.function_attribute(c->functions[kernel], ATTRIBUTE_DYNAMIC_SHARED, (int)l->shared_bytes),
             "a kernel with much shared memory");
    return RT_OK;
}

RtCode rt_cuda_bind(RtExec *e, RtStatus *st)
{
    RtCuda *c = e->options.device;
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        RtExecStep *x = &e->steps[i];
        if (!x->call) continue;
        assert(!x->backend && !x->cone && !x->split);
        if (x->there) continue;
        if (x->call->n_args + 3 > MAX_PARAMS)
            return rt_fail(st, RT_E_DEVICE_REFUSED, rt_string(e->model, x->def->label), NULL,
                           "the kernel has %lld parameters, at most %d are possible", (long long)x->call->n_args,
                           MAX_PARAMS - 3);
        const RtCudaRows *rows = rt_cuda_rows(&c->layout, e->model, e->graph, x->call);
        const RtSplitDef *split = rt_cuda_split(rows, e->model, x->call);
        int64_t n_long = split ? rows->n_long : 0;
        RT_TRY(set_launch(c, x->call->kernel, x->extent - n_long, &x->launch, st));
        if (split) RT_TRY(set_launch(c, split->kernel, rows->n_blocks, &x->blocks, st));
        if (split) RT_TRY(set_launch(c, split->kernel, n_long, &x->joins, st));
        /* a warp computes one part, and there are as many */
        assert(!split || x->blocks.grid * x->blocks.block >= 16 * rows->n_blocks);
    }
    for (int64_t i = 0; i < c->layout.n; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        if (r->kind != RT_BUF_COTANGENT || r->program != e->program - e->model->programs || !r->bytes) continue;
        note(c, c->driver.to_device(c->memory + (RtCudaPtr)r->at, e->cotangents[r->ref], (size_t)r->bytes),
             "copies to the device");
    }
    return RT_OK;
}

/* Iterations [lo, hi) of a kernel, or those that `order` names. */
static int launch(const RtCuda *c, int64_t kernel, const RtLaunch *l, RtArg *args, int64_t n_args, int64_t lo,
                  int64_t hi, RtCudaPtr order)
{
    void *params[MAX_PARAMS];
    if (lo >= hi) return 0;
    for (int64_t k = 0; k < n_args; k++) params[k] = &args[k];
    params[n_args] = &lo, params[n_args + 1] = &hi, params[n_args + 2] = &order;
    return c->driver.launch(c->functions[kernel], (unsigned)l->grid, 1, 1, (unsigned)l->block, 1, 1,
                            (unsigned)l->shared_bytes, c->stream, params, NULL);
}

/* One phase of the parts of long rows that lie at `parts`. */
static int launch_parts(const RtExec *e, const RtExecStep *x, const RtSplitDef *s, int64_t phase, RtCudaPtr parts,
                        int64_t n)
{
    const RtCuda *c = e->options.device;
    const RtCudaRows *rows = rt_cuda_rows(&c->layout, e->model, e->graph, x->call);
    RtCudaPtr state = c->memory + (RtCudaPtr)c->layout.states_at;
    RtArg args[RT_SPLIT_ARGS];
    for (int64_t k = 0; k < s->n_args; k++) {
        const RtStepArg *a = &e->model->step_args[s->first_arg + k];
        const RtBuffer *b = a->is_buffer ? &e->model->buffers[e->program->first_buffer + a->buffer] : NULL;
        if (!b) args[k].i = a->count.kind == RT_COUNT_SPLIT ? phase : rt_count_value(e->graph, &a->count, RT_OWNED);
        else if (b->kind != RT_BUF_STATE) args[k].p = e->buffers[a->buffer];
        else {
            args[k].p = (void *)(uintptr_t)state;
            state += (RtCudaPtr)rt_cuda_state_bytes(b, rows);
        }
    }
    return launch(c, s->kernel, phase == RT_SPLIT_LAST ? &x->joins : &x->blocks, args, s->n_args, 0, n, parts);
}

/* All iterations of a step, whose arguments are the device's addresses. */
static int start_step(const RtExec *e, const RtExecStep *x)
{
    RtCuda *c = e->options.device;
    if (!x->extent) return 0;
    if (x->there) return rt_cuda_product(c, e, x), 0; /* notes its own failures */
    if (!x->call) {                                   /* a copy: see exec.c */
        const RtMove *m = &e->model->moves[x->def->part];
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + m->from];
        return c->driver.move((RtCudaPtr)(uintptr_t)e->buffers[m->to], (RtCudaPtr)(uintptr_t)e->buffers[m->from],
                              (size_t)(x->extent * b->width * rt_elem_bytes(b->elem)), c->stream);
    }
    const RtCudaRows *rows = rt_cuda_rows(&c->layout, e->model, e->graph, x->call);
    const RtSplitDef *split = rt_cuda_split(rows, e->model, x->call);
    RtCudaPtr parts = rows ? c->memory + (RtCudaPtr)rows->at : 0;
    RtCudaPtr whole = rows ? parts + 8 * RT_PART_NUMBERS * (RtCudaPtr)rows->n_blocks : 0;
    RtCudaPtr order = rows ? whole + 8 * RT_PART_NUMBERS * (RtCudaPtr)rows->n_long : 0;
    int error = 0;
    for (int64_t phase = 0; split && !error && phase < split->walks; phase++)
        error = launch_parts(e, x, split, phase, parts, rows->n_blocks);
    if (split && !error) error = launch_parts(e, x, split, RT_SPLIT_LAST, whole, rows->n_long);
    if (error) return error;
    return launch(c, x->call->kernel, &x->launch, x->args, x->call->n_args, split ? rows->n_long : 0, x->extent, order);
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
