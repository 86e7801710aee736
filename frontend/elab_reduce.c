/* Reducers: `reduce name(m, ...) { state step merge done }` becomes one reduce op per state, by the
   class of the state's update, with `done` computed where the result lives. Updates without a class
   are refused: they would make the result depend on the order of elements. */
#include "frontend/sema.h"
#include <math.h>

bool reduce_name_split(Elab *e, const char *name, const char **reducer, ReduceWhere *where)
{
    static const struct {
        const char *suffix;
        ReduceWhere where;
    } forms[] = {{"_in", REDUCE_IN}, {"_out", REDUCE_OUT}, {"_all", REDUCE_ALL}};
    size_t n = strlen(name);
    *reducer = NULL;
    for (int i = 0; i < 3; i++) {
        size_t k = strlen(forms[i].suffix);
        if (n <= k || strcmp(name + n - k, forms[i].suffix)) continue;
        *reducer = arena_strndup(e->a, name, n - k);
        *where = forms[i].where;
    }
    if (!strncmp(name, "readout_", 8)) {
        *reducer = name + 8;
        *where = REDUCE_READOUT;
    }
    return *reducer && (def_find(e, &e->folds, *reducer) || scope_find(e->frame, *reducer));
}

/* ---- where from, where to ---------------------------------------------------------------------------------------- */

static Value error_operand(Elab *e, const Value *v, const char *name, const char *wants, Span s)
{
    Diag *d = diag_error(e->d, E0204, span_or(v->span, s), "%s takes %s, found %s", name, wants, value_text(e, v));
    const IrGraph *g = graph_ir(e, e->frame->graph);
    if (v->type.space != IR_UNIT && (v->type.space == g->src_space || v->type.space == g->dst_space))
        diag_help(e->d, d, "take the value at one end of each edge: `.src` or `.dst`");
    else if (e->m->spaces.data[v->type.space].is_edge)
        diag_help(e->d, d, "these are edges of another graph than the one at hand");
    return value_error();
}

/* The map that is reduced over; the operand is brought to its elements. */
static bool reduce_map(Elab *e, ReduceWhere where, const char *word, Value *v, Span s, IrId *map)
{
    static const char *const forms[] = {"%s_in", "%s_out", "%s_all", "readout_%s"};
    const IrGraph *g = graph_ir(e, e->frame->graph);
    if (v->kind != V_TENSOR) *v = to_tensor(e, *v, e->real, s);
    if (v->kind == V_ERROR) return false;
    char name[128];
    if (where == REDUCE_READOUT) snprintf(name, sizeof name, "readout_%.100s", word);
    else snprintf(name, sizeof name, "%.100s%s", word, forms[where] + 2);
    if (where == REDUCE_IN || where == REDUCE_OUT) {
        if (graph_is_none(e->frame->graph)) return error_no_graph(e, arena_printf(e->a, "`%s`", name), s), false;
        if (v->type.space == IR_UNIT) *v = op_spread(e, *v, g->edge);
        if (v->type.space != g->edge) return error_operand(e, v, name, "an edge value", s), false;
        return *map = where == REDUCE_IN ? g->dst : g->src, true;
    }
    if (v->type.space == IR_UNIT) return error_operand(e, v, name, "a value per node, edge or graph", s), false;
    if (!rows_all_used(e, v->type.space, name, s)) return false;
    *map = where == REDUCE_ALL ? map_all(e, v->type.space) : map_graph(e, v->type.space);
    if (*map == IR_NONE) return error_operand(e, v, name, "a node or edge value of the data's graph", s), false;
    return true;
}

/* ---- classes of state updates ------------------------------------------------------------------------------------ */

typedef enum { CLASS_NONE, CLASS_SUM, CLASS_MUL, CLASS_MAX, CLASS_MIN } Class;

typedef struct Update {
    Class class;
    const AstExpr *value;
    bool negated, inverted; /* s -= f, s /= f */
} Update;

static bool is_name(const AstExpr *x, const char *name)
{
    return x->kind == AST_EXPR_NAME && !strcmp(x->as.name.text, name);
}

static bool is_state(const AstFold *fold, const char *name)
{
    for (uint32_t i = 0; i < fold->n_states; i++)
        if (!strcmp(fold->states[i].name.text, name)) return true;
    return false;
}

/* The name of a state that x reads, or NULL. */
static const char *reads_state(const AstFold *fold, const AstExpr *x)
{
    const char *r = NULL;
    switch (x->kind) {
    case AST_EXPR_NAME: return is_state(fold, x->as.name.text) ? x->as.name.text : NULL;
    case AST_EXPR_UNARY: return reads_state(fold, x->as.unary.value);
    case AST_EXPR_BINARY:
    case AST_EXPR_RANGE: r = reads_state(fold, x->as.binary.left); return r ? r : reads_state(fold, x->as.binary.right);
    case AST_EXPR_SELECT:
        r = reads_state(fold, x->as.select.cond);
        if (!r) r = reads_state(fold, x->as.select.yes);
        return r ? r : reads_state(fold, x->as.select.no);
    case AST_EXPR_CALL:
        for (uint32_t i = 0; i < x->as.call.n_args && !r; i++) r = reads_state(fold, x->as.call.args[i].value);
        return r;
    case AST_EXPR_MEMBER: return reads_state(fold, x->as.member.value);
    case AST_EXPR_INDEX: return reads_state(fold, x->as.index.value);
    case AST_EXPR_LIST:
    case AST_EXPR_TUPLE:
        for (uint32_t i = 0; i < x->as.list.n && !r; i++) r = reads_state(fold, x->as.list.items[i]);
        return r;
    default: return NULL;
    }
}

/* `max(s, f)`, `s + f` and the like. */
static Update update_of_expr(const AstExpr *x, const char *state)
{
    const AstExpr *a = NULL, *b = NULL;
    Class class = CLASS_NONE;
    if (x->kind == AST_EXPR_CALL && x->as.call.n_args == 2) {
        a = x->as.call.args[0].value, b = x->as.call.args[1].value;
        class = is_name(x->as.call.callee, "max")   ? CLASS_MAX
                : is_name(x->as.call.callee, "min") ? CLASS_MIN
                                                    : CLASS_NONE;
    } else if (x->kind == AST_EXPR_BINARY) {
        a = x->as.binary.left, b = x->as.binary.right;
        class = x->as.binary.op == AST_ADD ? CLASS_SUM : x->as.binary.op == AST_MUL ? CLASS_MUL : CLASS_NONE;
    }
    if (class == CLASS_NONE || (!is_name(a, state) && !is_name(b, state))) return (Update){0};
    return (Update){.class = class, .value = is_name(a, state) ? b : a};
}

static Update update_of(const AstStmt *s, const char *state)
{
    const AstExpr *x = s->as.assign.value;
    switch (s->as.assign.op) {
    case AST_SET_ADD: return (Update){.class = CLASS_SUM, .value = x};
    case AST_SET_SUB: return (Update){.class = CLASS_SUM, .value = x, .negated = true};
    case AST_SET_MUL: return (Update){.class = CLASS_MUL, .value = x};
    case AST_SET_DIV: return (Update){.class = CLASS_MUL, .value = x, .inverted = true};
    default: return update_of_expr(x, state);
    }
}

static bool error_class(Elab *e, const AstFold *fold, const AstStmt *s, const char *state, const Update *u)
{
    const char *other = u->class != CLASS_NONE ? reads_state(fold, u->value) : NULL;
    Diag *d = other ? diag_error(e->d, E0401, s->span,
                                 "the update of `%s` reads state `%s`: the result depends on the "
                                 "order of elements",
                                 state, other)
                    : diag_error(e->d, E0401, s->span, "the update of `%s` is no sum, product, maximum or minimum",
                                 state);
    diag_help(e->d, d,
              "write `%s += f`, `%s *= f`, `%s = max(%s, f)` or `%s = min(%s, f)`, f without "
              "states; where the order counts, `fold_in(m, cell, start, most)` runs a cell over the edges of a node",
              state, state, state, state, state, state);
    return false;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

typedef struct StateRun {
    Update update;
    Value value; /* f at the elements */
    Span span;
} StateRun;

static const AstExpr *target_of(const AstStmt *s)
{
    bool one = s->kind == AST_STMT_ASSIGN && s->as.assign.targets.n == 1;
    return one && s->as.assign.targets.items[0]->kind == AST_EXPR_NAME ? s->as.assign.targets.items[0] : NULL;
}

/* Does this stand in the step of a reducer, or in a function that one calls? Such a step sees one element. */
static bool is_in_step(const Elab *e)
{
    for (const Frame *f = e->frame; f; f = f->caller)
        if (f->in_step) return true;
    return false;
}

static Value error_in_step(Elab *e, Span s)
{
    diag_help(e->d,
              diag_error(e->d, E0401, s, "a reduction inside the step of a reducer, which sees one element at a time"),
              "reduce before, and give the reducer the result at each element as a further argument: `r_in(m, "
              "sum_in(m).dst)`");
    return value_error();
}

/* One value for each row of the space. */
static Value at_rows(Elab *e, Value v, IrId space, const char *what, Span s)
{
    if (v.kind == V_ERROR) return v;
    IrType t = v.type;
    t.space = space;
    return coerce(e, v, &t, what, span_or(v.span, s));
}

/* Runs the step once, at the elements: f of each state. */
static bool run_step(Elab *e, const AstFold *fold, StateRun *runs)
{
    for (uint32_t i = 0; i < fold->step.n; i++) {
        const AstStmt *s = fold->step.items[i];
        const AstExpr *target = target_of(s);
        if (!target) {
            diag_error(e->d, E0403, s->span, "a step holds assignments to states and local names");
            return false;
        }
        const char *name = target->as.name.text;
        const char *read = is_state(fold, name) ? NULL : reads_state(fold, s->as.assign.value);
        if (read) return error_class(e, fold, s, name, &(Update){.class = CLASS_SUM, .value = s->as.assign.value});
        if (!is_state(fold, name)) {
            scope_set(e, name, elab_expr(e, s->as.assign.value));
            continue;
        }
        uint32_t k = 0;
        while (strcmp(fold->states[k].name.text, name)) k++;
        Update u = update_of(s, name);
        if (u.class == CLASS_NONE || reads_state(fold, u.value)) return error_class(e, fold, s, name, &u);
        if (runs[k].update.class != CLASS_NONE) {
            diag_error(e->d, E0403, s->span, "state `%s` is updated twice", name);
            return false;
        }
        runs[k] = (StateRun){.update = u, .value = elab_expr(e, u.value), .span = s->span};
    }
    for (uint32_t k = 0; k < fold->n_states; k++)
        if (runs[k].update.class == CLASS_NONE) {
            diag_error(e->d, E0403, fold->states[k].span, "the step does not update state `%s`",
                       fold->states[k].name.text);
            return false;
        }
    return true;
}

static const IrOpcode reduce_ops[] = {[CLASS_SUM] = IR_OP_reduce_sum,
                                      [CLASS_MUL] = IR_OP_reduce_mul,
                                      [CLASS_MAX] = IR_OP_reduce_max,
                                      [CLASS_MIN] = IR_OP_reduce_min};
static const IrOpcode join_ops[] = {
    [CLASS_SUM] = IR_OP_add, [CLASS_MUL] = IR_OP_mul, [CLASS_MAX] = IR_OP_max, [CLASS_MIN] = IR_OP_min};

static double identity(Class class)
{
    return class == CLASS_SUM ? 0 : class == CLASS_MUL ? 1 : class == CLASS_MAX ? -HUGE_VAL : HUGE_VAL;
}

/* The same among the values of a type: of integers the last that a double holds. */
static double identity_of(Class class, IrDtype dtype)
{
    double x = identity(class), last = dtype == IR_I32 ? INT32_MAX : 0x1p63 - 1024;
    return !isinf(x) || ir_dtype_is_float(dtype) ? x : x > 0 ? last : -last;
}

typedef struct Rows { /* what is reduced into */
    IrId map;
    const Key *key;
} Rows;

/* Does each row, or group of one, have elements? */
static Value row_is_filled(Elab *e, const Rows *rows, Span s)
{
    IrType one = ir_scalar(e->real);
    one.space = e->m->maps.data[rows->map].from;
    Value n = op_reduce(e, IR_OP_reduce_sum, key_spread(e, rows->key, op_const(e, one, 1, s), 0, s), rows->map, 0, s);
    return op_binary(e, IR_OP_lt, "compare", value_number(0, true, s), n, s);
}

/* Max and min over the groups of a key: what a group without elements gets is chosen behind. */
static Value run_keyed_extreme(Elab *e, const StateRun *r, Value v, const Rows *rows, double none)
{
    double other = identity_of(r->update.class, v.type.dtype);
    v = op_reduce(e, reduce_ops[r->update.class], v, rows->map, other, r->span);
    if (none == other) return v;
    return op_select(e, row_is_filled(e, rows, r->span), v, value_number(none, none == floor(none), r->span), r->span);
}

/* The state's value after all elements. `empty`: what a row without elements gets, or NULL for the start; *in_op if the
   reduction itself gives it that, which a maximum or minimum does that starts where nothing counts. */
static Value run_state(Elab *e, const AstState *st, StateRun *r, const Rows *rows, const Value *empty, bool *in_op)
{
    *in_op = false;
    Value v = to_tensor(e, r->value, e->real, r->span), init = st->init ? elab_expr(e, st->init) : value_none(st->span);
    if (v.kind == V_ERROR || init.kind == V_ERROR) return value_error();
    if (r->update.negated) v = op_unary(e, IR_OP_neg, v, r->span);
    if (r->update.inverted) v = op_binary(e, IR_OP_div, "divide", value_number(1, false, r->span), v, r->span);
    v = at_rows(e, v, e->frame->reduce_from, arena_printf(e->a, "the update of state `%s`", st->name.text), r->span);
    if (v.kind == V_ERROR) return v;
    if (st->type) {
        IrType t;
        if (!type_resolve(e, st->type, &t)) return value_error();
        t.space = e->frame->reduce_from;
        t.dtype = v.type.dtype;
        v = coerce(e, v, &t, arena_printf(e->a, "the update of state `%s`", st->name.text), r->span);
    }
    bool extreme = r->update.class == CLASS_MAX || r->update.class == CLASS_MIN;
    bool starts_so = init.kind == V_NONE || (init.kind == V_NUMBER && init.num == identity(r->update.class));
    double none = identity_of(r->update.class, v.type.dtype);
    *in_op = empty && extreme && starts_so && (ir_dtype_is_float(v.type.dtype) || empty->is_int);
    if (*in_op) none = empty->num;
    v = key_spread(e, rows->key, v, identity_of(r->update.class, v.type.dtype), r->span);
    if (v.kind == V_ERROR) return v;
    if (key_masks(rows->key) && extreme) v = run_keyed_extreme(e, r, v, rows, none);
    else v = op_reduce(e, reduce_ops[r->update.class], v, rows->map, extreme ? none : 0, r->span);
    return starts_so ? v : op_binary(e, join_ops[r->update.class], "join", v, init, st->span);
}

/* ---- merge and done ---------------------------------------------------------------------------------------------- */

static bool is_other(const AstExpr *x, const char *state)
{
    return x->kind == AST_EXPR_MEMBER && is_name(x->as.member.value, "other") && !strcmp(x->as.member.name.text, state);
}

static bool check_merge(Elab *e, const AstFold *fold, const StateRun *runs)
{
    static const char *const how[] = {[CLASS_SUM] = "+=", [CLASS_MUL] = "*=", [CLASS_MAX] = "max", [CLASS_MIN] = "min"};
    uint32_t seen = 0;
    for (uint32_t i = 0; i < fold->merge.n; i++) {
        const AstStmt *s = fold->merge.items[i];
        const AstExpr *target = target_of(s);
        uint32_t k = 0;
        while (target && k < fold->n_states && strcmp(fold->states[k].name.text, target->as.name.text)) k++;
        if (!target || k == fold->n_states) {
            diag_error(e->d, E0402, s->span, "a merge assigns to states only");
            return false;
        }
        const char *n = target->as.name.text;
        Update u = update_of(s, n);
        seen++;
        if (u.class == runs[k].update.class && !u.negated && !u.inverted && is_other(u.value, n)) continue;
        Diag *d = diag_error(e->d, E0402, s->span, "this merge of `%s` does not join states as the step joins elements",
                             n);
        diag_note(e->d, d, runs[k].span, "the step");
        Class class = runs[k].update.class;
        if (class >= CLASS_MAX) diag_help(e->d, d, "write `%s = %s(%s, other.%s)`", n, how[class], n, n);
        else diag_help(e->d, d, "write `%s %s other.%s`", n, how[class], n);
        return false;
    }
    if (fold->has_merge && seen != fold->n_states) {
        diag_error(e->d, E0402, fold->merge.span, "the merge must join each of the %u states once", fold->n_states);
        return false;
    }
    return true;
}

static Value run_done(Elab *e, const Def *def, const AstFold *fold)
{
    Value v;
    if (fold->done) v = elab_expr(e, fold->done);
    else if (fold->has_done_block) {
        v = elab_block(e, &fold->done_block);
        if (e->frame->returned) v = e->frame->result;
    } else if (fold->n_states == 1) {
        v = scope_lookup(e, fold->states[0].name.text, fold->states[0].span);
    } else {
        diag_error(e->d, E0403, def->decl->name.span, "reducer `%s` has several states and no `done`", def->name);
        return value_error();
    }
    return to_tensor(e, v, e->real, def->decl->name.span);
}

static bool fold_is_whole(Elab *e, const AstFold *fold, Span s)
{
    if (fold->has_step && fold->n_states) return true;
    diag_error(e->d, E0403, s, "a reducer has states and a step");
    return false;
}

/* The result under the adjoint that the reducer states. */
static Value fold_adjoint(Elab *e, const AstFold *fold, const Value *given, const Rows *rows, Value v)
{
    if (rows->key->n) {
        Diag *d = diag_error(e->d, E0410, rows->key->span, "%s states an adjoint, so it takes no key",
                             e->frame->def->name);
        diag_note(e->d, d, fold->adjoint.span, "the adjoint, which speaks of one row for each element");
        return value_error();
    }
    e->frame->adjoint = &fold->adjoint;
    return adjoint_attach(e, &fold->sig, given, v,
                          &(AdjointRows){fold, rows->map, key_masks(rows->key) ? rows->key->hit : value_none(v.span)});
}

static Value run_fold(Elab *e, const Def *def, const Rows *rows)
{
    const AstFold *fold = &def->decl->as.fold;
    StateRun *runs = ARENA_ARRAY(e->a, StateRun, fold->n_states);
    const Value *given = arguments_of(e, &fold->sig);
    elab_fold_params(e, fold);
    if (!fold_is_whole(e, fold, def->decl->name.span)) return value_error();
    e->frame->in_step = true;
    bool stepped = run_step(e, fold, runs);
    e->frame->in_step = false;
    if (!stepped || !check_merge(e, fold, runs)) return value_error();
    Value empty = fold->empty ? elab_expr(e, fold->empty) : value_none(def->decl->span);
    const char *plain = fold->done && fold->done->kind == AST_EXPR_NAME ? fold->done->as.name.text : NULL;
    bool in_op = false; /* the op's own emptiness value serves */
    for (uint32_t k = 0; k < fold->n_states; k++) {
        const AstState *st = &fold->states[k];
        bool is_result = plain && !strcmp(plain, st->name.text) && empty.kind == V_NUMBER, here;
        scope_set(e, st->name.text, run_state(e, st, &runs[k], rows, is_result ? &empty : NULL, &here));
        in_op |= here;
    }
    Value v = run_done(e, def, fold);
    v = at_rows(e, v, e->frame->reduce_to, arena_printf(e->a, "the result of %s", def->name), def->decl->name.span);
    if (fold->empty && !in_op) v = op_select(e, row_is_filled(e, rows, fold->empty->span), v, empty, fold->empty->span);
    if (fold->sig.result && v.kind != V_ERROR && !rows->key->n)
        v = coerce_declared(e, v, fold->sig.result, arena_printf(e->a, "the result of %s", def->name),
                            def->decl->name.span);
    return fold->has_adjoint && v.kind != V_ERROR ? fold_adjoint(e, fold, given, rows, v) : v;
}

/* [mean, max]: each of them, joined along the last dim. */
static Value reduce_list(Elab *e, const Value *list, ReduceWhere where, const Call *c)
{
    CallArg *parts = ARENA_ARRAY(e->a, CallArg, list->n + 1);
    for (uint32_t i = 0; i < list->n; i++) {
        parts[i].value = call_reduce(e, &list->items[i], where, c);
        if (parts[i].value.kind == V_ERROR) return value_error();
    }
    return builtin_find("cat")(e, &(Call){.ast = c->ast, .span = c->span, .args = parts, .n = list->n});
}

/* A reducer may be a family of functions instead: `std` where std_in, std_out, std_all and readout_std are defined,
   also where `logsumexp` alone is a function over dims. */
static const Def *function_of(Elab *e, const Value *reducer, ReduceWhere where)
{
    static const char *const forms[] = {"%s_in", "%s_out", "%s_all", "readout_%s"};
    bool named = (reducer->kind == V_WORD || reducer->kind == V_DEF) && reducer->word;
    return named ? def_find(e, &e->functions, arena_printf(e->a, forms[where], reducer->word)) : NULL;
}

/* A layer or a function from edges to nodes that was passed as a reducer. */
static bool is_own_reduction(Elab *e, const Value *v, ReduceWhere where)
{
    bool function = v->kind == V_DEF && v->def && !def_find(e, &e->folds, v->word) && !function_of(e, v, where);
    return (where == REDUCE_IN || where == REDUCE_OUT) && (v->kind == V_INSTANCE || function);
}

/* It knows in-edges; those out of a node are in-edges of the reverse. */
static Value own_reduction(Elab *e, const Value *reducer, ReduceWhere where, const Call *c)
{
    if (where == REDUCE_IN || !c->n || c->args[0].name) return call_value(e, *reducer, c);
    if (graph_is_none(e->frame->graph)) return error_no_graph(e, "a reducer over out-edges", c->span), value_error();
    Call turned = *c;
    CallArg *args = ARENA_ARRAY(e->a, CallArg, c->n);
    memcpy(args, c->args, c->n * sizeof *args);
    const GraphValue *old = e->frame->graph, *back = graph_turned(e, &args[0].value, c->span);
    turned.args = args;
    e->frame->graph = back;
    Value v = call_value(e, *reducer, &turned);
    e->frame->graph = old;
    return v;
}

/* `by = rel` belongs to the reduction, unless the reducer has an argument of that name. */
static bool is_key_arg(const AstSignature *sig, const CallArg *a)
{
    if (!a->name || strcmp(a->name, "by")) return false;
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (!strcmp(sig->params[i].name.text, "by")) return false;
    return true;
}

Value call_reduce(Elab *e, const Value *reducer, ReduceWhere where, const Call *c)
{
    if (reducer->kind == V_ERROR) return *reducer;
    if (is_in_step(e)) return error_in_step(e, c->span);
    if (reducer->kind == V_LIST) return reduce_list(e, reducer, where, c);
    if (is_own_reduction(e, reducer, where)) return own_reduction(e, reducer, where, c);
    const Def *function = function_of(e, reducer, where);
    if (function) return call_def(e, function, NULL, 0, c, NULL);
    const Def *def = reducer->word ? def_find(e, &e->folds, reducer->word) : NULL;
    if (!def || (reducer->kind != V_DEF && reducer->kind != V_WORD)) {
        note_value(e, diag_error(e->d, E0306, c->span, "found %s, wanted a reducer", value_text(e, reducer)), reducer);
        return value_error();
    }
    if (!c->n || c->args[0].name) {
        diag_error(e->d, E0302, c->span, "`%s` wants the value to reduce first", def->name);
        return value_error();
    }
    CallArg *args = ARENA_ARRAY(e->a, CallArg, c->n);
    uint32_t n = 0;
    const CallArg *by = NULL;
    for (uint32_t i = 0; i < c->n; i++)
        if (is_key_arg(&def->decl->as.fold.sig, &c->args[i])) by = &c->args[i];
        else args[n++] = c->args[i];
    IrId map;
    Key key = {0};
    uint32_t from = e->d->list.n;
    const Def *caller = e->frame->def;
    if (!reduce_map(e, where, def->name, &args[0].value, c->span, &map)) return value_error();
    e->reduce_from = e->m->maps.data[map].from;
    e->reduce_to = e->m->maps.data[map].to;
    bool ok = !by || key_read(e, &by->value, where, &args[0].value.type, by->ast->value->span, &key);
    if (!ok || !key_there(e, &key, where, e->reduce_from, c->span))
        return e->reduce_from = e->reduce_to = IR_NONE, value_error();
    Call call = {.ast = c->ast, .span = c->span, .args = args, .n = n};
    if (!frame_enter(e, def, &def->decl->as.fold.sig, NULL, 0, &call))
        return e->reduce_from = e->reduce_to = IR_NONE, value_error();
    Value v = run_fold(e, def, &(Rows){map, &key});
    frame_pop(e);
    if (def->is_std && caller && !caller->is_std) note_expansion(e, def, c->span, from);
    v.span = c->span;
    return v;
}
