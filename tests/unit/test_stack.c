/* The pass `stack` against what it replaces: of 24 values of a node, of which each edge reads the one that its key
   says, affine maps with a factor under a tanh, the parameters that the key says are chosen instead, through an end of
   the edges and at nodes that have a key of their own; and gradients by all that takes part. Both must agree within the
   interpreter's bounds, and the kernels of both with the interpreter, also where keys lie outside. Pieces that are not
   the same computation stay: of another operation, of other columns, turned, or not 0 where a key lies outside. */
#include "tests/unit/sides.h"

enum { PIECES = 24, F = 5, SECOND = 3 };

typedef enum {
    TANH,          /* the pieces are chosen from by their parameters */
    SIGMOID_BOUND, /* so are these: all keys have a place */
    SIGMOID,       /* these are not 0 where a key has none */
    OTHER_OP,
    OTHER_COLUMNS,
    TURNED,
    N_FORMS
} Form;

typedef struct Case {
    int64_t nodes, edges;
    Form form;
    const char *without; /* passes, or NULL */
} Case;

static bool is_taken(Form f) { return f <= SIGMOID_BOUND; }

/* Piece k: act((x W_k + b_k) c_k) : node[Ok], of values from `v` on; returns one more than the last. */
static int put_piece(StrBuf *s, int k, int v, Form form)
{
    bool turned = form == TURNED && k == SECOND, columns = form == OTHER_COLUMNS;
    const char *act = form == SIGMOID || form == SIGMOID_BOUND ? "sigmoid" : "tanh";
    if (form == OTHER_OP && k == SECOND) act = "sin";
    strbuf_printf(s, "%%%d = slice %%2 dim R at %d : [U,F,O] $ ", v, k);
    strbuf_printf(s, "%%%d = reshape %%%d : [%s,%s] $ ", v + 1, v, turned ? "O3" : "F",
                  turned ? "F" : arena_printf(s->arena, "O%d", k));
    strbuf_printf(s, "%%%d = slice %%6 dim E at %d : node[F] $ ", v + 2, columns && k == SECOND);
    strbuf_printf(s, "%%%d = contract %%%d, %%%d : node[O%d] $ ", v + 3, v + 2, v + 1, k);
    strbuf_printf(s, "%%%d = slice %%3 dim R at %d : [U,O] $ %%%d = reshape %%%d : [O%d] $ ", v + 4, k, v + 5, v + 4,
                  k);
    strbuf_printf(s, "%%%d = add %%%d, %%%d : node[O%d] $ ", v + 6, v + 3, v + 5, k);
    strbuf_printf(s, "%%%d = slice %%4 dim R at %d : [U] $ %%%d = reshape %%%d : [] $ ", v + 7, k, v + 8, v + 7);
    strbuf_printf(s, "%%%d = mul %%%d, %%%d : node[O%d] $ ", v + 9, v + 6, v + 8, k);
    strbuf_printf(s, "%%%d = %s %%%d : node[O%d] $ ", v + 10, act, v + 9, k);
    return v + 11;
}

static const char *text_of(Arena *a, Form form)
{
    const char *bound = form == SIGMOID_BOUND ? arena_printf(a, "bound %d ", PIECES) : "";
    StrBuf s = {.arena = a};
    int pieces[PIECES], v = 7;
    strbuf_printf(&s, "module m dim R = %d dim F = %d dim O = %d dim U = 1 dim E = 6 dim all = %d ", PIECES, F, F,
                  PIECES * F);
    for (int k = 0; k < PIECES; k++) strbuf_printf(&s, "dim O%d = %d ", k, F);
    strbuf_printf(
        &s,
        "space node space edge : edges map node.all : node -> unit map es : edge -> node map ed : edge -> node "
        "sorted graph gr : data edge(es, ed) tensor x : input node[E] $ tensor k : input edge[] i64 %s"
        "tensor W : param [R,F,O] $ stored [%d,%d,%d] perm(0,1,2) init const(0) tensor b : param [R,O] $ "
        "stored [%d,%d] perm(0,1) init const(0) tensor c : param [R] $ stored [%d] perm(0) init const(0) "
        "tensor kind : input node[] i64 %s"
        "func f(x = @x, k = @k, W = @W, b = @b, c = @c, kind = @kind) { %%0 = arg 0 : node[E] $ %%1 = arg 1 : "
        "edge[] i64 %%2 = arg 2 : [R,F,O] $ %%3 = arg 3 : [R,O] $ %%4 = arg 4 : [R] $ %%5 = arg 5 : node[] i64 "
        "%%6 = sin %%0 : node[E] $ ",
        bound, PIECES, F, F, PIECES, F, PIECES, bound);
    for (int k = 0; k < PIECES; k++) {
        v = put_piece(&s, k, v, form);
        pieces[k] = v - 1;
    }
    strbuf_printf(&s, "%%%d = concat ", v);
    for (int k = 0; k < PIECES; k++) strbuf_printf(&s, "%s%%%d", k ? ", " : "", pieces[k]);
    strbuf_printf(&s, " dim all : node[all] $ %%%d = reshape %%%d : node[R,O] $ ", v + 1, v);
    strbuf_printf(&s, "%%%d = gather %%%d via es : edge[R,O] $ %%%d = at %%%d, %%1 dim R : edge[O] $ ", v + 2, v + 1,
                  v + 3, v + 2);
    strbuf_printf(&s, "%%%d = reduce_sum %%%d via ed : node[O] $ ", v + 4, v + 3);
    strbuf_printf(&s, "%%%d = at %%%d, %%5 dim R : node[O] $ ", v + 5, v + 1);
    strbuf_printf(&s, "%%%d = mul %%%d, %%%d : node[O] $ ", v + 6, v + 4, v + 5);
    strbuf_printf(&s, "%%%d = sum_dims %%%d : node[] $ %%%d = reduce_sum %%%d via node.all : [] $ ", v + 7, v + 6,
                  v + 8, v + 7);
    strbuf_printf(&s, "%%%d = grad %%%d, %%0 : node[E] $ %%%d = grad %%%d, %%2 : [R,F,O] $ ", v + 9, v + 8, v + 10,
                  v + 8);
    strbuf_printf(&s, "%%%d = grad %%%d, %%3 : [R,O] $ %%%d = grad %%%d, %%4 : [R] $ ", v + 11, v + 8, v + 12, v + 8);
    strbuf_printf(
        &s, "return a = %%%d return d = %%%d return dx = %%%d return dW = %%%d return db = %%%d return dc = %%%d }",
        v + 4, v + 5, v + 9, v + 10, v + 11, v + 12);
    return strbuf_cstr(&s);
}

static double filled(IrType t, uint32_t arg, uint64_t i, const void *user)
{
    const Case *c = user;
    double u = sides_number(arg + 7, i);
    if (t.dtype != IR_I64) return (double)(float)(u - 0.5);
    return c->form == SIGMOID_BOUND ? floor(u * PIECES) : floor(u * (PIECES + 4)) - 2;
}

/* Concats that have a row for each node. */
static uint32_t n_wholes(const IrModule *m)
{
    const IrFunc *f = m->funcs.data[0];
    uint32_t n = 0;
    for (IrId v = 0; v < f->ops.n; v++) n += f->ops.data[v].op == IR_OP_concat && f->ops.data[v].type.space != IR_UNIT;
    return n;
}

static void test_case(const char *dtype, const Case *c)
{
    Arena *a = arena_new();
    Diags d;
    PassContext ctx;
    Sides s;
    check_begin();
    const IrModule *m = sides_make(a, &d, &ctx, text_of(a, c->form), dtype, PASS_stack, PASS_dce, &s);
    if (m && check(n_wholes(m) == !is_taken(c->form), "%u values of all pieces", n_wholes(m)) &&
        sides_evaluate(a, &s, c->nodes, c->edges, filled, c)) {
        sides_compare(&s, 0, 0);
        if (is_taken(c->form)) sides_run(a, &s, c->without);
    }
    check_end(arena_printf(a, "stack: %s, %lld nodes, %lld edges, form %d%s%s", dtype, (long long)c->nodes,
                           (long long)c->edges, (int)c->form, c->without ? ", without " : "",
                           c->without ? c->without : ""));
    arena_free(a);
}

int main(void)
{
    static const Case cases[] = {{1, 0, TANH, NULL},
                                 {1, 3, TANH, NULL},
                                 {20, 50, TANH, NULL},
                                 {20, 50, TANH, "fuse"},
                                 {12, 40, SIGMOID_BOUND, NULL},
                                 {12, 40, SIGMOID, NULL},
                                 {12, 40, OTHER_OP, NULL},
                                 {12, 40, OTHER_COLUMNS, NULL},
                                 {12, 40, TURNED, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case("f32", &cases[i]);
        test_case("f64", &cases[i]);
    }
    return check_done();
}
