/* What the emitters of C and of CUDA share, which spell one language: names, lines, numbers, operators, branches. */
#pragma once
#include "codegen/walk.h"

/* How tightly a piece of C binds, tightest first. */
typedef enum { BIND_CALL, BIND_UNARY, BIND_MUL, BIND_ADD, BIND_COMPARE, BIND_BITS, BIND_COND } CBind;
typedef struct CText {
    const char *text;
    CBind bind;
} CText;

typedef struct CKernel CKernel;
struct CKernel { /* one kernel being written */
    Arena *arena;
    StrBuf *out;
    const KirWalk *w;
    CText (*expr)(CKernel *c, KirId id);        /* a value as it stands in its definition */
    const char *(*type)(CKernel *c, KirType t); /* of its values */
    const char **names;                         /* [ins.n] names of values that have one */
    const char **params;                        /* [params.n] */
    VEC(const char *) taken;                    /* names in the open scopes */
    VEC(uint32_t) scopes;                       /* taken.n where each open scope began */
    uint32_t next;                              /* number of the next nameless value */
    uint32_t indent;                            /* of lines, beside that of open blocks */
    struct CFile *file;                         /* of emitted C */
};

/* A name like the hint that nothing in an open scope has, and no word of C, C++ or CUDA. */
const char *c_fresh_name(CKernel *c, const char *hint);
const char *c_name_value(CKernel *c, KirId id);
const char *c_name_loop(CKernel *c, KirId id); /* of its induction variable */
void c_open_scope(CKernel *c);
void c_close_scope(CKernel *c);
__attribute__((format(printf, 2, 3))) void c_line(CKernel *c, const char *fmt, ...);
const char *c_comment(Arena *a, const char *s); /* text that can stand in a comment */

__attribute__((format(printf, 3, 4))) CText c_printf(CKernel *c, CBind bind, const char *fmt, ...);
/* In parentheses unless it binds at least as tightly as `bind`. */
const char *c_tight(CKernel *c, CText t, CBind bind);
CText c_operand(CKernel *c, KirId id);                      /* folded, or by name */
const char *c_arg(CKernel *c, const KirIns *x, unsigned i); /* an operand as an argument: commas are no danger */
CText c_float(CKernel *c, KirBase base, double f);          /* finite */
CText c_int(CKernel *c, KirBase base, int64_t v);           /* but for the least of a type, which C cannot say */
/* Made of integer literals only: the C compiler would work it out, in int, and say that it overflows. */
bool c_is_literal(const CKernel *c, KirId id);
CText c_infix(CKernel *c, const KirIns *x, const char *sign, CBind bind);
CText c_call(CKernel *c, const KirIns *x, const char *name); /* of its operands */
const char *c_compare_sign(KirOpcode op);
CText c_select(CKernel *c, const KirIns *x); /* by one condition */
CText c_cast(CKernel *c, const KirIns *x, const char *type);
/* Where a memory instruction meets its buffer: the name, and the index. */
const char *c_buffer(CKernel *c, const KirIns *x);
const char *c_index(CKernel *c, const KirIns *x);

/* Hooks of an Emitter. */
void c_value(void *ctx, const KirWalk *w, KirId id);
void c_var(void *ctx, const KirWalk *w, KirId id);
void c_set(void *ctx, const KirWalk *w, KirId id);
void c_begin_loop(void *ctx, const KirWalk *w, KirId id);
void c_break_if(void *ctx, const KirWalk *w, KirId id);
void c_begin_if(void *ctx, const KirWalk *w, KirId id);
void c_begin_else(void *ctx, const KirWalk *w, KirId id);
void c_close(void *ctx, const KirWalk *w, KirId id);
