/* touch: says of each step which rows of which buffers it reads and writes, and how its work may be shared by
   processes that own rows each. A run over several processes derives from it which rows travel (runtime/ranks.c).
   Adds to the plan and decides nothing.

     %7 = reduce_sum(gather %4 via src) via dst      sums of node under dst: writes b7 at rows, reads b4 at src of
                                                     elements
     contract blocks node                            a total over node: reads its operands at rows */
#include "passes/plan/planning.h"
#include "passes/plan/touch_linear.h"
#include "base/ice.h"

typedef struct Touch {
    PassContext *ctx;
    const FusedFunc *f;
    PlanProgram *p;
    const uint32_t *buffer_of;
    TouchLinear *linear; /* about the group of the step at hand */
} Touch;

/* Of an argument or a stored value; UINT32_MAX: it has none. */
static uint32_t buffer_of_value(const Touch *t, IrId v)
{
    const IrOp *op = fused_op(t->f, v);
    if (op->op != IR_OP_arg) return t->buffer_of[v];
    const IrArg *arg = &t->f->f->args.data[op->attr.i];
    PlanBufferKind kind = arg->kind == IR_ARG_COTANGENT ? PLAN_COTANGENT : PLAN_TENSOR;
    for (uint32_t i = 0; i < t->p->buffers.n; i++)
        if (t->p->buffers.data[i].kind == kind && t->p->buffers.data[i].ref == arg->ref) return i;
    return UINT32_MAX;
}

static void add(const Touch *t, PlanStep *s, PlanTouch x)
{
    for (uint32_t i = 0; i < s->touches.n; i++) {
        PlanTouch *y = &s->touches.data[i];
        if (y->buffer != x.buffer || y->writes != x.writes || y->at != x.at || y->image != x.image) continue;
        if (y->how != x.how) y->how = PLAN_ANYHOW;
        return;
    }
    VEC_PUSH(t->ctx->stage, &s->touches, x);
}

/* The step's own rows, or the elements that it sums for each; whose rows run says which. */
static PlanAt place_of(const Group *g, IrId space) { return space == g->space ? PLAN_AT_ROW : PLAN_AT_ELEMENT; }

static void add_read(const Touch *t, PlanStep *s, const Group *g, const GroupRead *r)
{
    IrId space = fused_op(t->f, r->v)->type.space;
    if (space == IR_UNIT) return;
    uint32_t buffer = buffer_of_value(t, r->v);
    if (buffer == UINT32_MAX) return; /* of nothing that the kernel reads in the end */
    PlanTouch x = {.buffer = buffer, .at = PLAN_AT_ALL, .image = IR_NONE};
    if (r->image_of != IR_NONE) {
        x.at = place_of(g, r->space);
        x.image = r->image_of;
        if (x.at == PLAN_AT_ELEMENT && x.image == g->map) x.at = PLAN_AT_ROW, x.image = IR_NONE;
    } else if (r->map == IR_NONE && r->space == space) {
        x.at = place_of(g, space);
    }
    if (x.at == PLAN_AT_ELEMENT && x.image != IR_NONE) x.how = touch_linear_sums(t->linear);
    if (x.at == PLAN_AT_ROW && x.image == IR_NONE) x.how = touch_linear_read(t->linear, r->v);
    add(t, s, x);
}

static PlanAccess access_of_op(IrOpcode op)
{
    switch (op) {
    case IR_OP_reduce_sum:
    case IR_OP_contract: return PLAN_ADDS;
    case IR_OP_reduce_mul: return PLAN_MULTIPLIES;
    case IR_OP_reduce_max: return PLAN_RAISES;
    case IR_OP_reduce_min: return PLAN_LOWERS;
    default: return PLAN_WRITES;
    }
}

typedef struct Sums {
    const FusedFunc *f;
    const Group *g;
    unsigned n;
} Sums;

static void count_sum(void *user, const GroupOp *x)
{
    Sums *s = user;
    const IrOp *op = fused_op(s->f, x->v);
    s->n += access_of_op(op->op) != PLAN_WRITES && op->op != IR_OP_contract;
}

/* Of what adds up; or of a product, maximum or minimum over a map's rows that is the only one of its kernel: no element
   of it depends on another of its row. */
static PlanAccess access_of(const Touch *t, uint32_t id, IrId v)
{
    Sums s = {t->f, &t->f->groups.data[id], 0};
    const IrOp *op = fused_op(t->f, v);
    if (s.g->kind != GROUP_ROWS || op->type.space != s.g->space || op->op == IR_OP_contract) return PLAN_WRITES;
    if (touch_linear_adds(t->linear, v)) return PLAN_ADDS;
    if (access_of_op(op->op) == PLAN_ADDS) return PLAN_WRITES;
    group_ops(t->f, id, t->ctx->stage, count_sum, &s);
    return s.n == 1 ? access_of_op(op->op) : PLAN_WRITES;
}

/* Blocks of totals are arguments in the order of the totals. */
static void add_blocks(const Touch *t, PlanStep *s, const Group *g)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < s->args.n; i++) {
        const PlanArg *a = &s->args.data[i];
        if (!a->is_buffer || t->p->buffers.data[a->buffer].rows.kind != PLAN_BLOCK_SLOTS) continue;
        ICE_UNLESS(n < g->roots.n);
        PlanAccess access = access_of_op(fused_op(t->f, g->roots.data[n++])->op);
        add(t, s, (PlanTouch){a->buffer, access, PLAN_AT_ROW, IR_NONE, PLAN_ANYHOW});
    }
    ICE_UNLESS(n == g->roots.n);
}

static void add_writes(const Touch *t, PlanStep *s, uint32_t id, const IrValues *values)
{
    const Group *g = &t->f->groups.data[id];
    for (uint32_t i = 0; i < values->n; i++) {
        IrId v = values->data[i], space = fused_op(t->f, v)->type.space;
        if (space == IR_UNIT || !t->f->stored.data[v] || group_has_copy(t->f, id, v)) continue;
        PlanHow how = values == &g->roots ? touch_linear_written(t->linear, v) : touch_linear_inner(t->linear, v);
        add(t, s, (PlanTouch){t->buffer_of[v], access_of(t, id, v), place_of(g, space), IR_NONE, how});
    }
}

/* Rows of a space, and no array of a map. */
static bool holds_values(const PlanBuffer *b)
{
    bool values = b->kind <= PLAN_COTANGENT || b->kind == PLAN_STRIP;
    return values && b->rows.kind == PLAN_COUNT;
}

/* Whatever the kernel is given is touched. */
static void add_others(const Touch *t, PlanStep *s)
{
    for (uint32_t i = 0; i < s->args.n; i++) {
        const PlanArg *a = &s->args.data[i];
        bool known = !a->is_buffer || !holds_values(&t->p->buffers.data[a->buffer]);
        for (uint32_t k = 0; k < s->touches.n && !known; k++) known = s->touches.data[k].buffer == a->buffer;
        if (!known) add(t, s, (PlanTouch){a->buffer, PLAN_READS, PLAN_AT_ALL, IR_NONE, PLAN_ANYHOW});
    }
}

static PlanWork work_of(const PlanStep *s, const Group *g)
{
    if (g->kind > GROUP_CONCAT) return PLAN_APART;
    if (g->kind == GROUP_BLOCKS) return s->extent.kind == PLAN_BLOCKS ? PLAN_TOTALS : PLAN_SAME;
    if (g->space == IR_UNIT) return PLAN_SAME;
    return g->kind == GROUP_ROWS ? PLAN_SUMS : PLAN_EACH;
}

static void touch_step(const Touch *t, PlanStep *s)
{
    s->work = PLAN_SAME;
    s->over = s->under = IR_NONE;
    const Group *g = &t->f->groups.data[s->group];
    s->work = work_of(s, g);
    s->over = g->space == IR_UNIT ? IR_NONE : g->space;
    s->under = g->kind == GROUP_ROWS ? g->map : IR_NONE;
    if (s->work == PLAN_SAME && s->over != IR_NONE) { /* the tree of a total reads sums of blocks */
        s->over = IR_NONE;
        return;
    }
    GroupReads reads = {0};
    touch_linear_ask(t->linear, s->group);
    group_reads(t->f, s->group, t->ctx->stage, &reads);
    for (uint32_t i = 0; i < reads.reads.n; i++) add_read(t, s, g, &reads.reads.data[i]);
    add_writes(t, s, s->group, &g->roots);
    add_writes(t, s, s->group, &g->inner);
    if (s->work == PLAN_TOTALS) add_blocks(t, s, g);
    add_others(t, s);
}

void touch_program(PassContext *ctx, const FusedFunc *f, PlanProgram *p, const uint32_t *buffer_of)
{
    Touch t = {ctx, f, p, buffer_of, touch_linear_new(f, ctx->stage)};
    for (uint32_t i = 0; i < p->steps.n; i++) touch_step(&t, &p->steps.data[i]);
}
