/* cone: which rows a program needs. See cone.c. */
#pragma once
#include "ir/plan.h"
#include "passes/plan/planning.h"

/* A value's rows that may hold another number than 0, and rows of it that kernels read, as sets of the program. */
typedef struct Cone {
    PassContext *ctx;
    const FusedFunc *f;
    PlanProgram *p;
    uint32_t *support, *wanted; /* by value */
    uint32_t *here;             /* by value: rows of it that the group at hand must get right where it computes it */
    bool *loose;                /* by value: it is computed at more rows than those, and may be infinite or NaN there */
    bool loosened;              /* a value became loose since the walk over the groups began */
    bool *bare;                 /* by value: a result may show the sign of a zero in it, which no sum has taken away */
    uint32_t g;                 /* the group whose reads are followed */
    VEC(struct ConeVisit {
        IrId v;
        uint32_t rows;
    })
    visits;      /* of that group */
    bool failed; /* too many sets */
} Cone;

/* ---- sets (cone_sets.c): equal ones are one, and what is plainly the same is found ---- */
uint32_t cone_empty(Cone *c);
uint32_t cone_mask(Cone *c, IrId space, IrId tensor);
uint32_t cone_image(Cone *c, IrId map, uint32_t a);
uint32_t cone_origin(Cone *c, IrId map, uint32_t a);
uint32_t cone_either(Cone *c, uint32_t a, uint32_t b);
uint32_t cone_both(Cone *c, uint32_t a, uint32_t b);
uint32_t cone_walk(Cone *c, IrId map, uint32_t a); /* a, and whole rows of the map that are too long to be thinned */
void cone_supports(Cone *c);                       /* fills support */
