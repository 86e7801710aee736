/* The walker: facts about values first, then one visit in order. Facts are worked out backwards:
   what stores, loops and branches need is live; a live value with one use in its own block may be
   spelled there when no instruction in between changes what it reads. It never changes the kernel.
 */
#include "codegen/walk.h"
#include "base/ice.h"

enum { MAX_FOLDED = 8 }; /* size of one spelled expression, vectors count twice: more is hard to read */

typedef struct Place {   /* of an instruction */
    KirId owner;         /* KIR_NONE: the kernel's body */
    uint32_t at;         /* index in its block */
    bool other;          /* in the second block of its owner */
    KirId writers, next; /* of a var or an array: list of its sets or stores */
} Place;

typedef struct Facts {
    Arena *arena;
    const KirKernel *k;
    const Emitter *e;
    void *ctx; /* of e */
    KirFacts *facts;
    Place *places;
    KirId *user;      /* [ins.n] the last live user met */
    uint32_t *size;   /* [ins.n] of a folded value as spelled, operands included */
    VEC(KirId) order; /* all instructions as they stand */
    VEC(KirId) work;
} Facts;

/* ---- places ------------------------------------------------------------------------------------- */

/* The var or array an instruction writes, or KIR_NONE. */
static KirId written_value(const KirIns *x)
{
    return x->op == KIR_set ? x->args[0] : x->op == KIR_store ? x->alloc : KIR_NONE;
}

static void place_block(Facts *f, const KirBlock *b, KirId owner, bool other)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        const KirIns *x = &f->k->ins.data[id];
        Place *p = &f->places[id];
        p->owner = owner, p->at = i, p->other = other;
        VEC_PUSH(f->arena, &f->order, id);
        KirId written = written_value(x);
        if (written != KIR_NONE) {
            p->next = f->places[written].writers;
            f->places[written].writers = id;
        }
        place_block(f, &x->body, id, false);
        place_block(f, &x->other, id, true);
    }
}

/* ---- live --------------------------------------------------------------------------------------- */

static void mark(Facts *f, KirId id)
{
    if (id == KIR_NONE || f->facts[id].live) return;
    f->facts[id].live = true;
    VEC_PUSH(f->arena, &f->work, id);
}

/* A store to a private array or a set matters only where the array or var is read. */
static bool is_root(const Facts *f, const KirIns *x)
{
    return (x->op == KIR_prefetch && f->e->prefetch) || x->op == KIR_break_if || x->op == KIR_barrier ||
           (x->op == KIR_store && x->buf != KIR_NONE);
}

static void mark_live(Facts *f)
{
    for (uint32_t i = 0; i < f->order.n; i++)
        if (is_root(f, &f->k->ins.data[f->order.data[i]])) mark(f, f->order.data[i]);
    while (f->work.n) {
        KirId id = f->work.data[--f->work.n];
        const KirIns *x = &f->k->ins.data[id];
        for (unsigned i = 0; i < 3; i++) mark(f, x->args[i]);
        mark(f, x->alloc);
        mark(f, f->places[id].owner);
        for (KirId w = f->places[id].writers; w != KIR_NONE; w = f->places[w].next) mark(f, w);
    }
}

static void count_uses(Facts *f)
{
    for (uint32_t i = 0; i < f->order.n; i++) {
        KirId id = f->order.data[i];
        const KirIns *x = &f->k->ins.data[id];
        if (!f->facts[id].live) continue;
        for (unsigned arg = x->op == KIR_set; arg < kir_ops[x->op].n_args; arg++) {
            ICE_UNLESS(f->facts[x->args[arg]].live); /* what a live instruction reads is live */
            f->facts[x->args[arg]].uses++;
            f->user[x->args[arg]] = id;
        }
    }
}

/* ---- fold --------------------------------------------------------------------------------------- */

/* What a value may not be moved past, as positions in the block being scanned; UINT32_MAX: nothing
 * of the kind. */
typedef struct Barriers {
    uint32_t block;       /* the next instruction with blocks */
    uint32_t *stored;     /* [params.n] the next store to a buffer */
    uint32_t *set;        /* [ins.n] of vars and arrays: the next set or store */
    uint32_t *spelled_at; /* [ins.n] where a value is spelled in the end */
} Barriers;

static uint32_t first(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The next store that a load could see. */
static uint32_t next_store(const Facts *f, const Barriers *b, const KirIns *load)
{
    uint32_t at = UINT32_MAX;
    if (load->buf == KIR_NONE) return b->set[load->alloc];
    const KirParam *params = f->k->params.data;
    for (uint32_t i = 0; i < f->k->params.n; i++)
        if (i == load->buf || !(params[i].restrict_ || params[load->buf].restrict_)) at = first(at, b->stored[i]);
    return at;
}

static uint32_t first_change(const Facts *f, const Barriers *b, const KirIns *x)
{
    uint32_t at = UINT32_MAX;
    bool reads = x->op == KIR_load || x->op == KIR_gather;
    if (reads) at = next_store(f, b, x);
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) {
        if (f->k->ins.data[x->args[i]].op != KIR_var) continue;
        reads = true;
        at = first(at, b->set[x->args[i]]);
    }
    return reads ? first(at, b->block) : at;
}

static bool may_fold(const Facts *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    if (kir_ops[x->op].kind != KIND_V || x->op == KIR_var || x->op == KIR_alloc || f->facts[id].uses != 1) return false;
    if (f->e->alone && f->e->alone(f->ctx, f->k, id)) return false;
    const Place *mine = &f->places[id], *theirs = &f->places[f->user[id]];
    bool same_block = mine->owner == theirs->owner && mine->other == theirs->other;
    return same_block && f->k->ins.data[f->user[id]].op != KIR_for;
}

/* Backwards: where a value folded into its user is spelled in the end is known when the value is
 * met. */
static void fold_ins(Facts *f, KirId id, uint32_t at, Barriers *b)
{
    const KirIns *x = &f->k->ins.data[id];
    b->spelled_at[id] = at;
    if (may_fold(f, id)) {
        uint32_t user_at = b->spelled_at[f->user[id]];
        ICE_UNLESS(at < user_at); /* the user stands behind it, and so does where the user is spelled */
        f->facts[id].fold = user_at <= first_change(f, b, x);
        if (f->facts[id].fold) b->spelled_at[id] = user_at;
    }
    KirKind kind = kir_ops[x->op].kind;
    if (kind == KIND_B || kind == KIND_BB || x->op == KIR_barrier) b->block = at;
    if (x->op == KIR_store && x->buf != KIR_NONE) b->stored[x->buf] = at;
    if (written_value(x) != KIR_NONE) b->set[written_value(x)] = at;
}

static void fold_block(Facts *f, const KirBlock *block, Barriers *b)
{
    b->block = UINT32_MAX;
    memset(b->stored, 0xff, f->k->params.n * sizeof *b->stored);
    for (uint32_t i = block->ins.n; i-- > 0;)
        if (f->facts[block->ins.data[i]].live) fold_ins(f, block->ins.data[i], i, b);
    for (uint32_t i = 0; i < block->ins.n; i++) { /* what is written here is no barrier elsewhere */
        const KirIns *x = &f->k->ins.data[block->ins.data[i]];
        if (written_value(x) != KIR_NONE) b->set[written_value(x)] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < block->ins.n; i++) {
        const KirIns *x = &f->k->ins.data[block->ins.data[i]];
        if (x->body.ins.n) fold_block(f, &x->body, b);
        if (x->other.ins.n) fold_block(f, &x->other, b);
    }
}

/* Forwards: what grew too large is named after all. Being spelled earlier never hurts its operands. */
static void limit_folds(Facts *f)
{
    for (uint32_t i = 0; i < f->order.n; i++) {
        KirId id = f->order.data[i];
        const KirIns *x = &f->k->ins.data[id];
        f->size[id] = x->type.lanes > 1 ? 2 : 1;
        for (unsigned arg = 0; arg < kir_ops[x->op].n_args; arg++)
            if (f->facts[x->args[arg]].fold) f->size[id] += f->size[x->args[arg]];
        if (f->size[id] > MAX_FOLDED) f->facts[id].fold = false;
        if (kir_is_leaf(x->op)) f->facts[id].fold = true, f->size[id] = x->type.lanes > 1;
    }
}

static KirFacts *find_facts(Arena *a, const KirKernel *k, const Emitter *e, void *ctx)
{
    Facts f = {.arena = a, .k = k, .e = e, .ctx = ctx};
    f.facts = ARENA_ARRAY(a, KirFacts, k->ins.n);
    f.places = ARENA_ARRAY(a, Place, k->ins.n);
    f.user = ARENA_ARRAY(a, KirId, k->ins.n);
    f.size = ARENA_ARRAY(a, uint32_t, k->ins.n);
    for (uint32_t i = 0; i < k->ins.n; i++)
        f.places[i] = (Place){.owner = KIR_NONE, .writers = KIR_NONE, .next = KIR_NONE};
    place_block(&f, &k->body, KIR_NONE, false);
    mark_live(&f);
    count_uses(&f);
    Barriers b = {.stored = ARENA_ARRAY(a, uint32_t, k->params.n),
                  .set = ARENA_ARRAY(a, uint32_t, k->ins.n),
                  .spelled_at = ARENA_ARRAY(a, uint32_t, k->ins.n)};
    memset(b.set, 0xff, k->ins.n * sizeof *b.set);
    fold_block(&f, &k->body, &b);
    limit_folds(&f);
    return f.facts;
}

/* ---- the visit ---------------------------------------------------------------------------------- */

typedef struct Visit {
    KirWalk w;
    const Emitter *e;
    void *ctx;
} Visit;

static void visit_block(Visit *v, const KirBlock *b);

static void visit_owner(Visit *v, KirId id)
{
    const KirIns *x = &v->w.k->ins.data[id];
    ICE_UNLESS(x->op == KIR_for || x->op == KIR_loop || x->op == KIR_if);
    const Emitter *e = v->e;
    (x->op == KIR_for ? e->begin_for : x->op == KIR_loop ? e->begin_loop : e->begin_if)(v->ctx, &v->w, id);
    v->w.depth++;
    visit_block(v, &x->body);
    if (x->other.ins.n) {
        v->w.depth--;
        e->begin_else(v->ctx, &v->w, id);
        v->w.depth++;
        visit_block(v, &x->other);
    }
    v->w.depth--;
    (x->op == KIR_for ? e->end_for : x->op == KIR_loop ? e->end_loop : e->end_if)(v->ctx, &v->w, id);
}

static void visit_ins(Visit *v, KirId id)
{
    const Emitter *e = v->e;
    switch (v->w.k->ins.data[id].op) {
    case KIR_load: e->load(v->ctx, &v->w, id); break;
    case KIR_gather: e->gather(v->ctx, &v->w, id); break;
    case KIR_store: e->store(v->ctx, &v->w, id); break;
    case KIR_prefetch: e->prefetch(v->ctx, &v->w, id); break;
    case KIR_barrier: e->barrier(v->ctx, &v->w, id); break;
    case KIR_alloc: e->alloc(v->ctx, &v->w, id); break;
    case KIR_var: e->var(v->ctx, &v->w, id); break;
    case KIR_set: e->set(v->ctx, &v->w, id); break;
    case KIR_break_if: e->break_if(v->ctx, &v->w, id); break;
    case KIR_for:
    case KIR_loop:
    case KIR_if: visit_owner(v, id); break;
    default: e->value(v->ctx, &v->w, id); break;
    }
}

static void visit_block(Visit *v, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++)
        if (v->w.facts[b->ins.data[i]].live) visit_ins(v, b->ins.data[i]);
}

static bool *find_live_params(Arena *a, const KirKernel *k, const KirFacts *facts)
{
    bool *live = ARENA_ARRAY(a, bool, k->params.n);
    for (uint32_t i = 0; i < k->ins.n; i++) {
        const KirIns *x = &k->ins.data[i];
        if (!facts[i].live) continue;
        if (x->op == KIR_param) live[x->i] = true;
        if (x->buf != KIR_NONE) live[x->buf] = true;
    }
    return live;
}

void kir_walk(Arena *a, const KirKernel *k, const Emitter *e, void *ctx)
{
    KirFacts *facts = find_facts(a, k, e, ctx);
    Visit v = {.w = {.k = k, .facts = facts, .param_live = find_live_params(a, k, facts)}, .e = e, .ctx = ctx};
    for (uint32_t i = 0; i < k->ins.n; i++) {
        const KirIns *x = &k->ins.data[i];
        if (!facts[i].live || x->op != KIR_for) continue;
        ICE_UNLESS(e->barrier || x->bind <= KIR_THREADS);
        if (x->bind == KIR_THREADS || x->bind == KIR_BLOCK) v.w.has_threads = true;
    }
    e->begin_kernel(ctx, &v.w);
    visit_block(&v, &k->body);
    ICE_UNLESS(v.w.depth == 0);
    e->end_kernel(ctx, &v.w);
}
