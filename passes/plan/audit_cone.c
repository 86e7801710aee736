/* Checks the rows that a plan leaves out: they stay 0 instead of what the function says, and that must not reach a
   result. On the small graph, with some rows in each mask, audit_cone follows group by group what is known of each row
   of each value:

     %20 = div %8, %13    a row of %13 is left out, so that it is 0: the row of %20 may be anything, infinite too
     %21 = mul %20, %4    a row of %4 is 0 for good: the row of %21 is 0, unless %20 may be infinite there

   It takes sets of rows from the plan and nothing else of what the pass `cone` found out. What is right is taken to be
   finite. */
#include "passes/plan/audit.h"

typedef enum {
    ROW_ZERO, /* right, and 0 (false) */
    ROW_TRUE, /* right, and true */
    ROW_RIGHT,
    ROW_PLAIN, /* wrong: made of rows that were left out, which are 0, and of what all rows share */
    ROW_WRONG, /* of other rows' numbers, too; finite */
    ROW_WILD   /* maybe infinite or NaN */
} Row;

typedef struct ConeRun {
    Audit *x;
    const AuditWorld *w;
    bool **sets;      /* by set of the program: [count] */
    uint8_t **truth;  /* by value, were nothing left out: Row [count of its space] */
    uint8_t **memory; /* by stored value: as it lies there */
    uint8_t **local;  /* by value: as the group at hand has it */
    uint32_t g;
    const PlanCone *cone; /* the rows that the step of group g computes; NULL: it computes all */
    Arena *scratch;
} ConeRun;

static int64_t rows_of(const ConeRun *c, IrId space)
{
    return audit_count(c->w, &(PlanCount){.kind = space ? PLAN_COUNT : PLAN_CONST, .space = space, .value = 1});
}
static bool is_right(Row x) { return x <= ROW_RIGHT; }

/* ---- sets -------------------------------------------------------------------------------------------------------- */

/* A mask of n rows holds one row in eight, and none of its last. */
static bool in_mask(IrId tensor, int64_t row, int64_t n)
{
    return row * 4 < n * 3 && ((uint64_t)(row + 3 * tensor + 1) * 2654435761u >> 7) % 8 == 0;
}

static void fill_set(ConeRun *c, uint32_t s)
{
    const PlanSet *x = &c->x->p->sets.data[s];
    int64_t n = rows_of(c, x->space);
    for (IrId space = 0; x->kind == PLAN_SET_EMPTY && space < c->w->m->spaces.n; space++) /* of any space */
        if (rows_of(c, space) > n) n = rows_of(c, space);
    bool *out = c->sets[s] = ARENA_ARRAY(c->x->arena, bool, n + 1);
    bool maps = x->kind == PLAN_SET_IMAGE || x->kind == PLAN_SET_ORIGIN || x->kind == PLAN_SET_WALK;
    const IrMap *map = maps ? &c->w->m->maps.data[x->ref] : NULL;
    const int64_t *to = maps ? c->w->w->maps[x->ref] : NULL;
    const bool *a = x->a == PLAN_SET_ALL ? NULL : c->sets[x->a], *b = x->b == PLAN_SET_ALL ? NULL : c->sets[x->b];
    for (int64_t i = 0; i < n && x->kind != PLAN_SET_IMAGE; i++) switch (x->kind) {
        case PLAN_SET_MASK: out[i] = in_mask(x->ref, i, n); break;
        case PLAN_SET_ORIGIN: out[i] = to[i] >= 0 && a[to[i]]; break;
        case PLAN_SET_EITHER: out[i] = a[i] || b[i]; break;
        case PLAN_SET_BOTH: out[i] = a[i] && b[i]; break;
        case PLAN_SET_WALK:
            out[i] = a[i] ||
                     (to[i] >= 0 && c->w->rows[x->ref][to[i] + 1] - c->w->rows[x->ref][to[i]] > ORDER_ROW_BLOCK);
            break;
        default: break;
        }
    for (int64_t i = 0; x->kind == PLAN_SET_IMAGE && i < rows_of(c, map->from); i++)
        if (a[i] && to[i] >= 0) out[to[i]] = true;
}

/* ---- one row of an operation ---- */

/* The state of a row that is computed from all rows that were added. shared: what all rows share does not count as a
   row's number. */
typedef struct Mix {
    bool zero, wrong, mixed, wild, numbers;
} Mix;

static void add(Mix *m, Row x, bool shared)
{
    m->zero &= x == ROW_ZERO;
    m->wrong |= !is_right(x);
    m->mixed |= x == ROW_WRONG;
    m->wild |= x == ROW_WILD;
    m->numbers |= (x == ROW_RIGHT || x == ROW_TRUE) && !shared;
}

static Row mix_of(const Mix *m, bool zero_stays)
{
    if (m->wild) return ROW_WILD;
    if (zero_stays && m->zero) return ROW_ZERO;
    return !m->wrong ? ROW_RIGHT : m->mixed || m->numbers ? ROW_WRONG : ROW_PLAIN;
}

static Row row_of_select(Row cond, Row yes, Row no)
{
    Mix m = {.zero = true};
    if (cond == ROW_ZERO) return no;
    if (cond == ROW_TRUE) return yes;
    if (yes == ROW_ZERO && no == ROW_ZERO) return ROW_ZERO;
    add(&m, cond, false);
    add(&m, yes, false);
    add(&m, no, false);
    return mix_of(&m, true);
}

static Row row_of_mix(const IrOp *op, const Row *args, const bool *shared)
{
    Mix m = {.zero = true};
    bool wrong = false;
    for (uint32_t k = 0; k < op->n_args; k++) add(&m, args[k], shared[k]), wrong |= !is_right(args[k]);
    bool stays = (ir_ops[op->op].traits & (T_ZERO | T_DIMS)) != 0, pole = (ir_ops[op->op].traits & T_POLE) != 0;
    bool grows = op->op == IR_OP_exp || op->op == IR_OP_expm1;
    if (op->op == IR_OP_div && is_right(args[1])) pole = false;
    Row x = mix_of(&m, stays);
    if (op->op == IR_OP_div && args[0] == ROW_ZERO && is_right(args[1])) return ROW_ZERO;
    return wrong && (pole || (grows && x == ROW_WRONG)) ? ROW_WILD : x;
}

static Row row_of(const IrOp *op, const Row *args, const bool *shared)
{
    bool zero = false, truth = true;
    for (uint32_t k = 0; k < op->n_args; k++) zero |= args[k] == ROW_ZERO, truth &= args[k] == ROW_TRUE;
    switch (op->op) {
    case IR_OP_const: return op->attr.f == 0 ? ROW_ZERO : ROW_RIGHT;
    case IR_OP_mul:
    case IR_OP_contract:
        return zero && args[0] != ROW_WILD && args[1] != ROW_WILD ? ROW_ZERO : row_of_mix(op, args, shared);
    case IR_OP_and: return zero ? ROW_ZERO : truth ? ROW_TRUE : row_of_mix(op, args, shared);
    case IR_OP_or:
        if (args[0] == ROW_TRUE || args[1] == ROW_TRUE) return ROW_TRUE;
        return args[0] == ROW_ZERO && args[1] == ROW_ZERO ? ROW_ZERO : row_of_mix(op, args, shared);
    case IR_OP_not:
        return args[0] == ROW_ZERO ? ROW_TRUE : args[0] == ROW_TRUE ? ROW_ZERO : row_of_mix(op, args, shared);
    case IR_OP_ne: return args[0] == ROW_ZERO && args[1] == ROW_ZERO ? ROW_ZERO : row_of_mix(op, args, shared);
    case IR_OP_select: return row_of_select(args[0], args[1], args[2]);
    default: return row_of_mix(op, args, shared);
    }
}

/* ---- all rows of a value ----------------------------------------------------------------------------------------- */

typedef const uint8_t *RowsOf(ConeRun *c, IrId v);

static void rows_of_arg(const ConeRun *c, const IrOp *op, uint8_t *out, int64_t n)
{
    const IrArg *arg = &c->x->f->f->args.data[op->attr.i];
    const IrTensor *t = arg->kind == IR_ARG_TENSOR ? &c->w->m->tensors.data[arg->ref] : NULL;
    bool mask = t && (t->kind == IR_INPUT || t->kind == IR_HELD) && op->type.dtype == IR_BOOL && !op->type.n_dims &&
                op->type.space != IR_UNIT;
    for (int64_t i = 0; i < n; i++) out[i] = !mask ? ROW_RIGHT : in_mask(arg->ref, i, n) ? ROW_TRUE : ROW_ZERO;
}

/* walk: elements that the sum takes in, or NULL: all. Others have to be 0. */
static void rows_of_sum(const ConeRun *c, const IrOp *op, const uint8_t *x, const bool *walk, uint8_t *out, int64_t n)
{
    const IrMap *map = &c->w->m->maps.data[op->attr.map];
    const int64_t *to = c->w->w->maps[op->attr.map];
    Mix *m = ARENA_ARRAY(c->scratch, Mix, n + 1);
    for (int64_t i = 0; i < n; i++) m[i].zero = true;
    for (int64_t e = 0; e < rows_of(c, map->from); e++) {
        if (to[e] < 0) continue;
        Row left_out = c->truth[op->args[0]] && c->truth[op->args[0]][e] == ROW_ZERO ? ROW_ZERO : ROW_WRONG;
        add(&m[to[e]], !walk || walk[e] ? (Row)x[e] : left_out, false);
    }
    for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)mix_of(&m[i], op->op == IR_OP_reduce_sum);
}

/* Orders of a row's elements: of all that the row has. */
static void rows_of_order(ConeRun *c, const IrOp *op, RowsOf *of, uint8_t *out, int64_t n)
{
    const IrMap *map = &c->w->m->maps.data[op->attr.map];
    const int64_t *to = c->w->w->maps[op->attr.map];
    int64_t n_from = rows_of(c, map->from), n_to = rows_of(c, map->to);
    Mix *m = ARENA_ARRAY(c->scratch, Mix, n_to + 1);
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId space = fused_op(c->x->f, op->args[k])->type.space;
        const uint8_t *x = of(c, op->args[k]);
        for (int64_t e = 0; e < n_from && space == map->from; e++)
            if (to[e] >= 0) add(&m[to[e]], (Row)x[e], false);
        for (int64_t t = 0; t < n_to && space != map->from; t++) add(&m[t], (Row)x[space == map->to ? t : 0], false);
    }
    bool by_element = op->type.space == map->from;
    for (int64_t i = 0; i < n; i++)
        out[i] = by_element && to[i] < 0 ? ROW_RIGHT : (uint8_t)mix_of(&m[by_element ? to[i] : i], false);
}

/* Gives all n rows of op the same state, made of all rows of its first and last operand: each row of a reshape between
   spaces, of a sum over all rows or of a rank may depend on any row of them. */
static void rows_of_all(ConeRun *c, const IrOp *op, RowsOf *of, uint8_t *out, int64_t n)
{
    Mix m = {.zero = true};
    const uint8_t *x[2] = {of(c, op->args[0]), of(c, op->args[op->n_args - 1])};
    IrId s[2] = {fused_op(c->x->f, op->args[0])->type.space, fused_op(c->x->f, op->args[op->n_args - 1])->type.space};
    int64_t n0 = rows_of(c, s[0]), n1 = rows_of(c, s[1]);
    for (int64_t i = 0; i < (n0 > n1 ? n0 : n1); i++) {
        Row pair[2] = {(Row)x[0][n0 == 1 ? 0 : i], (Row)x[1][n1 == 1 ? 0 : i]};
        bool shared[2] = {false, false};
        add(&m, op->op == IR_OP_contract ? row_of(op, pair, shared) : pair[0], false);
        if (op->op != IR_OP_contract) add(&m, pair[1], false);
    }
    for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)mix_of(&m, op->op == IR_OP_contract || op->op == IR_OP_reshape);
}

static bool is_by_row(const ConeRun *c, const IrOp *op)
{
    if (op->op == IR_OP_nearest || op->op == IR_OP_route) return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId space = fused_op(c->x->f, op->args[k])->type.space;
        if (space != IR_UNIT && space != op->type.space) return false;
    }
    return op->op != IR_OP_reshape || fused_op(c->x->f, op->args[0])->type.space == op->type.space;
}

static uint8_t *compute(ConeRun *c, IrId v, RowsOf *of, const bool *walk)
{
    const IrOp *op = fused_op(c->x->f, v);
    int64_t n = rows_of(c, op->type.space);
    uint8_t *out = ARENA_ARRAY(c->scratch, uint8_t, n + 1);
    const uint8_t **x = ARENA_ARRAY(c->scratch, const uint8_t *, op->n_args + 1);
    Row *args = ARENA_ARRAY(c->scratch, Row, op->n_args + 1);
    bool *shared = ARENA_ARRAY(c->scratch, bool, op->n_args + 1);
    for (uint32_t k = 0; k < op->n_args; k++) {
        x[k] = of(c, op->args[k]);
        shared[k] = fused_op(c->x->f, op->args[k])->type.space == IR_UNIT;
    }
    if (op->op == IR_OP_arg) {
        rows_of_arg(c, op, out, n);
    } else if (op->op == IR_OP_gather) {
        const int64_t *to = c->w->w->maps[op->attr.map];
        for (int64_t i = 0; i < n; i++) out[i] = to[i] < 0 ? ROW_ZERO : x[0][to[i]];
    } else if (ir_ops[op->op].traits & T_REDUCE) {
        rows_of_sum(c, op, x[0], walk, out, n);
    } else if (op->op == IR_OP_rank || op->op == IR_OP_nth) {
        rows_of_order(c, op, of, out, n);
    } else if (op->n_args && !is_by_row(c, op)) {
        rows_of_all(c, op, of, out, n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < op->n_args; k++) args[k] = (Row)x[k][shared[k] ? 0 : i];
            out[i] = (uint8_t)row_of(op, args, shared);
        }
    }
    return out;
}

static const uint8_t *truth_of(ConeRun *c, IrId v) { return c->truth[v]; }

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static const uint8_t *local_of(ConeRun *c, IrId v)
{
    const FusedFunc *f = c->x->f;
    const Group *g = &f->groups.data[c->g];
    uint32_t own = f->group_of.data[v];
    if (c->local[v]) return c->local[v];
    if (own != GROUP_NONE && own != c->g && !group_has_inner(g, v)) return c->memory[v] ? c->memory[v] : c->truth[v];
    bool sums = g->kind == GROUP_ROWS && c->cone && c->cone->walk != PLAN_SET_ALL && fused_op(f, v)->attr.map == g->map;
    return c->local[v] = compute(c, v, local_of, sums ? c->sets[c->cone->walk] : NULL);
}

/* [rows of the group's space] whether its step computes the row; a block of rows is computed whole. NULL: it computes
   all. */
static const bool *computed_rows(const ConeRun *c, const PlanStep *s)
{
    if (!c->cone) return NULL;
    const bool *rows = c->sets[s->cone.rows];
    int64_t n = rows_of(c, s->extent.space), block = s->extent.kind == PLAN_BLOCKS ? s->extent.block : 1;
    bool *out = ARENA_ARRAY(c->scratch, bool, n + block);
    for (int64_t i = 0; i < n; i++)
        if (rows[i])
            for (int64_t k = i / block * block; k < i / block * block + block; k++) out[k] = true;
    return out;
}

static void store(ConeRun *c, const PlanStep *s, IrId v, const bool *rows)
{
    const Group *g = &c->x->f->groups.data[c->g];
    IrId space = fused_op(c->x->f, v)->type.space;
    int64_t n = rows_of(c, space);
    const uint8_t *x = local_of(c, v);
    const int64_t *to = space == s->extent.space || g->map == IR_NONE ? NULL : c->w->w->maps[g->map];
    const bool *walk = to && c->cone && s->cone.walk != PLAN_SET_ALL ? c->sets[s->cone.walk] : NULL;
    uint8_t *out = c->memory[v] = ARENA_ARRAY(c->x->arena, uint8_t, n + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = to ? to[i] : i;
        bool there = !rows || (row >= 0 && rows[row] && (!walk || walk[i]));
        out[i] = there ? x[i] : c->truth[v][i] == ROW_ZERO ? (uint8_t)ROW_ZERO : (uint8_t)ROW_PLAIN;
    }
}

static void run_group(ConeRun *c, const PlanStep *s)
{
    const FusedFunc *f = c->x->f;
    c->g = s->group;
    c->cone = s->cone.rows == PLAN_SET_ALL ? NULL : &s->cone;
    c->scratch = arena_new();
    c->local = ARENA_ARRAY(c->scratch, uint8_t *, f->f->ops.n + 1);
    const bool *rows = computed_rows(c, s);
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (f->group_of.data[v] == c->g && f->stored.data[v]) store(c, s, v, rows);
    arena_free(c->scratch);
}

static void check_results(ConeRun *c)
{
    const IrFunc *f = c->x->f->f;
    for (uint32_t i = 0; i < f->results.n; i++) {
        IrId v = f->results.data[i].value;
        for (int64_t r = 0; c->memory[v] && r < rows_of(c, f->ops.data[v].type.space); r++)
            if (!is_right((Row)c->memory[v][r]))
                audit_fail(c->x, UINT32_MAX, "result `%s`: row %lld of %%%u depends on rows that are left out",
                           f->results.data[i].name, (long long)r, v);
    }
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* A long row is summed by blocks of its elements: those left out of it would move the others into other blocks. */
static void check_long_rows(ConeRun *c, uint32_t s)
{
    const PlanStep *step = &c->x->p->steps.data[s];
    if (step->cone.rows == PLAN_SET_ALL || step->cone.walk == PLAN_SET_ALL) return;
    const int64_t *rows = c->w->rows[step->cut];
    const bool *walk = c->sets[step->cone.walk];
    for (int64_t v = 0; v < rows_of(c, c->w->m->maps.data[step->cut].to); v++) {
        int64_t n = rows[v + 1] - rows[v], taken = 0;
        for (int64_t k = rows[v]; k < rows[v + 1]; k++) taken += walk[c->w->list[step->cut][k]];
        if (n > ORDER_ROW_BLOCK && taken && taken < n)
            audit_fail(c->x, s, "leaves out some elements of a long row, whose blocks are others then");
    }
}

static bool is_summed(const ConeRun *c, const IrOp *op)
{
    bool summed = op->op == IR_OP_reduce_sum || op->op == IR_OP_sum_dims;
    for (unsigned k = 0; op->op == IR_OP_contract && k < 2; k++) {
        const IrType *t = &fused_op(c->x->f, op->args[k])->type;
        summed |= t->space != op->type.space && t->space != IR_UNIT;
        for (unsigned i = 0; i < t->n_dims; i++) summed |= !ir_type_has_dim(&op->type, t->dims[i]);
    }
    return summed;
}

/* What is left out is 0, where it might be -0: behind a sum, which begins with 0, both are alike. */
static void check_signs(const ConeRun *c)
{
    const IrFunc *f = c->x->f->f;
    bool *bare = ARENA_ARRAY(c->x->arena, bool, f->ops.n + 1);
    for (uint32_t s = 0; s < c->x->p->steps.n; s++) {
        const PlanStep *step = &c->x->p->steps.data[s];
        for (IrId v = 0; v < f->ops.n && step->cone.rows != PLAN_SET_ALL; v++)
            bare[v] |= c->x->f->group_of.data[v] == step->group && c->x->f->stored.data[v];
    }
    for (IrId v = 0; v < f->ops.n; v++)
        for (uint32_t k = 0; k < f->ops.data[v].n_args && !is_summed(c, &f->ops.data[v]); k++)
            bare[v] |= bare[f->ops.data[v].args[k]];
    for (uint32_t i = 0; i < f->results.n; i++)
        if (bare[f->results.data[i].value])
            audit_fail(c->x, UINT32_MAX, "result `%s`: zeros of %%%u have the sign of what is left out",
                       f->results.data[i].name, f->results.data[i].value);
}

/* Of all values together, as far as they can be counted: what is known of them takes a byte for each. */
static bool has_few_rows(const ConeRun *c)
{
    const IrFunc *f = c->x->f->f;
    int64_t n = 0;
    for (IrId v = 0; v < f->ops.n && n <= AUDIT_MOST_ALL; v++) n += rows_of(c, f->ops.data[v].type.space);
    return n <= AUDIT_MOST_ALL;
}

void audit_cone(Audit *x, const AuditWorld *w)
{
    uint32_t n = x->f->f->ops.n + 1;
    ConeRun c = {.x = x,
                 .w = w,
                 .sets = ARENA_ARRAY(x->arena, bool *, x->p->sets.n + 1),
                 .truth = ARENA_ARRAY(x->arena, uint8_t *, n),
                 .memory = ARENA_ARRAY(x->arena, uint8_t *, n),
                 .scratch = x->arena};
    if (!x->p->sets.n || x->why || !has_few_rows(&c)) return;
    for (uint32_t s = 0; s < x->p->sets.n; s++) fill_set(&c, s);
    for (IrId v = 0; v + 1 < n; v++) c.truth[v] = compute(&c, v, truth_of, NULL);
    uint32_t last = GROUP_NONE;
    for (uint32_t s = 0; s < x->p->steps.n; s++) {
        const PlanStep *step = &x->p->steps.data[s];
        if (step->group != last) run_group(&c, step);
        last = step->group;
        check_long_rows(&c, s);
    }
    check_results(&c);
    check_signs(&c);
}
