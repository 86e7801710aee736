/* Fixes that diagnostics carry, applied to the text of a model. */
#pragma once
#include "frontend/frontend.h"

typedef struct FixEdit { /* in the text before */
    Span span;
    const char *text;
    DiagCode code;
} FixEdit;
typedef struct Fixes {
    const Source *result; /* the source itself where nothing was sure */
    VEC(FixEdit) applied; /* spans are of the text as it was in that round */
} Fixes;

/* Applies fixes round by round while each leaves fewer errors, or an error less in the grammar. What does not help is
   left out, so that a second call on the result changes nothing. */
Fixes fixes_apply(Arena *a, const Source *src, const FrontendOptions *opt);
