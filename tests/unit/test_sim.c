/* What runs of many processes would take (runtime/sim.h): links, tables of stages and the order of transfers against
   formulas, sums that are done, and all orders; and ranks that take turns in one process (runtime/peers_sim.h). */
#include "runtime/peers_sim.h"
#include "runtime/sim.h"
#include "tests/unit/check.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static RtSimTopology nodes_of(int64_t ranks, int64_t shared_by)
{
    RtSimTopology t = {.n_levels = 2};
    t.levels[0] = (RtSimLevel){.name = "node", .ranks = ranks, .alpha_s = 1e-6, .bytes_per_s = 50e9, .shared_by = 1};
    t.levels[1] = (RtSimLevel){
        .name = "network", .ranks = INT32_MAX, .alpha_s = 7e-6, .bytes_per_s = 10e9, .shared_by = shared_by};
    return t;
}

/* ---- links ---- */

static void test_links(void)
{
    RtSimTopology t = nodes_of(2, 2);
    RtSimLinks l, other;
    RtStatus st = {0};
    double start[4] = {0, 0, 0, 0}, finish[4];
    check_begin();
    CHECK(rt_sim_level(&t, 0, 1) == 0 && rt_sim_level(&t, 1, 2) == 1);
    CHECK(!rt_sim_links_create(&t, 4, &l, &st));
    RtSimMessage one[] = {{0, 1, 50e3}};
    rt_sim_exchange(&l, one, 1, false, start, finish);
    CHECK(near(finish[1], 1e-6 + 1e-6) && finish[0] == 0 && finish[2] == 0);
    /* two senders share one link, and one receiver's is shared by both of its node */
    RtSimMessage two[] = {{0, 2, 10e3}, {1, 3, 20e3}};
    rt_sim_exchange(&l, two, 2, false, start, finish);
    CHECK(near(finish[2], 3e-6 + 7e-6) && near(finish[3], 3e-6 + 7e-6) && finish[0] == 0);
    /* the link is busy until 3 us */
    RtSimMessage later[] = {{1, 2, 10e3}};
    rt_sim_exchange(&l, later, 1, false, start, finish);
    CHECK(near(finish[2], 4e-6 + 7e-6));
    CHECK(l.bytes[0] == 50e3 && l.bytes[1] == 40e3 && l.messages == 4);
    rt_sim_links_free(&l);
    /* who gets nothing of a rank does not wait for it, whenever it begins */
    CHECK(!rt_sim_links_create(&t, 4, &l, &st));
    double late[4] = {0, 5e-3, 0, 0};
    rt_sim_exchange(&l, one, 1, true, late, finish);
    CHECK(near(finish[0], 1e-6) && near(finish[1], 5e-3) && finish[2] == 0 && finish[3] == 0);
    rt_sim_exchange(&l, NULL, 0, true, late, finish);
    CHECK(finish[0] == 0 && finish[1] == 5e-3);
    rt_sim_links_free(&l);
    CHECK(!rt_sim_links_create(&t, 4, &l, &st));
    /* a message takes its time of the link beside its bytes, and two of them that of the link that is shared */
    t.levels[1].message_s = 1e-6;
    CHECK(!rt_sim_links_create(&t, 4, &other, &st));
    double none[4] = {0};
    rt_sim_exchange(&other, two, 2, true, none, finish);
    CHECK(near(finish[2], 5e-6 + 7e-6) && near(finish[0], 5e-6) && other.messages == 2);
    rt_sim_links_free(&other);
    t.levels[1].message_s = 0;
    /* who sends late is sent late, whatever its number: the link works meanwhile */
    t.levels[1].shared_by = 1;
    RtSimMessage order[] = {{0, 2, 10e3}, {1, 2, 10e3}};
    double begins[4] = {10e-6, 0, 0, 0};
    rt_sim_exchange(&l, order, 2, false, begins, finish);
    CHECK(near(finish[2], 11e-6 + 7e-6));
    rt_sim_links_free(&l);
    check_end("sim_links");
}

static void test_topology(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"levels\": []}", "1 to 8 levels"},
        {"{\"level\": 1}", "1 to 8 levels"},
        {"{\"levels\": [{\"name\": \"a\", \"alpha_s\": 0}]}", "bytes_per_s"},
        {"{\"levels\": [{\"name\": \"a\", \"alpha_s\": -1, \"bytes_per_s\": 1}]}", "alpha_s"},
        {"{\"levels\": [{\"name\": \"a\", \"alpha_s\": 0, \"bytes_per_s\": 0}]}", "above 0"},
        {"{\"levels\": [{\"alpha_s\": 0, \"bytes_per_s\": 1}]}", "name"},
        {"{\"levels\": [{\"name\": \"a\", \"alpha_s\": 0, \"bytes_per_s\": 1, \"gbit\": 1}]}", "gbit"},
        {"{\"levels\": [{\"name\": \"a\", \"alpha_s\": 0, \"bytes_per_s\": 1, \"ranks\": 4}]}", "holds all ranks"},
        {"{\"levels\": [{\"name\": \"a\", \"alpha_s\": 0, \"bytes_per_s\": 1}, {\"name\": \"b\", \"alpha_s\": 0, "
         "\"bytes_per_s\": 1}]}",
         "level 0, `ranks`"},
        {"{\"levels\": [{\"name\": \"a\", \"ranks\": 4, \"alpha_s\": 0, \"bytes_per_s\": 1, \"shared_by\": 3}, "
         "{\"name\": "
         "\"b\", \"alpha_s\": 0, \"bytes_per_s\": 1}]}",
         "divides"},
        {"{\"levels\": [{\"name\": \"a\", \"ranks\": 4, \"alpha_s\": 0, \"bytes_per_s\": 1}, {\"name\": \"b\", "
         "\"ranks\": 6, "
         "\"alpha_s\": 0, \"bytes_per_s\": 1}, {\"name\": \"c\", \"alpha_s\": 0, \"bytes_per_s\": 1}]}",
         "multiple"},
    };
    char path[4096];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/test_sim_XXXXXX", base && base[0] ? base : "/tmp");
    RtSimTopology t;
    RtStatus st = {0};
    check_begin();
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen(path, "w");
        fputs(bad[i].text, f);
        fclose(f);
        st = (RtStatus){0};
        RtCode code = rt_sim_topology_load(path, &t, &st);
        check(code == RT_E_SIM_TOPOLOGY && strstr(st.message, bad[i].says) && rt_code_exit(code) == 2, "%s: %d `%s`",
              bad[i].text, code, st.message);
    }
    FILE *f = fopen(path, "w");
    fputs(
        "{\"levels\": [{\"name\": \"node\", \"ranks\": 8, \"alpha_s\": 1e-6, \"bytes_per_s\": 5e10, \"shared_by\": 2, "
        "\"message_s\": 1e-7}, {\"name\": \"net\", \"alpha_s\": 5e-6, \"bytes_per_s\": 12.5e9, \"shared_by\": 8}]}",
        f);
    fclose(f);
    CHECK(!rt_sim_topology_load(path, &t, &st) && t.n_levels == 2 && t.levels[0].ranks == 8 &&
          t.levels[0].shared_by == 2);
    CHECK(t.levels[0].message_s == 1e-7 && t.levels[1].shared_by == 8 && t.levels[1].bytes_per_s == 12.5e9);
    CHECK(rt_sim_level(&t, 7, 8) == 1 && rt_sim_level(&t, 9, 15) == 0);
    remove(path);
    CHECK(rt_sim_topology_load(path, &t, &st) == RT_E_FILE_OPEN);
    check_end("sim_topology");
}

/* ---- stages ---- */

/* Does what a table says with numbers; false unless every rank has all. sum: of all ranks' vectors. */
static bool does(const RtSimStages *s, int n, bool gather)
{
    static int64_t have[MOST][MOST], before[MOST][MOST];
    for (int r = 0; r < n; r++)
        for (int p = 0; p < n; p++) have[r][p] = gather ? (r == p ? 100 + p : -1) : (1 << (r % 8)) + 1000 * p * (r + 1);
    int64_t want[MOST];
    for (int p = 0; p < n; p++) {
        want[p] = gather ? 100 + p : 0;
        for (int r = 0; r < n && !gather; r++) want[p] += have[r][p];
    }
    for (int i = 0; i < s->n_stages; i++) {
        memcpy(before, have, sizeof have);
        for (int64_t k = s->bounds[i]; k < s->bounds[i + 1]; k++) {
            const RtSimSend *x = &s->sends[k];
            for (int c = 0; c < x->count; c++) {
                int p = x->first + c * x->step;
                if (p >= n) return false;
                have[x->to][p] = before[x->from][p] + (x->adds ? have[x->to][p] : 0);
            }
        }
    }
    for (int r = 0; r < n; r++)
        for (int p = 0; p < n; p++)
            if (have[r][p] != want[p]) return false;
    return true;
}

static void test_tables(void)
{
    RtStatus st = {0};
    RtSimStages s;
    RtSimTopology three = nodes_of(4, 1);
    check_begin();
    three.n_levels = 3;
    three.levels[2] = three.levels[1];
    three.levels[1].ranks = 12;
    for (int gather = 0; gather < 2; gather++)
        for (int shape = 0; shape < RT_SIM_N_SHAPES; shape++)
            for (int n = 1; n <= 24; n++)
                for (int k = 1; k < 6; k++) {
                    RtSimTopology t = k == 5 ? three : nodes_of(k + 1, 1);
                    RtCode code = rt_sim_stages_make(&t, n, (RtSimShape)shape, gather, &s, &st);
                    bool divides = n <= t.levels[0].ranks || n % t.levels[0].ranks == 0;
                    if (k == 5) divides &= n <= 12 || n % 12 == 0;
                    if (shape == RT_SIM_STAGED && !divides) {
                        CHECK(code == RT_E_SIM_TOPOLOGY);
                        continue;
                    }
                    check(!code && does(&s, n, gather), "%s, %d ranks, groups of %d, gather %d", rt_sim_shapes[shape],
                          n, k + 1, gather);
                    rt_sim_stages_free(&s);
                }
    check_end("sim_tables");
}

/* BlueConnect's formula: T = sum over levels of 2 [(p - 1) alpha + (p - 1) / p N / (B prod of p further in)]. */
static void test_blueconnect(void)
{
    enum { N = 8, BYTES = 1 << 20 };
    RtSimTopology t = nodes_of(4, 1);
    RtSimLinks l;
    RtSimStages s;
    RtStatus st = {0};
    double pieces[N], at[N], slow[RT_SIM_N_SHAPES], took[RT_SIM_N_SHAPES];
    check_begin();
    for (int r = 0; r < N; r++) pieces[r] = BYTES / N;
    for (int shape = 0; shape < RT_SIM_N_SHAPES; shape++) {
        memset(at, 0, sizeof at);
        CHECK(!rt_sim_links_create(&t, N, &l, &st) && !rt_sim_stages_make(&t, N, (RtSimShape)shape, false, &s, &st));
        CHECK(!rt_sim_stages_run(&l, &s, pieces, at, &st));
        slow[shape] = l.bytes[1];
        took[shape] = 0;
        for (int r = 0; r < N; r++) took[shape] = fmax(took[shape], at[r]);
        rt_sim_stages_free(&s);
        rt_sim_links_free(&l);
    }
    double fast = 2 * (3 * 1e-6 + 3.0 / 4 * BYTES / 50e9), across = 2 * (1 * 7e-6 + 1.0 / 2 * BYTES / (10e9 * 4));
    check(near(took[RT_SIM_STAGED], fast + across), "staged took %.9g s, wanted %.9g", took[RT_SIM_STAGED],
          fast + across);
    CHECK(slow[RT_SIM_STAGED] == N * 2 * (1.0 / 2) * BYTES / 4); /* of all 8 ranks */
    CHECK(slow[RT_SIM_RING] == 2 * 2 * 7.0 / 8 * BYTES);         /* over two of the 8 links of the ring */
    CHECK(slow[RT_SIM_FLAT] == N * 2 * 4.0 / N * BYTES);
    CHECK(took[RT_SIM_STAGED] < took[RT_SIM_RING] && took[RT_SIM_STAGED] < took[RT_SIM_FLAT]);
    check_end("sim_blueconnect");
}

/* ---- the order of transfers ---- */

typedef struct Drawn {
    RtSimDag d;
    double receive_s[8], compute_s[24];
    uint64_t receives[24], after[24]; /* steps before each that it waits for */
} Drawn;

static void draw_dag(uint32_t *state, Drawn *x)
{
    *x = (Drawn){.d = {.receive_s = x->receive_s, .compute_s = x->compute_s, .receives = x->receives}};
    x->d.n_receives = 2 + (int)(draw(state) % 7);
    x->d.n_computes = 2 + (int)(draw(state) % 15);
    for (int r = 0; r < x->d.n_receives; r++) x->receive_s[r] = 1 + draw(state) % 20;
    for (int c = 0; c < x->d.n_computes; c++) {
        x->compute_s[c] = 1 + draw(state) % 20;
        for (int i = 0; i < 2; i++)
            if (c && draw(state) % 3) x->after[c] |= (uint64_t)1 << draw(state) % (uint32_t)c;
        if (draw(state) % 2 || !c) x->receives[c] |= (uint64_t)1 << draw(state) % (uint32_t)x->d.n_receives;
        for (int p = 0; p < c; p++)
            if (x->after[c] >> p & 1) x->receives[c] |= x->receives[p];
    }
}

/* When the last step is through: one that can begin does, the first in order of its number. */
static double makespan(const Drawn *x, const int *receives)
{
    const RtSimDag *d = &x->d;
    double came[RT_SIM_RECEIVES], at = 0;
    uint64_t done = 0;
    for (int i = 0; i < d->n_receives; i++) came[receives[i]] = at += d->receive_s[receives[i]];
    double end = at;
    at = 0;
    for (int n = 0; n < d->n_computes; n++) {
        int next = -1;
        double begins = INFINITY;
        for (int c = 0; c < d->n_computes; c++) {
            double ready = at;
            if (done >> c & 1 || x->after[c] & ~done) continue;
            for (int r = 0; r < d->n_receives; r++)
                if (d->receives[c] >> r & 1) ready = fmax(ready, came[r]);
            if (ready < begins) begins = ready, next = c;
        }
        assert(next >= 0);
        at = begins + d->compute_s[next];
        done |= (uint64_t)1 << next;
    }
    return fmax(end, at);
}

/* No order is quicker: all is received, and all is computed. */
static double least(const RtSimDag *d)
{
    double receives = 0, computes = 0;
    for (int r = 0; r < d->n_receives; r++) receives += d->receive_s[r];
    for (int c = 0; c < d->n_computes; c++) computes += d->compute_s[c];
    return fmax(receives, computes);
}

static void all_orders(const Drawn *x, int *order, int k, double *best)
{
    if (*best <= least(&x->d)) return;
    if (k == x->d.n_receives) *best = fmin(*best, makespan(x, order));
    for (int i = k; i < x->d.n_receives; i++) {
        int at = order[k];
        order[k] = order[i], order[i] = at;
        all_orders(x, order, k + 1, best);
        order[i] = order[k], order[k] = at;
    }
}

static void test_order(void)
{
    enum { GRAPHS = 1000 };
    uint32_t state = 5;
    int tac = 0, tic = 0, as_numbered = 0;
    check_begin();
    for (int i = 0; i < GRAPHS; i++) {
        Drawn x;
        int order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        double best = INFINITY;
        draw_dag(&state, &x);
        all_orders(&x, order, 0, &best);
        as_numbered += makespan(&x, order) <= 1.05 * best;
        rt_sim_order_tac(&x.d, order);
        tac += makespan(&x, order) <= 1.05 * best;
        rt_sim_order_tic(&x.d, order);
        tic += makespan(&x, order) <= 1.05 * best;
    }
    check(tac >= GRAPHS * 95 / 100, "TAC is within 5 %% of the best order in %d of %d, TIC in %d, numbers in %d", tac,
          GRAPHS, tic, as_numbered);
    check_end("sim_order");
    printf("within 5 %% of the best of all orders: TAC %d, TIC %d, as they are numbered %d of %d\n", tac, tic,
           as_numbered, GRAPHS);
}

/* ---- a program ---- */

typedef struct Made {
    double step_s[4][2]; /* by step and rank */
    double bytes[2];     /* of each travel, from rank 0 to rank 1 */
} Made;

static double made_step(const void *user, int rank, int64_t step) { return ((const Made *)user)->step_s[step][rank]; }

static double made_bytes(const void *user, int64_t travel, int from, int to)
{
    return from == to || from < to ? ((const Made *)user)->bytes[travel] : 0; /* of a gather: the piece of both */
}

/* Rounds of a sum: from rank 0 to rank 1, then back. */
static double round_bytes(const void *user, int64_t travel, int from, int to)
{
    return from == travel && to == 1 - travel ? ((const Made *)user)->bytes[travel] : 0;
}

static void test_replay(void)
{
    Made m = {{{1, 1}, {10, 10}, {1, 3}, {1, 1}}, {2e9, 8e9}};
    RtSimTravel travels[] = {{.step = 0, .made = 0, .reader = 2}, {.step = 3, .before = true, .made = 0, .reader = 3}};
    RtSimProgram p = {2, 4, 2, travels, 0, made_step, made_bytes, NULL, &m};
    RtSimTopology t;
    RtSimResult r;
    RtStatus st = {0};
    check_begin();
    rt_sim_topology_default(&t);
    t.levels[0].alpha_s = 0.5;
    t.levels[0].bytes_per_s = 1e9;
    /* rank 0: 1, sends until 3, 10, 1, sends from 14 until 22, 1; rank 1: 1, receives until 3.5, 10, 3, until 22.5,
       1 */
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_BLOCKING, RT_SIM_FLAT, &r, &st));
    check(near(r.run_s, 23.5) && near(r.wait_s[1], 2 + 8) && near(r.wait_s[0], (10 + 8.5) / 2), "%.9g, %.9g", r.run_s,
          r.wait_s[1]);
    CHECK(near(r.compute_s[0], 14) && near(r.compute_s[1], 15) && r.bytes[0] == 10e9 && r.messages == 2 &&
          r.gathers_s == 0);
    /* both are made at 1: the first is there at 3.5, the second at 11.5 */
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_TAC, RT_SIM_FLAT, &r, &st) && near(r.run_s, 15) && r.wait_s[1] == 0);
    m.bytes[1] = 18e9; /* there at 21.5 */
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_TAC, RT_SIM_FLAT, &r, &st) && near(r.run_s, 22.5) && near(r.wait_s[1], 7.5));
    /* who is read last is begun last, though it is made first */
    RtSimTravel turned[] = {{.step = 0, .made = 0, .reader = 3}, {.step = 0, .made = 0, .reader = 1}};
    p.travels = turned;
    m.bytes[0] = 9e9, m.bytes[1] = 1e9;
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_AS_MADE, RT_SIM_FLAT, &r, &st) && near(r.wait_s[1], 10.5));
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_TAC, RT_SIM_FLAT, &r, &st) && near(r.wait_s[1], 1.5) && near(r.run_s, 16.5));
    /* packing and unpacking */
    p.copy_s = 1e-9;
    p.n_travels = 1;
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_BLOCKING, RT_SIM_FLAT, &r, &st) && near(r.copy_s[0], 9) &&
          near(r.copy_s[1], 9));
    CHECK(near(r.run_s, 1 + 9 + 9.5 + 9 + 14));
    /* a round begins when what the one before it brings is there, also in overlap; nothing is copied */
    RtSimTravel rounds[] = {{.made = 0, .reader = 1, .kind = RT_SIM_ROUND},
                            {.made = 0, .reader = 1, .kind = RT_SIM_ROUND, .follows = true}};
    Made sum = {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}, {1e9, 2e9}};
    RtSimProgram back = {2, 4, 2, rounds, 1, made_step, round_bytes, NULL, &sum};
    for (int order = RT_SIM_BLOCKING; order <= RT_SIM_TAC; order++)
        CHECK(!rt_sim_replay(&back, &t, (RtSimOrder)order, RT_SIM_FLAT, &r, &st) && near(r.run_s, 1 + 1.5 + 2.5 + 1) &&
              r.copy_s[1] == 0 && r.messages == 2);
    /* pieces of 1e9 from both to both */
    turned[0].kind = RT_SIM_GATHER;
    m.bytes[0] = 1e9;
    CHECK(!rt_sim_replay(&p, &t, RT_SIM_BLOCKING, RT_SIM_RING, &r, &st) && near(r.gathers_s, 1.5));
    CHECK(near(r.run_s, 1 + 1.5 + 14) && r.bytes[0] == 2e9 && r.copy_s[1] == 0);
    check_end("sim_replay");
}

/* ---- ranks in one process ---- */

enum { RANKS = 9, SITE = 7 };
typedef struct Turns {
    int fails, differs; /* the rank that does; -1: none */
    int right, ended;
} Turns;

static char byte_of(int from, int to, int64_t i) { return (char)(from * 31 + to * 7 + i); }

static RtCode exchange(Turns *x, RtPeers *p, RtStatus *st)
{
    static char out[RANKS][RANKS * 100], in[RANKS][RANKS * 100]; /* of all ranks, which take turns */
    int me = rt_peers_rank(p), n = rt_peers_count(p);
    int64_t out_bytes[RANKS], in_bytes[RANKS], at = 0;
    for (int q = 0; q < n; q++) {
        out_bytes[q] = (me * 5 + q * 3) % 100;
        in_bytes[q] = (q * 5 + me * 3) % 100;
        for (int64_t i = 0; i < out_bytes[q]; i++) out[me][at++] = byte_of(me, q, i);
    }
    RT_TRY(rt_peers_exchange(p, SITE + (x->differs == me), out[me], out_bytes, in[me], in_bytes, st));
    at = 0;
    for (int q = 0; q < n; q++)
        for (int64_t i = 0; i < in_bytes[q]; i++)
            if (in[me][at++] != byte_of(q, me, i)) return rt_fail(st, RT_E_INTERNAL, NULL, NULL, "other bytes");
    return RT_OK;
}

static RtCode turns(void *user, RtPeers *p, RtStatus *st)
{
    Turns *x = user;
    for (int round = 0; round < 5; round++) {
        RT_TRY(exchange(x, p, st));
        if (x->fails == rt_peers_rank(p) && round == 2) return rt_fail(st, RT_E_DATA_META, "x.npy", NULL, "it is bad");
        x->right++;
    }
    RT_TRY(rt_peers_agree(p, RT_OK, st));
    x->ended++;
    return RT_OK;
}

static void test_turns(void)
{
    RtStatus st = {0};
    check_begin();
    for (int n = 1; n <= RANKS; n += 4) {
        Turns x = {-1, -1, 0, 0};
        CHECK(!rt_peers_sim_run(n, turns, &x, &st) && x.right == 5 * n && x.ended == n);
    }
    Turns one = {3, -1, 0, 0};
    CHECK(rt_peers_sim_run(RANKS, turns, &one, &st) == RT_E_DATA_META && !one.ended && strstr(st.message, "it is bad"));
    Turns other = {-1, 4, 0, 0};
    CHECK(rt_peers_sim_run(RANKS, turns, &other, &st) == RT_E_PEERS_DIFFER && !other.ended);
    check(strstr(st.message, "rank 4"), "%s", st.message);
    check_end("sim_turns");
}

int main(void)
{
    test_turns();
    test_links();
    test_topology();
    test_tables();
    test_blueconnect();
    test_order();
    test_replay();
    return check_done();
}
