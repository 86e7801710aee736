/* The rules that a module of graph IR keeps, before and after every pass. They are written out in
   docs/ir.md. Reports the first breach of the tables and the first of each function; changes
   nothing. Works on anything a reader or a pass may hand it: no id is followed before it was found
   in range. */
#include "ir/graph.h"
#include <inttypes.h>

typedef struct Verify {
    const IrModule *m;
    Diags *d;
    Arena *arena; /* texts of messages */
    bool ok;
} Verify;

__attribute__((format(printf, 3, 4))) static bool bad(Verify *v, Span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_error(v->d, E0502, at, "%s", arena_vprintf(v->arena, fmt, ap));
    va_end(ap);
    v->ok = false;
    return false;
}

static const Span nowhere = {0};

/* ---- names ----------------------------------------------------------------------------------- */

/* Rows begin with their name. */
static bool names_unique(Verify *v, Span at, const char *what, const void *rows, uint32_t n, size_t size)
{
    StrMap seen = {.arena = v->arena};
    for (uint32_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)((const char *)rows + i * size);
        if (!name || !*name) return bad(v, at, "%s %u has no name", what, i);
        if (strmap_has(&seen, name)) return bad(v, at, "two %ss named `%s`", what, name);
        strmap_put(&seen, name, v->arena);
    }
    return true;
}
#define NAMES_UNIQUE(v, at, what, table) names_unique((v), (at), (what), (table).data, (table).n, sizeof *(table).data)

static bool func_names_unique(Verify *v)
{
    StrMap seen = {.arena = v->arena};
    for (uint32_t i = 0; i < v->m->funcs.n; i++) {
        const char *name = v->m->funcs.data[i]->name;
        if (!name || !*name) return bad(v, nowhere, "function %u has no name", i);
        if (strmap_has(&seen, name)) return bad(v, nowhere, "two functions named `%s`", name);
        strmap_put(&seen, name, v->arena);
    }
    return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* NULL, or what is wrong with a type by itself. */
static const char *type_breach(Verify *v, const IrType *t)
{
    if (t->space >= v->m->spaces.n) return "its space does not exist";
    if ((unsigned)t->dtype >= IR_N_DTYPES) return "its dtype does not exist";
    if (t->n_dims > IR_MAX_DIMS) return "it has too many dims";
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] >= v->m->dims.n) return "a dim of it does not exist";
        for (uint32_t k = 0; k < i; k++)
            if (t->dims[k] == t->dims[i]) return "it has a dim twice";
    }
    return ir_row_fits(v->m, t) ? NULL : "one row of it is larger than memory";
}

static bool check_type(Verify *v, Span at, const char *what, const IrType *t)
{
    const char *why = type_breach(v, t);
    return why ? bad(v, at, "%s: %s", what, why) : true;
}

static const char *type_text(Verify *v, const IrType *t) { return ir_type_text(v->m, t, v->arena); }

/* ---- tables ---------------------------------------------------------------------------------- */

static bool check_dims(Verify *v)
{
    for (uint32_t i = 0; i < v->m->dims.n; i++)
        if (v->m->dims.data[i].size == 0) return bad(v, nowhere, "dim `%s` is 0", v->m->dims.data[i].name);
    return NAMES_UNIQUE(v, nowhere, "dim", v->m->dims);
}

static bool check_spaces(Verify *v)
{
    if (!v->m->spaces.n || strcmp(v->m->spaces.data[0].name, "unit") || v->m->spaces.data[0].is_edge)
        return bad(v, nowhere, "space 0 is not the unit space");
    return NAMES_UNIQUE(v, nowhere, "space", v->m->spaces);
}

static bool check_map(Verify *v, uint32_t id)
{
    const IrMap *map = &v->m->maps.data[id];
    if (map->from >= v->m->spaces.n || map->to >= v->m->spaces.n)
        return bad(v, nowhere, "map `%s`: a space does not exist", map->name);
    if (map->from == IR_UNIT) return bad(v, nowhere, "map `%s` leads from the unit space", map->name);
    if (map->computed && (map->sorted || map->inverse != IR_NONE))
        return bad(v, nowhere, "map `%s` is computed: it has no order and no inverse", map->name);
    if (map->inverse == IR_NONE) return true;
    if (map->inverse >= v->m->maps.n) return bad(v, nowhere, "map `%s`: its inverse does not exist", map->name);
    const IrMap *back = &v->m->maps.data[map->inverse];
    if (back->inverse != id || back->from != map->to || back->to != map->from)
        return bad(v, nowhere, "map `%s` and its inverse `%s` do not belong together", map->name, back->name);
    return true;
}

static bool check_space_dims(Verify *v)
{
    for (uint32_t i = 0; i < v->m->spaces.n; i++) {
        const IrSpace *s = &v->m->spaces.data[i];
        if (s->has_dim && (s->dim >= v->m->dims.n || s->is_edge || i == IR_UNIT))
            return bad(v, nowhere, "space `%s` indexes no dim", s->name);
    }
    return true;
}

static bool check_maps(Verify *v)
{
    if (!NAMES_UNIQUE(v, nowhere, "map", v->m->maps)) return false;
    for (uint32_t i = 0; i < v->m->maps.n; i++)
        if (!check_map(v, i)) return false;
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool map_joins(Verify *v, IrId map, IrId from, IrId to)
{
    return map < v->m->maps.n && v->m->maps.data[map].from == from && v->m->maps.data[map].to == to;
}

static bool check_graph_spaces(Verify *v, const IrGraph *g)
{
    uint32_t n = v->m->spaces.n;
    if (g->edge >= n || g->src_space >= n || g->dst_space >= n)
        return bad(v, nowhere, "graph `%s`: a space does not exist", g->name);
    if (!v->m->spaces.data[g->edge].is_edge)
        return bad(v, nowhere, "graph `%s`: space `%s` is not of edges", g->name, v->m->spaces.data[g->edge].name);
    IrId base = g->kind == IR_GRAPH_COMPOSE ? g->path[0] : g->base;
    IrId base_ends = base < v->m->graphs.n ? v->m->graphs.data[base].src_space : IR_NONE;
    bool of_edges = ir_graph_is_of_targets(g->kind) || g->kind == IR_GRAPH_LINE || g->kind == IR_GRAPH_SIBLINGS ||
                    g->kind == IR_GRAPH_ROUTED ||
                    (base_ends < n && v->m->spaces.data[base_ends].is_edge); /* loops on a graph of edges, say */
    if ((!of_edges && (v->m->spaces.data[g->src_space].is_edge || v->m->spaces.data[g->dst_space].is_edge)) ||
        g->src_space == IR_UNIT || g->dst_space == IR_UNIT)
        return bad(v, nowhere, "graph `%s`: its ends are not spaces of nodes", g->name);
    if (!map_joins(v, g->src, g->edge, g->src_space) || !map_joins(v, g->dst, g->edge, g->dst_space))
        return bad(v, nowhere, "graph `%s`: its maps do not lead from its edges to its nodes", g->name);
    if (!v->m->maps.data[g->dst].sorted && !ir_graph_is_found(g->kind))
        return bad(v, nowhere, "graph `%s`: edges are stored by destination, so map `%s` is sorted", g->name,
                   v->m->maps.data[g->dst].name);
    return true;
}

static bool check_derived(Verify *v, const IrGraph *g)
{
    const IrGraph *base = &v->m->graphs.data[g->base];
    bool reverse = g->kind == IR_GRAPH_REVERSE;
    IrId src = reverse ? base->dst_space : base->src_space, dst = reverse ? base->src_space : base->dst_space;
    if (g->src_space != src || g->dst_space != dst)
        return bad(v, nowhere, "graph `%s` and its base `%s` have other nodes", g->name, base->name);
    if (!reverse && (unsigned)g->policy > IR_LOOPS_REMOVE)
        return bad(v, nowhere, "graph `%s`: loops need a policy", g->name);
    if (g->orig != IR_NONE && !map_joins(v, g->orig, g->edge, base->edge))
        return bad(v, nowhere, "graph `%s`: orig does not lead to the base's edges", g->name);
    if (g->image != IR_NONE && !map_joins(v, g->image, base->edge, g->edge))
        return bad(v, nowhere, "graph `%s`: image does not lead from the base's edges", g->name);
    if (reverse) return true;
    if ((g->orig != IR_NONE && !v->m->maps.data[g->orig].partial) ||
        (g->image != IR_NONE && !v->m->maps.data[g->image].partial))
        return bad(v, nowhere, "graph `%s`: orig and image are partial maps", g->name);
    return true;
}

static bool check_pairs(Verify *v, const IrGraph *g)
{
    const IrGraph *base = &v->m->graphs.data[g->base];
    IrId ends = g->kind == IR_GRAPH_COMPLETE ? base->src_space : base->edge;
    bool one = g->kind == IR_GRAPH_SIBLINGS || base->src_space == base->dst_space;
    if (g->src_space != ends || g->dst_space != ends || !one)
        return bad(v, nowhere, "graph `%s` cannot pair %s of its base `%s`", g->name,
                   g->kind == IR_GRAPH_COMPLETE ? "the nodes" : "the edges", base->name);
    if (g->orig == IR_NONE && g->image == IR_NONE) return true;
    return bad(v, nowhere, "graph `%s`: a graph of pairs keeps no edge of its base", g->name);
}

static bool check_negatives(Verify *v, const IrGraph *g)
{
    const IrGraph *base = &v->m->graphs.data[g->base];
    if (g->src_space != base->src_space || g->dst_space != base->dst_space)
        return bad(v, nowhere, "graph `%s` and its base `%s` have other nodes", g->name, base->name);
    if (g->n_edges < 1 || g->n_edges > INT32_MAX)
        return bad(v, nowhere, "graph `%s`: %" PRId64 " pairs for each edge", g->name, g->n_edges);
    bool orig = g->orig == IR_NONE || (map_joins(v, g->orig, g->edge, base->edge) && !v->m->maps.data[g->orig].partial);
    if (!orig || g->image != IR_NONE)
        return bad(v, nowhere, "graph `%s`: only `orig` leads to the base's edges, from every pair", g->name);
    return true;
}

static bool check_nearest(Verify *v, const IrGraph *g)
{
    const IrMap *batch = g->batch < v->m->maps.n ? &v->m->maps.data[g->batch] : NULL;
    if (!v->m->maps.data[g->src].computed) /* that of its targets is sorted, so it is not */
        return bad(v, nowhere, "graph `%s`: the map of its sources, and it alone, is computed", g->name);
    if (g->batch != IR_NONE && (!batch || batch->from != g->src_space || batch->to == IR_UNIT || !batch->sorted ||
                                g->src_space != g->dst_space))
        return bad(v, nowhere, "graph `%s`: no map leads from its nodes to their graphs", g->name);
    if (g->n_edges < 1 || g->n_edges > INT32_MAX || g->step < 1 || g->step > INT32_MAX ||
        (g->policy != IR_LOOPS_KEEP && g->policy != IR_LOOPS_REMOVE))
        return bad(v, nowhere, "graph `%s`: %" PRId64 " neighbours", g->name, g->n_edges);
    return true;
}

static bool check_select(Verify *v, const IrGraph *g)
{
    const IrMap *maps = v->m->maps.data;
    const IrGraph *base = &v->m->graphs.data[g->base];
    if (base->src_space != base->dst_space || g->src_space != g->dst_space || g->src_space == base->src_space)
        return bad(v, nowhere, "graph `%s`: nodes are chosen from one space of its base `%s`, and have one", g->name,
                   base->name);
    bool known = g->batch < v->m->maps.n && g->of < v->m->maps.n;
    if (!known || !map_joins(v, g->batch, base->src_space, maps[g->of].to) ||
        !map_joins(v, g->of, g->src_space, maps[g->batch].to) || !maps[g->batch].sorted || !maps[g->of].sorted)
        return bad(v, nowhere,
                   "graph `%s`: no sorted maps lead from its nodes and its base's to the graphs of the batch", g->name);
    if (!map_joins(v, g->orig, g->edge, base->edge) || maps[g->orig].partial ||
        !map_joins(v, g->image, base->src_space, g->src_space))
        return bad(v, nowhere, "graph `%s`: `orig` leads to the base's edges, `image` from its nodes", g->name);
    IrId computed[] = {g->src, g->dst, g->image};
    for (int i = 0; i < 3; i++)
        if (!maps[computed[i]].computed || !maps[computed[i]].partial)
            return bad(v, nowhere, "graph `%s`: map `%s` is computed and partial", g->name, maps[computed[i]].name);
    if (g->n_edges >= 0 && g->n_edges <= INT32_MAX && (g->n_edges || (g->ratio > 0 && g->ratio <= 1))) return true;
    return bad(v, nowhere, "graph `%s`: %" PRId64 " nodes of each graph, or the share %g", g->name, g->n_edges,
               g->ratio);
}

/* Lost targets have an image, and graphs of the batch that edges stay in. */
static bool routes_targets(Verify *v, const IrGraph *g)
{
    const IrMap *maps = v->m->maps.data;
    return map_joins(v, g->image, g->edge, g->dst_space) && maps[g->image].partial && g->of < v->m->maps.n &&
           maps[g->of].sorted && map_joins(v, g->batch, g->dst_space, maps[g->of].to) &&
           map_joins(v, g->of, g->edge, maps[g->batch].to);
}

static bool check_routed(Verify *v, const IrGraph *g)
{
    const IrMap *maps = v->m->maps.data;
    bool more = g->batch != IR_NONE;
    if (!maps[g->src].computed || !maps[g->dst].computed)
        return bad(v, nowhere, "graph `%s`: the maps of both ends are computed", g->name);
    if (!map_joins(v, g->orig, g->edge, v->m->graphs.data[g->base].edge) || maps[g->orig].partial != more)
        return bad(v, nowhere, "graph `%s`: `orig` leads to the base's edges, from all but those of targets", g->name);
    if (g->n_edges < 1 || g->n_edges > INT32_MAX)
        return bad(v, nowhere, "graph `%s`: %" PRId64 " for each edge", g->name, g->n_edges);
    if (more ? routes_targets(v, g) : g->of == IR_NONE && g->image == IR_NONE) return true;
    return bad(
        v, nowhere,
        "graph `%s`: its targets and its edges, in order, are of no graphs of the batch, or it has no image to targets",
        g->name);
}

/* The input that says a map; NULL: none does. */
static const IrTensor *said_by(const IrModule *m, IrId map)
{
    for (uint32_t i = 0; i < m->tensors.n; i++)
        if (m->tensors.data[i].is_map && m->tensors.data[i].map == map) return &m->tensors.data[i];
    return NULL;
}

static bool check_keyed(Verify *v, const IrGraph *g)
{
    const IrMap *maps = v->m->maps.data;
    IrId edge = v->m->graphs.data[g->base].edge;
    if (!map_joins(v, g->batch, edge, g->src_space) || maps[g->batch].partial || !ir_map_stays(v->m, g->batch))
        return bad(v, nowhere, "graph `%s`: `by` leads from the base's edges to their rows, known at load", g->name);
    if (!map_joins(v, g->of, edge, g->dst_space) || !said_by(v->m, g->of))
        return bad(v, nowhere, "graph `%s`: `of` is a map that an input says, from the base's edges to their keys",
                   g->name);
    if (!map_joins(v, g->image, edge, g->edge) || !maps[g->image].partial || g->orig != IR_NONE)
        return bad(v, nowhere, "graph `%s`: `image`, partial and alone, leads from the base's edges to their pairs",
                   g->name);
    if (maps[g->src].partial || maps[g->dst].partial || maps[g->src].computed)
        return bad(v, nowhere, "graph `%s`: every pair has a row and a key", g->name);
    if (g->ratio > 0 && g->ratio <= 1) return true;
    return bad(v, nowhere, "graph `%s`: %g pairs for each edge", g->name, g->ratio);
}

static bool check_permutation(Verify *v, const IrGraph *g)
{
    const IrGraph *base = &v->m->graphs.data[g->base];
    if (g->src_space != base->src_space || g->dst_space != base->src_space || g->src_space != base->dst_space)
        return bad(v, nowhere, "graph `%s` permutes no nodes of its base `%s`", g->name, base->name);
    if (g->orig == IR_NONE && g->image == IR_NONE) return true;
    return bad(v, nowhere, "graph `%s`: a permutation keeps no edge of its base", g->name);
}

static bool keeps_none(Verify *v, const IrGraph *g)
{
    if (g->orig == IR_NONE && g->image == IR_NONE) return true;
    return bad(v, nowhere, "graph `%s`: it is derived from none, so that no map leads to a base's edges", g->name);
}

/* Each edge of a path begins where the one before it ends, and all are known when the data are loaded. */
static bool check_compose(Verify *v, const IrGraph *g, uint32_t id)
{
    if (!g->n_path || g->n_path > IR_MAX_PATH) return bad(v, nowhere, "graph `%s` is a path of no edges", g->name);
    IrId at = g->src_space;
    for (uint32_t i = 0; i < g->n_path; i++) {
        if (g->path[i] >= id) return bad(v, nowhere, "graph `%s`: its path does not stand above it", g->name);
        const IrGraph *x = &v->m->graphs.data[g->path[i]];
        if (x->kind == IR_GRAPH_KEYED)
            return bad(v, nowhere, "graph `%s` leads over `%s`, whose pairs are known when inputs are", g->name,
                       x->name);
        if (x->src_space != at)
            return bad(v, nowhere, "graph `%s`: `%s` does not begin where its path has come to", g->name, x->name);
        if (!ir_map_stays(v->m, x->src) || !ir_map_stays(v->m, x->dst))
            return bad(v, nowhere, "graph `%s`: a run says where `%s` leads, or draws it", g->name, x->name);
        at = x->dst_space;
    }
    if (at != g->dst_space) return bad(v, nowhere, "graph `%s`: its path does not end at its targets", g->name);
    return keeps_none(v, g);
}

/* From the nodes that the base's edges lead to, to these edges. The graphs that are looked through join the same
   nodes. */
static bool check_of_targets(Verify *v, const IrGraph *g, uint32_t id)
{
    const IrGraph *base = &v->m->graphs.data[g->base];
    bool answers = g->kind == IR_GRAPH_ANSWERS;
    if (g->src_space != base->dst_space || g->dst_space != base->edge)
        return bad(v, nowhere, "graph `%s` does not lead from what edges of `%s` lead to, to these", g->name,
                   base->name);
    if (!ir_map_stays(v->m, base->src) || !ir_map_stays(v->m, base->dst))
        return bad(v, nowhere, "graph `%s`: a run says where `%s` leads, or draws it", g->name, base->name);
    if (answers != (g->n_path > 0) || g->n_path > IR_MAX_PATH || (g->n_keys && g->n_keys != g->n_path + 1))
        return bad(v, nowhere, "graph `%s`: %u graphs and %u arrays of keys", g->name, g->n_path, g->n_keys);
    for (uint32_t i = 0; i < g->n_path; i++) {
        const IrGraph *x = g->path[i] < id ? &v->m->graphs.data[g->path[i]] : NULL;
        if (!x || x->src_space != base->src_space || x->dst_space != base->dst_space || !ir_map_stays(v->m, x->src) ||
            !ir_map_stays(v->m, x->dst))
            return bad(v, nowhere, "graph `%s` looks through a graph of other nodes, or one not known above it",
                       g->name);
    }
    return keeps_none(v, g);
}

/* Kinds without a base have none: their `base` is IR_NONE. */
static bool has_base(const IrGraph *g)
{
    return g->kind != IR_GRAPH_DATA && !ir_graph_is_read(g->kind) && g->kind != IR_GRAPH_RANDOM &&
           g->kind != IR_GRAPH_NEAREST && g->kind != IR_GRAPH_COMPOSE;
}

static bool check_graph(Verify *v, uint32_t id)
{
    const IrGraph *g = &v->m->graphs.data[id];
    if (!check_graph_spaces(v, g)) return false;
    if (has_base(g) && g->base >= id) return bad(v, nowhere, "graph `%s`: its base does not stand above it", g->name);
    if (g->base < id && v->m->graphs.data[g->base].redrawn)
        return bad(v, nowhere, "graph `%s` is derived from `%s`, which is drawn again for each step", g->name,
                   v->m->graphs.data[g->base].name);
    if (g->base < id && v->m->graphs.data[g->base].kind == IR_GRAPH_KEYED)
        return bad(v, nowhere, "graph `%s` is derived from `%s`, whose pairs are known when inputs are", g->name,
                   v->m->graphs.data[g->base].name);
    if (g->redrawn && (g->seed < 0 || g->seed >= v->m->n_sites))
        return bad(v, nowhere, "graph `%s`: site %" PRId64 " of %u", g->name, g->seed, v->m->n_sites);
    for (uint32_t i = 0; i < id; i++)
        if (v->m->graphs.data[i].edge == g->edge)
            return bad(v, nowhere, "graphs `%s` and `%s` share their edges", v->m->graphs.data[i].name, g->name);
    switch (g->kind) {
    case IR_GRAPH_DATA: return true;
    case IR_GRAPH_FILE:
    case IR_GRAPH_COLUMN: return keeps_none(v, g);
    case IR_GRAPH_COMPOSE: return check_compose(v, g, id);
    case IR_GRAPH_RANDOM:
        if ((g->src_space == g->dst_space ? g->n_targets != 0 : g->n_targets <= 0) || g->n_targets > INT32_MAX ||
            g->n_nodes < 0 || g->n_edges < 0 || (g->n_edges && !g->n_nodes) || g->n_nodes > INT32_MAX ||
            g->n_edges > INT32_MAX)
            return bad(v, nowhere, "graph `%s`: %" PRId64 " edges on %" PRId64 " nodes", g->name, g->n_edges,
                       g->n_nodes);
        return true;
    case IR_GRAPH_SELF_LOOPS:
    case IR_GRAPH_REVERSE: return check_derived(v, g);
    case IR_GRAPH_LINE:
    case IR_GRAPH_SIBLINGS:
    case IR_GRAPH_COMPLETE: return check_pairs(v, g);
    case IR_GRAPH_NEGATIVES: return check_negatives(v, g);
    case IR_GRAPH_NEAREST: return check_nearest(v, g);
    case IR_GRAPH_ROUTED: return check_routed(v, g);
    case IR_GRAPH_SELECT: return check_select(v, g);
    case IR_GRAPH_PERMUTATION: return check_permutation(v, g);
    case IR_GRAPH_KEYED: return check_keyed(v, g);
    case IR_GRAPH_CANDIDATES:
    case IR_GRAPH_ANSWERS: return check_of_targets(v, g, id);
    }
    return bad(v, nowhere, "graph `%s` is of no kind", g->name);
}

/* Whether all elements of a computed map may lead somewhere: the sources of neighbours, the ends of routed edges. */
static bool may_be_total(const IrModule *m, IrId map)
{
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        bool routed = g->kind == IR_GRAPH_ROUTED && (g->src == map || g->dst == map);
        if (routed || (g->kind == IR_GRAPH_NEAREST && g->src == map)) return true;
    }
    return false;
}

static bool check_graphs(Verify *v)
{
    if (!NAMES_UNIQUE(v, nowhere, "graph", v->m->graphs)) return false;
    for (uint32_t i = 0; i < v->m->graphs.n; i++)
        if (!check_graph(v, i)) return false;
    for (uint32_t i = 0; i < v->m->maps.n; i++)
        if (v->m->maps.data[i].computed && !v->m->maps.data[i].partial && !may_be_total(v->m, i))
            return bad(v, nowhere, "map `%s` is computed, and of no graph of neighbours or routed edges: it is partial",
                       v->m->maps.data[i].name);
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* stored_perm names each dim once, and the stored shape has the value's number of elements. */
static bool check_stored(Verify *v, const IrTensor *t)
{
    unsigned seen = 0;
    int64_t stored = 1;
    bool known = true;
    if (t->n_stored > IR_MAX_DIMS) return bad(v, t->span, "tensor `%s`: too many stored dims", t->name);
    for (uint32_t i = 0; i < t->type.n_dims; i++) {
        if (t->stored_perm[i] < t->type.n_dims) seen |= 1u << t->stored_perm[i];
        known &= v->m->dims.data[t->type.dims[i]].size > 0;
    }
    if (seen != (1u << t->type.n_dims) - 1)
        return bad(v, t->span, "tensor `%s`: the stored order does not name each dim once", t->name);
    for (uint32_t i = 0; i < t->n_stored; i++) {
        known &= t->stored_shape[i] > 0;
        if (known && __builtin_mul_overflow(stored, t->stored_shape[i], &stored)) stored = -1, known = false;
    }
    if (stored < 0 || (known && stored != ir_type_width(v->m, &t->type)))
        return bad(v, t->span, "tensor `%s`: the stored shape has another number of elements than %s", t->name,
                   type_text(v, &t->type));
    return true;
}

static bool is_matrix_of(const IrModule *m, const IrTensor *t, IrId row_space, IrId col_space)
{
    const IrSpace *col = &m->spaces.data[col_space];
    return t->kind == IR_INPUT && t->type.space == row_space && row_space != IR_UNIT && t->type.n_dims == 1 &&
           col->has_dim && col->dim == t->type.dims[0];
}

static bool check_nonzeros(Verify *v, const IrTensor *t)
{
    const IrNonzeros *n = &t->nonzeros;
    const IrModule *m = v->m;
    bool ids = n->of < m->tensors.n && n->row < m->maps.n && n->col < m->maps.n;
    if (!ids) return bad(v, t->span, "tensor `%s`: what it holds the nonzeros of does not exist", t->name);
    const IrMap *row = &m->maps.data[n->row], *col = &m->maps.data[n->col];
    const IrTensor *of = &m->tensors.data[n->of];
    bool maps = row->from == t->type.space && col->from == t->type.space && row->sorted && !row->partial &&
                !col->partial;
    bool fits = t->kind == IR_INPUT && t->type.space != IR_UNIT && !t->type.n_dims && t->type.dtype == of->type.dtype;
    if (maps && fits && ir_dtype_is_float(t->type.dtype) && is_matrix_of(m, of, row->to, col->to)) return true;
    return bad(v, t->span, "tensor `%s` cannot hold the nonzeros of `%s` by maps `%s` and `%s`", t->name, of->name,
               row->name, col->name);
}

/* The runtime makes the map of an input when data are loaded: of no graph, and to rows that the module counts. */
static bool check_said_map(Verify *v, const IrTensor *t)
{
    const IrModule *m = v->m;
    if (t->map >= m->maps.n) return bad(v, t->span, "tensor `%s`: its map does not exist", t->name);
    const IrMap *map = &m->maps.data[t->map];
    bool plain = map->partial && !map->sorted && !map->computed && map->inverse == IR_NONE,
         rows = map->from == t->type.space && m->spaces.data[map->to].has_dim,
         numbers = t->kind == IR_INPUT && (t->type.dtype == IR_I32 || t->type.dtype == IR_I64) && !t->type.n_dims;
    if (plain && rows && numbers) return true;
    return bad(v, t->span, "tensor `%s` cannot say what map `%s` is", t->name, map->name);
}

static bool check_tensor(Verify *v, const IrTensor *t)
{
    const char *what = arena_printf(v->arena, "tensor `%s`", t->name);
    if (!check_type(v, t->span, what, &t->type)) return false;
    bool is_float = ir_dtype_is_float(t->type.dtype);
    bool is_int = t->type.dtype == IR_I32 || t->type.dtype == IR_I64;
    IrType hyper = ir_scalar(t->type.dtype);
    if (ir_dtype_is_16_bits(t->type.dtype) && t->kind != IR_INPUT && t->kind != IR_HELD)
        return bad(v, t->span, "%s: only inputs and held tensors lie in 16 bits", what);
    if (t->kind == IR_PARAM && t->type.dtype == IR_BOOL) return bad(v, t->span, "%s: parameters are numbers", what);
    if (t->kind == IR_HYPER && (!is_float || !ir_type_eq(&t->type, &hyper)))
        return bad(v, t->span, "%s: hypers are float scalars", what);
    if (t->bound < 0 || (t->bound && !is_int))
        return bad(v, t->span, "%s: only integers have a bound, which is positive", what);
    if (t->allow_missing && !t->bound) return bad(v, t->span, "%s: missing values need a bound", what);
    if (t->nonzeros.present && !check_nonzeros(v, t)) return false;
    if (t->is_map && !check_said_map(v, t)) return false;
    return t->kind == IR_PARAM || t->n_stored ? check_stored(v, t) : true;
}

static bool check_tensors(Verify *v)
{
    if (!NAMES_UNIQUE(v, nowhere, "tensor", v->m->tensors)) return false;
    for (uint32_t i = 0; i < v->m->tensors.n; i++)
        if (!check_tensor(v, &v->m->tensors.data[i])) return false;
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* What the module says the argument's type is; NULL with a message where it refers to nothing. */
static const IrType *arg_wanted(Verify *v, const IrFunc *f, const IrArg *arg, IrType *scalar)
{
    *scalar = ir_scalar(IR_I64);
    if (arg->kind == IR_ARG_SEED || arg->kind == IR_ARG_STEP) return scalar;
    if (arg->kind == IR_ARG_TENSOR && arg->ref < v->m->tensors.n) return &v->m->tensors.data[arg->ref].type;
    const IrFunc *of = arg->kind == IR_ARG_COTANGENT ? ir_func_find(v->m, "forward") : NULL;
    if (of && arg->ref < of->results.n && of->results.data[arg->ref].value < of->ops.n)
        return &of->ops.data[of->results.data[arg->ref].value].type;
    bad(v, nowhere, "%s: argument `%s` refers to nothing", f->name, arg->name);
    return NULL;
}

static bool check_args(Verify *v, const IrFunc *f)
{
    if (!NAMES_UNIQUE(v, nowhere, "argument", f->args)) return false;
    for (uint32_t i = 0; i < f->args.n; i++) {
        const IrArg *arg = &f->args.data[i];
        IrType scalar;
        const IrType *wanted = arg_wanted(v, f, arg, &scalar);
        if (!wanted || !check_type(v, nowhere, arg->name, &arg->type)) return false;
        if (!ir_type_eq(wanted, &arg->type))
            return bad(v, nowhere, "%s: argument `%s` is %s, but what it is bound to is %s", f->name, arg->name,
                       type_text(v, &arg->type), type_text(v, wanted));
    }
    return true;
}

/* What goes through a computed map stands below the one op of the function that says what it is. */
static bool check_route(Verify *v, const IrFunc *f, const IrOp *op, uint32_t id, const char *what)
{
    if (!(ir_ops[op->op].attrs & A_MAP) || !v->m->maps.data[op->attr.map].computed || op->op == IR_OP_nearest)
        return true;
    const char *map = v->m->maps.data[op->attr.map].name;
    for (uint32_t i = 0; i < id; i++) {
        const IrOp *x = &f->ops.data[i];
        if (x->op != IR_OP_route || x->attr.map != op->attr.map) continue;
        return op->op == IR_OP_route ? bad(v, op->span, "%s: %%%u says already what `%s` is", what, i, map) : true;
    }
    return op->op == IR_OP_route ? true : bad(v, op->span, "%s: no `route` above it says what `%s` is", what, map);
}

static bool check_op(Verify *v, const IrFunc *f, uint32_t id)
{
    const IrOp *op = &f->ops.data[id];
    if ((unsigned)op->op >= IR_N_OPS) return bad(v, op->span, "%s: %%%u is no op", f->name, id);
    const IrOpInfo *info = &ir_ops[op->op];
    const char *what = arena_printf(v->arena, "%s: %%%u = %s", f->name, id, info->name);
    if (info->n_args != VARIADIC && op->n_args != info->n_args)
        return bad(v, op->span, "%s: %u operands, wanted %u", what, op->n_args, info->n_args);
    for (uint32_t i = 0; i < op->n_args; i++)
        if (op->args[i] >= id) return bad(v, op->span, "%s: operand %%%u does not stand above it", what, op->args[i]);
    if (!check_type(v, op->span, what, &op->type)) return false;
    if ((info->attrs & A_MAP) && op->attr.map >= v->m->maps.n)
        return bad(v, op->span, "%s: its map does not exist", what);
    if ((info->attrs & A_DIM) && op->attr.dim >= v->m->dims.n)
        return bad(v, op->span, "%s: its dim does not exist", what);
    if (!check_route(v, f, op, id, what)) return false;
    const char *why = ir_shape_check(v->m, f, op, v->arena);
    return why ? bad(v, op->span, "%s: %s", what, why) : true;
}

/* A held tensor is computed once, by one function of inputs. */
static bool check_held(Verify *v, const IrFunc *f, const IrResult *r)
{
    const IrOp *op = &f->ops.data[r->value];
    const IrTensor *t = &v->m->tensors.data[r->tensor];
    for (uint32_t i = 0; i < f->args.n; i++) {
        const IrArg *arg = &f->args.data[i];
        if (arg->kind == IR_ARG_TENSOR && v->m->tensors.data[arg->ref].kind == IR_INPUT) continue;
        return bad(v, op->span, "%s: result `%s` is computed once, so it cannot depend on `%s`, which is no input",
                   f->name, r->name, arg->name);
    }
    for (uint32_t i = 0; i < v->m->funcs.n; i++)
        for (uint32_t k = 0; k < v->m->funcs.data[i]->results.n && v->m->funcs.data[i] != f; k++)
            if (v->m->funcs.data[i]->results.data[k].tensor == r->tensor)
                return bad(v, op->span, "%s: `%s` is computed by function `%s` already", f->name, t->name,
                           v->m->funcs.data[i]->name);
    if (ir_type_eq(&op->type, &t->type)) return true;
    return bad(v, op->span, "%s: result `%s` is %s, but tensor `%s` is %s", f->name, r->name, type_text(v, &op->type),
               t->name, type_text(v, &t->type));
}

static bool check_result(Verify *v, const IrFunc *f, const IrResult *r)
{
    if (r->value >= f->ops.n) return bad(v, nowhere, "%s: result `%s` is no value", f->name, r->name);
    if (r->tensor == IR_NONE) return true;
    const IrOp *op = &f->ops.data[r->value];
    if (r->tensor >= v->m->tensors.n) return bad(v, op->span, "%s: result `%s` updates no tensor", f->name, r->name);
    const IrTensor *t = &v->m->tensors.data[r->tensor];
    if (t->kind == IR_HELD) return check_held(v, f, r);
    if (t->kind != IR_PARAM && t->kind != IR_STATE)
        return bad(v, op->span, "%s: result `%s` updates `%s`, which is no parameter and no state", f->name, r->name,
                   t->name);
    if (ir_type_eq(&op->type, &t->type)) return true;
    return bad(v, op->span, "%s: result `%s` is %s, but tensor `%s` is %s", f->name, r->name, type_text(v, &op->type),
               t->name, type_text(v, &t->type));
}

static bool check_results(Verify *v, const IrFunc *f)
{
    if (!NAMES_UNIQUE(v, nowhere, "result", f->results)) return false;
    for (uint32_t i = 0; i < f->results.n; i++) {
        const IrResult *r = &f->results.data[i];
        if (r->value < f->ops.n && ir_dtype_is_16_bits(f->ops.data[r->value].type.dtype) && r->tensor == IR_NONE)
            return bad(v, nowhere, "%s: result `%s` is of 16 bits, wanted what callers compute with: cast it to f32",
                       f->name, r->name);
        if (!check_result(v, f, r)) return false;
        for (uint32_t k = 0; k < i && r->tensor != IR_NONE; k++)
            if (f->results.data[k].tensor == r->tensor)
                return bad(v, nowhere, "%s: results `%s` and `%s` update the same tensor", f->name,
                           f->results.data[k].name, r->name);
    }
    return true;
}

static bool check_func(Verify *v, const IrFunc *f)
{
    if (!check_args(v, f)) return false;
    for (uint32_t i = 0; i < f->ops.n; i++)
        if (!check_op(v, f, i)) return false;
    return check_results(v, f);
}

/* Who reads a held tensor relies on a function that computes it. */
static bool check_held_reads(Verify *v)
{
    for (uint32_t i = 0; i < v->m->tensors.n; i++) {
        const IrTensor *t = &v->m->tensors.data[i];
        bool made = t->kind != IR_HELD;
        for (uint32_t k = 0; k < v->m->funcs.n && !made; k++)
            for (uint32_t r = 0; r < v->m->funcs.data[k]->results.n; r++)
                made |= v->m->funcs.data[k]->results.data[r].tensor == i;
        if (!made) return bad(v, t->span, "tensor `%s` is held, but no function computes it", t->name);
    }
    return true;
}

/* ---- training and tests ---------------------------------------------------------------------- */

static bool check_train(Verify *v)
{
    const IrTrain *t = &v->m->train;
    if (!t->present) return true;
    const IrFunc *metrics = ir_func_find(v->m, "metrics");
    if (!ir_func_find(v->m, "train_step")) return bad(v, nowhere, "train: no function `train_step`");
    if (t->batch < 0) return bad(v, nowhere, "train: batches of %" PRId64, t->batch);
    if (t->steps < 0 || t->steps > IR_MAX_STEPS || (t->steps && t->batch))
        return bad(v, nowhere, "train: epochs of %" PRId64 " steps", t->steps);
    if (t->epochs < 0) return bad(v, nowhere, "train: %" PRId64 " epochs", t->epochs);
    if (t->metrics.n > IR_MAX_METRICS)
        return bad(v, nowhere, "train: %u metrics, at most %d are kept", t->metrics.n, IR_MAX_METRICS);
    if (!NAMES_UNIQUE(v, nowhere, "metric", t->metrics)) return false;
    for (uint32_t i = 0; i < t->metrics.n; i++) {
        const IrMetric *metric = &t->metrics.data[i];
        if (!metrics || metric->result >= metrics->results.n)
            return bad(v, nowhere, "metric `%s`: function `metrics` has no result %u", metric->name, metric->result);
        const IrType *type = &metrics->ops.data[metrics->results.data[metric->result].value].type;
        if (type->space != IR_UNIT || type->n_dims || type->dtype == IR_BOOL)
            return bad(v, nowhere, "metric `%s` is %s, wanted a number", metric->name, type_text(v, type));
    }
    if (t->stop_metric == IR_NONE) return true;
    if (t->stop_metric >= t->metrics.n) return bad(v, nowhere, "train: the metric to stop by does not exist");
    return t->patience > 0 ? true : bad(v, nowhere, "train: a patience of %" PRId64, t->patience);
}

static bool check_test(Verify *v, const IrTest *t)
{
    if (t->func >= v->m->funcs.n) return bad(v, t->span, "test `%s` has no function", t->name);
    const IrFunc *f = v->m->funcs.data[t->func];
    if (f->results.n != t->asserts.n)
        return bad(v, t->span, "test `%s`: %u asserts for %u results", t->name, t->asserts.n, f->results.n);
    for (uint32_t i = 0; i < f->results.n; i++)
        if (f->ops.data[f->results.data[i].value].type.dtype != IR_BOOL)
            return bad(v, t->span, "test `%s`: result %u is no bool", t->name, i);
    return true;
}

static bool check_tests(Verify *v)
{
    if (!NAMES_UNIQUE(v, nowhere, "test", v->m->tests)) return false;
    for (uint32_t i = 0; i < v->m->tests.n; i++)
        if (!check_test(v, &v->m->tests.data[i])) return false;
    return true;
}

/* ---- the module ------------------------------------------------------------------------------ */

bool ir_verify(const IrModule *m, Diags *d)
{
    enum { MAX_SITES = 65536 };
    Verify v = {m, d, d->arena, true};
    if (m->n_sites > MAX_SITES) return bad(&v, nowhere, "%u random sites, at most %d", m->n_sites, MAX_SITES);
    if (!check_dims(&v) || !check_spaces(&v) || !check_space_dims(&v) || !check_maps(&v) || !check_graphs(&v) ||
        !check_tensors(&v) || !func_names_unique(&v))
        return false;
    for (uint32_t i = 0; i < m->funcs.n; i++) check_func(&v, m->funcs.data[i]);
    return v.ok && check_held_reads(&v) && check_train(&v) && check_tests(&v);
}
