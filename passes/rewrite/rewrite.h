/* What graph passes share: rebuilding a function op by op with a value map, and small builders that
   know the type of what they make. Nothing here decides anything. */
#pragma once
#include "passes/context/passes.h"

enum { MOST_PIECES = 16 }; /* of a concat that passes take apart or make longer */

/* A place to add ops: a function under construction in a module that may still grow. */
typedef struct Build {
    IrModule *m;
    IrFunc *f;
    Span span; /* given to every op that is added */
} Build;

/* A function on its way into the next generation. */
typedef struct Rewrite {
    Build b;
    const IrFunc *old;
    IrId *map; /* [old->ops.n] value in b.f; IR_NONE: not (yet) there */
} Rewrite;

/* Starts a copy of `old`: name, arguments and mode, no ops, no results. It is not in m->funcs. */
Rewrite rewrite_begin(IrModule *m, const IrFunc *old);
/* The op of old value v with its operands mapped (fresh operand block in m's arena). */
IrOp rewrite_op(const Rewrite *r, IrId v);
/* Copies the op of old value v and maps v to the copy. */
IrId rewrite_copy(Rewrite *r, IrId v);
/* Maps the results; returns the finished function. */
IrFunc *rewrite_end(Rewrite *r);

/* Adds to `wanted` ([f->ops.n]) what the values in it depend on, as operands or through the `route` of a map. What a
   value that is `given` ([f->ops.n] or NULL) is made of counts only where something else reads it. */
void rewrite_reach(const IrModule *m, const IrFunc *f, bool *wanted, const bool *given);
/* [f->ops.n] the results, the arguments, which are the function's contract, and what they depend on. */
const bool *rewrite_live(Arena *a, const IrModule *m, const IrFunc *f, const bool *given);
/* [f->ops.n] how many operands each value is. A result counts as two: it is wanted whole whatever else reads it. */
const uint32_t *rewrite_uses(Arena *a, const IrFunc *f);

/* [old->ops.n] the variables of f's grads; NULL without a grad. They are values of their own:
   merged with an equal value, or read through, they would have other uses and so other gradients.
 */
bool *rewrite_pinned(Arena *a, const IrFunc *f);

/* A clone of m in ctx->stage with every function replaced by what `one` makes of it. */
typedef IrFunc *RewriteFunc(PassContext *ctx, IrModule *m, const IrFunc *old);
IrModule *rewrite_module(PassContext *ctx, const IrModule *m, RewriteFunc *one);

uint32_t module_n_ops(const IrModule *m);
/* The space with a row for each place of a dim, or of another of its size; made if the module lacks one. */
IrId irb_rows_space(IrModule *m, IrId dim);
/* The map that integer input `tensor` says: each of its rows leads to the row of space `to` that it holds, or nowhere.
   Made when data are loaded. IR_NONE where the input says a map to another space already. */
IrId irb_said_map(IrModule *m, IrId tensor, IrId to);
/* Whether each element of integer value `key` is known to lie in [0, size): only of an input that declares such a
   range, which is checked when data are loaded, and in each call of a library on a CPU. */
bool irb_key_is_whole(const IrModule *m, const IrFunc *f, IrId key, int64_t size);
/* The map of a space onto unit, "<space>.all"; made if the module lacks it. */
IrId irb_all_map(Build *b, IrId space);

static inline const IrOp *irb_op(const Build *b, IrId v) { return &b->f->ops.data[v]; }
static inline IrType irb_type(const Build *b, IrId v) { return b->f->ops.data[v].type; }

IrId irb_add(Build *b, const IrOp *op); /* op as it is, span included */
IrId irb_const(Build *b, IrType type, double value);
IrId irb_scalar(Build *b, IrDtype t, double value); /* unit, no dims: broadcasts anywhere */
/* Pointwise: result space and dims are the join of the operands', dtype the first's. */
IrId irb_map1(Build *b, IrOpcode op, IrId x);
IrId irb_map2(Build *b, IrOpcode op, IrId x, IrId y);
IrId irb_compare(Build *b, IrOpcode op, IrId x, IrId y); /* bool */
IrId irb_select(Build *b, IrId c, IrId x, IrId y);
IrId irb_unary(Build *b, IrOpcode op, IrType type, IrId x, IrAttr attr);
/* bool [.., dim]: one-hot, true at the place of dim that the index says. */
IrId irb_one_hot(Build *b, IrId index, IrId dim);
IrId irb_gather(Build *b, IrId map, IrId x);
IrId irb_reduce(Build *b, IrOpcode op, IrId map, IrId x, double empty);
/* x with the space, dims and dim order of `type` (x's dtype): sums over what type lacks, feature
   dims first, then rows; then transposes; then broadcasts. */
IrId irb_fit(Build *b, IrId x, IrType type);
/* How a broadcast is written: mul(const 1 : type, x), of bools `and`. */
IrOpcode irb_broadcast_op(IrDtype t);
/* x written out to the type; x itself where the type is the same. */
IrId irb_broadcast(Build *b, IrId x, IrType type);
/* True, with *v set, for a const; `value` may be NULL. */
bool irb_is_const(const Build *b, IrId v, double *value);

/* The passes on graph IR. */
#define PASS_DECLARE_GRAPH(name) IrModule *pass_##name(PassContext *ctx, const IrModule *m);
#define PASS_DECLARE_KERNEL(name)
#define PASS(name, stage, ...) PASS_DECLARE_##stage(name)
#include "passes/context/passes.def"
#undef PASS
#undef PASS_DECLARE_GRAPH
#undef PASS_DECLARE_KERNEL
