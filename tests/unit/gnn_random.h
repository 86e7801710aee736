/* Random programs as text of the language, for the tests that send them through the whole front end: values of nodes,
   edges, graphs and none, over three dims; every crossing, reducer and function of the tables below; definitions of a
   user's own (reducers, a message, stated adjoints, a cell, buffers); layers of the library; graphs derived from the
   data's; keys, tables, integers and bools; unfolded loops; derivatives inside the model, so that gradients of its
   results are second ones. A program is a list of typed statements, each a random expression that is built from the
   wanted type down, so that every text is legal; `tanh` keeps sums small. What is new in the language is one row here.

   Each text also says what its results depend on besides the graph itself (GNN_BY_..): a test that changes the
   numbering, the order or the rest of the batch leaves those alone. */
#pragma once
#include "base/str.h"
#include "frontend/std_text.h"
#include "tests/unit/gir_random.h"
#include <ctype.h>

enum { GNN_BY_NODE_ID = 1, GNN_BY_EDGE_ID = 2, GNN_BY_BATCH = 4 /* reads all rows at once */ };
enum { GNN_F = 1, GNN_H = 2, GNN_D = 4, GNN_N_SETS = 8, GNN_MAX_VARS = 64 };
typedef enum { GNN_UNIT, GNN_NODE, GNN_EDGE, GNN_GRAPH, GNN_N_AT } GnnAt;
typedef enum { GNN_FLOAT, GNN_INT, GNN_BOOL } GnnKind;

typedef struct GnnVar {
    const char *name;
    GnnAt at;
    unsigned dims;
    GnnKind kind;
} GnnVar;

typedef struct GnnText {
    Arena *arena;
    GirRng r;
    StrBuf out;
    GnnVar vars[GNN_MAX_VARS];
    unsigned n_vars, n_names, by;
    bool derived; /* inside `over`: a graph that is not the data's */
    int64_t sizes[3];
    int64_t kinds, rels; /* ranges of the inputs `kind` and `rel` */
    const char *text;
} GnnText;

static const char gnn_prelude[] = "reduce softmean(m: edge[...], t = 1) -> node[...] {\n"
                                  "  state s = 0, z = 0\n"
                                  "  step { w = exp(t * tanh(m)); s += w * m; z += w }\n"
                                  "  merge { s += other.s; z += other.z }\n"
                                  "  done = s / max(z, 0.001)\n"
                                  "}\n"
                                  "reduce widest(m) {\n"
                                  "  state hi = -inf\n"
                                  "  state lo = inf\n"
                                  "  step { hi = max(hi, m); lo = min(lo, m) }\n"
                                  "  done = hi - lo\n"
                                  "  empty = -0.5\n"
                                  "}\n"
                                  "reduce learned(m) {\n"
                                  "  param t: [] = 1\n"
                                  "  state s = 0\n"
                                  "  step { s += tanh(t * m) }\n"
                                  "  done = t * s\n"
                                  "}\n"
                                  "fn soft_step(x: @d[...]) -> @d[...] {\n"
                                  "  s = sigmoid(4 * x)\n"
                                  "  adjoint { x.grad = 4 * s * (1 - s) * grad }\n"
                                  "  return where(x > 0, 1, 0)\n"
                                  "}\n"
                                  "fn bent(x: @d[...], y: @d[...]) -> @d[...] {\n"
                                  "  adjoint { x.grad = tanh(grad * y); y.grad = grad }\n"
                                  "  return x * y\n"
                                  "}\n"
                                  "message apart(x: node[...]) -> edge[...] = abs(x.src - x.dst)\n"
                                  "layer decay(x: @d[...], h: @d[...]) -> @d[...] = 0.5 * h + tanh(x)\n"
                                  "layer centred(x: @d[...]) -> @d[...] {\n"
                                  "  buffer seen: [] = 0.25\n"
                                  "  now = mean_all(mean_of(x))\n"
                                  "  if training { seen = 0.9 * seen + 0.1 * now }\n"
                                  "  return x - (if training then now else seen)\n"
                                  "}\n"
                                  "fn mean_of(x) = tanh(sum(x))\n";

/* ---- names and types ---- */

static inline uint32_t gnn_below(GnnText *g, uint32_t n) { return gir_below(&g->r, n); }
static inline bool gnn_one_in(GnnText *g, uint32_t n) { return gnn_below(g, n) == 0; }

static inline const char *gnn_dims(GnnText *g, unsigned dims)
{
    static const char *const names[GNN_N_SETS] = {"", "F", "H", "F, H", "D", "F, D", "H, D", "F, H, D"};
    return arena_printf(g->arena, "[%s]", names[dims]);
}
static inline const char *gnn_type(GnnText *g, GnnAt at, unsigned dims)
{
    static const char *const names[GNN_N_AT] = {"", "node", "edge", "graph"};
    return arena_printf(g->arena, "%s%s", names[at], gnn_dims(g, dims));
}
/* The name of one of the dims in `dims`, NULL if there is none. */
static inline const char *gnn_dim_of(GnnText *g, unsigned dims, unsigned *bit)
{
    static const char *const names[3] = {"F", "H", "D"};
    for (unsigned k = gnn_below(g, 3), i = 0; i < 3 && dims; i++, k = (k + 1) % 3)
        if (dims >> k & 1) return *bit = 1u << k, names[k];
    return NULL;
}
static inline unsigned gnn_some_dims(GnnText *g)
{
    static const unsigned sets[] = {0, GNN_F, GNN_F, GNN_H, GNN_D, GNN_F, GNN_H | GNN_D, GNN_F | GNN_H};
    return sets[gnn_below(g, 8)];
}
static inline GnnAt gnn_some_at(GnnText *g)
{
    static const GnnAt at[] = {GNN_NODE, GNN_NODE, GNN_NODE, GNN_EDGE, GNN_EDGE, GNN_GRAPH, GNN_UNIT, GNN_NODE};
    GnnAt a = at[gnn_below(g, 8)];
    return a == GNN_GRAPH && g->derived ? GNN_NODE : a;
}
static inline const char *gnn_bind(GnnText *g, GnnAt at, unsigned dims, GnnKind kind)
{
    const char *name = arena_printf(g->arena, "v%u", g->n_names++);
    if (g->n_vars < GNN_MAX_VARS) g->vars[g->n_vars++] = (GnnVar){name, at, dims, kind};
    return name;
}
/* A variable of the kind that goes with a value at `at` over `dims`; exact: of just that type. NULL: there is none. */
static inline const GnnVar *gnn_var(GnnText *g, GnnKind kind, GnnAt at, unsigned dims, bool exact)
{
    for (unsigned tries = 0; tries < 30 && g->n_vars; tries++) {
        const GnnVar *v = &g->vars[gnn_one_in(g, 3) ? g->n_vars - 1 : gnn_below(g, g->n_vars)];
        bool fits = v->at == at && v->dims == dims;
        if (!exact) fits = (v->at == at || v->at == GNN_UNIT) && (v->dims & ~dims) == 0;
        if (v->kind == kind && fits) return v;
    }
    return NULL;
}

/* ---- expressions ---- */

static inline const char *gnn_float(GnnText *g, GnnAt at, unsigned dims, int depth);
static inline const char *gnn_bool(GnnText *g, GnnAt at, unsigned dims, int depth);

/* A template with one or two operands %s, and what it makes the program depend on. */
typedef struct GnnRow {
    const char *form;
    unsigned by;
} GnnRow;
#define GNN_ROW(g, rows) (&(rows)[gnn_below(g, (uint32_t)(sizeof(rows) / sizeof *(rows)))])

static inline const char *gnn_printf(GnnText *g, const char *form, const char *x, const char *y)
{
    StrBuf out = {.arena = g->arena};
    for (; *form; form++) {
        if (form[0] == '%') strbuf_puts(&out, form[1] == '1' ? x : y), form++;
        else strbuf_printf(&out, "%c", *form);
    }
    return strbuf_cstr(&out);
}

static inline const char *gnn_leaf(GnnText *g, GnnAt at, unsigned dims)
{
    const GnnVar *v = gnn_var(g, GNN_FLOAT, at, dims, true);
    if (v && !gnn_one_in(g, 6)) return v->name;
    const char *zeros = arena_printf(g->arena, "zeros(%s)", gnn_type(g, at, dims)), *more = "0.75";
    unsigned bit;
    switch (gnn_below(g, 8)) {
    case 0:
        if (at == GNN_NODE) more = gnn_one_in(g, 2) ? "tanh(indegree / 4)" : "tanh(outdegree / 4)";
        break;
    case 1:
        if (dims) more = arena_printf(g->arena, "sin(float(iota(%s)))", gnn_dim_of(g, dims, &bit));
        break;
    case 2:
        if (at != GNN_NODE && at != GNN_EDGE) break;
        g->by |= g->derived       ? GNN_BY_NODE_ID | GNN_BY_EDGE_ID | GNN_BY_BATCH
                 : at == GNN_NODE ? GNN_BY_NODE_ID
                                  : GNN_BY_EDGE_ID;
        more = arena_printf(g->arena, "sin(float(id(%s)))", at == GNN_NODE ? "node" : "edge");
        break;
    case 3:
        if (g->derived || !gnn_one_in(g, 2)) break;
        g->by |= at == GNN_NODE ? GNN_BY_NODE_ID : at == GNN_EDGE ? GNN_BY_EDGE_ID : GNN_BY_BATCH;
        return arena_printf(g->arena, "%s(%s)", gnn_one_in(g, 2) ? "rand" : "randn", gnn_type(g, at, dims));
    case 4: {
        const GnnVar *i = gnn_var(g, GNN_INT, at, dims, false);
        if (i) more = arena_printf(g->arena, "0.3 * float(%s)", i->name);
        break;
    }
    default:
        v = gnn_var(g, GNN_FLOAT, at, dims, false);
        if (v) more = v->name;
    }
    return arena_printf(g->arena, "(%s + %s)", zeros, more);
}

/* Of one value, by element. */
/* clang-format off */
static const GnnRow gnn_unaries[] = {
    {"tanh(%1)", 0}, {"sin(%1)", 0}, {"cos(%1)", 0}, {"sigmoid(%1)", 0}, {"exp(tanh(%1))", 0}, {"expm1(tanh(%1))", 0},
    {"log(abs(%1) + 0.5)", 0}, {"log1p(abs(%1))", 0}, {"sqrt(abs(%1) + 0.1)", 0}, {"erf(%1)", 0}, {"abs(%1)", 0},
    {"sign(%1)", 0}, {"tanh(floor(2 * %1))", 0}, {"detach(%1)", 0}, {"(-%1)", 0}, {"relu(%1)", 0},
    {"leaky_relu(%1, 0.2)", 0}, {"elu(%1)", 0}, {"gelu(%1)", 0}, {"silu(%1)", 0}, {"softplus(%1)", 0},
    {"log_sigmoid(%1)", 0}, {"tanh(square(%1))", 0}, {"clamp(%1, -0.5, 0.75)", 0}, {"soft_step(%1)", 0},
        {"identity(%1)", 0},
    {"dropout(%1, 0.3)", GNN_BY_NODE_ID | GNN_BY_EDGE_ID | GNN_BY_BATCH}, {"pow(sigmoid(%1) + 0.5, 1.5)", 0},
    {"float(int(3 * tanh(%1)))", 0}, {"shifted_softplus(%1)", 0}, {"tanh(%1 ** 2)", 0}, {"(tanh(%1) ** 3)", 0},
    {"deviation(square(%1))", 0}, {"length_of(square(%1))", 0}, {"selu(%1)", 0}, {"celu(%1, 0.75)", 0}, {"mish(%1)",
        0},
    {"softsign(%1)", 0}, {"hard_sigmoid(%1)", 0}, {"hard_swish(%1)", 0}, {"hard_shrink(%1)", 0},
        {"soft_shrink(%1, 0.25)", 0},
    {"tanh_shrink(%1)", 0}};
/* clang-format on */

static inline const char *gnn_unary(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    const GnnRow *row = GNN_ROW(g, gnn_unaries);
    g->by |= row->by;
    return gnn_printf(g, row->form, gnn_float(g, at, dims, depth), "");
}

/* Of two. */
/* clang-format off */
static const char *const gnn_binaries[] = {
    "(%1 + %2)", "(%1 - %2)", "(%1 * %2)", "tanh(%1 * %2)", "max(%1, %2)", "min(%1, %2)",
    "(%1 / (1 + abs(%2)))", "pow(sigmoid(%1) + 0.5, tanh(%2))", "atan2(%1, 1.5 + sigmoid(%2))",
    "mse(tanh(%1), tanh(%2))", "mae(%1, %2)", "bce_with_logits(%1, sigmoid(%2))", "bent(%1, %2)",
    "(%2 - %1)"};
/* clang-format on */

static inline const char *gnn_binary(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    const char *x = gnn_float(g, at, dims, depth), *y = gnn_one_in(g, 3) ? NULL : gnn_float(g, at, dims, depth);
    const GnnVar *v = y ? NULL : gnn_var(g, GNN_FLOAT, at, dims, false); /* one that broadcasts */
    const char *form = *GNN_ROW(g, gnn_binaries);
    if (!y && (!v || form[0] == 'b')) y = x;
    if (gnn_one_in(g, 6)) {
        const char *c = gnn_bool(g, at, dims, depth - 1);
        return arena_printf(g->arena, "where(%s, %s, %s)", c, x, y ? y : v->name);
    }
    return gnn_printf(g, form, x, y ? y : v->name);
}

/* Over a dim that the operand has and the result has not, or that both have. */
static inline const char *gnn_over_dim(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    static const char *const less[] = {"sum", "max", "min", "mean", "logsumexp", "norm", "dot", "tanh(sum"},
                             *const same[] = {"softmax", "log_softmax", "l2_normalize", "row_normalize"};
    unsigned bit = 0;
    if (dims && gnn_one_in(g, 3)) {
        const char *d = gnn_dim_of(g, dims, &bit), *f = same[gnn_below(g, 4)];
        const char *x = gnn_float(g, at, dims, depth);
        return arena_printf(g->arena, f[0] == 'r' ? "%s(sigmoid(%s), %s)" : "%s(%s, %s)", f, x, d);
    }
    const char *d = gnn_dim_of(g, ~dims & 7u, &bit), *f = less[gnn_below(g, 8)];
    if (!d) return gnn_leaf(g, at, dims);
    const char *x = gnn_float(g, at, dims | bit, depth);
    if (f[0] == 'd') return arena_printf(g->arena, "tanh(dot(%s, %s, %s))", x, gnn_float(g, at, dims | bit, depth), d);
    return arena_printf(g->arena, f[0] == 't' ? "%s(%s, %s))" : "%s(%s, %s)", f, x, d);
}

/* A reducer under one of its names; a %2 is the value of another. */
static inline const char *gnn_reduce(GnnText *g, const char *before, const char *after, const char *x, unsigned dims)
{
    static const char *const rows[] = {"%s%s%s(%s)",          "tanh(%s%s%s(%s))", "%s%s%s(%s)", "%s%s%s(%s)",
                                       "%s%s%s(cos(%s))",     "tanh(%s%s%s(%s))", "%s%s%s(%s)", "%s%s%s(sigmoid(%s))",
                                       "%s%s%s(tanh(%s))",    "%s%s%s(%s)",       "%s%s%s(%s)", "tanh(%s%s%s(%s))",
                                       "tanh(%s%s%s(%s) / 4)"};
    static const char *const names[] = {"mean",      "sum",       "max",      "min",    "mul",     "var",  "std",
                                        "powermean", "logsumexp", "softmean", "widest", "learned", "count"};
    unsigned k = gnn_below(g, dims ? 12 : 13); /* a count has no dims */
    if (k == 8)                                /* log of an empty sum is -inf */
        return arena_printf(g->arena, "tanh(max(%slogsumexp%s(tanh(%s)), -3))", before, after, x);
    if (k == 11 && g->derived) k = 1;
    return gnn_printf(g, arena_printf(g->arena, rows[k], before, names[k], after, x), "", "");
}

static inline const char *gnn_crossing(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    switch (at) {
    case GNN_EDGE:
        switch (gnn_below(g, 6)) {
        case 0: return arena_printf(g->arena, "softmax_in(%s)", gnn_float(g, GNN_EDGE, dims, depth));
        case 1: return arena_printf(g->arena, "softmax_out(%s)", gnn_float(g, GNN_EDGE, dims, depth));
        case 2: return arena_printf(g->arena, "apart(%s)", gnn_float(g, GNN_NODE, dims, depth));
        case 3: return arena_printf(g->arena, "(%s).dst", gnn_float(g, GNN_NODE, dims, depth));
        default: return arena_printf(g->arena, "(%s).src", gnn_float(g, GNN_NODE, dims, depth));
        }
    case GNN_NODE: {
        if (!g->derived && gnn_one_in(g, 5))
            return arena_printf(g->arena, "(%s).graph", gnn_float(g, GNN_GRAPH, dims, depth));
        const char *x = gnn_float(g, GNN_EDGE, dims, depth);
        return gnn_reduce(g, "", gnn_one_in(g, 3) ? "_out" : "_in", x, dims);
    }
    case GNN_GRAPH: {
        bool edges = gnn_one_in(g, 3);
        const char *x = gnn_float(g, edges ? GNN_EDGE : GNN_NODE, dims, depth);
        return edges ? gnn_printf(g, "readout_%2(%1)", x, gnn_one_in(g, 2) ? "mean" : "max")
                     : gnn_reduce(g, "readout_", "", x, dims);
    }
    default: {
        g->by |= GNN_BY_BATCH;
        GnnAt from = g->derived ? GNN_NODE : (GnnAt)(1 + gnn_below(g, 3));
        return gnn_reduce(g, "", "_all", gnn_float(g, from, dims, depth), dims);
    }
    }
}

static inline const char *gnn_float(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    if (depth <= 0 || gnn_one_in(g, 6)) return gnn_leaf(g, at, dims);
    switch (gnn_below(g, 7)) {
    case 0:
    case 1: return gnn_unary(g, at, dims, depth - 1);
    case 2:
    case 3: return gnn_binary(g, at, dims, depth - 1);
    case 4: return gnn_over_dim(g, at, dims, depth - 1);
    default: return gnn_crossing(g, at, dims, depth - 1);
    }
}

static inline const char *gnn_int(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    const GnnVar *v = gnn_var(g, GNN_INT, at, dims, true);
    if (v && !gnn_one_in(g, 3)) return gnn_one_in(g, 3) ? arena_printf(g->arena, "mod(%s, 3)", v->name) : v->name;
    const char *x = arena_printf(g->arena, "int(floor(3 * tanh(%s)))", gnn_float(g, at, dims, depth));
    return v ? arena_printf(g->arena, gnn_one_in(g, 2) ? "max(%s, %s)" : "(%s * 2 - %s)", v->name, x) : x;
}

static inline const char *gnn_bool(GnnText *g, GnnAt at, unsigned dims, int depth)
{
    static const char *const compare[] = {"(%s < %s)", "(%s <= %s)", "(%s > %s)", "(%s >= %s)"}, *const whole[] = {
                                                                                                     "(%s == %s)",
                                                                                                     "(%s != %s)"};
    const GnnVar *v = gnn_var(g, GNN_BOOL, at, dims, true);
    if (v && gnn_one_in(g, 2)) return v->name;
    if (depth > 0 && gnn_one_in(g, 3)) {
        const char *x = gnn_bool(g, at, dims, depth - 1), *y = gnn_bool(g, at, dims, depth - 1);
        if (gnn_one_in(g, 3)) return arena_printf(g->arena, "(not %s)", x);
        return arena_printf(g->arena, gnn_one_in(g, 2) ? "(%s and %s)" : "(%s or %s)", x, y);
    }
    if (gnn_one_in(g, 3)) {
        const char *x = gnn_int(g, at, dims, depth), *y = gnn_int(g, at, dims, depth);
        return arena_printf(g->arena, whole[gnn_below(g, 2)], x, y);
    }
    const char *x = gnn_float(g, at, dims, depth), *y = gnn_float(g, at, dims, depth);
    return arena_printf(g->arena, compare[gnn_below(g, 4)], x, y);
}

/* ---- statements ---- */

#define GNN_SAY(g, ...) strbuf_printf(&(g)->out, __VA_ARGS__)

static inline void gnn_let(GnnText *g, GnnAt at, unsigned dims, const char *x)
{
    const char *type = gnn_type(g, at, dims), *name = gnn_bind(g, at, dims, GNN_FLOAT);
    GNN_SAY(g, "  %s: %s = %s\n", name, type, x);
}

static inline void gnn_expression(GnnText *g)
{
    GnnAt at = gnn_some_at(g);
    unsigned dims = gnn_some_dims(g);
    bool whole = gnn_one_in(g, 2);
    if (!gnn_one_in(g, 8)) {
        gnn_let(g, at, dims, gnn_float(g, at, dims, 3));
        return;
    }
    const char *x = whole ? gnn_int(g, at, dims, 2) : gnn_bool(g, at, dims, 2), *type = gnn_type(g, at, dims);
    const char *name = gnn_bind(g, at, dims, whole ? GNN_INT : GNN_BOOL);
    GNN_SAY(g, "  %s: %s %s = %s\n", name, type, whole ? "int" : "bool", x);
}

/* Features in another arrangement; F is the last dim of what these make. */
static inline void gnn_shape(GnnText *g)
{
    GnnAt at = gnn_some_at(g);
    const char *x = gnn_float(g, at, GNN_F, 1), *y = gnn_float(g, at, GNN_F, 1),
               *z = gnn_float(g, at, GNN_H | GNN_D, 1);
    int f = (int)g->sizes[0], from = (int)gnn_below(g, (uint32_t)f + 1);
    switch (gnn_below(g, 4)) {
    case 0: gnn_let(g, at, GNN_F, arena_printf(g->arena, "cat(%s, %s)[..., %d..%d]", x, y, from, from + f)); return;
    case 1: gnn_let(g, at, GNN_H | GNN_D, arena_printf(g->arena, "reshape(tanh(flatten(%s)), [H, D])", z)); return;
    case 2:
        gnn_let(g, at, GNN_H | GNN_D, arena_printf(g->arena, "transpose(transpose(%s, [D, H]) * 0.5, [H, D])", z));
        return;
    default: gnn_let(g, at, 0, arena_printf(g->arena, "(%s)[..., %d]", x, (int)gnn_below(g, (uint32_t)f))); return;
    }
}

static inline void gnn_product(GnnText *g)
{
    unsigned n = g->n_names++;
    GnnAt at = gnn_some_at(g);
    const char *x = gnn_float(g, at, GNN_F, 2);
    switch (gnn_below(g, 4)) {
    case 0:
        GNN_SAY(g, "  param W%u: [F, H, D] = normal(0, 1)\n", n);
        gnn_let(g, at, GNN_H | GNN_D, arena_printf(g->arena, "tanh((%s) @ W%u)", x, n));
        return;
    case 1: gnn_let(g, at, GNN_F, arena_printf(g->arena, "tanh(linear(%s, O = F))", x)); return;
    case 2:
        GNN_SAY(g, "  W%u = linear(bias = false, O = H)\n", n);
        gnn_let(g, at, GNN_H, arena_printf(g->arena, "tanh(W%u(%s))", n, x));
        return;
    default:
        GNN_SAY(g, "  param b%u: [F] = normal(0, 1)\n", n);
        gnn_let(g, at, GNN_F, arena_printf(g->arena, "(%s + b%u)", x, n));
    }
}

/* Layers of the library that take and give F features of each node; %1: node[F], %2: edge. */
static inline void gnn_layer(GnnText *g)
{
    enum { IDS = GNN_BY_EDGE_ID };
    static const GnnRow rows[] = {{"gcn(%1, O = F)", IDS},
                                  {"gcn(%1, w = sigmoid(%2), O = F)", IDS},
                                  {"sage(%1, O = F)", 0},
                                  {"sage(%1, aggr = max, O = F)", 0},
                                  {"gin(nn = mlp(4))(%1, O = F)", 0},
                                  {"graph_conv(%1, O = F)", 0},
                                  {"le(%1, O = F)", 0},
                                  {"simple(%1)", 0},
                                  {"sgc(%1, K = 2, O = F)", IDS},
                                  {"tag(%1, O = F)", 0},
                                  {"gat(%1, H = 1, D = F)", IDS},
                                  {"gatv2(%1, H = 1, D = F)", IDS},
                                  {"transformer(%1, H = 1, D = F)", 0},
                                  {"res_gated(%1, O = F)", 0},
                                  {"mlp(%1, O = F)", 0},
                                  {"chain([linear(O = F), tanh, linear(O = F)], tanh)(%1)", 0},
                                  {"layer_norm(%1)", GNN_BY_BATCH},
                                  {"pair_norm(%1)", 0},
                                  {"row_norm(%1)", 0},
                                  {"graph_norm(%1)", 0},
                                  {"batch_norm(%1)", GNN_BY_BATCH},
                                  {"centred(%1)", GNN_BY_BATCH},
                                  {"message_norm(%1, %1)", 0},
                                  {"gru_cell()(%1, %1)", 0},
                                  {"edge_conv(nn = mlp(4))(%1, O = F)", 0},
                                  {"agnn(%1)", IDS},
                                  {"gen(%1, O = F)", GNN_BY_BATCH /* its network has a batch norm */},
                                  {"appnp(%1, K = 2)", IDS},
                                  {"arma(%1, O = F)", 0},
                                  {"cheb(%1, K = 2, O = F)", IDS}};
    const GnnRow *row = GNN_ROW(g, rows);
    g->by |= row->by;
    const char *x = gnn_float(g, GNN_NODE, GNN_F, 1);
    gnn_let(g, GNN_NODE, GNN_F,
            gnn_printf(g, arena_printf(g->arena, "tanh(%s)", row->form), x, gnn_float(g, GNN_EDGE, 0, 1)));
}

/* Integers as places and keys. */
static inline void gnn_key(GnnText *g)
{
    static const char *const names[] = {"sum", "mean", "max", "min", "count"};
    unsigned n = g->n_names++, dims = gnn_one_in(g, 2) ? GNN_F : 0;
    const char *x = gnn_float(g, GNN_EDGE, dims, 1), *d = dims ? ", F" : "";
    if (g->derived) {
        gnn_expression(g);
        return;
    }
    switch (gnn_below(g, 5)) {
    case 0:
        GNN_SAY(g, "  param T%u: [%d, F] = normal(0, 1)\n", n, (int)g->kinds);
        gnn_let(g, GNN_NODE, GNN_F, arena_printf(g->arena, "T%u[kind]", n));
        return;
    case 1:
        GNN_SAY(g, "  param T%u: [F, %d] = normal(0, 1)\n", n, (int)g->rels);
        gnn_let(g, GNN_EDGE, GNN_F, arena_printf(g->arena, "T%u[..., rel]", n));
        return;
    case 2:
        GNN_SAY(g, "  param T%u: [R%s] = normal(0, 1)\n", n, d);
        gnn_let(g, GNN_NODE, dims,
                arena_printf(g->arena, "sum(tanh(%s_in(%s, by = rel)) * T%u, R)", names[gnn_below(g, 5)], x, n));
        return;
    case 3: gnn_let(g, GNN_EDGE, dims, arena_printf(g->arena, "softmax_in(%s, by = rel)", x)); return;
    default:
        gnn_let(g, GNN_NODE, dims,
                arena_printf(g->arena, "sum(tanh(%s_out(%s, by = (src, rel))), R)", names[gnn_below(g, 4)], x));
    }
}

/* Order among the edges of a node and the nodes of a graph. Costs squared degrees. */
static inline void gnn_order(GnnText *g)
{
    static const char *const rows[] = {
        "median_in(%1)", "quantile_in(%1, 0.3)", "quantile_in(%1, 0.5, interpolation = \"lower\")",
        "fold_in(%1, decay, zeros(node[]), most = 2)", "fold_in(%1, decay, zeros(node[]), most = 2, order = %2)"};
    if (g->derived) {
        gnn_expression(g);
        return;
    }
    const char *x = gnn_float(g, GNN_EDGE, 0, 1), *y = gnn_float(g, GNN_EDGE, 0, 0), *z = gnn_float(g, GNN_NODE, 0, 1);
    g->by |= GNN_BY_EDGE_ID;
    switch (gnn_below(g, 6)) {
    case 0: gnn_let(g, GNN_EDGE, 0, arena_printf(g->arena, "tanh(0.2 * float(rank_in(%s)))", x)); return;
    case 2: gnn_let(g, GNN_EDGE, 0, arena_printf(g->arena, "tanh(0.2 * float(position_in(%s)))", x)); return;
    case 3:
        g->by |= GNN_BY_NODE_ID;
        gnn_let(g, GNN_NODE, 0, arena_printf(g->arena, "tanh(0.2 * float(rank_readout(%s)))", z));
        return;
    case 1:
        g->by |= GNN_BY_NODE_ID;
        gnn_let(g, GNN_GRAPH, 0, arena_printf(g->arena, "readout_median(%s)", z));
        return;
    default: gnn_let(g, GNN_NODE, 0, gnn_printf(g, *GNN_ROW(g, rows), x, y));
    }
}

/* The derivative of a number by a variable, in the model. */
static inline void gnn_grad(GnnText *g)
{
    GnnAt at = gnn_some_at(g);
    const GnnVar *v = gnn_var(g, GNN_FLOAT, at, gnn_one_in(g, 2) ? GNN_F : 0, true);
    if (!v || g->derived) {
        gnn_expression(g);
        return;
    }
    const char *name = v->name;
    unsigned dims = v->dims, by = g->by;
    const char *x = gnn_float(g, at, dims, 2);
    bool all = (g->by & ~by & GNN_BY_BATCH) != 0;
    const char *total = arena_printf(g->arena, "sin(%s * %s)", name, x);
    if (dims) total = arena_printf(g->arena, "sum(%s)", total);
    if (at != GNN_UNIT) total = arena_printf(g->arena, "sum_all(%s)", total);
    if (all || at == GNN_UNIT) g->by |= GNN_BY_BATCH;
    gnn_let(g, at, dims, arena_printf(g->arena, "tanh(grad(%s, %s))", total, name));
}

static inline void gnn_loop(GnnText *g)
{
    const char *x = gnn_leaf(g, GNN_NODE, GNN_F), *name = gnn_bind(g, GNN_NODE, GNN_F, GNN_FLOAT);
    if (gnn_one_in(g, 2)) {
        GNN_SAY(g, "  %s: node[F] = %s\n  for k in 0..2 { %s = tanh(%s + 0.5 * %s_in(%s.src)) }\n", name, x, name, name,
                gnn_one_in(g, 2) ? "mean" : "max", name);
        return;
    }
    GNN_SAY(g, "  c%s = for k in 0..2 { linear(O = F) }\n  %s: node[F] = %s\n", name, name, x);
    GNN_SAY(g, "  for k in 0..2 { %s = tanh(c%s[k](%s)) }\n", name, name, name);
}

static inline void gnn_statement(GnnText *g);

/* What is seen inside `over` a derived graph: nodes are the edges of the base where it is one of pairs of edges. */
static inline void gnn_enter(GnnText *g, bool of_edges, const char *carried)
{
    unsigned n = 0;
    for (unsigned i = 0; i < g->n_vars; i++) {
        GnnVar v = g->vars[i];
        bool stays = v.at == GNN_UNIT || v.at == (of_edges ? GNN_EDGE : GNN_NODE);
        if (of_edges && v.at == GNN_EDGE) v.at = GNN_NODE;
        if (carried && !strcmp(v.name, carried)) stays = true;
        if (stays) g->vars[n++] = v;
    }
    g->n_vars = n;
    g->derived = true;
}

static inline void gnn_over(GnnText *g)
{
    static const char *const policies[] = {"keep", "replace", "add", "remove"};
    GnnText was = *g;
    unsigned dims = gnn_one_in(g, 2) ? GNN_F : 0, n = g->n_names++, which = gnn_below(g, 8);
    const GnnVar *w = gnn_var(g, GNN_FLOAT, GNN_EDGE, dims, true);
    bool of_edges = which == 5 || which == 6, complete = which == 7 || which == 4;
    const char *carried = w && !of_edges && !complete && which != 3 ? w->name : NULL, *fill = "";
    if (g->derived) {
        gnn_expression(g);
        return;
    }
    if (carried) fill = arena_printf(g->arena, ", fill %s = %s", carried, gnn_one_in(g, 3) ? "mean" : "0.5");
    if (which < 3) {
        unsigned policy = gnn_below(g, 4);
        if (policy == 0) g->by |= GNN_BY_EDGE_ID; /* of several loops the last stays */
        GNN_SAY(g, "  graph g%u = self_loops(g, %s%s)\n", n, policies[policy], fill);
    }
    if (which == 3) GNN_SAY(g, "  graph g%u = reverse(g)\n", n);
    if (which == 5) GNN_SAY(g, "  graph g%u = line(g)\n", n);
    if (which == 6) GNN_SAY(g, "  graph g%u = siblings(g)\n", n);
    if (which == 7) GNN_SAY(g, "  graph g%u = complete(g)\n", n);
    if (which == 4) {
        g->by |= GNN_BY_NODE_ID | GNN_BY_EDGE_ID | GNN_BY_BATCH;
        GNN_SAY(g, "  graph g%u = negatives(g, k = 2, seed = %u)\n", n, gnn_below(g, 9));
    }
    gnn_enter(g, of_edges, carried);
    StrBuf outer = g->out;
    g->out = (StrBuf){.arena = g->arena};
    if (gnn_one_in(g, 2)) gnn_statement(g);
    const char *x = gnn_reduce(g, "", "_in", gnn_float(g, GNN_EDGE, dims, 2), dims), *inner = strbuf_cstr(&g->out);
    unsigned names = g->n_names, by = g->by;
    GirRng r = g->r;
    *g = was;
    g->out = outer, g->n_names = names, g->by = by, g->r = r;
    GnnAt at = of_edges ? GNN_EDGE : GNN_NODE;
    const char *type = gnn_type(g, at, dims), *name = gnn_bind(g, at, dims, GNN_FLOAT);
    GNN_SAY(g, "  %s: %s = over g%u {\n  %s    %s\n  }\n", name, type, n, inner, x);
}

/* The best nodes or the nearest ones, and what is made of those: loops, the other way, pairs of nodes or of edges. */
static inline void gnn_found(GnnText *g)
{
    static const char *const forms[] = {"",        "self_loops", "self_loops", "self_loops", "self_loops",
                                        "reverse", "complete",   "line",       "siblings"};
    static const char *const policies[] = {"", ", keep", ", replace", ", add", ", remove", "", "", "", ""};
    GnnText was = *g;
    unsigned dims = gnn_one_in(g, 2) ? GNN_F : 0, n = g->n_names++, form = gnn_below(g, 9);
    bool chosen = gnn_one_in(g, 2), of_edges = form > 6;
    const GnnVar *x = gnn_var(g, GNN_FLOAT, GNN_NODE, dims, true);
    if (!x || g->derived) {
        gnn_expression(g);
        return;
    }
    const char *seen = x->name, *rows = seen;
    g->by |= GNN_BY_NODE_ID | GNN_BY_EDGE_ID | GNN_BY_BATCH;
    if (chosen) GNN_SAY(g, "  graph g%u = select(g, sum(%s), ratio = 0.6)\n", n, seen);
    else GNN_SAY(g, "  graph g%u = knn(%s, k = 3, loop = %s)\n", n, seen, gnn_one_in(g, 2) ? "true" : "false");
    gnn_enter(g, of_edges || chosen, NULL);
    if (chosen || of_edges) { /* the others are values of the data's graph */
        unsigned kept = 0;
        for (unsigned i = 0; i < g->n_vars; i++)
            if (g->vars[i].at == GNN_UNIT) g->vars[kept++] = g->vars[i];
        g->n_vars = kept;
        rows = gnn_bind(g, GNN_NODE, dims, GNN_FLOAT);
    }
    StrBuf outer = g->out;
    g->out = (StrBuf){.arena = g->arena};
    const char *body = gnn_reduce(g, "", "_in", gnn_float(g, GNN_EDGE, dims, 2), dims),
               *nodes = chosen ? arena_printf(g->arena, "%s[g%u]", seen, n) : seen;
    unsigned names = g->n_names, by = g->by;
    GirRng r = g->r;
    *g = was;
    g->out = outer, g->n_names = names, g->by = by, g->r = r;
    const char *graph = arena_printf(g->arena, "g%u", n), *type = gnn_type(g, GNN_NODE, dims);
    const char *over = arena_printf(g->arena, form ? "over %s(%s%s)" : "over %s%s%s", forms[form], graph,
                                    policies[form]);
    const char *name = gnn_bind(g, GNN_NODE, dims, GNN_FLOAT);
    if (of_edges)
        body = arena_printf(g->arena, "p%s = %s\n    %s = tanh(p%s.src - 0.5 * p%s.dst)\n    mean_in(%s { %s })", name,
                            nodes, rows, name, name, over, body);
    else if (chosen) body = arena_printf(g->arena, "%s = %s\n    %s", rows, nodes, body);
    const char *head = of_edges ? arena_printf(g->arena, "over g%u", n) : over, *back = chosen ? "[g]" : "";
    GNN_SAY(g, "  %s: %s = %s {\n    %s\n  }%s\n", name, type, head, body, back);
}

static inline void gnn_statement(GnnText *g)
{
    switch (gnn_below(g, g->derived ? 6 : 22)) {
    case 4: gnn_shape(g); return;
    case 5: gnn_product(g); return;
    case 6:
    case 7: gnn_layer(g); return;
    case 8:
    case 9: gnn_key(g); return;
    case 10: gnn_order(g); return;
    case 11:
    case 12: gnn_grad(g); return;
    case 13: gnn_loop(g); return;
    case 14:
    case 15: gnn_over(g); return;
    case 16:
    case 17: gnn_found(g); return;
    default: gnn_expression(g);
    }
}

/* ---- a program ---- */

static inline void gnn_inputs(GnnText *g)
{
    static const GnnVar inputs[] = {{"x", GNN_NODE, GNN_F, GNN_FLOAT},
                                    {"e", GNN_EDGE, GNN_F, GNN_FLOAT},
                                    {"w", GNN_EDGE, 0, GNN_FLOAT},
                                    {"y", GNN_NODE, GNN_H | GNN_D, GNN_FLOAT},
                                    {"q", GNN_GRAPH, GNN_F, GNN_FLOAT},
                                    {"u", GNN_UNIT, GNN_F, GNN_FLOAT},
                                    {"z", GNN_UNIT, GNN_H | GNN_D, GNN_FLOAT},
                                    {"i", GNN_NODE, GNN_F, GNN_INT},
                                    {"b", GNN_EDGE, 0, GNN_BOOL}};
    GNN_SAY(g, "%smodel net(kind: node index[%d], rel: edge index[R]", gnn_prelude, (int)g->kinds);
    for (unsigned k = 0; k < sizeof inputs / sizeof *inputs; k++) {
        const GnnVar *v = &g->vars[g->n_vars++];
        g->vars[g->n_vars - 1] = inputs[k];
        GNN_SAY(g, ", %s: %s%s", v->name, gnn_type(g, v->at, v->dims),
                v->kind == GNN_INT    ? " int"
                : v->kind == GNN_BOOL ? " bool"
                                      : "");
    }
}

/* The last n values are the results. */
static inline void gnn_outputs(GnnText *g, unsigned n, const char *body)
{
    static const char *const kinds[] = {"", " int", " bool"};
    const char *names = "", *types = "";
    for (unsigned k = g->n_vars - n; k < g->n_vars; k++) {
        const GnnVar *v = &g->vars[k];
        const char *comma = *names ? ", " : "";
        names = arena_printf(g->arena, "%s%s%s", names, comma, v->name);
        types = arena_printf(g->arena, "%s%s%s%s", types, comma, gnn_type(g, v->at, v->dims), kinds[v->kind]);
    }
    GNN_SAY(g, n > 1 ? ") -> (%s) {\n%s  return %s\n}\n" : ") -> %s {\n%s  return %s\n}\n", types, body, names);
}

/* The text of one program. Sizes of F, H, D as in `sizes`, of R `rels`. */
static inline GnnText gnn_random(Arena *a, uint64_t seed)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 20, 32, 33};
    GnnText g = {.arena = a, .r = {seed * 0x9E3779B97F4A7C15u + 777}, .out = {.arena = a}};
    gnn_below(&g, 2);
    for (int k = 0; k < 3; k++) g.sizes[k] = sizes[gnn_below(&g, k ? 6 : 13)];
    if (gnn_one_in(&g, 3)) g.sizes[0] = 33, g.sizes[1 + gnn_below(&g, 2)] = 3; /* a short dim beside a wide one */
    g.kinds = gnn_one_in(&g, 2) ? 3 : 9 + gnn_below(&g, 32);
    g.rels = gnn_one_in(&g, 3) ? 9 + gnn_below(&g, 4) : 2;
    gnn_inputs(&g);
    unsigned n_inputs = g.n_vars, n = 3 + gnn_below(&g, 5), n_results = 1 + gnn_below(&g, 3);
    StrBuf head = g.out;
    g.out = (StrBuf){.arena = a};
    for (unsigned k = 0; k < n; k++) gnn_statement(&g);
    const char *body = strbuf_cstr(&g.out);
    g.out = head;
    gnn_outputs(&g, n_results < g.n_vars - n_inputs ? n_results : g.n_vars - n_inputs, body);
    g.text = strbuf_cstr(&g.out);
    return g;
}

/* ---- what a text is made of ---- */

static inline bool gnn_has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && at[n] == '(') return true;
    }
    return false;
}

/* Names in lines of the library that begin with `what`, with something before and behind. */
static inline uint32_t gnn_std_names(Arena *a, const char *text, const char *what, const char *before,
                                     const char *behind, const char **out, uint32_t n, uint32_t max)
{
    size_t skip = strlen(what);
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) {
        size_t len = strspn(at + skip, "abcdefghijklmnopqrstuvwxyz_0123456789");
        if ((at == text || at[-1] == '\n') && n < max)
            out[n++] = arena_printf(a, "%s%.*s%s", before, (int)len, at + skip, behind);
    }
    return n;
}

const char *builtin_name(uint32_t i); /* of the front end */

/* Functions of the language, and reducers under each of their names. */
static inline uint32_t gnn_words(Arena *a, const char **out, uint32_t max)
{
    static const char *const ways[][2] = {{"", "_in"}, {"", "_out"}, {"", "_all"}, {"readout_", ""}};
    static const char *const files[] = {"std/base.gnn", "std/order.gnn"};
    uint32_t n = 0;
    for (uint32_t i = 0; builtin_name(i) && n < max; i++) out[n++] = builtin_name(i);
    for (const struct GnnStdFile *f = gnn_std_files; f->name; f++) {
        for (int k = 0; k < 4; k++) n = gnn_std_names(a, f->text, "reduce ", ways[k][0], ways[k][1], out, n, max);
        for (int k = 0; k < 2; k++)
            if (!strcmp(f->name, files[k])) n = gnn_std_names(a, f->text, "fn ", "", "", out, n, max);
    }
    return n;
}
