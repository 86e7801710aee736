/* Two kernels as a person would write them for one width: the floor that compiled code is set beside.

   usage: limit DIR [THREADS]     DIR has edge_index.npy, int64 [2, E]
   prints NAME MS GB/S of: copy (a table of 64 floats per node), sum (plain aggregation of such rows), limit_gat (graph
   attention after its linear map, 8 heads of 8: scores of both ends, softmax over in-edges, weighted sum of rows).
   build: cc -O3 -march=CPU -fopenmp -ffp-contract=fast limit.c -o limit -lm. With the vectors of the CPU that it is
   compiled for. Never part of the product. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The widest vectors of the CPU, since gcc moves wider ones through memory; and those for the 8 heads of a node. */
#if defined(__AVX512F__)
enum { LANES = 16, HEADS = 8 };
#elif defined(__AVX2__)
enum { LANES = 8, HEADS = 8 };
#else
enum { LANES = 4, HEADS = 4 };
#endif
enum { W = 64, H = 8, D = 8, PARTS = W / LANES, GROUPS = H / HEADS, AHEAD = 16, RUNS = 10 };
typedef float Row __attribute__((vector_size(LANES * 4)));
typedef float Head __attribute__((vector_size(HEADS * 4)));
typedef int32_t HeadInt __attribute__((vector_size(HEADS * 4)));

typedef struct Graph {
    int64_t n, m;
    int64_t *row;    /* [n + 1] first in-edge of each node */
    int32_t *source; /* [m] */
} Graph;

typedef struct Data {
    Graph g;
    float *x, *y; /* [n][W] */
    float *l, *r; /* [n][H] */
} Data;

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
    long start = 10 + head[8] + 256 * head[9]; /* npy 1.0: two bytes of header length */
    fseek(f, 0, SEEK_END);
    size_t bytes = (size_t)(ftell(f) - start);
    int64_t *ids = malloc(bytes);
    fseek(f, start, SEEK_SET);
    if (!ids || fread(ids, 1, bytes, f) != bytes) exit(2);
    fclose(f);
    *m = (int64_t)(bytes / 16);
    return ids;
}

static Graph load(const char *folder)
{
    Graph g = {0};
    int64_t *ids = read_edges(folder, &g.m);
    for (int64_t i = 0; i < 2 * g.m; i++)
        if (ids[i] >= g.n) g.n = ids[i] + 1;
    g.row = calloc((size_t)g.n + 2, sizeof *g.row);
    g.source = table((size_t)g.m * sizeof *g.source);
    for (int64_t e = 0; e < g.m; e++) g.row[ids[g.m + e] + 2]++;
    for (int64_t v = 0; v < g.n; v++) g.row[v + 2] += g.row[v + 1];
    for (int64_t e = 0; e < g.m; e++) g.source[g.row[ids[g.m + e] + 1]++] = (int32_t)ids[e];
    free(ids);
    return g;
}

static void fetch_row(const Data *d, int64_t e)
{
    const char *p = (const char *)(d->x + (int64_t)d->g.source[e + AHEAD < d->g.m ? e + AHEAD : e] * W);
    for (int i = 0; i < W * 4; i += 64) __builtin_prefetch(p + i);
}

static void copy(Data *d)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < d->g.n * W / LANES; i++) ((Row *)d->y)[i] = ((const Row *)d->x)[i];
}

static void sum(Data *d)
{
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t v = 0; v < d->g.n; v++) {
        Row acc[PARTS] = {{0}};
        for (int64_t e = d->g.row[v]; e < d->g.row[v + 1]; e++) {
            const Row *s = (const Row *)(d->x + (int64_t)d->g.source[e] * W);
            fetch_row(d, e);
            for (int i = 0; i < PARTS; i++) acc[i] += s[i];
        }
        for (int i = 0; i < PARTS; i++) ((Row *)(d->y + v * W))[i] = acc[i];
    }
}

static Head larger(Head a, Head b)
{
    HeadInt m = a > b;
    return (Head)(((HeadInt)a & m) | ((HeadInt)b & ~m));
}

/* exp for x <= 0: 2^k times a polynomial of the rest (Cephes expf), about 2 ulp */
static Head exp_negative(Head x)
{
    x = larger(x, (Head){0} - 87.f);
    Head magic = (Head){0} + 12582912.f, k = (x * 1.44269504f + magic) - magic;
    Head f = x - k * 0.693359375f + k * 2.12194440e-4f, p = (Head){0} + 1.9875691500e-4f;
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * f * f + f + 1.f;
    return p * (Head)((__builtin_convertvector(k, HeadInt) + 127) << 23);
}

static Head score(const Data *d, int64_t source, int group, Head r)
{
    Head z = ((const Head *)(d->l + source * H))[group] + r;
    return larger(z, z * 0.2f);
}

/* Two passes per row: the largest score, then weights and rows together. */
static void attend(Data *d)
{
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t v = 0; v < d->g.n; v++) {
        Head r[GROUPS], most[GROUPS], total[GROUPS] = {{0}}, acc[H * GROUPS] = {{0}};
        for (int g = 0; g < GROUPS; g++) r[g] = ((const Head *)(d->r + v * H))[g], most[g] = (Head){0} - 1e30f;
        for (int64_t e = d->g.row[v]; e < d->g.row[v + 1]; e++)
            for (int g = 0; g < GROUPS; g++) most[g] = larger(most[g], score(d, d->g.source[e], g, r[g]));
        for (int64_t e = d->g.row[v]; e < d->g.row[v + 1]; e++) {
            const Head *s = (const Head *)(d->x + (int64_t)d->g.source[e] * W);
            fetch_row(d, e);
            for (int g = 0; g < GROUPS; g++) {
                Head w = exp_negative(score(d, d->g.source[e], g, r[g]) - most[g]);
                total[g] += w;
                for (int i = 0; i < HEADS * GROUPS; i++)
                    acc[g * HEADS * GROUPS + i] += w[i / GROUPS] * s[g * HEADS * GROUPS + i];
            }
        }
        for (int i = 0; i < H * GROUPS; i++) {
            float all = total[i / GROUPS / HEADS][i / GROUPS % HEADS];
            ((Head *)(d->y + v * W))[i] = acc[i] / (all > 0 ? all : 1.f);
        }
    }
}

static void best(const char *name, void (*kernel)(Data *), Data *d, double bytes)
{
    double least = 1e30;
    for (int i = 0; i < RUNS; i++) {
        double start = omp_get_wtime();
        kernel(d);
        double t = omp_get_wtime() - start;
        least = t < least ? t : least;
    }
    printf("%s %.4f %.1f\n", name, least * 1e3, bytes / least * 1e-9);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 1;
    omp_set_num_threads(argc > 2 ? atoi(argv[2]) : 2);
    Data d = {.g = load(argv[1])};
    size_t n = (size_t)d.g.n;
    d.x = table(n * W * 4), d.y = table(n * W * 4), d.l = table(n * H * 4), d.r = table(n * H * 4);
    for (size_t i = 0; i < n * W; i++) d.x[i] = (float)(i % 97) * 0.01f;
    for (size_t i = 0; i < n * H; i++) d.l[i] = (float)(i % 13) * 0.1f, d.r[i] = (float)(i % 7) * 0.1f;
    best("copy", copy, &d, 2.0 * (double)(n * W) * 4);
    best("sum", sum, &d, (double)d.g.m * W * 4);
    best("limit_gat", attend, &d, (double)d.g.m * (W + H) * 4);
    return 0;
}
