/* `plan --policy auto`, and `plan --transport sim --policy POLICY`: what a run of the training step would take under
   each of some policies, by the same replay as exact training (cli_sim.c), and which is the quickest. Each policy is
   planned as it would run, so that what travels is what processes would send.

   Rows of a policy are waited for where they are made, those of exact training where they are read; a policy that reads
   them in the next run is replayed for two runs and for three, whose difference is a run. Sums travel as always. */
#include "runtime/cli_sim.h"
#include "runtime/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "policies of a simulated run";
enum { MOST_POLICIES = 64, NAME = 64 };

typedef struct Range { /* where values decide how often rows travel: at least, at most */
    double least, most;
} Range;

typedef struct Row {
    char name[NAME];
    bool refused, exact;
    Range waiting_s, overlap_s, bytes; /* of a run in the mean: in blocking order, with overlap; from all processes */
    int64_t rounds;
} Row;

bool rt_cli_sim_has_policies(const RtCli *c) { return c->values[OPT_POLICY] != NULL; }

/* Exact training and the one that is named; or, of auto, what docs/distributed.md measures, and groups of all sizes. */
static int list_names(Row *out, const char *asked, int n_ranks)
{
    static const char *const others[] = {"sancus=m1:2", "sancus=m2:1:8", "sancus=m3:0.1:8",
                                         "distgnn=5",   "pipegcn",       "bns=0.1"};
    int n = 0;
    snprintf(out[n++].name, NAME, "exact");
    if (strcmp(asked, "auto")) {
        if (strcmp(asked, "exact")) snprintf(out[n++].name, NAME, "%s", asked);
        return n;
    }
    snprintf(out[n++].name, NAME, "cagnet1d");
    for (int c = 2; c < n_ranks; c++)
        if (n_ranks % c == 0) snprintf(out[n++].name, NAME, "cagnet15d=%d", c);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) snprintf(out[n++].name, NAME, "%s", others[i]);
    return n;
}

/* ---- what travels ------------------------------------------------------------------------------------------------ */

typedef struct Lister {
    RtCliSim *s;
    RtPolicyFacts facts;
    bool rows;   /* whether this is a run in which rows travel; else votes alone do */
    int64_t run; /* of those that are replayed */
    RtSimTravel *out;
    int64_t n;
} Lister;

static void add(Lister *l, RtSimTravel t, RtSimListed of)
{
    int64_t n_steps = l->s->seats[0].e->program->n_steps;
    t.step += l->run * n_steps;
    t.made += l->run * n_steps;
    t.reader += l->run * n_steps;
    l->s->listed[l->n] = of;
    l->out[l->n++] = t;
}

/* What takes the place of an exchange. Exact training alone waits for rows where they are read. */
static void add_rounds(Lister *l, int64_t exchange, RtSimTravel t)
{
    const struct RtAcross *a = l->s->seats[0].e->across;
    int64_t n_steps = l->s->seats[0].e->program->n_steps, rounds = rt_policy_rounds(a, exchange);
    if (l->facts.late) t.reader = t.made + 1 + n_steps;
    else if (!l->facts.exact || !l->facts.packed) t.reader = t.made + 1;
    for (int64_t k = 0; k < rounds && (l->rows || (l->facts.votes && !k)); k++) {
        t.kind = l->facts.packed && !(l->facts.votes && !k) ? RT_SIM_ROWS : RT_SIM_ROUND;
        t.follows = k > 0;
        add(l, t, (RtSimListed){.travel = -1, .exchange = exchange, .round = k});
    }
}

/* Sums that are sent back behind a step before which nothing else travels that is not listed yet. */
static void add_pushes(Lister *l, int64_t before, int64_t *next)
{
    const RtExec *e = l->s->seats[0].e;
    for (; *next < l->facts.n_pushes; ++*next) {
        int64_t buffer, exchange = l->facts.n_exchanges + *next;
        int64_t step = rt_policy_push_step(e->across, exchange, &buffer);
        if (step >= before) return;
        add_rounds(l, exchange, rt_cli_sim_travel(e, &(RtTravel){.step = step, .kind = "rows", .buffer = buffer}));
    }
}

/* Those of a run, in the order of steps; what is there before it goes first. */
static void list_run(Lister *l)
{
    const RtSimSeat *seat = &l->s->seats[0];
    for (int given = 1; given >= 0; given--) {
        int64_t push = 0;
        for (int64_t i = 0; i < l->s->n_travels; i++) {
            const RtTravel *t = &seat->travels[i];
            if (t->once || (t->step < 0) != given) continue;
            if (!given) add_pushes(l, t->step + (t->exchange >= 0), &push);
            if (t->exchange >= 0) add_rounds(l, t->exchange, rt_cli_sim_travel(seat->e, t));
            else add(l, rt_cli_sim_travel(seat->e, t), (RtSimListed){.travel = i});
        }
        if (!given) add_pushes(l, seat->e->program->n_steps, &push);
    }
}

/* ---- a policy ---------------------------------------------------------------------------------------------------- */

/* So many runs, one behind the other. */
static RtCode replay(Lister *l, int64_t runs, RtSimOrder order, RtSimResult *r)
{
    RtSimProgram p = rt_cli_sim_program(l->s, l->out);
    l->n = 0;
    for (l->run = 0; l->run < runs; l->run++) list_run(l);
    p.n_steps *= runs;
    p.n_travels = l->n;
    for (int64_t i = 0; i < l->n; i++)
        if (l->out[i].reader > p.n_steps) l->out[i].reader = p.n_steps;
    return rt_sim_replay(&p, &l->s->topology, order, RT_SIM_FLAT, r, l->s->st);
}

/* A run in which rows travel, or do not. */
static RtCode time_run(Lister *l, double *waiting_s, double *overlap_s, double *bytes)
{
    RtSimResult r, more;
    *bytes = 0;
    RT_TRY(replay(l, 1, RT_SIM_BLOCKING, &r));
    *waiting_s = *overlap_s = r.run_s;
    for (int j = 0; j < l->s->topology.n_levels; j++) *bytes += r.bytes[j];
    if (!l->facts.overlaps) return RT_OK;
    RT_TRY(replay(l, l->facts.late ? 2 : 1, RT_SIM_TAC, &r));
    *overlap_s = r.run_s;
    if (!l->facts.late) return RT_OK;
    RT_TRY(replay(l, 3, RT_SIM_TAC, &more));
    *overlap_s = more.run_s - r.run_s;
    return RT_OK;
}

static Range mix(double none, double all, const RtPolicyFacts *f)
{
    return (Range){none + (all - none) * f->least, none + (all - none) * f->most};
}

static RtCode time_policy(RtCliSim *s, Row *row, RtStatus *st)
{
    const struct RtAcross *a = s->seats[0].e->across;
    Lister l = {.s = s, .rows = true};
    double all[3] = {0}, none[3];
    s->st = st;
    rt_policy_facts(a, &l.facts);
    int64_t most = s->n_travels;
    for (int64_t i = 0; i < l.facts.n_exchanges + l.facts.n_pushes; i++) most += rt_policy_rounds(a, i);
    RtCode code = rt_alloc(&l.out, 3 * most + 1, sizeof *l.out, what, st);
    if (!code) code = rt_alloc(&s->listed, 3 * most + 1, sizeof *s->listed, what, st);
    if (!code) code = time_run(&l, &all[0], &all[1], &all[2]);
    if (!code) {
        l.run = l.n = 0;
        list_run(&l);
        row->rounds = l.n;
    }
    memcpy(none, all, sizeof none);
    l.rows = false;
    if (!code && l.facts.least < 1) code = time_run(&l, &none[0], &none[1], &none[2]);
    row->exact = l.facts.exact;
    row->waiting_s = mix(none[0], all[0], &l.facts);
    row->overlap_s = mix(none[1], all[1], &l.facts);
    row->bytes = mix(none[2], all[2], &l.facts);
    free(l.out);
    free(s->listed);
    s->listed = NULL;
    return code;
}

static RtCode plan_policy(RtCliSim *s, const RtSession *session, RtPeers *peers, int64_t program, Row *row,
                          RtStatus *st)
{
    RtExec *e = NULL;
    int rank = session->ranks->rank;
    RT_TRY(rt_policy_parse(row->name, &session->ranks->policy, st));
    RtCode code = rt_peers_agree(peers, rt_cli_sim_show(s, session, program, &e, st), st);
    row->refused = code == RT_E_RANKS_POLICY;
    if (!code) code = rt_peers_agree(peers, rank ? RT_OK : time_policy(s, row, st), st);
    free(s->seats[rank].travels);
    s->seats[rank] = (RtSimSeat){0};
    rt_exec_free(e);
    session->ranks->policy = (RtPolicy){0};
    return row->refused ? RT_OK : code;
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

/* The quickest with overlap, where values decide at most. */
static const Row *best_of(const Row *rows, int n, bool exact)
{
    const Row *best = &rows[0];
    for (int i = 1; i < n; i++)
        if (!rows[i].refused && (rows[i].exact || !exact) && rows[i].overlap_s.most < best->overlap_s.most)
            best = &rows[i];
    return best;
}

static void text_range(Range r, double unit, const char *form)
{
    char text[64];
    int n = snprintf(text, sizeof text, form, r.least * unit);
    if (r.most > r.least) {
        n += snprintf(text + n, sizeof text - (size_t)n, " to ");
        snprintf(text + n, sizeof text - (size_t)n, form, r.most * unit);
    }
    printf(" %-20s", text);
}

static void tell_text(const Row *rows, int n)
{
    printf(
        "\npolicies of training, a run: ms that waits for all rows and sums, with overlap, bytes from all processes\n");
    for (int i = 0; i < n; i++) {
        printf("  %-18s", rows[i].name);
        if (rows[i].refused) {
            printf(" refused: it does not fit the model\n");
            continue;
        }
        text_range(rows[i].waiting_s, 1e3, "%.3f");
        text_range(rows[i].overlap_s, 1e3, "%.3f");
        text_range(rows[i].bytes, 1, "%.0f");
        printf("%s\n", rows[i].exact ? " the bits of exact" : "");
    }
    printf("the quickest is %s; of those with the bits of exact, %s\n", best_of(rows, n, false)->name,
           best_of(rows, n, true)->name);
}

static void tell_json(const Row *rows, int n)
{
    printf(",\n  \"policies\": {\"best\": \"%s\", \"best_exact\": \"%s\", \"all\": [", best_of(rows, n, false)->name,
           best_of(rows, n, true)->name);
    for (int i = 0; i < n; i++) {
        const Row *r = &rows[i];
        printf("%s\n    {\"name\": \"%s\", \"refused\": %s", i ? "," : "", r->name, r->refused ? "true" : "false");
        if (!r->refused)
            printf(", \"exact\": %s, \"waiting_s\": [%.9g, %.9g], \"overlap_s\": [%.9g, %.9g], \"bytes\": [%.0f, "
                   "%.0f], \"rounds\": %lld",
                   r->exact ? "true" : "false", r->waiting_s.least, r->waiting_s.most, r->overlap_s.least,
                   r->overlap_s.most, r->bytes.least, r->bytes.most, (long long)r->rounds);
        putchar('}');
    }
    printf("]}");
}

RtCode rt_cli_sim_policies(RtCliSim *s, const RtSession *session, RtPeers *peers, RtStatus *st)
{
    Row rows[MOST_POLICIES] = {0};
    int64_t program = rt_program_find(s->c->model, "train_step");
    if (!session->ranks || program < 0) return RT_OK;
    int n = list_names(rows, s->c->values[OPT_POLICY], s->n);
    for (int i = 0; i < n; i++) RT_TRY(plan_policy(s, session, peers, program, &rows[i], st));
    if (session->ranks->rank == 0) (s->json ? tell_json : tell_text)(rows, n);
    return RT_OK;
}
