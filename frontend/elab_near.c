/* Graphs of nearest points: `knn(pos, k = 20)`. Which edges there are is computed where the graph is made, from the
   values that the points have there, in each run; how many, and where they end, is known when the data are loaded.
   Equal calls of one function share a graph. The choice of neighbours has no derivative. */
#include "frontend/sema.h"
#include <math.h>

enum { MAX_NEIGHBOURS = 4096 };

typedef struct Near { /* a call's arguments */
    Value points, to; /* of the sources, of the targets */
    int64_t k, step;
    bool itself;
} Near;

static Value bad_points(Elab *e, const Value *v, Span s)
{
    Diag *d = diag_error(e->d, E0204, s, "knn wants points: a float value of nodes, found %s", value_text(e, v));
    if (v->kind == V_TENSOR && v->type.space != IR_UNIT && e->m->spaces.data[v->type.space].is_edge)
        diag_help(e->d, d, "neighbours are found among nodes; bring edge values to nodes with a reducer");
    return value_error();
}

static bool is_points(Elab *e, const Value *v)
{
    return v->kind == V_TENSOR && ir_dtype_is_float(v->type.dtype) && v->type.space != IR_UNIT &&
           !e->m->spaces.data[v->type.space].is_edge;
}

static bool take_number(Elab *e, const CallArg *a, const char *what, int64_t *n)
{
    const Value *v = &a->value;
    bool whole = v->kind == V_NUMBER && v->num == floor(v->num);
    if (whole && v->num >= 1 && v->num <= MAX_NEIGHBOURS) return *n = (int64_t)v->num, true;
    if (v->kind == V_ERROR) return false;
    diag_error(e->d, E0302, a->ast->span, "found %s, wanted %s, 1 to %d", value_text(e, v), what, MAX_NEIGHBOURS);
    return false;
}

static bool take_arg(Elab *e, const CallArg *a, uint32_t i, Near *n)
{
    static const char *const names[] = {"pos", "k", "to", "loop", "dilation"};
    uint32_t which = 0;
    while (a->name && which < 5 && strcmp(a->name, names[which])) which++;
    if (!a->name) which = i;
    switch (a->word ? 5 : which) {
    case 0: return n->points = a->value, true;
    case 1: return take_number(e, a, "the number of neighbours", &n->k);
    case 4: return take_number(e, a, "which of the neighbours to take", &n->step);
    case 2: return n->to = a->value, true;
    case 3:
        if (a->value.kind != V_BOOL) break;
        return n->itself = a->value.num != 0, true;
    default: break;
    }
    Diag *d = diag_error(e->d, E0302, a->ast->span, "knn has no such argument");
    diag_help(
        e->d, d,
        "`knn(pos, k = 20)`; `loop = true` counts a node among its neighbours; `to = y`: the neighbours of y's rows; "
        "`dilation = 2`: every second");
    return false;
}

static bool take_args(Elab *e, const Call *c, Near *n)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (!take_arg(e, &c->args[i], i, n)) return false;
    if (n->points.kind == V_ERROR || n->to.kind == V_ERROR) return false;
    if (n->to.kind == V_NONE) n->to = n->points;
    if (!is_points(e, &n->points)) return bad_points(e, &n->points, c->span), false;
    if (!is_points(e, &n->to)) return bad_points(e, &n->to, c->span), false;
    if (!n->k) {
        diag_error(e->d, E0302, c->span, "knn wants the number of neighbours: `knn(pos, k = 20)`");
        return false;
    }
    if (n->k * n->step > MAX_NEIGHBOURS) {
        diag_error(e->d, E0302, c->span, "%lld neighbours with a dilation of %lld: wanted at most %d in all",
                   (long long)n->k, (long long)n->step, MAX_NEIGHBOURS);
        return false;
    }
    return true;
}

/* Sources and targets lie in one space of points: dims of the same sizes, in the same order. */
static bool same_dims(Elab *e, Near *n, Span s)
{
    const IrType *a = &n->points.type, *b = &n->to.type;
    bool same = a->n_dims == b->n_dims;
    for (uint32_t i = 0; same && i < a->n_dims; i++)
        same = !dims_named_apart(e, a->dims[i], b->dims[i]) &&
               size_unify(&e->z, dim_size(e, a->dims[i]), dim_size(e, b->dims[i]), s);
    if (same) n->to = op_reshape(e, n->to, a->dims, a->n_dims);
    else
        diag_error(e->d, E0201, s, "the points are %s and %s: wanted the same dims", value_text(e, &n->points),
                   value_text(e, &n->to));
    return same && n->to.kind != V_ERROR;
}

static const GraphValue *graph_near(Elab *e, const Near *n)
{
    bool one = n->points.type.space == n->to.type.space;
    IrGraph g = {.name = arena_printf(e->a, "near%u", e->m->graphs.n),
                 .kind = IR_GRAPH_NEAREST,
                 .policy = n->itself ? IR_LOOPS_KEEP : IR_LOOPS_REMOVE,
                 .n_edges = n->k,
                 .step = n->step,
                 .base = IR_NONE,
                 .orig = IR_NONE,
                 .image = IR_NONE,
                 .batch = one ? map_graph(e, n->points.type.space) : IR_NONE,
                 .src_space = n->points.type.space,
                 .dst_space = n->to.type.space};
    g.edge = ir_space_new(e->m, arena_printf(e->a, "edge.%s", g.name), true);
    graph_maps(e, &g);
    e->m->maps.data[g.src].computed = true;
    return graph_add(e, g);
}

Value builtin_knn(Elab *e, const Call *c)
{
    Near n = {.points = value_none(c->span), .to = value_none(c->span), .step = 1};
    if (!take_args(e, c, &n) || !same_dims(e, &n, c->span) || !rows_all_used(e, n.points.type.space, "`knn`", c->span))
        return value_error();
    for (uint32_t i = 0; i < e->near.n; i++) {
        const NearGraph *x = &e->near.data[i];
        if (x->f == e->f && x->points == n.points.id && x->to == n.to.id && x->k == n.k && x->step == n.step &&
            x->itself == n.itself)
            return value_graph(x->graph, c->span);
    }
    const GraphValue *g = graph_near(e, &n);
    IrType t = ir_scalar(IR_I64);
    t.space = graph_ir(e, g)->edge;
    IrAttr attr = {.map = graph_ir(e, g)->src};
    IrId found = op_add(e, IR_OP_nearest, t, (IrId[]){n.to.id, n.points.id}, 2, attr, c->span);
    op_add(e, IR_OP_route, t, &found, 1, attr, c->span);
    VEC_PUSH(e->a, &e->near, ((NearGraph){e->f, n.points.id, n.to.id, n.k, n.step, n.itself, g}));
    return value_graph(g, c->span);
}
