/* Rows with very many elements are shared by threads: walk by walk, blocks of 256 elements at a time, by the kernel
   that the compiler makes for it (passes/lower/lower_split.c). A row is so long if it has more than half of what each
   thread would get of all rows and elements, and 16,384 elements. No bit of a result depends on it. */
#pragma once
#include "runtime/exec.h"

typedef struct RtSplit RtSplit;

/* Finds the long rows of a step for the graph at hand, and frees what *s was before. *s is NULL if the step has none.
   Raises e->states_bytes to what they need. */
RtCode rt_split_make(RtExec *e, int64_t step, RtSplit **s, RtStatus *st);
void rt_split_free(RtSplit *s);
int64_t rt_split_count(const RtSplit *s); /* how many rows are shared */
void rt_split_bind(RtSplit *s);           /* once e->states has memory */
/* Rows and elements of the rows before `row`, where those that are shared weigh as their blocks. */
int64_t rt_split_weight(const RtSplit *s, int64_t row);
/* All walks over the shared rows; then rows [lo, hi) of the step, with its arguments or others like them. */
void rt_split_walks(RtSplit *s);
void rt_split_rows(const RtSplit *s, const RtArg *args, int64_t lo, int64_t hi);
