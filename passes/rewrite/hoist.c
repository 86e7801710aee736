/* hoist: what does not change between epochs leaves the training loop. Values of `train_step` and `metrics` that
   depend on inputs, the graph and constants alone, and values of `forward` and `vjp` that depend on the graph and
   constants alone, become tensors of the kind `held`, which functions `setup.*` compute once, after the data are
   loaded:

     func train_step(x = @x, ...) {               func setup.train_step(x = @x) {
       %1 = gather %0 via edge.src                  ...
       %2 = reduce_sum %1 via edge.dst              return held.0 = %2 -> @held.0
       %3 = contract %2, %W                       func train_step(..., held.0 = @held.0) {
                                                    %3 = contract %1, %W
   Where an integer input of rows says which row of a table is read, the sort that says who reads each row leaves the
   loop as well: the runtime makes the map when the data are loaded.

     route %3 via R.at                              %3 = @type         tensor type : input edge i64 map R.at

   So does that of edges turned around, whose index is gathered through a map that is one to one: what is reduced is
   gathered back to the input's rows first.

   A value is held where reading it is cheaper than computing it again in each epoch (hoist_cost.c). Functions hold in
   common what is equal in them. Never touches what reads parameters, state, hypers, the seed, the step or random
   numbers; no sum changes its order. */
#include "passes/rewrite/hoist_parts.h"
#include "base/ice.h"
#include "passes/rewrite/cse.h"

/* ---- maps that inputs say ------------------------------------------------------------------------------------- */

static bool is_of_graph(const IrModule *m, IrId map)
{
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        if (map == g->src || map == g->dst || map == g->image || map == g->orig) return true;
    }
    return false;
}

/* Where an integer input says a map: the input's argument, and the map, one to one, through which elements find their
   rows of the input; IR_NONE: they are those rows. */
typedef struct Saying {
    IrId arg, via;
} Saying;

static Saying saying_of(const IrModule *m, const IrFunc *f, IrId index)
{
    const IrOp *op = &f->ops.data[index];
    Saying s = {index, IR_NONE};
    if (op->op == IR_OP_gather) s = (Saying){op->args[0], op->attr.map};
    const IrMap *via = s.via == IR_NONE ? NULL : &m->maps.data[s.via];
    bool paired = !via || (!via->partial && via->inverse != IR_NONE && !m->maps.data[via->inverse].partial);
    if (!paired || f->ops.data[s.arg].op != IR_OP_arg) s.arg = IR_NONE;
    return s;
}

static bool goes_through(const IrOp *op, IrId map) { return ir_ops[op->op].attrs & A_MAP && op->attr.map == map; }

/* Whether nobody reads a route's value, and what goes through its map, `via` another one, can be said by gathers. */
static bool is_map_alone(const IrFunc *f, IrId route, IrId via)
{
    IrId map = f->ops.data[route].attr.map;
    for (IrId k = route + 1; k < f->ops.n; k++) {
        const IrOp *op = &f->ops.data[k];
        for (uint32_t i = 0; i < op->n_args; i++)
            if (op->args[i] == route) return false;
        bool moves = ir_ops[op->op].traits & (T_MOVE | T_REDUCE) || op->op == IR_OP_mapped;
        if (via != IR_NONE && goes_through(op, map) && !moves) return false;
    }
    for (uint32_t i = 0; i < f->results.n; i++)
        if (f->results.data[i].value == route) return false;
    return true;
}

/* The tensor that says all of a route; IR_NONE. */
static IrId said_by(const IrModule *m, const IrFunc *f, IrId v, IrId *via)
{
    const IrOp *op = &f->ops.data[v];
    if (op->op != IR_OP_route || is_of_graph(m, op->attr.map)) return IR_NONE;
    Saying s = saying_of(m, f, op->args[0]);
    if (s.arg == IR_NONE || !is_map_alone(f, v, s.via)) return IR_NONE;
    const IrArg *arg = &f->args.data[f->ops.data[s.arg].attr.i];
    const IrMap *map = &m->maps.data[op->attr.map];
    if (arg->kind != IR_ARG_TENSOR || m->tensors.data[arg->ref].kind != IR_INPUT) return IR_NONE;
    if (!map->partial || !m->spaces.data[map->to].has_dim) return IR_NONE;
    *via = s.via;
    return arg->ref;
}

/* op through a map that is, element by element, `via` and then `said`: it reads by both, one after the other, and
   reduces what each row of the input's space has an element for. */
static IrId go_by_both(Build *b, IrOp op, IrId said, IrId via)
{
    const IrMap *map = &b->m->maps.data[via];
    IrOp first = op;
    ICE_UNLESS(map->inverse != IR_NONE && !map->partial); /* one to one: saying_of */
    first.attr.map = said;
    if (ir_ops[op.op].traits & T_REDUCE) {
        first.args[0] = irb_gather(b, map->inverse, op.args[0]);
        return irb_add(b, &first);
    }
    first.type.space = map->to;
    return irb_gather(b, via, irb_add(b, &first));
}

/* A map of the data in place of each that the function computes of nothing but an input. */
static IrFunc *say_maps(PassContext *ctx, IrModule *m, const IrFunc *f)
{
    Rewrite r = rewrite_begin(m, f);
    uint32_t n = m->maps.n;
    IrId *said = ARENA_ARRAY(ctx->stage, IrId, n), *through = ARENA_ARRAY(ctx->stage, IrId, n); /* of each: 1 more */
    for (IrId v = 0; v < f->ops.n; v++) {
        IrOp op = rewrite_op(&r, v);
        IrId via = IR_NONE, tensor = said_by(m, f, v, &via);
        IrId map = tensor == IR_NONE ? IR_NONE : irb_said_map(m, tensor, m->maps.data[op.attr.map].to);
        if (map != IR_NONE) {
            said[op.attr.map] = map + 1;
            through[op.attr.map] = via == IR_NONE ? 0 : via + 1;
            pass_remark_at(ctx, PASS_hoist, true, f, v, "the map that `%s` says is made when data are loaded",
                           m->tensors.data[tensor].name);
            continue;
        }
        bool is_said = ir_ops[op.op].attrs & A_MAP && op.attr.map < n && said[op.attr.map];
        IrId by = is_said ? through[op.attr.map] : 0;
        if (is_said) op.attr.map = said[op.attr.map] - 1;
        r.map[v] = by ? go_by_both(&r.b, op, op.attr.map, by - 1) : irb_add(&r.b, &op);
    }
    return rewrite_end(&r);
}

/* ---- which values ------------------------------------------------------------------------------------------ */

typedef struct Reader { /* a function that runs many times on one graph */
    const char *name;
    bool fixed_inputs; /* on the same inputs each time; else callers give others */
} Reader;
static const Reader readers[] = {{"train_step", true}, {"metrics", true}, {"forward", false}, {"vjp", false}};
enum { N_READERS = sizeof readers / sizeof *readers };

static const Reader *reader_of(const IrFunc *f)
{
    for (int i = 0; i < N_READERS; i++)
        if (!strcmp(f->name, readers[i].name)) return &readers[i];
    return NULL;
}

static bool is_fixed(const IrModule *m, const Reader *r, const IrArg *arg)
{
    return r->fixed_inputs && arg->kind == IR_ARG_TENSOR && m->tensors.data[arg->ref].kind == IR_INPUT;
}

/* What a graph that is drawn for each step gives: its maps, and where its edges lie. */
static bool is_redrawn(const IrModule *m, const IrOp *op)
{
    bool maps = ir_ops[op->op].attrs & A_MAP;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        if (g->redrawn && (op->type.space == g->edge || (maps && m->maps.data[op->attr.map].from == g->edge)))
            return true;
    }
    return false;
}

const bool *hoist_invariant(const PassContext *ctx, const IrModule *m, const IrFunc *f)
{
    bool *invariant = ARENA_ARRAY(ctx->stage, bool, f->ops.n + 1);
    const Reader *r = reader_of(f);
    bool batches = m->train.batch && r && !strcmp(r->name, "train_step"); /* other inputs at each step */
    if (ctx->disabled[PASS_hoist] || !r || batches) return invariant;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        invariant[v] = op->op == IR_OP_arg ? is_fixed(m, r, &f->args.data[op->attr.i]) : !ir_op_is_of_autodiff(op->op);
        if (ir_ops[op->op].traits & T_RANDOM || is_redrawn(m, op)) invariant[v] = false;
        for (uint32_t k = 0; k < op->n_args; k++) invariant[v] &= invariant[op->args[k]];
        IrId route = ir_route_of(m, f, op);
        if (route != IR_NONE) invariant[v] &= invariant[route];
    }
    return invariant;
}

/* ---- what one function holds --------------------------------------------------------------------------------- */

/* Marks v, or what it is computed from, as the cost says. Called for what the changing part of a function reads. */
static void choose(Hoist *h, IrId v)
{
    const IrOp *op = &h->f->ops.data[v];
    if (h->seen[v]) return;
    h->seen[v] = true;
    h->held[v] = op->op != IR_OP_route && hoist_pays(h, v); /* its map is no value */
    for (uint32_t k = 0; k < op->n_args && !h->held[v]; k++) choose(h, op->args[k]);
}

static Hoist analyse(PassContext *ctx, const IrModule *m, const IrFunc *f)
{
    uint32_t n = f->ops.n + 1;
    Hoist h = {.ctx = ctx, .m = m, .f = f, .invariant = hoist_invariant(ctx, m, f)};
    h.held = ARENA_ARRAY(ctx->stage, bool, n);
    h.seen = ARENA_ARRAY(ctx->stage, bool, n);
    h.bytes = ARENA_ARRAY(ctx->stage, double, n);
    h.flops = ARENA_ARRAY(ctx->stage, double, n);
    h.numbered = ARENA_ARRAY(ctx->stage, IrId, n);
    for (IrId v = 0; v < f->ops.n; v++)
        if (h.invariant[v]) hoist_cost(&h, v);
    const bool *live = rewrite_live(ctx->stage, m, f, NULL);
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        for (uint32_t k = 0; k < op->n_args && live[v] && !h.invariant[v]; k++)
            if (h.invariant[op->args[k]]) choose(&h, op->args[k]);
        IrId route = live[v] ? ir_route_of(m, f, op) : IR_NONE;
        if (route != IR_NONE && h.invariant[route]) choose(&h, f->ops.data[route].args[0]);
    }
    return h;
}

/* ---- equal values have one number --------------------------------------------------------------------------- */

typedef struct Held { /* a value of Common.f that some functions hold */
    IrId value;
    uint32_t by; /* bits: table `readers` */
    IrId tensor; /* of the new module */
} Held;

typedef struct Common { /* all that is held, of all functions, in one */
    IrModule *m;
    IrFunc *f;
    OpTable table;
    VEC(Held) held;
} Common;

/* The argument of f that reads this tensor, made on first use. */
static IrId arg_of(IrModule *m, IrFunc *f, IrArg arg)
{
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        const IrArg *own = op->op == IR_OP_arg ? &f->args.data[op->attr.i] : NULL;
        if (own && own->kind == arg.kind && own->ref == arg.ref) return v;
    }
    return ir_arg(m, f, arg);
}

static IrId number(Common *c, const Hoist *h, IrId v)
{
    IrOp op = h->f->ops.data[v];
    const IrId *args = op.args;
    if (op.op == IR_OP_arg) return arg_of(c->m, c->f, h->f->args.data[op.attr.i]);
    op.args = ARENA_ARRAY(c->m->arena, IrId, op.n_args + 1);
    for (uint32_t k = 0; k < op.n_args; k++) ICE_UNLESS(args[k] < v); /* numbered already */
    for (uint32_t k = 0; k < op.n_args; k++) op.args[k] = h->numbered[args[k]];
    IrId *slot = op_table_find(&c->table, c->f, &op);
    if (!*slot) *slot = ir_add(c->m, c->f, op.op, op.type, op.args, op.n_args, op.attr, op.span) + 1;
    return *slot - 1;
}

static void note_held(Common *c, IrId value, uint32_t reader)
{
    for (uint32_t i = 0; i < c->held.n; i++)
        if (c->held.data[i].value == value) {
            c->held.data[i].by |= reader;
            return;
        }
    VEC_PUSH(c->m->arena, &c->held, ((Held){value, reader, IR_NONE}));
}

static void add_held(Common *c, Hoist *h, uint32_t reader)
{
    bool *needed = ARENA_ARRAY(h->ctx->stage, bool, h->f->ops.n + 1);
    memcpy(needed, h->held, h->f->ops.n * sizeof *needed);
    rewrite_reach(h->m, h->f, needed, NULL);
    for (IrId v = 0; v < h->f->ops.n; v++) {
        if (!needed[v]) continue;
        h->numbered[v] = number(c, h, v);
        if (h->held[v]) note_held(c, h->numbered[v], reader);
    }
}

/* ---- the new module ------------------------------------------------------------------------------------------- */

static bool is_taken(const IrModule *m, const char *name)
{
    for (uint32_t i = 0; i < m->tensors.n; i++)
        if (!strcmp(m->tensors.data[i].name, name)) return true;
    return false;
}

static void add_tensors(Common *c)
{
    IrModule *m = c->m;
    uint32_t next = 0;
    for (uint32_t i = 0; i < c->held.n; i++) {
        const IrOp *op = &c->f->ops.data[c->held.data[i].value];
        IrTensor t = {.kind = IR_HELD, .type = op->type, .span = op->span};
        do t.name = arena_printf(m->arena, "held.%u", next++);
        while (is_taken(m, t.name));
        c->held.data[i].tensor = m->tensors.n;
        VEC_PUSH(m->arena, &m->tensors, t);
    }
}

static const char *setup_name(Arena *a, uint32_t by)
{
    const char *name = "setup";
    for (int i = 0; i < N_READERS; i++)
        if (by >> i & 1) name = arena_printf(a, "%s.%s", name, readers[i].name);
    return name;
}

/* The function that computes what just these functions hold, so that each needs only inputs of its own. */
static void add_setup(Common *c, uint32_t by)
{
    IrModule *m = c->m;
    const IrFunc *all = c->f;
    bool *needed = ARENA_ARRAY(m->arena, bool, all->ops.n + 1);
    IrId *map = ARENA_ARRAY(m->arena, IrId, all->ops.n + 1);
    bool any = false;
    for (uint32_t i = 0; i < c->held.n; i++)
        if (c->held.data[i].by == by) any = needed[c->held.data[i].value] = true;
    if (!any) return;
    for (IrId v = all->ops.n; v-- > 0;) {
        for (uint32_t k = 0; k < all->ops.data[v].n_args && needed[v]; k++) needed[all->ops.data[v].args[k]] = true;
        IrId route = needed[v] ? ir_route_of(m, all, &all->ops.data[v]) : IR_NONE;
        if (route != IR_NONE) needed[route] = true;
    }
    IrFunc *f = ir_func_new(m, setup_name(m->arena, by));
    for (IrId v = 0; v < all->ops.n; v++) {
        const IrOp *op = &all->ops.data[v];
        if (!needed[v]) continue;
        if (op->op == IR_OP_arg) {
            map[v] = ir_arg(m, f, all->args.data[op->attr.i]);
            continue;
        }
        map[v] = ir_add(m, f, op->op, op->type, op->args, op->n_args, op->attr, op->span);
        for (uint32_t k = 0; k < op->n_args; k++) f->ops.data[map[v]].args[k] = map[op->args[k]];
    }
    for (uint32_t i = 0; i < c->held.n; i++) {
        const Held *held = &c->held.data[i];
        if (held->by == by) ir_result(m, f, m->tensors.data[held->tensor].name, map[held->value], held->tensor);
    }
}

static IrId read_held(const Common *c, IrFunc *f, IrId value)
{
    uint32_t i = 0;
    while (i < c->held.n && c->held.data[i].value != value) i++;
    ICE_UNLESS(i < c->held.n && c->held.data[i].tensor < c->m->tensors.n);
    const IrTensor *t = &c->m->tensors.data[c->held.data[i].tensor];
    /* equal values share it */
    return arg_of(c->m, f, (IrArg){t->name, IR_ARG_TENSOR, c->held.data[i].tensor, t->type});
}

static IrFunc *rebuild(const Common *c, const Hoist *h)
{
    Rewrite r = rewrite_begin(c->m, h->f);
    const bool *live = rewrite_live(h->ctx->stage, h->m, h->f, h->held);
    for (IrId v = 0; v < h->f->ops.n; v++) {
        if (!live[v]) continue;
        if (h->held[v]) r.map[v] = read_held(c, r.b.f, h->numbered[v]);
        else rewrite_copy(&r, v);
    }
    return rewrite_end(&r);
}

IrModule *pass_hoist(PassContext *ctx, const IrModule *m)
{
    m = rewrite_module(ctx, m, say_maps);
    IrModule *next = ir_module_clone(ctx->stage, m);
    Hoist parts[N_READERS] = {0};
    Common c = {.m = next, .f = ARENA_NEW(ctx->stage, IrFunc), .table = op_table_new(ctx->stage, module_n_ops(m))};
    for (uint32_t i = 0; i < N_READERS; i++) {
        const IrFunc *f = ir_func_find(m, readers[i].name);
        if (!f) continue;
        parts[i] = analyse(ctx, m, f);
        add_held(&c, &parts[i], 1u << i);
    }
    add_tensors(&c);
    for (uint32_t i = 0; i < next->funcs.n; i++)
        for (uint32_t k = 0; k < N_READERS; k++)
            if (parts[k].f == next->funcs.data[i]) next->funcs.data[i] = rebuild(&c, &parts[k]);
    for (uint32_t by = 1; by < 1u << N_READERS; by++) add_setup(&c, by);
    return next;
}
