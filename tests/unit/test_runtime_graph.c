/* The runtime's graphs against ir/eval's, which were written independently: random topologies with
   loops, parallel edges and empty rows, all self-loop policies, reversal, graphs of graphs and of pairs. And
   what only the runtime has: row lists. */
#include "ir/eval.h"
#include "runtime/graph.h"
#include "runtime/random.h"
#include "tests/unit/check.h"

enum { MAX_SPACES = 40, MAX_MAPS = 80, MAX_GRAPHS = 24 };

typedef struct Made {
    IrModule *ir;
    RtModel rt;
    RtSpace spaces[MAX_SPACES];
    RtMapDef maps[MAX_MAPS];
    RtGraphDef graphs[MAX_GRAPHS];
    RtProgram program;
    RtBuffer buffers[MAX_MAPS * MAX_MAPS]; /* images along lists, each pair of maps from one space */
} Made;

static IrId add_graph(Made *m, IrGraph g, const char *name)
{
    IrModule *ir = m->ir;
    g.name = name;
    g.edge = ir_space_new(ir, name, true);
    g.src = ir_map_new(ir, "src", g.edge, g.src_space);
    g.dst = ir_map_new(ir, "dst", g.edge, g.dst_space);
    ir->maps.data[g.dst].sorted = true;
    if (g.base != IR_NONE && !ir_graph_is_pairs(g.kind) && g.kind != IR_GRAPH_PERMUTATION &&
        !ir_graph_is_of_targets(g.kind)) {
        g.orig = ir_map_new(ir, "orig", g.edge, ir->graphs.data[g.base].edge);
        if (g.kind != IR_GRAPH_NEGATIVES) g.image = ir_map_new(ir, "image", ir->graphs.data[g.base].edge, g.edge);
    }
    VEC_PUSH(ir->arena, &ir->graphs, g);
    return ir->graphs.n - 1;
}

/* n for each edge of the base, and if `more` one for each node, by the graphs of the batch; no end is known. */
static void add_routed(Made *m, IrId base, int64_t n, bool more, IrId batch, const char *name)
{
    IrModule *ir = m->ir;
    const IrGraph b = ir->graphs.data[base];
    /* clang-format off */
    IrGraph g = {.name = name, .kind = IR_GRAPH_ROUTED, .base = base, .n_edges = n, .src_space = b.src_space,
        .dst_space = b.dst_space,
                 .image = IR_NONE, .batch = IR_NONE, .of = IR_NONE};
    /* clang-format on */
    g.edge = ir_space_new(ir, name, true);
    g.orig = ir_map_new(ir, "orig", g.edge, b.edge);
    g.src = g.dst = g.orig; /* those of a run are not compared */
    if (more) {
        g.batch = batch;
        g.of = ir_map_new(ir, "of", g.edge, ir->maps.data[batch].to);
        g.image = ir_map_new(ir, "target", g.edge, b.dst_space);
    }
    VEC_PUSH(ir->arena, &ir->graphs, g);
}

static int64_t index_of(IrId id) { return id == IR_NONE ? -1 : (int64_t)id; }

static void make_tables(Made *m)
{
    const IrModule *ir = m->ir;
    for (uint32_t i = 0; i < ir->spaces.n; i++) m->spaces[i] = (RtSpace){.is_edge = ir->spaces.data[i].is_edge};
    for (uint32_t i = 0; i < ir->maps.n; i++) {
        const IrMap *x = &ir->maps.data[i];
        m->maps[i] = (RtMapDef){0, x->from, x->to, x->partial, x->sorted, -1, 1, 0, 0};
    }
    for (uint32_t i = 0; i < ir->graphs.n; i++) {
        const IrGraph *g = &ir->graphs.data[i];
        bool of = g->kind == IR_GRAPH_ROUTED || g->kind == IR_GRAPH_KEYED;
        m->graphs[i] = (RtGraphDef){0,
                                    g->kind,
                                    g->edge,
                                    g->src_space,
                                    g->dst_space,
                                    g->src,
                                    g->dst,
                                    index_of(g->base),
                                    index_of(g->orig),
                                    index_of(g->image),
                                    g->policy,
                                    g->n_nodes,
                                    g->n_edges,
                                    g->seed,
                                    of ? index_of(g->batch) : -1,
                                    of ? index_of(g->of) : -1,
                                    0,
                                    g->redrawn,
                                    0,
                                    -1,
                                    g->equals,
                                    g->n_path,
                                    {0},
                                    g->n_keys,
                                    {0},
                                    {0, 0}};
        for (uint32_t k = 0; k < g->n_path; k++) m->graphs[i].path[k] = g->path[k];
    }
    for (uint32_t i = 0; i < ir->maps.n; i++)
        for (uint32_t k = 0; k < ir->maps.n; k++)
            if (ir->maps.data[i].from == ir->maps.data[k].from)
                m->buffers[m->program.n_buffers++] = (RtBuffer){.kind = RT_BUF_MAP_ALONG, .ref = i, .along = k};
    m->rt = (RtModel){.abi_version = RT_ABI_VERSION,
                      .n_spaces = ir->spaces.n,
                      .n_maps = ir->maps.n,
                      .n_graphs = ir->graphs.n,
                      .strings = "name",
                      .spaces = m->spaces,
                      .maps = m->maps,
                      .graphs = m->graphs,
                      .n_programs = 1,
                      .programs = &m->program,
                      .buffers = m->buffers};
}

/* data, its four loop policies, a reversal, loops on the reversal, pairs of edges and graphs of those, a random graph,
   node.graph. */
static void make_module(Made *m, Arena *a)
{
    m->ir = ir_module_new(a, "graphs");
    IrId node = ir_space_new(m->ir, "node", false), graph = ir_space_new(m->ir, "graph", false);
    IrId batch = ir_map_new(m->ir, "node.graph", node, graph);
    m->ir->maps.data[batch].sorted = true;
    IrGraph g = {.kind = IR_GRAPH_DATA,
                 .src_space = node,
                 .dst_space = node,
                 .base = IR_NONE,
                 .orig = IR_NONE,
                 .image = IR_NONE};
    IrId data = add_graph(m, g, "edge");
    g.kind = IR_GRAPH_SELF_LOOPS;
    g.base = data;
    static const char *const names[] = {"keep", "replace", "add", "remove"};
    for (int policy = 0; policy < 4; policy++) {
        g.policy = (IrLoopPolicy)policy;
        add_graph(m, g, names[policy]);
    }
    g.kind = IR_GRAPH_REVERSE;
    IrId reverse = add_graph(m, g, "reverse");
    g.kind = IR_GRAPH_SELF_LOOPS;
    g.base = reverse;
    g.policy = IR_LOOPS_KEEP;
    add_graph(m, g, "both");
    g.orig = g.image = IR_NONE;
    g.base = data;
    g.kind = IR_GRAPH_COMPLETE;
    add_graph(m, g, "complete");
    g.kind = IR_GRAPH_NEGATIVES;
    g.n_edges = 3;
    g.seed = 11;
    add_graph(m, g, "negatives");
    g.redrawn = true;
    add_graph(m, g, "negatives of each step");
    g.orig = IR_NONE;
    g.kind = IR_GRAPH_PERMUTATION;
    add_graph(m, g, "permutation of each step");
    g.redrawn = false;
    add_graph(m, g, "permutation");
    g.kind = IR_GRAPH_LINE;
    g.src_space = g.dst_space = m->ir->graphs.data[data].edge;
    IrId line = add_graph(m, g, "line");
    g.kind = IR_GRAPH_SIBLINGS;
    IrId siblings = add_graph(m, g, "siblings");
    g.kind = IR_GRAPH_REVERSE; /* whose nodes are edges */
    g.base = line;
    add_graph(m, g, "line reversed");
    g.kind = IR_GRAPH_SELF_LOOPS;
    g.policy = IR_LOOPS_REPLACE;
    g.base = siblings;
    add_graph(m, g, "siblings with loops");
    g.kind = IR_GRAPH_LINE;
    g.base = line;
    g.orig = g.image = IR_NONE;
    g.src_space = g.dst_space = m->ir->graphs.data[line].edge;
    add_graph(m, g, "line of line");
    g.kind = IR_GRAPH_CANDIDATES;
    g.base = reverse;
    g.src_space = node;
    g.dst_space = m->ir->graphs.data[reverse].edge;
    add_graph(m, g, "candidates");
    g.kind = IR_GRAPH_ANSWERS;
    g.path[g.n_path++] = reverse;
    g.path[g.n_path++] = data;
    add_graph(m, g, "answers");
    add_routed(m, data, 1, true, batch, "routed with targets");
    add_routed(m, reverse, 3, false, batch, "routed");
    IrId other = ir_space_new(m->ir, "other", false);
    add_graph(m,
              (IrGraph){.kind = IR_GRAPH_RANDOM,
                        .src_space = other,
                        .dst_space = other,
                        .base = IR_NONE,
                        .orig = IR_NONE,
                        .image = IR_NONE,
                        .n_nodes = 9,
                        .n_edges = 40,
                        .seed = 5},
              "random");
    make_tables(m);
}

static void compare(const Made *m, const EvalWorld *w, const RtGraph *g)
{
    for (int64_t s = 0; s < m->rt.n_spaces; s++) {
        if (!check(g->spaces[s].count == w->counts[s], "count of %s", m->ir->spaces.data[s].name)) return;
        for (int64_t i = 0; i < w->counts[s]; i++) {
            int64_t want = w->element_ids[s] ? w->element_ids[s][i] : i;
            check((g->spaces[s].ids ? g->spaces[s].ids[i] : i) == want, "id of %s", m->ir->spaces.data[s].name);
        }
    }
    for (int64_t k = 0; k < m->rt.n_maps; k++)
        for (int64_t i = 0; i < w->counts[m->maps[k].from]; i++)
            check(g->maps[k].to[i] == w->maps[k][i], "map %s of %s at %lld: %d, wanted %lld", m->ir->maps.data[k].name,
                  m->ir->spaces.data[m->maps[k].from].name, (long long)i, g->maps[k].to[i], (long long)w->maps[k][i]);
}

/* Each row lists exactly the elements with that image, by ascending user id. */
static void check_lists(const Made *m, const RtGraph *g)
{
    for (int64_t k = 0; k < m->rt.n_maps; k++) {
        const RtMapData *map = &g->maps[k];
        const RtSpaceData *from = &g->spaces[m->maps[k].from];
        int64_t n_rows = g->spaces[m->maps[k].to].count, images = 0;
        for (int64_t i = 0; i < from->count; i++) images += map->to[i] >= 0;
        check(map->rows[0] == 0 && map->rows[n_rows] == images, "rows of %s", m->ir->maps.data[k].name);
        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t at = map->rows[r]; at < map->rows[r + 1]; at++) {
                int32_t e = map->list[at], before = at > map->rows[r] ? map->list[at - 1] : e;
                check(map->to[e] == r, "list of %s", m->ir->maps.data[k].name);
                int64_t x = from->ids ? from->ids[before] : before, y = from->ids ? from->ids[e] : e;
                check(at == map->rows[r] || x < y, "order in list of %s", m->ir->maps.data[k].name);
            }
    }
}

/* The image of each element that a list names; 0 where a partial map's list names none. */
static void check_alongs(const Made *m, const RtGraph *g)
{
    check(g->n_alongs == m->program.n_buffers, "found %lld arrays of images", (long long)g->n_alongs);
    for (int64_t i = 0; i < m->program.n_buffers; i++) {
        const RtBuffer *b = &m->buffers[i];
        const int32_t *to = rt_graph_along(g, b->ref, b->along);
        const RtMapData *list = &g->maps[b->along];
        if (!check(to != NULL, "no images of map %lld", (long long)b->ref)) return;
        int64_t n = g->spaces[m->maps[b->along].from].count,
                n_listed = list->rows[g->spaces[m->maps[b->along].to].count];
        for (int64_t k = 0; k < n; k++) {
            int32_t want = k < n_listed ? g->maps[b->ref].to[list->list[k]] : 0;
            check(to[k] == want, "image of %s at %lld", m->ir->maps.data[b->ref].name, (long long)k);
        }
    }
}

/* Another step has other maps, in the same arrays; the first one's come back. */
static void check_redrawn(const Made *m, const EvalWorld *w, RtGraph *g)
{
    RtStatus st = {0};
    bool other = false;
    check(!rt_graph_redraw(g, 7, 3, &st), "%s", st.message);
    check_lists(m, g);
    check_alongs(m, g);
    for (int64_t k = 0; k < m->rt.n_maps; k++)
        for (int64_t i = 0; i < w->counts[m->maps[k].from]; i++) other |= g->maps[k].to[i] != w->maps[k][i];
    check(other || w->counts[1] < 8, "nothing is drawn anew");
    check(!rt_graph_redraw(g, 0, 0, &st), "%s", st.message);
    compare(m, w, g);
    check_lists(m, g);
    check_alongs(m, g);
}

static void test_one(int64_t n_nodes, int64_t n_edges, uint64_t seed)
{
    Arena *a = arena_new();
    Made m = {0};
    make_module(&m, a);
    int64_t *src = ARENA_ARRAY(a, int64_t, n_edges + 1), *dst = ARENA_ARRAY(a, int64_t, n_edges + 1);
    int64_t *batch = ARENA_ARRAY(a, int64_t, n_nodes + 1), counts[MAX_SPACES], n_graphs = 3;
    for (int64_t e = 0; e < n_edges; e++) {
        src[e] = (int64_t)rt_philox(seed, 0, 0, (uint64_t)e, 0) % n_nodes;
        dst[e] = (int64_t)rt_philox(seed, 0, 0, (uint64_t)e, 1) % n_nodes;
        if (rt_philox(seed, 0, 0, (uint64_t)e, 2) % 4 == 0) dst[e] = src[e];
    }
    for (int64_t v = 0; v < n_nodes; v++) batch[v] = v * n_graphs / n_nodes;
    for (int i = 0; i < MAX_SPACES; i++) counts[i] = -1;
    counts[1] = n_nodes;
    counts[2] = n_graphs;
    const char *why = NULL;
    EvalWorld *w = eval_world(a, m.ir, &(EvalGraph){n_nodes, n_nodes, n_edges, src, dst}, batch, n_graphs, &why);
    RtTopology t = {.place = "test", .n_edges = n_edges, .src = src, .dst = dst, .graph_of = batch, .counts = counts};
    RtGraph *g = NULL;
    RtStatus st = {0};
    if (check(w != NULL, "eval_world: %s", why ? why : "?") &&
        check(!rt_graph_create(&m.rt, &t, &g, &st), "%s", st.message)) {
        compare(&m, w, g);
        check_lists(&m, g);
        check_alongs(&m, g);
        check_redrawn(&m, w, g);
    }
    rt_graph_free(g);
    arena_free(a);
}

/* Lists between spaces of their own, one of which only some edges are taken, a column, and paths over both, over
   reversed edges and over no edge; a path whose nodes are edges. */
static const char *const TYPED =
    "module m space a space b space c space ab : edges space ba : edges space some : edges space bc : edges space cb : "
    "edges "
    "space bb : edges space aa : edges space all : edges space none : edges space l : edges space ll : edges "
    "map ab.s : ab -> a map ab.d : ab -> b sorted map ba.s : ba -> b map ba.d : ba -> a sorted "
    "map some.s : some -> a map some.d : some -> b sorted map bc.s : bc -> b map bc.d : bc -> c sorted "
    "map cb.s : cb -> c map cb.d : cb -> b sorted map bb.s : bb -> b map bb.d : bb -> b sorted "
    "map aa.s : aa -> a map aa.d : aa -> a sorted map all.s : all -> a map all.d : all -> a sorted "
    "map none.s : none -> a map none.d : none -> b sorted map l.s : l -> bb map l.d : l -> bb sorted "
    "map ll.s : ll -> bb map ll.d : ll -> bb sorted "
    "graph ab : file(edges) ab(ab.s, ab.d) graph ba : reverse(ab) ba(ba.s, ba.d) "
    "graph some : file(edges) some(some.s, some.d) where type = 2 graph none : file(edges) none(none.s, none.d) where "
    "type = 9 "
    "graph bc : column bc(bc.s, bc.d) graph cb : reverse(bc) cb(cb.s, cb.d) graph bb : compose(bc, cb) bb(bb.s, bb.d) "
    "graph aa : compose(some, bb, ba) aa(aa.s, aa.d) graph all : compose(aa) all(all.s, all.d) "
    "graph l : line(bb) l(l.s, l.d) graph ll : compose(l, l) ll(ll.s, ll.d)";

static void test_typed(int64_t n_a, int64_t n_b, int64_t n_c, int64_t n_edges, uint64_t seed)
{
    Arena *a = arena_new();
    Source text = {"typed.gir", TYPED, (uint32_t)strlen(TYPED)};
    Diags d = {.arena = a};
    Made m = {.ir = ir_parse(a, &text, &d)};
    check_begin();
    if (!check(m.ir != NULL, "%s", d.list.n ? d.list.data[0]->text : "?")) return check_end("typed graphs");
    make_tables(&m);
    int64_t *numbers = ARENA_ARRAY(a, int64_t, 6 * n_edges + n_b + 1), *src = numbers, *dst = src + n_edges,
            *type = dst + n_edges, *from = type + n_edges, *to = from + n_edges, *rows = to + n_edges,
            *column = rows + n_edges, n_kept = 0, counts[MAX_SPACES];
    for (int64_t e = 0; e < n_edges; e++) {
        src[e] = (int64_t)rt_philox(seed, 1, 0, (uint64_t)e, 0) % n_a;
        dst[e] = (int64_t)rt_philox(seed, 1, 0, (uint64_t)e, 1) % n_b;
        type[e] = (int64_t)rt_philox(seed, 1, 0, (uint64_t)e, 2) % 3;
    }
    for (int64_t e = 0; e < n_edges; e++)
        if (type[e] == 2) from[n_kept] = src[e], to[n_kept] = dst[e], rows[n_kept++] = e;
    for (int64_t i = 0; i < n_b; i++) column[i] = (int64_t)rt_philox(seed, 1, 0, (uint64_t)i, 3) % n_c;
    for (int i = 0; i < MAX_SPACES; i++) counts[i] = -1;
    counts[1] = n_a, counts[2] = n_b, counts[3] = n_c;
    EvalList lists[] = {{"edges", n_edges, src, dst}, {"type", n_edges, type, NULL}, {"bc", n_b, column, NULL}};
    const char *why = NULL;
    EvalWorld *w = eval_world_of(a, m.ir, &(EvalData){.counts = counts, .lists = lists, .n_lists = 3}, &why);
    RtEdgeIds files[MAX_GRAPHS] = {{"edges", n_edges, src, dst, NULL},
                                   {0},
                                   {"edges", n_kept, from, to, rows},
                                   {"edges", 0, from, to, rows},
                                   {"bc", n_b, NULL, column, NULL}};
    RtTopology t = {.place = "test", .files = files, .counts = counts};
    RtGraph *g = NULL;
    RtStatus st = {0};
    if (check(w != NULL, "eval_world: %s", why ? why : "?") &&
        check(!rt_graph_create(&m.rt, &t, &g, &st), "%s", st.message)) {
        compare(&m, w, g);
        check_lists(&m, g);
        check_alongs(&m, g);
    }
    rt_graph_free(g);
    if (n_kept) {
        to[n_kept - 1] = n_b;
        const char *want = arena_printf(a, "the target of edge %lld is %lld, wanted 0 <= id < %lld: a row of name",
                                        (long long)rows[n_kept - 1], (long long)n_b, (long long)n_b);
        check(rt_graph_create(&m.rt, &t, &g, &st) == RT_E_DATA_ID && strstr(st.message, want), "%s", st.message);
    }
    files[4].n++;
    check(rt_graph_create(&m.rt, &t, &g, &st) == (n_kept ? RT_E_DATA_ID : RT_E_DATA_ROWS), "%s", st.message);
    check_end(arena_printf(a, "typed graphs: %lld, %lld, %lld rows, %lld edges", (long long)n_a, (long long)n_b,
                           (long long)n_c, (long long)n_edges));
    arena_free(a);
}

/* Pairs of keys and of both ends of edges, some of whose keys have no place, and pairs of reversed edges. */
enum { N_KEYS = 5 };
static void add_keyed(Made *m, IrId base, IrId row, IrId key, const char *name)
{
    IrModule *ir = m->ir;
    IrGraph g = {.name = name, .kind = IR_GRAPH_KEYED, .base = base, .orig = IR_NONE, .batch = row, .of = key};
    g.src_space = ir->maps.data[row].to;
    g.dst_space = ir->maps.data[key].to;
    g.edge = ir_space_new(ir, name, true);
    g.src = ir_map_new(ir, "row", g.edge, g.src_space);
    g.dst = ir_map_new(ir, "key", g.edge, g.dst_space);
    g.image = ir_map_new(ir, "pair", ir->maps.data[row].from, g.edge);
    ir_map_new(ir, "all", g.edge, IR_UNIT);
    ir->maps.data[g.dst].sorted = true;
    VEC_PUSH(ir->arena, &ir->graphs, g);
}

static void test_keyed(int64_t n_nodes, int64_t n_edges, uint64_t seed)
{
    Arena *a = arena_new();
    Made m = {.ir = ir_module_new(a, "keyed")};
    IrModule *ir = m.ir;
    IrId node = ir_space_new(ir, "node", false), keys = ir_space_new(ir, "keys", false);
    ir->spaces.data[keys].has_dim = true;
    ir->spaces.data[keys].dim = ir_dim_new(ir, "R", N_KEYS);
    IrGraph data = {.kind = IR_GRAPH_DATA,
                    .src_space = node,
                    .dst_space = node,
                    .base = IR_NONE,
                    .orig = IR_NONE,
                    .image = IR_NONE};
    IrId base = add_graph(&m, data, "edge"), edge = ir->graphs.data[base].edge;
    IrTensor said = {.name = "rel", .kind = IR_INPUT, .type = {.space = edge, .dtype = IR_I64}, .is_map = true};
    said.map = ir_map_new(ir, "said", edge, keys);
    ir->maps.data[said.map].partial = true;
    VEC_PUSH(a, &ir->tensors, said);
    add_keyed(&m, base, ir->graphs.data[base].dst, said.map, "by target");
    add_keyed(&m, base, ir->graphs.data[base].src, said.map, "by source");
    make_tables(&m);
    m.spaces[keys].fixed = N_KEYS;
    RtTensorDef tensor = {.space = edge, .kind = RT_INPUT, .dtype = RT_I64, .is_map = 1, .map = said.map};
    m.rt.tensors = &tensor;
    m.rt.n_tensors = 1;
    int64_t *ends = ARENA_ARRAY(a, int64_t, 3 * n_edges + 1), *rel = ends + 2 * n_edges, counts[MAX_SPACES] = {1};
    for (int64_t i = 0; i < 2 * n_edges; i++) ends[i] = (int64_t)rt_philox(seed, 0, 0, (uint64_t)i, 0) % n_nodes;
    for (int64_t e = 0; e < n_edges; e++) rel[e] = (int64_t)rt_philox(seed, 1, 0, (uint64_t)e, 0) % (N_KEYS + 2) - 1;
    counts[node] = n_nodes, counts[keys] = N_KEYS;
    const char *why = NULL;
    EvalWorld *w = eval_world(a, ir, &(EvalGraph){n_nodes, n_nodes, n_edges, ends, ends + n_edges}, NULL, 1, &why);
    RtTopology t = {.place = "test", .n_edges = n_edges, .src = ends, .dst = ends + n_edges, .counts = counts};
    RtGraph *g = NULL;
    RtStatus st = {0};
    if (check(w != NULL, "eval_world: %s", why ? why : "?") &&
        check(!rt_graph_create(&m.rt, &t, &g, &st), "%s", st.message) &&
        check(!rt_graph_say_map(g, said.map, RT_I64, rel, &st), "%s", st.message)) {
        EvalValue *x = eval_value_new(a, ir, w, ir->tensors.data[0].type);
        for (int64_t e = 0; e < n_edges; e++) x->v[e] = (double)rel[e];
        eval_said_map(w, ir, 0, x);
        compare(&m, w, g);
        check_lists(&m, g);
        check_alongs(&m, g);
    }
    rt_graph_free(g);
    arena_free(a);
}

static void test_philox(void)
{
    check_begin();
    for (uint64_t i = 0; i < 2000; i++)
        CHECK(rt_philox(i * 77777777777, i, (uint32_t)i, i * 31, i * 3) ==
              eval_philox(i * 77777777777, i, (uint32_t)i, i * 31, i * 3));
    check_end("runtime_philox_as_eval");
}

static void test_bad_ids(void)
{
    Arena *a = arena_new();
    Made m = {0};
    make_module(&m, a);
    int64_t src[] = {0, 1}, dst[] = {1, -1}, counts[MAX_SPACES] = {1, 3, 1}, batch[] = {0, 0, 1};
    RtTopology t = {.place = "edge_index.npy", .n_edges = 2, .src = src, .dst = dst, .counts = counts};
    RtGraph *g;
    RtStatus st = {0};
    check_begin();
    CHECK(rt_graph_create(&m.rt, &t, &g, &st) == RT_E_DATA_ID && strstr(st.message, "the target of edge 1 is -1"));
    dst[1] = 3;
    CHECK(rt_graph_create(&m.rt, &t, &g, &st) == RT_E_DATA_ID && strstr(st.message, "is 3, wanted 0 <= id < 3"));
    dst[1] = 2;
    t.graph_of = batch;
    CHECK(rt_graph_create(&m.rt, &t, &g, &st) == RT_E_DATA_ID && !strcmp(st.place, "batch.npy"));
    counts[2] = 2, batch[0] = 1;
    CHECK(rt_graph_create(&m.rt, &t, &g, &st) == RT_E_GRAPH_BATCH);
    counts[1] = -1;
    CHECK(rt_graph_create(&m.rt, &t, &g, &st) == RT_E_GRAPH_COUNT && !g);
    check_end("runtime_graph_bad_ids");
    arena_free(a);
}

/* Blocks of rows as docs/design.md cuts them: leaves of 512 rows, an aligned power of two of them in each block, at
   least one block and at most 32. More rows never need less memory. */
static void test_counts(void)
{
    static const int64_t kinds[] = {RT_COUNT_BLOCKS, RT_COUNT_BLOCK_ROWS, RT_COUNT_BLOCK_LEVELS, RT_COUNT_BLOCK_SLOTS};
    static const int64_t want[][5] = {/* rows; by kind */
                                      {0, 1, 512, 0, 1},         {1, 1, 512, 0, 1},        {512, 1, 512, 0, 1},
                                      {513, 2, 512, 0, 2},       {1024, 2, 512, 0, 2},     {16384, 32, 512, 0, 32},
                                      {16385, 17, 1024, 1, 34},  {32768, 32, 1024, 1, 64}, {32769, 17, 2048, 2, 64},
                                      {169343, 21, 8192, 4, 128}};
    RtSpaceData spaces[1] = {{0}};
    RtGraph g = {.spaces = spaces};
    RtCount c = {.block = 512, .max = 32};
    check_begin();
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        spaces[0].count = want[i][0];
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            c.kind = kinds[k];
            check(rt_count_value(&g, &c, RT_OWNED) == want[i][k + 1], "%lld rows, count %lld: %lld",
                  (long long)want[i][0], (long long)kinds[k], (long long)rt_count_value(&g, &c, RT_OWNED));
        }
    }
    int64_t least = 0;
    for (spaces[0].count = 0; spaces[0].count < 200000; spaces[0].count += 511) {
        int64_t slots = rt_count_value(&g, &c, RT_OWNED);
        check(slots >= least, "%lld rows: %lld slots, fewer rows have %lld", (long long)spaces[0].count,
              (long long)slots, (long long)least);
        least = slots;
    }
    check_end("runtime_counts_of_blocks");
}

int main(void)
{
    test_counts();
    check_begin();
    for (uint64_t seed = 0; seed < 40; seed++) test_one(1 + (int64_t)(seed * 7 % 50), (int64_t)(seed * 37 % 300), seed);
    check_end("runtime_graph_as_eval");
    test_typed(7, 5, 3, 20, 1);
    test_typed(1, 1, 1, 1, 2);
    test_typed(3, 4, 2, 0, 3);
    test_typed(0, 0, 0, 0, 4);
    test_typed(40, 25, 4, 200, 5);
    check_begin();
    for (uint64_t seed = 0; seed < 20; seed++)
        test_keyed(1 + (int64_t)(seed * 7 % 50), (int64_t)(seed * 37 % 300), seed);
    test_keyed(1, 25, 20); /* the last row of one key is the first of the next */
    test_keyed(2, 40, 21);
    check_end("runtime_pairs_of_rows_and_keys_as_eval");
    test_philox();
    test_bad_ids();
    return check_done();
}
