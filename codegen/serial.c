/* The warps of a block one after another. A loop bound to block is one bound to threads; a shared array is private to a
   block's thread. The loop over the warps is cut at barriers: what stands between two is a piece, a loop over the warps
   of its own, and a loop or branch that holds a barrier stands around pieces, since all warps go through it alike.

     for %w = 0 .. 8 warp {                for %w = 0 .. 8 { %x = ..; store kept[%w] = %x; store %s[%w] = %x }
       %x = ..
       store f32 %s[%w] = %x         =>
       barrier
       %y = add f32 %x, ..                 for %w = 0 .. 8 { %x = load kept[%w]; %y = add f32 %x, .. }
     }

   A register or private array that more than one piece touches lies in an array with a place for each warp; constants
   are said again. Without a race (kir_run) no order of the warps between two barriers matters, so this one computes
   what the kernel means. */
#include "codegen/serial.h"
#include "base/ice.h"

typedef struct Serial {
    Arena *arena;
    const KirKernel *k;
    KirBuilder b;
    KirPieces p;        /* of k */
    KirId *array;       /* [ins.n] where it is kept */
    KirId *now;         /* [ins.n] what stands for a value where instructions are written */
    uint32_t *since;    /* [ins.n] the piece that has `now` from elsewhere */
    VEC(KirId) changed; /* kept registers that the piece defines or sets */
    KirId warp, zero, n_warps;
} Serial;

static const KirIns *ins(const Serial *s, KirId id) { return &s->k->ins.data[id]; }
static bool is_block(const KirIns *x) { return kir_ops[x->op].kind == KIND_B || kir_ops[x->op].kind == KIND_BB; }

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static KirType i64(void) { return kir_type(KIR_I64, 1); }

/* A kept value has a place of its lanes for each warp, a private array one of its elements. */
static void make_arrays(Serial *s)
{
    int64_t n = s->k->ins.data[ins(s, s->warp)->args[1]].i;
    for (KirId id = 0; id < s->k->ins.n; id++) {
        const KirIns *x = ins(s, id);
        if (!s->p.kept[id]) continue;
        KirType t = kir_kept_type(x->type);
        int64_t each = x->op == KIR_alloc ? x->i : t.lanes;
        s->array[id] = kir_ins(&s->b,
                               (KirIns){.op = KIR_alloc, .type = kir_type(t.base, 1), .i = n * each, .name = x->name});
    }
}

/* Where a warp's part of an array begins. */
static KirId part_of_warp(Serial *s, KirId warp, int64_t each)
{
    return kir_op(&s->b, KIR_mul, i64(), warp, kir_int(&s->b, i64(), each), KIR_NONE);
}

static KirId load_kept(Serial *s, KirId id, KirId warp)
{
    ICE_UNLESS(s->p.kept[id] && ins(s, id)->op != KIR_alloc);
    KirType t = ins(s, id)->type, held = kir_kept_type(t);
    KirIns load = {.op = KIR_load,
                   .type = held,
                   .args = {part_of_warp(s, warp, t.lanes)},
                   .buf = KIR_NONE,
                   .alloc = s->array[id],
                   .stride = 1};
    KirId v = kir_ins(&s->b, load);
    return t.base == KIR_I1 ? kir_op(&s->b, KIR_ne, held, v, kir_int(&s->b, held, 0), KIR_NONE) : v;
}

static void store_kept(Serial *s, KirId id)
{
    ICE_UNLESS(s->p.kept[id] && s->now[id] != KIR_NONE);
    KirType t = ins(s, id)->type, held = kir_kept_type(t);
    KirId v = s->now[id];
    if (t.base == KIR_I1) v = kir_op(&s->b, KIR_convert, held, v, KIR_NONE, KIR_NONE);
    KirIns store = {.op = KIR_store,
                    .type = held,
                    .args = {part_of_warp(s, s->now[s->warp], t.lanes), v},
                    .buf = KIR_NONE,
                    .alloc = s->array[id],
                    .stride = 1};
    kir_ins(&s->b, store);
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

/* The index of an access to a private array of each warp: behind those of the warps before. */
static KirId index_in_part(Serial *s, const KirIns *x, KirId index)
{
    KirType t = kir_result_type(s->b.k, index);
    KirId begin = part_of_warp(s, s->now[s->warp], ins(s, x->alloc)->i);
    if (t.base == KIR_I32) begin = kir_op(&s->b, KIR_convert, kir_type(KIR_I32, 1), begin, KIR_NONE, KIR_NONE);
    if (t.lanes > 1) begin = kir_op(&s->b, KIR_splat, t, begin, KIR_NONE, KIR_NONE);
    return kir_op(&s->b, KIR_add, t, index, begin, KIR_NONE);
}

static void copy_block(Serial *s, const KirBlock *b);

static void copy(Serial *s, KirId id)
{
    KirIns x = *ins(s, id);
    ICE_UNLESS(x.op != KIR_barrier); /* stands between two pieces */
    for (unsigned i = 0; i < kir_ops[x.op].n_args; i++) x.args[i] = s->now[x.args[i]];
    if (x.alloc != KIR_NONE) {
        bool kept = s->p.kept[x.alloc];
        if (kept) x.args[0] = index_in_part(s, ins(s, id), x.args[0]);
        x.alloc = kept ? s->array[x.alloc] : s->now[x.alloc];
    }
    if (x.op == KIR_alloc && s->p.kept[id]) return;
    x.shared = false;
    if (!is_block(&x)) {
        s->now[id] = kir_ins(&s->b, x);
        return;
    }
    if (x.op == KIR_for) {
        s->now[id] = kir_for(&s->b, x.args[0], x.args[1], x.i, x.bind, x.comment);
        s->b.k->ins.data[s->now[id]].name = x.name;
    } else if (x.op == KIR_if) {
        kir_if(&s->b, x.args[0]);
    } else {
        kir_loop(&s->b);
    }
    copy_block(s, &x.body);
    if (x.other.ins.n) kir_else(&s->b), copy_block(s, &x.other);
    kir_end(&s->b);
}

static void copy_block(Serial *s, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) copy(s, b->ins.data[i]);
}

/* ---- a piece ----------------------------------------------------------------------------------------------------- */

static void note_change(Serial *s, KirId var)
{
    for (uint32_t i = 0; i < s->changed.n; i++)
        if (s->changed.data[i] == var) return;
    VEC_PUSH(s->arena, &s->changed, var);
}

/* A value of another piece, as a piece begins. */
static void import(Serial *s, KirId v, uint32_t piece)
{
    if (v == KIR_NONE || s->p.piece[v] < KIR_FIRST_PIECE || s->p.piece[v] == piece || s->since[v] == piece) return;
    const KirIns *x = ins(s, v);
    s->since[v] = piece;
    if (kir_is_leaf(x->op)) copy(s, v);
    else if (x->op == KIR_var) s->now[v] = kir_var(&s->b, x->name, x->type, load_kept(s, v, s->now[s->warp]));
    else if (x->op != KIR_alloc) s->now[v] = load_kept(s, v, s->now[s->warp]);
}

static void import_operands(Serial *s, KirId id, uint32_t piece)
{
    const KirIns *x = ins(s, id);
    for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) import(s, x->args[i], piece);
    import(s, x->alloc, piece);
    if (x->op == KIR_set && s->p.kept[x->args[0]]) note_change(s, x->args[0]);
    for (uint32_t i = 0; i < x->body.ins.n; i++) import_operands(s, x->body.ins.data[i], piece);
    for (uint32_t i = 0; i < x->other.ins.n; i++) import_operands(s, x->other.ins.data[i], piece);
}

static void write_piece(Serial *s, const KirId *ids, uint32_t n)
{
    if (!n) return;
    for (uint32_t i = 0; i < n; i++) ICE_UNLESS(s->p.piece[ids[i]] == s->p.piece[ids[0]]);
    s->changed.n = 0;
    s->now[s->warp] = kir_for(&s->b, s->zero, s->n_warps, 1, KIR_SEQ, "warps");
    for (uint32_t i = 0; i < n; i++) import_operands(s, ids[i], s->p.piece[ids[0]]);
    for (uint32_t i = 0; i < n; i++) {
        const KirIns *x = ins(s, ids[i]);
        copy(s, ids[i]);
        if (!s->p.kept[ids[i]] || x->op == KIR_alloc) continue;
        if (x->op == KIR_var) note_change(s, ids[i]);
        else store_kept(s, ids[i]);
    }
    for (uint32_t i = 0; i < s->changed.n; i++) store_kept(s, s->changed.data[i]);
    kir_end(&s->b);
}

/* ---- around pieces ----------------------------------------------------------------------------------------------- */

static void write_pieces(Serial *s, const KirBlock *b);

/* A value that all warps have alike, outside of their loops. */
static KirId common(Serial *s, KirId v)
{
    if (s->p.kept[v]) return load_kept(s, v, s->zero);
    if (s->p.piece[v] != KIR_OUTSIDE && kir_is_leaf(ins(s, v)->op)) copy(s, v);
    ICE_UNLESS(s->now[v] != KIR_NONE);
    return s->now[v];
}

static void write_around(Serial *s, KirId id)
{
    ICE_UNLESS(s->p.meets[id] && s->p.piece[id] == KIR_AROUND);
    const KirIns *x = ins(s, id);
    KirId a = kir_ops[x->op].n_args ? common(s, x->args[0]) : KIR_NONE,
          b = kir_ops[x->op].n_args > 1 ? common(s, x->args[1]) : KIR_NONE;
    switch (x->op) {
    case KIR_barrier: return;
    case KIR_break_if: kir_ins(&s->b, (KirIns){.op = KIR_break_if, .args = {a}}); return;
    case KIR_for:
        s->now[id] = kir_for(&s->b, a, b, x->i, x->bind, x->comment);
        s->b.k->ins.data[s->now[id]].name = x->name;
        break;
    case KIR_if: kir_if(&s->b, a); break;
    default: kir_loop(&s->b);
    }
    write_pieces(s, &x->body);
    if (x->other.ins.n) kir_else(&s->b), write_pieces(s, &x->other);
    kir_end(&s->b);
}

static void write_pieces(Serial *s, const KirBlock *b)
{
    for (uint32_t i = 0, end; i < b->ins.n; i = end) {
        for (end = i; end < b->ins.n && !s->p.meets[b->ins.data[end]];) end++;
        write_piece(s, &b->ins.data[i], end - i);
        if (end < b->ins.n) write_around(s, b->ins.data[end++]);
    }
}

const KirKernel *kir_serial(Arena *a, const KirKernel *k)
{
    if (!kir_has_block(k)) return k;
    uint32_t n = k->ins.n;
    Serial s = {.arena = a, .k = k, .p = kir_pieces(a, k), .since = ARENA_ARRAY(a, uint32_t, n)};
    s.array = ARENA_ARRAY(a, KirId, n), s.now = ARENA_ARRAY(a, KirId, n);
    memset(s.now, 0xff, n * sizeof *s.now);
    KirKernel *out = kir_kernel_new(a, k->name);
    out->comment = k->comment;
    for (uint32_t i = 0; i < k->params.n; i++) kir_param(a, out, k->params.data[i]);
    s.b = kir_builder(a, out);

    KirId block = k->body.ins.data[k->body.ins.n - 1];
    ICE_UNLESS(ins(&s, block)->bind == KIR_BLOCK);
    const KirIns *loop = ins(&s, block);
    s.warp = loop->body.ins.data[loop->body.ins.n - 1];

    for (uint32_t i = 0; i + 1 < k->body.ins.n; i++) copy(&s, k->body.ins.data[i]);
    s.now[block] = kir_for(&s.b, s.now[loop->args[0]], s.now[loop->args[1]], 1, KIR_THREADS, loop->comment);
    out->ins.data[s.now[block]].name = loop->name;
    for (uint32_t i = 0; i + 1 < loop->body.ins.n; i++) copy(&s, loop->body.ins.data[i]);
    make_arrays(&s);
    s.zero = s.now[ins(&s, s.warp)->args[0]];
    s.n_warps = s.now[ins(&s, s.warp)->args[1]];
    write_pieces(&s, &ins(&s, s.warp)->body);
    kir_end(&s.b);
    return out;
}
