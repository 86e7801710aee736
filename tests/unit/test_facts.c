/* Facts about values (passes/rewrite/facts.h) against the interpreter: random programs over every op, of which each
   value is a result. What is certain holds for arguments at the ends of the number line too; the rest where arguments
   are of usual size and nothing overflowed. */
#include "passes/rewrite/facts.h"
#include "tests/unit/check.h"
#include "tests/unit/gir_random.h"
#include <math.h>

typedef struct Tally {
    long claims[16], refuted; /* by bit of Facts */
    long elements;
} Tally;

static const Facts checked = FACT_FREE - 1 /* all of them */;
static const double LARGE = 100; /* no op of one element overflows for operands below */

static bool holds(Facts fact, double x)
{
    switch ((int)fact) {
    case FACT_FINITE:
    case FACT_IN_RANGE:
    case FACT_NO_EXP: return isfinite(x);
    case FACT_NO_NEG_ZERO: return x != 0 || !signbit(x);
    case FACT_POSITIVE: return !signbit(x) || isnan(x);
    case FACT_NONZERO: return x != 0;
    case FACT_NOT_NEGATIVE: return x >= 0 || isnan(x);
    case FACT_SMALL: return fabs(x) <= 1e6;
    case FACT_CALM: return isfinite((float)x);
    case FACT_AWAY: return fabs(x) >= 5e-4 || isnan(x);
    case FACT_LOW: return exp(x) <= 1e6 || isnan(x);
    default: return false;
    }
}

static double largest(const EvalValue *x)
{
    double most = 0;
    for (int64_t k = 0; k < x->rows * x->width; k++)
        if (!(fabs(x->v[k]) <= most)) most = fabs(x->v[k]);
    return most;
}

/* Facts that may be asked of this op's value, seeing what its operands were. */
static Facts fair(const IrOp *op, EvalValue *const *values, bool usual)
{
    Facts certain = FACT_FINITE | FACT_NO_NEG_ZERO | FACT_POSITIVE;
    if (!usual) return certain;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (!(largest(values[op->args[k]]) < LARGE)) return certain;
    return checked;
}

static void check_value(const IrModule *m, const IrFunc *f, IrId v, const EvalValue *x, Facts facts, Tally *tally)
{
    for (unsigned bit = 0; bit < 16; bit++) {
        if (!(facts >> bit & 1)) continue;
        tally->claims[bit]++;
        for (int64_t k = 0; k < x->rows * x->width; k++) {
            tally->elements++;
            if (x->undecided[k] || holds((Facts)(1u << bit), x->v[k])) continue;
            check(false, "%%%u = %s : %s: fact %u, but element %lld is %g", v, ir_ops[f->ops.data[v].op].name,
                  ir_type_text(m, &x->type, m->arena), 1u << bit, (long long)k, x->v[k]);
            return;
        }
    }
}

static double extreme(GirRng *r)
{
    static const double ends[] = {-0.0, 0.0, INFINITY, -INFINITY, NAN, 1e38, -1e38, 1e-45, -1e-45, 1.0, -1.0};
    return ends[gir_below(r, sizeof ends / sizeof *ends)];
}

static void check_program(uint64_t seed, bool usual, Tally *tally)
{
    Arena *a = arena_new();
    IrModule *m = gir_random(a, seed, 40, seed % 3 ? IR_F32 : IR_F64, false);
    IrFunc *f = m->funcs.data[0];
    f->results.n = 0;
    for (IrId v = 0; v < f->ops.n; v++) ir_result(m, f, arena_printf(a, "r%u", v), v, IR_NONE);
    int64_t *graph_of, n_graphs;
    EvalGraph g = gir_graph(a, (uint32_t)(seed % 6), &graph_of, &n_graphs);
    const char *why = "";
    EvalWorld *w = eval_world(a, m, &g, graph_of, n_graphs, &why);
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1), **values = NULL;
    GirRng r = {seed + 3};
    for (uint32_t i = 0; i < f->args.n && w; i++) {
        args[i] = eval_value_new(a, m, w, f->args.data[i].type);
        gir_fill(args[i], &r);
        for (int64_t k = 0; k < args[i]->rows * args[i]->width && !usual && ir_dtype_is_float(args[i]->type.dtype); k++)
            if (gir_below(&r, 2)) args[i]->v[k] = extreme(&r);
    }
    if (w) values = eval_func(a, m, w, f, args, &why);
    if (check(values != NULL, "%s", why)) {
        Facts *facts = ARENA_ARRAY(a, Facts, f->ops.n + 1);
        for (IrId v = 0; v < f->ops.n; v++) {
            const IrOp *op = &f->ops.data[v];
            facts[v] = facts_of(m, f, op, facts);
            if (ir_dtype_is_float(op->type.dtype))
                check_value(m, f, v, values[v], facts[v] & fair(op, values, usual), tally);
        }
    }
    if (!check_ok) printf("seed %llu\n", (unsigned long long)seed);
    arena_free(a);
}

static void test_random(const char *name, bool usual, uint64_t first)
{
    Tally tally = {0};
    check_begin();
    for (uint64_t seed = first; seed < first + check_amount(300, 5000) && check_ok; seed++)
        check_program(seed, usual, &tally);
    for (unsigned bit = 0; bit < 16; bit++)
        if ((usual ? checked : FACT_FINITE | FACT_NO_NEG_ZERO | FACT_POSITIVE) >> bit & 1)
            check(tally.claims[bit] > 100, "fact %u is claimed %ld times", 1u << bit, tally.claims[bit]);
    check_end(name);
}

/* What a formula is worth to the passes: facts that are known, and ones that are not. */
static void test_formulas(void)
{
    Arena *a = arena_new();
    IrModule *m = ir_module_new(a, "m");
    IrFunc *f = ir_func_new(m, "f");
    IrType t = ir_scalar(IR_F32);
    Facts facts[16];
    check_begin();
    IrId x = ir_arg(m, f, (IrArg){.name = "x", .kind = IR_ARG_TENSOR, .type = t});
    IrId square = ir_add(m, f, IR_OP_mul, t, (IrId[]){x, x}, 2, (IrAttr){0}, (Span){0});
    IrId tiny = ir_add(m, f, IR_OP_const, t, NULL, 0, (IrAttr){.f = 1e-16}, (Span){0});
    IrId sum = ir_add(m, f, IR_OP_add, t, (IrId[]){square, tiny}, 2, (IrAttr){0}, (Span){0});
    IrId part = ir_add(m, f, IR_OP_div, t, (IrId[]){x, sum}, 2, (IrAttr){0}, (Span){0});
    IrId e = ir_add(m, f, IR_OP_exp, t, &part, 1, (IrAttr){0}, (Span){0});
    IrId ratio = ir_add(m, f, IR_OP_div, t, (IrId[]){x, square}, 2, (IrAttr){0}, (Span){0});
    IrId fifty = ir_add(m, f, IR_OP_const, t, NULL, 0, (IrAttr){.f = 50}, (Span){0});
    IrId large = ir_add(m, f, IR_OP_exp, t, &fifty, 1, (IrAttr){0}, (Span){0});
    IrId larger = ir_add(m, f, IR_OP_mul, t, (IrId[]){large, large}, 2, (IrAttr){0}, (Span){0});
    for (IrId v = 0; v < f->ops.n; v++) facts[v] = facts_of(m, f, &f->ops.data[v], facts);
    CHECK(!(facts[large] & FACT_SMALL) && !(facts[larger] & FACT_CALM)); /* 5e21, and no f32 */
    CHECK(facts[x] == FACTS_USUAL);
    CHECK((facts[sum] & (FACTS_ABOVE_0 | FACT_AWAY)) == FACTS_ABOVE_0); /* never 0, but nearly */
    CHECK((facts[part] & FACTS_USUAL) == (FACTS_USUAL & ~FACT_SMALL));
    CHECK((facts[e] & (FACTS_USUAL | FACT_POSITIVE)) == (FACT_IN_RANGE | FACT_POSITIVE)); /* overflows soon */
    CHECK(!(facts[ratio] & (FACT_IN_RANGE | FACT_NO_EXP)));                               /* 1/0 */
    CHECK(!(facts[e] & FACT_FINITE) && !(facts[part] & FACT_POSITIVE));
    arena_free(a);
    check_end("facts: of a quotient by a sum that is nearly 0, and of its exp");
}

int main(void)
{
    test_formulas();
    test_random("facts: hold for arguments of usual size", true, 0);
    test_random("facts: what is certain holds at the ends of the number line", false, 10000);
    return check_done();
}
