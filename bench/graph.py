#!/usr/bin/python3
"""Makes data folders for the benchmark: R-MAT graphs, and the inputs that one layer needs on a graph.

usage: graph.py SIZE DIR [--seed S]     SIZE: a name of rows.SIZES, or NODES,EDGES,FEATURES,CLASSES

Edges are drawn by R-MAT (Chakrabarti, Zhan, Faloutsos, 2004; quadrants .57 .19 .19 .05), each pair once and in both directions,
without self-loops; ids are shuffled, so that no locality is handed out for free. The same size and seed give the same files.
Labels are drawn too: these graphs are for speed and memory, never for accuracy.
"""
import argparse
import json
import os

import numpy as np

import rows


def pairs(nodes, wanted, rng):
    """`wanted` different pairs (low, high) of node ids as low * nodes + high, in random order."""
    levels = max(int(nodes - 1).bit_length(), 1)
    found = np.empty(0, np.int64)
    while len(found) < wanted:
        n = int(1.3 * (wanted - len(found))) + 1000
        a, b = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for _ in range(levels):
            u = rng.random(n, np.float32)
            a = 2 * a + (u >= 0.76)
            b = 2 * b + (((u >= 0.57) & (u < 0.76)) | (u >= 0.95))
        ok = (a < nodes) & (b < nodes) & (a != b)
        low, high = np.minimum(a, b)[ok], np.maximum(a, b)[ok]
        found = np.unique(np.concatenate([found, low * nodes + high]))
    return rng.permutation(found)[:wanted]


def rmat(nodes, edges, rng):
    """[2, edges] int64: sources and targets, sorted by target."""
    name = rng.permutation(nodes)
    p = pairs(nodes, edges // 2, rng)
    a, b = name[p // nodes], name[p % nodes]
    src, dst = np.concatenate([a, b]), np.concatenate([b, a])
    order = np.lexsort((src, dst))
    return np.stack([src[order], dst[order]])


def save(folder, name, array):
    path = os.path.join(folder, name + ".npy")
    np.save(path + ".part.npy", array)
    os.replace(path + ".part.npy", path)


def make(folder, nodes, edges, features, classes, seed=1, title="rmat"):
    rng = np.random.default_rng(seed)
    os.makedirs(folder, exist_ok=True)
    save(folder, "edge_index", rmat(nodes, edges, rng))
    save(folder, "x", rng.standard_normal((nodes, features), np.float32))
    save(folder, "y", rng.integers(0, classes, nodes))
    part = rng.random(nodes)
    for name, low, high in (("train", 0, .6), ("val", .6, .8), ("test", .8, 1)):
        save(folder, name + "_mask", (part >= low) & (part < high))
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump({"name": title, "num_nodes": nodes, "num_edges": edges // 2 * 2, "feature_dim": features,
                   "num_classes": classes, "task": "node classification", "source": "R-MAT, seed %d" % seed}, f, indent=1)


def ensure(work, size):
    """The folder of a named size, made once."""
    folder = os.path.join(work, size)
    if not os.path.exists(os.path.join(folder, "meta.json")):
        make(folder, *rows.SIZES[size], title=size)
    return folder


def case(work, size, width, inputs):
    """A folder with the graph of `size` and drawn inputs: x and cot [V, width], edge inputs in the order of the edges."""
    base, folder = ensure(work, size), os.path.join(work, "%s-w%d" % (size, width))
    os.makedirs(folder, exist_ok=True)
    n, m = rows.SIZES[size][0], rows.SIZES[size][1] // 2 * 2
    shapes = {"x": (n, width), "cot": (n, width), "pseudo": (m, rows.N_PSEUDO), "edge_attr": (m, rows.N_EDGE_FEATURES),
              "l": (n, rows.HEADS), "r": (n, rows.HEADS), "edge_type": (m,)}
    edges = os.path.join(folder, "edge_index.npy")
    if not os.path.exists(edges):
        os.symlink(os.path.abspath(os.path.join(base, "edge_index.npy")), edges)
    for k, (name, shape) in enumerate(shapes.items()):
        if name not in ["x", "cot"] + inputs or os.path.exists(os.path.join(folder, name + ".npy")):
            continue
        rng = np.random.default_rng(100 + k)
        drawn = rng.random if name == "pseudo" else rng.standard_normal
        save(folder, name, rng.integers(rows.N_RELATIONS, size=m) if name == "edge_type" else drawn(shape, np.float32))
    return folder


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("size"), ap.add_argument("dir"), ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    size = rows.SIZES[a.size] if a.size in rows.SIZES else tuple(int(n) for n in a.size.split(","))
    make(a.dir, *size, seed=a.seed, title=a.size)
    print("%s: %d nodes, %d edges, %d features, %d classes" % ((a.dir, size[0], size[1] // 2 * 2) + size[2:]))


if __name__ == "__main__":
    main()
