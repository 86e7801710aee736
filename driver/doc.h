/* The pages of `gnnc doc`: what was selected of a library, as text for a terminal or as one HTML page. */
#pragma once
#include "frontend/doc.h"

typedef struct DocSelection {
    const DocLibrary *lib;
    bool *wanted;  /* [entries.n] */
    bool overview; /* no name was asked for: everything that is wanted, in short */
    bool library;  /* what is shown is the standard library */
} DocSelection;

/* Overview: families with the names in them. Else: each entry at length. */
void doc_print_text(const DocSelection *s, StrBuf *out);
/* One page that needs nothing beside it: no script, no picture, no font from elsewhere. */
void doc_print_html(Arena *a, const DocSelection *s, StrBuf *out);
