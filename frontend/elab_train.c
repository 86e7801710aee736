/* The train block: "train_step" (loss in train mode, gradients, the optimizer's update of every
   parameter) and "metrics" (in eval mode). Optimizers are definitions of the language, run once per
   parameter. */
#include "frontend/sema.h"
#include <math.h>

typedef struct Train {
    const AstDecl *decl;
    const AstTrainItem *loss, *optimizer;
    Value target; /* the model, with static arguments bound */
    const char *name;
} Train;

/* ---- values over rows
 * -------------------------------------------------------------------------------- */

static Value mean_dims(Elab *e, Value v, Span s)
{
    IrType t = v.type;
    for (int i = 0; i < t.n_dims && v.kind == V_TENSOR; i++) {
        Value n = op_size(e, dim_size(e, t.dims[i]), s);
        v = op_binary(e, IR_OP_div, "divide", op_reduce_dims(e, IR_OP_sum_dims, v, t.dims[i], s), n,
                      s);
    }
    return v;
}

/* The mean over the rows where mask holds (all rows without one): one number. */
static Value mean_on(Elab *e, Value v, const AstExpr *on, Span s)
{
    v = to_tensor(e, v, e->real, s);
    Value mask = on ? elab_expr(e, on) : value_none(s);
    if (v.kind == V_ERROR || mask.kind == V_ERROR) return value_error();
    v = mean_dims(e, op_cast(e, v, e->real, s), s);
    IrId space = v.type.space;
    if (space == IR_UNIT && !on) return v;
    if (space == IR_UNIT) {
        diag_error(e->d, E0404, on->span, "`on` chooses rows, but the value is one number: %s",
                   value_text(e, &v));
        return value_error();
    }
    IrType rows = ir_scalar(on ? IR_BOOL : e->real);
    rows.space = space;
    if (on && (mask.kind != V_TENSOR || !ir_type_eq(&mask.type, &rows))) {
        diag_error(e->d, E0404, on->span, "`on` wants %s, found %s", type_text(e, &rows),
                   value_text(e, &mask));
        return value_error();
    }
    Value one = on ? op_cast(e, mask, e->real, s) : op_const(e, rows, 1, s);
    if (on) v = op_select(e, mask, v, value_number(0, true, s), s);
    Value sum = op_reduce(e, IR_OP_reduce_sum, v, map_all(e, space), 0, s);
    Value count = op_reduce(e, IR_OP_reduce_sum, one, map_all(e, space), 0, s);
    count = op_binary(e, IR_OP_max, "compare", count, value_number(1, true, s), s);
    return op_binary(e, IR_OP_div, "divide", sum, count, s);
}

/* ---- hypers and names
 * ----------------------------------------------------------------------------------- */

static void set_hyper(Elab *e, const AstTrainItem *it)
{
    IrId id = tensor_find(e, it->name.text);
    if (id == IR_NONE) {
        Value v = elab_expr(e, it->value);
        if (v.kind != V_NUMBER) {
            if (v.kind != V_ERROR)
                diag_error(e->d, E0404, it->span, "a hyper is a number, found %s",
                           value_text(e, &v));
            scope_set(e, it->name.text, value_error());
            return;
        }
        id = tensor_new(e, it->name.text, IR_HYPER, ir_scalar(e->real), it->span);
        e->m->tensors.data[id].hyper_default = v.num;
        set_find(e, it->name.text, &e->m->tensors.data[id].hyper_default);
    }
    if (e->m->tensors.data[id].kind != IR_HYPER) {
        diag_error(e->d, E0303, it->span, "`%s` is the name of a parameter or an input already",
                   it->name.text);
        scope_set(e, it->name.text, value_error());
        return;
    }
    scope_set(e, it->name.text, tensor_value(e, id, it->span));
}

static void train_frame(Elab *e, const Train *t)
{
    Frame *f = frame_push(e, NULL, t->decl->span);
    f->graph = graph_data(e);
    f->path = "";
    if (t->name) scope_set(e, t->name, t->target);
    for (uint32_t i = 0; i < t->decl->as.train.n_items; i++) {
        const AstTrainItem *it = &t->decl->as.train.items[i];
        if (it->kind == AST_TRAIN_HYPER) set_hyper(e, it);
        if (it->kind == AST_TRAIN_LET) scope_set(e, it->name.text, elab_expr(e, it->value));
    }
}

/* ---- the optimizer
 * ---------------------------------------------------------------------------------------- */

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

typedef struct Optimizer {
    const Def *def;
    const AstArg *args;
    uint32_t n_args;
    const char **patterns; /* per argument, or NULL */
    Span span;
} Optimizer;

static const AstExpr *callee_of(const AstExpr *x)
{
    return x->kind == AST_EXPR_CALL ? x->as.call.callee : x;
}

static bool find_optimizer(Elab *e, const AstTrainItem *it, Optimizer *o)
{
    const AstExpr *callee = callee_of(it->value);
    const char *name = callee->kind == AST_EXPR_NAME ? callee->as.name.text : "?";
    *o = (Optimizer){.def = def_find(e, &e->optimizers, name), .span = it->value->span};
    if (!o->def) {
        VEC(const char *) names = {0};
        for (uint32_t i = 0; i < e->optimizers.all.n; i++)
            VEC_PUSH(e->a, &names, e->optimizers.all.entries[i].key);
        Diag *d = diag_error(e->d, E0405, callee->span, "no optimizer `%s`", name);
        const char *near = str_nearest(name, names.data, names.n);
        if (near) diag_help(e->d, d, "did you mean `%s`?", near);
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
            any |= o->patterns[i] &&
                   pattern_matches(o->patterns[i], e->m->tensors.data[params[k]].name);
        if (any) continue;
        Diag *d = diag_error(e->d, E0405, o->args[i].on->span, "no parameter is named `%s`",
                             o->patterns[i]);
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

static IrId state_tensor(Elab *e, const Optimizer *o, const AstState *st, const IrTensor *param)
{
    IrType t = param->type;
    if (st->type && !type_resolve(e, st->type, &t)) return IR_NONE;
    Value init = st->init ? elab_expr(e, st->init) : value_number(0, true, st->span);
    if (init.kind != V_NUMBER) {
        diag_error(e->d, E0405, st->span, "an optimizer's state starts as a number, found %s",
                   value_text(e, &init));
        return IR_NONE;
    }
    const char *name = arena_printf(e->a, "%s.%s.%s", o->def->name, st->name.text, param->name);
    IrId id = tensor_new(e, name, IR_STATE, t, st->span);
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

static bool run_optimizer(Elab *e, const Optimizer *o, IrId param, Value value, Value gradient,
                          Value t)
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
    IrId *states = ARENA_ARRAY(e->a, IrId, fold->n_states + 1);
    bool ok = true;
    for (uint32_t i = 0; i < fold->n_states && ok; i++) {
        states[i] = state_tensor(e, o, &fold->states[i], &tensor);
        ok = states[i] != IR_NONE;
        if (ok)
            scope_set(e, fold->states[i].name.text,
                      tensor_value(e, states[i], fold->states[i].span));
    }
    if (ok && fold->has_step) elab_block(e, &fold->step);
    Value done = value_error();
    if (ok && fold->done)
        done = elab_expr(e, fold->done);
    else if (ok && fold->has_done_block) {
        done = elab_block(e, &fold->done_block);
        if (e->frame->returned) done = e->frame->result;
    } else if (ok)
        diag_error(e->d, E0405, o->def->decl->name.span,
                   "optimizer `%s` has no `done`: the new parameter", o->def->name);
    ok = ok && update_result(e, "the new parameter", done, param, o->span);
    for (uint32_t i = 0; i < fold->n_states && ok; i++) {
        const Binding *b = scope_find(e->frame, fold->states[i].name.text);
        ok = update_result(e, arena_printf(e->a, "state `%s`", b->name), b->value, states[i],
                           fold->states[i].span);
    }
    frame_pop(e);
    return ok;
}

static void update_params(Elab *e, const Train *t, Value loss)
{
    Optimizer o;
    VEC(IrId) params = {0};
    if (!find_optimizer(e, t->optimizer, &o)) return;
    for (uint32_t i = 0; i < e->func_args.n; i++) {
        IrId id = e->func_args.data[i].tensor;
        if (e->m->tensors.data[id].kind == IR_PARAM && !e->tensors.data[id].buffer)
            VEC_PUSH(e->a, &params, id);
    }
    if (!check_patterns(e, &o, params.data, params.n)) return;
    Span s = t->optimizer->span;
    Value time = op_binary(e, IR_OP_add, "add", op_cast(e, step_value(e, s), e->real, s),
                           value_number(1, true, s), s);
    Value *gradients = ARENA_ARRAY(e->a, Value, params.n + 1);
    for (uint32_t i = 0; i < params.n; i++)
        gradients[i] = op_grad(e, loss, tensor_value(e, params.data[i], s), s);
    for (uint32_t i = 0; i < params.n; i++)
        if (!run_optimizer(e, &o, params.data[i], tensor_value(e, params.data[i], s), gradients[i],
                           time))
            return;
}

/* ---- the two functions
 * --------------------------------------------------------------------------------------- */

static void train_step(Elab *e, const Train *t)
{
    func_begin(e, "train_step", true);
    train_frame(e, t);
    Value loss = mean_on(e, elab_expr(e, t->loss->value), t->loss->on, t->loss->span);
    if (loss.kind == V_TENSOR) {
        ir_result(e->m, e->f, "loss", loss.id, IR_NONE);
        update_params(e, t, loss);
        buffer_results(e, NULL);
    }
    frame_pop(e);
}

static void train_metrics(Elab *e, const Train *t)
{
    func_begin(e, "metrics", false);
    train_frame(e, t);
    for (uint32_t i = 0; i < t->decl->as.train.n_items; i++) {
        const AstTrainItem *it = &t->decl->as.train.items[i];
        if (it->kind != AST_TRAIN_METRIC) continue;
        Value v = mean_on(e, elab_expr(e, it->value), it->on, it->span);
        if (v.kind != V_TENSOR) continue;
        for (uint32_t k = 0; k < e->m->train.metrics.n; k++)
            if (!strcmp(e->m->train.metrics.data[k].name, it->name.text))
                diag_error(e->d, E0404, it->name.span, "two metrics are named `%s`", it->name.text);
        if (e->m->train.metrics.n == IR_MAX_METRICS)
            diag_error(e->d, E0404, it->name.span, "a train block has at most %d metrics",
                       IR_MAX_METRICS);
        VEC_PUSH(e->a, &e->m->train.metrics, ((IrMetric){it->name.text, e->f->results.n}));
        ir_result(e->m, e->f, it->name.text, v.id, IR_NONE);
    }
    frame_pop(e);
}

/* ---- settings
 * ----------------------------------------------------------------------------------------------------
 */

static bool whole_setting(Elab *e, const AstExpr *x, int64_t *out)
{
    Value v = elab_expr(e, x);
    if (v.kind == V_NUMBER && v.num >= 0 && v.num == floor(v.num) && v.num < 1e15)
        return *out = (int64_t)v.num, true;
    if (v.kind != V_ERROR)
        diag_error(e->d, E0404, x->span, "found %s, wanted a whole number", value_text(e, &v));
    return false;
}

static void error_no_metric(Elab *e, Span s, const char *word)
{
    const IrTrain *t = &e->m->train;
    VEC(const char *) names = {0};
    for (uint32_t k = 0; k < t->metrics.n; k++) VEC_PUSH(e->a, &names, t->metrics.data[k].name);
    Diag *d = diag_error(e->d, E0404, s, "no metric `%s` in this block", word);
    const char *near = str_nearest(word, names.data, names.n);
    if (near) diag_help(e->d, d, "did you mean `%s`?", near);
}

static void stop_early(Elab *e, const AstExpr *x)
{
    const AstExpr *callee = x->as.call.callee;
    if (callee->kind != AST_EXPR_NAME || strcmp(callee->as.name.text, "stop_early")) {
        diag_error(e->d, E0404, x->span,
                   "a train block knows `stop_early(metric, patience = 100)`");
        return;
    }
    IrTrain *t = &e->m->train;
    t->patience = 10;
    for (uint32_t i = 0; i < x->as.call.n_args; i++) {
        const AstArg *a = &x->as.call.args[i];
        const char *word = a->value->kind == AST_EXPR_NAME ? a->value->as.name.text : "";
        if (a->name.text && !strcmp(a->name.text, "patience"))
            whole_setting(e, a->value, &t->patience);
        else if (a->name.text && !strcmp(a->name.text, "mode") &&
                 (!strcmp(word, "max") || !strcmp(word, "min")))
            t->stop_minimise = !strcmp(word, "min");
        else if (a->name.text)
            diag_error(e->d, E0404, a->span, "stop_early takes patience = N and mode = max or min");
        else {
            for (uint32_t k = 0; k < t->metrics.n; k++)
                if (!strcmp(t->metrics.data[k].name, word)) t->stop_metric = k;
            if (t->stop_metric == IR_NONE) {
                error_no_metric(e, a->span, word);
                return;
            }
        }
    }
    if (t->stop_metric == IR_NONE) diag_error(e->d, E0404, x->span, "stop_early needs a metric");
}

static void error_setting(Elab *e, const AstName *name)
{
    static const char *const words[] = {"epochs", "seed", "stop_early", "optimizer", "metric", "hyper", "loss"};
    Diag *d = diag_error(e->d, E0404, name->span, "unknown setting `%s`; there are epochs and seed", name->text);
    const char *near = str_nearest(name->text, words, sizeof words / sizeof *words);
    if (!near) return;
    diag_help(e->d, d, "did you mean `%s`?", near);
    diag_fix(e->d, d, name->span, "%s", near);
}

static void settings(Elab *e, const AstDecl *decl)
{
    IrTrain *t = &e->m->train;
    t->epochs = 100;
    for (uint32_t i = 0; i < decl->as.train.n_items; i++) {
        const AstTrainItem *it = &decl->as.train.items[i];
        if (it->kind == AST_TRAIN_CALL) stop_early(e, it->value);
        if (it->kind != AST_TRAIN_SETTING) continue;
        if (!strcmp(it->name.text, "epochs"))
            whole_setting(e, it->value, &t->epochs);
        else if (!strcmp(it->name.text, "seed"))
            whole_setting(e, it->value, &t->seed);
        else
            error_setting(e, &it->name);
    }
}

static bool only_one(Elab *e, const AstDecl *decl, AstTrainKind kind, const char *what,
                     const AstTrainItem **out)
{
    for (uint32_t i = 0; i < decl->as.train.n_items; i++) {
        const AstTrainItem *it = &decl->as.train.items[i];
        if (it->kind != kind) continue;
        if (*out) return diag_error(e->d, E0404, it->span, "a second %s", what), false;
        *out = it;
    }
    if (!*out) {
        Diag *d = diag_error(e->d, E0404, decl->as.train.target->span, "the train block has no %s", what);
        diag_help(e->d, d, kind == AST_TRAIN_LOSS ? "`loss = cross_entropy(net(data.x), data.y) on data.train`" : "`optimizer adam(0.01)`");
    }
    return *out != NULL;
}

void elab_train(Elab *e, const AstDecl *decl, const Value *target, const char *name)
{
    Train t = {.decl = decl, .target = *target, .name = name};
    if (!only_one(e, decl, AST_TRAIN_LOSS, "loss", &t.loss)) return;
    if (!only_one(e, decl, AST_TRAIN_OPTIMIZER, "optimizer", &t.optimizer)) return;
    train_step(e, &t);
    train_metrics(e, &t);
    Frame *f = frame_push(e, NULL, decl->span);
    f->graph = graph_data(e);
    settings(e, decl);
    frame_pop(e);
    e->m->train.present = true;
}
