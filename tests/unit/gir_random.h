/* Random well-typed graph IR over every op that lower must take: nodes, edges, edges of a derived graph (loops by any
   policy, reversed), nearest points, selected nodes, graphs of a batch, two node spaces, drawn graphs; narrow, odd and
   wide dims; updated tensors; gradients of a scalar by every tensor, and gradients of those. Everything follows from
   the seed. Values stay small: what could blow up is squashed. Used by the tests that compare the interpreter with
   compiled code. */
#pragma once
#include "ir/eval.h"
#include "passes/rewrite/rewrite.h"
#include <math.h>

typedef struct GirRng {
    uint64_t s;
} GirRng;
static inline uint32_t gir_below(GirRng *r, uint32_t n)
{
    r->s = r->s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->s >> 33) % n;
}

typedef enum { GIR_SELF_LOOPS, GIR_REVERSED, GIR_BIPARTITE, GIR_DRAWN, GIR_NEAREST, GIR_SELECT } GirKind;
enum { GIR_NODE = 1, GIR_EDGE, GIR_GRAPH, GIR_LOOPS, GIR_SOURCE /* of bipartite graphs; selected nodes; else none */ };
/* clang-format off */
enum { GIR_SRC, GIR_DST, GIR_NODE_ALL, GIR_EDGE_ALL, GIR_NODE_GRAPH, GIR_LSRC, GIR_LDST, GIR_ORIG, GIR_IMAGE,
       GIR_LOOPS_ALL, GIR_N_MAPS /* and one more that depends on the kind */ };
/* clang-format on */
enum { GIR_N_DIMS = 4, GIR_MAX_WIDTH = 300 };

typedef struct Gir {
    Build b;
    GirRng r;
    IrDtype real;
    bool smooth; /* differentiable ops only */
} Gir;

static inline GirKind gir_kind(const IrModule *m)
{
    if (m->graphs.data[0].kind == IR_GRAPH_RANDOM) return GIR_DRAWN;
    if (m->graphs.data[1].kind == IR_GRAPH_SELECT) return GIR_SELECT;
    if (m->spaces.n > GIR_SOURCE) return GIR_BIPARTITE;
    if (m->graphs.data[1].kind == IR_GRAPH_NEAREST) return GIR_NEAREST;
    return m->graphs.data[1].kind == IR_GRAPH_REVERSE ? GIR_REVERSED : GIR_SELF_LOOPS;
}

static inline void gir_spaces(IrModule *m, GirKind kind)
{
    ir_space_new(m, "node", false);
    ir_space_new(m, "edge", true);
    ir_space_new(m, "graph", false);
    ir_space_new(m, "edge.loops", true);
    if (kind == GIR_BIPARTITE || kind == GIR_SELECT) ir_space_new(m, kind == GIR_SELECT ? "some" : "source", false);
}

static inline void gir_map(IrModule *m, const char *name, IrId from, IrId to, bool sorted, bool partial)
{
    IrId id = ir_map_new(m, name, from, to);
    IrMap *map = &m->maps.data[id];
    map->sorted = sorted;
    map->partial = partial;
}

/* In the order of the enum. Reversed edges lead from destinations to sources; neighbours are no edges of the base. */
static inline void gir_maps(IrModule *m, GirKind kind)
{
    bool two = kind == GIR_BIPARTITE, some = kind != GIR_REVERSED && !two;
    IrId source = two ? GIR_SOURCE : GIR_NODE;
    gir_map(m, "edge.src", GIR_EDGE, source, false, false);
    gir_map(m, "edge.dst", GIR_EDGE, GIR_NODE, true, false);
    gir_map(m, "node.all", GIR_NODE, IR_UNIT, false, false);
    gir_map(m, "edge.all", GIR_EDGE, IR_UNIT, false, false);
    gir_map(m, "node.graph", GIR_NODE, GIR_GRAPH, true, false);
    bool chosen = kind == GIR_SELECT;
    gir_map(m, "edge.loops.src", GIR_LOOPS, chosen ? GIR_SOURCE : GIR_NODE, false, chosen);
    gir_map(m, "edge.loops.dst", GIR_LOOPS, chosen ? GIR_SOURCE : source, !chosen, chosen);
    bool near = kind == GIR_NEAREST;
    gir_map(m, "edge.loops.orig", GIR_LOOPS, near ? GIR_GRAPH : GIR_EDGE, false, some && !near && !chosen);
    gir_map(m, "edge.loops.image", chosen ? GIR_NODE : GIR_EDGE,
            chosen ? GIR_SOURCE
            : near ? GIR_GRAPH
                   : GIR_LOOPS,
            false, some && !near);
    m->maps.data[GIR_LSRC].computed = near || chosen;
    m->maps.data[GIR_LDST].computed = m->maps.data[GIR_IMAGE].computed = chosen;
    gir_map(m, "edge.loops.all", GIR_LOOPS, IR_UNIT, false, false);
    if (chosen) gir_map(m, "some.graph", GIR_SOURCE, GIR_GRAPH, true, false);
    else if (two) gir_map(m, "source.all", GIR_SOURCE, IR_UNIT, false, false);
    else gir_map(m, "edge.graph", GIR_EDGE, GIR_GRAPH, false, false);
}

static inline void gir_graphs(IrModule *m, GirKind kind, GirRng *r)
{
    IrId source = m->maps.data[GIR_SRC].to;
    /* clang-format off */
    IrGraph g = {.name = "g", .edge = GIR_EDGE, .src_space = source, .dst_space = GIR_NODE, .src = GIR_SRC,
                 .dst = GIR_DST, .base = IR_NONE, .orig = IR_NONE, .image = IR_NONE};
    /* clang-format on */
    if (kind == GIR_DRAWN) {
        g.kind = IR_GRAPH_RANDOM;
        g.n_nodes = 1 + gir_below(r, 30);
        g.n_edges = gir_below(r, 90);
        g.seed = gir_below(r, 1000);
    }
    VEC_PUSH(m->arena, &m->graphs, g);
    /* clang-format off */
    IrGraph derived = {.name = "loops", .kind = IR_GRAPH_SELF_LOOPS, .edge = GIR_LOOPS, .src_space = GIR_NODE,
                       .dst_space = source, .src = GIR_LSRC, .dst = GIR_LDST, .base = 0, .orig = GIR_ORIG,
                       .image = GIR_IMAGE, .policy = (IrLoopPolicy)gir_below(r, 4)};
    /* clang-format on */
    if (kind == GIR_REVERSED || kind == GIR_BIPARTITE) derived.kind = IR_GRAPH_REVERSE;
    if (kind == GIR_NEAREST)
        derived = (IrGraph){.name = "loops",
                            .kind = IR_GRAPH_NEAREST,
                            .edge = GIR_LOOPS,
                            .src_space = GIR_NODE,
                            .dst_space = GIR_NODE,
                            .src = GIR_LSRC,
                            .dst = GIR_LDST,
                            .base = IR_NONE,
                            .orig = IR_NONE,
                            .image = IR_NONE,
                            .n_edges = 1 + gir_below(r, 6),
                            .step = 1 + gir_below(r, 4) / 3,
                            .policy = gir_below(r, 2) ? IR_LOOPS_KEEP : IR_LOOPS_REMOVE,
                            .batch = gir_below(r, 4) ? GIR_NODE_GRAPH : IR_NONE};
    if (kind == GIR_SELECT) /* clang-format off */
        derived = (IrGraph){.name = "loops", .kind = IR_GRAPH_SELECT, .edge = GIR_LOOPS, .src_space = GIR_SOURCE,
            .dst_space = GIR_SOURCE,
                            .src = GIR_LSRC, .dst = GIR_LDST, .base = 0, .orig = GIR_ORIG, .image = GIR_IMAGE,
                            .n_edges = gir_below(r, 4), .ratio = 0.4, .batch = GIR_NODE_GRAPH, .of = GIR_N_MAPS};
    /* clang-format on */
    VEC_PUSH(m->arena, &m->graphs, derived);
}

static inline IrModule *gir_module(Arena *a, GirRng *r)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 20, 31, 32, 33, 40, 64, 70};
    static const GirKind kinds[] = {GIR_SELF_LOOPS, GIR_SELF_LOOPS, GIR_SELF_LOOPS, GIR_SELF_LOOPS,
                                    GIR_REVERSED,   GIR_REVERSED,   GIR_BIPARTITE,  GIR_DRAWN,
                                    GIR_NEAREST,    GIR_NEAREST,    GIR_SELECT,     GIR_SELECT};
    GirKind kind = kinds[gir_below(r, 12)];
    IrModule *m = ir_module_new(a, "random");
    for (int i = 0; i < GIR_N_DIMS; i++) ir_dim_new(m, arena_printf(a, "D%d", i), sizes[gir_below(r, 18)]);
    /* a short dim beside a wide one */
    if (gir_below(r, 3) == 0) m->dims.data[0].size = 33, m->dims.data[1].size = 3 + 2 * gir_below(r, 2);
    gir_spaces(m, kind);
    gir_maps(m, kind);
    if (gir_below(r, 2) && kind != GIR_NEAREST && kind != GIR_SELECT)
        m->maps.data[GIR_ORIG].inverse = GIR_IMAGE, m->maps.data[GIR_IMAGE].inverse = GIR_ORIG;
    gir_graphs(m, kind, r);
    m->n_sites = 4;
    return m;
}

static inline IrType gir_type(Gir *g, IrDtype dtype)
{
    IrType t = {.space = gir_below(&g->r, g->b.m->spaces.n), .dtype = dtype};
    uint32_t n = gir_below(&g->r, 4);
    for (uint32_t i = 0; i < n; i++) {
        IrId d = gir_below(&g->r, GIR_N_DIMS);
        if (ir_type_has_dim(&t, d)) continue;
        t.dims[t.n_dims++] = d;
        if (ir_type_width(g->b.m, &t) > GIR_MAX_WIDTH) t.n_dims--;
    }
    return t;
}

/* A value of the dtype whose pointwise join with `with` is a type of bearable width, or IR_NONE. */
static inline IrId gir_pick(Gir *g, IrDtype t, const IrType *with)
{
    for (int tries = 0; tries < 60; tries++) {
        uint32_t n = g->b.f->ops.n, back = gir_below(&g->r, 2) ? n : n < 12 ? n : 12;
        IrId v = n - 1 - gir_below(&g->r, back);
        IrType x = irb_type(&g->b, v);
        if (x.dtype != t) continue;
        if (!with) return v;
        if (x.space != with->space && x.space != IR_UNIT && with->space != IR_UNIT) continue;
        IrType join = ir_type_join(&x, with);
        bool all = true;
        for (uint32_t k = 0; k < x.n_dims; k++) all &= ir_type_has_dim(&join, x.dims[k]);
        for (uint32_t k = 0; k < with->n_dims; k++) all &= ir_type_has_dim(&join, with->dims[k]);
        if (all && ir_type_width(g->b.m, &join) <= 2 * GIR_MAX_WIDTH) return v;
    }
    return IR_NONE;
}

static inline IrDtype gir_number(Gir *g)
{
    uint32_t k = g->smooth ? 0 : gir_below(&g->r, 8);
    return k == 6 ? IR_I64 : k == 7 ? IR_I32 : g->real;
}

static inline void gir_args(Gir *g)
{
    uint32_t n = 4 + gir_below(&g->r, 3);
    ir_arg(g->b.m, g->b.f, (IrArg){.name = "seed", .kind = IR_ARG_SEED, .type = ir_scalar(IR_I64)});
    ir_arg(g->b.m, g->b.f, (IrArg){.name = "step", .kind = IR_ARG_STEP, .type = ir_scalar(IR_I64)});
    for (uint32_t i = 0; i < n; i++) {
        IrDtype dtype = i == 3 && !g->smooth ? IR_I64 : i == 4 && !g->smooth ? IR_BOOL : g->real;
        IrTensor t = {.name = arena_printf(g->b.m->arena, "t%u", i), .kind = IR_STATE, .type = gir_type(g, dtype)};
        if (i == 0) t.type.space = GIR_NODE;
        if (i == 1 || i == 5) t.type.space = IR_UNIT;
        for (uint8_t k = 0; k < t.type.n_dims; k++) t.stored_perm[k] = k;
        VEC_PUSH(g->b.m->arena, &g->b.m->tensors, t);
        ir_arg(g->b.m, g->b.f, (IrArg){.name = t.name, .ref = i, .type = t.type});
    }
}

/* Neighbours by the first tensor, or by what is made of it. */
static inline void gir_near(Gir *g)
{
    IrId x = 2;
    if (gir_kind(g->b.m) != GIR_NEAREST) return;
    if (gir_below(&g->r, 2)) x = irb_map1(&g->b, gir_below(&g->r, 2) ? IR_OP_neg : IR_OP_sin, x);
    IrType t = {.space = GIR_LOOPS, .dtype = IR_I64};
    IrId found = ir_add(g->b.m, g->b.f, IR_OP_nearest, t, (IrId[]){x, x}, 2, (IrAttr){.map = GIR_LSRC}, g->b.span);
    ir_add(g->b.m, g->b.f, IR_OP_route, t, &found, 1, (IrAttr){.map = GIR_LSRC}, g->b.span);
}

static inline void gir_route(Gir *g, IrId to, IrId map)
{
    ir_add(g->b.m, g->b.f, IR_OP_route, irb_type(&g->b, to), &to, 1, (IrAttr){.map = map}, g->b.span);
}

/* The best nodes of each graph by the first tensor, and the edges between them. */
static inline void gir_select(Gir *g)
{
    Build *b = &g->b;
    if (gir_kind(b->m) != GIR_SELECT) return;
    IrType one = ir_scalar(IR_I64), some = one, t = irb_type(b, 2);
    one.space = GIR_NODE, some.space = GIR_SOURCE, t.n_dims = 0;
    IrId score = irb_unary(b, IR_OP_sum_dims, t, 2, (IrAttr){0}), none = irb_scalar(b, IR_I64, -1);
    IrId rank = irb_unary(b, IR_OP_rank, one, score, (IrAttr){.map = GIR_NODE_GRAPH});
    IrId id = ir_add(b->m, b->f, IR_OP_element, some, NULL, 0, (IrAttr){0}, b->span);
    IrId n = irb_gather(b, GIR_NODE_GRAPH, irb_reduce(b, IR_OP_reduce_sum, GIR_N_MAPS, irb_const(b, some, 1), 0));
    IrId first = irb_gather(b, GIR_NODE_GRAPH, irb_reduce(b, IR_OP_reduce_min, GIR_N_MAPS, id, 0));
    IrId slot = irb_select(b, irb_compare(b, IR_OP_lt, rank, n), irb_map2(b, IR_OP_add, first, rank),
                           irb_const(b, one, -1));
    gir_route(g, slot, GIR_IMAGE);
    IrId src = irb_gather(b, GIR_SRC, slot), dst = irb_gather(b, GIR_DST, slot);
    IrId both = irb_compare(b, IR_OP_lt, none, irb_map2(b, IR_OP_min, src, dst));
    gir_route(g, irb_gather(b, GIR_ORIG, irb_select(b, both, src, none)), GIR_LSRC);
    gir_route(g, irb_gather(b, GIR_ORIG, irb_select(b, both, dst, none)), GIR_LDST);
}

/* The numbers of some rows and features, drawn by their ids. */
static inline void gir_random_at(Gir *g)
{
    GirRng *r = &g->r;
    IrId d = gir_below(r, GIR_N_DIMS), args[4] = {0, 1};
    IrType row = {.space = gir_below(r, g->b.m->spaces.n), .dtype = IR_I64},
           col = {.space = IR_UNIT, .dtype = IR_I64, .n_dims = 1, .dims = {d}}, t = col;
    args[2] = ir_add(g->b.m, g->b.f, IR_OP_element, row, NULL, 0, (IrAttr){0}, g->b.span);
    args[3] = ir_add(g->b.m, g->b.f, IR_OP_iota, col, NULL, 0, (IrAttr){.dim = d}, g->b.span);
    t.space = row.space;
    t.dtype = g->real;
    ir_add(g->b.m, g->b.f, gir_below(r, 2) ? IR_OP_random_uniform_at : IR_OP_random_normal_at, t, args, 4,
           (IrAttr){.site = gir_below(r, 4)}, g->b.span);
}

static inline void gir_leaf(Gir *g)
{
    static const double values[] = {0, 1, -1, 2, -0.5, 3, 0.125, 10, -7, 0.75};
    GirRng *r = &g->r;
    switch (gir_below(r, g->smooth ? 1 : 6)) {
    case 4: gir_random_at(g); return;
    case 0: {
        IrType t = gir_below(r, 2) ? gir_type(g, g->real) : ir_scalar(g->real);
        irb_const(&g->b, t, values[gir_below(r, 10)]);
        return;
    }
    case 1: {
        IrId d = gir_below(r, GIR_N_DIMS);
        IrType t = {.space = IR_UNIT, .dtype = IR_I64, .n_dims = 1, .dims = {d}};
        ir_add(g->b.m, g->b.f, IR_OP_iota, t, NULL, 0, (IrAttr){.dim = d}, g->b.span);
        return;
    }
    case 2: {
        IrType t = {.space = gir_below(r, g->b.m->spaces.n), .dtype = IR_I64};
        ir_add(g->b.m, g->b.f, gir_below(r, 2) ? IR_OP_element : IR_OP_row, t, NULL, 0, (IrAttr){0}, g->b.span);
        return;
    }
    case 3: {
        IrId map = gir_below(r, g->b.m->maps.n);
        IrType t = {.space = g->b.m->maps.data[map].from, .dtype = IR_BOOL};
        ir_add(g->b.m, g->b.f, IR_OP_mapped, t, NULL, 0, (IrAttr){.map = map}, g->b.span);
        return;
    }
    default:
        ir_add(g->b.m, g->b.f, gir_below(r, 2) ? IR_OP_random_uniform : IR_OP_random_normal, gir_type(g, g->real),
               (IrId[]){0, 1}, 2, (IrAttr){.site = gir_below(r, 4)}, g->b.span);
    }
}

static inline void gir_unary(Gir *g)
{
    static const IrOpcode ops[] = {IR_OP_neg,  IR_OP_sin, IR_OP_cos,   IR_OP_tanh,   IR_OP_sigmoid,
                                   IR_OP_erf,  IR_OP_exp, IR_OP_expm1, IR_OP_detach, IR_OP_abs,
                                   IR_OP_sqrt, IR_OP_log, IR_OP_log1p, IR_OP_sign,   IR_OP_floor};
    IrOpcode op = ops[gir_below(&g->r, g->smooth ? 6 : 15)];
    IrId x = gir_pick(g, g->real, NULL);
    if (x == IR_NONE) return;
    if (op == IR_OP_exp || op == IR_OP_expm1) x = irb_map1(&g->b, IR_OP_tanh, x);
    if (op == IR_OP_sqrt || op == IR_OP_log || op == IR_OP_log1p) x = irb_map1(&g->b, IR_OP_abs, x);
    if (op == IR_OP_log) x = irb_map2(&g->b, IR_OP_add, x, irb_scalar(&g->b, g->real, 0.5));
    irb_map1(&g->b, op, x);
}

static inline void gir_binary(Gir *g)
{
    static const IrOpcode ops[] = {IR_OP_add, IR_OP_sub, IR_OP_mul, IR_OP_mul, IR_OP_min, IR_OP_max, IR_OP_div};
    IrDtype dtype = gir_number(g);
    IrId x = gir_pick(g, dtype, NULL);
    if (x == IR_NONE) return;
    IrType t = irb_type(&g->b, x);
    IrId y = gir_pick(g, dtype, &t);
    if (y == IR_NONE) return;
    IrOpcode op = ops[gir_below(&g->r, g->smooth ? 4 : 7)];
    if (op == IR_OP_div && dtype == g->real) {
        y = irb_map2(&g->b, IR_OP_add, irb_map1(&g->b, IR_OP_abs, y), irb_scalar(&g->b, g->real, 0.5));
        if (gir_below(&g->r, 4) == 0) {
            x = irb_map2(&g->b, IR_OP_add, irb_map1(&g->b, IR_OP_sigmoid, x), irb_scalar(&g->b, g->real, 0.5));
            y = irb_map1(&g->b, IR_OP_tanh, y);
            op = IR_OP_pow;
        }
    }
    if (dtype != g->real && gir_below(&g->r, 6) == 0) op = IR_OP_mod;
    x = irb_map2(&g->b, op, x, y);
    if (dtype == g->real && (op == IR_OP_mul || op == IR_OP_div)) irb_map1(&g->b, IR_OP_tanh, x);
}

static inline void gir_logic(Gir *g)
{
    static const IrOpcode ops[] = {IR_OP_eq, IR_OP_ne, IR_OP_lt, IR_OP_le};
    GirRng *r = &g->r;
    IrDtype dtype = gir_number(g);
    if (gir_below(r, 2)) {
        IrId x = gir_pick(g, dtype, NULL);
        if (x == IR_NONE) return;
        IrType t = irb_type(&g->b, x);
        IrId y = gir_pick(g, dtype, &t);
        if (y != IR_NONE) irb_compare(&g->b, ops[gir_below(r, 4)], x, y);
        return;
    }
    IrId c = gir_pick(g, IR_BOOL, NULL);
    if (c == IR_NONE) return;
    IrType t = irb_type(&g->b, c);
    if (gir_below(r, 8) == 0) dtype = IR_BOOL;
    IrId d = gir_pick(g, IR_BOOL, &t), x = gir_pick(g, dtype, &t);
    if (gir_below(r, 4) == 0) irb_map1(&g->b, IR_OP_not, c);
    else if (d != IR_NONE && gir_below(r, 2)) irb_map2(&g->b, gir_below(r, 2) ? IR_OP_and : IR_OP_or, c, d);
    else if (x != IR_NONE) {
        IrType join = irb_type(&g->b, x);
        join = ir_type_join(&t, &join);
        IrId y = gir_pick(g, dtype, &join);
        if (y != IR_NONE) irb_select(&g->b, c, x, y);
    }
}

static inline void gir_cast(Gir *g)
{
    static const IrDtype from[] = {IR_F32, IR_F64, IR_I32, IR_I64, IR_BOOL};
    IrDtype to = gir_below(&g->r, 2) ? g->real : from[gir_below(&g->r, 5)];
    IrId x = gir_pick(g, from[gir_below(&g->r, 5)], NULL);
    if (x == IR_NONE) return;
    IrType t = irb_type(&g->b, x);
    t.dtype = to;
    if (to != IR_F32 && to != IR_F64 && ir_dtype_is_float(irb_type(&g->b, x).dtype))
        x = irb_map2(&g->b, IR_OP_mul, x, irb_scalar(&g->b, irb_type(&g->b, x).dtype, 3.7));
    x = irb_unary(&g->b, IR_OP_cast, t, x, (IrAttr){0});
    if (ir_dtype_is_float(to) && !g->smooth) irb_map1(&g->b, IR_OP_tanh, x);
}

static inline void gir_reshape(Gir *g, IrId x, IrType t)
{
    int64_t width = ir_type_width(g->b.m, &t);
    IrType u = t;
    switch (gir_below(&g->r, 3)) {
    case 0: /* flatten */
        u.n_dims = 1;
        u.dims[0] = ir_dim_new(g->b.m, "R", width);
        break;
    case 1: /* other dims of the same sizes, and one of size one */
        for (uint32_t k = 0; k < t.n_dims; k++) u.dims[k] = ir_dim_new(g->b.m, "R", g->b.m->dims.data[t.dims[k]].size);
        if (u.n_dims < 3) u.dims[u.n_dims++] = ir_dim_new(g->b.m, "R", 1);
        break;
    default: /* cut in two */
        u.n_dims = 2;
        int64_t part = width % 3 == 0 ? 3 : width % 2 == 0 ? 2 : 1;
        u.dims[0] = ir_dim_new(g->b.m, "R", width / part);
        u.dims[1] = ir_dim_new(g->b.m, "R", part);
    }
    IrId y = irb_unary(&g->b, IR_OP_reshape, u, x, (IrAttr){0});
    if (gir_below(&g->r, 2)) { /* work in that shape, and back */
        y = irb_map1(&g->b, IR_OP_tanh, y);
        irb_unary(&g->b, IR_OP_reshape, t, y, (IrAttr){0});
    }
}

/* Of dim k of x, the place that a number of the row says; some say none. */
static inline void gir_picked(Gir *g, IrId x, IrType t, uint32_t k)
{
    Build *b = &g->b;
    IrType index = {.space = t.space, .dtype = IR_I64}, places = {.dtype = IR_I64, .n_dims = 1, .dims = {t.dims[k]}};
    IrId row = ir_add(b->m, b->f, IR_OP_element, index, NULL, 0, (IrAttr){0}, b->span);
    row = irb_map2(b, IR_OP_mod, row, irb_scalar(b, IR_I64, (double)b->m->dims.data[t.dims[k]].size + 1));
    IrId hits = irb_compare(b, IR_OP_eq, row,
                            ir_add(b->m, b->f, IR_OP_iota, places, NULL, 0, (IrAttr){.dim = t.dims[k]}, b->span));
    IrType hit = irb_type(b, hits);
    hit.dtype = t.dtype;
    hits = irb_unary(b, IR_OP_cast, hit, hits, (IrAttr){0});
    if (gir_below(&g->r, 3) == 0 && t.space != IR_UNIT) x = irb_map2(b, IR_OP_sub, x, irb_map1(b, IR_OP_tanh, x));
    for (uint32_t i = k; i + 1 < t.n_dims; i++) t.dims[i] = t.dims[i + 1];
    t.n_dims--;
    ir_add(b->m, b->f, IR_OP_contract, t, (IrId[]){x, hits}, 2, (IrAttr){0}, b->span);
}

static inline void gir_dims(Gir *g)
{
    static const IrOpcode sums[] = {IR_OP_sum_dims, IR_OP_sum_dims, IR_OP_max_dims, IR_OP_min_dims};
    GirRng *r = &g->r;
    bool integer = !g->smooth && gir_below(r, 8) == 0;
    IrId x = gir_pick(g, integer ? IR_I64 : g->real, NULL);
    if (x == IR_NONE) return;
    IrType t = irb_type(&g->b, x), u = t;
    if (!t.n_dims) return;
    uint32_t k = gir_below(r, t.n_dims), which = gir_below(r, integer ? 2 : 7);
    int64_t size = g->b.m->dims.data[t.dims[k]].size;
    switch (which) {
    case 0:
    case 1: /* sums: drop some dims, keep the others in any order */
        u.n_dims = 0;
        for (uint32_t i = 0; i < t.n_dims; i++)
            if (gir_below(r, 2)) u.dims[u.n_dims++] = t.dims[i];
        x = irb_unary(&g->b, sums[gir_below(r, g->smooth ? 2 : 4)], u, x, (IrAttr){0});
        if (!integer) irb_map1(&g->b, IR_OP_tanh, x);
        return;
    case 2:
        for (uint32_t i = t.n_dims; i-- > 1;) {
            uint32_t j = gir_below(r, i + 1);
            IrId d = u.dims[i];
            u.dims[i] = u.dims[j];
            u.dims[j] = d;
        }
        irb_unary(&g->b, IR_OP_transpose, u, x, (IrAttr){0});
        return;
    case 3: {
        int64_t n = 1 + gir_below(r, (uint32_t)size);
        u.dims[k] = ir_dim_new(g->b.m, "S", n);
        irb_unary(&g->b, IR_OP_slice, u, x, (IrAttr){.dim = t.dims[k], .i = gir_below(r, (uint32_t)(size - n + 1))});
        return;
    }
    case 4: {
        uint32_t n = 1 + gir_below(r, 3);
        IrId part = gir_below(r, 2) ? irb_map1(&g->b, IR_OP_neg, x) : x;
        if (ir_type_width(g->b.m, &t) * n > GIR_MAX_WIDTH) return;
        u.dims[k] = ir_dim_new(g->b.m, "C", size * n);
        ir_add(g->b.m, g->b.f, IR_OP_concat, u, (IrId[]){x, part, x}, n, (IrAttr){.dim = u.dims[k]}, g->b.span);
        return;
    }
    case 5: gir_picked(g, x, t, k); return;
    default: gir_reshape(g, x, t);
    }
}

/* A value without a space that shares a dim with t and has another, as the weights of a product have. */
static inline IrId gir_weight(Gir *g, const IrType *t)
{
    for (int tries = 0; tries < 20; tries++) {
        IrId y = gir_pick(g, t->dtype, t);
        if (y == IR_NONE) return IR_NONE;
        IrType u = irb_type(&g->b, y);
        bool shared = false;
        for (uint32_t k = 0; k < u.n_dims; k++) shared |= ir_type_has_dim(t, u.dims[k]);
        if (u.space == IR_UNIT && u.n_dims > 1 && shared) return y;
    }
    return IR_NONE;
}

static inline void gir_contract(Gir *g)
{
    GirRng *r = &g->r;
    IrDtype dtype = gir_below(r, 10) || g->smooth ? g->real : IR_I64;
    IrId x = gir_pick(g, dtype, NULL);
    if (x == IR_NONE) return;
    IrType t = irb_type(&g->b, x);
    IrId y = gir_below(r, 3) ? gir_pick(g, dtype, &t) : gir_weight(g, &t);
    if (y == IR_NONE) return;
    IrType u = irb_type(&g->b, y), all = ir_type_join(&t, &u), type = all;
    type.n_dims = 0;
    for (uint32_t k = 0; k < all.n_dims; k++) {
        bool shared = ir_type_has_dim(&t, all.dims[k]) && ir_type_has_dim(&u, all.dims[k]);
        if (gir_below(r, shared ? 3 : 6) < (shared ? 1u : 5u)) type.dims[type.n_dims++] = all.dims[k];
    }
    if (type.n_dims > 1 && gir_below(r, 3) == 0) {
        IrId d = type.dims[0];
        type.dims[0] = type.dims[type.n_dims - 1];
        type.dims[type.n_dims - 1] = d;
    }
    if (gir_below(r, 3) == 0) type.space = IR_UNIT;
    x = ir_add(g->b.m, g->b.f, IR_OP_contract, type, (IrId[]){x, y}, 2, (IrAttr){0}, g->b.span);
    if (dtype == g->real) irb_map1(&g->b, gir_below(r, 2) ? IR_OP_tanh : IR_OP_sin, x);
}

/* Ranks of x, of type t; the elements of a rank; or what a reducer picks by rank. */
static inline void gir_rank(Gir *g, IrId map, IrId x, IrType t)
{
    Build *b = &g->b;
    IrDtype dtype = t.dtype;
    IrType row = t;
    t.dtype = row.dtype = IR_I64;
    row.space = b->m->maps.data[map].to;
    IrId k = gir_pick(g, IR_I64, &row);
    bool fits = k != IR_NONE && gir_below(&g->r, 2);
    for (uint32_t i = 0; fits && i < irb_type(b, k).n_dims; i++) fits = ir_type_has_dim(&t, irb_type(b, k).dims[i]);
    if (fits) fits = irb_type(b, k).space == IR_UNIT || irb_type(b, k).space == row.space;
    if (!fits) k = irb_scalar(b, IR_I64, gir_below(&g->r, 4));
    uint32_t kind = gir_below(&g->r, 3);
    if (kind == 0 && row.space != IR_UNIT) {
        ir_add(b->m, b->f, IR_OP_nth, row, (IrId[]){x, k}, 2, (IrAttr){.map = map}, b->span);
        return;
    }
    IrId rank = irb_unary(b, IR_OP_rank, t, x, (IrAttr){.map = map});
    if (kind == 1) return;
    if (irb_type(b, k).space != IR_UNIT) k = irb_gather(b, map, k);
    IrId some = irb_select(b, irb_compare(b, IR_OP_eq, rank, k), x, irb_scalar(b, dtype, 0));
    irb_reduce(b, IR_OP_reduce_sum, map, some, 0);
}

static inline void gir_move(Gir *g)
{
    static const IrOpcode ops[] = {IR_OP_reduce_sum, IR_OP_reduce_sum, IR_OP_reduce_mul, IR_OP_reduce_max,
                                   IR_OP_reduce_min};
    GirRng *r = &g->r;
    for (int tries = 0; tries < 20; tries++) {
        IrId map = gir_below(r, g->b.m->maps.n);
        bool logic = !g->smooth && gir_below(r, 12) == 0;
        IrId x = gir_pick(g, logic ? IR_BOOL : gir_number(g), NULL);
        if (x == IR_NONE) continue;
        const IrMap *m = &g->b.m->maps.data[map];
        IrType t = irb_type(&g->b, x);
        if (m->to == t.space && gir_below(r, 2)) {
            irb_gather(&g->b, map, x);
            return;
        }
        if (m->from != t.space || logic) continue;
        if (!g->smooth && gir_below(r, 6) == 0) {
            gir_rank(g, map, x, t);
            return;
        }
        IrOpcode op = ops[gir_below(r, g->smooth ? 2 : 5)];
        if (op == IR_OP_reduce_mul && t.dtype == g->real) x = irb_map1(&g->b, IR_OP_cos, x);
        x = irb_reduce(&g->b, op, map, x, gir_below(r, 2) ? 0 : -3);
        if (t.dtype == g->real && op == IR_OP_reduce_sum) irb_map1(&g->b, IR_OP_tanh, x);
        return;
    }
}

/* exp(x - its row's maximum), or of the minimum minus x: their sum, and the sum of their products with something. */
static inline void gir_softmax(Gir *g)
{
    GirRng *r = &g->r;
    for (int tries = 0; tries < 20; tries++) {
        IrId map = gir_below(r, g->b.m->maps.n), x = gir_pick(g, g->real, NULL);
        if (x == IR_NONE || irb_type(&g->b, x).space != g->b.m->maps.data[map].from) continue;
        bool max = gir_below(r, 2);
        IrId b = irb_reduce(&g->b, max ? IR_OP_reduce_max : IR_OP_reduce_min, map, x, gir_below(r, 2) ? 0 : -3);
        b = irb_gather(&g->b, map, b);
        IrId p = irb_map1(&g->b, IR_OP_exp, irb_map2(&g->b, IR_OP_sub, max ? x : b, max ? b : x));
        IrType t = irb_type(&g->b, p);
        irb_reduce(&g->b, IR_OP_reduce_sum, map, p, 0);
        IrId y = gir_pick(g, g->real, &t);
        if (y == IR_NONE) return;
        y = irb_map2(&g->b, IR_OP_mul, p, y);
        if (irb_type(&g->b, y).space == t.space)
            irb_map1(&g->b, IR_OP_tanh, irb_reduce(&g->b, IR_OP_reduce_sum, map, y, 0));
        return;
    }
}

static inline void gir_op(Gir *g)
{
    switch (gir_below(&g->r, g->smooth ? 9 : 13)) {
    case 0: gir_leaf(g); return;
    case 1: gir_unary(g); return;
    case 2: gir_binary(g); return;
    case 3: gir_dims(g); return;
    case 4: gir_dims(g); return;
    case 5: gir_contract(g); return;
    case 6: gir_move(g); return;
    case 7: gir_move(g); return;
    case 8: gir_binary(g); return;
    case 9: gir_logic(g); return;
    case 10: gir_logic(g); return;
    case 11: gir_softmax(g); return;
    default: gir_cast(g);
    }
}

/* Results: what nobody uses, a few more, and updates of tensors whose type a value has. */
static inline void gir_results(Gir *g)
{
    IrModule *m = g->b.m;
    IrFunc *f = g->b.f;
    bool *used = ARENA_ARRAY(m->arena, bool, f->ops.n), *updated = ARENA_ARRAY(m->arena, bool, m->tensors.n + 1);
    for (IrId v = 0; v < f->ops.n; v++)
        for (uint32_t k = 0; k < f->ops.data[v].n_args; k++) used[f->ops.data[v].args[k]] = true;
    for (IrId v = 0; v < f->ops.n; v++) {
        bool take = !used[v] || gir_below(&g->r, 10) == 0;
        IrId tensor = IR_NONE;
        for (uint32_t t = 0; t < m->tensors.n && gir_below(&g->r, 2); t++)
            if (!updated[t] && f->ops.data[v].op != IR_OP_arg &&
                ir_type_eq(&m->tensors.data[t].type, &f->ops.data[v].type))
                tensor = t;
        if (!take && tensor == IR_NONE) continue;
        if (tensor != IR_NONE) updated[tensor] = true;
        ir_result(m, f, arena_printf(m->arena, "r%u", v), v, tensor);
    }
}

/* A scalar of the model's float type that hangs on `x`. */
static inline IrId gir_total(Gir *g, IrId x)
{
    IrType t = irb_type(&g->b, x), wanted = t;
    wanted.dtype = g->real;
    if (t.dtype != g->real) x = irb_unary(&g->b, IR_OP_cast, wanted, x, (IrAttr){0});
    if (gir_below(&g->r, 3) == 0) x = irb_map2(&g->b, IR_OP_mul, x, x);
    else x = irb_map1(&g->b, IR_OP_sin, x);
    return irb_fit(&g->b, x, ir_scalar(g->real));
}

static inline IrId gir_grad(Gir *g, IrId y, IrId x)
{
    return ir_add(g->b.m, g->b.f, IR_OP_grad, irb_type(&g->b, x), (IrId[]){y, x}, 2, (IrAttr){0}, g->b.span);
}

/* A scalar of up to four values that nobody uses, the last ones first; its gradients by every float argument; now and
   then the gradient of a gradient. */
static inline void gir_grads(Gir *g)
{
    const IrFunc *f = g->b.f;
    uint32_t n = f->ops.n, n_parts = 0;
    bool *used = ARENA_ARRAY(g->b.m->arena, bool, n);
    IrId loss = IR_NONE, first = IR_NONE;
    for (IrId v = 0; v < n; v++)
        for (uint32_t k = 0; k < f->ops.data[v].n_args; k++) used[f->ops.data[v].args[k]] = true;
    for (IrId v = n; v-- > 0 && n_parts < 4;) {
        if (used[v] || !ir_dtype_is_float(irb_type(&g->b, v).dtype)) continue;
        IrId part = gir_total(g, v);
        loss = loss == IR_NONE ? part : irb_map2(&g->b, IR_OP_add, loss, part);
        n_parts++;
    }
    for (IrId v = 0; v < n && loss != IR_NONE; v++) {
        if (irb_op(&g->b, v)->op != IR_OP_arg || irb_type(&g->b, v).dtype != g->real) continue;
        IrId d = gir_grad(g, loss, v);
        if (first == IR_NONE) first = d;
        else if (gir_below(&g->r, 40) == 0) gir_grad(g, gir_total(g, first), v);
    }
}

typedef struct GirOptions {
    uint32_t n_ops; /* about so many, gradients not counted */
    IrDtype real;
    bool smooth, grads;
} GirOptions;

/* A module with one function "f". */
static inline IrModule *gir_make(Arena *a, uint64_t seed, GirOptions o)
{
    Gir g = {.r = {seed * 0x9E3779B97F4A7C15u + 12345}, .real = o.real, .smooth = o.smooth};
    gir_below(&g.r, 2);
    g.b.m = gir_module(a, &g.r);
    g.b.f = ir_func_new(g.b.m, "f");
    gir_args(&g);
    gir_near(&g);
    gir_select(&g);
    while (g.b.f->ops.n < o.n_ops) gir_op(&g);
    if (o.grads) gir_grads(&g);
    gir_results(&g);
    return g.b.m;
}

static inline IrModule *gir_random(Arena *a, uint64_t seed, uint32_t n_ops, IrDtype real, bool smooth)
{
    return gir_make(a, seed, (GirOptions){n_ops, real, smooth, false});
}

/* Graphs with empty rows, loops, parallel edges, a hub, one node, no edges. */
enum { GIR_N_GRAPHS = 7 };
static inline EvalGraph gir_graph(Arena *a, uint32_t which, int64_t **graph_of, int64_t *n_graphs)
{
    static const int64_t nodes[GIR_N_GRAPHS] = {5, 1, 1, 4, 40, 9, 700},
                         edges[GIR_N_GRAPHS] = {9, 0, 3, 0, 620, 30, 800};
    int64_t n = nodes[which], m = edges[which];
    int64_t *src = ARENA_ARRAY(a, int64_t, m + 1), *dst = ARENA_ARRAY(a, int64_t, m + 1);
    GirRng r = {which * 77u + 5};
    for (int64_t e = 0; e < m; e++) {
        src[e] = gir_below(&r, (uint32_t)n);
        dst[e] = which == 4 && e % 2 ? 7 : gir_below(&r, (uint32_t)(n > 2 ? n - 1 : n)); /* node n-1 stays empty */
        if (e % 5 == 1) src[e] = dst[e];
        if (e && e % 4 == 3) src[e] = src[e - 1], dst[e] = dst[e - 1];
    }
    *n_graphs = n >= 4 ? 3 : 1;
    *graph_of = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t v = 0; v < n; v++) (*graph_of)[v] = n >= 4 && v >= n / 2 ? 2 : 0; /* graph 1 is empty */
    return (EvalGraph){n, n, m, src, dst};
}

static inline void gir_fill(EvalValue *v, GirRng *r)
{
    for (int64_t k = 0; k < v->rows * v->width; k++) {
        double x = ((int)gir_below(r, 4001) - 2000) / 1000.0;
        if (v->type.dtype == IR_F32) x = (double)(float)x;
        if (v->type.dtype == IR_BOOL) x = x > 0;
        else if (!ir_dtype_is_float(v->type.dtype)) x = floor(x * 4);
        v->v[k] = x;
    }
}
