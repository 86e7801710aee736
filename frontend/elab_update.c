/* What a training step changes: gradients, clipped; the optimizer's update of every parameter; the schedules.
   Optimizers and schedules are definitions of the language that keep states: an optimizer runs once per parameter, a
   schedule where the train block names its value:

     schedule warm(n) { state k = 0  step { k = min(k + 1, n) }  done = k / n }      ramp = warm(10)
     optimizer adam(lr * ramp)

   A formula of `epoch`, `epochs` and `step` needs no schedule: adam(lr * pow(0.97, epoch)). What the run says of
   itself, those numbers and each metric's last value, are hypers named run.* that the training loop sets. In a test the
   states are plain values, and steps follow one another as calls of a function do. */
#include "frontend/sema.h"
#include <math.h>

/* ---- numbers of the run ---- */

static Value run_hyper(Elab *e, const char *name, double start, Span s)
{
    const char *full = arena_printf(e->a, "run.%s", name);
    IrId id = tensor_find(e, full);
    if (id == IR_NONE) {
        id = tensor_new(e, full, IR_HYPER, ir_scalar(e->real), s);
        e->m->tensors.data[id].hyper_default = start;
    }
    return tensor_value(e, id, s);
}

bool train_number(Elab *e, const AstDecl *train, const char *name, Span s, Value *out)
{
    if (!strcmp(name, "step")) return *out = op_cast(e, step_value(e, s), e->real, s), true;
    if (!strcmp(name, "epoch")) return *out = run_hyper(e, name, 0, s), true;
    if (!strcmp(name, "epochs")) return *out = run_hyper(e, name, 1, s), true;
    for (uint32_t i = 0; i < train->as.train.n_items; i++) {
        const AstTrainItem *it = &train->as.train.items[i];
        if (it->kind == AST_TRAIN_METRIC && !strcmp(it->name.text, name)) return *out = run_hyper(e, name, 0, s), true;
    }
    return false;
}

/* ---- definitions with states ---- */

/* A state named OWNER.STATE.OF; of the type `t` if it states none. */
static IrId state_tensor(Elab *e, const Def *def, const AstState *st, const char *of, IrType t)
{
    if (st->type && !type_resolve(e, st->type, &t)) return IR_NONE;
    Value init = st->init ? elab_expr(e, st->init) : value_number(0, true, st->span);
    if (init.kind != V_NUMBER) {
        diag_error(e->d, E0405, st->span, "%s's state starts as a number, found %s",
                   def->decl->kind == AST_DECL_OPTIMIZER ? "an optimizer" : "a schedule", value_text(e, &init));
        return IR_NONE;
    }
    const char *name = arena_printf(e->a, "%s.%s.%s", def->name, st->name.text, of);
    IrId id = tensor_find(e, name);
    if (id == IR_NONE) id = tensor_new(e, name, IR_STATE, t, st->span);
    e->tensors.data[id].init_a = init.num;
    return id;
}

static bool update_result(Elab *e, const char *what, Value v, IrId tensor, Span s)
{
    IrType t = e->m->tensors.data[tensor].type;
    v = coerce(e, v, &t, what, s);
    if (v.kind != V_TENSOR) return false;
    ir_result(e->m, e->f, e->m->tensors.data[tensor].name, v.id, tensor);
    return true;
}

static Value fold_done(Elab *e, const AstFold *fold)
{
    if (fold->done) return elab_expr(e, fold->done);
    Value done = elab_block(e, &fold->done_block);
    return e->frame->returned ? e->frame->result : done;
}

/* The states have values: the step, then what it gives. */
static Value run_step(Elab *e, const Def *def)
{
    const AstFold *fold = &def->decl->as.fold;
    if (fold->has_step) elab_block(e, &fold->step);
    if (!fold->done && !fold->has_done_block) {
        bool optimizer = def->decl->kind == AST_DECL_OPTIMIZER;
        diag_error(e->d, E0405, def->decl->name.span, "%s `%s` has no `done`: the %s",
                   optimizer ? "optimizer" : "schedule", def->name, optimizer ? "new parameter" : "number it gives");
        return value_error();
    }
    return fold_done(e, fold);
}

/* Runs the definition, whose arguments are bound in the frame at hand. `of` names what its states belong to. */
static bool run_states(Elab *e, const Def *def, const char *of, IrType state, Value *done)
{
    const AstFold *fold = &def->decl->as.fold;
    IrId *states = ARENA_ARRAY(e->a, IrId, fold->n_states + 1);
    for (uint32_t i = 0; i < fold->n_states; i++) {
        states[i] = state_tensor(e, def, &fold->states[i], of, state);
        if (states[i] == IR_NONE) return false;
        scope_set(e, fold->states[i].name.text, tensor_value(e, states[i], fold->states[i].span));
    }
    *done = run_step(e, def);
    bool ok = done->kind != V_ERROR;
    for (uint32_t i = 0; i < fold->n_states && ok; i++) {
        const Binding *b = scope_find(e->frame, fold->states[i].name.text);
        ok = update_result(e, arena_printf(e->a, "state `%s`", b->name), b->value, states[i], fold->states[i].span);
    }
    return ok;
}

/* ---- schedules ---- */

static const AstExpr *callee_of(const AstExpr *x) { return x->kind == AST_EXPR_CALL ? x->as.call.callee : x; }

static Value run_schedule(Elab *e, const Def *def, const AstTrainItem *it)
{
    const AstDecl *train = e->frame->train;
    const AstExpr *x = it->value;
    uint32_t n = x->kind == AST_EXPR_CALL ? x->as.call.n_args : 0;
    CallArg *args = ARENA_ARRAY(e->a, CallArg, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const AstArg *a = &x->as.call.args[i];
        args[i] = (CallArg){.name = a->name.text, .value = elab_expr(e, a->value), .ast = a};
    }
    Value done = value_error();
    if (!frame_enter(e, def, &def->decl->as.fold.sig, NULL, 0, &(Call){.span = x->span, .args = args, .n = n}))
        return done;
    static const char *const given[] = {"epoch", "epochs", "step"};
    Value v;
    for (int i = 0; i < 3; i++)
        if (train_number(e, train, given[i], x->span, &v)) scope_set(e, given[i], v);
    IrType number = ir_scalar(e->real);
    if (run_states(e, def, it->name.text, number, &done))
        done = coerce(e, done, &number, "the schedule's number", x->span);
    frame_pop(e);
    return done;
}

bool schedule_set(Elab *e, const AstTrainItem *it)
{
    const AstExpr *callee = callee_of(it->value);
    const Def *def = callee->kind == AST_EXPR_NAME ? def_find(e, &e->optimizers, callee->as.name.text) : NULL;
    if (!def || def->decl->kind != AST_DECL_SCHEDULE || scope_find(e->frame, callee->as.name.text)) return false;
    if (e->training) scope_set(e, it->name.text, run_schedule(e, def, it)); /* metrics are of no step */
    return true;
}

/* ---- which parameters an option is for ---- */

/* "conv1.*" of the expression; NULL with a diagnostic. */
static const char *pattern_text(Elab *e, const AstExpr *x)
{
    if (x->kind == AST_EXPR_NAME) return x->as.name.text;
    if (x->kind == AST_EXPR_STRING) return x->as.string;
    const char *left = x->kind == AST_EXPR_MEMBER ? pattern_text(e, x->as.member.value) : NULL;
    if (left) return arena_printf(e->a, "%s.%s", left, x->as.member.name.text);
    diag_error(e->d, E0405, x->span, "wanted names of parameters, such as `conv1.*`");
    return NULL;
}

static bool pattern_matches(const char *pattern, const char *name)
{
    for (; *pattern && *pattern != '*'; pattern++, name++)
        if (*pattern != *name) return false;
    if (!*pattern) return !*name;
    for (;; name++) {
        if (pattern_matches(pattern + 1, name)) return true;
        if (!*name) return false;
    }
}

/* ---- the optimizer ---- */

typedef struct Optimizer {
    const Def *def;
    const AstArg *args;
    uint32_t n_args;
    const char **patterns; /* per argument, or NULL */
    Span span;
} Optimizer;

static bool find_optimizer(Elab *e, const AstTrainItem *it, Optimizer *o)
{
    const AstExpr *callee = callee_of(it->value);
    const char *name = callee->kind == AST_EXPR_NAME ? callee->as.name.text : "?";
    *o = (Optimizer){.def = def_find(e, &e->optimizers, name), .span = it->value->span};
    if (!o->def || o->def->decl->kind != AST_DECL_OPTIMIZER) {
        VEC(const char *) names = {0};
        for (uint32_t i = 0; i < e->optimizers.all.n; i++) {
            const char *key = e->optimizers.all.entries[i].key;
            if (def_find(e, &e->optimizers, key)->decl->kind == AST_DECL_OPTIMIZER) VEC_PUSH(e->a, &names, key);
        }
        Diag *d = diag_error(e->d, E0405, callee->span, "no optimizer `%s`", name);
        diag_suggest(e->d, d, callee->span, name, names.data, names.n);
        return false;
    }
    if (it->value->kind != AST_EXPR_CALL) return true;
    o->args = it->value->as.call.args;
    o->n_args = it->value->as.call.n_args;
    o->patterns = ARENA_ARRAY(e->a, const char *, o->n_args + 1);
    for (uint32_t i = 0; i < o->n_args; i++)
        if (o->args[i].on && !(o->patterns[i] = pattern_text(e, o->args[i].on))) return false;
    return true;
}

/* Each pattern must choose at least one parameter. */
static bool check_patterns(Elab *e, const Optimizer *o, const IrId *params, uint32_t n)
{
    for (uint32_t i = 0; i < o->n_args; i++) {
        bool any = !o->patterns[i];
        for (uint32_t k = 0; k < n; k++)
            any |= o->patterns[i] && pattern_matches(o->patterns[i], e->m->tensors.data[params[k]].name);
        if (any) continue;
        Diag *d = diag_error(e->d, E0405, o->args[i].on->span, "no parameter is named `%s`", o->patterns[i]);
        StrBuf b = {.arena = e->a};
        for (uint32_t k = 0; k < n && k < 12; k++)
            strbuf_printf(&b, "%s%s", k ? ", " : "", e->m->tensors.data[params[k]].name);
        diag_help(e->d, d, "parameters are %s%s", strbuf_cstr(&b), n > 12 ? ", ..." : "");
        return false;
    }
    return true;
}

/* The options that hold for this parameter; of two of one name the later. */
static Call options_for(Elab *e, const Optimizer *o, const char *param)
{
    CallArg *args = ARENA_ARRAY(e->a, CallArg, o->n_args + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_args; i++) {
        const AstArg *a = &o->args[i];
        if (o->patterns[i] && !pattern_matches(o->patterns[i], param)) continue;
        uint32_t k = 0;
        while (k < n && !(a->name.text && args[k].name && !strcmp(args[k].name, a->name.text))) k++;
        args[k] = (CallArg){.name = a->name.text, .value = elab_expr(e, a->value), .ast = a};
        if (k == n) n++;
    }
    return (Call){.span = o->span, .args = args, .n = n};
}

static bool run_optimizer(Elab *e, const Optimizer *o, IrId param, Value value, Value gradient, Value t)
{
    const AstFold *fold = &o->def->decl->as.fold;
    IrTensor tensor = e->m->tensors.data[param];
    Call c = options_for(e, o, tensor.name);
    if (fold->has_adjoint) {
        diag_error(e->d, E0405, fold->adjoint.span, "an optimizer has states, no adjoint");
        return false;
    }
    if (!frame_enter(e, o->def, &fold->sig, NULL, 0, &c)) return false;
    scope_set(e, "param", value);
    scope_set(e, "grad", gradient);
    scope_set(e, "t", t);
    Value done = value_error();
    bool ok = run_states(e, o->def, tensor.name, tensor.type, &done) &&
              update_result(e, "the new parameter", done, param, o->span);
    frame_pop(e);
    return ok;
}

/* ---- clipping ---- */

/* A limit: a positive number, or a hyper. */
static bool clip_limit(Elab *e, const AstExpr *x, Value *out)
{
    *out = elab_expr(e, x);
    if (out->kind == V_NUMBER && out->num > 0 && out->num < HUGE_VAL) return true;
    if (out->kind == V_TENSOR && ir_dtype_is_float(out->type.dtype) && out->type.space == IR_UNIT && !out->type.n_dims)
        return true;
    if (out->kind != V_ERROR) diag_error(e->d, E0404, x->span, "found %s, wanted a number above 0", value_text(e, out));
    return false;
}

/* Each element into [-limit, limit]. */
static void clip_by_value(Elab *e, const AstExpr *x, Value *gradients, uint32_t n)
{
    Value limit;
    Span s = x->span;
    if (!clip_limit(e, x, &limit)) return;
    Value least = op_binary(e, IR_OP_sub, "subtract", value_number(0, false, s), to_tensor(e, limit, e->real, s), s);
    for (uint32_t i = 0; i < n; i++) {
        gradients[i] = op_binary(e, IR_OP_max, "compare", gradients[i], least, s);
        gradients[i] = op_binary(e, IR_OP_min, "compare", gradients[i], limit, s);
    }
}

/* All together to a length of at most limit: times min(1, limit / (length + 1e-6)), as torch's clip_grad_norm_. The
   length is a result of the step, which the training loop refuses where it is not finite. */
static void clip_by_norm(Elab *e, const AstExpr *x, Value *gradients, uint32_t n)
{
    Value limit, sum = value_number(0, false, x->span), one = value_number(1, false, x->span);
    Span s = x->span;
    if (!clip_limit(e, x, &limit)) return;
    for (uint32_t i = 0; i < n; i++) {
        Value square = sum_everything(e, op_binary(e, IR_OP_mul, "multiply", gradients[i], gradients[i], s), s);
        sum = i ? op_binary(e, IR_OP_add, "add", sum, square, s) : square;
    }
    Value length = op_unary(e, IR_OP_sqrt, to_tensor(e, sum, e->real, s), s);
    ir_result(e->m, e->f, "gradient_norm", length.id, IR_NONE);
    length = op_binary(e, IR_OP_add, "add", length, value_number(1e-6, false, s), s);
    Value factor = op_binary(e, IR_OP_min, "compare", op_binary(e, IR_OP_div, "divide", limit, length, s), one, s);
    for (uint32_t i = 0; i < n; i++) gradients[i] = op_binary(e, IR_OP_mul, "multiply", gradients[i], factor, s);
}

/* ---- in tests ---- */

/* adam(lr = 0.1, param = p, grad = [a, b]), plateau(value = [1, 0.9, 0.9]): what comes out of one step after
   another. */
typedef struct Steps {
    const Def *def;
    const Call *call;
    CallArg *args; /* of the step at hand, without `param` and `grad` */
    Value param;   /* of an optimizer */
    uint32_t n;
} Steps;

static bool is_optimizer(const Steps *t) { return t->def->decl->kind == AST_DECL_OPTIMIZER; }

/* What changes from step to step is a list: the gradient, or arguments of a schedule. */
static bool steps_count(Elab *e, Steps *t)
{
    bool ok = true;
    for (uint32_t i = 0; i < t->call->n; i++) {
        const CallArg *a = &t->call->args[i];
        bool grad = a->name && !strcmp(a->name, "grad");
        if (is_optimizer(t) && a->name && !strcmp(a->name, "param")) t->param = a->value;
        if (a->value.kind != V_LIST || (is_optimizer(t) && !grad)) continue;
        ok &= !t->n || t->n == a->value.n;
        t->n = a->value.n;
    }
    if (ok && t->n && (!is_optimizer(t) || t->param.kind != V_NONE)) return true;
    Diag *d = diag_error(e->d, E0302, t->call->span, "%s `%s` in a test wants %s",
                         is_optimizer(t) ? "optimizer" : "schedule", t->def->name,
                         is_optimizer(t) ? "`param`, and `grad` as a list"
                                         : "what changes as a list, all lists of one length");
    diag_help(e->d, d, "write %s",
              is_optimizer(t) ? "`adam(param = p, grad = [g1, g2])`" : "`plateau(value = [1, 0.9, 0.9])`");
    return false;
}

/* The arguments of step k; the gradient is given by its name. */
static Call step_call(Elab *e, const Steps *t, uint32_t k, Value *grad)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->call->n; i++) {
        CallArg a = t->call->args[i];
        bool is_grad = is_optimizer(t) && a.name && !strcmp(a.name, "grad");
        if (a.value.kind == V_LIST && (is_grad || !is_optimizer(t)))
            a.value = to_tensor(e, a.value.items[k], e->real, a.ast->span);
        if (is_grad) *grad = a.value;
        else if (!(is_optimizer(t) && a.name && !strcmp(a.name, "param"))) t->args[n++] = a;
    }
    return (Call){.span = t->call->span, .args = t->args, .n = n};
}

static void set_number(Elab *e, const char *name, double x, Span s)
{
    scope_set(e, name, to_tensor(e, value_number(x, true, s), e->real, s));
}

static void set_given(Elab *e, const Steps *t, uint32_t k, Value grad)
{
    Span s = t->call->span;
    if (is_optimizer(t)) {
        scope_set(e, "param", t->param);
        scope_set(e, "grad", grad);
        set_number(e, "t", k + 1, s);
        return;
    }
    set_number(e, "epoch", k, s);
    set_number(e, "step", k, s);
    set_number(e, "epochs", t->n, s);
}

Value update_in_test(Elab *e, const Def *def, const Call *c)
{
    const AstFold *fold = &def->decl->as.fold;
    Steps t = {.def = def, .call = c, .args = ARENA_ARRAY(e->a, CallArg, c->n + 1), .param = {.kind = V_NONE}};
    if (!steps_count(e, &t)) return value_error();
    Value *states = ARENA_ARRAY(e->a, Value, fold->n_states + 1), *out = ARENA_ARRAY(e->a, Value, t.n),
          grad = value_error();
    for (uint32_t k = 0; k < t.n; k++) {
        Call now = step_call(e, &t, k, &grad);
        if (!frame_enter(e, def, &fold->sig, NULL, 0, &now)) return value_error();
        set_given(e, &t, k, grad);
        for (uint32_t i = 0; i < fold->n_states; i++) {
            const AstState *st = &fold->states[i];
            if (!k) states[i] = st->init ? elab_expr(e, st->init) : value_number(0, true, st->span);
            scope_set(e, st->name.text, states[i] = to_tensor(e, states[i], e->real, st->span));
        }
        out[k] = t.param = run_step(e, def);
        for (uint32_t i = 0; i < fold->n_states; i++)
            states[i] = scope_find(e->frame, fold->states[i].name.text)->value;
        frame_pop(e);
        if (out[k].kind == V_ERROR) return out[k];
    }
    return (Value){.kind = V_LIST, .items = out, .n = t.n, .span = c->span, .dim = IR_NONE};
}

/* ---- whole ---- */

void train_update(Elab *e, const TrainUpdate *u, Value loss)
{
    Optimizer o;
    VEC(IrId) params = {0};
    if (!find_optimizer(e, u->optimizer, &o)) return;
    for (uint32_t i = 0; i < e->func_args.n; i++) {
        IrId id = e->func_args.data[i].tensor;
        if (e->m->tensors.data[id].kind == IR_PARAM && !e->tensors.data[id].buffer) VEC_PUSH(e->a, &params, id);
    }
    if (!check_patterns(e, &o, params.data, params.n)) return;
    Span s = u->optimizer->span;
    Value time = op_binary(e, IR_OP_add, "add", op_cast(e, step_value(e, s), e->real, s), value_number(1, true, s), s);
    Value *gradients = ARENA_ARRAY(e->a, Value, params.n);
    for (uint32_t i = 0; i < params.n; i++) gradients[i] = op_grad(e, loss, tensor_value(e, params.data[i], s), s);
    if (u->clip_value) clip_by_value(e, u->clip_value, gradients, params.n);
    if (u->clip_norm) clip_by_norm(e, u->clip_norm, gradients, params.n);
    for (uint32_t i = 0; i < params.n; i++)
        if (!run_optimizer(e, &o, params.data[i], tensor_value(e, params.data[i], s), gradients[i], time)) return;
}
