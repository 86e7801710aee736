/* A library with the functions of NCCL that executables call, for the shim, whose device memory is this machine's.
   Processes share a file of mailboxes, one for each ordered pair; nothing waits: what is begun is moved on whenever
   somebody asks for it. FAKE_NCCL_LOG: a file that gets a line for each group. FAKE_NCCL_VERSION: what it says that it
   is. FAKE_NCCL_FAILS, _HANGS, _DIES=R:N: in rank R the N-th group ends with an error, moves nothing, or ends the
   process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK, SYSTEM = 2, INVALID = 4, USAGE = 5, IN_PROGRESS = 7 };
enum { MOST = 8, ROOM = 1 << 16, MOST_OPS = 64 };

typedef struct Id {
    char name[128];
} Id;
typedef struct Config {
    size_t size;
    unsigned magic, version;
    int blocking;
} Config;
typedef struct Mailbox {
    _Atomic long full; /* bytes in it; 0: it may be written */
    long total;        /* of the message */
    char bytes[ROOM];
} Mailbox;
typedef struct Shared {
    _Atomic int joined, ended;
    Mailbox boxes[MOST][MOST]; /* [from][to] */
} Shared;
typedef struct Op {
    char *p;
    long left, total;
    int peer, sends;
} Op;

static struct {
    Shared *shared;
    Id id;
    int n, rank, open, ending, groups, hangs;
    Op ops[MOST_OPS];
    int n_ops;
} state;

int ncclGetVersion(int *version);
const char *ncclGetErrorString(int error);
int ncclGetUniqueId(Id *id);
int ncclCommInitRankConfig(void **comm, int n, Id id, int rank, Config *config);
int ncclCommGetAsyncError(void *comm, int *error);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream);
int ncclRecv(void *to, size_t n, int type, int peer, void *comm, void *stream);

int ncclGetVersion(int *version)
{
    const char *said = getenv("FAKE_NCCL_VERSION");
    *version = said ? atoi(said) : 22809;
    return OK;
}

const char *ncclGetErrorString(int error) { return error == SYSTEM ? "a call to the system failed" : "wrong use"; }

int ncclGetUniqueId(Id *id)
{
    memset(id, 0, sizeof *id);
    snprintf(id->name, sizeof id->name, "/dev/shm/gnnc-fake-nccl-%d", (int)getpid());
    return OK;
}

int ncclCommInitRankConfig(void **comm, int n, Id id, int rank, Config *config)
{
    if (n < 2 || n > MOST || rank >= n || config->size < 24 || config->magic != 0xcafebeef || config->blocking)
        return INVALID;
    int fd = open(id.name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(Shared))) return SYSTEM;
    state.shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (state.shared == MAP_FAILED) return SYSTEM;
    state.id = id, state.n = n, state.rank = rank, state.open = 1;
    state.shared->joined++;
    *comm = &state;
    return IN_PROGRESS;
}

/* Whether a variable says this rank and group. */
static int is_said(const char *name)
{
    int rank = -1, group = -1;
    const char *said = getenv(name);
    return said && sscanf(said, "%d:%d", &rank, &group) == 2 && rank == state.rank && group == state.groups;
}

/* One try at an operation; an error where both ends do not agree. */
static int try_op(Op *x)
{
    Mailbox *m = x->sends ? &state.shared->boxes[state.rank][x->peer] : &state.shared->boxes[x->peer][state.rank];
    long n = x->left < ROOM ? x->left : ROOM;
    if (!x->left || (x->sends ? m->full : !m->full)) return OK;
    if (!x->sends && (m->total != x->total || m->full != n)) return USAGE;
    memcpy(x->sends ? m->bytes : x->p, x->sends ? x->p : m->bytes, (size_t)n);
    if (x->sends) m->total = x->total;
    m->full = x->sends ? n : 0;
    x->p += n, x->left -= n;
    return OK;
}

int ncclCommGetAsyncError(void *comm, int *error)
{
    int left = 0;
    *error = OK;
    if (comm != &state || !state.open) return INVALID;
    for (int i = 0; i < state.n_ops && !*error && !state.hangs; i++) *error = try_op(&state.ops[i]);
    for (int i = 0; i < state.n_ops; i++) left += state.ops[i].left > 0;
    if (!left) state.n_ops = 0;
    if (!state.rank && state.shared->joined == state.n) unlink(state.id.name); /* whoever dies later leaves nothing */
    int waits = left || state.shared->joined < state.n || (state.ending && state.shared->ended < state.n);
    if (!*error && waits) *error = IN_PROGRESS;
    return OK;
}

int ncclGroupStart(void)
{
    state.groups++;
    return state.n_ops ? USAGE : OK;
}

static int add(void *p, size_t n, int type, int peer, void *comm, void *stream, int sends)
{
    int good = comm == &state && state.open && stream && type == 1 && n && peer >= 0 && peer < state.n &&
               peer != state.rank;
    if (!good || state.n_ops == MOST_OPS) return INVALID;
    state.ops[state.n_ops++] = (Op){p, (long)n, (long)n, peer, sends};
    return OK;
}

int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream)
{
    int error = add((void *)from, n, type, peer, comm, stream, 1);
    return error ? error : IN_PROGRESS;
}

int ncclRecv(void *to, size_t n, int type, int peer, void *comm, void *stream)
{
    return add(to, n, type, peer, comm, stream, 0);
}

int ncclGroupEnd(void)
{
    const char *log = getenv("FAKE_NCCL_LOG");
    FILE *f = log ? fopen(log, "a") : NULL;
    if (f) fprintf(f, "%d %d\n", state.rank, state.n_ops), fclose(f);
    if (is_said("FAKE_NCCL_DIES")) _exit(9);
    if (is_said("FAKE_NCCL_FAILS")) return SYSTEM;
    state.hangs |= is_said("FAKE_NCCL_HANGS");
    return IN_PROGRESS;
}

static int end(void *comm)
{
    if (comm != &state || !state.open) return INVALID;
    munmap(state.shared, sizeof(Shared));
    memset(&state, 0, sizeof state);
    return OK;
}

int ncclCommFinalize(void *comm)
{
    if (comm != &state || state.n_ops) return INVALID;
    state.shared->ended++;
    state.ending = 1;
    return IN_PROGRESS;
}

int ncclCommDestroy(void *comm) { return end(comm); }
int ncclCommAbort(void *comm) { return end(comm); }
