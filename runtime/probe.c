/* The probe behind runtime/machine.h: short loops over tables that fit one level of memory each, on all threads at
   once, the best of several runs. It measures throughput as kernels see it (loads that do not depend on each other,
   with and without prefetch), not what a data sheet says. Never part of a library. */
#include "runtime/clock.h"
#include "runtime/cpu.h"
#include "runtime/machine.h"
#include "runtime/memory.h"
#include "runtime/pool.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef float Line __attribute__((vector_size(64), may_alias));

enum { MAX_THREADS = 256, REPEATS = 3, PASSES = 3, MEMORY_BYTES = 96 << 20, INDEX = 1 << 16, MEMORY_INDEX = 1 << 19 };

static const double NEAR = 0.35; /* of the latency of memory: still a cache */

typedef struct Probe {
    RtPool *pool;
    int64_t threads;
    RtBlock table, copy, index;
    RtStatus *st;
} Probe;

/* ---- loops: args 0 table, 1 second table, 2 index, 3 count, 4 rounds, 5 lines of a row, 6 distance, 7 out -------- */

enum { ARG_TABLE, ARG_COPY, ARG_INDEX, ARG_COUNT, ARG_ROUNDS, ARG_LINES, ARG_DISTANCE, ARG_OUT, N_ARGS };

static inline __attribute__((always_inline)) void copy_lines(const RtArg *a, int64_t t)
{
    int64_t n = a[ARG_COUNT].i;
    const Line *from = (const Line *)a[ARG_TABLE].p + t * n;
    Line *to = (Line *)a[ARG_COPY].p + t * n;
    for (int64_t r = 0; r < a[ARG_ROUNDS].i; r++) {
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
        __asm__ volatile("" ::: "memory");
    }
}

static inline __attribute__((always_inline)) void gather_lines(const RtArg *a, int64_t t)
{
    int64_t n = a[ARG_COUNT].i, lines = a[ARG_LINES].i, distance = a[ARG_DISTANCE].i;
    const int32_t *index = (const int32_t *)a[ARG_INDEX].p + t * n;
    const Line *table = a[ARG_TABLE].p;
    Line sum[4] = {{0}, {0}, {0}, {0}};
    for (int64_t r = 0; r < a[ARG_ROUNDS].i; r++)
        for (int64_t i = 0; i < n; i++) {
            const Line *row = table + index[i] * lines;
            int64_t ahead = i + distance < n ? i + distance : n - 1;
            const Line *next = table + index[ahead] * lines;
            if (lines == 1) {
                if (distance) __builtin_prefetch(next);
                sum[0] += row[0];
                continue;
            }
            _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
            {
                if (distance) __builtin_prefetch(next + k);
                sum[k] += row[k];
            }
        }
    ((Line *)a[ARG_OUT].p)[t] = sum[0] + sum[1] + sum[2] + sum[3];
}

static inline __attribute__((always_inline)) void multiply_add(const RtArg *a, int64_t t)
{
    Line acc[12], x = ((const Line *)a[ARG_TABLE].p)[0], y = ((const Line *)a[ARG_TABLE].p)[1];
    for (int k = 0; k < 12; k++) acc[k] = x;
    for (int64_t r = 0; r < a[ARG_ROUNDS].i; r++)
        _Pragma("GCC unroll 12") for (int k = 0; k < 12; k++) acc[k] = acc[k] * y + x;
    for (int k = 1; k < 12; k++) acc[0] += acc[k];
    ((Line *)a[ARG_OUT].p)[t] = acc[0];
}

#define LOOP(name, suffix, attribute)                                                                                  \
    attribute static void name##_##suffix(const RtArg *a, int64_t lo, int64_t hi)                                      \
    {                                                                                                                  \
        for (int64_t t = lo; t < hi; t++) name(a, t);                                                                  \
    }
#if defined(__x86_64__)
#define WIDE   __attribute__((target("avx512f"), optimize("fp-contract=fast")))
#define MIDDLE __attribute__((target("avx2,fma"), optimize("fp-contract=fast")))
#ifdef __clang__
#undef WIDE
#undef MIDDLE
#define WIDE   __attribute__((target("avx512f")))
#define MIDDLE __attribute__((target("avx2,fma")))
#endif
#define LOOPS(name)         LOOP(name, wide, WIDE) LOOP(name, middle, MIDDLE) LOOP(name, plain, )
#define PICK(variant, name) ((variant) == RT_AVX512 ? name##_wide : (variant) == RT_AVX2 ? name##_middle : name##_plain)
#else
#define LOOPS(name)         LOOP(name, plain, )
#define PICK(variant, name) name##_plain
#endif
LOOPS(copy_lines)
LOOPS(gather_lines)
LOOPS(multiply_add)

/* Each step needs the one before it: index[i] says where to go from i. Threads start at different places. */
static void chase(const RtArg *a, int64_t lo, int64_t hi)
{
    const int32_t *next = a[ARG_INDEX].p;
    for (int64_t t = lo; t < hi; t++) {
        int32_t at = (int32_t)(t * a[ARG_COUNT].i);
        for (int64_t i = 0; i < a[ARG_ROUNDS].i; i++) at = next[(int64_t)at * 16];
        ((int32_t *)a[ARG_OUT].p)[t * 16] = at;
    }
}

/* ---- measuring ---------------------------------------------------------------------------------------------- */

/* The best time of a few runs, in ns, after one that warms up. */
static double best_of(Probe *p, int repeats, RtKernelFn fn, const RtArg *args, int64_t threads)
{
    int64_t bounds[MAX_THREADS + 1];
    assert(threads >= 1 && threads <= MAX_THREADS);
    for (int64_t i = 0; i <= threads; i++) bounds[i] = i;
    double best = 1e30;
    for (int i = 0; i <= repeats; i++) {
        double start = rt_now_ns();
        rt_pool_run(p->pool, fn, args, bounds, NULL, threads);
        double ns = rt_now_ns() - start;
        if (i && ns < best) best = ns;
    }
    return best;
}

static double best_ns(Probe *p, RtKernelFn fn, const RtArg *args, int64_t threads)
{
    return best_of(p, REPEATS, fn, args, threads);
}

/* Passes some time apart: what disturbs one seldom disturbs all. */
static void keep_most(double *at, double x)
{
    if (x > *at) *at = x;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33, x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* Bytes of one thread's table so that all threads' tables fit the level; memory: well beyond the last cache. */
static int64_t share_of(const Probe *p, const RtMachine *m, int level)
{
    if (level == RT_MEMORY) return (int64_t)p->table.bytes / p->threads;
    double bytes = m->usable[level] * 0.8;
    if (level == RT_L3) bytes /= (double)p->threads;
    return (int64_t)bytes / 4096 * 4096;
}

static void probe_copy(Probe *p, RtMachine *m, int level)
{
    int64_t lines = share_of(p, m, level) / 64 / (level == RT_MEMORY ? 1 : 2);
    int64_t rounds = 1 + ((4 << 20) / 64) / lines;
    RtArg a[N_ARGS] = {
        [ARG_TABLE].p = p->table.p, [ARG_COPY].p = p->copy.p, [ARG_COUNT].i = lines, [ARG_ROUNDS].i = rounds};
    double ns = best_ns(p, PICK(m->variant, copy_lines), a, p->threads);
    keep_most(&m->copy[level], (double)(2 * 64 * lines * rounds * p->threads) / ns);
}

static void probe_gather(Probe *p, RtMachine *m, int level, int row)
{
    int64_t lines = row == RT_ROW_64 ? 1 : 4, n = level == RT_MEMORY ? MEMORY_INDEX * 2 / lines : INDEX;
    int64_t bytes = share_of(p, m, level) * (level >= RT_L3 ? p->threads : 1), rows = bytes / (64 * lines);
    int32_t *index = p->index.p;
    Line *out = p->copy.p;
    for (int64_t i = 0; i < n * p->threads; i++) index[i] = (int32_t)(mix((uint64_t)i + 1) % (uint64_t)rows);
    RtArg a[N_ARGS] = {[ARG_TABLE].p = p->table.p, [ARG_INDEX].p = index, [ARG_COUNT].i = n,
                       [ARG_ROUNDS].i = 1,         [ARG_LINES].i = lines, [ARG_OUT].p = out};
    static const int64_t distances[] = {0, 8, 16, 32, 64, 128};
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
        a[ARG_DISTANCE].i = distances[d];
        double ns = best_ns(p, PICK(m->variant, gather_lines), a, p->threads);
        keep_most(&m->gather[row][level], (double)(64 * lines * n * p->threads) / ns);
    }
}

/* Each step of a random cycle through `bytes` (Sattolo's shuffle), ns. */
static double chase_ns(Probe *p, double bytes, int64_t steps, int repeats)
{
    int64_t n = (int64_t)bytes / 64;
    assert(n > 1 && (size_t)n * 64 <= p->table.bytes);
    int32_t *next = p->table.p;
    for (int64_t i = 0; i < n; i++) next[i * 16] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)(mix((uint64_t)i) % (uint64_t)i);
        int32_t t = next[i * 16];
        next[i * 16] = next[k * 16];
        next[k * 16] = t;
    }
    RtArg a[N_ARGS] = {
        [ARG_INDEX].p = next, [ARG_ROUNDS].i = steps, [ARG_COUNT].i = n / p->threads, [ARG_OUT].p = p->copy.p};
    return best_of(p, repeats, chase, a, p->threads) / (double)steps;
}

static void probe_latency(Probe *p, RtMachine *m, int level)
{
    bool memory = level == RT_MEMORY;
    m->latency[level] = chase_ns(p, memory ? (double)p->table.bytes : 0.8 * m->usable[level], memory ? 100000 : 400000,
                                 REPEATS);
}

/* The last cache is often shared with what we cannot see: the largest table that is still read much faster than
   memory. */
static void probe_last_cache(Probe *p, RtMachine *m)
{
    double bytes = 0.75 * m->bytes[RT_L3];
    while (bytes > 2 * m->bytes[RT_L2] && chase_ns(p, bytes, (int64_t)bytes / 64, 2) > NEAR * m->latency[RT_MEMORY])
        bytes *= 0.75;
    m->usable[RT_L3] = bytes;
}

static void probe_flops(Probe *p, RtMachine *m)
{
    int64_t rounds = 200000;
    /* The table holds indices: as floats they are denormals, which take some CPUs a hundred cycles each. */
    float *lines = p->table.p;
    for (int i = 0; i < 32; i++) lines[i] = i < 16 ? 1.0f : 0.5f;
    RtArg a[N_ARGS] = {[ARG_TABLE].p = p->table.p, [ARG_ROUNDS].i = rounds, [ARG_OUT].p = p->copy.p};
    double ns = best_ns(p, PICK(m->variant, multiply_add), a, p->threads);
    m->flops = (double)(rounds * 12 * 16 * 2 * p->threads) / ns;
}

static RtCode probe_open(Probe *p, const RtMachine *m)
{
    double table = 4 * m->bytes[RT_L3] > MEMORY_BYTES ? 4 * m->bytes[RT_L3] : MEMORY_BYTES;
    RT_TRY(rt_pool_create((int)p->threads, &p->pool, p->st));
    RT_TRY(rt_block_alloc(&p->table, (int64_t)table, "the probe", p->st));
    RT_TRY(rt_block_alloc(&p->copy, (int64_t)table, "the probe", p->st));
    RT_TRY(rt_block_alloc(&p->index, rt_size(p->threads, 2 * MEMORY_INDEX * sizeof(int32_t)), "the probe", p->st));
    memset(p->table.p, 0, p->table.bytes);
    memset(p->copy.p, 0, p->copy.bytes);
    return RT_OK;
}

static void probe_close(Probe *p)
{
    rt_pool_free(p->pool);
    rt_block_free(&p->table);
    rt_block_free(&p->copy);
    rt_block_free(&p->index);
}

RtCode rt_machine_probe(int threads, RtMachine *m, RtStatus *st)
{
    rt_machine_default(threads, m);
    Probe p = {.threads = threads, .st = st};
    if (threads < 1 || threads > MAX_THREADS)
        return rt_fail(st, RT_E_CLI_VALUE, "--threads", NULL, "found %d, wanted 1 to %d", threads, MAX_THREADS);
    RtCode code = probe_open(&p, m);
    if (!code) {
        probe_latency(&p, m, RT_MEMORY);
        probe_last_cache(&p, m);
    }
    memset(m->copy, 0, sizeof m->copy);
    memset(m->gather, 0, sizeof m->gather);
    for (int i = 0; i < PASSES * RT_N_LEVELS && !code; i++) {
        probe_copy(&p, m, i % RT_N_LEVELS);
        probe_gather(&p, m, i % RT_N_LEVELS, RT_ROW_64);
        probe_gather(&p, m, i % RT_N_LEVELS, RT_ROW_256);
    }
    if (!code) probe_flops(&p, m);
    for (int level = 0; level < RT_MEMORY && !code; level++) probe_latency(&p, m, level);
    m->probed = !code;
    probe_close(&p);
    return code;
}
