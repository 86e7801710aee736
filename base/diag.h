/* Diagnostics: what went wrong, where, what was found and wanted, and a hint.
   Codes live in base/codes.def; each is stable and has a page (`gnnc explain CODE`). */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include <stdbool.h>

typedef enum {
#define CODE(id, exit, title, page) id,
#include "base/codes.def"
#undef CODE
    N_CODES
} DiagCode;

typedef struct CodeInfo {
    const char *id;    /* "E0203" */
    int exit_code;     /* of design section 6 */
    const char *title; /* one line */
    const char *page;  /* the text of `gnnc explain` */
} CodeInfo;
extern const CodeInfo diag_codes[N_CODES];

/* One input text. `text` is NUL-terminated; offsets are bytes from its start. */
typedef struct Source {
    const char *path; /* as the user wrote it */
    const char *text;
    uint32_t n;
} Source;

/* A place: bytes [begin, end) of a source. A NULL source means "no place". */
typedef struct Span {
    const Source *source;
    uint32_t begin, end;
    const char *layer; /* of an operation of graph IR: the innermost layer whose call made it; NULL: none did */
} Span;

/* Bytes [begin, end) of a source, of no layer. */
static inline Span span_at(const Source *source, uint32_t begin, uint32_t end)
{
    return (Span){.source = source, .begin = begin, .end = end};
}

/* a, or b where a is nowhere. */
static inline Span span_or(Span a, Span b) { return a.source ? a : b; }

typedef struct DiagNote { /* a further place with a message of its own */
    Span span;
    const char *text;
    bool beside; /* drawn under the main line where it stands on that */
} DiagNote;

typedef struct Diag {
    DiagCode code;
    Span span;
    const char *text;
    VEC(DiagNote) notes;
    const char *label; /* behind the caret, or NULL */
    const char *help;  /* or NULL */
    Span fix_span;     /* with fix: what to replace */
    const char *fix;   /* or NULL */
} Diag;

typedef struct Diags {
    Arena *arena;
    VEC(Diag *) list;
    uint32_t n_errors;
    uint32_t max_errors; /* 0: 20; what comes later is counted, not kept */
    uint32_t n_dropped;
} Diags;

/* Adds an error and returns it, so that notes, help and a fix can be added. Never NULL. An error
   with the same code and span as an earlier one is returned again, not doubled. */
Diag *diag_error(Diags *d, DiagCode code, Span span, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same note at the same place is kept once. */
void diag_note(Diags *d, Diag *at, Span span, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The other operand, which lies in a source: a note which is drawn as ~~~ in the excerpt if it stands on the same line.
   `label` (copied) stands behind the caret then. */
void diag_beside(Diags *d, Diag *at, Span span, const char *label, const char *text);
void diag_help(Diags *d, Diag *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_fix(Diags *d, Diag *at, Span span, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* "did you mean NEAR?" of n candidates, and a fix at span where no other is as near. Returns NEAR, or NULL: none is
   near. */
const char *diag_suggest(Diags *d, Diag *at, Span span, const char *name, const char *const *candidates, size_t n);

Span span_join(Span a, Span b); /* from the first byte of a to the last of b, in the same source */
/* 1-based line and column (in bytes) of an offset. */
void source_line_col(const Source *s, uint32_t at, uint32_t *line, uint32_t *col);

/* "PATH:LINE:COL: ", or "gnnc: " without a place; the source line with a caret below it; the same as JSON members. */
void span_print_head(StrBuf *out, Span span);
void span_print_excerpt(StrBuf *out, Span span);
void span_print_json(StrBuf *out, Span span);

/* All diagnostics as text, in the form of design section 3, colours if asked. */
void diags_print(const Diags *d, StrBuf *out, bool colour);
/* One JSON array of objects {level, code, title, path, line, col, end_line, end_col, text, notes, help, fix}. */
void diags_print_json(const Diags *d, StrBuf *out);
/* 0 without errors, else the exit code of the first error. */
int diags_exit_code(const Diags *d);
/* Row of an id such as "E0203", or NULL. */
const CodeInfo *diag_code_find(const char *id);
