/* A library with the functions of cuBLAS that executables call, for the shim, whose device memory is this machine's. It
   looks at each argument as cuBLAS says it wants them (matrices by columns), computes by loops, and writes a line for
   each call to the file that FAKE_CUBLAS_LOG names: the sizes of C, the length of sums and how many products.
   FAKE_CUBLAS_FAILS=N: call N ends with a status. */
#include <stdio.h>
#include <stdlib.h>

enum { OK, NOT_INITIALIZED, INVALID_VALUE = 7, FAILED = 13 };
enum { R_32F, R_64F, COMPUTE_32F_PEDANTIC = 69, COMPUTE_64F_PEDANTIC = 71 };

static struct {
    void *stream;
    int open, calls;
} state;

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, void *stream);
int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                               int type_a, int lda, long long step_a, const void *b, int type_b, int ldb,
                               long long step_b, const void *beta, void *c, int type_c, int ldc, long long step_c,
                               int count, int compute, int algorithm);

int cublasCreate_v2(void **handle)
{
    *handle = &state;
    state.open++;
    return OK;
}

int cublasDestroy_v2(void *handle) { return handle == &state && state.open-- == 1 ? OK : NOT_INITIALIZED; }

int cublasSetStream_v2(void *handle, void *stream)
{
    state.stream = stream;
    return handle == &state && stream ? OK : INVALID_VALUE;
}

static double read_at(const void *p, int f32, long long i)
{
    return f32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                               int type_a, int lda, long long step_a, const void *b, int type_b, int ldb,
                               long long step_b, const void *beta, void *c, int type_c, int ldc, long long step_c,
                               int count, int compute, int algorithm)
{
    int f32 = type_a == R_32F;
    const char *log = getenv("FAKE_CUBLAS_LOG"), *fails = getenv("FAKE_CUBLAS_FAILS");
    FILE *f = log ? fopen(log, "a") : NULL;
    if (f) fprintf(f, "%d %d %d %d %d %d\n", m, n, k, count, ta, tb), fclose(f);
    if (handle != &state || !state.open || !state.stream || algorithm != -1) return NOT_INITIALIZED;
    if (type_a != type_b || type_a != type_c || type_a > R_64F ||
        compute != (f32 ? COMPUTE_32F_PEDANTIC : COMPUTE_64F_PEDANTIC))
        return INVALID_VALUE;
    if (ta > 1 || tb > 1 || m < 1 || n < 1 || k < 1 || count < 1) return INVALID_VALUE;
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return INVALID_VALUE;
    if (count > 1 && step_c < (long long)ldc * n) return INVALID_VALUE;
    if (read_at(alpha, f32, 0) != 1 || read_at(beta, f32, 0) != 0) return INVALID_VALUE;
    if (fails && ++state.calls == atoi(fails)) return FAILED;
    for (long long p = 0; p < count; p++)
        for (long long j = 0; j < n; j++)
            for (long long i = 0; i < m; i++) {
                double sum = 0;
                for (long long q = k; q-- > 0;)
                    sum += read_at(a, f32, p * step_a + (ta ? i * lda + q : q * lda + i)) *
                           read_at(b, f32, p * step_b + (tb ? q * ldb + j : j * ldb + q));
                if (f32) ((float *)c)[p * step_c + j * ldc + i] = (float)sum;
                else ((double *)c)[p * step_c + j * ldc + i] = sum;
            }
    return OK;
}
