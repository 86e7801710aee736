/* The C emitter against the slow interpreter of kernel IR: the hand-written kernels on skewed
   graphs and random kernels, bit for bit, with each C compiler there is; and what its text looks
   like. */
#include "codegen/emit_c.h"
#include "tests/unit/c_module.h"
#include "tests/unit/check.h"
#include "tests/unit/kernel_cases.h"
#include "tests/unit/kir_random.h"

static const char *const compilers[] = {"gcc", "clang-19"};

/* ---- runners ------------------------------------------------------------------------------------ */

static const char *run_c(void *ctx, const char *name, const RtArg *args, const int64_t *n_elems, int64_t lo, int64_t hi)
{
    (void)n_elems;
    c_module_kernel(ctx, name)(args, lo, hi);
    return NULL;
}

/* ---- hand-written kernels ---------------------------------------------------------------------------------------- */

typedef const char *(*Case)(const CaseRunner *r, CaseOut *out);
static CaseOut slow_out, c_out;

static void test_case_with(const char *name, const KirModule *m, Case run, Arena *a, const char *cc)
{
    const char *why = NULL;
    CModule c;
    if (!c_module_have(a, cc)) {
        check_skip(arena_printf(a, "%s_%s", name, cc), "no such compiler");
        return;
    }
    check_begin();
    bool built = c_module_build(a, &c, (const KirKernel *const *)m->kernels.data, m->kernels.n, cc, "-O2", &why);
    if (check(built, "%s", why)) {
        why = run(&(CaseRunner){run_c, &c}, &c_out);
        check(!why, "%s", why);
        check(c_out.n == slow_out.n && !memcmp(c_out.data, slow_out.data, c_out.n * sizeof(float)),
              "other bits than kir_run");
    }
    check_end(arena_printf(a, "%s_%s", name, cc));
    c_module_free(&c);
}

static void test_case(const char *name, const char *path, Case run)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, path);
    check_begin();
    if (CHECK(m != NULL)) {
        const char *why = run(&(CaseRunner){case_run_slowly, &(CaseSlow){a, m}}, &slow_out);
        check(!why, "%s", why);
        CHECK(slow_out.n > 1000);
    }
    check_end(arena_printf(a, "%s_slow", name));
    for (size_t i = 0; m && i < sizeof compilers / sizeof *compilers; i++)
        test_case_with(name, m, run, a, compilers[i]);
    arena_free(a);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* What is made of literals alone has the width of its type, not that of C's int. */
static void test_literals(void)
{
    static const char path[] = "tests/kernel/literals.kir";
    enum { N = 5 };
    Arena *a = arena_new();
    const KirModule *m = case_module(a, path);
    int64_t slow[N] = {0}, fast[N] = {0};
    CModule c = {0};
    check_begin();
    if (check(m != NULL, "no module")) {
        const KirKernel *const *ks = (const KirKernel *const *)m->kernels.data;
        const char *why = kir_run(a, ks[0], (KirArg[]){{.p = slow}}, (int64_t[]){N}, 0, 1);
        if (check(!why, "%s", why) && check(c_module_build(a, &c, ks, 1, compilers[0], "-O1", &why), "%s", why)) {
            c_module_kernel(&c, ks[0]->name)((RtArg[]){{.p = fast}}, 0, 1);
            CHECK(slow[0] == INT64_C(2147483648));
            for (int i = 0; i < N; i++)
                check(slow[i] == fast[i], "number %d: %lld, wanted %lld", i, (long long)fast[i], (long long)slow[i]);
        }
    }
    c_module_free(&c);
    check_end("emit_c: numbers made of literals");
    arena_free(a);
}

/* Helpers are named by what they do and the type that they do it to, as a reader would. */
static void test_names(void)
{
    static const char *const wanted[] = {"static inline float max_f32(float a, float b)",
                                         "static inline f32x4 max_f32x4(f32x4 a, f32x4 b)",
                                         "static inline f32x4 load_f32x4(const float *p)"};
    Arena *a = arena_new();
    const KirModule *m = case_module(a, "tests/kernel/extremes.kir");
    StrBuf text = {.arena = a};
    check_begin();
    if (CHECK(m != NULL)) emit_c_kernels((const KirKernel *const *)m->kernels.data, m->kernels.n, &text);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        check(text.n && strstr(strbuf_cstr(&text), wanted[i]) != NULL, "no `%s` in\n%s", wanted[i], strbuf_cstr(&text));
    check_end("emit_c: names of helpers");
    arena_free(a);
}

/* ---- random kernels ---------------------------------------------------------------------------------------------- */

enum { PER_FILE = 50 };

static RkData before, slow_data, c_data;

/* One kernel on its own data through both. */
static bool random_agrees(Arena *a, const CModule *c, const KirKernel *k, uint64_t seed)
{
    KirArg args[RK_N_PARAMS];
    rk_data(&before, seed);
    rk_data(&slow_data, seed);
    rk_data(&c_data, seed);
    memcpy(args, slow_data.args, sizeof args);
    const char *why = kir_run(a, k, args, slow_data.n_elems, 0, RK_ROWS);
    if (!check(!why, "seed %llu: %s", (unsigned long long)seed, why)) return false;
    c_module_kernel(c, k->name)(c_data.args, 0, RK_ROWS);
    why = rk_compare(a, &slow_data, &c_data);
    return check(!why, "seed %llu: %s", (unsigned long long)seed, why);
}

/* How many kernels change their buffers: a generator of kernels that do nothing would prove
 * nothing. */
static unsigned random_file(const char *cc, const char *opt, uint64_t first)
{
    Arena *a = arena_new();
    Diags d = {.arena = a};
    const KirKernel *ks[PER_FILE];
    CModule c = {0};
    const char *why = NULL;
    unsigned active = 0;
    for (unsigned i = 0; i < PER_FILE; i++) {
        ks[i] = kir_random(a, first + i, arena_printf(a, "random_%u", i));
        StrBuf text = {.arena = a};
        if (!check(kir_verify(ks[i], &d), "seed %llu: not valid", (unsigned long long)(first + i))) {
            diags_print(&d, &text, false);
            printf("%s", text.data);
            arena_free(a);
            return 0;
        }
    }
    bool built = c_module_build(a, &c, ks, PER_FILE, cc, opt, &why);
    if (check(built, "from seed %llu: %s", (unsigned long long)first, why))
        for (unsigned i = 0; i < PER_FILE && random_agrees(a, &c, ks[i], first + i); i++)
            active += rk_compare(a, &before, &slow_data) != NULL;
    c_module_free(&c);
    arena_free(a);
    return active;
}

static void test_random(const char *cc, const char *opt, uint64_t first, unsigned n_files)
{
    Arena *a = arena_new();
    const char *name = arena_printf(a, "random_kernels_%s%s", cc, opt);
    unsigned active = 0;
    if (!c_module_have(a, cc)) {
        check_skip(name, "no such compiler");
    } else {
        check_begin();
        for (unsigned i = 0; i < n_files && check_ok; i++) active += random_file(cc, opt, first + i * PER_FILE);
        check(active >= n_files * PER_FILE * 9 / 10, "only %u of %u kernels do something", active, n_files * PER_FILE);
        check_end(name);
    }
    arena_free(a);
}

int main(int argc, char **argv)
{
    unsigned n_files = argc > 1 ? (unsigned)atoi(argv[1]) : 2; /* an argument: a longer run */
    test_case("merge_path_spmm", "tests/kernel/merge_path_spmm.kir", case_merge_path);
    test_case("extremes", "tests/kernel/extremes.kir", case_extremes);
    test_case("lane_moves", "tests/kernel/lane_moves.kir", case_lane_moves);
    test_case("edge_softmax", "tests/kernel/edge_softmax.kir", case_edge_softmax);
    test_literals();
    test_names();
    test_random("gcc", "-O1", 1, n_files);
    test_random("gcc", "-O3", 100001, n_files);
    test_random("clang-19", "-O2", 200001, n_files);
    return check_done();
}
