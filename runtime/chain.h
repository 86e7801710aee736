/* Steps of a program that run together, a strip of rows at a time: what passes between them stays in the cache, and what
   nobody else reads lies in an array of the thread's (passes/plan/connect.c says which; no bit depends on it). */
#pragma once
#include "runtime/exec.h"

typedef struct RtChain RtChain;

/* Of `step` and the steps behind it that it runs, whose functions and arguments e has; *c is NULL or one for an earlier
   graph of e's, which is made anew. OVERFLOW, MEMORY. */
RtCode rt_chain_make(const RtExec *e, int64_t step, RtChain **c, RtStatus *st);
void rt_chain_free(RtChain *c);
/* bounds[0..n] of chunks of strips, and behind them the order in which rt_pool_run takes them; returns n, at most rt_cut_count(strips, 1, threads, chunks). */
int64_t rt_chain_cut(const RtChain *c, int threads, int64_t chunks, bool by_rows, int64_t *bounds);
/* Runs strips [lo, hi), on no more threads at a time than e's pool has. args: rt_chain_args. */
void rt_chain_run(const RtArg *args, int64_t lo, int64_t hi);
const RtArg *rt_chain_args(const RtChain *c);
