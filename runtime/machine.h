/* What this machine can do, as `gnnc machine` shows it and `plan` predicts times from it: sizes of the caches,
   bandwidth of copies and of gathered rows per level, latency, arithmetic. Measured once per machine by a probe of
   about a second, kept in a file of the user's cache folder. Compilation never reads it: builds do not depend on where
   they run. */
#pragma once
#include "runtime/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { RT_L1, RT_L2, RT_L3, RT_MEMORY, RT_N_LEVELS };
enum { RT_ROW_64, RT_ROW_256, RT_N_ROWS }; /* bytes of a gathered row that are probed */

typedef struct RtMachine {
    char cpu[96];
    int variant; /* what the probe's loops may use: rt_cpu_allowed */
    bool probed; /* else the built-in figures */
    int64_t threads;
    double bytes[RT_N_LEVELS]; /* L1, L2: of one core; L3: of all; memory: 0 */
    /* what of it a table can fill: less by streams and conflicts; of L3 measured, as others use it too */
    double usable[RT_N_LEVELS];
    double latency[RT_N_LEVELS]; /* ns of a load that needs the one before it */
    double copy[RT_N_LEVELS];    /* bytes read and written per ns, all threads together */
    /* bytes of random rows read per ns, all threads together, from a table that just fits the level, asked for as far
       ahead as is best */
    double gather[RT_N_ROWS][RT_N_LEVELS];
    double flops; /* f32 operations per ns in fused multiply-adds, all threads together */
} RtMachine;

/* The built-in figures, for a machine that was never probed. */
void rt_machine_default(int threads, RtMachine *m);
/* Measures: about a second on all `threads`. MEMORY if its tables do not fit. */
RtCode rt_machine_probe(int threads, RtMachine *m, RtStatus *st);
/* The figures in the cache file of this CPU and number of threads; false, and *m as by default, without one. */
bool rt_machine_load(int threads, RtMachine *m);
/* Writes the cache file (beside its target, renamed). *path: where, to be freed by the caller; IO errors. */
RtCode rt_machine_save(const RtMachine *m, char **path, RtStatus *st);
/* Text, or a JSON object. */
void rt_machine_print(const RtMachine *m, bool json, FILE *out);
