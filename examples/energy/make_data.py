#!/usr/bin/env python3
"""Snapshots of a cluster of eight atoms that a Morse potential holds together, from a Langevin simulation, as a data
folder of one graph per snapshot: pos [atoms, 3], force [atoms, 3], energy [snapshots], edges between all atoms of one.
start.bin has the first snapshot as raw doubles. usage: make_data.py FOLDER [SNAPSHOTS]"""
import json
import os
import sys

import numpy as np

ATOMS, DEPTH, WIDTH, LENGTH = 8, 1.0, 2.0, 1.0


def morse(x):
    """Energy and forces: each pair has DEPTH ((1 - exp(-WIDTH (r - LENGTH)))^2 - 1)."""
    d = x[:, None] - x[None]
    r = np.sqrt((d ** 2).sum(-1) + np.eye(len(x)))
    g = np.exp(-WIDTH * (r - LENGTH)) * (1 - np.eye(len(x)))
    slope = 2 * DEPTH * WIDTH * (1 - g) * g
    return DEPTH * ((g - 2) * g).sum() / 2, -((slope / r)[..., None] * d).sum(1)


def snapshots(n, rng, step=0.01, friction=1.0, heat=0.12):
    cube = np.array([[i & 1, i >> 1 & 1, i >> 2] for i in range(ATOMS)], float)
    x, v = cube + 0.05 * rng.normal(size=cube.shape), np.zeros_like(cube)
    for k in range(200 + 40 * n):
        v += step * morse(x)[1] / 2
        x += step * v / 2
        v = np.exp(-friction * step) * v + np.sqrt(heat * (1 - np.exp(-2 * friction * step))) * rng.normal(size=v.shape)
        x += step * v / 2
        v += step * morse(x)[1] / 2
        if k >= 200 and k % 40 == 0:
            yield x - x.mean(0)


def main(folder, n=100):
    xs = list(snapshots(n, np.random.default_rng(1)))
    energies, forces = zip(*(morse(x) for x in xs))
    pairs = np.array([(i, j) for i in range(ATOMS) for j in range(ATOMS) if i != j]).T
    arrays = {
        "edge_index": np.concatenate([pairs + ATOMS * k for k in range(n)], 1),
        "batch": np.repeat(np.arange(n), ATOMS), "pos": np.concatenate(xs), "force": np.concatenate(forces),
        "energy": np.array(energies), "train_mask": np.arange(n) % 5 != 0, "test_mask": np.arange(n) % 5 == 0}
    os.makedirs(folder, exist_ok=True)
    for name, a in arrays.items():
        np.save(os.path.join(folder, name + ".npy"), np.ascontiguousarray(a))
    xs[0].tofile(os.path.join(folder, "start.bin"))
    json.dump({"num_nodes": ATOMS * n, "num_graphs": n}, open(os.path.join(folder, "meta.json"), "w"))


main(sys.argv[1], *map(int, sys.argv[2:]))
