/* Graphs derived from graphs that a run finds (knn, select). How many edges there may be is known when the data are
   loaded: so many for each of the base's, and for loops one for each node; where they lead is computed behind the base,
   and those that are none lead nowhere:

     reverse      an edge's ends, swapped
     self_loops   an edge's ends if it stays, a node twice if it gets a loop
     line of knn  each edge has as many before it as its target has edges, as all nodes of a graph have the same number
     pairs of selected nodes   those pairs of the base's edges that both stayed

   Equal derivations share a graph of the module; each function that has one routes it anew. */
#include "frontend/sema.h"

/* ---- rows ---- */

IrType found_ints(IrId space)
{
    IrType t = ir_scalar(IR_I64);
    t.space = space;
    return t;
}

Value found_none(Span s) { return value_number(-1, true, s); }

Value found_rows(Elab *e, IrId space, Span s)
{
    IrType t = found_ints(space);
    return value_tensor(op_add(e, IR_OP_row, t, NULL, 0, (IrAttr){0}, s), t, s);
}

static Value is_mapped(Elab *e, IrId map, Span s)
{
    IrType t = ir_scalar(IR_BOOL);
    t.space = e->m->maps.data[map].from;
    return value_tensor(op_add(e, IR_OP_mapped, t, NULL, 0, (IrAttr){.map = map}, s), t, s);
}

/* v, a value where the map leads to, at each element; -1 where it leads nowhere. */
static Value through(Elab *e, Value v, IrId map, Span s)
{
    const IrMap m = e->m->maps.data[map];
    v = op_gather(e, v, map, m.from, s);
    return m.partial ? op_select(e, is_mapped(e, map, s), v, found_none(s), s) : v;
}

Value found_there(Elab *e, IrId space, Span s)
{
    const IrGraph *g = graph_of_edges(e, space);
    return g && e->m->maps.data[g->src].partial ? is_mapped(e, g->src, s) : value_none(s);
}

Value found_at(Elab *e, IrId map, Span s) { return through(e, found_rows(e, e->m->maps.data[map].to, s), map, s); }

void found_route(Elab *e, Value to, IrId map, Span s)
{
    op_add(e, IR_OP_route, to.type, &to.id, 1, (IrAttr){.map = map}, s);
}

void found_between(Elab *e, Value slot, const IrGraph *base, const IrGraph *g, Span s)
{
    Value none = found_none(s), from = through(e, slot, base->src, s), to = through(e, slot, base->dst, s);
    Value both = op_binary(e, IR_OP_lt, "compare", none, op_binary(e, IR_OP_min, "compare", from, to, s), s);
    found_route(e, op_gather(e, op_select(e, both, from, none, s), g->orig, g->edge, s), g->src, s);
    found_route(e, op_gather(e, op_select(e, both, to, none, s), g->orig, g->edge, s), g->dst, s);
}

/* ---- graphs ---- */

typedef struct Ends {
    IrId src, dst; /* spaces */
    bool all;      /* every edge leads somewhere */
    bool targets;  /* each target has an edge of its own */
} Ends;

static IrId new_map(Elab *e, const IrGraph *g, const char *what, IrId to)
{
    return ir_map_new(e->m, arena_printf(e->a, "%s.%s", e->m->spaces.data[g->edge].name, what), g->edge, to);
}

static void maps_of_targets(Elab *e, IrGraph *g)
{
    IrMap *maps;
    g->batch = map_graph(e, g->dst_space);
    if (g->batch == IR_NONE) g->batch = map_all(e, g->dst_space);
    IrId to = e->m->maps.data[g->batch].to;
    g->of = to == IR_UNIT ? map_all(e, g->edge) : new_map(e, g, "graph", to);
    g->image = new_map(e, g, "target", g->dst_space);
    maps = e->m->maps.data;
    maps[g->of].sorted = true;
    maps[g->image].partial = maps[g->orig].partial = true;
}

/* The graph of that name, made unless it is there; *routed: this function has its routes already. */
static const GraphValue *routed_graph(Elab *e, const char *word, const GraphValue *base, Ends ends, bool *routed)
{
    const char *name = arena_printf(e->a, "%s.%s", graph_ir(e, base)->name, word);
    const GraphValue *v = NULL;
    for (uint32_t i = 0; i < e->m->graphs.n && !v; i++) {
        if (e->m->graphs.data[i].kind != IR_GRAPH_ROUTED || strcmp(e->m->graphs.data[i].name, name)) continue;
        GraphValue *have = ARENA_NEW(e->a, GraphValue);
        *have = (GraphValue){.name = name, .id = i};
        v = have;
    }
    if (!v) {
        IrGraph g = {.name = name,
                     .kind = IR_GRAPH_ROUTED,
                     .base = base->id,
                     .n_edges = 1,
                     .image = IR_NONE,
                     .batch = IR_NONE,
                     .of = IR_NONE,
                     .src_space = ends.src,
                     .dst_space = ends.dst};
        g.edge = ir_space_new(e->m, arena_printf(e->a, "edge.%s", name), true);
        g.src = new_map(e, &g, "src", g.src_space);
        g.dst = new_map(e, &g, "dst", g.dst_space);
        g.orig = new_map(e, &g, "orig", graph_ir(e, base)->edge);
        IrMap *src = &e->m->maps.data[g.src], *dst = &e->m->maps.data[g.dst];
        src->computed = dst->computed = true;
        src->partial = dst->partial = !ends.all;
        if (ends.targets) maps_of_targets(e, &g);
        v = graph_add(e, g);
    }
    *routed = false;
    for (uint32_t i = 0; i < e->routed.n; i++)
        *routed |= e->routed.data[i].f == e->f && e->routed.data[i].graph == v->id;
    if (!*routed) VEC_PUSH(e->a, &e->routed, ((RoutedGraph){e->f, v->id}));
    return v;
}

static bool is_total(const Elab *e, const IrGraph *g)
{
    return !e->m->maps.data[g->src].partial && !e->m->maps.data[g->dst].partial;
}

const GraphValue *graph_found_reverse(Elab *e, const GraphValue *base, Span s)
{
    const IrGraph b = *graph_ir(e, base);
    bool routed;
    const GraphValue *v = routed_graph(e, "reverse", base, (Ends){b.dst_space, b.src_space, is_total(e, &b), false},
                                       &routed);
    const IrGraph g = *graph_ir(e, v);
    if (routed) return v;
    found_route(e, op_gather(e, found_at(e, b.dst, s), g.orig, g.edge, s), g.src, s);
    found_route(e, op_gather(e, found_at(e, b.src, s), g.orig, g.edge, s), g.dst, s);
    return v;
}

/* ---- loops ---- */

typedef struct Loops {
    Value stays; /* [base's edges] bool, or none: all do */
    Value fresh; /* [targets] the node itself where it gets a loop, else -1 */
} Loops;

static Loops loops_of(Elab *e, const IrGraph *b, IrLoopPolicy policy, Span s)
{
    Loops l = {.stays = value_none(s), .fresh = found_rows(e, b->dst_space, s)};
    Value used = rows_used(e, b->dst_space, s);
    if (used.kind == V_TENSOR) l.fresh = op_select(e, used, l.fresh, found_none(s), s);
    if (policy == IR_LOOPS_ADD) return l;
    Value loop = op_binary(e, IR_OP_eq, "compare", found_at(e, b->src, s), found_at(e, b->dst, s), s);
    l.stays = op_unary(e, IR_OP_not, loop, s);
    if (policy != IR_LOOPS_KEEP) return l;
    Value row = found_rows(e, b->edge, s);
    Value last = op_reduce(e, IR_OP_reduce_max, op_select(e, loop, row, found_none(s), s), b->dst, -1, s);
    Value is_last = op_binary(e, IR_OP_eq, "compare", row, op_gather(e, last, b->dst, b->edge, s), s);
    l.stays = op_binary(e, IR_OP_or, "combine", l.stays, is_last, s);
    l.fresh = op_select(e, op_binary(e, IR_OP_lt, "compare", last, value_number(0, true, s), s), l.fresh, found_none(s),
                        s);
    return l;
}

/* An end of each edge of g: that of the base's edge if it stays; of an edge for a target what is given for that. */
static Value loop_end(Elab *e, const IrGraph *g, const Loops *l, IrId map, Span s)
{
    Value v = found_at(e, map, s);
    if (l->stays.kind == V_TENSOR) v = op_select(e, l->stays, v, found_none(s), s);
    v = op_gather(e, v, g->orig, g->edge, s);
    if (g->image == IR_NONE) return v;
    return op_select(e, is_mapped(e, g->orig, s), v, op_gather(e, l->fresh, g->image, g->edge, s), s);
}

const GraphValue *graph_found_loops(Elab *e, const GraphValue *base, IrLoopPolicy policy, Span s)
{
    static const char *const words[] = {[IR_LOOPS_KEEP] = "loops",
                                        [IR_LOOPS_REPLACE] = "own_loops",
                                        [IR_LOOPS_ADD] = "more_loops",
                                        [IR_LOOPS_REMOVE] = "no_loops"};
    const IrGraph b = *graph_ir(e, base);
    bool routed, one = b.src_space == b.dst_space;
    Ends ends = {b.src_space, b.dst_space, one && policy == IR_LOOPS_ADD && is_total(e, &b), policy != IR_LOOPS_REMOVE};
    const GraphValue *v = routed_graph(e, words[policy], base, ends, &routed);
    const IrGraph g = *graph_ir(e, v);
    if (routed) return v;
    Loops l = loops_of(e, &b, policy, s);
    Value src = loop_end(e, &g, &l, b.src, s), dst = loop_end(e, &g, &l, b.dst, s);
    found_route(e, src, g.src, s); /* a target's number that no source has leads nowhere */
    found_route(e, dst, g.dst, s);
    return v;
}

/* ---- pairs of edges ---- */

/* The pairs of the edges that nodes were chosen of, as far as both stayed. */
static const GraphValue *pairs_of_chosen(Elab *e, IrGraphKind kind, const GraphValue *base, Span s)
{
    const IrGraph b = *graph_ir(e, base);
    const GraphValue *all = graph_pairs(e, kind, &(GraphValue){.name = e->m->graphs.data[b.base].name, .id = b.base},
                                        s);
    if (!all) return NULL;
    bool routed;
    const char *word = arena_printf(e->a, "of.%s", b.name);
    const GraphValue *v = routed_graph(e, word, all, (Ends){b.edge, b.edge, false, false}, &routed);
    const IrGraph g = *graph_ir(e, v), pairs = *graph_ir(e, all);
    if (routed) return v;
    Value slot = op_select(e, is_mapped(e, b.src, s), found_rows(e, b.edge, s), found_none(s), s);
    found_between(e, op_reduce(e, IR_OP_reduce_sum, slot, b.orig, 0, s), &pairs, &g, s);
    return v;
}

/* Those before edge f are the edges into its source: as many as there are into its target, to be counted off by f's
   siblings. */
static const GraphValue *line_of_near(Elab *e, const GraphValue *base, Span s)
{
    const IrGraph b = *graph_ir(e, base);
    const GraphValue *siblings = graph_pairs(e, IR_GRAPH_SIBLINGS, base, s);
    const IrGraph pairs = *graph_ir(e, siblings);
    bool routed;
    const GraphValue *v = routed_graph(e, "line", siblings, (Ends){b.edge, b.edge, true, false}, &routed);
    const IrGraph g = *graph_ir(e, v);
    if (routed) return v;
    Value row = found_rows(e, b.edge, s), first = op_reduce(e, IR_OP_reduce_min, row, b.dst, 0, s);
    Value place = op_binary(e, IR_OP_sub, "subtract", row, op_gather(e, first, b.dst, b.edge, s), s);
    Value begin = op_gather(e, op_gather(e, first, b.src, b.edge, s), pairs.dst, pairs.edge, s);
    Value before = op_binary(e, IR_OP_add, "add", begin, op_gather(e, place, pairs.src, pairs.edge, s), s);
    found_route(e, op_gather(e, before, g.orig, g.edge, s), g.src, s);
    found_route(e, op_gather(e, found_at(e, pairs.dst, s), g.orig, g.edge, s), g.dst, s);
    return v;
}

const GraphValue *graph_found_pairs(Elab *e, IrGraphKind kind, const GraphValue *base, Span s)
{
    const IrGraph *b = graph_ir(e, base);
    if (b->kind == IR_GRAPH_SELECT) return pairs_of_chosen(e, kind, base, s);
    if (b->kind == IR_GRAPH_NEAREST && kind == IR_GRAPH_LINE) return line_of_near(e, base, s);
    Diag *d = diag_error(e->d, E0209, s, "how many pairs of edges meet in this graph is known in a run only");
    diag_help(e->d, d,
              "pair the edges of `knn(...)` or `select(...)` themselves, and add loops to the graph of pairs, or "
              "reverse that");
    return NULL;
}
