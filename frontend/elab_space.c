/* Graphs, spaces and maps of the module, found or made: those of the data, those of a further file of edges, and the
   one row that all rows of a space lead to. */
#include "frontend/sema.h"

static const GraphValue no_graph = {.name = "no graph", .id = IR_NONE};

bool graph_is_none(const GraphValue *g) { return g->id == IR_NONE; }

void error_no_graph(Elab *e, const char *what, Span s)
{
    Diag *d = diag_error(e->d, E0209, s, "%s does not say of which relation", what);
    diag_help(e->d, d, "a graph is at hand in `over r { ... }`, r a relation of the schema");
}

const IrGraph *graph_ir(Elab *e, const GraphValue *g)
{
    static const IrGraph none = {.edge = IR_NONE,
                                 .src_space = IR_NONE,
                                 .dst_space = IR_NONE,
                                 .src = IR_NONE,
                                 .dst = IR_NONE,
                                 .base = IR_NONE,
                                 .orig = IR_NONE,
                                 .image = IR_NONE};
    return graph_is_none(g) ? &none : &e->m->graphs.data[g->id];
}

const IrGraph *graph_of_edges(Elab *e, IrId space)
{
    for (uint32_t i = 0; i < e->m->graphs.n; i++)
        if (e->m->graphs.data[i].edge == space) return &e->m->graphs.data[i];
    return NULL;
}

void graph_maps(Elab *e, IrGraph *g)
{
    const char *edge = e->m->spaces.data[g->edge].name;
    g->src = ir_map_new(e->m, arena_printf(e->a, "%s.src", edge), g->edge, g->src_space);
    g->dst = ir_map_new(e->m, arena_printf(e->a, "%s.dst", edge), g->edge, g->dst_space);
    e->m->maps.data[g->dst].sorted = true;
}

const GraphValue *graph_add(Elab *e, IrGraph g)
{
    VEC_PUSH(e->a, &e->m->graphs, g);
    GraphValue *v = ARENA_NEW(e->a, GraphValue);
    *v = (GraphValue){.name = g.name, .id = e->m->graphs.n - 1};
    return v;
}

const GraphValue *graph_data(Elab *e)
{
    if (e->schema && !e->alone) return &no_graph;
    if (e->data_graph) return e->data_graph;
    IrGraph g = {.name = "g", .kind = IR_GRAPH_DATA, .base = IR_NONE, .orig = IR_NONE, .image = IR_NONE};
    g.src_space = ir_space_new(e->m, e->bipartite ? "src" : "node", false);
    g.dst_space = e->bipartite ? ir_space_new(e->m, "dst", false) : g.src_space;
    g.edge = ir_space_new(e->m, "edge", true);
    graph_maps(e, &g);
    return e->data_graph = graph_add(e, g);
}

Value value_graph(const GraphValue *g, Span s)
{
    return (Value){.kind = V_GRAPH, .graph = g, .span = s, .dim = IR_NONE};
}

Value graph_of_file(Elab *e, const char *name, Span s)
{
    const GraphValue *data = graph_data(e);
    if (!strcmp(name, "edge_index")) return value_graph(data, s);
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        if (e->m->graphs.data[i].kind != IR_GRAPH_FILE || strcmp(e->m->graphs.data[i].name, name)) continue;
        GraphValue *v = ARENA_NEW(e->a, GraphValue);
        *v = (GraphValue){.name = e->m->graphs.data[i].name, .id = i};
        return value_graph(v, s);
    }
    IrGraph g = {.name = name, .kind = IR_GRAPH_FILE, .base = IR_NONE, .orig = IR_NONE, .image = IR_NONE, .span = s};
    g.src_space = graph_ir(e, data)->src_space;
    g.dst_space = graph_ir(e, data)->dst_space;
    g.edge = ir_space_new(e->m, arena_printf(e->a, "edge.%s", name), true);
    graph_maps(e, &g);
    return value_graph(graph_add(e, g), s);
}

IrId map_all(Elab *e, IrId space)
{
    for (uint32_t i = 0; i < e->m->maps.n; i++)
        if (e->m->maps.data[i].from == space && e->m->maps.data[i].to == IR_UNIT) return i;
    IrId map = ir_map_new(e->m, arena_printf(e->a, "%s.all", e->m->spaces.data[space].name), space, IR_UNIT);
    e->m->maps.data[map].sorted = true;
    return map;
}

/* The nodes of a test's graph, which is one graph. */
static bool is_drawn(const Elab *e, IrId space)
{
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        const IrGraph *g = &e->m->graphs.data[i];
        if (g->kind == IR_GRAPH_RANDOM && (g->src_space == space || g->dst_space == space)) return true;
    }
    return false;
}

IrId graph_space(Elab *e)
{
    if (e->graph_space == IR_NONE) e->graph_space = ir_space_new(e->m, "graph", false);
    return e->graph_space;
}

IrId map_graph(Elab *e, IrId space)
{
    const IrGraph *g = graph_ir(e, graph_data(e)), *of = graph_of_edges(e, space);
    for (uint32_t i = 0; i < e->m->graphs.n; i++) {
        const IrGraph *s = &e->m->graphs.data[i];
        bool says = ir_graph_has_of(s->kind) && s->of != IR_NONE && e->m->maps.data[s->of].from == space;
        if (says) return e->m->maps.data[s->of].to == e->graph_space ? s->of : IR_NONE;
    }
    bool edges = of && !of->redrawn && map_graph(e, of->src_space) != IR_NONE; /* an edge is of its source's graph */
    bool typed = !e->alone && schema_type(e, e->m->spaces.data[space].name);
    if (e->bipartite || (space != g->src_space && !edges && !typed && !is_drawn(e, space))) return IR_NONE;
    graph_space(e);
    for (uint32_t i = 0; i < e->m->maps.n; i++)
        if (e->m->maps.data[i].from == space && e->m->maps.data[i].to == e->graph_space) return i;
    IrId map = ir_map_new(e->m, arena_printf(e->a, "%s.graph", e->m->spaces.data[space].name), space, e->graph_space);
    e->m->maps.data[map].sorted = !edges;
    return map;
}
