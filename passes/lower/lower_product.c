/* Matrix products by rows: a tile of rows and vectors in registers, summed left to right over the contracted elements.

     for blocks of rows (threads)
       for panels of columns          the second cache keeps what a panel reads of the weight for all of them
         for tiles of rows
           acc = 0; for k: acc[row][vector] += x[row][k] * w[k][vector]
           what follows from the sums; stores
   Where each row chooses its weight and rows that choose one lie side by side, tiles of one weight have a loop of their
   own. Products of one group run one after the other in a tile. What is computed from one of them is stored before the
   next one takes the registers. Where several are wanted together, or much is computed from them (a cell of a recurrent
   network), the sums wait in private arrays, and what follows is written for one row, in a loop. Never reorders a
   sum. */
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

static void sum(Lower *l, const Product *x)
{
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n_dims = reduced_dims(l->f->f, x->op, dims);
    bool streamed = n_dims && is_streamed(l, x, dims[n_dims - 1]);
    int64_t each = n_dims ? tile_of_product(l, x)->elements : 1;
    DimLoop loops = dim_loops_open(l, dims, n_dims - (streamed || each > 1));
    if (streamed) sum_streamed(l, x, &loops, dims[n_dims - 1]);
    else if (each > 1) sum_by_elements(l, x, &loops, dims[n_dims - 1], each);
    else take(l, x, &loops, IR_NONE, ix_const(0));
    dim_loops_close(l, &loops);
}

/* ---- a matrix for each key ---------------------------------------------------------------------------------- */

static bool is_known(const Lower *l, IrId map, KirId row)
{
    for (uint32_t i = 0; i < l->images.n; i++)
        if (l->images.data[i].map == map && l->images.data[i].row == row) return true;
    return false;
}

/* The map by which rows choose their matrix, where rows that choose one lie side by side; IR_NONE. In a walk over the
   rows of one key that is known. */
static IrId key_of(const Lower *l, const Product *x)
{
    if (x->p[0].row == x->p[x->n - 1].row) return IR_NONE;
    for (uint32_t k = 0; k < x->op->n_args; k++) {
        IrId v = x->op->args[k];
        const IrOp *op = fused_op(l->f, v);
        if (op->op != IR_OP_gather || op->type.n_dims < 2 || l->f->group_of.data[v] != GROUP_NONE) continue;
        const IrMap *map = &l->f->m->maps.data[op->attr.map];
        bool chosen = map->sorted && !map->partial && map->to != IR_UNIT;
        if (chosen && !is_known(l, op->attr.map, x->p[0].row)) return op->attr.map;
    }
    return IR_NONE;
}

/* Of a tile whose rows all choose one matrix each element of it is loaded once. */
static void sum_by_key(Lower *l, const Product *x, IrId key)
{
    Emit *e = &l->e;
    KirId *image = ARENA_ARRAY(l->arena, KirId, x->n), same = KIR_NONE;
    uint32_t known = l->images.n;
    for (unsigned i = 0; i < x->n; i++) {
        bool again = i && x->p[i].row == x->p[i - 1].row;
        image[i] = again ? image[i - 1] : point_image(l, key, x->p[i].row);
        if (again || !i) continue;
        KirId equal = emit_op2(e, KIR_eq, image[i], image[0]);
        same = same == KIR_NONE ? equal : emit_op2(e, KIR_and, same, equal);
    }
    ICE_UNLESS(same != KIR_NONE);
    for (unsigned one = 2; one-- > 0;) {
        if (one) emit_if(e, same);
        else emit_else(e);
        for (unsigned i = 0; i < x->n; i++)
            VEC_PUSH(l->arena, &l->images, ((Image){key, x->p[i].row, image[one ? 0 : i], KIR_NONE}));
        sum(l, x);
        l->images.n = known;
    }
    emit_end(e);
}

void heavy_product(Lower *l, IrId v, const Point *p, unsigned n)
{
    Emit *e = &l->e;
    Product x = {v, fused_op(l->f, v), p, ARENA_ARRAY(l->arena, KirId, n), n};
    ICE_UNLESS(group_kind_of(l->f->f, l->f->m, v) == GROUP_PRODUCT && n);
    int64_t ahead = l->rows_ahead;
    l->rows_ahead = 0; /* sums have a way of their own */
    for (unsigned i = 0; i < n; i++) {
        KirType t = kir_type(kir_base_of(x.op->type.dtype), env_lanes(&p[i].env, &x.op->type));
        x.acc[i] = emit_var(e, "acc", sum_identity(l, KIR_add, t));
    }
    IrId key = key_of(l, &x);
    if (key == IR_NONE) sum(l, &x);
    else sum_by_key(l, &x, key);
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
    const uint32_t *behind;    /* by root: the root, a product, behind which it is stored; the number of roots: at the
                                  end; NO_ROOT: it is not stored */
} RowBlock;

static const uint32_t NO_ROOT = UINT32_MAX;

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

static void keep_sums(Lower *l, KirId array, IrId v, const Point *p, unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        KirIns store = kept_access(l, KIR_store, array, v, emit_index(&l->e, 0), k, &p[k].env);
        store.args[1] = emit_splat(&l->e, memo_get(l, v, p[k].row, &p[k].env), store.type.lanes);
        emit_ins(&l->e, store);
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

/* Computes and stores the roots that lie behind root `i`. All values are there before the first is stored: a tensor
   that one of them updates may be read by another. */
static void store_roots(Lower *l, const RowBlock *b, uint32_t i, const Point *p, unsigned n)
{
    const Group *g = &l->f->groups.data[l->g];
    KirId *values = ARENA_ARRAY(l->arena, KirId, g->roots.n * n);
    for (unsigned storing = 0; storing < 2; storing++)
        for (uint32_t r = 0; r < g->roots.n; r++) {
            IrId v = g->roots.data[r];
            const Point *q = b->behind[r] == i ? points_of_root(l, v, p, n) : NULL;
            const IrType *t = &fused_op(l->f, v)->type;
            for (unsigned k = 0; k < n && q; k++) {
                KirId *value = &values[r * n + k];
                if (!storing) *value = point_eval(l, v, q[k].row, &q[k].env);
                else point_store(l, plan_value_buffer(l->lf, v), t, q[k].row, &q[k].env, *value);
            }
        }
}

/* A tile: its sums, and what follows from them, of all rows or of one after the other. */
static void tile(Lower *l, const RowBlock *b, bool whole, KirId row, const Point *columns, unsigned n_columns)
{
    Emit *e = &l->e;
    const Group *g = &l->f->groups.data[l->g];
    const KirId *kept = whole ? b->kept : NULL;
    int64_t n_rows = whole ? l->s.rows : 1;
    Point *p = points_of_tile(l, row, n_rows, columns, n_columns);
    unsigned n = (unsigned)n_rows * n_columns;
    l->rows_ahead = n_rows > 1 ? l->s.ahead * n_rows : 0;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        if (group_kind_of(l->f->f, l->f->m, v) != GROUP_PRODUCT) continue;
        const Point *q = points_of_root(l, v, p, n);
        heavy_product(l, v, q, n);
        store_roots(l, b, i, p, n);
        if (kept && kept[i] != KIR_NONE) keep_sums(l, kept[i], v, q, n);
    }
    if (kept) {
        KirId at = emit_for(e, emit_index(e, 0), emit_index(e, n_rows), 1, KIR_SEQ, "rows of the tile");
        p = points_of_tile(l, emit_op2(e, KIR_add, row, at), 1, columns, n = n_columns);
        recall_sums(l, kept, emit_op2(e, KIR_mul, at, emit_index(e, n_columns)), p, n_columns);
    }
    store_roots(l, b, g->roots.n, p, n);
    if (kept) emit_end(e);
    l->rows_ahead = 0;
}

/* A tensor is updated when all that read its old value have done so. */
static bool is_updated(const Lower *l, IrId v)
{
    for (uint32_t i = 0; i < l->f->f->results.n; i++)
        if (l->f->in_place.data[i] && l->f->f->results.data[i].value == v) return true;
    return false;
}

/* Where roots are stored: behind the last product that they need. Where sums wait, only products themselves that
   nothing else is computed from. */
static const uint32_t *find_behind(Lower *l)
{
    const Group *g = &l->f->groups.data[l->g];
    uint32_t n = g->roots.n, *behind = ARENA_ARRAY(l->arena, uint32_t, n);
    for (uint32_t r = 0; r < n; r++) {
        IrId v = g->roots.data[r];
        behind[r] = l->f->stored.data[v] ? n : NO_ROOT;
        if (behind[r] == NO_ROOT || is_updated(l, v)) continue;
        for (uint32_t i = 0; i < n; i++) {
            bool product = group_kind_of(l->f->f, l->f->m, g->roots.data[i]) == GROUP_PRODUCT;
            if (product && group_depends(l->f, l->g, v, g->roots.data[i])) behind[r] = i;
        }
        for (uint32_t i = 0; i < n && l->s.kept; i++)
            if (behind[r] != r || (i != r && group_depends(l->f, l->g, g->roots.data[i], v))) behind[r] = n;
    }
    return behind;
}

/* Arrays for the sums of a tile that wait. NULL: none does. */
static const KirId *arrays_of_tile(Lower *l, const uint32_t *behind)
{
    const Group *g = &l->f->groups.data[l->g];
    int64_t points = l->s.rows * l->s.vectors;
    KirId *kept = ARENA_ARRAY(l->arena, KirId, g->roots.n);
    bool any = false;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        bool waits = l->s.kept && behind[i] != i && group_kind_of(l->f->f, l->f->m, v) == GROUP_PRODUCT;
        KirType t = kir_type(kir_base_of(fused_op(l->f, v)->type.dtype), 1);
        kept[i] = waits ? emit_ins(&l->e, (KirIns){.op = KIR_alloc, .type = t, .i = points * l->s.lanes}) : KIR_NONE;
        any |= waits;
    }
    return any ? kept : NULL;
}

/* Tiles of the block's rows, then the rows that are left one by one. */
static void panel(Lower *l, const Point *columns, unsigned n_columns, void *user)
{
    Emit *e = &l->e;
    const RowBlock *b = user;
    KirId row = emit_for(e, b->first, b->middle, l->s.rows, KIR_SEQ, "tiles of rows");
    tile(l, b, true, row, columns, n_columns);
    emit_end(e);
    row = emit_for(e, b->middle, b->last, 1, KIR_SEQ, "rows that are left");
    tile(l, b, false, row, columns, n_columns);
    emit_end(e);
}

void lower_product_rows(Lower *l, IrId space)
{
    Emit *e = &l->e;
    const Group *g = &l->f->groups.data[l->g];
    RowBlock b = {.behind = find_behind(l)};
    b.kept = arrays_of_tile(l, b.behind);
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
