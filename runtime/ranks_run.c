/* A program that processes share: its steps in order, and what travels between them (see ranks.h). */
#include "runtime/cuda.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char what[] = "what processes exchange";

/* ---- what travels ------------------------------------------------------------------------------------------------ */

typedef struct Listing {
    const RtAcross *a;
    RtTravel *out;
    int64_t n;
} Listing;

static void list_travel(Listing *l, RtTravel t)
{
    if (strcmp(t.kind, "rows")) t.exchange = -1;
    t.name = rt_string(l->a->e->model, across_buffer(l->a, t.buffer)->name);
    t.bytes_out = t.rows_out * t.row_bytes;
    if (l->out) l->out[l->n] = t;
    l->n++;
}

/* The rounds of the i-th sum of a step that processes merge together. */
static void list_merged(Listing *l, const RtDivided *d, int64_t i)
{
    const RtAcross *a = l->a;
    int n = rt_merge_rounds(a, d, i);
    for (int k = 0; k < n; k++) {
        bool back = rt_merge_is_back(a, d, i, k);
        RtTravel t = {.step = d->step,
                      .kind = back ? "results" : "partials",
                      .buffer = d->results[i],
                      .row_bytes = rt_elem_bytes(across_buffer(a, d->results[i])->elem),
                      .site = back ? a->results_site : a->operands_site,
                      .rounds = 1,
                      .divided = d - a->divided,
                      .sum = i,
                      .round = k,
                      .sum_bytes = rt_merge_bytes(a, d, i)};
        for (int q = 0; q < a->r->n; q++) t.rows_out += rt_merge_elements(a, d, i, k, q);
        list_travel(l, t);
    }
}

static void list_divided(Listing *l, const RtDivided *d)
{
    const RtAcross *a = l->a;
    for (int64_t k = 0; k < d->n_sent; k++) {
        const RtSent *x = &d->sent[k];
        if (x->of) continue;
        list_travel(l, (RtTravel){.step = d->step,
                                  .kind = "operands",
                                  .buffer = x->buffer,
                                  .once = x->once,
                                  .row_bytes = x->row_bytes,
                                  .rows_out = rt_ship_rows_out(a->r, x->ship),
                                  .site = a->operands_site,
                                  .rounds = 1,
                                  .rows_to = x->ship->out_n,
                                  .round = -1});
    }
    for (int64_t k = 0; k < d->n_returned; k++)
        list_travel(l, (RtTravel){.step = d->step,
                                  .kind = "results",
                                  .buffer = d->returned[k].buffer,
                                  .row_bytes = d->returned[k].row_bytes,
                                  .rows_out = rt_ship_rows_out(a->r, &d->back),
                                  .site = a->results_site,
                                  .rounds = 1,
                                  .rows_to = d->back.out_n,
                                  .round = -1});
    for (int64_t k = 0; k < d->n_results; k++) {
        if (d->merges) list_merged(l, d, k);
        else
            list_travel(l, (RtTravel){.step = d->step,
                                      .kind = "results",
                                      .buffer = d->results[k],
                                      .row_bytes = across_row_bytes(a, d->results[k]),
                                      .rows_out = (d->to - d->from) * (a->r->n - 1),
                                      .site = a->results_site,
                                      .rounds = 1,
                                      .round = -1});
    }
}

int64_t rt_travel_rows(const RtAcross *a, const RtTravel *t, int to)
{
    if (t->rows_to) return t->rows_to[to];
    if (t->round < 0) return t->rows_out / (a->r->n - 1);
    return rt_merge_elements(a, &a->divided[t->divided], t->sum, t->round, to);
}

int64_t rt_across_travels(const RtAcross *a, RtTravel *out)
{
    Listing l = {a, out, 0};
    int64_t exchange = a->n_exchanges, divided = 0; /* exchanges are listed from the last */
    for (int64_t i = 0; i < a->e->program->n_steps; i++) {
        const RtDivided *d = divided < a->n_divided && a->divided[divided].step == i ? &a->divided[divided++] : NULL;
        if (d) list_divided(&l, d);
        for (; exchange > 0 && a->exchanges[exchange - 1].after <= i; exchange--) {
            const RtExchange *x = &a->exchanges[exchange - 1];
            list_travel(&l, (RtTravel){.step = x->after,
                                       .kind = "rows",
                                       .buffer = x->buffer,
                                       .row_bytes = x->row_bytes,
                                       .rows_out = rt_ship_rows_out(a->r, &x->ship),
                                       .site = x->site,
                                       .exchange = exchange - 1,
                                       .rounds = 1,
                                       .rows_to = x->ship.out_n,
                                       .round = -1});
        }
    }
    return l.n;
}

static RtCode list_all(RtAcross *a, RtStatus *st)
{
    a->n_travels = rt_across_travels(a, NULL);
    RT_TRY(rt_alloc(&a->travels, a->n_travels, sizeof *a->travels, what, st));
    rt_across_travels(a, a->travels);
    for (int64_t i = 0; i < a->n_travels; i++) {
        const RtTravel *t = &a->travels[i];
        char name[200];
        snprintf(name, sizeof name, "%s: %s %s", rt_string(a->e->model, a->e->program->name), t->kind,
                 t->site == a->results_site || t->site == a->operands_site ? "of sums that are shared out" : t->name);
        RT_TRY(rt_peers_name_site(a->r->peers, t->site, name, st));
    }
    return RT_OK;
}

static RtCode grow(RtBlock *b, int64_t bytes, RtStatus *st)
{
    if (b->p && (int64_t)b->bytes >= bytes) return RT_OK;
    rt_block_free(b);
    return rt_block_alloc(b, rt_size_plus(64, bytes, 1), what, st);
}

/* Each time that the program runs. */
static RtCode predict(RtAcross *a, RtStatus *st)
{
    for (int64_t i = 0; i < a->n_travels; i++)
        if ((!a->travels[i].once || !a->ran) && !(a->policy && !strcmp(a->travels[i].kind, "rows")))
            RT_TRY(
                rt_peers_predict(a->r->peers, a->travels[i].site, a->travels[i].bytes_out, a->travels[i].rounds, st));
    a->ran = true;
    return RT_OK;
}

static RtCode exchange_at_once(RtAcross *a, const RtExchange *x, RtStatus *st)
{
    char *rows = rt_staging_rows(a, x->buffer);
    if (across_links(a)) return rt_staging_link(a, x->buffer, &x->ship, NULL, x->site, st);
    RT_TRY(rt_staging_fetch_sent(a, x->buffer, &x->ship, st));
    RT_TRY(rt_ship_run(a->r, &x->ship, x->site, rows, rows, x->row_bytes, st));
    return rt_staging_store_got(a, x->buffer, &x->ship, st);
}

static RtCode run_all(RtAcross *a, RtStatus *st)
{
    int64_t exchange = a->n_exchanges, divided = 0; /* exchanges are listed from the last */
    rt_policy_begin(a);
    RT_TRY(predict(a, st));
    RT_TRY(grow(&a->r->room, a->room_bytes, st));
    RT_TRY(grow(&a->r->operands, a->operand_bytes, st));
    if (a->staging) rt_cuda_begin(a->e);
    for (int64_t i = 0; i < a->n_divided; i++) RT_TRY(rt_divided_begin(a, &a->divided[i], st));
    if (a->overlap) RT_TRY(rt_overlap_begin(a, -1, st));
    for (int64_t i = -1; i < a->e->program->n_steps; i++) {
        if (i >= 0 && divided < a->n_divided && a->divided[divided].step == i) {
            RT_TRY(rt_divided_run(a, &a->divided[divided++], st));
            if (a->overlap) RT_TRY(rt_overlap_begin(a, i, st));
        } else if (i >= 0 && rt_policy_steps(a, i)) RT_TRY(rt_policy_step(a, i, st));
        else if (i >= 0 && a->overlap) RT_TRY(rt_overlap_step(a, i, st));
        else if (i >= 0 && a->staging) rt_cuda_begin_step(a->e, i);
        else if (i >= 0) rt_exec_run_step(a->e, i);
        if (a->policy) RT_TRY(rt_policy_after(a, i, st));
        while (exchange > 0 && a->exchanges[exchange - 1].after == i) {
            const RtExchange *x = &a->exchanges[--exchange];
            if (a->policy) RT_TRY(rt_policy_run(a, exchange, st));
            else if (!a->overlap) RT_TRY(exchange_at_once(a, x, st));
        }
    }
    assert(!exchange && divided == a->n_divided);
    if (a->overlap) RT_TRY(rt_overlap_end(a, st));
    return rt_staging_settle(a, st);
}

static void across_run(RtAcross *a)
{
    assert(a->e->bound);
    if (a->r->failed) return;
    a->r->failed = run_all(a, &a->r->status);
}

static RtCode across_bind(RtAcross *a, RtStatus *st)
{
    if (!a->travels) RT_TRY(list_all(a, st));
    RT_TRY(rt_staging_bind(a, st));
    RT_TRY(rt_overlap_bind(a, st));
    a->ran = false;
    for (int64_t i = 0; i < a->n_divided; i++) rt_divided_bind(a, &a->divided[i]);
    return rt_policy_bind(a, st);
}

static RtRows across_rows(const RtAcross *a, int64_t step) { return a->rows[step]; }
static void *across_strip(const RtAcross *a, int64_t buffer) { return a->strips[buffer].p; }

static const int64_t *across_slots(const RtAcross *a) { return a->slots; }

const RtAcrossOps rt_across = {rt_across_make, across_slots, rt_across_place, rt_across_free,  across_rows,
                               across_strip,   across_bind,  across_run,      rt_policy_settle};
