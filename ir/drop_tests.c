/* A module without its tests (ir/graph.h): their functions go, and with them the dims, spaces, maps, graphs and tensors
   that only they reach. What nothing reaches stays: it is the module's contract with its data. The ids of what stays
   close up. */
#include "ir/graph.h"
#include "base/ice.h"
#include <string.h>

typedef enum { DIM, SPACE, MAP, GRAPH, TENSOR, N_TABLES } Table;
/* What happens to every id that something holds: the thing is marked, or the id becomes the thing's new number. */
typedef struct Walk {
    bool *marks[N_TABLES];
    const IrId *numbers[N_TABLES]; /* NULL: marks */
    bool more;                     /* something was marked */
} Walk;

static void visit(Walk *w, Table t, IrId *id)
{
    if (*id == IR_NONE) return;
    if (w->numbers[t]) {
        *id = w->numbers[t][*id];
        ICE_UNLESS(*id != IR_NONE); /* what stays holds nothing that goes */
    } else if (!w->marks[t][*id]) {
        w->marks[t][*id] = w->more = true;
    }
}

static void visit_type(Walk *w, IrType *t)
{
    visit(w, SPACE, &t->space);
    for (uint32_t i = 0; i < t->n_dims; i++) visit(w, DIM, &t->dims[i]);
}

static void visit_space(Walk *w, IrSpace *s)
{
    if (s->has_dim) visit(w, DIM, &s->dim);
}

static void visit_map(Walk *w, IrMap *m)
{
    visit(w, SPACE, &m->from);
    visit(w, SPACE, &m->to);
    visit(w, MAP, &m->inverse);
}

static void visit_graph(Walk *w, IrGraph *g)
{
    IrId *spaces[] = {&g->edge, &g->src_space, &g->dst_space},
         *maps[] = {&g->src, &g->dst, &g->orig, &g->image, &g->batch, &g->of};
    for (int i = 0; i < 3; i++) visit(w, SPACE, spaces[i]);
    for (int i = 0; i < 6; i++) visit(w, MAP, maps[i]);
    visit(w, GRAPH, &g->base);
}

static void visit_tensor(Walk *w, IrTensor *t)
{
    visit_type(w, &t->type);
    if (t->is_map) visit(w, MAP, &t->map);
    if (!t->nonzeros.present) return;
    visit(w, TENSOR, &t->nonzeros.of);
    visit(w, MAP, &t->nonzeros.row);
    visit(w, MAP, &t->nonzeros.col);
}

static void visit_func(Walk *w, IrFunc *f)
{
    for (uint32_t i = 0; i < f->args.n; i++) {
        if (f->args.data[i].kind == IR_ARG_TENSOR) visit(w, TENSOR, &f->args.data[i].ref);
        visit_type(w, &f->args.data[i].type);
    }
    for (uint32_t i = 0; i < f->ops.n; i++) {
        visit_type(w, &f->ops.data[i].type);
        visit(w, MAP, &f->ops.data[i].attr.map);
        visit(w, DIM, &f->ops.data[i].attr.dim);
    }
    for (uint32_t i = 0; i < f->results.n; i++) visit(w, TENSOR, &f->results.data[i].tensor);
}

/* Marks what is reached from what is marked. A graph makes its spaces; a map is of the space that it leads from. */
static void reach(Walk *w, IrModule *m)
{
    const bool *spaces = w->marks[SPACE];
    do {
        w->more = false;
        for (IrId i = 0; i < m->graphs.n; i++) {
            const IrGraph *g = &m->graphs.data[i];
            IrId id = i;
            if (spaces[g->edge] || spaces[g->src_space] || spaces[g->dst_space]) visit(w, GRAPH, &id);
        }
        for (IrId i = 0; i < m->maps.n; i++) {
            IrId id = i, from = m->maps.data[i].from;
            if (from != IR_UNIT && spaces[from]) visit(w, MAP, &id);
        }
        for (IrId i = 0; i < m->spaces.n; i++)
            if (spaces[i]) visit_space(w, &m->spaces.data[i]);
        for (IrId i = 0; i < m->maps.n; i++)
            if (w->marks[MAP][i]) visit_map(w, &m->maps.data[i]);
        for (IrId i = 0; i < m->graphs.n; i++)
            if (w->marks[GRAPH][i]) visit_graph(w, &m->graphs.data[i]);
        for (IrId i = 0; i < m->tensors.n; i++)
            if (w->marks[TENSOR][i]) visit_tensor(w, &m->tensors.data[i]);
    } while (w->more);
}

static void counts(const IrModule *m, uint32_t n[N_TABLES])
{
    n[DIM] = m->dims.n, n[SPACE] = m->spaces.n, n[MAP] = m->maps.n, n[GRAPH] = m->graphs.n, n[TENSOR] = m->tensors.n;
}

/* The functions of tests, or all others, copied so that their ids may change. */
typedef VEC(IrFunc *) Funcs;
static Funcs copies(Arena *a, const IrModule *m, bool of_tests)
{
    Funcs out = {0};
    for (IrId i = 0; i < m->funcs.n; i++) {
        bool is_test = false;
        for (uint32_t k = 0; k < m->tests.n; k++) is_test |= m->tests.data[k].func == i;
        if (is_test != of_tests) continue;
        IrFunc *f = ARENA_NEW(a, IrFunc);
        const IrFunc *old = m->funcs.data[i];
        *f = (IrFunc){.name = old->name, .train_mode = old->train_mode};
        for (uint32_t k = 0; k < old->args.n; k++) VEC_PUSH(a, &f->args, old->args.data[k]);
        for (uint32_t k = 0; k < old->ops.n; k++) VEC_PUSH(a, &f->ops, old->ops.data[k]);
        for (uint32_t k = 0; k < old->results.n; k++) VEC_PUSH(a, &f->results, old->results.data[k]);
        VEC_PUSH(a, &out, f);
    }
    return out;
}

#define CLOSE_UP(v, keep, number)                                                                                      \
    do {                                                                                                               \
        uint32_t n_ = 0;                                                                                               \
        for (uint32_t i_ = 0; i_ < (v)->n; i_++) {                                                                     \
            (number)[i_] = (keep)[i_] ? n_ : IR_NONE;                                                                  \
            if ((keep)[i_]) (v)->data[n_++] = (v)->data[i_];                                                           \
        }                                                                                                              \
        (v)->n = n_;                                                                                                   \
    } while (0)

const IrModule *ir_without_tests(Arena *a, const IrModule *m)
{
    if (!m->tests.n) return m;
    IrModule *out = ir_module_clone(a, m);
    Funcs tests = copies(a, m, true), others = copies(a, m, false);
    Walk tested = {0}, kept = {0}, renumber = {0};
    IrId *numbers[N_TABLES];
    uint32_t n[N_TABLES];
    counts(m, n);
    for (int t = 0; t < N_TABLES; t++) {
        tested.marks[t] = ARENA_ARRAY(a, bool, n[t] + 1);
        kept.marks[t] = ARENA_ARRAY(a, bool, n[t] + 1);
        renumber.numbers[t] = numbers[t] = ARENA_ARRAY(a, IrId, n[t] + 1);
    }
    for (uint32_t i = 0; i < tests.n; i++) visit_func(&tested, tests.data[i]);
    reach(&tested, out);
    for (int t = 0; t < N_TABLES; t++)
        for (uint32_t i = 0; i < n[t]; i++) kept.marks[t][i] = !tested.marks[t][i];
    for (uint32_t i = 0; i < others.n; i++) visit_func(&kept, others.data[i]);
    kept.marks[SPACE][IR_UNIT] = true;
    reach(&kept, out);

    CLOSE_UP(&out->dims, kept.marks[DIM], numbers[DIM]);
    CLOSE_UP(&out->spaces, kept.marks[SPACE], numbers[SPACE]);
    CLOSE_UP(&out->maps, kept.marks[MAP], numbers[MAP]);
    CLOSE_UP(&out->graphs, kept.marks[GRAPH], numbers[GRAPH]);
    CLOSE_UP(&out->tensors, kept.marks[TENSOR], numbers[TENSOR]);
    for (uint32_t i = 0; i < out->spaces.n; i++) visit_space(&renumber, &out->spaces.data[i]);
    for (uint32_t i = 0; i < out->maps.n; i++) visit_map(&renumber, &out->maps.data[i]);
    for (uint32_t i = 0; i < out->graphs.n; i++) visit_graph(&renumber, &out->graphs.data[i]);
    for (uint32_t i = 0; i < out->tensors.n; i++) visit_tensor(&renumber, &out->tensors.data[i]);
    for (uint32_t i = 0; i < others.n; i++) visit_func(&renumber, others.data[i]);
    out->funcs.n = out->funcs.cap = out->tests.n = 0;
    out->funcs.data = NULL;
    for (uint32_t i = 0; i < others.n; i++) VEC_PUSH(a, &out->funcs, others.data[i]);
    return out;
}
