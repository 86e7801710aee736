/* Statements and blocks. */
#include "frontend/sema.h"

/* ---- assignments ------------------------------------------------------------------------------------------------- */

static void assign_one(Elab *e, const AstExpr *target, Value v)
{
    if (adjoint_assign(e, target, v)) return;
    if (target->kind != AST_EXPR_NAME) {
        Diag *d = diag_error(e->d, E0310, target->span, "only names are assigned to");
        if (target->kind == AST_EXPR_INDEX)
            diag_help(e->d, d, "a value with one element changed is a new one: `x = where(iota(N) == i, y, x)`");
        return;
    }
    const char *name = target->as.name.text;
    instance_name(e, &v, name);
    if (v.kind == V_NUMBER || v.kind == V_DIM) v.word = v.kind == V_NUMBER ? NULL : v.word;
    buffer_assign(e, name, &v, target->span);
    scope_set(e, name, v);
}

static void elab_assign(Elab *e, const AstStmt *s)
{
    static const AstBinaryOp ops[] = {
        [AST_SET_ADD] = AST_ADD, [AST_SET_SUB] = AST_SUB, [AST_SET_MUL] = AST_MUL, [AST_SET_DIV] = AST_DIV};
    AstExprs targets = s->as.assign.targets;
    Value v = elab_expr(e, s->as.assign.value);
    if (v.kind == V_WORD && s->as.assign.value->kind == AST_EXPR_NAME)
        error_unknown_name(e, v.word, v.span), v = value_error();
    if (s->as.assign.op != AST_SET)
        v = binary_values(e, ops[s->as.assign.op], elab_expr(e, targets.items[0]), v, s->span);
    if (s->as.assign.stored_as) {
        const char *name = stored_text(e, s->as.assign.stored_as, s->as.assign.stored_as_span);
        bool layer = v.kind == V_INSTANCE || v.kind == V_LIST || v.kind == V_RECORD || v.kind == V_DEF;
        if (name && layer) instance_name_as(e, &v, name);
        else if (name && v.kind != V_ERROR)
            diag_error(e->d, E0302, s->as.assign.stored_as_span, "`as` names a layer here, found %s",
                       value_text(e, &v));
    }
    if (s->as.assign.type) {
        const AstExpr *t = targets.items[0];
        const char *what = t->kind == AST_EXPR_NAME ? arena_printf(e->a, "`%s`", t->as.name.text) : "this";
        v = coerce_declared(e, v, s->as.assign.type, what, span_or(v.span, s->span));
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
        diag_error(e->d, E0212, s->as.bind.value->span, "found %s, wanted a graph", value_text(e, &v));
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
    case AST_STMT_GRAPH:
    case AST_STMT_PAIRS: elab_graph_stmt(e, s); break;
    case AST_STMT_IF: return elab_if(e, s);
    case AST_STMT_RETURN: elab_return(e, s); break;
    case AST_STMT_EXPR: return elab_expr(e, s->as.value);
    case AST_STMT_ASSERT: elab_assert(e, s); break;
    case AST_STMT_CONST: elab_const(e, s); break;
    case AST_STMT_ADJOINT: elab_adjoint(e, s); break;
    }
    return value_none(s->span);
}

/* A value in the middle of a block goes nowhere. */
static void check_used(Elab *e, const AstStmt *s, const Value *v)
{
    if (s->kind != AST_STMT_EXPR || (v->kind != V_TENSOR && v->kind != V_NUMBER)) return;
    if (s->as.value->kind == AST_EXPR_FOR || s->as.value->kind == AST_EXPR_FORALL) return;
    Diag *d = diag_error(e->d, E0310, s->span, "this value is not used");
    diag_help(e->d, d, "give it a name, or `return` it");
}

Value elab_block(Elab *e, const AstBlock *b)
{
    Value last = value_none(b->span);
    uint32_t i = 0;
    for (; i < b->n && !e->frame->returned; i++) {
        last = elab_stmt(e, b->items[i]);
        if (i + 1 < b->n) check_used(e, b->items[i], &last);
    }
    for (; i < b->n; i++)
        if (b->items[i]->kind == AST_STMT_ADJOINT)
            diag_error(e->d, E0410, b->items[i]->span, "`adjoint` stands before `return`");
    return last;
}
