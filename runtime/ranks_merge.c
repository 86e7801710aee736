/* Sums of blocks that processes merge together (see ranks.h), so that all have them: what each block belongs to is a
   binary tree of neighbours (blocks.h), whose every node is merged where its two halves first meet, so no bit depends
   on where.

     a process has the sums of some blocks side by side, and merges what it can: few nodes of the tree are left
     stage     radix processes, whose blocks lie side by side, send each other those: all then have the nodes of all
               of them
     sliced    larger sums: each of them gets a slice of the elements alone; at the end stages run backwards, and each
               sends the others its slice

   Up to FLAT processes are one stage. More are stages of at most MOST processes, near ones first, where their number
   has such divisors: then a process sends few messages, not one to each other, and far ones get a slice of a slice. */
#include "runtime/ranks_part.h"
#include <assert.h>
#include <string.h>

static const char what[] = "sums of several processes";

enum { SLICED_FROM = 4096 }; /* bytes of a sum */
enum { FLAT = 16, MOST = 8, STAGES = 10, HEADS = 128 };

#define MERGE(T)                                                                                                       \
    {                                                                                                                  \
        T *x = to;                                                                                                     \
        const T *y = from;                                                                                             \
        if (how == RT_ADDS)                                                                                            \
            for (int64_t i = 0; i < n; i++) x[i] += y[i];                                                              \
        else if (how == RT_MULTIPLIES)                                                                                 \
            for (int64_t i = 0; i < n; i++) x[i] *= y[i];                                                              \
        else if (how == RT_RAISES)                                                                                     \
            for (int64_t i = 0; i < n; i++) x[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i]; /* NaN stays */          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) x[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i];                          \
    }

/* to[i] = to[i] and from[i] together, of n elements. */
static void merge(int64_t how, int64_t elem, void *to, const void *from, int64_t n)
{
    switch (elem) {
    case RT_K_F32: MERGE(float) break;
    case RT_K_F64: MERGE(double) break;
    case RT_K_I32: MERGE(int32_t) break;
    default: MERGE(int64_t) break;
    }
}

static bool can_merge(const RtAcross *a, const RtStep *s, int64_t how, int64_t elem)
{
    /* kernels choose one of +0 and -0 their way; and a maximum of no elements of a row is no maximum of others */
    bool known = how == RT_ADDS ||
                 (s->work == RT_TOTALS && (how == RT_MULTIPLIES || (a->r->local_sums && how > RT_ADDS)));
    return known && (elem == RT_K_F32 || elem == RT_K_F64 || elem == RT_K_I32 || elem == RT_K_I64);
}

bool rt_merge_can(const RtAcross *a, int64_t step)
{
    const RtStep *s = across_def(a, step);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (t->writes && !can_merge(a, s, t->writes, across_buffer(a, t->buffer)->elem)) return false;
    }
    return true;
}

int64_t rt_merge_blocks_most(const RtAcross *a, int64_t most) { return most > 4 * a->r->n ? most : 4 * a->r->n; }

/* ---- nodes of the tree ------------------------------------------------------------------------------------------- */

typedef struct Head { /* the sum of blocks [from, to) */
    int64_t from, to;
    char *at;
} Head;

/* The fewest nodes of the tree over n blocks that make blocks [from, to). */
static int64_t heads_of(int64_t n, int64_t from, int64_t to, Head *h)
{
    int64_t count = 0;
    while (from < to) {
        int64_t size = from ? from & -from : INT64_C(1) << 62;
        while (to < n && size > to - from) size /= 2;
        int64_t end = size < to - from ? from + size : to;
        h[count++] = (Head){from, end, NULL};
        from = end;
    }
    assert(count <= HEADS);
    return count;
}

static bool joins(int64_t n, const Head *x, const Head *y)
{
    int64_t size = x->to - x->from, end = n - x->to < size ? n : x->to + size;
    assert(x->to == y->from);
    return !(x->from & (2 * size - 1)) && y->to == end;
}

typedef struct Summed {
    const RtAcross *a;
    const RtDivided *d;
    int64_t i, how, elem, each, n; /* elements of so many bytes */
    bool sliced;
    Head heads[HEADS]; /* [n_heads] side by side; at: element `from` */
    int64_t n_heads, from, to;
} Summed;

static void push(Summed *x, Head h)
{
    Head *top = x->heads + x->n_heads++;
    assert(x->n_heads <= HEADS);
    *top = h;
    for (; x->n_heads > 1 && joins(x->d->n_units, top - 1, top); top--, x->n_heads--) {
        merge(x->how, x->elem, top[-1].at, top->at, x->to - x->from);
        top[-1].to = top->to;
    }
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

typedef struct Stage {
    int radix, stride; /* processes that are `stride` apart */
} Stage;

static int stages_of(int n, Stage *s)
{
    int count = 0;
    for (int stride = 1, left = n; left > 1; stride *= s[count].radix, left /= s[count++].radix) {
        int radix = n <= FLAT ? n : MOST;
        while (radix > 1 && left % radix) radix--;
        for (int more = MOST + 1; radix == 1; more++)
            if (left % more == 0) radix = more;
        s[count] = (Stage){radix, stride};
    }
    assert(count <= STAGES);
    return count;
}

static int digit(const Stage *s, int rank) { return rank / s->stride % s->radix; }
static int member(const Stage *s, int rank, int j) { return rank + (j - digit(s, rank)) * s->stride; }

/* Of the j-th member's blocks, before the stage. */
static int64_t member_heads(const RtDivided *d, const Stage *s, int rank, int j, Head *h)
{
    int first = member(s, rank, j) / s->stride * s->stride;
    return heads_of(d->n_units, d->bounds[first], d->bounds[first + s->stride], h);
}

static int64_t part(int64_t from, int64_t to, const Stage *s, int j) { return from + (to - from) * j / s->radix; }

static int64_t sum_count(const RtAcross *a, const RtDivided *d, int64_t i)
{
    const RtBuffer *b = across_buffer(a, d->results[i]);
    return across_def(a, d->step)->work == RT_TOTALS ? b->width : d->to * b->width;
}

static Summed summed(const RtAcross *a, const RtDivided *d, int64_t i)
{
    const RtBuffer *b = across_buffer(a, d->results[i]);
    Summed x = {.a = a, .d = d, .i = i, .how = d->merges[i], .elem = b->elem, .each = rt_elem_bytes(b->elem)};
    x.to = x.n = sum_count(a, d, i);
    x.sliced = a->r->n > 2 && x.n * x.each >= SLICED_FROM;
    return x;
}

/* The elements that a rank has behind so many stages. */
static void slice(const Summed *x, const Stage *s, int n_stages, int rank, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = x->n;
    for (int i = 0; i < n_stages && x->sliced; i++) {
        int64_t begin = *from, end = *to;
        *from = part(begin, end, &s[i], digit(&s[i], rank));
        *to = part(begin, end, &s[i], digit(&s[i], rank) + 1);
    }
}

int rt_merge_rounds(const RtAcross *a, const RtDivided *d, int64_t i)
{
    Stage s[STAGES];
    return stages_of(a->r->n, s) * (summed(a, d, i).sliced ? 2 : 1);
}

int64_t rt_merge_bytes(const RtAcross *a, const RtDivided *d, int64_t i)
{
    Summed x = summed(a, d, i);
    return x.n * x.each;
}

bool rt_merge_is_back(const RtAcross *a, const RtDivided *d, int64_t i, int round)
{
    return summed(a, d, i).sliced && round >= rt_merge_rounds(a, d, i) / 2;
}

int64_t rt_merge_elements(const RtAcross *a, const RtDivided *d, int64_t i, int round, int to)
{
    Stage s[STAGES];
    Head h[HEADS];
    Summed x = summed(a, d, i);
    int n = stages_of(a->r->n, s), rank = a->r->rank, at = round < n ? round : 2 * n - 1 - round;
    int64_t begin, end;
    if (to == rank || member(&s[at], rank, digit(&s[at], to)) != to) return 0;
    slice(&x, s, round < n ? at : at + 1, rank, &begin, &end);
    if (round >= n) return end - begin;
    int64_t heads = member_heads(d, &s[at], rank, digit(&s[at], rank), h);
    if (!x.sliced) return heads * x.n;
    return heads * (part(begin, end, &s[at], digit(&s[at], to) + 1) - part(begin, end, &s[at], digit(&s[at], to)));
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct Room { /* what is sent, what comes, and what is left of either, which the next stage reads */
    int64_t out, in, work;
} Room;

static Room room_of(const Summed *x)
{
    Stage s[STAGES];
    Head h[HEADS];
    int n = stages_of(x->a->r->n, s), rank = x->a->r->rank;
    Room most = {0};
    for (int k = 0; k < n; k++) {
        int64_t begin, end, to, from, in = 0, own = 0;
        slice(x, s, k, rank, &begin, &end);
        slice(x, s, k + 1, rank, &from, &to);
        for (int j = 0; j < s[k].radix; j++) {
            int64_t heads = member_heads(x->d, &s[k], rank, j, h);
            if (j == digit(&s[k], rank)) own = heads;
            else in += heads * (to - from);
        }
        int64_t out = own * (x->sliced ? end - begin : (end - begin) * (s[k].radix - 1));
        if (x->sliced && out < s[k].radix * (to - from)) out = s[k].radix * (to - from); /* on the way back */
        most.out = out > most.out ? out : most.out;
        most.in = in > most.in ? in : most.in;
        most.work = in + own * (to - from) > most.work ? in + own * (to - from) : most.work;
    }
    return (Room){(most.out * x->each + 63) / 64 * 64, (most.in * x->each + 63) / 64 * 64,
                  (most.work * x->each + 63) / 64 * 64};
}

RtCode rt_merge_make(RtAcross *a, RtDivided *d, RtStatus *st)
{
    const RtStep *s = across_def(a, d->step);
    RT_TRY(rt_divided_take(d, s->n_touches, 8, &d->merges, st));
    for (int64_t i = 0, n = 0; i < s->n_touches; i++)
        if (across_touch(a, d->step, i)->writes) d->merges[n++] = across_touch(a, d->step, i)->writes;
    for (int64_t i = 0; i < d->n_results; i++) {
        Summed x = summed(a, d, i);
        Room room = room_of(&x);
        int64_t bytes = room.out + room.in + 2 * room.work;
        if (rt_size(rt_size(x.n, a->r->n), 4 * x.each) < 0) return rt_memory_check(-1, what, st);
        if (bytes > a->room_bytes) a->room_bytes = bytes;
    }
    return RT_OK;
}

/* All members of a stage get the nodes of all. work: for what is left. */
static RtCode forward(Summed *x, const Stage *s, char *out, char *in, char *work, RtStatus *st)
{
    RtRanks *r = x->a->r;
    int64_t bytes[2][RT_PEERS_MOST] = {{0}}, n_own = x->n_heads, begin = x->from, end = x->to;
    int own = digit(s, r->rank);
    char *to = out, *came = in;
    Head mine[HEADS], theirs[HEADS];
    memcpy(mine, x->heads, sizeof mine);
    for (int j = 0; j < s->radix; j++) {
        int64_t first = x->sliced ? part(begin, end, s, j) : begin, last = x->sliced ? part(begin, end, s, j + 1) : end;
        size_t n = (size_t)((last - first) * x->each);
        for (int64_t k = 0; k < n_own && j != own; k++, to += n) memcpy(to, mine[k].at + (first - begin) * x->each, n);
        if (j == own) x->from = first, x->to = last;
        else bytes[0][member(s, r->rank, j)] = n_own * (int64_t)n;
    }
    int64_t n = (x->to - x->from) * x->each;
    for (int j = 0; j < s->radix; j++)
        if (j != own) bytes[1][member(s, r->rank, j)] = member_heads(x->d, s, r->rank, j, theirs) * n;
    RT_TRY(rt_peers_exchange(r->peers, x->a->operands_site, out, bytes[0], in, bytes[1], st));
    x->n_heads = 0;
    for (int j = 0; j < s->radix; j++) {
        int64_t heads = j == own ? n_own : member_heads(x->d, s, r->rank, j, theirs);
        for (int64_t k = 0; k < heads; k++) {
            Head h = j == own ? mine[k] : theirs[k];
            h.at = j == own ? h.at + (x->from - begin) * x->each : came;
            if (j != own) came += n;
            push(x, h);
        }
    }
    for (int64_t k = 0; k < x->n_heads; k++, work += n) {
        memcpy(work, x->heads[k].at, (size_t)n);
        x->heads[k].at = work;
    }
    return RT_OK;
}

/* All members of the k-th stage get the slices that each has, side by side. */
static RtCode backward(const Summed *x, const Stage *s, int k, char *out, char *sums, RtStatus *st)
{
    RtRanks *r = x->a->r;
    int64_t bytes[2][RT_PEERS_MOST] = {{0}}, begin, end, from, to;
    slice(x, s, k, r->rank, &begin, &end);
    slice(x, s, k + 1, r->rank, &from, &to);
    for (int j = 0; j < s[k].radix; j++) {
        int q = member(&s[k], r->rank, j);
        bytes[0][q] = (to - from) * x->each;
        bytes[1][q] = (part(begin, end, &s[k], j + 1) - part(begin, end, &s[k], j)) * x->each;
        memcpy(out + j * bytes[0][q], sums + from * x->each, (size_t)bytes[0][q]);
    }
    return rt_peers_exchange(r->peers, x->a->results_site, out, bytes[0], sums + begin * x->each, bytes[1], st);
}

/* Sums of w bytes of the blocks of this process's own rows, into the first of them. */
static void merge_own(const Summed *x, char *sums, int64_t w)
{
    for (int64_t near = 1; near < x->d->to; near *= 2)
        for (int64_t k = 0; k + near < x->d->to; k += 2 * near)
            merge(x->how, x->elem, sums + k * w, sums + (k + near) * w, x->n);
}

RtCode rt_merge_run(RtAcross *a, const RtDivided *d, int64_t i, RtStatus *st)
{
    Stage s[STAGES];
    Summed x = summed(a, d, i);
    Room room = room_of(&x);
    int64_t first = d->bounds[a->r->rank], w = across_row_bytes(a, d->results[i]);
    int n = stages_of(a->r->n, s);
    bool total = across_def(a, d->step)->work == RT_TOTALS;
    char *sums = rt_staging_rows(a, d->results[i]), *out = across_room(a), *in = out + room.out, *work = in + room.in;
    RT_TRY(rt_staging_fetch(a, d->results[i], 0, d->to, st));
    if (d->own && total) merge_own(&x, sums, w);
    for (int64_t k = first; k < d->bounds[a->r->rank + 1]; k++) push(&x, (Head){k, k + 1, sums + (k - first) * w});
    for (int k = 0; k < n; k++) RT_TRY(forward(&x, &s[k], out, in, work + k % 2 * room.work, st));
    assert(x.n_heads == 1 && x.heads[0].to == d->n_units);
    memmove(sums + x.from * x.each, x.heads[0].at, (size_t)((x.to - x.from) * x.each));
    for (int k = n; k-- > 0 && x.sliced;) RT_TRY(backward(&x, s, k, out, sums, st));
    return rt_staging_store(a, d->results[i], 0, total ? 1 : d->to, st);
}
