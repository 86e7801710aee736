/* Expected numbers of rows (see rows.h). Looks at how spaces are connected, never at their names. */
#include "passes/context/rows.h"
#include "base/ice.h"

enum { EDGES_PER_NODE = 16, NODES_PER_GRAPH = 32 };

/* The tensor whose nonzero elements are the rows of this space; NULL if none. */
static const IrTensor *nonzeros_of(const IrModule *m, IrId space)
{
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        if (t->nonzeros.present && t->type.space == space) return &m->tensors.data[t->nonzeros.of];
    }
    return NULL;
}

/* The graph whose edges are the rows of this space: pairs of rows of other spaces, several for each, but for a column;
   NULL if none. */
static const IrGraph *graph_of(const IrModule *m, IrId space)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].edge == space) return &m->graphs.data[i];
    return NULL;
}

/* One edge of each row of a space of nodes, also turned around. */
static bool is_of_column(const IrModule *m, const IrGraph *g)
{
    while (g->kind == IR_GRAPH_REVERSE) g = &m->graphs.data[g->base];
    return g->kind == IR_GRAPH_COLUMN;
}

static bool is_end_of_graph(const IrModule *m, IrId space)
{
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].src_space == space || m->graphs.data[i].dst_space == space) return true;
    return false;
}

double expected_rows(const IrModule *m, IrId space)
{
    ICE_UNLESS(space < m->spaces.n);
    const IrSpace *s = &m->spaces.data[space];
    if (space == IR_UNIT) return 1;
    if (s->has_dim) return (double)m->dims.data[s->dim].size;
    const IrGraph *g = graph_of(m, space);
    if (g)
        return (double)EXPECTED_NODES * (is_of_column(m, g) ? 1 : EDGES_PER_NODE) *
               (g->kind == IR_GRAPH_KEYED ? g->ratio : 1);
    const IrTensor *whole = nonzeros_of(m, space);
    if (whole) return expected_elements(m, &whole->type) / EXPECTED_ELEMENTS_PER_NONZERO;
    return is_end_of_graph(m, space) ? EXPECTED_NODES : EXPECTED_NODES / NODES_PER_GRAPH;
}

bool has_many_rows(const IrModule *m, IrId space) { return expected_rows(m, space) > EXPECTED_NODES; }

double expected_elements(const IrModule *m, const IrType *t)
{
    return expected_rows(m, t->space) * (double)ir_type_width(m, t);
}

double expected_bytes(const IrModule *m, const IrType *t)
{
    return expected_elements(m, t) * (double)ir_dtype_bytes(t->dtype);
}
