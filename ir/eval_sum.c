/* Reductions of the interpreter, in the one association of docs/design.md ("One association per
   sum"), so that bounds follow the partial sums that compiled code makes. Folds begin with the
   first element: what an identity would add is exact. */
#include "ir/eval_ops.h"
#include "ir/eval_sum.h"
#include "base/ice.h"
#include <math.h>
#include <string.h>

/* ---- folds ----------------------------------------------------------------------------------- */

void fold_take(Fold *f, Num x)
{
    if (!f->any && f->step == num_add) x.v += 0; /* the identity makes -0 to 0 */
    f->acc = f->any ? f->step(f->dtype, f->acc, x) : x;
    f->any = true;
}

void fold_merge(Fold *f, const Fold *other)
{
    if (other->any) fold_take(f, other->acc);
}

static NumStep step_of(IrOpcode op)
{
    switch (op) {
    case IR_OP_reduce_sum:
    case IR_OP_sum_dims: return num_add;
    case IR_OP_reduce_max:
    case IR_OP_max_dims: return num_max;
    case IR_OP_reduce_min:
    case IR_OP_min_dims: return num_min;
    case IR_OP_reduce_mul: return num_mul;
    default: ICE("no reduction");
    }
}

static Num fold_result(const Fold *f, const IrOp *op)
{
    if (f->any) return f->acc;
    if (op->op == IR_OP_reduce_max || op->op == IR_OP_reduce_min)
        return num_exact(op->type.dtype == IR_F32 ? (double)(float)op->attr.f : op->attr.f);
    return num_exact(op->op == IR_OP_reduce_mul);
}

/* ---- all rows of a space --------------------------------------------------------------------- */

int64_t n_leaves(int64_t n) { return n < 1 ? 1 : n / ORDER_LEAF + (n % ORDER_LEAF != 0); }

Num fold_tree(Fold *leaves, int64_t n, Num empty)
{
    ICE_UNLESS(n >= 1);
    for (int64_t apart = 1; apart < n; apart *= 2)
        for (int64_t i = 0; i + apart < n; i += 2 * apart) fold_merge(&leaves[i], &leaves[i + apart]);
    return leaves[0].any ? leaves[0].acc : empty;
}

/* x: [rows][width] -> out: [width] */
static void reduce_all(const EvalRun *r, const IrOp *op, const EvalValue *x, EvalValue *out)
{
    int64_t n = n_leaves(x->rows);
    ICE_UNLESS(out->rows == 1 && out->width == x->width);
    Fold *leaves = ARENA_ARRAY(r->arena, Fold, n);
    Fold start = {.step = step_of(op->op), .dtype = op->type.dtype};
    for (int64_t k = 0; k < x->width; k++) {
        for (int64_t i = 0; i < n; i++) {
            leaves[i] = start;
            for (int64_t row = i * ORDER_LEAF; row < (i + 1) * ORDER_LEAF && row < x->rows; row++)
                fold_take(&leaves[i], num_get(x, row * x->width + k));
        }
        num_put(out, k, fold_tree(leaves, n, fold_result(&start, op)));
    }
}

/* ---- rows of a map --------------------------------------------------------------------------- */

MapRows eval_map_rows(const EvalRun *r, const IrMap *map, const int64_t *image)
{
    int64_t n_from = r->w->counts[map->from], n_to = r->w->counts[map->to];
    const int64_t *ids = r->w->element_ids[map->from];
    int64_t *stored = ARENA_ARRAY(r->arena, int64_t, n_from + 1); /* of the user's id */
    MapRows rows = {ARENA_ARRAY(r->arena, int64_t, n_to + 2), ARENA_ARRAY(r->arena, int64_t, n_from + 1)};
    for (int64_t i = 0; i < n_from; i++) {
        stored[ids ? ids[i] : i] = i;
        if (image[i] >= 0) rows.begin[image[i] + 2]++;
    }
    for (int64_t t = 0; t < n_to; t++) rows.begin[t + 2] += rows.begin[t + 1];
    ICE_UNLESS(rows.begin[n_to + 1] <= n_from); /* an element has one image or none */
    for (int64_t id = 0; id < n_from; id++) {
        int64_t i = stored[id];
        if (image[i] >= 0) rows.list[rows.begin[image[i] + 1]++] = i;
    }
    return rows;
}

/* One row of the map for one feature: blocks, merged left to right. */
static Fold reduce_row(Fold start, const EvalValue *x, const int64_t *list, int64_t n, int64_t k)
{
    Fold row = start;
    ICE_UNLESS(!start.any);
    for (int64_t begin = 0; begin < n; begin += ORDER_ROW_BLOCK) {
        Fold block = start;
        for (int64_t i = begin; i < n && i < begin + ORDER_ROW_BLOCK; i++)
            fold_take(&block, num_get(x, list[i] * x->width + k));
        fold_merge(&row, &block);
    }
    return row;
}

void eval_rule_reduce(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    const IrMap *map = &r->m->maps.data[op->attr.map];
    if (map->to == IR_UNIT) {
        reduce_all(r, op, x, out);
        return;
    }
    MapRows rows = eval_map_rows(r, map, r->w->maps[op->attr.map]);
    const uint8_t *open = r->w->open[op->attr.map];
    bool unsure = open && memchr(open, 1, (size_t)x->rows); /* some element may belong to any row */
    Fold start = {.step = step_of(op->op), .dtype = op->type.dtype};
    for (int64_t t = 0; t < out->rows; t++)
        for (int64_t k = 0; k < out->width; k++) {
            int64_t begin = rows.begin[t], n = rows.begin[t + 1] - begin;
            Fold row = reduce_row(start, x, rows.list + begin, n, k);
            Num total = fold_result(&row, op);
            total.undecided |= unsure;
            num_put(out, t * out->width + k, total);
        }
}

/* ---- feature dims ---------------------------------------------------------------------------- */

Num fold_lanes(Fold lanes[ORDER_PARTIALS], Num empty)
{
    for (int half = ORDER_PARTIALS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) fold_merge(&lanes[i], &lanes[i + half]);
    return lanes[0].any ? lanes[0].acc : empty;
}

/* Dims of t that `without` lacks, in t's order. */
uint32_t dims_without(const IrType *t, const IrType *without, IrId dims[IR_MAX_DIMS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!ir_type_has_dim(without, t->dims[i])) dims[n++] = t->dims[i];
    ICE_UNLESS(n <= IR_MAX_DIMS);
    return n;
}

void eval_rule_dims(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    IrId reduced[IR_MAX_DIMS];
    int64_t n_kept, n_reduced;
    uint32_t n = dims_without(&x->type, &op->type, reduced);
    const int64_t *kept_at = eval_index(r, op->type.dims, op->type.n_dims, &x->type, &n_kept);
    const int64_t *reduced_at = eval_index(r, reduced, n, &x->type, &n_reduced);
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t k = 0; k < n_kept; k++) {
            Fold lanes[ORDER_PARTIALS];
            for (int i = 0; i < ORDER_PARTIALS; i++)
                lanes[i] = (Fold){.step = step_of(op->op), .dtype = op->type.dtype};
            for (int64_t j = 0; j < n_reduced; j++)
                fold_take(&lanes[j % ORDER_PARTIALS], num_get(x, eval_row(x, row) + kept_at[k] + reduced_at[j]));
            num_put(out, row * out->width + k, fold_lanes(lanes, num_exact(0)));
        }
}
