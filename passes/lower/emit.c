/* The sharing, hoisting builder: see emit.h. It knows instructions, never what they are for. */
#include "passes/lower/emit.h"
#include "base/ice.h"

Emit emit_begin(Arena *a, KirKernel *k)
{
    Emit e = {.arena = a, .b = kir_builder(a, k), .serial = 1};
    EmitScope body = {.serial = 1};
    VEC_PUSH(a, &e.scopes, body);
    e.n_table = 256;
    e.table = ARENA_ARRAY(a, uint32_t, e.n_table);
    return e;
}

uint32_t emit_param(Emit *e, KirParam p)
{
    VEC_PUSH(e->arena, &e->written, p.kind == KIR_OUT || p.kind == KIR_INOUT);
    return kir_param(e->arena, e->b.k, p);
}

static const KirIns *ins_of(const Emit *e, KirId id) { return &e->b.k->ins.data[id]; }
static uint32_t depth_now(const Emit *e) { return e->scopes.n - 1; }

bool emit_visible(const Emit *e, KirId id)
{
    const EmitHome *h = &e->homes.data[id];
    return h->depth < e->scopes.n && e->scopes.data[h->depth].serial == h->serial;
}

KirType emit_type(const Emit *e, KirId id) { return kir_result_type(e->b.k, id); }

/* ---- placing -------------------------------------------------------------------------------------- */

static KirBlock *block_at(Emit *e, uint32_t depth)
{
    KirKernel *k = e->b.k;
    if (!depth) return &k->body;
    KirIns *owner = &k->ins.data[e->b.owners.data[depth - 1]];
    return e->b.in_other.data[depth - 1] ? &owner->other : &owner->body;
}

/* Makes the builder append to an outer block, in front of the instruction that holds the inner ones. */
static uint32_t step_out(Emit *e, uint32_t depth)
{
    uint32_t saved = e->b.owners.n;
    if (depth == saved) return saved;
    block_at(e, depth)->ins.n--;
    e->b.owners.n = e->b.in_other.n = depth;
    return saved;
}

static void step_in(Emit *e, uint32_t depth, uint32_t saved)
{
    if (depth == saved) return;
    ICE_UNLESS(depth < saved); /* only ever outwards */
    KirBlock *block = block_at(e, depth);
    VEC_PUSH(e->arena, &block->ins, e->b.owners.data[depth]);
    e->b.owners.n = e->b.in_other.n = saved;
}

/* Homes of all instructions that were appended since the last call. */
static void note_homes(Emit *e, uint32_t depth, bool live)
{
    EmitHome home = {depth, e->scopes.data[depth].serial, live};
    while (e->homes.n < e->b.k->ins.n) VEC_PUSH(e->arena, &e->homes, home);
}

static uint32_t operand_depth(const Emit *e, const KirId *args, bool *live)
{
    uint32_t depth = 0;
    for (unsigned i = 0; i < 3 && args[i] != KIR_NONE; i++) {
        const EmitHome *h = &e->homes.data[args[i]];
        if (h->depth > depth) depth = h->depth;
        *live |= h->live;
    }
    return depth;
}

static uint32_t guard_depth(const Emit *e)
{
    for (uint32_t d = e->scopes.n; d-- > 0;)
        if (e->scopes.data[d].guard) return d;
    return 0;
}

static bool can_trap(const KirIns *x)
{
    bool integer = x->type.base != KIR_F32 && x->type.base != KIR_F64;
    return x->op == KIR_load || x->op == KIR_gather || ((x->op == KIR_div || x->op == KIR_rem) && integer);
}

/* Where a pure instruction may stand; false for one that stays. */
static bool place(const Emit *e, const KirIns *x, uint32_t *depth)
{
    bool memory = x->op == KIR_load || x->op == KIR_gather;
    bool pure = kir_ops[x->op].kind == KIND_V && x->op != KIR_var && x->op != KIR_alloc;
    if (memory && (x->buf == KIR_NONE || e->written.data[x->buf])) pure = false;
    bool live = false;
    *depth = operand_depth(e, x->args, &live);
    if (!pure || live) {
        *depth = depth_now(e);
        return false;
    }
    if (can_trap(x) && *depth < guard_depth(e)) *depth = guard_depth(e);
    return true;
}

/* ---- sharing -------------------------------------------------------------------------------------- */

static bool same_ins(const KirIns *a, const KirIns *b)
{
    return a->op == b->op && a->type.base == b->type.base && a->type.lanes == b->type.lanes &&
           !memcmp(a->args, b->args, sizeof a->args) && a->i == b->i && !memcmp(&a->f, &b->f, sizeof a->f) &&
           a->buf == b->buf && a->active == b->active && a->stride == b->stride;
}

static uint32_t hash_ins(const KirIns *x)
{
    uint64_t f, h = 14695981039346656037u;
    memcpy(&f, &x->f, sizeof f);
    uint64_t parts[] = {x->op, x->type.base, x->type.lanes, x->args[0],         x->args[1], x->args[2], (uint64_t)x->i,
                        f,     x->buf,       x->active,     (uint64_t)x->stride};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) h = (h ^ parts[i]) * 1099511628211u, h ^= h >> 29;
    return (uint32_t)(h ^ h >> 32);
}

static void table_put(Emit *e, KirId id)
{
    uint32_t i = hash_ins(ins_of(e, id)) & (e->n_table - 1);
    while (e->table[i]) {
        KirId other = e->table[i] - 1;
        if (!emit_visible(e, other) && same_ins(ins_of(e, other), ins_of(e, id))) break; /* takes its place */
        i = (i + 1) & (e->n_table - 1);
    }
    if (!e->table[i]) e->n_used++;
    e->table[i] = id + 1;
}

static void table_grow(Emit *e)
{
    uint32_t *old = e->table, n = e->n_table;
    e->n_table *= 2;
    e->n_used = 0;
    e->table = ARENA_ARRAY(e->arena, uint32_t, e->n_table);
    for (uint32_t i = 0; i < n; i++)
        if (old[i] && emit_visible(e, old[i] - 1)) table_put(e, old[i] - 1);
}

static void table_add(Emit *e, KirId id)
{
    if (2 * (e->n_used + 1) > e->n_table) table_grow(e);
    table_put(e, id);
}

static KirId table_get(const Emit *e, const KirIns *x)
{
    ICE_UNLESS(2 * e->n_used <= e->n_table); /* some place is free, where the search ends */
    for (uint32_t i = hash_ins(x) & (e->n_table - 1); e->table[i]; i = (i + 1) & (e->n_table - 1)) {
        KirId id = e->table[i] - 1;
        if (emit_visible(e, id) && same_ins(ins_of(e, id), x)) return id;
    }
    return KIR_NONE;
}

/* The fields that an instruction does not use have one value, as the builder gives them. */
static void normalise(KirIns *x)
{
    bool memory = x->op == KIR_load || x->op == KIR_gather || x->op == KIR_store || x->op == KIR_prefetch;
    if (!memory) x->buf = KIR_NONE;
    if (!memory || x->buf != KIR_NONE) x->alloc = KIR_NONE;
    if (!memory || !x->active) x->active = x->type.lanes;
    if (!memory || x->op == KIR_gather || x->type.lanes == 1) x->stride = 1;
    if (x->op == KIR_iconst && x->type.base == KIR_I32) x->i = (int32_t)(uint32_t)x->i;
    if (x->op == KIR_iconst && x->type.base == KIR_I1) x->i &= 1;
    if (x->op == KIR_const && x->type.base == KIR_F32) x->f = (double)(float)x->f;
    for (unsigned i = kir_ops[x->op].n_args; i < 3; i++) x->args[i] = KIR_NONE;
}

KirId emit_ins(Emit *e, KirIns ins)
{
    normalise(&ins);
    uint32_t depth;
    bool pure = place(e, &ins, &depth);
    KirId id = pure ? table_get(e, &ins) : KIR_NONE;
    if (id != KIR_NONE) return id;
    uint32_t saved = step_out(e, depth);
    id = kir_ins(&e->b, ins);
    step_in(e, depth, saved);
    bool live = ins.op == KIR_var || ins.op == KIR_alloc;
    note_homes(e, depth, live);
    if (pure) table_add(e, id);
    return id;
}

KirId emit_keep(Emit *e, KirIns ins)
{
    uint32_t depth;
    bool pure = place(e, &ins, &depth);
    KirId id = kir_ins(&e->b, ins);
    note_homes(e, depth_now(e), ins.op == KIR_var || ins.op == KIR_alloc);
    if (pure) table_add(e, id);
    return id;
}

/* ---- values --------------------------------------------------------------------------------------- */

KirId emit_float(Emit *e, KirType t, double v) { return emit_ins(e, (KirIns){.op = KIR_const, .type = t, .f = v}); }

KirId emit_int(Emit *e, KirType t, int64_t v) { return emit_ins(e, (KirIns){.op = KIR_iconst, .type = t, .i = v}); }

KirId emit_index(Emit *e, int64_t v) { return emit_int(e, kir_type(KIR_I64, 1), v); }

bool emit_is_int(const Emit *e, KirId id, int64_t *v)
{
    const KirIns *x = ins_of(e, id);
    if (x->op != KIR_iconst) return false;
    *v = x->i;
    return true;
}

KirId emit_splat(Emit *e, KirId x, unsigned lanes)
{
    KirType t = emit_type(e, x);
    if (t.lanes == lanes) return x;
    ICE_UNLESS(t.lanes == 1);
    if (ins_of(e, x)->op == KIR_const) return emit_float(e, kir_type(t.base, lanes), ins_of(e, x)->f);
    if (ins_of(e, x)->op == KIR_iconst) return emit_int(e, kir_type(t.base, lanes), ins_of(e, x)->i);
    return emit_ins(e, (KirIns){.op = KIR_splat, .type = kir_type(t.base, lanes), .args = {x, KIR_NONE, KIR_NONE}});
}

static bool is_compare(KirOpcode op)
{
    return op == KIR_eq || op == KIR_ne || op == KIR_lt || op == KIR_le || op == KIR_ult;
}

KirId emit_op1(Emit *e, KirOpcode op, KirId x)
{
    KirType t = emit_type(e, x);
    if (op == KIR_hadd || op == KIR_hmax || op == KIR_hmin || op == KIR_hmul) {
        if (t.lanes == 1) return x;
        t.lanes = 1;
    }
    return emit_ins(e, (KirIns){.op = op, .type = t, .args = {x, KIR_NONE, KIR_NONE}});
}

/* x op y where one is a known i64: KIR_NONE without a shorter form. */
static KirId fold(Emit *e, KirOpcode op, KirId x, KirId y)
{
    KirType t = emit_type(e, x);
    int64_t a, b;
    if (t.base != KIR_I64 || t.lanes != 1) return KIR_NONE;
    bool ka = emit_is_int(e, x, &a), kb = emit_is_int(e, y, &b);
    if (ka && kb) {
        switch (op) {
        case KIR_add: return emit_index(e, (int64_t)((uint64_t)a + (uint64_t)b));
        case KIR_sub: return emit_index(e, (int64_t)((uint64_t)a - (uint64_t)b));
        case KIR_mul: return emit_index(e, (int64_t)((uint64_t)a * (uint64_t)b));
        case KIR_div: return b > 0 ? emit_index(e, a / b) : KIR_NONE;
        case KIR_rem: return b > 0 ? emit_index(e, a % b) : KIR_NONE;
        case KIR_min: return a < b ? x : y;
        default: return KIR_NONE;
        }
    }
    if (kb && b == 0 && (op == KIR_add || op == KIR_sub)) return x;
    if (ka && a == 0 && op == KIR_add) return y;
    if (kb && b == 1 && (op == KIR_mul || op == KIR_div)) return x;
    if (ka && a == 1 && op == KIR_mul) return y;
    if (kb && b == 1 && op == KIR_rem) return emit_index(e, 0);
    return KIR_NONE;
}

KirId emit_op2(Emit *e, KirOpcode op, KirId x, KirId y)
{
    unsigned lx = emit_type(e, x).lanes, ly = emit_type(e, y).lanes, lanes = lx > ly ? lx : ly;
    KirId folded = fold(e, op, x, y);
    if (folded != KIR_NONE) return folded;
    x = emit_splat(e, x, lanes);
    y = emit_splat(e, y, lanes);
    KirType t = emit_type(e, x);
    if (is_compare(op)) t.base = KIR_I1;
    return emit_ins(e, (KirIns){.op = op, .type = t, .args = {x, y, KIR_NONE}});
}

KirId emit_fma(Emit *e, KirId x, KirId y, KirId z)
{
    unsigned lanes = emit_type(e, z).lanes;
    if (emit_type(e, x).lanes > lanes) lanes = emit_type(e, x).lanes;
    if (emit_type(e, y).lanes > lanes) lanes = emit_type(e, y).lanes;
    x = emit_splat(e, x, lanes);
    y = emit_splat(e, y, lanes);
    z = emit_splat(e, z, lanes);
    KirType t = emit_type(e, x);
    if (t.base != KIR_F32 && t.base != KIR_F64) return emit_op2(e, KIR_add, emit_op2(e, KIR_mul, x, y), z);
    return emit_ins(e, (KirIns){.op = KIR_fma, .type = t, .args = {x, y, z}});
}

KirId emit_select(Emit *e, KirId c, KirId x, KirId y)
{
    if (x == y) return x;
    unsigned lanes = emit_type(e, x).lanes;
    if (emit_type(e, y).lanes > lanes) lanes = emit_type(e, y).lanes;
    if (emit_type(e, c).lanes > lanes) lanes = emit_type(e, c).lanes;
    x = emit_splat(e, x, lanes);
    y = emit_splat(e, y, lanes);
    ICE_UNLESS(emit_type(e, c).lanes == lanes || emit_type(e, c).lanes == 1);
    return emit_ins(e, (KirIns){.op = KIR_select, .type = emit_type(e, x), .args = {c, x, y}});
}

KirId emit_convert(Emit *e, KirBase to, KirId x)
{
    KirType t = emit_type(e, x);
    if (t.base == to) return x;
    t.base = to;
    return emit_ins(e, (KirIns){.op = KIR_convert, .type = t, .args = {x, KIR_NONE, KIR_NONE}});
}

KirId emit_lanes(Emit *e, KirBase base, unsigned lanes)
{
    return emit_ins(e, (KirIns){.op = KIR_lanes, .type = kir_type(base, lanes)});
}

KirId emit_repeat(Emit *e, KirId x, unsigned lanes, unsigned each)
{
    KirType t = emit_type(e, x);
    if (t.lanes == 1 || (t.lanes == lanes && each == 1)) return x;
    ICE_UNLESS(lanes <= KIR_MAX_LANES && lanes % (t.lanes * each) == 0);
    t.lanes = (uint8_t)lanes;
    return emit_ins(e, (KirIns){.op = KIR_repeat, .type = t, .args = {x, KIR_NONE, KIR_NONE}, .i = each});
}

KirId emit_part(Emit *e, KirId x, unsigned first, unsigned lanes)
{
    KirType t = emit_type(e, x);
    if (t.lanes == lanes || t.lanes == 1) return x;
    ICE_UNLESS(first + lanes <= t.lanes);
    t.lanes = (uint8_t)lanes;
    KirOpcode op = lanes == 1 ? KIR_extract : KIR_part;
    return emit_ins(e, (KirIns){.op = op, .type = t, .args = {x, KIR_NONE, KIR_NONE}, .i = first});
}

KirId emit_halves(Emit *e, KirOpcode op, KirId x, KirId y, unsigned group)
{
    if (emit_type(e, x).lanes == 1) return op == KIR_lower ? x : y;
    return emit_ins(e, (KirIns){.op = op, .type = emit_type(e, x), .args = {x, y, KIR_NONE}, .i = group});
}

KirId emit_join(Emit *e, KirId x, KirId y)
{
    unsigned lanes = 2u * emit_type(e, x).lanes;
    return emit_halves(e, KIR_lower, emit_repeat(e, x, lanes, 1), emit_repeat(e, y, lanes, 1), lanes);
}

KirId emit_load(Emit *e, uint32_t buf, KirType t, KirId index, unsigned active, int64_t stride)
{
    return emit_ins(e, (KirIns){.op = KIR_load,
                                .type = t,
                                .args = {index, KIR_NONE, KIR_NONE},
                                .buf = buf,
                                .active = (uint8_t)active,
                                .stride = stride});
}

void emit_store(Emit *e, uint32_t buf, KirId index, KirId value, unsigned active, int64_t stride)
{
    emit_ins(e, (KirIns){.op = KIR_store,
                         .type = emit_type(e, value),
                         .args = {index, value, KIR_NONE},
                         .buf = buf,
                         .active = (uint8_t)active,
                         .stride = stride});
}

void emit_prefetch(Emit *e, uint32_t buf, KirId index)
{
    emit_ins(e, (KirIns){.op = KIR_prefetch, .args = {index, KIR_NONE, KIR_NONE}, .buf = buf});
}

void emit_prefetch_far(Emit *e, uint32_t buf, KirId index)
{
    emit_ins(e, (KirIns){.op = KIR_prefetch, .args = {index, KIR_NONE, KIR_NONE}, .buf = buf, .i = 1});
}

KirId emit_var(Emit *e, const char *name, KirId init)
{
    return emit_ins(
        e, (KirIns){.op = KIR_var, .type = emit_type(e, init), .args = {init, KIR_NONE, KIR_NONE}, .name = name});
}

void emit_set(Emit *e, KirId var, KirId value)
{
    ICE_UNLESS(ins_of(e, var)->op == KIR_var && e->homes.data[var].live); /* nobody reads it as a number yet */
    emit_ins(e, (KirIns){.op = KIR_set, .type = emit_type(e, var), .args = {var, value, KIR_NONE}});
}

void emit_freeze(Emit *e, KirId var)
{
    ICE_UNLESS(ins_of(e, var)->op == KIR_var && emit_visible(e, var));
    e->homes.data[var].live = false;
}

/* ---- blocks --------------------------------------------------------------------------------------- */

static void open_scope(Emit *e, bool guard)
{
    note_homes(e, depth_now(e), false);
    EmitScope s = {++e->serial, guard};
    VEC_PUSH(e->arena, &e->scopes, s);
}

KirId emit_for(Emit *e, KirId from, KirId to, int64_t step, KirBinding bind, const char *comment)
{
    KirId id = kir_for(&e->b, from, to, step, bind, comment);
    open_scope(e, false);
    e->homes.data[id].depth = depth_now(e); /* the induction variable lives inside */
    e->homes.data[id].serial = e->serial;
    return id;
}

void emit_if(Emit *e, KirId cond)
{
    kir_if(&e->b, cond);
    open_scope(e, true);
}

void emit_else(Emit *e)
{
    ICE_UNLESS(e->scopes.data[depth_now(e)].guard);
    kir_else(&e->b);
    e->scopes.data[depth_now(e)].serial = ++e->serial;
}

void emit_loop(Emit *e)
{
    kir_loop(&e->b);
    open_scope(e, true);
}

void emit_break_if(Emit *e, KirId cond)
{
    emit_ins(e, (KirIns){.op = KIR_break_if, .type = kir_type(KIR_I1, 1), .args = {cond, KIR_NONE, KIR_NONE}});
}

void emit_end(Emit *e)
{
    ICE_UNLESS(e->scopes.n > 1); /* the kernel's body stays open */
    kir_end(&e->b);
    e->scopes.n--;
}

void emit_barrier(Emit *e) { emit_ins(e, (KirIns){.op = KIR_barrier, .buf = KIR_NONE, .alloc = KIR_NONE}); }

/* ---- expansions ----------------------------------------------------------------------------------- */

static KirId expand_at(Emit *e, KirId x, KirId y, KirId (*one)(KirBuilder *, KirType, KirId),
                       KirId (*two)(KirBuilder *, KirType, KirId, KirId))
{
    bool live = false;
    uint32_t depth = operand_depth(e, (KirId[]){x, y, KIR_NONE}, &live);
    if (live) depth = depth_now(e);
    uint32_t saved = step_out(e, depth);
    KirId id = one ? one(&e->b, emit_type(e, x), x) : two(&e->b, emit_type(e, x), x, y);
    step_in(e, depth, saved);
    note_homes(e, depth, false);
    return id;
}

KirId emit_expand(Emit *e, KirId (*expand)(KirBuilder *, KirType, KirId), KirId x)
{
    return expand_at(e, x, KIR_NONE, expand, NULL);
}

KirId emit_expand2(Emit *e, KirId (*expand)(KirBuilder *, KirType, KirId, KirId), KirId x, KirId y)
{
    unsigned lx = emit_type(e, x).lanes, ly = emit_type(e, y).lanes, lanes = lx > ly ? lx : ly;
    return expand_at(e, emit_splat(e, x, lanes), emit_splat(e, y, lanes), NULL, expand);
}

/* ---- index sums ----------------------------------------------------------------------------------- */

void lin_add(Lin *l, KirId var, int64_t scale)
{
    if (var == KIR_NONE || !scale) return;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->var[i] == var) {
            l->scale[i] += scale;
            return;
        }
    ICE_UNLESS(l->n < LIN_MAX);
    l->var[l->n] = var;
    l->scale[l->n++] = scale;
}

KirId lin_emit(Emit *e, const Lin *l)
{
    Lin s = *l;
    for (uint32_t i = 1; i < s.n; i++) /* insertion sort by depth, stable */
        for (uint32_t j = i; j && e->homes.data[s.var[j]].depth < e->homes.data[s.var[j - 1]].depth; j--) {
            KirId v = s.var[j];
            int64_t c = s.scale[j];
            s.var[j] = s.var[j - 1], s.scale[j] = s.scale[j - 1];
            s.var[j - 1] = v, s.scale[j - 1] = c;
        }
    KirId sum = emit_index(e, 0);
    for (uint32_t i = 0; i < s.n; i++) ICE_UNLESS(emit_visible(e, s.var[i]));
    for (uint32_t i = 0; i < s.n; i++)
        sum = emit_op2(e, KIR_add, sum, emit_op2(e, KIR_mul, s.var[i], emit_index(e, s.scale[i])));
    return emit_op2(e, KIR_add, sum, emit_index(e, s.konst));
}
