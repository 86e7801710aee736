/* Groups: which values are materialised, which are computed inside the kernel that uses them, and in which
   order the groups run. The result of the pass `fuse`; read by schedule and lower. */
#pragma once
#include "ir/order.h"
#include "passes/context/passes.h"

#define GROUP_NONE UINT32_MAX

typedef enum {
    GROUP_MAP,     /* pointwise over rows and dims */
    GROUP_ROWS,    /* reduces over the rows of one map, and pointwise values of the same rows */
    GROUP_DIMS,    /* sums and products inside a row ("dot"), and pointwise values of the same rows */
    GROUP_PRODUCT, /* a contract with rows of its own ("matmul"), and pointwise values */
    GROUP_BLOCKS,  /* a reduce or contract of all rows of a space to unit: blocks of them, merged as a tree */
    GROUP_CONCAT,  /* parts written one after another */
    GROUP_RANK,    /* a rank alone: its rows are sorted (lower_rank.c) */
    GROUP_NTH,     /* the elements of rows that have a rank (lower_nth.c) */
    GROUP_NEAREST, /* lower_nearest.c */
    GROUP_ROUTE,   /* lower_route.c */
    N_GROUP_KINDS
} GroupKind;
extern const char *const group_kind_names[N_GROUP_KINDS];

typedef struct Group {
    GroupKind kind;
    bool dead; /* merged into another */
    bool gemm; /* plain row-major product: a BLAS may do it */
    /* BLOCKS: of the first root; else space and dims of the roots (dtype: of one; dims of the same sizes may have other
       names there); narrow roots have no dims: computed once per row, before the others */
    IrType nest;
    IrId space;     /* BLOCKS: whose rows are summed; else nest.space */
    IrId map;       /* ROWS: the map whose rows are reduced; else IR_NONE */
    IrValues roots; /* values, ascending */
    /* ROWS: values at the elements of the map's rows; BLOCKS: at the rows; ascending: computed for some of them at a
       time into private arrays, and read there by the group's sums (lower_stage.c); some are copies of what another
       group computes too or belong to none (fuse_copy.c) */
    IrValues inner;
    VEC(uint32_t) deps;  /* groups whose values it reads */
    VEC(uint32_t) after; /* groups that read a tensor which this one updates in place */
} Group;

typedef struct FuseChoice { /* a value that is stored though it could be computed again */
    /* in the function without clones; the number of its values: wide values of edges, one for each walk */
    IrId v;
    double extra; /* what that would cost more, in ns per node */
    double bytes; /* expected */
} FuseChoice;

/* Forms of a function with clones of what several walks over the edges want (fuse_clone.c): one for each map, or for
   each kernel. */
typedef enum CloneBy { CLONE_BY_MAP, CLONE_BY_KERNEL, N_CLONE_BY } CloneBy;

struct Tiles; /* passes/schedule/schedule.h */
typedef struct FusedFunc {
    const IrModule *m;
    IrFunc *f;       /* prepared: see prepare.c; perhaps with clones: fuse_clone.c */
    IrValues origin; /* by value: which it is in the function without clones; empty: the same */
    uint32_t index;  /* of the function in the module */
    uint32_t n_merged;
    const struct Machine *machine; /* as PassContext; lower never asks it */
    int64_t most_staged;           /* as PassContext */
    VEC(uint32_t) group_of;        /* by value; GROUP_NONE: computed where it is used, or an argument */
    VEC(bool) stored;              /* by value: needs a buffer */
    VEC(FuseChoice) choices;
    VEC(IrId) home;     /* by value: whose buffer it lies in, its own or one that it takes over */
    VEC(bool) in_place; /* by result: its tensor's buffer is written directly */
    VEC(Group) groups;
    VEC(uint32_t) order;         /* live groups, in the order they run */
    struct Tiles *tiles;         /* of the pass schedule, or NULL before it */
    int64_t filled;              /* bytes of the vectors that products were turned and cut for (prepare.c) */
    uint32_t n_values;           /* of f before copies back into tensors joined it (fuse_update.c) */
    IrId sums;                   /* the map by whose rows sums over all edges are taken, or IR_NONE */
    unsigned clones;             /* 0: none, else CloneBy + 1 */
    const struct PlanForm *form; /* that its sums are to have (PassContext.forms); NULL: what pays */
    const struct FuncText *text; /* a schedule that is given (schedule_text.h), or NULL */
    /* by value: 1 + the index in text->groups of the group that has it as a root or an inner value; 0: none has */
    uint32_t *target;
    uint8_t *role;  /* by value: Role */
    uint32_t *seen; /* by value: scratch of walks, zero between them */
} FusedFunc;

typedef struct FusedModule {
    IrModule *m;            /* a clone that owns new dims */
    VEC(IrFunc *) plain;    /* by function, prepared (fuse.h) */
    VEC(IrFunc *) prepared; /* the same; sums over all edges perhaps by rows: fuse_sums.c */
    /* by function: the map by whose rows sums over all edges are taken; IR_NONE: they are taken over all edges at once
       */
    VEC(IrId) sums;
    VEC(FusedFunc *) funcs;
} FusedModule;

static inline IrId fused_origin(const FusedFunc *f, IrId v) { return f->origin.n ? f->origin.data[v] : v; }
static inline const IrOp *fused_op(const FusedFunc *f, IrId v) { return &f->f->ops.data[v]; }
static inline bool group_root_is_narrow(const FusedFunc *f, const Group *g, IrId root)
{
    return fused_op(f, root)->type.n_dims < g->nest.n_dims;
}
bool group_has_narrow(const FusedFunc *f, const Group *g); /* some root is */
/* How a value is computed if it is the root of a group. */
GroupKind group_kind_of(const IrFunc *f, const IrModule *m, IrId v);
bool op_is_heavy(const IrModule *m, const IrFunc *f, IrId v); /* never computed inside another kernel's point */
/* The value whose buffer holds v's elements: v itself, or what it is a view of. */
IrId fused_storage(const FusedFunc *f, IrId v);
/* A reshape that only drops or adds dims of size one, or renames. */
bool reshape_is_rename(const IrModule *m, const IrType *from, const IrType *to);
/* Sum inside a row with the vector along the result's last dim: the 16 partials are 16 vectors. */
bool dims_vector_is_kept(const IrModule *m, const IrFunc *f, const IrOp *op);

/* Products side by side walk panels of their weights in turn, which must stay in a near cache. */
enum { PRODUCTS_BESIDE = 3, LEAST_PANEL = 2 /* vectors of columns */ };
/* Products among the group's roots; *reduced: how many elements they sum for one element of each. */
unsigned group_products(const FusedFunc *f, const Group *g, int64_t *reduced);
/* Products of group g whose sums are wanted together: some stored root reads several of them. */
unsigned group_products_together(const FusedFunc *f, uint32_t g);
/* Whether group g computes v from `on`, not from memory. */
bool group_depends(const FusedFunc *f, uint32_t g, IrId v, IrId on);
/* A product over all rows whose result has the first operand's dims, then the second's, each in order. */
bool group_is_outer(const FusedFunc *f, const Group *g);
/* Whether operand k of `sum`, over all rows, may lie in memory that warps share: numbers that each row has several
   of. */
bool group_may_share(const FusedFunc *f, IrId sum, unsigned k);

/* The graph that a group of nearest points is the sources of: its n_edges * step are kept of each target. */
const IrGraph *group_nearest(const FusedFunc *f, const Group *g);

/* The group walks its rows element by element: some sum inside a row does not keep the vector. */
bool group_is_scalar(const FusedFunc *f, const Group *g);

/* What a group reads: leaves of the trees of its roots. */
typedef struct GroupRead {
    IrId v;        /* an argument, or a root (of any group) */
    bool identity; /* at the row and dims of the root, and only there */
    bool narrow;   /* by a root without dims */
    bool element;  /* at the root's own row, or for a sum over a map at the element that it takes; any dims */
    IrId image_of; /* at the image of such an element under this map; or IR_NONE */
    IrId space;    /* whose rows run while it is read */
    IrId map;      /* the last map between, or IR_NONE */
    int64_t part;  /* of so many places of dims, one that an index says */
} GroupRead;
typedef struct GroupReads {
    VEC(GroupRead) reads; /* one per value and way */
} GroupReads;
void group_reads(const FusedFunc *f, uint32_t g, Arena *a, GroupReads *out);
/* Group g reads it at the row that it computes, and nowhere else. */
bool group_reads_own_row(const FusedFunc *f, const Group *g, const GroupRead *r);
/* An operation that a group computes for one of its roots or inner values. */
typedef struct GroupOp {
    IrId v, root;
    IrId space;   /* whose rows run meanwhile */
    bool element; /* as GroupRead */
} GroupOp;
/* Calls visit for every operation computed inside g, once for each root and way. */
void group_ops(const FusedFunc *f, uint32_t g, Arena *a, void (*visit)(void *user, const GroupOp *op), void *user);
unsigned group_flops(const FusedFunc *f, uint32_t g); /* for one element of each of its values */
enum { KERNEL_FLOPS = 400 }; /* of one kernel for one element: trees are cut there, and merging ends */

/* ---- inner values ---- */

bool group_has_inner(const Group *g, IrId v);
bool values_have(const IrValues *values, IrId v);
/* Into ascending values, at its place. */
void values_insert(Arena *a, IrValues *values, IrId v);
/* v is an inner value of g that is not g's alone (fuse_copy.c): computed in each group, stored at most by another. */
bool group_has_copy(const FusedFunc *f, uint32_t g, IrId v);
/* v is in memory when g runs: an argument, or what another group computes. */
bool group_finds(const FusedFunc *f, uint32_t g, IrId v);
/* A sum that is to rescale (FusedFunc.form), and the maximum or minimum that it rescales with, are roots of g, or of g
   and more. more: NULL, or another group. */
bool group_rescales(const FusedFunc *f, const Group *g, const Group *more);
/* ROWS: with inner values, roots of several shapes or sums that are to rescale: lowered root by root, each over dims of
   its own. */
bool group_is_staged(const FusedFunc *f, const Group *g);
/* Of so many elements at once, at most, the private arrays of g's kernel can hold the inner values. */
int64_t stage_most(const FusedFunc *f, const Group *g);
/* Elements whose inner values fit the private arrays of a kernel at once; 0: too wide. more: NULL, or another group of
   rows, or one of values at the elements. */
int64_t stage_elements(const FusedFunc *f, const Group *g, const Group *more);
/* Pointwise, of numbers that an array may hold; and so wide and dear that it is better kept in an array than computed
   again (price_of_keeping). */
bool value_may_be_kept(const FusedFunc *f, IrId v);
bool value_is_dear(const FusedFunc *f, IrId v);
/* Whether every value of the group can be computed for a vector of rows (lower_rows.c). */
bool rows_fit(const FusedFunc *f, uint32_t g);
/* The same of a value without dims that group g computes and sums. */
bool rows_are_computed(const FusedFunc *f, uint32_t g, IrId v);
/* The same of a value without dims for rows in no order. */
bool rows_are_gathered(const FusedFunc *f, uint32_t g, IrId v);

/* ---- the graph of groups (group_graph.c, group_order.c) ---- */

uint32_t group_new(FusedFunc *f, Arena *a, IrId v);
void group_find_deps(FusedFunc *f, uint32_t g, Arena *a);           /* fills groups[g].deps */
bool group_reaches(const FusedFunc *f, uint32_t from, uint32_t to); /* along deps and after */
/* Whether group g copies a value back into a tensor that the function updates: no text of a schedule tells such
   groups. */
static inline bool group_is_copy_back(const FusedFunc *f, uint32_t g)
{
    return f->groups.data[g].roots.data[0] >= f->n_values;
}
bool group_order(FusedFunc *f, Arena *a); /* fills order */
