/* A small graph for audits: rows without an element, rows of more than 256, edges side by side, two
 * graphs of a batch. */
#include "base/ice.h"
#include "passes/plan/audit.h"
#include "runtime/half.h"

enum { HUB_EDGES = 290, HUB_NODES = 40, MOST_ELEMENTS = 6000, LEAST_NODES = 8, FEW_LEAVES = 11, FEW_LEVELS = 2 };

typedef struct Draw {
    uint64_t s;
} Draw;
static int64_t below(Draw *d, int64_t n)
{
    d->s = d->s * 6364136223846793005u + 1442695040888963407u;
    return n > 0 ? (int64_t)(d->s >> 33) % n : 0;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

static int64_t graph_begin(int64_t n, int64_t graph) { return graph ? n * 3 / 4 : 0; }
static int64_t graph_end(int64_t n, int64_t graph) { return graph ? n : n * 3 / 4; }

/* Inside the graph that dst is in; the first node of each graph has no edge to it, the second none
 * from it. The hub's have a few others among them. */
static void edges(EvalGraph *g, int64_t *src, int64_t *dst, int64_t *graph_of)
{
    int64_t n = g->n_dst, hub = n >= HUB_NODES ? HUB_EDGES : 3;
    Draw d = {7};
    for (int64_t graph = 0; graph < 2; graph++) {
        int64_t begin = graph_begin(n, graph), end = graph_end(n, graph), size = end - begin;
        for (int64_t v = begin; v < end; v++) graph_of[v] = graph;
        for (int64_t i = 0; i < hub + 2 * size; i++) {
            bool to_hub = i < hub && i % 20 != 9, from_hub = i < hub && i % 20 != 19;
            int64_t v = to_hub ? begin + size / 2 : begin + 1 + below(&d, size - 1),
                    u = from_hub ? begin + size / 3 : begin + below(&d, size);
            src[g->n_edges] = u == begin + 1 ? begin : u;
            dst[g->n_edges++] = v;
        }
    }
}

/* Rows of the spaces that lists of the data join. */
static int64_t *listed_counts(Arena *a, const IrModule *m, int64_t n)
{
    int64_t *counts = ARENA_ARRAY(a, int64_t, m->spaces.n);
    for (IrId s = 0; s < m->spaces.n; s++) counts[s] = -1;
    for (int set = 1; set >= 0; set--)
        for (uint32_t i = 0; i < m->graphs.n; i++) {
            const IrGraph *g = &m->graphs.data[i];
            bool counted = g->kind == IR_GRAPH_RANDOM || g->kind == IR_GRAPH_SELECT; /* of their own */
            if (set ? ir_graph_is_read(g->kind) : counted) counts[g->src_space] = counts[g->dst_space] = set ? n : -1;
        }
    return counts;
}

static bool is_listed(const EvalData *d, const char *name)
{
    for (int64_t i = 0; i < d->n_lists; i++)
        if (!strcmp(d->lists[i].name, name)) return true;
    return false;
}

/* Types of edges that some graph has, in turn. */
static int64_t *types(Arena *a, const IrModule *m, const char *where, int64_t n)
{
    int64_t *type = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t e = 0; e < n;)
        for (uint32_t i = 0; i < m->graphs.n; i++) {
            const IrGraph *g = &m->graphs.data[i];
            if (g->where && !strcmp(g->where, where) && e < n) type[e++] = g->equals;
        }
    return type;
}

/* An array of edges or a column for each graph that reads one: a hub, none to the first row. */
static void lists(Arena *a, const IrModule *m, int64_t n, EvalData *d)
{
    int64_t n_edges = n >= HUB_NODES ? HUB_EDGES + 2 * n : 3 * n;
    EvalList *list = ARENA_ARRAY(a, EvalList, 2 * m->graphs.n + 1);
    Draw draw = {11};
    d->lists = list;
    d->counts = listed_counts(a, m, n);
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        if (!ir_graph_is_read(g->kind) || is_listed(d, ir_graph_file(g))) continue;
        int64_t edges = g->kind == IR_GRAPH_COLUMN ? n : n_edges, *src = ARENA_ARRAY(a, int64_t, edges + 1),
                *dst = ARENA_ARRAY(a, int64_t, edges + 1);
        for (int64_t e = 0; e < edges; e++) {
            src[e] = below(&draw, n);
            dst[e] = e % 2 ? n / 2 : 1 + below(&draw, n - 1);
        }
        list[d->n_lists++] = g->kind == IR_GRAPH_COLUMN ? (EvalList){ir_graph_file(g), edges, dst, NULL}
                                                        : (EvalList){ir_graph_file(g), edges, src, dst};
        if (g->where && !is_listed(d, g->where))
            list[d->n_lists++] = (EvalList){g->where, edges, types(a, m, g->where, edges), NULL};
    }
}

/* An integer for each edge of each graph by which another finds answers, of three that there are. */
static void keys(Arena *a, const IrModule *m, EvalData *d)
{
    VEC(EvalList) all = {0};
    for (int64_t i = 0; i < d->n_lists; i++) VEC_PUSH(a, &all, d->lists[i]);
    for (uint32_t i = 0; i < m->graphs.n; i++)
        for (uint32_t k = 0; k < m->graphs.data[i].n_keys; k++) {
            const IrGraph *g = &m->graphs.data[k ? m->graphs.data[i].path[k - 1] : m->graphs.data[i].base];
            while (g->kind == IR_GRAPH_REVERSE) g = &m->graphs.data[g->base];
            int64_t n = d->graph->n_edges;
            for (int64_t j = 0; g->kind == IR_GRAPH_FILE && j < d->n_lists; j++)
                if (!strcmp(d->lists[j].name, ir_graph_file(g))) n = d->lists[j].n;
            int64_t *key = ARENA_ARRAY(a, int64_t, n + 1);
            for (int64_t e = 0; e < n; e++) key[e] = e % 3;
            VEC_PUSH(a, &all, ((EvalList){m->graphs.data[i].keys[k], n, key, NULL}));
        }
    d->lists = all.data;
    d->n_lists = all.n;
}

static EvalWorld *world_of(Arena *a, const IrModule *m, int64_t n)
{
    EvalGraph g = {n, n, 0, NULL, NULL};
    int64_t *src = ARENA_ARRAY(a, int64_t, 2 * (HUB_EDGES + n) + 1),
            *dst = ARENA_ARRAY(a, int64_t, 2 * (HUB_EDGES + n) + 1);
    int64_t *graph_of = ARENA_ARRAY(a, int64_t, n + 1);
    const char *why;
    edges(&g, src, dst, graph_of);
    ICE_UNLESS(g.n_edges <= 2 * (HUB_EDGES + n));
    g.src = src;
    g.dst = dst;
    EvalData data = {.graph = &g, .graph_of = graph_of, .n_graphs = 2};
    lists(a, m, n, &data);
    keys(a, m, &data);
    return eval_world_of(a, m, &data, &why);
}

/* Two nonzeros for each row of a sparse input. */
static void nonzeros(EvalWorld *w, const IrModule *m)
{
    Draw d = {9};
    for (IrId t = 0; t < m->tensors.n; t++) {
        const IrNonzeros *z = &m->tensors.data[t].nonzeros;
        if (!z->present) continue;
        int64_t n = 2 * w->counts[m->maps.data[z->row].to], *row = ARENA_ARRAY(w->arena, int64_t, n + 1),
                *col = ARENA_ARRAY(w->arena, int64_t, n + 1);
        for (int64_t i = 0; i < n; i++) {
            row[i] = i / 2;
            col[i] = below(&d, w->counts[m->maps.data[z->col].to]);
        }
        w->counts[m->tensors.data[t].type.space] = n;
        w->maps[z->row] = row;
        w->maps[z->col] = col;
    }
}

static void said_maps(EvalWorld *w, const IrModule *m)
{
    Draw d = {10};
    for (IrId t = 0; t < m->tensors.n; t++) {
        const IrTensor *x = &m->tensors.data[t];
        int64_t n = x->is_map ? w->counts[m->maps.data[x->map].from] : 0;
        for (int64_t i = 0; i < n; i++) w->maps[x->map][i] = below(&d, w->counts[m->maps.data[x->map].to] + 1) - 1;
        if (x->is_map) eval_say_pairs(w, m, x->map);
    }
}

/* Spaces of dims have rows of their own, which maps lead from. */
static bool are_dims_small(const IrModule *m)
{
    for (IrId s = 0; s < m->spaces.n; s++)
        if (m->spaces.data[s].has_dim && m->dims.data[m->spaces.data[s].dim].size > AUDIT_MOST_ELEMENTS) return false;
    return true;
}

static bool is_small(const EvalWorld *w, const IrModule *m)
{
    for (IrId s = 0; s < m->spaces.n; s++)
        if (!m->spaces.data[s].has_dim && w->counts[s] > MOST_ELEMENTS) return false;
    return true;
}

/* ---- arrays of maps ---------------------------------------------------------------------------------------------- */

static void list_rows(AuditWorld *x, Arena *a, IrId map)
{
    const IrMap *m = &x->m->maps.data[map];
    int64_t n_from = x->w->counts[m->from], n_to = x->w->counts[m->to];
    const int64_t *image = x->w->maps[map], *ids = x->w->element_ids[m->from];
    int64_t *rows = x->rows[map] = ARENA_ARRAY(a, int64_t, n_to + 2), *stored = ARENA_ARRAY(a, int64_t, n_from + 1);
    int32_t *list = x->list[map] = ARENA_ARRAY(a, int32_t, n_from + 1);
    for (int64_t i = 0; i < n_from; i++) {
        stored[ids ? ids[i] : i] = i;
        if (image[i] >= 0) rows[image[i] + 2]++; /* one too far: the next loop but one moves them on */
    }
    for (int64_t t = 2; t <= n_to; t++) rows[t] += rows[t - 1];
    for (int64_t k = 0; k < n_from; k++)
        if (image[stored[k]] >= 0) list[rows[image[stored[k]] + 1]++] = (int32_t)stored[k];
    ICE_UNLESS(rows[0] == 0 && rows[n_to] <= n_from);
}

bool audit_world(Arena *a, const HostPlan *plan, int64_t nodes, AuditWorld *out)
{
    const IrModule *m = plan->module;
    EvalWorld *w = NULL;
    if (!are_dims_small(m)) return false;
    for (int64_t n = nodes; n >= LEAST_NODES; n = n > HUB_NODES ? HUB_NODES : n / 2) {
        w = world_of(a, m, n);
        if (!w || is_small(w, m)) break;
    }
    if (!w) return false;
    nonzeros(w, m);
    said_maps(w, m);
    *out = (AuditWorld){m,
                        w,
                        ARENA_ARRAY(a, int64_t *, m->maps.n + 1),
                        ARENA_ARRAY(a, int32_t *, m->maps.n + 1),
                        ARENA_ARRAY(a, bool, m->tensors.n + 1),
                        ARENA_ARRAY(a, void *, m->tensors.n + 1)};
    for (IrId map = 0; map < m->maps.n; map++)
        if (!m->maps.data[map].computed) list_rows(out, a, map);
    return true;
}

/* Where the number of blocks is bounded, kernels get it, their rows and the levels of their leaves as numbers: a few
   rows do for several blocks of several leaves, all of which are merged, and a last one of fewer. */
static int64_t blocks_of(const PlanCount *c, int64_t n)
{
    int64_t leaf = c->max == INT64_MAX ? c->block : (n + FEW_LEAVES) / FEW_LEAVES;
    int64_t levels = c->max == INT64_MAX ? 0 : FEW_LEVELS, rows = leaf << levels,
            blocks = n > 0 ? (n + rows - 1) / rows : 1;
    ICE_UNLESS(leaf > 0 && rows > 0);
    switch (c->kind) {
    case PLAN_BLOCKS: return blocks;
    case PLAN_BLOCK_ROWS: return rows;
    case PLAN_BLOCK_LEVELS: return levels;
    default: return blocks * (1 + levels);
    }
}

int64_t audit_count(const AuditWorld *w, const PlanCount *c)
{
    if (c->kind == PLAN_CONST || c->kind == PLAN_AHEAD) return c->value;
    if (c->kind == PLAN_SPLIT) return 0;
    const IrSpace *space = &w->m->spaces.data[c->space];
    int64_t n = space->has_dim ? w->m->dims.data[space->dim].size : w->w->counts[c->space];
    if (c->kind == PLAN_COUNT) return n;
    return blocks_of(c, n);
}

int64_t audit_elements(const AuditWorld *w, const PlanBuffer *b)
{
    int64_t n;
    if (__builtin_mul_overflow(audit_count(w, &b->rows), b->width, &n)) return INT64_MAX;
    return __builtin_add_overflow(n, b->kind == PLAN_MAP_ROWS, &n) ? INT64_MAX : n;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void put(KirBase t, void *p, int64_t i, int64_t v)
{
    switch (t) {
    case KIR_F32: ((float *)p)[i] = (float)v / 64; break;
    case KIR_F64: ((double *)p)[i] = (double)v / 64; break;
    case KIR_F16: ((uint16_t *)p)[i] = f16_of_float((float)v / 64); break;
    case KIR_BF16: ((uint16_t *)p)[i] = bf16_of_float((float)v / 64); break;
    case KIR_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case KIR_I64: ((int64_t *)p)[i] = v; break;
    default: ((int8_t *)p)[i] = (int8_t)(v & 1); break;
    }
}

/* What is computed once is 0 until it is. */
static void *tensor(Arena *a, AuditWorld *w, const PlanBuffer *b)
{
    const IrTensor *t = &w->m->tensors.data[b->ref];
    int64_t n = audit_elements(w, b);
    bool is_float = b->elem >= KIR_F32;
    Draw d = {b->ref + 1};
    if (!w->wanted[b->ref] || w->tensors[b->ref]) return w->tensors[b->ref];
    void *p = w->tensors[b->ref] = arena_array(a, (size_t)n + 1, kir_base_bytes(b->elem));
    for (int64_t i = 0; i < n && t->kind != IR_HELD; i++)
        put(b->elem, p, i, is_float ? below(&d, 256) - 128 : below(&d, t->bound ? t->bound : 4));
    return p;
}

static void *images(Arena *a, const AuditWorld *w, const PlanBuffer *b)
{
    int64_t n = w->w->counts[w->m->maps.data[b->ref].from];
    int32_t *p = ARENA_ARRAY(a, int32_t, n + 1);
    const int32_t *along = b->kind == PLAN_MAP_ALONG ? w->list[b->along] : NULL;
    for (int64_t i = 0; i < n; i++) p[i] = (int32_t)w->w->maps[b->ref][along ? along[i] : i];
    return p;
}

static void *numbers(Arena *a, const AuditWorld *w, const PlanBuffer *b, const int64_t *from)
{
    int64_t n = audit_elements(w, b);
    void *p = arena_array(a, (size_t)n + 1, kir_base_bytes(b->elem));
    for (int64_t i = 0; i < n; i++) put(b->elem, p, i, from ? from[i] : i);
    return p;
}

void *audit_data(Arena *a, AuditWorld *w, const PlanBuffer *b)
{
    if (audit_elements(w, b) > AUDIT_MOST_ELEMENTS) return NULL;
    switch (b->kind) {
    case PLAN_TENSOR: return tensor(a, w, b);
    case PLAN_MAP_TO:
    case PLAN_MAP_ALONG: return images(a, w, b);
    case PLAN_MAP_ROWS: return w->rows[b->ref];
    case PLAN_MAP_LIST: return w->list[b->ref];
    case PLAN_IDS: return numbers(a, w, b, w->w->element_ids[b->ref]);
    case PLAN_SEED:
    case PLAN_STEP:
    case PLAN_COTANGENT: return numbers(a, w, b, NULL);
    default: return NULL;
    }
}
