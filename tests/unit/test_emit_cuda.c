/* The CUDA emitter against the slow interpreter of kernel IR, bit for bit, on a host: the shim of codegen/cuda runs
   what was emitted, its threads and blocks in orders that seeds draw.
   Run: lesser */
#include "tests/unit/check.h"
#include "tests/unit/cuda_module.h"
#include "tests/unit/kernel_cases.h"
#include "tests/unit/kir_random.h"

/* ---- hand-written kernels ---- */

typedef struct Compiled {
    Arena *arena;
    const KirModule *module;
    const CudaModule *cuda;
} Compiled;

static const char *run_compiled(void *ctx, const char *name, const RtArg *args, const int64_t *n_elems, int64_t lo,
                                int64_t hi)
{
    const Compiled *c = ctx;
    (void)n_elems;
    return cuda_module_run(c->arena, c->cuda, c->module->kernels.data[case_kernel(c->module, name)], args, lo, hi, 2,
                           5);
}

typedef const char *(*Case)(const CaseRunner *r, CaseOut *out);
static CaseOut slow_out, cuda_out;

/* before: text before the shim. */
static void test_case_behind(const char *before, const char *name, Case run)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, arena_printf(a, "tests/kernel/%s.kir", name));
    const char *why = NULL;
    CudaModule cuda = {0};
    check_begin();
    if (CHECK(m != NULL)) {
        why = run(&(CaseRunner){case_run_slowly, &(CaseSlow){a, m}}, &slow_out);
        check(!why, "%s", why);
        StrBuf text = {.arena = a};
        strbuf_puts(&text, before);
        emit_cuda_host((const KirKernel *const *)m->kernels.data, NULL, m->kernels.n, &text);
        bool built = cuda_module_build_text(a, &cuda, strbuf_cstr(&text), false, &why);
        check(built, "%s", why);
        for (unsigned seed = 1; built && seed <= 2; seed++) {
            cuda.seed(seed);
            why = run(&(CaseRunner){run_compiled, &(Compiled){a, m, &cuda}}, &cuda_out);
            check(!why, "seed %u: %s", seed, why);
            check(cuda_out.n == slow_out.n && !memcmp(cuda_out.data, slow_out.data, slow_out.n * sizeof(float)),
                  "seed %u: other bits than kir_run", seed);
        }
    }
    check_end(arena_printf(a, "emit_cuda: %s%s", name, before[0] ? ", by ucontext" : ""));
    cuda_module_free(&cuda);
    arena_free(a);
}

static void test_case(const char *name, Case run) { test_case_behind("", name, run); }

static unsigned count_of(const char *text, const char *what)
{
    unsigned n = 0;
    while ((text = strstr(text, what))) n++, text += strlen(what);
    return n;
}

/* Four sums of heads are computed across lanes that have features in a row, and scores of eight heads come from one
   lane. */
static void test_heads_text(void)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, "tests/kernel/heads.kir");
    check_begin();
    if (CHECK(m != NULL)) {
        StrBuf text = {.arena = a};
        emit_cuda_kernels((const KirKernel *const *)m->kernels.data, NULL, m->kernels.n, &text);
        const char *kernel = strstr(strbuf_cstr(&text), "__global__");
        CHECK(count_of(kernel, "gnn::sums<") == 4);
        CHECK(count_of(kernel, "gnn::sums<8>(") == 2);
        CHECK(count_of(kernel, ", l / 2)") == 2);
        const char *meets = strstr(kernel, "gnn::"), *load = strstr(kernel, "(const float4 *)");
        while (meets && (!strncmp(meets, "gnn::min", 8) || !strncmp(meets, "gnn::max", 8) ||
                         !strncmp(meets, "gnn::unknown", 12)))
            meets = strstr(meets + 1, "gnn::");
        CHECK(load && meets && load < meets && !strstr(meets, "(const float4 *)")); /* all loads come first */
        CHECK(count_of(kernel, "gnn::lane(") == 8); /* scores of other heads one by one, of a register two by two */
    }
    check_end("emit_cuda: heads_text");
    arena_free(a);
}

/* Where each of eight heads fills a vector, the text loads two scores and divides two, each for four vectors at once,
   and sums up the features of all eight heads in one call. Vectors that cannot be moved together are loaded one by
   one. */
static void test_filled_heads_text(void)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, "tests/kernel/filled_heads.kir");
    check_begin();
    for (unsigned i = 0; CHECK(m != NULL) && i < 2; i++) {
        StrBuf text = {.arena = a};
        emit_cuda_kernels((const KirKernel *const *)&m->kernels.data[i], NULL, 1, &text);
        const char *kernel = strstr(strbuf_cstr(&text), "__global__");
        unsigned lanes = i ? 8 : 16;
        CHECK(count_of(kernel, arena_printf(a, " + l / %u]", lanes / 4)) == 2);
        CHECK(count_of(kernel, arena_printf(a, " + l / %u]", lanes / 2)) == 2);
        CHECK(count_of(kernel, arena_printf(a, i ? "gnn::sums<%u, 8>(" : "gnn::sums<%u>(", lanes)) == 1);
        CHECK(count_of(kernel, " / p") == 2);
        CHECK(count_of(kernel, " = ex[") == 8 && count_of(kernel, " = fx[") == 8 && count_of(kernel, " = gx[") == 8);
    }
    check_end("emit_cuda: filled_heads_text");
    arena_free(a);
}

/* The loop of 64 turns is unrolled 32 times. Each loop of which turns may be left is two, of 32 turns and of one. That
   whose turns all go one way is for compilers to unroll, no other is, and none of them stands twice for `order`. */
static void test_turns_text(void)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, "tests/kernel/turns.kir");
    check_begin();
    if (CHECK(m != NULL)) {
        StrBuf text = {.arena = a};
        emit_cuda_kernels((const KirKernel *const *)m->kernels.data, NULL, m->kernels.n, &text);
        const char *kernel = strstr(strbuf_cstr(&text), "__global__");
        CHECK(count_of(kernel, "#pragma unroll 32\n") == 1);
        CHECK(count_of(kernel, "[&](const i64 ") == 4 && count_of(kernel, "#pragma unroll\n") == 4 + 1);
        CHECK(count_of(kernel, "#pragma unroll 1\n") == 2 * 4 + 2);
        CHECK(count_of(kernel, "for (") == 3 * 4 + 4 + 2);
        CHECK(count_of(kernel, "gnn::unknown(order)") == 1 && !strstr(kernel, "order ?"));
    }
    check_end("emit_cuda: turns_text");
    arena_free(a);
}

/* ---- random kernels ---- */

enum { PER_FILE = 25 };
static RkData before, slow_data, cuda_data;

static bool random_agrees(Arena *a, const CudaModule *m, const KirKernel *k, uint64_t seed)
{
    KirArg args[RK_N_PARAMS];
    rk_data(&before, seed), rk_data(&slow_data, seed), rk_data(&cuda_data, seed);
    memcpy(args, slow_data.args, sizeof args);
    const char *why = kir_run(a, k, args, slow_data.n_elems, 0, RK_ROWS);
    if (!check(!why, "seed %llu: %s", (unsigned long long)seed, why)) return false;
    m->seed(seed + 1);
    /* iterations of random kernels write the same elements: one warp runs them one after another */
    why = cuda_module_run(a, m, k, cuda_data.args, 0, RK_ROWS, 1, 1);
    if (!why) why = rk_compare(a, &slow_data, &cuda_data);
    return check(!why, "seed %llu: %s", (unsigned long long)seed, why);
}

static void test_random(uint64_t first, unsigned n_files)
{
    unsigned active = 0;
    check_begin();
    for (unsigned f = 0; f < n_files && check_ok; f++) {
        Arena *a = arena_new();
        const KirKernel *ks[PER_FILE];
        CudaModule m = {0};
        const char *why = NULL;
        uint64_t seed = first + f * PER_FILE;
        for (unsigned i = 0; i < PER_FILE; i++) ks[i] = kir_random(a, seed + i, arena_printf(a, "random_%u", i));
        bool built = cuda_module_build(a, &m, ks, PER_FILE, false, &why);
        if (check(built, "from seed %llu: %s", (unsigned long long)seed, why))
            for (unsigned i = 0; i < PER_FILE && random_agrees(a, &m, ks[i], seed + i); i++)
                active += rk_compare(a, &before, &slow_data) != NULL;
        cuda_module_free(&m);
        arena_free(a);
    }
    check(!check_ok || active >= n_files * PER_FILE * 9 / 10, "only %u kernels do something", active);
    check_end("emit_cuda: random kernels");
}

int main(int argc, char **argv)
{
    unsigned scale = argc > 1 ? (unsigned)atoi(argv[1]) : check_amount(1, 3);
    test_case("merge_path_spmm", case_merge_path);
    test_case("extremes", case_extremes);
    test_case("lane_moves", case_lane_moves);
    test_case("side_by_side", case_side_by_side);
    test_case("heads", case_heads);
    test_heads_text();
    test_case("filled_heads", case_filled_heads);
    test_filled_heads_text();
    test_case("turns", case_turns);
    test_turns_text();
    test_case("edge_softmax", case_edge_softmax);
    test_case("sum_of_warps", case_sum_of_warps);
    test_case_behind("#define SHIM_PORTABLE\n", "sum_of_warps", case_sum_of_warps); /* as on other CPUs than x86-64 */
    test_random(500001, 2 * scale);
    return check_done();
}
