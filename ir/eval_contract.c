/* `contract` in the interpreter: sums of products over the dims (and rows) that the result lacks.
   One of three associations, chosen by types alone (docs/design.md, "One association per sum"):
     outer   result in the unit space, operands not: leaves of rows, merged as a tree
     matmul  the second operand has a result dim of its own: left to right
     dot     else, and where both operands have rows and end in one summed dim: 16 partials, halved
   Each product joins its partial with one fma. */
#include "ir/eval_sum.h"
#include "base/ice.h"

typedef struct Contract {
    const EvalValue *a, *b;
    IrDtype dtype;
    const int64_t *a_kept, *b_kept; /* [kept] feature index of each result element in a and b */
    const int64_t *a_sum, *b_sum;   /* [summed] feature index of each contracted element, added to the above */
    int64_t n_kept, n_sum;
} Contract;

static void take_product(const Contract *c, Fold *f, int64_t row, int64_t k, int64_t j)
{
    Num a = num_get(c->a, eval_row(c->a, row) + c->a_kept[k] + c->a_sum[j]);
    Num b = num_get(c->b, eval_row(c->b, row) + c->b_kept[k] + c->b_sum[j]);
    f->acc = num_fma(c->dtype, f->any ? f->acc : num_exact(0), a, b);
    f->any = true;
}

static Num matmul(const Contract *c, int64_t row, int64_t k)
{
    Fold f = {.step = num_add, .dtype = c->dtype, .acc = num_exact(0)};
    for (int64_t j = 0; j < c->n_sum; j++) take_product(c, &f, row, k, j);
    return f.acc;
}

static Num dot(const Contract *c, int64_t row, int64_t k)
{
    Fold lanes[ORDER_PARTIALS];
    for (int i = 0; i < ORDER_PARTIALS; i++) lanes[i] = (Fold){.step = num_add, .dtype = c->dtype};
    for (int64_t j = 0; j < c->n_sum; j++) take_product(c, &lanes[j % ORDER_PARTIALS], row, k, j);
    return fold_lanes(lanes, num_exact(0));
}

static Num outer(const EvalRun *r, const Contract *c, int64_t n_rows, int64_t k)
{
    int64_t n = n_leaves(n_rows);
    Fold *leaves = ARENA_ARRAY(r->arena, Fold, n);
    for (int64_t i = 0; i < n; i++) {
        leaves[i] = (Fold){.step = num_add, .dtype = c->dtype};
        for (int64_t row = i * ORDER_LEAF; row < (i + 1) * ORDER_LEAF && row < n_rows; row++)
            for (int64_t j = 0; j < c->n_sum; j++) take_product(c, &leaves[i], row, k, j);
    }
    return fold_tree(leaves, n, num_exact(0));
}

/* Contracted dims: in the order of the first operand, then those that only the second has. */
static uint32_t summed_dims(const EvalValue *a, const EvalValue *b, const IrType *result, IrId dims[2 * IR_MAX_DIMS])
{
    IrId only_b[IR_MAX_DIMS];
    uint32_t n = dims_without(&a->type, result, dims), n_b = dims_without(&b->type, result, only_b);
    for (uint32_t i = 0; i < n_b; i++)
        if (!ir_type_has_dim(&a->type, only_b[i])) dims[n++] = only_b[i];
    ICE_UNLESS(n <= 2 * IR_MAX_DIMS);
    return n;
}

static bool is_long(const IrModule *m, IrId dim) { return m->dims.data[dim].size != 1; }

static bool has_own_dim(const IrModule *m, const EvalValue *a, const EvalValue *b, const IrType *result)
{
    for (uint32_t i = 0; i < result->n_dims; i++)
        if (ir_type_has_dim(&b->type, result->dims[i]) && !ir_type_has_dim(&a->type, result->dims[i]) &&
            is_long(m, result->dims[i]))
            return true;
    return false;
}

/* The last dim that has more than one element. */
static IrId last_dim(const IrModule *m, const IrType *t)
{
    uint32_t n = t->n_dims;
    while (n && !is_long(m, t->dims[n - 1])) n--;
    return n ? t->dims[n - 1] : IR_NONE;
}

static bool both_along_sum(const IrModule *m, const EvalValue *a, const EvalValue *b, const IrType *result)
{
    IrId last = last_dim(m, &a->type);
    return a->type.space != IR_UNIT && b->type.space != IR_UNIT && last != IR_NONE && last == last_dim(m, &b->type) &&
           !ir_type_has_dim(result, last);
}

void eval_rule_contract(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    Contract c = {.a = eval_operand(r, op, 0), .b = eval_operand(r, op, 1), .dtype = op->type.dtype};
    IrId summed[2 * IR_MAX_DIMS];
    uint32_t n = summed_dims(c.a, c.b, &op->type, summed);
    c.a_kept = eval_index(r, op->type.dims, op->type.n_dims, &c.a->type, &c.n_kept);
    c.b_kept = eval_index(r, op->type.dims, op->type.n_dims, &c.b->type, &c.n_kept);
    c.a_sum = eval_index(r, summed, n, &c.a->type, &c.n_sum);
    c.b_sum = eval_index(r, summed, n, &c.b->type, &c.n_sum);
    const EvalValue *rows = c.a->type.space != IR_UNIT ? c.a : c.b;
    bool is_outer = op->type.space == IR_UNIT && rows->type.space != IR_UNIT;
    bool is_matmul = has_own_dim(r->m, c.a, c.b, &op->type) && !both_along_sum(r->m, c.a, c.b, &op->type);
    ICE_UNLESS(c.n_kept == out->width && c.n_sum >= 1);
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t k = 0; k < c.n_kept; k++) {
            Num n_out = is_outer ? outer(r, &c, rows->rows, k) : is_matmul ? matmul(&c, row, k) : dot(&c, row, k);
            num_put(out, row * out->width + k, n_out);
        }
}
