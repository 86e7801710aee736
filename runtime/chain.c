/* Chains of steps: see chain.h. Never allocates while running. */
#include "runtime/chain.h"
#include "runtime/memory.h"
#include "runtime/split.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct Link {
    RtKernelFn fn;
    int64_t first_arg, block; /* rows of one iteration */
    const RtExecStep *step; /* whose rows threads may share */
} Link;

typedef struct Patch { /* an argument that is the strip's */
    int64_t arg, row_bytes, offset;
} Patch;

struct RtChain {
    RtArg self;
    const RtArg *args; /* of all its steps, one after another */
    int64_t n_args, n_links, n_patches, rows, strip, n_strips, grain;
    Link links[RT_CHAIN_STEPS];
    Patch patches[RT_CHAIN_ARGS];
    RtBlock memory;   /* [n_threads][strip_bytes] */
    int64_t n_threads, strip_bytes;
    atomic_flag *taken; /* [n_threads] */
    int64_t *weights; /* [n_strips + 1] as rt_cut wants them; NULL: strips are alike */
};

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Strips worth a thread: all steps of one count. */
static int64_t grain_of(const RtChain *c, const RtStep *s)
{
    double share = 0;
    for (int64_t k = 0; k < c->n_links; k++)
        share += (double)c->strip / (double)c->links[k].block / (double)(s[k].grain > 0 ? s[k].grain : 1);
    return share >= 1 ? 1 : (int64_t)(1 / share) + 1;
}

/* The first step whose rows are sums over a list, or -1. */
static int64_t sums_of(const RtExec *e, const RtStep *s, int64_t n, int64_t rows)
{
    for (int64_t k = 0; k < n; k++)
        if (s[k].cut >= 0 && e->graph->spaces[e->model->maps[s[k].cut].to].count == rows) return k;
    return -1;
}

static RtCode weigh(const RtExec *e, const RtStep *s, RtChain *c, RtStatus *st)
{
    int64_t k = sums_of(e, s, c->n_links, c->rows);
    const int64_t *rows = k < 0 ? NULL : e->graph->maps[s[k].cut].rows;
    const RtSplit *split = k < 0 ? NULL : c->links[k].step->split;
    free(c->weights);
    c->weights = NULL;
    if (!rows) return RT_OK;
    RT_TRY(rt_alloc(&c->weights, c->n_strips + 1, sizeof *c->weights, "a chain of steps", st));
    for (int64_t i = 0; i <= c->n_strips; i++) {
        int64_t row = at_most(i * c->strip, c->rows);
        c->weights[i] = (split ? rt_split_weight(split, row) : rows[row] + row) - i;
    }
    return RT_OK;
}

/* Arguments in the strip: one array for a buffer. */
static void find_patches(const RtExec *e, const RtStep *s, RtChain *c)
{
    int64_t end = 0, buffer_of[RT_CHAIN_ARGS];
    for (int64_t k = 0; k < c->n_links; k++)
        for (int64_t i = 0; i < s[k].n_args; i++) {
            const RtStepArg *a = &e->model->step_args[s[k].first_arg + i];
            const RtBuffer *b = a->is_buffer ? &e->model->buffers[e->program->first_buffer + a->buffer] : NULL;
            if (!b || b->kind != RT_BUF_STRIP) continue;
            int64_t size = b->elem == RT_K_F64 || b->elem == RT_K_I64 ? 8 : b->elem <= RT_K_I8 ? 1 : 4;
            Patch p = {c->links[k].first_arg + i, b->width * size, end};
            int64_t known = 0;
            while (known < c->n_patches && buffer_of[known] != a->buffer) known++;
            if (known < c->n_patches) p.offset = c->patches[known].offset;
            else end += (c->strip * p.row_bytes + 63) / 64 * 64;
            buffer_of[c->n_patches] = a->buffer;
            c->patches[c->n_patches++] = p;
        }
    c->strip_bytes = end;
}

/* A strip for each thread; an earlier graph's are as large. */
static RtCode take_memory(const RtExec *e, RtChain *c, RtStatus *st)
{
    c->n_threads = rt_pool_threads(e->options.pool);
    if (c->taken || e->options.plan_only) return RT_OK;
    RT_TRY(rt_alloc(&c->taken, c->n_threads, sizeof *c->taken, "a chain of steps", st));
    return rt_block_alloc(&c->memory, rt_size_plus(64, c->n_threads, c->strip_bytes), "a chain of steps", st);
}

RtCode rt_chain_make(const RtExec *e, int64_t step, RtChain **out, RtStatus *st)
{
    const RtStep *s = &e->model->steps[e->program->first_step + step];
    if (!*out) RT_TRY(rt_alloc(out, 1, sizeof **out, "a chain of steps", st));
    RtChain *c = *out;
    c->self.p = c;
    c->args = e->steps[step].args;
    c->n_links = s->chain;
    c->strip = s->strip;
    c->rows = e->graph->spaces[s->extent.space].count;
    c->n_strips = c->rows / c->strip + (c->rows % c->strip > 0);
    c->n_patches = 0;
    for (int64_t k = 0; k < c->n_links; k++) {
        const RtExecStep *x = &e->steps[step + k];
        c->links[k] = (Link){x->fn, x->args - c->args, s[k].extent.kind == RT_COUNT_BLOCKS ? s[k].extent.block : 1, x};
        c->n_args = c->links[k].first_arg + s[k].n_args;
    }
    c->grain = grain_of(c, s);
    find_patches(e, s, c);
    RT_TRY(take_memory(e, c, st));
    return weigh(e, s, c, st);
}

void rt_chain_free(RtChain *c)
{
    if (!c) return;
    rt_block_free(&c->memory);
    free(c->taken);
    free(c->weights);
    free(c);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

int64_t rt_chain_cut(const RtChain *c, int threads, int64_t chunks, bool by_rows, int64_t *bounds)
{
    int64_t n = rt_cut_count(c->n_strips, c->grain, threads, chunks);
    rt_cut(c->n_strips, by_rows ? NULL : c->weights, n, bounds);
    rt_cut_order(c->weights, bounds, n, bounds + n + 1);
    return n;
}

const RtArg *rt_chain_args(const RtChain *c) { return &c->self; }

void rt_chain_run(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtChain *c = args[0].p;
    RtArg own[RT_CHAIN_ARGS];
    int64_t place = 0;
    while (atomic_flag_test_and_set_explicit(&c->taken[place], memory_order_acquire)) place = (place + 1) % c->n_threads;
    char *strip = (char *)c->memory.p + place * c->strip_bytes;
    memcpy(own, c->args, (size_t)c->n_args * sizeof *own);
    for (int64_t i = lo; i < hi; i++) {
        int64_t first = i * c->strip, last = at_most(first + c->strip, c->rows);
        for (int64_t k = 0; k < c->n_patches; k++) { /* kernels count rows from the graph's first */
            const Patch *p = &c->patches[k];
            own[p->arg].p = (void *)((uintptr_t)(strip + p->offset) - (uintptr_t)(first * p->row_bytes));
        }
        for (int64_t k = 0; k < c->n_links; k++) {
            const Link *x = &c->links[k];
            if (x->step->split) rt_split_rows(x->step->split, own + x->first_arg, first, last);
            else x->fn(own + x->first_arg, first / x->block, (last + x->block - 1) / x->block);
        }
    }
    atomic_flag_clear_explicit(&c->taken[place], memory_order_release);
}
