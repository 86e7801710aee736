/* The transport `sim` (see peers_sim.h): threads that take turns. A rank goes on until it waits for others; then the
   next one does. Bytes are copied when both ends have asked for them, by whoever has the turn. */
#include "runtime/peers_sim.h"
#include "runtime/memory.h"
#include "runtime/peers_transport.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 1 << 20 };
static const char what[] = "simulated ranks";

typedef struct Sim Sim;
typedef struct Rank {
    RtTransport t; /* first: a transport is its rank */
    Sim *sim;
    pthread_t thread;
    pthread_cond_t turn;
    bool asks, ended; /* it waits for bytes; it has no turn any more */
    RtCode code;
    RtStatus st;
} Rank;

struct Sim {
    int n, turn, n_asking, n_ended;
    pthread_mutex_t lock;
    Rank *ranks;    /* [n] */
    RtMove *moves;  /* [2][n][n] what each rank sends to each, and receives from each */
    int first_lost; /* the rank that failed first; -1: none */
    RtStatus failed;
    bool refused; /* not all threads could be started */
    RtSimRank *play;
    void *user;
};

/* ---- turns ---- */

static void next_turn(Sim *s)
{
    for (int i = 1; i <= s->n; i++) {
        int q = (s->turn + i) % s->n;
        if (s->ranks[q].ended) continue;
        s->turn = q;
        pthread_cond_signal(&s->ranks[q].turn);
        return;
    }
}

static void await_turn(Rank *r)
{
    while (r->sim->turn != r->t.rank) pthread_cond_wait(&r->turn, &r->sim->lock);
}

static void sim_rest(RtTransport *t, int64_t idle)
{
    Rank *r = (Rank *)(void *)t;
    (void)idle;
    next_turn(r->sim);
    await_turn(r);
}

/* ---- bytes ---- */

static bool copy(RtMove *out, RtMove *in)
{
    int64_t n = out->left < in->left ? out->left : in->left;
    if (n <= 0) return false;
    memcpy(in->p, out->p, (size_t)n);
    *out = (RtMove){out->p + n, out->left - n};
    *in = (RtMove){in->p + n, in->left - n};
    return true;
}

static RtCode sim_progress(RtTransport *t, bool *moved, RtStatus *st)
{
    Sim *s = ((Rank *)(void *)t)->sim;
    (void)st;
    *moved = false;
    if (s->first_lost >= 0 || s->n_asking + s->n_ended < s->n) return RT_OK; /* most have asked for nothing yet */
    for (int q = 0; q < s->n; q++) {
        if (q == t->rank || s->ranks[q].ended) continue;
        *moved |= copy(&t->out[q], &s->ranks[q].t.in[t->rank]);
        *moved |= copy(&s->ranks[q].t.out[t->rank], &t->in[q]);
    }
    return RT_OK;
}

static void sim_waiting(RtTransport *t, bool yes)
{
    Rank *r = (Rank *)(void *)t;
    r->sim->n_asking += yes - r->asks;
    r->asks = yes;
}

static bool sim_waits(const RtTransport *t, int peer) { return ((const Rank *)(const void *)t)->sim->ranks[peer].asks; }

/* ---- the end ---- */

/* A rank ends by rt_peers_close, in which all meet, or by a failure: nobody waits for ever. */
static RtCode sim_lost(RtTransport *t, RtStatus *st)
{
    const Sim *s = ((const Rank *)(const void *)t)->sim;
    return s->first_lost < 0 ? RT_OK : rt_peers_heard(s->first_lost, &s->failed, st);
}

static void sim_fail(RtTransport *t, const RtStatus *st)
{
    Sim *s = ((Rank *)(void *)t)->sim;
    if (s->first_lost >= 0) return;
    s->first_lost = t->rank;
    s->failed = *st;
}

static int sim_lower(RtTransport *t) { return t ? -1 : 0; }
static bool sim_speak(RtTransport *t) { return t->rank == 0; }
static void sim_close(RtTransport *t, const RtStatus *st) { (void)t, (void)st; } /* its memory is the run's */

static const RtTransportCalls calls = {"sim",       sim_progress, sim_rest,  sim_lost,  sim_waits,
                                       sim_waiting, sim_fail,     sim_lower, sim_speak, sim_close};

/* ---- the run ---- */

static void *rank_thread(void *arg)
{
    Rank *r = arg;
    Sim *s = r->sim;
    RtPeers *peers = NULL;
    pthread_mutex_lock(&s->lock);
    await_turn(r);
    if (!s->refused) {
        r->code = rt_peers_over(&r->t, &(RtPeersOptions){.deadline_s = 1e9}, &peers, &r->st);
        if (!r->code) r->code = s->play(s->user, peers, &r->st);
        if (r->code) rt_peers_fail(peers, &r->st);
        rt_peers_close(peers);
    }
    r->ended = true;
    s->n_ended++;
    next_turn(s);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static RtCode start_all(Sim *s, RtStatus *st)
{
    pthread_attr_t attr;
    int n = 0;
    if (pthread_attr_init(&attr)) return rt_fail_memory(st, sizeof attr, what);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_mutex_lock(&s->lock); /* nobody has the turn before all are there */
    for (; n < s->n && !pthread_create(&s->ranks[n].thread, &attr, rank_thread, &s->ranks[n]);) n++;
    s->refused = n < s->n;
    for (int q = n; q < s->n; q++) s->ranks[q].ended = true;
    pthread_mutex_unlock(&s->lock);
    for (int q = 0; q < n; q++) pthread_join(s->ranks[q].thread, NULL);
    pthread_attr_destroy(&attr);
    return n == s->n ? RT_OK
                     : rt_fail(st, RT_E_PEERS_OPEN, NULL, "simulate fewer ranks",
                               "this machine starts %d threads of %d", n, s->n);
}

static RtCode outcome(const Sim *s, RtStatus *st)
{
    if (s->first_lost >= 0) {
        if (st) *st = s->failed;
        return s->failed.code;
    }
    for (int q = 0; q < s->n; q++) /* what all agreed upon */
        if (s->ranks[q].code) {
            if (st) *st = s->ranks[q].st;
            return s->ranks[q].code;
        }
    return RT_OK;
}

RtCode rt_peers_sim_run(int n, RtSimRank *rank, void *user, RtStatus *st)
{
    Sim s = {.n = n, .first_lost = -1, .play = rank, .user = user};
    assert(n >= 1 && n <= RT_PEERS_MOST);
    RtCode code = rt_alloc(&s.ranks, n, sizeof *s.ranks, what, st);
    if (!code) code = rt_alloc(&s.moves, rt_size(n, 2), rt_size(n, sizeof *s.moves), what, st);
    if (!code) pthread_mutex_init(&s.lock, NULL);
    for (int q = 0; q < n && !code; q++) {
        RtMove *out = s.moves + (int64_t)q * n, *in = s.moves + ((int64_t)n + q) * n;
        s.ranks[q].sim = &s;
        s.ranks[q].t = (RtTransport){&calls, q, n, out, in, 1e9};
        pthread_cond_init(&s.ranks[q].turn, NULL);
    }
    if (!code) code = start_all(&s, st);
    if (!code) code = outcome(&s, st);
    for (int q = 0; q < n && s.moves; q++) pthread_cond_destroy(&s.ranks[q].turn);
    if (s.moves) pthread_mutex_destroy(&s.lock);
    free(s.moves);
    free(s.ranks);
    return code;
}
