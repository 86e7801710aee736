/* Records: a value for each type of nodes, or for each relation, by its name. `forall` makes them, `x[t]` reads them,
   arguments of type `node(all)[F]` take them. A record is there at compile time only: its values are those of the
   function. In a turn of `forall` layers and parameters are named by the turn. */
#include "frontend/sema.h"

bool type_is_by_type(const AstType *t)
{
    return t && t->kind == AST_TYPE_TENSOR && t->space.text && !t->domain_var && t->of.n == 1 &&
           t->of.items[0]->kind == AST_EXPR_NAME && !strcmp(t->of.items[0]->as.name.text, "all");
}

Value value_record(const char *const *keys, const Value *items, uint32_t n, Span s)
{
    return (Value){.kind = V_RECORD, .keys = keys, .items = items, .n = n, .span = s, .dim = IR_NONE};
}

const Value *record_find(const Value *record, const char *key)
{
    for (uint32_t i = 0; i < record->n; i++)
        if (!strcmp(record->keys[i], key)) return &record->items[i];
    return NULL;
}

Value record_read(Elab *e, const Value *record, const char *key, Span s)
{
    const Value *v = record_find(record, key);
    if (v) {
        Value out = *v;
        if (out.kind != V_ERROR) out.span = s;
        return out;
    }
    Diag *d = diag_error(e->d, E0204, s, "%s has no `%s`", value_text(e, record), key);
    if (!diag_suggest(e->d, d, name_span(s, key), key, record->keys, record->n) && record->n)
        diag_help(e->d, d, "`has(x, %s)` says whether it is there", key);
    return value_error();
}

/* A type's or relation's name, as the value that stands for it. */
static const char *key_of(const Value *v) { return v->kind != V_NUMBER && v->kind != V_DIM ? v->word : NULL; }

Value record_index(Elab *e, const AstExpr *x, const Value *record)
{
    const AstExpr *at = x->as.index.at.n == 1 ? x->as.index.at.items[0] : NULL;
    if (!at || at->kind == AST_EXPR_REST || at->kind == AST_EXPR_RANGE) {
        diag_error(e->d, E0302, x->span, "a record takes one name, as in `x[paper]`");
        return value_error();
    }
    bool plain = at->kind == AST_EXPR_NAME && !scope_find(e->frame, at->as.name.text);
    if (plain) return record_read(e, record, at->as.name.text, at->span);
    Value v = elab_expr(e, at);
    if (v.kind == V_ERROR) return v;
    const char *key = key_of(&v);
    if (key) return record_read(e, record, key, at->span);
    bool whole = v.kind == V_NUMBER && v.is_int && v.num >= 0 && v.num < record->n;
    if (whole) return record->items[(uint32_t)v.num];
    diag_error(e->d, E0302, at->span, "found %s, wanted a name that %s has", value_text(e, &v), value_text(e, record));
    return value_error();
}

/* has(x, t): whether the record x has a value for t; nothing else has one. */
Value builtin_has(Elab *e, const Call *c)
{
    const char *key = c->n == 2 ? key_of(&c->args[1].value) : NULL;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->args[i].value.kind == V_ERROR) return value_error();
    if (!key || c->args[0].name || c->args[1].name) {
        diag_error(e->d, E0302, c->span, "wanted `has(x, t)`, of a record and a type or a relation");
        return value_error();
    }
    const Value *x = &c->args[0].value;
    return value_bool(x->kind == V_RECORD && record_find(x, key), c->span);
}

/* ---- forall ------------------------------------------------------------------------------------------------------ */

typedef struct Turns {
    const AstExpr *x;
    VEC(const char *) keys;
    VEC(Value) items;
} Turns;

static void turn(Elab *e, Turns *t, const char *key, Value var)
{
    const char *outer = e->frame->turn;
    e->frame->turn = arena_printf(e->a, "%s%s.", outer, key);
    scope_set(e, t->x->as.forall.var.text, var);
    Value v = elab_block(e, &t->x->as.forall.body);
    e->frame->turn = outer;
    if (v.kind == V_NONE) return;
    VEC_PUSH(e->a, &t->keys, key);
    VEC_PUSH(e->a, &t->items, v);
}

/* The type at the end that `into t` and `from t` name; *all for any. */
static bool forall_end(Elab *e, const AstExpr *at, const char **type, bool *all)
{
    bool name = at->kind == AST_EXPR_NAME && !scope_find(e->frame, at->as.name.text);
    *all = name && !strcmp(at->as.name.text, "all");
    if (*all) return true;
    Value v = name ? value_word(at->as.name.text, at->span) : elab_expr(e, at);
    if (v.kind == V_ERROR) return false;
    *type = key_of(&v);
    if (*type && schema_type(e, *type)) return true;
    if (*type) error_no_type(e, *type, at->span);
    else diag_error(e->d, E0209, at->span, "found %s, wanted a type of nodes, or `all`", value_text(e, &v));
    return false;
}

Value elab_forall(Elab *e, const AstExpr *x)
{
    const AstExpr *at = x->as.forall.at;
    if (!e->schema) {
        diag_help(e->d,
                  diag_error(e->d, E0209, x->span, "`forall` goes over types and relations, and there is no schema"),
                  "`schema s { node paper, author  edge writes: author -> paper }`");
        return value_error();
    }
    const uint32_t errors = e->d->n_errors;
    Turns t = {.x = x};
    for (uint32_t i = 0; !at && i < e->schema->types.n && e->d->n_errors == errors && !e->frame->returned; i++)
        if (elab_spend(e, x->span))
            turn(e, &t, e->schema->types.data[i].name, value_word(e->schema->types.data[i].name, x->span));
    const char *type = NULL;
    bool all = false, into = at && !strcmp(x->as.forall.word.text, "into");
    if (at && !forall_end(e, at, &type, &all)) return value_error();
    for (uint32_t i = 0; at && i < e->schema->relations.n && e->d->n_errors == errors && !e->frame->returned; i++) {
        const Relation *r = &e->schema->relations.data[i];
        if (!elab_spend(e, x->span) || (!all && strcmp(relation_end(e, r, into), type))) continue;
        turn(e, &t, r->name, relation_value(e, r, x->span));
    }
    return e->d->n_errors == errors ? value_record(t.keys.data, t.items.data, t.items.n, x->span) : value_error();
}

/* ---- values of type `node(all)[F]` ------------------------------------------------------------------------------- */

/* Whether a dim of a type by type is one for all: it has a size already, or another type of the signature names it. */
static bool names_dim(const AstType *t, const char *name)
{
    if (!t || type_is_by_type(t)) return false;
    for (uint32_t i = 0; i < t->n_items; i++)
        if (names_dim(t->items[i], name)) return true;
    for (uint32_t i = 0; i < t->dims.n; i++)
        if (t->dims.items[i]->kind == AST_EXPR_NAME && !strcmp(t->dims.items[i]->as.name.text, name)) return true;
    return false;
}

static bool is_shared(Elab *e, const char *name)
{
    const Binding *b = scope_find(e->frame, name);
    if (b && b->value.kind != V_NONE) return true;
    for (const Symbol *s = e->frame->dims; s; s = s->next)
        if (!strcmp(s->name, name)) return true;
    const Def *def = e->frame->def;
    if (!def || def->decl->kind > AST_DECL_MODEL) return false;
    const AstSignature *sig = &def->decl->as.function.sig;
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (names_dim(sig->params[i].type, name)) return true;
    return names_dim(sig->result, name) || (!def->is_std && strmap_has(&e->constants, name));
}

AstType *type_of_part(Elab *e, const AstType *t, const char *key)
{
    AstType *part = ARENA_NEW(e->a, AstType);
    AstExpr *of = ARENA_NEW(e->a, AstExpr);
    const AstExpr **ofs = ARENA_ARRAY(e->a, const AstExpr *, 1),
                  **dims = ARENA_ARRAY(e->a, const AstExpr *, t->dims.n + 1);
    *of = (AstExpr){.kind = AST_EXPR_STRING, .depth = 1, .span = t->of.items[0]->span, .as.string = key};
    ofs[0] = of;
    for (uint32_t i = 0; i < t->dims.n; i++) {
        dims[i] = t->dims.items[i];
        if (dims[i]->kind != AST_EXPR_NAME || is_shared(e, dims[i]->as.name.text)) continue;
        AstExpr *own = ARENA_NEW(e->a, AstExpr);
        *own = *dims[i];
        own->as.name.text = arena_printf(e->a, "%s.%s", dims[i]->as.name.text, key);
        dims[i] = own;
    }
    *part = *t;
    part->of = (AstExprs){ofs, 1};
    part->dims = (AstExprs){dims, t->dims.n};
    return part;
}

uint32_t by_type_keys(const Elab *e, const AstType *t, const char **keys)
{
    bool edges = !strcmp(t->space.text, "edge");
    uint32_t n = e->schema ? edges ? e->schema->relations.n : e->schema->types.n : 0;
    for (uint32_t i = 0; i < n && keys; i++)
        keys[i] = edges ? e->schema->relations.data[i].name : e->schema->types.data[i].name;
    return n;
}

Value coerce_record(Elab *e, Value v, const AstType *t, const char *what, Span at)
{
    bool edges = !strcmp(t->space.text, "edge");
    if (v.kind == V_ERROR) return v;
    if (v.kind != V_RECORD) {
        Diag *d = diag_error(e->d, E0205, at, "%s is %s, wanted a value for each %s", what, value_text(e, &v),
                             edges ? "relation" : "type of nodes");
        diag_help(e->d, d, "`forall %s { ... }` makes one", edges ? "r into all" : "t");
        return value_error();
    }
    Value *items = ARENA_ARRAY(e->a, Value, v.n + 1);
    for (uint32_t i = 0; i < v.n; i++) {
        bool known = edges ? schema_relation(e, v.keys[i]) != NULL : schema_type(e, v.keys[i]) != NULL;
        if (!known) {
            diag_error(e->d, E0205, at, "%s has a value for `%s`, wanted values for %s", what, v.keys[i],
                       edges ? "relations" : "types of nodes");
            return value_error();
        }
        const char *part = arena_printf(e->a, "`%s` of %s", v.keys[i], what);
        items[i] = coerce_declared(e, v.items[i], type_of_part(e, t, v.keys[i]), part, at);
        if (items[i].kind == V_ERROR) return value_error();
    }
    v.items = items;
    return v;
}
