/* Rows travel while steps are computed (see ranks.h). What travels in each run is begun right behind the step that
   makes it, and is there before the first step that reads it: rows of peers, and operands of sums that are shared out.
   It comes to where it is read from; operands whose place has another value while they travel wait in room of their
   own.

     step 4 makes z          its rows that peers want first; then z's rows are on their way
     step 5 sums over edges  rows that read none of peers' rows first; the others when these have come

   Iterations of a step do not know of one another, so no bit depends on their order. Which steps something travels
   behind and before follows from the program alone: all processes begin it in the same order. */
#include "runtime/clock.h"
#include "runtime/cuda.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "what processes exchange";
static const double PIECE_NS = 2e5;       /* of compute between looks at what travels */
enum { LATE = 1, WANTED = 2, KINDS = 4 }; /* iterations that read what travels; that make what will */
enum { BOTH = LATE | WANTED };
enum { SHORT = 16 }; /* fewer rows side by side are of both kinds: computed last, and before what they make is sent */

typedef struct Transit {
    int64_t begin, finish; /* behind a step, -1: before all; before a step, n_steps: behind all */
    RtSent *sent;          /* of operands; NULL: rows of a buffer to the same buffer */
    RtShip ship;
    int64_t buffer, row_bytes;
    int64_t room; /* -1: what comes does not wait there */
    int site, flight;
    bool flies;
} Transit;

typedef struct Runs { /* of iterations: [n][3] how many come before in all runs, the first, the one behind the last */
    int64_t *at, n, total;
} Runs;

typedef struct Order { /* of a step's iterations */
    Runs of[KINDS];
    RtBlock block;
} Order;

struct RtOverlap {
    int64_t n_steps;
    Transit *transits; /* [n_transits] as they are begun */
    int64_t n_transits, flying;
    Order *orders;  /* [n_steps] an empty block: iterations as they come, when all is there */
    int64_t *piece; /* [n_steps] iterations that take about PIECE_NS */
    double looked;
};

/* ---- which steps ------------------------------------------------------------------------------------------------- */

/* Whether a step that is shared out sends rows of the buffer that peers own: else it sends owned ones alone. */
static bool sends(const RtDivided *d, int64_t buffer)
{
    for (int64_t i = 0; i < d->n_sent; i++)
        if (d->sent[i].buffer == buffer && d->sent[i].late && !d->sent[i].of) return true;
    return false;
}

/* Whether the step wants rows of the buffer that peers own, or makes others. */
static bool wants(const RtAcross *a, int64_t step, int64_t buffer)
{
    const RtModel *m = a->e->model;
    const RtStep *s = across_def(a, step);
    for (int64_t i = 0; i < a->n_divided; i++)
        if (a->divided[i].step == step && !a->divided[i].own) return sends(&a->divided[i], buffer);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (t->buffer != buffer) continue;
        if (t->writes || t->at == RT_AT_ALL || a->rows[step] == RT_READ) return true;
        if (t->image >= 0 && !m->maps[t->image].sorted) return true;
        if (t->at == RT_AT_ELEMENT && !m->maps[s->under].sorted) return true;
    }
    return false;
}

int64_t rt_sent_begin(const RtAcross *a, int64_t step, const RtSent *x)
{
    while (--step >= 0 && !across_writes(a, step, x->buffer)) {}
    return step;
}

static void add_exchange(const RtAcross *a, Transit *t, const RtExchange *x)
{
    *t = (Transit){.begin = x->after,
                   .finish = x->after + 1,
                   .ship = x->ship,
                   .buffer = x->buffer,
                   .row_bytes = x->row_bytes,
                   .site = x->site};
    const RtBuffer *b = across_buffer(a, x->buffer);
    /* planned memory is another value's from then on */
    int64_t end = b->kind == RT_BUF_ARENA ? a->e->places[b->slot].last + 1 : a->e->program->n_steps;
    while (t->finish < end && !wants(a, t->finish, x->buffer)) t->finish++;
}

static void add_operand(const RtAcross *a, Transit *t, int64_t step, RtSent *x)
{
    *t = (Transit){.begin = rt_sent_begin(a, step, x),
                   .finish = step,
                   .sent = x,
                   .ship = *x->ship,
                   .buffer = x->buffer,
                   .row_bytes = x->row_bytes,
                   .site = a->operands_site};
    if (x->rows) t->ship.out = (int64_t *)(uintptr_t)x->rows;
}

/* As they are begun: by steps, rows of peers before operands, which are wanted later. */
static RtCode list_transits(RtAcross *a, RtOverlap *o, RtStatus *st)
{
    int64_t n_rows = a->policy ? 0 : a->n_exchanges, n = n_rows;
    for (int64_t i = 0; i < a->n_divided; i++) n += a->divided[i].n_sent;
    RT_TRY(rt_alloc(&o->transits, n, sizeof *o->transits, what, st));
    Transit *list;
    RT_TRY(rt_alloc(&list, n, sizeof *list, what, st));
    n = 0;
    for (int64_t i = n_rows; i-- > 0;) add_exchange(a, &list[n++], &a->exchanges[i]);
    for (int64_t i = 0; i < a->n_divided; i++)
        for (int64_t k = 0; k < a->divided[i].n_sent; k++)
            if (!a->divided[i].sent[k].once && !a->divided[i].sent[k].of && !a->divided[i].sent[k].late)
                add_operand(a, &list[n++], a->divided[i].step, &a->divided[i].sent[k]);
    for (int64_t step = -1; step < a->e->program->n_steps; step++)
        for (int64_t i = 0; i < n; i++)
            if (list[i].begin == step) o->transits[o->n_transits++] = list[i];
    assert(o->n_transits == n);
    free(list);
    return RT_OK;
}

/* Room for each that waits. */
static RtCode pack_room(RtAcross *a, RtOverlap *o, RtStatus *st)
{
    RtPack *places;
    int64_t n = 0;
    RT_TRY(rt_alloc(&places, o->n_transits, sizeof *places, what, st));
    for (int64_t i = 0; i < o->n_transits; i++) {
        const Transit *t = &o->transits[i];
        int64_t came = rt_size(t->ship.n_in - t->ship.n_own, t->row_bytes),
                bytes = rt_size_plus(RT_PACK_ALIGN - 1, came, 1) & ~(int64_t)(RT_PACK_ALIGN - 1);
        if (t->sent && t->sent->waits) places[n++] = (RtPack){.bytes = bytes, .first = t->begin, .last = t->finish};
    }
    int64_t bytes = rt_pack(places, n, NULL, 0);
    n = 0;
    for (int64_t i = 0; i < o->n_transits; i++) {
        Transit *t = &o->transits[i];
        t->room = t->sent && t->sent->waits ? places[n++].at : -1;
    }
    a->room_free = bytes;
    a->room_bytes = rt_size_plus(a->room_bytes, bytes, 1);
    free(places);
    return bytes < 0 ? rt_fail(st, RT_E_OVERFLOW, what, NULL, "their bytes overflow 64 bits") : RT_OK;
}

/* ---- which rows -------------------------------------------------------------------------------------------------- */

typedef struct Marks { /* of a step's iterations */
    const RtAcross *a;
    int64_t step, rows, block;
    unsigned char *of;
} Marks;

static void mark(const Marks *m, int64_t row, int kind)
{
    if (row >= 0 && row < m->rows) m->of[m->block == 1 ? row : row / m->block] |= (unsigned char)kind;
}

/* Iterations that read rows of the buffer that peers own. */
static RtCode mark_reads(const Marks *m, int64_t buffer, RtStatus *st)
{
    const RtAcross *a = m->a;
    const RtGraph *g = a->e->graph;
    const RtStep *s = across_def(a, m->step);
    int64_t owned = a->r->spaces[across_space(a, buffer)].owned;
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, m->step, i);
        if (t->buffer != buffer) continue;
        bool element = t->at == RT_AT_ELEMENT, all = t->writes || t->at == RT_AT_ALL;
        const int32_t *image = t->image < 0 ? NULL : g->maps[t->image].to;
        const uint64_t *readers = NULL;
        if (element) RT_TRY(rt_reach_readers(a->r, s->under, t->image, &readers, st));
        for (int64_t k = 0; k < m->rows; k++) { /* a kind in place of a branch that nobody foretells */
            bool reads = readers ? readers[k >> 6] >> (k & 63) & 1 : (image ? image[k] : k) >= owned;
            mark(m, k, LATE * (all || reads));
        }
    }
    return RT_OK;
}

/* Iterations that make rows which peers get. */
static void mark_writes(const Marks *m, const Transit *x)
{
    const RtAcross *a = m->a;
    const RtStep *s = across_def(a, m->step);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, m->step, i);
        if (t->buffer != x->buffer || !t->writes) continue;
        const int32_t *under = t->at == RT_AT_ELEMENT ? a->e->graph->maps[s->under].to : NULL;
        for (int64_t q = 0, k = 0; q < a->r->n; k += x->ship.out_n[q++])
            for (int64_t j = k; q != a->r->rank && j < k + x->ship.out_n[q]; j++)
                mark(m, under ? under[x->ship.out[j]] : x->ship.out[j], WANTED);
    }
}

/* Whether the step's iterations are rows of its space, or blocks of rows, that this process owns or has. */
static bool by_rows(const RtAcross *a, const RtStep *s, const RtExecStep *x)
{
    if ((s->work != RT_EACH && s->work != RT_SUMS) || !a->r->spaces[s->over].shared || x->split) return false;
    const RtCount *c = &x->call->extent;
    return c->space == s->over && (c->kind == RT_COUNT_SPACE || (c->kind == RT_COUNT_BLOCKS && c->max == INT64_MAX));
}

static void add_run(Runs *r, int64_t from, int64_t to)
{
    int64_t *run = r->at + 3 * r->n++;
    run[0] = r->total;
    run[1] = from;
    run[2] = to;
    r->total += to - from;
}

/* Runs of iterations of one kind. */
static RtCode cut_runs(const Marks *m, int64_t n, Order *order, RtStatus *st)
{
    int64_t n_runs[KINDS] = {0}, least = m->block > 1 ? 1 : SHORT, sum = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && m->of[end] == m->of[i];) end++;
        if (end - i < least) memset(m->of + i, BOTH, (size_t)(end - i));
    }
    for (int64_t i = 0; i < n; i++) n_runs[m->of[i]] += !i || m->of[i] != m->of[i - 1];
    for (int k = 0; k < KINDS; k++) sum += n_runs[k];
    RT_TRY(rt_block_alloc(&order->block, rt_size_plus(8, sum, 24), what, st));
    int64_t *at = order->block.p;
    for (int k = 0; k < KINDS; at += 3 * n_runs[k++]) order->of[k].at = at;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && m->of[end] == m->of[i];) end++;
        add_run(&order->of[m->of[i]], i, end);
    }
    return RT_OK;
}

static RtCode order_step(RtAcross *a, RtOverlap *o, int64_t step, RtStatus *st)
{
    const RtStep *s = across_def(a, step);
    const RtExecStep *x = &a->e->steps[step];
    Marks m = {a, step, 0, x->block, NULL};
    bool any = false;
    for (int64_t i = 0; i < o->n_transits; i++) {
        const Transit *t = &o->transits[i];
        any |= t->begin == step || (t->finish == step && !t->sent);
    }
    if (!any || !x->extent || !by_rows(a, s, x)) return RT_OK;
    m.rows = rt_rows(a->e->graph, s->over, a->rows[step]);
    assert(m.rows <= x->extent * x->block);
    RT_TRY(rt_alloc(&m.of, x->extent, 1, what, st));
    RtCode code = RT_OK;
    for (int64_t i = 0; i < o->n_transits && !code; i++) {
        const Transit *t = &o->transits[i];
        if (t->finish == step && !t->sent) code = mark_reads(&m, t->buffer, st);
        if (t->begin == step) mark_writes(&m, t);
    }
    if (!code) code = cut_runs(&m, x->extent, &o->orders[step], st);
    free(m.of);
    return code;
}

RtCode rt_overlap_make(RtAcross *a, RtStatus *st)
{
    if (!across_overlaps(a)) return RT_OK;
    RT_TRY(rt_alloc(&a->overlap, 1, sizeof *a->overlap, what, st));
    RtOverlap *o = a->overlap;
    o->n_steps = a->e->program->n_steps;
    RT_TRY(rt_alloc(&o->orders, o->n_steps, sizeof *o->orders, what, st));
    RT_TRY(rt_alloc(&o->piece, o->n_steps, sizeof *o->piece, what, st));
    RT_TRY(list_transits(a, o, st));
    return pack_room(a, o, st);
}

RtCode rt_overlap_bind(RtAcross *a, RtStatus *st)
{
    RtOverlap *o = a->overlap;
    for (int64_t i = 0; o && !a->staging && i < o->n_steps; i++) /* a device computes whole steps */
        if (!o->orders[i].block.p) RT_TRY(order_step(a, o, i, st));
    return RT_OK;
}

void rt_overlap_free(RtOverlap *o)
{
    if (!o) return;
    for (int64_t i = 0; o->orders && i < o->n_steps; i++) rt_block_free(&o->orders[i].block);
    free(o->orders);
    free(o->piece);
    free(o->transits);
    free(o);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static char *room_of(const RtAcross *a, const Transit *t)
{
    return t->room < 0 ? NULL : (char *)a->r->room.p + t->room;
}

static void *goes_to(const RtAcross *a, const Transit *t)
{
    return t->sent ? t->sent->at : rt_staging_rows(a, t->buffer);
}

static RtCode begin(RtAcross *a, Transit *t, RtStatus *st)
{
    if (across_links(a)) return t->sent ? RT_OK : rt_staging_link(a, t->buffer, &t->ship, NULL, t->site, st);
    RT_TRY(rt_staging_fetch_sent(a, t->buffer, &t->ship, st));
    RT_TRY(rt_ship_begin(a->r, &t->ship, t->site, rt_staging_rows(a, t->buffer), goes_to(a, t), t->row_bytes,
                         room_of(a, t), &t->flight, st));
    t->flies = true;
    a->overlap->flying++;
    return RT_OK;
}

static RtCode finish(RtAcross *a, Transit *t, RtStatus *st)
{
    char *from = rt_staging_rows(a, t->buffer);
    t->flies = false;
    a->overlap->flying--;
    RT_TRY(rt_ship_finish(a->r, &t->ship, t->flight, from, goes_to(a, t), t->row_bytes, room_of(a, t), st));
    return t->sent ? rt_staging_store_operand(a, t->sent, st) : rt_staging_store_got(a, t->buffer, &t->ship, st);
}

/* Rows that peers own and the step reads. */
static RtCode finish_rows(RtAcross *a, int64_t step, RtStatus *st)
{
    for (int64_t i = 0; i < a->overlap->n_transits; i++) {
        Transit *t = &a->overlap->transits[i];
        if (t->flies && !t->sent && t->finish == step) RT_TRY(finish(a, t, st));
    }
    return RT_OK;
}

static bool rows_there(const RtAcross *a, int64_t step)
{
    for (int64_t i = 0; i < a->overlap->n_transits; i++) {
        const Transit *t = &a->overlap->transits[i];
        if (t->flies && !t->sent && t->finish == step && !rt_peers_arrived(a->r->peers, t->flight)) return false;
    }
    return true;
}

static RtCode begin_all(RtAcross *a, int64_t step, RtStatus *st)
{
    for (int64_t i = 0; i < a->overlap->n_transits; i++)
        if (a->overlap->transits[i].begin == step) RT_TRY(begin(a, &a->overlap->transits[i], st));
    return RT_OK;
}

/* Iterations at places [lo, hi) of runs. */
static void run_places(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtExecStep *x = args[0].p;
    const Runs *r = args[1].p;
    int64_t i = 0, above = r->n;
    while (above - i > 1) { /* the last run that begins at lo or before */
        int64_t mid = i + (above - i) / 2;
        if (r->at[3 * mid] <= lo) i = mid;
        else above = mid;
    }
    for (; lo < hi; i++) {
        const int64_t *run = r->at + 3 * i;
        int64_t from = run[1] + (lo - run[0]), end = run[2] - from < hi - lo ? run[2] : from + (hi - lo);
        x->fn(x->args, from, end);
        lo += end - from;
    }
}

/* Runs from the place *at on, in pieces between which is moved what travels; until: no further than the rows that the
   step reads are there. */
static void run_pieces(const RtAcross *a, int64_t step, const Runs *r, int64_t *at, bool until)
{
    enum { MOST = 64 };
    RtOverlap *o = a->overlap;
    const RtExecStep *x = &a->e->steps[step];
    RtArg args[2] = {{.p = (void *)(uintptr_t)x}, {.p = (void *)(uintptr_t)r}};
    int64_t bounds[MOST + 1], *piece = &o->piece[step], threads = rt_pool_threads(a->e->options.pool);
    int64_t most = threads == 1 ? 1 : 4 * threads < MOST ? 4 * threads : MOST;
    while (*at < r->total && !(until && rows_there(a, step))) {
        int64_t n = r->total - *at;
        if (!*piece) *piece = r->total / 32 + 1;
        if (o->flying && n > *piece) n = *piece;
        int64_t n_chunks = n < most ? n : most;
        for (int64_t i = 0; i <= n_chunks; i++) bounds[i] = *at + n * i / n_chunks;
        double before = rt_now_ns();
        rt_pool_run(a->e->options.pool, run_places, args, bounds, NULL, n_chunks);
        double after = rt_now_ns();
        *at += n;
        if (!o->flying) continue;
        if (after - before > 2 * PIECE_NS) *piece = n / 2 + 1;
        if (after - before < PIECE_NS / 2 && n == *piece) *piece = 2 * n;
        if (after - o->looked < PIECE_NS / 2) continue;
        rt_peers_progress(a->r->peers);
        o->looked = rt_now_ns();
    }
}

static void run_kind(RtAcross *a, int64_t step, int kind)
{
    int64_t at = 0;
    run_pieces(a, step, &a->overlap->orders[step].of[kind], &at, false);
}

void rt_overlap_iterate(const RtAcross *a, int64_t step, int64_t lo, int64_t hi)
{
    int64_t run[3] = {0, lo, hi}, at = 0;
    run_pieces(a, step, &(Runs){run, 1, hi - lo}, &at, false);
}

RtCode rt_overlap_step(RtAcross *a, int64_t step, RtStatus *st)
{
    const Order *order = &a->overlap->orders[step];
    const Runs *others = &order->of[0];
    int64_t at = 0;
    if (!order->block.p) {
        RT_TRY(finish_rows(a, step, st));
        if (a->staging) rt_cuda_begin_step(a->e, step);
        else if (!a->overlap->flying) rt_exec_run_step(a->e, step);
        else rt_overlap_iterate(a, step, 0, a->e->steps[step].extent);
        return begin_all(a, step, st);
    }
    run_kind(a, step, WANTED);
    run_pieces(a, step, others, &at, true);
    RT_TRY(finish_rows(a, step, st));
    run_kind(a, step, BOTH);
    RT_TRY(begin_all(a, step, st));
    run_kind(a, step, LATE);
    run_pieces(a, step, others, &at, false);
    return RT_OK;
}

RtCode rt_overlap_begin(RtAcross *a, int64_t step, RtStatus *st) { return begin_all(a, step, st); }
void rt_overlap_flies(RtAcross *a, int more) { a->overlap->flying += more; }
RtCode rt_overlap_rows(RtAcross *a, int64_t step, RtStatus *st) { return finish_rows(a, step, st); }
RtCode rt_overlap_end(RtAcross *a, RtStatus *st) { return finish_rows(a, a->e->program->n_steps, st); }

RtCode rt_overlap_sent(RtAcross *a, const RtSent *x, RtStatus *st)
{
    for (int64_t i = 0; i < a->overlap->n_transits; i++) {
        Transit *t = &a->overlap->transits[i];
        if (t->sent != x) continue;
        /* its memory is free from this step on */
        return across_links(a) ? rt_staging_link(a, t->buffer, &t->ship, x, t->site, st) : finish(a, t, st);
    }
    return RT_OK;
}
