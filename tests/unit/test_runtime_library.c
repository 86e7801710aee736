/* The library form on the hand-made model: forward and vjp against plain loops, two threads on one
   model, the caller's parallel-for, named errors. */
#include "runtime/gnnrt.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_model.h"
#include <pthread.h>

enum { N = 37, E = 211 };
typedef struct World {
    int64_t src[E], dst[E];
    float x[N][HM_F], W[HM_F][HM_C], cot[N][HM_C];
    float out[N][HM_C], dx[N][HM_F], dW[HM_F][HM_C];
} World;

/* out = A (x W); dx = A^T cot W^T; dW = x^T A^T cot, all in double. */
static void expect(World *w)
{
    double h[N][HM_C] = {{0}}, out[N][HM_C] = {{0}}, g[N][HM_C] = {{0}};
    for (int v = 0; v < N; v++)
        for (int c = 0; c < HM_C; c++)
            for (int f = 0; f < HM_F; f++) h[v][c] += (double)w->x[v][f] * (double)w->W[f][c];
    for (int e = 0; e < E; e++)
        for (int c = 0; c < HM_C; c++) {
            out[w->dst[e]][c] += h[w->src[e]][c];
            g[w->src[e]][c] += (double)w->cot[w->dst[e]][c];
        }
    for (int v = 0; v < N; v++) {
        for (int c = 0; c < HM_C; c++) w->out[v][c] = (float)out[v][c];
        for (int f = 0; f < HM_F; f++)
            for (int c = 0; c < HM_C; c++) {
                w->dx[v][f] += (float)(g[v][c] * (double)w->W[f][c]);
                w->dW[f][c] += (float)((double)w->x[v][f] * g[v][c]);
            }
    }
}

static void fill(World *w, GnnrtModel *model)
{
    unsigned s = 1;
    float *x = &w->x[0][0], *cot = &w->cot[0][0];
    memset(w, 0, sizeof *w);
    for (int e = 0; e < E; e++) {
        w->src[e] = (s = s * 1664525 + 1013904223) >> 16 & 1023;
        w->dst[e] = (s = s * 1664525 + 1013904223) >> 16 & 1023;
        w->src[e] %= N;
        w->dst[e] %= N;
    }
    for (int i = 0; i < N * HM_F; i++) x[i] = (float)((s = s * 1664525 + 1013904223) >> 8) * 0x1p-24f;
    for (int i = 0; i < N * HM_C; i++) cot[i] = (float)((s = s * 1664525 + 1013904223) >> 8) * 0x1p-24f;
    gnnrt_param_get(model, 0, w->W, NULL);
    expect(w);
}

static double worst(const void *a, const void *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)((const float *)a)[i] - (double)((const float *)b)[i]));
    return most;
}

static void serial_for(void *user, int64_t n, void (*task)(void *, int64_t), void *arg)
{
    ++*(int *)user;
    for (int64_t i = n; i-- > 0;) task(arg, i);
}

static bool run_once(World *w, GnnrtContext *c)
{
    float out[N][HM_C], dx[N][HM_F], dW[HM_F][HM_C];
    const void *inputs[] = {w->x}, *cotangents[] = {w->cot};
    void *results[] = {out}, *gradients[] = {dx, dW};
    if (gnnrt_forward(c, inputs, results, NULL) || gnnrt_vjp(c, inputs, cotangents, gradients, NULL)) return false;
    return worst(out, w->out, N * HM_C) < 1e-4 && worst(dx, w->dx, N * HM_F) < 1e-4 &&
           worst(dW, w->dW, HM_F * HM_C) < 1e-3;
}

typedef struct Job {
    World *w;
    GnnrtModel *model;
    GnnrtGraph *graph;
    bool ok;
} Job;

static void *serve(void *arg)
{
    Job *j = arg;
    GnnrtContext *c;
    j->ok = !gnnrt_context_create(j->model, j->graph, 1, NULL, 0, &c, NULL);
    for (int i = 0; j->ok && i < 50; i++) j->ok = run_once(j->w, c);
    gnnrt_context_free(c);
    return NULL;
}

static void test_calls(World *w, GnnrtModel *model, GnnrtGraph *graph)
{
    GnnrtContext *c;
    GnnrtStatus st;
    int calls = 0;
    check_begin();
    CHECK(gnnrt_n_inputs(model) == 1 && !strcmp(gnnrt_input(model, 0).name, "x"));
    CHECK(gnnrt_n_params(model) == 1 && gnnrt_param(model, 0).width == HM_F * HM_C);
    CHECK(gnnrt_n_gradients(model) == 2 && !gnnrt_gradient(model, 2).name);
    check(!gnnrt_context_create(model, graph, 1, NULL, 0, &c, &st), "%s", st.message);
    CHECK(run_once(w, c));
    check(!gnnrt_context_set_parallel(c, serial_for, &calls, 3, &st), "%s", st.message);
    CHECK(run_once(w, c) && calls > 0);
    gnnrt_context_free(c);
    int64_t bytes = gnnrt_workspace_bytes(model, graph, 1);
    void *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    check(!gnnrt_context_create(model, graph, 1, memory, (size_t)bytes, &c, &st), "%s", st.message);
    CHECK(run_once(w, c));
    float zero[HM_F * HM_C] = {0}, out[N][HM_C];
    CHECK(!gnnrt_context_bind_param(c, 0, zero, &st) && !run_once(w, c));
    CHECK(!gnnrt_forward(c, (const void *[]){w->x}, (void *[]){out}, &st) && out[3][1] == 0);
    gnnrt_context_free(c);
    CHECK(gnnrt_context_create(model, graph, 1, memory, (size_t)bytes - 64, &c, &st) == GNNRT_BAD_ARGUMENT && !c);
    free(memory);
    check_end("runtime_library_calls");
}

/* What has no rows needs no memory. */
static void test_empty(GnnrtModel *model)
{
    GnnrtGraph *graph;
    GnnrtContext *c;
    GnnrtStatus st;
    float dW[HM_F * HM_C];
    memset(dW, 255, sizeof dW);
    check_begin();
    check(!gnnrt_graph_create(model, &(GnnrtGraphDesc){0}, &graph, &st), "%s", st.message);
    check(!gnnrt_context_create(model, graph, 1, NULL, 0, &c, &st), "%s", st.message);
    check(!gnnrt_forward(c, (const void *[]){NULL}, (void *[]){NULL}, &st), "%s", st.message);
    check(!gnnrt_vjp(c, (const void *[]){NULL}, (const void *[]){NULL}, (void *[]){NULL, dW}, &st), "%s", st.message);
    CHECK(dW[0] == 0 && dW[HM_F * HM_C - 1] == 0);
    gnnrt_context_free(c);
    gnnrt_graph_free(graph);
    check_end("runtime_library_empty");
}

static void test_threads(World *w, GnnrtModel *model, GnnrtGraph *graph)
{
    pthread_t threads[2];
    Job jobs[2];
    check_begin();
    for (int i = 0; i < 2; i++) {
        jobs[i] = (Job){w, model, graph, false};
        pthread_create(&threads[i], NULL, serve, &jobs[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(jobs[i].ok);
    }
    check_end("runtime_library_two_threads");
}

static void test_errors(World *w, GnnrtModel *model)
{
    GnnrtGraph *graph;
    GnnrtModel *other;
    GnnrtStatus st;
    check_begin();
    w->dst[5] = N;
    GnnrtGraphDesc d = {.n_src = N, .n_dst = N, .n_edges = E, .src = w->src, .dst = w->dst};
    CHECK(gnnrt_graph_create(model, &d, &graph, &st) == GNNRT_ID_OUT_OF_RANGE && !graph);
    CHECK(strstr(st.message, "edge 5 is 37") != NULL);
    CHECK(gnnrt_model_load(model, "no such file", &st) == GNNRT_CANNOT_OPEN);
    CHECK(gnnrt_model_load_memory(model, "xxxx", 4, &st) == GNNRT_WEIGHTS_TRUNCATED);
    RtModel old = hm_model;
    old.abi_version = 0;
    CHECK(gnnrt_model_create(&old, 0, GNNRT_BEST_CPU, &other, &st) == GNNRT_ABI_MISMATCH && !other);
    CHECK(!strcmp(gnnrt_code_name(GNNRT_ABI_MISMATCH), "MODEL_ABI"));
    check_end("runtime_library_errors");
}

/* Each pointer of each call left out in turn. */
static void test_null(World *w, GnnrtModel *model, GnnrtGraph *graph)
{
    GnnrtStatus st;
    GnnrtModel *m = model;
    GnnrtGraph *g = graph;
    GnnrtContext *c, *without;
    float out[N][HM_C], dx[N][HM_F], dW[HM_F][HM_C];
    const void *inputs[] = {w->x}, *cotangents[] = {w->cot};
    void *results[] = {out}, *gradients[] = {dx, dW};
    GnnrtGraphDesc d = {.n_src = N, .n_dst = N, .n_edges = E, .src = w->src, .dst = w->dst};
    check_begin();
    CHECK(!gnnrt_context_create(model, graph, 1, NULL, 0, &c, &st));
    const struct {
        int32_t code;
        const char *what;
    } calls[] = {
#define REFUSED(what, call)                                                                                            \
    {(st.message[0] = 0, (call) == GNNRT_BAD_ARGUMENT && strstr(st.message, what) ? GNNRT_BAD_ARGUMENT : 0), #call}
        REFUSED("tables", gnnrt_model_create(NULL, 0, GNNRT_BEST_CPU, &m, &st)),
        REFUSED("handle", gnnrt_model_create(&hm_model, 0, GNNRT_BEST_CPU, NULL, &st)),
        REFUSED("model", gnnrt_model_load(NULL, "x", &st)),
        REFUSED("path", gnnrt_model_load(model, NULL, &st)),
        REFUSED("model", gnnrt_model_load_memory(NULL, "xxxx", 4, &st)),
        REFUSED("bytes", gnnrt_model_load_memory(model, NULL, 4, &st)),
        REFUSED("model", gnnrt_model_save(NULL, "x", &st)),
        REFUSED("path", gnnrt_model_save(model, NULL, &st)),
        REFUSED("model", gnnrt_param_set(NULL, 0, w->W, &st)),
        REFUSED("data", gnnrt_param_set(model, 0, NULL, &st)),
        REFUSED("model", gnnrt_param_get(NULL, 0, w->W, &st)),
        REFUSED("data", gnnrt_param_get(model, 0, NULL, &st)),
        REFUSED("model", gnnrt_graph_create(NULL, &d, &g, &st)),
        REFUSED("desc", gnnrt_graph_create(model, NULL, &g, &st)),
        REFUSED("handle", gnnrt_graph_create(model, &d, NULL, &st)),
        REFUSED("model", gnnrt_context_create(NULL, graph, 0, NULL, 0, &without, &st)),
        REFUSED("graph", gnnrt_context_create(model, NULL, 0, NULL, 0, &without, &st)),
        REFUSED("handle", gnnrt_context_create(model, graph, 0, NULL, 0, NULL, &st)),
        REFUSED("context", gnnrt_context_bind_param(NULL, 0, w->W, &st)),
        REFUSED("model", gnnrt_param_read(NULL, graph, 0, NULL, w->W, &st)),
        REFUSED("graph", gnnrt_param_read(model, NULL, 0, NULL, w->W, &st)),
        REFUSED("data", gnnrt_param_read(model, graph, 0, NULL, NULL, &st)),
        REFUSED("context", gnnrt_context_set_parallel(NULL, NULL, NULL, 1, &st)),
        REFUSED("n_threads", gnnrt_context_set_parallel(c, serial_for, NULL, 0, &st)),
        REFUSED("n_threads", gnnrt_context_set_parallel(c, serial_for, NULL, INT32_MAX, &st)),
        REFUSED("context", gnnrt_forward(NULL, inputs, results, &st)),
        REFUSED("inputs", gnnrt_forward(c, NULL, results, &st)),
        REFUSED("results", gnnrt_forward(c, inputs, NULL, &st)),
        REFUSED("x", gnnrt_forward(c, (const void *[]){NULL}, results, &st)),
        REFUSED("buffer", gnnrt_forward(c, inputs, (void *[]){NULL}, &st)),
        REFUSED("context", gnnrt_vjp(NULL, inputs, cotangents, gradients, &st)),
        REFUSED("inputs", gnnrt_vjp(c, NULL, cotangents, gradients, &st)),
        REFUSED("cotangents", gnnrt_vjp(c, inputs, NULL, gradients, &st)),
        REFUSED("cotangent", gnnrt_vjp(c, inputs, (const void *[]){NULL}, gradients, &st)),
        REFUSED("gradients", gnnrt_vjp(c, inputs, cotangents, NULL, &st)),
        REFUSED("buffer", gnnrt_vjp(c, inputs, cotangents, (void *[]){NULL, dW}, &st)),
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        check(calls[i].code == GNNRT_BAD_ARGUMENT, "%s", calls[i].what);
    CHECK(!m && !g && !without); /* failures leave no handles */
    CHECK(!gnnrt_n_inputs(NULL) && !gnnrt_n_params(NULL) && !gnnrt_n_results(NULL) && !gnnrt_n_gradients(NULL));
    CHECK(!gnnrt_input(NULL, 0).name && !gnnrt_param(NULL, 0).name && !gnnrt_result(NULL, 0).name &&
          !gnnrt_gradient(NULL, 0).name);
    CHECK(!gnnrt_manifest(NULL) && gnnrt_graph_count(NULL, 0) == -1);
    CHECK(gnnrt_workspace_bytes(NULL, graph, 0) == -1 && gnnrt_workspace_bytes(model, NULL, 0) == -1);
    gnnrt_context_set_random(NULL, 0, 0);
    CHECK(run_once(w, c));
    gnnrt_context_free(c);
    check_end("runtime_library_null");
}

/* Numbers that no call can mean, each alone; what is of another model; places that cannot be written. */
static void test_numbers(World *w, GnnrtModel *model, GnnrtGraph *graph)
{
    GnnrtStatus st;
    GnnrtModel *other;
    GnnrtGraph *g = graph;
    GnnrtContext *c;
    RtModel tables = hm_model;
    char memory[192];
    const GnnrtGraphDesc good = {.n_src = N, .n_dst = N, .n_edges = E, .src = w->src, .dst = w->dst};
    GnnrtGraphDesc bad[18];
    int n = 0;
    const int64_t none[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 8, (int64_t)1 << 31};
    check_begin();
    for (int i = 0; i < 5; i++) {
        bad[n] = good, bad[n].n_src = bad[n].n_dst = none[i], n++;
        bad[n] = good, bad[n].n_edges = none[i], n++;
    }
    bad[n] = good, bad[n++].n_graphs = -1;
    bad[n] = good, bad[n++].n_lists = -1;
    bad[n] = good, bad[n++].n_lists = 1;
    bad[n] = good, bad[n++].n_counts = -1;
    bad[n] = good, bad[n++].n_counts = 1;
    bad[n] = good, bad[n++].n_src = N + 1;
    bad[n] = good, bad[n++].src = NULL;
    bad[n] = good, bad[n++].dst = NULL;
    for (int i = 0; i < n; i++)
        check(gnnrt_graph_create(model, &bad[i], &g, &st) && !g && st.code && st.message[0], "graph %d is taken", i);
    for (int32_t i = -1; i < 2; i += 2) {
        CHECK(gnnrt_param_set(model, i, w->W, &st) == GNNRT_BAD_ARGUMENT &&
              gnnrt_param_get(model, i, w->W, &st) == GNNRT_BAD_ARGUMENT &&
              gnnrt_param_read(model, graph, i, NULL, w->W, &st) == GNNRT_BAD_ARGUMENT);
        CHECK(!gnnrt_input(model, i).name && !gnnrt_param(model, i).name && !gnnrt_result(model, i).name &&
              !gnnrt_gradient(model, 3 * i).name);
        CHECK(gnnrt_graph_count(graph, i * 1000) == -1 && !strcmp(gnnrt_code_name(i * 1000), "UNKNOWN"));
    }
    CHECK(gnnrt_model_create(&hm_model, 0, 17, &other, &st) && !other &&
          gnnrt_model_create(&hm_model, 0, -2, &other, &st) && !other);
    CHECK(gnnrt_model_load_memory(model, NULL, 0, &st) == GNNRT_WEIGHTS_TRUNCATED && gnnrt_model_load(model, "", &st) &&
          gnnrt_model_load(model, "/", &st));
    CHECK(gnnrt_model_save(model, "", &st) == GNNRT_CANNOT_WRITE &&
          gnnrt_model_save(model, "/", &st) == GNNRT_CANNOT_WRITE);
    CHECK(!gnnrt_model_create(&tables, 0, GNNRT_BEST_CPU, &other, &st));
    CHECK(gnnrt_context_create(other, graph, 0, NULL, 0, &c, &st) == GNNRT_BAD_ARGUMENT && !c &&
          gnnrt_workspace_bytes(other, graph, 0) == -1 &&
          gnnrt_param_read(other, graph, 0, NULL, w->W, &st) == GNNRT_BAD_ARGUMENT);
    gnnrt_model_free(other);
    char *aligned = memory + (64 - (uintptr_t)memory % 64);
    CHECK(gnnrt_context_create(model, graph, 0, aligned + 1, SIZE_MAX, &c, &st) == GNNRT_BAD_ARGUMENT && !c);
    CHECK(!gnnrt_context_create(model, graph, 0, NULL, 0, &c, &st));
    CHECK(gnnrt_context_bind_param(c, 1, w->W, &st) == GNNRT_BAD_ARGUMENT &&
          gnnrt_context_bind_param(c, -1, w->W, &st) == GNNRT_BAD_ARGUMENT);
    CHECK(gnnrt_vjp(c, (const void *[]){w->x}, (const void *[]){w->cot}, (void *[]){w->x, w->W}, &st) ==
          GNNRT_BAD_ARGUMENT);
    gnnrt_context_free(c);
    check_end("runtime_library_numbers");
}

int main(void)
{
    GnnrtModel *model;
    GnnrtGraph *graph;
    static World w;
    if (gnnrt_model_create(&hm_model, 1, GNNRT_BEST_CPU, &model, NULL)) return 1;
    fill(&w, model);
    GnnrtGraphDesc d = {.n_src = N, .n_dst = N, .n_edges = E, .src = w.src, .dst = w.dst};
    if (gnnrt_graph_create(model, &d, &graph, NULL)) return 1;
    test_calls(&w, model, graph);
    test_empty(model);
    test_threads(&w, model, graph);
    test_null(&w, model, graph);
    test_numbers(&w, model, graph);
    test_errors(&w, model);
    gnnrt_graph_free(graph);
    gnnrt_model_free(model);
    return check_done();
}
