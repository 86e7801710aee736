/* `plan --transport sim`: this process plans what all ranks do, one rank after the other (peers_sim.h), and says how
   long a run of each program would take (sim.h): steps by times that were measured here, scaled to each rank's work;
   what travels by the links of a topology. Bytes and rounds are those of `plan` and of the ledger. */
#include "runtime/cli_sim.h"
#include "runtime/json.h"
#include "runtime/peers_sim.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef RtCliSim Sim;
typedef RtSimSeat Seat;

/* ---- what the replay asks ---------------------------------------------------------------------------------------- */

static double scaled(const Sim *s, int64_t step, double work)
{
    int64_t i = s->times.first[s->program] + step;
    return s->times.work[i] > 0 ? s->times.s[i] * (work / s->times.work[i]) : s->times.s[i];
}

static double step_s(const void *user, int rank, int64_t step)
{
    const Sim *s = user;
    const RtExec *e = s->seats[rank].e;
    step %= e->program->n_steps; /* of several runs, one behind the other */
    return scaled(s, step, e->across ? rt_across_work(e->across, step) : rt_exec_work(e, step));
}

static double bytes_to(const void *user, int64_t travel, int from, int to)
{
    const Sim *s = user;
    const RtSimListed *x = &s->listed[travel];
    if (x->travel < 0) return rt_policy_round_bytes(s->seats[from].e->across, x->exchange, x->round, to);
    const RtTravel *t = &s->seats[from].travels[x->travel];
    if (from == to && t->round >= 0) return (double)t->sum_bytes / s->n; /* a piece of it, by other shapes */
    return (double)rt_travel_rows(s->seats[from].e->across, t, to) * (double)t->row_bytes;
}

static double unpacked(const void *user, int64_t travel, int rank)
{
    const Sim *s = user;
    const RtSimListed *x = &s->listed[travel];
    return x->travel < 0 ? rt_policy_round_stored(s->seats[rank].e->across, x->exchange, x->round) : 0;
}

/* ---- which steps make and read what travels ---------------------------------------------------------------------- */

static bool names(const RtExec *e, int64_t step, int64_t buffer)
{
    const RtModel *m = e->model;
    const RtStep *s = &m->steps[e->program->first_step + step];
    const RtCall *call = rt_step_call(m, s);
    for (int64_t i = 0; i < s->n_touches; i++)
        if (m->touches[s->first_touch + i].buffer == buffer) return true;
    for (int64_t i = 0; i < call->n_args; i++) {
        const RtStepArg *a = &m->step_args[call->first_arg + i];
        if (a->is_buffer && a->buffer == buffer) return true;
    }
    return false;
}

static bool writes(const RtExec *e, int64_t step, int64_t buffer)
{
    const RtStep *s = &e->model->steps[e->program->first_step + step];
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = &e->model->touches[s->first_touch + i];
        if (t->buffer == buffer && t->writes) return true;
    }
    return false;
}

RtSimTravel rt_cli_sim_travel(const RtExec *e, const RtTravel *t)
{
    RtSimTravel x = {.step = t->step,
                     .before = !strcmp(t->kind, "operands"),
                     .kind = t->rows_to      ? RT_SIM_ROWS
                             : t->round >= 0 ? RT_SIM_ROUND
                                             : RT_SIM_GATHER,
                     .follows = t->round > 0};
    if (x.before) {
        x.reader = t->step;
        for (x.made = t->step - 1; x.made >= 0 && !writes(e, x.made, t->buffer);) x.made--;
    } else {
        x.made = t->step;
        for (x.reader = t->step + 1; x.reader < e->program->n_steps && !names(e, x.reader, t->buffer);) x.reader++;
    }
    return x;
}

/* Those that are there before a run go first. built: sums travel in their rounds; else a sum is one, of whatever
   shape. */
static int64_t list_travels(Sim *s, bool built, RtSimTravel *out)
{
    const Seat *seat = &s->seats[0];
    int64_t n = 0;
    for (int given = 1; given >= 0; given--)
        for (int64_t i = 0; i < s->n_travels; i++) {
            const RtTravel *t = &seat->travels[i];
            if (t->once || (t->step < 0) != given || (!built && t->round > 0)) continue;
            out[n] = rt_cli_sim_travel(seat->e, t);
            if (!built && t->round == 0) out[n].kind = RT_SIM_SUM;
            s->listed[n++] = (RtSimListed){.travel = i};
        }
    return n;
}

RtSimProgram rt_cli_sim_program(const Sim *s, const RtSimTravel *travels)
{
    return (RtSimProgram){.n = s->n,
                          .n_steps = s->seats[0].e->program->n_steps,
                          .travels = travels,
                          .copy_s = s->times.copy_s,
                          .step_s = step_s,
                          .bytes = bytes_to,
                          .unpacked = unpacked,
                          .user = s};
}

/* ---- a program --------------------------------------------------------------------------------------------------- */

typedef struct Answer {
    RtSimResult as[RT_SIM_N_ORDERS];     /* sums as built */
    RtSimResult shapes[RT_SIM_N_SHAPES]; /* of blocking order, sums of this shape */
    bool has[RT_SIM_N_SHAPES];
    int best;             /* of the shapes; -1: as built is the best */
    RtSimResult both;     /* overlap by TAC, the best shape */
    double one_s;         /* of one process that has all */
    int64_t rounds, once; /* bytes that are sent once */
} Answer;

static RtCode replay_built(Sim *s, RtSimProgram *p, RtSimTravel *travels, Answer *a)
{
    a->rounds = p->n_travels = list_travels(s, true, travels);
    for (int order = 0; order < RT_SIM_N_ORDERS; order++)
        RT_TRY(rt_sim_replay(p, &s->topology, (RtSimOrder)order, RT_SIM_FLAT, &a->as[order], s->st));
    return RT_OK;
}

static RtCode replay_shapes(Sim *s, RtSimProgram *p, RtSimTravel *travels, Answer *a)
{
    RtStatus none;
    double least = a->as[RT_SIM_BLOCKING].run_s;
    a->best = -1;
    a->both = a->as[RT_SIM_TAC];
    p->n_travels = list_travels(s, false, travels);
    for (int shape = 0; shape < RT_SIM_N_SHAPES; shape++) {
        bool refused = shape == RT_SIM_STAGED; /* groups may not divide the ranks */
        RtCode code = rt_sim_replay(p, &s->topology, RT_SIM_BLOCKING, (RtSimShape)shape, &a->shapes[shape],
                                    refused ? &none : s->st);
        a->has[shape] = !code;
        if (code && !(refused && code == RT_E_SIM_TOPOLOGY)) return code;
        if (!code && a->shapes[shape].run_s < least) a->best = shape, least = a->shapes[shape].run_s;
    }
    return a->best < 0 ? RT_OK : rt_sim_replay(p, &s->topology, RT_SIM_TAC, (RtSimShape)a->best, &a->both, s->st);
}

static RtCode answer(Sim *s, Answer *a)
{
    const RtExec *e = s->seats[0].e;
    RtSimTravel *travels;
    *a = (Answer){0};
    RT_TRY(rt_alloc(&travels, s->n_travels + 1, sizeof *travels, "a simulated run", s->st));
    RtSimProgram p = rt_cli_sim_program(s, travels);
    for (int q = 0; q < s->n; q++)
        for (int64_t i = 0; i < s->n_travels; i++)
            if (s->seats[q].travels[i].once) a->once += s->seats[q].travels[i].bytes_out;
    for (int64_t i = 0; i < p.n_steps; i++)
        a->one_s += scaled(s, i, s->seats[0].ranks ? rt_ranks_work(s->seats[0].ranks, e, i) : rt_exec_work(e, i));
    RtCode code = replay_built(s, &p, travels, a);
    if (!code) code = replay_shapes(s, &p, travels, a);
    free(travels);
    return code;
}

static double bytes_of(const Sim *s, const RtSimResult *r)
{
    double sum = 0;
    for (int j = 0; j < s->topology.n_levels; j++) sum += r->bytes[j];
    return sum;
}

static double efficiency(const Sim *s, const Answer *a, double run_s)
{
    return run_s > 0 ? a->one_s / run_s / s->n : 1;
}

static const char *best_name(const Answer *a) { return a->best < 0 ? "built" : rt_sim_shapes[a->best]; }

static void text_answer(const Sim *s, const Answer *a)
{
    const RtSimResult *r = &a->as[RT_SIM_BLOCKING];
    const char *sep = "";
    printf("\n%s: %.3f ms a run, one process %.3f ms: efficiency %.3f; with full overlap %.3f ms, %.3f\n",
           rt_string(s->c->model, s->c->model->programs[s->program].name), r->run_s * 1e3, a->one_s * 1e3,
           efficiency(s, a, r->run_s), a->as[RT_SIM_TAC].run_s * 1e3, efficiency(s, a, a->as[RT_SIM_TAC].run_s));
    printf("  a rank computes %.3f ms (%.3f at most), copies rows for %.3f ms (%.3f), waits %.3f ms (%.3f)\n",
           r->compute_s[0] * 1e3, r->compute_s[1] * 1e3, r->copy_s[0] * 1e3, r->copy_s[1] * 1e3, r->wait_s[0] * 1e3,
           r->wait_s[1] * 1e3);
    printf("  %lld rounds, %.0f bytes from all processes (", (long long)a->rounds, bytes_of(s, r));
    for (int j = 0; j < s->topology.n_levels; j++, sep = ", ")
        printf("%s%s %.0f", sep, s->topology.levels[j].name, r->bytes[j]);
    printf("); before the first run %lld more\n", (long long)a->once);
    if (a->shapes[RT_SIM_FLAT].gathers_s == 0) return;
    printf("  a run by other shapes of sums:");
    for (int i = 0; i < RT_SIM_N_SHAPES; i++)
        if (a->has[i]) printf("%s %s %.3f ms", i ? "," : "", rt_sim_shapes[i], a->shapes[i].run_s * 1e3);
    printf("; the best, %s, with full overlap %.3f ms\n", best_name(a), a->both.run_s * 1e3);
}

static void json_result(const Sim *s, const char *name, const RtSimResult *r)
{
    const char *sep = "";
    printf(",\n    \"%s\": {\"run_s\": %.9g, \"compute_s\": [%.9g, %.9g], \"copy_s\": [%.9g, %.9g], \"wait_s\": [%.9g, "
           "%.9g], \"gathers_s\": %.9g, \"messages\": %lld, \"bytes_by_level\": {",
           name, r->run_s, r->compute_s[0], r->compute_s[1], r->copy_s[0], r->copy_s[1], r->wait_s[0], r->wait_s[1],
           r->gathers_s, (long long)r->messages);
    for (int j = 0; j < s->topology.n_levels; j++, sep = ", ") {
        printf("%s", sep);
        rt_json_put_string(stdout, s->topology.levels[j].name);
        printf(": %.0f", r->bytes[j]);
    }
    printf("}}");
}

static void json_answer(const Sim *s, const Answer *a)
{
    static const char *const orders[] = {"blocking", "overlap_as_made", "overlap_tic", "overlap_tac"};
    const RtSimResult *r = &a->as[RT_SIM_BLOCKING];
    printf(",\n  ");
    rt_json_put_string(stdout, rt_string(s->c->model, s->c->model->programs[s->program].name));
    printf(": {\"rounds\": %lld, \"bytes\": %.0f, \"bytes_once\": %lld, \"one_process_s\": %.9g, \"efficiency\": %.6f, "
           "\"efficiency_overlap\": %.6f, \"best_gathers\": \"%s\"",
           (long long)a->rounds, bytes_of(s, r), (long long)a->once, a->one_s, efficiency(s, a, r->run_s),
           efficiency(s, a, a->as[RT_SIM_TAC].run_s), best_name(a));
    json_result(s, orders[RT_SIM_BLOCKING], r);
    for (int i = RT_SIM_AS_MADE; i < RT_SIM_N_ORDERS; i++) json_result(s, orders[i], &a->as[i]);
    for (int i = 0; i < RT_SIM_N_SHAPES; i++) {
        char name[32];
        snprintf(name, sizeof name, "gathers_%s", rt_sim_shapes[i]);
        if (a->has[i]) json_result(s, name, &a->shapes[i]);
    }
    json_result(s, "best", &a->both);
    putchar('}');
}

/* By rank 0, while the others show what they have. */
static RtCode tell_program(Sim *s, RtStatus *st)
{
    Answer a;
    s->st = st;
    RtCode code = rt_alloc(&s->listed, s->n_travels + 1, sizeof *s->listed, "a simulated run", s->st);
    if (!code) code = answer(s, &a);
    if (!code) (s->json ? json_answer : text_answer)(s, &a);
    free(s->listed);
    s->listed = NULL;
    return code;
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

RtCode rt_cli_sim_show(Sim *s, const RtSession *session, int64_t program, RtExec **e, RtStatus *st)
{
    Seat *seat = &s->seats[session->ranks ? session->ranks->rank : 0];
    RtExecOptions o = session->exec;
    o.plan_only = true;
    RT_TRY(rt_exec_create(s->c->model, program, session->data.graph, &o, e, st));
    s->program = program;
    s->n_travels = (*e)->across ? rt_across_travels((*e)->across, NULL) : 0;
    *seat = (Seat){.e = *e, .ranks = session->ranks};
    RT_TRY(rt_alloc(&seat->travels, s->n_travels + 1, sizeof *seat->travels, "a plan", st));
    if ((*e)->across) rt_across_travels((*e)->across, seat->travels);
    return RT_OK;
}

static RtCode plan_rank(void *user, RtPeers *peers, RtStatus *st)
{
    Sim *s = user;
    RtCli own = *s->c; /* its peers and its status */
    RtSession session;
    int rank = rt_peers_rank(peers);
    own.peers = peers;
    own.st = st;
    own.values[OPT_THREADS] = "1";
    own.values[OPT_BLAS] = "off";
    own.values[OPT_POLICY] = NULL; /* policies come behind exact training */
    RT_TRY(rt_session_open(&own, &(RtDataOptions){.draw = true}, &session));
    RtCode code = RT_OK;
    for (int64_t p = 0; p < own.model->n_programs && !code; p++) {
        RtExec *e = NULL;
        code = rt_cli_sim_show(s, &session, p, &e, st);
        if (!code) code = rt_peers_agree(peers, code, st); /* all are there */
        if (!code) code = rt_peers_agree(peers, rank == 0 ? tell_program(s, st) : RT_OK, st);
        free(s->seats[rank].travels);
        s->seats[rank] = (Seat){0};
        rt_exec_free(e);
    }
    if (!code && rt_cli_sim_has_policies(s->c)) code = rt_cli_sim_policies(s, &session, peers, st);
    rt_session_close(&session);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void print_head(const Sim *s)
{
    const RtCli *c = s->c;
    const char *from = s->measured ? "as measured on part 0" : c->values[OPT_TIMES], *sep = "";
    if (s->json) {
        printf("{\"model\": ");
        rt_json_put_string(stdout, rt_string(c->model, c->model->name));
        printf(", \"ranks\": %d, \"measured\": %s, \"levels\": [", s->n, s->measured ? "true" : "false");
    } else {
        printf("%s on %s: %d rank%s that %s simulated; times of steps %s%s\n", rt_string(c->model, c->model->name),
               c->values[OPT_DATA], s->n, s->n > 1 ? "s" : "", s->n > 1 ? "are" : "is", s->measured ? "" : "of ", from);
    }
    for (int j = 0; j < s->topology.n_levels; j++, sep = ", ") {
        const RtSimLevel *l = &s->topology.levels[j];
        if (s->json) {
            printf("%s", sep);
            rt_json_put_string(stdout, l->name);
        } else {
            printf("  %-16s %.3g us and %.4g GB/s, a link for %lld rank%s, %.3g us a message\n", l->name,
                   l->alpha_s * 1e6, l->bytes_per_s * 1e-9, (long long)l->shared_by, l->shared_by > 1 ? "s" : "",
                   l->message_s * 1e6);
        }
    }
    if (s->json) putchar(']');
}

bool rt_cli_is_sim(const RtCli *c)
{
    const char *transport = c->values[OPT_TRANSPORT], *policy = c->values[OPT_POLICY];
    return c->command == CMD_PLAN && ((transport && !strcmp(transport, "sim")) || (policy && !strcmp(policy, "auto")));
}

RtCode rt_cli_sim(RtCli *c)
{
    Sim s = {.c = c, .json = c->values[OPT_JSON] != NULL};
    int64_t n = 0;
    if (c->values[OPT_RANKS])
        return rt_fail(c->st, RT_E_CLI_VALUE, "--ranks", "leave it out",
                       "as many ranks are simulated as there are parts");
    if (c->values[OPT_TRANSPORT] && strcmp(c->values[OPT_TRANSPORT], "sim"))
        return rt_fail(c->st, RT_E_CLI_VALUE, "--transport", "leave it out", "`--policy auto` simulates all ranks");
    if (rt_cli_sim_has_policies(c) && strcmp(c->values[OPT_POLICY], "auto"))
        RT_TRY(rt_policy_parse(c->values[OPT_POLICY], &(RtPolicy){0}, c->st));
    RT_TRY(rt_cli_ranks_refuse(c));
    if (c->device != RT_ON_CPU)
        return rt_fail(c->st, RT_E_RANKS_REFUSED, "--device", "leave the flag out",
                       "ranks that are simulated compute on CPUs");
    if (!rt_is_partition(c->values[OPT_DATA]))
        return rt_fail(c->st, RT_E_RANKS_PARTS, c->values[OPT_DATA], NULL, "found no parts, wanted some to simulate");
    RT_TRY(rt_parts_count(c->values[OPT_DATA], &n, c->st));
    s.n = (int)n;
    rt_sim_topology_default(&s.topology);
    if (c->values[OPT_TOPOLOGY]) RT_TRY(rt_sim_topology_load(c->values[OPT_TOPOLOGY], &s.topology, c->st));
    RT_TRY(rt_cli_sim_times(c, &s.times, &s.measured));
    RtCode code = rt_alloc(&s.seats, n, sizeof *s.seats, "simulated ranks", c->st);
    if (!code) print_head(&s);
    if (!code) code = rt_peers_sim_run(s.n, plan_rank, &s, c->st);
    if (!code && s.json) printf("\n}\n");
    free(s.seats);
    rt_block_free(&s.times.block);
    return code;
}
