/* The parser: every form of the language gives the tree it should, wrong programs give the code at the place,
   several errors come in one run, and no bytes whatever crash it. */
#include "base/str.h"
#include "frontend/ast.h"
#include "tests/unit/ast_dump.h"
#include "tests/unit/check.h"
#include "tests/unit/gnn_samples.h"
#include <string.h>

static Source source_of(const char *text, size_t n) { return (Source){"t.gnn", text, (uint32_t)n}; }

static const char *diags_text(Arena *a, const Diags *d)
{
    StrBuf out = {.arena = a};
    diags_print(d, &out, false);
    return strbuf_cstr(&out);
}

/* ---- sound programs ---- */

static void test_samples(void)
{
    static const struct {
        const char *name, *text;
        uint32_t n;
    } samples[] = {{"contract", sample_contract, 7}, {"layers", sample_layers, 12}};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        check_begin();
        Arena *a = arena_new();
        Source s = source_of(samples[i].text, strlen(samples[i].text));
        Diags d = {.arena = a};
        AstFile *f = ast_parse(a, &s, &d);
        check(!d.n_errors, "%s", diags_text(a, &d));
        check(f->n_decls == samples[i].n, "%u declarations, wanted %u", f->n_decls, samples[i].n);
        check_end(arena_printf(a, "parse/sample-%s", samples[i].name));
        arena_free(a);
    }
}

/* Declarations and the tree each gives. */
static const struct {
    const char *name, *text, *tree;
} forms[] = {
    {"precedence-sum", "fn f() = a + b * c - d", "fn f() (- (+ a (* b c)) d)\n"},
    {"precedence-matmul", "fn f() = a @ b / c", "fn f() (/ (@ a b) c)\n"},
    {"precedence-power", "fn f() = -a ** 2 ** -b", "fn f() (neg (** a (** 2 (neg b))))\n"},
    {"precedence-not", "fn f() = not a == b and c or d", "fn f() (or (and (not (== a b)) c) d)\n"},
    {"precedence-neg-mul", "fn f() = -a * b", "fn f() (* (neg a) b)\n"},
    {"select", "fn f() = if a then b else c + 1", "fn f() (if a b (+ c 1))\n"},
    {"select-nested", "fn f() = if a then b else if c then d else e", "fn f() (if a b (if c d e))\n"},
    {"parentheses", "fn f() = (a + b) * c", "fn f() (* (+ a b) c)\n"},
    {"tuple", "fn f() = (a, b)", "fn f() (tuple a b)\n"},
    {"tuple-empty", "fn f() = ()", "fn f() (tuple )\n"},
    {"list-trailing-comma", "fn f() = [a, b,]", "fn f() [a b]\n"},
    {"postfix", "fn f() = a.b(c)[d].src", "fn f() (at (call a.b c) [d]).src\n"},
    {"slice", "fn f() = x[0..K, ...]", "fn f() (at x [(.. 0 K) ...])\n"},
    {"arguments", "fn f() = g(a, H = 8, fill e = mean, p by graph, w = 1 on c.*)",
     "fn f() (call g a H=8 fill e=mean p by graph w=1 on c.*)\n"},
    {"words-as-arguments", "fn f() = g(train = true, by = (a, b), in = 1)",
     "fn f() (call g train=true by=(tuple a b) in=1)\n"},
    {"words-as-members", "fn f() = data.train + x.graph + c.for", "fn f() (+ (+ data.train x.graph) c.for)\n"},
    {"words-as-names", "fn f() { param = 1; graph = 2; state = train\n model += step }",
     "fn f() {(= param 1); (= graph 2); (= state train); (+= model step)}\n"},
    {"where-call", "fn f() = where(a, b, c)", "fn f() (call where a b c)\n"},
    {"type-in-expression", "fn f() = randn(edge(g)[3]) + zeros(@d[F]) + ones(node[])",
     "fn f() (+ (+ (call randn (at (call edge g) [3])) (call zeros (at @d [F]))) (call ones (at node [])))\n"},
    {"numbers", "fn f() = [0, 9223372036854775807, 1.5, 5e-4, 1e308]",
     "fn f() [0 9223372036854775807 1.5000000000000000 0.00050000000000000001 1.0000000000000000e+308]\n"},
    {"strings", "fn f() = \"a\\n\\\"\\\\ \xc3\xa9\"", "fn f() \"a\\n\\\"\\\\ \xc3\xa9\"\n"},
    {"literals", "fn f() = [true, false, none]", "fn f() [true false none]\n"},
    {"types", "layer f(a: node, b: node[], c: [F, H], d: @d[...], e: edge(g1)[4*F, F/T, D'], i: int)", NULL},
    {"types-all",
     "layer f(a: node, b: node[], c: [F, H], d: @d[...], e: edge(g1)[4*F, F/T, D'], i: int) -> node[F] = a",
     "layer f(a: node, b: node[], c: [F H], d: @d[...], e: edge(g1)[(* 4 F) (/ F T) D'], i: :int) -> node[F] a\n"},
    {"dtypes", "layer f(y: node index[C], m: node[K] bool, z: index[4], w: [] f64) = y",
     "layer f(y: node:index<C>, m: node[K]:bool, z: :index<4>, w: []:f64) y\n"},
    {"tuple-types", "layer f(x: (src[F], (dst[G], [] int))) -> (node[C], edge[H]) = x",
     "layer f(x: (src[F], (dst[G], []:int))) -> (node[C], edge[H]) x\n"},
    {"static-arguments", "layer f(x, H = 8, aggr = \"sum\", nn = mlp(64), K: int, l = [a, b], e: edge[K] = none) = x",
     "layer f(x, H = 8, aggr = \"sum\", nn = (call mlp 64), K: :int, l = [a b], e: edge[K] = none) x\n"},
    {"trailing-comma", "layer f(x,) = g(x,)", "layer f(x) (call g x)\n"},
    {"slots",
     "layer f() {\n param a, b: [H] = zeros\n param W: [F, H, D] = glorot as \"lin.weight\" [H*D, F]\n buffer c = 0\n}",
     "layer f() {(param a b : [H] = zeros); (param W : [F H D] = glorot as lin.weight [(* H D) F]); (buffer c = 0)}\n"},
    {"graphs", "layer f() { graph g1 = self_loops(g); pairs p = negatives(g, k) }",
     "layer f() {(graph g1 (call self_loops g)); (pairs p (call negatives g k))}\n"},
    {"over", "layer f() {\n h = over g1 { a; b }\n over g1 { c }\n}",
     "layer f() {(= h (over g1{a; b})); (over g1{c})}\n"},
    {"loops",
     "layer f() { for i in 0..K { a } ; for b in [c, d] { e }; forall r { x }; forall r into t { y }; forall r from t "
     "{ z } }",
     "layer f() {(for i (.. 0 K){a}); (for b [c d]{e}); (forall r {x}); (forall r into t{y}); (forall r from t{z})}\n"},
    {"if-chain", "layer f() {\n if a { b }\n else if c { d }\n\n else { e }\n}",
     "layer f() {(if a{b} else {(if c{d} else {e})})}\n"},
    {"assignments", "layer f() { a, b.c, d[0] = x, y; a += 1; a -= 1; a *= 1; a /= 1; h: node[F] = x }",
     "layer f() {(= a b.c (at d [0]) (tuple x y)); (+= a 1); (-= a 1); (*= a 1); (/= a 1); (= h : node[F] x)}\n"},
    {"returns", "layer f() { return\n return a, b }", "layer f() {(return ); (return (tuple a b))}\n"},
    {"assert", "test \"t\" { assert a == b where c; assert where(a, b, c) where (d) }",
     "test t{(assert (== a b) where c); (assert (call where a b c) where d)}\n"},
    {"newline-in-brackets", "fn f() = g(a,\n  b\n  , [c\n, d]\n)", "fn f() (call g a b [c d])\n"},
    {"newline-after-operator", "fn f() = a +\n b *\n\n # c\n c", "fn f() (+ a (* b c))\n"},
    {"newline-in-block-in-brackets", "fn f() = g(over h {\n a\n b })", "fn f() (call g (over h{a; b}))\n"},
    {"newline-before", "layer f(x)\n -> node[F]\n = x\ntest \"t\"\n{\n assert a\n where b }",
     "layer f(x) -> node[F] x\ntest t{(assert a where b)}\n"},
    {"crlf-and-tabs", "fn f()\t{\r\n\ta = 1\r\n\tb\r\n}\r\n", "fn f() {(= a 1); b}\n"},
    {"byte-order-mark",
     "\xef\xbb\xbf"
     "fn f() = x",
     "fn f() x\n"},
    {"docs", "# far\n\n# one\n#two\nfn f() = x # no\nfn g() = y", "# one\ntwo\nfn f() x\nfn g() y\n"},
    {"reduce",
     "reduce r(m: edge[F]) -> node[F] { state s: [F] = 0, n, k: [] = 1  step { s += m } merge { s += other.s }\n"
     " param p: [] = 1 as \"p\" empty = 0 adjoint { m = 0 } done = s }",
     "reduce r(m: edge[F]) -> node[F] state s: [F] = 0; state n: [] = 1; state k: [] = 1; (param p : [] = 1 as p)"
     "step {(+= s m)} merge {(+= s other.s)} adjoint {(= m 0)} done s empty 0\n"},
    {"done-block", "reduce r(m) { step { a = m }\n done { return a } }",
     "reduce r(m) step {(= a m)} done {(return a)}\n"},
    {"optimizer", "optimizer sgd(lr, mu = 0.5) { state v = 0  step { v = mu * v + grad; param -= lr * v } }",
     "optimizer sgd(lr, mu = 0.50000000000000000) state v = 0; step {(= v (+ (* mu v) grad)); (-= param (* lr v))}\n"},
    {"train",
     "train n(H = 2) { h = n(data.x); loss = l(h) on data.train\nmetric a = b(h) on c  hyper lr = 1, wd = 2\n"
     "optimizer adam(lr, w = 1 on c.*) epochs 3 stop_early(a, patience = 2) seed -1 fanout [1, 2] optimizer sgd }",
     "train (call n H=2); let h (call n data.x); loss loss (call l h) on data.train; metric a (call b h) on c; "
     "hyper lr 1; hyper wd 2; optimizer optimizer (call adam lr w=1 on c.*); set epochs 3; "
     "call stop_early (call stop_early a patience=2); set seed (neg 1); set fanout [1 2]; optimizer optimizer sgd\n"},
    {"schema", "schema s { node a[1], b  edge w: a -> b, c: b -> b[3]\n reverse all }",
     "schema snode a[1]; node b; edge w: a -> b; edge c: b -> b[3]; reverse all; \n"},
    {"relations",
     "schema s { edge a: p -> q = column edge b: p -> p = data.e_index where data.t == 1, c: p -> p = compose(a, b) }",
     "schema sedge a: p -> q = column; edge b: p -> p = data.e_index where (== data.t 1); edge c: p -> p = "
     "(call compose a b); \n"},
    {"const", "const d: [] = fit(x) as \"d\"", "(const d : [] = (call fit x) as d)\n"},
    {"adjoint", "message m(l) { adjoint { l = 0 }\n return l }", "message m(l) {(adjoint {(= l 0)}); (return l)}\n"},
    {"semicolons", "layer f() { ; a;; b; }", "layer f() {a; b}\n"},
    {"empty", "", ""},
    {"comment-only", "# nothing", ""},
};

static void test_forms(void)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_begin();
        Arena *a = arena_new();
        Source s = source_of(forms[i].text, strlen(forms[i].text));
        Diags d = {.arena = a};
        AstFile *f = ast_parse(a, &s, &d);
        if (forms[i].tree) {
            check(!d.n_errors, "%s", diags_text(a, &d));
            const char *tree = dump_file(a, f);
            check(!strcmp(tree, forms[i].tree), "found %s", tree);
        } else {
            check(d.n_errors, "no error");
        }
        check_end(arena_printf(a, "parse/form-%s", forms[i].name));
        arena_free(a);
    }
}

/* ---- wrong programs: the first error's code, the text it points to, a part of what it says ---- */

static const struct {
    const char *name, *text;
    DiagCode code;
    const char *at, *says;
} wrongs[] = {
    {"top-level-word", "lyer f(x) = x", E0101, "lyer", "wanted a declaration"},
    {"top-level-word-hint", "lyer f(x) = x", E0101, "lyer", "did you mean `layer`?"},
    {"statement-word", "layer f(x) {\n  retrun x\n}", E0101, "x", "did you mean `return`?"},
    {"missing-brace", "layer f(x) return x", E0101, "return", "wanted `->`, `{` or `=`"},
    {"missing-parenthesis", "layer f(x) {\n  h = g(x\n  y = 1\n}", E0108, "(", "`)`"},
    {"missing-parenthesis-note", "layer f(x) {\n  h = g(x\n  y = 1\n}", E0108, "(", "this `(` is never closed"},
    {"missing-operand", "fn f() = a *", E0101, "", "found the end of the file, wanted an expression"},
    {"operator-first", "layer f() {\n  a\n  * b\n}", E0101, "*", "an operator stands at the end"},
    {"minus-first", "layer f() {\n  a = b\n  - c\n}", E0110, "- c", "a statement begins with `-`"},
    {"chained-comparison", "fn f() = a < b < c", E0101, "<", "do not chain"},
    {"assignment-in-condition", "layer f() { if a = b { c } }", E0101, "=", "`==` compares"},
    {"colon-block", "layer f() {\n if a:\n  b\n}", E0101, ":", "a block stands in braces"},
    {"elif", "layer f() {\n if a { b }\n elif c { d }\n}", E0101, "c", NULL},
    {"wrong-closer", "fn f() = (a]", E0101, "]", "`)`"},
    {"stray-closer", "fn f() = a)", E0101, ")", "found `)`"},
    {"tuple-of-one", "fn f() = (a,)", E0101, ")", "wanted an expression"},
    {"range-value", "fn f() = 0..3", E0101, "..", "found `..`"},
    {"juxtaposed", "layer f() { a b }", E0101, "b", "`;` separates two statements"},
    {"declaration-name", "layer 3(x) = x", E0101, "3", "wanted a name"},
    {"test-name", "test t { }", E0101, "t", "wanted a string"},
    {"state-without-name", "reduce r(m) { state = 1\n step { } done = m }", E0111, "state", "is written with a block"},
    {"stray-character", "fn f() = a $ b", E0102, "$", "`$` cannot stand here"},
    {"stray-letter", "fn f() = \xc3\xa9", E0102, "\xc3\xa9", "cannot stand here"},
    {"control-byte", "fn f() = \x01 a", E0102, "\x01", "0x01"},
    {"ampersands", "fn f() = a && b", E0102, "&&", "`&&` is written `and` here"},
    {"bars", "fn f() = a || b", E0102, "||", "`or`"},
    {"exclamation", "fn f() = !a", E0102, "!", "`not`"},
    {"caret", "fn f() = a ^ b", E0102, "^", "`**`"},
    {"walrus", "layer f() { a := b }", E0102, ":=", "`=`"},
    {"slashes", "fn f() = a // b", E0102, "//", "`#`"},
    {"single-quotes", "fn f() = 'a'", E0102, "'a'", "double quotes"},
    {"endless-string", "fn f() = g(\"abc\nfn h() = y", E0103, "\"abc", "no end"},
    {"number-suffix", "fn f() = 3x", E0104, "3x", "neither a number nor a name"},
    {"number-point", "fn f() = .5", E0104, ".5", "begins with a digit"},
    {"large-integer", "fn f() = 9223372036854775808", E0104, "9223372036854775808", "largest is 9223372036854775807"},
    {"large-float", "fn f() = 1e999", E0104, "1e999", "too large for a double"},
    {"not-utf8", "fn f() = x # \xff", E0105, "\xff", "0xff, is not UTF-8"},
    {"overlong-utf8", "# \xc0\xaf", E0105, "\xc0", "not UTF-8"},
    {"surrogate", "# \xed\xa0\x80", E0105, "\xed", "not UTF-8"},
    {"cut-utf8", "# \xe2\x82", E0105, "\xe2", "not UTF-8"},
    {"target-number", "layer f() { 3 = x }", E0107, "3", "cannot be assigned to"},
    {"target-call", "layer f() { f(x) += 1 }", E0107, "f(x)", "cannot be assigned to"},
    {"targets-update", "layer f() { a, b += 1 }", E0107, "b", "only `=` assigns"},
    {"targets-type", "layer f() { a, b: node[F] = x }", E0107, "b", "a type belongs to one name"},
    {"unclosed-brace", "layer f() {\n  a = 1\n", E0108, "{", "this `{` is never closed"},
    {"unclosed-before-declaration", "layer f() {\n  a = (1 +\nlayer g() = x", E0108, "(",
     "a new declaration begins here"},
    {"unclosed-bracket", "fn f() = [a", E0108, "[", "this `[` is never closed"},
    {"escape", "fn f() = \"a\\qb\"", E0109, "\\q", "unknown escape"},
    {"fold-item", "reduce r(m) { stat s = 0\n step { } done = m }", E0111, "stat", "did you mean `state`?"},
    {"fold-item-far", "reduce r(m) { banana = 0\n step { } done = m }", E0111, "banana", "its items are"},
    {"fold-form", "reduce r(m) { step = 1\n done = m }", E0111, "step", "is written with a block"},
    {"train-item", "train n { metrik a = 1 }", E0111, "metrik", "did you mean `metric`?"},
    {"train-optimiser", "train n { optimiser adam(lr) }", E0111, "optimiser", "did you mean `optimizer`?"},
    {"train-on", "train n { h = x on m }", E0111, "h", "belongs to `loss` and `metric`"},
    {"twice-step", "reduce r(m) { step { a } step { b } done = m }", E0112, "step", "a second `step`"},
    {"twice-done", "reduce r(m) { step { a } done = m done { a } }", E0112, "done", "the first is here"},
    {"twice-parameter", "layer f(a, b, a) = a", E0112, "a", "two parameters `a`"},
    {"no-step", "reduce r(m) { done = m }", E0113, "r", "has no `step"},
    {"no-done", "reduce r(m) { step { a } }", E0113, "r", "has no `done"},
    {"optimizer-step", "optimizer o(lr) { state m = 0 }", E0113, "o", "neither `step` nor `done`"},
    {"state-value", "reduce r(m) { state s\n step { a } done = m }", E0113, "s", "has no first value"},
    {"param-type", "layer f() { param W }", E0113, "param W", "neither a type nor a value"},
    {"stored-twice", "layer f() { param a, b: [F] = zeros as \"a\" }", E0113, "\"a\"", "belongs to one parameter"},
    {"const-value", "const d: []", E0113, "const d: []", "has no value"},
    {"dtype", "layer f(x: node flaot) = x", E0114, "flaot", "did you mean `float`?"},
    {"dtype-index", "layer f(x: node index) = x", E0114, "index", "`index[C]`"},
    {"dtype-dims", "layer f(x: node int[K]) = x", E0114, "[K]", "dims stand before"},
    {"dtype-twice", "layer f(x: int bool) = x", E0114, "bool", "a second element type"},
};

static void test_wrongs(void)
{
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        check_begin();
        Arena *a = arena_new();
        Source s = source_of(wrongs[i].text, strlen(wrongs[i].text));
        Diags d = {.arena = a};
        ast_parse(a, &s, &d);
        if (check(d.n_errors, "no error")) {
            const Diag *e = d.list.data[0];
            const char *at = arena_strndup(a, s.text + e->span.begin, e->span.end - e->span.begin);
            check(e->code == wrongs[i].code, "%s", diags_text(a, &d));
            check(!strcmp(at, wrongs[i].at), "points to `%s`, wanted `%s`", at, wrongs[i].at);
            check(!wrongs[i].says || strstr(diags_text(a, &d), wrongs[i].says), "%s", diags_text(a, &d));
        }
        check_end(arena_printf(a, "parse/wrong-%s", wrongs[i].name));
        arena_free(a);
    }
}

static void test_nul_byte(void)
{
    check_begin();
    Arena *a = arena_new();
    Source s = source_of("fn f()\0 = x", 11);
    Diags d = {.arena = a};
    CHECK(!ast_parse(a, &s, &d));
    CHECK(d.n_errors == 1 && d.list.data[0]->code == E0105 && d.list.data[0]->span.begin == 6);
    check_end("parse/wrong-nul-byte");
    arena_free(a);
}

/* ---- several errors in one run ---- */

/* A line with an error ends with its code in a comment. Each such line has exactly that error; no other
   line has one. */
static const char recovery[] = "layer a(x: node[F]) {\n"
                               "  h = g(x, (1 + 2)          # E0108\n"
                               "  s = dropout(h)            # \n"
                               "  t = 1 +* 2                # E0101\n"
                               "  ok = f(x)\n"
                               "  if a = b { c = 1; d = 2 } # E0101\n"
                               "  u = \"abc\n" /* E0103 */
                               "  3 = x                     # E0107\n"
                               "  v = a $ b                 # E0102\n"
                               "  w = f(1, 2 3, over g {    # E0101\n"
                               "    a = (b\n"
                               "  })\n"
                               "  retrun x                  # E0101\n"
                               "}\n"
                               "lyer foo(x) {               # E0101\n"
                               "  nothing = here is said\n"
                               "}\n"
                               "reduce r(m: edge[F]) -> node[F] {\n"
                               "  state s: [F] = 0\n"
                               "  stpe { s += m }           # E0111\n"
                               "  step { s += m }\n"
                               "  merge = 3 3               # E0101\n"
                               "  done = s\n"
                               "}\n"
                               "train net {\n"
                               "  loss = f(x                # E0108\n"
                               "  metric val = g(y) on data.val  # \n"
                               "  metrik test = g(y)        # E0111\n"
                               "  epochs 200\n"
                               "}\n"
                               "layer open(x) {             # E0108\n"
                               "  h = x\n"
                               "layer after(x) = x +        # E0101\n"
                               "fn last(x) = x @ @ 3        # E0101\n";

static void check_line(const Diags *d, const char *text, uint32_t line)
{
    const char *end = text + strcspn(text, "\n"), *mark = text;
    while (mark < end && *mark != '#') mark++;
    uint32_t wanted = 0, found = 0;
    for (; mark < end; mark++) wanted += *mark == 'E';
    if (strstr(text, "\"abc") && strstr(text, "\"abc") < end) wanted = 1;
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *e = d->list.data[i];
        uint32_t at, col;
        source_line_col(e->span.source, e->span.begin, &at, &col);
        if (at != line) continue;
        found++;
        const char *code = strstr(text, diag_codes[e->code].id);
        check(e->code == E0103 || (code && code < end), "line %u: unwanted %s: %s", line, diag_codes[e->code].id,
              e->text);
    }
    check(found == wanted, "line %u: %u errors, wanted %u", line, found, wanted);
}

static void test_recovery(void)
{
    check_begin();
    Arena *a = arena_new();
    Source s = source_of(recovery, strlen(recovery));
    Diags d = {.arena = a, .max_errors = 100};
    AstFile *f = ast_parse(a, &s, &d);
    uint32_t line = 1;
    for (const char *at = recovery; *at; at += strcspn(at, "\n") + 1) check_line(&d, at, line++);
    CHECK(f && f->n_decls >= 4);
    check_end("parse/recovery");
    arena_free(a);
}

/* ---- size and depth ---- */

/* Whatever place of an expression holds what is deep, the whole is deeper: twelve levels of each place, around more
   signs than leave room for them, and around fewer. */
static void test_depth_of_places(void)
{
    static const struct {
        const char *name, *head, *tail;
    } places[] = {
        {"left", "(", " + x)"},
        {"right", "(x + ", ")"},
        {"argument", "f(x, ", ")"},
        {"named-argument", "f(a = ", ")"},
        {"callee", "(", ")(x)"},
        {"condition", "(if ", " then x else x)"},
        {"yes", "(if x then ", " else x)"},
        {"no", "(if x then x else ", ")"},
        {"index", "x[", "]"},
        {"indexed", "(", ")[x]"},
        {"member", "(", ").x"},
        {"list", "[", "]"},
        {"graph", "(over ", " { x })"},
        {"body", "(over g { ", " })"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        Arena *a = arena_new();
        check_begin();
        for (int fails = 0; fails < 2; fails++) {
            StrBuf b = {.arena = a};
            strbuf_puts(&b, "fn f() = ");
            for (int k = 0; k < 12; k++) strbuf_puts(&b, places[i].head);
            for (int k = 0; k < (fails ? 995 : 950); k++) strbuf_puts(&b, "- ");
            strbuf_puts(&b, "x");
            for (int k = 0; k < 12; k++) strbuf_puts(&b, places[i].tail);
            Source s = source_of(strbuf_cstr(&b), b.n);
            Diags d = {.arena = a};
            ast_parse(a, &s, &d);
            check((d.n_errors > 0) == fails && (!fails || d.list.data[0]->code == E0106),
                  "%d levels of signs: %u errors%s%s", fails ? 995 : 950, d.n_errors, d.n_errors ? ": " : "",
                  d.n_errors ? d.list.data[0]->text : "");
        }
        check_end(arena_printf(a, "parse/depth-%s", places[i].name));
        arena_free(a);
    }
}

/* n times `part`, between head and tail. */
static Source repeated(Arena *a, const char *head, const char *part, uint32_t n, const char *tail)
{
    StrBuf b = {.arena = a};
    strbuf_puts(&b, head);
    for (uint32_t i = 0; i < n; i++) strbuf_puts(&b, part);
    strbuf_puts(&b, tail);
    return source_of(strbuf_cstr(&b), b.n);
}

static void test_deep(void)
{
    static const struct {
        const char *name, *head, *part, *tail;
        uint32_t n;
        bool fails;
    } cases[] = {
        {"parentheses", "fn f() = ", "(", "", 1000000, true},
        {"brackets-mixed", "fn f() = ", "f([", "", 500000, true},
        {"blocks", "layer f() {", "over g {", "", 1000000, true},
        {"minus", "fn f() = ", "- ", "x", 1000000, true},
        {"not", "fn f() = ", "not ", "x", 1000000, true},
        {"power", "fn f() = x", " ** x", "", 1000000, true},
        {"sum", "fn f() = x", " + x", "", 1000000, true},
        {"members", "fn f() = x", ".x", "", 1000000, true},
        {"calls", "fn f() = x", "()", "", 1000000, true},
        {"else-if", "layer f() { ", "if a { b } else ", "{ c } }", 300000, true},
        {"select", "fn f() = ", "if a then b else ", "c", 300000, true},
        {"types", "layer f(x: ", "(src, ", "", 300000, true},
        {"parentheses-below", "fn f() = ", "(", "", 150, true}, /* unclosed, not too deep */
        {"sum-below", "fn f() = x", " + x", "", 900, false},
        {"statements", "layer f() {", "a = b + c\n", "}", 100000, false},
        {"newlines", "layer f() { x", "\n", "}", 1000000, false},
        {"newlines-before-else", "layer f() { if x { y }", "\n", "else { z } }", 1000000, false},
        {"arguments", "fn f() = g(0", ", 1", ")", 100000, false},
        {"closers", "fn f() = x", ")", "", 100000, true},
        {"junk", "fn f() = ", "$ ", "", 100000, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_begin();
        Arena *a = arena_new();
        Source s = repeated(a, cases[i].head, cases[i].part, cases[i].n, cases[i].tail);
        Diags d = {.arena = a};
        ast_parse(a, &s, &d);
        check((d.n_errors > 0) == cases[i].fails, "%u errors", d.n_errors);
        if (cases[i].n >= 300000 && cases[i].fails) CHECK(d.list.data[0]->code == E0106);
        check_end(arena_printf(a, "parse/deep-%s", cases[i].name));
        arena_free(a);
    }
}

/* ---- damaged texts ---- */

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Random edits: bytes replaced, removed, doubled, pieces swapped in from elsewhere, an end cut off. */
static void damage(char *text, uint32_t *n, uint64_t *rng)
{
    static const char spice[] = "(){}[]=+-*@.,:;#\"'\n\\ $\xc3\x80\x01"
                                "0aE";
    for (uint64_t k = 1 + random_next(rng) % 4; k && *n > 8; k--) {
        uint32_t at = (uint32_t)(random_next(rng) % (*n - 4));
        uint32_t len = 1 + (uint32_t)(random_next(rng) % 3), from = (uint32_t)(random_next(rng) % (*n - 4));
        switch (random_next(rng) % 4) {
        case 0: text[at] = spice[random_next(rng) % (sizeof spice - 1)]; break;
        case 1:
            memmove(text + at, text + at + len, *n - at - len);
            *n -= len;
            break;
        case 2: memmove(text + at, text + from, len); break;
        default:
            if (random_next(rng) % 8 == 0) *n = at + 4;
            break;
        }
    }
    text[*n] = 0;
}

static void test_damaged(void)
{
    check_begin();
    uint64_t rng = 1;
    uint32_t sound = 0, wrong = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        Arena *a = arena_new();
        const char *from = i % 2 ? sample_contract : sample_layers;
        uint32_t n = (uint32_t)strlen(from);
        char *text = arena_strndup(a, from, n);
        damage(text, &n, &rng);
        Source s = source_of(text, n);
        Diags d = {.arena = a};
        AstFile *f = ast_parse(a, &s, &d);
        CHECK(f || d.n_errors);
        if (f) dump_file(a, f); /* every node can be walked */
        for (uint32_t k = 0; k < d.list.n; k++) CHECK(d.list.data[k]->span.end <= n);
        *(d.n_errors ? &wrong : &sound) += 1;
        arena_free(a);
    }
    check(wrong > 2000 && sound > 100, "%u wrong, %u sound: not a useful mix", wrong, sound);
    check_end("parse/damaged-4000");
}

static void test_random_bytes(void)
{
    check_begin();
    uint64_t rng = 7;
    for (uint32_t i = 0; i < 2000; i++) {
        Arena *a = arena_new();
        uint32_t n = (uint32_t)(random_next(&rng) % 200);
        char *text = arena_alloc(a, n + 1);
        for (uint32_t k = 0; k < n; k++)
            text[k] = (char)(i % 2 ? 1 + random_next(&rng) % 127 : random_next(&rng) % 256);
        Source s = source_of(text, n);
        Diags d = {.arena = a};
        AstFile *f = ast_parse(a, &s, &d);
        CHECK(f || d.n_errors);
        arena_free(a);
    }
    check_end("parse/random-bytes-2000");
}

/* ---- types where values stand ---- */

static void test_type_of_expr(void)
{
    check_begin();
    Arena *a = arena_new();
    const char *text = "fn f() = [edge[3], node(p)[F, 2], @d[...], [4], 3, f(a = 1)[2], node]";
    Source s = source_of(text, strlen(text));
    Diags d = {.arena = a};
    AstFile *f = ast_parse(a, &s, &d);
    static const char *const wanted[] = {"edge[3]", "node(p)[F 2]", "@d[...]", "[4]", NULL, NULL, "node"};
    AstExprs list = f->decls[0]->as.function.expr->as.list;
    for (uint32_t i = 0; i < list.n; i++) {
        const AstType *t = ast_type_of_expr(a, list.items[i]);
        if (!check(!t == !wanted[i], "item %u", i) || !t) continue;
        StrBuf b = {.arena = a};
        dump_type(&b, t);
        check(!strcmp(strbuf_cstr(&b), wanted[i]), "item %u is %s", i, strbuf_cstr(&b));
    }
    check_end("parse/type-of-expression");
    arena_free(a);
}

int main(void)
{
    test_samples();
    test_forms();
    test_wrongs();
    test_nul_byte();
    test_recovery();
    test_deep();
    test_depth_of_places();
    test_damaged();
    test_random_bytes();
    test_type_of_expr();
    return check_done();
}
