/* One walker over kernel IR for every target. It visits the instructions in order and calls an
   Emitter's hooks; what is worth knowing about a value (is it used, how often, may it be spelled
   inside its one use) is worked out here once. Emitters spell and never decide.

   The emitted function of a kernel is  void NAME(const RtArg *args, int64_t lo, int64_t hi)
   (runtime/abi.h), or a kernel of a GPU. A `for` bound to threads or block runs from max(from, lo) to min(to, hi); its
   step is 1. Other kernels ignore lo and hi. */
#pragma once
#include "ir/kernel.h"

typedef struct KirFacts { /* of one value */
    uint32_t uses;        /* by live instructions; a `set` is no use of its var */
    bool live;            /* something outside the kernel can notice it; the walker skips what is not */
    /* a pure value that may be spelled where it is used: it has one use, in the same block, and nothing in between
       changes what it reads. Constants and parameters always fold */
    bool fold;
} KirFacts;

typedef struct KirWalk {
    const KirKernel *k;
    const KirFacts *facts;  /* [k->ins.n] */
    const bool *param_live; /* [k->params.n] some live instruction names it */
    bool has_threads;       /* a live loop bound to threads or block: lo and hi matter */
    uint32_t depth;         /* open blocks around the instruction being visited */
} KirWalk;

/* Hooks get the emitter's own context, the walk and the instruction's id. Operands are ids in
   w->k->ins; an operand that is a `var` means its current value. Every hook is set but for those that say what NULL
   is. */
typedef struct Emitter {
    void (*begin_kernel)(void *ctx, const KirWalk *w);
    void (*end_kernel)(void *ctx, const KirWalk *w);
    void (*value)(void *ctx, const KirWalk *w, KirId id); /* const .. hmul: every V row without memory or state */
    void (*load)(void *ctx, const KirWalk *w, KirId id);
    void (*gather)(void *ctx, const KirWalk *w, KirId id);
    void (*store)(void *ctx, const KirWalk *w, KirId id);
    void (*prefetch)(void *ctx, const KirWalk *w, KirId id); /* NULL: left out, with what only it needs */
    void (*barrier)(void *ctx, const KirWalk *w, KirId id);  /* NULL: kernels have no warps (kir_serial) */
    /* A value that has a statement of its own, whatever its facts; NULL: none. Asked before the visit. */
    bool (*alone)(void *ctx, const KirKernel *k, KirId id);
    void (*alloc)(void *ctx, const KirWalk *w, KirId id);
    void (*var)(void *ctx, const KirWalk *w, KirId id);
    void (*set)(void *ctx, const KirWalk *w, KirId id);
    void (*begin_for)(void *ctx, const KirWalk *w, KirId id); /* with its binding */
    void (*end_for)(void *ctx, const KirWalk *w, KirId id);
    void (*begin_loop)(void *ctx, const KirWalk *w, KirId id);
    void (*end_loop)(void *ctx, const KirWalk *w, KirId id);
    void (*break_if)(void *ctx, const KirWalk *w, KirId id); /* leaves the innermost `loop` */
    void (*begin_if)(void *ctx, const KirWalk *w, KirId id);
    void (*begin_else)(void *ctx, const KirWalk *w, KirId id); /* only where the second block is not empty */
    void (*end_if)(void *ctx, const KirWalk *w, KirId id);
} Emitter;

/* Visits one verified kernel. `a` holds the facts; nothing of it is kept by the walk. */
void kir_walk(Arena *a, const KirKernel *k, const Emitter *e, void *ctx);
