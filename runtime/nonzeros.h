/* The nonzero elements of a matrix of floats, row by row, columns ascending: what kernels read of an input that is
   mostly 0. The same list comes of a dense array and of any CSR triplet of the same matrix. */
#pragma once
#include "runtime/memory.h"

typedef struct RtNonzeros {
    int64_t count, cap, dtype; /* RT_F32 or RT_F64 */
    int32_t *rows, *cols;      /* [count] */
    void *values;              /* [count] of dtype */
} RtNonzeros;

/* Appends the elements of one dense row that are not 0. */
RtCode rt_nonzeros_row(RtNonzeros *z, int64_t row, const void *x, int64_t width, RtStatus *st);
/* Appends the rows of a CSR triplet, whose offsets and columns must have been checked. Columns may come in any order;
   elements that are given twice add up in the order given. Row i of the list is row order[i] of the triplet; NULL: row
   i. */
RtCode rt_nonzeros_csr(RtNonzeros *z, const int64_t *indptr, const int64_t *indices, const void *values, int64_t n_rows,
                       int64_t width, const int64_t *order, RtStatus *st);
void rt_nonzeros_free(RtNonzeros *z);
