/* Steps of a program that run together, a strip of rows at a time: what passes between them stays in the cache, and
   what nobody else reads lies in an array of the thread's (passes/plan/connect.c says which; no bit depends on it). */
#pragma once
#include "runtime/exec.h"
#include <stdatomic.h>

typedef struct RtPatch { /* an argument of the chain's that lies in the strip */
    int64_t arg, row_bytes, offset;
    /* which may leave rows of it 0; or NULL: no step does, or another than that whose argument it is */
    const RtExecStep *writer;
} RtPatch;

typedef struct RtChain {
    const RtChainDef *def;
    const RtExecStep *steps; /* [def->n] */
    int64_t rows, n_strips;
    int64_t strip; /* rows of a strip: at most def's */
    int64_t grain; /* strips worth a thread */
    /* private */
    int64_t n_args, n_patches, n_threads, strip_bytes;
    RtPatch patches[RT_CHAIN_ARGS];
    RtBlock memory;     /* [n_threads][strip_bytes] */
    atomic_flag *taken; /* [n_threads] */
} RtChain;

/* Makes the chain of some steps of e, whose functions and arguments are known. *c is NULL, or the chain for an earlier
   graph of e, which is made anew. OVERFLOW, MEMORY. */
RtCode rt_chain_make(const RtExec *e, const RtChainDef *def, RtChain **c, RtStatus *st);
void rt_chain_free(RtChain *c);
/* What the strips before the i-th weigh, for rt_cut. */
RtWeight rt_chain_weight;
/* Runs strips [lo, hi), on no more threads at a time than e's pool has. args[0].p: the chain's first step. */
void rt_chain_run(const RtArg *args, int64_t lo, int64_t hi);
