/* The LLVM emitter against the reference run of kernel IR: random straight-line kernels over every
   instruction, type and lane count, and control flow, on each CPU variant this machine has. Bits
   must be equal (any NaN equals any NaN).
   Run: lesser */
#include "codegen/jit.h"
#include "tests/unit/check.h"
#include <math.h>
#include <string.h>

enum { N = 64, MAX_POOL = 64 }; /* elements per buffer; values to choose from */
enum { BUF_F32, BUF_F64, BUF_I32, BUF_I64, BUF_BOOL, N_IN, FIRST_OUT = N_IN };

static uint64_t state;
static uint64_t next_random(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}
static unsigned pick(unsigned n) { return (unsigned)(next_random() >> 33) % n; }

static const KirBase bases[] = {KIR_F32, KIR_F64, KIR_I32, KIR_I64, KIR_I1};
static int buffer_of(KirBase b)
{
    for (int i = 0; i < 5; i++)
        if (bases[i] == b) return i;
    return -1;
}

typedef struct Gen {
    Arena *arena;
    KirKernel *k;
    KirBuilder b;
    unsigned lanes;
    KirId pool[5][MAX_POOL];
    unsigned n[5];
} Gen;

static KirType type(const Gen *g, KirBase base) { return kir_type(base, g->lanes); }
static void keep(Gen *g, KirBase base, KirId v)
{
    int i = buffer_of(base);
    g->pool[i][g->n[i] < MAX_POOL ? g->n[i]++ : pick(MAX_POOL)] = v;
}
static KirId any(Gen *g, KirBase base)
{
    int i = buffer_of(base);
    return g->pool[i][pick(g->n[i])];
}
static KirId op(Gen *g, KirOpcode o, KirType t, KirId x, KirId y, KirId z) { return kir_op(&g->b, o, t, x, y, z); }
static KirId index_const(Gen *g, int64_t i) { return kir_int(&g->b, kir_type(KIR_I64, 1), i); }

static bool is_float(KirBase b) { return b == KIR_F32 || b == KIR_F64; }

/* Full, partial, strided or scattered reads of an input. */
static void gen_load(Gen *g)
{
    KirBase base = bases[pick(5)];
    KirIns x = {.op = KIR_load, .type = type(g, base), .buf = (uint32_t)buffer_of(base), .stride = 1};
    x.active = pick(3) ? 0 : (uint8_t)(1 + pick(g->lanes));
    if (is_float(base) && x.active) x.f = pick(2) ? -1.5 : 0;
    if (g->lanes > 1 && pick(3) == 0) {
        x.op = KIR_gather;
        KirBase ib = pick(2) ? KIR_I32 : KIR_I64;
        KirId index = op(g, KIR_and, type(g, ib), any(g, ib), kir_int(&g->b, type(g, ib), N - 1), KIR_NONE);
        x.args[0] = index;
    } else {
        x.stride = g->lanes > 1 ? (int64_t)pick(4) : 1;
        int64_t span = (x.stride > 1 ? x.stride : 1) * (int64_t)(g->lanes - 1);
        x.args[0] = index_const(g, (int64_t)pick((unsigned)(N - span)));
    }
    keep(g, base, kir_ins(&g->b, x));
}

static void gen_float(Gen *g)
{
    static const KirOpcode two[] = {KIR_add, KIR_sub, KIR_mul, KIR_div, KIR_min, KIR_max};
    static const KirOpcode one[] = {KIR_neg, KIR_abs, KIR_sqrt, KIR_rint, KIR_floor};
    KirBase base = bases[pick(2)];
    KirType t = type(g, base);
    KirId x = any(g, base), y = pick(6) ? any(g, base) : kir_const(&g->b, t, pick(2) ? 0.75 : -3), z = any(g, base);
    switch (pick(4)) {
    case 0: keep(g, base, op(g, KIR_fma, t, x, y, z)); break;
    case 1: keep(g, base, op(g, one[pick(5)], t, x, KIR_NONE, KIR_NONE)); break;
    default: keep(g, base, op(g, two[pick(6)], t, x, y, KIR_NONE));
    }
}

static void gen_int(Gen *g)
{
    static const KirOpcode two[] = {KIR_add, KIR_sub, KIR_mul, KIR_min, KIR_max, KIR_and, KIR_or, KIR_xor};
    static const KirOpcode shifts[] = {KIR_shl, KIR_lshr, KIR_ashr};
    KirBase base = bases[2 + pick(2)];
    KirType t = type(g, base);
    KirId x = any(g, base), y = any(g, base), r;
    KirId small = op(g, KIR_and, t, y, kir_int(&g->b, t, 31), KIR_NONE);
    switch (pick(5)) {
    case 0: r = op(g, shifts[pick(3)], t, x, small, KIR_NONE); break;
    case 1:
        r = op(g, pick(2) ? KIR_div : KIR_rem, t, x, op(g, KIR_or, t, small, kir_int(&g->b, t, 1), KIR_NONE), KIR_NONE);
        break;
    case 2: r = base == KIR_I32 ? op(g, KIR_mulhu, t, x, y, KIR_NONE) : op(g, KIR_neg, t, x, KIR_NONE, KIR_NONE); break;
    default: r = op(g, two[pick(8)], t, x, y, KIR_NONE);
    }
    keep(g, base, r);
}

static void gen_compare(Gen *g)
{
    static const KirOpcode all[] = {KIR_eq, KIR_ne, KIR_lt, KIR_le, KIR_ult};
    KirBase base = bases[pick(4)];
    KirId c = op(g, all[pick(is_float(base) ? 4 : 5)], type(g, base), any(g, base), any(g, base), KIR_NONE);
    keep(g, KIR_I1, c);
    KirBase to = bases[pick(4)];
    if (g->lanes > 1 && pick(4) == 0)
        c = kir_ins(&g->b, (KirIns){.op = KIR_extract, .type = kir_type(KIR_I1, 1), .args = {c}, .i = pick(g->lanes)});
    keep(g, to, op(g, KIR_select, type(g, to), c, any(g, to), any(g, to)));
    keep(g, KIR_I1, op(g, KIR_xor, type(g, KIR_I1), any(g, KIR_I1), any(g, KIR_I1), KIR_NONE));
}

/* Floats are brought into the range of the integer first: what lies outside has no meaning. */
static void gen_convert(Gen *g)
{
    KirBase from = bases[pick(5)], to = bases[pick(4)];
    KirType f = type(g, from), t = type(g, to);
    KirId x = any(g, from);
    if (pick(4) == 0) {
        static const KirBase pair[] = {KIR_I32, KIR_I64, KIR_F32, KIR_F64}; /* of bases[0..3] */
        unsigned i = pick(4);
        keep(g, pair[i], op(g, KIR_bitcast, type(g, pair[i]), any(g, bases[i]), KIR_NONE, KIR_NONE));
        return;
    }
    if (pick(6) == 0) {
        keep(g, KIR_I64, op(g, KIR_zext, type(g, KIR_I64), any(g, KIR_I32), KIR_NONE, KIR_NONE));
        return;
    }
    if (is_float(from) && !is_float(to)) {
        x = op(g, KIR_select, f, op(g, KIR_eq, f, x, x, KIR_NONE), x, kir_const(&g->b, f, 0));
        x = op(g, KIR_max, f, op(g, KIR_min, f, x, kir_const(&g->b, f, 1e6), KIR_NONE), kir_const(&g->b, f, -1e6),
               KIR_NONE);
    }
    keep(g, to, op(g, KIR_convert, t, x, KIR_NONE, KIR_NONE));
}

static void gen_lanes(Gen *g)
{
    KirBase base = bases[pick(4)];
    KirType t = type(g, base), one = kir_type(base, 1);
    if (g->lanes == 1) return;
    static const KirOpcode folds[] = {KIR_hadd, KIR_hmax, KIR_hmin, KIR_hmul};
    KirId s = pick(2) ? op(g, folds[pick(4)], t, any(g, base), KIR_NONE, KIR_NONE)
                      : kir_ins(&g->b,
                                (KirIns){.op = KIR_extract, .type = one, .args = {any(g, base)}, .i = pick(g->lanes)});
    if (pick(2)) keep(g, base, op(g, KIR_splat, t, s, KIR_NONE, KIR_NONE));
    else
        keep(g, base,
             kir_ins(&g->b, (KirIns){.op = KIR_insert, .type = t, .args = {any(g, base), s}, .i = pick(g->lanes)}));
    KirType it = type(g, pick(2) ? KIR_I32 : KIR_I64);
    keep(g, it.base, op(g, KIR_lanes, it, KIR_NONE, KIR_NONE, KIR_NONE));
}

/* A loop that folds a value into a var, with a branch, a private array and a way out. */
static void gen_control(Gen *g)
{
    KirBase base = bases[pick(4)];
    KirType t = type(g, base), i64 = kir_type(KIR_I64, 1);
    KirBuilder *b = &g->b;
    KirId x = any(g, base), y = any(g, base), v = kir_var(b, "acc", t, x), n = kir_var(b, "n", i64, index_const(g, 0));
    KirId array = kir_ins(b, (KirIns){.op = KIR_alloc, .type = kir_type(base, 1), .i = 32});
    KirIns put = {
        .op = KIR_store, .type = t, .args = {index_const(g, 0), y}, .buf = KIR_NONE, .alloc = array, .stride = 1};
    kir_ins(b, put);
    KirId i = kir_for(b, index_const(g, 0), index_const(g, (int64_t)pick(5)), 1 + (int64_t)pick(2),
                      pick(2) ? KIR_SEQ : KIR_UNROLL, NULL);
    KirId odd = op(g, KIR_eq, i64, op(g, KIR_and, i64, i, index_const(g, 1), KIR_NONE), index_const(g, 1), KIR_NONE);
    kir_if(b, odd);
    kir_set(b, v, op(g, KIR_add, t, v, y, KIR_NONE));
    if (pick(2)) {
        kir_else(b);
        KirIns get = {.op = KIR_load, .type = t, .args = {i}, .buf = KIR_NONE, .alloc = array, .stride = 0};
        if (g->lanes == 1) get.stride = 1, get.args[0] = index_const(g, 0);
        else get.args[0] = index_const(g, (int64_t)pick(g->lanes));
        kir_set(b, v, op(g, KIR_max, t, kir_ins(b, get), v, KIR_NONE));
    }
    kir_end(b);
    kir_end(b);
    kir_loop(b);
    kir_set(b, n, op(g, KIR_add, i64, n, index_const(g, 1), KIR_NONE));
    kir_ins(b, (KirIns){.op = KIR_break_if, .args = {op(g, KIR_le, i64, index_const(g, 3), n, KIR_NONE)}});
    kir_set(b, v, op(g, KIR_sub, t, v, y, KIR_NONE));
    kir_end(b);
    keep(g, base, op(g, KIR_add, t, v, y, KIR_NONE));
}

static void gen_step(Gen *g)
{
    switch (pick(8)) {
    case 0: gen_load(g); break;
    case 1:
    case 2: gen_float(g); break;
    case 3: gen_int(g); break;
    case 4: gen_compare(g); break;
    case 5: gen_convert(g); break;
    case 6: gen_lanes(g); break;
    default: gen_control(g);
    }
}

/* Stores the newest value of every base: full, partial or strided. */
static void gen_stores(Gen *g)
{
    for (uint32_t i = 0; i < 5; i++) {
        for (unsigned k = 0; k < 4; k++) {
            KirIns x = {.op = KIR_store, .type = type(g, bases[i]), .buf = FIRST_OUT + i, .stride = 1};
            x.args[0] = index_const(g, 16 * (int64_t)k);
            x.args[1] = g->pool[i][pick(g->n[i])];
            x.active = pick(2) ? 0 : (uint8_t)(1 + pick(g->lanes));
            if (pick(4) == 0 && g->lanes > 1 && g->lanes <= 8) x.stride = 2;
            kir_ins(&g->b, x);
        }
    }
}

/* A kernel without a body over the twelve parameters that `bind` sets. */
static Gen begin(Arena *a, const char *name, unsigned lanes)
{
    Gen g = {.arena = a, .k = kir_kernel_new(a, name), .lanes = lanes};
    static const char *const ins[] = {"a", "b", "c", "d", "e"}, *const outs[] = {"p", "q", "r", "s", "t"};
    static const KirBase elems[] = {KIR_F32, KIR_F64, KIR_I32, KIR_I64, KIR_I8};
    for (int i = 0; i < 5; i++) kir_param(a, g.k, (KirParam){ins[i], KIR_IN, elems[i], true});
    for (int i = 0; i < 5; i++) kir_param(a, g.k, (KirParam){outs[i], KIR_OUT, elems[i], true});
    kir_param(a, g.k, (KirParam){"f", KIR_SCALAR, KIR_F32, false});
    kir_param(a, g.k, (KirParam){"n", KIR_SCALAR, KIR_I64, false});
    g.b = kir_builder(a, g.k);
    return g;
}

static KirKernel *generate(Arena *a, const char *name)
{
    Gen g = begin(a, name, 1u << pick(5));
    for (int i = 0; i < 5; i++)
        keep(&g, bases[i], kir_load(&g.b, (uint32_t)i, type(&g, bases[i]), index_const(&g, i), 0));
    KirId f = kir_ins(&g.b, (KirIns){.op = KIR_param, .type = kir_type(KIR_F32, 1), .i = 10});
    keep(&g, KIR_F32, g.lanes == 1 ? f : op(&g, KIR_splat, type(&g, KIR_F32), f, KIR_NONE, KIR_NONE));
    unsigned steps = 4 + pick(24);
    for (unsigned i = 0; i < steps; i++) gen_step(&g);
    gen_stores(&g);
    return g.k;
}

typedef struct Memory {
    float f32[N];
    double f64[N];
    int32_t i32[N];
    int64_t i64[N];
    int8_t bits[N];
} Memory;

static void fill(Memory *m)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -2.5, 1e-310};
    for (int i = 0; i < N; i++) {
        double d = pick(3) ? (double)(int64_t)next_random() * 0x1p-60 : special[pick(8)];
        m->f32[i] = (float)d;
        m->f64[i] = pick(3) ? (double)(int64_t)next_random() * 0x1p-60 : special[pick(8)];
        m->i32[i] = (int32_t)next_random() >> pick(28);
        m->i64[i] = (int64_t)next_random() >> pick(60);
        m->bits[i] = (int8_t)pick(2);
    }
}

static bool same(const Memory *x, const Memory *y)
{
    for (int i = 0; i < N; i++) {
        bool f = !memcmp(&x->f32[i], &y->f32[i], 4) || (isnan(x->f32[i]) && isnan(y->f32[i]));
        bool d = !memcmp(&x->f64[i], &y->f64[i], 8) || (isnan(x->f64[i]) && isnan(y->f64[i]));
        if (!f || !d || x->i32[i] != y->i32[i] || x->i64[i] != y->i64[i] || x->bits[i] != y->bits[i]) return false;
    }
    return true;
}

static void bind(Memory *in, Memory *out, KirArg *args)
{
    void *all[] = {in->f32, in->f64, in->i32, in->i64, in->bits, out->f32, out->f64, out->i32, out->i64, out->bits};
    for (int i = 0; i < 10; i++) args[i].p = all[i];
    args[10].f = 0.375;
    args[11].i = N;
}

enum { PER_MODULE = 16 };

/* NaN payloads are not part of the meaning: a kernel that looks at the bits of a NaN is not
 * compared. */
static bool looks_at_bits(const KirKernel *k)
{
    for (uint32_t i = 0; i < k->ins.n; i++) {
        const KirIns *x = &k->ins.data[i];
        if (x->op == KIR_bitcast && (x->type.base == KIR_I32 || x->type.base == KIR_I64)) return true;
    }
    return false;
}

static void compare(const KirKernel *const *ks, unsigned n, Arena *a, Diags *d)
{
    static Memory in, want, got;
    const int64_t sizes[12] = {N, N, N, N, N, N, N, N, N, N, 0, 0};
    JitModule *jit[RT_N_VARIANTS];
    const char *why;
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) jit[v] = jit_compile(ks, n, v, &why);
    fill(&in);
    for (unsigned i = 0; i < n; i++) {
        KirArg args[12];
        CHECK(kir_verify(ks[i], d));
        if (looks_at_bits(ks[i]))
            for (int e = 0; e < N; e++)
                in.f32[e] = isnan(in.f32[e]) ? 1 : in.f32[e], in.f64[e] = isnan(in.f64[e]) ? 1 : in.f64[e];
        memset(&want, 0, sizeof want);
        bind(&in, &want, args);
        const char *wrong = kir_run(a, ks[i], args, sizes, 0, 1);
        check(!wrong, "%s: kir_run: %s", ks[i]->name, wrong);
        for (unsigned v = 0; v < RT_N_VARIANTS; v++) {
            if (!jit[v]) continue;
            memset(&got, 0, sizeof got);
            bind(&in, &got, args);
            RtArg rt[12];
            memcpy(rt, args, sizeof rt);
            jit_kernel(jit[v], i)(rt, 0, 1);
            check(same(&want, &got) || looks_at_bits(ks[i]), "%s: variant %u differs from kir_run", ks[i]->name, v);
            if (!same(&want, &got) && !looks_at_bits(ks[i]) && getenv("GNNC_TEST_VERBOSE")) {
                StrBuf text = {.arena = a};
                kir_print(ks[i], &text);
                printf("# %s\n", strbuf_cstr(&text));
            }
        }
    }
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        if (jit[v]) jit_free(jit[v]);
}

static void test_random_kernels(unsigned modules)
{
    check_begin();
    for (unsigned m = 0; m < modules && check_ok; m++) {
        Arena *a = arena_new();
        Diags d = {.arena = a};
        const KirKernel *ks[PER_MODULE];
        for (unsigned i = 0; i < PER_MODULE; i++) {
            state = 1000003u * (m * PER_MODULE + i) + 1;
            ks[i] = generate(a, arena_printf(a, "k%u", m * PER_MODULE + i));
        }
        compare(ks, PER_MODULE, a, &d);
        arena_free(a);
    }
    check_end("llvm_equals_reference_on_random_kernels");
}

/* Every count of active lanes, read from and written to the middle of every kind of buffer. */
static void test_parts(void)
{
    check_begin();
    Arena *a = arena_new();
    Diags d = {.arena = a};
    state = 5;
    const KirKernel *ks[16];
    for (unsigned active = 1; active <= 16; active++) {
        Gen g = begin(a, arena_printf(a, "part%u", active), 16);
        for (uint32_t i = 0; i < 5; i++) {
            KirIns load = {.op = KIR_load,
                           .type = type(&g, bases[i]),
                           .args = {index_const(&g, 3)},
                           .buf = i,
                           .stride = 1,
                           .active = (uint8_t)active,
                           .f = is_float(bases[i]) ? 2.5 : 0};
            KirId part = kir_ins(&g.b, load), all = kir_load(&g.b, i, type(&g, bases[i]), index_const(&g, 20), 0);
            kir_store(&g.b, FIRST_OUT + i, type(&g, bases[i]), index_const(&g, 0), part, 0);
            kir_store(&g.b, FIRST_OUT + i, type(&g, bases[i]), index_const(&g, 21), all, active);
        }
        ks[active - 1] = g.k;
    }
    compare(ks, 16, a, &d);
    arena_free(a);
    check_end("llvm_partial_loads_and_stores");
}

/* min and max of each pair of special values, with variables and with constants. */
static void test_extremes(void)
{
    check_begin();
    static const double special[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1, -1, 3};
    Arena *a = arena_new();
    Diags d = {.arena = a};
    const KirKernel *ks[4];
    for (unsigned which = 0; which < 4; which++) {
        Gen g = begin(a, arena_printf(a, "extreme%u", which), 1);
        KirType t = kir_type(KIR_F64, 1);
        for (int i = 0; i < 64; i++) {
            KirId x = kir_const(&g.b, t, special[i / 8]), y = kir_const(&g.b, t, special[i % 8]);
            x = kir_var(&g.b, "x", t, x);
            kir_if(&g.b, op(&g, KIR_lt, kir_type(KIR_I64, 1),
                            kir_ins(&g.b, (KirIns){.op = KIR_param, .type = kir_type(KIR_I64, 1), .i = 11}),
                            index_const(&g, 0), KIR_NONE)); /* never: but nothing folds x */
            kir_set(&g.b, x, kir_const(&g.b, t, 5));
            kir_end(&g.b);
            if (which & 1) y = op(&g, KIR_add, t, y, op(&g, KIR_mul, t, x, kir_const(&g.b, t, 0), KIR_NONE), KIR_NONE);
            kir_store(&g.b, FIRST_OUT + 1, t, index_const(&g, i),
                      op(&g, which & 2 ? KIR_max : KIR_min, t, x, y, KIR_NONE), 0);
        }
        ks[which] = g.k;
    }
    compare(ks, 4, a, &d);
    arena_free(a);
    check_end("llvm_min_max_of_special_values");
}

/* fma without the instruction: products next to the middle between two floats, denormals, and what
 * overflows. */
static void test_fma(void)
{
    check_begin();
    Arena *a = arena_new();
    Gen g = begin(a, "fused", 16);
    KirId x[3];
    for (int64_t i = 0; i < 3; i++) x[i] = kir_load(&g.b, 0, type(&g, KIR_F32), index_const(&g, 16 * i), 0);
    kir_store(&g.b, FIRST_OUT, type(&g, KIR_F32), index_const(&g, 0),
              op(&g, KIR_fma, type(&g, KIR_F32), x[0], x[1], x[2]), 0);
    const KirKernel *ks[] = {g.k};
    const char *why;
    JitModule *j = jit_compile(ks, 1, RT_GENERIC, &why);
    static Memory in, out;
    state = 77;
    for (int round = 0; round < 200000 && check_ok; round++) {
        for (int i = 0; i < 16; i++) {
            int scale = (int)pick(3) == 0 ? -70 : (int)pick(120) - 60;
            in.f32[i] = (float)ldexp((double)(int32_t)(next_random() >> 40), scale - 24);
            in.f32[16 + i] = (float)ldexp((double)(int32_t)(next_random() >> 40), scale - 24);
            double p = (double)in.f32[i] * (double)in.f32[16 + i]; /* c: far above, far below, or half an ulp off */
            in.f32[32 + i] = (float)ldexp(p, (int)pick(80) - 40) * (pick(2) ? 1.0f : -1.0f);
            if (i % 4 || round % 4 == 0) continue; /* most rounds have doubtful lanes, each of one kind */
            double sign = pick(2) ? 1 : -1, middle = round % 4 == 1 ? -24 : -150;
            /* half an ulp of c, but for 2^-46 of it: f64 alone would see a tie */
            in.f32[i] = (float)(ldexp(sign, (int)middle / 2) * (1 + 0x1p-23));
            in.f32[16 + i] = (float)(ldexp(1, (int)middle / 2) * (1 - 0x1p-23));
            if (round % 4 == 1) in.f32[32 + i] = (float)((1 + ldexp((double)pick(1 << 23), -23)) * (pick(2) ? 1 : -1));
            else
                in.f32[32 + i] = (float)ldexp(pick(4) ? (double)pick(1 << 24) : 0x7fffff, -149) *
                                 (pick(2) ? 1.0f : -1.0f);
        }
        KirArg args[12];
        RtArg rt[12];
        bind(&in, &out, args);
        memcpy(rt, args, sizeof rt);
        jit_kernel(j, 0)(rt, 0, 1);
        for (int i = 0; i < 16; i++) {
            float want = fmaf(in.f32[i], in.f32[16 + i], in.f32[32 + i]);
            check(!memcmp(&want, &out.f32[i], 4), "fma(%a, %a, %a) = %a, wanted %a", (double)in.f32[i],
                  (double)in.f32[16 + i], (double)in.f32[32 + i], (double)out.f32[i], (double)want);
        }
    }
    jit_free(j);
    arena_free(a);
    check_end("llvm_generic_fma_rounds_once");
}

/* A loop bound to threads runs [lo, hi) of its range only. */
static void test_threads(void)
{
    check_begin();
    Arena *a = arena_new();
    KirKernel *k = kir_kernel_new(a, "part");
    KirType i64 = kir_type(KIR_I64, 1);
    uint32_t out = kir_param(a, k, (KirParam){"y", KIR_OUT, KIR_I64, true});
    kir_param(a, k, (KirParam){"n", KIR_SCALAR, KIR_I64, false});
    KirBuilder b = kir_builder(a, k);
    KirId n = kir_ins(&b, (KirIns){.op = KIR_param, .type = i64, .i = 1});
    KirId i = kir_for(&b, kir_int(&b, i64, 0), n, 1, KIR_THREADS, NULL);
    kir_store(&b, out, i64, i, kir_int(&b, i64, 7), 0);
    kir_end(&b);
    const KirKernel *ks[] = {k};
    const char *why;
    JitModule *j = jit_compile(ks, 1, RT_GENERIC, &why);
    int64_t y[8] = {0};
    RtArg args[] = {{.p = y}, {.i = 6}};
    jit_kernel(j, 0)(args, 2, 4);
    CHECK(!y[0] && !y[1] && y[2] == 7 && y[3] == 7 && !y[4] && !y[5]);
    jit_kernel(j, 0)(args, 5, 100);
    CHECK(!y[4] && y[5] == 7 && !y[6] && !y[7]);
    jit_free(j);
    arena_free(a);
    check_end("llvm_threads_loop_runs_its_part");
}

int main(void)
{
    const char *many = getenv("GNNC_TEST_EXHAUSTIVE");
    test_threads();
    test_parts();
    test_extremes();
    test_fma();
    test_random_kernels(many && *many == '1' ? 500 : 12);
    return check_done();
}
