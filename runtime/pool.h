/* A pool of threads for one context. A job is a list of chunks with fixed bounds; whoever is free
   takes the next one, the caller included. Bounds come from the data (rt_cut_*), so a step's work
   does not depend on the pool's size in anything but who does it. */
#pragma once
#include "runtime/abi.h"
#include "runtime/status.h"
#include <stdint.h>

typedef struct RtPool RtPool;

/* n_threads counts the caller; 1 gives a pool without threads of its own. */
RtCode rt_pool_create(int n_threads, RtPool **pool, RtStatus *st);
/* A pool whose chunks run on somebody else's parallel-for: run(user, n, task, arg) calls task(arg,
   i) for all i < n. */
typedef void (*RtParallelFor)(void *user, int64_t n_tasks, void (*task)(void *arg, int64_t i), void *arg);
RtCode rt_pool_borrow(int n_threads, RtParallelFor run, void *user, RtPool **pool, RtStatus *st);
void rt_pool_free(RtPool *pool);
int rt_pool_threads(const RtPool *pool); /* NULL counts as 1 */

/* Runs fn(args, bounds[i], bounds[i+1]) for all i < n_chunks and returns when all are done. Chunks are
   taken from order[n_chunks-1] to order[0]; order NULL: from the last to the first. One caller at a
   time. pool NULL: runs inline. */
void rt_pool_run(RtPool *pool, RtKernelFn fn, const RtArg *args, const int64_t *bounds, const int64_t *order,
                 int64_t n_chunks);

enum { RT_CHUNKS = 4 }; /* of a step, per thread */
/* Chunks wanted for n iterations, each at least `grain` (of weight), `chunks` to each thread: at least 1. */
int64_t rt_cut_count(int64_t weight, int64_t grain, int n_threads, int64_t chunks);
/* What a part of some iterations weighs: weight(of, i) for those before the i-th, 0 for none, never less for more.
   NULL: all weigh 1. */
typedef int64_t RtWeight(const void *of, int64_t i);
/* bounds[0..n_chunks] of n iterations in shares of about the same weight. */
void rt_cut(int64_t n, RtWeight *weight, const void *of, int64_t n_chunks, int64_t *bounds);
/* order[0..n_chunks-1], for rt_pool_run: chunks of more than twice the mean weight are taken first, the heaviest before
   all, so that nobody is left alone with a hub at the end. */
void rt_cut_order(RtWeight *weight, const void *of, const int64_t *bounds, int64_t n_chunks, int64_t *order);
