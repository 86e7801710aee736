/* Graphs as values: the data's graph, graphs derived from it, their spaces and maps, `.src .dst
   .graph`, `over g { ... }`, and what is carried from the edges of one graph to those of another.
   Equal derivations share one graph of the module, so that all layers and modes use one copy. */
#include "frontend/sema.h"
#include <math.h>

bool space_find(Elab *e, const char *word, Span s, const GraphValue *g, IrId *out)
{
    if (e->schema && !e->alone && !strcmp(word, "graph")) return *out = graph_space(e), true;
    if (graph_is_none(g)) return error_no_graph(e, arena_printf(e->a, "`%s`", word), s), false;
    const IrGraph *ir = graph_ir(e, g);
    bool one = ir->src_space == ir->dst_space;
    if (!strcmp(word, "edge")) return *out = ir->edge, true;
    if (!strcmp(word, "src")) return *out = ir->src_space, true;
    if (!strcmp(word, "dst")) return *out = ir->dst_space, true;
    if (!strcmp(word, "node") && one) return *out = ir->src_space, true;
    if (!strcmp(word, "node")) {
        Diag *d = diag_error(e->d, E0209, s, "`node` does not say which of the graph's two node spaces");
        diag_help(e->d, d, "the data's graph is bipartite here: write `src` or `dst`");
        return false;
    }
    if (!strcmp(word, "graph")) {
        if (map_graph(e, ir->src_space) != IR_NONE) return *out = e->graph_space, true;
        diag_error(e->d, E0209, s, "`graph` is a domain of the data's graph with one node space only");
        return false;
    }
    if (!strcmp(word, "etype") || !strcmp(word, "ntype")) {
        diag_error(e->d, E0901, s, "domain `%s` is not built yet", word);
        return false;
    }
    static const char *const words[] = {"node", "edge", "src", "dst", "graph"};
    Diag *d = diag_error(e->d, E0209, s, "unknown domain `%s`", word);
    if (!diag_suggest(e->d, d, name_span(s, word), word, words, 5))
        diag_help(e->d, d, "domains are node, edge, src, dst, graph");
    return false;
}

/* ---- crossings ---------------------------------------------------------------------------------- */

Value graph_member(Elab *e, Value v, const char *name, Span s)
{
    if (v.kind == V_ERROR || v.kind == V_NUMBER) return v;
    const IrGraph *g = graph_ir(e, e->frame->graph);
    if (v.kind != V_TENSOR) {
        diag_error(e->d, E0204, s, "`.%s` reads a tensor, found %s", name, value_text(e, &v));
        return value_error();
    }
    bool per_graph = !strcmp(name, "graph"), src = !strcmp(name, "src"), one = g->src_space == g->dst_space;
    IrId from = per_graph ? e->graph_space : src ? g->src_space : g->dst_space;
    IrId map = src ? g->src : g->dst;
    if (per_graph) map = one && from != IR_NONE && g->src_space != IR_NONE ? map_graph(e, g->src_space) : IR_NONE;
    if (v.type.space == from && from != IR_NONE && map != IR_NONE)
        return op_gather(e, v, map, per_graph ? g->src_space : g->edge, s);
    Diag *d = diag_error(e->d, E0204, s, "`.%s` of %s", name, value_text(e, &v));
    note_relation(e, d, e->frame->graph);
    if (graph_is_none(e->frame->graph))
        diag_help(e->d, d, "no graph is at hand: `over r { ... }` makes the relation r so");
    else if (per_graph && !one)
        diag_help(e->d, d,
                  "this relation joins two types: `over` one between nodes of one type says whose values are wanted");
    else if (v.type.space == IR_UNIT) diag_help(e->d, d, "this value is the same everywhere: leave `.%s` out", name);
    else if (v.type.space == g->edge) diag_help(e->d, d, "this is an edge value already: leave `.%s` out", name);
    else if (from != IR_NONE) diag_help(e->d, d, "`.%s` reads a value of `%s`", name, space_text(e, from));
    else diag_help(e->d, d, "`.graph` reads a value of `graph`, such as a readout's result");
    return value_error();
}

/* ---- derived graphs ---------------------------------------------------------------------------------------------- */

static const char *const derived_names[] = {
    [IR_GRAPH_REVERSE] = "reverse",      [IR_GRAPH_LINE] = "line",           [IR_GRAPH_SIBLINGS] = "siblings",
    [IR_GRAPH_COMPLETE] = "complete",    [IR_GRAPH_NEGATIVES] = "negatives", [IR_GRAPH_PERMUTATION] = "permutation",
    [IR_GRAPH_CANDIDATES] = "candidates"};

/* The maps between the edges of a graph and those of its base that it keeps. */
static void keep_maps(Elab *e, IrGraph *g, IrId base)
{
    const char *edge = e->m->spaces.data[g->edge].name;
    g->orig = ir_map_new(e->m, arena_printf(e->a, "%s.orig", edge), g->edge, base);
    if (g->kind == IR_GRAPH_NEGATIVES) return; /* an edge has many */
    g->image = ir_map_new(e->m, arena_printf(e->a, "%s.image", edge), base, g->edge);
    IrMap *orig = &e->m->maps.data[g->orig], *image = &e->m->maps.data[g->image];
    orig->inverse = g->image;
    image->inverse = g->orig;
    orig->partial = image->partial = g->kind == IR_GRAPH_SELF_LOOPS;
}

/* n_edges and seed: of what is drawn; else 0. seed < 0: drawn for each step of training, each time for itself. */
static const GraphValue *derive_drawn(Elab *e, IrGraphKind kind, IrLoopPolicy policy, const GraphValue *base,
                                      int64_t n_edges, int64_t seed)
{
    bool redrawn = seed < 0;
    if (redrawn) seed = e->m->n_sites++;
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        const IrGraph *g = &e->m->graphs.data[i];
        if (g->kind != kind || g->base != base->id || g->policy != policy || g->n_edges != n_edges || g->seed != seed ||
            g->redrawn != redrawn)
            continue;
        GraphValue *v = ARENA_NEW(e->a, GraphValue);
        *v = (GraphValue){.name = g->name, .id = i};
        return v;
    }
    static const char *const policies[] = {[IR_LOOPS_KEEP] = "loops",
                                           [IR_LOOPS_REPLACE] = "own_loops",
                                           [IR_LOOPS_ADD] = "more_loops",
                                           [IR_LOOPS_REMOVE] = "no_loops"};
    const char *word = kind == IR_GRAPH_SELF_LOOPS ? policies[policy] : derived_names[kind];
    if (kind == IR_GRAPH_NEGATIVES)
        word = arena_printf(e->a, "negatives%lld_%s%lld", (long long)n_edges, redrawn ? "each" : "", (long long)seed);
    if (kind == IR_GRAPH_PERMUTATION)
        word = arena_printf(e->a, "permutation%s%lld", redrawn ? "_each" : "", (long long)seed);
    IrGraph b = *graph_ir(e, base);
    const char *of = base->id == graph_data(e)->id ? "" : arena_printf(e->a, "%s.", b.name);
    bool back = kind == IR_GRAPH_REVERSE;
    IrGraph g = {.name = arena_printf(e->a, "%s%s", of, word),
                 .kind = kind,
                 .policy = policy,
                 .n_edges = n_edges,
                 .seed = seed,
                 .redrawn = redrawn,
                 .base = base->id,
                 .orig = IR_NONE,
                 .image = IR_NONE,
                 .src_space = back ? b.dst_space : b.src_space,
                 .dst_space = back ? b.src_space : b.dst_space};
    if (kind == IR_GRAPH_LINE || kind == IR_GRAPH_SIBLINGS) g.src_space = g.dst_space = b.edge;
    if (kind == IR_GRAPH_CANDIDATES) g.src_space = b.dst_space, g.dst_space = b.edge;
    g.edge = ir_space_new(e->m, arena_printf(e->a, "edge.%s", g.name), true);
    graph_maps(e, &g);
    if (!ir_graph_is_pairs(kind) && kind != IR_GRAPH_PERMUTATION && kind != IR_GRAPH_CANDIDATES)
        keep_maps(e, &g, b.edge);
    return graph_add(e, g);
}

static const GraphValue *graph_derive(Elab *e, IrGraphKind kind, IrLoopPolicy policy, const GraphValue *base)
{
    return derive_drawn(e, kind, policy, base, 0, 0);
}

/* Keeps the first place at which the program says a graph: for errors about its size, which data alone say. */
static const GraphValue *graph_said(Elab *e, const GraphValue *g, Span s)
{
    IrGraph *ir = &e->m->graphs.data[g->id];
    if (!ir->span.source) ir->span = s;
    return g;
}

enum { GRAPH_COST = 512 }; /* operations that a graph counts as: it has lists of its own, and each may lead to more */

/* The graph to derive one from. */
static bool graph_arg(Elab *e, const Call *c, uint32_t i, const GraphValue **out)
{
    const Value *v = i < c->n ? &c->args[i].value : NULL;
    *out = v && v->kind == V_GRAPH ? v->graph : e->frame->graph;
    if (v && v->kind == V_ERROR) return false;
    if (!(v && v->kind == V_WORD) && graph_is_none(*out)) return error_no_graph(e, "this", c->span), false;
    for (int k = 0; k < GRAPH_COST; k++)
        if (!elab_spend(e, c->span)) return false;
    if (!v || v->kind == V_GRAPH) {
        if (graph_ir(e, *out)->kind == IR_GRAPH_CANDIDATES) {
            diag_error(e->d, E0209, c->span, "no graph is derived from `candidates`, whose pairs are in no list");
            return false;
        }
        if (!graph_ir(e, *out)->redrawn) return true;
        Diag *d = diag_error(e->d, E0209, c->span,
                             "no graph is derived from one that is drawn for each step of training");
        diag_help(e->d, d, "give that one a seed: then it is drawn once");
        return false;
    }
    if (v->kind == V_WORD) return error_unknown_name(e, v->word, v->span), false;
    diag_error(e->d, E0212, span_or(v->span, c->span), "found %s, wanted a graph", value_text(e, v));
    return false;
}

/* Whether the edges of a graph are known when the data are loaded, so that others can be made of it then. */
static bool is_known(Elab *e, const GraphValue *base) { return !e->m->maps.data[graph_ir(e, base)->src].computed; }

static const GraphValue *loops_of(Elab *e, const GraphValue *base, IrLoopPolicy policy, Span s)
{
    return is_known(e, base) ? graph_derive(e, IR_GRAPH_SELF_LOOPS, policy, base)
                             : graph_found_loops(e, base, policy, s);
}

static const GraphValue *reverse_of(Elab *e, const GraphValue *base, Span s)
{
    return is_known(e, base) ? graph_derive(e, IR_GRAPH_REVERSE, IR_LOOPS_KEEP, base) : graph_found_reverse(e, base, s);
}

const GraphValue *graph_back(Elab *e, const GraphValue *base, Span s) { return reverse_of(e, base, s); }

/* An edge value of base at the edges of g; elements of g without an original get 0. A number is the same anywhere. */
static Value carry(Elab *e, Value v, const GraphValue *g)
{
    if (v.kind != V_TENSOR) return v;
    const IrGraph *ir = graph_ir(e, g);
    return op_gather(e, v, ir->orig, ir->edge, v.span);
}

const GraphValue *graph_turned(Elab *e, Value *v, Span s)
{
    const GraphValue *base = e->frame->graph, *g = reverse_of(e, base, s);
    if (v->kind == V_TENSOR && v->type.space == graph_ir(e, base)->edge) *v = carry(e, *v, g);
    return g;
}

/* What new loops get: a number, a node's value, or a reducer over the node's other in-edges. */
static Value fill_value(Elab *e, Value v, const Value *fill, const GraphValue *base, const GraphValue *g,
                        IrLoopPolicy policy, Span s)
{
    const IrGraph *ir = graph_ir(e, g);
    bool reducer = fill->kind == V_DEF || fill->kind == V_WORD;
    if (!reducer && fill->kind != V_TENSOR) return *fill;
    Value at_node = *fill;
    if (reducer) {
        const GraphValue *old = e->frame->graph;
        e->frame->graph = policy == IR_LOOPS_ADD ? base : loops_of(e, base, IR_LOOPS_REMOVE, s);
        CallArg arg = {.value = policy == IR_LOOPS_ADD ? v : carry(e, v, e->frame->graph)};
        at_node = call_reduce(e, fill, REDUCE_IN, &(Call){.span = s, .args = &arg, .n = 1});
        e->frame->graph = old;
    }
    if (at_node.kind != V_TENSOR || at_node.type.space == IR_UNIT) return at_node;
    if (at_node.type.space != ir->dst_space) {
        diag_error(e->d, E0204, s, "`fill` wants a number, a node value or a reducer, found %s",
                   value_text(e, &at_node));
        return value_error();
    }
    return op_gather(e, at_node, ir->dst, ir->edge, s);
}

static Value carry_filled(Elab *e, const CallArg *arg, const GraphValue *base, const GraphValue *g, IrLoopPolicy policy)
{
    const Binding *b = scope_find(e->frame, arg->name);
    Span s = arg->ast->span;
    if (!b) return error_unknown_name(e, arg->name, s), value_error();
    Value v = b->value, fill = arg->value;
    if (v.kind == V_NONE || v.kind == V_ERROR || fill.kind == V_ERROR) return v;
    bool number = v.kind == V_NUMBER && fill.kind == V_NUMBER;
    if (number && v.num == fill.num) return v;
    if (v.kind == V_TENSOR && v.type.space != graph_ir(e, base)->edge) {
        Diag *d = diag_error(e->d, E0204, s, "`fill %s`: %s is no edge value of this graph", arg->name,
                             value_text(e, &v));
        diag_help(e->d, d, "node values need no `fill`: the nodes of both graphs are the same");
        return value_error();
    }
    bool all = graph_ir(e, g)->kind == IR_GRAPH_REVERSE || graph_ir(e, g)->kind == IR_GRAPH_NEGATIVES ||
               policy == IR_LOOPS_REMOVE; /* every edge has an original */
    if (!all) fill = fill_value(e, v, &fill, base, g, policy, s);
    v = carry(e, v, g);
    if (all) return v;
    IrType t = ir_scalar(IR_BOOL);
    t.space = graph_ir(e, g)->edge;
    IrAttr attr = {.map = graph_ir(e, g)->orig};
    Value old = value_tensor(op_add(e, IR_OP_mapped, t, NULL, 0, attr, s), t, s);
    return op_select(e, old, v, fill, s);
}

static bool loop_policy(Elab *e, const Call *c, IrLoopPolicy *out)
{
    static const char *const words[] = {"keep", "replace", "add", "remove"};
    static const IrLoopPolicy policies[] = {IR_LOOPS_KEEP, IR_LOOPS_REPLACE, IR_LOOPS_ADD, IR_LOOPS_REMOVE};
    *out = IR_LOOPS_KEEP;
    for (uint32_t i = 1; i < c->n; i++) {
        if (c->args[i].word) continue;
        uint32_t k = 0;
        while (k < 4 && !value_is_word(&c->args[i].value, words[k])) k++;
        if (k == 4) {
            diag_error(e->d, E0302, c->args[i].ast ? c->args[i].ast->span : c->span,
                       "found %s, wanted keep, replace, add or remove", value_text(e, &c->args[i].value));
            return false;
        }
        *out = policies[k];
    }
    return true;
}

/* The derived graph with every `fill e = ...` of the call carried to it. */
static Value derive_filled(Elab *e, const Call *c, const GraphValue *base, const GraphValue *derived,
                           IrLoopPolicy policy)
{
    GraphValue *g = ARENA_NEW(e->a, GraphValue);
    *g = *derived;
    g->carried_names = ARENA_ARRAY(e->a, const char *, c->n + 1);
    Value *carried = ARENA_ARRAY(e->a, Value, c->n + 1);
    for (uint32_t i = 1; i < c->n; i++) {
        if (!c->args[i].word) continue;
        if (strcmp(c->args[i].word, "fill")) {
            diag_error(e->d, E0302, c->args[i].ast->span, "found `%s`, wanted `fill`", c->args[i].word);
            return value_error();
        }
        g->carried_names[g->n_carried] = c->args[i].name;
        carried[g->n_carried++] = carry_filled(e, &c->args[i], base, g, policy);
    }
    g->carried = carried;
    return value_graph(g, c->span);
}

Value builtin_self_loops(Elab *e, const Call *c)
{
    const GraphValue *base;
    IrLoopPolicy policy;
    if (!graph_arg(e, c, 0, &base) || !loop_policy(e, c, &policy)) return value_error();
    return derive_filled(e, c, base, loops_of(e, base, policy, c->span), policy);
}

Value builtin_reverse(Elab *e, const Call *c)
{
    const GraphValue *base;
    if (!graph_arg(e, c, 0, &base)) return value_error();
    return derive_filled(e, c, base, reverse_of(e, base, c->span), IR_LOOPS_KEEP);
}

const GraphValue *graph_pairs(Elab *e, IrGraphKind kind, const GraphValue *base, Span s)
{
    /* are known */
    bool ends = kind == IR_GRAPH_COMPLETE || (kind == IR_GRAPH_SIBLINGS && graph_ir(e, base)->kind == IR_GRAPH_NEAREST);
    if (!ends && !is_known(e, base)) return graph_found_pairs(e, kind, base, s);
    return graph_said(e, graph_derive(e, kind, IR_LOOPS_KEEP, base), s);
}

/* line(g), siblings(g), complete(g): pairs of edges or nodes of g. */
static Value pairs_graph(Elab *e, const Call *c, IrGraphKind kind)
{
    const GraphValue *base;
    if (!graph_arg(e, c, 0, &base)) return value_error();
    const IrGraph *b = graph_ir(e, base);
    if (c->n > 1) {
        Diag *d = diag_error(e->d, E0302, c->span, "wanted `%s(g)`", derived_names[kind]);
        if (c->args[1].word)
            diag_help(e->d, d, "no edge of g is one of %s(g): read values of g with `.src` and `.dst`",
                      derived_names[kind]);
        return value_error();
    }
    bool edges = e->m->spaces.data[b->src_space].is_edge;
    if ((b->src_space != b->dst_space && kind != IR_GRAPH_SIBLINGS) || (edges && kind == IR_GRAPH_COMPLETE)) {
        diag_error(e->d, E0209, c->span, "`%s` pairs what has one node space%s", derived_names[kind],
                   edges ? ", and its nodes are no edges" : "");
        return value_error();
    }
    if (kind == IR_GRAPH_COMPLETE && !rows_all_used(e, b->src_space, "`complete`", c->span)) return value_error();
    if (kind == IR_GRAPH_COMPLETE) map_graph(e, b->src_space);
    const GraphValue *g = graph_pairs(e, kind, base, c->span);
    return g ? value_graph(g, c->span) : value_error();
}

Value builtin_line(Elab *e, const Call *c) { return pairs_graph(e, c, IR_GRAPH_LINE); }
Value builtin_siblings(Elab *e, const Call *c) { return pairs_graph(e, c, IR_GRAPH_SIBLINGS); }
Value builtin_complete(Elab *e, const Call *c) { return pairs_graph(e, c, IR_GRAPH_COMPLETE); }

/* Whether edges of the graph are known when the data are loaded, so that pairs with nodes are. */
static bool targets_known(Elab *e, const GraphValue *g, const char *word, Span s)
{
    if (is_known(e, g)) return true;
    diag_error(e->d, E0209, s, "`%s` wants edges that are known when the data are loaded", word);
    return false;
}

/* candidates(g): from each node that an edge of g might lead to, to each edge of g. */
Value builtin_candidates(Elab *e, const Call *c)
{
    const GraphValue *base;
    if (!graph_arg(e, c, 0, &base) || !targets_known(e, base, "candidates", c->span)) return value_error();
    if (c->n > 1) {
        diag_error(e->d, E0302, c->span, "wanted `candidates(g)`");
        return value_error();
    }
    return value_graph(graph_said(e, graph_derive(e, IR_GRAPH_CANDIDATES, IR_LOOPS_KEEP, base), c->span), c->span);
}

/* The array of an integer `word` for each edge of a graph: beside NAME_index lies NAME_word. NULL: no array has its
   edges. */
static const char *key_file(Elab *e, const IrGraph *g, const char *word)
{
    while (g->kind == IR_GRAPH_REVERSE) g = &e->m->graphs.data[g->base]; /* its edges have the numbers of the base's */
    const char *file = g->kind == IR_GRAPH_DATA ? "edge_index" : g->kind == IR_GRAPH_FILE ? ir_graph_file(g) : "";
    size_t n = strlen(file);
    if (n <= 6 || g->where) return NULL;
    return arena_printf(e->a, "%.*s_%s", (int)(n - 6), file, word);
}

/* A graph that is made of those in its path: a new one, unless there is one like it. */
static const GraphValue *graph_of_path(Elab *e, IrGraph g)
{
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        const IrGraph *x = &e->m->graphs.data[i];
        bool same = x->kind == g.kind && x->base == g.base && x->n_path == g.n_path && x->n_keys == g.n_keys;
        for (uint32_t k = 0; same && k < g.n_path; k++) same = x->path[k] == g.path[k];
        for (uint32_t k = 0; same && k < g.n_keys; k++) same = !strcmp(x->keys[k], g.keys[k]);
        if (!same) continue;
        GraphValue *v = ARENA_NEW(e->a, GraphValue);
        *v = (GraphValue){.name = x->name, .id = i};
        return v;
    }
    g.edge = ir_space_new(e->m, arena_printf(e->a, "edge.%s", g.name), true);
    graph_maps(e, &g);
    return graph_add(e, g);
}

/* Adds the argument `arg` of `answers` to g: a graph among whose edges the answers are looked for. */
static bool look_through(Elab *e, const CallArg *arg, IrGraph *g)
{
    const IrGraph *base = &e->m->graphs.data[g->base];
    const Value *v = &arg->value;
    Span s = arg->ast ? arg->ast->span : v->span;
    if (v->kind == V_ERROR) return false;
    if (v->kind != V_GRAPH) return diag_error(e->d, E0212, s, "found %s, wanted a graph", value_text(e, v)), false;
    const IrGraph *x = graph_ir(e, v->graph);
    if (!targets_known(e, v->graph, "answers", s)) return false;
    if (x->redrawn || x->kind == IR_GRAPH_CANDIDATES)
        return diag_error(e->d, E0209, s, "`answers` looks through edges that are in a list, drawn once at most"),
               false;
    if (x->src_space != base->src_space || x->dst_space != base->dst_space)
        return diag_error(e->d, E0209, s, "`answers` looks through graphs between the same nodes"), false;
    if (g->n_path == IR_MAX_PATH)
        return diag_error(e->d, E0302, s, "`answers` looks through %d graphs at most", IR_MAX_PATH), false;
    g->path[g->n_path++] = v->graph->id;
    return true;
}

/* answers(g, a, b, by = type): to each edge of g from every node that an edge of a or b leads to, from the same source
   and with the same integer `type`. */
Value builtin_answers(Elab *e, const Call *c)
{
    const GraphValue *base;
    const char *by = NULL;
    if (!graph_arg(e, c, 0, &base) || !targets_known(e, base, "answers", c->span)) return value_error();
    IrGraph g = {.kind = IR_GRAPH_ANSWERS, .base = base->id, .orig = IR_NONE, .image = IR_NONE, .span = c->span};
    for (uint32_t i = 1; i < c->n; i++) {
        const CallArg *a = &c->args[i];
        bool key = a->name && !a->word && !strcmp(a->name, "by");
        if (key && a->value.kind == V_WORD) by = a->value.word;
        else if (key || a->word || a->name) {
            diag_error(e->d, E0302, a->ast->span, "wanted `answers(g, a, b, by = type)`");
            return value_error();
        } else if (!look_through(e, a, &g)) return value_error();
    }
    if (!g.n_path) {
        diag_error(e->d, E0302, c->span, "wanted graphs to look through: `answers(g, a, b, by = type)`");
        return value_error();
    }
    for (uint32_t k = 0; by && k <= g.n_path; k++) {
        g.keys[g.n_keys++] = key_file(e, &e->m->graphs.data[k ? g.path[k - 1] : g.base], by);
        if (g.keys[k]) continue;
        diag_error(e->d, E0209, c->span, "`by` reads files beside those of edges, and `%s` has none",
                   e->m->graphs.data[k ? g.path[k - 1] : g.base].name);
        return value_error();
    }
    const IrGraph *b = &e->m->graphs.data[g.base];
    g.src_space = b->dst_space;
    g.dst_space = b->edge;
    g.name = arena_printf(e->a, "%s.answers%u", b->name, e->m->graphs.n);
    return value_graph(graph_of_path(e, g), c->span);
}

/* Adds a step to a path, which begins where the step before it ends. */
static bool add_step(Elab *e, const CallArg *arg, IrGraph *g)
{
    const Value *v = &arg->value;
    Span s = arg->ast ? arg->ast->span : v->span;
    if (v->kind == V_ERROR) return false;
    if (v->kind == V_WORD) return error_unknown_name(e, v->word, v->span), false;
    if (v->kind != V_GRAPH || arg->name)
        return diag_error(e->d, E0212, s, "found %s, wanted a graph", value_text(e, v)), false;
    const IrGraph *x = graph_ir(e, v->graph);
    if (!targets_known(e, v->graph, "compose", s)) return false;
    if (x->redrawn || x->kind == IR_GRAPH_CANDIDATES)
        return diag_error(e->d, E0209, s, "`compose` walks along edges that are in a list, drawn once at most"), false;
    if (g->n_path && x->src_space != g->dst_space) {
        Diag *d = diag_error(e->d, E0209, s, "the path is at `%s` here, and this leads from `%s`",
                             space_text(e, g->dst_space), space_text(e, x->src_space));
        note_relation(e, d, v->graph);
        return false;
    }
    if (!g->n_path) g->src_space = x->src_space;
    g->dst_space = x->dst_space;
    g->path[g->n_path++] = v->graph->id;
    return true;
}

/* compose(a, b, ...): an edge for each pair of nodes that a walk joins, along an edge of a, then one of b. */
Value builtin_compose(Elab *e, const Call *c)
{
    IrGraph g = {.kind = IR_GRAPH_COMPOSE, .base = IR_NONE, .orig = IR_NONE, .image = IR_NONE, .span = c->span};
    if (c->n < 2 || c->n > IR_MAX_PATH) {
        diag_error(e->d, E0302, c->span, "`compose` joins 2 to %d graphs, found %u: `compose(g, reverse(g))`",
                   IR_MAX_PATH, c->n);
        return value_error();
    }
    for (int k = 0; k < GRAPH_COST; k++)
        if (!elab_spend(e, c->span)) return value_error();
    for (uint32_t i = 0; i < c->n; i++)
        if (!add_step(e, &c->args[i], &g)) return value_error();
    g.name = arena_printf(e->a, "compose%u", e->m->graphs.n);
    return value_graph(graph_of_path(e, g), c->span);
}

/* Named whole numbers behind the graph, seed the last: without one what is drawn is drawn for each step of training,
   and once in eval mode, from seed 0. */
static bool draw_args(Elab *e, const Call *c, const char *const *names, int64_t *n, uint32_t n_names, const char *form)
{
    n[n_names - 1] = e->training ? -1 : 0;
    for (uint32_t i = 1; i < c->n; i++) {
        const CallArg *a = &c->args[i];
        uint32_t k = 0;
        if (a->word) continue;
        while (k < n_names && !(a->name && !strcmp(a->name, names[k]))) k++;
        bool whole = a->value.kind == V_NUMBER && a->value.num == floor(a->value.num);
        if (k == n_names || !whole || a->value.num < (k + 1 < n_names) || a->value.num > 1e9) {
            diag_error(e->d, E0302, a->ast->span, "found %s, wanted whole numbers as in `%s`", value_text(e, &a->value),
                       form);
            return false;
        }
        n[k] = (int64_t)a->value.num;
    }
    return true;
}

static bool negatives_known(Elab *e, const GraphValue *base, Span s)
{
    if (is_known(e, base)) return true;
    Diag *d = diag_error(e->d, E0209, s,
                         "`negatives` are drawn for graphs whose edges are known when the data are loaded");
    diag_help(e->d, d, "draw them for the data's graph, or read pairs of `complete(g)`");
    return false;
}

/* negatives(g, k = 1, seed = 0): k pairs for each edge. */
Value builtin_negatives(Elab *e, const Call *c)
{
    static const char *const names[] = {"k", "seed"};
    const GraphValue *base;
    int64_t n[] = {1, 0};
    if (!graph_arg(e, c, 0, &base) || !negatives_known(e, base, c->span)) return value_error();
    if (!draw_args(e, c, names, n, 2, "negatives(g, k = 5, seed = 1)")) return value_error();
    const GraphValue *g = derive_drawn(e, IR_GRAPH_NEGATIVES, IR_LOOPS_KEEP, base, n[0], n[1]);
    return derive_filled(e, c, base, graph_said(e, g, c->span), IR_LOOPS_KEEP);
}

/* permutation(g, seed = 0): into each node one edge, from another. */
Value builtin_permutation(Elab *e, const Call *c)
{
    static const char *const names[] = {"seed"};
    const GraphValue *base;
    int64_t n[] = {0};
    if (!graph_arg(e, c, 0, &base) || !draw_args(e, c, names, n, 1, "permutation(g, seed = 1)")) return value_error();
    const IrGraph *b = graph_ir(e, base);
    for (uint32_t i = 1; i < c->n; i++)
        if (c->args[i].word) {
            diag_error(e->d, E0302, c->args[i].ast->span, "a permutation keeps no edge: it takes no `fill`");
            return value_error();
        }
    if (b->src_space == b->dst_space && !e->m->spaces.data[b->src_space].is_edge)
        return value_graph(derive_drawn(e, IR_GRAPH_PERMUTATION, IR_LOOPS_KEEP, base, 0, n[0]), c->span);
    diag_error(e->d, E0209, c->span, "`permutation` is of the nodes of a graph with one node space");
    return value_error();
}

/* random_graph(nodes = 50, edges = 300, seed = 1) */
Value builtin_random_graph(Elab *e, const Call *c)
{
    static const char *const names[] = {"nodes", "edges", "seed"};
    int64_t n[3] = {0, 0, 0};
    for (uint32_t i = 0; i < c->n; i++) {
        const CallArg *a = &c->args[i];
        int k = a->name ? 0 : (int)i;
        while (a->name && k < 3 && strcmp(a->name, names[k])) k++;
        if (k > 2 || a->value.kind != V_NUMBER || a->value.num != floor(a->value.num) || a->value.num < 0 ||
            a->value.num > 1e9) {
            diag_error(e->d, E0302, a->ast->span, "random_graph takes whole numbers: nodes, edges, seed");
            return value_error();
        }
        n[k] = (int64_t)a->value.num;
    }
    if (n[1] && !n[0]) {
        diag_error(e->d, E0302, c->span, "a graph with edges needs nodes");
        return value_error();
    }
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        const IrGraph *g = &e->m->graphs.data[i];
        if (g->kind != IR_GRAPH_RANDOM || g->n_nodes != n[0] || g->n_edges != n[1] || g->seed != n[2]) continue;
        GraphValue *v = ARENA_NEW(e->a, GraphValue);
        *v = (GraphValue){.name = g->name, .id = i};
        return value_graph(v, c->span);
    }
    IrGraph g = {.kind = IR_GRAPH_RANDOM,
                 .base = IR_NONE,
                 .orig = IR_NONE,
                 .image = IR_NONE,
                 .n_nodes = n[0],
                 .n_edges = n[1],
                 .seed = n[2]};
    g.name = arena_printf(e->a, "random%u", e->m->graphs.n);
    g.src_space = g.dst_space = ir_space_new(e->m, arena_printf(e->a, "node.%s", g.name), false);
    g.edge = ir_space_new(e->m, arena_printf(e->a, "edge.%s", g.name), true);
    graph_maps(e, &g);
    return value_graph(graph_add(e, g), c->span);
}

Value graph_over(Elab *e, const AstExpr *x)
{
    Value v = elab_expr(e, x->as.over.graph);
    if (v.kind == V_ERROR) return v;
    if (v.kind == V_WORD && schema_type(e, v.word)) {
        diag_help(e->d, diag_error(e->d, E0212, x->as.over.graph->span, "`over` wants a graph, found a type of nodes"),
                  "`forall r into all { ... }` goes over relations");
        return value_error();
    }
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    if (v.kind != V_GRAPH) {
        diag_error(e->d, E0212, x->as.over.graph->span, "`over` wants a graph, found %s", value_text(e, &v));
        return value_error();
    }
    const GraphValue *g = v.graph, *before = e->frame->graph;
    Value *saved = ARENA_ARRAY(e->a, Value, g->n_carried + 1);
    for (uint32_t i = 0; i < g->n_carried; i++) {
        Binding *b = scope_find(e->frame, g->carried_names[i]);
        saved[i] = b ? b->value : value_error();
        if (b) b->value = g->carried[i]; /* else: a graph from the caller, whose names mean nothing here */
    }
    e->frame->graph = g;
    Value r = elab_block(e, &x->as.over.body);
    e->frame->graph = before;
    for (uint32_t i = 0; i < g->n_carried; i++) {
        Binding *b = scope_find(e->frame, g->carried_names[i]);
        if (b && saved[i].kind != V_ERROR) b->value = saved[i];
    }
    return r;
}
