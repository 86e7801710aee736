/* All ranks of a run in one process, for `plan --transport sim`: each is a thread, and one of them computes at a time,
   in the order of ranks, so that two runs do the same. What ranks send one another is copied from memory to memory. */
#pragma once
#include "runtime/peers.h"

/* What a rank does. It closes no peers. */
typedef RtCode RtSimRank(void *user, RtPeers *peers, RtStatus *st);

/* Runs `rank` as each of n ranks, and returns when all have ended. The status is that of the rank that failed first.
   PEERS_OPEN: this machine starts not so many threads. */
RtCode rt_peers_sim_run(int n, RtSimRank *rank, void *user, RtStatus *st);
