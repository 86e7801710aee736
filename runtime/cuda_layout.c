/* Where things lie in the memory of a device (see cuda.h): computed before any of it is taken, so that what `plan` says
   is what a run takes. */
#include "runtime/cuda.h"
#include "runtime/setup.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 256 /* bytes */,
    THREADS = 128 /* of a block */,
    LEAST_THREADS = 32,
    FEW_BLOCKS = 256,
    MOST_BLOCKS = INT32_MAX
};

static int64_t aligned_to(int64_t bytes, int64_t to)
{
    int64_t sum = rt_size_plus(bytes, 1, to - 1);
    return sum < 0 ? -1 : sum / to * to;
}

static int64_t aligned(int64_t bytes) { return aligned_to(bytes, ALIGN); }

/* ---- regions ---- */

static const RtBuffer *buffer(const RtModel *m, const RtProgram *p, int64_t i)
{
    return &m->buffers[p->first_buffer + i];
}

/* The region of a buffer, with its size; false: it lies in the arena, or nowhere. */
static bool region_of(const RtModel *m, const RtGraph *g, const RtProgram *p, const RtBuffer *b, RtCudaRegion *r)
{
    int64_t tensor;
    *r = (RtCudaRegion){.kind = b->kind, .ref = b->ref, .along = b->along, .program = -1, .host_at = -1};
    switch (b->kind) {
    case RT_BUF_RESULT:
        tensor = m->results[p->first_result + b->ref].tensor;
        if (tensor < 0) r->program = p - m->programs;
        else r->kind = RT_BUF_TENSOR, r->ref = tensor;
        break;
    case RT_BUF_COTANGENT: r->program = p - m->programs; break;
    case RT_BUF_SEED:
    case RT_BUF_STEP: r->bytes = 8; return true;
    case RT_BUF_TENSOR: break;
    case RT_BUF_MAP_TO:
    case RT_BUF_MAP_LIST:
    case RT_BUF_MAP_ALONG: r->bytes = rt_size(g->spaces[m->maps[b->ref].from].count, 4); return true;
    case RT_BUF_MAP_ROWS: r->bytes = rt_size_plus(8, g->spaces[m->maps[b->ref].to].count, 8); return true;
    case RT_BUF_IDS: r->bytes = rt_size(g->spaces[b->ref].count, 8); return true;
    default: return false; /* the arena; a strip of it; sums of blocks of long rows */
    }
    if (r->kind == RT_BUF_TENSOR)
        r->bytes = rt_size(rt_tensor_count(m, g, r->ref), rt_dtype_bytes(m->tensors[r->ref].dtype));
    else r->bytes = rt_size(rt_count_value(g, &b->rows, RT_READ), rt_size(b->width, rt_elem_bytes(b->elem)));
    return true;
}

/* In the order in which they lie: what training changes, what the host says at each run, results that are numbers. */
enum { TRAINED, SAID, NUMBER, OTHER };

static int class_of(const RtModel *m, const RtCudaRegion *r)
{
    int64_t tensor = r->kind == RT_BUF_TENSOR ? m->tensors[r->ref].kind : -1;
    if (tensor == RT_PARAM || tensor == RT_STATE) return TRAINED;
    if (tensor == RT_HYPER || r->kind == RT_BUF_SEED || r->kind == RT_BUF_STEP) return SAID;
    return rt_cuda_is_number(r) ? NUMBER : OTHER;
}

bool rt_cuda_is_number(const RtCudaRegion *r) { return r->kind == RT_BUF_RESULT && r->bytes > 0 && r->bytes <= 8; }

static const RtCudaRegion *find(const RtCudaLayout *l, const RtCudaRegion *r)
{
    for (int64_t i = 0; i < l->n; i++) {
        const RtCudaRegion *x = &l->regions[i];
        if (x->kind == r->kind && x->ref == r->ref && x->along == r->along && x->program == r->program) return x;
    }
    return NULL;
}

bool rt_cuda_has(const RtModel *m, const char *programs, int64_t i)
{
    const RtProgram *p = &m->programs[i];
    for (int64_t k = 0; k < p->n_results; k++) {
        int64_t tensor = m->results[p->first_result + k].tensor;
        if (tensor >= 0 && m->tensors[tensor].kind == RT_HELD) return false;
    }
    return rt_program_is_listed(m, programs, i);
}

static bool is_lent(const RtModel *m, const RtCudaRegion *r)
{
    const RtTensorDef *t = r->kind == RT_BUF_TENSOR ? &m->tensors[r->ref] : NULL;
    bool given = t && (t->kind == RT_INPUT || (t->kind == RT_PARAM && t->space != 0));
    return given || r->kind == RT_BUF_RESULT || r->kind == RT_BUF_COTANGENT;
}

/* Those of a class. Returns their bytes. */
static int64_t add_regions(const RtModel *m, const RtGraph *g, const char *programs, int class, RtCudaLayout *l)
{
    int64_t start = l->bytes;
    for (int64_t i = 0; i < m->n_programs; i++) {
        const RtProgram *p = &m->programs[i];
        for (int64_t k = 0; k < p->n_buffers && rt_cuda_has(m, programs, i); k++) {
            RtCudaRegion r;
            if (!region_of(m, g, p, buffer(m, p, k), &r) || class_of(m, &r) != class || find(l, &r)) continue;
            if (l->lent && is_lent(m, &r)) continue;
            assert(class != SAID || r.bytes <= 8);
            bool on_host = r.kind == RT_BUF_TENSOR && l->host.stays[r.ref];
            r.at = on_host ? -1 : l->bytes;
            r.host_at = on_host ? 0 : -1; /* rt_cuda_host_place says where */
            l->bytes = rt_size_plus(l->bytes, 1, on_host ? 0 : r.bytes);
            l->bytes = aligned_to(l->bytes, class == SAID || class == NUMBER ? RT_CUDA_NUMBER : ALIGN);
            l->regions[l->n++] = r;
        }
    }
    return l->bytes < 0 ? 0 : l->bytes - start;
}

static RtCode lay_out(const RtModel *m, const RtGraph *g, const char *programs, RtCudaLayout *l, RtStatus *st)
{
    int64_t most = 0, n = 0, arena = 0;
    bool lent = l->lent;
    for (int64_t i = 0; i < m->n_programs; i++) n += m->programs[i].n_buffers;
    RT_TRY(rt_alloc(&l->regions, n, sizeof *l->regions, "a layout", st));
    l->trained_bytes = add_regions(m, g, programs, TRAINED, l);
    for (int i = 0; i < RT_CUDA_N_KEPT; i++) {
        l->kept_at[i] = l->bytes;
        if (lent || (i == RT_CUDA_BEST && m->train->stop_metric < 0)) continue;
        l->bytes = aligned(rt_size_plus(l->bytes, 1, l->trained_bytes));
    }
    l->said_at = l->bytes;
    l->said_bytes = add_regions(m, g, programs, SAID, l);
    l->numbers_at = l->bytes;
    l->numbers_bytes = add_regions(m, g, programs, NUMBER, l);
    l->bytes = aligned(l->bytes);
    add_regions(m, g, programs, OTHER, l);
    RT_TRY(rt_cuda_find_rows(m, g, programs, l, st));
    for (int64_t i = 0; i < l->n_rows; i++) {
        l->rows[i].at = l->bytes;
        l->bytes = aligned(rt_size_plus(l->bytes, 1, rt_cuda_rows_bytes(&l->rows[i])));
    }
    l->states_at = l->bytes;
    l->bytes = aligned(rt_size_plus(l->bytes, 1, l->states_bytes));
    for (int64_t i = 0; i < m->n_programs; i++) {
        RtPack *places;
        const RtProgram *p = &m->programs[i];
        if (!rt_cuda_has(m, programs, i)) continue;
        RT_TRY(rt_alloc(&places, p->n_slots + p->n_buffers, sizeof *places, "a layout", st));
        RtCode code = rt_cuda_places(m, p, g, places, &arena, st);
        free(places);
        RT_TRY(code);
        if (arena > most) most = arena;
    }
    l->arena_at = l->bytes;
    l->bytes = aligned(rt_size_plus(l->bytes, 1, most));
    rt_cuda_host_place(l);
    if (l->bytes >= 0 && l->host.bytes >= 0) return RT_OK;
    return rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "the memory of the device overflows 64 bits");
}

RtCode rt_cuda_layout(const RtModel *m, const RtGraph *g, const char *programs, bool lent, const RtCudaRoom *room,
                      RtCudaLayout *l, RtStatus *st)
{
    *l = (RtCudaLayout){.lent = lent};
    RT_TRY(rt_alloc(&l->host.stays, m->n_tensors, sizeof *l->host.stays, "a layout", st));
    if (room && room->names) RT_TRY(rt_cuda_host_named(m, programs, room->names, l->host.stays, st));
    RT_TRY(lay_out(m, g, programs, l, st));
    if (room && !room->names && l->bytes > room->bytes) { /* once more, without what stays on the host */
        RtCudaLayout whole = *l;
        *l = (RtCudaLayout){.lent = lent, .host.stays = whole.host.stays};
        whole.host.stays = NULL;
        RtCode code = rt_cuda_host_choose(m, g, programs, whole.bytes - room->bytes, &whole, l->host.stays, st);
        rt_cuda_layout_free(&whole);
        RT_TRY(code);
        RT_TRY(lay_out(m, g, programs, l, st));
    }
    if (!l->host.bytes) return RT_OK;
    int64_t cache = room->spare < room->bytes ? room->bytes - room->spare - l->bytes : 0;
    return rt_cuda_host_cache(m, g, programs, cache, l, st);
}

void rt_cuda_layout_free(RtCudaLayout *l)
{
    if (!l) return;
    free(l->regions);
    free(l->rows);
    free(l->host.stays);
    free(l->host.hot);
    *l = (RtCudaLayout){0};
}

/* ---- the arena ---- */

/* The chain whose steps name the buffer: it lives while they run, with all its rows. */
static const RtChainDef *chain_of(const RtModel *m, const RtProgram *p, int64_t buffer)
{
    for (int64_t i = 0; i < p->n_chains; i++) {
        const RtChainDef *c = &m->chains[p->first_chain + i];
        for (int64_t s = c->first; s < c->first + c->n; s++) {
            const RtCall *call = rt_step_call(m, &m->steps[p->first_step + s]);
            for (int64_t k = 0; k < call->n_args; k++) {
                const RtStepArg *a = &m->step_args[call->first_arg + k];
                if (a->is_buffer && a->buffer == buffer) return c;
            }
        }
    }
    return NULL;
}

RtCode rt_cuda_places(const RtModel *m, const RtProgram *p, const RtGraph *g, RtPack *places, int64_t *bytes,
                      RtStatus *st)
{
    RT_TRY(rt_exec_slots(m, p, g, NULL, places, st));
    *bytes = 0;
    for (int64_t i = 0; i < p->n_buffers; i++) {
        const RtBuffer *b = buffer(m, p, i);
        const RtChainDef *c = b->kind == RT_BUF_STRIP ? chain_of(m, p, i) : NULL;
        RtPack *place = &places[p->n_slots + i];
        *place = (RtPack){0};
        if (!c) continue;
        int64_t rows = rt_count_value(g, &b->rows, RT_READ);
        int64_t size = aligned(rt_size(rows, rt_size(b->width, rt_elem_bytes(b->elem))));
        if (size < 0) *bytes = -1;
        *place = (RtPack){.bytes = size < 0 ? 0 : size, .first = c->first, .last = c->first + c->n - 1};
    }
    RtPackRoom *rooms;
    RT_TRY(rt_exec_rooms(m, p, g, &rooms, st));
    if (!*bytes) *bytes = rt_pack(places, p->n_slots + p->n_buffers, rooms, p->n_results);
    free(rooms);
    if (*bytes >= 0) return RT_OK;
    return rt_fail(st, RT_E_OVERFLOW, rt_string(m, p->name), NULL, "the memory of the device overflows 64 bits");
}

static void *in_result(const RtExec *e, int64_t result, int64_t at)
{
    int64_t i = 0;
    while (buffer(e->model, e->program, i)->kind != RT_BUF_RESULT || buffer(e->model, e->program, i)->ref != result)
        i++;
    char *base = rt_cuda_buffer(e, i);
    return base ? base + at : NULL;
}

void *rt_cuda_buffer(const RtExec *e, int64_t i)
{
    const RtCuda *c = e->options.device;
    const RtProgram *p = e->program;
    const RtBuffer *b = buffer(e->model, p, i);
    RtCudaRegion r;
    int64_t at = -1;
    if (region_of(e->model, e->graph, p, b, &r)) {
        if (c->lent && r.kind == RT_BUF_RESULT) return e->results[r.ref];
        if (c->lent && r.kind == RT_BUF_COTANGENT) return e->cotangents[r.ref];
        if (c->lent && r.kind == RT_BUF_TENSOR && c->lent[r.ref]) return (void *)(uintptr_t)c->lent[r.ref];
        if (c->lent && is_lent(e->model, &r)) return NULL;
        const RtCudaRegion *found = find(&c->layout, &r);
        bool given = r.kind == RT_BUF_TENSOR      ? e->tensors[r.ref] != NULL
                     : r.kind == RT_BUF_COTANGENT ? e->cotangents[r.ref] != NULL
                     : r.kind == RT_BUF_RESULT    ? e->results[r.ref] != NULL
                                                  : true;
        assert(found && found->bytes == r.bytes); /* it was loaded for this program */
        assert((found->host_at < 0) == (found->at >= 0));
        if (given && found->host_at >= 0) return (void *)(uintptr_t)(c->host + (RtCudaPtr)found->host_at);
        if (given) at = found->at;
    } else if (b->kind == RT_BUF_ARENA || b->kind == RT_BUF_STRIP) {
        const RtPack *place = &e->places[b->kind == RT_BUF_ARENA ? b->slot : p->n_slots + i];
        if (place->room) return in_result(e, place->room - 1, place->at);
        at = c->layout.arena_at + place->at;
    }
    return at < 0 ? NULL : (void *)(uintptr_t)(c->memory + (RtCudaPtr)at);
}

int64_t rt_cuda_buffer_bytes(const RtExec *e, int64_t i)
{
    const RtBuffer *b = buffer(e->model, e->program, i);
    RtCudaRegion r;
    if (region_of(e->model, e->graph, e->program, b, &r)) return r.bytes;
    return rt_size(rt_count_value(e->graph, &b->rows, RT_READ), rt_size(b->width, rt_elem_bytes(b->elem)));
}

/* ---- kernels ---- */

RtCode rt_cuda_launch(const RtModel *m, int64_t kernel, int64_t extent, int64_t most_shared, RtLaunch *l, RtStatus *st)
{
    assert(kernel >= 0 && kernel < m->n_device_kernels && extent >= 0);
    const RtDeviceKernel *k = &m->device_kernels[kernel];
    int64_t warps = k->warps, blocks = 1;
    assert(k->lanes > 0 && THREADS % k->lanes == 0);
    if (k->binding == RT_BIND_THREADS && warps > THREADS / k->lanes) warps = THREADS / k->lanes;
    /* few rows on all multiprocessors, each with few of them */
    while (k->binding == RT_BIND_THREADS && k->lanes * warps > LEAST_THREADS && extent / warps < FEW_BLOCKS) warps /= 2;
    while (k->binding == RT_BIND_THREADS && warps > 1 && k->block_bytes + warps * k->warp_bytes > most_shared)
        warps /= 2;
    l->shared_bytes = k->block_bytes + warps * k->warp_bytes;
    if (l->shared_bytes > most_shared)
        return rt_fail(st, RT_E_DEVICE_REFUSED, rt_string(m, k->name), NULL,
                       "the kernel wants %lld bytes of shared memory, a block has %lld", (long long)l->shared_bytes,
                       (long long)most_shared);
    if (k->binding == RT_BIND_THREADS) blocks = extent / warps + (extent % warps > 0);
    if (k->binding == RT_BIND_BLOCK) blocks = extent;
    int64_t parts = k->binding == RT_BIND_BLOCK ? k->parts : 1;
    l->grid = blocks < MOST_BLOCKS / parts ? blocks * parts : MOST_BLOCKS / parts * parts;
    l->block = k->lanes * warps;
    return RT_OK;
}
