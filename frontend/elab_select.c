/* Graphs of selected nodes: `select(g, score, ratio = 0.5)` keeps the best nodes of each graph of the batch, best
   first, of equal ones those that stand first, and the edges between them. How many there are is known when the data
   are loaded, which they are is computed where the graph is made:

     slot = first place of the node's graph + rank(-score), -1 where that is too far     node -> selected
     an edge of the base leads to the slots of its ends, and nowhere if it lost one

   With a bool instead of a score the nodes stay that have it, in their order; how many is known in the run only, so the
   selected space has rows for all, and those behind the last are nobody's: slot = first place + rank(not the bool).
   What would count them is refused.

   `x[s]` reads values of the base there, `y[g]` brings values of selected nodes back. The choice has no derivative. */
#include "frontend/sema.h"
#include <math.h>

typedef struct Selection { /* a call's arguments, and the maps to the graphs of the batch */
    const GraphValue *base;
    Value score;
    int64_t k;
    double ratio;
    bool some; /* the score is a bool */
    IrId batch, of;
    Span span;
} Selection;

static bool take_share(Elab *e, const CallArg *a, Selection *x)
{
    const Value *v = &a->value;
    bool count = a->name && !strcmp(a->name, "k"), share = !a->name || !strcmp(a->name, "ratio");
    if (v->kind == V_ERROR) return false;
    if (count && v->kind == V_NUMBER && v->num >= 1 && v->num <= 1e9 && v->num == floor(v->num))
        return x->k = (int64_t)v->num, true;
    if (share && v->kind == V_NUMBER && v->num > 0 && v->num <= 1) return x->ratio = v->num, true;
    Diag *d = diag_error(e->d, E0302, a->ast->span, "found %s, wanted %s", value_text(e, v),
                         count ? "`k`, how many nodes of each graph stay"
                               : "`ratio`, the share of each graph's nodes that stay");
    diag_help(e->d, d, "`select(g, score, ratio = 0.5)` keeps half of them, `select(g, score, k = 10)` ten");
    return false;
}

static bool take_args(Elab *e, const Call *c, Selection *x)
{
    if (c->n < 2 || c->args[0].value.kind != V_GRAPH || c->args[0].name) {
        if (c->n && c->args[0].value.kind == V_ERROR) return false;
        diag_error(e->d, E0302, c->span, "select wants a graph and a score: `select(g, score, ratio = 0.5)`");
        return false;
    }
    x->base = c->args[0].value.graph;
    x->score = c->args[1].value;
    const IrGraph *g = graph_ir(e, x->base);
    const Value *s = &x->score;
    x->some = s->kind == V_TENSOR && s->type.dtype == IR_BOOL;
    if (x->some && c->n > 2) {
        diag_error(e->d, E0302, c->span, "select keeps all nodes of a bool: it wants no share of them");
        return false;
    }
    for (uint32_t i = 2; i < c->n; i++)
        if (!take_share(e, &c->args[i], x)) return false;
    if (x->some) x->ratio = 1;
    if (s->kind == V_ERROR || !rows_all_used(e, g->src_space, "`select`", c->span)) return false;
    if (g->src_space != g->dst_space || e->m->spaces.data[g->src_space].is_edge)
        return diag_error(e->d, E0209, c->span, "select wants a graph with one space of nodes, which are no edges"),
               false;
    bool scores = x->some || (s->kind == V_TENSOR && ir_dtype_is_float(s->type.dtype));
    if (scores && s->type.space == g->src_space && !s->type.n_dims) return true;
    diag_error(e->d, E0204, c->span, "select wants a score: one float, or a bool, for each node of the graph, found %s",
               value_text(e, s));
    return false;
}

static IrId new_map(Elab *e, const char *edge, const char *what, IrId from, IrId to, bool computed)
{
    IrId id = ir_map_new(e->m, arena_printf(e->a, "%s.%s", edge, what), from, to);
    e->m->maps.data[id].computed = e->m->maps.data[id].partial = computed;
    return id;
}

static const GraphValue *new_graph(Elab *e, Selection *x)
{
    const IrGraph base = *graph_ir(e, x->base);
    x->batch = map_graph(e, base.src_space);
    if (x->batch == IR_NONE) x->batch = map_all(e, base.src_space);
    IrGraph g = {.name = arena_printf(e->a, "select%u", e->m->graphs.n),
                 .kind = IR_GRAPH_SELECT,
                 .base = x->base->id,
                 .n_edges = x->k,
                 .ratio = x->k ? 1 : x->ratio,
                 .batch = x->batch};
    const char *node = arena_printf(e->a, "node.%s", g.name), *edge = arena_printf(e->a, "edge.%s", g.name);
    IrId to = e->m->maps.data[x->batch].to;
    g.src_space = g.dst_space = ir_space_new(e->m, node, false);
    g.edge = ir_space_new(e->m, edge, true);
    g.of = x->of = to == IR_UNIT ? map_all(e, g.src_space) : new_map(e, node, "graph", g.src_space, to, false);
    e->m->maps.data[g.of].sorted = true;
    g.image = new_map(e, node, "image", base.src_space, g.src_space, true);
    g.orig = new_map(e, edge, "orig", g.edge, base.edge, false);
    g.src = new_map(e, edge, "src", g.edge, g.src_space, true);
    g.dst = new_map(e, edge, "dst", g.edge, g.src_space, true);
    return graph_add(e, g);
}

/* What each row of a space has there, from the graphs of the batch. */
static Value spread(Elab *e, Value v, IrId map)
{
    return e->m->maps.data[map].to == IR_UNIT ? v : op_gather(e, v, map, e->m->maps.data[map].from, v.span);
}

/* What nodes are ranked by, least first: chosen ones, or the greatest scores. */
static Value order_of(Elab *e, const Selection *x, Span s)
{
    if (!x->some) return op_unary(e, IR_OP_neg, x->score, s);
    return op_cast(e, op_select(e, x->score, value_number(0, true, s), value_number(1, true, s), s), e->real, s);
}

/* Where each node of the base goes: -1 where it does not stay. */
static Value slots(Elab *e, const Selection *x, const IrGraph *g, Span s)
{
    IrType of_nodes = found_ints(x->score.type.space), of_chosen = found_ints(g->src_space);
    Value neg = order_of(e, x, s);
    Value rank = value_tensor(op_add(e, IR_OP_rank, of_nodes, &neg.id, 1, (IrAttr){.map = x->batch}, s), of_nodes, s);
    Value row = found_rows(e, g->src_space, s);
    Value n = spread(e, op_reduce(e, IR_OP_reduce_sum, op_const(e, of_chosen, 1, s), x->of, 0, s), x->batch);
    Value first = spread(e, op_reduce(e, IR_OP_reduce_min, row, x->of, 0, s), x->batch);
    Value stays = x->some ? x->score : op_binary(e, IR_OP_lt, "compare", rank, n, s);
    return op_select(e, stays, op_binary(e, IR_OP_add, "add", first, rank, s), found_none(s), s);
}

static void route_all(Elab *e, const Selection *x, const GraphValue *value)
{
    Span s = x->span;
    const IrGraph g = *graph_ir(e, value), base = *graph_ir(e, x->base);
    Value slot = slots(e, x, &g, s);
    found_route(e, slot, g.image, s);
    found_between(e, slot, &base, &g, s);
}

/* The function `vjp` computes what `forward` does: its graphs are the same, in the order of their making, so that
   values of them have the same types. NULL: this is another function, or makes another graph. */
static const GraphValue *of_forward(Elab *e, const Selection *x)
{
    uint32_t before = 0, place = 0;
    if (strcmp(e->f->name, "vjp")) return NULL;
    for (uint32_t i = 0; i < e->selected.n; i++) before += e->selected.data[i].f == e->f;
    for (uint32_t i = 0; i < e->selected.n; i++) {
        const SelectGraph *have = &e->selected.data[i];
        if (strcmp(have->f->name, "forward") || place++ != before) continue;
        return have->base == x->base->id && have->k == x->k && have->ratio == x->ratio && have->some == x->some
                   ? have->graph
                   : NULL;
    }
    return NULL;
}

static const GraphValue *graph_select(Elab *e, Selection *x)
{
    const GraphValue *g = of_forward(e, x);
    if (!g) return new_graph(e, x);
    x->batch = graph_ir(e, g)->batch;
    x->of = graph_ir(e, g)->of;
    return g;
}

Value builtin_select(Elab *e, const Call *c)
{
    Selection x = {.ratio = 0.5, .span = c->span};
    if (!take_args(e, c, &x)) return value_error();
    for (uint32_t i = 0; i < e->selected.n; i++) {
        const SelectGraph *have = &e->selected.data[i];
        bool same = have->f == e->f && have->score == x.score.id && have->base == x.base->id;
        if (same && have->k == x.k && have->ratio == x.ratio) return value_graph(have->graph, c->span);
    }
    const GraphValue *g = graph_select(e, &x);
    route_all(e, &x, g);
    VEC_PUSH(e->a, &e->selected, ((SelectGraph){e->f, x.score.id, x.base->id, x.k, x.ratio, x.some, g}));
    return value_graph(g, c->span);
}

bool rows_all_used(Elab *e, IrId space, const char *what, Span s)
{
    for (uint32_t i = 0; i < e->selected.n; i++) {
        if (!e->selected.data[i].some || graph_ir(e, e->selected.data[i].graph)->src_space != space) continue;
        Diag *d = diag_error(e->d, E0901, s, "%s of nodes that a bool selected is not built yet", what);
        diag_help(e->d, d, "bring them back first: `y[g]` is 0 where no node was selected");
        return false;
    }
    return true;
}

/* The graph whose selected nodes have this value; NULL: none. */
static const IrGraph *selected_from(Elab *e, IrId space)
{
    for (uint32_t i = 0; i < e->m->graphs.n; i++)
        if (e->m->graphs.data[i].kind == IR_GRAPH_SELECT && e->m->graphs.data[i].src_space == space)
            return &e->m->graphs.data[i];
    return NULL;
}

Value graph_restrict(Elab *e, Value v, const GraphValue *value, Span s)
{
    const IrGraph *g = graph_ir(e, value), *base = g->base == IR_NONE ? NULL : &e->m->graphs.data[g->base];
    if (v.kind == V_ERROR) return v;
    if (v.kind != V_TENSOR) {
        diag_error(e->d, E0212, s, "found %s, wanted a value of nodes or edges", value_text(e, &v));
        return value_error();
    }
    if (g->kind == IR_GRAPH_SELECT && v.type.space == base->edge) return op_gather(e, v, g->orig, g->edge, s);
    const IrGraph *from = selected_from(e, v.type.space);
    if (from && e->m->graphs.data[from->base].src_space == g->src_space)
        return op_gather(e, v, from->image, g->src_space, s);
    if (g->kind == IR_GRAPH_SELECT && v.type.space == base->src_space) {
        bool logic = v.type.dtype == IR_BOOL;
        Value sum = op_reduce(e, IR_OP_reduce_sum, logic ? op_cast(e, v, IR_I64, s) : v, g->image, 0, s);
        return logic ? op_binary(e, IR_OP_ne, "compare", sum, value_number(0, true, s), s) : sum;
    }
    Diag *d = diag_error(e->d, E0204, s, "%s has no rows in this graph", value_text(e, &v));
    diag_help(e->d, d,
              "`x[s]` reads a value of the graph that s = select(...) was made of, `y[g]` brings one of selected nodes "
              "back to its graph");
    return value_error();
}

Value rows_used(Elab *e, IrId space, Span s)
{
    for (uint32_t i = 0; i < e->selected.n; i++) {
        const IrGraph g = *graph_ir(e, e->selected.data[i].graph);
        if (!e->selected.data[i].some || g.src_space != space) continue;
        Value one = op_const(e, found_ints(e->m->maps.data[g.image].from), 1, s);
        return op_binary(e, IR_OP_lt, "compare", value_number(0, true, s),
                         op_reduce(e, IR_OP_reduce_sum, one, g.image, 0, s), s);
    }
    return value_none(s);
}
