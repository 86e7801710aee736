#!/usr/bin/env python3
"""Tasks on many graphs, trained on real data by batches: GIN on MUTAG (10 folds, the last epoch, nothing selected) and on
PROTEINS (three folds; GNNC_LONG=all: ten), kinds of bonds of atoms, shares of bonds of molecules. usage: test_molecules.py BUILD"""
import json
import os
import sys

import numpy as np
from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(os.path.dirname(ROOT), "shared", "data")


def train(box, model, data, *more):
    name, folder = os.path.basename(model), os.path.join(DATA, data)
    box.must(box.gnnc, "build", os.path.join(ROOT, "examples", model + ".gnn"), "--data", folder, "--cpu=native", "-o", box.path(name))
    box.must(box.path(name), "train", "--data", folder, "--folds", 10, "--metrics", "m.jsonl", *more, limit=600)
    with open(box.path("m.jsonl")) as f:
        return [r for r in map(json.loads, f) if r.get("final")]


def mean(runs, key):
    return float(np.mean([r[key] for r in runs]))


def judge(value, least):
    return None if value >= least else "%.4f, wanted at least %.2f" % (value, least)


box = Sandbox(sys.argv[1], "molecules")
if not os.path.isdir(os.path.join(DATA, "tu_mutag")):
    box.skip("all", "there is no shared/data/tu_mutag")
    box.close()
box.report("gin_mutag", judge(mean(train(box, "graphs", "tu_mutag"), "test_acc"), 0.84))
long_run = os.environ.get("GNNC_LONG") == "all"
proteins = [r for i in range(3) for r in train(box, "graphs", "tu_proteins", "--fold", i, "--epochs", 40)] if not long_run else \
    train(box, "graphs", "tu_proteins")
box.report("gin_proteins", judge(mean(proteins, "test_acc"), 0.72 if long_run else 0.68))
box.report("bonds", judge(mean(train(box, "molecules/bonds", "tu_mutag", "--fold", 0), "label_acc"), 0.86))
runs = train(box, "molecules/aromatic", "tu_mutag", "--fold", 0)
box.report("aromatic", judge(0.1 - mean(runs, "test_mae"), 0))
box.close()
