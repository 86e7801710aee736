#!/usr/bin/env python3
"""Graphs of pairs in executables against numpy: edges that meet, order among in-edges, all nodes and edges of each graph of a batch; ordered
folds; groups of keys; negatives. usage: test_pairs.py BUILD"""
import json
import os
import sys

import numpy as np
from sandbox import Sandbox

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import library  # noqa: E402
import tensors  # noqa: E402

MODEL = """
layer decay(x: @d[F], h: @d[F]) -> @d[F] = 0.5 * h + x
model net(x: node[F]) -> node[5*F] {
  e = x.src - 2 * x.dst
  onward = over line(g) { sum_in(e.src) }
  around = over complete(g) { sum_in(abs(x.src - x.dst)) }
  return cat(sum_in(onward), median_in(e), around, fold_in(x.src, decay, zeros(node[F]), most = 3), readout_max(e).graph)
}
"""


def wanted(x, src, dst, batch):
    n = len(x)
    e = x[src] - 2 * x[dst]
    onward = np.array([e[dst == s].sum(0) for s in src]).reshape(-1, x.shape[1])
    total, median, around, folded, top = (np.zeros_like(x) for _ in range(5))
    np.add.at(total, dst, onward)
    for v in range(n):
        mine = np.flatnonzero(dst == v)
        if len(mine):
            median[v] = np.sort(e[mine], axis=0)[(len(mine) - 1) // 2]
        around[v] = np.abs(x[batch == batch[v]] - x[v]).sum(0)
        for k in mine[:3]:
            folded[v] = 0.5 * folded[v] + x[src[k]]
        of_graph = e[batch[src] == batch[v]]
        top[v] = of_graph.max(0) if len(of_graph) else 0
    return [total, median, around, folded, top]


def compare(box, name, n, m, batch):
    rng = np.random.default_rng(7)
    x, edges = rng.standard_normal((n, 3)).astype("f4"), rng.integers(0, max(n, 1), (2, m))
    folder = box.path(name)
    os.makedirs(folder)
    np.save(folder + "/x.npy", x)
    np.save(folder + "/edge_index.npy", edges)
    if batch is not None:
        np.save(folder + "/batch.npy", batch)
    box.must(box.gnnc, "build", "pairs.gnn", "--data", folder, "--cpu=native", "-o", folder + "/net")
    box.must(folder + "/net", "infer", "--data", folder, "--out", folder + "/out.npy")
    got = np.load(folder + "/out.npy").astype("f8")
    ids = np.zeros(n, int) if batch is None else batch
    for i, want in enumerate(wanted(x.astype("f8"), edges[0], edges[1], ids)):
        far = np.abs(got[:, 3 * i:3 * i + 3] - want).max(initial=0)
        if not far < 1e-4 * max(1, np.abs(want).max(initial=0)):
            return "part %d is off by %g" % (i, far)


KEYS = """
model net(x: node[F], rel: edge index[R]) -> node[O] {
  a = softmax_in(x.src, by = rel)
  return flatten(cat(sum_in(x.src, by = rel), max_in(x.src, by = rel), sum_in(a * x.src, by = rel)))
}
"""


LINKS = """
layer ranking(z: node[F]) -> [] {
  score = dot(z.src, z.dst, F)
  pairs p = negatives(g, k = 4, fill score = 0)
  return over p { mean_all(softplus(dot(z.src, z.dst, F) - score)) }
}
model net(x: node[F]) -> node[8] = linear(mean_in(x.src) + x)
train net {
  loss = ranking(net(data.x))
  optimizer adam(0.01)
  epochs 60
}
"""


def keys(box):
    """Sums, maxima and softmax per node and relation; groups without edges give 0."""
    rng = np.random.default_rng(8)
    n, m, k = 40, 150, 3
    x, edges, rel = rng.standard_normal((n, 2)).astype("f4"), rng.integers(0, n, (2, m)), rng.integers(0, k, m)
    folder = box.path("keys")
    os.makedirs(folder)
    for name, value in (("x", x), ("edge_index", edges), ("rel", rel)):
        np.save(os.path.join(folder, name + ".npy"), value)
    box.write("keys.gnn", KEYS)
    box.must(box.gnnc, "build", "keys.gnn", "--data", folder, "--set=R=%d" % k, "--cpu=native", "-o", folder + "/net")
    box.must(folder + "/net", "infer", "--data", folder, "--out", folder + "/out.npy")
    want = np.zeros((n, k, 6))
    for v in range(n):
        for r in range(k):
            m = x[edges[0][(edges[1] == v) & (rel == r)]].astype("f8")
            if len(m):
                a = np.exp(m - m.max(0))
                want[v, r] = np.concatenate([m.sum(0), m.max(0), (a * m).sum(0) / a.sum(0)])
    far = np.abs(np.load(folder + "/out.npy").reshape(n, k, 6) - want).max()
    return None if far < 1e-4 else "off by %g" % far


BY_PAIRS = """
model net(x: node[F], rel: edge index[R], W: [R, F, O], w: edge[]) -> node[T] {
  a: edge[] = softmax_in(w, by = rel)
  m: edge[O] = tanh(x.src @ W[rel])
  return cat(sum(dot(mean_in(x.src, by = rel), W, F), R), sum_in(w * (x.src @ W[rel])), sum_in(a * m))
}
"""


PUT_TOGETHER = """
model net(x: node[F], rel: edge index[R], W: [R, F, O]) -> node[T] {
  return sum_in(cat(x.src @ W[rel], tanh(x.src) @ W[rel]))
}
"""


def by_pairs(box):
    """Products and sums at the pairs of nodes and relations that occur are those at edges, with the same bits from any
    number of threads, on a device and from two processes."""
    rng = np.random.default_rng(9)
    n, m, k, width, out = 50, 3000, 30, 6, 5
    edges, x, w = rng.integers(0, n, (2, m)), rng.standard_normal((n, width)).astype("f4"), rng.standard_normal(m).astype("f4")
    rel, W = (edges[0] + edges[1] // 7) % 4 * 7 + (rng.random(m) < 0.05), rng.standard_normal((k, width, out)).astype("f4")
    folder = box.path("by_pairs")
    os.makedirs(folder)
    for name, value in dict(x=x, edge_index=edges, rel=rel, W=W, w=w).items():
        np.save(os.path.join(folder, name + ".npy"), value)
    box.write("by_pairs.gnn", BY_PAIRS)
    got = {}
    for name, flags in {"pairs": ["--target=shim"], "edges": ["--disable=pairs"]}.items():
        box.must(box.gnnc, "build", "by_pairs.gnn", "--data", folder, "--set=T=%d" % (3 * out), "--cpu=native", *flags, "-o", box.path(name))
        for run in ["--threads=1"], ["--threads=2"], ["--device=shim"]:
            if name == "edges" and run != ["--threads=1"]:
                continue
            box.must(box.path(name), "infer", "--data", folder, *run, "--out", box.path("out.npy"))
            got[name + run[0]] = np.load(box.path("out.npy"))
    h, want = x[edges[0]].astype("f8"), np.zeros((n, 3 * out))
    product = np.einsum("ef,efo->eo", h, W[rel])
    for v in range(n):
        for r in set(rel[edges[1] == v]):
            e = (edges[1] == v) & (rel == r)
            a = np.exp(w[e].astype("f8") - w[e].max())
            want[v, :out] += product[e].mean(0)
            want[v, out:2 * out] += (w[e, None] * product[e]).sum(0)
            want[v, 2 * out:] += (a[:, None] / a.sum() * np.tanh(product[e])).sum(0)
    for name, y in got.items():
        if not np.abs(y - want).max() < 1e-4 * np.abs(want).max():
            return "%s is off by %g" % (name, np.abs(y - want).max())
    if any((got["pairs--threads=1"] != got["pairs" + run]).any() for run in ("--threads=2", "--device=shim")):
        return "bits differ"
    plans = [" ".join(box.must(box.path(name), "plan", "--data", folder).out.split()) for name in ("pairs", "edges")]
    n_pairs = len(set(zip(edges[1], rel)))
    if ("edge.dst.rel %d" % n_pairs in plans[0]) != 1 or "edge.dst.rel" in plans[1]:
        return "the plan has no %d pairs:\n%s" % (n_pairs, plans[0])
    wrong = pairs_of_a_library(box, folder, edges, {"x": x, "rel": rel, "W": W, "w": w}, got["pairs--threads=1"])
    if wrong:
        return "a library: " + wrong
    box.must(box.gnnc, "data", "partition", folder, "-k", 2, "-o", box.path("parts"), "--method", "ldg")
    box.must(box.path("pairs"), "infer", "--data", box.path("parts"), "--ranks", 2, "--out", box.path("out.npy"))
    if (np.load(box.path("out.npy")) != got["pairs--threads=1"]).any():
        return "two processes have other bits"


def put_together(box):
    """What is put together of products on edges is summed by pairs of nodes and relations before each product."""
    rng = np.random.default_rng(10)
    n, m, k, width, out = 50, 3000, 30, 6, 5
    edges, x, W = rng.integers(0, n, (2, m)), rng.standard_normal((n, width)).astype("f4"), rng.standard_normal((k, width, out)).astype("f4")
    rel, folder = edges[1] // 2 % 7, box.path("put_together")
    os.makedirs(folder)
    for name, value in dict(x=x, edge_index=edges, rel=rel, W=W).items():
        np.save(os.path.join(folder, name + ".npy"), value)
    box.write("put_together.gnn", PUT_TOGETHER)
    said = box.must(box.gnnc, "build", "put_together.gnn", "--data", folder, "--set=T=%d" % (2 * out), "--cpu=native", "--quick", "--remarks=pairs", "-o", box.path("put")).err
    box.must(box.path("put"), "infer", "--data", folder, "--out", box.path("out.npy"))
    want = np.zeros((n, 2 * out))
    for i, h in enumerate((x.astype("f8"), np.tanh(x.astype("f8")))):
        np.add.at(want[:, i * out:(i + 1) * out], edges[1], np.einsum("ef,efo->eo", h[edges[0]], W[rel]))
    far = np.abs(np.load(box.path("out.npy")) - want).max() / np.abs(want).max()
    n_sums = said.count("elements are summed by pair before the product")  # of forward and vjp
    return (far > 1e-5 or n_sums != 4) and "off by %g, and %d sums by pair: %s" % (far, n_sums, said)


INSTANCES = """
layer two(x: node[F], O = none) -> node[O] = linear(tanh(linear(x, O = 7)), O = O)
model net(x: node[F], rel: edge index[R]) -> node[5] = film(x, rel, num_relations = 12, nn = two)
train net {
  loss = mse(net(data.x, data.rel), zeros(node[5])) on data.train
  optimizer sgd(0.01)
}
"""


def instances(box):
    """A layer's instance for each of 12 relations is not computed at each node: pairs read the parameters of theirs. Two
    steps of training end at the weights that they have without that."""
    rng = np.random.default_rng(11)
    n, m, folder = 60, 2000, box.path("instances")
    edges = rng.integers(0, n, (2, m))
    os.makedirs(folder)
    for name, value in {"x": rng.standard_normal((n, 6)).astype("f4"), "edge_index": edges, "train_mask": rng.random(n) < 0.5,
                        "rel": (edges[0] + edges[1] // 9) % 3 * 4}.items():
        np.save(os.path.join(folder, name + ".npy"), value)
    box.write("instances.gnn", INSTANCES)
    got, plans = [], []
    for name, flags in ("stacked", []), ("whole", ["--disable=stack"]):
        box.must(box.gnnc, "build", "instances.gnn", "--data", folder, "--cpu=native", "--quick", *flags, "-o", box.path(name))
        box.must(box.path(name), "train", "--data", folder, "--epochs", 2, "--save", box.path("w.safetensors"))
        got.append(tensors.read(box.path("w.safetensors")))
        plans.append(box.must(box.path(name), "plan", "--data", folder).out)
    far = {name: np.abs(w - got[1][name]).max() for name, w in got[0].items()}
    if len(far) < 48 or not max(far.values()) < 1e-5:
        return "weights differ: %s" % far
    wide = [text.count("node [60]") for text in plans]
    return (wide[0] or not wide[1]) and "plans have %s values of all relations" % wide


def pairs_of_a_library(box, folder, edges, inputs, want):
    """A library that is given the keys with the graph has the bits of the executable, and gradients of one without pairs."""
    n, libs = len(inputs["x"]), {}
    for name, flags in {"keyed": ["--graph-inputs=rel"], "plain": []}.items():
        box.must(box.gnnc, "build", "by_pairs.gnn", "--data", folder, "--set=T=%d" % want.shape[1], "--cpu=native", *flags, "--emit=lib",
                 "--prefix", name, "-o", box.path("lib" + name))
        libs[name] = library.Library(box.path("lib%s.so" % name), name, np.float32)

    def put(name, **given):
        libs[name].on_graph(n, n, edges[0], edges[1], 1, None, inputs=given)

    put("keyed", rel=inputs["rel"], other=inputs["w"]), put("plain")
    if (libs["keyed"].forward(inputs)[0] != want).any():
        return "bits differ"
    cotangents = [np.cos(np.arange(want.size)).reshape(want.shape)]
    ours, plain = libs["keyed"].vjp(inputs, cotangents), libs["plain"].vjp(inputs, cotangents)
    far = {k: np.abs(ours[k] - plain[k]).max() / np.abs(plain[k]).max() for k in plain}
    if not max(far.values()) < 1e-4:
        return "gradients are off by %s" % far
    other = np.roll(inputs["rel"], 1)
    low, high = np.array(inputs["rel"]), np.array(inputs["rel"])
    low[-1], high[-1] = -2, 30
    put("keyed", rel=inputs["rel"])
    for what, run in (("row ", lambda: libs["keyed"].forward({**inputs, "rel": other})), ("`inputs`", lambda: put("keyed")),
                      ("is -2, wanted 0 <= value < 30", lambda: put("keyed", rel=low)), ("is 30, wanted 0 <= value < 30", lambda: put("keyed", rel=high)),
                      ("is -2, wanted 0 <= value < 30", lambda: libs["plain"].forward({**inputs, "rel": low})),
                      ("is 30, wanted 0 <= value < 30", lambda: libs["plain"].vjp({**inputs, "rel": high}, cotangents))):
        try:
            run()
            return "%s is taken" % what
        except library.Failed as e:
            if what not in str(e) or "rel" not in str(e):
                return "found `%s`" % e
    for name, flags in {"wants one of": ["--graph-inputs=rel"], "no input `rl`": ["--graph-inputs=rl", "--emit=lib"],
                        "no input `x` of one integer": ["--graph-inputs=x", "--emit=lib"]}.items():
        r = box.run(box.gnnc, "build", "by_pairs.gnn", "--data", folder, "--set=T=%d" % want.shape[1], *flags, "-o", box.path("no"))
        if r.rc != 1 or name not in r.err:
            return "%s: %s" % (r.rc, r.err)


def links(box):
    """A loss over drawn pairs is learned."""
    box.write("links.gnn", LINKS)
    box.must(box.gnnc, "data", "generate", "data", "--nodes", 300, "--features", 7, "--classes", 3)
    box.must(box.gnnc, "build", "links.gnn", "--data", "data", "--cpu=native", "-o", box.path("links"))
    box.must(box.path("links"), "train", "--data", "data", "--metrics", "log.jsonl")
    losses = [json.loads(line)["loss"] for line in open(box.path("log.jsonl")) if "loss" in line]
    return None if losses[-1] < 0.9 * losses[0] else "loss from %g to %g" % (losses[0], losses[-1])


LISTS = """
model net(x: node[F]) -> [] = over data.more_index { sum_all(data.more_weight * sum(x.src * x.dst)) } + 0 * sum_all(indegree)
"""


def lists(box):
    """A library gets further lists of edges by name, and says so where one is missing or wrong."""
    rng = np.random.default_rng(3)
    x, edges, more, w = rng.standard_normal((9, 4)), rng.integers(0, 9, (2, 20)), rng.integers(0, 9, (2, 7)), rng.standard_normal(7)
    box.write("lists.gnn", LISTS)
    os.makedirs(box.path("lists"))
    for name, values in {"x": x, "edge_index": edges, "more_index": more, "more_weight": w}.items():
        np.save(box.path("lists/%s.npy" % name), values)
    box.must(box.gnnc, "build", "lists.gnn", "--data", "lists", "--emit=lib", "--dtype=f64", "--cpu=native", "--prefix", "m", "-o", "lib")
    lib = library.Library(box.path("lib.so"), "m", np.float64)

    def put(**given):
        lib.on_graph(9, 9, edges[0], edges[1], 1, None, given)
    put(other_index=more[:, :2], more_index=more)
    got, want = lib.forward({"x": x, "more_weight": w})[0], (w * (x[more[0]] * x[more[1]]).sum(1)).sum()
    if not abs(got - want) < 1e-12 * max(1, abs(want)):
        return "found %r, wanted %r" % (got, want)
    for given in {"other_index": more}, {"more_index": more + 5}:
        try:
            put(**given)
            return "%s is taken" % list(given)
        except library.Failed as e:
            if "more_index" not in str(e):
                return "the message does not name the list: %s" % e


box = Sandbox(sys.argv[1], "pairs")
box.write("pairs.gnn", MODEL)
box.report("one_graph", compare(box, "one", 40, 300, None))
box.report("batch", compare(box, "batch", 30, 60, np.repeat([0, 1, 2, 5], [1, 12, 12, 5])))
box.report("one_node", compare(box, "node", 1, 2, None))
box.report("no_edges", compare(box, "none", 5, 0, None))
box.report("keys", keys(box))
box.report("by_pairs", by_pairs(box))
box.report("put_together", put_together(box))
box.report("instances", instances(box))
box.report("links", links(box))
box.report("lists_in_a_library", lists(box))
box.close()
