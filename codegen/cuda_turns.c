/* Turns of a loop that wait for memory together. A CPU looks ahead of a load that has not come; a lane of a GPU waits
   where its value is used. So an innermost loop that reads memory, and writes at most to private arrays, is written
   with several turns side by side: as many as hide the latency and as what they load has registers for.

   Other loops a compiler would unroll as it sees fit, with a loop for the turns that are left. No load of one with a
   loop or a branch in it comes earlier for that, and compilers have several times as much to read; so these stay as
   they are. */
#include "codegen/cuda_turns.h"
#include "base/ice.h"
#include "codegen/emit_cuda.h"

/* Side by side at most: turns, loads, registers of what is loaded, instructions. FEW: of loops whose last turns are
   left out one by one. */
enum { MOST_TURNS = 32, LOADS_IN_FLIGHT = 32, WORDS_IN_FLIGHT = 64, MOST_INSTRUCTIONS = 1600 };
enum { MOST_FEW = 8, FEW_WORDS_IN_FLIGHT = 40 };
enum { MOST_UNROLLED = 200 /* instructions of a turn */ };

/* Registers that what a load brings takes. */
static uint32_t words_of(const KirKernel *k, const CudaWide *wide, KirId id)
{
    const KirIns *x = &k->ins.data[id];
    uint32_t each = x->type.base == KIR_F64 || x->type.base == KIR_I64 ? 2 : 1;
    return each * (wide->n[id] && !cuda_is_dealt(wide, id) && !wide->vectors[id] ? wide->n[id] : 1);
}

/* Whether a bound of a loop is known only when it runs: it is made of what was loaded. */
static bool is_loaded(const KirKernel *k, KirId id)
{
    const KirIns *x = &k->ins.data[id];
    if (x->op == KIR_load) return x->buf != KIR_NONE;
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++)
        if (is_loaded(k, x->args[i])) return true;
    return false;
}

/* Whether compilers see how often a loop runs, and need no loop for turns that are left. */
static bool is_counted(const KirKernel *k, const KirIns *loop)
{
    return k->ins.data[loop->args[0]].op == KIR_iconst && k->ins.data[loop->args[1]].op == KIR_iconst;
}

/* Whether the turns of a loop of known length fill n again and again. */
static bool are_filled(const KirKernel *k, const KirIns *loop, uint32_t n)
{
    return is_counted(k, loop) &&
           (k->ins.data[loop->args[1]].i - k->ins.data[loop->args[0]].i) % ((int64_t)n * loop->i) == 0;
}

bool cuda_has_loop(const KirKernel *k, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        const KirIns *x = &k->ins.data[b->ins.data[i]];
        if (x->op == KIR_for || x->op == KIR_loop || cuda_has_loop(k, &x->body) || cuda_has_loop(k, &x->other))
            return true;
    }
    return false;
}

/* Whether all turns of a loop go the way of the branch x, and one way has no loop: compilers write that loop apart. */
static bool may_stand_alone(const KirKernel *k, const KirIns *loop, const KirIns *x)
{
    for (uint32_t i = 0; i < loop->body.ins.n; i++)
        if (loop->body.ins.data[i] == x->args[0]) return false;
    return cuda_has_loop(k, &x->body) != cuda_has_loop(k, &x->other);
}

CudaTurns cuda_turns(const KirWalk *w, const CudaWide *wide, const KirIns *loop)
{
    const KirKernel *k = w->k;
    const CudaTurns any = {0}, one = {.n = 1};
    const bool counted = is_counted(k, loop);
    CudaTurns t = {.few = is_loaded(k, loop->args[0]) || is_loaded(k, loop->args[1])};
    uint32_t most_words = t.few ? FEW_WORDS_IN_FLIGHT : WORDS_IN_FLIGHT;
    t.n = t.few ? MOST_FEW : MOST_TURNS;
    uint32_t loads = 0, words = 0, live = 0;
    ICE_UNLESS(loop->op == KIR_for && loop->bind != KIR_UNROLL && loop->i > 0);
    bool nested = false, alone = false, stores = false;
    for (uint32_t i = 0; i < loop->body.ins.n; i++) {
        KirId id = loop->body.ins.data[i];
        const KirIns *x = &k->ins.data[id];
        if (!w->facts[id].live) continue;
        live++;
        if (x->op == KIR_if && may_stand_alone(k, loop, x)) alone = true;
        else if (x->op == KIR_for || x->op == KIR_loop || x->op == KIR_if) nested = true;
        if (x->op == KIR_store && x->buf != KIR_NONE) stores = true;
        if ((x->op != KIR_load && x->op != KIR_gather) || (x->buf == KIR_NONE && !k->ins.data[x->alloc].shared))
            continue;
        if (wide->n[id] && wide->at[id] != id) continue; /* it comes with another */
        loads++, words += words_of(k, wide, id);
    }
    if (alone && !nested) return any;
    if (nested || (t.few && loop->i > 1)) return counted ? any : one;
    if (stores || !loads) return any;
    if (live > MOST_UNROLLED) return counted ? any : one;
    while (t.n > 1 && (t.n * loads > LOADS_IN_FLIGHT || t.n * words > most_words || t.n * live > MOST_INSTRUCTIONS))
        t.n /= 2;
    t.rest = t.n > 1 && !t.few && !are_filled(k, loop, t.n);
    return t.n > 1 ? t : counted ? any : one;
}
