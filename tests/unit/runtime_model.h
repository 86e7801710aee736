/* A model made by hand, for tests of the runtime that need no compiler: out = A (x W) with A the sum over in-edges,
   fitted to one-hot labels by gradient descent on the mean square error of the train nodes. F features, C classes. */
#pragma once
#include "runtime/abi.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { HM_F = 5, HM_C = 3 };

/* ---- names: one blob, offsets by enum ---- */
/* clang-format off */
#define HM_NAMES(N)                                                                                                   \
    N(model, "hand") N(unit, "unit") N(node, "node") N(edge, "edge") N(src, "edge.src") N(dst, "edge.dst")            \
    N(x, "x") N(y, "y") N(mask, "train") N(W, "lin.weight") N(m, "mom.m") N(lr, "lr") N(out, "out")                   \
    N(loss, "loss") N(acc, "train_acc") N(forward, "forward") N(train_step, "train_step") N(metrics, "metrics")       \
    N(vjp, "vjp") N(dimF, "F") N(dimC, "C") N(s_mm, "matmul") N(s_agg, "reduce_sum edge.dst")                         \
    N(s_res, "residual") N(s_aggt, "reduce_sum edge.src") N(s_outer, "outer") N(s_update, "update") N(s_acc, "acc")   \
    N(s_dx, "grad x") N(file, "hand.gnn") N(manifest, "{\"name\":\"hand\"}")
/* clang-format on */
struct hm_blob {
#define N(id, text) char id[sizeof text];
    HM_NAMES(N)
#undef N
};
static const struct hm_blob hm_blob = {
#define N(id, text) text,
    HM_NAMES(N)
#undef N
};
#define S(id) ((int64_t)offsetof(struct hm_blob, id))

/* ---- kernels ---- */
/* h[v][c] = sum_f x[v][f] W[f][c] */
static void hm_matmul(const RtArg *a, int64_t lo, int64_t hi)
{
    const float *x = a[0].p, *W = a[1].p;
    float *h = a[2].p;
    for (int64_t v = lo; v < hi; v++)
        for (int c = 0; c < HM_C; c++) {
            float s = 0;
            for (int f = 0; f < HM_F; f++) s = fmaf(x[v * HM_F + f], W[f * HM_C + c], s);
            h[v * HM_C + c] = s;
        }
}
/* out[v] = sum over row v of in[other[list[k]]] */
static void hm_gather_sum(const RtArg *a, int64_t lo, int64_t hi)
{
    const int64_t *rows = a[0].p;
    const int32_t *list = a[1].p, *other = a[2].p;
    const float *in = a[3].p;
    float *out = a[4].p;
    for (int64_t v = lo; v < hi; v++)
        for (int c = 0; c < HM_C; c++) {
            float s = 0;
            for (int64_t k = rows[v]; k < rows[v + 1]; k++) s += in[other[list[k]] * HM_C + c];
            out[v * HM_C + c] = s;
        }
}
/* g = (out - onehot(y)) * mask, loss = mean square; one piece */
static void hm_residual(const RtArg *a, int64_t lo, int64_t hi)
{
    const float *out = a[0].p;
    const int64_t *y = a[1].p;
    const uint8_t *mask = a[2].p;
    float *g = a[3].p, *loss = a[4].p, n = 0;
    (void)lo, (void)hi;
    *loss = 0;
    for (int64_t v = 0; v < a[5].i; v++) n += mask[v];
    for (int64_t v = 0; v < a[5].i; v++)
        for (int c = 0; c < HM_C; c++) {
            float d = mask[v] ? out[v * HM_C + c] - (y[v] == c) : 0;
            g[v * HM_C + c] = 2 * d / n;
            *loss += d * d / n;
        }
}
/* dW[f] = sum_v x[v][f] gh[v]; rows of W in parallel */
static void hm_outer(const RtArg *a, int64_t lo, int64_t hi)
{
    const float *x = a[0].p, *gh = a[1].p;
    float *dW = a[2].p;
    for (int64_t f = lo; f < hi; f++)
        for (int c = 0; c < HM_C; c++) {
            float s = 0;
            for (int64_t v = 0; v < a[3].i; v++) s = fmaf(x[v * HM_F + f], gh[v * HM_C + c], s);
            dW[f * HM_C + c] = s;
        }
}
/* m = 0.9 m + dW; W -= lr m */
static void hm_update(const RtArg *a, int64_t lo, int64_t hi)
{
    float *W = a[0].p, *m = a[1].p;
    const float *dW = a[2].p, *lr = a[3].p;
    for (int64_t i = lo; i < hi; i++) {
        m[i] = 0.9f * m[i] + dW[i];
        W[i] -= *lr * m[i];
    }
}
static void hm_accuracy(const RtArg *a, int64_t lo, int64_t hi)
{
    const float *out = a[0].p;
    const int64_t *y = a[1].p;
    const uint8_t *mask = a[2].p;
    float right = 0, n = 0;
    (void)lo, (void)hi;
    for (int64_t v = 0; v < a[4].i; v++) {
        int best = 0;
        for (int c = 1; c < HM_C; c++)
            if (out[v * HM_C + c] > out[v * HM_C + best]) best = c;
        n += mask[v];
        right += mask[v] && best == y[v];
    }
    *(float *)a[3].p = right / n;
}
/* dx[v][f] = sum_c gh[v][c] W[f][c] */
static void hm_grad_x(const RtArg *a, int64_t lo, int64_t hi)
{
    const float *gh = a[0].p, *W = a[1].p;
    float *dx = a[2].p;
    for (int64_t v = lo; v < hi; v++)
        for (int f = 0; f < HM_F; f++) {
            float s = 0;
            for (int c = 0; c < HM_C; c++) s = fmaf(gh[v * HM_C + c], W[f * HM_C + c], s);
            dx[v * HM_F + f] = s;
        }
}

/* ---- tables ---- */
enum { SP_UNIT, SP_NODE, SP_EDGE };
enum { M_SRC, M_DST };
enum { T_X, T_Y, T_MASK, T_W, T_M, T_LR, HM_N_TENSORS };
enum { K_MM, K_SUM, K_RES, K_OUTER, K_UPDATE, K_ACC, K_DX, HM_N_KERNELS };
/* clang-format off */
#define COUNT(s) {.kind = RT_COUNT_SPACE, .space = (s)}
#define CONST(v) {.kind = RT_COUNT_CONST, .value = (v)}
/* clang-format on */

static const RtSpace hm_spaces[] = {
    {.name = S(unit)}, {.name = S(node), .declared = {S(file), 1}}, {.name = S(edge), .is_edge = 1}};
/* clang-format off */
static const RtMapDef hm_maps[] = {{S(src), SP_EDGE, SP_NODE, 0, 0, -1, 1, 0, 0}, {S(dst), SP_EDGE, SP_NODE, 0, 1, -1,
    1, 0, 0}};
static const RtGraphDef hm_graphs[] = {
    {.name = S(edge), .kind = RT_GRAPH_DATA, .edge = SP_EDGE, .src_space = SP_NODE, .dst_space = SP_NODE,
        .src = M_SRC, .dst = M_DST,
     .base = -1, .orig = -1, .image = -1, .batch = -1, .of = -1, .file = -1, .where = -1}};
/* clang-format on */
static const RtTensorDef hm_tensors[] = {
    {.name = S(x),
     .kind = RT_INPUT,
     .space = SP_NODE,
     .dtype = RT_F32,
     .n_dims = 1,
     .width = HM_F,
     .dims = {HM_F},
     .dim_names = {S(dimF)},
     .declared = {S(file), 2}},
    {.name = S(y), .kind = RT_INPUT, .space = SP_NODE, .dtype = RT_I64, .width = 1, .bound = HM_C, .allow_missing = 1},
    {.name = S(mask), .kind = RT_INPUT, .space = SP_NODE, .dtype = RT_BOOL, .width = 1},
    /* clang-format off */
    {.name = S(W), .kind = RT_PARAM, .dtype = RT_F32, .n_dims = 2, .width = HM_F * HM_C, .dims = {HM_F, HM_C},
     .dim_names = {S(dimF), S(dimC)}, .n_stored = 2, .stored_shape = {HM_C, HM_F}, .stored_perm = {1, 0},
     .init = RT_INIT_UNIFORM, .init_a = -0.5, .init_b = 0.5},
    /* clang-format on */
    {.name = S(m), .kind = RT_STATE, .dtype = RT_F32, .n_dims = 2, .width = HM_F * HM_C, .dims = {HM_F, HM_C}},
    {.name = S(lr), .kind = RT_HYPER, .dtype = RT_F32, .width = 1, .hyper_default = 0.01},
};
/* clang-format off */
enum { /* buffers of train_step; the other programs use a prefix or their own */
    B_X, B_W, B_H, B_ROWS, B_LIST, B_SRC, B_OUT, B_Y, B_MASK, B_G, B_LOSS, B_SROWS, B_SLIST, B_DST, B_GH, B_DW, B_M,
    B_LR, N_TB };
/* clang-format on */
static const RtBuffer hm_buffers[] = {
    /* train_step */
    {RT_BUF_TENSOR, T_X, RT_K_F32, HM_F, -1, S(x), COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_W, RT_K_F32, 1, -1, S(W), CONST(HM_F *HM_C), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 0, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_ROWS, M_DST, RT_K_I64, 1, -1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_LIST, M_DST, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_MAP_TO, M_SRC, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_Y, RT_K_I64, 1, -1, S(y), COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_MASK, RT_K_I8, 1, -1, S(mask), COUNT(SP_NODE), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 0, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_RESULT, 0, RT_K_F32, 1, -1, S(loss), CONST(1), -1, -1},
    {RT_BUF_MAP_ROWS, M_SRC, RT_K_I64, 1, -1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_LIST, M_SRC, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_MAP_TO, M_DST, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, 1, 2, -1, CONST(HM_F *HM_C), -1, -1},
    {RT_BUF_RESULT, 2, RT_K_F32, 1, -1, S(m), CONST(HM_F *HM_C), -1, -1}, /* updates a tensor in place */
    {RT_BUF_TENSOR, T_LR, RT_K_F32, 1, -1, S(lr), CONST(1), -1, -1},
    /* forward: 18.. */
    {RT_BUF_TENSOR, T_X, RT_K_F32, HM_F, -1, S(x), COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_W, RT_K_F32, 1, -1, S(W), CONST(HM_F *HM_C), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 0, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_ROWS, M_DST, RT_K_I64, 1, -1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_LIST, M_DST, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_MAP_TO, M_SRC, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_RESULT, 0, RT_K_F32, HM_C, -1, S(out), COUNT(SP_NODE), -1, -1},
    /* metrics: 25.. */
    {RT_BUF_TENSOR, T_X, RT_K_F32, HM_F, -1, S(x), COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_W, RT_K_F32, 1, -1, S(W), CONST(HM_F *HM_C), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 0, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_ROWS, M_DST, RT_K_I64, 1, -1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_LIST, M_DST, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_MAP_TO, M_SRC, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_Y, RT_K_I64, 1, -1, S(y), COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_MASK, RT_K_I8, 1, -1, S(mask), COUNT(SP_NODE), -1, -1},
    {RT_BUF_RESULT, 0, RT_K_F32, 1, -1, S(acc), CONST(1), -1, -1},
    /* vjp: 35.. */
    {RT_BUF_COTANGENT, 0, RT_K_F32, HM_C, -1, S(out), COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_ROWS, M_SRC, RT_K_I64, 1, -1, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_MAP_LIST, M_SRC, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_MAP_TO, M_DST, RT_K_I32, 1, -1, -1, COUNT(SP_EDGE), -1, -1},
    {RT_BUF_ARENA, 0, RT_K_F32, HM_C, 0, -1, COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_X, RT_K_F32, HM_F, -1, S(x), COUNT(SP_NODE), -1, -1},
    {RT_BUF_TENSOR, T_W, RT_K_F32, 1, -1, S(W), CONST(HM_F *HM_C), -1, -1},
    {RT_BUF_RESULT, 0, RT_K_F32, HM_F, -1, S(x), COUNT(SP_NODE), -1, -1},
    {RT_BUF_RESULT, 1, RT_K_F32, 1, -1, S(W), CONST(HM_F *HM_C), -1, -1},
};
static const RtSlot hm_slots[] = {
    {HM_C * 4, 0, 9, COUNT(SP_NODE)}, {HM_C * 4, 0, 9, COUNT(SP_NODE)}, {4, 0, 9, CONST(HM_F *HM_C)}, /* train_step */
    {HM_C * 4, 0, 9, COUNT(SP_NODE)},                                                                 /* forward */
    {HM_C * 4, 0, 9, COUNT(SP_NODE)}, {HM_C * 4, 0, 9, COUNT(SP_NODE)},                               /* metrics */
    {HM_C * 4, 0, 9, COUNT(SP_NODE)},                                                                 /* vjp */
};
/* clang-format off */
#define BUF(b) {1, (b), 0, {0}}
#define OUT(b) {1, (b), 1, {0}}
#define NUM(...) {0, -1, 0, __VA_ARGS__}
/* clang-format on */
static const RtStepArg hm_args[] = {
    /* train_step: mm 0, agg 3, res 8, aggT 14, outer 19, update 23 */
    /* clang-format off */
    BUF(B_X), BUF(B_W), OUT(B_H), /**/
    BUF(B_ROWS), BUF(B_LIST), BUF(B_SRC), BUF(B_H), OUT(B_OUT), /**/
    BUF(B_OUT), BUF(B_Y), BUF(B_MASK), OUT(B_G), OUT(B_LOSS), NUM(COUNT(SP_NODE)), /**/
    BUF(B_SROWS), BUF(B_SLIST), BUF(B_DST), BUF(B_G), OUT(B_GH), /**/
    BUF(B_X), BUF(B_GH), OUT(B_DW), NUM(COUNT(SP_NODE)), /**/
    OUT(B_W), OUT(B_M), BUF(B_DW), BUF(B_LR), /**/
    /* clang-format on */
    /* forward: 27 */
    /* clang-format off */
    BUF(0), BUF(1), OUT(2), BUF(3), BUF(4), BUF(5), BUF(2), OUT(6), /**/
    /* clang-format on */
    /* metrics: 35 */
    /* clang-format off */
    BUF(0), BUF(1), OUT(2), BUF(3), BUF(4), BUF(5), BUF(2), OUT(6), /**/
    BUF(6), BUF(7), BUF(8), OUT(9), NUM(COUNT(SP_NODE)), /**/
    /* clang-format on */
    /* vjp: 48 */
    /* clang-format off */
    BUF(1), BUF(2), BUF(3), BUF(0), OUT(4), /**/
    BUF(4), BUF(6), OUT(7), /**/
    BUF(5), BUF(4), OUT(8), NUM(COUNT(SP_NODE)),
    /* clang-format on */
};
static const RtCall hm_calls[] = {
    {K_MM, 0, 3, 4, -1, -1, -1, -1, COUNT(SP_NODE)},  {K_SUM, 3, 5, 4, M_DST, -1, -1, -1, COUNT(SP_NODE)},
    {K_RES, 8, 6, 1, -1, -1, -1, -1, CONST(1)},       {K_SUM, 14, 5, 4, M_SRC, -1, -1, -1, COUNT(SP_NODE)},
    {K_OUTER, 19, 4, 1, -1, -1, -1, -1, CONST(HM_F)}, {K_UPDATE, 23, 4, 1024, -1, -1, -1, -1, CONST(HM_F *HM_C)},
    {K_MM, 27, 3, 4, -1, -1, -1, -1, COUNT(SP_NODE)}, {K_SUM, 30, 5, 4, M_DST, -1, -1, -1, COUNT(SP_NODE)},
    {K_MM, 35, 3, 4, -1, -1, -1, -1, COUNT(SP_NODE)}, {K_SUM, 38, 5, 4, M_DST, -1, -1, -1, COUNT(SP_NODE)},
    {K_ACC, 43, 5, 1, -1, -1, -1, -1, CONST(1)},      {K_SUM, 48, 5, 4, M_SRC, -1, -1, -1, COUNT(SP_NODE)},
    {K_DX, 53, 3, 4, -1, -1, -1, -1, COUNT(SP_NODE)}, {K_OUTER, 56, 4, 1, -1, -1, -1, -1, CONST(HM_F)},
};
static const RtGemm hm_products[] = {
    {0, 0, B_X, B_W, B_H, 0, HM_C, HM_F, RT_K_F32, COUNT(SP_NODE), CONST(0), CONST(0)},
    {6, 0, 0, 1, 2, 0, HM_C, HM_F, RT_K_F32, COUNT(SP_NODE), CONST(0), CONST(0)},
};
static const RtStep hm_steps[] = {
    {RT_STEP_PRODUCT, 0, 0, 1, S(s_mm), S(file), 3, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 1, 1, 1, S(s_agg), S(file), 4, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 2, 0, 0, S(s_res), S(file), 5, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 3, 1, 1, S(s_aggt), S(file), 4, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 4, 0, 0, S(s_outer), S(file), 3, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 5, 0, 0, S(s_update), S(file), 9, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_PRODUCT, 1, 0, 1, S(s_mm), S(file), 3, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 7, 1, 1, S(s_agg), S(file), 4, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 8, 0, 1, S(s_mm), S(file), 3, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 9, 1, 1, S(s_agg), S(file), 4, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 10, 0, 0, S(s_acc), S(file), 8, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 11, 1, 1, S(s_aggt), S(file), 4, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 12, 0, 0, S(s_dx), S(file), 3, RT_SAME, -1, -1, 0, 0},
    {RT_STEP_KERNEL, 13, 0, 0, S(s_outer), S(file), 3, RT_SAME, -1, -1, 0, 0},
};
static const RtCost hm_costs[] = {{4 * (HM_F + HM_C), 2 * HM_F *HM_C, COUNT(SP_NODE), -1},
                                  {4 * HM_C, HM_C, COUNT(SP_EDGE), -1}};
static const RtArgDef hm_argdefs[] = {
    {S(x), RT_ARG_TENSOR, T_X}, {S(y), RT_ARG_TENSOR, T_Y}, {S(mask), RT_ARG_TENSOR, T_MASK},
    {S(W), RT_ARG_TENSOR, T_W}, {S(m), RT_ARG_TENSOR, T_M}, {S(lr), RT_ARG_TENSOR, T_LR},
    {S(x), RT_ARG_TENSOR, T_X}, {S(W), RT_ARG_TENSOR, T_W},                                /* forward: 6 */
    {S(x), RT_ARG_TENSOR, T_X}, {S(W), RT_ARG_TENSOR, T_W}, {S(out), RT_ARG_COTANGENT, 0}, /* vjp: 8 */
};
static const RtResultDef hm_results[] = {
    {.name = S(loss), .dtype = RT_F32, .width = 1, .tensor = -1},
    {.name = S(W), .dtype = RT_F32, .n_dims = 2, .width = HM_F * HM_C, .tensor = T_W, .dims = {HM_F, HM_C}},
    {.name = S(m), .dtype = RT_F32, .n_dims = 2, .width = HM_F * HM_C, .tensor = T_M, .dims = {HM_F, HM_C}},
    {.name = S(out), .space = SP_NODE, .dtype = RT_F32, .n_dims = 1, .width = HM_C, .tensor = -1, .dims = {HM_C}},
    {.name = S(acc), .dtype = RT_F32, .width = 1, .tensor = -1},
    {.name = S(x), .space = SP_NODE, .dtype = RT_F32, .n_dims = 1, .width = HM_F, .tensor = -1, .dims = {HM_F}},
    {.name = S(W), .dtype = RT_F32, .n_dims = 2, .width = HM_F * HM_C, .tensor = -1, .dims = {HM_F, HM_C}},
};
static const RtProgram hm_programs[] = {
    {S(train_step), 0, N_TB, 0, 3, 0, 6, 0, 6, 0, 3, 0, 0, 0, 0},
    {S(forward), 18, 7, 3, 1, 6, 2, 6, 2, 3, 1, 0, 0, 0, 0},
    {S(metrics), 25, 10, 4, 2, 8, 3, 0, 4, 4, 1, 0, 0, 0, 0},
    {S(vjp), 35, 9, 6, 1, 11, 3, 8, 3, 5, 2, 0, 0, 0, 0},
};
static const RtMetric hm_metrics[] = {{S(acc), 0}};
static const RtTrain hm_train = {1, 60, 0, 0, 0, 1000, 1, 0, 0};
static const RtKernelFn hm_kernels[RT_N_VARIANTS * HM_N_KERNELS] = {hm_matmul, hm_gather_sum, hm_residual, hm_outer,
                                                                    hm_update, hm_accuracy,   hm_grad_x};
/* clang-format off */
static const RtModel hm_model = {
    .abi_version = RT_ABI_VERSION, .name = S(model), .float_dtype = RT_F32, .n_spaces = 3, .n_maps = 2, .n_graphs = 1,
    .n_tensors = HM_N_TENSORS, .n_programs = 4, .n_kernels = HM_N_KERNELS, .n_strings = sizeof hm_blob,
    .strings = (const char *)&hm_blob, .spaces = hm_spaces, .maps = hm_maps, .graphs = hm_graphs,
    .tensors = hm_tensors, .programs = hm_programs, .buffers = hm_buffers, .slots = hm_slots, .steps = hm_steps,
    .calls = hm_calls, .products = hm_products,
    .step_args = hm_args, .costs = hm_costs, .argdefs = hm_argdefs, .results = hm_results, .metrics = hm_metrics,
    .train = &hm_train, .kernels = hm_kernels, .manifest = S(manifest)};
/* clang-format on */
