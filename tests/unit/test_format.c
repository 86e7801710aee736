/* The formatter: the canonical layout of texts laid out badly, the same text again when run twice, the same
   syntax tree before and after, comments and blank lines kept. */
#include "base/file.h"
#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "tests/unit/ast_dump.h"
#include "tests/unit/check.h"
#include "tests/unit/gnn_samples.h"
#include <dirent.h>
#include <string.h>

static Source source_of(const char *text) { return (Source){"t.gnn", text, (uint32_t)strlen(text)}; }

static const char *tree_of(Arena *a, const char *text)
{
    Source s = source_of(text);
    Diags d = {.arena = a};
    AstFile *f = ast_parse(a, &s, &d);
    return f && !d.n_errors ? dump_file(a, f) : NULL;
}

/* Formats text and checks the promises. NULL if it does not parse. */
static const char *formatted(Arena *a, const char *text)
{
    Source s = source_of(text);
    Diags d = {.arena = a};
    const char *once = frontend_format(a, &s, &d);
    if (!once) return NULL;
    s = source_of(once);
    const char *twice = frontend_format(a, &s, &d);
    if (check(twice, "what it printed does not parse:\n%s", once))
        check(!strcmp(once, twice), "once:\n%s\ntwice:\n%s", once, twice);
    const char *before = tree_of(a, text), *after = tree_of(a, once);
    check(before && after && !strcmp(before, after), "the tree changed");
    return once;
}

static const struct {
    const char *name, *text, *wanted;
} layouts[] = {
    {"blanks", "fn f( x ,H=8 )=x+1*( y-z )@w**2", "fn f(x, H = 8) = x + 1 * (y - z) @ w ** 2\n"},
    {"unary", "fn f() = [- a, a - - b, not   c, - 1, b @ @ d]", "fn f() = [-a, a - -b, not c, -1, b @ @d]\n"},
    {"types", "layer f(x:node [ F ],y :node index[C],z:[4 * F,F / T+1,...],w:@ d[F'])->(src[F],dst[G])=x",
     "layer f(x: node[F], y: node index[C], z: [4*F, F/T + 1, ...], w: @d[F']) -> (src[F], dst[G]) = x\n"},
    {"members", "fn f() = x . src [ i ] ( a ) . dst", "fn f() = x.src[i](a).dst\n"},
    {"range", "fn f() { for i in 0 .. K { x[ 0 .. i ] } }", "fn f() { for i in 0..K { x[0..i] } }\n"},
    {"arguments", "fn f() = g(fill e=mean,p by graph,w=5e-4 on c.*,by=(a,b))",
     "fn f() = g(fill e = mean, p by graph, w = 5e-4 on c.*, by = (a, b))\n"},
    {"keywords", "fn f() = if(a)then(b)else(c)", "fn f() = if (a) then (b) else (c)\n"},
    {"where", "test \"t\" { assert where (a,b,c)where(d and e) }",
     "test \"t\" { assert where(a, b, c) where (d and e) }\n"},
    {"block", "layer f(x)\n{\nh=x\n      return h}", "layer f(x) {\n  h = x\n  return h\n}\n"},
    {"one-line-block", "layer f(x){return x}", "layer f(x) { return x }\n"},
    {"empty-block", "test \"t\" { }", "test \"t\" {}\n"},
    {"else", "layer f(x) {\n if a {\n b\n }\n else if c { d }\n else {\n e } }",
     "layer f(x) {\n  if a {\n    b\n  } else if c { d }\n  else {\n    e\n  }\n}\n"},
    {"else-after-comment", "layer f(x) {\n if a { b } # c\n else { d }\n}",
     "layer f(x) {\n  if a { b }  # c\n  else { d }\n}\n"},
    {"nested-on-a-line", "layer f(x) { over g { for i in l { a\nb } } }",
     "layer f(x) {\n  over g {\n    for i in l {\n      a\n      b\n    }\n  }\n}\n"},
    {"semicolons", "layer f(x) { ; a ;; b;\nc ; }", "layer f(x) {\n  a; b\n  c\n}\n"},
    {"brackets-over-lines", "fn f() = g(a,\nb, [c,\nd],\n)",
     "fn f() = g(a,\n           b, [c,\n               d],\n)\n"},
    {"bracket-ends-line", "layer f(\nx,\n y = [ # c\n1,\n2 ],\n) {\nreturn g(\nx\n)\n}",
     "layer f(\n  x,\n  y = [  # c\n    1,\n    2],\n) {\n  return g(\n    x\n  )\n}\n"},
    {"body-behind-long-head", "layer f(x,\ny) {\nx\n}", "layer f(x,\n        y) {\n  x\n}\n"},
    {"else-on-its-line", "layer f() {\nif a { b }\nelse { c }\n}", "layer f() {\n  if a { b }\n  else { c }\n}\n"},
    {"continued", "layer f() {\n h = a +\n b *\n c\n assert x\n where y\n}",
     "layer f() {\n  h = a +\n      b *\n      c\n  assert x\n      where y\n}\n"},
    {"blank-lines", "\n\nfn f() = x\n\n\n\nlayer g() {\n\n a\n\n\n b\n\n}\n\n",
     "fn f() = x\n\nlayer g() {\n  a\n\n  b\n}\n"},
    {"comments", "#a\n  # b  \nlayer f() { # c\n# d\n  a # e\n  bcd   # f\n\n  x # g\n  # h\n}\n# i",
     "#a\n# b\nlayer f() {  # c\n  # d\n  a    # e\n  bcd  # f\n\n  x  # g\n  # h\n}\n# i\n"},
    {"comment-in-brackets", "fn f() = g(a, # one\n# two\nb)",
     "fn f() = g(a,  # one\n           # two\n           b)\n"},
    {"comment-after-brace", "layer f()\n# why\n{ a }", "layer f()\n# why\n{ a }\n"},
    {"column-counts-characters", "fn f() { \"\xc3\xa9\" # a\nbcd # b\n }",
     "fn f() {\n  \"\xc3\xa9\"  # a\n  bcd  # b\n}\n"},
    {"train",
     "train n{loss=x on m;metric a=b on c\nhyper lr=1,w=2 seed -1 fan [1,2] epochs n stop_early(a) optimizer adam "
     "(lr)}",
     "train n {\n  loss = x on m; metric a = b on c\n  hyper lr = 1, w = 2  seed -1  fan [1, 2]  epochs n  "
     "stop_early(a)  optimizer adam(lr)\n}\n"},
    {"reduce", "reduce r(m){state a:node index[C]=0,b=1 step{a+=m} done=a}",
     "reduce r(m) { state a: node index[C] = 0, b = 1  step { a += m }  done = a }\n"},
    {"schema", "schema s{node a[1],b edge w:a->b reverse all}",
     "schema s { node a[1], b  edge w: a -> b  reverse all }\n"},
    {"stored", "layer f(){param W:[F]=zeros as\"w\"[F * 2]}", "layer f() { param W: [F] = zeros as \"w\" [F*2] }\n"},
    {"crlf", "fn f() = x\r\n\r\n# c\r\nfn g() = y\r\n", "fn f() = x\n\n# c\nfn g() = y\n"},
    {"byte-order-mark",
     "\xef\xbb\xbf"
     "fn f()=x",
     "fn f() = x\n"},
    {"empty", "", ""},
    {"only-comments", "\n\n# a\n\n\n#b", "# a\n\n#b\n"},
};

static void test_layouts(void)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        check_begin();
        Arena *a = arena_new();
        const char *out = formatted(a, layouts[i].text);
        if (check(out, "does not parse"))
            check(!strcmp(out, layouts[i].wanted), "found:\n%s\nwanted:\n%s", out, layouts[i].wanted);
        check_end(arena_printf(a, "format/%s", layouts[i].name));
        arena_free(a);
    }
}

static void test_samples(void)
{
    check_begin();
    Arena *a = arena_new();
    check(formatted(a, sample_contract), "the contract's examples do not parse");
    const char *out = formatted(a, sample_layers);
    check(out && !strcmp(out, sample_layers), "canonical text changed:\n%s", out ? out : "");
    check_end("format/samples");
    arena_free(a);
}

static void test_refuses(void)
{
    check_begin();
    Arena *a = arena_new();
    Source s = source_of("fn f( = x");
    Diags d = {.arena = a};
    CHECK(!frontend_format(a, &s, &d));
    CHECK(d.n_errors == 1);
    check_end("format/refuses-errors");
    arena_free(a);
}

/* Every file of a folder of models, seen from the root of the sources. */
static void test_folder(const char *folder)
{
    Arena *a = arena_new();
    const char *name = arena_printf(a, "format/all-of-%s", folder);
    DIR *dir = opendir(folder);
    uint32_t n = 0;
    check_begin();
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t len = strlen(e->d_name), bytes;
        if (len < 5 || strcmp(e->d_name + len - 4, ".gnn")) continue;
        const char *why = "", *path = arena_printf(a, "%s/%s", folder, e->d_name);
        const char *text = file_read(a, path, 0, &bytes, &why);
        if (check(text, "%s: %s", path, why)) check(formatted(a, text), "%s does not parse", path);
        n++;
    }
    if (dir) closedir(dir);
    if (n) check_end(name);
    else check_skip(name, "no models there; run from the root of the sources");
    arena_free(a);
}

/* Blanks and newlines at random places where they mean nothing: the result is what it was. */
static void test_shaken(void)
{
    check_begin();
    uint64_t rng = 3;
    Arena *keep = arena_new();
    const char *wanted = formatted(keep, sample_layers);
    for (uint32_t i = 0; i < 200; i++) {
        Arena *a = arena_new();
        StrBuf b = {.arena = a};
        bool comment = false;
        for (const char *c = sample_layers; *c; c++) {
            strbuf_add(&b, c, 1);
            if (*c == '#') comment = true;
            if (*c == '\n') comment = false;
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            if (!comment && strchr(" ,(\n", *c) && rng >> 33 & 1) strbuf_puts(&b, rng >> 34 & 1 ? " " : "\t ");
        }
        const char *out = formatted(a, strbuf_cstr(&b));
        check(out && !strcmp(out, wanted), "%s", out ? out : "does not parse");
        arena_free(a);
    }
    check_end("format/shaken-200");
    arena_free(keep);
}

int main(void)
{
    test_layouts();
    test_samples();
    test_refuses();
    test_shaken();
    test_folder("frontend/std");
    test_folder("examples");
    return check_done();
}
