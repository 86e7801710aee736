/* Memory budgets (passes/pipeline/budget.h) where counts and sizes are so large that their products have no 64 bits:
   nothing that overflows fits into a budget. */
#include "passes/pipeline/budget.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <string.h>

/* Nodes, edges and twice those with loops, pairs of targets and keys, nonzeros of x, and a value that stays. */
static const char text[] =
    "module m\ndim F = 64\ndim R = 4\nspace node\nspace edge : edges\nspace more : edges\nspace most : edges\nspace "
    "col : dim F\n"
    "space z\nspace key : dim R\nspace pair : edges\nmap edge.src : edge -> node\nmap edge.dst : edge -> node "
    "sorted\nmap node.all : node -> unit\n"
    "map more.src : more -> node\nmap more.dst : more -> node sorted\nmap more.orig : more -> edge partial inverse "
    "more.image\n"
    "map more.image : edge -> more partial inverse more.orig\nmap most.src : most -> node\nmap most.dst : most -> node "
    "sorted\n"
    "map most.orig : most -> more partial inverse most.image\nmap most.image : more -> most partial inverse most.orig\n"
    "map z.row : z -> node sorted\nmap z.col : z -> col\n"
    "map edge.kind : edge -> key partial\nmap pair.row : pair -> node\nmap pair.key : pair -> key sorted\n"
    "map edge.pair : edge -> pair partial\ngraph g : data edge(edge.src, edge.dst)\n"
    "graph h : self_loops(g, add) more(more.src, more.dst) orig more.orig image more.image\n"
    "graph i : self_loops(h, add) most(most.src, most.dst) orig most.orig image most.image\n"
    "graph p : keyed(g, 0.5) pair(pair.row, pair.key) by edge.dst of edge.kind image edge.pair\n"
    "tensor kind : input edge[] i64 bound 4 map edge.kind\n"
    "tensor x : input node[F] f32\ntensor xz : input z[] f32 nonzeros x(z.row, z.col)\ntensor k : held node[F] f32\n"
    "sites 1\n"
    "func setup.k(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = exp %0 : node[F] f32\n  return k = %1 -> @k\n}\n"
    "func f(k = @k) {\n  %0 = arg 0 : node[F] f32\n  %1 = reduce_sum %0 via node.all : [F] f32\n  return s = %1\n}\n";

static IrModule *module_of(Arena *a, Diags *d)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"m.gir", text, sizeof text - 1};
    IrModule *m = ir_parse(a, src, d);
    StrBuf say = {.arena = a};
    bool good = m && ir_verify(m, d);
    diags_print(d, &say, false);
    return check(good, "%s", strbuf_cstr(&say)) ? m : NULL;
}

static IrId space_of(const IrModule *m, const char *name)
{
    IrId s = 0;
    while (strcmp(m->spaces.data[s].name, name)) s++;
    return s;
}

static void test_rows(void)
{
    Arena *a = arena_new();
    Diags d = {.arena = a};
    check_begin();
    const IrModule *m = module_of(a, &d);
    if (m) {
        IrId most = space_of(m, "most"), z = space_of(m, "z");
        PassBudget few = {.nodes = 10, .edges = 30, .graphs = 1},
                   many = {.nodes = INT64_MAX / 2, .edges = INT64_MAX / 2, .graphs = 1};
        CHECK(budget_rows(m, &few, most) == 50 && budget_rows(m, &few, z) == 640);
        CHECK(budget_rows(m, &many, most) == INT64_MAX && budget_rows(m, &many, z) == INT64_MAX);
        IrId pair = space_of(m, "pair");
        const PassPairs counted = {.input = "kind", .edges = 30, .src_pairs = 21, .dst_pairs = 17};
        PassBudget sparse = {.nodes = 5, .edges = 30, .graphs = 1}, known = few;
        known.pairs = &counted, known.n_pairs = 1;
        CHECK(budget_rows(m, &few, pair) == 30 && budget_rows(m, &sparse, pair) == 20);
        CHECK(budget_rows(m, &known, pair) == 17 && budget_rows(m, &many, pair) == INT64_MAX / 2);
    }
    check_end("rows that 64 bits cannot count are as many as can be");
    arena_free(a);
}

/* What a budget of so many bytes is told. */
static const char *refusal(Arena *a, int64_t bytes, int64_t nodes)
{
    Diags *d = ARENA_NEW(a, Diags);
    *d = (Diags){.arena = a};
    PassContext ctx = pass_context(a, d);
    PassBudget b = {.bytes = bytes, .nodes = nodes, .edges = 100, .graphs = 1};
    const IrModule *m = module_of(a, d);
    ctx.budget = &b;
    StrBuf say = {.arena = a};
    if (m && !fuse_module(&ctx, m)) diags_print(d, &say, false);
    return strbuf_cstr(&say);
}

static void test_held(void)
{
    Arena *a = arena_new();
    check_begin();
    const char *small = refusal(a, 1000, 100), *fits = refusal(a, 100000, 100);
    check(strstr(small, "E0618") && strstr(small, "--memory-budget="), "%s", small);
    check(!fits[0], "%s", fits);
    for (int bits = 48; bits < 63; bits++) { /* 2^56 rows of 256 bytes are 2^64 */
        const char *why = refusal(a, INT64_MAX, (int64_t)1 << bits);
        bool fit = bits < 63 - 8;
        check(fit ? !why[0] : strstr(why, "E0618") && strstr(why, "64 bits"), "2^%d nodes: %s", bits, why);
    }
    check_end("what stays counts, also where 64 bits cannot say its bytes");
    arena_free(a);
}

int main(void)
{
    test_rows();
    test_held();
    return check_done();
}
