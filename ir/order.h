/* The order in which sums are taken (docs/design.md, "One association per sum"). Each sum of a program has this order
   on every target, whatever runs side by side, so that its bits are the same everywhere. Interpreter, passes and
   runtime read the numbers here; a target may only choose what it computes at the same time. */
#pragma once
#include "ir/graph.h"

enum {
    /* elements of one row of a map that are taken left to right; such blocks merge left to right */
    ORDER_ROW_BLOCK = 256,
    /* rows of a leaf of a sum over all rows of a space: rows 512 i .. 512 i + 511, left to right. Leaves merge as a
       binary tree: level by level neighbour 2 i takes in 2 i + 1, one without a neighbour moves up */
    ORDER_LEAF = 512,
    ORDER_PARTIALS = 16, /* of a sum over feature dims: element i joins partial i mod 16; these are halved */
};

/* Dims that a dims reduction or contract sums over, in the order of the sum, into dims[2 * IR_MAX_DIMS]. Returns their
   number. */
unsigned reduced_dims(const IrFunc *f, const IrOp *op, IrId *dims);
/* A contract of a and b to r sums inside the row, in ORDER_PARTIALS partials. */
bool contract_types_dot(const IrType *a, const IrType *b, const IrType *r);
bool contract_is_dot(const IrFunc *f, const IrOp *op);
