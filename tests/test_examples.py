#!/usr/bin/env python3
"""The tasks of examples/ on Cora: what each reaches in a short run, and label propagation against numpy.
usage: test_examples.py BUILD [WORD...]"""
import functools
import json
import os
import re
import sys

import numpy as np
from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORA = os.path.join(ROOT, "examples", "data", "cora")


def load(name, folder=CORA):
    return np.load(os.path.join(folder, name + ".npy"))


@functools.lru_cache(maxsize=None)
def build(box, name, data=CORA):
    out = box.path("%s_%s" % (os.path.basename(name), os.path.basename(data)))
    box.must(box.gnnc, "build", os.path.join(ROOT, "examples", name + ".gnn"), "--data", data, "--cpu", "native", "-o", out)
    return out


def final(box, name, *flags, data=CORA):
    """The last line of --metrics of a training run."""
    box.must(build(box, name, data), "train", "--data", data, "--metrics", box.path("run.jsonl"), *flags, limit=300)
    return json.loads(open(box.path("run.jsonl")).read().splitlines()[-1])


def test_label_propagation(box):
    """As PyG's LabelPropagation(50, 0.9): by numpy, on the same masks."""
    src, dst = load("edge_index")
    y, known = load("y"), load("train_mask")
    degree = np.bincount(dst, minlength=len(y))
    r = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
    start = np.eye(y.max() + 1)[y] * known[:, None]
    h = start
    for _ in range(50):
        moved = np.zeros_like(h)
        np.add.at(moved, dst, (r[src] * r[dst])[:, None] * h[src])
        h = np.clip(0.9 * moved + 0.1 * start, 0, 1)
    wanted = {m: float(np.mean((h.argmax(1) == y)[load(m + "_mask")])) for m in ("val", "test")}
    out = box.must(build(box, "label_propagation"), "eval", "--data", CORA).out
    found = dict(line.split() for line in out.splitlines())
    wrong = [m for m in wanted if abs(float(found[m + "_acc"]) - wanted[m]) > 0.0021]
    return wrong and "found %s, wanted %s" % (found, wanted)


def test_correct_smooth(box):
    f = final(box, "correct_smooth", "--epochs", "40")
    return f["test_acc"] < f["test_acc_alone"] + 0.1 and "found %s, wanted the spread scores to be better by 0.1" % f


def split(box, seed):
    out = box.path("links%d" % seed)
    box.must(sys.executable, os.path.join(ROOT, "examples", "links", "split.py"), CORA, out, seed)
    return out


def test_split(box):
    """No edge that is to be predicted is left in either direction, no negative is an edge, and nothing is lost."""
    out = split(box, 3)
    pairs = {n: load(n + "_index", out) for n in ("edge", "val", "test", "lists")}
    label = {n: load(n + "_label", out) for n in ("val", "test", "lists")}
    whole, kept = set(map(tuple, load("edge_index").T)), set(map(tuple, pairs["edge"].T))
    taken = [tuple(e) for n in ("val", "test") for e in pairs[n].T[label[n] == 1]]
    if any(e in kept or e[::-1] in kept for e in taken):
        return "an edge to be predicted is in edge_index"
    if any(tuple(e) in whole for n in label for e in pairs[n].T[label[n] == 0]):
        return "a negative is an edge"
    return kept | set(taken) | {e[::-1] for e in taken} != whole and "edges were lost"


def test_links(box):
    """The mean of the seeds' AUC; all 5 of them and all epochs with GNNC_LONG=1."""
    long = bool(os.environ.get("GNNC_LONG"))
    found = [final(box, "links/links", "--seed", s, *([] if long else ["--epochs", 60]), data=split(box, s))
             for s in range(5 if long else 1)]
    auc = np.mean([f["test_auc"] for f in found])
    return not auc >= (0.9 if long else 0.86) and "AUC %g: %s" % (auc, found)


def test_draws(box):
    """Negatives are other ones in each step, the same for any number of threads, and go on where a run was broken."""
    data, exe = split(box, 0), build(box, "links/links", split(box, 0))

    def train(name, *flags):
        box.must(exe, "train", "--data", data, "--save", box.path(name), *flags)
        return open(box.path(name), "rb").read()
    whole = train("whole", "--epochs", 8, "--threads", 1)
    if train("threads", "--epochs", 8, "--threads", 3) != whole:
        return "other weights with 3 threads"
    train("part", "--epochs", 3, "--checkpoint", box.path("c"))
    if train("resumed", "--epochs", 8, "--resume", box.path("c")) != whole:
        return "other weights when resumed"
    return train("seed", "--epochs", 8, "--seed", 1) == whole and "the same weights with another seed"


LEFT_OUT = """
model net(x: node[F]) -> node[C] {
  lin = linear(O = 16)
  last = gcn(O = C)
  h = relu(lin(x))
  return last(permute(h) + float(rank_all(sum(h))) / 3000)
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  optimizer adam(0.01)
  epochs 3
}
"""


def test_rows_left_out(box):
    """Rows that the loss does not need are not left out where other rows, or other ones in each step, are read."""
    found = []
    for flags in ([], ["--disable=cone"]):
        box.must(box.gnnc, "build", box.write("left.gnn", LEFT_OUT), "--data", CORA, "--cpu", "native", "-o", box.path("left"), *flags)
        box.must(box.path("left"), "train", "--data", CORA, "--save", box.path("w"))
        found.append(open(box.path("w"), "rb").read())
    return found[0] != found[1] and "other weights than with --disable=cone"


def test_dgi(box):
    """Codes learned without labels are far better read than raw features, which reach 59 %."""
    f = final(box, "dgi", "--epochs", "60")
    return not f["test_acc"] >= 0.7 and "found %s" % f


def test_words(box):
    """Labels are named better than by chance: all of them give 2 p / (1 + p) where a share p is true."""
    data = box.path("words_data")
    box.must(sys.executable, os.path.join(ROOT, "examples", "words", "take.py"), CORA, data)
    p = load("words", data)[load("test_mask", data)].mean()
    f = final(box, "words/words", "--epochs", "25", data=data)
    return not f["test_f1"] >= 1.5 * 2 * p / (1 + p) and "found %s, chance is %g" % (f, 2 * p / (1 + p))


def test_energy(box):
    """Forces are the energy's slope, and moving by them keeps the energy: 10,000 steps with GNNC_LONG=1."""
    long = bool(os.environ.get("GNNC_LONG"))
    env = dict(os.environ, GNNC=box.gnnc, PYTHON=sys.executable, STEPS="10000" if long else "500", EPOCHS="300" if long else "30",
               CPU="" if long else "native")
    out = box.must(os.path.join(ROOT, "examples", "energy", "build.sh"), box.path("energy"), env=env, limit=1200).out
    slope = float(re.search(r"forces: off by (\S+)", out)[1])
    off = [float(w) for w in re.findall(r"off by at most (\S+)", out)]
    heat = float(re.search(r"kinetic energy (\S+)", out)[1])
    if not slope <= 1e-6:
        return "forces differ by %g from the energy's slope" % slope
    if len(off) != 10 or not off[-1] <= min(1e-3 * heat, 8 * off[0]):
        return "the energy drifts: %s of %g" % (off, heat)


def test_rgcn(box):
    """Entities of AIFB are told by their relations; the largest class alone would give 42 %. All epochs and 3 seeds with GNNC_LONG=1, all 10 with GNNC_LONG=all."""
    data = os.path.join(os.environ.get("GNNC_SHARED", os.path.join(os.path.dirname(ROOT), "shared")), "data", "aifb")
    if not os.path.isdir(data):
        return box.skip("rgcn", "wants AIFB in the data sets of GNNC_SHARED")
    long = os.environ.get("GNNC_LONG")
    seeds = range(10 if long == "all" else 3 if long else 1)
    found = [final(box, "rgcn", "--seed", s, *([] if long else ["--epochs", 25]), data=data)["test_acc"] for s in seeds]
    return not np.mean(found) >= (0.94 if long else 0.9) and "found %s" % found


def test_hgt(box):
    """Papers of ACM, by relations that one file's edges and a column say; the largest class alone would give 35 %."""
    data = os.path.join(os.environ.get("GNNC_SHARED", os.path.join(os.path.dirname(ROOT), "shared")), "data", "acm")
    if not os.path.isdir(data):
        return box.skip("hgt", "wants ACM in the data sets of GNNC_SHARED")
    found = final(box, "hgt", "--epochs", 30, data=data)["test_acc"]
    return not found >= 0.84 and "found %s" % found


def test_temporal(box):
    """Later messages are told from other pairs, and worse where ages are at other events."""
    data = os.path.join(os.environ.get("GNNC_SHARED", os.path.join(os.path.dirname(ROOT), "shared")), "data", "uci_messages")
    if not os.path.isdir(data):
        return box.skip("temporal", "wants uci_messages in the data sets of GNNC_SHARED")
    at = box.path("messages_data")
    box.must(sys.executable, os.path.join(ROOT, "examples", "temporal", "split.py"), data, at)
    found = final(box, "temporal/messages", data=at)["test_auc"]
    np.save(os.path.join(at, "age.npy"), np.random.default_rng(0).permutation(load("age", at)))
    mixed = final(box, "temporal/messages", data=at)["test_auc"]
    return not found >= max(0.76, mixed + 0.02) and "AUC %g, %g with ages in another order" % (found, mixed)


TESTS = [test_rgcn, test_hgt, test_temporal, test_label_propagation, test_correct_smooth, test_split, test_links, test_draws, test_rows_left_out, test_dgi, test_words, test_energy]

box = Sandbox(sys.argv[1], "examples")
for t in TESTS:
    if not sys.argv[2:] or any(w in t.__name__ for w in sys.argv[2:]):
        box.report(t.__name__[5:], t(box))
box.close()
