/* Messages between processes (see peers.h): a header before each says where the sender is and what follows, and is
   checked before anything that follows is received. Where a call has no bytes from one process to another, nothing is
   sent: both know it. Calls that were begun and are not over are flights; each peer's
   messages are moved in the order of the calls, those of one call at a time. All that waits does so in `move_until`.
   What carries the bytes is a transport. */
#include "runtime/peers.h"
#include "runtime/clock.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/peers_message.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIVEN = sizeof(int64_t) + RT_PEERS_SAME };
enum { SITE_PAGE = 256, SITE_PAGES = RT_PEERS_SITES / SITE_PAGE, SITE_NAME = 64 };
static const double DEADLINE_S = 60, SPEAK_S = 5, SUSPENDED_NS = 5e8;

typedef enum { EXCHANGE, GATHER, SAME, AGREE, N_KINDS } Kind;
static const char *const kind_names[N_KINDS] = {"exchange", "gather", "comparison", "agreement"};

typedef struct Header { /* before each message */
    uint32_t magic, kind, site, rank;
    uint64_t call; /* of the sender: 1, 2, ... */
    int64_t bytes; /* that follow */
    uint64_t payload_sum, sum;
} Header;
static const uint32_t MAGIC = 0x676e7072;

typedef enum { QUEUED, HEADER, PAYLOAD, DONE } Stage; /* QUEUED: behind those of earlier calls */

typedef struct Link { /* with one peer, during one call */
    RtMessage out, in;
    Header sent, got;
    Stage sending, receiving;
} Link;

typedef struct Site {
    RtPeersSite is;
    int64_t predicted_bytes, predicted_rounds;
    bool predicted;
    char name[SITE_NAME];
} Site;

typedef struct Flight {
    bool used;
    uint64_t call;
    Site *site;  /* NULL: of a comparison */
    Link *links; /* [n] stay where they are while the transport moves their headers */
    int open;    /* messages to and from peers that are not over */
} Flight;

struct RtPeers {
    RtTransport *t; /* NULL: this process is alone */
    int rank, n;
    double deadline_s;
    Flight *flights; /* [n_flights] in any order; their numbers are given to who finishes them */
    int n_flights;
    RtPiece *pieces; /* [2][n] of the message that travels to each peer, out, and from it, in: one at a time */
    double left_ns;  /* when this module was left, where calls are in flight */
    int64_t *each;   /* [n] sizes */
    char *given;     /* [n][GIVEN] what processes compare */
    uint64_t calls;
    const char *question; /* of a comparison */
    RtBlock *kept;        /* [n_kept] */
    int n_kept;
    Site *pages[SITE_PAGES]; /* [SITE_PAGE] each, or NULL */
    char *ledger;
    bool broken, told, speaks;
    RtStatus failed; /* where broken */
    RtCode agreed;   /* the last call ended with it in every process */
};

/* ---- sites ---- */

static const Site *site_find(const RtPeers *p, int site)
{
    static const Site none;
    assert(site >= 0 && site < RT_PEERS_SITES);
    const Site *page = p->pages[site / SITE_PAGE];
    return page ? &page[site % SITE_PAGE] : &none;
}

static RtCode site_make(RtPeers *p, int site, Site **s, RtStatus *st)
{
    if (site < 0 || site >= RT_PEERS_SITES)
        return rt_fail(st, RT_E_INTERNAL, "peers", NULL, "site %d is outside 0 to %d", site, RT_PEERS_SITES - 1);
    Site **page = &p->pages[site / SITE_PAGE];
    if (!*page) RT_TRY(rt_alloc(page, SITE_PAGE, sizeof **page, "sites of messages", st));
    *s = &(*page)[site % SITE_PAGE];
    return RT_OK;
}

const RtPeersSite *rt_peers_site(const RtPeers *p, int site) { return &site_find(p, site)->is; }

RtCode rt_peers_name_site(RtPeers *p, int site, const char *name, RtStatus *st)
{
    Site *s = NULL;
    RT_TRY(site_make(p, site, &s, st));
    snprintf(s->name, sizeof s->name, "%s", name);
    return RT_OK;
}

RtCode rt_peers_predict(RtPeers *p, int site, int64_t bytes_out, int64_t rounds, RtStatus *st)
{
    Site *s = NULL;
    RT_TRY(site_make(p, site, &s, st));
    s->predicted = true;
    s->predicted_bytes += bytes_out;
    s->predicted_rounds += rounds;
    return RT_OK;
}

RtCode rt_peers_count_round(RtPeers *p, int site, int64_t bytes_out, int64_t bytes_in, RtStatus *st)
{
    Site *s = NULL;
    RT_TRY(site_make(p, site, &s, st));
    s->is.bytes_out += bytes_out;
    s->is.bytes_in += bytes_in;
    s->is.rounds++;
    return RT_OK;
}

/* ---- messages ---- */

static uint64_t header_sum(const Header *h) { return rt_message_checksum(h, offsetof(Header, sum)); }

/* "exchange at site 5 (halo of x), call 17" */
static const char *where(const RtPeers *p, const Header *h, char *text, size_t size)
{
    const char *name = h->kind <= GATHER && h->site < RT_PEERS_SITES ? site_find(p, (int)h->site)->name : "";
    const char *kind = h->kind < N_KINDS ? kind_names[h->kind] : "nothing known";
    if (h->kind <= GATHER)
        snprintf(text, size, "%s at site %u%s%s%s, call %llu", kind, h->site, name[0] ? " (" : "", name,
                 name[0] ? ")" : "", (unsigned long long)h->call);
    else snprintf(text, size, "%s, call %llu", kind, (unsigned long long)h->call);
    return text;
}

static RtCode check_header(const RtPeers *p, const Link *l, int q, RtStatus *st)
{
    char here[160], there[160];
    const Header *got = &l->got, *own = &l->sent;
    where(p, own, here, sizeof here);
    if (got->magic != MAGIC || got->sum != header_sum(got) || got->rank != (uint32_t)q)
        return rt_fail(st, RT_E_PEER_MESSAGE, NULL, NULL, "rank %d got a damaged header from rank %d, in %s", p->rank,
                       q, here);
    if (got->kind == SAME && own->kind == SAME && got->site != own->site)
        return rt_fail(st, RT_E_PEERS_DIFFER, NULL, NULL,
                       "rank %d compares something else than rank %d, which compares %s", q, p->rank, p->question);
    if (got->kind != own->kind || got->site != own->site || got->call != own->call)
        return rt_fail(st, RT_E_PEERS_DIFFER, NULL, NULL, "rank %d is at %s, rank %d at %s", q,
                       where(p, got, there, sizeof there), p->rank, here);
    if (got->bytes != l->in.bytes)
        return rt_fail(st, RT_E_PEERS_DIFFER, NULL, NULL, "rank %d sends %lld bytes, rank %d wants %lld, in %s", q,
                       (long long)got->bytes, p->rank, (long long)l->in.bytes, here);
    return RT_OK;
}

/* ---- calls in flight ---- */

/* The earliest call whose message to peer q, or from it, is not through. */
static Flight *flight_next(const RtPeers *p, int q, bool out)
{
    Flight *next = NULL;
    for (int i = 0; i < p->n_flights; i++) {
        Flight *f = &p->flights[i];
        if (!f->used || (out ? f->links[q].sending : f->links[q].receiving) == DONE) continue;
        if (!next || f->call < next->call) next = f;
    }
    return next;
}

/* The earliest call that is not over: what is moved now, or next, is its. */
static Flight *flight_oldest(const RtPeers *p)
{
    Flight *oldest = NULL;
    for (int i = 0; i < p->n_flights; i++) {
        Flight *f = &p->flights[i];
        if (f->used && f->open && (!oldest || f->call < oldest->call)) oldest = f;
    }
    return oldest;
}

/* Whoever enters this module has computed since it was left, and what was in flight is hidden behind that. It is told
   of the earliest call alone, so that no second counts twice. */
static void enter(RtPeers *p)
{
    Flight *f = flight_oldest(p);
    if (f && f->site) f->site->is.hidden_s += (rt_now_ns() - p->left_ns) * 1e-9;
}

static void leave(RtPeers *p) { p->left_ns = rt_now_ns(); }

/* Goes on with what is sent to peer q, as far as the bytes before it were moved. */
static RtCode send_next(RtPeers *p, int q, RtStatus *st)
{
    RtMove *out = &p->t->out[q];
    RtPiece *s = &p->pieces[q];
    for (Flight *f; !out->left && (f = flight_next(p, q, true));) {
        Link *l = &f->links[q];
        if (l->sending != PAYLOAD || s->at == l->out.bytes) l->sending++, s->at = 0;
        if (l->sending == HEADER) *out = (RtMove){(char *)&l->sent, sizeof l->sent};
        if (l->sending == PAYLOAD) RT_TRY(rt_piece_send(s, &l->out, out, st));
        if (l->sending == DONE) f->open--;
    }
    return RT_OK;
}

static RtCode receive_next(RtPeers *p, int q, RtStatus *st)
{
    char here[160];
    RtMove *in = &p->t->in[q];
    RtPiece *s = &p->pieces[p->n + q];
    for (Flight *f; !in->left && (f = flight_next(p, q, false));) {
        Link *l = &f->links[q];
        if (l->receiving == PAYLOAD) rt_piece_take(s, &l->in);
        if (l->receiving != PAYLOAD || s->at == l->in.bytes) l->receiving++, s->at = 0;
        if (l->receiving == HEADER) *in = (RtMove){(char *)&l->got, sizeof l->got};
        if (l->receiving == PAYLOAD) {
            if (!s->at) RT_TRY(check_header(p, l, q, st));
            RT_TRY(rt_piece_next(s, &l->in, in, st));
        }
        if (l->receiving == DONE) {
            if (l->got.payload_sum != rt_piece_sum(s))
                return rt_fail(st, RT_E_PEER_MESSAGE, NULL, NULL, "rank %d got %lld damaged bytes from rank %d, in %s",
                               p->rank, (long long)l->in.bytes, q, where(p, &l->sent, here, sizeof here));
            f->open--;
        }
    }
    return RT_OK;
}

/* Moves what can be moved now. */
static RtCode move_some(RtPeers *p, bool *moved, RtStatus *st)
{
    RT_TRY(p->t->calls->progress(p->t, moved, st));
    for (int i = 1; i < p->n; i++) {
        int q = (p->rank + i) % p->n;
        RT_TRY(send_next(p, q, st));
        RT_TRY(receive_next(p, q, st));
    }
    return RT_OK;
}

/* The peer that is waited for: one that does not wait itself, if there is such a one. */
static RtCode late(const RtPeers *p, const Flight *f, RtStatus *st)
{
    char here[160];
    int who = -1, n = 0;
    for (int q = 0; q < p->n; q++) {
        const Link *l = &f->links[q];
        if (q == p->rank || (l->sending == DONE && l->receiving == DONE)) continue;
        if (who < 0 || (p->t->calls->waits(p->t, who) && !p->t->calls->waits(p->t, q))) who = q;
        n++;
    }
    assert(who >= 0);
    where(p, &f->links[who].sent, here, sizeof here);
    if (n == 1)
        return rt_fail(st, RT_E_PEER_LATE, NULL, NULL, "rank %d does not answer rank %d within %g s, in %s", who,
                       p->rank, p->deadline_s, here);
    return rt_fail(st, RT_E_PEER_LATE, NULL, NULL, "rank %d, and %d more, do not answer rank %d within %g s, in %s",
                   who, n - 1, p->rank, p->deadline_s, here);
}

/* Whether what is moved next is of a call that a peer has not begun. */
static bool peer_is_behind(const RtPeers *p)
{
    const Flight *f = flight_oldest(p);
    for (int q = 0; f && q < p->n; q++)
        if (q != p->rank && f->links[q].receiving < PAYLOAD) return true;
    return false;
}

/* Until a call is over. The seconds in which nothing moved are added to those of `of`. */
static RtCode move_until(RtPeers *p, const Flight *f, RtPeersSite *of, RtStatus *st)
{
    RtTransport *t = p->t;
    double since = rt_now_ns(), looked = since, behind = 0;
    for (int64_t idle = 0;;) {
        bool moved;
        RT_TRY(move_some(p, &moved, st));
        double now = rt_now_ns();
        if (now - looked > SUSPENDED_NS) since += now - looked; /* this process was stopped, perhaps all were */
        else if (!moved && peer_is_behind(p)) behind += now - looked;
        looked = now;
        if (moved || !f->open) {
            if (idle) of->wait_s += (now - since) * 1e-9, of->behind_s += behind * 1e-9;
            since = now;
            behind = 0;
            idle = 0;
            if (!f->open) return RT_OK;
            continue;
        }
        RT_TRY(t->calls->lost(t, st));
        if (now - since > p->deadline_s * 1e9) return late(p, f, st);
        t->calls->rest(t, idle++);
    }
}

/* A failure of this process alone, or one that it found. All peers hear of it. */
static RtCode broken(RtPeers *p, RtStatus *st)
{
    p->broken = true;
    if (p->t) p->t->calls->fail(p->t, &p->failed);
    if (st) *st = p->failed;
    return p->failed.code;
}

static RtCode failed_before(const RtPeers *p, RtStatus *st)
{
    if (st) *st = p->failed;
    return p->failed.code;
}

RtCode rt_peers_look(RtPeers *p, RtStatus *st)
{
    bool moved;
    if (p->broken) return failed_before(p, st);
    RtCode code = p->t ? move_some(p, &moved, &p->failed) : RT_OK;
    if (!code && p->t) code = p->t->calls->lost(p->t, &p->failed);
    return code ? broken(p, st) : RT_OK;
}

/* A flight for the next call, whose messages are to be said before it is begun. */
static RtCode flight_take(RtPeers *p, int *flight, RtStatus *st)
{
    int i = 0;
    if (p->broken) return failed_before(p, st);
    while (i < p->n_flights && p->flights[i].used) i++;
    RtCode code = RT_OK;
    if (i == p->n_flights) {
        code = rt_grow(&p->flights, i + 1, sizeof *p->flights, "messages between processes", &p->failed);
        if (!code) p->flights[i] = (Flight){0};
        if (!code) code = rt_alloc(&p->flights[i].links, p->n, sizeof(Link), "messages between processes", &p->failed);
        if (!code) p->n_flights++;
    }
    *flight = i;
    for (int q = 0; !code && q < p->n; q++) p->flights[i].links[q] = (Link){0};
    return code ? broken(p, st) : RT_OK;
}

/* site: of the header. s: NULL for comparisons. */
static RtCode flight_begin(RtPeers *p, int flight, Kind kind, uint32_t site, Site *s, RtStatus *st)
{
    Flight *f = &p->flights[flight];
    RtMessage *out = &f->links[p->rank].out, *in = &f->links[p->rank].in, summed = {NULL, -1, NULL, 0};
    uint64_t sum = 0;
    bool moved;
    enter(p);
    p->calls++;
    p->agreed = RT_OK;
    if (out->bytes != in->bytes) {
        (void)rt_fail(&p->failed, RT_E_INTERNAL, "peers", NULL, "rank %d sends itself %lld bytes and wants %lld",
                      p->rank, (long long)out->bytes, (long long)in->bytes);
        return broken(p, st);
    }
    if (out->bytes && out->p != in->p) memmove(in->p, out->p, (size_t)out->bytes);
    *f = (Flight){.used = true, .call = p->calls, .site = s, .links = f->links};
    for (int q = 0; q < p->n; q++) {
        Link *l = &f->links[q];
        assert(l->out.bytes >= 0 && l->in.bytes >= 0);
        l->sending = q == p->rank || !l->out.bytes ? DONE : QUEUED;
        l->receiving = q == p->rank || !l->in.bytes ? DONE : QUEUED;
        f->open += (l->sending == QUEUED) + (l->receiving == QUEUED);
        if (q == p->rank) continue;
        if (l->out.rows || l->out.p != summed.p || l->out.bytes != summed.bytes) { /* a gather gives all the same */
            summed = l->out;
            sum = rt_message_sum(&l->out);
        }
        l->sent = (Header){.magic = MAGIC,
                           .kind = kind,
                           .site = site,
                           .rank = (uint32_t)p->rank,
                           .call = p->calls,
                           .bytes = l->out.bytes,
                           .payload_sum = sum};
        l->sent.sum = header_sum(&l->sent);
    }
    for (int q = 0; q < p->n; q++) {
        if (q == p->rank) continue;
        /* a first time, so that the transport has something to move */
        if (send_next(p, q, &p->failed) || receive_next(p, q, &p->failed)) return broken(p, st);
    }
    RtCode code = p->n > 1 ? move_some(p, &moved, &p->failed) : RT_OK;
    leave(p);
    return code ? broken(p, st) : RT_OK;
}

/* Until the flight's call is over; then its number is free. */
static RtCode flight_finish(RtPeers *p, int flight, RtStatus *st)
{
    RtCode code = RT_OK;
    RtPeersSite none = {0};
    assert(flight >= 0 && flight < p->n_flights && p->flights[flight].used);
    Flight *f = &p->flights[flight];
    if (p->broken) return failed_before(p, st);
    enter(p);
    if (f->open) {
        p->t->calls->waiting(p->t, true);
        code = move_until(p, f, f->site ? &f->site->is : &none, &p->failed);
        p->t->calls->waiting(p->t, false);
    }
    f->used = false;
    leave(p);
    return code ? broken(p, st) : RT_OK;
}

/* Begins a call for a site. A size below 0 is the caller's fault. */
static RtCode begin_at(RtPeers *p, int flight, Kind kind, int site, RtStatus *st)
{
    Site *s = NULL;
    if (site_make(p, site, &s, &p->failed)) return broken(p, st);
    const Link *links = p->flights[flight].links;
    for (int q = 0; q < p->n; q++)
        if (links[q].out.bytes < 0 || links[q].in.bytes < 0) {
            (void)rt_fail(&p->failed, RT_E_INTERNAL, "peers", NULL, "site %d: a size below 0 for rank %d", site, q);
            return broken(p, st);
        }
    return flight_begin(p, flight, kind, (uint32_t)site, s, st);
}

RtCode rt_peers_exchange_begin(RtPeers *p, int site, const void *out, const int64_t *out_bytes, void *in,
                               const int64_t *in_bytes, int *flight, RtStatus *st)
{
    char *from = (char *)(uintptr_t)out, *to = in;
    RT_TRY(flight_take(p, flight, st));
    for (int q = 0; q < p->n; q++) {
        p->flights[*flight].links[q].out = (RtMessage){.p = from, .bytes = out_bytes[q]};
        p->flights[*flight].links[q].in = (RtMessage){.p = to, .bytes = in_bytes[q]};
        if (out_bytes[q] > 0) from += out_bytes[q];
        if (in_bytes[q] > 0) to += in_bytes[q];
    }
    return begin_at(p, *flight, EXCHANGE, site, st);
}

RtCode rt_peers_rows_begin(RtPeers *p, int site, int64_t row_bytes, const RtPeersRows *out, const RtPeersRows *in,
                           int *flight, RtStatus *st)
{
    const int64_t *out_rows = out->rows, *in_rows = in->rows;
    char *to = in->array;
    assert(out->rows && row_bytes >= 0);
    RT_TRY(flight_take(p, flight, st));
    for (int q = 0; q < p->n; q++) {
        Link *l = &p->flights[*flight].links[q];
        bool own = q == p->rank;
        l->out = (RtMessage){out->array, own ? 0 : rt_size(out->n[q], row_bytes), out_rows, row_bytes};
        l->in = (RtMessage){to, own ? 0 : rt_size(in->n[q], row_bytes), in_rows, row_bytes};
        out_rows += out->n[q];
        if (in_rows) in_rows += in->n[q];
        else if (l->in.bytes > 0) to += l->in.bytes;
    }
    return begin_at(p, *flight, EXCHANGE, site, st);
}

static void links_gather(const RtPeers *p, Link *links, const bool *among, const void *out, const int64_t *bytes,
                         char *in)
{
    RtMessage own = {.bytes = bytes[p->rank]};
    for (int q = 0; q < p->n; q++) {
        links[q].in = (RtMessage){.p = in, .bytes = bytes[q]};
        if (q == p->rank) own.p = out ? (char *)(uintptr_t)out : in;
        if (bytes[q] > 0) in += bytes[q];
    }
    for (int q = 0; q < p->n; q++) links[q].out = !among || among[q] ? own : (RtMessage){.p = own.p};
}

RtCode rt_peers_gather_begin(RtPeers *p, int site, const void *out, const int64_t *bytes, void *in, int *flight,
                             RtStatus *st)
{
    RT_TRY(flight_take(p, flight, st));
    links_gather(p, p->flights[*flight].links, NULL, out, bytes, in);
    return begin_at(p, *flight, GATHER, site, st);
}

RtCode rt_peers_gather_among(RtPeers *p, int site, const bool *among, const void *out, const int64_t *bytes, void *in,
                             RtStatus *st)
{
    int flight;
    for (int q = 0; q < p->n; q++) assert(among[q] ? among[p->rank] : !bytes[q]);
    RT_TRY(flight_take(p, &flight, st));
    links_gather(p, p->flights[flight].links, among, out, bytes, in);
    RT_TRY(begin_at(p, flight, GATHER, site, st));
    return rt_peers_finish(p, flight, st);
}

RtCode rt_peers_finish(RtPeers *p, int flight, RtStatus *st)
{
    RT_TRY(flight_finish(p, flight, st));
    const Flight *f = &p->flights[flight];
    f->site->is.rounds++;
    for (int q = 0; q < p->n; q++) {
        if (q == p->rank) continue;
        f->site->is.bytes_out += f->links[q].out.bytes;
        f->site->is.bytes_in += f->links[q].in.bytes;
    }
    return RT_OK;
}

bool rt_peers_arrived(const RtPeers *p, int flight)
{
    assert(flight >= 0 && flight < p->n_flights && p->flights[flight].used);
    return p->broken || !p->flights[flight].open;
}

void rt_peers_keep(RtPeers *p, RtBlock *b)
{
    /* where there is no room to note it, it stays until the process ends */
    if (!rt_grow(&p->kept, p->n_kept + 1, sizeof *p->kept, "memory of messages", NULL)) p->kept[p->n_kept++] = *b;
    *b = (RtBlock){0};
}

void rt_peers_progress(RtPeers *p)
{
    bool moved;
    if (p->broken || !flight_oldest(p)) return;
    enter(p);
    if (move_some(p, &moved, &p->failed)) (void)broken(p, NULL);
    leave(p);
}

RtCode rt_peers_exchange(RtPeers *p, int site, const void *out, const int64_t *out_bytes, void *in,
                         const int64_t *in_bytes, RtStatus *st)
{
    int flight;
    RT_TRY(rt_peers_exchange_begin(p, site, out, out_bytes, in, in_bytes, &flight, st));
    return rt_peers_finish(p, flight, st);
}

RtCode rt_peers_gather(RtPeers *p, int site, const void *out, const int64_t *bytes, void *in, RtStatus *st)
{
    int flight;
    RT_TRY(rt_peers_gather_begin(p, site, out, bytes, in, &flight, st));
    return rt_peers_finish(p, flight, st);
}

/* Gathers what no site counts. */
static RtCode gather_apart(RtPeers *p, Kind kind, uint32_t site, const void *out, const int64_t *bytes, void *in,
                           RtStatus *st)
{
    int flight;
    RT_TRY(flight_take(p, &flight, st));
    links_gather(p, p->flights[flight].links, NULL, out, bytes, in);
    RT_TRY(flight_begin(p, flight, kind, site, NULL, st));
    return flight_finish(p, flight, st);
}

/* Every process gives `each` bytes; `in` has room for all. */
static RtCode gather_equal(RtPeers *p, Kind kind, uint32_t site, const void *out, int64_t each, void *in, RtStatus *st)
{
    for (int q = 0; q < p->n; q++) p->each[q] = each;
    return gather_apart(p, kind, site, out, p->each, in, st);
}

RtCode rt_peers_same(RtPeers *p, const char *what, const void *bytes, int64_t n, RtStatus *st)
{
    char own[GIVEN] = {0};
    assert(n >= 0 && n <= RT_PEERS_SAME);
    memcpy(own, &n, sizeof n);
    memcpy(own + sizeof n, bytes, (size_t)n);
    p->question = what;
    uint32_t question = (uint32_t)rt_message_checksum(what,
                                                      (int64_t)strlen(what)); /* another question is another site */
    RT_TRY(gather_equal(p, SAME, question, own, GIVEN, p->given, st));
    for (int q = 1; q < p->n; q++)
        if (memcmp(p->given + q * GIVEN, p->given, GIVEN) != 0)
            return rt_fail(st, p->agreed = RT_E_PEERS_DIFFER, NULL, NULL, "%s of rank %d is not that of rank 0", what,
                           q);
    return RT_OK;
}

/* How bad a code is; 0: not at all. */
static int severity(RtCode code)
{
    if (!code) return 0;
    if (code == RT_E_INTERRUPTED) return 1;
    return 1 + rt_code_exit(code);
}

RtCode rt_peers_agree(RtPeers *p, RtCode mine, RtStatus *st)
{
    RtStatus theirs = {0};
    int worst = 0, flight;
    RtCode *all = (RtCode *)(void *)p->given, agreed;
    if (p->n == 1) return mine;
    RT_TRY(gather_equal(p, AGREE, 0, &mine, sizeof mine, all, st));
    for (int q = 1; q < p->n; q++)
        if (severity(all[q]) > severity(all[worst])) worst = q;
    if (!(agreed = all[worst])) return RT_OK;
    bool own = worst == p->rank;
    if (own && st) theirs = *st;
    theirs.code = agreed;
    RT_TRY(flight_take(p, &flight, st));
    for (int q = 0; q < p->n; q++) {
        Link *l = &p->flights[flight].links[q];
        l->out = (RtMessage){.p = (char *)&theirs, .bytes = own && q != p->rank ? (int64_t)sizeof theirs : 0};
        l->in = (RtMessage){.p = (char *)&theirs, .bytes = q == worst && !own ? (int64_t)sizeof theirs : 0};
    }
    RT_TRY(flight_begin(p, flight, AGREE, 1, NULL, st));
    RT_TRY(flight_finish(p, flight, st));
    if (!own) rt_peers_of_rank(worst, &theirs, st);
    return p->agreed = agreed;
}

/* ---- the end ---- */

void rt_peers_of_rank(int rank, const RtStatus *theirs, RtStatus *st)
{
    if (!st) return;
    *st = *theirs;
    int n = snprintf(st->message, sizeof st->message, "rank %d: ", rank);
    snprintf(st->message + n, sizeof st->message - (size_t)n, "%.490s", theirs->message);
}

RtCode rt_peers_heard(int rank, const RtStatus *theirs, RtStatus *st)
{
    if (theirs->code >= RT_E_PEERS_OPEN) { /* it says which rank is at fault */
        if (st) *st = *theirs;
        return theirs->code;
    }
    char text[460];
    snprintf(text, sizeof text, "%.100s%s%.350s", theirs->place, theirs->place[0] ? ": " : "", theirs->message);
    rt_fail(st, RT_E_PEER_LOST, NULL, theirs->hint[0] ? theirs->hint : NULL, "rank %d failed, R%d: %s", rank,
            (int)theirs->code, text);
    if (st) memcpy(st->note, theirs->note, sizeof st->note);
    return RT_E_PEER_LOST;
}

void rt_peers_fail(RtPeers *p, const RtStatus *st)
{
    if (!p || p->told) return;
    p->told = true;
    p->speaks = p->rank == 0;
    if (p->agreed && p->agreed == st->code) return; /* all know it: nobody has to be told, or waited for */
    if (!p->broken) {
        p->failed = *st;
        (void)broken(p, NULL);
    }
    if (!p->t) return;
    double end = rt_now_ns() + (p->deadline_s < SPEAK_S ? p->deadline_s : SPEAK_S) * 1e9;
    int lower = p->rank == 0 ? -1 : 0;
    while (!lower && rt_now_ns() < end) {
        lower = p->t->calls->lower(p->t);
        if (!lower) p->t->calls->rest(p->t, INT64_MAX);
    }
    p->speaks = lower <= 0 && p->t->calls->speak(p->t);
}

bool rt_peers_speaks(const RtPeers *p)
{
    static const char *const ranks[] = {"GNNC_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    if (p) return p->told ? p->speaks : p->rank == 0;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i])) return !strcmp(getenv(ranks[i]), "0");
    return true;
}

static void peers_free(RtPeers *p)
{
    for (int i = 0; i < SITE_PAGES; i++) free(p->pages[i]);
    for (int i = 0; i < p->n_flights; i++) free(p->flights[i].links);
    for (int i = 0; i < p->n_kept; i++) rt_block_free(&p->kept[i]);
    for (int i = 0; p->pieces && i < 2 * p->n; i++) free(p->pieces[i].p);
    free(p->pieces);
    free(p->kept);
    free(p->flights);
    free(p->each);
    free(p->given);
    free(p->ledger);
    free(p);
}

void rt_peers_close(RtPeers *p)
{
    if (!p) return;
    if (!p->broken && !p->told) (void)rt_peers_write_ledger(p, NULL);
    if (!p->broken) (void)rt_peers_agree(p, RT_OK, NULL); /* all are here, and who speaks has spoken */
    if (p->broken) rt_peers_fail(p, &p->failed); /* at the latest now: others speak before this one ends them */
    if (p->t) p->t->calls->close(p->t, p->broken ? &p->failed : NULL);
    peers_free(p);
}

/* ---- the beginning ---- */

RtCode rt_peers_over(RtTransport *t, const RtPeersOptions *o, RtPeers **out, RtStatus *st)
{
    RtPeers *p = NULL;
    RtStatus own = {0};
    int n = t ? t->n : 1;
    *out = NULL;
    assert(n >= 1 && n <= RT_PEERS_MOST && (!t || (t->rank >= 0 && t->rank < n)));
    RtCode code = rt_alloc(&p, 1, sizeof *p, "the processes of a run", &own);
    if (!code) code = rt_alloc(&p->each, n, sizeof *p->each, "the processes of a run", &own);
    if (!code) code = rt_alloc(&p->given, n, GIVEN, "the processes of a run", &own);
    if (!code) code = rt_alloc(&p->pieces, n, 2 * sizeof *p->pieces, "the processes of a run", &own);
    if (!code && o && o->ledger) code = rt_alloc(&p->ledger, (int64_t)strlen(o->ledger) + 1, 1, "a path", &own);
    if (code) {
        if (t) t->calls->fail(t, &own), t->calls->close(t, &own);
        if (p) peers_free(p);
        if (st) *st = own;
        return code;
    }
    p->t = t;
    p->n = n;
    p->rank = t ? t->rank : 0;
    p->deadline_s = o && o->deadline_s > 0 ? o->deadline_s : DEADLINE_S;
    if (p->ledger) strcpy(p->ledger, o->ledger);
    *out = p;
    return RT_OK;
}

RtCode rt_peers_open(const RtPeersOptions *o, RtPeers **p, RtStatus *st)
{
    const char *name = o && o->transport ? o->transport : "auto";
    double deadline_s = o && o->deadline_s > 0 ? o->deadline_s : DEADLINE_S;
    bool automatic = !strcmp(name, "auto"), started = getenv("GNNC_RANK") != NULL;
    bool shm = !strcmp(name, "shm"), mpi = !strcmp(name, "mpi");
    RtTransport *t = NULL;
    *p = NULL;
    if (!automatic && !shm && !mpi)
        return rt_fail(st, RT_E_CLI_VALUE, "transport", "auto, mpi and shm are transports, and sim is one of `plan`",
                       "there is no transport `%s`", name);
    if (shm || (automatic && started)) RT_TRY(rt_peers_shm_open(deadline_s, &t, st));
    else if (mpi || rt_peers_mpi_launched()) RT_TRY(rt_peers_mpi_open(deadline_s, &t, st));
    return rt_peers_over(t, o, p, st);
}

double rt_peers_deadline(const RtPeers *p) { return p->deadline_s; }
int rt_peers_rank(const RtPeers *p) { return p->rank; }
int rt_peers_count(const RtPeers *p) { return p->n; }

/* ---- the ledger ---- */

typedef struct Row { /* of one site, as one process knows it */
    int64_t site;
    Site of;
} Row;

static int64_t rows_take(const RtPeers *p, Row *rows)
{
    int64_t n = 0;
    for (int i = 0; i < RT_PEERS_SITES; i++) {
        const Site *s = site_find(p, i);
        if (!s->is.rounds && !s->predicted) continue;
        if (rows) rows[n] = (Row){i, *s};
        n++;
    }
    return n;
}

static void print_row(FILE *f, int rank, const Site *s)
{
    fprintf(f,
            "\n      {\"rank\": %d, \"bytes_out\": %lld, \"bytes_in\": %lld, \"rounds\": %lld, \"wait_s\": %.6f, "
            "\"behind_s\": %.6f, \"hidden_s\": %.6f",
            rank, (long long)s->is.bytes_out, (long long)s->is.bytes_in, (long long)s->is.rounds, s->is.wait_s,
            s->is.behind_s, s->is.hidden_s);
    if (s->predicted)
        fprintf(f, ", \"predicted_bytes\": %lld, \"predicted_rounds\": %lld", (long long)s->predicted_bytes,
                (long long)s->predicted_rounds);
    fputc('}', f);
}

/* rows: those of rank 0, then of rank 1, ...; each process's by site. first[n + 1]. */
static void print_ledger(FILE *f, const RtPeers *p, const Row *rows, const int64_t *first)
{
    int64_t last = -1;
    fprintf(f, "{\n  \"ranks\": %d,\n  \"transport\": \"%s\",\n  \"sites\": [", p->n,
            p->t ? p->t->calls->name : "none");
    for (const char *sep = "";; sep = ",") {
        const Row *next = NULL;
        for (int64_t i = 0; i < first[p->n]; i++) /* the next site of any process */
            if (rows[i].site > last && (!next || rows[i].site < next->site)) next = &rows[i];
        if (!next) break;
        last = next->site;
        fprintf(f, "%s\n    {\"site\": %lld, \"name\": ", sep, (long long)last);
        rt_json_put_string(f, next->of.name);
        fprintf(f, ", \"by_rank\": [");
        const char *comma = "";
        for (int q = 0; q < p->n; q++)
            for (int64_t i = first[q]; i < first[q + 1]; i++)
                if (rows[i].site == last) fputs(comma, f), print_row(f, q, &rows[i].of), comma = ",";
        fprintf(f, "]}");
    }
    fprintf(f, "\n  ]\n}\n");
}

static RtCode write_ledger(const RtPeers *p, const Row *rows, const int64_t *first, RtStatus *st)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return rt_fail_memory(st, 4096, "the ledger");
    print_ledger(f, p, rows, first);
    bool ok = !ferror(f) && fclose(f) == 0;
    RtCode code = ok ? rt_file_replace(p->ledger, &(RtFilePart){text, n}, 1, st) : rt_fail_memory(st, n, "the ledger");
    free(text);
    return code;
}

RtCode rt_peers_write_ledger(RtPeers *p, RtStatus *st)
{
    int64_t *first = NULL, n = rows_take(p, NULL), total = 0;
    Row *own = NULL, *all = NULL;
    if (!p->ledger) return RT_OK;
    RtCode code = rt_alloc(&first, p->n + 1, sizeof *first, "the ledger", &p->failed);
    if (!code) code = rt_alloc(&own, n, sizeof *own, "the ledger", &p->failed);
    if (code) code = broken(p, st);
    if (!code) code = gather_equal(p, GATHER, RT_PEERS_SITES, &n, sizeof n, first, st);
    for (int q = 0; q < p->n && !code; q++) {
        p->each[q] = rt_size(first[q], sizeof *all);
        int64_t rows = first[q];
        first[q] = total;
        total += rows;
    }
    if (!code) {
        first[p->n] = total;
        rows_take(p, own);
        code = rt_alloc(&all, total, sizeof *all, "the ledger", &p->failed);
        if (code) code = broken(p, st);
        if (!code) code = gather_apart(p, GATHER, RT_PEERS_SITES, own, p->each, all, st);
    }
    if (!code && p->rank == 0) code = write_ledger(p, all, first, st);
    free(p->ledger); /* it is written once */
    p->ledger = NULL;
    free(first), free(own), free(all);
    return p->broken ? failed_before(p, st) : rt_peers_agree(p, code, st);
}
