/* A schedule as text (docs/passes.md, "Schedules as text"): which values are stored, which kernel computes them, in
   which order kernels run and by which tiles. The compiler prints what it chose; what a text says replaces its choice,
   as far as that is legal. */
#pragma once
#include "base/diag.h"
#include "passes/group/group.h"

typedef enum {
#define TILE(word, ...) TILE_##word,
#include "passes/group/tile.def"
#undef TILE
    N_TILE_NUMBERS,
    N_NARROW_NUMBERS = TILE_lanes /* the first so many may be others for few registers */
} TileNumber;

typedef struct TileText { /* numbers of a tile that a text gives */
    bool has[N_TILE_NUMBERS];
    int64_t number[N_TILE_NUMBERS];
    Span span[N_TILE_NUMBERS];
} TileText;

/* What a value is to a group. Of one group it is a root or an inner value; of others it may be a copy. */
typedef enum {
    ROLE_NONE,
    ROLE_ROOT,
    ROLE_INNER,
    ROLE_COPY, /* an inner value of another group too, or of no group (fuse_copy.c) */
    N_ROLES
} Role;

typedef struct ValueText {
    IrId v;
    Role role;
    const char *op;   /* its name, as the text says */
    TileText tile[2]; /* [1]: for few registers */
    Span span;
} ValueText;

typedef struct GroupText {
    uint32_t label;
    GroupKind kind;
    VEC(ValueText) values;
    TileText tile[2];
    Span span;
} GroupText;

typedef struct FuncText {
    const char *name;
    int64_t n_values;
    int64_t filled;   /* as FusedFunc; 0: not said */
    const char *sums; /* the map by whose rows sums over all edges are taken, or NULL */
    unsigned clones;  /* 0: none, else CloneBy + 1 */
    Span span, sums_span, clones_span;
    VEC(GroupText) groups; /* in the order they run */
} FuncText;

typedef struct ScheduleText {
    VEC(FuncText) funcs;
    Span head; /* where the text begins */
} ScheduleText;

/* What a source says, in a; NULL with E0505 in d. It is not asked what the program is: fuse and schedule do that
   (E0506). */
const ScheduleText *schedule_parse(Arena *a, const Source *src, Diags *d);
/* The function of that name, or NULL. */
static inline const FuncText *schedule_text_find(const ScheduleText *t, const char *function)
{
    for (uint32_t i = 0; i < t->funcs.n; i++)
        if (!strcmp(t->funcs.data[i].name, function)) return &t->funcs.data[i];
    return NULL;
}
