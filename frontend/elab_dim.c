/* Dims during elaboration: objects with a label and a size, the symbols of a frame, arithmetic in
 * types. */
#include "frontend/sema.h"
#include <math.h>

/* A place in the standard library as that of the call that led there. */
static Span user_place(const Elab *e, Span s)
{
    for (const Frame *f = e->frame; f && f->def && f->def->is_std && s.source == f->def->decl->span.source;
         f = f->caller)
        s = f->call;
    return s;
}

IrId dim_new(Elab *e, const char *label, const Size *size, Span s)
{
    s = user_place(e, s);
    VEC_PUSH(e->a, &e->dims, ((Dim){.label = label, .size = size, .origin = IR_NONE, .span = s}));
    return e->dims.n - 1;
}

const Size *dim_size(const Elab *e, IrId dim) { return e->dims.data[dim].size; }

bool dim_is_one(Elab *e, IrId dim)
{
    int64_t n;
    return size_value(&e->z, dim_size(e, dim), &n) && n == 1;
}

/* A symbol of the whole program: one size per name, which --set may give. */
static const Size *free_size(Elab *e, const char *name, Span s)
{
    const Size *size = strmap_get(&e->free_dims, name);
    if (size) return size;
    size = size_var(&e->z, name, SIZE_FREE, s);
    strmap_put(&e->free_dims, name, (void *)(uintptr_t)size);
    double given;
    if (!set_find(e, name, &given)) return size;
    if (given < 1 || given != floor(given) || given > 1e15)
        diag_error(e->d, E0211, s, "`--set %s=%g`: a dim's size is a positive whole number", name, given);
    else size_unify(&e->z, size, size_const(&e->z, (int64_t)given), s);
    return size;
}

static const Size *new_size(Elab *e, const char *name, Span s)
{
    size_t n = strlen(name);
    if (n && name[n - 1] == '\'') /* D' has the size of D */
        return dim_size(e, dim_symbol(e, arena_strndup(e->a, name, n - 1), s));
    if (e->frame->new_dims == DIMS_FREE) return free_size(e, name, s);
    return size_var(&e->z, name, e->frame->new_dims == DIMS_RIGID ? SIZE_RIGID : SIZE_HOLE, user_place(e, s));
}

/* The size that a static variable gives to the dim of its name; NULL: none, where it is not given, or a word, as W in
   `O = W`: what it is made of tells its size. */
static const Size *static_size(Elab *e, const Value *v, const char *name, Span s)
{
    bool strange = v->kind == V_LIST || v->kind == V_BOOL;
    if (v->kind == V_DIM) return dim_size(e, v->dim);
    if (v->kind != V_NUMBER && !strange) return NULL;
    if (v->kind == V_NUMBER && v->num >= 1 && v->num == floor(v->num) && v->num < 1e15)
        return size_const(&e->z, (int64_t)v->num);
    const char *text = strange ? value_text(e, v) : arena_printf(e->a, "%g", v->num);
    Diag *d = diag_error(e->d, E0211, s, "`%s` is %s: a dim's size is a positive whole number", name, text);
    if (strange && v->span.source) diag_note(e->d, d, v->span, "%s comes from here", text);
    return size_const(&e->z, 1);
}

void dim_bind(Elab *e, const char *name, IrId dim, bool own)
{
    Symbol *sym = ARENA_NEW(e->a, Symbol);
    *sym = (Symbol){name, dim, e->frame->dims, own};
    e->frame->dims = sym;
}

IrId dim_symbol(Elab *e, const char *name, Span s)
{
    for (const Symbol *sym = e->frame->dims; sym; sym = sym->next)
        if (!strcmp(sym->name, name)) return sym->id;
    const Binding *b = scope_find(e->frame, name);
    Value constant;
    const Size *size = b                                       ? static_size(e, &b->value, name, s)
                       : constant_value(e, name, s, &constant) ? static_size(e, &constant, name, s)
                                                               : NULL;
    IrId dim = dim_new(e, name, size ? size : new_size(e, name, s),
                       size && b && b->value.span.source ? b->value.span : s);
    if (b && b->value.kind == V_DIM) e->dims.data[dim].origin = b->value.dim;
    else if (b && b->value.kind == V_NUMBER) e->dims.data[dim].origin = b->value.dim;
    dim_bind(e, name, dim, true);
    return dim;
}

static const Size *size_arithmetic(Elab *e, const AstExpr *x, const Size *a, const Size *b)
{
    switch (x->as.binary.op) {
    case AST_ADD: return size_add(&e->z, a, b, 1);
    case AST_SUB: return size_add(&e->z, a, b, -1);
    case AST_MUL: return size_mul(&e->z, a, b);
    case AST_DIV: {
        const Size *q = size_div(&e->z, a, b);
        if (!q) diag_error(e->d, E0211, x->span, "%s does not divide %s", size_text(&e->z, b), size_text(&e->z, a));
        return q;
    }
    default: diag_error(e->d, E0211, x->as.binary.op_span, "dims know + - * / only"); return NULL;
    }
}

static const Size *size_of_binary(Elab *e, const AstExpr *x)
{
    const Size *a = size_of_expr(e, x->as.binary.left), *b = size_of_expr(e, x->as.binary.right);
    if (!a || !b) return NULL;
    bool before = e->z.overflow;
    const Size *size = size_arithmetic(e, x, a, b);
    if (before || !e->z.overflow) return size;
    diag_error(e->d, E0211, x->span, "this size is too large or too involved: %s and %s", size_text(&e->z, a),
               size_text(&e->z, b));
    e->z.overflow = false;
    return NULL;
}

const Size *size_of_expr(Elab *e, const AstExpr *x)
{
    switch (x->kind) {
    case AST_EXPR_NAME: return dim_size(e, dim_symbol(e, x->as.name.text, x->span));
    case AST_EXPR_NUMBER:
        if (x->as.number.is_int && x->as.number.int_value > 0) return size_const(&e->z, x->as.number.int_value);
        diag_error(e->d, E0211, x->span, "a dim's size is a positive whole number");
        return NULL;
    case AST_EXPR_BINARY: return size_of_binary(e, x);
    case AST_EXPR_REST: diag_error(e->d, E0211, x->span, "`...` is several dims, which have no one size"); return NULL;
    default: break;
    }
    Value v = elab_expr(e, x);
    if (v.kind == V_ERROR) return NULL;
    if (v.kind == V_NUMBER || v.kind == V_DIM) return static_size(e, &v, "the dim", x->span);
    diag_error(e->d, E0211, x->span, "found %s, wanted a dim's size", value_text(e, &v));
    return NULL;
}

/* Same label, the same name in the caller, or the dim that was passed for it. */
static bool dim_is_named(const Elab *e, IrId dim, const char *name)
{
    for (; dim != IR_NONE; dim = e->dims.data[dim].origin)
        if (e->dims.data[dim].label && name && !strcmp(e->dims.data[dim].label, name)) return true;
    return false;
}

IrId dim_in(Elab *e, const IrType *t, const Value *which)
{
    for (int i = 0; i < t->n_dims; i++)
        if (which->dim != IR_NONE && t->dims[i] == which->dim) return t->dims[i];
    for (int i = 0; i < t->n_dims; i++)
        for (IrId d = which->dim; d != IR_NONE; d = e->dims.data[d].origin)
            if (d == t->dims[i]) return d;
    for (int i = t->n_dims - 1; i >= 0; i--)
        if (dim_is_named(e, t->dims[i], which->word)) return t->dims[i];
    for (int i = t->n_dims - 1; i >= 0; i--)
        if (which->dim != IR_NONE && dim_is_named(e, t->dims[i], e->dims.data[which->dim].label)) return t->dims[i];
    return IR_NONE;
}
