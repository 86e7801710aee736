/* Builds the spaces that a module's functions run over: counts, maps and the user's ids, for the
   data's graph and for all that is derived from it. The same construction as the runtime's at load,
   written a second time on purpose: each checks the other. Keeps edges in two orders: the user's,
   in which derived graphs are defined, and the stored one, sorted by destination. */
#include "ir/eval.h"
#include "base/ice.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t UNKNOWN = -1; /* count of a space that nothing has defined yet */

/* One graph's edges in the user's order. */
typedef struct Edges {
    int64_t n;
    int64_t *src, *dst;
    int64_t *orig; /* the user's id of the base graph's edge, or -1; NULL: not derived */
} Edges;

typedef struct Build {
    Arena *arena;
    const IrModule *m;
    EvalWorld *w;
    Edges *edges;        /* [n graphs] */
    int64_t **stored_of; /* [n graphs][n edges]: stored index of each of the user's ids */
    const EvalData *data;
    const int64_t *graph_of;
    int64_t n_graphs, n_batched; /* graph_of covers a space of n_batched nodes */
    const char *why;
} Build;

static bool fail(Build *b, const char *why)
{
    if (!b->why) b->why = why;
    return false;
}

static bool set_count(Build *b, IrId space, int64_t n)
{
    int64_t *count = &b->w->counts[space];
    if (*count == UNKNOWN) *count = n;
    if (*count == n) return true;
    return fail(b, arena_printf(b->arena, "space `%s` has %lld elements in one graph and %lld in another",
                                b->m->spaces.data[space].name, (long long)*count, (long long)n));
}

/* ---- edges in the user's order --------------------------------------------------------------- */

static Edges edges_new(Arena *a, int64_t max, bool derived)
{
    Edges e = {0, ARENA_ARRAY(a, int64_t, max + 1), ARENA_ARRAY(a, int64_t, max + 1), NULL};
    if (derived) e.orig = ARENA_ARRAY(a, int64_t, max + 1);
    return e;
}

static void push(Edges *e, int64_t src, int64_t dst, int64_t orig)
{
    e->src[e->n] = src;
    e->dst[e->n] = dst;
    if (e->orig) e->orig[e->n] = orig;
    e->n++;
}

static bool from_data(Build *b, const IrGraph *g, Edges *out)
{
    const EvalGraph *data = b->data->graph;
    if (!data) return fail(b, "the module has a graph of the data's, but none is given");
    if (g->src_space == g->dst_space && data->n_src != data->n_dst)
        return fail(b, "the data's graph has other sources than destinations, the module's has not");
    for (int64_t i = 0; i < data->n_edges; i++)
        if (data->src[i] < 0 || data->src[i] >= data->n_src || data->dst[i] < 0 || data->dst[i] >= data->n_dst)
            return fail(b, arena_printf(b->arena, "edge %lld joins nodes %lld and %lld: out of range", (long long)i,
                                        (long long)data->src[i], (long long)data->dst[i]));
    *out = edges_new(b->arena, data->n_edges, false);
    for (int64_t i = 0; i < data->n_edges; i++) push(out, data->src[i], data->dst[i], 0);
    return set_count(b, g->src_space, data->n_src) && set_count(b, g->dst_space, data->n_dst);
}

static const EvalList *list_named(Build *b, const char *name)
{
    for (int64_t i = 0; i < b->data->n_lists; i++)
        if (!strcmp(b->data->lists[i].name, name)) return &b->data->lists[i];
    fail(b, arena_printf(b->arena, "the edges of `%s` are not given", name));
    return NULL;
}

/* What the data say of the count; where they say nothing, what other graphs do. */
static bool take_count(Build *b, IrId space)
{
    int64_t n = b->data->counts ? b->data->counts[space] : UNKNOWN;
    if (n != UNKNOWN) return set_count(b, space, n);
    if (b->w->counts[space] != UNKNOWN) return true;
    return fail(b, arena_printf(b->arena, "the rows of `%s` are not counted", b->m->spaces.data[space].name));
}

/* Edges of a file, of which those stay whose type is the wanted one; or one from each row to what a column says. */
static bool from_list(Build *b, const IrGraph *g, Edges *out)
{
    bool column = g->kind == IR_GRAPH_COLUMN;
    const EvalList *list = list_named(b, ir_graph_file(g)), *types = g->where ? list_named(b, g->where) : NULL;
    if (!list || (g->where && !types) || !take_count(b, g->src_space) || !take_count(b, g->dst_space)) return false;
    int64_t n_src = b->w->counts[g->src_space], n_dst = b->w->counts[g->dst_space];
    if (!column && !list->second) return fail(b, arena_printf(b->arena, "`%s` has no targets", list->name));
    if ((types && types->n != list->n) || (column && list->n != n_src))
        return fail(b, arena_printf(b->arena, "`%s` has %lld elements", list->name, (long long)list->n));
    *out = edges_new(b->arena, list->n, false);
    for (int64_t i = 0; i < list->n; i++) {
        int64_t src = column ? i : list->first[i], dst = column ? list->first[i] : list->second[i];
        if (types && types->first[i] != g->equals) continue;
        if (src < 0 || src >= n_src || dst < 0 || dst >= n_dst)
            return fail(b, arena_printf(b->arena, "edge %lld of `%s` leads from %lld to %lld: out of range",
                                        (long long)i, list->name, (long long)src, (long long)dst));
        push(out, src, dst, 0);
    }
    return true;
}

/* From each source what a walk along the path reaches, edge set by edge set; pairs by target, then by source. */
static bool from_path(Build *b, const IrGraph *g, Edges *out)
{
    int64_t n_src = b->w->counts[g->src_space], n_dst = b->w->counts[g->dst_space], n = 0;
    bool *joined = ARENA_ARRAY(b->arena, bool, n_src *n_dst + 1);
    for (int64_t u = 0; u < n_src; u++) {
        bool *here = ARENA_ARRAY(b->arena, bool, n_src + 1);
        here[u] = true;
        for (uint32_t k = 0; k < g->n_path; k++) {
            const Edges *e = &b->edges[g->path[k]];
            bool *next = ARENA_ARRAY(b->arena, bool, b->w->counts[b->m->graphs.data[g->path[k]].dst_space] + 1);
            for (int64_t i = 0; i < e->n; i++) next[e->dst[i]] |= here[e->src[i]];
            here = next;
        }
        for (int64_t v = 0; v < n_dst; v++) n += joined[v * n_src + u] = here[v];
    }
    *out = edges_new(b->arena, n, false);
    for (int64_t i = 0; i < n_src * n_dst; i++)
        if (joined[i]) push(out, i % n_src, i / n_src, 0);
    return true;
}

static bool from_random(Build *b, const IrGraph *g, Edges *out)
{
    int64_t n_dst = g->src_space == g->dst_space ? g->n_nodes : g->n_targets;
    if (g->n_edges && (g->n_nodes <= 0 || n_dst <= 0)) return fail(b, "a random graph with edges needs nodes");
    *out = edges_new(b->arena, g->n_edges, false);
    out->n = g->n_edges;
    eval_random_edges(g->n_nodes, n_dst, g->n_edges, g->seed, out->src, out->dst);
    return set_count(b, g->src_space, g->n_nodes) && set_count(b, g->dst_space, n_dst);
}

static void from_reverse(Build *b, const IrGraph *g, Edges *out)
{
    const Edges *base = &b->edges[g->base];
    *out = edges_new(b->arena, base->n, true);
    for (int64_t i = 0; i < base->n; i++) push(out, base->dst[i], base->src[i], i);
}

/* keep: of a node's loops the last in the user's order stays where it is. Where sources and targets are two spaces, a
   loop joins equal ids. */
static void from_self_loops(Build *b, const IrGraph *g, Edges *out)
{
    const Edges *base = &b->edges[g->base];
    int64_t n_src = b->w->counts[g->src_space], n_dst = b->w->counts[g->dst_space];
    int64_t n_nodes = n_src < n_dst ? n_src : n_dst;
    int64_t *last = ARENA_ARRAY(b->arena, int64_t, n_nodes + 1); /* 1 + the node's last loop, or 0 */
    *out = edges_new(b->arena, base->n + n_nodes, true);
    for (int64_t i = 0; i < base->n; i++)
        if (base->src[i] == base->dst[i]) last[base->dst[i]] = i + 1;
    for (int64_t i = 0; i < base->n; i++) {
        bool loop = base->src[i] == base->dst[i];
        bool stays = !loop || g->policy == IR_LOOPS_ADD || (g->policy == IR_LOOPS_KEEP && last[base->dst[i]] == i + 1);
        if (stays) push(out, base->src[i], base->dst[i], i);
    }
    for (int64_t v = 0; v < n_nodes && g->policy != IR_LOOPS_REMOVE; v++)
        if (g->policy != IR_LOOPS_KEEP || !last[v]) push(out, v, v, -1);
}

/* Pairs of the base's edges: from e to f where e ends where f begins, or, as siblings, where f ends. */
static bool from_edge_pairs(Build *b, const IrGraph *g, Edges *out)
{
    const Edges *base = &b->edges[g->base];
    const int64_t *meet = g->kind == IR_GRAPH_LINE ? base->src : base->dst;
    int64_t n_nodes = b->w->counts[b->m->graphs.data[g->base].dst_space], n = 0;
    int64_t *degree = ARENA_ARRAY(b->arena, int64_t, n_nodes + 1);
    for (int64_t e = 0; e < base->n; e++) degree[base->dst[e]]++;
    for (int64_t f = 0; f < base->n; f++) n += degree[meet[f]];
    *out = edges_new(b->arena, n, false);
    for (int64_t f = 0; f < base->n; f++)
        for (int64_t e = 0; e < base->n; e++)
            if (base->dst[e] == meet[f]) push(out, e, f, 0);
    ICE_UNLESS(out->n == n);
    return true;
}

static bool is_batched(const Build *b, IrId space);

/* The graph of each node of a space; NULL: all are of one. */
static const int64_t *graphs_of(const Build *b, IrId space)
{
    for (uint32_t i = 0; i < b->m->graphs.n; i++) {
        const IrGraph *g = &b->m->graphs.data[i];
        if (g->kind == IR_GRAPH_SELECT && g->src_space == space) return b->w->maps[g->of];
    }
    return is_batched(b, space) ? b->graph_of : NULL;
}

static bool from_nodes(Build *b, const IrGraph *g, Edges *out)
{
    int64_t n = b->w->counts[g->dst_space], pairs = 0;
    const int64_t *of = graphs_of(b, g->dst_space);
    for (int64_t v = 0; v < n; v++)
        for (int64_t u = 0; u < n; u++) pairs += !of || of[u] == of[v];
    *out = edges_new(b->arena, pairs, false);
    for (int64_t v = 0; v < n; v++)
        for (int64_t u = 0; u < n; u++)
            if (!of || of[u] == of[v]) push(out, u, v, 0);
    return true;
}

static bool from_candidates(Build *b, const IrGraph *g, Edges *out)
{
    int64_t n = b->w->counts[g->src_space], rows = b->edges[g->base].n, pairs;
    if (__builtin_mul_overflow(n, rows, &pairs)) return fail(b, "too many candidates");
    *out = edges_new(b->arena, pairs, false);
    for (int64_t i = 0; i < pairs; i++) push(out, i % n, i / n, 0);
    return true;
}

/* The integers that edges of a graph have; NULL: none are asked for. */
static bool keys_of(Build *b, const IrGraph *g, uint32_t k, int64_t n, const int64_t **out)
{
    *out = NULL;
    if (!g->n_keys) return true;
    const EvalList *list = list_named(b, g->keys[k]);
    if (!list) return false;
    if (list->n != n) return fail(b, arena_printf(b->arena, "`%s` has %lld elements", list->name, (long long)list->n));
    *out = list->first;
    return true;
}

/* For each edge of the base the nodes that it might lead to are asked one by one. */
static bool from_answers(Build *b, const IrGraph *g, Edges *out)
{
    const Edges *base = &b->edges[g->base];
    int64_t n = b->w->counts[g->src_space], pairs = 0;
    const int64_t *key, *keys[IR_MAX_PATH];
    if (!keys_of(b, g, 0, base->n, &key)) return false;
    for (uint32_t k = 0; k < g->n_path; k++) {
        if (!keys_of(b, g, k + 1, b->edges[g->path[k]].n, &keys[k])) return false;
        pairs += b->edges[g->path[k]].n;
    }
    if (__builtin_mul_overflow(pairs, base->n, &pairs)) return fail(b, "too many answers");
    *out = edges_new(b->arena, pairs < base->n * n ? pairs : base->n * n, false);
    for (int64_t e = 0; e < base->n; e++) {
        bool *known = ARENA_ARRAY(b->arena, bool, n + 1);
        for (uint32_t k = 0; k < g->n_path; k++) {
            const Edges *x = &b->edges[g->path[k]];
            for (int64_t i = 0; i < x->n; i++)
                known[x->dst[i]] |= x->src[i] == base->src[e] && (!key || keys[k][i] == key[e]);
        }
        for (int64_t v = 0; v < n; v++)
            if (known[v]) push(out, v, e, 0);
    }
    ICE_UNLESS(out->n <= pairs); /* no node without an edge that leads there */
    return true;
}

static bool leads(const Edges *e, int64_t src, int64_t dst)
{
    for (int64_t i = 0; i < e->n; i++)
        if (e->src[i] == src && e->dst[i] == dst) return true;
    return false;
}

/* The draws of a graph: of one that is drawn for each step, those of seed 0 and step 0. */
static uint32_t drawn(const IrGraph *g, int64_t element, uint64_t feature)
{
    return g->redrawn ? eval_philox(0, 0, (uint32_t)g->seed, (uint64_t)element, feature)
                      : eval_philox((uint64_t)g->seed, 0, 0, (uint64_t)element, feature);
}

/* For each edge of the base as many pairs: its source, and of up to 16 nodes drawn the first that it leads no edge to
   and
 * is not, else the last. */
static bool from_negatives(Build *b, const IrGraph *g, Edges *out)
{
    enum { TRIES = 16 };
    const Edges *base = &b->edges[g->base];
    int64_t n_dst = b->w->counts[g->dst_space], n = 0;
    if (__builtin_mul_overflow(base->n, g->n_edges, &n)) return fail(b, "too many negatives");
    *out = edges_new(b->arena, n, true);
    for (int64_t i = 0; i < n; i++) {
        int64_t src = base->src[i / g->n_edges], dst = 0;
        for (int t = 0; t < TRIES; t++) {
            dst = (int64_t)(drawn(g, i, 16 * (uint64_t)t) % (uint64_t)n_dst);
            if (!(g->src_space == g->dst_space && dst == src) && !leads(base, src, dst)) break;
        }
        push(out, src, dst, i / g->n_edges);
    }
    return true;
}

/* To each node as many edges as it has neighbours; which, the function says that runs. */
static bool from_nearest(Build *b, const IrGraph *g, Edges *out)
{
    int64_t n_src = b->w->counts[g->src_space], n_dst = b->w->counts[g->dst_space], n = 0;
    const int64_t *of = g->batch != IR_NONE ? graphs_of(b, g->src_space) : NULL;
    bool others = g->src_space == g->dst_space && g->policy == IR_LOOPS_REMOVE;
    if (__builtin_mul_overflow(n_dst, g->n_edges < n_src ? g->n_edges : n_src, &n))
        return fail(b, "too many neighbours");
    *out = edges_new(b->arena, n, false);
    for (int64_t v = 0; v < n_dst; v++) {
        int64_t near = others ? -1 : 0;
        for (int64_t u = 0; u < n_src; u++) near += !of || of[u] == of[v];
        for (int64_t k = 0; k * g->step < near && k < g->n_edges; k++) push(out, -1, v, 0);
    }
    return true;
}

/* Of each graph's nodes as many as are chosen; no edge has ends before the function that runs says so. */
static bool from_select(Build *b, const IrGraph *g, Edges *out)
{
    const IrGraph *base = &b->m->graphs.data[g->base];
    int64_t n_base = b->w->counts[base->src_space], n = 0,
            n_graphs = b->m->maps.data[g->batch].to == IR_UNIT ? 1 : b->n_graphs;
    const int64_t *of = graphs_of(b, base->src_space);
    int64_t *chosen = ARENA_ARRAY(b->arena, int64_t, n_base + 1);
    for (int64_t graph = 0; graph < n_graphs; graph++) {
        int64_t all = 0, some = g->n_edges;
        for (int64_t v = 0; v < n_base; v++) all += n_graphs == 1 || !of ? graph == 0 : of[v] == graph;
        if (!some) some = (int64_t)ceil(g->ratio * (double)all);
        for (int64_t i = 0; i < some && i < all; i++) chosen[n++] = graph;
    }
    b->w->maps[g->of] = chosen;
    *out = edges_new(b->arena, b->edges[g->base].n, false);
    for (int64_t e = 0; e < b->edges[g->base].n; e++) push(out, -1, -1, 0);
    return set_count(b, g->src_space, n);
}

static int64_t graph_of_row(const Build *b, IrId space, int64_t row);

/* Graph by graph what the base's edges give, then one edge for each target; where they lead, the function says that
   runs. */
static bool from_routed(Build *b, const IrGraph *g, Edges *out)
{
    const IrGraph *base = &b->m->graphs.data[g->base];
    bool more = g->batch != IR_NONE, one = !more || b->m->maps.data[g->batch].to == IR_UNIT;
    int64_t n_base = b->edges[g->base].n, n_dst = more ? b->w->counts[g->dst_space] : 0, n = 0;
    if (__builtin_mul_overflow(n_base, g->n_edges, &n) || __builtin_add_overflow(n, n_dst, &n))
        return fail(b, "too many edges");
    int64_t *of = ARENA_ARRAY(b->arena, int64_t, n + 1), *to = ARENA_ARRAY(b->arena, int64_t, n + 1);
    for (int64_t e = 0; e < n; e++) to[e] = -1;
    *out = edges_new(b->arena, n, true);
    for (int64_t graph = 0; graph < (one ? 1 : b->n_graphs); graph++) {
        int64_t from = out->n;
        for (int64_t e = 0; e < n_base; e++)
            for (int64_t i = 0; i < g->n_edges && (one || graph_of_row(b, base->edge, e) == graph); i++)
                push(out, -1, -1, e);
        for (int64_t v = 0; v < n_dst; v++)
            if (one || graph_of_row(b, g->dst_space, v) == graph) to[out->n] = v, push(out, -1, -1, -1);
        for (; from < out->n; from++) of[from] = graph;
    }
    ICE_UNLESS(out->n <= n); /* for which there is room */
    if (more) b->w->maps[g->of] = of, b->w->maps[g->image] = to;
    return true;
}

/* Into node i from the node whose draw is the i-th smallest, of equal ones the first. */
static bool from_permutation(Build *b, const IrGraph *g, Edges *out)
{
    int64_t n = b->w->counts[g->dst_space];
    int64_t *order = ARENA_ARRAY(b->arena, int64_t, n + 1), *other = ARENA_ARRAY(b->arena, int64_t, n + 1);
    for (int64_t v = 0; v < n; v++) order[v] = v;
    for (int shift = 0; shift < 32; shift += 8) { /* digit by digit, stable */
        int64_t at[257] = {0}, *last = order;
        for (int64_t v = 0; v < n; v++) at[(drawn(g, v, 0) >> shift & 255) + 1]++;
        for (int d = 0; d < 256; d++) at[d + 1] += at[d];
        for (int64_t i = 0; i < n; i++) other[at[drawn(g, order[i], 0) >> shift & 255]++] = order[i];
        order = other;
        other = last;
    }
    *out = edges_new(b->arena, n, false);
    for (int64_t v = 0; v < n; v++) push(out, order[v], v, 0);
    return true;
}

static bool no_images(Build *b, IrId id);

static bool user_edges(Build *b, const IrGraph *g, Edges *out)
{
    switch (g->kind) {
    case IR_GRAPH_DATA: return from_data(b, g, out);
    case IR_GRAPH_FILE:
    case IR_GRAPH_COLUMN: return from_list(b, g, out);
    case IR_GRAPH_COMPOSE: return from_path(b, g, out);
    case IR_GRAPH_RANDOM: return from_random(b, g, out);
    case IR_GRAPH_REVERSE: from_reverse(b, g, out); return true;
    case IR_GRAPH_SELF_LOOPS: from_self_loops(b, g, out); return true;
    case IR_GRAPH_LINE:
    case IR_GRAPH_SIBLINGS: return from_edge_pairs(b, g, out);
    case IR_GRAPH_COMPLETE: return from_nodes(b, g, out);
    case IR_GRAPH_NEGATIVES: return from_negatives(b, g, out);
    case IR_GRAPH_NEAREST: return from_nearest(b, g, out);
    case IR_GRAPH_ROUTED: return from_routed(b, g, out);
    case IR_GRAPH_SELECT: return from_select(b, g, out);
    case IR_GRAPH_PERMUTATION: return from_permutation(b, g, out);
    case IR_GRAPH_CANDIDATES: return from_candidates(b, g, out);
    case IR_GRAPH_ANSWERS: return from_answers(b, g, out);
    case IR_GRAPH_KEYED:
        *out = edges_new(b->arena, 0, false);
        return no_images(b, g->image); /* until the key is said */
    }
    return fail(b, "a graph of no kind");
}

/* ---- stored order ---------------------------------------------------------------------------- */

/* Counting sort by destination, stable: position[i] is where the user's edge i is stored. */
static int64_t *sort_by_dst(Arena *a, const Edges *e, int64_t n_dst)
{
    int64_t *begin = ARENA_ARRAY(a, int64_t, n_dst + 1), *position = ARENA_ARRAY(a, int64_t, e->n + 1);
    for (int64_t i = 0; i < e->n; i++) begin[e->dst[i] + 1]++;
    for (int64_t v = 0; v < n_dst; v++) begin[v + 1] += begin[v];
    ICE_UNLESS(begin[n_dst] == e->n);
    for (int64_t i = 0; i < e->n; i++) position[i] = begin[e->dst[i]]++;
    return position;
}

/* orig: stored edge -> stored edge of the base; image: back. */
static void derive_maps(Build *b, uint32_t id)
{
    const IrGraph *g = &b->m->graphs.data[id];
    const Edges *e = &b->edges[id];
    int64_t n_base = b->edges[g->base].n;
    int64_t *orig = ARENA_ARRAY(b->arena, int64_t, e->n + 1), *image = ARENA_ARRAY(b->arena, int64_t, n_base + 1);
    for (int64_t i = 0; i < n_base; i++) image[i] = -1;
    for (int64_t i = 0; i < e->n; i++) {
        int64_t at = b->stored_of[id][i];
        ICE_UNLESS(at < e->n && e->orig[i] < n_base);
        orig[at] = e->orig[i] < 0 ? -1 : b->stored_of[g->base][e->orig[i]];
        if (orig[at] >= 0 && g->image != IR_NONE) image[orig[at]] = at;
    }
    if (g->orig != IR_NONE) b->w->maps[g->orig] = orig;
    if (g->image != IR_NONE) b->w->maps[g->image] = image;
}

/* Edges whose ends a function says stand as they were made: for the base's, or as the base's do in the user's order,
   graph after graph. */
static void store_as_made(Build *b, uint32_t id)
{
    const IrGraph *g = &b->m->graphs.data[id];
    IrId base_edge = b->m->graphs.data[g->base].edge;
    int64_t n = b->edges[id].n, *same = ARENA_ARRAY(b->arena, int64_t, n + 1),
            *orig = ARENA_ARRAY(b->arena, int64_t, n + 1), k = 0;
    for (int64_t e = 0; e < n; e++) same[e] = e;
    b->stored_of[id] = same;
    b->w->maps[g->orig] = g->kind == IR_GRAPH_ROUTED ? b->edges[id].orig : orig;
    if (g->kind == IR_GRAPH_ROUTED) return;
    int64_t n_graphs = b->m->maps.data[g->batch].to == IR_UNIT ? 1 : b->n_graphs;
    for (int64_t graph = 0; graph < n_graphs; graph++)
        for (int64_t e = 0; e < n; e++) {
            int64_t stored = b->stored_of[g->base][e];
            if (n_graphs == 1 || graph_of_row(b, base_edge, stored) == graph) orig[k++] = stored;
        }
}

/* Where the ends of edges are stored, by the user's numbers: nodes as they are, edges of an earlier graph as that
   says. */
static int64_t *stored_ends(Build *b, IrId space, int64_t *ends, int64_t n)
{
    uint32_t id = 0;
    while (id < b->m->graphs.n && b->m->graphs.data[id].edge != space) id++;
    if (id == b->m->graphs.n) return ends;
    int64_t *stored = ARENA_ARRAY(b->arena, int64_t, n + 1);
    for (int64_t i = 0; i < n; i++) stored[i] = ends[i] < 0 ? -1 : b->stored_of[id][ends[i]];
    return stored;
}

static bool store(Build *b, uint32_t id)
{
    const IrGraph *g = &b->m->graphs.data[id];
    if (!set_count(b, g->edge, b->edges[id].n)) return false;
    if (ir_graph_is_found(g->kind)) return store_as_made(b, id), true;
    Edges ends = b->edges[id], *e = &ends;
    ends.src = stored_ends(b, g->src_space, ends.src, ends.n);
    ends.dst = stored_ends(b, g->dst_space, ends.dst, ends.n);
    int64_t *position = sort_by_dst(b->arena, e, b->w->counts[g->dst_space]);
    int64_t *src = ARENA_ARRAY(b->arena, int64_t, e->n + 1), *dst = ARENA_ARRAY(b->arena, int64_t, e->n + 1);
    int64_t *ids = ARENA_ARRAY(b->arena, int64_t, e->n + 1);
    for (int64_t i = 0; i < e->n; i++) {
        src[position[i]] = e->src[i];
        dst[position[i]] = e->dst[i];
        ids[position[i]] = i;
    }
    b->stored_of[id] = position;
    b->w->maps[g->src] = src;
    b->w->maps[g->dst] = dst;
    b->w->element_ids[g->edge] = ids;
    if (e->orig) derive_maps(b, id);
    return true;
}

/* ---- what is no graph's ---------------------------------------------------------------------- */

/* Whether graph_of speaks of a space: the nodes of the data. */
static bool is_batched(const Build *b, IrId space)
{
    bool listed = false, joined = false;
    if (!b->graph_of) return false;
    for (uint32_t i = 0; i < b->m->graphs.n; i++) {
        const IrGraph *g = &b->m->graphs.data[i];
        if (g->kind == IR_GRAPH_RANDOM && g->dst_space == space) return false;
        listed |= ir_graph_is_read(g->kind) && (g->src_space == space || g->dst_space == space);
        joined |= g->kind == IR_GRAPH_DATA && (g->src_space == space || g->dst_space == space);
    }
    return (joined || !listed) && b->w->counts[space] == b->n_batched;
}

/* The graph of a row: of nodes as graphs_of says, of edges by their source, or by what else of them is known before a
   run. */
static int64_t graph_of_row(const Build *b, IrId space, int64_t row)
{
    for (uint32_t i = 0; i < b->m->graphs.n; i++) {
        const IrGraph *g = &b->m->graphs.data[i];
        if (g->edge != space) continue;
        if (g->kind == IR_GRAPH_ROUTED && g->of != IR_NONE) return b->w->maps[g->of][row];
        IrId via = ir_graph_is_found(g->kind) ? g->orig : g->kind == IR_GRAPH_NEAREST ? g->dst : g->src;
        return graph_of_row(b, b->m->maps.data[via].to, b->w->maps[via][row]);
    }
    const int64_t *of = graphs_of(b, space);
    return of ? of[row] : 0;
}

static bool other_map(Build *b, IrId id)
{
    const IrMap *map = &b->m->maps.data[id];
    int64_t n = b->w->counts[map->from];
    int64_t *image = ARENA_ARRAY(b->arena, int64_t, n + 1); /* to unit: row 0 */
    if (map->to != IR_UNIT && !set_count(b, map->to, b->n_graphs)) return false;
    for (int64_t i = 0; i < n && map->to != IR_UNIT; i++) {
        image[i] = graph_of_row(b, map->from, i);
        if (image[i] < 0 || image[i] >= b->n_graphs)
            return fail(b,
                        arena_printf(b->arena, "element %lld of `%s` belongs to graph %lld of %lld", (long long)i,
                                     b->m->spaces.data[map->from].name, (long long)image[i], (long long)b->n_graphs));
        if (map->sorted && i && image[i] < image[i - 1])
            return fail(b, arena_printf(b->arena, "map `%s` is not sorted", map->name));
    }
    b->w->maps[id] = image;
    return true;
}

static bool is_said(const IrModule *m, IrId map)
{
    for (IrId t = 0; t < m->tensors.n; t++)
        if (m->tensors.data[t].is_map && m->tensors.data[t].map == map) return true;
    return false;
}

static bool no_images(Build *b, IrId id)
{
    int64_t n = b->w->counts[b->m->maps.data[id].from];
    b->w->maps[id] = ARENA_ARRAY(b->arena, int64_t, n + 1);
    for (int64_t i = 0; i < n; i++) b->w->maps[id][i] = -1;
    return true;
}

/* Spaces without edges of their own are the data's nodes, unless a map leads to them: then graphs. */
static bool other_spaces(Build *b)
{
    for (uint32_t s = 1; s < b->m->spaces.n; s++) {
        if (b->w->counts[s] != UNKNOWN) continue;
        bool target = false;
        for (uint32_t i = 0; i < b->m->maps.n; i++)
            target |= b->m->maps.data[i].to == s && !b->w->maps[i]; /* the known ones lead from nonzeros */
        if (b->data->counts && b->data->counts[s] != UNKNOWN) b->w->counts[s] = b->data->counts[s];
        else if (target) b->w->counts[s] = b->n_graphs;
        else if (b->data->graph && !b->m->spaces.data[s].is_edge) b->w->counts[s] = b->data->graph->n_dst;
        else return fail(b, arena_printf(b->arena, "space `%s` has no graph", b->m->spaces.data[s].name));
    }
    return true;
}

/* Spaces that index a dim, and those of nonzeros, which are empty until eval_nonzeros. */
static void fixed_spaces(Build *b)
{
    const IrModule *m = b->m;
    for (uint32_t s = 1; s < m->spaces.n; s++)
        if (m->spaces.data[s].has_dim) b->w->counts[s] = m->dims.data[m->spaces.data[s].dim].size;
    for (uint32_t t = 0; t < m->tensors.n; t++) {
        const IrNonzeros *n = &m->tensors.data[t].nonzeros;
        if (!n->present) continue;
        b->w->counts[m->tensors.data[t].type.space] = 0;
        b->w->maps[n->row] = ARENA_ARRAY(b->arena, int64_t, 1);
        b->w->maps[n->col] = ARENA_ARRAY(b->arena, int64_t, 1);
    }
}

EvalValue *eval_nonzeros(EvalWorld *w, const IrModule *m, IrId values, const EvalValue *dense)
{
    const IrTensor *t = &m->tensors.data[values];
    ICE_UNLESS(t->nonzeros.present);
    int64_t all = dense->rows * dense->width, *count = &w->counts[t->type.space];
    int64_t *row = ARENA_ARRAY(w->arena, int64_t, all + 1), *col = ARENA_ARRAY(w->arena, int64_t, all + 1);
    *count = 0;
    for (int64_t i = 0; i < all; i++)
        if (dense->v[i] != 0) row[*count] = i / dense->width, col[(*count)++] = i % dense->width;
    w->maps[t->nonzeros.row] = row;
    w->maps[t->nonzeros.col] = col;
    EvalValue *x = eval_value_new(w->arena, m, w, t->type);
    for (int64_t k = 0; x && k < *count; k++) x->v[k] = dense->v[row[k] * dense->width + col[k]];
    return x;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Pairs are numbers, key * rows + row: sorted, each once. */
static void say_pairs(EvalWorld *w, const IrModule *m, const IrGraph *g)
{
    int64_t n_edges = w->counts[m->maps.data[g->of].from], rows = w->counts[g->src_space], n = 0, distinct = 0;
    const int64_t *row = w->maps[g->batch], *key = w->maps[g->of];
    int64_t *pairs = ARENA_ARRAY(w->arena, int64_t, n_edges + 1), *image = w->maps[g->image];
    for (int64_t e = 0; e < n_edges; e++)
        if (key[e] >= 0) pairs[n++] = key[e] * rows + row[e];
    qsort(pairs, (size_t)n, sizeof *pairs, by_number);
    for (int64_t i = 0; i < n; i++)
        if (!distinct || pairs[i] != pairs[distinct - 1]) pairs[distinct++] = pairs[i];
    w->counts[g->edge] = distinct;
    w->element_ids[g->edge] = NULL;
    for (IrId map = 0; map < m->maps.n; map++) /* to unit: row 0 */
        if (m->maps.data[map].from == g->edge) w->maps[map] = ARENA_ARRAY(w->arena, int64_t, distinct + 1);
    for (int64_t i = 0; i < distinct; i++) {
        w->maps[g->src][i] = pairs[i] % rows;
        w->maps[g->dst][i] = pairs[i] / rows;
    }
    for (int64_t e = 0; e < n_edges; e++) {
        int64_t pair = key[e] * rows + row[e];
        const int64_t *at = key[e] < 0 ? NULL : bsearch(&pair, pairs, (size_t)distinct, sizeof pair, by_number);
        image[e] = at ? at - pairs : -1;
    }
}

void eval_say_pairs(EvalWorld *w, const IrModule *m, IrId map)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].kind == IR_GRAPH_KEYED && m->graphs.data[i].of == map)
            say_pairs(w, m, &m->graphs.data[i]);
}

void eval_said_map(EvalWorld *w, const IrModule *m, IrId tensor, const EvalValue *x)
{
    const IrTensor *t = &m->tensors.data[tensor];
    ICE_UNLESS(t->is_map);
    const IrMap *map = &m->maps.data[t->map];
    for (int64_t i = 0; i < w->counts[map->from]; i++)
        w->maps[t->map][i] = x->v[i] >= 0 && x->v[i] < (double)w->counts[map->to] ? (int64_t)x->v[i] : -1;
    eval_say_pairs(w, m, t->map);
}

EvalWorld *eval_world(Arena *a, const IrModule *m, const EvalGraph *data_graph, const int64_t *graph_of,
                      int64_t n_graphs, const char **why)
{
    return eval_world_of(a, m, &(EvalData){.graph = data_graph, .graph_of = graph_of, .n_graphs = n_graphs}, why);
}

EvalWorld *eval_world_of(Arena *a, const IrModule *m, const EvalData *data, const char **why)
{
    EvalWorld *w = ARENA_NEW(a, EvalWorld);
    *w = (EvalWorld){a, ARENA_ARRAY(a, int64_t, m->spaces.n), ARENA_ARRAY(a, int64_t *, m->maps.n + 1),
                     ARENA_ARRAY(a, uint8_t *, m->maps.n + 1), ARENA_ARRAY(a, int64_t *, m->spaces.n)};
    Build b = {a,
               m,
               w,
               ARENA_ARRAY(a, Edges, m->graphs.n + 1),
               ARENA_ARRAY(a, int64_t *, m->graphs.n + 1),
               data,
               data->graph_of,
               data->n_graphs < 1 && !data->graph_of ? 1 : data->n_graphs,
               data->graph ? data->graph->n_dst : 0,
               NULL};
    for (uint32_t s = 1; s < m->spaces.n; s++) w->counts[s] = UNKNOWN;
    w->counts[IR_UNIT] = 1;
    fixed_spaces(&b);
    bool ok = true;
    for (uint32_t i = 0; i < m->graphs.n && ok; i++)
        ok = user_edges(&b, &m->graphs.data[i], &b.edges[i]) && store(&b, i);
    ok = ok && other_spaces(&b);
    for (uint32_t i = 0; i < m->maps.n && ok; i++) {
        if (!w->maps[i]) ok = m->maps.data[i].computed || is_said(m, i) ? no_images(&b, i) : other_map(&b, i);
        if (ok && m->maps.data[i].computed) w->open[i] = ARENA_ARRAY(a, uint8_t, w->counts[m->maps.data[i].from] + 1);
    }
    *why = b.why;
    return ok ? w : NULL;
}
