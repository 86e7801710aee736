#!/usr/bin/python3
"""Makes data folders of graphs with several kinds of edges and nodes, for layers on one graph with types and for those on a schema.

usage: typed_graph.py GRAPH DIR WIDTH     GRAPH: rmat, rmat_tiny, or a folder with edge_index.npy and edge_type.npy

`rmat`: the nodes of `arxiv` (rows.py) are of four kinds, and a node has edges into nodes of its own kind and of the next one: eight
relations, each with its own kinds at the ends. Edges are drawn as in graph.py, and those between other kinds are left out. A folder's
graph has one kind of nodes. DIR gets the edges sorted by target, for all nodes as one (`edge_index`, `edge_type`, `x`) and by
kind (`k0.x`) and relation (`r0.edge_index`), and cotangents `cot`; meta.json has `first`, the first node of each kind and the count of
all, and `relations`.
"""
import json
import os
import sys

import numpy as np

import graph
import rows

KINDS = 4


def drawn(size):
    """(edges, types, first node of each kind, kinds at the ends of each relation)"""
    nodes, wanted = rows.SIZES[size][:2]
    src, dst = graph.rmat(nodes, 2 * wanted, np.random.default_rng(1))
    first = np.array([nodes * k // KINDS for k in range(KINDS + 1)])
    kind = np.searchsorted(first, np.arange(nodes), "right") - 1
    step = (kind[dst] - kind[src]) % KINDS
    keep = step < 2
    ends = [(k, (k + s) % KINDS) for k in range(KINDS) for s in range(2)]
    return np.stack([src, dst])[:, keep], (2 * kind[src] + step)[keep], first, ends


def loaded(folder):
    edges, types = (np.load(os.path.join(folder, name + ".npy")) for name in ("edge_index", "edge_type"))
    with open(os.path.join(folder, "meta.json")) as f:
        meta = json.load(f)
    order = np.lexsort((edges[0], edges[1]))
    return edges[:, order], types[order], np.array([0, meta["num_nodes"]]), [(0, 0)] * meta["num_relations"]


def make(which, folder, width):
    """The folder's meta.json; what is there stays."""
    path = os.path.join(folder, "meta.json")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        edges, types, first, ends = loaded(which) if os.path.isdir(which) else drawn("tiny" if which == "rmat_tiny" else "arxiv")
        write(folder, edges, types, first, ends, width)
    with open(path) as f:
        return json.load(f)


def write(folder, edges, types, first, ends, width):
    rng, kinds, n = np.random.default_rng(2), len(first) - 1, int(first[-1])
    x = rng.standard_normal((n, width), np.float32)
    arrays = {"edge_index": edges, "edge_type": types, "x": x, "cot": rng.standard_normal((n, width), np.float32)}
    arrays.update({"k%d.x" % k: x[first[k]:first[k + 1]] for k in range(kinds)})
    for r, (s, t) in enumerate(ends):
        arrays["r%d.edge_index" % r] = edges[:, types == r] - np.array([[first[s]], [first[t]]])
    for name, array in arrays.items():
        graph.save(folder, name, np.ascontiguousarray(array))
    meta = {"num_nodes": n, "num_edges": edges.shape[1], "num_relations": len(ends), "first": first.tolist(),
            "relations": {"r%d" % r: ["k%d" % s, "k%d" % t] for r, (s, t) in enumerate(ends)}}
    meta.update({"num_k%d" % k: int(first[k + 1] - first[k]) for k in range(kinds)})
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump(meta, f, indent=1)


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2], int(sys.argv[3]))
