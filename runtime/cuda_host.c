/* Inputs that stay on the host (see cuda.h): which, what of them lies on the device all the same, and how many bytes a
   run reads over the bus. All of it follows from the graph and the plan, so that `plan` says it without a device. */
#include "runtime/cuda.h"
#include "runtime/setup.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECTOR = 32,              /* bytes that cross the bus together */
    LEAST_GRANULE = 64 << 10, /* bytes; a page of a device's memory */
    MOST_GRANULES = 4096,     /* each of which may want to be told of */
};

/* ---- how rows are read ---- */

/* The step's i-th touch where it reads the tensor; else NULL. */
static const RtTouch *read_of(const RtModel *m, const RtProgram *p, const RtStep *s, int64_t i, int64_t tensor)
{
    assert(i >= 0 && i < s->n_touches);
    const RtTouch *t = &m->touches[s->first_touch + i];
    const RtBuffer *b = &m->buffers[p->first_buffer + t->buffer];
    return !t->writes && b->kind == RT_BUF_TENSOR && b->ref == tensor ? t : NULL;
}

static bool takes(const RtModel *m, const RtProgram *p, const RtStep *s, int64_t tensor)
{
    const RtCall *call = rt_step_call(m, s);
    for (int64_t k = 0; k < call->n_args; k++) {
        const RtStepArg *a = &m->step_args[call->first_arg + k];
        const RtBuffer *b = a->is_buffer ? &m->buffers[p->first_buffer + a->buffer] : NULL;
        if (b && b->kind == RT_BUF_TENSOR && b->ref == tensor) return true;
    }
    return false;
}

enum { NOT_READ, BY_ROWS, OTHERWISE };

static int use_of_step(const RtModel *m, const RtProgram *p, const RtStep *s, int64_t tensor)
{
    int use = NOT_READ;
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = read_of(m, p, s, i, tensor);
        if (t && (t->at == RT_AT_ALL || s->work == RT_APART)) return OTHERWISE;
        if (t) use = BY_ROWS;
    }
    return use == NOT_READ && takes(m, p, s, tensor) ? OTHERWISE : use;
}

/* How the listed programs read an input, or what is computed once; others, and what has no rows: OTHERWISE. */
static int use_of(const RtModel *m, const char *programs, int64_t tensor)
{
    assert(tensor >= 0 && tensor < m->n_tensors);
    const RtTensorDef *t = &m->tensors[tensor];
    int use = NOT_READ;
    if ((t->kind != RT_INPUT && t->kind != RT_HELD) || !t->space) return OTHERWISE;
    for (int64_t i = 0; i < m->n_programs; i++) {
        const RtProgram *p = &m->programs[i];
        for (int64_t k = 0; k < p->n_steps && rt_cuda_has(m, programs, i); k++) {
            int more = use_of_step(m, p, &m->steps[p->first_step + k], tensor);
            if (more > use) use = more;
        }
    }
    return use;
}

/* The map whose images are the rows that a touch reads, each as often as it is one; -1: each row once, as where images
   come in order, since a row stays at hand while it is wanted. */
static int64_t map_of(const RtModel *m, const RtTouch *t)
{
    return t->image >= 0 && !m->maps[t->image].sorted ? t->image : -1;
}

/* Bytes that one run of a step reads of a row, over its own bytes: counts [rows] times each; NULL: each. */
typedef struct RowReads {
    int32_t *counts;
    double each;
} RowReads;

static RtCode row_reads(const RtModel *m, const RtGraph *g, const RtStep *s, const RtTouch *t, int64_t rows,
                        RowReads *x, RtStatus *st)
{
    int64_t map = map_of(m, t), n = map >= 0 ? g->spaces[m->maps[map].from].count : 0;
    const int32_t *to = map >= 0 ? g->maps[map].to : NULL;
    const int32_t *of = t->at == RT_AT_ELEMENT && s->under >= 0 ? g->maps[s->under].to : NULL;
    *x = (RowReads){.each = map < 0 || to ? 1 : (double)n / (double)rows}; /* what a run computes leads anywhere */
    if (!to) return RT_OK;
    RT_TRY(rt_alloc(&x->counts, rows, sizeof *x->counts, "reads of rows", st));
    for (int64_t e = 0; e < n; e++)
        if (to[e] >= 0 && (!of || of[e] >= 0)) x->counts[to[e]]++;
    return RT_OK;
}

/* Adds to each granule's bytes those that are read of it: whole sectors, of each row. */
static void add_rows(const RtCudaRegion *r, int64_t rows, const RowReads *x, int64_t granule, double *bytes)
{
    int64_t row = r->bytes / rows;
    assert(row * rows == r->bytes && r->host_at % granule == 0);
    for (int64_t v = 0; v < rows; v++) {
        int64_t at = (r->host_at + v * row) / SECTOR * SECTOR, end = r->host_at + (v + 1) * row, next;
        for (end = (end + SECTOR - 1) / SECTOR * SECTOR; at < end; at = next) {
            next = (at / granule + 1) * granule < end ? (at / granule + 1) * granule : end;
            bytes[at / granule] += (x->counts ? x->counts[v] : 1) * x->each * (double)(next - at);
        }
    }
}

/* Those that one run of the program reads. */
static RtCode add_reads(const RtModel *m, const RtGraph *g, const RtCudaLayout *l, const RtProgram *p, double *bytes,
                        RtStatus *st)
{
    for (int64_t i = 0; i < l->n; i++) {
        const RtCudaRegion *r = &l->regions[i];
        if (r->host_at < 0 || !r->bytes) continue;
        int64_t rows = g->spaces[m->tensors[r->ref].space].count;
        for (int64_t k = 0; k < p->n_steps; k++) {
            const RtStep *s = &m->steps[p->first_step + k];
            for (int64_t j = 0; j < s->n_touches; j++) {
                const RtTouch *t = read_of(m, p, s, j, r->ref);
                RowReads x;
                if (!t) continue;
                RT_TRY(row_reads(m, g, s, t, rows, &x, st));
                add_rows(r, rows, &x, l->host.granule, bytes);
                free(x.counts);
            }
        }
    }
    return RT_OK;
}

RtCode rt_cuda_bus_bytes(const RtModel *m, const RtGraph *g, const RtCudaLayout *l, int64_t program, double *sum,
                         RtStatus *st)
{
    double *bytes;
    int64_t n = l->host.bytes ? l->host.bytes / l->host.granule : 0;
    *sum = 0;
    RT_TRY(rt_alloc(&bytes, n, sizeof *bytes, "reads of rows", st));
    RtCode code = add_reads(m, g, l, &m->programs[program], bytes, st);
    for (int64_t i = 0; i < n; i++)
        if (!l->host.hot[i]) *sum += bytes[i];
    free(bytes);
    return code;
}

/* ---- which do ---- */

typedef struct Candidate {
    int64_t tensor, bytes;
    double reads; /* bytes that one run of each program reads */
} Candidate;

/* The largest first; of those of one size, what is read least. */
static int by_use(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->reads != y->reads) return x->reads < y->reads ? -1 : 1;
    return x->tensor < y->tensor ? -1 : 1;
}

static double bytes_read(const RtModel *m, const RtGraph *g, const char *programs, int64_t tensor)
{
    const RtTensorDef *d = &m->tensors[tensor];
    double sum = 0;
    for (int64_t i = 0; i < m->n_programs; i++)
        for (int64_t k = 0; k < m->programs[i].n_steps && rt_cuda_has(m, programs, i); k++) {
            const RtStep *s = &m->steps[m->programs[i].first_step + k];
            for (int64_t j = 0; j < s->n_touches; j++) {
                const RtTouch *t = read_of(m, &m->programs[i], s, j, tensor);
                int64_t map = t ? map_of(m, t) : -1;
                if (t) sum += (double)g->spaces[map < 0 ? d->space : m->maps[map].from].count;
            }
        }
    return sum * (double)(d->width * rt_dtype_bytes(d->dtype));
}

RtCode rt_cuda_host_choose(const RtModel *m, const RtGraph *g, const char *programs, int64_t excess,
                           const RtCudaLayout *l, bool *stays, RtStatus *st)
{
    Candidate *all;
    int64_t n = 0;
    RT_TRY(rt_alloc(&all, l->n, sizeof *all, "inputs", st));
    for (int64_t i = 0; i < l->n; i++) {
        const RtCudaRegion *r = &l->regions[i];
        if (r->kind == RT_BUF_TENSOR && r->bytes >= LEAST_GRANULE && use_of(m, programs, r->ref) == BY_ROWS)
            all[n++] = (Candidate){r->ref, r->bytes, bytes_read(m, g, programs, r->ref)};
    }
    qsort(all, (size_t)n, sizeof *all, by_use);
    for (int64_t i = 0; i < n && excess > 0; i++) {
        stays[all[i].tensor] = true;
        excess -= all[i].bytes;
    }
    free(all);
    return RT_OK;
}

/* The hint says which names can be given. */
static RtCode no_such_input(const RtModel *m, const char *programs, const char *name, int n, RtStatus *st)
{
    char hint[200] = "";
    for (int64_t i = 0; i < m->n_tensors; i++) {
        size_t used = strlen(hint);
        if (use_of(m, programs, i) != OTHERWISE && used < sizeof hint)
            snprintf(hint + used, sizeof hint - used, "%s%s",
                     used ? ", " : "these can: ", rt_string(m, m->tensors[i].name));
    }
    return rt_fail(st, RT_E_CLI_VALUE, "--host-rows", *hint ? hint : "the model reads no input row by row",
                   "found `%.*s`, wanted auto, none or inputs that are read row by row", n < 60 ? n : 60, name);
}

RtCode rt_cuda_host_named(const RtModel *m, const char *programs, const char *names, bool *stays, RtStatus *st)
{
    for (const char *at = names; *at;) {
        size_t n = strcspn(at, ",");
        int64_t t = 0;
        for (; t < m->n_tensors; t++) {
            const char *name = rt_string(m, m->tensors[t].name);
            if (strlen(name) == n && !strncmp(name, at, n) && use_of(m, programs, t) != OTHERWISE) break;
        }
        if (t == m->n_tensors) return no_such_input(m, programs, at, (int)n, st);
        stays[t] = true;
        at += n + (at[n] == ',');
    }
    return RT_OK;
}

void rt_cuda_host_place(RtCudaLayout *l)
{
    RtCudaHost *h = &l->host;
    int64_t sum = 0;
    for (int64_t i = 0; i < l->n; i++)
        if (l->regions[i].host_at >= 0) sum = rt_size_plus(sum, 1, l->regions[i].bytes);
    h->granule = LEAST_GRANULE;
    while (sum / h->granule >= MOST_GRANULES) h->granule *= 2;
    for (int64_t i = 0; i < l->n; i++) {
        RtCudaRegion *r = &l->regions[i];
        if (r->host_at < 0) continue;
        r->host_at = h->bytes;
        int64_t granules = r->bytes / h->granule + (r->bytes % h->granule > 0);
        h->bytes = rt_size_plus(h->bytes, granules, h->granule);
    }
}

/* ---- what of them is cached ---- */

typedef struct Granule {
    double bytes; /* that are read of it */
    int64_t index;
} Granule;

static int by_bytes(const void *a, const void *b)
{
    const Granule *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

RtCode rt_cuda_host_cache(const RtModel *m, const RtGraph *g, const char *programs, int64_t room, RtCudaLayout *l,
                          RtStatus *st)
{
    RtCudaHost *h = &l->host;
    int64_t n = h->bytes / h->granule;
    assert(n > 0 && n * h->granule == h->bytes && !h->hot);
    double *bytes = NULL;
    Granule *all = NULL;
    RtCode code = rt_alloc(&h->hot, n, sizeof *h->hot, "rows on the device", st);
    if (!code) code = rt_alloc(&bytes, n, sizeof *bytes, "reads of rows", st);
    if (!code) code = rt_alloc(&all, n, sizeof *all, "reads of rows", st);
    for (int64_t i = 0; i < m->n_programs && !code; i++)
        if (rt_cuda_has(m, programs, i)) code = add_reads(m, g, l, &m->programs[i], bytes, st);
    for (int64_t i = 0; i < n && !code; i++) all[i] = (Granule){bytes[i], i};
    if (!code) qsort(all, (size_t)n, sizeof *all, by_bytes);
    for (int64_t i = 0; i < n && !code && all[i].bytes > 0 && h->hot_bytes + h->granule <= room; i++) {
        h->hot[all[i].index] = true;
        h->hot_bytes += h->granule;
    }
    free(bytes);
    free(all);
    return code;
}

/* ---- on the device ---- */

enum { GLOBAL = 1, PREFER = 3, ACCESSED_BY = 5, ON_HOST = -1, CONCURRENT = 89 /* all as in the driver's header */ };

/* Whether driver and device share memory with the CPU at any time: else it is page-locked, and all of it lies on the
   host. */
bool rt_cuda_host_caches(const RtCuda *c)
{
    const RtCudaDriver *d = &c->driver;
    int concurrent = 0;
    bool has = d->take_managed && d->advise && d->prefetch;
    return has && !d->device_attribute(&concurrent, CONCURRENT, c->device) && concurrent;
}

/* The next run of granules that lie on the device, from granule *first on; 0 when there is none. */
static int64_t next_hot(const RtCudaHost *h, int64_t *first)
{
    int64_t n = h->bytes / h->granule, end;
    while (*first < n && !h->hot[*first]) ++*first;
    for (end = *first; end < n && h->hot[end];) end++;
    assert(*first <= end && end <= n);
    return end - *first;
}

RtCode rt_cuda_host_take(RtCuda *c, RtStatus *st)
{
    const RtCudaHost *h = &c->layout.host;
    const RtCudaDriver *d = &c->driver;
    const char *why = NULL;
    if (!h->bytes) return RT_OK;
    assert(!c->host && h->hot);
    RT_TRY(rt_memory_check(h->bytes, "the inputs that stay on the host", st));
    c->managed = rt_cuda_host_caches(c);
    size_t bytes = (size_t)h->bytes;
    void *locked = NULL; /* the device has it at the same address */
    int error = c->managed ? d->take_managed(&c->host, bytes, GLOBAL) : d->host_take(&locked, bytes);
    if (!c->managed) c->host = (RtCudaPtr)(uintptr_t)locked;
    if (!error && c->managed) error = d->advise(c->host, bytes, PREFER, ON_HOST);
    if (!error && c->managed) error = d->advise(c->host, bytes, ACCESSED_BY, c->device);
    for (int64_t i = 0, n; !error && (n = next_hot(h, &i)) > 0; i += n)
        error = d->advise(c->host + (RtCudaPtr)(i * h->granule), (size_t)(n * h->granule), PREFER, c->device);
    if (!error) return RT_OK;
    if (d->error_text(error, &why) || !why) why = "no reason is known";
    return rt_fail(st, RT_E_DEVICE_HOST, c->name, NULL,
                   "wanted %lld bytes for inputs that stay on the host: %.200s (%d)", (long long)h->bytes, why, error);
}

int rt_cuda_host_push(RtCuda *c, void *const *tensors)
{
    const RtCudaHost *h = &c->layout.host;
    if (!h->bytes) return 0;
    assert(c->host && (c->managed || !h->hot_bytes));
    int error = c->driver.stream_wait(c->stream); /* nothing that was begun reads the old rows any more */
    for (int64_t i = 0; i < c->layout.n && !error; i++) {
        const RtCudaRegion *r = &c->layout.regions[i];
        if (r->host_at < 0 || !tensors[r->ref]) continue;
        memcpy((char *)(uintptr_t)c->host + r->host_at, tensors[r->ref], (size_t)r->bytes);
    }
    for (int64_t i = 0, n; !error && (n = next_hot(h, &i)) > 0; i += n)
        error = c->driver.prefetch(c->host + (RtCudaPtr)(i * h->granule), (size_t)(n * h->granule), c->device,
                                   c->stream);
    return error ? error : c->driver.stream_wait(c->stream);
}
