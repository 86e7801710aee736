/* Predicted times of steps, which follow the machine's figures; and how far ahead gathered rows are asked for. */
#include "runtime/chain.h"
#include "runtime/cone.h"
#include "runtime/cost.h"
#include "runtime/cpu.h"
#include "tests/unit/check.h"
#include <math.h>

enum { NODES = 8192, EDGES = 120000, ROW = 256, WORK = 64, START_NS = 1500 };
enum { UNIT, NODE, EDGE };
static const RtCost costs[] = {{ROW, WORK, {RT_COUNT_SPACE, EDGE, 0, 0, 0}, NODE},
                               {ROW, 0, {RT_COUNT_SPACE, NODE, 0, 0, 0}, -1}};

/* A step that reads a node's row at each edge in no order, and writes one for each node. */
static double predict(const RtMachine *m, int64_t n_chunks, const RtCone *cone, RtPrediction *p)
{
    const RtModel model = {.n_spaces = 3, .costs = costs};
    const RtProgram program = {.n_steps = 1};
    RtSpaceData counts[3] = {{.count = 1}, {.count = NODES}, {.count = EDGES}};
    const RtGraph graph = {.model = &model, .spaces = counts};
    const RtStep step = {.n_cost = 2};
    RtExecStep bound = {.def = &step, .n_chunks = n_chunks};
    RtExec e = {.model = &model, .program = &program, .graph = &graph, .steps = &bound, .cone = (RtCone *)cone};
    rt_cost_step(&e, 0, m, p);
    return p->ns;
}

/* All levels give 1 byte a ns: each byte costs 1 ns, wherever it lies; a quarter of the table gives half of the rows. */
static void bytes_come_from_their_levels(void)
{
    check_begin();
    RtMachine m = {.threads = 2, .flops = 1e9};
    RtPrediction p;
    for (int l = 0; l < RT_N_LEVELS; l++) m.copy[l] = m.gather[RT_ROW_64][l] = m.gather[RT_ROW_256][l] = 1;
    predict(&m, 8, NULL, &p);
    double gathered = (double)ROW * EDGES, streamed = (double)ROW * NODES;
    check(fabs(p.memory_ns - gathered - streamed) < 1, "%g ns", p.memory_ns);
    m.gather[RT_ROW_256][RT_L2] = 4;
    m.usable[RT_L1] = 0, m.usable[RT_L2] = m.usable[RT_L3] = ROW * NODES / 4;
    predict(&m, 8, NULL, &p);
    check(fabs(p.memory_ns - gathered * (0.5 / 4 + 0.5) - streamed) < 1, "%g ns with half of the rows at hand",
          p.memory_ns);
    m.copy[RT_L3] = 2, m.usable[RT_L3] = 1 << 30;
    predict(&m, 8, NULL, &p);
    check(fabs(p.memory_ns - gathered * (0.5 / 4 + 0.5) - streamed / 2) < 1, "%g ns where all fits a cache",
          p.memory_ns);
    check_end("bytes come from the levels that hold them");
}

/* The longer of both, on as many threads as there are chunks, for the rows that are needed. */
static void steps_follow_the_machine(void)
{
    check_begin();
    RtMachine m;
    RtPrediction p;
    rt_machine_default(2, &m);
    double ns = predict(&m, 8, NULL, &p);
    check(p.memory_ns > p.arithmetic_ns && fabs(ns - START_NS - p.memory_ns) < 1, "%g ns", ns);
    check(fabs(predict(&m, 1, NULL, &p) - START_NS - 2 * (ns - START_NS)) < 1, "one chunk takes two threads");
    RtConeStep left_out = {.share = 0.25};
    const RtCone cone = {.steps = &left_out};
    check(predict(&m, 8, &cone, &p) < 0.3 * ns, "a quarter of the rows takes %g of %g ns", p.ns, ns);
    m.flops = 0.001;
    ns = predict(&m, 8, NULL, &p);
    check(ns > WORK * EDGES / 0.001 && fabs(ns - START_NS - p.arithmetic_ns) < 1, "%g ns of arithmetic", ns);
    check_end("a step's time follows memory, arithmetic, chunks and the rows that are needed");
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
    bytes_come_from_their_levels();
    steps_follow_the_machine();
    return check_done();
}
