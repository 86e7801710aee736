/* Slots: parameters and buffers of a layer - their names, how they lie in weight files, their initial values. Calls of
   one instance, and the modes, share a slot by its stored name. Never decides who is trained: elab_train.c does. */
#include "frontend/sema.h"
#include <math.h>

static bool is_layer_frame(const Elab *e)
{
    const Def *d = e->frame->def;
    return d && (d->decl->kind == AST_DECL_LAYER || d->decl->kind == AST_DECL_MODEL);
}

static const char *const init_words[] = {"glorot", "kaiming", "zeros", "ones", "uniform", "normal", NULL};

static const char *init_word(const AstExpr *x)
{
    const AstExpr *head = x->kind == AST_EXPR_CALL ? x->as.call.callee : x;
    if (head->kind != AST_EXPR_NAME) return NULL;
    for (int i = 0; init_words[i]; i++)
        if (!strcmp(head->as.name.text, init_words[i])) return init_words[i];
    return NULL;
}

/* A number of an initial value; a size that is not known yet counts as 1 (only `check` gets there). */
static double init_number(Elab *e, const AstExpr *x)
{
    Value v = elab_expr(e, x);
    int64_t n;
    if (v.kind == V_NUMBER) return v.num;
    if (v.kind == V_DIM) return size_value(&e->z, dim_size(e, v.dim), &n) ? (double)n : 1;
    if (v.kind == V_TENSOR && !v.type.space && !v.type.n_dims) return 1;
    if (v.kind == V_WORD) error_unknown_name(e, v.word, v.span);
    else if (v.kind != V_ERROR)
        diag_error(e->d, E0304, x->span, "found %s, wanted a number known at compile time", value_text(e, &v));
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
        return stored_axis(e, x->as.binary.left, t, perm, n) && stored_axis(e, x->as.binary.right, t, perm, n);
    if (x->kind == AST_EXPR_NUMBER && x->as.number.is_int && x->as.number.int_value == 1) return true;
    if (x->kind == AST_EXPR_NAME) {
        IrId dim = dim_symbol(e, x->as.name.text, x->span);
        for (uint32_t i = 0; i < t->n_dims; i++) {
            if (t->dims[i] != dim) continue;
            for (uint32_t k = 0; k < *n; k++)
                if (perm[k] == i)
                    return diag_error(e->d, E0308, x->span, "dim `%s` is stored twice", x->as.name.text), false;
            perm[(*n)++] = (uint8_t)i;
            return true;
        }
    }
    Diag *d = diag_error(e->d, E0308, x->span, "a stored axis holds the parameter's own dims, such as F or H*D");
    diag_note(e->d, d, t->n_dims ? e->dims.data[t->dims[0]].span : x->span, "the parameter is %s", type_text(e, t));
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
    diag_error(e->d, E0308, slot->stored_as_span, "the stored layout leaves out dims of %s", type_text(e, &t->type));
    return false;
}

/* e of `fit(e)`, or NULL. */
static const AstExpr *fit_argument(const AstExpr *x)
{
    bool fit = x->kind == AST_EXPR_CALL && x->as.call.callee->kind == AST_EXPR_NAME &&
               !strcmp(x->as.call.callee->as.name.text, "fit") && x->as.call.n_args == 1 &&
               !x->as.call.args[0].name.text;
    return fit ? x->as.call.args[0].value : NULL;
}

static IrId slot_declare(Elab *e, const AstSlot *slot, const AstName *name, const char *full, IrType t, bool buffer)
{
    IrId id = tensor_new(e, full, IR_PARAM, t, name->span);
    IrTensor *tensor = &e->m->tensors.data[id];
    TensorInfo info = {.owner = slot, .buffer = buffer};
    if (!slot_layout(e, slot, tensor, &info)) tensor->n_stored = 0;
    if (slot->init && fit_argument(slot->init)) info.init = "zeros";
    else slot_init(e, slot->init, &info, tensor->n_stored);
    e->tensors.data[id] = info;
    return id;
}

/* What the function has set the buffer to so far, or NULL. */
static AfterValue *after_find(Elab *e, IrId tensor)
{
    for (uint32_t i = 0; i < e->after.n; i++)
        if (e->after.data[i].tensor == tensor) return &e->after.data[i];
    return NULL;
}

/* A second call of the same layer, or another mode: the same tensor with this call's dims. A buffer that an earlier
   call has set is read as that call left it. */
static Value slot_reuse(Elab *e, IrId id, const IrType *t, const char *full, Span s)
{
    const AfterValue *after = after_find(e, id);
    Value v = after ? after->value : tensor_value(e, id, s);
    bool fits = v.type.n_dims == t->n_dims && v.type.dtype == t->dtype && v.type.space == t->space;
    for (int i = 0; i < t->n_dims && fits; i++)
        fits = size_unify(&e->z, dim_size(e, v.type.dims[i]), dim_size(e, t->dims[i]), s);
    if (fits) return op_reshape(e, v, t->dims, t->n_dims);
    Diag *d = diag_error(e->d, E0201, s, "parameter `%s` is %s in this call, %s in an earlier one", full,
                         type_text(e, t), type_text(e, &v.type));
    diag_note(e->d, d, e->frame->call, "in this call");
    return value_error();
}

/* `source(r)`, `target(r)`: the word inside, and which of the two. */
static const char *end_of(Elab *e, const char *text, bool *target)
{
    size_t n = strlen(text);
    *target = !strncmp(text, "target(", 7);
    return n > 8 && text[n - 1] == ')' && (*target || !strncmp(text, "source(", 7))
               ? arena_strndup(e->a, text + 7, n - 8)
               : NULL;
}

/* What the static value of that name is in a stored name; NULL with a diagnostic. */
static const char *name_part(Elab *e, const char *name, Span s)
{
    bool target;
    const char *of = end_of(e, name, &target);
    if (of) name = of;
    Value v = scope_lookup(e, name, s);
    const Binding *b = scope_find(e->frame, name);
    const Relation *r = v.kind == V_GRAPH && v.word ? schema_relation(e, v.word) : NULL;
    if (r) return of ? relation_end(e, r, target) : r->name;
    if (of) {
        if (v.kind != V_ERROR)
            diag_error(e->d, E0304, s, "found %s, wanted a relation for `%s`", value_text(e, &v), name);
        return NULL;
    }
    if (v.kind == V_NUMBER && v.is_int) return arena_printf(e->a, "%.0f", v.num);
    if (v.kind == V_WORD && b) return v.word;
    if (v.kind == V_WORD) diag_error(e->d, E0301, s, "unknown name `%s` in a stored name", name);
    else if (v.kind != V_ERROR)
        diag_error(e->d, E0304, s, "found %s, wanted a whole number or a word for `{%s}`", value_text(e, &v), name);
    return NULL;
}

const char *stored_text(Elab *e, const char *as, Span s)
{
    StrBuf out = {.arena = e->a};
    for (const char *c = as; *c; c++) {
        const char *end = *c == '{' ? strchr(c, '}') : NULL;
        if (!end) {
            strbuf_printf(&out, "%c", *c);
            continue;
        }
        const char *part = name_part(e, arena_printf(e->a, "%.*s", (int)(end - c - 1), c + 1), s);
        if (!part) return NULL;
        strbuf_puts(&out, part);
        c = end;
    }
    return strbuf_cstr(&out);
}

/* The name in weight files, behind the instance's path. NULL with a diagnostic. */
static const char *local_name(Elab *e, const AstSlot *slot, const AstName *name)
{
    if (slot->stored_as) return stored_text(e, slot->stored_as, slot->stored_as_span);
    return *e->frame->turn ? arena_printf(e->a, "%s%s", e->frame->turn, name->text) : name->text;
}

/* Declares the slot, or finds it again, and binds its name. */
static void slot_bind(Elab *e, const AstSlot *slot, const AstName *name, IrType t, bool buffer)
{
    const char *local = local_name(e, slot, name);
    if (!local) {
        scope_set(e, name->text, value_error());
        return;
    }
    const char *full = arena_printf(e->a, "%s%s", e->frame->path, local);
    IrId id = tensor_find(e, full);
    bool twice = strmap_has(&e->frame->slots, local);
    strmap_put(&e->frame->slots, local, e);
    if (id != IR_NONE && (twice || e->tensors.data[id].owner != slot)) {
        Diag *d = diag_error(e->d, E0303, name->span, "two parameters are stored as `%s`", full);
        Span other = e->m->tensors.data[id].span;
        bool again = twice && other.source == name->span.source && other.begin == name->span.begin;
        if (!again) diag_note(e->d, d, other, "the other one");
        if (again)
            diag_help(e->d, d,
                      "each round of a loop makes one: put the loop's number in the name, `%s: ... as \"%s{k}\"`",
                      name->text, name->text);
        else diag_help(e->d, d, "give layers names of their own: `conv1 = my_layer(H = 8)`");
        scope_set(e, name->text, value_error());
        return;
    }
    if (id == IR_NONE) id = slot_declare(e, slot, name, full, t, buffer);
    e->tensors.data[id].local = local;
    if (buffer) VEC_PUSH(e->a, &e->frame->buffers, ((FrameBuffer){name->text, id, t}));
    scope_set(e, name->text, slot_reuse(e, id, &t, full, name->span));
}

/* What a parameter may have a row of: nodes, or edges that stand in a list, whose order is that of its rows in weight
   files. */
static bool has_listed_rows(Elab *e, IrId space)
{
    const IrGraph *g = graph_of_edges(e, space);
    return !e->m->spaces.data[space].is_edge ||
           (g && (g->kind == IR_GRAPH_DATA || g->kind == IR_GRAPH_RANDOM || ir_graph_is_read(g->kind)));
}

static void slot_one(Elab *e, const AstSlot *slot, const AstName *name, bool buffer)
{
    IrType t = ir_scalar(e->real);
    bool known = !slot->type || type_resolve(e, slot->type, &t);
    bool number = ir_dtype_is_float(t.dtype) || (buffer && t.dtype == IR_I64); /* a count, say: nothing trains it */
    bool rows = known && has_listed_rows(e, t.space);
    if (known && !number) {
        Diag *d = diag_error(e->d, E0206, slot->type->span, "%s: found %s",
                             buffer ? "a buffer holds floats or integers"
                                    : "a parameter is trained, so it holds floats",
                             type_text(e, &t));
        if (t.dtype == IR_I64) diag_help(e->d, d, "a `buffer` may hold integers");
    } else if (known && !rows) {
        Diag *d = diag_error(e->d, E0209, slot->type->span,
                             "a parameter has a row for each node, for each edge that the data list, or none: found %s",
                             type_text(e, &t));
        diag_help(e->d, d,
                  "edges that are made of others carry a value of those: `graph h = self_loops(g, keep, fill w = 1)`");
    }
    if (known && number && rows) slot_bind(e, slot, name, t, buffer);
    else scope_set(e, name->text, value_error());
}

/* ---- after-values ----------------------------------------------------------------------------- */

static const FrameBuffer *buffer_find(const Frame *f, const char *name)
{
    for (uint32_t i = f->buffers.n; i-- > 0;)
        if (!strcmp(f->buffers.data[i].name, name)) return &f->buffers.data[i];
    return NULL;
}

void buffer_assign(Elab *e, const char *name, Value *v, Span s)
{
    const FrameBuffer *b = buffer_find(e->frame, name);
    if (!b || v->kind == V_ERROR) return;
    if (!e->training) {
        Diag *d = diag_error(e->d, E0409, s, "buffer `%s` is set outside of train mode", name);
        diag_help(e->d, d, "set it under `if training { ... }`, or give the value another name");
        *v = value_error();
        return;
    }
    *v = coerce(e, *v, &b->type, arena_printf(e->a, "buffer `%s`", name), span_or(v->span, s));
    if (v->kind == V_ERROR) return;
    if (ir_dtype_is_float(v->type.dtype)) *v = op_unary(e, IR_OP_detach, *v, s);
    AfterValue *after = after_find(e, b->tensor);
    if (after) after->value = *v;
    else VEC_PUSH(e->a, &e->after, ((AfterValue){b->tensor, *v}));
}

void buffer_results(Elab *e, const char *prefix)
{
    for (uint32_t i = 0; i < e->after.n; i++) {
        const AfterValue *after = &e->after.data[i];
        const IrTensor *t = &e->m->tensors.data[after->tensor];
        Value v = coerce(e, after->value, &t->type, arena_printf(e->a, "buffer `%s`", t->name), t->span);
        if (v.kind != V_TENSOR) continue;
        const char *name = prefix ? arena_printf(e->a, "%s%s", prefix, t->name) : t->name;
        ir_result(e->m, e->f, name, v.id, prefix ? IR_NONE : after->tensor);
    }
}

/* ---- from outside ------------------------------------------------------------------------------ */

static bool slot_is(Elab *e, IrId tensor, const char *path, const char *name)
{
    const AstSlot *slot = e->tensors.data[tensor].owner;
    const char *full = e->m->tensors.data[tensor].name, *local = e->tensors.data[tensor].local;
    if (e->m->tensors.data[tensor].kind != IR_PARAM || !slot || !local ||
        strcmp(full, arena_printf(e->a, "%s%s", path, local)))
        return false;
    bool named = !strcmp(local, name);
    for (uint32_t i = 0; slot->stored_as && i < slot->names.n; i++) named |= !strcmp(slot->names.items[i].text, name);
    return named;
}

/* `first.W` of a layer that was called before: the parameter of that name, or stored under it. */
Value instance_slot(Elab *e, const Instance *it, const AstName *name)
{
    for (uint32_t i = 0; it->path && i < e->m->tensors.n; i++) {
        if (!slot_is(e, i, it->path, name->text)) continue;
        const AfterValue *after = after_find(e, i);
        return after ? after->value : tensor_value(e, i, name->span);
    }
    Diag *d = diag_error(e->d, E0204, name->span, "layer `%s` has no parameter `%s`", it->def->name, name->text);
    diag_help(e->d, d, "a layer has its parameters once it was called: read them behind the call");
    return value_error();
}

/* ---- statements ------------------------------------------------------------------------------- */

/* Slots stand in layers and models. Names that cannot be bound are poisoned. */
static bool check_owner(Elab *e, const AstSlot *slot, Span s)
{
    if (is_layer_frame(e)) return true;
    Diag *d = diag_error(e->d, E0310, s, "a parameter belongs to a layer or a model");
    diag_help(e->d, d, "make the definition a `layer`, or take the value as an argument");
    for (uint32_t i = 0; i < slot->names.n; i++) scope_set(e, slot->names.items[i].text, value_error());
    return false;
}

void elab_slot(Elab *e, const AstStmt *s)
{
    const AstSlot *slot = &s->as.slot;
    if (!check_owner(e, slot, s->span)) return;
    if (slot->stored_as && slot->names.n > 1) {
        diag_error(e->d, E0303, slot->stored_as_span, "several parameters cannot be stored under one name");
        return;
    }
    for (uint32_t i = 0; i < slot->names.n; i++) slot_one(e, slot, &slot->names.items[i], s->kind == AST_STMT_BUFFER);
}

void elab_fold_params(Elab *e, const AstFold *fold)
{
    for (uint32_t k = 0; k < fold->n_params; k++)
        for (uint32_t i = 0; i < fold->params[k].names.n; i++)
            slot_one(e, &fold->params[k], &fold->params[k].names.items[i], false);
}

/* `const d = fit(e)` is a buffer that each training step sets to e: what depends on data alone is computed once
   (pass hoist), and eval mode reads what was stored. */
static void const_fit(Elab *e, const AstSlot *slot, const AstExpr *of, Span s)
{
    const AstName *name = &slot->names.items[0];
    Value v = to_tensor(e, elab_expr(e, of), e->real, of->span);
    if (slot->type) v = coerce_declared(e, v, slot->type, arena_printf(e->a, "`%s`", name->text), of->span);
    bool fits = v.kind == V_TENSOR && v.type.space == IR_UNIT && ir_dtype_is_float(v.type.dtype);
    if (v.kind == V_TENSOR && !fits) {
        Diag *d = diag_error(e->d, E0212, of->span, "`fit` wants floats that are the same everywhere, found %s",
                             value_text(e, &v));
        diag_help(e->d, d, "reduce it: `fit(mean_all(...))`");
    }
    if (!fits) {
        scope_set(e, name->text, value_error());
        return;
    }
    slot_bind(e, slot, name, v.type, true);
    if (!e->training || scope_find(e->frame, name->text)->value.kind == V_ERROR) return;
    buffer_assign(e, name->text, &v, s);
    scope_set(e, name->text, v);
}

/* `const d = e`: a static value; `const d = fit(e)`: computed from training data and stored with the weights. */
void elab_const(Elab *e, const AstStmt *s)
{
    const AstSlot *slot = &s->as.slot;
    if (slot->names.n != 1 || !slot->init) {
        diag_error(e->d, E0302, s->span, "wanted `const name = value`");
        return;
    }
    const AstExpr *of = fit_argument(slot->init);
    if (!of) scope_set(e, slot->names.items[0].text, const_value(e, slot));
    else if (check_owner(e, slot, s->span)) const_fit(e, slot, of, s->span);
}

Value const_value(Elab *e, const AstSlot *slot)
{
    const AstName *name = &slot->names.items[0];
    if (fit_argument(slot->init)) {
        diag_error(e->d, E0310, slot->init->span, "`fit` stands in a layer, which stores what it gives");
        return value_error();
    }
    Value v = elab_expr(e, slot->init);
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    if (v.kind == V_ERROR || (value_is_static(&v) && !slot->type && !slot->stored_as)) return v;
    Diag *d = diag_error(e->d, E0304, slot->init->span, "const `%s` is %s, wanted a value known at compile time",
                         name->text, value_text(e, &v));
    diag_help(e->d, d, "`fit(...)` is computed from the training data and stored with the weights");
    return value_error();
}
