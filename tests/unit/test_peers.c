/* Processes that compute together (runtime/peers.h), as several processes of this program: what is sent arrives,
   whatever the sizes; what goes wrong in one process is named in all others, in time. Each case runs over shared
   memory, and by mpirun where it is installed. `test_peers rank CASE N FILE` is one process of a case: it appends what
   it met to FILE. */
#include "runtime/clock.h"
#include "runtime/json.h"
#include "runtime/file.h"
#include "runtime/peers_transport.h"
#include "tests/unit/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 8, ROUNDS = 30, SITE = 5, MOST_BYTES = 3 << 20 };

/* ---- one process of a case ---- */

typedef struct Rank {
    RtPeers *p;
    int rank, n;
    const char *file;
    char *out, *in;
    RtStatus st;
} Rank;

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 2654435761u ^ b * 2246822519u ^ c * 3266489917u;
    h = (h ^ h >> 15) * 2246822519u;
    return (h ^ h >> 13) * 3266489917u ^ h >> 16;
}

/* How many bytes rank a sends to rank b in a round: none, few, many, and now and then megabytes. */
static int64_t size_of(int round, int a, int b)
{
    uint32_t h = hash((uint32_t)round, (uint32_t)a, (uint32_t)b);
    switch (h % 8) {
    case 0:
    case 1: return 0;
    case 2: return h >> 8 & 7;
    case 3: return (h >> 8) % (300 << 10);
    case 4: return round % 10 ? h >> 20 : (h >> 8) % MOST_BYTES;
    default: return (h >> 8) % 5000;
    }
}

static char byte_of(int round, int a, int b, int64_t at)
{
    return (char)(hash((uint32_t)round, (uint32_t)(a * 64 + b), (uint32_t)at) & 0xff);
}

static RtCode expect(Rank *r, bool right, const char *what)
{
    return right ? RT_OK : rt_fail(&r->st, RT_E_INTERNAL, NULL, NULL, "rank %d: %s", r->rank, what);
}

static RtCode room(Rank *r, int64_t bytes)
{
    RT_TRY(rt_alloc(&r->out, bytes, 1, "test", &r->st));
    return rt_alloc(&r->in, bytes, 1, "test", &r->st);
}

/* What is sent in a round, and how much; returns what goes to other processes. */
static int64_t exchange_fill(const Rank *r, int round, char *bytes, int64_t *out, int64_t *in)
{
    int64_t at = 0, sent = 0;
    for (int q = 0; q < r->n; q++) {
        out[q] = size_of(round, r->rank, q);
        in[q] = size_of(round, q, r->rank);
        for (int64_t i = 0; i < out[q]; i++) bytes[at++] = byte_of(round, r->rank, q, i);
        if (q != r->rank) sent += out[q];
    }
    return sent;
}

static RtCode exchange_check(Rank *r, int round, const char *bytes)
{
    for (int q = 0; q < r->n; q++)
        for (int64_t i = 0; i < size_of(round, q, r->rank); i++)
            if (*bytes++ != byte_of(round, q, r->rank, i)) return expect(r, false, "an exchange brought other bytes");
    return RT_OK;
}

static RtCode exchange_round(Rank *r, int round, int64_t *bytes_out)
{
    int64_t out[MOST_RANKS], in[MOST_RANKS];
    *bytes_out += exchange_fill(r, round, r->out, out, in);
    RT_TRY(rt_peers_exchange(r->p, SITE, r->out, out, r->in, in, &r->st));
    return exchange_check(r, round, r->in);
}

static RtCode gather_round(Rank *r, int round)
{
    int64_t bytes[MOST_RANKS], at = 0, own = 0;
    for (int q = 0; q < r->n; q++) {
        bytes[q] = size_of(round, q, 0);
        if (q < r->rank) own += bytes[q];
    }
    bool in_place = round % 2;
    char *out = in_place ? r->in + own : r->out;
    for (int64_t i = 0; i < bytes[r->rank]; i++) out[i] = byte_of(round, r->rank, 63, i);
    RT_TRY(rt_peers_gather(r->p, SITE + 300, in_place ? NULL : out, bytes, r->in, &r->st));
    for (int q = 0; q < r->n; q++)
        for (int64_t i = 0; i < bytes[q]; i++)
            if (r->in[at++] != byte_of(round, q, 63, i)) return expect(r, false, "a gather brought other bytes");
    return RT_OK;
}

static RtCode case_random(Rank *r)
{
    int64_t sent = 0;
    uint64_t seed = 42;
    RT_TRY(room(r, MOST_RANKS * MOST_BYTES));
    for (int round = 0; round < ROUNDS; round++) {
        RT_TRY(exchange_round(r, round, &sent));
        RT_TRY(gather_round(r, round));
        if (round % 8 == 0) RT_TRY(rt_peers_same(r->p, "the seed", &seed, sizeof seed, &r->st));
        if (round % 8 == 4) RT_TRY(rt_peers_agree(r->p, RT_OK, &r->st));
    }
    const RtPeersSite *site = rt_peers_site(r->p, SITE);
    RT_TRY(
        expect(r, site->bytes_out == sent && site->rounds == ROUNDS && site->wait_s >= 0, "the site has other counts"));
    return expect(r, rt_peers_site(r->p, SITE + 1)->rounds == 0, "a site that was never used has counts");
}

/* Up to five exchanges in flight, which each process finishes in an order of its own; other calls meanwhile. */
static RtCode case_flights(Rank *r)
{
    enum { FLIGHTS = 5, ROOM = 4 << 20 };
    int64_t out[MOST_RANKS], in[MOST_RANKS], sent = 0;
    int flight[FLIGHTS], rounds = 0;
    RT_TRY(room(r, FLIGHTS * ROOM));
    for (int turn = 0; turn < 12; turn++) {
        int n = 1 + turn % FLIGHTS;
        for (int k = 0; k < n; k++) { /* rounds that no 10 divides, so that all has room */
            sent += exchange_fill(r, 10 * turn + k + 1, r->out + k * ROOM, out, in);
            RT_TRY(
                rt_peers_exchange_begin(r->p, SITE, r->out + k * ROOM, out, r->in + k * ROOM, in, &flight[k], &r->st));
            memset(out, 0, sizeof out); /* sizes are the caller's */
            if (k % 2 == r->rank % 2) rt_peers_progress(r->p);
        }
        if (turn % 3 == 1) RT_TRY(rt_peers_agree(r->p, RT_OK, &r->st));
        for (int i = 0; i < n; i++) {
            int k = (i + r->rank) % n;
            RT_TRY(rt_peers_finish(r->p, flight[k], &r->st));
            RT_TRY(exchange_check(r, 10 * turn + k + 1, r->in + k * ROOM));
            rounds++;
        }
    }
    const RtPeersSite *site = rt_peers_site(r->p, SITE);
    return expect(r, site->bytes_out == sent && site->rounds == rounds, "the site has other counts");
}

/* Rows from anywhere to anywhere, of a few bytes and of kilobytes, some more than travel at a time; three exchanges are
   in flight, one of which brings its rows side by side. */
static RtCode case_rows(Rank *r)
{
    enum { ROWS = 3000, MOST = 1001, FLIGHTS = 3 };
    static const int64_t widths[] = {4, 24, 256, MOST};
    int64_t *lists, n[MOST_RANKS], sent = 0, got = 0;
    int flight[FLIGHTS];
    RT_TRY(room(r, FLIGHTS * ROWS * MOST));
    RT_TRY(rt_alloc(&lists, 2 * ROWS, sizeof *lists, "test", &r->st));
    int64_t *rows = lists, *back = lists + ROWS, each = ROWS / r->n;
    for (int64_t i = 0; i < ROWS; i++) {
        rows[i] = (i * 7 + 5) % ROWS; /* all rows, in no order */
        back[rows[i]] = i;
    }
    for (int q = 0; q < r->n; q++) n[q] = each - (q + r->rank) % 3 * each / 3;
    for (int turn = 0; turn < 4; turn++) {
        int64_t w = widths[turn], bytes = ROWS * w, at = 0, size[MOST_RANKS];
        for (int64_t i = 0; i < bytes; i++) r->out[i] = byte_of(turn, r->rank, (int)(i / w % 61), i);
        memset(r->in, 0, (size_t)(FLIGHTS * bytes));
        RtPeersRows out = {r->out, rows, n};
        for (int k = 0; k < FLIGHTS; k++) {
            RtPeersRows in = {r->in + k * bytes, k ? back : NULL, n};
            RT_TRY(rt_peers_rows_begin(r->p, SITE, w, &out, &in, &flight[k], &r->st));
        }
        RT_TRY(rt_peers_agree(r->p, RT_OK, &r->st));
        for (int k = FLIGHTS - 1; k >= 0; k--) RT_TRY(rt_peers_finish(r->p, flight[k], &r->st));
        for (int q = 0; q < r->n; q++) size[q] = q == r->rank ? 0 : n[q];
        for (int q = 0, from = 0; q < r->n; from += (int)n[q++])
            for (int64_t i = 0; i < size[q]; i++, at++)
                for (int k = 0; k < FLIGHTS; k++) {
                    int64_t first = 0; /* of the sender's rows, those that it sends here */
                    for (int p = 0; p < r->rank; p++) first += each - (p + q) % 3 * each / 3;
                    int64_t row = rows[first + i];
                    const char *in = r->in + k * bytes + (k ? back[from + i] : at) * w;
                    for (int64_t b = 0; b<w; b += w> 8 ? w / 8 : 1)
                        if (in[b] != byte_of(turn, q, (int)(row % 61), row * w + b))
                            return expect(r, false, "rows brought other bytes");
                    got += k == 0 ? w : 0;
                }
        for (int q = 0; q < r->n; q++) sent += FLIGHTS * size[q] * w;
    }
    free(lists);
    const RtPeersSite *site = rt_peers_site(r->p, SITE);
    return expect(r, site->bytes_out == sent && site->bytes_in == FLIGHTS * got, "the site has other counts");
}

/* Rank 1 begins late. The others compute meanwhile: they wait for nothing, and the seconds are hidden ones. */
static RtCode case_hidden(Rank *r)
{
    int64_t sizes[MOST_RANKS];
    int flight, later;
    RT_TRY(room(r, 1 << 20));
    for (int q = 0; q < r->n; q++) sizes[q] = 1000;
    if (r->rank == 1) usleep(80000);
    RT_TRY(rt_peers_exchange_begin(r->p, SITE, r->out, sizes, r->in, sizes, &flight, &r->st));
    RT_TRY(rt_peers_gather_begin(r->p, SITE + 1, r->out, sizes, r->in + (1 << 19), &later, &r->st));
    for (int i = 0; i < 10000 && !rt_peers_arrived(r->p, later); i++) {
        usleep(1000);
        rt_peers_progress(r->p);
    }
    RT_TRY(expect(r, rt_peers_arrived(r->p, flight), "what was begun later is there first"));
    RT_TRY(rt_peers_finish(r->p, later, &r->st));
    RT_TRY(rt_peers_finish(r->p, flight, &r->st));
    const RtPeersSite *first = rt_peers_site(r->p, SITE), *second = rt_peers_site(r->p, SITE + 1);
    RT_TRY(expect(r, first->wait_s == 0 && second->wait_s == 0, "it waited for what was there"));
    RT_TRY(expect(r, r->rank == 1 || first->hidden_s > 0.04, "nothing is hidden"));
    if (r->rank == 1) usleep(80000);
    RT_TRY(rt_peers_exchange(r->p, SITE + 2, r->out, sizes, r->in, sizes, &r->st));
    const RtPeersSite *third = rt_peers_site(r->p, SITE + 2);
    RT_TRY(expect(r, r->rank == 1 || third->behind_s > 0.04, "nobody was behind"));
    RT_TRY(expect(r, third->behind_s <= third->wait_s, "others were behind for longer than it waited"));
    return expect(r, second->hidden_s < first->hidden_s || r->rank == 1, "what is behind another call is hidden too");
}

/* Three exchanges of equal sizes are in flight when rank 1 does what is odd instead of a fourth. */
static RtCode flights_but(Rank *r, RtCode (*odd)(Rank *r))
{
    int64_t sizes[MOST_RANKS];
    int flight[4];
    RT_TRY(room(r, 4 << 20));
    for (int q = 0; q < r->n; q++) sizes[q] = 100000; /* a ring holds two of them */
    for (int k = 0; k < 4; k++) {
        if (k == 3 && r->rank == 1) RT_TRY(odd(r));
        RT_TRY(
            rt_peers_exchange_begin(r->p, SITE + k, r->out, sizes, r->in + k * (1 << 20), sizes, &flight[k], &r->st));
    }
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        rt_peers_progress(r->p);
    }
    for (int k = 3; k >= 0; k--) RT_TRY(rt_peers_finish(r->p, flight[k], &r->st));
    RT_TRY(rt_peers_agree(r->p, RT_OK, &r->st)); /* those at whom nothing went wrong */
    return expect(r, false, "nothing was noticed");
}

/* A few rounds of one exchange of equal sizes; `odd` is done by rank 1 in the third instead. */
static RtCode rounds_but(Rank *r, RtCode (*odd)(Rank *r))
{
    int64_t sizes[MOST_RANKS], size = 100000;
    RT_TRY(room(r, 1 << 20));
    for (int q = 0; q < r->n; q++) sizes[q] = size;
    for (int round = 0; round < 6; round++) {
        if (round == 3 && r->rank == 1) RT_TRY(odd(r));
        RT_TRY(rt_peers_exchange(r->p, SITE, r->out, sizes, r->in, sizes, &r->st));
    }
    return expect(r, false, "nothing was noticed");
}

static RtCode odd_site(Rank *r)
{
    int64_t sizes[MOST_RANKS];
    for (int q = 0; q < r->n; q++) sizes[q] = 1;
    return rt_peers_exchange(r->p, SITE + 1, r->out, sizes, r->in, sizes, &r->st);
}

static RtCode odd_size(Rank *r)
{
    int64_t out[MOST_RANKS], in[MOST_RANKS];
    for (int q = 0; q < r->n; q++) in[q] = out[q] = 100000;
    out[0]++;
    return rt_peers_exchange(r->p, SITE, r->out, out, r->in, in, &r->st);
}

static RtCode odd_call(Rank *r)
{
    int64_t sizes[MOST_RANKS];
    for (int q = 0; q < r->n; q++) sizes[q] = 100000;
    return rt_peers_gather(r->p, SITE, r->out, sizes, r->in, &r->st);
}

static RtCode odd_kill(Rank *r)
{
    (void)r;
    return raise(SIGKILL) ? RT_E_INTERNAL : RT_OK;
}

static RtCode odd_stop(Rank *r)
{
    (void)r;
    return raise(SIGSTOP) ? RT_E_INTERNAL : RT_OK;
}

static RtCode odd_failure(Rank *r)
{
    return rt_fail(&r->st, RT_E_NAN, "model.gnn:7", NULL, "the loss is not a number in epoch 3");
}

static RtCode odd_end(Rank *r) { return rt_peers_close(r->p), r->p = NULL, RT_E_CLI_MISSING; }

static RtCode odd_argument(Rank *r)
{
    int64_t sizes[MOST_RANKS] = {0};
    sizes[0] = -1;
    return rt_peers_exchange(r->p, SITE, r->out, sizes, r->in, sizes, &r->st);
}

static RtCode case_site(Rank *r) { return rounds_but(r, odd_site); }
static RtCode case_size(Rank *r) { return rounds_but(r, odd_size); }
static RtCode case_call(Rank *r) { return rounds_but(r, odd_call); }
static RtCode case_killed(Rank *r) { return rounds_but(r, odd_kill); }
static RtCode case_stopped(Rank *r) { return rounds_but(r, odd_stop); }
static RtCode case_failed(Rank *r) { return rounds_but(r, odd_failure); }
static RtCode case_ended(Rank *r) { return rounds_but(r, odd_end); }
static RtCode case_argument(Rank *r) { return rounds_but(r, odd_argument); }

static RtCode odd_order(Rank *r) /* the fifth where others begin the fourth */
{
    int64_t sizes[MOST_RANKS];
    int flight;
    for (int q = 0; q < r->n; q++) sizes[q] = 1;
    return rt_peers_exchange_begin(r->p, SITE + 4, r->out, sizes, r->in, sizes, &flight, &r->st);
}

static RtCode odd_nothing(Rank *r) { return (void)r, RT_OK; }

/* A call more than others make, in which nothing is sent: others are then at another call than rank 1. */
static RtCode odd_silence(Rank *r)
{
    int64_t sizes[MOST_RANKS] = {0};
    return rt_peers_exchange(r->p, SITE, NULL, sizes, NULL, sizes, &r->st);
}

static RtCode case_silence(Rank *r) { return rounds_but(r, odd_silence); }

/* Rank 0 has bytes for rank 1, and nobody has any for rank 2 but in the end: rank 2 begins late, and nobody waits for
   it. */
static RtCode case_apart(Rank *r)
{
    enum { TIMES = 5 };
    int64_t out[MOST_RANKS] = {0}, in[MOST_RANKS] = {0}, gathered[MOST_RANKS] = {10, 10}, all[MOST_RANKS];
    RT_TRY(room(r, 1 << 20));
    if (r->rank == 0) out[1] = 300000;
    if (r->rank == 1) in[0] = 300000;
    for (int q = 0; q < r->n; q++) all[q] = 8;
    if (r->rank == 2) usleep(300000);
    double begin = rt_now_ns();
    for (int i = 0; i < TIMES; i++) {
        RT_TRY(rt_peers_exchange(r->p, SITE, r->out, out, r->in, in, &r->st));
        if (r->rank < 2) RT_TRY(rt_peers_exchange(r->p, SITE, r->out, out, r->in, in, &r->st));
        else RT_TRY(odd_silence(r));
        gathered[2] = r->n > 2 && i == TIMES - 1 ? 10 : 0;
        RT_TRY(rt_peers_gather(r->p, SITE + 1, r->out, gathered, r->in, &r->st));
        if (i == TIMES - 2)
            RT_TRY(expect(r, r->rank > 1 || rt_now_ns() - begin < 250e6, "it waited for who sends it nothing"));
    }
    RT_TRY(rt_peers_gather(r->p, SITE + 2, r->out, all, r->in, &r->st));
    const RtPeersSite *site = rt_peers_site(r->p, SITE), *last = rt_peers_site(r->p, SITE + 1);
    RT_TRY(expect(r, site->rounds == 2 * TIMES && last->rounds == TIMES, "the sites have other counts"));
    return expect(r, site->bytes_out == (r->rank ? 0 : 2 * TIMES * 300000), "the site has other bytes");
}

static RtCode case_flying_killed(Rank *r) { return flights_but(r, odd_kill); }
static RtCode case_flying_stopped(Rank *r) { return flights_but(r, odd_stop); }
static RtCode case_flying_failed(Rank *r) { return flights_but(r, odd_failure); }
static RtCode case_flying_order(Rank *r) { return flights_but(r, odd_order); }

/* Rank 1 fails while rank 0 computes: rank 1 speaks when rank 0 has not heard of it in time, and rank 0 does not
   then. */
static RtCode case_busy(Rank *r)
{
    if (r->rank == 1) return odd_failure(r);
    if (r->rank == 0) usleep(2500000);
    return rt_peers_agree(r->p, RT_OK, &r->st);
}

static RtCode case_first_killed(Rank *r)
{
    for (int round = 0; round < 3; round++) {
        if (round == 2 && r->rank == 0) raise(SIGKILL);
        RT_TRY(rt_peers_agree(r->p, RT_OK, &r->st));
    }
    return expect(r, false, "nothing was noticed");
}

/* All are stopped for longer than the deadline, and go on: nobody is late. Rank 1 lets the others wait. */
static RtCode case_suspended(Rank *r)
{
    for (int round = 0; round < 200; round++) {
        if (r->rank == 1) usleep(5000);
        RT_TRY(rt_peers_agree(r->p, RT_OK, &r->st));
    }
    return RT_OK;
}

static RtCode case_same(Rank *r)
{
    uint32_t seed = r->rank == 1 ? 43 : 42, more = 7;
    RT_TRY(rt_peers_same(r->p, "the partition", &more, sizeof more, &r->st));
    RT_TRY(rt_peers_same(r->p, "the seed", &seed, sizeof seed, &r->st));
    return expect(r, false, "nothing was noticed");
}

static RtCode case_question(Rank *r)
{
    uint32_t seed = 42;
    RT_TRY(rt_peers_same(r->p, r->rank == 1 ? "the seed" : "the flags", &seed, sizeof seed, &r->st));
    return expect(r, false, "nothing was noticed");
}

static RtCode case_agree(Rank *r)
{
    RtCode mine = RT_OK;
    if (r->rank == 0) mine = rt_fail(&r->st, RT_E_INTERRUPTED, NULL, NULL, "a signal came");
    if (r->rank == 1) mine = rt_fail(&r->st, RT_E_FILE_READ, "x.npy", NULL, "an unreadable file");
    if (r->rank == 2) mine = rt_fail(&r->st, RT_E_CLI_FLAG, NULL, NULL, "an unknown flag");
    return rt_peers_agree(r->p, mine, &r->st);
}

/* Rank 1 over a transport that flips one bit of what arrives: of a header, or of the bytes behind it. */
static const RtTransportCalls *real;
static RtTransportCalls noisy;
static int64_t noise_at, noise_seen;

static RtCode noisy_progress(RtTransport *t, bool *moved, RtStatus *st)
{
    RtMove before = t->in[0];
    RtCode code = real->progress(t, moved, st);
    int64_t n = before.left - t->in[0].left;
    if (noise_seen <= noise_at && noise_at < noise_seen + n) before.p[noise_at - noise_seen] ^= 4;
    noise_seen += n;
    return code;
}

static RtCode noise(Rank *r, int64_t at, RtCode (*rounds)(Rank *r, RtCode (*odd)(Rank *r)))
{
    RtTransport *t = NULL;
    RtPeersOptions o = {.deadline_s = 20};
    rt_peers_close(r->p);
    r->p = NULL;
    RT_TRY(rt_peers_shm_open(20, &t, &r->st));
    real = t->calls;
    noisy = *real;
    noisy.progress = noisy_progress;
    noise_at = at;
    if (t->rank == 1) t->calls = &noisy;
    RT_TRY(rt_peers_over(t, &o, &r->p, &r->st));
    return rounds(r, odd_nothing);
}

static RtCode case_damaged_header(Rank *r) { return noise(r, 2 * 100056 + 20, rounds_but); }
static RtCode case_damaged_bytes(Rank *r) { return noise(r, 2 * 100056 + 77777, rounds_but); }
static RtCode case_damaged_flying(Rank *r) { return noise(r, 2 * 100056 + 77777, flights_but); }

static RtCode case_ledger(Rank *r)
{
    int64_t out[MOST_RANKS] = {0}, in[MOST_RANKS] = {0}, gathered[MOST_RANKS] = {1, 2, 3}, sent = 0;
    RT_TRY(room(r, 1 << 20));
    RT_TRY(rt_peers_name_site(r->p, SITE, "halo of \"x\"", &r->st));
    for (int q = 0; q < r->n; q++) {
        out[q] = 100 * r->rank + q;
        in[q] = 100 * q + r->rank;
        if (q != r->rank) sent += out[q];
    }
    RT_TRY(rt_peers_predict(r->p, SITE, 3 * sent, 3, &r->st));
    for (int i = 0; i < 3; i++) RT_TRY(rt_peers_exchange(r->p, SITE, r->out, out, r->in, in, &r->st));
    for (int i = 0; i < 2; i++) RT_TRY(rt_peers_gather(r->p, 65535, r->out, gathered, r->in, &r->st));
    return rt_peers_write_ledger(r->p, &r->st);
}

typedef struct Case {
    const char *name;
    RtCode (*run)(Rank *r);
    RtCode code, other; /* of rank 0; of rank 1, where it says one */
    const char *says;   /* parts of the message of each process but the one at fault */
    double deadline_s;
} Case;

static const Case cases[] = {
    {"random", case_random, RT_OK, RT_OK, "", 20},
    {"flights", case_flights, RT_OK, RT_OK, "", 20},
    {"rows", case_rows, RT_OK, RT_OK, "", 20},
    {"hidden", case_hidden, RT_OK, RT_OK, "", 20},
    {"flying_killed", case_flying_killed, RT_E_PEER_LOST, RT_OK, "rank 1", 20},
    {"flying_stopped", case_flying_stopped, RT_E_PEER_LATE, RT_OK, "rank 1 does not answer rank|at site 8, call 4", 1},
    {"flying_failed", case_flying_failed, RT_E_PEER_LOST, RT_E_NAN, "rank 1 failed, R501", 20},
    {"flying_order", case_flying_order, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "rank 1|at exchange at site 9, call 4",
     20},
    {"damaged_flying", case_damaged_flying, RT_E_PEER_MESSAGE, RT_E_PEER_MESSAGE,
     "rank 1 got 100000 damaged bytes from rank 0, in exchange at site 7, call 3", 20},
    {"suspended", case_suspended, RT_OK, RT_OK, "", 1},
    {"ledger", case_ledger, RT_OK, RT_OK, "", 20},
    {"site", case_site, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "rank 1|at exchange at site 6, call 4", 20},
    {"size", case_size, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "rank 1 sends 100001 bytes, rank 0 wants 100000", 20},
    {"silence", case_silence, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "rank 1|at exchange at site 5, call 5", 20},
    {"apart", case_apart, RT_OK, RT_OK, "", 20},
    {"call", case_call, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "rank 1|at gather at site 5, call 4", 20},
    {"argument", case_argument, RT_E_PEER_LOST, RT_E_INTERNAL, "rank 1 failed, R699: peers: site 5: a size below 0",
     20},
    {"failed", case_failed, RT_E_PEER_LOST, RT_E_NAN,
     "rank 1 failed, R501: model.gnn:7: the loss is not a number in epoch 3", 20},
    {"busy", case_busy, RT_E_PEER_LOST, RT_E_NAN, "rank 1 failed, R501", 1},
    {"ended", case_ended, RT_E_PEERS_DIFFER, RT_E_CLI_MISSING, "rank 1|at agreement, call 4", 20},
    {"stopped", case_stopped, RT_E_PEER_LATE, RT_OK, "rank 1 does not answer rank", 1},
    {"same", case_same, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "the seed of rank 1 is not that of rank 0", 20},
    {"question", case_question, RT_E_PEERS_DIFFER, RT_E_PEERS_DIFFER, "rank 1|compares something else than rank", 20},
    {"agree", case_agree, RT_E_FILE_READ, RT_E_FILE_READ, "an unreadable file", 20},
    {"killed", case_killed, RT_E_PEER_LOST, RT_OK, "rank 1", 20},
    {"first_killed", case_first_killed, RT_OK, RT_E_PEER_LOST, "rank 0", 20},
    {"damaged_header", case_damaged_header, RT_E_PEER_MESSAGE, RT_E_PEER_MESSAGE,
     "rank 1 got a damaged header from rank 0", 20},
    {"damaged_bytes", case_damaged_bytes, RT_E_PEER_MESSAGE, RT_E_PEER_MESSAGE,
     "rank 1 got 100000 damaged bytes from rank 0", 20},
    {"early", NULL, RT_E_PEER_LOST, RT_OK, "rank 1 ended before it joined the run (exit code 3)", 20},
};

static const Case *case_find(const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, name)) return &cases[i];
    abort();
}

/* One line of the file: rank, code, whether it speaks, the message. */
static void report(const Rank *r, RtCode code)
{
    char line[1024];
    int fd = open(r->file, O_WRONLY | O_APPEND | O_CREAT, 0600);
    int n = snprintf(line, sizeof line, "%d %d %d %.600s\n", r->rank, (int)code, rt_peers_speaks(r->p),
                     code ? r->st.message : "");
    if (fd < 0 || write(fd, line, (size_t)n) != n) abort();
    close(fd);
}

static int run_rank(char **argv)
{
    const Case *c = case_find(argv[2]);
    char ledger[512];
    Rank r = {.file = argv[4], .n = atoi(argv[3])};
    RtCode code = rt_peers_mpi_launched() ? RT_OK : rt_peers_spawn(r.n, argv, &r.st);
    const char *rank = getenv("GNNC_RANK");
    bool damaged = !strncmp(c->name, "damaged", 7);
    r.rank = rank ? atoi(rank) : 0;
    if (!c->run && r.rank == 1) return 3;
    snprintf(ledger, sizeof ledger, "%s.json", r.file);
    RtPeersOptions o = {.deadline_s = c->deadline_s, .ledger = !strcmp(c->name, "ledger") ? ledger : NULL};
    if (!code && !damaged) code = rt_peers_open(&o, &r.p, &r.st);
    if (!code && !damaged) {
        if (rt_peers_count(r.p) != r.n) abort();
        r.rank = rt_peers_rank(r.p);
    }
    if (!code && c->run) code = c->run(&r);
    if (code) rt_peers_fail(r.p, &r.st);
    report(&r, code);
    rt_peers_close(r.p);
    free(r.out), free(r.in);
    return rt_code_exit(code);
}

/* ---- all of a case ---- */

typedef struct Launcher {
    const char *name;
    const char *argv[5]; /* before the number of processes */
} Launcher;
static const Launcher launchers[] = {{"shm", {NULL}},
                                     {"openmpi", {"mpirun.openmpi", "--oversubscribe", "-np", NULL}},
                                     {"mpich", {"mpirun.mpich", "-n", NULL}}};

typedef struct Result {
    int exit, n;                  /* of rank 0 or of mpirun, -1: killed; lines */
    int code[MOST_RANKS], speaks; /* -1: it said nothing; how many speak */
    char says[MOST_RANKS][640];
    double seconds;
} Result;

static char self[512], scratch[512];

/* Runs a process and waits for it, 60 s at most. */
static int execute(char **argv, bool suspend)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        if (null >= 0 && !getenv("GNNC_TEST_LOUD")) dup2(null, 0), dup2(null, 1), dup2(null, 2);
        setpgid(0, 0);
        execvp(argv[0], argv);
        _exit(127);
    }
    int status = 0;
    double begin = rt_now_ns();
    if (suspend) {
        usleep(400000);
        kill(-pid, SIGSTOP);
        usleep(2000000);
        kill(-pid, SIGCONT);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (rt_now_ns() - begin > 60e9) kill(-pid, SIGKILL);
        usleep(2000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static Result run_case(const char *name, int n, const Launcher *by, const char *file)
{
    char number[16];
    Result r = {0};
    snprintf(number, sizeof number, "%d", n);
    const char *rest[] = {self, "rank", name, number, file, NULL};
    char *argv[16];
    int at = 0;
    for (int i = 0; by->argv[i]; i++) argv[at++] = (char *)(uintptr_t)by->argv[i];
    if (at) argv[at++] = number;
    for (int i = 0; i < 6; i++) argv[at++] = (char *)(uintptr_t)rest[i];
    for (int q = 0; q < MOST_RANKS; q++) r.code[q] = -1;
    unlink(file);
    double begin = rt_now_ns();
    r.exit = execute(argv, !strcmp(name, "suspended"));
    r.seconds = (rt_now_ns() - begin) * 1e-9;
    if (!strcmp(name, "first_killed")) usleep(400000); /* what lives after rank 0 */
    FILE *f = fopen(file, "r");
    char line[1024];
    int rank, code, speaks;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%d %d %d %n", &rank, &code, &speaks, &at) == 3 && rank >= 0 && rank < MOST_RANKS) {
            line[strcspn(line, "\n")] = 0;
            r.code[rank] = code;
            r.speaks += speaks;
            snprintf(r.says[rank], sizeof r.says[rank], "%.630s", line + at);
            r.n++;
        }
    if (f) fclose(f);
    return r;
}

/* Whether a text has all of some parts, between which bars stand. */
static bool has_parts(const char *text, const char *parts)
{
    char part[640];
    for (const char *at = parts; *at; at += strcspn(at, "|"), at += *at == '|') {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, "|"), at);
        if (!strstr(text, part)) return false;
    }
    return true;
}

static void check_case(const char *name, int n, const Launcher *by)
{
    const Case *c = case_find(name);
    char file[640], title[64];
    check_begin();
    snprintf(title, sizeof title, "peers_%s_%s_%d", by->name, name, n);
    snprintf(file, sizeof file, "%s/%s", scratch, title);
    Result r = run_case(name, n, by, file);
    bool mpi = by != launchers, silent = strstr(name, "killed") || strstr(name, "stopped") || !c->run;
    int gone = !strcmp(name, "first_killed") ? 0 : silent ? 1 : -1; /* says nothing */
    for (int q = 0; q < n; q++) {
        RtCode want = q == 1 ? c->other : c->code;
        if (gone == 0) want = RT_E_PEER_LOST;
        if (q == gone || (mpi && q && r.code[q] < 0)) continue; /* MPI ends all when one leaves */
        check(r.code[q] == (int)want, "rank %d of %d has code %d, wanted %d; it says: %s", q, n, r.code[q], (int)want,
              r.says[q]);
        if (q != 1 || c->other == c->code)
            check(has_parts(r.says[q], c->says), "rank %d says `%s`, wanted `%s`", q, r.says[q], c->says);
    }
    int wanted = gone == 0 ? -1 : rt_code_exit(c->code);
    check(r.exit == wanted || (mpi && gone >= 0), "it ended with %d, wanted %d", r.exit, wanted);
    check(r.speaks == 1, "%d processes speak", r.speaks);
    check(r.n == n - (gone >= 0) || (mpi && c->code && r.n > 0), "%d processes of %d say something", r.n, n);
    check(r.seconds < c->deadline_s + 10, "it took %.1f s", r.seconds);
    check_end(title);
}

/* The file that rank 0 wrote, number by number. */
static void check_ledger(const Launcher *by)
{
    char file[700], name[640], title[64];
    RtStatus st = {0};
    RtBlock b = {0};
    RtJsonDoc doc = {0};
    int64_t v = 0;
    check_begin();
    snprintf(name, sizeof name, "%s/%s", scratch, by->name);
    snprintf(file, sizeof file, "%s.json", name);
    Result r = run_case("ledger", 3, by, name);
    CHECK(r.exit == 0 && r.n == 3);
    CHECK(rt_file_read(file, &b, &st) == RT_OK && rt_json_parse(file, b.p, b.bytes, &doc, &st) == RT_OK);
    const RtJson *sites = check_ok ? rt_json_get(doc.root, "sites") : NULL;
    CHECK(sites && sites->n_items == 2);
    if (check_ok) {
        const RtJson *site = sites->first, *row = rt_json_get(site, "by_rank")->first;
        CHECK(!strcmp(rt_json_get(site, "name")->text, "halo of \"x\"") && rt_json_get(site, "by_rank")->n_items == 3);
        for (int q = 0; q < 3 && row; q++, row = row->next) {
            int64_t sent = 3 * (3 * 100 * q + 3 - 101 * q), got = 3 * (300 + 3 * q - 101 * q);
            CHECK(rt_json_int(rt_json_get(row, "rank"), &v) && v == q);
            CHECK(rt_json_int(rt_json_get(row, "bytes_out"), &v) && v == sent);
            CHECK(rt_json_int(rt_json_get(row, "bytes_in"), &v) && v == got);
            CHECK(rt_json_int(rt_json_get(row, "rounds"), &v) && v == 3);
            CHECK(rt_json_int(rt_json_get(row, "predicted_bytes"), &v) && v == sent);
            CHECK(rt_json_int(rt_json_get(row, "predicted_rounds"), &v) && v == 3);
        }
        row = rt_json_get(site->next, "by_rank")->first;
        CHECK(rt_json_int(rt_json_get(site->next, "site"), &v) && v == 65535);
        CHECK(rt_json_int(rt_json_get(row, "rounds"), &v) && v == 2 && !rt_json_get(row, "predicted_bytes"));
    }
    rt_json_free(&doc);
    rt_block_free(&b);
    unlink(file);
    snprintf(title, sizeof title, "peers_%s_ledger", by->name);
    check_end(title);
}

/* A process alone needs no transport. */
static void test_alone(void)
{
    RtPeers *p = NULL;
    RtStatus st = {0};
    char in[4] = {0};
    int64_t bytes = 3;
    check_begin();
    CHECK(rt_peers_open(NULL, &p, &st) == RT_OK && rt_peers_rank(p) == 0 && rt_peers_count(p) == 1);
    CHECK(rt_peers_exchange(p, 1, "abc", &bytes, in, &bytes, &st) == RT_OK && !strcmp(in, "abc"));
    CHECK(rt_peers_gather(p, 1, "xyz", &bytes, in, &st) == RT_OK && !strcmp(in, "xyz"));
    CHECK(rt_peers_same(p, "it", "a", 1, &st) == RT_OK && rt_peers_agree(p, RT_E_NAN, &st) == RT_E_NAN);
    CHECK(rt_peers_site(p, 1)->rounds == 2 && rt_peers_site(p, 1)->bytes_out == 0 && rt_peers_speaks(p));
    CHECK(rt_peers_exchange(p, -1, "abc", &bytes, in, &bytes, &st) == RT_E_INTERNAL);
    rt_peers_close(p);
    CHECK(rt_peers_open(&(RtPeersOptions){.transport = "pigeons"}, &p, &st) == RT_E_CLI_VALUE && !p);
    CHECK(rt_peers_open(&(RtPeersOptions){.transport = "shm"}, &p, &st) == RT_E_PEERS_OPEN && !p);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("GNNC_MPI", "/no/such/library.so", 1);
    CHECK(rt_peers_open(NULL, &p, &st) == RT_E_PEERS_OPEN && !p && strstr(st.message, "/no/such/library.so"));
    CHECK(rt_peers_spawn(2, NULL, &st) == RT_E_CLI_VALUE);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("GNNC_MPI");
    check_end("peers_alone");
}

static void remove_scratch(void)
{
    char path[1200];
    DIR *d = opendir(scratch);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%.300s", scratch, e->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    rmdir(scratch);
}

/* By a launcher, where it is installed. A process that is killed is the launcher's business: it ends the others. */
static void test_launched(const Launcher *by, int most)
{
    static const char *const wrong[] = {"site", "size",     "call",  "argument", "failed", "ended",
                                        "same", "question", "agree", "stopped",  "hidden", "flying_order"};
    char title[64], file[640];
    char *version[] = {(char *)(uintptr_t)by->argv[0], (char *)(uintptr_t) "--version", NULL};
    snprintf(title, sizeof title, "peers_%s", by->name);
    if (execute(version, false)) {
        check_skip(title, "its mpirun is not installed");
        return;
    }
    for (int n = 2; n <= most; n *= 2) check_case("random", n, by);
    check_case("flights", most < 4 ? most : 4, by);
    check_case("rows", most < 4 ? most : 4, by);
    check_case("apart", most < 4 ? most : 4, by);
    check_ledger(by);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) check_case(wrong[i], 3, by);
    check_begin();
    snprintf(file, sizeof file, "%s/%s_killed", scratch, by->name);
    Result r = run_case("killed", 3, by, file);
    CHECK(r.exit && r.seconds < 10);
    snprintf(title, sizeof title, "peers_%s_killed", by->name);
    check_end(title);
}

int main(int argc, char **argv)
{
    static const char *const wrong[] = {
        "site",           "size",          "call",          "argument",       "failed",        "ended",
        "flying_stopped", "same",          "question",      "agree",          "killed",        "first_killed",
        "suspended",      "silence",       "busy",          "damaged_header", "damaged_bytes", "early",
        "hidden",         "flying_killed", "flying_failed", "flying_order",   "damaged_flying"};
    if (argc == 5 && !strcmp(argv[1], "rank")) return run_rank(argv);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/test_peers_XXXXXX", base && base[0] ? base : "/tmp");
    if (n <= 0 || !mkdtemp(scratch)) abort();
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    test_alone();
    for (int ranks = 2; ranks <= 8; ranks++) check_case("random", ranks, &launchers[0]);
    for (int ranks = 2; ranks <= 8; ranks += 3) check_case("flights", ranks, &launchers[0]);
    for (int ranks = 2; ranks <= 5; ranks += 3) check_case("rows", ranks, &launchers[0]);
    check_ledger(&launchers[0]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) check_case(wrong[i], 4, &launchers[0]);
    check_case("killed", 2, &launchers[0]);
    check_case("stopped", 2, &launchers[0]);
    for (int ranks = 2; ranks <= 4; ranks++) check_case("apart", ranks, &launchers[0]);
    test_launched(&launchers[1], 8);
    test_launched(&launchers[2], 2);
    remove_scratch();
    return check_done();
}
