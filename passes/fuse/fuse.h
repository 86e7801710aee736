/* fuse: which values are stored, and which kernel computes what. From a module to its groups (group.h). */
#pragma once
#include "passes/context/machine.h"
#include "passes/group/group.h"

/* A clone of m, whose functions are fused one after another. m has no `grad`. NULL with E0506 where ctx->schedule tells
   a function that m lacks. */
FusedModule *fuse_begin(PassContext *ctx, const IrModule *m);
/* The function with that index, prepared for groups (prepare.c), and its sums over all edges taken by the rows of a map
   where that pays or ctx->schedule says so. False with E0506. */
bool fuse_prepare(PassContext *ctx, FusedModule *fm, uint32_t index);
/* Its groups, as ctx->schedule says (NULL with E0506 where that does not fit) or as they cost least. again, or NULL: by
   value of the function without clones, and last of all the clones: those that are computed again whatever that costs.
   Where the pass is off (ctx->disabled), every operation is a group. */
FusedFunc *fuse_func(PassContext *ctx, FusedModule *fm, uint32_t index, const bool *again);
void fuse_print(const void *fused_module, StrBuf *out);

/* `given` with unused operations gone, results that are views or arguments copied, weights laid out for products;
   filled: as FusedFunc. */
IrFunc *prepare_func(PassContext *ctx, IrModule *m, IrFunc *given, int64_t filled);
/* pass_verify_step for what a rewrite of this pass made of a function of m, whose arguments and results may lack dims
   of size one. */
void fuse_verify(PassContext *ctx, const char *step, IrModule *m, const IrFunc *f);
/* prepare_cut.c: conditions of relu and the like read from its result; old itself if there is none. */
IrFunc *prepare_cuts(IrModule *m, IrFunc *old);
/* prepare_parts.c: products read in pieces; likewise */
IrFunc *prepare_parts(int64_t filled, IrModule *m, IrFunc *old);

/* fuse_given.c: a schedule that is given, f->text. All but fuse_given_copy return false with E0506. */
bool fuse_given_begin(PassContext *ctx, FusedFunc *f); /* fills target and role */
/* refuses the text: v has no group there, and needs one */
bool fuse_given_must(PassContext *ctx, const FusedFunc *f, IrId v);
bool fuse_given_copy(const FusedFunc *f, uint32_t g, IrId v); /* group g is to have a copy of v */
bool fuse_given_end(PassContext *ctx, const FusedFunc *f);    /* groups are those of the text */
bool fuse_given_order(PassContext *ctx, const FusedFunc *f);  /* and run in its order */
/* fuse_clone.c: f with a clone of what is wide and of edges for each walk over the edges that wants it; NULL: there is
   none. origin gets the value of f by value of the result. */
IrFunc *fuse_clone(const Machine *machine, Arena *a, IrModule *m, const IrFunc *f, CloneBy by, IrValues *origin);
/* fuse_sums.c: f with its sums over all edges of a space as sums over the rows of a map from there, and over these;
   NULL: there are none, or nothing else sums over these rows. */
IrFunc *fuse_sums_by_rows(IrModule *m, const IrFunc *f, IrId map);
/* fuse_form.c, by value: it waits for a maximum or minimum that rescales a sum in the form that is wanted
   (FusedFunc.form), and is to have no memory. */
const bool *fuse_find_between(const FusedFunc *f, Arena *a);
/* By value of an f with a form: the maximum or minimum, numbered as in the function without clones, that one kernel is
   to compute together with the value, since it is that extreme, or that extreme where finite and else 0, or a sum that
   rescales with it. IR_NONE: the form says nothing of the value. */
const IrId *fuse_find_rescaled(const FusedFunc *f, Arena *a);
/* fuse_choice.c: roots and their groups. False where a text leaves out what must have memory. */
bool fuse_choose(PassContext *ctx, FusedFunc *f, const bool *again);
void fuse_merge(PassContext *ctx, FusedFunc *f); /* fuse_merge.c */
void fuse_copy(PassContext *ctx, FusedFunc *f);  /* fuse_copy.c */
/* Whether the values of group e can be inner values of r, were all of e's readers and values known by `reads`. */
bool fuse_can_stage(const FusedFunc *f, uint32_t e, uint32_t r, const GroupReads *reads);
void fuse_place_updates(PassContext *ctx, FusedModule *fm, FusedFunc *f); /* fuse_update.c */
