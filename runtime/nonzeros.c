/* Lists of nonzero elements (see nonzeros.h). Sums duplicates in the matrix's own type, as a dense row would. */
#include "runtime/nonzeros.h"
#include "runtime/abi.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "the nonzero elements of an input";

static int64_t item_bytes(const RtNonzeros *z) { return z->dtype == RT_F64 ? 8 : 4; }

static RtCode grow(RtNonzeros *z, RtStatus *st)
{
    int64_t cap = z->cap ? z->cap * 2 : 4096;
    RT_TRY(rt_grow(&z->rows, cap, sizeof *z->rows, what, st));
    RT_TRY(rt_grow(&z->cols, cap, sizeof *z->cols, what, st));
    RT_TRY(rt_grow(&z->values, cap, item_bytes(z), what, st));
    z->cap = cap;
    return RT_OK;
}

static double element(const RtNonzeros *z, const void *x, int64_t i)
{
    return z->dtype == RT_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static RtCode push(RtNonzeros *z, int64_t row, int64_t col, const void *x, int64_t i, RtStatus *st)
{
    size_t size = (size_t)item_bytes(z);
    if (element(z, x, i) == 0) return RT_OK;
    if (z->count == INT32_MAX)
        return rt_fail(st, RT_E_GRAPH_SIZE, NULL, "build the model for a dense array of the features",
                       "an input has more than 2147483647 nonzero elements");
    if (z->count == z->cap) RT_TRY(grow(z, st));
    assert(z->count < z->cap && (!z->count || z->rows[z->count - 1] <= row));
    z->rows[z->count] = (int32_t)row;
    z->cols[z->count] = (int32_t)col;
    memcpy((char *)z->values + (size_t)z->count * size, (const char *)x + (size_t)i * size, size);
    z->count++;
    return RT_OK;
}

RtCode rt_nonzeros_row(RtNonzeros *z, int64_t row, const void *x, int64_t width, RtStatus *st)
{
    for (int64_t k = 0; k < width; k++) RT_TRY(push(z, row, k, x, k, st));
    return RT_OK;
}

static bool is_ascending(const int64_t *indices, int64_t n)
{
    for (int64_t k = 1; k < n; k++)
        if (indices[k] <= indices[k - 1]) return false;
    return true;
}

/* One row written out in `scratch` [width], which is and stays 0 between calls. */
static RtCode scatter_row(RtNonzeros *z, int64_t row, const int64_t *indices, const void *values, int64_t n,
                          void *scratch, int64_t width, RtStatus *st)
{
    for (int64_t k = 0; k < n; k++)
        if (z->dtype == RT_F64) ((double *)scratch)[indices[k]] += ((const double *)values)[k];
        else ((float *)scratch)[indices[k]] += ((const float *)values)[k];
    RtCode code = rt_nonzeros_row(z, row, scratch, width, st);
    for (int64_t k = 0; k < n; k++)
        memset((char *)scratch + (size_t)(indices[k] * item_bytes(z)), 0, (size_t)item_bytes(z));
    return code;
}

RtCode rt_nonzeros_csr(RtNonzeros *z, const int64_t *indptr, const int64_t *indices, const void *values, int64_t n_rows,
                       int64_t width, const int64_t *order, RtStatus *st)
{
    void *scratch;
    RT_TRY(rt_alloc(&scratch, width, item_bytes(z), "a row of an input", st));
    RtCode code = RT_OK;
    for (int64_t v = 0; v < n_rows && !code; v++) {
        int64_t u = order ? order[v] : v, from = indptr[u], n = indptr[u + 1] - from;
        const void *row = (const char *)values + from * item_bytes(z);
        assert(n >= 0 && (!n || (indices[from] >= 0 && indices[from] < width))); /* check_csr of dataset.c */
        if (!is_ascending(indices + from, n)) {
            code = scatter_row(z, v, indices + from, row, n, scratch, width, st);
            continue;
        }
        for (int64_t k = 0; k < n && !code; k++) code = push(z, v, indices[from + k], row, k, st);
    }
    free(scratch);
    return code;
}

void rt_nonzeros_free(RtNonzeros *z)
{
    if (!z) return;
    free(z->rows);
    free(z->cols);
    free(z->values);
    *z = (RtNonzeros){0};
}
