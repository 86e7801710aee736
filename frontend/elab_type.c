/* Declared types: what they say in the current frame, and making a value fit one. Fitting renames
   dims (a reshape), reorders them, leaves out or puts in dims of size 1; it never changes a number.
 */
#include "frontend/sema.h"

static bool resolve_dtype(Elab *e, AstDtype t, IrDtype *out)
{
    static const IrDtype dtypes[] = {
        [AST_INT] = IR_I64, [AST_BOOL] = IR_BOOL, [AST_INDEX] = IR_I64, [AST_F32] = IR_F32, [AST_F64] = IR_F64};
    *out = t == AST_FLOAT ? e->real : dtypes[t];
    return true;
}

static IrId domain_find(const Frame *f, const char *name)
{
    for (const Symbol *s = f->domains; s; s = s->next)
        if (!strcmp(s->name, name)) return s->id;
    return IR_NONE;
}

void domain_bind(Elab *e, const char *name, IrId space)
{
    Symbol *s = ARENA_NEW(e->a, Symbol);
    *s = (Symbol){name, space, e->frame->domains, false};
    e->frame->domains = s;
}

static bool resolve_space(Elab *e, const AstType *t, IrId *out)
{
    *out = IR_UNIT;
    if (!t->space.text) return true;
    if (t->domain_var) return *out = domain_find(e->frame, t->space.text), true;
    const GraphValue *g = e->frame->graph;
    if (e->frame->reduce_from != IR_NONE && !t->of.n) { /* a reducer works between any two spaces */
        if (!strcmp(t->space.text, "edge")) return *out = e->frame->reduce_from, true;
        if (!strcmp(t->space.text, "node")) return *out = e->frame->reduce_to, true;
    }
    if (type_is_by_type(t)) {
        bool edges = !strcmp(t->space.text, "edge");
        Diag *d = diag_error(e->d, E0212, t->span, "found the type of a record, wanted the type of one value");
        diag_help(e->d, d,
                  edges ? "`forall r into all { ... edge(r) ... }` goes over relations"
                        : "`forall t { ... node(t) ... }` goes over types");
        return false;
    }
    if (t->of.n) {
        Value v = elab_expr(e, t->of.items[0]);
        if (v.kind == V_ERROR) return false;
        const NodeType *type = v.word && !strcmp(t->space.text, "node") ? schema_type(e, v.word) : NULL;
        const Relation *r = v.kind == V_WORD && strcmp(t->space.text, "node") ? schema_relation(e, v.word) : NULL;
        if (r) v = relation_value(e, r, t->span);
        if (v.kind == V_ERROR) return false;
        if (t->of.n == 1 && type && v.kind != V_GRAPH) return type_space(e, type, t->span, out);
        if (v.kind != V_GRAPH || t->of.n > 1) {
            if (t->of.n > 1 || !v.word)
                diag_error(e->d, E0209, t->span, "`%s(...)` is of one type, relation or graph", t->space.text);
            else if (!strcmp(t->space.text, "node")) error_no_type(e, v.word, t->of.items[0]->span);
            else error_no_relation(e, v.word, t->of.items[0]->span);
            return false;
        }
        g = v.graph;
    }
    return space_find(e, t->space.text, t->space.span, g, out);
}

static bool is_std_frame(const Elab *e) { return e->frame->def && e->frame->def->is_std; }

/* The dim that dims[i] names if it is known already, else IR_NONE with its name. */
static bool pattern_dim(Elab *e, const AstExpr *x, IrId *dim, const char **name)
{
    *dim = IR_NONE;
    *name = NULL;
    if (x->kind != AST_EXPR_NAME) {
        const Size *size = size_of_expr(e, x);
        int64_t n;
        if (size && size_value(&e->z, size, &n) && n <= 0) {
            diag_error(e->d, E0211, x->span, "this dim has size %lld, wanted at least 1", (long long)n);
            return false;
        }
        if (size) *dim = dim_new(e, NULL, size, x->span);
        return size != NULL;
    }
    *name = x->as.name.text;
    const Binding *b = scope_find(e->frame, *name);
    for (const Symbol *s = e->frame->dims; s; s = s->next)
        if (!strcmp(s->name, *name)) *dim = s->id;
    size_t n = strlen(*name);
    bool primed = n && (*name)[n - 1] == '\'';
    bool at_once = primed || e->frame->new_dims != DIMS_HOLE || (b && b->value.kind != V_NONE) ||
                   (!is_std_frame(e) && strmap_has(&e->constants, *name));
    if (*dim == IR_NONE && at_once) *dim = dim_symbol(e, *name, x->span);
    return true;
}

static bool is_one(const AstExpr *x)
{
    return x->kind == AST_EXPR_NUMBER && x->as.number.is_int && x->as.number.int_value == 1;
}

bool type_has_rest(const AstType *t)
{
    for (uint32_t i = 0; t && i < t->dims.n; i++)
        if (t->dims.items[i]->kind == AST_EXPR_REST) return true;
    return false;
}

static bool pattern_push(Elab *e, IrType *t, const char **names, IrId dim, const char *name, Span s)
{
    if (t->n_dims == IR_MAX_DIMS) {
        diag_error(e->d, E0202, s, "a value has at most %d dims", IR_MAX_DIMS);
        return false;
    }
    for (int k = 0; k < t->n_dims; k++) {
        bool same = dim != IR_NONE ? t->dims[k] == dim
                                   : t->dims[k] == IR_NONE && name && names[k] && !strcmp(names[k], name);
        if (!same) continue;
        Diag *d = diag_error(e->d, E0210, s, "dim `%s` stands twice in one type", name ? name : "...");
        if (name) diag_help(e->d, d, "prime the second: `%s'` is another dim of the same size", name);
        return false;
    }
    names[t->n_dims] = name;
    t->dims[t->n_dims++] = dim;
    return true;
}

static bool pattern_rest(Elab *e, int n_rest, IrType *t, const char **names, Span s)
{
    const Frame *f = e->frame;
    if (!f->has_rest && n_rest < 0) {
        Diag *d = diag_error(e->d, E0202, s, "`...` stands for no dims here");
        diag_help(e->d, d, "an argument of the signature with `...` in its type says which");
        return false;
    }
    for (int i = 0; i < (f->has_rest ? f->n_rest : n_rest); i++)
        if (!pattern_push(e, t, names, f->has_rest ? f->rest[i] : IR_NONE, NULL, s)) return false;
    return true;
}

bool pattern_of_type(Elab *e, const AstType *t, int n_rest, IrType *out, const char **names)
{
    *out = (IrType){0};
    if (t->kind == AST_TYPE_TUPLE) {
        diag_error(e->d, E0212, t->span, "found a tuple of types, wanted the type of one value");
        return false;
    }
    if (!resolve_dtype(e, t->dtype, &out->dtype) || !resolve_space(e, t, &out->space)) return false;
    for (uint32_t i = 0; i < t->dims.n; i++) {
        const AstExpr *x = t->dims.items[i];
        IrId dim;
        const char *name;
        if (is_one(x)) continue;
        bool rest = x->kind == AST_EXPR_REST;
        if (rest ? !pattern_rest(e, n_rest, out, names, x->span)
                 : !pattern_dim(e, x, &dim, &name) || !pattern_push(e, out, names, dim, name, x->span))
            return false;
    }
    return true;
}

bool type_resolve(Elab *e, const AstType *t, IrType *out)
{
    const char *names[IR_MAX_DIMS];
    if (!pattern_of_type(e, t, -1, out, names)) return false;
    if (out->space == IR_NONE) {
        diag_error(e->d, E0209, t->space.span, "`@%s` stands for no domain here", t->space.text);
        diag_help(e->d, e->d->list.data[e->d->list.n - 1], "give an argument of the signature the domain `@%s`",
                  t->space.text);
        return false;
    }
    for (int i = 0; i < out->n_dims; i++)
        if (out->dims[i] == IR_NONE) out->dims[i] = dim_symbol(e, names[i], t->span);
    return true;
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

typedef struct Fit {
    IrId to[IR_MAX_DIMS];    /* per dim of the value: index in the wanted type, or IR_NONE: left out */
    bool given[IR_MAX_DIMS]; /* per wanted dim: the value has it */
} Fit;

static void fit_same(const Elab *e, const IrType *have, const IrType *want, Fit *fit)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < have->n_dims; i++)
            for (int k = 0; k < want->n_dims && fit->to[i] == IR_NONE; k++) {
                if (fit->given[k] || want->dims[k] == IR_NONE) continue;
                const char *a = e->dims.data[have->dims[i]].label, *b = e->dims.data[want->dims[k]].label;
                bool same = pass ? a && b && !strcmp(a, b) : have->dims[i] == want->dims[k];
                if (!same) continue;
                fit->to[i] = (IrId)k;
                fit->given[k] = true;
            }
}

/* Pairs what is left in order; too many on one side must be dims of size 1. False: cannot be. */
static bool fit_rest(Elab *e, const IrType *have, const IrType *want, Fit *fit)
{
    int rest = 0, open = 0;
    for (int i = 0; i < have->n_dims; i++) rest += fit->to[i] == IR_NONE;
    for (int k = 0; k < want->n_dims; k++) open += !fit->given[k];
    int k = 0;
    for (int i = 0; i < have->n_dims; i++) {
        if (fit->to[i] != IR_NONE) continue;
        if (rest > open && dim_is_one(e, have->dims[i])) {
            rest--;
            continue;
        }
        for (;; k++) {
            while (k < want->n_dims && fit->given[k]) k++;
            if (k == want->n_dims) return false;
            if (!(open > rest && want->dims[k] != IR_NONE && dim_is_one(e, want->dims[k]))) break;
            open--;
        }
        fit->to[i] = (IrId)k;
        fit->given[k] = true;
        rest--;
        open--;
    }
    for (int j = 0; j < want->n_dims; j++)
        if (!fit->given[j] && (want->dims[j] == IR_NONE || !dim_is_one(e, want->dims[j]))) return false;
    return true;
}

/* Makes the paired sizes equal. Index of a dim of the value that cannot be, or -1. */
static int fit_sizes(Elab *e, const IrType *have, const IrType *want, const Fit *fit, Span at)
{
    for (int i = 0; i < have->n_dims; i++) {
        if (fit->to[i] == IR_NONE) continue;
        IrId w = want->dims[fit->to[i]];
        if (w == IR_NONE || w == have->dims[i]) continue;
        if (!size_unify(&e->z, dim_size(e, have->dims[i]), dim_size(e, w), at)) return i;
    }
    return -1;
}

static Value fit_emit(Elab *e, Value v, const IrType *want, const Fit *fit)
{
    IrId dims[IR_MAX_DIMS], order[IR_MAX_DIMS];
    uint32_t n = 0, m = 0;
    for (int i = 0; i < v.type.n_dims; i++)
        if (fit->to[i] != IR_NONE) dims[n++] = want->dims[fit->to[i]];
    v = op_reshape(e, v, dims, n);
    for (int k = 0; k < want->n_dims; k++)
        if (fit->given[k]) order[m++] = want->dims[k];
    v = op_transpose(e, v, order, m);
    return op_reshape(e, v, want->dims, want->n_dims);
}

static void help_domain(Elab *e, Diag *d, IrId found, IrId wanted)
{
    if (found == IR_UNIT || wanted == IR_UNIT) return;
    bool from_edge = e->m->spaces.data[found].is_edge, to_edge = e->m->spaces.data[wanted].is_edge;
    if (to_edge && !from_edge) diag_help(e->d, d, "take the value at one end of each edge: `.src` or `.dst`");
    else if (from_edge && !to_edge)
        diag_help(e->d, d, "bring edge values to nodes with a reducer: `sum_in(...)`, `mean_in(...)`");
    else if (from_edge && to_edge)
        diag_help(e->d, d,
                  "an edge value of one graph is none of another; carry it with `fill`: "
                  "`self_loops(g, fill e = 0)`");
}

/* A type that a value must fit, for whom, and how it is written. */
typedef struct Wanted {
    IrType *type;     /* unbound dims are IR_NONE and are filled in */
    const char *what; /* "argument `x` of linear" */
    const char *text;
    Span declared; /* or no place */
    Span at;       /* of errors */
} Wanted;

/* Dims of two names do not meet, so that a result of both has one too many. */
static void help_names(Elab *e, Diag *d, const IrType *found, const IrType *wanted)
{
    if (found->n_dims <= wanted->n_dims || found->n_dims < 2) return;
    const char *a = dim_text(e, found->dims[found->n_dims - 2]), *b = dim_text(e, found->dims[found->n_dims - 1]);
    diag_help(e->d, d, "dims meet by their names; where `%s` is `%s`, name one value's so first: `t: %s[%s] = ...`", b,
              a, space_text(e, found->space), a);
}

static Value misfit(Elab *e, DiagCode code, const Value *v, const Wanted *w)
{
    const IrType *want = w->type;
    Diag *d = diag_error(e->d, code, w->at, "%s is %s, wanted %s", w->what, value_text(e, v), w->text);
    note_value(e, d, v);
    note_wanted(e, d, w->declared);
    if (v->kind == V_TENSOR && v->type.space != want->space) help_domain(e, d, v->type.space, want->space);
    if (v->kind == V_TENSOR && code == E0202) help_names(e, d, &v->type, want);
    if (v->kind == V_TENSOR && v->type.dtype != want->dtype)
        diag_help(e->d, d, "nothing is converted by itself: `%s(...)`",
                  ir_dtype_is_float(want->dtype) ? "float"
                  : want->dtype == IR_BOOL       ? "x != 0"
                                                 : "int");
    return value_error();
}

static void note_dims(Elab *e, IrId have, IrId want)
{
    Diag *d = e->d->list.data[e->d->list.n - 1]; /* said just before */
    const Dim *a = &e->dims.data[have], *b = &e->dims.data[want];
    diag_note(e->d, d, a->span, "this dim has size %s", size_text(&e->z, a->size));
    diag_note(e->d, d, b->span, "this dim has size %s", size_text(&e->z, b->size));
}

static Value fit_value(Elab *e, Value v, const Wanted *w)
{
    IrType *want = w->type;
    Span at = w->at;
    if (v.kind == V_ERROR) return v;
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    bool truth = v.kind == V_BOOL && want->dtype == IR_BOOL;
    if (v.kind == V_NUMBER || v.kind == V_DIM || truth) v = to_tensor(e, v, want->dtype, at);
    if (v.kind == V_ERROR) return v;
    if (v.kind != V_TENSOR) return misfit(e, E0205, &v, w);
    if (want->space == IR_NONE) want->space = v.type.space;
    if (v.type.dtype != want->dtype) return misfit(e, E0206, &v, w);
    bool spread = v.type.space == IR_UNIT && want->space != IR_UNIT;
    if (v.type.space != want->space && !spread) return misfit(e, E0205, &v, w);
    Fit fit = {0};
    for (int i = 0; i < IR_MAX_DIMS; i++) fit.to[i] = IR_NONE;
    fit_same(e, &v.type, want, &fit);
    if (!fit_rest(e, &v.type, want, &fit)) return misfit(e, E0202, &v, w);
    int bad = fit_sizes(e, &v.type, want, &fit, at);
    if (bad >= 0) {
        misfit(e, E0201, &v, w);
        note_dims(e, v.type.dims[bad], want->dims[fit.to[bad]]);
        return value_error();
    }
    for (int i = 0; i < v.type.n_dims; i++)
        if (fit.to[i] != IR_NONE && want->dims[fit.to[i]] == IR_NONE) want->dims[fit.to[i]] = v.type.dims[i];
    const Size *classes = v.classes;
    v = fit_emit(e, v, want, &fit);
    if (spread) v = op_spread(e, v, want->space);
    v.classes = classes;
    return v;
}

Value coerce(Elab *e, Value v, const IrType *want, const char *what, Span at)
{
    IrType t = *want;
    return fit_value(e, v, &(Wanted){&t, what, type_text(e, want), {0}, at});
}

static Value coerce_tuple(Elab *e, Value v, const AstType *t, const char *what, Span at)
{
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    if (v.kind == V_ERROR) return v;
    if (v.kind != V_TUPLE || v.n != t->n_items) {
        Diag *d = diag_error(e->d, E0205, at, "%s is %s, wanted a tuple of %u values", what, value_text(e, &v),
                             t->n_items);
        note_value(e, d, &v);
        note_wanted(e, d, t->span);
        return value_error();
    }
    Value *items = ARENA_ARRAY(e->a, Value, v.n);
    for (uint32_t i = 0; i < v.n; i++)
        items[i] = coerce_declared(e, v.items[i], t->items[i], arena_printf(e->a, "value %u of %s", i + 1, what), at);
    v.items = items;
    return v;
}

/* Two names of a signature are two dims, also where the caller passes one dim for both: the second
   name gets a dim of its own, of the same size. */
static Value bind_dims(Elab *e, Value v, const IrType *asked, IrType *want, const char **names, Span at)
{
    bool renamed = false;
    for (int i = 0; i < want->n_dims; i++) {
        if (asked->dims[i] != IR_NONE || !names[i]) continue;
        IrId old = want->dims[i];
        bool taken = false;
        for (const Symbol *s = e->frame->dims; s; s = s->next) taken |= s->id == old;
        if (taken) {
            want->dims[i] = dim_new(e, names[i], dim_size(e, old), at);
            e->dims.data[want->dims[i]].origin = old;
        }
        renamed |= taken;
        dim_bind(e, names[i], want->dims[i], taken);
    }
    const Size *classes = v.classes;
    if (renamed) v = op_reshape(e, v, want->dims, want->n_dims);
    v.classes = classes;
    return v;
}

/* How many dims of v are left for `...`. */
static int rest_of(const AstType *t, const Value *v)
{
    int n = v->kind == V_TENSOR ? v->type.n_dims : 0;
    for (uint32_t i = 0; i < t->dims.n; i++) n -= t->dims.items[i]->kind != AST_EXPR_REST && !is_one(t->dims.items[i]);
    return n < 0 ? 0 : n;
}

static void bind_rest(Elab *e, const AstType *t, const IrType *asked, const IrType *want, const char *const *names)
{
    Frame *f = e->frame;
    if (f->has_rest || !type_has_rest(t)) return;
    f->has_rest = true;
    for (int i = 0; i < want->n_dims; i++)
        if (asked->dims[i] == IR_NONE && !names[i]) f->rest[f->n_rest++] = want->dims[i];
}

Value coerce_declared(Elab *e, Value v, const AstType *t, const char *what, Span at)
{
    if (t->kind == AST_TYPE_TUPLE) return coerce_tuple(e, v, t, what, at);
    if (type_is_by_type(t)) return coerce_record(e, v, t, what, at);
    IrType want;
    const char *names[IR_MAX_DIMS];
    if (v.kind == V_ERROR || !pattern_of_type(e, t, rest_of(t, &v), &want, names)) return value_error();
    IrType asked = want;
    const Value given = v;
    const char *text = arena_strndup(e->a, t->span.source->text + t->span.begin, t->span.end - t->span.begin);
    v = fit_value(e, v, &(Wanted){&want, what, text, t->span, at});
    if (v.kind == V_ERROR) return v;
    if (asked.space == IR_NONE) domain_bind(e, t->space.text, want.space);
    bind_rest(e, t, &asked, &want, names);
    v = bind_dims(e, v, &asked, &want, names, at);
    if (t->dtype == AST_INDEX && t->classes) {
        const Size *c = size_of_expr(e, t->classes);
        if (c && !v.classes) v.classes = input_range(e, &given, c);
        if (c && v.classes && !size_unify(&e->z, c, v.classes, at))
            diag_error(e->d, E0201, at, "%s has %s classes, wanted %s", what, size_text(&e->z, v.classes),
                       size_text(&e->z, c));
        if (c) v.classes = c;
    }
    return v;
}
