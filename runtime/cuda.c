/* A device: opening it, its memory, copies to it and from it (see cuda.h). */
#include "runtime/cuda.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* as in the driver's header */
enum { ATTRIBUTE_MULTIPROCESSORS = 16, ATTRIBUTE_THREADS = 39 /* of each */ };
enum { ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, ATTRIBUTE_SHARED = 97 };
enum { OLDEST_DRIVER = 11040 }; /* graphs are made with flags from then on */
enum { EVENT_WITHOUT_TIME = 2 };

/* DEVICE_FAILED with the driver's words, where a call of it did not give 0. */
static RtCode check(const RtCudaDriver *d, int error, const char *what, const char *place, RtStatus *st)
{
    const char *why = NULL;
    if (!error) return RT_OK;
    if (d->error_text(error, &why) || !why) why = "no reason is known";
    return rt_fail(st, RT_E_DEVICE_FAILED, place, NULL, "cannot %s: %.200s (%d)", what, why, error);
}

static RtCode done(RtCuda *c, int error, const char *what, RtStatus *st)
{
    if (c->failed.code == RT_OK) check(&c->driver, error, what, c->name, &c->failed);
    if (c->failed.code == RT_OK) return RT_OK;
    if (st) *st = c->failed;
    return c->failed.code;
}

/* ---- opening ---- */

/* The kernels for the device's capability: its own, of the same major number, or the newest text that is no newer. */
static const RtImage *find_image(const RtModel *m, int capability)
{
    const RtImage *best = NULL;
    for (int64_t i = 0; i < m->n_images; i++) {
        const RtImage *x = &m->images[i];
        bool fits = x->capability <= capability && (x->kind == RT_IMAGE_PTX || x->capability / 10 == capability / 10);
        bool better = !best || (x->kind == best->kind ? x->capability > best->capability : x->kind == RT_IMAGE_CUBIN);
        if (fits && better) best = x;
    }
    return best;
}

static RtCode find_device(RtCuda *c, int64_t ordinal, RtStatus *st)
{
    const RtCudaDriver *d = &c->driver;
    int n = 0, major = 0, minor = 0, parts = 0, threads = 0, version = 0, error = d->init(0);
    if (!error) error = d->device_count(&n);
    if (error || ordinal >= n) {
        const char *why = NULL;
        if (error && d->error_text(error, &why)) why = NULL;
        return rt_fail(st, RT_E_DEVICE_NONE, "--device", NULL,
                       "the driver finds %d device%s, wanted number %lld%s%.200s", n, n == 1 ? "" : "s",
                       (long long)ordinal, why ? ": " : "", why ? why : "");
    }
    RT_TRY(check(d, d->version(&version), "ask for the driver's version", "--device", st));
    RT_TRY(check(d, d->device_get(&c->device, (int)ordinal), "open the device", "--device", st));
    RT_TRY(check(d, d->device_name(c->name, sizeof c->name, c->device), "ask for the device's name", "--device", st));
    error = d->device_attribute(&major, ATTRIBUTE_MAJOR, c->device);
    if (!error) error = d->device_attribute(&minor, ATTRIBUTE_MINOR, c->device);
    if (!error) error = d->device_attribute(&c->most_shared, ATTRIBUTE_SHARED, c->device);
    if (!error) error = d->device_attribute(&parts, ATTRIBUTE_MULTIPROCESSORS, c->device);
    if (!error) error = d->device_attribute(&threads, ATTRIBUTE_THREADS, c->device);
    RT_TRY(check(d, error, "ask what the device can do", c->name, st));
    c->capability = 10 * major + minor;
    c->most_threads = (int64_t)parts * threads;
    if (version >= OLDEST_DRIVER) return RT_OK;
    return rt_fail(st, RT_E_DEVICE_OLD, c->name, NULL, "the driver is for CUDA %d.%d, wanted %d.%d or newer",
                   version / 1000, version % 1000 / 10, OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
}

static RtCode load_kernels(RtCuda *c, RtStatus *st)
{
    const RtModel *m = c->model;
    const RtCudaDriver *d = &c->driver;
    const void *code = m; /* the shim runs the model's own kernels */
    if (!d->shim) {
        const RtImage *image = find_image(m, c->capability);
        if (!image)
            return rt_fail(st, RT_E_DEVICE_OLD, c->name, NULL,
                           "the device has compute capability %d.%d, and the program no kernels for it",
                           c->capability / 10, c->capability % 10);
        code = m->device_code + image->at;
    }
    RT_TRY(check(d, d->module_load(&c->module, code), "load the kernels", c->name, st));
    if (code == m) c->watch = rt_cuda_shim_watch();
    RT_TRY(rt_alloc(&c->functions, m->n_device_kernels, sizeof *c->functions, "kernels of a device", st));
    for (int64_t i = 0; i < m->n_device_kernels; i++) {
        const char *name = rt_string(m, m->device_kernels[i].name);
        if (*name) RT_TRY(check(d, d->function(&c->functions[i], c->module, name), "find a kernel", name, st));
    }
    return RT_OK;
}

static RtCode open_device(RtCuda *c, int64_t ordinal, RtStatus *st)
{
    const RtCudaDriver *d = &c->driver;
    RT_TRY(find_device(c, ordinal, st));
    RT_TRY(check(d, d->context_retain(&c->context, c->device), "open the device", c->name, st));
    RT_TRY(check(d, d->context_set(c->context), "open the device", c->name, st));
    int error = d->stream_make(&c->own_stream, 0);
    c->stream = c->own_stream;
    if (!error) error = d->stream_make(&c->beside, 0);
    if (!error) error = d->event_make(&c->forked, EVENT_WITHOUT_TIME);
    if (!error) error = d->event_make(&c->joined, EVENT_WITHOUT_TIME);
    for (int l = 0; l < RT_CUDA_LANES && !error; l++) {
        if (l) error = d->stream_make(&c->lanes[l], 0);
        if (!error) error = d->event_make(&c->reached[l], EVENT_WITHOUT_TIME);
    }
    RT_TRY(check(d, error, "open the device", c->name, st));
    return load_kernels(c, st);
}

RtCode rt_cuda_create(const RtModel *m, const RtCudaDriver *d, int64_t ordinal, RtCuda **out, RtStatus *st)
{
    RtCuda *c;
    *out = NULL;
    RT_TRY(rt_alloc(&c, 1, sizeof *c, "a device", st));
    c->model = m;
    c->driver = *d;
    RtCode code = open_device(c, ordinal, st);
    if (code) rt_cuda_free(c);
    else *out = c;
    return code;
}

void rt_cuda_free(RtCuda *c)
{
    if (!c) return;
    rt_cuda_blas_close(c);
    if (c->memory) c->driver.memory_free(c->memory);
    if (c->host && c->managed) c->driver.memory_free(c->host);
    else if (c->host) c->driver.host_free((void *)(uintptr_t)c->host);
    if (c->numbers) c->driver.host_free(c->numbers);
    free(c->said);
    if (c->module) c->driver.module_free(c->module);
    if (c->forked) c->driver.event_free(c->forked);
    if (c->joined) c->driver.event_free(c->joined);
    for (int l = 0; l < RT_CUDA_LANES; l++) {
        if (c->reached[l]) c->driver.event_free(c->reached[l]);
        if (c->lanes[l]) c->driver.stream_free(c->lanes[l]);
    }
    if (c->beside) c->driver.stream_free(c->beside);
    if (c->own_stream) c->driver.stream_free(c->own_stream);
    if (c->context) c->driver.context_release(c->device);
    rt_cuda_layout_free(&c->layout);
    free(c->functions);
    free(c);
}

/* ---- memory ---- */

enum { SPARE = 16 /* a cache leaves one part of so many of the memory that is left to the driver and to others */ };

RtCode rt_cuda_load(RtCuda *c, const RtGraph *g, const char *programs, bool lent, const RtCudaRoom *most, RtStatus *st)
{
    size_t left = 0, total = 0;
    assert(!c->memory);
    RT_TRY(done(c, c->driver.memory_info(&left, &total), "ask for free memory", st));
    RtCudaRoom room = most ? *most : (RtCudaRoom){.bytes = INT64_MAX};
    bool limited = room.bytes < (int64_t)left;
    if (!limited) room.bytes = (int64_t)left;
    if (!limited && room.spare < room.bytes / SPARE) room.spare = room.bytes / SPARE;
    if (!rt_cuda_host_caches(c)) room.spare = INT64_MAX;
    if (lent) room.names = "";
    RT_TRY(rt_cuda_layout(c->model, g, programs, lent, &room, &c->layout, st));
    size_t bytes = (size_t)c->layout.bytes;
    if (limited && c->layout.bytes > room.bytes)
        return rt_fail(st, RT_E_DEVICE_MEMORY, c->name, NULL,
                       "wanted %zu bytes (%.1f MiB), --device-memory allows %lld", bytes, (double)bytes / 1048576.0,
                       (long long)room.bytes);
    if (bytes > left || c->driver.memory_take(&c->memory, bytes ? bytes : 1))
        return rt_fail(st, RT_E_DEVICE_MEMORY, c->name, NULL,
                       "wanted %zu bytes (%.1f MiB), the device has %zu of its %zu left", bytes,
                       (double)bytes / 1048576.0, left, total);
    RT_TRY(rt_cuda_host_take(c, st));
    c->taken = c->layout.bytes + c->layout.host.hot_bytes;
    c->most = room.bytes;
    /* all bits set is a NaN: what nobody has written shows */
    RT_TRY(done(c, c->driver.memory_fill(c->memory, 0xff, bytes ? bytes : 1), "fill memory", st));
    int64_t n_said = c->layout.said_bytes / RT_CUDA_NUMBER, numbers = c->layout.numbers_bytes;
    RT_TRY(rt_alloc(&c->said, n_said, sizeof *c->said, "a device", st));
    memset(c->said, 0xff, (size_t)n_said * sizeof *c->said);
    int error = c->driver.host_take((void **)&c->numbers, numbers ? (size_t)numbers : 1);
    RT_TRY(done(c, error, "take page-locked memory", st));
    RT_TRY(rt_cuda_push_graph(c, g, st));
    for (int64_t i = 0; i < c->layout.n_rows; i++) {
        const RtCudaRows *x = &c->layout.rows[i];
        void *arrays;
        RT_TRY(rt_cuda_fill_rows(x, g->maps[x->map].rows, &arrays, st));
        error = c->driver.to_device(c->memory + (RtCudaPtr)x->at, arrays, (size_t)rt_cuda_rows_bytes(x));
        free(arrays);
        RT_TRY(done(c, error, "copy to the device", st));
    }
    return RT_OK;
}

RtCode rt_cuda_take(RtCuda *c, int64_t bytes, RtCudaPtr *at, RtStatus *st)
{
    *at = 0;
    if (bytes < 0) return rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "the memory of the device overflows 64 bits");
    if (!bytes) return RT_OK;
    if (bytes > c->most - c->taken || c->driver.memory_take(at, (size_t)bytes))
        return rt_fail(st, RT_E_DEVICE_MEMORY, c->name, NULL,
                       "wanted %lld bytes for what processes send one another beside %lld, %lld are allowed or left",
                       (long long)bytes, (long long)c->taken, (long long)c->most);
    c->taken += bytes;
    return done(c, c->driver.memory_fill(*at, 0xff, (size_t)bytes), "fill memory", st);
}

void rt_cuda_give(RtCuda *c, RtCudaPtr at, int64_t bytes)
{
    if (!at) return;
    assert(c->taken >= bytes);
    c->driver.memory_free(at);
    c->taken -= bytes;
}

static RtCode put(RtCuda *c, const RtCudaRegion *r, const void *from, RtStatus *st)
{
    if (!r->bytes || !from) return RT_OK;
    return done(c, c->driver.to_device(c->memory + (RtCudaPtr)r->at, from, (size_t)r->bytes), "copy to the device", st);
}

/* An array of the graph; NULL: the region is none. */
static const void *graph_array(const RtGraph *g, const RtCudaRegion *r)
{
    switch (r->kind) {
    case RT_BUF_MAP_TO: return g->maps[r->ref].to;
    case RT_BUF_MAP_ROWS: return g->maps[r->ref].rows;
    case RT_BUF_MAP_LIST: return g->maps[r->ref].list;
    case RT_BUF_MAP_ALONG: return rt_graph_along(g, r->ref, r->along);
    case RT_BUF_IDS: return g->spaces[r->ref].ids_all;
    default: return NULL;
    }
}

RtCode rt_cuda_push_graph(RtCuda *c, const RtGraph *g, RtStatus *st)
{
    for (int64_t i = 0; c && i < c->layout.n; i++)
        RT_TRY(put(c, &c->layout.regions[i], graph_array(g, &c->layout.regions[i]), st));
    return RT_OK;
}

RtCode rt_cuda_push(RtCuda *c, void *const *tensors, RtStatus *st)
{
    for (int64_t i = 0; c && i < c->layout.n; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        if (r->kind != RT_BUF_TENSOR || c->model->tensors[r->ref].kind == RT_HYPER) continue; /* each run says those */
        if (r->host_at < 0) RT_TRY(put(c, r, tensors[r->ref], st));
    }
    return c ? done(c, rt_cuda_host_push(c, tensors), "copy inputs that stay on the host", st) : RT_OK;
}

/* Parameters and states, which lie side by side from `at` on. */
static RtCode pull_trained(RtCuda *c, int64_t at, void *const *tensors, RtStatus *st)
{
    char *all;
    if (!c->layout.trained_bytes) return RT_OK;
    RT_TRY(rt_alloc(&all, c->layout.trained_bytes, 1, "parameters", st));
    int error = c->driver.to_host(all, c->memory + (RtCudaPtr)at, (size_t)c->layout.trained_bytes);
    for (int64_t i = 0; i < c->layout.n && c->layout.regions[i].at < c->layout.trained_bytes && !error; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        assert(r->kind == RT_BUF_TENSOR);
        memcpy(tensors[r->ref], all + r->at, (size_t)r->bytes);
    }
    free(all);
    return done(c, error, "copy from the device", st);
}

RtCode rt_cuda_pull(RtCuda *c, void *const *tensors, RtStatus *st)
{
    return c ? pull_trained(c, 0, tensors, st) : RT_OK;
}

RtCode rt_cuda_keep(RtCuda *c, int kept, RtStatus *st)
{
    if (!c || !c->layout.trained_bytes) return RT_OK;
    RtCudaPtr to = c->memory + (RtCudaPtr)c->layout.kept_at[kept];
    return done(c, c->driver.move(to, c->memory, (size_t)c->layout.trained_bytes, c->stream), "copy parameters", st);
}

RtCode rt_cuda_pull_kept(RtCuda *c, int kept, void *const *tensors, RtStatus *st)
{
    return c ? pull_trained(c, c->layout.kept_at[kept], tensors, st) : RT_OK;
}
