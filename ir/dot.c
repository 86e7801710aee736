/* Graph IR as a drawing for graphviz: a box per operation, a cluster per function, in it a cluster per space. What is
   read through a map leads from one cluster to another. Draws what the text form says, and nothing that it does not. */
#include "ir/graph.h"

/* s inside a quoted label. */
static void put_label(StrBuf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') strbuf_puts(out, "\\");
        if ((unsigned char)*s >= 0x20) strbuf_add(out, s, 1);
    }
}

static void put_attrs(StrBuf *out, const IrModule *m, const IrFunc *f, const IrOp *op)
{
    uint8_t attrs = ir_ops[op->op].attrs;
    if (op->op == IR_OP_arg) strbuf_puts(out, " "), put_label(out, f->args.data[op->attr.i].name);
    if (op->op == IR_OP_const) strbuf_printf(out, " %.9g", op->attr.f);
    if (attrs & A_MAP) strbuf_puts(out, " via "), put_label(out, m->maps.data[op->attr.map].name);
    if (attrs & A_DIM) strbuf_puts(out, " dim "), put_label(out, m->dims.data[op->attr.dim].name);
}

static void put_op(StrBuf *out, const IrModule *m, uint32_t func, IrId v)
{
    const IrFunc *f = m->funcs.data[func];
    const IrOp *op = &f->ops.data[v];
    bool moves = ir_ops[op->op].traits & (T_MOVE | T_REDUCE);
    strbuf_printf(out, "      f%u_%u [label=\"%%%u %s", func, v, v, ir_ops[op->op].name);
    put_attrs(out, m, f, op);
    strbuf_puts(out, "\\n");
    put_label(out, ir_type_text(m, &op->type, out->arena));
    strbuf_printf(out, "\"%s];\n", op->op == IR_OP_arg ? ", style=rounded" : moves ? ", style=bold" : "");
}

static void put_space(StrBuf *out, const IrModule *m, uint32_t func, IrId space)
{
    const IrFunc *f = m->funcs.data[func];
    bool any = false;
    for (IrId v = 0; v < f->ops.n; v++) {
        if (f->ops.data[v].type.space != space) continue;
        if (!any) {
            strbuf_printf(out, "    subgraph cluster_f%u_s%u {\n      style=dashed; label=\"", func, space);
            put_label(out, m->spaces.data[space].name);
            strbuf_puts(out, "\";\n");
        }
        any = true;
        put_op(out, m, func, v);
    }
    if (any) strbuf_puts(out, "    }\n");
}

static void put_edges(StrBuf *out, const IrModule *m, uint32_t func)
{
    const IrFunc *f = m->funcs.data[func];
    for (IrId v = 0; v < f->ops.n; v++)
        for (uint32_t k = 0; k < f->ops.data[v].n_args; k++)
            strbuf_printf(out, "    f%u_%u -> f%u_%u;\n", func, f->ops.data[v].args[k], func, v);
    for (uint32_t i = 0; i < f->results.n; i++) {
        strbuf_printf(out, "    f%u_r%u [shape=ellipse, label=\"", func, i);
        put_label(out, f->results.data[i].name);
        strbuf_printf(out, "\"];\n    f%u_%u -> f%u_r%u;\n", func, f->results.data[i].value, func, i);
    }
}

void ir_print_dot(const IrModule *m, StrBuf *out)
{
    strbuf_puts(out, "digraph \"");
    put_label(out, m->name);
    strbuf_puts(out, "\" {\n  node [shape=box, fontname=\"monospace\", fontsize=10];\n");
    for (uint32_t i = 0; i < m->funcs.n; i++) {
        strbuf_printf(out, "  subgraph cluster_f%u {\n    label=\"", i);
        put_label(out, m->funcs.data[i]->name);
        strbuf_puts(out, "\";\n");
        for (IrId s = 0; s < m->spaces.n; s++) put_space(out, m, i, s);
        put_edges(out, m, i);
        strbuf_puts(out, "  }\n");
    }
    strbuf_puts(out, "}\n");
}
