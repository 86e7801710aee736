/* Cost model of fuse: a value that is stored is written once, with the read that a write allocates, and read by each
   consumer; one that is computed again costs its operations and its loads once per consumer.

     %5 = relu(gather %x) : edge[64]    stored: 2 x 256 bytes to memory, 256 per consumer and edge
                                        again: 64 operations and a gathered row per consumer and edge
   Before kernels are put together this is asked of one value (cost_compute, cost_write, cost_read), afterwards of all
   kernels as they stand (cost_function). Operations that lack the dim of the vectors run one at a time. It decides
   nothing and knows no graph. */
#include "passes/fuse/cost.h"
#include "base/ice.h"
#include "passes/context/price.h"
#include "passes/context/rows.h"

enum { MAX_CONE = 4096 };
static const double TOO_DEAR = 1e12;
/* a wide value of edges is stored only where computing it again costs more than so many times what storing it does */
static const double WIDE_FACTOR = 2;

double cost_rows(const IrModule *m, IrId space)
{
    ICE_UNLESS(space < m->spaces.n);
    return expected_rows(m, space) / EXPECTED_NODES;
}

static double width_of(const FusedFunc *f, const IrType *t) { return (double)ir_type_width(f->m, t); }

static double row_bytes(const FusedFunc *f, const IrType *t)
{
    return width_of(f, t) * (double)ir_dtype_bytes(t->dtype);
}

double cost_patience(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    return has_many_rows(f->m, t->space) && width_of(f, t) > (double)machine_line_of(f->machine, sizeof(float))
               ? WIDE_FACTOR
               : 1;
}

/* ---- a value's tree ---------------------------------------------------------------------------------- */

typedef struct Cone {
    Cost *c;
    const CostUse *use;
    IrId top;      /* the value in question */
    bool skip_top; /* it is read, not computed: the walk finds what its kernel does without it */
    uint32_t n;
    double ns;   /* per row of the value at the top */
    double part; /* of what is read now, one of so many places is */
} Cone;

static void add_load(Cone *c, IrId v, bool gathered)
{
    const IrType *t = &fused_op(c->c->f, v)->type;
    if (t->space == IR_UNIT) return; /* stays in the nearest cache */
    ICE_UNLESS(c->part >= 1);
    double bytes = row_bytes(c->c->f, t) / c->part;
    c->ns += gathered ? price_gather(c->c->f->machine, bytes) : price_stream(c->c->f->machine, bytes);
}

static void add_flops(Cone *c, const IrOp *op)
{
    const IrType *t = &op->type;
    bool vector = t->n_dims ? c->use->vec != IR_NONE && ir_type_has_dim(t, c->use->vec) : c->use->rows;
    if (t->space == IR_UNIT && !t->n_dims) return; /* once per kernel */
    c->ns += price_flops(c->c->f->machine, vector ? PRICE_vector : PRICE_scalar,
                         width_of(c->c->f, t) * ir_ops[op->op].flops);
}

/* root: v is computed here though it has a group. */
static void walk(Cone *c, IrId v, bool gathered, bool root)
{
    const FusedFunc *f = c->c->f;
    IrId s = root ? v : fused_storage(f, v);
    const IrOp *op = fused_op(f, s);
    if (c->c->mark[s] == c->c->epoch || (c->skip_top && s == c->top)) return;
    c->c->mark[s] = c->c->epoch;
    if (++c->n > MAX_CONE) {
        c->ns = TOO_DEAR;
        return;
    }
    if (!root && (op->op == IR_OP_arg || op_is_heavy(f->m, f->f, s) || f->group_of.data[s] != GROUP_NONE)) {
        add_load(c, s, gathered);
        return;
    }
    add_flops(c, op);
    gathered |= op->op == IR_OP_gather && f->m->maps.data[op->attr.map].to != IR_UNIT;
    double part = c->part;
    if (op->op == IR_OP_at) c->part *= (double)f->m->dims.data[op->attr.dim].size;
    for (uint32_t k = 0; k < op->n_args; k++) walk(c, op->args[k], gathered, false);
    c->part = part;
}

Cost cost_begin(const FusedFunc *f, Arena *a)
{
    return (Cost){.f = f, .mark = ARENA_ARRAY(a, uint32_t, f->f->ops.n + 1)};
}

double cost_compute(Cost *c, IrId v, const CostUse *u)
{
    Cone without = {.c = c, .use = u, .top = v, .skip_top = true, .part = 1},
         cone = {.c = c, .use = u, .top = v, .part = 1};
    c->epoch++;
    ICE_UNLESS(u->group == GROUP_NONE || u->group < c->f->groups.n);
    if (u->group != GROUP_NONE) {
        const Group *g = &c->f->groups.data[u->group];
        for (uint32_t i = 0; i < g->roots.n; i++) walk(&without, g->roots.data[i], false, true);
    }
    walk(&cone, v, false, true);
    return cone.ns * cost_rows(c->f->m, fused_op(c->f, v)->type.space);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

double cost_write(const FusedFunc *f, IrId v)
{
    const IrType *t = &fused_op(f, v)->type;
    return price_write(f->machine, row_bytes(f, t)) * cost_rows(f->m, t->space);
}

double cost_read(const FusedFunc *f, IrId v, const CostUse *u)
{
    const IrType *t = &fused_op(f, v)->type;
    double bytes = row_bytes(f, t),
           row = u->times > 1 ? price_gather(f->machine, bytes) : price_stream(f->machine, bytes);
    return row * u->times * cost_rows(f->m, t->space);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

enum { MOST_WALKS = 100, MOST_LOOPS = 26 /* that PLACE_LOOP and the bits above tell apart */ };

typedef struct Kernel {
    Price *p;
    uint32_t index;
    const Group *g;
    double ns;
    uint32_t loop[MOST_LOOPS], n_loops;
} Kernel;

/* v gets a place, or waits. */
static void meet(Price *p, IrId v)
{
    if (p->place[v] || p->waits[v]) return;
    VEC_PUSH(p->arena, &p->met, v);
    if (fused_op(p->f, v)->op == IR_OP_arg) return;
    if (v < p->first) p->first = v;
    if (v >= p->end) p->end = v + 1;
}

static void forget_met(Price *p)
{
    for (uint32_t i = 0; i < p->met.n; i++) p->place[p->met.data[i]] = p->waits[p->met.data[i]] = 0;
    p->met.n = p->end = 0;
    p->first = p->f->f->ops.n;
}

/* Twice the number of walks over the row that v waits for, and 1 if for an extreme. */
static unsigned waits_of(const Kernel *k, IrId v)
{
    const FusedFunc *f = k->p->f;
    const IrOp *op = fused_op(f, v);
    if (group_finds(f, k->index, v) || (op->op == IR_OP_gather && op->attr.map != k->g->map)) return 0;
    if (k->p->waits[v]) return k->p->waits[v] - 1u;
    unsigned walks = 0, extreme = 0;
    for (uint32_t i = 0; i < op->n_args; i++) {
        unsigned x = waits_of(k, op->args[i]);
        if (x / 2 > walks) walks = x / 2;
        extreme |= x & 1;
    }
    if (group_kind_of(f->f, f->m, v) == GROUP_ROWS) {
        if (walks < MOST_WALKS) walks++;
        extreme |= op->op == IR_OP_reduce_max || op->op == IR_OP_reduce_min;
    }
    ICE_UNLESS(2 * walks + extreme < UINT8_MAX);
    meet(k->p, v);
    k->p->waits[v] = (uint8_t)(2 * walks + extreme + 1);
    return 2 * walks + extreme;
}

/* A loop that sums, of each walk over the row, and one that fills arrays, which products interrupt. */
static uint32_t loop_of(Kernel *k, const GroupOp *x)
{
    const FusedFunc *f = k->p->f;
    if (k->g->kind != GROUP_ROWS) return PLACE_LOOP;
    uint32_t fills = group_has_inner(k->g, x->root), i = 0;
    uint32_t loop = waits_of(k, fills ? x->root : fused_op(f, x->root)->args[0]) / 2;
    for (uint32_t n = 0; n < k->g->inner.n && k->g->inner.data[n] <= x->root && fills; n++)
        if (group_kind_of(f->f, f->m, k->g->inner.data[n]) == GROUP_PRODUCT)
            fills += k->g->inner.data[n] == x->root ? 1 : 2;
    loop += fills << 8;
    while (i < k->n_loops && k->loop[i] != loop) i++;
    if (i == k->n_loops && i < MOST_LOOPS) k->loop[k->n_loops++] = loop;
    return (uint32_t)PLACE_LOOP << (i < MOST_LOOPS ? i : MOST_LOOPS - 1);
}

/* Once in each loop, whatever wants it there. Loops at elements that are summed have nothing to wait for, but where
   dear operations fill wide arrays. Half as many numbers of twice the bytes are in a vector. */
static void add_op(void *user, const GroupOp *x)
{
    Kernel *k = user;
    const FusedFunc *f = k->p->f;
    IrId v = x->v, space = x->space;
    const IrOp *op = fused_op(f, v);
    GroupKind kind = group_kind_of(f->f, f->m, v);
    if (op->type.space == IR_UNIT && kind == GROUP_MAP) space = IR_UNIT;
    uint32_t place = space == IR_UNIT ? PLACE_UNIT : space == k->g->space ? PLACE_ROW : loop_of(k, x);
    bool seen = k->p->place[v] & place;
    meet(k->p, v);
    k->p->place[v] |= place;
    if (!x->element) k->p->place[v] |= PLACE_GATHERED;
    if (place >= PLACE_LOOP && waits_of(k, v) & 1) k->p->place[v] |= PLACE_EXTREME;
    if (seen) return;
    double width = width_of(f, &op->type), n = width, wide = (double)ir_dtype_bytes(op->type.dtype) / sizeof(float), ns;
    bool inside = kind == GROUP_DIMS;
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n_dims = inside || op->op == IR_OP_contract ? reduced_dims(f->f, op, dims) : 0;
    while (n_dims-- > 0) n *= (double)f->m->dims.data[dims[n_dims]].size;
    if (op->op == IR_OP_contract && !inside) ns = price_flops(f->machine, PRICE_product, n * ir_ops[op->op].flops);
    else if (k->g->kind == GROUP_ROWS && !value_is_dear(f, v))
        ns = price_inner(f->machine, n, (inside ? n + width * ORDER_PARTIALS : n) * ir_ops[op->op].flops);
    else
        ns = price_flops(f->machine, inside || op->type.n_dims ? PRICE_vector : PRICE_scalar, n * ir_ops[op->op].flops);
    k->ns += ns * (wide > 1 ? wide : 1) * cost_rows(f->m, space);
}

/* Elements in the order of a list, and rows through another map than the one that the group sums over. */
static void add_read(Kernel *k, const GroupRead *r)
{
    const FusedFunc *f = k->p->f;
    const IrOp *op = fused_op(f, r->v);
    double bytes = row_bytes(f, &op->type) / (double)r->part,
           patience = op->op == IR_OP_arg ? 1 : cost_patience(f, r->v);
    if (op->type.space == IR_UNIT) return; /* stays in the nearest cache */
    const IrMap *map = k->g->map == IR_NONE ? NULL : &f->m->maps.data[k->g->map];
    bool by_list = map && !map->sorted, elsewhere = r->map != IR_NONE && r->map != k->g->map && r->space != IR_UNIT;
    if (elsewhere && (by_list || !f->m->maps.data[r->map].sorted))
        k->ns += price_gather(f->machine, bytes) * cost_rows(f->m, r->space) * patience;
    else if (by_list && r->map == IR_NONE && op->type.space == map->from)
        k->ns += price_listed(f->machine, bytes) * cost_rows(f->m, r->space) * patience;
    else k->ns += price_stream(f->machine, bytes) * cost_rows(f->m, op->type.space) * patience;
}

/* Group g has it in memory. */
static bool is_loaded(const FusedFunc *f, uint32_t g, IrId v)
{
    return f->group_of.data[v] != g && !group_has_copy(f, g, v);
}

void cost_kernel(Price *p, uint32_t g)
{
    ICE_UNLESS(g < p->f->groups.n && !p->f->groups.data[g].dead);
    Kernel k = {.p = p, .index = g, .g = &p->f->groups.data[g]};
    GroupReads *reads = &p->reads[g];
    IrValues *loads = &p->loads[g];
    for (uint32_t i = 0; i < loads->n; i++) p->readers[loads->data[i]]--;
    loads->n = reads->reads.n = 0;
    group_reads(p->f, g, p->arena, reads);
    forget_met(p);
    group_ops(p->f, g, p->arena, add_op, &k);
    for (uint32_t i = 0; i < k.g->inner.n; i++) { /* the arrays of others are in the rates of what fills them */
        IrId v = k.g->inner.data[i];
        const IrType *t = &fused_op(p->f, v)->type;
        if (p->f->group_of.data[v] == GROUP_NONE)
            k.ns += price_kept(p->f->machine, width_of(p->f, t), row_bytes(p->f, t)) * cost_rows(p->f->m, t->space);
    }
    for (uint32_t i = 0; i < reads->reads.n; i++) {
        const GroupRead *r = &reads->reads.data[i];
        bool first = is_loaded(p->f, g, r->v);
        if (first) meet(p, r->v), p->place[r->v] |= r->element ? PLACE_READ : PLACE_GATHERED;
        for (uint32_t j = 0; j < i && first; j++) {
            const GroupRead *o = &reads->reads.data[j];
            first = o->v != r->v || o->space != r->space || o->map != r->map;
        }
        if (first) add_read(&k, r);
        if (!is_loaded(p->f, g, r->v) || p->f->group_of.data[r->v] == GROUP_NONE || values_have(loads, r->v)) continue;
        VEC_PUSH(p->arena, loads, r->v);
        p->readers[r->v]++;
    }
    p->kernel[g] = k.ns;
}

Price cost_groups(const FusedFunc *f, Arena *a)
{
    uint32_t n = f->f->ops.n + 1;
    Price p = {.f = f,
               .arena = a,
               .reads = ARENA_ARRAY(a, GroupReads, f->groups.n + 1),
               .kernel = ARENA_ARRAY(a, double, f->groups.n + 1),
               .loads = ARENA_ARRAY(a, IrValues, f->groups.n + 1),
               .readers = ARENA_ARRAY(a, uint32_t, n),
               .write = ARENA_ARRAY(a, double, n),
               .place = ARENA_ARRAY(a, uint32_t, n),
               .waits = ARENA_ARRAY(a, uint8_t, n)};
    for (uint32_t i = 0; i < f->f->results.n; i++) p.readers[f->f->results.data[i].value] = 1;
    for (IrId v = 0; v < f->f->ops.n; v++)
        p.write[v] = cost_write(f, v) * (cost_patience(f, v) + has_many_rows(f->m, fused_op(f, v)->type.space));
    for (uint32_t g = 0; g < f->groups.n; g++)
        if (!f->groups.data[g].dead) cost_kernel(&p, g);
    return p;
}

bool cost_stores(const Price *p, IrId v) { return p->readers[v] > 0; }

double cost_function(const Price *p)
{
    const FusedFunc *f = p->f;
    double ns = 0;
    for (uint32_t g = 0; g < f->groups.n; g++)
        if (!f->groups.data[g].dead) ns += p->kernel[g];
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (cost_stores(p, v)) ns += p->write[v];
    return ns;
}

double cost_around(const Price *p, uint32_t g)
{
    const IrValues *loads = &p->loads[g];
    double ns = p->kernel[g];
    for (uint32_t i = 0; i < loads->n; i++)
        if (p->readers[loads->data[i]] == 1) ns += p->write[loads->data[i]];
    return ns;
}

double cost_edge_bytes(const Price *p)
{
    const FusedFunc *f = p->f;
    double bytes = 0;
    for (IrId v = 0; v < f->f->ops.n; v++) {
        const IrType *t = &fused_op(f, v)->type;
        if (cost_stores(p, v) && has_many_rows(f->m, t->space)) bytes += row_bytes(f, t) * cost_rows(f->m, t->space);
    }
    return bytes;
}
