/* What a step that sums over a map makes of rows at images of its elements, the rows that a process may not own:
   whether each sum is homogeneous and linear in them, all together, and whether what it writes is. By the traits of ops
   alone. So is known whether a value adds up: what comes of some elements and of the others makes what comes of all.
   Changes nothing.

     reduce_sum(gather %4 via src * %w) via dst         linear
     ... + %5, relu(...)                                the sum is, the value is not
     reduce_max(...), reduce_sum(gather %4 + %b)        not linear
     %n * reduce_sum(...)                               adds up; with a sum in place of %n it does not */
#include "passes/plan/touch_linear.h"
#include "base/ice.h"

typedef enum { UNSEEN, ZERO, APART, LINEAR, OTHER } Degree; /* 0; without them; as in the head; in no such way */
typedef enum { UNTOLD, ALONE, ADDED, TANGLED } Part;        /* of no element; adds up; in no such way */
typedef enum { AT_ROW, AT_ELEMENT, AT_IMAGE, N_AT } At;     /* of the row, of an element that is summed, of its image */

typedef struct Known {
    uint32_t turn; /* of another: nothing is known yet */
    uint8_t degree[N_AT], part[N_AT];
    bool factor[N_AT]; /* a value that depends on images reads it */
} Known;

struct TouchLinear {
    const FusedFunc *f;
    const Group *g;
    uint32_t id, turn; /* of the group; of what is known, which of the groups that were asked about it was */
    Known *known;      /* by value */
    bool sums;         /* no sum so far is anything but linear */
};

static Degree degree_of(TouchLinear *t, IrId v, At at);

static Known *known_of(const TouchLinear *t, IrId v)
{
    Known *k = &t->known[v];
    if (k->turn != t->turn) *k = (Known){.turn = t->turn};
    return k;
}

static bool is_leaf(const TouchLinear *t, IrId v)
{
    uint32_t group = t->f->group_of.data[v];
    return fused_op(t->f, v)->op == IR_OP_arg ||
           (group != GROUP_NONE && group != t->id && !group_has_copy(t->f, t->id, v));
}

static Degree leaf_degree(const TouchLinear *t, IrId v, At at)
{
    const IrOp *op = fused_op(t->f, v);
    bool given = op->op == IR_OP_arg && t->f->f->args.data[op->attr.i].kind != IR_ARG_COTANGENT;
    return at == AT_IMAGE && !given ? LINEAR : APART;
}

/* Of a sum of parts. */
static Degree plus(Degree a, Degree b)
{
    if (a == ZERO) return b;
    return b == ZERO || a == b ? a : OTHER;
}

/* Of a product. */
static Degree times(Degree a, Degree b)
{
    if (a == ZERO || b == ZERO) return ZERO;
    if (a == APART) return b;
    return b == APART ? a : OTHER;
}

static At place_of_arg(const TouchLinear *t, const IrOp *op, At at)
{
    if (op->op == IR_OP_gather) return at == AT_ELEMENT && op->attr.map == t->g->map ? AT_ROW : AT_IMAGE;
    return ir_ops[op->op].traits & T_REDUCE && op->attr.map == t->g->map ? AT_ELEMENT : at;
}

static bool is_zero(const IrOp *op) { return op->op == IR_OP_const && op->attr.f == 0; }

static Degree op_degree(TouchLinear *t, const IrOp *op, At at)
{
    uint32_t traits = ir_ops[op->op].traits;
    Degree args[3], all = ZERO, any = ZERO;
    At inside = place_of_arg(t, op, at);
    if (is_zero(op)) return ZERO;
    for (uint32_t k = 0; k < op->n_args; k++) {
        Degree d = degree_of(t, op->args[k], inside);
        if (k < 3) args[k] = d;
        all = plus(all, d);
        any = d > any ? d : any;
    }
    if (traits & T_REDUCE && inside != at && any == OTHER) t->sums = false;
    if (any <= APART) return APART;
    if (traits & T_LINEAR) return all;
    switch (op->op) {
    case IR_OP_mul:
    case IR_OP_contract: return times(args[0], args[1]);
    case IR_OP_div: return args[1] == APART ? args[0] : OTHER;
    case IR_OP_select: return args[0] == APART ? plus(args[1], args[2]) : OTHER;
    case IR_OP_cast: return ir_dtype_is_float(op->type.dtype) ? args[0] : OTHER;
    default: break;
    }
    if (traits & T_REDUCE && inside != at) t->sums = false;
    return OTHER;
}

static Degree degree_of(TouchLinear *t, IrId v, At at)
{
    uint8_t *d = &known_of(t, v)->degree[at];
    if (*d == UNSEEN) *d = (uint8_t)(is_leaf(t, v) ? leaf_degree(t, v, at) : op_degree(t, fused_op(t->f, v), at));
    return (Degree)*d;
}

static Part part_of(TouchLinear *t, IrId v, At at);

static Part op_part(TouchLinear *t, const IrOp *op, At at)
{
    Part args[3] = {ALONE, ALONE, ALONE}, most = ALONE, least = TANGLED;
    At inside = place_of_arg(t, op, at);
    for (uint32_t k = 0; k < op->n_args; k++) {
        Part p = part_of(t, op->args[k], inside);
        if (k < 3) args[k] = p;
        if (p > most) most = p;
        if (p < least) least = p;
    }
    if (ir_ops[op->op].traits & T_REDUCE && inside != at && op->op != IR_OP_gather) {
        bool adds = op->op == IR_OP_reduce_sum || op->op == IR_OP_contract;
        return at == AT_ROW && most == ALONE && adds ? ADDED : TANGLED;
    }
    if (most != ADDED) return most;
    if (ir_ops[op->op].traits & T_LINEAR) return least == ADDED ? ADDED : TANGLED;
    switch (op->op) {
    case IR_OP_mul:
    case IR_OP_contract: return least == ALONE ? ADDED : TANGLED;
    case IR_OP_div: return args[1] == ALONE ? ADDED : TANGLED;
    case IR_OP_select:
        for (uint32_t k = 1; k < 3; k++)
            if (args[k] != ADDED && !is_zero(fused_op(t->f, op->args[k]))) return TANGLED;
        return args[0] == ALONE ? ADDED : TANGLED;
    case IR_OP_cast: return ir_dtype_is_float(op->type.dtype) ? ADDED : TANGLED;
    default: return TANGLED;
    }
}

static Part part_of(TouchLinear *t, IrId v, At at)
{
    uint8_t *p = &known_of(t, v)->part[at];
    if (*p == UNTOLD) *p = (uint8_t)(is_leaf(t, v) ? ALONE : op_part(t, fused_op(t->f, v), at));
    return (Part)*p;
}

static void mark_factors(TouchLinear *t, IrId v, At at)
{
    const IrOp *op = fused_op(t->f, v);
    bool *seen = &known_of(t, v)->factor[at];
    if (*seen) return;
    *seen = true;
    if (is_leaf(t, v)) return;
    for (uint32_t k = 0; k < op->n_args; k++) mark_factors(t, op->args[k], place_of_arg(t, op, at));
}

TouchLinear *touch_linear_new(const FusedFunc *f, Arena *a)
{
    TouchLinear *t = ARENA_ARRAY(a, TouchLinear, 1);
    *t = (TouchLinear){.f = f, .known = ARENA_ARRAY(a, Known, f->f->ops.n + 1)};
    return t;
}

void touch_linear_ask(TouchLinear *t, uint32_t group)
{
    t->g = &t->f->groups.data[group];
    t->id = group;
    t->turn++;
    t->sums = t->g->kind == GROUP_ROWS;
    for (uint32_t i = 0; i < t->g->roots.n && t->g->kind == GROUP_ROWS; i++)
        if (degree_of(t, t->g->roots.data[i], AT_ROW) > APART) mark_factors(t, t->g->roots.data[i], AT_ROW);
}

PlanHow touch_linear_sums(const TouchLinear *t) { return t->sums ? PLAN_LINEAR : PLAN_ANYHOW; }

PlanHow touch_linear_read(const TouchLinear *t, IrId v)
{
    return t->g->kind == GROUP_ROWS && !known_of(t, v)->factor[AT_ROW] ? PLAN_WITHOUT : PLAN_ANYHOW;
}

bool touch_linear_adds(TouchLinear *t, IrId root)
{
    return t->g->kind == GROUP_ROWS && part_of(t, root, AT_ROW) == ADDED;
}

PlanHow touch_linear_inner(TouchLinear *t, IrId inner)
{
    return t->g->kind == GROUP_ROWS && part_of(t, inner, AT_ELEMENT) == ALONE ? PLAN_ALONE : PLAN_ANYHOW;
}

PlanHow touch_linear_written(TouchLinear *t, IrId root)
{
    Degree d = t->g->kind == GROUP_ROWS ? (Degree)known_of(t, root)->degree[AT_ROW] : OTHER;
    ICE_UNLESS(d != UNSEEN);
    if (t->g->kind == GROUP_ROWS && part_of(t, root, AT_ROW) == ALONE) return PLAN_ALONE;
    return d == OTHER ? PLAN_ANYHOW : d == LINEAR ? PLAN_LINEAR : PLAN_WITHOUT;
}
