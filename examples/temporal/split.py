#!/usr/bin/env python3
"""Cuts a list of events (src, dst, t, sorted by time) into a data folder: the first are what messages pass along, later ones are to be
predicted, beside as many pairs of the same senders with anybody.

  edge_index, age                           the first 80 % of the events, and log(1 + hours) from each to the last of them
  later_index, val_index, test_index        [2, K] the events up to 88 %, 90 % and 100 %, then the other pairs
  later_label, val_label, test_label        [K] 1 for the former

usage: split.py FOLDER OUT"""
import json
import os
import sys

import numpy as np


def main(folder, out):
    load = lambda name: np.load(os.path.join(folder, name + ".npy"))
    ends, t, rng = np.stack([load("src"), load("dst")]), load("t"), np.random.default_rng(0)
    if (np.diff(t) < 0).any():
        sys.exit("events are wanted in the order of time")
    n = json.load(open(os.path.join(folder, "meta.json")))["num_nodes"]
    cuts = [int(share * len(t)) for share in (0.8, 0.88, 0.9, 1)]
    arrays = {"edge_index": ends[:, :cuts[0]], "age": np.log1p((t[cuts[0] - 1] - t[:cuts[0]]) / 3600).astype("f4")}
    for name, a, b in zip(("later", "val", "test"), cuts, cuts[1:]):
        others = np.stack([ends[0, a:b], rng.integers(0, n, b - a)])
        arrays[name + "_index"] = np.concatenate([ends[:, a:b], others], 1)
        arrays[name + "_label"] = np.repeat(np.array([1, 0], "f4"), b - a)
    os.makedirs(out, exist_ok=True)
    for name, a in arrays.items():
        np.save(os.path.join(out, name + ".npy"), np.ascontiguousarray(a))
    json.dump({"num_nodes": n, "num_edges": cuts[0]}, open(os.path.join(out, "meta.json"), "w"))


main(*sys.argv[1:])
