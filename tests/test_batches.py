#!/usr/bin/env python3
"""Training by batches of graphs against numpy: each epoch takes each training graph once, in batches of the size that is wanted,
in an order of its own; weights are those of plain descent over these batches, whatever the threads and kernels, also when the
data are held as CSR, and a resumed run is the unbroken one. What cannot be cut is refused by name.
usage: test_batches.py BUILD"""
import json
import os
import shutil
import sys

import numpy as np
from sandbox import Sandbox

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import tensors  # noqa: E402

N_GRAPHS, N_CLASSES, BATCH, EPOCHS, LR = 23, 3, 5, 4, 0.05
# Notes for each graph the step that it was taken in.
RECORD = """
optimizer last() { done = where(grad > 0, t, param) }
model net(gid: graph index[G]) -> graph {
  param seen: [G] = 0
  return seen[gid]
}
train net {
  loss = net(data.gid) on data.train
  optimizer last()
  batch %d of graphs
  epochs %d
  seed 7
}
"""
# Sums over edges, over derived edges, over edges per graph, ids, all pairs of a graph, a maximum.
MODEL = """
model net(x: node[F], w: edge) -> graph[C] {
  h = sum_in(w * x.src) + 0.01 * float(id(node)) * x
  graph g1 = self_loops(g, add)
  h = over g1 { mean_in(h.src) }
  h = h + 0.1 * over complete(g) { mean_in(h.src * x.dst) } + 0.1 * max_in(x.src)
  return linear(cat(readout_sum(h), readout_sum(w * x.dst)), bias = false, O = C)
}
train net {
  loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.train
  metric train_loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.train
  metric test_loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.test
  hyper lr = %g
  optimizer sgd(lr)
  batch %d of graphs
  epochs %d
  seed 7
}
"""
# Another model, for bits: dropout, normalisation by the batch, attention, nearest points.
BITS = """
model net(x: node[F], w: edge) -> graph[C] {
  a = gat(H = 2, D = 4)
  n = batch_norm()
  m = gin(nn = mlp(8))
  h = n(flatten(a(dropout(x, 0.3))))
  h = dropout(relu(m(h, O = 8)), 0.2)
  h = h + over knn(h, k = 2) { mean_in(h.src) }
  return linear(cat(readout_mean(h), readout_max(h)), O = C)
}
train net {
  loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.train
  metric val_loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.val
  drop = plateau(val_loss, patience = 1)
  optimizer adam(0.01 * drop * warmup(step, 7))
  clip_norm 1
  batch 4 of graphs
  epochs 6
}
"""

# Graphs that a run finds, and graphs of those: each graph by itself is what it is among all.
FOUND = """
model net(x: node[F], w: edge) -> graph[C] {
  conv = gcn(O = 8)
  graph near = knn(x, k = 3)
  h = tanh(conv(x) + over self_loops(near, add) { mean_in(conv(x).src) } + over reverse(near) { max_in(conv(x).src) })
  h = h + over near {
    e = tanh(h.src - h.dst)
    sum_in(over line(near) { mean_in(e.src) })
  }
  graph s = select(g, sum(h), ratio = 0.6)
  y = h[s]
  z = over s {
    e = tanh(y.src - y.dst) * w[s]
    p = over self_loops(line(s), keep) { mean_in(e.src) }
    q = over self_loops(knn(y, k = 2), keep) { sum_in(y.src) }
    cat(gcn(y, O = 8) + max_in(p) + over complete(s) { mean_in(y.src) } + q, readout_sum(e).graph, readout_max(p).graph)
  }
  return linear(cat(readout_mean(z), readout_max(z)), O = C)
}
train net {
  loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.train
  metric train_loss = cross_entropy(net(data.x, data.w), data.graph_y) on data.train
  optimizer sgd(0)
  batch 1 of graphs
  epochs 1
}
"""


# What a node and a kind of edge say together: sums and products, read by edges, and sums by kinds and by all of them.
PAIRS = """
model net(x: node[F], w: edge, rel: edge index[R]) -> graph[C] {
  param W: [R, F, O] = glorot
  param U: [O, P] = glorot
  a = softmax_in(w, by = rel)
  m: edge[P] = tanh(dot(tanh(x.src @ W[rel]), U, O))
  k = sum(dot(mean_in(x.src, by = rel), W, F), R)
  return linear(cat(readout_mean(sum_in(a * m) + 0.1 * max_in(m)), readout_mean(k)), O = C)
}
train net {
  loss = cross_entropy(net(data.x, data.w, data.rel), data.graph_y) on data.train
  metric train_loss = cross_entropy(net(data.x, data.w, data.rel), data.graph_y) on data.train
  hyper lr = 0.5
  optimizer sgd(lr)
  batch 3 of graphs
  epochs 3
}
"""


# Several kinds of nodes: relations of lists, of a column, turned round, of a metapath; each graph's nodes of each kind
# stand side by side.
KINDS = """
schema molecules {
  node atom, bond, ring
  edge ends: atom -> bond, near: atom -> atom
  edge within: atom -> ring = column
  edge beside: atom -> atom = compose(within, reverse(within))
  reverse ends, within
}
model net(x: node(atom)[F], b: node(bond)[G], w: edge(near)) -> graph[C] {
  h = linear(x, O = 8)
  h = tanh(over near { sum_in(w * h.src) } + over rev_ends { mean_in(linear(b, O = 8).src) } + over beside { max_in(h.src) })
  h = h + over near { readout_mean(h).graph }
  e = over ends { sum_in(h.src) }
  r = over within { mean_in(h.src) }
  h = h + over rev_within { sum_in(r.src) }
  return linear(cat(readout_sum(h), readout_max(e), readout_mean(r)), O = C)
}
train net {
  loss = cross_entropy(net(data.x, data.b, data.w), data.graph_y) on data.train
  metric train_loss = cross_entropy(net(data.x, data.b, data.w), data.graph_y) on data.train
  hyper lr = 0.05
  optimizer sgd(lr)
  batch 3 of graphs
  epochs 3
}
"""


def make_data(box, name, csr):
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 12, N_GRAPHS)
    sizes[3] = 1  # a graph of one node, and graphs without edges
    start = np.concatenate([[0], np.cumsum(sizes)])
    n, ends = start[-1], []
    for k in range(N_GRAPHS):
        m = 0 if k % 6 == 3 else rng.integers(1, 4 * sizes[k] + 2)
        ends.append(start[k] + rng.integers(0, sizes[k], (2, m)))  # loops and parallel edges too
    edges = np.concatenate(ends, 1)[:, rng.permutation(sum(e.shape[1] for e in ends))]
    arrays = {"edge_index": edges, "batch": np.repeat(np.arange(N_GRAPHS), sizes), "w": rng.random(edges.shape[1]),
              "graph_y": rng.integers(0, N_CLASSES, N_GRAPHS), "gid": np.arange(N_GRAPHS)}
    part = rng.permutation(N_GRAPHS)
    for i, mask in enumerate(("train", "val", "test")):
        arrays[mask + "_mask"] = part % 5 == i + 2 if i else part % 5 < 3
    x = rng.standard_normal((n, 6)) * (rng.random((n, 6)) < 0.5)
    os.mkdir(box.path(name))
    if csr:
        hit = x != 0
        arrays.update(x_indptr=np.concatenate([[0], np.cumsum(hit.sum(1))]), x_indices=np.nonzero(hit)[1], x_data=x[hit])
    else:
        arrays["x"] = x
    for key, a in arrays.items():
        a = a.astype("f4") if a.dtype == float else a
        np.save(box.path(name, key + ".npy"), np.ascontiguousarray(a))
    with open(box.path(name, "meta.json"), "w") as f:
        json.dump({"num_nodes": int(n), "num_edges": int(edges.shape[1]), "num_graphs": N_GRAPHS, "num_classes": N_CLASSES,
                   "feature_dim": 6}, f)
    arrays["x"] = x
    return arrays


def read_weights(path):
    return {k: v.astype("f8") for k, v in tensors.read(path).items() if v.dtype == np.float32}


def build(box, name, text, data="data", *more, cpu="native"):
    box.write(name + ".gnn", text)
    box.must(box.gnnc, "build", name + ".gnn", "--data", data, "--cpu", cpu, "-o", box.path(name), *more)
    return box.path(name)


def train(box, name, *more, data="data"):
    box.must(box.path(name), "train", "--data", data, "--save", "w.st", *more)
    return read_weights(box.path("w.st"))


def steps_of(box, epochs):
    """[N_GRAPHS] the step, from 1, that each graph was last taken in; 0: never."""
    build(box, "record", RECORD % (BATCH, epochs), "data", "--set", "G=%d" % N_GRAPHS)
    return train(box, "record")["seen"].reshape(-1).astype(int)


def composition(box, mask):
    """Batches by epoch: lists of graphs, or why they are wrong."""
    per_epoch, n = -(-mask.sum() // BATCH), mask.sum()
    epochs = []
    for e in range(1, EPOCHS + 1):
        seen = steps_of(box, e)
        if np.any((seen > 0) != mask):
            return "epoch %d takes graphs %s" % (e, np.nonzero(seen)[0]), None
        batches = [np.nonzero(seen == (e - 1) * per_epoch + i + 1)[0] for i in range(per_epoch)]
        if [len(b) for b in batches] != [BATCH] * (n // BATCH) + [n % BATCH] * int(n % BATCH > 0):
            return "epoch %d has batches of %s" % (e, [len(b) for b in batches]), None
        epochs.append(batches)
    same = all(np.array_equal(a, b) for a, b in zip(epochs[0], epochs[1]))
    return ("each epoch has the same order" if same else None), epochs


def features(a):
    """What the model reads out of each graph, in f64; it has no parameters but the last layer's."""
    x, w, (s, d), of = a["x"], a["w"], a["edge_index"], a["batch"]
    n = len(x)
    A = np.zeros((n, n))
    np.add.at(A, (d, s), w)
    h = A @ x + 0.01 * np.arange(n)[:, None] * x
    B = np.eye(n)
    np.add.at(B, (d, s), 1)
    h = B @ h / B.sum(1, keepdims=True)
    same = (of[:, None] == of[None]).astype(float)
    top = np.full(x.shape, -np.inf)
    np.maximum.at(top, d, x[s])
    h = h + 0.1 * (same @ h / same.sum(1, keepdims=True)) * x + 0.1 * np.where(np.isinf(top), 0, top)
    sums = [np.zeros((N_GRAPHS, x.shape[1])) for _ in range(2)]
    np.add.at(sums[0], of, h)
    np.add.at(sums[1], of[s], w[:, None] * x[d])
    return np.concatenate(sums, 1)


def descend(f, y, epochs, W):
    for batches in epochs:
        for b in batches:
            z = f[b] @ W.T
            p = np.exp(z - z.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(b)), y[b]] -= 1
            W = W - LR * p.T @ f[b] / len(b)
    return W


def numbers(box, a, epochs, data):
    build(box, "model", MODEL % (LR, BATCH, EPOCHS), data)
    start = train(box, "model", "--epochs", 0, data=data)
    got = train(box, "model", "--metrics", "m.jsonl", data=data)
    ((name, W),) = start.items()
    f = features(a)
    want = descend(f, a["graph_y"], epochs, W)
    far = np.abs(got[name] - want).max() / np.abs(want).max()
    if not far < 1e-4 or np.abs(want - W).max() < 1e-2:
        return "weights are off by %g" % far
    z = f[a["test_mask"]] @ want.T
    loss = (np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1) - z[np.arange(len(z)), a["graph_y"][a["test_mask"]]]).mean()
    said = json.loads(open(box.path("m.jsonl")).read().splitlines()[-1])["test_loss"]
    return None if abs(said - loss) < 1e-3 * max(1, loss) else "test_loss is %g, wanted %g" % (said, loss)


def bits(box):
    build(box, "bits", BITS, cpu="generic,native")
    want = train(box, "bits", "--threads", 1)
    for more in (["--threads", 2], ["--threads", 3], ["--cpu", "generic"]):
        got = train(box, "bits", *more)
        if any(np.any(got[k] != want[k]) for k in want):
            return "%s changes the weights" % more
    box.must(box.path("bits"), "train", "--data", "data", "--epochs", 3, "--checkpoint", "c.ck")
    got = train(box, "bits", "--resume", "c.ck")
    if any(np.any(got[k] != want[k]) for k in want):
        return "a resumed run differs"
    if all(np.all(train(box, "bits", "--seed", 1)[k] == want[k]) for k in want):
        return "the seed does not matter"
    return None if any(np.any(train(box, "bits", "--batch", 3)[k] != want[k]) for k in want) else "--batch does not matter"


def found(box):
    """Means over batches of one graph each, and of four and what is left, of weights that do not change."""
    build(box, "found", FOUND)
    for threads, size in ((1, 1), (2, 1), (1, 4)):
        train(box, "found", "--metrics", "f.jsonl", "--threads", threads, "--batch", size)
        last = json.loads(open(box.path("f.jsonl")).read().splitlines()[-1])
        if not abs(last["loss"] - last["train_loss"]) < 1e-5 * abs(last["loss"]):
            return "loss %g in batches, %g in all" % (last["loss"], last["train_loss"])
    return None


def pairs(box):
    """Pairs of nodes and kinds of edges are made again for each batch: weights are those at edges, the same from any number of threads; batches
    of each graph alone have the loss of all."""
    rng, nodes = np.random.default_rng(6), [9, 1, 12, 7, 30, 5, 8, 11, 6, 9]
    of, start = np.repeat(np.arange(10), nodes), np.concatenate([[0], np.cumsum(nodes)])
    edges = np.concatenate([start[k] + rng.integers(0, n, (2, 0 if k == 7 else 9 * n)) for k, n in enumerate(nodes)], 1)
    edges, m = edges[:, rng.permutation(edges.shape[1])], edges.shape[1]
    os.mkdir(box.path("kinds"))
    for name, value in {"edge_index": edges, "batch": of, "x": rng.standard_normal((len(of), 5)).astype("f4"), "w": rng.random(m).astype("f4"),
                        "rel": (edges[0] + edges[1]) % 2 * 3 + (rng.random(m) < 0.1), "graph_y": rng.integers(0, 2, 10), "train_mask": np.arange(10) != 4}.items():
        np.save(box.path("kinds", name + ".npy"), np.ascontiguousarray(value))
    with open(box.path("kinds", "meta.json"), "w") as f:
        json.dump({"num_graphs": 10, "num_classes": 2}, f)
    sizes = ["--set", "R=5,O=6,P=6"]
    build(box, "keyed", PAIRS, "kinds", *sizes)
    build(box, "at_edges", PAIRS, "kinds", *sizes, "--disable=pairs")
    plan = box.must(box.path("keyed"), "plan", "--data", "kinds").out
    if "edge.src.rel" not in plan or "edge.dst.rel" not in plan:
        return "no pairs:\n%s" % plan
    want, start = train(box, "at_edges", data="kinds"), train(box, "at_edges", "--epochs", 0, data="kinds")
    first = None
    for more in (["--threads", 1], ["--threads", 2]):
        got = train(box, "keyed", *more, data="kinds")
        first = first or got
        far = max(np.abs(got[k] - want[k]).max() / np.abs(want[k] - start[k]).max() for k in want)
        if not far < 1e-3 or any(np.any(got[k] != first[k]) for k in got):
            return "%s: weights are off by %g, or have other bits" % (more, far)
    train(box, "keyed", "--metrics", "p.jsonl", "--batch", 1, "--epochs", 1, "--set", "lr=0", data="kinds")
    last = json.loads(open(box.path("p.jsonl")).read().splitlines()[-1])
    return None if abs(last["loss"] - last["train_loss"]) < 1e-5 * last["loss"] else "loss %g in batches, %g in all" % (last["loss"], last["train_loss"])


def kinds_data(box, name, a):
    os.makedirs(box.path(name))
    for key, value in a.items():
        if key != "meta":
            np.save(box.path(name, key + ".npy"), np.ascontiguousarray(value))
    with open(box.path(name, "meta.json"), "w") as f:
        json.dump(a["meta"], f)


def kinds_graph(rng, atoms, bonds, rings, near):
    """One graph; without atoms nothing is joined."""
    edges = lambda n, m, k: rng.integers(0, [[max(n, 1)], [max(m, 1)]], (2, k if n and m else 0))
    return {"x": rng.standard_normal((atoms, 5)).astype("f4"), "b": rng.standard_normal((bonds, 3)).astype("f4"),
            "ends.edge_index": edges(atoms, bonds, 3 * bonds), "near.edge_index": edges(atoms, atoms, near), "w": rng.random(near if atoms else 0).astype("f4"),
            "atom.within": rng.integers(0, max(rings, 1), atoms),
            "meta": {"num_atoms": atoms, "num_bonds": bonds, "num_rings": rings, "num_classes": 3,
                     "relations": {"ends": ["atom", "bond"], "near": ["atom", "atom"], "within": ["atom", "ring"]}}}


def joined(rng, graphs):
    """Graphs as one folder: kinds side by side by graph, edges of all graphs mixed."""
    a, first = {"meta": dict(graphs[0]["meta"], num_graphs=len(graphs))}, {}
    for kind in ("atom", "bond", "ring"):
        n = [g["meta"]["num_%ss" % kind] for g in graphs]
        first[kind] = np.concatenate([[0], np.cumsum(n)])
        a["meta"]["num_%ss" % kind] = int(first[kind][-1])
        a[kind + ".batch"] = np.repeat(np.arange(len(graphs)), n)
    for key in ("x", "b"):
        a[key] = np.concatenate([g[key] for g in graphs])
    a["atom.within"] = np.concatenate([g["atom.within"] + first["ring"][k] for k, g in enumerate(graphs)])
    for key, ends in (("ends", ("atom", "bond")), ("near", ("atom", "atom"))):
        e = np.concatenate([g[key + ".edge_index"] + [[first[ends[0]][k]], [first[ends[1]][k]]] for k, g in enumerate(graphs)], 1)
        order = rng.permutation(e.shape[1])
        a[key + ".edge_index"] = e[:, order]
        if key == "near":
            a["w"] = np.concatenate([g["w"] for g in graphs])[order]
    a["graph_y"], a["train_mask"] = rng.integers(0, 3, len(graphs)), np.arange(len(graphs)) != 2
    return a


def kinds(box):
    """Graphs of several kinds of nodes: each has among all what it has alone, whether it is read out at once or in a batch; one batch of all
    graphs trains as all graphs do without batches."""
    rng = np.random.default_rng(8)
    graphs = [kinds_graph(rng, *sizes) for sizes in ((9, 4, 2, 20), (1, 0, 1, 0), (12, 7, 3, 30), (30, 9, 4, 90), (5, 1, 1, 9), (8, 3, 5, 0), (7, 6, 2, 14), (11, 2, 1, 25))]
    a = joined(rng, graphs)
    kinds_data(box, "molecules", a)
    build(box, "molecules_exe", KINDS, "molecules")
    build(box, "molecules_whole", KINDS.replace("  batch 3 of graphs\n", ""), "molecules")
    box.must(box.path("molecules_exe"), "train", "--data", "molecules", "--epochs", 0, "--save", "start.st")
    infer = lambda data: box.must(box.path("molecules_exe"), "infer", "--data", data, "--weights", "start.st", "--out", "y.npy")
    infer("molecules")
    all_rows = np.load(box.path("y.npy"))
    for k, g in enumerate(graphs):
        kinds_data(box, "one%d" % k, g)
        infer("one%d" % k)
        if not np.allclose(np.load(box.path("y.npy")), all_rows[k:k + 1], rtol=1e-4, atol=1e-4):
            return "graph %d is %s alone, %s among others" % (k, np.load(box.path("y.npy")), all_rows[k])
    # of a kind that only edges read, no program asks the graph: batches want it all the same
    build(box, "molecules_read", KINDS.replace("cat(readout_sum(h), readout_max(e), readout_mean(r))", "readout_sum(h)"), "molecules", "--quick")
    for exe, size in (("molecules_exe", 1), ("molecules_exe", 3), ("molecules_read", 3)):
        train(box, exe, "--metrics", "k.jsonl", "--batch", size, "--set", "lr=0", "--epochs", 1, data="molecules")
        last = json.loads(open(box.path("k.jsonl")).read().splitlines()[-1])
        if not abs(last["loss"] - last["train_loss"]) < 1e-5 * abs(last["loss"]):
            return "%s: loss %g in batches of %d, %g in all" % (exe, last["loss"], size, last["train_loss"])
    want, got = train(box, "molecules_whole", data="molecules"), train(box, "molecules_exe", "--batch", 8, data="molecules")
    far = max(np.abs(got[k] - want[k]).max() for k in want)
    first, second = (train(box, "molecules_exe", "--threads", n, data="molecules") for n in (1, 3))
    if any(np.any(first[k] != second[k]) for k in first):
        return "threads change the weights"
    return None if far < 1e-4 and any(np.any(first[k] != want[k]) for k in want) else "weights are off by %g, or batches do not matter" % far


def kinds_refused(box):
    exe = box.path("molecules_exe")
    batch, near = np.load(box.path("molecules", "bond.batch.npy")), np.load(box.path("molecules", "near.edge_index.npy"))
    near[0, 5] = (near[1, 5] + 40) % len(np.load(box.path("molecules", "x.npy")))
    for name, key, value, rc, code, says in [
            ("kinds_edge_between_graphs", "near.edge_index", near, 3, "R305", "row 5 is of graph"),
            ("kinds_batch_not_ascending", "bond.batch", batch[::-1].copy(), 2, "R304", "bond.batch.npy"),
            ("kinds_batch_short", "bond.batch", batch[1:], 3, "R112", "one per bond"),
            ("kinds_batch_below_0", "bond.batch", batch - 1, 2, "R111", "bond.batch.npy"),
            ("kinds_batch_missing", "bond.batch", None, 6, "R117", "the graph of each bond is missing")]:
        shutil.copytree(box.path("molecules"), box.path("bad"))
        os.remove(box.path("bad", key + ".npy"))
        if value is not None:
            np.save(box.path("bad", key + ".npy"), value)
        box.refuses(name, (exe, "train", "--data", "bad", "--save", "no.st"), rc, code, says)
        shutil.rmtree(box.path("bad"))
    box.refuses("kinds_partition", (box.gnnc, "data", "partition", "molecules", "-k", 2, "-o", "parts"), 1, "E0910", "graphs of several kinds of nodes")
    box.refuses("kinds_store", (box.gnnc, "check", "molecules_exe.gnn", "--store", "f16", "--data", "molecules"), 1, "E0910", "batch.npy")
    box.refuses("kinds_out", (exe, "train", "--data", "molecules", "--save", "molecules/bond.batch.npy"), 1, "R410", "a file of the data set")
    said = box.must(exe, "plan", "--data", "molecules", "--reorder", "bfs").out
    box.report("kinds_keep_their_order", "order of nodes   none: batch.npy puts" not in said and said)


def runs(box):
    """A run among several, after others whose last batch was a small one, is what it is alone."""
    box.must(box.path("bits"), "train", "--data", "data", "--seeds", 3, "--metrics", "runs.jsonl")
    box.must(box.path("bits"), "train", "--data", "data", "--seed", 2, "--metrics", "one.jsonl")
    last = [[r for r in map(json.loads, open(box.path(f))) if r.get("final")][-1]["loss"] for f in ("runs.jsonl", "one.jsonl")]
    return None if last[0] == last[1] else "losses are %s" % last


def refusals(box, a):
    exe = box.path("model")
    box.refuses("batch_0", (exe, "train", "--data", "data", "--batch", 0), 1, "R403", "--batch")
    build(box, "whole", "\n".join(line for line in BITS.split("\n") if "batch 4" not in line))
    box.refuses("not_by_batches", (box.path("whole"), "train", "--data", "data", "--batch", 2), 1, "R405", "not trained by batches")
    edges = a["edge_index"].copy()
    edges[0, 5] = (edges[1, 5] + 40) % len(a["x"])
    for name, key, value, rc, code, says in [
            ("edge_between_graphs", "edge_index", edges, 3, "R305", "row 5 is of graph"),
            ("no_training_graph", "train_mask", np.zeros(N_GRAPHS, bool), 3, "R305", "no graph"),
            ("graph_labels_short", "graph_y", a["graph_y"][:-1], 3, "R112", "graph_y"),
            ("batch_not_ascending", "batch", a["batch"][::-1].copy(), 2, "R304", "batch.npy")]:
        shutil.copytree(box.path("data"), box.path("bad"))
        np.save(box.path("bad", key + ".npy"), value)
        box.refuses(name, (exe, "train", "--data", "bad", "--save", "no.st"), rc, code, says)
        shutil.rmtree(box.path("bad"))
    shutil.copytree(box.path("data"), box.path("bad"))
    os.remove(box.path("bad", "graph_y.npy"))
    box.refuses("no_graph_labels", (exe, "train", "--data", "bad"), 6, "R117", "graph_y")


def with_tests(box):
    """A test block's graphs and parameters are no part of the program: the binaries are equal to the byte, and batches train."""
    text = MODEL % (LR, BATCH, EPOCHS)
    tested = text + """test "two layers" {
  t = random_graph(nodes = 9, edges = 20, seed = 1)
  over self_loops(t, add) {
    l = linear(O = 3)
    x = randn(node[4], seed = 2)
    assert close(l(sum_in(x.src)), l(sum_in(x.src)))
  }
}
"""
    programs = []
    for folder, content in (("plain", text), ("tested", tested)):
        os.makedirs(box.path(folder))
        box.write(folder + "/net.gnn", content)
        box.must(box.gnnc, "build", folder + "/net.gnn", "--data", "data", "--cpu=generic", "-o", box.path(folder, "net"))
        with open(box.path(folder, "net"), "rb") as f:
            programs.append(f.read())
    r = box.run(box.path("tested", "net"), "train", "--data", "data")
    return r.rc and r.err or programs[0] != programs[1] and "the test block changes the program"


box = Sandbox(sys.argv[1], "batches")
a = make_data(box, "data", False)
make_data(box, "csr", True)
wrong, epochs = composition(box, a["train_mask"])
box.report("each_graph_once", wrong)
if epochs:
    box.report("numbers", numbers(box, a, epochs, "data"))
    box.report("numbers_of_csr", numbers(box, a, epochs, "csr"))
box.report("found", found(box))
box.report("bits", bits(box))
box.report("pairs", pairs(box))
box.report("kinds", kinds(box))
kinds_refused(box)
box.report("runs", runs(box))
box.report("with_tests", with_tests(box))
build(box, "model", MODEL % (LR, BATCH, EPOCHS))
refusals(box, a)
box.close()
