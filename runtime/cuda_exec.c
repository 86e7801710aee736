/* Runs a program's steps on a device (see cuda.h): one after another, or as a graph in which some run side by side. */
#include "runtime/clock.h"
#include "runtime/cuda.h"
#include <assert.h>
#include <stdlib.h>
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

void rt_cuda_unbind(RtExec *e)
{
    if (e->replay) e->options.device->driver.replay_free(e->replay);
    e->replay = NULL;
    e->n_runs = 0;
}

/* Says where the program's arrays lie, and how long they are, to who watches its kernels. */
static RtCode show_arrays(const RtExec *e, RtStatus *st)
{
    const RtCuda *c = e->options.device;
    const RtCudaLayout *l = &c->layout;
    for (int64_t i = 0; i < e->program->n_buffers; i++)
        RT_TRY(rt_cuda_watch_array(c->watch, (uintptr_t)e->buffers[i], rt_cuda_buffer_bytes(e, i), st));
    for (int64_t i = 0; i < l->n_rows; i++) {
        const RtCudaRows *x = &l->rows[i];
        RtCudaPtr at = c->memory + (RtCudaPtr)x->at, part = 8 * RT_PART_NUMBERS;
        RT_TRY(rt_cuda_watch_array(c->watch, at, (int64_t)part * x->n_blocks, st));
        RT_TRY(rt_cuda_watch_array(c->watch, at + part * (RtCudaPtr)x->n_blocks, (int64_t)part * x->n_long, st));
        RT_TRY(rt_cuda_watch_array(c->watch, at + part * (RtCudaPtr)(x->n_blocks + x->n_long), 4 * x->n, st));
    }
    return RT_OK;
}

/* The order of the rows that a step computes; NULL: as they stand, as where it computes those of other processes
   too. */
static const RtCudaRows *rows_of(const RtExec *e, const RtExecStep *x)
{
    const RtCudaRows *rows = rt_cuda_rows(&e->options.device->layout, e->model, e->graph, x->call);
    return rows && rows->n == x->extent ? rows : NULL;
}

RtCode rt_cuda_bind(RtExec *e, RtStatus *st)
{
    RtCuda *c = e->options.device;
    rt_cuda_unbind(e);
    if (c->watch) RT_TRY(show_arrays(e, st));
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        RtExecStep *x = &e->steps[i];
        assert(!x->backend && !x->cone && !x->split);
        if (x->there) continue;
        if (x->call->n_args + 3 > MAX_PARAMS)
            return rt_fail(st, RT_E_DEVICE_REFUSED, rt_string(e->model, x->def->label), NULL,
                           "the kernel has %lld parameters, at most %d are possible", (long long)x->call->n_args,
                           MAX_PARAMS - 3);
        const RtCudaRows *rows = rows_of(e, x);
        const RtSplitDef *split = rt_cuda_split(rows, e->model, x->call);
        int64_t n_long = split ? rows->n_long : 0;
        RT_TRY(set_launch(c, x->call->kernel, x->extent - n_long, &x->launch, st));
        if (split) RT_TRY(set_launch(c, split->kernel, rows->n_blocks, &x->blocks, st));
        if (split) RT_TRY(set_launch(c, split->kernel, n_long, &x->joins, st));
        /* a warp computes one part, and there are as many */
        assert(!split ||
               x->blocks.grid * x->blocks.block >= e->model->device_kernels[split->kernel].lanes * rows->n_blocks);
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
                  int64_t hi, RtCudaPtr order, void *stream)
{
    void *params[MAX_PARAMS];
    if (lo >= hi) return 0;
    for (int64_t k = 0; k < n_args; k++) params[k] = &args[k];
    params[n_args] = &lo, params[n_args + 1] = &hi, params[n_args + 2] = &order;
    return c->driver.launch(c->functions[kernel], (unsigned)l->grid, 1, 1, (unsigned)l->block, 1, 1,
                            (unsigned)l->shared_bytes, stream, params, NULL);
}

/* One phase of the parts of long rows that lie at `parts`. */
static int launch_parts(const RtExec *e, const RtExecStep *x, const RtSplitDef *s, int64_t phase, RtCudaPtr parts,
                        int64_t n)
{
    const RtCuda *c = e->options.device;
    const RtCudaRows *rows = rows_of(e, x);
    RtCudaPtr state = c->memory + (RtCudaPtr)c->layout.states_at;
    RtArg args[RT_SPLIT_ARGS];
    for (int64_t k = 0; k < s->n_args; k++) {
        const RtStepArg *a = &e->model->step_args[s->first_arg + k];
        const RtBuffer *b = a->is_buffer ? &e->model->buffers[e->program->first_buffer + a->buffer] : NULL;
        if (!b) args[k].i = a->count.kind == RT_COUNT_SPLIT ? phase : rt_count_value(e->graph, &a->count, RT_OWNED);
        else if (b->kind != RT_BUF_STATE) args[k].p = e->buffers[a->buffer];
        else {
            args[k].p = (void *)(uintptr_t)state;
            rt_cuda_watch_array(c->watch, state, rt_cuda_state_bytes(b, rows), NULL);
            state += (RtCudaPtr)rt_cuda_state_bytes(b, rows);
        }
    }
    return launch(c, s->kernel, phase == RT_SPLIT_LAST ? &x->joins : &x->blocks, args, s->n_args, 0, n, parts,
                  c->beside);
}

/* All iterations of a step, whose arguments are the device's addresses. Parts of long rows are computed beside the
   other
   rows: a step's iterations read nothing that another one writes. */
static int start_step(const RtExec *e, const RtExecStep *x)
{
    RtCuda *c = e->options.device;
    const RtCudaDriver *d = &c->driver;
    if (!x->extent) return 0;
    if (x->there) return rt_cuda_product(c, e, x), 0; /* notes its own failures */
    const RtCudaRows *rows = rows_of(e, x);
    const RtSplitDef *split = rt_cuda_split(rows, e->model, x->call);
    RtCudaPtr parts = rows ? c->memory + (RtCudaPtr)rows->at : 0;
    RtCudaPtr whole = rows ? parts + 8 * RT_PART_NUMBERS * (RtCudaPtr)rows->n_blocks : 0;
    RtCudaPtr order = rows ? whole + 8 * RT_PART_NUMBERS * (RtCudaPtr)rows->n_long : 0;
    int error = split ? d->event_note(c->forked, c->stream) : 0;
    if (split && !error) error = d->stream_follow(c->beside, c->forked, 0);
    for (int64_t phase = 0; split && !error && phase < split->walks; phase++)
        error = launch_parts(e, x, split, phase, parts, rows->n_blocks);
    if (split && !error) error = launch_parts(e, x, split, RT_SPLIT_LAST, whole, rows->n_long);
    if (split && !error) error = d->event_note(c->joined, c->beside);
    if (!error)
        error = launch(c, x->call->kernel, &x->launch, x->args, x->call->n_args, split ? rows->n_long : 0, x->extent,
                       order, c->stream);
    return split && !error ? d->stream_follow(c->stream, c->joined, 0) : error;
}

/* All steps, in order. *label: of the one that failed. */
static int start_steps(const RtExec *e, const char **label)
{
    int error = 0;
    for (int64_t i = 0; i < e->program->n_steps && !error; i++) {
        error = start_step(e, &e->steps[i]);
        *label = rt_string(e->model, e->steps[i].def->label);
    }
    return error;
}

/* The same in a capture, where lanes of streams have what may run side by side (cuda_lanes.c). */
static int start_lanes(const RtExec *e, const RtCudaTurn *turns)
{
    RtCuda *c = e->options.device;
    const RtCudaDriver *d = &c->driver;
    void *lanes[RT_CUDA_LANES], *origin = c->stream;
    bool begun[RT_CUDA_LANES] = {true};
    int error = 0;
    memcpy(lanes, c->lanes, sizeof lanes);
    lanes[0] = origin;
    for (int l = 0; l < RT_CUDA_LANES && !error; l++) error = d->event_note(c->reached[l], origin);
    for (int64_t i = 0; i < e->program->n_steps && !error; i++) {
        int lane = turns[i].lane;
        if (!begun[lane]) error = d->stream_follow(lanes[lane], c->reached[lane], 0);
        begun[lane] = true;
        for (int l = 0; l < RT_CUDA_LANES && !error; l++)
            if (turns[i].behind >> l & 1) error = d->stream_follow(lanes[lane], c->reached[l], 0);
        c->stream = lanes[lane];
        if (!error) error = start_step(e, &e->steps[i]);
        c->stream = origin;
        if (!error) error = d->event_note(c->reached[lane], lanes[lane]);
    }
    for (int l = 1; l < RT_CUDA_LANES && !error; l++)
        if (begun[l]) error = d->stream_follow(origin, c->reached[l], 0);
    return error;
}

/* ---- what passes between host and device at each run ---- */

void rt_cuda_wait(RtCuda *c)
{
    if (c) note(c, c->driver.stream_wait(c->stream), "what was begun");
}

/* What the host says anew for each run: seed, step and the hypers. Words that have changed go along with the calls that
   say so, in the order of the stream; nothing of the host's memory is read later. */
static void say(RtExec *e)
{
    RtCuda *c = e->options.device;
    const RtCudaLayout *l = &c->layout;
    for (int64_t i = 0; i < l->n; i++) {
        const RtCudaRegion *r = &l->regions[i];
        if (r->at < l->said_at || r->at >= l->said_at + l->said_bytes) continue;
        const void *from = r->kind == RT_BUF_SEED   ? (void *)&e->seed
                           : r->kind == RT_BUF_STEP ? (void *)&e->step
                                                    : e->tensors[r->ref];
        uint64_t value = 0, *said = &c->said[(r->at - l->said_at) / RT_CUDA_NUMBER];
        memcpy(&value, from, (size_t)r->bytes);
        for (int k = 0; k < 2; k++) {
            uint32_t word = (uint32_t)(value >> 32 * k);
            if ((uint32_t)(*said >> 32 * k) == word) continue;
            RtCudaPtr at = c->memory + (RtCudaPtr)(r->at + 4 * k);
            note(c, c->driver.say_words(at, word, 1, c->stream), "what a run is told");
        }
        *said = value;
    }
}

/* Waits for the end of all runs, and for their results that are numbers. */
static void read_numbers(RtCuda *c, const char *what)
{
    const RtCudaLayout *l = &c->layout;
    if (!c->unread) return;
    if (l->numbers_bytes)
        note(c,
             c->driver.to_host_later(c->numbers, c->memory + (RtCudaPtr)l->numbers_at, (size_t)l->numbers_bytes,
                                     c->stream),
             "copies from the device");
    note(c, c->driver.stream_wait(c->stream), what);
    c->unread = false;
}

/* ---- runs ---- */

enum { CAPTURE_RELAXED = 2 }; /* nobody else's calls are refused meanwhile */

/* Has the driver note the program's steps instead of doing them, as a graph that one call starts. If anything of that
   fails, steps are started one by one, which says what is wrong with one. */
static void capture(RtExec *e)
{
    const RtCuda *c = e->options.device;
    const RtCudaDriver *d = &c->driver;
    RtCudaTurn *turns;
    void *graph = NULL;
    for (int64_t i = 0; i < e->program->n_steps; i++)
        if (d->shim && e->steps[i].there) return; /* what tests have in cuBLAS's place computes at once */
    if (rt_alloc(&turns, e->program->n_steps, sizeof *turns, "steps of a device", NULL)) return;
    if (!rt_cuda_lanes(e, turns, NULL) && !d->capture_begin(c->stream, CAPTURE_RELAXED)) {
        int error = start_lanes(e, turns);
        if (!d->capture_end(c->stream, &graph) && graph) {
            if (error || d->replay_make(&e->replay, graph, 0)) e->replay = NULL;
            d->graph_free(graph);
        }
    }
    free(turns);
}

void rt_cuda_run(RtExec *e)
{
    RtCuda *c = e->options.device;
    const char *what = rt_string(e->model, e->program->name);
    assert(e->bound);
    say(e);
    if (c->failed.code) return;
    if (++e->n_runs == 2) capture(e);
    c->unread = true;
    int error = e->replay ? c->driver.replay(e->replay, c->stream) : start_steps(e, &what);
    note(c, error, what);
}

void rt_cuda_run_timed(RtExec *e, double *ns)
{
    RtCuda *c = e->options.device;
    say(e);
    rt_cuda_wait(c);
    double before = rt_now_ns();
    for (int64_t i = 0; i < e->program->n_steps && !c->failed.code; i++) {
        rt_cuda_run_step(e, i);
        double after = rt_now_ns();
        ns[i] += after - before;
        before = after;
    }
}

int64_t rt_cuda_run_step(RtExec *e, int64_t i)
{
    RtCuda *c = e->options.device;
    const char *label = rt_string(e->model, e->steps[i].def->label);
    say(e);
    if (!c->failed.code) note(c, start_step(e, &e->steps[i]), label);
    if (!c->failed.code) note(c, c->driver.stream_wait(c->stream), label);
    c->unread = true;
    return 1;
}

void rt_cuda_count_step(RtExec *e, int64_t i, RtCudaCounts *counts)
{
    RtCuda *c = e->options.device;
    rt_cuda_watch_count(c->watch, counts);
    rt_cuda_run_step(e, i);
    rt_cuda_watch_count(c->watch, NULL);
}

void rt_cuda_begin(RtExec *e)
{
    assert(e->bound);
    say(e);
    e->options.device->unread = true;
}

void rt_cuda_begin_step(RtExec *e, int64_t i)
{
    RtCuda *c = e->options.device;
    if (!c->failed.code) note(c, start_step(e, &e->steps[i]), rt_string(e->model, e->steps[i].def->label));
}

void rt_cuda_begin_iterations(RtExec *e, int64_t i, int64_t lo, int64_t hi)
{
    RtCuda *c = e->options.device;
    const RtExecStep *x = &e->steps[i];
    RtLaunch l;
    assert(x->call && lo >= 0);
    if (lo >= hi || c->failed.code || set_launch(c, x->call->kernel, hi - lo, &l, &c->failed)) return;
    note(c, launch(c, x->call->kernel, &l, x->args, x->call->n_args, lo, hi, 0, c->stream),
         rt_string(e->model, x->def->label));
}

RtCode rt_cuda_read(RtCuda *c, void *to, RtCudaPtr from, int64_t bytes, RtStatus *st)
{
    if (bytes && !c->failed.code) note(c, c->driver.to_host(to, from, (size_t)bytes), "copies from the device");
    if (c->failed.code && st) *st = c->failed;
    return c->failed.code;
}

RtCode rt_cuda_write(RtCuda *c, RtCudaPtr to, const void *from, int64_t bytes, RtStatus *st)
{
    if (bytes && !c->failed.code) note(c, c->driver.to_device(to, from, (size_t)bytes), "copies to the device");
    if (c->failed.code && st) *st = c->failed;
    return c->failed.code;
}

RtCode rt_cuda_fetch(RtExec *e, int64_t buffer, void *to, int64_t bytes, RtStatus *st)
{
    return rt_cuda_read(e->options.device, to, (RtCudaPtr)(uintptr_t)e->buffers[buffer], bytes, st);
}

RtCode rt_cuda_store(RtExec *e, int64_t buffer, const void *from, int64_t bytes, RtStatus *st)
{
    return rt_cuda_write(e->options.device, (RtCudaPtr)(uintptr_t)e->buffers[buffer], from, bytes, st);
}

RtCode rt_cuda_results(RtExec *e, RtStatus *st)
{
    RtCuda *c = e->options.device;
    if (!c->failed.code) read_numbers(c, rt_string(e->model, e->program->name));
    for (int64_t i = 0; i < c->layout.n && !c->failed.code; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        if (r->kind != RT_BUF_RESULT || r->program != e->program - e->model->programs || !r->bytes) continue;
        if (rt_cuda_is_number(r))
            memcpy(e->results[r->ref], c->numbers + (r->at - c->layout.numbers_at), (size_t)r->bytes);
        else
            note(c, c->driver.to_host(e->results[r->ref], c->memory + (RtCudaPtr)r->at, (size_t)r->bytes),
                 "copies from the device");
    }
    if (c->failed.code && st) *st = c->failed;
    return c->failed.code;
}
