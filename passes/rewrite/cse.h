/* Equal operations of a function, found by hashing: same op, attributes and type on the same values, in any order
   where the op commutes. */
#pragma once
#include "ir/graph.h"

typedef struct OpTable { /* open addressing: hash of an op -> its value in the function */
    IrId *slots;         /* value + 1; 0: empty */
    uint32_t mask;
    const IrModule
        *names; /* of its dims: slices that have the same sizes are equal, however named; NULL: they are not */
} OpTable;
/* Room for n_ops operations. */
OpTable op_table_new(Arena *a, uint32_t n_ops);
/* The slot of an operation of f that is equal, or the empty slot where it belongs. */
IrId *op_table_find(const OpTable *t, const IrFunc *f, const IrOp *op);
