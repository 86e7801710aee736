/* What is known of every element of a value, whatever the data are: one rule per op, which all passes read. */
#pragma once
#include "ir/graph.h"

typedef uint16_t Facts;
enum {
    /* Certain, whatever the arguments hold. */
    FACT_FINITE = 1,      /* neither infinite nor NaN */
    FACT_NO_NEG_ZERO = 2, /* never -0 */
    FACT_POSITIVE = 4,    /* sign bit clear (0 too), or NaN; implies FACT_NO_NEG_ZERO */
    /* As long as arguments are finite and nothing overflowed before. */
    FACT_IN_RANGE = 8, /* neither infinite nor NaN */
    /* FACT_IN_RANGE, and no exp is in it, which overflows soon: a model that selects around that means it */
    FACT_NO_EXP = 16,
    FACT_NONZERO = 32,      /* never 0, nor so small that it is 0 as f32 */
    FACT_NOT_NEGATIVE = 64, /* never below 0 */
    /* Of operands of usual size, in rows that nobody reads as well, where an overflow is nobody's. */
    FACT_SMALL = 128, /* is of such a size, too */
    FACT_CALM = 256,  /* is at least no overflow */
    FACT_AWAY = 512,  /* is not nearly 0 */
    FACT_LOW = 1024,  /* so far below or so little above 0 that exp of it is of such a size, too */
    FACT_FREE = 2048, /* this bit and those above are for the pass that holds the facts */

    FACTS_USUAL = FACT_IN_RANGE | FACT_NO_EXP | FACT_SMALL | FACT_CALM, /* what an argument is */
    FACTS_ABOVE_0 = FACT_NONZERO | FACT_NOT_NEGATIVE
};

/* Of op, an operation of f or one to be added; known[v]: of its operands. */
Facts facts_of(const IrModule *m, const IrFunc *f, const IrOp *op, const Facts *known);
Facts facts_of_number(double x);
