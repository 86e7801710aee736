/* The training loop (see train.h). Everything an epoch does is a function of (weights, state, seed,
   epoch), so that a run resumed from a checkpoint is the unbroken run, bit for bit. */
#include "runtime/train.h"
#include "runtime/checkpoint.h"
#include "runtime/cone.h"
#include "runtime/cuda.h"
#include "runtime/file.h"
#include "runtime/folds.h"
#include "runtime/ranks.h"
#include "runtime/setup.h"
#include "runtime/weights.h"
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Trainer {
    const RtModel *m;
    RtData *d;
    const RtTrainOptions *o;
    RtTrainResult *r;
    RtExec *step, *metrics; /* metrics: NULL without any */
    int64_t loss, norm;     /* results of train_step; norm: -1 if gradients are not clipped by it */
    RtProgress at;
    int64_t *order, n_order; /* the graphs that are trained on; behind them as many, shuffled */
    int64_t now;             /* the running step */
    RtBlock best, before;    /* snapshots: best weights; weights before the running step */
    bool best_there;         /* the best weights are on the device, and not in `best` */
    RtBlock workspace;
    double values[RT_MAX_METRICS];
    FILE *log;
    double start;
    RtStatus *st;
} Trainer;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- setting up ---- */

static RtCode make_exec(const RtModel *m, const char *name, const RtGraph *g, void **tensors, const RtExecOptions *o,
                        RtExec **e, RtStatus *st)
{
    int64_t program = rt_program_find(m, name);
    if (program < 0)
        return rt_fail(st, RT_E_MODEL_FUNCTION, rt_string(m, m->name), "give the model a `train` block",
                       "the model has no function %s", name);
    RT_TRY(rt_exec_create(m, program, g, o, e, st));
    for (int64_t i = 0; i < m->n_tensors; i++) (*e)->tensors[i] = tensors[i];
    RT_TRY(rt_exec_own_results(*e, st));
    return rt_exec_bind(*e, st);
}

/* The graph that train_step runs on: with batches the batch at hand, which is the largest that there can be while
   memory is planned. */
static const RtGraph *step_graph(const Trainer *t) { return t->o->batches ? t->o->batches->graph : t->d->graph; }

/* One arena for both programs: they never run at the same time. A device has one of its own. */
static RtCode take_workspace(Trainer *t, RtExecOptions *o)
{
    int64_t most = 0, bytes;
    if (o->device) return RT_OK;
    static const char *const names[] = {"train_step", "metrics"};
    for (int i = 0; i < 2; i++) {
        int64_t p = rt_program_find(t->m, names[i]);
        if (p < 0) continue;
        RT_TRY(rt_arena_bytes(t->m, p, i ? t->d->graph : step_graph(t), &bytes, t->st));
        if (bytes > most) most = bytes;
    }
    RT_TRY(rt_block_alloc(&t->workspace, rt_size_plus(most, 1, 64), "the planned memory of a training step", t->st));
    o->workspace = t->workspace.p;
    o->workspace_bytes = (size_t)most;
    return RT_OK;
}

/* A number among the results, -1: none of that name. */
static int64_t find_number(const RtModel *m, const RtProgram *p, const char *name)
{
    for (int64_t i = 0; i < p->n_results; i++) {
        const RtResultDef *r = &m->results[p->first_result + i];
        if (r->tensor < 0 && !strcmp(rt_string(m, r->name), name)) return i;
    }
    return -1;
}

/* A resumed run goes on with the lines before its first epoch and drops what a killed run wrote
   behind them. Returns the bytes to keep. */
static size_t log_kept(const char *text, size_t n, int64_t epoch)
{
    size_t at = 0;
    while (at < n) {
        char head[48];
        long long line = 0;
        const char *end = memchr(text + at, '\n', n - at);
        size_t next = end ? (size_t)(end + 1 - text) : n;
        snprintf(head, sizeof head, "%.*s", (int)(next - at < 40 ? next - at : 40), text + at);
        if (!end || sscanf(head, "{\"epoch\":%lld", &line) != 1 || line > epoch) break;
        if (memmem(text + at, next - at, "\"final\"", 7)) break;
        at = next;
    }
    return at;
}

static RtCode open_log(Trainer *t)
{
    RtBlock old = {0};
    if (!t->o->metrics) return RT_OK;
    if (t->o->resume) rt_file_read(t->o->metrics, &old, NULL); /* may be absent */
    t->log = fopen(t->o->metrics, t->o->append ? "a" : "w");
    if (t->log && old.p) fwrite(old.p, 1, log_kept(old.p, old.bytes, t->at.epoch), t->log);
    rt_block_free(&old);
    return t->log ? RT_OK : rt_fail_errno(t->st, RT_E_FILE_WRITE, t->o->metrics);
}

static RtCode resume(Trainer *t)
{
    if (!t->o->resume) return RT_OK;
    RT_TRY(rt_checkpoint_load(t->o->resume, &t->d->tensors, &t->at, &t->best, t->st));
    if (t->o->seed_given && t->at.seed != t->o->seed)
        return rt_fail(t->st, RT_E_CHECKPOINT_FIT, t->o->resume, "leave --seed out when resuming",
                       "found seed %lld, wanted %lld", (long long)t->at.seed, (long long)t->o->seed);
    return RT_OK;
}

/* Tells the programs a number of the run; those that do not ask for it have no such hyper. */
static void set_run(Trainer *t, const char *what, double value)
{
    char name[160];
    snprintf(name, sizeof name, "run.%s", what);
    int64_t tensor = rt_tensor_find(t->m, RT_HYPER, name);
    if (tensor >= 0) rt_tensors_set_hyper(&t->d->tensors, tensor, value);
}

/* The graphs that are trained on: those with a row in train_mask, where the step reads it. */
static RtCode set_up_batches(Trainer *t)
{
    int64_t mask = -1;
    RtBatches *b = t->o->batches;
    if (!b) return RT_OK;
    rt_batches_widest(b);
    for (int64_t i = 0; i < t->m->n_tensors; i++)
        if (rt_mask_role(t->m, i) == 0 && rt_programs_take(t->m, "train_step", i)) mask = i;
    RT_TRY(rt_alloc(&t->order, b->n_graphs, 2 * sizeof *t->order, "an order of graphs", t->st));
    t->n_order = rt_batches_where(b, mask, t->order);
    if (t->n_order) return RT_OK;
    return rt_fail(t->st, RT_E_BATCH, "train_mask", "mark graphs to train on", "no graph has a row in the mask");
}

static RtCode make_step(Trainer *t, RtExecOptions o)
{
    if (!t->o->batches) return make_exec(t->m, "train_step", t->d->graph, t->d->tensors.data, &o, &t->step, t->st);
    if (o.cone == RT_CONE_AUTO) o.cone = RT_CONE_OFF; /* they would be listed anew for each batch */
    return make_exec(t->m, "train_step", t->o->batches->graph, t->o->batches->tensors, &o, &t->step, t->st);
}

static RtCode set_up(Trainer *t)
{
    RtExecOptions exec = t->o->exec;
    if (t->o->save && !t->o->gives) RT_TRY(rt_file_writable(t->o->save, t->st));
    if (t->o->checkpoint && !t->o->gives) RT_TRY(rt_file_writable(t->o->checkpoint, t->st));
    if (t->m->train->n_metrics > RT_MAX_METRICS)
        return rt_fail(t->st, RT_E_INTERNAL, NULL, NULL, "more than %d metrics", RT_MAX_METRICS);
    if (t->o->batches && t->d->graph->lists)
        return rt_fail(t->st, RT_E_BATCH, rt_string(t->m, t->m->name), "give negatives and permutations a seed",
                       "a graph that is drawn for each step is not cut into batches");
    RT_TRY(set_up_batches(t));
    RT_TRY(take_workspace(t, &exec));
    rt_tensors_init(&t->d->tensors, t->o->seed);
    RT_TRY(make_step(t, exec));
    if (t->m->train->n_metrics)
        RT_TRY(make_exec(t->m, "metrics", t->d->graph, t->d->tensors.data, &exec, &t->metrics, t->st));
    t->loss = find_number(t->m, t->step->program, "loss");
    t->norm = find_number(t->m, t->step->program, "gradient_norm");
    if (t->loss < 0) return rt_fail(t->st, RT_E_INTERNAL, "train_step", NULL, "has no loss among its results");
    t->at.seed = t->o->seed;
    RT_TRY(resume(t));
    for (int64_t i = 0; i < t->o->n_hypers; i++)
        rt_tensors_set_hyper(&t->d->tensors, t->o->hypers[i].tensor, t->o->hypers[i].value);
    set_run(t, "epochs", (double)t->o->epochs);
    RT_TRY(rt_cuda_push(exec.device, t->d->tensors.data, t->st));
    return open_log(t);
}

static void tear_down(Trainer *t)
{
    rt_exec_free(t->step);
    rt_exec_free(t->metrics);
    free(t->order);
    rt_block_free(&t->best);
    rt_block_free(&t->before);
    rt_block_free(&t->workspace);
    if (t->log) fclose(t->log);
}

/* ---- metrics ---- */

static double result_value(const RtExec *e, int64_t result)
{
    return rt_element(e->results[result], e->model->results[e->program->first_result + result].dtype, 0);
}

/* Of the program's run before. */
static RtCode read_metrics(const RtModel *m, RtExec *e, double *values, RtStatus *st)
{
    RT_TRY(rt_exec_results(e, st));
    for (int64_t i = 0; i < m->train->n_metrics; i++) values[i] = result_value(e, m->metrics[i].result);
    return RT_OK;
}

static size_t put_number(char *out, size_t size, const char *key, double v)
{
    int n = isfinite(v) ? snprintf(out, size, ",\"%s\":%.9g", key, v) : snprintf(out, size, ",\"%s\":null", key);
    return n < 0 || (size_t)n >= size ? 0 : (size_t)n;
}

void rt_metrics_json(const RtModel *m, const double *values, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (int64_t i = 0; i < m->train->n_metrics; i++)
        at += put_number(out + at, size - at, rt_string(m, m->metrics[i].name), values[i]);
}

RtCode rt_evaluate(const RtModel *m, RtData *d, const RtExecOptions *o, double *values, RtStatus *st)
{
    RtExec *e = NULL;
    if (!m->train->n_metrics)
        return rt_fail(st, RT_E_MODEL_FUNCTION, rt_string(m, m->name), "add `metric` lines to its `train` block",
                       "the model has no metrics");
    if (m->train->n_metrics > RT_MAX_METRICS)
        return rt_fail(st, RT_E_INTERNAL, NULL, NULL, "more than %d metrics", RT_MAX_METRICS);
    RtCode code = make_exec(m, "metrics", d->graph, d->tensors.data, o, &e, st);
    if (!code) code = rt_cuda_push(o->device, d->tensors.data, st);
    if (!code) {
        rt_exec_run(e, 0, 0);
        code = read_metrics(m, e, values, st);
    }
    rt_exec_free(e);
    return code;
}

static RtCode log_line(Trainer *t, bool final, double loss)
{
    char pairs[2048], head[128] = "";
    if (!t->log) return RT_OK;
    rt_metrics_json(t->m, t->values, pairs, sizeof pairs);
    put_number(head, sizeof head, "loss", loss);
    fprintf(t->log, "{\"epoch\":%lld%s%s%s%s}\n", (long long)(final ? t->at.epoch : t->at.epoch + 1),
            t->o->label ? t->o->label : "", head, pairs, final ? ",\"final\": true" : "");
    return fflush(t->log) ? rt_fail_errno(t->st, RT_E_FILE_WRITE, t->o->metrics) : RT_OK;
}

/* ---- one epoch ---- */

/* Copies the weights before a step, where they are. */
static RtCode remember(Trainer *t)
{
    RtCuda *device = t->o->exec.device;
    return device ? rt_cuda_keep(device, RT_CUDA_BEFORE, t->st)
                  : rt_tensors_snapshot(&t->d->tensors, &t->before, t->st);
}

/* The program of the step on this CPU, which has a device's bits, with the weights before the step; NULL: it cannot be
   had. */
static RtExec *step_here(Trainer *t)
{
    RtExec *e = NULL;
    RtExecOptions o = t->o->exec;
    o.device = NULL;
    if (rt_cuda_pull_kept(t->o->exec.device, RT_CUDA_BEFORE, t->d->tensors.data, NULL) ||
        rt_tensors_snapshot(&t->d->tensors, &t->before, NULL) ||
        make_exec(t->m, "train_step", t->d->graph, t->d->tensors.data, &o, &e, NULL)) {
        rt_exec_free(e);
        return NULL;
    }
    return e;
}

/* What makes the first NaN: among what was computed before the run, or in the failed step, which runs again from the
   weights before it. NULL if it does not happen again. */
static const RtStep *find_nan(Trainer *t)
{
    RtExec *own = t->o->exec.device ? step_here(t) : NULL, *e = own ? own : t->step;
    if (t->o->exec.device && !own) return NULL;
    assert(t->before.p);
    const RtStep *s = rt_setup_until_nan(t->m, t->d->graph, &t->d->tensors, &t->o->exec, "train_step");
    if (!s) {
        rt_tensors_restore(&t->d->tensors, &t->before);
        int64_t i = rt_exec_run_until_nan(e, t->at.seed, t->now);
        rt_tensors_restore(&t->d->tensors, &t->before);
        if (i >= 0) s = &t->m->steps[e->program->first_step + i];
    }
    rt_exec_free(own);
    return s;
}

static RtCode blame_nan(Trainer *t, RtCode code, const char *what)
{
    const RtModel *m = t->m;
    const RtStep *s = t->o->exec.ranks ? NULL : find_nan(t); /* a rerun of one process has no peers */
    char name[256];
    snprintf(name, sizeof name, "%s.gnn", rt_string(m, m->name));
    if (!s)
        return rt_fail(t->st, code, name, "try a smaller learning rate: --set lr=...",
                       "the %s of epoch %lld is not a finite number", what, (long long)(t->at.epoch + 1));
    if (s->line > 0) snprintf(name, sizeof name, "%s:%lld", rt_string(m, s->file), (long long)s->line);
    return rt_fail(t->st, code, name, "try a smaller learning rate (--set lr=...), or look at that line",
                   "the %s of epoch %lld is not a %snumber; the first NaN is made by `%s`", what,
                   (long long)(t->at.epoch + 1), code == RT_E_NAN ? "" : "finite ", rt_string(m, s->label));
}

/* Notes whether this epoch is the best so far; keeps its weights. */
static RtCode judge(Trainer *t, bool *best)
{
    const RtTrain *train = t->m->train;
    *best = false;
    if (train->stop_metric < 0) return RT_OK;
    /* `since` counts from the best epoch: a checkpoint that says otherwise was refused */
    assert(t->at.has_best ? t->at.since == t->at.epoch - 1 - t->at.best_epoch : !t->at.since);
    double v = t->values[train->stop_metric];
    bool better = train->stop_minimise ? v < t->at.best : v > t->at.best;
    t->at.since++;
    if (t->at.has_best && !better) return RT_OK;
    *best = t->at.has_best = true;
    t->at.best = v;
    t->at.best_epoch = t->at.epoch;
    t->at.since = 0;
    t->best_there = t->o->exec.device != NULL;
    if (t->best_there) return rt_cuda_keep(t->o->exec.device, RT_CUDA_BEST, t->st);
    return rt_tensors_snapshot(&t->d->tensors, &t->best, t->st);
}

static RtCode begin_step(Trainer *t, int64_t step)
{
    t->now = step;
    RT_TRY(remember(t));
    rt_exec_run(t->step, t->at.seed, step);
    return RT_OK;
}

static RtCode end_step(Trainer *t, double *loss)
{
    RT_TRY(rt_exec_results(t->step, t->st));
    *loss = result_value(t->step, t->loss);
    if (isnan(*loss)) return blame_nan(t, RT_E_NAN, "loss");
    if (t->norm >= 0 && !isfinite(result_value(t->step, t->norm)))
        return blame_nan(t, RT_E_GRADIENT, "norm of the gradient");
    return RT_OK;
}

/* A step per batch, the graphs in an order of this epoch alone, the last batch with what is left. *loss: their mean by
   graphs. */
static RtCode run_batches(Trainer *t, double *loss)
{
    RtBatches *b = t->o->batches;
    int64_t n_steps = (t->n_order + b->size - 1) / b->size, *list = t->order + t->n_order;
    double one;
    assert(t->n_order > 0);
    *loss = 0;
    memcpy(list, t->order, (size_t)t->n_order * sizeof *list);
    rt_shuffle(list, t->n_order, t->at.seed, t->at.epoch);
    for (int64_t i = 0; i < n_steps; i++) {
        int64_t at = i * b->size, n = t->n_order - at < b->size ? t->n_order - at : b->size;
        rt_batches_fill(b, list + at, n);
        RT_TRY(rt_exec_move(t->step, t->st));
        RT_TRY(rt_exec_bind(t->step, t->st));
        RT_TRY(begin_step(t, t->at.epoch * n_steps + i));
        RT_TRY(end_step(t, &one));
        *loss += one * (double)n / (double)t->n_order;
    }
    return RT_OK;
}

/* Draws the graphs that are drawn for each step, if there are some, and has both programs cut their steps anew. */
static RtCode redraw(Trainer *t, int64_t step)
{
    RtExec *const both[] = {t->step, t->metrics};
    RT_TRY(rt_graph_redraw(t->d->graph, t->at.seed, step, t->st));
    for (int i = 0; i < 2 && t->d->graph->lists; i++) {
        if (!both[i]) continue;
        RT_TRY(rt_exec_move(both[i], t->st));
        RT_TRY(rt_exec_bind(both[i], t->st));
    }
    return t->d->graph->lists ? rt_cuda_push_graph(t->o->exec.device, t->d->graph, t->st) : RT_OK;
}

/* Begins the epoch's last step behind the others; *sum: of their losses. */
static RtCode run_steps(Trainer *t, int64_t n_steps, double *sum)
{
    double one;
    *sum = 0;
    for (int64_t i = 0; i < n_steps; i++) {
        if (i) {
            RT_TRY(end_step(t, &one));
            *sum += one;
        }
        RT_TRY(redraw(t, t->at.epoch * n_steps + i));
        RT_TRY(begin_step(t, t->at.epoch * n_steps + i));
    }
    return RT_OK;
}

static RtCode run_epoch(Trainer *t)
{
    bool best;
    double loss, sum = 0;
    int64_t n_steps = t->m->train->steps ? t->m->train->steps : 1;
    assert(t->at.epoch < t->o->epochs);
    set_run(t, "epoch", (double)t->at.epoch);
    if (t->o->batches) RT_TRY(run_batches(t, &loss));
    else RT_TRY(run_steps(t, n_steps, &sum));
    /* a device is waited for once an epoch: a loss that is not a number is found behind the metrics, which change
       nothing */
    if (t->metrics) rt_exec_run(t->metrics, t->at.seed, t->at.epoch);
    if (!t->o->batches) {
        RT_TRY(end_step(t, &loss));
        loss = (sum + loss) / (double)n_steps;
    }
    t->r->loss = loss;
    if (t->metrics) RT_TRY(read_metrics(t->m, t->metrics, t->values, t->st));
    for (int64_t i = 0; i < t->m->train->n_metrics; i++)
        set_run(t, rt_string(t->m, t->m->metrics[i].name), t->values[i]);
    RT_TRY(judge(t, &best));
    RT_TRY(log_line(t, false, loss));
    RtEpoch e = {t->at.epoch, t->o->epochs, loss, t->values, now() - t->start, best};
    if (t->o->on_epoch) t->o->on_epoch(t->o->user, &e);
    t->at.epoch++;
    t->r->n_epochs++;
    return RT_OK;
}

/* The best weights, where they lie on the device. Those of d->tensors are overwritten. */
static RtCode fetch_best(Trainer *t)
{
    if (!t->best_there) return RT_OK;
    RT_TRY(rt_cuda_pull_kept(t->o->exec.device, RT_CUDA_BEST, t->d->tensors.data, t->st));
    t->best_there = false;
    return rt_tensors_snapshot(&t->d->tensors, &t->best, t->st);
}

static RtCode write_checkpoint(Trainer *t)
{
    RT_TRY(fetch_best(t));
    RT_TRY(rt_cuda_pull(t->o->exec.device, t->d->tensors.data, t->st));
    return rt_checkpoint_save(t->o->gives ? NULL : t->o->checkpoint, &t->d->tensors, &t->at, &t->best, t->st);
}

/* The weights that are kept, the best where a metric says which, take the place of the last; --save gets them. */
static RtCode save_weights(Trainer *t)
{
    RT_TRY(fetch_best(t));
    assert(!t->at.has_best || t->best.p);
    RT_TRY(rt_cuda_pull(t->o->exec.device, t->d->tensors.data, t->st));
    if (t->at.has_best) {
        rt_tensors_restore(&t->d->tensors, &t->best);
        RT_TRY(rt_cuda_push(t->o->exec.device, t->d->tensors.data, t->st));
    }
    return t->o->save ? rt_weights_save(&t->d->tensors, t->o->gives ? NULL : t->o->save, t->st) : RT_OK;
}

/* ---- interruption: signals are held back and asked for between epochs ---- */

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

static bool was_signalled_here(void)
{
    sigset_t set;
    struct timespec none = {0};
    stop_signals(&set);
    return sigtimedwait(&set, NULL, &none) > 0;
}

/* Whether this process was, or one of its peers: all stop behind the same epoch. */
static RtCode was_signalled(const Trainer *t, bool *was)
{
    RtRanks *r = t->o->exec.ranks;
    int64_t mine = was_signalled_here(), all[RT_PEERS_MOST], bytes[RT_PEERS_MOST];
    *was = mine;
    if (!r) return RT_OK;
    for (int q = 0; q < r->n; q++) bytes[q] = 8;
    RT_TRY(rt_peers_gather(r->peers, RT_SITE_SIGNAL, &mine, bytes, all, t->st));
    RT_TRY(rt_peers_predict(r->peers, RT_SITE_SIGNAL, 8 * (r->n - 1), 1, t->st));
    for (int q = 0; q < r->n; q++) *was |= all[q] != 0;
    return RT_OK;
}

/* Keeps what there is: the checkpoint, and the weights that the end would have saved. Weights that no epoch has trained
   replace nothing. */
static RtCode interrupt(Trainer *t)
{
    char hint[256] = "train with --checkpoint FILE to be able to go on later";
    const char *save = t->at.epoch > 0 ? t->o->save : NULL, *checkpoint = t->o->checkpoint;
    if (checkpoint) {
        RT_TRY(write_checkpoint(t));
        snprintf(hint, sizeof hint, "go on with --resume %.200s", checkpoint);
    }
    if (save) RT_TRY(save_weights(t));
    return rt_fail(t->st, RT_E_INTERRUPTED, NULL, hint, "interrupted after epoch %lld; %s%.200s%s",
                   (long long)t->at.epoch, save ? "the weights so far are in " : "",
                   save         ? save
                   : checkpoint ? "the checkpoint is written"
                                : "nothing was saved",
                   save && checkpoint ? ", the checkpoint is written" : "");
}

/* ---- whole ---- */

static bool is_over(const Trainer *t)
{
    const RtTrain *train = t->m->train;
    bool patience = train->stop_metric >= 0 && train->patience > 0 && t->at.since >= train->patience;
    return patience || t->at.epoch >= t->o->epochs;
}

static RtCode loop(Trainer *t)
{
    t->r->first_epoch = t->at.epoch;
    while (!is_over(t)) {
        bool stop;
        RT_TRY(was_signalled(t, &stop));
        if (stop) return interrupt(t);
        RT_TRY(run_epoch(t));
        if (t->o->checkpoint && t->o->every > 0 && t->at.epoch % t->o->every == 0) RT_TRY(write_checkpoint(t));
    }
    return RT_OK;
}

static RtCode finish(Trainer *t)
{
    RtTrainResult *r = t->r;
    r->stopped_early = t->at.epoch < t->o->epochs;
    r->best_epoch = t->at.has_best ? t->at.best_epoch : -1;
    if (t->o->checkpoint) RT_TRY(write_checkpoint(t));
    RT_TRY(save_weights(t));
    if (t->metrics) {
        rt_exec_run(t->metrics, t->at.seed, t->at.epoch);
        RT_TRY(read_metrics(t->m, t->metrics, t->values, t->st));
    }
    memcpy(r->metrics, t->values, sizeof r->metrics);
    r->seconds = now() - t->start;
    return log_line(t, true, r->loss);
}

static RtCode run(Trainer *t)
{
    RT_TRY(set_up(t));
    t->start = now();
    RT_TRY(loop(t));
    if (t->step->across) RT_TRY(t->o->exec.ranks->across->settle(t->step->across, t->st));
    return finish(t);
}

RtCode rt_train(const RtModel *m, RtData *d, const RtTrainOptions *o, RtTrainResult *r, RtStatus *st)
{
    sigset_t set, old;
    *r = (RtTrainResult){.loss = NAN, .best_epoch = -1};
    Trainer t = {.m = m, .d = d, .o = o, .r = r, .st = st};
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    RtCode code = run(&t);
    tear_down(&t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}
