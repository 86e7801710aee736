/* Policies of training by several processes: which rows of an exchange (see ranks.h) travel in a run, and what the
   others are. Steps, their order and the sums that are shared out are those of exact training; a policy never sees
   them.

     exact      all rows that a process reads travel in each run
     sancus     a process sends all its rows or none, and the others take what came from it last
     distgnn    in run t those whose key leaves t mod r, the others are what came last
     pipegcn    what is sent in run t is read in run t + 1, and travels until then
     bns        of rows that sums over edges read, some that are drawn (ranks_sample.c)
     sar        all rows that a process reads travel, those of one process at a time, while a step sums over edges
                (ranks_rounds.c)
     cagnet1d   each process in turn sends all rows that it owns to all; each stores those that it reads
     cagnet15d  the same in groups of c processes side by side, each of which got before what those at its place in all
                groups own

   docs/distributed.md names the systems and says what each costs. What is decided by one process alone is a vote that
   all gather first. */
#include "runtime/half.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "rows that a policy keeps";

/* The state of an exchange. Runs are those of the program since it was bound. */
typedef struct Kept {
    char *rows, *sent; /* [n_in] as they came last, in the order of ship.in; [n_out] as they were sent last */
    bool flies;        /* pipegcn: both are of a call that goes on */
    int flight;
    int64_t *came;     /* [n_in] the run in which each was sent */
    int64_t sent_at;   /* the run in which this process sent last */
    int64_t interval;  /* sancus=m2: runs until it sends again */
    int64_t *at_owner; /* cagnet: [n_in] which of its owner's rows each is */
    int64_t *owned;    /* cagnet: [ranks] rows of the space that each process owns */
    RtBlock block;
} Kept;

struct RtPolicyRun {
    const RtPolicyRow *is;
    double a, b; /* its numbers */
    int64_t run;
    Kept *kept; /* [n_exchanges] */
    int64_t n_exchanges;
    int votes_site;
    struct RtSample *sample; /* of bns; else NULL */
    struct RtRounds *rounds; /* of sar; else NULL */
};

struct RtPolicyRow {
    const char *form; /* as it is given, with letters for its numbers */
    bool whole;       /* its numbers are whole */
    double least, most;
    /* Whether this process sends its rows, which the others are told. NULL: all know. */
    bool (*vote)(const RtAcross *a, int64_t exchange);
    /* Whether a row travels from a process with such a vote. All say the same of it. */
    bool (*travels)(const RtPolicyRun *p, bool vote, int64_t key);
    bool late;                               /* what comes is read in the next run, until which it travels */
    bool in_turn;                            /* each process in turn sends all that it has, to its group */
    bool drawn;                              /* rows are drawn, and nothing is kept */
    bool rounds;                             /* they come while a step sums over others */
    int64_t (*oldest)(const RtPolicyRun *p); /* runs between sending and reading a row, at most */
    double (*lowest)(const RtPolicyRun *p),
        (*highest)(const RtPolicyRun *p); /* share of rows that travel: at least, at most */
};

/* ---- which rows travel ------------------------------------------------------------------------------------------- */

static double number_at(const char *at, int64_t elem, int64_t i)
{
    uint16_t half;
    float f;
    double d;
    int32_t n;
    int64_t w;
    switch (elem) {
    case RT_K_F64: memcpy(&d, at + 8 * i, 8); return d;
    case RT_K_F32: memcpy(&f, at + 4 * i, 4); return (double)f;
    case RT_K_F16: memcpy(&half, at + 2 * i, 2); return (double)f16_to_float(half);
    case RT_K_BF16: memcpy(&half, at + 2 * i, 2); return (double)bf16_to_float(half);
    case RT_K_I64: memcpy(&w, at + 8 * i, 8); return (double)w;
    case RT_K_I32: memcpy(&n, at + 4 * i, 4); return (double)n;
    default: return (double)at[i];
    }
}

/* Whether what this process would send differs from what it sent last by more than `part` of its norm (Frobenius). What
   is not finite differs. */
static bool differs(const RtAcross *a, int64_t exchange, double part)
{
    const RtExchange *x = &a->exchanges[exchange];
    int64_t elem = across_buffer(a, x->buffer)->elem, width = across_buffer(a, x->buffer)->width;
    const char *rows = a->e->buffers[x->buffer], *sent = a->policy->kept[exchange].sent;
    double change = 0, size = 0;
    for (int64_t i = 0; i < x->ship.n_out; i++) {
        for (int64_t k = 0; k < width; k++) {
            double was = number_at(sent + i * x->row_bytes, elem, k);
            double d = number_at(rows + x->ship.out[i] * x->row_bytes, elem, k) - was;
            change += d * d;
            size += was * was;
        }
    }
    return !(sqrt(change) <= part * sqrt(size));
}

static int64_t own_age(const RtAcross *a, int64_t exchange)
{
    return a->policy->run - a->policy->kept[exchange].sent_at;
}

static bool vote_by_age(const RtAcross *a, int64_t exchange)
{
    Kept *k = &a->policy->kept[exchange];
    if (own_age(a, exchange) < k->interval) return false;
    int64_t longer = 2 * k->interval < (int64_t)a->policy->b ? 2 * k->interval : (int64_t)a->policy->b;
    k->interval = differs(a, exchange, 0.1) ? (int64_t)a->policy->a : longer;
    return true;
}

static bool vote_by_change(const RtAcross *a, int64_t exchange)
{
    return own_age(a, exchange) >= (int64_t)a->policy->b || differs(a, exchange, a->policy->a);
}

static bool if_voted(const RtPolicyRun *p, bool vote, int64_t key) { return (void)p, (void)key, vote; }
static bool each_t(const RtPolicyRun *p, bool vote, int64_t key)
{
    return (void)vote, (void)key, p->run % (int64_t)p->a == 0;
}
static bool by_key(const RtPolicyRun *p, bool vote, int64_t key)
{
    (void)vote;
    return p->a < 2 || key % (int64_t)p->a == p->run % (int64_t)p->a;
}
static bool all_rows(const RtPolicyRun *p, bool vote, int64_t key) { return (void)p, (void)vote, (void)key, true; }

static int64_t below_a(const RtPolicyRun *p) { return p->a > 1 ? (int64_t)p->a - 1 : 0; }
static int64_t below_b(const RtPolicyRun *p) { return (int64_t)p->b - 1; }
static int64_t one(const RtPolicyRun *p) { return (void)p, 1; }
static double all_of(const RtPolicyRun *p) { return (void)p, 1; }
static double of_a(const RtPolicyRun *p) { return p->a > 1 ? 1 / p->a : 1; }
static double of_b(const RtPolicyRun *p) { return 1 / p->b; }

/* The first names exact training, in which no policy has a state. */
static const RtPolicyRow policies[] = {
    {.form = "exact"},
    {.form = "halo"},
    {.form = "sancus=m1:T",
     .whole = true,
     .least = 1,
     .most = 1e6,
     .travels = each_t,
     .oldest = below_a,
     .lowest = of_a,
     .highest = of_a},
    {.form = "sancus=m2:tmin:tmax",
     .whole = true,
     .least = 1,
     .most = 1e6,
     .vote = vote_by_age,
     .travels = if_voted,
     .oldest = below_b,
     .lowest = of_b,
     .highest = of_a},
    {.form = "sancus=m3:eps:tmax",
     .most = 1e30,
     .vote = vote_by_change,
     .travels = if_voted,
     .oldest = below_b,
     .lowest = of_b,
     .highest = all_of},
    {.form = "distgnn=r",
     .whole = true,
     .most = 1e6,
     .travels = by_key,
     .oldest = below_a,
     .lowest = of_a,
     .highest = of_a},
    {.form = "pipegcn", .travels = all_rows, .late = true, .oldest = one, .lowest = all_of, .highest = all_of},
    {.form = "bns=p", .least = 1e-9, .most = 1, .drawn = true},
    {.form = "sar", .rounds = true},
    {.form = "sar=depth", .whole = true, .least = 1, .most = RT_PEERS_MOST, .rounds = true},
    {.form = "cagnet1d", .in_turn = true},
    {.form = "cagnet15d=c", .whole = true, .least = 1, .most = RT_PEERS_MOST, .in_turn = true},
};
enum { N_POLICIES = sizeof policies / sizeof *policies, NAMES = 2 /* of exact training */ };

static RtCode not_known(const char *text, RtStatus *st)
{
    char list[400] = "";
    for (int i = 0; i < N_POLICIES; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", policies[i].form);
    return rt_fail(st, RT_E_CLI_VALUE, "--policy", list, "found `%.60s`, wanted one of the policies", text);
}

/* The numbers behind the letters of a form; false: text has another form, or numbers that it does not take. */
static bool take_form(const RtPolicyRow *row, const char *text, double number[2])
{
    size_t n = strcspn(row->form, "="), fixed = strncmp(row->form + n, "=m", 2) ? n : n + 3;
    const char *letters = row->form + fixed;
    if (strncmp(text, row->form, fixed)) return false;
    text += fixed;
    for (int i = 0; *letters; i++) {
        char *end;
        if (*text++ != *letters++) return false;
        if (!((*text >= '0' && *text <= '9') || *text == '.')) return false;
        number[i] = strtod(text, &end);
        bool count = row->whole || i; /* a second number is one of runs */
        if (number[i] < (i ? 1 : row->least) || !(number[i] <= (i ? 1e6 : row->most))) return false;
        if (count && number[i] != floor(number[i])) return false;
        text = end;
        letters += strcspn(letters, ":");
    }
    return !*text;
}

RtCode rt_policy_parse(const char *text, RtPolicy *p, RtStatus *st)
{
    *p = (RtPolicy){0};
    if (!text) return RT_OK;
    for (int i = 0; i < N_POLICIES; i++) {
        double number[2] = {0};
        if (!take_form(&policies[i], text, number)) continue;
        if (policies[i].vote == vote_by_age && number[0] > number[1]) break;
        bool exact = i < NAMES || (policies[i].drawn && number[0] == 1);
        *p = (RtPolicy){exact ? NULL : &policies[i], number[0], number[1]};
        return RT_OK;
    }
    return not_known(text, st);
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

/* cagnet: processes of a group. One at the place i of its group has what all at that place own: sent[q] of each. */
static int places(const RtAcross *a) { return a->policy->a > 0 ? (int)a->policy->a : a->r->n; }

static int64_t owned_at(const RtAcross *a, const Kept *k, int place, int64_t row_bytes, int64_t *sent)
{
    int64_t sum = 0;
    for (int q = 0; q < a->r->n; q++) {
        sent[q] = q % places(a) == place ? k->owned[q] * row_bytes : 0;
        sum += sent[q];
    }
    return sum;
}

/* What the process at its place has, where that is more than it owns, and what comes from another one. */
static int64_t turns_room(const RtAcross *a, const Kept *k, int64_t row_bytes)
{
    int64_t sent[RT_PEERS_MOST], most = 0, n = places(a);
    for (int i = 0; i < n; i++) {
        int64_t bytes = owned_at(a, k, i, row_bytes, sent);
        most = bytes > most ? bytes : most;
    }
    return n < a->r->n ? most + owned_at(a, k, a->r->rank % (int)n, row_bytes, sent) : most;
}

static int64_t rounds_in_turn(const RtAcross *a) { return places(a) + (places(a) < a->r->n); }

/* To those at its place in other groups, in the first round of a run with several groups; then, in the round of its
   place, all that these own to its group. */
static int64_t bytes_in_turn(const RtAcross *a, const Kept *k, int64_t row_bytes, int64_t round, int to)
{
    int64_t sent[RT_PEERS_MOST];
    int c = places(a), rank = a->r->rank, place = (int)round - (c < a->r->n);
    if (to == rank) return 0;
    if (place < 0) return to % c == rank % c ? k->owned[rank] * row_bytes : 0;
    return place == rank % c && to / c == rank / c ? owned_at(a, k, place, row_bytes, sent) : 0;
}

/* Which of its owner's rows each one is that comes here, and how many each process owns. */
static RtCode ask_owners(RtAcross *a, const RtExchange *x, Kept *k, RtStatus *st)
{
    RtRanks *r = a->r;
    int64_t space = across_buffer(a, x->buffer)->rows.space, n = r->graph->spaces[space].count, bytes[RT_PEERS_MOST];
    RtBlock scratch;
    RT_TRY(rt_block_alloc(&scratch, rt_size(n, 16), what, st));
    int64_t *mine = scratch.p, *there = mine + n;
    for (int64_t i = 0; i < n; i++) mine[i] = i;
    for (int q = 0; q < r->n; q++) bytes[q] = 8;
    RtCode code = rt_ship_run(r, &x->ship, RT_SITE_SETUP, mine, there, 8, st);
    if (!code) code = rt_peers_gather(r->peers, RT_SITE_SETUP, &r->spaces[space].owned, bytes, k->owned, st);
    for (int64_t i = 0; i < x->ship.n_in && !code; i++) k->at_owner[i] = there[x->ship.in[i]];
    int64_t room = code ? 0 : turns_room(a, k, x->row_bytes);
    if (room > a->room_bytes) a->room_bytes = room;
    rt_block_free(&scratch);
    return code;
}

static RtCode make_kept(RtAcross *a, const RtExchange *x, Kept *k, RtStatus *st)
{
    const RtPolicyRow *is = a->policy->is;
    int64_t n_in = x->ship.n_in, sent = is->vote || is->late ? x->ship.n_out : 0;
    int64_t bytes = rt_size_plus(rt_size(a->r->n, 8), n_in, 16 + x->row_bytes);
    RT_TRY(rt_block_alloc(&k->block, rt_size_plus(rt_size_plus(bytes, sent, x->row_bytes), 1, 64), what, st));
    k->owned = k->block.p;
    k->came = k->owned + a->r->n;
    k->at_owner = k->came + n_in;
    k->rows = (char *)(k->at_owner + n_in);
    k->sent = k->rows + n_in * x->row_bytes;
    return is->in_turn ? ask_owners(a, x, k, st) : RT_OK;
}

/* The policy that a program runs under, or NULL. Training's step has the one that is given. Metrics have it only if it
   sends all rows and saves memory; under any other they are exact. */
static const RtPolicyRow *policy_of(const RtAcross *a)
{
    const RtPolicyRow *is = a->r->policy.is;
    const char *name = rt_string(a->e->model, a->e->program->name);
    return !strcmp(name, "train_step") || (is && is->rounds && !strcmp(name, "metrics")) ? is : NULL;
}

bool rt_policy_draws(const RtAcross *a) { return policy_of(a) && policy_of(a)->drawn; }

bool rt_policy_has_rounds(const RtAcross *a) { return policy_of(a) && policy_of(a)->rounds; }

bool rt_policy_receives(const RtAcross *a, int64_t step)
{
    return rt_policy_has_rounds(a) || (rt_policy_draws(a) && rt_sample_trains(a, step));
}

int64_t rt_policy_room(const RtAcross *a, int64_t buffer)
{
    const struct RtRounds *p = a->policy ? a->policy->rounds : NULL;
    for (int64_t i = 0; p && i < a->n_exchanges; i++)
        if (a->exchanges[i].buffer == buffer && rt_rounds_moves(p, i)) return rt_rounds_rows(p, i);
    return -1;
}

bool rt_policy_steps(const RtAcross *a, int64_t step)
{
    return a->policy && a->policy->rounds && rt_rounds_runs(a->policy->rounds, step);
}

RtCode rt_policy_step(RtAcross *a, int64_t step, RtStatus *st) { return rt_rounds_run(a, a->policy->rounds, step, st); }

RtCode rt_policy_make(RtAcross *a, RtStatus *st)
{
    const RtPolicy *given = &a->r->policy;
    char name[200];
    if (!policy_of(a)) return RT_OK;
    RT_TRY(rt_alloc(&a->policy, 1, sizeof *a->policy, what, st));
    *a->policy = (RtPolicyRun){
        .is = given->is, .a = given->a, .b = given->b, .n_exchanges = a->n_exchanges, .votes_site = a->r->next_site++};
    if (given->is->rounds) return rt_rounds_make(a, given->a > 0 ? (int64_t)given->a : 1, &a->policy->rounds, st);
    for (int64_t i = 0; i < a->n_exchanges && !given->is->in_turn; i++) {
        const RtBuffer *b = across_buffer(a, a->exchanges[i].buffer);
        if (b->kind == RT_BUF_TENSOR)
            return rt_fail(st, RT_E_RANKS_POLICY, rt_string(a->e->model, b->name),
                           "train with --policy exact, sar, cagnet1d or cagnet15d=c",
                           "it has a row for each node, and processes would read rows of others that are old");
    }
    if (given->is->in_turn && a->r->n % places(a))
        return rt_fail(st, RT_E_RANKS_POLICY, "--policy", "c is a divisor of the number of processes",
                       "%d processes are no groups of %d", a->r->n, places(a));
    if (given->is->drawn) return rt_sample_make(a, given->a, &a->policy->sample, st);
    RT_TRY(rt_alloc(&a->policy->kept, a->n_exchanges, sizeof(Kept), what, st));
    for (int64_t i = 0; i < a->n_exchanges; i++) RT_TRY(make_kept(a, &a->exchanges[i], &a->policy->kept[i], st));
    if (!given->is->vote) return RT_OK;
    snprintf(name, sizeof name, "%s: votes", rt_string(a->e->model, a->e->program->name));
    return rt_peers_name_site(a->r->peers, a->policy->votes_site, name, st);
}

static RtCode settle(RtAcross *a, Kept *k, RtStatus *st)
{
    if (!k->flies) return RT_OK;
    k->flies = false;
    if (a->overlap) rt_overlap_flies(a, -1);
    return rt_peers_finish(a->r->peers, k->flight, st);
}

RtCode rt_policy_settle(RtAcross *a, RtStatus *st)
{
    const RtPolicyRun *p = a->policy;
    for (int64_t i = 0; p && p->kept && i < p->n_exchanges; i++) RT_TRY(settle(a, &p->kept[i], st));
    return RT_OK;
}

void rt_policy_free(RtAcross *a)
{
    RtPolicyRun *p = a ? a->policy : NULL;
    if (!p) return;
    for (int64_t i = 0; p->kept && i < p->n_exchanges; i++) {
        if (p->kept[i].flies) rt_peers_keep(a->r->peers, &p->kept[i].block); /* after a failure */
        rt_block_free(&p->kept[i].block);
    }
    rt_sample_free(p->sample);
    rt_rounds_free(p->rounds);
    free(p->kept);
    free(p);
}

RtCode rt_policy_bind(RtAcross *a, RtStatus *st)
{
    if (a->policy) a->policy->run = -1;
    return rt_policy_settle(a, st);
}

void rt_policy_facts(const RtAcross *a, RtPolicyFacts *out)
{
    const RtPolicyRun *p = a->policy;
    const RtPolicyRow *is = p ? p->is : NULL;
    bool in_runs = is && is->lowest && is->travels != by_key; /* else some rows travel in each run */
    *out = (RtPolicyFacts){.least = in_runs ? is->lowest(p) : 1,
                           .most = in_runs ? is->highest(p) : 1,
                           .votes = is && is->vote,
                           .packed = !is || !is->in_turn,
                           .late = is && is->late,
                           .overlaps = !rt_policy_draws(a) && !rt_policy_has_rounds(a),
                           .exact = !is || is->in_turn,
                           .n_exchanges = a->n_exchanges,
                           .n_pushes = p && p->sample ? rt_sample_pushes(p->sample) : 0};
}

int64_t rt_policy_push_step(const RtAcross *a, int64_t exchange, int64_t *buffer)
{
    return rt_sample_push_step(a, a->policy->sample, exchange, buffer);
}

int64_t rt_policy_rounds(const RtAcross *a, int64_t exchange)
{
    const RtPolicyRun *p = a->policy;
    if (!p) return 1;
    if (p->sample) return rt_sample_travels(p->sample, exchange);
    if (p->rounds && rt_rounds_moves(p->rounds, exchange)) return rt_rounds_of(a, p->rounds, exchange);
    return p->is->in_turn ? rounds_in_turn(a) : p->is->vote ? 2 : 1;
}

double rt_policy_round_bytes(const RtAcross *a, int64_t exchange, int64_t round, int to)
{
    const RtPolicyRun *p = a->policy;
    assert(round >= 0 && round < rt_policy_rounds(a, exchange));
    if (to == a->r->rank) return 0;
    if (p && p->sample) return rt_sample_bytes(a, p->sample, exchange, to);
    const RtExchange *x = &a->exchanges[exchange];
    if (p && p->rounds && rt_rounds_moves(p->rounds, exchange))
        return (double)(rt_rounds_rows_to(a, p->rounds, exchange, round, to) * x->row_bytes);
    if (p && p->is->in_turn) return (double)bytes_in_turn(a, &p->kept[exchange], x->row_bytes, round, to);
    if (p && p->is->vote && !round) return 1;
    return (double)(x->ship.out_n[to] * x->row_bytes) * (p && p->is->travels == by_key ? of_a(p) : 1);
}

double rt_policy_round_stored(const RtAcross *a, int64_t exchange, int64_t round)
{
    double rows = 0;
    assert(round >= 0 && round < rt_policy_rounds(a, exchange));
    if (!a->policy || !a->policy->is->in_turn) return 0;
    int c = places(a), own = a->r->rank % c, place = (int)round - (c < a->r->n);
    if (place < 0) place = own;
    else if (place == own) return 0;
    for (int q = place; q < a->r->n; q += c) rows += (double)a->exchanges[exchange].ship.in_n[q];
    return rows * (double)a->exchanges[exchange].row_bytes;
}

bool rt_policy_bytes(const RtAcross *a, RtPolicyBytes *out)
{
    RtPolicyFacts f;
    *out = (RtPolicyBytes){0};
    if (!a->policy) return false;
    rt_policy_facts(a, &f);
    for (int64_t i = 0; i < f.n_exchanges + f.n_pushes; i++) {
        int64_t rounds = rt_policy_rounds(a, i);
        double bytes = 0;
        for (int64_t k = f.votes; k < rounds; k++)
            for (int q = 0; q < a->r->n; q++) bytes += rt_policy_round_bytes(a, i, k, q);
        out->least += bytes * f.least;
        out->most += bytes * f.most;
        out->rounds += rounds;
        out->votes += f.votes ? a->r->n - 1 : 0;
    }
    return true;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

void rt_policy_begin(RtAcross *a)
{
    if (!a->policy) return;
    a->policy->run++;
    if (a->policy->sample) rt_sample_begin(a, a->policy->sample);
}

/* votes[q]: whether process q sends its rows. In the first run all do. */
static RtCode collect_votes(const RtAcross *a, int64_t exchange, bool *votes, RtStatus *st)
{
    const RtPolicyRun *p = a->policy;
    int64_t bytes[RT_PEERS_MOST];
    for (int q = 0; q < a->r->n; q++) bytes[q] = votes[q] = 1;
    if (!p->run) p->kept[exchange].interval = (int64_t)p->a;
    if (!p->is->vote || !p->run) return RT_OK;
    bool mine = p->is->vote(a, exchange);
    RT_TRY(rt_peers_predict(a->r->peers, p->votes_site, a->r->n - 1, 1, st));
    return rt_peers_gather(a->r->peers, p->votes_site, &mine, bytes, votes, st);
}

/* What was kept takes the place of rows that peers own. */
static void put(const RtAcross *a, const RtExchange *x, const Kept *k)
{
    size_t w = (size_t)x->row_bytes;
    char *rows = a->e->buffers[x->buffer];
    for (int64_t i = 0; i < x->ship.n_in; i++) {
        assert(a->policy->run - k->came[i] <= a->policy->is->oldest(a->policy));
        memcpy(rows + (size_t)x->ship.in[i] * w, k->rows + (size_t)i * w, w);
    }
}

static bool row_travels(const RtAcross *a, const RtExchange *x, int64_t row, bool vote)
{
    const RtPolicyRun *p = a->policy;
    return !p->run || p->is->travels(p, vote, a->r->spaces[across_buffer(a, x->buffer)->rows.space].keys[row]);
}

static RtCode run_chosen(RtAcross *a, int64_t exchange, RtStatus *st)
{
    const RtExchange *x = &a->exchanges[exchange];
    RtPolicyRun *p = a->policy;
    Kept *k = &p->kept[exchange];
    const char *rows = a->e->buffers[x->buffer];
    char *out = across_room(a), *in;
    bool votes[RT_PEERS_MOST];
    int64_t bytes[2][RT_PEERS_MOST] = {{0}}, sum = 0, i = 0, w = x->row_bytes;
    RT_TRY(collect_votes(a, exchange, votes, st));
    for (int q = 0; q < a->r->n; q++) {
        for (int64_t end = i + x->ship.out_n[q]; i < end; i++) {
            if (!row_travels(a, x, x->ship.out[i], votes[a->r->rank])) continue;
            memcpy(out + sum, rows + x->ship.out[i] * w, (size_t)w);
            sum += w;
            bytes[0][q] += w;
        }
    }
    in = out + sum;
    i = 0;
    for (int q = 0; q < a->r->n; q++)
        for (int64_t end = i + x->ship.in_n[q]; i < end; i++)
            if (row_travels(a, x, x->ship.in[i], votes[q])) bytes[1][q] += w;
    RT_TRY(rt_peers_predict(a->r->peers, x->site, sum, 1, st));
    RT_TRY(rt_peers_exchange(a->r->peers, x->site, out, bytes[0], in, bytes[1], st));
    i = 0;
    for (int q = 0; q < a->r->n; q++) {
        for (int64_t end = i + x->ship.in_n[q]; i < end; i++) {
            if (!row_travels(a, x, x->ship.in[i], votes[q])) continue;
            memcpy(k->rows + i * w, in, (size_t)w);
            in += w;
            k->came[i] = p->run;
        }
    }
    put(a, x, k);
    if (!p->is->vote || !votes[a->r->rank]) return RT_OK;
    assert(sum == x->ship.n_out * w); /* all or none */
    memcpy(k->sent, out, (size_t)sum);
    k->sent_at = p->run;
    return RT_OK;
}

/* What came since the last run takes the place of rows that peers own, and this run's rows are on their way. */
static RtCode run_late(RtAcross *a, int64_t exchange, RtStatus *st)
{
    const RtExchange *x = &a->exchanges[exchange];
    Kept *k = &a->policy->kept[exchange];
    const char *rows = a->e->buffers[x->buffer];
    int64_t bytes[2][RT_PEERS_MOST], w = x->row_bytes;
    RT_TRY(settle(a, k, st));
    put(a, x, k);
    for (int64_t i = 0; i < x->ship.n_out; i++) memcpy(k->sent + i * w, rows + x->ship.out[i] * w, (size_t)w);
    for (int q = 0; q < a->r->n; q++) {
        bytes[0][q] = x->ship.out_n[q] * w;
        bytes[1][q] = x->ship.in_n[q] * w;
    }
    for (int64_t i = 0; i < x->ship.n_in; i++) k->came[i] = a->policy->run;
    RT_TRY(rt_peers_predict(a->r->peers, x->site, rt_ship_rows_out(a->r, &x->ship) * w, 1, st));
    RT_TRY(rt_peers_exchange_begin(a->r->peers, x->site, k->sent, bytes[0], k->rows, bytes[1], &k->flight, st));
    k->flies = true;
    if (a->overlap) rt_overlap_flies(a, 1);
    return a->overlap ? RT_OK : settle(a, k, st);
}

/* Rows that came from those at a place, by process, to where this one reads them. */
static void take_whole(const RtAcross *a, const RtExchange *x, const Kept *k, int place, const char *came)
{
    char *rows = a->e->buffers[x->buffer];
    int64_t w = x->row_bytes, i = 0;
    for (int q = 0; q < a->r->n; q++) {
        bool here = q % places(a) == place;
        for (int64_t end = i + x->ship.in_n[q]; i < end; i++)
            if (here) memcpy(rows + x->ship.in[i] * w, came + k->at_owner[i] * w, (size_t)w);
        if (here) came += k->owned[q] * w;
    }
}

static RtCode run_in_turn(RtAcross *a, int64_t exchange, RtStatus *st)
{
    const RtExchange *x = &a->exchanges[exchange];
    const Kept *kept = &a->policy->kept[exchange];
    int64_t bytes[RT_PEERS_MOST], sent = 0, w = x->row_bytes;
    int rank = a->r->rank, n = a->r->n, c = places(a), own = rank % c;
    bool among[RT_PEERS_MOST];
    char *has = a->e->buffers[x->buffer], *in = across_room(a);
    for (int64_t k = 0; k < rounds_in_turn(a); k++)
        for (int q = 0; q < n; q++) sent += bytes_in_turn(a, kept, w, k, q);
    RT_TRY(rt_peers_predict(a->r->peers, x->site, sent, rounds_in_turn(a), st));
    for (int q = 0; q < n; q++) among[q] = q % c == own;
    if (c < n) {
        int64_t own_bytes = owned_at(a, kept, own, w, bytes);
        RT_TRY(rt_peers_gather_among(a->r->peers, x->site, among, has, bytes, in, st));
        has = in;
        in += own_bytes;
        take_whole(a, x, kept, own, has);
    }
    for (int q = 0; q < n; q++) among[q] = q / c == rank / c;
    for (int place = 0; place < c; place++) {
        int64_t all = owned_at(a, kept, place, w, bytes);
        for (int q = 0; q < n; q++) bytes[q] = among[q] && q % c == place ? all : 0;
        char *from = place == own ? has : in;
        RT_TRY(rt_peers_gather_among(a->r->peers, x->site, among, place == own ? has : NULL, bytes, from, st));
        if (place != own) take_whole(a, x, kept, place, from);
    }
    return RT_OK;
}

/* All rows, at once. */
static RtCode run_whole(RtAcross *a, const RtExchange *x, RtStatus *st)
{
    RT_TRY(rt_peers_predict(a->r->peers, x->site, rt_ship_rows_out(a->r, &x->ship) * x->row_bytes, 1, st));
    return rt_ship_run(a->r, &x->ship, x->site, a->e->buffers[x->buffer], a->e->buffers[x->buffer], x->row_bytes, st);
}

RtCode rt_policy_run(RtAcross *a, int64_t exchange, RtStatus *st)
{
    assert(a->policy->run >= 0);
    const struct RtRounds *rounds = a->policy->rounds;
    if (rounds) return rt_rounds_moves(rounds, exchange) ? RT_OK : run_whole(a, &a->exchanges[exchange], st);
    if (a->policy->sample) return rt_sample_run(a, a->policy->sample, exchange, st);
    if (a->policy->is->late && a->policy->run) return run_late(a, exchange, st);
    return a->policy->is->in_turn ? run_in_turn(a, exchange, st) : run_chosen(a, exchange, st);
}

RtCode rt_policy_after(RtAcross *a, int64_t step, RtStatus *st)
{
    return a->policy->sample ? rt_sample_push(a, a->policy->sample, step, st) : RT_OK;
}
