/* Which steps of a program a device may do side by side. On a graph of some thousand nodes a step fills a part of the
   device alone, so those that do not wait for one another share it: gradients of one layer's parameters and of its
   input, say.

   A step waits for one before it where one of them writes bytes that the other one reads or writes. Bytes, not arrays:
   an array may lie where another one did that nothing reads any more. Steps are dealt to lanes, each a stream of the
   device, in which they run one after another: a step goes behind one that it waits for, if that is its lane's last,
   and says which other lanes have to be as far as they are. Steps that fill the device go into the first lane: side by
   side they would only take one another's caches. */
#include "runtime/cuda.h"
#include <assert.h>
#include <stdlib.h>

typedef struct Bytes {
    uintptr_t from, to;
    bool written;
} Bytes;

typedef struct Touched {
    Bytes *bytes;   /* what all steps touch */
    int64_t *first; /* [n_steps + 1] where those of a step begin */
    int64_t n;
} Touched;

static void touch(const RtExec *e, Touched *t, int64_t buffer, bool written)
{
    uintptr_t at = (uintptr_t)e->buffers[buffer];
    int64_t bytes = at ? rt_cuda_buffer_bytes(e, buffer) : 0;
    if (bytes > 0) t->bytes[t->n++] = (Bytes){at, at + (uintptr_t)bytes, written};
}

static void touch_args(const RtExec *e, Touched *t, int64_t first, int64_t n)
{
    for (const RtStepArg *a = e->model->step_args + first; n-- > 0; a++)
        if (a->is_buffer) touch(e, t, a->buffer, a->written);
}

static const RtSplitDef *split_of(const RtModel *m, const RtCall *call)
{
    return call->split >= 0 ? &m->splits[call->split] : NULL;
}

/* What a step touches at most. */
static int64_t most_touched(const RtModel *m, const RtCall *call)
{
    const RtSplitDef *split = split_of(m, call);
    return call->n_args + (split ? split->n_args : 0);
}

static RtCode find_touched(const RtExec *e, Touched *t, RtStatus *st)
{
    const RtModel *m = e->model;
    int64_t n = e->program->n_steps, most = 0;
    for (int64_t i = 0; i < n; i++) most += most_touched(m, rt_step_call(m, e->steps[i].def));
    RT_TRY(rt_alloc(&t->first, n + 1, sizeof *t->first, "steps of a device", st));
    RT_TRY(rt_alloc(&t->bytes, most, sizeof *t->bytes, "steps of a device", st));
    for (int64_t i = 0; i < n; i++) {
        const RtCall *call = rt_step_call(m, e->steps[i].def);
        const RtSplitDef *split = split_of(m, call);
        t->first[i] = t->n;
        touch_args(e, t, call->first_arg, call->n_args);
        if (split) touch_args(e, t, split->first_arg, split->n_args);
    }
    t->first[n] = t->n;
    assert(t->n <= most);
    return RT_OK;
}

static bool waits(const Touched *t, int64_t step, int64_t before)
{
    for (int64_t i = t->first[step]; i < t->first[step + 1]; i++)
        for (int64_t k = t->first[before]; k < t->first[before + 1]; k++) {
            const Bytes *x = &t->bytes[i], *y = &t->bytes[k];
            if ((x->written || y->written) && x->from < y->to && y->from < x->to) return true;
        }
    return false;
}

static bool fills(const RtCuda *c, const RtExecStep *x)
{
    int64_t threads = x->launch.grid * x->launch.block + x->blocks.grid * x->blocks.block;
    return x->there || threads >= c->most_threads;
}

/* The lane of a step. last, need: by lane, its last step, and the last of its steps that this one waits for; -1:
   none. */
static int choose(const int64_t *last, const int64_t *need)
{
    int best = -1, oldest = 1;
    for (int l = 0; l < RT_CUDA_LANES; l++)
        if (last[l] >= 0 && need[l] == last[l] && (best < 0 || last[l] > last[best])) best = l;
    for (int l = 2; l < RT_CUDA_LANES; l++)
        if (last[l] < last[oldest]) oldest = l;
    return best >= 0 ? best : oldest;
}

RtCode rt_cuda_lanes(const RtExec *e, RtCudaTurn *turns, RtStatus *st)
{
    Touched t = {0};
    int64_t last[RT_CUDA_LANES],
        seen[RT_CUDA_LANES][RT_CUDA_LANES]; /* [lane][other]: how far the lane has waited for it */
    for (int l = 0; l < RT_CUDA_LANES; l++) {
        last[l] = -1;
        for (int k = 0; k < RT_CUDA_LANES; k++) seen[l][k] = -1;
    }
    RtCode code = find_touched(e, &t, st);
    for (int64_t i = 0; i < e->program->n_steps && !code; i++) {
        int64_t need[RT_CUDA_LANES];
        for (int l = 0; l < RT_CUDA_LANES; l++) need[l] = -1;
        for (int64_t k = 0; k < i; k++)
            if (waits(&t, i, k)) need[turns[k].lane] = k;
        int lane = fills(e->options.device, &e->steps[i]) ? 0 : choose(last, need);
        turns[i] = (RtCudaTurn){.lane = lane};
        for (int l = 0; l < RT_CUDA_LANES; l++) {
            if (l == lane || need[l] <= seen[lane][l]) continue;
            turns[i].behind |= 1u << l;
            seen[lane][l] = last[l];
            for (int k = 0; k < RT_CUDA_LANES; k++) /* and for what that one has waited for */
                if (k != lane && seen[l][k] > seen[lane][k]) seen[lane][k] = seen[l][k];
        }
        last[lane] = i;
    }
    free(t.first);
    free(t.bytes);
    return code;
}
