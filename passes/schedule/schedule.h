/* The fixed rules of this compiler about how a group runs on a CPU: vector lanes, register tiles, blocks of
   rows, grain. Nothing after it decides; lower reads these numbers. */
#pragma once
#include "passes/group/group.h"
#include "passes/context/vectors.h"

typedef struct Schedule { /* numbers of a tile: passes/group/tile.def says what each is */
#define TILE(word, ...) int64_t word;
#include "passes/group/tile.def"
#undef TILE
} Schedule;

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
/* The text of all functions of a FusedModule with tiles: legal input of schedule_parse. */
void schedule_print(const void *fused_module, StrBuf *out);
/* Puts the numbers of f->text into the tiles of f. False with E0506. */
bool schedule_apply(FusedFunc *f, Diags *d);
