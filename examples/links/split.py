#!/usr/bin/env python3
"""Takes edges out of an undirected graph to be predicted: a data folder whose edge_index has the others, in both
directions, and so is all that messages pass along.

  val_index, test_index     [2, K] the edges taken out, in one direction, and as many pairs that are no edge
  val_label, test_label     [K] 1 for the former
  lists_index, lists_label  each test edge, and 50 pairs with its source that are no edge

usage: split.py FOLDER OUT [SEED [VAL TEST]]     VAL, TEST: shares, 0.05 and 0.1"""
import json
import os
import shutil
import sys

import numpy as np

LIST = 50


def no_edges(sources, known, n, rng):
    """For each source a target that it has no edge to."""
    out = []
    for u in sources:
        v = rng.integers(n)
        while v == u or (u, v) in known:
            v = rng.integers(n)
        out.append((u, v))
    return np.array(out).T.reshape(2, -1)


def main(folder, out, seed=0, val=0.05, test=0.1):
    rng = np.random.default_rng(int(seed))
    meta = json.load(open(os.path.join(folder, "meta.json")))
    edges = np.load(os.path.join(folder, "edge_index.npy"))
    n, known = meta["num_nodes"], set(map(tuple, edges.T))
    once = edges[:, edges[0] < edges[1]]
    once = once[:, rng.permutation(once.shape[1])]
    n_val, n_test = int(float(val) * once.shape[1]), int(float(test) * once.shape[1])
    parts = {"val": once[:, :n_val], "test": once[:, n_val:n_val + n_test]}
    train = once[:, n_val + n_test:]
    arrays = {"edge_index": np.concatenate([train, train[::-1]], 1)}
    for name, p in parts.items():
        arrays[name + "_index"] = np.concatenate([p, no_edges(rng.integers(n, size=p.shape[1]), known, n, rng)], 1)
        arrays[name + "_label"] = np.repeat([1, 0], p.shape[1])
    heads = np.repeat(parts["test"][0], LIST)
    arrays["lists_index"] = np.concatenate([parts["test"], no_edges(heads, known, n, rng)], 1)
    arrays["lists_label"] = np.repeat([1, 0], [n_test, n_test * LIST])
    os.makedirs(out, exist_ok=True)
    for f in os.listdir(folder):
        if f.startswith("x") and f.endswith(".npy"):
            shutil.copy(os.path.join(folder, f), out)
    for name, a in arrays.items():
        np.save(os.path.join(out, name + ".npy"), np.ascontiguousarray(a))
    keep = {k: meta[k] for k in ("num_nodes", "feature_dim") if k in meta}
    json.dump({**keep, "num_edges": arrays["edge_index"].shape[1]}, open(os.path.join(out, "meta.json"), "w"))


main(*sys.argv[1:])
