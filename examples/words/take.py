#!/usr/bin/env python3
"""Takes the most frequent words out of Cora's features, to be predicted: words [papers, K] of 0 and 1, and x without them.
The masks are drawn: 60 % of the papers to learn from, 20 % each for the others. usage: take.py FOLDER OUT [K]"""
import json
import os
import sys

import numpy as np


def main(folder, out, k=50):
    k, meta = int(k), json.load(open(os.path.join(folder, "meta.json")))
    n, width = meta["num_nodes"], meta["feature_dim"]
    rows, columns, values = (np.load(os.path.join(folder, "x_%s.npy" % p)) for p in ("indptr", "indices", "data"))
    x = np.zeros((n, width), "f4")
    x[np.repeat(np.arange(n), np.diff(rows)), columns] = values != 0
    often = np.sort(np.argsort(-x.sum(0), kind="stable")[:k])
    part = np.random.default_rng(0).random(n)
    arrays = {"edge_index": np.load(os.path.join(folder, "edge_index.npy")), "words": x[:, often].astype("i8"),
              "x": np.delete(x, often, 1), "train_mask": part < 0.6, "val_mask": (part >= 0.6) & (part < 0.8), "test_mask": part >= 0.8}
    os.makedirs(out, exist_ok=True)
    for name, a in arrays.items():
        np.save(os.path.join(out, name + ".npy"), np.ascontiguousarray(a))
    json.dump({"num_nodes": n, "num_edges": arrays["edge_index"].shape[1]}, open(os.path.join(out, "meta.json"), "w"))


main(*sys.argv[1:])
