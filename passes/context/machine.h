/* The machine that a build assumes: every number of it that passes read, from a column of passes/context/machine.def or
   from a file (`gnnc build --machine`). Passes get it through their context (PassContext, FusedFunc) and hold no such
   number themselves; what follows from it for bytes, operations and gathered rows is said in passes/context/price.h.
   Never that of the computer that compiles. */
#pragma once
#include "base/diag.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Machine {
    const char *name;
#define COUNT(row, ...) int64_t row;
#define RATE(row, ...)  double row;
#include "passes/context/machine.def"
#undef COUNT
#undef RATE
} Machine;

Machine machine_default(void); /* the first column */
/* The column of that name; false without one, *m as it was. */
bool machine_named(const char *name, Machine *m);
/* The same with E0640 and the nearest name. */
bool machine_find(Diags *d, const char *name, Machine *m);
/* A file: `machine NAME`, then a line `ROW NUMBER` for each row of the table, in any order; `#` begins a comment. False
   with E0641 at the place. Its name lies in d's arena. */
bool machine_parse(const Source *src, Diags *d, Machine *m);
/* As machine_parse reads it. Equal machines give equal texts. */
void machine_print(const Machine *m, StrBuf *out);
const char *machine_rows_text(const Machine *m, Arena *a); /* the same without the name */
void machine_explain(StrBuf *out);                         /* all machines, a row a line, and what each row is */
/* Figures that were measured: within the table's bounds, rates to four digits. */
void machine_clamp(Machine *m);

/* ---- registers ---- */

/* Vectors of the machine's lanes that sums may fill beside what a product reads; a panel of columns of a weight.
   narrow: in the registers of avx2-2, for which products are lowered once more (schedule.h), unless this machine has no
   more. */
int64_t machine_sums(const Machine *m, bool narrow);
int64_t machine_panel(const Machine *m, bool narrow);
static inline int64_t machine_register_bytes(const Machine *m) { return m->lanes * (int64_t)sizeof(float); }
/* Elements of a type of so many bytes in a line. */
static inline int64_t machine_line_of(const Machine *m, uint32_t bytes) { return m->line_bytes / bytes; }

/* ---- shares of the caches of one core ---- */

/* First cache: panels of weights that products read side by side; values of elements that are staged, of a third of
   which rows of a sum over all rows take a panel; what is asked for ahead of a walk, and of a product's rows. */
static inline int64_t machine_panels_room(const Machine *m) { return m->l1_bytes / 6 * 5; }
static inline int64_t machine_stage_room(const Machine *m) { return m->l1_bytes / 3 * 2; }
static inline int64_t machine_walk_room(const Machine *m) { return m->l1_bytes / 4; }
static inline int64_t machine_fetch_room(const Machine *m) { return m->l1_bytes / 12; }
/* Second cache: all that is staged of a row, one value of it; what passes on between kernels that run by strips, at
   most. */
static inline int64_t machine_staged_room(const Machine *m) { return m->l2_bytes / 16 * 3; }
static inline int64_t machine_staged_value_room(const Machine *m) { return m->l2_bytes / 16; }
/* Near memory that warps of a block share: twice what they have by themselves, since they are few beside those that
   side by side may be, and for no block more than half of what all of these have. */
static inline int64_t machine_shared_room(const Machine *m, int64_t warps)
{
    return m->own_bytes * (warps < m->warps / 4 ? 2 * warps : m->warps / 2);
}
/* Warps of a block that keep enough registers each: half of those that there may be. */
static inline int64_t machine_full_warps(const Machine *m) { return m->warps > 1 ? m->warps / 2 : 1; }
static inline int64_t machine_strip_room(const Machine *m) { return m->l2_bytes / 8; }
static inline int64_t machine_longest_strip_room(const Machine *m) { return m->l2_bytes / 2; }
/* Rows of a strip of a sum over all rows: few enough that the widest panel stays in the first cache beside the other
   operand. */
int64_t machine_strip_rows(const Machine *m);
