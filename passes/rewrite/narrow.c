/* narrow: what lies in memory in 16 bits, with `--store f16` or `bf16`. Which values these are is decided here, on
   graph IR, and written as
   casts: so one program has one set of bits, whatever a schedule stores. A value that somebody else will read from
   memory is rounded, and all who read it read the rounded one; they compute in f32, sums too.

     %4 = contract %2, %3 : node[F] f32         %4 = contract %2, %3 : node[F] f32
     %5 = gather %4 via edge.src : edge[F]      %h = cast %4 : node[F] f16           stored
                                           ->   %w = cast %h : node[F] f32           where it is loaded
                                                %5 = gather %w via edge.src : edge[F]

   Such values are inputs, tables that are gathered in no order, and operands of products, with a row of at least 16
   numbers for each row of a space. Narrower ones (scores, norms, what softmax divides by) stay f32, and so do
   parameters, states of optimizers, values on edges, which lie in memory only where a schedule wants it, and what
   nobody gathers: results, losses. `narrow` stands before autodiff, so that these are values of the forward program; a
   cotangent goes around the casts. `narrow_rest`, behind autodiff, does the same with gradients where they are bf16: an
   f16 has nothing below 6e-8, and gradients of a mean over many rows are smaller. And inputs that are only read rounded
   become tensors of 16 bits (PassContext.store_inputs). With `--store f16,weights` products of rows also read
   parameters rounded (PassContext.store_weights): a parameter that is an operand of one, with at least 16 numbers, is
   cast once for all of them, by narrow_rest for products of the backward pass. Whoever else reads it, first of all the
   optimizer, reads the f32. Never changes the order of a sum. */
#include "passes/context/rows.h"
#include "passes/rewrite/rewrite.h"
#include "base/ice.h"

enum { LEAST_WIDTH = 16 /* numbers of a row: 64 bytes that become 32 */ };
#define MANY (IR_NONE - 1)

typedef struct Narrow {
    PassContext *ctx;
    const IrModule *m;
    const IrFunc *f;
    bool *wanted; /* [ops.n] */
    bool *done;   /* [ops.n] is rounded already */
    IrId *weight; /* [ops.n] by operand of products that is a parameter: what it is rounded to; IR_NONE: not yet */
} Narrow;

static const IrOp *op_of(const Narrow *n, IrId v) { return &n->f->ops.data[v]; }

static int64_t least_width(const Narrow *n) { return n->ctx->store_least ? n->ctx->store_least : LEAST_WIDTH; }

/* What a value is a view of. */
static IrId source(const Narrow *n, IrId v)
{
    const IrOp *op = op_of(n, v);
    while (op->op == IR_OP_reshape || op->op == IR_OP_transpose || op->op == IR_OP_detach)
        op = op_of(n, v = op->args[0]);
    return v;
}

static bool is_master(const Narrow *n, const IrOp *op)
{
    if (op->op != IR_OP_arg || n->f->args.data[op->attr.i].kind != IR_ARG_TENSOR) return false;
    IrTensorKind kind = n->m->tensors.data[n->f->args.data[op->attr.i].ref].kind;
    return kind == IR_PARAM || kind == IR_STATE;
}

static void want(Narrow *n, IrId v)
{
    v = source(n, v);
    const IrOp *op = op_of(n, v);
    bool fits = op->type.dtype == IR_F32 && op->type.space != IR_UNIT &&
                ir_type_width(n->m, &op->type) >= least_width(n);
    if (!fits || op->op == IR_OP_gather || op->op == IR_OP_const || ir_op_is_of_autodiff(op->op) || is_master(n, op))
        return;
    if (n->done[v] || ir_op_widens(n->f, op) || ir_ops[op->op].traits & T_RANDOM) return;
    n->wanted[v] = true;
}

/* [ops.n] by value of an edge space: the map whose rows take it in, through what is computed at the edges; MANY, or
   IR_NONE. */
static IrId *find_reducers(const Narrow *n)
{
    IrId *by = ARENA_ARRAY(n->ctx->stage, IrId, n->f->ops.n + 1);
    for (IrId v = 0; v < n->f->ops.n; v++) by[v] = IR_NONE;
    for (IrId v = n->f->ops.n; v-- > 0;) {
        const IrOp *op = op_of(n, v);
        IrId map = ir_ops[op->op].traits & T_REDUCE ? op->attr.map : by[v];
        for (uint32_t k = 0; k < op->n_args && op->op != IR_OP_gather; k++) {
            IrId *x = &by[op->args[k]];
            *x = *x == IR_NONE || *x == map ? map : map == IR_NONE ? *x : MANY;
        }
    }
    return by;
}

/* Rows of a table that come in no order: not those of the row whose elements are summed. */
static bool is_scattered(const Narrow *n, const IrOp *gather, IrId reducer)
{
    if (reducer == IR_NONE) return !n->m->maps.data[gather->attr.map].sorted;
    return reducer != gather->attr.map;
}

/* A product of rows reads an operand many times; on edges it may read it from private arrays. */
static bool reads_often(const Narrow *n, const IrOp *op, const IrType *t)
{
    if (op->op != IR_OP_contract || t->space == IR_UNIT || has_many_rows(n->m, t->space)) return false;
    bool own = op->type.space == IR_UNIT;
    for (uint8_t i = 0; i < op->type.n_dims; i++) own |= !ir_type_has_dim(t, op->type.dims[i]);
    return own;
}

/* A parameter with a dim of its own in what a product computes for each row. */
static bool is_weight(const Narrow *n, const IrOp *op, IrId v)
{
    const IrOp *param = op_of(n, source(n, v));
    const IrType *t = &op_of(n, v)->type;
    bool own = false;
    if (!n->ctx->store_weights || op->op != IR_OP_contract || op->type.space == IR_UNIT || !is_master(n, param))
        return false;
    for (uint8_t i = 0; i < t->n_dims; i++) own |= ir_type_has_dim(&op->type, t->dims[i]);
    return own && t->dtype == IR_F32 && ir_type_width(n->m, t) >= least_width(n);
}

static void find(Narrow *n)
{
    const IrId *by = find_reducers(n);
    for (IrId v = 0; v < n->f->ops.n; v++)
        if (ir_op_narrows(n->f, op_of(n, v))) n->done[op_of(n, v)->args[0]] = true;
    for (IrId v = 0; v < n->f->ops.n; v++) {
        const IrOp *op = op_of(n, v);
        const IrArg *arg = op->op == IR_OP_arg ? &n->f->args.data[op->attr.i] : NULL;
        if (arg && arg->kind == IR_ARG_TENSOR && n->m->tensors.data[arg->ref].kind == IR_INPUT) want(n, v);
        if (op->op == IR_OP_gather && is_scattered(n, op, by[v])) want(n, op->args[0]);
        for (uint32_t k = 0; k < op->n_args; k++)
            if (reads_often(n, op, &op_of(n, op->args[k])->type)) want(n, op->args[k]);
    }
}

/* The value behind the casts of x, which is the old v. */
static IrId rounded(Narrow *n, Rewrite *r, IrId v, IrId x)
{
    IrType t = irb_type(&r->b, x), half = t;
    ICE_UNLESS(t.dtype == IR_F32 && ir_dtype_is_16_bits(n->ctx->store));
    half.dtype = n->ctx->store;
    r->b.span = op_of(n, v)->span;
    PassRemark *remark = pass_remark_at(n->ctx, PASS_narrow, true, n->f, v, "`%s` is kept as %s",
                                        ir_ops[op_of(n, v)->op].name, ir_dtype_names[n->ctx->store]);
    remark->bytes_saved = expected_bytes(n->m, &t) - expected_bytes(n->m, &half);
    return irb_unary(&r->b, IR_OP_cast, t, irb_unary(&r->b, IR_OP_cast, half, x, (IrAttr){0}), (IrAttr){0});
}

/* values: beside weights also tables, inputs and operands. */
static IrFunc *narrow_some(PassContext *ctx, IrModule *m, const IrFunc *old, bool values)
{
    Narrow n = {.ctx = ctx, .m = m, .f = old};
    n.wanted = ARENA_ARRAY(ctx->stage, bool, old->ops.n + 1);
    n.done = ARENA_ARRAY(ctx->stage, bool, old->ops.n + 1);
    n.weight = ARENA_ARRAY(ctx->stage, IrId, old->ops.n + 1);
    for (IrId v = 0; v < old->ops.n; v++) n.weight[v] = IR_NONE;
    if (values) find(&n);
    Rewrite r = rewrite_begin(m, old);
    IrId *plain = ARENA_ARRAY(ctx->stage, IrId, old->ops.n + 1);
    for (IrId v = 0; v < old->ops.n; v++) {
        IrOp op = rewrite_op(&r, v);
        if (op.op == IR_OP_grad)
            op.args[1] = plain[old->ops.data[v].args[1]]; /* the variable is not what it is rounded to */
        for (uint32_t k = 0; k < op.n_args; k++) {
            IrId w = old->ops.data[v].args[k];
            if (!is_weight(&n, &old->ops.data[v], w)) continue;
            if (n.weight[w] == IR_NONE) n.weight[w] = rounded(&n, &r, w, op.args[k]);
            op.args[k] = n.weight[w];
        }
        r.b.span = old->ops.data[v].span;
        r.map[v] = plain[v] = irb_add(&r.b, &op);
        if (n.wanted[v]) r.map[v] = rounded(&n, &r, v, plain[v]);
    }
    IrFunc *f = rewrite_end(&r);
    for (uint32_t i = 0; i < f->results.n; i++) /* what outlives the call is not rounded */
        if (f->results.data[i].tensor != IR_NONE) f->results.data[i].value = plain[old->results.data[i].value];
    return f;
}

static IrFunc *narrow(PassContext *ctx, IrModule *m, const IrFunc *f) { return narrow_some(ctx, m, f, true); }
static IrFunc *narrow_weights(PassContext *ctx, IrModule *m, const IrFunc *f) { return narrow_some(ctx, m, f, false); }

IrModule *pass_narrow(PassContext *ctx, const IrModule *m)
{
    return ctx->store == IR_F32 ? ir_module_clone(ctx->stage, m) : rewrite_module(ctx, m, narrow);
}

/* ---- inputs ---- */

static const IrArg *arg_of(const IrFunc *f, const IrOp *op)
{
    const IrArg *arg = op->op == IR_OP_arg ? &f->args.data[op->attr.i] : NULL;
    return arg && arg->kind == IR_ARG_TENSOR ? arg : NULL;
}

/* [tensors.n] inputs that no function reads but to round them. */
static bool *find_inputs(const PassContext *ctx, const IrModule *m)
{
    bool *narrow = ARENA_ARRAY(ctx->stage, bool, m->tensors.n + 1),
         *plain = ARENA_ARRAY(ctx->stage, bool, m->tensors.n + 1);
    for (uint32_t i = 0; i < m->funcs.n; i++) {
        const IrFunc *f = m->funcs.data[i];
        for (IrId v = 0; v < f->ops.n; v++)
            for (uint32_t k = 0; k < f->ops.data[v].n_args; k++) {
                const IrArg *arg = arg_of(f, &f->ops.data[f->ops.data[v].args[k]]);
                if (arg) (ir_op_narrows(f, &f->ops.data[v]) ? narrow : plain)[arg->ref] = true;
            }
        for (uint32_t k = 0; k < f->results.n; k++) {
            const IrArg *arg = arg_of(f, &f->ops.data[f->results.data[k].value]);
            if (arg) plain[arg->ref] = true;
        }
    }
    for (IrId t = 0; t < m->tensors.n; t++)
        narrow[t] &= !plain[t] && m->tensors.data[t].kind == IR_INPUT && m->tensors.data[t].type.space != IR_UNIT;
    return narrow;
}

static IrFunc *with_inputs(IrModule *m, const IrFunc *old, const bool *narrow, IrDtype store)
{
    Rewrite r = rewrite_begin(m, old);
    for (uint32_t i = 0; i < r.b.f->args.n; i++) {
        IrArg *arg = &r.b.f->args.data[i];
        if (arg->kind == IR_ARG_TENSOR && narrow[arg->ref]) arg->type.dtype = store;
    }
    ICE_UNLESS(ir_dtype_is_16_bits(store));
    for (IrId v = 0; v < old->ops.n; v++) {
        IrOp op = rewrite_op(&r, v);
        const IrArg *arg = arg_of(old, &old->ops.data[v]),
                    *of = op.n_args ? arg_of(old, &old->ops.data[old->ops.data[v].args[0]]) : NULL;
        if (arg && narrow[arg->ref]) op.type.dtype = store;
        if (of && narrow[of->ref]) r.map[v] = op.args[0]; /* the cast to what it is now */
        else r.map[v] = irb_add(&r.b, &op);
    }
    return rewrite_end(&r);
}

IrModule *pass_narrow_rest(PassContext *ctx, const IrModule *m)
{
    IrModule *next = ctx->store == IR_F32 ? ir_module_clone(ctx->stage, m)
                                          : rewrite_module(ctx, m, ctx->store == IR_BF16 ? narrow : narrow_weights);
    if (ctx->store == IR_F32 || !ctx->store_inputs) return next;
    const bool *inputs = find_inputs(ctx, next);
    for (uint32_t i = 0; i < next->funcs.n; i++)
        next->funcs.data[i] = with_inputs(next, next->funcs.data[i], inputs, ctx->store);
    for (IrId t = 0; t < next->tensors.n; t++)
        if (inputs[t]) next->tensors.data[t].type.dtype = ctx->store;
    return next;
}
