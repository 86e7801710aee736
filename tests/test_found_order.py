#!/usr/bin/env python3
"""Edges of graphs that a run finds stand in the order of the data, which the data need not have by target: among equal values `rank_in` and
`rank_out` put those first that stand first, and random numbers belong to an edge of the data by its place there. Graphs of chosen nodes,
turned around, with loops, chosen from turned graphs, from graphs with loops and from chosen ones; data of one and of three graphs.
usage: test_found_order.py BUILD
Run: lesser if long"""
import os
import sys

import numpy as np
from sandbox import Sandbox

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import library  # noqa: E402

OUT, IN = "sum_in(float(rank_out(0 * v)) * v)", "sum_out(float(rank_in(0 * v)) * v)"
TURNED_OUT, TURNED_IN = "sum_out(float(rank_in(0 * v)) * v)", "sum_in(float(rank_out(0 * v)) * v)"
CHOSEN = "graph s = select(g, x, ratio = 1)"
# By name: the graphs, from which of them v has its values, and both sums over the last one, as values of g's nodes. All
# nodes are chosen.
PROGRAMS = {
    "data": ("v = w", OUT, IN),
    "chosen": (CHOSEN + "\n  v = w[s]", "(over s { %s })[g]" % OUT, "(over s { %s })[g]" % IN),
    "chosen_by_a_bool": ("graph s = select(g, x > 0)\n  v = w[s]", "(over s { %s })[g]" % OUT, "(over s { %s })[g]" % IN),
    "chosen_twice": (CHOSEN + "\n  y = x[s]\n  u = w[s]\n  graph t = over s { select(s, y, ratio = 1) }\n  v = u[t]", "(over t { %s })[s][g]" % OUT,
                     "(over t { %s })[s][g]" % IN),
    "turned": (CHOSEN + "\n  v = w[s]\n  graph t = reverse(s, fill v = 0)", "(over t { %s })[g]" % TURNED_OUT, "(over t { %s })[g]" % TURNED_IN),
    "with_loops": (CHOSEN + "\n  v = w[s]\n  graph t = self_loops(s, add, fill v = 0)", "(over t { %s })[g]" % OUT, "(over t { %s })[g]" % IN),
    "chosen_from_turned": ("graph t = reverse(g, fill w = 0)\n  graph s = over t { select(t, x, ratio = 1) }\n  v = over t { w[s] }",
                           "(over s { %s })[g]" % TURNED_OUT, "(over s { %s })[g]" % TURNED_IN),
}


def wanted(n, src, dst, w):
    """Both sums [n], edge by edge."""
    out, into = np.zeros(n), np.zeros(n)
    for e in range(len(src)):
        out[dst[e]] += w[e] * np.count_nonzero(src[:e] == src[e])
        into[src[e]] += w[e] * np.count_nonzero(dst[:e] == dst[e])
    return out, into


def build(box, name, text):
    box.write(name + ".gnn", text)
    box.must(box.gnnc, "build", name + ".gnn", "--dtype=f64", "--emit=lib", "--cpu=native", "--prefix=m", "-o", box.path(name))
    return library.Library(box.path(name) + ".so", "m", np.float64)


def ranks(box, name, rng):
    graphs, out, into = PROGRAMS[name]
    lib = build(box, name, "model net(x: node, w: edge) -> (node, node) {\n  %s\n  return %s, %s\n}\n" % (graphs, out, into))
    for trial in range(12):
        n, m, n_graphs = 9, 25, 1 + 2 * (trial % 2)
        graph_of = np.arange(n) * n_graphs // n
        src = rng.integers(0, n, m)
        dst = np.array([rng.choice(np.flatnonzero(graph_of == graph_of[v])) for v in src])
        w = rng.random(m)
        lib.on_graph(n, n, src, dst, n_graphs, graph_of if n_graphs > 1 else None)
        for what, got, want in zip(("rank_out", "rank_in"), lib.forward({"x": rng.random(n) + 0.1, "w": w}), wanted(n, src, dst, w)):
            if not np.allclose(got, want):
                return "%s, %d graphs: %s of edges %s: %s, wanted %s" % (name, n_graphs, what, list(zip(src, dst)), got, want)


# By name: graphs of the last of which each edge of the data has its draw, what adds these up at the data's targets, and
# what was drawn for loops.
DRAWS = {
    "chosen": (CHOSEN, "(over s { sum_in(rand(edge, seed = 3)) })[g]", "0 * x"),
    "chosen_twice": (CHOSEN + "\n  y = x[s]\n  graph t = over s { select(s, y, ratio = 1) }", "(over t { sum_in(rand(edge, seed = 3)) })[s][g]", "0 * x"),
    "turned": (CHOSEN + "\n  graph t = reverse(s)", "(over t { sum_out(rand(edge, seed = 3)) })[g]", "0 * x"),
    "with_loops": (CHOSEN + "\n  v = 1 + 0 * w[s]\n  graph t = self_loops(s, add, fill v = 0)\n  r = over t { rand(edge, seed = 3) }",
                   "(over t { sum_in(r * v) })[g]", "(over t { sum_in(r * (1 - v)) })[g]"),
}


def draws(box, name, rng):
    """Each node has one edge to it, so that its sum is what was drawn for that edge. Where edges stand by their targets, and these by their
    graphs, they are numbered as they stand; elsewhere graph after graph, in the order of the data. Loops come behind them."""
    graphs, edges, loops = DRAWS[name]
    lib = build(box, "draws_" + name, "model net(x: node, w: edge) -> (node, node) {\n  %s\n  return %s, %s\n}\n" % (graphs, edges, loops))
    n = 20
    for n_graphs in (1, 3):
        graph_of = np.arange(n) * n_graphs // n
        given = {"x": rng.random(n) + 0.1, "w": rng.random(n)}

        def drawn(dst):
            src = np.array([rng.choice(np.flatnonzero(graph_of == graph_of[v])) for v in dst])
            lib.on_graph(n, n, src, dst, n_graphs, graph_of if n_graphs > 1 else None)
            return lib.forward(given)

        by_number, by_loop = drawn(np.arange(n))
        dst = rng.permutation(n)
        found, found_by_loop = drawn(dst)
        number = np.empty(n, np.int64)  # of each edge
        number[np.argsort(graph_of[dst], kind="stable")] = np.arange(n)
        if len(set(by_number)) < n or (name == "with_loops" and len(set(by_number) | set(by_loop)) < 2 * n):
            return "%d graphs: edges share numbers: %s %s" % (n_graphs, by_number, by_loop)
        if not np.array_equal(found[dst], by_number[number]) or not np.array_equal(found_by_loop, by_loop):
            return "%d graphs: drawn %s, wanted %s; for loops %s, %s" % (n_graphs, found[dst], by_number[number], found_by_loop, by_loop)


def between_graphs(box):
    """Edges of chosen nodes stand graph after graph also where the data have them by target: of 2 -> 1 and 0 -> 1, the second comes first,
    since node 0 belongs to the first graph and node 2 to the second."""
    lib = build(box, "between", "model net(x: node, w: edge) -> node {\n  %s\n  v = w[s]\n  return (over s { %s })[g]\n}\n" % (CHOSEN, IN))
    lib.on_graph(4, 4, np.array([2, 0]), np.array([1, 1]), 2, np.array([0, 0, 1, 1]))
    (got,) = lib.forward({"x": np.arange(4) + 1.0, "w": np.array([1.0, 10.0])})
    return None if np.array_equal(got, [0, 0, 1, 0]) else "each source's edges times their places at the target: %s" % got


box, rng = Sandbox(sys.argv[1], "found_order"), np.random.default_rng(5)
box.report("between_graphs", between_graphs(box))
for name in PROGRAMS:
    box.report(name, ranks(box, name, rng))
for name in DRAWS:
    box.report("draws_" + name, draws(box, name, rng))
box.close()
