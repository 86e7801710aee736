/* Matrix products by rows: a tile of rows and vectors in registers, summed left to right over the contracted elements.

     for blocks of rows (threads)
       for panels of columns          what a panel reads of the weight stays in the second cache for all rows of the block
         for tiles of rows
           acc = 0; for k: acc[row][vector] += x[row][k] * w[k][vector]
           what follows from the sums; stores
   Products of one group run one after the other in a tile, then what is computed from all of them. Where that is much,
   a cell of a recurrent network say, it is written for one row: the sums wait in private arrays, and a loop takes row
   by row. Never reorders a sum. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

/* Elements of what is asked for at once. */
static int64_t line_of(const Lower *l) { return group_tile_of(l)->line / (int64_t)sizeof(float); }

/* ---- sums of a tile ----------------------------------------------------------------------------------------- */

typedef struct Product {
    IrId v;
    const IrOp *op;
    const Point *p; /* [n] of the tile */
    KirId *acc;
    unsigned n;
} Product;

static const Schedule *tile_of_product(const Lower *l, const Product *x) { return value_tile_of(l, x->v); }
static int64_t stream_of(const Lower *l, const Product *x)
{
    const Schedule *s = tile_of_product(l, x);
    return s->elements > 1 ? 0 : s->stream;
}

/* Joins the elements at the open loops to the sums. `last`, unless it is IR_NONE, is a dim without a loop. */
static void take(Lower *l, const Product *x, const DimLoop *loops, IrId last, Ix at)
{
    for (unsigned i = 0; i < x->n; i++) {
        Env env = x->p[i].env;
        dim_loops_env(loops, &env);
        if (last != IR_NONE) env_set(&env, last, at);
        KirId a = point_full(l, x->op->args[0], x->p[i].row, &env),
              b = point_full(l, x->op->args[1], x->p[i].row, &env);
        emit_set(&l->e, x->acc[i], emit_fma(&l->e, a, b, x->acc[i]));
    }
}

/* Whether the first operand lies in memory, its last dim the innermost that is summed: a tile's rows are then
   streams. */
static bool is_streamed(Lower *l, const Product *x, IrId last)
{
    IrId a = x->op->args[0], s = fused_storage(l->f, a);
    const IrType *t = &fused_op(l->f, a)->type;
    bool stored = l->f->group_of.data[s] != GROUP_NONE || fused_op(l->f, s)->op == IR_OP_arg;
    return stored && stream_of(l, x) && x->p[0].row != KIR_NONE && t->space == l->f->groups.data[l->g].space &&
           t->n_dims && t->dims[t->n_dims - 1] == last;
}

/* The same line of each row, some tiles on: a tile's rows are too short for hardware to foresee. */
static void fetch_rows(Lower *l, const Product *x, const DimLoop *loops)
{
    IrId a = x->op->args[0];
    const IrType *t = &fused_op(l->f, a)->type;
    int64_t tile = l->s.rows * ir_type_width(l->f->m, t);
    int64_t rows = (stream_of(l, x) + tile - 1) / tile * l->s.rows;
    KirId done = KIR_NONE;
    for (unsigned i = 0; i < x->n; i++) {
        if (x->p[i].row == done) continue;
        done = x->p[i].row;
        Env env = x->p[i].env;
        env.n_vec = 0;
        dim_loops_env(loops, &env);
        KirId row = emit_op2(&l->e, KIR_add, done, emit_index(&l->e, rows));
        emit_prefetch(&l->e, lower_in(l, plan_value_buffer(l->lf, fused_storage(l->f, a))),
                      point_address(l, t, row, &env));
    }
}

/* The innermost loop by lines of the first operand's rows. */
static void sum_streamed(Lower *l, const Product *x, DimLoop *loops, IrId last)
{
    Emit *e = &l->e;
    int64_t size = l->f->m->dims.data[last].size, in_line = line_of(l);
    unsigned k = loops->n++;
    loops->dim[k] = last;
    KirId line = loops->var[k] = emit_for(e, emit_index(e, 0), emit_index(e, size), in_line, KIR_SEQ, "lines");
    fetch_rows(l, x, loops);
    KirId end = emit_op2(e, KIR_add, line, emit_index(e, in_line));
    if (size % in_line) end = emit_op2(e, KIR_min, end, emit_index(e, size));
    loops->var[k] = emit_for(e, line, end, 1, KIR_SEQ, NULL);
    take(l, x, loops, IR_NONE, ix_const(0));
    emit_end(e);
    emit_end(e);
    loops->n--;
}

/* The innermost loop by so many elements, written one behind the other. */
static void sum_by_elements(Lower *l, const Product *x, const DimLoop *loops, IrId last, int64_t each)
{
    Emit *e = &l->e;
    int64_t size = l->f->m->dims.data[last].size, whole = size / each * each;
    if (whole) {
        KirId k = emit_for(e, emit_index(e, 0), emit_index(e, whole), each, KIR_SEQ, l->f->m->dims.data[last].name);
        for (int64_t i = 0; i < each; i++) take(l, x, loops, last, (Ix){k, i, each});
        emit_end(e);
    }
    for (int64_t i = whole; i < size; i++) take(l, x, loops, last, ix_const(i));
}

void heavy_product(Lower *l, IrId v, const Point *p, unsigned n)
{
    Emit *e = &l->e;
    IrId dims[2 * IR_MAX_DIMS];
    Product x = {v, fused_op(l->f, v), p, ARENA_ARRAY(l->arena, KirId, n), n};
    unsigned n_dims = reduced_dims(l->f->f, x.op, dims);
    ICE_UNLESS(group_kind_of(l->f->f, l->f->m, v) == GROUP_PRODUCT && n);
    int64_t ahead = l->rows_ahead;
    l->rows_ahead = 0; /* sums have a way of their own */
    for (unsigned i = 0; i < n; i++) {
        KirType t = kir_type(kir_base_of(x.op->type.dtype), env_lanes(&p[i].env, &x.op->type));
        x.acc[i] = emit_var(e, "acc", sum_identity(l, KIR_add, t));
    }
    bool streamed = n_dims && is_streamed(l, &x, dims[n_dims - 1]);
    int64_t each = n_dims ? tile_of_product(l, &x)->elements : 1;
    DimLoop loops = dim_loops_open(l, dims, n_dims - (streamed || each > 1));
    if (streamed) sum_streamed(l, &x, &loops, dims[n_dims - 1]);
    else if (each > 1) sum_by_elements(l, &x, &loops, dims[n_dims - 1], each);
    else take(l, &x, &loops, IR_NONE, ix_const(0));
    dim_loops_close(l, &loops);
    for (unsigned i = 0; i < n; i++) {
        emit_freeze(e, x.acc[i]);
        memo_put(l, v, p[i].row, &p[i].env, x.acc[i]);
    }
    l->rows_ahead = ahead;
}

/* ---- rows and panels ---------------------------------------------------------------------------------------- */

typedef struct RowBlock {
    KirId first, middle, last; /* whole tiles of rows lie before the middle */
    const KirId *kept;         /* by root: a private array for the sums of a tile; NULL: they stay in registers */
} RowBlock;

/* These columns at `row` and the rows after it. */
static Point *points_of_tile(Lower *l, KirId row, int64_t n_rows, const Point *columns, unsigned n_columns)
{
    unsigned n = (unsigned)n_rows * n_columns;
    Point *p = ARENA_ARRAY(l->arena, Point, n);
    for (unsigned i = 0; i < n; i++) {
        p[i] = columns[i % n_columns];
        p[i].row = emit_op2(&l->e, KIR_add, row, emit_index(&l->e, i / n_columns));
    }
    return p;
}

/* The sum of the k-th point behind `first` in a private array. */
static KirIns kept_access(Lower *l, KirOpcode op, KirId array, IrId v, KirId first, unsigned k, const Env *env)
{
    const IrType *t = &fused_op(l->f, v)->type;
    unsigned lanes = env_lanes(env, t);
    KirId at = emit_op2(&l->e, KIR_mul, emit_op2(&l->e, KIR_add, first, emit_index(&l->e, k)),
                        emit_index(&l->e, lanes));
    return (KirIns){.op = op,
                    .type = kir_type(kir_base_of(t->dtype), lanes),
                    .args = {at, KIR_NONE, KIR_NONE},
                    .buf = KIR_NONE,
                    .alloc = array,
                    .stride = 1};
}

static void keep_sums(Lower *l, const KirId *kept, const Point *p, unsigned n)
{
    const Group *g = &l->f->groups.data[l->g];
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        const Point *q = kept[i] == KIR_NONE ? NULL : points_of_root(l, v, p, n);
        if (q) heavy_product(l, v, q, n);
        for (unsigned k = 0; q && k < n; k++) {
            KirIns store = kept_access(l, KIR_store, kept[i], v, emit_index(&l->e, 0), k, &q[k].env);
            store.args[1] = emit_splat(&l->e, memo_get(l, v, q[k].row, &q[k].env), store.type.lanes);
            emit_ins(&l->e, store);
        }
    }
}

static void recall_sums(Lower *l, const KirId *kept, KirId first, const Point *p, unsigned n)
{
    const Group *g = &l->f->groups.data[l->g];
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        const Point *q = kept[i] == KIR_NONE ? NULL : points_of_root(l, v, p, n);
        for (unsigned k = 0; q && k < n; k++)
            memo_put(l, v, q[k].row, &q[k].env,
                     emit_ins(&l->e, kept_access(l, KIR_load, kept[i], v, first, k, &q[k].env)));
    }
}

/* A tile: its sums, then what follows from them, of all rows or of one after the other. */
static void tile(Lower *l, const KirId *kept, KirId row, int64_t n_rows, const Point *columns, unsigned n_columns)
{
    Emit *e = &l->e;
    Point *p = points_of_tile(l, row, n_rows, columns, n_columns);
    ICE_UNLESS(!kept || n_rows == l->s.rows); /* the arrays are as large */
    l->rows_ahead = n_rows > 1 ? l->s.ahead * n_rows : 0;
    if (kept) {
        keep_sums(l, kept, p, (unsigned)n_rows * n_columns);
        KirId at = emit_for(e, emit_index(e, 0), emit_index(e, n_rows), 1, KIR_SEQ, "rows of the tile");
        p = points_of_tile(l, emit_op2(e, KIR_add, row, at), n_rows = 1, columns, n_columns);
        recall_sums(l, kept, emit_op2(e, KIR_mul, at, emit_index(e, n_columns)), p, n_columns);
    }
    lower_roots(l, false, p, (unsigned)n_rows * n_columns);
    if (kept) emit_end(e);
    l->rows_ahead = 0;
}

/* Arrays for the sums of a tile whose rows are written as one, in a loop. */
static const KirId *arrays_of_tile(Lower *l)
{
    const Group *g = &l->f->groups.data[l->g];
    int64_t points = l->s.rows * l->s.vectors;
    KirId *kept = ARENA_ARRAY(l->arena, KirId, g->roots.n);
    if (!l->s.kept) return NULL;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        bool sum = group_kind_of(l->f->f, l->f->m, v) == GROUP_PRODUCT && !group_root_is_narrow(l->f, g, v);
        KirType t = kir_type(kir_base_of(fused_op(l->f, v)->type.dtype), 1);
        kept[i] = sum ? emit_ins(&l->e, (KirIns){.op = KIR_alloc, .type = t, .i = points * l->s.lanes}) : KIR_NONE;
    }
    return kept;
}

/* Tiles of the block's rows, then the rows that are left one by one. */
static void panel(Lower *l, const Point *columns, unsigned n_columns, void *user)
{
    Emit *e = &l->e;
    const RowBlock *b = user;
    KirId row = emit_for(e, b->first, b->middle, l->s.rows, KIR_SEQ, "tiles of rows");
    tile(l, b->kept, row, l->s.rows, columns, n_columns);
    emit_end(e);
    row = emit_for(e, b->middle, b->last, 1, KIR_SEQ, "rows that are left");
    tile(l, NULL, row, 1, columns, n_columns);
    emit_end(e);
}

void lower_product_rows(Lower *l, IrId space)
{
    Emit *e = &l->e;
    const Group *g = &l->f->groups.data[l->g];
    RowBlock b = {.kept = arrays_of_tile(l)};
    KirId rows = lower_count(l, plan_count(l->f->m, space)), size = emit_index(e, l->s.block);
    KirId width = emit_index(e, l->s.rows);
    l->step->extent = (PlanCount){.kind = PLAN_BLOCKS, .space = space, .block = l->s.block, .max = INT64_MAX};
    KirId block = emit_for(e, emit_index(e, 0), lower_count(l, l->step->extent), 1, KIR_THREADS, "blocks of rows");
    b.first = emit_op2(e, KIR_mul, block, size);
    b.last = emit_op2(e, KIR_min, emit_op2(e, KIR_add, b.first, size), rows);
    KirId whole = emit_op2(e, KIR_div, emit_op2(e, KIR_sub, b.last, b.first), width);
    b.middle = emit_op2(e, KIR_add, b.first, emit_op2(e, KIR_mul, whole, width));
    nest_dims(l, &g->nest, &(Point){KIR_NONE, env_empty()}, 1, panel, &b);
    emit_end(e);
}
