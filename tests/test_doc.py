#!/usr/bin/env python3
"""`gnnc doc`: every definition of the library has its page with signature, options, place and tests; the HTML page is well-formed,
needs nothing beside it and can be used without a mouse; wrong names, files and targets are refused.

usage: test_doc.py BUILD"""
import os
import re
import sys
from html.parser import HTMLParser

from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STD = os.path.join(ROOT, "frontend", "std")
MINE = """# My own layers.

# The mean of `x`, scaled: x' = s & <mean>.
#
#   x' = s * mean_j x_j
layer scaled(x: node[F], s = 2, name = "a # b", # a remark
             act = relu) -> node[F] {
  if s > 1 { param w: [F] = ones as "w.weight" [1, F] }
  h = over g { param inner: [F] = zeros; act(mean_in(x.src)) }
  return s * h
}

# ---- more ----
reduce spread(m: edge[F]) -> node[F] {
  state s: [F] = 0
  step { s += m }
  done = s
}
fn scaled_more(x) = 2 * x

test "scaled is not scaled_more" {
  g = random_graph(nodes = 5, edges = 9, seed = 1)
  over g { assert spread_in(ones(edge[3])) == sum_in(ones(edge[3])) }  # scaled
}
"""
VOID = ("meta",)
box = Sandbox(sys.argv[1], "doc")
box.write("mine.gnn", MINE)


def doc(*argv):
    return box.run(box.gnnc, "doc", *argv)


def lacks(r, *wanted):
    """Why the run does not print all that is wanted; blanks count as one."""
    text = re.sub(r"\s+", " ", r.out)
    return (r.rc != 0 and r.err) or [w for w in wanted if w not in text]


def defined():
    """(kind, name, file, line) of every definition of the library."""
    for file in sorted(os.listdir(STD)):
        with open(os.path.join(STD, file)) as f:
            for i, line in enumerate(f, 1):
                m = re.match(r"(layer|fn|reduce|optimizer|schedule|message) (\w+)", line)
                if m:
                    yield m.group(1), m.group(2), "std/" + file, i


# ---- text ------------------------------------------------------------------------------------------

overview = doc()
words = set(overview.out.split())
box.report("overview_has_all", overview.rc or [n for _, n, _, _ in defined() if n not in words])
for family in sorted(os.listdir(STD)):
    r = doc(family[:-4])
    box.report("family_" + family[:-4], lacks(r, *["std/%s:%d" % (family, i) for _, n, f, i in defined() if f == "std/" + family])
               if not any(n == family[:-4] for _, n, _, _ in defined()) else lacks(r, "std/"))
missing = []
r = doc(*[n for _, n, _, _ in defined()])
for kind, name, file, line in defined():
    if not re.search(r"^%s %s\(" % (kind, name), r.out, re.M) or "%s:%d\n" % (file, line) not in r.out:
        missing.append(name)
box.report("each_has_signature_and_place", missing)
SOURCE = r"\b(18|19|20)\d\d\b|\btorch\b|PyG|DGL|OGB|[Qq]uirk|[Pp]art of "
SHAPES = r"(\b(node|edge|src|dst|graph)|@d)\[|\[[A-Z]\w*[,\]]|\bby (element|feature|row)\b|\bone number\b|\bdims?\b"


def told(page):
    """What a page of `gnnc doc` lacks of: comment, formula, source (a paper's year, the peer's name, or what it is a part of),
    shapes (a signature that states all of them, or words), and a test."""
    signature, rest = re.split(r"^    std/\w+\.gnn:\d+\n", page, maxsplit=1, flags=re.M)
    text, _, rest = re.sub(r"^\n", "", rest).partition("\n\n")
    text = "" if re.match(r"    (inputs|options|tests) ", text) else re.sub(r"\s+", " ", text)
    inputs = re.search(r"^    inputs    (.*?)(?=^    \w|\Z)", page, re.M | re.S)
    typed = "-> " in re.sub(r"\s+", " ", signature + " ") and ":" in page and all(":" in line for line in inputs.group(1).strip().split("\n"))
    formula = re.sub(r"\([^()]*\b\d{4}\b[^()]*\)", "", text)
    return [what for what, there in [("comment", text), ("formula", re.search(r"[=*/^+<>|]| - |\w\(", formula)), ("source", re.search(SOURCE, text)),
                                     ("shapes", typed or re.search(SHAPES, text)), ("test", "\n    tests     " in page)] if not there]


def each_told(text):
    """Of many pages: {name: what it lacks}."""
    pages = re.split(r"^(?=(?:layer|fn|reduce|optimizer|schedule|message) \w+\()", text, flags=re.M)[1:]
    return {re.match(r"\w+ \w+", p).group(0): told(p) for p in pages if told(p)}


box.report("each_tells_formula_source_shapes_and_test", each_told(r.out))
for lacking, page in [("comment", "fn f(x)\n    std/base.gnn:1\n\n    inputs    x\n    tests     \"a\", b\n"),
                      ("formula", "fn f(x)\n    std/base.gnn:1\n\n    A thing by element (Kipf, 2017).\n\n    inputs    x\n    tests     \"a\", b\n"),
                      ("source", "fn f(x)\n    std/base.gnn:1\n\n    x + 1 by element.\n\n    inputs    x\n    tests     \"a\", b\n"),
                      ("shapes", "fn f(x)\n    std/base.gnn:1\n\n    x + 1 (Kipf, 2017).\n\n    inputs    x\n    tests     \"a\", b\n"),
                      ("test", "fn f(x)\n    std/base.gnn:1\n\n    x + 1 by element (Kipf, 2017).\n\n    inputs    x\n")]:
    box.report("a_page_without_" + lacking, lacking not in each_told(page).get("fn f", []) and "was not noticed")
box.report("option_and_tests", lacks(doc("dna"), "H = 1", "attention to layers", "std/attention.gnn", "inputs x: node[L, F]"))
box.report("reducer_by_use", lacks(doc("mean_in"), "reduce mean(m)") or lacks(doc("readout_mean"), "reduce mean(m)"))
box.report("both_of_one_name", lacks(doc("mean"), "reduce mean(m)", "fn mean(x, a, b = none, c = none)"))
mine = lacks(doc("mine.gnn", "scaled"), 'layer scaled(x: node[F], s = 2, name = "a # b", act = relu) -> node[F]', "mine.gnn:6",
             "x' = s * mean_j x_j", 'param w: [F] = ones as "w.weight" [1, F]', "param inner: [F] = zeros", "options s = 2")
box.report("own_file", mine)
box.report("remark_and_string_name_nothing", "tests" in doc("mine.gnn", "scaled").out and "a comment counts as a use")
box.report("reducer_is_tested", lacks(doc("mine.gnn", "spread"), "tests \"scaled is not scaled_more\", mine.gnn:"))
box.report("heading_is_no_comment", "----" in doc("mine.gnn", "spread").out and "the heading was printed")
box.report("own_overview", lacks(doc("mine.gnn"), "mine My own layers.", "scaled spread scaled_more") or
           ("gatv2" in doc("mine.gnn").out and "the library is shown too"))
box.write("odd.gnn", r'''#Without a blank
#
# and more.

# ---- one ----
# ----

# Adds (a little. not much) to [x: a value]: y = x + 1
# on every node.
#
# Second paragraph.
layer odd(x: node[F], s = "a \" b = { # ( ", # a remark = { "
          t = [1, 2], # another
          u = (3)) -> node[F] {
  h = over g {
    param inside: [F] = 0
    sum_in(x.src * inside)
  }
  k = for i in 0..2 {
    param turn: [F] = 0
    turn
  }
  return h # "
}

## two hashes
fn nothing() = 3

# Ends in a colon:
fn colon(x) = x

test "uses \" odd # nothing" {
  # odd
  assert close(colon(1), 1) # nothing
}
# the end''')
box.report("odd_text", lacks(doc("odd.gnn", "odd"), r'''layer odd(x: node[F], s = "a \" b = { # ( ", t = [1, 2], u = (3)) -> node[F]''', "odd.gnn:12",
                             r'''s = "a \" b = { # ( "''', "u = (3)", "param inside", "param turn", "Second paragraph.") or
           [w for w in ("remark", "another", "tests") if w in doc("odd.gnn", "odd").out])
box.report("odd_names", lacks(doc("odd.gnn", "nothing", "colon"), "# two hashes", "Ends in a colon:", "tests") or
           ("tests" in doc("odd.gnn", "nothing").out and "a string or a comment counts as a use"))
box.report("odd_overview", lacks(doc("odd.gnn"), "odd Without a blank odd nothing colon"))
for name, text in [("a_file_of_remarks", "# only a remark"), ("a_file_of_tests", 'test "t" { assert close(1, 1) }')]:
    box.write(name + ".gnn", text)
    box.report(name, lacks(doc(name + ".gnn"), "gnnc doc NAME"))
box.write("broken.gnn", "fn f(")
box.refuses("broken", [box.gnnc, "doc", "broken.gnn"], 1, "E0108", "broken.gnn")
box.report("library_beside_own", lacks(doc("mine.gnn", "gru_cell"), "layer gru_cell("))
box.report("standard_input", lacks(box.run("bash", "-c", "%s doc - < mine.gnn" % box.gnnc), "scaled"))
box.report("lines_fit", [s for s in overview.out.split("\n") if len(s) > 100])

# ---- HTML -------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Balance of tags, ids, links and headings."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.levels, self.tags, self.wrong = [], [], [], [], [], []
        self.attrs = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.attrs[tag] = attrs
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "href" in attrs or "src" in attrs:
            self.links.append(attrs.get("href", attrs.get("src")))
        if re.match("h[1-6]$", tag):
            self.levels.append(int(tag[1]))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append("</%s> closes nothing" % tag)


def judge(text):
    p = Page(text)
    jumps = [b for a, b in zip([0] + p.levels, p.levels) if b > a + 1]
    return (p.wrong[:3] or (p.open and "open: %s" % p.open) or [l for l in p.links if not l.startswith("#")] or
            [l for l in p.links if l[1:] not in p.ids][:3] or (len(set(p.ids)) != len(p.ids) and "an id twice") or
            (p.levels.count(1) != 1 and "headings of level 1: %d" % p.levels.count(1)) or (jumps and "a heading jumps") or
            ("script" in p.tags and "a script") or re.findall(r"https?:|@import|url\(", text)[:3] or
            (p.attrs["html"].get("lang") != "en" and "no lang") or ("aria-label" not in p.attrs["nav"] and "nav has no name") or
            ([t for t in ("main", "title", "nav") if t not in p.tags]))


html = doc("--format=html")
box.report("html_page", html.rc or judge(html.out))
box.report("html_has_all", [n for _, n, f, i in defined() if "%s:%d</small>" % (f, i) not in html.out])
own = doc("--format", "html", "mine.gnn")
box.report("html_own_page", own.rc or judge(own.out))
box.report("html_escapes", lacks(own, "x' = s &amp; &lt;mean&gt;.", "<code>x</code>", "name = &quot;a # b&quot;", "<pre> x' = s * mean_j x_j</pre>"))
box.must(box.gnnc, "doc", "-o", "page.html")
with open(box.path("page.html")) as f:
    box.report("html_by_name_of_file", f.read() != html.out and "another page than --format=html")
box.must(box.gnnc, "doc", "elu", "-o", "elu.txt")
with open(box.path("elu.txt")) as f:
    box.report("text_into_a_file", not f.read().startswith("fn elu(x, alpha = 1)\n") and "no text")

# ---- wrong calls -------------------------------------------------------------------------------------

box.write("wrong.gnn", "layer f(x: node[F] {\n")
for name, argv, rc, code, says in [
    ("letter_off", ["softmx"], 1, "E0301", ["softmx", "gnnc doc softmax"]),
    ("letter_off_in_own", ["mine.gnn", "scald"], 1, "E0301", ["gnnc doc scaled"]),
    ("family_letter_off", ["atention"], 1, "E0301", ["gnnc doc attention"]),
    ("nothing_near", ["xyzzyxyzzy"], 1, "E0301", ["xyzzyxyzzy", "gnnc doc"]),
    ("long_name", ["x" * 5000], 1, "E0301", []),
    ("empty_name", [""], 1, "E0301", []),
    ("built_in", ["exp"], 1, "E0301", ["part of the language"]),
    ("unknown_format", ["--format=pdf"], 1, "E0612", ["pdf", "html"]),
    ("unknown_option", ["--formt=html"], 1, "E0611", ["--format"]),
    ("missing_file", ["no.gnn"], 6, "E0601", ["no.gnn"]),
    ("folder", ["./"], 6, "E0601", ["./"]),
    ("broken_file", ["wrong.gnn"], 1, "E0101", ["wrong.gnn:1"]),
    ("missing_folder", ["elu", "-o", "no/page.html"], 6, "E0602", ["no/page.html"]),
    ("full_target", ["-o", "/dev/full"], 6, "E0602", ["/dev/full"]),
]:
    box.refuses(name, [box.gnnc, "doc"] + argv, rc, code, *says)
with open("/dev/full", "w") as full:
    r = box.run(box.gnnc, "doc", stdout=full)
    box.report("stdout_full", r.rc != 6 and (r.rc, r.err))
box.close()
