#!/usr/bin/env python3
"""Several runs of `train`: --folds makes the masks that fold.npy says, --seeds trains each seed as it is trained alone, mean and
deviation are those of numpy, and what does not fit is refused by name. usage: test_folds.py BUILD"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
from sandbox import Sandbox

MODEL = """
model net(x: node[F]) -> node[C] = linear(mean_in(x.src))
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric train_id = float(id(node)) on data.train
  %s
  metric test_id = float(id(node)) on data.test
  metric test_loss = cross_entropy(net(data.x), data.y) on data.test
  hyper lr = 0.1
  optimizer adam(lr)
  epochs 4
  seed 5
}
"""
VAL = "metric val_id = float(id(node)) on data.val"
K = 4


def lines(box, name):
    with open(box.path(name)) as f:
        return [json.loads(line) for line in f]


def build(box, name, text):
    box.write(name + ".gnn", text)
    box.must(box.gnnc, "build", name + ".gnn", "--data", "data", "--cpu=native", "-o", box.path(name))
    return box.path(name)


def masks(box, exe, fold, val):
    """The mean id of each set is that of the rows that the fold says."""
    box.must(exe, "train", "--data", "data", "--folds", K, "--metrics", "m.jsonl")
    runs, ids = [r for r in lines(box, "m.jsonl") if r.get("final")], np.arange(len(fold))
    if [r["fold"] for r in runs] != list(range(K)):
        return "runs are of folds %s" % [r["fold"] for r in runs]
    for k, r in enumerate(runs):
        held = (fold == k) | ((fold == (k + 1) % K) & val)
        want = {"train_id": ids[~held].mean(), "test_id": ids[fold == k].mean()}
        if val:
            want["val_id"] = ids[fold == (k + 1) % K].mean()
        for name, w in want.items():
            if abs(r[name] - w) > 1e-3:
                return "fold %d: %s is %g, wanted %g" % (k, name, r[name], w)


def summary(box):
    """The last line of a file of several runs."""
    all_lines = lines(box, "m.jsonl")
    runs, last = [r for r in all_lines if r.get("final")], all_lines[-1]
    got = np.array([r["test_loss"] for r in runs])
    if last["runs"] != K or len(all_lines) != K * 5 + 1:
        return "%d lines, the last of %s runs" % (len(all_lines), last["runs"])
    far = abs(last["mean"]["test_loss"] - got.mean()) + abs(last["deviation"]["test_loss"] - got.std(ddof=1))
    return None if far < 1e-6 and got.std() > 1e-4 else "off by %g" % far


def seeds(box, exe):
    """Each run of --seeds, and each fold, is what it is alone."""
    box.must(exe, "train", "--data", "data", "--folds", K, "--seeds", 2, "--metrics", "m.jsonl")
    runs = [r for r in lines(box, "m.jsonl") if r.get("final")]
    if [(r["seed"], r["fold"]) for r in runs] != [(s, f) for s in (5, 6) for f in range(K)]:
        return "order of runs"
    for r in runs[1::3]:
        box.must(exe, "train", "--data", "data", "--folds", K, "--fold", r["fold"], "--seed", r["seed"], "--metrics", "one.jsonl",
                 "--save", "one.st")
        alone = lines(box, "one.jsonl")[-1]
        if alone["test_loss"] != r["test_loss"] or alone["loss"] != r["loss"]:
            return "seed %d, fold %d: %g alone, %g among others" % (r["seed"], r["fold"], alone["test_loss"], r["test_loss"])
    out = box.must(exe, "eval", "--data", "data", "--folds", K, "--fold", runs[7]["fold"], "--weights", "one.st").out
    if "test_loss %.6f" % runs[7]["test_loss"] not in out:
        return "eval of a fold says %s" % out


def ranks(box, exe, fold):
    """Each fold of two processes is what it is in one; one of them may have no row of a fold, but not both."""
    with open(box.path("owner.txt"), "w") as f:
        f.write("\n".join("%d" % (k == 0) for k in fold))
    box.must(box.gnnc, "data", "partition", "data", "-k", 2, "-o", "parts", "--method", "owner.txt")
    for data, more in (("data", ()), ("parts", ("--ranks", 2))):
        box.must(exe, "train", "--data", data, "--folds", K, "--metrics", data + ".jsonl", "--blas", "off", *more)
    np.save(box.path("parts", "part-0", "fold.npy"), np.load(box.path("parts", "part-0", "fold.npy")) % (K - 1))
    np.save(box.path("parts", "part-1", "fold.npy"), np.load(box.path("parts", "part-1", "fold.npy")) % (K - 1))
    box.refuses("ranks_lack_a_fold", (exe, "train", "--data", "parts", "--ranks", 2, "--folds", K), 3, "R121", "no row is of fold 3")
    return None if lines(box, "data.jsonl") == lines(box, "parts.jsonl") else "runs differ"


def killed(box, exe):
    """A signal ends all runs; the metrics of those that were through are whole."""
    p = subprocess.Popen([exe, "train", "--data", "data", "--folds", str(K), "--seeds", "100000", "--metrics", "k.jsonl"],
                         cwd=box.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not (os.path.exists(box.path("k.jsonl")) and os.path.getsize(box.path("k.jsonl")) > 5000):
        time.sleep(0.01)
    p.send_signal(signal.SIGTERM)
    err = p.communicate(timeout=60)[1].decode()
    if p.returncode not in (75, -signal.SIGTERM):
        return "ended with %d: %s" % (p.returncode, err)
    return None if len(lines(box, "k.jsonl")) > 20 else "few lines"


def refusals(box, exe, fold):
    box.refuses("save_of_many", (exe, "train", "--data", "data", "--folds", K, "--save", "w.st"), 1, "R403", "--save")
    box.refuses("fold_alone", (exe, "train", "--data", "data", "--fold", 1), 1, "R404", "--folds")
    box.refuses("fold_too_high", (exe, "train", "--data", "data", "--folds", K, "--fold", K), 1, "R403", "--fold")
    box.refuses("no_folds_flag", (exe, "train", "--data", "data"), 6, "R117", "_mask", "--folds K")
    box.refuses("seeds_0", (exe, "train", "--data", "data", "--folds", K, "--seeds", 0), 1, "R403", "--seeds")
    train = (exe, "train", "--data", "bad", "--folds", K)
    for name, values, rc, code, says in [
            ("folds_do_not_cover", np.where(fold == 2, 1, fold), 3, "R121", "no row is of fold 2"),
            ("fold_of_another_number", np.where(fold == 2, 7, fold), 3, "R121", "is 7"),
            ("fold_negative", np.where(fold == 2, -1, fold), 3, "R121", "is -1"),
            ("fold_rows", fold[:-1], 3, "R112", "one per row of the masks"),
            ("fold_floats", fold + 0.5, 3, "R114", "fold")]:
        shutil.copytree(box.path("data"), box.path("bad"))
        np.save(box.path("bad", "fold.npy"), values)
        box.refuses(name, train, rc, code, says)
        shutil.rmtree(box.path("bad"))


box = Sandbox(sys.argv[1], "folds")
box.must(box.gnnc, "data", "generate", "data", "--nodes", 60, "--features", 5, "--classes", 3)
for mask in ("train", "val", "test"):
    os.remove(box.path("data", mask + "_mask.npy"))
fold = np.random.default_rng(0).permutation(np.arange(60) % K)
np.save(box.path("data", "fold.npy"), fold)
exe = build(box, "plain", MODEL % "")
box.report("masks", masks(box, exe, fold, False))
box.report("summary", summary(box))
box.report("seeds", seeds(box, exe))
box.report("ranks", ranks(box, exe, fold))
box.report("killed", killed(box, exe))
box.report("masks_with_val", masks(box, build(box, "val", MODEL % VAL), fold, True))
refusals(box, exe, fold)
box.close()
