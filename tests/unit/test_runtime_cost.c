/* The cost model: expected misses against a simulated cache (least recently used), and what follows for a step: a
   larger machine never costs, a table that fits a cache is read from there. */
#include "runtime/cost.h"
#include "runtime/cpu.h"
#include "runtime/random.h"
#include "tests/unit/check.h"
#include <math.h>
#include <string.h>

enum { NODES = 8192, EDGES = 120000, ROW = 256 };
enum { UNIT, NODE, EDGE };
static const RtSpace spaces[] = {{0, 0, 0}, {0, 0, 0}, {0, 1, 0}};
static const RtMapDef maps[] = {{0, EDGE, NODE, 0, 0, -1, 0, 0}, {0, EDGE, NODE, 0, 1, -1, 1, 0}};
static const RtCost costs[] = {{ROW, 64, {RT_COUNT_SPACE, EDGE, 0, 0, 0}, 0, NODE},
                               {ROW, 0, {RT_COUNT_SPACE, NODE, 0, 0, 0}, -1, -1}};
static const RtStep step = {.n_cost = 2};
static const RtCall call = {.cut = 0};

typedef struct World {
    RtModel model;
    RtGraph graph;
    RtSpaceData counts[3];
    RtMapData data[2];
    int32_t *to;
} World;

/* Sources drawn with weights (v + 1)^-skew, ids shuffled; skew 0: uniform; below 0: within -skew rows of a place that
   moves on. */
static void draw(World *w, double skew)
{
    static double sum[NODES + 1];
    for (int v = 0; v < NODES; v++) sum[v + 1] = sum[v] + pow(v + 1, skew < 0 ? 0 : -skew);
    w->to = malloc(EDGES * sizeof *w->to);
    for (int e = 0; e < EDGES; e++) {
        double x = rt_random_uniform(7, (uint64_t)e, 1, 0, 0) * sum[NODES];
        int lo = 0, hi = NODES;
        while (lo < hi) {
            int mid = (lo + hi) / 2;
            if (sum[mid + 1] <= x) lo = mid + 1;
            else hi = mid;
        }
        w->to[e] = (int32_t)(((uint64_t)lo * 4801) % NODES);
        if (skew < 0) w->to[e] = (int32_t)(((int64_t)e * NODES / EDGES + (int64_t)(x / sum[NODES] * -skew)) % NODES);
    }
    w->model = (RtModel){
        .n_spaces = 3, .n_maps = 2, .spaces = spaces, .maps = maps, .costs = costs, .steps = &step, .calls = &call};
    w->counts[UNIT].count = 1;
    w->counts[NODE].count = NODES;
    w->counts[EDGE].count = EDGES;
    w->data[0].to = w->to;
    w->graph = (RtGraph){.model = &w->model, .spaces = w->counts, .maps = w->data};
}

/* Misses of a cache of `rows` rows that drops what was not read for longest. */
static double simulate(const World *w, int rows)
{
    static int next[NODES + 1], prev[NODES + 1];
    static bool held[NODES];
    int n = 0, misses = 0, end = NODES; /* a ring through `end`; next[end]: the last read */
    memset(held, 0, sizeof held);
    next[end] = prev[end] = end;
    for (int e = 0; e < EDGES; e++) {
        int v = w->to[e];
        if (held[v]) {
            next[prev[v]] = next[v];
            prev[next[v]] = prev[v];
        } else {
            misses++;
            held[v] = true;
            if (n++ == rows) {
                int old = prev[end];
                held[old] = false;
                prev[end] = prev[old];
                next[prev[old]] = end;
                n--;
            }
        }
        next[v] = next[end];
        prev[v] = end;
        prev[next[end]] = v;
        next[end] = v;
    }
    return misses;
}

static void misses_are_those_of_a_cache(void)
{
    static const double skews[] = {0, 0.6, 0.9, 1.1, -40, -600};
    static const double shares[] = {0.01, 0.05, 0.2, 0.5, 0.9};
    check_begin();
    for (int s = 0; s < 6; s++) {
        World w = {0};
        draw(&w, skews[s]);
        RtMachine m;
        RtCostModel *c;
        rt_machine_default(1, &m);
        CHECK(!rt_cost_create(&w.graph, &m, &c, NULL));
        for (int k = 0; k < 5; k++) {
            double rows = shares[k] * NODES, got = 0, want = simulate(&w, (int)rows);
            CHECK(!rt_cost_misses(c, 0, 1, rows, &got, NULL));
            check(fabs(got - want) <= 0.02 * EDGES, "skew %g, %g of the rows: %g misses, simulated %g", skews[s],
                  shares[k], got / EDGES, want / EDGES);
        }
        rt_cost_free(c);
        free(w.to);
    }
    check_end("expected misses are a simulated cache's within 2 %");
}

static double predict(const World *w, const RtMachine *m, int ahead, RtPrediction *p)
{
    RtCostModel *c;
    CHECK(!rt_cost_create(&w->graph, m, &c, NULL));
    CHECK(!rt_cost_step(c, &step, ahead, p, NULL));
    rt_cost_free(c);
    return p->ns;
}

static void steps_follow_the_machine(void)
{
    check_begin();
    World w = {0};
    draw(&w, 0.8);
    RtMachine small, large;
    RtPrediction p, q;
    rt_machine_default(2, &small);
    large = small;
    small.usable[RT_L1] = 16 << 10, small.usable[RT_L2] = 64 << 10, small.usable[RT_L3] = 256 << 10;
    large.usable[RT_L3] = 1 << 30;
    double slow = predict(&w, &small, 0, &p), fast = predict(&w, &large, 0, &q);
    check(slow > fast, "%g ns with a small cache, %g with a large one", slow, fast);
    CHECK(p.bytes[RT_MEMORY] > 0 && q.bytes[RT_MEMORY] == 0);
    double gathered = 0;
    for (int l = 0; l < RT_N_LEVELS; l++) gathered += p.bytes[l];
    check(fabs(gathered - (double)ROW * (EDGES + NODES)) < 1, "%g bytes", gathered);
    check(predict(&w, &small, 32, &q) < slow, "prefetching does not help");
    small.flops = 0.001;
    CHECK(predict(&w, &small, 32, &q) > 64.0 * EDGES / 0.001);
    free(w.to);
    check_end("a step's time follows caches, prefetching and arithmetic");
}

/* What is read in order is there in time, what the second cache holds is not waited for, and what is asked for so far
   ahead that the first cache cannot hold it costs. */
static void waits_are_hidden(void)
{
    check_begin();
    RtMachine small, held;
    RtPrediction p, q;
    rt_machine_default(2, &small);
    held = small;
    small.usable[RT_L1] = 16 << 10, small.usable[RT_L2] = 64 << 10, small.usable[RT_L3] = 256 << 10;
    held.usable[RT_L2] = 1 << 30;
    World w = {0}, ordered = {0};
    draw(&w, 0);
    draw(&ordered, -1);
    predict(&w, &small, 0, &p);
    predict(&ordered, &small, 0, &q);
    check(q.latency_ns < 0.02 * p.latency_ns && p.latency_ns > 0, "waits %g ns in order, %g without", q.latency_ns,
          p.latency_ns);
    predict(&w, &small, 64, &q);
    check(q.latency_ns < p.latency_ns / 4, "waits %g ns far ahead, %g without", q.latency_ns, p.latency_ns);
    double near = predict(&w, &held, 16, &p), far = predict(&w, &held, 512, &q);
    check(p.latency_ns == 0 && far > 1.05 * near, "%g ns far ahead, %g near, waits %g", far, near, p.latency_ns);
    free(w.to), free(ordered.to);
    check_end("waits are hidden by streams, the second cache and asking ahead, but not too far ahead");
}

/* What the plan says for a first cache of 48 KiB is taken in proportion to the one that is there. */
static void distances_follow_the_first_cache(void)
{
    check_begin();
    double cache = rt_cpu_cache_bytes(1);
    int64_t n = rt_cpu_ahead(64);
    check(fabs((double)n * (48 << 10) - 64 * cache) <= 48 << 10, "%lld elements for 64 with %g bytes", (long long)n,
          cache);
    check(rt_cpu_ahead(1) == 16 && rt_cpu_ahead(1 << 20) == 128, "%lld and %lld", (long long)rt_cpu_ahead(1),
          (long long)rt_cpu_ahead(1 << 20));
    RtGraph none = {0};
    check(rt_count_value(&none, &(RtCount){RT_COUNT_AHEAD, 0, 64, 0, 0}, RT_OWNED) == n,
          "a step's own count says otherwise");
    check_end("rows are asked for ahead as far as the first cache reaches");
}

int main(void)
{
    distances_follow_the_first_cache();
    misses_are_those_of_a_cache();
    steps_follow_the_machine();
    waits_are_hidden();
    return check_done();
}
