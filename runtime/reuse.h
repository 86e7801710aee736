/* How soon rows are read again, measured once on the order in which a walk reads them, and what follows: how often a
   cache of R rows misses. The average number of distinct rows in a window of w reads is the footprint (Xiang, Ding,
   Luo, Bao, HOTL, 2013): rows less the sum over all gaps g between reads of a row, and to both ends, of max(g - w, 0) /
   (n - w + 1). The window whose footprint is R is what a cache of R rows remembers; reads that come later than that
   miss, and first reads. */
#pragma once
#include "runtime/status.h"
#include <stdint.h>

enum { RT_REUSE_BUCKETS = 16 + 8 * 40 };

typedef struct RtTrace { /* n reads: of row to[list[i]]; to[i] without list, list[i] without to; below 0: none */
    const int32_t *to, *list;
    int64_t n, n_rows;
} RtTrace;

typedef struct RtGaps {                                   /* of rows that are tracked, by length */
    double n[RT_REUSE_BUCKETS], length[RT_REUSE_BUCKETS]; /* length: of all in the bucket together */
} RtGaps;

typedef struct RtReuse {
    double reads;              /* of all rows */
    double tracked, scale;     /* reads that are tracked; rows per tracked row */
    double rows, rows_in_line; /* tracked rows that are read; whose first read comes right behind a neighbour's */
    RtGaps again, ends;        /* between reads; before the first and behind the last */
    double in_line[RT_REUSE_BUCKETS]; /* of `again`, reads right behind a neighbour's */
} RtReuse;

/* O(n), with a number per tracked row of memory, 16 MB at most; of long traces a sample of the rows is tracked. */
RtCode rt_reuse_measure(const RtTrace *t, RtReuse *r, RtStatus *st);
/* Reads that miss a cache of `rows` rows. *in_line: those of them that come right behind a read of one of the four rows
   below, which the hardware foresees. */
double rt_reuse_misses(const RtReuse *r, double rows, double *in_line);
