/* Random well-typed graph IR, with infinities and NaN among its inputs: every value must have the
   same bits, up to the sign of a zero, behind simplify, cse and dce as before (powers, which
   simplify spells out, within a few units in the last place). A second run differentiates random
   smooth programs twice and compares pass orders. */
#include "ir/eval.h"
#include "passes/rewrite/rewrite.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <math.h>

enum { N_PROGRAMS = 1500, N_OPS = 24, N_GRADS = 250 };

typedef struct Rng {
    uint64_t s;
} Rng;
static uint32_t below(Rng *r, uint32_t n)
{
    r->s = r->s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->s >> 33) % n;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

enum { SPACE_NODE = 1, SPACE_EDGE = 2, MAP_SRC = 0, MAP_DST, MAP_NODE_ALL, MAP_EDGE_ALL };
enum { DIM_F, DIM_O, DIM_FO, DIM_P };

static IrModule *new_module(Arena *a)
{
    IrModule *m = ir_module_new(a, "random");
    ir_dim_new(m, "F", 3);
    ir_dim_new(m, "O", 2);
    ir_dim_new(m, "FO", 6);
    ir_dim_new(m, "P", 2);
    ir_space_new(m, "node", false);
    ir_space_new(m, "edge", true);
    ir_map_new(m, "edge.src", SPACE_EDGE, SPACE_NODE);
    m->maps.data[ir_map_new(m, "edge.dst", SPACE_EDGE, SPACE_NODE)].sorted = true;
    ir_map_new(m, "node.all", SPACE_NODE, IR_UNIT);
    ir_map_new(m, "edge.all", SPACE_EDGE, IR_UNIT);
    IrGraph g = {.name = "g", .edge = SPACE_EDGE, .src_space = SPACE_NODE, .dst_space = SPACE_NODE};
    g.src = MAP_SRC, g.dst = MAP_DST, g.base = g.orig = g.image = IR_NONE;
    VEC_PUSH(a, &m->graphs, g);
    return m;
}

static IrType random_type(Rng *r)
{
    static const IrId dims[5][2] = {{0}, {DIM_F}, {DIM_O}, {DIM_F, DIM_O}, {DIM_O, DIM_F}};
    static const uint8_t n[5] = {0, 1, 1, 2, 2};
    uint32_t k = below(r, 5);
    IrType t = {.space = below(r, 3), .dtype = IR_F64, .n_dims = n[k]};
    for (uint8_t i = 0; i < n[k]; i++) t.dims[i] = dims[k][i];
    return t;
}

static void add_args(Build *b, Rng *r)
{
    for (uint32_t i = 0; i < 5; i++) {
        IrTensor t = {.name = arena_printf(b->m->arena, "t%u", i), .kind = IR_INPUT, .type = random_type(r)};
        for (uint8_t k = 0; k < t.type.n_dims; k++) t.stored_perm[k] = k;
        VEC_PUSH(b->m->arena, &b->m->tensors, t);
        ir_arg(b->m, b->f, (IrArg){.name = t.name, .ref = i, .type = t.type});
    }
}

/* A value of the dtype that joins type `with` pointwise (IR_NONE space: anything), or IR_NONE. */
static IrId pick(const Build *b, Rng *r, IrDtype t, const IrType *with)
{
    for (int tries = 0; tries < 30; tries++) {
        IrId v = below(r, b->f->ops.n);
        IrType x = irb_type(b, v);
        if (x.dtype != t) continue;
        if (!with || x.space == with->space || x.space == IR_UNIT || with->space == IR_UNIT) return v;
    }
    return IR_NONE;
}

static void add_const(Build *b, Rng *r)
{
    static const double values[] = {0, -0.0, 1, -1, 2, -0.5, 3, 0.1, 1, 0};
    IrType type = random_type(r);
    if (below(r, 2)) type = ir_scalar(IR_F64);
    irb_const(b, type, values[below(r, 10)]);
}

static void add_unary(Build *b, Rng *r)
{
    static const IrOpcode ops[] = {IR_OP_neg,  IR_OP_neg,  IR_OP_abs,     IR_OP_sign, IR_OP_floor, IR_OP_exp,
                                   IR_OP_tanh, IR_OP_sqrt, IR_OP_sigmoid, IR_OP_sin,  IR_OP_detach};
    irb_map1(b, ops[below(r, 11)], pick(b, r, IR_F64, NULL));
}

static void add_binary(Build *b, Rng *r, bool smooth)
{
    static const IrOpcode ops[] = {IR_OP_add, IR_OP_sub, IR_OP_mul, IR_OP_mul, IR_OP_add,
                                   IR_OP_div, IR_OP_min, IR_OP_max, IR_OP_pow};
    IrId x = pick(b, r, IR_F64, NULL);
    IrType t = irb_type(b, x);
    IrId y = pick(b, r, IR_F64, &t);
    if (y == IR_NONE) return;
    IrOpcode op = ops[below(r, smooth ? 5 : 9)];
    double c;
    /* Nothing here may tell the zeros apart: the interpreter has but one. */
    if (op == IR_OP_pow) x = irb_map1(b, IR_OP_abs, x);
    if (op == IR_OP_div && !(irb_is_const(b, y, &c) && c != 0))
        y = irb_map2(b, IR_OP_add, irb_map1(b, IR_OP_abs, y), irb_scalar(b, IR_F64, 0.5));
    irb_map2(b, op, x, y);
}

static void add_compare(Build *b, Rng *r)
{
    static const IrOpcode ops[] = {IR_OP_eq, IR_OP_ne, IR_OP_lt, IR_OP_le};
    IrId x = pick(b, r, IR_F64, NULL);
    IrType t = irb_type(b, x);
    IrId y = pick(b, r, IR_F64, &t);
    if (y != IR_NONE) irb_compare(b, ops[below(r, 4)], x, y);
}

static void add_logic(Build *b, Rng *r)
{
    IrId c = pick(b, r, IR_BOOL, NULL);
    if (c == IR_NONE) return;
    IrType t = irb_type(b, c);
    IrId d = pick(b, r, IR_BOOL, &t), x = pick(b, r, IR_F64, &t);
    switch (below(r, 4)) {
    case 0: irb_map1(b, IR_OP_not, c); return;
    case 1:
        if (d != IR_NONE) irb_map2(b, below(r, 2) ? IR_OP_and : IR_OP_or, c, d);
        return;
    case 2: {
        IrType f = t;
        f.dtype = IR_F64;
        irb_unary(b, IR_OP_cast, f, c, (IrAttr){0});
        return;
    }
    default: {
        IrType join = x == IR_NONE ? t : ir_type_join(&t, &(IrType){irb_type(b, x).space, 0, 0, {0}});
        IrId y = x == IR_NONE ? IR_NONE : pick(b, r, IR_F64, &join);
        if (y != IR_NONE) irb_select(b, c, x, y);
    }
    }
}

static void add_dims(Build *b, Rng *r)
{
    IrId x = pick(b, r, IR_F64, NULL);
    IrType t = irb_type(b, x), u = t;
    static const IrOpcode ops[] = {IR_OP_sum_dims, IR_OP_max_dims, IR_OP_min_dims};
    bool both = t.n_dims == 2 && ir_type_has_dim(&t, DIM_F) && ir_type_has_dim(&t, DIM_O);
    if (both && below(r, 3) == 0) {
        u.dims[0] = t.dims[1], u.dims[1] = t.dims[0];
        irb_unary(b, IR_OP_transpose, u, x, (IrAttr){0});
    } else if (both && below(r, 3) == 0) {
        u.n_dims = 1, u.dims[0] = DIM_FO;
        x = irb_unary(b, IR_OP_reshape, u, x, (IrAttr){0});
        irb_unary(b, IR_OP_reshape, t, x, (IrAttr){0});
    } else if (t.n_dims == 1 && t.dims[0] == DIM_F) {
        u.dims[0] = DIM_P;
        x = irb_unary(b, IR_OP_slice, u, x, (IrAttr){.dim = DIM_F, .i = below(r, 2)});
        if (below(r, 2)) {
            u.dims[0] = DIM_FO;
            ir_add(b->m, b->f, IR_OP_concat, u, (IrId[]){x, x, x}, 3, (IrAttr){.dim = DIM_FO}, b->span);
        }
    } else if (t.n_dims) {
        u.n_dims = (uint8_t)below(r, t.n_dims);
        irb_unary(b, ops[below(r, 3)], u, x, (IrAttr){0});
    }
}

static void add_contract(Build *b, Rng *r)
{
    IrId x = pick(b, r, IR_F64, NULL);
    IrType t = irb_type(b, x);
    IrId y = pick(b, r, IR_F64, &t);
    if (y == IR_NONE) return;
    IrType u = irb_type(b, y), type = ir_type_join(&t, &u);
    if (type.n_dims) type.dims[0] = type.dims[type.n_dims - 1], type.n_dims--;
    if (below(r, 3) == 0) type.space = IR_UNIT;
    ir_add(b->m, b->f, IR_OP_contract, type, (IrId[]){x, y}, 2, (IrAttr){0}, b->span);
}

static void add_move(Build *b, Rng *r, bool smooth)
{
    static const IrOpcode ops[] = {IR_OP_reduce_sum, IR_OP_reduce_sum, IR_OP_reduce_max, IR_OP_reduce_min,
                                   IR_OP_reduce_mul};
    IrId x = pick(b, r, IR_F64, NULL), space = irb_type(b, x).space;
    if (space == IR_UNIT) irb_gather(b, below(r, 2) ? MAP_NODE_ALL : MAP_EDGE_ALL, x);
    else if (space == SPACE_NODE && below(r, 3)) irb_gather(b, below(r, 2) ? MAP_SRC : MAP_DST, x);
    else if (space == SPACE_NODE) irb_reduce(b, IR_OP_reduce_sum, MAP_NODE_ALL, x, 0);
    else if (below(r, 3)) irb_reduce(b, ops[below(r, smooth ? 2 : 5)], below(r, 2) ? MAP_SRC : MAP_DST, x, 0);
    else irb_reduce(b, IR_OP_reduce_sum, MAP_EDGE_ALL, x, 0);
}

static void add_broadcast(Build *b, Rng *r)
{
    IrId x = pick(b, r, IR_F64, NULL);
    IrType t = irb_type(b, x), type = t;
    if (t.space == IR_UNIT) type.space = below(r, 3);
    if (!ir_type_has_dim(&t, DIM_F) && !ir_type_has_dim(&t, DIM_FO) && t.n_dims < 2) type.dims[type.n_dims++] = DIM_F;
    irb_broadcast(b, x, type);
}

static void add_random(Build *b, Rng *r, bool smooth)
{
    switch (below(r, smooth ? 8 : 11)) {
    case 0: add_const(b, r); return;
    case 1:
        if (smooth) irb_map1(b, below(r, 2) ? IR_OP_tanh : IR_OP_sin, pick(b, r, IR_F64, NULL));
        else add_unary(b, r);
        return;
    case 2:
    case 3: add_binary(b, r, smooth); return;
    case 4: add_dims(b, r); return;
    case 5: add_contract(b, r); return;
    case 6: add_move(b, r, smooth); return;
    case 7: add_broadcast(b, r); return;
    case 8: add_compare(b, r); return;
    default: add_logic(b, r);
    }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const int64_t edge_src[] = {1, 0, 0, 3, 2};
static const int64_t edge_dst[] = {0, 1, 1, 2, 2};
static const EvalGraph graph = {4, 4, 5, edge_src, edge_dst};

static EvalValue **run(Arena *a, const IrModule *m, uint32_t seed, bool tame)
{
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1};
    const char *why = "";
    const IrFunc *f = m->funcs.data[0];
    const EvalWorld *w = eval_world(a, m, &graph, NULL, 0, &why);
    if (!check(w != NULL, "%s", why)) return NULL;
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n);
    Rng r = {seed};
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        for (int64_t k = 0; k < args[i]->rows * args[i]->width; k++)
            args[i]->v[k] = !tame && below(&r, 4) == 0 ? special[below(&r, 7)] : (int)below(&r, 4001) / 1000.0 - 2;
    }
    EvalValue **results = eval_func(a, m, w, f, args, &why);
    check(results != NULL, "%s", why);
    return results;
}

static const IrModule *run_passes(Arena *a, const IrModule *m, const char *list)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    ctx.verify = PASS_VERIFY_ROUNDTRIP;
    bool ok = ir_verify(m, &d) && pass_option_run(&ctx, list);
    const IrModule *done = ok ? pass_run_pipeline(&ctx, m) : NULL;
    StrBuf text = {.arena = a};
    diags_print(&d, &text, false);
    check(done != NULL, "%s", strbuf_cstr(&text));
    return done;
}

static bool same(double x, double y, double tolerance)
{
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (tolerance > 0) return x == y || fabs(x - y) <= tolerance * fmax(1e-3, fabs(y));
    return x == y;
}

static void compare(const IrModule *m, EvalValue **found, EvalValue **wanted, uint32_t n, double tolerance, Arena *a)
{
    for (uint32_t i = 0; i < n; i++)
        for (int64_t k = 0; k < wanted[i]->rows * wanted[i]->width; k++) {
            double x = found[i]->v[k], y = wanted[i]->v[k];
            if (same(x, y, tolerance)) continue;
            StrBuf text = {.arena = a};
            ir_print(m, &text);
            fputs(strbuf_cstr(&text), stdout);
            check(false, "result %u element %d: %.17g, wanted %.17g", i, (int)k, x, y);
            return;
        }
}

static bool has_pow(const IrFunc *f)
{
    for (uint32_t v = 0; v < f->ops.n; v++)
        if (f->ops.data[v].op == IR_OP_pow) return true;
    return false;
}

/* Every value of a random program keeps its bits. */
static bool check_program(uint32_t seed)
{
    Arena *a = arena_new();
    Rng r = {seed * 7919u + 1};
    IrModule *m = new_module(a);
    Build b = {.m = m, .f = ir_func_new(m, "f")};
    add_args(&b, &r);
    while (b.f->ops.n < N_OPS) add_random(&b, &r, false);
    for (IrId v = 0; v < b.f->ops.n; v++) ir_result(m, b.f, arena_printf(a, "r%u", v), v, IR_NONE);
    const IrModule *done = run_passes(a, m, "simplify,cse,simplify,dce");
    EvalValue **wanted = run(a, m, seed, false), **found = done ? run(a, done, seed, false) : NULL;
    if (wanted && found) compare(m, found, wanted, b.f->results.n, has_pow(b.f) ? 1e-13 : 0, a);
    arena_free(a);
    return check_ok;
}

/* Gradients of a smooth random program are the same whatever else runs. */
static bool check_grads(uint32_t seed)
{
    Arena *a = arena_new();
    Rng r = {seed * 104729u + 3};
    IrModule *m = new_module(a);
    Build b = {.m = m, .f = ir_func_new(m, "f")};
    add_args(&b, &r);
    while (b.f->ops.n < N_OPS) add_random(&b, &r, true);
    IrId loss = irb_fit(&b, irb_map1(&b, IR_OP_tanh, b.f->ops.n - 1), ir_scalar(IR_F64));
    for (IrId v = 0; v < N_OPS; v += 2) {
        IrId g = ir_add(m, b.f, IR_OP_grad, irb_type(&b, v), (IrId[]){loss, v}, 2, (IrAttr){0}, b.span);
        ir_result(m, b.f, arena_printf(a, "g%u", v), g, IR_NONE);
    }
    IrId first = b.f->results.data[0].value;
    loss = irb_fit(&b, irb_map1(&b, IR_OP_sin, first), ir_scalar(IR_F64));
    IrId g = ir_add(m, b.f, IR_OP_grad, irb_type(&b, 1), (IrId[]){loss, 1}, 2, (IrAttr){0}, b.span);
    ir_result(m, b.f, "second", g, IR_NONE);
    const IrModule *plain = run_passes(a, m, "autodiff");
    const IrModule *full = run_passes(a, m, "simplify,cse,dce,autodiff,simplify,cse,dce");
    EvalValue **wanted = plain ? run(a, plain, seed, true) : NULL, **found = full ? run(a, full, seed, true) : NULL;
    if (wanted && found) compare(m, found, wanted, b.f->results.n, 1e-7, a);
    arena_free(a);
    return check_ok;
}

int main(int argc, char **argv)
{
    uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0, seed;
    check_begin();
    for (seed = first; seed < first + N_PROGRAMS && check_program(seed); seed++) continue;
    if (!check_ok) printf("seed %u\n", seed);
    check_end("passes random: every value keeps its bits");
    check_begin();
    for (seed = first; seed < first + N_GRADS && check_grads(seed); seed++) continue;
    if (!check_ok) printf("seed %u\n", seed);
    check_end("passes random: gradients do not depend on the other passes");
    return check_done();
}
