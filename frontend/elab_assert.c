/* What a test says: `assert`, and `close` of two values. */
#include "frontend/sema.h"

static double option(Elab *e, const Call *c, const char *name, double unless, bool *given)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (!c->args[i].name || strcmp(c->args[i].name, name)) continue;
        if (c->args[i].value.kind == V_NUMBER && c->args[i].value.num >= 0) return *given = true, c->args[i].value.num;
        diag_error(e->d, E0407, c->args[i].ast->span, "`%s` is a number, not negative", name);
    }
    return unless;
}

/* close(a, b, rtol = 1e-5, atol = 0, ulp = 8): |a - b| <= atol + rtol |b|, or equal. */
Value builtin_close(Elab *e, const Call *c)
{
    bool ok = c->n >= 2 && !c->args[0].name && !c->args[1].name, given = false;
    for (uint32_t i = 0; i < c->n; i++) {
        const char *n = c->args[i].name;
        if (c->args[i].value.kind == V_ERROR) return value_error();
        if (i >= 2) ok &= n && (!strcmp(n, "ulp") || !strcmp(n, "rtol") || !strcmp(n, "atol"));
    }
    if (!ok) {
        diag_error(e->d, E0407, c->span, "wanted `close(a, b, ulp = 8)`, or rtol, atol");
        return value_error();
    }
    double ulp = option(e, c, "ulp", 0, &given), rtol = option(e, c, "rtol", 0, &given),
           atol = option(e, c, "atol", 0, &given);
    if (!given) rtol = 1e-5;
    rtol += ulp * (e->real == IR_F32 ? 0x1p-23 : 0x1p-52);
    Span s = c->span;
    Value a = c->args[0].value, b = to_tensor(e, c->args[1].value, e->real, s);
    if (b.kind == V_ERROR) return b;
    Value off = op_unary(e, IR_OP_abs, op_binary(e, IR_OP_sub, "compare", a, b, s), s);
    Value room = op_binary(e, IR_OP_mul, "multiply", op_unary(e, IR_OP_abs, b, s), value_number(rtol, false, s), s);
    room = op_binary(e, IR_OP_add, "add", room, value_number(atol, false, s), s);
    Value near = op_binary(e, IR_OP_le, "compare", off, room, s), same = op_binary(e, IR_OP_eq, "compare", a, b, s);
    return op_binary(e, IR_OP_or, "combine", near, same, s);
}

void elab_assert(Elab *e, const AstStmt *s)
{
    if (!e->test) {
        diag_error(e->d, E0310, s->span, "`assert` stands in a test only");
        return;
    }
    Value v = elab_expr(e, s->as.check.cond);
    if (v.kind == V_WORD) error_unknown_name(e, v.word, v.span), v = value_error();
    v = to_tensor(e, v, IR_BOOL, s->span);
    if (v.kind == V_ERROR) return;
    if (v.type.dtype != IR_BOOL) {
        Diag *d = diag_error(e->d, E0407, s->as.check.cond->span, "an assert wants a bool, found %s",
                             value_text(e, &v));
        diag_help(e->d, d, "compare: `assert close(a, b, ulp = 8)`");
        return;
    }
    if (s->as.check.where) {
        Value where = elab_expr(e, s->as.check.where);
        Value not_there = op_unary(e, IR_OP_not, to_tensor(e, where, IR_BOOL, s->span), s->span);
        v = op_binary(e, IR_OP_or, "combine", not_there, v, s->span);
        if (v.kind == V_ERROR) return;
    }
    Value there = found_there(e, v.type.space, s->span);
    if (there.kind == V_TENSOR)
        v = op_binary(e, IR_OP_or, "combine", op_unary(e, IR_OP_not, there, s->span), v, s->span);
    const char *text = arena_strndup(e->a, s->span.source->text + s->span.begin, s->span.end - s->span.begin);
    ir_result(e->m, e->f, arena_printf(e->a, "assert%u", e->f->results.n), v.id, IR_NONE);
    VEC_PUSH(e->a, &e->test->asserts, ((IrAssert){text, s->span}));
}
