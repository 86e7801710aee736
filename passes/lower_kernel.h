/* One kernel under construction: a group's values are computed on demand at points. A point is a row of a
   space and an index for each dim; one dim may run along the vector. Shared by the lower_*.c files. */
#pragma once
#include "ir/plan.h"
#include "passes/emit.h"
#include "passes/schedule.h"

enum { ENV_MAX = 24, MAX_POINTS = 64 };

typedef struct Ix { /* the number var + off; var (or 0 if KIR_NONE) is a multiple of align */
    KirId var;
    int64_t off, align;
} Ix;
typedef struct Env { /* index of each dim; lanes > 1: dim `vec` runs along the vector, `active` lanes of it count */
    uint8_t n, lanes, active;
    IrId vec;
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
    uint8_t n_dims, lanes, active;
    IrId vec;
    Ix ix[IR_MAX_DIMS];
    uint32_t next;
} Memo;
typedef struct Image { /* known: map sends `row` to `image`, and has `row` at `position` of its list */
    IrId map;
    KirId row, image, position; /* position: KIR_NONE if the list is the elements' own order */
} Image;

/* One function on its way into the plan. */
typedef struct LowerFunc {
    PassContext *ctx;
    const FusedFunc *f;
    HostPlan *plan;
    PlanProgram *prog;
    bool vectors;
    uint32_t *buffer_of; /* by value: plan buffer of a stored root, or UINT32_MAX */
    uint32_t *first_memo; /* by value: memo + 1, of the kernel under construction */
    StrMap *kernels;      /* text -> index + 1 */
    bool failed;
} LowerFunc;

typedef struct Lower {
    LowerFunc *lf;
    const FusedFunc *f;
    Arena *arena;
    uint32_t g;
    Schedule s;
    Emit e;
    KirKernel *kernel;
    PlanStep *step; /* joins the program when the kernel is finished */
    VEC(uint32_t) param_of; /* by plan buffer: parameter + 1 */
    VEC(Memo) memos;
    VEC(Image) images;
} Lower;

/* ---- plan pieces (lower_plan.c) ---- */
PlanCount plan_const(int64_t v);
PlanCount plan_count(const IrModule *m, IrId space); /* unit: const 1 */
uint32_t plan_buffer(LowerFunc *lf, PlanBuffer b);    /* the equal one if it is no arena buffer */
uint32_t plan_value_buffer(LowerFunc *lf, IrId v);    /* of an argument or a stored root */
KirBase kir_base_of(IrDtype t);                       /* in registers: bool is i1 */
KirBase kir_elem_of(IrDtype t);                       /* in memory: bool is i8 */
void lower_begin(Lower *l, LowerFunc *lf, uint32_t g); /* fresh kernel and step */
void lower_finish(Lower *l, const char *kind);        /* the kernel joins the plan, shared if it is there already */
/* Parameters of the kernel, made on first use. */
uint32_t lower_in(Lower *l, uint32_t buffer);
uint32_t lower_out(Lower *l, uint32_t buffer);
KirId lower_count(Lower *l, PlanCount c); /* i64 */
uint32_t lower_map_buffer(Lower *l, PlanBufferKind kind, IrId map);
uint32_t lower_along_buffer(Lower *l, IrId map, IrId along); /* images under map in the order of the list of along */
void lower_costs(Lower *l); /* lower_cost.c: what the step reads, writes and computes */
const char *lower_label(const LowerFunc *lf, uint32_t g, const char *kind);

/* ---- evaluation at a point ---- */
Env env_empty(void);
void env_set(Env *e, IrId dim, Ix ix);
const Ix *env_get(const Env *e, IrId dim);
Ix ix_const(int64_t v);
KirId ix_emit(Lower *l, Ix ix);
static inline bool env_is_vector(const Env *e, const IrType *t) { return e->lanes > 1 && ir_type_has_dim(t, e->vec); }

KirId memo_get(const Lower *l, IrId v, KirId row, const Env *env);
void memo_put(Lower *l, IrId v, KirId row, const Env *env, KirId value);

KirId point_eval(Lower *l, IrId v, KirId row, const Env *env); /* lane count: 1 or env->lanes */
KirId point_map(Lower *l, const IrOp *op, const KirId *args);    /* lower_map.c: pointwise arithmetic */
KirId point_random(Lower *l, const IrOp *op, KirId row, const Env *env); /* lower_random.c */
KirId point_draw_at(Lower *l, const IrOp *op, KirId element, KirId feature); /* vectors or scalars */
KirId point_random_at(Lower *l, const IrOp *op, KirId row, const Env *env);
/* Element index of a row-major value of type t, and the distance of vector lanes (1 without a vector). */
KirId point_address(Lower *l, const IrType *t, KirId row, const Env *env, int64_t *stride);
KirId point_load(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env);
void point_store(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env, KirId value);

/* ---- sums (lower_reduce.c, lower_dims.c) ---- */
KirOpcode sum_op(IrOpcode op);                                /* add, mul, min, max */
KirId sum_identity(Lower *l, KirOpcode op, KirType t);
void heavy_rows(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n);
void heavy_dims(Lower *l, IrId v, const Point *p);
void heavy_product(Lower *l, IrId v, const Point *p, unsigned n);
/* Runs body inside loops over dims (sizes of one: none), with their indices added to *env. */
typedef struct DimLoop {
    unsigned n;
    IrId dim[2 * IR_MAX_DIMS];
    KirId var[2 * IR_MAX_DIMS];
} DimLoop;
DimLoop dim_loops_open(Lower *l, const IrId *dims, unsigned n);
void dim_loops_close(Lower *l, const DimLoop *loops);
void dim_loops_env(const DimLoop *loops, Env *env);

/* ---- nests (lower_nest.c, lower_blocks.c) ---- */
typedef void NestBody(Lower *l, const Point *points, unsigned n, void *user);
/* Walks dims[0..n) of the given sizes: loops and register tiles by the schedule; the vector along l->s.vec. */
void nest_dims(Lower *l, const IrType *dims, const Point *points, unsigned n, NestBody *body, void *user);
void lower_group(LowerFunc *lf, uint32_t g);
void lower_row(Lower *l, KirId row);   /* all of the group's values of one row */
void lower_rows(Lower *l, IrId space); /* lower_rows.c: a group of values without dims */
void lower_blocks(LowerFunc *lf, uint32_t g);
