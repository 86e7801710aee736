/* Values of elaboration: making them, and saying what they are in a message. */
#include "frontend/sema.h"

Value value_error(void) { return (Value){.kind = V_ERROR, .dim = IR_NONE}; }

Value value_none(Span s) { return (Value){.kind = V_NONE, .span = s, .dim = IR_NONE}; }

Value value_number(double x, bool is_int, Span s)
{
    if (is_int) x += 0.0; /* integers have no -0 */
    return (Value){.kind = V_NUMBER, .num = x, .is_int = is_int, .span = s, .dim = IR_NONE};
}

Value value_bool(bool b, Span s) { return (Value){.kind = V_BOOL, .num = b, .span = s, .dim = IR_NONE}; }

Value value_word(const char *w, Span s) { return (Value){.kind = V_WORD, .word = w, .span = s, .dim = IR_NONE}; }

Value value_tensor(IrId id, IrType t, Span s)
{
    return (Value){.kind = V_TENSOR, .id = id, .type = t, .span = s, .dim = IR_NONE};
}

bool value_is_static(const Value *v) { return v->kind != V_TENSOR && v->kind != V_ERROR; }

bool value_is_word(const Value *v, const char *word)
{
    return (v->kind == V_WORD || v->kind == V_DEF) && v->word && !strcmp(v->word, word);
}

const char *space_text(Elab *e, IrId space) { return space == IR_UNIT ? "" : e->m->spaces.data[space].name; }

const char *dim_text(Elab *e, IrId dim)
{
    const Dim *d = &e->dims.data[dim];
    if (e->frame)
        for (const Symbol *s = e->frame->dims; s; s = s->next)
            if (s->id == dim) return s->name;
    return d->label ? d->label : size_text(&e->z, d->size);
}

const char *type_text(Elab *e, const IrType *t)
{
    StrBuf b = {.arena = e->a};
    static const char *const dtypes[] = {[IR_I32] = "int", [IR_I64] = "int", [IR_BOOL] = "bool"};
    strbuf_puts(&b, space_text(e, t->space));
    bool plain = !ir_dtype_is_float(t->dtype);
    if (plain) strbuf_printf(&b, "%s%s", t->space ? " " : "", dtypes[t->dtype]);
    if (t->n_dims || !(plain || t->space)) strbuf_puts(&b, "[");
    for (int i = 0; i < t->n_dims; i++) strbuf_printf(&b, "%s%s", i ? ", " : "", dim_text(e, t->dims[i]));
    if (t->n_dims || !(plain || t->space)) strbuf_puts(&b, "]");
    return strbuf_cstr(&b);
}

const char *def_kind(const Def *def) { return ast_decl_text(def->decl->kind); }

static const char *record_text(Elab *e, const Value *v)
{
    StrBuf out = {.arena = e->a};
    strbuf_puts(&out, v->n ? "a record of " : "an empty record");
    for (uint32_t i = 0; i < v->n; i++) strbuf_printf(&out, "%s%s", i ? ", " : "", v->keys[i]);
    return strbuf_cstr(&out);
}

const char *value_text(Elab *e, const Value *v)
{
    switch (v->kind) {
    case V_ERROR: return "an error";
    case V_NONE: return "none";
    case V_TENSOR: return type_text(e, &v->type);
    case V_NUMBER: return arena_printf(e->a, "the number %g", v->num);
    case V_BOOL: return v->num != 0 ? "true" : "false";
    case V_WORD: return arena_printf(e->a, "the word `%s`", v->word);
    case V_LIST: return "a list";
    case V_TUPLE: return "a tuple";
    case V_RECORD: return record_text(e, v);
    case V_DIM: return arena_printf(e->a, "the dim %s", dim_text(e, v->dim));
    case V_DEF: return v->def ? arena_printf(e->a, "the %s `%s`", def_kind(v->def), v->word) : v->word;
    case V_INSTANCE: return arena_printf(e->a, "a layer (an instance of %s)", v->instance->def->name);
    case V_GRAPH: return v->word ? arena_printf(e->a, "the relation %s", v->word) : "a graph";
    case V_DATA: return "the data";
    case V_TYPE: return arena_printf(e->a, "the type %s", type_text(e, &v->type));
    }
    return "?";
}

Span name_span(Span s, const char *name)
{
    uint32_t n = (uint32_t)strlen(name);
    if (!s.source || s.end - s.begin < n || memcmp(s.source->text + s.begin, name, n)) return (Span){0};
    return span_at(s.source, s.begin, s.begin + n);
}

/* A place on the line that is shown anyway needs no note. */
static bool same_line(Span a, Span b)
{
    uint32_t x, y, col;
    if (a.source != b.source) return false;
    source_line_col(a.source, a.begin, &x, &col);
    source_line_col(b.source, b.begin, &y, &col);
    return x == y;
}

static void note_place(Elab *e, Diag *d, Span at, const char *text)
{
    if (at.source && !same_line(at, d->span) && !diag_std_span(e, at)) diag_note(e->d, d, at, "%s", text);
}

void note_value(Elab *e, Diag *d, const Value *v) { note_place(e, d, v->from, "this value comes from here"); }
void note_wanted(Elab *e, Diag *d, Span declared) { note_place(e, d, declared, "this is wanted"); }

void note_name(Elab *e, Diag *d, const char *name)
{
    const Binding *b = e->frame ? scope_find(e->frame, name) : NULL;
    const Def *def = b ? NULL : def_find(e, &e->functions, name);
    Span at = b ? b->value.span : def && !def->is_std ? def->decl->name.span : (Span){0};
    if (at.source && !same_line(at, d->span)) diag_note(e->d, d, at, "`%s` is defined here", name);
}

bool diag_std_span(const Elab *e, Span s)
{
    for (uint32_t i = 0; s.source && i < e->defs.n; i++)
        if (e->defs.data[i]->is_std && e->defs.data[i]->decl->span.source == s.source) return true;
    return false;
}
