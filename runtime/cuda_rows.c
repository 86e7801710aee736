/* In which order a device computes the rows of a map, and which of them its warps share (see cuda.h). No bit depends on
   either: a row's blocks of RT_SPLIT_BLOCK elements are summed up alone and joined in order in any case. */
#include "runtime/cuda.h"
#include <assert.h>
#include <stdlib.h>

enum { CLASSES = 64 /* of lengths: as many binary digits */ };

static int64_t blocks_of(int64_t elements) { return (elements + RT_SPLIT_BLOCK - 1) / RT_SPLIT_BLOCK; }

/* Rows drawn anew have other lengths each time: they are computed as they stand. */
static bool is_redrawn(const RtModel *m)
{
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (m->graphs[i].redrawn) return true;
    return false;
}

/* The map by whose rows the call goes, one iteration a row; -1: none. */
static int64_t map_of(const RtModel *m, const RtGraph *g, const RtCall *call)
{
    bool by_rows = call->cut >= 0 && call->extent.kind == RT_COUNT_SPACE &&
                   call->extent.space == m->maps[call->cut].to && g->maps[call->cut].rows &&
                   m->device_kernels[call->kernel].binding == RT_BIND_THREADS;
    return by_rows ? call->cut : -1;
}

const RtCudaRows *rt_cuda_rows(const RtCudaLayout *l, const RtModel *m, const RtGraph *g, const RtCall *call)
{
    int64_t map = map_of(m, g, call);
    for (int64_t i = 0; i < l->n_rows; i++)
        if (l->rows[i].map == map) return &l->rows[i];
    return NULL;
}

const RtSplitDef *rt_cuda_split(const RtCudaRows *rows, const RtModel *m, const RtCall *call)
{
    return rows && rows->n_long && call->split >= 0 ? &m->splits[call->split] : NULL;
}

int64_t rt_cuda_state_bytes(const RtBuffer *b, const RtCudaRows *rows)
{
    if (b->kind != RT_BUF_STATE) return 0;
    return rt_size_plus(rt_size(rows->n_blocks, rt_size(b->width, rt_elem_bytes(b->elem))), 1, 255) / 256 * 256;
}

/* ---- what it takes ----------------------------------------------------------------------------------------------- */

static int64_t states_of(const RtModel *m, const RtProgram *p, const RtCudaRows *rows, const RtSplitDef *s)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < s->n_args; k++) {
        const RtStepArg *a = &m->step_args[s->first_arg + k];
        if (a->is_buffer)
            sum = rt_size_plus(sum, 1, rt_cuda_state_bytes(&m->buffers[p->first_buffer + a->buffer], rows));
    }
    return sum;
}

static void count_rows(const int64_t *rows, RtCudaRows *x)
{
    for (int64_t v = 0; v < x->n; v++) {
        int64_t n = rows[v + 1] - rows[v];
        if (n <= RT_CUDA_LONG) continue;
        x->n_long++;
        x->n_blocks += blocks_of(n);
    }
}

int64_t rt_cuda_rows_bytes(const RtCudaRows *x)
{
    return rt_size_plus(rt_size(x->n_long + x->n_blocks, 8 * RT_PART_NUMBERS), x->n, 4);
}

RtCode rt_cuda_find_rows(const RtModel *m, const RtGraph *g, const char *programs, RtCudaLayout *l, RtStatus *st)
{
    RT_TRY(rt_alloc(&l->rows, m->n_maps, sizeof *l->rows, "the order of rows", st));
    for (int64_t i = 0; i < m->n_programs && !is_redrawn(m); i++) {
        const RtProgram *p = &m->programs[i];
        for (int64_t s = 0; s < p->n_steps && rt_cuda_has(m, programs, i); s++) {
            const RtCall *call = rt_step_call(m, &m->steps[p->first_step + s]);
            int64_t map = map_of(m, g, call);
            if (map >= 0 && !rt_cuda_rows(l, m, g, call)) {
                RtCudaRows *x = &l->rows[l->n_rows++];
                *x = (RtCudaRows){.map = map, .n = rt_rows(g, m->maps[map].to, RT_OWNED)};
                count_rows(g->maps[map].rows, x);
            }
            const RtCudaRows *rows = rt_cuda_rows(l, m, g, call);
            const RtSplitDef *split = rt_cuda_split(rows, m, call);
            int64_t states = split ? states_of(m, p, rows, split) : 0;
            if (states < 0 || states > l->states_bytes) l->states_bytes = states;
            if (states < 0) return rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "the memory of the device overflows 64 bits");
        }
    }
    return RT_OK;
}

/* ---- what lies there --------------------------------------------------------------------------------------------- */

static int64_t class_of(int64_t elements)
{
    int64_t digits = 0;
    while (elements >> digits) digits++;
    return digits < CLASSES ? digits : CLASSES - 1;
}

static void fill_parts(const int64_t *rows, const RtCudaRows *x, int64_t *parts)
{
    int64_t *whole = parts + x->n_blocks * RT_PART_NUMBERS, first = 0;
    for (int64_t v = 0; v < x->n; v++) {
        int64_t n = rows[v + 1] - rows[v];
        if (n <= RT_CUDA_LONG) continue;
        *whole++ = v, *whole++ = rows[v], *whole++ = rows[v], *whole++ = first;
        for (int64_t at = rows[v]; at < rows[v + 1]; at += RT_SPLIT_BLOCK) {
            int64_t to = at + RT_SPLIT_BLOCK < rows[v + 1] ? at + RT_SPLIT_BLOCK : rows[v + 1];
            *parts++ = v, *parts++ = at, *parts++ = to, *parts++ = first;
        }
        first += blocks_of(n);
    }
    assert(first == x->n_blocks);
}

/* Long rows, then the others by class, longest first, each class in the order of its rows. */
static void fill_order(const int64_t *rows, const RtCudaRows *x, int32_t *order)
{
    int64_t at[CLASSES + 1] = {0}, sum = x->n_long, next_long = 0;
    for (int64_t v = 0; v < x->n; v++) {
        int64_t n = rows[v + 1] - rows[v];
        if (n <= RT_CUDA_LONG) at[class_of(n)]++;
    }
    for (int64_t c = CLASSES; c-- > 0;) {
        int64_t size = at[c];
        at[c] = sum;
        sum += size;
    }
    assert(sum == x->n);
    for (int64_t v = 0; v < x->n; v++) {
        int64_t n = rows[v + 1] - rows[v];
        order[n > RT_CUDA_LONG ? next_long++ : at[class_of(n)]++] = (int32_t)v;
    }
}

RtCode rt_cuda_fill_rows(const RtCudaRows *x, const int64_t *rows, void **out, RtStatus *st)
{
    int64_t n_parts = x->n_blocks + x->n_long;
    char *all;
    RT_TRY(rt_alloc(&all, rt_cuda_rows_bytes(x), 1, "the order of rows", st));
    fill_parts(rows, x, (int64_t *)all);
    fill_order(rows, x, (int32_t *)((int64_t *)all + n_parts * RT_PART_NUMBERS));
    *out = all;
    return RT_OK;
}
