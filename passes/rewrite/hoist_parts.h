/* What the parts of the pass hoist share: one function's invariant values and what each costs per epoch. */
#pragma once
#include "passes/rewrite/hoist.h"
#include "passes/rewrite/rewrite.h"

typedef struct Hoist {
    PassContext *ctx;
    const IrModule *m;
    const IrFunc *f;
    const bool *invariant; /* [ops] */
    bool *held;            /* [ops] computed once; read from a tensor */
    bool *seen;            /* [ops] already chosen about */
    double *bytes, *flops; /* [ops] moved and done to have the value in an epoch, by the cheaper of the two ways */
    IrId *numbered;        /* [ops] value of the function that holds everything */
} Hoist;

/* Fills bytes and flops of an invariant value; those of its operands are there. */
void hoist_cost(Hoist *h, IrId v);
/* Whether v is to be held; leaves a remark. */
bool hoist_pays(const Hoist *h, IrId v);
