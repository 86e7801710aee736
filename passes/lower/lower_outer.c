/* Products over all rows of a space, parameters' gradients: C[m][n] = sum of a[row][m] * b[row][n] over the rows of a
   leaf, left to right.

     for a strip of the leaf's rows            few enough that what a panel reads of b stays in the first cache
       for panels of n                         b's panel of the strip is copied together where it is not so already
         for tiles of m: acc = part; for rows of the strip: acc[m][n] += a[row][m] * b[row][n]; part = acc
                                               both operands' rows of the next strip are fetched meanwhile
   `part` is the leaf's sum in memory: put away there and taken up again it keeps its bits. Never cuts a sum in another
   place than the leaves of all such sums (lower_blocks.c). */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

typedef struct Strip {
    const Partial *part;
    const IrOp *op;
    const StageSpan *span;
    KirId first, last;    /* rows */
    KirId copy;           /* private array [rows][n_columns][lanes] of b's panel, or KIR_NONE */
    const Point *columns; /* of the panel, [n_columns] */
    unsigned n_columns;
} Strip;

/* ---- b's panel ------------------------------------------------------------------------------------------------- */

/* Where column c of `row` lies in the copy. */
static KirIns copy_access(Lower *l, const Strip *s, KirOpcode op, KirId row, unsigned c)
{
    Emit *e = &l->e;
    const Env *env = &s->columns[c].env;
    unsigned lanes = env_lanes(env, &fused_op(l->f, s->op->args[1])->type);
    ICE_UNLESS(s->copy != KIR_NONE && c < s->n_columns);
    KirId index = emit_op2(e, KIR_mul, emit_op2(e, KIR_sub, row, s->first),
                           emit_index(e, (int64_t)(s->n_columns * lanes)));
    index = emit_op2(e, KIR_add, index, emit_index(e, (int64_t)(c * lanes)));
    return (KirIns){.op = op,
                    .type = kir_type(kir_base_of(s->op->type.dtype), lanes),
                    .args = {index, KIR_NONE, KIR_NONE},
                    .buf = KIR_NONE,
                    .alloc = s->copy,
                    .stride = 1};
}

static void copy_panel(Lower *l, Strip *s)
{
    Emit *e = &l->e;
    IrId b = s->op->args[1];
    KirType type = kir_type(kir_base_of(s->op->type.dtype), 1);
    int64_t lanes = env_lanes(&s->columns[0].env, &fused_op(l->f, b)->type);
    s->copy = emit_ins(e, (KirIns){.op = KIR_alloc, .type = type, .i = l->s.strip * s->n_columns * lanes});
    KirId row = emit_for(e, s->first, s->last, 1, KIR_SEQ, "a copy of the panel");
    stage_enter(l, s->span, row, row);
    for (unsigned c = 0; c < s->n_columns; c++) {
        KirIns store = copy_access(l, s, KIR_store, row, c);
        store.args[1] = emit_splat(e, point_full(l, b, row, &s->columns[c].env), (unsigned)lanes);
        emit_ins(e, store);
    }
    stage_leave(l, s->span, 1);
    emit_end(e);
}

/* b at `row`, from the copy. */
static void recall_row(Lower *l, const Strip *s, KirId row)
{
    for (unsigned c = 0; c < s->n_columns && s->copy != KIR_NONE; c++)
        memo_put(l, s->op->args[1], row, &s->columns[c].env, emit_ins(&l->e, copy_access(l, s, KIR_load, row, c)));
}

/* Asks for what lies as far into the next strip of v as this row of this tile lies into the work on the present one:
   tiles go down columns, which no hardware foresees, and memory rests after the first of them. Of rows in one piece: in
   order. */
static void fetch_ahead(Lower *l, const Strip *s, IrId v, KirId row, const Env *env)
{
    Emit *e = &l->e;
    IrId stored = fused_storage(l->f, v);
    uint32_t group = l->f->group_of.data[stored];
    if (!l->s.far || group == l->g || (group == GROUP_NONE && fused_op(l->f, stored)->op != IR_OP_arg)) return;
    const IrType *a = &fused_op(l->f, s->op->args[0])->type;
    int64_t columns = ir_type_width(l->f->m, a), tiles = (columns + l->s.rows - 1) / l->s.rows;
    int64_t width = ir_type_width(l->f->m, &fused_op(l->f, v)->type), strip = l->s.strip;
    Lin place = point_offset(l, a, env), at = {0};
    KirId done = emit_op2(e, KIR_mul, lin_emit(e, &place), emit_index(e, strip * width));
    lin_add(&at, s->first, width);
    lin_add(&at, emit_op2(e, KIR_div, done, emit_index(e, columns)), 1);
    lin_add(&at, emit_op2(e, KIR_sub, row, s->first), (width + tiles - 1) / tiles);
    at.konst = strip * width;
    emit_prefetch_far(e, lower_in(l, plan_value_buffer(l->lf, stored)), lin_emit(e, &at));
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

static void sum_rows(Lower *l, const Strip *s, const Point *p, unsigned n, const KirId *acc)
{
    Emit *e = &l->e;
    KirId row = emit_for(e, s->first, s->last, 1, KIR_SEQ, "rows");
    stage_enter(l, s->span, row, row);
    recall_row(l, s, row);
    for (unsigned k = 0; k < 2; k++) fetch_ahead(l, s, s->op->args[k], row, &p[0].env);
    for (unsigned i = 0; i < n; i++) {
        KirId a = point_full(l, s->op->args[0], row, &p[i].env), b = point_full(l, s->op->args[1], row, &p[i].env);
        emit_set(e, acc[i], emit_fma(e, a, b, acc[i]));
    }
    stage_leave(l, s->span, 1);
    emit_end(e);
}

static void outer_tile(Lower *l, const Point *p, unsigned n, void *user)
{
    const Strip *s = user;
    const Partial *part = s->part;
    KirId *acc = ARENA_ARRAY(l->arena, KirId, n);
    for (unsigned i = 0; i < n; i++)
        acc[i] = emit_var(&l->e, "acc", point_load(l, part->buffer, &part->type, part->slot, &p[i].env));
    sum_rows(l, s, p, n, acc);
    for (unsigned i = 0; i < n; i++) {
        emit_freeze(&l->e, acc[i]);
        point_store(l, part->buffer, &part->type, part->slot, &p[i].env, acc[i]);
    }
}

static void panel(Lower *l, const Point *columns, unsigned n, void *user)
{
    Strip s = *(const Strip *)user;
    s.columns = columns;
    s.n_columns = n;
    if (l->s.copied && !stage_has(l, fused_storage(l->f, s.op->args[1]))) copy_panel(l, &s);
    nest_scalars(l, &fused_op(l->f, s.op->args[0])->type, l->s.rows, columns, n, outer_tile, &s);
}

void lower_outer(Lower *l, IrId v, const Partial *part, const StageSpan *strip)
{
    const IrOp *op = fused_op(l->f, v);
    ICE_UNLESS(op->op == IR_OP_contract && op->type.space == IR_UNIT && l->s.strip > 0);
    Strip s = {.part = part, .op = op, .span = strip, .first = strip->from, .last = strip->to, .copy = KIR_NONE};
    nest_dims(l, &fused_op(l->f, op->args[1])->type, &(Point){KIR_NONE, env_empty()}, 1, panel, &s);
}
