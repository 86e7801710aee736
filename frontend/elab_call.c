/* Calls: binding arguments, running a definition's body in a frame of its own, instances of layers. */
#include "frontend/sema.h"

/* ---- names of instances ------------------------------------------------------------------------------------------ */

/* Whose names they are: those of the layer at hand. Functions and reducers own none, and two calls of one must not
   share parameters. */
static Frame *owner_of(const Elab *e)
{
    Frame *f = e->frame;
    while (f->caller && f->def && f->def->decl->kind != AST_DECL_LAYER && f->def->decl->kind != AST_DECL_MODEL)
        f = f->caller;
    return f;
}

static void child_claim(Elab *e, const char *name, const Instance *it, Span s)
{
    StrMap *children = &owner_of(e)->children;
    const Instance *other = strmap_get(children, name);
    if (!other) {
        strmap_put(children, name, (void *)(uintptr_t)it);
        return;
    }
    if (other == it) return;
    Diag *d = diag_error(e->d, E0303, s, "two layers are named `%s`; their parameters would share names", name);
    if (other->span.source) diag_note(e->d, d, other->span, "the other one");
}

void instance_name(Elab *e, Value *v, const char *name)
{
    instance_name_as(e, v, arena_printf(e->a, "%s%s", e->frame->turn, name));
}

void instance_name_as(Elab *e, Value *v, const char *name)
{
    const Def *def = e->frame->def; /* functions own no layers: whoever called them names what they give */
    if (def && (def->decl->kind == AST_DECL_FN || def->decl->kind == AST_DECL_MESSAGE)) return;
    if (v->kind == V_LIST || v->kind == V_TUPLE) {
        for (uint32_t i = 0; i < v->n; i++) {
            Value item = v->items[i];
            instance_name_as(e, &item, arena_printf(e->a, "%s.%u", name, i));
        }
        return;
    }
    for (uint32_t i = 0; v->kind == V_RECORD && i < v->n; i++) {
        Value item = v->items[i];
        instance_name_as(e, &item, arena_printf(e->a, "%s.%s", name, v->keys[i]));
    }
    if (v->kind != V_INSTANCE || v->instance->path) return;
    child_claim(e, name, v->instance, v->span);
    v->instance->path = arena_printf(e->a, "%s%s.", e->frame->path, name);
}

static Instance *instance_new(Elab *e, const Def *def, const BoundArg *args, uint32_t n, Span s)
{
    Instance *it = ARENA_NEW(e->a, Instance);
    *it = (Instance){.def = def, .args = args, .n_args = n, .span = s};
    return it;
}

/* gat1, gat2, ... in the order of calls in this frame. */
static const char *fresh_path(Elab *e, const Def *def, Span s)
{
    StrMap *fresh = &owner_of(e)->fresh;
    const char *word = arena_printf(e->a, "%s%s", e->frame->turn, def->name);
    uint32_t *k = strmap_get(fresh, word);
    if (!k) strmap_put(fresh, word, k = ARENA_NEW(e->a, uint32_t));
    const char *name = arena_printf(e->a, "%s%u", word, ++*k);
    child_claim(e, name, instance_new(e, def, NULL, 0, s), s);
    return arena_printf(e->a, "%s%s.", e->frame->path, name);
}

/* ---- binding arguments ------------------------------------------------------------------------------------------- */

typedef struct Filled { /* what each parameter of a signature gets */
    Value *values;
    bool *given;
    VEC(BoundArg) dims; /* `O = 16` for a dim of the signature */
} Filled;

static bool expr_names_dim(const AstExpr *x, const char *name)
{
    if (x->kind == AST_EXPR_NAME) return !strcmp(x->as.name.text, name);
    if (x->kind == AST_EXPR_BINARY)
        return expr_names_dim(x->as.binary.left, name) || expr_names_dim(x->as.binary.right, name);
    return false;
}

static bool type_names_dim(const AstType *t, const char *name)
{
    if (!t) return false;
    for (uint32_t i = 0; i < t->dims.n; i++)
        if (expr_names_dim(t->dims.items[i], name)) return true;
    for (uint32_t i = 0; i < t->n_items; i++)
        if (type_names_dim(t->items[i], name)) return true;
    return t->classes && expr_names_dim(t->classes, name);
}

static bool signature_has_dim(const AstSignature *sig, const char *name)
{
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (type_names_dim(sig->params[i].type, name)) return true;
    return type_names_dim(sig->result, name);
}

static void add_name(StrBuf *out, const char *name)
{
    const char *text = arena_printf(out->arena, "`%s`", name);
    if (out->n && strstr(out->data, text)) return;
    strbuf_printf(out, "%s%s", out->n ? ", " : "", text);
}

/* "`x`, `bias`, `init`, `O`": what a call may name. */
static const char *argument_list(Elab *e, const AstSignature *sig)
{
    StrBuf out = {.arena = e->a};
    for (uint32_t i = 0; i < sig->n_params; i++) add_name(&out, sig->params[i].name.text);
    for (uint32_t i = 0; sig->result && i < sig->result->dims.n; i++)
        if (sig->result->dims.items[i]->kind == AST_EXPR_NAME) add_name(&out, sig->result->dims.items[i]->as.name.text);
    return out.n ? strbuf_cstr(&out) : "no arguments";
}

static bool fill_named(Elab *e, const Def *def, const AstSignature *sig, Filled *f, const char *name, Value v, Span s)
{
    for (uint32_t i = 0; i < sig->n_params; i++) {
        if (strcmp(sig->params[i].name.text, name)) continue;
        if (f->given[i]) return diag_error(e->d, E0302, s, "`%s` is given twice", name), false;
        f->given[i] = true;
        f->values[i] = v;
        return true;
    }
    if (signature_has_dim(sig, name)) {
        for (uint32_t i = 0; i < f->dims.n; i++)
            if (!strcmp(f->dims.data[i].name, name))
                return diag_error(e->d, E0302, s, "`%s` is given twice", name), false;
        VEC_PUSH(e->a, &f->dims, ((BoundArg){name, memcpy(ARENA_NEW(e->a, Value), &v, sizeof v)}));
        return true;
    }
    const char **names = ARENA_ARRAY(e->a, const char *, sig->n_params + 1);
    for (uint32_t i = 0; i < sig->n_params; i++) names[i] = sig->params[i].name.text;
    Diag *d = diag_error(e->d, E0302, s, "%s `%s` has no argument `%s`", def_kind(def), def->name, name);
    if (!diag_suggest(e->d, d, name_span(s, name), name, names, sig->n_params))
        diag_help(e->d, d, "it has %s", argument_list(e, sig));
    return false;
}

static bool is_row_scalar(const AstType *t) { return t->space.text && !t->dims.n; }

/* A static value skips arguments of a domain: `mlp(64)` gives the width, not x. Where no other argument is left
   (`late`), a number goes to the first that takes one value per row. */
static bool takes(const Def *def, const AstParam *p, const Value *v, bool late)
{
    bool layer = def->decl->kind == AST_DECL_LAYER || def->decl->kind == AST_DECL_MODEL;
    if (v->kind == V_RECORD && p->type) return type_is_by_type(p->type);
    bool number = v->kind == V_NUMBER || v->kind == V_DIM || v->kind == V_BOOL;
    return !layer || !p->type || !p->type->space.text || !value_is_static(v) || v->kind == V_TUPLE ||
           v->kind == V_NONE || (late && number && is_row_scalar(p->type));
}

static bool fill_positional(Elab *e, const Def *def, const AstSignature *sig, Filled *f, Value v, Span s)
{
    for (uint32_t i = 0; i < 2 * sig->n_params; i++) {
        uint32_t k = i % sig->n_params;
        if (f->given[k] || !takes(def, &sig->params[k], &v, i != k)) continue;
        f->given[k] = true;
        f->values[k] = v;
        return true;
    }
    Diag *d = diag_error(e->d, E0302, s, "too many arguments for %s `%s`, which takes %u", def_kind(def), def->name,
                         sig->n_params);
    diag_note(e->d, d, def->decl->name.span, "defined here");
    return false;
}

static bool fill_args(Elab *e, const Def *def, const AstSignature *sig, const BoundArg *bound, uint32_t n_bound,
                      const Call *c, Filled *f)
{
    f->values = ARENA_ARRAY(e->a, Value, sig->n_params + 1);
    f->given = ARENA_ARRAY(e->a, bool, sig->n_params + 1);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->args[i].value.kind == V_ERROR) return false;
    for (uint32_t i = 0; i < n_bound; i++) { /* of an instance; a call may override */
        bool again = false;
        for (uint32_t k = 0; k < c->n; k++) again |= c->args[k].name && !strcmp(c->args[k].name, bound[i].name);
        if (!again && !fill_named(e, def, sig, f, bound[i].name, *bound[i].value, c->span)) return false;
    }
    for (int named = 0; named < 2; named++)
        for (uint32_t i = 0; i < c->n; i++) {
            const CallArg *a = &c->args[i];
            Span s = a->ast ? a->ast->span : c->span;
            if ((a->name != NULL) != named) continue;
            if (named ? !fill_named(e, def, sig, f, a->name, a->value, s)
                      : !fill_positional(e, def, sig, f, a->value, s))
                return false;
        }
    return true;
}

/* The first argument that has neither a value nor a default, or NULL. */
static const AstParam *missing(const AstSignature *sig, const Filled *f)
{
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (!f->given[i] && !sig->params[i].init) return &sig->params[i];
    return NULL;
}

/* ---- running a body ---------------------------------------------------------------------------------------------- */

static void declare_expr(Elab *e, const AstExpr *x)
{
    if (x->kind == AST_EXPR_NAME) strmap_put(&e->frame->declared, x->as.name.text, e);
    if (x->kind == AST_EXPR_BINARY) declare_expr(e, x->as.binary.left), declare_expr(e, x->as.binary.right);
}

static void declare_type(Elab *e, const AstType *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->dims.n; i++) declare_expr(e, t->dims.items[i]);
    for (uint32_t i = 0; i < t->n_items; i++) declare_type(e, t->items[i]);
    if (t->classes) declare_expr(e, t->classes);
}

void declare_signature(Elab *e, const AstSignature *sig)
{
    for (uint32_t i = 0; i < sig->n_params; i++) declare_type(e, sig->params[i].type);
    declare_type(e, sig->result);
}

static bool bind_param(Elab *e, const Def *def, const AstParam *p, const Filled *f, uint32_t i)
{
    Value v = f->given[i] ? f->values[i] : elab_expr(e, p->init);
    bool none = v.kind == V_NONE && (p->type || p->init);
    if (p->type && !none) {
        const char *what = arena_printf(e->a, "argument `%s` of %s", p->name.text, def->name);
        v = coerce_declared(e, v, p->type, what, f->given[i] && v.span.source ? v.span : p->span);
        if (v.kind == V_ERROR) return false;
    }
    if (v.kind == V_WORD && f->given[i] == false && v.word && !p->init) return false;
    const char *name = p->stored_as ? stored_text(e, p->stored_as, p->span) : p->name.text;
    if (name) instance_name(e, &v, name);
    scope_set(e, p->name.text, v);
    return name != NULL;
}

/* Static arguments first: the dims of types may be named by them. */
static bool bind_params(Elab *e, const Def *def, const AstSignature *sig, const Filled *f)
{
    bool ok = true;
    for (uint32_t i = 0; i < f->dims.n; i++) scope_set(e, f->dims.data[i].name, *f->dims.data[i].value);
    for (int typed = 0; typed < 2; typed++)
        for (uint32_t i = 0; i < sig->n_params; i++)
            if ((sig->params[i].type != NULL) == typed) ok &= bind_param(e, def, &sig->params[i], f, i);
    return ok;
}

static bool frame_owns_dim(const Frame *f, IrId dim)
{
    for (const Symbol *s = f->dims; s; s = s->next)
        if (s->id == dim && s->own) return true;
    return false;
}

/* A result's dim that was given by the caller's takes the caller's name; `callee` has returned it. */
static Value to_caller_dims(Elab *e, const Frame *callee, Value v)
{
    if (v.kind == V_TUPLE || v.kind == V_RECORD) {
        Value *items = ARENA_ARRAY(e->a, Value, v.n + 1);
        for (uint32_t i = 0; i < v.n; i++) items[i] = to_caller_dims(e, callee, v.items[i]);
        v.items = items;
    }
    if (v.kind != V_TENSOR) return v;
    IrId dims[IR_MAX_DIMS];
    for (int i = 0; i < v.type.n_dims; i++) {
        IrId origin = frame_owns_dim(callee, v.type.dims[i]) ? e->dims.data[v.type.dims[i]].origin : IR_NONE;
        bool taken = origin == IR_NONE || ir_type_has_dim(&v.type, origin);
        for (int k = 0; k < i && !taken; k++) taken = dims[k] == origin;
        dims[i] = taken ? v.type.dims[i] : origin;
    }
    const Size *classes = v.classes;
    v = op_reshape(e, v, dims, v.type.n_dims);
    v.classes = classes;
    return v;
}

/* Of errors that came to one place with one code, the first stays. */
static void drop_repeated(Diags *d, uint32_t from)
{
    uint32_t n = from;
    for (uint32_t i = from; i < d->list.n; i++) {
        const Diag *it = d->list.data[i];
        bool again = false;
        for (uint32_t k = 0; k < n && !again; k++) {
            const Diag *old = d->list.data[k];
            again = old->code == it->code && old->span.source == it->span.source && old->span.begin == it->span.begin;
        }
        if (again) d->n_errors--;
        else d->list.data[n++] = d->list.data[i];
    }
    d->list.n = n;
}

/* What went wrong inside the library is shown at the call that a user wrote. */
void note_expansion(Elab *e, const Def *def, Span call, uint32_t from)
{
    for (uint32_t i = from; i < e->d->list.n; i++) {
        Diag *d = e->d->list.data[i];
        bool inside = d->span.source == call.source && d->span.begin >= call.begin && d->span.end <= call.end;
        if (inside) continue;
        if (!diag_std_span(e, d->span)) {
            diag_note(e->d, d, call, "in this call of `%s`", def->name);
            continue;
        }
        diag_note(e->d, d, d->span, "here in `%s` of the standard library", def->name);
        d->span = call;
    }
    drop_repeated(e->d, from);
}

/* A nameless dim of the caller's leaves under the name that the result declares for it. */
static Value label_dims(Elab *e, Value v)
{
    if (v.kind != V_TENSOR) return v;
    IrId dims[IR_MAX_DIMS];
    for (int i = 0; i < v.type.n_dims; i++) {
        dims[i] = v.type.dims[i];
        if (e->dims.data[dims[i]].label) continue;
        for (const Symbol *s = e->frame->dims; s && dims[i] == v.type.dims[i]; s = s->next)
            if (s->id == dims[i]) dims[i] = dim_new(e, s->name, dim_size(e, s->id), e->frame->call);
    }
    const Size *classes = v.classes;
    v = op_reshape(e, v, dims, v.type.n_dims);
    v.classes = classes;
    return v;
}

const Value *arguments_of(Elab *e, const AstSignature *sig)
{
    Value *given = ARENA_ARRAY(e->a, Value, sig->n_params + 1);
    for (uint32_t i = 0; i < sig->n_params; i++) {
        const Binding *b = scope_find(e->frame, sig->params[i].name.text);
        if (b) given[i] = b->value;
    }
    return given;
}

static Value run_body(Elab *e, const Def *def)
{
    const AstFunction *fn = &def->decl->as.function;
    Frame *f = e->frame;
    const Value *given = arguments_of(e, &fn->sig);
    if (fn->expr) f->result = elab_expr(e, fn->expr);
    else if (!f->returned) {
        Value last = elab_block(e, &fn->body);
        if (!f->returned) f->result = last;
    }
    Value v = f->result;
    if (v.kind == V_WORD && fn->sig.result) return error_unknown_name(e, v.word, v.span), value_error();
    if (v.kind == V_NONE && fn->sig.result) {
        diag_error(e->d, E0310, def->decl->name.span, "%s `%s` returns nothing", def_kind(def), def->name);
        return value_error();
    }
    if (fn->sig.result && v.kind != V_ERROR)
        v = coerce_declared(e, v, fn->sig.result, arena_printf(e->a, "the result of %s", def->name),
                            span_or(v.span, def->decl->name.span));
    v = fn->sig.result ? label_dims(e, v) : v;
    return f->adjoint ? adjoint_attach(e, &fn->sig, given, v, NULL) : v;
}

static Value call_filled(Elab *e, const Def *def, const Filled *f, Span call, const char *path)
{
    uint32_t from = e->d->list.n;
    const Def *caller = e->frame ? e->frame->def : NULL;
    Frame *frame = frame_push(e, def, call);
    if (path) frame->path = path, frame->turn = "";
    bool model = def->decl->kind == AST_DECL_MODEL;
    if (model || e->top_def == def) frame->new_dims = DIMS_FREE;
    const AstSignature *sig = &def->decl->as.function.sig;
    declare_signature(e, sig);
    Value v = !frame->returned && bind_params(e, def, sig, f) ? run_body(e, def) : value_error();
    frame_pop(e);
    if (def->is_std && caller && !caller->is_std) note_expansion(e, def, call, from);
    if (v.kind == V_TENSOR || v.kind == V_TUPLE || v.kind == V_RECORD) v = to_caller_dims(e, frame, v);
    v.span = call;
    return v;
}

/* `leaky_relu(slope = 0.3)` is a function that still wants x; `relu()` lacks it. */
static bool options_alone(const Call *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (!c->args[i].name || !value_is_static(&c->args[i].value)) return false;
    return c->n > 0;
}

/* A layer or a function that waits for its input. */
static Value waiting(Elab *e, const Def *def, const AstSignature *sig, const Filled *f, Span s)
{
    VEC(BoundArg) args = {0};
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (f->given[i]) VEC_PUSH(e->a, &args, ((BoundArg){sig->params[i].name.text, &f->values[i]}));
    for (uint32_t i = 0; i < f->dims.n; i++) VEC_PUSH(e->a, &args, f->dims.data[i]);
    if (def->decl->kind == AST_DECL_FN || def->decl->kind == AST_DECL_MESSAGE)
        return (Value){.kind = V_DEF,
                       .def = def,
                       .word = def->name,
                       .args = args.data,
                       .n_args = args.n,
                       .span = s,
                       .dim = IR_NONE};
    Instance *it = instance_new(e, def, args.data, args.n, s);
    return (Value){.kind = V_INSTANCE, .instance = it, .span = s, .dim = IR_NONE};
}

Value call_def(Elab *e, const Def *def, const BoundArg *bound, uint32_t n_bound, const Call *c, const char *path)
{
    const AstSignature *sig = &def->decl->as.function.sig;
    Filled f = {0};
    ((Def *)(uintptr_t)def)->used = true;
    if (!fill_args(e, def, sig, bound, n_bound, c, &f)) return value_error();
    bool layer = def->decl->kind == AST_DECL_LAYER || def->decl->kind == AST_DECL_MODEL;
    const AstParam *lacks = missing(sig, &f);
    if (lacks && !path && (layer || options_alone(c))) return waiting(e, def, sig, &f, c->span);
    if (lacks) {
        Diag *d = diag_error(e->d, E0302, c->span, "%s `%s` wants argument `%s`", def_kind(def), def->name,
                             lacks->name.text);
        diag_note(e->d, d, lacks->span, "declared here");
        return value_error();
    }
    if (layer && !path) path = def->decl->kind == AST_DECL_MODEL ? "" : fresh_path(e, def, c->span);
    return call_filled(e, def, &f, c->span, path);
}

bool frame_enter(Elab *e, const Def *def, const AstSignature *sig, const BoundArg *bound, uint32_t n_bound,
                 const Call *c)
{
    Filled f = {0};
    ((Def *)(uintptr_t)def)->used = true;
    if (!fill_args(e, def, sig, bound, n_bound, c, &f)) return false;
    const AstParam *lacks = missing(sig, &f);
    if (lacks) {
        Diag *d = diag_error(e->d, E0302, c->span, "%s `%s` wants argument `%s`", def_kind(def), def->name,
                             lacks->name.text);
        diag_note(e->d, d, lacks->span, "declared here");
        return false;
    }
    const char *path = def->decl->as.fold.n_params ? fresh_path(e, def, c->span) : e->frame ? e->frame->path : "";
    Frame *frame = frame_push(e, def, c->span);
    frame->path = path;
    if (def->decl->as.fold.n_params) frame->turn = "";
    frame->reduce_from = e->reduce_from;
    frame->reduce_to = e->reduce_to;
    e->reduce_from = e->reduce_to = IR_NONE;
    declare_signature(e, sig);
    if (!frame->returned && bind_params(e, def, sig, &f)) return true;
    frame_pop(e);
    return false;
}

/* A copy of a value in which every layer is a new instance of the same definition, with parameters of its own and no
   name yet. */
static Value copy_layers(Elab *e, const Value *v)
{
    Value out = *v;
    if (v->kind == V_LIST || v->kind == V_TUPLE || v->kind == V_RECORD) {
        Value *items = ARENA_ARRAY(e->a, Value, v->n + 1);
        for (uint32_t i = 0; i < v->n; i++) items[i] = copy_layers(e, &v->items[i]);
        out.items = items;
    }
    if (v->kind != V_INSTANCE) return out;
    BoundArg *args = ARENA_ARRAY(e->a, BoundArg, v->instance->n_args + 1);
    for (uint32_t i = 0; i < v->instance->n_args; i++) {
        Value *value = ARENA_NEW(e->a, Value);
        *value = copy_layers(e, v->instance->args[i].value);
        args[i] = (BoundArg){v->instance->args[i].name, value};
    }
    out.instance = instance_new(e, v->instance->def, args, v->instance->n_args, v->span);
    return out;
}

/* The layer with an argument more, if it takes one of that name and has none yet. */
static void bind_more(Elab *e, Instance *it, const CallArg *a)
{
    const AstSignature *sig = &it->def->decl->as.function.sig;
    bool takes = signature_has_dim(sig, a->name);
    for (uint32_t i = 0; i < sig->n_params; i++) takes |= !strcmp(sig->params[i].name.text, a->name);
    for (uint32_t i = 0; i < it->n_args; i++) takes &= strcmp(it->args[i].name, a->name) != 0;
    if (!takes || a->value.kind == V_NONE) return;
    BoundArg *args = ARENA_ARRAY(e->a, BoundArg, it->n_args + 1);
    for (uint32_t i = 0; i < it->n_args; i++) args[i] = it->args[i];
    args[it->n_args++] = (BoundArg){a->name, &a->value};
    it->args = args;
}

/* fresh(conv, O = 8, e = e): a layer like conv that has parameters of its own. It has those of the named arguments that
   conv takes and has no value for; what is none is left out. In a list the last layer gets them. */
Value builtin_fresh(Elab *e, const Call *c)
{
    bool ok = c->n && !c->args[0].name;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->args[i].value.kind == V_ERROR) return value_error();
    for (uint32_t i = 1; i < c->n; i++) ok &= c->args[i].name && !c->args[i].word;
    Value v = ok ? copy_layers(e, &c->args[0].value) : value_none(c->span), *last = &v;
    bool layer = v.kind == V_DEF && v.def && v.def->decl->kind == AST_DECL_LAYER;
    if (layer) {
        ((Def *)(uintptr_t)v.def)->used = true;
        v = (Value){.kind = V_INSTANCE, .instance = instance_new(e, v.def, v.args, v.n_args, c->span), .dim = IR_NONE};
    }
    for (uint32_t i = 0; v.kind == V_LIST && i < v.n; i++)
        if (v.items[i].kind == V_INSTANCE) last = (Value *)(uintptr_t)&v.items[i];
    for (uint32_t i = 1; last->kind == V_INSTANCE && i < c->n; i++) bind_more(e, last->instance, &c->args[i]);
    v.span = c->span;
    if (v.kind == V_INSTANCE || v.kind == V_LIST || v.kind == V_DEF) return v;
    if (ok && c->args[0].value.kind == V_WORD) error_unknown_name(e, c->args[0].value.word, c->args[0].value.span);
    else diag_error(e->d, E0302, c->span, "wanted `fresh(conv, O = 8)`, of a layer and arguments by name");
    return value_error();
}

static Value call_instance(Elab *e, Value v, const Call *c)
{
    Instance *it = v.instance;
    if (!it->path) it->path = fresh_path(e, it->def, c->span);
    return call_def(e, it->def, it->args, it->n_args, c, it->path);
}

/* An argument that is a reducer or a list of them, else the definition of that name: a variable `mean` does not hide
   `mean_in`. */
static Value reducer_named(Elab *e, const char *name, Span s)
{
    const Binding *var = scope_find(e->frame, name);
    Def *def = def_find(e, &e->folds, name);
    bool other = var && var->value.kind != V_DEF && var->value.kind != V_WORD && var->value.kind != V_LIST &&
                 var->value.kind != V_INSTANCE;
    if (var && !(other && def)) return var->value;
    return (Value){.kind = V_DEF, .def = def, .word = name, .span = s, .dim = IR_NONE};
}

static Value call_named(Elab *e, const Value *v, const Call *c)
{
    AstDeclKind kind = v->def ? v->def->decl->kind : AST_DECL_TEST;
    if (kind == AST_DECL_MESSAGE || kind == AST_DECL_FN || kind == AST_DECL_LAYER || kind == AST_DECL_MODEL)
        return call_def(e, v->def, v->args, v->n_args, c, NULL);
    Builtin b = builtin_find(v->word);
    if (b) return b(e, c);
    const char *reducer;
    ReduceWhere where;
    if (!v->def && reduce_name_split(e, v->word, &reducer, &where)) {
        Value r = reducer_named(e, reducer, c->span);
        return call_reduce(e, &r, where, c);
    }
    Diag *d = diag_error(e->d, E0306, c->span, "%s cannot be called like this", value_text(e, v));
    note_value(e, d, v);
    if (kind == AST_DECL_REDUCE)
        diag_help(e->d, d,
                  "say what is reduced: `%s_in(m)` (edges into each node), `%s_out`, `%s_all`, "
                  "`readout_%s`",
                  v->word, v->word, v->word, v->word);
    return value_error();
}

/* [linear(O = 16), relu, linear()]: one after another. The call's arguments go to the first; those
   for dims, such as O = 4, to the last layer, whose result is the list's. */
static Value call_list(Elab *e, const Value *list, const Call *c)
{
    uint32_t last = list->n;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->items[i].kind == V_INSTANCE) last = i;
    CallArg *now = ARENA_ARRAY(e->a, CallArg, c->n + 1);
    Value v = c->args[0].value;
    for (uint32_t i = 0; i < list->n && v.kind != V_ERROR; i++) {
        uint32_t n = 1;
        now[0] = (CallArg){.value = v, .ast = c->args[0].ast};
        for (uint32_t k = 1; k < c->n; k++)
            if (c->args[k].name ? i == last : i == 0) now[n++] = c->args[k];
        v = call_value(e, list->items[i], &(Call){.ast = c->ast, .span = c->span, .args = now, .n = n});
    }
    return v;
}

Value call_value(Elab *e, Value v, const Call *c)
{
    switch (v.kind) {
    case V_ERROR: return v;
    case V_LIST:
        if (c->n && !c->args[0].name) return call_list(e, &v, c);
        diag_error(e->d, E0302, c->span, "a list of layers wants the value to begin with first");
        return value_error();
    case V_DEF: return call_named(e, &v, c);
    case V_INSTANCE: return call_instance(e, v, c);
    case V_WORD: {
        const Def *update = e->test ? def_find(e, &e->optimizers, v.word) : NULL;
        if (update) return update_in_test(e, update, c);
        return error_unknown_name(e, v.word, v.span), value_error();
    }
    default:
        note_value(e, diag_error(e->d, E0306, span_or(v.span, c->span), "%s cannot be called", value_text(e, &v)), &v);
        return value_error();
    }
}

Value elab_call(Elab *e, const AstExpr *x)
{
    CallArg *args = ARENA_ARRAY(e->a, CallArg, x->as.call.n_args + 1);
    Value callee = elab_expr(e, x->as.call.callee);
    for (uint32_t i = 0; i < x->as.call.n_args; i++) {
        const AstArg *a = &x->as.call.args[i];
        args[i] = (CallArg){.name = a->name.text, .word = a->word.text, .value = elab_expr(e, a->value), .ast = a};
        if (a->by) {
            Diag *d = diag_error(e->d, E0302, a->by->span, "an argument takes no `by`");
            diag_help(e->d, d, "`sum_in(m, by = rel)` has a key; `select` and `knn` go by the graphs of a batch");
        }
        if (a->on) diag_error(e->d, E0404, a->on->span, "`on` limits an option of an optimizer, in a train block");
    }
    return call_value(e, callee, &(Call){.ast = x, .span = x->span, .args = args, .n = x->as.call.n_args});
}
