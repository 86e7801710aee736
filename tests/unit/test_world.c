/* The worlds that the interpreter builds: derived graphs, stored order and maps, worked out by hand. */
#include "ir/eval.h"
#include "tests/unit/check.h"

static IrModule *parse(Arena *a, const char *text)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", text, (uint32_t)strlen(text)};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    check(m != NULL, "%s", d.list.n ? d.list.data[0]->text : "no module");
    return m;
}

static const char *const LOOPS =
    "module m space node space edge : edges space l : edges map es : edge -> node map ed : edge -> "
    "node sorted map ls : l -> node "
    "map ld : l -> node sorted map lo : l -> edge partial inverse li map li : edge -> l partial "
    "inverse lo "
    "graph g : data edge(es, ed) graph gl : self_loops(g, %s) l(ls, ld) orig lo image li";

typedef struct LoopCase {
    const char *policy;
    int n;
    int64_t ids[12], src[12], orig[12]; /* of the stored edges */
    int64_t image[6];                   /* of the base's stored edges */
} LoopCase;

/* Edges of 3 nodes: 0-0, 1-0, 0-0, 2-1, 1-1, 0-2. Stored order is the user's: into 0, into 1,
 * into 2. */
static const int64_t LSRC[] = {0, 1, 0, 2, 1, 0}, LDST[] = {0, 0, 0, 1, 1, 2};
static const LoopCase loop_cases[] = {
    {"keep", 6, {0, 1, 2, 3, 4, 5}, {1, 0, 2, 1, 0, 2}, {1, 2, 3, 4, 5, -1}, {-1, 0, 1, 2, 3, 4}},
    {"replace", 6, {0, 3, 1, 4, 2, 5}, {1, 0, 2, 1, 0, 2}, {1, -1, 3, -1, 5, -1}, {-1, 0, -1, 2, -1, 4}},
    {"add",
     9,
     {0, 1, 2, 6, 3, 4, 7, 5, 8},
     {0, 1, 0, 0, 2, 1, 1, 0, 2},
     {0, 1, 2, -1, 3, 4, -1, 5, -1},
     {0, 1, 2, 4, 5, 7}},
    {"remove", 3, {0, 1, 2}, {1, 2, 0}, {1, 3, 5}, {-1, 0, -1, 1, -1, 2}},
};

static void test_loops(void)
{
    EvalGraph g = {3, 3, 6, LSRC, LDST};
    for (size_t i = 0; i < sizeof loop_cases / sizeof *loop_cases; i++) {
        const LoopCase *c = &loop_cases[i];
        Arena *a = arena_new();
        const char *why;
        check_begin();
        IrModule *m = parse(a, arena_printf(a, LOOPS, c->policy));
        EvalWorld *w = m ? eval_world(a, m, &g, NULL, 1, &why) : NULL;
        if (check(w && w->counts[3] == c->n, "%lld loops", w ? (long long)w->counts[3] : -1)) {
            for (int k = 0; k < c->n; k++)
                check(w->element_ids[3][k] == c->ids[k] && w->maps[2][k] == c->src[k] && w->maps[4][k] == c->orig[k],
                      "edge %d: id %lld src %lld orig %lld", k, (long long)w->element_ids[3][k],
                      (long long)w->maps[2][k], (long long)w->maps[4][k]);
            for (int k = 0; k < 6; k++) CHECK(w->maps[5][k] == c->image[k]);
        }
        check_end(arena_printf(a, "self loops: %s", c->policy));
        arena_free(a);
    }
}

static void test_derived(void)
{
    Arena *a = arena_new();
    const char *why;
    check_begin();
    IrModule *m = parse(a, "module m space p space q space edge : edges space back : edges space "
                           "rn space r : edges map s : edge -> p "
                           "map d : edge -> q sorted map bs : back -> q map bd : back -> p sorted "
                           "map rs : r -> rn map rd : r -> rn "
                           "sorted graph g : data edge(s, d) graph b : reverse(g) back(bs, bd) "
                           "graph h : random(9, 40, 5) r(rs, rd)");
    static const int64_t src[] = {2, 0, 2}, dst[] = {1, 1, 0};
    EvalGraph g = {3, 2, 3, src, dst};
    EvalWorld *w = m ? eval_world(a, m, &g, NULL, 1, &why) : NULL;
    if (check(w != NULL, "no world")) {
        CHECK(w->counts[1] == 3 && w->counts[2] == 2 && w->counts[4] == 3 && w->counts[5] == 9 && w->counts[6] == 40);
        CHECK(w->maps[0][0] == 2 && w->maps[0][1] == 2 && w->maps[0][2] == 0); /* by destination 0, 1, 1 */
        CHECK(w->maps[2][0] == 1 && w->maps[2][1] == 1 && w->maps[2][2] == 0); /* reversed, by 0, 2, 2 */
        CHECK(w->element_ids[4][0] == 1 && w->element_ids[4][1] == 0 && w->element_ids[4][2] == 2);
        for (int64_t k = 0; k < 40; k++) {
            uint64_t id = (uint64_t)w->element_ids[6][k];
            CHECK(w->maps[4][k] == eval_philox(5, 0, 0, id, 0) % 9 &&
                  w->maps[5][k] == eval_philox(5, 0, 0, id, 16) % 9);
            CHECK(k == 0 || w->maps[5][k - 1] <= w->maps[5][k]);
        }
    }
    check_end("reversed bipartite and random graphs");
    arena_free(a);
}

static void test_tiny_graphs(void)
{
    static const int64_t loop[] = {0};
    static const EvalGraph graphs[] = {
        {1, 1, 0, NULL, NULL}, {1, 1, 1, loop, loop}, {0, 0, 0, NULL, NULL}, {3, 3, 0, NULL, NULL}};
    static const double want[] = {0, 1, 0, 0};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        Arena *a = arena_new();
        const char *why;
        check_begin();
        IrModule *m = parse(a, "module m space node space edge : edges map s : edge -> node map d : edge -> node "
                               "sorted map all : node -> "
                               "unit graph g : data edge(s, d) func f() { %0 = const 1 : edge[] f32 %1 = reduce_sum "
                               "%0 via d : node[] "
                               "f32 %2 = reduce_sum %1 via all : [] f32 %3 = reduce_max %1 via all empty 5 : [] f32 "
                               "return a = %2 return b = %3 }");
        EvalWorld *w = m ? eval_world(a, m, &graphs[i], NULL, 1, &why) : NULL;
        EvalValue **r = w ? eval_func(a, m, w, m->funcs.data[0], NULL, &why) : NULL;
        CHECK(r && r[0]->v[0] == want[i] && r[0]->err[0] == 0);
        CHECK(r && r[1]->v[0] == (graphs[i].n_dst ? want[i] : 5));
        check_end(arena_printf(a, "tiny graph %zu", i));
        arena_free(a);
    }
}

static void refuse_world(const char *name, const EvalGraph *g, const int64_t *graph_of, int64_t n_graphs,
                         const char *want)
{
    Arena *a = arena_new();
    const char *why = "";
    check_begin();
    IrModule *m = parse(a, "module m space node space edge : edges space graph map s : edge -> "
                           "node map d : edge -> node sorted map n : "
                           "node -> graph sorted graph g : data edge(s, d)");
    CHECK(m && !eval_world(a, m, g, graph_of, n_graphs, &why));
    check(strstr(why, want) != NULL, "found `%s`", why);
    check_end(name);
    arena_free(a);
}

static void test_refusals(void)
{
    static const int64_t ids[] = {0, 3}, negative[] = {0, -1}, sorted_not[] = {1, 0, 1}, far[] = {0, 1, 2},
                         none[] = {0, 0};
    refuse_world("world: no data", NULL, NULL, 1, "none is given");
    refuse_world("world: id too large", &(EvalGraph){3, 3, 2, none, ids}, NULL, 1, "edge 1 joins nodes 0 and 3");
    refuse_world("world: id negative", &(EvalGraph){3, 3, 2, negative, none}, NULL, 1, "edge 1 joins nodes -1 and 0");
    refuse_world("world: bipartite data", &(EvalGraph){4, 3, 2, none, none}, NULL, 1,
                 "other sources than destinations");
    refuse_world("world: graphs not sorted", &(EvalGraph){3, 3, 2, none, none}, sorted_not, 2, "is not sorted");
    refuse_world("world: graph out of range", &(EvalGraph){3, 3, 2, none, none}, far, 2, "belongs to graph 2 of 2");
}

int main(void)
{
    test_loops();
    test_derived();
    test_tiny_graphs();
    test_refusals();
    return check_done();
}
