#!/usr/bin/env python3
"""Graphs of nearest points in executables against numpy: batches, ties, points that are NaN, lists that are short, sources and targets
of two kinds, the points of shared/data, a classifier
that trains on them; graphs of selected nodes. usage: test_near.py BUILD
Run: avx2 if long"""
import json
import os
import re
import sys

import numpy as np
from sandbox import Sandbox

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "data", "points16")
LISTS = """
fn lists(source) {
  place = id(edge) - min_in(id(edge)).dst
  return sum_in(where(place == iota(%d), source + 1, 0))
}
"""
MODEL = LISTS + """
model net(x: node[F]) -> node[%d] {
  p = where(x > 50, log(-x), where(x < -50, 1 / (0 * x), x))  # NaN and infinite, where the test says so
  graph k = knn(p, %d, loop = %s, dilation = %d)
  return over k { lists(float(id(node)).src) }
}
"""
TWO = LISTS + """
model net(x: src[F], y: dst[F]) -> dst[%d] {
  graph k = knn(x, %d, to = y)
  return over k { lists(float(id(src)).src) }
}
"""


def nearest(x, y, k, batch, others, step=1):
    """[rows of y][k] of rows of x + 1, 0 where there is none."""
    lists = np.zeros((len(y), k), int)
    for v in range(len(y)):
        at = np.flatnonzero((np.ones(len(x), bool) if batch is None else batch == batch[v]) & ~(others & (np.arange(len(x)) == v)))
        with np.errstate(all="ignore"):
            d = ((x[at].astype("f8") - y[v].astype("f8")) ** 2).sum(1)
        order = at[np.argsort(np.where(np.isfinite(d), d, np.finfo("f8").max), kind="stable")][:k * step:step]
        lists[v, :len(order)] = order + 1
    return lists


def folder_of(box, name, **files):
    folder = box.path(name)
    os.makedirs(folder)
    for file, value in files.items():
        np.save(os.path.join(folder, file + ".npy"), value)
    return folder


def infer(box, folder, model, *flags):
    box.write(os.path.join(folder, "m.gnn"), model)
    box.must(box.gnnc, "build", os.path.join(folder, "m.gnn"), "--data", folder, "--cpu=native", "-o", folder + "/net", *flags)
    outs = []
    for threads in (1, 2, 3):
        box.must(folder + "/net", "infer", "--data", folder, "--out", folder + "/out.npy", "--threads", threads)
        outs.append(np.load(folder + "/out.npy"))
    return None if any((o != outs[0]).any() for o in outs) else outs[0].astype(int)


def marked(x):
    """The points that MODEL makes of x."""
    return np.where(x > 50, np.nan, np.where(x < -50, np.inf, x))


def one(box, name, x, k, batch=None, loop=False, *flags, step=1):
    files = {"x": x, "edge_index": np.zeros((2, 0), int)}
    if batch is not None:
        files["batch"] = batch
    got = infer(box, folder_of(box, name, **files), MODEL % (k, k, k, "true" if loop else "false", step), *flags)
    if got is None:
        return "threads differ"
    wrong = (got != nearest(marked(x), marked(x), k, batch, not loop, step)).any(1)
    return "%d of %d lists are wrong" % (wrong.sum(), len(x)) if wrong.any() else None


def vectors(box, x, k):
    """A schedule's text says how many targets one vector has; lists that private arrays do not hold are refused."""
    folder = folder_of(box, "vectors", x=x, edge_index=np.zeros((2, 0), int))
    text = schedule_of(box, folder, k)
    for n in (1, 2, 4, 8):
        edited = re.sub(r"(nearest .*along_rows) \d+", r"\1 %d" % n, text)
        box.write(folder + "/%d.schedule" % n, edited)
        why = one(box, "vectors_%d" % n, x, k, None, False, "--schedule=%s/%d.schedule" % (folder, n)) if edited != text else "no number to edit"
        if why:
            return "%d: %s" % (n, why)
    text = re.sub(r"(nearest .*along_rows) 8", r"\1 16", schedule_of(box, folder, 600))
    box.write(folder + "/wide.schedule", text)
    r = box.run(box.gnnc, "build", folder + "/m.gnn", "--data", folder, "-o", folder + "/net", "--schedule=%s/wide.schedule" % folder)
    return None if r.rc == 3 and "more than private arrays hold" in r.err else "600 neighbours in 16 lanes: %s, %s" % (r.rc, r.err)


def schedule_of(box, folder, k):
    box.write(folder + "/m.gnn", MODEL % (k, k, k, "false", 1))
    box.must(box.gnnc, "build", folder + "/m.gnn", "--data", folder, "--emit=schedule", "-o", folder + "/plain")
    with open(folder + "/plain.schedule", encoding="utf-8") as f:
        text = f.read()
    os.remove(folder + "/plain.schedule")
    return text


def two(box):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((23, 2)).astype("f4"), rng.standard_normal((17, 2)).astype("f4")
    folder = folder_of(box, "two", x=x, y=y, edge_index=np.zeros((2, 0), int))
    json.dump({"num_src": 23, "num_dst": 17}, open(folder + "/meta.json", "w"))
    got = infer(box, folder, TWO % (4, 4, 4))
    return None if got is not None and (got == nearest(x, y, 4, None, False)).all() else "lists differ"


def points16(box):
    points, knn = np.load(SHARED + "/points.npy"), np.load(SHARED + "/knn.npy")
    n, p, k = knn.shape
    folder = folder_of(box, "points16", x=points.reshape(-1, 3), batch=np.repeat(np.arange(n), p), edge_index=np.zeros((2, 0), int))
    got = infer(box, folder, MODEL % (k, k, k, "false", 1))
    want = (knn + (np.arange(n) * p)[:, None, None]).reshape(-1, k) + 1
    return None if got is not None and (got == want).all() else "lists differ"


def learns(box, name, clouds):
    """The example's loss falls below a tenth of its start; weights are the same on one and two threads."""
    n, p, _ = clouds.shape
    folder = folder_of(box, name, x=clouds.reshape(-1, 3).astype("f4"), batch=np.repeat(np.arange(n), p), y=np.arange(n),
                       edge_index=np.zeros((2, 0), int))
    with open(folder + "/meta.json", "w") as f:
        json.dump({"num_nodes": n * p, "num_graphs": n, "num_classes": n}, f)
    box.must(box.gnnc, "build", os.path.join(ROOT, "examples", "points.gnn"), "--data", folder, "--cpu=native", "-o", folder + "/net")
    for threads in (1, 2):
        box.must(folder + "/net", "train", "--data", folder, "--threads", threads, "--epochs", 2 if threads > 1 else 60, "--metrics",
                 folder + "/log%d" % threads, limit=600)
    log = [[json.loads(line).get("loss") for line in open(folder + "/log%d" % t)] for t in (1, 2)]
    if log[0][1] != log[1][1]:
        return "threads differ: %r, %r" % (log[0][:2], log[1][:2])
    losses = [x for x in log[0] if x is not None]
    return None if min(losses) < 0.1 * losses[0] else "loss from %g to %g" % (losses[0], min(losses))


def shapes(n):
    """n points each of a sphere, a cube, a cross of lines, two balls and a disk."""
    rng = np.random.default_rng(6)
    ball, cube = rng.standard_normal((n, 3)), rng.uniform(-1, 1, (n, 3))
    sphere = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    face, line = cube.copy(), np.zeros((n, 3))
    face[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1, 1], n)
    line[np.arange(n), rng.integers(0, 3, n)] = rng.uniform(-1, 1, n)
    return np.stack([sphere, face, line, 0.2 * sphere + rng.choice([-0.8, 0.8], (n, 1)), cube * [1, 1, 0]])


SELECT = """
model net(x: node[F]) -> node[F] {
  graph s = select(g, x[0], ratio = 0.3)
  h = over s {
    y = sum_in(x[s].src) + 10 * x[s]
    graph t = select(s, y[1], k = 2)
    z = over t { mean_out(y[t].dst) }
    y + z[s]
  }
  return h[g]
}
"""


def selects(box, name, n, m, batch):
    """Chosen nodes and edges between them, twice, against numpy; ties among scores."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, 2)).astype("f4")
    x[:, 0] = rng.integers(0, 4, n)
    edges = rng.integers(0, n, (2, m))
    files = {} if batch is None else {"batch": batch}
    folder = folder_of(box, name, x=x, edge_index=edges, **files)
    box.write(os.path.join(folder, "m.gnn"), SELECT)
    box.must(box.gnnc, "build", os.path.join(folder, "m.gnn"), "--data", folder, "--cpu=native", "-o", folder + "/net")
    outs = []
    for threads in (1, 3):
        box.must(folder + "/net", "infer", "--data", folder, "--out", folder + "/out.npy", "--threads", threads)
        outs.append(np.load(folder + "/out.npy"))
    ids, x = np.zeros(n, int) if batch is None else batch, x.astype("f8")
    keep = np.zeros(n, bool)
    for b in np.unique(ids):
        at = np.flatnonzero(ids == b)
        keep[at[np.argsort(-x[at, 0], kind="stable")][:int(np.ceil(0.3 * len(at)))]] = True
    inner = edges[:, keep[edges[0]] & keep[edges[1]]]
    y = 10 * x
    np.add.at(y, inner[1], x[inner[0]])
    order = np.lexsort((np.arange(n), -x[:, 0], ids))  # selected nodes stand best first: ties of the second choice go by that
    again = np.zeros(n, bool)
    for b in np.unique(ids):
        at = order[(ids[order] == b) & keep[order]]
        again[at[np.argsort(-y[at, 1], kind="stable")][:2]] = True
    third = inner[:, again[inner[0]] & again[inner[1]]]
    z, out = np.zeros_like(y), np.bincount(third[0], minlength=n)
    np.add.at(z, third[0], y[third[1]])
    want = np.where(keep[:, None], y + z / np.maximum(out, 1)[:, None], 0)
    far = np.abs(outs[0] - want).max(initial=0)
    return "threads differ" if (outs[0] != outs[1]).any() else None if far < 1e-4 else "off by %g" % far


rng = np.random.default_rng(3)
box = Sandbox(sys.argv[1], "near")
cloud = rng.standard_normal((150, 3)).astype("f4")
sizes = np.repeat([0, 1, 2, 4, 5], [1, 2, 7, 100, 40])
grid = np.repeat(rng.integers(0, 4, (75, 2)), 2, 0).astype("f4")
holes = cloud.copy()
holes[[3, 60, 61, 149], [0, 1, 2, 0]] = [99, -99, -99, 99]
box.report("cloud", one(box, "cloud", cloud, 6))
box.report("batch", one(box, "batch", cloud, 5, sizes))
box.report("with_itself", one(box, "loop", cloud, 5, sizes, True))
box.report("dilation", one(box, "dilation", cloud, 4, sizes, True, step=3))
box.report("ties", one(box, "ties", grid, 7, sizes))
box.report("scalar_code", one(box, "scalar", grid, 7, sizes, False, "--disable=schedule"))
box.report("vectors", vectors(box, cloud, 6))
box.report("nan", one(box, "nan", holes, 4, sizes))
box.report("one_point", one(box, "point", cloud[:1], 3))
box.report("more_than_there_are", one(box, "more", cloud[:9], 20))
box.report("wide", one(box, "wide", rng.standard_normal((40, 700)).astype("f4"), 3))
box.report("two_kinds", two(box))
box.report("select", selects(box, "select", 150, 700, sizes))
box.report("select_of_one", selects(box, "select_one", 1, 2, None))
box.report("select_no_edges", selects(box, "select_none", 9, 0, None))
box.report("learns", learns(box, "learns", shapes(60)))
if os.path.isdir(SHARED):
    box.report("points16", points16(box))
    box.report("points16_learns", learns(box, "learns16", np.load(SHARED + "/points.npy")))
else:
    box.skip("points16", "no shared data here")
box.close()
