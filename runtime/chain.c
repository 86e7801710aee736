/* Chains of steps: see chain.h. Never allocates while running. */
#include "runtime/chain.h"
#include "runtime/cone.h"
#include "runtime/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* The work of one row in all steps, as a share of what is worth a thread. */
static double share_of_row(const RtChain *c)
{
    double share = 0;
    for (int64_t k = 0; k < c->def->n; k++) {
        const RtExecStep *x = &c->steps[k];
        share += 1 / ((double)x->block * (double)(x->call->grain > 0 ? x->call->grain : 1));
    }
    return share;
}

/* Rows of a strip: as many as the cache holds, or fewer where threads would be left with few strips, but not fewer than
   are worth a thread; a multiple of def's block. */
static int64_t strip_of(const RtExec *e, const RtChain *c)
{
    int64_t n_threads = rt_pool_threads(e->options.pool), block = c->def->block;
    for (int64_t k = 0; k < c->def->n; k++) assert(!c->steps[k].backend && block % c->steps[k].block == 0);
    assert(c->def->strip % block == 0);
    if (n_threads <= 1) return c->def->strip;
    double least = 1 / share_of_row(c), even = (double)c->rows / (double)(n_threads * RT_CHUNKS);
    double wanted = least > even ? least : even;
    return wanted < (double)c->def->strip ? (int64_t)(wanted / (double)block + 1) * block : c->def->strip;
}

/* Strips whose work, in all steps together, is worth a thread. */
static int64_t grain_of(const RtChain *c)
{
    double share = share_of_row(c) * (double)c->strip;
    return share >= 1 ? 1 : (int64_t)(1 / share) + 1;
}

/* Finds the arguments that lie in the strip, and a place there for each buffer. */
static void find_patches(const RtExec *e, RtChain *c)
{
    int64_t end = 0, buffer_of[RT_CHAIN_ARGS];
    c->n_patches = 0;
    for (int64_t k = 0; k < c->def->n; k++)
        for (int64_t i = 0; i < c->steps[k].call->n_args; i++) {
            const RtStepArg *a = &e->model->step_args[c->steps[k].call->first_arg + i];
            const RtBuffer *b = a->is_buffer ? &e->model->buffers[e->program->first_buffer + a->buffer] : NULL;
            if (!b || b->kind != RT_BUF_STRIP) continue;
            RtPatch p = {c->steps[k].args - c->steps->args + i, b->width * rt_elem_bytes(b->elem), end,
                         b->writer == c->def->first + k ? &c->steps[k] : NULL};
            int64_t known = 0;
            while (known < c->n_patches && buffer_of[known] != a->buffer) known++;
            if (known < c->n_patches) p.offset = c->patches[known].offset;
            else
                end += (c->def->strip * p.row_bytes + 63) / 64 * 64; /* at most: another graph's strips may be longer */
            assert(c->n_patches < c->n_args && p.arg >= 0 && p.arg < c->n_args);
            buffer_of[c->n_patches] = a->buffer;
            c->patches[c->n_patches++] = p;
        }
    c->strip_bytes = end;
}

/* Takes memory for a strip of each thread. Strips for an earlier graph are as large. */
static RtCode take_memory(const RtExec *e, RtChain *c, RtStatus *st)
{
    c->n_threads = rt_pool_threads(e->options.pool);
    assert(!c->taken || c->memory.bytes >= (size_t)(c->n_threads * c->strip_bytes));
    if (c->taken || e->options.plan_only || e->options.device) return RT_OK;
    RT_TRY(rt_alloc(&c->taken, c->n_threads, sizeof *c->taken, "a chain of steps", st));
    return rt_block_alloc(&c->memory, rt_size_plus(64, c->n_threads, c->strip_bytes), "a chain of steps", st);
}

RtCode rt_chain_make(const RtExec *e, const RtChainDef *def, RtChain **out, RtStatus *st)
{
    if (!*out) RT_TRY(rt_alloc(out, 1, sizeof **out, "a chain of steps", st));
    RtChain *c = *out;
    c->def = def;
    c->steps = &e->steps[def->first];
    c->rows = rt_rows(e->graph, c->steps->call->extent.space, RT_OWNED);
    c->strip = strip_of(e, c);
    c->n_strips = c->rows / c->strip + (c->rows % c->strip > 0);
    c->grain = grain_of(c);
    assert(c->strip > 0 && c->strip <= def->strip);
    const RtExecStep *last = &c->steps[def->n - 1];
    c->n_args = last->args + last->call->n_args - c->steps->args;
    assert(def->n >= 2 && def->n <= RT_CHAIN_STEPS && c->n_args <= RT_CHAIN_ARGS);
    find_patches(e, c);
    for (int64_t k = 0; k < def->n; k++) e->steps[def->first + k].chain = c;
    return take_memory(e, c, st);
}

void rt_chain_free(RtChain *c)
{
    if (!c) return;
    rt_block_free(&c->memory);
    free(c->taken);
    free(c);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

int64_t rt_chain_weight(const void *of, int64_t i)
{
    const RtChain *c = of;
    int64_t row = at_most(i * c->strip, c->rows), weight = 0;
    for (int64_t k = 0; k < c->def->n; k++)
        weight += rt_step_weight(&c->steps[k], (row + c->steps[k].block - 1) / c->steps[k].block);
    return weight;
}

/* What a step leaves out of rows [first, last) is 0 in the strip, too, which holds what another strip left there. */
static void clear(const RtPatch *p, char *at, int64_t first, int64_t last)
{
    const RtConeStep *cone = p->writer ? p->writer->cone : NULL;
    if (!cone || !cone->runs) return;
    int64_t block = p->writer->block, k = rt_cone_run_at(cone, first / block);
    bool whole = k < cone->n_runs && cone->runs[2 * k] * block <= first && cone->runs[2 * k + 1] * block >= last;
    if (!whole) memset(at, 0, (size_t)((last - first) * p->row_bytes));
}

void rt_chain_run(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtExecStep *first_step = args[0].p;
    const RtChain *c = first_step->chain;
    RtArg own[RT_CHAIN_ARGS];
    int64_t place = 0;
    assert(c->taken && hi <= c->n_strips && c->steps == first_step);
    while (atomic_flag_test_and_set_explicit(&c->taken[place], memory_order_acquire))
        place = (place + 1) % c->n_threads;
    char *strip = (char *)c->memory.p + place * c->strip_bytes;
    memcpy(own, c->steps->args, (size_t)c->n_args * sizeof *own);
    for (int64_t i = lo; i < hi; i++) {
        int64_t first = i * c->strip, last = at_most(first + c->strip, c->rows);
        for (int64_t k = 0; k < c->n_patches; k++) { /* kernels count rows from the graph's first */
            const RtPatch *p = &c->patches[k];
            own[p->arg].p = (void *)((uintptr_t)(strip + p->offset) - (uintptr_t)(first * p->row_bytes));
            clear(p, strip + p->offset, first, last);
        }
        for (int64_t k = 0; k < c->def->n; k++) {
            const RtExecStep *x = &c->steps[k];
            rt_step_rows(x, own + (x->args - c->steps->args), first / x->block, (last + x->block - 1) / x->block);
        }
    }
    atomic_flag_clear_explicit(&c->taken[place], memory_order_release);
}
