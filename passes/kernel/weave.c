/* weave: the order of instructions inside a block. Chains that do not depend on each other run side by side. An
   evaluator writes what one vector of a row needs, then the next vector; each is a chain of operations that wait for
   one another, and a CPU looks ahead over too few instructions to find the next chain.

     %a1 = exp step 1 of the first vector        %a1 = step 1 of the first
     %a2 = exp step 2                            %b1 = step 1 of the second
     ...                                    ->   %a2 = step 2 of the first
     %b1 = exp step 1 of the second              %b2 = step 2 of the second
   List scheduling: of the instructions that may come next the one that most has to wait for, as long as the values that
   wait fit in registers. Nothing leaves its block or passes a loop or branch, no bit changes. The order counts on the
   same registers on every CPU: where they are 32, with the 16 of AVX2 it gains and loses nothing, so no kernel is
   lowered twice for it. */
#include "base/ice.h"
#include "passes/kernel/kernel_passes.h"

enum { LEAST = 4, MOST = 4096 /* instructions of a run */, LEAST_FREE = 10 };

typedef struct Edge {
    uint32_t to, next; /* next: + 1 */
} Edge;

typedef struct Node { /* an instruction of the run, in the order it was written */
    KirId id;
    uint32_t edges; /* to those that must come later: + 1 */
    uint32_t waits; /* for so many */
    uint32_t uses;  /* by instructions of the run that are not placed yet */
    int64_t height; /* cycles from here to the end of the longest chain */
} Node;

typedef struct Weave {
    Arena *arena;
    const KirKernel *k;
    const Machine *machine;
    unsigned registers;
    uint32_t *node_of; /* by value: + 1 */
    Node *nodes;
    uint32_t n;
    VEC(Edge) edges;
    VEC(uint32_t) ready; /* nodes that wait for none, not placed yet */
} Weave;

static int64_t cycles(const Machine *m, const KirIns *x)
{
    switch (x->op) {
    /* clang-format off */
    case KIR_const: case KIR_iconst: case KIR_param: case KIR_lanes: case KIR_set: case KIR_prefetch:
    case KIR_store: return 0;
    case KIR_and: case KIR_or: case KIR_xor: case KIR_shl: case KIR_lshr: case KIR_ashr: case KIR_bitcast:
    case KIR_select:
    case KIR_neg: case KIR_abs: return 1;
    case KIR_div: case KIR_sqrt: return m->divide_cycles;
    case KIR_load: case KIR_gather: return m->load_cycles;
    case KIR_hadd: case KIR_hmul: case KIR_hmax: case KIR_hmin: return m->fold_cycles;
    /* clang-format on */
    default: return m->arith_cycles;
    }
}

static const KirIns *ins_of(const Weave *w, uint32_t i) { return &w->k->ins.data[w->nodes[i].id]; }

/* ---- what must stay in order ------------------------------------------------------------------------------- */

static void add_edge(Weave *w, uint32_t from, uint32_t to)
{
    ICE_UNLESS(from < to);
    VEC_PUSH(w->arena, &w->edges, ((Edge){to, w->nodes[from].edges}));
    w->nodes[from].edges = w->edges.n;
    w->nodes[to].waits++;
}

static bool touches_memory(const KirIns *x) { return x->op == KIR_load || x->op == KIR_gather || x->op == KIR_store; }

/* The constant part of an index. */
static KirId split_index(const Weave *w, KirId index, int64_t *offset)
{
    const KirIns *x = &w->k->ins.data[index];
    *offset = 0;
    if (x->op != KIR_add || w->k->ins.data[x->args[1]].op != KIR_iconst) return index;
    *offset = w->k->ins.data[x->args[1]].i;
    return x->args[0];
}

static bool may_overlap(const Weave *w, const KirIns *x, const KirIns *y)
{
    if (x->alloc != y->alloc) return false; /* arrays and buffers */
    if (x->alloc == KIR_NONE && x->buf != y->buf)
        return !w->k->params.data[x->buf].restrict_ && !w->k->params.data[y->buf].restrict_;
    bool plain = x->op != KIR_gather && y->op != KIR_gather && x->stride == 1 && y->stride == 1;
    int64_t at, other;
    if (!plain || split_index(w, x->args[0], &at) != split_index(w, y->args[0], &other)) return true;
    return at < other ? at + x->type.lanes > other : other + y->type.lanes > at;
}

static bool has_operand(const KirIns *x, KirId v)
{
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++)
        if (x->args[i] == v) return true;
    return false;
}

/* Of two instructions where the later one writes, or reads what the other writes. */
static bool conflict(const Weave *w, const KirIns *first, const KirIns *then)
{
    if (touches_memory(first) && touches_memory(then))
        return (first->op == KIR_store || then->op == KIR_store) && may_overlap(w, first, then);
    bool sets = then->op == KIR_set, set = first->op == KIR_set;
    return (sets && has_operand(first, then->args[0])) || (set && has_operand(then, first->args[0]));
}

/* Reads or writes what changes. */
static bool is_mutable(const Weave *w, const KirIns *x)
{
    if (touches_memory(x) || x->op == KIR_set) return true;
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++)
        if (w->k->ins.data[x->args[i]].op == KIR_var) return true;
    return false;
}

static void find_edges(Weave *w)
{
    uint32_t *before = ARENA_ARRAY(w->arena, uint32_t, w->n), n = 0; /* what reads or writes what changes */
    for (uint32_t i = 0; i < w->n; i++) {
        const KirIns *x = ins_of(w, i);
        for (unsigned a = 0; a < kir_ops[x->op].n_args; a++) {
            uint32_t from = w->node_of[x->args[a]];
            if (!from) continue;
            add_edge(w, from - 1, i);
            w->nodes[from - 1].uses++;
        }
        if (!is_mutable(w, x)) continue;
        for (uint32_t j = 0; j < n; j++)
            if (conflict(w, ins_of(w, before[j]), x)) add_edge(w, before[j], i);
        before[n++] = i;
    }
}

static int64_t find_heights(Weave *w)
{
    int64_t most = 0;
    for (uint32_t i = w->n; i-- > 0;) {
        int64_t below = 0;
        for (uint32_t e = w->nodes[i].edges; e; e = w->edges.data[e - 1].next)
            if (w->nodes[w->edges.data[e - 1].to].height > below) below = w->nodes[w->edges.data[e - 1].to].height;
        w->nodes[i].height = below + cycles(w->machine, ins_of(w, i));
        if (w->nodes[i].height > most) most = w->nodes[i].height;
    }
    return most;
}

/* ---- placing ------------------------------------------------------------------------------------------------ */

static bool fills_register(const KirIns *x)
{
    bool constant = x->op == KIR_const || x->op == KIR_iconst;
    return x->type.lanes > 1 && x->type.base != KIR_I1 && kir_ops[x->op].kind == KIND_V && !constant;
}

/* Registers that sums and what stands before the run take. */
static unsigned registers_taken(Weave *w)
{
    unsigned n = 0;
    bool *seen = ARENA_ARRAY(w->arena, bool, w->k->ins.n);
    for (uint32_t i = 0; i < w->n; i++)
        for (unsigned a = 0; a < kir_ops[ins_of(w, i)->op].n_args; a++) {
            KirId v = ins_of(w, i)->args[a];
            if (w->node_of[v] || seen[v]) continue;
            seen[v] = true;
            n += fills_register(&w->k->ins.data[v]);
        }
    return n;
}

/* Takes a node that is ready: the first that was written, or of those with the longest chain behind them the first. */
static uint32_t pick(Weave *w, bool full)
{
    ICE_UNLESS(w->ready.n); /* edges lead forward: some node always waits for none */
    uint32_t best = 0, *ready = w->ready.data;
    for (uint32_t i = 1; i < w->ready.n; i++) {
        int64_t x = w->nodes[ready[i]].height, y = w->nodes[ready[best]].height;
        if (!full && x != y ? x > y : ready[i] < ready[best]) best = i;
    }
    uint32_t node = ready[best];
    ready[best] = ready[--w->ready.n];
    return node;
}

static unsigned place(Weave *w, uint32_t i, unsigned live)
{
    const KirIns *x = ins_of(w, i);
    ICE_UNLESS(!w->nodes[i].waits);
    for (uint32_t e = w->nodes[i].edges; e; e = w->edges.data[e - 1].next) {
        uint32_t to = w->edges.data[e - 1].to;
        if (!--w->nodes[to].waits) VEC_PUSH(w->arena, &w->ready, to);
    }
    for (unsigned a = 0; a < kir_ops[x->op].n_args; a++) {
        uint32_t from = w->node_of[x->args[a]];
        if (from && --w->nodes[from - 1].uses == 0 && fills_register(ins_of(w, from - 1))) live--;
    }
    return live + (w->nodes[i].uses && fills_register(x));
}

static void weave_run(Weave *w, KirId *ids, uint32_t n)
{
    w->n = n;
    w->nodes = ARENA_ARRAY(w->arena, Node, n);
    w->edges.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        w->nodes[i].id = ids[i];
        w->node_of[ids[i]] = i + 1;
    }
    find_edges(w);
    if (find_heights(w) > w->machine->chain_cycles) {
        unsigned taken = registers_taken(w), live = 0;
        unsigned room = taken + LEAST_FREE > w->registers ? LEAST_FREE : w->registers - taken;
        w->ready.n = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!w->nodes[i].waits) VEC_PUSH(w->arena, &w->ready, i);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t best = pick(w, live >= room);
            live = place(w, best, live);
            ids[i] = w->nodes[best].id;
        }
    }
    for (uint32_t i = 0; i < n; i++) w->node_of[w->nodes[i].id] = 0;
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

static bool ends_run(const KirIns *x)
{
    bool block = kir_ops[x->op].kind == KIND_B || kir_ops[x->op].kind == KIND_BB;
    return block || x->op == KIR_break_if || x->op == KIR_var || x->op == KIR_alloc || x->op == KIR_barrier;
}

static void weave_block(Weave *w, KirBlock *b)
{
    uint32_t from = 0;
    for (uint32_t i = 0; i <= b->ins.n; i++) {
        KirIns *x = i < b->ins.n ? &w->k->ins.data[b->ins.data[i]] : NULL;
        if (x && !ends_run(x)) continue;
        if (i - from >= LEAST && i - from <= MOST) weave_run(w, b->ins.data + from, i - from);
        from = i + 1;
        if (!x) break;
        weave_block(w, &x->body);
        weave_block(w, &x->other);
    }
}

/* The blocks of k get lists of their own. */
static void copy_lists(Arena *a, KirKernel *k, KirBlock *b)
{
    KirBlock own = {0};
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirIns *x = &k->ins.data[b->ins.data[i]];
        VEC_PUSH(a, &own.ins, b->ins.data[i]);
        copy_lists(a, k, &x->body);
        copy_lists(a, k, &x->other);
    }
    *b = own;
}

KirKernel *weave_kernel(Arena *a, const Machine *machine, const KirKernel *k, int64_t registers)
{
    KirKernel *next = ARENA_NEW(a, KirKernel);
    *next = *k;
    next->ins.data = ARENA_ARRAY(a, KirIns, k->ins.n);
    next->ins.cap = k->ins.n;
    if (k->ins.n) memcpy(next->ins.data, k->ins.data, k->ins.n * sizeof *k->ins.data);
    copy_lists(a, next, &next->body);
    Arena *scratch = arena_new();
    Weave w = {.arena = scratch,
               .k = next,
               .machine = machine,
               .registers = (unsigned)registers,
               .node_of = ARENA_ARRAY(scratch, uint32_t, k->ins.n + 1)};
    weave_block(&w, &next->body);
    arena_free(scratch);
    return next;
}

static void weave_one(PassContext *ctx, KirKernel **k, int64_t registers)
{
    if (!*k || !registers) return;
    *k = weave_kernel(ctx->stage, ctx->machine, *k, registers);
    ICE_UNLESS(ctx->verify == PASS_VERIFY_OFF || kir_verify(*k, ctx->diags));
}

void weave_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan)
{
    uint32_t n = 0, n_parts = 0; /* steps come to kernels in their order */
    for (uint32_t i = 0; i < plan->programs.n; i++)
        for (uint32_t s = 0; s < plan->programs.data[i]->steps.n; s++) {
            const PlanStep *step = &plan->programs.data[i]->steps.data[s];
            int64_t registers = fm->funcs.data[i]->tiles->group[0][step->group].woven;
            if (step->kernel == n) {
                for (unsigned x = 0; x < PLAN_N_VARIANTS; x++)
                    weave_one(ctx, &plan->kernels.data[n].variants[x], registers);
                n++;
            }
            const PlanSplit *split = plan_split(step);
            if (split && split->kernel == n_parts) weave_one(ctx, &plan->splits.data[n_parts++], registers);
        }
}
