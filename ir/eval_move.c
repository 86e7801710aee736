/* Ops of the interpreter that compute nothing: leaves, and elements that move with their bounds. */
#include "ir/eval_ops.h"
#include "base/ice.h"
#include "ir/eval_random.h"

/* ---- leaves ---------------------------------------------------------------------------------- */

static int64_t n_elements(const EvalValue *x) { return x->rows * x->width; }

void eval_rule_const(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    (void)r;
    double v = op->type.dtype == IR_F32 ? (double)(float)op->attr.f : op->attr.f;
    for (int64_t i = 0; i < n_elements(out); i++) num_put(out, i, num_exact(v));
}

void eval_rule_iota(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    (void)r, (void)op;
    for (int64_t i = 0; i < n_elements(out); i++) num_put(out, i, num_exact((double)i));
}

void eval_rule_element(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    for (int64_t i = 0; i < out->rows; i++) num_put(out, i, num_exact((double)eval_element_id(r, op->type.space, i)));
}

void eval_rule_row(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    (void)r, (void)op;
    for (int64_t i = 0; i < out->rows; i++) num_put(out, i, num_exact((double)i));
}

void eval_rule_mapped(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const int64_t *map = r->w->maps[op->attr.map];
    const uint8_t *open = r->w->open[op->attr.map];
    for (int64_t i = 0; i < out->rows; i++) {
        Num n = num_exact(map[i] >= 0);
        n.undecided = open && open[i];
        num_put(out, i, n);
    }
}

static Num draw(const IrOp *op, RandomKey key, uint64_t feature)
{
    bool uniform = op->op == IR_OP_random_uniform || op->op == IR_OP_random_uniform_at;
    return uniform ? random_uniform(key, feature) : random_normal(key, feature, op->type.dtype);
}

void eval_rule_random(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    Num seed = num_get(eval_operand(r, op, 0), 0), step = num_get(eval_operand(r, op, 1), 0);
    RandomKey key = {(uint64_t)num_to_int(seed.v), (uint64_t)num_to_int(step.v), op->attr.site, 0};
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t k = 0; k < out->width; k++) {
            key.element = (uint64_t)eval_element_id(r, op->type.space, row);
            Num n = draw(op, key, (uint64_t)k);
            n.undecided |= seed.undecided | step.undecided;
            num_put(out, row * out->width + k, n);
        }
}

void eval_rule_random_at(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    Num seed = num_get(eval_operand(r, op, 0), 0), step = num_get(eval_operand(r, op, 1), 0);
    const EvalValue *element = eval_operand(r, op, 2), *feature = eval_operand(r, op, 3);
    RandomKey key = {(uint64_t)num_to_int(seed.v), (uint64_t)num_to_int(step.v), op->attr.site, 0};
    int64_t n;
    const int64_t *at_e = eval_index(r, op->type.dims, op->type.n_dims, &element->type, &n);
    const int64_t *at_f = eval_index(r, op->type.dims, op->type.n_dims, &feature->type, &n);
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t k = 0; k < n; k++) {
            Num e = num_get(element, eval_row(element, row) + at_e[k]);
            Num f = num_get(feature, eval_row(feature, row) + at_f[k]);
            key.element = (uint64_t)num_to_int(e.v);
            Num x = draw(op, key, (uint64_t)num_to_int(f.v));
            x.undecided |= seed.undecided | step.undecided | e.undecided | f.undecided;
            num_put(out, row * out->width + k, x);
        }
}

/* ---- moves ----------------------------------------------------------------------------------- */

void eval_rule_reshape(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    ICE_UNLESS(n_elements(x) == n_elements(out));
    for (int64_t i = 0; i < n_elements(out); i++) num_put(out, i, num_get(x, i));
}

/* What lies behind `dim` in a row of t: elements per step of the dim. */
static int64_t stride_of(const EvalRun *r, const IrType *t, IrId dim)
{
    int64_t stride = 1;
    for (uint32_t k = t->n_dims; k-- > 0 && t->dims[k] != dim;) stride *= r->m->dims.data[t->dims[k]].size;
    return stride;
}

/* Copies block by block: `n` elements of each block of `n_from` elements of x, beginning with
   `from`, to each block of `n_to` elements of out, beginning with `to`. */
static void copy_blocks(const EvalValue *x, int64_t n_from, int64_t from, EvalValue *out, int64_t n_to, int64_t to,
                        int64_t n)
{
    int64_t n_blocks = n_elements(out) / n_to;
    ICE_UNLESS(n_elements(out) % n_to == 0 && from + n <= n_from && to + n <= n_to);
    for (int64_t b = 0; b < n_blocks; b++)
        for (int64_t i = 0; i < n; i++) num_put(out, b * n_to + to + i, num_get(x, b * n_from + from + i));
}

static int64_t size_of(const EvalRun *r, IrId dim) { return r->m->dims.data[dim].size; }

void eval_rule_slice(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    int64_t stride = stride_of(r, &x->type, op->attr.dim), n_from = stride * size_of(r, op->attr.dim);
    uint32_t k = 0;
    while (x->type.dims[k] != op->attr.dim) k++;
    int64_t n_to = stride * size_of(r, out->type.dims[k]);
    copy_blocks(x, n_from, op->attr.i * stride, out, n_to, 0, n_to);
}

void eval_rule_at(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0), *index = eval_operand(r, op, 1);
    int64_t stride = stride_of(r, &x->type, op->attr.dim), size = size_of(r, op->attr.dim);
    for (int64_t to = 0; to < n_elements(out); to++) {
        Num i = num_get(index, to / out->width), found = num_exact(0);
        int64_t block = (x->type.space == IR_UNIT ? to % out->width : to) / stride;
        if (i.v >= 0 && i.v < (double)size) found = num_get(x, (block * size + (int64_t)i.v) * stride + to % stride);
        found.undecided |= i.undecided;
        num_put(out, to, found);
    }
}

void eval_rule_concat(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    int64_t stride = stride_of(r, &out->type, op->attr.dim), n_to = stride * size_of(r, op->attr.dim), to = 0;
    uint32_t k = 0;
    while (out->type.dims[k] != op->attr.dim) k++;
    for (uint32_t i = 0; i < op->n_args; i++) {
        const EvalValue *x = eval_operand(r, op, i);
        int64_t n = stride * size_of(r, x->type.dims[k]);
        copy_blocks(x, n, 0, out, n_to, to, n);
        to += n;
    }
    ICE_UNLESS(to == n_to); /* the parts are the whole */
}

void eval_rule_gather(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    const int64_t *map = r->w->maps[op->attr.map];
    const uint8_t *open = r->w->open[op->attr.map];
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t k = 0; k < out->width; k++) {
            Num n = map[row] < 0 ? num_exact(0) : num_get(x, eval_row(x, map[row]) + k);
            n.undecided |= open && open[row];
            num_put(out, row * out->width + k, n);
        }
}
