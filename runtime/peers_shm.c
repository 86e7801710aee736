/* Processes of one machine, by memory that they share: for each ordered pair a ring of bytes, and for each process a
   slot that says how it is. The memory has no name in any folder (memfd), so nothing is left of it however the
   processes end; it is inherited as a file. Each process holds a lock on the byte of that file that has its rank as its
   offset: the kernel gives it back at the moment when the process ends, also by SIGKILL and before its parent has asked
   for it. */
#include "runtime/clock.h"
#include "runtime/memory.h"
#include "runtime/peers_transport.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A ring fits a second cache; bytes are told to the peer in pieces, so that both copy at once. */
enum { RING = 256 << 10, PIECE = 32 << 10, MOST = 256, YIELDS = 16 };
static const uint64_t MAGIC = 0x676e6e6370656572;
static const double LOOK_NS = 1e8, LEAVE_S = 5; /* how often locks are looked at; a failed run's processes end */

enum { STARTING, RUNNING, ENDED, FAILED };

typedef struct Slot {                  /* of one process, which alone writes all but the bell */
    alignas(64) _Atomic uint32_t bell; /* rung when bytes came or went, or when a process failed */
    _Atomic int sleeping, waits, state, pid;
    RtStatus status; /* of FAILED */
} Slot;

typedef struct Ring { /* bytes `read` to `written` wait, at their numbers modulo RING */
    alignas(64) _Atomic uint64_t written;
    alignas(64) _Atomic uint64_t read;
    alignas(64) char bytes[RING];
} Ring;

typedef struct Shared {
    uint64_t magic;
    int n, parent;
    _Atomic int spoken;
    Slot slots[]; /* [n], then rings [from][to] */
} Shared;

typedef struct Shm {
    RtTransport base;
    Shared *all;
    size_t bytes;
    int fd;
    uint32_t heard; /* the own bell before the last progress */
    double looked;  /* when locks were looked at */
} Shm;

static size_t slots_bytes(int n) { return sizeof(Shared) + (size_t)n * sizeof(Slot); }
static size_t shared_bytes(int n) { return slots_bytes(n) + (size_t)n * (size_t)n * sizeof(Ring); }

static Ring *ring(const Shm *s, int from, int to)
{
    Ring *rings = (Ring *)(void *)((char *)s->all + slots_bytes(s->base.n));
    return &rings[from * s->base.n + to];
}

/* ---- bells ---- */

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, (void *)word, op, value, limit, NULL, 0);
}

static void bell_ring(Slot *of)
{
    atomic_fetch_add(&of->bell, 1);
    if (atomic_load(&of->sleeping)) futex(&of->bell, FUTEX_WAKE, 1, NULL);
}

static void ring_all(Shm *s)
{
    for (int q = 0; q < s->base.n; q++)
        if (q != s->base.rank) bell_ring(&s->all->slots[q]);
}

static void shm_rest(RtTransport *t, int64_t idle)
{
    Shm *s = (Shm *)(void *)t;
    Slot *own = &s->all->slots[t->rank];
    if (idle < YIELDS) {
        sched_yield();
        return;
    }
    atomic_store(&own->sleeping, 1); /* before the kernel compares the bell, and after it was heard */
    futex(&own->bell, FUTEX_WAIT, s->heard, &(struct timespec){0, 50000000});
    atomic_store(&own->sleeping, 0);
}

/* ---- bytes ---- */

static RtCode torn(int from, int to, RtStatus *st)
{
    return rt_fail(st, RT_E_PEER_MESSAGE, NULL, NULL, "the memory that rank %d and rank %d share is damaged", from, to);
}

static RtCode put(Shm *s, int to, bool *moved, RtStatus *st)
{
    RtMove *m = &s->base.out[to];
    Ring *r = ring(s, s->base.rank, to);
    while (m->left > 0) {
        uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
        uint64_t waiting = written - atomic_load_explicit(&r->read, memory_order_acquire), at = written % RING;
        if (waiting > RING) return torn(s->base.rank, to, st);
        uint64_t n = RING - waiting;
        if (n > RING - at) n = RING - at;
        if (n > PIECE) n = PIECE;
        if (n > (uint64_t)m->left) n = (uint64_t)m->left;
        if (!n) break;
        memcpy(r->bytes + at, m->p, n);
        atomic_store_explicit(&r->written, written + n, memory_order_release);
        bell_ring(&s->all->slots[to]);
        m->p += n;
        m->left -= (int64_t)n;
        *moved = true;
    }
    return RT_OK;
}

static RtCode take(Shm *s, int from, bool *moved, RtStatus *st)
{
    RtMove *m = &s->base.in[from];
    Ring *r = ring(s, from, s->base.rank);
    while (m->left > 0) {
        uint64_t read = atomic_load_explicit(&r->read, memory_order_relaxed);
        uint64_t n = atomic_load_explicit(&r->written, memory_order_acquire) - read, at = read % RING;
        if (n > RING) return torn(from, s->base.rank, st);
        if (n > RING - at) n = RING - at;
        if (n > PIECE) n = PIECE;
        if (n > (uint64_t)m->left) n = (uint64_t)m->left;
        if (!n) break;
        memcpy(m->p, r->bytes + at, n);
        atomic_store_explicit(&r->read, read + n, memory_order_release);
        bell_ring(&s->all->slots[from]);
        m->p += n;
        m->left -= (int64_t)n;
        *moved = true;
    }
    return RT_OK;
}

static RtCode shm_progress(RtTransport *t, bool *moved, RtStatus *st)
{
    Shm *s = (Shm *)(void *)t;
    *moved = false;
    s->heard = atomic_load(&s->all->slots[t->rank].bell);
    for (int i = 1; i < t->n; i++) {
        RT_TRY(put(s, (t->rank + i) % t->n, moved, st));
        RT_TRY(take(s, (t->rank + t->n - i) % t->n, moved, st));
    }
    return RT_OK;
}

/* ---- who is there ---- */

static bool lock_held(const Shm *s, int rank)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(s->fd, F_GETLK, &l) || l.l_type != F_UNLCK;
}

static int state_of(const Shm *s, int rank) { return atomic_load(&s->all->slots[rank].state); }

/* How a child ended, where this process is its parent: " (signal 9)", else "". */
static const char *how_it_ended(const Shm *s, int rank, char *text, size_t size)
{
    siginfo_t info = {0};
    text[0] = 0;
    pid_t pid = atomic_load(&s->all->slots[rank].pid);
    if (s->all->parent != getpid() || rank == s->base.rank || pid <= 0) return text;
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != pid) return text;
    snprintf(text, size, info.si_code == CLD_EXITED ? " (exit code %d)" : " (signal %d)", info.si_status);
    return text;
}

static RtCode shm_lost(RtTransport *t, RtStatus *st)
{
    Shm *s = (Shm *)(void *)t;
    char how[40];
    for (int q = 0; q < t->n; q++)
        if (q != t->rank && state_of(s, q) == FAILED) return rt_peers_heard(q, &s->all->slots[q].status, st);
    double now = rt_now_ns();
    if (now - s->looked < LOOK_NS) return RT_OK;
    s->looked = now;
    for (int q = 0; q < t->n; q++)
        if (q != t->rank && state_of(s, q) == RUNNING && !lock_held(s, q) && state_of(s, q) == RUNNING)
            return rt_fail(st, RT_E_PEER_LOST, NULL, NULL, "rank %d, process %d, ended without a word%s", q,
                           atomic_load(&s->all->slots[q].pid), how_it_ended(s, q, how, sizeof how));
    return RT_OK;
}

static bool shm_waits(const RtTransport *t, int peer)
{
    return atomic_load(&((const Shm *)(const void *)t)->all->slots[peer].waits);
}

static void shm_waiting(RtTransport *t, bool yes) { atomic_store(&((Shm *)(void *)t)->all->slots[t->rank].waits, yes); }

/* ---- the end ---- */

static void shm_fail(RtTransport *t, const RtStatus *st)
{
    Shm *s = (Shm *)(void *)t;
    Slot *own = &s->all->slots[t->rank];
    own->status = *st;
    atomic_store(&own->state, FAILED);
    ring_all(s);
}

static int shm_lower(RtTransport *t)
{
    Shm *s = (Shm *)(void *)t;
    int none = -1;
    s->heard = atomic_load(&s->all->slots[t->rank].bell);
    for (int q = 0; q < t->rank; q++) {
        int state = state_of(s, q);
        if (state == FAILED) return 1;
        if (state == STARTING || (state == RUNNING && lock_held(s, q))) none = 0;
    }
    return none;
}

static bool shm_speak(RtTransport *t) { return !atomic_exchange(&((Shm *)(void *)t)->all->spoken, 1); }

/* Waits for the processes that this one started, and ends those that do not end. */
static void reap(Shared *all, double limit_s)
{
    double begin = rt_now_ns();
    for (int q = 1; q < all->n; q++) {
        pid_t pid = atomic_load(&all->slots[q].pid);
        while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
            if (rt_now_ns() - begin > limit_s * 1e9) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                break;
            }
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
}

static void shm_free(Shm *s)
{
    if (s->all) munmap(s->all, s->bytes);
    if (s->fd >= 0) close(s->fd);
    free(s->base.out);
    free(s->base.in);
    free(s);
}

static void shm_close(RtTransport *t, const RtStatus *st)
{
    Shm *s = (Shm *)(void *)t;
    if (!st) atomic_store(&s->all->slots[t->rank].state, ENDED);
    ring_all(s);
    if (s->all->parent == getpid()) reap(s->all, st && t->deadline_s > LEAVE_S ? LEAVE_S : t->deadline_s);
    shm_free(s);
}

/* ---- the beginning ---- */

static const RtTransportCalls shm_calls = {"shm",       shm_progress, shm_rest,  shm_lost,  shm_waits,
                                           shm_waiting, shm_fail,     shm_lower, shm_speak, shm_close};

/* A number of the environment that rt_peers_spawn set; -1: there is none. */
static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    long v = text && text[0] ? strtol(text, &end, 10) : -1;
    return end && !*end && v >= 0 && v <= INT32_MAX ? (int)v : -1;
}

static RtCode no_run(RtStatus *st, const char *why)
{
    return rt_fail(st, RT_E_PEERS_OPEN, "shm", "start the run with --ranks N", "%s", why);
}

static RtCode map_shared(Shm *s, int rank, int n, RtStatus *st)
{
    struct stat info;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    s->bytes = shared_bytes(n);
    if (fstat(s->fd, &info) || info.st_size != (off_t)s->bytes || fcntl(s->fd, F_SETFD, FD_CLOEXEC))
        return no_run(st, "GNNC_PEERS_AT is no memory of such a run");
    void *at = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (at == MAP_FAILED) return rt_fail_memory(st, s->bytes, "messages between processes");
    s->all = at;
    if (s->all->magic != MAGIC || s->all->n != n) return no_run(st, "GNNC_PEERS_AT is no memory of such a run");
    if (fcntl(s->fd, F_SETLK, &lock)) return no_run(st, "another process has this rank");
    return RT_OK;
}

/* Until all have come. */
static RtCode join(Shm *s, RtStatus *st)
{
    Slot *own = &s->all->slots[s->base.rank];
    char how[40];
    double begin = rt_now_ns();
    atomic_store(&own->pid, (int)getpid());
    atomic_store(&own->state, RUNNING);
    ring_all(s);
    for (;;) {
        s->heard = atomic_load(&own->bell);
        int missing = -1;
        for (int q = 0; q < s->base.n; q++)
            if (state_of(s, q) == STARTING) missing = q;
        if (missing < 0) return RT_OK;
        RT_TRY(shm_lost(&s->base, st));
        for (int q = 1; q < s->base.n; q++)
            if (state_of(s, q) == STARTING && how_it_ended(s, q, how, sizeof how)[0])
                return rt_fail(st, RT_E_PEER_LOST, NULL, NULL, "rank %d ended before it joined the run%s", q, how);
        if (s->all->parent != getpid() && s->all->parent != getppid())
            return rt_fail(st, RT_E_PEER_LOST, NULL, NULL, "rank 0 ended before all had joined the run");
        if (rt_now_ns() - begin > s->base.deadline_s * 1e9)
            return rt_fail(st, RT_E_PEER_LATE, NULL, NULL, "rank %d did not join the run within %g s", missing,
                           s->base.deadline_s);
        shm_rest(&s->base, YIELDS);
    }
}

RtCode rt_peers_shm_open(double deadline_s, RtTransport **t, RtStatus *st)
{
    int rank = number_of("GNNC_RANK"), n = number_of("GNNC_RANKS"), fd = number_of("GNNC_PEERS_AT");
    RtStatus own = {0};
    Shm *s = NULL;
    *t = NULL;
    if (rank < 0 || n < 2 || n > MOST || rank >= n || fd < 0)
        return no_run(st, "GNNC_RANK, GNNC_RANKS and GNNC_PEERS_AT do not name a run of several processes");
    RT_TRY(rt_alloc(&s, 1, sizeof *s, "messages between processes", st));
    s->base = (RtTransport){.calls = &shm_calls, .rank = rank, .n = n, .deadline_s = deadline_s};
    s->fd = fd;
    RtCode code = map_shared(s, rank, n, &own);
    if (!code) code = rt_alloc(&s->base.out, n, sizeof *s->base.out, "messages between processes", &own);
    if (!code) code = rt_alloc(&s->base.in, n, sizeof *s->base.in, "messages between processes", &own);
    bool shared = s->all && s->all->magic == MAGIC && s->all->n == n;
    if (!code) code = join(s, &own);
    if (!code) {
        *t = &s->base;
        return RT_OK;
    }
    if (shared) shm_fail(&s->base, &own), shm_close(&s->base, &own);
    else shm_free(s);
    if (st) *st = own;
    return code;
}

/* Starts the process of rank q, with the shared memory open at the same number. */
static RtCode start(int q, int fd, char **argv, pid_t *pid, RtStatus *st)
{
    char number[16];
    posix_spawn_file_actions_t actions;
    snprintf(number, sizeof number, "%d", q);
    int error = setenv("GNNC_RANK", number, 1) ? ENOMEM : posix_spawn_file_actions_init(&actions);
    if (!error) {
        error = posix_spawn_file_actions_adddup2(&actions, fd, fd); /* takes its close-on-exec away */
        if (!error) error = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (!error) return RT_OK;
    return rt_fail(st, RT_E_PEERS_OPEN, "--ranks", "start fewer processes", "cannot start rank %d: %s", q,
                   strerror(error));
}

RtCode rt_peers_spawn(int n, char **argv, RtStatus *st)
{
    char number[16];
    if (n < 2 || getenv("GNNC_RANK")) return RT_OK;
    if (rt_peers_mpi_launched())
        return rt_fail(st, RT_E_CLI_VALUE, "--ranks", "leave it out: the launcher says how many processes there are",
                       "an MPI launcher started this process");
    if (n > MOST) return rt_fail(st, RT_E_CLI_VALUE, "--ranks", NULL, "%d processes are more than %d", n, MOST);
    size_t bytes = shared_bytes(n);
    RT_TRY(rt_memory_check((int64_t)bytes, "messages between processes", st));
    int fd = memfd_create("gnnc-peers", MFD_CLOEXEC);
    Shared *all = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        all = mmap(NULL, slots_bytes(n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (all == MAP_FAILED) {
        if (fd >= 0) close(fd);
        return rt_fail(st, RT_E_PEERS_OPEN, "--ranks", NULL, "no shared memory: %s", strerror(errno));
    }
    all->magic = MAGIC;
    all->n = n;
    all->parent = getpid();
    RtCode code = RT_OK;
    snprintf(number, sizeof number, "%d", n);
    setenv("GNNC_RANKS", number, 1);
    snprintf(number, sizeof number, "%d", fd);
    setenv("GNNC_PEERS_AT", number, 1);
    for (int q = 1; q < n && !code; q++) {
        pid_t pid = 0;
        code = start(q, fd, argv, &pid, st);
        atomic_store(&all->slots[q].pid, code ? 0 : (int)pid);
    }
    setenv("GNNC_RANK", "0", 1);
    if (code) {
        for (int q = 1; q < n; q++)
            if (atomic_load(&all->slots[q].pid) > 0) kill(atomic_load(&all->slots[q].pid), SIGKILL);
        reap(all, 0);
        unsetenv("GNNC_RANK");
        close(fd);
    }
    munmap(all, slots_bytes(n));
    return code;
}
