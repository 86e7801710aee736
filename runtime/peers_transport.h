/* What carries bytes between processes (peers_shm.c, peers_mpi.c), beneath the headers, checks and deadlines of
   peers.c. A transport never waits but in `rest`, for 50 ms at most, and in `close`. */
#pragma once
#include "runtime/peers.h"

/* Bytes that are underway to or from one peer. Whoever wants more to be moved sets both where left is 0; the transport
   advances both. */
typedef struct RtMove {
    char *p;
    int64_t left;
} RtMove;

typedef struct RtTransport RtTransport;
typedef struct RtTransportCalls {
    const char *name; /* "shm" */
    /* Moves what can be moved now, in order for each peer; *moved: whether any byte was. */
    RtCode (*progress)(RtTransport *t, bool *moved, RtStatus *st);
    /* After progress that moved nothing, for the idle-th time in a row: until something may move. */
    void (*rest)(RtTransport *t, int64_t idle);
    /* PEER_LOST, or the status that the peer gave, if any peer failed or was lost. */
    RtCode (*lost)(RtTransport *t, RtStatus *st);
    /* Whether the peer is known to wait in this module as well: the one that all wait for is another. */
    bool (*waits)(const RtTransport *t, int peer);
    void (*waiting)(RtTransport *t, bool yes); /* what this process tells of itself, or NULL */
    /* Tells all peers of a failure. */
    void (*fail)(RtTransport *t, const RtStatus *st);
    /* Whether a process of lower rank knows of a failure, so that this one need not speak: 1; 0: not yet; -1: none
       will. */
    int (*lower)(RtTransport *t);
    bool (*speak)(RtTransport *t); /* true for one process alone */
    /* st: of the failure; NULL after an orderly end. Frees the transport. */
    void (*close)(RtTransport *t, const RtStatus *st);
} RtTransportCalls;

struct RtTransport {
    const RtTransportCalls *calls;
    int rank, n;
    RtMove *out, *in; /* [n] */
    double deadline_s;
};

/* *t is NULL on failure. */
RtCode rt_peers_shm_open(double deadline_s, RtTransport **t, RtStatus *st);
RtCode rt_peers_mpi_open(double deadline_s, RtTransport **t, RtStatus *st);
bool rt_peers_mpi_launched(void); /* by an MPI launcher */

/* *st = the status of another rank, whose message names it. */
void rt_peers_of_rank(int rank, const RtStatus *theirs, RtStatus *st);
/* What this process says of a failure that another told: PEER_LOST with its rank, or what it says itself where it names
   a process that failed before. */
RtCode rt_peers_heard(int rank, const RtStatus *theirs, RtStatus *st);

/* Peers over a transport, which they own from then on, also on failure. */
RtCode rt_peers_over(RtTransport *t, const RtPeersOptions *o, RtPeers **p, RtStatus *st);
