/* The fixed rules of this compiler about how a group runs on a CPU: vector lanes, register tiles, blocks of
   rows, grain. Nothing after it decides; lower reads these numbers. */
#pragma once
#include "passes/fuse.h"

enum { MOST_BLOCKS = 32 }; /* that a sum over all rows is cut into at most: threads share them, and each has a sum in memory. No bit depends on it */

typedef struct VecDim { /* a dim that runs along a vector */
    IrId dim;
    uint8_t count; /* elements of it that lie in one vector, a power of two */
} VecDim;
typedef struct VecRun { /* trailing dims along one vector, innermost first; all but the last are whole */
    uint8_t n;
    VecDim vec[4];
} VecRun;

typedef struct Schedule { /* numbers of a tile: passes/tile.def says what each is */
#define TILE(word, ...) int64_t word;
#include "passes/tile.def"
#undef TILE
} Schedule;

/* The dims from t->dims[first] on that run along a vector of so many lanes at most, 16 for example: [H = 8, D = 4] has 4 of H and 4 of D. */
VecRun schedule_run(const IrModule *m, const IrType *t, uint32_t first, int64_t lanes);
/* The reduced dims of a sum inside a row whose 16 partials may be lanes of a vector along them; false: they may not. */
bool schedule_sum_run(const IrModule *m, const IrFunc *f, const IrOp *op, VecRun *run);
unsigned run_lanes(const VecRun *run);

/* How the groups of a function run, and values in groups of other dims: inner values, and the roots of groups with several shapes or of
   sums over all rows. [0] is for CPUs with 32 vector registers of 64 bytes, [1] for those with 16 of 32 bytes. */
typedef struct Tiles {
    Schedule *group[2]; /* [groups] */
    Schedule *value[2]; /* [values] */
    bool *narrow;       /* [groups] a kernel of its own for few registers: [1] differs from [0] in vectors or rows */
} Tiles;

/* Chooses the tiles of all groups and puts them into f->tiles. vectors: false when the pass `schedule` is off: scalar code, one row at a
   time; every sum keeps its association. False with E0506 in d where the numbers of f->text do not fit. */
bool schedule_func(FusedFunc *f, Arena *a, bool vectors, Diags *d);
/* Whether every value of the group can be computed for a vector of rows (lower_rows.c). */
bool rows_fit(const FusedFunc *f, uint32_t g);
