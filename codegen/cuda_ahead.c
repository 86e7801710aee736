/* Loads before lanes meet. A lane waits where it hands a number to another one, and no load that stands behind has
   begun by then: compilers keep such places in the order of the text. So in a loop whose turns stand in a row, what is
   loaded from memory that is only read is loaded first, at places that are made of the loop's number and such loads:

     for turn = 0 .. 4 { a = x[k]; b = of lane 3 of a; c = y[k]; .. }
     ->
     for turn = 0 .. 4 { a[turn] = x[k]; c[turn] = y[k]; }
     for turn = 0 .. 4 { b = of lane 3 of a[turn]; .. }
   Which they are is found here; emit_cuda.c writes them. Changes nothing. */
#include "codegen/cuda_ahead.h"
#include "base/ice.h"
#include "codegen/emit_cuda.h"

static bool is_load(const KirIns *x) { return x->op == KIR_load || x->op == KIR_gather; }

static bool may_begin(const KirKernel *k, const CudaWide *wide, const bool *shuffled, KirId id)
{
    const KirIns *x = &k->ins.data[id];
    if (shuffled[id] || cuda_is_dealt(wide, id) || kir_ops[x->op].kind != KIND_V) return false;
    if (x->op == KIR_var || x->op == KIR_alloc) return false;
    if (!is_load(x)) return true;
    return x->buf != KIR_NONE && k->params.data[x->buf].kind == KIR_IN && k->params.data[x->buf].restrict_;
}

CudaAhead cuda_ahead(Arena *a, const KirWalk *w, const CudaWide *wide, const bool *shuffled, const KirIns *loop)
{
    const KirKernel *k = w->k;
    const KirBlock *b = &loop->body;
    CudaAhead x = {false, ARENA_ARRAY(a, bool, k->ins.n), ARENA_ARRAY(a, bool, k->ins.n)};
    bool *here = ARENA_ARRAY(a, bool, k->ins.n), *ahead = ARENA_ARRAY(a, bool, k->ins.n), loads = false, meets = false;
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        const KirIns *y = &k->ins.data[id];
        if (!w->facts[id].live) continue;
        if (y->op == KIR_for || y->op == KIR_loop || y->op == KIR_if || y->op == KIR_barrier) return x;
        here[id] = true;
        ahead[id] = may_begin(k, wide, shuffled, id);
        for (unsigned n = 0; n < kir_ops[y->op].n_args; n++) {
            KirId arg = y->args[n];
            ahead[id] &= here[arg] ? ahead[arg] : k->ins.data[arg].op != KIR_var;
        }
        x.wanted[id] = ahead[id] && is_load(y);
        loads |= x.wanted[id];
        meets |= shuffled[id] && !wide->idle[id];
    }
    for (uint32_t i = b->ins.n; i-- > 0;) {
        KirId id = b->ins.data[i];
        const KirIns *y = &k->ins.data[id];
        for (unsigned n = 0; here[id] && n < kir_ops[y->op].n_args; n++) {
            ICE_UNLESS(!x.wanted[id] || !here[y->args[n]] || ahead[y->args[n]]); /* it can be computed there */
            if (x.wanted[id]) x.wanted[y->args[n]] |= here[y->args[n]];
            if (!x.wanted[id] || (x.later[id] && !is_load(y))) x.later[y->args[n]] = true;
        }
    }
    x.any = loads && meets;
    return x;
}
