/* Graph IR: builders, text in and out, shape rules, verifier. What is refused is as much tested as
 * what is taken. */
#include "base/file.h"
#include "ir/graph.h"
#include "tests/unit/check.h"
#include <dirent.h>
#include <math.h>

/* ---- reading --------------------------------------------------------------------------------- */

static IrModule *read_text(Arena *a, const char *text, uint32_t n, const char **message)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", arena_strndup(a, text, n), n};
    Diags d = {.arena = a};
    IrModule *m = ir_parse(a, src, &d);
    *message = d.list.n ? d.list.data[0]->text : "";
    if (!m) CHECK(d.n_errors > 0 && (d.list.data[0]->code == E0501 || d.list.data[0]->code == E0502));
    if (m) CHECK(d.n_errors == 0);
    return m;
}

static const char *print(Arena *a, const IrModule *m)
{
    StrBuf b = {.arena = a};
    ir_print(m, &b);
    return strbuf_cstr(&b);
}

/* parse(print(m)) prints the same bytes. */
static void check_stable(Arena *a, const IrModule *m)
{
    const char *message, *once = print(a, m);
    IrModule *again = read_text(a, once, (uint32_t)strlen(once), &message);
    if (!check(again != NULL, "printed text is refused: %s", message)) return;
    check(!strcmp(print(a, again), once), "second print differs from the first");
}

/* ---- builders -------------------------------------------------------------------------------- */

static void test_builders(void)
{
    Arena *a = arena_new();
    IrModule *m = ir_module_new(a, "m");
    check_begin();
    IrId f = ir_dim_new(m, "F", 3), f2 = ir_dim_new(m, "F", 4), big = ir_dim_new(m, "B", INT64_MAX / 2);
    CHECK(!strcmp(m->dims.data[f].name, "F") && !strcmp(m->dims.data[f2].name, "F.2"));
    IrId node = ir_space_new(m, "node", false);
    IrType x = {.space = node, .dtype = IR_F32, .n_dims = 2, .dims = {f, f2}};
    IrType w = {.space = IR_UNIT, .dtype = IR_F32, .n_dims = 2, .dims = {f2, big}};
    IrType join = ir_type_join(&w, &x);
    CHECK(join.space == node && join.n_dims == 3 && join.dims[0] == f2 && join.dims[1] == big && join.dims[2] == f);
    CHECK(ir_type_width(m, &x) == 12 && ir_type_width(m, &w) < 0);
    CHECK(ir_type_has_dim(&x, f2) && !ir_type_has_dim(&x, big) && !ir_type_eq(&x, &w));
    CHECK(!strcmp(ir_type_text(m, &x, a), "node[F,F.2] f32"));
    check_end("builders");

    check_begin();
    IrModule *c = ir_module_clone(a, m);
    ir_dim_new(c, "C", 1);
    IrId in_original = ir_dim_new(m, "M", 2);
    CHECK(!strcmp(c->dims.data[in_original].name, "C") && !strcmp(m->dims.data[in_original].name, "M"));
    ir_func_new(c, "f");
    CHECK(m->funcs.n == 0 && ir_func_find(c, "f") && !ir_func_find(m, "f"));
    check_end("clone shares nothing that grows");
    arena_free(a);
}

static void test_attrs(void)
{
    Arena *a = arena_new();
    IrModule *m = ir_module_new(a, "m");
    IrFunc *f = ir_func_new(m, "f");
    check_begin();
    IrAttr noise = {.f = 3, .i = 4, .map = 5, .dim = 6, .site = 7};
    IrId one = ir_add(m, f, IR_OP_const, ir_scalar(IR_F32), NULL, 0, noise, (Span){0});
    IrId two = ir_add(m, f, IR_OP_neg, ir_scalar(IR_F32), &one, 1, noise, (Span){0});
    const IrAttr *k = &f->ops.data[one].attr, *n = &f->ops.data[two].attr;
    CHECK(k->f == 3 && k->i == 0 && k->map == IR_NONE && k->dim == IR_NONE && k->site == 0);
    CHECK(n->f == 0 && n->map == IR_NONE && f->ops.data[two].args[0] == one);
    check_end("attributes an op does not carry are dropped");
    arena_free(a);
}

/* ---- round trips ----------------------------------------------------------------------------- */

static void round_trip_file(const char *path)
{
    Arena *a = arena_new();
    size_t n;
    const char *why, *message;
    char *text = file_read(a, path, 0, &n, &why);
    check_begin();
    if (check(text != NULL, "%s: %s", path, why)) {
        IrModule *m = read_text(a, text, (uint32_t)n, &message);
        if (check(m != NULL, "refused: %s", message)) {
            check_stable(a, m);
            check(!strcmp(print(a, m), text), "the file is not what the printer writes");
        }
    }
    check_end(arena_printf(a, "round trip %s", path));
    arena_free(a);
}

static void test_files(void)
{
    DIR *dir = opendir("tests/ir");
    struct dirent *it;
    check_begin();
    CHECK(dir != NULL);
    check_end("tests/ir is there");
    while (dir && (it = readdir(dir))) {
        size_t n = strlen(it->d_name);
        char path[400];
        snprintf(path, sizeof path, "tests/ir/%s", it->d_name);
        if (n > 4 && !strcmp(it->d_name + n - 4, ".gir")) round_trip_file(path);
    }
    if (dir) closedir(dir);
}

/* Names that need quotes, numbers that need all digits, every kind of row. */
static void test_odd_module(void)
{
    Arena *a = arena_new();
    IrModule *m = ir_module_new(a, "a \"quoted\" \\ name\n\x01");
    IrId d = ir_dim_new(m, "4*F", 4), unknown = ir_dim_new(m, "D'", -1), node = ir_space_new(m, "node (paper)", false);
    ir_dim_new(m, "dim", 1);
    IrTensor p = {.name = "W 1", .kind = IR_PARAM, .init = IR_INIT_NORMAL, .init_a = 0.1, .init_b = 1e-310};
    p.type = (IrType){.space = node, .dtype = IR_F64, .n_dims = 2, .dims = {unknown, d}};
    p.stored_perm[0] = 1;
    VEC_PUSH(a, &m->tensors, p);
    IrFunc *f = ir_func_new(m, "export.x");
    static const double values[] = {0.1, -0.0, 1.0 / 3, 1e300, 5e-324, 123456789012345678.0, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        ir_add(m, f, IR_OP_const, ir_scalar(IR_F64), NULL, 0, (IrAttr){.f = values[i]}, (Span){0});
    ir_result(m, f, "r\xc3\xb6", 0, IR_NONE);
    check_begin();
    Diags diags = {.arena = a};
    check(ir_verify(m, &diags), "%s", diags.list.n ? diags.list.data[0]->text : "?");
    check_stable(a, m);
    const char *text = print(a, m), *message;
    IrModule *back = read_text(a, text, (uint32_t)strlen(text), &message);
    CHECK(back && !strcmp(back->name, m->name) && back->dims.data[unknown].size == -1);
    for (uint32_t i = 0; back && i < 8; i++)
        CHECK(!memcmp(&back->funcs.data[0]->ops.data[i].attr.f, &values[i], sizeof(double)));
    CHECK(back && isnan(back->funcs.data[0]->ops.data[8].attr.f));
    CHECK(back && back->tensors.data[0].init_b == 1e-310 && back->tensors.data[0].stored_perm[0] == 1);
    check_end("odd names and numbers survive");
    arena_free(a);
}

/* ---- shape rules and the verifier ------------------------------------------------------------ */

static const char HEAD[] = "module m\n"
                           "dim A = 2\ndim B = 3\ndim C = 6\ndim D = 1\ndim Q = ?\ndim H = 4611686018427387904\n"
                           "space node\nspace edge : edges\nspace pool\n"
                           "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\n"
                           "map node.all : node -> unit\nmap node.pool : node -> pool partial\n"
                           "graph g : data edge(edge.src, edge.dst)\n"
                           "tensor x : input node[A] f32\ntensor e : input edge[A] f32\ntensor w : param [A,B] f32 "
                           "stored [6] perm(1,0) init const(0)\ntensor i : input node[] i64\n"
                           "tensor s : state [A] f32 init const(0)\ntensor h : hyper [] f32 default 0.5\n"
                           "sites 2\n"
                           "func f(x = @x, e = @e, w = @w, i = @i, seed = seed, s = @s) {\n"
                           "  %0 = arg 0 : node[A] f32\n  %1 = arg 1 : edge[A] f32\n  %2 = arg 2 : [A,B] f32\n"
                           "  %3 = arg 3 : node[] i64\n  %4 = arg 4 : [] i64\n  %5 = lt %0, %0 : node[A] bool\n"
                           "  %6 = arg 5 : [A] f32\n";

typedef struct Case {
    const char *body; /* ops from %7 on, results, rows after the function */
    const char *want; /* NULL: taken; else a part of the message */
} Case;

static const Case cases[] = {
    /* leaves */
    {"%7 = arg 0 : node[A] f64 }", "the argument is node[A] f32"},
    {"%7 = arg 6 : node[A] f32 }", "argument 6 of 6"},
    {"%7 = arg -1 : node[A] f32 }", "argument -1 of 6"},
    {"%7 = const 1.5 : node[A,B] f32 %8 = const 2 : [] i32 %9 = const 1 : [] bool }", NULL},
    {"%7 = const 1.5 : [] i64 }", "1.5 is no value"},
    {"%7 = const 2 : [] bool }", "2 is no value"},
    {"%7 = const 3e9 : [] i32 }", "is no value"},
    {"%7 = const nan : [] i64 }", "is no value"},
    {"%7 = iota dim A : [A] i64 }", NULL},
    {"%7 = iota dim A : [B] i64 }", "wanted [A] i64"},
    {"%7 = iota dim A : node[A] i64 }", "wanted [A] i64"},
    {"%7 = element : edge[] i64 }", NULL},
    {"%7 = element : edge[A] i64 }", "wanted edge[] i64"},
    {"%7 = random_uniform %4, %4 site 1 : node[A] f32 }", NULL},
    {"%7 = random_normal %4, %4 site 2 : node[A] f32 }", "site 2 of 2"},
    {"%7 = random_normal %3, %4 site 0 : node[A] f32 }", "the seed is node[] i64"},
    {"%7 = iota dim A : [A] i64 %8 = random_normal_at %4, %4, %3, %7 site 0 : node[A] f32 }", NULL},
    {"%7 = random_uniform_at %4, %4, %0, %3 site 0 : node[A] f32 }", "operand 2 is node[A] f32, wanted i64"},
    {"%7 = random_uniform_at %4, %4, %3, %3 site 0 : [] f32 }", "lives in space `node`"},
    {"%7 = random_normal %4, %0 site 0 : node[A] f32 }", "the step is node[A] f32"},
    {"%7 = random_uniform %4, %4 site 0 : node[A] i64 }", "a float result"},
    /* pointwise */
    {"%7 = exp %0 : node[A] f32 }", NULL},
    {"%7 = exp %3 : node[] i64 }", "wanted a float"},
    {"%7 = exp %0 : node[A] f64 }", "operand 0 is node[A] f32"},
    {"%7 = add %0, %2 : node[B,A] f32 }", NULL},
    {"%7 = add %0, %1 : node[A] f32 }", "operand 1 lives in space `edge`"},
    {"%7 = add %0, %2 : node[A] f32 }", "operand 1 has dim `B`"},
    {"%7 = add %0, %6 : node[A,B] f32 }", "the result has dim `B`"},
    {"%7 = add %6, %6 : node[A] f32 }", "lives in space `node`, where no operand lives"},
    {"%7 = add %0, %6 : [A] f32 }", "operand 0 lives in space `node`"},
    {"%7 = add %5, %5 : node[A] bool }", "wanted a number"},
    {"%7 = mod %3, %4 : node[] i64 }", NULL},
    {"%7 = mod %0, %0 : node[A] f32 }", "wanted an integer"},
    {"%7 = lt %0, %6 : node[A] bool }", NULL},
    {"%7 = lt %0, %6 : node[A] f32 }", "a bool result"},
    {"%7 = lt %0, %3 : node[A] bool }", "compares node[A] f32 with node[] i64"},
    {"%7 = eq %5, %5 : node[A] bool }", "numbers to compare"},
    {"%7 = and %5, %5 : node[A] bool %8 = not %7 : node[A] bool }", NULL},
    {"%7 = and %0, %0 : node[A] bool }", "operand 0 is node[A] f32"},
    {"%7 = select %5, %0, %6 : node[A] f32 }", NULL},
    {"%7 = select %0, %0, %6 : node[A] f32 }", "a bool condition"},
    {"%7 = select %5, %0, %3 : node[A] f32 }", "operand 2 is node[] i64"},
    {"%7 = cast %0 : node[A] i32 }", NULL},
    {"%7 = cast %0 : node[A,B] i32 }", "the result has dim `B`"},
    {"%7 = detach %0 : node[A] f32 }", NULL},
    {"%7 = detach %0 : node[A] f64 }", "the operand is"},
    /* feature dims */
    {"%7 = reshape %2 : [C] f32 %8 = reshape %7 : [D,C] f32 %9 = reshape %7 : [Q] f32 }", NULL},
    {"%7 = reshape %2 : [B] f32 }", "has 6 elements a row"},
    {"%7 = reshape %2 : node[C] f32 }", "operand 0 lives in space `unit`"},
    {"%7 = transpose %2 : [B,A] f32 }", NULL},
    {"%7 = transpose %2 : [B] f32 }", "the operand has dim `A`"},
    {"%7 = transpose %6 : [A,B] f32 }", "the result has dim `B`"},
    {"%7 = slice %2 dim B at 1 : [A,D] f32 %8 = slice %7 dim D at 0 : [A,D] f32 }", NULL},
    {"%7 = slice %2 dim B at 2 : [A,D] f32 }", NULL},
    {"%7 = slice %2 dim B at 3 : [A,D] f32 }", "elements 3 to 3+1 of 3"},
    {"%7 = slice %2 dim B at -1 : [A,D] f32 }", "elements -1"},
    {"%7 = slice %2 dim C at 0 : [A,D] f32 }", "has no dim `C`"},
    {"%7 = slice %2 dim B at 0 : [D,A] f32 }", "differ in more than one dim"},
    {"%7 = slice %2 dim B at 0 : [A,C] f32 }", "of 3"},
    {"%7 = reshape %6 : [A] f32 %8 = slice %6 dim A at 0 : [D] f32 %9 = concat %8, %7 dim B : [B] "
     "f32 }",
     NULL},
    {"%7 = concat %6, %6 dim B : [B] f32 }", "the parts have 4 elements"},
    {"%7 = concat dim B : [B] f32 }", "concat of nothing"},
    {"%7 = concat %6 dim B : [A] f32 }", "has no dim `B`"},
    {"%7 = concat %0 dim A : [A] f32 }", "operand 0 lives in space `node`"},
    {"%7 = sum_dims %2 : [A] f32 %8 = max_dims %2 : [] f32 %9 = min_dims %0 : node[] f32 }", NULL},
    {"%7 = sum_dims %2 : [A,C] f32 }", "the result has dim `C`"},
    {"%7 = sum_dims %0 : [A] f32 }", "operand 0 lives in space `node`"},
    {"%7 = max_dims %5 : node[] bool }", "wanted a number"},
    {"%7 = contract %0, %2 : node[B] f32 %8 = contract %0, %7 : [A,B] f32 %9 = contract %0, %0 : "
     "node[] f32 }",
     NULL},
    {"%7 = contract %0, %1 : node[] f32 }", "operand 1 lives in space `edge`"},
    {"%7 = contract %6, %2 : node[B] f32 }", "where no operand lives"},
    {"%7 = contract %0, %2 : node[C] f32 }", "the result has dim `C`"},
    {"%7 = contract %5, %5 : node[] bool }", "wanted numbers"},
    /* between spaces */
    {"%7 = gather %0 via edge.src : edge[A] f32 %8 = gather %6 via node.all : node[A] f32 }", NULL},
    {"%7 = gather %1 via edge.src : edge[A] f32 }", "the operand lives in space `edge`"},
    {"%7 = gather %0 via edge.src : node[A] f32 }", "the result lives in space `node`"},
    {"%7 = gather %0 via edge.src : edge[B] f32 }", "but the result is edge[B]"},
    {"%7 = gather %0 via edge.src : edge[A] f64 }", "but the result is edge[A] f64"},
    {"%7 = mapped via node.pool : node[] bool }", NULL},
    {"%7 = mapped via node.pool : pool[] bool }", "wanted node[] bool"},
    {"%7 = reduce_sum %1 via edge.dst : node[A] f32 %8 = reduce_max %1 via edge.src empty 0 : "
     "node[A] f32 }",
     NULL},
    {"%7 = reduce_mul %0 via node.all : [A] f32 }", NULL},
    {"%7 = reduce_sum %0 via edge.dst : node[A] f32 }", "the operand lives in space `node`"},
    {"%7 = reduce_sum %1 via edge.dst : edge[A] f32 }", "the result lives in space `edge`"},
    {"%7 = reduce_sum %5 via node.all : [A] bool }", "wanted a number"},
    {"%7 = reduce_max %3 via node.all empty -inf : [] i64 }", "-inf is no value"},
    {"%7 = reduce_sum %0 via node.all : [A] f32 %8 = sum_dims %7 : [] f32 %9 = grad %8, %0 : "
     "node[A] f32 }",
     NULL},
    {"%7 = grad %0, %0 : node[A] f32 }", "what is differentiated is node[A] f32"},
    {"%7 = const 1 : [] f32 %8 = grad %7, %3 : node[] i64 }", "wanted a float to differentiate by"},
    {"%7 = const 1 : [] f32 %8 = grad %7, %0 : [A] f32 }", "the result is [A] f32, wanted node[A] f32"},
    /* values, types, results */
    {"%7 = exp %7 : node[A] f32 }", "operand %7 does not stand above it"},
    {"%7 = exp %0, %0 : node[A] f32 }", "2 operands, wanted 1"},
    {"%7 = add %0 : node[A] f32 }", "1 operands, wanted 2"},
    {"%7 = const 0 : [A,A] f32 }", "it has a dim twice"},
    {"%7 = const 0 : [A,H] f32 }", "larger than memory"},
    {"return r = %7 }", "result `r` is no value"},
    {"return r = %0 return r = %1 }", "two results named `r`"},
    {"return r = %6 -> @s }", NULL},
    {"return r = %6 -> @h }", "no parameter and no state"},
    {"return r = %0 -> @s }", "but tensor `s` is [A] f32"},
    {"return r = %6 -> @s return q = %6 -> @s }", "update the same tensor"},
    /* tables */
    {"} dim Z = 0", "wanted an integer from 1"},
    {"} dim A = 2", "`A` is defined twice"},
    {"} map z : unit -> node", "leads from the unit space"},
    {"} map z : node -> pool inverse node.pool", "do not belong together"},
    {"} map y : pool -> node inverse z map z : node -> pool inverse y", NULL},
    {"} graph z : data edge(edge.src, edge.dst)", "share their edges"},
    {"} graph z : data node(edge.src, edge.dst)", "is not of edges"},
    {"} space t : edges graph z : data t(edge.src, edge.dst)", "do not lead from its edges"},
    {"} space t : edges map ts : t -> node map td : t -> node graph z : data t(ts, td)", "is sorted"},
    {"} space t : edges map ts : t -> node map td : t -> node sorted graph z : reverse(g) t(ts, "
     "td)",
     NULL},
    {"} space t : edges map ts : t -> pool map td : t -> node sorted graph z : reverse(g) t(ts, "
     "td)",
     "other nodes"},
    {"} space t : edges map ts : t -> node map td : t -> node sorted graph z : random(0, 5, 1) "
     "t(ts, td)",
     "5 edges on 0"},
    {"} space t : edges map ts : t -> node map td : t -> node sorted map o : t -> node graph z : "
     "self_loops(g, keep) "
     "t(ts, td) orig o",
     "orig does not lead"},
    {"} space t : edges map ts : t -> node map td : t -> node sorted map o : t -> edge graph z : "
     "self_loops(g, keep) "
     "t(ts, td) orig o",
     "are partial maps"},
    {"} tensor p : param [A] bool stored [2] perm(0) init const(0)", "parameters are numbers"},
    {"} tensor p : param [A,B] f32 stored [6] perm(0,0) init const(0)", "does not name each dim once"},
    {"} tensor p : param [A,B] f32 stored [5] perm(1,0) init const(0)", "another number of elements"},
    {"} tensor p : hyper [A] f32 default 0", "hypers are float scalars"},
    {"} tensor p : input [A] f32 bound 3", "only integers have a bound"},
    {"} tensor p : input [A] i64 missing", "missing values need a bound"},
    {"} func g(x = @x : [] f32) { }", "but what it is bound to is node[A] f32"},
    {"} func g(d = cotangent 0 : [] f32) { }", "refers to nothing"},
    {"} func forward() { %0 = const 1 : [] f32 return y = %0 } func vjp(d = cotangent 0 : [] f32) "
     "{ }",
     NULL},
    {"} func forward() { %0 = const 1 : [] f32 return y = %0 } func vjp(d = cotangent 0 : [] f64) "
     "{ }",
     "bound to is [] f32"},
    {"} space c : dim A func h() { %0 = const 1 : [A,B] f32 %1 = reshape %0 : c[B] f32 %2 = reshape %1 : [A,B] f32 }",
     NULL},
    {"} space c : dim A func h() { %0 = const 1 : [A,B] f32 %1 = reshape %0 : c[A,B] f32 }", "elements"},
    {"} space c : dim A func h() { %0 = const 1 : node[A] f32 %1 = reshape %0 : c[] f32 }", "lives in space `node`"},
    {"} space c : dim Z", "no dim named `Z`"},
    {"} space c : dim A space z map r : z -> node sorted map k : z -> c tensor v : input z[] f32 nonzeros x(r, k)",
     NULL},
    {"} space c : dim A space z map r : z -> node map k : z -> c tensor v : input z[] f32 nonzeros x(r, k)",
     "cannot hold the nonzeros of `x`"},
    {"} space c : dim B space z map r : z -> node sorted map k : z -> c tensor v : input z[] f32 nonzeros x(r, k)",
     "cannot hold the nonzeros of `x`"},
    {"} space c : dim A space z map r : z -> node sorted map k : z -> c tensor v : input z[] f64 nonzeros x(r, k)",
     "cannot hold the nonzeros of `x`"},
    {"} train epochs 1 seed 0 { }", "no function `train_step`"},
    {"} func train_step() { } train epochs 1 seed 0 { metric a = 0 }", "has no result 0"},
    {"} func train_step() { } func metrics() { %0 = const 1 : [A] f32 return a = %0 } train epochs "
     "1 seed 0 { metric a = 0 }",
     "wanted a number"},
    {"} func train_step() { } func metrics() { %0 = const 1 : [] f32 return a = %0 } train epochs "
     "1 seed 0 { metric a = 0 "
     "stop a maximise patience 0 }",
     "a patience of 0"},
    {"} func t() { %0 = const 1 : [] f32 return a = %0 } test t = t { assert \"a\" }", "is no bool"},
    {"} func t() { } test t = t { assert \"a\" }", "1 asserts for 0 results"},
};

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new();
        const char *message, *text = arena_printf(a, "%s  %s\n", HEAD, cases[i].body);
        check_begin();
        IrModule *m = read_text(a, text, (uint32_t)strlen(text), &message);
        if (!cases[i].want) {
            check(m != NULL, "refused: %s", message);
            if (m) check_stable(a, m);
        } else {
            check(!m, "taken");
            check(strstr(message, cases[i].want) != NULL, "found `%s`, wanted `%s`", message, cases[i].want);
        }
        check_end(arena_printf(a, "rule %zu: %.70s", i, cases[i].body));
        arena_free(a);
    }
}

/* ---- what only a broken pass can make -------------------------------------------------------- */

static void refuse_only(const char *name, void (*break_it)(IrModule *m, IrFunc *f), const char *want, bool prints)
{
    Arena *a = arena_new();
    const char *message,
        *text = arena_printf(a, "%s  %%7 = gather %%0 via edge.src : edge[A] f32 return r = %%7 }\n", HEAD);
    check_begin();
    IrModule *m = read_text(a, text, (uint32_t)strlen(text), &message);
    if (check(m != NULL, "%s", message)) {
        break_it(m, m->funcs.data[0]);
        Diags d = {.arena = a};
        check(!ir_verify(m, &d), "taken");
        check(d.list.n && strstr(d.list.data[0]->text, want), "found `%s`, wanted `%s`",
              d.list.n ? d.list.data[0]->text : "", want);
        if (prints) print(a, m); /* ids that lead nowhere */
    }
    check_end(name);
    arena_free(a);
}

static void refuse(const char *name, void (*break_it)(IrModule *m, IrFunc *f), const char *want)
{
    refuse_only(name, break_it, want, true);
}

static void bad_map(IrModule *m, IrFunc *f) { (void)m, f->ops.data[7].attr.map = 99; }
static void bad_operand(IrModule *m, IrFunc *f) { (void)m, f->ops.data[7].args[0] = IR_NONE; }
static void bad_opcode(IrModule *m, IrFunc *f) { (void)m, f->ops.data[7].op = IR_N_OPS; }
static void bad_space(IrModule *m, IrFunc *f) { (void)m, f->ops.data[7].type.space = 99; }
static void bad_dim(IrModule *m, IrFunc *f) { (void)m, f->ops.data[7].type.dims[0] = 99; }
static void bad_n_dims(IrModule *m, IrFunc *f) { (void)m, f->ops.data[7].type.n_dims = 7; }
static void bad_tensor(IrModule *m, IrFunc *f) { (void)m, f->results.data[0].tensor = 99; }
static void bad_ref(IrModule *m, IrFunc *f) { (void)m, f->args.data[0].ref = 99; }
static void bad_name(IrModule *m, IrFunc *f) { (void)f, m->tensors.data[0].name = ""; }
static void bad_func(IrModule *m, IrFunc *f) { (void)f, ir_func_new(m, "f"); }
static void bad_unit(IrModule *m, IrFunc *f) { (void)f, m->spaces.data[0].name = "one"; }
static void bad_sites(IrModule *m, IrFunc *f) { (void)f, m->n_sites = 65537; }
static void bad_map_space(IrModule *m, IrFunc *f) { (void)f, m->maps.data[0].to = 99; }
static void bad_inverse(IrModule *m, IrFunc *f) { (void)f, m->maps.data[0].inverse = 99; }

#define BREAK(name) static void name(IrModule *m, IrFunc *f)
BREAK(no_tensor_name) { (void)f, m->tensors.data[0].name = NULL; }
BREAK(no_func_name) { (void)m, f->name = NULL; }
BREAK(empty_func_name) { (void)m, f->name = ""; }
BREAK(bad_dtype) { (void)f, m->tensors.data[0].type.dtype = (IrDtype)9; }
BREAK(bad_op_dtype) { (void)m, f->ops.data[7].type.dtype = (IrDtype)9; }
BREAK(dim_of_nothing) { (void)f, m->dims.data[0].size = 0; }
BREAK(no_spaces) { (void)f, m->spaces.n = 0; }
BREAK(unit_of_edges) { (void)f, m->spaces.data[0].is_edge = true; }
BREAK(map_from_nowhere) { (void)f, m->maps.data[0].from = 99; }
BREAK(dim_of_space) { (void)f, m->spaces.data[1].has_dim = true, m->spaces.data[1].dim = 99; }
BREAK(dim_of_edges) { (void)f, m->spaces.data[2].has_dim = true, m->spaces.data[2].dim = 0; }
BREAK(dim_of_unit) { (void)f, m->spaces.data[0].has_dim = true, m->spaces.data[0].dim = 0; }
BREAK(same_maps) { (void)f, m->maps.data[1].name = m->maps.data[0].name; }
BREAK(same_graphs)
{
    (void)f;
    VEC_PUSH(m->arena, &m->graphs, m->graphs.data[0]);
}
BREAK(same_args) { (void)m, f->args.data[1].name = f->args.data[0].name; }
BREAK(no_edges) { (void)f, m->graphs.data[0].edge = 99; }
BREAK(no_sources) { (void)f, m->graphs.data[0].src_space = 99; }
BREAK(no_targets) { (void)f, m->graphs.data[0].dst_space = 99; }
BREAK(no_base) { (void)f, m->graphs.data[0].kind = IR_GRAPH_LINE; }
BREAK(no_kind) { (void)f, m->graphs.data[0].kind = (IrGraphKind)99, m->graphs.data[0].base = 0; }
BREAK(no_site) { (void)f, m->graphs.data[0].redrawn = true, m->graphs.data[0].seed = -1; }
BREAK(fewer_edges) { (void)f, m->graphs.data[0].kind = IR_GRAPH_RANDOM, m->graphs.data[0].n_edges = -1; }
BREAK(fewer_nodes) { (void)f, m->graphs.data[0].kind = IR_GRAPH_RANDOM, m->graphs.data[0].n_nodes = -1; }
BREAK(many_stored) { (void)f, m->tensors.data[2].n_stored = 9; }
BREAK(bound_below) { (void)f, m->tensors.data[3].bound = -1; }
BREAK(nonzeros_of_none) { (void)f, m->tensors.data[0].nonzeros.present = true, m->tensors.data[0].nonzeros.of = 99; }
BREAK(nonzeros_rows) { (void)f, m->tensors.data[0].nonzeros.present = true, m->tensors.data[0].nonzeros.row = 99; }
BREAK(map_of_none) { (void)f, m->tensors.data[0].is_map = true, m->tensors.data[0].map = 99; }
BREAK(nonzeros_cols) { (void)f, m->tensors.data[0].nonzeros.present = true, m->tensors.data[0].nonzeros.col = 99; }
BREAK(dim_of_op) { (void)m, f->ops.data[7].op = IR_OP_iota, f->ops.data[7].n_args = 0, f->ops.data[7].attr.dim = 99; }
BREAK(arg_type) { (void)m, f->args.data[0].type.dims[0] = 99; }
static void trained(IrModule *m)
{
    IrFunc *step = ir_func_new(m, "train_step");
    (void)step, ir_func_new(m, "metrics");
    m->train = (IrTrain){.present = true, .stop_metric = IR_NONE};
}
BREAK(batches_below) { (void)f, trained(m), m->train.batch = -1; }
BREAK(many_metrics)
{
    (void)f, trained(m);
    for (int i = 0; i <= IR_MAX_METRICS; i++) VEC_PUSH(m->arena, &m->train.metrics, ((IrMetric){.name = "a"}));
}
BREAK(no_stop) { (void)f, trained(m), m->train.stop_metric = 3; }
BREAK(no_test_func)
{
    (void)f;
    VEC_PUSH(m->arena, &m->tests, ((IrTest){.name = "t", .func = 99}));
}

static const struct {
    const char *want;
    void (*breaks)(IrModule *m, IrFunc *f);
} broken[] = {
    /* clang-format off */
    {"tensor 0 has no name", no_tensor_name}, {"function 0 has no name", no_func_name}, {"function 0 has no name",
        empty_func_name},
    {"its dtype does not exist", bad_dtype}, {"its dtype does not exist", bad_op_dtype}, {"dim `A` is 0",
        dim_of_nothing},
    {"not the unit space", no_spaces}, {"not the unit space", unit_of_edges}, {"a space does not exist",
        map_from_nowhere},
    {"space `node` indexes no dim", dim_of_space}, {"space `edge` indexes no dim", dim_of_edges},
        {"space `unit` indexes no dim", dim_of_unit},
    {"two maps named", same_maps}, {"two graphs named", same_graphs}, {"two arguments named", same_args},
        {"a space does not exist", no_edges},
    {"a space does not exist", no_sources}, {"a space does not exist", no_targets},
        {"its base does not stand above it", no_base},
    {"does not stand above it", no_kind}, {"site -1 of", no_site}, {"-1 edges on", fewer_edges}, {"on -1 nodes",
        fewer_nodes},
    {"too many stored dims", many_stored}, {"only integers have a bound, which is positive", bound_below},
    {"its map does not exist", map_of_none}, {"what it holds the nonzeros of does not exist", nonzeros_of_none},
        {"what it holds the nonzeros of does not exist", nonzeros_rows},
    {"what it holds the nonzeros of does not exist", nonzeros_cols}, {"its dim does not exist", dim_of_op},
        {"a dim of it does not exist", arg_type},
    {"batches of -1", batches_below}, {"metrics, at most", many_metrics}, {"the metric to stop by does not exist",
        no_stop},
    /* clang-format on */
    {"test `t` has no function", no_test_func},
};

static void test_broken(void)
{
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        refuse_only(arena_printf(a, "verify %zu: %s", i, broken[i].want), broken[i].breaks, broken[i].want, false);
    arena_free(a);
    refuse("verify: map out of range", bad_map, "its map does not exist");
    refuse("verify: operand out of range", bad_operand, "does not stand above");
    refuse("verify: opcode out of range", bad_opcode, "is no op");
    refuse("verify: space out of range", bad_space, "its space does not exist");
    refuse("verify: dim out of range", bad_dim, "a dim of it does not exist");
    refuse("verify: too many dims", bad_n_dims, "too many dims");
    refuse("verify: result's tensor out of range", bad_tensor, "updates no tensor");
    refuse("verify: argument's tensor out of range", bad_ref, "refers to nothing");
    refuse("verify: empty name", bad_name, "has no name");
    refuse("verify: two functions of one name", bad_func, "two functions named `f`");
    refuse("verify: unit space renamed", bad_unit, "not the unit space");
    refuse("verify: too many sites", bad_sites, "random sites");
    refuse("verify: map to nowhere", bad_map_space, "a space does not exist");
    refuse("verify: inverse out of range", bad_inverse, "its inverse does not exist");
}

/* ---- malformed text -------------------------------------------------------------------------- */

static const Case malformed[] = {
    {"", "wanted `module`"},
    {"module", "wanted the module's name"},
    {"module m module m", "wanted dim, space"},
    {"module m dim", "wanted a dim's name"},
    {"module m dim F 3", "wanted `=`"},
    {"module m dim F = 3.5", "wanted an integer"},
    {"module m dim F = 99999999999999999999", "wanted an integer"},
    {"module m dim F = -1", "from 1"},
    {"module \"m", "closing quote"},
    {"module \"m\n\"", "closing quote"},
    {"module \"\\q\"", "unknown escape"},
    {"module \"\\x00\"", "unknown escape"},
    {"module m space unit", "defined twice"},
    {"module m space node : nodes", "wanted `edges`"},
    {"module m map a : b -> c", "no space named `b`"},
    {"module m space n map a : n - n", "wanted `->`"},
    {"module m space n map a : n -> n inverse z", "no map named `z`"},
    {"module m graph g : tree", "a kind of graph"},
    {"module m tensor t : weird [] f32", "a kind of tensor"},
    {"module m tensor t : input [] f8", "a dtype"},
    {"module m tensor t : input [A] f32", "no dim named `A`"},
    {"module m dim A = 1 tensor t : input [A,A,A,A,A,A,A] f32", "more than 6 dims"},
    {"module m func f( {", "wanted an argument's name"},
    {"module m func f(a = 3) { }", "wanted `@`"},
    {"module m func f(a = cotangent 0) { }", "the type of a cotangent"},
    {"module m func f() { %1 = const 0 : [] f32 }", "wanted %0"},
    {"module m func f() { %0 = frobnicate : [] f32 }", "wanted an op"},
    {"module m func f() { %0 = const : [] f32 }", "wanted a number"},
    {"module m func f() { %0 = const 1e : [] f32 }", "wanted a number"},
    {"module m func f() { %0 = const 0 [] f32 }", "wanted `:`"},
    {"module m func f() { %99999999999 = const 0 : [] f32 }", "wanted an integer"},
    {"module m func f() { return x = 3 }", "wanted `%`"},
    {"module m func f() { return x = %0 -> s }", "wanted `@`"},
    {"module m func f() {", "wanted an op, `return` or `}`"},
    {"module m func f() { } func f() { }", "defined twice"},
    {"module m train epochs x", "wanted an integer"},
    {"module m train epochs 1 seed 1 { } train epochs 1 seed 1 { }", "a second `train`"},
    {"module m train epochs 1 seed 1 { stop a maximise patience 1 }", "no metric named `a`"},
    {"module m test t = f { }", "no function named `f`"},
    {"module m $", "found `$`"},
    {"module m \x01\x80\xff", "wanted dim"},
};

static void test_malformed(void)
{
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        Arena *a = arena_new();
        const char *message;
        check_begin();
        IrModule *m = read_text(a, malformed[i].body, (uint32_t)strlen(malformed[i].body), &message);
        check(!m && strstr(message, malformed[i].want), "found `%s`, wanted `%s`", message, malformed[i].want);
        check_end(arena_printf(a, "malformed %zu", i));
        arena_free(a);
    }
}

static uint64_t step(uint64_t *s) { return *s = *s * 6364136223846793005u + 1442695040888963407u, *s >> 33; }

/* One to four bytes or pieces of the text changed, moved or gone. */
static uint32_t mutate(char *text, uint32_t n, uint64_t *s)
{
    static const char glue[] = "%@:=->()[]{},?\"#0123456789 \nmapdimspace\x00\xff";
    for (uint64_t k = step(s) % 4 + 1; k && n > 1; k--) {
        uint32_t at = (uint32_t)(step(s) % n), len = (uint32_t)(step(s) % 12), from = (uint32_t)(step(s) % n);
        if (at + len > n) len = n - at;
        if (from + len > n) len = n - from;
        switch (step(s) % 4) {
        case 0: text[at] = glue[step(s) % (sizeof glue - 1)]; break;
        case 1: memmove(text + at, text + at + len, n - at - len), n -= len; break;
        case 2: memmove(text + at, text + from, len); break;
        default: n = step(s) % 8 ? n : at; break;
        }
    }
    return n;
}

static void test_mutations(void)
{
    enum { ROUNDS = 6000 };
    Arena *a = arena_new();
    size_t n;
    const char *why, *message;
    char *text = file_read(a, "tests/ir/gcn.gir", 0, &n, &why);
    uint64_t s = 1;
    int n_taken = 0;
    check_begin();
    for (int i = 0; text && i < ROUNDS; i++) {
        Arena *stage = arena_new();
        char *copy = arena_strndup(stage, text, n);
        uint32_t len = mutate(copy, (uint32_t)n, &s);
        IrModule *m = read_text(stage, copy, len, &message);
        if (m) n_taken++, check_stable(stage, m);
        arena_free(stage);
    }
    check(text && n_taken > 0 && n_taken < ROUNDS / 2, "%d of %d mutants taken", n_taken, ROUNDS);
    check_end("mutated text never crashes and what is taken round-trips");
    arena_free(a);
}

/* ---- the documentation ----------------------------------------------------------------------- */
/* ---- without tests -------------------------------------------------------------------------------- */

/* Every table begins with what only a test reaches, so that all ids of what stays are others. */
static const char
    tested_tables[] =
        "dim T = 2\nspace t.node\nspace t.edge : edges\n"
        "map t.src : t.edge -> t.node\nmap t.dst : t.edge -> t.node sorted\n"
        "graph t : random(5, 9, 1) t.edge(t.src, t.dst)\ntensor t.w : param [T] f32 stored [2] perm(0) init const(1)\n",
    kept_tables[] =
        "dim F = 5\nspace node\nspace edge : edges\nspace loops : edges\nspace x.nnz\nspace x.col : dim F\n"
        "map edge.src : edge -> node\nmap edge.dst : edge -> node sorted\n"
        "map loops.src : loops -> node\nmap loops.dst : loops -> node sorted\n"
        "map loops.orig : loops -> edge partial inverse loops.image\nmap loops.image : edge -> loops partial inverse "
        "loops.orig\n"
        "map x.row : x.nnz -> node sorted\nmap x.column : x.nnz -> x.col\nmap k.row : edge -> x.col partial\n"
        "graph g : data edge(edge.src, edge.dst)\n"
        "graph l : self_loops(g, replace) loops(loops.src, loops.dst) orig loops.orig image loops.image\n"
        "tensor x : input node[F] f32 sparse\ntensor x.values : input x.nnz[] f32 nonzeros x(x.row, x.column)\n"
        "tensor k : input edge[] i64 bound 5 map k.row\n",
    tested_func[] =
        "func test.0(t.w = @t.w) {\n  %0 = arg 0 : [T] f32\n  %1 = const 1 : t.edge[T] f32\n"
        "  %2 = reduce_sum %1 via t.dst : t.node[T] f32\n  %3 = eq %0, %2 : t.node[T] bool\n  return assert0 = %3\n}\n",
    kept_func[] = "func forward(x = @x) {\n  %0 = arg 0 : node[F] f32\n  %1 = gather %0 via loops.src : loops[F] f32\n"
                  "  %2 = reduce_sum %1 via loops.dst : node[F] f32\n  return y = %2\n}\n",
    test_row[] = "test \"one\" = test.0 {\n  assert \"w == 1\"\n}\n";

static void test_without_tests(void)
{
    Arena *a = arena_new();
    const char *why,
        *whole = arena_printf(a, "module m\n%s%s%s%s%s", tested_tables, kept_tables, tested_func, kept_func, test_row);
    const char *rest = arena_printf(a, "module m\n%s%s", kept_tables, kept_func);
    check_begin();
    const IrModule *m = read_text(a, whole, (uint32_t)strlen(whole), &why);
    if (check(m != NULL, "%s", why)) {
        Diags d = {.arena = a};
        const char *before = print(a, m);
        const IrModule *without = ir_without_tests(a, m);
        check(ir_verify(m, &d) && ir_verify(without, &d), "%s", d.list.n ? d.list.data[0]->text : "");
        check(!strcmp(print(a, without), rest), "found\n%s", print(a, without));
        check(!strcmp(print(a, m), before), "the module itself is another");
    }
    check_end("ir_without_tests: what only a test reaches goes, all else stays as it is");
    arena_free(a);
}

static void test_docs(void)
{
    Arena *a = arena_new();
    size_t n;
    const char *why, *message;
    char *text = file_read(a, "docs/ir.md", 0, &n, &why);
    check_begin();
    int n_blocks = 0;
    for (char *p = text; p && (p = strstr(p, "```gir\n"));) {
        p += strlen("```gir\n");
        char *end = strstr(p, "```");
        if (!check(end != NULL, "a block without an end")) break;
        IrModule *m = read_text(a, p, (uint32_t)(end - p), &message);
        check(m != NULL, "block %d: %s", n_blocks, message);
        if (m) check_stable(a, m);
        p = end;
        n_blocks++;
    }
    check(n_blocks > 0, "no block in docs/ir.md");
    for (uint32_t i = 0; text && i < IR_N_OPS; i++)
        check(strstr(text, arena_printf(a, "`%s`", ir_ops[i].name)) != NULL, "docs/ir.md has no op `%s`",
              ir_ops[i].name);
    check_end("blocks of docs/ir.md are graph IR and it names every op");
    arena_free(a);
}

int main(void)
{
    test_builders();
    test_attrs();
    test_files();
    test_odd_module();
    test_rules();
    test_broken();
    test_malformed();
    test_mutations();
    test_without_tests();
    test_docs();
    return check_done();
}
