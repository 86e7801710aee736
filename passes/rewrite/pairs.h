/* How many pairs of a row and a key are expected, before the pass `pairs` makes them. */
#pragma once
#include "passes/rewrite/rewrite.h"

/* Fewer than this share of another number of rows are clearly fewer: what else is done with the others costs as
   much. */
#define PAIRS_CLEARLY 0.75

/* The pairs of a key, which says the place in a dim, and of the row that a map of its elements leads to. */
typedef struct PairsExpected {
    IrId key, tensor, dim, row; /* key: a value; tensor: the input that says it; row: the map */
    const IrGraph *base;        /* whose edges are the elements */
    double n, elements, sums;   /* expected pairs, elements, rows times keys */
} PairsExpected;

/* False where the pairs are not known before a function is called: of keys that are no input, of graphs that are
   drawn. */
bool pairs_expect(const PassContext *ctx, IrModule *m, const IrFunc *f, IrId key, IrId dim, IrId row, PairsExpected *p);
/* Are they clearly fewer than elements, and than rows times keys? */
bool pairs_pay(const PairsExpected *p);
