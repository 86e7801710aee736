/* The hand-written kernels of tests/kernel on skewed graphs: builds inputs, runs the kernels
   through whatever it is given (the slow interpreter, emitted C, LLVM) and compares with a plain
   f64 reference. Every runner gets the same inputs, so outputs of two runners can be compared bit
   for bit. Run from the root of the tree. */
#pragma once
#include "base/file.h"
#include "ir/kernel.h"
#include "runtime/abi.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs iterations [lo, hi) of a kernel; args[i] and n_elems[i] belong to parameter i. NULL, or what
 * went wrong. */
typedef struct CaseRunner {
    const char *(*run)(void *ctx, const char *kernel, const RtArg *args, const int64_t *n_elems, int64_t lo,
                       int64_t hi);
    void *ctx;
} CaseRunner;

typedef struct CaseOut { /* what a case computed, for comparing two runners */
    float data[1 << 16];
    size_t n;
} CaseOut;

/* The kernels of one file under tests/kernel; NULL with diagnostics printed. */
static inline KirModule *case_module(Arena *a, const char *path)
{
    size_t n;
    const char *why;
    Diags d = {.arena = a};
    char *text = file_read(a, path, 0, &n, &why);
    if (!text) {
        printf("%s: %s (run from the root of the tree)\n", path, why);
        return NULL;
    }
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){path, text, (uint32_t)n};
    KirModule *m = kir_parse(a, src, &d);
    StrBuf out = {.arena = a};
    diags_print(&d, &out, false);
    if (!m) printf("%s", strbuf_cstr(&out));
    return m;
}

/* ---- graphs ------------------------------------------------------------------------------------- */

static inline double case_random(uint64_t *state) /* in [0, 1) */
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

typedef struct CaseGraph { /* CSR by destination, and its transpose */
    int64_t n, m;
    int64_t *rows, *t_rows;        /* [n + 1] */
    int32_t *col, *t_row, *t_edge; /* [m] */
} CaseGraph;

static inline void case_transpose(Arena *a, CaseGraph *g)
{
    g->t_rows = ARENA_ARRAY(a, int64_t, g->n + 1);
    g->t_row = ARENA_ARRAY(a, int32_t, g->m + 1);
    g->t_edge = ARENA_ARRAY(a, int32_t, g->m + 1);
    int64_t *at = ARENA_ARRAY(a, int64_t, g->n + 1);
    for (int64_t e = 0; e < g->m; e++) g->t_rows[g->col[e] + 1]++;
    for (int64_t u = 0; u < g->n; u++) g->t_rows[u + 1] += g->t_rows[u];
    for (int64_t u = 0; u < g->n; u++) at[u] = g->t_rows[u];
    for (int64_t v = 0; v < g->n; v++)
        for (int64_t e = g->rows[v]; e < g->rows[v + 1]; e++) {
            int64_t to = at[g->col[e]]++;
            g->t_row[to] = (int32_t)v;
            g->t_edge[to] = (int32_t)e;
        }
}

/* One hub with two fifths of the edges, every fifth row empty, the others skewed; parallel edges
 * and loops occur. */
static inline CaseGraph case_graph(Arena *a, int64_t n, int64_t m, uint64_t seed)
{
    CaseGraph g = {.n = n, .m = n ? m : 0};
    g.rows = ARENA_ARRAY(a, int64_t, n + 1);
    g.col = ARENA_ARRAY(a, int32_t, g.m + 1);
    for (int64_t e = 0; e < g.m; e++) {
        double r = case_random(&seed);
        int64_t v = case_random(&seed) < 0.4 ? n / 3 : (int64_t)(r * r * r * (double)n);
        if (v % 5 == 0 && n > 1) v++;
        g.rows[(v < n ? v : n - 1) + 1]++;
        g.col[e] = (int32_t)(case_random(&seed) * (double)n);
    }
    for (int64_t v = 0; v < n; v++) g.rows[v + 1] += g.rows[v];
    case_transpose(a, &g);
    return g;
}

static inline float *case_floats(Arena *a, int64_t n, uint64_t *seed)
{
    float *x = ARENA_ARRAY(a, float, n + 1);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(case_random(seed) * 2 - 1);
    return x;
}

static inline const char *case_compare(const float *got, const double *want, const double *bound, int64_t n,
                                       const char *what)
{
    static char why[200];
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - want[i]) <= bound[i]) continue;
        snprintf(why, sizeof why, "%s[%lld] is %.9g, wanted %.9g within %.2g", what, (long long)i, (double)got[i],
                 want[i], bound[i]);
        return why;
    }
    return NULL;
}

static inline void case_keep(CaseOut *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n && out->n < sizeof out->data / sizeof *out->data; i++) out->data[out->n++] = x[i];
}

/* The loop in three pieces, last first: chunks may come in any order. */
static inline const char *case_run(const CaseRunner *r, const char *kernel, const RtArg *args, const int64_t *n_elems,
                                   int64_t n)
{
    const char *why = r->run(r->ctx, kernel, args, n_elems, n - n / 3, n);
    if (!why) why = r->run(r->ctx, kernel, args, n_elems, n / 4, n - n / 3);
    return why ? why : r->run(r->ctx, kernel, args, n_elems, 0, n / 4);
}

/* ---- maxima and minima ------------------------------------------------------------------------------------------- */

static inline double case_extreme(float a, float b, bool max)
{
    return isnan(a) || isnan(b) ? NAN : max == (a > b) ? a : b;
}

/* Runs the kernel that takes the maximum and the minimum of two numbers on all pairs of 18: NaN, infinities, large,
   small, denormal, 0 and usual ones. NaN is the result if either number is. -0 is left out: the sign of a zero result
   is not promised. */
static inline const char *case_extremes(const CaseRunner *r, CaseOut *out)
{
    enum { N = 18, PAIRS = N * N };
    static const float v[N] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-38f, -1e-38f, 1e-40f,   -1e-40f,
                               0,   1,        -1,        2,     -2,     0.5f,   -0.5f,   16777216, 7};
    static float a[PAIRS], b[PAIRS], y[4 * PAIRS];
    for (int i = 0; i < PAIRS; i++) a[i] = v[i / N], b[i] = v[i % N];
    RtArg args[] = {{.p = a}, {.p = b}, {.p = y}, {.i = PAIRS / 4}};
    const char *why = case_run(r, "extremes", args, (int64_t[]){PAIRS, PAIRS, 4 * PAIRS, 0}, PAIRS / 4);
    for (int i = 0; i < 4 * PAIRS && !why; i++) {
        double want = case_extreme(a[i % PAIRS], b[i % PAIRS], i / PAIRS % 2 == 0), got = (double)y[i];
        if (got != want && !(isnan(got) && isnan(want))) why = "a maximum or minimum is wrong";
    }
    out->n = 0;
    case_keep(out, y, 4 * PAIRS);
    return why;
}

/* ---- lanes ---- */

/* Rows of 32 numbers, no two alike, and lane numbers. What is computed of them, kir_run says. */
static inline const char *case_lane_moves(const CaseRunner *r, CaseOut *out)
{
    enum { ROWS = 12, WIDTH = 32, PER_ROW = 723 };
    static const char *const kernels[] = {"lane_moves", "lane_moves_8", "lane_moves_4"};
    static float x[ROWS * WIDTH], y[3][ROWS * PER_ROW];
    static int32_t at[ROWS * WIDTH];
    uint64_t seed = 11;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(case_random(&seed) - 0.5) + 0.01f;
    for (int i = 0; i < ROWS * WIDTH; i++) at[i] = (int32_t)(case_random(&seed) * 32);
    const char *why = NULL;
    out->n = 0;
    for (int i = 0; i < 3 && !why; i++) {
        RtArg args[] = {{.p = x}, {.p = at}, {.p = y[i]}, {.i = ROWS}};
        why = case_run(r, kernels[i], args, (int64_t[]){ROWS * WIDTH, ROWS * WIDTH, ROWS * PER_ROW, 0}, ROWS);
        case_keep(out, y[i], ROWS * PER_ROW);
    }
    return why;
}

/* Blocks that leave what their warps stored to a warp that reads it last, and warps that read what others soon store
   over. */
static inline const char *case_sum_of_warps(const CaseRunner *r, CaseOut *out)
{
    enum { BLOCKS = 12, WIDTH = 16, ALL = 4 * BLOCKS * WIDTH };
    static float x[ALL], y[ALL], z[ALL], many[5 * ALL];
    uint64_t seed = 13;
    for (int i = 0; i < ALL; i++) x[i] = (float)(case_random(&seed) - 0.5);
    RtArg sum[] = {{.p = x}, {.p = y}, {.i = BLOCKS}}, passed[] = {{.p = x}, {.p = z}, {.i = BLOCKS}};
    const char *why = case_run(r, "sum_of_warps", sum, (int64_t[]){ALL, ALL / 4, 0}, BLOCKS);
    if (!why) why = case_run(r, "passed_on", passed, (int64_t[]){ALL, ALL, 0}, BLOCKS);
    RtArg apart[] = {{.p = x}, {.p = many}, {.i = BLOCKS}};
    if (!why) why = case_run(r, "many_warps", apart, (int64_t[]){ALL, 5 * ALL, 0}, BLOCKS);
    out->n = 0;
    case_keep(out, y, ALL / 4), case_keep(out, z, ALL), case_keep(out, many, 5 * ALL);
    return why;
}

static inline const char *case_side_by_side(const CaseRunner *r, CaseOut *out)
{
    enum { ROWS = 12, ALL = 64 * ROWS };
    static _Alignas(16) float x[ALL], z[ALL], y[7][ALL], sums[4 * ROWS], folds[ROWS];
    uint64_t seed = 17;
    for (int i = 0; i < ALL; i++) x[i] = (float)(case_random(&seed) - 0.5), z[i] = x[i] * x[i];
    memset(y[6], 0, sizeof y[6]); /* of another run */
    RtArg args[] = {{.p = x},    {.p = z},    {.p = y[0]}, {.p = sums}, {.p = y[1]},  {.p = y[2]},
                    {.p = y[3]}, {.p = y[4]}, {.p = y[5]}, {.p = y[6]}, {.p = folds}, {.i = ROWS}};
    const char *why = case_run(r, "side_by_side", args,
                               (int64_t[]){ALL, ALL, ALL, 4 * ROWS, ALL, ALL, ALL, ALL, ALL, ALL, ROWS, 0}, ROWS);
    out->n = 0;
    for (int i = 0; i < 7; i++) case_keep(out, y[i], ALL);
    case_keep(out, sums, 4 * ROWS), case_keep(out, folds, ROWS);
    return why;
}

/* Loops of as many turns as arguments say, for lengths around those of which compilers write several turns at once. */
static inline const char *case_turns(const CaseRunner *r, CaseOut *out)
{
    enum { ROWS = 7, MOST = 131, WIDTH = 16, ALL = (ROWS + MOST) * WIDTH };
    static const int64_t lengths[] = {0, 1, 2, 15, 16, 31, 32, 33, 48, 63, 64, 65, 95, 96, 97, 130, MOST};
    static float x[ALL], y[ROWS * WIDTH];
    double want[ROWS * WIDTH], bound[ROWS * WIDTH];
    uint64_t seed = 17;
    const char *why = NULL;
    for (int i = 0; i < ALL; i++) x[i] = (float)(case_random(&seed) - 0.5);
    out->n = 0;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths && !why; k++) {
        int64_t n = lengths[k];
        int64_t ends[ROWS] = {n, n, n, n, n, n, n};
        RtArg args[] = {{.p = x}, {.p = ends}, {.p = y}, {.i = ROWS}, {.i = n}};
        for (int64_t i = 0; i < ROWS * WIDTH; i++) {
            const int64_t v = i / WIDTH, l = i % WIDTH;
            double sum = 0;
            for (int64_t a = v; a < v + n; a += 16)
                for (int64_t e = a; e < v + n; e++) sum += (double)x[e * WIDTH + l];
            for (int64_t e = 0; e < n; e += 3) sum += (double)x[e * WIDTH + l];
            for (int64_t e = 0; e < 64; e++) sum += (double)x[e * WIDTH + l] * (1 + (e < 40));
            for (int64_t e = 0; e < n; e++) sum += (double)x[e * WIDTH + l];
            for (int64_t g = 0; g < n; g += 16)
                for (int64_t e = n % 2 ? 0 : g; e < (n % 2 ? g : g + 1); e++) sum += (double)x[e * WIDTH + l];
            want[i] = sum, bound[i] = 1e-3;
        }
        why = case_run(r, "turns", args, (int64_t[]){ALL, ROWS, ROWS * WIDTH, 0, 0}, ROWS);
        if (!why) why = case_compare(y, want, bound, ROWS * WIDTH, "y");
        case_keep(out, y, ROWS * WIDTH);
    }
    return why;
}

static inline const char *case_heads(const CaseRunner *r, CaseOut *out)
{
    enum { ROWS = 12, ALL = 64 * ROWS, IN = 8, OUT = 11 };
    static _Alignas(16) float x[IN][ALL], y[OUT][ALL];
    RtArg args[IN + OUT + 1];
    int64_t n[IN + OUT + 1] = {0};
    uint64_t seed = 19;
    memset(y, 0, sizeof y);
    for (int i = 0; i < IN; i++)
        for (int k = 0; k < ALL; k++) x[i][k] = (float)(case_random(&seed) - 0.5);
    for (int i = 0; i < IN + OUT; i++) args[i] = (RtArg){.p = i < IN ? x[i] : y[i - IN]}, n[i] = ALL;
    args[IN + OUT].i = ROWS;
    const char *why = case_run(r, "heads", args, n, ROWS);
    out->n = 0;
    for (int i = 0; i < OUT; i++) case_keep(out, y[i], ALL);
    return why;
}

static inline const char *case_filled_heads(const CaseRunner *r, CaseOut *out)
{
    enum { ROWS = 12, ALL = 128 * ROWS, IN = 11, OUT = 8 };
    static const char *const kernels[] = {"filled_heads", "filled_heads_8"};
    static _Alignas(16) float x[IN][ALL], y[2][OUT][ALL];
    const char *why = NULL;
    uint64_t seed = 23;
    out->n = 0;
    for (int i = 0; i < IN; i++)
        for (int k = 0; k < ALL; k++) x[i][k] = (float)(case_random(&seed) - 0.5);
    for (int way = 0; way < 2 && !why; way++) {
        RtArg args[IN + OUT + 1];
        int64_t n[IN + OUT + 1] = {0};
        for (int i = 0; i < IN + OUT; i++) args[i] = (RtArg){.p = i < IN ? x[i] : y[way][i - IN]}, n[i] = ALL;
        args[IN + OUT].i = ROWS;
        why = case_run(r, kernels[way], args, n, ROWS);
        for (int i = 0; i < OUT; i++) case_keep(out, y[way][i], ALL);
    }
    return why;
}

/* ---- runners ---- */

/* Which kernel has that name. */
static inline uint32_t case_kernel(const KirModule *m, const char *name)
{
    uint32_t i = 0;
    while (i < m->kernels.n && strcmp(m->kernels.data[i]->name, name)) i++;
    if (i == m->kernels.n) abort(); /* cases name kernels of their own file */
    return i;
}

/* Runs a case by kir_run, beside which the emitters' results are held. */
typedef struct CaseSlow {
    Arena *arena;
    const KirModule *module;
} CaseSlow;
static inline const char *case_run_slowly(void *ctx, const char *name, const RtArg *args, const int64_t *n_elems,
                                          int64_t lo, int64_t hi)
{
    const CaseSlow *s = ctx;
    const KirKernel *k = s->module->kernels.data[case_kernel(s->module, name)];
    KirArg copy[24];
    memcpy(copy, args, k->params.n * sizeof *args);
    return kir_run(s->arena, k, copy, n_elems, lo, hi);
}

/* ---- merge-path SpMM ---------------------------------------------------------------------------- */

enum { SPMM_WIDTH = 25 };

static inline const char *spmm_check(Arena *a, const CaseGraph *g, const float *w, const float *x, const float *y)
{
    int64_t total = g->n * SPMM_WIDTH;
    double *want = ARENA_ARRAY(a, double, total + 1), *bound = ARENA_ARRAY(a, double, total + 1);
    for (int64_t v = 0; v < g->n; v++)
        for (int64_t e = g->rows[v]; e < g->rows[v + 1]; e++)
            for (int64_t k = 0; k < SPMM_WIDTH; k++) {
                double term = (double)w[e] * (double)x[g->col[e] * SPMM_WIDTH + k];
                want[v * SPMM_WIDTH + k] += term;
                bound[v * SPMM_WIDTH + k] += 1e-5 * fabs(term);
            }
    return case_compare(y, want, bound, total, "y");
}

static inline const char *spmm_case(Arena *a, const CaseRunner *r, CaseGraph g, int64_t n_chunks, CaseOut *out)
{
    uint64_t seed = 77;
    int64_t total = g.n * SPMM_WIDTH, per = (g.n + g.m + n_chunks - 1) / n_chunks;
    float *w = case_floats(a, g.m, &seed), *x = case_floats(a, total, &seed);
    float *y = ARENA_ARRAY(a, float, total + 1), *carry = ARENA_ARRAY(a, float, n_chunks *SPMM_WIDTH);
    int64_t *carry_row = ARENA_ARRAY(a, int64_t, n_chunks);
    for (int64_t i = 0; i < total; i++) y[i] = NAN;
    RtArg args[] = {{.p = g.rows},    {.p = g.col}, {.p = w},   {.p = x},   {.p = y},       {.p = carry},
                    {.p = carry_row}, {.i = g.n},   {.i = g.m}, {.i = per}, {.i = n_chunks}};
    int64_t sizes[] = {g.n + 1, g.m, g.m, total, total, n_chunks * SPMM_WIDTH, n_chunks, 0, 0, 0, 0};
    const char *why = case_run(r, "merge_path_spmm", args, sizes, n_chunks);
    if (why) return why;
    RtArg carry_args[] = {{.p = carry}, {.p = carry_row}, {.p = y}, {.i = g.n}, {.i = n_chunks}};
    int64_t carry_sizes[] = {n_chunks * SPMM_WIDTH, n_chunks, total, 0, 0};
    why = r->run(r->ctx, "merge_path_carry", carry_args, carry_sizes, 0, 1);
    if (why) return why;
    case_keep(out, y, total);
    return spmm_check(a, &g, w, x, y);
}

/* Kernels of tests/kernel/merge_path_spmm.kir. NULL if y agrees with the reference on every graph. */
static inline const char *case_merge_path(const CaseRunner *r, CaseOut *out)
{
    static const int64_t n[] = {200, 200, 200, 97, 1, 1, 0}, m[] = {2500, 2500, 2500, 12, 30, 0, 0},
                         chunks[] = {1, 7, 64, 5, 4, 3, 2};
    Arena *a = arena_new();
    const char *why = NULL;
    out->n = 0;
    for (unsigned i = 0; i < sizeof n / sizeof *n && !why; i++)
        why = spmm_case(a, r, case_graph(a, n[i], m[i], 5), chunks[i], out);
    arena_free(a);
    return why;
}

/* ---- edge softmax ------------------------------------------------------------------------------- */

enum { SOFTMAX_WIDTH = 20 };

typedef struct SoftmaxCase {
    CaseGraph g;
    float *s, *h, *gy;                      /* [m], [n][20], [n][20] */
    float *y, *top, *sum, *gs, *alpha, *gh; /* [n][20], [n], [n], [m], [m], [n][20] */
} SoftmaxCase;

typedef struct SoftmaxWant {
    double *y, *y_bound, *gs, *gs_bound, *gh, *gh_bound;
} SoftmaxWant;

/* [m] softmax of each row's scores; rows of -inf give 0. */
static inline double *softmax_alpha(Arena *a, const SoftmaxCase *c)
{
    double *alpha = ARENA_ARRAY(a, double, c->g.m + 1);
    for (int64_t v = 0; v < c->g.n; v++) {
        double top = -INFINITY, sum = 0;
        for (int64_t e = c->g.rows[v]; e < c->g.rows[v + 1]; e++) top = fmax(top, (double)c->s[e]);
        for (int64_t e = c->g.rows[v]; e < c->g.rows[v + 1] && top > -INFINITY; e++)
            sum += alpha[e] = exp((double)c->s[e] - top);
        for (int64_t e = c->g.rows[v]; e < c->g.rows[v + 1]; e++) alpha[e] = sum > 0 ? alpha[e] / sum : 0;
    }
    return alpha;
}

static inline void softmax_row(const SoftmaxCase *c, const double *alpha, int64_t v, SoftmaxWant *w)
{
    enum { F = SOFTMAX_WIDTH };
    double mean = 0, mean_bound = 0;
    for (int64_t e = c->g.rows[v]; e < c->g.rows[v + 1]; e++)
        for (int64_t k = 0, u = c->g.col[e]; k < F; k++) {
            double h = (double)c->h[u * F + k], gy = (double)c->gy[v * F + k];
            w->y[v * F + k] += alpha[e] * h;
            w->y_bound[v * F + k] += alpha[e] * fabs(h) * 1e-5;
            w->gh[u * F + k] += alpha[e] * gy;
            w->gh_bound[u * F + k] += alpha[e] * fabs(gy) * 1e-5 + 1e-36;
            mean += alpha[e] * h * gy;
            mean_bound += alpha[e] * fabs(h * gy) * 2e-5;
        }
    for (int64_t e = c->g.rows[v]; e < c->g.rows[v + 1]; e++) {
        double along = 0, along_bound = 0;
        for (int64_t k = 0; k < F; k++) {
            double term = (double)c->h[c->g.col[e] * F + k] * (double)c->gy[v * F + k];
            along += term;
            along_bound += fabs(term) * 1e-5;
        }
        w->gs[e] = alpha[e] * (along - mean);
        w->gs_bound[e] = alpha[e] * (along_bound + mean_bound + 1e-5 * (fabs(along) + fabs(mean))) + 1e-36;
    }
}

static inline const char *softmax_check(Arena *a, const SoftmaxCase *c)
{
    int64_t total = c->g.n * SOFTMAX_WIDTH + 1, m = c->g.m + 1;
    SoftmaxWant w = {.y = ARENA_ARRAY(a, double, total),
                     .y_bound = ARENA_ARRAY(a, double, total),
                     .gh = ARENA_ARRAY(a, double, total),
                     .gh_bound = ARENA_ARRAY(a, double, total),
                     .gs = ARENA_ARRAY(a, double, m),
                     .gs_bound = ARENA_ARRAY(a, double, m)};
    double *alpha = softmax_alpha(a, c);
    for (int64_t v = 0; v < c->g.n; v++) softmax_row(c, alpha, v, &w);
    const char *why = case_compare(c->y, w.y, w.y_bound, total - 1, "y");
    if (!why) why = case_compare(c->gs, w.gs, w.gs_bound, m - 1, "gs");
    return why ? why : case_compare(c->gh, w.gh, w.gh_bound, total - 1, "gh");
}

static inline const char *softmax_run(const CaseRunner *r, const SoftmaxCase *c)
{
    const CaseGraph *g = &c->g;
    int64_t total = g->n * SOFTMAX_WIDTH, n1 = g->n + 1, m = g->m, n = g->n;
    RtArg f[] = {{.p = g->rows}, {.p = g->col}, {.p = c->s},   {.p = c->h},
                 {.p = c->y},    {.p = c->top}, {.p = c->sum}, {.i = n}};
    int64_t f_n[] = {n1, m, m, total, total, n, n, 0};
    const char *why = case_run(r, "edge_softmax", f, f_n, n);
    if (why) return why;
    RtArg b[] = {{.p = g->rows}, {.p = g->col}, {.p = c->s},  {.p = c->h},     {.p = c->y}, {.p = c->gy},
                 {.p = c->top},  {.p = c->sum}, {.p = c->gs}, {.p = c->alpha}, {.i = n}};
    int64_t b_n[] = {n1, m, m, total, total, total, n, n, m, m, 0};
    why = case_run(r, "edge_softmax_grad_scores", b, b_n, n);
    if (why) return why;
    RtArg t[] = {{.p = g->t_rows}, {.p = g->t_row}, {.p = g->t_edge}, {.p = c->alpha},
                 {.p = c->gy},     {.p = c->gh},    {.i = n}};
    int64_t t_n[] = {n1, m, m, m, total, total, 0};
    return case_run(r, "edge_softmax_grad_features", t, t_n, n);
}

/* Scores are multiples of 1/64 in [-60, 60], so that differences are exact; some rows have only
 * -inf. */
static inline const char *softmax_case(Arena *a, const CaseRunner *r, CaseGraph g, CaseOut *out)
{
    uint64_t seed = 99;
    int64_t total = g.n * SOFTMAX_WIDTH;
    SoftmaxCase c = {
        .g = g, .h = case_floats(a, total, &seed), .gy = case_floats(a, total, &seed), .s = case_floats(a, g.m, &seed)};
    for (int64_t v = 0; v < g.n; v++)
        for (int64_t e = g.rows[v]; e < g.rows[v + 1]; e++)
            c.s[e] = v % 11 == 3 || e % 17 == 0 ? -INFINITY : rintf(c.s[e] * (e % 2 ? 128 : 3840)) / 64;
    c.y = ARENA_ARRAY(a, float, total + 1), c.gh = ARENA_ARRAY(a, float, total + 1);
    c.top = ARENA_ARRAY(a, float, g.n + 1), c.sum = ARENA_ARRAY(a, float, g.n + 1);
    c.gs = ARENA_ARRAY(a, float, g.m + 1), c.alpha = ARENA_ARRAY(a, float, g.m + 1);
    for (int64_t i = 0; i < total; i++) c.y[i] = c.gh[i] = NAN;
    const char *why = softmax_run(r, &c);
    if (why) return why;
    case_keep(out, c.y, total), case_keep(out, c.gs, g.m), case_keep(out, c.gh, total);
    return softmax_check(a, &c);
}

/* Kernels of tests/kernel/edge_softmax.kir, forward and backward. NULL if all agree with the
 * reference. */
static inline const char *case_edge_softmax(const CaseRunner *r, CaseOut *out)
{
    static const int64_t n[] = {200, 97, 1, 1, 0}, m[] = {2500, 12, 30, 0, 0};
    Arena *a = arena_new();
    const char *why = NULL;
    out->n = 0;
    for (unsigned i = 0; i < sizeof n / sizeof *n && !why; i++)
        why = softmax_case(a, r, case_graph(a, n[i], m[i], 6), out);
    arena_free(a);
    return why;
}
