/* `adjoint { x.grad = ... }`: a function or a reducer says itself which gradient its arguments get, from `grad`, that
   of its result. The block is run behind the body, with a stand-in for the gradient that is not known yet; pass
   autodiff puts the real one in. That of a reducer is run at the elements: `grad` and the states are those of the row
   that each belongs to. Arguments that get none count as constants. Never checks that the adjoint is the derivative: a
   test of the program can. */
#include "frontend/sema.h"

void elab_adjoint(Elab *e, const AstStmt *s)
{
    const Def *def = e->frame->def;
    bool function = def && (def->decl->kind == AST_DECL_FN || def->decl->kind == AST_DECL_MESSAGE);
    if (!function) diag_error(e->d, E0310, s->span, "`adjoint` belongs to a function or a message");
    else if (e->frame->adjoint) diag_error(e->d, E0410, s->span, "a second adjoint");
    else e->frame->adjoint = &s->as.adjoint;
}

static const char *slot_name(Elab *e, const char *argument) { return arena_printf(e->a, "%s.grad", argument); }

bool adjoint_assign(Elab *e, const AstExpr *target, Value v)
{
    bool grad = e->frame->in_adjoint && target->kind == AST_EXPR_MEMBER &&
                !strcmp(target->as.member.name.text, "grad") && target->as.member.value->kind == AST_EXPR_NAME;
    if (!grad) return false;
    const char *name = target->as.member.value->as.name.text;
    const AstDecl *decl = e->frame->def->decl;
    const AstSignature *sig = decl->kind == AST_DECL_REDUCE ? &decl->as.fold.sig : &decl->as.function.sig;
    bool argument = false;
    for (uint32_t i = 0; i < sig->n_params; i++) argument |= !strcmp(sig->params[i].name.text, name);
    if (!argument) diag_error(e->d, E0410, target->span, "`%s` is no argument of %s", name, e->frame->def->name);
    scope_set(e, slot_name(e, name), v);
    return true;
}

static bool is_float(const Value *v) { return v->kind == V_TENSOR && ir_dtype_is_float(v->type.dtype); }

/* The pairs of operands: each argument that gets a gradient, and the gradient. */
static bool adjoint_pairs(Elab *e, const AstSignature *sig, const Value *given, IrId *ids, uint32_t *n)
{
    for (uint32_t i = 0; i < sig->n_params; i++) {
        const char *name = sig->params[i].name.text;
        const Binding *b = scope_find(e->frame, slot_name(e, name));
        if (!b || given[i].kind == V_NUMBER) continue; /* a number is constant */
        Value g = b->value;
        if (!is_float(&given[i]) && g.kind != V_ERROR) {
            diag_error(e->d, E0410, span_or(g.span, e->frame->adjoint->span), "`%s` is %s, which has no gradient", name,
                       value_text(e, &given[i]));
            return false;
        }
        g = coerce(e, g, &given[i].type, arena_printf(e->a, "the gradient of `%s`", name),
                   span_or(g.span, e->frame->adjoint->span));
        if (g.kind != V_TENSOR) return false;
        ids[(*n)++] = given[i].id;
        ids[(*n)++] = g.id;
    }
    return true;
}

/* A row's value at each of its elements, 0 where `there` does not hold. */
static Value at_elements(Elab *e, Value v, const AdjointRows *rows, Span s)
{
    if (!rows || v.kind != V_TENSOR) return v;
    if (v.type.space != IR_UNIT) v = op_gather(e, v, rows->map, e->m->maps.data[rows->map].from, s);
    return rows->there.kind == V_TENSOR ? op_select(e, rows->there, v, value_number(0, true, s), s) : v;
}

Value adjoint_attach(Elab *e, const AstSignature *sig, const Value *given, Value result, const AdjointRows *rows)
{
    Frame *f = e->frame;
    if (!is_float(&result)) {
        if (result.kind != V_ERROR)
            diag_error(e->d, E0410, f->adjoint->span, "the result is %s, which has no gradient",
                       value_text(e, &result));
        return value_error();
    }
    IrId *ids = ARENA_ARRAY(e->a, IrId, 2 * sig->n_params + 2);
    uint32_t n = 2, errors = e->d->n_errors;
    ids[0] = result.id;
    ids[1] = op_add(e, IR_OP_incoming, result.type, NULL, 0, (IrAttr){0}, f->adjoint->span);
    scope_set(e, "grad", at_elements(e, value_tensor(ids[1], result.type, f->adjoint->span), rows, f->adjoint->span));
    for (uint32_t i = 0; rows && i < rows->fold->n_states; i++) {
        const AstName *state = &rows->fold->states[i].name;
        scope_set(e, state->text, at_elements(e, scope_lookup(e, state->text, state->span), rows, f->adjoint->span));
    }
    f->in_adjoint = true;
    f->returned = false;
    elab_block(e, f->adjoint);
    f->in_adjoint = false;
    bool any = false;
    for (uint32_t i = 0; i < sig->n_params; i++) any |= scope_find(f, slot_name(e, sig->params[i].name.text)) != NULL;
    if (!any && e->d->n_errors == errors)
        diag_error(e->d, E0410, f->adjoint->span, "the adjoint gives no argument a gradient: `x.grad = ...`");
    if (!any || !adjoint_pairs(e, sig, given, ids, &n)) return value_error();
    if (n == 2) return op_unary(e, IR_OP_detach, result, f->adjoint->span);
    Value v = value_tensor(op_add(e, IR_OP_with_adjoint, result.type, ids, n, (IrAttr){0}, result.span), result.type,
                           result.span);
    v.classes = result.classes;
    return v;
}
