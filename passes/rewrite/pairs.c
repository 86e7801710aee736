/* pairs: what an element's row and its key say together is computed once for each pair of a row and a key that occurs,
   not for each element, and not for each row and each value of the key. A relation that leads ten edges into a node is
   one pair:

     %4 = contract (gather %x via edge.src), (at %W, %k dim R) : edge[O]
     %5 = reduce_sum %4 via edge.dst : node[O]
     ->   %4 = reduce_sum (gather %x via edge.src) via P.pair : P[F]
          %5 = contract %4, (gather %W via P.key) : P[O]
          %6 = reduce_sum %5 via P.row : node[O]

   The rows of P, a graph `keyed`, lie by key, so that rows side by side read one matrix. Four forms end at pairs:
     summed    a sum over the key's values of what is 0 where a row has no element of a key
     linear    a sum over elements of products, linear in what else they say, with what row and key say
     product   a product that row and key of an element say, or what is made of it, read by the element
     read      of sums or extrema by key and row the one of an element's key
   Each is taken where as many pairs are expected as are clearly fewer than elements, and than rows times values of the
   key. Values agree within the error bound. Knows nothing of what a key means. */
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/rewrite/facts.h"
#include "passes/rewrite/one_hot.h"
#include "passes/rewrite/pairs.h"
#include <math.h>

/* How a value is made at pairs. Those with a row for each row that have the key's dim say at a pair what they say at
   its key. */
typedef enum {
    NOT,      /* something else says it */
    ONE,      /* the same everywhere */
    OF_KEY,   /* unit, with the key's dim: read by the pair's key */
    OF_ROW,   /* of rows: read by the pair's row */
    AT_ROW,   /* of elements: what their row says, its operand */
    AT_KEY,   /* of elements: the operand's place that the key says */
    SUMMED,   /* of rows: a sum or an extremum of elements by key */
    COMPUTED, /* computed of operands that are made at pairs */
} How;
enum { BY_ROW = 1, BY_KEY = 2, DEAR = 4, BY_SUMS = 8, GONE = 16 /* is 0 where a pair has no element */ };

typedef struct Made {
    uint8_t how, what;
} Made;

/* A key of a space of elements, with the rows that one map of these leads to. */
typedef struct Pairs {
    PairsExpected of; /* key: a value of the old function */
    Made *made;       /* [values] */
    IrId *at;         /* [values] one more than the value at pairs, in the new function */
    bool whole;       /* the key of every element is one of the dim's */
    bool used;
    IrId space, to_row, to_key, pair; /* once used: the pairs, and maps from these and to these */
} Pairs;

typedef enum { KEPT, FORM_SUMMED, FORM_LINEAR, FORM_PRODUCT, FORM_READ } Form;
typedef struct Plan {
    uint8_t form;
    bool wanted;
    Pairs *by;
    IrId carrier; /* linear: what is summed at pairs */
} Plan;

typedef struct Work {
    PassContext *ctx;
    Rewrite r;
    Facts *facts;         /* [values] */
    const uint32_t *uses; /* as rewrite_uses */
    const bool *pinned;
    VEC(Pairs) pairs;
    Plan *plans; /* [values] */
} Work;

static const IrOp *op_of(const Work *k, IrId v) { return &k->r.old->ops.data[v]; }
static const IrType *type_of(const Work *k, IrId v) { return &op_of(k, v)->type; }
static bool is_pinned(const Work *k, IrId v) { return k->pinned && k->pinned[v]; }
static IrId space_of_rows(const Work *k, const Pairs *p) { return k->r.b.m->maps.data[p->of.row].to; }

/* ---- what pairs say ---------------------------------------------------------------------------------------- */

static uint8_t what_of(const Pairs *p, const IrOp *op, uint8_t mask)
{
    uint8_t what = 0;
    for (uint32_t i = 0; i < op->n_args; i++) what |= p->made[op->args[i]].what;
    return what & mask;
}

/* A sum or extremum, by key, of what `select` leaves of the elements of a row. */
static bool is_by_key(const Work *k, const Pairs *p, const IrOp *op)
{
    bool sum = op->op == IR_OP_reduce_sum, most = op->op == IR_OP_reduce_max, least = op->op == IR_OP_reduce_min;
    OneHot hot;
    if ((!sum && !most && !least) || op->attr.map != p->of.row || is_pinned(k, op->args[0])) return false;
    const IrOp *chosen = op_of(k, op->args[0]), *other;
    if (chosen->op != IR_OP_select || !one_hot_is(k->r.old, k->pinned, chosen->args[0], &hot)) return false;
    other = op_of(k, chosen->args[2]);
    double nothing = sum ? 0 : most ? -INFINITY : INFINITY;
    return hot.index == p->of.key && hot.dim == p->of.dim && other->op == IR_OP_const && other->attr.f == nothing &&
           !ir_type_has_dim(type_of(k, chosen->args[1]), p->of.dim);
}

/* Is an operation of operands that are made at pairs made there as well? */
static bool is_local(const Work *k, const Pairs *p, const IrOp *op)
{
    IrId dim = p->of.dim;
    const IrType *x = op->n_args ? type_of(k, op->args[0]) : NULL;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (p->made[op->args[i]].how == NOT) return false;
    switch (op->op) {
    case IR_OP_const: return true;
    case IR_OP_contract:
        return ir_type_has_dim(&op->type, dim) ||
               (!ir_type_has_dim(x, dim) && !ir_type_has_dim(type_of(k, op->args[1]), dim));
    case IR_OP_sum_dims:
    case IR_OP_max_dims:
    case IR_OP_min_dims: return ir_type_has_dim(&op->type, dim) == ir_type_has_dim(x, dim);
    case IR_OP_transpose: return true;
    case IR_OP_reshape:
        if (x->space != op->type.space) return false;
        return !ir_type_has_dim(x, dim) ? !ir_type_has_dim(&op->type, dim)
                                        : x->dims[0] == dim && op->type.n_dims && op->type.dims[0] == dim;
    case IR_OP_slice: return op->attr.dim != dim && ir_type_has_dim(&op->type, dim) == ir_type_has_dim(x, dim);
    default: return op->n_args && ir_ops[op->op].traits & T_MAP && !(ir_ops[op->op].traits & T_RANDOM);
    }
}

static bool is_gone(const Pairs *p, IrId v) { return p->made[v].what & GONE; }

/* Is op 0 where its operands that are gone are? */
static bool stays_gone(const Work *k, const Pairs *p, const IrOp *op)
{
    unsigned sound = FACT_NONZERO | FACT_IN_RANGE;
    if (op->op == IR_OP_const) return op->attr.f == 0;
    if (op->op == IR_OP_mul || op->op == IR_OP_contract) return is_gone(p, op->args[0]) || is_gone(p, op->args[1]);
    if (op->op == IR_OP_div) return is_gone(p, op->args[0]) && (k->facts[op->args[1]] & sound) == sound;
    if (op->op == IR_OP_select) return is_gone(p, op->args[1]) && is_gone(p, op->args[2]);
    if (!(ir_ops[op->op].traits & (T_ZERO | T_DIMS)) || op->op == IR_OP_at) return false;
    for (uint32_t i = 0; i < op->n_args; i++)
        if (!is_gone(p, op->args[i])) return false;
    return op->n_args;
}

/* How old value v is made at pairs; its operands are known. */
static Made made_of(const Work *k, const Pairs *p, IrId v)
{
    const IrOp *op = op_of(k, v);
    const IrType *t = &op->type;
    IrId rows = space_of_rows(k, p), elements = p->of.base->edge;
    bool keyed = ir_type_has_dim(t, p->of.dim);
    uint8_t all = BY_ROW | BY_KEY | DEAR | BY_SUMS, none = op->op == IR_OP_const && op->attr.f == 0 ? GONE : 0;
    if (ir_op_is_of_autodiff(op->op)) return (Made){NOT, 0};
    if (t->space == IR_UNIT) return keyed ? (Made){OF_KEY, BY_KEY | none} : (Made){ONE, none};
    if (t->space == elements && !keyed) {
        if (op->op == IR_OP_gather && op->attr.map == p->of.row && p->made[op->args[0]].how)
            return (Made){AT_ROW, what_of(p, op, all)};
        bool at = op->op == IR_OP_at && op->attr.dim == p->of.dim && op->args[1] == p->of.key;
        if (at && p->made[op->args[0]].how == OF_KEY) return (Made){AT_KEY, BY_KEY | GONE};
        const IrOp *read = at ? op_of(k, op->args[0]) : NULL;
        if (at && read->op == IR_OP_gather && read->attr.map == p->of.row && p->made[read->args[0]].how >= SUMMED)
            return (Made){AT_KEY, what_of(p, read, all) | BY_ROW | BY_KEY | GONE};
    }
    if (t->space == rows && !keyed) return (Made){OF_ROW, BY_ROW | none};
    if (t->space == rows && is_by_key(k, p, op)) {
        bool gone = op->op == IR_OP_reduce_sum || op->attr.f == 0;
        return (Made){SUMMED, BY_ROW | BY_KEY | BY_SUMS | (gone ? GONE : 0)};
    }
    bool here = (t->space == elements && !keyed) || (t->space == rows && keyed);
    if (!here || is_pinned(k, v) || !is_local(k, p, op)) return (Made){NOT, 0};
    uint8_t what = what_of(p, op, all);
    bool by_key = op->op == IR_OP_contract && what & BY_KEY;
    return (Made){COMPUTED, what | (by_key ? DEAR : 0) | (stays_gone(k, p, op) ? GONE : 0)};
}

/* ---- where pairs are ----------------------------------------------------------------------------------------- */

static const IrGraph *graph_of(const IrModule *m, IrId edge)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].edge == edge) return &m->graphs.data[i];
    return NULL;
}

/* As many pairs as the data have, or of 16 elements of a row with keys at random. */
static void expect(const PassContext *ctx, const IrModule *m, PairsExpected *p)
{
    double keys = (double)m->dims.data[p->dim].size, rows = expected_rows(m, m->maps.data[p->row].to), each;
    p->elements = expected_rows(m, p->base->edge);
    p->sums = rows * keys;
    each = p->elements / rows;
    p->n = p->sums * (1 - pow(1 - 1 / keys, each));
    for (uint32_t i = 0; i < ctx->n_pairs && p->base->kind == IR_GRAPH_DATA; i++) {
        const PassPairs *x = &ctx->pairs[i];
        if (strcmp(x->input, m->tensors.data[p->tensor].name)) continue;
        bool to = p->row == p->base->dst;
        p->n = to ? x->dst_pairs : x->src_pairs;
        p->sums = (to ? x->dst_rows : x->src_rows) * keys;
        p->elements = x->edges;
    }
    if (p->n < 1) p->n = 1;
    if (p->n > p->elements) p->n = p->elements;
}

bool pairs_pay(const PairsExpected *p)
{
    return p->n <= PAIRS_CLEARLY * p->elements && p->n <= PAIRS_CLEARLY * p->sums;
}

/* Whether the pairs of an input can be made before a function is called. */
static bool is_graph_input(const PassContext *ctx, const char *name)
{
    bool found = !ctx->graph_inputs;
    for (uint32_t i = 0; i < ctx->n_graph_inputs; i++) found |= !strcmp(ctx->graph_inputs[i], name);
    return found;
}

bool pairs_expect(const PassContext *ctx, IrModule *m, const IrFunc *f, IrId key, IrId dim, IrId row, PairsExpected *p)
{
    const IrOp *op = &f->ops.data[key];
    const IrArg *arg = op->op == IR_OP_arg ? &f->args.data[op->attr.i] : NULL;
    const IrGraph *g = graph_of(m, op->type.space);
    const IrMap *map = &m->maps.data[row];
    if (!arg || arg->kind != IR_ARG_TENSOR || m->tensors.data[arg->ref].kind != IR_INPUT || !g) return false;
    if (g->redrawn || g->kind == IR_GRAPH_KEYED || op->type.n_dims || (row != g->dst && row != g->src)) return false;
    const IrTensor *t = &m->tensors.data[arg->ref];
    if (!is_graph_input(ctx, t->name) || map->partial || map->to == IR_UNIT || !ir_map_stays(m, row)) return false;
    if (t->is_map && m->maps.data[t->map].to != irb_rows_space(m, dim)) return false;
    *p = (PairsExpected){.key = key, .tensor = arg->ref, .dim = dim, .row = row, .base = g};
    expect(ctx, m, p);
    return true;
}

/* Where a value says the rows of dim `dim` that elements of a graph read, all of whose pairs are known at load. */
static void add_pairs(Work *k, IrId key, IrId dim)
{
    const IrGraph *g = graph_of(k->r.b.m, op_of(k, key)->type.space);
    IrId rows[] = {g ? g->dst : IR_NONE, g ? g->src : IR_NONE};
    for (int i = 0; g && i < 2; i++) {
        bool known = false;
        for (uint32_t j = 0; j < k->pairs.n; j++) {
            const PairsExpected *of = &k->pairs.data[j].of;
            known |= of->key == key && of->dim == dim && of->row == rows[i];
        }
        Pairs p = {.whole = irb_key_is_whole(k->r.b.m, k->r.old, key, k->r.b.m->dims.data[dim].size)};
        if (!known && pairs_expect(k->ctx, k->r.b.m, k->r.old, key, dim, rows[i], &p.of))
            VEC_PUSH(k->ctx->stage, &k->pairs, p);
    }
}

static void find_pairs(Work *k)
{
    const IrFunc *f = k->r.old;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = op_of(k, v);
        OneHot hot;
        if (op->op == IR_OP_at) add_pairs(k, op->args[1], op->attr.dim);
        else if (op->op == IR_OP_eq && one_hot_is(f, k->pinned, v, &hot)) add_pairs(k, hot.index, hot.dim);
    }
    for (uint32_t i = 0; i < k->pairs.n; i++) {
        Pairs *p = &k->pairs.data[i];
        p->made = ARENA_ARRAY(k->ctx->stage, Made, f->ops.n + 1);
        p->at = ARENA_ARRAY(k->ctx->stage, IrId, f->ops.n + 1);
        for (IrId v = 0; v < f->ops.n; v++) p->made[v] = made_of(k, p, v);
    }
}

/* ---- which form a value has ------------------------------------------------------------------------------------ */

/* Is the key's dim summed by op of something that is 0 where a row has no element of a key? */
static bool is_summed(const Work *k, const Pairs *p, const IrOp *op)
{
    bool gone = false, has = false, sums = false;
    if ((op->op != IR_OP_sum_dims && op->op != IR_OP_contract) || op->type.space != space_of_rows(k, p)) return false;
    for (uint32_t i = 0; i < op->n_args; i++) {
        const Made *x = &p->made[op->args[i]];
        if (x->how == NOT) return false;
        gone |= (x->what & GONE) != 0;
        sums |= (x->what & BY_SUMS) != 0;
        has |= ir_type_has_dim(type_of(k, op->args[i]), p->of.dim);
    }
    return gone && sums && has && !ir_type_has_dim(&op->type, p->of.dim);
}

/* What a sum of elements v is linear in, below the lowest product of it with what row and key say and nothing else
   reads; IR_NONE: v is no such product. */
static IrId carrier_of(const Work *k, const Pairs *p, IrId v)
{
    const IrOp *op = op_of(k, v);
    IrId below = IR_NONE;
    if (k->uses[v] != 1 || is_pinned(k, v) || op->type.space != p->of.base->edge || p->made[v].how) return IR_NONE;
    switch (op->op) {
    case IR_OP_neg:
    case IR_OP_transpose:
    case IR_OP_sum_dims: return carrier_of(k, p, op->args[0]);
    case IR_OP_reshape:
        return type_of(k, op->args[0])->space == op->type.space ? carrier_of(k, p, op->args[0]) : IR_NONE;
    case IR_OP_div: return p->made[op->args[1]].how ? carrier_of(k, p, op->args[0]) : IR_NONE;
    case IR_OP_mul:
    case IR_OP_contract:
        for (int i = 0; i < 2 && below == IR_NONE; i++) {
            const Made *with = &p->made[op->args[1 - i]];
            bool keyed = op->op == IR_OP_contract && (with->what & (BY_KEY | GONE)) == (BY_KEY | GONE);
            if (with->how == NOT || type_of(k, op->args[i])->space != op->type.space) continue;
            below = carrier_of(k, p, op->args[i]);
            if (below == IR_NONE && keyed) below = op->args[i];
        }
        return below;
    default: return IR_NONE;
    }
}

/* Elements without a pair read 0, so that v has to be gone there where the data may have such elements. */
static bool is_product(const Pairs *p, IrId v)
{
    uint8_t all = BY_ROW | BY_KEY | DEAR | (p->whole ? 0 : GONE);
    return p->made[v].how == COMPUTED && (p->made[v].what & all) == all;
}

/* The form of v, by the pairs of which there are the fewest. */
static Plan plan_of(const Work *k, IrId v)
{
    const IrOp *op = op_of(k, v);
    Plan best = {KEPT, false, NULL, IR_NONE};
    for (uint32_t i = 0; i < k->pairs.n; i++) {
        Pairs *p = &k->pairs.data[i];
        IrId carrier = IR_NONE;
        if (!pairs_pay(&p->of) || (best.by && best.by->of.n <= p->of.n)) continue;
        bool read = op->op == IR_OP_at && p->made[v].how == AT_KEY && p->made[v].what & BY_SUMS;
        if (op->op == IR_OP_reduce_sum && op->attr.map == p->of.row) carrier = carrier_of(k, p, op->args[0]);
        Form form = is_summed(k, p, op)                                      ? FORM_SUMMED
                    : carrier != IR_NONE                                     ? FORM_LINEAR
                    : read                                                   ? FORM_READ
                    : op->type.space == p->of.base->edge && is_product(p, v) ? FORM_PRODUCT
                                                                             : KEPT;
        if (form) best = (Plan){(uint8_t)form, false, p, carrier};
    }
    return best;
}

static void want(Work *k, IrId v) { k->plans[v].wanted = true; }

/* What v is made of at pairs. */
static void want_at(Work *k, Pairs *p, IrId v)
{
    const IrOp *op = op_of(k, v);
    if (p->at[v]) return;
    p->at[v] = true; /* seen; cleared when values are made */
    switch ((How)p->made[v].how) {
    case SUMMED: want(k, op_of(k, op->args[0])->args[1]); return;
    case AT_ROW: want_at(k, p, op->args[0]); return;
    case AT_KEY: want_at(k, p, p->made[op->args[0]].how ? op->args[0] : op_of(k, op->args[0])->args[0]); return;
    case COMPUTED:
        for (uint32_t i = 0; i < op->n_args; i++) want_at(k, p, op->args[i]);
        return;
    default: want(k, v); return;
    }
}

static void want_along(Work *k, const Plan *plan, IrId v)
{
    const IrOp *op = op_of(k, v);
    if (v == plan->carrier) want(k, v);
    else if (plan->by->made[v].how) want_at(k, plan->by, v);
    else
        for (uint32_t i = 0; i < op->n_args; i++) want_along(k, plan, op->args[i]);
}

/* From the results down: which values are still read, and how each is made. */
static void plan(Work *k)
{
    static const char *const forms[] = {[FORM_SUMMED] = "the sum over keys is one over pairs",
                                        [FORM_LINEAR] = "elements are summed by pair before the product",
                                        [FORM_PRODUCT] = "the product is one of each pair, which elements read",
                                        [FORM_READ] = "what is summed by key is read by pair"};
    const IrFunc *f = k->r.old;
    for (uint32_t i = 0; i < f->results.n; i++) want(k, f->results.data[i].value);
    for (IrId v = f->ops.n; v-- > 0;) {
        const IrOp *op = op_of(k, v);
        Plan *x = &k->plans[v];
        if (op->op == IR_OP_arg) x->wanted = true;
        if (!x->wanted) continue;
        *x = plan_of(k, v);
        x->wanted = true;
        IrId route = ir_route_of(k->r.b.m, f, op); /* what goes through a computed map reads it, too */
        if (route != IR_NONE) want(k, route);
        if (x->form == FORM_LINEAR) want_along(k, x, op->args[0]);
        else if (x->form == FORM_SUMMED)
            for (uint32_t i = 0; i < op->n_args; i++) want_at(k, x->by, op->args[i]);
        else if (x->form) want_at(k, x->by, v);
        else
            for (uint32_t i = 0; i < op->n_args; i++) want(k, op->args[i]);
        if (!x->form) continue;
        x->by->used = true;
        pass_remark_at(k->ctx, PASS_pairs, true, f, v, "%s: %.0f pairs, %.0f elements, %.0f rows times keys",
                       forms[x->form], x->by->of.n, x->by->of.elements, x->by->of.sums);
    }
}

/* ---- the space of pairs ------------------------------------------------------------------------------------------ */

static void make_space(Work *k, Pairs *p)
{
    IrModule *m = k->r.b.m;
    IrId key = irb_said_map(m, p->of.tensor, irb_rows_space(m, p->of.dim)), rows = space_of_rows(k, p);
    const IrGraph *g = NULL;
    ICE_UNLESS(key != IR_NONE); /* add_pairs saw to it */
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *x = &m->graphs.data[i];
        if (x->kind == IR_GRAPH_KEYED && x->batch == p->of.row && x->of == key) g = x;
    }
    if (!g) {
        const char *name = arena_printf(m->arena, "%s.%s", m->maps.data[p->of.row].name,
                                        m->tensors.data[p->of.tensor].name);
        IrGraph made = {.name = name,
                        .kind = IR_GRAPH_KEYED,
                        .base = (IrId)(graph_of(m, p->of.base->edge) - m->graphs.data),
                        .src_space = rows,
                        .dst_space = m->maps.data[key].to,
                        .orig = IR_NONE,
                        .batch = p->of.row,
                        .of = key,
                        .ratio = p->of.n / p->of.elements};
        made.edge = ir_space_new(m, name, true);
        made.src = ir_map_new(m, arena_printf(m->arena, "%s.row", name), made.edge, rows);
        made.dst = ir_map_new(m, arena_printf(m->arena, "%s.key", name), made.edge, made.dst_space);
        made.image = ir_map_new(m, arena_printf(m->arena, "%s.pair", name), p->of.base->edge, made.edge);
        m->maps.data[made.dst].sorted = true;
        m->maps.data[made.image].partial = true;
        VEC_PUSH(m->arena, &m->graphs, made);
        g = &m->graphs.data[m->graphs.n - 1];
    }
    p->space = g->edge, p->to_row = g->src, p->to_key = g->dst, p->pair = g->image;
    p->of.base = NULL; /* the table may have moved */
}

/* ---- values at pairs --------------------------------------------------------------------------------------------- */

static IrType pair_type(const Work *k, const Pairs *p, IrId v)
{
    IrType t = *type_of(k, v), of = t;
    of.space = p->space;
    of.n_dims = 0;
    for (uint8_t i = 0; i < t.n_dims; i++)
        if (t.dims[i] != p->of.dim) of.dims[of.n_dims++] = t.dims[i];
    return of;
}

/* Of x, unit with the key's dim, what each pair's key says. */
static IrId by_key(Work *k, const Pairs *p, IrId x)
{
    Build *b = &k->r.b;
    IrType t = irb_type(b, x), row = t, wanted = t;
    row.n_dims = 0;
    for (uint8_t i = 0; i < t.n_dims; i++)
        if (t.dims[i] != p->of.dim) row.dims[row.n_dims++] = t.dims[i];
    wanted.dims[0] = p->of.dim;
    memcpy(wanted.dims + 1, row.dims, row.n_dims * sizeof *row.dims);
    if (t.dims[0] != p->of.dim) x = irb_unary(b, IR_OP_transpose, wanted, x, (IrAttr){0});
    row.space = b->m->maps.data[p->to_key].to;
    return irb_gather(b, p->to_key, irb_unary(b, IR_OP_reshape, row, x, (IrAttr){0}));
}

static IrId at_pairs(Work *k, Pairs *p, IrId v);

static IrId make(Work *k, Pairs *p, IrId v)
{
    const IrOp *op = op_of(k, v);
    Build *b = &k->r.b;
    switch ((How)p->made[v].how) {
    case ONE: return k->r.map[v];
    case OF_KEY: return by_key(k, p, k->r.map[v]);
    case OF_ROW: return irb_gather(b, p->to_row, k->r.map[v]);
    case AT_ROW: return at_pairs(k, p, op->args[0]);
    case AT_KEY: {
        IrId read = p->made[op->args[0]].how ? op->args[0] : op_of(k, op->args[0])->args[0];
        return irb_fit(b, at_pairs(k, p, read), pair_type(k, p, v));
    }
    case SUMMED: {
        IrId x = k->r.map[op_of(k, op->args[0])->args[1]];
        IrType t = pair_type(k, p, op->args[0]);
        t.space = b->m->maps.data[p->pair].from;
        return irb_reduce(b, op->op, p->pair, irb_fit(b, x, t), op->attr.f);
    }
    case COMPUTED: {
        IrId *args = ARENA_ARRAY(b->m->arena, IrId, op->n_args + 1);
        for (uint32_t i = 0; i < op->n_args; i++) args[i] = at_pairs(k, p, op->args[i]);
        return ir_add(b->m, b->f, op->op, pair_type(k, p, v), args, op->n_args, op->attr, op->span);
    }
    case NOT: break;
    }
    ICE("a value that pairs do not say");
}

static IrId at_pairs(Work *k, Pairs *p, IrId v)
{
    if (!p->at[v]) {
        IrId x = make(k, p, v);
        p->at[v] = x + 1;
    }
    return p->at[v] - 1;
}

/* What each pair adds to a sum of elements. */
static IrId along(Work *k, const Plan *plan, IrId v)
{
    const IrOp *op = op_of(k, v);
    Build *b = &k->r.b;
    Pairs *p = plan->by;
    if (v == plan->carrier) return irb_reduce(b, IR_OP_reduce_sum, p->pair, k->r.map[v], 0);
    if (p->made[v].how) return at_pairs(k, p, v);
    IrId *args = ARENA_ARRAY(b->m->arena, IrId, op->n_args + 1);
    for (uint32_t i = 0; i < op->n_args; i++) args[i] = along(k, plan, op->args[i]);
    return ir_add(b->m, b->f, op->op, pair_type(k, p, v), args, op->n_args, op->attr, op->span);
}

static IrId summed(Work *k, Pairs *p, IrId v)
{
    const IrOp *op = op_of(k, v);
    Build *b = &k->r.b;
    IrType type = pair_type(k, p, v);
    IrId args[2], x;
    for (uint32_t i = 0; i < op->n_args; i++) args[i] = at_pairs(k, p, op->args[i]);
    if (op->op == IR_OP_sum_dims) x = irb_fit(b, args[0], type);
    else {
        IrType tx = irb_type(b, args[0]), ty = irb_type(b, args[1]), all = ir_type_join(&tx, &ty);
        x = all.n_dims == type.n_dims ? irb_fit(b, irb_map2(b, IR_OP_mul, args[0], args[1]), type)
                                      : ir_add(b->m, b->f, IR_OP_contract, type, args, 2, (IrAttr){0}, op->span);
    }
    return irb_reduce(b, IR_OP_reduce_sum, p->to_row, x, 0);
}

static IrId made_by(Work *k, IrId v)
{
    const Plan *plan = &k->plans[v];
    Pairs *p = plan->by;
    k->r.b.span = op_of(k, v)->span;
    if (plan->form == FORM_SUMMED) return summed(k, p, v);
    if (plan->form == FORM_LINEAR)
        return irb_reduce(&k->r.b, IR_OP_reduce_sum, p->to_row, along(k, plan, op_of(k, v)->args[0]), 0);
    return irb_fit(&k->r.b, irb_gather(&k->r.b, p->pair, at_pairs(k, p, v)), *type_of(k, v));
}

/* ---- one function ------------------------------------------------------------------------------------------------ */

static IrFunc *one_func(PassContext *ctx, IrModule *m, const IrFunc *old)
{
    Work k = {.ctx = ctx, .r = rewrite_begin(m, old), .pinned = rewrite_pinned(ctx->stage, old)};
    uint32_t n = old->ops.n + 1;
    k.facts = ARENA_ARRAY(ctx->stage, Facts, n);
    k.uses = rewrite_uses(ctx->stage, old);
    k.plans = ARENA_ARRAY(ctx->stage, Plan, n);
    for (IrId v = 0; v < old->ops.n; v++) k.facts[v] = facts_of(m, old, op_of(&k, v), k.facts);
    find_pairs(&k);
    plan(&k);
    for (uint32_t i = 0; i < k.pairs.n; i++) {
        memset(k.pairs.data[i].at, 0, n * sizeof(IrId));
        if (k.pairs.data[i].used) make_space(&k, &k.pairs.data[i]);
    }
    for (IrId v = 0; v < old->ops.n; v++)
        if (!k.plans[v].wanted) continue;
        else if (k.plans[v].form) k.r.map[v] = made_by(&k, v);
        else rewrite_copy(&k.r, v);
    return rewrite_end(&k.r);
}

IrModule *pass_pairs(PassContext *ctx, const IrModule *m) { return rewrite_module(ctx, m, one_func); }
