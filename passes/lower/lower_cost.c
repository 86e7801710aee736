/* What a step costs and what it is called: bytes and flops per element of each space, for `plan`, `bench` and the
   division of work. An estimate of traffic, nothing depends on it being exact. */
#include "passes/lower/lower_kernel.h"

static PlanCost *cost_of_space(Lower *l, IrId space)
{
    PlanCount c = plan_count(l->f->m, space);
    for (uint32_t i = 0; i < l->step->cost.n; i++) {
        PlanCost *x = &l->step->cost.data[i];
        if (x->count.kind == c.kind && x->count.space == c.space && x->table == IR_NONE) return x;
    }
    PlanCost fresh = {.count = c, .table = IR_NONE};
    VEC_PUSH(l->arena, &l->step->cost, fresh);
    return &l->step->cost.data[l->step->cost.n - 1];
}

static int64_t capped_mul(int64_t a, int64_t b)
{
    int64_t x;
    return __builtin_mul_overflow(a, b, &x) ? INT64_MAX / 4 : x < INT64_MAX / 4 ? x : INT64_MAX / 4;
}

static int64_t row_bytes(Lower *l, const IrType *t)
{
    return capped_mul(ir_type_width(l->f->m, t), (int64_t)ir_dtype_bytes(t->dtype));
}

/* Elements that an operation handles per row: its result's, times what it sums over. */
static int64_t elements(Lower *l, const IrOp *op)
{
    int64_t n = ir_type_width(l->f->m, &op->type);
    if (op->op != IR_OP_contract && op->op != IR_OP_sum_dims && op->op != IR_OP_max_dims && op->op != IR_OP_min_dims)
        return n;
    IrId dims[2 * IR_MAX_DIMS];
    unsigned k = reduced_dims(l->f->f, op, dims);
    while (k-- > 0) n = capped_mul(n, l->f->m->dims.data[dims[k]].size);
    return n;
}

static void add_op(void *user, const GroupOp *x)
{
    Lower *l = user;
    const IrOp *op = fused_op(l->f, x->v);
    bool once = op->type.space == IR_UNIT && !op_is_heavy(l->f->m, l->f->f, x->v);
    PlanCost *c = cost_of_space(l, once ? IR_UNIT : x->space);
    c->flops += capped_mul(elements(l, op), ir_ops[op->op].flops);
    if (op->op == IR_OP_gather && l->f->m->maps.data[op->attr.map].to != IR_UNIT) c->bytes += 4;
}

/* Whether rows are read in no order, and do not stream past. */
static bool is_gathered(const Lower *l, const GroupRead *r)
{
    const Group *g = &l->f->groups.data[l->g];
    IrId space = fused_op(l->f, r->v)->type.space;
    if (space == IR_UNIT || r->space == IR_UNIT) return false;
    bool by_list = g->map != IR_NONE && !l->f->m->maps.data[g->map].sorted;
    bool listed = by_list && r->map == IR_NONE && space == l->f->m->maps.data[g->map].from && r->space == space;
    if (!listed && (r->map == IR_NONE || r->map == g->map)) return false;
    return listed || by_list || !l->f->m->maps.data[r->map].sorted;
}

static void add_read(Lower *l, const GroupRead *r)
{
    const IrOp *op = fused_op(l->f, r->v);
    if (l->f->group_of.data[r->v] == l->g) return;
    if (is_gathered(l, r)) {
        PlanCost gathered = {.count = plan_count(l->f->m, r->space),
                             .bytes = row_bytes(l, &op->type) / r->part,
                             .table = op->type.space};
        VEC_PUSH(l->arena, &l->step->cost, gathered);
        return;
    }
    /* the row's own value stays at hand while its elements pass, and so do images in order */
    bool in_order = r->map != IR_NONE && op->type.space != IR_UNIT;
    cost_of_space(l, in_order || op->type.space == IR_UNIT ? op->type.space : r->space)->bytes +=
        row_bytes(l, &op->type) / (in_order ? 1 : r->part);
}

void lower_costs(Lower *l)
{
    const Group *g = &l->f->groups.data[l->g];
    l->step->cost.n = 0;
    Arena *scratch = arena_new();
    GroupReads reads = {0};
    group_reads(l->f, l->g, scratch, &reads);
    group_ops(l->f, l->g, scratch, add_op, l);
    for (uint32_t i = 0; i < reads.reads.n; i++) add_read(l, &reads.reads.data[i]);
    arena_free(scratch);
    if (g->map != IR_NONE) {
        cost_of_space(l, l->f->m->maps.data[g->map].from)->bytes += l->f->m->maps.data[g->map].sorted ? 0 : 4;
        cost_of_space(l, g->nest.space)->bytes += 8;
    }
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (l->f->stored.data[g->roots.data[i]])
            cost_of_space(l, g->nest.space)->bytes += row_bytes(l, &fused_op(l->f, g->roots.data[i])->type);
    for (uint32_t i = 0; i < g->inner.n; i++)
        if (l->f->stored.data[g->inner.data[i]] && !group_has_copy(l->f, l->g, g->inner.data[i]))
            cost_of_space(l, g->map == IR_NONE ? g->space : l->f->m->maps.data[g->map].from)->bytes += row_bytes(
                l, &fused_op(l->f, g->inner.data[i])->type);
}

static void count_op(void *user, const GroupOp *op)
{
    (void)op;
    ++*(unsigned *)user;
}

/* "reduce_sum edge.dst [16] + 3 ops" */
const char *lower_label(const LowerFunc *lf, uint32_t index, IrId root, const char *kind)
{
    const Group *g = &lf->f->groups.data[index];
    IrId main = g->roots.data[0];
    for (uint32_t i = g->roots.n; i-- > 0;)
        if (op_is_heavy(lf->f->m, lf->f->f, g->roots.data[i])) main = g->roots.data[i];
    if (root != IR_NONE) main = root;
    const IrOp *op = fused_op(lf->f, main);
    const IrType *t = g->kind == GROUP_BLOCKS ? &op->type : &g->nest;
    unsigned n_ops = 0;
    Arena *scratch = arena_new();
    group_ops(lf->f, index, scratch, count_op, &n_ops);
    arena_free(scratch);
    StrBuf s = {.arena = lf->ctx->stage};
    strbuf_puts(&s, ir_ops[op->op].name);
    if (g->kind == GROUP_BLOCKS) strbuf_printf(&s, " %s", kind);
    strbuf_printf(&s, " %s",
                  g->map != IR_NONE ? lf->f->m->maps.data[g->map].name : lf->f->m->spaces.data[g->space].name);
    for (uint32_t k = 0; k < t->n_dims; k++)
        strbuf_printf(&s, "%s%lld", k ? "," : " [", (long long)lf->f->m->dims.data[t->dims[k]].size);
    if (t->n_dims) strbuf_puts(&s, "]");
    if (n_ops > 1) strbuf_printf(&s, " + %u op%s", n_ops - 1, n_ops > 2 ? "s" : "");
    return strbuf_cstr(&s);
}
