/* Two compiled models in one C99 program, served from two threads.

   usage: serve GCN.safetensors SAGE.safetensors DATA [OUT]     OUT.gcn and OUT.sage get the scores as raw floats

   Model and graph do not change and are shared; each thread has a context of its own per model. See build.sh for how
   the libraries are made. */
#include "cora.h"
#include "libgcn.h"
#include "libsage.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 2 };

/* Fails to compile if a library was built for other data. */
typedef char
    gcn_fits[(int)GCN_INPUT_X_WIDTH == (int)CORA_FEATURES && (int)GCN_RESULT_OUT_WIDTH == (int)CORA_CLASSES ? 1 : -1];
typedef char sage_fits[(int)SAGE_INPUT_X_WIDTH == (int)CORA_FEATURES && (int)SAGE_RESULT_OUT_WIDTH == (int)CORA_CLASSES
                           ? 1
                           : -1];

typedef struct Server { /* shared, read only while threads run */
    const Cora *data;
    GcnModel *gcn;
    GcnGraph *gcn_graph;
    SageModel *sage;
    SageGraph *sage_graph;
} Server;

typedef struct Request { /* one thread's */
    const Server *server;
    float *gcn, *sage; /* [n_nodes][CORA_CLASSES] */
    int failed;
} Request;

/* ---- once, at the start ---- */

static int open_gcn(Server *s, const char *weights)
{
    GcnStatus status;
    GcnGraphDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.n_src = desc.n_dst = s->data->n_nodes;
    desc.n_edges = s->data->n_edges;
    desc.src = s->data->src;
    desc.dst = s->data->dst;
    if (!gcn_model_create(gcn_tables(), 0, GCN_BEST_CPU, &s->gcn, &status) &&
        !gcn_model_load(s->gcn, weights, &status) && !gcn_graph_create(s->gcn, &desc, &s->gcn_graph, &status))
        return 0;
    fprintf(stderr, "gcn: %s: %s\n", gcn_code_name(status.code), status.message);
    return -1;
}

static int open_sage(Server *s, const char *weights)
{
    SageStatus status;
    SageGraphDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.n_src = desc.n_dst = s->data->n_nodes;
    desc.n_edges = s->data->n_edges;
    desc.src = s->data->src;
    desc.dst = s->data->dst;
    if (!sage_model_create(sage_tables(), 0, SAGE_BEST_CPU, &s->sage, &status) &&
        !sage_model_load(s->sage, weights, &status) && !sage_graph_create(s->sage, &desc, &s->sage_graph, &status))
        return 0;
    fprintf(stderr, "sage: %s: %s\n", sage_code_name(status.code), status.message);
    return -1;
}

/* ---- per request ---- */

static int run_gcn(const Server *s, float *scores)
{
    GcnContext *context = NULL;
    GcnStatus status;
    const void *inputs[GCN_N_INPUTS];
    void *results[GCN_N_RESULTS];
    inputs[GCN_INPUT_X] = s->data->x;
    results[GCN_RESULT_OUT] = scores;
    int32_t code = gcn_context_create(s->gcn, s->gcn_graph, 0, NULL, 0, &context, &status);
    if (!code) code = gcn_forward(context, inputs, results, &status);
    if (code) fprintf(stderr, "gcn: %s: %s\n", gcn_code_name(code), status.message);
    gcn_context_free(context);
    return code != 0;
}

static int run_sage(const Server *s, float *scores)
{
    SageContext *context = NULL;
    SageStatus status;
    const void *inputs[SAGE_N_INPUTS];
    void *results[SAGE_N_RESULTS];
    inputs[SAGE_INPUT_X] = s->data->x;
    results[SAGE_RESULT_OUT] = scores;
    int32_t code = sage_context_create(s->sage, s->sage_graph, 0, NULL, 0, &context, &status);
    if (!code) code = sage_forward(context, inputs, results, &status);
    if (code) fprintf(stderr, "sage: %s: %s\n", sage_code_name(code), status.message);
    sage_context_free(context);
    return code != 0;
}

static void *serve(void *arg)
{
    Request *r = (Request *)arg;
    size_t n = (size_t)r->server->data->n_nodes * CORA_CLASSES;
    r->gcn = (float *)malloc(n * sizeof *r->gcn);
    r->sage = (float *)malloc(n * sizeof *r->sage);
    r->failed = !r->gcn || !r->sage || run_gcn(r->server, r->gcn) || run_sage(r->server, r->sage);
    return NULL;
}

/* ---- what came out ---- */

static int best_class(const float *scores)
{
    int best = 0, k;
    for (k = 1; k < CORA_CLASSES; k++)
        if (scores[k] > scores[best]) best = k;
    return best;
}

static void report(const char *name, const Cora *c, const float *scores)
{
    int64_t v, hits = 0, n = 0;
    for (v = 0; v < c->n_nodes; v++) {
        n += c->test[v];
        hits += c->test[v] && best_class(scores + v * CORA_CLASSES) == c->y[v];
    }
    printf("%s: accuracy %.4f on %ld test nodes; classes of nodes 0 to 4:", name, (double)hits / (double)n, (long)n);
    for (v = 0; v < 5 && v < c->n_nodes; v++) printf(" %d", best_class(scores + v * CORA_CLASSES));
    printf("\n");
}

static int write_scores(const char *out, const char *name, const float *scores, size_t n)
{
    char path[1024];
    FILE *f;
    snprintf(path, sizeof path, "%s.%s", out, name);
    f = fopen(path, "wb");
    int ok = f && fwrite(scores, sizeof *scores, n, f) == n;
    if (f && fclose(f)) ok = 0;
    if (!ok) fprintf(stderr, "cannot write %s\n", path);
    return !ok;
}

static int finish(const Cora *c, const Request *r, const char *out)
{
    size_t n = (size_t)c->n_nodes * CORA_CLASSES;
    int t, failed = 0;
    for (t = 0; t < N_THREADS; t++) failed |= r[t].failed;
    if (failed) return 1;
    for (t = 1; t < N_THREADS; t++)
        if (memcmp(r[0].gcn, r[t].gcn, n * sizeof(float)) || memcmp(r[0].sage, r[t].sage, n * sizeof(float))) {
            fprintf(stderr, "two threads got different scores\n");
            return 1;
        }
    report("gcn", c, r[0].gcn);
    report("sage", c, r[0].sage);
    return out && (write_scores(out, "gcn", r[0].gcn, n) || write_scores(out, "sage", r[0].sage, n));
}

static int run_threads(const Server *s, const char *out)
{
    pthread_t threads[N_THREADS];
    Request requests[N_THREADS];
    int t, started = 0, failed;
    memset(requests, 0, sizeof requests);
    for (t = 0; t < N_THREADS; t++) {
        requests[t].server = s;
        if (pthread_create(&threads[t], NULL, serve, &requests[t])) break;
        started++;
    }
    for (t = 0; t < started; t++) pthread_join(threads[t], NULL);
    failed = started < N_THREADS || finish(s->data, requests, out);
    for (t = 0; t < N_THREADS; t++) {
        free(requests[t].gcn);
        free(requests[t].sage);
    }
    return failed;
}

int main(int argc, char **argv)
{
    Cora data;
    Server s;
    int failed;
    if (argc < 4) {
        fprintf(stderr, "usage: %s GCN.safetensors SAGE.safetensors DATA [OUT]\n", argv[0]);
        return 1;
    }
    memset(&s, 0, sizeof s);
    s.data = &data;
    failed = cora_load(argv[3], &data) || open_gcn(&s, argv[1]) || open_sage(&s, argv[2]) ||
             run_threads(&s, argc > 4 ? argv[4] : NULL);
    gcn_graph_free(s.gcn_graph);
    gcn_model_free(s.gcn);
    sage_graph_free(s.sage_graph);
    sage_model_free(s.sage);
    cora_free(&data);
    return failed;
}
