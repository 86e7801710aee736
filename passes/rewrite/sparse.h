/* Between the parts of the pass `sparse`: one function, one tensor whose zeros are not stored. */
#pragma once
#include "passes/rewrite/simplify.h"

/* What is known or wanted of a value of the old function. The tensor is S[F]: a value `has its form` if it lives in
   S and its only dim is F. */
enum {
    SPARSE_ZERO = 1,    /* has the form, and is 0 wherever the tensor is */
    SPARSE_OK = 2,      /* its elements at the stored places can be computed without the rest of it */
    SPARSE_DENSE = 4,   /* wanted whole */
    SPARSE_STORED = 8,  /* wanted at the stored places */
    SPARSE_LINEAR = 16, /* T[F]: ZERO, or made of such values by sums over rows, gathers and factors without F */
};
enum { SPARSE_MAX_PATHS = 4 }; /* from a LINEAR value to ZERO ones: each is a product of its own */

typedef struct SparsePattern { /* the spaces and maps of a tensor's nonzeros; made when a function first wants them */
    bool made;
    IrId nnz, cols, row, col, values;
} SparsePattern;

typedef struct Sparse {
    PassContext *ctx;
    Rewrite r;
    const IrFunc *old;
    IrId tensor, arg; /* module tensor; its value in the old function */
    IrType form;      /* of the tensor */
    Facts *facts;     /* [old values] */
    uint8_t *flags;   /* [old values] */
    uint8_t *paths;   /* [old values] of LINEAR ones */
    IrId *at;         /* [old values] the value at the stored places, in the new function */
    SparsePattern *p;
} Sparse;

static inline bool sparse_has_form(const Sparse *s, const IrType *t)
{
    return t->space == s->form.space && t->n_dims == 1 && t->dims[0] == s->form.dims[0];
}
static inline bool sparse_has(const Sparse *s, IrId v, uint8_t flags) { return (s->flags[v] & flags) == flags; }
static inline const IrOp *sparse_op(const Sparse *s, IrId v) { return &s->old->ops.data[v]; }

/* sparse_facts.c: fills facts, and ZERO, OK and LINEAR of every value. */
void sparse_facts(Sparse *s);

/* How an operation that reads the whole tensor is said over its nonzeros. */
typedef enum { SPARSE_NO_USE, SPARSE_SUM_DIMS, SPARSE_SUM_ROWS, SPARSE_PRODUCT, SPARSE_OUTER } SparseUseKind;
typedef struct SparseUse {
    SparseUseKind kind;
    IrId x, other; /* the operand that is ZERO, or LINEAR in contracts; of contracts, the other one */
} SparseUse;
/* sparse_use.c */
SparseUse sparse_use(const Sparse *s, IrId v);
void sparse_want(Sparse *s, const SparseUse *u);            /* flags what the rewritten op reads */
IrId sparse_rewrite(Sparse *s, IrId v, const SparseUse *u); /* the new value of op v */
/* sparse_linear.c: contract %v, %w and contract %v, %g for a LINEAR v. w: rows of the columns' space; g: rows of
   v's. */
void sparse_linear_want(Sparse *s, IrId v);
IrId sparse_linear_product(Sparse *s, IrId v, IrId w); /* rows of v's space */
IrId sparse_linear_outer(Sparse *s, IrId v, IrId g);   /* rows of the columns' space */
IrId sparse_stored(Sparse *s, IrId v);                 /* v at the stored places: nnz[] */
