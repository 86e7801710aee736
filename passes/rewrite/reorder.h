/* Between the parts of the pass `reorder`: one function as a pool of ops in which alternatives are built beside what
   they may replace, and the price of either. */
#pragma once
#include "passes/rewrite/cse.h"
#include "passes/rewrite/facts.h"
#include "passes/rewrite/rewrite.h"

/* Beside the facts of facts.h. */
enum {
    RO_PINNED = FACT_FREE,
    /* a grad's variable: opaque */ RO_FIXED = FACT_FREE << 1 /* the same in every run: `hoist` may compute it once */
};
enum { RO_MAX_TERMS = 24, RO_MAX_DEPTH = 12 };

typedef struct RoCost {        /* of a value, per row of a node space */
    double bytes, flops, time; /* time: in bytes' worth */
} RoCost;

typedef struct RoValue { /* beside each op of the pool */
    uint32_t uses;       /* by ops that a result reaches; 0: dead */
    uint32_t look_epoch; /* met when what is near to an op was listed last */
    uint32_t lift_epoch; /* `lift` holds for this question of reorder_lift */
    IrId lift;
    uint32_t reads; /* of what is held as far as prices go: bits of operands that are inputs it keeps alive */
    double to_make; /* time, of what is the same in every run; 0: not asked yet */
} RoValue;

typedef struct RoAlias { /* a dim of the same size, where a type would have the dim twice */
    IrId dim, alias;
} RoAlias;
typedef struct RoAliases {
    RoAlias *data;
    uint32_t n, cap;
} RoAliases;

enum { RO_MAX_NEAR = 12 };
typedef struct RoNear { /* ops whose replacement was refused and would not cost much */
    IrId v[RO_MAX_NEAR];
    uint32_t rule[RO_MAX_NEAR], n;
} RoNear;

typedef struct Reorder {
    PassContext *ctx;
    Build b; /* the pool: operands before their uses only until something was replaced */
    OpTable table;
    uint32_t n_table;
    VEC(RoValue) values;
    VEC(Facts) facts;   /* of each op of the pool */
    RoAliases *aliases; /* of the module */
    bool has_grad;      /* adjoints will be made of what is here */
    bool holds;         /* the function runs many times: what is fixed may be held */
    const double *rows; /* [spaces] expected, in rows of a node space */
    bool *whole;        /* [maps] none of its elements is without an image, though the map is partial */
    double total;       /* time of the function that the pool began with */
    double work;        /* the same without the time to read its inputs; gains are shares of it */
    IrValues inputs;    /* of the function: reorder_is_input */
    IrId replaced;      /* the op that something else is looked for; IR_NONE */
    IrId forced;        /* this op is replaced by that rule even if that alone costs something; IR_NONE */
    uint32_t forced_rule;
    bool quiet; /* no remarks: it is only tried */
    RoNear near;
    VEC(IrId) far;     /* what is kept alive while an op is looked at */
    VEC(IrId) made_of; /* scratch of is_circular */
    uint32_t epoch, look_epoch;
} Reorder;

static inline const IrOp *ro_op(const Reorder *r, IrId v) { return &r->b.f->ops.data[v]; }
static inline IrType ro_type(const Reorder *r, IrId v) { return r->b.f->ops.data[v].type; }
static inline const IrMap *ro_map(const Reorder *r, IrId map) { return &r->b.m->maps.data[map]; }
/* May some element be without an image, so that it reads 0? */
static inline bool ro_is_partial(const Reorder *r, IrId map)
{
    return r->b.m->maps.data[map].partial && !r->whole[map];
}
static inline bool ro_knows(const Reorder *r, IrId v, Facts facts) { return (r->facts.data[v] & facts) == facts; }
/* The op that makes v; NULL where v is opaque. */
static inline const IrOp *ro_def(const Reorder *r, IrId v) { return ro_knows(r, v, RO_PINNED) ? NULL : ro_op(r, v); }
static inline bool ro_is_const(const Reorder *r, IrId v, double *value)
{
    return !ro_knows(r, v, RO_PINNED) && irb_is_const(&r->b, v, value);
}

/* ---- reorder_cost.c ---- */

/* [spaces] how many rows each has for one of a node space, as expected (rows.h). */
const double *reorder_rows(Arena *a, const IrModule *m);
/* Of one op, its operands given. */
RoCost reorder_op_cost(const Reorder *r, IrId v);
/* An input with rows, in a function that runs many times on it: what is held may be read in its place. All other
   arguments live for good. */
bool reorder_is_input(const Reorder *r, IrId v);
/* Uses of v come and go; what lives or dies with it is added to *cost. */
void reorder_acquire(Reorder *r, IrId v, RoCost *cost);
void reorder_release(Reorder *r, IrId v, RoCost *cost);
/* What v would cost beside what lives. */
double reorder_price(Reorder *r, IrId v);
/* The cheaper of two equal values, a if none is, but rather not the op that is to be replaced; IR_NONE stands for no
   value. */
IrId reorder_cheaper(Reorder *r, IrId a, IrId b);

/* ---- reorder_build.c: ops of the pool; an equal one is made once. IR_NONE in, IR_NONE out. ---- */

IrId ro_add(Reorder *r, IrOpcode op, IrType type, const IrId *args, uint32_t n, IrAttr attr);
IrId ro_const(Reorder *r, IrType type, double value);
IrId ro_unary(Reorder *r, IrOpcode op, IrType type, IrId x, IrAttr attr);
IrId ro_neg(Reorder *r, IrId x);
IrId ro_map2(Reorder *r, IrOpcode op, IrId x, IrId y);
IrId ro_select(Reorder *r, IrId c, IrId x, IrId y);
IrId ro_gather(Reorder *r, IrId map, IrId x);
IrId ro_reduce(Reorder *r, IrOpcode op, IrId map, IrId x, double empty);
/* Sum of x*y over what `type` lacks, in the operands' space unless type is unit; type's dims that neither has are left
   out. Unit operands stand second. */
IrId ro_contract(Reorder *r, IrId x, IrId y, IrType type);
/* v as a contract, which a sum over dims of a product is as well. */
bool ro_product(Reorder *r, IrId v, IrOp *out);
/* The op that makes v; for an `at` the contract with a one-hot that it equals. Not where values of rows that are not
   read may be infinite: 0 times them is NaN. */
IrOp ro_linear(Reorder *r, IrId v);
/* x with dim `from` named `to`: said of what it is made of, as deep as may be. */
IrId ro_renamed(Reorder *r, IrId x, IrId from, IrId to);
IrId ro_slice(Reorder *r, IrId x, IrId dim, int64_t first, IrId to);
/* x as a value of that type: transposed, or broadcast. */
IrId ro_as(Reorder *r, IrId x, IrType type);
IrId ro_alias(Reorder *r, IrId dim);
/* The number of rows that `map` sums, as floats. */
IrId ro_degree(Reorder *r, IrId map, IrDtype t);
/* The type's dims that x or y have; in `space`. */
IrType ro_kept(const IrType *type, const IrType *x, const IrType *y, IrId space);
static inline bool ro_has_dim(const Reorder *r, IrId v, IrId dim)
{
    return ir_type_has_dim(&r->b.f->ops.data[v].type, dim);
}

/* ---- reorder_facts.c ---- */

Facts reorder_facts(const Reorder *r, const IrOp *op);
/* y where no row is summed: its value, and `neutral` on rows that `map` sums nothing into, unless y is known to do no
   harm there: finite (and, for a divisor, not 0). */
IrId reorder_guard(Reorder *r, IrId y, IrId map, double neutral, bool divisor);
/* Before autodiff: y as operand k of an `op` on rows of which `map` may sum nothing. There it is a number at which op
   and its derivatives are finite, unless y is known to do no harm. `given`: y was there before. */
IrId reorder_harmless(Reorder *r, IrOpcode op, uint32_t k, IrId y, IrId map, bool given);
/* Whether adjoints will be made of v, and its cotangent may be infinite or NaN in rows into which nothing is summed. */
bool reorder_is_sharp(const Reorder *r, IrId v);
/* `sum`, found for the reduce_sum v: before autodiff cut off where no row is summed if its cotangent may be NaN there,
   which no row of v's operand would have read. */
IrId reorder_guard_sum(Reorder *r, IrId v, IrId sum);

/* ---- reorder_lift.c: what depends on one end only ---- */

/* The value y with v = gather y via map; v itself if it is unit; IR_NONE if v depends on anything else. */
IrId reorder_lift(Reorder *r, IrId v, IrId map);
/* Where v compares values with an extreme of others that hold the same numbers, both stay as they are made. */
void reorder_keep_winners(Reorder *r, IrId v);
/* The first map through which something that v is computed from in its space was gathered; IR_NONE. */
IrId reorder_lift_map(const Reorder *r, IrId v);
/* Rules: a value equal to op v, or IR_NONE. */
IrId reorder_rule_lift(Reorder *r, IrId v);

/* ---- reorder_terms.c: sums and products of several values ---- */

typedef struct RoTerm {
    IrId v;
    bool inverse; /* subtracted; divided by */
} RoTerm;
typedef struct RoTerms {
    RoTerm of[RO_MAX_TERMS];
    uint32_t n;
    bool negative; /* products: the sign */
} RoTerms;
/* v as a sum, as a product. False if it has one term or too many. */
bool reorder_terms(const Reorder *r, IrId v, RoTerms *out);
bool reorder_factors(const Reorder *r, IrId v, RoTerms *out);
/* Their sum; terms of one map are added before they are gathered. IR_NONE without terms. */
IrId reorder_sum(Reorder *r, const RoTerms *t);
/* Their product, narrow factors first. `group`: factors of one map are multiplied before they are gathered. */
IrId reorder_product(Reorder *r, const RoTerms *t, bool group);
IrId reorder_rule_terms(Reorder *r, IrId v);

/* ---- reorder_linear.c: contract ---- */

IrId reorder_rule_contract(Reorder *r, IrId v);
/* A sum of outer products over rows as one of what these are made of, as far as that goes. */
IrId reorder_rule_outer(Reorder *r, IrId v);
/* contract x, w : type by the cheapest order, w unit. */
IrId reorder_matmul(Reorder *r, IrId x, IrId w, IrType type, int depth);

/* ---- reorder_rows.c: reduce_* ---- */

IrId reorder_rule_reduce(Reorder *r, IrId v);
/* reduce_sum x via map by the cheapest order. */
IrId reorder_rows_sum(Reorder *r, IrId x, IrId map, int depth);
