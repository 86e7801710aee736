/* How many rows a space is expected to have, where a choice must be made before a graph is known. Numbers of a graph
   of middling size: only ratios of costs should be taken from them. */
#pragma once
#include "ir/graph.h"

/* epochs for which what is computed once is */
enum { EXPECTED_RUNS = 100 };
enum { EXPECTED_NODES = 65536, EXPECTED_ELEMENTS_PER_NONZERO = 64 };
/* bytes of a row of edges or nonzeros that stay in memory from run to run: never edges by features */
enum { WIDEST_HELD = 16 };
/* unit: 1; a dim's space: its size; nonzeros: one in 64 elements; edges: 16 per node; pairs of rows and keys: the share
   of edges that their graph says; graphs of a batch: one per 32
   nodes. */
double expected_rows(const IrModule *m, IrId space);
/* Many to one of the rows that maps lead to, as edges are to nodes: what is stored for each of them is most of the
   memory there is. */
bool has_many_rows(const IrModule *m, IrId space);
/* Elements and bytes of a value of type t for as many rows. */
double expected_elements(const IrModule *m, const IrType *t);
double expected_bytes(const IrModule *m, const IrType *t);
