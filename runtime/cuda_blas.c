/* Products of a device by cuBLAS, which cuda_driver.c opens where a run asks for it (`--blas on`; see cuda.h). It takes
   matrices by columns: a matrix by rows is the transposed one by columns, so each product is asked for as that of the
   transposed factors in the other order. Numbers are multiplied and added as they are, never as TF32 or in parts: the
   pedantic kinds of cuBLAS, which no variable of the environment changes. One version of cuBLAS gives one kind of GPU
   the same bits each time. */
#include "runtime/cuda.h"
#include <assert.h>

enum { NO_TRANS, TRANS }; /* cublasOperation_t */
enum { R_32F, R_64F };    /* cudaDataType_t */
enum { COMPUTE_32F_PEDANTIC = 69, COMPUTE_64F_PEDANTIC = 71, ALGO_DEFAULT = -1 };
enum { MOST_BATCH = 65535 };

static bool wanted(const RtGemm *g, int64_t rows)
{
    return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX && rows > 0 && rows <= INT32_MAX;
}

const RtGemmBackend rt_cuda_blas = {.name = "cublas", .on_device = true, .wanted = wanted};

void rt_cuda_blas_close(RtCuda *c)
{
    if (!c || !c->blas.handle) return;
    c->blas.destroy(c->blas.handle);
    c->blas.handle = NULL;
}

/* n products side by side: C = A B, or A^T B, of matrices by rows, each so many elements behind the one before it. */
typedef struct Products {
    RtCudaPtr a, b, c;
    int64_t inner, n; /* C[outer][n] */
    int64_t outer, a_step, b_step, c_step, count;
    bool transposed_a; /* A[inner][outer], else A[outer][inner] */
    bool f32;
} Products;

static int multiply(const RtCuda *c, const Products *p)
{
    static const float one_f = 1, zero_f = 0;
    static const double one_d = 1, zero_d = 0;
    const void *one = p->f32 ? (const void *)&one_f : &one_d, *zero = p->f32 ? (const void *)&zero_f : &zero_d;
    int type = p->f32 ? R_32F : R_64F, ld_a = (int)(p->transposed_a ? p->outer : p->inner), ld_b = (int)p->n;
    size_t bytes = p->f32 ? sizeof one_f : sizeof one_d;
    /* what tests have in the library's place computes at once, and so is in no capture */
    int error = c->driver.shim ? c->driver.stream_wait(c->stream) : 0;
    for (int64_t i = 0; i < p->count && !error; i += MOST_BATCH) {
        int64_t left = p->count - i, batch = left < MOST_BATCH ? left : MOST_BATCH;
        error = c->blas.gemm(c->blas.handle, NO_TRANS, p->transposed_a ? TRANS : NO_TRANS, (int)p->n, (int)p->outer,
                             (int)p->inner, one, p->b + (RtCudaPtr)(i * p->b_step) * bytes, type, ld_b, p->b_step,
                             p->a + (RtCudaPtr)(i * p->a_step) * bytes, type, ld_a, p->a_step, zero,
                             p->c + (RtCudaPtr)(i * p->c_step) * bytes, type, ld_b, p->c_step, (int)batch,
                             p->f32 ? COMPUTE_32F_PEDANTIC : COMPUTE_64F_PEDANTIC, ALGO_DEFAULT);
    }
    return error;
}

static RtCudaPtr address(const RtExec *e, int64_t buffer) { return (RtCudaPtr)(uintptr_t)e->buffers[buffer]; }

void rt_cuda_product(RtCuda *c, const RtExec *e, const RtExecStep *x)
{
    const RtGemm *g = x->there;
    int64_t rows = rt_count_value(e->graph, &g->rows, RT_OWNED);
    Products p = {.a = address(e, g->a),
                  .b = address(e, g->b),
                  .c = address(e, g->c),
                  .inner = g->k,
                  .outer = rows,
                  .n = g->n,
                  .count = 1,
                  .transposed_a = g->transposed_a != 0,
                  .f32 = g->elem == RT_K_F32};
    RtCudaPtr bytes = p.f32 ? sizeof(float) : sizeof(double);
    int error = 0;
    assert(c->blas.handle && rows > 0);
    if (p.transposed_a) { /* whole blocks of rows, and what is left of one */
        int64_t size = rt_count_value(e->graph, &g->block_rows, RT_OWNED), whole = rows / size, left = rows % size;
        assert(size > 0 && whole + (left > 0) == x->extent); /* a block without rows is one of no rows at all */
        p.inner = size, p.outer = g->m, p.count = whole;
        p.a_step = size * g->m, p.b_step = size * g->n, p.c_step = g->m * g->n;
        if (whole) error = multiply(c, &p);
        p.a += (RtCudaPtr)(whole * p.a_step) * bytes, p.b += (RtCudaPtr)(whole * p.b_step) * bytes;
        p.c += (RtCudaPtr)(whole * p.c_step) * bytes;
        p.inner = left, p.count = 1;
        if (left && !error) error = multiply(c, &p);
    } else {
        error = multiply(c, &p);
    }
    if (error && !c->failed.code)
        rt_fail(&c->failed, RT_E_DEVICE_FAILED, c->name, NULL, "cuBLAS cannot compute %.100s: its status is %d",
                rt_string(e->model, x->def->label), error);
}
