/* Sets of rows that the pass `cone` writes into a plan, and the support of each value: the rows that may hold another
   number than 0. Claims only what is certain, but that what is multiplied by 0, and 0 divided by anything, counts as
   0. */
#include "passes/plan/cone.h"
#include "base/ice.h"

enum { MOST_SETS = 200 };

/* ---- sets ----------------------------------------------------------------------------------------------------- */

static const PlanSet *set_at(const Cone *c, uint32_t s) { return &c->p->sets.data[s]; }

static uint32_t set_find(const Cone *c, PlanSet x)
{
    for (uint32_t i = 0; i < c->p->sets.n; i++) {
        const PlanSet *y = set_at(c, i);
        if (x.kind == y->kind && x.space == y->space && x.ref == y->ref && x.a == y->a && x.b == y->b) return i;
    }
    return PLAN_SET_ALL;
}

static uint32_t set_new(Cone *c, PlanSet x)
{
    ICE_UNLESS((x.a == PLAN_SET_ALL || x.a < c->p->sets.n) &&
               (x.b == PLAN_SET_ALL || x.b < c->p->sets.n)); /* so formulas end */
    uint32_t known = set_find(c, x);
    if (known != PLAN_SET_ALL) return known;
    if (c->p->sets.n == MOST_SETS) {
        c->failed = true;
        return PLAN_SET_ALL;
    }
    VEC_PUSH(c->ctx->stage, &c->p->sets, x);
    return c->p->sets.n - 1;
}

static PlanSet set_of(PlanSetKind kind, IrId space, IrId ref, uint32_t a, uint32_t b)
{
    return (PlanSet){.kind = kind, .space = space, .ref = ref, .a = a, .b = b};
}

enum { MOST_LOOKS = 256 }; /* at pairs of sets for one question: formulas of many steps share their parts */

static bool inside(const Cone *c, uint32_t a, uint32_t b, unsigned *left);

/* Whether the map plainly leads from a into b. */
static bool leads_into(const Cone *c, IrId map, uint32_t a, uint32_t b, unsigned *left)
{
    if (!*left) return false;
    --*left;
    const PlanSet *x = set_at(c, a);
    if (x->kind == PLAN_SET_ORIGIN && x->ref == map && inside(c, x->a, b, left)) return true;
    if (x->kind == PLAN_SET_BOTH) return leads_into(c, map, x->a, b, left) || leads_into(c, map, x->b, b, left);
    if (x->kind == PLAN_SET_EITHER) return leads_into(c, map, x->a, b, left) && leads_into(c, map, x->b, b, left);
    if (c->f->m->maps.data[map].partial) return false; /* what has no image is not led anywhere */
    uint32_t image = set_find(c, set_of(PLAN_SET_IMAGE, c->f->m->maps.data[map].to, map, a, PLAN_SET_ALL));
    return image != PLAN_SET_ALL && image == b;
}

static bool inside(const Cone *c, uint32_t a, uint32_t b, unsigned *left)
{
    if (!*left) return false;
    --*left;
    if (a == b || b == PLAN_SET_ALL) return true;
    if (a == PLAN_SET_ALL) return false;
    const PlanSet *x = set_at(c, a), *y = set_at(c, b);
    if (x->kind == PLAN_SET_EMPTY) return true;
    if (x->kind == PLAN_SET_EITHER) return inside(c, x->a, b, left) && inside(c, x->b, b, left);
    if (y->kind == PLAN_SET_BOTH) return inside(c, a, y->a, left) && inside(c, a, y->b, left);
    if (x->kind == PLAN_SET_BOTH && (inside(c, x->a, b, left) || inside(c, x->b, b, left))) return true;
    if (y->kind == PLAN_SET_EITHER) return inside(c, a, y->a, left) || inside(c, a, y->b, left);
    if (y->kind == PLAN_SET_WALK && inside(c, a, y->a, left)) return true;
    if (y->kind == PLAN_SET_ORIGIN && leads_into(c, y->ref, a, y->a, left)) return true;
    if (x->kind == PLAN_SET_IMAGE && leads_into(c, x->ref, x->a, b, left)) return true;
    bool maps = x->kind == PLAN_SET_IMAGE || x->kind == PLAN_SET_ORIGIN;
    return maps && x->kind == y->kind && x->ref == y->ref && inside(c, x->a, y->a, left);
}

/* Whether a is plainly inside b. */
static bool is_inside(const Cone *c, uint32_t a, uint32_t b)
{
    unsigned left = MOST_LOOKS;
    return inside(c, a, b, &left);
}

uint32_t cone_empty(Cone *c)
{
    return set_new(c, set_of(PLAN_SET_EMPTY, IR_UNIT, IR_NONE, PLAN_SET_ALL, PLAN_SET_ALL));
}

uint32_t cone_mask(Cone *c, IrId space, IrId tensor)
{
    return set_new(c, set_of(PLAN_SET_MASK, space, tensor, PLAN_SET_ALL, PLAN_SET_ALL));
}

static uint32_t through(Cone *c, PlanSetKind kind, IrId space, IrId map, uint32_t a)
{
    if (a == PLAN_SET_ALL || set_at(c, a)->kind == PLAN_SET_EMPTY) return a;
    if (!ir_map_stays(c->f->m, map)) return PLAN_SET_ALL;
    if (ir_graph_of_all(c->f->m, map)) return PLAN_SET_ALL; /* no array says it */
    return set_new(c, set_of(kind, space, map, a, PLAN_SET_ALL));
}

/* Of the rows that the map leads into a: a, be there rows that it does not reach. */
uint32_t cone_image(Cone *c, IrId map, uint32_t a)
{
    if (a != PLAN_SET_ALL && set_at(c, a)->kind == PLAN_SET_ORIGIN && set_at(c, a)->ref == map) return set_at(c, a)->a;
    return through(c, PLAN_SET_IMAGE, c->f->m->maps.data[map].to, map, a);
}

uint32_t cone_origin(Cone *c, IrId map, uint32_t a)
{
    return through(c, PLAN_SET_ORIGIN, c->f->m->maps.data[map].from, map, a);
}

uint32_t cone_either(Cone *c, uint32_t a, uint32_t b)
{
    if (is_inside(c, a, b)) return b;
    if (is_inside(c, b, a)) return a;
    ICE_UNLESS(set_at(c, a)->space == set_at(c, b)->space);
    return set_new(c, set_of(PLAN_SET_EITHER, set_at(c, a)->space, IR_NONE, a, b));
}

uint32_t cone_both(Cone *c, uint32_t a, uint32_t b)
{
    if (is_inside(c, a, b)) return a;
    if (is_inside(c, b, a)) return b;
    ICE_UNLESS(set_at(c, a)->space == set_at(c, b)->space);
    return set_new(c, set_of(PLAN_SET_BOTH, set_at(c, a)->space, IR_NONE, a, b));
}

uint32_t cone_walk(Cone *c, IrId map, uint32_t a)
{
    return through(c, PLAN_SET_WALK, c->f->m->maps.data[map].from, map, a);
}

/* ---- supports --------------------------------------------------------------------------------------------------- */

static bool is_zero_const(const Cone *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    return op->op == IR_OP_const && op->attr.f == 0;
}

/* Of an operand of a value in `space`. */
static uint32_t support_in(Cone *c, IrId v, IrId space)
{
    if (is_zero_const(c, v)) return cone_empty(c);
    return fused_op(c->f, v)->type.space == space ? c->support[v] : PLAN_SET_ALL;
}

/* Rows where the bool v may be false. */
static uint32_t falses(Cone *c, IrId v)
{
    const IrOp *op = fused_op(c->f, v);
    return op->op == IR_OP_not ? support_in(c, op->args[0], op->type.space) : PLAN_SET_ALL;
}

static uint32_t support_arg(Cone *c, const IrOp *op)
{
    const IrArg *arg = &c->f->f->args.data[op->attr.i];
    if (arg->kind != IR_ARG_TENSOR || op->type.space == IR_UNIT) return PLAN_SET_ALL;
    IrTensorKind kind = c->f->m->tensors.data[arg->ref].kind;
    bool fixed = kind == IR_INPUT || kind == IR_HELD;
    return fixed && op->type.dtype == IR_BOOL && !op->type.n_dims ? cone_mask(c, op->type.space, arg->ref)
                                                                  : PLAN_SET_ALL;
}

static uint32_t support_any(Cone *c, const IrOp *op)
{
    uint32_t s = cone_empty(c);
    for (uint32_t k = 0; k < op->n_args; k++) s = cone_either(c, s, support_in(c, op->args[k], op->type.space));
    return s;
}

static uint32_t support_of(Cone *c, const IrOp *op)
{
    const IrId *x = op->args;
    IrId space = op->type.space;
    if (space == IR_UNIT) return PLAN_SET_ALL;
    switch (op->op) {
    case IR_OP_arg: return support_arg(c, op);
    case IR_OP_const: return op->attr.f == 0 ? cone_empty(c) : PLAN_SET_ALL;
    case IR_OP_not: return falses(c, x[0]);
    case IR_OP_mul:
    case IR_OP_contract:
    case IR_OP_and: return cone_both(c, support_in(c, x[0], space), support_in(c, x[1], space));
    case IR_OP_div: return support_in(c, x[0], space);
    case IR_OP_select:
        return cone_either(c, cone_both(c, support_in(c, x[1], space), support_in(c, x[0], space)),
                           cone_both(c, support_in(c, x[2], space), falses(c, x[0])));
    case IR_OP_ne:
        if (is_zero_const(c, x[1])) return support_in(c, x[0], space);
        return is_zero_const(c, x[0]) ? support_in(c, x[1], space) : PLAN_SET_ALL;
    case IR_OP_gather: {
        IrId map = op->attr.map;
        return c->f->m->maps.data[map].to == IR_UNIT ? PLAN_SET_ALL : cone_origin(c, map, c->support[x[0]]);
    }
    case IR_OP_reduce_sum: return cone_image(c, op->attr.map, c->support[x[0]]);
    case IR_OP_or:
    case IR_OP_concat:
    case IR_OP_slice:
    case IR_OP_at:
    case IR_OP_transpose:
    case IR_OP_reshape:
    case IR_OP_sum_dims:
    case IR_OP_max_dims:
    case IR_OP_min_dims: return support_any(c, op);
    default: return ir_ops[op->op].traits & T_ZERO ? support_any(c, op) : PLAN_SET_ALL;
    }
}

void cone_supports(Cone *c)
{
    for (IrId v = 0; v < c->f->f->ops.n; v++) c->support[v] = support_of(c, fused_op(c->f, v));
}
