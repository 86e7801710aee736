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
# By name: the graphs, from which of them v has its values, and both sums over the last one, as values of g's nodes. All nodes are chosen.
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


def draws(box, rng):
    """Each node has one edge, so that its sum is what was drawn for that; edges in the order of their targets are numbered as they stand."""
    lib = build(box, "draws", "model net(x: node) -> node {\n  %s\n  return (over s { sum_in(rand(edge, seed = 3)) })[g]\n}\n" % CHOSEN)
    n = 20
    x, dst = rng.random(n) + 0.1, rng.permutation(n)
    lib.on_graph(n, n, rng.permutation(n), np.arange(n), 1, None)
    by_number = lib.forward({"x": x})[0]
    lib.on_graph(n, n, rng.permutation(n), dst, 1, None)
    found = lib.forward({"x": x})[0]
    if len(set(by_number)) < n:
        return "edges share numbers: %s" % by_number
    return None if np.array_equal(found[dst], by_number) else "drawn %s, wanted %s" % (found[dst], by_number)


box, rng = Sandbox(sys.argv[1], "found_order"), np.random.default_rng(5)
for name in PROGRAMS:
    box.report(name, ranks(box, name, rng))
box.report("draws", draws(box, rng))
box.close()
