#!/usr/bin/env python3
"""Rows that a masked loss does not need are left out: every bit of losses, weights and metrics is that of a program that
computes all rows, for any mask, graph and number of threads; and what is left out is what it should be.

usage: test_cone.py BUILD
Run: lesser if long"""
import json
import os
import re
import sys

import numpy as np

import toy
from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORA = os.path.join(ROOT, "examples", "data", "cora")
TRAIN = """
train net {
  loss = %s
  metric val_acc = accuracy(net(data.x), data.y) on data.val
  optimizer adam(0.05)
  epochs 3
  seed 0
}
"""
LOSS = "cross_entropy(net(data.x), data.y) on data.train"
# Layers whose sums are plain, weighted by both ends, normalised by a row, extrema, and several of them in one model.
MODELS = {
    "one": "  c = gcn(O = C)\n  return c(x)",
    "two": "  c1 = gcn(O = 4)\n  c2 = gcn(O = C)\n  return c2(relu(c1(dropout(x, 0.5))))",
    "gcn": "  c1 = gcn(O = 16)\n  c2 = gcn(O = C)\n  return c2(dropout(relu(c1(x)), 0.5))",
    "deep": "  c1 = gcn(O = 8)\n  c2 = sage(O = 8)\n  c3 = gcn(O = C)\n  h = relu(c1(x))\n  return c3(h + tanh(c2(h)))",
    "gat": "  c1 = gat(D = 4, H = 2, attn_dropout = 0.3)\n  c2 = gat(D = C, H = 1)\n  return c2(elu(c1(dropout(x, 0.5))))",
    "gatv2": "  c1 = gatv2(D = 4, H = 2)\n  c2 = sage(O = C)\n  return c2(relu(c1(x)))",
    "jk": "  c1 = gcn(O = 8)\n  c2 = gin(O = 8)\n  l = linear(O = C)\n  a = relu(c1(x))\n  b = relu(c2(a))\n  return l(beside(a, b))",
    "ex": "  c1 = graph_conv(O = 8, aggr = max)\n  c2 = res_gated(O = C)\n  return c2(relu(c1(x)))",
    "ranks": "  l = linear(O = 4)\n  c = gcn(O = C)\n  return c(median_in(tanh(l(x)).src))",
    "words": "  param T: [24, F] = normal(0, 1)\n  k: node index[24] = int(floor(4 * sum(x * x, F)))\n  c = gcn(O = C)\n  return c(T[k])",
    "strips": "  c1 = gin(nn = mlp(40))\n  c2 = gin(nn = mlp(24))\n  l = linear(O = C)\n  h = relu(c1(x, O = 33))\n  return l(relu(c2(h, O = 17)))",
    "near": "  l = linear(O = 3)\n  c = gcn(O = C)\n  h = l(x)\n  graph near = knn(h, k = 3)\n  return c(h + over near { sum_in(h.src) })",
    "deep_res": "  l = linear(O = 8)\n  c1 = gcn2()\n  c2 = gcn2()\n  o = gcn(O = C)\n  h = l(x)\n  return o(relu(c2(relu(c1(h, h)), h)))",
}
box = Sandbox(sys.argv[1], "cone")


def edges_of(kind):
    """A hub with more than 256 edges both ways, loops, parallel edges, nodes without any."""
    rng = np.random.default_rng(5)
    if kind == "none":
        return 5, np.zeros((2, 0), "<i8")
    if kind == "one":
        return 1, np.zeros((2, 3), "<i8")
    n, m = (600, 2600) if kind == "hub" else (300, 700)
    e = rng.integers(0, n - 9, (2, m))
    if kind == "hub":
        e[1, :400] = 5
        e[0, 300:700] = 6
    e[:, -20:-10] = e[:, -10:]
    e[1, 700:720 if m > 700 else 700] = e[0, 700:720 if m > 700 else 700]
    return n, e


def masks(n):
    rng = np.random.default_rng(6)
    few = rng.random(n) < 0.04
    lone = np.zeros(n, bool)
    lone[n - 1] = True  # without edges
    hub = np.zeros(n, bool)
    hub[min(5, n - 1)] = True
    return {"few": few, "none": np.zeros(n, bool), "all": np.ones(n, bool), "lone": lone, "hub": hub,
            "half": rng.random(n) < 0.5}


def data(name, n, edges, mask):
    rng = np.random.default_rng(7)
    arrays = {"edge_index": edges, "x": rng.standard_normal((n, 6)).astype("<f4"), "y": rng.integers(0, 3, n),
              "train_mask": mask, "val_mask": rng.random(n) < 0.2}
    return toy.store(box.path(name), arrays, num_nodes=n, num_edges=edges.shape[1], feature_dim=6, num_classes=3)


def train(exe, d, *options):
    box.must(exe, "train", "--data", d, "--epochs", "3", "--metrics", "log.jsonl", "--save", "w.safetensors", *options)
    with open(box.path("log.jsonl"), "rb") as a, open(box.path("w.safetensors"), "rb") as b:
        return a.read(), b.read()


def build(name, d, *options):
    model = box.write(name + ".gnn", "model net(x: node[F]) -> node[C] {\n%s\n}\n%s" % (MODELS[name], TRAIN % LOSS))
    box.must(box.gnnc, "build", model, "--data", d, "--cpu", "native", "--quick", "-o", name + ".exe", *options)
    return box.path(name + ".exe")


def same_bits(name):
    """Left out by force, by choice, not at all, and by a program that was built without the pass."""
    n, e = edges_of("hub")
    d = data("d", n, e, masks(n)["few"])
    plain = build(name, d, "--disable=cone")
    os.rename(plain, plain + ".plain")
    exe = build(name, d)
    for kind in ["hub", "plain", "one", "none"]:
        n, e = edges_of(kind)
        for mask, rows in masks(n).items():
            d = data("d", n, e, rows)
            want = train(plain + ".plain", d)
            for options in [("on", "1"), ("on", "2"), ("on", "3"), ("auto", "2"), ("off", "2")]:
                got = train(exe, d, "--cone", options[0], "--threads", options[1])
                for what, a, b in zip(["losses", "weights"], got, want):
                    if a != b:
                        return "graph %s, mask %s, --cone %s, %s threads: other %s" % (kind, mask, *options, what)
    return None


def steps(exe, d, *options):
    plan = json.loads(box.must(exe, "plan", "--data", d, "--json", *options).out)
    return plan["train_step"]["steps"]


def right_rows():
    """Of two layers: the mask for the last one, rows with an edge into it for the one before."""
    n, e = edges_of("plain")
    mask = masks(n)["few"]
    d = data("d", n, e, mask)
    exe = build("two", d)
    near = mask.copy()
    near[e[0][mask[e[1]]]] = True
    found = [s["rows_needed"] for s in steps(exe, d, "--cone", "on") if "rows_needed" in s and s["name"].startswith("reduce_sum edge.loops.dst")]
    if sorted(found) != sorted([near.sum(), mask.sum()]):
        return "rows needed: %s, wanted %s and %s" % (found, near.sum(), mask.sum())
    if any("rows_needed" in s for s in steps(exe, d, "--cone", "off")):
        return "--cone off leaves rows out"
    return None


def by_cost():
    """Cora's 140 of 2,708 nodes pay, half of the nodes do not. Of a mask with more than a third of the rows nothing is left out, even where that would pay."""
    exe = box.path("cora.exe")
    box.must(box.gnnc, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "--cpu", "native", "-o", exe)
    if not any("rows_needed" in s for s in steps(exe, CORA)):
        return "Cora: all rows are computed"
    text = box.must(exe, "plan", "--data", CORA).out
    if not re.search(r"leaves out rows that nothing needs: \d+ % of the work", text):
        return "plan says nothing: " + text
    n, e = edges_of("plain")
    d = data("d", n, e, masks(n)["half"])
    half = build("gcn", d)
    if any("rows_needed" in s for s in steps(half, d)):
        return "half of the nodes: rows are left out"
    exe = build("one", d)
    for share, pays in ((0.3, True), (0.4, False)):
        d = data("d", n, e, np.arange(n) < share * n)
        if pays != any("rows_needed" in s for s in steps(exe, d)):
            return "the first %g of the nodes: %s" % (share, "all rows are computed" if pays else "rows are left out")
    return None


def says_what_it_saves():
    """bench says of each program what it reads by nonzeros, reads as computed once, and leaves out, as plan does; without the passes nothing. A step
    whose dropout makes features of its own reads all of them."""
    exe, found = box.path("saves.exe"), []
    for options in ([], ["--disable=sparse,hoist,cone"]):
        box.must(box.gnnc, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "--cpu", "native", "-o", exe, *options)
        planned = json.loads(box.must(exe, "plan", "--data", CORA, "--json").out)
        timed = json.loads(box.must(exe, "bench", "--data", CORA, "--iters", "1", "--json").out)
        for name, function in (("infer", "forward"), ("train_step", "train_step")):
            both = [[p[k] for k in ("reads_sparse", "computed_once", "left_out")] for p in (timed[name], planned[function])]
            if both[0] != both[1]:
                return "bench and plan differ: %s" % both
            found.append(both[0])
    degrees = {"space": "node", "dims": [], "bytes": 2708 * 4}
    (sparse, once, left), (sparse_step, once_step, left_step), plain, plain_step = found
    right = sparse == ["x"] and sparse_step == [] and degrees in once and degrees in once_step and left == 0 and 0.05 < left_step < 1
    return None if right and plain == plain_step == [[], [], 0] else found


def says_why():
    n, e = edges_of("plain")
    d = data("d", n, e, masks(n)["few"])
    r = box.must(box.gnnc, "build", box.path("gcn.gnn"), "--data", d, "--cpu", "generic", "-o", "r.exe", "--remarks=cone")
    if "remark[cone]" not in r.err:
        return "no remark: " + r.err
    r = box.run(box.path("r.exe"), "train", "--data", d, "--cone", "maybe")
    return "--cone maybe: " + r.err if r.rc == 0 or "auto, on or off" not in r.err else None


def keeps_signs():
    """Where a result would show that a zero lost its sign no row is left out: `select` drops rows of y * y, and the product
    of y with that 0 is -0 in some."""
    model = box.write("signs.gnn", """model net(x: node[4], m: node[] bool) -> node[4] {
  y = tanh(sin(3 * x)) * sum(x)
  return grad(sum_all(sum(where(m, y * y, 0))), x)
}
""")
    box.must(box.gnnc, "build", model, "--emit=plan", "-o", "signs.plan")
    with open(box.path("signs.plan"), encoding="utf-8") as f:
        text = f.read()
    return "rows are left out:\n" + text if "needs rows" in text else None


def may_overflow():
    """exp of what the caller gives, less a row that is left out and so 0, may be infinite, and 0 times it is no 0: the row is needed."""
    n, e = edges_of("hub")
    arrays = {"edge_index": e, "x": (90 * np.random.default_rng(8).standard_normal((n, 3))).astype("<f4"), "z": np.ones((n, 3), "<f4"), "train_mask": masks(n)["few"]}
    d = toy.store(box.path("large"), arrays)
    model = box.write("large.gnn", """model net(x: node[F], z: node[F]) -> node[F] {
  param P, Q: [F] = normal(1)
  h = x * P
  a = softmax_in(h.src + (z * Q).dst)
  return sum_in(a * h.src) + sum_in(a) + sum_in(a) + sum_in(h.src)
}
""" + (TRAIN % "mean(mse(net(data.x, data.z), data.z), F) on data.train").replace("  metric val_acc = accuracy(net(data.x), data.y) on data.val\n", ""))
    box.must(box.gnnc, "build", model, "--data", d, "--cpu", "native", "--quick", "-o", "large.exe")
    want = train(box.path("large.exe"), d, "--cone", "off")
    if b"nan" in want[0].lower() or train(box.path("large.exe"), d, "--cone", "on") != want:
        return "--cone on: other losses or weights, or NaN"
    return None


def by_batches():
    """Each batch of graphs has rows of its own that it needs. They are listed anew for each, if that is asked for."""
    rng, n, graphs = np.random.default_rng(9), 300, 12
    batch = np.sort(rng.integers(0, graphs, n))
    src = rng.integers(0, n, 900)
    dst = np.array([rng.choice(np.flatnonzero(batch == batch[u])) for u in src])
    arrays = {"edge_index": np.stack([src, dst]), "x": rng.standard_normal((n, 6)).astype("<f4"), "y": rng.integers(0, 3, n), "batch": batch,
              "train_mask": rng.random(n) < 0.1, "val_mask": rng.random(n) < 0.2}
    d = toy.store(box.path("batches"), arrays, num_classes=3, num_graphs=graphs)
    model = box.write("batches.gnn", "model net(x: node[F]) -> node[C] {\n%s\n}\n%s" % (MODELS["gcn"], (TRAIN % LOSS).replace("epochs", "batch 5 of graphs\n  epochs")))
    box.must(box.gnnc, "build", model, "--data", d, "--cpu", "native", "--quick", "-o", "batches.exe")
    want = train(box.path("batches.exe"), d, "--cone", "off", "--threads", "1")
    for cone, threads in (("on", "1"), ("on", "3"), ("auto", "2")):
        if train(box.path("batches.exe"), d, "--cone", cone, "--threads", threads) != want:
            return "--cone %s, %s threads: other losses or weights" % (cone, threads)
    return None


for model in MODELS:
    box.report(model, same_bits(model))
for test in [right_rows, by_cost, by_batches, says_what_it_saves, says_why, keeps_signs, may_overflow]:
    box.report(test.__name__, test())
box.close()
