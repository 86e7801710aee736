/* `test` blocks: each is a function without inputs whose results are its asserts. */
#include "frontend/sema.h"
#include <math.h>

/* A test has no data: every value lives on a graph that it made. */
static void check_spaces(Elab *e, const AstDecl *decl)
{
    if (!e->data_graph) return;
    const IrGraph *g = graph_ir(e, e->data_graph);
    for (uint32_t i = 0; i < e->f->ops.n; i++) {
        const IrOp *op = &e->f->ops.data[i];
        if (op->type.space != g->edge && op->type.space != g->src_space && op->type.space != g->dst_space) continue;
        Diag *d = diag_error(e->d, E0407, span_or(op->span, decl->span), "a test has no data graph");
        diag_help(e->d, d,
                  "make one: `g = random_graph(nodes = 10, edges = 30, seed = 1)`, then `over g { "
                  "... }`");
        return;
    }
}

void elab_test(Elab *e, const AstDecl *decl, uint32_t number)
{
    IrTest test = {.name = decl->name.text, .func = e->m->funcs.n, .span = decl->span};
    func_begin(e, arena_printf(e->a, "test.%u", number), false);
    e->test = &test;
    e->drawn = (DrawnSchema){0};
    Frame *f = frame_push(e, NULL, decl->span);
    f->graph = graph_data(e);
    f->path = arena_printf(e->a, "test%u.", number); /* tests share no parameters */
    uint32_t errors = e->d->n_errors;
    elab_block(e, &decl->as.test);
    if (e->d->n_errors == errors) check_spaces(e, decl);
    if (!*decl->name.text) diag_error(e->d, E0407, decl->span, "a test needs a name");
    if (e->d->n_errors == errors && test.asserts.n == 0)
        diag_error(e->d, E0407, decl->name.span, "the test asserts nothing");
    frame_pop(e);
    e->drawn = (DrawnSchema){0};
    e->test = NULL;
    VEC_PUSH(e->a, &e->m->tests, test);
}
