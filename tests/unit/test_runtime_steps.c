/* How the runtime runs steps: alone or strip by strip, with rows that threads share, with rows that are left out, and
   all of that together, for one graph and then for another. Every bit is that of plain loops, and what should happen
   does. */
#include "runtime/chain.h"
#include "runtime/cone.h"
#include "runtime/split.h"
#include "tests/unit/check.h"
#include <stdlib.h>
#include <string.h>

enum { NODES = 1000, EDGES = 6000, STRIP = 96, LEAST = 300 };
enum { UNIT, NODE, EDGE };
enum { T_X, T_W, T_MASK, N_TENSORS };
enum { B_X, B_W, B_ROWS, B_LIST, B_SUM, B_OUT, B_STATE, N_BUFFERS };
enum { K_SUM, K_ADD, K_PARTS, N_KERNELS };
/* clang-format off */
#define SPACE(s) {.kind = RT_COUNT_SPACE, .space = (s)}
#define BUF(b) {.is_buffer = 1, .buffer = (b)}
#define PART(v) {.count = {.kind = RT_COUNT_SPLIT, .value = (v)}}
/* clang-format on */

static float block_sum(const RtArg *a, int64_t from, int64_t to)
{
    const float *w = a[0].p;
    const int32_t *list = a[2].p;
    float s = 0;
    for (int64_t k = from; k < to; k++) s += w[list[k]];
    return s;
}

/* sum[v] = sum over row v of w, by blocks */
static void sum_rows(const RtArg *a, int64_t lo, int64_t hi)
{
    const int64_t *rows = a[1].p;
    for (int64_t v = lo; v < hi; v++) {
        float s = 0;
        for (int64_t k = rows[v]; k < rows[v + 1]; k += RT_SPLIT_BLOCK)
            s += block_sum(a, k, k + RT_SPLIT_BLOCK < rows[v + 1] ? k + RT_SPLIT_BLOCK : rows[v + 1]);
        ((float *)a[3].p)[v] = s;
    }
}

/* The same for parts of one row: blocks, or at the end their sums. */
static void sum_parts(const RtArg *a, int64_t v, int64_t end)
{
    const int64_t *rows = a[1].p;
    float *state = (float *)a[8].p + a[7].i, s = 0;
    (void)end;
    for (int64_t k = a[5].i; k < a[6].i && a[4].i == 0; k += RT_SPLIT_BLOCK)
        state[(k - rows[v]) / RT_SPLIT_BLOCK] = block_sum(a, k,
                                                          k + RT_SPLIT_BLOCK < a[6].i ? k + RT_SPLIT_BLOCK : a[6].i);
    if (a[4].i != RT_SPLIT_LAST) return;
    for (int64_t i = 0; rows[v] + i * RT_SPLIT_BLOCK < rows[v + 1]; i++) s += state[i];
    ((float *)a[3].p)[v] = s;
}

/* out[v] = 2 sum[v] + x[v] */
static void add_rows(const RtArg *a, int64_t lo, int64_t hi)
{
    for (int64_t v = lo; v < hi; v++)
        ((float *)a[2].p)[v] = 2 * ((const float *)a[0].p)[v] + ((const float *)a[1].p)[v];
}

/* ---- the model: sum_rows and add_rows ---------------------------------------------------------------------------- */

static const char names[] = "forward";
static const RtSpace spaces[] = {{.is_edge = 0}, {.is_edge = 0}, {.is_edge = 1}};
static const RtMapDef maps[] = {{0, EDGE, NODE, 0, 0, -1, 1, 0, 0}};
static const RtTensorDef tensors[] = {{.kind = RT_INPUT, .space = NODE, .dtype = RT_F32, .width = 1},
                                      {.kind = RT_INPUT, .space = EDGE, .dtype = RT_F32, .width = 1},
                                      {.kind = RT_INPUT, .space = NODE, .dtype = RT_BOOL, .width = 1}};
/* clang-format off */
static const RtStepArg args[] = {BUF(B_W), BUF(B_ROWS), BUF(B_LIST), BUF(B_SUM), /**/
                                 BUF(B_SUM), BUF(B_X), BUF(B_OUT), /**/
                                 BUF(B_W), BUF(B_ROWS), BUF(B_LIST), BUF(B_SUM), PART(RT_SPLIT_PHASE),
                                     PART(RT_SPLIT_FROM),
                                 PART(RT_SPLIT_TO), PART(RT_SPLIT_FIRST), BUF(B_STATE)};
/* clang-format on */
static const RtCall calls[] = {
    {.kernel = K_SUM, .n_args = 4, .grain = 1, .cut = 0, .rows = 0, .walk = -1, .split = 0, .extent = SPACE(NODE)},
    {.kernel = K_ADD,
     .first_arg = 4,
     .n_args = 3,
     .grain = 1,
     .cut = -1,
     .rows = -1,
     .walk = -1,
     .split = -1,
     .extent = SPACE(NODE)}};
static const RtSplitDef splits[] = {{.walks = 1, .kernel = K_PARTS, .first_arg = 7, .n_args = 9}};
static const RtSet sets[] = {{RT_SET_MASK, NODE, T_MASK, -1, -1}};
static const RtSlot slots[] = {{4, 0, 1, SPACE(NODE)}};
static const RtChainDef chains[] = {{0, 2, STRIP, 1}};
static const RtResultDef results[] = {{.space = NODE, .dtype = RT_F32, .width = 1, .tensor = -1}};
static const RtKernelFn kernels[RT_N_VARIANTS * N_KERNELS] = {sum_rows, add_rows, sum_parts};

typedef struct Model {
    RtModel rt;
    RtBuffer buffers[N_BUFFERS];
    RtStep steps[2];
    RtProgram program;
} Model;

static void make_model(Model *m, bool chained)
{
    const RtBuffer buffers[] = {
        {.kind = RT_BUF_TENSOR, .ref = T_X, .elem = RT_K_F32, .width = 1, .rows = SPACE(NODE), .writer = -1},
        {.kind = RT_BUF_TENSOR, .ref = T_W, .elem = RT_K_F32, .width = 1, .rows = SPACE(EDGE), .writer = -1},
        {.kind = RT_BUF_MAP_ROWS, .elem = RT_K_I64, .width = 1, .rows = SPACE(NODE), .writer = -1},
        {.kind = RT_BUF_MAP_LIST, .elem = RT_K_I32, .width = 1, .rows = SPACE(EDGE), .writer = -1},
        {.kind = chained ? RT_BUF_STRIP : RT_BUF_ARENA, .elem = RT_K_F32, .width = 1, .rows = SPACE(NODE), .writer = 0},
        {.kind = RT_BUF_RESULT, .elem = RT_K_F32, .width = 1, .rows = SPACE(NODE), .writer = -1},
        {.kind = RT_BUF_STATE, .elem = RT_K_F32, .width = 1, .rows = {.kind = RT_COUNT_SPLIT}, .writer = -1}};
    const RtStep steps[] = {{.kind = RT_STEP_KERNEL, .part = 0}, {.kind = RT_STEP_KERNEL, .part = 1}};
    memcpy(m->buffers, buffers, sizeof buffers);
    memcpy(m->steps, steps, sizeof steps);
    m->program = (RtProgram){
        .n_buffers = N_BUFFERS, .n_slots = 1, .n_steps = 2, .n_results = 1, .n_sets = 1, .n_chains = chained};
    m->rt = (RtModel){.abi_version = RT_ABI_VERSION,
                      .n_spaces = 3,
                      .n_maps = 1,
                      .n_tensors = N_TENSORS,
                      .n_programs = 1,
                      .n_kernels = N_KERNELS,
                      .strings = names,
                      .spaces = spaces,
                      .maps = maps,
                      .tensors = tensors,
                      .programs = &m->program,
                      .buffers = m->buffers,
                      .slots = slots,
                      .steps = m->steps,
                      .calls = calls,
                      .splits = splits,
                      .chains = chains,
                      .step_args = args,
                      .sets = sets,
                      .results = results,
                      .kernels = kernels};
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

typedef struct World {
    RtGraph graph;
    RtSpaceData counts[3];
    RtMapData map;
    int64_t rows[NODES + 1];
    int32_t to[EDGES], list[EDGES];
    float x[NODES], w[EDGES];
    uint8_t mask[NODES];
} World;

/* One row in three is needed, and among them one of two long rows: hub and hub + 1. */
static void fill_world(World *w, const RtModel *m, int64_t n, int64_t n_edges, int64_t hub)
{
    int64_t at = 0;
    for (int64_t v = 0; v < n; v++) {
        int64_t length = v == hub ? 1700 : v == hub + 1 ? 900 : (n_edges - 2600) * (v % 5) / (2 * n);
        w->rows[v] = at;
        for (int64_t k = 0; k < length; k++, at++) w->to[at] = (int32_t)v, w->list[at] = (int32_t)((at * 7) % n_edges);
        w->mask[v] = v % 3 == hub % 3;
        w->x[v] = (float)(v * 37 % 101) / 64;
    }
    w->rows[n] = at;
    for (int64_t e = 0; e < n_edges; e++) w->w[e] = (float)(e * 29 % 97 - 48) / 7;
    w->map = (RtMapData){w->to, w->rows, w->list};
    w->counts[UNIT].count = 1;
    w->counts[NODE].count = n;
    w->counts[EDGE].count = n_edges;
    w->graph = (RtGraph){.model = m, .spaces = w->counts, .maps = &w->map};
}

typedef struct Way {
    bool chained, left_out, shared;
    int threads;
} Way;

static void check_result(const RtExec *e, World *w, const Way *way)
{
    static float want[NODES], sum[NODES];
    int64_t n = w->counts[NODE].count;
    sum_rows((RtArg[]){{.p = w->w}, {.p = w->rows}, {.p = w->list}, {.p = sum}}, 0, n);
    for (int64_t v = 0; v < n && way->left_out; v++) sum[v] = w->mask[v] ? sum[v] : 0;
    add_rows((RtArg[]){{.p = sum}, {.p = w->x}, {.p = want}}, 0, n);
    for (int64_t v = 0; v < n; v++) {
        const float *a = e->results[0];
        check(!memcmp(&a[v], &want[v], 4), "row %lld is %g, wanted %g", (long long)v, (double)a[v], (double)want[v]);
    }
    const RtExecStep *x = &e->steps[0];
    check((x->chain != NULL) == way->chained && (x->cone != NULL) == way->left_out && (x->split != NULL) == way->shared,
          "chain %d, rows left out %d, shared %d", x->chain != NULL, x->cone != NULL, x->split != NULL);
    int64_t shared = x->split ? rt_split_count(x->split) : 0;
    check(shared == (!way->shared ? 0 : way->left_out ? 1 : 2), "%lld rows are shared", (long long)shared);
}

/* On one graph, and then as batches are run: on another with fewer rows, whose long rows are elsewhere. */
static void test_way(const Way *way)
{
    static World first, second;
    Model m;
    RtPool *pool = NULL;
    RtExec *e = NULL;
    RtStatus st = {0};
    make_model(&m, way->chained);
    fill_world(&first, &m.rt, NODES, EDGES, 500);
    fill_world(&second, &m.rt, 700, 5000, 97);
    RtGraph graph = first.graph;
    CHECK(!rt_pool_create(way->threads, &pool, &st));
    RtExecOptions o = {
        .pool = pool, .split = way->shared ? LEAST : -1, .cone = way->left_out ? RT_CONE_ON : RT_CONE_OFF};
    if (check(!rt_exec_create(&m.rt, 0, &graph, &o, &e, &st) && !rt_exec_own_results(e, &st), "%s", st.message)) {
        World *const both[] = {&first, &second, &first};
        for (int i = 0; i < 3; i++) {
            graph = both[i]->graph;
            e->tensors[T_X] = both[i]->x, e->tensors[T_W] = both[i]->w, e->tensors[T_MASK] = both[i]->mask;
            if (i && !check(!rt_exec_move(e, &st), "%s", st.message)) break;
            if (!check(!rt_exec_bind(e, &st), "%s", st.message)) break;
            for (int again = 0; again < 2; again++) {
                memset(e->own_results.p, 0xff, e->own_results.bytes);
                rt_exec_run(e, 0, 0);
                check_result(e, both[i], way);
            }
        }
    }
    rt_exec_free(e);
    rt_pool_free(pool);
}

static void test_ways(void)
{
    for (int k = 0; k < 8; k++) {
        Way way = {.chained = k & 1, .left_out = k & 2, .shared = k & 4};
        check_begin();
        for (way.threads = 1; way.threads <= 3; way.threads++) test_way(&way);
        check_end(k == 0   ? "runtime_steps: alone"
                  : k == 1 ? "runtime_steps: a chain"
                  : k == 2 ? "runtime_steps: rows are left out"
                  : k == 3 ? "runtime_steps: a chain leaves rows out"
                  : k == 4 ? "runtime_steps: threads share rows"
                  : k == 5 ? "runtime_steps: threads share rows of a chain"
                  : k == 6 ? "runtime_steps: threads share rows where others are left out"
                           : "runtime_steps: threads share rows of a chain that leaves rows out");
    }
}

/* ---- rows that are only read ---------------------------------------------------------------------------------- */

/* Rows behind those that are owned have memory; steps compute none of them. */
static void test_read_rows(void)
{
    static World w;
    enum { READ = 40 };
    static const float kept = -1;
    check_begin();
    for (int chained = 0; chained < 2; chained++) {
        Model m;
        RtStatus st = {0};
        RtExec *e = NULL;
        make_model(&m, chained);
        fill_world(&w, &m.rt, NODES, EDGES, 500);
        w.counts[NODE].only_read = READ;
        if (check(!rt_exec_create(&m.rt, 0, &w.graph, &(RtExecOptions){.cone = RT_CONE_OFF}, &e, &st) &&
                      !rt_exec_own_results(e, &st),
                  "%s", st.message)) {
            CHECK(e->steps[0].extent == NODES - READ && e->steps[1].extent == NODES - READ);
            CHECK(e->arena_bytes >= NODES * 4);
            e->tensors[T_X] = w.x, e->tensors[T_W] = w.w, e->tensors[T_MASK] = w.mask;
            for (int64_t v = 0; v < NODES; v++) ((float *)e->results[0])[v] = kept;
            CHECK(!rt_exec_bind(e, &st));
            rt_exec_run(e, 0, 0);
            const float *out = e->results[0];
            CHECK(out[NODES - READ - 1] != kept);
            for (int64_t v = NODES - READ; v < NODES; v++) CHECK(out[v] == kept);
        }
        rt_exec_free(e);
    }
    w.counts[NODE].only_read = 0;
    check_end("runtime_steps: rows that are only read are not computed");
}

/* Rows that a step leaves out are 0 from run to run only in memory that nobody else has between runs. */
static void test_rooms(void)
{
    static Model m;
    static World w;
    RtPack place;
    RtStatus st = {0};
    check_begin();
    make_model(&m, false);
    fill_world(&w, &m.rt, NODES, EDGES, 500);
    for (int written = 0; written < 2; written++) {
        m.buffers[B_SUM].writer = written ? 0 : -1;
        CHECK(rt_exec_slots(&m.rt, &m.program, &w.graph, NULL, &place, &st) == RT_OK);
        CHECK(place.used == (written ? 0 : 4 * NODES));
    }
    check_end("steps: a value of which a step leaves rows out lies in the memory of no result");
}

int main(void)
{
    test_ways();
    test_rooms();
    test_read_rows();
    return check_done();
}
