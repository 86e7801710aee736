/* The math expansions against libm in higher precision: every 2^32th-dense sample of f32, sampled
   f64, special values, and equal bits from every CPU variant and from the reference run of kernel
   IR. GNNC_TEST_EXHAUSTIVE=1 takes all 2^32 arguments of f32.
   Run: lesser */
#include "codegen/jit.h"
#include "passes/lower/kmath.h"
#include "tests/unit/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef KirId Expansion(KirBuilder *b, KirType t, KirId x);
typedef double (*Fn)(double);
typedef long double (*FnL)(long double);

static double sigmoid_d(double x) { return 1 / (1 + exp(-x)); }
static long double sigmoid_l(long double x) { return 1 / (1 + expl(-x)); }

/* limit: of inputs whose error is asserted (0: all); the bounds are in ulps. */
static const struct {
    const char *name;
    Expansion *build;
    Fn ref;
    FnL refl;
    double ulp32, ulp64, limit32, limit64;
} functions[] = {
    {"exp", kmath_exp, exp, expl, 1, 1, 0, 0},
    {"expm1", kmath_expm1, expm1, expm1l, 1.5, 2, 0, 0},
    {"log", kmath_log, log, logl, 1.2, 1, 0, 0},
    {"log1p", kmath_log1p, log1p, log1pl, 1.5, 1.5, 0, 0},
    {"tanh", kmath_tanh, tanh, tanhl, 2.75, 2.75, 0, 0},
    {"sigmoid", kmath_sigmoid, sigmoid_d, sigmoid_l, 2.5, 2.5, 0, 0},
    {"erf", kmath_erf, erf, erfl, 1.5, 1.5, 0, 0},
    {"sin", kmath_sin, sin, sinl, 0.6, 1, 0x1p48, 0x1p48},
    {"cos", kmath_cos, cos, cosl, 0.6, 1, 0x1p48, 0x1p48},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions, BATCH = 4096 };

/* y[i] = f(x[i]) for i in [0, n), n a multiple of the lanes. */
static KirKernel *map_kernel(Arena *a, const char *name, Expansion *f, KirType t)
{
    KirKernel *k = kir_kernel_new(a, name);
    uint32_t x = kir_param(a, k, (KirParam){"x", KIR_IN, t.base, true});
    uint32_t y = kir_param(a, k, (KirParam){"y", KIR_OUT, t.base, true});
    uint32_t n = kir_param(a, k, (KirParam){"n", KIR_SCALAR, KIR_I64, false});
    KirType i64 = kir_type(KIR_I64, 1);
    KirBuilder b = kir_builder(a, k);
    KirId count = kir_ins(&b, (KirIns){.op = KIR_param, .type = i64, .i = n});
    KirId i = kir_for(&b, kir_int(&b, i64, 0), count, t.lanes, KIR_SEQ, NULL);
    kir_store(&b, y, t, i, f(&b, t, kir_load(&b, x, t, i, 0)), 0);
    kir_end(&b);
    return k;
}

static KirKernel *pow_kernel(Arena *a, const char *name, KirType t)
{
    KirKernel *k = kir_kernel_new(a, name);
    uint32_t x = kir_param(a, k, (KirParam){"x", KIR_IN, t.base, true});
    uint32_t p = kir_param(a, k, (KirParam){"p", KIR_IN, t.base, true});
    uint32_t y = kir_param(a, k, (KirParam){"y", KIR_OUT, t.base, true});
    uint32_t n = kir_param(a, k, (KirParam){"n", KIR_SCALAR, KIR_I64, false});
    KirType i64 = kir_type(KIR_I64, 1);
    KirBuilder b = kir_builder(a, k);
    KirId count = kir_ins(&b, (KirIns){.op = KIR_param, .type = i64, .i = n});
    KirId i = kir_for(&b, kir_int(&b, i64, 0), count, t.lanes, KIR_SEQ, NULL);
    KirId r = kmath_pow(&b, t, kir_load(&b, x, t, i, 0), kir_load(&b, p, t, i, 0));
    kir_store(&b, y, t, i, r, 0);
    kir_end(&b);
    return k;
}

/* exp(-|x|): the sign of the argument shows. */
static KirId decay(KirBuilder *b, KirType t, KirId x)
{
    KirId size = kir_op(b, KIR_abs, t, x, KIR_NONE, KIR_NONE);
    return kmath_exp(b, t, kir_op(b, KIR_neg, t, size, KIR_NONE, KIR_NONE));
}

static void call_map(RtKernelFn f, void *x, void *y, int64_t n)
{
    RtArg args[] = {{.p = x}, {.p = y}, {.i = n}};
    f(args, 0, 1);
}

/* Distance from the exact value in ulps of f32. Both NaN: 0; one NaN: infinite. */
static double error32(float got, double want)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
    float near = (float)want;
    if (got == near && (isinf(near) || want == near)) return 0;
    if (isinf(got)) return fabs(want) > 0x1.fffffep127 ? 0 : INFINITY;
    if (isinf(near)) return INFINITY;
    int e;
    frexp(want, &e);
    double ulp = ldexp(1, e < -125 ? -149 : e - 24);
    return fabs((double)got - want) / ulp;
}

static double error64(double got, long double want)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
    double near = (double)want;
    if (got == near) return 0;
    if (isinf(got) || isinf(near)) return INFINITY;
    int e;
    frexpl(want, &e);
    return (double)(fabsl((long double)got - want) / ldexpl(1, e < -1021 ? -1074 : e - 53));
}

typedef struct Worst {
    double ulp, at;
} Worst;

static void sweep32(unsigned f, RtKernelFn fn, uint64_t step, Worst *worst)
{
    static float x[BATCH], y[BATCH];
    double limit = functions[f].limit32;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
        int64_t n = 0;
        for (; n < BATCH && bits < (uint64_t)1 << 32; n++, bits += step) {
            uint32_t low = (uint32_t)bits;
            memcpy(&x[n], &low, 4);
        }
        for (; n % 16; n++) x[n] = 0;
        call_map(fn, x, y, n);
        for (int64_t i = 0; i < n; i++) {
            if (limit > 0 && fabsf(x[i]) >= limit && !isinf(x[i])) continue;
            double e = error32(y[i], functions[f].ref((double)x[i]));
            if (e > worst->ulp) *worst = (Worst){e, (double)x[i]};
        }
    }
}

static uint64_t random_state = 1;
static uint64_t next_random(void)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1du;
}

/* Any bit pattern, or a number of ordinary size: both halves matter. */
static double random_double(void)
{
    uint64_t bits = next_random();
    double d;
    if (bits & 1) return ldexp((double)(int64_t)next_random(), -63 + (int)(bits >> 58) - 12);
    bits = next_random();
    memcpy(&d, &bits, 8);
    return d;
}

static void sweep64(unsigned f, RtKernelFn fn, unsigned batches, Worst *worst)
{
    static double x[BATCH], y[BATCH];
    double limit = functions[f].limit64;
    for (unsigned b = 0; b < batches; b++) {
        for (int i = 0; i < BATCH; i++) x[i] = random_double();
        call_map(fn, x, y, BATCH);
        for (int i = 0; i < BATCH; i++) {
            if (limit > 0 && fabs(x[i]) >= limit && !isinf(x[i])) continue;
            double e = error64(y[i], functions[f].refl(x[i]));
            if (e > worst->ulp) *worst = (Worst){e, x[i]};
        }
    }
}

typedef struct Kernels { /* per function: f32 x 16, f64 x 8 */
    Arena *arena;
    KirKernel *list[2 * N_FUNCTIONS];
    JitModule *jit[RT_N_VARIANTS];
} Kernels;

static void compile(Kernels *k)
{
    k->arena = arena_new();
    for (unsigned f = 0; f < N_FUNCTIONS; f++) {
        KirType single = kir_type(KIR_F32, 16), dbl = kir_type(KIR_F64, 8);
        k->list[2 * f] = map_kernel(k->arena, arena_printf(k->arena, "%s_f32", functions[f].name), functions[f].build,
                                    single);
        k->list[2 * f + 1] = map_kernel(k->arena, arena_printf(k->arena, "%s_f64", functions[f].name),
                                        functions[f].build, dbl);
    }
    const char *why;
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        k->jit[v] = jit_compile((const KirKernel *const *)k->list, 2 * N_FUNCTIONS, v, &why);
}

static JitModule *fastest(const Kernels *k)
{
    return k->jit[RT_AVX512] ? k->jit[RT_AVX512] : k->jit[RT_AVX2] ? k->jit[RT_AVX2] : k->jit[RT_GENERIC];
}

static void test_accuracy(const Kernels *k, bool exhaustive)
{
    for (unsigned f = 0; f < N_FUNCTIONS; f++) {
        Worst single = {0, 0}, dbl = {0, 0};
        const char *name = functions[f].name;
        check_begin();
        sweep32(f, jit_kernel(fastest(k), 2 * f), exhaustive ? 1 : 4099, &single);
        check(single.ulp <= functions[f].ulp32, "f32: %.4f ulp at %a, wanted at most %g", single.ulp, single.at,
              functions[f].ulp32);
        sweep64(f, jit_kernel(fastest(k), 2 * f + 1), exhaustive ? 2000 : 60, &dbl);
        check(dbl.ulp <= functions[f].ulp64, "f64: %.4f ulp at %a, wanted at most %g", dbl.ulp, dbl.at,
              functions[f].ulp64);
        if (getenv("GNNC_TEST_VERBOSE") || exhaustive)
            printf("# %s: f32 %.4f ulp at %a, f64 %.4f ulp at %a\n", name, single.ulp, single.at, dbl.ulp, dbl.at);
        char test[64];
        snprintf(test, sizeof test, "kmath_%s_accuracy", name);
        check_end(test);
    }
}

static void test_special(const Kernels *k)
{
    check_begin();
    static const double special[16] = {0.0,       -0.0,      INFINITY,   -INFINITY, NAN,  1,    -1,    0x1p-149,
                                       -0x1p-149, 0x1p-1074, -0x1p-1074, 100,       -100, 1000, -1000, 2};
    for (unsigned f = 0; f < N_FUNCTIONS; f++) {
        double y[16];
        float x32[16], y32[16];
        for (int i = 0; i < 16; i++) x32[i] = (float)special[i];
        call_map(jit_kernel(fastest(k), 2 * f + 1), (void *)special, y, 16);
        call_map(jit_kernel(fastest(k), 2 * f), x32, y32, 16);
        for (int i = 0; i < 16; i++) {
            double w = functions[f].ref(special[i]), w32 = functions[f].ref((double)x32[i]);
            check(error64(y[i], functions[f].refl(special[i])) <= functions[f].ulp64 &&
                      (isnan(w) || !signbit(y[i]) == !signbit(w)),
                  "f64 %s(%a) = %a, wanted %a", functions[f].name, special[i], y[i], w);
            check(error32(y32[i], w32) <= functions[f].ulp32 && (isnan(w32) || !signbit(y32[i]) == !signbit(w32)),
                  "f32 %s(%a) = %a, wanted %a", functions[f].name, (double)x32[i], (double)y32[i], w32);
        }
    }
    check_end("kmath_special_values");
}

/* Beyond its limit a function gives NaN, not a number that means nothing; the last number below is right. */
static void test_limits(const Kernels *k)
{
    check_begin();
    for (unsigned f = 0; f < N_FUNCTIONS; f++) {
        double limit = functions[f].limit64, y[8];
        float y32[16], x32[16] = {0};
        if (!(limit > 0)) continue;
        double x[8] = {limit, -limit, 1e22, -1e300, nextafter(limit, 0), -nextafter(limit, 0), 1, 2};
        for (int i = 0; i < 8; i++)
            x32[i] = i < 4 ? (float)(i & 1 ? -limit : limit) * (float)(i + 1) : nextafterf((float)limit, 0);
        call_map(jit_kernel(fastest(k), 2 * f + 1), x, y, 8);
        call_map(jit_kernel(fastest(k), 2 * f), x32, y32, 16);
        for (int i = 0; i < 8; i++) {
            check(i < 4 ? isnan(y[i]) : error64(y[i], functions[f].refl(x[i])) <= 1, "%s(%a) = %a", functions[f].name,
                  x[i], y[i]);
            check(i < 4 ? isnan(y32[i]) : error32(y32[i], functions[f].ref((double)x32[i])) <= 1, "%s(%a) = %a",
                  functions[f].name, (double)x32[i], (double)y32[i]);
        }
    }
    check_end("kmath_limits");
}

/* The same bits from each CPU variant and from kir_run. */
static void test_variants(const Kernels *k)
{
    check_begin();
    static double x[256], y[256], z[256];
    static float x32[256], y32[256], z32[256];
    for (int i = 0; i < 256; i++) x[i] = random_double(), x32[i] = (float)x[i];
    for (unsigned f = 0; f < N_FUNCTIONS; f++) {
        Arena *a = arena_new();
        int64_t sizes[] = {256, 256, 0};
        KirArg args[] = {{.p = x}, {.p = z}, {.i = 256}}, args32[] = {{.p = x32}, {.p = z32}, {.i = 256}};
        CHECK(!kir_run(a, k->list[2 * f + 1], args, sizes, 0, 1));
        CHECK(!kir_run(a, k->list[2 * f], args32, sizes, 0, 1));
        for (unsigned v = 0; v < RT_N_VARIANTS; v++) {
            if (!k->jit[v]) continue;
            call_map(jit_kernel(k->jit[v], 2 * f), x32, y32, 256);
            call_map(jit_kernel(k->jit[v], 2 * f + 1), x, y, 256);
            for (int i = 0; i < 256; i++) {
                check(!memcmp(&y[i], &z[i], 8) || (isnan(y[i]) && isnan(z[i])),
                      "f64 %s(%a), variant %u: %a, kir_run: %a", functions[f].name, x[i], v, y[i], z[i]);
                check(!memcmp(&y32[i], &z32[i], 4) || (isnan(y32[i]) && isnan(z32[i])),
                      "f32 %s(%a), variant %u: %a, kir_run: %a", functions[f].name, (double)x32[i], v, (double)y32[i],
                      (double)z32[i]);
            }
        }
        arena_free(a);
    }
    check_end("kmath_same_bits_everywhere");
}

static void test_pow(void)
{
    check_begin();
    Arena *a = arena_new();
    const KirKernel *ks[] = {pow_kernel(a, "pow_f32", kir_type(KIR_F32, 16)),
                             pow_kernel(a, "pow_f64", kir_type(KIR_F64, 8))};
    const char *why = NULL;
    JitModule *j = jit_compile(ks, 2, RT_GENERIC, &why);
    static const double edge[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1,     -1,     2,
                                  -2,  0.5,  -0.5,     3,         -3,  1e300, -1e300, 0x1p-1074};
    static double x[BATCH], p[BATCH], y[BATCH];
    static float x32[BATCH], p32[BATCH], y32[BATCH];
    Worst worst = {0, 0}, worst32 = {0, 0};
    for (unsigned round = 0; round < 60; round++) {
        for (unsigned i = 0; i < BATCH; i++) {
            bool special = round == 0 && i < 256;
            x[i] = special ? edge[i / 16] : random_double();
            p[i] = special     ? edge[i % 16]
                   : round % 3 ? 300 / log(fabs(x[i])) * ldexp((double)(int64_t)next_random(), -62)
                               : random_double();
            if (round % 5 == 1) p[i] = rint(p[i]);
            if (!special && round % 2) x[i] = fabs(x[i]);
            x32[i] = (float)x[i], p32[i] = (float)p[i];
        }
        RtArg args[] = {{.p = x}, {.p = p}, {.p = y}, {.i = BATCH}},
              args32[] = {{.p = x32}, {.p = p32}, {.p = y32}, {.i = BATCH}};
        jit_kernel(j, 0)(args32, 0, 1);
        jit_kernel(j, 1)(args, 0, 1);
        for (unsigned i = 0; i < BATCH; i++) {
            double e = error64(y[i], powl(x[i], p[i])),
                   e32 = error32(y32[i], (double)powl((long double)x32[i], (long double)p32[i]));
            if (e > worst.ulp) worst = (Worst){e, x[i]};
            if (e32 > worst32.ulp) worst32 = (Worst){e32, (double)x32[i]};
            check(e <= 1.5, "f64 pow(%a, %a) = %a: %g ulp", x[i], p[i], y[i], e);
            check(e32 <= 0.51, "f32 pow(%a, %a) = %a: %g ulp", (double)x32[i], (double)p32[i], (double)y32[i], e32);
        }
    }
    if (getenv("GNNC_TEST_VERBOSE")) printf("# pow: f32 %.4f ulp, f64 %.4f ulp\n", worst32.ulp, worst.ulp);
    jit_free(j);
    arena_free(a);
    check_end("kmath_pow");
}

/* Where the argument's sign shows, exp is shorter and has the same bits. */
static void test_decay(void)
{
    check_begin();
    Arena *a = arena_new();
    KirType f32 = kir_type(KIR_F32, 16), f64 = kir_type(KIR_F64, 8);
    const KirKernel *ks[] = {map_kernel(a, "exp_f32", kmath_exp, f32), map_kernel(a, "exp_f64", kmath_exp, f64),
                             map_kernel(a, "decay_f32", decay, f32), map_kernel(a, "decay_f64", decay, f64)};
    const char *why = NULL;
    JitModule *j = jit_compile(ks, 4, RT_GENERIC, &why);
    static const double edge[] = {0.0, -0.0, INFINITY, NAN, 1,      87,        88.8,  103.9,
                                  104, 700,  745.1,    746, 1e-310, 0x1p-1074, 1e300, 2};
    static double x[BATCH], y[BATCH], z[BATCH];
    static float x32[BATCH], y32[BATCH], z32[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        x[i] = i < 16 ? edge[i] : i % 2 ? random_double() : ldexp((double)(int64_t)next_random(), -53);
        x32[i] = (float)x[i];
    }
    call_map(jit_kernel(j, 2), x32, y32, BATCH);
    call_map(jit_kernel(j, 3), x, y, BATCH);
    for (unsigned i = 0; i < BATCH; i++) x[i] = -fabs(x[i]), x32[i] = -fabsf(x32[i]);
    call_map(jit_kernel(j, 0), x32, z32, BATCH);
    call_map(jit_kernel(j, 1), x, z, BATCH);
    for (unsigned i = 0; i < BATCH; i++) {
        check(!memcmp(&y[i], &z[i], 8) || (isnan(y[i]) && isnan(z[i])), "f64 exp(%a) = %a, as a decay %a", x[i], z[i],
              y[i]);
        check(!memcmp(&y32[i], &z32[i], 4) || (isnan(y32[i]) && isnan(z32[i])), "f32 exp(%a) = %a, as a decay %a",
              (double)x32[i], (double)z32[i], (double)y32[i]);
    }
    CHECK(ks[2]->ins.n < ks[0]->ins.n && ks[3]->ins.n < ks[1]->ins.n);
    jit_free(j);
    arena_free(a);
    check_end("kmath_decay");
}

int main(void)
{
    const char *exhaustive = getenv("GNNC_TEST_EXHAUSTIVE");
    Kernels k = {0};
    compile(&k);
    test_limits(&k);
    test_special(&k);
    test_variants(&k);
    test_pow();
    test_decay();
    test_accuracy(&k, exhaustive && *exhaustive == '1');
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        if (k.jit[v]) jit_free(k.jit[v]);
    arena_free(k.arena);
    return check_done();
}
