/* What kernels do while the shim runs them (see cuda_watch.h). Lanes run one after another, so what they do together is
   put together afterwards: accesses that have the same place in the text and the same turns of all loops are one. */
#include "runtime/cuda_watch.h"
#include "runtime/memory.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIT_STEPS = 10, MISS_STEPS = 60 }; /* about how many instructions an access takes as long as */
enum { WARP = 32, SECTOR = 32, LINE = 128, BANKS = 32, WORD = 4, MOST_TEAMS = 256, MOST_GIVEN = 512 };

/* A set of numbers, or numbers that stand for others: open addressing. What is of an older round is not there. */
typedef struct Set {
    struct {
        uint64_t key, value, round;
    } * slots; /* [size] */
    int64_t size, n;
    uint64_t round;
} Set;

typedef struct Array {
    uint64_t given; /* what kernels call it by: its address, but where the rows before its first are elsewhere */
    uint64_t at;
    int64_t bytes;
} Array;

/* What the lanes of a warp do at one place in one turn. */
typedef struct Access {
    uint64_t place, turn, at[WARP];   /* [lane] where */
    uint32_t lanes, warp, size, time; /* time: how often the lanes had been there in this turn */
    uint8_t kind, inner;
} Access;

struct RtCudaWatch {
    RtShimWatch teller; /* first: this is what the shim has */
    Array *arrays;      /* [n_arrays] by what kernels are given */
    int64_t n_arrays;
    Array host;              /* memory of which pages lie on the host */
    const uint8_t *places;   /* [bytes / RT_CUDA_PAGE] of it; 1: there */
    Array given[MOST_GIVEN]; /* [n_given] of the launch */
    int64_t n_given;
    RtCudaCounts *counts;
    uint32_t lanes;   /* of a team */
    Access *accesses; /* [n_accesses] of the block */
    int64_t n_accesses, room;
    Set found, of_block, of_step; /* accesses; sectors; sectors */
    struct Path {
        int64_t instructions, requests, misses;
    } paths[MOST_TEAMS]; /* of teams of the block */
    int64_t longest;     /* steps of the longest path so far */
    char wrong[160];
};

/* ---- sets ---- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static bool set_grow(Set *s)
{
    Set more = {.size = s->size ? 2 * s->size : 1024, .round = 1};
    if (rt_alloc(&more.slots, more.size, sizeof *more.slots, "counts", NULL)) return false;
    for (int64_t i = 0; i < s->size; i++) {
        if (s->slots[i].round != s->round) continue;
        uint64_t at = mixed(s->slots[i].key);
        while (more.slots[at % (uint64_t)more.size].round) at++;
        more.slots[at % (uint64_t)more.size] = s->slots[i];
        more.slots[at % (uint64_t)more.size].round = more.round;
        more.n++;
    }
    free(s->slots);
    *s = more;
    return true;
}

/* Where the value of a key is, which is *is_new if it was not there; NULL: there is no memory. */
static uint64_t *set_at(Set *s, uint64_t key, bool *is_new)
{
    if (2 * s->n >= s->size && !set_grow(s)) return NULL;
    uint64_t at = mixed(key);
    while (s->slots[at % (uint64_t)s->size].round == s->round && s->slots[at % (uint64_t)s->size].key != key) at++;
    at %= (uint64_t)s->size;
    *is_new = s->slots[at].round != s->round;
    s->slots[at].key = key;
    s->slots[at].round = s->round;
    s->n += *is_new;
    return &s->slots[at].value;
}

static void set_clear(Set *s) { s->round++, s->n = 0; }

/* ---- one access ---- */

static int sorted(const Access *x, uint32_t first, uint32_t n, uint64_t *at)
{
    int m = 0;
    for (uint32_t l = first; l < first + n; l++) {
        if (!(x->lanes >> l & 1)) continue;
        int i = m++;
        for (; i > 0 && at[i - 1] > x->at[l]; i--) at[i] = at[i - 1];
        at[i] = x->at[l];
    }
    return m;
}

static bool is_on_host(const RtCudaWatch *w, uint64_t at)
{
    bool inside = at >= w->host.at && at - w->host.at < (uint64_t)w->host.bytes;
    return inside && w->places[(at - w->host.at) / RT_CUDA_PAGE];
}

/* Pieces of so many bytes that the lanes touch, each once. w: NULL, or who counts them as sectors. -1: there is no
   memory. */
static int64_t pieces(const uint64_t *at, int n, uint32_t size, uint64_t piece, RtCudaWatch *w)
{
    int64_t count = 0;
    uint64_t next = 0;
    for (int i = 0; i < n; i++)
        for (uint64_t p = at[i] / piece; p <= (at[i] + size - 1) / piece; p++) {
            bool is_new;
            if (p < next) continue;
            count++, next = p + 1;
            if (!w) continue;
            bool on_host = is_on_host(w, p * piece);
            if (!set_at(&w->of_block, p, &is_new)) return -1;
            w->counts->block_sectors += is_new;
            w->counts->bus_sectors += is_new && on_host;
            w->counts->bus_asked += on_host;
            if (!set_at(&w->of_step, p, &is_new)) return -1;
            w->counts->distinct_sectors += is_new;
        }
    return count;
}

static bool count_global(RtCudaWatch *w, const Access *x)
{
    RtCudaCounts *c = w->counts;
    uint64_t at[WARP];
    for (uint32_t first = 0; first < WARP; first += w->lanes) {
        int n = sorted(x, first, w->lanes, at);
        if (!n) continue;
        struct Path *path = &w->paths[(WARP * x->warp + first) / w->lanes];
        int64_t before = c->block_sectors, used = pieces(at, n, x->size, 1, NULL);
        int64_t sectors = pieces(at, n, x->size, SECTOR, w);
        if (sectors < 0) return false;
        c->requests++;
        c->sectors += sectors;
        c->used_bytes += used;
        c->least_sectors += (used + SECTOR - 1) / SECTOR;
        path->requests++;
        path->misses += c->block_sectors > before;
    }
    c->lines += pieces(at, sorted(x, 0, WARP, at), x->size, LINE, NULL);
    return true;
}

/* Words of one bank that are asked for together are handed out one after another. Lanes that ask for more than 4 bytes
   each come by halves of a warp, or quarters. */
static void count_shared(RtCudaWatch *w, const Access *x)
{
    RtCudaCounts *c = w->counts;
    uint32_t together = x->size <= WORD ? WARP : x->size <= 2 * WORD ? WARP / 2 : WARP / 4;
    c->shared_requests++;
    for (uint32_t first = 0; first < WARP; first += together) {
        uint64_t at[WARP], next = 0;
        int n = sorted(x, first, together, at), ways[BANKS] = {0}, most = 0;
        for (int i = 0; i < n; i++)
            for (uint64_t word = at[i] / WORD; word <= (at[i] + x->size - 1) / WORD; word++) {
                if (word < next) continue;
                next = word + 1;
                if (++ways[word % BANKS] > most) most = ways[word % BANKS];
            }
        if (!n) continue;
        c->wavefronts += most;
        c->conflicts += most - 1;
        if (x->inner && most > c->most_ways) c->most_ways = most;
    }
}

static void count_lanes(RtCudaWatch *w, const Access *x)
{
    for (uint32_t first = 0; first < WARP && x->inner; first += w->lanes) {
        uint32_t lanes = x->lanes >> first & ((1u << w->lanes) - 1);
        if (!lanes) continue;
        w->counts->lanes += w->lanes;
        w->counts->idle += w->lanes - (uint32_t)__builtin_popcount(lanes);
    }
}

/* Lane 0 of each team says its turns. */
static void count_turn(RtCudaWatch *w, const Access *x)
{
    w->counts->issued += x->size;
    for (uint32_t first = 0; first < WARP; first += w->lanes) {
        if (!(x->lanes >> first & 1)) continue;
        w->counts->instructions += x->size;
        w->paths[(WARP * x->warp + first) / w->lanes].instructions += x->size;
    }
}

static bool count_block(RtCudaWatch *w)
{
    RtCudaCounts *c = w->counts;
    bool good = true;
    memset(w->paths, 0, sizeof w->paths);
    set_clear(&w->of_block);
    for (int64_t i = 0; i < w->n_accesses && good; i++) {
        const Access *x = &w->accesses[i];
        if (x->kind == RT_SHIM_TURN) {
            count_turn(w, x);
            continue;
        }
        if (x->kind == RT_SHIM_LOAD || x->kind == RT_SHIM_STORE) good = count_global(w, x);
        else count_shared(w, x);
        count_lanes(w, x);
    }
    for (int h = 0; h < MOST_TEAMS; h++) {
        const struct Path *p = &w->paths[h];
        int64_t steps = p->instructions + HIT_STEPS * p->requests + MISS_STEPS * p->misses;
        if (steps <= w->longest) continue;
        w->longest = steps;
        c->longest = p->instructions, c->longest_requests = p->requests, c->longest_misses = p->misses;
    }
    c->blocks++;
    w->n_accesses = 0;
    set_clear(&w->found);
    return good;
}

/* ---- what is told ---- */

/* Where the event belongs; NULL: there is no memory. */
static Access *find(RtCudaWatch *w, const RtShimEvent *e)
{
    uint32_t warp = e->thread / WARP, lane = e->thread % WARP;
    for (uint32_t time = 0;; time++) {
        bool is_new;
        uint64_t key = mixed(e->turn ^ mixed(e->place + mixed((uint64_t)warp << 40 ^ (uint64_t)e->kind << 32 ^ time)));
        uint64_t *at = set_at(&w->found, key, &is_new);
        if (!at) return NULL;
        if (is_new) {
            if (w->n_accesses == w->room) {
                w->room = w->room ? 2 * w->room : 256;
                if (rt_grow(&w->accesses, w->room, sizeof *w->accesses, "counts", NULL)) return NULL;
            }
            *at = (uint64_t)w->n_accesses;
            w->accesses[w->n_accesses++] = (Access){.place = e->place,
                                                    .turn = e->turn,
                                                    .warp = warp,
                                                    .size = e->size,
                                                    .time = time,
                                                    .kind = (uint8_t)e->kind,
                                                    .inner = e->inner != 0};
        }
        Access *x = &w->accesses[*at];
        assert(x->place == e->place && x->turn == e->turn && x->warp == warp && x->size == e->size);
        if (!(x->lanes >> lane & 1)) return x;
    }
}

static const char *count(RtCudaWatch *w, const RtShimEvent *e)
{
    if (e->kind == RT_SHIM_BLOCK) return count_block(w) ? NULL : "no memory to count with";
    if (e->kind == RT_SHIM_BARRIER) {
        w->counts->barriers += e->thread == 0;
        return NULL;
    }
    if (e->kind == RT_SHIM_TURN && e->thread % w->lanes) return NULL;
    Access *x = find(w, e);
    if (!x) return "no memory to count with";
    x->lanes |= 1u << e->thread % WARP;
    x->at[e->thread % WARP] = e->at;
    return NULL;
}

/* The last of the sorted arrays that begins at or before an address; NULL: none does. */
static const Array *array_before(const Array *all, int64_t n, uint64_t at)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (all[middle].at <= at) low = middle + 1;
        else high = middle;
    }
    return low ? &all[low - 1] : NULL;
}

static int by_address(const void *a, const void *b)
{
    const Array *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The first array that is given by this address or one behind it. */
static int64_t first_array(const RtCudaWatch *w, uint64_t given)
{
    int64_t low = 0, high = w->n_arrays;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (w->arrays[middle].given < given) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Which arrays a launch was given: parameters that are the address of one. */
static const char *take_params(RtCudaWatch *w, const RtShimEvent *e)
{
    void *const *params = (void *const *)(uintptr_t)e->at;
    w->n_given = 0;
    if (e->size > MOST_GIVEN) return "more parameters than a kernel may have";
    for (unsigned i = 0; i < e->size; i++) {
        uint64_t at;
        memcpy(&at, params[i], sizeof at);
        for (int64_t k = first_array(w, at); k < w->n_arrays && w->arrays[k].given == at; k++) {
            if (w->n_given == MOST_GIVEN) return "more arrays than are told apart";
            w->given[w->n_given++] = w->arrays[k];
        }
    }
    qsort(w->given, (size_t)w->n_given, sizeof *w->given, by_address);
    return NULL;
}

static const char *check_bounds(RtCudaWatch *w, const RtShimEvent *e)
{
    const Array *x = array_before(w->given, w->n_given, e->at);
    if (x && e->at - x->at + e->size <= (uint64_t)x->bytes) return NULL;
    if (!x)
        snprintf(w->wrong, sizeof w->wrong, "thread %u touches %u bytes before all arrays that it was given", e->thread,
                 e->size);
    else
        snprintf(w->wrong, sizeof w->wrong, "thread %u touches %u bytes at byte %llu of an array of %lld", e->thread,
                 e->size, (unsigned long long)(e->at - x->at), (long long)x->bytes);
    return w->wrong;
}

static const char *tell(RtShimWatch *teller, const RtShimEvent *e)
{
    RtCudaWatch *w = (RtCudaWatch *)teller;
    if (e->kind == RT_SHIM_LAUNCH) {
        if (w->counts) w->counts->launches++;
        return take_params(w, e);
    }
    const char *wrong = e->kind == RT_SHIM_LOAD || e->kind == RT_SHIM_STORE ? check_bounds(w, e) : NULL;
    return wrong || !w->counts ? wrong : count(w, e);
}

/* ---- watches ---- */

RtCudaWatch *rt_cuda_watch_create(void)
{
    RtCudaWatch *w;
    if (rt_alloc(&w, 1, sizeof *w, "a watch", NULL)) return NULL;
    w->teller.tell = tell, w->lanes = WARP / 2;
    w->found.round = w->of_block.round = w->of_step.round = 1;
    return w;
}

void rt_cuda_watch_free(RtCudaWatch *w)
{
    if (!w) return;
    free(w->arrays);
    free(w->accesses);
    free(w->found.slots);
    free(w->of_block.slots);
    free(w->of_step.slots);
    free(w);
}

RtShimWatch *rt_cuda_watch_teller(RtCudaWatch *w) { return w ? &w->teller : NULL; }

RtCode rt_cuda_watch_array(RtCudaWatch *w, uint64_t at, int64_t bytes, RtStatus *st)
{
    return rt_cuda_watch_rows(w, at, at, bytes, st);
}

RtCode rt_cuda_watch_rows(RtCudaWatch *w, uint64_t given, uint64_t at, int64_t bytes, RtStatus *st)
{
    if (!w || !at) return RT_OK;
    int64_t i = first_array(w, given);
    for (; i < w->n_arrays && w->arrays[i].given == given; i++) {
        if (w->arrays[i].at != at) continue;
        if (bytes > w->arrays[i].bytes) w->arrays[i].bytes = bytes;
        return RT_OK;
    }
    RT_TRY(rt_grow(&w->arrays, w->n_arrays + 1, sizeof *w->arrays, "the arrays of a device", st));
    memmove(&w->arrays[i + 1], &w->arrays[i], (size_t)(w->n_arrays - i) * sizeof *w->arrays);
    w->arrays[i] = (Array){given, at, bytes};
    w->n_arrays++;
    return RT_OK;
}

void rt_cuda_watch_host(RtCudaWatch *w, uint64_t at, int64_t bytes, const uint8_t *places)
{
    if (!w) return;
    w->host = (Array){at, at, bytes};
    w->places = places;
}

void rt_cuda_watch_lanes(RtCudaWatch *w, int64_t lanes)
{
    assert(lanes > 0 && lanes < WARP && WARP % lanes == 0);
    if (w) w->lanes = (uint32_t)lanes;
}

void rt_cuda_watch_forget(RtCudaWatch *w)
{
    if (w) w->n_arrays = 0;
}

void rt_cuda_watch_count(RtCudaWatch *w, RtCudaCounts *counts)
{
    if (counts) *counts = (RtCudaCounts){0};
    w->counts = counts;
    w->longest = 0;
    set_clear(&w->of_step);
}
