/* Folds of the interpreter: what reductions and contractions share. */
#pragma once
#include "ir/eval_ops.h"
#include "ir/order.h"

typedef Num (*NumStep)(IrDtype t, Num acc, Num x);
typedef struct Fold {
    NumStep step;
    IrDtype dtype;
    bool any; /* something was taken */
    Num acc;
} Fold;

void fold_take(Fold *f, Num x);
void fold_merge(Fold *f, const Fold *other);
Num fold_lanes(Fold lanes[ORDER_PARTIALS], Num empty); /* halving: 8 onto 8, 4 onto 4, 2, 1 */
/* Where all rows of a space are summed: how many leaves these are, at least one; and their tree, level by level. */
int64_t n_leaves(int64_t n_rows);
Num fold_tree(Fold *leaves, int64_t n, Num empty);

/* Elements of map.from grouped by image, each group in the user's order. */
typedef struct MapRows {
    int64_t *begin; /* [count(to) + 1] */
    int64_t *list;  /* [mapped elements of from] */
} MapRows;
MapRows eval_map_rows(const EvalRun *r, const IrMap *map, const int64_t *image);

/* Dims of t that `without` lacks, in t's order; returns their number. */
uint32_t dims_without(const IrType *t, const IrType *without, IrId dims[IR_MAX_DIMS]);
