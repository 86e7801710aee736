/* The interpreter's spine: values, and one function run op by op. Contract: ir/eval.h.
   Never fuses, reorders or shortens anything: what the graph IR says is what happens. */
#include "ir/eval_ops.h"
#include "base/ice.h"

static const uint64_t MAX_BYTES = (uint64_t)1 << 31; /* of all values of one run */

/* Elements of a value, or false where its memory is beyond the budget. */
static bool value_size(const IrModule *m, const EvalWorld *w, const IrType *t, int64_t *rows, int64_t *width,
                       uint64_t *bytes)
{
    enum { ELEMENT_BYTES = sizeof(double) * 2 + sizeof(uint8_t) + sizeof(uint64_t) };
    *rows = w->counts[t->space];
    *width = ir_type_width(m, t);
    uint64_t n;
    if (*width < 0 || __builtin_mul_overflow((uint64_t)*rows, (uint64_t)*width, &n)) return false;
    return !__builtin_mul_overflow(n, (uint64_t)ELEMENT_BYTES, bytes) && *bytes <= MAX_BYTES;
}

EvalValue *eval_value_new(Arena *a, const IrModule *m, const EvalWorld *w, IrType type)
{
    int64_t rows, width;
    uint64_t bytes;
    if (!value_size(m, w, &type, &rows, &width, &bytes)) return NULL;
    EvalValue *x = ARENA_NEW(a, EvalValue);
    size_t n = (size_t)(rows * width);
    x->type = type;
    x->rows = rows;
    x->width = width;
    x->v = ARENA_ARRAY(a, double, n + 1);
    x->err = ARENA_ARRAY(a, double, n + 1);
    x->undecided = ARENA_ARRAY(a, uint8_t, n + 1);
    x->origin = ARENA_ARRAY(a, uint64_t, n + 1);
    return x;
}

int64_t *eval_index(const EvalRun *r, const IrId *dims, uint32_t n, const IrType *x, int64_t *n_out)
{
    int64_t total = 1;
    for (uint32_t i = 0; i < n; i++) total *= r->m->dims.data[dims[i]].size;
    int64_t *at = ARENA_ARRAY(r->arena, int64_t, total + 1);
    int64_t inner = 1; /* product of the sizes behind dim i */
    for (uint32_t i = n; i-- > 0;) {
        int64_t size = r->m->dims.data[dims[i]].size, stride = 1;
        bool there = false;
        ICE_UNLESS(size > 0 && total % (inner * size) == 0);
        for (uint32_t k = x->n_dims; k-- > 0 && !there;) {
            there = x->dims[k] == dims[i];
            if (!there) stride *= r->m->dims.data[x->dims[k]].size;
        }
        for (int64_t e = 0; there && e < total; e++) at[e] += e / inner % size * stride;
        inner *= size;
    }
    *n_out = total;
    return at;
}

void eval_rule_arg(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    ICE_UNLESS(op->attr.i >= 0 && op->attr.i < r->f->args.n);
    *out = *r->args[op->attr.i];
}

/* Elements that one element of a contract sums over are within reason. */
static bool contract_fits(const IrModule *m, const IrFunc *f, const IrOp *op)
{
    IrType both = ir_type_join(&f->ops.data[op->args[0]].type, &f->ops.data[op->args[1]].type);
    int64_t width = ir_type_width(m, &both);
    return width >= 0 && width <= (int64_t)(MAX_BYTES / sizeof(double));
}

/* Before anything is computed: whether the ops can run, and in the memory there is. */
static const char *check_run(const IrModule *m, const EvalWorld *w, const IrFunc *f, EvalValue *const *args)
{
    uint64_t total = 0, bytes;
    int64_t rows, width;
    for (uint32_t i = 0; i < f->args.n; i++)
        if (!args[i] || !ir_type_eq(&args[i]->type, &f->args.data[i].type) ||
            args[i]->rows != w->counts[args[i]->type.space])
            return "an argument has another type than the function declares";
    for (uint32_t i = 0; i < f->ops.n; i++) {
        const IrOp *op = &f->ops.data[i];
        if (ir_op_is_of_autodiff(op->op)) return "`grad` and adjoints have no value before autodiff removed them";
        for (uint32_t k = 0; k < op->type.n_dims; k++)
            if (m->dims.data[op->type.dims[k]].size < 0) return "a dim has no size";
        if (!value_size(m, w, &op->type, &rows, &width, &bytes) || (total += bytes) > MAX_BYTES)
            return "the function's values need more than the interpreter's 2 GiB";
        if (op->op == IR_OP_contract && !contract_fits(m, f, op))
            return "a contraction sums over more than the interpreter's 2 GiB";
    }
    return NULL;
}

static void eval_rule_none(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    (void)r, (void)op, (void)out;
    ICE("an op without a value"); /* check_run refused it */
}

EvalValue **eval_func(Arena *a, const IrModule *m, const EvalWorld *w, const IrFunc *f, EvalValue *const *args,
                      const char **why)
{
    static void (*const rules[IR_N_OPS])(const EvalRun *, const IrOp *, EvalValue *) = {
#define OP(name, args, attrs, traits, shape, adjoint, eval, flops) [IR_OP_##name] = eval_rule_##eval,
#include "ir/ops.def"
#undef OP
    };
    *why = check_run(m, w, f, args);
    if (*why) return NULL;
    EvalRun run = {a, m, w, f, args, .values = ARENA_ARRAY(a, EvalValue *, f->ops.n + 1)};
    for (uint32_t i = 0; i < f->ops.n; i++) {
        const IrOp *op = &f->ops.data[i];
        run.values[i] = op->op == IR_OP_arg ? ARENA_NEW(a, EvalValue) : eval_value_new(a, m, w, op->type);
        for (uint32_t k = 0; k < op->n_args; k++) ICE_UNLESS(op->args[k] < i);
        rules[op->op](&run, op, run.values[i]);
    }
    EvalValue **results = ARENA_ARRAY(a, EvalValue *, f->results.n + 1);
    for (uint32_t i = 0; i < f->results.n; i++) results[i] = run.values[f->results.data[i].value];
    return results;
}
