#!/usr/bin/env python3
"""`gnnc explain --as-blocks`: layers as rounds of message, aggregate and update. The text of layers that are written here is compared
as a whole; of the examples' layers the rounds, what is sent and which reducer runs over which edges; of every layer of the library that
it ends well. usage: test_blocks.py BUILD"""
import os
import re
import sys

from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MINE = """layer twice(x: node[F], e: edge[F]) -> node[O] {
  param W: [F, O] = glorot as "weight" [O, F]
  h = mean_in(x.src * e + 1 * x.dst)
  unused = max_in(x.src)
  return relu(h @ W) - sum_out((h @ W).dst)
}

layer only_nodes(x: node[F]) -> node[F] = 2 * (x + 1) / (x - (1 - x))

layer wants(x: node[F], K) -> node[F] = K * x

layer all_rows(x: node[F]) -> node[F] = x - mean_all(x)
"""
TWICE = """twice
  input  x: node[F]
  input  e: edge[F]
  stored weight: [F, O]

  message, for each edge j -> i of the graph
    m1 = x[j] * e + x[i]  # edge[F]

  aggregate, for each node
    h1 = sum of m1 over the edges into i  # node[F]
    h2 = sum of 1 over the edges into i  # node

  update, for each node
    h3 = h1 / max(h2, 1) @ weight  # node[O]
    h4 = where(h3 <= 0, 0, h3)  # node[O]

  message, for each edge j -> i of the graph
    m2 = h3[i]  # edge[O]

  aggregate, for each node
    h5 = sum of m2 over the edges out of j  # node[O]

  update, for each node
    out = h4 - h5  # node[O]
"""
NODES = """only_nodes
  input  x: node[F]

  before, for each node
    out = 2 * (x + 1) / (x - (1 - x))  # node[F]
"""
ALL = """all_rows
  input  x: node[F]

  aggregate, once for all
    c1 = sum of x over every node  # [F]
    c2 = sum of 1 over every node  # []

  update, for each node
    out = x - c1 / max(c2, 1)  # node[F]
"""
box = Sandbox(sys.argv[1], "blocks")
box.write("mine.gnn", MINE)


def blocks(layer, file="mine.gnn", *more):
    return box.run(box.gnnc, "explain", file, "--as-blocks=" + layer, *more)


def same(layer, wanted):
    r = blocks(layer)
    return (r.rc != 0 and r.err) or (re.sub(r" +#", "  #", r.out) != wanted and r.out)


def example(name, layer):
    """(heads, lines) of a layer: the words before each comma at two blanks; `h1 = ...` without comments."""
    r = blocks(layer, os.path.join(ROOT, "examples", name))
    if r.rc != 0:
        raise RuntimeError(r.err)
    return (re.findall(r"^  (\w+), (.*)$", r.out, re.M), [s.split("  #")[0].strip() for s in re.findall(r"^    (\w+ = .*)$", r.out, re.M)], r.out)


def has(lines, *patterns):
    """Each pattern matches a line, in this order."""
    at = 0
    for p in patterns:
        found = [i for i in range(at, len(lines)) if re.fullmatch(p, lines[i])]
        if not found:
            return "no line `%s` in %s" % (p, lines)
        at = found[0] + 1


box.report("two_rounds", same("twice", TWICE))
box.report("no_round", same("only_nodes", NODES))
box.report("over_all_rows", same("all_rows", ALL))

LOOPS = r"self_loops\(the graph, %s\)"
heads, lines, text = example("gcn.gnn", "gcn")
box.report("gcn", has(lines, r"(h\d) = x @ lin\.weight", r"(h\d) = sum of 1 over the edges into i of " + LOOPS % "keep",
                      r"m1 = h\d\[j\] \* h\d\[i\] \* h1\[j\]", r"h\d = sum of m1 over the edges into i", r"out = h\d \+ bias") or
           ([h for h, _ in heads] != ["before", "aggregate", "update", "message", "aggregate", "update"] and heads))
heads, lines, text = example("sage.gnn", "sage")
box.report("sage", has(lines, r"m1 = x\[j\]", r"h\d = sum of m1 over the edges into i", r"h\d = sum of 1 over the edges into i",
                       r"out = h\d / max\(h\d, 1\) @ lin_l\.weight \+ lin_l\.bias \+ h\d") or
           ([h for h, _ in heads] != ["before", "message", "aggregate", "update"] and heads))
heads, lines, text = example("gat.gnn", "gat(H = 2, D = 3)")
box.report("gat", has(lines, r"h1 = x @ lin\.weight", r"m1 = h\d\[j\] \+ h\d\[i\]", r"m2 = where\(0 < m1, m1, m1 \* 0\.2\)",
                      r"h\d = max of m2 over .*, 0 where there are none", r"m3 = exp\(m2 - h\d\[i\]\)", r"h\d = sum of m3 over .*",
                      r"m4 = m3 / h\d\[i\] \* h1\[j\]", r"h\d = sum of m4 over .*", r"out = .* \+ bias") or
           ([h for h, _ in heads].count("message") != 3 and heads) or
           (not all(re.match("for each edge j -> i of " + LOOPS % "replace", w) for h, w in heads if h == "message") and heads))
heads, lines, text = example("gcn.gnn", "net")
box.report("whole_model", [h for h, _ in heads].count("message") != 2 and heads)
box.report("every_name_is_made_before_it_is_used", [
    n for n, at in ((m.group(1), m.start()) for m in re.finditer(r"\b([hmc]\d+)\b", text)) if text.find("    %s = " % n) > at])

box.must(box.gnnc, "data", "generate", "toy", "--nodes", "20", "--features", "4")
r = blocks("gcn", "mine.gnn", "--set", "F=4")
box.report("with_a_size", r.rc)
r = box.run(box.gnnc, "explain", "--as-blocks=sage")
box.report("without_a_file", r.rc or "m1 = x[j]" not in r.out)

with open(os.path.join(ROOT, "docs", "from-pyg.md")) as f:
    box.report("the_page_shows_what_is_printed", "```text\n%s```" % r.out not in f.read() and r.out)

# ---- every layer of the library ----------------------------------------------------------------------

shown, wrong = 0, []
for file in sorted(os.listdir(os.path.join(ROOT, "frontend", "std"))):
    with open(os.path.join(ROOT, "frontend", "std", file)) as f:
        for name in re.findall(r"^layer (\w+)", f.read(), re.M):
            r = box.run(box.gnnc, "explain", "--as-blocks=" + name)
            shown += r.rc == 0
            if r.rc not in (0, 1) or (r.rc == 0) != ("    out" in r.out):
                wrong.append((name, r.rc, r.err[-200:]))
box.report("library", wrong or (shown < 40 and "only %d layers are shown" % shown))

# ---- wrong calls ---------------------------------------------------------------------------------------

EXPLAIN = [box.gnnc, "explain"]
for name, argv, rc, code, says in [
    ("letter_off", ["mine.gnn", "--as-blocks=twicee"], 1, "E0309", ["twicee", "`twice`"]),
    ("no_layer", ["mine.gnn", "--as-blocks=3 + 4"], 1, "E0408", []),
    ("open_option", ["mine.gnn", "--as-blocks=wants"], 1, "E0302", ["`K`"]),
    ("no_value", ["mine.gnn", "--as-blocks"], 1, "E0612", ["--as-blocks"]),
    ("no_file", ["no.gnn", "--as-blocks=gcn"], 6, "E0601", ["no.gnn"]),
    ("two_files", ["mine.gnn", "mine.gnn", "--as-blocks=gcn"], 1, "E0613", ["2"]),
    ("no_code", [], 1, "E0613", []),
]:
    box.refuses(name, EXPLAIN + argv, rc, code, *says)
box.close()
