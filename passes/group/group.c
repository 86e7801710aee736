/* What can be said of a group, and of an operation in one, without a walk over its trees: fuse, schedule and lower must
   agree on it. Changes nothing. */
#include "passes/group/group.h"
#include "base/ice.h"
#include "ir/plan.h"
#include "passes/context/vectors.h"

const char *const group_kind_names[N_GROUP_KINDS] = {"map",    "rows", "dims", "product", "blocks",
                                                     "concat", "rank", "nth",  "nearest", "route"};

/* ---- facts about operations ------------------------------------------------------------------------ */

static const IrType *arg_type(const IrFunc *f, const IrOp *op, uint32_t k) { return &f->ops.data[op->args[k]].type; }

GroupKind group_kind_of(const IrFunc *f, const IrModule *m, IrId v)
{
    const IrOp *op = &f->ops.data[v];
    switch (op->op) {
    case IR_OP_reduce_sum:
    case IR_OP_reduce_max:
    case IR_OP_reduce_min:
    case IR_OP_reduce_mul: return m->maps.data[op->attr.map].to == IR_UNIT ? GROUP_BLOCKS : GROUP_ROWS;
    case IR_OP_sum_dims:
    case IR_OP_max_dims:
    case IR_OP_min_dims: return GROUP_DIMS;
    case IR_OP_contract:
        if (contract_is_dot(f, op)) return GROUP_DIMS;
        if (op->type.space == IR_UNIT && (arg_type(f, op, 0)->space != IR_UNIT || arg_type(f, op, 1)->space != IR_UNIT))
            return GROUP_BLOCKS;
        return GROUP_PRODUCT;
    case IR_OP_concat: return GROUP_CONCAT;
    case IR_OP_rank: return GROUP_RANK;
    case IR_OP_nth: return GROUP_NTH;
    case IR_OP_nearest: return GROUP_NEAREST;
    case IR_OP_route: return GROUP_ROUTE;
    default: return GROUP_MAP;
    }
}

unsigned group_products(const FusedFunc *f, const Group *g, int64_t *reduced)
{
    unsigned n = 0;
    *reduced = 0;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        if (group_kind_of(f->f, f->m, g->roots.data[i]) != GROUP_PRODUCT) continue;
        IrId dims[2 * IR_MAX_DIMS];
        unsigned n_dims = reduced_dims(f->f, fused_op(f, g->roots.data[i]), dims);
        int64_t each = 1;
        for (unsigned k = 0; k < n_dims && each < INT32_MAX; k++) each *= f->m->dims.data[dims[k]].size;
        *reduced += each;
        n++;
    }
    return n;
}

typedef struct Search {
    const FusedFunc *f;
    IrId on;
    uint32_t g;
    bool *seen;
} Search;

static bool search(const Search *s, IrId v)
{
    if (v == s->on) return true;
    if (v < s->on || s->seen[v]) return false;
    s->seen[v] = true;
    uint32_t group = s->f->group_of.data[v];
    if (group != GROUP_NONE && group != s->g && !group_has_copy(s->f, s->g, v)) return false;
    const IrOp *op = fused_op(s->f, v);
    for (uint32_t k = 0; k < op->n_args; k++)
        if (search(s, op->args[k])) return true;
    return false;
}

bool group_depends(const FusedFunc *f, uint32_t g, IrId v, IrId on)
{
    Arena *scratch = arena_new();
    Search s = {f, on, g, ARENA_ARRAY(scratch, bool, f->f->ops.n + 1)};
    bool found = search(&s, v);
    arena_free(scratch);
    return found;
}

unsigned group_products_together(const FusedFunc *f, uint32_t g)
{
    const Group *x = &f->groups.data[g];
    Arena *scratch = arena_new();
    bool *together = ARENA_ARRAY(scratch, bool, x->roots.n + 1), *reads = ARENA_ARRAY(scratch, bool, x->roots.n + 1);
    unsigned all = 0;
    for (uint32_t i = 0; i < x->roots.n; i++) {
        unsigned n = 0;
        for (uint32_t k = 0; k < x->roots.n && f->stored.data[x->roots.data[i]]; k++) {
            IrId v = x->roots.data[k];
            reads[k] = group_kind_of(f->f, f->m, v) == GROUP_PRODUCT && group_depends(f, g, x->roots.data[i], v);
            n += reads[k];
        }
        for (uint32_t k = 0; k < x->roots.n && n > 1; k++) together[k] |= reads[k];
    }
    for (uint32_t k = 0; k < x->roots.n; k++) all += together[k];
    arena_free(scratch);
    return all;
}

bool op_is_heavy(const IrModule *m, const IrFunc *f, IrId v) { return group_kind_of(f, m, v) != GROUP_MAP; }

bool dims_vector_is_kept(const IrModule *m, const IrFunc *f, const IrOp *op)
{
    const IrType *a = arg_type(f, op, 0);
    if (!op->type.n_dims || !a->n_dims) return false;
    IrId last = op->type.dims[op->type.n_dims - 1];
    return a->dims[a->n_dims - 1] == last && m->dims.data[last].size > 1;
}

bool group_is_scalar(const FusedFunc *f, const Group *g)
{
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        const IrOp *op = fused_op(f, v);
        VecRun run;
        bool sum = group_kind_of(f->f, f->m, v) == GROUP_DIMS && !group_root_is_narrow(f, g, v);
        if (sum && !dims_vector_is_kept(f->m, f->f, op) && !vec_sum_run(f->m, f->f, op, &run)) return true;
    }
    return false;
}

bool group_is_outer(const FusedFunc *f, const Group *g)
{
    ICE_UNLESS(g->roots.n);
    const IrOp *op = fused_op(f, g->roots.data[0]);
    IrId dims[2 * IR_MAX_DIMS];
    if (g->kind != GROUP_BLOCKS || op->op != IR_OP_contract || reduced_dims(f->f, op, dims)) return false;
    const IrType *a = arg_type(f->f, op, 0), *b = arg_type(f->f, op, 1), *r = &op->type;
    if (a->space == IR_UNIT || a->space != b->space || !b->n_dims || r->n_dims != a->n_dims + b->n_dims) return false;
    return !memcmp(r->dims, a->dims, a->n_dims * sizeof *r->dims) &&
           !memcmp(r->dims + a->n_dims, b->dims, b->n_dims * sizeof *r->dims);
}

bool group_may_share(const FusedFunc *f, IrId sum, unsigned k)
{
    const IrOp *op = fused_op(f, sum);
    if (k >= op->n_args || !op->type.n_dims) return false;
    const IrType *t = arg_type(f->f, op, k);
    return t->space != IR_UNIT && t->n_dims && t->dtype != IR_BOOL;
}

const IrGraph *group_nearest(const FusedFunc *f, const Group *g)
{
    IrId map = fused_op(f, g->roots.data[0])->attr.map;
    for (uint32_t i = 0; i < f->m->graphs.n; i++)
        if (f->m->graphs.data[i].src == map) return &f->m->graphs.data[i];
    ICE("nearest points are of no graph");
}

bool reshape_is_rename(const IrModule *m, const IrType *from, const IrType *to)
{
    uint32_t i = 0, j = 0;
    if (from->space != to->space) return false; /* a dim becomes rows, or rows a dim */
    for (;;) {
        while (i < from->n_dims && m->dims.data[from->dims[i]].size == 1) i++;
        while (j < to->n_dims && m->dims.data[to->dims[j]].size == 1) j++;
        if (i == from->n_dims || j == to->n_dims) return i == from->n_dims && j == to->n_dims;
        if (m->dims.data[from->dims[i++]].size != m->dims.data[to->dims[j++]].size) return false;
    }
}

IrId fused_storage(const FusedFunc *f, IrId v)
{
    for (;;) {
        const IrOp *op = fused_op(f, v);
        if (f->group_of.data[v] != GROUP_NONE || (op->op != IR_OP_reshape && op->op != IR_OP_detach)) return v;
        ICE_UNLESS(op->args[0] < v); /* what it is a view of was made before it */
        v = op->args[0];
    }
}

/* ---- inner values ---------------------------------------------------------------------------------------- */

bool group_has_inner(const Group *g, IrId v)
{
    for (uint32_t i = 0; i < g->inner.n; i++)
        if (g->inner.data[i] == v) return true;
    return false;
}

bool group_has_copy(const FusedFunc *f, uint32_t g, IrId v)
{
    uint32_t own = f->group_of.data[v];
    return own != g && group_has_inner(&f->groups.data[g], v);
}

bool group_finds(const FusedFunc *f, uint32_t g, IrId v)
{
    uint32_t own = f->group_of.data[v];
    return fused_op(f, v)->op == IR_OP_arg || (own != GROUP_NONE && own != g && !group_has_copy(f, g, v));
}

bool values_have(const IrValues *values, IrId v)
{
    for (uint32_t i = 0; i < values->n; i++)
        if (values->data[i] == v) return true;
    return false;
}

void values_insert(Arena *a, IrValues *values, IrId v)
{
    VEC_PUSH(a, values, v);
    for (uint32_t i = values->n - 1; i && values->data[i] <= values->data[i - 1]; i--) {
        ICE_UNLESS(values->data[i] != values->data[i - 1]);
        values->data[i] = values->data[i - 1];
        values->data[i - 1] = v;
    }
}

static bool same_sizes(const FusedFunc *f, const IrType *a, const IrType *b)
{
    if (a->n_dims != b->n_dims) return false;
    for (uint8_t k = 0; k < a->n_dims; k++)
        if (f->m->dims.data[a->dims[k]].size != f->m->dims.data[b->dims[k]].size) return false;
    return true;
}

static bool has_origin(const FusedFunc *f, const IrValues *values, IrId origin)
{
    for (uint32_t i = 0; i < values->n; i++)
        if (fused_origin(f, values->data[i]) == origin) return true;
    return false;
}

bool group_rescales(const FusedFunc *f, const Group *g, const Group *more)
{
    const IrValues *roots[] = {&g->roots, more ? &more->roots : NULL};
    for (int k = 0; k < 2 && roots[k] && f->form; k++)
        for (uint32_t i = 0; i < roots[k]->n; i++) {
            IrId extreme = plan_form_extreme(f->form, fused_origin(f, roots[k]->data[i]));
            if (extreme != IR_NONE && (has_origin(f, roots[0], extreme) || (more && has_origin(f, roots[1], extreme))))
                return true;
        }
    return false;
}

bool group_is_staged(const FusedFunc *f, const Group *g)
{
    if (g->kind != GROUP_ROWS) return false;
    if (group_rescales(f, g, NULL)) return true;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const IrType *t = &fused_op(f, g->roots.data[i])->type;
        if (t->n_dims && !same_sizes(f, t, &g->nest)) return true;
    }
    return g->inner.n > 0;
}

bool group_has_narrow(const FusedFunc *f, const Group *g)
{
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (group_root_is_narrow(f, g, g->roots.data[i])) return true;
    return false;
}
