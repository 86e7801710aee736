/* One kernel under construction: a group's values are computed on demand at points. A point is a row of a
   space and an index for each dim; one dim may run along the vector. Shared by the lower_*.c files. */
#pragma once
#include "ir/plan.h"
#include "passes/lower/emit.h"
#include "passes/lower/lower.h"

enum { ENV_MAX = 24, ENV_VECS = 4 };

typedef struct Ix { /* the number var + off; var (or 0 if KIR_NONE) is a multiple of align */
    KirId var;
    int64_t off, align;
} Ix;
typedef struct Env { /* index of each dim, and the dims that run along the vector, innermost first: lane l is at element
                        l mod count of vec[0], (l / count of vec[0]) mod count of vec[1], ... from that dim's index on;
                        all but the last run whole. The first `active` lanes count */
    uint8_t n, n_vec, active;
    VecDim vec[ENV_VECS];
    IrId dim[ENV_MAX];
    Ix ix[ENV_MAX];
} Env;
typedef struct Point {
    KirId row; /* i64; KIR_NONE in the unit space */
    Env env;
} Point;

typedef struct Memo { /* what was computed where */
    IrId v;
    KirId row, value;
    uint8_t n_dims, n_vec, active;
    VecDim vec[ENV_VECS];
    Ix ix[IR_MAX_DIMS];
    uint32_t next;
} Memo;
typedef struct Image { /* known: map sends `row` to `image`, and has `row` at `position` of its list */
    IrId map;
    KirId row, image, position; /* position: KIR_NONE if the list is the elements' own order */
} Image;

/* A value of the group in a private array (lower_array.c): of some elements of the row, or of the row itself. */
typedef struct Staged {
    IrId v;
    KirId array;
    bool of_row, kept;      /* kept: the row's value is there */
    uint32_t depth, serial; /* of the block in which it was filled; serial 0: it was not */
} Staged;
typedef struct StageAt { /* where a row of the elements' space lies in the arrays */
    KirId row, local;
} StageAt;

/* Tiles of nests are given out to the warps of a block: the n-th tile since `next` was 0 is warp n mod n_warps's. */
typedef struct Deal {
    KirId warp;      /* the loop bound to warp */
    int64_t n_warps; /* 0: nothing is given out */
    int64_t next;
} Deal;

/* One function on its way into the plan. */
typedef struct RouteBuffer { /* of a computed map, in planned memory: lower_route.c */
    IrId map;
    PlanBufferKind kind; /* of the array that it stands for */
    uint32_t buffer;
} RouteBuffer;

typedef struct LowerFunc {
    PassContext *ctx;
    const FusedFunc *f;
    HostPlan *plan;
    PlanProgram *prog;
    StrMap *names;        /* of the plan's kernels: how many begin with these words */
    uint32_t *buffer_of;  /* by value: plan buffer of a stored root, or UINT32_MAX */
    uint32_t *first_memo; /* by value: memo + 1, of the kernel under construction */
    bool for_split;       /* the kernel under construction computes parts of rows, for the last step */
    /* the kernel under construction is for CPUs with fewer registers: it waits for the other one */
    bool for_narrow;
    const KirKernel *waiting; /* such a kernel, with its step; or NULL */
    const PlanStep *waiting_step;
    VEC(RouteBuffer) routes;
} LowerFunc;

typedef struct Lower {
    LowerFunc *lf;
    const FusedFunc *f;
    Arena *arena;
    uint32_t g;
    IrId root;          /* the value that the kernel is about, where it is not about the whole group; or IR_NONE */
    Schedule s;         /* of the group, or of the value at hand */
    uint32_t first_vec; /* dims before this position of a nest stay out of the vector */
    Emit e;
    KirKernel *kernel;
    PlanStep *step; /* joins the program when the kernel is finished; its arguments are the kernel's parameters */
    VEC(Memo) memos;
    VEC(Image) images;
    int64_t rows_ahead; /* what is loaded of the group's rows is asked for so many rows before its turn; 0: it is not */
    VEC(Staged) staged;
    VEC(StageAt) stage_at;
    bool split;            /* the kernel computes parts of rows: lower_split.c */
    uint32_t walks;        /* of the kernel so far */
    KirId split_lo;        /* where the list of the row begins */
    IrId filling;          /* the staged value that is computed now, or IR_NONE */
    int64_t stage_rows;    /* elements that the arrays hold */
    uint32_t stage_scopes; /* that are open where walks over a row are not repeated */
    Deal deal;
} Lower;

/* The group's own numbers, also while l->s are those of one of its values. */
static inline const Schedule *group_tile_of(const Lower *l) { return &l->f->tiles->group[0][l->g]; }
/* Those of one of its values. Kernels for parts of rows run on all CPUs: by the numbers for few registers. */
static inline const Schedule *value_tile_of(const Lower *l, IrId v)
{
    return value_tile(l->f, l->lf->for_narrow || l->split, l->g, v);
}

/* ---- plan pieces (lower_plan.c) ---- */
PlanCount plan_const(int64_t v);
PlanCount plan_count(const IrModule *m, IrId space);   /* unit: const 1 */
uint32_t plan_buffer(LowerFunc *lf, PlanBuffer b);     /* the equal one if it is no arena buffer */
uint32_t plan_value_buffer(LowerFunc *lf, IrId v);     /* of an argument or a stored root */
KirBase kir_base_of(IrDtype t);                        /* in registers: bool is i1, 16 bits are f32 */
KirBase kir_elem_of(IrDtype t);                        /* in memory: bool is i8 */
void lower_begin(Lower *l, LowerFunc *lf, uint32_t g); /* fresh kernel and step */
void lower_finish(Lower *l, const char *kind);         /* the kernel joins the plan */
/* Parameters of the kernel, made on first use. */
uint32_t lower_in(Lower *l, uint32_t buffer);
uint32_t lower_out(Lower *l, uint32_t buffer);
KirId lower_count(Lower *l, PlanCount c); /* i64 */
uint32_t lower_map_buffer(Lower *l, PlanBufferKind kind, IrId map);
uint32_t lower_computed_map(LowerFunc *lf, PlanBufferKind kind, IrId map); /* lower_plan.c */
static inline bool lower_is_computed(const Lower *l, IrId map)
{
    return map != IR_NONE && l->f->m->maps.data[map].computed;
}
uint32_t lower_along_buffer(Lower *l, IrId map, IrId along); /* images under map in the order of the list of along */
void lower_costs(Lower *l); /* lower_cost.c: what the step reads, writes and computes */
const char *lower_label(const LowerFunc *lf, uint32_t g, IrId root, const char *kind);

/* ---- evaluation at a point ---- */
Env env_empty(void);
void env_set(Env *e, IrId dim, Ix ix);
const Ix *env_get(const Env *e, IrId dim);
Ix ix_const(int64_t v);
KirId ix_emit(Lower *l, Ix ix);

/* ---- environments and lanes (lower_lanes.c) ---- */
unsigned env_width(const Env *e);                   /* lanes of the vector; 1: there is none */
Env env_only(const Env *e, const IrType *t);        /* with those dims of the vector that t has */
unsigned env_lanes(const Env *e, const IrType *t);  /* of a value of type t: over those dims, packed */
unsigned env_active(const Env *e, const IrType *t); /* how many of them count */
void env_vector(Env *e, const VecRun *run);         /* the vector runs along these, all lanes count */
/* inner was a copy of outer: what runs along outer's vector as `from` is `to` there. */
void env_rename(Env *inner, const Env *outer, IrId from, IrId to);
/* A value of type `from` in all lanes of e; a scalar stays one. */
KirId lanes_spread(Lower *l, KirId x, const IrType *from, const Env *e);
/* e (of a value of type t alone) with more of its outermost dim in the vector, of so many lanes at most; *first: where
   e's lanes are in it. */
bool lanes_widen(const Lower *l, const IrType *t, unsigned most, Env *e, unsigned *first);
/* How far apart in memory the lanes of a row-major value are, if it is one distance. */
bool lanes_stride(const Lower *l, const IrType *t, const Env *e, int64_t *stride);
KirId lanes_offsets(Lower *l, const IrType *t, const Env *e); /* of each from the first: an i64 vector */
KirId lanes_any(Lower *l, KirId yes);                         /* i1: of some lane */
KirId lanes_load(Lower *l, uint32_t param, const IrType *t, KirId at, const Env *e);

KirId memo_get(const Lower *l, IrId v, KirId row, const Env *env);
void memo_put(Lower *l, IrId v, KirId row, const Env *env, KirId value);

KirId point_eval(Lower *l, IrId v, KirId row, const Env *env);           /* lane count: 1 or env_lanes of its type */
KirId point_full(Lower *l, IrId v, KirId row, const Env *env);           /* in all lanes of env; or a scalar */
KirId point_image(Lower *l, IrId map, KirId element);                    /* the row that the map leads to */
KirId point_map(Lower *l, const IrOp *op, const KirId *args);            /* lower_map.c: pointwise arithmetic */
KirId point_random(Lower *l, const IrOp *op, KirId row, const Env *env); /* lower_random.c */
KirId point_draw_at(Lower *l, const IrOp *op, KirId element, KirId feature); /* vectors or scalars */
KirId point_random_at(Lower *l, const IrOp *op, KirId row, const Env *env);
/* Where the element of the first lane at env lies in a row of type t. */
Lin point_offset(const Lower *l, const IrType *t, const Env *env);
/* Element index of a row-major value of type t, of the first lane. */
KirId point_address(Lower *l, const IrType *t, KirId row, const Env *env);
KirId point_load(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env);
void point_store(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env, KirId value);

/* ---- sums (lower_reduce.c, lower_dims.c) ---- */
KirOpcode sum_op(IrOpcode op); /* add, mul, min, max */
KirId sum_identity(Lower *l, KirOpcode op, KirType t);
void heavy_rows(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n);
void heavy_dims(Lower *l, IrId v, const Point *p);
/* Runs body inside loops over dims (sizes of one: none), with their indices added to *env. */
typedef struct DimLoop {
    unsigned n;
    IrId dim[2 * IR_MAX_DIMS];
    KirId var[2 * IR_MAX_DIMS];
} DimLoop;
DimLoop dim_loops_open(Lower *l, const IrId *dims, unsigned n);
void dim_loops_close(Lower *l, const DimLoop *loops);
void dim_loops_env(const DimLoop *loops, Env *env);

/* ---- products (lower_product.c) ---- */
void heavy_product(Lower *l, IrId v, const Point *p, unsigned n);
void lower_product_rows(Lower *l, IrId space);
/* ---- staged values (lower_stage.c, lower_array.c) ---- */
/* positions [from, to) of row `row`, which has [lo, hi); or, of sums over all rows, a strip */
typedef struct StageSpan {
    IrId map; /* IR_NONE: all rows are summed */
    KirId row, lo, hi, from, to;
    KirId base;   /* what lies first in the arrays */
    KirId longer; /* i1: the row is longer than the arrays */
} StageSpan;
typedef struct StageNeeds {  /* indices into l->staged, ascending */
    uint32_t *fresh, *again; /* again: filled before; only long rows need that */
    unsigned n_fresh, n_again;
    bool fleeting; /* what is filled now is not yet what it is in the end: not stored */
} StageNeeds;
void stage_begin(Lower *l);          /* before the values of a row, or of a block of rows: the arrays */
void stage_end(Lower *l, KirId row); /* behind them: inner values that are stored and that no walk took along */
/* The element of the row space at a position of the map's rows; of a vector of positions a vector. */
KirId row_element(Lower *l, IrId map, KirId position);
StageSpan row_span(Lower *l, IrId map, KirId row); /* the whole row */
/* What the sums need of the staged values; filling them for a span; and after the walk over the row. */
void stage_needs(Lower *l, const IrId *ops, unsigned n, StageNeeds *out);
/* Adds stored values that no sum of the row needs, and for which this walk fills what they are made of. */
void stage_join(Lower *l, StageNeeds *needs);
void stage_fill(Lower *l, const StageNeeds *needs, const StageSpan *x);
void stage_done(Lower *l, const StageNeeds *needs);
/* Before a loop over warps: an array for l->stage_rows rows of v, which the warps of the block share. By each of them:
   its part of the rows of all such arrays. */
void stage_share(Lower *l, IrId v);
void stage_shared(Lower *l, const StageSpan *x);
void stage_strip(Lower *l, const StageSpan *x); /* sums over all rows: all values, of a strip of rows */
Staged *array_find(const Lower *l, IrId v);     /* lower_array.c; NULL: v has none */
/* A load or a store, without the value, of one array at a place of the row and a point. */
KirIns array_access(Lower *l, KirOpcode op, KirId array, const IrType *t, KirId local, const Env *env);
bool stage_has(const Lower *l, IrId v); /* in an array, at elements */
/* Inside: `element` at `position` of the span is known to belong to the row, and has a place in the arrays. */
void stage_enter(Lower *l, const StageSpan *x, KirId element, KirId position);
void stage_leave(Lower *l, const StageSpan *x, unsigned n);
/* Where a row that was entered lies in the arrays. */
KirId stage_place(const Lower *l, KirId row);
/* False if v is in no array, or is computed right now. t: v's type, or that of a reshape of it. */
bool stage_load(Lower *l, IrId v, const IrType *t, KirId row, const Env *env, KirId *value);
/* Puts a value of the row into its array, if it has one: what is remembered of it, or another. */
void stage_keep(Lower *l, IrId v, const Point *p);
void stage_put(Lower *l, IrId v, const Point *p, KirId value);
/* Walks the row for stored inner values alone (lower_reduce.c). */
void stage_sweep(Lower *l, const StageNeeds *needs, IrId map, KirId row);

/* ---- products over all rows (lower_outer.c) ---- */
typedef struct Partial { /* the sum over one leaf of rows */
    uint32_t buffer;
    IrType type; /* as if each slot were a row of some space */
    KirId slot;
} Partial;
/* A strip of rows into the leaf's partial. */
void lower_outer(Lower *l, IrId v, const Partial *part, const StageSpan *strip);

/* ---- trees of sums over all rows (lower_tree.c) ---- */
typedef struct TreeLeaf { /* of a block, or a block among all */
    KirId index, is_last;
    KirId merged; /* the levels, as bits, at which it takes in what waits */
} TreeLeaf;
typedef struct TreeMerging { /* acc[i] takes in what waits at the leaf's levels */
    const TreeLeaf *leaf;
    KirOpcode op;
    KirId *acc;
    unsigned n;
    KirId (*waiting)(Lower *l, KirId level, unsigned i, const void *user);
    const void *user;
} TreeMerging;
/* Leaf `index` of n. The levels at which it is merged are the ones that it ends in; of the last one all, which moves up
   where it has no neighbour. */
TreeLeaf tree_leaf(Lower *l, KirId index, KirId n);
/* acc[i] = what waits + acc[i], level by level. Returns the number of levels, of a leaf that is not the last. */
KirId tree_merge(Lower *l, const TreeMerging *x);
PlanCount blocks_count(const FusedFunc *f, uint32_t g, PlanCountKind kind); /* of group g's blocks */
/* The kernel that merges the sums of g's blocks, rows of the buffer `partials`, to the value v. */
void lower_tree(LowerFunc *lf, uint32_t g, IrId v, uint32_t partials);

/* ---- sums of one walk (lower_reduce.c) ---- */
typedef struct Acc { /* a sum over the rows of a map at one point */
    IrId v;
    Point p;
    KirId total, part;
} Acc;
typedef struct Accs {
    Acc *data;
    unsigned n;
} Accs;
/* Computes all of them in one walk over the row: values are remembered at their points. */
void rows_walk(Lower *l, Accs sums);
/* The same of these values of a staged group at all their points, tile by tile: what is staged is staged once for all
   tiles of some elements, and the sums wait in private arrays. */
void rows_tiles(Lower *l, const IrId *ops, unsigned n, KirId row);

/* ---- rows in parts (lower_split.c) ---- */
/* The next walk of the kernel begins, over what is left of the span: blocks of the part where it is this walk's turn
   (the i1 that is returned), the row's where its turn is over and it joins, else none. upto: from the row's first block
   to the end of the part. */
KirId split_walk(Lower *l, StageSpan *x, bool joins, bool upto);
KirId split_reached(Lower *l, KirId turn, KirId position); /* i1: and the block at this position is of the part */
void split_keep(Lower *l, Accs s, KirId position);         /* parts of the block to memory */
void split_take(Lower *l, Accs s, KirId position);         /* and back */
/* Around the stores of the row's values. */
void split_stores_open(Lower *l);
void split_stores_close(Lower *l);
/* Behind the steps of a group: the kernel for parts of its rows. */
void lower_split(LowerFunc *lf, uint32_t g, void (*make)(LowerFunc *lf, uint32_t g, void *user));
void split_finish(Lower *l);

/* ---- sums that rescale (lower_online.c) ---- */
/* sums that have exp(-shift) as a factor, shift being the extreme, or that where it is finite */
typedef struct Online {
    IrId extreme, shift, *sums;
    unsigned n;
    bool guarded;
} Online;
/* The sums of the group that rescale with this maximum or minimum. done: by root; what they need beside it. */
bool online_find(Lower *l, IrId extreme, const bool *done, Online *o);
void online_begin(Lower *l, const Online *o, Accs extremes); /* totals are open */
/* extremes: the sums of the walk that come first, the extreme among them, with totals that have the block in. `later`:
   the block is not the first. The totals of the other sums are rescaled. */
void online_rescale(Lower *l, const Online *o, Accs extremes, Accs sums, KirId later);
KirId online_finish(Lower *l, const Online *o, const Acc *a, KirId empty); /* the total at the end */
void online_walk(Lower *l, const Online *o, Accs extremes, Accs sums);
void online_note(Lower *l, const Online *o); /* in the form of the program */

/* ---- nests (lower_nest.c, lower_blocks.c) ---- */
typedef void NestBody(Lower *l, const Point *points, unsigned n, void *user);
/* Walks dims[0..n) of the given sizes: loops, vectors and register tiles by l->s. */
void nest_dims(Lower *l, const IrType *dims, const Point *points, unsigned n, NestBody *body, void *user);
/* The points of the nest by the names that a root has for its dims. */
const Point *points_of_root(Lower *l, IrId root, const Point *p, unsigned n);
/* One tile of the narrow roots, or of the others: sums, values, stores. */
void lower_roots(Lower *l, bool narrow, const Point *p, unsigned n);
/* The same over more dims of which none runs along the vector: `tile` elements together. */
void nest_scalars(Lower *l, const IrType *dims, int64_t tile, const Point *points, unsigned n, NestBody *body,
                  void *user);
/* All of t's dims, those before l->first_vec as rows of which `rows` elements are computed together, the others as
   nest_dims walks them; each tile by the warp of l->deal that it is given to. */
void nest_dealt(Lower *l, const IrType *t, int64_t rows, NestBody *body, void *user);
void lower_group(LowerFunc *lf, uint32_t g);
/* Runs `make`, which begins and finishes one kernel of g, and before it the same for CPUs with fewer registers, if that
   differs. */
void lower_kernels(LowerFunc *lf, uint32_t g, void (*make)(LowerFunc *lf, uint32_t g, void *user), void *user);
void lower_unit_row(Lower *l);         /* of a group of the unit space */
void lower_row(Lower *l, KirId row);   /* all of the group's values of one row */
void lower_rows(Lower *l, IrId space); /* lower_rows.c: a group of values without dims */
/* Rows, or elements of a row, of values without dims that a vector has; 1: none runs along them. */
unsigned rows_at_once(const Lower *l);
const char *rows_label(const Lower *l, const char *what); /* "sixteen rows" */
/* A value without dims that group g computes and sums, where rows_are_computed, for so many rows at once. */
KirId rows_value(Lower *l, IrId v, KirId row);
/* The same, where rows_are_gathered, of the rows that a vector of integers says. */
KirId rows_gathered(Lower *l, IrId v, KirId index);
void lower_blocks(LowerFunc *lf, uint32_t g);
/* lower_nth.c: of the same values */
void heavy_nth(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n);
void lower_rank(LowerFunc *lf, uint32_t g); /* lower_rank.c: a group of one rank */
void lower_nearest(LowerFunc *lf, uint32_t g);
void lower_route(LowerFunc *lf, uint32_t g);
