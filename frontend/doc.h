/* What the files of a library say of themselves: every definition with its signature, its comment, its parameters and
   the tests that name it. Read from the syntax tree and the text; nothing is elaborated, so a layer that does not
   compile has its page. */
#pragma once
#include "frontend/ast.h"

typedef VEC(const char *) DocLines;

typedef struct DocFamily { /* one file */
    const char *name;      /* "conv" of std/conv.gnn */
    const char *path;      /* "std/conv.gnn", or as the user wrote it */
    const char *text;      /* the comment at its head, or "" */
    bool is_std;
} DocFamily;

typedef struct DocTest {
    const char *name, *path;
    uint32_t line;
} DocTest;

typedef struct DocEntry {
    const char *name;
    AstDeclKind kind;      /* message, fn, layer, model, reduce or optimizer */
    uint32_t family;       /* index */
    uint32_t line;         /* in the family's file, from 1 */
    const char *section;   /* the heading `# ---- heading ----` it stands under, or "" */
    const char *signature; /* "layer f(x: node[F], H = 8) -> node[O]", on one line */
    const char *text;      /* the comment above it, lines joined by \n, or "" */
    const char *source;    /* the whole definition as written */
    DocLines inputs;       /* parameters with a type, and those that must be given: "x: node[F]", "w: edge = none" */
    DocLines options;      /* static arguments with a default: "H = 8" */
    DocLines stored;       /* its own `param`, `buffer` and `const` statements */
    VEC(DocTest) tests;    /* whose text names it, a reducer also as NAME_in and its kin */
} DocEntry;

typedef struct DocLibrary {
    VEC(DocFamily) families; /* the user's files first, then the standard library's */
    VEC(DocEntry) entries;   /* by family, in the order of the file */
} DocLibrary;

/* The standard library and n files of the user's. NULL with errors in d. */
const DocLibrary *doc_read(Arena *a, const Source *const *files, uint32_t n, Diags *d);
/* Whether a name written in a program may stand for this entry: `mean_in` for the reducer `mean`. */
bool doc_names(const DocEntry *entry, const char *name);
/* The first sentence of a comment, on one line; "" where there is none. */
const char *doc_first_sentence(Arena *a, const char *text);
/* Whether the compiler itself defines the name, as `exp` and `dot`. */
bool doc_is_builtin(const char *name);
/* The entry, family or built-in function whose name is nearest; NULL if none is near. */
const char *doc_nearest(Arena *a, const DocLibrary *lib, const char *name);
