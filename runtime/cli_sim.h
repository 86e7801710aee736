/* `plan --transport sim` (cli_sim.c): what its two files share. Private to them. */
#pragma once
#include "runtime/cli.h"
#include "runtime/sim.h"

/* How long steps take that were run here by one thread, and by their cost formulas how much they did. */
typedef struct RtStepTimes {
    double copy_s;  /* to copy a byte of rows in no order */
    int64_t *first; /* [n_programs + 1] of the steps of each program */
    double *s, *work;
    RtBlock block;
} RtStepTimes;
/* Reads --times, or measures: part 0 of the data as a data set of its own, each step's quickest of some runs; and writes
   --times where there was no such file. SIM_TIMES: the file is of another program. */
RtCode rt_cli_sim_times(const RtCli *c, RtStepTimes *t, bool *measured);
