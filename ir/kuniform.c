/* Where the warps of a block run the same instructions: a barrier may stand nowhere else. A value is the same in all
   warps unless it is computed from the number of the warp, or read from a private array. A loop or branch that depends
   on a value that differs parts the warps, and a register that is set where they are parted differs from there on. What
   is read from one place of a buffer or a shared array is the same in all warps: a write between two such reads would
   be a race. Spreads from operands to users, each once. */
#include "base/ice.h"
#include "ir/kernel.h"

typedef struct Use {
    KirId user;
    uint32_t next; /* 0: no more */
} Use;

typedef struct Uniform {
    const KirKernel *k;
    KirId *owner;    /* [ins.n] the instruction around it */
    uint32_t *first; /* [ins.n] into uses; 0: none */
    Use *uses;
    uint32_t n_uses;
    bool *differs; /* [ins.n] a value that may differ between warps */
    bool *parts;   /* [ins.n] of owners: warps may run it differently */
    KirId *work, *barriers;
    uint32_t n_work, n_barriers;
} Uniform;

bool kir_has_block(const KirKernel *k)
{
    const KirIns *last = k->body.ins.n ? &k->ins.data[k->body.ins.data[k->body.ins.n - 1]] : NULL;
    return last && last->op == KIR_for && last->bind == KIR_BLOCK;
}

static bool find_meetings(const KirKernel *k, KirId id, bool *meets)
{
    const KirIns *x = &k->ins.data[id];
    meets[id] = x->op == KIR_barrier;
    for (uint32_t i = 0; i < x->body.ins.n; i++) meets[id] |= find_meetings(k, x->body.ins.data[i], meets);
    for (uint32_t i = 0; i < x->other.ins.n; i++) meets[id] |= find_meetings(k, x->other.ins.data[i], meets);
    for (uint32_t i = 0; i < x->body.ins.n && meets[id]; i++)
        if (k->ins.data[x->body.ins.data[i]].op == KIR_break_if) meets[x->body.ins.data[i]] = true;
    return meets[id];
}

bool *kir_meetings(Arena *a, const KirKernel *k)
{
    bool *meets = ARENA_ARRAY(a, bool, k->ins.n + 1);
    for (uint32_t i = 0; i < k->body.ins.n; i++) find_meetings(k, k->body.ins.data[i], meets);
    return meets;
}

KirType kir_kept_type(KirType t) { return kir_type(t.base == KIR_I1 ? KIR_I32 : t.base, t.lanes); }

bool kir_is_leaf(KirOpcode op) { return op == KIR_const || op == KIR_iconst || op == KIR_param || op == KIR_lanes; }

static void place(const KirKernel *k, KirPieces *p, KirId id, uint32_t piece)
{
    const KirIns *x = &k->ins.data[id];
    p->piece[id] = piece;
    for (uint32_t i = 0; i < x->body.ins.n; i++) place(k, p, x->body.ins.data[i], piece);
    for (uint32_t i = 0; i < x->other.ins.n; i++) place(k, p, x->other.ins.data[i], piece);
}

static void cut(const KirKernel *k, KirPieces *p, const KirBlock *b, uint32_t *last)
{
    ++*last;
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        const KirIns *x = &k->ins.data[id];
        place(k, p, id, p->meets[id] ? KIR_AROUND : *last);
        if (!p->meets[id]) continue;
        if (x->body.ins.n) cut(k, p, &x->body, last);
        if (x->other.ins.n) cut(k, p, &x->other, last);
        ++*last;
    }
}

static void find_kept(const KirKernel *k, KirPieces *p, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        const KirIns *x = &k->ins.data[id];
        for (unsigned arg = 0; arg < 4; arg++) {
            KirId v = arg < 3 ? x->args[arg] : x->alloc;
            bool other = v != KIR_NONE && p->piece[v] >= KIR_FIRST_PIECE && p->piece[v] != p->piece[id];
            if (other && !kir_is_leaf(k->ins.data[v].op)) p->kept[v] = true;
        }
        find_kept(k, p, &x->body);
        find_kept(k, p, &x->other);
    }
}

KirPieces kir_pieces(Arena *a, const KirKernel *k)
{
    uint32_t n = k->ins.n, last = KIR_FIRST_PIECE;
    ICE_UNLESS(kir_has_block(k));
    KirPieces p = {kir_meetings(a, k), ARENA_ARRAY(a, uint32_t, n), ARENA_ARRAY(a, bool, n)};
    const KirBlock *block = &k->ins.data[k->body.ins.data[k->body.ins.n - 1]].body;
    const KirBlock *warp = &k->ins.data[block->ins.data[block->ins.n - 1]].body;
    cut(k, &p, warp, &last);
    find_kept(k, &p, warp);
    return p;
}

static void differ(Uniform *u, KirId id)
{
    if (u->differs[id]) return;
    u->differs[id] = true;
    ICE_UNLESS(u->n_work < u->k->ins.n);
    u->work[u->n_work++] = id;
}

static void walk(Uniform *u, const KirBlock *b, KirId owner)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        const KirIns *x = &u->k->ins.data[id];
        u->owner[id] = owner;
        for (unsigned arg = 0; arg < kir_ops[x->op].n_args; arg++) {
            u->uses[++u->n_uses] = (Use){id, u->first[x->args[arg]]};
            u->first[x->args[arg]] = u->n_uses;
        }
        ICE_UNLESS(u->n_uses <= 3 * u->k->ins.n);
        bool reads = x->op == KIR_load || x->op == KIR_gather;
        if ((x->op == KIR_for && x->bind == KIR_WARP) ||
            (reads && x->buf == KIR_NONE && !u->k->ins.data[x->alloc].shared))
            differ(u, id);
        if (x->op == KIR_barrier) u->barriers[u->n_barriers++] = id;
        walk(u, &x->body, id);
        walk(u, &x->other, id);
    }
}

static void part(Uniform *u, KirId id)
{
    const KirIns *x = &u->k->ins.data[id];
    if (x->op == KIR_set) differ(u, x->args[0]);
    if (u->parts[id]) return;
    u->parts[id] = true;
    for (uint32_t i = 0; i < x->body.ins.n; i++) part(u, x->body.ins.data[i]);
    for (uint32_t i = 0; i < x->other.ins.n; i++) part(u, x->other.ins.data[i]);
}

static void spread(Uniform *u, KirId user)
{
    const KirIns *x = &u->k->ins.data[user];
    switch (x->op) {
    case KIR_set: differ(u, x->args[0]); break;
    case KIR_for: differ(u, user), part(u, user); break;
    case KIR_if: part(u, user); break;
    case KIR_break_if: part(u, u->owner[user]); break;
    default:
        if (kir_ops[x->op].kind == KIND_V) differ(u, user);
    }
}

KirId kir_parted_barrier(Arena *a, const KirKernel *k)
{
    uint32_t n = k->ins.n;
    Uniform u = {.k = k,
                 .owner = ARENA_ARRAY(a, KirId, n),
                 .first = ARENA_ARRAY(a, uint32_t, n),
                 .uses = ARENA_ARRAY(a, Use, 3 * (size_t)n + 1),
                 .differs = ARENA_ARRAY(a, bool, n),
                 .parts = ARENA_ARRAY(a, bool, n),
                 .work = ARENA_ARRAY(a, KirId, n),
                 .barriers = ARENA_ARRAY(a, KirId, n)};
    walk(&u, &k->body, KIR_NONE);
    while (u.n_work)
        for (uint32_t use = u.first[u.work[--u.n_work]]; use; use = u.uses[use].next) spread(&u, u.uses[use].user);
    for (uint32_t i = 0; i < u.n_barriers; i++)
        for (KirId at = u.owner[u.barriers[i]]; at != KIR_NONE; at = u.owner[at])
            if (u.parts[at]) return u.barriers[i];
    return KIR_NONE;
}
