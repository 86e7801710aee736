/* layout: in which order the dims of a value lie, where the user's order leaves vectors nearly empty. A vector runs
   along the last dims, so that rows [64,3] take 64 vectors of three numbers, and rows [3,64] twelve full ones.

     %3 = gather %v via src : edge[F,P]     %2 = transpose %v : node[P,F]
     %4 = mul %3, %w : edge[F,P]        ->  %3 = gather %2 via src : edge[P,F]
     %5 = reduce_sum %4 via dst             %4 = mul %3, %w : edge[P,F]
                                            %5 = transpose (reduce_sum %4 via dst) : node[F,P]

   A value turns: its last dims come first, where that takes far fewer vectors. Values that turn and hang together by
   operations that take any order turn all or none: all, if the vectors that are spared are more than what is laid out
   anew where they meet arguments, results, reshapes and random numbers, which keep the user's order. Sums over several
   dims may add in another order; all else keeps its bits. Never changes an argument's or a result's type. */
#include "passes/context/price.h"
#include "passes/rewrite/rewrite.h"
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/context/vectors.h"
#include "ir/order.h"

/* A turn that spares less than half is not worth it. What is laid out anew costs vector operations: through memory;
   less where a kernel reads it from edges, in whose space no table is made; so many of random numbers, drawn out of
   their order. */
static const double FEWER = 0.5, DRAWN = 64;

typedef struct Layout {
    PassContext *ctx;
    Rewrite r;
    uint8_t *turn;         /* [ops] how many of the last dims come first; 0: the value stays */
    IrId *next;            /* [ops] towards the leader of the values it hangs together with */
    double *spared, *cost; /* [ops] of a leader: vector operations that all of them spare, and what is laid out anew */
    IrId *user;            /* [ops] the new value in the user's order, where it was made */
} Layout;

static const IrOp *op_of(const Layout *l, IrId v) { return &l->r.old->ops.data[v]; }

/* ---- types ---- */

static IrType turned(IrType t, unsigned turn)
{
    ICE_UNLESS(!t.n_dims || turn < t.n_dims);
    IrType to = t;
    for (unsigned k = 0; k < t.n_dims; k++) to.dims[k] = t.dims[(k + t.n_dims - turn) % t.n_dims];
    return to;
}

/* Vectors of a row. */
static double vectors_of(const Layout *l, const IrType *t)
{
    const IrModule *m = l->r.b.m;
    VecRun run = vec_run(m, t, 0, l->ctx->machine->lanes);
    double n = 1;
    for (uint8_t k = 0; k < t->n_dims; k++) {
        int64_t size = m->dims.data[t->dims[k]].size;
        for (unsigned i = 0; i < run.n; i++)
            if (run.vec[i].dim == t->dims[k]) size = (size + run.vec[i].count - 1) / run.vec[i].count;
        n *= (double)size;
    }
    return n;
}

static uint8_t turn_of(const Layout *l, const IrType *t)
{
    double fewest = vectors_of(l, t) * FEWER;
    uint8_t best = 0;
    for (uint8_t k = 1; k < t->n_dims; k++) {
        IrType to = turned(*t, k);
        double n = vectors_of(l, &to);
        if (n > fewest) continue;
        best = k;
        fewest = n * 0.99;
    }
    return best;
}

/* ---- what takes any order ---- */

static IrType new_type(const Layout *l, IrId v) { return turned(op_of(l, v)->type, l->turn[v]); }

/* A sum inside rows writes along its last dim, along which it should read: weights are laid out for that. */
static bool reads_along(const Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    IrType to = new_type(l, v);
    for (uint32_t i = 0; i < op->n_args && to.n_dims; i++) {
        IrType x = new_type(l, op->args[i]);
        IrId last = to.dims[to.n_dims - 1];
        if (x.space != IR_UNIT && ir_type_has_dim(&x, last) && x.dims[x.n_dims - 1] != last) return false;
    }
    return true;
}

/* All in one order: the operands as the result. */
static bool of_one_order(const Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    for (uint32_t i = 0; i < op->n_args; i++)
        if (l->turn[op->args[i]] != l->turn[v]) return false;
    return true;
}

static bool is_free(const Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    switch (op->op) {
    /* clang-format off */
    case IR_OP_random_uniform: case IR_OP_random_normal: case IR_OP_nearest: case IR_OP_route: return false;
    case IR_OP_contract: case IR_OP_sum_dims: case IR_OP_max_dims:
    case IR_OP_min_dims: return !l->turn[v] || reads_along(l, v);
    case IR_OP_detach: case IR_OP_rank: case IR_OP_nth: case IR_OP_slice: case IR_OP_at:
    case IR_OP_concat: return of_one_order(l, v);
    /* clang-format on */
    case IR_OP_transpose: return true;
    default: return (ir_ops[op->op].traits & (T_MAP | T_REDUCE | T_MOVE)) != 0;
    }
}

/* ---- which values turn ---- */

static IrId leader(const Layout *l, IrId v)
{
    while (l->next[v] != v) v = l->next[v];
    return v;
}

static double rows_of(const Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    double rows = expected_rows(l->r.b.m, op->type.space);
    for (uint32_t i = 0; i < op->n_args; i++) {
        double more = expected_rows(l->r.b.m, op_of(l, op->args[i])->type.space);
        if (more > rows && op->op != IR_OP_gather) rows = more;
    }
    return rows;
}

/* Of value x, which turns: vectors of a row in the user's order less those in the other. */
static double fewer_vectors(const Layout *l, IrId x)
{
    IrType to = new_type(l, x);
    return vectors_of(l, &op_of(l, x)->type) - vectors_of(l, &to);
}

static double laid_out(const Layout *l, IrId x, double each)
{
    IrType to = new_type(l, x);
    return each * expected_rows(l->r.b.m, to.space) * vectors_of(l, &to);
}

/* What an operation that keeps the user's order gives. */
static double cost_of(const Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    if (ir_ops[op->op].traits & T_RANDOM) return laid_out(l, v, DRAWN);
    return laid_out(l, v,
                    has_many_rows(l->r.b.m, op->type.space) ? price_turned(l->ctx->machine)
                                                            : price_laid_out(l->ctx->machine));
}

/* What a free operation spares: by its result where that turns, as often as a product sums, else by a summed
   operand. */
static void count_op(Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    bool product = op->op == IR_OP_contract;
    IrId x = l->turn[v] || product || !op->n_args ? v : op->args[0];
    if (!l->turn[x] || op->op == IR_OP_const) return;
    double times = ir_ops[op->op].flops ? ir_ops[op->op].flops : 1;
    if (product) {
        IrId dims[2 * IR_MAX_DIMS];
        unsigned n = reduced_dims(l->r.old, op, dims);
        for (unsigned k = 0; k < n; k++) times *= (double)l->r.b.m->dims.data[dims[k]].size;
    }
    l->spared[leader(l, x)] += rows_of(l, v) * times * fewer_vectors(l, x);
}

static void count(Layout *l)
{
    const IrFunc *f = l->r.old;
    bool *wanted = ARENA_ARRAY(l->ctx->stage, bool, f->ops.n + 1); /* in the user's order */
    for (uint32_t i = 0; i < f->results.n; i++) wanted[f->results.data[i].value] = true;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = op_of(l, v);
        if (is_free(l, v)) {
            count_op(l, v);
            continue;
        }
        if (l->turn[v]) l->cost[leader(l, v)] += cost_of(l, v);
        for (uint32_t k = 0; k < op->n_args; k++) wanted[op->args[k]] = true;
    }
    for (IrId v = 0; v < f->ops.n; v++)
        if (wanted[v] && l->turn[v] && is_free(l, v))
            l->cost[leader(l, v)] += laid_out(l, v, price_laid_out(l->ctx->machine));
}

static void join(Layout *l, IrId v)
{
    const IrOp *op = op_of(l, v);
    for (uint32_t k = 0; k < op->n_args && l->turn[v] && is_free(l, v); k++)
        if (l->turn[op->args[k]]) l->next[leader(l, op->args[k])] = leader(l, v);
}

static void decide(Layout *l)
{
    const IrFunc *f = l->r.old;
    for (IrId v = 0; v < f->ops.n; v++) {
        l->next[v] = v;
        l->turn[v] = turn_of(l, &op_of(l, v)->type);
    }
    for (IrId v = 0; v < f->ops.n; v++) join(l, v);
    count(l);
    for (IrId v = 0; v < f->ops.n; v++) {
        if (!l->turn[v] || leader(l, v) != v || l->spared[v] <= 0) continue;
        bool taken = l->spared[v] > l->cost[v];
        IrType to = new_type(l, v);
        pass_remark_at(l->ctx, PASS_layout, taken, f, v, "%s %s: %s", taken ? "lies as" : "would fill vectors as",
                       ir_type_text(l->r.b.m, &to, l->ctx->stage),
                       taken ? "its vectors are fuller, and what it is made of lies so too"
                             : "laying out what it meets costs more");
    }
}

static void settle(Layout *l)
{
    for (IrId v = 0; v < l->r.old->ops.n; v++) {
        IrId of = leader(l, v);
        if (l->spared[of] <= l->cost[of]) l->turn[v] = 0;
    }
}

/* ---- building ---- */

/* x in another order of its dims. */
static IrId ordered(Build *b, IrId x, IrType to)
{
    IrType t = irb_type(b, x);
    return ir_type_eq(&t, &to) ? x : irb_unary(b, IR_OP_transpose, to, x, (IrAttr){0});
}

static IrId in_users_order(Layout *l, IrId v)
{
    if (l->user[v] == IR_NONE) l->user[v] = ordered(&l->r.b, l->r.map[v], op_of(l, v)->type);
    return l->user[v];
}

static void rebuild(Layout *l, IrId v, bool takes_any)
{
    Build *b = &l->r.b;
    IrOp op = rewrite_op(&l->r, v);
    b->span = op.span;
    if (op.op == IR_OP_transpose) {
        l->r.map[v] = ordered(b, op.args[0], new_type(l, v));
        return;
    }
    if (takes_any) {
        op.type = new_type(l, v);
        l->r.map[v] = irb_add(b, &op);
        return;
    }
    for (uint32_t k = 0; k < op.n_args; k++) op.args[k] = in_users_order(l, op_of(l, v)->args[k]);
    l->user[v] = irb_add(b, &op);
    l->r.map[v] = ordered(b, l->user[v], new_type(l, v));
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    uint32_t n = old->ops.n + 1;
    Layout l = {.ctx = ctx,
                .r = rewrite_begin(m, old),
                .turn = ARENA_ARRAY(ctx->stage, uint8_t, n),
                .next = ARENA_ARRAY(ctx->stage, IrId, n),
                .user = ARENA_ARRAY(ctx->stage, IrId, n),
                .spared = ARENA_ARRAY(ctx->stage, double, n),
                .cost = ARENA_ARRAY(ctx->stage, double, n)};
    decide(&l);
    settle(&l);
    for (IrId v = 0; v < old->ops.n; v++) {
        l.user[v] = IR_NONE;
        rebuild(&l, v, is_free(&l, v));
    }
    for (uint32_t i = 0; i < old->results.n; i++) in_users_order(&l, old->results.data[i].value);
    for (uint32_t i = 0; i < old->results.n; i++)
        l.r.map[old->results.data[i].value] = l.user[old->results.data[i].value];
    return rewrite_end(&l.r);
}

IrModule *pass_layout(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
