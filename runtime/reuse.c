/* Reuse of rows (see reuse.h). Tracked are all rows, or of long traces the rows of every so many-th block of 8; an odd
   number, so that tables whose width is a power of two are met everywhere. */
#include "runtime/reuse.h"
#include "runtime/memory.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT = 16, PER_OCTAVE = 8, TRACKED = 4 << 20, BEHIND = 64, NEIGHBOURS = 4, BLOCK = 8 };

static int bucket_of(int64_t gap)
{
    assert(gap > 0); /* a row is never read twice at once */
    if (gap < EXACT) return (int)gap;
    int octave = 63 - __builtin_clzll((unsigned long long)gap);
    int b = EXACT + (octave - 4) * PER_OCTAVE + (int)((gap >> (octave - 3)) & (PER_OCTAVE - 1));
    return b < RT_REUSE_BUCKETS ? b : RT_REUSE_BUCKETS - 1;
}

static void add_gap(RtGaps *g, int64_t gap)
{
    int b = bucket_of(gap);
    g->n[b]++;
    g->length[b] += (double)gap;
}

/* Where a tracked row is noted, or -1. */
static int64_t slot_of(int64_t row, int64_t one_in)
{
    int64_t block = row / BLOCK;
    return block % one_in ? -1 : block / one_in * BLOCK + row % BLOCK;
}

/* Whether one of the rows just below was read just now; last counts from 1, 0 is never. */
static bool comes_in_line(const uint32_t *last, int64_t row, int64_t now)
{
    for (int64_t k = 1; k <= NEIGHBOURS && k <= row; k++)
        if (last[row - k] && now - last[row - k] <= BEHIND) return true;
    return false;
}

static void track(RtReuse *r, uint32_t *last, int64_t row, int64_t now)
{
    bool in_line = comes_in_line(last, row, now);
    r->tracked++;
    if (last[row]) {
        add_gap(&r->again, now - last[row]);
        if (in_line) r->in_line[bucket_of(now - last[row])]++;
    } else {
        add_gap(&r->ends, now);
        r->rows++;
        r->rows_in_line += in_line;
    }
    last[row] = (uint32_t)now;
}

RtCode rt_reuse_measure(const RtTrace *t, RtReuse *r, RtStatus *st)
{
    int64_t one_in = (t->n > t->n_rows ? t->n : t->n_rows) / TRACKED | 1, now = 0, n_tracked = 0;
    int64_t n_slots = (t->n_rows / BLOCK / one_in + 1) * BLOCK;
    memset(r, 0, sizeof *r);
    uint32_t *last;
    RT_TRY(rt_alloc(&last, n_slots, sizeof *last, "reuse of rows", st));
    for (int64_t i = 0; i < t->n; i++) {
        int32_t row = !t->list ? t->to[i] : t->to ? t->to[t->list[i]] : t->list[i];
        if (row < 0) continue;
        assert(row < t->n_rows);
        now++;
        int64_t slot = slot_of(row, one_in);
        assert(slot < n_slots);
        if (slot >= 0) track(r, last, slot, now);
    }
    for (int64_t row = 0; row < t->n_rows; row++) n_tracked += slot_of(row, one_in) >= 0;
    for (int64_t slot = 0; slot < n_slots; slot++)
        if (last[slot]) add_gap(&r->ends, now + 1 - last[slot]);
    free(last);
    r->reads = (double)now;
    r->scale = n_tracked ? (double)t->n_rows / (double)n_tracked : 1;
    return RT_OK;
}

static double longer(const RtGaps *g, double window)
{
    double sum = 0;
    for (int b = 0; b < RT_REUSE_BUCKETS; b++)
        if (g->length[b] > g->n[b] * window) sum += g->length[b] - g->n[b] * window;
    return sum;
}

/* Mean number of distinct rows in a window of so many reads. */
static double footprint(const RtReuse *r, double window)
{
    return r->scale * (r->rows - (longer(&r->again, window) + longer(&r->ends, window)) / (r->reads - window + 1));
}

static double window_of(const RtReuse *r, double rows)
{
    double lo = 0, hi = r->reads;
    for (int i = 0; i < 40; i++) {
        double mid = (lo + hi) / 2;
        if (footprint(r, mid) < rows) lo = mid;
        else hi = mid;
    }
    return lo;
}

double rt_reuse_misses(const RtReuse *r, double rows, double *in_line)
{
    double n = r->rows, near = r->rows_in_line;
    if (r->tracked == 0) {
        *in_line = 0;
        return 0;
    }
    if (rows < r->rows * r->scale) {
        double window = window_of(r, rows);
        for (int b = 0; b < RT_REUSE_BUCKETS; b++) {
            if (r->again.length[b] <= r->again.n[b] * window) continue;
            n += r->again.n[b];
            near += r->in_line[b];
        }
    }
    *in_line = near * r->reads / r->tracked;
    return n * r->reads / r->tracked;
}
