/* A kernel builder that shares and hoists: an equal pure instruction whose block is still open is used again,
   and a pure instruction is placed in the outermost open block that has its operands. So an evaluator can ask for a
   value wherever it needs it, and what does not change in a loop stands before it.
   Loads from buffers that the kernel writes, and whatever reads a mutable register, stay where they are. */
#pragma once
#include "ir/kernel.h"

typedef struct EmitScope {
    uint32_t serial; /* of the block; 0 is never used */
    bool guard;      /* block of an `if` or `loop`: loads are not hoisted out of it */
} EmitScope;
typedef struct EmitHome { /* where an instruction stands */
    uint32_t depth, serial;
    bool live; /* reads or is a mutable register */
} EmitHome;
typedef struct Emit {
    Arena *arena;
    KirBuilder b;
    VEC(EmitScope) scopes;            /* [0] is the kernel's body */
    VEC(EmitHome) homes;              /* by instruction */
    VEC(bool) written;                /* by parameter */
    uint32_t *table, n_table, n_used; /* open addressing: instruction + 1 */
    uint32_t serial;
} Emit;

Emit emit_begin(Arena *a, KirKernel *k);
uint32_t emit_param(Emit *e, KirParam p); /* `written` follows from p.kind */
/* True while the block that holds the instruction is open. */
bool emit_visible(const Emit *e, KirId id);
KirType emit_type(const Emit *e, KirId id);

KirId emit_ins(Emit *e, KirIns ins);
/* a copy of another kernel's, without blocks: stays where it is, and is there for what follows */
KirId emit_keep(Emit *e, KirIns ins);
KirId emit_float(Emit *e, KirType t, double v);
KirId emit_int(Emit *e, KirType t, int64_t v);
KirId emit_index(Emit *e, int64_t v); /* i64 constant */
bool emit_is_int(const Emit *e, KirId id, int64_t *v);
/* Operands are splatted to the wider one; integer identities are folded. */
KirId emit_op1(Emit *e, KirOpcode op, KirId x);
KirId emit_op2(Emit *e, KirOpcode op, KirId x, KirId y);
KirId emit_fma(Emit *e, KirId x, KirId y, KirId z);
KirId emit_select(Emit *e, KirId c, KirId x, KirId y);
KirId emit_splat(Emit *e, KirId x, unsigned lanes);
KirId emit_convert(Emit *e, KirBase to, KirId x);
KirId emit_lanes(Emit *e, KirBase base, unsigned lanes);
/* Lanes in another order. Of a scalar: itself. */
KirId emit_repeat(Emit *e, KirId x, unsigned lanes, unsigned each);
KirId emit_part(Emit *e, KirId x, unsigned first, unsigned lanes); /* one lane: a scalar */
KirId emit_halves(Emit *e, KirOpcode op, KirId x, KirId y, unsigned group);
KirId emit_join(Emit *e, KirId x, KirId y); /* of equal vectors: the lanes of x, then those of y */
KirId emit_load(Emit *e, uint32_t buf, KirType t, KirId index, unsigned active, int64_t stride);
void emit_store(Emit *e, uint32_t buf, KirId index, KirId value, unsigned active, int64_t stride);
void emit_prefetch(Emit *e, uint32_t buf, KirId index);
void emit_prefetch_far(Emit *e, uint32_t buf, KirId index); /* to the second cache: more than the first holds */

/* A mutable register. Its id may be used as a value; after emit_freeze it is never set again. */
KirId emit_var(Emit *e, const char *name, KirId init);
void emit_set(Emit *e, KirId var, KirId value);
void emit_freeze(Emit *e, KirId var);

KirId emit_for(Emit *e, KirId from, KirId to, int64_t step, KirBinding bind, const char *comment);
void emit_if(Emit *e, KirId cond);
void emit_else(Emit *e);
void emit_loop(Emit *e);
void emit_break_if(Emit *e, KirId cond);
void emit_end(Emit *e);
void emit_barrier(Emit *e); /* all warps of the block meet */

/* An expansion written against the plain builder, placed where its operands allow. */
KirId emit_expand(Emit *e, KirId (*expand)(KirBuilder *, KirType, KirId), KirId x);
KirId emit_expand2(Emit *e, KirId (*expand)(KirBuilder *, KirType, KirId, KirId), KirId x, KirId y);

/* A sum of scaled i64 values; written with the outermost terms first, so that the rest of the sum hoists. */
enum { LIN_MAX = 16 };
typedef struct Lin {
    uint32_t n;
    KirId var[LIN_MAX];
    int64_t scale[LIN_MAX], konst;
} Lin;
void lin_add(Lin *l, KirId var, int64_t scale); /* KIR_NONE adds nothing */
KirId lin_emit(Emit *e, const Lin *l);
