#!/usr/bin/env python3
"""Graphs between several kinds of nodes (tests/ir/typed.gir) in executables: inference and gradients against numpy, bits of
threads, processors and the device that the CPU plays, checkpoints, edge inputs in the user's order, kinds without nodes and
relations without edges, counts that nobody says, all ways in which the data may be wrong. usage: test_typed.py BUILD"""
import json
import os
import sys

import numpy as np
from sandbox import Sandbox
from toy import store

GIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ir", "typed.gir")


def arrays(papers=40, authors=23, subjects=6, writes=150, edges=210, seed=0):
    r = np.random.default_rng(seed)

    def ids(n, m):
        return r.integers(0, n, m) if n else np.zeros(0, "i8")

    writes = writes if papers and authors else 0
    edges = edges if papers else 0
    types = r.integers(0, 4, edges)
    return {"paper.x": r.standard_normal((papers, 5)).astype("f4"), "author.x": r.standard_normal((authors, 3)).astype("f4"),
            "writes.edge_index": np.stack([ids(authors, writes), ids(papers, writes)]),
            "writes.w": r.random(writes).astype("f4"),
            "edge_index": np.stack([ids(papers, edges), ids(papers, edges)]), "edge_type": types,
            "extends.w": r.random((types == 2).sum()).astype("f4"), "paper.about": ids(subjects, papers),
            "paper.train_mask": r.random(papers) < 0.5, "paper.y": r.standard_normal((papers, 4)).astype("f4")}


def sums(values, at, n):
    out = np.zeros((n,) + values.shape[1:])
    np.add.at(out, at, values)
    return out


def forward(a, w, dtype="f8"):
    """papers, authors, edges of tests/ir/typed.gir, and what the gradient needs."""
    n, m = len(a["paper.x"]), len(a["author.x"])
    p, q = a["paper.x"].astype(dtype) @ w["Wp"], a["author.x"].astype(dtype) @ w["Wa"].T
    s, d = a["writes.edge_index"]
    cites, extends = (a["edge_index"][:, a["edge_type"] == t] for t in (0, 2))
    h = sums(q[s] * a["writes.w"][:, None], d, n) + sums(p[cites[0]], cites[1], n)
    h += sums(p[extends[0]] * a["extends.w"][:, None], extends[1], n) + w["E"][a["paper.about"]]
    same = a["paper.about"][:, None] == a["paper.about"][None, :]
    if n:
        h += np.where(same[:, :, None], p[None], -np.inf).max(1)
    h = np.tanh(h)
    return h, sums(h[d], s, m), h[d].sum(1)


def loss(a, w):
    return (((forward(a, w)[0] - a["paper.y"]) ** 2).sum(1) * a["paper.train_mask"]).sum()


def weights(subjects, seed=1):
    r = np.random.default_rng(seed)
    return {"Wp": r.standard_normal((5, 4)).astype("f4") / 4, "Wa": r.standard_normal((4, 3)).astype("f4") / 4,
            "E": r.standard_normal((subjects, 4)).astype("f4") / 4}


def load_file(path):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        header, data = json.loads(f.read(n)), f.read()
    return {k: np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]) for k, t in header.items() if k != "__metadata__"}


def save_file(tensors, path):
    header, data = {}, b""
    for k, v in tensors.items():
        header[k] = {"dtype": "F32", "shape": v.shape, "data_offsets": [len(data), len(data) + v.nbytes]}
        data += v.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


class Typed(Sandbox):
    def __init__(self, build):
        super().__init__(build, "typed")
        self.must(self.gnnc, "build", GIR, "-o", self.path("net"))
        self.n = 0

    def folder(self, a, **meta):
        self.n += 1
        return store(self.path("data%d" % self.n), a, **({"num_subjects": 6} if not meta else meta))

    def infer(self, folder, w, *flags, exe="net"):
        save_file(w, self.path("w.safetensors"))
        self.must(self.path(exe), "infer", "--data", folder, "--weights", self.path("w.safetensors"), "--out", self.path("out.npy"), *flags)
        return [np.load(self.path(f)) for f in ("out.npy", "out.authors.npy", "out.edges.npy")]

    def train(self, folder, *flags, exe="net"):
        path = self.path("trained.safetensors")
        r = self.must(self.path(exe), "train", "--data", folder, "--save", path, *flags)
        with open(path, "rb") as f:
            return f.read(), load_file(path), r.out + r.err


def test_forward(box):
    for seed, (papers, authors, subjects) in enumerate(((40, 23, 6), (1, 1, 1), (300, 2, 1), (0, 5, 3), (7, 0, 2), (0, 0, 0))):
        a, w = arrays(papers, authors, subjects, seed=seed), weights(subjects)
        got = box.infer(box.folder(a, num_subject=subjects), w)
        wrong = ["%s: %.3g" % (name, np.abs(x - y).max()) for name, x, y in zip(("papers", "authors", "edges"), got, forward(a, w))
                 if x.shape != y.shape or (x.size and np.abs(x - y).max() > 2e-5 * max(1, np.abs(y).max()))]
        box.report("forward of %d papers, %d authors, %d subjects" % (papers, authors, subjects), "; ".join(wrong))


def test_order(box):
    """Edges in another order, with their inputs: the same numbers but for the order of sums, and results of edges move along."""
    a, w = arrays(), weights(6)
    before = box.infer(box.folder(a), w)
    at = np.random.default_rng(5).permutation(len(a["writes.w"]))
    b = dict(a, **{"writes.edge_index": np.ascontiguousarray(a["writes.edge_index"][:, at]), "writes.w": a["writes.w"][at]})
    after = box.infer(box.folder(b), w)
    box.report("edges in the user's order", not np.allclose(before[2][at], after[2], atol=1e-5) and "results of edges did not move")
    b = dict(a, **{"writes.w": a["writes.w"][at]})
    box.report("order of an edge input matters", np.allclose(before[0], box.infer(box.folder(b), w)[0], atol=1e-4) and "it does not")


def test_training(box):
    a = arrays()
    folder = box.folder(a)
    bits, end, log = box.train(folder, "--threads", "1")
    start = box.train(folder, "--epochs", "0")[1]
    w = {k: v.astype("f8") for k, v in start.items()}
    for _ in range(4):
        grad = {}
        for name, x in w.items():
            grad[name] = np.zeros_like(x)
            for i in np.ndindex(*x.shape):
                step = np.zeros_like(x)
                step[i] = 1e-6
                grad[name][i] = (loss(a, dict(w, **{name: x + step})) - loss(a, dict(w, **{name: x - step}))) / 2e-6
        w = {k: v - 0.05 * grad[k] for k, v in w.items()}
    wrong = ["%s: %.3g" % (k, np.abs(w[k] - end[k]).max()) for k in w if np.abs(w[k] - end[k]).max() > 2e-3]
    box.report("training as by differences", "; ".join(wrong) or (np.abs(start["E"] - end["E"]).max() < 1e-3 and "nothing was trained"))
    for flags in (["--threads", "2"], ["--threads", "5"], ["--cone", "off"], ["--cone", "on"], ["--cpu", "generic"]):
        box.report("training " + " ".join(flags), box.train(folder, *flags)[0] != bits and "other bits")
    box.train(folder, "--epochs", "2", "--checkpoint", box.path("ck"))
    box.report("training from a checkpoint", box.train(folder, "--resume", box.path("ck"))[0] != bits and "other bits")


def test_device(box):
    if os.system("c++ --version >/dev/null 2>&1"):
        return box.skip("device", "no c++")
    box.must(box.gnnc, "build", GIR, "--target", "shim", "-o", box.path("shim"))
    a, w = arrays(), weights(6)
    folder = box.folder(a)
    same = all((x == y).all() for x, y in zip(box.infer(folder, w), box.infer(folder, w, "--device", "shim", exe="shim")))
    box.report("inference on a device", not same and "other bits")
    box.report("training on a device", box.train(folder)[0] != box.train(folder, "--device", "shim", exe="shim")[0] and "other bits")


def test_archive(box):
    a, w = arrays(), weights(6)
    folder = box.folder(a)
    one = box.path("graph.npz")
    np.savez(one, **a)
    wide = dict(a, **{k: v.astype("i4") for k, v in a.items() if v.dtype == np.int64})
    for name, data in (("an archive", one), ("32 bits", box.folder(wide))):
        if name == "an archive":
            w2 = dict(w, E=w["E"][:a["paper.about"].max() + 1])  # counted by the largest id
        else:
            w2 = w
        box.report(name, any((x != y).any() for x, y in zip(box.infer(folder, w), box.infer(data, w2))) and "other bits")


def test_counts(box):
    """What meta.json does not say, features do, else a column's rows, else the largest id."""
    a = arrays()
    a["paper.about"][-1] = 4
    a["paper.about"] = np.minimum(a["paper.about"], 4)
    folder = box.folder(a, num_nodes=3)
    out = box.must(box.path("net"), "plan", "--data", folder).out
    want = {"paper": 40, "author": 23, "subject": 5, "writes": 150, "rev_writes": 150, "cites": (a["edge_type"] == 0).sum(), "about": 40, "back": 40,
            "plp": sum((a["paper.about"] == s).sum() ** 2 for s in range(5))}
    found = {line.split()[0]: int(line.split()[1]) for line in out.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()}
    box.report("counts", {k: found.get(k) for k in want} != want and "%s, wanted %s" % (found, want))


def changed(a, name, **how):
    b = {k: v.copy() for k, v in a.items()}
    for at, value in how.get("put", ()):
        b[name][at] = value
    if "value" in how:
        b[name] = how["value"]
    return b


def test_refused(box):
    a = arrays()
    w = a["writes.edge_index"]
    last = int(np.flatnonzero(a["edge_type"] == 2)[-1])
    cases = [
        ("no edges", {k: v for k, v in a.items() if k != "writes.edge_index"}, 6, "writes.edge_index.npy", "the edges of writes are missing"),
        ("no column", {k: v for k, v in a.items() if k != "paper.about"}, 6, "paper.about.npy", "the edges of about are missing"),
        ("no types", {k: v for k, v in a.items() if k != "edge_type"}, None, "edge_type", ""),
        ("author", changed(a, "writes.edge_index", put=[((0, 7), 23)]), 2, "writes.edge_index.npy",
         "the source of edge 7 is 23, wanted 0 <= id < 23: a row of author"),
        ("paper", changed(a, "writes.edge_index", put=[((1, 9), -1)]), 2, "writes.edge_index.npy",
         "the target of edge 9 is -1, wanted 0 <= id < 40: a row of paper"),
        ("paper of a type", changed(a, "edge_index", put=[((1, last), 40)]), 2, "edge_index.npy",
         "the target of edge %d is 40, wanted 0 <= id < 40: a row of paper" % last),
        ("subject", changed(a, "paper.about", put=[(3, 6)]), 2, "paper.about.npy", "the target of edge 3 is 6, wanted 0 <= id < 6: a row of subject"),
        ("missing subject", changed(a, "paper.about", put=[(3, -1)]), 2, "paper.about.npy", "the target of edge 3 is -1"),
        ("short column", changed(a, "paper.about", value=a["paper.about"][:-1]), 3, "paper.about.npy", "found 39 integers, wanted 40: one per row of paper"),
        ("column of two", changed(a, "paper.about", value=np.zeros((40, 2), "i8")), 3, "paper.about.npy", "wanted one integer of each row"),
        ("column of floats", changed(a, "paper.about", value=a["paper.about"] + 0.5), 3, "paper.about.npy", ""),
        ("edges of three rows", changed(a, "writes.edge_index", value=np.concatenate([w, w[:1]])), 3, "writes.edge_index.npy", "wanted [2, E]"),
        ("short types", changed(a, "edge_type", value=a["edge_type"][1:]), 3, "edge_type.npy", "found 209 integers, wanted 210"),
        ("short edge input", changed(a, "writes.w", value=a["writes.w"][1:]), 3, "writes.w.npy", "found 149 rows, wanted 150: one per element of writes"),
        ("edge input of all types", changed(a, "extends.w", value=np.ones(210, "f4")), 3, "extends.w.npy", "found 210 rows"),
        ("rows of authors", dict(a, meta={"num_authors": 24, "num_subjects": 6}), 3, "author.x.npy", "found 23 rows, wanted 24"),
        ("width", changed(a, "author.x", value=a["author.x"][:, :2]), 3, "author.x.npy", "found 2 columns, wanted 3"),
        ("not finite", changed(a, "paper.x", put=[((2, 2), np.nan)]), 2, "paper.x.npy", ""),
    ]
    save_file(weights(6), box.path("w.safetensors"))
    for name, b, rc, place, message in cases:
        folder = box.folder({k: v for k, v in b.items() if k != "meta"}, **b.get("meta", {}))
        r = box.run(box.path("net"), "infer", "--data", folder, "--weights", box.path("w.safetensors"), "--out", box.path("no.npy"))
        wrong = r.rc == 0 or (rc and r.rc != rc) or place not in r.err or message not in r.err or os.path.exists(box.path("no.npy"))
        box.report("refused: " + name, wrong and "%s: %s" % (r.rc, r.err))
    r = box.run(box.path("net"), "train", "--data", box.folder(a), "--reorder", "auto")
    box.report("refused: --reorder", (r.rc != 1 or "nodes of several types are not ordered" not in r.err) and "%s: %s" % (r.rc, r.err))
    r = box.run(box.path("net"), "train", "--data", box.folder(a), "--ranks", "2")
    box.report("refused: --ranks", (r.rc == 0 or "R912" not in r.err) and r.err)
    r = box.run(box.gnnc, "data", "partition", box.folder(a), "-k", "2", "-o", box.path("parts"))
    box.report("refused: partition", (os.path.exists(box.path("parts")) or "E0910" not in r.err) and r.err)
    with open(GIR) as f:
        text = f.read().replace("train epochs 4 seed 3 {", "train epochs 4 seed 3 batch 2 {")
    box.must(box.gnnc, "build", box.write("batch.gir", text), "-o", box.path("batch"))
    r = box.run(box.path("batch"), "train", "--data", box.folder(a))
    box.report("refused: batches", (r.rc != 3 or "no map leads from its nodes to graphs" not in r.err) and "%s: %s" % (r.rc, r.err))


def test_large_path(box):
    """60,000 papers of one subject: 3.6e9 pairs, which are counted and refused."""
    a = arrays(60000, 10, 1, 20, 20)
    r = box.run(box.path("net"), "plan", "--data", box.folder(a), limit=300)
    want = "its paths join 3600000000 pairs of nodes, which take 100800000000 bytes"
    box.report("a metapath of too many pairs", (r.rc != 3 or want not in r.err) and "%s: %s" % (r.rc, r.err))
    a["paper.about"] = np.arange(60000)
    box.report("a metapath of each node to itself", box.run(box.path("net"), "plan", "--data", box.folder(a, num_subjects=60000)).rc)


def main():
    box = Typed(sys.argv[1])
    for test in (test_forward, test_order, test_training, test_device, test_archive, test_counts, test_refused, test_large_path):
        try:
            test(box)
        except (RuntimeError, OSError, ValueError) as e:
            box.report(test.__name__, e)
    box.close()


main()
