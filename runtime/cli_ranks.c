/* A command by several processes: how they find one another, what they must agree on, and what each reads. */
#include "runtime/cli.h"
#include "runtime/cone.h"
#include "runtime/folds.h"
#include "runtime/nccl.h"
#include "runtime/ranks.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static RtCode parse_deadline(const RtCli *c, double *seconds)
{
    const char *text = c->values[OPT_DEADLINE];
    char *end;
    if (!text) return RT_OK;
    *seconds = strtod(text, &end);
    if (end != text && !*end && *seconds > 0 && *seconds < 1e6) return RT_OK;
    return rt_fail(c->st, RT_E_CLI_VALUE, "--deadline", NULL, "found `%.60s`, wanted seconds", text);
}

static RtCode parse_overlap(const RtCli *c, bool *on)
{
    const char *text = c->values[OPT_OVERLAP] ? c->values[OPT_OVERLAP] : "on";
    *on = !strcmp(text, "on");
    if (*on || !strcmp(text, "off")) return RT_OK;
    return rt_fail(c->st, RT_E_CLI_VALUE, "--overlap", NULL, "found `%.60s`, wanted on or off", text);
}

static RtCode parse_sums(const RtCli *c, bool *local)
{
    const char *text = c->values[OPT_SUMS] ? c->values[OPT_SUMS] : "exact";
    *local = !strcmp(text, "local");
    if (*local || !strcmp(text, "exact")) return RT_OK;
    return rt_fail(c->st, RT_E_CLI_VALUE, "--sums", NULL, "found `%.60s`, wanted exact or local", text);
}

static RtCode parse_exchange(const RtCli *c, bool *nccl)
{
    const char *text = c->values[OPT_EXCHANGE] ? c->values[OPT_EXCHANGE] : "host";
    *nccl = !strcmp(text, "nccl");
    if (*nccl && c->device == RT_ON_CPU)
        return rt_fail(c->st, RT_E_CLI_VALUE, "--exchange", NULL, "nccl is wanted with --device cuda");
    if (*nccl || !strcmp(text, "host")) return RT_OK;
    return rt_fail(c->st, RT_E_CLI_VALUE, "--exchange", NULL, "found `%.60s`, wanted host or nccl", text);
}

RtCode rt_cli_ranks_nccl(const RtCli *c, RtSession *s)
{
    if (!s->ranks || !s->ranks->by_nccl || !s->device) return RT_OK;
    RT_TRY(rt_nccl_open(c->peers, s->device, &s->nccl, c->st));
    s->ranks->nccl = s->nccl;
    return RT_OK;
}

RtCode rt_cli_ranks_refuse(const RtCli *c)
{
    static const int not_shared[] = {OPT_BATCH, OPT_CONE, OPT_SHARE, OPT_REORDER, OPT_BUDGET};
    static const char *const names[] = {"--batch", "--cone", "--share", "--reorder", "--memory-budget"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->values[not_shared[i]])
            return rt_fail(c->st, RT_E_RANKS_REFUSED, names[i], "leave the flag out", "it is for one process");
    if (c->device == RT_ON_AUTO)
        return rt_fail(c->st, RT_E_RANKS_REFUSED, "--device", "say --device cuda, or leave the flag out",
                       "processes that choose each by itself might choose differently");
    RtPolicy policy = {0};
    if (c->device != RT_ON_CPU) RT_TRY(rt_policy_parse(c->values[OPT_POLICY], &policy, c->st));
    if (policy.is)
        return rt_fail(c->st, RT_E_RANKS_REFUSED, "--policy", "leave one of the flags out",
                       "on a device all rows travel that steps read");
    if (c->values[OPT_BLAS] && strcmp(c->values[OPT_BLAS], "on") == 0)
        return rt_fail(c->st, RT_E_RANKS_REFUSED, "--blas", "leave the flag out",
                       "a library's products would depend on how rows are shared out");
    if (c->command == CMD_BENCH || c->command == CMD_INFO)
        return rt_fail(c->st, RT_E_RANKS_REFUSED, NULL, NULL, "this command is for one process");
    return RT_OK;
}

static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return h;
}

/* All run the same program with the same flags, but for files that each may name otherwise. */
static RtCode agree(const RtCli *c)
{
    const RtModel *m = c->device == RT_ON_CPU ? c->model : c->model->device; /* whose steps make what travels */
    uint64_t program = mix(0xcbf29ce484222325u, m->strings, (size_t)m->n_strings), flags = 0xcbf29ce484222325u;
    for (int64_t p = 0; p < m->n_programs; p++)
        program = mix(program, m->steps + m->programs[p].first_step, (size_t)m->programs[p].n_steps * sizeof *m->steps);
    for (int i = 0; i < N_OPTIONS; i++) {
        bool own = i == OPT_SAVE || i == OPT_METRICS || i == OPT_OUT || i == OPT_THREADS || i == OPT_CPU ||
                   i == OPT_DEVICE || i == OPT_DEVICE_MEMORY || i == OPT_HOST_ROWS;
        if (!c->values[i] || own) continue;
        flags = mix(mix(flags, &i, sizeof i), c->values[i], strlen(c->values[i]) + 1);
    }
    bool on_cpu = c->device == RT_ON_CPU;
    flags = mix(flags, &on_cpu, sizeof on_cpu);
    for (int i = 0; i < c->n_sets; i++) flags = mix(flags, c->sets[i], strlen(c->sets[i]) + 1);
    RT_TRY(rt_peers_same(c->peers, "the program", &program, sizeof program, c->st));
    return rt_peers_same(c->peers, "the flags", &flags, sizeof flags, c->st);
}

RtCode rt_cli_ranks_open(RtCli *c, char **argv)
{
    int64_t ranks = 0;
    RtPolicy policy;
    RtPeersOptions o = {.transport = c->values[OPT_TRANSPORT], .ledger = c->values[OPT_LEDGER]};
    if (c->values[OPT_TOPOLOGY] || c->values[OPT_TIMES])
        return rt_fail(c->st, RT_E_CLI_VALUE, c->values[OPT_TOPOLOGY] ? "--topology" : "--times", "add --transport sim",
                       "it is for ranks that are simulated");
    RT_TRY(rt_cli_int(c, OPT_RANKS, 1, RT_PEERS_MOST, &ranks));
    RT_TRY(parse_deadline(c, &o.deadline_s));
    RT_TRY(parse_overlap(c, &(bool){false}));
    RT_TRY(parse_sums(c, &(bool){false}));
    RT_TRY(parse_exchange(c, &(bool){false}));
    RT_TRY(rt_policy_parse(c->values[OPT_POLICY], &policy, c->st));
    if (ranks > 1) RT_TRY(rt_cli_ranks_refuse(c));
    if (ranks > 1) RT_TRY(rt_peers_spawn((int)ranks, argv, c->st));
    RT_TRY(rt_peers_open(&o, &c->peers, c->st));
    if (c->command == CMD_PLAN && rt_peers_count(c->peers) == 1 && !ranks && rt_is_partition(c->values[OPT_DATA])) {
        RT_TRY(rt_parts_count(c->values[OPT_DATA], &ranks, c->st)); /* the plan of parts is that of all of them */
        rt_peers_close(c->peers);
        c->peers = NULL;
        RT_TRY(rt_peers_spawn((int)ranks, argv, c->st));
        RT_TRY(rt_peers_open(&o, &c->peers, c->st));
    }
    if (rt_peers_count(c->peers) == 1) return RT_OK;
    if (rt_peers_rank(c->peers) > 0 && !freopen("/dev/null", "w", stdout))
        return rt_fail_errno(c->st, RT_E_FILE_WRITE, "/dev/null");
    c->terminal &= rt_peers_rank(c->peers) == 0;
    if (c->command == CMD_PLAN) signal(SIGPIPE, SIG_IGN); /* who reads it may leave: the others shall not miss rank 0 */
    RT_TRY(rt_cli_ranks_refuse(c));
    return agree(c);
}

RtCode rt_cli_ranks_agree(const RtCli *c, RtCode code)
{
    return c->peers && rt_peers_count(c->peers) > 1 ? rt_peers_agree(c->peers, code, c->st) : code;
}

RtCode rt_cli_ranks_part(const RtCli *c, RtSession *s, const char **dir)
{
    *dir = c->values[OPT_DATA];
    int n = c->peers ? rt_peers_count(c->peers) : 1, rank = c->peers ? rt_peers_rank(c->peers) : 0;
    bool parts = rt_is_partition(*dir);
    if (!parts && n == 1) return rt_part_open(*dir, &s->part, c->st);
    if (!parts) return rt_fail(c->st, RT_E_RANKS_PARTS, *dir, NULL, "found no parts, wanted %d", n);
    RT_TRY(rt_cli_ranks_agree(c, rt_part_load(*dir, rank, n, &s->part, c->st)));
    if (n > 1) RT_TRY(rt_ranks_check(c->model, &s->part, c->st));
    if (n > 1) RT_TRY(rt_peers_same(c->peers, "the partition", s->part.digest, sizeof s->part.digest - 1, c->st));
    snprintf(s->part_dir, sizeof s->part_dir, "%s/part-%d", *dir, rank);
    *dir = s->part_dir;
    return RT_OK;
}

RtCode rt_cli_ranks_folds(const RtCli *c, const RtData *d)
{
    int n = c->peers ? rt_peers_count(c->peers) : 1, rank = c->peers ? rt_peers_rank(c->peers) : 0;
    int64_t *rows, bytes[RT_PEERS_MOST];
    RT_TRY(rt_alloc(&rows, rt_size(n, d->n_folds), sizeof *rows, "folds", c->st));
    rt_folds_count(d, rows + rank * d->n_folds);
    for (int q = 0; q < n; q++) bytes[q] = 8 * d->n_folds;
    RtCode code = n > 1 ? rt_peers_gather(c->peers, RT_SITE_SETUP, NULL, bytes, rows, c->st) : RT_OK;
    for (int64_t i = d->n_folds; i < n * d->n_folds; i++) rows[i % d->n_folds] += rows[i];
    if (!code) code = rt_folds_check(rows, d->n_folds, c->st);
    free(rows);
    return code;
}

RtCode rt_cli_ranks_start(const RtCli *c, RtSession *s)
{
    if (!c->peers || rt_peers_count(c->peers) == 1) return RT_OK;
    if (s->batches.graph)
        return rt_fail(c->st, RT_E_RANKS_REFUSED, rt_string(c->model, c->model->name), NULL,
                       "training by batches of graphs is for one process");
    RT_TRY(rt_ranks_create(c->model, &s->data, &s->part, c->peers, &s->ranks, c->st));
    RT_TRY(parse_sums(c, &s->ranks->local_sums));
    RT_TRY(rt_policy_parse(c->values[OPT_POLICY], &s->ranks->policy, c->st));
    RT_TRY(parse_overlap(c, &s->ranks->overlap));
    RT_TRY(parse_exchange(c, &s->ranks->by_nccl));
    s->data.tensors.shared = &s->ranks->weights;
    s->exec.ranks = s->ranks;
    s->exec.cone = RT_CONE_OFF;
    s->exec.split = -1;
    return RT_OK;
}

RtCode rt_cli_ranks_same(const RtCli *c, const RtData *data)
{
    uint64_t weights = 0xcbf29ce484222325u;
    if (!c->peers || rt_peers_count(c->peers) == 1) return RT_OK;
    for (int64_t i = 0; i < c->model->n_tensors; i++) {
        const RtTensorDef *t = &c->model->tensors[i];
        if ((t->kind != RT_PARAM && t->kind != RT_STATE) || rt_tensor_rows(&data->tensors, i)) continue;
        int64_t n = rt_tensor_count(c->model, data->graph, i);
        weights = mix(weights, data->tensors.data[i], (size_t)(n * rt_dtype_bytes(t->dtype)));
    }
    return rt_peers_same(c->peers, "the weights after training", &weights, sizeof weights, c->st);
}

bool rt_cli_writes(const RtCli *c) { return !c->peers || rt_peers_rank(c->peers) == 0; }

void rt_cli_ranks_close(RtCli *c, RtCode code)
{
    c->silent = code && !c->peers && !rt_peers_speaks(NULL); /* none could be opened: one of them says so */
    if (!c->peers) return;
    if (code) rt_peers_fail(c->peers, c->st);
    c->silent = code != RT_OK; /* closing may end this process */
    if (code && rt_peers_speaks(c->peers)) {
        char text[1536];
        rt_status_text(c->st, text, sizeof text);
        fflush(stdout);
        fputs(text, stderr);
        fflush(stderr);
    }
    rt_peers_close(c->peers);
    c->peers = NULL;
    if (c->command != CMD_PLAN) return;
    signal(SIGPIPE, SIG_DFL); /* once more what could not be written: it ends this process as it would end one alone */
    if (fflush(stdout) || ferror(stdout)) putchar('\n'), fflush(stdout);
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

RtCode rt_cli_ranks_gather(const RtCli *c, int64_t mine, int64_t *least, int64_t *sum, int64_t *most)
{
    int64_t bytes[RT_PEERS_MOST], all[RT_PEERS_MOST];
    int n = rt_peers_count(c->peers);
    for (int q = 0; q < n; q++) bytes[q] = 8;
    RT_TRY(rt_peers_gather(c->peers, RT_SITE_SETUP, &mine, bytes, all, c->st));
    *least = *most = all[0];
    *sum = 0;
    for (int q = 0; q < n; q++) {
        *least = all[q] < *least ? all[q] : *least;
        *most = all[q] > *most ? all[q] : *most;
        *sum += all[q];
    }
    return RT_OK;
}

/* What rows of peers a policy sends in place of all. */
static RtCode plan_policy(const RtCli *c, const RtExec *e, bool json)
{
    RtPolicyBytes p;
    int64_t least, most, votes, other;
    if (!rt_policy_bytes(e->across, &p)) return RT_OK;
    RT_TRY(rt_cli_ranks_gather(c, (int64_t)(p.least + 0.5), &other, &least, &other));
    RT_TRY(rt_cli_ranks_gather(c, (int64_t)(p.most + 0.5), &other, &most, &other));
    RT_TRY(rt_cli_ranks_gather(c, p.votes, &other, &votes, &other));
    if (json)
        printf(", \"policy\": {\"name\": \"%s\", \"least_bytes\": %lld, \"most_bytes\": %lld, \"vote_bytes\": %lld, "
               "\"rounds\": %lld}",
               c->values[OPT_POLICY], (long long)least, (long long)most, (long long)votes, (long long)p.rounds);
    else if (least == most)
        printf("  %s: of the rows %lld bytes a run in the mean, in %lld rounds\n", c->values[OPT_POLICY],
               (long long)most, (long long)p.rounds);
    else
        printf("  %s: of the rows %lld to %lld bytes a run in the mean, and %lld that say which, in %lld rounds\n",
               c->values[OPT_POLICY], (long long)least, (long long)most, (long long)votes, (long long)p.rounds);
    return RT_OK;
}

/* What travels when e's program runs: in all and by the process that sends most. */
RtCode rt_cli_plan_ranks(const RtCli *c, const RtExec *e, bool json)
{
    RtTravel *list;
    int64_t n = e->across ? rt_across_travels(e->across, NULL) : 0, least, sum, most, rounds = 0, bytes = 0;
    if (!e->across) return RT_OK;
    RT_TRY(rt_alloc(&list, n, sizeof *list, "a plan", c->st));
    rt_across_travels(e->across, list);
    RtCode code = rt_cli_ranks_gather(c, e->arena_bytes, &least, &sum, &most);
    if (!code && json)
        printf(", \"ranks\": {\"sums\": \"%s\", \"peak_bytes\": {\"least\": %lld, \"most\": %lld}, \"travels\": [",
               e->options.ranks->local_sums ? "local" : "exact", (long long)least, (long long)most);
    if (!code && !json && e->options.ranks->local_sums)
        printf("  each process sums its own rows: results depend on the parts, within rounding\n");
    if (!code && !json)
        printf(
            "  planned memory of a process %lld to %lld bytes; what travels (step, bytes of a row, rows from all, and "
            "from the one that sends most):\n",
            (long long)least, (long long)most);
    for (int64_t i = 0; i < n && !code; i++) {
        const RtTravel *t = &list[i];
        code = rt_cli_ranks_gather(c, t->rows_out, &least, &sum, &most);
        rounds += t->once ? 0 : t->rounds;
        bytes += t->once ? 0 : t->bytes_out;
        if (json)
            printf("%s{\"step\": %lld, \"kind\": \"%s\", \"name\": \"%s\", \"once\": %s, \"row_bytes\": %lld, "
                   "\"rows\": %lld, \"most_rows\": %lld, \"rounds\": %lld}",
                   i ? ", " : "", (long long)t->step, t->kind, t->name, t->once ? "true" : "false",
                   (long long)t->row_bytes, (long long)sum, (long long)most, (long long)t->rounds);
        else
            printf("    %3lld %-8s %-24s %6lld x %-9lld (%lld)%s\n", (long long)t->step, t->kind, t->name,
                   (long long)t->row_bytes, (long long)sum, (long long)most, t->once ? ", once" : "");
    }
    if (!code) code = rt_cli_ranks_gather(c, bytes, &least, &sum, &most);
    if (!code && json)
        printf("], \"rounds\": %lld, \"bytes\": %lld, \"most_bytes\": %lld", (long long)rounds, (long long)sum,
               (long long)most);
    if (!code && !json)
        printf("  each run: %lld rounds, %lld bytes from all processes, %lld from the one that sends most\n",
               (long long)rounds, (long long)sum, (long long)most);
    if (!code) code = plan_policy(c, e, json);
    if (!code && json) putchar('}');
    free(list);
    return code;
}
