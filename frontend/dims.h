/* Sizes of feature dims as polynomials over named symbols and unknowns, and their unification.
   A size is immutable; what an unknown turns out to be is kept beside it, so that types made early
   are solved late. */
#pragma once
#include "base/diag.h"
#include <stdbool.h>

typedef uint32_t SizeVar;
enum { SIZE_MAX_FACTORS = 6, SIZE_MAX_TERMS = 16 };

/* k * v[0] * v[1] * ..., variables ascending. */
typedef struct SizeTerm {
    int64_t k;
    uint8_t n;
    SizeVar v[SIZE_MAX_FACTORS];
} SizeTerm;
/* A sum of terms with different variables, in canonical order; no term is the number 0. */
typedef struct Size {
    uint8_t n;
    SizeTerm t[];
} Size;

typedef enum {
    /* a symbol of the whole program: bound by data or --set, or by what it is unified with */
    SIZE_FREE,
    SIZE_RIGID, /* stands for any size: equal to itself only */
    SIZE_HOLE,  /* to be found */
    SIZE_RATIO  /* num / den, which must divide */
} SizeVarKind;

typedef struct SizeVarInfo {
    const char *name;
    SizeVarKind kind;
    const Size *binding; /* or NULL */
    const Size *num, *den;
    Span span;
} SizeVarInfo;

typedef struct SizeEquation {
    const Size *a, *b;
    Span span;
} SizeEquation;

typedef struct Sizes {
    Arena *arena;
    VEC(SizeVarInfo) vars;
    VEC(SizeEquation) later; /* could not be decided when met */
    bool overflow;           /* a size left 63 bits or a polynomial its bounds */
} Sizes;

const Size *size_const(Sizes *z, int64_t k);
const Size *size_var(Sizes *z, const char *name, SizeVarKind kind, Span span);
const Size *size_add(Sizes *z, const Size *a, const Size *b, int64_t k); /* a + k * b */
const Size *size_mul(Sizes *z, const Size *a, const Size *b);
const Size *size_div(Sizes *z, const Size *a,
                     const Size *b);                    /* exact; a ratio symbol where unknown; NULL: does not divide */
const Size *size_norm(Sizes *z, const Size *s);         /* with all that is known put in */
bool size_value(Sizes *z, const Size *s, int64_t *out); /* a number by now? */
/* Makes a and b equal. False: they cannot be (nothing was bound then). What cannot be decided yet
   is kept in `later` and counts as true. */
bool size_unify(Sizes *z, const Size *a, const Size *b, Span span);
/* Would size_unify bind or compare without putting anything off? */
bool size_equal(Sizes *z, const Size *a, const Size *b);
/* Tries `later` again until nothing changes. Returns an equation that cannot hold, or NULL. */
const SizeEquation *sizes_solve(Sizes *z);
const char *size_text(Sizes *z, const Size *s);
