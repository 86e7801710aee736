"""A toy data set with every kind of array, and a model that reads them all; for tests of whole programs."""
import json
import os
import shutil
import sys

import numpy as np

NODES, EDGES, FEATURES, CLASSES = 60, 200, 8, 3
MODEL = """model toy(x: node[F], edge_weight: edge) -> node[C] {
  param W: [F, C] = glorot
  param b: [C] = 0
  h = dropout(x, 0.1) @ W + b
  return h + sum_in(h.src * edge_weight)
}
train toy {
  loss = cross_entropy(toy(data.x, data.edge_weight), data.y) on data.train
  metric test_acc = accuracy(toy(data.x, data.edge_weight), data.y) on data.test
  hyper lr = 0.01
  optimizer adam(lr)
  epochs 5
  seed 0
}
"""
UNTRAINED = """model plain(x: node[F]) -> node[F] {
  return sum_in(x.src)
}
"""


def make(box):
    """Fills the sandbox: toy/ (data), toy and plain (executables). Returns the arrays of the data."""
    box.must(box.gnnc, "data", "generate", "data", "--nodes", NODES, "--edges", EDGES, "--features", FEATURES,
             "--classes", CLASSES)
    weight = np.random.default_rng(1).random(EDGES).astype("<f4")
    np.save(box.path("data", "edge_weight.npy"), weight)
    box.write("toy.gnn", MODEL)
    box.write("plain.gnn", UNTRAINED)
    box.must(box.gnnc, "build", "toy.gnn", "--data", "data", "--cpu=generic", "-o", box.path("toy"))
    box.must(box.gnnc, "build", "plain.gnn", "--set", "F=%d" % FEATURES, "--cpu=generic", "-o", box.path("plain"))
    return {f[:-4]: np.load(box.path("data", f)) for f in sorted(os.listdir(box.path("data"))) if f.endswith(".npy")}


def store(folder, arrays, **meta):
    """A data set: an array per file, and what meta.json says. Returns the folder."""
    os.makedirs(folder, exist_ok=True)
    for stem, a in arrays.items():
        np.save(os.path.join(folder, stem + ".npy"), a)
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump(meta, f)
    return folder


def fresh(box, without=()):
    """A copy of the data that a test may spoil; `without`: stems that are left out."""
    d = box.path("spoilt")
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(box.path("data"), d)
    for stem in without:
        os.remove(os.path.join(d, stem))
    return d


def header(descr="'<f4'", order="False", shape="(60, 8)", extra="", version=1, length=None):
    """The head of an .npy file with these texts, true or not."""
    text = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }%s" % (descr, order, shape, extra)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    n = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + n.to_bytes(2 if version == 1 else 4, "little") + text.encode("latin1")


def require_little_endian():
    if sys.byteorder != "little":
        raise SystemExit("skip: files are written in native order")
