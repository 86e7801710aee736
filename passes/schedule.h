/* The fixed rules of this compiler about how a group runs on a CPU: vector lanes, register tiles, blocks of
   rows, grain. Nothing after it decides; lower reads these numbers. */
#pragma once
#include "passes/fuse.h"

enum { MOST_BLOCKS = 32 }; /* of a sum over all rows: what may run side by side, and what has a sum in memory. No bit depends on it */

typedef struct VecDim { /* a dim that runs along a vector */
    IrId dim;
    uint8_t count; /* elements of it that lie in one vector, a power of two */
} VecDim;
typedef struct VecRun { /* trailing dims along one vector, innermost first; all but the last are whole */
    uint8_t n;
    VecDim vec[4];
} VecRun;

typedef struct Schedule {
    IrId vec;            /* innermost dim that runs along the vector; IR_NONE: scalar code */
    uint8_t first_vec;   /* dims before this position of a nest stay out of the vector */
    uint8_t lanes;       /* of the vector: 16, or the next power of two of narrow dims */
    uint8_t tile;        /* vectors (or scalars) computed together */
    uint8_t row_tile;    /* rows computed together; 1 but for products; of a product over all rows: of its result */
    bool row_lanes;      /* values without dims: vectors run along the rows */
    int64_t row_block;   /* rows of one iteration of the parallel loop; 1 without a row tile */
    int64_t grain;       /* least iterations worth a thread */
    int64_t row_strip;   /* products over all rows: rows of a block that are summed before the next tile is; 0: no such */
    bool copied, fetched; /* there: a strip's panel of the second operand is copied together first; the first operand's
                             rows of the next strip are fetched ahead */
    bool narrow;         /* for CPUs with 16 vector registers of 32 bytes: products have smaller tiles, all else is the same */
} Schedule;

/* The dims from t->dims[first] on that run along a vector, up to 16 lanes: [H = 8, D = 4] has 4 of H and 4 of D. */
VecRun schedule_run(const IrModule *m, const IrType *t, uint32_t first);
/* The reduced dims of a sum inside a row whose 16 partials may be lanes of a vector along them; false: they may not. */
bool schedule_sum_run(const IrModule *m, const IrFunc *f, const IrOp *op, VecRun *run);
unsigned run_lanes(const VecRun *run);
/* vectors: false when the pass `schedule` is off: scalar code, one row at a time; every sum keeps its association. */
Schedule schedule_group(const FusedFunc *f, uint32_t g, bool vectors);
/* The same for CPUs with fewer and shorter registers. False: nothing would differ. */
bool schedule_narrow(const FusedFunc *f, uint32_t g, bool vectors, Schedule *s);
/* How one value is computed by itself, in a group of other dims. */
Schedule schedule_value(const FusedFunc *f, IrId v, bool vectors, bool narrow);
/* Whether every value of the group can be computed for a vector of rows (lower_rows.c). */
bool rows_fit(const FusedFunc *f, uint32_t g);
void schedule_print(const void *fused_module, StrBuf *out);
