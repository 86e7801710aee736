/* `gnnc explain --as-blocks`: a layer as message, aggregate and update, for people who think in those. */
#pragma once
#include "ir/graph.h"

/* Prints the function as blocks: what is computed for each node before anything is sent, then in turn what is computed
   for each edge, which reducers run over which map, and what is computed for each node afterwards. Dims may be without
   a size. */
void blocks_print(Arena *a, const IrModule *m, const IrFunc *f, StrBuf *out);
