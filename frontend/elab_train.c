/* The train block: "train_step" (loss in train mode, gradients, the updates of elab_update.c) and "metrics" (in
   eval mode), and the settings of a run. */
#include "frontend/sema.h"
#include <math.h>

typedef struct Train {
    const AstDecl *decl;
    const AstTrainItem *loss, *optimizer;
    const AstExpr *clip_norm, *clip_value; /* or NULL */
    Value target;                          /* the model, with static arguments bound */
    const char *name;
} Train;

/* ---- values over rows -------------------------------------------------------------------------------------------- */

static Value mean_dims(Elab *e, Value v, Span s)
{
    IrType t = v.type;
    for (int i = 0; i < t.n_dims && v.kind == V_TENSOR; i++) {
        Value n = op_size(e, dim_size(e, t.dims[i]), s);
        v = op_binary(e, IR_OP_div, "divide", op_reduce_dims(e, IR_OP_sum_dims, v, t.dims[i], s), n, s);
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
        diag_error(e->d, E0404, on->span, "`on` chooses rows, but the value is one number: %s", value_text(e, &v));
        return value_error();
    }
    if (!rows_all_used(e, space, "the mean", s)) return value_error();
    IrType rows = ir_scalar(on ? IR_BOOL : e->real);
    rows.space = space;
    if (on && (mask.kind != V_TENSOR || !ir_type_eq(&mask.type, &rows))) {
        diag_error(e->d, E0404, on->span, "`on` wants %s, found %s", type_text(e, &rows), value_text(e, &mask));
        return value_error();
    }
    Value there = found_there(e, space, s);
    if (there.kind == V_TENSOR) mask = on ? op_binary(e, IR_OP_and, "combine", mask, there, s) : there;
    bool some = mask.kind == V_TENSOR;
    Value one = some ? op_cast(e, mask, e->real, s) : op_const(e, rows, 1, s);
    if (some) v = op_select(e, mask, v, value_number(0, true, s), s);
    Value sum = op_reduce(e, IR_OP_reduce_sum, v, map_all(e, space), 0, s);
    Value count = op_reduce(e, IR_OP_reduce_sum, one, map_all(e, space), 0, s);
    count = op_binary(e, IR_OP_max, "compare", count, value_number(1, true, s), s);
    return op_binary(e, IR_OP_div, "divide", sum, count, s);
}

/* ---- hypers and names -------------------------------------------------------------------------------------------- */

static void set_hyper(Elab *e, const AstTrainItem *it)
{
    IrId id = tensor_find(e, it->name.text);
    if (id == IR_NONE) {
        Value v = elab_expr(e, it->value);
        if (v.kind != V_NUMBER) {
            if (v.kind != V_ERROR)
                diag_error(e->d, E0404, it->span, "a hyper is a number, found %s", value_text(e, &v));
            scope_set(e, it->name.text, value_error());
            return;
        }
        id = tensor_new(e, it->name.text, IR_HYPER, ir_scalar(e->real), it->span);
        e->m->tensors.data[id].hyper_default = v.num;
        set_find(e, it->name.text, &e->m->tensors.data[id].hyper_default);
    }
    if (e->m->tensors.data[id].kind != IR_HYPER) {
        diag_error(e->d, E0303, it->span, "`%s` is the name of a parameter or an input already", it->name.text);
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
    f->train = t->decl;
    if (t->name) scope_set(e, t->name, t->target);
    for (uint32_t i = 0; i < t->decl->as.train.n_items; i++) {
        const AstTrainItem *it = &t->decl->as.train.items[i];
        if (it->kind == AST_TRAIN_HYPER) set_hyper(e, it);
        if (it->kind == AST_TRAIN_LET && !schedule_set(e, it)) scope_set(e, it->name.text, elab_expr(e, it->value));
    }
}

/* ---- the two functions ------------------------------------------------------------------------------------------- */

static void train_step(Elab *e, const Train *t)
{
    func_begin(e, "train_step", true);
    train_frame(e, t);
    Value loss = mean_on(e, elab_expr(e, t->loss->value), t->loss->on, t->loss->span);
    if (loss.kind == V_TENSOR) {
        ir_result(e->m, e->f, "loss", loss.id, IR_NONE);
        train_update(e, &(TrainUpdate){t->optimizer, t->clip_norm, t->clip_value}, loss);
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
            diag_error(e->d, E0404, it->name.span, "a train block has at most %d metrics", IR_MAX_METRICS);
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
    if (v.kind == V_NUMBER && v.num >= 0 && v.num == floor(v.num) && v.num < 1e15) return *out = (int64_t)v.num, true;
    if (v.kind != V_ERROR) diag_error(e->d, E0404, x->span, "found %s, wanted a whole number", value_text(e, &v));
    return false;
}

static void error_no_metric(Elab *e, const AstDecl *train, Span s, const char *word)
{
    const IrTrain *t = &e->m->train;
    VEC(const char *) names = {0};
    for (uint32_t k = 0; k < t->metrics.n; k++) VEC_PUSH(e->a, &names, t->metrics.data[k].name);
    Diag *d = diag_error(e->d, E0404, s, "no metric `%s` in this block", word);
    const char *near = diag_suggest(e->d, d, s, word, names.data, names.n);
    for (uint32_t i = 0; near && i < train->as.train.n_items; i++) {
        const AstTrainItem *it = &train->as.train.items[i];
        if (it->kind == AST_TRAIN_METRIC && !strcmp(it->name.text, near))
            diag_note(e->d, d, it->name.span, "`%s` is defined here", near);
    }
}

static void stop_early(Elab *e, const AstDecl *train, const AstExpr *x)
{
    const AstExpr *callee = x->as.call.callee;
    if (callee->kind != AST_EXPR_NAME || strcmp(callee->as.name.text, "stop_early")) {
        diag_error(e->d, E0404, x->span, "a train block knows `stop_early(metric, patience = 100)`");
        return;
    }
    IrTrain *t = &e->m->train;
    t->patience = 10;
    for (uint32_t i = 0; i < x->as.call.n_args; i++) {
        const AstArg *a = &x->as.call.args[i];
        const char *word = a->value->kind == AST_EXPR_NAME ? a->value->as.name.text : "";
        if (a->name.text && !strcmp(a->name.text, "patience")) whole_setting(e, a->value, &t->patience);
        else if (a->name.text && !strcmp(a->name.text, "mode") && (!strcmp(word, "max") || !strcmp(word, "min")))
            t->stop_minimise = !strcmp(word, "min");
        else if (a->name.text) diag_error(e->d, E0404, a->span, "stop_early takes patience = N and mode = max or min");
        else {
            for (uint32_t k = 0; k < t->metrics.n; k++)
                if (!strcmp(t->metrics.data[k].name, word)) t->stop_metric = k;
            if (t->stop_metric == IR_NONE) {
                error_no_metric(e, train, a->span, word);
                return;
            }
        }
    }
    if (t->stop_metric == IR_NONE) diag_error(e->d, E0404, x->span, "stop_early needs a metric");
}

static void error_setting(Elab *e, const AstName *name)
{
    static const char *const words[] = {"epochs",     "steps",     "seed",   "clip_norm", "clip_value", "batch",
                                        "stop_early", "optimizer", "metric", "hyper",     "loss"};
    Diag *d = diag_error(e->d, E0404, name->span,
                         "unknown setting `%s`; there are epochs, steps, seed, batch, clip_norm and clip_value",
                         name->text);
    diag_suggest(e->d, d, name->span, name->text, words, sizeof words / sizeof *words);
}

/* `batch 64 of graphs` reads as two settings that follow one another. */
static bool batch_is(const AstTrainItem *it)
{
    return it->kind == AST_TRAIN_SETTING && !strcmp(it->name.text, "batch");
}

static bool batch_of(const AstTrainItem *it)
{
    return it->kind == AST_TRAIN_SETTING && !strcmp(it->name.text, "of") && it->value->kind == AST_EXPR_NAME &&
           !strcmp(it->value->as.name.text, "graphs");
}

/* What has a row per node, edge or graph cannot be trained by a few graphs at a time. */
static void check_batch_params(Elab *e, Span s)
{
    for (uint32_t i = 0; i < e->m->tensors.n; i++) {
        const IrTensor *t = &e->m->tensors.data[i];
        if (t->kind != IR_PARAM || t->type.space == IR_UNIT) continue;
        diag_error(e->d, E0404, s,
                   "the parameter `%s` has a row for each %s of the data: it cannot be trained by batches", t->name,
                   space_text(e, t->type.space));
        return;
    }
}

/* Ranks among all rows, in the loss: a batch has no places of its own for them. Metrics run on all data at once. */
static void check_batch_ranks(Elab *e)
{
    const IrFunc *f = ir_func_find(e->m, "train_step");
    for (IrId v = 0; f && v < f->ops.n; v++) {
        const IrOp *op = &f->ops.data[v];
        if (op->op != IR_OP_rank || e->m->maps.data[op->attr.map].to != IR_UNIT) continue;
        Diag *d = diag_error(e->d, E0404, op->span, "a rank among all rows is not for a loss of batches");
        diag_help(e->d, d, "`rank_readout` ranks the rows of each graph; a metric runs on all data at once");
        return;
    }
}

/* The nodes, with a schema those of all types that the program speaks of, are of graphs. */
static bool has_graphs(Elab *e)
{
    if (!e->schema) return !e->bipartite && map_graph(e, graph_ir(e, graph_data(e))->src_space) != IR_NONE;
    for (IrId s = 1, n = e->m->spaces.n; s < n; s++)
        if (schema_type(e, e->m->spaces.data[s].name)) map_graph(e, s);
    return true;
}

static void batch_setting(Elab *e, const AstDecl *decl, uint32_t i)
{
    const AstTrainItem *it = &decl->as.train.items[i];
    IrTrain *t = &e->m->train;
    if (i + 1 == decl->as.train.n_items || !batch_of(it + 1)) {
        Diag *d = diag_error(e->d, E0404, it->span, "`batch` does not say of what");
        diag_help(e->d, d, "`batch 64 of graphs`");
        return;
    }
    if (!whole_setting(e, it->value, &t->batch)) return;
    if (!t->batch) diag_error(e->d, E0404, it->value->span, "found the number 0, wanted a batch of 1 graph or more");
    if (!has_graphs(e)) diag_error(e->d, E0404, it->span, "batches of graphs want a graph with one set of nodes");
    check_batch_params(e, it->span);
    check_batch_ranks(e);
}

static void steps_setting(Elab *e, const AstTrainItem *it)
{
    IrTrain *t = &e->m->train;
    if (!whole_setting(e, it->value, &t->steps) || (t->steps && t->steps <= IR_MAX_STEPS)) return;
    diag_error(e->d, E0404, it->value->span, "found %lld, wanted from 1 to %d steps in an epoch", (long long)t->steps,
               IR_MAX_STEPS);
}

static void settings(Elab *e, const AstDecl *decl)
{
    IrTrain *t = &e->m->train;
    t->epochs = 100;
    for (uint32_t i = 0; i < decl->as.train.n_items; i++) {
        const AstTrainItem *it = &decl->as.train.items[i];
        if (it->kind == AST_TRAIN_CALL) stop_early(e, decl, it->value);
        if (it->kind != AST_TRAIN_SETTING) continue;
        const AstTrainItem *before = i ? it - 1 : NULL;
        if (!strcmp(it->name.text, "epochs")) whole_setting(e, it->value, &t->epochs);
        else if (!strcmp(it->name.text, "seed")) whole_setting(e, it->value, &t->seed);
        else if (!strcmp(it->name.text, "batch")) batch_setting(e, decl, i);
        else if (!strcmp(it->name.text, "steps")) steps_setting(e, it);
        else if (before && batch_is(before) && batch_of(it)) continue; /* `of graphs` */
        else if (strcmp(it->name.text, "clip_norm") && strcmp(it->name.text, "clip_value")) error_setting(e, &it->name);
    }
    if (t->steps && t->batch)
        diag_error(e->d, E0404, decl->span, "`batch` says how many steps an epoch has: leave `steps` out");
}

static bool only_one(Elab *e, const AstDecl *decl, AstTrainKind kind, const char *what, const AstTrainItem **out)
{
    for (uint32_t i = 0; i < decl->as.train.n_items; i++) {
        const AstTrainItem *it = &decl->as.train.items[i];
        if (it->kind != kind) continue;
        if (*out) return diag_error(e->d, E0404, it->span, "a second %s", what), false;
        *out = it;
    }
    if (!*out) {
        Diag *d = diag_error(e->d, E0404, decl->as.train.target->span, "the train block has no %s", what);
        diag_help(e->d, d,
                  kind == AST_TRAIN_LOSS ? "`loss = cross_entropy(net(data.x), data.y) on data.train`"
                                         : "`optimizer adam(0.01)`");
    }
    return *out != NULL;
}

static const AstExpr *setting_find(const AstDecl *decl, const char *name)
{
    const AstExpr *value = NULL;
    for (uint32_t i = 0; i < decl->as.train.n_items; i++) {
        const AstTrainItem *it = &decl->as.train.items[i];
        if (it->kind == AST_TRAIN_SETTING && !strcmp(it->name.text, name)) value = it->value;
    }
    return value;
}

void elab_train(Elab *e, const AstDecl *decl, const Value *target, const char *name)
{
    Train t = {.decl = decl, .target = *target, .name = name};
    if (!only_one(e, decl, AST_TRAIN_LOSS, "loss", &t.loss)) return;
    if (!only_one(e, decl, AST_TRAIN_OPTIMIZER, "optimizer", &t.optimizer)) return;
    t.clip_norm = setting_find(decl, "clip_norm");
    t.clip_value = setting_find(decl, "clip_value");
    train_step(e, &t);
    train_metrics(e, &t);
    Frame *f = frame_push(e, NULL, decl->span);
    f->graph = graph_data(e);
    settings(e, decl);
    frame_pop(e);
    e->m->train.present = true;
}
