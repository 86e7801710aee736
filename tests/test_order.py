#!/usr/bin/env python3
"""Nodes stored in another order: each node's results keep their bits, sums over all nodes stay within rounding, ids are the
user's.

usage: test_order.py BUILD"""
import json
import os
import sys

import numpy as np

import toy
from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORA = os.path.join(ROOT, "examples", "data", "cora")
MODES = ["degree", "bfs"]
# Loops, edge inputs, random numbers per node and per edge, rows read both ways.
MODEL = """model net(x: node[F], w: edge) -> node[C] {
  h = gcn(O = 8)
  g = gat(D = 4, H = 2)
  out = sage(O = C)
  return out(relu(dropout(h(x), 0.5)) + relu(g(x)) * sum(dropout(x, 0.5), F))
}

train net {
  loss = cross_entropy(net(data.x, data.w), data.y) on data.train
  metric val_acc = accuracy(net(data.x, data.w), data.y) on data.val
  optimizer adam(0.01)
  epochs 3
  seed 0
}
"""
box = Sandbox(sys.argv[1], "order")
box.write("m.gnn", MODEL)


def data(name, edges, n, batch=None):
    rng = np.random.default_rng(4)
    arrays = {"edge_index": edges, "x": rng.standard_normal((n, 6)).astype("<f4"), "w": rng.random(edges.shape[1]).astype("<f4"),
              "y": rng.integers(0, 4, n), "train_mask": rng.random(n) < 0.5}
    arrays["val_mask"] = ~arrays["train_mask"]
    if batch is not None:
        arrays["batch"] = batch
    return toy.store(box.path(name), arrays, num_nodes=n, num_edges=edges.shape[1], feature_dim=6, num_classes=4)


def random_edges(n, m):
    """A hub with more than 256 edges, loops, parallel edges, nodes without any."""
    rng = np.random.default_rng(3)
    e = rng.integers(0, n - 7, (2, m))
    e[1, : m // 3] = 5
    e[:, -20:-10] = e[:, -10:]
    e[1, 50:80] = e[0, 50:80]
    return e


def ring(n, shuffled):
    """Neighbours on a ring of many nodes, which have the ids of a random permutation."""
    name = np.random.default_rng(8).permutation(n) if shuffled else np.arange(n)
    v = np.repeat(np.arange(n), 6)
    u = (v + np.tile([-3, -2, -1, 1, 2, 3], n)) % n
    return np.stack([name[u], name[v]])


def build(name, model, d, *options):
    box.must(box.gnnc, "build", model, "--data", d, "--cpu", "native", "-o", name, *options)
    return box.path(name)


def infer(exe, d, weights, *options):
    box.must(exe, "infer", "--data", d, "--weights", weights, "--out", "y.npy", *options)
    return np.load(box.path("y.npy"))


def train(exe, d, *options):
    box.must(exe, "train", "--data", d, "--epochs", "3", "--metrics", "log.jsonl", "--save", "w.safetensors", *options)
    with open(box.path("log.jsonl")) as f:
        return [json.loads(line)["loss"] for line in f if "final" not in line]


def same_rows(exe, d):
    want_loss = train(exe, d)
    want = infer(exe, d, box.path("w.safetensors"))
    os.rename(box.path("w.safetensors"), box.path("kept.safetensors"))
    for mode in MODES + ["auto"]:
        for threads in "13":
            got = infer(exe, d, box.path("kept.safetensors"), "--reorder", mode, "--threads", threads)
            if got.tobytes() != want.tobytes():
                return "%s, %s threads: other bits in %d of %d rows" % (mode, threads, (got != want).any(1).sum(), len(want))
        loss = train(exe, d, "--reorder", mode)
        if max(abs(a - b) for a, b in zip(loss, want_loss)) > 1e-5:
            return "%s: losses %s, wanted %s" % (mode, loss, want_loss)
    return None


def rows():
    d = data("rows", random_edges(400, 3000), 400)
    return same_rows(build("rows.exe", "m.gnn", d), d)


def no_edges():
    d = data("bare", np.zeros((2, 0), "<i8"), 3)
    return same_rows(build("bare.exe", "m.gnn", d), d)


def nonzeros():
    """Features by their nonzeros follow their nodes."""
    for name in ["gcn", "sage"]:
        wrong = same_rows(build(name, os.path.join(ROOT, "examples", name + ".gnn"), CORA), CORA)
        if wrong:
            return name + ": " + wrong
    return None


def plan_says(exe, d, mode):
    return [line for line in box.must(exe, "plan", "--data", d, "--reorder", mode).out.splitlines() if "order of nodes" in line][0]


def auto():
    """A local graph whose ids are shuffled gains; the same graph with its own ids keeps them."""
    n = 40000
    shuffled, local = data("shuffled", ring(n, True), n), data("local", ring(n, False), n)
    exe = build("auto.exe", "m.gnn", shuffled)
    a, b = plan_says(exe, shuffled, "auto"), plan_says(exe, local, "auto")
    return ("bfs" not in a or "none" not in b) and a + " | " + b


def moved():
    """The test above can fail: orders do change how nodes are stored."""
    d = data("moved", random_edges(300, 2000), 300)
    exe = build("moved.exe", "m.gnn", d)
    said = [plan_says(exe, d, mode) for mode in MODES]
    return any(mode not in line for mode, line in zip(MODES, said)) and said


def bipartite():
    """Both kinds of nodes are ordered; a loop joins those of one id of the user's."""
    rng = np.random.default_rng(6)
    edges = np.stack([rng.integers(0, 90, 700), rng.integers(0, 50, 700)])
    d = toy.store(box.path("both"), {"edge_index": edges, "x": rng.standard_normal((90, 4)).astype("<f4"), "z": rng.standard_normal((50, 4)).astype("<f4")},
                  num_src=90, num_dst=50, num_edges=700)
    box.write("both.gnn", "model net(x: src[F], z: dst[F]) -> dst[F] = over self_loops(g, add) { sum_in(x.src * z.dst) }\n")
    exe = build("both.exe", "both.gnn", d)
    outs = []
    for mode in ["none"] + MODES:
        box.must(exe, "infer", "--data", d, "--out", "y.npy", "--reorder", mode)
        outs.append(np.load(box.path("y.npy")).tobytes())
    said = plan_says(exe, d, "degree")
    return (outs[1:] != outs[:1] * len(MODES) or "degree" not in said) and "other bits, or %s" % said


def kept():
    d = data("batch", random_edges(60, 200), 60, batch=np.sort(np.arange(60) % 3))
    exe = build("batch.exe", "m.gnn", d)
    said = plan_says(exe, d, "bfs")
    return ("none" not in said or "batch.npy" not in said) and said


def refused():
    r = box.run(box.path("rows.exe"), "plan", "--data", box.path("rows"), "--reorder", "metis")
    return (r.rc != 1 or "auto, degree or bfs" not in r.err) and "%s %s" % (r.rc, r.err)


for test in [rows, no_edges, nonzeros, auto, moved, bipartite, kept, refused]:
    try:
        box.report(test.__name__, test())
    except (RuntimeError, OSError, IndexError, ValueError) as e:
        box.report(test.__name__, "%s: %s" % (type(e).__name__, e))
box.close()
