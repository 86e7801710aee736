/* Rows that a program needs, for one graph: which the compiler says as sets of masks and maps (RtSet), and what steps
   run then. See cone.c. */
#pragma once
#include "runtime/exec.h"

typedef enum { RT_CONE_AUTO, RT_CONE_OFF, RT_CONE_ON } RtConeMode;
RtCode rt_cone_parse(const char *text, RtConeMode *mode, RtStatus *st);

/* What one step runs; rows NULL: all of it. */
typedef struct RtConeStep {
    int64_t *runs;          /* [n_runs][2] iterations from, to */
    int64_t *weight;        /* [n_runs+1] what the runs before weigh: rt_step_weight */
    int64_t n_runs, n_rows; /* n_rows: rows of the set; those of blocks that hold one are computed too */
    double share;           /* of the step's rows and elements that it handles */
    /* of the map that the step is cut by, without the elements that it need not take in; NULL: as they are */
    int64_t *rows;
    int32_t *list;
    struct RtConeAlong {
        int64_t map;
        int32_t *to;
    } * along;
    int64_t n_along;
} RtConeStep;

typedef struct RtCone {
    RtConeStep *steps; /* [n_steps] */
    void **buffers;    /* [n_buffers] memory that keeps the zeros of rows that are left out; NULL: the arena's */
    RtBlock *blocks;   /* everything */
    int64_t n_blocks, cap_blocks;
    int64_t bytes; /* of the buffers */
    double saved;  /* share of the program's predicted work */
} RtCone;

/* Where it pays, or mode is on: the cone of a program whose tensors are set; else *c stays NULL. */
RtCode rt_cone_make(const RtExec *e, RtConeMode mode, RtCone **c, RtStatus *st);
void rt_cone_free(RtCone *c);
/* The first run that ends behind iteration i. */
int64_t rt_cone_run_at(const RtConeStep *s, int64_t i);
/* The step's own form of a buffer, or NULL. */
void *rt_cone_buffer(const RtExec *e, const RtExecStep *x, int64_t buffer);
