/* What the choices of fuse cost, in ns per node of the expected graph (passes/context/rows.h): the one price that all
   of them are compared by. Every rate is the machine's (passes/context/price.h): for one machine a program gets the
   same answer everywhere. */
#pragma once
#include "passes/group/group.h"

typedef struct CostUse { /* one group that wants a value */
    uint32_t group;
    double times; /* evaluations per element of the value, were it computed in place */
    IrId vec;     /* dim along which the group's vectors run, or IR_NONE */
    bool rows;    /* without dims: vectors run along the rows */
} CostUse;

typedef struct Cost {
    const FusedFunc *f;
    uint32_t *mark, epoch; /* by value: epoch of the walk that saw it last */
} Cost;

Cost cost_begin(const FusedFunc *f, Arena *a);
double cost_rows(const IrModule *m, IrId space); /* expected rows of a space, per node */
/* How many times dearer computing v again may be than memory: more than 1 for what has a row per edge that is wider
   than a cache line, memory that grows with edges times features. */
double cost_patience(const FusedFunc *f, IrId v);
/* Computes v once per element of its own in a kernel that uses it like u: what that kernel does not compute or load
   anyway. u->group may be GROUP_NONE: a kernel of its own. */
double cost_compute(Cost *c, IrId v, const CostUse *u);
double cost_write(const FusedFunc *f, IrId v);
double cost_read(const FusedFunc *f, IrId v, const CostUse *u);

/* Where a kernel computes or reads a value. PLACE_LOOP and above: at elements that are summed, in a loop that fills
   arrays or in one that sums, of each walk over the row. */
typedef enum CostPlace {
    PLACE_UNIT = 1,
    PLACE_ROW = 2,
    PLACE_GATHERED = 4, /* not, or not only, at the element */
    PLACE_EXTREME = 8,  /* it waits for a maximum or minimum of the kernel's */
    PLACE_READ = 16,    /* read at the element: another kernel computes it */
    PLACE_LOOP = 32
} CostPlace;

/* What the groups of a function cost as they stand. */
typedef struct Price {
    const FusedFunc *f;
    Arena *arena;
    GroupReads *reads; /* by group */
    double *kernel;    /* by group: what it reads and computes */
    IrValues *loads;   /* by group: what it reads that another computes, each once */
    uint32_t *readers; /* by value: how many groups load it; one more if it is a result of the function */
    double *write;     /* by value: what storing it costs */
    /* by value: how the kernel that was priced last computes it, bits of CostPlace: in each loop anew */
    uint32_t *place;
    uint8_t *waits;  /* by value: scratch */
    IrValues met;    /* values that have a place there, or wait */
    IrId first, end; /* all of them but arguments lie in [first, end) */
} Price;

Price cost_groups(const FusedFunc *f, Arena *a); /* of all groups that live */
void cost_kernel(Price *p, uint32_t g);          /* of group g, which has changed */
/* All kernels, and a write of what is stored. Memory that grows with edges counts more than it takes. */
double cost_function(const Price *p);
/* What of cost_function changes with group g alone: its kernel, and the writes of values that no other group reads. */
double cost_around(const Price *p, uint32_t g);
bool cost_stores(const Price *p, IrId v); /* another kernel reads it, or it is a result */
double cost_edge_bytes(const Price *p);   /* expected, of what is stored with a row per edge, per node */
