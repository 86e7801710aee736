/* Statements and blocks; parameters and how they are stored. */
#include "frontend/sema.h"
#include <math.h>

/* ---- parameters ---------------------------------------------------------------------------------
 */

static bool is_layer_frame(const Elab *e)
{
    const Def *d = e->frame->def;
    return d && (d->decl->kind == AST_DECL_LAYER || d->decl->kind == AST_DECL_MODEL);
}

static const char *const init_words[] = {"glorot",  "kaiming", "zeros", "ones",
                                         "uniform", "normal",  NULL};

static const char *init_word(const AstExpr *x)
{
    const AstExpr *head = x->kind == AST_EXPR_CALL ? x->as.call.callee : x;
    if (head->kind != AST_EXPR_NAME) return NULL;
    for (int i = 0; init_words[i]; i++)
        if (!strcmp(head->as.name.text, init_words[i])) return init_words[i];
    return NULL;
}

/* A number of an initial value; a size that is not known yet counts as 1 (only `check` gets there).
 */
static double init_number(Elab *e, const AstExpr *x)
{
    Value v = elab_expr(e, x);
    int64_t n;
    if (v.kind == V_NUMBER) return v.num;
    if (v.kind == V_DIM) return size_value(&e->z, dim_size(e, v.dim), &n) ? (double)n : 1;
    if (v.kind == V_TENSOR) return 1;
    if (v.kind == V_WORD)
        error_unknown_name(e, v.word, v.span);
    else if (v.kind != V_ERROR)
        diag_error(e->d, E0304, x->span, "found %s, wanted a number known at compile time",
                   value_text(e, &v));
    return 0;
}

/* `glorot`, `kaiming`, `zeros`, `ones`, `uniform(a, b)`, `normal(mean, deviation)`, `kaiming(F)`, a
 * number. */
static void slot_init(Elab *e, const AstExpr *x, TensorInfo *info, uint32_t n_stored)
{
    info->init = x ? init_word(x) : n_stored > 1 ? "glorot" : "zeros";
    if (!x) return;
    if (!info->init) {
        info->init_a = init_number(e, x);
        return;
    }
    uint32_t n = x->kind == AST_EXPR_CALL ? x->as.call.n_args : 0;
    double args[2] = {!strcmp(info->init, "uniform") ? -1 : 0, 1};
    if (!strcmp(info->init, "kaiming") && n == 1) {
        info->fan = size_of_expr(e, x->as.call.args[0].value);
        return;
    }
    for (uint32_t i = 0; i < n && i < 2; i++) args[i] = init_number(e, x->as.call.args[i].value);
    if (n > 2) diag_error(e->d, E0302, x->span, "`%s` takes at most two numbers", info->init);
    if (n == 1 && !strcmp(info->init, "uniform")) args[1] = fabs(args[0]), args[0] = -args[1];
    info->init_a = args[0];
    info->init_b = args[1];
}

/* Appends the dims of one stored axis: `H*D`, `F` or 1. */
static bool stored_axis(Elab *e, const AstExpr *x, const IrType *t, uint8_t *perm, uint32_t *n)
{
    if (x->kind == AST_EXPR_BINARY && x->as.binary.op == AST_MUL)
        return stored_axis(e, x->as.binary.left, t, perm, n) &&
               stored_axis(e, x->as.binary.right, t, perm, n);
    if (x->kind == AST_EXPR_NUMBER && x->as.number.is_int && x->as.number.int_value == 1)
        return true;
    if (x->kind == AST_EXPR_NAME) {
        IrId dim = dim_symbol(e, x->as.name.text, x->span);
        for (uint32_t i = 0; i < t->n_dims; i++) {
            if (t->dims[i] != dim) continue;
            for (uint32_t k = 0; k < *n; k++)
                if (perm[k] == i)
                    return diag_error(e->d, E0308, x->span, "dim `%s` is stored twice",
                                      x->as.name.text),
                           false;
            perm[(*n)++] = (uint8_t)i;
            return true;
        }
    }
    Diag *d = diag_error(e->d, E0308, x->span,
                         "a stored axis holds the parameter's own dims, such as F or H*D");
    diag_note(e->d, d, t->n_dims ? e->dims.data[t->dims[0]].span : x->span, "the parameter is %s",
              type_text(e, t));
    return false;
}

static bool slot_layout(Elab *e, const AstSlot *slot, IrTensor *t, TensorInfo *info)
{
    if (!slot->has_stored_dims) {
        t->n_stored = t->type.n_dims;
        for (uint8_t i = 0; i < t->type.n_dims; i++) {
            t->stored_perm[i] = i;
            info->stored[i] = dim_size(e, t->type.dims[i]);
        }
        return true;
    }
    uint32_t n = 0;
    if (slot->stored_dims.n > IR_MAX_DIMS) {
        diag_error(e->d, E0308, slot->stored_as_span, "more than %d stored axes", IR_MAX_DIMS);
        return false;
    }
    for (uint32_t i = 0; i < slot->stored_dims.n; i++) {
        const AstExpr *x = slot->stored_dims.items[i];
        if (!stored_axis(e, x, &t->type, t->stored_perm, &n)) return false;
        info->stored[i] = size_of_expr(e, x);
    }
    t->n_stored = (uint8_t)slot->stored_dims.n;
    if (n == t->type.n_dims) return true;
    diag_error(e->d, E0308, slot->stored_as_span, "the stored layout leaves out dims of %s",
               type_text(e, &t->type));
    return false;
}

static IrId slot_declare(Elab *e, const AstSlot *slot, const AstName *name, const char *full,
                         IrType t, bool buffer)
{
    IrId id = tensor_new(e, full, IR_PARAM, t, name->span);
    IrTensor *tensor = &e->m->tensors.data[id];
    TensorInfo info = {.owner = slot, .buffer = buffer};
    if (!slot_layout(e, slot, tensor, &info)) tensor->n_stored = 0;
    slot_init(e, slot->init, &info, tensor->n_stored);
    e->tensors.data[id] = info;
    return id;
}

/* A second call of the same layer, or another mode: the same tensor with this call's dims. */
static Value slot_reuse(Elab *e, IrId id, const IrType *t, const char *full, Span s)
{
    Value v = tensor_value(e, id, s);
    bool fits = v.type.n_dims == t->n_dims && v.type.dtype == t->dtype;
    for (int i = 0; i < t->n_dims && fits; i++)
        fits = size_unify(&e->z, dim_size(e, v.type.dims[i]), dim_size(e, t->dims[i]), s);
    if (fits) return op_reshape(e, v, t->dims, t->n_dims);
    Diag *d = diag_error(e->d, E0201, s, "parameter `%s` is %s in this call, %s in an earlier one",
                         full, type_text(e, t), type_text(e, &v.type));
    diag_note(e->d, d, e->frame->call, "in this call");
    return value_error();
}

static void slot_one(Elab *e, const AstSlot *slot, const AstName *name, bool buffer)
{
    const char *local = slot->stored_as ? slot->stored_as : name->text;
    const char *full = arena_printf(e->a, "%s%s", e->frame->path, local);
    IrType t = ir_scalar(e->real);
    if (slot->type && !type_resolve(e, slot->type, &t)) {
        scope_set(e, name->text, value_error());
        return;
    }
    if (t.space != IR_UNIT || !ir_dtype_is_float(t.dtype)) {
        diag_error(e->d, E0901, slot->type->span, "a parameter that is %s is not built yet",
                   type_text(e, &t));
        scope_set(e, name->text, value_error());
        return;
    }
    IrId id = tensor_find(e, full);
    bool twice = strmap_has(&e->frame->slots, local);
    strmap_put(&e->frame->slots, local, e);
    if (id != IR_NONE && (twice || e->tensors.data[id].owner != slot)) {
        Diag *d = diag_error(e->d, E0303, name->span, "two parameters are stored as `%s`", full);
        diag_note(e->d, d, e->m->tensors.data[id].span, "the other one");
        diag_help(e->d, d, "give layers names of their own: `conv1 = my_layer(H = 8)`");
        scope_set(e, name->text, value_error());
        return;
    }
    if (id == IR_NONE) id = slot_declare(e, slot, name, full, t, buffer);
    scope_set(e, name->text, slot_reuse(e, id, &t, full, name->span));
}

void elab_slot(Elab *e, const AstStmt *s)
{
    const AstSlot *slot = &s->as.slot;
    if (!is_layer_frame(e)) {
        Diag *d = diag_error(e->d, E0310, s->span, "a parameter belongs to a layer or a model");
        diag_help(e->d, d, "make the definition a `layer`, or take the value as an argument");
        for (uint32_t i = 0; i < slot->names.n; i++)
            scope_set(e, slot->names.items[i].text, value_error());
        return;
    }
    if (slot->stored_as && slot->names.n > 1) {
        diag_error(e->d, E0303, slot->stored_as_span,
                   "several parameters cannot be stored under one name");
        return;
    }
    for (uint32_t i = 0; i < slot->names.n; i++)
        slot_one(e, slot, &slot->names.items[i], s->kind == AST_STMT_BUFFER);
}

/* ---- assignments
 * --------------------------------------------------------------------------------- */

static void assign_one(Elab *e, const AstExpr *target, Value v)
{
    if (target->kind != AST_EXPR_NAME) {
        diag_error(e->d, E0901, target->span, "assigning to anything but a name is not built yet");
        return;
    }
    const char *name = target->as.name.text;
    instance_name(e, &v, name);
    if (v.kind == V_NUMBER || v.kind == V_DIM) v.word = v.kind == V_NUMBER ? NULL : v.word;
    scope_set(e, name, v);
}

static void elab_assign(Elab *e, const AstStmt *s)
{
    static const AstBinaryOp ops[] = {[AST_SET_ADD] = AST_ADD,
                                      [AST_SET_SUB] = AST_SUB,
                                      [AST_SET_MUL] = AST_MUL,
                                      [AST_SET_DIV] = AST_DIV};
    AstExprs targets = s->as.assign.targets;
    Value v = elab_expr(e, s->as.assign.value);
    if (v.kind == V_WORD && s->as.assign.value->kind == AST_EXPR_NAME)
        error_unknown_name(e, v.word, v.span), v = value_error();
    if (s->as.assign.op != AST_SET)
        v = binary_values(e, ops[s->as.assign.op], elab_expr(e, targets.items[0]), v, s->span);
    if (s->as.assign.type) {
        const AstExpr *t = targets.items[0];
        const char *what =
            t->kind == AST_EXPR_NAME ? arena_printf(e->a, "`%s`", t->as.name.text) : "this";
        v = coerce_declared(e, v, s->as.assign.type, what, v.span.source ? v.span : s->span);
    }
    if (targets.n == 1) {
        assign_one(e, targets.items[0], v);
        return;
    }
    bool tuple = v.kind == V_TUPLE || v.kind == V_LIST;
    if (v.kind != V_ERROR && (!tuple || v.n != targets.n))
        diag_error(e->d, E0302, s->span, "%u names for %s%s", targets.n, value_text(e, &v),
                   tuple ? arena_printf(e->a, " of %u", v.n) : "");
    for (uint32_t i = 0; i < targets.n; i++)
        assign_one(e, targets.items[i], tuple && v.n == targets.n ? v.items[i] : value_error());
}

static void elab_graph_stmt(Elab *e, const AstStmt *s)
{
    Value v = elab_expr(e, s->as.bind.value);
    if (v.kind != V_GRAPH && v.kind != V_ERROR) {
        diag_error(e->d, E0212, s->as.bind.value->span, "found %s, wanted a graph",
                   value_text(e, &v));
        v = value_error();
    }
    scope_set(e, s->as.bind.name.text, v);
}

static Value elab_if(Elab *e, const AstStmt *s)
{
    bool yes;
    if (!elab_truth(e, s->as.branch.cond, &yes)) return value_error();
    if (yes) return elab_block(e, &s->as.branch.yes);
    return s->as.branch.has_no ? elab_block(e, &s->as.branch.no) : value_none(s->span);
}

static void elab_return(Elab *e, const AstStmt *s)
{
    Value v = s->as.value ? elab_expr(e, s->as.value) : value_none(s->span);
    if (v.kind == V_WORD && s->as.value->kind == AST_EXPR_NAME)
        error_unknown_name(e, v.word, v.span), v = value_error();
    e->frame->returned = true;
    e->frame->result = v;
}

static Value elab_stmt(Elab *e, const AstStmt *s)
{
    switch (s->kind) {
    case AST_STMT_ASSIGN: elab_assign(e, s); break;
    case AST_STMT_PARAM:
    case AST_STMT_BUFFER: elab_slot(e, s); break;
    case AST_STMT_GRAPH: elab_graph_stmt(e, s); break;
    case AST_STMT_IF: return elab_if(e, s);
    case AST_STMT_RETURN: elab_return(e, s); break;
    case AST_STMT_EXPR: return elab_expr(e, s->as.value);
    case AST_STMT_ASSERT: elab_assert(e, s); break;
    case AST_STMT_CONST: diag_error(e->d, E0901, s->span, "`const` is not built yet"); break;
    case AST_STMT_PAIRS: diag_error(e->d, E0901, s->span, "`pairs` is not built yet"); break;
    case AST_STMT_ADJOINT: diag_error(e->d, E0901, s->span, "`adjoint` is not built yet"); break;
    }
    return value_none(s->span);
}

/* A value in the middle of a block goes nowhere. */
static void check_used(Elab *e, const AstStmt *s, const Value *v)
{
    if (s->kind != AST_STMT_EXPR || (v->kind != V_TENSOR && v->kind != V_NUMBER)) return;
    if (s->as.value->kind == AST_EXPR_OVER || s->as.value->kind == AST_EXPR_FOR) return;
    Diag *d = diag_error(e->d, E0310, s->span, "this value is not used");
    diag_help(e->d, d, "give it a name, or `return` it");
}

Value elab_block(Elab *e, const AstBlock *b)
{
    Value last = value_none(b->span);
    for (uint32_t i = 0; i < b->n && !e->frame->returned; i++) {
        last = elab_stmt(e, b->items[i]);
        if (i + 1 < b->n) check_used(e, b->items[i], &last);
    }
    return last;
}
