/* The thread pool (see pool.h). One atomic word, the ticket, holds (job number, chunks left);
   taking a chunk is one compare-and-swap on it. A thread reads the job's description only after it
   took a chunk, and the caller replaces the description only after all chunks are done, so no
   thread has to be waited for that did nothing: a sleeper wakes late, finds 0 left, and sleeps
   again. Idle threads spin for some microseconds, then sleep. */
#include "runtime/pool.h"
#include "runtime/memory.h"
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPINS_IDLE = 3000, SPINS_DONE = 3000, MAX_THREADS = 1024 };

struct RtPool {
    /* written by the caller before the ticket, read by whoever holds a chunk */
    RtKernelFn fn;
    const RtArg *args;
    const int64_t *bounds, *order;
    _Alignas(64) _Atomic uint64_t ticket; /* job << 32 | chunks left */
    _Alignas(64) _Atomic int64_t done;    /* chunks done of this job */
    _Alignas(64) _Atomic int sleepers;
    atomic_bool stop;
    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t wake;
    int n_threads; /* the caller included */
    int n_started;
    int spins;
    pthread_t *threads;
    RtParallelFor borrowed; /* somebody else's threads, or NULL */
    void *borrowed_user;
    RtBlock block; /* that holds this */
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void run_chunk(void *arg, int64_t i)
{
    RtPool *p = arg;
    int64_t at = p->order ? p->order[i] : i;
    assert(p->bounds[at] <= p->bounds[at + 1]);
    p->fn(p->args, p->bounds[at], p->bounds[at + 1]);
}

/* Takes and runs chunks until none is left. */
static void work(RtPool *p)
{
    uint64_t t = atomic_load(&p->ticket);
    while ((uint32_t)t) {
        if (!atomic_compare_exchange_weak(&p->ticket, &t, t - 1)) continue;
        run_chunk(p, (int64_t)(uint32_t)t - 1);
        atomic_fetch_add(&p->done, 1);
        t = atomic_load(&p->ticket);
    }
}

static bool has_news(RtPool *p, uint64_t seen)
{
    uint64_t t = atomic_load(&p->ticket);
    return ((uint32_t)t && t >> 32 != seen) || atomic_load(&p->stop);
}

static void wait_for_news(RtPool *p, uint64_t seen)
{
    for (int i = 0; i < p->spins; i++) {
        if (has_news(p, seen)) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_news(p, seen)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *thread_main(void *arg)
{
    RtPool *p = arg;
    uint64_t seen = 0;
    for (;;) {
        wait_for_news(p, seen);
        if (atomic_load(&p->stop)) return NULL;
        seen = atomic_load(&p->ticket) >> 32;
        work(p);
    }
}

static void wake_all(RtPool *p)
{
    if (!atomic_load(&p->sleepers)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void rt_pool_run(RtPool *p, RtKernelFn fn, const RtArg *args, const int64_t *bounds, const int64_t *order,
                 int64_t n_chunks)
{
    if (!p || p->n_threads == 1 || n_chunks <= 1) {
        if (n_chunks > 0) fn(args, bounds[0], bounds[n_chunks]);
        return;
    }
    assert(n_chunks <= UINT32_MAX &&
           !(uint32_t)atomic_load(&p->ticket)); /* the last job is done: nobody reads what it was */
    p->fn = fn;
    p->args = args;
    p->bounds = bounds;
    p->order = order;
    if (p->borrowed) {
        p->borrowed(p->borrowed_user, n_chunks, run_chunk, p);
        return;
    }
    atomic_store(&p->done, 0);
    uint64_t job = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store(&p->ticket, job << 32 | (uint64_t)n_chunks);
    wake_all(p);
    work(p);
    for (int i = 0; atomic_load(&p->done) != n_chunks; i++) {
        if (i < p->spins) relax();
        else sched_yield();
    }
}

/* Signals are for the caller's thread, which may hold them back. */
static RtCode start_threads(RtPool *p, RtStatus *st)
{
    RT_TRY(rt_alloc(&p->threads, p->n_threads, sizeof *p->threads, "threads", st));
    for (int i = 0; i + 1 < p->n_threads; i++) {
        if (pthread_create(&p->threads[i], NULL, thread_main, p))
            return rt_fail(st, RT_E_MEMORY, "--threads", "ask for fewer threads", "cannot start thread %d of %d", i + 2,
                           p->n_threads);
        p->n_started++;
    }
    return RT_OK;
}

static RtCode pool_new(int n_threads, RtPool **out, RtStatus *st)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return rt_fail(st, RT_E_CLI_VALUE, "threads", NULL, "found %d, wanted 1 to %d", n_threads, MAX_THREADS);
    RtBlock block;
    RT_TRY(rt_block_alloc(&block, sizeof(RtPool), "threads", st));
    RtPool *p = block.p;
    *p = (RtPool){.block = block, .n_threads = n_threads};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    *out = p;
    return RT_OK;
}

RtCode rt_pool_borrow(int n_threads, RtParallelFor run, void *user, RtPool **out, RtStatus *st)
{
    RT_TRY(pool_new(n_threads, out, st));
    assert(run);
    (*out)->borrowed = run;
    (*out)->borrowed_user = user;
    return RT_OK;
}

RtCode rt_pool_create(int n_threads, RtPool **out, RtStatus *st)
{
    RtPool *p;
    RT_TRY(pool_new(n_threads, &p, st));
    *out = NULL;
    /* with more threads than cores, spinning takes the core from who has the work */
    p->spins = n_threads <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS_IDLE : 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    RtCode code = start_threads(p, st);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code) rt_pool_free(p);
    else *out = p;
    return code;
}

void rt_pool_free(RtPool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    RtBlock block = p->block; /* p lies in it */
    rt_block_free(&block);
}

int rt_pool_threads(const RtPool *p) { return p ? p->n_threads : 1; }

int64_t rt_cut_count(int64_t weight, int64_t grain, int n_threads, int64_t chunks)
{
    int64_t most = (int64_t)n_threads * chunks, wanted = weight / (grain > 0 ? grain : 1);
    assert(weight >= 0 && chunks > 0);
    if (n_threads <= 1 || wanted < 2) return 1;
    return wanted < most ? wanted : most;
}

static int64_t weight_of(RtWeight *weight, const void *of, int64_t i) { return weight ? weight(of, i) : i; }

/* Least i that has `wanted` before it. */
static int64_t find_weight(RtWeight *weight, const void *of, int64_t n, int64_t wanted)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (weight(of, mid) < wanted) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* total * i / n without overflow */
static int64_t share(int64_t total, int64_t i, int64_t n) { return total / n * i + total % n * i / n; }

void rt_cut(int64_t n, RtWeight *weight, const void *of, int64_t n_chunks, int64_t *bounds)
{
    assert(n >= 0 && n_chunks > 0);
    int64_t total = weight_of(weight, of, n);
    for (int64_t i = 0; i <= n_chunks; i++) {
        int64_t at = share(total, i, n_chunks);
        bounds[i] = i == n_chunks ? n : weight ? find_weight(weight, of, n, at) : at;
        assert(bounds[i] >= (i ? bounds[i - 1] : 0) && bounds[i] <= n);
    }
}

static int64_t chunk_weight(RtWeight *weight, const void *of, const int64_t *bounds, int64_t i)
{
    return weight_of(weight, of, bounds[i + 1]) - weight_of(weight, of, bounds[i]);
}

void rt_cut_order(RtWeight *weight, const void *of, const int64_t *bounds, int64_t n_chunks, int64_t *order)
{
    int64_t n = 0;
    double mean = (double)(weight_of(weight, of, bounds[n_chunks]) - weight_of(weight, of, bounds[0])) /
                  (double)n_chunks;
    for (int heavy = 0; heavy <= 1; heavy++)
        for (int64_t i = 0; i < n_chunks; i++) {
            int64_t own = chunk_weight(weight, of, bounds, i), at = n;
            if (((double)own > 2 * mean) != heavy) continue;
            for (; heavy && at > 0 && own < chunk_weight(weight, of, bounds, order[at - 1]); at--)
                order[at] = order[at - 1];
            order[at] = i;
            n++;
        }
}
