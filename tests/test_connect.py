#!/usr/bin/env python3
"""Kernels over the same rows that run strip by strip: every bit of results, losses and weights is that of a program in
which each kernel runs over all rows before the next, for any graph, width and number of threads; what passes between them has
no memory of its own.

usage: test_connect.py BUILD
Run: lesser if long"""
import json
import re
import sys

import numpy as np

import toy
from sandbox import Sandbox

TRAIN = """
train net {
  loss = %s
  metric train_acc = accuracy(net(data.x), data.%s) on data.train
  optimizer adam(0.05)
  %s
  epochs 2
}
"""
MODELS = {  # name: (body, at least so many kernels join others)
    "gin": ("  c = gin(nn = mlp(40))\n  l = linear(O = C)\n  return l(relu(c(x, O = 33)))", 2),
    "sage": ("  c = sage(O = 200)\n  l = linear(O = C)\n  return l(relu(c(x)))", 1),
    "deep": ("  l1 = linear(O = 300)\n  l2 = linear(O = 17)\n  l3 = linear(O = 5)\n  c = sage(O = C)\n"
             "  h = l3(tanh(l2(relu(l1(x)))))\n  return c(h) + linear(h, O = C)", 2),
    "heads": ("  c = transformer(H = 2, D = 8)\n  l = linear(O = C)\n  return l(flatten(elu(c(x))))", 1),
    "widest": ("  a = sum_in(x.src * x.dst)\n  h = linear(cat(a, x), O = 1200)\n  return linear(relu(h), O = C)", 1),
    "gathered": ("  h = linear(x, O = 8)\n  c = gcn(O = C)\n  return c(relu(h)) + sum_out(linear(h, O = C).dst)", 0),
}
box = Sandbox(sys.argv[1], "connect")


def graph(kind):
    """A hub, loops, parallel edges, nodes without any; more nodes than strips of any width have rows."""
    rng = np.random.default_rng(5)
    n, m = {"hub": (1900, 7000), "one": (1, 2), "none": (5, 0)}[kind]
    e = rng.integers(0, max(n - 9, 1), (2, m))
    if kind == "hub":
        e[1, :600] = 5
        e[:, -20:-10] = e[:, -10:]
    return n, e


def batch_of(n, graphs):
    return np.sort(np.random.default_rng(8).integers(0, graphs, n))


def data(name, n, edges, graphs=0):
    rng = np.random.default_rng(7)
    arrays = {"edge_index": edges, "x": rng.standard_normal((n, 7)).astype("<f4"), "y": rng.integers(0, 3, n),
              "train_mask": np.ones(n, bool), "val_mask": np.ones(n, bool)}
    if graphs:
        del arrays["y"], arrays["val_mask"]
        arrays.update(batch=batch_of(n, graphs), graph_y=rng.integers(0, 3, graphs), train_mask=np.ones(graphs, bool))
    return toy.store(box.path(name), arrays, num_classes=3, **({"num_graphs": graphs} if graphs else {}))


def model(name, body, graphs=False):
    head = "model net(x: node[F]) -> %s[C] {\n%s\n}\n" % ("graph" if graphs else "node", body)
    y = "graph_y" if graphs else "y"
    text = head + TRAIN % ("cross_entropy(net(data.x), data.%s) on data.train" % y, y, "batch 16 of graphs" if graphs else "")
    return box.write(name + ".gnn", text)


def results(exe, d, threads):
    """(losses, weights, results)"""
    box.must(exe, "train", "--data", d, "--threads", threads, "--metrics", "log.jsonl", "--save", "w.safetensors")
    box.must(exe, "infer", "--data", d, "--threads", threads, "--weights", "w.safetensors", "--out", "out.npy")
    return [open(box.path(name), "rb").read() for name in ("log.jsonl", "w.safetensors", "out.npy")]


def peak(exe, d):
    return json.loads(box.must(exe, "plan", "--data", d, "--json").out)["forward"]["peak_bytes"]


def compare(name, body, least, kind, dtype="f32", graphs=0):
    n, edges = graph(kind)
    if graphs:  # paths within graphs
        batch = batch_of(n, graphs)
        edges = np.ascontiguousarray(np.stack([np.arange(n - 1), np.arange(1, n)])[:, batch[:-1] == batch[1:]])
    d, m = data(kind, n, edges, graphs), model(name, body, bool(graphs))
    build = [box.gnnc, "build", m, "--data", d, "--dtype", dtype, "--cpu=native", "--quick"]
    said = box.must(*build, "--remarks", "-o", "on").err
    box.must(*build, "--disable=connect", "-o", "off")
    on, off = box.path("on"), box.path("off")
    joined = sum(int(k) for k in re.findall(r"remark\[connect\]: forward: `[^`]*` and (\d+) more", said))
    if joined < least:
        return "%d kernels join others, wanted %d or more" % (joined, least)
    want = results(off, d, 1)
    for threads in (1, 2, 3):
        for what, a, b in zip(["losses", "weights", "results"], results(on, d, threads), want):
            if a != b:
                return "%d threads: other %s" % (threads, what)
    if least and kind == "hub" and peak(on, d) >= peak(off, d):
        return "peak %d, without %d" % (peak(on, d), peak(off, d))
    return None


def few_strips():
    """Where rows are few for the strips that a cache has room for, more threads get shorter ones, and the same bits."""
    d = "many"
    box.must(box.gnnc, "data", "generate", d, "--nodes", 6000, "--features", 21)
    box.write("few.gnn", "model net(x: node[F]) -> node {\n  s = sum_in(x.src)\n  return sum(s * s, F)\n}\n")
    box.must(box.gnnc, "build", "few.gnn", "--data", d, "--cpu=native", "--quick", "-o", "few")
    want = None
    for threads in (1, 16):
        steps = json.loads(box.must(box.path("few"), "plan", "--data", d, "--threads", threads, "--json").out)["forward"]["steps"]
        (chain,) = [s for s in steps if "with_next" in s]
        if chain["chunks"] * chain["strip_rows"] > 1.3 * 6000 or (chain["chunks"] < 16 if threads > 1 else chain["chunks"] > 1):
            return "%d threads: %d chunks, strips of %d rows" % (threads, chain["chunks"], chain["strip_rows"])
        box.must(box.path("few"), "infer", "--data", d, "--threads", threads, "--out", "out.npy")
        got = open(box.path("out.npy"), "rb").read()
        want = want or got
        if got != want:
            return "%d threads: other bits" % threads
    return None


box.report("few_strips", few_strips())
for name, (body, least) in MODELS.items():
    box.report(name, compare(name, body, least, "hub"))
for kind in ("one", "none"):
    box.report(kind, compare("gin", *MODELS["gin"], kind))
box.report("f64", compare("gin", *MODELS["gin"], "hub", "f64"))
box.report("batches", compare("pooled", "  c = gin(nn = mlp(40))\n  h = relu(c(x, O = 20))\n  return linear(readout_sum(h), O = C)", 1, "hub", graphs=50))
box.close()
