/* Sums and products of several values, taken apart and put together in a cheaper order:
     gather(a via src) + b + gather(c via src)     ->   gather(a + c via src) + b
     contract(x, V) - contract(x, W)               ->   contract(x, V - W)
     contract(x, W) + contract(y, W)               ->   contract(x + y, W)
     gather(a via src) * b * gather(c via src)     ->   gather(a * c via src) * b
   Whether that pays is asked elsewhere. */
#include "passes/rewrite/reorder.h"
#include "base/ice.h"

/* ---- apart ---- */

static bool flatten(const Reorder *r, IrId v, bool inverse, RoTerms *out)
{
    const IrOp *op = ro_def(r, v);
    if (out->n + 2 > RO_MAX_TERMS) return false;
    if (op && op->op == IR_OP_neg) return flatten(r, op->args[0], !inverse, out);
    if (op && (op->op == IR_OP_add || op->op == IR_OP_sub))
        return flatten(r, op->args[0], inverse, out) && flatten(r, op->args[1], inverse ^ (op->op == IR_OP_sub), out);
    out->of[out->n++] = (RoTerm){v, inverse};
    return true;
}

bool reorder_terms(const Reorder *r, IrId v, RoTerms *out)
{
    *out = (RoTerms){.n = 0};
    return flatten(r, v, false, out) && out->n > 1;
}

static bool factorise(const Reorder *r, IrId v, bool inverse, RoTerms *out)
{
    const IrOp *op = ro_def(r, v);
    if (out->n + 2 > RO_MAX_TERMS) return false;
    if (op && op->op == IR_OP_neg) {
        out->negative = !out->negative;
        return factorise(r, op->args[0], inverse, out);
    }
    if (op && (op->op == IR_OP_mul || (op->op == IR_OP_div && !inverse)))
        return factorise(r, op->args[0], inverse, out) &&
               factorise(r, op->args[1], inverse ^ (op->op == IR_OP_div), out);
    out->of[out->n++] = (RoTerm){v, inverse};
    return true;
}

bool reorder_factors(const Reorder *r, IrId v, RoTerms *out)
{
    *out = (RoTerms){.n = 0};
    return factorise(r, v, false, out) && out->n > 1;
}

/* ---- together: sums ---- */

static void remove_term(RoTerms *t, uint32_t i)
{
    ICE_UNLESS(i < t->n);
    t->n--;
    memmove(t->of + i, t->of + i + 1, (t->n - i) * sizeof *t->of);
}

static IrId add_signed(Reorder *r, IrId x, bool minus_x, IrId y, bool minus_y, bool *minus)
{
    *minus = minus_x && minus_y;
    if (minus_x && !minus_y) return ro_map2(r, IR_OP_sub, y, x);
    return ro_map2(r, minus_x == minus_y ? IR_OP_add : IR_OP_sub, x, y);
}

/* Two products with one operand in common, as one. */
static IrId merged_products(Reorder *r, const RoTerm *x, const RoTerm *y, bool *minus)
{
    if (!ro_def(r, x->v) || !ro_def(r, y->v)) return IR_NONE;
    IrOp a = ro_linear(r, x->v), b = ro_linear(r, y->v);
    if (a.op != IR_OP_contract || b.op != IR_OP_contract || !ir_type_eq(&a.type, &b.type)) return IR_NONE;
    IrType type = a.type;
    for (uint32_t k = 0; k < 2; k++) {
        IrId same = a.args[k], p = a.args[1 - k], q = b.args[1 - k];
        IrType tp = ro_type(r, p), tq = ro_type(r, q);
        if (same != b.args[k] || !ir_type_eq(&tp, &tq)) continue;
        return ro_contract(r, same, add_signed(r, p, x->inverse, q, y->inverse, minus), type);
    }
    return IR_NONE;
}

static void merge_products(Reorder *r, RoTerms *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        for (uint32_t j = i + 1; j < t->n; j++) {
            bool minus;
            IrId v = merged_products(r, &t->of[i], &t->of[j], &minus);
            if (v == IR_NONE) continue;
            t->of[i] = (RoTerm){v, minus};
            remove_term(t, j);
            j = i;
        }
}

/* ---- together: parts of one whole ---- */

typedef struct Part { /* of a concat: at its first element of the dim */
    IrId v;
    int64_t first, size;
} Part;
typedef struct Parts {
    Part of[RO_MAX_TERMS];
    uint32_t n;
} Parts;

/* Adds the parts that are not 0, in their order; false where two overlap or there are too many. */
static bool add_parts(Reorder *r, const IrOp *concat, Parts *out)
{
    uint32_t at = 0;
    int64_t first = 0;
    ICE_UNLESS(ir_type_has_dim(&concat->type, concat->attr.dim));
    while (concat->type.dims[at] != concat->attr.dim) at++;
    for (uint32_t k = 0; k < concat->n_args; k++) {
        double c;
        int64_t size = r->b.m->dims.data[ro_type(r, concat->args[k]).dims[at]].size;
        bool zero = ro_is_const(r, concat->args[k], &c) && c == 0;
        uint32_t i = 0;
        while (i < out->n && out->of[i].first + out->of[i].size <= first) i++;
        if (!zero) {
            if (out->n == RO_MAX_TERMS || (i < out->n && out->of[i].first < first + size)) return false;
            memmove(out->of + i + 1, out->of + i, (out->n - i) * sizeof *out->of);
            out->of[i] = (Part){concat->args[k], first, size};
            out->n++;
        }
        first += size;
    }
    return true;
}

/* concat(0, x) + concat(y, 0) = concat(y, x): the gradients of slices. IR_NONE unless nothing but parts is summed. */
static IrId joined_parts(Reorder *r, const RoTerms *t)
{
    Parts parts = {.n = 0};
    const IrOp *first = t->n > 1 ? ro_def(r, t->of[0].v) : NULL;
    int64_t end = 0;
    for (uint32_t i = 0; i < t->n && first; i++) {
        const IrOp *op = ro_def(r, t->of[i].v);
        if (!op || op->op != IR_OP_concat || t->of[i].inverse || op->attr.dim != first->attr.dim ||
            !ir_type_eq(&op->type, &first->type) || !add_parts(r, op, &parts))
            return IR_NONE;
    }
    IrId args[RO_MAX_TERMS];
    for (uint32_t i = 0; i < parts.n; i++) {
        if (parts.of[i].first != end) return IR_NONE;
        args[i] = parts.of[i].v;
        end += parts.of[i].size;
    }
    if (!first || end != r->b.m->dims.data[first->attr.dim].size) return IR_NONE;
    return ro_add(r, IR_OP_concat, first->type, args, parts.n, first->attr);
}

static IrId plain_sum(Reorder *r, RoTerms t)
{
    IrId whole = joined_parts(r, &t);
    if (whole != IR_NONE) return whole;
    merge_products(r, &t);
    if (!t.n) return IR_NONE;
    uint32_t first = 0; /* one that is not subtracted */
    while (first < t.n && t.of[first].inverse) first++;
    bool none = first == t.n;
    IrId sum = t.of[none ? 0 : first].v;
    for (uint32_t i = 0; i < t.n; i++)
        if (i != (none ? 0 : first)) sum = ro_map2(r, t.of[i].inverse && !none ? IR_OP_sub : IR_OP_add, sum, t.of[i].v);
    return none ? ro_neg(r, sum) : sum;
}

/* The map through which all of a term was gathered. `factor`: before autodiff a product at rows that nothing reads
   must have finite derivatives. */
static IrId map_of(Reorder *r, RoTerm term, bool factor)
{
    IrId v = term.v, map = reorder_lift_map(r, v);
    if (factor && r->has_grad && !ro_knows(r, v, term.inverse ? FACT_IN_RANGE | FACT_NONZERO : FACT_IN_RANGE))
        return IR_NONE;
    return map != IR_NONE && reorder_lift(r, v, map) != IR_NONE ? map : IR_NONE;
}

/* Where numbers and biases go: to rows that are read in order, if any. */
static IrId home_of(const Reorder *r, const IrId *maps, const RoTerms *t)
{
    IrId home = IR_NONE;
    for (uint32_t i = 0; i < t->n; i++) {
        if (maps[i] == IR_NONE || ro_map(r, maps[i])->partial) continue;
        if (home == IR_NONE || (ro_map(r, maps[i])->sorted && !ro_map(r, home)->sorted)) home = maps[i];
    }
    return home;
}

/* Terms of one map, added or multiplied before they are gathered; *rest loses them. IR_NONE: they cannot be. */
static RoTerm group(Reorder *r, RoTerms *rest, IrId *maps, IrId map, bool product)
{
    RoTerms here = {.n = 0};
    uint32_t n = 0, n_inverse = 0;
    bool lost = false; /* lifting the terms before it pinned what one is made of */
    for (uint32_t i = 0; i < rest->n; i++) {
        RoTerm term = rest->of[i];
        if (maps[i] == map) {
            IrId v = reorder_lift(r, term.v, map);
            bool given = ro_op(r, term.v)->op == IR_OP_gather;
            lost |= v == IR_NONE;
            if (product && r->has_grad) v = reorder_harmless(r, IR_OP_div, term.inverse, v, map, given);
            here.of[here.n++] = (RoTerm){v, term.inverse};
            n_inverse += term.inverse;
            continue;
        }
        maps[n] = maps[i];
        rest->of[n++] = term;
    }
    ICE_UNLESS(n + here.n == rest->n); /* each term is in one of the two */
    rest->n = n;
    if (lost) return (RoTerm){IR_NONE, false};
    bool inverse = product && n_inverse == here.n; /* divided by their product */
    for (uint32_t i = 0; inverse && i < here.n; i++) here.of[i].inverse = false;
    return (RoTerm){ro_gather(r, map, product ? reorder_product(r, &here, false) : plain_sum(r, here)), inverse};
}

/* Each term's map; what is unit is added where it costs least. */
static void find_maps(Reorder *r, const RoTerms *t, IrId *maps, bool product)
{
    for (uint32_t i = 0; i < t->n; i++) maps[i] = map_of(r, t->of[i], product);
    IrId home = product ? IR_NONE : home_of(r, maps, t);
    for (uint32_t i = 0; i < t->n; i++)
        if (ro_type(r, t->of[i].v).space == IR_UNIT) maps[i] = home;
}

IrId reorder_sum(Reorder *r, const RoTerms *t)
{
    RoTerms rest = *t;
    IrId maps[RO_MAX_TERMS], grouped = IR_NONE;
    find_maps(r, &rest, maps, false);
    for (uint32_t i = 0; i < rest.n;) {
        if (maps[i] == IR_NONE) {
            i++;
            continue;
        }
        IrId v = group(r, &rest, maps, maps[i], false).v;
        if (v == IR_NONE) return IR_NONE;
        grouped = grouped == IR_NONE ? v : ro_map2(r, IR_OP_add, grouped, v);
        i = 0;
    }
    if (!rest.n || grouped == IR_NONE) return rest.n ? plain_sum(r, rest) : grouped;
    if (rest.n == 1) return ro_map2(r, rest.of[0].inverse ? IR_OP_sub : IR_OP_add, grouped, rest.of[0].v);
    return ro_map2(r, IR_OP_add, plain_sum(r, rest), grouped);
}

/* ---- together: products ---- */

static double width_of(const Reorder *r, IrId v)
{
    IrType t = ro_type(r, v);
    return (double)ir_type_width(r->b.m, &t) + (t.space == IR_UNIT ? 0 : 0.5);
}

static void narrow_first(const Reorder *r, RoTerms *t)
{
    for (uint32_t i = 1; i < t->n; i++)
        for (uint32_t j = i; j > 0 && width_of(r, t->of[j].v) < width_of(r, t->of[j - 1].v); j--) {
            RoTerm swap = t->of[j];
            t->of[j] = t->of[j - 1];
            t->of[j - 1] = swap;
        }
}

IrId reorder_product(Reorder *r, const RoTerms *t, bool grouped)
{
    RoTerms rest = *t;
    IrId maps[RO_MAX_TERMS];
    if (grouped) {
        RoTerms gathered = {.n = 0};
        find_maps(r, &rest, maps, true);
        for (uint32_t i = 0; i < rest.n;) {
            if (maps[i] == IR_NONE) i++;
            else gathered.of[gathered.n++] = group(r, &rest, maps, maps[i], true);
        }
        for (uint32_t i = 0; i < gathered.n; i++) rest.of[rest.n++] = gathered.of[i];
        for (uint32_t i = 0; i < rest.n; i++)
            if (rest.of[i].v == IR_NONE) return IR_NONE;
    }
    narrow_first(r, &rest);
    IrId product = IR_NONE;
    for (uint32_t i = 0; i < rest.n; i++)
        if (!rest.of[i].inverse)
            product = product == IR_NONE ? rest.of[i].v : ro_map2(r, IR_OP_mul, product, rest.of[i].v);
    for (uint32_t i = 0; i < rest.n; i++) {
        if (!rest.of[i].inverse) continue;
        if (product == IR_NONE) product = ro_const(r, ir_scalar(ro_type(r, rest.of[i].v).dtype), 1);
        product = ro_map2(r, IR_OP_div, product, rest.of[i].v);
    }
    return t->negative ? ro_neg(r, product) : product;
}

/* ---- rule ---- */

IrId reorder_rule_terms(Reorder *r, IrId v)
{
    RoTerms t;
    if (reorder_terms(r, v, &t)) return reorder_sum(r, &t);
    return reorder_factors(r, v, &t) ? reorder_product(r, &t, true) : IR_NONE;
}
