/* Types and functions that the files of `plan --transport sim` share: cli_sim.c, cli_sim_times.c, cli_sim_policy.c. */
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
/* Reads --times, or measures: part 0 of the data as a data set of its own, each step's quickest of some runs; and
   writes --times where there was no such file. SIM_TIMES: the file is of another program. */
RtCode rt_cli_sim_times(const RtCli *c, RtStepTimes *t, bool *measured);

typedef struct RtSimSeat { /* what a rank shows the others while its program is planned */
    const RtExec *e;
    const RtRanks *ranks; /* NULL: there is one rank */
    RtTravel *travels;    /* [n_travels] as rt_across_travels lists them */
} RtSimSeat;

typedef struct RtSimListed { /* what a replay's travel stands for */
    int64_t travel;          /* of those of a seat; -1: */
    int64_t exchange, round; /* a round of what a policy sends in place of an exchange (RtPolicyFacts) */
} RtSimListed;

typedef struct RtCliSim {
    const RtCli *c;
    RtStatus *st; /* of rank 0, which tells */
    int n;
    bool json;
    RtSimTopology topology;
    RtStepTimes times;
    bool measured;
    RtSimSeat *seats; /* [n] */
    /* of the program at hand: */
    int64_t program, n_travels;
    RtSimListed *listed; /* by the travels of a replay */
} RtCliSim;

/* Plans a program on a rank, as this rank's seat says from then on. The caller frees *e and the seat's travels. */
RtCode rt_cli_sim_show(RtCliSim *s, const RtSession *session, int64_t program, RtExec **e, RtStatus *st);
/* The replay of the program that the seats show, without travels. Steps may be those of several runs. */
RtSimProgram rt_cli_sim_program(const RtCliSim *s, const RtSimTravel *travels);
/* Between which steps a travel of rank 0 is on its way, in blocking order and with overlap. */
RtSimTravel rt_cli_sim_travel(const RtExec *e, const RtTravel *t);

/* Whether policies are asked for: one, or `auto`. */
bool rt_cli_sim_has_policies(const RtCli *c);
/* What a run of the training step takes under each of them, which rank 0 prints. Called by all ranks. */
RtCode rt_cli_sim_policies(RtCliSim *s, const RtSession *session, RtPeers *peers, RtStatus *st);
