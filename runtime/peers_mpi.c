/* MPI as a transport. No header of MPI is read and no library linked: the library of the launcher that started this
   process is opened here, so that one executable runs alone, under Open MPI and under MPICH and what has its interface
   (Intel MPI, MVAPICH). They differ in what a handle is: the address of a symbol in Open MPI, an int in MPICH. Here a
   handle is a word that holds either: in the calling conventions of Linux an int is the low half of the word that
   passes it. After MPI_Init nothing blocks: messages are begun and asked for (MPI_Test), in pieces whose size an int
   holds. */
#include "runtime/clock.h"
#include "runtime/memory.h"
#include "runtime/peers_transport.h"
#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 29, BYTES = 1, NOTE = 2 /* tags */, FUNNELED = 1, YIELDS = 64, ERROR_TEXT = 1024 };
static const double NOTE_S = 1, LEAVE_S = 5; /* to tell of a failure; to let a lower rank speak */

typedef uintptr_t Handle;

typedef struct Calls {
    int (*init)(int *argc, char ***argv, int wanted, int *given);
    int (*rank)(Handle comm, int *rank);
    int (*size)(Handle comm, int *n);
    int (*errors)(Handle comm, Handle handler);
    int (*send)(const void *p, int n, Handle type, int to, int tag, Handle comm, void *request);
    int (*receive)(void *p, int n, Handle type, int from, int tag, Handle comm, void *request);
    int (*test)(void *request, int *done, void *status);
    int (*probe)(int from, int tag, Handle comm, int *there, void *status);
    int (*error_text)(int error, char *text, int *n);
    int (*abort)(Handle comm, int code);
    int (*finalize)(void);
} Calls;

static const struct {
    const char *name;
    size_t at; /* in Calls */
} call_names[] = {{"MPI_Init_thread", offsetof(Calls, init)},
                  {"MPI_Comm_rank", offsetof(Calls, rank)},
                  {"MPI_Comm_size", offsetof(Calls, size)},
                  {"MPI_Comm_set_errhandler", offsetof(Calls, errors)},
                  {"MPI_Isend", offsetof(Calls, send)},
                  {"MPI_Irecv", offsetof(Calls, receive)},
                  {"MPI_Test", offsetof(Calls, test)},
                  {"MPI_Iprobe", offsetof(Calls, probe)},
                  {"MPI_Error_string", offsetof(Calls, error_text)},
                  {"MPI_Abort", offsetof(Calls, abort)},
                  {"MPI_Finalize", offsetof(Calls, finalize)}};

typedef struct Request { /* a message that is underway; n 0: none is */
    uint64_t handle;     /* a pointer, or an int in its first half */
    int n;
} Request;

typedef struct Note { /* of a failure */
    int rank;
    RtStatus status;
} Note;

typedef struct Mpi {
    RtTransport base;
    Calls calls;
    Handle world, byte;
    int any_source;
    void *no_status;
    Request *sending, *receiving; /* [n] */
    Note told, coming, heard;     /* heard.status.code 0: nothing */
    bool lower;                   /* a process of lower rank told of a failure */
} Mpi;

/* ---- the library ---- */

static const struct {
    const char *size, *rank; /* variables of a launcher */
    const char *files[4];    /* libraries that it starts, the likeliest first */
} launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", {"libmpi.so.40", "libmpi.so"}},
                 {"PMI_SIZE", "PMI_RANK", {"libmpich.so.12", "libmpi.so.12", "libmpi.so"}},
                 {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", {"libmpi.so.12", "libmpich.so.12"}},
                 {NULL, "PMIX_RANK", {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi.so"}}};
enum { N_LAUNCHERS = sizeof launchers / sizeof *launchers };

/* The row of the launcher that started this process; -1: none did. */
static int launcher(void)
{
    for (int i = 0; i < N_LAUNCHERS; i++)
        if ((launchers[i].size && getenv(launchers[i].size)) || getenv(launchers[i].rank)) return i;
    return -1;
}

bool rt_peers_mpi_launched(void) { return launcher() >= 0; }

/* MPI_Init and MPI_Finalize wait for all processes, and for ever. At the deadline a timer ends this process, and so the
   launcher all others; rank 0 is the first to say why. */
static char late_text[600];

static void end_late(int signal)
{
    (void)signal;
    if (write(STDERR_FILENO, late_text, strlen(late_text)) >= 0) _exit(rt_code_exit(RT_E_PEER_LATE));
    _exit(rt_code_exit(RT_E_FILE_WRITE));
}

static void watch(double seconds, bool first, const char *what, const char *where, struct sigaction *before)
{
    RtStatus late = {0};
    struct sigaction action = {.sa_handler = end_late};
    double wait = seconds + (first ? 0 : 0.5);
    struct itimerval timer = {.it_value = {(time_t)wait, (suseconds_t)(fmod(wait, 1) * 1e6)}};
    (void)rt_fail(&late, RT_E_PEER_LATE, NULL, NULL, "not all processes %s the run within %g s, in %s", what, seconds,
                  where);
    rt_status_text(&late, late_text, sizeof late_text);
    sigaction(SIGALRM, &action, before);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void watch_end(const struct sigaction *before)
{
    struct itimerval none = {.it_value = {0}};
    setitimer(ITIMER_REAL, &none, NULL);
    sigaction(SIGALRM, before, NULL);
}

static int init_in_time(const Mpi *m, int row, int *given)
{
    struct sigaction before;
    const char *rank = row >= 0 ? getenv(launchers[row].rank) : NULL;
    watch(m->base.deadline_s, !rank || !strcmp(rank, "0"), "joined", "MPI_Init_thread", &before);
    int error = m->calls.init(NULL, NULL, FUNNELED, given);
    watch_end(&before);
    return error;
}

static void finalize_in_time(const Mpi *m)
{
    struct sigaction before;
    watch(m->base.deadline_s, m->base.rank == 0, "ended", "MPI_Finalize", &before);
    (void)m->calls.finalize();
    watch_end(&before);
}

static RtCode open_library(Mpi *m, int row, RtStatus *st)
{
    const char *own = getenv("GNNC_MPI"), *name = own;
    void *library = own ? dlopen(own, RTLD_NOW | RTLD_GLOBAL) : NULL; /* its plug-ins look for its symbols */
    for (int i = 0; i < 4 && !own && !library && launchers[row].files[i]; i++)
        library = dlopen(name = launchers[row].files[i], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return rt_fail(st, RT_E_PEERS_OPEN, "mpi",
                       "install the MPI library of the launcher, or name its file in GNNC_MPI", "%s cannot be opened",
                       own ? own : launchers[row].files[0]);
    for (size_t i = 0; i < sizeof call_names / sizeof *call_names; i++) { /* it stays open until the program ends */
        void *call = dlsym(library, call_names[i].name);
        if (!call) return rt_fail(st, RT_E_PEERS_OPEN, "mpi", NULL, "%s has no function %s", name, call_names[i].name);
        memcpy((char *)&m->calls + call_names[i].at, &call, sizeof call);
    }
    m->world = (Handle)dlsym(library, "ompi_mpi_comm_world");
    m->byte = (Handle)dlsym(library, "ompi_mpi_byte");
    Handle returned = (Handle)dlsym(library, "ompi_mpi_errors_return");
    m->any_source = -1;
    m->no_status = NULL;
    if (!m->world || !m->byte || !returned) { /* MPICH's mpi.h */
        m->world = 0x44000000;
        m->byte = 0x4c00010d;
        returned = 0x54000001;
        m->any_source = -2;
        m->no_status = (void *)(uintptr_t)1;
    }
    int given = 0, error = init_in_time(m, row, &given);
    if (error || given < FUNNELED)
        return rt_fail(st, RT_E_PEERS_OPEN, "mpi", NULL, "MPI_Init_thread of %s: error %d, level %d", name, error,
                       given);
    error = m->calls.errors(m->world, returned);
    if (!error) error = m->calls.rank(m->world, &m->base.rank);
    if (!error) error = m->calls.size(m->world, &m->base.n);
    if (error) return rt_fail(st, RT_E_PEERS_OPEN, "mpi", NULL, "%s does not start: error %d", name, error);
    const char *size = row >= 0 && launchers[row].size ? getenv(launchers[row].size) : NULL;
    if (size && atoi(size) != m->base.n)
        return rt_fail(st, RT_E_PEERS_OPEN, "mpi",
                       "start it with the launcher of that library, or name another in GNNC_MPI",
                       "the launcher started %s processes, and %s sees %d", size, name, m->base.n);
    if (m->base.n > RT_PEERS_MOST)
        return rt_fail(st, RT_E_PEERS_OPEN, "mpi", NULL, "%d processes are more than %d", m->base.n, RT_PEERS_MOST);
    return RT_OK;
}

/* ---- bytes ---- */

static RtCode mpi_error(const Mpi *m, int error, int peer, RtStatus *st)
{
    char text[ERROR_TEXT] = "unknown error";
    int n = 0;
    (void)m->calls.error_text(error, text, &n);
    return rt_fail(st, RT_E_PEER_LOST, NULL, NULL, "rank %d cannot reach rank %d: %.200s", m->base.rank, peer, text);
}

/* Goes on with what is underway in one direction with one peer. */
static RtCode advance(Mpi *m, int peer, bool out, bool *moved, RtStatus *st)
{
    RtMove *move = out ? &m->base.out[peer] : &m->base.in[peer];
    Request *r = out ? &m->sending[peer] : &m->receiving[peer];
    int error = 0, done = 0;
    assert(r->n >= 0 && r->n <= PIECE && r->n <= move->left);
    if (!move->left) return RT_OK;
    if (!r->n) {
        r->n = move->left < PIECE ? (int)move->left : PIECE;
        error = out ? m->calls.send(move->p, r->n, m->byte, peer, BYTES, m->world, &r->handle)
                    : m->calls.receive(move->p, r->n, m->byte, peer, BYTES, m->world, &r->handle);
    }
    if (!error) error = m->calls.test(&r->handle, &done, m->no_status);
    if (error) return mpi_error(m, error, peer, st);
    if (!done) return RT_OK;
    move->p += r->n;
    move->left -= r->n;
    r->n = 0;
    *moved = true;
    return RT_OK;
}

static RtCode mpi_progress(RtTransport *t, bool *moved, RtStatus *st)
{
    Mpi *m = (Mpi *)(void *)t;
    *moved = false;
    for (int i = 1; i < t->n; i++) {
        RT_TRY(advance(m, (t->rank + t->n - i) % t->n, false, moved, st));
        RT_TRY(advance(m, (t->rank + i) % t->n, true, moved, st));
    }
    return RT_OK;
}

static void mpi_rest(RtTransport *t, int64_t idle)
{
    (void)t;
    if (idle < YIELDS) sched_yield();
    else nanosleep(&(struct timespec){0, idle < 10 * YIELDS ? 20000 : 500000}, NULL);
}

/* ---- failures ---- */

/* Until a message is done, for a while. */
static bool finish(Mpi *m, uint64_t *handle, double end_ns)
{
    int done = 0;
    while (!m->calls.test(handle, &done, m->no_status) && !done && rt_now_ns() < end_ns) mpi_rest(&m->base, YIELDS);
    return done;
}

/* Takes the notes that have come. */
static void listen(Mpi *m)
{
    int there = 0;
    while (!m->calls.probe(m->any_source, NOTE, m->world, &there, m->no_status) && there) {
        uint64_t handle = 0;
        Note *note = &m->coming;
        if (m->calls.receive(note, sizeof *note, m->byte, m->any_source, NOTE, m->world, &handle)) return;
        if (!finish(m, &handle, rt_now_ns() + NOTE_S * 1e9) || !note->status.code) return;
        if (!m->heard.status.code) m->heard = *note;
        m->lower |= note->rank < m->base.rank;
    }
}

static RtCode mpi_lost(RtTransport *t, RtStatus *st)
{
    Mpi *m = (Mpi *)(void *)t;
    listen(m);
    return m->heard.status.code ? rt_peers_heard(m->heard.rank, &m->heard.status, st) : RT_OK;
}

static void mpi_fail(RtTransport *t, const RtStatus *st)
{
    Mpi *m = (Mpi *)(void *)t;
    uint64_t handles[RT_PEERS_MOST];
    double end_ns = rt_now_ns() + NOTE_S * 1e9;
    memset(&m->told, 0, sizeof m->told);
    m->told.rank = t->rank;
    m->told.status = *st;
    for (int q = 0; q < t->n; q++)
        if (q != t->rank && m->calls.send(&m->told, sizeof m->told, m->byte, q, NOTE, m->world, &handles[q])) return;
    for (int q = 0; q < t->n; q++)
        if (q != t->rank && !finish(m, &handles[q], end_ns)) return;
}

static int mpi_lower(RtTransport *t)
{
    Mpi *m = (Mpi *)(void *)t;
    listen(m);
    return m->lower;
}

static bool mpi_waits(const RtTransport *t, int peer) { return (void)t, (void)peer, false; } /* MPI does not say */
static void mpi_waiting(RtTransport *t, bool yes) { (void)t, (void)yes; }
static bool mpi_speak(RtTransport *t) { return (void)t, true; } /* those of higher rank are ended with this one */

static void mpi_free(Mpi *m)
{
    free(m->base.out);
    free(m->base.in);
    free(m->sending);
    free(m->receiving);
    free(m);
}

static void mpi_close(RtTransport *t, const RtStatus *st)
{
    Mpi *m = (Mpi *)(void *)t;
    double end_ns = rt_now_ns() + (t->deadline_s < LEAVE_S ? t->deadline_s : LEAVE_S) * 1e9;
    if (st) {
        while (m->lower && rt_now_ns() < end_ns) mpi_rest(t, INT64_MAX); /* it speaks, and ends all */
        (void)m->calls.abort(m->world, rt_code_exit(st->code));
    } else finalize_in_time(m);
    mpi_free(m);
}

static const RtTransportCalls mpi_calls = {"mpi",       mpi_progress, mpi_rest,  mpi_lost,  mpi_waits,
                                           mpi_waiting, mpi_fail,     mpi_lower, mpi_speak, mpi_close};

RtCode rt_peers_mpi_open(double deadline_s, RtTransport **t, RtStatus *st)
{
    static const char what[] = "messages between processes";
    int row = launcher();
    Mpi *m = NULL;
    *t = NULL;
    if (row < 0)
        return rt_fail(st, RT_E_PEERS_OPEN, "mpi", "start the run with mpirun, or with --ranks N on one machine",
                       "no MPI launcher started this process");
    RT_TRY(rt_alloc(&m, 1, sizeof *m, what, st));
    m->base = (RtTransport){.calls = &mpi_calls, .deadline_s = deadline_s};
    RtCode code = open_library(m, row, st);
    int n = m->base.n;
    if (!code) code = rt_alloc(&m->base.out, n, sizeof *m->base.out, what, st);
    if (!code) code = rt_alloc(&m->base.in, n, sizeof *m->base.in, what, st);
    if (!code) code = rt_alloc(&m->sending, n, sizeof *m->sending, what, st);
    if (!code) code = rt_alloc(&m->receiving, n, sizeof *m->receiving, what, st);
    if (!code) *t = &m->base;
    else mpi_free(m);
    return code;
}
