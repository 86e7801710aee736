/* Matrix products by rows: a tile of rows and vectors in registers, summed left to right over the contracted elements.

     for blocks of rows (threads)
       for panels of columns          what a panel reads of the weight stays in the second cache for all rows of the block
         for tiles of rows
           acc = 0; for k: acc[row][vector] += x[row][k] * w[k][vector]
           what follows from the sums; stores
   Products of one group run one after the other in a tile, then what is computed from all of them. Never reorders a
   sum. */
#include "passes/lower_kernel.h"

/* ---- sums of a tile ----------------------------------------------------------------------------------------- */

void heavy_product(Lower *l, IrId v, const Point *p, unsigned n)
{
    Emit *e = &l->e;
    const IrOp *op = fused_op(l->f, v);
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n_dims = reduced_dims(l->f->f, op, dims);
    KirId *acc = ARENA_ARRAY(l->arena, KirId, n);
    for (unsigned i = 0; i < n; i++) {
        KirType t = kir_type(kir_base_of(op->type.dtype), env_lanes(&p[i].env, &op->type));
        acc[i] = emit_var(e, "acc", sum_identity(l, KIR_add, t));
    }
    DimLoop loops = dim_loops_open(l, dims, n_dims);
    for (unsigned i = 0; i < n; i++) {
        Env env = p[i].env;
        dim_loops_env(&loops, &env);
        KirId a = point_full(l, op->args[0], p[i].row, &env), b = point_full(l, op->args[1], p[i].row, &env);
        emit_set(e, acc[i], emit_fma(e, a, b, acc[i]));
    }
    dim_loops_close(l, &loops);
    for (unsigned i = 0; i < n; i++) {
        emit_freeze(e, acc[i]);
        memo_put(l, v, p[i].row, &p[i].env, acc[i]);
    }
}

/* ---- rows and panels ---------------------------------------------------------------------------------------- */

typedef struct RowBlock {
    KirId first, middle, last; /* whole tiles of rows lie before the middle */
} RowBlock;

/* A tile: these columns at `row` and the rows after it. */
static void tile(Lower *l, KirId row, int64_t n_rows, const Point *columns, unsigned n_columns)
{
    unsigned n = (unsigned)n_rows * n_columns;
    Point *p = ARENA_ARRAY(l->arena, Point, n);
    for (unsigned i = 0; i < n; i++) {
        p[i] = columns[i % n_columns];
        p[i].row = emit_op2(&l->e, KIR_add, row, emit_index(&l->e, i / n_columns));
    }
    lower_roots(l, false, p, n);
}

/* Tiles of the block's rows, then the rows that are left one by one. */
static void panel(Lower *l, const Point *columns, unsigned n_columns, void *user)
{
    Emit *e = &l->e;
    const RowBlock *b = user;
    KirId row = emit_for(e, b->first, b->middle, l->s.row_tile, KIR_SEQ, "tiles of rows");
    tile(l, row, l->s.row_tile, columns, n_columns);
    emit_end(e);
    row = emit_for(e, b->middle, b->last, 1, KIR_SEQ, "rows that are left");
    tile(l, row, 1, columns, n_columns);
    emit_end(e);
}

void lower_product_rows(Lower *l, IrId space)
{
    Emit *e = &l->e;
    const Group *g = &l->f->groups.data[l->g];
    RowBlock b;
    KirId rows = lower_count(l, plan_count(l->f->m, space)), size = emit_index(e, l->s.row_block);
    KirId width = emit_index(e, l->s.row_tile);
    l->step->extent = (PlanCount){.kind = PLAN_BLOCKS, .space = space, .block = l->s.row_block, .max = INT64_MAX};
    KirId block = emit_for(e, emit_index(e, 0), lower_count(l, l->step->extent), 1, KIR_THREADS, "blocks of rows");
    b.first = emit_op2(e, KIR_mul, block, size);
    b.last = emit_op2(e, KIR_min, emit_op2(e, KIR_add, b.first, size), rows);
    KirId whole = emit_op2(e, KIR_div, emit_op2(e, KIR_sub, b.last, b.first), width);
    b.middle = emit_op2(e, KIR_add, b.first, emit_op2(e, KIR_mul, whole, width));
    nest_dims(l, &g->nest, &(Point){KIR_NONE, env_empty()}, 1, panel, &b);
    emit_end(e);
}
