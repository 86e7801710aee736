/* The fixed rules of this compiler about how a group runs on a CPU: vector lanes, register tiles, blocks of
   rows, grain. Nothing after it decides; lower reads these numbers. */
#pragma once
#include "passes/fuse.h"

typedef struct Schedule {
    IrId vec;            /* dim that runs along the vector; IR_NONE: scalar code */
    uint8_t lanes;       /* of the vector: 16, or the next power of two of a narrow dim */
    uint8_t tile;        /* vectors (or scalars) computed together */
    uint8_t tile_last;   /* of these, at most so many along the last dim */
    uint8_t row_tile;    /* rows computed together; 1 but for products */
    bool row_lanes;      /* values without dims: vectors run along the rows */
    int64_t row_block;   /* rows of one iteration of the parallel loop; 1 without a row tile */
    int64_t grain;       /* least iterations worth a thread */
    int64_t row_strip;   /* rows of a block that are summed before the next tile is; 0: all of them */
    int64_t edge_block;  /* association of sums over a map's rows */
    int64_t block_rows, max_blocks; /* association of sums over all rows */
    uint8_t partials;    /* association of sums inside a row */
} Schedule;

/* vectors: false when the pass `schedule` is off: scalar code, one row at a time; every sum keeps its association. */
Schedule schedule_group(const FusedFunc *f, uint32_t g, bool vectors);
/* Whether every value of the group can be computed for a vector of rows (lower_rows.c). */
bool rows_fit(const FusedFunc *f, uint32_t g);
void schedule_print(const void *fused_module, StrBuf *out);
