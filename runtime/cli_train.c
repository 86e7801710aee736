/* `train`: flags to RtTrainOptions, live progress on a terminal, plain lines elsewhere, a plot and the next command at
   the end; several seeds and folds one after another, with the mean and deviation of their metrics. */
#include "runtime/cli.h"
#include "runtime/plot.h"
#include "runtime/setup.h"
#include "runtime/train.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Progress {
    const RtCli *cli;
    bool several;          /* runs: a line for each, none per epoch */
    double *loss, *metric; /* [epochs] for the plots; NaN where nothing ran */
    double last_draw;      /* seconds, when progress was last seen outside */
    int plotted;           /* metric that is plotted, -1: none */
} Progress;

/* NAME=VALUE of a hyper. */
static RtCode parse_set(const RtCli *c, const char *text, RtHyperValue *out)
{
    const RtModel *m = c->model;
    char name[128], hint[200], *end;
    const char *names[64], *equals = strchr(text, '=');
    int n = 0;
    if (!equals) return rt_fail(c->st, RT_E_CLI_VALUE, "--set", NULL, "found `%.60s`, wanted NAME=VALUE", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    out->tensor = rt_tensor_find(m, RT_HYPER, name);
    if (out->tensor < 0 || rt_hyper_is_run(m, out->tensor)) {
        for (int64_t i = 0; i < m->n_tensors && n < 64; i++)
            if (m->tensors[i].kind == RT_HYPER && !rt_hyper_is_run(m, i)) names[n++] = rt_string(m, m->tensors[i].name);
        const char *near = rt_cli_nearest(name, names, n);
        snprintf(hint, sizeof hint,
                 near ? "did you mean `%s`?" : "`train --help` lists the hypers; sizes are set when building",
                 near ? near : "");
        return rt_fail(c->st, RT_E_CLI_VALUE, "--set", hint, "the model has no hyper `%s`", name);
    }
    out->value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end || !isfinite(out->value))
        return rt_fail(c->st, RT_E_CLI_VALUE, "--set", NULL, "found `%.60s`, wanted a number behind `=`", text);
    return RT_OK;
}

static void print_epoch(FILE *out, const RtModel *m, const RtEpoch *e)
{
    fprintf(out, "epoch %lld/%lld  loss %.4f", (long long)(e->epoch + 1), (long long)e->epochs, e->loss);
    for (int64_t i = 0; i < m->train->n_metrics; i++)
        fprintf(out, "  %s %.4f", rt_string(m, m->metrics[i].name), e->metrics[i]);
}

static void print_bar(const RtEpoch *e)
{
    enum { BAR = 24 };
    int64_t full = (e->epoch + 1) * BAR / (e->epochs > 0 ? e->epochs : 1);
    for (int i = 0; i < BAR; i++) fputs(i < full ? "\u2588" : "\u2591", stdout);
}

static void on_epoch(void *user, const RtEpoch *e)
{
    Progress *p = user;
    p->loss[e->epoch] = e->loss;
    if (p->plotted >= 0) p->metric[e->epoch] = e->metrics[p->plotted];
    if (!p->cli->terminal && p->several) return;
    if (!p->cli->terminal) {
        print_epoch(stdout, p->cli->model, e);
        putchar('\n');
    }
    if (e->seconds - p->last_draw < 0.05 && e->epoch + 1 < e->epochs) return;
    p->last_draw = e->seconds;
    if (!p->cli->terminal) {
        fflush(stdout); /* who reads a pipe or a file sees how far it is */
        return;
    }
    fputs("\r", stdout);
    print_bar(e);
    putchar(' ');
    print_epoch(stdout, p->cli->model, e);
    fputs("\033[K", stdout);
    fflush(stdout);
}

/* The metric worth a plot: the one that stops training, else the first. */
static int plotted_metric(const RtModel *m)
{
    if (m->train->n_metrics == 0) return -1;
    return m->train->stop_metric >= 0 ? (int)m->train->stop_metric : 0;
}

static void print_plots(const Progress *p, const RtTrainResult *r)
{
    int64_t n = r->first_epoch + r->n_epochs;
    if (!p->cli->terminal || r->n_epochs < 2) return;
    rt_plot(stdout, "loss", p->loss, n);
    if (p->plotted >= 0)
        rt_plot(stdout, rt_string(p->cli->model, p->cli->model->metrics[p->plotted].name), p->metric, n);
}

static void print_end(const Progress *p, const RtTrainResult *r)
{
    const RtCli *c = p->cli;
    const RtModel *m = c->model;
    if (c->terminal) putchar('\n');
    if (!p->several) print_plots(p, r);
    printf("%s%lld epochs in %.2f s (%.2f ms each)%s", c->terminal ? "\n" : "", (long long)r->n_epochs, r->seconds,
           r->n_epochs ? r->seconds * 1e3 / (double)r->n_epochs : 0.0, r->stopped_early ? ", stopped early" : "");
    if (r->best_epoch >= 0) printf(", best at epoch %lld", (long long)(r->best_epoch + 1));
    printf("\nfinal");
    for (int64_t i = 0; i < m->train->n_metrics; i++)
        printf("  %s %.4f", rt_string(m, m->metrics[i].name), r->metrics[i]);
    putchar('\n');
    if (!c->terminal || p->several) return;
    if (c->values[OPT_SAVE])
        printf("\nnext: %s infer --data %s --weights %s --out y.npy\n", c->program, c->values[OPT_DATA],
               c->values[OPT_SAVE]);
    else printf("\nnext: keep the weights with --save weights.safetensors, then use `%s infer`\n", c->program);
    if (c->peers && rt_peers_count(c->peers) > 1) return;
    printf("      %s plan --data %s shows what ran, %s bench --data %s times it\n", c->program, c->values[OPT_DATA],
           c->program, c->values[OPT_DATA]);
}

static RtCode read_flags(const RtCli *c, RtTrainOptions *o, RtHyperValue *hypers)
{
    const RtTrain *train = c->model->train;
    *o = (RtTrainOptions){.epochs = train->epochs, .seed = train->seed, .every = 10, .hypers = hypers};
    RT_TRY(rt_cli_int(c, OPT_EPOCHS, 0, 10000000, &o->epochs));
    RT_TRY(rt_cli_int(c, OPT_SEED, 0, INT64_MAX, &o->seed));
    RT_TRY(rt_cli_int(c, OPT_EVERY, 1, 10000000, &o->every));
    for (; o->n_hypers < c->n_sets; o->n_hypers++) RT_TRY(parse_set(c, c->sets[o->n_hypers], &hypers[o->n_hypers]));
    if (c->values[OPT_EVERY] && !c->values[OPT_CHECKPOINT])
        return rt_fail(c->st, RT_E_CLI_MISSING, "--every", "add --checkpoint FILE", "--checkpoint is missing");
    o->seed_given = c->values[OPT_SEED] != NULL;
    bool writes = rt_cli_writes(c);
    o->metrics = writes ? c->values[OPT_METRICS] : NULL;
    o->save = c->values[OPT_SAVE];
    o->checkpoint = c->values[OPT_CHECKPOINT];
    o->gives = !writes;
    o->resume = c->values[OPT_RESUME];
    return RT_OK;
}

/* ---- several runs: seeds times folds ---- */

typedef struct Runs {
    int64_t n_seeds, first_fold, n_folds; /* n_folds 0: without folds */
    int64_t n;                            /* runs */
    double *metrics;                      /* [n][n_metrics] */
} Runs;

static RtCode read_runs(const RtCli *c, Runs *r)
{
    static const int of_one[] = {OPT_SAVE, OPT_CHECKPOINT, OPT_RESUME};
    static const char *const names[] = {"--save", "--checkpoint", "--resume"};
    *r = (Runs){.n_seeds = 1};
    RT_TRY(rt_cli_int(c, OPT_SEEDS, 1, 1000000, &r->n_seeds));
    RT_TRY(rt_cli_folds(c, &r->n_folds, &r->first_fold));
    if (c->values[OPT_FOLD]) r->n_folds = 1;
    r->n = r->n_seeds * (r->n_folds ? r->n_folds : 1);
    for (int i = 0; i < 3 && r->n > 1; i++)
        if (c->values[of_one[i]])
            return rt_fail(c->st, RT_E_CLI_VALUE, names[i], "give one seed, and one fold with --fold I",
                           "the flag goes with one run, not with %lld", (long long)r->n);
    return RT_OK;
}

static RtCode one_run(const RtCli *c, RtTrainOptions *o, RtSession *s, Progress *p, RtTrainResult *r)
{
    for (int64_t i = 0; i < o->epochs; i++) p->loss[i] = p->metric[i] = NAN;
    p->last_draw = -1;
    RtCode code = rt_train(c->model, &s->data, o, r, c->st);
    if (!code) code = rt_cli_ranks_same(c, &s->data);
    if (!code) print_end(p, r);
    else if (c->terminal) putchar('\n');
    return code;
}

/* Mean and deviation (of a sample) of a metric over the runs. */
static void spread(const Runs *r, int64_t n_metrics, int64_t metric, double *mean, double *deviation)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < r->n; i++) sum += r->metrics[i * n_metrics + metric];
    *mean = sum / (double)r->n;
    for (int64_t i = 0; i < r->n; i++) {
        double d = r->metrics[i * n_metrics + metric] - *mean;
        square += d * d;
    }
    *deviation = r->n > 1 ? sqrt(square / (double)(r->n - 1)) : 0;
}

static RtCode report_runs(const RtCli *c, const Runs *r)
{
    const RtModel *m = c->model;
    double mean[RT_MAX_METRICS], deviation[RT_MAX_METRICS];
    char text[2][2048];
    printf("%lld runs", (long long)r->n);
    for (int64_t i = 0; i < m->train->n_metrics; i++) {
        spread(r, m->train->n_metrics, i, &mean[i], &deviation[i]);
        printf("  %s %.4f \u00b1 %.4f", rt_string(m, m->metrics[i].name), mean[i], deviation[i]);
    }
    putchar('\n');
    if (!c->values[OPT_METRICS] || !rt_cli_writes(c)) return RT_OK;
    FILE *log = fopen(c->values[OPT_METRICS], "a");
    if (!log) return rt_fail_errno(c->st, RT_E_FILE_WRITE, c->values[OPT_METRICS]);
    rt_metrics_json(m, mean, text[0], sizeof text[0]);
    rt_metrics_json(m, deviation, text[1], sizeof text[1]);
    fprintf(log, "{\"runs\":%lld,\"mean\":{%s},\"deviation\":{%s}}\n", (long long)r->n, text[0][0] ? text[0] + 1 : "",
            text[1][0] ? text[1] + 1 : "");
    return fclose(log) ? rt_fail_errno(c->st, RT_E_FILE_WRITE, c->values[OPT_METRICS]) : RT_OK;
}

/* The run with the first seed + i / folds and fold i mod folds. What was computed before the run may be of the
   masks. */
static RtCode start_run(const RtCli *c, const Runs *r, int64_t i, int64_t seed, RtSession *s, RtTrainOptions *o,
                        char *label, size_t size)
{
    int64_t fold = r->first_fold + (r->n_folds ? i % r->n_folds : 0);
    o->seed = (int64_t)((uint64_t)seed + (uint64_t)(i / (r->n_folds ? r->n_folds : 1)));
    o->append = i > 0;
    o->label = r->n > 1 ? label : NULL;
    label[0] = 0;
    if (r->n_folds) snprintf(label, size, ",\"fold\":%lld", (long long)fold);
    snprintf(label + strlen(label), size - strlen(label), ",\"seed\":%lld", (long long)o->seed);
    if (r->n > 1 && r->n_folds) printf("fold %lld, ", (long long)fold);
    if (r->n > 1) printf("seed %lld: ", (long long)o->seed);
    if (!r->n_folds || i == 0) return RT_OK;
    rt_data_fold(c->model, &s->data, fold);
    return rt_setup_run(c->model, s->data.graph, &s->data.tensors, &s->exec, RT_TRAIN_PROGRAMS, c->st);
}

static RtCode all_runs(const RtCli *c, Runs *r, RtTrainOptions *o, RtSession *s, Progress *p)
{
    int64_t seed = o->seed, n_metrics = c->model->train->n_metrics;
    char label[96];
    o->exec = s->exec;
    o->batches = s->batches.graph ? &s->batches : NULL;
    o->on_epoch = on_epoch;
    o->user = p;
    for (int64_t i = 0; i < r->n; i++) {
        RtTrainResult result;
        RT_TRY(start_run(c, r, i, seed, s, o, label, sizeof label));
        RT_TRY(one_run(c, o, s, p, &result));
        fflush(stdout);
        for (int64_t k = 0; k < n_metrics; k++) r->metrics[i * n_metrics + k] = result.metrics[k];
    }
    return r->n > 1 ? report_runs(c, r) : RT_OK;
}

RtCode rt_cli_train(RtCli *c)
{
    RtTrainOptions o;
    RtHyperValue hypers[MAX_SETS];
    RtSession s;
    Runs runs;
    if (!c->model->train->present)
        return rt_fail(c->st, RT_E_MODEL_FUNCTION, rt_string(c->model, c->model->name),
                       "give the model's file a `train` block and build it again", "the model has no `train` block");
    RT_TRY(read_flags(c, &o, hypers));
    RT_TRY(read_runs(c, &runs));
    RT_TRY(rt_session_open(c, &(RtDataOptions){.programs = RT_TRAIN_PROGRAMS}, &s));
    Progress p = {.cli = c, .plotted = plotted_metric(c->model), .last_draw = -1, .several = runs.n > 1};
    RtCode code = rt_alloc(&p.loss, o.epochs, sizeof *p.loss, "the history of losses", c->st);
    if (!code) code = rt_alloc(&p.metric, o.epochs, sizeof *p.metric, "the history of losses", c->st);
    if (!code)
        code = rt_alloc(&runs.metrics, runs.n, RT_MAX_METRICS * sizeof *runs.metrics, "the metrics of runs", c->st);
    if (!code) code = all_runs(c, &runs, &o, &s, &p);
    free(p.loss);
    free(p.metric);
    free(runs.metrics);
    rt_session_close(&s);
    return code;
}
