/* sparse: a function that reads an input marked `sparse` only through sums and products reads its nonzero elements
   instead. For tensor x : S[F] the module gets the space x.nnz of stored elements, the space x.col with a row per
   index of F, the maps x.nnz.row and x.nnz.col, and the input x.values : x.nnz[].

     %1 = arg : node[F]               %1 = arg : x.nnz[]
     %3 = div %1, %2 : node[F]        %3 = div %1, gather(%2 via x.nnz.row) : x.nnz[]
     %5 = contract %3, %4 : node[O]   %5 = reduce_sum %3 * gather(%4 as rows of x.col via x.nnz.col) via x.nnz.row

   Pointwise operations follow where they give 0 for 0; their other operands, random ones too, are computed at the
   stored places only, with the same numbers. A function in which anything else reads the tensor keeps it whole. It
   knows properties of operations (trait T_ZERO, sparse_facts.c) and no names of models. */
#include "passes/context/rows.h"
#include "passes/rewrite/sparse.h"
#include "base/ice.h"

/* ---- what is wanted ----------------------------------------------------------------------------------- */

static void want_args(Sparse *s, const IrOp *op, uint8_t how)
{
    for (uint32_t k = 0; k < op->n_args; k++) s->flags[op->args[k]] |= how;
}

static void want_at(Sparse *s, IrId v)
{
    const IrOp *op = sparse_op(s, v);
    if (!sparse_has_form(s, &op->type)) {
        if (op->op != IR_OP_iota) s->flags[v] |= SPARSE_DENSE;
        return;
    }
    bool random = op->op == IR_OP_random_uniform || op->op == IR_OP_random_normal;
    want_args(s, op, random ? SPARSE_DENSE : SPARSE_STORED);
}

/* Walks from results to arguments. The op that wants the tensor whole, or IR_NONE. */
static IrId find_wanted(Sparse *s)
{
    IrId *because = ARENA_ARRAY(s->ctx->stage, IrId, s->old->ops.n); /* of values of the form that are wanted whole */
    for (uint32_t i = 0; i < s->old->results.n; i++) {
        s->flags[s->old->results.data[i].value] |= SPARSE_DENSE;
        because[s->old->results.data[i].value] = s->old->results.data[i].value;
    }
    for (IrId v = s->old->ops.n; v-- > 0;) {
        const IrOp *op = sparse_op(s, v);
        if (sparse_has(s, v, SPARSE_STORED)) want_at(s, v);
        if (!sparse_has(s, v, SPARSE_DENSE)) continue;
        SparseUse use = sparse_use(s, v);
        if (use.kind) {
            sparse_want(s, &use);
            continue;
        }
        want_args(s, op, SPARSE_DENSE);
        bool passes_on = sparse_has(s, v, SPARSE_OK) && because[v];
        for (uint32_t k = 0; k < op->n_args; k++) because[op->args[k]] = passes_on ? because[v] : v;
    }
    return sparse_has(s, s->arg, SPARSE_DENSE) ? because[s->arg] : IR_NONE;
}

/* ---- the pattern -------------------------------------------------------------------------------------- */

static IrId new_map(IrModule *m, const char *name, IrId from, IrId to, bool sorted)
{
    IrId id = ir_map_new(m, name, from, to);
    m->maps.data[id].sorted = sorted;
    return id;
}

static void make_pattern(IrModule *m, IrId tensor, SparsePattern *p)
{
    IrTensor x = m->tensors.data[tensor];
    ICE_UNLESS(!p->made && x.type.n_dims == 1 && x.type.space != IR_UNIT);
    p->made = true;
    p->nnz = ir_space_new(m, arena_printf(m->arena, "%s.nnz", x.name), false);
    p->cols = ir_space_new(m, arena_printf(m->arena, "%s.col", x.name), false);
    m->spaces.data[p->cols].has_dim = true;
    m->spaces.data[p->cols].dim = x.type.dims[0];
    p->row = new_map(m, arena_printf(m->arena, "%s.nnz.row", x.name), p->nnz, x.type.space, true);
    p->col = new_map(m, arena_printf(m->arena, "%s.nnz.col", x.name), p->nnz, p->cols, false);
    IrTensor values = {.name = arena_printf(m->arena, "%s.values", x.name), .kind = IR_INPUT, .span = x.span};
    values.type = (IrType){.space = p->nnz, .dtype = x.type.dtype};
    values.nonzeros = (IrNonzeros){true, tensor, p->row, p->col};
    VEC_PUSH(m->arena, &m->tensors, values);
    p->values = m->tensors.n - 1;
}

/* ---- one function --------------------------------------------------------------------------------------- */

static IrId new_argument(Sparse *s)
{
    const IrOp *op = sparse_op(s, s->arg);
    Build *b = &s->r.b;
    const IrTensor *values = &b->m->tensors.data[s->p->values];
    ICE_UNLESS(op->op == IR_OP_arg && op->attr.i < (int64_t)b->f->args.n);
    IrArg *arg = &b->f->args.data[op->attr.i];
    *arg = (IrArg){values->name, IR_ARG_TENSOR, s->p->values, values->type};
    return ir_add(b->m, b->f, IR_OP_arg, values->type, NULL, 0, op->attr, op->span);
}

static IrFunc *rebuild(Sparse *s)
{
    for (IrId v = 0; v < s->old->ops.n; v++) {
        if (v == s->arg) {
            s->at[v] = new_argument(s);
            continue;
        }
        if (sparse_has(s, v, SPARSE_DENSE) || sparse_op(s, v)->op == IR_OP_arg) {
            SparseUse use = sparse_use(s, v);
            if (use.kind) s->r.map[v] = sparse_rewrite(s, v, &use);
            else rewrite_copy(&s->r, v);
        }
        if (sparse_has(s, v, SPARSE_STORED)) s->at[v] = sparse_stored(s, v);
    }
    return rewrite_end(&s->r);
}

/* The one value that is the tensor; IR_NONE without one or with several. */
static IrId find_arg(const IrFunc *f, IrId tensor)
{
    IrId found = IR_NONE;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        if (op->op != IR_OP_arg) continue;
        const IrArg *arg = &f->args.data[op->attr.i];
        if (arg->kind != IR_ARG_TENSOR || arg->ref != tensor) continue;
        if (found != IR_NONE) return IR_NONE;
        found = v;
    }
    return found;
}

static IrFunc *one_func(PassContext *ctx, IrModule *m, IrFunc *old, IrId tensor, SparsePattern *p)
{
    Sparse s = {.ctx = ctx, .old = old, .tensor = tensor, .form = m->tensors.data[tensor].type, .p = p};
    s.arg = find_arg(old, tensor);
    if (s.arg == IR_NONE) return old;
    s.r = rewrite_begin(m, old);
    s.facts = ARENA_ARRAY(ctx->stage, Facts, old->ops.n + 1);
    s.flags = ARENA_ARRAY(ctx->stage, uint8_t, old->ops.n + 1);
    s.paths = ARENA_ARRAY(ctx->stage, uint8_t, old->ops.n + 1);
    s.at = ARENA_ARRAY(ctx->stage, IrId, old->ops.n + 1);
    sparse_facts(&s);
    IrId whole = find_wanted(&s);
    const char *name = m->tensors.data[tensor].name;
    bool taken = whole == IR_NONE;
    IrId at = taken ? s.arg : whole;
    PassRemark *remark = pass_remark_at(ctx, PASS_sparse, taken, old, at,
                                        taken ? "`%s` is read by its nonzero elements"
                                              : "`%s` stays whole: `%s` needs all of it",
                                        name, ir_ops[sparse_op(&s, at)->op].name);
    if (taken) remark->bytes_saved = expected_bytes(m, &s.form) * (1 - 3.0 / EXPECTED_ELEMENTS_PER_NONZERO);
    if (!taken) return old;
    if (!p->made) make_pattern(m, tensor, p);
    return rebuild(&s);
}

/* A matrix of floats whose rows are stored in the user's order. */
static bool is_candidate(const IrModule *m, const IrTensor *t)
{
    return t->sparse && t->kind == IR_INPUT && t->type.space != IR_UNIT && t->type.n_dims == 1 &&
           ir_dtype_is_float(t->type.dtype) && ir_space_keeps_order(m, t->type.space);
}

IrModule *pass_sparse(PassContext *ctx, const IrModule *m)
{
    IrModule *next = ir_module_clone(ctx->stage, m);
    for (IrId t = 0; t < m->tensors.n; t++) {
        SparsePattern p = {0};
        for (uint32_t i = 0; i < next->funcs.n && is_candidate(m, &m->tensors.data[t]); i++)
            next->funcs.data[i] = one_func(ctx, next, next->funcs.data[i], t, &p);
    }
    return next;
}
