#!/usr/bin/env python3
"""Graphs of nearest points in executables against numpy: batches, ties, points that are NaN, lists that are short, sources and targets
of two kinds, the points of shared/data, and a classifier that trains on them. usage: test_near.py BUILD"""
import json
import os
import sys

import numpy as np
from sandbox import Sandbox

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
  graph k = knn(p, %d, loop = %s)
  return over k { lists(float(id(node)).src) }
}
"""
TWO = LISTS + """
model net(x: src[F], y: dst[F]) -> dst[%d] {
  graph k = knn(x, %d, to = y)
  return over k { lists(float(id(src)).src) }
}
"""


def nearest(x, y, k, batch, others):
    """[rows of y][k] of rows of x + 1, 0 where there is none."""
    lists = np.zeros((len(y), k), int)
    for v in range(len(y)):
        at = np.flatnonzero((np.ones(len(x), bool) if batch is None else batch == batch[v]) & ~(others & (np.arange(len(x)) == v)))
        with np.errstate(all="ignore"):
            d = ((x[at].astype("f8") - y[v].astype("f8")) ** 2).sum(1)
        order = at[np.argsort(np.where(np.isfinite(d), d, np.finfo("f8").max), kind="stable")][:k]
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


def one(box, name, x, k, batch=None, loop=False, *flags):
    files = {"x": x, "edge_index": np.zeros((2, 0), int)}
    if batch is not None:
        files["batch"] = batch
    got = infer(box, folder_of(box, name, **files), MODEL % (k, k, k, "true" if loop else "false"), *flags)
    if got is None:
        return "threads differ"
    wrong = (got != nearest(marked(x), marked(x), k, batch, not loop)).any(1)
    return "%d of %d lists are wrong" % (wrong.sum(), len(x)) if wrong.any() else None


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
    got = infer(box, folder, MODEL % (k, k, k, "false"))
    want = (knn + (np.arange(n) * p)[:, None, None]).reshape(-1, k) + 1
    return None if got is not None and (got == want).all() else "lists differ"


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
box.report("ties", one(box, "ties", grid, 7, sizes))
box.report("scalar_code", one(box, "scalar", grid, 7, sizes, False, "--disable=schedule"))
box.report("nan", one(box, "nan", holes, 4, sizes))
box.report("one_point", one(box, "point", cloud[:1], 3))
box.report("more_than_there_are", one(box, "more", cloud[:9], 20))
box.report("wide", one(box, "wide", rng.standard_normal((40, 700)).astype("f4"), 3))
box.report("two_kinds", two(box))
if os.path.isdir(SHARED):
    box.report("points16", points16(box))
else:
    box.skip("points16", "no shared data here")
box.close()
