/* What the files of the C emitter share; nothing else includes this. */
#pragma once
#include "codegen/walk.h"

typedef struct CFile { /* one C file being written */
    Arena *arena;
    StrMap helpers; /* names of helper functions asked for */
    StrBuf helper_text, body;
    bool arrays;                                  /* some kernel has a private array */
    bool vectors[KIR_F64 + 1][KIR_MAX_LANES + 1]; /* vector typedefs asked for */
} CFile;

typedef struct CKernel { /* one kernel being written */
    CFile *file;
    const KirWalk *w;
    const char **names;      /* [ins.n] C names of values that have one */
    const char **params;     /* [params.n] */
    VEC(const char *) taken; /* names in the open scopes */
    VEC(uint32_t) scopes;    /* taken.n where each open scope began */
    uint32_t next;           /* number of the next nameless value */
} CKernel;

/* How tightly a piece of C binds, tightest first. */
typedef enum { BIND_CALL, BIND_UNARY, BIND_MUL, BIND_ADD, BIND_COMPARE, BIND_BITS, BIND_COND } CBind;
typedef struct CText {
    const char *text;
    CBind bind;
} CText;

/* The C type of values of t: i1 is bool, a vector of i1 a vector of int32_t that are 0 or -1. Asks
 * for the typedef. */
const char *c_type(CFile *f, KirType t);
/* The element type of a buffer in C. */
const char *c_elem(KirBase base);
const char *c_type_name(Arena *a, KirType t); /* "f32x16" */
/* Asks for the helper `op` for type t (from: its second type, where it has one) and returns its
 * name. */
const char *c_helper(CFile *f, const char *op, KirType t, KirType from);
/* Typedefs asked for so far. */
void c_print_typedefs(const CFile *f, StrBuf *out);

/* A value's expression as it stands in its definition, and as an operand: folded, or by name. */
CText c_expr(CKernel *c, KirId id);
CText c_operand(CKernel *c, KirId id);
/* In parentheses unless it binds at least as tightly as `bind`. */
const char *c_tight(CKernel *c, CText t, CBind bind);
/* Where a memory instruction meets its buffer: x[i] as a place, and &x[i] or x + i as a pointer. */
const char *c_place(CKernel *c, const KirIns *x);
const char *c_store(CKernel *c, const KirIns *x); /* the whole statement, without the semicolon */
