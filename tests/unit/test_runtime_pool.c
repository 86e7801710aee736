/* The thread pool and the cutting of work: every iteration runs exactly once, for any number of
   threads and chunks; and the two other ways to run a product, which must agree with plain loops.
 */
#include "runtime/blas.h"
#include "runtime/cpu.h"
#include "runtime/exec.h"
#include "runtime/pool.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_model.h"
#include <stdatomic.h>

enum { N = 10007 };
static _Atomic int hits[N];

static void hit(const RtArg *args, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) atomic_fetch_add(&hits[i], (int)args[0].i);
}

static void test_once(void)
{
    int64_t bounds[200], order[200];
    RtArg one = {.i = 1};
    check_begin();
    for (int threads = 1; threads <= 5; threads++) {
        RtPool *pool;
        RtStatus st;
        check(!rt_pool_create(threads, &pool, &st), "%s", st.message);
        for (int job = 0; job < 300; job++) {
            int64_t chunks = 1 + job % 150;
            for (int i = 0; i < N; i++) atomic_store(&hits[i], 0);
            rt_cut(N, NULL, NULL, chunks, bounds);
            for (int64_t i = 0; i < chunks; i++) order[i] = (i * 7 + 3) % chunks;
            rt_pool_run(pool, hit, &one, bounds, job % 2 && chunks % 7 ? order : NULL, chunks);
            for (int i = 0; i < N; i++)
                check(hits[i] == 1, "iteration %d ran %d times, %d threads", i, hits[i], threads);
        }
        rt_pool_free(pool);
    }
    check_end("runtime_pool_exactly_once");
}

static int64_t rows_and_elements(const void *rows, int64_t i) { return ((const int64_t *)rows)[i] + i; }

/* Chunks of a skewed graph hold equal shares of rows and elements, but for the largest row. */
static void test_cut(void)
{
    static int64_t rows[N + 1], bounds[65];
    int64_t largest = 0;
    check_begin();
    for (int64_t i = 0; i < N; i++) {
        int64_t n = i % 1000 == 7 ? 5000 : i % 3;
        rows[i + 1] = rows[i] + n;
        largest = n > largest ? n : largest;
    }
    for (int64_t chunks = 1; chunks <= 64; chunks++) {
        rt_cut(N, rows_and_elements, rows, chunks, bounds);
        CHECK(bounds[0] == 0 && bounds[chunks] == N);
        for (int64_t i = 0; i < chunks; i++) {
            int64_t weight = rows[bounds[i + 1]] - rows[bounds[i]] + bounds[i + 1] - bounds[i];
            check(bounds[i] <= bounds[i + 1], "chunk %lld ends before it begins", (long long)i);
            check(weight <= (rows[N] + N) / chunks + largest + 2, "chunk %lld of %lld weighs %lld", (long long)i,
                  (long long)chunks, (long long)weight);
        }
    }
    int64_t uneven[6] = {0, 10, 60, 70, 180, 190}, order[5];
    rt_cut_order(NULL, NULL, uneven, 5, order); /* the mean is 38: 110 is heavy, 50 is not */
    CHECK(order[4] == 3 && order[3] == 4 && order[2] == 2 && order[1] == 1 && order[0] == 0);
    uneven[2] = 100, uneven[3] = 101, uneven[4] = 201, uneven[5] = 202;
    rt_cut_order(NULL, NULL, uneven, 5, order); /* 10 90 1 100 1: two heavy ones, the heaviest is taken first */
    CHECK(order[4] == 3 && order[3] == 1 && order[2] == 4 && order[1] == 2 && order[0] == 0);
    CHECK(rt_cut_count(100, 200, 8, 4) == 1 && rt_cut_count(1000, 1, 1, 4) == 1);
    CHECK(rt_cut_count(1000, 500, 8, 4) == 2 && rt_cut_count(100000, 1, 2, 16) == 32);
    check_end("runtime_cut_balanced");
}

enum { R = 700, M = 5, C = 7, B = 300 /* rows of a block */ };

static float value(int i) { return (float)(i * 37 % 101 - 50) / 64; }

static void test_blas(void)
{
    static float a[R * M], b[R * C], w[M * C], nn[R * C], tn[3 * M * C];
    RtBlas blas;
    RtStatus st = {0};
    if (rt_blas_open(RT_BLAS_ON, rt_cpu_best(), &hm_model, &blas, &st)) {
        check_skip("runtime_blas_products", "OpenBLAS is not installed");
        return;
    }
    check_begin();
    for (int i = 0; i < R * M; i++) a[i] = value(i);
    for (int i = 0; i < R * C; i++) b[i] = value(i + 5);
    for (int i = 0; i < M * C; i++) w[i] = value(i + 9);
    RtArg args[RT_GEMM_N_ARGS] = {
        [RT_GEMM_USER] = {.p = &blas}, [RT_GEMM_A] = {.p = a},    [RT_GEMM_B] = {.p = w},
        [RT_GEMM_C] = {.p = nn},       [RT_GEMM_M] = {.i = M},    [RT_GEMM_N] = {.i = C},
        [RT_GEMM_K] = {.i = M},        [RT_GEMM_ROWS] = {.i = R}, [RT_GEMM_BLOCK_ROWS] = {.i = B}};
    blas.backend.nn_f32(args, 0, 3);
    args[RT_GEMM_B].p = b;
    args[RT_GEMM_C].p = tn;
    for (int i = 0; i < 3 * M * C; i++) tn[i] = NAN; /* every block is written whole */
    blas.backend.tn_f32(args, 0, 3);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            double want = 0;
            for (int k = 0; k < M; k++) want += (double)a[r * M + k] * (double)w[k * C + c];
            check(fabs(want - (double)nn[r * C + c]) < 1e-4, "NN at %d,%d", r, c);
        }
    for (int i = 0; i < 3 * M * C; i++) {
        double want = 0;
        for (int r = i / (M * C) * B; r < R && r < (i / (M * C) + 1) * B; r++)
            want += (double)a[r * M + i / C % M] * (double)b[r * C + i % C];
        check(fabs(want - (double)tn[i]) < 1e-3, "TN at %d", i);
    }
    rt_blas_close(&blas);
    check_end("runtime_blas_products");
}

/* A step's price is the sum of what its table says. */
static void test_price(void)
{
    enum { NODES = 4, EDGES = 3 };
    static int64_t counts[] = {1, NODES, -1};
    static const int64_t src[EDGES] = {0, 1, 2}, dst[EDGES] = {1, 2, 3};
    const RtTopology topology = {.place = "edges", .n_edges = EDGES, .src = src, .dst = dst, .counts = counts};
    RtStep steps[sizeof hm_steps / sizeof *hm_steps];
    RtModel m = hm_model;
    RtGraph *g = NULL;
    RtExec *e = NULL;
    RtStatus st = {0};
    double bytes, flops;
    memcpy(steps, hm_steps, sizeof steps);
    m.steps = steps;
    check_begin();
    CHECK(rt_graph_create(&m, &topology, &g, &st) == RT_OK);
    if (check(rt_exec_create(&m, rt_program_find(&m, "train_step"), g, &(RtExecOptions){0}, &e, &st) == RT_OK, "%s",
              st.message)) {
        RtStep *last = &steps[e->program->first_step + e->program->n_steps - 1];
        last->first_cost = 0, last->n_cost = 2;
        rt_step_cost(e, e->program->n_steps - 1, &bytes, &flops);
        CHECK(bytes == NODES * 4 * (HM_F + HM_C) + EDGES * 4 * HM_C && flops == NODES * 2 * HM_F * HM_C + EDGES * HM_C);
    }
    rt_exec_free(e);
    rt_graph_free(g);
    check_end("runtime_steps_are_priced");
}

int main(void)
{
    test_once();
    test_cut();
    test_blas();
    test_price();
    return check_done();
}
