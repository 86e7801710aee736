/* What a drawn program has to move at least: the same gathers and streams, with no arithmetic but what consumes a load.

   usage: skeleton DIR THREADS      DIR has edge_index.npy, int64 [2, E], sorted by target
   prints `forward MS`, `grad MS` (both ways) and `rate GOPS`, the best of several; a rate is lane operations of
   multiply-add per second.
   build: cc -O3 -march=CPU -fopenmp -DFORWARD={..} -DBACK_DST={..} -DBACK_SRC={..} skeleton.c
   The braces are initialisers of Shape: what one sweep over the edges touches. BACK_DST walks in-edges (gradients of
   what is read at targets and of edge inputs), BACK_SRC out-edges; a sweep with no outputs does not run. Rows are 64
   floats. bench/drawn.py writes the command. Never part of the product. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define REGISTER     "v"
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define REGISTER     "x"
#else
#define VECTOR_BYTES 16
#define REGISTER     "x"
#endif
enum { W = 64, LANES = VECTOR_BYTES / 4, PARTS = W / LANES, AHEAD = 16, RUNS = 7, MOST_RUNS = 400, MOST = 8 };
#define ENOUGH_S 0.3 /* short sweeps run more often: the best of more */
typedef float Vec __attribute__((vector_size(VECTOR_BYTES)));

typedef struct Shape {
    int far_rows, far_scalars;   /* gathered per edge from the other end */
    int near_rows, near_scalars; /* read per row of the sweep */
    int edge_rows, edge_scalars; /* read per edge */
    int out_rows, out_scalars;   /* written per row of the sweep */
    int edge_out_rows, edge_out_scalars;
} Shape;

typedef struct Graph { /* one direction */
    int64_t n, m;
    int64_t *row;   /* [n + 1] */
    int32_t *other; /* [m] */
    int32_t *edge;  /* [m] where the edge's inputs lie */
} Graph;

typedef struct Tables {
    float *rows[MOST], *scalars[MOST], *out[MOST], *out_scalars[MOST];                     /* [n][W], [n] */
    float *edge_rows[MOST], *edge_scalars[MOST], *edge_out[MOST], *edge_out_scalars[MOST]; /* [m][W], [m] */
} Tables;

static void *table(size_t bytes)
{
    size_t page = (size_t)2 << 20, rounded = (bytes + page - 1) / page * page;
    void *p = aligned_alloc(page, rounded);
    if (!p) exit(4);
    madvise(p, rounded, MADV_HUGEPAGE);
    memset(p, 0, rounded);
    return p;
}

static int64_t *read_edges(const char *folder, int64_t *m)
{
    char path[4096];
    unsigned char head[10];
    snprintf(path, sizeof path, "%s/edge_index.npy", folder);
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, 10, f) != 10) {
        perror(path);
        exit(2);
    }
    long start = 10 + head[8] + 256 * head[9];
    fseek(f, 0, SEEK_END);
    size_t bytes = (size_t)(ftell(f) - start);
    int64_t *ids = malloc(bytes);
    fseek(f, start, SEEK_SET);
    if (!ids || fread(ids, 1, bytes, f) != bytes) exit(2);
    fclose(f);
    *m = (int64_t)(bytes / 16);
    return ids;
}

/* Rows by `row_of`, each edge with its other end and its number. */
static Graph index_by(const int64_t *row_of, const int64_t *other_of, int64_t n, int64_t m)
{
    Graph g = {
        .n = n, .m = m, .row = calloc((size_t)n + 2, 8), .other = table((size_t)m * 4), .edge = table((size_t)m * 4)};
    for (int64_t e = 0; e < m; e++) g.row[row_of[e] + 2]++;
    for (int64_t v = 0; v < n; v++) g.row[v + 2] += g.row[v + 1];
    for (int64_t e = 0; e < m; e++) {
        int64_t at = g.row[row_of[e] + 1]++;
        g.other[at] = (int32_t)other_of[e];
        g.edge[at] = (int32_t)e;
    }
    return g;
}

static inline __attribute__((always_inline)) void take(Vec acc[PARTS], const float *p)
{
    for (int i = 0; i < PARTS; i++) acc[i] += ((const Vec *)p)[i];
}

static inline __attribute__((always_inline)) void give(const Vec acc[PARTS], float *p)
{
    for (int i = 0; i < PARTS; i++) ((Vec *)p)[i] = acc[i];
}

static inline __attribute__((always_inline)) void one_edge(const Graph *g, const Tables *t, const Shape s, int64_t at,
                                                           int in_order, Vec acc[PARTS], float *scalar)
{
    int64_t u = g->other[at], e = in_order ? at : g->edge[at], next = g->other[at + AHEAD < g->m ? at + AHEAD : at];
    for (int i = 0; i < s.far_rows; i++) {
        for (int k = 0; k < W; k += 16) __builtin_prefetch(t->rows[i] + next * W + k);
        take(acc, t->rows[i] + u * W);
    }
    for (int i = 0; i < s.far_scalars; i++) *scalar += t->scalars[i][u];
    for (int i = 0; i < s.edge_rows; i++) take(acc, t->edge_rows[i] + e * W);
    for (int i = 0; i < s.edge_scalars; i++) *scalar += t->edge_scalars[i][e];
    for (int i = 0; i < s.edge_out_rows; i++) give(acc, t->edge_out[i] + e * W);
    for (int i = 0; i < s.edge_out_scalars; i++) t->edge_out_scalars[i][e] = *scalar;
}

static inline __attribute__((always_inline)) void sweep(const Graph *g, const Tables *t, const Shape s, int in_order)
{
    if (!(s.out_rows + s.out_scalars + s.edge_out_rows + s.edge_out_scalars)) return;
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t v = 0; v < g->n; v++) {
        Vec acc[PARTS] = {{0}};
        float scalar = 0;
        for (int i = 0; i < s.near_rows; i++) take(acc, t->rows[i] + v * W);
        for (int i = 0; i < s.near_scalars; i++) scalar += t->scalars[i][v];
        for (int64_t at = g->row[v]; at < g->row[v + 1]; at++) one_edge(g, t, s, at, in_order, acc, &scalar);
        acc[0] += scalar;
        for (int i = 0; i < s.out_rows; i++) give(acc, t->out[i] + v * W);
        for (int i = 0; i < s.out_scalars; i++) t->out_scalars[i][v] = scalar;
    }
}

static int larger(int a, int b) { return a > b ? a : b; }

static Tables allocate(size_t n, size_t m, const Shape *shapes, int n_shapes)
{
    Tables t = {0};
    Shape most = {0};
    for (int i = 0; i < n_shapes; i++) {
        const Shape *s = shapes + i;
        most.far_rows = larger(most.far_rows, larger(s->far_rows, s->near_rows));
        most.far_scalars = larger(most.far_scalars, larger(s->far_scalars, s->near_scalars));
        most.edge_rows = larger(most.edge_rows, s->edge_rows);
        most.edge_scalars = larger(most.edge_scalars, s->edge_scalars);
        most.out_rows = larger(most.out_rows, s->out_rows);
        most.out_scalars = larger(most.out_scalars, s->out_scalars);
        most.edge_out_rows = larger(most.edge_out_rows, s->edge_out_rows);
        most.edge_out_scalars = larger(most.edge_out_scalars, s->edge_out_scalars);
    }
    for (int i = 0; i < most.far_rows; i++) t.rows[i] = table(n * W * 4);
    for (int i = 0; i < most.far_scalars; i++) t.scalars[i] = table(n * 4);
    for (int i = 0; i < most.edge_rows; i++) t.edge_rows[i] = table(m * W * 4);
    for (int i = 0; i < most.edge_scalars; i++) t.edge_scalars[i] = table(m * 4);
    for (int i = 0; i < most.out_rows; i++) t.out[i] = table(n * W * 4);
    for (int i = 0; i < most.out_scalars; i++) t.out_scalars[i] = table(n * 4);
    for (int i = 0; i < most.edge_out_rows; i++) t.edge_out[i] = table(m * W * 4);
    for (int i = 0; i < most.edge_out_scalars; i++) t.edge_out_scalars[i] = table(m * 4);
    return t;
}

/* Lane operations per second of all threads: independent multiply-adds in registers. */
static double probe(int threads)
{
    enum { CHAINS = 10, STEPS = 4000000 };
    double best = 0;
    for (int run = 0; run < 3; run++) {
        double start = omp_get_wtime();
#pragma omp parallel num_threads(threads)
        {
            Vec a[CHAINS], x = (Vec){0} + 0.999f, y = (Vec){0} + 0.001f;
            for (int i = 0; i < CHAINS; i++) a[i] = (Vec){0} + (float)i;
            for (int s = 0; s < STEPS; s++)
                for (int i = 0; i < CHAINS; i++) a[i] = a[i] * x + y;
            for (int i = 0; i < CHAINS; i++) __asm__ volatile("" ::"v"(a[i]));
        }
        double rate = (double)threads * CHAINS * STEPS * LANES / (omp_get_wtime() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    static const Shape forward = FORWARD, back_dst = BACK_DST, back_src = BACK_SRC;
    if (argc < 3) return 1;
    int threads = atoi(argv[2]);
    omp_set_num_threads(threads);
    int64_t m, n = 0, *ids = read_edges(argv[1], &m);
    for (int64_t i = 0; i < 2 * m; i++) n = ids[i] >= n ? ids[i] + 1 : n;
    Graph in = index_by(ids + m, ids, n, m), out = index_by(ids, ids + m, n, m);
    Shape all[] = {forward, back_dst, back_src};
    Tables t = allocate((size_t)n, (size_t)m, all, 3);
    double best[2] = {1e30, 1e30}, began = omp_get_wtime();
    for (int run = 0; run < RUNS || (run < MOST_RUNS && omp_get_wtime() - began < ENOUGH_S); run++) {
        double start = omp_get_wtime();
        sweep(&in, &t, forward, 1);
        double one = omp_get_wtime();
        sweep(&in, &t, back_dst, 1);
        sweep(&out, &t, back_src, 0);
        double two = omp_get_wtime(), f = one - start, b = two - start;
        best[0] = f < best[0] ? f : best[0];
        best[1] = b < best[1] ? b : best[1];
    }
    printf("forward %.4f\ngrad %.4f\nrate %.3f\n", best[0] * 1e3, best[1] * 1e3, probe(threads) * 1e-9);
    return 0;
}
