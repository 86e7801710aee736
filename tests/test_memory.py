#!/usr/bin/env python3
"""Planned memory: what `plan` says is what is taken; --memory-budget of executables refuses more before it is taken; that of
`gnnc build` makes programs that need less and give the same numbers within the error bound. usage: test_memory.py BUILD
Run: alone"""
import json
import re
import sys

import numpy as np

import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "memory")
toy.make(box)
box.write("attend.gnn", """model attend(x: node[F]) -> node[F] {
  a = linear()
  q: node[F] = a(x)
  s = sum_in(exp(tanh(q.src * q.dst)) * sigmoid(q.src))
  return s / (sum_in(exp(tanh(q.src * q.dst))) + 1) + max_in(sigmoid(q.src + q.dst))
}
""")
BUILD = [box.gnnc, "build", "attend.gnn", "--data", "data", "--cpu=generic", "-o"]
PLAIN = box.path("attend")
box.must(*BUILD, PLAIN)


def least_of(exe, *command):
    """The budget that a refusal names."""
    r = box.run(exe, *command, "--data", "data", "--memory-budget", "0")
    found = re.search(r"needs at least (\d+)", r.err)
    return int(found.group(1)) if found else None


# ---- executables ------------------------------------------------------------------------------------------

least = least_of(PLAIN, "bench", "--iters", "1")
report = json.loads(box.must(PLAIN, "bench", "--data", "data", "--iters", "1", "--json").out)
arenas = [v["arena_bytes"] for v in report.values() if isinstance(v, dict) and "arena_bytes" in v]
box.report("bench_takes_what_is_planned", least != max(arenas) and (least, arenas))
exact = ["--data", "data", "--iters", "1", "--memory-budget"]
r = box.run(PLAIN, "bench", *exact, least)
box.report("the_least_budget_does", r.rc and r.err)
box.refuses("a_byte_less_does_not", [PLAIN, "bench"] + exact + [least - 1], 4, "R613", str(least), str(least - 1))
box.refuses("plan_is_refused_too", [PLAIN, "plan", "--data", "data", "--memory-budget", "1"], 4, "R613", "vjp")
r = box.run(PLAIN, "plan", "--data", "data", "--memory-budget", "2G")
box.report("units", r.rc and r.err)
for name, text in [("word", "much"), ("unit", "3T"), ("negative", "-1"), ("two_units", "3KK"), ("overflow", "99999999999G")]:
    box.refuses("budget_" + name, [PLAIN, "plan", "--data", "data", "--memory-budget", text], 1, "R403", text)
train = least_of(box.path("toy"), "train", "--epochs", "1")
r = box.run(box.path("toy"), "train", "--data", "data", "--epochs", "1", "--memory-budget", train)
box.report("training_within_its_least_budget", r.rc and r.err)

# ---- builds -------------------------------------------------------------------------------------------------

r = box.refuses("build_names_the_least_budget", BUILD + [PLAIN, "--memory-budget", "1"], 4, "E0618", "vjp")
smallest = max(int(n) for n in re.findall(r"--memory-budget=(\d+)", r.err))
box.report("less_is_possible", smallest >= least and (smallest, least))
SMALL = box.path("small")
r = box.run(*BUILD, SMALL, "--memory-budget", smallest)
box.report("build_within_the_least_budget", r.rc and r.err)
box.refuses("build_within_less", BUILD + [SMALL, "--memory-budget", smallest - 1], 4, "E0618", str(smallest))
needs = least_of(SMALL, "bench", "--iters", "1")
box.report("it_needs_what_was_said", needs != smallest and (needs, smallest))
r = box.run(*BUILD, box.path("roomy"), "--memory-budget", "1G")
box.report("a_large_budget_changes_nothing", r.rc or least_of(box.path("roomy"), "bench") != least)

# Pairs of nodes and kinds of edges are fewer than edges, and than nodes times kinds: a budget counts those of the data.
g = np.random.default_rng(5)
ends = g.integers(0, 20, (2, 4000))
toy.store(box.path("kinds"), {"edge_index": ends, "edge_type": ends[0] % 4, "x": g.standard_normal((20, 16)).astype("<f4")})
box.write("kinds.gnn", "model kinds(x: node[F], edge_type: edge index[R]) -> node[16] = rgat(x, edge_type, R = 16, H = 2, D = 8)\n")
KINDS = [box.gnnc, "build", "kinds.gnn", "--data", "kinds", "--cpu=generic", "--quick", "-o", box.path("pairs")]
smallest = max(int(n) for n in re.findall(r"--memory-budget=(\d+)", box.run(*KINDS, "--memory-budget", "1").err))
box.must(*KINDS, "--memory-budget", smallest)
r = box.run(box.path("pairs"), "bench", "--data", "kinds", "--iters", "1", "--memory-budget", smallest - 1)
box.report("pairs_are_counted", ("needs at least %d" % smallest) not in r.err and (smallest, r.err))

# A folder without edges says how many there are, too.
toy.store(box.path("alone"), {"edge_index": np.zeros((2, 0), "<i8"), "x": np.ones((5, 8), "<f4")})
r = box.run(box.gnnc, "build", "attend.gnn", "--data", "alone", "--cpu=generic", "--quick", "-o", box.path("alone.exe"), "--memory-budget", "1M")
box.report("no_edges_are_a_number_of_edges", r.rc and r.err)

# ---- nothing of edges times features ------------------------------------------------------------------------------

box.must(box.gnnc, "data", "generate", "dense", "--nodes", 60, "--edges", 6000, "--features", 8, "--classes", 3)
box.write("wide.gnn", """model wide(x: node[F]) -> node[W] {
  a = linear()
  b = linear()
  p: node[W] = a(x)
  m: edge[W] = b(tanh(p.dst - p.src))
  return max_in(m) + sum_in(tanh(m))
}
""")
WIDE = [box.gnnc, "build", "wide.gnn", "--data", "dense", "--set", "W=64", "--cpu=generic", "-o"]
r = box.run(*WIDE, box.path("wide"), "--memory-budget", "1")
found = re.search(r"--memory-budget=(\d+)", r.err)
box.report("a_budget_removes_wide_values_of_edges", not found or int(found.group(1)) >= 6000 * 64 * 4 and r.err)
r = box.run(*WIDE, box.path("wide"), "--memory-budget", found.group(1) if found else "0")
box.report("built_without_wide_values_of_edges", r.rc and r.err)
r = box.run(box.path("wide"), "bench", "--data", "dense", "--iters", "1")
box.report("runs_without_wide_values_of_edges", r.rc and r.err)

# Layers in a row: the values of edges of the first stay for neither the second nor the gradients.
box.write("rows.gnn", """model rows(x: node[F], e: edge[W]) -> node[W] {
  param A, V: [W, W'] = glorot
  a = linear()
  y: node[W] = a(x)
  for k in 0..3 {
    m: edge[W] = e @ A
    e = e + relu(m + y.src - y.dst)
    s: node[W] = y @ V
    y = y + tanh(sum_in(sigmoid(e) * s.src))
  }
  return y
}
""")
r = box.run(box.gnnc, "build", "rows.gnn", "--data", "dense", "--set", "W=64", "--cpu=generic", "--memory-budget", "1", "-o", box.path("rows"))
needs = [int(n) for n in re.findall(r"--memory-budget=(\d+)", r.err)]
box.report("a_budget_removes_wide_values_between_layers", not needs or max(needs) >= 6000 * 64 * 4 and r.err)

# A row that is gathered is read where it lies, however often: quaternions of edges turn it, gradients of both read it.
box.write("turned.gnn", """model turned(z: node[4, W], q: edge[4]) -> node[M] {
  y = z.src
  u = q / sqrt(sum(square(q)) + 0.01)
  w = u[0] * y[0, ...] - u[1] * y[1, ...] - u[2] * y[2, ...] - u[3] * y[3, ...]
  i = u[0] * y[1, ...] + u[1] * y[0, ...] + u[2] * y[3, ...] - u[3] * y[2, ...]
  j = u[0] * y[2, ...] - u[1] * y[3, ...] + u[2] * y[0, ...] + u[3] * y[1, ...]
  k = u[0] * y[3, ...] + u[1] * y[2, ...] - u[2] * y[1, ...] + u[3] * y[0, ...]
  return sum_in(cat(w, i, j, k))
}
""")
box.must(box.gnnc, "build", "turned.gnn", "--data", "dense", "--set", "W=64", "--cpu=generic", "-o", box.path("turned"))
r = box.run(box.path("turned"), "plan", "--data", "dense", "--memory-budget", "0")
needs = [int(n) for n in re.findall(r"needs at least (\d+)", r.err)]
box.report("a_gathered_row_is_not_copied", not needs or max(needs) >= 6000 * 64 * 4 and r.err)

# A wide value that only the sum over all edges wants, made of a narrow one that the sums over rows compute as well.
box.write("turned.gnn", """model turned(v: node[P, W], pos: node[P]) -> node[P, W] {
  param A: [B, W] = glorot
  d = pos.src - pos.dst
  r = sqrt(sum(square(d), P) + 0.01)
  b = exp(-square(r - 0.3 * float(iota(B))))
  return sum_in((b @ A) * sum(v.src * (d / r), P) * (d / r))
}
""")
box.must(box.gnnc, "build", "turned.gnn", "--set", "P=3,W=64,B=16", "--cpu=generic", "-o", box.path("turned"))
needs = least_of(box.path("turned"), "bench")
box.report("no_wide_value_of_edges_is_stored_for_sums_over_all", needs >= 6000 * 64 * 4 and needs)

# The gradient of e is a result that no sum wants: stored by the walk that has what it is made of, not by another one
# that computes long rows again.
box.write("once.gnn", """model once(x: node[F], e: edge[K]) -> node[F] {
  param A: [K, F] = glorot
  param B: [F, F'] = glorot
  h = tanh(e @ A + x.src + x.dst)
  return sum_in(tanh(h @ B))
}
""")
box.must(box.gnnc, "build", "once.gnn", "--set", "F=64,K=16", "--cpu=generic", "--emit=kir", "-o", box.path("once.kir"))
text = open(box.path("once.kir")).read()
walks = [kernel.count("# blocks of the row") for kernel in text.split("\nkernel ")]
box.report("a_result_of_edges_takes_no_walk_of_its_own", max(walks) != 1 and walks)

# ---- values written over others, in a row longer than what a kernel holds of it ------------------------------------

rng = np.random.default_rng(3)
LONG, BROAD = (toy.store(box.path(name), {"edge_index": rng.integers(0, 5000, (2, 4000)), "x": rng.standard_normal((5000, width)).astype("<f4"),
                                         "batch": np.zeros(5000, int)}, num_graphs=1) for name, width in (("long", 7), ("broad", 100)))


def written_over(name, over, *results, data=LONG):
    """The same bits as where every value has memory of its own; `over`: of the remarks, whether t takes that of s."""
    text = "model net(x: node[F]) -> (%s) {\n  s = sum_in(sum(x).src)\n  t = tanh(s)\n  return %s\n}\n"
    box.write("over.gnn", text % (", ".join(r[0] for r in results), ", ".join(r[1] for r in results)))
    seen = []
    for more in ([], ["--disable=memplan"]):
        r = box.must(box.gnnc, "build", "over.gnn", "--data", data, "--cpu=generic", "-o", box.path("over"), "--remarks=fuse", *more)
        for share in (0, 1):
            box.must(box.path("over"), "infer", "--data", data, "--threads", 2, "--share", share, "--out", "y.npy")
            files = ["y.npy"] + ["y.out%d.npy" % i for i in range(1, len(results))]
            seen.append(([open(box.path(f), "rb").read() for f in files], "tanh is written over" in r.out + r.err))
    box.report(name, any(x[0] != seen[2][0] for x in seen) and "other bits" or [x[1] for x in seen] != [over, over, False, False])


AGAIN = ("node[]", "sum_in(t.src)")  # so that t is stored
written_over("one_walk_writes_over", True, ("graph[]", "readout_max(t)"), ("graph[F]", "readout_sum(t * x)"), AGAIN)
written_over("a_walk_for_each_tile_does_not", False, ("graph[]", "readout_max(t)"), ("graph[F]", "readout_sum(t * x)"), AGAIN, data=BROAD)
written_over("a_second_walk_does_not", False, ("graph[]", "readout_sum(t)"), ("node[F]", "t * x"), AGAIN)
written_over("sums_that_rescale_do_not", False, ("graph[]", "readout_logsumexp(t)"), ("graph[F]", "readout_sum(t * x)"), AGAIN)

for name, argv, says in [("word", ["--data", "data", "--memory-budget", "much"], "much"),
                         ("without_data", ["--set", "F=8", "--memory-budget", "1G"], "--data")]:
    box.refuses("build_budget_" + name, [box.gnnc, "build", "attend.gnn", "-o", SMALL] + argv, 1, "E0612", says)
box.close()
