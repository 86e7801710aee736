/* The processes that compute one run together, and what they send to one another. Every process calls the same
   functions in the same order. Each wait has a deadline; a process that is lost, that does not answer or that is at
   another place of the program is named in the status of all others. After a failure nothing more is sent: the process
   calls rt_peers_fail, prints its status if rt_peers_speaks, and closes. One thread at a time calls these functions. */
#pragma once
#include "runtime/memory.h"
#include "runtime/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct RtPeers RtPeers; /* this process and those that it computes with */

enum { RT_PEERS_MOST = 1024, RT_PEERS_SITES = 65536, RT_PEERS_SAME = 64 };

typedef struct RtPeersOptions {
    const char *transport; /* "auto", "mpi", "shm", or NULL: auto */
    double deadline_s;     /* of every wait without anything that moves; 0: 60 */
    const char *ledger;    /* a file that rank 0 writes at the end, or NULL; the same for all processes */
} RtPeersOptions;

/* auto: mpi where an MPI launcher started this process (OMPI_COMM_WORLD_SIZE, PMI_SIZE, PMI_RANK or PMIX_RANK in its
   environment), shm where rt_peers_spawn did (GNNC_RANK), else one process: *p has n = 1 and needs no library. *p is
   NULL on failure. PEERS_OPEN: no library, or the others do not come. */
RtCode rt_peers_open(const RtPeersOptions *o, RtPeers **p, RtStatus *st);
int rt_peers_rank(const RtPeers *p);
int rt_peers_count(const RtPeers *p);

/* Rows of an array to each peer, or from each: n[q] of peer q, behind those of the peers before it. */
typedef struct RtPeersRows {
    char *array;
    const int64_t *rows; /* which rows; NULL, of what comes: 0, 1, ..., those of the process itself left out */
    const int64_t *n;    /* [n] */
} RtPeersRows;

/* Starts n - 1 further processes of this program with the same arguments as ranks of a shm run, before rt_peers_open;
   this process is rank 0. Does nothing in a process that is a rank already. PEERS_OPEN: the machine starts no more. */
RtCode rt_peers_spawn(int n, char **argv, RtStatus *st);

/* Sends out_bytes[q] bytes to each peer q, from out at the running sum, and receives in_bytes[q] from each, into `in`
   at the running sum. Both arrays are [n]; the bytes of the process itself are copied. site is below RT_PEERS_SITES.
   PEERS_DIFFER: another process is at another site, or sends another number of bytes than is received;
   PEER_MESSAGE: what arrives is not what was sent. */
RtCode rt_peers_exchange(RtPeers *p, int site, const void *out, const int64_t *out_bytes, void *in,
                         const int64_t *in_bytes, RtStatus *st);
/* in[] gets what every process gives, by rank: bytes[q] of each (known to all). out may be NULL if this process's own
   part lies in `in` already. */
RtCode rt_peers_gather(RtPeers *p, int site, const void *out, const int64_t *bytes, void *in, RtStatus *st);
/* The same inside of groups, by all processes at once: among[n] are those of this process's group, itself with them.
   bytes[q] is 0 for others. */
RtCode rt_peers_gather_among(RtPeers *p, int site, const bool *among, const void *out, const int64_t *bytes, void *in,
                             RtStatus *st);
/* The same calls in two halves, between which this process computes: *flight is the number of a call that was begun,
   until rt_peers_finish. Any number of calls may be in flight, and finished in any order; calls that are not halved may
   be made meanwhile. Memory to and from which is sent belongs to the call until it is finished; the sizes do not.
   Nothing moves while no function of this module runs: who computes calls rt_peers_progress now and then, which never
   waits. What goes wrong there is what the next call returns. After a failure, calls in flight are not finished. */
RtCode rt_peers_exchange_begin(RtPeers *p, int site, const void *out, const int64_t *out_bytes, void *in,
                               const int64_t *in_bytes, int *flight, RtStatus *st);
RtCode rt_peers_gather_begin(RtPeers *p, int site, const void *out, const int64_t *bytes, void *in, int *flight,
                             RtStatus *st);
/* As rt_peers_exchange_begin, of rows of row_bytes bytes that lie anywhere in two arrays: while they travel they are
   taken from where they lie, and put where they go, by way of little memory (rt_peers_stage_bytes of a message for each
   peer and direction). What the process has for itself stays where it is. */
RtCode rt_peers_rows_begin(RtPeers *p, int site, int64_t row_bytes, const RtPeersRows *out, const RtPeersRows *in,
                           int *flight, RtStatus *st);
int64_t rt_peers_stage_bytes(int64_t message_bytes);
RtCode rt_peers_finish(RtPeers *p, int flight, RtStatus *st);
void rt_peers_progress(RtPeers *p);
/* Whether rt_peers_finish would not wait. */
bool rt_peers_arrived(const RtPeers *p, int flight);
/* For who waits for something else, as a device is: moves what can be moved, and never waits. PEER_LOST once a peer is
   known to have failed. */
RtCode rt_peers_look(RtPeers *p, RtStatus *st);
double rt_peers_deadline(const RtPeers *p); /* seconds */
/* Takes memory of calls that will not be finished, to which something may still move until the processes are closed. */
void rt_peers_keep(RtPeers *p, RtBlock *b);

/* PEERS_DIFFER on every process, naming a rank that differs and `what` ("the seed"), unless all give the same n bytes,
   at most RT_PEERS_SAME. */
RtCode rt_peers_same(RtPeers *p, const char *what, const void *bytes, int64_t n, RtStatus *st);
/* For errors that only some processes met (`mine`, described by st): all return the worst code of any, with the status
   of the process that has it, which is named. The worst is INTERNAL, then the largest exit code, INTERRUPTED least. */
RtCode rt_peers_agree(RtPeers *p, RtCode mine, RtStatus *st);

/* This process failed and will leave: peers that wait get PEER_LOST with its rank at once, not at their deadline. A
   failure that this module reported is passed on as it is. Waits up to 5 s for a process of lower rank to learn of it,
   so that rt_peers_speaks is true in one process alone. */
void rt_peers_fail(RtPeers *p, const RtStatus *st);
/* Whether it is this process that prints: rank 0, or after a failure the lowest rank that is left. NULL (they
   did not come together): rank 0, as the environment says, or a process that is no rank. */
bool rt_peers_speaks(const RtPeers *p);
/* Orderly end: all call it; the ledger is written if it was not. After a failure it ends the others: under MPI by
   MPI_Abort with the exit code of the failure, which does not return. The process that started the others waits for
   them. */
void rt_peers_close(RtPeers *p);

/* Of one site since the processes were opened: bytes to and from other processes (headers not counted), and calls. */
typedef struct RtPeersSite {
    int64_t bytes_out, bytes_in, rounds;
    double wait_s;   /* this process had nothing to do but wait for them, and nothing moved */
    double behind_s; /* of these, those in which a peer had not begun the call: what is left waits for bytes */
    double hidden_s; /* it computed while they were the earliest call in flight */
} RtPeersSite;
const RtPeersSite *rt_peers_site(const RtPeers *p, int site);
/* What the ledger calls the site, cut to 63 bytes. */
RtCode rt_peers_name_site(RtPeers *p, int site, const char *name, RtStatus *st);
/* Adds to what the site of this process is expected to send and how often it is called, which the ledger shows. */
RtCode rt_peers_predict(RtPeers *p, int site, int64_t bytes_out, int64_t rounds, RtStatus *st);
/* A round of the site whose bytes went from process to process otherwise than by this module. */
RtCode rt_peers_count_round(RtPeers *p, int site, int64_t bytes_out, int64_t bytes_in, RtStatus *st);
/* Gathers what every process knows of every site, and rank 0 writes options.ledger, as JSON. All call it together.
   Does nothing without options.ledger. */
RtCode rt_peers_write_ledger(RtPeers *p, RtStatus *st);
