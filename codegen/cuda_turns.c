/* Turns of a loop that wait for memory together. A CPU looks ahead of a load that has not come; a lane of a GPU waits
   where its value is used. So an innermost loop that reads memory, and writes at most to private arrays, is written
   with several turns side by side: as many as hide the latency and as what they load has registers for. */
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

CudaTurns cuda_turns(const KirWalk *w, const CudaWide *wide, const KirIns *loop)
{
    const KirKernel *k = w->k;
    const CudaTurns one = {1, false};
    CudaTurns t = {.few = is_loaded(k, loop->args[0]) || is_loaded(k, loop->args[1])};
    uint32_t most_words = t.few ? FEW_WORDS_IN_FLIGHT : WORDS_IN_FLIGHT;
    t.n = t.few ? MOST_FEW : MOST_TURNS;
    uint32_t loads = 0, words = 0, live = 0;
    ICE_UNLESS(loop->op == KIR_for && loop->bind != KIR_UNROLL);
    for (uint32_t i = 0; i < loop->body.ins.n; i++) {
        KirId id = loop->body.ins.data[i];
        const KirIns *x = &k->ins.data[id];
        if (!w->facts[id].live) continue;
        live++;
        if (x->op == KIR_for || x->op == KIR_loop || x->op == KIR_if) return one;
        if (x->op == KIR_store && x->buf != KIR_NONE) return one;
        if ((x->op != KIR_load && x->op != KIR_gather) || (x->buf == KIR_NONE && !k->ins.data[x->alloc].shared))
            continue;
        if (wide->n[id] && wide->at[id] != id) continue; /* it comes with another */
        loads++, words += words_of(k, wide, id);
    }
    if (!loads || live > MOST_UNROLLED || (t.few && loop->i > 1)) return one;
    while (t.n > 1 && (t.n * loads > LOADS_IN_FLIGHT || t.n * words > most_words || t.n * live > MOST_INSTRUCTIONS))
        t.n /= 2;
    return t.n > 1 ? t : one;
}
