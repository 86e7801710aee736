/* A program that processes share, on devices (see ranks.h). What travels is staged in page-locked memory of the host:

     step 4 makes z          rows that peers want are copied to the host, and are on their way
     step 5 sums over edges  is begun once peers' rows have come and are copied to their places on the device

   What the kernel of a sum that is shared out reads in place of the process's own rows, operands and tables of which
   element is whose, lies in one piece of the device's memory beside the planned one. Steps are begun and not waited
   for, so that the device computes while rows travel. There is no captured graph, in which nothing could be exchanged.
   Kernels, and the order in which each adds up, are those of one process, and so are the bits. */
#include "runtime/nccl.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "what processes exchange";
enum { ALIGN = 256 };

typedef struct Table { /* of a sum that is shared out */
    const void *host;
    int64_t bytes, at;
} Table;

typedef struct Runs {  /* of rows that a ship brings: [n][2] the first, and the one behind the last */
    const int64_t *of; /* RtShip.in */
    int64_t *at, n;
} Runs;

struct RtStaging {
    int64_t *host_at; /* [n_buffers] in `locked`; -1: the buffer's rows do not travel, or the host has them anyway */
    Table *tables;    /* [n_tables] */
    int64_t n_tables;
    Runs *runs; /* [n_runs] */
    int64_t n_runs;
    char *locked; /* [locked_bytes] of the host, page-locked */
    int64_t locked_bytes;
    RtCudaPtr there; /* [there_bytes] of the device: operands of each run first */
    int64_t there_bytes;
    int64_t room_at; /* room in which rows lie that go from device to device */
    bool taken;      /* both, once it was bound */
};

/* ---- where what lies --------------------------------------------------------------------------------------------- */

/* Takes bytes behind *end. */
static int64_t place(int64_t *end, int64_t bytes)
{
    int64_t at = *end;
    *end = rt_size_plus(at, 1, rt_size_plus(bytes, 1, ALIGN - 1));
    *end = *end < 0 ? -1 : *end / ALIGN * ALIGN;
    return at;
}

/* Inputs, and what is computed from them before the run, the host has anyway. */
static bool host_has(const RtAcross *a, int64_t buffer)
{
    const RtBuffer *b = across_buffer(a, buffer);
    int64_t kind = b->kind == RT_BUF_TENSOR ? a->e->model->tensors[b->ref].kind : RT_PARAM;
    return kind == RT_INPUT || kind == RT_HELD;
}

static void stage(const RtAcross *a, int64_t buffer)
{
    RtStaging *s = a->staging;
    if (s->host_at[buffer] >= 0 || host_has(a, buffer)) return;
    int64_t rows = rt_count_value(a->e->graph, &across_buffer(a, buffer)->rows, RT_READ);
    s->host_at[buffer] = place(&s->locked_bytes, rt_size(rows, across_row_bytes(a, buffer)));
}

/* What stands for a map of rows from d->first on is called by the address of row 0. */
static const void *start_of(const RtDivided *d, const void *table)
{
    int64_t before = table == d->counting || table == d->behind ? 4 * d->first : table == d->ids ? 8 * d->first : 0;
    return (const void *)((uintptr_t)table + (uintptr_t)before);
}

static void place_table(RtStaging *s, const RtDivided *d, const void *table)
{
    for (int64_t i = 0; table && i < d->n_blocks; i++) {
        const RtBlock *b = &d->blocks[i];
        if (b->p != start_of(d, table)) continue;
        s->tables[s->n_tables++] = (Table){b->p, (int64_t)b->bytes, place(&s->there_bytes, (int64_t)b->bytes)};
    }
}

static RtCode place_divided(RtAcross *a, RtDivided *d, RtStatus *st)
{
    RtStaging *s = a->staging;
    int64_t n_maps = a->e->model->n_maps;
    for (int64_t i = 0; i < d->n_sent; i++) {
        RtSent *x = &d->sent[i];
        stage(a, x->buffer);
        x->there_at = x->once && !x->of ? place(&s->there_bytes, rt_sent_bytes(x)) : x->offset;
    }
    for (int64_t i = 0; i < d->n_returned; i++) {
        RtSent *x = &d->returned[i];
        stage(a, x->buffer);
        if (!x->of) x->there_at = place(&s->there_bytes, rt_sent_bytes(x));
    }
    for (int64_t i = 0; i < d->n_results; i++) stage(a, d->results[i]);
    RT_TRY(rt_grow(&s->tables, s->n_tables + 5 + n_maps, sizeof *s->tables, what, st));
    const void *const tables[] = {d->counting, d->behind, d->ids, d->row_starts, d->elements};
    for (int i = 0; i < 5; i++) place_table(s, d, tables[i]);
    for (int64_t m = 0; d->image_at && m < n_maps; m++) place_table(s, d, d->image_at[m]);
    return RT_OK;
}

static int compare_rows(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Rows that lie side by side are copied together. */
static RtCode find_runs(RtStaging *s, const RtShip *ship, RtStatus *st)
{
    RT_TRY(rt_grow(&s->runs, s->n_runs + 1, sizeof *s->runs, what, st));
    Runs *r = &s->runs[s->n_runs++];
    *r = (Runs){.of = ship->in};
    RtBlock sorted;
    RT_TRY(rt_block_alloc(&sorted, rt_size(ship->n_in, 8), what, st));
    int64_t *row = sorted.p, n = 0;
    if (ship->n_in) memcpy(row, ship->in, (size_t)ship->n_in * 8);
    qsort(row, (size_t)ship->n_in, 8, compare_rows);
    for (int64_t i = 0; i < ship->n_in; i++) n += !i || row[i] != row[i - 1] + 1;
    RtCode code = rt_alloc(&r->at, n, 16, what, st);
    for (int64_t i = 0; i < ship->n_in && !code; i++) {
        if (!i || row[i] != row[i - 1] + 1) r->at[2 * r->n++] = row[i];
        r->at[2 * r->n - 1] = row[i] + 1;
    }
    assert(code || r->n == n);
    rt_block_free(&sorted);
    return code;
}

/* The most bytes that travel together. */
static int64_t most_linked(const RtAcross *a)
{
    int64_t most = 0;
    for (int64_t i = 0; i < a->n_exchanges; i++) {
        int64_t bytes = rt_ship_bytes(&a->exchanges[i].ship, a->exchanges[i].row_bytes);
        most = bytes > most ? bytes : most;
    }
    for (int64_t i = 0; i < a->n_divided; i++)
        for (int64_t k = 0; k < a->divided[i].n_sent; k++) {
            const RtSent *x = &a->divided[i].sent[k];
            int64_t bytes = x->once || x->of ? 0 : rt_ship_bytes(x->ship, x->row_bytes);
            most = bytes > most ? bytes : most;
        }
    return most;
}

RtCode rt_staging_make(RtAcross *a, RtStatus *st)
{
    RtStaging *s;
    if (!across_is_there(a)) return RT_OK;
    RT_TRY(rt_alloc(&s, 1, sizeof *s, what, st));
    a->staging = s;
    RT_TRY(rt_alloc(&s->host_at, a->e->program->n_buffers, sizeof *s->host_at, what, st));
    for (int64_t b = 0; b < a->e->program->n_buffers; b++) s->host_at[b] = -1;
    place(&s->there_bytes, a->operand_bytes);
    for (int64_t i = 0; i < a->n_exchanges; i++) {
        stage(a, a->exchanges[i].buffer);
        RT_TRY(find_runs(s, &a->exchanges[i].ship, st));
    }
    for (int64_t i = 0; i < a->n_divided; i++) {
        RT_TRY(place_divided(a, &a->divided[i], st));
        if (a->divided[i].n_returned) RT_TRY(find_runs(s, &a->divided[i].back, st));
    }
    s->room_at = place(&s->there_bytes, a->r->by_nccl ? most_linked(a) : 0);
    bool fits = s->there_bytes >= 0 && s->locked_bytes >= 0;
    return fits ? RT_OK : rt_fail(st, RT_E_OVERFLOW, what, NULL, "their bytes overflow 64 bits");
}

void rt_staging_bytes(const RtAcross *a, int64_t *host, int64_t *device)
{
    *host = a->staging ? a->staging->locked_bytes : 0;
    *device = a->staging ? a->staging->there_bytes : 0;
}

static RtCode take(RtAcross *a, RtStatus *st)
{
    RtStaging *s = a->staging;
    RtCuda *c = a->e->options.device;
    RT_TRY(rt_memory_check(s->locked_bytes, what, st));
    if (s->locked_bytes && c->driver.host_take((void **)&s->locked, (size_t)s->locked_bytes))
        return rt_fail(st, RT_E_DEVICE_HOST, c->name, NULL, "wanted %lld bytes of page-locked memory for %s",
                       (long long)s->locked_bytes, what);
    RT_TRY(rt_cuda_take(c, s->there_bytes, &s->there, st));
    for (int64_t i = 0; i < s->n_tables; i++)
        RT_TRY(rt_cuda_write(c, s->there + (RtCudaPtr)s->tables[i].at, s->tables[i].host, s->tables[i].bytes, st));
    return RT_OK;
}

RtCode rt_staging_bind(RtAcross *a, RtStatus *st)
{
    if (!a->staging || a->staging->taken) return RT_OK;
    a->staging->taken = true;
    return rt_peers_agree(a->r->peers, take(a, st), st);
}

void rt_staging_free(RtAcross *a)
{
    RtStaging *s = a ? a->staging : NULL;
    if (!s) return;
    RtCuda *c = a->e->options.device;
    if (s->locked) c->driver.host_free(s->locked);
    if (s->there) rt_cuda_give(c, s->there, s->there_bytes);
    for (int64_t i = 0; i < s->n_runs; i++) free(s->runs[i].at);
    free(s->runs);
    free(s->tables);
    free(s->host_at);
    free(s);
    a->staging = NULL;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static RtCudaPtr there_of(const RtAcross *a, const RtSent *x)
{
    while (x->of) x = x->of;
    return a->staging->there + (RtCudaPtr)x->there_at;
}

char *rt_staging_base(const RtAcross *a, const RtSent *x)
{
    RtCudaPtr at = a->staging ? there_of(a, x) : (RtCudaPtr)(uintptr_t)x->at;
    RtCudaPtr base = at - (RtCudaPtr)(x->first * x->row_bytes);
    if (a->staging) rt_cuda_watch_rows(a->e->options.device->watch, base, at, x->n * x->row_bytes, NULL);
    return (char *)(uintptr_t)base;
}

void *rt_staging_table(const RtAcross *a, const RtDivided *d, void *table)
{
    const RtStaging *s = a->staging;
    for (int64_t i = 0; s && i < s->n_tables; i++) {
        const Table *t = &s->tables[i];
        if (t->host != start_of(d, table)) continue;
        RtCudaPtr at = s->there + (RtCudaPtr)t->at, given = at - ((uintptr_t)t->host - (uintptr_t)table);
        rt_cuda_watch_rows(a->e->options.device->watch, given, at, t->bytes, NULL);
        return (void *)(uintptr_t)given;
    }
    return table;
}

char *rt_staging_rows(const RtAcross *a, int64_t buffer)
{
    const RtStaging *s = a->staging;
    if (!s) return a->e->buffers[buffer];
    if (host_has(a, buffer)) return a->e->tensors[across_buffer(a, buffer)->ref];
    assert(s->locked && s->host_at[buffer] >= 0);
    return s->locked + s->host_at[buffer];
}

/* ---- from device to device --------------------------------------------------------------------------------------- */

static int move(const RtAcross *a, RtCudaPtr to, RtCudaPtr from, int64_t bytes)
{
    const RtCuda *c = a->e->options.device;
    return c->driver.move(to, from, (size_t)bytes, c->stream);
}

/* Rows of w bytes for other processes, or from them: from an array into the room, or back. Those that lie side by side
   together. */
static int move_rows(const RtAcross *a, const int64_t *n, const int64_t *rows, RtCudaPtr array, int64_t w,
                     RtCudaPtr room, bool out)
{
    int error = 0;
    for (int q = 0; q < a->r->n; rows += n[q++])
        for (int64_t i = 0, end; q != a->r->rank && i < n[q] && !error; room += (RtCudaPtr)((end - i) * w), i = end) {
            for (end = i + 1; end < n[q] && rows[end] == rows[end - 1] + 1;) end++;
            RtCudaPtr at = array + (RtCudaPtr)(rows[i] * w);
            error = move(a, out ? room : at, out ? at : room, (end - i) * w);
        }
    return error;
}

static int move_own(const RtAcross *a, const RtShip *s, RtCudaPtr from, RtCudaPtr to, int64_t w)
{
    const int64_t *out = s->out, *in = s->in;
    int error = 0;
    for (int q = 0; q < a->r->rank; q++) out += s->out_n[q], in += s->in_n[q];
    for (int64_t i = 0, end; i < s->n_own && !error; i = end) {
        for (end = i + 1; end < s->n_own && out[end] == out[end - 1] + 1 && in[end] == in[end - 1] + 1;) end++;
        error = move(a, to + (RtCudaPtr)(in[i] * w), from + (RtCudaPtr)(out[i] * w), (end - i) * w);
    }
    return error;
}

RtCode rt_staging_link(const RtAcross *a, int64_t buffer, const RtShip *s, const RtSent *x, int site, RtStatus *st)
{
    const RtRanks *r = a->r;
    int64_t bytes[2][RT_PEERS_MOST], w = across_row_bytes(a, buffer);
    RtCudaPtr from = (RtCudaPtr)(uintptr_t)a->e->buffers[buffer], to = x ? there_of(a, x) : from;
    RtCudaPtr out = a->staging->there + (RtCudaPtr)a->staging->room_at,
              in = out + (RtCudaPtr)((s->n_out - s->n_own) * w);
    for (int q = 0; q < r->n; q++) {
        bytes[0][q] = q == r->rank ? 0 : s->out_n[q] * w;
        bytes[1][q] = q == r->rank ? 0 : s->in_n[q] * w;
    }
    int error = move_rows(a, s->out_n, s->out, from, w, out, true);
    if (!error) error = move_own(a, s, from, to, w);
    if (!error) RT_TRY(rt_nccl_exchange(r->nccl, out, bytes[0], in, bytes[1], st));
    if (!error) error = move_rows(a, s->in_n, s->in, to, w, in, false);
    if (error) return rt_fail(st, RT_E_DEVICE_FAILED, a->e->options.device->name, NULL, "cannot copy rows (%d)", error);
    return rt_peers_count_round(r->peers, site, (s->n_out - s->n_own) * w, (s->n_in - s->n_own) * w, st);
}

RtCode rt_staging_settle(const RtAcross *a, RtStatus *st)
{
    return across_links(a) ? rt_nccl_settle(a->r->nccl, st) : RT_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static RtCudaPtr there_rows(const RtAcross *a, int64_t buffer, int64_t first)
{
    return (RtCudaPtr)(uintptr_t)a->e->buffers[buffer] + (RtCudaPtr)(first * across_row_bytes(a, buffer));
}

RtCode rt_staging_fetch(const RtAcross *a, int64_t buffer, int64_t first, int64_t n, RtStatus *st)
{
    if (!a->staging || host_has(a, buffer)) return RT_OK;
    int64_t w = across_row_bytes(a, buffer);
    RT_TRY(rt_staging_settle(a, st));
    return rt_cuda_read(a->e->options.device, rt_staging_rows(a, buffer) + first * w, there_rows(a, buffer, first),
                        n * w, st);
}

RtCode rt_staging_store(const RtAcross *a, int64_t buffer, int64_t first, int64_t n, RtStatus *st)
{
    if (!a->staging) return RT_OK;
    int64_t w = across_row_bytes(a, buffer);
    assert(!host_has(a, buffer));
    RT_TRY(rt_staging_settle(a, st));
    return rt_cuda_write(a->e->options.device, there_rows(a, buffer, first), rt_staging_rows(a, buffer) + first * w,
                         n * w, st);
}

RtCode rt_staging_fetch_sent(const RtAcross *a, int64_t buffer, const RtShip *s, RtStatus *st)
{
    int64_t first = s->n_out ? s->out[0] : 0, last = first - 1;
    for (int64_t i = 0; a->staging && i < s->n_out; i++) {
        if (s->out[i] < first) first = s->out[i];
        if (s->out[i] > last) last = s->out[i];
    }
    return rt_staging_fetch(a, buffer, first, last + 1 - first, st);
}

RtCode rt_staging_store_got(const RtAcross *a, int64_t buffer, const RtShip *s, RtStatus *st)
{
    const Runs *r = a->staging ? a->staging->runs : NULL;
    if (!r) return RT_OK;
    while (r->of != s->in) r++;
    assert(r < a->staging->runs + a->staging->n_runs);
    for (int64_t i = 0; i < r->n; i++)
        RT_TRY(rt_staging_store(a, buffer, r->at[2 * i], r->at[2 * i + 1] - r->at[2 * i], st));
    return RT_OK;
}

RtCode rt_staging_store_operand(const RtAcross *a, const RtSent *x, RtStatus *st)
{
    RT_TRY(rt_staging_settle(a, st));
    return a->staging ? rt_cuda_write(a->e->options.device, there_of(a, x), x->at, x->n * x->row_bytes, st) : RT_OK;
}

RtCode rt_staging_fetch_operand(const RtAcross *a, const RtSent *x, RtStatus *st)
{
    RT_TRY(rt_staging_settle(a, st));
    return a->staging ? rt_cuda_read(a->e->options.device, x->at, there_of(a, x), x->n * x->row_bytes, st) : RT_OK;
}
