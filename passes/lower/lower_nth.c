/* The elements of a row that have a given rank, for each feature of a tile, without sorting: what is looked for lies
   between the least and the greatest value, and each walk over the row halves the numbers between.

     low, high = least and greatest number of the row
     while low < high somewhere in the tile
       middle = the number halfway between, counted in numbers there are
       c = how many are <= middle; a = the greatest of those; b = the least of the others
       c > k: high = a, else low = b and `less` = c
     the element is the one that equals low for the (k - less)-th time, NaN where there are no more than k numbers

   Each walk leaves at most half of the numbers that a float has between low and high, so that 32 walks (64 in f64) do;
   rows of a dozen take some five. A row keeps no list, however long. -0 equals 0. Changes no value but by reading
   it. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"
#include <math.h>

typedef struct Search { /* of the features of one point */
    IrId v;
    const Point *p;
    KirType x, i;                      /* values, and integers of their size */
    KirId k, low, high, less, numbers; /* less: how many are below low; numbers: how many are not NaN */
    KirId middle, c, a, b;             /* of one walk */
    /* at the end: no number is meant; which of the equal ones is; how many came; the element */
    KirId behind, time, seen, id;
} Search;

typedef struct Nth {
    Lower *l;
    const IrOp *op; /* of the first */
    StageSpan row;
    Search *s;
    unsigned n;
    bool is_float;
} Nth;

static KirId op2(const Nth *n, KirOpcode op, KirId x, KirId y) { return emit_op2(&n->l->e, op, x, y); }
static KirId choose(const Nth *n, KirId yes, KirId x, KirId y) { return emit_select(&n->l->e, yes, x, y); }

static KirId count(const Nth *n, const Search *s, KirId yes) { return emit_convert(&n->l->e, s->i.base, yes); }

/* Above or below all numbers, or as far as the type goes. */
static KirId farthest(const Nth *n, const Search *s, bool above)
{
    return sum_identity(n->l, above ? KIR_min : KIR_max, s->x);
}

static KirId farther(const Nth *n, bool above, KirId x, KirId than)
{
    return choose(n, above ? op2(n, KIR_lt, than, x) : op2(n, KIR_lt, x, than), x, than);
}

/* ---- walks over the row ------------------------------------------------------------------------------------------ */

typedef void TakeBody(const Nth *n, Search *s, KirId x, KirId id);

static KirId element_id(const Nth *n, KirId element)
{
    const IrModule *m = n->l->f->m;
    IrId space = m->maps.data[n->op->attr.map].from;
    if (m->spaces.data[space].has_dim) return element;
    return emit_load(&n->l->e, lower_in(n->l, lower_map_buffer(n->l, PLAN_IDS, space)), kir_type(KIR_I64, 1), element,
                     1, 1);
}

static void walk(const Nth *n, bool ids, TakeBody *take)
{
    Lower *l = n->l;
    IrId map = n->op->attr.map;
    KirId position = emit_for(&l->e, n->row.lo, n->row.hi, 1, KIR_SEQ, "elements"),
          element = row_element(l, map, position);
    stage_enter(l, &n->row, element, position);
    KirId id = ids ? element_id(n, element) : KIR_NONE;
    for (unsigned i = 0; i < n->n; i++)
        take(n, &n->s[i], emit_splat(&l->e, point_full(l, n->op->args[0], element, &n->s[i].p->env), n->s[i].x.lanes),
             id);
    stage_leave(l, &n->row, 1);
    emit_end(&l->e);
}

static void take_bounds(const Nth *n, Search *s, KirId x, KirId id)
{
    (void)id;
    Emit *e = &n->l->e;
    emit_set(e, s->low, farther(n, false, x, s->low));
    emit_set(e, s->high, farther(n, true, x, s->high));
    emit_set(e, s->numbers, op2(n, KIR_add, s->numbers, count(n, s, op2(n, KIR_eq, x, x))));
}

static void take_half(const Nth *n, Search *s, KirId x, KirId id)
{
    (void)id;
    Emit *e = &n->l->e;
    KirId below = op2(n, KIR_le, x, s->middle), above = op2(n, KIR_lt, s->middle, x);
    emit_set(e, s->c, op2(n, KIR_add, s->c, count(n, s, below)));
    emit_set(e, s->a, farther(n, true, choose(n, below, x, farthest(n, s, false)), s->a));
    emit_set(e, s->b, farther(n, false, choose(n, above, x, farthest(n, s, true)), s->b));
}

/* Ids fit into integers of the values' size: no space has more than INT32_MAX elements (runtime/graph.c). */
static void take_found(const Nth *n, Search *s, KirId x, KirId id)
{
    Emit *e = &n->l->e;
    KirId same = choose(n, s->behind, op2(n, KIR_ne, x, x), op2(n, KIR_eq, x, s->low));
    KirId hit = op2(n, KIR_and, same, op2(n, KIR_eq, s->seen, s->time));
    emit_set(e, s->id, choose(n, hit, emit_splat(e, emit_convert(e, s->i.base, id), s->i.lanes), s->id));
    emit_set(e, s->seen, op2(n, KIR_add, s->seen, count(n, s, same)));
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Floats as integers in their order, both zeros as 0; and back. */
static KirId in_order(const Nth *n, const Search *s, KirId bits)
{
    Emit *e = &n->l->e;
    int64_t sign = s->i.base == KIR_I32 ? INT32_MIN : INT64_MIN;
    return choose(n, op2(n, KIR_lt, bits, emit_int(e, s->i, 0)), op2(n, KIR_sub, emit_int(e, s->i, sign), bits), bits);
}

static KirId bitcast(const Nth *n, KirType t, KirId x)
{
    return emit_ins(&n->l->e, (KirIns){.op = KIR_bitcast, .type = t, .args = {x, KIR_NONE, KIR_NONE}});
}

/* (x + y) / 2, downwards, without overflow. */
static KirId halfway(const Nth *n, const Search *s, KirId x, KirId y)
{
    Emit *e = &n->l->e;
    KirId half = op2(n, KIR_ashr, op2(n, KIR_xor, x, y), emit_int(e, s->i, 1));
    return op2(n, KIR_add, op2(n, KIR_and, x, y), half);
}

static KirId middle_of(const Nth *n, const Search *s)
{
    if (!n->is_float) return halfway(n, s, s->low, s->high);
    KirId low = in_order(n, s, bitcast(n, s->i, s->low)), high = in_order(n, s, bitcast(n, s->i, s->high));
    return bitcast(n, s->x, in_order(n, s, halfway(n, s, low, high)));
}

static KirId any_open(const Nth *n)
{
    KirId open = KIR_NONE;
    for (unsigned i = 0; i < n->n; i++) {
        KirId x = lanes_any(n->l, op2(n, KIR_lt, n->s[i].low, n->s[i].high));
        open = i ? op2(n, KIR_or, open, x) : x;
    }
    return open;
}

static void halve(const Nth *n)
{
    Emit *e = &n->l->e;
    for (unsigned i = 0; i < n->n; i++) {
        Search *s = &n->s[i];
        s->middle = middle_of(n, s);
        s->c = emit_var(e, "c", emit_int(e, s->i, 0));
        s->a = emit_var(e, "a", farthest(n, s, false));
        s->b = emit_var(e, "b", farthest(n, s, true));
    }
    walk(n, false, take_half);
    for (unsigned i = 0; i < n->n; i++) {
        Search *s = &n->s[i];
        KirId up = op2(n, KIR_le, s->c, s->k);
        emit_set(e, s->high, choose(n, up, s->high, s->a));
        emit_set(e, s->low, choose(n, up, s->b, s->low));
        emit_set(e, s->less, choose(n, up, s->c, s->less));
    }
}

static void begin(const Nth *n, Search *s)
{
    Emit *e = &n->l->e;
    KirId k = point_full(n->l, fused_op(n->l->f, s->v)->args[1], s->p->row, &s->p->env);
    KirType t = emit_type(e, k);
    k = op2(n, KIR_max, op2(n, KIR_min, k, emit_int(e, t, INT32_MAX)), emit_int(e, t, -1));
    s->k = emit_splat(e, emit_convert(e, s->i.base, k), s->i.lanes);
    s->low = emit_var(e, "low", farthest(n, s, true));
    s->high = emit_var(e, "high", farthest(n, s, false));
    s->numbers = emit_var(e, "numbers", emit_int(e, s->i, 0));
    s->less = emit_var(e, "less", emit_int(e, s->i, 0));
}

static void begin_last(const Nth *n, Search *s)
{
    Emit *e = &n->l->e;
    s->behind = op2(n, KIR_le, s->numbers, s->k);
    s->time = op2(n, KIR_sub, s->k, choose(n, s->behind, s->numbers, s->less));
    s->seen = emit_var(e, "seen", emit_int(e, s->i, 0));
    s->id = emit_var(e, "id", emit_int(e, s->i, -1));
}

/* Searches do not need each other: they share the walks. */
void heavy_nth(Lower *l, const IrId *ops, unsigned n_ops, const Point *p, unsigned n_points)
{
    const IrOp *op = fused_op(l->f, ops[0]);
    const IrType *t = &fused_op(l->f, op->args[0])->type;
    KirBase base = kir_base_of(t->dtype);
    bool narrow = base == KIR_F32 || base == KIR_I32;
    for (unsigned i = 0; i < n_ops; i++) /* of the same numbers */
        ICE_UNLESS(fused_op(l->f, ops[i])->op == IR_OP_nth && fused_op(l->f, ops[i])->args[0] == op->args[0]);
    Nth n = {.l = l,
             .op = op,
             .row = row_span(l, op->attr.map, p[0].row),
             .s = ARENA_ARRAY(l->arena, Search, n_ops * n_points),
             .n = n_ops * n_points,
             .is_float = ir_dtype_is_float(t->dtype)};
    for (unsigned i = 0; i < n.n; i++) {
        const Point *at = &p[i % n_points];
        unsigned lanes = env_lanes(&at->env, t);
        n.s[i] = (Search){.v = ops[i / n_points],
                          .p = at,
                          .x = kir_type(base, lanes),
                          .i = kir_type(narrow ? KIR_I32 : KIR_I64, lanes)};
        begin(&n, &n.s[i]);
    }
    walk(&n, false, take_bounds);
    emit_loop(&l->e);
    emit_break_if(&l->e, emit_op2(&l->e, KIR_xor, any_open(&n), emit_int(&l->e, kir_type(KIR_I1, 1), 1)));
    halve(&n);
    emit_end(&l->e);
    for (unsigned i = 0; i < n.n; i++) begin_last(&n, &n.s[i]);
    walk(&n, true, take_found);
    for (unsigned i = 0; i < n.n; i++) {
        const Search *x = &n.s[i];
        emit_freeze(&l->e, x->id);
        memo_put(l, x->v, x->p->row, &x->p->env, emit_convert(&l->e, KIR_I64, x->id));
    }
}
