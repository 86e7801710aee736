/* Where a kernel's arrays lie on a GPU, and which memory lanes hand to each other. Lane l of a vector access touches
   element base + l. Where the bases of all accesses to an array or buffer leave one remainder by the lanes of a warp in
   an iteration of the parallel loop, no lane ever touches an element of another, and nobody has to wait. A base is
   followed through additions and products with constants to values that the iteration does not change. */
#include "codegen/cuda_memory.h"
#include "base/ice.h"

enum {
    MOST_TERMS = 4,
    MOST_REGISTERS = 32, /* of an array in each lane */
    ALIGNED = 16         /* bytes of an array's place */
};

/* Of an access, modulo the lanes of a warp: a constant and multiples of values that are fixed in an iteration. */
typedef struct Base {
    bool known;
    uint8_t rest, n;
    struct {
        KirId id;
        uint8_t times;
    } term[MOST_TERMS];
} Base;

typedef struct Finder {
    const KirKernel *k;
    uint32_t lanes; /* of a warp */
    bool *in_loop;  /* [ins.n] it stands in a loop inside an iteration */
    bool *known;    /* [ins.n] base is there */
    Base *base;     /* [ins.n] */
} Finder;

bool cuda_is_access(const KirIns *x) { return x->op == KIR_load || x->op == KIR_gather || x->op == KIR_store; }
uint32_t cuda_n_objects(const KirKernel *k) { return k->params.n + 1 + k->ins.n; }

uint32_t cuda_object(const KirKernel *k, const KirIns *x)
{
    if (x->buf == KIR_NONE) return k->params.n + 1 + x->alloc;
    return k->params.data[x->buf].restrict_ ? x->buf : k->params.n;
}

/* ---- bases ---- */

static void find_loops(Finder *f, const KirBlock *b, bool in_loop)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        const KirIns *x = &f->k->ins.data[b->ins.data[i]];
        bool turns = x->op == KIR_loop || (x->op == KIR_for && x->bind <= KIR_UNROLL);
        f->in_loop[b->ins.data[i]] = in_loop;
        find_loops(f, &x->body, in_loop || turns);
        find_loops(f, &x->other, in_loop);
    }
}

static Base scaled(const Finder *f, Base b, uint32_t times)
{
    if (times == 0) return (Base){.known = true};
    b.rest = (uint8_t)(b.rest * times % f->lanes);
    uint8_t n = 0;
    for (uint8_t i = 0; i < b.n; i++) {
        b.term[n] = b.term[i];
        b.term[n].times = (uint8_t)(b.term[i].times * times % f->lanes);
        if (b.term[n].times) n++;
    }
    b.n = n;
    return b;
}

/* Terms stay in the order of their ids. */
static Base sum(const Finder *f, Base a, Base b)
{
    Base s = {.known = a.known && b.known, .rest = (uint8_t)((a.rest + b.rest) % f->lanes)};
    for (uint8_t i = 0, j = 0; s.known && (i < a.n || j < b.n);) {
        bool from_a = j == b.n || (i < a.n && a.term[i].id <= b.term[j].id),
             from_b = i == a.n || (j < b.n && b.term[j].id <= a.term[i].id);
        KirId id = from_a ? a.term[i].id : b.term[j].id;
        uint32_t times = (from_a ? a.term[i++].times : 0u) + (from_b ? b.term[j++].times : 0u);
        if (times % f->lanes == 0) continue;
        if (s.n == MOST_TERMS) return (Base){0};
        s.term[s.n].id = id, s.term[s.n++].times = (uint8_t)(times % f->lanes);
    }
    return s;
}

static const KirIns *constant(const Finder *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    return x->op == KIR_iconst ? x : NULL;
}

static Base find_base(Finder *f, KirId id)
{
    const KirIns *x = &f->k->ins.data[id];
    if (f->known[id]) return f->base[id];
    f->known[id] = true; /* unknown to itself: none of its operands is */
    Base leaf = {.known = !f->in_loop[id] && x->op != KIR_var, .n = 1, .term = {{id, 1}}}, b = leaf;
    if (x->op == KIR_for && x->bind <= KIR_UNROLL) {
        b = x->i % f->lanes == 0 ? find_base(f, x->args[0]) : (Base){0};
    } else if (x->type.base == KIR_I64 && x->type.lanes == 1) {
        const KirIns *by = x->op == KIR_mul ? constant(f, x->args[1]) : NULL;
        if (x->op == KIR_mul && !by && (by = constant(f, x->args[0])))
            b = scaled(f, find_base(f, x->args[1]), (uint32_t)((uint64_t)by->i % f->lanes));
        else if (by) b = scaled(f, find_base(f, x->args[0]), (uint32_t)((uint64_t)by->i % f->lanes));
        else if (x->op == KIR_iconst) b = (Base){.known = true, .rest = (uint8_t)((uint64_t)x->i % f->lanes)};
        else if (x->op == KIR_add) b = sum(f, find_base(f, x->args[0]), find_base(f, x->args[1]));
        else if (x->op == KIR_sub)
            b = sum(f, find_base(f, x->args[0]), scaled(f, find_base(f, x->args[1]), f->lanes - 1));
        if (!b.known) b = leaf;
    }
    return f->base[id] = b;
}

static bool same_base(const Base *a, const Base *b)
{
    if (!a->known || !b->known || a->rest != b->rest || a->n != b->n) return false;
    for (uint8_t i = 0; i < a->n; i++)
        if (a->term[i].id != b->term[i].id || a->term[i].times != b->term[i].times) return false;
    return true;
}

/* ---- accesses ---- */

typedef struct Use { /* of an object: what all accesses to it have in common */
    const KirIns *first;
    Base base; /* of vectors */
    bool vectors, scalars, constants /* all indices are */, loads, stores;
    bool apart;          /* vectors: lane l touches elements that no other touches */
    const KirIns *store; /* the first one */
    Base store_base;     /* its base */
    bool stores_meet;    /* one lane may store where another one stored */
    bool several;        /* buffers that may overlap */
} Use;

static void note(Finder *f, Use *u, const KirIns *x)
{
    bool vector = x->type.lanes > 1, even = vector && x->op != KIR_gather && x->stride == 1;
    Base base = even ? find_base(f, x->args[0]) : (Base){0};
    if (!u->first) *u = (Use){.first = x, .base = base, .constants = true, .apart = true};
    u->vectors |= vector, u->scalars |= !vector;
    u->loads |= x->op != KIR_store, u->stores |= x->op == KIR_store;
    u->constants &= x->op != KIR_gather && constant(f, x->args[0]) != NULL;
    u->apart &= even && same_base(&base, &u->base);
    u->several |= x->buf != u->first->buf;
    if (x->op != KIR_store) return;
    if (!u->store) u->store = x, u->store_base = base;
    bool alike = vector == (u->store->type.lanes > 1);
    u->stores_meet |= !alike || (vector && (!even || !same_base(&base, &u->store_base)));
}

/* A scalar is stored by lane 0 and loaded by all. */
static bool crosses(const Use *u)
{
    if (!u->stores) return false;
    if (u->several || (u->vectors && u->scalars)) return true;
    return u->scalars ? u->loads : !u->apart;
}

static bool fits_registers(const KirIns *array, const Use *u, uint32_t lanes)
{
    int64_t n = u->scalars ? array->i : (array->i + lanes - 1) / lanes;
    return !array->shared && u->constants && n <= MOST_REGISTERS && (u->scalars ? !u->vectors : u->apart);
}

static uint32_t place(uint32_t *bytes, const KirIns *array)
{
    uint32_t at = *bytes, size = (uint32_t)array->i * (uint32_t)kir_base_bytes(array->type.base);
    *bytes += (size + ALIGNED - 1) / ALIGNED * ALIGNED;
    return at;
}

/* Whether the warps of a block wait for one another, or have arrays in common. */
static bool works_together(const KirKernel *k)
{
    bool together = false;
    for (KirId id = 0; id < k->ins.n; id++) {
        const KirIns *x = &k->ins.data[id];
        together |= x->op == KIR_barrier || (x->op == KIR_alloc && x->shared);
    }
    return together;
}

/* A warp of kernel IR that computes an iteration by itself has as many lanes as the kernel's widest vector, so that no
   lane is without work: with vectors of 4 lanes eight iterations go to the 32 lanes of the hardware's warp, with
   vectors of 16 two. */
static uint32_t find_lanes(const KirKernel *k)
{
    uint32_t lanes = CUDA_LEAST_LANES;
    for (KirId id = 0; id < k->ins.n; id++)
        if (k->ins.data[id].type.lanes > lanes) lanes = k->ins.data[id].type.lanes;
    ICE_UNLESS(lanes <= CUDA_LANES && !(lanes & (lanes - 1)));
    return lanes;
}

static CudaKernel find_launch(const KirKernel *k)
{
    const KirIns *last = k->body.ins.n ? &k->ins.data[k->body.ins.data[k->body.ins.n - 1]] : NULL;
    if (!last || last->op != KIR_for || last->bind < KIR_THREADS)
        return (CudaKernel){CUDA_ONE, .lanes = CUDA_LANES, .warps = 1, .parts = 1};
    uint32_t lanes = find_lanes(k);
    if (last->bind == KIR_THREADS)
        return (CudaKernel){CUDA_THREADS, .lanes = lanes, .warps = CUDA_MOST_THREADS / lanes, .parts = 1};
    const KirIns *loop = &k->ins.data[last->body.ins.data[last->body.ins.n - 1]];
    uint32_t warps = (uint32_t)k->ins.data[loop->args[1]].i, parts = (warps + CUDA_PART_WARPS - 1) / CUDA_PART_WARPS;
    if (works_together(k)) return (CudaKernel){CUDA_BLOCK, .lanes = CUDA_LANES, .warps = warps, .parts = 1};
    return (CudaKernel){CUDA_BLOCK, .lanes = CUDA_LANES, .warps = (warps + parts - 1) / parts, .parts = parts};
}

CudaMemory cuda_memory(Arena *a, const KirKernel *k)
{
    uint32_t n = k->ins.n, first_array = k->params.n + 1;
    CudaMemory m = {k,
                    ARENA_ARRAY(a, CudaPlace, n),
                    ARENA_ARRAY(a, uint32_t, n),
                    ARENA_ARRAY(a, bool, cuda_n_objects(k)),
                    ARENA_ARRAY(a, bool, cuda_n_objects(k)),
                    find_launch(k)};
    Finder f = {k, m.launch.lanes, ARENA_ARRAY(a, bool, n), ARENA_ARRAY(a, bool, n), ARENA_ARRAY(a, Base, n)};
    Use *uses = ARENA_ARRAY(a, Use, cuda_n_objects(k));
    find_loops(&f, &k->body, false);
    for (KirId id = 0; id < n; id++)
        if (cuda_is_access(&k->ins.data[id])) note(&f, &uses[cuda_object(k, &k->ins.data[id])], &k->ins.data[id]);
    for (uint32_t i = 0; i < cuda_n_objects(k); i++) {
        m.crossing[i] = uses[i].first && crosses(&uses[i]);
        m.stored_over[i] = m.crossing[i] && (uses[i].several || uses[i].stores_meet);
    }
    for (KirId id = 0; id < n; id++) {
        const KirIns *x = &k->ins.data[id];
        const Use *u = &uses[first_array + id];
        if (x->op != KIR_alloc || !u->loads) continue;
        m.place[id] = fits_registers(x, u, f.lanes) ? CUDA_REGISTERS : x->shared ? CUDA_OF_BLOCK : CUDA_OF_WARP;
        if (m.place[id] == CUDA_REGISTERS) m.crossing[first_array + id] = false;
        else m.offset[id] = place(x->shared ? &m.launch.block_bytes : &m.launch.warp_bytes, x);
    }
    /* What stands before the parallel loop lives through iterations, and so do its arrays. */
    for (uint32_t i = 0; i < k->body.ins.n; i++) {
        uint32_t array = first_array + k->body.ins.data[i];
        if (uses[array].first && uses[array].base.n) m.crossing[array] = m.stored_over[array] = true;
    }
    /* What the lanes of a warp read at once goes through so many bytes of the banks: warps whose arrays are an odd
       multiple of that apart do not meet there. */
    uint32_t banks = f.lanes * 4;
    m.launch.block_bytes = (m.launch.block_bytes + banks - 1) / banks * banks;
    if (m.launch.warp_bytes)
        m.launch.warp_bytes = (m.launch.warp_bytes + banks - 1) / (2 * banks) * (2 * banks) + banks;
    return m;
}

/* ---- integers ---- */

static bool passes_on(KirOpcode op)
{
    return op == KIR_add || op == KIR_sub || op == KIR_mul || op == KIR_min || op == KIR_max || op == KIR_select;
}

/* An index, a bound or a number that is compared. */
static bool is_place(const KirIns *user, unsigned arg)
{
    return user->op == KIR_for || (user->op >= KIR_eq && user->op <= KIR_le) ||
           (kir_ops[user->op].imm == K_BUF && arg == 0);
}

bool *cuda_wraps(Arena *a, const KirKernel *k)
{
    bool *wraps = ARENA_ARRAY(a, bool, k->ins.n), more = true;
    while (more) {
        more = false;
        for (KirId id = k->ins.n; id-- > 0;) {
            const KirIns *x = &k->ins.data[id];
            for (unsigned i = 0; i < kir_ops[x->op].n_args; i++) {
                if (wraps[x->args[i]] || (passes_on(x->op) ? !wraps[id] : is_place(x, i))) continue;
                wraps[x->args[i]] = more = true;
            }
        }
    }
    return wraps;
}
