/* The same program on a graph of another form: nodes renumbered, edges in another order, another graph in the batch (of one
   node without edges, or of a few). What it computes for an element must be what it computed before the change, known by
   the element's key: bit for bit where no sum over rows lies behind it, else within both bounds. Not compared: what the
   text says to depend on the numbering, the order or the rest of the batch (GNN_BY_..), and values without rows where the
   batch grows. */
#pragma once
#include "tests/unit/programs.h"

typedef enum { CHANGE_NODES, CHANGE_EDGES, CHANGE_BATCH, N_CHANGES } Change;

static inline bool change_is_seen(const Program *p, Change how)
{
    static const unsigned by[N_CHANGES] = {GNN_BY_NODE_ID, GNN_BY_EDGE_ID, GNN_BY_BATCH};
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

static inline ProgramGraph change_graph(Arena *a, const ProgramGraph *p, Change how, GirRng *r)
{
    return how == CHANGE_NODES ? change_nodes(a, p, r) : how == CHANGE_EDGES ? change_edges(a, p, r) : change_batch(a, p, r);
}

/* Which values of f are sums over rows, or follow from such: their bits depend on the order of rows. */
static inline bool *change_sums(Arena *a, const IrFunc *f)
{
    bool *sum = ARENA_ARRAY(a, bool, f->ops.n + 1);
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        sum[v] = op->op == IR_OP_reduce_sum || op->op == IR_OP_reduce_mul;
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

/* Both readings are within the bounds of the module behind the passes, which may round where the first rounds nothing. */
static inline bool change_agrees_behind(Arena *a, const Program *p, const Changed *c, uint32_t result, int64_t at, int64_t was)
{
    const int64_t row[2] = {was, at};
    for (int i = 0; i < 2; i++) {
        const EvalValue *first = c->oracle[i]->results[result];
        EvalValue **second = program_second_oracle(a, p, c->graph[i], c->oracle[i]);
        if (!second || !program_accepts_second(first, second[result], row[i], program_element(first, c->got[i][result], row[i])))
            return false;
    }
    return true;
}

/* NULL, or the first result that the change has changed. */
static inline const char *change_compare(Arena *a, const Program *p, const Changed *c, Change how, Tally *t)
{
    const IrFunc *f = p->plain->funcs.data[0];
    const bool *sums = change_sums(a, f);
    const EvalWorld *w = c->oracle[1]->w, *old = c->oracle[0]->w;
    for (uint32_t i = 0; i < f->results.n; i++) {
        const EvalValue *now = c->oracle[1]->results[i];
        if (how == CHANGE_BATCH && now->type.space == IR_UNIT) continue;
        const int64_t *rows = change_rows(a, p, old, c->graph[0], now->type.space);
        bool exact = !sums[f->results.data[i].value] || !ir_dtype_is_float(now->type.dtype);
        t->exact += exact;
        for (int64_t k = 0; k < now->rows * now->width; k++) {
            int64_t key = program_key(p->plain, w, c->graph[1], now->type.space, k / now->width);
            if (key >= old->counts[now->type.space]) continue;
            int64_t was = rows[key] * now->width + k % now->width;
            if (change_agrees(c, i, k, was, exact) || (!exact && change_agrees_behind(a, p, c, i, k, was))) continue;
            static const char *const names[N_CHANGES] = {"nodes renumbered", "edges reordered", "a graph more"};
            return arena_printf(a, "%s: result %u (%s) element %lld is %.17g and was %.17g, bounds %.3g and %.3g%s", names[how], i,
                                f->results.data[i].name, (long long)k, program_element(now, c->got[1][i], k),
                                program_element(now, c->got[0][i], was), now->err[k], c->oracle[0]->results[i]->err[was],
                                exact ? ", to be the same bits" : "");
        }
    }
    t->changes[how]++;
    return NULL;
}
