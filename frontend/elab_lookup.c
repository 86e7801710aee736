/* What a name means where it stands, and what it may have been meant for. */
#include "frontend/sema.h"
#include <math.h>
#include <strings.h>

static Value value_def(Def *def, const char *name, Span s)
{
    return (Value){.kind = V_DEF, .def = def, .word = name, .span = s, .dim = IR_NONE};
}

static IrId symbol_find(const Symbol *s, const char *name)
{
    for (; s; s = s->next)
        if (!strcmp(s->name, name)) return s->id;
    return IR_NONE;
}

/* A variable of the frame; a static number that is also a dim of a signature carries that dim. */
static Value variable_value(Elab *e, const Binding *b, Span s)
{
    Value v = b->value;
    if (v.kind != V_ERROR) v.from = span_or(v.from, v.span), v.span = s;
    if (v.kind != V_NUMBER && v.kind != V_DIM && v.kind != V_NONE) return v;
    IrId dim = symbol_find(e->frame->dims, b->name);
    if (dim == IR_NONE && v.kind == V_DIM && strmap_has(&e->frame->declared, b->name)) dim = dim_symbol(e, b->name, s);
    if (dim != IR_NONE) {
        v.dim = dim;
        v.word = b->name;
        if (v.kind == V_NONE) v.kind = V_DIM;
    }
    if (v.kind != V_NONE && !v.word) v.word = b->name;
    return v;
}

static bool builtin_constant(Elab *e, const char *name, Span s, Value *out)
{
    if (!strcmp(name, "inf")) return *out = value_number(HUGE_VAL, false, s), true;
    if (!strcmp(name, "pi")) return *out = value_number(3.14159265358979323846, false, s), true;
    if (!strcmp(name, "training")) return *out = value_bool(e->training, s), true;
    if (!strcmp(name, "data")) return *out = (Value){.kind = V_DATA, .span = s, .dim = IR_NONE}, true;
    if (strcmp(name, "g")) return false;
    if (graph_is_none(e->frame->graph)) return error_no_graph(e, "`g`", s), *out = value_error(), true;
    *out = (Value){.kind = V_GRAPH, .graph = e->frame->graph, .span = s, .dim = IR_NONE};
    return true;
}

/* `indegree`, `outdegree`: edges that end or begin at each node of the ambient graph. */
static bool degree_value(Elab *e, const char *name, Span s, Value *out)
{
    bool in = !strcmp(name, "indegree");
    if (!in && strcmp(name, "outdegree")) return false;
    if (graph_is_none(e->frame->graph))
        return error_no_graph(e, arena_printf(e->a, "`%s`", name), s), *out = value_error(), true;
    const IrGraph *g = graph_ir(e, e->frame->graph);
    IrType t = ir_scalar(e->real);
    t.space = g->edge;
    *out = op_reduce(e, IR_OP_reduce_sum, op_const(e, t, 1, s), in ? g->dst : g->src, 0, s);
    return true;
}

/* A `const` at top level, worked out where it is read, in a frame of its own. */
bool constant_value(Elab *e, const char *name, Span s, Value *out)
{
    const AstSlot *slot = strmap_get(&e->constants, name);
    if (!slot || (e->frame->def && e->frame->def->is_std)) return false;
    Frame *f = frame_push(e, NULL, s);
    *out = f->returned ? f->result : const_value(e, slot);
    frame_pop(e);
    if (out->kind != V_ERROR) out->span = s;
    return true;
}

Value scope_lookup(Elab *e, const char *name, Span s)
{
    Frame *f = e->frame;
    const Binding *b = scope_find(f, name);
    if (b) return variable_value(e, b, s);
    IrId dim = symbol_find(f->dims, name);
    if (dim == IR_NONE && strmap_has(&f->declared, name)) dim = dim_symbol(e, name, s);
    if (dim != IR_NONE) return (Value){.kind = V_DIM, .dim = dim, .word = name, .span = s};
    Value v;
    if (schema_name(e, name, s, &v)) return v;
    Def *def = def_find(e, &e->functions, name);
    if (!def) def = def_find(e, &e->folds, name);
    /* a constant of the user's replaces what the library or the language defines */
    bool known = def || builtin_find(name);
    if (known && !(def && !def->is_std) && constant_value(e, name, s, &v)) return v;
    if (known) return value_def(def, name, s);
    if (f->train && train_number(e, f->train, name, s, &v)) return v;
    if (constant_value(e, name, s, &v)) return v;
    if (builtin_constant(e, name, s, &v) || degree_value(e, name, s, &v)) return v;
    const char *reducer;
    ReduceWhere where;
    if (reduce_name_split(e, name, &reducer, &where)) return value_def(NULL, name, s);
    return value_word(name, s);
}

/* Words that the language has elsewhere, or says otherwise. */
static bool error_elsewhere(Elab *e, const char *name, Span s)
{
    static const char *const words[][2] = {
        {"topk", "`select(g, score, ratio = 0.5)` and `select(g, score, k = 10)` keep the best nodes of each graph, "
                 "`readout_sort(x, k)` the largest values"},
        {"fold_out", "`over reverse(g) { fold_in(...) }` runs a cell over the edges that go out"}};
    if (!strcmp(name, "fit")) return diag_error(e->d, E0310, s, "`fit` stands in `const d = fit(...)` only"), true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i][0], name)) continue;
        diag_help(e->d, diag_error(e->d, E0301, s, "unknown name `%s`", name), "%s", words[i][1]);
        return true;
    }
    return false;
}

/* Suggests a name that differs in capitals only, or by a few letters. One that is there was given as text. */
static void suggest_name(Elab *e, Diag *d, const char *name, const char *const *names, uint32_t n, Span s)
{
    const char *near = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(name, names[i])) {
            diag_help(e->d, d, "names stand without quotes: `%s`, not `\"%s\"`", name, name);
            return;
        }
    for (uint32_t i = 0; i < n && !near; i++)
        if (!strcasecmp(name, names[i])) near = diag_suggest(e->d, d, s, names[i], &names[i], 1);
    if (!near && strlen(name) > 1) near = diag_suggest(e->d, d, s, name, names, n);
    if (near) note_name(e, d, near);
}

/* Every name that could stand here, for "did you mean". */
void error_unknown_name(Elab *e, const char *name, Span s)
{
    if (s.source && s.source->text[s.begin] == '"') {
        diag_error(e->d, E0212, s, "found the string \"%s\", wanted a value", name);
        return;
    }
    if (error_elsewhere(e, name, s)) return;
    VEC(const char *) names = {0};
    for (const Binding *b = e->frame ? e->frame->vars : NULL; b; b = b->next) VEC_PUSH(e->a, &names, b->name);
    for (uint32_t i = 0; i < e->functions.all.n; i++) VEC_PUSH(e->a, &names, e->functions.all.entries[i].key);
    for (uint32_t i = 0; i < e->folds.all.n; i++) {
        VEC_PUSH(e->a, &names, arena_printf(e->a, "%s_in", e->folds.all.entries[i].key));
        VEC_PUSH(e->a, &names, arena_printf(e->a, "%s_all", e->folds.all.entries[i].key));
        VEC_PUSH(e->a, &names, arena_printf(e->a, "readout_%s", e->folds.all.entries[i].key));
    }
    for (uint32_t i = 0; builtin_name(i); i++) VEC_PUSH(e->a, &names, builtin_name(i));
    Diag *d = diag_error(e->d, E0301, s, "unknown name `%s`", name);
    suggest_name(e, d, name, names.data, names.n, s);
}
