/* Which values fuse stores, on small programs: the text of the groups says `stored` behind those that have memory. */
#include "passes/pipeline/budget.h"
#include "passes/fuse/fuse.h"
#include "tests/unit/check.h"
#include <string.h>

static const char *const head =
    "module m\ndim F = 64\ndim K = 16\ndim H = 8\ndim D = 8\ndim d = 128\nspace node\nspace edge : edges\n"
    "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\nmap node.all : node -> unit\nmap edge.all : edge "
    "-> unit\n"
    "graph g : data edge(edge.src, edge.dst)\n"
    "tensor x : input node[F] f32\ntensor y : input node[H,D] f32\ntensor s : input node[H] f32\n"
    "tensor e : input edge[H] f32\ntensor w : state [F,K] f32 init const(0)\nsites 1\n";

/* The groups as text, or "" where something is wrong. */
static const char *groups_of(Arena *a, const char *body, PassContext *ctx)
{
    Diags *d = ARENA_NEW(a, Diags);
    Source *src = ARENA_NEW(a, Source);
    const char *text = arena_printf(a, "%s%s", head, body);
    *d = (Diags){.arena = a};
    *src = (Source){"case.gir", text, (uint32_t)strlen(text)};
    *ctx = pass_context(a, d);
    ctx->keep_remarks = true;
    const IrModule *m = ir_parse(a, src, d);
    StrBuf out = {.arena = a};
    if (m && ir_verify(m, d)) fuse_print(fuse_module(ctx, m), &out);
    StrBuf say = {.arena = a};
    diags_print(d, &say, false);
    check(m && !d->n_errors, "%s", strbuf_cstr(&say));
    return strbuf_cstr(&out);
}

typedef struct Case {
    const char *name, *body;
    const char *op, *type; /* of the value in question */
    bool stored;
    const char *remark; /* a piece of some remark, or NULL */
} Case;

static const char *const cheap_thrice =
    "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via edge.src : edge[F] f32\n"
    "  %2 = const 0 : [] f32\n  %3 = max %1, %2 : edge[F] f32\n"
    "  %4 = reduce_sum %3 via edge.dst : node[F] f32\n  %5 = reduce_sum %3 via edge.src : node[F] f32\n"
    "  %6 = sum_dims %3 : edge[] f32\n"
    "  return a = %4\n  return b = %5\n  return c = %6\n}\n";
static const char *const dear_thrice =
    "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via edge.src : edge[F] f32\n"
    "  %2 = gather %0 via edge.dst : edge[F] f32\n  %3 = mul %1, %2 : edge[F] f32\n"
    "  %4 = sigmoid %3 : edge[F] f32\n  %5 = add %4, %1 : edge[F] f32\n"
    "  %6 = reduce_sum %5 via edge.dst : node[F] f32\n  %7 = reduce_sum %4 via edge.src : node[F] f32\n"
    "  return a = %6\n  return b = %7\n}\n";
static const char *const very_dear =
    "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via edge.src : edge[F] f32\n"
    "  %2 = gather %0 via edge.dst : edge[F] f32\n  %3 = mul %1, %2 : edge[F] f32\n"
    "  %4 = pow %3, %1 : edge[F] f32\n  %5 = pow %4, %2 : edge[F] f32\n  %6 = pow %5, %1 : edge[F] f32\n"
    "  %7 = pow %6, %2 : edge[F] f32\n  %8 = pow %7, %1 : edge[F] f32\n  %9 = pow %8, %2 : edge[F] f32\n"
    "  %10 = pow %9, %1 : edge[F] f32\n  %11 = pow %10, %2 : edge[F] f32\n  %12 = pow %11, %1 : edge[F] f32\n"
    "  %13 = pow %12, %2 : edge[F] f32\n  %14 = pow %13, %1 : edge[F] f32\n  %15 = pow %14, %2 : edge[F] f32\n"
    "  %16 = pow %15, %1 : edge[F] f32\n"
    "  %17 = reduce_sum %16 via edge.dst : node[F] f32\n  %18 = reduce_sum %16 via edge.src : node[F] f32\n"
    "  return a = %17\n  return b = %18\n}\n";
static const char *const coefficients =
    "func f(x = @x, e = @e) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : edge[H] f32\n"
    "  %2 = exp %1 : edge[H] f32\n  %3 = gather %0 via edge.src : edge[F] f32\n"
    "  %4 = mul %2, %3 : edge[H,F] f32\n  %5 = reduce_sum %4 via edge.dst : node[H,F] f32\n  return a = %5\n}\n";
static const char *const sums_of_one_row =
    "func f(y = @y, e = @e) {\n  %0 = arg 0 : node[H,D] f32\n  %1 = arg 1 : edge[H] f32\n"
    "  %2 = exp %1 : edge[H] f32\n  %3 = gather %0 via edge.src : edge[H,D] f32\n"
    "  %4 = mul %3, %2 : edge[H,D] f32\n  %5 = reduce_sum %2 via edge.dst : node[H] f32\n"
    "  %6 = reduce_sum %4 via edge.dst : node[H,D] f32\n  return a = %5\n  return b = %6\n}\n";
static const char *const narrow_cheap =
    "func f(s = @s, e = @e) {\n  %0 = arg 0 : node[H] f32\n  %1 = gather %0 via edge.src : edge[H] f32\n"
    "  %2 = gather %0 via edge.dst : edge[H] f32\n  %3 = add %1, %2 : edge[H] f32\n"
    "  %4 = reduce_max %3 via edge.dst empty 0 : node[H] f32\n  %5 = reduce_sum %3 via edge.src : node[H] f32\n"
    "  return a = %4\n  return b = %5\n}\n";
static const char *const mask_twice =
    "func f(x = @x, seed = seed, step = step) train {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [] i64\n"
    "  %2 = arg 2 : [] i64\n  %3 = random_uniform %1, %2 site 0 : edge[F] f32\n  %4 = const 0.5 : [] f32\n"
    "  %5 = le %4, %3 : edge[F] bool\n  %6 = const 0 : [] f32\n  %7 = gather %0 via edge.src : edge[F] f32\n"
    "  %8 = select %5, %7, %6 : edge[F] f32\n  %9 = gather %0 via edge.dst : edge[F] f32\n"
    "  %10 = select %5, %9, %6 : edge[F] f32\n  %11 = reduce_sum %8 via edge.dst : node[F] f32\n"
    "  %12 = reduce_sum %10 via edge.src : node[F] f32\n  return a = %11\n  return b = %12\n}\n";
static const char *const operand =
    "func f(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n  %2 = exp %0 : node[F] f32\n"
    "  %3 = contract %2, %1 : node[K] f32\n  return a = %3\n}\n";
static const char *const summed_once =
    "func f(y = @y, e = @e) {\n  %0 = arg 0 : node[H,D] f32\n  %1 = arg 1 : edge[H] f32\n"
    "  %2 = gather %0 via edge.src : edge[H,D] f32\n  %3 = exp %2 : edge[H,D] f32\n"
    "  %4 = contract %1, %3 : [H,D] f32\n  return a = %4\n}\n";
static const char *const dear_in_two_walks =
    "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via edge.src : edge[F] f32\n"
    "  %2 = gather %0 via edge.dst : edge[F] f32\n  %3 = mul %1, %2 : edge[F] f32\n  %4 = tanh %3 : edge[F] f32\n"
    "  %5 = reduce_sum %4 via edge.dst : node[F] f32\n  %6 = gather %5 via edge.dst : edge[F] f32\n"
    "  %7 = sub %4, %6 : edge[F] f32\n  %8 = abs %7 : edge[F] f32\n"
    "  %9 = reduce_sum %8 via edge.dst : node[F] f32\n  return a = %9\n}\n";
static const char *const dear_beside_a_maximum =
    "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via edge.src : edge[F] f32\n"
    "  %2 = reduce_max %1 via edge.dst empty 0 : node[F] f32\n  %3 = gather %2 via edge.dst : edge[F] f32\n"
    "  %4 = sub %1, %3 : edge[F] f32\n  %5 = exp %4 : edge[F] f32\n  %6 = reduce_sum %5 via edge.dst : node[F] f32\n"
    "  %7 = gather %6 via edge.dst : edge[F] f32\n  %8 = mul %5, %7 : edge[F] f32\n"
    "  %9 = reduce_sum %8 via edge.dst : node[F] f32\n  return a = %9\n}\n";

static const char *const cut_off =
    "func f(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n  %2 = sigmoid %0 : node[F] f32\n"
    "  %3 = exp %2 : node[F] f32\n  %4 = const 0.5 : [] f32\n  %5 = lt %4, %3 : node[F] bool\n"
    "  %6 = select %5, %3, %4 : node[F] f32\n  %7 = contract %6, %1 : node[K] f32\n  %8 = tanh %7 : node[K] f32\n"
    "  %9 = contract %8, %1 : node[F] f32\n  %10 = select %5, %9, %4 : node[F] f32\n  return a = %7\n  return b = "
    "%10\n}\n";
static const char *const cut_at_another =
    "func f(x = @x, w = @w) {\n  %0 = arg 0 : node[F] f32\n  %1 = arg 1 : [F,K] f32\n  %2 = sigmoid %0 : node[F] f32\n"
    "  %3 = exp %2 : node[F] f32\n  %4 = const 0.5 : [] f32\n  %5 = lt %4, %3 : node[F] bool\n  %6 = const 0 : [] f32\n"
    "  %7 = select %5, %3, %6 : node[F] f32\n  %8 = contract %7, %1 : node[K] f32\n  %9 = tanh %8 : node[K] f32\n"
    "  %10 = contract %9, %1 : node[F] f32\n  %11 = select %5, %10, %4 : node[F] f32\n  return a = %8\n  return b = "
    "%11\n}\n";

static const char *const put_together = "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = exp %0 : node[F] f32\n  "
                                        "%2 = concat %0, %1 dim d : node[d] f32\n"
                                        "  %3 = contract %2, %0 : [d,F] f32\n  return a = %3\n}\n";
static const char *const put_together_and_read =
    "func f(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = exp %0 : node[F] f32\n  %2 = concat %0, %1 dim d : node[d] "
    "f32\n"
    "  %3 = contract %2, %0 : [d,F] f32\n  %4 = sum_dims %2 : node[] f32\n  return a = %3\n  return b = %4\n}\n";

#define BY_TARGET                                                                                                      \
    "func f(x = @x, e = @e) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via edge.src : edge[F] f32\n"              \
    "  %2 = gather %0 via edge.dst : edge[F] f32\n  %3 = mul %1, %2 : edge[F] f32\n  %4 = sigmoid %3 : edge[F] f32\n"  \
    "  %5 = reduce_sum %4 via edge.dst : node[F] f32\n"
static const char *const sum_beside = BY_TARGET
    "  %6 = mul %4, %1 : edge[F] f32\n  %7 = reduce_sum %6 via edge.all : [F] f32\n"
    "  return a = %5\n  return b = %7\n}\n";
static const char *const outer_beside = BY_TARGET "  %6 = arg 1 : edge[H] f32\n  %7 = contract %4, %6 : [F,H] f32\n"
                                                  "  return a = %5\n  return b = %7\n}\n";
static const char *const rows_of_all = "are sums over the rows of edge.dst";

static const Case cases[] = {
    {"choice: a sum over all edges joins the walk by target", sum_beside, "reduce_sum", "[F]", true, rows_of_all},
    {"choice: an outer product does not", outer_beside, "contract", "[H,F]", true, NULL},
    {"choice: few operations per byte", cheap_thrice, "max", "edge[F]", false, "where it is used by 3 kernels"},
    {"choice: a few dozen operations per element", dear_thrice, "sigmoid", "edge[F]", false, NULL},
    {"choice: what is clearly dearer is stored", very_dear, "pow", "edge[F]", true, "is stored by 2 kernels"},
    {"choice: what sums of one row alone use stays in their kernel", sums_of_one_row, "exp", "edge[H]", false, NULL},
    {"choice: cheap scalars of an edge are not", narrow_cheap, "add", "edge[H]", false, NULL},
    {"choice: random numbers are drawn again", mask_twice, "random_uniform", "edge[F]", false, NULL},
    {"choice: their mask too", mask_twice, "le", "edge[F]", false, NULL},
    {"choice: what the vectors of a sum lack is staged", coefficients, "exp", "edge[H]", false,
     "is stored by 1 kernel:"},
    {"choice: what two walks of a row want is kept", dear_in_two_walks, "tanh", "edge[F]", false,
     "rows of %5 want, is kept in an array"},
    {"choice: what a maximum shifts is not", dear_beside_a_maximum, "exp", "edge[F]", false, NULL},
    {"choice: a product's operand is stored", operand, "exp", "node[F]", true, NULL},
    {"choice: a condition is read from what it cut off", cut_off, "exp", "node[F]", false, NULL},
    {"choice: but not where that is another number", cut_at_another, "exp", "node[F]", true, NULL},
    {"choice: a gradient is put together, not what it is of", put_together, "concat", "[d,F]", true, NULL},
    {"choice: but where that is read otherwise", put_together_and_read, "concat", "node[d]", true, NULL},
    {"choice: a sum of products that reads its operand once", summed_once, "exp", "edge[H,D]", false, NULL},
};

/* Is there a line of that operation and type that ends in `stored`? */
static bool is_stored(const char *text, const Case *c, bool *found)
{
    bool stored = false;
    *found = false;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t n = strcspn(line, "\n");
        const char *op = strstr(line, " = "), *type = strstr(line, " : ");
        if (!op || !type || op > line + n || type > line + n) continue;
        if (strncmp(op + 3, c->op, strlen(c->op)) || strncmp(type + 3, c->type, strlen(c->type))) continue;
        *found = true;
        stored |= n > 6 && !strncmp(line + n - 6, "stored", 6);
    }
    return stored;
}

static void run_case(const Case *c)
{
    check_begin();
    Arena *a = arena_new();
    PassContext ctx;
    const char *text = groups_of(a, c->body, &ctx);
    bool found, stored = is_stored(text, c, &found), said = !c->remark;
    check(found && stored == c->stored, "%s:\n%s", stored ? "stored" : "not stored", text);
    for (uint32_t i = 0; i < ctx.remarks.n && !said; i++) said = strstr(ctx.remarks.data[i].text, c->remark) != NULL;
    check(said, "no remark says `%s`", c->remark);
    check_end(c->name);
    arena_free(a);
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
    return check_done();
}
