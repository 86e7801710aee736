#!/usr/bin/env python3
"""What does not change between epochs is computed once: training, metrics and inference give the same bytes.

usage: test_hoist.py BUILD
Run: avx2 if long"""
import os
import subprocess
import sys
import tempfile

import numpy as np

import toy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
GNNC = os.path.join(BUILD, "gnnc")
CORA = os.path.join(ROOT, "examples", "data", "cora")
failed = False

# A message with invariant edge features, masks and a mean; a state; a metric that reads another input.
MODEL = """model net(x: node[F], w: edge) -> node[C] {
  conv1 = sage(O = 8)
  conv2 = gcn(O = C)
  return conv2(relu(dropout(conv1(x), 0.2)))
}

train net {
  loss = cross_entropy(net(data.x, data.w), data.y) on data.train
  metric val_acc = accuracy(net(data.x, data.w), data.y) on data.val
  optimizer adam(0.01)
  epochs 4
  seed 0
}
"""
BAD = """model net(x: node[F]) -> node[C] {
  conv = gcn(O = C)
  bad = x * log(0 - 1 - sum(x * x, F))
  return conv(bad)
}

train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  optimizer adam(0.01)
  epochs 4
  seed 0
}
"""


# Rows of tables that edges and nodes name, read alone and beside neighbours; of graphs.
TABLES = """model net(x: node[F], kind: edge index[R], type: node index[S]) -> %(of)s[C] {
  param E: [R, F] = glorot
  param T: [S, F] = glorot
  last = linear(O = C)
  h = relu(sum_in(x.src * E[kind]) + mean_in(E[kind]) + T[type])
  return last(%(h)s)
}

train net {
  loss = cross_entropy(net(data.x, data.kind, data.type), data.%(y)s) on data.train
  metric val_acc = accuracy(net(data.x, data.kind, data.type), data.%(y)s) on data.val
  optimizer adam(0.01)
%(batch)s  epochs 4
  seed 0
}
"""


def run(argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300)
    return p.returncode, p.stdout.decode("utf-8", "replace")


def must(argv):
    code, out = run(argv)
    if code:
        raise RuntimeError("%s ended with %d: %s" % (" ".join(argv[:3]), code, out[-400:]))
    return out


def small(tmp):
    """A graph with a hub, nodes without edges, self-loops and parallel edges."""
    d = os.path.join(tmp, "small")
    if os.path.isdir(d):
        return d
    rng, n, e = np.random.default_rng(5), 300, 2000
    src, dst = rng.integers(0, n - 9, e), rng.integers(0, n - 9, e)
    dst[:600] = 3
    arrays = {"edge_index": np.stack([src, dst]), "x": rng.standard_normal((n, 11)).astype("<f4"),
              "w": rng.random(e).astype("<f4"), "y": rng.integers(0, 4, n), "train_mask": rng.random(n) < 0.4}
    arrays["val_mask"] = ~arrays["train_mask"]
    return toy.store(d, arrays, num_nodes=n, num_edges=e, feature_dim=11, num_classes=4)


def build(tmp, name, model, data, *options):
    exe = os.path.join(tmp, name)
    must([GNNC, "build", model, "--data", data, "--cpu=native", "-o", exe] + list(options))
    return exe


def train(exe, data, *options):
    """The log and the weights of some epochs."""
    log, weights = exe + ".jsonl", exe + ".safetensors"
    must([exe, "train", "--data", data, "--epochs", "4", "--metrics", log, "--save", weights] + list(options))
    with open(log, "rb") as f, open(weights, "rb") as w:
        return f.read(), w.read()


def write_model(tmp, text):
    path = os.path.join(tmp, "model.gnn")
    with open(path, "w") as f:
        f.write(text)
    return path


def cases(tmp):
    for name in ["gcn", "gat", "sage", "gin"]:
        yield name, os.path.join(ROOT, "examples", name + ".gnn"), CORA
    yield "small", write_model(tmp, MODEL), small(tmp)


def test_bytes(tmp):
    """The pass changes no bit by itself; reorder, which counts on what is held, chooses other forms without it."""
    for name, model, data in cases(tmp):
        exe = build(tmp, "exe", model, data, "--disable=reorder")
        plain = build(tmp, "plain", model, data, "--disable=hoist,reorder", "--quick")
        used = ["setup." in must([e, "plan", "--data", data]) for e in [exe, plain]]
        if used != [True, False]:
            return "%s: computes things once with and without the pass: %s" % (name, used)
        want = train(plain, data, "--threads", "1")
        for threads in "123":
            if train(exe, data, "--threads", threads) != want:
                return "%s: other metrics or weights with %s threads" % (name, threads)
    return None


def with_kinds(tmp, graphs=0, shuffled=False):
    """Edges in the order of their targets, in which they are stored, too; or shuffled."""
    rng, n, e = np.random.default_rng(6), 400, 3000
    batch = np.sort(rng.integers(0, graphs or 1, n))
    ends = rng.integers(0, n - 3, (2, e))
    ends[1, :700] = 3
    ends = ends[:, batch[ends[0]] == batch[ends[1]]]
    ends = ends[:, np.argsort(ends[1], kind="stable")]
    e, rows = ends.shape[1], graphs or n
    kind, order = rng.integers(0, 29, e), rng.permutation(e) if shuffled else np.arange(e)
    arrays = {"edge_index": np.ascontiguousarray(ends[:, order]), "kind": kind[order], "type": rng.integers(0, 19, n), "x": rng.standard_normal((n, 5)).astype("<f4"),
              "graph_y" if graphs else "y": rng.integers(0, 4, rows), "train_mask": rng.random(rows) < 0.6}
    arrays["val_mask"] = ~arrays["train_mask"]
    if graphs:
        arrays["batch"] = batch
    return toy.store(os.path.join(tmp, "kinds%d%d" % (graphs, shuffled)), arrays, num_nodes=n, num_edges=e, num_classes=4, feature_dim=5,
                     **({"num_graphs": graphs} if graphs else {}))


def close(a, b):
    """Two files of weights: of one layout, and numbers that differ by rounding."""
    at = 8 + int.from_bytes(a[:8], "little")
    return a[:at] == b[:at] and np.allclose(np.frombuffer(a[at:], "<f4"), np.frombuffer(b[at:], "<f4"), rtol=1e-3, atol=1e-4)


def test_maps(tmp):
    """Who reads each row of a table is listed when data are loaded, instead of in each run. Where both lists have the same order the
    bytes are the same; by batches, whose graphs stand in an order that is drawn, and where nodes are stored in another order, numbers agree."""
    sizes = ["--set", "R=30,S=20"]
    for graphs in (0, 30):
        of = {"of": "node", "h": "h", "y": "y", "batch": ""}
        if graphs:
            of = {"of": "graph", "h": "readout_sum(h)", "y": "graph_y", "batch": "  batch 7 of graphs\n"}
        model, data, other = write_model(tmp, TABLES % of), with_kinds(tmp, graphs), with_kinds(tmp, graphs, True)
        exes, sorts = [], []
        for off in ("reorder,sparse", "hoist,reorder,sparse"):
            exes.append(build(tmp, "exe%d" % len(exes), model, data, "--disable=" + off, "--quick", *sizes))
            gir = build(tmp, "passed.gir", model, data, "--emit=gir", "--disable=" + off, *sizes)
            with open(gir) as f:
                sorts.append("= route " in f.read())
        if sorts != [False, True]:
            return "programs compute maps with the pass, and without it: %s" % sorts
        want = train(exes[1], data, "--threads", "1")
        for threads in "12":
            got = train(exes[0], data, "--threads", threads)
            if not close(got[1], want[1]) if graphs else got != want:
                return "%d graphs: other metrics or weights with %s threads" % (graphs, threads)
        a, b = train(exes[0], other)[1], train(exes[1], other)[1]
        if a == b or not close(a, b):
            return "%d graphs: shuffled edges: weights are %s" % (graphs, "the same" if a == b else "others")
        if not graphs and not close(train(exes[0], data, "--reorder", "degree")[1], want[1]):
            return "other weights where nodes are stored by degree"
    return None


FORM = """model net(x: node[F]) -> node[C] {
  a = %s
  b = linear(O = C)
  return b(relu(a(x)))
}

train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  optimizer adam(0.01)
  epochs 4
  seed 0
}
"""


def test_forms(tmp):
    """Where nothing else reads an input its sums over neighbours are held and read in its place: the loop then walks no edge. Where the
    layer reads the input as well, or so wide a sum is for few numbers, or the input is mostly zeros, sums stay as narrow as the layer."""
    data = toy.store(os.path.join(tmp, "sparse"), {**sparse_rows(300, 500), "edge_index": np.zeros((2, 4), "<i8"), "y": np.zeros(300, "<i8"),
                                                   "train_mask": np.ones(300, bool)}, num_nodes=300, num_edges=4, num_classes=3, feature_dim=500)
    for layer, more, held in [("gcn(O = 16)", ["--set", "F=500,C=3"], True), ("gcn(O = 16)", ["--set", "F=2050,C=3"], False),
                              ("gin(O = 16, nn = mlp(16), train_eps = true)", ["--set", "F=500,C=3"], False), ("gcn(O = 16)", ["--data", data], False)]:
        out = os.path.join(tmp, "forms.gir")
        must([GNNC, "build", write_model(tmp, FORM % layer), *more, "--emit=gir", "-o", out])
        with open(out) as f:
            step = f.read().split("\nfunc train_step(")[1].split("\n}")[0]
        walks = [line for line in step.split("\n") if "= reduce_sum " in line and ".all :" not in line]
        if bool(walks) == held:
            return "%s, %s: the loop has %d sums over edges" % (layer, more, len(walks))
    return None


def sparse_rows(n, width):
    """One element of each row, as CSR."""
    return {"x_indptr": np.arange(n + 1), "x_indices": np.arange(n) % width, "x_data": np.ones(n, "<f4")}


def test_resume(tmp):
    """What is held is in no checkpoint."""
    data = small(tmp)
    exe = build(tmp, "exe", write_model(tmp, MODEL), data)
    want, ckpt = train(exe, data)[1], exe + ".ckpt"
    must([exe, "train", "--data", data, "--epochs", "2", "--checkpoint", ckpt])
    with open(ckpt, "rb") as f:
        if b"held" in f.read():
            return "held values in the checkpoint"
    return train(exe, data, "--resume", ckpt)[1] != want and "other weights when resumed"


def test_needs(tmp):
    """infer wants no labels, eval no training mask."""
    data = small(tmp)
    exe = build(tmp, "exe", write_model(tmp, MODEL), data)
    train(exe, data)
    want = must([exe, "eval", "--data", data, "--weights", exe + ".safetensors"])
    os.remove(os.path.join(data, "train_mask.npy"))
    if must([exe, "eval", "--data", data, "--weights", exe + ".safetensors"]) != want:
        return "eval without the training mask says something else"
    os.remove(os.path.join(data, "y.npy"))
    must([exe, "infer", "--data", data, "--weights", exe + ".safetensors", "--out", os.path.join(tmp, "y.npy")])
    return None


def test_nan(tmp):
    data = small(tmp)
    code, out = run([build(tmp, "bad", write_model(tmp, BAD), data), "train", "--data", data])
    return (code != 5 or "the first NaN is made by" not in out) and "exit code %d: %s" % (code, out[-300:])


def test_library(tmp):
    out = os.path.join(tmp, "lib")
    model = os.path.join(ROOT, "examples", "gcn.gnn")
    must([GNNC, "build", model, "--set", "F=8,C=3", "--emit=obj,plan", "-o", out])
    with open(out + ".plan") as f:
        if "setup." in f.read():
            return "a library computes things once"
    gir = build(tmp, "after.gir", model, CORA, "--emit=gir", "--disable=sparse")
    code, out = run([GNNC, "build", gir, "--emit=lib", "-o", out])
    if code != 1 or "E0910" not in out or "hoist" not in out:
        return "a library of held values: exit code %d, %s" % (code, out)
    model = write_model(tmp, TABLES % {"of": "node", "h": "h", "y": "y", "batch": ""})
    gir = build(tmp, "maps.gir", model, with_kinds(tmp), "--emit=gir", "--set", "R=30,S=20")
    code, out = run([GNNC, "build", gir, "--emit=lib", "-o", os.path.join(tmp, "lib")])
    return (code != 1 or "makes no map of an input" not in out) and "a library of maps that inputs say: exit code %d, %s" % (code, out)


for test in [test_bytes, test_maps, test_forms, test_resume, test_needs, test_nan, test_library]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            why = test(folder)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as e:
            why = str(e)
        print("FAIL %s: %s" % (test.__name__, why) if why else "ok %s" % test.__name__)
        failed |= bool(why)
sys.exit(failed)
