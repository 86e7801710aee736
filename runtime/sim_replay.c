/* A program whose ranks compute, send and wait, step by step with a clock for each rank (see sim.h). */
#include "runtime/sim.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const char what[] = "a simulated run";

typedef struct Replay {
    const RtSimProgram *p;
    RtSimLinks links;
    RtSimStages stages[2]; /* of gathers, of sums */
    RtSimOrder order;
    double *clock, *compute, *copy, *wait; /* [n] */
    double *start, *finish, *piece;        /* [n] scratch */
    double *there;                         /* [n_travels][n] when it is there, in overlap */
    bool *begun;                           /* [n_travels] and nobody has waited for it yet */
    RtSimMessage *messages;                /* [n][n - 1] scratch */
    double gathers_s;
    RtBlock blocks[3];
    RtStatus *st;
} Replay;

static RtCode replay_take(Replay *x, const RtSimTopology *t, RtSimShape gathers)
{
    int64_t n = x->p->n, numbers = rt_size_plus(7 * n, x->p->n_travels, n);
    RT_TRY(rt_block_alloc(&x->blocks[0], rt_size(numbers, sizeof(double)), what, x->st));
    RT_TRY(rt_block_alloc(&x->blocks[1], rt_size_plus(8, x->p->n_travels, sizeof(bool)), what, x->st));
    RT_TRY(rt_block_alloc(&x->blocks[2], rt_size_plus(8, rt_size(n, n - 1), sizeof(RtSimMessage)), what, x->st));
    double **arrays[] = {&x->clock, &x->compute, &x->copy, &x->wait, &x->start, &x->finish, &x->piece, &x->there};
    for (int i = 0; i < 8; i++) *arrays[i] = (double *)x->blocks[0].p + i * n;
    x->begun = x->blocks[1].p;
    x->messages = x->blocks[2].p;
    RT_TRY(rt_sim_links_create(t, x->p->n, &x->links, x->st));
    RT_TRY(rt_sim_stages_make(t, x->p->n, gathers, true, &x->stages[0], x->st));
    return rt_sim_stages_make(t, x->p->n, gathers, false, &x->stages[1], x->st);
}

static void replay_free(Replay *x)
{
    for (int i = 0; i < 2; i++) rt_sim_stages_free(&x->stages[i]);
    rt_sim_links_free(&x->links);
    for (int i = 0; i < 3; i++) rt_block_free(&x->blocks[i]);
}

/* What copying rows takes that a rank sends, or has received. */
static double copying(const Replay *x, int64_t travel, int rank, bool receives)
{
    double bytes = 0;
    RtSimKind kind = x->p->travels[travel].kind;
    if (kind == RT_SIM_ROUND && receives && x->p->unpacked)
        return x->p->unpacked(x->p->user, travel, rank) * x->p->copy_s;
    if (kind != RT_SIM_ROWS || x->p->copy_s == 0) return 0;
    for (int q = 0; q < x->p->n; q++)
        if (q != rank) bytes += x->p->bytes(x->p->user, travel, receives ? q : rank, receives ? rank : q);
    return bytes * x->p->copy_s;
}

static void copy_rows(Replay *x, int64_t travel, bool receives)
{
    for (int q = 0; q < x->p->n; q++) {
        double s = copying(x, travel, q, receives);
        x->clock[q] += s;
        x->copy[q] += s;
    }
}

/* The gather alone, all ranks beginning at once: what its shape takes. */
static RtCode time_gather(Replay *x, const RtSimStages *s)
{
    RtSimLinks links;
    double most = 0;
    RT_TRY(rt_sim_links_create(x->links.topology, x->p->n, &links, x->st));
    for (int q = 0; q < x->p->n; q++) x->start[q] = 0;
    RtCode code = rt_sim_stages_run(&links, s, x->piece, x->start, x->st);
    for (int q = 0; q < x->p->n; q++) most = fmax(most, x->start[q]);
    x->gathers_s += most;
    rt_sim_links_free(&links);
    return code;
}

static RtCode carry_stages(Replay *x, int64_t travel)
{
    const RtSimProgram *p = x->p;
    const RtSimStages *s = &x->stages[p->travels[travel].kind == RT_SIM_SUM];
    for (int q = 0; q < p->n; q++) x->piece[q] = p->bytes(p->user, travel, q, q);
    RT_TRY(time_gather(x, s));
    for (int q = 0; q < p->n; q++) x->finish[q] = x->clock[q];
    return rt_sim_stages_run(&x->links, s, x->piece, x->finish, x->st);
}

/* finish[]: when what ranks begin at start[] is there. */
static RtCode carry(Replay *x, int64_t travel, bool waits, const double *start)
{
    const RtSimProgram *p = x->p;
    int64_t n = 0;
    if (p->travels[travel].kind >= RT_SIM_GATHER) return carry_stages(x, travel);
    for (int r = 0; r < p->n; r++)
        for (int q = 0; q < p->n; q++) {
            double bytes = r == q ? 0 : p->bytes(p->user, travel, r, q);
            if (bytes > 0) x->messages[n++] = (RtSimMessage){r, q, bytes};
        }
    rt_sim_exchange(&x->links, x->messages, n, waits, start, x->finish);
    return RT_OK;
}

static void compute(Replay *x, int64_t step)
{
    for (int q = 0; q < x->p->n; q++) {
        double s = x->p->step_s(x->p->user, q, step);
        assert(s >= 0);
        x->clock[q] += s;
        x->compute[q] += s;
    }
}

static void wait_until(Replay *x, const double *moment)
{
    for (int q = 0; q < x->p->n; q++) {
        x->wait[q] += fmax(0, moment[q] - x->clock[q]);
        x->clock[q] = fmax(x->clock[q], moment[q]);
    }
}

/* ---- blocking order ---------------------------------------------------------------------------------------------- */

static RtCode stop_for(Replay *x, int64_t travel)
{
    copy_rows(x, travel, false);
    RT_TRY(carry(x, travel, true, x->clock));
    wait_until(x, x->finish);
    copy_rows(x, travel, true);
    return RT_OK;
}

static RtCode run_blocking(Replay *x)
{
    for (int64_t i = -1, k = 0; i < x->p->n_steps; i++) {
        const RtSimTravel *t = x->p->travels;
        for (; k < x->p->n_travels && t[k].step == i && t[k].before; k++) RT_TRY(stop_for(x, k));
        if (i >= 0) compute(x, i);
        for (; k < x->p->n_travels && t[k].step == i && !t[k].before; k++) RT_TRY(stop_for(x, k));
        assert(k == x->p->n_travels || t[k].step > i); /* they are in the order of steps */
    }
    return RT_OK;
}

/* ---- overlap ----------------------------------------------------------------------------------------------------- */

static double mean_bytes(const Replay *x, int64_t travel)
{
    double bytes = 0;
    for (int r = 0; r < x->p->n; r++)
        for (int q = 0; q < x->p->n; q++)
            if (r != q) bytes += x->p->bytes(x->p->user, travel, r, q);
    return bytes / x->p->n;
}

/* TIC's or TAC's order of n travels, by means of all ranks, so that all have the same. Steps run in their order: each
   waits for what those before it wait for. */
static RtCode sort_travels(const Replay *x, int64_t *list, int n)
{
    const RtSimProgram *p = x->p;
    const RtSimLevel *outer = &x->links.topology->levels[x->links.topology->n_levels - 1];
    double receive_s[RT_SIM_RECEIVES];
    int64_t sorted[RT_SIM_RECEIVES];
    int order[RT_SIM_RECEIVES];
    RtBlock block;
    RT_TRY(rt_block_alloc(&block, rt_size_plus(8, p->n_steps, sizeof(double) + sizeof(uint64_t)), what, x->st));
    double *compute_s = block.p;
    uint64_t *receives = (uint64_t *)(void *)(compute_s + p->n_steps);
    for (int k = 0; k < n; k++) receive_s[k] = outer->alpha_s + mean_bytes(x, list[k]) / outer->bytes_per_s;
    for (int64_t i = 0; i < p->n_steps; i++) {
        for (int q = 0; q < p->n; q++) compute_s[i] += p->step_s(p->user, q, i) / p->n;
        for (int k = 0; k < n; k++) receives[i] |= (uint64_t)(p->travels[list[k]].reader <= i) << k;
    }
    RtSimDag d = {n, (int)p->n_steps, receive_s, compute_s, receives};
    (x->order == RT_SIM_TAC ? rt_sim_order_tac : rt_sim_order_tic)(&d, order);
    for (int k = 0; k < n; k++) sorted[k] = list[order[k]];
    for (int k = 0; k < n; k++) list[k] = sorted[k];
    rt_block_free(&block);
    return RT_OK;
}

/* Behind a transfer and those that follow it. */
static int64_t chain_end(const Replay *x, int64_t k)
{
    do k++;
    while (k < x->p->n_travels && x->p->travels[k].follows);
    return k;
}

/* Begins a transfer, and behind it those that follow it: they are there when the last of them is. */
static RtCode begin_one(Replay *x, int64_t k)
{
    double *there = x->there + k * x->p->n;
    int64_t end = chain_end(x, k);
    for (int64_t i = k; i < end; i++) copy_rows(x, i, false);
    for (int q = 0; q < x->p->n; q++) there[q] = x->clock[q];
    x->begun[k] = true;
    for (; k < end; k++) {
        RT_TRY(carry(x, k, false, there));
        for (int q = 0; q < x->p->n; q++) there[q] = fmax(there[q], x->finish[q]);
    }
    return RT_OK;
}

/* Begins all that step i made, sorted by the order that is simulated; more than RT_SIM_RECEIVES at a time are sorted in
   groups of that many. */
static RtCode begin_made(Replay *x, int64_t i)
{
    int64_t list[RT_SIM_RECEIVES], n = 0, k = 0;
    do {
        for (n = 0; k < x->p->n_travels && n < RT_SIM_RECEIVES; k++)
            if (x->p->travels[k].made == i && !x->p->travels[k].follows) list[n++] = k;
        if (n > 1 && x->order != RT_SIM_AS_MADE) RT_TRY(sort_travels(x, list, (int)n));
        for (int64_t m = 0; m < n; m++) RT_TRY(begin_one(x, list[m]));
    } while (n == RT_SIM_RECEIVES);
    return RT_OK;
}

static void wait_for_read(Replay *x, int64_t step)
{
    for (int64_t k = 0; k < x->p->n_travels; k++) {
        if (!x->begun[k] || x->p->travels[k].reader != step) continue;
        wait_until(x, x->there + k * x->p->n);
        for (int64_t i = k; i < chain_end(x, k); i++) copy_rows(x, i, true);
        x->begun[k] = false;
    }
}

static RtCode run_overlapped(Replay *x)
{
    for (int64_t k = 0; k < x->p->n_travels; k++) assert(x->p->travels[k].made < x->p->travels[k].reader);
    for (int64_t i = -1; i < x->p->n_steps; i++) {
        if (i >= 0) wait_for_read(x, i);
        if (i >= 0) compute(x, i);
        RT_TRY(begin_made(x, i));
    }
    wait_for_read(x, x->p->n_steps);
    return RT_OK;
}

/* ---- */

static void mean_and_most(const double *of, int n, double out[2])
{
    for (int q = 0; q < n; q++) {
        out[0] += of[q] / n;
        out[1] = fmax(out[1], of[q]);
    }
}

RtCode rt_sim_replay(const RtSimProgram *p, const RtSimTopology *t, RtSimOrder order, RtSimShape gathers,
                     RtSimResult *out, RtStatus *st)
{
    Replay x = {.p = p, .order = order, .st = st};
    *out = (RtSimResult){0};
    RtCode code = replay_take(&x, t, gathers);
    if (!code) code = order == RT_SIM_BLOCKING ? run_blocking(&x) : run_overlapped(&x);
    for (int q = 0; q < p->n && !code; q++) out->run_s = fmax(out->run_s, x.clock[q]);
    if (!code) mean_and_most(x.compute, p->n, out->compute_s);
    if (!code) mean_and_most(x.copy, p->n, out->copy_s);
    if (!code) mean_and_most(x.wait, p->n, out->wait_s);
    for (int j = 0; j < t->n_levels && !code; j++) out->bytes[j] = x.links.bytes[j];
    out->messages = x.links.messages;
    out->gathers_s = x.gathers_s;
    replay_free(&x);
    return code;
}
