/* Orders nodes (see order.h) and predicts what an order costs.

     degree   nodes with many edges first, else as they were: hubs share cache lines and stay in cache
     bfs      breadth first over edges both ways, from the node with the most edges, one component after another
              (Cuthill and McKee, 1969, without their inner sort): neighbours get neighbouring places
   The cost of an order is that of the gathers of a sum over incoming edges: sources in the order of their targets. Each
   costs by how many other rows were read since it was read last (its reuse distance), which decides from which cache it
   comes. Distances are measured on a sample of the nodes, chosen by a hash of the id, and divided by the rate of
   sampling (SHARDS: Waldspurger et al., FAST 2015). Cache sizes are fixed numbers, so that a graph has one order on
   every machine. Never looks at features. */
#include "runtime/order.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
enum {
    ROWS_L2 = 4096,      /* rows of 256 bytes in a megabyte */
    ROWS_L3 = 131072,    /* in 32 megabytes */
    COST_L2 = 1, COST_L3 = 3, COST_MEMORY = 10,
    SAMPLED_NODES = 8192 /* about as many */
};
/* clang-format on */
static const double worth = 0.85;

RtCode rt_order_parse(const char *text, RtOrderMode *mode, RtStatus *st)
{
    static const char *const names[] = {"none", "auto", "degree", "bfs"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, names[i])) {
            *mode = (RtOrderMode)i;
            return RT_OK;
        }
    return rt_fail(st, RT_E_CLI_VALUE, "--reorder", NULL, "found `%.60s`, wanted none, auto, degree or bfs", text);
}

typedef struct Graph { /* in the user's ids */
    int64_t n, n_edges;
    const int64_t *src, *dst;
    int64_t *rows;    /* [n+1] into `sources` */
    int32_t *sources; /* [n_edges] by target, in the user's order */
    int64_t *both;    /* [n+1] into `ends` */
    int32_t *ends;    /* [2 n_edges] other ends of edges in and out */
    RtBlock block;
} Graph;

/* list[offsets[to[i]] ...] takes from[i]; offsets[k] is where row k starts. */
static void fill(int64_t n_edges, const int64_t *to, const int64_t *from, int64_t *at, int32_t *list)
{
    for (int64_t e = 0; e < n_edges; e++) list[at[to[e]]++] = (int32_t)from[e];
}

static void shift_back(int64_t *offsets, int64_t n)
{
    memmove(offsets + 1, offsets, (size_t)n * sizeof *offsets);
    offsets[0] = 0;
}

static RtCode index_graph(Graph *g, RtStatus *st)
{
    size_t n = (size_t)g->n, m = (size_t)g->n_edges;
    int64_t bytes = rt_size_plus(rt_size_plus(16, g->n, 16), g->n_edges, 12);
    RT_TRY(rt_block_alloc(&g->block, bytes, "an order of nodes", st));
    g->rows = g->block.p;
    g->both = g->rows + n + 1;
    g->sources = (int32_t *)(g->both + n + 1);
    g->ends = g->sources + m;
    for (size_t e = 0; e < m; e++) g->rows[g->dst[e] + 1]++, g->both[g->dst[e] + 1]++, g->both[g->src[e] + 1]++;
    for (size_t v = 0; v < n; v++) g->rows[v + 1] += g->rows[v], g->both[v + 1] += g->both[v];
    fill(g->n_edges, g->dst, g->src, g->rows, g->sources);
    shift_back(g->rows, g->n);
    fill(g->n_edges, g->dst, g->src, g->both, g->ends);
    fill(g->n_edges, g->src, g->dst, g->both, g->ends);
    shift_back(g->both, g->n);
    assert(g->rows[g->n] == g->n_edges && g->both[g->n] == 2 * g->n_edges);
    return RT_OK;
}

static int64_t degree(const Graph *g, int64_t v) { return g->both[v + 1] - g->both[v]; }

/* ---- orders ------------------------------------------------------------------------------------------------------ */

/* By falling degree, stable: a counting sort. */
static RtCode order_degree(const Graph *g, int64_t *ids, RtStatus *st)
{
    int64_t most = 0;
    RtBlock block;
    for (int64_t v = 0; v < g->n; v++)
        if (degree(g, v) > most) most = degree(g, v);
    RT_TRY(rt_block_alloc(&block, rt_size_plus(16, most, 8), "an order of nodes", st));
    int64_t *at = block.p; /* [most+2] at[most - degree]: where such nodes go */
    for (int64_t v = 0; v < g->n; v++) at[most - degree(g, v) + 1]++;
    for (int64_t k = 0; k < most; k++) at[k + 1] += at[k];
    for (int64_t v = 0; v < g->n; v++) ids[at[most - degree(g, v)]++] = v;
    assert(at[most] == g->n); /* nodes without edges come last */
    rt_block_free(&block);
    return RT_OK;
}

/* ids is the queue: what was reached and not yet walked from lies in ids[head..tail). */
static RtCode order_bfs(const Graph *g, int64_t *ids, RtStatus *st)
{
    RtBlock block;
    int64_t head = 0, tail = 0;
    RT_TRY(rt_block_alloc(&block, rt_size(g->n, 9), "an order of nodes", st));
    int64_t *starts = block.p;
    char *reached = (char *)(starts + g->n);
    RtCode code = order_degree(g, starts, st);
    for (int64_t i = 0; i < g->n && !code; i++) {
        if (!reached[starts[i]]) ids[tail++] = starts[i], reached[starts[i]] = 1;
        for (; head < tail; head++)
            for (int64_t k = g->both[ids[head]]; k < g->both[ids[head] + 1]; k++) {
                int32_t v = g->ends[k];
                if (!reached[v]) ids[tail++] = v, reached[v] = 1;
            }
    }
    assert(code || tail == g->n); /* every node was reached, once */
    rt_block_free(&block);
    return code;
}

/* ---- what an order costs ----------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27, x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

typedef struct Reuse { /* of sampled nodes */
    int64_t *last;     /* [n] the reading at which a node was read last, counted from 1 among sampled ones; 0: never */
    int64_t *tree;     /* [n_readings+1] Fenwick: 1 at each node's last reading */
    int64_t n_readings, now;
    double rate, cost;
} Reuse;

static void add(Reuse *r, int64_t at, int64_t by)
{
    for (; at <= r->n_readings; at += at & -at) r->tree[at] += by;
}

static int64_t sum_to(const Reuse *r, int64_t at)
{
    int64_t sum = 0;
    for (; at > 0; at -= at & -at) sum += r->tree[at];
    return sum;
}

static void read_node(Reuse *r, int64_t v)
{
    int64_t before = r->last[v];
    r->now++;
    assert(r->now <= r->n_readings);
    double distance = before ? (double)(sum_to(r, r->now - 1) - sum_to(r, before)) / r->rate : 1e300;
    r->cost += distance < ROWS_L2 ? COST_L2 : distance < ROWS_L3 ? COST_L3 : COST_MEMORY;
    if (before) add(r, before, -1);
    add(r, r->now, 1);
    r->last[v] = r->now;
}

static bool is_sampled(int64_t v, int64_t n)
{
    return n <= SAMPLED_NODES || mix((uint64_t)v) % (uint64_t)n < SAMPLED_NODES;
}

/* ids: NULL for the user's order. */
static RtCode predict(const Graph *g, const int64_t *ids, double *cost, RtStatus *st)
{
    Reuse r = {.rate = g->n <= SAMPLED_NODES ? 1 : (double)SAMPLED_NODES / (double)g->n};
    RtBlock block;
    for (int64_t e = 0; e < g->n_edges; e++) r.n_readings += is_sampled(g->src[e], g->n);
    RT_TRY(rt_block_alloc(&block, rt_size_plus(rt_size_plus(16, g->n, 8), r.n_readings, 8), "an order of nodes", st));
    r.last = block.p;
    r.tree = r.last + g->n;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t v = ids ? ids[i] : i;
        for (int64_t k = g->rows[v]; k < g->rows[v + 1]; k++)
            if (is_sampled(g->sources[k], g->n)) read_node(&r, g->sources[k]);
    }
    assert(r.now == r.n_readings); /* an order has each node once, so each edge is read */
    *cost = r.cost;
    rt_block_free(&block);
    return RT_OK;
}

/* ---- whole ------------------------------------------------------------------------------------------------------- */

typedef RtCode MakeOrder(const Graph *g, int64_t *ids, RtStatus *st);
static const struct {
    const char *name;
    RtOrderMode mode;
    MakeOrder *make;
} orders[] = {{"degree", RT_ORDER_DEGREE, order_degree}, {"bfs", RT_ORDER_BFS, order_bfs}};

/* Takes the i-th order where it was asked for, or is the cheapest so far. */
static RtCode consider(const Graph *g, size_t i, RtOrderMode mode, double plain, RtOrder *best, RtStatus *st)
{
    RtOrder order = {.name = orders[i].name};
    double cost = 0;
    if (mode != RT_ORDER_AUTO && mode != orders[i].mode) return RT_OK;
    RT_TRY(rt_block_alloc(&order.block, rt_size(g->n, 8), "an order of nodes", st));
    order.ids = order.block.p;
    RtCode code = orders[i].make(g, order.ids, st);
    if (!code) code = predict(g, order.ids, &cost, st);
    order.cost = plain > 0 ? cost / plain : 1;
    bool better = mode != RT_ORDER_AUTO || order.cost < (best->ids ? best->cost : worth);
    RtOrder *loser = code || !better ? &order : best;
    rt_block_free(&loser->block);
    if (!code && better) *best = order;
    return code;
}

RtCode rt_order_make(RtOrderMode mode, int64_t n_nodes, int64_t n_edges, const int64_t *src, const int64_t *dst,
                     RtOrder *order, RtStatus *st)
{
    Graph g = {.n = n_nodes, .n_edges = n_edges, .src = src, .dst = dst};
    double plain = 0;
    *order = (RtOrder){.name = "none", .cost = 1};
    if (mode == RT_ORDER_NONE || n_nodes < 2) return RT_OK;
    RtCode code = index_graph(&g, st);
    if (!code) code = predict(&g, NULL, &plain, st);
    for (size_t i = 0; i < sizeof orders / sizeof *orders && !code; i++) code = consider(&g, i, mode, plain, order, st);
    rt_block_free(&g.block);
    if (code) rt_order_free(order);
    return code;
}

void rt_order_free(RtOrder *order)
{
    if (!order) return;
    rt_block_free(&order->block);
    *order = (RtOrder){.name = "none", .cost = 1};
}
