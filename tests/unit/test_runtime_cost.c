/* Predicted times of steps, which follow the machine's figures; and how far ahead gathered rows are asked for. */
#include "runtime/chain.h"
#include "runtime/cone.h"
#include "runtime/cost.h"
#include "runtime/cpu.h"
#include "runtime/cuda_cost.h"
#include "tests/unit/check.h"
#include <math.h>
#include <string.h>

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

/* All levels give 1 byte a ns: each byte costs 1 ns, wherever it lies; a quarter of the table gives half of the
   rows. */
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

/* ---- on a GPU ---- */

static const RtDeviceRates rates = {.last_bytes = 1000,
                                    .dram_bytes = 4,
                                    .cache_bytes = 8,
                                    .line_loads = 2,
                                    .issues = 10,
                                    .step_ns = 3,
                                    .load_ns = 5,
                                    .kernel_ns = 7};

static void is_predicted(RtCudaWork w, double ns, const char *bound)
{
    RtCudaPrediction p = rt_cuda_predict(&rates, &w);
    check(fabs(p.ns - ns) < 1e-9 && !strcmp(p.bound, bound), "%g ns by %s, wanted %g by %s", p.ns, p.bound, ns, bound);
}

/* Each roof in turn; of 1,200 bytes the last cache holds 600, and so half of the others are asked for again. */
static void gpus_have_five_roofs(void)
{
    check_begin();
    is_predicted((RtCudaWork){.launches = 2, .memory_bytes = 400, .cache_bytes = 400}, 2 * 7 + 100, "memory");
    is_predicted((RtCudaWork){.launches = 1, .memory_bytes = 1200, .cache_bytes = 1600}, 7 + 300 + 200 / 4, "memory");
    is_predicted((RtCudaWork){.launches = 1, .memory_bytes = 400, .cache_bytes = 1600}, 7 + 200, "cache");
    is_predicted((RtCudaWork){.launches = 1, .cache_bytes = 1600, .lines = 600}, 7 + 300, "lines");
    is_predicted((RtCudaWork){.launches = 1, .lines = 600, .issued = 4000}, 7 + 400, "issue");
    is_predicted((RtCudaWork){.launches = 1, .issued = 4000, .longest = 80, .longest_loads = 2, .longest_misses = 60},
                 7 + 600, "path");
    is_predicted((RtCudaWork){.launches = 1, .longest = 2}, 7 + 6, "launch");
    RtCudaCounts c = {.launches = 1,
                      .distinct_sectors = 2,
                      .block_sectors = 3,
                      .lines = 4,
                      .wavefronts = 5,
                      .issued = 6,
                      .longest = 7,
                      .longest_requests = 8,
                      .longest_misses = 3};
    RtCudaWork w = rt_cuda_work_counted(&c);
    CHECK(w.launches == 1 && w.memory_bytes == 64 && w.cache_bytes == 96 && w.lines == 9 && w.issued == 6 &&
          w.longest == 7 && w.longest_loads == 8 && w.longest_misses == 3);
    check_end("a kernel's time on a GPU is that of the slowest of five");
}

/* A row of a node is 256 bytes: 8 sectors, 2 lines, a load beside that of its index at each edge. Edges go to 3 of
   8,192 nodes: the longest of these has 2,000, which is more than one team takes alone. */
static void plans_follow_sizes(void)
{
    static int64_t rows[NODES + 1];
    static const RtMapDef maps[] = {{.from = EDGE, .to = NODE}};
    static const RtDeviceKernel kernels[] = {{.binding = RT_BIND_THREADS, .lanes = 16, .warps = 16}};
    static const RtSplitDef splits[] = {{.walks = 2}};
    check_begin();
    const RtModel model = {.n_spaces = 3, .costs = costs, .maps = maps, .device_kernels = kernels, .splits = splits};
    const RtProgram program = {.n_steps = 1};
    RtSpaceData counts[3] = {{.count = 1}, {.count = NODES}, {.count = EDGES}};
    RtMapData data[] = {{.rows = rows}};
    const RtGraph graph = {.model = &model, .spaces = counts, .maps = data};
    const RtStep step = {.n_cost = 2};
    RtCall call = {.cut = 0, .split = 0};
    RtExecStep bound = {.def = &step, .extent = NODES, .call = &call};
    RtExec e = {.model = &model, .program = &program, .graph = &graph, .steps = &bound};
    for (int v = 0; v <= NODES; v++) rows[v] = v < 1 ? 0 : v < 2 ? 2000 : v < 3 ? 2100 : EDGES / NODES * v + 2100;
    RtCudaWork w = rt_cuda_work_planned(&e, 0);
    CHECK(w.launches == 1 + 1 + 2);
    CHECK(w.memory_bytes == 2.0 * NODES * ROW && w.cache_bytes == (double)(EDGES + NODES) * ROW);
    CHECK(w.lines == 2.0 * (EDGES + NODES));
    double mean = (double)rows[NODES] / NODES, loads = 2.0 * EDGES + NODES;
    check(fabs(w.longest_misses - loads / NODES * RT_CUDA_LONG / mean) < 1e-6, "%g loads", w.longest_misses);
    call.split = -1;
    w = rt_cuda_work_planned(&e, 0);
    check(w.launches == 1 && fabs(w.longest_misses - loads / NODES * 2000 / mean) < 1e-6, "%g loads", w.longest_misses);
    call.cut = -1;
    w = rt_cuda_work_planned(&e, 0);
    check(fabs(w.longest_misses - loads / NODES) < 1e-6, "%g loads", w.longest_misses);
    check_end("a plan for a GPU follows sizes and the longest row");
}

int main(void)
{
    gpus_have_five_roofs();
    plans_follow_sizes();
    distances_follow_the_first_cache();
    bytes_come_from_their_levels();
    steps_follow_the_machine();
    return check_done();
}
