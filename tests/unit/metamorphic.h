/* The same program on a graph of another form: nodes renumbered, edges in another order, another graph in the batch (of
   one node without edges, or of a few), a node without edges more in the last graph; and the program with a wider
   feature dim, behind whose columns stand more. What it computes for an element must be what it computed before the
   change, known by the element's key: bit for bit where no sum over rows lies behind it, else within both bounds. Not
   compared: what the text says to depend on the numbering, the order or the rest of the batch (GNN_BY_..), and values
   without rows where the batch grows. Which results a further node and a wider dim leave as they are, growth.h finds
   from the ops; the others are exempt, and counted by the op that feels the change. */
#pragma once
#include "tests/unit/growth.h"
#include "tests/unit/programs.h"

typedef enum { CHANGE_NODES, CHANGE_EDGES, CHANGE_BATCH, CHANGE_NODE_MORE, CHANGE_WIDTH, N_CHANGES } Change;

static inline bool change_is_seen(const Program *p, Change how)
{
    static const unsigned by[N_CHANGES] = {GNN_BY_NODE_ID, GNN_BY_EDGE_ID, GNN_BY_BATCH, 0, 0};
    return (p->by & by[how]) != 0;
}

static inline int64_t *change_identity(Arena *a, int64_t n)
{
    int64_t *v = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t i = 0; i < n; i++) v[i] = i;
    return v;
}

static inline void change_swap(int64_t *v, int64_t i, int64_t j)
{
    int64_t t = v[i];
    v[i] = v[j], v[j] = t;
}

/* Nodes change places within their graph, since a batch's nodes stand by graph. */
static inline ProgramGraph change_nodes(Arena *a, const ProgramGraph *p, GirRng *r)
{
    ProgramGraph q = *p;
    int64_t n = p->g.n_dst, *key = change_identity(a, n), *place = ARENA_ARRAY(a, int64_t, n + 1),
            *src = ARENA_ARRAY(a, int64_t, p->g.n_edges + 1), *dst = ARENA_ARRAY(a, int64_t, p->g.n_edges + 1);
    for (int64_t k = 0; k < 4 * n; k++) {
        int64_t i = gir_below(r, (uint32_t)n), j = gir_below(r, (uint32_t)n);
        if (p->graph_of[i] == p->graph_of[j]) change_swap(key, i, j);
    }
    for (int64_t i = 0; i < n; i++) place[key[i]] = i;
    for (int64_t e = 0; e < p->g.n_edges; e++) src[e] = place[p->g.src[e]], dst[e] = place[p->g.dst[e]];
    q.g.src = src, q.g.dst = dst, q.node_key = key;
    return q;
}

static inline ProgramGraph change_edges(Arena *a, const ProgramGraph *p, GirRng *r)
{
    ProgramGraph q = *p;
    int64_t n = p->g.n_edges, *key = change_identity(a, n), *src = ARENA_ARRAY(a, int64_t, n + 1),
            *dst = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t i = n; i-- > 1;) change_swap(key, i, gir_below(r, (uint32_t)i + 1));
    for (int64_t e = 0; e < n; e++) src[e] = p->g.src[key[e]], dst[e] = p->g.dst[key[e]];
    q.g.src = src, q.g.dst = dst, q.edge_key = key;
    return q;
}

/* One graph more, behind the others. */
static inline ProgramGraph change_batch(Arena *a, const ProgramGraph *p, GirRng *r)
{
    ProgramGraph q = *p;
    int64_t n = p->g.n_dst, more = 1 + gir_below(r, 2) * gir_below(r, 5), m = p->g.n_edges,
            n_new = more > 1 ? gir_below(r, 9) : 0, *src = ARENA_ARRAY(a, int64_t, m + n_new + 1),
            *dst = ARENA_ARRAY(a, int64_t, m + n_new + 1), *graph_of = ARENA_ARRAY(a, int64_t, n + more + 1);
    memcpy(src, p->g.src, (size_t)m * sizeof *src);
    memcpy(dst, p->g.dst, (size_t)m * sizeof *dst);
    memcpy(graph_of, p->graph_of, (size_t)n * sizeof *graph_of);
    for (int64_t e = m; e < m + n_new; e++)
        src[e] = n + gir_below(r, (uint32_t)more), dst[e] = n + gir_below(r, (uint32_t)more);
    for (int64_t v = n; v < n + more; v++) graph_of[v] = p->n_graphs;
    q.g = (EvalGraph){n + more, n + more, m + n_new, src, dst};
    q.graph_of = graph_of, q.n_graphs = p->n_graphs + 1;
    return q;
}

/* A node without edges behind the others, in the last graph that has one; blank: all its inputs are 0. */
static inline ProgramGraph change_node_more(Arena *a, const ProgramGraph *p, bool blank)
{
    ProgramGraph q = *p;
    int64_t n = p->g.n_dst, *graph_of = ARENA_ARRAY(a, int64_t, n + 2);
    memcpy(graph_of, p->graph_of, (size_t)n * sizeof *graph_of);
    graph_of[n] = graph_of[n - 1];
    q.g.n_src = q.g.n_dst = n + 1, q.graph_of = graph_of;
    q.blank = n, q.all_blank = blank;
    return q;
}

static inline ProgramGraph change_graph(Arena *a, const ProgramGraph *p, Change how, const Growth *growth, GirRng *r)
{
    switch (how) {
    case CHANGE_NODES: return change_nodes(a, p, r);
    case CHANGE_EDGES: return change_edges(a, p, r);
    case CHANGE_BATCH: return change_batch(a, p, r);
    case CHANGE_NODE_MORE: return change_node_more(a, p, growth->pads == PADS_ZERO);
    default: return *p;
    }
}

/* Whether a node more is one of zeros or of any values: what leaves more results as they are, or either. */
static inline Growth change_growth_of_nodes(Arena *a, const Program *p)
{
    Growth g = growth_of_nodes(a, p->plain);
    uint32_t any = growth_judge(&g, PADS_ANY), zero = growth_judge(&g, PADS_ZERO);
    if (any == zero && p->seed % 2) growth_judge(&g, PADS_ANY);
    return g;
}

/* The same program with a wider dim; m NULL: no dim leaves a result as it is. */
static inline const char *change_width(Arena *a, const Program *p, bool held, Program *wide, Growth *g)
{
    Diags *d = ARENA_NEW(a, Diags);
    d->arena = a;
    *wide = *p;
    wide->m = growth_choose(a, p->m, p->plain, p->n_widths, program_hash(p->seed ^ 0x3d1), g);
    return wide->m ? program_plan(a, wide, held, d) : NULL;
}

/* What the wider program is given: old elements as they were; zeros or copies in pads, or whatever stands in that
   argument. */
static inline const char *change_oracle_wide(Arena *a, const Program *wide, const Growth *g, const Oracle *before,
                                             Oracle *o)
{
    const char *why = NULL;
    const IrFunc *f = wide->plain->funcs.data[0];
    o->w = eval_world(a, wide->plain, &wide->graph.g, wide->graph.graph_of, wide->graph.n_graphs, &why);
    if (!o->w) return why;
    o->args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    for (uint32_t i = 0; i < f->args.n; i++) {
        const EvalValue *was = before->args[i];
        EvalValue *v = o->args[i] = eval_value_new(a, wide->plain, o->w, f->args.data[i].type);
        if (!v) return "an argument is too large";
        bool zero = g->pads == PADS_ZERO || program_is_weight(&f->args.data[i]);
        for (int64_t k = 0; k < v->rows * v->width; k++) {
            bool pad;
            int64_t row = k / v->width, at = growth_place(g, v->type.dims, v->type.n_dims, k % v->width, &pad);
            int64_t any = (int64_t)(program_hash(wide->seed * 977 + (uint64_t)k) % (uint64_t)(was->rows * was->width));
            v->v[k] = !pad || (g->pads == PADS_COPY && !zero) ? was->v[row * was->width + at] : zero ? 0 : was->v[any];
        }
    }
    o->results = eval_func(a, wide->plain, o->w, f, o->args, &why);
    return o->results ? NULL : why;
}

/* Which values of f are sums over rows, or follow from such: their bits depend on the order of rows. all: over dims
   too. */
static inline bool *change_sums(Arena *a, const IrFunc *f, bool all)
{
    bool *sum = ARENA_ARRAY(a, bool, f->ops.n + 1);
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        sum[v] = op->op == IR_OP_reduce_sum || op->op == IR_OP_reduce_mul ||
                 (all && (op->op == IR_OP_sum_dims || op->op == IR_OP_contract));
        for (uint32_t k = 0; k < op->n_args; k++) {
            bool rows = f->ops.data[op->args[k]].type.space != IR_UNIT;
            sum[v] |= sum[op->args[k]] || (op->op == IR_OP_contract && op->type.space == IR_UNIT && rows);
        }
    }
    return sum;
}

/* Row of the unchanged graph with each key; the changed graph's further elements have keys beyond. */
static inline int64_t *change_rows(Arena *a, const Program *p, const EvalWorld *w, const ProgramGraph *g, IrId space)
{
    int64_t n = w->counts[space], *row = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t i = 0; i < n; i++) row[program_key(p->plain, w, g, space, i)] = i;
    return row;
}

typedef struct Changed { /* a program's readings before and after */
    const Program *p[2];
    const Growth *growth; /* NULL: the change leaves all results as they are */
    const ProgramGraph *graph[2];
    const Oracle *oracle[2];
    void *const *got[2];
} Changed;

static inline bool change_agrees(const Changed *c, uint32_t result, int64_t at, int64_t was, bool exact)
{
    const EvalValue *now = c->oracle[1]->results[result], *before = c->oracle[0]->results[result];
    double x = program_element(now, c->got[1][result], at), y = program_element(before, c->got[0][result], was);
    double huge = now->type.dtype == IR_F32 ? 1e37 : 1e306;
    if (now->undecided[at] || before->undecided[was]) return true;
    if (x == y || (x != x && y != y)) return true;
    return !exact && (fabs(x - y) <= now->err[at] + before->err[was] || fabs(x) > huge || fabs(y) > huge);
}

/* Both readings are within the bounds of the module behind the passes, which may round where the first rounds
   nothing. */
static inline bool change_agrees_behind(Arena *a, const Changed *c, uint32_t result, int64_t at, int64_t was)
{
    const int64_t row[2] = {was, at};
    for (int i = 0; i < 2; i++) {
        const EvalValue *first = c->oracle[i]->results[result];
        EvalValue **second = program_second_oracle(a, c->p[i], c->graph[i], c->oracle[i]);
        if (!second ||
            !program_accepts_second(first, second[result], row[i], program_element(first, c->got[i][result], row[i])))
            return false;
    }
    return true;
}

/* Whether result i is to be compared; counts it, or why it is not. */
static inline bool change_keeps(const Changed *c, uint32_t i, Change how, Tally *t)
{
    if (!c->growth) return how != CHANGE_BATCH || c->oracle[1]->results[i]->type.space != IR_UNIT;
    IrId v = c->p[0]->plain->funcs.data[0]->results.data[i].value;
    const IrOp *ops = c->p[0]->plain->funcs.data[0]->ops.data;
    bool same = c->growth->facts[v] & GROWN_SAME, touched = c->growth->facts[v] & GROWN_TOUCHED;
    if (!same) t->exempt[how][ops[c->growth->cause[v]].op]++;
    t->kept[how] += same && touched;
    t->kept_gradients[how] += same && touched &&
                              !strncmp(c->p[0]->plain->funcs.data[0]->results.data[i].name, "grad.", 5);
    return same;
}

/* The place before of element k of result i; -1: it is new. */
static inline int64_t change_place(const Changed *c, const int64_t *rows, uint32_t i, int64_t k)
{
    const EvalValue *now = c->oracle[1]->results[i], *before = c->oracle[0]->results[i];
    int64_t key = program_key(c->p[1]->plain, c->oracle[1]->w, c->graph[1], now->type.space, k / now->width),
            column = k % now->width;
    bool pad = false;
    if (c->growth) column = growth_place(c->growth, now->type.dims, now->type.n_dims, column, &pad);
    return pad || key >= c->oracle[0]->w->counts[now->type.space] ? -1 : rows[key] * before->width + column;
}

/* Pads that overflow make zeros that are multiplied by them no zeros. */
static inline bool change_overflows(const Changed *c, uint32_t i, int64_t k, int64_t was)
{
    return c->growth && !isfinite(c->oracle[1]->results[i]->v[k]) && isfinite(c->oracle[0]->results[i]->v[was]);
}

/* NULL, or the first result that the change has changed. */
static inline const char *change_compare(Arena *a, const Changed *c, Change how, Tally *t)
{
    static const char *const names[N_CHANGES] = {"nodes renumbered", "edges reordered", "a graph more", "a node more",
                                                 "a wider dim"};
    const IrFunc *f = c->p[0]->plain->funcs.data[0];
    const bool *sums = change_sums(a, f, how == CHANGE_WIDTH);
    for (uint32_t i = 0; i < f->results.n; i++) {
        const EvalValue *now = c->oracle[1]->results[i], *before = c->oracle[0]->results[i];
        if (!change_keeps(c, i, how, t)) continue;
        const int64_t *rows = change_rows(a, c->p[0], c->oracle[0]->w, c->graph[0], now->type.space);
        bool exact = !sums[f->results.data[i].value] || !ir_dtype_is_float(now->type.dtype);
        t->exact += exact;
        for (int64_t k = 0; k < now->rows * now->width; k++) {
            int64_t was = change_place(c, rows, i, k);
            if (was < 0 || change_agrees(c, i, k, was, exact) || (!exact && change_agrees_behind(a, c, i, k, was)))
                continue;
            if (change_overflows(c, i, k, was)) {
                t->not_finite[how]++;
                continue;
            }
            return arena_printf(a, "%s: result %u (%s) element %lld is %.17g and was %.17g, bounds %.3g and %.3g%s",
                                names[how], i, f->results.data[i].name, (long long)k,
                                program_element(now, c->got[1][i], k), program_element(now, c->got[0][i], was),
                                now->err[k], before->err[was], exact ? ", to be the same bits" : "");
        }
    }
    t->changes[how]++;
    return NULL;
}
