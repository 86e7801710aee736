/* Graph IR read as rounds of message passing; contract in blocks.h.

     %2 = contract %0, %1 : node[O]        before, for each node
     %3 = gather %2 by edge.src             h1 = x @ W
     %4 = reduce_sum %3 by edge.dst       message, for each edge j -> i
                                            m1 = h1[j]
                                          aggregate, for each node i
                                            out = sum of m1 over the edges into i

   The round of a value is the largest number of reductions on a way to it. A value has a name of its own where it is
   used twice, in a later round or by a reduction, and stands inside the expression that uses it otherwise. Nothing is
   optimised or reordered: the text says what the layer computes, not how. */
#include "driver/blocks.h"
#include <math.h>

typedef struct Value {
    /* the first value that is certainly the same one: equal op and operands, or a mere renaming of dims */
    IrId same;
    uint32_t round;
    uint32_t uses;             /* as an operand of live values; 2 stands for more */
    bool live, named, reduced; /* reduced: the operand of a reduction */
    const char *name;          /* where named */
} Value;

typedef struct Blocks {
    Arena *a;
    const IrModule *m;
    const IrFunc *f;
    StrBuf *out;
    Value *v; /* [ops.n] */
    uint32_t rounds, n_names[4];
} Blocks;

enum { P_COMPARE = 1, P_ADD, P_MUL, P_UNARY, P_ATOM };

static const IrOp *op_of(const Blocks *b, IrId id) { return &b->f->ops.data[id]; }

static bool is_reduce(const IrOp *op) { return (ir_ops[op->op].traits & T_REDUCE) != 0; }

static IrId arg_of(const Blocks *b, const IrOp *op, uint32_t i) { return b->v[op->args[i]].same; }

/* ---- which values are one, which are live ------------------------------------------------------------------------ */

static bool is_const(const Blocks *b, IrId id, double x)
{
    const IrOp *op = op_of(b, id);
    return op->op == IR_OP_const && op->attr.f == x;
}

/* A value that only passes an operand on: a renaming of dims, a product with 1, a sum with 0. IR_NONE: none. */
static IrId passes_on(const Blocks *b, const IrOp *op)
{
    IrId x = op->n_args ? arg_of(b, op, 0) : IR_NONE, y = op->n_args > 1 ? arg_of(b, op, 1) : IR_NONE;
    switch (op->op) {
    case IR_OP_detach: return x;
    case IR_OP_reshape: return op_of(b, x)->type.n_dims == op->type.n_dims ? x : IR_NONE;
    case IR_OP_mul:
        if (is_const(b, x, 1) && op_of(b, y)->type.space == op->type.space) return y;
        return is_const(b, y, 1) && op_of(b, x)->type.space == op->type.space ? x : IR_NONE;
    case IR_OP_add:
        if (is_const(b, x, 0) && op_of(b, y)->type.space == op->type.space) return y;
        return is_const(b, y, 0) && op_of(b, x)->type.space == op->type.space ? x : IR_NONE;
    default: return IR_NONE;
    }
}

static const char *key_of(const Blocks *b, const IrOp *op)
{
    StrBuf key = {.arena = b->a};
    strbuf_printf(&key, "%s %a %lld %u %u %u %d:%u", ir_ops[op->op].name, op->attr.f, (long long)op->attr.i,
                  op->attr.map, op->attr.dim, op->attr.site, (int)op->type.dtype, op->type.space);
    for (int i = 0; i < op->type.n_dims; i++) strbuf_printf(&key, " d%u", op->type.dims[i]);
    for (uint32_t i = 0; i < op->n_args; i++) strbuf_printf(&key, " %u", arg_of(b, op, i));
    return strbuf_cstr(&key);
}

static void number(Blocks *b)
{
    StrMap seen = {.arena = b->a};
    for (IrId id = 0; id < b->f->ops.n; id++) {
        const IrOp *op = op_of(b, id);
        IrId other = passes_on(b, op);
        b->v[id].same = id;
        if (other != IR_NONE) {
            b->v[id].same = other;
            continue;
        }
        const char *key = key_of(b, op);
        IrId *first = strmap_get(&seen, key);
        if (first) b->v[id].same = *first;
        else strmap_put(&seen, key, &b->v[id].same);
        for (uint32_t i = 0; i < op->n_args; i++)
            if (b->v[arg_of(b, op, i)].round > b->v[id].round) b->v[id].round = b->v[arg_of(b, op, i)].round;
        b->v[id].round += is_reduce(op);
    }
}

static void mark_live(Blocks *b)
{
    for (uint32_t i = 0; i < b->f->results.n; i++) {
        const IrResult *r = &b->f->results.data[i];
        if (strncmp(r->name, "out", 3) != 0)
            continue; /* what buffers hold afterwards is no part of the layer's value */
        Value *v = &b->v[b->v[r->value].same];
        v->live = v->named = true;
        v->name = r->name;
    }
    for (IrId id = b->f->ops.n; id-- > 0;) {
        if (!b->v[id].live) continue;
        const IrOp *op = op_of(b, id);
        if (b->v[id].round > b->rounds) b->rounds = b->v[id].round;
        for (uint32_t i = 0; i < op->n_args; i++) {
            Value *x = &b->v[arg_of(b, op, i)];
            x->live = true;
            if (x->uses < 2) x->uses++;
            x->reduced |= is_reduce(op);
            bool other_row = op->op == IR_OP_gather || is_reduce(op);
            if (other_row || is_reduce(op_of(b, arg_of(b, op, i))) || x->round != b->v[id].round) x->named = true;
        }
    }
}

/* What needs no line: arguments, constants, and reads through a map. */
static bool is_leaf(const IrOp *op) { return op->n_args == 0 || op->op == IR_OP_gather; }

static void give_name(Blocks *b, IrId id)
{
    static const char letters[] = "hmcz"; /* node, edge, all, graph */
    Value *v = &b->v[id];
    const IrOp *op = op_of(b, id);
    if (!v->live || v->name) return;
    bool message = op->op == IR_OP_gather && v->reduced; /* what is sent has a line, also where it is just read */
    v->named = message || ((v->named || v->uses > 1) && !is_leaf(op));
    if (!v->named) return;
    const IrSpace *s = &b->m->spaces.data[op->type.space];
    int k = op->type.space == IR_UNIT ? 2 : s->is_edge ? 1 : strcmp(s->name, "graph") == 0 ? 3 : 0;
    v->name = arena_printf(b->a, "%c%u", letters[k], ++b->n_names[k]);
}

static void give_names(Blocks *b)
{
    for (uint32_t round = 0; round <= b->rounds; round++)
        for (IrId id = 0; id < b->f->ops.n; id++)
            if (b->v[id].round == round) give_name(b, id);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static int print_value(const Blocks *b, StrBuf *out, IrId id);

/* An operand, in parentheses where it binds looser than its place wants. */
static void print_at(const Blocks *b, StrBuf *out, IrId id, int level)
{
    StrBuf text = {.arena = b->a};
    bool loose = print_value(b, &text, id) < level;
    strbuf_printf(out, loose ? "(%s)" : "%s", strbuf_cstr(&text));
}

static const IrGraph *graph_of(const Blocks *b, IrId edge_space)
{
    for (uint32_t i = 0; i < b->m->graphs.n; i++)
        if (b->m->graphs.data[i].edge == edge_space) return &b->m->graphs.data[i];
    return NULL;
}

/* Where a row is read: at the edge's source j or target i, or by the map's name. */
static const char *place_of(const Blocks *b, IrId map)
{
    const IrMap *p = &b->m->maps.data[map];
    const IrGraph *g = graph_of(b, p->from);
    return g && g->src == map ? "j" : g && g->dst == map ? "i" : p->name;
}

static void print_call(const Blocks *b, StrBuf *out, const char *name, const IrOp *op)
{
    strbuf_printf(out, "%s(", name);
    for (uint32_t i = 0; i < op->n_args; i++) {
        if (i) strbuf_puts(out, ", ");
        print_value(b, out, arg_of(b, op, i));
    }
    strbuf_puts(out, ")");
}

/* The dims that x has and the result does not. */
static void print_dims_gone(const Blocks *b, StrBuf *out, const IrOp *op)
{
    const IrType *x = &op_of(b, op->args[0])->type;
    for (int i = 0; i < x->n_dims; i++)
        if (!ir_type_has_dim(&op->type, x->dims[i])) strbuf_printf(out, ", %s", b->m->dims.data[x->dims[i]].name);
}

static void print_dims(const Blocks *b, StrBuf *out, const IrType *t)
{
    strbuf_puts(out, "[");
    for (int i = 0; i < t->n_dims; i++) strbuf_printf(out, "%s%s", i ? ", " : "", b->m->dims.data[t->dims[i]].name);
    strbuf_puts(out, "]");
}

static int print_contract(const Blocks *b, StrBuf *out, const IrOp *op)
{
    const IrOp *y = op_of(b, op->args[1]);
    bool own = false;
    for (int i = 0; i < y->type.n_dims; i++)
        own |= ir_type_has_dim(&op->type, y->type.dims[i]) &&
               !ir_type_has_dim(&op_of(b, op->args[0])->type, y->type.dims[i]);
    if (own && y->type.space == IR_UNIT) {
        print_at(b, out, arg_of(b, op, 0), P_MUL);
        strbuf_puts(out, " @ ");
        print_at(b, out, arg_of(b, op, 1), P_UNARY);
        return P_MUL;
    }
    strbuf_puts(out, "dot(");
    print_value(b, out, arg_of(b, op, 0));
    strbuf_puts(out, ", ");
    print_value(b, out, arg_of(b, op, 1));
    print_dims_gone(b, out, op);
    strbuf_puts(out, ")");
    return P_ATOM;
}

static int print_binary(const Blocks *b, StrBuf *out, const IrOp *op, const char *sign, int level)
{
    bool chains = op->op == IR_OP_add || op->op == IR_OP_mul;
    print_at(b, out, arg_of(b, op, 0), level == P_COMPARE ? P_ADD : level);
    strbuf_printf(out, " %s ", sign);
    print_at(b, out, arg_of(b, op, 1), chains ? level : level + 1);
    return level;
}

static void print_arg(const Blocks *b, StrBuf *out, const IrOp *op)
{
    const IrArg *arg = &b->f->args.data[op->attr.i];
    strbuf_puts(out, arg->kind == IR_ARG_TENSOR ? b->m->tensors.data[arg->ref].name : arg->name);
}

/* The expression of the value itself, not its name. Returns how tight it binds. */
static int print_op(const Blocks *b, StrBuf *out, IrId id)
{
    const IrOp *op = op_of(b, id);
    const IrDim *dim = op->attr.dim < b->m->dims.n ? &b->m->dims.data[op->attr.dim] : NULL;
    switch (op->op) {
    case IR_OP_add: return print_binary(b, out, op, "+", P_ADD);
    case IR_OP_sub: return print_binary(b, out, op, "-", P_ADD);
    case IR_OP_mul: return print_binary(b, out, op, "*", P_MUL);
    case IR_OP_div: return print_binary(b, out, op, "/", P_MUL);
    case IR_OP_eq: return print_binary(b, out, op, "==", P_COMPARE);
    case IR_OP_ne: return print_binary(b, out, op, "!=", P_COMPARE);
    case IR_OP_lt: return print_binary(b, out, op, "<", P_COMPARE);
    case IR_OP_le: return print_binary(b, out, op, "<=", P_COMPARE);
    case IR_OP_contract: return print_contract(b, out, op);
    case IR_OP_neg:
        strbuf_puts(out, "-");
        print_at(b, out, arg_of(b, op, 0), P_UNARY);
        return P_UNARY;
    case IR_OP_arg: print_arg(b, out, op); return P_ATOM;
    case IR_OP_const: strbuf_printf(out, "%.9g", op->attr.f); return op->attr.f < 0 ? P_UNARY : P_ATOM;
    case IR_OP_gather:
        if (op_of(b, arg_of(b, op, 0))->op == IR_OP_const && !b->m->maps.data[op->attr.map].partial)
            return print_op(b, out, arg_of(b, op, 0)); /* the same in every row */
        print_at(b, out, arg_of(b, op, 0), P_ATOM);
        strbuf_printf(out, "[%s]", place_of(b, op->attr.map));
        return P_ATOM;
    case IR_OP_mapped: strbuf_printf(out, "exists(%s)", place_of(b, op->attr.map)); return P_ATOM;
    case IR_OP_iota: strbuf_printf(out, "iota(%s)", dim ? dim->name : ""); return P_ATOM;
    case IR_OP_select: print_call(b, out, "where", op); return P_ATOM;
    case IR_OP_concat: print_call(b, out, "cat", op); return P_ATOM;
    case IR_OP_cast: print_call(b, out, ir_dtype_is_float(op->type.dtype) ? "float" : "int", op); return P_ATOM;
    case IR_OP_random_uniform: strbuf_puts(out, "rand()"); return P_ATOM;
    case IR_OP_random_normal: strbuf_puts(out, "randn()"); return P_ATOM;
    case IR_OP_slice:
        print_at(b, out, arg_of(b, op, 0), P_ATOM);
        strbuf_printf(out, "[from %lld of %s]", (long long)op->attr.i, dim ? dim->name : "");
        return P_ATOM;
    case IR_OP_reshape:
    case IR_OP_transpose:
        strbuf_printf(out, "%s(", ir_ops[op->op].name);
        print_value(b, out, arg_of(b, op, 0));
        strbuf_puts(out, ", ");
        print_dims(b, out, &op->type);
        strbuf_puts(out, ")");
        return P_ATOM;
    case IR_OP_sum_dims:
    case IR_OP_max_dims:
    case IR_OP_min_dims:
        strbuf_printf(out, "%.3s(", ir_ops[op->op].name);
        print_value(b, out, arg_of(b, op, 0));
        print_dims_gone(b, out, op);
        strbuf_puts(out, ")");
        return P_ATOM;
    default: print_call(b, out, ir_ops[op->op].name, op); return P_ATOM;
    }
}

static int print_value(const Blocks *b, StrBuf *out, IrId id)
{
    if (!b->v[id].named) return print_op(b, out, id);
    strbuf_puts(out, b->v[id].name);
    return P_ATOM;
}

static const char *graph_text(const Blocks *b, const IrGraph *g)
{
    static const char *const policies[] = {"keep", "replace", "add", "remove"};
    static const char *const kinds[] = {[IR_GRAPH_REVERSE] = "reverse",
                                        [IR_GRAPH_LINE] = "line",
                                        [IR_GRAPH_SIBLINGS] = "siblings",
                                        [IR_GRAPH_COMPLETE] = "complete"};
    if (g->kind == IR_GRAPH_NEAREST) return arena_printf(b->a, "the %lld nearest", (long long)g->n_edges);
    if (g->base == IR_NONE) return "the graph";
    const char *base = graph_text(b, &b->m->graphs.data[g->base]);
    if (g->kind == IR_GRAPH_SELF_LOOPS) return arena_printf(b->a, "self_loops(%s, %s)", base, policies[g->policy]);
    bool known = (size_t)g->kind < sizeof kinds / sizeof *kinds && kinds[g->kind];
    return known ? arena_printf(b->a, "%s(%s)", kinds[g->kind], base) : g->name;
}

/* `sum of m1 over the edges into i` */
static void print_reduce(const Blocks *b, StrBuf *out, const IrOp *op)
{
    const IrMap *map = &b->m->maps.data[op->attr.map];
    const IrGraph *g = graph_of(b, map->from);
    const char *rows = arena_printf(b->a, "over %s", map->name);
    bool told = b->v[arg_of(b, op, 0)].named; /* the message's heading says which graph */
    const char *which = !told && g && g->base != IR_NONE ? arena_printf(b->a, " of %s", graph_text(b, g)) : "";
    if (map->to == IR_UNIT) rows = arena_printf(b->a, "over every %s", b->m->spaces.data[map->from].name);
    else if (g && g->dst == op->attr.map) rows = arena_printf(b->a, "over the edges into i%s", which);
    else if (g && g->src == op->attr.map) rows = arena_printf(b->a, "over the edges out of j%s", which);
    strbuf_printf(out, "%s of ", op->op == IR_OP_reduce_mul ? "product" : ir_ops[op->op].name + strlen("reduce_"));
    print_value(b, out, arg_of(b, op, 0));
    strbuf_printf(out, " %s", rows);
    bool extreme = op->op == IR_OP_reduce_max || op->op == IR_OP_reduce_min;
    if (extreme && isfinite(op->attr.f)) strbuf_printf(out, ", %g where there are none", op->attr.f);
}

static void print_op_text(const Blocks *b, StrBuf *out, IrId id)
{
    if (is_reduce(op_of(b, id))) print_reduce(b, out, op_of(b, id));
    else print_op(b, out, id);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static const char *rows_text(const Blocks *b, IrId space)
{
    const IrGraph *g = graph_of(b, space);
    if (g) return arena_printf(b->a, "for each edge j -> i of %s", graph_text(b, g));
    if (space == IR_UNIT) return "once for all";
    return arena_printf(b->a, "for each %s", b->m->spaces.data[space].name);
}

/* The edges of a graph that was made go by `edge` as well: the heading says which graph. */
static const char *kind_of(const Blocks *b, IrId space)
{
    const IrSpace *s = &b->m->spaces.data[space];
    return s->is_edge ? "edge" : s->name;
}

static void print_line(Blocks *b, IrId id)
{
    StrBuf line = {.arena = b->a};
    strbuf_printf(&line, "    %s = ", b->v[id].name);
    print_op_text(b, &line, id);
    const IrOp *op = op_of(b, id);
    strbuf_printf(b->out, "%-64s  # %s", strbuf_cstr(&line),
                  op->type.space == IR_UNIT ? "" : kind_of(b, op->type.space));
    if (op->type.n_dims || op->type.space == IR_UNIT) print_dims(b, b->out, &op->type);
    strbuf_puts(b->out, "\n");
}

/* The named values of a round in one space, reductions or others, under a heading. */
static void print_space(Blocks *b, const char *head, uint32_t round, IrId space, bool reductions)
{
    bool said = false;
    for (IrId id = 0; id < b->f->ops.n; id++) {
        const Value *v = &b->v[id];
        const IrOp *op = op_of(b, id);
        if (!v->live || !v->named || v->round != round || op->type.space != space || is_reduce(op) != reductions)
            continue;
        if (!said) strbuf_printf(b->out, "\n  %s, %s\n", head, rows_text(b, space));
        said = true;
        print_line(b, id);
    }
}

static void print_round(Blocks *b, uint32_t round)
{
    for (IrId s = 0; s < b->m->spaces.n && round; s++) print_space(b, "aggregate", round, s, true);
    for (IrId s = 0; s < b->m->spaces.n; s++)
        if (!b->m->spaces.data[s].is_edge) print_space(b, round ? "update" : "before", round, s, false);
    for (IrId s = 0; s < b->m->spaces.n; s++)
        if (b->m->spaces.data[s].is_edge) print_space(b, "message", round, s, false);
}

static void print_signature(Blocks *b)
{
    for (uint32_t i = 0; i < b->f->args.n; i++) {
        const IrArg *arg = &b->f->args.data[i];
        if (arg->kind != IR_ARG_TENSOR) continue;
        const IrTensor *t = &b->m->tensors.data[arg->ref];
        strbuf_printf(b->out, "  %-6s %s: %s", t->kind == IR_INPUT ? "input" : "stored", t->name,
                      t->type.space == IR_UNIT ? "" : kind_of(b, t->type.space));
        print_dims(b, b->out, &t->type);
        strbuf_puts(b->out, "\n");
    }
}

void blocks_print(Arena *a, const IrModule *m, const IrFunc *f, StrBuf *out)
{
    Blocks b = {.a = a, .m = m, .f = f, .out = out, .v = ARENA_ARRAY(a, Value, f->ops.n + 1)};
    number(&b);
    mark_live(&b);
    give_names(&b);
    print_signature(&b);
    for (uint32_t round = 0; round <= b.rounds; round++) print_round(&b, round);
}
