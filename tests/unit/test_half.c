/* Numbers of 16 bits through every runner of kernel IR: all 65536 patterns of f16 and bf16 as f32, and f32 that lie on,
   beside and between them, with ties, overflow, denormals and NaN, back. What is right is found by comparing distances
   in f64. */
#include "codegen/jit.h"
#include "runtime/half.h"
#include "tests/unit/c_module.h"
#include "tests/unit/check.h"
#include "tests/unit/cuda_module.h"
#include <math.h>

enum { PATTERNS = 1 << 16, PER_PATTERN = 8, NUMBERS = PATTERNS * PER_PATTERN };

/* Vectors, parts of vectors with padding, every other element, by index, and one by one. */
static const char text[] =
    "kernel @widen(x: in TYPE*, y: out restrict f32*, n: i64) {\n"
    "  %zero = iconst i64 0\n  %lanes = iconst i64 16\n  %eight = iconst i64 8\n"
    "  %n_rows = param i64 n\n"
    "  for %i = %zero .. %n_rows threads {\n"
    "    %at = mul i64 %i, %lanes\n"
    "    %half = add i64 %at, %eight\n"
    "    %numbers = lanes i64x8\n"
    "    %first = splat i64x8 %at\n    %places = add i64x8 %first, %numbers\n"
    "    %all = load f32x16 x[%at]\n    %some = load f32x8 x[%at] active 5 pad -0.1\n"
    "    %even = load f32x8 x[%at] stride 2\n    %picked = gather f32x8 x[%places] active 7 pad 3\n"
    "    store f32x16 y[%at] = %all\n"
    "    %stop = add i64 %at, %lanes\n"
    "    for %k = %half .. %stop {\n      %v = load f32 x[%k]\n      store f32 y[%k] = %v\n    }\n"
    "    %from = mul i64 %n_rows, %lanes\n    %at8 = mul i64 %i, %eight\n"
    "    %to = add i64 %from, %at8\n    store f32x8 y[%to] = %some\n"
    "    %from2 = mul i64 %n_rows, %eight\n    %to2 = add i64 %to, %from2\n    store f32x8 y[%to2] = %even\n"
    "    %to3 = add i64 %to2, %from2\n    store f32x8 y[%to3] = %picked\n"
    "  }\n}\n"
    "kernel @narrow(x: in f32*, y: out restrict TYPE*, z: out restrict f32*, n: i64) {\n"
    "  %zero = iconst i64 0\n  %eight = iconst i64 8\n  %lanes = iconst i64 16\n  %five = iconst i64 5\n"
    "  %six = iconst i64 6\n"
    "  %n_rows = param i64 n\n  %all_elements = mul i64 %n_rows, %lanes\n"
    "  for %i = %zero .. %n_rows threads {\n"
    "    %at = mul i64 %i, %lanes\n    %v = load f32x16 x[%at]\n"
    "    store f32x16 y[%at] = %v\n"
    "    %r = round_TYPE f32x16 %v\n    store f32x16 z[%at] = %r\n"
    "    %there = add i64 %at, %all_elements\n    store f32x16 y[%there] = %r\n"
    "    %half = add i64 %at, %eight\n    %five_on = add i64 %half, %five\n    %six_on = add i64 %half, %six\n"
    "    %w = load f32x8 x[%half]\n    store f32x8 y[%half] = %w active 5\n"
    "    %s = load f32 x[%five_on]\n    store f32 y[%five_on] = %s\n"
    "    %q = load f32 x[%six_on]\n    %qr = round_TYPE f32 %q\n    store f32 z[%six_on] = %qr\n    store f32 "
    "y[%six_on] = %qr\n"
    "    %e = load f32x8 x[%at] stride 2\n    store f32x8 y[%at] = %e stride 2\n"
    "  }\n}\n";

/* ---- what is right ---- */

static double value_of(bool bf16, unsigned x)
{
    int bits = bf16 ? 7 : 10, bias = bf16 ? 127 : 15, most = bf16 ? 255 : 31;
    int exponent = (int)(x >> bits) & most;
    double fraction = (double)(x & ((1u << bits) - 1)) / (1 << bits), sign = x & 0x8000 ? -1 : 1;
    if (exponent == most) return fraction == 0 ? sign * INFINITY : NAN;
    return sign * (exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias));
}

/* The pattern nearest to a number, the even one of two that are as near; infinite from the middle behind the greatest
   on. */
static unsigned nearest(bool bf16, double v)
{
    unsigned low = 0, high = bf16 ? 0x7f80 : 0x7c00, sign = signbit(v) ? 0x8000 : 0, greatest = high - 1;
    double size = fabs(v), beyond = 2 * value_of(bf16, greatest) - value_of(bf16, greatest - 1);
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (value_of(bf16, middle) <= size) low = middle;
        else high = middle;
    }
    double below = value_of(bf16, low), above = high == greatest + 1 ? beyond : value_of(bf16, high);
    if (isinf(size)) return sign | (greatest + 1);
    if (size - below != above - size) return sign | (size - below < above - size ? low : high);
    return sign | (low % 2 ? high : low);
}

static bool is_nan(bool bf16, unsigned x) { return (x & 0x7fff) > (bf16 ? 0x7f80u : 0x7c00u); }

/* Each pattern's number, its f32 neighbours, the middle to the next pattern with its neighbours, and other numbers. */
static float number(bool bf16, unsigned i)
{
    unsigned x = i / PER_PATTERN, next = x + 1;
    double here = value_of(bf16, x), there = value_of(bf16, next & 0xffff);
    if (isinf(there)) there = 2 * here - value_of(bf16, x - 1);
    float middle = (float)((here + there) / 2);
    switch (i % PER_PATTERN) {
    case 0: return (float)here;
    case 1: return nextafterf((float)here, INFINITY);
    case 2: return nextafterf((float)here, -INFINITY);
    case 3: return middle;
    case 4: return nextafterf(middle, INFINITY);
    case 5: return nextafterf(middle, -INFINITY);
    case 6: return half_bits_float(i * 2654435761u);
    default: return half_bits_float(i * 2246822519u + 77);
    }
}

/* ---- the runners ---- */

enum { RUN, C, GENERIC, AVX2, AVX512, CUDA, N_SIDES };
static const char *const sides[N_SIDES] = {"kir_run", "c", "llvm_generic", "llvm_avx2", "llvm_avx512", "cuda"};

typedef struct Sides {
    Arena *a;
    KirModule *m;
    CModule c;
    CudaModule cuda;
    JitModule *jit[RT_N_VARIANTS];
} Sides;

static const char *run(Sides *s, unsigned side, unsigned k, const RtArg *args, const int64_t *n, int64_t rows)
{
    const KirKernel *kernel = s->m->kernels.data[k];
    KirArg plain[4];
    memcpy(plain, args, sizeof plain);
    if (side == RUN) return kir_run(s->a, kernel, plain, n, 0, rows);
    if (side == CUDA) return cuda_module_run(s->a, &s->cuda, kernel, args, 0, rows, 3, 4);
    RtKernelFn f = side == C ? c_module_kernel(&s->c, kernel->name) : jit_kernel(s->jit[side - GENERIC], k);
    f(args, 0, rows);
    return NULL;
}

static bool alike(float a, double b) { return isnan(a) ? isnan(b) : (double)a == b && !signbit(a) == !signbit(b); }

static uint16_t patterns[PATTERNS], stored[2 * NUMBERS];
static float numbers[NUMBERS], widened[3 * PATTERNS], rounded[NUMBERS];

static void check_widen(Sides *s, unsigned side, bool bf16)
{
    enum { ROWS = PATTERNS / 16 };
    for (unsigned i = 0; i < PATTERNS; i++) patterns[i] = (uint16_t)i;
    memset(widened, 0x7f, sizeof widened);
    RtArg args[4] = {{.p = patterns}, {.p = widened}, {.i = ROWS}};
    const char *why = run(s, side, 0, args, (int64_t[]){PATTERNS, 3 * PATTERNS, 0}, ROWS);
    if (!check(!why, "%s", why)) return;
    for (unsigned i = 0; i < PATTERNS; i++)
        if (!check(alike(widened[i], value_of(bf16, i)), "pattern %04x is read as %g", i, (double)widened[i])) return;
    for (unsigned i = 0; i < PATTERNS / 2; i++) {
        unsigned row = i / 8, l = i % 8, first = row * 16;
        const float *y = widened + PATTERNS + i;
        double part = l < 5 ? value_of(bf16, first + l) : (double)-0.1f, picked = l < 7 ? value_of(bf16, first + l) : 3;
        bool good = alike(y[0], part) && alike(y[PATTERNS / 2], value_of(bf16, first + 2 * l));
        if (!check(good && alike(y[PATTERNS], picked), "lane %u of row %u is wrong", l, row)) return;
    }
}

static void check_narrow(Sides *s, unsigned side, bool bf16)
{
    enum { ROWS = NUMBERS / 16 };
    for (unsigned i = 0; i < NUMBERS; i++) numbers[i] = number(bf16, i);
    memset(stored, 0x55, sizeof stored), memset(rounded, 0x55, sizeof rounded);
    RtArg args[4] = {{.p = numbers}, {.p = stored}, {.p = rounded}, {.i = ROWS}};
    const char *why = run(s, side, 1, args, (int64_t[]){NUMBERS, 2 * NUMBERS, NUMBERS, 0}, ROWS);
    if (!check(!why, "%s", why)) return;
    for (unsigned i = 0; i < NUMBERS; i++) {
        bool nan = isnan(numbers[i]);
        unsigned want = nan ? 0 : nearest(bf16, (double)numbers[i]);
        for (unsigned k = 0; k < 2; k++) {
            unsigned got = stored[i + k * NUMBERS];
            if (!check(nan ? is_nan(bf16, got) : got == want, "%.9g is stored as %04x, wanted %04x", (double)numbers[i],
                       got, want))
                return;
        }
        if (!check(alike(rounded[i], nan ? NAN : value_of(bf16, want)), "%.9g is rounded to %.9g", (double)numbers[i],
                   (double)rounded[i]))
            return;
    }
}

static void test_type(bool bf16)
{
    const char *type = bf16 ? "bf16" : "f16", *why = NULL;
    Sides s = {.a = arena_new()};
    StrBuf b = {.arena = s.a};
    for (const char *p = text; *p;) {
        bool here = !strncmp(p, "TYPE", 4);
        strbuf_printf(&b, "%.*s", here ? (int)strlen(type) : 1, here ? type : p);
        p += here ? 4 : 1;
    }
    Diags d = {.arena = s.a};
    Source src = {.path = "half.kir", .text = strbuf_cstr(&b), .n = (uint32_t)b.n};
    s.m = kir_parse(s.a, &src, &d);
    StrBuf messages = {.arena = s.a};
    diags_print(&d, &messages, false);
    check_begin();
    bool built = check(s.m != NULL, "%s", strbuf_cstr(&messages));
    const KirKernel *const *ks = built ? (const KirKernel *const *)s.m->kernels.data : NULL;
    built = built && check(c_module_build(s.a, &s.c, ks, 2, "cc", "-O2", &why) &&
                               cuda_module_build(s.a, &s.cuda, ks, 2, true, &why),
                           "%s", why);
    check_end(arena_printf(s.a, "%s_is_compiled", type));
    for (unsigned v = 0; v < RT_N_VARIANTS && built; v++) s.jit[v] = jit_compile(ks, 2, v, &why);
    for (unsigned side = 0; side < N_SIDES && built; side++) {
        const char *title = arena_printf(s.a, "%s_%s", type, sides[side]);
        if (side >= GENERIC && side <= AVX512 && !s.jit[side - GENERIC]) {
            check_skip(title, "this CPU has not what it needs");
            continue;
        }
        check_begin();
        check_widen(&s, side, bf16);
        check_narrow(&s, side, bf16);
        check_end(title);
    }
    c_module_free(&s.c), cuda_module_free(&s.cuda);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) jit_free(s.jit[v]);
    arena_free(s.a);
}

/* The header that the runtime and kir_run take. */
static void test_header(bool bf16)
{
    check_begin();
    for (unsigned i = 0; i < PATTERNS; i++) {
        float x = bf16 ? bf16_to_float((uint16_t)i) : f16_to_float((uint16_t)i);
        if (!check(alike(x, value_of(bf16, i)), "pattern %04x is read as %g", i, (double)x)) break;
    }
    for (unsigned i = 0; i < NUMBERS; i++) {
        float x = number(bf16, i);
        unsigned got = bf16 ? bf16_of_float(x) : f16_of_float(x);
        if (!check(isnan(x) ? is_nan(bf16, got) : got == nearest(bf16, (double)x), "%.9g is stored as %04x", (double)x,
                   got))
            break;
    }
    check_end(bf16 ? "bf16_header" : "f16_header");
}

int main(void)
{
    for (unsigned bf16 = 0; bf16 < 2; bf16++) test_header(bf16), test_type(bf16);
    return check_done();
}
