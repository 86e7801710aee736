/* The fixed rules of this compiler about how a group runs on a CPU: vector lanes, register tiles, blocks of
   rows, grain. Nothing after it decides; lower reads these numbers. */
#pragma once
#include "passes/group/group.h"
#include "passes/context/vectors.h"

enum { MOST_BLOCKS = 32 }; /* that a sum over all rows is cut into at most: threads share them, and each has a sum in memory. No bit depends on it */

typedef struct Schedule {
    IrId vec;            /* innermost dim that runs along the vector; IR_NONE: scalar code */
    uint8_t first_vec;   /* dims before this position of a nest stay out of the vector */
    uint8_t lanes;       /* of the vector: the machine's, or the next power of two of narrow dims */
    uint8_t tile;        /* vectors (or scalars) computed together */
    uint8_t row_tile;    /* rows computed together; 1 but for products; of a product over all rows: of its result */
    bool row_lanes;      /* values without dims: vectors run along the rows */
    int64_t row_block;   /* rows of one iteration of the parallel loop; 1 without a row tile */
    int64_t grain;       /* least iterations worth a thread */
    int64_t row_strip;   /* products over all rows: rows of a block that are summed before the next tile is; 0: no such */
    bool copied, fetched; /* there: a strip's panel of the second operand is copied together first; the first operand's
                             rows of the next strip are fetched ahead */
    bool narrow;         /* for CPUs with the registers of AVX2: products have smaller tiles, all else is the same */
} Schedule;

/* Vectors of each of several values of one shape that are computed together, at most. */
static inline int64_t tile_together(const Machine *machine) { return machine->registers / 8; }

/* How the groups of a function run, and values in groups of other dims: inner values, and the roots of groups with several shapes or of
   sums over all rows. [0] is for CPUs with 32 vector registers of 64 bytes, [1] for those with 16 of 32 bytes. */
typedef struct Tiles {
    Schedule *group[2]; /* [groups] */
    Schedule *value[2]; /* [values] */
    bool *narrow;       /* [groups] a kernel of its own for few registers: [1] differs from [0] */
    int64_t *staged;    /* [groups] elements whose inner values lie in private arrays at once; 0: no inner values */
} Tiles;

/* Chooses the tiles of all groups and puts them into f->tiles. vectors: false when the pass `schedule` is off: scalar code, one row at a
   time; every sum keeps its association. False with E0506 in d where the numbers of f->text do not fit. */
bool schedule_func(FusedFunc *f, Arena *a, bool vectors, Diags *d);
/* The text of all functions of a FusedModule with tiles: legal input of schedule_parse. */
void schedule_print(const void *fused_module, StrBuf *out);
/* Puts the numbers of f->text into the tiles of f. False with E0506. */
bool schedule_apply(FusedFunc *f, Diags *d);
