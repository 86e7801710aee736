/* The order in which sums are taken (docs/design.md, "One association per sum"). Each sum of a program has this order on every
   target, whatever runs side by side, so that its bits are the same everywhere. Interpreter, passes and runtime read the
   numbers here; a target may only choose what it computes at the same time. */
#pragma once

enum {
    ORDER_ROW_BLOCK = 256,   /* elements of one row of a map that are taken left to right; such blocks merge left to right */
    ORDER_SPACE_BLOCK = 512, /* least rows of a block of a sum over all rows of a space */
    ORDER_SPACE_BLOCKS = 32, /* most blocks of such a sum; they merge as a tree */
    ORDER_PARTIALS = 16,     /* of a sum over feature dims: element i joins partial i mod 16; these are halved */
};
