/* Products by OpenBLAS (see blas.h), one call per fixed row block from our own pool, the library
   single-threaded. Whether a product goes there depends on its shape and the kind of machine, never on a
   measurement: a rerun, a resume and every number of threads must decide the same. OpenBLAS 0.3.21 takes recent
   AMD cores for Haswell and runs at half speed; naming the core type before the library starts is
   the cure. */
#include "runtime/blas.h"
#include "runtime/cpu.h"
#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
/* Where the emitted kernels have 32 registers of 16 lanes they are at least as fast (bench/gemm.py), so
   `auto` leaves all products to them; on a lesser CPU OpenBLAS's tiles win from this size on. */
enum { LEAST_WEIGHT = 4096, LEAST_N = 16, LEAST_ROWS = 1024 };

typedef void (*Sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                      const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*Dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                      const double *b, int ldb, double beta, double *c, int ldc);

typedef struct Block { /* rows [first, first + n) of block i */
    int64_t first, n;
} Block;

static Block block_rows(const RtArg *args, int64_t i)
{
    int64_t size = args[RT_GEMM_BLOCK_ROWS].i, rows = args[RT_GEMM_ROWS].i, first = i * size;
    if (first > rows) first = rows;
    assert(first >= 0 && size > 0);
    return (Block){first, rows - first < size ? rows - first : size};
}

/* C[rows][n] = A[rows][k] B[k][n], blocks of rows */
static void nn_f32(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtBlas *blas = args[RT_GEMM_USER].p;
    Sgemm gemm = (Sgemm)(uintptr_t)blas->sgemm;
    const float *a = args[RT_GEMM_A].p, *b = args[RT_GEMM_B].p;
    float *c = args[RT_GEMM_C].p;
    int64_t n = args[RT_GEMM_N].i, k = args[RT_GEMM_K].i;
    for (int64_t i = lo; i < hi; i++) {
        Block r = block_rows(args, i);
        gemm(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)r.n, (int)n, (int)k, 1, a + r.first * k, (int)k, b, (int)n, 0,
             c + r.first * n, (int)n);
    }
}

static void nn_f64(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtBlas *blas = args[RT_GEMM_USER].p;
    Dgemm gemm = (Dgemm)(uintptr_t)blas->dgemm;
    const double *a = args[RT_GEMM_A].p, *b = args[RT_GEMM_B].p;
    double *c = args[RT_GEMM_C].p;
    int64_t n = args[RT_GEMM_N].i, k = args[RT_GEMM_K].i;
    for (int64_t i = lo; i < hi; i++) {
        Block r = block_rows(args, i);
        gemm(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)r.n, (int)n, (int)k, 1, a + r.first * k, (int)k, b, (int)n, 0,
             c + r.first * n, (int)n);
    }
}

/* C[block][m][n] = A[block rows][m]^T B[block rows][n] */
static void tn_f32(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtBlas *blas = args[RT_GEMM_USER].p;
    Sgemm gemm = (Sgemm)(uintptr_t)blas->sgemm;
    const float *a = args[RT_GEMM_A].p, *b = args[RT_GEMM_B].p;
    float *c = args[RT_GEMM_C].p;
    int64_t m = args[RT_GEMM_M].i, n = args[RT_GEMM_N].i;
    for (int64_t i = lo; i < hi; i++) {
        Block r = block_rows(args, i);
        memset(c + i * m * n, 0, (size_t)(m * n) * sizeof *c); /* an empty block is a sum of nothing */
        if (r.n > 0)
            gemm(ROW_MAJOR, TRANS, NO_TRANS, (int)m, (int)n, (int)r.n, 1, a + r.first * m, (int)m, b + r.first * n,
                 (int)n, 0, c + i * m * n, (int)n);
    }
}

static void tn_f64(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtBlas *blas = args[RT_GEMM_USER].p;
    Dgemm gemm = (Dgemm)(uintptr_t)blas->dgemm;
    const double *a = args[RT_GEMM_A].p, *b = args[RT_GEMM_B].p;
    double *c = args[RT_GEMM_C].p;
    int64_t m = args[RT_GEMM_M].i, n = args[RT_GEMM_N].i;
    for (int64_t i = lo; i < hi; i++) {
        Block r = block_rows(args, i);
        memset(c + i * m * n, 0, (size_t)(m * n) * sizeof *c);
        if (r.n > 0)
            gemm(ROW_MAJOR, TRANS, NO_TRANS, (int)m, (int)n, (int)r.n, 1, a + r.first * m, (int)m, b + r.first * n,
                 (int)n, 0, c + i * m * n, (int)n);
    }
}

static bool fits_int(const RtGemm *g) { return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX; }

/* By the shape and, where BLAS is opened, the machine, not by --cpu: every kind of kernel gives the same bits on one
   machine. */
static bool wanted_auto(const RtGemm *g, int64_t rows)
{
    int64_t inner = g->transposed_a ? g->m : g->k;
    return fits_int(g) && rows >= LEAST_ROWS && g->n >= LEAST_N && inner * g->n >= LEAST_WEIGHT;
}

static bool wanted_on(const RtGemm *g, int64_t rows) { return fits_int(g) && rows > 0; }

/* Whether any product of the model could go to BLAS: opening it costs milliseconds. */
static bool model_wants(const RtModel *m, RtBlasMode mode)
{
    for (int64_t p = 0; p < m->n_programs; p++)
        for (int64_t i = 0; i < m->programs[p].n_steps; i++) {
            const RtStep *s = &m->steps[m->programs[p].first_step + i];
            bool product = s->kind == RT_STEP_PRODUCT;
            if (product && (mode == RT_BLAS_ON || wanted_auto(&m->products[s->part], LEAST_ROWS))) return true;
        }
    return false;
}

static void *open_library(RtBlas *b)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblasp.so.0", "libopenblas.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) continue;
        snprintf(b->path, sizeof b->path, "%s", names[i]);
        return library;
    }
    return NULL;
}

RtCode rt_blas_open(RtBlasMode mode, int best, const RtModel *m, RtBlas *b, RtStatus *st)
{
    *b = (RtBlas){0};
    if (mode == RT_BLAS_OFF || (mode == RT_BLAS_AUTO && best == RT_AVX512) || !model_wants(m, mode)) return RT_OK;
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* it must not start threads of its own */
    if (best == RT_AVX512) setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (best < rt_cpu_best()) setenv("OPENBLAS_CORETYPE", best == RT_AVX2 ? "Haswell" : "Nehalem", 0);
    b->library = open_library(b);
    if (b->library) {
        b->sgemm = dlsym(b->library, "cblas_sgemm");
        b->dgemm = dlsym(b->library, "cblas_dgemm");
        void (*set_threads)(int) = (void (*)(int))(uintptr_t)dlsym(b->library, "openblas_set_num_threads");
        if (set_threads) set_threads(1);
    }
    if (b->sgemm && b->dgemm) {
        b->backend = (RtGemmBackend){
            "openblas", b, nn_f32, nn_f64, tn_f32, tn_f64, mode == RT_BLAS_ON ? wanted_on : wanted_auto, false};
        return RT_OK;
    }
    rt_blas_close(b);
    if (mode == RT_BLAS_AUTO) return RT_OK;
    return rt_fail(st, RT_E_CLI_VALUE, "--blas on", "install libopenblas0-pthread, or use --blas off",
                   "libopenblas.so.0 cannot be opened");
}

void rt_blas_close(RtBlas *b)
{
    if (!b) return;
    if (b->library) dlclose(b->library);
    *b = (RtBlas){0};
}

const RtGemmBackend *rt_blas_backend(const RtBlas *b) { return b->library ? &b->backend : NULL; }
