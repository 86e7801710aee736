/* Graph IR as text (.gir): one line per table row and per op, in the order that ir/parse_ir.c
   reads. Prints any module, also one that the verifier refuses: what an index cannot name is `?`.
   Never prints places in the source: a .gir file is a source of its own. */
#include "ir/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- names and numbers ----------------------------------------------------------------------- */

bool ir_name_is_plain(const char *s)
{
    if (!ir_text_starts_name(*s)) return false;
    while (ir_text_in_name(*s)) s++;
    return !*s;
}

static void print_string(StrBuf *out, const char *s)
{
    strbuf_puts(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') strbuf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) strbuf_printf(out, "\\x%02x", c);
        else strbuf_add(out, s, 1);
    }
    strbuf_puts(out, "\"");
}

static void print_name(StrBuf *out, const char *s)
{
    if (ir_name_is_plain(s)) strbuf_puts(out, s);
    else print_string(out, s);
}

/* The shortest text that reads back as the same double. */
static void print_double(StrBuf *out, double v)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (isnan(v) || strtod(text, NULL) == v) break;
    }
    strbuf_puts(out, isnan(v) ? "nan" : text);
}

/* The name of row `id` of a table whose rows begin with their name. */
#define PRINT_REF(out, table, id) print_name((out), (id) < (table).n ? (table).data[id].name : "?")

static void print_type(StrBuf *out, const IrModule *m, const IrType *t)
{
    if (t->space != IR_UNIT) PRINT_REF(out, m->spaces, t->space);
    strbuf_puts(out, "[");
    for (uint32_t i = 0; i < t->n_dims && i < IR_MAX_DIMS; i++) {
        if (i) strbuf_puts(out, ",");
        PRINT_REF(out, m->dims, t->dims[i]);
    }
    strbuf_printf(out, "] %s", t->dtype < IR_N_DTYPES ? ir_dtype_names[t->dtype] : "?");
}

const char *ir_type_text(const IrModule *m, const IrType *t, Arena *a)
{
    StrBuf b = {.arena = a};
    print_type(&b, m, t);
    return strbuf_cstr(&b);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void print_dims(const IrModule *m, StrBuf *out)
{
    for (uint32_t i = 0; i < m->dims.n; i++) {
        strbuf_puts(out, "dim ");
        print_name(out, m->dims.data[i].name);
        if (m->dims.data[i].size < 0) strbuf_puts(out, " = ?\n");
        else strbuf_printf(out, " = %" PRId64 "\n", m->dims.data[i].size);
    }
}

static void print_spaces(const IrModule *m, StrBuf *out)
{
    for (uint32_t i = 1; i < m->spaces.n; i++) {
        strbuf_puts(out, "space ");
        print_name(out, m->spaces.data[i].name);
        if (m->spaces.data[i].has_dim) strbuf_puts(out, " : dim "), PRINT_REF(out, m->dims, m->spaces.data[i].dim);
        strbuf_puts(out, m->spaces.data[i].is_edge ? " : edges\n" : "\n");
    }
}

static void print_maps(const IrModule *m, StrBuf *out)
{
    for (uint32_t i = 0; i < m->maps.n; i++) {
        const IrMap *map = &m->maps.data[i];
        strbuf_puts(out, "map ");
        print_name(out, map->name);
        strbuf_puts(out, " : ");
        PRINT_REF(out, m->spaces, map->from);
        strbuf_puts(out, " -> ");
        PRINT_REF(out, m->spaces, map->to);
        if (map->partial) strbuf_puts(out, " partial");
        if (map->sorted) strbuf_puts(out, " sorted");
        if (map->computed) strbuf_puts(out, " computed");
        if (map->inverse != IR_NONE) {
            strbuf_puts(out, " inverse ");
            PRINT_REF(out, m->maps, map->inverse);
        }
        strbuf_puts(out, "\n");
    }
}

static const char *const policy_names[] = {
    [IR_LOOPS_KEEP] = "keep", [IR_LOOPS_REPLACE] = "replace", [IR_LOOPS_ADD] = "add", [IR_LOOPS_REMOVE] = "remove"};

static void print_graph_kind(const IrModule *m, const IrGraph *g, StrBuf *out)
{
    switch (g->kind) {
    case IR_GRAPH_DATA: strbuf_puts(out, "data"); return;
    case IR_GRAPH_FILE:
    case IR_GRAPH_COLUMN:
        strbuf_puts(out, g->kind == IR_GRAPH_FILE ? "file" : "column");
        if (g->file) strbuf_puts(out, "("), print_name(out, g->file), strbuf_puts(out, ")");
        return;
    case IR_GRAPH_COMPOSE:
        strbuf_puts(out, "compose(");
        for (uint32_t i = 0; i < g->n_path && i < IR_MAX_PATH; i++) {
            strbuf_puts(out, i ? ", " : "");
            PRINT_REF(out, m->graphs, g->path[i]);
        }
        strbuf_puts(out, ")");
        return;
    case IR_GRAPH_RANDOM:
        strbuf_printf(out, "random(%" PRId64 ", %" PRId64 ", %" PRId64, g->n_nodes, g->n_edges, g->seed);
        if (g->n_targets) strbuf_printf(out, ", %" PRId64, g->n_targets);
        strbuf_puts(out, ")");
        return;
    case IR_GRAPH_SELF_LOOPS:
        strbuf_puts(out, "self_loops(");
        PRINT_REF(out, m->graphs, g->base);
        strbuf_printf(out, ", %s)", g->policy <= IR_LOOPS_REMOVE ? policy_names[g->policy] : "?");
        return;
    case IR_GRAPH_NEAREST:
        strbuf_printf(out, "nearest(%" PRId64 ", %" PRId64 ", %s)", g->n_edges, g->step,
                      policy_names[g->policy == IR_LOOPS_KEEP ? IR_LOOPS_KEEP : IR_LOOPS_REMOVE]);
        return;
    case IR_GRAPH_SELECT:
        strbuf_puts(out, "select(");
        PRINT_REF(out, m->graphs, g->base);
        strbuf_printf(out, ", %" PRId64 ", ", g->n_edges);
        print_double(out, g->ratio);
        strbuf_puts(out, ")");
        return;
    case IR_GRAPH_KEYED:
        strbuf_puts(out, "keyed(");
        PRINT_REF(out, m->graphs, g->base);
        strbuf_puts(out, ", ");
        print_double(out, g->ratio);
        strbuf_puts(out, ")");
        return;
    case IR_GRAPH_REVERSE: strbuf_puts(out, "reverse("); break;
    case IR_GRAPH_LINE: strbuf_puts(out, "line("); break;
    case IR_GRAPH_SIBLINGS: strbuf_puts(out, "siblings("); break;
    case IR_GRAPH_COMPLETE: strbuf_puts(out, "complete("); break;
    case IR_GRAPH_CANDIDATES: strbuf_puts(out, "candidates("); break;
    case IR_GRAPH_ANSWERS: strbuf_puts(out, "answers("); break;
    case IR_GRAPH_NEGATIVES: strbuf_puts(out, "negatives("); break;
    case IR_GRAPH_ROUTED: strbuf_puts(out, "routed("); break;
    case IR_GRAPH_PERMUTATION: strbuf_puts(out, "permutation("); break;
    }
    PRINT_REF(out, m->graphs, g->base);
    if (g->kind == IR_GRAPH_NEGATIVES || g->kind == IR_GRAPH_ROUTED) strbuf_printf(out, ", %" PRId64, g->n_edges);
    for (uint32_t i = 0; g->kind == IR_GRAPH_ANSWERS && i < g->n_path && i < IR_MAX_PATH; i++)
        strbuf_puts(out, ", "), PRINT_REF(out, m->graphs, g->path[i]);
    if (ir_graph_is_drawn(g->kind)) strbuf_printf(out, ", %s%" PRId64, g->redrawn ? "site " : "", g->seed);
    strbuf_puts(out, ")");
}

static void print_graphs(const IrModule *m, StrBuf *out)
{
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        strbuf_puts(out, "graph ");
        print_name(out, g->name);
        strbuf_puts(out, " : ");
        print_graph_kind(m, g, out);
        strbuf_puts(out, " ");
        PRINT_REF(out, m->spaces, g->edge);
        strbuf_puts(out, "(");
        PRINT_REF(out, m->maps, g->src);
        strbuf_puts(out, ", ");
        PRINT_REF(out, m->maps, g->dst);
        strbuf_puts(out, ")");
        if (ir_graph_has_by(g->kind) && g->batch != IR_NONE)
            strbuf_puts(out, " by "), PRINT_REF(out, m->maps, g->batch);
        if (ir_graph_has_of(g->kind) && g->of != IR_NONE) strbuf_puts(out, " of "), PRINT_REF(out, m->maps, g->of);
        if (g->where)
            strbuf_puts(out, " where "), print_name(out, g->where), strbuf_printf(out, " = %" PRId64, g->equals);
        for (uint32_t k = 0; k < g->n_keys; k++) strbuf_puts(out, k ? ", " : " keys "), print_name(out, g->keys[k]);
        if (g->orig != IR_NONE) strbuf_puts(out, " orig "), PRINT_REF(out, m->maps, g->orig);
        if (g->image != IR_NONE) strbuf_puts(out, " image "), PRINT_REF(out, m->maps, g->image);
        strbuf_puts(out, "\n");
    }
}

static void print_stored(const IrTensor *t, StrBuf *out)
{
    strbuf_puts(out, " stored [");
    for (uint32_t i = 0; i < t->n_stored && i < IR_MAX_DIMS; i++)
        strbuf_printf(out, "%s%" PRId64, i ? "," : "", t->stored_shape[i]);
    strbuf_puts(out, "] perm(");
    for (uint32_t i = 0; i < t->type.n_dims && i < IR_MAX_DIMS; i++)
        strbuf_printf(out, "%s%u", i ? "," : "", t->stored_perm[i]);
    strbuf_puts(out, ")");
}

static void print_init(const IrTensor *t, StrBuf *out)
{
    static const char *const kinds[] = {
        [IR_INIT_CONST] = "const", [IR_INIT_UNIFORM] = "uniform", [IR_INIT_NORMAL] = "normal"};
    strbuf_printf(out, " init %s(", kinds[t->init]);
    print_double(out, t->init_a);
    if (t->init != IR_INIT_CONST) strbuf_puts(out, ", "), print_double(out, t->init_b);
    strbuf_puts(out, ")");
}

static void print_nonzeros(const IrModule *m, const IrNonzeros *n, StrBuf *out)
{
    strbuf_puts(out, " nonzeros ");
    PRINT_REF(out, m->tensors, n->of);
    strbuf_puts(out, "(");
    PRINT_REF(out, m->maps, n->row);
    strbuf_puts(out, ", ");
    PRINT_REF(out, m->maps, n->col);
    strbuf_puts(out, ")");
}

static void print_tensors(const IrModule *m, StrBuf *out)
{
    static const char *const kinds[] = {
        [IR_INPUT] = "input", [IR_PARAM] = "param", [IR_STATE] = "state", [IR_HYPER] = "hyper", [IR_HELD] = "held"};
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        strbuf_puts(out, "tensor ");
        print_name(out, t->name);
        strbuf_printf(out, " : %s ", kinds[t->kind]);
        print_type(out, m, &t->type);
        if (t->kind == IR_PARAM || t->n_stored) print_stored(t, out);
        if (t->kind == IR_PARAM || t->kind == IR_STATE) print_init(t, out);
        if (t->kind == IR_HYPER) strbuf_puts(out, " default "), print_double(out, t->hyper_default);
        if (t->bound) strbuf_printf(out, " bound %" PRId64, t->bound);
        if (t->allow_missing) strbuf_puts(out, " missing");
        if (t->sparse) strbuf_puts(out, " sparse");
        if (t->nonzeros.present) print_nonzeros(m, &t->nonzeros, out);
        if (t->is_map) {
            strbuf_puts(out, " map ");
            PRINT_REF(out, m->maps, t->map);
        }
        strbuf_puts(out, "\n");
    }
}

/* ---- functions ------------------------------------------------------------------------------- */

bool ir_arg_implied_type(const IrModule *m, const IrArg *arg, IrType *type)
{
    *type = ir_scalar(IR_I64);
    if (arg->kind == IR_ARG_TENSOR && arg->ref < m->tensors.n) *type = m->tensors.data[arg->ref].type;
    return arg->kind != IR_ARG_COTANGENT;
}

static void print_arg(const IrModule *m, const IrArg *arg, StrBuf *out)
{
    print_name(out, arg->name);
    switch (arg->kind) {
    case IR_ARG_TENSOR: strbuf_puts(out, " = @"), PRINT_REF(out, m->tensors, arg->ref); break;
    case IR_ARG_SEED: strbuf_puts(out, " = seed"); break;
    case IR_ARG_STEP: strbuf_puts(out, " = step"); break;
    case IR_ARG_COTANGENT: strbuf_printf(out, " = cotangent %u", arg->ref); break;
    }
    IrType implied;
    if (ir_arg_implied_type(m, arg, &implied) && ir_type_eq(&implied, &arg->type)) return;
    strbuf_puts(out, " : ");
    print_type(out, m, &arg->type);
}

/* `arg 0` and `const 0.5` have nothing else to say, so their attribute goes without a word. */
static void print_attrs(const IrModule *m, const IrOp *op, StrBuf *out)
{
    uint8_t attrs = ir_ops[op->op].attrs;
    bool bare = ir_ops[op->op].n_args == 0;
    if (attrs & A_MAP) strbuf_puts(out, " via "), PRINT_REF(out, m->maps, op->attr.map);
    if (attrs & A_DIM) strbuf_puts(out, " dim "), PRINT_REF(out, m->dims, op->attr.dim);
    if (attrs & A_I) strbuf_printf(out, bare ? " %" PRId64 : " at %" PRId64, op->attr.i);
    if (attrs & A_F) strbuf_puts(out, bare ? " " : " empty "), print_double(out, op->attr.f);
    if (attrs & A_SITE) strbuf_printf(out, " site %u", op->attr.site);
}

static void print_op(const IrModule *m, const IrOp *op, uint32_t id, StrBuf *out)
{
    strbuf_printf(out, "  %%%u = %s", id, op->op < IR_N_OPS ? ir_ops[op->op].name : "?");
    for (uint32_t i = 0; i < op->n_args; i++) strbuf_printf(out, "%s%%%u", i ? ", " : " ", op->args[i]);
    if (op->op < IR_N_OPS) print_attrs(m, op, out);
    strbuf_puts(out, " : ");
    print_type(out, m, &op->type);
    strbuf_puts(out, "\n");
}

static void print_result(const IrModule *m, const IrResult *r, StrBuf *out)
{
    strbuf_puts(out, "  return ");
    print_name(out, r->name);
    strbuf_printf(out, " = %%%u", r->value);
    if (r->tensor != IR_NONE) strbuf_puts(out, " -> @"), PRINT_REF(out, m->tensors, r->tensor);
    strbuf_puts(out, "\n");
}

static void print_func(const IrModule *m, const IrFunc *f, StrBuf *out)
{
    strbuf_puts(out, "func ");
    print_name(out, f->name);
    strbuf_puts(out, "(");
    for (uint32_t i = 0; i < f->args.n; i++) {
        if (i) strbuf_puts(out, ", ");
        print_arg(m, &f->args.data[i], out);
    }
    strbuf_puts(out, f->train_mode ? ") train {\n" : ") {\n");
    for (uint32_t i = 0; i < f->ops.n; i++) print_op(m, &f->ops.data[i], i, out);
    for (uint32_t i = 0; i < f->results.n; i++) print_result(m, &f->results.data[i], out);
    strbuf_puts(out, "}\n");
}

/* ---- training and tests ---------------------------------------------------------------------- */

static void print_train(const IrTrain *t, StrBuf *out)
{
    strbuf_printf(out, "train epochs %" PRId64 " seed %" PRId64, t->epochs, t->seed);
    if (t->batch) strbuf_printf(out, " batch %" PRId64, t->batch);
    if (t->steps) strbuf_printf(out, " steps %" PRId64, t->steps);
    strbuf_puts(out, " {\n");
    for (uint32_t i = 0; i < t->metrics.n; i++) {
        strbuf_puts(out, "  metric ");
        print_name(out, t->metrics.data[i].name);
        strbuf_printf(out, " = %u\n", t->metrics.data[i].result);
    }
    if (t->stop_metric != IR_NONE) {
        strbuf_puts(out, "  stop ");
        PRINT_REF(out, t->metrics, t->stop_metric);
        strbuf_printf(out, " %s patience %" PRId64 "\n", t->stop_minimise ? "minimise" : "maximise", t->patience);
    }
    strbuf_puts(out, "}\n");
}

static void print_test(const IrModule *m, const IrTest *t, StrBuf *out)
{
    strbuf_puts(out, "test ");
    print_name(out, t->name);
    strbuf_puts(out, " = ");
    print_name(out, t->func < m->funcs.n ? m->funcs.data[t->func]->name : "?");
    strbuf_puts(out, " {\n");
    for (uint32_t i = 0; i < t->asserts.n; i++) {
        strbuf_puts(out, "  assert ");
        print_string(out, t->asserts.data[i].text);
        strbuf_puts(out, "\n");
    }
    strbuf_puts(out, "}\n");
}

void ir_print(const IrModule *m, StrBuf *out)
{
    strbuf_puts(out, "module ");
    print_name(out, m->name);
    strbuf_puts(out, "\n");
    print_dims(m, out);
    print_spaces(m, out);
    print_maps(m, out);
    print_graphs(m, out);
    print_tensors(m, out);
    if (m->n_sites) strbuf_printf(out, "sites %u\n", m->n_sites);
    for (uint32_t i = 0; i < m->funcs.n; i++) print_func(m, m->funcs.data[i], out);
    if (m->train.present) print_train(&m->train, out);
    for (uint32_t i = 0; i < m->tests.n; i++) print_test(m, &m->tests.data[i], out);
}
