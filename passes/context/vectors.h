/* Which dims of a value run along the vectors of a machine. */
#pragma once
#include "ir/graph.h"
#include <stdint.h>

typedef struct VecDim { /* a dim that runs along a vector */
    IrId dim;
    uint8_t count; /* elements of it that lie in one vector, a power of two */
} VecDim;
typedef struct VecRun { /* trailing dims along one vector, innermost first; all but the last are whole */
    uint8_t n;
    VecDim vec[4];
} VecRun;

/* The dims from t->dims[first] on that run along a vector of so many lanes at most, 16 for example: [H = 8, D = 4] has
   4 of H and 4 of D. */
VecRun vec_run(const IrModule *m, const IrType *t, uint32_t first, int64_t lanes);
/* The reduced dims of a sum inside a row whose 16 partials may be lanes of a vector along them; false: they may not. */
bool vec_sum_run(const IrModule *m, const IrFunc *f, const IrOp *op, VecRun *run);
unsigned run_lanes(const VecRun *run);
