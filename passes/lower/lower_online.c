/* Sums that rescale: a sum of exp(a - b) * x, with b the maximum of a over the same row, needs b only as a factor
   exp(-b) of the whole sum. So it goes on while b grows: one walk over the row computes b and the sums.

     for blocks of 256 elements:
       b' = max(b, the block's maximum);  total *= exp(b - b');  part = sum of exp(a - b') * x;  total += part
   Likewise exp(b - a) with b the minimum. A row of one block has the bits of two walks. As long as all of a is
   -inf, b counts as 0, so that exp(a - b) is 0 and no sum turns to NaN before its time; at the end the sums are what
   the two walks give: NaN if b is infinite and not kept from being so by the program itself.
   Recognised by algebra alone: products, quotients, sums and views of values that scale. Decides nothing else. */
#include "base/ice.h"
#include "passes/lower/kmath.h"
#include "passes/lower/lower_kernel.h"
#include <math.h>

typedef enum { FREE, SCALES, NEITHER } Scaling; /* of a value with exp(-b): not at all, as a factor, otherwise */

typedef struct Scale {
    Lower *l;
    Online *o;
    const bool *done; /* by root of the group */
    uint8_t *known;   /* by value: scaling + 1 */
} Scale;

static Scaling scaling(Scale *s, IrId v);

/* shift is b, or b where it is finite and 0 elsewhere. */
static bool is_shift(const Scale *s, IrId shift, bool *guarded)
{
    const FusedFunc *f = s->l->f;
    const IrOp *op = fused_op(f, shift), *lt, *abs;
    *guarded = false;
    if (shift == s->o->extreme) return true;
    if (op->op == IR_OP_detach) return is_shift(s, op->args[0], guarded);
    if (op->op != IR_OP_select) return false;
    *guarded = true;
    lt = fused_op(f, op->args[0]);
    if (lt->op != IR_OP_lt || op->args[1] != s->o->extreme) return false;
    abs = fused_op(f, lt->args[0]);
    const IrOp *zero = fused_op(f, op->args[2]), *inf = fused_op(f, lt->args[1]);
    return abs->op == IR_OP_abs && abs->args[0] == s->o->extreme && zero->op == IR_OP_const && zero->attr.f == 0 &&
           inf->op == IR_OP_const && inf->attr.f == INFINITY;
}

/* exp(a - gather b), or exp(gather b - a) with b a minimum. */
static bool is_shifted_exp(const Scale *s, const IrOp *op)
{
    const FusedFunc *f = s->l->f;
    if (op->op != IR_OP_exp || fused_op(f, op->args[0])->op != IR_OP_sub) return false;
    const IrOp *sub = fused_op(f, op->args[0]), *extreme = fused_op(f, s->o->extreme);
    bool max = extreme->op == IR_OP_reduce_max, guarded;
    const IrOp *gather = fused_op(f, sub->args[max ? 1 : 0]);
    if (sub->args[max ? 0 : 1] != extreme->args[0] || gather->op != IR_OP_gather) return false;
    if (gather->attr.map != extreme->attr.map || !is_shift(s, gather->args[0], &guarded)) return false;
    if (s->o->shift != IR_NONE && s->o->shift != gather->args[0]) return false;
    s->o->shift = gather->args[0];
    s->o->guarded = guarded;
    return true;
}

/* How many elements follow each index of `dim`, so that reshape keeps the index where this stays the same. */
static int64_t stride_of(const IrModule *m, const IrType *t, IrId dim)
{
    int64_t n = 1;
    for (uint8_t k = t->n_dims; k > 0 && t->dims[k - 1] != dim; k--) n *= m->dims.data[t->dims[k - 1]].size;
    return n;
}

/* Each element of op's result has one b: it has b's dims, at the index where its operands have them. */
static bool keeps_dims(const Scale *s, const IrOp *op)
{
    const FusedFunc *f = s->l->f;
    const IrType *b = &fused_op(f, s->o->extreme)->type;
    for (uint8_t k = 0; k < b->n_dims; k++) {
        if (!ir_type_has_dim(&op->type, b->dims[k])) return false;
        if (op->op != IR_OP_reshape) continue;
        const IrType *from = &fused_op(f, op->args[0])->type;
        if (stride_of(f->m, from, b->dims[k]) != stride_of(f->m, &op->type, b->dims[k])) return false;
    }
    return true;
}

static Scaling of_args(Scale *s, const IrOp *op)
{
    bool all_scale = op->n_args > 0, all_free = true;
    unsigned n = 0;
    for (uint32_t k = 0; k < op->n_args; k++) {
        Scaling x = scaling(s, op->args[k]);
        if (x == NEITHER) return NEITHER;
        all_scale &= x == SCALES;
        all_free &= x == FREE;
        n += x == SCALES;
    }
    if (all_free) return FREE;
    if (!keeps_dims(s, op)) return NEITHER;
    switch (op->op) {
    case IR_OP_mul:
    case IR_OP_contract: return n == 1 ? SCALES : NEITHER;
    case IR_OP_div: return n == 1 && scaling(s, op->args[1]) == FREE ? SCALES : NEITHER;
    case IR_OP_add:
    case IR_OP_sub: return all_scale ? SCALES : NEITHER;
    case IR_OP_neg:
    case IR_OP_detach:
    case IR_OP_reshape:
    case IR_OP_slice:
    case IR_OP_sum_dims: return SCALES;
    default: return NEITHER;
    }
}

static Scaling scaling(Scale *s, IrId v)
{
    const FusedFunc *f = s->l->f;
    if (s->known[v]) return (Scaling)(s->known[v] - 1);
    const Group *g = &f->groups.data[s->l->g];
    const IrOp *op = fused_op(f, v);
    uint32_t group = f->group_of.data[v];
    Scaling x;
    bool memory = group != GROUP_NONE && group != s->l->g && !group_has_copy(f, s->l->g, v);
    if (op->op == IR_OP_arg || memory) x = FREE;
    else if (is_shifted_exp(s, op)) x = SCALES;
    else x = of_args(s, op);
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.data[i] == v) x = s->done[i] ? FREE : NEITHER;
    s->known[v] = (uint8_t)(x + 1);
    return x;
}

/* An array holds what the sums take and what changes with b. */
static bool keeps_some(Scale *s)
{
    StageNeeds needs;
    stage_needs(s->l, s->o->sums, s->o->n, &needs);
    for (unsigned i = 0; i < needs.n_fresh; i++)
        if (scaling(s, s->l->staged.data[needs.fresh[i]].v) != FREE) return true;
    return false;
}

/* Inner values that change with b must be wanted by its sums alone: what they are meanwhile is not what they are. Where
   they are in no array meanwhile, others compute them when b is known: that is another walk, which spares nothing, so
   only a form that is wanted asks for it. */
static bool others_want(Scale *s, const Group *g, const bool *takes)
{
    Lower *l = s->l;
    if (l->f->form && !keeps_some(s)) return false;
    for (uint32_t i = 0; i < g->inner.n; i++) {
        IrId v = g->inner.data[i];
        if (scaling(s, v) != FREE && l->f->stored.data[v] && !group_has_copy(l->f, l->g, v)) return true;
    }
    for (uint32_t k = 0; k < g->roots.n; k++) {
        IrId r = g->roots.data[k];
        if (takes[k] || s->done[k] || group_kind_of(l->f->f, l->f->m, r) != GROUP_ROWS) continue;
        StageNeeds needs;
        stage_needs(l, &r, 1, &needs);
        for (unsigned i = 0; i < needs.n_fresh; i++)
            if (scaling(s, l->staged.data[needs.fresh[i]].v) != FREE) return true;
    }
    return false;
}

void online_note(Lower *l, const Online *o)
{
    PlanForm *form = &l->lf->prog->form;
    for (unsigned i = 0; i < o->n; i++) {
        PlanRescaled x = {fused_origin(l->f, o->sums[i]), fused_origin(l->f, o->extreme)};
        IrId known = plan_form_extreme(form, x.sum); /* by the kernel for other CPUs or for parts of rows */
        ICE_UNLESS(known == IR_NONE || known == x.extreme);
        if (known != IR_NONE) continue;
        VEC_PUSH(l->lf->ctx->stage, &form->online, x);
        for (uint32_t k = form->online.n - 1; k && form->online.data[k - 1].sum > x.sum; k--) {
            form->online.data[k] = form->online.data[k - 1];
            form->online.data[k - 1] = x;
        }
    }
}

/* Where a form is wanted the sum rescales with that maximum or minimum in it. */
static bool form_allows(const FusedFunc *f, IrId sum, IrId extreme)
{
    return !f->form || plan_form_extreme(f->form, fused_origin(f, sum)) == fused_origin(f, extreme);
}

bool online_find(Lower *l, IrId extreme, const bool *done, Online *o)
{
    const Group *g = &l->f->groups.data[l->g];
    const IrOp *op = fused_op(l->f, extreme);
    *o = (Online){.extreme = extreme, .shift = IR_NONE, .sums = ARENA_ARRAY(l->arena, IrId, g->roots.n)};
    if ((op->op != IR_OP_reduce_max && op->op != IR_OP_reduce_min) || !ir_dtype_is_float(op->type.dtype)) return false;
    Arena *scratch = arena_new();
    Scale s = {l, o, done, ARENA_ARRAY(scratch, uint8_t, l->f->f->ops.n + 1)};
    bool *takes = ARENA_ARRAY(scratch, bool, g->roots.n + 1);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        takes[i] = v == extreme;
        if (done[i] || takes[i] || fused_op(l->f, v)->op != IR_OP_reduce_sum || o->n == l->s.together) continue;
        if (!form_allows(l->f, v, extreme)) continue;
        if (scaling(&s, fused_op(l->f, v)->args[0]) != SCALES) continue;
        takes[i] = true;
        o->sums[o->n++] = v;
    }
    bool found = o->n && !others_want(&s, g, takes);
    arena_free(scratch);
    return found;
}

/* ---- one block ---------------------------------------------------------------------------------------------- */

/* b as the block's elements see it: 0 while it is still what it started from. */
static void put_extreme(Lower *l, const Acc *b, KirId value)
{
    KirType t = emit_type(&l->e, value);
    bool max = fused_op(l->f, b->v)->op == IR_OP_reduce_max;
    KirId none = emit_float(&l->e, t, max ? -(double)INFINITY : (double)INFINITY);
    stage_put(l, b->v, &b->p, emit_select(&l->e, emit_op2(&l->e, KIR_eq, value, none), emit_float(&l->e, t, 0), value));
}

static void put_extremes(Lower *l, const Online *o, Accs extremes)
{
    for (unsigned i = 0; i < extremes.n; i++)
        if (extremes.data[i].v == o->extreme) put_extreme(l, &extremes.data[i], extremes.data[i].total);
}

void online_begin(Lower *l, const Online *o, Accs extremes) { put_extremes(l, o, extremes); }

static KirId shift_at(Lower *l, const Online *o, const Acc *a) { return point_full(l, o->shift, a->p.row, &a->p.env); }

void online_rescale(Lower *l, const Online *o, Accs extremes, Accs sums, KirId later)
{
    Emit *e = &l->e;
    KirId *old = ARENA_ARRAY(l->arena, KirId, sums.n + 1);
    bool max = fused_op(l->f, o->extreme)->op == IR_OP_reduce_max;
    ICE_UNLESS(o->shift != IR_NONE && o->n); /* some sum has it as a factor */
    for (unsigned i = 0; i < sums.n; i++) {
        KirType t = emit_type(e, sums.data[i].total);
        old[i] = emit_var(e, "shift", emit_float(e, t, 0));
    }
    emit_if(e, later);
    for (unsigned i = 0; i < sums.n; i++)
        emit_set(e, old[i], emit_splat(e, shift_at(l, o, &sums.data[i]), emit_type(e, old[i]).lanes));
    emit_end(e);
    put_extremes(l, o, extremes);
    emit_if(e, later);
    for (unsigned i = 0; i < sums.n; i++) {
        KirId now = shift_at(l, o, &sums.data[i]);
        KirId by = emit_op2(e, KIR_sub, max ? old[i] : now, max ? now : old[i]);
        by = emit_op2(e, KIR_min, by, emit_float(e, emit_type(e, by), 0)); /* not so before b was a number */
        emit_set(e, sums.data[i].total, emit_op2(e, KIR_mul, sums.data[i].total, emit_expand(e, kmath_exp, by)));
    }
    emit_end(e);
}

/* Where b is infinite, two walks over a row that is not empty give NaN, unless the program guards b. */
KirId online_finish(Lower *l, const Online *o, const Acc *a, KirId empty)
{
    Emit *e = &l->e;
    if (o->guarded) return a->total;
    KirId b = point_full(l, o->extreme, a->p.row, &a->p.env);
    b = emit_select(e, empty, emit_float(e, emit_type(e, b), 0), b);
    return emit_op2(e, KIR_add, a->total, emit_op2(e, KIR_sub, b, b));
}
