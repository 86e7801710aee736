/* What the files of the C emitter share; nothing else includes this. */
#pragma once
#include "codegen/c_text.h"

typedef struct CFile { /* one C file being written */
    Arena *arena;
    StrMap helpers; /* names of helper functions asked for */
    StrBuf helper_text, body;
    bool arrays;                                  /* some kernel has a private array */
    bool vectors[KIR_F64 + 1][KIR_MAX_LANES + 1]; /* vector typedefs asked for */
} CFile;

/* The C type of values of t: i1 is bool, a vector of i1 a vector of int32_t that are 0 or -1. Asks
 * for the typedef. */
const char *c_type(CFile *f, KirType t);
/* The element type of a buffer in C. */
const char *c_elem(KirBase base);
const char *c_type_name(Arena *a, KirType t); /* "f32x16" */
/* Asks for the helper `op` for type t (from: its second type, where it has one) and returns its
 * name. */
const char *c_helper(CFile *f, const char *op, KirType t, KirType from);
/* Likewise of f32 that lie in memory as f16 or bf16: `op` is value or bits, of one; load, gather, store or round, of a
   vector. */
const char *c_helper_16(CFile *f, const char *op, KirBase elem, KirType t, KirType from);
/* Typedefs asked for so far. */
void c_print_typedefs(const CFile *f, StrBuf *out);

CText c_expr(CKernel *c, KirId id); /* a value's expression as it stands in its definition */
/* Where a memory instruction meets its buffer: x[i] as a place. */
const char *c_place(CKernel *c, const KirIns *x);
const char *c_store(CKernel *c, const KirIns *x); /* the whole statement, without the semicolon */
