/* Nearest points: brute force inside each graph of a batch, with exact selection.

     for each block of 16 targets, one to a lane
       for each source u of their graphs
         d = sum over f, first to last, of (y[f] - x[u][f])^2 in f64         (no fma: as plain code computes it)
         if some lane has d below the last of its k best: d and u go to their place, behind what is as near

   Sources come by ascending index, so ties go to the lower one. A distance that is infinite or NaN counts as the
   greatest
   number: a list is always full. No lane's result depends on another's. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"
#include <float.h>
#include <math.h>

enum { MOST_KEPT = KIR_MAX_ALLOC_BYTES / 8 }; /* numbers of an array */
enum { ASSUMED_SOURCES = 1024 /* for costs */ };

typedef struct Nearest {
    Lower l;
    const IrGraph *g;
    const IrOp *op;
    KirType f64, i64, elem; /* of lanes; elem: of points */
    unsigned lanes;
    int64_t width, k;
    uint32_t x;               /* parameter */
    KirId y, best, who;       /* arrays [width][lanes], [k][lanes], [k][lanes]; y: KIR_NONE where it is too wide */
    KirId row, own, from, to; /* by lane: target, where its point begins; range of sources */
    KirId worst;
} Nearest;

static KirId array_new(Nearest *n, KirBase base, int64_t rows)
{
    return emit_ins(&n->l.e, (KirIns){.op = KIR_alloc, .type = kir_type(base, 1), .i = rows * n->lanes});
}

static KirId array_load(Nearest *n, KirId array, KirType t, KirId row)
{
    KirId at = emit_op2(&n->l.e, KIR_mul, row, emit_index(&n->l.e, n->lanes));
    return emit_ins(
        &n->l.e,
        (KirIns){
            .op = KIR_load, .type = t, .args = {at, KIR_NONE, KIR_NONE}, .buf = KIR_NONE, .alloc = array, .stride = 1});
}

static void array_store(Nearest *n, KirId array, KirType t, KirId row, KirId value)
{
    KirId at = emit_op2(&n->l.e, KIR_mul, row, emit_index(&n->l.e, n->lanes));
    emit_ins(
        &n->l.e,
        (KirIns){
            .op = KIR_store, .type = t, .args = {at, value, KIR_NONE}, .buf = KIR_NONE, .alloc = array, .stride = 1});
}

static KirId lanes_from(Nearest *n, uint32_t buf, KirType t, KirId index)
{
    if (n->lanes == 1) return emit_load(&n->l.e, buf, t, index, 1, 1);
    return emit_ins(&n->l.e, (KirIns){.op = KIR_gather,
                                      .type = t,
                                      .args = {index, KIR_NONE, KIR_NONE},
                                      .buf = buf,
                                      .alloc = KIR_NONE,
                                      .active = (uint8_t)n->lanes});
}

static KirId lane(Nearest *n, KirId v, unsigned which) { return n->lanes == 1 ? v : emit_part(&n->l.e, v, which, 1); }

/* The sources of each lane's graph: [from, to). */
static void find_sources(Nearest *n)
{
    Lower *l = &n->l;
    Emit *e = &l->e;
    n->from = emit_splat(e, emit_index(e, 0), n->lanes);
    n->to = emit_splat(e, lower_count(l, plan_count(l->f->m, n->g->src_space)), n->lanes);
    if (n->g->batch == IR_NONE) return;
    KirType i32 = kir_type(KIR_I32, n->lanes);
    uint32_t to = lower_in(l, lower_map_buffer(l, PLAN_MAP_TO, n->g->batch));
    uint32_t rows = lower_in(l, lower_map_buffer(l, PLAN_MAP_ROWS, n->g->batch));
    KirId graph = emit_convert(e, KIR_I64, lanes_from(n, to, i32, n->row));
    n->from = lanes_from(n, rows, n->i64, graph);
    n->to = lanes_from(n, rows, n->i64, emit_op2(e, KIR_add, graph, emit_splat(e, emit_index(e, 1), n->lanes)));
}

static KirId own_feature(Nearest *n, uint32_t buf, KirId f)
{
    Emit *e = &n->l.e;
    KirId at = emit_op2(e, KIR_add, n->own, emit_splat(e, f, n->lanes));
    return emit_convert(e, KIR_F64, lanes_from(n, buf, n->elem, at));
}

static void begin_block(Nearest *n, uint32_t y)
{
    Emit *e = &n->l.e;
    KirId zero = emit_index(e, 0);
    n->best = array_new(n, KIR_F64, n->k);
    n->who = array_new(n, KIR_I64, n->k);
    n->y = n->width * n->lanes <= MOST_KEPT ? array_new(n, KIR_F64, n->width) : KIR_NONE;
    KirId j = emit_for(e, zero, emit_index(e, n->k), 1, KIR_SEQ, "no neighbour yet");
    array_store(n, n->best, n->f64, j, emit_float(e, n->f64, INFINITY));
    array_store(n, n->who, n->i64, j, emit_int(e, n->i64, -1));
    emit_end(e);
    if (n->y == KIR_NONE) return;
    KirId f = emit_for(e, zero, emit_index(e, n->width), 1, KIR_SEQ, "the targets' points");
    array_store(n, n->y, n->f64, f, own_feature(n, y, f));
    emit_end(e);
}

static KirId distance(Nearest *n, uint32_t y, KirId u)
{
    Emit *e = &n->l.e;
    KirId sum = emit_var(e, "d", emit_float(e, n->f64, 0)), most = emit_float(e, n->f64, DBL_MAX);
    KirId first = emit_op2(e, KIR_mul, u, emit_index(e, n->width));
    KirId f = emit_for(e, emit_index(e, 0), emit_index(e, n->width), 1, KIR_SEQ, "features");
    KirId x = emit_load(e, n->x, kir_type(n->elem.base, 1), emit_op2(e, KIR_add, first, f), 1, 1);
    KirId own = n->y == KIR_NONE ? own_feature(n, y, f) : array_load(n, n->y, n->f64, f);
    KirId apart = emit_op2(e, KIR_sub, own, emit_splat(e, emit_convert(e, KIR_F64, x), n->lanes));
    emit_set(e, sum, emit_op2(e, KIR_add, sum, emit_op2(e, KIR_mul, apart, apart)));
    emit_end(e);
    return emit_select(e, emit_op2(e, KIR_lt, sum, most), sum, most);
}

/* Infinite for what is no source of the lane's graph, or the target itself. */
static KirId admitted(Nearest *n, KirId d, KirId u)
{
    Emit *e = &n->l.e;
    KirId at = emit_splat(e, u, n->lanes), never = emit_float(e, n->f64, INFINITY);
    if (n->g->batch != IR_NONE) {
        d = emit_select(e, emit_op2(e, KIR_lt, at, n->from), never, d);
        d = emit_select(e, emit_op2(e, KIR_lt, at, n->to), d, never);
    }
    bool others = n->g->src_space == n->g->dst_space && n->g->policy == IR_LOOPS_REMOVE;
    return others ? emit_select(e, emit_op2(e, KIR_eq, at, n->row), never, d) : d;
}

/* From the last place up: what is farther moves one place down. */
static void insert(Nearest *n, KirId d, KirId u)
{
    Emit *e = &n->l.e;
    KirId zero = emit_index(e, 0), last = emit_index(e, n->k - 1), at = emit_splat(e, u, n->lanes);
    KirId t = emit_for(e, zero, last, 1, KIR_SEQ, "places");
    KirId j = emit_op2(e, KIR_sub, last, t), before = emit_op2(e, KIR_sub, j, emit_index(e, 1));
    KirId above = array_load(n, n->best, n->f64, before), here = array_load(n, n->best, n->f64, j);
    KirId moves = emit_op2(e, KIR_lt, d, above), fits = emit_op2(e, KIR_lt, d, here);
    KirId who = emit_select(e, fits, at, array_load(n, n->who, n->i64, j));
    array_store(n, n->who, n->i64, j, emit_select(e, moves, array_load(n, n->who, n->i64, before), who));
    array_store(n, n->best, n->f64, j, emit_select(e, moves, above, emit_select(e, fits, d, here)));
    emit_end(e);
    KirId first = array_load(n, n->best, n->f64, zero), nearer = emit_op2(e, KIR_lt, d, first);
    array_store(n, n->who, n->i64, zero, emit_select(e, nearer, at, array_load(n, n->who, n->i64, zero)));
    array_store(n, n->best, n->f64, zero, emit_select(e, nearer, d, first));
    emit_set(e, n->worst, array_load(n, n->best, n->f64, last));
}

static void write_rows(Nearest *n, KirId first, KirId end)
{
    Lower *l = &n->l;
    Emit *e = &l->e;
    KirType i64 = kir_type(KIR_I64, 1);
    uint32_t rows = lower_in(l, lower_map_buffer(l, PLAN_MAP_ROWS, n->g->dst));
    uint32_t out = lower_out(l, plan_value_buffer(l->lf, l->root));
    KirId v = emit_for(e, first, end, 1, KIR_SEQ, "rows");
    KirId begin = emit_load(e, rows, i64, v, 1, 1);
    KirId count = emit_op2(e, KIR_sub, emit_load(e, rows, i64, emit_op2(e, KIR_add, v, emit_index(e, 1)), 1, 1), begin);
    KirId j = emit_for(e, emit_index(e, 0), count, 1, KIR_SEQ, "neighbours");
    KirId place = emit_op2(e, KIR_mul, j, emit_index(e, n->lanes * n->g->step));
    KirId at = emit_op2(e, KIR_add, place, emit_op2(e, KIR_sub, v, first));
    KirId who = emit_ins(e, (KirIns){.op = KIR_load,
                                     .type = i64,
                                     .args = {at, KIR_NONE, KIR_NONE},
                                     .buf = KIR_NONE,
                                     .alloc = n->who,
                                     .stride = 1});
    emit_store(e, out, emit_op2(e, KIR_add, begin, j), who, 1, 1);
    emit_end(e);
    emit_end(e);
}

static void block(Nearest *n, KirId index, KirId n_rows)
{
    Lower *l = &n->l;
    Emit *e = &l->e;
    uint32_t y = lower_in(l, plan_value_buffer(l->lf, fused_storage(l->f, n->op->args[0])));
    n->x = lower_in(l, plan_value_buffer(l->lf, fused_storage(l->f, n->op->args[1])));
    KirId size = emit_index(e, n->lanes), first = emit_op2(e, KIR_mul, index, size);
    KirId end = emit_op2(e, KIR_min, emit_op2(e, KIR_add, first, size), n_rows);
    KirId rows = emit_splat(e, first, n->lanes);
    if (n->lanes > 1) rows = emit_op2(e, KIR_add, rows, emit_lanes(e, KIR_I64, n->lanes));
    KirId last = emit_splat(e, emit_op2(e, KIR_sub, end, emit_index(e, 1)), n->lanes);
    n->row = emit_op2(e, KIR_min, rows, last); /* lanes behind the last row repeat it */
    n->own = emit_op2(e, KIR_mul, n->row, emit_splat(e, emit_index(e, n->width), n->lanes));
    find_sources(n);
    begin_block(n, y);
    n->worst = emit_var(e, "worst", emit_float(e, n->f64, INFINITY));
    KirId u = emit_for(e, lane(n, n->from, 0), lane(n, n->to, n->lanes - 1), 1, KIR_SEQ, "sources");
    KirId d = admitted(n, distance(n, y, u), u);
    emit_if(e, lanes_any(&n->l, emit_op2(e, KIR_lt, d, n->worst)));
    insert(n, d, u);
    emit_end(e);
    emit_end(e);
    write_rows(n, first, end);
}

void lower_nearest(LowerFunc *lf, uint32_t g)
{
    Nearest n = {0};
    Lower *l = &n.l;
    lower_begin(l, lf, g);
    l->root = lf->f->groups.data[g].roots.data[0];
    n.op = fused_op(lf->f, l->root);
    const IrModule *m = lf->f->m;
    n.g = group_nearest(lf->f, &lf->f->groups.data[g]);
    const IrType *points = &fused_op(lf->f, n.op->args[1])->type;
    n.width = ir_type_width(m, points);
    n.k = n.g->n_edges * n.g->step;
    n.lanes = rows_at_once(l);
    ICE_UNLESS(n.k * n.lanes <= MOST_KEPT);
    l->step->grain = l->s.grain;
    n.f64 = kir_type(KIR_F64, n.lanes);
    n.i64 = kir_type(KIR_I64, n.lanes);
    n.elem = kir_type(kir_base_of(points->dtype), n.lanes);
    KirId n_rows = lower_count(l, plan_count(m, n.g->dst_space));
    l->step->extent = (PlanCount){.kind = PLAN_BLOCKS, .space = n.g->dst_space, .block = n.lanes, .max = INT64_MAX};
    KirId index = emit_for(&l->e, emit_index(&l->e, 0), lower_count(l, l->step->extent), 1, KIR_THREADS,
                           "blocks of targets");
    emit_if(&l->e, emit_op2(&l->e, KIR_lt, emit_index(&l->e, 0), n_rows)); /* without rows there is a block too */
    block(&n, index, n_rows);
    emit_end(&l->e);
    emit_end(&l->e);
    PlanCost cost = {.count = plan_count(m, n.g->dst_space),
                     .bytes = ir_type_width(m, points) * 8 + n.g->n_edges * 8,
                     .flops = ASSUMED_SOURCES * (3 * n.width + 4),
                     .table = IR_NONE};
    VEC_PUSH(l->arena, &l->step->cost, cost);
    lower_finish(l, "nearest");
}
