/* The schema of a program: types of nodes, and relations, which are sets of edges from one type to another. Reads the
   declaration; finds or makes the space of a type, and the graph of a relation, when the program first speaks of it;
   and knows which names are types and relations. After elaboration nothing of a schema is left but spaces, maps and
   graphs. What has a value for each type is a record (elab_record.c). */
#include "frontend/sema.h"
#include <math.h>

static uint32_t type_find(const Schema *s, const char *name)
{
    uint32_t i = 0;
    while (i < s->types.n && strcmp(s->types.data[i].name, name)) i++;
    return i;
}

static uint32_t relation_find(const Schema *s, const char *name)
{
    uint32_t i = 0;
    while (i < s->relations.n && strcmp(s->relations.data[i].name, name)) i++;
    return i;
}

const NodeType *schema_type(const Elab *e, const char *name)
{
    uint32_t i = e->schema ? type_find(e->schema, name) : 0;
    return e->schema && i < e->schema->types.n ? &e->schema->types.data[i] : NULL;
}

const Relation *schema_relation(const Elab *e, const char *name)
{
    uint32_t i = e->schema ? relation_find(e->schema, name) : 0;
    return e->schema && i < e->schema->relations.n ? &e->schema->relations.data[i] : NULL;
}

const char *relation_end(const Elab *e, const Relation *r, bool target)
{
    return e->schema->types.data[target ? r->to : r->from].name;
}

/* Every name of the schema, for "did you mean". */
static void suggest(Elab *e, Diag *d, Span s, const char *name, bool types, bool relations)
{
    VEC(const char *) names = {0};
    for (uint32_t i = 0; types && i < e->schema->types.n; i++) VEC_PUSH(e->a, &names, e->schema->types.data[i].name);
    for (uint32_t i = 0; relations && i < e->schema->relations.n; i++)
        VEC_PUSH(e->a, &names, e->schema->relations.data[i].name);
    if (diag_suggest(e->d, d, name_span(s, name), name, names.data, names.n)) return;
    StrBuf all = {.arena = e->a};
    for (uint32_t i = 0; i < names.n; i++) strbuf_printf(&all, "%s%s", i ? ", " : "", names.data[i]);
    if (names.n) diag_help(e->d, d, "the schema has %s", strbuf_cstr(&all));
}

void error_no_type(Elab *e, const char *name, Span s)
{
    Diag *d = diag_error(e->d, E0209, s, "`%s` is no type of nodes", name);
    if (e->schema) suggest(e, d, s, name, true, false);
    else
        diag_help(e->d, d,
                  "types are declared in a schema: `schema s { node paper, author  edge writes: author -> paper }`");
}

void error_no_relation(Elab *e, const char *name, Span s)
{
    Diag *d = diag_error(e->d, E0209, s, "`%s` is no relation", name);
    if (e->schema) suggest(e, d, s, name, false, true);
    else
        diag_help(e->d, d, "relations are declared in a schema: `schema s { node paper  edge cites: paper -> paper }`");
}

/* ---- the declaration --------------------------------------------------------------------------------------------- */

static bool is_free_name(Elab *e, const AstName *name)
{
    static const char *const taken[] = {"all", "unit", "data", "column"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!strcmp(taken[i], name->text)) {
            diag_error(e->d, E0412, name->span, "`%s` means something else: a type or a relation has another name",
                       name->text);
            return false;
        }
    uint32_t t = type_find(e->schema, name->text), r = relation_find(e->schema, name->text);
    bool type = t < e->schema->types.n, relation = r < e->schema->relations.n;
    if (!type && !relation) return true;
    Diag *d = diag_error(e->d, E0303, name->span, "the schema has two `%s`", name->text);
    diag_note(e->d, d, type ? e->schema->types.data[t].span : e->schema->relations.data[r].span, "the other one");
    return false;
}

static void read_type(Elab *e, const AstSchemaItem *it)
{
    if (it->from.text) diag_error(e->d, E0412, it->span, "`node %s` is a type: it leads nowhere", it->name.text);
    else if (it->dims.n > 1)
        diag_error(e->d, E0412, it->span, "features of a type have one width, found %u", it->dims.n);
    else if (is_free_name(e, &it->name))
        VEC_PUSH(e->a, &e->schema->types,
                 ((NodeType){it->name.text, it->name.span, it->dims.n ? it->dims.items[0] : NULL}));
}

/* `reverse(r)` or `r`: a step of a path. */
static bool read_step(Elab *e, const AstExpr *x, PathStep *out)
{
    bool call = x->kind == AST_EXPR_CALL && x->as.call.n_args == 1 && x->as.call.callee->kind == AST_EXPR_NAME &&
                !strcmp(x->as.call.callee->as.name.text, "reverse");
    const AstExpr *of = call ? x->as.call.args[0].value : x;
    if (of->kind != AST_EXPR_NAME) {
        diag_error(e->d, E0412, x->span,
                   "a path has relations and their reverses, as in `compose(writes, reverse(writes))`");
        return false;
    }
    *out = (PathStep){relation_find(e->schema, of->as.name.text), call};
    if (out->relation < e->schema->relations.n) return true;
    diag_help(e->d,
              diag_error(e->d, E0412, of->span, "`%s` is no relation of the schema above this one", of->as.name.text),
              "a relation is declared before those that are made of it");
    return false;
}

static bool read_path(Elab *e, const AstExpr *x, Relation *r)
{
    uint32_t at = r->from;
    r->kind = RELATION_PATH;
    if (x->as.call.n_args < 2 || x->as.call.n_args > IR_MAX_PATH) {
        diag_error(e->d, E0412, x->span, "`compose` joins 2 to %d relations, found %u", IR_MAX_PATH, x->as.call.n_args);
        return false;
    }
    for (uint32_t i = 0; i < x->as.call.n_args; i++) {
        const AstExpr *step = x->as.call.args[i].value;
        if (!read_step(e, step, &r->path[i])) return false;
        const Relation *of = &e->schema->relations.data[r->path[i].relation];
        uint32_t from = r->path[i].back ? of->to : of->from, to = r->path[i].back ? of->from : of->to;
        if (from != at) {
            Diag *d = diag_error(e->d, E0412, step->span, "the path is at `%s` here, and this leads from `%s`",
                                 e->schema->types.data[at].name, e->schema->types.data[from].name);
            diag_note(e->d, d, of->span, "`%s` is declared here", of->name);
            return false;
        }
        at = to;
    }
    r->n_path = x->as.call.n_args;
    if (at == r->to) return true;
    diag_error(e->d, E0412, x->span, "the path ends at `%s`, `%s` at `%s`", e->schema->types.data[at].name, r->name,
               e->schema->types.data[r->to].name);
    return false;
}

/* `data.NAME`, or NULL. */
static const char *file_of(const AstExpr *x)
{
    bool file = x->kind == AST_EXPR_MEMBER && x->as.member.value->kind == AST_EXPR_NAME &&
                !strcmp(x->as.member.value->as.name.text, "data");
    return file ? x->as.member.name.text : NULL;
}

static bool read_where(Elab *e, const AstExpr *x, Relation *r)
{
    bool eq = x->kind == AST_EXPR_BINARY && x->as.binary.op == AST_EQ && file_of(x->as.binary.left) &&
              x->as.binary.right->kind == AST_EXPR_NUMBER && x->as.binary.right->as.number.is_int;
    if (!eq) {
        diag_help(e->d, diag_error(e->d, E0412, x->span, "`where` compares a file of integers with a whole number"),
                  "`edge cites: paper -> paper = data.edge_index where data.edge_type == 1`");
        return false;
    }
    r->where = file_of(x->as.binary.left);
    r->equals = x->as.binary.right->as.number.int_value;
    return true;
}

/* Files whose name ends in `_index` are lists of edges, others columns. */
static bool is_list(const char *file)
{
    size_t n = strlen(file);
    return n >= 6 && !strcmp(file + n - 6, "_index");
}

static bool read_edges(Elab *e, const AstSchemaItem *it, Relation *r)
{
    const AstExpr *x = it->edges;
    bool call = x && x->kind == AST_EXPR_CALL && x->as.call.callee->kind == AST_EXPR_NAME &&
                !strcmp(x->as.call.callee->as.name.text, "compose");
    bool column = x && x->kind == AST_EXPR_NAME && !strcmp(x->as.name.text, "column");
    r->kind = RELATION_LIST;
    r->file = arena_printf(e->a, "%s.edge_index", r->name);
    if (column) r->kind = RELATION_COLUMN, r->file = arena_printf(e->a, "%s.%s", it->from.text, r->name);
    else if (x && file_of(x)) r->file = file_of(x), r->kind = is_list(r->file) ? RELATION_LIST : RELATION_COLUMN;
    else if (x && !call) {
        diag_help(
            e->d, diag_error(e->d, E0412, x->span, "edges are not made of this"),
            "`= column`, `= data.NAME`, `= data.NAME_index`, `= compose(r, reverse(r))`; without `=` they are file "
            "%s.edge_index.npy",
            r->name);
        return false;
    }
    if (it->where && (call || r->kind != RELATION_LIST)) {
        diag_error(e->d, E0412, it->where->span, "`where` chooses among the edges of a file");
        return false;
    }
    return call ? read_path(e, x, r) : !it->where || read_where(e, it->where, r);
}

/* Whether the data say the same of a relation whose files have its name. */
static bool ends_fit(Elab *e, const AstSchemaItem *it, const Relation *r)
{
    const char *from = e->schema->types.data[r->from].name, *to = e->schema->types.data[r->to].name;
    bool own = !it->edges || it->edges->kind == AST_EXPR_NAME;
    for (uint32_t i = 0; own && i < e->opt->n_ends; i++) {
        const FrontendEnds *x = &e->opt->ends[i];
        if (strcmp(x->relation, r->name) || (!strcmp(x->from, from) && !strcmp(x->to, to))) continue;
        Diag *d = diag_error(e->d, E0412, it->span,
                             "relation `%s` leads from `%s` to `%s`, in the data from `%s` to `%s`", r->name, from, to,
                             x->from, x->to);
        diag_help(e->d, d, "`gnnc data info DIR --schema` prints the schema of the data");
        return false;
    }
    return true;
}

static void read_relation(Elab *e, const AstSchemaItem *it)
{
    if (!it->from.text) {
        diag_help(e->d, diag_error(e->d, E0412, it->span, "relation `%s` has no ends", it->name.text),
                  "`edge %s: author -> paper`", it->name.text);
        return;
    }
    const AstName *ends[] = {&it->from, &it->to};
    Relation r = {.name = it->name.text, .span = it->name.span};
    bool ok = is_free_name(e, &it->name);
    for (int i = 0; i < 2; i++) {
        uint32_t t = type_find(e->schema, ends[i]->text);
        if (t == e->schema->types.n) error_no_type(e, ends[i]->text, ends[i]->span), ok = false;
        *(i ? &r.to : &r.from) = t;
    }
    if (it->dims.n) {
        diag_help(e->d, diag_error(e->d, E0412, it->dims.items[0]->span, "a relation has no width here"),
                  "an argument of the model says it: `e: edge(%s)[K]`", r.name);
        ok = false;
    }
    if (ok && ends_fit(e, it, &r) && read_edges(e, it, &r)) VEC_PUSH(e->a, &e->schema->relations, r);
}

static void reverse_one(Elab *e, uint32_t of, Span s)
{
    const Relation *base = &e->schema->relations.data[of];
    AstName name = {s, arena_printf(e->a, "rev_%s", base->name)};
    if (!is_free_name(e, &name)) return;
    Relation r = {.name = name.text, .span = s, .from = base->to, .to = base->from, .kind = RELATION_REVERSE};
    r.path[0] = (PathStep){of, true};
    VEC_PUSH(e->a, &e->schema->relations, r);
}

/* Behind all relations, in whatever order the items stand. */
static void read_reverse(Elab *e, const AstSchemaItem *it, uint32_t n_declared)
{
    if (it->from.text || it->dims.n) {
        diag_error(e->d, E0412, it->span, "wanted `reverse all`, or names of relations");
        return;
    }
    bool all = !strcmp(it->name.text, "all");
    uint32_t one = relation_find(e->schema, it->name.text);
    if (!all && one >= n_declared) {
        error_no_relation(e, it->name.text, it->name.span);
        return;
    }
    for (uint32_t i = 0; i < n_declared; i++)
        if (all || i == one) reverse_one(e, i, it->name.span);
}

void schema_read(Elab *e, const AstDecl *decl)
{
    e->schema = ARENA_NEW(e->a, Schema);
    const AstSchemaItem *items = decl->as.schema.items;
    uint32_t n = decl->as.schema.n_items;
    for (uint32_t i = 0; i < n; i++) {
        bool known = !strcmp(items[i].word.text, "node") || !strcmp(items[i].word.text, "edge") ||
                     !strcmp(items[i].word.text, "reverse");
        if (!known) {
            Diag *d = diag_error(e->d, E0412, items[i].word.span, "found `%s`, wanted `node`, `edge` or `reverse`",
                                 items[i].word.text);
            static const char *const words[] = {"node", "edge", "reverse"};
            diag_suggest(e->d, d, items[i].word.span, items[i].word.text, words, 3);
        } else if (*items[i].word.text == 'n') read_type(e, &items[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        if (*items[i].word.text == 'e') read_relation(e, &items[i]);
    uint32_t n_declared = e->schema->relations.n;
    for (uint32_t i = 0; i < n && !e->d->n_errors; i++)
        if (*items[i].word.text == 'r') read_reverse(e, &items[i], n_declared);
}

/* ---- spaces and graphs ------------------------------------------------------------------------------------------- */

/* In a test the types and relations are drawn: they have spaces of their own. */
static const char *space_name(Elab *e, const char *name)
{
    const DrawnSchema *d = &e->drawn;
    if (!d->edges) return name;
    return arena_printf(e->a, "%s.random_%lld_%lld_%lld", name, (long long)d->nodes, (long long)d->edges,
                        (long long)d->seed);
}

static bool has_relations(Elab *e, Span s)
{
    if (!e->test || e->drawn.edges) return true;
    diag_help(e->d, diag_error(e->d, E0407, s, "a test has no data"),
              "draw types and relations first: `random_schema(nodes = 8, edges = 20, seed = 1)`");
    return false;
}

bool type_space(Elab *e, const NodeType *t, Span s, IrId *out)
{
    if (!has_relations(e, s)) return false;
    const char *name = space_name(e, t->name);
    for (uint32_t i = 1; i < e->m->spaces.n; i++)
        if (!strcmp(e->m->spaces.data[i].name, name)) return *out = i, true;
    *out = ir_space_new(e->m, name, false);
    e->m->spaces.data[*out].span = t->span;
    return true;
}

static const GraphValue *graph_of_space(Elab *e, const char *name)
{
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        const IrGraph *g = &e->m->graphs.data[i];
        if (strcmp(e->m->spaces.data[g->edge].name, name)) continue;
        GraphValue *v = ARENA_NEW(e->a, GraphValue);
        *v = (GraphValue){.name = g->name, .id = i};
        return v;
    }
    return NULL;
}

static const GraphValue *relation_graph(Elab *e, uint32_t number, Span s);

static const GraphValue *step_graph(Elab *e, const PathStep *p, Span s)
{
    const GraphValue *g = relation_graph(e, p->relation, s);
    return g && p->back ? graph_back(e, g, s) : g;
}

static bool draw_relation(Elab *e, uint32_t number, IrGraph *g)
{
    const Relation *r = &e->schema->relations.data[number];
    if (r->kind == RELATION_PATH) return false; /* of drawn ones */
    g->kind = IR_GRAPH_RANDOM;
    g->n_nodes = e->drawn.nodes + r->from;
    g->n_targets = r->from == r->to ? 0 : e->drawn.nodes + r->to;
    g->n_edges = e->drawn.edges + number;
    g->seed = e->drawn.seed + number;
    return true;
}

static const GraphValue *relation_graph(Elab *e, uint32_t number, Span s)
{
    static const IrGraphKind kinds[] = {
        [RELATION_LIST] = IR_GRAPH_FILE, [RELATION_COLUMN] = IR_GRAPH_COLUMN, [RELATION_PATH] = IR_GRAPH_COMPOSE};
    const Relation *r = &e->schema->relations.data[number];
    if (!has_relations(e, s)) return NULL;
    if (r->kind == RELATION_REVERSE) return step_graph(e, &r->path[0], s);
    const char *name = space_name(e, r->name);
    const GraphValue *known = graph_of_space(e, name);
    if (known) return known;
    IrGraph g = {
        .name = name, .kind = kinds[r->kind], .base = IR_NONE, .orig = IR_NONE, .image = IR_NONE, .span = r->span};
    for (uint32_t i = 0; i < r->n_path; i++) {
        const GraphValue *step = step_graph(e, &r->path[i], s);
        if (!step) return NULL;
        g.path[g.n_path++] = step->id;
    }
    if (!e->drawn.edges || !draw_relation(e, number, &g)) g.file = r->file, g.where = r->where, g.equals = r->equals;
    if (!type_space(e, &e->schema->types.data[r->from], s, &g.src_space) ||
        !type_space(e, &e->schema->types.data[r->to], s, &g.dst_space))
        return NULL;
    g.edge = ir_space_new(e->m, name, true);
    e->m->spaces.data[g.edge].span = r->span;
    graph_maps(e, &g);
    return graph_add(e, g);
}

Value relation_value(Elab *e, const Relation *r, Span s)
{
    const GraphValue *g = relation_graph(e, (uint32_t)(r - e->schema->relations.data), s);
    if (!g) return value_error();
    Value v = value_graph(g, s);
    v.word = r->name;
    return v;
}

/* random_schema(nodes = 8, edges = 20, seed = 1): from here on in a test the relations are random graphs. The k-th type
   has nodes + k nodes, the k-th relation edges + k edges, drawn from seed + k, so that no two are alike. */
Value builtin_random_schema(Elab *e, const Call *c)
{
    static const char *const names[] = {"nodes", "edges", "seed"};
    int64_t n[3] = {0, 0, 0};
    bool ok = e->test && e->schema && c->n <= 3;
    for (uint32_t i = 0; i < c->n && ok; i++) {
        const CallArg *a = &c->args[i];
        int k = 0;
        while (a->name && k < 3 && strcmp(a->name, names[k])) k++;
        ok = a->name && k < 3 && a->value.kind == V_NUMBER && a->value.num == floor(a->value.num) &&
             a->value.num >= (k < 2) && a->value.num <= 1e6;
        if (ok) n[k] = (int64_t)a->value.num;
    }
    if (!ok || !n[0] || !n[1]) {
        diag_error(e->d, E0302, c->span,
                   "wanted `random_schema(nodes = 8, edges = 20, seed = 1)`, in a test of a file with a schema");
        return value_error();
    }
    e->drawn = (DrawnSchema){n[0], n[1], n[2]};
    return value_none(c->span);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

void note_relation(Elab *e, Diag *d, const GraphValue *g)
{
    const IrGraph *ir = graph_ir(e, g);
    while (ir->kind == IR_GRAPH_REVERSE) ir = &e->m->graphs.data[ir->base];
    const Relation *r = e->schema && !graph_is_none(g) ? schema_relation(e, ir->name) : NULL;
    if (r)
        diag_note(e->d, d, r->span, "`%s` leads from `%s` to `%s`", r->name, e->schema->types.data[r->from].name,
                  e->schema->types.data[r->to].name);
}

bool schema_name(Elab *e, const char *name, Span s, Value *out)
{
    bool std = e->frame && e->frame->def && e->frame->def->is_std;
    if (std || !e->schema) return false;
    const Relation *r = schema_relation(e, name);
    if (r) return *out = relation_value(e, r, s), true;
    if (!schema_type(e, name)) return false;
    *out = value_word(name, s);
    return true;
}

/* The relation that a value is, with a diagnostic. */
static const Relation *relation_arg(Elab *e, const Call *c, const char *form)
{
    const Value *v = c->n == 1 && !c->args[0].name ? &c->args[0].value : NULL;
    if (v && v->kind == V_ERROR) return NULL;
    const Relation *r = v && v->kind == V_GRAPH && v->word ? schema_relation(e, v->word) : NULL;
    if (!v) diag_error(e->d, E0302, c->span, "wanted `%s`", form);
    else if (!r && v->word) error_no_relation(e, v->word, span_or(v->span, c->span));
    else if (!r) diag_error(e->d, E0302, c->span, "found %s, wanted a relation, as in `%s`", value_text(e, v), form);
    return r;
}

Value builtin_source(Elab *e, const Call *c)
{
    const Relation *r = relation_arg(e, c, "source(r)");
    return r ? value_word(relation_end(e, r, false), c->span) : value_error();
}

Value builtin_target(Elab *e, const Call *c)
{
    const Relation *r = relation_arg(e, c, "target(r)");
    return r ? value_word(relation_end(e, r, true), c->span) : value_error();
}

/* ordinal(r): the place of a relation among those of the schema, from 0. */
Value builtin_ordinal(Elab *e, const Call *c)
{
    const Relation *r = relation_arg(e, c, "ordinal(r)");
    return r ? value_number((double)(r - e->schema->relations.data), true, c->span) : value_error();
}
