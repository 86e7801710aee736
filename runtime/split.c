/* Rows that threads share: see split.h. Never allocates while running. */
#include "runtime/split.h"
#include "runtime/cone.h"
#include <assert.h>
#include <stdlib.h>

enum { LEAST = 16384, PARTS = 4 }; /* elements of a row; parts of each walk, per thread */

static const char what[] = "rows that threads share";

struct RtSplit {
    RtArg self;
    RtExec *e;
    const RtExecStep *x;
    const RtSplitDef *def;
    int64_t phase, n, n_parts;
    /* of e->states: behind those of the steps before it in its chain, which all run before the strips */
    int64_t at, bytes;
    RtKernelFn fn;
    const int64_t *rows; /* of the map */
    int64_t *which;      /* [n] rows, ascending */
    int64_t *first;      /* [n + 1] blocks before each */
    int64_t *bounds;     /* [n_parts + 1] parts, of all blocks */
    RtArg *args;         /* [n_split_args] in e->states; the others are the step's */
    int64_t *same;       /* [n_split_args] the step's argument, or -1 */
};

static int64_t blocks_of(int64_t elements) { return (elements + RT_SPLIT_BLOCK - 1) / RT_SPLIT_BLOCK; }
static int64_t length(const RtSplit *s, int64_t row) { return s->rows[row + 1] - s->rows[row]; }

/* ---- which rows -------------------------------------------------------------------------------------------------- */

static int64_t least_of(const RtExec *e, const int64_t *rows, int64_t n)
{
    int64_t threads = rt_pool_threads(e->options.pool);
    if (e->options.split) return e->options.split < 0 ? INT64_MAX : e->options.split;
    if (threads < 2) return INT64_MAX;
    int64_t half = (rows[n] + n) / (2 * threads);
    return half > LEAST ? half : LEAST;
}

/* The row that has the element at this position. */
static int64_t row_at(const int64_t *rows, int64_t n, int64_t position)
{
    int64_t lo = 0, hi = n;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (rows[mid] <= position) lo = mid;
        else hi = mid;
    }
    assert(rows[lo] <= position && position < rows[lo + 1]);
    return lo;
}

static bool is_needed(const RtConeStep *c, int64_t row)
{
    int64_t k = c && c->runs ? rt_cone_run_at(c, row) : 0;
    return !c || !c->runs || (k < c->n_runs && c->runs[2 * k] <= row);
}

/* Finds the rows of at least `least` elements that the step computes: each has an element whose position is a multiple
   of `least`. Returns their number. */
static int64_t find_rows(const RtExecStep *x, int64_t least, int64_t *which)
{
    const int64_t *rows = x->rows;
    assert(least > 0);
    int64_t found = 0, last = -1, n = x->extent;
    for (int64_t at = 0; at < rows[n]; at += least) {
        int64_t row = row_at(rows, n, at);
        if (row == last || rows[row + 1] - rows[row] < least || !is_needed(x->cone, row)) continue;
        last = row;
        if (which) which[found] = row;
        found++;
        if (least > rows[n] - at) break; /* at + least would overflow */
    }
    return found;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Bytes of a row of an argument that is a buffer of this kind; else 0. */
static int64_t row_bytes(const RtSplit *s, int64_t arg, int64_t kind)
{
    const RtStepArg *a = &s->e->model->step_args[s->def->first_arg + arg];
    const RtBuffer *b = a->is_buffer ? &s->e->model->buffers[s->e->program->first_buffer + a->buffer] : NULL;
    if (!b || b->kind != kind) return 0;
    return b->width * rt_elem_bytes(b->elem);
}

/* Of the blocks' states, or of a row to be read for nothing where the strip is not there yet. */
static int64_t own_bytes(const RtSplit *s, int64_t arg)
{
    int64_t bytes = s->first[s->n] * row_bytes(s, arg, RT_BUF_STATE) + row_bytes(s, arg, RT_BUF_STRIP);
    return (bytes + 63) / 64 * 64;
}

static bool is_count(const RtCount *a, const RtCount *b)
{
    if (a->kind == RT_COUNT_AHEAD) return b->kind == a->kind;
    return a->kind == b->kind && a->space == b->space && a->value == b->value && a->block == b->block &&
           a->max == b->max;
}

static int64_t same_arg(const RtSplit *s, int64_t arg)
{
    const RtCall *call = s->x->call;
    const RtStepArg *all = s->e->model->step_args, *a = &all[s->def->first_arg + arg];
    for (int64_t k = 0; k < call->n_args; k++) {
        const RtStepArg *b = &all[call->first_arg + k];
        if (a->is_buffer == b->is_buffer && (a->is_buffer ? a->buffer == b->buffer : is_count(&a->count, &b->count)))
            return k;
    }
    return -1;
}

static int64_t end_of_earlier(const RtExec *e, int64_t step)
{
    const RtChainDef *chain = rt_step_chain(e, step);
    while (chain && step-- > chain->first) {
        const RtSplit *s = e->steps[step].split;
        if (s) return s->at + s->bytes;
    }
    return 0;
}

static RtCode fill(RtSplit *s, int64_t least, RtStatus *st)
{
    RtExec *e = s->e;
    int64_t threads = rt_pool_threads(e->options.pool), n_args = s->def->n_args;
    RT_TRY(rt_alloc(&s->which, s->n, sizeof *s->which, what, st));
    RT_TRY(rt_alloc(&s->first, s->n + 1, sizeof *s->first, what, st));
    RT_TRY(rt_alloc(&s->bounds, PARTS * threads + 1, sizeof *s->bounds, what, st));
    RT_TRY(rt_alloc(&s->args, n_args, sizeof *s->args, what, st));
    RT_TRY(rt_alloc(&s->same, n_args, sizeof *s->same, what, st));
    find_rows(s->x, least, s->which);
    for (int64_t i = 1; i < s->n; i++) assert(s->which[i - 1] < s->which[i]);
    for (int64_t i = 0; i < s->n; i++) s->first[i + 1] = s->first[i] + blocks_of(length(s, s->which[i]));
    assert(s->first[s->n] >= s->n && n_args <= RT_SPLIT_ARGS); /* each row has a block */
    s->n_parts = rt_cut_count(s->first[s->n], 1, (int)threads, PARTS);
    rt_cut(s->first[s->n], NULL, NULL, s->n_parts, s->bounds);
    for (int64_t k = 0; k < n_args; k++) {
        s->bytes += own_bytes(s, k);
        s->same[k] = same_arg(s, k);
    }
    s->at = end_of_earlier(e, s->x - e->steps);
    if (s->at + s->bytes > e->states_bytes) e->states_bytes = s->at + s->bytes;
    return RT_OK;
}

RtCode rt_split_make(RtExec *e, int64_t step, RtSplit **out, RtStatus *st)
{
    const RtExecStep *x = &e->steps[step];
    rt_split_free(*out);
    *out = NULL;
    if (x->call->split < 0 || !x->rows) return RT_OK;
    const RtSplitDef *def = &e->model->splits[x->call->split];
    int64_t least = least_of(e, x->rows, x->extent), n = find_rows(x, least, NULL);
    RtKernelFn fn = rt_exec_kernel(e, def->kernel);
    if (!n || !fn) return RT_OK;
    RtSplit *s;
    RT_TRY(rt_alloc(&s, 1, sizeof *s, what, st));
    *s = (RtSplit){.self = {.p = s}, .e = e, .x = x, .def = def, .n = n, .fn = fn, .rows = x->rows};
    *out = s;
    return fill(s, least, st);
}

void rt_split_free(RtSplit *s)
{
    if (!s) return;
    free(s->which);
    free(s->first);
    free(s->bounds);
    free(s->args);
    free(s->same);
    free(s);
}

int64_t rt_split_count(const RtSplit *s) { return s->n; }

void rt_split_bind(RtSplit *s)
{
    assert((size_t)(s->at + s->bytes) <= s->e->states.bytes);
    char *state = (char *)s->e->states.p + s->at;
    for (int64_t k = 0; k < s->def->n_args; k++) {
        s->args[k].p = state;
        state += own_bytes(s, k);
    }
}

int64_t rt_split_weight(const RtSplit *s, int64_t row)
{
    int64_t w = s->rows[row] + row;
    for (int64_t i = 0; i < s->n && s->which[i] < row; i++)
        w -= length(s, s->which[i]) - blocks_of(length(s, s->which[i]));
    return w;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* args: the step's. */
static void call(const RtSplit *s, const RtArg *args, int64_t i, int64_t phase, int64_t from, int64_t to)
{
    const int64_t values[] = {
        [RT_SPLIT_PHASE] = phase, [RT_SPLIT_FROM] = from, [RT_SPLIT_TO] = to, [RT_SPLIT_FIRST] = s->first[i]};
    RtArg own[RT_SPLIT_ARGS];
    for (int64_t k = 0; k < s->def->n_args; k++) {
        const RtStepArg *a = &s->e->model->step_args[s->def->first_arg + k];
        int64_t strip = phase == RT_SPLIT_LAST ? 0 : row_bytes(s, k, RT_BUF_STRIP);
        own[k] = s->same[k] >= 0 && !strip ? args[s->same[k]] : s->args[k];
        /* kernels count rows from the first */
        if (strip) own[k].p = (void *)((uintptr_t)own[k].p - (uintptr_t)(strip * s->which[i]));
        assert(a->is_buffer || a->count.kind != RT_COUNT_SPLIT || a->count.value <= RT_SPLIT_FIRST);
        if (!a->is_buffer && a->count.kind == RT_COUNT_SPLIT) own[k].i = values[a->count.value];
    }
    s->fn(own, s->which[i], s->which[i] + 1);
}

/* Blocks [lo, hi) of all, in the walk whose turn it is. */
static void run_part(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtSplit *s = args[0].p;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t a = lo > s->first[i] ? lo : s->first[i], b = hi < s->first[i + 1] ? hi : s->first[i + 1];
        if (a >= b) continue;
        int64_t begin = s->rows[s->which[i]], end = s->rows[s->which[i] + 1];
        int64_t from = begin + (a - s->first[i]) * RT_SPLIT_BLOCK, to = begin + (b - s->first[i]) * RT_SPLIT_BLOCK;
        assert(from < end);
        call(s, s->x->args, i, s->phase, from, to < end ? to : end);
    }
}

void rt_split_walks(RtSplit *s)
{
    for (s->phase = 0; s->phase < s->def->walks; s->phase++)
        rt_pool_run(s->e->options.pool, run_part, &s->self, s->bounds, NULL, s->n_parts);
}

void rt_split_rows(const RtSplit *s, const RtArg *args, int64_t lo, int64_t hi)
{
    assert(lo <= hi);
    RtKernelFn fn = s->x->fn;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t row = s->which[i];
        if (row < lo || row >= hi) continue;
        if (lo < row) fn(args, lo, row);
        call(s, args, i, RT_SPLIT_LAST, 0, 0);
        lo = row + 1;
    }
    if (lo < hi) fn(args, lo, hi);
}
