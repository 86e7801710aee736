/* reorder: the order of linear and pointwise work that costs least, by algebra (propagation-postponed operators,
   Zhang et al., "Understanding GNN Computational Graph", 2022):

     %4 = concat %2, %3 dim d : edge[d]       %4 = contract %0, W[0:F] : node[O]        (%2 = gather %0 via edge.dst,
     %5 = contract %4, W : edge[O]       ->   %5 = contract %0, W[F:d] : node[O]         %3 = gather %0 via edge.src)
                                              %6 = add gather %4 via edge.dst, gather %5 via edge.src

   A rule builds a value that equals an op; the op is replaced if what then dies costs more than what comes to life, so
   that each step lowers the cost of the function and no two rules undo each other; a step that costs a little is kept
   if those that it makes possible pay. Results agree within the error bound, gradients of extrema are the same in exact
   arithmetic, and what was finite stays so unless it overflows. Never touches random numbers, integers and bools, never
   looks through the variable of a `grad`. Rules: reorder_lift.c,
   reorder_terms.c, reorder_linear.c, reorder_rows.c; prices: reorder_cost.c. */
#include "passes/rewrite/hoist.h"
#include "base/ice.h"
#include "passes/rewrite/reorder.h"

typedef IrId Rule(Reorder *r, IrId v);
static const struct {
    const char *name;
    Rule *rule;
} rules[] = {
    {"computed per node", reorder_rule_lift},
    {"terms of one end first", reorder_rule_terms},
    {"product and sum change places", reorder_rule_contract},
    {"behind the reduction", reorder_rule_reduce},
    {"product of what was summed", reorder_rule_outer},
};
enum { N_RULES = sizeof rules / sizeof *rules, MAX_ROUNDS = 6, MAX_STEPS = 400, MAX_LOOK = 500 /* ops */ };
static const double LEAST_GAIN = 0.02; /* of what is gone for good */
static const double NEAR = 0.25;       /* so much more than what is gone may be paid if another step then saves it */
enum { MAX_TRIED_OPS = 1500, MAX_TAKEN = 3 };

/* ---- the pool ---- */

static void set_opaque(Reorder *r, const IrFunc *old)
{
    const bool *pinned = rewrite_pinned(r->ctx->stage, old);
    r->has_grad = pinned != NULL;
    for (IrId v = 0; pinned && v < old->ops.n; v++)
        if (pinned[v]) r->facts.data[v] = (r->facts.data[v] & RO_FIXED) | FACTS_USUAL | RO_PINNED;
}

/* Routes say where the elements of computed maps lead. */
static void find_whole(Reorder *r, const IrFunc *old)
{
    const IrModule *m = r->b.m;
    r->whole = ARENA_ARRAY(r->ctx->stage, bool, m->maps.n + 1);
    for (IrId v = 0; v < old->ops.n; v++) {
        const IrOp *op = &old->ops.data[v];
        if (op->op != IR_OP_route) continue;
        const IrSpace *to = &m->spaces.data[m->maps.data[op->attr.map].to];
        if (to->has_dim) r->whole[op->attr.map] = irb_key_is_whole(m, old, op->args[0], m->dims.data[to->dim].size);
    }
}

/* A copy of old, op by op; equal ops stay apart here. */
static void fill_pool(Reorder *r, const IrFunc *old)
{
    RoCost ignored = {0};
    const bool *fixed = hoist_invariant(r->ctx, r->b.m, old);
    for (IrId v = 0; v < old->ops.n; v++) r->holds |= fixed[v];
    for (IrId v = 0; v < old->ops.n; v++) {
        const IrOp *op = &old->ops.data[v];
        ir_add(r->b.m, r->b.f, op->op, op->type, op->args, op->n_args, op->attr, op->span);
        Facts facts = reorder_facts(r, op);
        if (op->op == IR_OP_arg && fixed[v]) facts |= RO_FIXED;
        VEC_PUSH(r->ctx->stage, &r->facts, facts);
        VEC_PUSH(r->ctx->stage, &r->values, (RoValue){.lift = IR_NONE});
    }
    set_opaque(r, old);
    for (IrId v = 0; v < old->ops.n; v++)
        if (reorder_is_input(r, v)) VEC_PUSH(r->ctx->stage, &r->inputs, v);
    for (IrId v = 0; v < old->ops.n; v++)
        if (old->ops.data[v].op == IR_OP_route || (old->ops.data[v].op == IR_OP_arg && !reorder_is_input(r, v)))
            reorder_acquire(r, v, &ignored);
    for (uint32_t i = 0; i < old->results.n; i++) reorder_acquire(r, old->results.data[i].value, &ignored);
    for (IrId v = 0; v < old->ops.n; v++) reorder_keep_winners(r, v);
    ICE_UNLESS(r->facts.n == old->ops.n && r->values.n == old->ops.n);
    r->total = r->work = ignored.time;
    for (uint32_t i = 0; i < r->inputs.n; i++)
        if (r->values.data[r->inputs.data[i]].uses) r->work -= reorder_op_cost(r, r->inputs.data[i]).time;
}

/* ---- one op ---- */

static void redirect(Reorder *r, IrFunc *f, IrId from, IrId to, uint32_t uses)
{
    for (IrId v = 0; v < f->ops.n; v++)
        for (uint32_t k = 0; k < f->ops.data[v].n_args; k++)
            if (f->ops.data[v].args[k] == from && r->values.data[v].uses) f->ops.data[v].args[k] = to;
    for (uint32_t i = 0; i < f->results.n; i++)
        if (f->results.data[i].value == from) f->results.data[i].value = to;
    ICE_UNLESS(from != to && !r->values.data[from].uses); /* nothing that lives reads what died */
    r->values.data[to].uses += uses;
}

static void remark(Reorder *r, IrId v, const char *rule, const RoCost *dies, const RoCost *lives, bool taken)
{
    const IrOp *op = ro_op(r, v);
    if (r->quiet) return;
    double rows = r->rows[op->type.space], sign = taken ? 1 : -1;
    double bytes = sign * (dies->bytes - lives->bytes) / rows, flops = sign * (dies->flops - lives->flops) / rows;
    pass_remark(r->ctx, PASS_reorder, taken, op->span, "%s: `%s`: %s: %s %.0f bytes and %.0f flops per row of `%s`",
                r->b.f->name, ir_ops[op->op].name, rule, taken ? "saves" : "would add", bytes, flops,
                r->b.m->spaces.data[op->type.space].name);
}

/* What is found for v, which is dead: the cheapest, and what each rule has. */
typedef struct Found {
    IrId of[N_RULES], best;
    uint32_t which;
} Found;

static Found find(Reorder *r, IrId v)
{
    IrType type = ro_type(r, v);
    Found f = {.best = IR_NONE};
    ICE_UNLESS(r->replaced == IR_NONE && !r->values.data[v].uses);
    r->replaced = v;
    for (uint32_t k = 0; k < N_RULES; k++) {
        bool wanted = v != r->forced || k == r->forced_rule;
        IrId found = f.of[k] = wanted ? ro_as(r, reorder_guard_sum(r, v, rules[k].rule(r, v)), type) : IR_NONE;
        if (found == IR_NONE || found == v) continue;
        if (f.best == IR_NONE || reorder_price(r, found) < reorder_price(r, f.best)) f.best = found, f.which = k;
    }
    r->replaced = IR_NONE;
    return f;
}

/* Rules choose operand by operand, and reading an input that died with v counts for each: so they also choose as if all
   inputs lived, and the better of the two is what is found. */
static Found find_either(Reorder *r, IrId v)
{
    RoCost ignored = {0};
    uint32_t dead = 0;
    for (uint32_t i = 0; i < r->inputs.n; i++) {
        dead += !r->values.data[r->inputs.data[i]].uses;
        reorder_acquire(r, r->inputs.data[i], &ignored);
    }
    Found living = find(r, v);
    for (uint32_t i = 0; i < r->inputs.n; i++) reorder_release(r, r->inputs.data[i], &ignored);
    if (!dead) return living;
    Found f = find(r, v);
    if (f.best == IR_NONE || living.best == IR_NONE) return f.best == IR_NONE ? living : f;
    return reorder_price(r, living.best) < reorder_price(r, f.best) ? living : f;
}

/* Is `found`, which lives, made of v itself? It may have lived before, behind v: uses do not say. Where it is, v is
   near: what is near is looked at first. */
static bool is_circular(Reorder *r, IrId v, IrId found)
{
    if (r->values.data[v].uses) return true;
    uint32_t epoch = ++r->look_epoch;
    r->made_of.n = 0;
    VEC_PUSH(r->ctx->stage, &r->made_of, found);
    for (uint32_t from = 0; from < r->made_of.n; from++) {
        if (r->made_of.data[from] == v) return true;
        const IrOp *op = ro_op(r, r->made_of.data[from]);
        for (uint32_t k = 0; k < op->n_args; k++) {
            RoValue *x = &r->values.data[op->args[k]];
            if (x->look_epoch != epoch) VEC_PUSH(r->ctx->stage, &r->made_of, op->args[k]);
            x->look_epoch = epoch;
        }
    }
    return false;
}

/* Notes what does not pay by itself but nearly does. */
static void note_near(Reorder *r, IrId v, const Found *f, double dies)
{
    RoCost lives, ignored = {0};
    for (uint32_t k = 0; k < N_RULES && r->near.n < RO_MAX_NEAR; k++) {
        if (f->of[k] == IR_NONE || f->of[k] == v || rules[k].rule == reorder_rule_terms) continue;
        lives = (RoCost){0};
        reorder_acquire(r, f->of[k], &lives);
        double gone = reorder_price(r, v);
        bool near = lives.time - dies < NEAR * gone && gone > NEAR && !is_circular(r, v, f->of[k]);
        reorder_release(r, f->of[k], &ignored);
        if (!near) continue;
        r->near.v[r->near.n] = v;
        r->near.rule[r->near.n++] = k;
    }
}

/* What v is made of lives on from a certain distance, whatever becomes of v: rules do not look so far, and so a step
   costs no more in a long function than in a short one. */
static void hold_far(Reorder *r, IrId v)
{
    uint32_t from = 0, epoch = ++r->look_epoch;
    r->far.n = 0;
    VEC_PUSH(r->ctx->stage, &r->far, v);
    for (; from < r->far.n && from < MAX_LOOK; from++) {
        const IrOp *op = ro_op(r, r->far.data[from]);
        for (uint32_t k = 0; k < op->n_args; k++) {
            RoValue *x = &r->values.data[op->args[k]];
            if (!x->uses) continue; /* only what is held is made of it, before the function runs */
            if (x->look_epoch != epoch) VEC_PUSH(r->ctx->stage, &r->far, op->args[k]);
            x->look_epoch = epoch;
        }
    }
    ICE_UNLESS(from <= r->far.n);
    r->far.n -= from;
    memmove(r->far.data, r->far.data + from, r->far.n * sizeof *r->far.data);
    for (uint32_t i = 0; i < r->far.n; i++) r->values.data[r->far.data[i]].uses++;
}

static void release_far(Reorder *r)
{
    RoCost ignored = {0};
    for (uint32_t i = 0; i < r->far.n; i++) reorder_release(r, r->far.data[i], &ignored);
}

/* Replaces v by the cheapest value that a rule finds, if that is cheaper. */
static bool improve(Reorder *r, IrId v)
{
    RoCost dies = {0}, lives = {0}, ignored = {0};
    hold_far(r, v);
    uint32_t uses = r->values.data[v].uses;
    r->b.span = ro_op(r, v)->span;
    r->values.data[v].uses = 1;
    reorder_release(r, v, &dies);
    Found f = find_either(r, v);
    bool taken = false;
    if (f.best != IR_NONE) {
        reorder_acquire(r, f.best, &lives);
        taken = (dies.time - lives.time > LEAST_GAIN * reorder_price(r, v) || v == r->forced) &&
                !is_circular(r, v, f.best);
        remark(r, v, rules[f.which].name, &dies, &lives, taken);
        if (!taken) {
            reorder_release(r, f.best, &ignored);
            note_near(r, v, &f, dies.time);
        }
    }
    if (!taken) reorder_acquire(r, v, &ignored);
    r->values.data[v].uses = taken ? 0 : uses;
    if (taken) redirect(r, r->b.f, v, f.best, uses - 1);
    release_far(r);
    return taken;
}

static bool may_improve(const Reorder *r, IrId v)
{
    const IrOp *op = ro_def(r, v);
    return op && r->values.data[v].uses && op->n_args && ir_dtype_is_float(op->type.dtype) &&
           !(ir_ops[op->op].traits & T_RANDOM) && !ir_op_is_of_autodiff(op->op) && op->op != IR_OP_detach;
}

/* ---- one function ---- */

static IrId emit(Rewrite *r, IrId v)
{
    if (r->map[v] != IR_NONE) return r->map[v];
    for (uint32_t k = 0; k < r->old->ops.data[v].n_args; k++) emit(r, r->old->ops.data[v].args[k]);
    IrId route = ir_route_of(r->b.m, r->old, &r->old->ops.data[v]);
    if (route != IR_NONE) emit(r, route);
    return rewrite_copy(r, v);
}

/* What lives, operands first. */
static IrFunc *extract(const Reorder *r)
{
    Rewrite out = rewrite_begin(r->b.m, r->b.f);
    for (IrId v = 0; v < r->b.f->ops.n; v++)
        if (r->values.data[v].uses || r->b.f->ops.data[v].op == IR_OP_arg) emit(&out, v);
    return rewrite_end(&out);
}

/* One walk; old itself if nothing changed. */
static const IrFunc *one_round(Reorder *r, const IrFunc *old)
{
    uint32_t n_steps = 0;
    r->b.f = rewrite_begin(r->b.m, old).b.f;
    r->table = op_table_new(r->ctx->stage, 0);
    r->n_table = r->values.n = r->facts.n = r->near.n = r->inputs.n = 0;
    r->holds = false;
    find_whole(r, old);
    for (uint32_t i = 0; i < old->results.n; i++) VEC_PUSH(r->b.m->arena, &r->b.f->results, old->results.data[i]);
    fill_pool(r, old);
    for (IrId v = 0; v < r->b.f->ops.n && n_steps < MAX_STEPS; v++)
        if (may_improve(r, v)) n_steps += improve(r, v);
    r->forced = IR_NONE;
    return n_steps ? extract(r) : old;
}

/* Walks until nothing changes; r->total and r->near are those of what is returned. */
static const IrFunc *settle(Reorder *r, const IrFunc *f, IrId forced, uint32_t rule)
{
    const IrFunc *before = NULL;
    r->forced = forced;
    r->forced_rule = rule;
    for (uint32_t round = 0; round < MAX_ROUNDS && before != f; round++) {
        before = f;
        f = one_round(r, f);
    }
    return f;
}

/* f with a step that does not pay alone, if what it makes possible does; NULL where none is known. */
static const IrFunc *with_forced_step(Reorder *r, const IrFunc *f)
{
    RoNear near = r->near;
    double total = r->total, work = r->work;
    r->quiet = true;
    for (uint32_t i = 0; i < near.n && (i + 1) * f->ops.n <= MAX_TRIED_OPS; i++) {
        const IrFunc *g = settle(r, f, near.v[i], near.rule[i]);
        if (total - r->total <= LEAST_GAIN * work) continue;
        const IrOp *op = &f->ops.data[near.v[i]];
        r->quiet = false;
        pass_remark(r->ctx, PASS_reorder, true, op->span,
                    "%s: `%s`: %s: pays with the steps that follow, %.0f %% of it all", f->name, ir_ops[op->op].name,
                    rules[near.rule[i]].name, 100 * (total - r->total) / work);
        return g;
    }
    r->quiet = false;
    return NULL;
}

IrModule *pass_reorder(PassContext *ctx, const IrModule *m)
{
    IrModule *next = ir_module_clone(ctx->stage, m);
    RoAliases aliases = {0};
    for (uint32_t i = 0; i < next->funcs.n; i++) {
        Reorder r = {.ctx = ctx, .b = {.m = next}, .aliases = &aliases, .replaced = IR_NONE};
        r.rows = reorder_rows(ctx->stage, next);
        const IrFunc *f = settle(&r, next->funcs.data[i], IR_NONE, 0), *better = f;
        for (uint32_t k = 0; k < MAX_TAKEN && better; k++)
            if ((better = with_forced_step(&r, f))) f = better;
        next->funcs.data[i] = (IrFunc *)(uintptr_t)f;
    }
    return next;
}
