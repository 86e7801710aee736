/* How the rows of a space are shared out where all of them are summed. The sum's order is fixed: leaves of so many
   rows, merged as a binary tree of neighbours (docs/design.md, "One association per sum"). A block is an aligned power
   of two of leaves, so a
   subtree: whoever computes it may merge its leaves on the way, and no bit depends on how many blocks there are. The
   compiler counts as the runtime does. */
#pragma once
#include <stdint.h>

typedef struct RtBlocks {
    int64_t n;      /* blocks: at least one, at most as many as wanted */
    int64_t levels; /* a block has 2^levels leaves, the last one what is left */
    int64_t rows;   /* of a block */
    /* sums in memory: [n] of the blocks, then [n][levels] that wait for their neighbours while a block is computed. No
       fewer than for fewer rows, so that memory for the largest batch does for all */
    int64_t slots;
} RtBlocks;

/* Of the rows of a space, in leaves of `leaf` rows, at most `most` blocks. */
static inline RtBlocks rt_blocks(int64_t rows, int64_t leaf, int64_t most)
{
    int64_t last = rows > 0 ? (rows - 1) / leaf : 0, levels = 0; /* the last leaf; a sum of nothing has one, too */
    while (last >> levels >= most) levels++;
    int64_t n = (last >> levels) + 1, slots = n * (1 + levels);
    if (levels && slots < most * levels) slots = most * levels;
    return (RtBlocks){.n = n, .levels = levels, .rows = leaf << levels, .slots = slots};
}
