/* passes/kernel/weave.c: woven kernels are sound and compute what they did before, and chains do run side by side. */
#include "passes/kernel/kernel_passes.h"
#include "tests/unit/check.h"
#include "tests/unit/kir_random.h"

enum { SEEDS = 600, STEPS = 12 };

static const char *code(Arena *a, const KirKernel *k)
{
    StrBuf out = {.arena = a};
    kir_print_code(k, &out);
    return strbuf_cstr(&out);
}

static void run(Arena *a, const KirKernel *k, RkData *data, uint64_t seed)
{
    KirArg args[RK_N_PARAMS];
    rk_data(data, seed);
    memcpy(args, data->args, sizeof args);
    const char *why = kir_run(a, k, args, data->n_elems, 0, RK_ROWS);
    check(!why, "seed %llu: %s", (unsigned long long)seed, why);
}

/* Loops, branches, registers that change, arrays, buffers that are read and written. */
static void test_random(void)
{
    static RkData plain, woven;
    Machine machine = machine_default();
    machine.chain_cycles = 0;
    unsigned changed = 0;
    check_begin();
    for (uint64_t seed = 1; seed <= SEEDS && check_ok; seed++) {
        Arena *a = arena_new();
        Diags d = {.arena = a};
        KirKernel *k = kir_random(a, seed, "k");
        const char *before = code(a, k);
        run(a, k, &plain, seed);
        const KirKernel *was = k;
        k = weave_kernel(a, &machine, was, 30);
        changed += strcmp(before, code(a, k)) != 0;
        check(!strcmp(before, code(a, was)), "seed %llu: the kernel that was given has changed",
              (unsigned long long)seed);
        check(kir_verify(k, &d), "seed %llu: not sound", (unsigned long long)seed);
        run(a, k, &woven, seed);
        const char *differs = rk_compare(a, &plain, &woven);
        check(!differs, "seed %llu: %s", (unsigned long long)seed, differs);
        arena_free(a);
    }
    check(changed >= SEEDS / 20, "only %u kernels changed", changed);
    check_end("woven_kernels_compute_the_same");
}

/* y[at ..] = ((x[at ..] * x + 1) * x + 1) ... */
static void chain(KirBuilder *b, uint32_t x, uint32_t y, int64_t at)
{
    KirType t = kir_type(KIR_F32, 16);
    KirId i = kir_int(b, kir_type(KIR_I64, 1), at), v = kir_load(b, x, t, i, 0), r = v, one = kir_const(b, t, 1);
    for (unsigned s = 0; s < STEPS; s++) r = kir_op(b, KIR_fma, t, r, v, one);
    kir_store(b, y, t, i, r, 0);
}

/* Steps of one chain that stand between two of the other. */
static unsigned alternations(const KirKernel *k)
{
    unsigned n = 0;
    KirId last = KIR_NONE, factor = KIR_NONE;
    for (uint32_t i = 0; i < k->body.ins.n; i++) {
        const KirIns *x = &k->ins.data[k->body.ins.data[i]];
        if (x->op != KIR_fma) continue;
        factor = x->args[1];
        n += last != KIR_NONE && factor != last;
        last = factor;
    }
    return n;
}

static void test_chains(bool restricted)
{
    Arena *a = arena_new();
    KirKernel *k = kir_kernel_new(a, "k");
    uint32_t x = kir_param(a, k, (KirParam){"x", KIR_IN, KIR_F32, false});
    uint32_t y = kir_param(a, k, (KirParam){"y", KIR_OUT, KIR_F32, restricted});
    KirBuilder b = kir_builder(a, k);
    Machine machine = machine_default();
    chain(&b, x, y, 0);
    chain(&b, x, y, 16);
    check_begin();
    CHECK(alternations(k) == 1);
    k = weave_kernel(a, &machine, k, 30);
    /* what may overlap keeps the second load behind the first store */
    check(restricted ? alternations(k) >= STEPS : alternations(k) == 1, "%u alternations", alternations(k));
    check_end(restricted ? "chains_run_side_by_side" : "stores_that_may_overlap_stay_in_order");
    arena_free(a);
}

/* What a warp stores before a barrier is there for the others behind it. */
static void test_barrier(void)
{
    static const char text[] = "kernel @k(x: in restrict f32*, y: out restrict f32*) {\n"
                               "  %0 = iconst i64 0\n"
                               "  %1 = iconst i64 1\n"
                               "  %2 = iconst i64 2\n"
                               "  for %3 = %0 .. %1 block {\n"
                               "    %4 = alloc f32 2 shared\n"
                               "    for %5 = %0 .. %2 warp {\n"
                               "      %6 = load f32 x[%5]\n"
                               "      store f32 %4[%5] = %6\n"
                               "      barrier\n"
                               "      %7 = sub i64 %1, %5\n"
                               "      %8 = mul f32 %6, %6\n"
                               "      %9 = mul f32 %8, %6\n"
                               "      %10 = load f32 %4[%7]\n"
                               "      %11 = add f32 %9, %10\n"
                               "      store f32 y[%5] = %11\n"
                               "    }\n"
                               "  }\n"
                               "}\n";
    Arena *a = arena_new();
    Diags d = {.arena = a};
    Source src = {"k.kir", text, sizeof text - 1};
    KirModule *m = kir_parse(a, &src, &d);
    Machine machine = machine_default();
    machine.chain_cycles = 0;
    check_begin();
    if (check(m != NULL, "not a kernel")) {
        const char *woven = code(a, weave_kernel(a, &machine, m->kernels.data[0], 30));
        const char *at[] = {strstr(woven, "store f32 %4"), strstr(woven, "barrier"), strstr(woven, "load f32 %4")};
        check(at[0] && at[0] < at[1] && at[1] < at[2], "woven:\n%s", woven);
    }
    check_end("nothing_passes_a_barrier");
    arena_free(a);
}

int main(void)
{
    test_barrier();
    test_random();
    test_chains(true);
    test_chains(false);
    return check_done();
}
