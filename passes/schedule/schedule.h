/* How each group runs: lanes of vectors, tiles in registers, blocks of rows, distances. The pass chooses these
   numbers, or takes them from a text; lower and the passes on kernel IR read them. */
#pragma once
#include "passes/group/group.h"
#include "passes/context/vectors.h"

/* how one kernel, or one value of it, is computed; passes/group/tile.def explains each number */
typedef struct Schedule {
#define TILE(word, ...) int64_t word;
#include "passes/group/tile.def"
#undef TILE
} Schedule;

/* How the groups of a function run, and values in groups of other dims: inner values, and the roots of groups with
   several shapes or of sums over all rows. A value that several groups compute has a tile in each. [0] is for CPUs with
   32 vector registers of 64 bytes, [1] for those with 16 of 32 bytes. */
typedef struct Tiles {
    Schedule *group[2];  /* [groups] */
    Schedule **value[2]; /* [groups][roots, then inner values of the group]: see value_tile */
    /* [groups] CPUs with few registers get a kernel of their own, for which the group or a value has other numbers in
       [1] than in [0] */
    bool *narrow;
} Tiles;

/* Levels of the tree of blocks' sums that warps can merge together: 2^14 blocks, for which 32 warps have 60 KiB in
   f64. */
enum { SCHEDULE_MERGER_LEVELS = 14 };

/* The tile of a root or an inner value of group g. */
Schedule *value_tile(const FusedFunc *f, unsigned narrow, uint32_t g, IrId v);
/* Chooses the tiles of all groups and puts them into f->tiles. vectors: false when the pass `schedule` is off: scalar
   code, one row at a time; every sum keeps its association. False with E0506 in d where the numbers of f->text do not
   fit. */
bool schedule_func(FusedFunc *f, Arena *a, bool vectors, Diags *d);
/* The text of all functions of a FusedModule with tiles: legal input of schedule_parse. */
void schedule_print(const void *fused_module, StrBuf *out);
/* Targets that one vector of a group of nearest points may have: their lists lie in private arrays. */
int64_t nearest_most(const FusedFunc *f, const Group *g);
/* Rows of a strip that warps of a block can share. */
int64_t shared_strip_most(const FusedFunc *f, const Group *g);
/* A kernel of one row that has a first dim for threads. */
bool schedule_may_part(const FusedFunc *f, const Group *g);
/* Puts the numbers of f->text into the tiles of f. False with E0506. */
bool schedule_apply(FusedFunc *f, Diags *d);
